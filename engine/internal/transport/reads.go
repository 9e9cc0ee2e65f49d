//go:build linux && (amd64 || arm64)

package transport

import (
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/packet"
	"github.com/nicless/nicless/wqe"
)

// repeat serves a request packet that was executed before. Only a READ is executed again.
func (sh *receiver) repeat(p *object.Port, q *object.QP, info *packet.Info) {
	in := &q.Wire.In
	switch {
	case info.AtomicETH:
		for i := range in.Results { // the latest first: PSNs begin anew after 2^24 packets
			r := &in.Results[(in.LastResult+len(in.Results)-i)%len(in.Results)]
			if r.Valid && r.PSN == p.BTH.PSN {
				if in.Due < len(in.Reads) {
					in.AddAnswer(object.AnswerDue{PSN: r.PSN, MSN: in.MSN, Atomic: true, Again: true,
						Value: r.Value})
					sh.sendAnswers(q, &p.Left)
				}
				return
			}
		}
	case info.RETH && p.BTH.Opcode.Operation() == packet.ReadRequest:
		t := packet.ParseRETH((*[packet.RETHSize]byte)(p.Packet.Head[info.OffRETH:]))
		end := packet.AddPSN(p.BTH.PSN, q.Wire.Packets(t.Length))
		if t.Length > wqe.MaxMessage || packet.DiffPSN(end, in.PSN) > 0 || in.Due == len(in.Reads) {
			return
		}
		r := object.AnswerDue{PSN: p.BTH.PSN, MSN: in.MSN, Again: true, Addr: t.Addr, Length: t.Length,
			RKey: t.RKey}
		if info.XRCETH {
			r.SRQN = packet.ParseXRCETH((*[packet.XRCETHSize]byte)(p.Packet.Head[info.OffXRCETH:])).SRQN
		}
		in.AddAnswer(r)
		sh.sendAnswers(q, &p.Left)
	default:
		p.ScheduleACK(q)
	}
}

// sendAnswers sends answers that are due from q, as far as there is room and budget; bytes is what is
// left of the budget. It returns how many packets it has sent.
func (sh *receiver) sendAnswers(q *object.QP, bytes *int) (done int) {
	w := q.Wire
	in := &w.In
	for in.Due > 0 && *bytes > 0 && w.Port.Up {
		d := &in.Reads[in.FirstDue]
		ok, over := false, true
		if d.Atomic {
			ok = sh.sendAtomicAnswer(q, d)
			*bytes -= object.PieceCost
		} else {
			ok, over = sh.sendReadAnswer(q, d, bytes)
		}
		if q.Wire == nil {
			return done + 1
		}
		if in.Due == 0 {
			break // refused: the queue is in error
		}
		if !ok {
			break
		}
		done++
		if over {
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
		if in.NAKDue = !sh.sendNAK(q, in.Fatal); !in.NAKDue {
			done++
		}
	}
	if in.HasDue() {
		sh.MarkWarm(q)
	}
	return done
}

// sendAtomicAnswer sends the answer of an atomic, and reports whether there was room.
func (sh *receiver) sendAtomicAnswer(q *object.QP, d *object.AnswerDue) bool {
	w := q.Wire
	op := packet.MakeOpcode(q.Service(), packet.AtomicAcknowledge)
	info := op.Info()
	h, _, ok := w.Port.Reserve(info.HeaderSize, 0)
	if !ok {
		return false
	}
	w.PutBTH(h, op, d.PSN, false, false)
	packet.AETH{Syndrome: packet.SyndromeACK, MSN: d.MSN}.Put((*[packet.AETHSize]byte)(h[info.OffAETH:]))
	packet.AtomicAckETH{Original: d.Value}.Put((*[packet.AtomicAckETHSize]byte)(h[info.OffAtomicAck:]))
	w.Port.Publish(w.Path, 0)
	return true
}

// sendReadAnswer sends one packet of the answer of a READ. over says that it was the last.
func (sh *receiver) sendReadAnswer(q *object.QP, d *object.AnswerDue, bytes *int) (ok, over bool) {
	w := q.Wire
	in := &w.In
	all := w.Packets(d.Length)
	first, last := d.Sent == 0, d.Sent+1 == all
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
	if info.AETH {
		packet.AETH{Syndrome: packet.SyndromeACK, MSN: d.MSN}.Put((*[packet.AETHSize]byte)(h[info.OffAETH:]))
	}
	w.Port.Publish(w.Path, n)
	*bytes -= n + object.PieceCost + sh.TakeEffort()
	d.Sent++
	return true, last
}

// readJob returns the job of the READ answer d, from its byte off on. It returns nil if the memory
// may not be read any more; the request is refused then.
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

// refuseAnswer sends a NAK in place of the rest of an answer.
func (sh *receiver) refuseAnswer(q *object.QP, d *object.AnswerDue, a object.Answer) {
	in := &q.Wire.In
	in.PSN = packet.AddPSN(d.PSN, d.Sent)
	in.DropAnswers()
	sh.scheduleNAK(q, a)
}

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
