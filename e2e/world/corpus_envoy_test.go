package world_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// object is a JSON object.
type object = map[string]any

func typed(kind string, o object) object {
	o["@type"] = "type.googleapis.com/envoy." + kind
	return o
}

// The ports in the namespace: Envoy's own, the backends', those from which Envoy connects to them, and the clients'. All
// are fixed, since the PROXY protocol names them.
const (
	frontPort   = 10080
	backendPort = 20000
	fromPort    = 40000
	clientPort  = 50000
)

func (s spoken) cluster(i int) object {
	c := object{
		"name": s.name, "type": "STATIC", "connect_timeout": "1s",
		"load_assignment": object{"cluster_name": s.name, "endpoints": []object{{"lb_endpoints": []object{{
			"endpoint": object{"address": socketAddress(backendPort + i)},
		}}}}},
		"upstream_bind_config": object{"source_address": object{"address": "127.0.0.1", "port_value": fromPort + i}},
	}
	if s.check != nil {
		check := object{
			"interval": "60s", "no_traffic_interval": "60s", "timeout": "5s", "unhealthy_threshold": 3, "healthy_threshold": 1,
		}
		for k, v := range s.check {
			check[k] = v
		}
		c["health_checks"] = []object{check}
	}
	if s.http2 {
		const options = "extensions.upstreams.http.v3.HttpProtocolOptions"
		c["typed_extension_protocol_options"] = object{"envoy." + options: typed(options, object{
			"explicit_http_config": object{"http2_protocol_options": object{}},
		})}
	}
	if s.transport != nil {
		c["transport_socket"] = s.transport
	}
	return c
}

func socketAddress(port int) object {
	return object{"socket_address": object{"address": "127.0.0.1", "port_value": port}}
}

func bootstrap(all []spoken) object {
	var clusters, routes []object
	for i, s := range all {
		clusters = append(clusters, s.cluster(i))
		by := object{"name": "x-cluster", "string_match": object{"exact": s.name}}
		routes = append(routes, object{
			"match": object{"prefix": "/", "headers": []object{by}}, "route": object{"cluster": s.name, "timeout": "5s"},
			"request_headers_to_remove": []string{"x-cluster"},
		})
	}
	const manager = "extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"
	front := typed(manager, object{
		"stat_prefix": "front", "preserve_external_request_id": true,
		"route_config": object{"virtual_hosts": []object{{"name": "all", "domains": []string{"*"}, "routes": routes}}},
		"http_filters": []object{{
			"name": "envoy.filters.http.router", "typed_config": typed("extensions.filters.http.router.v3.Router", object{}),
		}},
	})
	return object{"static_resources": object{
		"clusters": clusters,
		"listeners": []object{{
			"name": "front", "address": socketAddress(frontPort),
			"filter_chains": []object{{"filters": []object{{
				"name": "envoy.filters.network.http_connection_manager", "typed_config": front,
			}}}},
		}},
	}}
}

func proxied(version string) object {
	return object{
		"name": "envoy.transport_sockets.upstream_proxy_protocol",
		"typed_config": typed("extensions.transport_sockets.proxy_protocol.v3.ProxyProtocolUpstreamTransport", object{
			"config": object{"version": version},
			"transport_socket": object{
				"name": "envoy.transport_sockets.raw_buffer", "typed_config": typed("extensions.transport_sockets.raw_buffer.v3.RawBuffer", object{}),
			},
		}),
	}
}

func encrypted() object {
	return object{
		"name":         "envoy.transport_sockets.tls",
		"typed_config": typed("extensions.transport_sockets.tls.v3.UpstreamTlsContext", object{"sni": "backend"}),
	}
}

// startEnvoy starts Envoy in the thread's namespace, and ends it with the test.
func startEnvoy(t *testing.T, config object) {
	t.Helper()
	text, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	cmd := exec.Command(tools.Envoy, "--config-yaml", string(text), "--concurrency", "1", "--disable-hot-restart", "--log-level", "error")
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // with the namespace's thread
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("Envoy: %s", &log)
		}
	})
}

// forward has Envoy forward a request. The caller closes the connection.
func forward(t *testing.T, i int, s spoken) net.Conn {
	t.Helper()
	d := net.Dialer{Timeout: 20 * time.Second, LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: clientPort + i}}
	c, err := d.Dial("tcp4", fmt.Sprintf("127.0.0.1:%d", frontPort))
	for end := time.Now().Add(d.Timeout); errors.Is(err, syscall.ECONNREFUSED) && time.Now().Before(end); {
		time.Sleep(20 * time.Millisecond) // Envoy does not listen yet, and nothing tells when
		c, err = d.Dial("tcp4", fmt.Sprintf("127.0.0.1:%d", frontPort))
	}
	if err != nil {
		t.Fatal(err)
	}
	line, rest, _ := bytes.Cut([]byte(s.request), []byte("\r\n"))
	if _, err := fmt.Fprintf(c, "%s\r\nx-cluster: %s\r\n%s", line, s.name, rest); err != nil {
		t.Fatal(err)
	}
	return c
}
