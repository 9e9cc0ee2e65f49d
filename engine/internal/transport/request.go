//go:build linux && (amd64 || arm64)

package transport

import (
	"encoding/binary"

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
	if a := sh.checkSequence(&x); a != object.AnswerACK {
		return a
	}
	if x.asks() {
		return sh.serveQuery(&x)
	}
	a := sh.serveData(&x)
	if a == object.AnswerACK {
		sh.acknowledge(&x)
	}
	return a
}

// serveData passes a packet of a SEND or a WRITE that is in sequence through the checks that follow, and
// executes it.
func (sh *receiver) serveData(x *arrival) object.Answer {
	if x.info.First && x.info.Last {
		return sh.serveOnly(x)
	}
	a := sh.checkResources(x)
	if a == object.AnswerACK {
		a = sh.checkLength(x)
	}
	if a == object.AnswerACK {
		a = sh.checkKeys(x)
	}
	if a == object.AnswerACK {
		a = sh.putPayload(x.p, x.j, x.n)
	}
	if a == object.AnswerACK && x.info.Last {
		a = sh.finishRequest(x)
	}
	return a
}

// serveOnly is serveData for a whole message, which has no state between packets.
func (sh *receiver) serveOnly(x *arrival) object.Answer {
	j := sh.begin(x)
	r := &j.Request
	a := sh.CheckReceive(nil, j)                                                                             // resources
	if mtu := uint64(x.q.Wire.MTU); a == object.AnswerACK && (x.n > mtu || x.info.RETH && r.Length != x.n) { // length
		a = sh.unfit(x, min(r.Length, mtu))
	}
	if a == object.AnswerACK { // keys
		r.Imm = immediate(x.p, x.info)
		r.Length, j.Total = x.n, x.n
		a = sh.Grant(nil, j, r.Op.Info(), &j.Dst)
	}
	if a == object.AnswerACK {
		a = sh.putPayload(x.p, j, x.n)
	}
	if a == object.AnswerACK && j.Recv {
		a = sh.Deliver(nil, j)
	}
	if a != object.AnswerACK {
		sh.PutBack(j)
	}
	return a
}

// serveQuery is serveData for a READ or an atomic: what it asks for is sent later, or again.
func (sh *receiver) serveQuery(x *arrival) object.Answer {
	j := sh.begin(x)
	switch { // resources, and length
	case x.in.Fresh >= x.in.MostDue(x.q) || j.Request.Length > wqe.MaxMessage:
		return sh.outOfPlace(x.p, x.q)
	case x.in.Due == len(x.in.Reads):
		return object.AnswerNone // answers that were asked for again wait, too
	}
	a := sh.NameReceives(nil, j)
	if a == object.AnswerACK { // keys; an atomic is executed
		j.Total = j.Request.Length
		a = sh.Grant(nil, j, j.Request.Op.Info(), &j.Src)
	}
	if a == object.AnswerACK {
		sh.noteAnswer(x, &j.Request)
	}
	return a
}

// serveUnreliable serves a packet on an unreliable connection, on which nothing is answered. A gap loses
// the message under way, and everything up to the next message.
func (sh *receiver) serveUnreliable(p *object.Port, q *object.QP, info *packet.Info) {
	sh.Established(q)
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
	if !info.Payload || sh.checkSequence(&x) != object.AnswerACK || sh.serveData(&x) != object.AnswerACK {
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

// checkResources checks that there is a receive, if the packet begins a SEND or ends a WRITE with immediate.
func (sh *receiver) checkResources(x *arrival) object.Answer {
	if x.info.First {
		x.j = sh.begin(x)
		return sh.CheckReceive(nil, x.j)
	}
	x.j = x.in.Job
	if x.writes && x.info.Imm {
		return sh.openForImmediate(x.j)
	}
	return object.AnswerACK
}

// checkLength checks the payload against the path MTU, the packet's place, and the length that the
// request names.
func (sh *receiver) checkLength(x *arrival) object.Answer {
	mtu, length := uint64(x.q.Wire.MTU), x.j.Request.Length
	switch {
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

// checkKeys finds the memory of the packet, and checks the rights to it: at the key that the request names,
// or in the receive.
func (sh *receiver) checkKeys(x *arrival) object.Answer {
	j := x.j
	switch {
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
		return sh.extend(j, x.in, x.n)
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

// noteAnswer notes the answer to a READ, whose memory is read when the answer is sent, or to an atomic. What an
// atomic has found is kept: it is not executed again when its answer is lost.
func (sh *receiver) noteAnswer(x *arrival, r *object.Request) {
	in := x.in
	d := object.AnswerDue{PSN: x.p.BTH.PSN, MSN: in.MSN + 1, SRQN: r.SRQN}
	if x.reads {
		d.Addr, d.Length, d.RKey = r.Addr, uint32(r.Length), r.RKey
		in.PSN = packet.AddPSN(in.PSN, x.q.Wire.Packets(d.Length))
	} else {
		d.Atomic, d.Value = true, binary.LittleEndian.Uint64(sh.Scratch.Old[:])
		in.LastResult = (in.LastResult + 1) % len(in.Results)
		in.Results[in.LastResult] = object.Result{PSN: d.PSN, Valid: true, Value: d.Value}
		in.PSN = packet.AddPSN(in.PSN, 1)
	}
	in.MSN++
	in.OweAnswer(d)
	sh.sendAnswers(x.q, &x.p.Left)
}

// finishRequest completes a SEND or WRITE of several packets whose last one has been executed.
func (sh *receiver) finishRequest(x *arrival) object.Answer {
	j := x.j
	j.Request.Imm, j.Request.Solicited = immediate(x.p, x.info), x.p.BTH.Solicited
	if x.info.IETH {
		j.Request.Op = wqe.OpSendInval
	} else if x.info.Imm && !x.writes {
		j.Request.Op = wqe.OpSendImm
	}
	if j.Recv {
		j.Total = j.Moved
		if a := sh.Deliver(nil, j); a != object.AnswerACK {
			return a
		}
	}
	sh.DropMessage(x.in)
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
		x.p.Owe(x.q)
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
