//go:build linux && (amd64 || arm64)

package recovery

import (
	"testing"
	"time"

	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/packet"
	"github.com/stretchr/testify/require"
)

// A longSender sends on a path from PSN 0 on.
type longSender struct {
	*State
	l         Limit
	now       uint64
	una, next uint32
}

func newLongSender(p *Path) *longSender {
	s := &longSender{State: NewState(p, Reach), l: NewLimit(Reach, 0), now: 1}
	s.Stretches(new(Store), 1024)
	s.Begin(0)
	return s
}

// measuredSender returns a sender that has measured one round trip of a long path.
func measuredSender() *longSender {
	s := newLongSender(longPath())
	s.send(1, false)
	s.acknowledge(1, 25*clock.Cycles(long))
	return s
}

// send sends n packets for the first time; reads says that each asks for an answer.
func (s *longSender) send(n uint32, reads bool) {
	for range n {
		s.note(s.next, s.next, reads)
		s.next++
	}
}

func (s *longSender) note(psn, most uint32, reads bool) {
	if s.Note(&s.l, psn, 1, most, reads) {
		s.Time(psn, s.now)
	}
}

// acknowledge acknowledges all packets before una after a time.
func (s *longSender) acknowledge(una uint32, after uint64) {
	s.now += after
	s.Received(&s.l, una, s.now)
	s.una = una
}

// report reports after a time that the packets from una+1 on have come, all of them.
func (s *longSender) report(after uint64) {
	s.now += after
	r := Report{Expected: s.una, Trigger: s.next - 1, Bits: make([]byte, ReportBytes)}
	for i := range packet.DiffPSN(s.next, s.una) - 1 {
		r.Bits[i/8] |= 1 << (i % 8)
	}
	s.Take(&s.l, &r, s.una, s.next, s.next, s.now)
}

// The first time of a path may be that of a thread that slept. If the path is short, its windows are those of
// a short path soon.
func TestPathThatIsShort(t *testing.T) {
	p := &Path{Agreed: true, Reach: LongReach}
	p.RoundTrip.Add(2 * clock.Cycles(long))
	s := newLongSender(p)
	for range 40 {
		s.send(min(s.l.Window, s.l.Span-1), false)
		s.acknowledge(s.next, clock.Cycles(long)/100)
	}
	require.LessOrEqual(t, s.l.Window, uint32(Reach))
	require.LessOrEqual(t, s.l.Span, uint32(Reach))
	require.False(t, s.l.Rounds)
	// It may become long.
	for range 40 {
		s.send(min(s.l.Window, s.l.Span-1), false)
		s.acknowledge(s.next, 10*clock.Cycles(long))
	}
	require.True(t, s.l.Rounds)
	require.Equal(t, uint32(LongReach-1), s.l.Span)
}

// The threads of an end had no processor for half a minute, so the times of the packets on the way say
// nothing about the path. A packet that is lost afterwards is probed all the same, and the attribute timeout
// runs out.
func TestLossAfterAnEndStoodStill(t *testing.T) {
	p := &Path{Agreed: true, Reach: LongReach}
	p.RoundTrip.Add(clock.Cycles(long) / 2)
	s := newLongSender(p)
	s.send(1, false)
	s.acknowledge(s.next, clock.Cycles(30*time.Second))
	s.send(1, false)
	require.Equal(t, uint32(LongReach-1), s.l.Span, "the path is taken for a long one")
	s.Due = s.Last(s.now, s.now)
	require.LessOrEqual(t, s.Deadline(s.now)-s.now, clock.Cycles(longest))
	require.LessOrEqual(t, s.Due-s.now, patience*clock.Cycles(longest))
}

