//go:build linux && (amd64 || arm64)

package engine

import (
	"github.com/nicless/nicless/packet"
	"github.com/nicless/nicless/wqe"
)

// An answerDue is the answer of a READ or an atomic that the responder owes. Answers are sent in
// the order of their requests. A READ's memory is read when its answer is sent.
type answerDue struct {
	psn    uint32 // of the request: that of the first packet of the answer
	msn    uint32
	addr   uint64
	length uint32
	sent   uint32 // packets sent so far
	rkey   uint32
	srqn   uint32
	atomic bool
	again  bool   // it was asked for before
	value  uint64 // of an atomic: the old value
}

// A result is what an atomic has found. It is kept, because an atomic that was executed must not be
// executed again when its answer is lost.
type result struct {
	psn   uint32
	valid bool
	value uint64
}

// mostDue returns how many answers q's peer may ask for at a time.
func (in *inbound) mostDue(q *qp) int {
	if n := int(q.attr.MaxDestRdAtomic); n > 0 {
		return min(n, mostAnswers)
	}
	return 1
}

// packets returns in how many packets n bytes travel.
func (w *wire) packets(n uint32) uint32 {
	if n == 0 {
		return 1
	}
	return uint32((uint64(n) + uint64(w.mtu) - 1) / uint64(w.mtu))
}

func (in *inbound) oweAnswer(a answerDue) {
	in.reads[(in.firstDue+in.due)%len(in.reads)] = a
	in.due++
	if !a.again {
		in.fresh++
	}
}

// owes reports whether there are answers to send, or a NAK after them.
func (in *inbound) owes() bool { return in.due > 0 || in.unsaid }

// forgetAnswers forgets the answers that are owed.
func (in *inbound) forgetAnswers() { in.due, in.fresh = 0, 0 }

// repeat serves a request packet that was executed before. Only a READ is executed again.
func (sh *receiver) repeat(p *port, q *qp, info *packet.Info) {
	in := &q.wire.in
	switch {
	case info.AtomicETH:
		for i := range in.results { // the latest first: PSNs begin anew after 2^24 packets
			r := &in.results[(in.lastResult+len(in.results)-i)%len(in.results)]
			if r.valid && r.psn == p.bth.PSN {
				if in.due < len(in.reads) {
					in.oweAnswer(answerDue{psn: r.psn, msn: in.msn, atomic: true, again: true, value: r.value})
					sh.sendAnswers(q, &p.left)
				}
				return
			}
		}
	case info.RETH && p.bth.Opcode.Operation() == packet.ReadRequest:
		t := packet.ParseRETH((*[packet.RETHSize]byte)(p.packet.Head[info.OffRETH:]))
		end := packet.AddPSN(p.bth.PSN, q.wire.packets(t.Length))
		if t.Length > wqe.MaxMessage || packet.DiffPSN(end, in.psn) > 0 || in.due == len(in.reads) {
			return
		}
		r := answerDue{psn: p.bth.PSN, msn: in.msn, again: true, addr: t.Addr, length: t.Length, rkey: t.RKey}
		if info.XRCETH {
			r.srqn = packet.ParseXRCETH((*[packet.XRCETHSize]byte)(p.packet.Head[info.OffXRCETH:])).SRQN
		}
		in.oweAnswer(r)
		sh.sendAnswers(q, &p.left)
	default:
		p.owe(q)
	}
}

// sendAnswers sends answers that q owes, as far as there is room and budget; bytes is what is left of
// the budget. It returns how many packets it has sent.
func (sh *receiver) sendAnswers(q *qp, bytes *int) (done int) {
	w := q.wire
	in := &w.in
	for in.due > 0 && *bytes > 0 && w.port.up {
		d := &in.reads[in.firstDue]
		ok, over := false, true
		if d.atomic {
			ok = sh.sendAtomicAnswer(q, d)
			*bytes -= pieceCost
		} else {
			ok, over = sh.sendReadAnswer(q, d, bytes)
		}
		if q.wire == nil {
			return done + 1
		}
		if in.due == 0 {
			break // refused: the queue is in error
		}
		if !ok {
			break
		}
		done++
		if over {
			if in.answerJob != nil {
				sh.dismissJob(in.answerJob)
				in.answerJob = nil
			}
			if !d.again {
				in.fresh--
			}
			in.firstDue = (in.firstDue + 1) % len(in.reads)
			in.due--
		}
	}
	if in.due == 0 && in.unsaid {
		if in.unsaid = !sh.sendNAK(q, in.fatal); !in.unsaid {
			done++
		}
	}
	if in.owes() {
		sh.markWarm(q)
	}
	return done
}

