//go:build linux && (amd64 || arm64)

package transport

import (
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/recovery"
	"github.com/nicless/nicless/packet"
)

// The requester on a port that loses packets. It measures round-trip times, probes a peer that is silent,
// and, if the peer reports what has come, sends again only what is lost.

// probe is called when nothing was heard of the peer for some round-trip times. It reports whether the time
// of the attribute timeout has not passed: then packets are sent again, and that is no retry.
func (sh *wires) probe(q *object.QP) bool {
	w := q.Wire
	r, s, now := &w.Out, w.Recovery, sh.Now()
	if now >= s.Due {
		return false
	}
	r.Rewound = false
	if w.Losses.Agreed {
		s.Probe(&r.Limit, r.UNA, r.Next(), r.Most)
		sh.Timers.Arm(&w.Timer, now, s.Deadline(now))
		sh.goBackTo(q)
	} else {
		s.ProbeAll(&r.Limit)
		sh.Timers.Arm(&w.Timer, now, s.Deadline(now))
		sh.goBack(q)
	}
	return true
}

// goBackTo is goBack, but packets are passed over that need not be sent again.
func (sh *wires) goBackTo(q *object.QP) {
	r := &q.Wire.Out
	sh.DropRequestJob(r)
	r.Sending = r.First
	if r.First != r.Last {
		r.Sent = uint32(max(packet.DiffPSN(r.UNA, r.Oldest().PSN), 0))
	}
	if !q.Wire.Timer.Running() {
		sh.startTimer(q.Wire)
	}
	sh.MarkWarm(q)
}

// takeReport serves a report of the responder.
func (sh *sender) takeReport(p *object.Port, q *object.QP) {
	w := q.Wire
	r := &w.Out
	if w.Recovery == nil {
		p.Stats.Malformed++
		return
	}
	// The payload may change at any time.
	var b [recovery.ReportRoom]byte
	report, ok := parseReport(&b, p)
	if !ok {
		p.Stats.Malformed++
		return
	}
	psn := p.BTH.PSN
	if packet.DiffPSN(psn, r.UNA) < 0 || packet.DiffPSN(psn, r.Most) > 0 {
		sh.countOutside(p, q)
		return
	}
	if r.First == r.Last || r.Paused {
		return
	}
	now := sh.Now()
	chargeLook(w)
	p.Left -= 8 * len(report.Bits) * lookCost
	lost, ok := w.Recovery.Take(&r.Limit, &report, r.UNA, r.Next(), r.Most, now)
	switch {
	case ok && w.Timer.Running():
		sh.Timers.Arm(&w.Timer, now, w.Recovery.Deadline(now)) // the peer is not silent
	case ok && r.Most != r.UNA:
		// All was going to be sent again, and would have started the timer. Packets that the peer has are
		// passed over now, although their answers may be lost.
		sh.startTimer(w)
	}
	if lost > 0 {
		sh.goBackTo(q)
	}
	sh.MarkWarm(q)
}

// lookCost is how many bytes of a budget it costs to look whether one packet is lost: 3 ns, in which 16 bytes
// and more are copied.
const lookCost = 16

// chargeLook charges the budget of the batch for a look at all packets that are not acknowledged.
func chargeLook(w *object.Wire) {
	w.Port.Left -= lookCost * int(packet.DiffPSN(w.Out.Most, w.Out.UNA))
}

// continueRepair is called when packets have been acknowledged: it sends again what that shows to be lost.
func (sh *sender) continueRepair(q *object.QP) {
	w := q.Wire
	r, s := &w.Out, w.Recovery
	if !r.Selective || s.Later {
		return
	}
	chargeLook(w)
	lost := s.Assess(&r.Limit, r.UNA, r.Most)
	switch {
	case lost > 0 && !r.Paused && r.Next() == r.Most:
		sh.goBackTo(q)
	case r.Away == 0 && r.Next() == r.Most:
		r.Selective = false // nothing is missing any more
	}
}

// noteSent notes that the messages from Sending on are sent, of one PSN each.
func (sh *wires) noteSent(w *object.Wire) {
	r := &w.Out
	for i := r.Sending; i != r.Last; i++ {
		m := r.Message(i)
		if w.Recovery.Note(&r.Limit, m.PSN, 1, m.PSN, m.Answers) {
			w.Recovery.Time(m.PSN, sh.Now())
		}
	}
}

// putCopy writes into the header of a packet that is sent again, for n PSNs, which copy it is, if the peer
// reports that.
func putCopy(w *object.Wire, h []byte, psn, n uint32) {
	if w.Losses.Agreed {
		h[packet.BTHSize-4] |= w.Recovery.Copy(psn, n)
	}
}

// passes returns how many PSNs of m, from the next packet on, are not sent again.
func passes(w *object.Wire, m *object.Message) uint32 {
	r := &w.Out
	psn := packet.AddPSN(m.PSN, r.Sent)
	if packet.DiffPSN(psn, r.Most) >= 0 {
		return 0
	}
	if m.Answers {
		n := min(m.PSNs-r.Sent, m.Part-r.Sent%m.Part, uint32(packet.DiffPSN(r.Most, psn)))
		return w.Recovery.Skip(&r.Limit, psn, n)
	}
	if w.Recovery.Needs(&r.Limit, psn) {
		return 0
	}
	off := uint64(r.Sent) * uint64(w.MTU)
	r.Job.Skip(min(m.Total-off, uint64(w.MTU)))
	return 1
}

// passesOver passes over the rest of m if nothing of it need be sent again, and reports whether it does.
func passesOver(w *object.Wire, m *object.Message) bool {
	r := &w.Out
	if packet.DiffPSN(m.End(), r.Most) > 0 {
		return false
	}
	for i := r.Sent; i < m.PSNs; i++ {
		if w.Recovery.Needs(&r.Limit, packet.AddPSN(m.PSN, i)) {
			return false
		}
	}
	r.Sending++
	r.Sent = 0
	return true
}

// parseReport reads the report in p. Its bytes are copied to b, because the peer may be able to change them.
func parseReport(b *[recovery.ReportRoom]byte, p *object.Port) (recovery.Report, bool) {
	if len(p.Packet.Payload) > len(b) {
		return recovery.Report{}, false
	}
	return recovery.ParseReport(p.BTH.PSN, b[:copy(b[:], p.Packet.Payload)])
}
