package alu

import (
	"math"
	"math/bits"
)

func init() {
	register(logic, "and", "or", "xor", "not", "cnot")
	register(shift, "shl", "shr")
	register(funnelShift, "shf")
	register(count, "popc", "clz", "brev", "bfind")
	register(extractField, "bfe")
	register(insertField, "bfi")
	register(findNth, "fns")
	register(makeMask, "bmsk")
	register(extendField, "szext")
	register(permute, "prmt")
	register(logic3, "lop3")
}

func logic(base string, m *modifiers) Function {
	allowed := plainBits
	if base != "cnot" {
		allowed += " pred"
	}
	t := m.typ(allowed)
	switch base {
	case "and":
		return binary(t, func(a, b uint64) uint64 { return a & b })
	case "or":
		return binary(t, func(a, b uint64) uint64 { return a | b })
	case "xor":
		return binary(t, func(a, b uint64) uint64 { return a ^ b })
	case "not":
		return unary(t, func(a uint64) uint64 { return t.wrap(^a) })
	}
	return unary(t, func(a uint64) uint64 { return boolean(a == 0) })
}

func boolean(is bool) uint64 {
	if is {
		return 1
	}
	return 0
}

// shift is shl and shr: by at most the width of the type, and always by a number of 32 bits.
func shift(base string, m *modifiers) Function {
	allowed := plainBits
	if base == "shr" {
		allowed += " " + integers
	}
	t := m.typ(allowed)
	f := Function{Result: t, Operands: []Type{t, types["u32"]}}
	switch {
	case base == "shl":
		f.Do = func(a, b, _ uint64) uint64 { return t.wrap(a << b) }
	case t.Kind == Signed:
		f.Do = func(a, b, _ uint64) uint64 { return t.wrap(uint64(t.signed(a) >> b)) }
	default:
		f.Do = func(a, b, _ uint64) uint64 { return a >> b }
	}
	return f
}

// funnelShift is shf: the upper or the lower half of b:a that is shifted.
func funnelShift(_ string, m *modifiers) Function {
	direction, mode := m.oneOf("l", "r"), m.oneOf("clamp", "wrap")
	t := m.typ("b32")
	if direction == "" || mode == "" {
		return Function{}
	}
	return Function{t, []Type{t, t, types["u32"]}, func(a, b, n uint64) uint64 {
		if mode == "wrap" {
			n &= 31
		}
		n = min(n, 32)
		both := b<<32 | a
		if direction == "r" {
			return uint64(uint32(both >> n))
		}
		return uint64(uint32(both << n >> 32))
	}}
}

func count(base string, m *modifiers) Function {
	distance := base == "bfind" && m.take("shiftamt")
	allowed := "b32 b64"
	if base == "bfind" {
		allowed = words
	}
	t := m.typ(allowed)
	result := types["u32"]
	var do func(a uint64) uint64
	switch base {
	case "popc":
		do = func(a uint64) uint64 { return uint64(bits.OnesCount64(a)) }
	case "clz":
		do = func(a uint64) uint64 { return uint64(bits.LeadingZeros64(a) - 64 + t.Width) }
	case "brev":
		result = t
		do = func(a uint64) uint64 { return bits.Reverse64(a) >> (64 - t.Width) }
	default:
		do = func(a uint64) uint64 {
			if t.Kind == Signed && t.signed(a) < 0 {
				a = t.wrap(^a)
			}
			if a == 0 {
				return math.MaxUint32
			}
			n := bits.Len64(a) - 1
			if distance {
				n = t.Width - 1 - n
			}
			return uint64(n)
		}
	}
	return Function{result, []Type{t}, func(a, _, _ uint64) uint64 { return do(a) }}
}

// ones returns n ones.
func ones(n uint64) uint64 { return 1<<n - 1 } // n >= 64: all

// extractField is bfe. Of the position and the length of a field of 32 bits, the low byte counts.
func extractField(_ string, m *modifiers) Function {
	t := m.typ(words)
	width := uint64(t.Width)
	return Function{t, []Type{t, types["u32"], types["u32"]}, func(a, b, c uint64) uint64 {
		position, length := b, c
		if width == 32 {
			position, length = b&0xff, c&0xff
		}
		v := a >> position & ones(length)
		if t.Kind == Signed && length > 0 && a>>min(position+length-1, width-1)&1 != 0 {
			// the sign fills what the field does not have
			v |= ^ones(min(length, max(width, position)-position))
		}
		return t.wrap(v)
	}}
}

