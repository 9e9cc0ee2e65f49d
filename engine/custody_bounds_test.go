//go:build linux && (amd64 || arm64)

package engine

import (
	"slices"
	"strings"
	"testing"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/custody"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/trace"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// watchEverything is what a watch for the sanitizer asks for.
var watchEverything = control.Watch{All: control.WatchAll | control.WatchReplay | control.WatchSanitize}

// A watch sees what its own user's queue pair does, and of the peer, which belongs to another user, neither
// the receives nor what has changed there, although a watch of the engine's user watches both.
func TestSanitizerKeepsPeersOfOtherUsersApart(t *testing.T) {
	if *watched {
		t.Skip("all queues are watched by one more")
	}
	s := newScene(t, Config{})
	const alice, bob = 100_001, 100_002
	s.p.h.c.UID, s.q.h.c.UID = alice, bob
	users, err := s.d.nic().NewHosted("h", alice, nic.Hosted{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = users.Close() })
	own := (&host{rig: s.rig, c: users}).watch(watchEverything)
	all := s.host("watcher").watch(watchEverything)
	s.pass(0)
	s.q.recv(s.far.data(0, 16))
	s.p.post(ctrl(wqe.OpSend), s.local.data(0, 10))
	s.settle()
	s.far.mem[3]++
	s.q.rq[3]-- // the entry of the receive: a byte less
	s.release()
	of := func(events []trace.Event) (s string) {
		for _, e := range events {
			if e.Kind == trace.KindPosted || e.Kind == trace.KindChanged {
				s += e.Kind.String() + " "
			}
		}
		return s
	}
	require.Equal(t, "posted changed changed ", of(all()))
	require.Empty(t, of(own()), "what is another user's")
}

// More receives than are compared, each longer than a visit may read, do not keep a queue pair from sending.
func TestSanitizerSendsBesideManyReceives(t *testing.T) {
	for name, receiver := range map[string]func(p, q *end) *end{
		"of its own":  func(p, _ *end) *end { return p },
		"of its peer": func(_, q *end) *end { return q },
	} {
		t.Run(name, func(t *testing.T) {
			s := &scene{rig: newRig(t, Config{Slice: 64})}
			a, b := s.host("a"), s.host("b")
			c := a.cq(control.CQ{LogSize: 4})
			d := b.cq(control.CQ{LogSize: 4})
			s.p = a.qp(control.QP{LogRQ: 11, LogRQStride: 4}, c, c)
			s.q = b.qp(control.QP{LogRQ: 11, LogRQStride: 4}, d, d)
			connect(s.p, s.q)
			s.local, s.far = a.full(128, 1), b.full(128, 2)
			s.sanitize()
			x := receiver(s.p, s.q)
			buffer := x.h.full(128, 3)
			for range 1 << 11 {
				x.recv(buffer.data(0, 128))
			}
			for _, budget := range []int{0, 64} { // with no limit, as many are found as are compared
				s.e.Custody.Budget = budget
				s.put()
				s.release()
				require.Equal(t, cqe.StatusSuccess, s.p.scq.one().Status)
			}
		})
	}
}

// Memory in many parts costs more than its bytes: a visit that finds WQEs that send a list of pieces of 4
// bytes ends when it has used up its budget.
func TestSanitizerCountsParts(t *testing.T) {
	s := newScene(t, Config{Slice: 4096})
	read := s.host("watcher").watch(watchEverything)
	s.pass(0)
	h := s.p.h
	list := h.mkey(object.MaxListEntries)
	const each = 4
	m := nic.ListKey{Start: 0x5000, Length: each * object.MaxListEntries, Access: control.AccessLocalWrite}
	for i := range uint64(object.MaxListEntries) {
		m.Entries = append(m.Entries, nic.ListEntry{Key: s.local.key, Addr: s.local.addr + i*each, N: each})
	}
	require.NoError(t, h.c.CompleteList(list, m))
	const posted = 12
	for range posted {
		s.p.write(ctrl(wqe.OpRDMAWrite), s.far.raddr(0), wqe.Data{ByteCount: each, LKey: list, Addr: m.Start})
	}
	read()
	s.p.ring()
	s.settle()
	found := 0
	for _, e := range read() {
		if e.Kind == trace.KindFetch {
			found++
		}
	}
	require.Equal(t, 2, found, "WQEs of %d: 52 entries are checked for each, which count as 64 bytes", posted)
	for range posted {
		s.release()
	}
	require.Len(t, s.p.scq.all(), posted)
}

// Memory in more than 1024 parts is not compared, because that would hold up everybody else.
func TestSanitizerComparesFewParts(t *testing.T) {
	for _, n := range []uint32{1024, 1025} {
		s := newScene(t, Config{})
		src, dst := s.p.h.full(2048, 1), s.q.h.full(2048, 2)
		list := s.p.h.mkey(1)
		one := wqe.RepeatEntry{ByteCount: 1, Stride: 1, MKey: src.key, Addr: src.addr}
		s.p.post(umr(list), interleaved(list, mkeyAll, int(n), n, one)...)
		s.settle()
		s.p.good()
		read := s.sanitize()
		s.p.post(ctrl(wqe.OpRDMAWrite), dst.raddr(0), wqe.Data{ByteCount: n, LKey: list})
		s.settle()
		src.mem[1]++
		s.release()
		s.p.good()
		require.Equal(t, src.mem[:n], dst.mem[:n])
		require.Equal(t, n == 1024, strings.Contains(kindsOf(read()), "changed"))
	}
}

// A watch that begins later sees the receives that are there, too, and what is changed from then on, although
// another one has seen them before.
func TestSanitizerBeginsAnewForEachWatch(t *testing.T) {
	s := newScene(t, Config{})
	first := s.sanitize()
	s.q.recv(s.far.data(0, 16))
	s.put()
	s.release()
	s.p.good()
	require.Equal(t, "posted ", kindsOf(first()))
	second := s.sanitize()
	s.p.post(ctrl(wqe.OpSend), s.local.data(0, 16))
	s.settle()
	s.far.mem[3]++
	s.release()
	s.p.good()
	require.Equal(t, "polled posted changed ", kindsOf(second()))
	require.Equal(t, "polled posted changed ", kindsOf(first()))
}

// An orderly stop executes what is held, and does not flush it.
func TestSanitizerHoldsNothingWhenTheEngineStops(t *testing.T) {
	s := newScene(t, Config{})
	s.sanitize()
	s.put()
	s.settle()
	s.p.scq.none() // it is held
	s.put()
	s.stopped()
	list := s.p.scq.all()
	require.Len(t, list, 2)
	for _, w := range list {
		require.Equal(t, unharmed, w.Syndrome)
	}
}

// A pass that holds a WQE back says when it is released: the engine sleeps no longer than that.
func TestSanitizerWakesTheEngineForWhatIsHeld(t *testing.T) {
	s := newScene(t, Config{})
	c := s.p.h.cq(control.CQ{LogSize: 6})
	for range 100 { // more than the visits that come before the pass
		p := s.p.h.qp(control.QP{NoReceive: 1}, c, c)
		p.up(p)
	}
	s.sanitize()
	s.settle()
	for _, q := range s.p.h.c.QPs {
		s.e.MarkWarm(q)
	}
	warm := &s.p.h.c.Sched
	warm.Next = slices.Index(warm.Warm, s.p.q) + 1 // the visits begin with the queue after it
	s.put()
	done, next := visitEverything(s.e, true)
	require.Zero(t, done)
	require.Equal(t, object.Kept, s.p.q.Stall.Kind)
	require.LessOrEqual(t, next, clock.Cycles(custody.HoldTime))
}
