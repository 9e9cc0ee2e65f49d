package code

import (
	"slices"

	"github.com/nicless/nicless/accel/ptx/internal/alu"
	"github.com/nicless/nicless/accel/ptx/internal/syntax"
)

// elements takes the type of an access and the number of its elements.
func (l *lowering) elements(m *modifiers, a *Access) bool {
	a.Count = map[string]int{"": 1, "v2": 2, "v4": 4, "v8": 8}[m.oneOf("v2", "v4", "v8")]
	if len(m.left) == 0 {
		l.wrong("a type is missing at the end")
		return false
	}
	name := m.left[len(m.left)-1]
	t, ok := alu.ParseType(name)
	if !ok || t.Kind == alu.Pred || !m.take(name) {
		l.wrong(".%s is no type of a value in memory", name)
		return false
	}
	a.Type, a.Size, a.Signed = t, t.Width/8, t.Kind == alu.Signed
	if a.Bytes() > 32 {
		l.wrong("it reaches %d bytes; at most 32 are possible", a.Bytes())
		return false
	}
	return l.understood(m)
}

// understood checks that all modifiers are known.
func (l *lowering) understood(m *modifiers) bool {
	if len(m.left) > 0 {
		l.wrong(".%s is not known here", m.left[0])
		return false
	}
	return true
}

// access takes the modifiers of a load or a store.
func (l *lowering) access(usual Order) (*Access, bool) {
	a := &Access{}
	m := &modifiers{l.in.Op.Mods}
	var err error
	a.Order, a.Scope, err = m.order(usual)
	if err != nil {
		l.wrong("%v", err)
		return nil, false
	}
	a.Space, _ = m.space()
	m.drop()
	return a, l.elements(m, a)
}

// address sets the address of an instruction, and returns the memory if it is one whose place is known.
func (l *lowering) address(i *Inst, o syntax.Operand, space Space) *memory {
	i.Imm = int64(o.Value.Bits)
	switch {
	case o.Kind != syntax.Address:
		l.wrong("an address is expected, not a %s", o.Kind)
		return nil
	case len(o.List) > 0:
		l.wrong("tensors are not supported")
		return nil
	case o.Name == "":
		i.A, i.Imm = l.number(o.Value.Bits), 0
		return nil
	}
	switch e := l.find(o.Name).(type) {
	case *memory:
		return e
	case *Variable:
		i.A = l.constant(Const{0, e})
		return nil
	}
	t := bits64
	if space == Shared || space == Param { // addresses there may have 32 bits
		if r, ok := l.find(o.Name).(*register); ok && r.typ.Width == 32 {
			t = bits32
		}
	}
	plain := o
	plain.Kind, plain.Value = syntax.Name, syntax.Constant{}
	if r := l.registerOf(plain, t, false); r != nil {
		i.A = r.slot
	}
	return nil
}

// within checks that an access to memory whose place is known is within it.
func (l *lowering) within(i *Inst, m *memory, bytes int) {
	if i.Imm < 0 || i.Imm > m.size-int64(bytes) {
		l.wrong("it reaches %d bytes at byte %d of a variable of %d", bytes, i.Imm, m.size)
	}
	i.Imm += m.offset
}

// load is ld and ldu.
func (l *lowering) load() {
	a, ok := l.access(Weak)
	if !ok || !l.operands(2, 3) { // the third is a hint for the cache
		return
	}
	i := inst(Load)
	m := l.address(&i, l.in.Operands[1], a.Space)
	if m != nil {
		i.Op = LoadFrame
		if m.space == Param {
			i.Op = LoadParam
		}
		l.within(&i, m, a.Bytes())
	} else if a.Space == Param {
		a.Space = Generic // its address was taken, and is one of the process
	}
	i.More = &More{Access: *a}
	i.More.Slots, i.More.Widths = l.vector(l.in.Operands[0], a, true)
	i.More.Plain = len(i.More.Slots) == 1 && i.More.Slots[0] >= 0 && !a.Signed
	l.emit(i)
}

