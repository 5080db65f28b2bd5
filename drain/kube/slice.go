package kube

import "net/netip"

// The labels of an EndpointSlice that name its Service, and tell that this has no address of its own.
const (
	serviceLabel  = "kubernetes.io/service-name"
	headlessLabel = "service.kubernetes.io/headless"
)

// endpointSlice is what is needed of a discovery.k8s.io/v1 EndpointSlice.
type endpointSlice struct {
	Metadata struct {
		Name            string            `json:"name"`
		ResourceVersion string            `json:"resourceVersion"`
		Labels          map[string]string `json:"labels"`
	} `json:"metadata"`
	Endpoints []endpoint  `json:"endpoints"`
	Ports     []slicePort `json:"ports"`
}

type slicePort struct {
	Name     string `json:"name"`
	Protocol string `json:"protocol"`
	Port     uint16 `json:"port"`
}

func (p slicePort) tcp() bool { return p.Port != 0 && (p.Protocol == "" || p.Protocol == "TCP") }

type endpoint struct {
	Addresses  []string `json:"addresses"`
	Conditions struct {
		Ready       *bool `json:"ready"`
		Serving     *bool `json:"serving"`
		Terminating *bool `json:"terminating"`
	} `json:"conditions"`
	TargetRef struct {
		Kind string `json:"kind"`
		Name string `json:"name"`
		UID  string `json:"uid"`
	} `json:"targetRef"`
	Hostname string `json:"hostname"`
	Zone     string `json:"zone"`
	Hints    struct {
		ForZones []struct {
			Name string `json:"name"`
		} `json:"forZones"`
	} `json:"hints"`
}

func (s *endpointSlice) service() string { return s.Metadata.Labels[serviceLabel] }

func (s *endpointSlice) headless() bool {
	_, headless := s.Metadata.Labels[headlessLabel]
	return headless
}

// addresses are the endpoint's, as far as they are IP addresses (a slice may hold host names).
func (e *endpoint) addresses() (all []netip.Addr) {
	for _, text := range e.Addresses {
		if a, err := netip.ParseAddr(text); err == nil {
			all = append(all, a.Unmap())
		}
	}
	return all
}

// serves tells whether the endpoint takes new connections. What a condition's absence means is the API's word.
func (e *endpoint) serves() bool {
	c := e.Conditions
	serving := c.Serving
	if serving == nil {
		serving = c.Ready
	}
	return (serving == nil || *serving) && (c.Terminating == nil || !*c.Terminating)
}
