package code

import (
	"github.com/nicless/nicless/accel/ptx/internal/alu"
	"github.com/nicless/nicless/accel/ptx/internal/syntax"
)

// The kinds of MBarrier.
const (
	MBarrierInit = iota
	MBarrierInvalidate
	MBarrierArrive
	MBarrierExpect
	MBarrierComplete
	MBarrierTest
	MBarrierPending
)

// A Bulk is a copy from one memory to another, which counts its bytes at an mbarrier if there is one.
type Bulk struct {
	To, From Space
	Align    uint64 // of both addresses, and of the number of bytes
	Fill     uint64 // if it is not 0: bytes of To, of which those that From does not have become zeros
	Barrier  bool
	Reduce   bool // To is combined with From, by the Atom and the Type of the Access
}

// mbarrier is mbarrier.*: a word in shared memory at which threads and copies arrive.
func (l *lowering) mbarrier() {
	m := &modifiers{l.in.Op.Mods}
	operation := m.oneOf("init", "inval", "arrive_drop", "arrive", "expect_tx", "complete_tx",
		"test_wait", "try_wait",
		"pending_count")
	expect := m.take("expect_tx")
	m.take("noComplete")
	parity := m.take("parity")
	space, _ := m.space()
	m.order(Acquire) // a barrier orders what its threads do anyway
	if !m.take("b64") || !l.understood(m) || operation == "" {
		l.wrong("there is no such operation, or it is not of .b64")
		return
	}
	if expect && operation == "expect_tx" {
		expect = false
	}
	i := inst(MBarrier)
	i.More = &More{Access: Access{Space: space, Size: 8, Count: 1, Type: bits64}}
	o := l.in.Operands
	switch operation {
	case "init":
		i.More.Kind = MBarrierInit
		l.barrierOperands(&i, o, 1)
	case "inval":
		i.More.Kind = MBarrierInvalidate
		l.barrierOperands(&i, o, 0)
	case "expect_tx", "complete_tx":
		i.More.Kind = MBarrierExpect
		if operation == "complete_tx" {
			i.More.Kind = MBarrierComplete
		}
		l.barrierOperands(&i, o, 1)
	case "arrive", "arrive_drop":
		i.More.Kind, i.More.Distinct = MBarrierArrive, operation == "arrive_drop"
		l.arriveOperands(&i, o, expect)
	case "pending_count":
		i.More.Kind = MBarrierPending
		if !l.operands(2, 2) {
			return
		}
		i.A = l.value(o[1], bits64, false)
		i.D, _ = l.result(o[0], bits32, false)
	default:
		i.More.Kind, i.More.Distinct = MBarrierTest, parity
		if !l.operands(3, 4) { // the fourth is a limit of time
			return
		}
		i.P = l.resultPredicate(o[0])
		l.place(&i, o[1])
		t := bits64
		if parity {
			t = bits32
		}
		i.B = l.value(o[2], t, false)
	}
	l.emit(i)
}

// place sets the address of an mbarrier, which has no offset afterwards.
func (l *lowering) place(i *Inst, o syntax.Operand) {
	if m := l.address(i, o, i.More.Access.Space); m != nil {
		l.wrong("%s is not in shared memory", o.Name)
	}
}

// barrierOperands takes the address and at most one number.
func (l *lowering) barrierOperands(i *Inst, o []syntax.Operand, numbers int) {
	if !l.operands(1+numbers, 1+numbers) {
		return
	}
	l.place(i, o[0])
	if numbers > 0 {
		i.B = l.value(o[1], bits32, false)
	}
}

// arriveOperands takes the result, the address, and a number: bytes that are expected, or how many arrive.
func (l *lowering) arriveOperands(i *Inst, o []syntax.Operand, expect bool) {
	if !l.operands(1, 3) {
		return
	}
	i.D = l.temporary()
	if o[0].Kind != syntax.Address {
		if o[0].Kind != syntax.Discard {
			i.D, _ = l.result(o[0], bits64, false)
		}
		o = o[1:]
	}
	if len(o) == 0 {
		l.wrong("an address is expected")
		return
	}
	l.place(i, o[0])
	i.B, i.C = l.number(1), l.number(0) // how many arrive, how many bytes are expected
	if len(o) > 1 {
		v := l.value(o[1], bits32, false)
		if expect {
			i.C = v
		} else {
			i.B = v
		}
	}
}

// copyAsync is cp.async and its relatives. Copies are done at once, which the model allows, so that nobody
// has to wait for a group of them.
func (l *lowering) copyAsync() {
	m := &modifiers{l.in.Op.Mods}
	reduce := m.take("reduce")
	if !m.take("async") {
		l.wrong("only asynchronous copies are known")
		return
	}
	bulk := m.take("bulk")
	switch {
	case m.take("commit_group"), m.take("wait_all"):
		l.emit(inst(Touch))
	case m.take("wait_group"):
		l.emit(inst(Touch))
	case m.take("prefetch"):
		l.emit(inst(Touch))
	case m.take("tensor"):
		l.wrong("copies of tensors are not supported")
	case bulk:
		l.bulkCopy(m, reduce)
	case len(m.left) > 0 && m.left[0] == "mbarrier":
		l.arriveAfterCopies(m)
	default:
		l.smallCopy(m)
	}
}

