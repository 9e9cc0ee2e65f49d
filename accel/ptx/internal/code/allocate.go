package code

import (
	"cmp"
	"math/bits"
	"slices"
)

// allocate gives values that do not live at the same time the same slots, and predicates the same bits: a
// function of 20,000 names needs a few hundred. A value lives from the first place where it is written, or
// may be read without having been written, to the last one where it may be read.
func allocate(f *Function) {
	flow := newFlow(f)
	slots := newLiveness(f.Slots)
	predicates := newLiveness(f.Predicates)
	for _, p := range f.Params {
		if p.Slot >= 0 {
			slots.extend(p.Slot, 0)
		}
	}
	flow.solve(f, slots, predicates)
	f.Slots = slots.share()
	f.Predicates = predicates.share()
	for k := range f.Insts {
		f.Insts[k].visit(visitor{
			slot:      func(s *int32, _ bool) { *s = slots.place[*s] },
			predicate: func(p *int16, _ bool) { *p = int16(predicates.place[*p]) },
		})
	}
	for _, all := range [][]Formal{f.Params, f.Results} {
		for k := range all {
			if all[k].Slot >= 0 {
				all[k].Slot = slots.place[all[k].Slot]
			}
		}
	}
}

// A set is a set of small numbers.
type set []uint64

func newSet(n int) set { return make(set, (n+63)/64) }

func (s set) has(i int32) bool { return s[i/64]>>(i%64)&1 != 0 }
func (s set) add(i int32)      { s[i/64] |= 1 << (i % 64) }

// each calls f with each number of the set.
func (s set) each(f func(i int32)) {
	for k, w := range s {
		for ; w != 0; w &= w - 1 {
			f(int32(64*k + bits.TrailingZeros64(w)))
		}
	}
}

// A liveness says where the values of a kind live.
type liveness struct {
	count       int
	first, last []int32 // places: 2n is before instruction n, 2n+1 after it
	place       []int32
}

func newLiveness(n int) *liveness {
	l := &liveness{count: n, first: make([]int32, n), last: make([]int32, n), place: make([]int32, n)}
	for i := range n {
		l.first[i], l.last[i] = 1<<31-1, -1
	}
	return l
}

// extend notes that a value lives at a place.
func (l *liveness) extend(value int32, at int) {
	l.first[value] = min(l.first[value], int32(at))
	l.last[value] = max(l.last[value], int32(at))
}

// share gives each value a place that no other value has at the same time, and returns how many places
// there are.
func (l *liveness) share() int {
	order := make([]int32, 0, l.count)
	for i := range int32(l.count) {
		if l.last[i] >= 0 {
			order = append(order, i)
		}
	}
	slices.SortFunc(order, func(a, b int32) int {
		return cmp.Or(cmp.Compare(l.first[a], l.first[b]), cmp.Compare(a, b))
	})
	var until []int32 // of each place: the last place in the code where its value lives
	for _, v := range order {
		k := slices.IndexFunc(until, func(end int32) bool { return end < l.first[v] })
		if k < 0 {
			k = len(until)
			until = append(until, 0)
		}
		l.place[v], until[k] = int32(k), l.last[v]
	}
	return len(until)
}

// A flow is the blocks of a function, in which control goes from each instruction to the next.
type flow struct {
	begin  []int // the first instruction of each block, and the number of all instructions
	follow [][]int
}

func newFlow(f *Function) *flow {
	n := len(f.Insts)
	starts := newSet(n + 1)
	starts.add(0)
	for k := range f.Insts {
		jumps := false
		next := f.Insts[k].targets(func(t int) { starts.add(int32(t)); jumps = true })
		if jumps || !next {
			starts.add(int32(k + 1))
		}
	}
	starts.add(int32(n))
	g := &flow{}
	starts.each(func(i int32) { g.begin = append(g.begin, int(i)) })
	for b := range len(g.begin) - 1 {
		var follow []int
		last := &f.Insts[g.begin[b+1]-1]
		if last.targets(func(t int) { follow = append(follow, g.blockOf(t)) }) && b+2 < len(g.begin) {
			follow = append(follow, b+1)
		}
		g.follow = append(g.follow, follow)
	}
	return g
}

// blockOf returns the block that begins at an instruction.
func (g *flow) blockOf(inst int) int {
	b, _ := slices.BinarySearch(g.begin, inst)
	return b
}

// A need is what a block reads before it writes it, and what it surely writes.
type need struct{ reads, writes, in set }

func newNeed(n int) need { return need{newSet(n), newSet(n), newSet(n)} }

// note notes a read or a write. A write that a guard may prevent keeps the old value alive.
func (n *need) note(v int32, write, guarded bool) {
	if write && !guarded {
		n.writes.add(v)
	} else if !n.writes.has(v) {
		n.reads.add(v)
	}
}

// grow adds to what lives at the beginning of a block what lives at its end, and reports whether that is new.
func (n *need) grow(out set) (grown bool) {
	for k := range n.in {
		in := n.reads[k] | out[k]&^n.writes[k] | n.in[k]
		grown = grown || in != n.in[k]
		n.in[k] = in
	}
	return grown
}

// solve finds out where all values live.
func (g *flow) solve(f *Function, slots, predicates *liveness) {
	count := len(g.follow)
	all := make([][2]need, count)
	for b := range all {
		all[b] = [2]need{newNeed(slots.count), newNeed(predicates.count)}
		for k := g.begin[b]; k < g.begin[b+1]; k++ {
			i := &f.Insts[k]
			if i.Op == Return { // the caller takes the results
				for _, r := range f.Results {
					if r.Slot >= 0 {
						all[b][0].note(r.Slot, false, false)
						slots.extend(r.Slot, 2*k)
					}
				}
			}
			i.visit(visitor{
				slot: func(s *int32, write bool) {
					all[b][0].note(*s, write, i.Guard != None)
					slots.extend(*s, 2*k+boolean(write))
				},
				predicate: func(p *int16, write bool) {
					all[b][1].note(int32(*p), write, i.Guard != None)
					predicates.extend(int32(*p), 2*k+boolean(write))
				},
			})
		}
	}
	kinds := [2]*liveness{slots, predicates}
	for changed := true; changed; {
		changed = false
		for b := count - 1; b >= 0; b-- {
			for kind, l := range kinds {
				out := newSet(l.count)
				for _, s := range g.follow[b] {
					for k, w := range all[s][kind].in {
						out[k] |= w
					}
				}
				if all[b][kind].grow(out) {
					changed = true
				}
			}
		}
	}
	for b := range all {
		for kind, l := range kinds {
			all[b][kind].in.each(func(v int32) { l.extend(v, 2*g.begin[b]) })
			for _, s := range g.follow[b] {
				all[s][kind].in.each(func(v int32) { l.extend(v, 2*g.begin[b+1]-1) })
			}
		}
	}
}

func boolean(is bool) int {
	if is {
		return 1
	}
	return 0
}
