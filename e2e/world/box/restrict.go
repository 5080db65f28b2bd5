package box

import (
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// restrict takes what a runtime's settings may take beyond Pod Security: open files, and sock_diag.
func (o Options) restrict() error {
	if o.Files != (Limit{}) {
		// By syscall's own, not unix's: Go's runtime, which has raised the soft limit at this process's start, would else
		// put its own idea of it back at exec (syscall/exec_unix.go).
		limit := syscall.Rlimit{Cur: o.Files.Soft, Max: o.Files.Hard}
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
			return fmt.Errorf("limit of open files: %w", err)
		}
	}
	if o.NoSockDiag {
		if err := refuseSockDiag(); err != nil {
			return fmt.Errorf("seccomp: %w", err)
		}
	}
	return nil
}

// Where struct seccomp_data has the system call's number and the low halves of its first and third argument, on a
// little-endian machine (include/uapi/linux/seccomp.h).
const (
	dataNumber = 0
	dataArg0   = 16
	dataArg2   = 32
)

// refuseSockDiag makes socket(AF_NETLINK, _, NETLINK_SOCK_DIAG) fail with EPERM, in this thread and what it becomes. It
// needs no_new_privs and no capability. It stands for the policies that refuse sock_diag (container-selinux before
// September 2025). It does not look at the architecture: it shall deny lameduck something, not hold an attacker.
func refuseSockDiag() error {
	load := func(offset uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
	}
	unless := func(k uint32, skip uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: skip, K: k}
	}
	filter := []unix.SockFilter{
		load(dataNumber), unless(unix.SYS_SOCKET, 5),
		load(dataArg0), unless(unix.AF_NETLINK, 3),
		load(dataArg2), unless(unix.NETLINK_SOCK_DIAG, 1),
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	return unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0)
}
