package admin

import (
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"

	"lameduck/drain"
)

// series is the whole map of series; zero values stand where a test gives none.
func series(change map[string]string) map[string]string {
	all := map[string]string{
		`lameduck_phase{phase="serving"}`:     "0",
		`lameduck_phase{phase="draining"}`:    "0",
		`lameduck_phase{phase="covering"}`:    "0",
		`lameduck_phase{phase="done"}`:        "0",
		`lameduck_holds`:                      "0",
		`lameduck_connections`:                "0",
		`lameduck_owed_connections`:           "0",
		`lameduck_propagation_lag_seconds`:    "0",
		`lameduck_refused_total`:              "0",
		`lameduck_health_checks_total`:        "0",
		`lameduck_health_checks_failed_total`: "0",
		`lameduck_sources_checking`:           "0",
		`lameduck_sources_told`:               "0",
		`lameduck_relayed_total`:              "0",
		`lameduck_relay_open`:                 "0",
		`lameduck_relay_failed_total`:         "0",
		`lameduck_relay_looped_total`:         "0",
		`lameduck_relay_peers`:                "0",
		`lameduck_relay_peers_answering`:      "0",
		`lameduck_degraded`:                   "0",
		`lameduck_build_info{version="v1",goversion="` + runtime.Version() + `"}`: "1",
	}
	maps.Copy(all, change)
	return all
}

func TestMetricsAreTheWholeSeriesMap(t *testing.T) {
	for _, test := range []struct {
		name   string
		status drain.Status
		want   map[string]string
	}{
		{"serving", drain.Status{Phase: drain.Serving}, series(map[string]string{
			`lameduck_phase{phase="serving"}`: "1",
			`lameduck_health_checks_total`:    "1",
		})},
		{"covering", drain.Status{
			Phase: drain.Covering, Holds: 2, Connections: 12, Owed: 3, LagSeconds: 1.25, Refused: 1 << 40,
			Relay:    drain.Relay{Relayed: 7, Open: 4, Failed: 1, Looped: 2, Checks: 5, PeersKnown: 3, PeersAnswer: 2},
			Degraded: []string{"a", "b"},
			Sources:  []drain.Source{{LastAnswer: drain.AnswerFailed, Told: true}, {LastAnswer: drain.AnswerWell}, {}},
		}, series(map[string]string{
			`lameduck_phase{phase="covering"}`:    "1",
			`lameduck_holds`:                      "2",
			`lameduck_connections`:                "12",
			`lameduck_owed_connections`:           "3",
			`lameduck_propagation_lag_seconds`:    "1.25",
			`lameduck_refused_total`:              "1.099511627776e+12",
			`lameduck_sources_checking`:           "2",
			`lameduck_sources_told`:               "1",
			`lameduck_health_checks_total`:        "6",
			`lameduck_health_checks_failed_total`: "6", // 5 on a taken port, 1 on the admin address
			`lameduck_relayed_total`:              "7",
			`lameduck_relay_open`:                 "4",
			`lameduck_relay_failed_total`:         "1",
			`lameduck_relay_looped_total`:         "2",
			`lameduck_relay_peers`:                "3",
			`lameduck_relay_peers_answering`:      "2",
			`lameduck_degraded`:                   "2",
		})},
	} {
		t.Run(test.name, func(t *testing.T) {
			backend := newFake()
			backend.status, backend.draining = test.status, test.status.Phase != drain.Serving
			base, _ := serve(t, backend, nil)
			get(t, client(t, false), base+"/healthz") // fails in a drain
			r := get(t, client(t, false), base+"/metrics")
			if want := "text/plain; version=0.0.4; charset=utf-8"; r.header.Get("Content-Type") != want {
				t.Errorf("the type is %q", r.header.Get("Content-Type"))
			}
			if got := parse(t, r.body); !maps.Equal(got, test.want) {
				t.Errorf("got  %v\nwant %v", got, test.want)
			}
		})
	}
}

// parse reads the text format, and holds it to its rules: HELP, TYPE, then the family's series; counters end in _total.
func parse(t *testing.T, text string) map[string]string {
	t.Helper()
	got := make(map[string]string)
	var family, kind string
	var families []string
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		fields := strings.SplitN(line, " ", 4)
		switch {
		case strings.HasPrefix(line, "# HELP "):
			family, kind = fields[2], ""
			if slices.Contains(families, family) || len(fields) < 4 || fields[3] == "" {
				t.Errorf("%q: a second one, or one without text", line)
			}
			families = append(families, family)
		case strings.HasPrefix(line, "# TYPE "):
			kind = fields[3]
			if fields[2] != family || (kind == "counter") != strings.HasSuffix(family, "_total") {
				t.Errorf("%q does not fit %s", line, family)
			}
		default:
			cut := strings.LastIndex(line, " ")
			if name, _, _ := strings.Cut(line[:cut], "{"); name != family || kind == "" {
				t.Errorf("%q does not belong to %s", line, family)
			}
			got[line[:cut]] = line[cut+1:]
		}
	}
	return got
}
