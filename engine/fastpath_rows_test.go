package engine

import (
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
)

// An agreeRow is work that both twins get.
type agreeRow struct {
	name    string
	taken   int                          // how many of the posted WQEs the fast path executes
	prepare func(a, b *host) (p, q *end) // makes the queue pairs; nil: an RC pair
	post    func(w *twin)
}

const fits = 8 // bytes

func postSend(w *twin)  { w.p.post(ctrl(wqe.OpSend), w.local.data(0, fits)) }
func postWrite(w *twin) { w.p.post(ctrl(wqe.OpRDMAWrite), w.far.raddr(40), w.local.data(3, fits)) }
func postRead(w *twin)  { w.p.post(ctrl(wqe.OpRDMARead), w.far.raddr(40), w.local.data(3, fits)) }
func postAdd(w *twin) {
	w.p.post(ctrl(wqe.OpAtomicFA), w.far.raddr(8), addFive, w.local.data(3, 8))
}

var addFive, swapBig = wqe.Atomic{SwapAdd: 5, Compare: 9}, wqe.Atomic{SwapAdd: 1 << 40}

// without returns every right of a key except these.
func without(rights uint32) uint32 { return control.AccessAll &^ control.AccessZeroBased &^ rights }

// keyWith registers the memory of k once more, with other rights or in another protection
// domain.
func keyWith(k *key, pd, rights uint32) uint32 { return k.h.reg(pd, k.addr, len(k.mem), rights) }

// farKey returns a remote address segment for far's memory with another key.
func farKey(w *twin, off int, key uint32) wqe.Raddr {
	return wqe.Raddr{Addr: w.far.addr + uint64(off), RKey: key}
}

// localKey returns a data segment for local's memory with another key.
func localKey(w *twin, n int, key uint32) wqe.Data {
	return wqe.Data{ByteCount: uint32(n), LKey: key, Addr: w.local.addr}
}

