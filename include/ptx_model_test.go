package include

import (
	"maps"
	"slices"
)

// This is the memory model of PTX (PTX ISA, chapter "Memory Consistency Model") for small programs: it
// goes through all executions of a program, and says whether one of them has the outcome that is asked
// for. Lanes are threads of one GPU, each in a block of its own; the device is a thread of the CPU, whose
// acquires and releases have system scope.

type scope int

const (
	blockScope scope = iota
	gpuScope
	sysScope
)

// An instr is an instruction that orders memory: a fence, or a strong access. A swap loads and stores.
type instr struct {
	fence, load, store bool
	acquire, release   bool
	sc                 bool
	scope              scope
}

// An access is an instruction at a place in a thread.
type access struct {
	instr
	word string
	weak bool // a plain load or store
	// value is what a store stores, and what a load has to load; -1 for any. A swap whose want is not what
	// it loads stores nothing, so it is written as a load.
	value, want int
}

// A litmus is a program. Words are 0 at first, unless first says otherwise.
type litmus struct {
	threads [][]access // the first `lanes` of them are lanes, the others threads of the CPU
	lanes   int
	first   map[string]int
	last    map[string]int // the value that a word has in the end, if that is a part of the outcome
}

// An event is one load, store or fence.
type event struct {
	instr
	word        string
	value, want int
	weak        bool
	thread      int // -1: the value at first
	swap        int // of the load of a swap: its store; of the store: its load; else -1
}

type execution struct {
	*litmus
	e      []event
	from   []int // by load: the store that it loads from
	at     []int // by store: its place in the order of the stores to its word
	fences []int // by fence.sc: its place in their order
	cause  [][]bool
	seen   [][]bool
}

// possible reports whether some execution has the outcome: all loads load what they want.
func (l *litmus) possible() bool {
	x := &execution{litmus: l}
	words := map[string][]int{}
	add := func(e event) int {
		x.e = append(x.e, e)
		if e.store {
			words[e.word] = append(words[e.word], len(x.e)-1)
		}
		return len(x.e) - 1
	}
	for _, t := range l.threads {
		for _, a := range t {
			if _, ok := words[a.word]; !ok && !a.fence {
				add(event{instr: instr{store: true}, word: a.word, value: l.first[a.word], thread: -1, weak: true, swap: -1})
			}
		}
	}
	var loads, sc []int
	for i, t := range l.threads {
		for _, a := range t {
			e := event{instr: a.instr, word: a.word, value: a.value, want: a.want, weak: a.weak, thread: i, swap: -1}
			if a.load && a.store {
				e.store, e.release = false, false
				k := add(e)
				e = event{instr: a.instr, word: a.word, value: a.value, thread: i, swap: k}
				e.load, e.acquire = false, false
				loads = append(loads, k)
				x.e[k].swap = add(e)
				continue
			}
			k := add(e)
			switch {
			case a.load:
				loads = append(loads, k)
			case a.fence && a.sc:
				sc = append(sc, k)
			}
		}
	}
	x.from, x.at, x.fences = make([]int, len(x.e)), make([]int, len(x.e)), make([]int, len(x.e))
	names := slices.Sorted(maps.Keys(words))
	return x.chooseFences(sc, 0, func() bool {
		return x.chooseOrder(names, words, 0, func() bool { return x.chooseSources(loads, words, 0) })
	})
}

// chooseFences tries all orders of the fence.sc instructions.
func (x *execution) chooseFences(sc []int, k int, then func() bool) bool {
	return permute(sc, k, func() bool {
		for i, f := range sc {
			x.fences[f] = i
		}
		return then()
	})
}

// chooseOrder tries all orders of the stores to each word.
func (x *execution) chooseOrder(names []string, words map[string][]int, k int, then func() bool) bool {
	if k == len(names) {
		return then()
	}
	stores := words[names[k]]
	return permute(slices.Clone(stores), 1, func() bool { return x.chooseOrder(names, words, k+1, then) }, func(order []int) bool {
		for i, s := range order {
			x.at[s] = i
		}
		v, ok := x.last[names[k]]
		return !ok || x.e[order[len(order)-1]].value == v
	})
}

// permute calls then with every order of s[k:], as long as then returns false and all tests return true.
func permute(s []int, k int, then func() bool, tests ...func([]int) bool) bool {
	if k >= len(s)-1 {
		for _, ok := range tests {
			if !ok(s) {
				return false
			}
		}
		return then()
	}
	for i := k; i < len(s); i++ {
		s[k], s[i] = s[i], s[k]
		if permute(s, k+1, then, tests...) {
			return true
		}
		s[k], s[i] = s[i], s[k]
	}
	return false
}

// chooseSources tries all stores that the loads can load from.
func (x *execution) chooseSources(loads []int, words map[string][]int, k int) bool {
	if k == len(loads) {
		return x.consistent()
	}
	r := &x.e[loads[k]]
	for _, s := range words[r.word] {
		if r.want >= 0 && x.e[s].value != r.want {
			continue
		}
		x.from[loads[k]] = s
		if x.chooseSources(loads, words, k+1) {
			return true
		}
	}
	return false
}

// before reports whether event i comes before event j in one thread.
func (x *execution) before(i, j int) bool {
	return i < j && x.e[i].thread >= 0 && x.e[i].thread == x.e[j].thread
}

