//go:build linux && (amd64 || arm64)

package transport

import (
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/packet"
	"github.com/nicless/nicless/wqe"
)

// serveRequest serves the packet that is expected on a reliable connection. It passes the checks in the
// order of the specification (InfiniBand Architecture Specification, volume 1, 9.7.4.1; the states of
// rxe_responder in the kernel); the first that it fails gives the answer, and its PSN stays expected. The
// check of the PSN itself is in takeRequest.
func (sh *receiver) serveRequest(p *object.Port, q *object.QP, info *packet.Info) object.Answer {
	x := newArrival(p, q, info)
	a := sh.checkSequence(&x)
	if a == object.AnswerACK {
		a = sh.serveChecked(&x)
	}
	if a == object.AnswerACK && !x.hasAnswer() {
		sh.acknowledge(&x)
	}
	return a
}

// serveChecked serves a packet that fits its place in a message: the checks after that of the sequence,
// and then the work.
func (sh *receiver) serveChecked(x *arrival) object.Answer {
	a := sh.checkResources(x)
	if a == object.AnswerACK {
		a = sh.checkLength(x)
	}
	if a == object.AnswerACK {
		a = sh.checkKeys(x)
	}
	if a == object.AnswerACK {
		a = sh.execute(x)
	}
	if a == object.AnswerACK && x.info.Last && !x.hasAnswer() {
		a = sh.finishRequest(x)
	}
	if a != object.AnswerACK && x.only() {
		sh.PutBack(x.j)
	}
	return a
}

// serveUnreliable serves a packet on an unreliable connection, on which there are no answers. A gap
// loses the message under way, and everything up to the next message.
func (sh *receiver) serveUnreliable(p *object.Port, q *object.QP, info *packet.Info) {
	sh.NotifyEstablished(q)
	x := newArrival(p, q, info)
	in := x.in
	if p.BTH.PSN != in.PSN {
		p.Stats.Gaps++
		sh.DropMessage(in)
	}
	in.PSN = packet.AddPSN(p.BTH.PSN, 1)
	if info.First {
		sh.DropMessage(in)
	} else if in.Job == nil {
		return
	}
	if !info.Payload || sh.checkSequence(&x) != object.AnswerACK || sh.serveChecked(&x) != object.AnswerACK {
		sh.DropMessage(in)
	}
}

// checkSequence checks that the packet fits its place: the first of a message comes when none is under
// way, and the others are of the same kind as the first.
func (sh *receiver) checkSequence(x *arrival) object.Answer {
	under := x.in.Job != nil
	if x.info.First != under && (!under || x.writes == x.in.Writes) {
		return object.AnswerACK
	}
	if !x.q.Reliable() {
		return object.AnswerDrop
	}
	return sh.outOfPlace(x.p, x.q)
}

// checkResources checks that the responder has what the request needs: a receive, or room for the answer.
func (sh *receiver) checkResources(x *arrival) object.Answer {
	switch {
	case x.hasAnswer():
		x.j = sh.begin(x)
		if x.in.Fresh >= x.in.MostDue(x.q) {
			return sh.outOfPlace(x.p, x.q)
		}
		if x.in.Due == len(x.in.Reads) {
			return object.AnswerNone // answers that were requested again wait, too
		}
		return sh.NameReceives(nil, x.j)
	case x.info.First:
		x.j = sh.begin(x)
		return sh.CheckReceive(nil, x.j)
	default:
		x.j = x.in.Job
		if x.writes && x.info.Imm {
			return sh.openForImmediate(x.j)
		}
	}
	return object.AnswerACK
}

// checkLength checks the payload against the path MTU, the packet's place, and the length that the
// request names.
func (sh *receiver) checkLength(x *arrival) object.Answer {
	mtu, length := uint64(x.q.Wire.MTU), x.j.Request.Length
	switch {
	case x.reads && length > wqe.MaxMessage:
		return sh.outOfPlace(x.p, x.q)
	case x.hasAnswer():
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
		if left := x.j.Total - x.j.Moved; x.n > left || (x.n == left) != x.info.Last {
			return sh.unfit(x, left)
		}
	}
	return object.AnswerACK
}

// unfit refuses a packet of the wrong length. On an unreliable connection its message is lost.
func (sh *receiver) unfit(x *arrival, want uint64) object.Answer {
	if !x.q.Reliable() {
		return object.AnswerDrop
	}
	return sh.badLength(x.p, x.q, want)
}

// checkKeys finds the memory of the request, and checks the rights to it: at the key that the request
// names, or in the receive. It executes an atomic, too, which has nothing else to do.
func (sh *receiver) checkKeys(x *arrival) object.Answer {
	j, in := x.j, x.in
	switch {
	case x.hasAnswer():
		j.Total = j.Request.Length
		return sh.Grant(nil, j, j.Request.Op.Info(), &j.Src)
	case x.only():
		j.Request.Imm = immediate(x.p, x.info)
		j.Request.Length, j.Total = x.n, x.n
		return sh.Grant(nil, j, j.Request.Op.Info(), &j.Dst)
	case x.info.First:
		if x.writes {
			j.Total = j.Request.Length
			if a := sh.Grant(nil, j, wqe.OpRDMAWrite.Info(), &j.Dst); a != object.AnswerACK {
				return a
			}
		}
		sh.openMessage(x)
		j = x.j
	case !sh.Current(j) || j.SRQ != nil && j.SRQ.Gone:
		if a := sh.renew(x.q, j); a != object.AnswerACK {
			return a
		}
	}
	if !x.writes {
		return sh.extend(j, in, x.n)
	}
	return object.AnswerACK
}

