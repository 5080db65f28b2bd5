package takeover

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/big"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// relayed takes the application's port over for a peer that serves so, and returns a connection through it.
func relayed(t *testing.T, serve func(*net.TCPConn)) (*world, *net.TCPConn) {
	t.Helper()
	serveAt(t, at(peerIP, 9090), serve)
	w := run(t, Options{Targets: toPeer}, nil)
	w.take(appListener)
	return w, dialFrom(t, clientIP, appListener.Addr)
}

func TestHalfCloseIsPassedOnBothWays(t *testing.T) {
	inPod(t, func(t *testing.T) {
		w, c := relayed(t, func(c *net.TCPConn) {
			b, err := io.ReadAll(c) // to the client's FIN
			if err == nil {
				_, _ = c.Write(bytes.ToUpper(b))
			}
		})
		_, _ = io.WriteString(c, "\x00hello")
		_ = c.CloseWrite()
		if b, err := io.ReadAll(c); string(b) != "\x00HELLO" || err != nil {
			t.Errorf("%q, %v", b, err)
		}
		until(t, "the relay ends", func() bool { return w.taker.Stats().Open == 0 })
	})
}

func TestServersHalfCloseLeavesTheOtherWayOpen(t *testing.T) {
	inPod(t, func(t *testing.T) {
		got := make(chan string, 1)
		_, c := relayed(t, func(c *net.TCPConn) {
			_, _ = io.WriteString(c, "bye")
			_ = c.CloseWrite()
			if b, _ := io.ReadAll(c); len(b) > 0 { // a probe sends nothing
				got <- string(b)
			}
		})
		if b, err := io.ReadAll(c); string(b) != "bye" || err != nil {
			t.Fatalf("%q, %v", b, err)
		}
		_, _ = io.WriteString(c, "still here")
		_ = c.CloseWrite()
		if s := receive(t, got); s != "still here" {
			t.Errorf("the server got %q", s)
		}
	})
}

func TestServersResetIsPassedOnAfterWhatItSent(t *testing.T) {
	inPod(t, func(t *testing.T) {
		ready := make(chan struct{})
		w, c := relayed(t, func(c *net.TCPConn) {
			if firstRead(c, make([]byte, 1)) {
				_, _ = io.WriteString(c, "half an ans")
				<-ready
				reset(c)
			}
		})
		_, _ = c.Write([]byte{0})
		b := make([]byte, 11)
		if _, err := io.ReadFull(c, b); err != nil {
			t.Fatal(err)
		}
		close(ready)
		if n, err := c.Read(b); !errors.Is(err, unix.ECONNRESET) {
			t.Errorf("after %q: %d, %v", b, n, err)
		}
		until(t, "the relay ends", func() bool { return w.taker.Stats().Open == 0 })
	})
}

// A server that answers early, and resets what the client goes on sending: the answer comes, and no clean end.
func TestEarlyAnswerBeforeResetArrives(t *testing.T) {
	inPod(t, func(t *testing.T) {
		w, c := relayed(t, func(c *net.TCPConn) {
			if firstRead(c, make([]byte, 1)) {
				_, _ = io.WriteString(c, "413")
			}
			_ = c.CloseWrite()
			// Bytes are left unread at the close that follows: the kernel resets.
			_, _ = c.Read(make([]byte, 1))
		})
		_, _ = c.Write(make([]byte, 1))
		b := make([]byte, 3)
		if _, err := io.ReadFull(c, b); err != nil || string(b) != "413" {
			t.Fatalf("%q, %v", b, err)
		}
		var err error
		for err == nil {
			_, err = c.Write(make([]byte, 64<<10))
		}
		if !errors.Is(err, unix.ECONNRESET) && !errors.Is(err, unix.EPIPE) {
			t.Errorf("sending on: %v", err)
		}
		until(t, "the relay ends", func() bool { return w.taker.Stats().Open == 0 })
	})
}

func TestClientsResetIsPassedOn(t *testing.T) {
	inPod(t, func(t *testing.T) {
		got := make(chan error, 1)
		w, c := relayed(t, func(c *net.TCPConn) {
			if !firstRead(c, make([]byte, 1)) { // a probe
				return
			}
			_, _ = c.Write([]byte{1})
			_, err := c.Read(make([]byte, 1))
			got <- err
		})
		_, _ = c.Write([]byte{0})
		if !firstRead(c, make([]byte, 1)) {
			t.Fatal("no answer")
		}
		reset(c)
		if err := receive(t, got); !errors.Is(err, unix.ECONNRESET) {
			t.Errorf("the server saw %v", err)
		}
		until(t, "the relay ends", func() bool { return w.taker.Stats().Open == 0 })
	})
}

// What lameduck resets for its peer's sake is told, since the kernel says nothing of it; what a client resets the kernel tells.
func TestOnlyClientsThatAreResetForTheirPeersSakeAreTold(t *testing.T) {
	inPod(t, func(t *testing.T) {
		peer := serveAt(t, at(peerIP, 9090), func(c *net.TCPConn) {
			b := make([]byte, 1)
			if firstRead(c, b) && b[0] == 'R' {
				_, _ = io.WriteString(c, "answer")
				reset(c)
			}
		})
		w := run(t, Options{Targets: toPeer}, nil)
		w.take(appListener)
		talk := func(first string) net.Conn {
			c := dialFrom(t, clientIP, appListener.Addr)
			_, _ = io.WriteString(c, first)
			return c
		}
		ends := talk("F")
		_, _ = io.ReadAll(ends)
		_ = ends.Close()
		reset(talk("F").(*net.TCPConn))
		c := talk("R")
		_, _ = io.ReadAll(c)
		if e := receive(t, w.resets); e.Remote != addrPort(c.LocalAddr()) || e.Listener != appListener || e.Time.IsZero() {
			t.Errorf("got %+v", e)
		}
		peer.end()
		c, err := net.Dial("tcp", appListener.Addr.String())
		if err == nil { // accepted before the peer's death is known
			_, _ = io.ReadAll(c)
			if e := receive(t, w.resets); e.Remote != addrPort(c.LocalAddr()) {
				t.Errorf("got %+v", e)
			}
			_ = c.Close()
		}
		until(t, "the relays end", func() bool { return w.taker.Stats().Open == 0 })
		if len(w.resets) > 0 {
			t.Errorf("also told: %+v", <-w.resets)
		}
	})
}

