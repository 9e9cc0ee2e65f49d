//go:build linux && (amd64 || arm64)

package recovery

import "github.com/nicless/nicless/packet"

// Answers is what a requester knows of the answers to its READs and atomics. Those that come before the
// expected one are kept, as the responder keeps requests. A responder answers requests in the order in
// which it takes them, and it takes new ones in the order of their PSNs. So an answer is lost, or the request
// that was sent last for it, in three cases:
//
//   - the request was not sent again, and an answer with a higher PSN has come
//   - an answer has come to a request that was sent later, or a later answer to the same request
//   - a report says that the request has not come
//
// The request of a READ that the peer may not have executed is sent again as it was. Of a READ that was
// executed, any part can be requested again.
type Answers struct {
	Kept Early // by PSN

	una      uint32 // the oldest PSN that is not acknowledged
	executed uint32 // the peer has executed all requests before this PSN
	highest  uint32 // the highest PSN before which the peer has answered everything once
	newest   send   // of the answers that have come, the one to the latest request
	floor    send   // what was not executed when this request was sent is answered after it
}

// A send is one of the PSNs of a request, and the number of a send of the request.
type send struct{ order, psn uint32 }

// before reports whether the answer for a is due before that for b.
func (a send) before(b send) bool {
	if a.order != b.order {
		return int32(b.order-a.order) > 0
	}
	return packet.DiffPSN(b.psn, a.psn) > 0
}

// begin begins with the PSN psn. sends is the number of sends.
func (a *Answers) begin(psn, sends uint32) {
	a.una, a.executed, a.highest = psn, psn, packet.AddPSN(psn, 1<<24-1)
	a.newest, a.floor = send{psn: psn}, send{psn: psn}
	a.forgo(sends)
}

// forgo makes no answer that has come newer than those to come.
func (a *Answers) forgo(sends uint32) { a.newest.order, a.floor.order = sends-1<<30, sends-1<<30 }

// age keeps the numbers of sends comparable that happened long before the present one.
func (a *Answers) age(sends uint32) {
	a.newest.order, a.floor.order = recent(a.newest.order, sends), recent(a.floor.order, sends)
}

// recent returns the number of a send, or a later one that is as good as that, if there were more than 1<<30
// sends since. sends is the number of sends.
func recent(order, sends uint32) uint32 {
	if sends-order > 1<<30 {
		return sends - 1<<30
	}
	return order
}

// passed is called when everything before una is acknowledged.
func (a *Answers) passed(una uint32) {
	a.una = una
	a.answer(una)
	if packet.DiffPSN(a.floor.psn, una) < 0 {
		a.floor.psn = una
	}
}

// AnsweredOnce returns the PSN before which the peer has answered everything once.
func (a *Answers) AnsweredOnce() uint32 { return packet.AddPSN(a.highest, 1) }

// execute notes that the peer has executed everything before psn.
func (a *Answers) execute(psn uint32) {
	if packet.DiffPSN(psn, a.executed) > 0 {
		a.executed = psn
	}
}

// answer notes that the peer has executed everything before psn, and answered it once.
func (a *Answers) answer(psn uint32) {
	a.execute(psn)
	if last := packet.AddPSN(psn, 1<<24-1); packet.DiffPSN(last, a.highest) > 0 {
		a.highest = last
	}
}

// again notes that the answers from psn on are requested again, with the send order. If the request may not
// have been executed, those of later requests come after its own.
func (a *Answers) again(psn, order uint32) {
	if a.Executed(psn) {
		return
	}
	if a.Executed(a.floor.psn) || packet.DiffPSN(psn, a.floor.psn) < 0 {
		a.floor.psn = psn
	}
	a.floor.order = order
}

// Executed reports whether the peer is known to have executed the request for psn.
func (a *Answers) Executed(psn uint32) bool { return packet.DiffPSN(psn, a.executed) < 0 }

// keptAnswer reports whether the answer for psn has come and waits.
func (a *Answers) keptAnswer(psn uint32) bool { return a.Kept.Has(a.una, psn) }

