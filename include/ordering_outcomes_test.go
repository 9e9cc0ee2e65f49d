package include

import "strings"

// An outcome is one that would break the protocol.
type outcome struct {
	name        string
	threads     [][]access
	lanes       int
	first, last map[string]int
	// The right outcome has other wants of loads, by word; or other threads.
	good  map[string]int
	right [][]access
}

// outcomes returns everything that must not happen, with these instructions: those of a function of base.h,
// by its name, or those of one call of it, by the function, "@" and where the call is.
func outcomes(p map[string][]instr) []outcome {
	do := func(name, word string, value, want int) (all []access) {
		code, alone := p[name]
		if function, _, call := strings.Cut(name, "@"); call && !alone {
			code = p[function]
		}
		for _, i := range code {
			a := access{instr: i, word: word, value: value, want: want}
			if i.fence {
				a.word = ""
			}
			all = append(all, a)
		}
		return all
	}
	set := func(name, word string, v int) []access { return do(name, word, v, -1) }
	get := func(name, word string, want int) []access { return do(name, word, 0, want) }
	// A swap that finds another value stores nothing.
	refused := func(name, word string, finds int) []access {
		all := get(name, word, finds)
		for i := range all {
			all[i].store, all[i].release = false, false
		}
		return all
	}
	plain := func(word string, v int) []access {
		return []access{{instr: instr{store: true}, word: word, value: v, weak: true}}
	}
	look := func(word string, want int) []access {
		return []access{{instr: instr{load: true}, word: word, want: want, weak: true}}
	}
	device := func(from string, want int, rest ...[]access) []access {
		return join(append([][]access{{{instr: instr{load: true, acquire: true, scope: sysScope}, word: from, want: want}}}, rest...)...)
	}
	completes := []access{{instr: instr{store: true, release: true, scope: sysScope}, word: "cqe", value: 1}}
	commit := set("ordered_store64@commit", "stamp", 1)
	fence := set("system_fence", "", 0)
	// From the sight of a stamp to the doorbell.
	doorbell := join(set("poster_store64", "rung", 1), fence,
		set("fenced_store32", "record", 1), set("fenced_store64", "register", 1))
	rings := join(do("ordered_swap64", "ringing", 1, 0), get("poster_observe64@ring", "stamp", 1), doorbell)
	ringsNext := join(do("ordered_swap64", "ringing", 1, 0), fence, set("fenced_store32", "record", 2))
	// nicless_cq_advance.
	advance := join(get("observe64", "cqe", 1), do("poster_publish_swap64", "freed", 1, 0))
	freed := get("poster_observe64@reserve", "freed", 1)

	return []outcome{
		{name: "a WQE is executed before all of it is written", lanes: 2, good: map[string]int{"wqe": 1},
			threads: [][]access{join(plain("wqe", 1), commit), rings, device("record", 1, look("wqe", 0))}},
		{name: "a queue that the register starts executes a WQE before all of it is written", lanes: 2, good: map[string]int{"wqe": 1},
			threads: [][]access{join(plain("wqe", 1), commit), rings, device("register", 1, look("wqe", 0))}},
		{name: "the register shows a WQE before all of it is written", lanes: 2, good: map[string]int{"wqe": 1},
			threads: [][]access{
				join(plain("wqe", 1), commit),
				join(do("ordered_swap64", "ringing", 1, 0), get("poster_observe64@ring", "stamp", 1), look("wqe", 0)),
			}},
		{name: "a lane alone rings before all of its WQE is written", lanes: 1, good: map[string]int{"wqe": 1},
			threads: [][]access{join(plain("wqe", 1), commit, rings), device("record", 1, look("wqe", 0))}},
		{name: "a doorbell is lost", lanes: 2, first: map[string]int{"ringing": 1}, good: map[string]int{"stamp": 1},
			threads: [][]access{
				join(commit, refused("ordered_swap64", "ringing", 1)),
				join(set("ordered_store64@ring", "ringing", 0), get("ordered_load64", "stamp", 0)),
			}},
		{name: "the record goes back", lanes: 2, first: map[string]int{"ringing": 1}, last: map[string]int{"record": 1},
			threads: [][]access{join(doorbell, set("ordered_store64@ring", "ringing", 0)), ringsNext},
			right:   [][]access{join(doorbell, set("ordered_store64@ring", "ringing", 0)), ringsNext}},
		{name: "two posters ring at once", lanes: 2,
			threads: [][]access{do("ordered_swap64", "ringing", 1, 0), do("ordered_swap64", "ringing", 1, 0)},
			right:   [][]access{do("ordered_swap64", "ringing", 1, 0), refused("ordered_swap64", "ringing", 1)}},
		{name: "two posters reserve one block", lanes: 2,
			threads: [][]access{do("poster_swap64", "reserved", 1, 0), do("poster_swap64", "reserved", 2, 0)},
			right:   [][]access{do("poster_swap64", "reserved", 1, 0), do("poster_swap64", "reserved", 2, 1)}},
		{name: "the next to ring takes the wrong half of the register", lanes: 2, first: map[string]int{"ringing": 1},
			good: map[string]int{"half": 1},
			threads: [][]access{
				join(doorbell, plain("half", 1), set("ordered_store64@ring", "ringing", 0)),
				join(do("ordered_swap64", "ringing", 1, 0), look("half", 0)),
			}},
		{name: "a poller does not find a completion below rung", lanes: 3, good: map[string]int{"rung": 1},
			threads: [][]access{
				commit, rings, device("record", 1, completes), join(get("observe64", "cqe", 1), get("poster_load64", "rung", 0)),
			}},
		{name: "a poller finds the note of a lap before", lanes: 3, good: map[string]int{"note": 1},
			threads: [][]access{
				join(set("poster_store64", "note", 1), commit), rings, device("record", 1, completes),
				join(get("observe64", "cqe", 1), get("poster_load64", "note", 0)),
			}},
		{name: "a slot is written again while the device reads it", lanes: 2, good: map[string]int{"wqe": 0},
			threads: [][]access{join(look("wqe", 1), completes), advance, join(freed, plain("wqe", 1))}},
		{name: "a slot is written again while the device reads it: by a copy of freed", lanes: 3, good: map[string]int{"wqe": 0},
			threads: [][]access{
				join(look("wqe", 1), completes), advance, join(freed, set("poster_publish64", "seen", 1)),
				join(get("poster_observe64@reserve seen", "seen", 1), plain("wqe", 1)),
			}},
		{name: "a note is written again while the poller reads it", lanes: 2, good: map[string]int{"note": 0},
			threads: [][]access{
				join(get("poster_load64", "note", 1), do("poster_publish_swap64", "freed", 1, 0)),
				join(freed, set("poster_store64", "note", 1)),
			}},
		{name: "the register shows a WQE of the lap after", lanes: 3, good: map[string]int{"wqe": 0},
			threads: [][]access{
				join(look("wqe", 1), doorbell), device("record", 1, completes), advance, join(freed, plain("wqe", 1)),
			}},
		{name: "a lane that waits does not see what was read", lanes: 2, good: map[string]int{"payload": 1},
			threads: [][]access{join(plain("payload", 1), completes), advance,
				join(get("poster_observe64@quiet", "freed", 1), look("payload", 0))}},
		{name: "a poller takes an old CQE for one of 65,536 blocks later", lanes: 2, good: map[string]int{"cqe": 1},
			threads: [][]access{completes, advance, join(get("poster_observe64@look", "freed", 1), get("observe64", "cqe", 0))}},
		{name: "freed is beyond reserved", lanes: 5, good: map[string]int{"reserved": 1},
			threads: [][]access{
				join(do("poster_swap64", "reserved", 1, 0), commit), rings, device("record", 1, completes), advance,
				join(freed, set("poster_publish64", "seen", 1)),
				join(get("poster_observe64@reserve seen", "seen", 1), get("poster_load64", "reserved", 0)),
			}},
		{name: "the poller alone frees what the device still reads", lanes: 2, good: map[string]int{"wqe": 0},
			threads: [][]access{
				join(look("wqe", 1), completes), join(get("observe64", "cqe", 1), set("poster_publish64", "freed", 1)),
				join(freed, plain("wqe", 1)),
			}},
		{name: "RDMaxcel's register is seen before its record", lanes: 1, good: map[string]int{"record": 1},
			threads: [][]access{
				join(set("publish32", "record", 1), set("publish64", "register", 1)), device("register", 1, look("record", 0)),
			}},
		{name: "a receive is taken before all of it is written", lanes: 1, good: map[string]int{"entry": 1},
			threads: [][]access{join(plain("entry", 1), set("publish32", "record", 1)), device("record", 1, look("entry", 0))}},
		{name: "a poller does not find a receive below posted", lanes: 2, good: map[string]int{"posted": 1},
			threads: [][]access{
				join(set("poster_store64", "posted", 1), set("publish32", "record", 1)), device("record", 1, completes),
				join(get("observe64", "cqe", 1), get("poster_observe64@posted", "posted", 0)),
			}},
	}
}

