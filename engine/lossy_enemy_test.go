package engine

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/nicless/nicless/engine/internal/recovery"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/packet"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// These tests are of peers that lie about what has come, and of strangers.

// report gives p a report, as its peer would send it.
func (p *end) report(expected, trigger uint32, bits ...byte) {
	b := binary.BigEndian.AppendUint32(nil, trigger)
	p.give(packet.MakeOpcode(p.q.Service(), packet.Report), expected, nil, append(b, bits...))
}

func all(n int) (bits []byte) {
	for range n {
		bits = append(bits, 0xff)
	}
	return bits
}

// A peer says that it has packets that it has not. Nothing completes by that; when the time of the attribute
// timeout has passed, everything is sent again.
func TestPeerThatLiesAboutGaps(t *testing.T) {
	n, p, q := newNetwork(t, roceLike(), rackRate, rackDelay, 0, 0)
	n.rest(5 * time.Millisecond)
	const size = 40_000
	from, to := p.h.full(size, 1), q.h.full(size, 7)
	n.lose = func(int, *heldPacket) bool { return true }
	p.post(ctrl(wqe.OpRDMAWrite), to.raddr(0), from.data(0, size))
	n.rest(200 * time.Microsecond)
	r := &p.q.Wire.Out
	for expected := r.UNA; packet.DiffPSN(expected, r.Most) <= 0; expected = packet.AddPSN(expected, 1) {
		p.report(expected, expected, all(recovery.ReportBytes)...)
		n.rest(20 * time.Microsecond)
	}
	p.scq.none()
	require.EqualValues(t, firstPSN, r.UNA, "reports acknowledge nothing")
	n.lose = func(int, *heldPacket) bool { return false }
	n.completed(p, 1)
	n.r.same(from.mem, to.mem, "the WRITE")
}

// Reports with impossible numbers change nothing.
func TestImpossibleReports(t *testing.T) {
	n, p, q := newNetwork(t, roceLike(), rackRate, rackDelay, 0, 0)
	n.rest(5 * time.Millisecond)
	const size = 40_000
	from, to := p.h.full(size, 1), q.h.full(size, 7)
	n.lose = func(int, *heldPacket) bool { return true }
	p.post(ctrl(wqe.OpRDMAWrite), to.raddr(0), from.data(0, size))
	n.rest(100 * time.Microsecond)
	r := &p.q.Wire.Out
	before := *r
	malformed := p.q.Wire.Port.Stats.Malformed
	p.report(packet.AddPSN(r.UNA, 1<<24-1), r.UNA, all(4)...)
	p.report(packet.AddPSN(r.Most, 1), r.UNA, all(4)...)
	p.report(packet.AddPSN(r.Most, 1<<22), r.UNA, all(4)...)
	p.report(r.UNA, r.UNA|1<<31, all(4)...)
	p.report(r.UNA, r.UNA, all(3)...)
	p.report(r.UNA, r.UNA, all(recovery.ReportBytes+4)...)
	p.give(packet.MakeOpcode(packet.RC, packet.Report), r.UNA, nil, nil)
	for range 8 {
		n.r.e.Step()
	}
	require.EqualValues(t, malformed+4, p.q.Wire.Port.Stats.Malformed)
	require.Equal(t, before.Limit, r.Limit)
	require.Equal(t, [2]uint32{before.UNA, before.Most}, [2]uint32{r.UNA, r.Most})
	n.lose = func(int, *heldPacket) bool { return false }
	n.completed(p, 1)
	n.r.same(from.mem, to.mem, "the WRITE")
}

