package node

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// mounts makes this mount namespace one in which the daemons can write wherever they are used to without leaving
// anything on the machine.
func mounts() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NOEXEC|unix.MS_NODEV, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	if err := unix.Mount("tmpfs", "/run", "tmpfs", 0, "size=8g,mode=755"); err != nil {
		return fmt.Errorf("mount /run: %w", err)
	}
	// The kubelet, CNI and containerd have paths in these that no setting moves.
	for _, dir := range []string{"/var/lib", "/var/log"} {
		if err := overlay(dir); err != nil {
			return err
		}
	}
	if err := hideSysctls(); err != nil {
		return err
	}
	// What the kubelet mounts for a pod must reach the mount namespaces of its containers.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""); err != nil {
		return fmt.Errorf("make mounts shared: %w", err)
	}
	return nil
}

func overlay(dir string) error {
	upper, work := filepath.Join(Run, "overlay", dir, "upper"), filepath.Join(Run, "overlay", dir, "work")
	for _, d := range []string{upper, work} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	options := "lowerdir=" + dir + ",upperdir=" + upper + ",workdir=" + work
	if err := unix.Mount("overlay", dir, "overlay", 0, options); err != nil {
		return fmt.Errorf("mount an overlay over %s: %w", dir, err)
	}
	return nil
}

// hideSysctls puts plain files over the sysctls that the kubelet sets at its start (pkg/kubelet/cm): they belong to no
// namespace, and the machine would keep them.
func hideSysctls() error {
	for _, name := range []string{
		"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops",
		"kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes",
	} {
		real := filepath.Join("/proc/sys", name)
		value, err := os.ReadFile(real)
		if err != nil {
			return err
		}
		stand := filepath.Join(Run, "sysctl", name)
		if err := os.MkdirAll(filepath.Dir(stand), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(stand, value, 0o644); err != nil {
			return err
		}
		if err := unix.Mount(stand, real, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("hide %s: %w", real, err)
		}
	}
	return nil
}
