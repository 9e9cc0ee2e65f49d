package engine

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/execution"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

const (
	dcKey   = 0x1122334455667788
	dctUIdx = 0x66
)

// A dct is a queue pair that receives, with its SRQ and its CQ.
type dct struct {
	*end
	s  *srqEnd
	cq *poller
}

// dct makes a DCT in RTR.
func (h *host) dct() *dct {
	h.Helper()
	d := &dct{s: h.srq(control.SRQ{}), cq: h.cq(control.CQ{LogSize: 6})}
	d.end = h.dctOf(control.DCT{PDN: h.pd, SRQN: d.s.num, CQN: d.cq.num, UserIndex: dctUIdx, Key: dcKey})
	d.modify(d.toInit())
	d.modify(d.toRTR(0))
	return d
}

func (h *host) dctOf(m control.DCT) *end {
	h.Helper()
	var ans control.QPN
	h.call(control.OpCreateDCT, &m, &ans)
	return &end{h: h, num: ans.QPN, q: h.e.QPs[ans.QPN]}
}

// dci makes a DCI in RTS.
func (h *host) dci(streams uint8) *end {
	h.Helper()
	scq := h.cq(control.CQ{LogSize: 6})
	p := h.qp(control.QP{Type: control.QPTypeDCI, NoReceive: 1, Streams: streams}, scq, scq)
	p.dciUp()
	return p
}

func (p *end) dciUp() {
	p.h.Helper()
	p.modify(p.toInit())
	p.modify(p.toRTR(0))
	p.modify(p.toRTS())
}

// at and near are the address vector of d, full and compact.
func (d *dct) at() wqe.AV {
	return wqe.AV{CompactAV: wqe.CompactAV{Key: dcKey, Ext: true, DQP: d.num}, RMAC: [6]byte{2, 3, 4, 5, 6, 7}, RGID: [16]byte{0xfe}}
}

func (d *dct) near() wqe.CompactAV { return wqe.CompactAV{Key: dcKey, DQP: d.num} }

// Every operation works from one DCI to two DCTs in turn, with either form of the address vector.
func TestDCOperations(t *testing.T) {
	xrcHosts(t, func(t *testing.T, a, b, c *host) {
		p := a.dci(0)
		local := a.full(8192, 1)
		for i, h := range []*host{b, c, b, a} {
			d := h.dct()
			far := h.full(8192, 7)
			var to any = d.at()
			if i&1 != 0 {
				to = d.near()
			}
			for n := range uint16(4) {
				d.s.put(n, far.data(4096+int(n)*256, 256))
			}
			d.s.post(4)
			received := func(op cqe.Opcode, n int) cqe.WC {
				t.Helper()
				w := d.cq.one()
				require.Equal(t, cqe.StatusSuccess, w.Status)
				require.Equal(t, uint32(n), w.ByteLen)
				require.Equal(t, d.num, w.QPN, "the DCT's number")
				require.Equal(t, p.num, w.SrcQP, "the DCI's number")
				require.Equal(t, uint32(dctUIdx), w.UIdx)
				return w
			}
			sent := func(n int) {
				t.Helper()
				w := p.scq.one()
				require.Equal(t, cqe.StatusSuccess, w.Status, "%v", w.Syndrome)
				require.Equal(t, uint32(n), w.ByteLen)
				require.Equal(t, uint32(uidx), w.UIdx)
			}
			p.post(ctrl(wqe.OpSend), to, local.data(0, 100))
			a.settle()
			received(cqe.RespSend, 100)
			sent(0)
			a.same(local.mem[:100], far.mem[4096:4196], "SEND")

			p.post(wqe.Ctrl{Opcode: wqe.OpSendImm, Flags: wqe.CEAlways, Imm: 0xa1b2c3d4}, to, pattern(20, 3))
			a.settle()
			require.Equal(t, uint32(0xa1b2c3d4), received(cqe.RespSendImm, 20).Imm)
			sent(0)
			a.same(pattern(20, 3), far.mem[4096+256:][:20], "inline SEND")

			p.post(ctrl(wqe.OpRDMAWrite), to, far.raddr(8), local.data(200, 3000))
			a.settle()
			sent(0)
			a.same(local.mem[200:3200], far.mem[8:3008], "WRITE")

			p.post(wqe.Ctrl{Opcode: wqe.OpRDMAWriteImm, Flags: wqe.CEAlways, Imm: 5}, to, far.raddr(0), local.data(1, 8))
			a.settle()
			require.Equal(t, uint32(5), received(cqe.RespWriteImm, 8).Imm)
			sent(0)

			p.post(ctrl(wqe.OpRDMARead), to, far.raddr(64), local.data(4000, 2000))
			a.settle()
			sent(2000)
			a.same(far.mem[64:2064], local.mem[4000:6000], "READ")

			was := append([]byte(nil), far.mem[8:16]...)
			p.post(ctrl(wqe.OpAtomicFA), to, far.raddr(8), addFive, local.data(0, 8))
			a.settle()
			sent(8)
			a.same(was, local.mem[:8], "the old value")
			require.Equal(t, was[0]+5, far.mem[8])
			p.post(ctrl(wqe.OpAtomicMaskedCS), to, far.raddr(8), wqe.MaskedCS8{}, local.data(0, 8))
			a.settle()
			sent(0)
			require.Equal(t, was[0]+5, local.mem[0])
			copy(was, far.mem[12:16])
			p.post(wqe.Ctrl{Opcode: wqe.OpAtomicMaskedFA, OpMod: 8, Flags: wqe.CEAlways}, to, far.raddr(12),
				wqe.MaskedFA4{Add: 1 << 8}, local.data(0, 4))
			a.settle()
			sent(0)
			require.Equal(t, binary.LittleEndian.Uint32(was), binary.BigEndian.Uint32(local.mem), "the old value of 4 bytes")
			require.Equal(t, was[1]+1, far.mem[13])
			require.Equal(t, control.StateRTR, d.state())
		}
	})
}

