package sockdiag_test

import (
	"net"
	"testing"

	"lameduck/netns/netnstest"
	"lameduck/netns/sockdiag"
)

// BenchmarkDump dumps a namespace of 2,000 connections, that is 4,000 sockets, and a listener.
func BenchmarkDump(b *testing.B) {
	netnstest.New(b).Do(b, func() {
		listener, idle := listen(b, "[::]:0"), listen(b, "127.0.0.1:0")
		for range 2000 {
			connect(b, listener, "127.0.0.1")
		}
		dumper := open(b)
		for _, c := range []struct {
			name  string
			query sockdiag.Query
			want  int
		}{
			{"all", sockdiag.Query{}, 4002},
			{"port", sockdiag.Query{Ports: []uint16{portOf(listener)}}, 2001},
			{"none-of-30-ports", sockdiag.Query{Ports: make([]uint16, 30)}, 0},
			{"idle-port", sockdiag.Query{Ports: []uint16{portOf(idle)}}, 1},
			{"listeners", sockdiag.Query{States: sockdiag.Of(sockdiag.Listen)}, 2},
		} {
			b.Run(c.name, func(b *testing.B) {
				b.ReportAllocs()
				count := 0
				for b.Loop() {
					count = 0
					err := dumper.Dump(c.query, func(*sockdiag.Socket) bool {
						count++
						return true
					})
					if err != nil {
						b.Fatal(err)
					}
				}
				if count != c.want {
					b.Fatalf("%d sockets, want %d", count, c.want)
				}
				b.ReportMetric(float64(count), "sockets")
			})
		}
		b.Run("proc", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := sockdiag.ProcDump(sockdiag.Query{}, func(*sockdiag.Socket) bool { return true }); err != nil {
					b.Fatal(err)
				}
			}
		})
	})
}

// BenchmarkDumpAmidForeignSockets dumps an empty namespace while another one of the machine has 20,000 sockets (C30):
// the walk goes by them all.
func BenchmarkDumpAmidForeignSockets(b *testing.B) {
	netnstest.New(b).Do(b, func() {
		var listener *net.TCPListener
		for i := range connections(b) {
			if i%1000 == 0 { // the accept queue, where they stay, has an end
				listener = listen(b, "127.0.0.1:0")
			}
			dial(b, listener, "127.0.0.1")
		}
	})
	netnstest.New(b).Do(b, func() {
		dumper := open(b)
		b.ReportAllocs()
		for b.Loop() {
			err := dumper.Dump(sockdiag.Query{}, func(s *sockdiag.Socket) bool {
				b.Fatalf("foreign: %+v", s)
				return false
			})
			if err != nil {
				b.Fatal(err)
			}
		}
	})
}
