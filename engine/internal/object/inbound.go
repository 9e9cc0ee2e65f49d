//go:build linux && (amd64 || arm64)

package object

import "github.com/nicless/nicless/packet"

// Executed notes that the request that q expects, a SEND or WRITE of one packet, has been executed.
func (p *Port) Executed(q *QP, ask bool) {
	in := &q.Wire.In
	if ask {
		p.ScheduleACK(q) // rule: a WRITE that asks is acknowledged
	}
	in.Data = in.PSN
	in.Advance()
}

// Advance expects the packet after a whole message of one packet.
func (in *Inbound) Advance() {
	in.Silent = false // rule: an expected packet ends silence
	in.PSN = packet.AddPSN(in.PSN, 1)
	in.MSN++
}

// MostDue returns how many answers q's peer may request at a time.
func (in *Inbound) MostDue(q *QP) int {
	if n := int(q.Attr.MaxDestRdAtomic); n > 0 {
		return min(n, MostAnswers)
	}
	return 1
}

// Packets returns in how many packets n bytes travel.
func (w *Wire) Packets(n uint32) uint32 {
	if n == 0 {
		return 1
	}
	return uint32((uint64(n) + uint64(w.MTU) - 1) / uint64(w.MTU))
}

func (in *Inbound) AddAnswer(a AnswerDue) {
	in.Reads[(in.FirstDue+in.Due)%len(in.Reads)] = a
	in.Due++
	if !a.Again {
		in.Fresh++
	}
}

// HasDue reports whether answers are due, or a NAK after them.
func (in *Inbound) HasDue() bool { return in.Due > 0 || in.NAKDue }

// DropAnswers drops the answers that are due.
func (in *Inbound) DropAnswers() { in.Due, in.Fresh = 0, 0 }

// ScheduleACK notes that q is to send an acknowledgement at the end of the batch.
func (p *Port) ScheduleACK(q *QP) {
	if in := &q.Wire.In; !in.ACKDue {
		in.ACKDue = true
		p.ACKs = append(p.ACKs, q.Wire)
	}
}

// ResumeLater notes that w has packets that were kept and can be executed in a later step.
func (p *Port) ResumeLater(w *Wire) {
	if w.Resuming {
		return
	}
	w.Resuming = true
	p.Resumed = append(p.Resumed, w)
	p.SetHot(true)
}
