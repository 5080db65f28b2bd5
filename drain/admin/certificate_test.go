package admin

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// pair is a certificate and its key, PEM.
type pair struct{ cert, key []byte }

func newPair(t *testing.T, serial int64) pair {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pair{
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
	}
}

// secret is a mounted Secret as the kubelet makes it: the files are links into ..data, which is a link to a folder of
// the present version, replaced by rename.
type secret struct {
	t       *testing.T
	dir     string
	version int
}

func newSecret(t *testing.T, p pair) *secret {
	t.Helper()
	s := &secret{t: t, dir: t.TempDir()}
	s.swap(p)
	for _, name := range []string{"tls.crt", "tls.key"} {
		if err := os.Symlink(filepath.Join("..data", name), filepath.Join(s.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func (s *secret) swap(p pair) {
	s.t.Helper()
	s.version++
	folder := "..v" + string(rune('0'+s.version))
	link := filepath.Join(s.dir, "..fresh")
	if err := os.Mkdir(filepath.Join(s.dir, folder), 0o755); err != nil {
		s.t.Fatal(err)
	}
	s.write(filepath.Join(folder, "tls.crt"), p.cert)
	s.write(filepath.Join(folder, "tls.key"), p.key)
	if err := os.Symlink(folder, link); err != nil {
		s.t.Fatal(err)
	}
	if err := os.Rename(link, filepath.Join(s.dir, "..data")); err != nil {
		s.t.Fatal(err)
	}
}

func (s *secret) write(name string, content []byte) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), content, 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func (s *secret) load(log *lines) *Certificate {
	s.t.Helper()
	c, err := LoadCertificate(filepath.Join(s.dir, "tls.crt"), filepath.Join(s.dir, "tls.key"), slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

// lines is a log that may be read while it is written.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) count(part string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), part)
}

// serial is the number of the certificate that a handshake shows.
func serial(t *testing.T, base string) int64 {
	t.Helper()
	conn, err := tls.Dial("tcp", strings.TrimPrefix(base, "http://"), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	return conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
}

// serveTLS serves with the certificate of a secret.
func serveTLS(t *testing.T, backend *fake, s *secret, log *lines) (base string) {
	t.Helper()
	certificate := s.load(log)
	base, _ = serve(t, backend, func(server *Server) {
		server.listener.Listener = newEither(server.listener.Listener, certificate)
	})
	return base
}

func TestNewCertificateIsShownAtTheNextHandshake(t *testing.T) {
	var log lines
	s := newSecret(t, newPair(t, 1))
	base := serveTLS(t, newFake(), s, &log)
	for n := int64(1); n <= 3; n++ {
		for range 2 {
			if got := serial(t, base); got != n {
				t.Errorf("certificate %d, want %d", got, n)
			}
		}
		s.swap(newPair(t, n+1))
	}
	if got := log.count("new certificate"); got != 2 {
		t.Errorf("said %d times", got)
	}
}

// A pair that cannot be used keeps the one before, and is said once, however many come meanwhile.
func TestBrokenNewCertificateKeepsTheOneBefore(t *testing.T) {
	first, second := newPair(t, 1), newPair(t, 2)
	for name, breaks := range map[string]func(s *secret){
		"no PEM":                       func(s *secret) { s.swap(pair{[]byte("x"), second.key}) },
		"only the certificate written": func(s *secret) { s.write("..v1/tls.crt", second.cert) },
		"gone":                         func(s *secret) { _ = os.Remove(filepath.Join(s.dir, "..data")) },
	} {
		t.Run(name, func(t *testing.T) {
			var log lines
			s := newSecret(t, first)
			base := serveTLS(t, newFake(), s, &log)
			breaks(s)
			for range 3 {
				if got := serial(t, base); got != 1 {
					t.Errorf("certificate %d", got)
				}
			}
			if got := log.count("cannot be used"); got != 1 {
				t.Errorf("said %d times", got)
			}
			s.swap(second)
			if got := serial(t, base); got != 2 {
				t.Errorf("certificate %d after it was mended", got)
			}
		})
	}
}

func TestUnusableCertificateIsAnErrorAtTheStart(t *testing.T) {
	one, two := newPair(t, 1), newPair(t, 2)
	for name, p := range map[string]pair{"that do not belong together": {one.cert, two.key}, "that are empty": {}} {
		s := newSecret(t, p)
		if _, err := LoadCertificate(filepath.Join(s.dir, "tls.crt"), filepath.Join(s.dir, "tls.key"), nil); err == nil {
			t.Errorf("files %s are taken", name)
		}
	}
}
