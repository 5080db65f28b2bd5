package proxy

import (
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
)

// Endpoint is one backend as Envoy is told of it.
type Endpoint struct {
	Address  netip.Addr
	Port     uint16
	Draining bool
}

// WriteEndpoints replaces every cluster's list by rename, the only change that Envoy looks at.
func (c Config) WriteEndpoints(version int, endpoints []Endpoint) error {
	for _, r := range c.rules() {
		content, err := json.Marshal(list(r, version, endpoints))
		if err != nil {
			return err
		}
		fresh := filepath.Join(c.Dir, "eds.fresh")
		if err := os.WriteFile(fresh, content, 0o644); err != nil {
			return err
		}
		if err := os.Rename(fresh, c.endpoints(r.cluster)); err != nil {
			return err
		}
	}
	return nil
}

func list(r rule, version int, endpoints []Endpoint) object {
	hosts := make([]object, 0, len(endpoints))
	for _, e := range endpoints {
		hosts = append(hosts, host(r, e))
	}
	return object{
		"version_info": strconv.Itoa(version),
		"resources": []object{{
			"@type":        typePrefix + "config.endpoint.v3.ClusterLoadAssignment",
			"cluster_name": r.cluster,
			"endpoints": []object{{
				"locality": object{"zone": "a"}, "load_balancing_weight": 1, "lb_endpoints": hosts,
			}},
		}},
	}
}

func host(r rule, e Endpoint) object {
	endpoint := object{"address": object{"socket_address": object{"address": e.Address.String(), "port_value": e.Port}}}
	if a := r.policy.Active; a != nil && a.Port != 0 {
		endpoint["health_check_config"] = object{"port_value": a.Port}
	}
	status := "HEALTHY"
	if e.Draining {
		status = "DRAINING"
	}
	return object{"endpoint": endpoint, "health_status": status, "load_balancing_weight": 1}
}
