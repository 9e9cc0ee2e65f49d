//go:build linux && (amd64 || arm64)

package netdev

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Peers with slots that take nothing leave the others room for messages without a packet.
func TestHeadsOfOthers(t *testing.T) {
	a, b := two(t, "messages", "10.1.0.1", "10.1.0.2")
	p := a.in.routes.Load().byAddress[b.addr]
	p.mu.Lock()
	p.heads = peerHeads
	err := p.postHead(message{kind: kindFreed}, noPacket)
	p.heads = 0
	p.mu.Unlock()
	require.ErrorIs(t, err, errHeads)
	require.Less(t, (maxAreas-1)*peerHeads, mostHeads)
}
