package engine

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// compressed returns a queue pair p, whose sends complete in a compressed CQ of 2^log
// entries, and its peer q, whose receives complete in another such CQ. Their rings have 256
// entries, and one visit can execute all of them.
func compressed(t testing.TB, log uint8) (r *rig, p, q *end) { return compressedIn(t, log, 6) }

// compressedIn is compressed with entries of 2^logCQE bytes.
func compressedIn(t testing.TB, log, logCQE uint8) (r *rig, p, q *end) {
	t.Helper()
	r = newRig(t, Config{Burst: 256, Slice: 1 << 20})
	a, b := r.host("a"), r.host("b")
	m := control.CQ{LogSize: log, LogCQE: logCQE, Flags: control.CQCompressed}
	ca, cb := a.cq(m), b.cq(m)
	p = a.qp(control.QP{LogSQ: 8, LogRQ: 8}, ca, ca)
	q = b.qp(control.QP{LogSQ: 8, LogRQ: 8}, cb, cb)
	connect(p, q)
	return r, p, q
}

// connect connects p with q, and makes p know its peer, so that its first WQE takes the fast
// path already.
func connect(p, q *end) {
	p.up(q)
	if q != p {
		q.up(p)
	}
	p.q.Conn.Peer = p.q.Client.Shard.BoundPeer(p.q)
}

// The bytes of a session of ten, from a layout written by hand: in lap 1 of a ring of 16, the
// title in entry 2, the first array in entry 3, the second in entry 10. The device stores
// nothing else. Entries of 128 bytes have all that in their second half.
func TestSessionBytes(t *testing.T) {
	for _, logCQE := range []uint8{6, 7} {
		t.Run(fmt.Sprint(1<<logCQE), func(t *testing.T) { testSessionBytes(t, logCQE) })
	}
}

func testSessionBytes(t *testing.T, logCQE uint8) {
	r, p, q := compressedIn(t, 4, logCQE)
	c, src, dst := p.scq, p.h.full(64, 1), q.h.full(64, 2)
	for range 18 {
		p.post(ctrl(wqe.OpRDMAWrite), dst.raddr(0), src.data(0, 8))
		r.settle()
		c.one()
	}
	for i := range c.ring {
		c.ring[i] = 0x5a
	}
	for i := range 10 {
		if i == 3 {
			p.write(ctrl(wqe.OpRDMARead), dst.raddr(0), src.data(0, 7))
			continue
		}
		p.write(ctrl(wqe.OpRDMAWrite), dst.raddr(0), src.data(0, 8))
	}
	p.ring()
	r.settle()
	bytes := func(digits string) []byte {
		b, err := hex.DecodeString(strings.NewReplacer(" ", "", "\n", "", "\t", "").Replace(digits))
		require.NoError(t, err)
		return b
	}
	size := 1 << logCQE
	entry := func(slot int) []byte { return c.ring[(slot+1)*size-64:][:64] }
	zero := strings.Repeat("00", 16)
	r.same(bytes(zero+zero+fmt.Sprintf("00000051 00000000 00000000 0000000a  %x", entry(2)[48:56])+
		fmt.Sprintf("08%06x 0012 00 0d", p.num)), entry(2), "title")
	r.same(bytes(`0012 08 00 00000000  0013 08 00 00000000  0014 08 00 00000000  0015 10 00 00000007
		0016 08 00 00000000  0017 08 00 00000000  0018 08 00 00000000  0019 08 00 00000000`), entry(3), "minis 0 to 7")
	r.same(bytes(`001a 08 00 00000000  001b 08 00 00000000`), entry(10)[:16], "minis 8 and 9")
	require.NotZero(t, binary.BigEndian.Uint64(entry(2)[48:]), "time")
	for i, b := range c.ring {
		slot, at := i/size, i%size-(size-64)
		written := slot == 2 || slot == 3 || (slot == 10 && at < 16)
		if at < 0 || !written {
			require.Equal(t, byte(0x5a), b, "byte %d of entry %d", i%size, slot)
		}
	}
	require.EqualValues(t, 28, r.e.CQs[c.num].Next)
	require.EqualValues(t, 28, p.h.c.Count[control.CounterCQEs])
}

