package machine

import (
	"math/bits"

	"github.com/nicless/nicless/accel/ptx/internal/code"
)

// compute executes an operation of arithmetic for all lanes.
func compute(i *code.Inst, d, a, b *vector) {
	switch i.Op {
	case code.Move:
		*d = *a
	case code.Add:
		for l := range d {
			d[l] = a[l] + b[l]
		}
	case code.Add32:
		for l := range d {
			d[l] = uint64(uint32(a[l] + b[l]))
		}
	case code.Sub:
		for l := range d {
			d[l] = a[l] - b[l]
		}
	case code.Sub32:
		for l := range d {
			d[l] = uint64(uint32(a[l] - b[l]))
		}
	case code.Mul:
		for l := range d {
			d[l] = a[l] * b[l]
		}
	case code.Mul32:
		for l := range d {
			d[l] = uint64(uint32(a[l] * b[l]))
		}
	case code.And:
		for l := range d {
			d[l] = a[l] & b[l]
		}
	case code.Or:
		for l := range d {
			d[l] = a[l] | b[l]
		}
	case code.Xor:
		for l := range d {
			d[l] = a[l] ^ b[l]
		}
	case code.Shl:
		for l := range d {
			d[l] = a[l] << b[l]
		}
	case code.Shl32:
		for l := range d {
			d[l] = uint64(uint32(a[l] << b[l]))
		}
	case code.Shr:
		for l := range d {
			d[l] = a[l] >> b[l]
		}
	case code.Low:
		mask := uint64(1)<<i.Imm - 1
		for l := range d {
			d[l] = a[l] & mask
		}
	default:
		for l := range d {
			d[l] = one(i, a[l], b[l], 0)
		}
	}
}

// compute3 executes an operation with three operands for all lanes.
func compute3(i *code.Inst, d, a, b, c *vector) {
	switch i.Op {
	case code.MulAdd:
		for l := range d {
			d[l] = a[l]*b[l] + c[l]
		}
	case code.MulAdd32:
		for l := range d {
			d[l] = uint64(uint32(a[l]*b[l] + c[l]))
		}
	default:
		do := i.Do
		for l := range d {
			d[l] = do(a[l], b[l], c[l])
		}
	}
}

// one executes an operation of arithmetic for one lane.
func one(i *code.Inst, a, b, c uint64) uint64 {
	switch i.Op {
	case code.Move:
		return a
	case code.Add:
		return a + b
	case code.Add32:
		return uint64(uint32(a + b))
	case code.Sub:
		return a - b
	case code.Sub32:
		return uint64(uint32(a - b))
	case code.Mul:
		return a * b
	case code.Mul32:
		return uint64(uint32(a * b))
	case code.MulAdd:
		return a*b + c
	case code.MulAdd32:
		return uint64(uint32(a*b + c))
	case code.And:
		return a & b
	case code.Or:
		return a | b
	case code.Xor:
		return a ^ b
	case code.Shl:
		return a << b
	case code.Shl32:
		return uint64(uint32(a << b))
	case code.Shr:
		return a >> b
	case code.Low:
		return a & (1<<i.Imm - 1)
	case code.Signed:
		drop := 64 - uint(i.Imm)
		v := uint64(int64(a<<drop) >> drop)
		return v << (64 - uint(i.C)) >> (64 - uint(i.C))
	default:
		return i.Do(a, b, c)
	}
}

// compare returns the lanes of which a relation is true.
func compare(i *code.Inst, a, b, c *vector, mask uint32) (yes uint32) {
	if mask&(mask-1) == 0 { // one lane
		l := bits.TrailingZeros32(mask) & (Lanes - 1)
		if relation(i, a[l], b[l], c[l]) {
			return mask
		}
		return 0
	}
	switch i.Op {
	case code.Equal:
		for l := range a {
			yes |= bit(a[l] == b[l]) << l
		}
	case code.NotEqual:
		for l := range a {
			yes |= bit(a[l] != b[l]) << l
		}
	case code.Below:
		for l := range a {
			yes |= bit(a[l] < b[l]) << l
		}
	case code.Less32:
		for l := range a {
			yes |= bit(int32(a[l]) < int32(b[l])) << l
		}
	default:
		for m := mask; m != 0; m &= m - 1 {
			l := bits.TrailingZeros32(m) & (Lanes - 1)
			yes |= bit(relation(i, a[l], b[l], c[l])) << l
		}
	}
	return yes & mask
}

func bit(is bool) uint32 {
	if is {
		return 1
	}
	return 0
}

// relation reports whether a relation is true.
func relation(i *code.Inst, a, b, c uint64) bool {
	switch i.Op {
	case code.Equal:
		return a == b
	case code.NotEqual:
		return a != b
	case code.Below:
		return a < b
	case code.BelowOrEqual:
		return a <= b
	case code.Less32:
		return int32(a) < int32(b)
	case code.LessOrEqual32:
		return int32(a) <= int32(b)
	case code.Less64:
		return int64(a) < int64(b)
	case code.LessOrEqual64:
		return int64(a) <= int64(b)
	}
	return i.Do(a, b, c) != 0
}
