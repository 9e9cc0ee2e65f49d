//go:build linux && (amd64 || arm64)

package engine

import (
	"fmt"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/packet"
)

// What the responder answers, as the requester sees it. An acknowledgement of a PSN is one of all
// PSNs before it, except that it cannot stand for the answer of a READ or an atomic: if it comes
// before that answer, the answer was lost (an implied NAK), and the requester asks again.

// answer serves a packet that answers a request of q.
func (sh *sender) takeAnswer(p *port, q *qp, info *packet.Info) {
	w := q.wire
	r := &w.out
	psn := p.bth.PSN
	if packet.DiffPSN(psn, r.una) < 0 || packet.DiffPSN(psn, r.most) >= 0 {
		far := packet.DiffPSN(psn, r.una) < -pathReach || packet.DiffPSN(psn, r.most) > 0
		if far {
			p.stats.StrayAnswers++
		} else {
			p.stats.Duplicates++
		}
		sh.strays(p, q, far, true)
		return
	}
	if sh.crowded(p, q, true) {
		return
	}
	if p.bth.Opcode.Operation() != packet.Acknowledge {
		sh.takeResult(p, q, info)
		return
	}
	a := packet.ParseAETH((*[packet.AETHSize]byte)(p.packet.Head[info.OffAETH:]))
	switch {
	case a.ACK():
		sh.acknowledged(q, packet.AddPSN(psn, 1))
	case a.RNR():
		if sh.acknowledged(q, psn) {
			sh.notReady(q, a.Code())
		}
	case a.Syndrome == packet.NAKSequence:
		p.stats.Timeouts++
		if sh.acknowledged(q, psn) && !r.paused && r.next() != r.una {
			r.shrink()
			sh.goBack(q)
		}
	case a.NAK():
		if sh.acknowledged(q, psn) && r.first != r.last {
			sh.refusedByPeer(q, answer(a.Syndrome))
		}
	default:
		p.stats.Malformed++
	}
}

// acknowledged completes the messages whose PSNs are all before psn. It returns false if the
// queue has stopped, or if an answer is missing, for which it asks again.
func (sh *sender) acknowledged(q *qp, psn uint32) bool {
	w := q.wire
	r := &w.out
	before := r.una
	for r.first != r.last {
		if sh.finishWrites(q, psn) > 0 {
			continue
		}
		m := r.oldest()
		if m.answers && m.answered < m.psns {
			r.una = packet.AddPSN(m.psn, m.answered)
			if packet.DiffPSN(psn, r.una) > 0 {
				sh.progressed(q, before)
				sh.askAgain(q)
				return false
			}
			sh.progressed(q, before)
			return true
		}
		if packet.DiffPSN(psn, m.end()) < 0 {
			if packet.DiffPSN(psn, r.una) > 0 {
				r.una = psn
			}
			break
		}
		r.una = m.end()
		if m.answers {
			r.reading--
		}
		if r.at == r.first { // its last packets were going to be sent again
			sh.dropJob(r)
			r.at, r.sent = r.at+1, 0
		}
		r.first++
		if !sh.finishMessage(q, m) {
			return false
		}
	}
	sh.progressed(q, before)
	return true
}

// progressed is called when packets may have been acknowledged; before is the oldest PSN that was
// not.
func (sh *sender) progressed(q *qp, before uint32) {
	w := q.wire
	r := &w.out
	n := packet.DiffPSN(r.una, before)
	if n <= 0 {
		return
	}
	// The packet that is sent next may be one of those.
	if r.at == r.first && r.first != r.last {
		if m := r.oldest(); packet.DiffPSN(r.una, packet.AddPSN(m.psn, r.sent)) > 0 {
			sh.dropJob(r)
			r.sent = uint32(packet.DiffPSN(r.una, m.psn))
		}
	}
	r.rewound, r.paused = false, false
	r.retries, r.rnrRetries = 0, 0
	r.grow(uint32(n))
	if packet.DiffPSN(r.next(), r.una) > 0 {
		sh.startTimer(w)
	} else {
		w.timer.stop()
	}
	sh.markWarm(q)
}

// grow makes a window that was too large once grow again: by one packet for each window of
// packets that is acknowledged.
func (r *outbound) grow(n uint32) {
	if r.window == r.full {
		return
	}
	if r.grown += n; r.grown >= r.window {
		r.grown = 0
		r.window = min(r.window+1+r.window/8, r.full)
	}
}

// marked shrinks the window because the network marks packets: once, until something was acknowledged that
// was sent later. So CNPs without number, whoever sends them, slow a queue pair down and do not stop it.
func (r *outbound) marked() {
	if packet.DiffPSN(r.una, r.calm) < 0 && packet.DiffPSN(r.calm, r.most) <= 1 {
		return
	}
	r.calm = packet.AddPSN(r.most, 1)
	r.shrink()
}

