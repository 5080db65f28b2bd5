package part

import (
	"os/exec"
	"path/filepath"
	"strings"

	"lameduck/e2e/cluster/node"
	"lameduck/e2e/world"
)

// The images' names. A name with a domain of its own is looked for nowhere else, and nobody serves this domain.
const (
	AppImage      = "e2e.local/app:1"
	LameduckImage = "e2e.local/lameduck:1"
	EnvoyImage    = "e2e.local/envoy:1"
	GatewayImage  = "e2e.local/gateway:1"
	DNSImage      = "e2e.local/dns:1"
)

// images writes the images' archives. The large ones are kept: their programs' paths name what they are made from.
func (m maker) images(p Parts, tools world.Tools) ([]string, error) {
	libraries, err := libraries(tools.Envoy)
	if err != nil {
		return nil, err
	}
	envoy := image{name: EnvoyImage, user: "65532", entry: []string{"envoy"}, files: libraries}
	envoy.files["usr/local/bin/envoy"] = tools.Envoy
	large := map[string]image{
		"envoy-" + filepath.Base(filepath.Dir(tools.Envoy)): envoy,
		filepath.Base(p.Gateway): {name: GatewayImage, user: "65532", entry: []string{"envoy-gateway"},
			files: map[string]string{"usr/local/bin/envoy-gateway": p.Gateway}},
		filepath.Base(p.DNS): {name: DNSImage, user: "65532", entry: []string{"/dns"}, files: map[string]string{"dns": p.DNS}},
	}
	var archives []string
	for key, i := range large {
		archive, err := m.once(key+".tar", func(work string) (string, error) {
			to := filepath.Join(work, "image.tar")
			return to, i.write(to)
		})
		if err != nil {
			return nil, err
		}
		archives = append(archives, archive)
	}
	for name, i := range map[string]image{
		"cluster": {name: node.Image, user: "65535", entry: []string{"/cluster", "pause"}, files: map[string]string{"cluster": p.Cluster}},
		"app":     {name: AppImage, user: "65532", entry: []string{"/world", "app"}, files: map[string]string{"world": tools.World}},
	} {
		archive := filepath.Join(m.cache, name+".tar")
		if err := i.write(archive); err != nil {
			return nil, err
		}
		archives = append(archives, archive)
	}
	lameduck := filepath.Join(m.cache, "lameduck.tar")
	return append(archives, lameduck), writeProduct(lameduck, tools.Lameduck)
}

// libraries are the shared libraries of a program, with the loader, by their path in an image.
func libraries(program string) (map[string]string, error) {
	out, err := output(exec.Command("ldd", program))
	if err != nil {
		return nil, err
	}
	files := make(map[string]string)
	for field := range strings.FieldsSeq(string(out)) {
		if strings.HasPrefix(field, "/") {
			files[field[1:]] = field
		}
	}
	return files, nil
}
