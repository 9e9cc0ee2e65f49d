//go:build linux && (amd64 || arm64)

package engine

import (
	"github.com/nicless/nicless/packet"
	"github.com/nicless/nicless/wqe"
)

// An arrival is a packet of a request that its queue pair expects, on its way through the checks.
type arrival struct {
	p      *port
	q      *qp
	in     *inbound
	info   *packet.Info
	n      uint64 // bytes of payload
	writes bool   // its message is a WRITE
	reads  bool   // it is the request of a READ
	j      *job   // of its message: the scratch job if it begins one
}

func newArrival(p *port, q *qp, info *packet.Info) arrival {
	op := p.bth.Opcode.Operation()
	return arrival{p: p, q: q, in: &q.wire.in, info: info, n: uint64(len(p.packet.Payload)),
		writes: op >= packet.WriteFirst && op <= packet.WriteOnlyImm, reads: op == packet.ReadRequest}
}

// asks reports whether the request is a READ or an atomic, whose answer carries data.
func (x *arrival) asks() bool { return x.reads || x.info.AtomicETH }

// only reports whether the packet is a whole SEND or WRITE.
func (x *arrival) only() bool { return x.info.First && x.info.Last && !x.asks() }

// serveRequest serves the packet that is expected on a reliable connection. It passes the checks in the
// order of the specification (InfiniBand Architecture Specification, volume 1, 9.7.4.1; the states of
// rxe_responder in the kernel); the first that it fails gives the answer, and its PSN stays expected. The
// check of the PSN itself is in takeRequest.
func (sh *receiver) serveRequest(p *port, q *qp, info *packet.Info) answer {
	x := newArrival(p, q, info)
	a := sh.checkSequence(&x)
	if a == answerACK {
		a = sh.serveChecked(&x)
	}
	if a == answerACK && !x.asks() {
		sh.acknowledge(&x)
	}
	return a
}

// serveChecked serves a packet that fits its place in a message: the checks after that of the sequence,
// and then the work.
func (sh *receiver) serveChecked(x *arrival) answer {
	a := sh.checkResources(x)
	if a == answerACK {
		a = sh.checkLength(x)
	}
	if a == answerACK {
		a = sh.checkKeys(x)
	}
	if a == answerACK {
		a = sh.execute(x)
	}
	if a == answerACK && x.info.Last && !x.asks() {
		a = sh.finishRequest(x)
	}
	if a != answerACK && x.only() {
		sh.putBack(x.j)
	}
	return a
}

// serveUnreliable serves a packet on an unreliable connection, on which nothing is answered. A gap loses
// the message under way, and everything up to the next message.
func (sh *receiver) serveUnreliable(p *port, q *qp, info *packet.Info) {
	sh.established(q)
	x := newArrival(p, q, info)
	in := x.in
	if p.bth.PSN != in.psn {
		p.stats.Gaps++
		sh.dropMessage(in)
	}
	in.psn = packet.AddPSN(p.bth.PSN, 1)
	if info.First {
		sh.dropMessage(in)
	} else if in.job == nil {
		return
	}
	if !info.Payload || sh.checkSequence(&x) != answerACK || sh.serveChecked(&x) != answerACK {
		sh.dropMessage(in)
	}
}

// checkSequence checks that the packet fits its place: the first of a message comes when none is under
// way, and the others are of the same kind as the first.
func (sh *receiver) checkSequence(x *arrival) answer {
	under := x.in.job != nil
	if x.info.First != under && (!under || x.writes == x.in.writes) {
		return answerACK
	}
	if !x.q.reliable() {
		return answerDrop
	}
	return sh.outOfPlace(x.p, x.q)
}

// checkResources checks that the responder has what the request needs: a receive, or room for the answer.
func (sh *receiver) checkResources(x *arrival) answer {
	switch {
	case x.asks():
		x.j = sh.begin(x)
		if x.in.fresh >= x.in.mostDue(x.q) {
			return sh.outOfPlace(x.p, x.q)
		}
		if x.in.due == len(x.in.reads) {
			return answerNone // answers that were asked for again wait, too
		}
		return sh.nameReceives(nil, x.j)
	case x.info.First:
		x.j = sh.begin(x)
		return sh.checkReceive(nil, x.j)
	default:
		x.j = x.in.job
		if x.writes && x.info.Imm {
			return sh.openForImmediate(x.j)
		}
	}
	return answerACK
}

