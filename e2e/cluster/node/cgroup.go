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

// hierarchies are the mount points of cgroup file systems of a kind: "cgroup" is v1, one for each controller.
func hierarchies(kind string) ([]string, error) {
	file, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	var mounts []string
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		before, after, _ := strings.Cut(lines.Text(), " - ")
		if fields := strings.Fields(before); strings.HasPrefix(after, kind+" ") && len(fields) > 4 {
			mounts = append(mounts, fields[4])
		}
	}
	return mounts, lines.Err()
}

// makeCgroups makes CgroupRoot in each hierarchy.
func makeCgroups() error {
	mounts, err := hierarchies("cgroup")
	if err != nil {
		return err
	}
	if len(mounts) == 0 {
		return errors.New("no cgroup v1 controllers are mounted on this machine, and this harness knows no others")
	}
	for _, mount := range mounts {
		root := filepath.Join(mount, CgroupRoot)
		if err := os.MkdirAll(root, 0o755); err != nil {
			return fmt.Errorf("make cgroup: %w", err)
		}
		if err := setUpCgroup(mount, root); err != nil {
			return fmt.Errorf("set cgroup up: %w", err)
		}
	}
	return nil
}

// setUpCgroup gives root, a new cgroup beneath mount, what it needs of its controller.
func setUpCgroup(mount, root string) error {
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
	// All pods together would have the weight of one process beside the machine's others.
	shares := filepath.Join(root, "cpu.shares")
	if _, err := os.Stat(shares); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return os.WriteFile(shares, []byte("16384"), 0o644)
}

// RemoveCgroups removes every cgroup that a node left. Processes that have just been killed hold theirs for a moment.
func RemoveCgroups() error {
	mounts, err := hierarchies("cgroup")
	if err != nil {
		return err
	}
	// Where v1 and v2 are mounted side by side, containers have one in v2 too.
	unified, err := hierarchies("cgroup2")
	if err != nil {
		return err
	}
	mounts = append(mounts, unified...)
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
