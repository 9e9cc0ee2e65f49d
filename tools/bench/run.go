//go:build linux && (amd64 || arm64)

package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/internal/clock"
)

// Run carries out a measurement.
func Run(ctx context.Context, c Config) (*Report, error) {
	if err := c.Complete(); err != nil {
		return nil, err
	}
	machine, err := ThisMachine()
	if err != nil {
		return nil, err
	}
	m := &measurement{Config: c, ctx: ctx}
	done := make(chan error)
	go func() { // in a goroutine, so that the pinned thread ends with it
		err := pinForGood(c.ClientCPU)
		if err == nil {
			err = m.runs()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		return nil, err
	}
	return m.report(machine), nil
}

// A measurement collects samples, one for each run.
type measurement struct {
	Config
	ctx     context.Context
	samples []pairOf  // one for each run
	retaken int       // number of runs that were repeated because they were disturbed
	watch   *siblings // nil: not watched
	cycles  []uint32  // times of the single operations of the current run
	mean    bool      // Latency: leave out the times of single operations
}

// How many polls may find nothing before a measurement sleeps. If client and engine each have a
// core, these polls take longer than an interrupt. If operations are large, they take longer
// than the largest operation. Otherwise they take some microseconds.
const (
	patience       = 1 << 16
	patienceOfLong = 1 << 26
	patienceOfOne  = 100
)

func (m *measurement) runs() (err error) {
	if m.Socket != "" { // an engine that is not there is reported before any measurement
		c, err := m.open()
		if err != nil {
			return err
		}
		if err := c.Close(); err != nil {
			return err
		}
	}
	if m.Watched {
		c, err := m.open()
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, c.Close()) }()
		if _, err = c.Watch(nicless.WatchFilter{All: true}); err != nil {
			return err
		}
	}
	var f *floor
	if m.ClientCPU != m.EngineCPU {
		if f, err = newFloor(m.shape(), m.Size, m.slots(), m.Depth, m.EngineCPU); err != nil {
			return err
		}
		defer f.close()
		m.watch, err = m.siblings()
		if err != nil {
			return err
		}
	}
	for run := range m.Runs {
		if m.Progress != nil {
			m.Progress(run+1, m.Runs)
		}
		s, err := m.quiet(f)
		if err != nil {
			return err
		}
		m.samples = append(m.samples, s)
	}
	return nil
}

// quiet takes the samples of one run. It repeats the run if it was disturbed, and returns the
// samples that were disturbed least.
func (m *measurement) quiet(f *floor) (pairOf, error) {
	tries := 1 + retakes
	if f == nil {
		tries = 1 // client and engine share a core, so each disturbs the other in every run
	}
	take := func() ([]pairOf, error) {
		p, err := m.pair(f)
		return []pairOf{p}, err
	}
	if m.watch != nil {
		take = m.watch.around(take)
	}
	s, retaken, err := undisturbed(m.ctx, tries, take, mostLost)
	m.retaken += retaken
	if err != nil {
		return pairOf{}, err
	}
	return s[0], nil
}

// pair takes one sample of the floor, unless f is nil, and one of the device. Floors of latencies and rates
// are measured before and after the device.
func (m *measurement) pair(f *floor) (s pairOf, err error) {
	if f != nil {
		s.floor, err = m.floor(f)
		if err != nil {
			return s, err
		}
	}
	if err := m.device(&s); err != nil || f == nil || m.Metric == Bandwidth {
		return s, err
	}
	again, err := m.floor(f)
	s.floor = s.floor.steady(again)
	return s, err
}

func (m *measurement) floor(f *floor) (sample, error) {
	switch m.Metric {
	case Rate:
		t, err := f.stream(m.Iters, m.streaming())
		return t.millions(m.Iters), err
	case Bandwidth:
		t, err := f.fastest(m.Iters, m.streaming())
		return t.megabytes(m.Iters, m.Size), err
	}
	return f.roundTrip(m.Iters)
}

