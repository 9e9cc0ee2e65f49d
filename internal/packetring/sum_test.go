package packetring

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/nicless/nicless/internal/incoherent"
	"github.com/stretchr/testify/require"
)

// checkedPair is pair for a ring with check sums, and the count of wrong ones.
func checkedPair(t testing.TB, g Geometry) (*Producer, *Consumer, []byte, *atomic.Uint64) {
	p, c, mem := pair(t, g)
	wrong := new(atomic.Uint64)
	p.CheckSums(g.Data / 2)
	c.CheckSums(g.Data/2, wrong)
	return p, c, mem, wrong
}

// kinds are packets of all kinds: lines of each way to send them, whole slots, and payloads in the data area.
var kinds = []struct {
	number  uint64
	head, n int
}{
	{0, 12, 8}, {1, 12, 8}, {2, 28, 20}, {3, 0, 0}, {3, 28, 8}, {3, 28, 84}, {3, 48, 64}, {6, 16, 100},
	{6, 28, 700}, {9, 48, 1024},
}

// A packet of which any bit is wrong, in its headers, payload, lengths, place or sum, is never taken. It is
// taken if the bit becomes right again while the consumer looks. If not, the looks end with an error.
func TestWrongBits(t *testing.T) {
	g := Geometry{Slots: 8, Data: 2048}
	rng := rand.New(rand.NewPCG(1, 2))
	var k Packet
	for _, kind := range kinds {
		for range 200 {
			p, c, mem, wrong := checkedPair(t, g)
			base := rng.Uint64N(1 << 31)
			p.Reset(base)
			c.Reset(base)
			require.True(t, send(p, kind.number, kind.head, kind.n))
			slot := mem[slotsAt+int(base)%g.Slots*SlotSize:]
			used := slot[4 : HeadSize+kind.head] // the sequence says only that there is a packet
			if kind.head+kind.n <= Inline {
				used = slot[4 : HeadSize+kind.head+kind.n]
			}
			payload := mem[slotsAt+g.Slots*SlotSize:][:kind.n]
			at := rng.IntN(len(used) + 4)
			b := used
			if at >= len(used) && kind.head+kind.n > Inline {
				b, at = payload, rng.IntN(kind.n)
			}
			at %= len(b)
			bit := byte(1) << rng.IntN(8)
			b[at] ^= bit
			looks := rng.IntN(MostLooks - 1)
			broken := false
			for range looks {
				ok, err := c.Next(&k)
				require.False(t, ok, "%v: bit %#x of byte %d", kind, bit, at)
				if err != nil { // lengths or places that cannot be
					require.ErrorIs(t, err, ErrCorrupt)
					require.NotErrorIs(t, err, ErrSum)
					broken = true
					break
				}
			}
			if broken {
				continue
			}
			require.EqualValues(t, looks, wrong.Load())
			if looks%2 == 0 {
				b[at] ^= bit
				ok, err := c.Next(&k)
				require.NoError(t, err)
				require.True(t, ok)
				k.Path = uint32(kind.number) // it is not sent
				expect(t, &k, kind.number, kind.head, kind.n)
				continue
			}
			var err error
			for n := looks; err == nil; n++ {
				require.Less(t, n, MostLooks, "the looks end")
				var ok bool
				ok, err = c.Next(&k)
				require.False(t, ok)
			}
			if wrong.Load() > uint64(looks) { // otherwise it was found impossible at the first look
				require.ErrorIs(t, err, ErrSum)
				require.EqualValues(t, MostLooks, wrong.Load())
			}
			require.Equal(t, base, c.Received())
		}
	}
}

// Bytes that earlier packets have left in the place of a packet are not taken for it, neither all of them
// below a new sequence, nor any line of them, although all of these packets had right sums.
func TestStaleBytesAreNoPacket(t *testing.T) {
	g := Geometry{Slots: 4, Data: 2048}
	stale := 0
	for _, kind := range kinds {
		for _, base := range []uint64{0, 5, 1<<32 - 8} {
			p, c, mem, _ := checkedPair(t, g)
			p.Reset(base)
			c.Reset(base)
			var k Packet
			for i := range uint64(3 * g.Slots) {
				before := bytes.Clone(mem)
				number := kind.number + 3*i
				require.True(t, send(p, number, kind.head, kind.n))
				slot := slotsAt + int((base+i)%uint64(g.Slots))*SlotSize
				now := bytes.Clone(mem)
				look := func() {
					copy(mem[slot:slot+8], now[slot:])
					ok, err := c.Next(&k)
					require.NoError(t, err)
					require.False(t, ok, "%v, packet %d", kind, i)
					stale++
					copy(mem, now)
				}
				if i >= uint64(g.Slots) {
					for at := slotsAt; at < len(mem); at += line {
						copy(mem[at:at+line], before[at:])
						copy(mem[slot:slot+8], now[slot:])
						if !bytes.Equal(mem, now) {
							look()
						}
					}
					copy(mem[slotsAt:], before[slotsAt:])
					look()
				}
				ok, err := c.Next(&k)
				require.NoError(t, err)
				require.True(t, ok)
				k.Path = uint32(number)
				expect(t, &k, number, kind.head, kind.n)
				c.Free()
			}
		}
	}
	require.Greater(t, stale, 300)
}

