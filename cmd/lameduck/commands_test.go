package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lameduck/drain"
	"lameduck/netns/netnstest"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(enterEnv); path != "" {
		os.Exit(entered(path))
	}
	if os.Getenv(runEnv) != "" {
		os.Exit(run(context.Background(), os.Args[1:], nil, os.Stdout, os.Stderr))
	}
	if os.Getenv(actEnv) != "" {
		main()
	}
	os.Exit(netnstest.Main(m))
}

// A hook that fails is followed by SIGTERM at once, so a hold without a sidecar is the sleep that lameduck replaces.
func TestHoldWithoutASidecarWaitsAsASleepWould(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var stderr bytes.Buffer
		code := hold(t.Context(), func(context.Context) error {
			time.Sleep(4 * time.Second) // the sidecar goes away after a while
			return errors.New("gone")
		}, &stderr)
		if took := time.Since(start); code != exitFailed || took != 25*time.Second {
			t.Errorf("exit %d after %v", code, took)
		}
		if !strings.Contains(stderr.String(), "gone") || !strings.Contains(stderr.String(), "25s") {
			t.Errorf("said %q", stderr.String())
		}
	})
}

func TestHoldEndsWithTheSidecarsRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var stderr bytes.Buffer
		code := hold(t.Context(), func(context.Context) error { time.Sleep(40 * time.Second); return nil }, &stderr)
		if took := time.Since(start); code != exitOK || took != 40*time.Second || stderr.Len() > 0 {
			t.Errorf("exit %d after %v, %q", code, took, stderr.String())
		}
	})
}

func sampleStatus() drain.Status {
	return drain.Status{
		Phase: drain.Draining, WaitsFor: "quiet: 2.1s of 5s", Trigger: "drain", ElapsedSeconds: 8.04, LagSeconds: 5.9,
		Holds: 2, Released: "", Owed: 1, Connections: 12, Refused: 3, Terminated: true,
		Ports: []drain.Port{{Address: "0.0.0.0:8080", State: "listening"}},
		Sources: []drain.Source{
			{Address: netip.MustParseAddr("10.0.0.7"), LastActivitySeconds: 2.1, Connections: 4, Messages: 44, Owed: 1,
				LastCheckSeconds: 0.4, LastAnswer: drain.AnswerFailed, Told: true, ToldSeconds: 7.31},
			{Address: netip.MustParseAddr("10.0.0.8"), LastActivitySeconds: 0.1, Connections: 1, Messages: 3,
				LastCheckSeconds: 0.9, LastAnswer: drain.AnswerWell, Untold: 2},
			{Address: netip.MustParseAddr("10.0.0.1"), Connections: 8, Messages: 8, Ignored: "looks like the kubelet"},
		},
		Relay:    drain.Relay{Relayed: 7, Open: 1, PeersKnown: 2, PeersAnswer: 1},
		Degraded: []string{"the control socket is taken"},
	}
}

func TestStatusTableShowsWhatAPersonAsks(t *testing.T) {
	var out bytes.Buffer
	if err := writeTable(&out, sampleStatus()); err != nil {
		t.Fatal(err)
	}
	want := `phase          draining
waits for      quiet: 2.1s of 5s
trigger        drain, 8.0s ago
last activity  5.9s after the trigger
SIGTERM        has come
holds          2 waiting
connections    12 open, 1 owed an answer, 3 refused
relay          7 relayed, 1 open, 0 failed, 0 looped, 0 checks failed; 1 of 2 peers answer
degraded       the control socket is taken

PORT          STATE
0.0.0.0:8080  listening

SOURCE    LAST ACTIVITY  NEW CONNECTIONS  MESSAGES  OWED  LAST CHECK        TOLD        REMARK
10.0.0.7  2.1s ago       4                44        1     0.4s ago: failed  7.3s ago    –
10.0.0.8  0.1s ago       1                3         0     0.9s ago: well    no: 2 left  –
10.0.0.1  –              8                8         0     –                 no          looks like the kubelet
`
	if out.String() != want {
		t.Errorf("got:\n%s\nwant:\n%s", out.String(), want)
	}
}

func TestStatusTableWhileServingIsShort(t *testing.T) {
	var out bytes.Buffer
	if err := writeTable(&out, drain.Status{Phase: drain.Serving, WaitsFor: "a trigger"}); err != nil {
		t.Fatal(err)
	}
	want := `phase        serving
waits for    a trigger
SIGTERM      has not come
holds        0 waiting
connections  0 open, 0 owed an answer, 0 refused
`
	if out.String() != want {
		t.Errorf("got:\n%s\nwant:\n%s", out.String(), want)
	}
}

func TestStatusJSONIsTheStatus(t *testing.T) {
	var out bytes.Buffer
	if err := writeJSON(&out, sampleStatus()); err != nil {
		t.Fatal(err)
	}
	var got drain.Status
	if err := json.Unmarshal(out.Bytes(), &got); err != nil || got.Sources[0] != sampleStatus().Sources[0] {
		t.Errorf("%v: %s", err, out.String())
	}
}

func TestVersionIsOneLine(t *testing.T) {
	var out bytes.Buffer
	if code := run(t.Context(), []string{"version"}, nil, &out, &out); code != exitOK || !strings.HasPrefix(out.String(), "lameduck ") || strings.Count(out.String(), "\n") != 1 {
		t.Errorf("exit %d, %q", code, out.String())
	}
}

// A hook's error must say what to look at. It runs in a namespace of its own: elsewhere a sidecar might answer.
func TestNoSidecarIsSaidPlainly(t *testing.T) {
	namespace := netnstest.New(t)
	for _, command := range []string{"drain", "status"} {
		var stderr bytes.Buffer
		code := exitOK
		namespace.Do(t, func() { code = run(t.Context(), []string{command}, nil, &stderr, &stderr) })
		if code != exitFailed || !strings.Contains(stderr.String(), "no lameduck serves @lameduck") {
			t.Errorf("%s: exit %d, %q", command, code, stderr.String())
		}
	}
}
