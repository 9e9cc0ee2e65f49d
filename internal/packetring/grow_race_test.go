package packetring

import (
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/internal/shm"
)

// A third goroutine makes a ring larger and looks at it from both sides while two others use it.
func TestGrowBesideBothSides(t *testing.T) {
	heap, err := shm.Heap(1 << 20)
	require.NoError(t, err)
	mem := heap.Bytes()
	g := growing[0]
	p, err := NewProducer(mem, g, nil)
	require.NoError(t, err)
	c, err := NewConsumer(mem, g, nil)
	require.NoError(t, err)
	space := mem[64<<10:]
	c.Space(space)
	const packets = 20000
	var both sync.WaitGroup
	both.Go(func() {
		for n := uint64(0); n < packets; {
			h, _, ok := p.Reserve(8, 0)
			if !ok {
				runtime.Gosched()
				continue
			}
			h[0] = byte(n)
			p.Publish(0)
			n++
		}
	})
	both.Go(func() {
		var k Packet
		for n := uint64(0); n < packets; {
			ok, err := c.Next(&k)
			if !assert.NoError(t, err) {
				return
			}
			if ok {
				if !assert.Equal(t, byte(n), k.Head[0]) {
					return
				}
				n++
				continue
			}
			c.Free()
			runtime.Gosched()
		}
		c.Free()
	})
	done := make(chan struct{})
	go func() { both.Wait(); close(done) }()
	next := 1
	for running := true; running; runtime.Gosched() {
		select {
		case <-done:
			running = false
		default:
		}
		c.Moves()
		if moved := p.Moved(); next < len(growing) && p.Full() > 0 && (next == 1 || moved != 0 && p.Consumed() >= moved) {
			at := pageOf(next)
			require.NoError(t, p.Grow(space[at*PageSize:], growing[next], uint32(at)))
			next++
		}
	}
	require.NotZero(t, p.Moved())
}
