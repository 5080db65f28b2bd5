package takeover

import (
	"bytes"
	"testing"

	"golang.org/x/net/http2/hpack"
)

// A client that allows no dynamic table wants to be told of its size first (RFC 7541, 4.2), and names nothing in it.
func TestAnswersNeedNoTableOfTheClients(t *testing.T) {
	for _, kind := range []kind{checkHTTP2, checkGRPC} {
		_, rest, _ := cutFrame(verdict{kind, 5}.answer())
		_, rest, _ = cutFrame(rest)
		f, _, _ := cutFrame(rest)
		if f.kind != frameHeaders || f.stream != 5 || !bytes.HasPrefix(f.payload, []byte{0x20}) {
			t.Fatalf("%+v", f)
		}
		fields, err := hpack.NewDecoder(0, nil).DecodeFull(f.payload)
		if err != nil || fields[0].Name != ":status" {
			t.Errorf("%v, %v", fields, err)
		}
	}
}
