//go:build linux && (amd64 || arm64)

package transport

import (
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/traffic"
	"github.com/nicless/nicless/packet"
	"github.com/nicless/nicless/wqe"
)

// Answers to READs and atomics: their requests are served in responder.go, and their answers are sent here.

// repeat serves a packet of a request that was executed before and has come again. A READ is executed again.
// An atomic gets the answer that was kept. A SEND or a WRITE gets an acknowledgement.
func (sh *receiver) repeat(p *object.Port, q *object.QP, info *packet.Info) {
	in := &q.Wire.In
	switch {
	case info.Atomic:
		r := keptResult(in, p.BTH.PSN)
		if r == nil || in.Due == len(in.Reads) {
			return
		}
		in.AddAnswer(object.AnswerDue{PSN: r.PSN, MSN: in.MSN, Atomic: true, Again: true, Value: r.Value,
			Copy: p.BTH.Reserved7})
		sh.sendAnswers(q, &p.Left)
	case info.RETH && p.BTH.Opcode.Operation() == packet.ReadRequest:
		t := packet.ParseRETH((*[packet.RETHSize]byte)(p.Packet.Head[info.OffRETH:]))
		end := packet.AddPSN(p.BTH.PSN, q.Wire.Packets(t.Length))
		if t.Length > wqe.MaxMessage || packet.DiffPSN(end, in.PSN) > 0 || in.Due == len(in.Reads) {
			return // the READ was not executed before, or there is no room to note its answer
		}
		r := object.AnswerDue{PSN: p.BTH.PSN, MSN: in.MSN, Again: true, Addr: t.Addr, Length: t.Length,
			RKey: t.RKey, Copy: p.BTH.Reserved7}
		if info.XRCETH {
			r.SRQN = packet.ParseXRCETH((*[packet.XRCETHSize]byte)(p.Packet.Head[info.OffXRCETH:])).SRQN
		}
		in.AddAnswer(r)
		sh.sendAnswers(q, &p.Left)
	default:
		p.ScheduleACK(q)
	}
}

// keptResult returns the newest result of an atomic that has this PSN and is kept, nil if there is none. An
// older result may have the same PSN, because PSNs begin anew after 2^24 packets.
func keptResult(in *object.Inbound, psn uint32) *object.Result {
	n := len(in.Results)
	for age := range n { // the newest result has age 0
		r := &in.Results[(in.LastResult+n-age)%n]
		if r.Valid && r.PSN == psn {
			return r
		}
	}
	return nil
}

// sendAnswers sends the answers that q owes its peer, and then the NAK if one is due, as long as the ring has
// room and the budget is not used up. *bytes is what is left of the budget; sendAnswers counts it down. It
// returns how many packets it has sent.
func (sh *receiver) sendAnswers(q *object.QP, bytes *int) (done int) {
	w := q.Wire
	in := &w.In
	for in.Due > 0 && *bytes > 0 && w.Port.Up {
		d := &in.Reads[in.FirstDue]
		sent, last := false, true
		if d.Atomic {
			sent = sh.sendAtomicAnswer(q, d)
			*bytes -= object.PieceCost
		} else {
			sent, last = sh.sendReadAnswer(q, d, bytes)
		}
		if q.Wire == nil {
			return done + 1
		}
		if in.Due == 0 {
			break // the answer was refused, and the queue pair is in error
		}
		if !sent {
			break
		}
		done++
		if last {
			if in.AnswerJob != nil {
				sh.FreeJob(in.AnswerJob)
				in.AnswerJob = nil
			}
			if !d.Again {
				in.Fresh--
			}
			in.FirstDue = (in.FirstDue + 1) % len(in.Reads)
			in.Due--
		}
	}
	if in.Due == 0 && in.NAKDue {
		if sh.sendNAK(q, in.Fatal) {
			in.NAKDue = false
			done++
		}
	}
	if in.HasDue() {
		sh.MarkWarm(q)
	}
	return done
}

