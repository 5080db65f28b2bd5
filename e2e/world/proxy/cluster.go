package proxy

import (
	"path/filepath"

	"lameduck/e2e/world"
)

const cluster = "backends"

// cluster is what Envoy Gateway makes of a route rule with Policy: LEAST_REQUEST, a buffer of 32 KiB, 1,024 retries,
// ignore_health_on_host_removal (≥ 1.5); health checks and outlier detection only where a policy asks for them.
func (c Config) cluster() object {
	o := object{
		"name":            cluster,
		"type":            "EDS",
		"connect_timeout": seconds(c.Policy.ConnectTimeout),
		"lb_policy":       "LEAST_REQUEST",
		"eds_cluster_config": object{"eds_config": object{
			"resource_api_version": "V3",
			"path_config_source": object{
				"path":              c.Endpoints(),
				"watched_directory": object{"path": filepath.Dir(c.Endpoints())},
			},
		}},
		"circuit_breakers":                  object{"thresholds": []object{{"max_retries": 1024}}},
		"per_connection_buffer_limit_bytes": 32768,
		"common_lb_config":                  object{"locality_weighted_lb_config": object{}},
		"ignore_health_on_host_removal":     !c.Policy.KeepRemoved,
	}
	if p := c.Policy.Passive; p != nil {
		o["outlier_detection"] = passive(*p)
	}
	if a := c.Policy.Active; a != nil {
		o["health_checks"] = []object{active(*a)}
	}
	return o
}

func passive(p world.Passive) object {
	return object{
		"consecutive_5xx":      p.Consecutive5xx,
		"interval":             seconds(p.Interval),
		"base_ejection_time":   seconds(p.BaseEjectionTime),
		"max_ejection_percent": p.MaxEjectionPercent,
	}
}

func active(a world.Active) object {
	return object{
		"interval": seconds(a.Interval),
		// Before a host has had traffic Envoy checks it each no_traffic_interval, 60 s by default.
		"no_traffic_interval": seconds(a.Interval),
		"timeout":             seconds(a.Timeout),
		"unhealthy_threshold": 3,
		"healthy_threshold":   1,
		"reuse_connection":    !a.Fresh,
		"http_health_check":   object{"host": "*", "path": a.Path},
	}
}
