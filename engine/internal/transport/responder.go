//go:build linux && (amd64 || arm64)

package transport

import (
	"encoding/binary"

	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/packet"
	"github.com/nicless/nicless/wqe"
)

// serveRequest serves the packet that is expected on a reliable connection. The packet passes the checks in
// the order of the specification (InfiniBand Architecture Specification, volume 1, 9.7.4.1; the states of
// rxe_responder in the kernel): sequence, resources, length, keys. Then the packet is executed, and after the
// last packet its message is completed. The first check that the packet fails gives the answer, and the
// packet's PSN stays expected. The check of the PSN itself is in takeRequest.
func (sh *receiver) serveRequest(p *object.Port, q *object.QP, info *packet.Info) object.Answer {
	in := &q.Wire.In
	a := object.AnswerACK
	switch {
	case info.First == (in.Job != nil):
		return sh.outOfPlace(p, q)
	case !info.Payload || info.Atomic: // a READ or an atomic
		return sh.serveReadOrAtomic(p, q, info)
	case info.First && info.Last:
		a = sh.serveOnly(p, q, info)
	default:
		x := newArrival(p, q, info)
		if a = sh.checkKind(&x); a == object.AnswerACK {
			a = sh.servePart(&x)
		}
	}
	if a != object.AnswerACK {
		return a
	}
	in.Data = in.PSN
	in.PSN = packet.AddPSN(in.PSN, 1)
	if info.Last {
		in.MSN++
	}
	if p.BTH.AckReq {
		p.ScheduleACK(q)
	}
	return object.AnswerACK
}

// serveOnly serves a SEND or WRITE of one packet: it makes the checks after that of the sequence, and then
// executes the request.
func (sh *receiver) serveOnly(p *object.Port, q *object.QP, info *packet.Info) object.Answer {
	j, n := sh.begin(p, q, info), uint64(len(p.Packet.Payload))
	r := &j.Request
	// resources
	a := sh.CheckReceive(nil, j)
	// length
	if mtu := uint64(q.Wire.MTU); a == object.AnswerACK && (n > mtu || info.RETH && r.Length != n) {
		a = sh.refuseLength(p, q, min(r.Length, mtu))
	}
	// keys
	if a == object.AnswerACK {
		r.Imm = immediate(p, info)
		r.Length, j.Total = n, n
		a = sh.Grant(nil, j, r.Op.Info(), &j.Dst)
	}
	if a == object.AnswerACK {
		a = sh.putPayload(p, j, n)
	}
	if a == object.AnswerACK && j.Recv {
		a = sh.Deliver(nil, j)
	}
	if a != object.AnswerACK {
		sh.ReturnReceive(j)
	} else if r.Op.Info().Raddr {
		q.Client.Traffic.N[nic.GotWrites]++
	}
	return a
}

// servePart is serveOnly for a packet of a message of several packets. The message's state is kept in x.in
// between packets.
func (sh *receiver) servePart(x *arrival) object.Answer {
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
	if a != object.AnswerACK && x.info.First {
		sh.DropInboundJobs(x.in) // the requester sends the message again from its first packet on
	}
	return a
}

// serveReadOrAtomic is serveOnly for a READ or an atomic. The answer carries data, and is sent when the ring
// has room.
func (sh *receiver) serveReadOrAtomic(p *object.Port, q *object.QP, info *packet.Info) object.Answer {
	in, j := &q.Wire.In, sh.begin(p, q, info)
	// resources, and length
	switch {
	case !info.Atomic && j.Request.Length > wqe.MaxMessage:
		return sh.outOfPlace(p, q)
	case in.Fresh >= in.MostDue(q):
		return sh.tooMany(p, q)
	case in.Due == len(in.Reads):
		return object.AnswerNone // the answers to requests that came again take the rest of the ring in.Reads
	case info.Payload && !operandsFit(&j.Request, len(p.Packet.Payload)):
		return sh.badOperands(p, q, j.Request.Length)
	}
	// keys; an atomic is executed
	a := sh.NameReceives(nil, j)
	if a == object.AnswerACK {
		j.Total = j.Request.Length
		a = sh.Grant(nil, j, j.Request.Op.Info(), &j.Src)
	}
	if a == object.AnswerACK {
		if info.Atomic {
			q.Client.Traffic.N[nic.GotAtomics]++
		} else {
			q.Client.Traffic.N[nic.GotReads]++
		}
		sh.noteAnswer(p, q, &j.Request, info.Atomic)
	}
	return a
}