// checkLength checks the payload against the path MTU, the packet's place, and the length that the
// request names.
func (sh *receiver) checkLength(x *arrival) answer {
	mtu, length := uint64(x.q.wire.mtu), x.j.request.length
	switch {
	case x.reads && length > wqe.MaxMessage:
		return sh.outOfPlace(x.p, x.q)
	case x.asks():
	case x.only():
		if x.n > mtu || x.info.RETH && length != x.n {
			return sh.unfit(x, min(length, mtu))
		}
	case !x.info.Last && x.n != mtu, x.n == 0, x.n > mtu:
		return sh.unfit(x, mtu)
	case x.info.First && x.writes:
		if length <= mtu {
			return sh.unfit(x, length)
		}
		if length > wqe.MaxMessage {
			return sh.unfit(x, wqe.MaxMessage)
		}
	case x.writes:
		if left := x.j.total - x.j.moved; x.n > left || (x.n == left) != x.info.Last {
			return sh.unfit(x, left)
		}
	}
	return answerACK
}

// unfit refuses a packet of the wrong length. On an unreliable connection its message is lost.
func (sh *receiver) unfit(x *arrival, want uint64) answer {
	if !x.q.reliable() {
		return answerDrop
	}
	return sh.badLength(x.p, x.q, want)
}

// checkKeys finds the memory of the request, and checks the rights to it: at the key that the request
// names, or in the receive. It executes an atomic, too, which has nothing else to do.
func (sh *receiver) checkKeys(x *arrival) answer {
	j, in := x.j, x.in
	switch {
	case x.asks():
		j.total = j.request.length
		return sh.grant(nil, j, j.request.op.Info(), &j.src)
	case x.only():
		j.request.imm = immediate(x.p, x.info)
		j.request.length, j.total = x.n, x.n
		return sh.grant(nil, j, j.request.op.Info(), &j.dst)
	case x.info.First:
		if x.writes {
			j.total = j.request.length
			if a := sh.grant(nil, j, wqe.OpRDMAWrite.Info(), &j.dst); a != answerACK {
				return a
			}
		}
		sh.openMessage(x)
		j = x.j
	case !sh.current(j) || j.srq != nil && j.srq.gone:
		if a := sh.renew(x.q, j); a != answerACK {
			return a
		}
	}
	if !x.writes {
		return sh.extend(j, in, x.n)
	}
	return answerACK
}

// execute moves the payload of the packet, or notes the answer that is due.
func (sh *receiver) execute(x *arrival) answer {
	switch {
	case x.reads:
		sh.noteRead(x)
	case x.info.AtomicETH:
		sh.noteAtomic(x)
	default:
		return sh.putPayload(x.p, x.j, x.n)
	}
	return answerACK
}

// putPayload moves the payload of a packet to where the message's next bytes belong.
func (sh *receiver) putPayload(p *port, j *job, n uint64) answer {
	if n == 0 {
		return answerACK
	}
	j.src.reset()
	j.src.add(p.packet.Payload, nil, 0, n)
	if !sh.transfer(j, n) {
		return sh.unreachableHere(nil, j, sh.scratch.gap)
	}
	return answerACK
}

// noteRead notes that the answer to a READ is due. Its memory is read when the answer is sent.
func (sh *receiver) noteRead(x *arrival) {
	in, r, psn := x.in, &x.j.request, x.p.bth.PSN
	in.oweAnswer(answerDue{psn: psn, msn: in.msn + 1, addr: r.addr, length: uint32(r.length), rkey: r.rkey, srqn: r.srqn})
	in.psn = packet.AddPSN(in.psn, x.q.wire.packets(uint32(r.length)))
	in.msn++
	sh.sendAnswers(x.q, &x.p.left)
}

