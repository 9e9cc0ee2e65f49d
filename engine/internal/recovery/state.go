//go:build linux && (amd64 || arm64)

package recovery

import (
	"github.com/nicless/nicless/packet"
)

// A State is what a queue pair knows of the packets that were lost on its path, in both directions. It is
// made when the queue pair is connected over a port that loses packets. A nil State is that of a queue pair
// on a port that loses none.
type State struct {
	Path  *Path
	Early Early // packets of the peer that came before the expected one
	Answers

	sent  Sent
	far   far
	store *Store // of the port
	reach uint32 // Reach on a long path

	counted bool // it counts in store.longs

	Later    bool   // several packets are being served, and what is lost is judged after the last
	Due      uint64 // device clock at which the attribute timeout has passed without an answer
	repaired bool   // only what was lost has been sent again at some time

	probes uint   // probes since a round trip was measured last
	window uint32 // the window before a probe; 0: there was none
	cured  uint32 // PSN before which a loss has made the window smaller already

	times    bool // the time of the packet that was sent last is to be measured
	timed    bool // the time of the packet timePSN is measured
	timeCopy bool // the packet was sent again: only an answer that names its copy ends the measurement
	timePSN  uint32
	timedAt  uint64
}

// mostProbes is how often the time between two probes doubles. It stays long until a round trip is
// measured: nobody knows which copy the answer to a probe is for, so if a path has become longer than the
// silence, only a longer silence leads to a time that can be measured (Karn's algorithm). A path that
// becomes more than 64 times as long is not followed: each of its packets is probed then.
const mostProbes = 6

// NewState returns the state of a queue pair that has at most full packets on the way.
func NewState(p *Path, full uint32) *State {
	s := &State{Path: p, sent: newSent(full)}
	s.Early.extend(Reach, 0, nil)
	s.Kept.extend(Reach, 0, nil)
	return s
}

// Begin is called when the queue pair begins to send, with the PSN psn.
func (s *State) Begin(psn uint32) {
	if s == nil {
		return
	}
	s.sent.begin(psn)
	s.Answers.begin(psn, s.sent.sends)
	s.probes, s.window, s.cured, s.timed, s.repaired = 0, 0, psn, false, false
	s.far = far{}
}

// Keeps reports whether packets wait that came too early.
func (s *State) Keeps() bool { return s != nil && s.Early.N > 0 }

// Deadline returns when the queue pair probes if it hears nothing: not later than Due.
func (s *State) Deadline(now uint64) uint64 {
	return min(s.Due, now+s.Path.RoundTrip.Silence()<<min(s.probes, mostProbes))
}

// Note notes that the packet psn, which stands for n PSNs, is sent. most is the PSN after the highest that
// was sent before, and reads says that answers come for the packet. Note reports whether the time of the
// packet is to be measured.
func (s *State) Note(l *Limit, psn, n, most uint32, reads bool) (times bool) {
	s.stretch(l, s.Answers.una, most)
	first := packet.DiffPSN(psn, most) >= 0
	if l.Selective && !first {
		l.Away -= min(n, l.Away) // it is on the way again
		sent := n
		if reads && !s.Executed(psn) {
			sent = 1 // see ofOneRequest
		}
		s.far.waiting -= min(sent, s.far.waiting)
	}
	s.sent.note(psn, n, first, reads)
	copied := reads && !first && (l.Selective || s.Path.Agreed)
	if copied && l.Selective {
		s.Answers.again(psn, s.sent.sends)
	}
	s.times = !s.timed && (first || copied)
	if s.times {
		s.timeCopy = copied
	}
	return s.beginsRound(l, psn, n, first, reads) || s.times
}

// Time begins to measure the time of the packet psn, which is sent at the time now, as Note has said.
func (s *State) Time(psn uint32, now uint64) {
	if s.times {
		s.timed, s.timePSN, s.timedAt = true, psn, now
	}
	if r := &s.far.round; r.on && r.at == 0 {
		r.at = now
	}
}

// Received is called when packets up to una, without una, are acknowledged. That says nothing about later
// packets, because the peer may have some of those: only reports do.
func (s *State) Received(l *Limit, una uint32, now uint64) {
	s.countAcknowledged(una)
	s.Answers.passed(una)
	s.age(s.sent.sends)
	s.sent.newest = recent(s.sent.newest, s.sent.sends)
	if s.timed && packet.DiffPSN(una, s.timePSN) > 0 {
		s.timed = false
		if !s.timeCopy {
			s.measured(now)
		}
	}
	if packet.DiffPSN(una, s.cured) > 0 {
		s.cured = una
	}
	s.ended(l)
	s.endRound(l, una, now)
}

// measured is called when the packet whose time is measured has been answered.
func (s *State) measured(now uint64) {
	s.timed, s.probes = false, 0
	s.Path.RoundTrip.Add(now - s.timedAt)
}

// ended is called when the peer has been heard: a probe is over.
func (s *State) ended(l *Limit) {
	l.Probing = false
	if s.window != 0 {
		l.Window, s.window = max(l.Window, s.window), 0
	}
}

