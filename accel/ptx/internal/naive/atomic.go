package naive

import (
	"math"
	"slices"

	"github.com/nicless/nicless/accel/ptx/internal/syntax"
)

// atomic executes atom and red.
func (n *lane) atomic(c *call, i *syntax.Instruction, t string) error {
	ops := i.Operands
	if i.Op.Base == "red" {
		ops = slices.Concat([]syntax.Operand{{Kind: syntax.Discard}}, ops)
	}
	address, err := n.address(c, ops[1])
	if err != nil {
		return err
	}
	if ops[2].Kind == syntax.List {
		return n.atomicVector(c, i, t, address, ops)
	}
	var in []uint64
	for _, o := range ops[2:] {
		v, err := n.value(c, o)
		if err != nil {
			return err
		}
		in = append(in, v&mask(8*size(t)))
	}
	old, err := n.exchange(c, i, t, address, in)
	if err == nil {
		c.set(ops[0], old)
	}
	return err
}

// atomicVector executes an operation of several elements, and reads operands before it writes results.
func (n *lane) atomicVector(
	c *call, i *syntax.Instruction, t string, address uint64, ops []syntax.Operand,
) error {
	var in, out []uint64
	for _, o := range ops[2].List {
		v, err := n.value(c, o)
		if err != nil {
			return err
		}
		in = append(in, v&mask(8*size(t)))
	}
	for k, v := range in {
		old, err := n.exchange(c, i, t, address+uint64(k)*size(t), []uint64{v})
		if err != nil {
			return err
		}
		out = append(out, old)
	}
	for k, o := range ops[0].List { // red has none
		c.set(o, out[k])
	}
	return nil
}

// exchange executes an atomic operation of one value, and returns the old one.
func (n *lane) exchange(
	c *call, i *syntax.Instruction, t string, address uint64, in []uint64,
) (old uint64, err error) {
	b, err := n.at(c, space(i), address, size(t))
	if err != nil {
		return 0, err
	}
	old = read(b)
	now, how := old, operation(i)
	switch {
	case how == "exch":
		now = in[0]
	case how == "cas":
		if old == in[0] {
			now = in[1]
		}
	case how == "inc":
		now = 0
		if old < in[0] {
			now = old + 1
		}
	case how == "dec":
		now = old - 1
		if old == 0 || old > in[0] {
			now = in[0]
		}
	case t == "f32":
		now = addFloats(uint32(old), uint32(in[0]), space(i) != "shared")
	default:
		now, err = integer(&syntax.Opcode{Base: how, Mods: []string{t}}, []uint64{old, in[0]})
		if err != nil {
			return 0, err
		}
	}
	write(b, now)
	return old, nil
}

// operation returns the name of an atomic operation.
func operation(i *syntax.Instruction) string {
	all := []string{"exch", "cas", "inc", "dec", "add", "min", "max", "and", "or", "xor"}
	k := slices.IndexFunc(i.Op.Mods, func(m string) bool { return slices.Contains(all, m) })
	return i.Op.Mods[k]
}

// addFloats adds bits as f32, and flushes subnormal operands and results if it is told to.
func addFloats(a, b uint32, flush bool) uint64 {
	const fraction, sign, nan = 1<<23 - 1, 1 << 31, 0x7fffffff
	flushed := func(v uint32) uint32 {
		if flush && v&^(sign|fraction) == 0 {
			return v & sign
		}
		return v
	}
	sum := math.Float32frombits(flushed(a)) + math.Float32frombits(flushed(b))
	if sum != sum {
		return nan
	}
	return uint64(flushed(math.Float32bits(sum)))
}