// moves are the rows that are the same for WRITE and READ.
func moves(name string, op wqe.Opcode, right uint32) []agreeRow {
	post := func(remote func(w *twin) wqe.Raddr, local ...func(w *twin) any) func(w *twin) {
		return func(w *twin) {
			segments := []any{remote(w)}
			for _, l := range local {
				segments = append(segments, l(w))
			}
			w.p.post(ctrl(op), segments...)
		}
	}
	far := func(off int) func(w *twin) wqe.Raddr { return func(w *twin) wqe.Raddr { return w.far.raddr(off) } }
	near := func(off, n int) func(w *twin) any { return func(w *twin) any { return w.local.data(off, n) } }
	return []agreeRow{
		{name, 1, nil, post(far(40), near(3, 8))},
		{name + " of 1 byte", 1, nil, post(far(8191), near(8191, 1))},
		{name + " of 4 KiB", 1, nil, post(far(1), near(2, 4096))},
		{name + " of more", 0, nil, post(far(1), near(2, 4097))},
		{name + " of nothing", 0, nil, post(far(1))},
		{name + ", byte_count 0", 0, nil, post(far(1), near(2, 0))},
		{name + " of two pieces", 0, nil, post(far(1), near(2, 9), near(100, 7))},
		{name + ", unsignaled", 1, nil, func(w *twin) { w.p.post(silent(op), w.far.raddr(40), w.local.data(3, 8)) }},
		{name + ", unsignaled, then signaled", 2, nil, func(w *twin) {
			w.p.post(silent(op), w.far.raddr(40), w.local.data(3, 8))
			w.p.post(ctrl(op), w.far.raddr(50), w.local.data(11, 8))
		}},
		{name + ", completed on the first error only", 1, nil, func(w *twin) {
			w.p.post(wqe.Ctrl{Opcode: op, Flags: wqe.CEFirstError}, w.far.raddr(40), w.local.data(3, 8))
		}},
		{name + ", with event", 0, nil, func(w *twin) {
			w.p.post(wqe.Ctrl{Opcode: op, Flags: wqe.CEEvent}, w.far.raddr(40), w.local.data(3, 8))
		}},
		{name + ", solicited, fenced, with an immediate that is not sent", 1, nil, func(w *twin) {
			w.p.post(wqe.Ctrl{Opcode: op, Flags: wqe.CEAlways | wqe.FlagSolicited | wqe.FenceStrong, Imm: 7}, w.far.raddr(40), w.local.data(3, 8))
		}},
		{name + " to the last byte", 1, nil, post(far(8184), near(8184, 8))},
		{name + " past the last byte", 0, nil, post(far(8185), near(0, 8))},
		{name + " before the first byte", 0, nil, post(func(w *twin) wqe.Raddr { r := w.far.raddr(0); r.Addr--; return r }, near(0, 8))},
		{name + ", local past the last byte", 0, nil, post(far(0), near(8185, 8))},
		{name + " under a local key of another domain", 0, nil, post(far(0), func(w *twin) any {
			return localKey(w, 8, keyWith(w.local, w.a.allocPD(), without(0)))
		})},
		{name + " under no local key", 0, nil, post(far(0), func(w *twin) any { return localKey(w, 8, w.local.key^1) })},
		{name + " under a key of another domain", 0, nil, post(func(w *twin) wqe.Raddr {
			return farKey(w, 0, keyWith(w.far, w.b.allocPD(), without(0)))
		}, near(0, 8))},
		{name + " under no key", 0, nil, post(func(w *twin) wqe.Raddr { return farKey(w, 0, w.far.key^1) }, near(0, 8))},
		{name + ", no right of the key", 0, nil, post(func(w *twin) wqe.Raddr {
			return farKey(w, 0, keyWith(w.far, w.b.pd, without(right)))
		}, near(0, 8))},
		{name + ", no right of the queue pair", 0, nil, func(w *twin) {
			w.q.modify(control.QPAttr{QPN: w.q.num, Mask: control.AttrAccess, Access: without(right)})
			post(far(0), near(0, 8))(w)
		}},
		{name + ", local key without local write", map[wqe.Opcode]int{wqe.OpRDMAWrite: 1}[op], nil, post(far(0), func(w *twin) any {
			return localKey(w, 8, keyWith(w.local, w.a.pd, control.AccessRemoteRead))
		})},
		{name + " through a window of type 1", 1, nil, func(w *twin) {
			rkey := w.b.window(1)
			w.q.post(umr(rkey), w.q.bind(1, uint8(rkey)+1, w.far, 16, 32, mkeyAll)...)
			w.settle()
			w.p.post(ctrl(op), wqe.Raddr{Addr: w.far.addr + 24, RKey: rkey&^0xff | uint32(uint8(rkey)+1)}, w.local.data(0, 8))
		}},
		{name + " through a window of another queue pair", 0, nil, func(w *twin) {
			rkey := w.b.window(2)
			other := w.b.qp(control.QP{}, w.q.scq, w.q.scq)
			other.up(other)
			other.post(umr(rkey), other.bind(2, 9, w.far, 16, 32, mkeyAll)...)
			w.settle()
			w.p.post(ctrl(op), wqe.Raddr{Addr: w.far.addr + 24, RKey: rkey&^0xff | 9}, w.local.data(0, 8))
		}},
		{name + " through a list", 0, nil, func(w *twin) {
			list := w.b.mkey(4)
			w.q.post(umr(list), fill(list, mkeyAll, 64, w.far.klm(0, 32), w.far.klm(100, 32))...)
			w.settle()
			w.p.post(ctrl(op), wqe.Raddr{Addr: 8, RKey: w.e.Keys.FindIndex(list).Key}, w.local.data(0, 40))
		}},
		{name + "s of several keys", 3, nil, func(w *twin) {
			other := keyWith(w.far, w.b.pd, without(0))
			post(far(0), near(0, 8))(w)
			w.p.post(ctrl(op), farKey(w, 64, other), localKey(w, 8, keyWith(w.local, w.a.pd, without(0))))
			post(far(128), near(128, 8))(w)
		}},
		{name + "s, no room for a completion", 3, withCQs(control.QP{}, 1, 4), func(w *twin) {
			for i := range 4 {
				w.p.post(ctrl(op), w.far.raddr(8*i), w.local.data(8*i, 8))
			}
		}},
		{name + ", the peer is in error", 0, nil, func(w *twin) { w.q.toState(control.StateERR); post(far(0), near(0, 8))(w) }},
		{name + ", a wrong index, which is said", 0, nil, func(w *twin) { w.p.askew(ctrl(op), w.far.raddr(0), w.local.data(0, 8)) }},
		{name + ", a wrong index, which was said before", 1, nil, func(w *twin) {
			w.p.askew(ctrl(op), w.far.raddr(0), w.local.data(0, 8))
			w.settle()
			w.p.askew(ctrl(op), w.far.raddr(0), w.local.data(0, 8))
		}},
		{name + ", with a signature", 0, withCQs(control.QP{SignatureOn: 1}, 6, 6), post(far(0), near(0, 8))},
		{name + ", ds counts a unit more", 0, nil, func(w *twin) {
			w.p.write(ctrl(op), w.far.raddr(0), w.local.data(0, 8))
			w.p.sq[7]++
			w.p.ring()
		}},
		{name + "s into 128-byte entries", 2, func(a, b *host) (p, q *end) {
			ca, cb := a.cq(control.CQ{LogSize: 4, LogCQE: 7}), b.cq(control.CQ{LogSize: 4})
			return a.qp(control.QP{}, ca, ca), b.qp(control.QP{}, cb, cb)
		}, func(w *twin) { post(far(0), near(0, 8))(w); post(far(8), near(8, 8))(w) }},
		{name + "s into a collapsed queue", 2, func(a, b *host) (p, q *end) {
			ca, cb := a.cq(control.CQ{LogSize: 0, Flags: control.CQCollapsed | control.CQIgnoreOverrun}), b.cq(control.CQ{LogSize: 4})
			return a.qp(control.QP{}, ca, ca), b.qp(control.QP{}, cb, cb)
		}, func(w *twin) { post(far(0), near(0, 8))(w); post(far(8), near(8, 8))(w) }},
	}
}

