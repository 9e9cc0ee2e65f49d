package control

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

// A place is the offset and size of a field. Size 0 means a text, which takes the rest.
type place struct {
	offset, size int
	name         string
}

// layout is a walker that notes the places of the fields. It has the rule for offsets once more,
// independently of encoder and decoder.
type layout struct {
	fields []place
	end    int
	widest int
}

func layoutOf(m Message) layout {
	l := layout{widest: 1}
	m.walk(&l)
	for l.end%l.widest != 0 {
		l.end++
	}
	return l
}

func (l *layout) add(name string, size, align int) {
	for l.end%align != 0 {
		l.end++
	}
	l.fields = append(l.fields, place{l.end, size, name})
	l.end += size
	l.widest = max(l.widest, align)
}

func (l *layout) u8(name string, _ *uint8)    { l.add(name, 1, 1) }
func (l *layout) u16(name string, _ *uint16)  { l.add(name, 2, 2) }
func (l *layout) u32(name string, _ *uint32)  { l.add(name, 4, 4) }
func (l *layout) u64(name string, _ *uint64)  { l.add(name, 8, 8) }
func (l *layout) bytes(name string, v []byte) { l.add(name, len(v), 1) }
func (l *layout) text(name string, _ *string) { l.add(name, 0, 1); l.widest = 1 }
func (l *layout) hasText() bool               { n := len(l.fields); return n > 0 && l.fields[n-1].size == 0 }
func (l *layout) clearPadding(b []byte) []byte {
	out := make([]byte, len(b))
	for _, f := range l.fields {
		end := f.offset + f.size
		if f.size == 0 {
			end = len(b)
		}
		copy(out[f.offset:end], b[f.offset:end])
	}
	return out
}

func TestEveryFieldIsNamedOnceAndTextIsLast(t *testing.T) {
	for name, m := range messages() {
		seen := make(map[string]bool)
		l := layoutOf(m)
		for i, f := range l.fields {
			assert.Regexp(t, `^[a-z]+(_[a-z]+)*$`, f.name, name)
			assert.False(t, seen[f.name], "%s: %s twice", name, f.name)
			seen[f.name] = true
			assert.True(t, f.size > 0 || i == len(l.fields)-1, "%s: text %s is not last", name, f.name)
		}
		assert.LessOrEqual(t, l.end, MaxMessage-HeaderSize, name)
	}
}

// drawer is a walker that fills a message with random values.
type drawer struct{ t *rapid.T }

func (d drawer) u8(name string, v *uint8)   { *v = rapid.Uint8().Draw(d.t, name) }
func (d drawer) u16(name string, v *uint16) { *v = rapid.Uint16().Draw(d.t, name) }
func (d drawer) u32(name string, v *uint32) { *v = rapid.Uint32().Draw(d.t, name) }
func (d drawer) u64(name string, v *uint64) { *v = rapid.Uint64().Draw(d.t, name) }
func (d drawer) bytes(name string, v []byte) {
	copy(v, rapid.SliceOfN(rapid.Byte(), len(v), len(v)).Draw(d.t, name))
}
func (d drawer) text(name string, v *string) { *v = rapid.StringN(-1, -1, 400).Draw(d.t, name) }

func TestRoundTrip(t *testing.T) {
	for name, zero := range messages() {
		t.Run(name, func(t *testing.T) {
			l := layoutOf(zero)
			rapid.Check(t, func(t *rapid.T) {
				in := blank(zero)
				in.walk(drawer{t})
				op := Op(rapid.Uint16().Draw(t, "op"))
				flags, tag := rapid.Uint16().Draw(t, "flags"), rapid.Uint64().Draw(t, "tag")
				before := rapid.SliceOfN(rapid.Byte(), 0, 9).Draw(t, "before")

				b := Append(before, op, flags, tag, in)
				assert.Equal(t, before, b[:len(before)], "Append keeps what was there")
				h, payload, err := ParseHeader(b[len(before):])
				assert.NoError(t, err)
				assert.Equal(t, Header{op, flags, uint32(len(payload)), tag}, h)
				if !l.hasText() {
					assert.Len(t, payload, l.end)
				}
				out := blank(zero)
				assert.NoError(t, Parse(op, payload, out))
				assert.Equal(t, in, out)
			})
		})
	}
}
