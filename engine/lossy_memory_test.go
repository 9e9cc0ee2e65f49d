package engine

import (
	"testing"
	"time"

	"github.com/nicless/nicless/engine/internal/quota"
	"github.com/nicless/nicless/engine/internal/recovery"
	"github.com/nicless/nicless/packet"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// loseWrites makes p send a WRITE of size bytes, of which the network loses the first packet, and returns
// when the others have come. It returns the bytes for which users are charged without those.
func (n *network) loseWrites(p, q *end, size int) (start int) {
	n.r.Helper()
	from, to := p.h.full(size, 1), q.h.full(size, 7)
	port := q.q.Wire.Port
	n.lose = func(_ int, k *heldPacket) bool {
		op := packet.Opcode(k.head[0])
		return op.Service() == packet.RC && op.Operation() == packet.WriteFirst
	}
	before, start := port.Stats.Received, n.r.owed()[quota.Memory]
	p.post(ctrl(wqe.OpRDMAWrite), to.raddr(0), from.data(0, size))
	n.run(time.Second, func() bool { return port.Stats.Received-before >= uint64(size/1024-1) })
	return start
}

// The user of a queue pair is charged for packets that it keeps because they have come early. When nothing
// has been kept for a while, the system gets the memory back, and the user pays nothing any more.
func TestEarlyPacketsAreCharged(t *testing.T) {
	n, p, q := newNetwork(t, roceLike(), rackRate, rackDelay, 0, 0)
	n.rest(5 * time.Millisecond)
	start := n.loseWrites(p, q, 400<<10)
	store := &q.q.Wire.Port.Paths.Store
	require.Equal(t, 399, store.Taken())
	require.Equal(t, start+2*recovery.PortionCost, n.r.owed()[quota.Memory])
	n.lose = func(int, *heldPacket) bool { return false }
	n.completed(p, 1)
	require.Equal(t, start+recovery.PortionCost, n.r.owed()[quota.Memory], "for the next time")

	handle := n.r.handle(q.q.Wire.Port)
	handle.Trim()
	n.stop(11 * time.Second)
	memory := store.Used()
	require.Len(t, memory, 399<<10)
	require.Contains(t, memory, byte(1), "of the WRITE")
	handle.Trim()
	require.Equal(t, start, n.r.owed()[quota.Memory])
	require.Empty(t, store.Used())
	first := 64 << 10 // the largest page of a system; the slice may begin within one
	require.Equal(t, make([]byte, len(memory)-2*first), memory[first:len(memory)-first], "the system has the pages")

	n.loseWrites(p, q, 40<<10)
	n.lose = func(int, *heldPacket) bool { return false }
	n.completed(p, 1)
	q.destroy()
	p.destroy()
	require.NoError(t, p.h.c.Close())
	require.NoError(t, q.h.c.Close())
	require.Equal(t, quota.Charge{}, n.r.owed())
}

// Packets for which the user may have no memory are not kept. They are sent again, and everything completes.
func TestUserWithoutMemoryForEarlyPackets(t *testing.T) {
	n, p, q := newNetwork(t, roceLike(), rackRate, rackDelay, 0, 0)
	n.rest(5 * time.Millisecond)
	n.r.e.Ledger.SetLimit(quota.Memory, 2*n.r.owed()[quota.Memory]+2*recovery.PortionCost-1, "a test")
	n.loseWrites(p, q, 100<<10)
	require.Zero(t, q.q.Wire.Port.Paths.Store.Taken())
	n.lose = func(int, *heldPacket) bool { return n.rng.Float64() < 0.03 }
	n.completed(p, 1)
	n.writes(p, q, 4, 100_000)
	n.reads(p, q, 4, 100_000)
	require.Zero(t, q.q.Wire.Port.Paths.Store.Taken())
}