var writeRows = append(moves("WRITE", wqe.OpRDMAWrite, control.AccessRemoteWrite), []agreeRow{
	{"WRITE, UC", 1, kindOf(control.QPTypeUC), postWrite},
	{"WRITE, inline, 1 byte", 1, nil, func(w *twin) { w.p.post(ctrl(wqe.OpRDMAWrite), w.far.raddr(7), []byte{9}) }},
	{"WRITE, inline, a whole block", 1, nil, func(w *twin) { w.p.post(ctrl(wqe.OpRDMAWrite), w.far.raddr(7), pattern(28, 7)) }},
	{"WRITE, inline, two blocks", 0, nil, func(w *twin) { w.p.post(ctrl(wqe.OpRDMAWrite), w.far.raddr(7), pattern(29, 7)) }},
	{"WRITE, inline and a pointer", 0, nil, func(w *twin) { w.p.post(ctrl(wqe.OpRDMAWrite), w.far.raddr(7), pattern(5, 7), w.local.data(0, 3)) }},
	{"WRITE, inline, past the key", 0, nil, func(w *twin) { w.p.post(ctrl(wqe.OpRDMAWrite), w.far.raddr(8190), pattern(5, 7)) }},
	{"WRITE, inline data past ds", 0, nil, func(w *twin) {
		w.p.write(ctrl(wqe.OpRDMAWrite), w.far.raddr(7), pattern(12, 7))
		w.p.sq[35] = 28 // byte_count
		w.p.ring()
	}},
	{"WRITE_IMM", 0, nil, func(w *twin) {
		w.q.recv(w.inbox.data(0, 8))
		w.p.post(wqe.Ctrl{Opcode: wqe.OpRDMAWriteImm, Flags: wqe.CEAlways, Imm: 7}, w.far.raddr(0), w.local.data(0, 8))
	}},
	{"WRITE, then READ, then WRITE", 3, nil, func(w *twin) { postWrite(w); postRead(w); postWrite(w) }},
	{"WRITE to itself", 1, func(a, _ *host) (p, q *end) {
		c := a.cq(control.CQ{LogSize: 4})
		p = a.qp(control.QP{}, c, c)
		return p, p
	}, func(w *twin) { w.p.post(ctrl(wqe.OpRDMAWrite), w.local.raddr(4), w.local.data(0, 8)) }},
}...)

var readRows = append(moves("READ", wqe.OpRDMARead, control.AccessRemoteRead), []agreeRow{
	{"READ, UC", 0, kindOf(control.QPTypeUC), postRead},
	{"READ, inline", 0, nil, func(w *twin) { w.p.post(ctrl(wqe.OpRDMARead), w.far.raddr(7), pattern(5, 7)) }},
	{"READ, a depth of 0 at the responder", 0, nil, func(w *twin) { w.q.q.Attr.MaxDestRdAtomic = 0; postRead(w) }},
	{"READ that overlaps itself", 1, func(a, _ *host) (p, q *end) {
		c := a.cq(control.CQ{LogSize: 4})
		p = a.qp(control.QP{}, c, c)
		return p, p
	}, func(w *twin) { w.p.post(ctrl(wqe.OpRDMARead), w.local.raddr(4), w.local.data(0, 8)) }},
}...)

