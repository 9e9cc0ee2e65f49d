//go:build linux && (amd64 || arm64)

package calibrate

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"

	"github.com/klauspost/cpuid/v2"
	"github.com/nicless/nicless/internal/cpu"
	"github.com/nicless/nicless/tools/internal/cores"
)

// Run measures. It takes the options' budget and up to a quarter of a second more. Meanwhile it
// keeps two threads busy.
func Run(ctx context.Context, o Options) (Result, error) {
	chosen, err := choose(o.Cores)
	if err != nil {
		return Result{}, fmt.Errorf("calibrate: %w", err)
	}
	o.Cores = chosen
	if o.Budget < 0 {
		return Result{}, fmt.Errorf("calibrate: a budget of %v; it must not be negative", o.Budget)
	}
	if o.Budget == 0 {
		o.Budget = defaultBudget
	}
	var r Result
	done := make(chan error)
	go func() { // its thread ends with it
		err := cores.PinForGood(o.Cores[0])
		if err == nil {
			r, err = measure(ctx, o)
		}
		done <- err
	}()
	if err := <-done; err != nil {
		return Result{}, fmt.Errorf("calibrate: %w", err)
	}
	return r, nil
}

// choose replaces negative cores and checks the others.
func choose(want [2]int) ([2]int, error) {
	allowed, err := cores.Allowed()
	if err != nil {
		return want, err
	}
	return chooseFrom(allowed, runtime.GOMAXPROCS(0), want)
}

// chooseFrom is choose for a process with these cores and this many goroutines at a time.
func chooseFrom(allowed []int, procs int, want [2]int) ([2]int, error) {
	if len(allowed) < 2 {
		return want, fmt.Errorf("this process may run on %d core only, %v; lines between cores need 2", len(allowed), allowed)
	}
	if procs < 2 {
		return want, fmt.Errorf("GOMAXPROCS is %d; two threads that wait for each other need 2", procs)
	}
	for i, core := range want {
		if core >= 0 && !slices.Contains(allowed, core) {
			return want, fmt.Errorf("core %d is not one of those that this process may run on, %v", core, allowed)
		}
		if core < 0 {
			other := want[1-i]
			want[i] = allowed[slices.IndexFunc(allowed, func(c int) bool { return c != other })]
		}
	}
	if want[0] == want[1] {
		return want, errors.New("both threads would be on core " + fmt.Sprint(want[0]) + "; they need different ones")
	}
	return want, nil
}

// measure is Run on the first core.
func measure(ctx context.Context, o Options) (r Result, err error) {
	kernel, err := cores.Kernel()
	if err != nil {
		return r, err
	}
	kind := "not virtual"
	if cpuid.CPU.VM() {
		kind = "virtual machine"
	}
	r.Machine = fmt.Sprintf("%s, cores %d and %d, %s, %s", cpu.Name(), o.Cores[0], o.Cores[1], kernel, kind)

	m, err := newMemory()
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, m.close()) }()
	first, last, memory, beyond := cachesOf(o.Cores[0]).sets()
	var sets []*loads
	defer func() {
		for _, l := range sets {
			err = errors.Join(err, l.close())
		}
	}()
	// the set that the last cache is to hold after the larger one
	for _, size := range []int{memory, last, first} {
		l, err := newLoads(size)
		if err != nil {
			return r, err
		}
		sets = append(sets, l)
	}
	p, second, err := newPair(m, o.Cores[1])
	if err != nil {
		return r, err
	}
	defer p.close()

	floorRows := floors()
	rows := allRows(prices(sets[2], sets[1], sets[0]), floorRows)
	all, err := play(ctx, p, rows, [2]int{cores.Thread(), second}, o.Budget)
	if err != nil {
		return r, err
	}
	r.fill(all, floorRows)
	for i := range r.Prices {
		s := &r.Prices[i]
		switch s.Name {
		case Hit:
			s.Note += fmt.Sprintf(" (%d KiB)", first>>10)
		case LLCLoad:
			s.Note += fmt.Sprintf(" (%d KiB)", last>>10)
		case DRAMLoad:
			s.Note += fmt.Sprintf(" (%d MiB)", memory>>20)
			if !beyond {
				s.Note += ", less than twice the last cache: some of the loads do not reach memory"
			}
		}
	}
	return r, nil
}

// fill takes the samples from the rounds.
func (r *Result) fill(all []round, floors []row) {
	var list []round
	list, r.Dropped, r.Disturbed = counting(all)
	r.Rounds, r.Values = len(list), make(map[string][]float64)
	for _, round := range list {
		for name, v := range round.derive() {
			r.Values[name] = append(r.Values[name], v)
		}
		for _, f := range floors {
			r.Values[f.name] = append(r.Values[f.name], round.first[f.name])
		}
	}
	for _, name := range []string{Signal, Handover, Post, Data, Chase, Next, WriteNext, Atomic, Copy, Hit,
		LLCLoad, DRAMLoad, LinesInFlight} {
		r.Prices = append(r.Prices, sample(name, notes[name], r.Values[name]))
	}
	for _, f := range floors {
		r.Floors = append(r.Floors, sample(f.name, "", r.Values[f.name]))
	}
}
