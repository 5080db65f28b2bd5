package node

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// certificate is a self-signed one, made for this run: its own authority, and every pod's.
type certificate struct{ cert, key string }

// newCertificate writes one for all pods' addresses; the zero value if the run has no TLS.
func (n *node) newCertificate() (certificate, error) {
	if !n.spec.TLS {
		return certificate{}, nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return certificate{}, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "backends"}, DNSNames: []string{"backends"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, BasicConstraintsValid: true, IsCA: true,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for i := range n.spec.Pods {
		for _, a := range podAddress(i).all() {
			template.IPAddresses = append(template.IPAddresses, net.IP(a.AsSlice()))
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return certificate{}, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return certificate{}, err
	}
	c := certificate{filepath.Join(n.dir, "tls.crt"), filepath.Join(n.dir, "tls.key")}
	if err := writePEM(c.cert, "CERTIFICATE", der); err != nil {
		return c, err
	}
	return c, writePEM(c.key, "PRIVATE KEY", secret)
}

// writePEM writes a file that every user of the run can read: lameduck's is another than the application's.
func writePEM(path, kind string, der []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o644)
}