// blueFlameRows are WQEs that the device finds in the register before the record announces
// them.
var blueFlameRows = []agreeRow{
	{"WRITE in the register", 1, withRegister, inRegister(func(w *twin) {
		w.p.write(ctrl(wqe.OpRDMAWrite), w.far.raddr(40), w.local.data(3, fits))
	})},
	{"inline WRITE in the register", 1, withRegister, inRegister(func(w *twin) {
		w.p.write(ctrl(wqe.OpRDMAWrite), w.far.raddr(40), pattern(28, 3))
	})},
	{"READ in the register", 1, withRegister, inRegister(func(w *twin) {
		w.p.write(ctrl(wqe.OpRDMARead), w.far.raddr(40), w.local.data(3, fits))
	})},
	{"SEND in the register", 1, withRegister, inRegister(func(w *twin) {
		w.q.recv(w.inbox.data(0, fits))
		w.p.write(ctrl(wqe.OpSend), w.local.data(3, fits))
	})},
	{"SEND_IMM in the register", 1, withRegister, inRegister(func(w *twin) {
		w.q.recv(w.inbox.data(0, fits))
		w.p.write(wqe.Ctrl{Opcode: wqe.OpSendImm, Flags: wqe.CEAlways, Imm: 9}, w.local.data(3, fits))
	})},
	{"FETCH_ADD in the register", 1, withRegister, inRegister(func(w *twin) {
		w.p.write(ctrl(wqe.OpAtomicFA), w.far.raddr(8), addFive, w.local.data(3, 8))
	})},
	{"WRITE without a right in the register", 0, withRegister, inRegister(func(w *twin) {
		w.p.write(ctrl(wqe.OpRDMAWrite), farKey(w, 0, keyWith(w.far, w.b.pd, without(control.AccessRemoteWrite))), w.local.data(3, fits))
	})},
}

var withRegister = withCQs(control.QP{UAR: 1, BlueFlame: 4}, 6, 6)

// armedRows arm both completion queues. Their channels then have events, which are compared
// too.
var armedRows = []agreeRow{
	{"WRITE, armed", 1, withChannels, armed(false, postWrite)},
	{"WRITE, armed for solicited completions", 1, withChannels, armed(true, postWrite)},
	{"READ, armed", 1, withChannels, armed(false, postRead)},
	{"FETCH_ADD, armed for solicited completions", 1, withChannels, armed(true, postAdd)},
	{"WRITEs, armed", 3, withChannels, armed(false, func(w *twin) { postWrite(w); postWrite(w); postWrite(w) })},
	{"SEND, armed", 1, withChannels, armed(false, func(w *twin) { w.q.recv(w.inbox.data(0, fits)); postSend(w) })},
	{"SEND, armed for solicited completions", 1, withChannels, armed(true, func(w *twin) { w.q.recv(w.inbox.data(0, fits)); postSend(w) })},
	{"SEND, solicited, armed for solicited completions", 1, withChannels, armed(true, func(w *twin) {
		w.q.recv(w.inbox.data(0, fits))
		w.p.post(wqe.Ctrl{Opcode: wqe.OpSend, Flags: wqe.CEAlways | wqe.FlagSolicited}, w.local.data(0, fits))
	})},
}

// withChannels makes queue pairs whose completion queues have channels.
func withChannels(a, b *host) (p, q *end) {
	cq := func(h *host) *poller {
		id, _ := h.channel()
		return h.cq(control.CQ{LogSize: 6, Channel: id})
	}
	ca, cb := cq(a), cq(b)
	return a.qp(control.QP{}, ca, ca), b.qp(control.QP{}, cb, cb)
}

// armed arms the completion queues of both sides and lets the engine see that. Then it posts
// the work.
func armed(solicited bool, post func(w *twin)) func(w *twin) {
	return func(w *twin) {
		w.p.scq.arm(0, solicited)
		w.q.rcq.arm(0, solicited)
		w.settle()
		post(w)
	}
}

// inRegister writes a WQE into the register. It updates the record only after the engine has
// had time to find the WQE in the register.
func inRegister(write func(w *twin)) func(w *twin) {
	return func(w *twin) {
		write(w)
		w.p.postBlueFlame()
		w.settle()
		w.inRegister = int(w.p.q.SQ.Done)
		w.p.ring()
	}
}

