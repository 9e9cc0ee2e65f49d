//go:build linux && (amd64 || arm64)

package engine

import (
	"testing"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/custody"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/trace"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// sanitize watches everything for the sanitizer, and returns a function that reads the events of kinds that
// only it needs, and the fetches.
func (s *scene) sanitize() func() []trace.Event {
	s.Helper()
	read := s.host("watcher").watch(control.Watch{All: control.WatchAll | control.WatchReplay | control.WatchSanitize})
	s.pass(0)
	read()
	return func() (found []trace.Event) {
		for _, e := range read() {
			switch e.Kind {
			case trace.KindPosted, trace.KindPolled, trace.KindChanged:
				found = append(found, e)
			}
		}
		return found
	}
}

// release lets the time pass for which WQEs are held back, and what they wait for besides.
func (s *scene) release() {
	s.settle()
	s.pass(2 * custody.HoldTime)
	s.settle()
}

// A send buffer that is changed between the doorbell and the completion is noticed, everywhere; one that is
// changed before or after that is not.
func TestSanitizerSeesChangedSource(t *testing.T) {
	everywhere(t, func(t *testing.T, s *scene) {
		read := s.sanitize()
		s.local.mem[3] = 1
		index := s.put()
		s.settle()
		s.p.scq.none() // the WQE is held
		s.local.mem[3] = 2
		s.release()
		require.Equal(t, cqe.StatusSuccess, s.p.scq.one().Status)
		all := read()
		require.Equal(t, "changed ", kindsOf(all))
		e := all[0]
		require.Equal(t, []uint64{uint64(s.p.num), uint64(index), uint64(trace.ChangedSource), 0},
			[]uint64{uint64(e.Queue), uint64(e.Index), uint64(e.Count), e.Value})
		c, err := trace.ParseChange(e.Data)
		require.NoError(t, err)
		now := trace.Checksum(s.local.mem[:8])
		s.local.mem[3] = 1
		require.Equal(t, trace.Change{Addr: s.local.addr, Length: 8, Key: s.local.key, Was: trace.Checksum(s.local.mem[:8]), Is: now}, c)

		s.put()
		s.release()
		s.local.mem[3] = 9
		require.Equal(t, cqe.StatusSuccess, s.p.scq.one().Status)
		s.put()
		s.release()
		require.Equal(t, cqe.StatusSuccess, s.p.scq.one().Status)
		for _, e := range read() {
			require.Equal(t, trace.KindPolled, e.Kind)
		}
	})
}

// The bytes of an unsignaled WQE belong to the device until a later one completes.
func TestSanitizerKeepsUnsignaledSources(t *testing.T) {
	everywhere(t, func(t *testing.T, s *scene) {
		read := s.sanitize()
		index := s.p.post(silent(wqe.OpRDMAWrite), s.far.raddr(0), s.local.data(0, 8))
		s.release()
		s.local.mem[0]++
		s.p.post(ctrl(wqe.OpRDMAWrite), s.far.raddr(8), s.local.data(8, 8))
		s.release()
		s.p.scq.one()
		all := read()
		require.Equal(t, "changed ", kindsOf(all))
		require.Equal(t, index, all[0].Index)
		s.local.mem[0]++
		s.put()
		s.release()
		s.p.scq.one()
		require.Equal(t, "polled ", kindsOf(read()), "it was completed")
	})
}

// A WQE whose slot is written again before it is completed is noticed, with the block, and what was written
// is executed: the device has read it when it executes it.
func TestSanitizerSeesRewrittenWQE(t *testing.T) {
	everywhere(t, func(t *testing.T, s *scene) {
		read := s.sanitize()
		index := s.put()
		s.settle()
		slot := s.p.sq[int(index)*64%len(s.p.sq):][:64]
		was := [64]byte(slot)
		slot[15]++ // the immediate, which a WRITE does not use
		s.release()
		require.Equal(t, cqe.StatusSuccess, s.p.scq.one().Status)
		all := read()
		require.Equal(t, "changed ", kindsOf(all))
		require.Equal(t, []uint64{uint64(s.p.num), uint64(index), uint64(trace.ChangedWQE), 0},
			[]uint64{uint64(all[0].Queue), uint64(all[0].Index), uint64(all[0].Count), all[0].Value})
		require.Equal(t, append(was[:], slot...), all[0].Data)
	})
}

// Receives, their entries and their buffers belong to the device until a message has taken them.
func TestSanitizerSeesChangedReceives(t *testing.T) {
	s := newScene(t, Config{})
	read := s.sanitize()
	s.q.recv(s.far.data(0, 16), s.far.data(32, 16))
	s.p.post(ctrl(wqe.OpRDMAWrite), s.far.raddr(128), s.local.data(0, 8))
	s.release()
	require.Equal(t, "posted ", kindsOf(read()))
	s.p.post(ctrl(wqe.OpSend), s.local.data(0, 20))
	s.settle()
	s.far.mem[33]++
	s.release()
	all := read()
	require.Equal(t, "changed ", kindsOf(all))
	require.Equal(t, []uint64{uint64(s.q.num), 0, uint64(trace.ChangedBuffer), 1},
		[]uint64{uint64(all[0].Queue), uint64(all[0].Index), uint64(all[0].Count), all[0].Value})
	require.Len(t, s.q.rcq.all(), 1)
	s.far.mem[33]++

	s.q.recv(s.far.data(0, 16))
	s.p.post(ctrl(wqe.OpSend), s.local.data(0, 10))
	s.settle()
	s.q.rq[int(s.q.received-1)*s.q.stride+3]-- // a byte less
	s.release()
	all = read()
	require.Equal(t, "posted changed ", kindsOf(all))
	require.Equal(t, uint64(trace.ChangedEntry), uint64(all[1].Count))
	require.Len(t, s.q.rcq.all(), 1)
}

// A WQE that waits for a receive for long is compared again when it goes on.
func TestSanitizerComparesAfterAWait(t *testing.T) {
	s := newScene(t, Config{})
	read := s.sanitize()
	index := s.p.post(ctrl(wqe.OpSend), s.local.data(0, 8))
	s.release()
	s.local.mem[7]++
	s.q.recv(s.far.data(0, 8))
	s.release()
	s.p.good()
	all := read()
	require.Equal(t, "changed ", kindsOf(all))
	require.Equal(t, index, all[0].Index)
}

// Bytes of a key of another protection domain are not read, nor those of memory that is gone, nor beyond a
// key.
func TestSanitizerReadsOwnMemoryOnly(t *testing.T) {
	for name, data := range map[string]func(s *scene) wqe.Data{
		"another client's": func(s *scene) wqe.Data { return s.far.data(0, 8) },
		"beyond the key":   func(s *scene) wqe.Data { return s.local.data(250, 8) },
		"no key":           func(s *scene) wqe.Data { return wqe.Data{ByteCount: 8, LKey: 0x77, Addr: s.local.addr} },
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, Config{})
			read := s.sanitize()
			d := data(s)
			s.p.post(ctrl(wqe.OpRDMAWrite), s.far.raddr(64), d)
			s.settle()
			s.far.mem[0]++
			s.local.mem[252]++
			s.release()
			require.NotEqual(t, cqe.StatusSuccess, s.p.scq.one().Status)
			require.Empty(t, read())
		})
	}
}

