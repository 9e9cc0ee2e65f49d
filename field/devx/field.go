package devx

import (
	"encoding/binary"
	"fmt"
)

// A Field is a number in a mailbox: bits High to Low of the big-endian word of 32 bits at byte
// At, or the 8 bytes at At if High is 63. A field of Bytes bytes is not a number but those bytes.
type Field struct {
	Name      string // that of mlx5_ifc.h
	At        int    // offset in the mailbox
	High, Low int
	Bytes     int
	Text      string            // what it means, with its unit
	Values    map[uint64]string // names of single values
}

// Get returns the field's value, and 0 if the mailbox ends before the field.
func (f *Field) Get(mailbox []byte) uint64 {
	switch {
	case f.End() > len(mailbox):
		return 0
	case f.High == 63:
		return binary.BigEndian.Uint64(mailbox[f.At:])
	}
	return uint64(binary.BigEndian.Uint32(mailbox[f.At:])>>f.Low) & f.Most()
}

// On reports whether a field is not 0.
func (f *Field) On(mailbox []byte) bool { return f.Get(mailbox) != 0 }

// Put sets the field to v, of which only the bits count that the field has. It panics if the mailbox
// ends before the field.
func (f *Field) Put(mailbox []byte, v uint64) {
	if f.High == 63 {
		binary.BigEndian.PutUint64(mailbox[f.At:], v)
		return
	}
	mask := uint32(f.Most()) << f.Low
	word := binary.BigEndian.Uint32(mailbox[f.At:])
	binary.BigEndian.PutUint32(mailbox[f.At:], word&^mask|uint32(v)<<f.Low&mask)
}

// Raw returns the bytes of a field that is not a number, nil if the mailbox ends before it.
func (f *Field) Raw(mailbox []byte) []byte {
	if f.Bytes == 0 || f.End() > len(mailbox) {
		return nil
	}
	return mailbox[f.At:f.End()]
}

// End returns the offset of the first byte after the field's word.
func (f *Field) End() int {
	switch {
	case f.Bytes != 0:
		return f.At + f.Bytes
	case f.High == 63:
		return f.At + 8
	}
	return f.At + 4
}

// Most returns the greatest value that the field can have.
func (f *Field) Most() uint64 {
	if f.High == 63 {
		return 1<<64 - 1
	}
	return 1<<(f.High-f.Low+1) - 1
}

// Meaning says what a value of the field means, "" if the value has no name.
func (f *Field) Meaning(v uint64) string { return f.Values[v] }

// Place says where the field is: "0x18 31..28".
func (f *Field) Place() string {
	switch {
	case f.Bytes != 0:
		return fmt.Sprintf("%#x, %d bytes", f.At, f.Bytes)
	case f.High == 63:
		return fmt.Sprintf("%#x, 8 bytes", f.At)
	case f.High == f.Low:
		return fmt.Sprintf("%#x bit %d", f.At, f.High)
	}
	return fmt.Sprintf("%#x bits %d..%d", f.At, f.High, f.Low)
}

// A Group is fields that stand together: a context, or the head of a mailbox.
type Group struct {
	Name string
	At   int // offset of the group in each mailbox that has it

	// Context says that the fields are those of a context: described, they are an object of their own.
	Context bool
	Fields  []*Field
}

// bits adds a field at an offset of the group.
func (g *Group) bits(name string, at, high, low int, text string, values ...map[uint64]string) *Field {
	f := &Field{Name: name, At: g.At + at, High: high, Low: low, Text: text}
	if len(values) != 0 {
		f.Values = values[0]
	}
	g.Fields = append(g.Fields, f)
	return f
}

// word adds a field of 8 bytes.
func (g *Group) word(name string, at int, text string) *Field { return g.bits(name, at, 63, 0, text) }

// raw adds a field that is not a number.
func (g *Group) raw(name string, at, size int, text string) *Field {
	f := g.bits(name, at, 0, 0, text)
	f.Bytes = size
	return f
}