// A packet that was late, and was sent again, is acknowledged before its copy can have come. That is no round
// trip.
func TestRoundOfALatePacket(t *testing.T) {
	s := newLongSender(longPath())
	trip := 25 * clock.Cycles(long)
	for range 3 {
		s.send(s.l.Window, false)
		s.acknowledge(s.next, trip)
	}
	before := s.l.Window
	s.send(before, false)
	s.report(trip)
	s.note(s.una, s.next, false)
	s.acknowledge(s.next, trip/1000)
	s.send(s.l.Window, false)
	s.acknowledge(s.next, trip)
	require.GreaterOrEqual(t, s.l.Window, before)
}

// The answers to a request as large as the window say nothing about how much was on the way.
func TestAnswersMakeNoWindow(t *testing.T) {
	s := newLongSender(longPath())
	s.l.Window = 100
	for range 20 {
		s.send(1, false)
		s.send(900, true)
		s.acknowledge(s.next, 25*clock.Cycles(long))
	}
	require.Equal(t, uint32(100), s.l.Window)
}

// Windows follow the round trips of requests of the least size however small they are, or a path that loses
// would keep a window below three of those.
func TestSmallRequestsMakeWindows(t *testing.T) {
	for n, begins := range map[uint32]bool{1: true, leastPart: true, leastPart + 1: false} {
		s := measuredSender()
		s.l.Window = leastPart
		s.Note(&s.l, s.next, n, s.next, true)
		require.Equal(t, begins, s.far.round.on, n)
		require.Equal(t, begins, s.l.Rounds, n)
	}
}

// A request that is lost is one packet, however many answers wait for it.
func TestLostRequestIsOnePacket(t *testing.T) {
	s := measuredSender()
	s.Note(&s.l, 1, 200, s.next, true)
	s.next += 200
	s.send(100, false)
	before := s.far.lost
	r := Report{Expected: 1, Trigger: s.next - 1, Bits: make([]byte, ReportBytes)}
	for i := 200; i < 300; i++ {
		r.Bits[(i-1)/8] |= 1 << ((i - 1) % 8)
	}
	lost, ok := s.Take(&s.l, &r, s.una, s.next, s.next, s.now)
	require.True(t, ok)
	require.EqualValues(t, 200, lost, "that many answers are requested again")
	require.EqualValues(t, before+1, s.far.lost)
	s.Note(&s.l, 1, 200, s.next, true)
	require.Zero(t, s.far.waiting)
}

// After an outage the window is small, and much of a READ is requested again. No round begins with that, so
// the window grows with the answers until one does.
func TestWindowGrowsWhileAReadIsRequestedAgain(t *testing.T) {
	s := measuredSender()
	s.Note(&s.l, 1, 20, s.next, true)
	s.next += 20
	require.True(t, s.far.round.on)
	s.l.Window = 16
	s.l.Grow(16)
	require.EqualValues(t, 16, s.l.Window, "it follows the round")
	s.Probe(&s.l, s.una, s.next, s.next)
	s.Note(&s.l, 1, 20, s.next, true)
	require.False(t, s.far.round.on)
	s.l.Window = 16
	s.l.Grow(16)
	require.EqualValues(t, 16+1+2, s.l.Window)
	s.Note(&s.l, s.next, 2, s.next, true)
	require.True(t, s.far.round.on)
	s.l.Grow(19)
	require.EqualValues(t, 16+1+2, s.l.Window)
}

// READs that follow WRITEs request no more answers than can be kept.
func TestAnswersAfterALongWindow(t *testing.T) {
	l := NewLimit(Reach, 0)
	l.Span, l.Window, l.Rounds = LongReach-1, 2*LongReach, true
	require.True(t, l.Fits(0, LongReach-11, 10))
	require.False(t, l.Fits(0, LongReach-11, 11))
}

// A lost packet costs no window either if nothing is sent after it, so that no round is under way.
func TestLastPacketIsLost(t *testing.T) {
	s := newLongSender(longPath())
	s.send(s.l.Window, false)
	s.acknowledge(s.next-10, 25*clock.Cycles(long))
	before := s.l.Window
	s.report(1)
	require.Equal(t, before, s.l.Window)
}