// device takes one sample of an engine that exists only for this run, because no engine may
// poll while the floor is measured.
func (m *measurement) device(s *pairOf) (err error) {
	c, err := m.open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	cfg := PairConfig{Op: m.Op, Size: m.Size, Slots: m.slots(), Depth: m.Depth, Batch: m.Batch,
		Signal: m.Signal,
		Inline: m.Inline, BlueFlame: m.BlueFlame, Patience: patience}
	if m.Size > 1<<20 {
		cfg.Patience = patienceOfLong
	}
	if m.ClientCPU == m.EngineCPU {
		cfg.Patience = patienceOfOne
	}
	p, err := NewPair(c, cfg)
	if err != nil {
		return err
	}
	fill := rand.NewChaCha8([32]byte{byte(len(m.samples))})
	if m.Op != nicless.FetchAdd { // FETCH_ADD needs a target that begins at zero
		_, _ = fill.Read(p.From.Bytes()) // never fails
	}
	clear(p.To.Bytes())
	if m.Metric == Latency {
		return m.latency(p, s)
	}
	return m.stream(p, s)
}

func (m *measurement) open() (*nicless.Context, error) {
	if m.Socket != "" {
		return nicless.Dial(m.Socket)
	}
	cfg := nicless.Config{Spin: true, PostersStep: m.OneCore}
	if m.EngineCPU >= 0 {
		cfg.CPUs = []int{m.EngineCPU}
	}
	if m.ClientCPU == m.EngineCPU {
		cfg.Spin = false // client and engine share one core
	}
	return nicless.Open(cfg)
}

// latency measures the mean over operations that are made one at a time. Then it makes as many
// operations again and measures the time of each.
func (m *measurement) latency(p *Pair, s *pairOf) error {
	warm := uint64(warmUp(m.Iters))
	n := uint64(m.Iters)
	if err := m.check(p, warm); err != nil {
		return err
	}
	var err error
	t := timed(func() { err = m.trips(p, warm, warm+n) })
	if err != nil {
		return err
	}
	s.device = t.nanoseconds(m.Iters)
	if err := p.Compare(); err != nil {
		return err
	}
	if m.mean {
		return nil
	}
	if err := m.each(p, warm+n); err != nil {
		return err
	}
	s.times = newTimes()
	for _, c := range m.cycles {
		if err := s.times.RecordValue(clock.Duration(uint64(c)).Nanoseconds()); err != nil {
			return fmt.Errorf("bench: %w", err)
		}
	}
	return p.Compare()
}

// check moves n different payloads and compares each with its source.
func (m *measurement) check(p *Pair, n uint64) error {
	for i := range n {
		p.stamp(i)
		if err := p.one(m.ctx, i); err != nil {
			return err
		}
		if i < 1000 || i+1 == n {
			if err := p.Compare(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (m *measurement) trips(p *Pair, i, end uint64) error {
	for ; i < end; i++ {
		p.stamp(i)
		if err := p.one(m.ctx, i); err != nil {
			return err
		}
	}
	return nil
}

// each measures the time of single operations and stores the times in m.cycles.
func (m *measurement) each(p *Pair, i uint64) error {
	if m.cycles == nil {
		m.cycles = make([]uint32, m.Iters)
		clear(m.cycles) // touches all pages, so that no page fault comes later
	}
	last := clock.Now()
	for k := range m.cycles {
		p.stamp(i)
		if err := p.one(m.ctx, i); err != nil {
			return err
		}
		now := clock.Now()
		m.cycles[k] = uint32(min(now-last, 1<<32-1))
		last = now
		i++
	}
	return nil
}

// stream keeps Depth operations in flight.
func (m *measurement) stream(p *Pair, s *pairOf) error {
	warm := uint64(roundUp(warmUp(m.Iters), m.Batch))
	if err := m.flow(p, 0, warm); err != nil {
		return err
	}
	clear(p.To.Bytes())
	var err error
	t := timed(func() { err = m.flow(p, warm, warm+uint64(m.Iters)) })
	if err != nil {
		return err
	}
	if m.Metric == Rate {
		s.device = t.millions(m.Iters)
	} else {
		s.device = t.megabytes(m.Iters, m.Size)
	}
	if m.Iters < m.slots() {
		return nil // fewer operations than slots: some slots were not written
	}
	return p.Compare()
}

// flow makes operations i to end-1. With Batch 1 and a larger Depth it posts one operation for
// each one that completes.
func (m *measurement) flow(p *Pair, i, end uint64) error {
	depth, batch := uint64(m.Depth), uint64(m.Batch)
	for done := i; done < end; {
		for i < end && i-done+batch <= depth {
			if err := p.Post(i, m.Batch); err != nil {
				return err
			}
			i += batch
		}
		if err := p.Await(m.ctx, done+1); err != nil {
			return err
		}
		done = p.Done()
	}
	return nil
}