// Completions of runs of all lengths arrive, in order, over many laps of rings of all sizes.
// Some of the WQEs are not signaled, and some are READs. A run of one is an ordinary CQE, and
// the other runs are as few sessions as MostMinis and the end of the ring allow.
func TestCompressedRuns(t *testing.T) {
	for _, log := range []uint8{0, 1, 2, 3, 5, 6, 7} {
		t.Run(fmt.Sprintf("%d entries", 1<<log), func(t *testing.T) {
			r, p, q := compressedIn(t, log, 6+log%2)
			c, src, dst := p.scq, p.h.full(256, 1), q.h.full(256, 2)
			for run := 1; run <= 1<<log; run++ {
				var want []uint16
				for i := 0; len(want) < run; i++ {
					op := []wqe.Opcode{wqe.OpRDMAWrite, wqe.OpRDMARead}[i/3%2]
					if i%5 == 1 && run < 128 {
						p.write(silent(op), dst.raddr(i%8), src.data(0, 8))
						continue
					}
					want = append(want, p.write(ctrl(op), dst.raddr(i%8), src.data(0, 1+i%8)))
				}
				p.ring()
				c.sessions = nil
				var sessions []int
				for left, at := run, c.ci; left > 0; {
					n := min(left, object.MostMinis, 1<<log-int(at&(1<<log-1)))
					if n > 1 {
						sessions = append(sessions, n)
					}
					left, at = left-n, at+uint64(n)
				}
				r.settle()
				var got []uint16
				for _, w := range c.all() {
					require.Equal(t, cqe.StatusSuccess, w.Status)
					if w.Opcode == cqe.WCRDMARead {
						require.NotZero(t, w.ByteLen)
					}
					got = append(got, w.Counter)
				}
				require.Equal(t, want, got, "run of %d", run)
				if !*watched { // a visit to a watched queue executes fewer WQEs
					require.Equal(t, sessions, c.sessions, "run of %d", run)
				}
			}
		})
	}
}

// Receives and the SENDs that use them are compressed. A message with another immediate, a
// solicited one and one of another opcode end a session, and a solicited completion is in none.
func TestCompressedReceives(t *testing.T) {
	for i, format := range []uint8{control.MiniHash, control.MiniChecksum, control.MiniChecksumStride, control.MiniChecksumStride} {
		r := newRig(t, Config{})
		a, b := r.host("a"), r.host("b")
		m := control.CQ{LogSize: 6, LogCQE: uint8(6 + i%2), Flags: control.CQCompressed, MiniFormat: format}
		ca, cb := a.cq(m), b.cq(m)
		p, q := a.qp(control.QP{}, ca, ca), b.qp(control.QP{}, cb, cb)
		connect(p, q)
		src, dst := a.full(64, 1), b.full(64, 2)
		send := func(n int, op wqe.Opcode, flags uint8, imm uint32) {
			q.recv(dst.data(0, 64))
			p.write(wqe.Ctrl{Opcode: op, Flags: wqe.CEAlways | flags, Imm: imm}, src.data(0, n))
		}
		for n := range 4 {
			send(1+n, wqe.OpSend, 0, 0)
		}
		send(5, wqe.OpSend, wqe.FlagSolicited, 0)
		send(6, wqe.OpSend, 0, 0)
		send(7, wqe.OpSend, 0, 0)
		send(8, wqe.OpSendImm, 0, 77)
		send(9, wqe.OpSendImm, 0, 77)
		send(10, wqe.OpSendImm, 0, 78)
		send(11, wqe.OpSend, 0, 0)
		p.ring()
		r.settle()
		for i := range uint16(11) {
			w, own, ok := cb.next()
			require.True(t, ok)
			require.Equal(t, i, w.Counter)
			require.EqualValues(t, i+1, w.ByteLen)
			require.Equal(t, i == 4, own.Solicited(), "solicited %d", i)
			require.Equal(t, map[uint16]uint32{7: 77, 8: 77, 9: 78}[i], binary.BigEndian.Uint32(cb.block(cb.ci - 1)[cqe.OffImm:]))
			w, _, ok = ca.next()
			require.True(t, ok)
			require.Equal(t, i, w.Counter)
		}
		require.Equal(t, []int{4, 2, 2}, cb.sessions)
		require.Equal(t, []int{11}, ca.sessions)
		cb.none()
		ca.none()
	}
}

