//go:build linux && (amd64 || arm64)

package engine

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/state"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// stateFor returns what a user is answered.
func (r *rig) stateFor(uid uint32, request state.Request) (lines []*state.Line) {
	r.Helper()
	require.NoError(r, r.d.State(uid, &request, func(l *state.Line) error {
		lines = append(lines, l)
		return nil
	}))
	return lines
}

// queueState returns what the device's user sees of one queue pair.
func (r *rig) queueState(number uint32) (q state.Queue) {
	r.Helper()
	n := 0
	for _, l := range r.stateFor(uint32(os.Getuid()), state.Request{}) {
		if l.Queue != nil && l.Queue.Number == number {
			q = *l.Queue
			n++
		}
	}
	require.Equal(r, 1, n, "lines of the queue pair")
	return q
}

// The state of queue pairs has what they did: blocks, WQEs and bytes, what is announced, what is posted, and
// why a WQE waits.
func TestStateOfQueues(t *testing.T) {
	r, p, q := duo(t, Config{})
	src, dst := p.h.full(1000, 1), q.h.full(1000, 0)
	for range 3 {
		p.write(ctrl(wqe.OpRDMAWrite), dst.raddr(0), src.data(0, 100))
	}
	p.ring()
	require.EqualValues(t, 3, r.queueState(p.num).Announced, "before the device has looked")
	r.settle()
	q.recv(dst.data(0, 50))
	q.recv(dst.data(0, 50))
	p.post(ctrl(wqe.OpSend), src.data(0, 50))
	r.settle()

	s := r.queueState(p.num)
	require.Equal(t, state.Queue{Number: p.num, Client: p.h.c.Number, Time: s.Time, Transport: "RC", State: "RTS",
		Peer: q.num, SendCQ: p.scq.num, RecvCQ: p.scq.num, SendSize: uint32(p.q.SQ.Mask + 1), Done: uint64(p.sent),
		WQEs: 4, Bytes: 350, RecvSize: uint32(p.q.RQ.Mask + 1)}, s)
	s = r.queueState(q.num)
	require.EqualValues(t, 1, s.Posted)
	require.EqualValues(t, 1, s.Consumed)
	require.Zero(t, s.WQEs+s.Bytes)

	p.post(ctrl(wqe.OpSend), src.data(0, 50))
	p.post(ctrl(wqe.OpSend), src.data(0, 50))
	for range 4 {
		r.step()
	}
	s = r.queueState(p.num)
	require.Equal(t, "the peer has no receive posted", s.Wait)
	require.NotZero(t, s.Announced)
	q.recv(dst.data(0, 50))
	r.settle()
	require.Empty(t, r.queueState(p.num).Wait)
}

// A user sees the clients of its own user, and root and the device's user see all: in lists, by number, and
// in rings. Counts of clients that are gone, and traces, are not for others either.
func TestStateIsForItsUser(t *testing.T) {
	r := newRig(t, Config{})
	const alice, bob = 100_001, 100_002
	clients := make(map[uint32]uint32)
	for _, uid := range []uint32{alice, bob} {
		c, err := r.d.nic().NewHosted(fmt.Sprint("of ", uid), uid, nic.Hosted{PID: int(uid)})
		require.NoError(t, err)
		defer c.Close()
		clients[uid] = c.Number
	}
	own, _ := pair(r.host("a"), r.host("b"))
	numbers := func(uid uint32, request state.Request) (list []uint32) {
		for _, l := range r.stateFor(uid, request) {
			if l.Client != nil {
				list = append(list, l.Client.Number)
			}
			if l.Queue != nil || l.CQ != nil {
				require.True(t, uid == 0 || uid == uint32(os.Getuid()))
			}
		}
		return list
	}
	require.Equal(t, []uint32{clients[alice]}, numbers(alice, state.Request{}))
	require.Equal(t, []uint32{clients[bob]}, numbers(bob, state.Request{}))
	require.Len(t, numbers(0, state.Request{}), 4)
	require.Len(t, numbers(uint32(os.Getuid()), state.Request{}), 4)
	require.Empty(t, numbers(alice, state.Request{PID: bob}), "a process of another user")
	require.Equal(t, []uint32{clients[bob]}, numbers(0, state.Request{PID: bob}))
	require.Empty(t, numbers(alice, state.Request{Queue: own.num}))
	require.Equal(t, []uint32{own.h.c.Number}, numbers(0, state.Request{Queue: own.num}))

	ring := state.Request{Ring: &state.RingRequest{Queue: own.num, Of: state.SendRing, Count: 1}}
	none := state.Request{Ring: &state.RingRequest{Queue: 0xabcdef, Of: state.SendRing, Count: 1}}
	const refusal = "there is no QP %#06x that this user may see"
	require.Equal(t, fmt.Sprintf(refusal, own.num), r.stateFor(alice, ring)[0].Refused)
	require.Equal(t, fmt.Sprintf(refusal, 0xabcdef), r.stateFor(alice, none)[0].Refused)
	require.NotNil(t, r.stateFor(0, ring)[0].Ring)

	device := r.stateFor(alice, state.Request{})[0].Device
	require.Equal(t, state.SeesOwn, device.Sees)
	require.Equal(t, 1, device.Clients)
	require.Zero(t, device.Queues)
}

