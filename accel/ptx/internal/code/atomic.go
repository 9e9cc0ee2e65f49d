package code

import (
	"slices"

	"github.com/nicless/nicless/accel/ptx/internal/alu"
	"github.com/nicless/nicless/accel/ptx/internal/syntax"
)

// atomic is atom and red.
func (l *lowering) atomic() {
	a := &Access{}
	m := &modifiers{l.in.Op.Mods}
	var err error
	a.Order, a.Scope, err = m.order(Relaxed)
	if err != nil {
		l.wrong("%v", err)
		return
	}
	a.Space, _ = m.space()
	m.drop()
	if !l.operation(m, a, false) {
		return
	}
	values := 1
	if a.Atom == CompareAndSwap {
		values = 2
	}
	o := l.in.Operands
	to := &syntax.Operand{}
	if l.in.Op.Base == "red" {
		to = nil
		if !l.operands(1+values, 2+values) {
			return
		}
	} else {
		if !l.operands(2+values, 3+values) {
			return
		}
		to, o = &o[0], o[1:]
	}
	i := inst(Atomic)
	if mem := l.address(&i, o[0], a.Space); mem != nil {
		i.A, i.Imm = l.addressOf(mem, uint64(i.Imm)), 0
		a.Space = Generic
	}
	if a.Count > 1 {
		l.atomicVector(i, a, to, o[1])
		return
	}
	i.More = &More{Access: *a}
	t := a.Type
	i.B = l.value(o[1], t, false)
	if values == 2 {
		i.C = l.value(o[2], t, false)
	}
	if to != nil {
		i.D, _ = l.result(*to, t, false)
	}
	l.emit(i)
}

// atomicVector emits an operation for each element of a vector: PTX promises that each of them is atomic,
// not all together. The first checks the bytes of all. A result may be an operand of a later one, so that
// results come last.
func (l *lowering) atomicVector(first Inst, a *Access, to *syntax.Operand, from syntax.Operand) {
	values, _ := l.vector(from, a, false)
	var results []int32
	if to != nil {
		results, _ = l.vector(*to, a, true)
	}
	old := make([]int32, len(values))
	for k, v := range values {
		i := first
		i.More = &More{Access: *a}
		if k > 0 {
			i.More.Access.Count = 1
		}
		i.B, i.D = v, l.temporary()
		i.Imm += int64(k * a.Size)
		old[k] = i.D
		l.emit(i)
	}
	for k, d := range results {
		if d >= 0 && k < len(old) {
			i := inst(Move)
			i.D, i.A = d, old[k]
			l.emit(i)
		}
	}
}

// operation takes the operation and the type of an atomic access, or of a reduction by a bulk copy.
func (l *lowering) operation(m *modifiers, a *Access, bulk bool) bool {
	name := m.oneOf("exch", "cas", "add", "min", "max", "and", "or", "xor", "inc", "dec")
	if name == "" {
		l.wrong("it names no operation that is known")
		return false
	}
	a.Atom = atoms[name]
	keep := m.take("noftz")
	if !l.elements(m, a) {
		return false
	}
	if !a.atomicForm(bulk) {
		vector := map[int]string{1: "", 2: ".v2", 4: ".v4", 8: ".v8"}[a.Count]
		l.wrong(".%s of %s.%s is not supported", name, vector, a.Type)
		return false
	}
	half := a.Type.IsFloat() && slices.Contains(halves, a.Type.String())
	switch {
	case half && !keep && (!bulk || name == "add"):
		l.wrong(".%s of .%s keeps subnormal numbers, which .noftz says", name, a.Type)
		return false
	case keep && !half:
		l.wrong(".noftz does not go with .%s", a.Type)
		return false
	}
	if a.Type.IsFloat() {
		a.float(name)
	}
	return true
}

// float finds what an operation of floating-point numbers computes. Additions of f32 flush subnormal numbers
// outside of shared memory (PTX, atom: "atom.add.f32 on global memory").
func (a *Access) float(operation string) {
	t := a.Type.String()
	if operation != "add" {
		a.Float = functionOf(operation, t)
		return
	}
	a.Float = functionOf("add", "rn", t)
	if t == "f32" {
		a.Flushed = functionOf("add", "rn", "ftz", t)
	}
}

// functionOf returns a function that there is.
func functionOf(base string, mods ...string) func(a, b, c uint64) uint64 {
	f, err := alu.Find(base, mods)
	if err != nil {
		panic(err)
	}
	return f.Do
}

// added are the types of atomic additions, halves those of floating-point numbers of 16 bits.
var (
	added  = []string{"u32", "s32", "u64", "s64", "f16", "f16x2", "bf16", "bf16x2", "f32", "f64"}
	halves = []string{"f16", "f16x2", "bf16", "bf16x2"}
)

// atomicForm reports whether an atomic operation, or one of a bulk copy, goes with a type.
func (a *Access) atomicForm(bulk bool) bool {
	t := a.Type
	if a.Count > 1 {
		return a.vectorForm(bulk)
	}
	switch a.Atom {
	case Exchange:
		return t.Kind == alu.Bits && t.Width >= 32 && t.Width <= 64
	case CompareAndSwap:
		return t.Kind == alu.Bits && t.Width >= 16 && t.Width <= 64
	case FetchAnd, FetchOr, FetchXor:
		return t.Kind == alu.Bits && t.Width >= 32 && t.Width <= 64
	case FetchInc, FetchDec:
		return t == typeOf("u32")
	case FetchAdd:
		return slices.Contains(added, t.String())
	}
	if t.IsFloat() {
		return bulk && (t == typeOf("f16") || t == typeOf("bf16"))
	}
	return t.Kind != alu.Bits && t.Width >= 32 && !t.Pair
}

// vectorForm is the same for operations of several elements, which only global memory has.
func (a *Access) vectorForm(bulk bool) bool {
	if bulk || a.Space != Global && a.Space != Generic {
		return false
	}
	switch a.Type.String() {
	case "f32":
		return a.Atom == FetchAdd && a.Count <= 4
	case "f16", "bf16":
		return a.Atom == FetchAdd || a.Atom == FetchMin || a.Atom == FetchMax
	case "f16x2", "bf16x2":
		return (a.Atom == FetchAdd || a.Atom == FetchMin || a.Atom == FetchMax) && a.Count <= 4
	}
	return false
}
