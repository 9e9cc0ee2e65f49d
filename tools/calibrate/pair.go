//go:build linux && (amd64 || arm64)

package calibrate

import (
	"slices"
	"sync/atomic"

	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/tools/internal/cores"
	"github.com/nicless/nicless/tools/quantile"
)

// A row is what is played and timed as one: a shape, or something that the first thread does
// alone. alone does it n times. Before a row, before is called if it is not nil.
type row struct {
	name string
	shape
	before func() (sum uint64)
	alone  func(n uint64) (sum uint64)

	each uint64 // exchanges in a batch
}

// A pair is two threads on two cores that play rows. Its methods are called by the first one.
type pair struct {
	m      *memory
	number uint64 // number of the next exchange, never 0
	starts uint64 // how often the second thread was started

	// The first thread writes these, then it publishes the start.
	answer   func(m *memory, i, end uint64) uint64
	from, to uint64

	took, took2 [batches]float64
	started     chan started // carries what the second thread reports first
	ended       chan struct{}
}

// started is what the second thread reports first.
type started struct {
	thread int // id of the thread
	err    error
}

// A row is played in batches. Before those that count there are a few more, so that the lines come
// into the state that they have in this shape.
const batches, warm = 12, 3

// sink keeps the compiler from removing reads.
var sink atomic.Uint64

// newPair starts the second thread, on a core.
func newPair(m *memory, core int) (p *pair, thread int, err error) {
	p = &pair{m: m, number: 1, started: make(chan started), ended: make(chan struct{})}
	go p.second(core)
	s := <-p.started
	return p, s.thread, s.err
}

func (p *pair) second(core int) {
	defer close(p.ended)
	err := cores.PinForGood(core)
	p.started <- started{cores.Thread(), err}
	if err != nil {
		return
	}
	for n := uint64(1); ; n++ {
		await(p.m.start, n)
		if p.answer == nil {
			return
		}
		sink.Add(p.answer(p.m, p.from, p.to))
	}
}

func (p *pair) start(answer func(m *memory, i, end uint64) uint64, from, to uint64) {
	p.answer, p.from, p.to = answer, from, to
	p.m.sum, p.m.ownSum = shm.Add(p.m.counter, 0), shm.Add(p.m.own[0], 0)
	p.starts++
	p.m.start.Publish(p.starts)
}

// close ends the second thread. It must have started.
func (p *pair) close() {
	p.start(nil, 0, 0)
	<-p.ended
}

// A timing is what a row took: the median of its batches.
type timing struct {
	first, second float64 // cycles of package clock for an exchange, or for its two halves
	spread        float64 // the third quartile of the batches by the first one
}

// play plays a row once.
func (p *pair) play(r *row) timing {
	i := p.number
	if r.alone == nil {
		p.number += (batches + warm) * r.each
		p.start(r.answer, i, p.number)
	}
	sum := uint64(0)
	if r.before != nil {
		sum = r.before()
	}
	for b := range batches + warm {
		var first, second uint64
		before := clock.Now()
		switch {
		case r.alone != nil:
			sum += r.alone(r.each)
			first = clock.Now() - before
		case r.halves != nil:
			first, second = r.halves(p.m, i, i+r.each)
		default:
			sum += r.request(p.m, i, i+r.each)
			first = clock.Now() - before
		}
		i += r.each
		if b >= warm {
			p.took[b-warm], p.took2[b-warm] = float64(first)/float64(r.each), float64(second)/float64(r.each)
		}
	}
	sink.Add(sum)
	slices.Sort(p.took[:])
	slices.Sort(p.took2[:])
	return timing{
		first:  quantile.Between(p.took[:], 0.5),
		second: quantile.Between(p.took2[:], 0.5),
		spread: quantile.Rank(p.took[:], 0.75) / max(quantile.Rank(p.took[:], 0.25), 1),
	}
}
