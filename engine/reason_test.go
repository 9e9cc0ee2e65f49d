package engine

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"testing"
	"time"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/engine/internal/report"
	"github.com/nicless/nicless/fabric/pool"
	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/reason"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// reasonOf returns what the ring of a client says about a completion.
func (h *host) reasonOf(w cqe.WC) (r *reason.Reason, overrun bool) {
	p := reason.Place{Queue: w.QPN, Index: w.Counter}
	if !w.Requester() {
		p.Of = reason.OfReceive
	}
	return reason.NewRing(h.c.Status.Bytes()).Find(p, w.Syndrome == cqe.Flush)
}

// explained requires that an error completion has its reason, or that the ring has overrun. Every poller of
// these tests asks it, so it holds for all faults that any test causes.
func (h *host) explained(w cqe.WC) {
	h.Helper()
	if w.Status == cqe.StatusSuccess || w.Status == cqe.StatusNone || h.unreasoned {
		return
	}
	r, overrun := h.reasonOf(w)
	if overrun {
		return
	}
	require.NotNil(h, r, "%+v has no reason", w)
	require.NotEmpty(h, r.Text)
	require.NotContains(h, r.Text, "%!", "a format that does not fit its values")
	if w.Syndrome != cqe.Flush {
		require.Contains(h, []cqe.Syndrome{0, w.Syndrome}, cqe.Syndrome(r.Syndrome), r.Text)
	}
}

// carriedOnly are the codes that only completions carry; no event has them.
var carriedOnly = []codes.Code{codes.ResponderFailed, codes.QPMoved, codes.EngineStops}

// one returns the reason of the only completion of a queue.
func (c *poller) reason(s cqe.Syndrome) *reason.Reason {
	c.h.Helper()
	w := c.one()
	require.Equal(c.h, s, w.Syndrome)
	r, overrun := c.h.reasonOf(w)
	require.False(c.h, overrun)
	require.NotNil(c.h, r)
	return r
}

// everywhere runs a test within one shard, between two, and over links: a cable and a pool.
func everywhere(t *testing.T, f func(t *testing.T, s *scene)) {
	t.Run("one shard", func(t *testing.T) { f(t, newScene(t, Config{})) })
	t.Run("two shards", func(t *testing.T) {
		r := newShards(t, Config{})
		a, b := r.host("a"), r.host("b")
		p, q := pair(a, b)
		f(t, &scene{rig: r, p: p, q: q, local: a.full(256, 1), far: b.full(256, 7)})
	})
	for name, link := range map[string]func(r *rig) *cable{
		"cable": func(r *rig) *cable { return r.newCable(nic.PortConfig{MTU: 256, Jumbo: true}, nil) },
		"pool":  func(r *rig) *cable { return r.newPool(pool.Config{MTU: 1024}) },
	} {
		t.Run(name, func(t *testing.T) {
			overCable = link
			defer func() { overCable = nil }()
			f(t, newScene(t, Config{}))
		})
	}
}

// The completion of a WRITE with an rkey that lacks the right carries the reason, with the WQE. The WQEs
// after it carry the same reason as their cause. The peer's receives are flushed, and say why.
func TestCompletionsCarryReasons(t *testing.T) {
	everywhere(t, func(t *testing.T, s *scene) {
		k := s.q.h.key(256, control.AccessLocalWrite|control.AccessRemoteRead)
		s.q.recv(s.far.data(0, 64))
		bad := s.p.write(ctrl(wqe.OpRDMAWrite), k.raddr(0), s.local.data(0, 8))
		later := []uint16{s.p.write(ctrl(wqe.OpRDMAWrite), s.far.raddr(0), s.local.data(0, 8)),
			s.p.write(ctrl(wqe.OpSend), s.local.data(0, 8))}
		s.p.ring()
		s.settle()

		list := s.p.scq.all()
		require.Len(t, list, 3)
		first, overrun := s.p.h.reasonOf(list[0])
		require.False(t, overrun)
		require.Equal(t, cqe.RemoteAccess, cqe.Syndrome(first.Syndrome))
		require.Equal(t, reason.Place{Queue: s.p.num, Index: bad}, first.Place)
		require.Equal(t, s.p.sq[:64], first.WQE)
		if s.p.q.Wire == nil {
			require.Equal(t, codes.KeyRefused.String(), first.Code)
		} else {
			require.Equal(t, codes.LinkRefused.String(), first.Code)
		}
		for i, w := range list[1:] {
			s.failed(w, cqe.Flush, later[i])
			r, _ := s.p.h.reasonOf(w)
			require.Equal(t, first, r, "a flush has the reason of its cause")
		}

		r := s.q.rcq.reason(cqe.Flush)
		require.Equal(t, codes.KeyAccess.String(), r.Code)
		require.Contains(t, r.Text, "gives local write+remote read, remote write is needed")
		require.Zero(t, r.Syndrome, "it is no completion's own")
	})
}