// sendAtomicAnswer sends the answer of an atomic, and reports whether there was room.
func (sh *receiver) sendAtomicAnswer(q *qp, d *answerDue) bool {
	w := q.wire
	op := packet.MakeOpcode(q.service(), packet.AtomicAcknowledge)
	info := op.Info()
	h, _, ok := w.port.reserve(info.HeaderSize, 0)
	if !ok {
		return false
	}
	w.putBTH(h, op, d.psn, false, false)
	packet.AETH{Syndrome: packet.SyndromeACK, MSN: d.msn}.Put((*[packet.AETHSize]byte)(h[info.OffAETH:]))
	packet.AtomicAckETH{Original: d.value}.Put((*[packet.AtomicAckETHSize]byte)(h[info.OffAtomicAck:]))
	w.port.publish(w.path, 0)
	return true
}

// sendReadAnswer sends one packet of the answer of a READ. over says that it was the last.
func (sh *receiver) sendReadAnswer(q *qp, d *answerDue, bytes *int) (ok, over bool) {
	w := q.wire
	in := &w.in
	all := w.packets(d.length)
	first, last := d.sent == 0, d.sent+1 == all
	off := d.sent * w.mtu
	n := int(min(d.length-off, w.mtu))
	op := packet.MakeOpcode(q.service(), readOperation(first, last))
	info := op.Info()
	h, payload, ok := w.port.reserve(info.HeaderSize, n)
	if !ok {
		return false, false
	}
	if n > 0 {
		j := sh.readJob(q, d, uint64(off))
		if j == nil {
			return false, false
		}
		j.dst.reset()
		j.dst.add(payload, nil, 0, uint64(n))
		sh.fault.answers = true
		reached := sh.transfer(j, uint64(n))
		sh.fault.answers = false
		if !reached {
			sh.refuseAnswer(q, d, sh.unreachableHere(nil, j, sh.scratch.gap))
			return false, false
		}
		if !last && in.answerJob == nil {
			j.dst.reset()
			in.answerJob = sh.retainJob()
		}
	}
	w.putBTH(h, op, packet.AddPSN(d.psn, d.sent), false, false)
	if info.AETH {
		packet.AETH{Syndrome: packet.SyndromeACK, MSN: d.msn}.Put((*[packet.AETHSize]byte)(h[info.OffAETH:]))
	}
	w.port.publish(w.path, n)
	*bytes -= n + pieceCost + sh.takeEffort()
	d.sent++
	return true, last
}

// readJob returns the job of the READ answer d, from its byte off on. It returns nil if the memory
// may not be read any more; the request is refused then.
func (sh *receiver) readJob(q *qp, d *answerDue, off uint64) *job {
	in := &q.wire.in
	if j := in.answerJob; j != nil {
		if sh.current(j) {
			return j
		}
		sh.dismissJob(j)
		in.answerJob = nil
	}
	j := sh.scratch.job
	j.reset(head{})
	j.peer = q
	j.request = request{op: wqe.OpRDMARead, fromQPN: q.attr.DestQPN, toQPN: q.num, srqn: d.srqn, rkey: d.rkey, addr: d.addr, length: uint64(d.length)}
	j.total = uint64(d.length)
	if a := sh.respond(nil, j, wqe.OpRDMARead.Info(), &j.src); a != answerACK {
		sh.refuseAnswer(q, d, a)
		return nil
	}
	j.skip(off)
	return j
}

// refuseAnswer sends a NAK in place of the rest of an answer.
func (sh *receiver) refuseAnswer(q *qp, d *answerDue, a answer) {
	in := &q.wire.in
	in.psn = packet.AddPSN(d.psn, d.sent)
	in.forgetAnswers()
	sh.oweNAK(q, a)
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
