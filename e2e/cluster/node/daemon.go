package node

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
)

// daemon is one of the node's programs.
type daemon struct {
	name string
	args []string
}

func etcd(o Options) daemon {
	return daemon{"etcd", []string{o.Kube, "etcd",
		"--data-dir=" + Run + "/etcd", "--unsafe-no-fsync", "--log-level=warn",
		"--listen-client-urls=http://127.0.0.1:2379", "--advertise-client-urls=http://127.0.0.1:2379",
		"--listen-peer-urls=http://127.0.0.1:2380",
	}}
}

func containerd(o Options) daemon {
	return daemon{"containerd", []string{filepath.Join(o.Debs, "usr/bin/containerd"), "--config=" + Run + "/containerd.toml"}}
}

func apiserver(o Options) daemon {
	key := Run + "/service-accounts.key"
	return daemon{"kube-apiserver", []string{o.Kube, "kube-apiserver",
		"--etcd-servers=http://127.0.0.1:2379", "--cert-dir=" + Run + "/apiserver",
		"--advertise-address=" + IP, "--service-cluster-ip-range=" + ServiceNet,
		"--token-auth-file=" + Run + "/tokens", "--authorization-mode=RBAC", "--allow-privileged",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + key, "--service-account-signing-key-file=" + key,
		"--kubelet-preferred-address-types=InternalIP",
		"--audit-policy-file=" + Run + "/audit.yaml", "--audit-log-path=" + AuditLog,
	}}
}

// clients are the daemons that need an API server.
func clients(o Options) []daemon {
	kubeconfig := "--kubeconfig=" + Kubeconfig
	return []daemon{
		{"kube-controller-manager", []string{o.Kube, "kube-controller-manager", kubeconfig, "--leader-elect=false",
			"--root-ca-file=" + Run + "/apiserver/apiserver.crt", "--use-service-account-credentials",
			"--service-account-private-key-file=" + Run + "/service-accounts.key",
			"--controllers=*,-node-ipam-controller", "--cert-dir=" + Run + "/controller-manager",
		}},
		{"kube-scheduler", []string{o.Kube, "kube-scheduler", kubeconfig, "--leader-elect=false"}},
		{"kubelet", []string{o.Kube, "kubelet", kubeconfig, "--config=" + Run + "/kubelet.yaml",
			"--root-dir=" + Run + "/kubelet", "--cert-dir=" + Run + "/kubelet-pki",
			"--node-ip=" + IP, "--hostname-override=" + Hostname,
		}},
		{"kube-proxy", []string{o.Kube, "kube-proxy", "--config=" + Run + "/kube-proxy.yaml"}},
	}
}

// start starts a daemon with its log in the folder of logs.
func (d daemon) start(o Options) (*os.Process, error) {
	log, err := os.Create(logOf(o, d.name))
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	defer func() { _ = null.Close() }()
	process, err := os.StartProcess(d.args[0], d.args, &os.ProcAttr{
		Dir: "/", Files: []*os.File{null, log, log}, Env: Environment(o.Debs),
	})
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", d.name, err)
	}
	return process, nil
}

// Environment lets programs find those of Debian's packages, unpacked in debs, and their libraries.
func Environment(debs string) []string {
	triplet := map[string]string{"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}[runtime.GOARCH]
	return []string{
		"PATH=" + debs + "/usr/sbin:" + debs + "/usr/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"LD_LIBRARY_PATH=" + debs + "/usr/lib/" + triplet + ":" + debs + "/lib/" + triplet,
		"KUBECONFIG=" + Kubeconfig, "HOME=" + Run, "CONTAINERD_ADDRESS=" + ContainerdSocket, "CONTAINERD_NAMESPACE=k8s.io",
	}
}
