package engine

import (
	"testing"
	"time"

	"github.com/nicless/nicless/engine/internal/recovery"
	"github.com/nicless/nicless/packet"
	"github.com/stretchr/testify/require"
)

// becomesStranger makes q an end that understands no reports, as if its host had restarted as another device:
// it neither asks nor answers, and reports to it are not taken. p does not know it.
func (n *network) becomesStranger(p, q *end, lose func() bool) {
	q.q.Wire.Losses.Agreed = false
	n.lose = func(from int, k *heldPacket) bool {
		op := packet.Opcode(k.head[0])
		q.q.Wire.Losses.Agreement = recovery.Agreement{}
		return op.Service() == packet.UD || op.Operation() == packet.Report || lose()
	}
}

// An agreement does not outlive the device that it was made with. Everything is right meanwhile.
func TestAgreementWithAnEarlierDeviceEnds(t *testing.T) {
	for name, responds := range map[string]bool{"requester": false, "responder": true} {
		t.Run(name, func(t *testing.T) {
			n, p, q := newNetwork(t, roceLike(), rackRate, rackDelay, 0, 1)
			n.rest(5 * time.Millisecond)
			require.True(t, p.q.Wire.Losses.Agreed)
			n.writes(p, q, 1, 10_000)
			n.rest(200 * time.Millisecond)
			n.becomesStranger(p, q, func() bool { return n.rng.Float64() < 0.02 })
			from, to := p, q
			if responds {
				from, to = q, p
			}
			for p.q.Wire.Losses.Agreed {
				n.writes(from, to, 4, 100_000)
				require.Less(t, n.sent, 20_000, "the agreement stands")
			}
			took, _ := n.writes(from, to, 8, 200_000)
			require.Less(t, took, time.Second)
		})
	}
}
