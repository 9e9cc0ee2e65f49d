package engine

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/completion"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// single returns one queue pair, which is its own peer, and its completion queue. All
// completions go to this queue, which is made from m.
func single(t testing.TB, m control.CQ) (*rig, *end, *poller) {
	t.Helper()
	r := newRig(t, Config{})
	a := r.host("a")
	c := a.cq(m)
	p := a.qp(control.QP{}, c, c)
	p.up(p)
	return r, p, c
}

// The owner bit of entry i is the parity of its lap, in queues of 1 to 8 entries of either
// size, over five laps. The device changes only the entry that it writes.
func TestOwnerBits(t *testing.T) {
	for _, logCQE := range []uint8{6, 7} {
		for log := range uint8(4) {
			t.Run(fmt.Sprintf("%d entries of %d", 1<<log, 1<<logCQE), func(t *testing.T) {
				r, p, c := single(t, control.CQ{LogSize: log, LogCQE: logCQE})
				for i := range uint64(5 << log) {
					for j := range c.ring {
						c.ring[j] = 0x5a
					}
					p.post(ctrl(wqe.OpNop))
					r.settle()
					size := uint64(1) << logCQE
					at := i % (1 << log) * size
					require.Equal(t, byte(i>>log&1), c.ring[at+size-1], "op_own of %d", i)
					if logCQE == 7 {
						r.same(make([]byte, 64), c.ring[at:at+64], "first half")
					}
					for j, b := range c.ring {
						if uint64(j) < at || uint64(j) >= at+size {
							require.Equal(t, byte(0x5a), b, "byte %d while entry %d was written", j, i)
						}
					}
					c.ci++
					shm.BE32At(c.rec, 0).Publish(uint32(c.ci))
				}
			})
		}
	}
}

// In a collapsed queue every completion goes to entry 0. Its wqe_counter never goes back, and
// an error stays in it.
func TestCollapsed(t *testing.T) {
	r, p, c := single(t, control.CQ{LogSize: 2, Flags: control.CQCollapsed | control.CQIgnoreOverrun})
	for i := range c.ring {
		c.ring[i] = 0xff
	}
	counter := func() uint16 { return binary.BigEndian.Uint16(c.ring[60:]) }
	require.Equal(t, uint16(0xffff), counter())
	for i := range uint16(40) {
		p.post(ctrl(wqe.OpNop))
		p.post(silent(wqe.OpNop))
		r.settle()
		require.Equal(t, 2*i, counter())
	}
	p.post(ctrl(wqe.OpRDMAWrite), wqe.Raddr{RKey: 5}, []byte("x"))
	r.settle()
	require.Equal(t, uint16(80), counter())
	require.Equal(t, cqe.ReqErr, cqe.OpOwn(c.ring[63]).Opcode())
	require.Equal(t, uint8(cqe.RemoteAccess), c.ring[55])
	for _, b := range c.ring[64:] {
		require.Equal(t, byte(0xff), b, "an entry that is not the first")
	}
}

// With ignore_overrun the device does not read the consumer index.
func TestIgnoreOverrun(t *testing.T) {
	r, p, c := single(t, control.CQ{LogSize: 1, Flags: control.CQIgnoreOverrun})
	c.lazy = true
	for i := range uint16(50) {
		p.post(ctrl(wqe.OpNop))
		r.settle()
		require.Equal(t, i, c.one().Counter)
	}
	for range 10 {
		p.post(ctrl(wqe.OpNop))
	}
	r.settle()
	require.Equal(t, control.StateRTS, p.state())
}

// Without ignore_overrun, a completion queue without room fails. All queue pairs that use it
// go to error, and no others.
func TestOverrun(t *testing.T) {
	r := newRig(t, Config{})
	a := r.host("a")
	c, d := a.cq(control.CQ{LogSize: 1}), a.cq(control.CQ{LogSize: 4})
	p, receiver, other := a.qp(control.QP{}, c, d), a.qp(control.QP{}, d, c), a.qp(control.QP{}, d, d)
	for _, q := range []*end{p, receiver, other} {
		q.up(q)
	}
	for range 2 {
		p.post(ctrl(wqe.OpNop))
	}
	r.settle()
	require.Equal(t, control.StateRTS, p.state(), "full is not too full")
	p.post(ctrl(wqe.OpNop))
	r.settle()
	require.Equal(t, control.StateERR, p.state())
	require.Equal(t, control.StateERR, receiver.state())
	require.Equal(t, control.StateRTS, other.state())
	other.post(ctrl(wqe.OpNop))
	r.settle()
	d.one()
	require.Len(t, c.all(), 2)
}

// A responder whose CQ has no room goes to error, and the requester's WQE fails.
func TestOverrunAtResponder(t *testing.T) {
	r := newRig(t, Config{})
	a, b := r.host("a"), r.host("b")
	ca, cb, small := a.cq(control.CQ{LogSize: 4}), b.cq(control.CQ{LogSize: 4}), b.cq(control.CQ{})
	p, q := a.qp(control.QP{}, ca, ca), b.qp(control.QP{}, cb, small)
	p.up(q)
	q.up(p)
	for range 3 {
		q.recv()
	}
	for range 3 {
		p.post(ctrl(wqe.OpSend))
	}
	r.settle()
	require.Len(t, small.all(), 1)
	list := ca.all()
	require.Len(t, list, 3)
	require.Equal(t, cqe.StatusSuccess, list[0].Status)
	r.failed(list[1], cqe.RemoteOperation, 1)
	r.failed(list[2], cqe.Flush, 2)
	require.Equal(t, []uint8{control.StateERR, control.StateERR}, []uint8{p.state(), q.state()})
}

