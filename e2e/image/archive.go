package image

import (
	"archive/tar"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/distribution/reference"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

// Write writes an OCI layout as a tar archive, as `ctr images import`, `skopeo copy oci-archive:` and `podman load` read
// it. name is what the image is called there: lameduck:dev.
func Write(to io.Writer, index v1.ImageIndex, name string, at time.Time) error {
	dir, err := os.MkdirTemp("", "lameduck-image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return fmt.Errorf("image: %w", err)
	}
	// containerd takes its own annotation for the whole name, which a kubelet makes of a short one; others the common one.
	whole, err := reference.ParseNormalizedNamed(name)
	if err != nil {
		return fmt.Errorf("image: %w", err)
	}
	annotations := map[string]string{"io.containerd.image.name": whole.String(), "org.opencontainers.image.ref.name": name}
	if err := path.AppendIndex(index, layout.WithAnnotations(annotations)); err != nil {
		return fmt.Errorf("image: %w", err)
	}
	w := tar.NewWriter(to)
	err = filepath.WalkDir(dir, func(file string, entry fs.DirEntry, err error) error { // in the order of the names
		if err != nil || entry.IsDir() {
			return err
		}
		return add(w, dir, file, at)
	})
	if err != nil {
		return fmt.Errorf("image: %w", err)
	}
	return w.Close()
}

func add(w *tar.Writer, dir, file string, at time.Time) error {
	name, err := filepath.Rel(dir, file)
	if err != nil {
		return err
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err := w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(content)), ModTime: at}); err != nil {
		return err
	}
	_, err = w.Write(content)
	return err
}
