package sockdiag

import (
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

const procHead = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"

func FuzzProcTable(f *testing.F) {
	f.Add(procHead+"   0: 0100007F:1F91 00000000:0000 0A 00000000:00000002 00:00000000 00000000 65532        0 22977 1 0 100 0 0 10 0\n", false)
	f.Add(procHead+"   0: 0000000000000000FFFF00000100007F:1F90 0000000000000000FFFF00000100007F:86FE 01 00000000:00000005 00:00000000 00000000 65532        0 23661 1 0 20 4 30 10 -1\n", true)
	f.Add(procHead+"   1: 0100007F:1F91 0100007F:CFEE 06 00000000:00000000 03:0000176F 00000000     0        0 0 3 0\n", false)
	f.Add(procHead+"   1: 0100007F:1F91 01", false)
	f.Fuzz(func(t *testing.T, text string, v6 bool) {
		family := uint8(unix.AF_INET)
		if v6 {
			family = unix.AF_INET6
		}
		_ = procTable(strings.NewReader(text), family, Query{}, func(s *Socket) bool {
			checkDecoded(t, s)
			if s.State == 0 || s.State > NewSynRecv {
				t.Errorf("state %d", s.State)
			}
			return true
		})
	})
}

func TestProcLineIsRead(t *testing.T) {
	if ne32([]byte{1, 0, 0, 0}) != 1 {
		t.Skip("the line below is a little-endian machine's")
	}
	line := "  12: 0000000000000000FFFF00000100007F:1F90 0000000000000000FFFF00000200007F:86FE 08 0000000A:00000005 00:00000000 00000000 65532        0 23661 1 0 20 4 30 10 -1"
	want := Socket{
		Local: netip.MustParseAddrPort("127.0.0.1:8080"), Remote: netip.MustParseAddrPort("127.0.0.2:34558"),
		Inode: 23661, Family: unix.AF_INET6, State: CloseWait, RQueue: 5, WQueue: 10,
	}
	var got Socket
	if err := parseProc([]byte(line), unix.AF_INET6, &got); err != nil || got != want {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	if err := parseProc([]byte(line), unix.AF_INET, &got); err == nil {
		t.Error("an IPv6 line passed for IPv4")
	}
}
