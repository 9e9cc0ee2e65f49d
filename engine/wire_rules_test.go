package engine

import (
	"bytes"
	"testing"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/recovery"
	"github.com/nicless/nicless/engine/internal/transport"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/packet"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// Single rules of the transport, each with the packets that show it.

func rc(op packet.Operation) packet.Opcode { return packet.MakeOpcode(packet.RC, op) }

// sentBy returns the syndromes of the acknowledgements that q has sent, which do not arrive.
func (q *end) sentBy() (list []uint8) {
	c := q.h.cable
	f := c.fates
	was := f.lose
	f.lose = 2
	defer func() { f.lose = was }()
	c.seen = func(k *heldPacket) {
		if op := packet.Opcode(k.head[0]); op == rc(packet.Acknowledge) {
			list = append(list, k.head[packet.BTHSize])
		}
	}
	defer func() { c.seen = nil }()
	c.carryFrom(q.side())
	return list
}

// A gap is answered with one NAK. When the missing packet has come, the next gap is answered again,
// whichever path the packet takes.
func TestOneNAKForEachGap(t *testing.T) {
	for _, slow := range []bool{false, true} {
		testOneNAKForEachGap(t, slow)
	}
}

func testOneNAKForEachGap(t *testing.T, slow bool) {
	overCableOf(t, nic.PortConfig{MTU: 256}, &fates{})
	r, _, q := duo(t, Config{})
	r.e.Hooks.NoFastPath = slow
	to := q.h.full(256, 7)
	write := func(psn uint32) {
		q.give(rc(packet.WriteOnly), psn, readHeader(to, 0, 8), make([]byte, 8))
		r.carried(1)
	}
	write(firstPSN + 1)
	write(firstPSN + 2)
	require.Equal(t, []uint8{packet.NAKSequence}, q.sentBy())
	write(firstPSN)
	require.Equal(t, []uint8{packet.SyndromeACK}, q.sentBy())
	write(firstPSN + 2)
	write(firstPSN + 2)
	require.Equal(t, []uint8{packet.NAKSequence}, q.sentBy())
	write(firstPSN) // executed before
	require.Equal(t, []uint8{packet.SyndromeACK}, q.sentBy())
}

// A SEND without a receive is answered with an RNR NAK, and sent again after its timer only.
func TestNotReadyOverALink(t *testing.T) {
	overCableOf(t, nic.PortConfig{MTU: 256}, &fates{})
	r, p, q := duo(t, Config{})
	from, to := p.h.full(600, 1), q.h.full(600, 7)
	p.post(ctrl(wqe.OpSend), from.data(0, 600))
	r.carried(8, p, q)
	require.True(t, p.q.Wire.Out.Paused)
	sent := p.q.Wire.Port.Stats.Sent
	r.carried(8, p, q)
	require.Equal(t, sent, p.q.Wire.Port.Stats.Sent, "it waits")
	q.recv(to.data(0, 600))
	p.runOut()
	for range 8 {
		r.carried(1, p, q)
		require.False(t, p.q.Wire.Out.Paused)
	}
	p.good()
	require.Equal(t, unharmed, q.rcq.all()[0].Syndrome)
	r.same(from.mem, to.mem, "the message")
	require.Zero(t, p.q.Wire.Port.Stats.Timeouts)
}

// A window that closes in the middle of a message asks for the acknowledgement that opens it. It
// does not wait for its timer.
func TestAClosedWindowAsksForAnAcknowledgement(t *testing.T) {
	overCableOf(t, nic.PortConfig{MTU: 256}, &fates{})
	r, p, q := duo(t, Config{})
	holdClock(r.e)
	const packets = 3*transport.ACKEvery + 1
	from, to := p.h.full(packets*256, 1), q.h.full(packets*256, 7)
	for window := uint32(recovery.Least); window <= packets; window++ {
		p.q.Wire.Out.Window, p.q.Wire.Out.Full = window, window
		copy(from.mem, pattern(len(from.mem), byte(window)))
		p.post(ctrl(wqe.OpRDMAWrite), to.raddr(0), from.data(0, packets*256))
		r.carried(4*packets, p, q)
		p.good()
		r.same(from.mem, to.mem, "the message")
	}
	require.Zero(t, p.q.Wire.Port.Stats.Resent)
}

// Packets whose payload does not fit their place in a message are refused.
func TestLengthsOfPackets(t *testing.T) {
	type given struct {
		op   packet.Operation
		says int // length in its RETH, if it has one
		n    int
	}
	for name, list := range map[string][]given{
		"FIRST too short":           {{packet.WriteFirst, 600, 255}},
		"FIRST too long":            {{packet.WriteFirst, 600, 260}},
		"FIRST of a short message":  {{packet.WriteFirst, 256, 256}},
		"MIDDLE too short":          {{packet.WriteFirst, 1000, 256}, {packet.WriteMiddle, 0, 100}},
		"MIDDLE at the end":         {{packet.WriteFirst, 512, 256}, {packet.WriteMiddle, 0, 256}},
		"LAST too early":            {{packet.WriteFirst, 1000, 256}, {packet.WriteLast, 0, 100}},
		"LAST too long":             {{packet.WriteFirst, 300, 256}, {packet.WriteLast, 0, 45}},
		"LAST empty":                {{packet.WriteFirst, 512, 256}, {packet.WriteLast, 0, 0}},
		"LAST longer than the MTU":  {{packet.SendFirst, 0, 256}, {packet.SendLast, 0, 257}},
		"LAST of a SEND empty":      {{packet.SendFirst, 0, 256}, {packet.SendLast, 0, 0}},
		"ONLY too long":             {{packet.WriteOnly, 260, 260}},
		"ONLY of a SEND too long":   {{packet.SendOnly, 0, 260}},
		"ONLY longer than it says":  {{packet.WriteOnly, 8, 16}},
		"ONLY shorter than it says": {{packet.WriteOnly, 16, 8}},
		"SEND in a WRITE":           {{packet.WriteFirst, 600, 256}, {packet.SendLast, 0, 10}},
		"WRITE in a SEND":           {{packet.SendFirst, 0, 256}, {packet.WriteLast, 0, 10}},
		"FIRST in a message":        {{packet.WriteFirst, 600, 256}, {packet.WriteFirst, 600, 256}},
		"LAST without a message":    {{packet.SendLast, 0, 10}},
		"READ in a message":         {{packet.SendFirst, 0, 256}, {packet.ReadRequest, 8, 0}},
		"a READ beyond all":         {{packet.ReadRequest, 1<<30 + 1, 0}},
		"a word of nothing":         {{packet.MaskedFetchAdd, 0, 16}},
		"a word of 2 bytes":         {{packet.MaskedFetchAdd, 2, 16}},
		"a word of 6 bytes":         {{packet.MaskedCompareSwap, 6, 16}},
		"a word of 16 bytes":        {{packet.MaskedCompareSwap, 16, 32}},
		"a word beyond all":         {{packet.MaskedCompareSwap, 1<<32 - 8, 32}},
		"no operands":               {{packet.MaskedFetchAdd, 8, 0}},
		"operands without masks":    {{packet.MaskedCompareSwap, 8, 16}},
		"operands cut":              {{packet.MaskedCompareSwap, 8, 31}},
		"operands of 8 bytes for 4": {{packet.MaskedCompareSwap, 4, 32}},
		"operands of another":       {{packet.MaskedFetchAdd, 8, 32}},
		"operands of 256 bytes":     {{packet.MaskedCompareSwap, 8, 256}},
		"an atomic in a message":    {{packet.WriteFirst, 600, 256}, {packet.MaskedFetchAdd, 8, 16}},
	} {
		t.Run(name, func(t *testing.T) {
			overCableOf(t, nic.PortConfig{MTU: 256}, &fates{})
			r, _, q := duo(t, Config{})
			to := q.h.full(2048, 7)
			q.recv(to.data(0, 2048))
			was := append([]byte(nil), to.mem...)
			after := 0
			for i, g := range list {
				require.Equal(t, control.StateRTS, q.state())
				if !rc(g.op).Info().Atomic {
					after = 256
				}
				var more []byte
				if rc(g.op).Info().RETH {
					more = readHeader(to, 0, g.says)
				}
				q.give(rc(g.op), firstPSN+uint32(i), more, bytes.Repeat([]byte{0xff}, g.n))
				r.carried(1)
			}
			require.Equal(t, control.StateERR, q.state())
			sent := q.sentBy()
			require.Equal(t, uint8(packet.NAKInvalidRequest), sent[len(sent)-1])
			r.same(was[after:], to.mem[after:], "memory after the first packet of a message")
			r.settle()
			list := q.rcq.all()
			require.Len(t, list, 1, "the receive is flushed")
			require.Equal(t, cqe.Flush, list[0].Syndrome)
		})
	}
}

// Packets of another path, with another P_Key, or of another service are not for a queue pair.
func TestPacketsOfStrangers(t *testing.T) {
	overCableOf(t, nic.PortConfig{MTU: 256}, &fates{})
	r, _, q := duo(t, Config{})
	w, to := q.q.Wire, q.h.full(64, 7)
	was := append([]byte(nil), to.mem...)
	give := func(op packet.Opcode, path uint32, change func(b *packet.BTH)) {
		ring := r.cable.to[q.side()]
		h, payload, ok := ring.Reserve(op.Info().HeaderSize, 8)
		require.True(t, ok)
		clear(payload)
		b := packet.BTH{Opcode: op, PKey: object.DefaultPKey, DestQP: q.num, PSN: firstPSN}
		change(&b)
		clear(h)
		b.Put((*[packet.BTHSize]byte)(h))
		copy(h[op.Info().OffRETH:], readHeader(to, 0, 8))
		ring.Publish(path)
		r.carried(1)
		require.Equal(t, control.StateRTS, q.state())
		r.same(was, to.mem, "memory")
	}
	nothing := func(*packet.BTH) {}
	give(rc(packet.WriteOnly), w.Source+1, nothing)
	give(rc(packet.WriteOnly), w.Source, func(b *packet.BTH) { b.PKey = 0x8001 })
	give(rc(packet.WriteOnly), w.Source, func(b *packet.BTH) { b.Version = 1 })
	give(rc(packet.WriteOnly), w.Source, func(b *packet.BTH) { b.DestQP ^= 0x800000 })
	give(packet.MakeOpcode(packet.UC, packet.WriteOnly), w.Source, nothing)
	require.Equal(t, firstPSN, w.In.PSN)
}

// A fence waits for READs; without one, a WRITE does not. Never are more packets on the way than the
// window allows.
func TestFenceOverALink(t *testing.T) {
	overCableOf(t, nic.PortConfig{MTU: 256, Window: 1024}, &fates{})
	r, p, q := duo(t, Config{})
	from, to := p.h.full(4096, 1), q.h.full(4096, 7)
	out := &p.q.Wire.Out
	p.post(ctrl(wqe.OpRDMARead), to.raddr(0), from.data(0, 8))
	c := ctrl(wqe.OpRDMAWrite)
	c.Flags |= wqe.FenceReads
	p.post(c, to.raddr(8), from.data(0, 8))
	r.carried(4)
	require.Equal(t, uint32(1), out.Last-out.First)
	r.settle()
	require.Len(t, p.scq.all(), 2)
	r.same(from.mem[:8], to.mem[8:16], "what was read, then written")

	p.post(ctrl(wqe.OpRDMARead), to.raddr(0), from.data(0, 8))
	p.post(ctrl(wqe.OpRDMAWrite), to.raddr(16), from.data(16, 4000))
	sent := p.q.Wire.Port.Stats.Sent
	r.carried(20)
	require.Equal(t, uint32(2), out.Last-out.First)
	require.Equal(t, uint64(4), p.q.Wire.Port.Stats.Sent-sent, "packets on the way")
	r.settle()
	require.Len(t, p.scq.all(), 2)
}

// No more READs are on the way than the responder allows, whichever path they take.
func TestReadsAtATime(t *testing.T) {
	for _, n := range []int{64, 600} {
		overCableOf(t, nic.PortConfig{MTU: 256}, &fates{})
		r, p, q := duo(t, Config{})
		from, to := p.h.full(4096, 1), q.h.full(4096, 7)
		r.cable.block(q.side()) // the responder cannot answer
		for i := range 6 {
			p.post(ctrl(wqe.OpRDMARead), to.raddr(600*i), from.data(600*i, n))
		}
		r.carried(20, p)
		require.Equal(t, uint32(4), p.q.Wire.Out.Reading)
		require.Equal(t, 4, q.q.Wire.In.Due)
		require.Equal(t, control.StateRTS, q.state())
		r.settle()
		list := p.scq.all()
		require.Len(t, list, 6)
		for i, w := range list {
			require.Equal(t, unharmed, w.Syndrome)
			r.same(to.mem[600*i:][:n], from.mem[600*i:][:n], "what was read")
		}
	}
}

// Over a good cable no packet is sent twice: no acknowledgement overtakes an answer.
func TestNothingTwiceOverAGoodCable(t *testing.T) {
	overCableOf(t, nic.PortConfig{MTU: 256}, nil)
	r, p, q := duo(t, Config{Slice: 600, Burst: 3})
	from, to := p.h.full(20_000, 1), q.h.full(20_000, 7)
	for range 4 {
		p.post(ctrl(wqe.OpRDMARead), to.raddr(0), from.data(0, 5000))
		p.post(ctrl(wqe.OpAtomicFA), to.raddr(8), wqe.Atomic{SwapAdd: 1}, from.data(6000, 8))
		p.post(ctrl(wqe.OpRDMAWrite), to.raddr(8000), from.data(7000, 3000))
	}
	r.settle()
	require.Len(t, p.scq.all(), 12)
	for _, c := range r.cable.ports {
		require.Zero(t, c.Port.Stats.Resent+c.Port.Stats.Timeouts+c.Port.Stats.Duplicates+c.Port.Stats.Gaps+c.Port.Stats.Strangers+c.Port.Stats.Malformed, "%+v", c.Port.Stats)
	}
}

// A READ of which one half was executed before is not executed.
func TestHalfOfARead(t *testing.T) {
	overCableOf(t, nic.PortConfig{MTU: 256}, &fates{})
	r, _, q := duo(t, Config{})
	to := q.h.full(2048, 7)
	q.give(rc(packet.ReadRequest), firstPSN, readHeader(to, 0, 512), nil)
	r.carried(1)
	r.cable.carryFrom(q.side())
	r.cable.block(q.side())
	for _, n := range []int{600, 1 << 30, -1} {
		q.give(rc(packet.ReadRequest), firstPSN, readHeader(to, 0, n), nil)
		r.carried(1)
		require.Zero(t, q.q.Wire.In.Due, "%d bytes", n)
	}
	q.give(rc(packet.ReadRequest), firstPSN+1, readHeader(to, 256, 256), nil)
	r.carried(1)
	require.Equal(t, 1, q.q.Wire.In.Due)
}