// Within one client both sides get the whole reason.
func TestReasonsWithinOneClient(t *testing.T) {
	r := newRig(t, Config{})
	h := r.host("both")
	p, q := pair(h, h)
	k := h.key(64, control.AccessRemoteRead)
	local := h.full(64, 1)
	q.recv(local.data(0, 8))
	p.post(ctrl(wqe.OpRDMAWrite), k.raddr(0), local.data(0, 8))
	r.settle()
	own := p.scq.reason(cqe.RemoteAccess)
	require.Equal(t, codes.KeyAccess.String(), own.Code)
	require.Contains(t, own.Text, "gives remote read, remote write is needed")
	flush := q.rcq.reason(cqe.Flush)
	require.Equal(t, own.Text, flush.Text)
	require.Equal(t, reason.Place{Queue: p.num, Index: 0}, flush.Cause)
}

// A message that is longer than its receive fails on both sides. The receiver's client learns why; another
// client learns only that.
func TestReceiverIsAtFault(t *testing.T) {
	for _, same := range []bool{false, true} {
		r := newRig(t, Config{})
		a := r.host("a")
		b := a
		if !same {
			b = r.host("b")
		}
		p, q := pair(a, b)
		from, to := a.full(64, 1), b.full(64, 1)
		q.recv(to.data(0, 8))
		p.post(ctrl(wqe.OpSend), from.data(0, 64))
		r.settle()
		theirs := q.rcq.reason(cqe.LocalLength)
		require.Equal(t, codes.ReceiveShort.String(), theirs.Code)
		require.Equal(t, []any{uint8(reason.OfReceive), cqe.LocalLength}, []any{theirs.Of, cqe.Syndrome(theirs.Syndrome)})
		own := p.scq.reason(cqe.RemoteInvalidRequest)
		if same {
			require.Equal(t, []any{theirs.Code, theirs.Text, theirs.Place, theirs.Number}, []any{own.Code, own.Text, own.Cause, own.CauseOf})
		} else {
			require.Equal(t, codes.ResponderFailed.String(), own.Code)
			require.NotContains(t, own.Text, "8 bytes")
		}
	}
}

// Faults that come one after another are all explained: in the completions, whatever their number, and in
// events, too: those of completions are never held back.
func TestFaultsOneAfterAnother(t *testing.T) {
	for _, n := range []int{4, 200} {
		c, _ := logged()
		s := newScene(t, c)
		holdClock(s.e)
		heard := s.p.h.events()
		told, unsaid := 0, uint32(0)
		for i := range n {
			s.p.post(ctrl(wqe.OpRDMAWrite), wqe.Raddr{RKey: uint32(i)<<8 | 0xfe000001}, s.local.data(0, 8))
			s.settle()
			require.Contains(t, s.p.scq.reason(cqe.RemoteAccess).Text, fmt.Sprintf("rkey %#08x does not give", uint32(i)<<8|0xfe000001))
			for ev := heard(); ev != nil; ev = heard() {
				told++
				unsaid += ev.Suppressed
			}
			s.p.reset(s.q)
			s.q.reset(s.p)
			s.e.Hooks.HeldClock += clock.Cycles(20 * time.Millisecond)
		}
		require.Equal(t, n, told, "a completion's own reason is never held back")
		require.Zero(t, s.p.h.c.Count[control.CounterSuppressed])
		require.Zero(t, unsaid)
	}
}