// WQEs for different DCTs in one visit go each to its own, and one DCT serves many DCIs.
func TestDCCrosses(t *testing.T) {
	xrcHosts(t, func(t *testing.T, a, b, c *host) {
		d, f := b.dct(), c.dct()
		db, fb := b.full(64, 7), c.full(64, 9)
		ps := []*end{a.dci(0), c.dci(0)}
		for i, p := range ps {
			for n := range byte(4) {
				to, far := d, db
				if n&1 != 0 {
					to, far = f, fb
				}
				p.post(ctrl(wqe.OpRDMAWrite), to.at(), far.raddr(8*i+int(n)), []byte{0x10*byte(i+1) + n})
			}
		}
		a.settle()
		for i, p := range ps {
			require.Len(t, p.scq.all(), 4)
			require.Equal(t, byte(0x10*(i+1)), db.mem[8*i])
			require.Equal(t, byte(0x10*(i+1)+2), db.mem[8*i+2])
			require.Equal(t, byte(0x10*(i+1)+1), fb.mem[8*i+1])
			require.Equal(t, byte(0x10*(i+1)+3), fb.mem[8*i+3])
		}
	})
}

// A WQE without an answer fails when the retries have run out, whatever is wrong with the address.
// The next address is checked anew.
func TestDCNobodyAnswers(t *testing.T) {
	for name, row := range map[string]struct {
		code string
		to   func(d *dct) any
	}{
		"another key":         {"dc-key", func(d *dct) any { to := d.at(); to.Key++; return to }},
		"a key in host order": {"dc-key", func(d *dct) any { to := d.at(); to.Key = 0x8877665544332211; return to }},
		"another number":      {"dc-nobody", func(d *dct) any { to := d.at(); to.DQP ^= 1; return to }},
		"an RC queue pair": {"dc-nobody", func(d *dct) any {
			to, c := d.at(), d.h.cq(control.CQ{})
			to.DQP = d.h.qp(control.QP{}, c, c).num
			return to
		}},
		"a DCT in INIT": {"dc-nobody", func(d *dct) any {
			to := d.at()
			x := d.h.dctOf(control.DCT{PDN: d.h.pd, SRQN: d.s.num, CQN: d.cq.num, Key: dcKey})
			x.modify(x.toInit())
			to.DQP = x.num
			return to
		}},
		"a DCT that has ended": {"dc-nobody", func(d *dct) any { d.destroy(); return d.at() }},
		"an empty vector":      {"dc-nobody", func(d *dct) any { return wqe.AV{CompactAV: wqe.CompactAV{Ext: true}} }},
		"the GID of nobody": {"dc-nobody", func(d *dct) any {
			require.NoError(d.h, d.h.c.SetGIDs([]nic.GID{{Addr: [16]byte{1}}}))
			return d.at()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			xrcHosts(t, func(t *testing.T, a, b, c *host) {
				p, d := a.dci(0), b.dct()
				events, others := a.events(), b.events()
				far := b.full(64, 7)
				p.post(ctrl(wqe.OpRDMAWrite), row.to(d), far.raddr(0), pattern(8, 1))
				p.post(ctrl(wqe.OpRDMAWrite), d.at(), far.raddr(0), pattern(8, 1))
				a.settle()
				require.Equal(t, object.NoPeer, p.q.Stall.Kind)
				p.scq.none()
				a.expire()
				list := p.scq.all()
				require.Len(t, list, 2)
				require.Equal(t, cqe.TransportRetry, list[0].Syndrome)
				require.Equal(t, cqe.Flush, list[1].Syndrome)
				require.Equal(t, control.StateERR, p.state())
				ev := events()
				require.NotNil(t, ev)
				require.Equal(t, row.code, string(bytes.TrimRight(ev.Code[:], "\x00")))
				require.Nil(t, others(), "nobody else is told")
				far.intact()
				require.Equal(t, b.full(64, 7).mem, far.mem)
			})
		})
	}
}