// Copy returns the number of the copy of a packet that stands for n PSNs and is sent again now, 1..127.
func (s *State) Copy(psn, n uint32) uint8 { return s.sent.nextCopy(psn, n) }

// Needs reports whether a packet is sent again that was sent before. l is that of its queue pair.
func (s *State) Needs(l *Limit, psn uint32) bool {
	if l.Probing {
		return (psn == s.sent.forced[0] || psn == s.sent.forced[1]) && !s.keptAnswer(psn)
	}
	return !l.Selective || s.lost(psn)
}

// All makes Needs hold for all packets: everything is sent again.
func (s *State) All(l *Limit) {
	l.Selective, l.Probing, l.Away = false, false, 0
	clear(s.sent.have)
	s.timed, s.far.waiting, s.far.round.on = false, 0, false
}

// Probe begins to send the oldest packet and the last one again, because the peer is silent.
func (s *State) Probe(l *Limit, una, next, most uint32) {
	s.enter(l, next, most)
	s.sent.lose(una)
	s.sent.lose(s.sent.last)
	s.sent.forced = [2]uint32{una, s.sent.last}
	s.probes++
	l.Probing = true
	s.timed, s.far.round.on = false, false
	s.Assess(l, una, most)
}

// ProbeAll begins to send everything again that a peer without reports may need, because it is silent: at
// first a few packets, until it is heard.
func (s *State) ProbeAll(l *Limit) {
	s.probes++
	if s.window == 0 {
		s.window = max(l.Window/2, Least)
	}
	l.Window = Least
}

// enter begins to send again only what is lost. next is the PSN of the packet that is to be sent next: if
// packets are being sent again, those from next on are taken for lost.
func (s *State) enter(l *Limit, next, most uint32) {
	if l.Selective {
		return
	}
	l.Selective = true
	if !s.repaired {
		s.repaired = true
		l.Window = max(l.Window, l.Full/2) // each loss has halved it until the ends agreed
	}
	s.sent.newest = s.sent.sends - 1<<30 // older than all that is on the way
	s.Answers.forgo(s.sent.sends)
	for p := next; packet.DiffPSN(p, most) < 0; p = packet.AddPSN(p, 1) {
		s.sent.lose(p)
	}
}

// Take takes a report of the peer at the time now. It reports whether the report is possible, and how many
// packets are lost that were not taken for lost before.
func (s *State) Take(l *Limit, r *Report, una, next, most uint32, now uint64) (lost uint32,
	ok bool) {
	if packet.DiffPSN(r.Expected, una) < 0 || packet.DiffPSN(r.Expected, most) > 0 {
		return 0, false
	}
	s.enter(l, next, most)
	s.Answers.execute(r.Expected)
	for p := una; packet.DiffPSN(p, r.Expected) < 0; p = packet.AddPSN(p, 1) {
		s.sent.mark(p)
	}
	for i := range uint32(8 * len(r.Bits)) {
		if p := packet.AddPSN(r.Expected, 1+i); r.Has(i) && packet.DiffPSN(p, most) < 0 {
			s.sent.mark(p)
		}
	}
	if d := packet.DiffPSN(most, r.Trigger); d > 0 && int(d) <= len(s.sent.order) { // it may be acknowledged
		s.sent.arrived(r.Trigger, r.Copy)
	}
	s.ended(l)
	lost, _ = s.assess(l, una, most)
	s.endRound(l, una, now)
	return lost, true
}

// assess counts the packets that are lost. The window becomes smaller for them, once: then first is true.
func (s *State) assess(l *Limit, una, most uint32) (lost uint32, first bool) {
	lost = s.Assess(l, una, most)
	first = lost > 0 && packet.DiffPSN(una, s.cured) >= 0
	if first {
		if !l.Rounds {
			l.Lose(lost)
		}
		s.cured = most
	}
	if lost > 0 {
		s.timed = false
	}
	return lost, first
}

// Assess counts what is lost, and how many packets are not on the way although they are not acknowledged.
func (s *State) Assess(l *Limit, una, most uint32) (lost uint32) {
	has, unsent := uint32(0), uint32(0)
	for p := una; packet.DiffPSN(p, most) < 0; p = packet.AddPSN(p, 1) {
		switch {
		case s.has(p):
			has++
		case s.lost(p):
			lost++
			if s.ofOneRequest(p) {
				unsent++
			}
		}
	}
	l.Away = lost + has
	s.countLost(lost - unsent)
	return lost
}

// has reports whether nothing has to come for a packet: the peer has it, or its answer is here.
func (s *State) has(psn uint32) bool {
	if s.sent.answered(psn) {
		return s.keptAnswer(psn)
	}
	return s.sent.has(psn)
}

// lost reports whether a packet is lost, or its answer.
func (s *State) lost(psn uint32) bool {
	if s.sent.answered(psn) {
		return s.answerLost(psn)
	}
	return s.sent.lost(psn)
}
