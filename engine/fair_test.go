package engine

import (
	"testing"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// A WRITE of eight bytes never waits for more than one slice of another queue's long transfer.
func TestLongTransferHoldsNobodyUp(t *testing.T) {
	roomy(t)
	r := newRig(t, Config{Slice: 4096})
	a, b := r.host("a"), r.host("b")
	long, far := pair(a, b)
	short, _ := pair(a, b)
	src, dst := a.full(1<<20, 1), b.full(1<<20, 2)
	long.post(ctrl(wqe.OpRDMAWrite), dst.raddr(0), src.data(0, 1<<20))
	steps := 0
	for moved := 0; long.q.Job != nil || steps == 0; steps++ {
		word := pattern(8, byte(steps))
		index := short.post(ctrl(wqe.OpRDMAWrite), dst.raddr(1<<20-8), word)
		r.e.Step()
		require.Equal(t, index, short.scq.one().Counter, "in the same step")
		require.Equal(t, word, dst.mem[1<<20-8:])
		if j := long.q.Job; j != nil {
			require.LessOrEqual(t, int(j.Moved)-moved, 4096)
			moved = int(j.Moved)
		}
	}
	require.Equal(t, 256, steps)
	require.Equal(t, cqe.StatusSuccess, long.scq.one().Status)
	r.same(src.mem[:1<<20-8], dst.mem[:1<<20-8], "the long transfer")
	require.Equal(t, control.StateRTS, far.state())
}

// In a step no queue gets more than Burst WQEs or more than about Slice bytes.
func TestBudget(t *testing.T) {
	r := newRig(t, Config{Burst: 3, Slice: 1024})
	a, b := r.host("a"), r.host("b")
	p, _ := pair(a, b)
	q, _ := pair(a, b)
	dst := b.full(4096, 1)
	src := a.full(4096, 2)
	for range 10 {
		p.write(ctrl(wqe.OpNop))
		q.write(ctrl(wqe.OpRDMAWrite), dst.raddr(0), src.data(0, 400))
	}
	p.ring()
	q.ring()
	var perStep, bytes []int
	for range 4 {
		r.e.Step()
		perStep = append(perStep, len(p.scq.all()))
		bytes = append(bytes, len(q.scq.all()))
	}
	require.Equal(t, []int{3, 3, 3, 1}, perStep)
	// 1024 bytes are two and a half WQEs; the rest of the third is moved in the next step.
	require.Equal(t, []int{2, 3, 2, 3}, bytes)
}

// A SEND in slices fills the receive piece by piece, and completes once.
func TestSlicedSend(t *testing.T) {
	r, p, q := duo(t, Config{Slice: 100})
	src, dst := p.h.full(2000, 1), q.h.full(3000, 2)
	q.recv(dst.data(0, 333), dst.data(500, 777), dst.data(1500, 1500))
	p.post(ctrl(wqe.OpSend), src.data(0, 999), src.data(999, 1001))
	for range 19 {
		require.Equal(t, 1, r.e.Step())
		p.scq.none()
		q.rcq.none()
	}
	r.settle()
	require.Equal(t, uint32(2000), q.rcq.one().ByteLen)
	p.scq.one()
	got := append(append(append([]byte{}, dst.mem[:333]...), dst.mem[500:1277]...), dst.mem[1500:2390]...)
	r.same(src.mem, got, "sliced send")
}

// A transfer in slices keeps a copy of its inline data, which is in the WQE. So the data stay
// the same, whatever other queues execute in between.
func TestInlineDataOfASlicedTransfer(t *testing.T) {
	r := newRig(t, Config{Slice: 64})
	a, b := r.host("a"), r.host("b")
	p, _ := pair(a, b)
	s, _ := pair(a, b)
	from, to := a.full(256, 3), b.full(512, 0)
	secret := make([]byte, 40)
	for i := range secret {
		secret[i] = 0xee
	}
	tail := pattern(40, 9)
	p.post(ctrl(wqe.OpRDMAWrite), to.raddr(0), from.data(0, 256), tail)
	for range 4 {
		s.post(ctrl(wqe.OpRDMAWrite), to.raddr(400), secret)
		r.e.Step()
	}
	r.settle()
	require.Equal(t, cqe.Syndrome(0), p.scq.one().Syndrome)
	r.same(append(append([]byte{}, from.mem...), tail...), to.mem[:296], "sliced write")
}

// begin posts a transfer and steps until a part of it is done.
func begin(t *testing.T, op wqe.Opcode) (s *scene, src, dst *key) {
	t.Helper()
	s = newScene(t, Config{Slice: 64})
	src, dst = s.p.h.full(1024, 1), s.q.h.full(1024, 99)
	s.q.recv(dst.data(0, 1024))
	seg := []any{dst.raddr(0), src.data(0, 1024)}
	if op == wqe.OpSend {
		seg = seg[1:]
	}
	s.p.post(ctrl(op), seg...)
	for range 8 {
		s.e.Step()
	}
	require.NotNil(t, s.p.q.Job)
	require.Equal(t, uint64(512), s.p.q.Job.Moved)
	return s, src, dst
}

// If a key is deregistered in the middle of a transfer, the work request fails. Once the
// deregistration has been answered, nothing touches the key's memory.
func TestDeregistrationInTheMiddle(t *testing.T) {
	for _, op := range []wqe.Opcode{wqe.OpRDMAWrite, wqe.OpRDMARead, wqe.OpSend} {
		for _, side := range []string{"local", "remote"} {
			t.Run(op.String()+" "+side, func(t *testing.T) {
				s, src, dst := begin(t, op)
				gone := src
				want := cqe.LocalProtection
				if side == "remote" {
					gone = dst
					want = cqe.RemoteAccess
					if op == wqe.OpSend {
						want = cqe.RemoteOperation
					}
				}
				gone.h.call(control.OpDeregMR, &control.Key{Key: gone.key}, &control.Empty{})
				a, b := append([]byte(nil), src.mem...), append([]byte(nil), dst.mem...)
				s.settle()
				s.failed(s.p.scq.one(), want, 0)
				s.same(a, src.mem, "the requester's memory")
				s.same(b, dst.mem, "the responder's memory")
				require.Nil(t, s.p.q.Job)
			})
		}
	}
}

// If one of the two clients is closed in the middle of a transfer, the other client's work
// fails, and nothing touches memory of either any more.
func TestCloseInTheMiddle(t *testing.T) {
	for _, op := range []wqe.Opcode{wqe.OpRDMAWrite, wqe.OpRDMARead, wqe.OpSend} {
		t.Run(op.String()+", requester", func(t *testing.T) {
			s, src, dst := begin(t, op)
			require.NoError(t, s.p.h.c.Close())
			a, b := append([]byte(nil), src.mem...), append([]byte(nil), dst.mem...)
			s.settle()
			s.same(a, src.mem, "the requester's memory")
			s.same(b, dst.mem, "the responder's memory")
			require.Equal(t, control.StateRTS, s.q.state())
			s.q.rcq.none()
			s.q.post(ctrl(wqe.OpSend))
			s.expire()
			list := s.q.scq.all()
			require.Len(t, list, 2)
			s.failed(list[0], cqe.TransportRetry, 0)
			s.failed(list[1], cqe.Flush, 0) // the receive that was being filled
		})
		t.Run(op.String()+", responder", func(t *testing.T) {
			s, src, dst := begin(t, op)
			require.NoError(t, s.q.h.c.Close())
			a, b := append([]byte(nil), src.mem...), append([]byte(nil), dst.mem...)
			s.expire()
			s.failed(s.p.scq.one(), cqe.TransportRetry, 0)
			s.same(a, src.mem, "the requester's memory")
			s.same(b, dst.mem, "the responder's memory")
		})
		t.Run(op.String()+", responder's queue pair", func(t *testing.T) {
			s, _, dst := begin(t, op)
			s.q.destroy()
			b := append([]byte(nil), dst.mem...)
			s.expire()
			s.failed(s.p.scq.one(), cqe.TransportRetry, 0)
			s.same(b, dst.mem, "the responder's memory")
		})
	}
}
