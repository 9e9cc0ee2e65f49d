//go:build linux && (amd64 || arm64)

package recovery

import (
	"testing"

	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/internal/packetring"
	"github.com/nicless/nicless/packet"
	"github.com/stretchr/testify/require"
)

// longPath is a path of 50 ms whose other end keeps LongReach packets.
func longPath() *Path {
	p := &Path{Agreed: true, Reach: LongReach}
	p.RoundTrip.Add(25 * clock.Cycles(long))
	return p
}

// Packets of all sizes come out as they were kept, also after their memory was used for others.
func TestPacketsOfAllSizes(t *testing.T) {
	s := NewStore()
	var e Early
	for round := range 3 {
		var all [][]byte
		for i, n := range []int{0, 1, piece - 1, piece, piece + 1, 3 * piece, mostPayload - 1, mostPayload} {
			b := make([]byte, n)
			for j := range b {
				b[j] = byte(round + i + j + j>>8)
			}
			all = append(all, b)
			k := packetring.Packet{Path: uint32(i), N: 12, Payload: b}
			k.Head[3] = byte(i)
			kept, _ := e.Keep(&s, &k, 0, uint32(1+i), 1, 0)
			require.True(t, kept)
		}
		require.Equal(t, 1+1+1+1+2+3+4+4, s.Taken())
		for i, b := range all {
			var k packetring.Packet
			require.True(t, e.Next(&s, uint32(i), uint32(1+i), &k))
			require.Equal(t, b, append([]byte{}, k.Payload...))
			require.Equal(t, [3]uint32{uint32(i), 12, uint32(i)}, [3]uint32{k.Path, uint32(k.N), uint32(k.Head[3])})
		}
		require.Zero(t, s.Taken())
	}
	kept, _ := e.Keep(&s, &packetring.Packet{Payload: make([]byte, mostPayload+1)}, 0, 1, 1, 0)
	require.False(t, kept)
}

// The packets that are kept stay so when the queue pair begins to reach far, also where PSNs begin anew.
func TestReachGrows(t *testing.T) {
	for _, expected := range []uint32{5, 1<<24 - 700} {
		store := NewStore()
		s := NewState(longPath(), Reach)
		s.Stretches(&store, 1024)
		keep := func(d uint32) bool {
			psn := packet.AddPSN(expected, d)
			missing := s.Early.Missing(expected, psn)
			s.StretchEarly(expected, psn, missing)
			kept, _ := s.Early.Keep(&store, &packetring.Packet{Payload: []byte{byte(d), byte(d >> 8)}}, expected, psn, 1, missing)
			return kept
		}
		for d := uint32(1); d < 5000; d++ {
			if d%7 != 0 {
				require.True(t, keep(d), d)
			}
		}
		require.False(t, keep(LongReach))
		from := expected
		for d := uint32(1); d < 5000; d++ {
			var k packetring.Packet
			psn := packet.AddPSN(expected, d)
			require.Equal(t, d%7 != 0, s.Early.Next(&store, from, psn, &k))
			if d%7 != 0 {
				require.Equal(t, []byte{byte(d), byte(d >> 8)}, k.Payload)
			}
			from = psn
		}
		require.Zero(t, store.Taken())
		require.Equal(t, 1, store.longs)
		s.Leave()
		require.Zero(t, store.longs)
	}
}

// No more than mostLong queue pairs of a port reach far, and none with a peer that does not.
func TestWhoReachesFar(t *testing.T) {
	store := NewStore()
	reaches := func(p *Path) bool {
		s, l := NewState(p, 100), NewLimit(100, 0)
		s.Stretches(&store, 1024)
		s.Begin(0)
		s.Note(&l, 0, 1, 0, false)
		return l.Span > 100
	}
	old, short := longPath(), longPath()
	old.Reach = 0
	short.RoundTrip = RoundTrip{mean: clock.Cycles(long) / 2}
	require.False(t, reaches(old))
	require.False(t, reaches(short))
	for i := range mostLong + 2 {
		require.Equal(t, i < mostLong, reaches(longPath()))
	}
}

// A round ends when its packet has come, and the window follows what has come in it, not the loss.
func TestRoundsSetTheWindow(t *testing.T) {
	const first = 1<<24 - 50
	psn := func(i uint32) uint32 { return packet.AddPSN(first, i) }
	store := NewStore()
	s, l := NewState(longPath(), 100), NewLimit(100, first)
	s.Stretches(&store, 1024)
	s.Begin(first)
	now, most := uint64(1), uint32(first)
	trip := clock.Cycles(long) * 25
	sent := uint32(0)
	send := func(n uint32) {
		for range n {
			if s.Note(&l, psn(sent), 1, most, false) {
				s.Time(psn(sent), now)
			}
			sent++
			most = psn(sent)
		}
	}
	send(l.Window)
	una := uint32(0)
	for range 6 {
		now += trip
		on := sent
		before := l.Window
		s.Received(&l, psn(una+1), now) // the round begins anew with the next packet
		send(1)
		now += trip
		// One packet is lost.
		r := Report{Expected: psn(una + 1), Trigger: psn(on), Bits: make([]byte, ReportBytes)}
		for i := una + 2; i <= on; i++ {
			r.Bits[(i-una-2)/8] |= 1 << ((i - una - 2) % 8)
		}
		_, ok := s.Take(&l, &r, psn(una+1), most, most, now)
		require.True(t, ok)
		require.Greater(t, l.Window, before+before/5, "a lost packet costs no window")
		s.Received(&l, most, now)
		una = sent
		send(l.Window)
	}
	require.Greater(t, l.Window, uint32(200), "more than a short path has")
	require.Less(t, l.Window, uint32(1000))
}