// Explanations that no completion carries are limited: a burst, then ten a second.
func TestBurstOfExplanations(t *testing.T) {
	c, _ := logged()
	s := newScene(t, c)
	holdClock(s.e)
	heard := s.p.h.events()
	count := func() (told int, unsaid uint32) {
		for ev := heard(); ev != nil; ev = heard() {
			told++
			unsaid += ev.Suppressed
		}
		return told, unsaid
	}
	for range 200 {
		s.e.ExplainQueue(s.p.q, codes.DSZero, "again")
	}
	told, unsaid := count()
	require.Equal(t, 32, told)
	require.Zero(t, unsaid)
	require.Equal(t, uint64(168), s.p.h.c.Count[control.CounterSuppressed])
	s.e.Hooks.HeldClock += clock.Cycles(250 * time.Millisecond)
	for range 9 {
		s.e.ExplainQueue(s.p.q, codes.DSZero, "again")
	}
	told, unsaid = count()
	require.Equal(t, 2, told)
	require.Equal(t, uint32(168), unsaid)
	require.Equal(t, uint64(175), s.p.h.c.Count[control.CounterSuppressed])
}

// A poller that comes too late learns that the ring has overrun. The newest reasons are there.
func TestReasonsOverrun(t *testing.T) {
	r := newRig(t, Config{})
	roomy(t)
	h := r.host("late")
	peer := r.host("peer")
	local := h.full(8, 1)
	var ends []*end
	for range reason.Entries + 3 {
		p, _ := pair(h, peer)
		ends = append(ends, p)
		p.post(ctrl(wqe.OpRDMAWrite), wqe.Raddr{RKey: 0xdead}, local.data(0, 8))
		r.settle()
	}
	for i, p := range ends {
		found, overrun := h.reasonOf(p.scq.one())
		require.Equal(t, i < 3, overrun, "fault %d", i)
		require.Equal(t, i >= 3, found != nil, "fault %d", i)
	}
}

// Queue pairs that are stopped say so in what they flush.
func TestReasonsOfStops(t *testing.T) {
	s := newScene(t, Config{})
	s.p.recv(s.local.data(0, 8))
	s.p.toState(control.StateERR)
	s.settle()
	r := s.p.rcq.reason(cqe.Flush)
	require.Equal(t, codes.QPMoved.String(), r.Code)
	require.Contains(t, r.Text, "from RTS to ERR")

	s.q.recv(s.far.data(0, 8))
	s.stopped()
	require.Equal(t, codes.EngineStops.String(), s.q.rcq.reason(cqe.Flush).Code)
}

// The reason is in the ring before the CQE is written: also if the store of the CQE then faults.
func TestReasonComesBeforeTheCQE(t *testing.T) {
	for name, receive := range map[string]bool{"WQE": false, "receive": true} {
		r := newRig(t, Config{})
		a, b := r.host("a"), r.host("b")
		_, base, shrink := a.trusted(1 << 16)
		m := control.CQ{LogSize: 4, LogCQE: 6, Buf: base}
		_, m.DBRec = a.take(8)
		var cq control.CQN
		a.call(control.OpCreateCQ, &m, &cq)
		p := a.qp(control.QP{Type: control.QPTypeRC, LogSQ: 4, LogRQ: 4, LogRQStride: 4}, &poller{h: a, num: cq.CQN},
			&poller{h: a, num: cq.CQN})
		q := b.qp(control.QP{Type: control.QPTypeRC, LogSQ: 4, LogRQ: 4, LogRQStride: 4}, b.cq(control.CQ{LogSize: 4}),
			b.cq(control.CQ{LogSize: 4}))
		p.up(q)
		q.up(p)
		shrink(0)
		want := reason.Place{Queue: p.num}
		if receive {
			want.Of = reason.OfReceive
			p.recv(wqe.Data{ByteCount: 8, LKey: 0xdead})
			q.post(ctrl(wqe.OpSend), b.full(8, 1).data(0, 8))
		} else {
			p.post(ctrl(0x7f))
		}
		func() {
			defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
			for range 4 {
				r.e.Steps(false)
			}
		}()
		// The first entry is the completion's. One for the fault of the CQ's memory follows.
		first := a.c.Status.Bytes()[control.StatusSize:]
		require.Equal(t, want.Queue, binary.LittleEndian.Uint32(first[8:]), name)
		require.Equal(t, want.Of, first[14], name)
		require.NotZero(t, first[31], "%s: it is the reason of the completion, not of the fault", name)
	}
}