func TestManyBytesPassBothWaysUnchanged(t *testing.T) {
	inPod(t, func(t *testing.T) {
		_, c := relayed(t, echo)
		sent := make([]byte, 32<<20)
		_, _ = rand.Read(sent)
		sent[0] = 0
		go func() {
			_, _ = c.Write(sent)
			_ = c.CloseWrite()
		}()
		got, err := io.ReadAll(c)
		if err != nil || !bytes.Equal(got, sent) {
			t.Errorf("%d bytes of %d came back, %v", len(got), len(sent), err)
		}
	})
}

func TestServerThatSpeaksFirstIsRelayed(t *testing.T) {
	inPod(t, func(t *testing.T) {
		_, c := relayed(t, func(c *net.TCPConn) { _, _ = io.WriteString(c, "220 ready\r\n") })
		b := make([]byte, 11)
		if _, err := io.ReadFull(c, b); err != nil || string(b) != "220 ready\r\n" {
			t.Errorf("%q, %v", b, err)
		}
	})
}

// C15: the relay does not touch TLS.
func TestTLSPassesThroughUntouched(t *testing.T) {
	inPod(t, func(t *testing.T) {
		cert := certificate(t)
		_, c := relayed(t, func(c *net.TCPConn) {
			s := tls.Server(c, &tls.Config{Certificates: []tls.Certificate{cert}})
			b := make([]byte, 5)
			if _, err := io.ReadFull(s, b); err == nil {
				_, _ = s.Write(b)
			}
			_ = s.CloseWrite()
		})
		roots := x509.NewCertPool()
		roots.AddCert(cert.Leaf)
		client := tls.Client(c, &tls.Config{RootCAs: roots, ServerName: "backend"})
		if _, err := io.WriteString(client, "hello"); err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(client); string(b) != "hello" || err != nil {
			t.Errorf("%q, %v", b, err)
		}
		if got := client.ConnectionState().PeerCertificates[0]; !got.Equal(cert.Leaf) {
			t.Error("another certificate")
		}
	})
}

func certificate(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"backend"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

func TestRunsEndClosesWhatItOpened(t *testing.T) {
	inPod(t, func(t *testing.T) {
		before := openFiles(t)["socket"]
		t.Run("run", func(t *testing.T) {
			w, c := relayed(t, echo)
			_, _ = c.Write([]byte{0})
			if !firstRead(c, make([]byte, 1)) {
				t.Fatal("no echo")
			}
			sniffed := dialFrom(t, clientIP, appListener.Addr)
			_, _ = io.WriteString(sniffed, "GET /")
			w.taker.Arm(Listener{Addr: at(podIP, appPort+1)})
		})
		if !refused(appListener.Addr) {
			t.Error("the port is still taken")
		}
		if now := openFiles(t)["socket"]; now > before { // pipes and the poller's files are the runtime's, which keeps them
			t.Errorf("%d sockets were open, now %d", before, now)
		}
	})
}

// openFiles counts this process's open files by kind.
func openFiles(t testing.TB) map[string]int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	for _, e := range entries {
		if target, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil {
			kind, _, _ := strings.Cut(target, ":")
			kinds[kind]++
		}
	}
	return kinds
}

// The relay's copies are splice's: each direction holds a pipe. That is also what filesPerRelay counts.
func TestRelayCostsTwoSocketsAndTwoPipes(t *testing.T) {
	inPod(t, func(t *testing.T) {
		// The peer, which is in this process too, echoes without splice.
		serveAt(t, at(peerIP, 9090), func(c *net.TCPConn) {
			for b := make([]byte, 1); firstRead(c, b); {
				_, _ = c.Write(b)
			}
		})
		w := run(t, Options{Targets: toPeer}, func(sys *system) { // both would be sockets now and then
			sys.probe = answersAlways
			sys.own = func() ([]netip.Addr, error) { return nil, nil }
		})
		w.take(appListener)
		pass := func(c *net.TCPConn) {
			t.Helper()
			_, _ = c.Write([]byte{0})
			if !firstRead(c, make([]byte, 1)) {
				t.Fatal("no echo")
			}
		}
		pass(dialFrom(t, clientIP, appListener.Addr))
		before := openFiles(t)
		const more = 20
		for range more {
			pass(dialFrom(t, clientIP, appListener.Addr))
		}
		after := openFiles(t)
		if pipes := after["pipe"] - before["pipe"]; pipes != 4*more {
			t.Errorf("%d ends of pipes for %d connections", pipes, more)
		}
		if sockets := after["socket"] - before["socket"]; sockets != (2+2)*more { // the client's and the peer's are here too
			t.Errorf("%d sockets for %d connections", sockets, more)
		}
		if s := w.taker.Stats(); s.Open != 1+more {
			t.Errorf("%+v", s)
		}
	})
}
