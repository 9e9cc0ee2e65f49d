package doorbell

import (
	"encoding/binary"
	"encoding/json"
	"io"
	"testing"
)

// FuzzDoorbell checks that parsing and packing a word or register gives the same bits, and that
// Describe returns either a tree or an error.
func FuzzDoorbell(f *testing.F) {
	f.Add(uint8(0), []byte{0, 0, 0, 2, 0, 1, 0, 5})
	f.Add(uint8(10), []byte{0x11, 0x12, 0x34, 0x56, 0x11, 0x12, 0x34, 0x56, 0, 0, 4, 5})
	f.Add(uint8(12), make([]byte, 64))
	f.Fuzz(func(t *testing.T, k uint8, b []byte) {
		kind := kinds[int(k)%len(kinds)].kind
		tree, err := Describe(kind, b)
		if (tree == nil) == (err == nil) {
			t.Fatalf("%s: tree %v, error %v", kind, tree, err)
		}
		if err == nil {
			if _, err := json.Marshal(tree); err != nil {
				t.Fatal(err)
			}
			if err := tree.Print(io.Discard, b); err != nil {
				t.Fatal(err)
			}
		}
		if len(b) < 8 {
			return
		}
		src, out := (*[8]byte)(b), [8]byte{}
		ParseRecord(src).Put(&out)
		if out != *src {
			t.Errorf("record:\n in %x\nout %x", *src, out)
		}
		r := ParseRing(src)
		r.Put(&out)
		if out != *src {
			t.Errorf("ring:\n in %x\nout %x", *src, out)
		}
		if m := MakeRing(r.Index(), r.QPN()); m.Index() != r.Index() || m.QPN() != r.QPN() {
			t.Errorf("ring %x: made %x", r, m)
		}
		w := binary.BigEndian.Uint32(b)
		if got := ParseArm(w).Word(); got != w {
			t.Errorf("arm word: in %08x out %08x", w, got)
		}
		ringSize := 1 << (k & 15)
		n, ok := Pending(w, uint16(r.Index()), ringSize)
		if n < 0 || n > ringSize || (!ok && n != 0) {
			t.Errorf("Pending(%#x, %d, %d) = %d, %v", w, r.Index(), ringSize, n, ok)
		}
	})
}
