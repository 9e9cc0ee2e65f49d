package engine

import (
	"encoding/binary"
	"testing"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// DUMP reads the memory that it names, by key, and moves nothing. It completes when all
// earlier work has completed.
func TestDump(t *testing.T) {
	s := newScene(t, Config{Slice: 64})
	was := append([]byte(nil), s.local.mem...)
	s.p.post(silent(wqe.OpRDMARead), s.far.raddr(0), s.local.data(0, 200))
	index := s.p.post(wqe.Ctrl{Opcode: wqe.OpDump, Flags: wqe.CEAlways | wqe.FenceReads}, s.local.data(0, 256))
	s.settle()
	w := s.p.scq.one()
	require.Equal(t, []any{unharmed, index, uint32(0)}, []any{w.Syndrome, w.Counter, w.ByteLen})
	s.same(s.far.mem[:200], s.local.mem[:200], "read before")
	s.same(was[200:], s.local.mem[200:], "the rest")
	s.p.post(ctrl(wqe.OpDump))
	s.settle()
	s.p.good()
	index = s.p.post(ctrl(wqe.OpDump), s.local.data(0, 257))
	s.settle()
	s.failed(s.p.scq.one(), cqe.LocalProtection, index)
}

// MMO copies between local keys, in slices. Copies that are not allowed fail.
func TestMMO(t *testing.T) {
	dma := ctrl(wqe.OpMMO)
	dma.OpMod = wqe.OpModMMODMA
	s := newScene(t, Config{Slice: 100})
	src, dst := s.p.h.full(1000, 1), s.p.h.full(1000, 2)
	m := s.p.h.mkey(2)
	s.p.post(dma, wqe.MMOMeta{LKey: 0xbad, Addr: 0xbad}, src.data(0, 700), dst.data(300, 700))
	s.p.post(umr(m), fill(m, mkeyAll, 64, dst.klm(0, 32), dst.klm(100, 32))...)
	s.p.post(dma, wqe.MMOMeta{}, src.data(900, 64), at(m, 0, 64))
	s.settle()
	require.Len(t, s.p.scq.all(), 3)
	s.same(src.mem[900:932], dst.mem[:32], "to a list")
	s.same(src.mem[932:964], dst.mem[100:132], "to a list")
	s.same(src.mem[:700], dst.mem[300:], "copied")
	readonly := s.p.h.key(64, 0)
	for name, row := range map[string]struct {
		want  cqe.Syndrome
		opmod uint8
		seg   []any
	}{
		"lengths differ":          {cqe.LocalLength, 1, []any{wqe.MMOMeta{}, src.data(0, 8), dst.data(0, 9)}},
		"2^31 bytes":              {cqe.LocalProtection, 1, []any{wqe.MMOMeta{}, src.data(0, 0), dst.data(0, 0)}},
		"source unknown":          {cqe.LocalProtection, 1, []any{wqe.MMOMeta{}, wqe.Data{ByteCount: 8, LKey: 5}, dst.data(0, 8)}},
		"target without right":    {cqe.LocalProtection, 1, []any{wqe.MMOMeta{}, src.data(0, 8), readonly.data(0, 8)}},
		"target inline":           {cqe.LocalQPOp, 1, []any{wqe.MMOMeta{}, src.data(0, 8), make([]byte, 8)}},
		"another engine":          {cqe.LocalQPOp, 2, []any{wqe.MMOMeta{}, src.data(0, 8), dst.data(0, 8)}},
		"no engine":               {cqe.LocalQPOp, 0, []any{wqe.MMOMeta{}, src.data(0, 8), dst.data(0, 8)}},
		"no target":               {cqe.LocalQPOp, 1, []any{wqe.MMOMeta{}, src.data(0, 8)}},
		"another client's memory": {cqe.LocalProtection, 1, []any{wqe.MMOMeta{}, src.data(0, 8), s.far.data(0, 8)}},
	} {
		t.Run(name, func(t *testing.T) {
			s.TB = t
			c := dma
			c.OpMod = row.opmod
			was := append([]byte(nil), dst.mem...)
			index := s.p.post(c, row.seg...)
			s.settle()
			s.failed(s.p.scq.one(), row.want, index)
			s.same(was, dst.mem, "the target")
			s.again()
		})
	}
	s.TB = t
}

// MMO works on a queue pair of each transport, and the peer has no part in it.
func TestMMONeedsNoPeer(t *testing.T) {
	dma := ctrl(wqe.OpMMO)
	dma.OpMod = wqe.OpModMMODMA
	for _, transport := range []uint8{control.QPTypeRC, control.QPTypeUC, control.QPTypeUD} {
		r := newRig(t, Config{})
		p, q := pairOf(transport, r.host("a"), r.host("b"))
		q.destroy()
		k := p.h.full(64, 1)
		p.post(dma, wqe.MMOMeta{}, k.data(0, 32), k.data(32, 32))
		p.post(ctrl(wqe.OpDump), k.data(0, 64))
		r.settle()
		require.Len(t, p.scq.all(), 2)
		r.same(k.mem[:32], k.mem[32:], "copied")
	}
}

// wait returns the segment of a WAIT that ends when c has had n completions. It names the last of them.
func wait(c *poller, n uint32) wqe.Wait { return wqe.Wait{Index: n - 1, Number: c.num} }

// A queue waits until another queue's completions are there, and then goes on without a
// doorbell.
func TestWait(t *testing.T) {
	s := newScene(t, Config{})
	s.p.post(ctrl(wqe.OpWait), wait(s.idle1.scq, 0)) // reached already
	s.settle()
	s.p.good()
	first := s.p.post(ctrl(wqe.OpWait), wait(s.idle1.scq, 3))
	s.p.post(ctrl(wqe.OpRDMAWrite), s.far.raddr(0), []byte("x"))
	for range 2 {
		s.settle()
		s.p.scq.none()
		s.idle1.post(ctrl(wqe.OpNop))
	}
	s.settle()
	s.p.scq.none()
	require.Len(t, stalledQueues(s.e), 1)
	s.idle1.post(ctrl(wqe.OpNop))
	s.settle()
	list := s.p.scq.all()
	require.Equal(t, []uint16{first, first + 1}, indices(list))
	require.Empty(t, stalledQueues(s.e))
	// The passing of time does not end a WAIT.
	s.p.post(ctrl(wqe.OpWait), wait(s.idle1.scq, 4))
	s.settle()
	s.p.q.Stall.Deadline = 0
	s.settle()
	s.p.scq.none()
	s.p.toState(control.StateERR)
	s.settle()
	require.Equal(t, cqe.Flush, s.p.scq.one().Syndrome)
	require.Empty(t, stalledQueues(s.e))
}

// The producer index of a CQ wraps at 2^32.
func TestWaitWraps(t *testing.T) {
	s := newScene(t, Config{})
	c := s.p.h.e.CQs[s.idle1.scq.num]
	c.Next, c.Seen, c.Taken = 1<<32-1, 1<<32-1, 1<<32-1
	s.p.post(ctrl(wqe.OpWait), wait(s.idle1.scq, 1))
	s.settle()
	s.p.scq.none()
	s.idle1.post(silent(wqe.OpNop))
	c.Next += 2
	s.settle()
	s.p.good()
}

// WAITs that cannot be executed fail.
func TestWaitFaults(t *testing.T) {
	for name, f := range map[string]func(s *scene) (wqe.Ctrl, []any){
		"CQ of nobody":         func(*scene) (wqe.Ctrl, []any) { return ctrl(wqe.OpWait), []any{wqe.Wait{Number: 3}} },
		"CQ of another client": func(s *scene) (wqe.Ctrl, []any) { return ctrl(wqe.OpWait), []any{wait(s.q.scq, 0)} },
		"no segment":           func(*scene) (wqe.Ctrl, []any) { return ctrl(wqe.OpWait), nil },
		"on data": func(s *scene) (wqe.Ctrl, []any) {
			c := ctrl(wqe.OpWait)
			c.OpMod = wqe.OpModWaitData
			return c, []any{wqe.WaitData{LKey: s.local.key, Addr: s.local.addr}}
		},
		"on time": func(*scene) (wqe.Ctrl, []any) {
			c := ctrl(wqe.OpWait)
			c.OpMod = wqe.OpModWaitTime
			return c, []any{wqe.WaitData{}}
		},
		"SEND_EN of nobody":         func(*scene) (wqe.Ctrl, []any) { return ctrl(wqe.OpSendEn), []any{wqe.Wait{Number: 3}} },
		"SEND_EN of another client": func(s *scene) (wqe.Ctrl, []any) { return ctrl(wqe.OpSendEn), []any{wqe.Wait{Number: s.q.num}} },
		"SEND_EN without segment":   func(*scene) (wqe.Ctrl, []any) { return ctrl(wqe.OpSendEn), nil },
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, Config{})
			c, seg := f(s)
			index := s.p.post(c, seg...)
			s.settle()
			s.failed(s.p.scq.one(), cqe.LocalQPOp, index)
			require.Equal(t, control.StateRTS, s.q.state())
		})
	}
}

