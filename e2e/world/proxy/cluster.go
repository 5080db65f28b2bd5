package proxy

import "lameduck/e2e/world"

// cluster is what Envoy Gateway makes of a route rule with its policy: LEAST_REQUEST, a buffer of 32 KiB, 1,024 retries,
// ignore_health_on_host_removal (≥ 1.5); health checks and outlier detection only where a policy asks for them.
func (c Config) cluster(r rule) object {
	lb := object{"locality_weighted_lb_config": object{}}
	if r.policy.PanicBelow != 0 {
		lb["healthy_panic_threshold"] = object{"value": max(r.policy.PanicBelow, 0)}
	}
	o := object{
		"name":            r.cluster,
		"type":            "EDS",
		"connect_timeout": seconds(r.policy.ConnectTimeout),
		"lb_policy":       "LEAST_REQUEST",
		"eds_cluster_config": object{"eds_config": object{
			"resource_api_version": "V3",
			"path_config_source": object{
				"path":              c.endpoints(r.cluster),
				"watched_directory": object{"path": c.EndpointsDir()},
			},
		}},
		"circuit_breakers":                  object{"thresholds": []object{{"max_retries": 1024}}},
		"per_connection_buffer_limit_bytes": 32768,
		"common_lb_config":                  lb,
		"ignore_health_on_host_removal":     !r.policy.KeepRemoved,
	}
	if p := r.policy.Passive; p != nil {
		o["outlier_detection"] = passive(*p)
	}
	if a := r.policy.Active; a != nil {
		o["health_checks"] = []object{active(*a)}
	}
	c.speak(o)
	return o
}

// speak gives a cluster its protocol.
func (c Config) speak(cluster object) {
	if c.http2() {
		cluster["typed_extension_protocol_options"] = object{
			"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": object{
				"@type":                typePrefix + "extensions.upstreams.http.v3.HttpProtocolOptions",
				"explicit_http_config": object{"http2_protocol_options": object{}},
			},
		}
	}
	if c.CA == "" {
		return
	}
	tls := object{"validation_context": object{"trusted_ca": object{"filename": c.CA}}}
	if c.http2() {
		tls["alpn_protocols"] = []string{"h2"}
	}
	cluster["transport_socket"] = object{
		"name": "envoy.transport_sockets.tls",
		"typed_config": object{
			"@type":              typePrefix + "extensions.transport_sockets.tls.v3.UpstreamTlsContext",
			"common_tls_context": tls,
		},
	}
}

func (c Config) http2() bool { return c.Protocol == world.HTTP2 || c.Protocol == world.GRPC }
