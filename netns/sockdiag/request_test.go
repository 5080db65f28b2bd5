package sockdiag

import (
	"encoding/binary"
	"testing"

	"golang.org/x/sys/unix"
)

func TestStatesOfAQuery(t *testing.T) {
	if got := (Query{}).states(); got&Of(Established) == 0 || got&Of(NewSynRecv) == 0 || got>>(NewSynRecv+1) != 0 || got&1 != 0 {
		t.Errorf("all states: %b", got)
	}
	if got := (Query{States: Of(SynRecv)}).states(); got != Of(SynRecv, NewSynRecv) {
		t.Errorf("half-open: %b", got)
	}
	if got := (Query{States: Of(Listen)}).states(); got != Of(Listen) {
		t.Errorf("listeners: %b", got)
	}
}

func TestRequestIsBuiltInOldMemory(t *testing.T) {
	dirty := make([]byte, 4096)
	for i := range dirty {
		dirty[i] = 0xff
	}
	b := appendRequest(dirty[:0], Query{States: Of(Listen)}, 5)
	if len(b) != unix.SizeofNlMsghdr+reqLen || int(ne32(b)) != len(b) || ne32(b[8:]) != 5 {
		t.Fatalf("header: %v", b)
	}
	for i, c := range b[unix.SizeofNlMsghdr+reqExt+1 : unix.SizeofNlMsghdr+reqStates] {
		if c != 0 {
			t.Fatalf("byte %d of the socket id is %d", i, c)
		}
	}
	if binary.NativeEndian.Uint16(b[6:])&unix.NLM_F_DUMP != unix.NLM_F_DUMP {
		t.Error("no dump")
	}
}