// A ring has the bytes that the device sees, around its consumer too, and says what is announced.
func TestStateOfRings(t *testing.T) {
	r, p, q := duo(t, Config{})
	src, dst := p.h.full(1000, 1), q.h.full(1000, 0)
	size := uint64(p.q.SQ.Mask + 1)
	for range size + 5 { // more than a lap
		p.write(ctrl(wqe.OpRDMAWrite), dst.raddr(0), src.data(0, 8))
		p.ring()
		r.settle()
		p.scq.all()
	}
	p.write(ctrl(wqe.OpRDMAWrite), dst.raddr(0), src.data(0, 8))
	p.ring()
	get := func(request state.RingRequest) *state.Ring {
		t.Helper()
		lines := r.stateFor(0, state.Request{Ring: &request})
		require.Len(t, lines, 1)
		require.Empty(t, lines[0].Refused)
		return lines[0].Ring
	}
	got := get(state.RingRequest{Queue: p.num, Of: state.SendRing, Last: true, Count: 4})
	done := size + 5
	require.Equal(t, state.Ring{Queue: p.num, Of: state.SendRing, Size: uint32(size), Entry: 64, First: done - 2,
		Producer: done + 1, Consumer: done, Bytes: got.Bytes}, *got)
	for i := range uint64(4) {
		slot := (done - 2 + i) % size
		require.Equal(t, p.sq[64*slot:][:64], got.Bytes[64*i:][:64], "entry %d", i)
	}
	require.Len(t, get(state.RingRequest{Queue: p.num, Of: state.SendRing, Count: state.MostEntries}).Bytes,
		64*int(min(size, state.MostEntries)), "at most the entries of the ring")

	q.recv(dst.data(8, 16))
	got = get(state.RingRequest{Queue: q.num, Of: state.ReceiveRing, Count: 1})
	require.EqualValues(t, 1, got.Producer)
	require.Equal(t, []byte(q.q.RQ.Ring[:len(got.Bytes)]), got.Bytes)

	got = get(state.RingRequest{Queue: p.scq.num, Of: state.CQRing, Last: true, Count: 2})
	require.EqualValues(t, done, got.Producer)
	require.EqualValues(t, done, got.Consumer, "all are polled")

	for _, bad := range []struct {
		request state.RingRequest
		why     string
	}{
		{state.RingRequest{Queue: p.num, Of: state.SendRing}, "0 entries of a ring; 1 to 256 are possible"},
		{state.RingRequest{Queue: p.num, Of: state.SendRing, Count: 257}, "257 entries of a ring; 1 to 256"},
		{state.RingRequest{Queue: p.num, Of: "both", Count: 1}, `ring "both"; "send", "receive" and "cq" are possible`},
		{state.RingRequest{Queue: 1, Of: state.CQRing, Count: 1}, "there is no CQ 0x000001 that this user may see"},
	} {
		require.Contains(t, r.stateFor(0, state.Request{Ring: &bad.request})[0].Refused, bad.why)
	}
}

// A program can take pages away from a ring, or from a record. A reader gets no bytes then, and the
// device goes on.
func TestStateWithoutPages(t *testing.T) {
	r := newRig(t, Config{})
	h := r.host("h")
	mem, base, shrink := h.trusted(1 << 16)
	c := h.cq(control.CQ{LogSize: 4})
	h.mem, h.base, h.used = mem, base, 0 // the next queue is in the file
	a := h.qp(control.QP{}, c, c)
	a.up(a)
	shrink(0)
	lines := r.stateFor(0, state.Request{Ring: &state.RingRequest{Queue: a.num, Of: state.SendRing, Count: 1}})
	require.Contains(t, lines[0].Refused, "has taken pages of the ring")
	require.Zero(t, r.queueState(a.num).Announced)
}