// tooMany answers a READ or an atomic beyond those that the peer may request at a time. If the peer agrees on
// reports and has sent the request before, the request is dropped as if it was lost: it may be part of a READ
// of which a stranger has made the peer believe that it is executed, and that it may be requested in parts.
func (sh *receiver) tooMany(p *object.Port, q *object.QP) object.Answer {
	if l := q.Wire.Losses; p.BTH.Reserved7 != 0 && l != nil && l.Agreed {
		p.Stats.Duplicates++
		return object.AnswerNone
	}
	return sh.outOfPlace(p, q)
}

// serveUnreliable serves a packet on an unreliable connection, on which there are no answers. After a gap in
// the PSNs, the message under way is lost, and so are all packets up to the next message.
func (sh *receiver) serveUnreliable(p *object.Port, q *object.QP, info *packet.Info) {
	sh.NotifyEstablished(q)
	in := &q.Wire.In
	if p.BTH.PSN != in.PSN {
		p.Stats.Gaps++
		q.Client.Traffic.N[nic.OutOfSequence]++
		sh.DropInboundJobs(in)
	}
	in.PSN = packet.AddPSN(p.BTH.PSN, 1)
	if info.First {
		sh.DropInboundJobs(in)
	} else if in.Job == nil {
		return
	}
	a := object.AnswerDrop
	x := newArrival(p, q, info)
	switch {
	case !info.Payload:
	case info.First && info.Last:
		a = sh.serveOnly(p, q, info)
	default:
		if a = sh.checkKind(&x); a == object.AnswerACK {
			a = sh.servePart(&x)
		}
	}
	if a != object.AnswerACK {
		sh.DropInboundJobs(in)
	}
}

// checkKind checks that a packet which continues a message is of the same kind as its first packet.
func (sh *receiver) checkKind(x *arrival) object.Answer {
	switch {
	case x.info.First || x.writes == x.in.Writes:
		return object.AnswerACK
	case !x.q.Reliable():
		return object.AnswerDrop
	}
	return sh.outOfPlace(x.p, x.q)
}

// checkResources checks that there is a receive, if the packet begins a SEND or ends a WRITE with immediate.
func (sh *receiver) checkResources(x *arrival) object.Answer {
	if x.info.First {
		x.j = sh.begin(x.p, x.q, x.info)
		return sh.CheckReceive(nil, x.j)
	}
	x.j = x.in.Job
	if x.writes && x.info.Imm {
		return sh.checkForImmediate(x.j)
	}
	return object.AnswerACK
}

// checkLength checks the payload against the path MTU, the packet's place, and the length that the
// request names.
func (sh *receiver) checkLength(x *arrival) object.Answer {
	mtu, length := uint64(x.q.Wire.MTU), x.j.Request.Length
	switch {
	case !x.info.Last && x.n != mtu, x.n == 0, x.n > mtu:
		return sh.refuseLength(x.p, x.q, mtu)
	case x.info.First && x.writes:
		if length <= mtu {
			return sh.refuseLength(x.p, x.q, length)
		}
		if length > wqe.MaxMessage {
			return sh.refuseLength(x.p, x.q, wqe.MaxMessage)
		}
	case x.writes:
		if left := x.j.Total - x.j.Moved; x.n > left || (x.n == left) != x.info.Last {
			return sh.refuseLength(x.p, x.q, left)
		}
	}
	return object.AnswerACK
}

// refuseLength refuses a packet of the wrong length. On an unreliable connection its message is lost.
func (sh *receiver) refuseLength(p *object.Port, q *object.QP, want uint64) object.Answer {
	if !q.Reliable() {
		return object.AnswerDrop
	}
	return sh.badLength(p, q, want)
}

// checkKeys finds the memory for the packet's payload, and checks the rights to it. The memory of a WRITE is
// at the key that the request names, the memory of a SEND is in the receive.
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
	case !sh.KeysUnchanged(j) || j.SRQ != nil && j.SRQ.Gone:
		if a := sh.recheckMessage(x.q, j); a != object.AnswerACK {
			return a
		}
	}
	if !x.writes {
		return sh.extendReceive(j, x.in, x.n)
	}
	return object.AnswerACK
}

// putPayload moves the n bytes of payload of a packet to where the message's next bytes belong.
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

