package engine

import (
	"testing"

	"github.com/nicless/nicless/engine/internal/recovery"
	"github.com/nicless/nicless/packet"
	"github.com/stretchr/testify/require"
)

// The request of a READ is lost, and a stranger sends an answer or a report with one of the PSNs on the way.
// So the requester believes that the peer has executed the READ, and requests it in parts, of which the peer
// allows fewer at a time. The READ is right nevertheless.
func TestForgedNewsOfALostRead(t *testing.T) {
	const size = 900 * 1024
	after := packet.AddPSN(firstPSN, size/1024)
	for name, forge := range map[string]func(p *end){
		"answer": func(p *end) { p.give(readMiddle, packet.AddPSN(firstPSN, 850), nil, make([]byte, 1024)) },
		"report": func(p *end) { p.report(after, firstPSN, all(recovery.ReportBytes)...) },
	} {
		t.Run(name, func(t *testing.T) {
			n, p, q, far, near := silentPeer(t, size)
			p.q.Attr.MaxRdAtomic, q.q.Attr.MaxDestRdAtomic = 1, 1
			forge(p)
			n.steps()
			require.True(t, p.q.Wire.Recovery.Executed(firstPSN), "it believes that")
			n.lose = func(int, *heldPacket) bool { return false }
			n.completed(p, 1)
			n.r.same(far.mem, near.mem, "the READ")
		})
	}
}