// If a CQ is destroyed while a queue waits for it, the WAIT fails.
func TestWaitForADestroyedCQ(t *testing.T) {
	s := newScene(t, Config{})
	c := s.p.h.cq(control.CQ{LogSize: 2})
	index := s.p.post(ctrl(wqe.OpWait), wait(c, 1))
	s.settle()
	require.Len(t, stalledQueues(s.e), 1)
	s.p.h.call(control.OpDestroyCQ, &control.CQN{CQN: c.num}, &control.Empty{})
	s.settle()
	require.Empty(t, stalledQueues(s.e))
	s.failed(s.p.scq.one(), cqe.LocalQPOp, index)
}

// A managed queue executes the blocks that a SEND_EN has enabled or the blocks that the
// record announces, whichever are fewer. This holds also where the ring or a count of 16
// bits wraps.
func TestSendEnable(t *testing.T) {
	r := newRig(t, Config{})
	a := r.host("a")
	c, d := a.cq(control.CQ{LogSize: 6}), a.cq(control.CQ{LogSize: 6})
	master, slave := a.qp(control.QP{}, c, c), a.qp(control.QP{Managed: 1}, d, d)
	master.up(master)
	slave.up(slave)
	enable := func(upTo uint16) {
		master.post(silent(wqe.OpSendEn), wqe.Wait{Index: uint32(upTo) | 0xabc<<16, Number: slave.num | 0xff<<24})
	}
	for round := range 5000 { // 70,000 blocks
		start := slave.sent
		for range 14 {
			slave.write(ctrl(wqe.OpNop))
		}
		slave.ring()
		if round < 3 {
			r.settle()
			d.none()
		}
		enable(start + 3)
		r.e.Step()
		r.e.Step()
		require.Len(t, d.all(), 3)
		enable(start + 1) // less than before: enables nothing
		r.e.Step()
		r.e.Step()
		require.Empty(t, d.all())
		enable(start + 16) // more than is announced
		r.e.Step()
		r.e.Step()
		require.Len(t, d.all(), 11)
		slave.write(ctrl(wqe.OpNop))
		slave.write(ctrl(wqe.OpNop))
		slave.ring()
		r.e.Step()
		require.Len(t, d.all(), 2, "enabled before they were announced")
		if t.Failed() {
			return
		}
	}
	// In ERR everything is flushed, enabled or not. RST drops what was enabled.
	slave.post(ctrl(wqe.OpNop))
	slave.toState(control.StateERR)
	r.settle()
	require.Equal(t, cqe.Flush, d.one().Syndrome)
	slave.reset(slave)
	slave.post(ctrl(wqe.OpNop))
	r.settle()
	d.none()
	enable(1)
	r.settle()
	require.Equal(t, uint16(0), d.one().Counter)
}

