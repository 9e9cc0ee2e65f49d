package engine

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/states"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

const bothSides = control.ScatterRequester | control.ScatterResponder

// carrying makes a connected pair whose CQEs carry short data, in entries of 2^log bytes.
func carrying(t *testing.T, transport, log uint8) (p, q *end) {
	t.Helper()
	r := newRig(t, Config{})
	a, b := r.host("a"), r.host("b")
	ca, cb := a.cq(control.CQ{LogSize: 4, LogCQE: log}), b.cq(control.CQ{LogSize: 4, LogCQE: log})
	p, q = a.qp(control.QP{Type: transport, Scatter: bothSides}, ca, ca), b.qp(control.QP{Type: transport, Scatter: bothSides}, cb, cb)
	p.up(q)
	q.up(p)
	return p, q
}

// carried returns the data in the next completion, and the completion.
func (c *poller) carried() (data []byte, w cqe.WC) {
	c.h.Helper()
	at := c.ci & (1<<c.log - 1) * c.entry
	slot := bytes.Clone(c.ring[at:][:c.entry])
	w, _, ok := c.next()
	require.True(c.h, ok, "a completion")
	if c.entry == cqe.Size128 {
		data, ok = cqe.Inline128((*[cqe.Size128]byte)(slot))
	} else {
		data, ok = cqe.Inline((*[cqe.Size]byte)(slot))
	}
	require.True(c.h, ok)
	return data, w
}

// Messages that fit are in the CQE and not in memory. Longer ones are in memory as usual.
func TestInlineMessages(t *testing.T) {
	for _, transport := range []uint8{control.QPTypeRC, control.QPTypeUC} {
		for log, most := range map[uint8]int{6: 32, 7: 64} {
			t.Run(fmt.Sprintf("%s, entries of 2^%d", states.Transports[transport].Name, log), func(t *testing.T) {
				p, q := carrying(t, transport, log)
				src, dst := p.h.full(8192, 1), q.h.key(8192, control.AccessLocalWrite)
				for _, n := range []int{1, 8, 31, 32, 33, 63, 64, 65, 4096} {
					for _, op := range []wqe.Opcode{wqe.OpSend, wqe.OpSendImm} {
						what := fmt.Sprintf("%v of %d bytes", op, n)
						clear(dst.mem)
						q.recv(dst.data(0, 5), dst.data(100, 8000))
						p.post(wqe.Ctrl{Opcode: op, Flags: wqe.CEAlways | wqe.FlagSolicited, Imm: 0x01020304}, src.data(7, n))
						p.h.settle()
						data, w := q.rcq.carried()
						require.Equal(t, cqe.StatusSuccess, w.Status, what)
						require.Equal(t, uint32(n), w.ByteLen, what)
						if op == wqe.OpSendImm {
							require.Equal(t, uint32(0x01020304), w.Imm, what)
						}
						if n <= most {
							p.h.same(src.mem[7:7+n], data, what+": the CQE")
							p.h.same(make([]byte, 8192), dst.mem, what+": memory")
						} else {
							require.Empty(t, data, what)
							p.h.same(src.mem[7:7+n], append(bytes.Clone(dst.mem[:5]), dst.mem[100:]...)[:n], what+": memory")
						}
						data, w = p.scq.carried()
						require.Equal(t, cqe.StatusSuccess, w.Status, what)
						require.Empty(t, data, what)
					}
				}
			})
		}
	}
}

// The bytes of an entry are those that libmlx5 expects: data in bytes 0 to 31, or in the first
// half of 128 bytes, and bits 3..2 of op_own.
func TestInlineBytes(t *testing.T) {
	for log, opOwn := range map[uint8]byte{6: 0x24, 7: 0x28} {
		p, q := carrying(t, control.QPTypeRC, log)
		src, dst := p.h.full(64, 1), q.h.key(64, control.AccessLocalWrite)
		q.recv(dst.data(0, 64))
		p.post(ctrl(wqe.OpSend), src.data(0, 9))
		p.h.settle()
		size := 1 << log
		b := q.rcq.ring[:size]
		require.Equal(t, src.mem[:9], b[:9])
		tail := b[size-64:]
		require.Equal(t, []byte{0, 0, 0, uidx}, tail[32:36], "uidx")
		require.Equal(t, []byte{0, 0, 0, 9}, tail[44:48], "byte_cnt")
		require.Equal(t, opOwn, tail[63], "op_own")
		if log == 6 {
			require.Equal(t, make([]byte, 15), b[9:24], "the bytes after the data")
		} else {
			require.Equal(t, make([]byte, 55), b[9:64], "the bytes after the data")
		}
	}
}

