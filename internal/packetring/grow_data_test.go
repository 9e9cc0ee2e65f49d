package packetring

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A ring whose data area is full grows although slots are free.
func TestGrowForData(t *testing.T) {
	g, to := Geometry{Slots: 64, Data: 48 << 10}, Geometry{Slots: 256, Data: 192 << 10}
	mem := make([]byte, g.Size()+PageSize)
	mem = mem[:g.Size()]
	p, err := NewProducer(mem, g, nil)
	require.NoError(t, err)
	c, err := NewConsumer(mem, g, nil)
	require.NoError(t, err)
	space := make([]byte, to.RingSize())
	c.Space(space)
	send := func() (n int) {
		for {
			_, payload, ok := p.Reserve(12, 16<<10)
			if !ok {
				return n
			}
			payload[0] = byte(p.Sent())
			p.Publish(0)
			n++
		}
	}
	taken := uint64(0)
	take := func() {
		var k Packet
		for c.Ready() {
			ok, err := c.Next(&k)
			require.NoError(t, err)
			if ok {
				require.Len(t, k.Payload, 16<<10)
				taken++
			}
		}
		c.Free()
	}
	send()
	take()
	require.NoError(t, p.Grow(space, to, 0))
	most := 0
	for range 100 {
		most = max(most, send())
		take()
	}
	require.NotZero(t, p.Moved(), "the producer has moved")
	require.GreaterOrEqual(t, most, 10)
}
