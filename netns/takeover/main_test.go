package takeover

import (
	"os"
	"testing"

	"lameduck/netns/netnstest"
)

func TestMain(m *testing.M) {
	if os.Getenv("GORACE") == "" {
		os.Setenv("GORACE", "atexit_sleep_ms=0") // the race detector sleeps a second at each process's end, and there are many
	}
	os.Exit(netnstest.Main(m))
}
