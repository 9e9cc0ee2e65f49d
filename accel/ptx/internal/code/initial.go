package code

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/nicless/nicless/accel/ptx/internal/alu"
	"github.com/nicless/nicless/accel/ptx/internal/syntax"
)

// initialize computes the initial values of all variables.
func (m *Module) initialize(s *syntax.Module) error {
	for _, v := range s.Variables {
		if v.Initial == nil {
			continue
		}
		g := m.names[v.Name].(*Variable)
		if err := m.initial(g, v); err != nil {
			return err
		}
	}
	return nil
}

// initial computes the initial value of a variable.
func (m *Module) initial(g *Variable, v *syntax.Variable) error {
	_, _, element, err := layout(v)
	if err != nil {
		return err
	}
	sizes := v.Sizes
	if len(sizes) > 0 && sizes[0] < 0 {
		sizes = append([]int64{int64(len(v.Initial.List))}, sizes[1:]...)
		whole := *v
		whole.Sizes = sizes
		g.Size, _, _, err = layout(&whole)
		if err != nil {
			return err
		}
	}
	if v.Vector > 1 {
		sizes = append(sizes[:len(sizes):len(sizes)], int64(v.Vector))
	}
	t, _ := alu.ParseType(v.Type)
	f := filler{module: m, variable: g, element: element, typ: t}
	f.fill(v.Initial, sizes, 0)
	return f.err
}

// A filler writes an initial value.
type filler struct {
	module   *Module
	variable *Variable
	element  int64
	typ      alu.Type
	err      error
}

// maxInitial is the most bytes of a variable that have initial values: as many as a text can have, in
// which each of them takes a byte at least.
const maxInitial = syntax.MaxText

// fill writes a list or a value at an offset. sizes are those of the array, outermost first.
func (f *filler) fill(i *syntax.Initial, sizes []int64, offset int64) {
	switch {
	case f.err != nil:
		return
	case !i.IsList && len(sizes) > 0, i.IsList && len(sizes) == 0:
		f.err = &Error{At: i.At, Why: "the initial value has not the shape of the variable"}
		return
	case !i.IsList:
		f.value(i, offset)
		return
	}
	step := f.element
	for _, n := range sizes[1:] {
		step *= n
	}
	if int64(len(i.List)) > sizes[0] {
		f.err = &Error{At: i.At, Why: fmt.Sprintf("there are %d values for %d elements", len(i.List), sizes[0])}
		return
	}
	for k := range i.List {
		f.fill(&i.List[k], sizes[1:], offset+int64(k)*step)
	}
}

// value writes one value.
func (f *filler) value(i *syntax.Initial, offset int64) {
	if i.Symbol != "" {
		symbol := f.module.names[i.Symbol]
		if symbol == nil {
			f.err = &Error{At: i.At, Why: fmt.Sprintf("%s is not declared", i.Symbol)}
			return
		}
		a := Address{
			Offset: offset, Width: int(f.element), Symbol: symbol, Add: i.Value.Bits, Generic: i.Generic,
		}
		for mask := i.Mask; mask != 0 && mask&0xff == 0; mask >>= 8 {
			a.Shift += 8
		}
		f.variable.Fixups = append(f.variable.Fixups, a)
		return
	}
	bits, why := f.bits(i.Value)
	if offset > maxInitial-f.element {
		why = fmt.Sprintf("there is an initial value at byte %d; at most %d bytes can have any", offset, maxInitial)
	}
	if why != "" {
		f.err = &Error{At: i.At, Why: why}
		return
	}
	for int64(len(f.variable.Bytes)) < offset+f.element {
		missing := offset + f.element - int64(len(f.variable.Bytes))
		f.variable.Bytes = append(f.variable.Bytes, make([]byte, missing)...)
	}
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], bits)
	copy(f.variable.Bytes[offset:offset+f.element], b[:])
}

// bits returns the bits of a constant as one of the variable's type, or why it is none.
func (f *filler) bits(c syntax.Constant) (bits uint64, why string) {
	double, single := c.Type == syntax.Double, c.Type == syntax.Single
	width := f.typ.Width
	switch {
	case double && f.typ.Kind == alu.Float && width == 32:
		return uint64(math.Float32bits(float32(math.Float64frombits(c.Bits)))), ""
	case double && width != 64, single && width != 32:
		return 0, fmt.Sprintf("a floating-point number is no value of type .%s", f.typ)
	case !double && !single && f.typ.IsFloat() && width >= 32 && c.Bits != 0:
		return 0, fmt.Sprintf("an integer is no value of type .%s", f.typ)
	}
	return c.Bits, ""
}
