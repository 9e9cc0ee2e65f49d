package naive

import (
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/nicless/nicless/accel/ptx/internal/syntax"
)

// number returns the value that bits have as a type.
func number(bits uint64, t string) *big.Int {
	width := uint(8 * size(t))
	n := new(big.Int).SetUint64(bits & mask(uint64(width)))
	if t[0] == 's' && n.Bit(int(width)-1) == 1 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), width))
	}
	return n
}

// bitsOf returns the low bits of a number, of which a negative one has infinitely many.
func bitsOf(n *big.Int, width uint) uint64 {
	m := new(big.Int).Lsh(big.NewInt(1), width)
	return new(big.Int).Mod(n, m).Uint64() // Mod is never negative
}

// compute executes an instruction that computes.
func (n *lane) compute(c *call, i *syntax.Instruction) error {
	t := i.Op.Mods[len(i.Op.Mods)-1]
	switch i.Op.Base {
	case "setp":
		return n.setp(c, i)
	case "selp":
		a, b, err := n.two(c, i.Operands[1:])
		if err != nil {
			return err
		}
		if !c.preds[i.Operands[3].Name] {
			a = b
		}
		c.set(i.Operands[0], a)
		return nil
	case "mov":
		if t == "pred" {
			c.preds[i.Operands[0].Name] = c.preds[i.Operands[1].Name]
			return nil
		}
		if i.Operands[0].Kind == syntax.List || i.Operands[1].Kind == syntax.List {
			return n.parts(c, i, 8*size(t))
		}
	case "and", "or", "xor", "not":
		if t == "pred" {
			return c.predicate(i)
		}
	}
	var in []uint64
	for _, o := range i.Operands[1:] {
		v, err := n.value(c, o)
		if err != nil {
			return err
		}
		in = append(in, v)
	}
	v, err := integer(i.Op, in)
	if err != nil {
		return err
	}
	c.set(i.Operands[0], v)
	return nil
}

// parts executes a mov of so many bits between a value and its parts, the lowest of which is the first.
func (n *lane) parts(c *call, i *syntax.Instruction, bits uint64) error {
	to, from := i.Operands[0], i.Operands[1]
	if from.Kind != syntax.List {
		v, err := n.value(c, from)
		part := bits / uint64(len(to.List))
		for k, o := range to.List {
			c.set(o, v>>(uint64(k)*part)&mask(part))
		}
		return err
	}
	all, part := uint64(0), bits/uint64(len(from.List))
	for k, o := range from.List {
		v, err := n.value(c, o)
		if err != nil {
			return err
		}
		all |= v & mask(part) << (uint64(k) * part)
	}
	c.set(to, all)
	return nil
}

func (n *lane) two(c *call, ops []syntax.Operand) (a, b uint64, err error) {
	if a, err = n.value(c, ops[0]); err != nil {
		return 0, 0, err
	}
	b, err = n.value(c, ops[1])
	return a, b, err
}

// predicate computes with predicates.
func (c *call) predicate(i *syntax.Instruction) error {
	a := c.preds[i.Operands[1].Name]
	if i.Op.Base == "not" {
		c.preds[i.Operands[0].Name] = !a
		return nil
	}
	c.preds[i.Operands[0].Name] = combine(i.Op.Base, a, c.preds[i.Operands[2].Name])
	return nil
}

func combine(how string, a, b bool) bool {
	switch how {
	case "and":
		return a && b
	case "or":
		return a || b
	}
	return a != b
}

// setp compares.
func (n *lane) setp(c *call, i *syntax.Instruction) error {
	a, b, err := n.two(c, i.Operands[1:])
	if err != nil {
		return err
	}
	t := i.Op.Mods[len(i.Op.Mods)-1]
	d := number(a, t).Cmp(number(b, t))
	how, ok := i.Op.Mods[0], false
	switch how {
	case "eq":
		ok = d == 0
	case "ne":
		ok = d != 0
	case "lt", "lo":
		ok = d < 0
	case "le", "ls":
		ok = d <= 0
	case "gt", "hi":
		ok = d > 0
	case "ge", "hs":
		ok = d >= 0
	default:
		return fmt.Errorf("comparison %s", how)
	}
	p, q := i.Operands[0], syntax.Operand{}
	if p.Kind == syntax.Pair {
		p, q = p.List[0], p.List[1]
	}
	both, not := ok, !ok
	if len(i.Op.Mods) == 3 {
		o := i.Operands[3]
		with := c.preds[o.Name] != o.Negated
		both, not = combine(i.Op.Mods[1], ok, with), combine(i.Op.Mods[1], !ok, with)
	}
	c.preds[p.Name] = both
	if q.Name != "" {
		c.preds[q.Name] = not
	}
	return nil
}