// A consumer index that has gone back, or is beyond the entries written, makes no room. Bits
// above the lower 24 are ignored.
func TestOddConsumerIndex(t *testing.T) {
	for name, odd := range map[string]uint32{"ahead": 77, "far back": 0x800000, "garbage above 24 bits": 0xff000002} {
		t.Run(name, func(t *testing.T) {
			r, p, c := single(t, control.CQ{LogSize: 1})
			c.lazy = true
			p.post(ctrl(wqe.OpNop))
			p.post(ctrl(wqe.OpNop))
			r.settle()
			require.Len(t, c.all(), 2)
			shm.BE32At(c.rec, 0).Publish(odd)
			p.post(ctrl(wqe.OpNop))
			r.settle()
			want := control.StateERR
			if odd&0xffffff == 2 {
				want = control.StateRTS
			}
			require.Equal(t, want, p.state())
		})
	}
}

// channel makes a completion channel and returns its id, and a function that reads one event
// from it if there is one.
func (h *host) channel() (id uint32, event func() (handle uint64, ok bool)) {
	h.Helper()
	payload := control.Append(nil, control.OpCreateChannel, 0, 1, &control.Empty{})[control.HeaderSize:]
	m, reply, err := h.c.Request(control.OpCreateChannel, payload, object.RequestMemory{})
	require.NoError(h, err)
	h.Cleanup(func() { _ = reply.Events.Close() })
	return m.(*control.Channel).ID, func() (uint64, bool) {
		h.Helper()
		var b [16]byte
		conn, err := reply.Events.SyscallConn()
		require.NoError(h, err)
		n := 0
		_ = conn.Control(func(fd uintptr) { n, _, _ = unix.Recvfrom(int(fd), b[:], unix.MSG_DONTWAIT) })
		if n <= 0 {
			return 0, false
		}
		require.Equal(h, 8, n)
		return binary.LittleEndian.Uint64(b[:]), true
	}
}

// arm asks for an event, as clients do, with sequence number sn.
func (c *poller) arm(sn uint32, solicited bool) {
	word := sn&3<<28 | uint32(c.ci)&0xffffff
	if solicited {
		word |= 1 << 24
	}
	shm.BE32At(c.rec, 4).Publish(word)
}

// An armed queue sends one event, and only for a completion of the kind that it is armed for.
func TestEvents(t *testing.T) {
	r := newRig(t, Config{})
	a := r.host("a")
	id, event := a.channel()
	c := a.cq(control.CQ{LogSize: 4, Channel: id, Handle: 0x1122334455667788})
	p := a.qp(control.QP{}, c, c)
	p.up(p)
	quietly := func(what string) {
		t.Helper()
		r.settle()
		_, ok := event()
		require.False(t, ok, what)
	}
	fires := func(what string) {
		t.Helper()
		r.settle()
		handle, ok := event()
		require.True(t, ok, what)
		require.Equal(t, uint64(0x1122334455667788), handle)
		quietly(what + ", once")
	}
	p.post(ctrl(wqe.OpNop))
	quietly("not armed")
	c.arm(0, false)
	fires("armed while a completion is unread")
	c.all()
	c.arm(1, false)
	quietly("armed while a completion is unread that was told of")
	c.all()
	p.post(ctrl(wqe.OpNop))
	fires("armed, as before it was polled")
	p.post(ctrl(wqe.OpNop))
	quietly("not armed again")
	c.arm(2, false)
	fires("armed while one is unread that was not told of")
	c.all()
	c.arm(3, false)
	quietly("armed, nothing there")
	p.post(ctrl(wqe.OpNop))
	fires("armed")
	c.arm(1, false)
	c.all()
	c.arm(2, true)
	p.post(ctrl(wqe.OpNop))
	quietly("armed for solicited ones")
	p.post(wqe.Ctrl{Opcode: wqe.OpNop, Flags: wqe.CEEvent})
	fires("a WQE that asks for an event")
	c.all()
	c.arm(3, true)
	p.recv()
	p.post(silent(wqe.OpSend))
	quietly("a receive that is not solicited")
	p.recv()
	p.post(wqe.Ctrl{Opcode: wqe.OpSend, Flags: wqe.FlagSolicited})
	fires("a solicited receive")
	c.all()
	p.recv()
	p.post(wqe.Ctrl{Opcode: wqe.OpSend, Flags: wqe.FlagSolicited})
	r.settle()
	c.arm(0, true)
	fires("armed for solicited ones while one is unread")
	c.all()
	c.arm(1, true)
	p.recv()
	p.post(silent(wqe.OpSend))
	r.settle()
	c.all()
	p.post(ctrl(wqe.OpRDMAWrite), wqe.Raddr{}, []byte("x"))
	fires("an error")
}

// If the socket is full, the device does not wait, and one more event of each queue waits.
func TestEventsThatNobodyReads(t *testing.T) {
	r := newRig(t, Config{})
	a := r.host("a")
	id, event := a.channel()
	c := a.cq(control.CQ{LogSize: 4, Channel: id})
	p := a.qp(control.QP{}, c, c)
	p.up(p)
	for i := range uint32(5000) {
		c.arm(i, false)
		for range completion.ArmLapSteps {
			r.e.Step()
		}
		p.post(ctrl(wqe.OpNop))
		r.e.Step()
		_, _, ok := c.next()
		require.True(t, ok)
	}
	n := 0
	for ok := true; ok; n++ {
		_, ok = event()
	}
	require.Less(t, n, 5000)
	require.Greater(t, n, 2)
}