// A session has completions of one queue pair only, and single completions stay ordinary
// ones. Receives that come from an SRQ are not compressed.
func TestCompressedQueuesTogether(t *testing.T) {
	r := newRig(t, Config{})
	a := r.host("a")
	c := a.cq(control.CQ{LogSize: 8, Flags: control.CQCompressed})
	s := a.srq(control.SRQ{})
	one, two, target := a.qp(control.QP{UserIndex: 1}, c, c), a.qp(control.QP{UserIndex: 2}, c, c), s.on(control.QPTypeRC, c)
	connect(one, one)
	connect(two, target)
	src, dst := a.full(64, 1), a.full(64, 2)
	for i := range 8 {
		s.put(uint16(i), dst.data(0, 64))
	}
	s.post(7)
	seen := map[uint32]uint16{}
	for round := range 20 {
		for i := range 3 {
			one.write(ctrl(wqe.OpRDMAWrite), dst.raddr(i), src.data(0, 8))
			two.write(ctrl(wqe.OpRDMAWrite), dst.raddr(i), src.data(0, 8))
		}
		if round == 10 {
			for range 4 {
				two.write(ctrl(wqe.OpSend), src.data(0, 8))
			}
		}
		one.ring()
		two.ring()
		r.settle()
		for _, w := range c.all() {
			require.Equal(t, cqe.StatusSuccess, w.Status)
			if w.UIdx == uidx {
				continue // a receive
			}
			require.Equal(t, seen[w.UIdx], w.Counter, "queue %d", w.UIdx)
			seen[w.UIdx]++
		}
	}
	require.Equal(t, map[uint32]uint16{1: 60, 2: 64}, seen)
	require.Len(t, c.sessions, 40)
	for _, n := range c.sessions {
		require.Equal(t, 3, n)
	}
}

// The completions before a failing WQE come first, in a session. The error and the flushes
// are ordinary CQEs.
func TestCompressedBeforeAnError(t *testing.T) {
	r, p, q := compressed(t, 5)
	src, dst := p.h.full(64, 1), q.h.full(64, 2)
	for i := range 9 {
		n := 8
		if i == 6 {
			n = 65 // past the key
		}
		p.write(ctrl(wqe.OpRDMAWrite), dst.raddr(0), src.data(0, n))
	}
	p.ring()
	r.settle()
	list := p.scq.all()
	require.Len(t, list, 9)
	for i, w := range list[:6] {
		require.Equal(t, []any{cqe.StatusSuccess, uint16(i)}, []any{w.Status, w.Counter})
	}
	r.failed(list[6], cqe.LocalProtection, 6)
	r.failed(list[7], cqe.Flush, 7)
	r.failed(list[8], cqe.Flush, 8)
	require.Equal(t, []int{6}, p.scq.sessions)
}

// Completions that have room are written before a queue overruns. Entries that are not polled are
// not overwritten.
func TestCompressedOverrun(t *testing.T) {
	r, p, q := compressed(t, 3)
	src, dst := p.h.full(64, 1), q.h.full(64, 2)
	for range 3 {
		p.write(ctrl(wqe.OpRDMAWrite), dst.raddr(0), src.data(0, 8))
	}
	p.ring()
	r.settle()
	for range 9 {
		p.write(ctrl(wqe.OpRDMAWrite), dst.raddr(0), src.data(0, 8))
	}
	p.ring()
	r.settle()
	list := p.scq.all()
	require.Len(t, list, 8)
	for i, w := range list {
		require.Equal(t, []any{cqe.StatusSuccess, uint16(i)}, []any{w.Status, w.Counter})
	}
	require.Equal(t, []int{3, 5}, p.scq.sessions)
	require.Equal(t, control.StateERR, p.state())
	require.EqualValues(t, 8, r.e.CQs[p.scq.num].Next)
}

