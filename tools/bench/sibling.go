//go:build linux && (amd64 || arm64)

package bench

import (
	"math"
	"runtime"
	"slices"

	"github.com/nicless/nicless/internal/clock"
)

// Two hyperthreads of a physical core are siblings. In a virtual machine, a program that this
// machine cannot see may use the sibling of a measured core. The core then has fewer
// execution units for its own thread, and the same code takes up to twice as long.
//
// A probe finds out. It measures how many independent additions the core makes in a cycle, and
// it finds the length of a cycle by a chain of multiplications, each of which takes 3 cycles. A
// busy sibling slows additions but not the chain, and a change of the core's frequency slows
// both. On an Emerald Rapids virtual machine with two cores, a core made 4.62 to 4.65 additions
// in a cycle in one half of 1,200 probes and 2.1 to 3.4 in most of the others.
//
// A cycle of a probe is a third of a multiplication. On some cores for arm64 this is not a cycle
// of the core. There, speeds are only compared with each other.

// A probe has a number of slices, each with some multiplications and some additions. A slice
// takes about 13 us, so a probe takes 0.9 ms.
const (
	probeSlices     = 64
	calibration     = 16 // probes of each core before the first run
	chainRounds     = 250
	additionRounds  = 1250
	cyclesInProduct = 3
)

// busySibling is the smallest slowdown that counts as the work of a busy sibling. A sibling that
// is busy all the time causes 1.4 to 2; without one, probes differ by less than 1.02.
const busySibling = 1.15

// A watched core remembers how fast additions are while its sibling is quiet: quiet is a number
// of additions in a cycle.
type watched struct {
	cpu   int
	quiet float64
}

// least is a number of additions that any server's core for amd64 makes in a cycle, if its
// sibling is quiet: such cores have had four units for additions since 2013. It allows for the
// loop's own instructions. Only a core whose sibling has been busy since the program began is
// slower. For arm64 there is no such number, but most of its cores have no siblings.
func least() float64 {
	if runtime.GOARCH == "amd64" {
		return 3.2
	}
	return 0
}

// siblings watches the siblings of measured cores. The zero siblings watches none.
type siblings struct{ cores []watched }

// watch makes siblings watch some cores, and finds out how fast their additions are.
func watch(cpus ...int) (*siblings, error) {
	s := &siblings{}
	for _, cpu := range cpus {
		s.cores = append(s.cores, watched{cpu: cpu, quiet: least()})
	}
	for range calibration {
		if _, err := s.slowdown(); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// slowdown probes each core, one after another, and returns the largest slowdown.
func (s *siblings) slowdown() (most float64, err error) {
	for i := range s.cores {
		w := &s.cores[i]
		done := make(chan error)
		speeds := make([]float64, 0, probeSlices)
		go func() {
			err := pinForGood(w.cpu)
			if err == nil {
				speeds = probe(speeds)
			}
			done <- err
		}()
		if err := <-done; err != nil {
			return 0, err
		}
		most = max(most, w.slowdown(speeds))
	}
	return most, nil
}

// probe appends the number of additions in a cycle for probeSlices slices. The calling thread
// must be pinned. The length of a cycle is that of the fastest chain: other chains may have been
// interrupted, or slowed for some microseconds because the core needs time for a change of its
// voltage, and the additions beside them may have been neither.
func probe(speeds []float64) []float64 {
	took := make([]float64, 0, probeSlices)
	chain := math.Inf(1)
	for range probeSlices {
		start := clock.Now()
		sink.Store(multiplies(chainRounds, sink.Load()|1))
		middle := clock.Now()
		sink.Store(adds(additionRounds, sink.Load(), 5))
		took = append(took, float64(clock.Now()-middle))
		chain = min(chain, float64(middle-start))
	}
	cycle := chain / (chainRounds * multipliesInRound * cyclesInProduct)
	for _, t := range took {
		speeds = append(speeds, additionRounds*addsInRound*cycle/t)
	}
	return speeds
}

// interrupted is how many times as long a slice takes, at least, if the thread was interrupted, or
// if the core had to wait for a change of its voltage. A sibling cannot slow additions that much.
const interrupted = 3

// slowdown returns how many times as long additions took as they take beside a quiet sibling, on
// average. It leaves out slices that were interrupted; if all were, it returns 1. A later call
// may know better how fast additions are beside a quiet sibling.
func (w *watched) slowdown(speeds []float64) (slowdown float64) {
	slices.Sort(speeds)
	// The fastest eighth does not count here: the frequency may have risen after the chains.
	w.quiet = max(w.quiet, speeds[len(speeds)-1-len(speeds)/8])
	n := 0
	for _, v := range speeds {
		if v*interrupted > w.quiet {
			slowdown += w.quiet / v
			n++
		}
	}
	if n == 0 {
		return 1
	}
	return slowdown / float64(n)
}

// around returns take with a probe before it and a probe after it. Each pair then has the
// larger slowdown.
func (s *siblings) around(take func() ([]pairOf, error)) func() ([]pairOf, error) {
	return func() ([]pairOf, error) {
		before, err := s.slowdown()
		if err != nil {
			return nil, err
		}
		pairs, err := take()
		if err != nil {
			return nil, err
		}
		after, err := s.slowdown()
		for i := range pairs {
			pairs[i].slowdown = max(before, after)
		}
		return pairs, err
	}
}

// siblings watches those of the cores, as far as the measurement is pinned to them. The core of
// an engine in another process is never free for a probe.
func (m *measurement) siblings() (*siblings, error) {
	var cpus []int
	if m.ClientCPU >= 0 {
		cpus = append(cpus, m.ClientCPU)
	}
	if m.EngineCPU >= 0 && m.Socket == "" {
		cpus = append(cpus, m.EngineCPU)
	}
	return watch(cpus...)
}

// state counts the runs with a busy sibling among runs with these slowdowns. It returns nil if
// there are none, because no run was probed.
func (s *siblings) state(slowdowns []float64) *Siblings {
	if len(slowdowns) == 0 {
		return nil
	}
	all := &Siblings{Runs: len(slowdowns), Worst: slices.Max(slowdowns)}
	for _, v := range slowdowns {
		if v >= busySibling {
			all.Busy++
		}
	}
	for _, w := range s.cores {
		all.Quiet = append(all.Quiet, w.quiet)
	}
	return all
}
