package sockdiag_test

import (
	"os"
	"testing"

	"lameduck/netns/netnstest"
)

func TestMain(m *testing.M) {
	if os.Getenv(appEnv) != "" {
		os.Exit(app())
	}
	os.Exit(netnstest.Main(m))
}