// arriveAfterCopies is cp.async.mbarrier.arrive: the copies are done.
func (l *lowering) arriveAfterCopies(m *modifiers) {
	m.take("mbarrier")
	m.take("arrive")
	extra := !m.take("noinc")
	space, _ := m.space()
	if !m.take("b64") || !l.understood(m) || !l.operands(1, 1) {
		return
	}
	if extra { // it adds one arrival to those that are pending, and arrives
		l.emit(inst(Touch))
		return
	}
	i := inst(MBarrier)
	i.More = &More{Kind: MBarrierArrive, Access: Access{Space: space, Size: 8, Count: 1, Type: bits64}}
	i.D, i.B, i.C = l.temporary(), l.number(1), l.number(0)
	l.place(&i, l.in.Operands[0])
	l.emit(i)
}

// smallCopy is cp.async of 4, 8 or 16 bytes.
func (l *lowering) smallCopy(m *modifiers) {
	hint := m.take("L2::cache_hint")
	m.drop()
	if m.oneOf("shared", "shared::cta") == "" || !m.take("global") {
		l.wrong("it copies from global to shared memory")
		return
	}
	last := 4
	if hint { // the policy of the cache
		last = 5
	}
	if !l.understood(m) || !l.operands(last-1, last) {
		return
	}
	o := l.in.Operands
	n := o[2].Value.Bits
	if o[2].Kind != syntax.Number || (n != 4 && n != 8 && n != 16) {
		l.wrong("it copies 4, 8 or 16 bytes")
		return
	}
	b := &Bulk{To: Shared, From: Global, Align: n, Fill: n}
	size := l.number(n)
	if len(o) == last {
		size = l.sourceSize(o[3], size)
	}
	l.copyOf(b, o[0], o[1], size, nil)
}

// sourceSize returns how many bytes a small copy reads. The operand says it, or is a predicate of lanes that
// read none of size bytes.
func (l *lowering) sourceSize(o syntax.Operand, size Operand) Operand {
	if r, ok := l.find(o.Name).(*register); !ok || r.typ.Kind != alu.Pred {
		return l.value(o, bits32, false)
	}
	i := inst(Select)
	i.R, i.D = l.predicateOf(o), l.temporary()
	i.A, i.B = l.number(0), size
	l.emit(i)
	return i.D
}

// bulkCopy is cp.async.bulk and cp.reduce.async.bulk.
func (l *lowering) bulkCopy(m *modifiers, reduce bool) {
	b := &Bulk{Reduce: reduce, Align: 16}
	var spacesInOrder []Space
	for _, name := range m.left {
		if s, ok := spaces[name]; ok {
			spacesInOrder = append(spacesInOrder, s)
		}
	}
	for m.oneOf("shared::cluster", "shared::cta", "global") != "" {
	}
	m.drop()
	if len(spacesInOrder) != 2 {
		l.wrong("it names two spaces")
		return
	}
	b.To, b.From = spacesInOrder[0], spacesInOrder[1]
	b.Barrier = m.take("mbarrier::complete_tx::bytes")
	m.take("bulk_group")
	o := l.in.Operands
	want := 3
	if b.Barrier {
		want = 4
	}
	a := Access{Size: 1, Count: 1}
	if reduce {
		if !l.operation(m, &a, true) {
			return
		}
		if a.Atom == Exchange || a.Atom == CompareAndSwap {
			l.wrong("there is no such reduction")
			return
		}
	} else if !l.understood(m) {
		return
	}
	if !l.operands(want, want+1) {
		return
	}
	var barrier *syntax.Operand
	if b.Barrier {
		barrier = &o[3]
	}
	l.copyOf(b, o[0], o[1], l.value(o[2], bits32, false), barrier)
	l.fn.Insts[len(l.fn.Insts)-1].More.Access = a
}

// copyOf emits a copy.
func (l *lowering) copyOf(b *Bulk, to, from syntax.Operand, size Operand, barrier *syntax.Operand) {
	i := inst(BulkCopy)
	i.More = &More{Bulk: b, Access: Access{Size: 1, Count: 1}, Slots: []int32{l.number(0)}}
	i.A = l.addressValue(to, b.To)
	i.B = l.addressValue(from, b.From)
	i.C = size
	if barrier != nil {
		i.More.Slots[0] = l.addressValue(*barrier, Shared)
	}
	l.emit(i)
}

// addressValue returns an address as an operand, with what is added to it.
func (l *lowering) addressValue(o syntax.Operand, space Space) Operand {
	i := inst(Add)
	if m := l.address(&i, o, space); m != nil {
		return l.addressOf(m, o.Value.Bits)
	}
	if i.Imm == 0 {
		return i.A
	}
	i.B, i.D = l.number(uint64(i.Imm)), l.temporary()
	i.Imm = 0
	l.emit(i)
	return i.D
}
