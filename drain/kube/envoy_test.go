package kube

import (
	"strings"
	"testing"
	"time"
)

func wantLack(t *testing.T, h *heard, part string) {
	t.Helper()
	lacks := h.lacks()
	if part == "" && len(lacks) > 0 || part != "" && (len(lacks) != 1 || !strings.Contains(lacks[0], part)) {
		t.Errorf("lacks %q, want one with %q", lacks, part)
	}
}

func gateways() Options { return Options{Envoys: Query{"gateways", "app=envoy"}} }

const envoys = "/apis/discovery.k8s.io/v1/namespaces/gateways/endpointslices?app=envoy"

// envoySlice makes a slice of Envoys, which end or not: those that end still forward.
func envoySlice(name string, endpoints ...endpoint) endpointSlice {
	s := sliceOf(name, "envoy", 10080, endpoints...)
	s.Metadata.Labels["app"] = "envoy"
	return s
}

func TestEveryAddressOfTheSlicesIsEnvoys(t *testing.T) {
	discover(t, gateways(), func(t *testing.T, a *api, h *heard) {
		a.put(eventAdded, envoySlice("x", pod(1), pod(2, terminating), pod(3, unready)))
		a.put(eventAdded, envoySlice("y", pod(1), pod(4, func(e *endpoint) { e.Addresses = []string{"fd00::4", "envoy.example"} })))
		a.put(eventAdded, sliceOf("z", "other", 80, pod(9)))
		pass(time.Second)
		same(t, "sources", h.addresses(), "10.0.0.1", "10.0.0.2", "10.0.0.3", "fd00::4")
		a.put(eventModified, envoySlice("x", pod(5)))
		pass(time.Hour / 2)
		same(t, "sources after a change", h.addresses(), "10.0.0.1", "10.0.0.5", "fd00::4")
		same(t, "calls", a.called(), "LIST "+envoys+"@0", "WATCH "+envoys+"@103")
		wantLack(t, h, "")
	})
}

func TestSelectorThatMatchesNothingLeavesEveryRemoteAddress(t *testing.T) {
	discover(t, gateways(), func(t *testing.T, a *api, h *heard) {
		pass(time.Second)
		wantLack(t, h, "no EndpointSlice there has an address")
		if h.envoys != nil {
			t.Errorf("sources: %v", h.envoys)
		}
		a.put(eventAdded, envoySlice("x", pod(1)))
		pass(0)
		same(t, "sources, once there are some", h.addresses(), "10.0.0.1")
	})
}
