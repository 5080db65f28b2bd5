package part

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// packages are Debian's packages with the container runtime, and the libraries that they need beside libc. They are
// only unpacked: nothing is installed, no service starts.
func packages() []string {
	return []string{
		"containerd", "runc", "containernetworking-plugins", "nftables",
		"libnftables1", "libnftnl11", "libmnl0", "libxtables12", "libjansson4", "libgmp10", "libedit2", "libbsd0", "libmd0", "libtinfo6",
		"libseccomp2",
	}
}

// debs is a folder with the packages unpacked. The archive's newest versions are taken, and kept: VERSIONS there tells
// which they are.
func (m maker) debs(ctx context.Context) (string, error) {
	for _, tool := range []string{"apt-get", "dpkg", "dpkg-deb"} {
		if _, err := exec.LookPath(tool); err != nil {
			return "", fmt.Errorf("%w: the container runtime comes from Debian's packages, so this needs a Debian", err)
		}
	}
	names := packages()
	sum := sha256.Sum256([]byte(strings.Join(names, " ")))
	return m.once("debs-"+hex.EncodeToString(sum[:])[:12], func(work string) (string, error) {
		m.say("fetching Debian's packages (36 MB)")
		if err := download(ctx, work, names); err != nil {
			return "", err
		}
		return unpack(ctx, work)
	})
}

// download fetches the packages into dir, with a fresh list of them if the one that is there does not do.
func download(ctx context.Context, dir string, names []string) error {
	fetch := func() error {
		cmd := exec.CommandContext(ctx, "apt-get", append([]string{"download", "-q"}, names...)...)
		cmd.Dir = dir
		_, err := output(cmd)
		return err
	}
	first := fetch()
	if first == nil {
		return nil
	}
	if _, err := output(exec.CommandContext(ctx, "apt-get", "update", "-q")); err != nil {
		return errors.Join(first, err)
	}
	return fetch()
}

// unpack unpacks all packages of dir and returns the folder.
func unpack(ctx context.Context, dir string) (string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.deb"))
	if err != nil {
		return "", err
	}
	slices.Sort(files)
	root := filepath.Join(dir, "root")
	var versions strings.Builder
	for _, file := range files {
		if _, err := output(exec.CommandContext(ctx, "dpkg-deb", "-x", file, root)); err != nil {
			return "", err
		}
		version, err := output(exec.CommandContext(ctx, "dpkg-deb", "-W", file))
		if err != nil {
			return "", err
		}
		versions.Write(version)
	}
	return root, os.WriteFile(filepath.Join(root, "VERSIONS"), []byte(versions.String()), 0o644)
}
