//go:build linux && (amd64 || arm64)

package transport

import (
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/packet"
)

// Answers to READs and atomics on a port that loses packets, if the peer reports what has come. Answers that
// come before the expected one are kept, and taken after it, in order and once, as if they had come only
// then. Until then they have no effect. Only those that are missing are requested again.

// repairs reports whether the peer of w reports what has come, so that only what is lost is sent again.
// Answers that were kept are taken also after the agreement has ended.
func repairs(w *object.Wire) bool {
	return w.Recovery != nil && (w.Losses.Agreed || w.Recovery.KeepsAnswers())
}

// takeResults is takeResult, and keeps the answer if it has come too early. Answers that were kept and are
// expected now are taken after it.
func (sh *sender) takeResults(p *object.Port, q *object.QP, info *packet.Info) {
	w := q.Wire
	r, s, psn := &w.Out, w.Recovery, p.BTH.PSN
	m, missing := awaited(r, psn, s.Kept.Highest(r.UNA))
	if m == nil {
		p.Stats.Duplicates++
		return
	}
	i := uint32(packet.DiffPSN(psn, m.PSN))
	end := packet.AddPSN(m.PSN, min(m.PSNs, i-i%m.Part+m.Part))
	other := s.Answered(&r.Limit, psn, p.BTH.Reserved7, end, sh.Now())
	if s.Kept.Has(r.UNA, psn) {
		p.Stats.Duplicates++
		if other { // it has come again, but not what was requested with it
			sh.repairAnswers(q, r.UNA)
		}
		return
	}
	s.Later = true
	sh.takeResult(p, q, info)
	gap := false
	if sh.waits(q, w, psn) {
		gap = sh.keepAnswer(p, w, missing)
	} else if s.KeepsAnswers() {
		sh.serveAnswers(p, q)
		other = true
	}
	s.Later = false
	if q.Wire == w && s.Kept.Speak(gap, other || s.Kept.N == 0) {
		sh.repairAnswers(q, r.UNA)
	}
}

// awaited returns the message that waits for an answer with the PSN psn, nil if there is none, and how many
// answers are missing after the PSN highest and before psn.
func awaited(r *object.Outbound, psn, highest uint32) (found *object.Message, missing int32) {
	for n := r.First; n != r.Last; n++ {
		m := r.Message(n)
		if packet.DiffPSN(psn, m.PSN) < 0 {
			break
		}
		if !m.Answers {
			continue
		}
		found = nil
		from := max(packet.DiffPSN(highest, m.PSN)+1, 0) // the first that is missing
		if packet.DiffPSN(psn, m.End()) < 0 {
			return m, missing + packet.DiffPSN(psn, m.PSN) - from
		}
		missing += max(int32(m.PSNs)-from, 0)
	}
	return nil, 0
}

// waits reports whether q is still on the wire w, and earlier answers than that with the PSN psn are missing.
func (sh *sender) waits(q *object.QP, w *object.Wire, psn uint32) bool {
	r := &w.Out
	return q.Wire == w && r.First != r.Last && packet.DiffPSN(psn, r.UNA) > 0
}

// keepAnswer keeps the answer in p, if there is room. It reports whether that shows that others are missing.
// During a scan nothing is kept: the answer may be a stranger's.
func (sh *sender) keepAnswer(p *object.Port, w *object.Wire, missing int32) (gap bool) {
	r, s, now := &w.Out, w.Recovery, sh.Now()
	if w.Timer.Running() && !r.Paused {
		sh.Timers.Arm(&w.Timer, now, s.Deadline(now)) // the peer is not silent
	}
	if w.Guard.Answers.Doubtful(now) {
		return false
	}
	store := &w.Port.Paths.Store
	kept, gap := s.Kept.Keep(store, &p.Packet, r.UNA, p.BTH.PSN, 1, missing)
	if !kept {
		r.Confine(s.Kept.N + s.Kept.Room(store, int(w.MTU)))
	}
	w.Divert()
	return kept && gap
}

// serveAnswers takes the answers that were kept and are expected now, as far as the budget of the batch goes.
func (sh *sender) serveAnswers(p *object.Port, q *object.QP) {
	w := q.Wire
	r, s, store := &w.Out, w.Recovery, &w.Port.Paths.Store
	for s.KeepsAnswers() {
		psn, ok := expectedAnswer(r)
		if !ok {
			break
		}
		if p.Left <= 0 && s.Kept.Has(r.UNA, psn) {
			p.ResumeLater(w)
			break
		}
		if !s.Kept.Next(store, psn, psn, &p.Packet) { // its bytes stay until another is kept or taken
			break
		}
		p.BTH.Parse((*[packet.BTHSize]byte)(p.Packet.Head[:]))
		n := len(p.Packet.Payload)
		sh.takeResult(p, q, p.BTH.Opcode.Info())
		p.Left -= n + object.PieceCost + sh.TakeEffort()
		if q.Wire != w {
			return
		}
	}
	w.Divert()
}

// resumeAnswers is serveAnswers in a later step.
func (sh *sender) resumeAnswers(p *object.Port, q *object.QP) {
	w := q.Wire
	w.Recovery.Later = true
	sh.serveAnswers(p, q)
	w.Recovery.Later = false
	if q.Wire == w {
		sh.repairAnswers(q, w.Out.UNA)
	}
}

// expectedAnswer returns the PSN of the answer that is expected next. ok is false if none is.
func expectedAnswer(r *object.Outbound) (psn uint32, ok bool) {
	for n := r.First; n != r.Last; n++ {
		if m := r.Message(n); m.Answers {
			return packet.AddPSN(m.PSN, m.Answered), true
		}
	}
	return 0, false
}

// repairAnswers requests the answers again that are lost. The peer has answered everything before psn.
func (sh *sender) repairAnswers(q *object.QP, psn uint32) {
	w := q.Wire
	r, s := &w.Out, w.Recovery
	s.AnsweredBefore(psn)
	switch {
	case s.Later || r.Paused || r.First == r.Last:
		return
	case s.Kept.N == 0 && psn == r.UNA: // nothing is missing that was not before
		sh.continueRepair(q)
		return
	}
	chargeLook(w)
	lost, first := s.Repair(&r.Limit, r.UNA, r.Next(), r.Most)
	if first {
		countTimeout(w)
		q.Client.Traffic.N[nic.ImpliedNaks]++
	}
	if lost > 0 {
		sh.goBackTo(q)
	} else {
		sh.continueRepair(q)
	}
}
