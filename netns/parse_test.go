package netns

import (
	"os"
	"strings"
	"testing"
)

func TestCountersAreFoundByName(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want uint64
		ok   bool
	}{
		"in its place":        {"Tcp: RtoMin InSegs Last\nTcp: -1 17 2\n", 17, true},
		"first":               {"Ip: InSegs\nIp: 3\nTcp: InSegs Last\nTcp: 17 2\n", 17, true},
		"last, no newline":    {"Tcp: RtoMin InSegs\nTcp: -1 17", 17, true},
		"largest":             {"Tcp: InSegs\nTcp: 18446744073709551615\n", 1<<64 - 1, true},
		"of another group":    {"TcpExt: InSegs\nTcpExt: 17\n", 0, false},
		"a longer name":       {"Tcp: InSegsToo\nTcp: 17\n", 0, false},
		"without its value":   {"Tcp: RtoMin InSegs\nTcp: 17\n", 0, false},
		"without values":      {"Tcp: InSegs\n", 0, false},
		"negative":            {"Tcp: InSegs\nTcp: -1\n", 0, false},
		"beyond 64 bits":      {"Tcp: InSegs\nTcp: 18446744073709551616\n", 0, false},
		"no number":           {"Tcp: InSegs\nTcp: x\n", 0, false},
		"told twice":          {"Tcp: InSegs InSegs\nTcp: 1 2\n", 0, false},
		"nothing":             {"", 0, false},
		"cut within the name": {"Tcp: RtoMin InSe", 0, false},
	} {
		got := make([]uint64, 1)
		err := parseCounters([]byte(c.text), "Tcp:", []string{"InSegs"}, got)
		if (err == nil) != c.ok || c.ok && got[0] != c.want {
			t.Errorf("%s: %d, %v", name, got, err)
		}
	}
}

func TestRefusedIsNeverNegative(t *testing.T) {
	before := Counters{OutRsts: 10, AbortOnClose: 5, AbortOnData: 5}
	after := Counters{OutRsts: 11, AbortOnClose: 6, AbortOnData: 6} // an abort is counted before its RST is sent
	if n := after.Refused(before); n != 0 {
		t.Errorf("%d refused", n)
	}
}

func FuzzParseCounters(f *testing.F) {
	for _, file := range []string{"snmp", "netstat"} {
		text, err := os.ReadFile("/proc/thread-self/net/" + file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Add("Tcp: InSegs OutRsts\nTcp: 1 2\n")
	f.Fuzz(func(t *testing.T, text string) {
		got := make([]uint64, 2)
		err := parseCounters([]byte(text), "Tcp:", []string{"InSegs", "OutRsts"}, got)
		if err == nil && (!strings.Contains(text, "InSegs") || !strings.Contains(text, "OutRsts")) {
			t.Errorf("found what is not there: %d", got)
		}
	})
}
