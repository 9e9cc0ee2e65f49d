package engine

import (
	"fmt"
	"testing"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/fault"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// An xrc is an XRC connection: p sends to the target q, and s is an XSRQ of the target's domain.
type xrc struct {
	p, q   *end
	domain uint32
	s      *srqEnd
	cq     *poller // of s
}

const xsrqUIdx = 0x77

// newXRC makes p for the client a, and everything else for the client b.
func newXRC(a, b *host) *xrc { return newXRCWith(a, b, b) }

// newXRCWith makes p for a, q for b, and s for c, which shares b's domain.
func newXRCWith(a, b, c *host) *xrc {
	a.Helper()
	x := &xrc{domain: b.openXRCD(), cq: c.cq(control.CQ{LogSize: 6})}
	if c != b {
		require.NoError(a, c.c.JoinXRCD(x.domain))
	}
	scq := a.cq(control.CQ{LogSize: 6})
	x.p = a.qp(control.QP{Type: control.QPTypeXRC, NoReceive: 1}, scq, scq)
	x.q = b.target(x.domain)
	x.p.up(x.q)
	x.q.up(x.p)
	x.s = c.xsrq(control.XSRQ{XRCDN: x.domain, UserIndex: xsrqUIdx}, x.cq)
	return x
}

func (h *host) openXRCD() uint32 {
	h.Helper()
	var ans control.XRCD
	h.call(control.OpOpenXRCD, &control.Empty{}, &ans)
	return ans.XRCDN
}

func (h *host) target(domain uint32) *end {
	h.Helper()
	var ans control.QPN
	h.call(control.OpCreateTarget, &control.XRCD{XRCDN: domain}, &ans)
	return &end{h: h, num: ans.QPN, q: h.e.QPs[ans.QPN]}
}

func (h *host) openTarget(domain uint32, q *end) *end {
	h.Helper()
	h.call(control.OpOpenTarget, &control.Target{XRCDN: domain, QPN: q.num}, &control.Empty{})
	return &end{h: h, num: q.num, q: q.q}
}

// xsrq makes an XSRQ of 8 entries that completes on c.
func (h *host) xsrq(m control.XSRQ, c *poller) *srqEnd {
	h.Helper()
	m.LogSize, m.LogStride, m.PDN, m.CQN = 3, 6, h.pd, c.num
	s := &srqEnd{h: h, stride: 1 << m.LogStride}
	s.ring, m.Ring = h.take(1 << (m.LogSize + m.LogStride))
	s.rec, m.DBRec = h.take(4)
	var ans control.SRQN
	h.call(control.OpCreateXSRQ, &m, &ans)
	s.num, s.s = ans.SRQN, h.e.SRQs[ans.SRQN]
	for i := range uint16(1) << m.LogSize {
		s.link(i, i+1)
	}
	return s
}

// to is the segment that names the XSRQ.
func (x *xrc) to() wqe.XRC { return wqe.XRC{SRQN: x.s.num} }

// xrcHosts calls f with clients of an engine with one shard and of engines with several, where
// all three clients begin in shards of their own.
func xrcHosts(t *testing.T, f func(t *testing.T, a, b, c *host)) {
	t.Run("one shard", func(t *testing.T) {
		r := newRig(t, Config{})
		f(t, r.host("a"), r.host("b"), r.host("c"))
	})
	t.Run("three shards", func(t *testing.T) {
		r := newShards(t, Config{Cores: []int{0, 1, 2}, Stay: true})
		f(t, r.host("a"), r.host("b"), r.host("c"))
	})
}

// Every operation works from a client to the memory and the receives of another client, by the
// target of a third one.
func TestXRCOperations(t *testing.T) {
	xrcHosts(t, func(t *testing.T, a, b, c *host) {
		x := newXRCWith(a, b, c)
		require.Same(t, b.c.Shard, c.c.Shard, "the clients of a domain are in one shard")
		local, far := a.full(8192, 1), c.full(8192, 7)
		for i := range uint16(8) {
			x.s.put(i, far.data(4096+int(i)*256, 256))
		}
		x.s.post(7)
		received := func(op cqe.Opcode, n int) cqe.WC {
			t.Helper()
			w := x.cq.one()
			require.Equal(t, cqe.StatusSuccess, w.Status)
			require.Equal(t, uint32(n), w.ByteLen)
			require.Equal(t, x.q.num, w.QPN, "the target's number")
			require.Equal(t, uint32(xsrqUIdx), w.UIdx, "the user index of the SRQ")
			return w
		}
		sent := func(n int) {
			t.Helper()
			w := x.p.scq.one()
			require.Equal(t, cqe.StatusSuccess, w.Status, "%v", w.Syndrome)
			require.Equal(t, uint32(n), w.ByteLen)
			require.Equal(t, uint32(uidx), w.UIdx)
		}
		x.p.post(ctrl(wqe.OpSend), x.to(), local.data(0, 100))
		a.settle()
		received(cqe.RespSend, 100)
		sent(0)
		a.same(local.mem[:100], far.mem[4096:4196], "SEND")

		x.p.post(wqe.Ctrl{Opcode: wqe.OpSendImm, Flags: wqe.CEAlways, Imm: 0xa1b2c3d4}, x.to(), pattern(20, 3))
		a.settle()
		require.Equal(t, uint32(0xa1b2c3d4), received(cqe.RespSendImm, 20).Imm)
		sent(0)
		a.same(pattern(20, 3), far.mem[4096+256:][:20], "inline SEND")

		x.p.post(ctrl(wqe.OpRDMAWrite), x.to(), far.raddr(8), local.data(200, 3000))
		a.settle()
		sent(0)
		a.same(local.mem[200:3200], far.mem[8:3008], "WRITE")

		x.p.post(wqe.Ctrl{Opcode: wqe.OpRDMAWriteImm, Flags: wqe.CEAlways, Imm: 5}, x.to(), far.raddr(0), local.data(1, 8))
		a.settle()
		require.Equal(t, uint32(5), received(cqe.RespWriteImm, 8).Imm)
		sent(0)

		x.p.post(ctrl(wqe.OpRDMARead), x.to(), far.raddr(64), local.data(4000, 2000))
		a.settle()
		sent(2000)
		a.same(far.mem[64:2064], local.mem[4000:6000], "READ")

		was := append([]byte(nil), far.mem[8:16]...)
		x.p.post(ctrl(wqe.OpAtomicFA), x.to(), far.raddr(8), addFive, local.data(0, 8))
		a.settle()
		sent(8)
		a.same(was, local.mem[:8], "the old value")
		require.Equal(t, was[0]+5, far.mem[8])
		x.p.post(ctrl(wqe.OpAtomicMaskedCS), x.to(), far.raddr(8), wqe.MaskedCS8{}, local.data(0, 8))
		a.settle()
		sent(0) // libmlx5 knows no length for a masked atomic
		require.Equal(t, was[0]+5, local.mem[0])
		require.Equal(t, control.StateRTS, x.q.state())
	})
}

// Each message reaches the SRQ that it names, whichever the one before named.
func TestXRCSeveralSRQs(t *testing.T) {
	xrcHosts(t, func(t *testing.T, a, b, c *host) {
		x := newXRCWith(a, b, c)
		far := c.full(4096, 7)
		var srqs [2]*srqEnd
		for i := range srqs {
			srqs[i] = c.xsrq(control.XSRQ{XRCDN: x.domain, UserIndex: uint32(i)}, x.cq)
			srqs[i].put(0, far.data(i*128, 64))
			srqs[i].put(1, far.data(i*128+64, 64))
			srqs[i].post(2)
		}
		for n := range 4 {
			x.p.post(ctrl(wqe.OpSend), wqe.XRC{SRQN: srqs[n%2].num}, pattern(10+n, byte(n)))
		}
		a.settle()
		require.Len(t, x.p.scq.all(), 4)
		for n, w := range x.cq.all() {
			require.Equal(t, cqe.StatusSuccess, w.Status)
			require.Equal(t, uint32(n%2), w.UIdx)
			require.Equal(t, uint32(10+n), w.ByteLen)
			a.same(pattern(10+n, byte(n)), far.mem[n%2*128+n/2*64:][:10+n], "the message")
		}
	})
}

// When a target goes to a client of another user, the rules of the first user no longer act on it.
func TestXRCTargetLeavesRules(t *testing.T) {
	r := newRig(t, Config{})
	a, b, c := r.host("a"), r.host("b"), r.host("c")
	x := newXRC(a, b)
	require.NoError(t, c.c.JoinXRCD(x.domain))
	c.openTarget(x.domain, x.q)
	rules := func(h *host, uid uint32, rule fault.Rule) {
		h.asUser(uid)
		setter := r.host("setter").asUser(uid)
		set, err := fault.NewSet(&fault.Rules{Rules: []fault.Rule{rule}})
		require.NoError(t, err)
		f := h.c.Device.SetFaults(set, setter.c.Client)
		t.Cleanup(func() { h.c.Device.EndFaults(f) })
	}
	rules(b, 4711, fault.Rule{Cut: fault.Forever})
	require.True(t, x.q.q.Faults.OnPackets())
	require.NoError(t, b.c.Close())
	require.Same(t, c.c.Client, x.q.q.Client)
	require.Nil(t, x.q.q.Faults)
	rules(c, 4712, fault.Rule{RNR: 1})
	require.True(t, x.q.q.Faults.OnWQEs())
	require.False(t, x.q.q.Faults.OnPackets())
}

// A target that goes to a client of another user obeys the rules of that user from then on.
func TestXRCTargetGetsRules(t *testing.T) {
	r := newRig(t, Config{})
	a, b, c := r.host("a"), r.host("b").asUser(4711), r.host("c").asUser(4712)
	x := newXRC(a, b)
	require.NoError(t, c.c.JoinXRCD(x.domain))
	c.openTarget(x.domain, x.q)
	set, err := fault.NewSet(&fault.Rules{Rules: []fault.Rule{{RNR: 1}}})
	require.NoError(t, err)
	f := c.c.Device.SetFaults(set, c.c.Client)
	defer c.c.Device.EndFaults(f)
	require.Nil(t, x.q.q.Faults)
	require.NoError(t, b.c.Close())
	require.True(t, x.q.q.Faults.OnWQEs())
}

// A message for an SRQ without receives waits, and others do not wait with it.
func TestXRCWaitsForReceive(t *testing.T) {
	xrcHosts(t, func(t *testing.T, a, b, c *host) {
		x := newXRCWith(a, b, c)
		other := newXRCWith(a, b, c)
		far := c.full(4096, 7)
		x.p.post(ctrl(wqe.OpSend), x.to(), pattern(9, 1))
		a.settle()
		require.Equal(t, object.NotReady, x.p.q.Stall.Kind)
		other.s.put(0, far.data(0, 64))
		other.s.post(1)
		other.p.post(ctrl(wqe.OpSend), other.to(), pattern(9, 2))
		a.settle()
		require.Equal(t, cqe.StatusSuccess, other.p.scq.one().Status)
		x.cq.none()
		x.s.put(0, far.data(100, 64))
		x.s.post(1)
		a.settle()
		require.Equal(t, uint32(9), x.cq.one().ByteLen)
		require.Equal(t, cqe.StatusSuccess, x.p.scq.one().Status)
		a.same(pattern(9, 1), far.mem[100:109], "the message")

		// The SRQ goes while a message waits for it.
		x.p.post(ctrl(wqe.OpSend), x.to(), pattern(9, 1))
		a.settle()
		c.call(control.OpDestroySRQ, &control.SRQN{SRQN: x.s.num}, &control.Empty{})
		a.settle()
		require.Equal(t, cqe.RemoteInvalidRequest, x.p.scq.one().Syndrome)
		require.Equal(t, control.StateERR, x.q.state())
	})
}

// Mistakes of a target's clients have the syndromes of a reliable connection.
func TestXRCFaults(t *testing.T) {
	for _, row := range []struct {
		name    string
		send    cqe.Syndrome
		receive cqe.Syndrome // 0: no receive fails
		event   control.EventKind
		do      func(x *xrc, local, far *key)
	}{
		{"no such SRQ", cqe.RemoteInvalidRequest, 0, control.EventInvalidRequest, func(x *xrc, local, far *key) {
			x.p.post(ctrl(wqe.OpSend), wqe.XRC{SRQN: x.s.num ^ 1}, local.data(0, 8))
		}},
		{"an ordinary SRQ", cqe.RemoteInvalidRequest, 0, control.EventInvalidRequest, func(x *xrc, local, far *key) {
			x.p.post(ctrl(wqe.OpRDMAWrite), wqe.XRC{SRQN: x.q.h.srq(control.SRQ{}).num}, far.raddr(0), local.data(0, 8))
		}},
		{"an SRQ of another domain", cqe.RemoteInvalidRequest, 0, control.EventInvalidRequest, func(x *xrc, local, far *key) {
			other := x.q.h.xsrq(control.XSRQ{XRCDN: x.q.h.openXRCD()}, x.q.h.cq(control.CQ{}))
			x.p.post(ctrl(wqe.OpRDMARead), wqe.XRC{SRQN: other.num}, far.raddr(0), local.data(0, 8))
		}},
		{"a receive that is too short", cqe.RemoteInvalidRequest, cqe.LocalLength, 0, func(x *xrc, local, far *key) {
			x.s.put(0, far.data(0, 7))
			x.s.post(1)
			x.p.post(ctrl(wqe.OpSend), x.to(), local.data(0, 8))
		}},
		{"a receive with a key of the target's client", cqe.RemoteOperation, cqe.LocalProtection, 0, func(x *xrc, local, far *key) {
			x.s.put(0, x.q.h.full(64, 1).data(0, 64))
			x.s.post(1)
			x.p.post(ctrl(wqe.OpSend), x.to(), local.data(0, 8))
		}},
		{"a remote key of the target's client", cqe.RemoteAccess, 0, control.EventAccessError, func(x *xrc, local, far *key) {
			x.p.post(ctrl(wqe.OpRDMAWrite), x.to(), x.q.h.full(64, 1).raddr(0), local.data(0, 8))
		}},
		{"a remote key of another domain of the SRQ's client", cqe.RemoteAccess, 0, control.EventAccessError, func(x *xrc, local, far *key) {
			rkey := x.s.h.reg(x.s.h.allocPD(), far.addr, 64, control.AccessAll&^control.AccessZeroBased)
			x.p.post(ctrl(wqe.OpRDMAWrite), x.to(), wqe.Raddr{RKey: rkey, Addr: far.addr}, local.data(0, 8))
		}},
		{"a receive with a key of another domain", cqe.RemoteOperation, cqe.LocalProtection, 0, func(x *xrc, local, far *key) {
			lkey := x.s.h.reg(x.s.h.allocPD(), far.addr, 64, control.AccessLocalWrite)
			x.s.put(0, wqe.Data{ByteCount: 64, LKey: lkey, Addr: far.addr})
			x.s.post(1)
			x.p.post(ctrl(wqe.OpSend), x.to(), local.data(0, 8))
		}},
		{"no right of the target", cqe.RemoteInvalidRequest, 0, control.EventInvalidRequest, func(x *xrc, local, far *key) {
			x.q.modify(control.QPAttr{QPN: x.q.num, Mask: control.AttrAccess, Access: control.AccessRemoteRead})
			x.p.post(ctrl(wqe.OpRDMAWrite), x.to(), far.raddr(0), local.data(0, 8))
		}},
		{"a local key of nobody", cqe.LocalProtection, 0, 0, func(x *xrc, local, far *key) {
			x.p.post(ctrl(wqe.OpSend), x.to(), wqe.Data{ByteCount: 8, LKey: local.key ^ 1, Addr: local.addr})
		}},
		{"no XRC segment", cqe.LocalQPOp, 0, 0, func(x *xrc, local, far *key) { x.p.post(ctrl(wqe.OpSend)) }},
		{"SEND_INVAL", cqe.TransportRetry, cqe.RemoteInvalidRequest, control.EventInvalidRequest, func(x *xrc, local, far *key) {
			x.s.put(0, far.data(0, 64))
			x.s.post(1)
			x.p.post(wqe.Ctrl{Opcode: wqe.OpSendInval, Flags: wqe.CEAlways, Imm: far.key}, x.to(), local.data(0, 8))
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			xrcHosts(t, func(t *testing.T, a, b, c *host) {
				events := b.events()
				x := newXRCWith(a, b, c)
				row.do(x, a.full(64, 1), c.full(64, 7))
				a.expire()
				require.Equal(t, row.send, x.p.scq.one().Syndrome)
				require.Equal(t, control.StateERR, x.p.state())
				list := x.cq.all()
				if row.receive == 0 {
					require.Empty(t, list)
				} else {
					require.Len(t, list, 1)
					require.Equal(t, row.receive, list[0].Syndrome)
					require.Equal(t, uint32(xsrqUIdx), list[0].UIdx)
					require.Equal(t, x.q.num, list[0].QPN)
				}
				var want []happening
				if row.send != cqe.LocalProtection && row.send != cqe.LocalQPOp {
					require.Equal(t, control.StateERR, x.q.state())
				} else {
					require.Equal(t, control.StateRTS, x.q.state())
				}
				if row.event != 0 {
					want = []happening{{row.event, x.q.num}}
				}
				require.Equal(t, want, happened(events))
			})
		})
	}
}

// A queue pair that sends is no target, and a target sends nothing.
func TestXRCSides(t *testing.T) {
	r := newRig(t, Config{})
	a, b := r.host("a"), r.host("b")
	ca, cb := a.cq(control.CQ{LogSize: 4}), b.cq(control.CQ{LogSize: 4})
	p, q := a.qp(control.QP{Type: control.QPTypeXRC, NoReceive: 1}, ca, ca), b.qp(control.QP{Type: control.QPTypeXRC, NoReceive: 1}, cb, cb)
	p.up(q)
	q.up(p)
	// An ordinary SRQ is of no domain either.
	p.post(ctrl(wqe.OpSend), wqe.XRC{SRQN: b.srq(control.SRQ{}).num}, pattern(8, 1))
	r.settle()
	require.Equal(t, cqe.RemoteInvalidRequest, p.scq.one().Syndrome)

	// An RC queue pair does not reach a target.
	x := newXRC(a, b)
	rc := a.qp(control.QP{}, ca, ca)
	rc.up(x.q)
	rc.post(ctrl(wqe.OpSend), pattern(8, 1))
	r.expire()
	require.Equal(t, cqe.TransportRetry, ca.one().Syndrome)
	require.Equal(t, control.StateRTS, x.q.state())
}

// A long transfer into memory of an XSRQ's client ends when the XSRQ is destroyed, and an
// ordinary end of the client ends it too.
func TestXRCEndsUnderWay(t *testing.T) {
	for name, end := range map[string]func(x *xrc, c *host){
		"the SRQ":    func(x *xrc, c *host) { c.call(control.OpDestroySRQ, &control.SRQN{SRQN: x.s.num}, &control.Empty{}) },
		"its client": func(x *xrc, c *host) { _ = c.c.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Config{Slice: 64})
			a, b, c := r.host("a"), r.host("b"), r.host("c")
			x := newXRCWith(a, b, c)
			local, far := a.full(8192, 1), c.full(8192, 7)
			x.s.put(0, far.data(0, 8192))
			x.s.post(1)
			x.p.post(ctrl(wqe.OpSend), x.to(), local.data(0, 8192))
			r.step()
			r.step()
			require.Equal(t, 1, underWay(r.e))
			end(x, c)
			r.settle()
			require.Equal(t, cqe.RemoteInvalidRequest, x.p.scq.one().Syndrome)
			require.Equal(t, 0, underWay(r.e))
		})
	}
}

