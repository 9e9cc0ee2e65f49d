package devx_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/field/devx"
)

// mailboxes calls f with the groups of each command and each answer, and the least length.
func mailboxes(t *testing.T, f func(t *testing.T, groups []*devx.Group, size int)) {
	t.Helper()
	for _, c := range devx.Commands() {
		t.Run(c.Name, func(t *testing.T) { f(t, c.In, c.InSize) })
		t.Run(c.Name+" answer", func(t *testing.T) { f(t, c.Out, c.OutSize) })
	}
	answer := devx.Find(devx.OpQueryHCACap)
	for n := range uint16(0x40) {
		if g := devx.Capabilities(n); g != nil {
			t.Run(g.Name, func(t *testing.T) { f(t, append(answer.Out[:len(answer.Out):len(answer.Out)], g), answer.OutSize) })
		}
	}
}

// bits returns the first bit of a field, counted from the start of the mailbox in the order of the
// bytes, and how many there are.
func bits(f *devx.Field) (first, n int) {
	switch {
	case f.Bytes != 0:
		return 8 * f.At, 8 * f.Bytes
	case f.High == 63:
		return 8 * f.At, 64
	}
	return 8*f.At + 31 - f.High, f.High - f.Low + 1
}

func TestFieldsDoNotOverlap(t *testing.T) {
	mailboxes(t, func(t *testing.T, groups []*devx.Group, size int) {
		of := make(map[int]string)
		for _, g := range groups {
			for _, f := range g.Fields {
				first, n := bits(f)
				for i := first; i < first+n; i++ {
					assert.Empty(t, of[i], "%s has bit %#x.%d, which another field has", f.Name, i/8, i%8)
					of[i] = f.Name
				}
				if g.Name != "qpc_ext" { // the extension lies behind the least length
					assert.LessOrEqual(t, f.End(), size, "end of %s", f.Name)
				}
			}
		}
	})
}

func TestFieldsAreWellFormed(t *testing.T) {
	mailboxes(t, func(t *testing.T, groups []*devx.Group, _ int) {
		names := make(map[string]bool)
		for _, g := range groups {
			for _, f := range g.Fields {
				key := f.Name
				if g.Context {
					key = g.Name + "." + key
				}
				assert.False(t, names[key], "%s is there twice", key)
				names[key] = true
				assert.NotEmpty(t, f.Text, "meaning of %s", f.Name)
				assert.Zero(t, f.At%4, "place of %s", f.Name)
				if f.High == 63 {
					assert.Zero(t, f.Low, "bits of %s", f.Name)
				} else {
					assert.Less(t, f.High, 32, "bits of %s", f.Name)
					assert.LessOrEqual(t, f.Low, f.High, "bits of %s", f.Name)
				}
				for v := range f.Values {
					assert.LessOrEqual(t, v, f.Most(), "a value of %s", f.Name)
				}
			}
		}
	})
}

// Putting a value changes the field's bits and no others, and getting returns it.
func TestFieldPutGet(t *testing.T) {
	mailboxes(t, func(t *testing.T, groups []*devx.Group, size int) {
		for _, g := range groups {
			for _, f := range g.Fields {
				for _, fill := range []byte{0x00, 0xff} {
					mailbox := make([]byte, max(size, f.End()))
					for i := range mailbox {
						mailbox[i] = fill
					}
					if f.Bytes != 0 {
						require.Len(t, f.Raw(mailbox), f.Bytes, f.Name)
						assert.Nil(t, f.Raw(mailbox[:f.End()-1]), f.Name)
						continue
					}
					v := uint64(0x5a5a5a5a5a5a5a5a) & f.Most()
					if v == 0 {
						v = 1
					}
					f.Put(mailbox, v)
					require.Equal(t, v, f.Get(mailbox), "%s put", f.Name)
					first, n := bits(f)
					for i := range 8 * len(mailbox) {
						want := fill & 1
						if i >= first && i < first+n {
							want = byte(v >> (first + n - 1 - i) & 1)
						}
						if got := mailbox[i/8] >> (7 - i%8) & 1; got != want {
							t.Fatalf("%s put: bit %d is %d", f.Name, i, got)
						}
					}
					assert.Zero(t, f.Get(mailbox[:f.End()-1]), "%s cut off", f.Name)
				}
			}
		}
	})
}

func TestFind(t *testing.T) {
	last := -1
	for _, c := range devx.Commands() {
		assert.Greater(t, int(c.Op), last, "commands are in order")
		last = int(c.Op)
		assert.Same(t, c, devx.Find(c.Op))
		assert.Equal(t, fmt.Sprintf("%s (%#x)", c.Name, c.Op), devx.Name(c.Op))
	}
	assert.Nil(t, devx.Find(0xffff))
	assert.Nil(t, devx.Find(0x717))
	assert.Equal(t, "CREATE_XRQ (0x717)", devx.Name(0x717))
	assert.Equal(t, "firmware command 0xffff", devx.Name(0xffff))
}
