package kube

import (
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
)

// A namespace may hold more than lameduck may use of memory: a LIST is read slice by slice, and what is not needed is dropped.
func TestListTakesTheMemoryOfOneSlice(t *testing.T) {
	const slices, endpoints = 200, 50
	var before, now runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	f := feed{slices: map[string]*endpointSlice{}}
	read, most := 0, uint64(0)
	_, err := readList(generate(slices, endpoints), func(s *endpointSlice) error {
		if read++; read%20 == 0 {
			runtime.GC()
			runtime.ReadMemStats(&now)
			most = max(most, now.HeapAlloc-min(now.HeapAlloc, before.HeapAlloc))
		}
		return f.put(s)
	})
	if err != nil || f.endpoints != slices*endpoints {
		t.Fatalf("%d endpoints, %v", f.endpoints, err)
	}
	if most > 8<<20 {
		t.Errorf("%d bytes in use for a list of %d MB", most, slices*300_000>>20)
	}
	t.Logf("%.1f MB in use", float64(most)/(1<<20))
}

// generate makes a list of 300 kB a slice, most of it of no use here.
func generate(slices, endpoints int) io.Reader {
	reader, writer := io.Pipe()
	go func() {
		fmt.Fprint(writer, `{"metadata":{"resourceVersion":"7"},"items":[`)
		for i := range slices {
			var all []string
			for j := range endpoints {
				all = append(all, fmt.Sprintf(`{"addresses":["10.%d.%d.%d"],"conditions":{"ready":true,"serving":true,"terminating":false},"nodeName":"node-%d",
					"zone":"a","targetRef":{"kind":"Pod","namespace":"shop","name":"app-%d-%d","uid":"00000000-0000-0000-0000-%012d"}}`, i>>8, i&255, j, j, i, j, i*j))
			}
			comma := ","
			if i == slices-1 {
				comma = ""
			}
			fmt.Fprintf(writer, `{"metadata":{"name":"app-%d","labels":{"kubernetes.io/service-name":"app"},"managedFields":[{"fieldsV1":%q}]},"endpoints":[%s],"ports":[{"name":"","port":80}]}%s`,
				i, strings.Repeat("f", 280_000), strings.Join(all, ","), comma)
		}
		fmt.Fprint(writer, "]}")
		writer.Close()
	}()
	return reader
}
