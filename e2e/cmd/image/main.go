// Command image makes lameduck's OCI image of binaries, as an archive.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"time"

	"lameduck/e2e/image"
)

func main() {
	to := flag.String("o", "lameduck.oci.tar", "archive to write")
	name := flag.String("name", "lameduck:dev", "what the image is called in it")
	revision := flag.String("revision", "", "commit")
	at := flag.Int64("time", 0, "time of the commit, in seconds of Unix time")
	binaries := map[string]string{}
	for _, architecture := range []string{"amd64", "arm64"} {
		flag.Func(architecture, "binary for "+architecture, func(path string) error {
			binaries[architecture] = path
			return nil
		})
	}
	flag.Parse()
	o := image.Options{Binaries: binaries, Revision: *revision, Time: time.Unix(*at, 0).UTC()}
	if err := write(o, *to, *name); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func write(o image.Options, to, name string) error {
	index, err := image.New(o)
	if err != nil {
		return err
	}
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	var archive bytes.Buffer
	if err := image.Write(&archive, index, name, o.Time); err != nil {
		return err
	}
	if err := os.WriteFile(to, archive.Bytes(), 0o644); err != nil {
		return err
	}
	fmt.Printf("%s  %s  %s, %.1f MB for %d architectures\n", digest, name, to, float64(archive.Len())/1e6, len(o.Binaries))
	return nil
}
