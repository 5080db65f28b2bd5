package takeover

import (
	"os"
	"testing"

	"lameduck/netns/netnstest"
)

func TestMain(m *testing.M) { os.Exit(netnstest.Main(m)) }
