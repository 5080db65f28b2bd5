package image

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

// maxImage is the target: 20 MiB, unpacked.
const maxImage = 20 << 20

// build builds lameduck as `make image` does, from the sources in a directory.
func build(t *testing.T, from string) Options {
	t.Helper()
	o := Options{Binaries: map[string]string{}, Revision: "test", Time: time.Unix(1_700_000_000, 0).UTC()}
	for _, architecture := range architectures() {
		path := filepath.Join(t.TempDir(), "lameduck")
		cmd := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-trimpath", "-ldflags", "-s -w", "-o", path, "./cmd/lameduck")
		cmd.Dir = from
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+architecture)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		o.Binaries[architecture] = path
	}
	return o
}

func archived(t *testing.T, o Options) (v1.ImageIndex, []byte) {
	t.Helper()
	index, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	var archive bytes.Buffer
	if err := Write(&archive, index, "lameduck:dev", o.Time); err != nil {
		t.Fatal(err)
	}
	return index, archive.Bytes()
}

func TestSameSourceGivesTheSameImageWhereverItLies(t *testing.T) {
	elsewhere := t.TempDir()
	for _, name := range []string{"go.mod", "go.sum", "cmd", "drain", "netns", "manifests"} {
		if out, err := exec.CommandContext(t.Context(), "cp", "-r", "../../"+name, elsewhere).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	first, firstBytes := archived(t, build(t, "../.."))
	second, secondBytes := archived(t, build(t, elsewhere))
	a, errA := first.Digest()
	b, errB := second.Digest()
	if err := errors.Join(errA, errB); err != nil {
		t.Fatal(err)
	}
	if a != b || !bytes.Equal(firstBytes, secondBytes) {
		t.Errorf("digests %s and %s; the archives are equal: %v", a, b, bytes.Equal(firstBytes, secondBytes))
	}
}

func TestImageHasTheStaticBinaryAndNothingElse(t *testing.T) {
	index, _ := archived(t, build(t, "../.."))
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	machines := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}
	if len(manifest.Manifests) != len(machines) {
		t.Fatalf("%d images", len(manifest.Manifests))
	}
	for _, d := range manifest.Manifests {
		t.Run(d.Platform.Architecture, func(t *testing.T) {
			one, err := index.Image(d.Digest)
			if err != nil {
				t.Fatal(err)
			}
			file, err := one.ConfigFile()
			if err != nil {
				t.Fatal(err)
			}
			if file.OS != "linux" || file.Architecture != d.Platform.Architecture || file.Config.User != User ||
				len(file.Config.Entrypoint) != 1 || file.Config.Entrypoint[0] != "/lameduck" {
				t.Errorf("configuration %+v", file)
			}
			checkFiles(t, one, machines[d.Platform.Architecture])
		})
	}
}

func checkFiles(t *testing.T, one v1.Image, machine elf.Machine) {
	t.Helper()
	reader := mutate.Extract(one)
	defer reader.Close()
	files := tar.NewReader(reader)
	header, err := files.Next()
	if err != nil {
		t.Fatal(err)
	}
	if header.Name != "lameduck" || header.Mode != 0o755 || header.Uid != 0 || header.Size > maxImage {
		t.Errorf("file %+v", header)
	}
	content, err := io.ReadAll(files)
	if err != nil {
		t.Fatal(err)
	}
	program, err := elf.NewFile(bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	if libraries, err := program.ImportedLibraries(); program.Machine != machine || err != nil || len(libraries) > 0 {
		t.Errorf("it is for %s and needs %q (%v)", program.Machine, libraries, err)
	}
	if _, err := files.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("there is another file: %v", err)
	}
}