// A domain, and a target, last as long as one client has them.
func TestXRCDomains(t *testing.T) {
	for _, shards := range []int{1, 3} {
		t.Run(fmt.Sprint(shards, " shards"), func(t *testing.T) {
			r := newShards(t, Config{Cores: []int{0, 1, 2}[:shards]})
			a, b, c, d := r.host("a"), r.host("b"), r.host("c"), r.host("d")
			x := newXRC(a, b)
			require.ErrorIs(t, c.c.JoinXRCD(x.domain+1), &control.Error{Code: control.CodeNotFound})
			c.refused(control.CodeNotFound, "XRC domain", control.OpOpenTarget, &control.Target{XRCDN: x.domain, QPN: x.q.num}, nil)
			c.refused(control.CodeNotFound, "XRC domain", control.OpCreateTarget, &control.XRCD{XRCDN: x.domain}, nil)
			c.refused(control.CodeNotFound, "XRC domain", control.OpCloseXRCD, &control.XRCD{XRCDN: x.domain}, nil)
			require.NoError(t, c.c.JoinXRCD(x.domain))
			require.NoError(t, c.c.JoinXRCD(x.domain))
			require.NoError(t, d.c.JoinXRCD(x.domain))
			for _, h := range []*host{c, d} {
				require.Same(t, b.c.Shard, h.c.Shard)
			}
			c.refused(control.CodeNotFound, "target", control.OpOpenTarget, &control.Target{XRCDN: x.domain, QPN: x.p.num}, nil)
			own := c.openTarget(x.domain, x.q)
			c.refused(control.CodeBusy, "already", control.OpOpenTarget, &control.Target{XRCDN: x.domain, QPN: x.q.num}, nil)
			s := c.xsrq(control.XSRQ{XRCDN: x.domain}, c.cq(control.CQ{LogSize: 4}))
			c.call(control.OpCloseXRCD, &control.XRCD{XRCDN: x.domain}, &control.Empty{})
			c.refused(control.CodeBusy, "2 queues", control.OpCloseXRCD, &control.XRCD{XRCDN: x.domain}, nil)
			b.refused(control.CodeBusy, "queue", control.OpDestroyCQ, &control.CQN{CQN: x.cq.num}, nil)
			b.refused(control.CodeBusy, "queue", control.OpDeallocPD, &control.PD{PDN: b.pd}, nil)

			// Events of the target go to all clients that have it.
			events, others := b.events(), c.events()
			x.p.post(ctrl(wqe.OpRDMAWrite), wqe.XRC{SRQN: s.num}, wqe.Raddr{}, pattern(8, 1))
			r.settle()
			want := []happening{{control.EventAccessError, x.q.num}}
			require.Equal(t, want, happened(events))
			require.Equal(t, want, happened(others))

			// The target outlives the client that has made it, and works for the others.
			_ = b.c.Close()
			require.Same(t, c.c.Client, x.q.q.Client)
			own.toState(control.StateRST)
			x.p.toState(control.StateRST)
			x.p.sent = 0
			x.p.ring()
			x.p.up(own)
			own.up(x.p)
			far := c.full(64, 1)
			s.put(0, far.data(0, 64))
			s.post(1)
			x.p.post(ctrl(wqe.OpSend), wqe.XRC{SRQN: s.num}, pattern(8, 1))
			r.settle()
			require.Equal(t, cqe.StatusSuccess, x.p.scq.all()[1].Status)
			last := d.openTarget(x.domain, own)
			own.destroy()
			require.Same(t, d.c.Client, last.q.Client)
			c.refused(control.CodeNotFound, "QP", control.OpQueryQP, &control.QPN{QPN: own.num}, nil)
			last.destroy()
			require.Nil(t, r.e.QPs[own.num])
			c.call(control.OpDestroySRQ, &control.SRQN{SRQN: s.num}, &control.Empty{})
			c.call(control.OpCloseXRCD, &control.XRCD{XRCDN: x.domain}, &control.Empty{})
			_ = d.c.Close()
			require.Empty(t, r.e.XRCDs)
		})
	}
}

// A full completion queue of an XSRQ puts the target into error.
func TestXRCOverrun(t *testing.T) {
	r := newRig(t, Config{})
	a, b := r.host("a"), r.host("b")
	x := newXRC(a, b)
	small := b.cq(control.CQ{})
	s := b.xsrq(control.XSRQ{XRCDN: x.domain}, small)
	for i := range uint16(3) {
		s.put(i)
	}
	s.post(3)
	for range 2 {
		x.p.post(ctrl(wqe.OpSend), wqe.XRC{SRQN: s.num})
	}
	r.settle()
	list := x.p.scq.all()
	require.Equal(t, []cqe.Syndrome{0, cqe.RemoteOperation}, []cqe.Syndrome{list[0].Syndrome, list[1].Syndrome})
	require.Equal(t, control.StateERR, x.q.state())
	b.refused(control.CodeState, "overrun", control.OpCreateXSRQ, &control.XSRQ{XRCDN: x.domain, CQN: small.num}, nil)
}
