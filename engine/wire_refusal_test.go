package engine

import (
	"runtime/debug"
	"testing"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// A NAK that ends a connection does not overtake the answers that are due to requests before it.
func TestRefusalAfterAnswers(t *testing.T) {
	overCableOf(t, nic.PortConfig{MTU: 256}, &fates{})
	r, p, q := duo(t, Config{})
	from, to := p.h.full(4096, 1), q.h.full(4096, 7)
	r.cable.block(q.side()) // the responder cannot answer
	p.post(ctrl(wqe.OpRDMARead), to.raddr(0), from.data(0, 1000))
	p.post(ctrl(wqe.OpAtomicFA), to.raddr(1024), wqe.Atomic{SwapAdd: 1}, from.data(1024, 8))
	bad := to.raddr(0)
	bad.RKey++
	at := p.post(ctrl(wqe.OpRDMAWrite), bad, from.data(0, 8))
	r.carried(20, p)
	require.Equal(t, control.StateERR, q.state())
	require.Equal(t, 2, q.q.Wire.In.Due)
	q.recv()
	q.post(ctrl(wqe.OpNop))
	r.settle()
	list := p.scq.all()
	require.Len(t, list, 3)
	require.Equal(t, unharmed, list[0].Syndrome)
	require.Equal(t, unharmed, list[1].Syndrome)
	r.failed(list[2], cqe.RemoteAccess, at)
	r.same(to.mem[:1000], from.mem[:1000], "what was read")
	require.Zero(t, p.q.Wire.Port.Stats.Timeouts, "no timer ran out")
	require.Len(t, q.scq.all(), 2, "its queues are flushed")
}

// Nor does it overtake those that have to wait for the budget of a later step.
func TestRefusalAfterSlicesOfAnswers(t *testing.T) {
	overCableOf(t, nic.PortConfig{MTU: 256}, nil)
	r, p, q := duo(t, Config{Slice: 600})
	from, to := p.h.full(8192, 1), q.h.full(8192, 7)
	p.post(ctrl(wqe.OpRDMARead), to.raddr(0), from.data(0, 8192))
	bad := to.raddr(0)
	bad.RKey++
	at := p.post(ctrl(wqe.OpRDMAWrite), bad, from.data(0, 8))
	r.settle()
	list := p.scq.all()
	require.Len(t, list, 2)
	require.Equal(t, unharmed, list[0].Syndrome)
	r.failed(list[1], cqe.RemoteAccess, at)
	r.same(to.mem, from.mem, "what was read")
	require.Zero(t, p.q.Wire.Port.Stats.Timeouts, "no answer was missed")
}

// Memory of a responder that loses its page fails the request of its peer, as mlx5 does, and the
// responder's own work requests are flushed.
func TestMemoryOfAResponderGoesAway(t *testing.T) {
	if shm.RaceEnabled {
		t.Skip("the race detector does not watch mapped memory")
	}
	const size = 8192
	for name, post := range map[string]func(p, q *end, near, far *key){
		"WRITE":      func(p, q *end, near, far *key) { p.post(ctrl(wqe.OpRDMAWrite), far.raddr(4096), near.data(0, 100)) },
		"long WRITE": func(p, q *end, near, far *key) { p.post(ctrl(wqe.OpRDMAWrite), far.raddr(0), near.data(0, size)) },
		"READ":       func(p, q *end, near, far *key) { p.post(ctrl(wqe.OpRDMARead), far.raddr(5000), near.data(0, 100)) },
		"long READ":  func(p, q *end, near, far *key) { p.post(ctrl(wqe.OpRDMARead), far.raddr(0), near.data(0, size)) },
		"FETCH_ADD": func(p, q *end, near, far *key) {
			p.post(ctrl(wqe.OpAtomicFA), far.raddr(4096), wqe.Atomic{SwapAdd: 1}, near.data(0, 8))
		},
		"SEND": func(p, q *end, near, far *key) {
			q.recv(far.data(4000, 1000))
			p.post(ctrl(wqe.OpSend), near.data(0, 900))
		},
		"long SEND": func(p, q *end, near, far *key) {
			q.recv(far.data(0, size))
			p.post(ctrl(wqe.OpSend), near.data(0, size))
		},
	} {
		for kind, cfg := range map[string]Config{"": {}, ", in slices": {Slice: 600, Burst: 1}} {
			t.Run(name+kind, func(t *testing.T) {
				defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
				overCableOf(t, nic.PortConfig{MTU: 1024}, nil)
				r, p, q := duo(t, cfg)
				mem, base, shrink := q.h.trusted(size)
				far := &key{h: q.h, mem: mem.Bytes(), addr: base, key: q.h.reg(q.h.pd, base, size, control.AccessAll&^control.AccessZeroBased)}
				near := p.h.full(size, 1)
				ev := q.h.events()
				shrink(4096)
				post(p, q, near, far)
				for range 100 {
					r.e.Steps(true)
				}
				r.failed(p.scq.one(), cqe.RemoteOperation, 0)
				require.Equal(t, control.StateERR, q.state())
				q.post(ctrl(wqe.OpNop))
				r.e.Steps(true)
				list := q.scq.all()
				require.NotEmpty(t, list)
				for _, w := range list {
					require.Equal(t, cqe.Flush, w.Syndrome)
				}
				e := ev()
				require.NotNil(t, e)
				require.Contains(t, e.Text, "has no page behind it; the request of its peer fails")
				require.False(t, q.q.Wire.In.Refusing)
			})
		}
	}
}