// vector returns the slots of the elements of an access, and the bits of the registers of results.
func (l *lowering) vector(o syntax.Operand, a *Access, results bool) (slots []int32, widths []uint8) {
	all := []syntax.Operand{o}
	if o.Kind == syntax.List {
		all = o.List
	}
	if len(all) != a.Count {
		l.wrong("it has %d elements, and %d registers", a.Count, len(all))
		return nil, nil
	}
	t := a.Type
	for _, e := range all {
		switch {
		case results && e.Kind == syntax.Discard:
			for range max(1, t.Width/64) {
				slots, widths = append(slots, -1), append(widths, 64)
			}
		case t.Width == 128:
			r := l.registerOf(e, t, false)
			if r == nil {
				return nil, nil
			}
			slots, widths = append(slots, r.slot, r.slot+1), append(widths, 64, 64)
		case results:
			s, width := l.result(e, t, true)
			slots, widths = append(slots, s), append(widths, uint8(width))
		default:
			slots = append(slots, l.value(e, t, true))
		}
	}
	return slots, widths
}

// storeTo is st.
func (l *lowering) storeTo() {
	a, ok := l.access(Weak)
	if !ok || !l.operands(2, 3) {
		return
	}
	i := inst(Store)
	m := l.address(&i, l.in.Operands[0], a.Space)
	switch {
	case m != nil && m.space == Param:
		l.wrong("a kernel's parameters are not written")
		return
	case m != nil:
		i.Op = StoreFrame
		l.within(&i, m, a.Bytes())
	case a.Space == Constant:
		l.wrong("constant memory is not written")
		return
	}
	i.More = &More{Access: *a}
	i.More.Slots, _ = l.vector(l.in.Operands[1], a, false)
	l.emit(i)
}

// fence is fence and membar. Proxies reach the same memory here.
func (l *lowering) fence() {
	m := &modifiers{l.in.Op.Mods}
	i := inst(Fence)
	proxy := m.take("proxy")
	if proxy {
		m.oneOf("async", "async.global", "alias", "tensormap", "generic")
		m.left = nil
	}
	m.take("mbarrier_init")
	order, scope, err := m.order(AcquireRelease)
	if l.in.Op.Base == "membar" {
		order = Sequential
	}
	if err != nil || !l.understood(m) {
		l.wrong("%v", err)
		return
	}
	if proxy {
		order, scope = Sequential, System
	}
	i.More = &More{Access: Access{Order: order, Scope: scope}}
	l.emit(i)
}

// convertAddress is cvta: generic addresses are those of the process, and so are all others but those of
// shared memory.
func (l *lowering) convertAddress() {
	m := &modifiers{l.in.Op.Mods}
	to := m.take("to")
	space, named := m.space()
	width := m.oneOf("u64", "u32")
	if !named || width == "" || !l.understood(m) || !l.operands(2, 2) {
		l.wrong("it has a space and a type, u32 or u64, and two operands")
		return
	}
	t := typeOf(width)
	i := inst(Move)
	if space == Shared {
		i.Op = FromShared
		if !to {
			i.Op = ToGeneric
		}
	}
	i.A = l.value(l.in.Operands[1], t, false)
	i.D, _ = l.result(l.in.Operands[0], t, false)
	l.emit(i)
}

// inSpace is isspacep.
func (l *lowering) inSpace() {
	m := &modifiers{l.in.Op.Mods}
	space, named := m.space()
	if !named || slices.Contains(l.in.Op.Mods, "param::func") || !l.understood(m) || !l.operands(2, 2) {
		l.wrong("it has a space, which is not param::func, and two operands")
		return
	}
	i := inst(InSpace)
	i.More = &More{Access: Access{Space: space}}
	i.A = l.value(l.in.Operands[1], bits64, false)
	i.P = l.resultPredicate(l.in.Operands[0])
	l.emit(i)
}

// hint is a prefetch or something else that changes nothing.
func (l *lowering) hint() {
	i := inst(Touch)
	l.emit(i)
}
