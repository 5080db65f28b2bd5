package box

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// dropPrivileges gives up all capabilities of the calling thread for good and becomes UID. In a user namespace that
// maps nobody else the process is UID already.
func dropPrivileges() error {
	for c := uintptr(0); c <= unix.CAP_LAST_CAP; c++ {
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil && !errors.Is(err, unix.EINVAL) {
			return fmt.Errorf("bounding set: %w", err)
		}
	}
	if os.Getuid() != UID {
		if err := become(UID); err != nil {
			return err
		}
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if err := unix.Capset(&header, &none[0]); err != nil {
		return fmt.Errorf("capset: %w", err)
	}
	return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
}

func become(id int) error {
	if err := unix.Setgroups([]int{id}); err != nil {
		return err
	}
	if err := unix.Setresgid(id, id, id); err != nil {
		return err
	}
	return unix.Setresuid(id, id, id)
}
