package takeover

import (
	"testing"
	"testing/synctest"
	"time"
)

// The kernel tells of a socket's death after its FINs are through: the end of an own connection is remembered, not for ever.
func TestEndedConnectionIsOwnedForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c conns
		first := pair{appListener.Addr, at(clientIP, 1)}
		c.remove(&link{pair: first})
		for range 10 { // others end meanwhile
			time.Sleep(memory / 10)
			c.remove(&link{pair: pair{appListener.Addr, at(clientIP, 2)}})
		}
		if ours, _ := c.owns(first); !ours {
			t.Error("it is forgotten too early")
		}
		for port := range uint16(30) {
			time.Sleep(memory / 10)
			c.remove(&link{pair: pair{appListener.Addr, at(clientIP, 100+port)}})
		}
		if ours, _ := c.owns(first); ours {
			t.Error("it is never forgotten")
		}
	})
}

func TestClientThatComesAgainFromItsPortIsOwned(t *testing.T) {
	var c conns
	p := pair{appListener.Addr, at(clientIP, 1)}
	old, again := &link{pair: p}, &link{pair: p}
	c.open = map[pair]*link{p: again}
	c.remove(old)
	if c.open[p] != again {
		t.Error("the end of the connection before has taken it away")
	}
}
