package engine

import (
	"testing"
	"time"

	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/packet"
	"github.com/stretchr/testify/require"
)

// A path becomes a hundred times longer. The estimate follows, so that not every packet is sent many times.
func TestPathThatBecomesLonger(t *testing.T) {
	for _, agree := range []bool{true, false} {
		n, p, q := newNetwork(t, roceLike(), rackRate, rackDelay, 0, 0)
		n.lose = func(_ int, k *heldPacket) bool {
			return !agree && packet.Opcode(k.head[0]).Service() == packet.UD
		}
		n.rest(5 * time.Millisecond)
		for range 30 {
			n.writes(p, q, 1, 10_000)
		}
		n.delay = clock.Cycles(5 * time.Millisecond)
		for range 20 {
			n.writes(p, q, 1, 10_000)
		}
		require.Equal(t, agree, p.q.Wire.Losses.Agreed)
		require.Greater(t, p.q.Wire.Losses.RoundTrip.Silence(), clock.Cycles(9*time.Millisecond), "agree: %v", agree)
		took, sent := n.writes(p, q, 1, 200_000)
		t.Logf("agree %v: %v, %d packets for 196", agree, took, sent)
		require.Less(t, sent, uint64(206))
	}
}