// A WQE that waits for a DCT goes on when the DCT is there, and one for a receive when it is posted.
func TestDCWaits(t *testing.T) {
	xrcHosts(t, func(t *testing.T, a, b, c *host) {
		p := a.dci(0)
		d := &dct{s: b.srq(control.SRQ{}), cq: b.cq(control.CQ{LogSize: 4})}
		d.end = b.dctOf(control.DCT{PDN: b.pd, SRQN: d.s.num, CQN: d.cq.num, Key: dcKey})
		p.post(ctrl(wqe.OpSend), d.at(), pattern(9, 1))
		a.settle()
		require.Equal(t, object.NoPeer, p.q.Stall.Kind)
		d.modify(d.toInit())
		d.modify(d.toRTR(0))
		a.settle()
		require.Equal(t, object.NotReady, p.q.Stall.Kind)
		far := b.full(64, 7)
		d.s.put(0, far.data(0, 64))
		d.s.post(1)
		a.settle()
		require.Equal(t, cqe.StatusSuccess, p.scq.one().Status)
		require.Equal(t, uint32(9), d.cq.one().ByteLen)
		a.same(pattern(9, 1), far.mem[:9], "the message")

		// The DCT goes while a message waits for a receive: then there is no peer.
		p.post(ctrl(wqe.OpSend), d.at(), pattern(9, 1))
		a.settle()
		require.Equal(t, object.NotReady, p.q.Stall.Kind)
		d.destroy()
		a.settle()
		require.Equal(t, object.NoPeer, p.q.Stall.Kind)
		a.expire()
		require.Equal(t, cqe.TransportRetry, p.scq.one().Syndrome)
	})
}

