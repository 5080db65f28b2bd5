package inject

import (
	"bytes"
	"testing"
)

func BenchmarkStream(b *testing.B) {
	text := bytes.Repeat(read(b, "testdata/helm.yaml"), 100)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := Stream(text, nil); err != nil {
			b.Fatal(err)
		}
	}
}
