package engine

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/packet"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// These tests are of how much of a step a peer can take whose packets come in another order, or who reports.

// eachStep lets the engine work until count grows no more, and returns by how much it grew at most in a step.
func (n *network) eachStep(count func() uint32) (most uint32) {
	for idle := 0; idle < 40; idle++ {
		before := count()
		n.r.e.Step()
		if grown := packet.AddPSN(count(), -before); grown > 0 {
			most, idle = max(most, grown), 0
		}
	}
	return most
}

// mostOfStep is how many packets with 1024 bytes fit into the budget of a step twice: for packets that come,
// and for those that were kept.
func (n *network) mostOfStep() uint32 {
	return 2 * uint32(n.r.e.Settings.Slice/(1024+object.PieceCost)+1)
}

// Hundreds of packets wait for one. When it has come, they are executed in the steps that their budget takes.
func TestEarlyPacketsTakeTheirShare(t *testing.T) {
	n, p, q := newNetwork(t, roceLike(), rackRate, rackDelay, 0, 0)
	n.rest(5 * time.Millisecond)
	to := q.h.full(1024, 7)
	reth := make([]byte, packet.RETHSize)
	packet.RETH{Addr: to.addr, RKey: to.key, Length: 1024}.Put((*[packet.RETHSize]byte)(reth))
	op := packet.MakeOpcode(packet.RC, packet.WriteOnly)
	const count = 600
	for i := range uint32(count) {
		q.give(op, firstPSN+1+i, reth, make([]byte, 1024))
		n.steps()
	}
	require.Equal(t, count, q.q.Wire.Recovery.Early.N)
	q.give(op, firstPSN, reth, make([]byte, 1024))
	most := n.eachStep(func() uint32 { return q.q.Wire.In.PSN })
	require.EqualValues(t, firstPSN+count+1, q.q.Wire.In.PSN)
	require.LessOrEqual(t, most, n.mostOfStep())
	require.Zero(t, q.q.Wire.Recovery.Early.N)
	_ = p
}

// The same for answers that wait for one.
func TestEarlyAnswersTakeTheirShare(t *testing.T) {
	const count = 600
	n, p, _, _, near := silentPeer(t, (count+1)*1024)
	for i := range uint32(count) {
		p.give(readMiddle, firstPSN+1+i, nil, make([]byte, 1024))
		n.steps()
	}
	require.Equal(t, count, p.q.Wire.Recovery.Kept.N)
	p.give(packet.MakeOpcode(packet.RC, packet.ReadResponseFirst), firstPSN, make([]byte, packet.AETHSize), make([]byte, 1024))
	most := n.eachStep(func() uint32 { return p.q.Wire.Out.UNA })
	require.Equal(t, unharmed, p.scq.all()[0].Syndrome)
	require.LessOrEqual(t, most, n.mostOfStep())
	require.Equal(t, make([]byte, len(near.mem)), near.mem)
	require.Zero(t, p.q.Wire.Port.Paths.Store.Taken())
}

// A queue pair that waits for a later step goes to error, or away.
func TestQueuePairThatWaitsForItsShareGoesAway(t *testing.T) {
	const count = 600
	n, p, _, _, _ := silentPeer(t, (count+1)*1024)
	for i := range uint32(count) {
		p.give(readMiddle, firstPSN+1+i, nil, make([]byte, 1024))
		n.steps()
	}
	port := p.q.Wire.Port
	p.give(packet.MakeOpcode(packet.RC, packet.ReadResponseFirst), firstPSN, make([]byte, packet.AETHSize), make([]byte, 1024))
	for range 1000 {
		if p.q.Wire.Resuming {
			break
		}
		n.r.e.Step()
	}
	require.True(t, p.q.Wire.Resuming)
	p.destroy()
	n.steps()
	require.Empty(t, port.Resumed)
	require.Zero(t, port.Paths.Store.Taken())
}

// Reports make the requester look at all packets on the way, so few of them fit into a step.
func TestReportsTakeTheirShare(t *testing.T) {
	n, p, q := newNetwork(t, roceLike(), rackRate, rackDelay, 0, 0)
	n.rest(5 * time.Millisecond)
	const size = 900 * 1024
	from, to := p.h.full(size, 1), q.h.full(size, 7)
	n.lose = func(int, *heldPacket) bool { return true }
	p.post(ctrl(wqe.OpRDMAWrite), to.raddr(0), from.data(0, size))
	n.rest(2 * time.Millisecond)
	r := &p.q.Wire.Out
	require.Greater(t, packet.DiffPSN(r.Most, r.UNA), int32(500))
	for range 60 {
		b := binary.BigEndian.AppendUint32(nil, r.UNA)
		p.give(packet.MakeOpcode(packet.RC, packet.Report), r.UNA, nil, append(b, make([]byte, 128)...))
	}
	got := func() uint32 { return uint32(p.q.Wire.Port.Stats.Received) }
	before := got()
	most := n.eachStep(got)
	require.EqualValues(t, 60, got()-before)
	require.Less(t, most, uint32(8))
}

// A report of a READ that is kept is a look at all of its packets, so few reports are made in a step.
func TestReportsOfAReadTakeTheirShare(t *testing.T) {
	n, _, q := newNetwork(t, roceLike(), rackRate, rackDelay, 0, 0)
	n.rest(5 * time.Millisecond)
	require.True(t, q.q.Wire.Losses.Agreed)
	from := q.h.full(1000*1024, 7)
	reth := make([]byte, packet.RETHSize)
	packet.RETH{Addr: from.addr, RKey: from.key, Length: 1000 * 1024}.Put((*[packet.RETHSize]byte)(reth))
	for range 61 {
		q.give(packet.MakeOpcode(packet.RC, packet.ReadRequest), packet.AddPSN(firstPSN, 1), reth, nil)
	}
	got := func() uint32 { return uint32(q.q.Wire.Port.Stats.Duplicates) }
	before := got()
	most := n.eachStep(got)
	require.EqualValues(t, 60, got()-before)
	require.Less(t, most, uint32(8))
	require.Equal(t, 1, q.q.Wire.Recovery.Early.N)
}
