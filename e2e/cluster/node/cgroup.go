package node

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Hierarchies are the mount points of cgroup v1's controllers.
func hierarchies() ([]string, error) {
	file, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	var mounts []string
	for lines := bufio.NewScanner(file); lines.Scan(); {
		before, after, _ := strings.Cut(lines.Text(), " - ")
		if fields := strings.Fields(before); strings.HasPrefix(after, "cgroup ") && len(fields) > 4 {
			mounts = append(mounts, fields[4])
		}
	}
	if len(mounts) == 0 {
		return nil, errors.New("no cgroup v1 controllers are mounted on this machine, and this harness knows no others")
	}
	return mounts, nil
}

// makeCgroups makes CgroupRoot in each hierarchy.
func makeCgroups() error {
	mounts, err := hierarchies()
	if err != nil {
		return err
	}
	for _, mount := range mounts {
		root := filepath.Join(mount, CgroupRoot)
		if err := os.MkdirAll(root, 0o755); err != nil {
			return fmt.Errorf("make cgroup: %w", err)
		}
		// A new cpuset is empty, and no process can enter an empty one.
		for _, name := range []string{"cpuset.cpus", "cpuset.mems"} {
			value, err := os.ReadFile(filepath.Join(mount, name))
			if errors.Is(err, os.ErrNotExist) {
				continue
			}
			if err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(root, name), value, 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

// RemoveCgroups removes every cgroup that a node left. Processes that have just been killed hold theirs for a moment.
func RemoveCgroups() error {
	mounts, err := hierarchies()
	if err != nil {
		return err
	}
	retry := time.NewTicker(20 * time.Millisecond)
	defer retry.Stop()
	watchdog := time.After(10 * time.Second)
	for {
		var failed error
		for _, mount := range mounts {
			failed = errors.Join(failed, removeTree(filepath.Join(mount, CgroupRoot)))
		}
		if failed == nil {
			return nil
		}
		select {
		case <-retry.C:
		case <-watchdog:
			return fmt.Errorf("remove cgroups: %w", failed)
		}
	}
}

// removeTree removes a cgroup and those beneath it: its files go with it.
func removeTree(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.IsDir() {
			if err := removeTree(filepath.Join(dir, entry.Name())); err != nil {
				return err
			}
		}
	}
	if err := unix.Rmdir(dir); err != nil && !errors.Is(err, unix.ENOENT) {
		return &os.PathError{Op: "rmdir", Path: dir, Err: err}
	}
	return nil
}