// With ignore_overrun a session is not longer than the ring.
func TestCompressedIgnoresOverrun(t *testing.T) {
	r := newRig(t, Config{})
	a := r.host("a")
	c := a.cq(control.CQ{LogSize: 2, Flags: control.CQCompressed | control.CQIgnoreOverrun})
	p := a.qp(control.QP{}, c, c)
	connect(p, p)
	k := a.full(64, 1)
	for range 12 {
		p.write(ctrl(wqe.OpRDMAWrite), k.raddr(0), k.data(8, 8))
	}
	p.ring()
	r.settle()
	require.EqualValues(t, 12, r.e.CQs[c.num].Next)
	c.ci = 8
	require.Len(t, c.all(), 4)
	require.Equal(t, []int{4}, c.sessions)
}

// An armed queue sends one event for a session, after the session.
func TestCompressedEvent(t *testing.T) {
	r := newRig(t, Config{})
	a := r.host("a")
	ch, _ := a.channel()
	c := a.cq(control.CQ{LogSize: 4, Flags: control.CQCompressed, Channel: ch, Handle: 9})
	p := a.qp(control.QP{}, c, c)
	connect(p, p)
	k := a.full(64, 1)
	for round := range uint32(3) {
		c.arm(round, false)
		r.settle()
		for range 5 {
			p.write(ctrl(wqe.OpRDMAWrite), k.raddr(0), k.data(8, 8))
		}
		p.ring()
		r.settle()
		require.EqualValues(t, round+1, r.e.CQs[c.num].Sent)
		require.Len(t, c.all(), 5)
	}
	require.Equal(t, []int{5, 5, 5}, c.sessions)
}

// A compressed queue is resized with sessions unread.
func TestCompressedResize(t *testing.T) {
	r, p, q := compressed(t, 4)
	c, src, dst := p.scq, p.h.full(64, 1), q.h.full(64, 2)
	next := uint16(0)
	for round := range 12 {
		for range 6 {
			p.write(ctrl(wqe.OpRDMAWrite), dst.raddr(0), src.data(0, 8))
		}
		p.ring()
		r.settle()
		c.resize([]uint8{3, 6, 4}[round%3], 6)
		for _, w := range c.all() {
			require.Equal(t, []any{cqe.StatusSuccess, next}, []any{w.Status, w.Counter})
			next++
		}
	}
	require.EqualValues(t, 72, next)
	require.GreaterOrEqual(t, len(c.sessions), 12)
	err := p.h.try(control.OpResizeCQ, &control.ResizeCQ{CQN: c.num, LogSize: 4, LogCQE: 7, Buf: p.h.base}, &control.Empty{}, nil)
	require.ErrorContains(t, err, "compressed; its entries keep their 2^6 bytes, not 2^7")
}

// If memory without pages ends a run, what was done before is completed.
func TestCompressedBeforeAFault(t *testing.T) {
	r, p, q := compressed(t, 5)
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	_, base, shrink := p.h.trusted(1 << 16)
	bad := p.h.reg(p.h.pd, base, 1<<16, control.AccessLocalWrite)
	shrink(0)
	src, dst := p.h.full(64, 1), q.h.full(64, 2)
	for i := range 5 {
		q.recv(dst.data(0, 64))
		if i == 4 {
			p.write(ctrl(wqe.OpSend), wqe.Data{ByteCount: 64, LKey: bad, Addr: base})
		} else {
			p.write(ctrl(wqe.OpSend), src.data(0, 8))
		}
	}
	p.ring()
	r.e.Steps(false)
	r.e.Steps(false)
	sent := p.scq.all()
	require.Len(t, sent, 5)
	for i, w := range sent[:4] {
		require.Equal(t, []any{cqe.StatusSuccess, uint16(i)}, []any{w.Status, w.Counter})
	}
	r.failed(sent[4], cqe.LocalProtection, 4)
	require.Equal(t, []int{4}, p.scq.sessions)
	received := q.scq.all()
	require.Len(t, received, 4)
	require.Equal(t, []int{4}, q.scq.sessions)
}

