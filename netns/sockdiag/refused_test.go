package sockdiag_test

import (
	"errors"
	"io/fs"
	"runtime"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"lameduck/netns/netnstest"
	"lameduck/netns/sockdiag"
)

// C31, at this level: sock_diag is refused with EPERM, which can be told from other errors, and /proc remains.
func TestC31ProcRemainsWhereSockDiagIsRefused(t *testing.T) {
	netnstest.RunUnprivileged(t, nil, func(t *testing.T) {
		listener := listen(t, "[::]:0")
		refuseNetlink(t)
		if _, err := sockdiag.Open(); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("Open: %v", err)
		}
		if _, err := sockdiag.Watch(); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("Watch: %v", err)
		}
		var found []sockdiag.Socket
		err := sockdiag.ProcDump(sockdiag.Query{States: sockdiag.Of(sockdiag.Listen)}, func(s *sockdiag.Socket) bool {
			found = append(found, *s)
			return true
		})
		if err != nil || len(found) != 1 || found[0].Local.Port() != portOf(listener) {
			t.Errorf("listeners in /proc: %+v, %v", found, err)
		}
	})
}

// refuseNetlink answers socket(AF_NETLINK, ...) of the calling thread with EPERM from now on, as a seccomp profile may.
// The goroutine stays on the thread.
func refuseNetlink(t *testing.T) {
	t.Helper()
	runtime.LockOSThread()
	const number, firstArgument = 0, 16 // of struct seccomp_data; the argument's low half on a little-endian machine
	load := func(offset uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
	}
	unless := func(k uint32, skip uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: skip, K: k}
	}
	filter := []unix.SockFilter{
		load(number), unless(unix.SYS_SOCKET, 3),
		load(firstArgument), unless(unix.AF_NETLINK, 1),
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0)
	if err != nil {
		t.Fatal(err)
	}
}
