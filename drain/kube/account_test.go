package kube

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"lameduck/netns/takeover"
)

// mount lays a token, a certificate and a namespace as the kubelet does.
func mount(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func environment(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}

func TestAccountIsTheOneProjectedForLameduckElseThePods(t *testing.T) {
	own := mount(t, map[string]string{"token": "own", "namespace": "shop\n"})
	usual := mount(t, map[string]string{"token": "usual", "namespace": "default"})
	bare := mount(t, map[string]string{"token": "bare"})
	api := []string{"KUBERNETES_SERVICE_HOST", "fd00::1", "KUBERNETES_SERVICE_PORT", "443"}
	for _, test := range []struct {
		name      string
		env       []string
		mounts    []string
		token     string
		namespace string
		err       string
	}{
		{"both", api, []string{own, usual}, own, "shop", ""},
		{"automounted alone", api, []string{"/nonexistent", usual}, usual, "default", ""},
		{"the downward API's namespace", append([]string{"POD_NAMESPACE", "dev"}, api...), []string{bare}, bare, "dev", ""},
		{"no namespace", api, []string{bare}, "", "", "set POD_NAMESPACE"},
		{"no token", api, []string{"/nonexistent"}, "", "", "no service account token in /nonexistent"},
		{"no pod", nil, []string{own}, "", "", "KUBERNETES_SERVICE_HOST"},
	} {
		t.Run(test.name, func(t *testing.T) {
			a, err := InCluster(environment(test.env...), test.mounts)
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Errorf("error %v", err)
				}
				return
			}
			want := Account{Server: "[fd00::1]:443", TokenFile: filepath.Join(test.token, "token"),
				CAFile: filepath.Join(test.token, "ca.crt"), Namespace: test.namespace}
			if err != nil || a != want {
				t.Errorf("got %+v, %v", a, err)
			}
		})
	}
}

// server is an API server over TLS that knows one token; it answers every LIST with one slice, and holds every watch open.
func server(t *testing.T) (account Account, calls func() []string) {
	t.Helper()
	var mu sync.Mutex
	var seen []string
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		seen = append(seen, r.Method+" "+r.Proto+" "+r.UserAgent())
		mu.Unlock()
		if r.Header.Get("Authorization") != "Bearer secret" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if r.URL.Query().Get("watch") == "true" {
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			return
		}
		_, _ = w.Write([]byte(`{"kind":"EndpointSliceList","metadata":{"resourceVersion":"7"},"items":[{"metadata":{"name":"x",
			"managedFields":[{"manager":"m","fieldsV1":{"f:a":{}}}],"labels":{"kubernetes.io/service-name":"app"}},"addressType":"IPv4",
			"endpoints":[{"addresses":["10.0.0.2"],"conditions":{"ready":true},"nodeName":"n","hints":null}],"ports":[{"name":"","port":80,"protocol":"TCP"}]}]}`))
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	dir := mount(t, map[string]string{"token": "secret\n", "ca.crt": string(ca)})
	account = Account{Server: s.Listener.Addr().String(), TokenFile: filepath.Join(dir, "token"), CAFile: filepath.Join(dir, "ca.crt"), Namespace: "shop"}
	return account, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return append([]string{}, seen...)
	}
}

// overTLS runs a Discovery against a real server until done tells that it has heard enough.
func overTLS(t *testing.T, account Account, done func(*heard) bool) {
	t.Helper()
	h := &heard{peers: map[int][]takeover.Peer{}}
	d := discoveryOf(named(), newAPI(), h)
	d.build = connect
	d.options.Find = func() (Account, error) { return account, nil }
	finished := make(chan error)
	ctx, stop := context.WithCancel(t.Context())
	go func() { finished <- d.Run(ctx) }()
	defer func() {
		stop()
		if err := <-finished; err != nil {
			t.Error(err)
		}
	}()
	watchdog := time.After(20 * time.Second)
	for !done(h) {
		select {
		case <-time.After(5 * time.Millisecond):
		case <-watchdog:
			t.Fatalf("nothing came: peers %q, lacks %q", h.lines(0), h.lacks())
		}
	}
}

func TestTheTokenAndTheCertificateOfTheMountAreUsed(t *testing.T) {
	account, calls := server(t)
	overTLS(t, account, func(h *heard) bool { return len(h.lines(0)) == 1 && len(calls()) == 2 })
	same(t, "calls", calls(), "GET HTTP/2.0 lameduck", "GET HTTP/2.0 lameduck")
}

func TestForeignCertificatesAndTokensAreRefused(t *testing.T) {
	for name, change := range map[string]func(Account){
		"unknown authority": func(a Account) { write(t, a.CAFile, selfSigned(t)) },
		"answers 401":       func(a Account) { write(t, a.TokenFile, []byte("wrong")) },
		"no such file":      func(a Account) { write(t, a.TokenFile, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			account, _ := server(t)
			change(account)
			overTLS(t, account, func(h *heard) bool { return len(h.lacks()) == 1 && strings.Contains(h.lacks()[0], name) })
		})
	}
}

// write puts a file in place of another; nil removes it.
func write(t *testing.T, path string, text []byte) {
	t.Helper()
	err := os.Remove(path)
	if err == nil && text != nil {
		err = os.WriteFile(path, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// selfSigned makes a certificate that signs nothing but itself.
func selfSigned(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}
