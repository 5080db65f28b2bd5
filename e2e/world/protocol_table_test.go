package world_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"lameduck/e2e/world"
)

// The measures of the protocols' table: small, for it has many rows.
const (
	tableRate  = 50
	tableLag   = 3 * time.Second
	tableQuiet = 2 * time.Second
	tableServe = 1500 * time.Millisecond
	tableGrace = 11 * time.Second
)

// TestProtocolsLoseNothing: every protocol, with every manner of application, under load and without any Envoy policy. With
// the hold hook no call fails. Without it what fails is what lameduck counted as refused before its hook started the drain,
// and what was in flight in an application that exits at once. No call is delivered twice. Without lameduck each protocol
// loses calls.
func TestProtocolsLoseNothing(t *testing.T) {
	var rows table
	t.Cleanup(func() {
		t.Log("calls that failed, one pod of three deleted, Envoy hears of it 3 s later:\n" + rows.String())
	})
	for _, p := range protocols {
		for _, onTerm := range []world.TermBehaviour{world.Exit, world.Graceful, world.Serve, world.Ignore} {
			spec := p.with(world.Spec{
				App: world.App{OnTerm: onTerm, ServeFor: tableServe}, Grace: tableGrace, Envoy: world.Envoy{Lag: tableLag},
				Load:     []world.Stream{{Rate: tableRate}},
				Duration: deletedAt + tableLag + tableQuiet + 2*time.Second, Events: deletePods(1),
			})
			for _, hold := range []bool{true, false} {
				name := map[bool]string{true: "hold hook", false: "relay"}[hold]
				t.Run(fmt.Sprintf("%s/%s/%s", p.name, onTerm, name), func(t *testing.T) {
					spec := spec
					spec.Sidecar = world.Sidecar{
						Kind: world.Native, Hold: hold, Relay: true, Args: []string{"--min", "0s", "--quiet", tableQuiet.String()},
					}
					r := run(t, spec)
					f := sortFailures(t, r)
					rows.add(p.name, onTerm, name, r, f)
					f.within(t, r, hold)
					if r.Replayed > 0 {
						t.Errorf("%d delivered twice", r.Replayed)
					}
					if r.Load.Slowest > time.Second {
						t.Errorf("the slowest call took %v", r.Load.Slowest)
					}
					endsBy(t, r, tableEnd(onTerm, hold)+leeway)
				})
			}
		}
		t.Run(p.name+"/exit/nothing", func(t *testing.T) {
			r := run(t, p.with(world.Spec{
				Envoy: world.Envoy{Lag: tableLag}, Load: []world.Stream{{Rate: tableRate, Timeout: 2 * time.Second}},
				Duration: deletedAt + tableLag + time.Second, Events: deletePods(1),
			}))
			rows.add(p.name, world.Exit, "nothing", r, failures{other: r.Load.Failures})
			if n := len(r.Load.Failures); n < tableRate*3/6 {
				t.Errorf("only %d of %d calls lost", n, r.Load.Sent)
			}
		})
	}
}

// tableEnd is when a pod has to have ended.
func tableEnd(onTerm world.TermBehaviour, hold bool) time.Duration {
	switch {
	case onTerm == world.Ignore:
		return tableGrace
	case onTerm == world.Serve && hold:
		return tableLag + tableQuiet + tableServe
	}
	return tableLag + tableQuiet
}

// failures are a run's, by whose doing they are.
type failures struct {
	refused  int // before the drain was started
	inFlight int // in an application that exits at once
	other    []world.Failure
}

// sortFailures of a run whose first pod dies.
func sortFailures(t *testing.T, r world.Result) failures {
	t.Helper()
	var f failures
	pod := r.Pods[0]
	exit, _ := pod.Find("app", world.MarkExit)
	term, _ := pod.Find("app", world.MarkTerm)
	exposed := trigger(t, pod)
	graceful := r.Spec.App.OnTerm == world.Graceful
	if exit.At < exposed || graceful { // its listener died before the trigger, or by itself
		taken, free := loggedAt(t, r, pod, `msg="port taken"`), max(exposed, term.At)
		if taken > free+leeway {
			t.Errorf("the port was taken %v after it could be", taken-free)
		}
		exposed = max(exposed, taken)
	}
	for _, one := range r.Load.Failures {
		done := one.At + one.Took
		switch {
		case !strings.HasPrefix(one.Upstream, pod.Address.String()+":"):
			f.other = append(f.other, one)
		case strings.HasPrefix(one.Flags, "UF") && one.At <= exposed:
			f.refused++
		case one.At <= exit.At && done > exit.At-leeway/5: // the mark is a moment later than the end
			f.inFlight++
		// Kept connections close from SIGTERM on.
		case graceful && one.Flags == "UC" && done >= term.At && one.At <= exit.At:
			f.inFlight++
		default:
			f.other = append(f.other, one)
		}
	}
	return f
}

// within fails the test for each failure that lameduck had to prevent.
func (f failures) within(t *testing.T, r world.Result, hold bool) {
	t.Helper()
	for _, one := range f.other {
		t.Errorf("lost without need: %+v", one)
	}
	// One may have been refused before the news of the listener's death was read: the count begins there.
	if counted := lastWords(t, r.Pods[0]).Refused; f.refused > counted+1 {
		t.Errorf("the client saw %d refused, lameduck %d", f.refused, counted)
	}
	most := 0
	switch onTerm := r.Spec.App.OnTerm; {
	case hold:
		f.inFlight += f.refused
	case onTerm == world.Exit || onTerm == world.Serve:
		return
	case onTerm == world.Graceful && (r.Spec.Protocol == world.HTTP1 || r.Spec.Protocol == world.HTTP2):
		most = 1 // a kept connection that closes can cross with a request: the protocol's doing
	}
	if f.inFlight > most {
		t.Errorf("%d lost", f.inFlight)
	}
}

// table is what the rows showed, in the order in which they ended.
type table struct {
	mu   sync.Mutex
	rows []string
}

func (t *table) add(protocol string, onTerm world.TermBehaviour, setup string, r world.Result, f failures) {
	counted := "–"
	var w words
	if r.Spec.Sidecar.Kind != world.NoSidecar && json.Unmarshal(r.Pods[0].LastWords, &w) == nil {
		counted = fmt.Sprint(w.Refused)
	}
	ended, _ := r.Pods[0].EndedAfter()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rows = append(t.rows, fmt.Sprintf("%-28s  %-8s  %-9s  %3d of %d: %2d refused (lameduck counted %s), %2d in flight, %3d others; %d twice; slowest %6.3f s; pod ended after %5.2f s",
		protocol, onTerm, setup, len(r.Load.Failures), r.Load.Sent, f.refused, counted, f.inFlight, len(f.other), r.Replayed,
		r.Load.Slowest.Seconds(), ended.Seconds()))
}

func (t *table) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	slices.Sort(t.rows)
	return strings.Join(t.rows, "\n")
}
