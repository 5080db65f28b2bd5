// Package part makes what the end-to-end cluster consists of, and keeps it: programs from Go modules, Debian's packages,
// a real Envoy, images. Each part lies in a folder of the cache that is named after all that it is made from.
package part

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"lameduck/e2e/world"
)

// Parts are the paths of what a cluster consists of.
type Parts struct {
	// Kube is Kubernetes and etcd in one program, Gateway and DNS are Envoy Gateway and CoreDNS.
	Kube, Gateway, DNS string
	// GatewayVersion is as asked for: empty stands for a recent one.
	GatewayVersion string
	// Debs is the folder that Debian's packages are unpacked in.
	Debs string
	// CRDs is the folder of the definitions of Envoy Gateway's and the Gateway API's types.
	CRDs string
	// Images are the archives of the images.
	Images []string
	// World is the program of e2e/world, for its client; Cluster is that of this harness, for the node.
	World, Cluster string
}

// maker makes parts in a cache.
type maker struct {
	// sources is the folder of e2e/cluster.
	sources, cache string
	log            io.Writer
}

// Prepare makes what is missing in cache, with a version of Envoy Gateway that build/ has a module for; empty stands for
// a recent one. The programs are for this machine.
func Prepare(ctx context.Context, repository, cache, gatewayVersion string, log io.Writer) (Parts, error) {
	m := maker{sources: filepath.Join(repository, "e2e", "cluster"), cache: cache, log: log}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return Parts{}, err
	}
	tools, err := world.Prepare(ctx, log)
	if err != nil {
		return Parts{}, err
	}
	p := Parts{GatewayVersion: gatewayVersion, World: tools.World, Cluster: filepath.Join(filepath.Dir(tools.World), "cluster")}
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"harness", func() error { return m.harness(ctx, p.Cluster) }},
		{"Debian's packages", func() (err error) { p.Debs, err = m.debs(ctx); return }},
		{"Envoy Gateway", func() (err error) { p.Gateway, err = m.program(ctx, gateway(gatewayVersion)); return }},
		{"its CRDs", func() (err error) { p.CRDs, err = m.crds(ctx, gatewayVersion); return }},
		{"CoreDNS", func() (err error) { p.DNS, err = m.program(ctx, dns()); return }},
		{"Kubernetes", func() (err error) { p.Kube, err = m.program(ctx, kube()); return }},
		{"images", func() (err error) { p.Images, err = m.images(p, tools); return }},
	} {
		start := time.Now()
		if err := step.do(); err != nil {
			return Parts{}, fmt.Errorf("%s: %w", step.name, err)
		}
		if took := time.Since(start); took > time.Second {
			m.say("%s: %.0f s", step.name, took.Seconds())
		}
	}
	return p, nil
}

func (m maker) say(format string, args ...any) { _, _ = fmt.Fprintf(m.log, format+"\n", args...) }

// once makes the folder or file name of the cache by make, which is given a new folder to work in and returns the path
// in it that is to be kept. What is there is whole: it is put there by a rename.
func (m maker) once(name string, make func(work string) (string, error)) (string, error) {
	kept := filepath.Join(m.cache, name)
	if exists(kept) {
		return kept, nil
	}
	work, err := os.MkdirTemp(m.cache, "making-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(work) }()
	made, err := make(work)
	if err != nil {
		return "", err
	}
	return kept, os.Rename(made, kept)
}
