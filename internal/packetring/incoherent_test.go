package packetring

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/nicless/nicless/internal/incoherent"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// incoherentRing sends packets of all kinds through a ring whose sides have caches of their own.
// It returns an error if a packet does not arrive as it was sent. If wrong is not nil, packets have check
// sums, and it counts wrong ones.
func incoherentRing(m *incoherent.Memory, producer, consumer *incoherent.Side, g Geometry, rng *rand.Rand,
	wrong *atomic.Uint64) error {
	p, err := NewProducer(producer.Bytes(), g, producer)
	if err != nil {
		return err
	}
	c, err := NewConsumer(consumer.Bytes(), g, consumer)
	if err != nil {
		return err
	}
	if wrong != nil {
		p.CheckSums(g.Data / 2)
		c.CheckSums(g.Data/2, wrong)
	}
	// a short lap leaves behind what looks like a new packet or count
	for lap, packets := range []int{1, 2, 200, 1, 200} {
		if lap > 0 {
			p.Reset(uint64(lap/3) << 28)
			c.Reset(uint64(lap/3) << 28)
		}
		if err := incoherentLap(p, c, g, packets, rng); err != nil {
			return fmt.Errorf("lap %d: %w", lap, err)
		}
	}
	if faults := m.Faults(); len(faults) > 0 {
		return fmt.Errorf("faults: %v", faults)
	}
	return nil
}

// errWrongPacket says that a packet was taken that was not sent.
var errWrongPacket = errors.New("wrong packet")

func incoherentLap(p *Producer, c *Consumer, g Geometry, packets int, rng *rand.Rand) error {
	type size struct{ head, n int }
	var sent []size
	var packet Packet
	if c.Waiting() {
		return fmt.Errorf("a packet in a new ring")
	}
	for packets > 2 && send(p, uint64(len(sent)), 8, 8) {
		sent = append(sent, size{8, 8})
	}
	if packets > 2 && len(sent) != g.Slots {
		return fmt.Errorf("%d packets fit into a new ring of %d slots", len(sent), g.Slots)
	}
	for taken, tries := 0, 0; taken < packets; tries++ {
		if tries > 100_000 {
			return fmt.Errorf("%d packets were sent, %d arrived", len(sent), taken)
		}
		if rng.IntN(2) == 0 && len(sent) < packets {
			s := size{rng.IntN(MaxHead + 1), 0}
			if rng.IntN(2) == 0 {
				s.n = rng.IntN(Inline - s.head + 1)
			} else {
				s.n = rng.IntN(g.Data/2 + 1)
			}
			if send(p, uint64(len(sent)), s.head, s.n) {
				sent = append(sent, s)
			}
			continue
		}
		there := taken < len(sent)
		if (c.freed == c.next && rng.IntN(3) == 0 && c.Waiting() != there) ||
			(rng.IntN(3) == 0 && c.Ready() != there) {
			return fmt.Errorf("Waiting or Ready is wrong after %d of %d packets", taken, len(sent))
		}
		ok, err := take(c, &packet, taken%2 == 0)
		switch {
		case err != nil:
			return err
		case ok != there:
			return fmt.Errorf("Next returns %v after %d of %d packets", ok, taken, len(sent))
		case !ok:
			c.Free()
			continue
		}
		want := make([]byte, max(sent[taken].head, sent[taken].n))
		fill(want[:sent[taken].head], uint64(taken))
		if !bytes.Equal(packet.Head[:packet.N], want[:sent[taken].head]) || (c.verify == nil && packet.Path != uint32(taken)) {
			return fmt.Errorf("%w: headers of packet %d", errWrongPacket, taken)
		}
		fill(want[:sent[taken].n], uint64(taken)+1)
		if !bytes.Equal(packet.Payload, want[:sent[taken].n]) {
			return fmt.Errorf("%w: payload of packet %d", errWrongPacket, taken)
		}
		taken++
		if rng.IntN(3) == 0 {
			c.Free()
		}
	}
	return nil
}

// Packets cross memory without coherence, also if caches drop lines when they like.
func TestIncoherentMemory(t *testing.T) {
	for seed := range uint64(8) {
		for _, g := range []Geometry{{Slots: 2, Data: 1 << 10}, {Slots: 8, Data: 4 << 10}} {
			m := incoherent.New(g.Size(), seed)
			p, c := m.Side("producer", seed+100), m.Side("consumer", seed+200)
			if seed%2 == 1 {
				p.Evict, c.Evict = rand.New(rand.NewPCG(seed, 1)), rand.New(rand.NewPCG(seed, 2))
			}
			require.NoError(t, incoherentRing(m, p, c, g, rand.New(rand.NewPCG(seed, 3)), nil), "seed %d, %+v", seed, g)
		}
	}
}

// Without any one call of WriteBack or Invalidate, packets are lost or wrong.
func TestEveryFlushIsNeeded(t *testing.T) {
	g := Geometry{Slots: 4, Data: 2 << 10}
	run := func(skip func(string) bool) (*incoherent.Memory, error) {
		m := incoherent.New(g.Size(), 1)
		p, c := m.Side("producer", 2), m.Side("consumer", 3)
		p.Skip, c.Skip = skip, skip
		return m, incoherentRing(m, p, c, g, rand.New(rand.NewPCG(1, 1)), nil)
	}
	m, err := run(nil)
	require.NoError(t, err)
	sites := m.Sites()
	require.Len(t, sites, 13)
	for _, site := range sites {
		_, err := run(func(s string) bool { return s == site })
		assert.Error(t, err, "without: %s", site)
		if err != nil {
			t.Logf("without %s: %v", site, err)
		}
	}
}
