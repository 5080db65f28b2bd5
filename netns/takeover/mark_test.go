package takeover

import (
	"encoding/hex"
	"testing"
)

// SYNs as TCP_SAVED_SYN gives them: captured on Linux 6.18, cut after the IP header.
func TestMarkIsReadFromBothFamilies(t *testing.T) {
	for name, c := range map[string]struct {
		header string
		want   bool
	}{
		"IPv4, marked":                  {"4504003c1c4640004006b1e60a0900010a090002", true},
		"IPv4, marked, congested":       {"4507003c", true},
		"IPv4, unmarked":                {"4500003c", false},
		"IPv4, another mark":            {"4508003c", false},
		"IPv4, the mark and more":       {"450c003c", false},
		"IPv6, marked":                  {"60400000", true},
		"IPv6, marked, with flow label": {"604abcde", true},
		"IPv6, marked, congested":       {"60712345", true},
		"IPv6, unmarked":                {"60000000", false},
		"IPv6, the upper half set":      {"61400000", false},
		"no SYN was kept":               {"", false},
		"half a header":                 {"45", false},
		"neither family":                {"0504", false},
	} {
		t.Run(name, func(t *testing.T) {
			b, err := hex.DecodeString(c.header)
			if err != nil {
				t.Fatal(err)
			}
			if got := synMarked(b); got != c.want {
				t.Errorf("marked %t", got)
			}
		})
	}
}

func FuzzSYNMarked(f *testing.F) {
	f.Add([]byte{0x45, 0x04})
	f.Add([]byte{0x60, 0x40})
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		if synMarked(b) && b[0]>>4 != 4 && b[0]>>4 != 6 {
			t.Errorf("%x is no IP header", b)
		}
	})
}
