// Package proxy writes a real Envoy's configuration, as Envoy Gateway would make it, and reads its access log.
package proxy

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"path/filepath"
	"time"

	"lameduck/e2e/world"
	"lameduck/e2e/world/app"
)

// object is a JSON object. Envoy's configuration is a tree of them; its generated Go types would weigh more than Envoy.
type object = map[string]any

// Port is where Envoys listen for the client.
const Port = 10080

const typePrefix = "type.googleapis.com/envoy."

// Config is one Envoy's.
type Config struct {
	Address netip.Addr
	// Dir holds its files: the lists of endpoints, access.log, and the socket of its admin interface.
	Dir    string
	Policy world.Policy
	// Rules are further route rules.
	Rules    []world.Rule
	Protocol world.Protocol
	// CA is the file of the authority whose certificates the applications have; empty: no TLS.
	CA string
}

// Admin is the path of the admin interface's unix socket.
func (c Config) Admin() string { return filepath.Join(c.Dir, "admin.sock") }

// AccessLog is the path of the access log.
func (c Config) AccessLog() string { return filepath.Join(c.Dir, "access.log") }

// Bootstrap returns the static configuration as JSON.
func (c Config) Bootstrap() ([]byte, error) {
	var clusters []object
	for _, r := range c.rules() {
		clusters = append(clusters, c.cluster(r))
	}
	return json.MarshalIndent(object{
		"node":  object{"id": "world", "cluster": "world"},
		"admin": object{"address": object{"pipe": object{"path": c.Admin()}}},
		"static_resources": object{
			"listeners": []object{c.listener()},
			"clusters":  clusters,
		},
	}, "", " ")
}

func (c Config) listener() object {
	filter := c.http()
	if c.Protocol == world.TCP {
		filter = c.tcp()
	}
	return object{
		"name":          "listener",
		"address":       object{"socket_address": object{"address": c.Address.String(), "port_value": Port}},
		"filter_chains": []object{{"filters": []object{filter}}},
	}
}

func (c Config) tcp() object {
	return object{
		"name": "envoy.filters.network.tcp_proxy",
		"typed_config": object{
			"@type":       typePrefix + "extensions.filters.network.tcp_proxy.v3.TcpProxy",
			"stat_prefix": "tcp",
			"cluster":     Cluster,
			"access_log":  []object{c.accessLog(PortID+"%DOWNSTREAM_REMOTE_PORT%", nil)},
		},
	}
}

// http takes HTTP/1.1, its upgrades to WebSocket, and HTTP/2 with prior knowledge.
func (c Config) http() object {
	return object{
		"name": "envoy.filters.network.http_connection_manager",
		"typed_config": object{
			"@type":           typePrefix + "extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
			"stat_prefix":     "http",
			"codec_type":      "AUTO",
			"upgrade_configs": []object{{"upgrade_type": "websocket"}},
			"route_config":    object{"virtual_hosts": []object{c.virtualHost()}},
			"http_filters": []object{{
				"name":         "envoy.filters.http.router",
				"typed_config": object{"@type": typePrefix + "extensions.filters.http.router.v3.Router"},
			}},
			"access_log": []object{c.accessLog("%REQ("+app.ID+")%", failedHTTP())},
		},
	}
}

func (c Config) virtualHost() object {
	var routes []object
	for _, r := range c.rules() {
		action := object{"cluster": r.cluster, "timeout": seconds(max(r.policy.RouteTimeout, 0))}
		if r.policy.Retry != nil {
			action["retry_policy"] = retry(*r.policy.Retry)
		}
		routes = append(routes, object{"match": object{"prefix": r.prefix}, "route": action})
	}
	return object{"name": "all", "domains": []string{"*"}, "routes": routes}
}

// retry is Envoy Gateway's translation: it adds the previous-hosts predicate to each retry policy.
func retry(r world.Retry) object {
	policy := object{
		"retry_on":               r.On,
		"num_retries":            r.Count,
		"retriable_status_codes": r.StatusCodes,
		"retry_host_predicate": []object{{
			"name":         "envoy.retry_host_predicates.previous_hosts",
			"typed_config": object{"@type": typePrefix + "extensions.retry.host.previous_hosts.v3.PreviousHostsPredicate"},
		}},
		"host_selection_retry_max_attempts": 5,
	}
	if r.PerTry > 0 {
		policy["per_try_timeout"] = seconds(r.PerTry)
	}
	if r.BaseBackOff > 0 {
		policy["retry_back_off"] = object{"base_interval": seconds(r.BaseBackOff), "max_interval": seconds(r.MaxBackOff)}
	}
	return policy
}

// seconds is a duration as protobuf's JSON has it.
func seconds(d time.Duration) string { return fmt.Sprintf("%.3fs", d.Seconds()) }