// Each object of many clients is in an answer once, in order, and an error of the reader ends the answer.
func TestStateOfManyObjects(t *testing.T) {
	roomy(t)
	r := newRig(t, Config{})
	h := r.host("many")
	c := h.cq(control.CQ{LogSize: 4})
	made := make(map[uint32]bool)
	for range 3*64 + 1 { // some portions
		made[h.qp(control.QP{LogSQ: 2}, c, c).num] = true
	}
	var last uint32
	lines := r.stateFor(0, state.Request{Kinds: []state.Kind{state.Queues}})
	n := 0
	for _, l := range lines {
		require.Nil(t, l.Client)
		require.Nil(t, l.CQ)
		if l.Queue == nil {
			continue
		}
		require.True(t, made[l.Queue.Number])
		require.Greater(t, l.Queue.Number, last)
		last = l.Queue.Number
		n++
	}
	require.Len(t, made, n)

	n = 0
	err := r.d.State(0, &state.Request{}, func(*state.Line) error {
		n++
		if n == 5 {
			return os.ErrDeadlineExceeded
		}
		return nil
	})
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.Equal(t, 5, n, "nothing is given after an error")
}

// Explanations are kept for those who look later, while the client is there and when it is gone; each user
// has its own.
func TestStateOfErrors(t *testing.T) {
	r, p, q := duo(t, Config{})
	next := p.h.events()
	for range state.MostErrors + 2 {
		p.post(ctrl(wqe.OpRDMAWrite), wqe.Raddr{Addr: 1, RKey: 0x1234}, []byte("x"))
		r.settle()
		p.reset(q)
		q.reset(p)
	}
	for next() != nil {
	}
	errorsOf := func(uid uint32) (of, gone []state.Error) {
		for _, l := range r.stateFor(uid, state.Request{}) {
			if l.Device != nil {
				gone = l.Device.Errors
			}
			if l.Client != nil && l.Client.Number == p.h.c.Number {
				of = l.Client.Errors
			}
		}
		return of, gone
	}
	of, gone := errorsOf(0)
	require.NotEmpty(t, of)
	require.LessOrEqual(t, len(of), state.MostErrors)
	require.Equal(t, p.num, of[0].Queue)
	require.Contains(t, of[0].Text, "0x00001234")
	require.NotEmpty(t, of[0].Code)
	require.Empty(t, gone)

	require.NoError(t, p.h.c.Close())
	of, gone = errorsOf(0)
	require.Empty(t, of)
	require.NotEmpty(t, gone)
	require.Contains(t, gone[0].Text, "0x00001234")
	require.Contains(t, gone[0].Client, "pid")
	_, gone = errorsOf(100_001)
	require.Empty(t, gone, "of another user")
}

// BenchmarkState is one answer with all objects of a client, without JSON.
func BenchmarkState(b *testing.B) {
	for _, queues := range []int{2, 4000} {
		b.Run(fmt.Sprint(queues), func(b *testing.B) {
			r := newRig(b, Config{})
			h := r.host("many")
			c := h.cq(control.CQ{LogSize: 4})
			for range queues {
				h.qp(control.QP{LogSQ: 2, LogRQ: 2}, c, c)
			}
			for b.Loop() {
				err := r.d.State(0, &state.Request{}, func(*state.Line) error { return nil })
				require.NoError(b, err)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(queues), "ns/queue")
		})
	}
}

// While memory of a client keeps the thread, a reader learns that, and does not wait. Only those who see all
// learn whose memory it is.
func TestStateOfStuckThread(t *testing.T) {
	r := newRig(t, Config{})
	p, q := pair(r.host("p"), r.host("q"))
	far := newTap(t, 16*shm.PageSize)
	dst, src := q.h.tapped(far, 0x1_0000_0000), p.h.full(64, 1)
	r.start()
	t.Cleanup(far.free)
	p.post(ctrl(wqe.OpRDMAWrite), dst.raddr(0), src.data(0, 64))
	page := far.awaits(0)
	await.Until(t, "the watchdog", func() bool {
		at := r.e.Stuck()
		return len(at) > 0 && !at[0].NoCore && at[0].For >= time.Second
	})
	lines := r.stateFor(0, state.Request{})
	require.Len(t, lines, 1)
	require.Contains(t, lines[0].Refused, "a thread of the engine is stuck for")
	require.Contains(t, lines[0].Refused, fmt.Sprintf("client %s, queue %#06x", p.h.c.Client.Name, p.num))
	lines = r.stateFor(100_001, state.Request{})
	require.Contains(t, lines[0].Refused, "a thread of the engine is stuck for")
	require.NotContains(t, lines[0].Refused, "client")
	far.open(page)
	p.scq.await()
	await.Until(t, "nobody is stuck", func() bool { return len(r.e.Stuck()) == 0 })
	require.NotNil(t, r.stateFor(0, state.Request{})[0].Device)
}
