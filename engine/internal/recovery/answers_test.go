//go:build linux && (amd64 || arm64)

package recovery

import (
	"testing"

	"github.com/nicless/nicless/internal/packetring"
	"github.com/nicless/nicless/packet"
	"github.com/stretchr/testify/require"
)

// A reader has sent two READs of ten packets each.
type reader struct {
	*State
	l     Limit
	store Store
	first uint32
}

func newReader(first uint32) *reader {
	s := &reader{State: NewState(new(Path), 100), l: NewLimit(100, first), store: NewStore(), first: first}
	s.Begin(first)
	s.Note(&s.l, first, 10, first, true)
	s.Note(&s.l, s.psn(10), 10, s.psn(10), true)
	return s
}

func (s *reader) psn(i uint32) uint32 { return packet.AddPSN(s.first, i) }

// comes lets the answer number i come, to the copy of a request with a number.
func (s *reader) comes(i uint32, copies uint8) (other bool) {
	other = s.Answered(&s.l, s.psn(i), copies, s.psn(i-i%10+10), 0)
	s.Kept.Keep(&s.store, &packetring.Packet{}, s.first, s.psn(i), 1, 0)
	return other
}

// needs returns the numbers of the answers that are lost.
func (s *reader) needs() (list []uint32) {
	s.Repair(&s.l, s.first, s.psn(20), s.psn(20))
	for i := range uint32(20) {
		if s.Needs(&s.l, s.psn(i)) {
			list = append(list, i)
		}
	}
	return list
}

// An answer is lost if a later one has come, and a repetition if an answer to a later request has.
func TestWhichAnswersAreLost(t *testing.T) {
	for _, first := range []uint32{0, 7, 1<<24 - 3} {
		s := newReader(first)
		s.comes(3, 0)
		require.Equal(t, []uint32{0, 1, 2}, s.needs())
		require.EqualValues(t, 3, s.Run(&s.l, s.psn(0), 10))
		require.EqualValues(t, 4, s.l.Away)
		s.comes(5, 0)
		require.Equal(t, []uint32{0, 1, 2, 4}, s.needs())
		one := s.Copy(s.psn(0), 3)
		s.Note(&s.l, s.psn(0), 3, s.psn(20), true)
		require.Equal(t, []uint32{4}, s.needs(), "those are on the way")
		two := s.Copy(s.psn(4), 1)
		s.Note(&s.l, s.psn(4), 1, s.psn(20), true)
		require.Empty(t, s.needs())
		require.False(t, s.comes(12, 0), "the second READ is executed")
		require.Equal(t, []uint32{6, 7, 8, 9, 10, 11}, s.needs(), "not those that were requested again")
		require.True(t, s.comes(1, one))
		rest := []uint32{0, 6, 7, 8, 9, 10, 11, 13, 14, 15, 16, 17, 18, 19}
		require.Equal(t, rest, s.needs(), "all that was requested before, and 0, which comes before 1")
		require.False(t, s.comes(2, one))
		require.True(t, s.comes(4, two))
		require.Equal(t, rest, s.needs())
		require.EqualValues(t, 4, s.Skip(&s.l, s.psn(1), 4), "1 to 4 have come")
	}
}

// A READ that the peer may not have executed is requested again as it was, and answers to later READs come
// after its own.
func TestReadThatWasNotExecuted(t *testing.T) {
	s := newReader(7)
	_, ok := s.Take(&s.l, &Report{Expected: s.psn(0), Trigger: s.psn(10), Bits: []byte{0, 0b11111110, 0b111, 0}}, s.psn(0), s.psn(20), s.psn(20), 0)
	require.True(t, ok)
	require.Equal(t, []uint32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, s.needs())
	require.False(t, s.Executed(s.psn(0)))
	require.EqualValues(t, 10, s.Run(&s.l, s.psn(0), 10))
	again := s.Copy(s.psn(0), 10)
	s.Note(&s.l, s.psn(0), 10, s.psn(20), true)
	for i := range uint32(9) {
		s.comes(i, again)
		require.Empty(t, s.needs(), "the answers to the second READ come later")
	}
	require.True(t, s.Executed(s.psn(9)))
	s.comes(10, 0)
	require.Equal(t, []uint32{9}, s.needs())
}

// The time of a request that is sent again is measured by the answer that names its copy, not by a late
// answer to the request that was sent first.
func TestTimeOfARepeatedRequest(t *testing.T) {
	for _, late := range []bool{true, false} {
		s := newReader(7)
		s.comes(3, 0)
		s.needs()
		one := s.Copy(s.psn(0), 3)
		require.True(t, s.Note(&s.l, s.psn(0), 3, s.psn(20), true))
		s.Time(s.psn(0), 1000)
		if late {
			s.Answered(&s.l, s.psn(0), 0, s.psn(10), 1001)
			s.Received(&s.l, s.psn(1), 1001)
			require.Zero(t, s.Path.RoundTrip.Mean())
			continue
		}
		s.Answered(&s.l, s.psn(0), one, s.psn(10), 6000)
		require.EqualValues(t, 5000, s.Path.RoundTrip.Mean())
	}
}

// The numbers of sends begin anew after 2^32. While packets are lost all the time, a queue pair may send any
// number of packets between two READs.
func TestReadsAfterManySends(t *testing.T) {
	for _, many := range []uint32{1 << 29, 1<<31 + 1<<20, 3 << 30} {
		s := newReader(7)
		s.comes(3, 0)
		s.needs()
		require.True(t, s.l.Selective)
		for i := range uint32(4) { // the READs are answered; one WRITE after another follows
			s.sent.sends += many / 4
			una := s.psn(20 + i)
			s.Note(&s.l, una, 1, una, false)
			s.Received(&s.l, packet.AddPSN(una, 1), 0)
		}
		s.Kept.Clear(&s.store)
		require.True(t, s.l.Selective)
		s.first = s.psn(24)
		s.Note(&s.l, s.first, 10, s.first, true)
		s.Note(&s.l, s.psn(10), 10, s.psn(10), true)
		s.Answered(&s.l, s.psn(0), 0, s.psn(10), 0)
		s.Received(&s.l, s.psn(1), 0)
		s.Repair(&s.l, s.psn(1), s.psn(20), s.psn(20))
		for i := uint32(1); i < 20; i++ {
			require.False(t, s.Needs(&s.l, s.psn(i)), "answer %d is on the way, after %d", i, many)
		}
	}
}
