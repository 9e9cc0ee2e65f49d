//go:build linux && (amd64 || arm64)

package recovery

import (
	"math/bits"
	"time"

	"github.com/nicless/nicless/engine/internal/congestion"
	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/packet"
)

const (
	// LongReach is Reach on long paths. A packet that is lost waits for a round trip or two, during which
	// others go on, so three windows must fit: with 1024 bytes and 50 ms that is 55 MB/s for each queue
	// pair. A network of 10 Gbit/s has 62 MB on the way there, more than one queue pair may have kept.
	LongReach = 8192

	// long is from which round-trip time on a path is long: Reach packets of 1024 bytes carry 500 MB/s
	// then. Shorter times are those of the threads at both ends as well, and say little about queues.
	long = 2 * time.Millisecond

	// patience is after how many silences the attribute timeout can run out on a long path, which may be
	// shorter than a round trip.
	patience = 8
)

// A far is what a queue pair that sends on a long path knows beyond the rest of its State.
type far struct {
	on      bool
	window  congestion.Window
	lost    uint32 // number of packets that were lost
	waiting uint32 // packets lost and not sent again
	round   round
}

// A round has begun with the send of a packet.
type round struct {
	on        bool
	again     bool   // the packet had been sent before
	reads     bool   // it is a request, to which answers come
	psn, send uint32 // of that packet; of a request, the PSN of the last answer
	at        uint64 // when it was sent
	had, lost uint32 // numbers of packets that had come, and were lost, before
}

// long reports whether windows follow the round trips of the path: it is long, and its other end keeps as
// many packets.
func (w *Path) long() bool {
	return w.Agreed && w.Reach > Reach && w.RoundTrip.Mean() >= clock.Cycles(long)
}

// Stretches lets a queue pair whose packets have mtu bytes reach far if its path is long. store is that of
// its port.
func (s *State) Stretches(store *Store, mtu uint32) {
	s.store = store
	// A report has a bit for each packet, and is no longer than the first packet of a WRITE.
	s.reach = min(LongReach, uint32(1)<<(bits.Len32(8*mtu)-1))
}

// Leave is called when the queue pair leaves its wire. It returns the user to whom so many bytes are
// refunded.
func (s *State) Leave() (user uint32, owed int) {
	if s == nil {
		return 0, 0
	}
	if s.counted {
		s.store.longs--
		s.counted = false
	}
	return s.leaveAccount()
}

// mayStretch reports whether the queue pair may have the memory to reach far.
func (s *State) mayStretch() bool {
	if s.counted || s.store == nil || s.reach <= Reach || s.store.longs >= mostLong {
		return s.counted
	}
	s.store.longs++
	s.counted = true
	return true
}

// StretchEarly lets Early reach as far as psn if it may, as a peer on a long path sends. The peer may have
// measured a longer time than this end. missing is how many packets are missing between the highest that has
// come and psn.
func (s *State) StretchEarly(expected, psn uint32, missing int32) {
	e := &s.Early
	d := packet.DiffPSN(psn, expected)
	if d < e.reaches() || d >= int32(s.reach) || missing > leap {
		return
	}
	if s.Path.RoundTrip.Mean() >= clock.Cycles(long)/4 && s.mayStretch() {
		e.extend(int(s.reach), expected, s.store)
	}
}

// stretch lets the queue pair send far beyond una if its path is long.
func (s *State) stretch(l *Limit, una, most uint32) {
	if s.far.on || !s.Path.long() || !s.mayStretch() {
		return
	}
	s.far = far{on: true}
	l.Span = min(s.reach, s.Path.Reach) - 1
	if len(s.sent.order) <= int(l.Span) {
		s.sent.extend(l.Span, una, most)
	}
	if s.Kept.reaches() < int32(s.reach) {
		s.Kept.extend(int(s.reach), una, s.store)
	}
}

// shorten ends what stretch has begun, because the path is short: its first time was that of a thread that
// slept, or it has another way now. A path about the limit does not go to and fro, because this takes half of
// the time of stretch.
func (s *State) shorten(l *Limit) {
	s.far = far{}
	l.Rounds, l.Span, l.Window = false, l.Full, min(l.Window, l.Full)
}

// beginsRound begins a round with the packet psn, which stands for n PSNs and is sent now, if none is under
// way. The round of a READ ends with the last answer to its request: until then those have come that were on
// the way. That is so only if the request is a small part of the window, or a small one; windows of larger
// ones follow losses, as on short paths. If a request is sent again, an answer may be to the one before, so
// no round begins. Until one does, the window grows with what is acknowledged: after an outage that may be
// long.
func (s *State) beginsRound(l *Limit, psn, n uint32, first, reads bool) bool {
	f := &s.far
	switch {
	case !f.on || f.round.on:
		return false
	case reads && !first:
		l.resends = true
		return false
	case reads && n > leastPart && largeParts*n > l.Window:
		l.Rounds = false
		return false
	}
	l.Rounds, l.resends = true, false
	f.round = round{on: true, again: !first, reads: reads, psn: packet.AddPSN(psn, n-1), send: s.sent.sends,
		had: s.sent.had, lost: f.lost}
	return true
}

// largeParts is of how many requests a window consists at least whose size follows their round trips.
const largeParts = 3

// endRound ends the round if its packet has come, and with it sets the window.
func (s *State) endRound(l *Limit, una uint32, now uint64) {
	f := &s.far
	r := &f.round
	came := int32(s.sent.newest-r.send) >= 0
	if r.reads {
		came = packet.DiffPSN(s.highest, r.psn) >= 0
	}
	if !r.on || !came && packet.DiffPSN(una, r.psn) <= 0 {
		return
	}
	r.on = false
	if r.again && !came {
		return // una does not say which copy has come, so nobody knows how long this took
	}
	took := now - r.at
	s.Path.RoundTrip.Add(took)
	s.probes = 0
	if s.Path.RoundTrip.Mean() < clock.Cycles(long)/2 {
		s.shorten(l)
		return
	}
	ended := congestion.Round{Had: s.sent.had - r.had, Lost: f.lost - r.lost, Took: took, Now: now}
	l.Window = f.window.End(ended, &s.Path.Trip, l.Window, l.Span)
}

// countLost counts those of the packets that are lost now that were not counted before.
func (s *State) countLost(lost uint32) {
	s.far.lost += lost - min(lost, s.far.waiting)
	s.far.waiting = lost
}

// countAcknowledged counts what is acknowledged before una, and was not reported before.
func (s *State) countAcknowledged(una uint32) {
	if !s.far.on {
		return
	}
	for p := s.Answers.una; packet.DiffPSN(p, una) < 0; p = packet.AddPSN(p, 1) {
		if !s.sent.has(p) && !s.sent.answered(p) {
			s.sent.had++
		}
	}
}

// Last returns the time at which the attribute timeout runs out that would run out at deadline.
func (s *State) Last(now, deadline uint64) uint64 {
	if s.far.on {
		return max(deadline, now+patience*s.Path.RoundTrip.Silence())
	}
	return deadline
}
