package engine

import (
	"fmt"
	"testing"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/completion"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// resize moves c to a new buffer as a client does: it copies each unread entry to an index
// one higher. It returns the entry that reported the resize.
func (c *poller) resize(log, logCQE uint8) (told cqe.WC) {
	c.h.Helper()
	return c.resizeWhile(log, logCQE, func() {})
}

// resizeWhile does what resize does, and calls the function something before the client copies
// its entries.
func (c *poller) resizeWhile(log, logCQE uint8, something func()) (told cqe.WC) {
	c.h.Helper()
	old := *c
	c.ring, _ = c.h.take(1 << (log + logCQE))
	for i := range c.ring {
		c.ring[i] = 0xf0
	}
	addr := c.h.base + c.h.used - uint64(len(c.ring)+127)&^127
	c.h.call(control.OpResizeCQ, &control.ResizeCQ{CQN: c.num, LogSize: log, LogCQE: logCQE, Buf: addr}, &control.Empty{})
	something()
	if c.compressed {
		old.expandSessions()
		c.sessions = old.sessions
	}
	c.log, c.entry = uint(log), 1<<logCQE
	for i := old.ci; ; i++ {
		from := old.block(i)
		if own := cqe.OpOwn(from.ObserveTail()); own.Opcode() == cqe.ResizeCQ {
			require.True(c.h, cqe.Valid(own, i, old.log))
			told.Parse((*[cqe.Size]byte)(from))
			break
		}
		to := c.block(i + 1)
		*to = *from
		(*[cqe.Size]byte)(to)[63] = to[63]&^1 | byte((i+1)>>c.log&1)
	}
	c.ci++ // the resize entry takes an index
	shm.BE32At(c.rec, 0).Publish(uint32(c.ci) & 0xffffff)
	return told
}

// A CQ is made larger, smaller, and given entries of another size, with completions unread.
// No completion is lost, and the index continues.
func TestResize(t *testing.T) {
	for _, to := range [][2]uint8{{6, 6}, {3, 6}, {4, 7}, {8, 7}} {
		t.Run(fmt.Sprintf("to %d of %d", 1<<to[0], 1<<to[1]), func(t *testing.T) {
			r, p, c := single(t, control.CQ{LogSize: 4})
			next := uint16(0)
			expect := func(n int) {
				t.Helper()
				for _, w := range c.all() {
					require.Equal(t, []any{next, unharmed}, []any{w.Counter, w.Syndrome})
					next++
					n--
				}
				require.Zero(t, n)
			}
			for round := range 6 {
				for range 3 + round {
					p.post(ctrl(wqe.OpNop))
				}
				r.settle()
				expect(3 + round)
				for range 5 {
					p.post(ctrl(wqe.OpNop))
				}
				r.settle()
				if round%2 == 0 {
					c.resize(to[0], to[1])
				} else {
					c.resize(4, 6)
				}
				p.post(ctrl(wqe.OpNop))
				r.settle()
				expect(6)
			}
			require.Equal(t, control.StateRTS, p.state())
		})
	}
}

// The new buffer has room for the unpolled entries and for one more, which may come before
// the client has copied anything. The entry after that overruns.
func TestResizeToTheSmallest(t *testing.T) {
	for log := range uint8(3) {
		for _, more := range []int{0, 1, 2} {
			r, p, c := single(t, control.CQ{LogSize: 4})
			for range 3 { // each resize takes an index
				c.resize(4, 6)
			}
			unread := 1<<log - 1
			for range unread {
				p.post(ctrl(wqe.OpNop))
			}
			r.settle()
			c.resizeWhile(log, 6, func() {
				for range more {
					p.post(ctrl(wqe.OpNop))
				}
				r.settle()
			})
			for i, w := range c.all() {
				require.Equal(t, []any{uint16(i), unharmed}, []any{w.Counter, w.Syndrome})
			}
			require.Equal(t, more == 2, p.state() == control.StateERR)
			require.Equal(t, uint64(unread+min(more, 1)), c.ci-4)
		}
	}
}

// If the last entry of the old buffer cannot be written, the resize is refused, and leaves
// no gap in the index.
func TestResizeFaults(t *testing.T) {
	r := newRig(t, Config{})
	h := r.host("h")
	mem, base, shrink := h.trusted(1 << 16)
	_ = mem
	rec, at := h.take(8)
	_ = rec
	var ans control.CQN
	h.call(control.OpCreateCQ, &control.CQ{Buf: base, DBRec: at, LogSize: 4, LogCQE: 6}, &ans)
	_, buf := h.take(64 << 4)
	shrink(0)
	h.refused(control.CodeMemory, "no page", control.OpResizeCQ, &control.ResizeCQ{CQN: ans.CQN, LogSize: 4, LogCQE: 6, Buf: buf}, nil)
	require.Zero(t, r.e.CQs[ans.CQN].Next)
}

func TestResizeRefused(t *testing.T) {
	r := newRig(t, Config{})
	h := r.host("h")
	c := h.cq(control.CQ{LogSize: 2})
	collapsed := h.cq(control.CQ{LogSize: 2, Flags: control.CQCollapsed})
	p := h.qp(control.QP{}, c, c)
	p.up(p)
	_, buf := h.take(4096)
	before := h.population()
	bad := func(code control.Code, text string, m control.ResizeCQ) {
		t.Helper()
		if m.CQN == 0 {
			m.CQN = c.num
		}
		if m.Buf == 0 {
			m.Buf = buf
		}
		h.refused(code, text, control.OpResizeCQ, &m, nil)
		require.Equal(t, before, h.population())
	}
	bad(control.CodeNotFound, "CQ", control.ResizeCQ{CQN: 3, LogSize: 4, LogCQE: 6})
	bad(control.CodeInvalid, "2^23", control.ResizeCQ{LogSize: 23, LogCQE: 6})
	bad(control.CodeInvalid, "2^5 bytes", control.ResizeCQ{LogSize: 4, LogCQE: 5})
	bad(control.CodeInvalid, "multiple of 64", control.ResizeCQ{LogSize: 4, LogCQE: 6, Buf: buf + 8})
	bad(control.CodeInvalid, "CQ buffer", control.ResizeCQ{LogSize: 10, LogCQE: 6, Buf: h.base + hostSize - 64})
	bad(control.CodeState, "collapsed", control.ResizeCQ{CQN: collapsed.num, LogSize: 4, LogCQE: 6})
	for range 3 {
		p.post(ctrl(wqe.OpNop))
	}
	r.settle()
	bad(control.CodeInvalid, "the 3 that", control.ResizeCQ{LogSize: 1, LogCQE: 6})
	p.post(ctrl(wqe.OpNop))
	r.settle()
	bad(control.CodeBusy, "full", control.ResizeCQ{LogSize: 6, LogCQE: 6})
	require.Len(t, c.all(), 4)
	c.resize(3, 6)
	p.post(ctrl(wqe.OpNop))
	r.settle()
	c.one()
	// The old buffer's region can be destroyed. The new buffer's region cannot.
	mem, err := shm.Heap(4096)
	require.NoError(t, err)
	id := h.addRegion(0x1000, mem)
	h.call(control.OpResizeCQ, &control.ResizeCQ{CQN: c.num, LogSize: 4, LogCQE: 6, Buf: 0x1000}, &control.Empty{})
	h.refused(control.CodeBusy, "", control.OpDropRegion, &control.RegionID{ID: id}, nil)
	h.call(control.OpResizeCQ, &control.ResizeCQ{CQN: c.num, LogSize: 4, LogCQE: 6, Buf: buf}, &control.Empty{})
	h.call(control.OpDropRegion, &control.RegionID{ID: id}, &control.Empty{})
}

// A queue that ignores overrun may be resized although its consumer index never moves.
func TestResizeIgnoringOverrun(t *testing.T) {
	r, p, c := single(t, control.CQ{LogSize: 2, Flags: control.CQIgnoreOverrun})
	c.lazy = true
	for i := range uint16(50) {
		p.post(ctrl(wqe.OpNop))
		r.settle()
		require.Equal(t, i, c.one().Counter)
	}
	c.resize(3, 6)
	p.post(ctrl(wqe.OpNop))
	r.settle()
	require.Equal(t, uint16(50), c.one().Counter)
}

// In a collapsed queue an error stays until its queue pair is reset. Neither flushed WQEs
// nor successes of other queue pairs overwrite it.
func TestCollapsedErrorStays(t *testing.T) {
	r := newRig(t, Config{})
	a := r.host("a")
	c := a.cq(control.CQ{LogSize: 2, Flags: control.CQCollapsed | control.CQIgnoreOverrun})
	p, q := a.qp(control.QP{}, c, c), a.qp(control.QP{}, c, c)
	p.up(q)
	q.up(q)
	p.reset(p)
	bad := p.post(ctrl(wqe.OpRDMAWrite), wqe.Raddr{RKey: 5}, []byte("x"))
	r.settle()
	for range 5 {
		p.post(silent(wqe.OpNop))
		q.post(ctrl(wqe.OpNop))
		r.settle()
		w, _, _ := c.at0()
		r.failed(w, cqe.RemoteAccess, bad)
	}
	p.reset(p)
	p.post(ctrl(wqe.OpNop))
	r.settle()
	w, own, _ := c.at0()
	require.Equal(t, []any{cqe.Req, unharmed, p.num}, []any{own.Opcode(), w.Syndrome, w.QPN})
	require.Equal(t, control.StateRTS, q.state())
}

// at0 reads the entry at index 0, whatever its owner bit.
func (c *poller) at0() (w cqe.WC, own cqe.OpOwn, ok bool) {
	w.Parse((*[cqe.Size]byte)(c.block(0)))
	return w, cqe.OpOwn(c.block(0).ObserveTail()), true
}

// The overrun of a completion queue is an event with its number, for its own client only.
func TestOverrunEvent(t *testing.T) {
	r := newRig(t, Config{})
	a, b := r.host("a"), r.host("b")
	c, d := a.cq(control.CQ{}), b.cq(control.CQ{LogSize: 4})
	p, q := a.qp(control.QP{}, c, c), b.qp(control.QP{}, d, d)
	p.up(q)
	q.up(p)
	next, others := a.events(), b.events()
	for range 3 {
		p.post(ctrl(wqe.OpNop))
	}
	r.settle()
	require.Equal(t, []happening{{control.EventCQError, c.num}}, happened(next))
	require.Empty(t, happened(others))
}

// The arm register at 0x20 is a hint that the arm word has changed. A register that several
// queues share serves all of them.
func TestArmRegister(t *testing.T) {
	r := newRig(t, Config{})
	a := r.host("a")
	id, event := a.channel()
	c, d := a.cq(control.CQ{LogSize: 4, Channel: id, Handle: 1, UAR: 2}), a.cq(control.CQ{LogSize: 4, Channel: id, Handle: 2, UAR: 2})
	p, q := a.qp(control.QP{}, c, c), a.qp(control.QP{}, d, d)
	p.up(p)
	q.up(q)
	p.post(ctrl(wqe.OpNop))
	q.post(ctrl(wqe.OpNop))
	r.settle()
	reg := shm.BE64At(a.c.UAR.Bytes(), 2*4096+0x20)
	for r.e.Sched.Turn%completion.ArmLapSteps != 1 { // then the next poll of all arm words is far away
		r.e.Step()
	}
	for i, c := range []*poller{c, d} {
		c.arm(uint32(i), false)
		reg.Publish(uint64(i)<<60 | uint64(c.num))
		for range completion.ArmRoundSteps {
			r.e.Step()
		}
		handle, ok := event()
		require.True(t, ok, "within %d steps", completion.ArmRoundSteps)
		require.Equal(t, uint64(i+1), handle)
	}
}

// The device does not wait for a client that does not read its events: those that find no room are merged.
func TestEventsThatNobodyReadsAreMerged(t *testing.T) {
	r := newRig(t, Config{})
	a, b := r.host("a"), r.host("b")
	lazy, next := a.events(), b.events()
	p, q := pair(a, b)
	for range 3000 {
		p.toState(control.StateSQD)
		p.toState(control.StateRTS)
	}
	q.toState(control.StateSQD)
	require.Equal(t, []happening{{control.EventDrained, q.num}}, happened(next))
	n := len(happened(lazy))
	require.Greater(t, n, 2)
	require.Less(t, n, 3000)
	// A new descriptor replaces the old one, and gets what found no room there.
	again := a.events()
	p.toState(control.StateSQD)
	r.settle()
	require.Equal(t, []happening{{control.EventDrained, p.num}}, happened(again))
	require.Empty(t, happened(lazy))
}

// If making a CQ fails because its record has lost its memory, the user is charged nothing.
func TestCreateCQFaults(t *testing.T) {
	r := newRig(t, Config{})
	h := r.host("h")
	_, base, shrink := h.trusted(1 << 16)
	id, _ := h.channel()
	shrink(0)
	_, buf := h.take(64 << 4)
	start := r.owed()
	h.refused(control.CodeMemory, "no page", control.OpCreateCQ, &control.CQ{Buf: buf, DBRec: base, LogSize: 4, LogCQE: 6, Channel: id}, nil)
	require.Equal(t, start, r.owed())
}
