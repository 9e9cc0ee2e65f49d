package devx_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"io"
	"testing"
	"unicode/utf8"

	"github.com/nicless/nicless/field/devx"
	"github.com/nicless/nicless/internal/vectors"
)

// FuzzDescribe checks that any mailbox can be described, that the tree has each byte once, and that fields
// and unknown bits together are the mailbox: a command without unknown bits is made anew of its fields.
func FuzzDescribe(f *testing.F) {
	f.Add([]byte{}, uint16(0))
	f.Add(make([]byte, 15), uint16(0))
	f.Add(bytes.Repeat([]byte{0xff}, 16), uint16(0))
	f.Add(mailbox(272+40, map[int]uint32{0: 0x02000000, 0x10: 0x200}), uint16(0)) // a key with a list
	f.Add(mailbox(464, map[int]uint32{0: 0x05050000, 8: 1 << 31}), uint16(0))     // with an extension
	f.Add(bytes.Repeat([]byte{0xa5}, 272), uint16(devx.OpQueryQP))
	for _, name := range []string{"nvshmem_create_cq", "doca_create_qp", "ucx_init2rtr", "ucx_create_rmp"} {
		f.Add(vectors.Bytes(f, "devx_in", name), uint16(0))
	}
	f.Fuzz(func(t *testing.T, b []byte, answerOf uint16) {
		before := bytes.Clone(b)
		tree, err := devx.Describe(b, answerOf)
		if (tree == nil) != (len(b) < devx.HeadSize) {
			t.Fatalf("%d bytes: tree %v, error %v", len(b), tree, err)
		}
		if tree != nil {
			checkShown(t, tree, len(b))
		}
		if text, err := json.Marshal(tree); err != nil || !json.Valid(text) {
			t.Fatalf("JSON %s, %v", text, err)
		}
		if err := tree.Print(io.Discard, b); err != nil {
			t.Fatal(err)
		}
		if s := devx.Summary(b); s == "" || len(s) > 600 || !utf8.ValidString(s) {
			t.Fatalf("summary %q of %d bytes", s, len(s))
		}
		if len(b) >= devx.HeadSize {
			checkUnknown(t, b)
		}
		if !bytes.Equal(before, b) {
			t.Fatal("the mailbox was changed")
		}
	})
}

func checkUnknown(t *testing.T, b []byte) {
	c := devx.Find(binary.BigEndian.Uint16(b))
	if c == nil {
		return
	}
	again := make([]byte, len(b))
	for _, g := range c.In {
		for _, f := range g.Fields {
			switch {
			case f.End() > len(b):
			case f.Bytes != 0:
				copy(f.Raw(again), f.Raw(b))
			default:
				f.Put(again, f.Get(b))
			}
		}
	}
	if c.Op == devx.OpCreateMkey && len(b) > 272 {
		b, again = b[:272], again[:272]
	}
	if places := c.Unknown(b); (len(places) == 0) != bytes.Equal(b, again) {
		t.Fatalf("unknown %q\n% x, of fields\n% x", places, b, again)
	}
}
