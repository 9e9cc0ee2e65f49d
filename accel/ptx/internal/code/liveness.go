package code

import (
	"cmp"
	"container/heap"
	"slices"
)

// A liveness says where the values of a kind live.
type liveness struct {
	first, last   []int32 // places: 2n is before instruction n, 2n+1 after it
	place         []int32
	reads, writes []touch // by blocks that read a value before they write it, and that surely write it ...
	read, wrote   []int32 // ... and of each value, 1 + the last of these blocks
}

// A touch is a value that a block reads or writes.
type touch struct{ value, block int32 }

func newLiveness(n int) *liveness {
	l := &liveness{
		first: make([]int32, n), last: make([]int32, n), place: make([]int32, n),
		read: make([]int32, n), wrote: make([]int32, n),
	}
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

// note notes a read or a write of the instruction at a place. A write that a guard may prevent keeps the old
// value alive.
func (l *liveness) note(v int32, block, at int, write, guarded bool) {
	l.extend(v, at+boolean(write))
	b := int32(block)
	switch {
	case l.wrote[v] == b+1:
	case write && !guarded:
		l.wrote[v] = b + 1
		l.writes = append(l.writes, touch{v, b})
	case l.read[v] != b+1:
		l.read[v] = b + 1
		l.reads = append(l.reads, touch{v, b})
	}
}

// share gives each value the first place that no other value has at the same time, and returns how many
// places there are.
func (l *liveness) share() int {
	order := make([]int32, 0, len(l.first))
	for i := range int32(len(l.first)) {
		if l.last[i] >= 0 {
			order = append(order, i)
		}
	}
	slices.SortFunc(order, func(a, b int32) int {
		return cmp.Or(cmp.Compare(l.first[a], l.first[b]), cmp.Compare(a, b))
	})
	var taken, free pairs // places with the last place in the code where their value lives, and places
	places := int32(0)
	for _, v := range order {
		for len(taken) > 0 && taken[0][0] < l.first[v] {
			heap.Push(&free, [2]int32{heap.Pop(&taken).([2]int32)[1]})
		}
		if len(free) > 0 {
			l.place[v] = heap.Pop(&free).([2]int32)[0]
		} else {
			l.place[v] = places
			places++
		}
		heap.Push(&taken, [2]int32{l.last[v], l.place[v]})
	}
	return int(places)
}

// pairs is a heap of pairs of numbers.
type pairs [][2]int32

func (p pairs) Len() int           { return len(p) }
func (p pairs) Less(i, j int) bool { return slices.Compare(p[i][:], p[j][:]) < 0 }
func (p pairs) Swap(i, j int)      { p[i], p[j] = p[j], p[i] }
func (p *pairs) Push(x any)        { *p = append(*p, x.([2]int32)) }
func (p *pairs) Pop() any {
	last := len(*p) - 1
	x := (*p)[last]
	*p = (*p)[:last]
	return x
}

// groups are the blocks that touch each value.
type groups struct{ begin, blocks []int32 }

// sorted sorts touches by their values, of which there are n.
func sorted(all []touch, n int) groups {
	g := groups{make([]int32, n+1), make([]int32, len(all))}
	for _, t := range all {
		g.begin[t.value+1]++
	}
	for v := range n {
		g.begin[v+1] += g.begin[v]
	}
	at := slices.Clone(g.begin)
	for _, t := range all {
		g.blocks[at[t.value]] = t.block
		at[t.value]++
	}
	return g
}

// of returns the blocks that touch a value.
func (g *groups) of(v int32) []int32 { return g.blocks[g.begin[v]:g.begin[v+1]] }

func boolean(is bool) int {
	if is {
		return 1
	}
	return 0
}