// If the CQ itself has no pages, its completions are lost and not counted; the engine lives,
// and the completions of other queues arrive.
func TestCompressedQueueGoesAway(t *testing.T) {
	r := newRig(t, Config{})
	a, b := r.host("a"), r.host("b")
	mem, base, shrink := b.trusted(1 << 16)
	ca := a.cq(control.CQ{LogSize: 5, Flags: control.CQCompressed})
	heap, old, used := b.mem, b.base, b.used
	b.mem, b.base, b.used = mem, base, 0
	cb := b.cq(control.CQ{LogSize: 5, Flags: control.CQCompressed})
	b.mem, b.base, b.used = heap, old, used
	p, q := a.qp(control.QP{}, ca, ca), b.qp(control.QP{}, cb, cb)
	connect(p, q)
	src, dst := a.full(64, 1), b.full(64, 2)
	for range 4 {
		q.recv(dst.data(0, 64))
		p.write(ctrl(wqe.OpSend), src.data(0, 8))
	}
	p.ring()
	shrink(0)
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	r.e.Steps(false)
	r.e.Steps(false)
	require.Zero(t, r.e.CQs[cb.num].Next)
	require.Zero(t, b.c.Count[control.CounterCQEs])
	sent := ca.all()
	require.Len(t, sent, 4)
	for i, w := range sent {
		require.Equal(t, []any{cqe.StatusSuccess, uint16(i)}, []any{w.Status, w.Counter})
	}
	loop := a.qp(control.QP{}, ca, ca)
	connect(loop, loop)
	loop.write(ctrl(wqe.OpRDMAWrite), src.raddr(0), src.data(8, 8))
	loop.write(ctrl(wqe.OpRDMAWrite), src.raddr(0), src.data(8, 8))
	loop.ring()
	r.e.Steps(false)
	require.Len(t, ca.all(), 2)
}

// Requests for impossible kinds of compression are refused in words.
func TestCompressedRefusals(t *testing.T) {
	r := newRig(t, Config{})
	a := r.host("a")
	for _, row := range []struct {
		m    control.CQ
		says string
	}{
		{control.CQ{LogCQE: 6, Flags: control.CQCompressed | control.CQCollapsed | control.CQIgnoreOverrun}, "cannot be collapsed"},
		{control.CQ{LogCQE: 6, Flags: control.CQCompressed, MiniFormat: 2}, "minis of format 2; 0, 1 and 3 are possible"},
		{control.CQ{LogCQE: 6, Flags: control.CQCompressed, MiniFormat: 255}, "minis of format 255"},
		{control.CQ{LogCQE: 6, Flags: 1 << 3}, "unknown flags 0x8"},
	} {
		_, row.m.Buf = a.take(1 << 7)
		_, row.m.DBRec = a.take(8)
		require.ErrorContains(t, a.try(control.OpCreateCQ, &row.m, &control.CQN{}, nil), row.says)
	}
	// Without the flag the field is padding.
	a.cq(control.CQ{MiniFormat: 77})
}