// Results of READs and atomics are in the CQE if the WQE asks for one.
func TestInlineResults(t *testing.T) {
	for log, most := range map[uint8]int{6: 32, 7: 64} {
		p, q := carrying(t, control.QPTypeRC, log)
		dst, src := p.h.key(8192, control.AccessLocalWrite), q.h.full(8192, 1)
		for _, n := range []int{1, 8, 32, 33, 64, 65, 4096} {
			clear(dst.mem)
			p.post(ctrl(wqe.OpRDMARead), src.raddr(16), dst.data(0, n))
			p.h.settle()
			data, w := p.scq.carried()
			require.Equal(t, cqe.StatusSuccess, w.Status)
			require.Equal(t, uint32(n), w.ByteLen)
			if n <= most {
				p.h.same(src.mem[16:16+n], data, "the CQE")
				p.h.same(make([]byte, 8192), dst.mem, "memory")
			} else {
				require.Empty(t, data)
				p.h.same(src.mem[16:16+n], dst.mem[:n], "memory")
			}
		}
		clear(dst.mem)
		p.post(silent(wqe.OpRDMARead), src.raddr(16), dst.data(0, 8))
		p.h.settle()
		p.h.same(src.mem[16:24], dst.mem[:8], "memory after an unsignaled READ")

		old := bytes.Clone(src.mem[8:16])
		p.post(ctrl(wqe.OpAtomicFA), src.raddr(8), addFive, dst.data(64, 8))
		p.h.settle()
		data, w := p.scq.carried()
		require.Equal(t, cqe.StatusSuccess, w.Status)
		require.Equal(t, old, data)
		require.Equal(t, make([]byte, 8), dst.mem[64:72])
		require.NotEqual(t, old, src.mem[8:16])

		// libmlx5 and hostpath refuse a result of a masked atomic in a CQE.
		old = bytes.Clone(src.mem[8:16])
		p.post(wqe.Ctrl{Opcode: wqe.OpAtomicMaskedFA, OpMod: wqe.OpMod8, Flags: wqe.CEAlways}, src.raddr(8), wqe.MaskedFA8{Add: 5}, dst.data(64, 8))
		p.h.settle()
		data, w = p.scq.carried()
		require.Equal(t, cqe.StatusSuccess, w.Status)
		require.Empty(t, data)
		require.Equal(t, old, dst.mem[64:72])
	}
}

// Data for keys whose addresses are not the client's go to memory: the client, which copies from the
// CQE to the address in its work request, could not find it.
func TestInlineForOtherAddresses(t *testing.T) {
	p, q := carrying(t, control.QPTypeRC, 6)
	src, dst := p.h.full(64, 1), q.h.key(64, control.AccessLocalWrite)
	lists := func(h *host, p *end, k *key) uint32 {
		l := h.mkey(4)
		p.post(umr(l), fill(l, mkeyAll, 64, k.klm(0, 64))...)
		h.settle()
		p.scq.carried()
		return l
	}
	var elsewhere control.Key
	q.h.call(control.OpRegMR, &control.MR{PDN: q.h.pd, Access: control.AccessLocalWrite, Addr: dst.addr, Length: 64, IOVA: 0x9000}, &elsewhere)
	for _, to := range []wqe.Data{{ByteCount: 8, LKey: elsewhere.Key, Addr: 0x9000}, at(lists(q.h, q, dst), 0, 8)} {
		clear(dst.mem)
		q.recv(to)
		p.post(ctrl(wqe.OpSend), src.data(0, 8))
		p.h.settle()
		data, w := q.rcq.carried()
		require.Equal(t, cqe.StatusSuccess, w.Status)
		require.Empty(t, data)
		p.h.same(src.mem[:8], dst.mem[:8], "memory")
		_, w = p.scq.carried()
		require.Equal(t, cqe.StatusSuccess, w.Status)
	}
	// Results of READs too.
	far, near := q.h.full(64, 5), p.h.key(64, control.AccessLocalWrite)
	p.post(ctrl(wqe.OpRDMARead), far.raddr(0), at(lists(p.h, p, near), 8, 8))
	p.h.settle()
	data, w := p.scq.carried()
	require.Equal(t, cqe.StatusSuccess, w.Status)
	require.Empty(t, data)
	p.h.same(far.mem[:8], near.mem[8:16], "memory")
}

