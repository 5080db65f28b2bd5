package part

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	product "lameduck/e2e/image"
)

// image is a container image of one layer.
type image struct {
	name, user string
	entry      []string
	// files are this machine's files by their path in the image; links are followed.
	files map[string]string
}

// write writes the image as an archive, as `ctr images import` reads it.
func (i image) write(to string) error {
	layer, err := os.CreateTemp(filepath.Dir(to), "layer-")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(layer.Name()) }()
	if err := errors.Join(i.writeLayer(layer), layer.Close()); err != nil {
		return fmt.Errorf("image %s: %w", i.name, err)
	}
	index, err := i.index(layer.Name())
	if err != nil {
		return fmt.Errorf("image %s: %w", i.name, err)
	}
	return writeIndex(to, index, i.name)
}

func (i image) index(layer string) (v1.ImageIndex, error) {
	content, err := tarball.LayerFromFile(layer, tarball.WithMediaType(types.OCILayer), tarball.WithCompressionLevel(gzip.BestSpeed))
	if err != nil {
		return nil, err
	}
	config := v1.Config{Entrypoint: i.entry, User: i.user, Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin"}}
	one, err := product.One(content, runtime.GOARCH, time.Time{}, config)
	if err != nil {
		return nil, err
	}
	return mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex), mutate.IndexAddendum{Add: one}), nil
}

// writeProduct writes lameduck's own image, as people install it, of this machine's architecture.
func writeProduct(to, binary string) error {
	index, err := product.New(product.Options{Binaries: map[string]string{runtime.GOARCH: binary}})
	if err != nil {
		return err
	}
	return writeIndex(to, index, LameduckImage)
}

func writeIndex(to string, index v1.ImageIndex, name string) error {
	file, err := os.Create(to)
	if err != nil {
		return err
	}
	return errors.Join(product.Write(file, index, name, time.Time{}), file.Close())
}

// writeLayer writes the files, each folder before what is in it.
func (i image) writeLayer(out io.Writer) error {
	archive := tar.NewWriter(out)
	made := map[string]bool{".": true}
	for _, name := range slices.Sorted(maps.Keys(i.files)) {
		if err := addFolders(archive, path.Dir(name), made); err != nil {
			return err
		}
		if err := addFile(archive, name, i.files[name]); err != nil {
			return err
		}
	}
	header := &tar.Header{Typeflag: tar.TypeDir, Name: "tmp/", Mode: 0o1777}
	return errors.Join(archive.WriteHeader(header), archive.Close())
}

func addFolders(archive *tar.Writer, name string, made map[string]bool) error {
	if made[name] {
		return nil
	}
	if err := addFolders(archive, path.Dir(name), made); err != nil {
		return err
	}
	made[name] = true
	return archive.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: 0o755})
}

func addFile(archive *tar.Writer, name, from string) error {
	file, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	return add(archive, name, 0o755, info.Size(), file)
}

func add(archive *tar.Writer, name string, mode, size int64, content io.Reader) error {
	if err := archive.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: size}); err != nil {
		return err
	}
	_, err := io.Copy(archive, content)
	return err
}
