package code

import (
	"slices"

	"github.com/nicless/nicless/accel/ptx/internal/syntax"
)

// The kinds of Shuffle.
const (
	ShuffleUp = iota
	ShuffleDown
	ShuffleButterfly
	ShuffleIndex
)

// The kinds of Vote.
const (
	VoteAll = iota
	VoteAny
	VoteUniform
	VoteBallot
)

// The kinds of Match.
const (
	MatchAny = iota
	MatchAll
)

// The kinds of Barrier.
const (
	BarrierSync = iota
	BarrierArrive
	BarrierCount // redux: popc
	BarrierAnd
	BarrierOr
)

// choose takes the modifier of a kind, whose place in names is the kind.
func (l *lowering) choose(m *modifiers, names ...string) int {
	name := m.oneOf(names...)
	if name == "" {
		l.wrong("it has none of the modifiers %v", names)
		return 0
	}
	return slices.Index(names, name)
}

// two returns both results of an instruction that may have one or two.
func two(o syntax.Operand) (first, second syntax.Operand, both bool) {
	if o.Kind == syntax.Pair {
		return o.List[0], o.List[1], true
	}
	return o, syntax.Operand{}, false
}

// mask returns the lanes that take part: the last operand of an instruction with .sync.
func (l *lowering) mask() Operand {
	return l.value(l.in.Operands[len(l.in.Operands)-1], bits32, false)
}

// sync takes the modifier .sync, without which lanes are not known to take part.
func (l *lowering) sync(m *modifiers) bool {
	if !m.take("sync") {
		l.wrong("only the form with .sync is supported, as on all GPUs since sm_70")
		return false
	}
	return true
}

// shuffle is shfl: the lane that gives a value is computed from b; c bounds it.
func (l *lowering) shuffle() {
	m := &modifiers{l.in.Op.Mods}
	if !l.sync(m) || !l.operands(5, 5) {
		return
	}
	i := inst(Shuffle)
	i.More = &More{Kind: l.choose(m, "up", "down", "bfly", "idx")}
	if !m.take("b32") || !l.understood(m) {
		l.wrong("its type is .b32")
		return
	}
	o := l.in.Operands
	i.A = l.value(o[1], bits32, false)
	i.B = l.value(o[2], bits32, false)
	i.C = l.value(o[3], bits32, false)
	i.More.Slots = []int32{l.mask()}
	d, p, both := two(o[0])
	if both {
		i.P = l.resultPredicate(p)
	}
	i.D, _ = l.result(d, bits32, false)
	l.emit(i)
}

// vote is vote.
func (l *lowering) vote() {
	m := &modifiers{l.in.Op.Mods}
	if !l.sync(m) || !l.operands(3, 3) {
		return
	}
	i := inst(Vote)
	i.More = &More{Kind: l.choose(m, "all", "any", "uni", "ballot")}
	want := "pred"
	if i.More.Kind == VoteBallot {
		want = "b32"
	}
	if !m.take(want) || !l.understood(m) {
		l.wrong("its type is .%s", want)
		return
	}
	o := l.in.Operands
	i.Q = l.predicateOf(o[1])
	i.A = l.mask()
	if i.More.Kind == VoteBallot {
		i.D, _ = l.result(o[0], bits32, false)
	} else {
		i.P = l.resultPredicate(o[0])
	}
	l.emit(i)
}

// match is match.
func (l *lowering) match() {
	m := &modifiers{l.in.Op.Mods}
	if !l.sync(m) || !l.operands(3, 3) {
		return
	}
	i := inst(Match)
	i.More = &More{Kind: l.choose(m, "any", "all")}
	t := bits32
	if m.oneOf("b32", "b64") == "b64" {
		t = bits64
	}
	if !l.understood(m) {
		return
	}
	i.A, i.B = l.value(l.in.Operands[1], t, false), l.mask()
	d, p, both := two(l.in.Operands[0])
	if both {
		i.P = l.resultPredicate(p)
	}
	i.D, _ = l.result(d, bits32, false)
	l.emit(i)
}

// reductions are those of redux.
var reductions = map[string]Atom{
	"add": FetchAdd, "min": FetchMin, "max": FetchMax, "and": FetchAnd, "or": FetchOr, "xor": FetchXor,
}

// reduce is redux.
func (l *lowering) reduce() {
	m := &modifiers{l.in.Op.Mods}
	if !l.sync(m) || !l.operands(3, 3) {
		return
	}
	operation := m.oneOf("add", "min", "max", "and", "or", "xor")
	name := m.oneOf("u32", "s32", "b32")
	arithmetic := operation == "add" || operation == "min" || operation == "max"
	if operation == "" || name == "" || arithmetic != (name != "b32") || !l.understood(m) {
		l.wrong("there is no such form: add, min and max of u32 and s32, and, or and xor of b32")
		return
	}
	i := inst(Reduce)
	t := typeOf(name)
	i.More = &More{Access: Access{Atom: reductions[operation], Type: t, Size: 4, Count: 1}}
	i.A, i.B = l.value(l.in.Operands[1], t, false), l.mask()
	i.D, _ = l.result(l.in.Operands[0], t, false)
	l.emit(i)
}

// elect is elect.sync.
func (l *lowering) elect() {
	m := &modifiers{l.in.Op.Mods}
	if !l.sync(m) || !l.understood(m) || !l.operands(2, 2) {
		return
	}
	d, p, both := two(l.in.Operands[0])
	if !both {
		l.wrong("it has two results")
		return
	}
	i := inst(Elect)
	i.A = l.mask()
	i.D, _ = l.result(d, bits32, false)
	i.P = l.resultPredicate(p)
	l.emit(i)
}

// activeMask is activemask.
func (l *lowering) activeMask() {
	if !l.operands(1, 1) {
		return
	}
	i := inst(ActiveMask)
	i.D, _ = l.result(l.in.Operands[0], bits32, false)
	l.emit(i)
}

// barrier is bar and barrier: of a warp, or of the block.
func (l *lowering) barrier() {
	m := &modifiers{l.in.Op.Mods}
	if m.take("warp") {
		if l.sync(m) && l.understood(m) && l.operands(1, 1) {
			i := inst(WarpBarrier)
			i.A = l.mask()
			l.emit(i)
		}
		return
	}
	m.take("cta")
	m.take("aligned")
	i := inst(Barrier)
	i.More = &More{}
	o := l.in.Operands
	switch m.oneOf("sync", "arrive", "red") {
	case "sync":
		if !l.operands(1, 2) {
			return
		}
	case "arrive":
		i.More.Kind = BarrierArrive
		if !l.operands(2, 2) {
			return
		}
	case "red":
		i.More.Kind = BarrierCount + l.choose(m, "popc", "and", "or")
		name := m.oneOf("u32", "pred")
		if (name == "u32") != (i.More.Kind == BarrierCount) || !l.operands(3, 4) {
			l.wrong("popc gives a .u32, and and or a .pred")
			return
		}
		if name == "u32" {
			i.D, _ = l.result(o[0], bits32, false)
		} else {
			i.P = l.resultPredicate(o[0])
		}
		i.Q = l.predicateOf(o[len(o)-1])
		o = o[1 : len(o)-1]
	default:
		l.wrong("there is no such barrier")
		return
	}
	if !l.understood(m) {
		return
	}
	i.A, i.B = l.value(o[0], bits32, false), l.number(0) // 0: all threads
	if len(o) > 1 {
		i.B = l.value(o[1], bits32, false)
	}
	l.emit(i)
}
