package engine

import (
	"github.com/nicless/nicless/engine/internal/copying"
	"testing"

	"github.com/nicless/nicless/engine/internal/execution"
	"github.com/nicless/nicless/engine/internal/loop"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// How much work one step can do for one client, counted in what takes time: pieces, pages, WQEs.

const page = 4096

// strewn returns a list of n bytes, each in another page of new memory, and the WQE that fills it.
func (h *host) strewn(n int) (key uint32, fill []any) {
	mem := h.full(n*page, 1)
	key = h.mkey(1)
	return key, interleaved(key, mkeyAll, n, uint32(n), wqe.RepeatEntry{ByteCount: 1, MKey: mem.key, Addr: mem.addr, Stride: page})
}

// bystander returns a function that posts a WRITE of 8 bytes, and one that requires that it
// has been executed.
func (r *rig) bystander() (post, served func()) {
	h := r.host("bystander")
	p, q := pair(h, h)
	near, far := h.full(8, 1), h.full(8, 2)
	return func() { p.post(ctrl(wqe.OpRDMAWrite), far.raddr(0), near.data(0, 8)); q.rcq.none() }, func() {
		r.Helper()
		require.Equal(r, uint64(p.sent), p.q.SQ.Done, "the bystander waits")
		require.Equal(r, unharmed, p.scq.one().Syndrome)
	}
}

// Each byte of a list can be in a page that was never touched. A turn of a client touches a bounded number of
// such pages, and a bystander waits for one turn only.
func TestPiecesInManyPages(t *testing.T) {
	const queues, bytes, slice = 10, 128, 16 << 10
	const turn = slice/execution.Dearest + 1 // pieces of one visit; the first costs less
	r := newRig(t, Config{Slice: slice})
	a, b := r.host("a"), r.host("b")
	from, fillFrom := a.strewn(bytes)
	to, fillTo := b.strewn(bytes)
	var list []*end
	for i := range queues {
		p, q := pair(a, b)
		list = append(list, p)
		if i == 0 {
			p.post(umr(from), fillFrom...)
			q.post(umr(to), fillTo...)
			r.settle()
			p.good()
			q.good()
		}
	}
	moved := func() (n int) {
		for _, p := range list {
			if j := p.q.Job; j != nil {
				n += int(j.Moved)
			} else {
				n += bytes * int(p.q.Client.Count[control.CounterBytes]) / bytes / queues
			}
		}
		return n
	}
	for range loop.RivalryTurns {
		r.e.Step()
	}
	for _, p := range list {
		p.post(ctrl(wqe.OpRDMAWrite), wqe.Raddr{RKey: to}, at(from, 0, bytes))
	}
	r.e.Step()
	require.Positive(t, moved())
	require.LessOrEqual(t, moved(), object.AloneShare*turn, "while no other client works")
	post, served := r.bystander()
	for i := range 5 {
		before := moved()
		post()
		r.e.Step()
		served()
		if i > 0 { // from the second WRITE on, the bystander is known
			require.LessOrEqual(t, moved()-before, turn, "beside another client")
		}
		require.Greater(t, moved(), before)
	}
	r.settle()
	for _, p := range list {
		p.good()
	}
}

// Datagrams are moved in one visit, however many pages they touch, and then the visit ends.
func TestDatagramInManyPages(t *testing.T) {
	roomy(t)
	const bytes = 256
	r := newRig(t, Config{})
	a, b := r.host("a"), r.host("b")
	p, q := pairOf(control.QPTypeUD, a, b)
	owner, _ := pair(a, a)
	from, fill := a.strewn(bytes)
	owner.post(umr(from), fill...)
	r.settle()
	owner.good()
	into := b.full(bytes+object.GRHSize, 9)
	for range 4 {
		q.recv(into.data(0, bytes+object.GRHSize))
		p.write(ctrl(wqe.OpSend), q.to(), at(from, 0, bytes))
	}
	p.ring()
	for range 4 {
		done := p.q.SQ.Done
		for range 8 { // other visits of the step may be idle
			r.e.Step()
			if p.q.SQ.Done != done {
				break
			}
		}
		q.rcq.one()
		require.Nil(t, p.q.Job)
	}
	require.Len(t, p.scq.all(), 4)
}

// A packet can have thousands of pieces, too: at the sender, at the receiver, and at the responder of a READ.
func TestPacketsInManyPages(t *testing.T) {
	roomy(t)
	const mtu, bytes = 256, 512
	const slice = mtu * copying.PageCost / 2 // half of what one packet costs
	for _, row := range []string{"sender", "receiver", "responder"} {
		t.Run(row, func(t *testing.T) {
			r := newRig(t, Config{Slice: slice})
			r.newCable(nic.PortConfig{MTU: mtu}, nil)
			a, b := r.host("a"), r.host("b")
			p, q := pair(a, b)
			h, owner := b, q
			if row == "sender" {
				h, owner = a, p
			}
			list, fill := h.strewn(bytes)
			owner.post(umr(list), fill...)
			r.settle()
			owner.good()
			near, far := at(list, 0, bytes), wqe.Raddr{RKey: list}
			if row == "sender" {
				far = b.full(bytes, 2).raddr(0)
			} else {
				near = a.full(bytes, 2).data(0, bytes)
			}
			op := wqe.OpRDMAWrite
			if row == "responder" {
				op = wqe.OpRDMARead
			}
			p.post(ctrl(op), far, near)
			require.EqualValues(t, mtu, p.q.Wire.MTU)
			count := func() uint64 {
				switch row {
				case "sender":
					return p.q.Wire.Port.Stats.Sent
				case "receiver":
					return q.q.Wire.Port.Stats.Received
				}
				return q.q.Wire.Port.Stats.Sent
			}
			first := count()
			for n, steps := first, 0; n < first+bytes/mtu; steps++ {
				require.Less(t, steps, 1000, "%d of %d packets", n-first, bytes/mtu)
				r.e.Step()
				require.LessOrEqual(t, count(), n+1, "one packet in a step")
				n = count()
			}
			r.settle()
			p.good()
		})
	}
}

// DUMPs move nothing, but their keys are checked.
func TestDumpsCostTheirKeys(t *testing.T) {
	const pieces = 30
	s := newScene(t, Config{Slice: 4 * pieces * object.PieceCost})
	var list []any
	for i := range pieces {
		list = append(list, s.local.data(i, 1))
	}
	p := s.p.h.qp(control.QP{LogSQ: 8}, s.p.scq, s.p.rcq)
	p.up(p)
	for range 20 {
		p.write(ctrl(wqe.OpDump), list...)
	}
	p.ring()
	blocks := uint64(p.sent) / 20
	for p.q.SQ.Done != uint64(p.sent) {
		before := p.q.SQ.Done
		s.e.Step()
		require.LessOrEqual(t, p.q.SQ.Done-before, 4*blocks)
		s.p.scq.all()
	}
}

// waits makes queue pairs whose rings are full of WAITs that are over, or of SEND_ENs each of which enables a
// WQE of another ring.
func (h *host) waits(op wqe.Opcode, queues, logSize int) (list []*end) {
	c := h.cq(control.CQ{LogSize: 4, Flags: control.CQIgnoreOverrun})
	for range queues {
		managed := h.qp(control.QP{NoReceive: 1, Managed: 1, LogSQ: uint8(logSize)}, c, c)
		managed.up(managed)
		p := h.qp(control.QP{NoReceive: 1, LogSQ: uint8(logSize)}, c, c)
		p.up(p)
		for i := range uint32(1) << logSize {
			w := wqe.Wait{Number: c.num, Index: 1<<32 - 1} // over: the completion before the first
			if op == wqe.OpSendEn {
				managed.write(silent(wqe.OpNop))
				w = wqe.Wait{Number: managed.num, Index: i + 1}
			}
			p.write(silent(op), w)
		}
		managed.ring()
		p.ring()
		list = append(list, p, managed)
	}
	return list
}

// Rings full of WAITs that are over, and of SEND_ENs, are executed Burst by
// Burst. A bystander waits for one turn only.
func TestRingsOfWaits(t *testing.T) {
	roomy(t)
	const logSize, queues = 12, 6
	for _, op := range []wqe.Opcode{wqe.OpWait, wqe.OpSendEn} {
		t.Run(op.String(), func(t *testing.T) {
			r := newRig(t, Config{})
			list := r.host("a").waits(op, queues, logSize)
			executed := func() (n int) {
				for _, p := range list {
					n += int(p.q.SQ.Done)
				}
				return n
			}
			post, served := r.bystander()
			alone, burst := r.d.runner.Loops[0].Sched.Alone.WQEs, r.e.Settings.Burst
			r.e.Step()
			require.Positive(t, executed())
			require.Less(t, executed(), alone+burst)
			for i := range 50 {
				before := executed()
				post()
				r.e.Step()
				served()
				if i > 0 {
					require.Less(t, executed()-before, 2*burst, "a turn ends with the visit that uses up its budget")
				}
			}
			all := queues << logSize
			if op == wqe.OpSendEn {
				all *= 2
			}
			steps := r.stepsUntil(2*all/burst, func() bool { return executed() == all })
			t.Logf("%d steps", steps)
		})
	}
}
