package field

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// rowBytes is how many bytes one printed line shows.
const rowBytes = 8

// Of more than longZeros lines of zeros a field shows the first and the last, and "*" between, as hexdump
// does: a few lines are read as they are, but an answer of the firmware has 500.
const longZeros = 16

// Print writes one line per field: offset, bytes, name, value and meaning. b is the
// bytes that the tree describes. Bytes past the end of b are left out. Print returns
// the error of w, if any.
//
//	00  00                       opmod      0
//	01  00 0a                    wqe_index  10
//	03  08                       opcode     8  RDMA_WRITE
func (t Tree) Print(w io.Writer, b []byte) error {
	p := printer{w: bufio.NewWriter(w), b: b, name: t.nameWidth(0)}
	p.offset = max(2, len(fmt.Sprintf("%x", len(b))))
	p.tree(t, 0)
	return p.w.Flush() // bufio keeps the first error
}

type printer struct {
	w      *bufio.Writer
	b      []byte
	offset int // digits of an offset
	name   int // width of the widest name, indentation included
}

func (p *printer) tree(t Tree, depth int) {
	for i := range t {
		f := &t[i]
		if f.List != nil {
			for j := range f.List {
				e := &f.List[j]
				p.line(e.Offset, nil, depth, e.Name, "", e.Text)
				p.tree(e.Sub, depth+1)
			}
			continue
		}
		if f.Sub != nil {
			p.line(f.Offset, nil, depth, f.Name, "", f.Text)
			p.tree(f.Sub, depth+1)
			continue
		}
		if f.Len == 0 && f.Text == "" {
			continue // in JSON only
		}
		p.field(f, depth)
	}
}

func (p *printer) field(f *Field, depth int) {
	raw := p.bytes(f)
	value := ""
	switch v := f.Value.(type) {
	case nil:
	case Bytes:
		if len(raw) == 0 {
			value = v.String() // the line shows no raw bytes
		}
	default:
		value = fmt.Sprint(v)
	}
	if len(raw) == 0 {
		p.line(-1, nil, depth, f.Name, value, f.Text)
		return
	}
	name := f.Name
	if name == "" {
		name = "-"
	}
	p.line(f.Offset, raw[:min(rowBytes, len(raw))], depth, name, value, f.Text)
	for at := rowBytes; at < len(raw); at += rowBytes {
		if n := zeroRows(raw[at:]); n >= longZeros && zeroRows(raw[at-rowBytes:]) > n {
			p.w.WriteString(strings.Repeat(" ", p.offset+2) + "*\n")
			at += (n - 1) * rowBytes
		}
		p.line(f.Offset+at, raw[at:min(at+rowBytes, len(raw))], 0, "", "", "")
	}
}

// zeroRows returns how many whole lines of zeros b begins with.
func zeroRows(b []byte) (n int) {
	for len(b) >= rowBytes && [rowBytes]byte(b) == [rowBytes]byte{} {
		b, n = b[rowBytes:], n+1
	}
	return n
}

// bytes returns the field's bytes, without those past the end of b.
func (p *printer) bytes(f *Field) []byte {
	lo := min(max(f.Offset, 0), len(p.b))
	return p.b[lo:min(lo+max(f.Len, 0), len(p.b))]
}

// line writes one line. It leaves out a negative offset.
func (p *printer) line(offset int, raw []byte, depth int, name, value, text string) {
	at := ""
	if offset >= 0 {
		at = fmt.Sprintf("%0*x", p.offset, offset)
	}
	label := strings.Repeat("  ", depth) + name
	s := fmt.Sprintf("%*s  %-*s  %-*s  %s", p.offset, at, 3*rowBytes-1, spaced(raw), p.name, label, value)
	if text != "" {
		s = strings.TrimRight(s, " ") + "  " + text
	}
	p.w.WriteString(strings.TrimRight(s, " "))
	p.w.WriteByte('\n')
}

func spaced(raw []byte) string { return fmt.Sprintf("% x", raw) }

func (t Tree) nameWidth(depth int) (n int) {
	for i := range t {
		f := &t[i]
		if f.List == nil {
			n = max(n, 2*depth+len(f.Name))
		}
		n = max(n, f.Sub.nameWidth(depth+1))
		for j := range f.List {
			n = max(n, 2*depth+len(f.List[j].Name), f.List[j].Sub.nameWidth(depth+1))
		}
	}
	return n
}
