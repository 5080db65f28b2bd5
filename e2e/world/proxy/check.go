package proxy

import "lameduck/e2e/world"

func active(a world.Active) object {
	check := object{
		"interval": seconds(a.Interval),
		// Before a host has had traffic Envoy checks it each no_traffic_interval, 60 s by default.
		"no_traffic_interval": seconds(a.Interval),
		"timeout":             seconds(a.Timeout),
		"unhealthy_threshold": 3,
		"healthy_threshold":   1,
		"reuse_connection":    !a.Fresh,
	}
	if a.Jitter > 0 {
		check["interval_jitter"] = seconds(a.Jitter)
	}
	switch a.Kind {
	case world.CheckGRPC:
		check["grpc_health_check"] = object{}
	case world.CheckTCP:
		check["tcp_health_check"] = object{}
	case world.CheckHTTP2:
		check["http_health_check"] = object{"host": "*", "path": a.Path, "codec_client_type": "HTTP2"}
	default:
		check["http_health_check"] = object{"host": "*", "path": a.Path}
	}
	return check
}

func passive(p world.Passive) object {
	o := object{
		"interval":              seconds(p.Interval),
		"base_ejection_time":    seconds(p.BaseEjectionTime),
		"max_ejection_percent":  p.MaxEjectionPercent,
		"always_eject_one_host": p.AlwaysOne,
	}
	if p.Consecutive5xx > 0 {
		o["consecutive_5xx"] = p.Consecutive5xx
	}
	if p.ConsecutiveGateway > 0 { // counted by default, but not acted upon
		o["consecutive_gateway_failure"], o["enforcing_consecutive_gateway_failure"] = p.ConsecutiveGateway, 100
	}
	if p.ConsecutiveLocal > 0 {
		o["split_external_local_origin_errors"], o["consecutive_local_origin_failure"] = true, p.ConsecutiveLocal
	}
	return o
}