func join(parts ...[]access) (all []access) {
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

// litmus makes the program of an outcome. Threads of the CPU come last.
func (o *outcome) litmus() *litmus {
	l := &litmus{lanes: o.lanes, first: o.first, last: o.last}
	var cpu [][]access
	for _, t := range o.threads {
		if isDevice(t) {
			cpu = append(cpu, t)
		} else {
			l.threads = append(l.threads, t)
		}
	}
	l.threads = append(l.threads, cpu...)
	return l
}

// isDevice reports whether a thread is the device's: it completes, or acquires a record or a register.
func isDevice(t []access) bool {
	for _, a := range t {
		completes := a.word == "cqe" && a.store
		observes := a.load && a.acquire && (a.word == "record" || a.word == "register")
		if completes || observes {
			return true
		}
	}
	return false
}

// turned is the outcome with what has to happen in place of what must not.
func (o outcome) turned() *outcome {
	if o.right != nil {
		o.threads, o.last = o.right, nil
		return &o
	}
	var threads [][]access
	for _, t := range o.threads {
		t = append([]access{}, t...)
		for i := range t {
			if v, ok := o.good[t[i].word]; ok && t[i].load && !t[i].store && t[i].want == 1-v {
				t[i].want = v
			}
		}
		threads = append(threads, t)
	}
	o.threads = threads
	return &o
}
