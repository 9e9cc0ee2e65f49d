//go:build linux && (amd64 || arm64)

package transport

import (
	"fmt"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/atomics"
	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/engine/internal/completion"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/packet"
	"github.com/nicless/nicless/wqe"
)

// Answers of the responder, as the requester takes them. An acknowledgement of a PSN acknowledges all earlier
// PSNs too, except those of answers to READs and atomics. If it comes before such an answer, the answer was
// lost (an implied NAK), and the requester sends the request again.

// takeAnswer serves a packet in which the peer answers a request of q: an ACK, a NAK, or the result of a READ
// or an atomic.
func (sh *sender) takeAnswer(p *object.Port, q *object.QP, info *packet.Info) {
	w := q.Wire
	r := &w.Out
	psn := p.BTH.PSN
	if q.Faults != nil && sh.losesAnswer(q) {
		return
	}
	if p.BTH.Opcode.Operation() == packet.Report {
		sh.takeReport(p, q)
		return
	}
	if packet.DiffPSN(psn, r.UNA) < 0 || packet.DiffPSN(psn, r.Most) >= 0 {
		sh.countOutside(p, q)
		return
	}
	if sh.dropSuspect(p, q, true) {
		return
	}
	if p.BTH.Opcode.Operation() != packet.Acknowledge {
		if repairs(w) {
			sh.takeResults(p, q, info)
		} else {
			sh.takeResult(p, q, info)
		}
		return
	}
	a := packet.ParseAETH((*[packet.AETHSize]byte)(p.Packet.Head[info.OffAETH:]))
	switch {
	case a.ACK():
		sh.acknowledged(q, packet.AddPSN(psn, 1))
	case a.RNR():
		if sh.acknowledged(q, psn) {
			sh.notReady(q, a.Code())
		}
	case a.Syndrome == packet.NAKSequence:
		q.Client.Traffic.N[nic.SequenceNaks]++
		countTimeout(w)
		if w.Recovery != nil {
			sh.queryPeer(p, w.Losses)
			sh.confirmPeer(p, w.Losses)
		}
		if sh.acknowledged(q, psn) && !r.Paused && r.Next() != r.UNA {
			r.Shrink()
			sh.goBack(q)
		}
	case a.NAK():
		if sh.acknowledged(q, psn) && r.First != r.Last {
			sh.refusedByPeer(q, object.Answer(a.Syndrome))
		}
	default:
		p.Stats.Malformed++
	}
}

// countOutside counts an answer to a packet that is not on the way: a late one, or a stranger's.
func (sh *sender) countOutside(p *object.Port, q *object.QP) {
	r, psn := &q.Wire.Out, p.BTH.PSN
	far := packet.DiffPSN(psn, r.UNA) < -PathReach || packet.DiffPSN(psn, r.Most) > 0
	if far {
		p.Stats.StrayAnswers++
	} else {
		p.Stats.Duplicates++
	}
	sh.countStray(p, q, far, true)
}

// acknowledged is called when the peer has acknowledged all PSNs before psn. It completes the messages that
// have no later PSNs. If the answer to a READ or an atomic is missing, it requests the answer again. It
// reports whether the caller may go on: not if an answer was missing, or if the queue pair has stopped.
func (sh *sender) acknowledged(q *object.QP, psn uint32) bool {
	w := q.Wire
	r := &w.Out
	before := r.UNA
	for r.First != r.Last {
		if sh.finishWrites(q, psn) > 0 {
			continue
		}
		m := r.Oldest()
		if m.Answers && m.Answered < m.PSNs {
			r.UNA = packet.AddPSN(m.PSN, m.Answered)
			missing := packet.DiffPSN(psn, r.UNA) > 0
			sh.progressed(q, before)
			if missing {
				sh.requestAgain(q, psn)
			}
			return !missing
		}
		if packet.DiffPSN(psn, m.End()) < 0 {
			if packet.DiffPSN(psn, r.UNA) > 0 {
				r.UNA = psn
			}
			break
		}
		r.UNA = m.End()
		if m.Answers {
			r.Reading--
		}
		if r.Sending == r.First { // packets of this message were going to be sent again
			sh.DropRequestJob(r)
			r.Sending, r.Sent = r.Sending+1, 0
		}
		r.First++
		if !sh.finishMessage(q, m) {
			return false
		}
	}
	sh.progressed(q, before)
	return true
}