// Mistakes are found as without data in CQEs.
func TestInlineMistakes(t *testing.T) {
	p, q := carrying(t, control.QPTypeRC, 6)
	src, dst := p.h.full(64, 1), q.h.key(64, control.AccessLocalWrite)
	q.recv(dst.data(0, 7))
	p.post(ctrl(wqe.OpSend), src.data(0, 8))
	p.h.settle()
	_, w := q.rcq.carried()
	require.Equal(t, cqe.LocalLength, w.Syndrome)
	_, w = p.scq.carried()
	require.Equal(t, cqe.RemoteInvalidRequest, w.Syndrome)

	p, q = carrying(t, control.QPTypeRC, 6)
	src, dst = p.h.full(64, 1), q.h.key(64, 0)
	q.recv(dst.data(0, 8))
	p.post(ctrl(wqe.OpSend), src.data(0, 8))
	p.h.settle()
	_, w = q.rcq.carried()
	require.Equal(t, cqe.LocalProtection, w.Syndrome)
}

// inlineRows are rows for queue pairs whose CQEs carry short data.
var inlineRows = []agreeRow{
	{"SEND into a CQE", 0, inlineQPs(6, bothSides), func(w *twin) {
		w.q.recv(w.inbox.data(0, 64))
		postSend(w)
	}},
	{"SEND too long for a CQE", 1, inlineQPs(6, bothSides), func(w *twin) {
		w.q.recv(w.inbox.data(0, 64))
		w.p.post(ctrl(wqe.OpSend), w.local.data(0, 33))
	}},
	{"SENDs, one too long for a CQE of 128 bytes", 1, inlineQPs(7, bothSides), func(w *twin) {
		for range 3 {
			w.q.recv(w.inbox.data(0, 80))
		}
		w.p.write(ctrl(wqe.OpSend), w.local.data(0, 65))
		w.p.write(ctrl(wqe.OpSend), w.local.data(0, 64))
		w.p.write(ctrl(wqe.OpSend), w.local.data(8, 65))
		w.p.ring()
	}},
	{"inline SEND into a CQE", 0, inlineQPs(6, control.ScatterResponder), func(w *twin) {
		w.q.recv(w.inbox.data(0, 64))
		w.p.post(ctrl(wqe.OpSend), pattern(12, 3))
	}},
	{"READ of the responder's side only", 1, inlineQPs(6, control.ScatterResponder), postRead},
	{"READ into a CQE", 0, inlineQPs(6, bothSides), postRead},
	{"WRITE of both sides", 1, inlineQPs(6, bothSides), postWrite},
	{"atomic into a CQE", 0, inlineQPs(6, bothSides), postAdd},
	{"atomic of the responder's side only", 1, inlineQPs(6, control.ScatterResponder), postAdd},
}

func inlineQPs(log, scatter uint8) func(a, b *host) (p, q *end) {
	return func(a, b *host) (p, q *end) {
		ca, cb := a.cq(control.CQ{LogSize: 6, LogCQE: log}), b.cq(control.CQ{LogSize: 6, LogCQE: log})
		return a.qp(control.QP{Scatter: scatter}, ca, ca), b.qp(control.QP{Scatter: scatter, UserIndex: uidx + 1}, cb, cb)
	}
}