// sendAtomicAnswer sends the answer to an atomic, and reports whether the ring had room.
func (sh *receiver) sendAtomicAnswer(q *object.QP, d *object.AnswerDue) bool {
	w := q.Wire
	op := packet.MakeOpcode(q.Service(), packet.AtomicAcknowledge)
	info := op.Info()
	h, _, ok := w.Port.Reserve(info.HeaderSize, 0)
	if !ok {
		return false
	}
	w.PutBTH(h, op, d.PSN, false, false)
	h[packet.BTHSize-4] |= d.Copy
	packet.AETH{Syndrome: packet.SyndromeACK, MSN: d.MSN}.Put((*[packet.AETHSize]byte)(h[info.OffAETH:]))
	packet.AtomicAckETH{Original: d.Value}.Put((*[packet.AtomicAckETHSize]byte)(h[info.OffAtomicAck:]))
	traffic.Sent(q, 0)
	w.Port.Publish(w.Path, 0)
	return true
}

// sendReadAnswer sends the next packet of the answer to a READ. sent is false if the ring had no room, or if
// the answer was refused. last says that the packet was the last one of the answer.
func (sh *receiver) sendReadAnswer(q *object.QP, d *object.AnswerDue, bytes *int) (sent, last bool) {
	w := q.Wire
	in := &w.In
	first := d.Sent == 0
	last = d.Sent+1 == w.Packets(d.Length)
	off := d.Sent * w.MTU
	n := int(min(d.Length-off, w.MTU))
	op := packet.MakeOpcode(q.Service(), readOperation(first, last))
	info := op.Info()
	h, payload, ok := w.Port.Reserve(info.HeaderSize, n)
	if !ok {
		return false, false
	}
	if n > 0 {
		j := sh.readJob(q, d, uint64(off))
		if j == nil {
			return false, false
		}
		j.Dst.Reset()
		j.Dst.Add(payload, nil, 0, uint64(n))
		sh.Fault.Answering = true
		reached := sh.Transfer(j, uint64(n))
		sh.Fault.Answering = false
		if !reached {
			sh.refuseAnswer(q, d, sh.UnreachableHere(nil, j, sh.Scratch.Gap))
			return false, false
		}
		if !last && in.AnswerJob == nil {
			j.Dst.Reset()
			in.AnswerJob = sh.DetachJob()
		}
	}
	w.PutBTH(h, op, packet.AddPSN(d.PSN, d.Sent), false, false)
	h[packet.BTHSize-4] |= d.Copy // the peer knows so which of its requests this answers
	if info.AETH {
		packet.AETH{Syndrome: packet.SyndromeACK, MSN: d.MSN}.Put((*[packet.AETHSize]byte)(h[info.OffAETH:]))
	}
	traffic.Sent(q, n)
	w.Port.Publish(w.Path, n)
	*bytes -= n + object.PieceCost + sh.TakeEffort()
	d.Sent++
	return true, last
}

// readJob returns a job that reads the memory of the READ whose answer is d, from byte off of the answer on.
// If the memory may not be read any more, readJob refuses the rest of the answer and returns nil.
func (sh *receiver) readJob(q *object.QP, d *object.AnswerDue, off uint64) *object.Job {
	in := &q.Wire.In
	if j := in.AnswerJob; j != nil {
		if sh.KeysUnchanged(j) {
			return j
		}
		sh.FreeJob(j)
		in.AnswerJob = nil
	}
	j := sh.Scratch.Job
	j.Reset(object.Head{})
	j.Peer = q
	j.Request = object.Request{Op: wqe.OpRDMARead, FromQPN: q.Attr.DestQPN, ToQPN: q.Num, SRQN: d.SRQN,
		RKey: d.RKey, Addr: d.Addr, Length: uint64(d.Length)}
	j.Total = uint64(d.Length)
	if a := sh.Respond(nil, j, wqe.OpRDMARead.Info(), &j.Src); a != object.AnswerACK {
		sh.refuseAnswer(q, d, a)
		return nil
	}
	j.Skip(off)
	return j
}

// refuseAnswer drops the rest of the answer d and all answers after it, and schedules a NAK in their place.
// The NAK has the PSN of the first packet of the answer that was not sent.
func (sh *receiver) refuseAnswer(q *object.QP, d *object.AnswerDue, a object.Answer) {
	in := &q.Wire.In
	in.PSN = packet.AddPSN(d.PSN, d.Sent)
	in.DropAnswers()
	sh.scheduleNAK(q, a)
}

// readOperation returns the operation of a packet of the answer to a READ. first and last say where the
// packet is in the answer.
func readOperation(first, last bool) packet.Operation {
	switch {
	case first && last:
		return packet.ReadResponseOnly
	case first:
		return packet.ReadResponseFirst
	case last:
		return packet.ReadResponseLast
	}
	return packet.ReadResponseMiddle
}
