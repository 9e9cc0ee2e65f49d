// Package vectors reads what a GPU computed for single PTX instructions, for tests of code that executes
// them. The file is accel/ptx/testdata/h200.bin.gz; accel/ptx/testdata/record has the program that recorded
// it, and the format in its README.
package vectors

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"strings"
)

// A File has the forms of one device. All inputs and results are the low bits of 64, zero-extended.
type File struct {
	Device string                 // name, compute capability, driver and version of PTX
	Tables map[string][4][]uint64 // inputs by name: a column for each operand
	Rows   int                    // of each table and result
	Forms  []Form
}

// A Form is an instruction with its modifiers, or a few that belong together.
type Form struct {
	Name     string
	Template string     // PTX; $0 and $1 are results, $a to $d operands
	Results  []string   // types of the results
	Sources  []Source   // of the operands
	Values   [][]uint64 // of each result: a value for each row
}

// A Source is where an operand comes from: its number k takes column k of the table.
type Source struct {
	Type, Table string
}

const magic = "PTXVEC1\n"

// maxFile is the most bytes of a file without compression, 10 times those of the one that there is.
const maxFile = 32 << 20

// Read reads a file that is compressed by gzip.
func Read(path string) (*File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	b, err := io.ReadAll(io.LimitReader(z, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(b) > maxFile {
		return nil, fmt.Errorf("%s: more than %d bytes", path, maxFile)
	}
	r := reader{b: b}
	v := r.file()
	if r.err == nil && len(r.b) > 0 {
		r.err = fmt.Errorf("%d bytes follow the last form", len(r.b))
	}
	if r.err != nil {
		return nil, fmt.Errorf("%s: %w", path, r.err)
	}
	return v, nil
}

// A reader takes values from the front of b, and zeros after the first error.
type reader struct {
	b   []byte
	err error
}

func (r *reader) take(n int) []byte {
	if r.err == nil && n > len(r.b) {
		r.err = fmt.Errorf("%d bytes are needed, %d are left", n, len(r.b))
	}
	if r.err != nil {
		return nil
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

func (r *reader) count() int {
	if b := r.take(4); b != nil {
		return int(binary.LittleEndian.Uint32(b))
	}
	return 0
}

func (r *reader) text() string {
	if b := r.take(2); b != nil {
		return string(r.take(int(binary.LittleEndian.Uint16(b))))
	}
	return ""
}

func (r *reader) column(rows int) []uint64 {
	var v []uint64
	for b := r.take(8 * rows); len(b) > 0; b = b[8:] {
		v = append(v, binary.LittleEndian.Uint64(b))
	}
	return v
}

func (r *reader) file() *File {
	if string(r.take(len(magic))) != magic && r.err == nil {
		r.err = fmt.Errorf("it does not begin with %q", magic)
	}
	tables, rows, forms := r.count(), r.count(), r.count()
	v := &File{Device: r.text(), Tables: map[string][4][]uint64{}, Rows: rows}
	for ; tables > 0 && r.err == nil; tables-- {
		name := string(bytes.TrimRight(r.take(8), "\x00"))
		var columns [4][]uint64
		for i := range columns {
			columns[i] = r.column(rows)
		}
		v.Tables[name] = columns
	}
	for ; forms > 0 && r.err == nil; forms-- {
		v.Forms = append(v.Forms, r.form(v))
	}
	return v
}

func (r *reader) form(v *File) Form {
	f := Form{Name: r.text(), Results: strings.Split(r.text(), ",")}
	sources := r.text()
	f.Template = r.text()
	for s := range strings.SplitSeq(sources, ",") {
		kind, table, _ := strings.Cut(s, ":")
		if _, ok := v.Tables[table]; !ok && r.err == nil {
			r.err = fmt.Errorf("%s: there is no table %q", f.Name, table)
		}
		f.Sources = append(f.Sources, Source{kind, table})
	}
	for range f.Results {
		f.Values = append(f.Values, r.column(v.Rows))
	}
	return f
}

// Operands returns the operands of a form in one row, zero where it has fewer than four.
func (v *File) Operands(f *Form, row int) (operands [4]uint64) {
	for k, s := range f.Sources {
		operands[k] = v.Tables[s.Table][k][row]
	}
	return operands
}