// progressed is called when packets may have been acknowledged. before is the oldest PSN that was not
// acknowledged until now.
func (sh *sender) progressed(q *object.QP, before uint32) {
	w := q.Wire
	r := &w.Out
	n := packet.DiffPSN(r.UNA, before)
	if n <= 0 {
		return
	}
	// The packet that was to be sent next may be among those acknowledged.
	if r.Sending == r.First && r.First != r.Last {
		if m := r.Oldest(); packet.DiffPSN(r.UNA, packet.AddPSN(m.PSN, r.Sent)) > 0 {
			sh.DropRequestJob(r)
			r.Sent = uint32(packet.DiffPSN(r.UNA, m.PSN))
		}
	}
	r.Rewound, r.Paused = false, false
	r.Retries, r.RnrRetries = 0, 0
	r.Grow(uint32(n))
	if s := w.Recovery; s != nil {
		s.Received(&r.Limit, r.UNA, sh.Now())
	}
	if packet.DiffPSN(r.Next(), r.UNA) > 0 || r.Selective && r.Most != r.UNA {
		sh.startTimer(w)
	} else {
		w.Timer.Stop()
	}
	if w.Recovery != nil {
		sh.continueRepair(q)
	}
	sh.MarkWarm(q)
}

// requestAgain goes back because an answer is missing. It does so only once until something is acknowledged
// or the timer runs out. If it went back for each packet that shows the same gap, answers that nobody needs
// would fill the link.
//
// The peer has answered everything before psn. If it reports what has come, only what is missing is
// requested.
func (sh *sender) requestAgain(q *object.QP, psn uint32) {
	w := q.Wire
	r := &w.Out
	if repairs(w) {
		sh.repairAnswers(q, psn)
		return
	}
	if w.Recovery != nil {
		sh.queryPeer(w.Port, w.Losses)
	}
	if r.Rewound {
		return
	}
	r.Rewound = true
	countTimeout(w)
	q.Client.Traffic.N[nic.ImpliedNaks]++
	r.Shrink()
	sh.goBack(q)
}

// takeResult serves a packet of the answer to a READ, or the answer to an atomic: it checks the packet, and
// moves its payload into local memory.
func (sh *sender) takeResult(p *object.Port, q *object.QP, info *packet.Info) {
	w := q.Wire
	r := &w.Out
	psn := p.BTH.PSN
	if !sh.acknowledged(q, psn) {
		return
	}
	// Everything before psn is acknowledged now, so the message of psn is the oldest.
	if r.First == r.Last {
		p.Stats.Duplicates++
		return
	}
	m := r.Oldest()
	want := packet.AddPSN(m.PSN, m.Answered)
	if !m.Answers || psn != want {
		p.Stats.Duplicates++
		return
	}
	off := uint64(m.Answered) * uint64(w.MTU)
	n := min(m.Total-off, uint64(w.MTU))
	atomic := info.AtomicAck
	if atomic != m.Head.Opcode().Info().Atomic() || !atomic && uint64(len(p.Packet.Payload)) != n {
		sh.badResponse(q, p, m, n)
		return
	}
	j := r.AnswerJob
	if j != nil && !sh.KeysUnchanged(j) {
		sh.DropAnswerJob(r)
		j = nil
	}
	if j == nil {
		if j = sh.checkAgain(q, m, true); j == nil {
			return
		}
		if j.NoPlace != 0 {
			sh.noPlace(q, int(j.NoPlace))
			return
		}
		if off > 0 {
			j.Dst.Skip(off)
			j.Moved = off
		}
	}
	source := p.Packet.Payload
	if atomic {
		source = sh.atomicResult(p, info, n)
	}
	j.Src.Reset()
	j.Src.Add(source, nil, 0, n)
	if n > 0 && !sh.transferAnswer(q, j, n) {
		sh.DropAnswerJob(r)
		sh.localGap(q, j, m)
		return
	}
	m.Answered++
	if m.Answered < m.PSNs && r.AnswerJob == nil {
		j.Src.Reset()
		r.AnswerJob = sh.DetachJob()
	} else if m.Answered == m.PSNs {
		sh.DropAnswerJob(r)
	}
	sh.acknowledged(q, packet.AddPSN(psn, 1))
}