// KeepsAnswers reports whether answers wait that came too early.
func (s *State) KeepsAnswers() bool { return s != nil && s.Kept.N > 0 }

// due returns where the answer for psn is in the order of answers.
func (s *State) due(psn uint32) send {
	d := send{s.sent.order[s.sent.slot(psn)], psn}
	if packet.DiffPSN(psn, s.floor.psn) >= 0 && int32(s.floor.order-d.order) > 0 {
		d.order = s.floor.order
	}
	return d
}

// answerLost reports whether the answer for psn is lost, or the request for it.
func (s *State) answerLost(psn uint32) bool {
	switch {
	case s.keptAnswer(psn):
		return false
	case s.sent.lost(psn):
		return true
	case !s.Executed(psn):
		return false
	}
	once := s.sent.copies[s.sent.slot(psn)] == 0
	return once && packet.DiffPSN(psn, s.highest) <= 0 || s.due(psn).before(s.newest)
}

// ofOneRequest reports whether the answer for psn was never sent, because its request is lost, which was also
// that for the answer before. So the network has lost one packet for both.
func (s *State) ofOneRequest(psn uint32) bool {
	order := s.sent.order
	before := packet.AddPSN(psn, 1<<24-1)
	return s.sent.answered(psn) && !s.Executed(psn) && psn != s.una &&
		order[s.sent.slot(psn)] == order[s.sent.slot(before)]
}

// Answered is called at the time now when an answer for psn has come, before an expected one, to the copy of
// a request with a number. The READ, or the part of it that was requested together, has the PSNs before end.
// Answered reports whether it is the first answer to a request that was sent again.
func (s *State) Answered(l *Limit, psn uint32, copies uint8, end uint32, now uint64) (other bool) {
	s.execute(end)
	s.answer(psn)
	s.ended(l)
	if s.far.on {
		if !s.keptAnswer(psn) {
			s.sent.had++
		}
		s.endRound(l, s.una, now)
	}
	if s.sent.copies[s.sent.slot(psn)] != copies {
		return false
	}
	if s.timed && s.timeCopy && psn == s.timePSN {
		s.measured(now)
	}
	d := s.due(psn)
	if !s.newest.before(d) {
		return false
	}
	other = copies != 0 && d.order != s.newest.order
	s.newest = d
	return other
}

// AnsweredBefore is called when the peer has answered everything before psn once.
func (s *State) AnsweredBefore(psn uint32) { s.answer(psn) }

// Repair takes answers for lost, so that Needs holds for them. It returns how many packets are lost, and
// whether it is the first loss of a window. una is the oldest PSN that is not acknowledged, next that of the
// packet that is to be sent next, and most the one after the highest that was sent.
func (s *State) Repair(l *Limit, una, next, most uint32) (lost uint32, first bool) {
	s.enter(l, next, most)
	return s.assess(l, una, most)
}

// together is how many answers are requested again together at most, so that the window is looked at in
// between, and a probe costs little. If the answers to a probe come, the rest is requested at once.
const together = 64

// Run returns how many of the n answers from psn on, which all belong to one request, are requested again
// together.
func (s *State) Run(l *Limit, psn, n uint32) (run uint32) {
	if !s.Executed(psn) {
		return n
	}
	n = min(n, together, l.Window)
	for run = 1; run < n && s.wants(l, packet.AddPSN(psn, run)); {
		run++
	}
	return run
}

// wants reports whether the answer for psn is requested again together with the one before it.
func (s *State) wants(l *Limit, psn uint32) bool {
	if l.Probing {
		return !s.keptAnswer(psn)
	}
	return s.Needs(l, psn)
}

// Skip returns how many of the n answers from psn on, which all belong to one request, are not requested
// again, up to one that is.
func (s *State) Skip(l *Limit, psn, n uint32) (skipped uint32) {
	if s.Needs(l, psn) {
		return 0
	}
	if !s.Executed(psn) {
		return n
	}
	for skipped = 1; skipped < n && !s.Needs(l, packet.AddPSN(psn, skipped)); {
		skipped++
	}
	return skipped
}
