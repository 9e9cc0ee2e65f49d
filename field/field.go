// Package field describes the bytes of a binary format as a tree of fields. Each field
// has its place in the bytes, its name, its value and what the value means.
//
// The Describe functions of packages wqe, cqe, doorbell and packet return such trees. A tree
// marshals to a JSON object whose members are in the order of the tree. [Tree.Print]
// shows every byte beside its name and meaning. To find one value, range over the tree
// and compare names. The names are those of the golden vectors, such as "wqe_counter".
//
// The Describe functions allocate, so no hot path uses them. Values of type [Bytes] may
// alias the bytes that were described.
package field

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
)

// A Tree is the fields of one object, in the order in which they are shown.
type Tree []Field

// A Field is one value of an object.
//
// Print shows a field without a Name, but JSON leaves it out; such fields are reserved,
// unused and stale bytes. A field with neither bytes (Len 0) nor Text is in JSON only.
// Every other field is in both.
type Field struct {
	Offset int    // offset of the field's first byte in the described bytes
	Len    int    // length in bytes; 0 if the value comes from other fields
	Name   string // name in JSON
	Value  any    // an integer, [Hex32], [Hex64], [Bytes], bool or string; nil if Sub or List is set
	Text   string // what the value means

	Sub  Tree    // members of an object
	List []Field // elements of an array; each has Sub, and Print shows its Name as a heading
}

// Hex32 is a 32-bit key, immediate or set of flags, shown as "0x%08x".
type Hex32 uint32

// Hex64 is a 64-bit address, key or mask, shown as "0x%016x".
type Hex64 uint64

// Bytes is a run of bytes, shown as lower-case hexadecimal digits in memory order.
type Bytes []byte

func (v Hex32) String() string { return fmt.Sprintf("0x%08x", uint32(v)) }
func (v Hex64) String() string { return fmt.Sprintf("0x%016x", uint64(v)) }
func (v Bytes) String() string { return hex.EncodeToString(v) }

// MarshalJSON implements json.Marshaler. The members are in the order of the tree.
func (t Tree) MarshalJSON() ([]byte, error) {
	var buf bytes.Buffer
	err := t.appendJSON(&buf)
	return buf.Bytes(), err
}

func (t Tree) appendJSON(buf *bytes.Buffer) error {
	sep := byte('{')
	for i := range t {
		f := &t[i]
		if f.Name == "" {
			continue
		}
		buf.WriteByte(sep)
		sep = ','
		buf.WriteString(strconv.Quote(f.Name))
		buf.WriteByte(':')
		if err := f.appendJSON(buf); err != nil {
			return err
		}
	}
	if sep == '{' {
		buf.WriteByte('{')
	}
	buf.WriteByte('}')
	return nil
}

func (f *Field) appendJSON(buf *bytes.Buffer) error {
	switch {
	case f.Sub != nil:
		return f.Sub.appendJSON(buf)
	case f.List != nil:
		sep := byte('[')
		for i := range f.List {
			buf.WriteByte(sep)
			sep = ','
			if err := f.List[i].Sub.appendJSON(buf); err != nil {
				return err
			}
		}
		if sep == '[' {
			buf.WriteByte('[')
		}
		buf.WriteByte(']')
		return nil
	}
	switch v := f.Value.(type) {
	case uint8, uint16, uint32, uint64, int:
		fmt.Fprintf(buf, "%d", v)
	case bool:
		fmt.Fprintf(buf, "%t", v)
	case Hex32, Hex64, Bytes:
		fmt.Fprintf(buf, "%q", v)
	case string:
		text, err := json.Marshal(v)
		if err != nil {
			return err
		}
		buf.Write(text)
	default:
		return fmt.Errorf("field: %s: a value of type %T has no JSON form", f.Name, v)
	}
	return nil
}