// A queue pair that is reset while its WQEs are held begins anew.
func TestSanitizerForgetsAtAReset(t *testing.T) {
	s := newScene(t, Config{})
	read := s.sanitize()
	for range 5 {
		s.put()
	}
	s.settle()
	s.p.toState(control.StateRST)
	s.p.sent = 0
	s.p.ring()
	s.local.mem[0]++
	s.p.up(s.q)
	s.q.toState(control.StateRST)
	s.q.up(s.p)
	s.put()
	s.release()
	s.p.good()
	require.Empty(t, read())
}

// Receives of a shared receive queue belong to the device, too, until messages take them in the order of
// their links, whichever queue pair these are for.
func TestSanitizerSeesChangedSharedReceives(t *testing.T) {
	x := newShared(t, Config{}, control.SRQ{})
	s := &scene{rig: x.rig}
	next := s.sanitize()
	read := func() (found []trace.Event) {
		for _, e := range next() {
			if e.Kind != trace.KindPolled {
				found = append(found, e)
			}
		}
		return found
	}
	sendWhile := func(i int, change func()) {
		x.from[i].post(ctrl(wqe.OpSend), []byte{1})
		s.settle()
		change()
		s.release()
		x.from[i].good()
		x.c.one()
	}
	of := func(e trace.Event) []uint64 {
		return []uint64{uint64(e.Queue), uint64(e.Index), uint64(e.Count), e.Value}
	}
	num := uint64(x.s.num)
	x.fill()
	x.s.link(0, 5)
	x.s.post(3)
	sendWhile(0, func() { x.box.mem[5*256+9]++ })
	all := read()
	require.Equal(t, "posted posted posted changed ", kindsOf(all))
	for i, index := range []uint64{0, 5, 6} {
		require.Equal(t, []uint64{num, index, 1, uint64(x.s.s.Client.Number)}, of(all[i]))
		require.Equal(t, x.s.ring[int(index)*x.s.stride:][:x.s.stride], all[i].Data)
	}
	require.Equal(t, []uint64{num, 5, uint64(trace.ChangedSharedBuffer), 0}, of(all[3]))

	x.box.mem[0]++ // a message has taken it
	sendWhile(1, func() { x.s.link(6, 2) })
	all = read()
	require.Equal(t, "changed ", kindsOf(all))
	require.Equal(t, []uint64{num, 6, uint64(trace.ChangedSharedEntry), 0}, of(all[0]))

	x.s.post(1)
	sendWhile(0, func() {})
	sendWhile(1, func() {})
	all = read()
	require.Equal(t, "posted ", kindsOf(all), "the entry after the new link")
	require.Equal(t, []uint64{num, 2}, of(all[0])[:2])
	for _, e := range x.to {
		x.s.h.call(control.OpDestroyQP, &control.QPN{QPN: e.num}, &control.Empty{})
	}
	require.Empty(t, read())
}