// integer computes an instruction of integers.
func integer(op *syntax.Opcode, in []uint64) (uint64, error) {
	t := op.Mods[len(op.Mods)-1]
	width := uint(8 * size(t))
	var x []*big.Int
	for _, v := range in {
		x = append(x, number(v, t))
	}
	r := new(big.Int)
	switch op.Base {
	case "add":
		r.Add(x[0], x[1])
	case "sub":
		r.Sub(x[0], x[1])
	case "mul", "mad":
		r.Mul(x[0], x[1])
		switch op.Mods[0] {
		case "hi":
			r.Rsh(r, width) // of a negative one towards minus infinity, as the high bits are
		case "wide":
			width *= 2
		}
		if op.Base == "mad" {
			r.Add(r, new(big.Int).SetUint64(in[2]))
		}
	case "div", "rem":
		if x[1].Sign() == 0 {
			return 0, fmt.Errorf("a division by 0 has no result")
		}
		q, m := new(big.Int).QuoRem(x[0], x[1], new(big.Int))
		r = q
		if op.Base == "rem" {
			r = m
		}
	case "min":
		r = slices.MinFunc(x, (*big.Int).Cmp)
	case "max":
		r = slices.MaxFunc(x, (*big.Int).Cmp)
	case "neg":
		r.Neg(x[0])
	case "abs":
		r.Abs(x[0])
	case "sad":
		r.Add(r.Abs(r.Sub(x[0], x[1])), x[2])
	case "and":
		return in[0] & in[1], nil
	case "or":
		return in[0] | in[1], nil
	case "xor":
		return in[0] ^ in[1], nil
	case "not":
		return ^in[0] & mask(uint64(width)), nil
	case "cnot":
		if in[0]&mask(uint64(width)) == 0 {
			r.SetInt64(1)
		}
	case "shl":
		r.Lsh(x[0], uint(min(in[1]&mask(32), 64)))
	case "shr":
		r.Rsh(x[0], uint(min(in[1]&mask(32), 64)))
	case "mov":
		return in[0], nil
	case "cvt":
		return convert(op, in[0])
	default:
		return bits(op, t, in)
	}
	return bitsOf(r, width), nil
}

// convert is cvt between integers. A register that is larger than the result has it with its sign.
func convert(op *syntax.Opcode, v uint64) (uint64, error) {
	from, to := op.Mods[len(op.Mods)-1], op.Mods[len(op.Mods)-2]
	n := number(v, from)
	if slices.Contains(op.Mods, "sat") {
		width := uint(8 * size(to))
		least, greatest := new(big.Int), new(big.Int).Lsh(big.NewInt(1), width)
		if to[0] == 's' {
			greatest.Rsh(greatest, 1)
			least.Neg(greatest)
		}
		greatest.Sub(greatest, big.NewInt(1))
		n = slices.MaxFunc([]*big.Int{least, n}, (*big.Int).Cmp)
		n = slices.MinFunc([]*big.Int{greatest, n}, (*big.Int).Cmp)
	}
	return bitsOf(number(bitsOf(n, 64), to), 64), nil
}

// text returns bits as a string, the highest one first.
func text(v uint64, width uint) string { return fmt.Sprintf("%0*b", width, v&mask(uint64(width))) }

// parse is the opposite of text.
func parse(s string) uint64 {
	n, _ := new(big.Int).SetString("0"+s, 2)
	return n.Uint64()
}

// bits computes what looks at single bits.
func bits(op *syntax.Opcode, t string, in []uint64) (uint64, error) {
	width := uint(8 * size(t))
	a := text(in[0], width)
	switch op.Base {
	case "popc":
		return uint64(strings.Count(a, "1")), nil
	case "clz":
		if at := strings.IndexByte(a, '1'); at >= 0 {
			return uint64(at), nil
		}
		return uint64(width), nil
	case "brev":
		b := []byte(a)
		slices.Reverse(b)
		return parse(string(b)), nil
	case "prmt":
		all := text(in[1], 32) + text(in[0], 32) // byte 7 first
		var out string
		for k := 3; k >= 0; k-- {
			sel := in[2] >> (4 * k) & 15
			b := all[64-8*(sel&7)-8:][:8]
			if sel&8 != 0 {
				b = strings.Repeat(b[:1], 8)
			}
			out += b
		}
		return parse(out), nil
	case "lop3":
		var out strings.Builder
		b, c := text(in[1], 32), text(in[2], 32)
		for k := range 32 {
			out.WriteByte('0' + byte(in[3]>>parse(a[k:k+1]+b[k:k+1]+c[k:k+1])&1))
		}
		return parse(out.String()), nil
	case "shf":
		n := in[2] & 31
		if op.Mods[1] == "clamp" {
			n = min(in[2]&mask(32), 32)
		}
		both := text(in[1], 32) + text(in[0], 32)
		if op.Mods[0] == "l" {
			return parse(both[n:][:32]), nil
		}
		return parse(both[32-n:][:32]), nil
	case "bfe":
		pos, count := int(in[1]&255), int(in[2]&255)
		fill := "0"
		if t[0] == 's' && count > 0 {
			fill = a[int(width)-1-min(pos+count-1, int(width)-1):][:1]
		}
		long := strings.Repeat(fill, 512) + a
		end := len(long) - pos
		got := long[end-count : end]
		got = strings.Repeat(fill, 512) + got
		if pos > int(width) {
			got = strings.Repeat(fill, 512)
		}
		return parse(got[len(got)-int(width):]), nil
	case "bfi":
		pos, count := int(in[2]&255), int(in[3]&255)
		out := []byte(text(in[1], width))
		for k := 0; k < count && pos+k < int(width); k++ {
			out[int(width)-1-pos-k] = "01"[in[0]>>k&1]
		}
		return parse(string(out)), nil
	}
	return 0, fmt.Errorf("not known")
}
