package kube

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
)

// Mounts are where a token and the API server's certificate may lie, best first: one that is projected for lameduck works
// where the pod has automountServiceAccountToken: false.
func Mounts() []string {
	return []string{"/var/run/secrets/lameduck", "/var/run/secrets/kubernetes.io/serviceaccount"}
}

// Account says how the API server is reached, and as whom.
type Account struct {
	// Server is host:port.
	Server string
	// TokenFile and CAFile are read at the first call; the token, which the kubelet renews, again later.
	TokenFile, CAFile string
	// Namespace is this pod's.
	Namespace string
}

// InCluster finds the account that a pod has: the API server from the environment that the kubelet sets, the token in the
// first of the mounts that has one.
func InCluster(getenv func(string) string, mounts []string) (Account, error) {
	host, port := getenv("KUBERNETES_SERVICE_HOST"), getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return Account{}, errors.New("kube: not in a pod: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set")
	}
	for _, mount := range mounts {
		token := filepath.Join(mount, "token")
		if _, err := os.Stat(token); err != nil {
			continue
		}
		a := Account{Server: net.JoinHostPort(host, port), TokenFile: token, CAFile: filepath.Join(mount, "ca.crt"),
			Namespace: getenv("POD_NAMESPACE")}
		if a.Namespace == "" {
			name, err := os.ReadFile(filepath.Join(mount, "namespace"))
			if err != nil {
				return Account{}, fmt.Errorf("kube: this pod's namespace is unknown: set POD_NAMESPACE by the downward API, or: %w", err)
			}
			a.Namespace = strings.TrimSpace(string(name))
		}
		return a, nil
	}
	return Account{}, fmt.Errorf("kube: no service account token in %s: project one into the first, or leave automountServiceAccountToken on",
		strings.Join(mounts, " or "))
}
