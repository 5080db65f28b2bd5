package node

// What the cluster is made with. All of it is private to the node's namespaces, so it can be the same everywhere.
const (
	Hostname = "node"
	// IP is the node's address, PodNet what its pods get theirs from, ServiceNet the Services.
	IP         = "10.77.0.1"
	PodNet     = "10.244.0.0/24"
	ServiceNet = "10.96.0.0/16"
	// DNS is the address of the Service of CoreDNS.
	DNS = "10.96.0.10"
	// Run holds all that the daemons keep. It is on a tmpfs of the node's mount namespace, and ends with it.
	Run        = "/run/e2e"
	Kubeconfig = Run + "/kubeconfig"
	// AuditLog tells what pods asked of the API server.
	AuditLog = Run + "/audit.log"
	// ContainerdSocket is containerd's, for ctr.
	ContainerdSocket = "/run/containerd/containerd.sock"
	// Image holds this harness's program: it is what holds the pods' namespaces, too.
	Image = "e2e.local/cluster:1"
	// CgroupRoot is above every cgroup of the cluster, in each hierarchy.
	CgroupRoot = "/lameduck-e2e"
)

// token is the administrator's. Nobody outside the namespace can reach the API server.
const token = "e2e"

// Options are the programs that the node runs, and where its logs go.
type Options struct {
	Kube, Debs, Logs string
	// Stay keeps the node until SIGTERM; else it ends with its standard input, that is with whoever holds the other end.
	Stay bool
}