// The device records how far completions were taken when their queue is destroyed, and before that when a
// queue pair is destroyed: its completions are then removed.
func TestSanitizerSeesTheEndOfACompletionQueue(t *testing.T) {
	s := newScene(t, Config{})
	a := s.host("c")
	c := a.cq(control.CQ{LogSize: 4})
	p, q := a.qp(control.QP{}, c, c), a.qp(control.QP{}, c, c)
	connect(p, q)
	read := s.sanitize()
	k := a.full(64, 1)
	p.post(ctrl(wqe.OpRDMAWrite), k.raddr(8), k.data(0, 8))
	s.release()
	for _, e := range []*end{p, q} {
		a.call(control.OpDestroyQP, &control.QPN{QPN: e.num}, &control.Empty{})
	}
	_, _, ok := c.next()
	require.True(t, ok)
	a.call(control.OpDestroyCQ, &control.CQN{CQN: c.num}, &control.Empty{})
	all := read()
	require.Equal(t, "polled polled polled ", kindsOf(all))
	for i, taken := range []uint64{0, 0, 1} {
		require.Equal(t, []uint64{uint64(c.num), taken}, []uint64{uint64(all[i].Queue), all[i].Value})
	}
}

// A DCT has no completion queue for sends, so nothing is recorded of that when it is destroyed.
func TestSanitizerSeesTheEndOfADCT(t *testing.T) {
	s := newScene(t, Config{})
	d := s.q.h.dct()
	read := s.sanitize()
	s.q.h.call(control.OpDestroyQP, &control.QPN{QPN: d.num}, &control.Empty{})
	all := read()
	require.Equal(t, "polled ", kindsOf(all))
	require.Equal(t, d.cq.num, all[0].Queue)
}

// How far a program has taken completions is recorded before what it posts then.
func TestSanitizerSeesPolledCompletions(t *testing.T) {
	everywhere(t, func(t *testing.T, s *scene) {
		read := s.sanitize()
		for range 3 {
			s.put()
		}
		s.release()
		require.Empty(t, read())
		for range 2 {
			_, _, ok := s.p.scq.next()
			require.True(t, ok)
		}
		s.put()
		s.release()
		all := read()
		require.Equal(t, "polled ", kindsOf(all))
		require.Equal(t, []uint64{uint64(s.p.scq.num), 2, 2}, []uint64{uint64(all[0].Queue), uint64(all[0].Index), all[0].Value})
	})
}
