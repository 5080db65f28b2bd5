package part

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
)

// image is a container image of one layer.
type image struct {
	name, user string
	entry      []string
	// files are this machine's files by their path in the image; links are followed.
	files map[string]string
}

// blob is a file of an OCI image layout.
type blob struct {
	MediaType string `json:"mediaType"`
	Digest    string `json:"digest"`
	Size      int64  `json:"size"`
	// Annotations of the index name the image.
	Annotations map[string]string `json:"annotations,omitempty"`
}

// write writes the image as an archive of an OCI image layout, as `ctr images import` reads it.
func (i image) write(to string) error {
	layer, err := os.CreateTemp(filepath.Dir(to), "layer-")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(layer.Name()) }()
	defer func() { _ = layer.Close() }()
	sum := sha256.New()
	if err := i.writeLayer(io.MultiWriter(layer, sum)); err != nil {
		return fmt.Errorf("image %s: %w", i.name, err)
	}
	size, err := layer.Seek(0, io.SeekCurrent)
	if err != nil {
		return err
	}
	if _, err := layer.Seek(0, io.SeekStart); err != nil {
		return err
	}
	layerBlob := blob{MediaType: "application/vnd.oci.image.layer.v1.tar", Digest: digest(sum.Sum(nil)), Size: size}
	file, err := os.Create(to)
	if err != nil {
		return err
	}
	return errors.Join(i.writeLayout(file, layerBlob, layer), file.Close())
}

func (i image) writeLayout(out io.Writer, layer blob, content io.Reader) error {
	config := marshal(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux",
		"config": map[string]any{"Entrypoint": i.entry, "User": i.user, "Env": []string{"PATH=/usr/local/bin:/usr/bin:/bin"}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{layer.Digest}},
	})
	manifest := marshal(map[string]any{
		"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
		"config": describe("application/vnd.oci.image.config.v1+json", config), "layers": []blob{layer},
	})
	named := describe("application/vnd.oci.image.manifest.v1+json", manifest)
	named.Annotations = map[string]string{"io.containerd.image.name": i.name}
	archive := tar.NewWriter(out)
	for name, text := range map[string][]byte{
		"oci-layout":                          []byte(`{"imageLayoutVersion":"1.0.0"}`),
		"index.json":                          marshal(map[string]any{"schemaVersion": 2, "manifests": []blob{named}}),
		blobPath(describe("", config).Digest): config,
		blobPath(named.Digest):                manifest,
	} {
		if err := add(archive, name, 0o644, int64(len(text)), bytes.NewReader(text)); err != nil {
			return err
		}
	}
	if err := add(archive, blobPath(layer.Digest), 0o644, layer.Size, content); err != nil {
		return err
	}
	return archive.Close()
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

func describe(mediaType string, text []byte) blob {
	sum := sha256.Sum256(text)
	return blob{MediaType: mediaType, Digest: digest(sum[:]), Size: int64(len(text))}
}

func digest(sum []byte) string { return "sha256:" + hex.EncodeToString(sum) }

func blobPath(digest string) string { return "blobs/sha256/" + digest[len("sha256:"):] }

// marshal is for values that cannot fail.
func marshal(value any) []byte {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return text
}
