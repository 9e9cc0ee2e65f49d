package cqe

import (
	"encoding/json"
	"io"
	"testing"
)

// FuzzCQE checks that parse then put is the identity for both layouts. It also checks that
// Describe returns either a tree or an error, and that the tree can be marshaled and printed.
func FuzzCQE(f *testing.F) {
	var b [Size]byte
	PutResp(&b, 0x200, 5, 0x13000abc, 0x01020304, 6, 40, 9, MakeOpOwn(RespSendImm, FormatInline32, true, 1))
	f.Add(b[:])
	f.Add(append(make([]byte, Size), b[:]...))
	PutErr(&b, 0xabc, 1, opSend, 7, RemoteAccess, 0x88, 0xd3)
	f.Add(b[:])
	f.Add(b[:17])
	f.Fuzz(func(t *testing.T, in []byte) {
		tree, err := Describe(in)
		if (tree == nil) == (err == nil) {
			t.Fatalf("tree %v, error %v", tree, err)
		}
		if err != nil {
			return
		}
		if _, err := json.Marshal(tree); err != nil {
			t.Fatal(err)
		}
		if err := tree.Print(io.Discard, in); err != nil {
			t.Fatal(err)
		}
		if len(in) == Size128 {
			if data, _ := Inline128((*[Size128]byte)(in)); len(data) > MaxInline64 {
				t.Errorf("%d bytes inline", len(data))
			}
		}

		src := (*[Size]byte)(in[len(in)-Size:])
		var out [Size]byte
		c := ParseCQE(src)
		c.Put(&out)
		if out != *src {
			t.Errorf("CQE:\n in %x\nout %x", *src, out)
		}
		e := ParseErrCQE(src)
		e.Put(&out)
		if out != *src {
			t.Errorf("ErrCQE:\n in %x\nout %x", *src, out)
		}
		if got, want := c.WC(), ParseWC(src); got != want {
			t.Errorf("WC of the value:\n got %+v\nwant %+v", got, want)
		}
		if blk, err := ParseBlock(src); err == nil {
			blk.Put(&out)
			if out != *src {
				t.Errorf("Block:\n in %x\nout %x", *src, out)
			}
		}
		if x, err := Expand(src, 7, 3, MiniFormat(src[0])); err == nil {
			n := 0
			for ; x.Left() > 0; n++ {
				x.Next(Mini{})
			}
			if n > 8 {
				t.Errorf("%d entries from a ring of 8", n)
			}
		}
	})
}
