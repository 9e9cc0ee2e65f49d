package engine

import (
	"strings"
	"testing"
	"time"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/engine/internal/execution"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/report"
	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// timeouts lets the timer of p run out until p fails, at most limit times. It returns how
// often the timer ran out.
func (s *scene) timeouts(p *end, limit int) (n int) {
	s.Helper()
	holdClock(s.e) // a slow machine lets none run out before the test does
	for s.settle(); n < limit && p.state() == control.StateRTS; n++ {
		p.q.Stall.Deadline = 0
		s.e.Step()
		p.q.Stall.Deadline = ^uint64(0) // so that only the test lets the timer run out
		s.settle()
	}
	return n
}

// Without a receive, a SEND is tried rnr_retry times more; rnr_retry 7 means for ever.
func TestRNRRetryCount(t *testing.T) {
	for retries := range uint8(8) {
		s := newScene(t, Config{})
		s.p.q.Attr.RNRRetry = retries
		index := s.p.post(ctrl(wqe.OpSend), s.local.data(0, 8))
		n := s.timeouts(s.p, 50)
		if retries == 7 {
			require.Equal(t, 50, n)
			require.Equal(t, control.StateRTS, s.p.state())
			continue
		}
		require.Equal(t, int(retries), n)
		s.failed(s.p.scq.one(), cqe.RNRRetry, index)
		require.Equal(t, control.StateRTS, s.q.state())
	}
}

// Without a peer, a request is tried retry_cnt times more. retry_cnt 7 does not mean for
// ever, but a timeout of 0 does.
func TestTransportRetryCount(t *testing.T) {
	for retries := range uint8(8) {
		s := newScene(t, Config{})
		s.p.q.Attr.RetryCount = retries
		s.q.toState(control.StateRST)
		index := s.p.post(ctrl(wqe.OpRDMAWrite), s.far.raddr(0), s.local.data(0, 8))
		require.Equal(t, int(retries)+1, s.timeouts(s.p, 50))
		s.failed(s.p.scq.one(), cqe.TransportRetry, index)
	}
	s := newScene(t, Config{})
	s.p.q.Attr.Timeout = 0
	s.q.toState(control.StateRST)
	s.p.post(ctrl(wqe.OpRDMAWrite), s.far.raddr(0), s.local.data(0, 8))
	require.Equal(t, 50, s.timeouts(s.p, 50))
	s.p.scq.none()
}

// The shortest timers run out by the real clock.
func TestTimersRunOut(t *testing.T) {
	s := newScene(t, Config{})
	s.p.q.Attr.RNRRetry, s.q.q.Attr.MinRNRTimer = 2, 1 // 10 us each
	before := clock.Now()
	s.p.post(ctrl(wqe.OpSend), s.local.data(0, 8))
	s.until("the retries run out", func() bool {
		s.e.Step()
		return s.p.state() != control.StateRTS
	})
	require.GreaterOrEqual(t, clock.Duration(clock.Now()-before), 20*time.Microsecond)
	s.failed(s.p.scq.one(), cqe.RNRRetry, 0)
}

// A receive that comes in time ends the wait without the timer. The next wait has all its
// tries again.
func TestReceiveComesInTime(t *testing.T) {
	s := newScene(t, Config{})
	s.p.q.Attr.RNRRetry = 2
	for i := range uint16(5) {
		s.p.post(ctrl(wqe.OpSend), s.local.data(0, 8))
		s.settle()
		require.Equal(t, object.NotReady, s.p.q.Stall.Kind)
		s.p.q.Stall.Deadline = 0 // uses up one of two tries
		s.e.Step()
		s.p.q.Stall.Deadline = ^uint64(0)
		require.Equal(t, object.NotReady, s.p.q.Stall.Kind)
		s.q.recv(s.far.data(0, 8))
		s.settle()
		require.Equal(t, i, s.p.scq.one().Counter)
		require.Equal(t, i, s.q.rcq.one().Counter)
	}
}

// A peer that connects late is found, and so is a peer that resets and comes back.
func TestPeerComesInTime(t *testing.T) {
	s := newScene(t, Config{})
	for _, away := range []func(){
		func() { s.q.toState(control.StateRST) },
		func() { s.q.toState(control.StateERR) },
		func() { s.q.reset(s.idle) },
	} {
		away()
		s.p.post(ctrl(wqe.OpRDMAWrite), s.far.raddr(0), s.local.data(0, 8))
		s.settle()
		require.Equal(t, object.NoPeer, s.p.q.Stall.Kind)
		s.q.toState(control.StateRST)
		s.settle()
		s.q.modify(s.q.toInit())
		s.settle()
		require.Equal(t, object.NoPeer, s.p.q.Stall.Kind)
		s.q.modify(s.q.toRTR(s.p.num)) // it receives from now on
		s.settle()
		require.Equal(t, cqe.StatusSuccess, s.p.scq.one().Status)
	}
}

// The reason to wait changes: the peer goes while a send waits for its receive.
func TestPeerGoesDuringRNR(t *testing.T) {
	s := newScene(t, Config{})
	s.p.post(ctrl(wqe.OpSend), s.local.data(0, 8))
	s.settle()
	require.Equal(t, object.NotReady, s.p.q.Stall.Kind)
	s.q.destroy()
	s.settle()
	require.Equal(t, object.NoPeer, s.p.q.Stall.Kind)
	s.timeouts(s.p, 10)
	s.failed(s.p.scq.one(), cqe.TransportRetry, 0)
}

// A queue that waits leaves the list of stalled queues when it is reset, destroyed, or put
// into error. Its work is flushed only when it is put into error.
func TestEndOfAWait(t *testing.T) {
	for name, f := range map[string]struct {
		end     func(s *scene)
		flushed int
	}{
		"reset":     {func(s *scene) { s.p.toState(control.StateRST) }, 0},
		"destroyed": {func(s *scene) { s.p.destroy() }, 0},
		"error":     {func(s *scene) { s.p.toState(control.StateERR) }, 2},
		"closed":    {func(s *scene) { _ = s.p.h.c.Close() }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, Config{})
			s.p.post(ctrl(wqe.OpSend), s.local.data(0, 8))
			s.p.post(ctrl(wqe.OpNop))
			s.settle()
			require.Len(t, stalledQueues(s.e), 1)
			f.end(s)
			s.settle()
			require.Empty(t, stalledQueues(s.e))
			require.Len(t, s.p.scq.all(), f.flushed)
		})
	}
}

