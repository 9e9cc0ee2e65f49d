package packetring

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/nicless/nicless/internal/incoherent"
	"github.com/nicless/nicless/internal/shm"
	"github.com/stretchr/testify/require"
)

// A witness sees whether packets wait, in every state of a ring, and takes nothing for standing that
// moves.
func TestWitness(t *testing.T) {
	g := Geometry{Slots: 8, Data: 4096}
	mem, err := shm.Heap(g.Size())
	require.NoError(t, err)
	p, err := NewProducer(mem.Bytes(), g, nil)
	require.NoError(t, err)
	c, err := NewConsumer(mem.Bytes(), g, nil)
	require.NoError(t, err)
	w, err := NewWitness(placed(t, g, mem.Bytes()), g, nil, false, 0)
	require.NoError(t, err)
	rng := rand.New(rand.NewPCG(1, 1))
	var k Packet
	in := 0
	for step := range 2000 {
		moved := false
		for range rng.IntN(9) {
			if _, _, ok := p.Reserve(16, rng.IntN(300)); ok {
				p.Publish(0)
				in++
			}
		}
		for range rng.IntN(9) {
			if ok, err := c.Next(&k); ok {
				require.NoError(t, err)
				c.Free()
				moved = true
				in--
			}
		}
		if moved {
			require.False(t, w.Observe(), "step %d: it has moved", step)
		}
		require.Equal(t, in > 0, w.Observe(), "step %d: %d packets are in the ring", step, in)
	}
	for in > 0 {
		_, _ = c.Next(&k)
		in--
	}
	c.Free()
	w.Observe()
	require.False(t, w.Observe())
	require.Zero(t, testing.AllocsPerRun(100, func() { w.Observe() }))

	// Any wrong word that one of the two would wait for without end is seen.
	for at := range uint64(8) {
		word := &p.slots[at*lines]
		was := word.Word(0)
		for _, wrong := range []uint64{0, was + 1<<32, was - 1<<32, was + 8<<32, ^uint64(0)} {
			word.PublishFirst(wrong)
			require.True(t, w.Observe(), "slot %d is %#x in place of %#x", at, wrong, was)
			word.PublishFirst(was)
			require.False(t, w.Observe())
		}
	}
	was := c.consumed.Observe()
	for _, wrong := range []uint64{0, was - 1, was + 1, was + 8, ^uint64(0)} {
		c.consumed.Publish(wrong)
		require.False(t, w.Observe(), "the count has changed")
		require.True(t, w.Observe(), "the count is %d in place of %d", wrong, was)
	}
}

// In memory without coherence a witness needs each call of Invalidate to see what the other side has
// written.
func TestWitnessOfIncoherentMemory(t *testing.T) {
	g := Geometry{Slots: 4, Data: 2 << 10}
	run := func(skip func(string) bool) (m *incoherent.Memory, right bool) {
		m = incoherent.New(g.Size(), 1)
		near, far := m.Side("producer", 2), m.Side("consumer", 3)
		near.Skip, far.Skip = skip, skip
		p, err := NewProducer(near.Bytes(), g, near)
		require.NoError(t, err)
		c, err := NewConsumer(far.Bytes(), g, far)
		require.NoError(t, err)
		send, err := NewWitness(placed(t, g, near.Bytes()), g, near, true, 0)
		require.NoError(t, err)
		receive, err := NewWitness(placed(t, g, far.Bytes()), g, far, false, 0)
		require.NoError(t, err)
		both := func(want bool) {
			right = right && send.Observe() == want && receive.Observe() == want
		}
		right = true
		both(false)
		both(false)
		_, _, _ = p.Reserve(8, 8)
		p.Publish(1)
		both(true)
		var k Packet
		_, err = c.Next(&k)
		require.NoError(t, err)
		c.Free()
		both(false)
		both(false)
		return m, right && len(m.Faults()) == 0
	}
	m, right := run(nil)
	require.True(t, right)
	seen := 0
	for _, site := range m.Sites() {
		if !strings.Contains(site, "standing.go") {
			continue
		}
		seen++
		_, right := run(func(s string) bool { return s == site })
		require.False(t, right, "without: %s", site)
	}
	require.Equal(t, 3, seen)
}

// A witness of an empty ring in memory without coherence loads one slot, and all of them from time to time.
// So it finds a packet that cannot be seen in the next slot later.
func TestWitnessRests(t *testing.T) {
	g := Geometry{Slots: 4, Data: 2 << 10}
	mem, err := shm.Heap(g.Size())
	require.NoError(t, err)
	var c countedCache
	p, err := NewProducer(mem.Bytes(), g, &c)
	require.NoError(t, err)
	w, err := NewWitness(placed(t, g, mem.Bytes()), g, &c, false, 0)
	require.NoError(t, err)
	const all = 4*SlotSize + line
	look := func() int {
		c.invalidated = 0
		require.False(t, w.Observe())
		return c.invalidated
	}
	for range 3 {
		require.Equal(t, all, look())
		for range FullLook - 1 {
			require.Equal(t, line, look())
		}
	}
	require.Equal(t, all, look())
	for range 2 {
		_, _, _ = p.Reserve(8, 8)
		p.Publish(0)
	}
	w.slots[0].PublishFirst(0) // as if it had never been there
	for range FullLook - 1 {
		require.False(t, w.Observe())
	}
	require.True(t, w.Observe(), "the packet behind it is there")
	require.True(t, w.Observe(), "and at each look from then on")
	p.Reset(0)
	require.Equal(t, all, look())
	require.Equal(t, line, look())
	_, _, _ = p.Reserve(8, 8)
	p.Publish(0)
	require.True(t, w.Observe(), "a packet in the next slot is found at once")
}

// A countedCache counts the bytes that were invalidated.
type countedCache struct{ invalidated int }

func (c *countedCache) WriteBack([]byte)    {}
func (c *countedCache) Invalidate(b []byte) { c.invalidated += len(b) }
