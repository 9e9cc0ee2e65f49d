package packetring

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
)

// Whatever the other side writes into a ring, a consumer returns packets that are inside of it, or
// an error, and a producer reserves memory that is inside of it.
func FuzzHostileRing(f *testing.F) {
	f.Add([]byte{0, 0, 0, 1, 0, 12, 0, 8, 0, 0, 0, 0, 255, 255, 255, 255}, uint64(0))
	f.Add([]byte{0, 0, 0, 1, 0, 48, 4, 0, 0, 0, 0, 0, 0, 0, 0, 1}, uint64(3))
	f.Add([]byte{0, 0, 0, 1, 0, 49, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}, ^uint64(0))
	f.Fuzz(func(t *testing.T, words []byte, count uint64) {
		g := Geometry{Slots: 4, Data: 2048}
		_, c, mem := pair(t, g)
		var k Packet
		for n := range uint64(8) {
			if len(words) >= 16 {
				slot := mem[slotsAt+n%4*SlotSize:]
				copy(slot[:16], words[:16])
				binary.BigEndian.PutUint32(slot, uint32(n+1)) // or it would be no packet
				words = words[16:]
			}
			ok, err := c.Next(&k)
			if err != nil {
				require.ErrorIs(t, err, ErrCorrupt)
				require.False(t, ok)
				break
			}
			if !ok {
				break
			}
			require.LessOrEqual(t, k.N, MaxHead)
			if len(k.Payload) > 0 {
				inside(t, mem, k.Payload)
			}
			c.Free()
		}
		p, _, mem := pair(t, g)
		for range 8 {
			if n := 65; !send(p, 0, 8, n+200) {
				p.consumed.Publish(count)
				if p.Free() > 0 {
					require.LessOrEqual(t, count, p.Sent())
				}
			}
			if _, payload, ok := p.Reserve(8, 400); ok {
				inside(t, mem, payload)
			}
			count = count<<7 | count>>57
		}
	})
}

// inside checks that bytes are in the ring's slots or data.
func inside(t *testing.T, mem, b []byte) {
	first := &b[0]
	for i := slotsAt; i < len(mem); i++ {
		if &mem[i] == first {
			require.LessOrEqual(t, i+len(b), len(mem))
			return
		}
	}
	require.Fail(t, "memory outside of the ring")
}
