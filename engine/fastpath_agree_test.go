package engine

import (
	"testing"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// A road is a pair of queue pairs that have found each other, with memory on
// both sides, on an engine with the short way or on one without.
type road struct {
	*rig
	p, q              *end
	local, far, inbox *key
}

func newRoad(t testing.TB, slow bool, prepare func(a, b *host) (p, q *end)) *road {
	t.Helper()
	r := newRig(t, Config{})
	r.e.hooks.noFastPath = slow
	a, b := r.host("a"), r.host("b")
	l := &road{rig: r, local: a.full(8192, 1), far: b.full(8192, 2), inbox: b.full(8192, 3)}
	l.p, l.q = prepare(a, b)
	l.p.up(l.q)
	l.q.up(l.p)
	l.p.post(ctrl(wqe.OpRDMAWrite), l.far.raddr(0), l.local.data(0, 8)) // so that p knows its peer
	r.settle()
	l.p.scq.all()
	return l
}

// outcome is all that clients see of a road, without what differs by chance.
type outcome struct {
	states          [2]uint8
	sent, received  uint64
	sends, receives []cqe.WC
	local, far, box []byte
	counts          [2][control.Counters]uint64
}

func (l *road) outcome() (o outcome) {
	l.settle()
	strip := func(list []cqe.WC) []cqe.WC {
		for i := range list {
			w := &list[i]
			require.Contains(l, []uint32{l.p.num, l.q.num}, w.QPN)
			require.Contains(l, []uint32{0, l.p.num}, w.SrcQP)
			w.QPN, w.SrcQP = 0, 0
		}
		return list
	}
	o.states = [2]uint8{l.p.state(), l.q.state()}
	o.sent, o.received = l.p.q.sq.done, l.q.q.rq.done
	o.sends = strip(l.p.scq.all())
	o.receives = strip(l.q.rcq.all())
	o.local, o.far, o.box = l.local.mem, l.far.mem, l.inbox.mem
	o.counts = [2][control.Counters]uint64{l.p.h.c.count, l.q.h.c.count}
	return o
}

// askew is post with a wrong index in the control segment.
func (p *end) askew(c wqe.Ctrl, segments ...any) {
	index := p.write(c, segments...)
	p.sq[int(index)*wqe.BlockSize%len(p.sq)+1] ^= 0x80
	p.ring()
}

// Each work request that is executed by the short way, and each that it must
// leave alone, ends as it does the slow path. taken is how many WQEs the short
// way takes of those posted.
func TestShortWayAgrees(t *testing.T) {
	kind := func(transport uint8) func(a, b *host) (p, q *end) {
		return func(a, b *host) (p, q *end) {
			ca, cb := a.cq(control.CQ{LogSize: 6}), b.cq(control.CQ{LogSize: 6})
			return a.qp(control.QP{Type: transport}, ca, ca), b.qp(control.QP{Type: transport}, cb, cb)
		}
	}
	const fits = 8 // bytes
	send := func(l *road) { l.p.post(ctrl(wqe.OpSend), l.local.data(0, fits)) }
	fa, cs := wqe.Atomic{SwapAdd: 5, Compare: 9}, wqe.Atomic{SwapAdd: 1 << 40}
	add := func(l *road) { l.p.post(ctrl(wqe.OpAtomicFA), l.far.raddr(8), fa, l.local.data(3, 8)) }
	for _, row := range []struct {
		name    string
		taken   int
		prepare func(a, b *host) (p, q *end) // nil: a pair of RC
		post    func(l *road)
	}{
		{"SEND", 1, nil, func(l *road) { l.q.recv(l.inbox.data(0, fits)); send(l) }},
		{"SEND, UC", 1, kind(control.QPTypeUC), func(l *road) { l.q.recv(l.inbox.data(0, fits)); send(l) }},
		{"SEND, unsignaled", 1, nil, func(l *road) { l.q.recv(l.inbox.data(0, fits)); l.p.post(silent(wqe.OpSend), l.local.data(0, fits)) }},
		{"SEND, with event", 0, nil, func(l *road) {
			l.q.recv(l.inbox.data(0, fits))
			l.p.post(wqe.Ctrl{Opcode: wqe.OpSend, Flags: wqe.CEEvent}, l.local.data(0, fits))
		}},
		{"SEND, solicited, with an immediate that is not sent", 1, nil, func(l *road) {
			l.q.recv(l.inbox.data(0, fits))
			l.p.post(wqe.Ctrl{Opcode: wqe.OpSend, Flags: wqe.CEAlways | wqe.FlagSolicited, Imm: 7}, l.local.data(0, fits))
		}},
		{"SEND_IMM", 1, nil, func(l *road) {
			l.q.recv(l.inbox.data(0, 64))
			l.p.post(wqe.Ctrl{Opcode: wqe.OpSendImm, Flags: wqe.CEAlways | wqe.FlagSolicited, Imm: 7}, l.local.data(0, fits))
		}},
		{"SEND_INVAL", 0, nil, func(l *road) {
			l.q.recv(l.inbox.data(0, 64))
			l.p.post(wqe.Ctrl{Opcode: wqe.OpSendInval, Flags: wqe.CEAlways, Imm: 7 << 8}, l.local.data(0, fits))
		}},
		{"SEND, inline, 1 byte", 1, nil, func(l *road) { l.q.recv(l.inbox.data(5, 60)); l.p.post(ctrl(wqe.OpSend), []byte{7}) }},
		{"SEND, inline, a whole block", 1, nil, func(l *road) { l.q.recv(l.inbox.data(5, 60)); l.p.post(ctrl(wqe.OpSend), pattern(44, 7)) }},
		{"SEND, inline, two blocks", 0, nil, func(l *road) { l.q.recv(l.inbox.data(5, 60)); l.p.post(ctrl(wqe.OpSend), pattern(45, 7)) }},
		{"SEND, inline and a pointer", 0, nil, func(l *road) {
			l.q.recv(l.inbox.data(5, 60))
			l.p.post(ctrl(wqe.OpSend), pattern(12, 7), l.local.data(0, 3))
		}},
		{"SEND of nothing", 0, nil, func(l *road) { l.q.recv(l.inbox.data(5, 60)); l.p.post(ctrl(wqe.OpSend)) }},
		{"SEND of two pieces", 0, nil, func(l *road) {
			l.q.recv(l.inbox.data(5, 60))
			l.p.post(ctrl(wqe.OpSend), l.local.data(0, 8), l.local.data(90, 8))
		}},
		{"SEND of 4 KiB", 1, nil, func(l *road) { l.q.recv(l.inbox.data(1, 8000)); l.p.post(ctrl(wqe.OpSend), l.local.data(0, 4096)) }},
		{"SEND of more", 0, nil, func(l *road) { l.q.recv(l.inbox.data(1, 8000)); l.p.post(ctrl(wqe.OpSend), l.local.data(0, 4097)) }},
		{"SEND to the last byte", 1, nil, func(l *road) { l.q.recv(l.inbox.data(8184, 8)); l.p.post(ctrl(wqe.OpSend), l.local.data(8184, 8)) }},
		{"SEND past the last byte", 0, nil, func(l *road) { l.q.recv(l.inbox.data(0, 8)); l.p.post(ctrl(wqe.OpSend), l.local.data(8185, 8)) }},
		{"SEND under a key of another domain", 0, nil, func(l *road) {
			l.q.recv(l.inbox.data(0, 8))
			l.p.post(ctrl(wqe.OpSend), wqe.Data{ByteCount: 8, LKey: l.p.h.reg(l.p.h.allocPD(), l.local.addr, 8, 0), Addr: l.local.addr})
		}},
		{"SEND under no key", 0, nil, func(l *road) {
			l.q.recv(l.inbox.data(0, 8))
			l.p.post(ctrl(wqe.OpSend), wqe.Data{ByteCount: 8, LKey: l.local.key ^ 1, Addr: l.local.addr})
		}},
		{"SEND without a receive", 0, nil, send},
		{"SENDs, more than there are receives", 2, nil, func(l *road) {
			l.q.recv(l.inbox.data(0, fits))
			l.q.recv(l.inbox.data(8, fits))
			send(l)
			send(l)
			send(l)
		}},
		{"SENDs, then a WRITE", 1, nil, func(l *road) {
			l.q.recv(l.inbox.data(0, fits))
			l.q.recv(l.inbox.data(8, fits))
			send(l)
			l.p.post(ctrl(wqe.OpRDMAWrite), l.far.raddr(9), l.local.data(0, 8))
			send(l)
		}},
		{"receive of two pieces, the first is enough", 1, nil, func(l *road) {
			l.q.recv(l.inbox.data(0, 8), wqe.Data{ByteCount: 8, LKey: 0xffffff})
			send(l)
		}},
		{"receive of two pieces", 0, nil, func(l *road) { l.q.recv(l.inbox.data(0, 7), l.inbox.data(50, 8)); send(l) }},
		{"receive too short", 0, nil, func(l *road) { l.q.recv(l.inbox.data(0, 7)); send(l) }},
		{"receive of nothing", 0, nil, func(l *road) { l.q.recv(); send(l) }},
		{"receive of 2^31", 0, nil, func(l *road) { l.q.recv(wqe.Data{LKey: l.inbox.key, Addr: l.inbox.addr}); send(l) }},
		{"receive with the inline bit", 0, nil, func(l *road) {
			l.q.recv(wqe.Data{ByteCount: wqe.InlineFlag | 8, LKey: l.inbox.key, Addr: l.inbox.addr})
			send(l)
		}},
		{"receive past its key, the message within", 0, nil, func(l *road) { l.q.recv(l.inbox.data(8180, 13)); send(l) }},
		{"receive under no key", 0, nil, func(l *road) {
			l.q.recv(wqe.Data{ByteCount: 8, LKey: l.inbox.key ^ 1, Addr: l.inbox.addr})
			send(l)
		}},
		{"receive under a key of another domain", 0, nil, func(l *road) {
			key := l.q.h.reg(l.q.h.allocPD(), l.inbox.addr, 64, control.AccessLocalWrite)
			l.q.recv(wqe.Data{ByteCount: 8, LKey: key, Addr: l.inbox.addr})
			send(l)
		}},
		{"receive without local write", 0, nil, func(l *road) {
			key := l.q.h.reg(l.q.h.pd, l.inbox.addr, 64, control.AccessRemoteRead)
			l.q.recv(wqe.Data{ByteCount: 8, LKey: key, Addr: l.inbox.addr})
			send(l)
		}},
		{"receive with a signature", 0, func(a, b *host) (p, q *end) {
			ca, cb := a.cq(control.CQ{LogSize: 6}), b.cq(control.CQ{LogSize: 6})
			return a.qp(control.QP{}, ca, ca), b.qp(control.QP{SignatureOn: 1}, cb, cb)
		}, func(l *road) {
			l.q.recv(l.inbox.data(100, 8), l.inbox.data(0, 8)) // the first stands where the signature is
			send(l)
		}},
		{"receive of a shared queue", 0, func(a, b *host) (p, q *end) {
			ca, cb := a.cq(control.CQ{LogSize: 6}), b.cq(control.CQ{LogSize: 6})
			s := b.srq(control.SRQ{})
			q = s.on(control.QPTypeRC, cb)
			key := b.full(64, 4)
			s.put(0, key.data(0, 64))
			s.post(1)
			return a.qp(control.QP{}, ca, ca), q
		}, send},
		{"no room for the receiver's completion", 1, func(a, b *host) (p, q *end) {
			ca, cb := a.cq(control.CQ{LogSize: 6}), b.cq(control.CQ{LogSize: 0})
			return a.qp(control.QP{}, ca, ca), b.qp(control.QP{}, cb, cb)
		}, func(l *road) {
			for i := range 3 {
				l.q.recv(l.inbox.data(8*i, fits))
				send(l)
			}
		}},
		{"no room for the sender's completion", 3, func(a, b *host) (p, q *end) {
			ca, cb := a.cq(control.CQ{LogSize: 1}), b.cq(control.CQ{LogSize: 4})
			return a.qp(control.QP{}, ca, ca), b.qp(control.QP{}, cb, cb)
		}, func(l *road) {
			for i := range 4 {
				l.q.recv(l.inbox.data(8*i, fits))
				send(l)
			}
		}},
		{"FETCH_ADD", 1, nil, add},
		{"FETCH_ADDs, unsignaled too", 3, nil, func(l *road) {
			add(l)
			l.p.post(silent(wqe.OpAtomicFA), l.far.raddr(8184), fa, l.local.data(8184, 8))
			add(l)
		}},
		{"CMP_SWAP, different", 1, nil, func(l *road) { l.p.post(ctrl(wqe.OpAtomicCS), l.far.raddr(8), cs, l.local.data(1, 8)) }},
		{"CMP_SWAP, equal", 2, nil, func(l *road) {
			clear(l.far.mem[16:24])
			l.p.post(ctrl(wqe.OpAtomicCS), l.far.raddr(16), cs, l.local.data(1, 8))
			l.p.post(ctrl(wqe.OpAtomicCS), l.far.raddr(16), cs, l.local.data(9, 8))
		}},
		{"masked FETCH_ADD", 0, nil, func(l *road) {
			l.p.post(wqe.Ctrl{Opcode: wqe.OpAtomicMaskedFA, OpMod: wqe.OpMod8, Flags: wqe.CEAlways}, l.far.raddr(8), wqe.MaskedFA8{Add: 3}, l.local.data(0, 8))
		}},
		{"FETCH_ADD, opmod of no meaning", 1, nil, func(l *road) {
			l.p.post(wqe.Ctrl{Opcode: wqe.OpAtomicFA, OpMod: 3, Flags: wqe.CEAlways}, l.far.raddr(8), fa, l.local.data(0, 8))
		}},
		{"FETCH_ADD, with event", 0, nil, func(l *road) {
			l.p.post(wqe.Ctrl{Opcode: wqe.OpAtomicFA, Flags: wqe.CEEvent}, l.far.raddr(8), fa, l.local.data(0, 8))
		}},
		{"FETCH_ADD, UC", 0, kind(control.QPTypeUC), add},
		{"FETCH_ADD, misaligned", 0, nil, func(l *road) { l.p.post(ctrl(wqe.OpAtomicFA), l.far.raddr(4), fa, l.local.data(0, 8)) }},
		{"FETCH_ADD, aligned by a key that counts from elsewhere", 0, nil, func(l *road) {
			var ans control.Key
			l.q.h.call(control.OpRegMR, &control.MR{PDN: l.q.h.pd, Access: control.AccessAll &^ control.AccessZeroBased,
				Addr: l.far.addr + 4, Length: 64, IOVA: 0x1000}, &ans)
			l.p.post(ctrl(wqe.OpAtomicFA), wqe.Raddr{Addr: 0x1008, RKey: ans.Key}, fa, l.local.data(0, 8))
		}},
		{"FETCH_ADD, aligned in memory alone", 0, nil, func(l *road) {
			var ans control.Key
			l.q.h.call(control.OpRegMR, &control.MR{PDN: l.q.h.pd, Access: control.AccessAll &^ control.AccessZeroBased,
				Addr: l.far.addr, Length: 64, IOVA: 0x1004}, &ans)
			l.p.post(ctrl(wqe.OpAtomicFA), wqe.Raddr{Addr: 0x100c, RKey: ans.Key}, fa, l.local.data(0, 8))
		}},
		{"FETCH_ADD past the key", 0, nil, func(l *road) { l.p.post(ctrl(wqe.OpAtomicFA), l.far.raddr(8192), fa, l.local.data(0, 8)) }},
		{"FETCH_ADD, result of two pieces", 0, nil, func(l *road) {
			l.p.post(ctrl(wqe.OpAtomicFA), l.far.raddr(8), fa, l.local.data(0, 3), l.local.data(90, 5))
		}},
		{"FETCH_ADD, result of 8 bytes and 8 more", 0, nil, func(l *road) {
			l.p.post(ctrl(wqe.OpAtomicFA), l.far.raddr(8), fa, l.local.data(0, 8), l.local.data(90, 8))
		}},
		{"FETCH_ADD, result of 4 bytes", 0, nil, func(l *road) { l.p.post(ctrl(wqe.OpAtomicFA), l.far.raddr(8), fa, l.local.data(0, 4)) }},
		{"FETCH_ADD, result past its key", 0, nil, func(l *road) { l.p.post(ctrl(wqe.OpAtomicFA), l.far.raddr(8), fa, l.local.data(8188, 8)) }},
		{"FETCH_ADD, result without local write", 0, nil, func(l *road) {
			key := l.p.h.reg(l.p.h.pd, l.local.addr, 64, control.AccessRemoteRead)
			l.p.post(ctrl(wqe.OpAtomicFA), l.far.raddr(8), fa, wqe.Data{ByteCount: 8, LKey: key, Addr: l.local.addr})
		}},
		{"FETCH_ADD, no right of the key", 0, nil, func(l *road) {
			key := l.q.h.reg(l.q.h.pd, l.far.addr, 64, control.AccessLocalWrite|control.AccessRemoteWrite|control.AccessRemoteRead)
			l.p.post(ctrl(wqe.OpAtomicFA), wqe.Raddr{Addr: l.far.addr, RKey: key}, fa, l.local.data(0, 8))
		}},
		{"FETCH_ADD under a key of another domain", 0, nil, func(l *road) {
			key := l.q.h.reg(l.q.h.allocPD(), l.far.addr, 64, control.AccessAll&^control.AccessZeroBased)
			l.p.post(ctrl(wqe.OpAtomicFA), wqe.Raddr{Addr: l.far.addr, RKey: key}, fa, l.local.data(0, 8))
		}},
		{"FETCH_ADD, no right of the queue pair", 0, nil, func(l *road) {
			l.q.modify(control.QPAttr{QPN: l.q.num, Mask: control.AttrAccess, Access: control.AccessRemoteWrite | control.AccessRemoteRead})
			add(l)
		}},
		{"FETCH_ADD, a depth of 0 at the responder", 0, nil, func(l *road) { l.q.q.attr.MaxDestRdAtomic = 0; add(l) }},
		{"FETCH_ADD, no room for the completion", 3, func(a, b *host) (p, q *end) {
			ca, cb := a.cq(control.CQ{LogSize: 1}), b.cq(control.CQ{LogSize: 4})
			return a.qp(control.QP{}, ca, ca), b.qp(control.QP{}, cb, cb)
		}, func(l *road) { add(l); add(l); add(l); add(l) }},
		{"the peer is in error", 0, nil, func(l *road) { l.q.toState(control.StateERR); add(l) }},
		{"a wrong index, which is said", 0, nil, func(l *road) {
			l.q.recv(l.inbox.data(0, 8))
			l.p.askew(ctrl(wqe.OpSend), l.local.data(0, 8))
		}},
		{"a wrong index, which was said before", 1, nil, func(l *road) {
			l.q.recv(l.inbox.data(0, 8))
			l.q.recv(l.inbox.data(8, 8))
			l.p.askew(ctrl(wqe.OpSend), l.local.data(0, 8))
			l.settle()
			l.p.askew(ctrl(wqe.OpSend), l.local.data(0, 8))
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			if row.prepare == nil {
				row.prepare = kind(control.QPTypeRC)
			}
			var ends [2]outcome
			for i, slow := range []bool{false, true} {
				l := newRoad(t, slow, row.prepare)
				row.post(l)
				l.e.fault.qp = l.p.q
				n, _ := l.e.fastPath(l.p.q, int(l.e.pending(l.p.q)), l.e.cfg.Slice)
				if !slow {
					require.Equal(t, row.taken, n, "taken by the short way")
				} else {
					require.Zero(t, n)
				}
				ends[i] = l.outcome()
			}
			require.Equal(t, ends[1], ends[0])
		})
	}
}

// One completion queue for everything, with room for so many completions, and a
// queue pair that is its own peer, end as they do the slow path too.
func TestShortWayAgreesOnOneCQ(t *testing.T) {
	for _, self := range []bool{false, true} {
		for log := range uint8(4) {
			type end struct {
				states         [2]uint8
				sent, received uint64
				list           []cqe.WC
				box            []byte
				counts         [control.Counters]uint64
			}
			var ends [2]end
			for i, slow := range []bool{false, true} {
				r := newRig(t, Config{})
				r.e.hooks.noFastPath = slow
				h := r.host("h")
				cq := h.cq(control.CQ{LogSize: log})
				p := h.qp(control.QP{}, cq, cq)
				q := p
				if !self {
					q = h.qp(control.QP{}, cq, cq)
					q.up(p)
				}
				p.up(q)
				local, inbox := h.full(64, 1), h.full(64, 2)
				p.post(silent(wqe.OpRDMAWrite), inbox.raddr(56), local.data(0, 8)) // so that p knows its peer
				r.settle()
				require.Equal(t, q.q, p.q.conn.peer)
				for n := range 3 {
					q.recv(inbox.data(8*n, 8))
					p.write(ctrl(wqe.OpSend), local.data(8*n, 8))
				}
				p.ring()
				r.e.fault.qp = p.q
				taken, _ := r.e.fastPath(p.q, 3, r.e.cfg.Slice)
				require.Equal(t, slow, taken == 0)
				r.settle()
				list := p.scq.all()
				for j := range list {
					if w := &list[j]; w.QPN == p.num {
						w.QPN = 1
					} else {
						w.QPN = 2
					}
					list[j].SrcQP = 0
				}
				ends[i] = end{[2]uint8{p.state(), q.state()}, p.q.sq.done, q.q.rq.done, list, inbox.mem, h.c.count}
			}
			require.Equal(t, ends[1], ends[0], "itself: %t; 2^%d entries", self, log)
		}
	}
}