// However many queues are stalled, a step tries only a few of them. Each has its turn, goes
// on when it can, and gives up when its timer has run out.
func TestManyWait(t *testing.T) {
	r := newRig(t, Config{})
	a := r.host("a")
	c := a.cq(control.CQ{LogSize: 10})
	var ends []*end
	for range 200 {
		p := a.qp(control.QP{LogSQ: 1, LogRQ: 1}, c, c)
		p.up(p)
		ends = append(ends, p)
		p.post(ctrl(wqe.OpSend))
	}
	r.settle()
	require.Len(t, stalledQueues(r.e), 200)
	for _, p := range ends {
		p.q.Stall.Left, p.q.Stall.Forever, p.q.Stall.Deadline = 200, false, 0
		p.q.Stall.Interval = 0
	}
	looked := func() (n int) {
		for _, p := range ends {
			n += 200 - int(p.q.Stall.Left)
		}
		return n
	}
	for step := 1; step <= 100; step++ {
		r.e.Step()
		require.Equal(t, execution.RetriesPerStep*step, looked())
	}
	for _, p := range ends {
		require.Equal(t, uint8(196), p.q.Stall.Left, "all in turn")
	}
	for i, p := range ends {
		p.q.Stall.Forever = true
		if i%2 == 0 {
			p.recv()
		}
	}
	r.settle()
	require.Len(t, stalledQueues(r.e), 100)
	require.Len(t, c.all(), 200)
	for i, q := range stalledQueues(r.e) {
		require.EqualValues(t, i, q.StalledIndex)
		q.Stall.Forever, q.Stall.Left, q.Stall.Deadline = false, 0, 0
	}
	r.settle()
	require.Empty(t, stalledQueues(r.e))
	list := c.all()
	require.Len(t, list, 100)
	for _, w := range list {
		require.Equal(t, cqe.RNRRetry, w.Syndrome)
	}
}

