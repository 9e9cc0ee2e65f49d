//go:build linux && (amd64 || arm64)

package recovery

import (
	"testing"

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

// READs that follow WRITEs request no more answers than can be kept.
func TestAnswersAfterALongWindow(t *testing.T) {
	l := NewLimit(Reach, 0)
	l.Span, l.Window, l.Rounds = LongReach-1, 5000, true
	require.True(t, l.Fits(0, Reach-10, 10))
	require.False(t, l.Fits(0, Reach-10, 11))
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
