package packetring

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/internal/incoherent"
)

// placed returns the place of a ring whose count lies before it.
func placed(t *testing.T, g Geometry, mem []byte) Place {
	at, err := g.in(mem)
	require.NoError(t, err)
	return at
}

// growing are the rings of a test of growth: each begins where the one before ends.
var growing = []Geometry{{Slots: 4, Data: 1 << 10}, {Slots: 16, Data: 4 << 10}, {Slots: 64, Data: 16 << 10}}

// pageOf returns in which page of the space ring i of growing begins.
func pageOf(i int) (page int) {
	for _, g := range growing[:i] {
		page += (g.RingSize() + PageSize - 1) / PageSize
	}
	return page
}

// A ring that is full is followed by larger ones, in memory without coherence. No packet is lost, repeated or
// changed, and a witness on each side finds the ring standing still at no time.
func TestGrow(t *testing.T) {
	for seed := range uint64(20) {
		_, err := grow(t, seed, nil)
		require.NoError(t, err, "seed %d", seed)
	}
}

// Without any one of the calls that write back or invalidate in move.go, a ring does not grow.
func TestEveryFlushOfAMoveIsNeeded(t *testing.T) {
	m, err := grow(t, 0, nil)
	require.NoError(t, err)
	sites := slices.DeleteFunc(m.Sites(), func(s string) bool { return !strings.Contains(s, "move.go") })
	require.Len(t, sites, 3)
	for _, site := range sites {
		failed := false
		for seed := uint64(0); seed < 20 && !failed; seed++ {
			_, err := grow(t, seed, func(s string) bool { return s == site })
			failed = err != nil
		}
		assert.True(t, failed, "without: %s", site)
	}
}

func grow(t *testing.T, seed uint64, skip func(string) bool) (*incoherent.Memory, error) {
	const countAt = 0
	spaceAt := PageSize
	m := incoherent.New(spaceAt+PageSize*pageOf(len(growing)), seed)
	rng := rand.New(rand.NewPCG(seed, 3))
	base := uint64(rng.Uint32() >> 1)
	for n := base + 64; n < base+128; n++ { // what looks like packets in the largest ring
		var word [8]byte
		binary.BigEndian.PutUint32(word[:], uint32(n+1))
		m.Write(spaceAt+PageSize*pageOf(2)+int(n%64)*SlotSize, word[:])
	}
	near, far := m.Side("producer", seed+1), m.Side("consumer", seed+2)
	near.Skip, far.Skip = skip, skip
	if seed%2 == 1 {
		near.Evict, far.Evict = rand.New(rand.NewPCG(seed, 4)), rand.New(rand.NewPCG(seed, 5))
	}
	p, err := NewProducerAt(Place{near.Bytes()[spaceAt:], near.Bytes()[countAt:]}, growing[0], near)
	require.NoError(t, err)
	p.Reset(base)
	c := NewConsumerAt(far.Bytes()[countAt:], far)
	require.NoError(t, c.Open(far.Bytes()[spaceAt:], growing[0]))
	c.Reset(base)
	c.Space(far.Bytes()[spaceAt:])
	var sent, taken, moves int
	var packet Packet
	for tries := 0; taken < 400; tries++ {
		if tries > 5_000 {
			return m, fmt.Errorf("%d packets were sent, %d arrived", sent, taken)
		}
		if p.Full() > 0 && moves < len(growing)-1 && p.larger.next.Load() == nil && p.Moved() <= p.Consumed() {
			moves++
			at := near.Bytes()[spaceAt+PageSize*pageOf(moves):]
			require.NoError(t, p.Grow(at, growing[moves], uint32(pageOf(moves))))
		}
		idle := 0
		if c.mask+1 == 64 {
			idle = 5 // so that the largest ring is empty from time to time
		}
		for sent < 400 && rng.IntN(8) > idle && send(p, uint64(sent), 8, rng.IntN(500)) {
			sent++
		}
		for rng.IntN(4) > 0 {
			ok, err := take(c, &packet, rng.IntN(2) == 0)
			if err != nil {
				return m, err
			}
			if ok && int(packet.Path) != taken {
				return m, fmt.Errorf("packet %d in place of %d", packet.Path, taken)
			}
			if ok {
				taken++
			}
		}
		c.Free()
	}
	if moves != len(growing)-1 || p.mask+1 != 64 || c.mask+1 != 64 {
		return m, fmt.Errorf("%d moves, %d and %d slots", moves, p.mask+1, c.mask+1)
	}
	page, slots, _ := c.Moves()
	if int(page) != pageOf(2) || slots != 64 || p.Consumed() != base+400+uint64(moves) {
		return m, fmt.Errorf("page %d, %d slots, %d consumed", page, slots, p.Consumed()-base)
	}
	if faults := m.Faults(); len(faults) > 0 {
		return m, fmt.Errorf("faults: %v", faults)
	}
	return m, nil
}

// A producer cannot lead a consumer out of the memory that it may move in.
func TestMoveToWhereNothingIs(t *testing.T) {
	g := Geometry{Slots: 4, Data: 1 << 10}
	for name, slot := range map[string]struct {
		page, slots, data uint32
		space             int
		says              string
	}{
		"no space":       {0, 4, 1024, 0, "payload of 0 bytes at byte 274877906816"},
		"behind the end": {3, 4, 1024, 3 * PageSize, "a move to 1536 bytes at byte 12288 of 12288"},
		"far behind":     {1<<32 - 1, 4, 1024, 3 * PageSize, "at byte 17592186040320 of 12288"},
		"over the end":   {2, 64, 1024, 3 * PageSize, "a move to 9216 bytes at byte 8192 of 12288"},
		"no power of 2":  {0, 3, 1024, 3 * PageSize, "3 slots"},
		"too many slots": {0, 1 << 31, 1024, 3 * PageSize, "2147483648 slots"},
		"no lines":       {0, 4, 1, 3 * PageSize, "data area of 1 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			_, c, mem := pair(t, g)
			if slot.space > 0 {
				c.Space(make([]byte, slot.space))
			}
			b := mem[slotsAt:]
			be32 := func(at int, v uint32) {
				b[at], b[at+1], b[at+2], b[at+3] = byte(v>>24), byte(v>>16), byte(v>>8), byte(v)
			}
			be32(8, slot.page)
			be32(12, elsewhere)
			be32(16, slot.slots)
			be32(20, slot.data)
			be32(0, 1)
			var k Packet
			ok, err := c.Next(&k)
			require.False(t, ok)
			require.ErrorIs(t, err, ErrCorrupt)
			require.ErrorContains(t, err, slot.says)
		})
	}
}

// A consumer that stood still while the memory of its ring was given to another ring takes no packet of that
// ring for its next one.
func TestBase(t *testing.T) {
	g := Geometry{Slots: 4, Data: 1 << 10}
	p, c, _ := pair(t, g)
	var k Packet
	require.True(t, send(p, 0, 8, 8))
	ok, err := take(c, &k, true)
	require.NoError(t, err)
	require.True(t, ok)
	p.Reset(1000)
	require.True(t, send(p, 0, 8, 8))
	require.True(t, send(p, 1, 8, 8))
	ok, err = c.Next(&k)
	require.NoError(t, err)
	require.False(t, ok, "the second packet of another ring is in the slot of this ring's next one")
}