// noteAtomic notes the answer to an atomic that has been executed, and keeps it: an atomic is not executed
// again when its answer is lost.
func (sh *receiver) noteAtomic(x *arrival) {
	in, psn, value := x.in, x.p.bth.PSN, uint64(0)
	for i := range sh.scratch.old {
		value |= uint64(sh.scratch.old[i]) << (8 * i)
	}
	in.lastResult = (in.lastResult + 1) % len(in.results)
	in.results[in.lastResult] = result{psn, true, value}
	in.psn = packet.AddPSN(in.psn, 1)
	in.msn++
	in.oweAnswer(answerDue{psn: psn, msn: in.msn, atomic: true, value: value})
	sh.sendAnswers(x.q, &x.p.left)
}

// finishRequest completes a SEND or WRITE whose last packet has been executed.
func (sh *receiver) finishRequest(x *arrival) answer {
	j := x.j
	if !x.info.First {
		j.request.imm, j.request.solicited = immediate(x.p, x.info), x.p.bth.Solicited
		if x.info.IETH {
			j.request.op = wqe.OpSendInval
		} else if x.info.Imm && !x.writes {
			j.request.op = wqe.OpSendImm
		}
	}
	if j.recv {
		j.total = j.moved
		if a := sh.deliver(nil, j); a != answerACK {
			return a
		}
	}
	if !x.info.First {
		sh.dropMessage(x.in)
	}
	return answerACK
}

// acknowledge expects the packet after this SEND or WRITE, and notes the acknowledgement that it asks for.
func (sh *receiver) acknowledge(x *arrival) {
	in := x.in
	in.data = in.psn
	in.psn = packet.AddPSN(in.psn, 1)
	if x.info.Last {
		in.msn++
	}
	if x.p.bth.AckReq {
		x.p.owe(x.q)
	}
}

// onlyOpcodes are the opcodes of WQEs whose message is one packet with this operation.
var onlyOpcodes = [32]wqe.Opcode{
	packet.SendOnly: wqe.OpSend, packet.SendOnlyImm: wqe.OpSendImm, packet.SendOnlyInv: wqe.OpSendInval,
	packet.WriteOnly: wqe.OpRDMAWrite, packet.WriteOnlyImm: wqe.OpRDMAWriteImm,
	packet.SendFirst: wqe.OpSend, packet.WriteFirst: wqe.OpRDMAWrite,
	packet.ReadRequest: wqe.OpRDMARead, packet.FetchAdd: wqe.OpAtomicFA, packet.CompareSwap: wqe.OpAtomicCS,
}

// begin fills the scratch job with the request of a packet that begins a message.
func (sh *receiver) begin(x *arrival) *job {
	j := sh.scratch.job
	j.reset(head{})
	j.peer = x.q
	r, h, info := &j.request, x.p.packet.Head[:], x.info
	op := onlyOpcodes[x.p.bth.Opcode.Operation()]
	*r = request{op: op, solicited: x.p.bth.Solicited, fromQPN: x.q.attr.DestQPN, toQPN: x.q.num}
	if info.XRCETH {
		r.srqn = packet.ParseXRCETH((*[packet.XRCETHSize]byte)(h[info.OffXRCETH:])).SRQN
	}
	if info.RETH {
		t := packet.ParseRETH((*[packet.RETHSize]byte)(h[info.OffRETH:]))
		r.addr, r.rkey, r.length = t.Addr, t.RKey, uint64(t.Length)
	}
	if info.AtomicETH {
		t := packet.ParseAtomicETH((*[packet.AtomicETHSize]byte)(h[info.OffAtomicETH:]))
		wqe.Atomic{SwapAdd: t.SwapAdd, Compare: t.Compare}.Put((*[wqe.AtomicSize]byte)(sh.scratch.wqe[:]))
		r.addr, r.rkey, r.length = t.Addr, t.RKey, 8
		r.operand = sh.scratch.wqe[:wqe.AtomicSize]
	}
	j.recv = op.Info().Receive()
	return j
}

// immediate returns the immediate, or the key to invalidate, of a packet that has one.
func immediate(p *port, info *packet.Info) uint32 {
	h := p.packet.Head[:]
	switch {
	case info.Imm:
		return uint32(packet.ParseImmDt((*[packet.ImmDtSize]byte)(h[info.OffImm:])))
	case info.IETH:
		return packet.ParseIETH((*[packet.IETHSize]byte)(h[info.OffIETH:])).RKey
	}
	return 0
}