// execute moves the payload of the packet, or notes the answer that is due.
func (sh *receiver) execute(x *arrival) object.Answer {
	switch {
	case x.reads:
		sh.noteRead(x)
	case x.info.AtomicETH:
		sh.noteAtomic(x)
	default:
		return sh.putPayload(x.p, x.j, x.n)
	}
	return object.AnswerACK
}

// putPayload moves the payload of a packet to where the message's next bytes belong.
func (sh *receiver) putPayload(p *object.Port, j *object.Job, n uint64) object.Answer {
	if n == 0 {
		return object.AnswerACK
	}
	j.Src.Reset()
	j.Src.Add(p.Packet.Payload, nil, 0, n)
	if !sh.Transfer(j, n) {
		return sh.UnreachableHere(nil, j, sh.Scratch.Gap)
	}
	return object.AnswerACK
}

// noteRead notes that the answer to a READ is due. Its memory is read when the answer is sent.
func (sh *receiver) noteRead(x *arrival) {
	in, r, psn := x.in, &x.j.Request, x.p.BTH.PSN
	in.AddAnswer(object.AnswerDue{PSN: psn, MSN: in.MSN + 1, Addr: r.Addr, Length: uint32(r.Length),
		RKey: r.RKey, SRQN: r.SRQN})
	in.PSN = packet.AddPSN(in.PSN, x.q.Wire.Packets(uint32(r.Length)))
	in.MSN++
	sh.sendAnswers(x.q, &x.p.Left)
}

// noteAtomic notes the answer to an atomic that has been executed, and keeps it: an atomic is not executed
// again when its answer is lost.
func (sh *receiver) noteAtomic(x *arrival) {
	in, psn, value := x.in, x.p.BTH.PSN, uint64(0)
	for i := range sh.Scratch.Old {
		value |= uint64(sh.Scratch.Old[i]) << (8 * i)
	}
	in.LastResult = (in.LastResult + 1) % len(in.Results)
	in.Results[in.LastResult] = object.Result{PSN: psn, Valid: true, Value: value}
	in.PSN = packet.AddPSN(in.PSN, 1)
	in.MSN++
	in.AddAnswer(object.AnswerDue{PSN: psn, MSN: in.MSN, Atomic: true, Value: value})
	sh.sendAnswers(x.q, &x.p.Left)
}

// finishRequest completes a SEND or WRITE whose last packet has been executed.
func (sh *receiver) finishRequest(x *arrival) object.Answer {
	j := x.j
	if !x.info.First {
		j.Request.Imm, j.Request.Solicited = immediate(x.p, x.info), x.p.BTH.Solicited
		if x.info.IETH {
			j.Request.Op = wqe.OpSendInval
		} else if x.info.Imm && !x.writes {
			j.Request.Op = wqe.OpSendImm
		}
	}
	if j.Recv {
		j.Total = j.Moved
		if a := sh.Deliver(nil, j); a != object.AnswerACK {
			return a
		}
	}
	if !x.info.First {
		sh.DropMessage(x.in)
	}
	return object.AnswerACK
}

// acknowledge expects the packet after this SEND or WRITE, and notes the acknowledgement that it asks for.
func (sh *receiver) acknowledge(x *arrival) {
	in := x.in
	in.Data = in.PSN
	in.PSN = packet.AddPSN(in.PSN, 1)
	if x.info.Last {
		in.MSN++
	}
	if x.p.BTH.AckReq {
		x.p.ScheduleACK(x.q)
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
func (sh *receiver) begin(x *arrival) *object.Job {
	j := sh.Scratch.Job
	j.Reset(object.Head{})
	j.Peer = x.q
	r, h, info := &j.Request, x.p.Packet.Head[:], x.info
	op := onlyOpcodes[x.p.BTH.Opcode.Operation()]
	*r = object.Request{Op: op, Solicited: x.p.BTH.Solicited, FromQPN: x.q.Attr.DestQPN, ToQPN: x.q.Num}
	if info.XRCETH {
		r.SRQN = packet.ParseXRCETH((*[packet.XRCETHSize]byte)(h[info.OffXRCETH:])).SRQN
	}
	if info.RETH {
		t := packet.ParseRETH((*[packet.RETHSize]byte)(h[info.OffRETH:]))
		r.Addr, r.RKey, r.Length = t.Addr, t.RKey, uint64(t.Length)
	}
	if info.AtomicETH {
		t := packet.ParseAtomicETH((*[packet.AtomicETHSize]byte)(h[info.OffAtomicETH:]))
		wqe.Atomic{SwapAdd: t.SwapAdd, Compare: t.Compare}.Put((*[wqe.AtomicSize]byte)(sh.Scratch.WQE[:]))
		r.Addr, r.RKey, r.Length = t.Addr, t.RKey, 8
		r.Operand = sh.Scratch.WQE[:wqe.AtomicSize]
	}
	j.Recv = op.Info().Receive()
	return j
}

// immediate returns the immediate, or the key to invalidate, of a packet that has one.
func immediate(p *object.Port, info *packet.Info) uint32 {
	h := p.Packet.Head[:]
	switch {
	case info.Imm:
		return uint32(packet.ParseImmDt((*[packet.ImmDtSize]byte)(h[info.OffImm:])))
	case info.IETH:
		return packet.ParseIETH((*[packet.IETHSize]byte)(h[info.OffIETH:])).RKey
	}
	return 0
}