// strong reports whether two events are morally strong.
func (x *execution) strong(i, j int) bool {
	a, b := &x.e[i], &x.e[j]
	if a.thread < 0 || b.thread < 0 {
		return false
	}
	if a.thread == b.thread {
		return true
	}
	least := gpuScope // that includes both
	if a.thread >= x.lanes || b.thread >= x.lanes {
		least = sysScope
	}
	return !a.weak && !b.weak && a.scope >= least && b.scope >= least
}

// observes fills in the order from stores to the loads that observe them, also through swaps. Each link is
// morally strong.
func (x *execution) observes() {
	x.seen = square(len(x.e))
	for r := range x.e {
		if !x.e[r].load {
			continue
		}
		// Swaps that load from each other in a circle do not end, and other axioms refuse them.
		for s, by, n := x.from[r], r, 0; x.strong(s, by) && n < len(x.e); n++ {
			x.seen[s][r] = true
			if by = x.e[s].swap; by < 0 {
				break
			}
			s = x.from[by]
		}
	}
}

func square(n int) [][]bool {
	m := make([][]bool, n)
	for i := range m {
		m[i] = make([]bool, n)
	}
	return m
}

func closure(m [][]bool) {
	for k := range m {
		for i := range m {
			if m[i][k] {
				for j := range m {
					m[i][j] = m[i][j] || m[k][j]
				}
			}
		}
	}
}

// causality fills in the causality order.
func (x *execution) causality() {
	base := square(len(x.e))
	for i := range x.e {
		for j := range x.e {
			base[i][j] = base[i][j] || x.before(i, j) || x.fenced(i, j)
			if x.seen[i][j] && x.e[i].thread != x.e[j].thread {
				x.synchronize(base, i, j)
			}
		}
	}
	closure(base)
	x.cause = square(len(x.e))
	for i := range x.e {
		for j := range x.e {
			x.cause[i][j] = base[i][j]
			for k := range x.e {
				through := x.seen[i][k] && base[k][j]
				x.cause[i][j] = x.cause[i][j] || through
			}
		}
	}
}

// fenced reports whether event i is a fence.sc that comes before the fence.sc j, and both are in scope.
func (x *execution) fenced(i, j int) bool {
	if !x.e[i].sc || !x.e[j].sc {
		return false
	}
	return x.fences[i] < x.fences[j] && x.strong(i, j)
}

// synchronize adds what follows from load r observing store s: release patterns that end with s come before
// acquire patterns that begin with r.
func (x *execution) synchronize(base [][]bool, s, r int) {
	for first := range x.e {
		if (first != s && !x.before(first, s)) || !x.releases(first, s) {
			continue
		}
		for end := range x.e {
			reached := end == r || x.before(r, end)
			if reached && x.acquires(end, r) && x.strong(first, end) {
				base[first][end] = true
			}
		}
	}
}

// releases reports whether a release pattern with the store s begins with this event.
func (x *execution) releases(first, s int) bool {
	e := &x.e[first]
	return e.fence || (e.store && e.release && e.word == x.e[s].word)
}

// acquires reports whether an acquire pattern with the load r ends with this event.
func (x *execution) acquires(end, r int) bool {
	e := &x.e[end]
	return e.fence || (e.load && e.acquire && e.word == x.e[r].word)
}

// older reports whether store i comes before store j in the coherence order.
func (x *execution) older(i, j int) bool {
	if x.e[i].word != x.e[j].word || x.at[i] >= x.at[j] {
		return false
	}
	return x.e[i].thread < 0 || x.strong(i, j) || x.cause[i][j]
}

// consistent checks the axioms.
func (x *execution) consistent() bool {
	x.observes()
	x.causality()
	perWord := square(len(x.e))
	for i := range x.e {
		for j := range x.e {
			if i == j || x.e[i].fence || x.e[j].fence || x.e[i].word != x.e[j].word {
				continue
			}
			if x.cause[i][j] && x.contradicts(i, j) {
				return false
			}
			ordered := x.e[i].thread < 0 || x.strong(i, j)
			perWord[i][j] = x.before(i, j) || (ordered && x.communicates(i, j))
		}
	}
	closure(perWord)
	for i := range x.e {
		if perWord[i][i] || !x.oneStep(i) {
			return false
		}
	}
	return true
}

// contradicts reports whether two accesses to one word communicate against the causality order, which has i
// before j.
func (x *execution) contradicts(i, j int) bool {
	a, b := &x.e[i], &x.e[j]
	switch {
	case a.store && b.store:
		return x.at[i] > x.at[j]
	case a.load && b.store:
		return x.from[i] == j
	case a.store && b.load:
		return x.older(x.from[j], i)
	}
	return false
}

// communicates reports whether access j loads what i stores, or stores over what i stores or loads.
func (x *execution) communicates(i, j int) bool {
	a, b := &x.e[i], &x.e[j]
	switch {
	case a.store && b.load:
		return x.from[j] == i
	case a.store && b.store:
		return x.older(i, j)
	case a.load && b.store:
		return i != b.swap && x.older(x.from[i], j)
	}
	return false
}

// oneStep reports whether no other store comes between the load and the store of a swap.
func (x *execution) oneStep(i int) bool {
	e := &x.e[i]
	if !e.load || e.swap < 0 {
		return true
	}
	for w := range x.e {
		if x.e[w].store && x.older(x.from[i], w) && x.older(w, e.swap) {
			return false
		}
	}
	return x.at[x.from[i]] < x.at[e.swap]
}
