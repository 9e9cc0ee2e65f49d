//go:build linux && (amd64 || arm64)

package top

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/nicless/nicless/cmd/nicless/internal/latency"
	"github.com/nicless/nicless/state"
)

// patience is how long an engine may take to answer.
const patience = 10 * time.Second

// A question is what a refresh asks.
type question struct {
	objects state.Request
	ring    *state.RingRequest // nil: none
}

// An answer is what came of it. If err is set, nothing else is.
type answer struct {
	question
	snapshot *state.Snapshot
	ring     *state.Ring
	ringErr  error // the queue may have no such ring
	links    Links
	cost     time.Duration // processor time of the question
	err      error
}

// A tick says that it is time for the next refresh.
type tick struct{ number int }

// A sampled message has the latencies of some queues.
type sampled struct {
	samples []latency.Sample
	cost    time.Duration // processor time
}

// query returns the command that asks the engine.
func (m *Model) query() tea.Cmd {
	if m.querying {
		m.queryAgain = true
		return nil
	}
	m.querying, m.queryAgain = true, false
	q, source, cpu := m.question(), m.source, m.opt.CPU
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(m.ctx, patience)
		defer cancel()
		begin := cpu()
		a := answer{question: q}
		a.snapshot, a.err = source.Read(ctx, q.objects)
		if a.err != nil {
			return a
		}
		if q.ring != nil {
			if s, err := source.Read(ctx, state.Request{Ring: q.ring}); err != nil {
				a.ringErr = err
			} else {
				a.ring = s.Ring
			}
		}
		a.links, _ = source.Links(ctx) // engines without links do not answer
		a.cost = cpu() - begin
		return a
	}
}

// reason returns why an engine does not answer, in few words.
func reason(err error) string {
	var number syscall.Errno
	switch {
	case errors.As(err, &number):
		return number.Error()
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Sprintf("no answer in %s", patience)
	}
	return clean(err.Error())
}

// question returns what the screen needs.
func (m *Model) question() question {
	if m.page != nil {
		return m.page.question()
	}
	kinds := []state.Kind{state.Clients}
	switch m.table {
	case queuesTable:
		kinds = append(kinds, state.Queues)
	case cqsTable:
		kinds = append(kinds, state.CQs)
	}
	return question{objects: state.Request{Kinds: kinds}}
}

// take takes an answer, and returns what follows.
func (m *Model) take(a answer) tea.Cmd {
	m.querying = false
	begin := m.opt.Now()
	if a.err != nil {
		m.gone = reason(a.err)
	} else {
		m.accept(&a)
	}
	m.pause = pauseAfter(a.cost+m.opt.Now().Sub(begin)+m.drawn+m.sampleCost, m.opt.Interval)
	m.sampleCost = 0
	if m.queryAgain { // the answer was to what the screen has shown before
		return m.query()
	}
	return tea.Batch(m.wait(), m.sample())
}

func (m *Model) accept(a *answer) {
	if !m.pic.follows(a.snapshot) {
		clear(m.latencies)
	}
	m.gone, m.links = "", a.links
	m.pic.take(a.snapshot, &a.objects)
	if m.page != nil {
		m.page.take(a)
	} else {
		m.dropGone()
		m.grid().renew()
	}
}

// dropGone drops the latencies of queues that have gone, so that their numbers begin anew.
func (m *Model) dropGone() {
	if m.table != queuesTable {
		return
	}
	for n := range m.latencies {
		if _, ok := m.pic.memory.queues[n]; !ok {
			delete(m.latencies, n)
		}
	}
}

// wait returns the command that ends with the next tick. An older one that is still on its way is ignored.
func (m *Model) wait() tea.Cmd {
	if m.paused {
		return nil
	}
	m.ticks++
	return m.opt.After(m.pause, tick{m.ticks})
}

const (
	mostSamples  = 4   // queues that are sampled after one refresh
	sampleEvery  = 2   // of so many refreshes, one has samples: the device is slower while it is watched
	mostMeasured = 512 // queues whose latencies are kept
)

// sample returns the command that samples the next visible queues that have worked, one after another.
func (m *Model) sample() tea.Cmd {
	if m.sampling || m.paused || m.gone != "" {
		return nil
	}
	m.refreshes++
	if m.refreshes%sampleEvery != 0 {
		return nil
	}
	chosen := m.toSample()
	if len(chosen) == 0 {
		return nil
	}
	m.sampling = true
	source, cpu := m.source, m.opt.CPU
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(m.ctx, patience)
		defer cancel()
		begin := cpu()
		var got sampled
		for _, n := range chosen {
			if s, err := source.Latency(ctx, n); err == nil { // the queue may have gone meanwhile
				got.samples = append(got.samples, s)
			}
		}
		got.cost = cpu() - begin
		return got
	}
}

// toSample chooses the next queues in turn.
func (m *Model) toSample() (chosen []uint32) {
	candidates := m.sampleable()
	if len(candidates) == 0 {
		return nil
	}
	for range min(len(candidates), mostSamples) {
		m.turn = (m.turn + 1) % len(candidates)
		chosen = append(chosen, candidates[m.turn])
	}
	return chosen
}

// sampleable returns the queues on the screen that have worked since the last snapshot.
func (m *Model) sampleable() (list []uint32) {
	switch {
	case m.page != nil && !m.page.ofCQ:
		return []uint32{m.page.number}
	case m.page != nil || m.table != queuesTable:
		return nil
	}
	visible := map[uint32]bool{}
	for _, n := range m.grid().visible(m.rowsHeight()) {
		visible[n] = true
	}
	for i := range m.pic.queues {
		if q := &m.pic.queues[i]; visible[q.Number] && q.wqes > 0 {
			list = append(list, q.Number)
		}
	}
	return list
}

func (m *Model) takeSamples(got sampled) {
	m.sampling = false
	m.sampleCost += got.cost
	for _, s := range got.samples {
		if len(s.Latencies) == 0 {
			continue
		}
		one := m.latencies[s.Queue]
		if one == nil {
			if len(m.latencies) >= mostMeasured {
				clear(m.latencies)
			}
			one = &measured{}
			m.latencies[s.Queue] = one
		}
		one.add(s)
	}
}
