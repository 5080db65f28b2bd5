package kube

import (
	"fmt"
	"testing"
	"time"
)

const (
	shop     = "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices"
	selected = shop + "?kubernetes.io/service-name=app"
)

func named() Options { return Options{Services: []Service{{Name: "app"}}} }
func auto() Options  { return Options{Services: []Service{{}}} }

// C16
func TestPeersServeAndAreNotThisPodNorEnding(t *testing.T) {
	discover(t, auto(), func(t *testing.T, a *api, h *heard) {
		a.put(eventAdded, sliceOf("app-x", "app", 80, pod(1, terminating), pod(2), pod(3, terminating), pod(4, unready), pod(5, unsaid), pod(6, unready, func(e *endpoint) { e.Conditions.Serving = nil })))
		a.put(eventAdded, sliceOf("other-x", "other", 80, pod(9)))
		pass(time.Second)
		same(t, "peers", h.lines(0), "80 10.0.0.2:80 near", "80 10.0.0.5:80 near")
		same(t, "lacks", h.lacks())
	})
}

// C16
func TestNewReplicaBecomesAPeerAndADyingOneCeasesToBe(t *testing.T) {
	for _, o := range []Options{auto(), named()} {
		t.Run(o.Services[0].String(), func(t *testing.T) {
			discover(t, o, func(t *testing.T, a *api, h *heard) {
				a.put(eventAdded, sliceOf("app-x", "app", 80, pod(1), pod(2)))
				pass(time.Second)
				a.put(eventModified, sliceOf("app-x", "app", 80, pod(1), pod(2, terminating), pod(3)))
				pass(0)
				same(t, "after a change", h.lines(0), "80 10.0.0.3:80 near")
				a.put(eventAdded, sliceOf("app-y", "app", 8080, pod(4)))
				pass(0)
				same(t, "after a further slice", h.lines(0), "80 10.0.0.3:80 near", "80 10.0.0.4:8080 near")
				a.put(eventDeleted, sliceOf("app-y", "app", 8080, pod(4)))
				pass(time.Minute)
				same(t, "after that has gone", h.lines(0), "80 10.0.0.3:80 near")
				first := "LIST " + selected + "@0"
				if o.Services[0].Name == "" {
					first = "LIST " + shop + "?@0"
				}
				same(t, "calls", a.called(), first, "WATCH "+selected+"@101")
			})
		})
	}
}

func TestPeerStandsInForThePortOfTheSameName(t *testing.T) {
	discover(t, auto(), func(t *testing.T, a *api, h *heard) {
		mine := sliceOf("app-x", "app", 8080, pod(1), pod(2))
		mine.Ports = append(mine.Ports, slicePort{Name: "grpc", Protocol: "TCP", Port: 9000}, slicePort{Name: "dns", Protocol: "UDP", Port: 53})
		// The next version of the application has its port elsewhere: a named targetPort, so a slice of its own.
		next := sliceOf("app-y", "app", 18080, pod(3))
		next.Ports = append(next.Ports, slicePort{Name: "grpc", Port: 9000}, slicePort{Name: "admin", Port: 8080})
		a.put(eventAdded, mine)
		a.put(eventAdded, next)
		pass(time.Second)
		same(t, "peers", h.lines(0), "8080 10.0.0.2:8080 near", "8080 10.0.0.3:18080 near", "9000 10.0.0.2:9000 near", "9000 10.0.0.3:9000 near")
	})
}

func TestServiceOfAnotherApplicationStandsInByNumberOrByItsOnlyPort(t *testing.T) {
	two := sliceOf("app-x", "app", 8080, pod(2))
	two.Ports = append(two.Ports, slicePort{Name: "grpc", Port: 9000})
	for _, test := range []struct {
		name  string
		port  uint16
		slice endpointSlice
		want  []string
	}{
		{"one port stands in for all", 0, sliceOf("app-x", "app", 80, pod(2)), []string{"0 10.0.0.2:80"}},
		{"one port stands in for the one that is named", 8080, sliceOf("app-x", "app", 80, pod(2)), []string{"8080 10.0.0.2:80"}},
		{"of several each for its own", 0, two, []string{"8080 10.0.0.2:8080", "9000 10.0.0.2:9000"}},
		{"of several that of the number", 9000, two, []string{"9000 10.0.0.2:9000"}},
		{"of several none", 7, two, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			discover(t, Options{Services: []Service{{Name: "app", Port: test.port}}}, func(t *testing.T, a *api, h *heard) {
				a.put(eventAdded, test.slice)
				pass(time.Second)
				same(t, "peers", h.lines(0), test.want...)
			})
		})
	}
}

func TestOnlyTheNamedPortIsRelayed(t *testing.T) {
	discover(t, Options{Services: []Service{{Port: 9000}}}, func(t *testing.T, a *api, h *heard) {
		s := sliceOf("app-x", "app", 8080, pod(1), pod(2))
		s.Ports = append(s.Ports, slicePort{Name: "grpc", Port: 9000})
		a.put(eventAdded, s)
		pass(time.Second)
		same(t, "peers", h.lines(0), "9000 10.0.0.2:9000 near")
	})
}

