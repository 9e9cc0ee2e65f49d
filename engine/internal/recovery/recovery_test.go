//go:build linux && (amd64 || arm64)

package recovery

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/internal/packetring"
	"github.com/nicless/nicless/packet"
	"github.com/stretchr/testify/require"
)

// Times that differ little are silence within two round trips, and no time is silence at once.
func TestSilence(t *testing.T) {
	var r RoundTrip
	require.Equal(t, clock.Cycles(unknown), r.Silence())
	trip := clock.Cycles(time.Millisecond)
	for i := range uint64(100) {
		r.Add(trip + i%2)
	}
	require.Greater(t, r.Silence(), trip)
	require.Less(t, r.Silence(), 2*trip)
	r = RoundTrip{}
	r.Add(0)
	require.Equal(t, clock.Cycles(shortest), r.Silence())
}

// Packets are kept, reported and taken out in order, also where PSNs begin anew; READs stand for several.
func TestEarlyPackets(t *testing.T) {
	for _, expected := range []uint32{0, 7, 1<<24 - 2} {
		var e Early
		s := NewStore()
		put := func(d, n uint32) (kept, gap bool) {
			k := packetring.Packet{Payload: []byte{byte(d)}}
			psn := packet.AddPSN(expected, d)
			return e.Keep(&s, &k, expected, psn, n, e.Missing(expected, psn))
		}
		kept, gap := put(leap+2, 1)
		require.Equal(t, [2]bool{false, true}, [2]bool{kept, gap}, "too long a gap")
		kept, gap = put(2, 1)
		require.Equal(t, [2]bool{true, true}, [2]bool{kept, gap})
		kept, gap = put(3, 4)
		require.Equal(t, [2]bool{true, false}, [2]bool{kept, gap})
		require.True(t, e.Has(expected, packet.AddPSN(expected, 6)))
		require.False(t, e.Has(expected, packet.AddPSN(expected, 7)))

		var b [ReportRoom]byte
		r, ok := ParseReport(expected, b[:e.PutReport(&b, expected, expected, 3)])
		require.True(t, ok)
		require.Equal(t, Report{Expected: expected, Trigger: expected, Copy: 3, Bits: []byte{0b111110, 0, 0, 0}}, r)

		var c packetring.Packet
		require.False(t, e.Next(&s, expected, packet.AddPSN(expected, 1), &c))
		require.True(t, e.Next(&s, packet.AddPSN(expected, 1), packet.AddPSN(expected, 2), &c))
		require.Equal(t, []byte{2}, c.Payload)
		e.Clear(&s)
		require.Zero(t, e.N)
		require.Zero(t, s.taken)
		require.False(t, e.Has(expected, packet.AddPSN(expected, 3)))
	}
}

// Packets are dropped when the expected PSN passes them.
func TestEarlyPacketsThatArePassed(t *testing.T) {
	var e Early
	s := NewStore()
	for d := range uint32(5) {
		kept, _ := e.Keep(&s, &packetring.Packet{}, 0, 1+d, 1, e.Missing(0, 1+d))
		require.True(t, kept)
	}
	require.False(t, e.Next(&s, 0, 100, new(packetring.Packet)))
	require.Zero(t, e.N)
	require.Zero(t, s.taken)
}

// No queue pair takes all memory, and all together take no more than mostEarly packets.
func TestMemoryOfEarlyPackets(t *testing.T) {
	s := NewStore()
	var all [32]Early
	for i := range all {
		e := &all[i]
		for d := range uint32(Reach - 1) {
			left := mostEarly - s.taken
			if kept, _ := e.Keep(&s, &packetring.Packet{}, 0, 1+d, 1, e.Missing(0, 1+d)); !kept {
				require.Greater(t, e.N, left/4-1)
				break
			}
		}
		require.Less(t, e.N, Reach)
	}
	require.LessOrEqual(t, s.taken, mostEarly)
	require.Positive(t, all[8].N, "after eight others, something is left")
	for i := range all {
		all[i].Clear(&s)
	}
	require.Zero(t, s.taken)
}

// Room is how many packets are kept until one is refused.
func TestRoomForEarlyPackets(t *testing.T) {
	s := NewStore()
	s.packets = s.packets[:4096]
	for range 16 {
		var e Early
		room := s.Room(e.N, 0)
		for d := range uint32(Reach) {
			if kept, _ := e.Keep(&s, &packetring.Packet{}, 0, 1+d, 1, 0); !kept {
				break
			}
			require.Equal(t, room-e.N, s.Room(e.N, 0))
		}
		require.Equal(t, room, e.N)
		require.Zero(t, s.Room(e.N, 0))
	}
}