// The session is published by its title: before that a poller sees no part of it. The words
// of the minis are stored before the title.
func TestSessionIsPublishedByItsTitle(t *testing.T) {
	r, p, q := compressed(t, 6)
	src, dst := p.h.full(64, 1), q.h.full(64, 2)
	stop, polled := make(chan struct{}), make(chan []uint16)
	go func() {
		var got []uint16
		defer func() { polled <- got }()
		for {
			w, _, ok := p.scq.next()
			if ok {
				got = append(got, w.Counter)
				continue
			}
			select {
			case <-stop:
				for _, w := range p.scq.all() {
					got = append(got, w.Counter)
				}
				return
			default:
			}
		}
	}()
	var want []uint16
	for i := range rounds(400, 4000) {
		for k := 0; k <= i%20; k++ {
			want = append(want, p.write(ctrl(wqe.OpRDMAWrite), dst.raddr(0), src.data(0, 8)))
		}
		p.ring()
		r.e.Step()
		for c := r.e.CQs[p.scq.num]; c.Next-uint64(shm.BE32At(p.scq.rec, 0).Observe()) > 40; {
			runtime.Gosched()
		}
	}
	r.settle()
	close(stop)
	require.Equal(t, want, <-polled)
	require.NotEmpty(t, p.scq.sessions)
}

// A completion that differs from the title in anything that its mini does not hold is not in
// the same session.
func TestSessionFits(t *testing.T) {
	send := object.RequesterTail(wqe.OpRDMAWrite, 7, 100)
	s := object.Session{N: 3, Rqpn: 1, UIDX: 2, Imm: 3, Time: 4, Tail: send}
	require.True(t, s.Fits(1, 2, 3, 4, send))
	require.True(t, s.Fits(1, 2, 3, 4, object.RequesterTail(wqe.OpRDMARead, 7, 9)), "opcode and counter of a send are in its mini")
	for what, fits := range map[string]bool{
		"source": s.Fits(9, 2, 3, 4, send), "user index": s.Fits(1, 9, 3, 4, send), "immediate": s.Fits(1, 2, 9, 4, send),
		"time": s.Fits(1, 2, 3, 9, send), "queue pair": s.Fits(1, 2, 3, 4, object.RequesterTail(wqe.OpRDMAWrite, 8, 101)),
		"kind": s.Fits(1, 2, 3, 4, object.ResponderTail(7, 103, cqe.RespSend)),
	} {
		require.False(t, fits, what)
	}
	s.Tail = object.ResponderTail(7, 0xfffe, cqe.RespSend)
	require.True(t, s.Fits(1, 2, 3, 4, object.ResponderTail(7, 1, cqe.RespSend)), "the fourth")
	require.False(t, s.Fits(1, 2, 3, 4, object.ResponderTail(7, 2, cqe.RespSend)), "a receive was skipped")
	require.False(t, s.Fits(1, 2, 3, 4, object.ResponderTail(7, 1, cqe.RespSendImm)), "another opcode")
	require.False(t, s.Fits(1, 2, 3, 4, object.ResponderTail(8, 1, cqe.RespSend)), "another queue pair")
}

// If the session of SENDs is full, the receives that they have used are completed before it is
// written.
func TestReceivesAreCompletedBeforeSends(t *testing.T) {
	r := newRig(t, Config{})
	a, b := r.host("a"), r.host("b")
	ca := a.cq(control.CQ{LogSize: 2, Flags: control.CQCompressed | control.CQIgnoreOverrun})
	cb := b.cq(control.CQ{LogSize: 5, Flags: control.CQCompressed})
	p, q := a.qp(control.QP{}, ca, ca), b.qp(control.QP{}, cb, cb)
	connect(p, q)
	sends, receives := p.q.SQ.CQ, q.q.RQ.CQ
	for i := range uint16(5) {
		require.True(t, r.e.Collect(receives, p.num, uidx, 0, 8, object.ResponderTail(q.num, i, cqe.RespSend)))
		require.Zero(t, receives.Next)
		require.Zero(t, sends.Next)
		require.True(t, r.e.CollectSend(p.q, 0, object.RequesterTail(wqe.OpSend, p.num, i)))
	}
	require.EqualValues(t, 5, receives.Next)
	require.EqualValues(t, 4, sends.Next)
}