var sendRows = []agreeRow{
	{"SEND", 1, nil, func(w *twin) { w.q.recv(w.inbox.data(0, fits)); postSend(w) }},
	{"SEND, UC", 1, kindOf(control.QPTypeUC), func(w *twin) { w.q.recv(w.inbox.data(0, fits)); postSend(w) }},
	{"SEND, unsignaled", 1, nil, func(w *twin) { w.q.recv(w.inbox.data(0, fits)); w.p.post(silent(wqe.OpSend), w.local.data(0, fits)) }},
	{"SEND, with event", 0, nil, func(w *twin) {
		w.q.recv(w.inbox.data(0, fits))
		w.p.post(wqe.Ctrl{Opcode: wqe.OpSend, Flags: wqe.CEEvent}, w.local.data(0, fits))
	}},
	{"SEND, solicited, with an immediate that is not sent", 1, nil, func(w *twin) {
		w.q.recv(w.inbox.data(0, fits))
		w.p.post(wqe.Ctrl{Opcode: wqe.OpSend, Flags: wqe.CEAlways | wqe.FlagSolicited, Imm: 7}, w.local.data(0, fits))
	}},
	{"SEND_IMM", 1, nil, func(w *twin) {
		w.q.recv(w.inbox.data(0, 64))
		w.p.post(wqe.Ctrl{Opcode: wqe.OpSendImm, Flags: wqe.CEAlways | wqe.FlagSolicited, Imm: 7}, w.local.data(0, fits))
	}},
	{"SEND_INVAL", 0, nil, func(w *twin) {
		w.q.recv(w.inbox.data(0, 64))
		w.p.post(wqe.Ctrl{Opcode: wqe.OpSendInval, Flags: wqe.CEAlways, Imm: 7 << 8}, w.local.data(0, fits))
	}},
	{"SEND, inline, 1 byte", 1, nil, func(w *twin) { w.q.recv(w.inbox.data(5, 60)); w.p.post(ctrl(wqe.OpSend), []byte{7}) }},
	{"SEND, inline, a whole block", 1, nil, func(w *twin) { w.q.recv(w.inbox.data(5, 60)); w.p.post(ctrl(wqe.OpSend), pattern(44, 7)) }},
	{"SEND, inline, two blocks", 0, nil, func(w *twin) { w.q.recv(w.inbox.data(5, 60)); w.p.post(ctrl(wqe.OpSend), pattern(45, 7)) }},
	{"SEND, inline and a pointer", 0, nil, func(w *twin) {
		w.q.recv(w.inbox.data(5, 60))
		w.p.post(ctrl(wqe.OpSend), pattern(12, 7), w.local.data(0, 3))
	}},
	{"SEND of nothing", 0, nil, func(w *twin) { w.q.recv(w.inbox.data(5, 60)); w.p.post(ctrl(wqe.OpSend)) }},
	{"SEND of two pieces", 0, nil, func(w *twin) {
		w.q.recv(w.inbox.data(5, 60))
		w.p.post(ctrl(wqe.OpSend), w.local.data(0, 8), w.local.data(90, 8))
	}},
	{"SEND of 4 KiB", 1, nil, func(w *twin) { w.q.recv(w.inbox.data(1, 8000)); w.p.post(ctrl(wqe.OpSend), w.local.data(0, 4096)) }},
	{"SEND of more", 0, nil, func(w *twin) { w.q.recv(w.inbox.data(1, 8000)); w.p.post(ctrl(wqe.OpSend), w.local.data(0, 4097)) }},
	{"SEND to the last byte", 1, nil, func(w *twin) { w.q.recv(w.inbox.data(8184, 8)); w.p.post(ctrl(wqe.OpSend), w.local.data(8184, 8)) }},
	{"SEND past the last byte", 0, nil, func(w *twin) { w.q.recv(w.inbox.data(0, 8)); w.p.post(ctrl(wqe.OpSend), w.local.data(8185, 8)) }},
	{"SEND under a key of another domain", 0, nil, func(w *twin) {
		w.q.recv(w.inbox.data(0, 8))
		w.p.post(ctrl(wqe.OpSend), wqe.Data{ByteCount: 8, LKey: w.p.h.reg(w.p.h.allocPD(), w.local.addr, 8, 0), Addr: w.local.addr})
	}},
	{"SEND under no key", 0, nil, func(w *twin) {
		w.q.recv(w.inbox.data(0, 8))
		w.p.post(ctrl(wqe.OpSend), wqe.Data{ByteCount: 8, LKey: w.local.key ^ 1, Addr: w.local.addr})
	}},
	{"SEND without a receive", 0, nil, postSend},
	{"SENDs, more than there are receives", 2, nil, func(w *twin) {
		w.q.recv(w.inbox.data(0, fits))
		w.q.recv(w.inbox.data(8, fits))
		postSend(w)
		postSend(w)
		postSend(w)
	}},
	{"SENDs, one into a receive under another key", 3, nil, func(w *twin) {
		other := keyWith(w.inbox, w.b.pd, without(0))
		for k := range 3 {
			piece := w.inbox.data(16*k, 16)
			if k == 1 {
				piece.LKey = other
			}
			w.q.recv(piece)
		}
		for range 3 {
			w.p.write(ctrl(wqe.OpSend), w.local.data(0, fits))
		}
		w.p.ring()
	}},
	{"SENDs, one into a receive under no key", 1, nil, func(w *twin) {
		for k := range 3 {
			piece := w.inbox.data(16*k, 16)
			if k == 1 {
				piece.LKey ^= 1
			}
			w.q.recv(piece)
		}
		for range 3 {
			w.p.write(ctrl(wqe.OpSend), w.local.data(0, fits))
		}
		w.p.ring()
	}},
	{"SENDs, one into a receive past its key, the message within", 1, nil, func(w *twin) {
		w.q.recv(w.inbox.data(0, 16))
		w.q.recv(w.inbox.data(8180, 16))
		for range 2 {
			w.p.write(ctrl(wqe.OpSend), w.local.data(0, fits))
		}
		w.p.ring()
	}},
	{"SENDs, then a WRITE", 1, nil, func(w *twin) {
		w.q.recv(w.inbox.data(0, fits))
		w.q.recv(w.inbox.data(8, fits))
		postSend(w)
		w.p.post(ctrl(wqe.OpRDMAWrite), w.far.raddr(9), w.local.data(0, 8))
		postSend(w)
	}},
	{"receive of two pieces, the first is enough", 1, nil, func(w *twin) {
		w.q.recv(w.inbox.data(0, 8), wqe.Data{ByteCount: 8, LKey: 0xffffff})
		postSend(w)
	}},
	{"receive of two pieces", 0, nil, func(w *twin) { w.q.recv(w.inbox.data(0, 7), w.inbox.data(50, 8)); postSend(w) }},
	{"receive too short", 0, nil, func(w *twin) { w.q.recv(w.inbox.data(0, 7)); postSend(w) }},
	{"receive of nothing", 0, nil, func(w *twin) { w.q.recv(); postSend(w) }},
	{"receive of 2^31", 0, nil, func(w *twin) { w.q.recv(wqe.Data{LKey: w.inbox.key, Addr: w.inbox.addr}); postSend(w) }},
	{"receive with the inline bit", 0, nil, func(w *twin) {
		w.q.recv(wqe.Data{ByteCount: wqe.InlineFlag | 8, LKey: w.inbox.key, Addr: w.inbox.addr})
		postSend(w)
	}},
	{"receive past its key, the message within", 0, nil, func(w *twin) { w.q.recv(w.inbox.data(8180, 13)); postSend(w) }},
	{"receive under no key", 0, nil, func(w *twin) {
		w.q.recv(wqe.Data{ByteCount: 8, LKey: w.inbox.key ^ 1, Addr: w.inbox.addr})
		postSend(w)
	}},
	{"receive under a key of another domain", 0, nil, func(w *twin) {
		key := w.q.h.reg(w.q.h.allocPD(), w.inbox.addr, 64, control.AccessLocalWrite)
		w.q.recv(wqe.Data{ByteCount: 8, LKey: key, Addr: w.inbox.addr})
		postSend(w)
	}},
	{"receive without local write", 0, nil, func(w *twin) {
		key := w.q.h.reg(w.q.h.pd, w.inbox.addr, 64, control.AccessRemoteRead)
		w.q.recv(wqe.Data{ByteCount: 8, LKey: key, Addr: w.inbox.addr})
		postSend(w)
	}},
	{"receive with a signature", 0, func(a, b *host) (p, q *end) {
		ca, cb := a.cq(control.CQ{LogSize: 6}), b.cq(control.CQ{LogSize: 6})
		return a.qp(control.QP{}, ca, ca), b.qp(control.QP{SignatureOn: 1}, cb, cb)
	}, func(w *twin) {
		// The first is where the signature segment should be.
		w.q.recv(w.inbox.data(100, 8), w.inbox.data(0, 8))
		postSend(w)
	}},
	{"receive of a shared queue", 0, func(a, b *host) (p, q *end) {
		ca, cb := a.cq(control.CQ{LogSize: 6}), b.cq(control.CQ{LogSize: 6})
		s := b.srq(control.SRQ{})
		q = s.on(control.QPTypeRC, cb)
		key := b.full(64, 4)
		s.put(0, key.data(0, 64))
		s.post(1)
		return a.qp(control.QP{}, ca, ca), q
	}, postSend},
	{"no room for the receiver's completion", 1, func(a, b *host) (p, q *end) {
		ca, cb := a.cq(control.CQ{LogSize: 6}), b.cq(control.CQ{LogSize: 0})
		return a.qp(control.QP{}, ca, ca), b.qp(control.QP{}, cb, cb)
	}, func(w *twin) {
		for i := range 3 {
			w.q.recv(w.inbox.data(8*i, fits))
			postSend(w)
		}
	}},
	{"no room for the sender's completion", 3, func(a, b *host) (p, q *end) {
		ca, cb := a.cq(control.CQ{LogSize: 1}), b.cq(control.CQ{LogSize: 4})
		return a.qp(control.QP{}, ca, ca), b.qp(control.QP{}, cb, cb)
	}, func(w *twin) {
		for i := range 4 {
			w.q.recv(w.inbox.data(8*i, fits))
			postSend(w)
		}
	}},
}