// noPlace fails the oldest message, whose answer has come, because the key of the data segment at byte at of
// its WQE does not allow to put the answer there. The WQE was checked again, so it is in the scratch.
func (sh *sender) noPlace(q *object.QP, at int) {
	sh.RewindQueue(q)
	if sh.SnapshotHead(q) {
		sh.NoPlace(q, sh.Scratch.Job, at)
	}
}

// atomicResult returns the value in the answer of an atomic on n bytes, as mlx5 delivers it.
func (sh *sender) atomicResult(p *object.Port, info *packet.Info, n uint64) []byte {
	h := (*[packet.AtomicAckETHSize]byte)(p.Packet.Head[info.OffAtomicAck:])
	return atomics.PutOld(&sh.Scratch.Old, packet.ParseAtomicAckETH(h).Original, int(n))
}

// badResponse fails the oldest message, because a packet of the answer is of the wrong kind or does not have
// n bytes.
func (sh *sender) badResponse(q *object.QP, p *object.Port, m *object.Message, n uint64) {
	op := m.Head.Opcode()
	sh.RewindQueue(q)
	if sh.SnapshotHead(q) {
		sh.Explain(q, codes.LinkResponse, "%v: peer QP %#06x answered with a packet of %v with %d bytes; %d bytes were expected", op, q.Attr.DestQPN, p.BTH.Opcode, len(p.Packet.Payload), n)
		sh.Fail(q, sh.Scratch.Job, cqe.BadResponse)
	}
}

// refusedByPeer fails the oldest message, because the responder has answered it with a NAK.
func (sh *sender) refusedByPeer(q *object.QP, a object.Answer) {
	sh.RewindQueue(q)
	if !sh.SnapshotHead(q) {
		return
	}
	j := sh.Scratch.Job
	note := "why is said to its owner"
	if w := q.Wire; w.Guard.Answers.Doubtful(sh.Now()) {
		n, _ := w.Guard.Answers.Counted(sh.Now())
		note = fmt.Sprintf("perhaps it did not: %d answers with impossible PSNs have come from its address, so this one may be forged, too", n)
	}
	sh.Explain(q, codes.LinkRefused, "%v: peer QP %#06x on link %s refused it (%s); %s",
		j.Head.Opcode(), q.Attr.DestQPN, q.Wire.Port.Settings.Name, a, note)
	sh.Fail(q, j, a.Syndrome())
}

// finishWrites completes several of the oldest messages of q together. They have to be WRITEs or SENDs whose
// PSNs are all before psn, have the same opcode and one block each, and be signaled. finishWrites returns how
// many messages it has completed: 0 or at least 2.
func (sh *sender) finishWrites(q *object.QP, psn uint32) (n int) {
	r := &q.Wire.Out
	c := q.SQ.CQ
	if r.Sending-r.First < 2 ||
		c.Session != nil || // rule: compressed completions are collected
		sh.Hooks.NoFastPath {
		return 0
	}
	first := r.Oldest()
	bytes, op := uint64(0), first.Head.Opcode()
	for most := min(int(r.Sending-r.First), object.MostSeries); n < most; n++ {
		m := r.Message(r.First + uint32(n))
		if m.Answers || // rule: a READ completes with its answer
			packet.DiffPSN(psn, m.End()) < 0 || // rule: a message completes when it is acknowledged
			m.Head.Opcode() != op ||
			m.Head.CE() != wqe.CEAlways || // rule: only signaled messages complete
			m.Index != first.Index+uint64(n) {
			break
		}
		bytes += m.Total
	}
	if n < 2 ||
		c.Free(n) < n { // rule: completions of messages have room
		return 0
	}
	r.UNA = r.Message(r.First + uint32(n) - 1).End()
	r.First += uint32(n)
	q.Client.Count[control.CounterWQEs] += uint64(n)
	q.Client.Count[control.CounterBytes] += bytes
	q.SQ.WQEs += uint64(n)
	q.SQ.Moved += bytes
	sh.CompleteAll(c, n, completion.AllSignaled(n), 0, q.UIDX, 0,
		object.RequesterTail(op, q.Num, uint16(first.Index)))
	return n
}