// A client that sees the completion of a SEND finds the completion of the receive that it has used,
// whichever of the two queues is compressed, for SENDs that are a series and for others.
func TestCompressedSendsAndReceives(t *testing.T) {
	for _, flags := range [][2]uint32{{control.CQCompressed, 0}, {0, control.CQCompressed}, {control.CQCompressed, control.CQCompressed}} {
		t.Run(fmt.Sprintf("%v", flags), func(t *testing.T) {
			r := newRig(t, Config{})
			a, b := r.host("a"), r.host("b")
			ca, cb := a.cq(control.CQ{LogSize: 5, Flags: flags[0]}), b.cq(control.CQ{LogSize: 5, Flags: flags[1]})
			p, q := a.qp(control.QP{}, ca, ca), b.qp(control.QP{}, cb, cb)
			connect(p, q)
			src, dst := a.full(256, 1), b.full(256, 2)
			const each = 9
			rounds := rounds(300, 3000)
			polled := make(chan string, 1)
			go func() {
				for n := uint16(0); int(n) < rounds*each; {
					w, _, ok := ca.next()
					if !ok {
						runtime.Gosched()
						continue
					}
					v, _, ok := cb.next()
					if !ok || w.Counter != n || v.Counter != n {
						polled <- fmt.Sprintf("completion %d: SEND %d, receive %d there: %t", n, w.Counter, v.Counter, ok)
						return
					}
					n++
				}
				polled <- ""
			}()
			for i := range rounds {
				for k := range each {
					n := 8
					if i%2 == 0 {
						n = 20 + k // no series
					}
					q.recv(dst.data(0, 64))
					p.write(ctrl(wqe.OpSend), src.data(0, n))
				}
				p.ring()
				for want := uint32(i+1) * each; shm.BE32At(ca.rec, 0).Observe() != want || shm.BE32At(cb.rec, 0).Observe() != want; {
					r.e.Step()
					select {
					case said := <-polled:
						if i < rounds-1 || said != "" {
							t.Fatal(said)
						}
						polled <- said
					default:
					}
				}
			}
			require.Empty(t, <-polled)
			for i, c := range []*poller{ca, cb} {
				require.Equal(t, flags[i] != 0, len(c.sessions) > 0, "queue %d", i)
			}
		})
	}
}

// A client that sees the completion of a SEND finds the completion of the receive that it has used,
// also if memory without pages has ended the run. Both queues are armed, so the events say which of
// them was written first.
func TestCompressedReceivesBeforeSendsAtAFault(t *testing.T) {
	for _, fault := range []bool{false, true} {
		for _, length := range []int{0, 1} { // 0: the SENDs are a series
			r := newRig(t, Config{})
			a := r.host("a")
			ch, event := a.channel()
			ca := a.cq(control.CQ{LogSize: 5, Flags: control.CQCompressed, Channel: ch, Handle: 1})
			cb := a.cq(control.CQ{LogSize: 5, Flags: control.CQCompressed, Channel: ch, Handle: 2})
			p, q := a.qp(control.QP{}, ca, ca), a.qp(control.QP{}, cb, cb)
			connect(p, q)
			ca.arm(0, false)
			cb.arm(0, false)
			r.settle()
			_, base, shrink := a.trusted(1 << 16)
			bad := a.reg(a.pd, base, 1<<16, control.AccessLocalWrite)
			k := a.full(256, 1)
			for i := range 5 {
				q.recv(k.data(0, 64))
				if i == 4 && fault {
					p.write(ctrl(wqe.OpSend), wqe.Data{ByteCount: 8, LKey: bad, Addr: base})
				} else {
					p.write(ctrl(wqe.OpSend), k.data(64, 8+length*i))
				}
			}
			shrink(0)
			p.ring()
			func() {
				defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
				r.e.Steps(false)
			}()
			for _, want := range []uint64{2, 1} {
				got, ok := event()
				require.True(t, ok)
				require.Equal(t, want, got, "fault %t, length %d", fault, length)
			}
		}
	}
}