// Also queue pairs that keep one packet each take no more.
func TestMemoryOfOneEarlyPacketEach(t *testing.T) {
	s := NewStore()
	all := make([]Early, mostEarly+100)
	for i := range all {
		all[i].Keep(&s, &packetring.Packet{}, 0, 1, 1, 1)
	}
	require.Equal(t, mostEarly, s.taken)
}

// A packet is lost if one that was sent later has come, and only then; a late original does not pass for the
// packet that was sent again.
func TestWhatIsLost(t *testing.T) {
	const first = 1<<24 - 3
	psn := func(i uint32) uint32 { return packet.AddPSN(first, i) }
	s, l := NewState(new(Path), 100), NewLimit(100, first)
	s.Begin(first)
	most := uint32(first)
	for i := range uint32(10) {
		s.Note(&l, psn(i), 1, most, false)
		most = psn(i + 1)
	}
	needs := func() (list []uint32) {
		for i := range uint32(10) {
			if s.Needs(&l, psn(i)) {
				list = append(list, i)
			}
		}
		return list
	}
	lost, ok := s.Take(&l, &Report{Expected: psn(1), Trigger: psn(4), Bits: []byte{0b110, 0, 0, 0}}, first, most, most, 0)
	require.True(t, ok)
	require.EqualValues(t, 2, lost)
	require.Equal(t, []uint32{1, 2}, needs())
	require.EqualValues(t, 5, l.Away, "0, 3 and 4 have come, 1 and 2 are lost")
	s.Note(&l, psn(1), 1, most, false)
	s.Note(&l, psn(2), 1, most, false)
	require.Empty(t, needs())
	copy1 := s.Copy(psn(1), 1) - 1
	s.Take(&l, &Report{Expected: psn(1), Trigger: psn(2), Copy: 0, Bits: []byte{0b110, 0, 0, 0}}, first, most, most, 0)
	require.Empty(t, needs(), "the original of 2 was late")
	s.Take(&l, &Report{Expected: psn(2), Trigger: psn(1), Copy: copy1, Bits: []byte{0b10, 0, 0, 0}}, first, most, most, 0)
	require.Equal(t, []uint32{5, 6, 7, 8, 9}, needs(), "sent before the copy that has come")
}

// Whatever a peer reports, no packet is passed over for ever: after All, everything is sent again.
func TestReportsThatLie(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	s, l := NewState(new(Path), 100), NewLimit(100, 0)
	s.Begin(0)
	for i := range uint32(100) {
		s.Note(&l, i, 1, i, false)
	}
	for range 1000 {
		r := Report{Expected: rng.Uint32() & 255, Trigger: rng.Uint32() & (1<<24 - 1), Copy: uint8(rng.Uint32()) & 127,
			Bits: make([]byte, ReportBytes)}
		for i := range r.Bits {
			r.Bits[i] = byte(rng.Uint32())
		}
		_, ok := s.Take(&l, &r, 0, 100, 100, 0)
		require.Equal(t, r.Expected <= 100, ok)
		require.LessOrEqual(t, l.Away, uint32(100))
		require.GreaterOrEqual(t, l.Window, uint32(Least))
	}
	s.All(&l)
	for i := range uint32(100) {
		require.True(t, s.Needs(&l, i))
	}
}

// Only the answer to the latest question counts, and a silent peer is asked a limited number of times.
func TestAgreement(t *testing.T) {
	var p Paths
	w := p.Join(3)
	now := uint64(1)
	var last uint64
	asked := 0
	for range 100 {
		if mad, ok := w.Query(now); ok {
			asks, nonce, ok := ParseMAD(mad[:])
			require.True(t, asks && ok)
			require.NotEqual(t, last, nonce)
			w.Answered(last, 0, now)
			require.False(t, w.Agreed)
			last = nonce
			asked++
		}
		_, again := w.Query(now)
		require.False(t, again, "at once")
		now += clock.Cycles(leastPause) << mostDoubled
	}
	require.Equal(t, mostQuestions, asked)
	back := AnswerTo(last)
	asks, nonce, ok := ParseMAD(back[:])
	require.True(t, !asks && ok)
	w.Answered(nonce, ReachOf(&back), now)
	require.EqualValues(t, LongReach, w.Reach)
	require.True(t, w.Agreed)
	require.Same(t, w, p.Used(3))
	w.Leave()
	require.False(t, w.Agreed, "another peer may come")
	require.Nil(t, p.Used(3))
	for _, b := range [][]byte{nil, make([]byte, MADSize), back[:MADSize-1]} {
		_, _, ok := ParseMAD(b)
		require.False(t, ok)
	}
}
