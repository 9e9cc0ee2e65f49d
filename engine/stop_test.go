package engine

import (
	"context"
	"testing"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/execution"
	"github.com/nicless/nicless/engine/internal/mailbox"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// stopped starts the engine and stops it at once.
func (r *rig) stopped() {
	r.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.NoError(r, r.d.Run(ctx, nil))
}

// An orderly stop executes all that has been announced, even if it is too much for one
// step.
func TestStopDrains(t *testing.T) {
	r := newRig(t, Config{Burst: 2, Slice: 256})
	a := r.host("a")
	p, q := pair(a, r.host("b"))
	src, dst := a.full(4096, 1), q.h.full(4096, 2)
	for range 9 {
		p.write(ctrl(wqe.OpNop))
	}
	p.write(ctrl(wqe.OpRDMAWrite), dst.raddr(0), src.data(0, 4096))
	p.ring()
	r.stopped()
	list := p.scq.all()
	require.Len(t, list, 10)
	for i, w := range list {
		require.Equal(t, []any{uint16(i), unharmed}, []any{w.Counter, w.Syndrome})
	}
	r.same(src.mem, dst.mem, "the long transfer")
	require.Equal(t, uint64(control.EngineGone), a.c.Page.State.Observe())
}

// Sends that wait for a peer, and unused receives, are flushed. Each completes once.
func TestStopFlushes(t *testing.T) {
	s := newScene(t, Config{})
	waits := s.p.post(ctrl(wqe.OpSend), s.local.data(0, 8)) // no receive is posted
	s.p.post(silent(wqe.OpNop))
	s.settle()
	require.Len(t, stalledQueues(s.e), 1)
	s.p.recv(s.local.data(0, 8))
	s.stopped()
	list := s.p.scq.all()
	require.Len(t, list, 3)
	for i, w := range list {
		require.Equal(t, cqe.Flush, w.Syndrome)
		if i < 2 {
			require.Equal(t, waits+uint16(i), w.Counter)
		}
	}
	require.Equal(t, control.StateERR, s.p.state())
	s.stopped()
	s.p.scq.none()
}

// The stop tries all of thousands of stalled queues before it treats the engine as idle.
func TestStopLooksAtEverybodyWhoWaits(t *testing.T) {
	r := newRig(t, Config{})
	a := r.host("a")
	c := a.cq(control.CQ{LogSize: 8})
	var senders, receivers []*end
	for range 4 * execution.RetriesPerStep {
		p, q := a.qp(control.QP{LogRQ: 1}, c, c), a.qp(control.QP{LogRQ: 1}, c, c)
		p.up(q)
		q.up(p)
		p.post(ctrl(wqe.OpSend))
		senders, receivers = append(senders, p), append(receivers, q)
	}
	r.settle()
	require.Len(t, stalledQueues(r.e), len(senders))
	for _, q := range receivers {
		q.recv()
	}
	r.stopped()
	good := 0
	for _, w := range c.all() {
		if w.Syndrome == unharmed {
			good++
		}
	}
	require.Equal(t, 2*len(senders), good)
}

// While the device stops, status pages say so. A client that posts for ever cannot prevent
// the stop.
func TestStopEndsAlthoughClientsPost(t *testing.T) {
	r := newRig(t, Config{})
	r.d.runner.Hooks.StopBound = 0
	a := r.host("a")
	c := a.cq(control.CQ{Flags: control.CQIgnoreOverrun})
	p := a.qp(control.QP{}, c, c)
	p.up(p)
	p.write(silent(wqe.OpNop))
	posted := uint32(0)
	m := &r.e.Mail
	var post func()
	next := func() { // makes the next step post
		m.Mu.Lock()
		defer m.Mu.Unlock()
		m.Queue = append(m.Queue, &mailbox.Mail{F: post, Done: make(chan struct{})})
		m.Waiting.Store(true)
	}
	post = func() {
		state := control.EngineState(a.c.Page.State.Observe())
		if state == control.EngineGone {
			return
		}
		require.Equal(t, control.EngineStopping, state)
		posted++
		p.record(4, posted)
		next()
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.NoError(t, r.d.Run(ctx, next))
	require.Positive(t, posted)
}