var atomicRows = []agreeRow{
	{"FETCH_ADD, result under a key of another domain", 0, nil, func(w *twin) {
		w.p.post(ctrl(wqe.OpAtomicFA), w.far.raddr(8), addFive, localKey(w, 8, keyWith(w.local, w.a.allocPD(), without(0))))
	}},
	{"FETCH_ADD, result under no key", 0, nil, func(w *twin) {
		w.p.post(ctrl(wqe.OpAtomicFA), w.far.raddr(8), addFive, localKey(w, 8, w.local.key^1))
	}},
	{"FETCH_ADD through a window of another queue pair", 0, nil, func(w *twin) {
		rkey := w.b.window(2)
		other := w.b.qp(control.QP{}, w.q.scq, w.q.scq)
		other.up(other)
		other.post(umr(rkey), other.bind(2, 9, w.far, 16, 32, mkeyAll)...)
		w.settle()
		w.p.post(ctrl(wqe.OpAtomicFA), wqe.Raddr{Addr: w.far.addr + 24, RKey: rkey&^0xff | 9}, addFive, w.local.data(0, 8))
	}},
	{"FETCH_ADD", 1, nil, postAdd},
	{"FETCH_ADDs, unsignaled too", 3, nil, func(w *twin) {
		postAdd(w)
		w.p.post(silent(wqe.OpAtomicFA), w.far.raddr(8184), addFive, w.local.data(8184, 8))
		postAdd(w)
	}},
	{"CMP_SWAP, different", 1, nil, func(w *twin) { w.p.post(ctrl(wqe.OpAtomicCS), w.far.raddr(8), swapBig, w.local.data(1, 8)) }},
	{"CMP_SWAP, equal", 2, nil, func(w *twin) {
		clear(w.far.mem[16:24])
		w.p.post(ctrl(wqe.OpAtomicCS), w.far.raddr(16), swapBig, w.local.data(1, 8))
		w.p.post(ctrl(wqe.OpAtomicCS), w.far.raddr(16), swapBig, w.local.data(9, 8))
	}},
	{"masked FETCH_ADD", 0, nil, func(w *twin) {
		w.p.post(wqe.Ctrl{Opcode: wqe.OpAtomicMaskedFA, OpMod: wqe.OpMod8, Flags: wqe.CEAlways}, w.far.raddr(8), wqe.MaskedFA8{Add: 3}, w.local.data(0, 8))
	}},
	{"FETCH_ADD, opmod of no meaning", 1, nil, func(w *twin) {
		w.p.post(wqe.Ctrl{Opcode: wqe.OpAtomicFA, OpMod: 3, Flags: wqe.CEAlways}, w.far.raddr(8), addFive, w.local.data(0, 8))
	}},
	{"FETCH_ADD, with event", 0, nil, func(w *twin) {
		w.p.post(wqe.Ctrl{Opcode: wqe.OpAtomicFA, Flags: wqe.CEEvent}, w.far.raddr(8), addFive, w.local.data(0, 8))
	}},
	{"FETCH_ADD, UC", 0, kindOf(control.QPTypeUC), postAdd},
	{"FETCH_ADD, misaligned", 0, nil, func(w *twin) { w.p.post(ctrl(wqe.OpAtomicFA), w.far.raddr(4), addFive, w.local.data(0, 8)) }},
	{"FETCH_ADD, aligned by a key that counts from elsewhere", 0, nil, func(w *twin) {
		var ans control.Key
		w.q.h.call(control.OpRegMR, &control.MR{PDN: w.q.h.pd, Access: control.AccessAll &^ control.AccessZeroBased,
			Addr: w.far.addr + 4, Length: 64, IOVA: 0x1000}, &ans)
		w.p.post(ctrl(wqe.OpAtomicFA), wqe.Raddr{Addr: 0x1008, RKey: ans.Key}, addFive, w.local.data(0, 8))
	}},
	{"FETCH_ADD, aligned in memory alone", 0, nil, func(w *twin) {
		var ans control.Key
		w.q.h.call(control.OpRegMR, &control.MR{PDN: w.q.h.pd, Access: control.AccessAll &^ control.AccessZeroBased,
			Addr: w.far.addr, Length: 64, IOVA: 0x1004}, &ans)
		w.p.post(ctrl(wqe.OpAtomicFA), wqe.Raddr{Addr: 0x100c, RKey: ans.Key}, addFive, w.local.data(0, 8))
	}},
	{"FETCH_ADD past the key", 0, nil, func(w *twin) { w.p.post(ctrl(wqe.OpAtomicFA), w.far.raddr(8192), addFive, w.local.data(0, 8)) }},
	{"FETCH_ADD, result of two pieces", 0, nil, func(w *twin) {
		w.p.post(ctrl(wqe.OpAtomicFA), w.far.raddr(8), addFive, w.local.data(0, 3), w.local.data(90, 5))
	}},
	{"FETCH_ADD, result of 8 bytes and 8 more", 0, nil, func(w *twin) {
		w.p.post(ctrl(wqe.OpAtomicFA), w.far.raddr(8), addFive, w.local.data(0, 8), w.local.data(90, 8))
	}},
	{"FETCH_ADD, result of 4 bytes", 0, nil, func(w *twin) { w.p.post(ctrl(wqe.OpAtomicFA), w.far.raddr(8), addFive, w.local.data(0, 4)) }},
	{"FETCH_ADD, result past its key", 0, nil, func(w *twin) { w.p.post(ctrl(wqe.OpAtomicFA), w.far.raddr(8), addFive, w.local.data(8188, 8)) }},
	{"FETCH_ADD, result without local write", 0, nil, func(w *twin) {
		key := w.p.h.reg(w.p.h.pd, w.local.addr, 64, control.AccessRemoteRead)
		w.p.post(ctrl(wqe.OpAtomicFA), w.far.raddr(8), addFive, wqe.Data{ByteCount: 8, LKey: key, Addr: w.local.addr})
	}},
	{"FETCH_ADD, no right of the key", 0, nil, func(w *twin) {
		key := w.q.h.reg(w.q.h.pd, w.far.addr, 64, control.AccessLocalWrite|control.AccessRemoteWrite|control.AccessRemoteRead)
		w.p.post(ctrl(wqe.OpAtomicFA), wqe.Raddr{Addr: w.far.addr, RKey: key}, addFive, w.local.data(0, 8))
	}},
	{"FETCH_ADD under a key of another domain", 0, nil, func(w *twin) {
		key := w.q.h.reg(w.q.h.allocPD(), w.far.addr, 64, control.AccessAll&^control.AccessZeroBased)
		w.p.post(ctrl(wqe.OpAtomicFA), wqe.Raddr{Addr: w.far.addr, RKey: key}, addFive, w.local.data(0, 8))
	}},
	{"FETCH_ADD, no right of the queue pair", 0, nil, func(w *twin) {
		w.q.modify(control.QPAttr{QPN: w.q.num, Mask: control.AttrAccess, Access: control.AccessRemoteWrite | control.AccessRemoteRead})
		postAdd(w)
	}},
	{"FETCH_ADD, a depth of 0 at the responder", 0, nil, func(w *twin) { w.q.q.Attr.MaxDestRdAtomic = 0; postAdd(w) }},
	{"FETCH_ADD, no room for the completion", 3, func(a, b *host) (p, q *end) {
		ca, cb := a.cq(control.CQ{LogSize: 1}), b.cq(control.CQ{LogSize: 4})
		return a.qp(control.QP{}, ca, ca), b.qp(control.QP{}, cb, cb)
	}, func(w *twin) { postAdd(w); postAdd(w); postAdd(w); postAdd(w) }},
}