// A flood of reports that say anything: what completes has arrived.
func TestFloodOfReports(t *testing.T) {
	for seed := range uint64(4) {
		n, p, q := newNetwork(t, roceLike(), rackRate, rackDelay, 0.05, seed)
		n.rest(5 * time.Millisecond)
		rng := rand.New(rand.NewPCG(seed, 3))
		lose := n.lose
		n.lose = func(i int, k *heldPacket) bool {
			r := &p.q.Wire.Out
			if op := packet.Opcode(k.head[0]); i == p.side() && op.Service() == packet.RC && rng.IntN(3) == 0 && r.Most != r.UNA {
				bits := make([]byte, 4*(1+rng.IntN(recovery.ReportBytes/4)))
				for i := range bits {
					bits[i] = byte(rng.Uint32())
				}
				on := uint32(packet.DiffPSN(r.Most, r.UNA))
				b := binary.BigEndian.AppendUint32(nil, rng.Uint32()&(1<<31-1))
				op := packet.MakeOpcode(packet.RC, packet.Report)
				head := make([]byte, packet.BTHSize)
				packet.BTH{Opcode: op, PKey: 0xffff, DestQP: p.num, PSN: packet.AddPSN(r.UNA, rng.Uint32N(on+1))}.
					Put((*[packet.BTHSize]byte)(head))
				n.ways[1-i].add(flight{n.now() + 1, heldPacket{p.q.Wire.From, head, append(b, bits...)}})
			}
			return lose(i, k)
		}
		m := newMixture(n, p, q, seed)
		for range 4 {
			m.round()
		}
	}
}

// Early packets of many numbers: memory is bounded, and what is executed is what the peer sent.
func TestFloodOfEarlyPackets(t *testing.T) {
	n, p, q := newNetwork(t, roceLike(), rackRate, rackDelay, 0, 0)
	n.rest(5 * time.Millisecond)
	require.True(t, q.q.Wire.Losses.Agreed)
	to := q.h.full(4096, 7)
	before := append([]byte(nil), to.mem...)
	reth := make([]byte, packet.RETHSize)
	packet.RETH{Addr: to.addr, RKey: to.key, Length: 64}.Put((*[packet.RETHSize]byte)(reth))
	op := packet.MakeOpcode(packet.RC, packet.WriteOnly)
	early := &q.q.Wire.Recovery.Early
	for i := range uint32(3 * recovery.Reach) {
		q.give(op, packet.AddPSN(firstPSN, 1+i), reth, make([]byte, 64))
		n.r.e.Step()
	}
	for n.r.e.Step() > 0 {
	}
	require.Greater(t, early.N, 500)
	require.Less(t, early.N, recovery.Reach)
	n.r.same(before, to.mem, "nothing is executed before the expected packet")
	p.toState(control.StateERR)
	q.toState(control.StateERR)
	require.Zero(t, early.N)
}

// A stranger who tries PSNs does not make the responder send a packet for each.
func TestFarPacketsAreAnsweredOnce(t *testing.T) {
	n, _, q := newNetwork(t, roceLike(), rackRate, rackDelay, 0, 0)
	n.rest(5 * time.Millisecond)
	require.True(t, q.q.Wire.Losses.Agreed)
	reth := make([]byte, packet.RETHSize)
	op := packet.MakeOpcode(packet.RC, packet.WriteOnly)
	before := q.q.Wire.Port.Stats.Sent
	for i := range uint32(100) {
		q.give(op, packet.AddPSN(firstPSN, 40_000+i*500), reth, nil)
		for n.r.e.Step() > 0 {
		}
	}
	require.Less(t, q.q.Wire.Port.Stats.Sent-before, uint64(20))
}

// The answer to a question goes to the peer, also if only unreliable connections use the path.
func TestAgreementOnAPathOfUnreliableConnections(t *testing.T) {
	overCableOf(t, roceLike(), &fates{})
	r := newRig(t, Config{})
	c := r.newCable(roceLike(), &fates{})
	for i := range 2 {
		c.paths[i] = nic.Path{Number: 5, Source: 5}
	}
	p, q := pairOf(control.QPTypeUC, r.host("p"), r.host("q"))
	require.EqualValues(t, 5, q.q.Wire.Path)
	var got []uint32
	c.seen = func(k *heldPacket) { got = append(got, k.path) }
	var w recovery.Path
	mad, ok := w.Query(1)
	require.True(t, ok)
	head := make([]byte, packet.BTHSize+packet.DETHSize)
	packet.BTH{Opcode: packet.MakeOpcode(packet.UD, packet.SendOnly), PKey: 0xffff, DestQP: 1}.
		Put((*[packet.BTHSize]byte)(head))
	h, b, ok := c.to[q.side()].Reserve(len(head), 40+len(mad))
	require.True(t, ok)
	copy(h, head)
	copy(b[40:], mad[:])
	c.to[q.side()].Publish(5)
	r.carried(8, p, q)
	require.NotEmpty(t, got)
	for _, path := range got {
		require.EqualValues(t, 5, path)
	}
}
