package code

// role says which fields of an instruction are slots.
type role uint8

const (
	hasD role = 1 << iota
	hasA
	hasB
	hasC
	writesSlots // More.Slots are results
	readsSlots  // More.Slots are operands
)

var roles = [numOps]role{
	Move: hasD | hasA,
	Add:  hasD | hasA | hasB, Add32: hasD | hasA | hasB, Sub: hasD | hasA | hasB, Sub32: hasD | hasA | hasB,
	Mul: hasD | hasA | hasB, Mul32: hasD | hasA | hasB,
	MulAdd: hasD | hasA | hasB | hasC, MulAdd32: hasD | hasA | hasB | hasC,
	And: hasD | hasA | hasB, Or: hasD | hasA | hasB, Xor: hasD | hasA | hasB,
	Shl: hasD | hasA | hasB, Shl32: hasD | hasA | hasB, Shr: hasD | hasA | hasB,
	Low: hasD | hasA, Signed: hasD | hasA,
	Func: hasD | hasA | hasB | hasC, FuncP: hasD | hasA | hasB, Select: hasD | hasA | hasB,
	Equal: hasA | hasB, NotEqual: hasA | hasB, Below: hasA | hasB, BelowOrEqual: hasA | hasB,
	Less32: hasA | hasB, LessOrEqual32: hasA | hasB, Less64: hasA | hasB, LessOrEqual64: hasA | hasB,
	Test:    hasA | hasB | hasC,
	Special: hasD, LaneAddress: hasD, ParamAddress: hasD,
	Load: hasA | writesSlots, LoadParam: writesSlots, LoadFrame: writesSlots,
	Store: hasA | readsSlots, StoreFrame: readsSlots,
	Atomic:    hasD | hasA | hasB | hasC,
	ToGeneric: hasD | hasA, FromShared: hasD | hasA, InSpace: hasA,
	BranchIndex: hasA, CallIndirect: hasA,
	Shuffle: hasD | hasA | hasB | hasC | readsSlots,
	Vote:    hasD | hasA, Match: hasD | hasA | hasB, Reduce: hasD | hasA | hasB, Elect: hasD | hasA,
	ActiveMask: hasD, WarpBarrier: hasA, Barrier: hasD | hasA | hasB,
	Sleep:    hasA,
	MBarrier: hasD | hasA | hasB | hasC,
	BulkCopy: hasA | hasB | hasC | readsSlots,
}

// A visitor is called with each slot and each predicate of an instruction. It may change them.
type visitor struct {
	slot      func(s *int32, write bool)
	predicate func(p *int16, write bool)
}

// visit calls v for all slots and predicates: first those that are read, then those that are written.
// Constants are no slots.
func (i *Inst) visit(v visitor) {
	r := roles[i.Op]
	read := func(s *int32) {
		if *s >= 0 {
			v.slot(s, false)
		}
	}
	for k, s := range []*int32{&i.A, &i.B, &i.C} {
		if r&(hasA<<k) != 0 {
			read(s)
		}
	}
	for _, p := range []*int16{&i.Guard, &i.Q, &i.R} {
		if *p != None {
			v.predicate(p, false)
		}
	}
	if i.More != nil {
		i.More.visit(r, read, v)
	}
	if r&hasD != 0 {
		v.slot(&i.D, true)
	}
	if i.P != None {
		v.predicate(&i.P, true)
	}
}

func (m *More) visit(r role, read func(s *int32), v visitor) {
	if r&readsSlots != 0 {
		for k := range m.Slots {
			read(&m.Slots[k])
		}
	}
	for k := range m.Args {
		if m.Args[k].Size == 0 {
			read(&m.Args[k].Slot)
		}
	}
	for k := range m.Results {
		if m.Results[k].Size == 0 {
			v.slot(&m.Results[k].Slot, true)
		}
	}
	if r&writesSlots != 0 {
		for k := range m.Slots {
			if m.Slots[k] >= 0 {
				v.slot(&m.Slots[k], true)
			}
		}
	}
}

// targets calls f with the places to which an instruction may go, besides the next one, and reports whether
// it may go to the next one.
func (i *Inst) targets(f func(target int)) (next bool) {
	switch i.Op {
	case Branch:
		f(int(i.Imm))
		return i.Guard != None
	case BranchIndex:
		for _, t := range i.More.Targets {
			f(int(t))
		}
		return i.Guard != None
	case Return, Exit, Trap:
		return i.Guard != None
	}
	return true
}
