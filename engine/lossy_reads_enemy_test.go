package engine

import (
	"testing"
	"time"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/recovery"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/packetring"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/packet"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// The longest message has as many packets of 256 bytes as two PSNs can differ by. It is sent while earlier
// answers are missing.
func TestLongestReadAfterALoss(t *testing.T) {
	n, p, q := newNetwork(t, nic.PortConfig{MTU: 256, Window: 1 << 20, Loses: true}, rackRate, rackDelay, 0, 0)
	n.rest(5 * time.Millisecond)
	require.True(t, p.q.Wire.Losses.Agreed)
	const size = 40 << 20
	mem, err := shm.Heap(size) // never touched
	require.NoError(t, err)
	p.h.addRegion(0x1000_0000, mem)
	lkey := p.h.reg(p.h.pd, 0x1000_0000, size, control.AccessLocalWrite)
	far, near := q.h.full(4096, 1), p.h.full(4096, 7)
	gone := 0
	n.lose = func(_ int, k *heldPacket) bool {
		op := packet.Opcode(k.head[0])
		loses := op.Service() == packet.RC && op.Info().Response && gone < 2
		if loses {
			gone++
		}
		return loses
	}
	p.post(ctrl(wqe.OpRDMARead), far.raddr(0), near.data(0, 4096))
	segments := []any{wqe.Raddr{RKey: 1}}
	for left := uint32(wqe.MaxMessage); left > 0; {
		k := min(left, size)
		segments = append(segments, wqe.Data{ByteCount: k, LKey: lkey, Addr: 0x1000_0000})
		left -= k
	}
	p.post(ctrl(wqe.OpRDMARead), segments...)
	var got []cqe.Syndrome
	n.run(3*time.Second, func() bool {
		for _, w := range p.scq.all() {
			got = append(got, w.Syndrome)
		}
		return len(got) == 2
	})
	require.Equal(t, []cqe.Syndrome{unharmed, cqe.RemoteAccess}, got)
	require.Equal(t, 2, gone)
}

// The window has no more packets than a peer keeps early ones. Otherwise all those beyond are sent again and
// again, and dropped.
func TestReadsInShortPacketsOverALossyNetwork(t *testing.T) {
	const count, size, mtu = 8, 200_000, 256
	cfg := nic.PortConfig{MTU: mtu, Window: 1 << 20, Loses: true}
	for seed := range uint64(3) {
		n, p, q := newNetwork(t, cfg, rackRate, rackDelay, 0.1, seed)
		n.rest(5 * time.Millisecond)
		took, sent := n.reads(p, q, count, size)
		t.Logf("%v, %d packets, %+v", took, sent, p.q.Wire.Losses.PathCounts)
		require.Less(t, sent, uint64(4*count*size/mtu))
	}
}

// Other queue pairs have taken all memory for early packets, so every answer after a lost one is dropped.
func TestReadsWithoutMemoryForEarlyAnswers(t *testing.T) {
	const count, size = 8, 200_000
	for seed := range uint64(3) {
		n, p, q := newNetwork(t, roceLike(), rackRate, rackDelay, 0.1, seed)
		n.rest(5 * time.Millisecond)
		store := &p.q.Wire.Port.Paths.Store
		for store.Taken() < 4096 {
			new(recovery.Early).Keep(store, &packetring.Packet{}, 0, 1, 1, 1)
		}
		took, sent := n.reads(p, q, count, size)
		t.Logf("%v, %d packets, %+v", took, sent, p.q.Wire.Losses.PathCounts)
		require.Less(t, sent, uint64(20*count*size/1024)) // without Confine 82
	}
}

// After a retry, the answers that are kept come again, and the one that is missing does not: it is requested
// again at once, not by the next retry.
func TestAnswersThatAreKeptComeAgain(t *testing.T) {
	const size = 7 * 1024
	n, p, _, far, near := silentPeer(t, size)
	for i := range uint32(6) {
		p.give(readMiddle, firstPSN+1+i, nil, far.mem[(1+i)*1024:][:1024])
		n.steps()
	}
	require.Equal(t, 6, p.q.Wire.Recovery.Kept.N)
	r := &p.q.Wire.Out
	n.run(time.Second, func() bool { return r.Retries > 0 })
	asked := 0
	n.lose = func(_ int, k *heldPacket) bool {
		op := packet.Opcode(k.head[0]).Operation()
		if op == packet.ReadRequest {
			asked++
		}
		return op == packet.ReadResponseFirst && asked == 1
	}
	took := n.completed(p, 1)
	require.Less(t, took, 8*rackDelay)
	require.Equal(t, 2, asked)
	n.r.same(far.mem, near.mem, "the READ")
}