// Blank memory is no packet, also where the sequence of the next packet is 0.
func TestBlankMemoryIsNoPacket(t *testing.T) {
	g := Geometry{Slots: 4, Data: 2048}
	var k Packet
	for _, kind := range kinds {
		p, c, mem, wrong := checkedPair(t, g)
		require.True(t, send(p, kind.number, kind.head, kind.n))
		word := binary.BigEndian.Uint64(mem[slotsAt:])
		clear(mem[slotsAt:])
		ok, err := c.Next(&k)
		require.NoError(t, err)
		require.False(t, ok)
		require.Zero(t, wrong.Load(), "there is no packet")
		binary.BigEndian.PutUint64(mem[slotsAt:], word)
		ok, err = c.Next(&k)
		require.NoError(t, err)
		require.False(t, ok)
		require.EqualValues(t, 1, wrong.Load())
	}
	for high := range uint64(1000) {
		_, c, _, _ := checkedPair(t, g)
		c.Reset(high<<32 | (1<<32 - 1))
		ok, err := c.Next(&k)
		require.NoError(t, err)
		require.False(t, ok)
	}
	require.NotZero(t, sumOf(make([]byte, HeadSize), nil))
}

// A move with a wrong bit is not followed.
func TestWrongMove(t *testing.T) {
	g, to := Geometry{Slots: 4, Data: 1024}, Geometry{Slots: 8, Data: 2048}
	for bit := range 8 * moveSize {
		p, c, mem, _ := checkedPair(t, g)
		space := make([]byte, 2*PageSize+to.RingSize())
		c.Space(space)
		for send(p, 0, 12, 200) {
		}
		var k Packet
		ok, err := c.Next(&k)
		require.NoError(t, err)
		require.True(t, ok)
		c.Free()
		require.NoError(t, p.Grow(space[PageSize:], to, 1))
		require.True(t, send(p, 0, 12, 200))
		require.NotZero(t, p.Moved())
		for c.Received() < p.Moved()-1 {
			ok, err := c.Next(&k)
			require.NoError(t, err)
			require.True(t, ok)
		}
		at := slotsAt + int(p.Moved()-1)%g.Slots*SlotSize + bit/8
		mem[at] ^= 1 << (bit % 8)
		ok, err = c.Next(&k)
		require.False(t, ok)
		if err != nil {
			require.ErrorIs(t, err, ErrCorrupt)
			continue
		}
		if bit/8 < 8 && c.Received() == p.Moved() {
			continue // lengths, which a move does not have
		}
		require.Equal(t, p.Moved()-1, c.Received(), "bit %d", bit)
		mem[at] ^= 1 << (bit % 8)
		for c.Received() < p.Sent() {
			_, err = c.Next(&k)
			require.NoError(t, err)
		}
		k.Path = 0
		expect(t, &k, 0, 12, 200)
	}
}

// Without any one call of WriteBack or Invalidate, packets with check sums are late or end the ring, but none
// of them is wrong.
func TestStaleLinesEndARing(t *testing.T) {
	g := Geometry{Slots: 4, Data: 2 << 10}
	ended := 0
	for seed := range uint64(2) {
		var wrong atomic.Uint64
		run := func(skip func(string) bool) (*incoherent.Memory, error) {
			m := incoherent.New(g.Size(), seed)
			p, c := m.Side("producer", seed+1), m.Side("consumer", seed+2)
			p.Skip, c.Skip = skip, skip
			return m, incoherentRing(m, p, c, g, rand.New(rand.NewPCG(seed, 1)), &wrong)
		}
		m, err := run(nil)
		require.NoError(t, err)
		require.Zero(t, wrong.Load(), "no look finds a wrong sum if nothing is left out")
		for _, site := range m.Sites() {
			wrong.Store(0)
			_, err := run(func(s string) bool { return s == site })
			if wrong.Load() > 0 {
				ended++
			}
			if err != nil {
				require.NotErrorIs(t, err, errWrongPacket, "without: %s", site)
			}
		}
	}
	require.Greater(t, ended, 4)
}

