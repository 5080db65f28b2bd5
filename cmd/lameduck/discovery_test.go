package main

import (
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"lameduck/netns/netnstest"
)

// apiServer answers in a network namespace, and counts connections.
type apiServer struct {
	net.Listener
	mu          sync.Mutex
	connections int
	calls       []string
	event       string
	events      chan struct{}
}

func (s *apiServer) Accept() (net.Conn, error) {
	conn, err := s.Listener.Accept()
	if err == nil {
		s.mu.Lock()
		s.connections++
		s.mu.Unlock()
	}
	return conn, err
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	kind := "LIST"
	switch {
	case r.Method == http.MethodPost:
		kind = "EVENT"
	case r.URL.Query().Get("watch") != "":
		kind = "WATCH"
	}
	s.mu.Lock()
	s.calls = append(s.calls, kind+" "+path.Base(path.Dir(r.URL.Path))) // its namespace
	s.mu.Unlock()
	switch kind {
	case "LIST":
		fmt.Fprint(w, `{"metadata":{"resourceVersion":"7"},"items":[{"metadata":{"name":"x","labels":{"kubernetes.io/service-name":"app"}},
			"endpoints":[{"addresses":["10.1.2.3"],"targetRef":{"kind":"Pod","name":"app-1","uid":"uid-1"}},{"addresses":["10.1.2.4"]}],
			"ports":[{"name":"","port":80}]}]}`)
	case "WATCH":
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	case "EVENT":
		s.event = string(body)
		w.WriteHeader(http.StatusCreated)
		close(s.events)
	}
}

// startAPI serves one in the namespace, and lays the mount by which a pod reaches it.
func startAPI(t *testing.T, n *netnstest.Namespace) (s *apiServer, env []string) {
	t.Helper()
	s = &apiServer{events: make(chan struct{})}
	n.Do(t, func() {
		var err error
		if s.Listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
	})
	server := httptest.NewUnstartedServer(s)
	server.Listener.Close()
	server.Listener = s
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	dir := t.TempDir()
	for name, text := range map[string][]byte{
		"token": []byte("secret"), "namespace": []byte("shop"),
		"ca.crt": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, port, _ := net.SplitHostPort(s.Addr().String())
	return s, []string{"SECRETS=" + dir, "KUBERNETES_SERVICE_HOST=127.0.0.1", "KUBERNETES_SERVICE_PORT=" + port, "POD_NAME=app-1", "POD_UID=uid-1"}
}

func TestAPIServerIsAskedFromTheTriggerOnAndHearsTheLastWords(t *testing.T) {
	n := netnstest.New(t)
	api, env := startAPI(t, n)
	c := startContainer(t, n, env, "--admin-address=:18421", "--envoy-slices=gateways/app=envoy", "--relay-to=auto")
	c.serving()
	api.mu.Lock()
	if api.connections != 0 {
		t.Errorf("%d connections while serving", api.connections)
	}
	api.mu.Unlock()
	c.send("drain")
	c.await("relay target has peers")
	c.send("term")
	c.await("exit 0")
	select {
	case <-api.events:
	case <-time.After(30 * time.Second):
		t.Fatalf("no Event; lameduck said:\n%s", c.said())
	}
	want := map[string]int{"LIST gateways": 1, "WATCH gateways": 1, "LIST shop": 1, "WATCH shop": 1, "EVENT shop": 1}
	for _, call := range api.calls {
		want[call]--
	}
	for call, n := range want {
		if n != 0 {
			t.Errorf("%s: %d too few, of %q", call, n, api.calls)
		}
	}
	if !strings.Contains(api.event, `"uid":"uid-1"`) || !strings.Contains(api.event, "nothing listened") {
		t.Errorf("event %s", api.event)
	}
	if said := c.said(); strings.Contains(said, "msg=degraded") {
		t.Errorf("it lacks something:\n%s", said)
	}
}
