// Package image makes lameduck's OCI image, without a container engine. The same binaries give the same bytes.
package image

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// User is whom the image runs as: any uid but 0 that no file belongs to. It is a number, so that the kubelet can tell
// that it is not root (runAsNonRoot).
const User = "65532:65532"

// Options says what is in the image.
type Options struct {
	// Binaries are paths by architecture, as Go names it.
	Binaries map[string]string
	// Revision is the commit, Time its time: an image that bore the time of the build would differ each time.
	Revision string
	Time     time.Time
}

// architectures are in the order of the index.
func architectures() []string { return []string{"amd64", "arm64"} }

// New makes an index with an image for each architecture that there is a binary for.
//
// An image has the binary and nothing else. It needs no certificates: lameduck speaks TLS to the API server alone, whose
// own certificate authority comes with the token.
func New(o Options) (v1.ImageIndex, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, architecture := range architectures() {
		path, ok := o.Binaries[architecture]
		if !ok {
			continue
		}
		one, err := o.image(architecture, path)
		if err != nil {
			return nil, fmt.Errorf("image: %s: %w", architecture, err)
		}
		platform := &v1.Platform{OS: "linux", Architecture: architecture}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: one, Descriptor: v1.Descriptor{Platform: platform}})
	}
	return index, nil
}

func (o Options) image(architecture, path string) (v1.Image, error) {
	layer, err := o.layer(path)
	if err != nil {
		return nil, err
	}
	return One(layer, architecture, o.Time, v1.Config{
		Entrypoint: []string{"/lameduck"},
		User:       User,
		WorkingDir: "/",
		Labels: map[string]string{
			"org.opencontainers.image.title":       "lameduck",
			"org.opencontainers.image.description": "A sidecar that makes a pod's death invisible to the clients behind Envoy",
			"org.opencontainers.image.licenses":    "Apache-2.0",
			"org.opencontainers.image.revision":    o.Revision,
		},
	})
}

// One makes an image for Linux of one layer; at is what it bears as its time.
func One(layer v1.Layer, architecture string, at time.Time, config v1.Config) (v1.Image, error) {
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	one, err := mutate.Append(base, mutate.Addendum{Layer: layer, History: v1.History{Created: v1.Time{Time: at}, CreatedBy: "make image"}})
	if err != nil {
		return nil, err
	}
	file, err := one.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Created, file.Config = "linux", architecture, v1.Time{Time: at}, config
	return mutate.ConfigFile(one, file)
}

// layer has the one file, owned by root so that it cannot be changed by whom it runs as.
func (o Options) layer(path string) (v1.Layer, error) {
	binary, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var buffer bytes.Buffer
	w := tar.NewWriter(&buffer)
	header := &tar.Header{Name: "lameduck", Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(binary)), ModTime: o.Time}
	if err := w.WriteHeader(header); err != nil {
		return nil, err
	}
	if _, err := w.Write(binary); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(buffer.Bytes())), nil }
	return tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer))
}