// shrink makes the window smaller, because packets were lost.
func (r *outbound) shrink() {
	r.window, r.grown = max(r.window/2, leastWindow), 0
}

// goBack begins to send again with the oldest packet that is not acknowledged. It does not move the
// deadline of a timer that runs: a peer that answers with NAKs only would keep it from running out.
func (sh *wires) goBack(q *qp) {
	r := &q.wire.out
	sh.dropJob(r)
	sh.dropAnswerJob(r)
	if r.at = r.first; r.first != r.last {
		m := r.oldest()
		r.sent = uint32(max(packet.DiffPSN(r.una, m.psn), 0))
	}
	r.paused = false
	if !q.wire.timer.running() {
		sh.startTimer(q.wire)
	}
	sh.markWarm(q)
}

// askAgain goes back because an answer is missing: once, until something is acknowledged or the
// timer runs out. If it went back for each packet that shows the same gap, the answers to
// requests sent in vain would fill the link.
func (sh *sender) askAgain(q *qp) {
	r := &q.wire.out
	if r.rewound {
		return
	}
	r.rewound = true
	q.wire.port.stats.Timeouts++
	r.shrink()
	sh.goBack(q)
}

// takeResult serves a packet of the answer of a READ, or the answer of an atomic.
func (sh *sender) takeResult(p *port, q *qp, info *packet.Info) {
	w := q.wire
	r := &w.out
	psn := p.bth.PSN
	if !sh.acknowledged(q, psn) {
		return
	}
	// Everything before psn is acknowledged now, so the message of psn is the oldest.
	if r.first == r.last {
		p.stats.Duplicates++
		return
	}
	m := r.oldest()
	want := packet.AddPSN(m.psn, m.answered)
	if !m.answers || psn != want {
		p.stats.Duplicates++
		return
	}
	off := uint64(m.answered) * uint64(w.mtu)
	n := min(m.total-off, uint64(w.mtu))
	atomic := info.AtomicAck
	if atomic != m.head.opcode().Info().Atomic() || !atomic && uint64(len(p.packet.Payload)) != n {
		sh.badResponse(q, p, m, n)
		return
	}
	j := r.answerJob
	if j != nil && !sh.current(j) {
		sh.dropAnswerJob(r)
		j = nil
	}
	if j == nil {
		if j = sh.judgeAgain(q, m, true); j == nil {
			return
		}
		if off > 0 {
			j.dst.skip(off)
			j.moved = off
		}
	}
	source := p.packet.Payload
	if atomic {
		source = sh.atomicResult(p, info)
	}
	j.src.reset()
	j.src.add(source, nil, 0, n)
	if n > 0 && !sh.transfer(j, n) {
		sh.dropAnswerJob(r)
		sh.localGap(q, j, m)
		return
	}
	m.answered++
	if m.answered < m.psns && r.answerJob == nil {
		j.src.reset()
		r.answerJob = sh.retainJob()
	} else if m.answered == m.psns {
		sh.dropAnswerJob(r)
	}
	sh.acknowledged(q, packet.AddPSN(psn, 1))
}

// atomicResult returns the value in the answer of an atomic as the bytes of a word in host order,
// as mlx5 delivers it.
func (sh *sender) atomicResult(p *port, info *packet.Info) []byte {
	v := packet.ParseAtomicAckETH((*[packet.AtomicAckETHSize]byte)(p.packet.Head[info.OffAtomicAck:])).Original
	for i := range sh.scratch.old {
		sh.scratch.old[i] = byte(v >> (8 * i))
	}
	return sh.scratch.old[:]
}

// badResponse fails the oldest message, because its answer does not fit it.
func (sh *sender) badResponse(q *qp, p *port, m *message, n uint64) {
	op := m.head.opcode()
	sh.rewindQueue(q)
	if sh.snapshotHead(q) {
		sh.explain(q, codes.LinkResponse, "%v: peer QP %#06x answered with a packet of %v with %d bytes; %d bytes were expected", op, q.attr.DestQPN, p.bth.Opcode, len(p.packet.Payload), n)
		sh.fail(q, sh.scratch.job, cqe.BadResponse)
	}
}

// refusedByPeer fails the oldest message, because the responder has answered it with a NAK.
func (sh *sender) refusedByPeer(q *qp, a answer) {
	sh.rewindQueue(q)
	if !sh.snapshotHead(q) {
		return
	}
	j := sh.scratch.job
	who := "why is said to its owner"
	if w := q.wire; w.guard.answers.Doubtful(sh.now()) {
		n, _ := w.guard.answers.Counted(sh.now())
		who = fmt.Sprintf("perhaps it did not: %d answers with impossible PSNs have come from its address, so this one may be forged, too", n)
	}
	sh.explain(q, codes.LinkRefused, "%v: peer QP %#06x on link %s refused it (%s); %s",
		j.head.opcode(), q.attr.DestQPN, q.wire.port.cfg.Name, a, who)
	sh.fail(q, j, a.syndrome())
}
