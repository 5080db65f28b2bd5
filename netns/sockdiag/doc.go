// Package sockdiag tells of the TCP sockets of a network namespace: which there are (Dumper), which have just died
// (Watcher), and the same from /proc where the kernel's sock_diag is refused (ProcDump). None of it needs a capability.
//
// A socket that is opened here belongs to the namespace of the calling thread for good, whichever thread uses it later.
package sockdiag