// noteAnswer notes that the answer to a READ or an atomic is due. The memory of a READ is read when the
// answer is sent. The value that an atomic has found is kept, so that the atomic need not be executed again
// if its answer is lost.
func (sh *receiver) noteAnswer(p *object.Port, q *object.QP, r *object.Request, atomic bool) {
	in := &q.Wire.In
	d := object.AnswerDue{PSN: p.BTH.PSN, MSN: in.MSN + 1, SRQN: r.SRQN, Copy: p.BTH.Reserved7}
	if atomic {
		d.Atomic, d.Value = true, binary.LittleEndian.Uint64(sh.Scratch.Old[:])
		if r.Length == 4 { // these results are big-endian
			d.Value = uint64(binary.BigEndian.Uint32(sh.Scratch.Old[:]))
		}
		in.LastResult = (in.LastResult + 1) % len(in.Results)
		in.Results[in.LastResult] = object.Result{PSN: d.PSN, Valid: true, Value: d.Value}
		in.PSN = packet.AddPSN(in.PSN, 1)
	} else {
		d.Addr, d.Length, d.RKey = r.Addr, uint32(r.Length), r.RKey
		in.PSN = packet.AddPSN(in.PSN, q.Wire.Packets(d.Length))
	}
	in.MSN++
	in.AddAnswer(d)
	sh.sendAnswers(q, &p.Left)
}

// operandsFit reports whether a masked atomic is on a word of 4 or 8 bytes, and n bytes are its operands.
func operandsFit(r *object.Request, n int) bool {
	switch {
	case r.Length != 4 && r.Length != 8:
		return false
	case r.Op == wqe.OpAtomicMaskedCS && r.Length == 8:
		return n == wqe.MaskedCS8Size
	}
	return n == wqe.UnitSize
}

// finishRequest completes a SEND or WRITE of several packets whose last one has been executed.
func (sh *receiver) finishRequest(x *arrival) object.Answer {
	j := x.j
	j.Request.Imm, j.Request.Solicited = immediate(x.p, x.info), x.p.BTH.Solicited
	if x.info.IETH {
		j.Request.Op = wqe.OpSendInval
	} else if x.info.Imm && !x.writes {
		j.Request.Op = wqe.OpSendImm
	} else if x.info.Imm {
		sh.openForImmediate(j)
	}
	if j.Recv {
		j.Total = j.Moved
		if a := sh.Deliver(nil, j); a != object.AnswerACK {
			return a
		}
	}
	if x.writes {
		x.q.Client.Traffic.N[nic.GotWrites]++
	}
	sh.DropInboundJobs(x.in)
	return object.AnswerACK
}

// firstOpcodes has, for each operation of a packet that begins a message, the opcode of the message's WQE.
// Whether a message of several packets has an immediate is known only with its last packet.
var firstOpcodes = [32]wqe.Opcode{
	packet.SendOnly: wqe.OpSend, packet.SendOnlyImm: wqe.OpSendImm, packet.SendOnlyInv: wqe.OpSendInval,
	packet.WriteOnly: wqe.OpRDMAWrite, packet.WriteOnlyImm: wqe.OpRDMAWriteImm,
	packet.SendFirst: wqe.OpSend, packet.WriteFirst: wqe.OpRDMAWrite,
	packet.ReadRequest: wqe.OpRDMARead, packet.FetchAdd: wqe.OpAtomicFA, packet.CompareSwap: wqe.OpAtomicCS,
	packet.MaskedFetchAdd: wqe.OpAtomicMaskedFA, packet.MaskedCompareSwap: wqe.OpAtomicMaskedCS,
}

// begin fills the scratch job with the request of a packet that begins a message.
func (sh *receiver) begin(p *object.Port, q *object.QP, info *packet.Info) *object.Job {
	j := sh.Scratch.Job
	j.Reset(object.Head{})
	j.Peer = q
	r, h := &j.Request, p.Packet.Head[:]
	op := firstOpcodes[p.BTH.Opcode.Operation()]
	*r = object.Request{Op: op, Solicited: p.BTH.Solicited, FromQPN: q.Attr.DestQPN, ToQPN: q.Num}
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
	} else if info.Atomic { // the peer may be able to change the payload, so the operands are copied
		r.Operand = sh.Scratch.WQE[:copy(sh.Scratch.WQE[:], p.Packet.Payload)]
	}
	j.Recv = op.Info().Receive()
	return j
}

// immediate returns the immediate of a packet, or the key that it invalidates: 0 if it has neither.
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
