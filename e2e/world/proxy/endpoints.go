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

// WriteEndpoints replaces the endpoints' file by rename, the only change that Envoy looks at.
func (c Config) WriteEndpoints(version int, endpoints []Endpoint) error {
	hosts := make([]object, 0, len(endpoints))
	for _, e := range endpoints {
		hosts = append(hosts, c.host(e))
	}
	content, err := json.Marshal(object{
		"version_info": strconv.Itoa(version),
		"resources": []object{{
			"@type":        typePrefix + "config.endpoint.v3.ClusterLoadAssignment",
			"cluster_name": cluster,
			"endpoints": []object{{
				"locality": object{"zone": "a"}, "load_balancing_weight": 1, "lb_endpoints": hosts,
			}},
		}},
	})
	if err != nil {
		return err
	}
	fresh := filepath.Join(c.Dir, "eds.fresh")
	if err := os.WriteFile(fresh, content, 0o644); err != nil {
		return err
	}
	return os.Rename(fresh, c.Endpoints())
}

func (c Config) host(e Endpoint) object {
	endpoint := object{"address": object{"socket_address": object{"address": e.Address.String(), "port_value": e.Port}}}
	if a := c.Policy.Active; a != nil && a.Port != 0 {
		endpoint["health_check_config"] = object{"port_value": a.Port}
	}
	status := "HEALTHY"
	if e.Draining {
		status = "DRAINING"
	}
	return object{"endpoint": endpoint, "health_status": status, "load_balancing_weight": 1}
}
