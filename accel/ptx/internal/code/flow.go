package code

import "slices"

// A flow is the blocks of a function, in which control goes from each instruction to the next.
type flow struct {
	begin []int     // the first instruction of each block, and the number of all instructions
	from  [][]int32 // of each block: those from which control comes
}

func newFlow(f *Function) *flow {
	n := len(f.Insts)
	starts := make([]bool, n+1)
	starts[0], starts[n] = true, true
	for k := range f.Insts {
		jumps := false
		next := f.Insts[k].targets(func(t int) { starts[t], jumps = true, true })
		if jumps || !next {
			starts[k+1] = true
		}
	}
	g := &flow{}
	for k, is := range starts {
		if is {
			g.begin = append(g.begin, k)
		}
	}
	count := len(g.begin) - 1
	g.from = make([][]int32, count)
	for b := range count {
		come := func(to int) { g.from[to] = append(g.from[to], int32(b)) }
		last := &f.Insts[g.begin[b+1]-1]
		if last.targets(func(t int) { come(g.blockOf(t)) }) && b+1 < count {
			come(b + 1)
		}
	}
	return g
}

// blockOf returns the block that begins at an instruction.
func (g *flow) blockOf(inst int) int {
	b, _ := slices.BinarySearch(g.begin, inst)
	return b
}

// note notes all reads and writes.
func (g *flow) note(f *Function, slots, predicates *liveness) {
	for b := range g.from {
		for k := g.begin[b]; k < g.begin[b+1]; k++ {
			i := &f.Insts[k]
			if i.Op == Return { // the caller takes the results
				for _, r := range f.Results {
					if r.Slot >= 0 {
						slots.note(r.Slot, b, 2*k, false, false)
					}
				}
			}
			guarded := i.Guard != None
			i.visit(visitor{
				slot:      func(s *int32, write bool) { slots.note(*s, b, 2*k, write, guarded) },
				predicate: func(p *int16, write bool) { predicates.note(int32(*p), b, 2*k, write, guarded) },
			})
		}
	}
}

// patience is how many steps from block to block are made to find out where values live, for each instruction
// of a function. Compilers' code needs fewer than 50. So the time to load a text grows as its length does.
const patience = 1024

// spread finds out where values live in blocks other than those that read and write them: from each block
// that reads one back to those that write it. When it has made as many steps as it may, it takes the
// remaining values for ones that always live.
func (g *flow) spread(l *liveness, steps int) {
	end := g.begin[len(g.begin)-1]
	reads, writes := sorted(l.reads, len(l.first)), sorted(l.writes, len(l.first))
	seen, written := make([]int32, len(g.from)), make([]int32, len(g.from)) // 1 + the last value
	var work []int32
	for v := range int32(len(l.first)) {
		work = append(work[:0], reads.of(v)...)
		if len(work) > 0 && steps <= 0 {
			l.extend(v, 0)
			l.extend(v, 2*end)
			continue
		}
		for _, b := range work {
			seen[b] = v + 1
		}
		for _, b := range writes.of(v) {
			written[b] = v + 1
		}
		for len(work) > 0 {
			b := work[len(work)-1]
			work = work[:len(work)-1]
			l.extend(v, 2*g.begin[b])
			for _, p := range g.from[b] {
				l.extend(v, 2*g.begin[p+1]-1)
				if seen[p] <= v && written[p] <= v {
					seen[p] = v + 1
					work = append(work, p)
				}
			}
			steps -= 1 + len(g.from[b])
		}
	}
}