// A queue pair whose other completion queue has overrun says so.
func TestReasonOfAnOverrunCQ(t *testing.T) {
	r := newRig(t, Config{})
	a, b := r.host("a"), r.host("b")
	small, large := a.cq(control.CQ{LogSize: 0}), a.cq(control.CQ{LogSize: 6})
	p := a.qp(control.QP{Type: control.QPTypeRC, LogSQ: 4, LogRQ: 4, LogRQStride: 4}, small, large)
	_, q := pair(a, b)
	p.up(q)
	q.toState(control.StateRST)
	q.up(p)
	p.recv()
	p.write(ctrl(wqe.OpNop))
	p.post(ctrl(wqe.OpNop))
	r.settle()
	why := large.reason(cqe.Flush)
	require.Equal(t, codes.CQOverrun.String(), why.Code)
	require.Equal(t, small.num, why.Cause.Queue)
	require.Equal(t, uint8(reason.OfCompletion), why.Cause.Of)
}

// A client that errs all the time writes one reason for each queue pair that it has brought up again, and
// nothing for datagrams that are lost and for WQEs that are flushed.
func TestHostileClientWritesFewReasons(t *testing.T) {
	s := newScene(t, Config{})
	u, _ := s.transport(control.QPTypeUD)
	ring := reason.NewRing(u.h.c.Status.Bytes())
	for range 50 {
		u.post(ctrl(wqe.OpSend), s.idle.to(), s.local.data(0, 8)) // nobody
		s.settle()
	}
	u.scq.all()
	require.Zero(t, ring.Last())
	for range 10 {
		for range 8 {
			s.p.write(ctrl(0x7f))
		}
		s.p.ring()
		s.settle()
		require.Len(t, s.p.scq.all(), 8)
		s.p.reset(s.q)
		s.q.reset(s.p)
	}
	require.Equal(t, uint64(10), ring.Last())
}

// While one stream of a DCI has failed, the fault is the cause of all its flushes, which write nothing. When
// several have, each flush says itself of which stream it is.
func TestReasonsOfStreams(t *testing.T) {
	r := newRig(t, Config{})
	a, b := r.host("a"), r.host("b")
	p, d := a.dci(2), b.dct()
	local, far := a.full(64, 1), b.full(64, 7)
	ring := reason.NewRing(a.c.Status.Bytes())
	post := func(stream uint16, good bool) *reason.Reason {
		data := local.data(0, 8)
		if !good {
			data.LKey ^= 1
		}
		p.post(wqe.Ctrl{Opcode: wqe.OpRDMAWrite, Flags: wqe.CEAlways, Stream: stream}, d.at(), far.raddr(0), data)
		r.settle()
		found, _ := a.reasonOf(p.scq.one())
		return found
	}
	first := post(1, false)
	require.Equal(t, codes.KeyStale.String(), first.Code)
	require.Equal(t, first, post(1, true))
	require.Equal(t, uint64(1), ring.Last())
	second := post(2, false)
	require.Equal(t, codes.KeyStale.String(), second.Code)
	for _, stream := range []uint16{1, 2} {
		flush := post(stream, true)
		require.Equal(t, codes.DCStream.String(), flush.Code)
		require.Contains(t, flush.Text, fmt.Sprintf("stream %d of this DCI has failed", stream))
	}
	require.Equal(t, uint64(4), ring.Last())

	holdClock(r.e)
	told, heard := 0, a.events()
	for range 100 {
		post(1, true)
		for ev := heard(); ev != nil; ev = heard() {
			told++
		}
	}
	require.LessOrEqual(t, told, 32)
}

// No explanation has more values than the thread remembers.
func TestExplanationsHaveRoomForTheirValues(t *testing.T) {
	values := regexp.MustCompile(`%[^%]`)
	call := regexp.MustCompile(`(?:Explain\w*|Because|StopsBecause|Remember)\(.*?"(.*)"`)
	files, err := filepath.Glob("internal/*/*.go")
	require.NoError(t, err)
	found := 0
	for _, f := range files {
		b, err := os.ReadFile(f)
		require.NoError(t, err)
		for _, m := range call.FindAllStringSubmatch(string(b), -1) {
			found++
			require.LessOrEqual(t, len(values.FindAllString(m[1], -1)), report.MostArgs-1, "%s: %s", f, m[1])
		}
	}
	require.Greater(t, found, 60)
}