// Tries are counted for a work request. They do not begin again with each receive that
// another queue pair on the shared queue takes first.
func TestRNRRetriesAreNotCountedAnew(t *testing.T) {
	for retries, want := range map[uint8]bool{3: false, 7: true} {
		r := newRig(t, Config{})
		h := r.host("h")
		c := h.cq(control.CQ{LogSize: 8})
		s := h.srq(control.SRQ{})
		k := h.full(64, 1)
		var from, to [2]*end
		for i := range from {
			from[i], to[i] = h.qp(control.QP{}, c, c), s.on(control.QPTypeRC, c)
			from[i].up(to[i])
			to[i].up(from[i])
			from[i].q.Attr.RNRRetry = retries
		}
		for i := range uint16(8) {
			s.put(i, k.data(0, 8))
		}
		first, late := from[0], from[1]
		late.post(ctrl(wqe.OpSend), k.data(0, 8))
		r.e.Step()
		rounds := 0
		for ; rounds < 20 && late.state() == control.StateRTS; rounds++ {
			require.Equal(t, object.NotReady, late.q.Stall.Kind)
			s.post(1)
			require.Equal(t, 1, r.e.Retry(), "there is a receive")
			first.post(ctrl(wqe.OpSend), k.data(0, 8)) // first is visited before late, and takes the receive
			r.e.Step()
		}
		require.Equal(t, want, late.state() == control.StateRTS)
		if !want {
			require.Equal(t, int(retries), rounds)
		}
	}
}

// A send that waits for ever is explained once, after it has waited for a while.
func TestWaitingForEverIsExplained(t *testing.T) {
	for name, row := range map[string]struct {
		begin func(s *scene)
		code  codes.Code
		words string
	}{
		"no receive": {func(s *scene) {
			s.p.post(ctrl(wqe.OpSend), s.local.data(0, 8))
		}, codes.ReceiveNone, "has no receive posted; the send waits (rnr_retry 7: for ever)"},
		"no peer": {func(s *scene) {
			s.p.q.Attr.Timeout = 0
			s.q.destroy()
			s.p.post(ctrl(wqe.OpRDMAWrite), s.far.raddr(0), s.local.data(0, 8))
		}, codes.PeerGone, "has ended; one that has the number later is another; the work request waits (timeout 0: for ever)"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, Config{})
			next := s.p.h.events()
			row.begin(s)
			s.settle()
			require.Nil(t, next())
			for range 3 {
				s.p.q.Stall.Since -= clock.Cycles(report.SuspicionTime)
				s.settle()
			}
			ev := next()
			require.Equal(t, row.code.String(), strings.TrimRight(string(ev.Code[:]), "\x00"))
			require.Contains(t, ev.Text, row.words)
			require.Equal(t, s.p.num, ev.Number)
			require.Nil(t, next())
			require.Equal(t, control.StateRTS, s.p.state())
		})
	}
}

// A WQE that gives up at once is checked by one copy, even if the client changes the ring in
// between.
func TestRefusalAtOnceIsOfTheSameCopy(t *testing.T) {
	s := newScene(t, Config{})
	s.p.q.Attr.RNRRetry = 0
	s.p.post(ctrl(wqe.OpSend), s.local.data(0, 8))
	s.e.Snapshot(s.p.q)
	clear(s.p.sq[:64]) // between the copy and the judgement
	require.Equal(t, object.Failed, s.e.Check(s.p.q, 1))
	w := s.p.scq.one()
	require.Equal(t, []any{cqe.RNRRetry, uint8(wqe.OpSend)}, []any{w.Syndrome, w.WQEOpcode})
}
