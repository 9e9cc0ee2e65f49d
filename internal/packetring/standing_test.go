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

// In memory without coherence a witness needs both calls of Invalidate to see what the other side has
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
	require.Equal(t, 2, seen)
}
