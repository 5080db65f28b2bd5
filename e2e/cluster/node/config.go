package node

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"embed"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"text/template"
)

//go:embed config
var configs embed.FS

// writeConfig writes the files that the daemons are started with.
func writeConfig(o Options) error {
	values := map[string]string{
		"Run": Run, "Hostname": Hostname, "NodeIP": IP, "PodNet": PodNet, "DNS": DNS, "Token": token, "Debs": o.Debs,
		"ContainerdSocket": ContainerdSocket, "PauseImage": Image, "CgroupRoot": CgroupRoot,
	}
	for name, path := range map[string]string{
		"kubelet.yaml": "kubelet.yaml", "kube-proxy.yaml": "kube-proxy.yaml", "containerd.toml": "containerd.toml",
		"10-ptp.conflist": "cni/10-ptp.conflist", "audit.yaml": "audit.yaml", "kubeconfig": "kubeconfig",
	} {
		parsed, err := template.ParseFS(configs, "config/"+name)
		if err != nil {
			return err
		}
		var text bytes.Buffer
		if err := parsed.Execute(&text, values); err != nil {
			return err
		}
		if err := write(path, text.Bytes()); err != nil {
			return err
		}
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	block := &pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}
	if err := write("service-accounts.key", pem.EncodeToMemory(block)); err != nil {
		return err
	}
	if err := write("tokens", fmt.Appendf(nil, "%s,admin,admin,system:masters\n", token)); err != nil {
		return err
	}
	// No name is resolved outside the cluster.
	return write("resolv.conf", []byte("nameserver 127.0.0.1\n"))
}

func write(name string, text []byte) error {
	path := filepath.Join(Run, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o600)
}