// A managed datagram queue goes on after an error of its own work request.
func TestSendEnableAfterSQE(t *testing.T) {
	r := newRig(t, Config{})
	a := r.host("a")
	c := a.cq(control.CQ{LogSize: 6})
	p := a.qp(control.QP{Type: control.QPTypeUD, Managed: 1}, c, c)
	m, _ := pair(a, a)
	p.up(p)
	p.write(ctrl(wqe.OpRDMARead))
	p.post(ctrl(wqe.OpNop))
	m.post(silent(wqe.OpSendEn), wqe.Wait{Index: 1, Number: p.num})
	r.settle()
	require.Equal(t, control.StateSQE, p.state())
	require.Len(t, c.all(), 2)
	p.toState(control.StateRTS)
	p.post(ctrl(wqe.OpNop))
	r.settle()
	c.none()
	m.post(silent(wqe.OpSendEn), wqe.Wait{Index: 3, Number: p.num})
	r.settle()
	require.Equal(t, uint16(2), c.one().Counter)
}

// A chain of queues runs with no host in the loop. Each hop waits for the receive of the
// hop before, enables the next queue, and sends on what it has received.
func TestChain(t *testing.T) {
	r := newRig(t, Config{})
	a := r.host("a")
	const hops = 5
	ctl := a.cq(control.CQ{LogSize: 6})
	control0 := a.qp(control.QP{LogSQ: 6}, ctl, ctl)
	control0.up(control0)
	k := a.full(64*(hops+1), 0)
	clear(k.mem)
	var from, to [hops]*end
	var arrived [hops]*poller
	for i := range hops {
		c := a.cq(control.CQ{LogSize: 6})
		arrived[i] = a.cq(control.CQ{LogSize: 6})
		from[i] = a.qp(control.QP{Managed: 1}, c, c)
		to[i] = a.qp(control.QP{}, c, arrived[i])
		from[i].up(to[i])
		to[i].up(from[i])
		to[i].recv(k.data(64*(i+1), 64))
		from[i].post(ctrl(wqe.OpSend), k.data(64*i, 64))
	}
	for i := range hops {
		if i > 0 {
			control0.write(silent(wqe.OpWait), wait(arrived[i-1], 1))
		}
		control0.write(silent(wqe.OpSendEn), wqe.Wait{Index: 1, Number: from[i].num})
	}
	r.settle()
	copy(k.mem, "carried on")
	control0.ring() // the only thing that the host does
	r.settle()
	require.Equal(t, "carried on", string(k.mem[64*hops:][:10]))
	for i := range hops {
		require.Equal(t, unharmed, arrived[i].one().Syndrome)
	}
}

// Fence modes change nothing, because a queue is executed in order.
func TestFences(t *testing.T) {
	s := newScene(t, Config{Slice: 64})
	binary.LittleEndian.PutUint64(s.far.mem, 100)
	for mode := range uint8(8) {
		s.p.write(silent(wqe.OpRDMARead), s.far.raddr(0), s.local.data(0, 100))
		s.p.post(wqe.Ctrl{Opcode: wqe.OpRDMAWrite, Flags: wqe.CEAlways | mode<<5}, s.far.raddr(100), s.local.data(0, 100))
		s.settle()
		s.p.good()
		s.same(s.far.mem[:100], s.far.mem[100:200], "read, then written")
		s.far.mem[0]++
	}
}