func TestPodIsKnownByItsUIDItsNameOrItsAddress(t *testing.T) {
	nobody := func(e *endpoint) { e.TargetRef.Kind = "" }
	for _, test := range []struct {
		name string
		pod  Pod
		own  endpoint
	}{
		{"UID", Pod{UID: "uid-7"}, pod(7)},
		{"name", Pod{Name: "app-7"}, pod(7)},
		{"address", Pod{Name: "app-1", UID: "uid-1"}, pod(1, nobody)},
		{"address, nothing else known", Pod{Namespace: "shop"}, pod(1)},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := auto()
			o.Pod = test.pod
			discover(t, o, func(t *testing.T, a *api, h *heard) {
				a.put(eventAdded, sliceOf("app-x", "app", 80, test.own, pod(2)))
				pass(time.Second)
				same(t, "peers", h.lines(0), "80 10.0.0.2:80 near")
			})
		})
	}
	t.Run("an address that another pod has got is not this pod", func(t *testing.T) {
		discover(t, auto(), func(t *testing.T, a *api, h *heard) {
			a.put(eventAdded, sliceOf("app-x", "app", 80, pod(8, func(e *endpoint) { e.Addresses = []string{podAddr.String()} }), pod(2)))
			pass(time.Second)
			same(t, "peers", h.lines(0))
		})
	})
}

func TestMembersWithNamesOfTheirOwnAreNotInterchangeable(t *testing.T) {
	headless := func(s endpointSlice) endpointSlice {
		s.Metadata.Labels[headlessLabel] = ""
		return s
	}
	db := headless(sliceOf("db-x", "db", 80, pod(1, hostname("db-0")), pod(2, hostname("db-1"))))
	plain := sliceOf("app-x", "app", 80, pod(1), pod(3))
	bare := headless(sliceOf("bare-x", "bare", 80, pod(1), pod(2)))
	for _, test := range []struct {
		name   string
		o      Options
		slices []endpointSlice
		want   []string
		lack   string
	}{
		{"a StatefulSet's member has no peers, whatever else lists it", auto(), []endpointSlice{db, plain}, nil, "headless Service db"},
		{"a headless Service alone gives none", auto(), []endpointSlice{bare}, nil, "only headless Services list this pod (bare)"},
		{"one beside another is left out", auto(), []endpointSlice{bare, plain}, []string{"80 10.0.0.3:80 near"}, ""},
		{"who is named gives them", Options{Services: []Service{{Name: "db"}}}, []endpointSlice{db}, []string{"80 10.0.0.2:80 near"}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			discover(t, test.o, func(t *testing.T, a *api, h *heard) {
				for _, s := range test.slices {
					a.put(eventAdded, s)
				}
				pass(time.Second)
				same(t, "peers", h.lines(0), test.want...)
				wantLack(t, h, test.lack)
			})
		})
	}
}

func TestOwnZoneComesFirst(t *testing.T) {
	hinted := func(e *endpoint) {
		e.Hints.ForZones = append(e.Hints.ForZones, struct {
			Name string `json:"name"`
		}{"a"})
	}
	discover(t, auto(), func(t *testing.T, a *api, h *heard) {
		a.put(eventAdded, sliceOf("app-x", "app", 80, pod(1), pod(2), pod(3, zone("b")), pod(4, zone("b"), hinted)))
		pass(time.Second)
		same(t, "peers", h.lines(0), "80 10.0.0.2:80 near", "80 10.0.0.3:80", "80 10.0.0.4:80 near")
	})
}

func TestPeersOfAllServicesOfThePodAreOneTarget(t *testing.T) {
	discover(t, auto(), func(t *testing.T, a *api, h *heard) {
		a.put(eventAdded, sliceOf("app-x", "app", 80, pod(1), pod(2)))
		a.put(eventAdded, sliceOf("canary-x", "canary", 80, pod(1), pod(2), pod(3)))
		pass(time.Second)
		same(t, "peers", h.lines(0), "80 10.0.0.2:80 near", "80 10.0.0.3:80 near")
		if got := len(a.called()); got != 3 {
			t.Errorf("not one LIST and a WATCH each: %q", a.called())
		}
	})
}

func TestPeersStayWhenThisPodsEndpointGoesFirst(t *testing.T) {
	discover(t, auto(), func(t *testing.T, a *api, h *heard) {
		a.put(eventAdded, sliceOf("app-x", "app", 80, pod(1), pod(2)))
		pass(time.Second)
		a.put(eventModified, sliceOf("app-x", "app", 80, pod(2)))
		pass(time.Second)
		same(t, "peers", h.lines(0), "80 10.0.0.2:80 near")
	})
}

func TestPodInNoServiceHasNoPeersAndSaysSo(t *testing.T) {
	discover(t, auto(), func(t *testing.T, a *api, h *heard) {
		a.put(eventAdded, sliceOf("app-x", "app", 80, pod(2)))
		pass(time.Hour)
		same(t, "calls", a.called(), "LIST "+shop+"?@0")
		wantLack(t, h, "no EndpointSlice of the namespace lists this pod")
	})
}

func TestPeersAreFewAndStayTheSame(t *testing.T) {
	discover(t, auto(), func(t *testing.T, a *api, h *heard) {
		var all []endpoint
		for i := range 100 {
			all = append(all, pod(1+i, zone(fmt.Sprintf("%c", 'a'+i%2))))
		}
		a.put(eventAdded, sliceOf("app-x", "app", 80, all...))
		pass(time.Second)
		first := h.lines(0)
		near := 0
		for _, line := range first {
			if len(line) > 5 && line[len(line)-5:] == " near" {
				near++
			}
		}
		if len(first) != maxPeers || near != maxNear {
			t.Errorf("%d peers, %d of them near", len(first), near)
		}
		a.put(eventModified, sliceOf("app-x", "app", 80, append(all, pod(200, unready))...))
		pass(time.Second)
		same(t, "peers after a change of others", h.lines(0), first...)
	})
}