// Requests that a DCT refuses have the syndromes of a reliable connection. The DCT goes on, without
// events.
func TestDCFaults(t *testing.T) {
	for _, row := range []struct {
		name    string
		send    cqe.Syndrome
		receive cqe.Syndrome // 0: no receive fails
		do      func(p *end, d *dct, local, far *key)
	}{
		{"a receive that is too short", cqe.RemoteInvalidRequest, cqe.LocalLength, func(p *end, d *dct, local, far *key) {
			d.s.put(0, far.data(0, 7))
			d.s.post(1)
			p.post(ctrl(wqe.OpSend), d.at(), local.data(0, 8))
		}},
		{"a receive with a key of the sender", cqe.RemoteOperation, cqe.LocalProtection, func(p *end, d *dct, local, far *key) {
			d.s.put(0, local.data(0, 64))
			d.s.post(1)
			p.post(ctrl(wqe.OpSend), d.at(), local.data(0, 8))
		}},
		{"a remote key of the sender", cqe.RemoteAccess, 0, func(p *end, d *dct, local, far *key) {
			p.post(ctrl(wqe.OpRDMAWrite), d.at(), local.raddr(0), local.data(0, 8))
		}},
		{"no right of the DCT", cqe.RemoteInvalidRequest, 0, func(p *end, d *dct, local, far *key) {
			x := &dct{end: d.h.dctOf(control.DCT{PDN: d.h.pd, SRQN: d.s.num, CQN: d.cq.num, Key: dcKey})}
			init := x.toInit()
			init.Access = control.AccessRemoteRead
			x.modify(init)
			x.modify(x.toRTR(0))
			p.post(ctrl(wqe.OpRDMAWrite), x.at(), far.raddr(0), local.data(0, 8))
		}},
		{"a local key of nobody", cqe.LocalProtection, 0, func(p *end, d *dct, local, far *key) {
			p.post(ctrl(wqe.OpSend), d.at(), wqe.Data{ByteCount: 8, LKey: local.key ^ 1, Addr: local.addr})
		}},
		{"no address vector", cqe.LocalQPOp, 0, func(p *end, d *dct, local, far *key) { p.post(ctrl(wqe.OpSend)) }},
		{"a full vector that is cut off", cqe.LocalQPOp, 0, func(p *end, d *dct, local, far *key) {
			to := d.near()
			to.Ext = true
			p.post(ctrl(wqe.OpSend), to, local.data(0, 8))
		}},
		{"SEND_INVAL of no window", cqe.RemoteInvalidRequest, 0, func(p *end, d *dct, local, far *key) {
			d.s.put(0, far.data(0, 64))
			d.s.post(1)
			p.post(wqe.Ctrl{Opcode: wqe.OpSendInval, Flags: wqe.CEAlways, Imm: far.key}, d.at(), local.data(0, 8))
		}},
		{"an atomic that is not aligned", cqe.RemoteInvalidRequest, 0, func(p *end, d *dct, local, far *key) {
			p.post(ctrl(wqe.OpAtomicFA), d.at(), far.raddr(4), addFive, local.data(0, 8))
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			xrcHosts(t, func(t *testing.T, a, b, c *host) {
				events := b.events()
				p, d := a.dci(0), b.dct()
				far := b.full(64, 7)
				row.do(p, d, a.full(64, 1), far)
				a.settle()
				require.Equal(t, row.send, p.scq.one().Syndrome)
				require.Equal(t, control.StateERR, p.state())
				list := d.cq.all()
				if row.receive == 0 {
					require.Empty(t, list)
				} else {
					require.Len(t, list, 1)
					require.Equal(t, row.receive, list[0].Syndrome)
					require.Equal(t, uint32(dctUIdx), list[0].UIdx)
					require.Equal(t, d.num, list[0].QPN)
				}
				require.Empty(t, happened(events))
				require.Equal(t, control.StateRTR, d.state())
				q := c.dci(0)
				q.post(ctrl(wqe.OpRDMAWrite), d.at(), far.raddr(0), pattern(8, 1))
				a.settle()
				require.Equal(t, cqe.StatusSuccess, q.scq.one().Status, "the DCT serves others")
			})
		})
	}
}

// A long transfer ends when the DCT goes, and nothing is written afterwards.
func TestDCEndsUnderWay(t *testing.T) {
	for name, end := range map[string]func(d *dct){
		"the DCT":    func(d *dct) { d.destroy() },
		"its client": func(d *dct) { _ = d.h.c.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Config{Slice: 64})
			a, b := r.host("a"), r.host("b")
			p, d := a.dci(0), b.dct()
			local, far := a.full(8192, 1), b.full(8192, 7)
			p.post(ctrl(wqe.OpRDMAWrite), d.at(), far.raddr(0), local.data(0, 8192))
			r.step()
			r.step()
			require.Equal(t, 1, underWay(r.e))
			end(d)
			was := append([]byte(nil), far.mem...)
			r.expire()
			require.Equal(t, cqe.TransportRetry, p.scq.one().Syndrome)
			require.Equal(t, 0, underWay(r.e))
			require.Equal(t, was, far.mem)
		})
	}
}

// A fault ends a stream, and the queue pair when as many have failed as it tolerates.
func TestDCStreams(t *testing.T) {
	xrcHosts(t, func(t *testing.T, a, b, c *host) {
		p, d := a.dci(2), b.dct()
		local, far := a.full(64, 1), b.full(64, 7)
		post := func(stream uint16, good bool) cqe.Syndrome {
			t.Helper()
			data := local.data(0, 8)
			if !good {
				data.LKey ^= 1
			}
			p.post(wqe.Ctrl{Opcode: wqe.OpRDMAWrite, Flags: wqe.CEAlways, Stream: stream}, d.at(), far.raddr(0), data)
			a.settle()
			return p.scq.one().Syndrome
		}
		require.Equal(t, cqe.LocalProtection, post(1, false))
		require.Equal(t, cqe.Flush, post(1, true), "the stream has failed")
		require.Equal(t, cqe.Flush, post(1, false), "and does not fail twice")
		require.Zero(t, post(2, true), "another stream goes on")
		reset := func(q *end, stream uint16) error { return a.c.ResetStream(q.num, stream) }
		require.ErrorContains(t, reset(p, 2), "has not failed")
		require.NoError(t, reset(p, 1))
		require.ErrorContains(t, reset(p, 1), "has not failed")
		require.Zero(t, post(1, true), "the stream has been reset")
		require.ErrorContains(t, b.c.ResetStream(p.num, 1), "QP", "of another client")
		require.ErrorContains(t, reset(&end{num: p.num ^ 0xffff}, 1), "QP")
		for stream := range uint16(3) {
			require.Equal(t, cqe.LocalProtection, post(0x1000+stream, false))
		}
		require.Equal(t, control.StateRTS, p.state())
		require.Equal(t, cqe.LocalProtection, post(7, false), "the fourth stream that fails")
		require.Equal(t, control.StateERR, p.state())
		require.Equal(t, cqe.Flush, post(2, true))
		require.ErrorContains(t, reset(p, 7), "RTS")
		p.toState(control.StateRST)
		p.sent = 0
		p.ring()
		p.dciUp()
		require.Zero(t, post(7, true), "the queue pair has been reset")

		// Without streams the first fault ends the queue pair.
		p = a.dci(0)
		require.Equal(t, cqe.LocalProtection, post(1, false))
		require.Equal(t, control.StateERR, p.state())
	})
}

