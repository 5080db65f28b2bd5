package sockdiag

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// messageOf makes an inet_diag_msg of an IPv4 listener with the given attributes.
func messageOf(attributes ...[]byte) []byte {
	b := make([]byte, msgLen)
	b[msgFamily], b[msgState] = unix.AF_INET, byte(Listen)
	for _, a := range attributes {
		b = append(b, a...)
	}
	return b
}

// attribute is one netlink attribute, padded.
func attribute(kind uint16, value []byte) []byte {
	b := make([]byte, align(attrHeader+len(value)))
	put16(b, uint16(attrHeader+len(value)))
	put16(b[2:], kind)
	copy(b[attrHeader:], value)
	return b
}

func TestTCPInfoOfOtherKernels(t *testing.T) {
	full := make([]byte, infoLen)
	put32(full[infoLastDataSent:], 7)
	put32(full[infoLastDataRecv:], 9)
	put32(full[infoRoundTrip:], 250)
	binary.NativeEndian.PutUint64(full[infoBytesAcked:], 1<<40)
	put32(full[infoDataSegsIn:], 3)
	put32(full[infoDataSegsOut:], 4)
	want := Info{LastDataSent: 7 * time.Millisecond, LastDataRecv: 9 * time.Millisecond, RoundTrip: 250 * time.Microsecond, BytesAcked: 1 << 40, DataSegsIn: 3, DataSegsOut: 4}
	for name, c := range map[string]struct {
		info []byte
		has  bool
	}{
		"as we know it":                 {full, true},
		"longer":                        {append(append([]byte{}, full...), make([]byte, 88)...), true},
		"without data segments":         {full[:infoDataSegsIn], false},
		"cut in the middle of a number": {full[:infoLen-2], false},
		"empty":                         {nil, false},
	} {
		var s Socket
		if err := decode(messageOf(attribute(attrInfo, c.info)), &s); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if s.HasInfo != c.has || c.has && s.Info != want || !c.has && s.Info != (Info{}) {
			t.Errorf("%s: %v %+v", name, s.HasInfo, s.Info)
		}
	}
}

func TestDecodeForgetsTheSocketBefore(t *testing.T) {
	s := Socket{V6Only: true, HasInfo: true, Cookie: 1, Info: Info{DataSegsIn: 1}}
	if err := decode(messageOf(), &s); err != nil {
		t.Fatal(err)
	}
	if any := netip.AddrPortFrom(netip.IPv4Unspecified(), 0); s != (Socket{Family: unix.AF_INET, State: Listen, Local: any, Remote: any}) {
		t.Errorf("%+v", s)
	}
}

func TestMalformedMessagesAreRefused(t *testing.T) {
	foreign := messageOf()
	foreign[msgFamily] = unix.AF_UNIX
	for name, b := range map[string][]byte{
		"short":                        messageOf()[:msgLen-1],
		"of another family":            foreign,
		"attribute beyond the end":     messageOf([]byte{8, 0, attrInfo, 0}),
		"attribute without its header": messageOf([]byte{3, 0, attrInfo, 0}),
	} {
		var s Socket
		if err := decode(b, &s); !errors.Is(err, errMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The corpus in testdata was sent by Linux 6.18.
func FuzzDecodeDump(f *testing.F) {
	f.Fuzz(func(t *testing.T, b []byte) {
		a := answers{seq: 1, socket: new(Socket), fn: func(s *Socket) bool {
			checkDecoded(t, s)
			return true
		}}
		_ = a.read(b)
	})
}

func FuzzDecodeEvent(f *testing.F) {
	f.Fuzz(func(t *testing.T, b []byte) {
		_ = new(Watcher).tell(b, func(e Event) {
			checkDecoded(t, &e.Socket)
			if e.Lost {
				t.Error("a message cannot be a loss")
			}
			if e.Listener && e.Socket.Remote.Port() != 0 {
				t.Errorf("listener with a remote port: %+v", e.Socket)
			}
		})
	})
}

func checkDecoded(t *testing.T, s *Socket) {
	t.Helper()
	for _, a := range []netip.AddrPort{s.Local, s.Remote} {
		if !a.IsValid() || a.Addr().Is4In6() || a.Addr().Zone() != "" {
			t.Errorf("address %v", a)
		}
	}
	if !s.HasInfo && s.Info != (Info{}) {
		t.Errorf("info from nowhere: %+v", s.Info)
	}
}

func BenchmarkDecode(b *testing.B) {
	info := make([]byte, 248)
	m := messageOf(attribute(8, []byte{0}), attribute(attrInfo, info), attribute(attrV6Only, []byte{1}))
	var s Socket
	b.ReportAllocs()
	for b.Loop() {
		if err := decode(m, &s); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEvent(b *testing.B) {
	payload := messageOf(attribute(attrInfo, make([]byte, 248)))
	m := make([]byte, unix.SizeofNlMsghdr, unix.SizeofNlMsghdr+len(payload))
	put32(m, uint32(cap(m)))
	put16(m[4:], unix.SOCK_DIAG_BY_FAMILY)
	m = append(m, payload...)
	var watcher Watcher
	count := 0
	b.ReportAllocs()
	for b.Loop() {
		if err := watcher.tell(m, func(Event) { count++ }); err != nil {
			b.Fatal(err)
		}
	}
	if count == 0 {
		b.Fatal("no event")
	}
}