var otherRows = []agreeRow{
	{"the peer is in error", 0, nil, func(w *twin) { w.q.toState(control.StateERR); postAdd(w) }},
	{"WRITEs and READs in turn, of one and of several packets", 12, nil, func(w *twin) {
		w.p.q.Attr.PathMTU = 1
		for k := range 4 {
			w.p.write(ctrl(wqe.OpRDMAWrite), w.far.raddr(8*k), w.local.data(8*k, 8))
			w.p.write(ctrl(wqe.OpRDMARead), w.far.raddr(1024), w.local.data(1024, 256+k))
			w.p.write(ctrl(wqe.OpRDMAWrite), w.far.raddr(2048), w.local.data(2048, 512+k))
		}
		w.p.ring()
	}},
	{"READs first, then WRITEs, then SENDs by the next call", 6, nil, func(w *twin) {
		w.p.q.Attr.PathMTU = 2
		for k := range 3 {
			w.p.write(ctrl(wqe.OpRDMARead), w.far.raddr(0), w.local.data(0, 512+k))
		}
		for k := range 3 {
			w.p.write(ctrl(wqe.OpRDMAWrite), w.far.raddr(1024), w.local.data(1024, 1000+40*k))
		}
		for range 3 {
			w.q.recv(w.inbox.data(0, 900))
			w.p.write(ctrl(wqe.OpSend), w.local.data(0, 900))
		}
		w.p.ring()
	}},
	{"a wrong index, which is said", 0, nil, func(w *twin) {
		w.q.recv(w.inbox.data(0, 8))
		w.p.askew(ctrl(wqe.OpSend), w.local.data(0, 8))
	}},
	{"a wrong index, which was said before", 1, nil, func(w *twin) {
		w.q.recv(w.inbox.data(0, 8))
		w.q.recv(w.inbox.data(8, 8))
		w.p.askew(ctrl(wqe.OpSend), w.local.data(0, 8))
		w.settle()
		w.p.askew(ctrl(wqe.OpSend), w.local.data(0, 8))
	}},
}
