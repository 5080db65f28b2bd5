package box

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// enter builds the root and makes it this process's own.
func (o Options) enter() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := unix.Mount("tmpfs", o.Root, "tmpfs", unix.MS_NOSUID, "size=64k,mode=755"); err != nil {
		return fmt.Errorf("mount root: %w", err)
	}
	files := map[string]string{
		"lameduck": o.Binary, "etc/hosts": o.Hosts, "dev/termination-log": o.TerminationLog, "dev/null": "/dev/null",
	}
	if o.Cert != "" {
		files["tls/tls.crt"], files["tls/tls.key"] = o.Cert, o.Key
	}
	for inside, outside := range files {
		if err := bindFile(outside, filepath.Join(o.Root, inside)); err != nil {
			return err
		}
	}
	if err := o.mountProc(); err != nil {
		return err
	}
	if err := os.Chdir(o.Root); err != nil {
		return err
	}
	// With both arguments the same the old root lands on top of the new, and is taken off.
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("pivot root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("detach the old root: %w", err)
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	return unix.Mount("", "/", "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|unix.MS_NOSUID, "")
}

func bindFile(outside, inside string) error {
	if err := os.MkdirAll(filepath.Dir(inside), 0o755); err != nil {
		return err
	}
	file, err := os.Create(inside)
	if err != nil {
		return err
	}
	_ = file.Close()
	if err := unix.Mount(outside, inside, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind %s: %w", outside, err)
	}
	return nil
}

// mountProc mounts /proc anew, so that it shows the container's processes; where that is forbidden (a user namespace
// under a masked /proc) the outer one has to do: /proc/self is right there too.
func (o Options) mountProc() error {
	proc := filepath.Join(o.Root, "proc")
	if err := os.Mkdir(proc, 0o755); err != nil {
		return err
	}
	if unix.Mount("proc", proc, "proc", unix.MS_NOSUID|unix.MS_NOEXEC|unix.MS_NODEV, "") == nil {
		return nil
	}
	return unix.Mount("/proc", proc, "", unix.MS_BIND|unix.MS_REC, "")
}