// Packets with check sums allocate nothing, right or wrong.
func TestCheckSumsAllocateNothing(t *testing.T) {
	p, c, mem, _ := checkedPair(t, Geometry{Slots: 8, Data: 4096})
	var k Packet
	number := uint64(0)
	require.Zero(t, testing.AllocsPerRun(200, func() {
		for _, n := range [...]int{8, 60, 1000} {
			if !send(p, number, 16, n) {
				panic("no room")
			}
			number++
			if ok, err := c.Next(&k); !ok || err != nil {
				panic(err)
			}
			c.Free()
		}
	}))
	require.True(t, send(p, 0, 16, 8))
	mem[slotsAt+int(p.Sent()-1)%8*SlotSize+20] ^= 1
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if ok, err := c.Next(&k); ok || err != nil {
			panic(err)
		}
	}))
}

// Whatever another side writes into a ring with check sums, a consumer returns nothing that the producer has
// not sent, and looks at it a bounded number of times.
func FuzzHostileSums(f *testing.F) {
	f.Add(uint64(0), uint8(0), []byte{0, 0, 0, 0, 1})
	f.Add(uint64(7), uint8(3), []byte{1, 4, 255, 2, 1})
	f.Add(uint64(1<<31-1), uint8(8), []byte{0, 9, 7, 0, 0, 1, 1, 1})
	f.Fuzz(func(t *testing.T, base uint64, which uint8, changes []byte) {
		g := Geometry{Slots: 4, Data: 2048}
		p, c, mem, _ := checkedPair(t, g)
		base &= MostBase
		p.Reset(base)
		c.Reset(base)
		kind := kinds[int(which)%len(kinds)]
		require.True(t, send(p, kind.number, kind.head, kind.n))
		ring := mem[slotsAt:]
		for i := 0; i+3 <= len(changes); i += 3 {
			ring[(int(changes[i])<<8|int(changes[i+1]))%len(ring)] ^= changes[i+2]
		}
		var k Packet
		for n := 0; ; n++ {
			require.LessOrEqual(t, n, MostLooks)
			if !c.Ready() {
				return
			}
			ok, err := c.Next(&k)
			if err != nil {
				require.ErrorIs(t, err, ErrCorrupt)
				return
			}
			if ok {
				k.Path = uint32(kind.number)
				expect(t, &k, kind.number, kind.head, kind.n)
				return
			}
		}
	})
}

// The bytes that were checked are those that the caller gets, whatever is written into the ring after that.
func TestCheckedBytesArePrivate(t *testing.T) {
	for _, kind := range kinds {
		p, c, mem, _ := checkedPair(t, Geometry{Slots: 4, Data: 2048})
		require.True(t, send(p, kind.number, kind.head, kind.n))
		var k Packet
		ok, err := c.Next(&k)
		require.NoError(t, err)
		require.True(t, ok)
		clear(mem[slotsAt:])
		k.Path = uint32(kind.number)
		expect(t, &k, kind.number, kind.head, kind.n)
	}
}

// Looks are counted for each packet: a ring whose packets are late again and again goes on, and Reset
// begins to count anew.
func TestLooksAreOfOnePacket(t *testing.T) {
	p, c, mem, wrong := checkedPair(t, Geometry{Slots: 4, Data: 2048})
	var k Packet
	for i := range uint64(3 * MostLooks) {
		if i == MostLooks {
			p.Reset(i)
			c.Reset(i)
		}
		require.True(t, send(p, i, 12, 8))
		b := &mem[slotsAt+int(i%4)*SlotSize+HeadSize]
		*b ^= 1
		looks := 1
		if i == MostLooks-1 {
			looks = MostLooks - 1 // Reset begins anew
		}
		for range looks {
			ok, err := c.Next(&k)
			require.NoError(t, err)
			require.False(t, ok)
		}
		*b ^= 1
		if i == MostLooks-1 {
			continue
		}
		ok, err := c.Next(&k)
		require.NoError(t, err)
		require.True(t, ok)
		c.Free()
	}
	require.EqualValues(t, 3*MostLooks-1+MostLooks-1, wrong.Load())
}
