package alu

import (
	"fmt"
	"slices"
	"strings"
)

// Kind says how the bits of a value are to be read.
type Kind uint8

// The kinds of types.
const (
	Bits     Kind = iota // b8 to b128: only bits
	Unsigned             // u8 to u64
	Signed               // s8 to s64
	Float                // f16, f32, f64
	BFloat               // bf16
	TF32                 // a f32 with the fraction of a f16
	E4M3                 // 8 bits, with 4 of exponent
	E5M2                 // 8 bits, with 5 of exponent
	Pred                 // one bit
)

// A Type is the type of an operand or of a result. A pair has two values of half its width.
type Type struct {
	Kind  Kind
	Width int // bits of all: 1 for predicates, or 8 to 128
	Pair  bool
}

// types are all types, by name.
var types = map[string]Type{
	"pred": {Pred, 1, false},
	"b8":   {Bits, 8, false}, "b16": {Bits, 16, false}, "b32": {Bits, 32, false},
	"b64": {Bits, 64, false}, "b128": {Bits, 128, false},
	"u8": {Unsigned, 8, false}, "u16": {Unsigned, 16, false}, "u32": {Unsigned, 32, false},
	"u64": {Unsigned, 64, false}, "u16x2": {Unsigned, 32, true},
	"s8": {Signed, 8, false}, "s16": {Signed, 16, false}, "s32": {Signed, 32, false},
	"s64": {Signed, 64, false}, "s16x2": {Signed, 32, true},
	"f16": {Float, 16, false}, "f32": {Float, 32, false}, "f64": {Float, 64, false},
	"f16x2": {Float, 32, true},
	"bf16":  {BFloat, 16, false}, "bf16x2": {BFloat, 32, true}, "tf32": {TF32, 32, false},
	"e4m3x2": {E4M3, 16, true}, "e5m2x2": {E5M2, 16, true},
}

// ParseType returns the type with a name such as u32.
func ParseType(name string) (Type, bool) {
	t, ok := types[name]
	return t, ok
}

func (t Type) String() string {
	if t.Kind == Pred {
		return "pred"
	}
	prefix := [...]string{"b", "u", "s", "f", "bf", "tf", "e4m3", "e5m2"}[t.Kind]
	switch {
	case t.Kind == E4M3 || t.Kind == E5M2:
		return prefix + "x2"
	case t.Pair:
		return fmt.Sprintf("%s%dx2", prefix, t.Width/2)
	}
	return fmt.Sprintf("%s%d", prefix, t.Width)
}

// IsFloat reports whether values of the type are floating-point numbers.
func (t Type) IsFloat() bool { return t.Kind >= Float && t.Kind <= E5M2 }

// one returns the type of one value of a pair.
func (t Type) one() Type {
	if t.Pair {
		return Type{t.Kind, t.Width / 2, false}
	}
	return t
}

// mask has the bits of a type.
func (t Type) mask() uint64 {
	if t.Width >= 64 {
		return ^uint64(0)
	}
	return 1<<t.Width - 1
}

// wrap drops the bits that a type does not have.
func (t Type) wrap(v uint64) uint64 { return v & t.mask() }

// extend returns the value of the low bits as a number of 64 bits, with or without a sign.
func (t Type) extend(v uint64) uint64 {
	if t.Kind == Signed {
		return uint64(t.signed(v))
	}
	return t.wrap(v)
}

// signed returns the value of the low bits as a number with a sign.
func (t Type) signed(v uint64) int64 {
	drop := 64 - min(t.Width, 64)
	return int64(v<<drop) >> drop
}

// A Function computes a result of at most 64 bits. Operands and result are zero-extended from their types;
// the operands that it does not have are ignored. A Function has no state.
type Function struct {
	Result   Type
	Operands []Type
	Do       func(a, b, c uint64) uint64
}

// Find returns what an instruction computes: base is its name, mods are what follows each of its dots.
func Find(base string, mods []string) (Function, error) {
	family, ok := families[base]
	if !ok {
		return Function{}, fmt.Errorf("%s is no instruction that is known", base)
	}
	m := &modifiers{left: mods}
	f := family(base, m)
	if len(m.left) > 0 {
		m.fail(".%s is not known here", strings.Join(m.left, "."))
	}
	if f.Do == nil {
		m.fail("there is no such form")
	}
	if m.err != nil {
		return Function{}, fmt.Errorf("%s: %w", base, m.err)
	}
	return f, nil
}

// families have the instructions that are computed in the same way.
var families = map[string]func(base string, m *modifiers) Function{}

func register(family func(base string, m *modifiers) Function, bases ...string) {
	for _, b := range bases {
		families[b] = family
	}
}

// modifiers are what follows the dots of an opcode and has not been understood yet.
type modifiers struct {
	left []string
	err  error
}

// take takes a modifier if it is the next one.
func (m *modifiers) take(name string) bool {
	if len(m.left) == 0 || m.left[0] != name {
		return false
	}
	m.left = m.left[1:]
	return true
}

// oneOf takes one of some modifiers if it is the next one, and returns it, or "".
func (m *modifiers) oneOf(names ...string) string {
	for _, name := range names {
		if m.take(name) {
			return name
		}
	}
	return ""
}

// Types that many instructions have.
const (
	integers   = "u16 s16 u32 s32 u64 s64"
	words      = "u32 s32 u64 s64"
	plainBits  = "b16 b32 b64"
	floats     = "f16 f16x2 bf16 bf16x2 f32 f64"
	selectable = plainBits + " " + integers + " f32 f64"
)

// typ takes a type, which must be next, and one of those that are allowed: names with blanks between them.
func (m *modifiers) typ(allowed string) Type {
	if len(m.left) == 0 {
		m.fail("a type is missing at the end: one of %s", allowed)
		return Type{}
	}
	name := m.left[0]
	if !slices.Contains(strings.Fields(allowed), name) {
		m.fail(".%s is not known here; these are: %s", name, allowed)
		return Type{}
	}
	m.left = m.left[1:]
	return types[name]
}

// only says that a modifier, if it is there, goes with some types only.
func (m *modifiers) only(there bool, name string, t Type, allowed string) {
	if there && !slices.Contains(strings.Fields(allowed), t.String()) {
		m.fail(".%s does not go with .%s; it goes with: %s", name, t, allowed)
	}
}

func (m *modifiers) fail(format string, args ...any) {
	if m.err == nil {
		m.err = fmt.Errorf(format, args...)
	}
}

// unary, binary and ternary are functions of one, two and three operands of the type of the result.
func unary(t Type, do func(a uint64) uint64) Function {
	return Function{t, []Type{t}, func(a, _, _ uint64) uint64 { return do(a) }}
}

func binary(t Type, do func(a, b uint64) uint64) Function {
	return Function{t, []Type{t, t}, func(a, b, _ uint64) uint64 { return do(a, b) }}
}

func ternary(t Type, do func(a, b, c uint64) uint64) Function {
	return Function{t, []Type{t, t, t}, do}
}

// pairwise computes a function for both values of pairs.
func pairwise(t Type, one Function) Function {
	half := t.one()
	f := Function{Result: t}
	for range one.Operands {
		f.Operands = append(f.Operands, t)
	}
	shift := half.Width
	f.Do = func(a, b, c uint64) uint64 {
		low := one.Do(half.wrap(a), half.wrap(b), half.wrap(c))
		return low | one.Do(a>>shift, b>>shift, c>>shift)<<shift
	}
	return f
}