// Requests that no DCT or DCI can be made of, and transitions that they do not have, are refused.
func TestDCRefused(t *testing.T) {
	r := newRig(t, Config{})
	a, b := r.host("a"), r.host("b")
	x := newXRC(b, a)
	d := a.dct()
	good := control.DCT{PDN: a.pd, SRQN: d.s.num, CQN: d.cq.num, Key: 1}
	bad := func(code control.Code, text string, change func(m *control.DCT)) {
		t.Helper()
		m := good
		change(&m)
		a.refused(code, text, control.OpCreateDCT, &m, nil)
	}
	other := b.dct()
	bad(control.CodeNotFound, "PD", func(m *control.DCT) { m.PDN = 99 })
	bad(control.CodeNotFound, "SRQ", func(m *control.DCT) { m.SRQN = 0 })
	bad(control.CodeNotFound, "SRQ", func(m *control.DCT) { m.SRQN = other.s.num })
	bad(control.CodeNotFound, "CQ", func(m *control.DCT) { m.CQN = other.cq.num })
	bad(control.CodeInvalid, "XRC", func(m *control.DCT) { m.SRQN = x.s.num })
	bad(control.CodeInvalid, "user index", func(m *control.DCT) { m.UserIndex = 1 << 24 })
	a.refused(control.CodeBusy, "SRQ", control.OpDestroySRQ, &control.SRQN{SRQN: d.s.num}, nil)
	a.refused(control.CodeBusy, "CQ", control.OpDestroyCQ, &control.CQN{CQN: d.cq.num}, nil)
	require.Error(t, d.tryModify(d.toRTS()), "a DCT does not send")
	p := a.dci(0)
	require.Error(t, p.tryModify(control.QPAttr{QPN: p.num, Mask: control.AttrState, State: control.StateSQD}))
	d.destroy()
	a.call(control.OpDestroySRQ, &control.SRQN{SRQN: d.s.num}, &control.Empty{})
	a.call(control.OpDestroyCQ, &control.CQN{CQN: d.cq.num}, &control.Empty{})
}

// On InfiniBand the address vector names the port by its LID.
func TestDCOnInfiniBand(t *testing.T) {
	for name, row := range map[string]struct {
		lid  uint16
		want cqe.Syndrome
	}{"its LID": {0x12, 0}, "another": {0x13, cqe.TransportRetry}, "none": {0, cqe.TransportRetry}, "permissive": {execution.Permissive, cqe.TransportRetry}} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Config{})
			a := r.host("a").hosted(nic.Hosted{LID: 0x11})
			b := r.host("b").hosted(nic.Hosted{LID: 0x12})
			p, d := a.dci(0), b.dct()
			far := b.full(64, 7)
			to := d.near()
			to.RLID = row.lid
			p.post(ctrl(wqe.OpRDMAWrite), to, far.raddr(0), pattern(8, 1))
			r.expire()
			require.Equal(t, row.want, p.scq.one().Syndrome)
			if row.want == 0 {
				d.s.put(0, far.data(0, 64))
				d.s.post(1)
				p.post(ctrl(wqe.OpSend), to, pattern(8, 1))
				r.settle()
				w := d.cq.one()
				require.Equal(t, uint16(0x11), w.SLID, "by which the receiver may answer")
				require.Equal(t, p.num, w.SrcQP)
				require.Equal(t, uint32(8), w.ByteLen)
			}
			stranger := r.host("c").dci(0)
			stranger.post(ctrl(wqe.OpRDMAWrite), to, far.raddr(0), pattern(8, 1))
			r.expire()
			require.Equal(t, cqe.TransportRetry, stranger.scq.one().Syndrome, "from Ethernet")
		})
	}
}