// insertField is bfi without its last two operands, which are one here: the position in the low byte, the
// length in the next.
func insertField(_ string, m *modifiers) Function {
	t := m.typ("b32 b64")
	return Function{t, []Type{t, t, types["u32"]}, func(a, b, c uint64) uint64 {
		position, length := c&0xff, c>>8&0xff
		mask := ones(length) << position
		return t.wrap(b&^mask | a<<position&mask)
	}}
}

// findNth is fns: the place of the n-th bit that is set in a, from place b on; n < 0 counts downwards.
func findNth(_ string, m *modifiers) Function {
	t := m.typ("b32")
	return Function{t, []Type{t, t, types["s32"]}, func(a, b, c uint64) uint64 {
		place, n := int64(b), int64(int32(c))
		step := int64(1)
		switch {
		case n == 0 && b < 32 && a>>b&1 != 0:
			return b
		case n == 0:
			return math.MaxUint32
		case n < 0:
			step, n = -1, -n
		}
		for ; place >= 0 && place < 32; place += step {
			if a>>place&1 != 0 {
				n--
				if n == 0 {
					return uint64(place)
				}
			}
		}
		return math.MaxUint32
	}}
}

// makeMask is bmsk: b ones from place a on.
func makeMask(_ string, m *modifiers) Function {
	mode := m.oneOf("clamp", "wrap")
	t := m.typ("b32")
	if mode == "" {
		return Function{}
	}
	u32 := types["u32"]
	return Function{t, []Type{u32, u32}, func(a, b, _ uint64) uint64 {
		if mode == "wrap" {
			a, b = a&31, b&31
		}
		return t.wrap(ones(b) << a)
	}}
}

// extendField is szext: the low b bits of a, with or without a sign.
func extendField(_ string, m *modifiers) Function {
	mode := m.oneOf("clamp", "wrap")
	t := m.typ("u32 s32")
	if mode == "" {
		return Function{}
	}
	return Function{t, []Type{t, types["u32"]}, func(a, b, _ uint64) uint64 {
		if mode == "wrap" {
			b &= 31
		}
		switch {
		case b >= 32:
			return a
		case b == 0:
			return 0
		}
		return t.wrap(Type{t.Kind, int(b), false}.extend(a))
	}}
}

// permutations are the selectors of the modes of prmt for each value of the two low bits of c. A digit is the
// number of a byte of b:a.
var permutations = map[string][4]uint64{
	"f4e":  {0x3210, 0x4321, 0x5432, 0x6543},
	"b4e":  {0x5670, 0x6701, 0x7012, 0x0123},
	"rc8":  {0x0000, 0x1111, 0x2222, 0x3333},
	"ecl":  {0x3210, 0x3211, 0x3222, 0x3333},
	"ecr":  {0x0000, 0x1110, 0x2210, 0x3210},
	"rc16": {0x1010, 0x3232, 0x1010, 0x3232},
}

// permute is prmt.
func permute(_ string, m *modifiers) Function {
	t := m.typ("b32")
	mode := m.oneOf("f4e", "b4e", "rc8", "ecl", "ecr", "rc16")
	selectors := permutations[mode]
	return ternary(t, func(a, b, c uint64) (v uint64) {
		if mode != "" {
			c = selectors[c&3]
		}
		both := b<<32 | a
		for i := range 4 {
			digit := c >> (4 * i)
			one := both >> (8 * (digit & 7)) & 0xff
			if digit&8 != 0 {
				one = uint64(uint8(int8(one) >> 7)) // the sign only
			}
			v |= one << (8 * i)
		}
		return v
	})
}

// logic3 is lop3. Its table is a modifier here: one byte.
func logic3(_ string, m *modifiers) Function {
	t := m.typ("b32")
	if len(m.left) != 1 || len(m.left[0]) != 1 {
		return Function{}
	}
	table := m.left[0][0]
	m.left = nil
	return ternary(t, func(a, b, c uint64) (v uint64) {
		for i := range 8 {
			if table>>i&1 != 0 {
				v |= (a ^ flip(i&4)) & (b ^ flip(i&2)) & (c ^ flip(i&1))
			}
		}
		return v
	})
}

// flip returns what turns a bit that has to be 0 into a 1.
func flip(bit int) uint64 {
	if bit == 0 {
		return math.MaxUint32
	}
	return 0
}
