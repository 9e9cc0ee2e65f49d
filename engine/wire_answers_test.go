package engine

import (
	"testing"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/transport"
	"github.com/nicless/nicless/engine/internal/wheel"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/packet"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// These tests are of answers that come to a requester twice, late, or without end.

// hear gives p an acknowledgement, as its peer would send it.
func (p *end) hear(syndrome uint8, psn uint32) {
	var b [packet.AETHSize]byte
	packet.AETH{Syndrome: syndrome}.Put(&b)
	p.give(packet.MakeOpcode(p.q.Service(), packet.Acknowledge), psn, b[:], nil)
}

// runOut lets p's timer run out in the next step.
func (p *end) runOut() {
	p.h.Helper()
	sh := p.h.e
	require.True(p.h, p.q.Wire.Timer.Running())
	p.q.Wire.Timer.Deadline = 1
	sh.Timers.Tick, sh.Timers.Due = sh.Now()/sh.Timers.PerTick()-wheel.Buckets-1, 0
	sh.Sched.Turn += -sh.Sched.Turn % transport.TimerTurns
}

// A deadline that comes earlier than it did moves its timer, also out of the bucket that was looked at last.
func TestEarlierDeadline(t *testing.T) {
	w := wheel.Wheel[*object.Wire]{Cycles: 16}
	for _, first := range []uint64{wheel.Buckets - 2, wheel.Buckets - 1} {
		var m wheel.Timer[*object.Wire]
		w.Arm(&m, 0, 16*first)
		w.Arm(&m, 0, 16*3)
		require.EqualValues(t, 4, m.Bucket, "after tick %d", first)
		w.Disarm(&m)
	}
}

const rnr = uint8(1<<5 | 30)

// An RNR NAK that a link has repeated counts once, and so does the NAK of a gap that comes after it.
func TestNAKsThatComeTwice(t *testing.T) {
	overCableOf(t, nic.PortConfig{MTU: 256}, &fates{})
	r, p, q := duo(t, Config{})
	p.q.Attr.RNRRetry = 1
	from, to := p.h.full(256, 1), q.h.full(256, 7)
	p.post(ctrl(wqe.OpSend), from.data(0, 64))
	r.carried(4)
	for range 3 {
		p.hear(rnr, firstPSN)
		p.hear(packet.NAKSequence, firstPSN)
	}
	sent := p.q.Wire.Port.Stats.Sent
	r.carried(4)
	require.True(t, p.q.Wire.Out.Paused)
	require.Equal(t, sent, p.q.Wire.Port.Stats.Sent, "it waits")
	q.recv(to.data(0, 256))
	p.runOut()
	r.settle()
	p.good()
	r.same(from.mem[:64], to.mem[:64], "the message")

	p.post(ctrl(wqe.OpRDMAWrite), to.raddr(0), from.data(0, 64))
	r.carried(4)
	p.q.Wire.Port.Stats.Resent = 0
	window := p.q.Wire.Out.Window
	for range 3 {
		p.hear(packet.NAKSequence, firstPSN+1)
	}
	r.carried(4)
	require.EqualValues(t, 1, p.q.Wire.Port.Stats.Resent)
	require.Equal(t, window/2, p.q.Wire.Out.Window, "one loss")
	r.settle()
	p.good()
}

// A message that the peer has taken after all, before the RNR timer has run out, ends the wait. The
// messages after it are sent.
func TestProgressWhileNotReady(t *testing.T) {
	overCableOf(t, nic.PortConfig{MTU: 256}, &fates{})
	r, p, q := duo(t, Config{})
	from, to := p.h.full(256, 1), q.h.full(256, 7)
	p.post(ctrl(wqe.OpSend), from.data(0, 64))
	r.carried(4)
	p.hear(rnr, firstPSN)
	r.carried(2)
	require.True(t, p.q.Wire.Out.Paused)
	q.recv(to.data(0, 256))
	r.carried(4, p, q) // the packet was late
	p.good()
	require.False(t, p.q.Wire.Out.Paused)
	p.post(ctrl(wqe.OpRDMAWrite), to.raddr(0), from.data(64, 64))
	r.settle()
	p.good()
	r.same(from.mem[64:128], to.mem[:64], "the message")
}

// A peer that answers everything with NAKs of gaps does not keep the retries from running out.
func TestNAKsWithoutEnd(t *testing.T) {
	overCableOf(t, nic.PortConfig{MTU: 256}, &fates{})
	r, p, q := duo(t, Config{})
	from, to := p.h.full(256, 1), q.h.full(256, 7)
	at := p.post(ctrl(wqe.OpRDMAWrite), to.raddr(0), from.data(0, 64))
	r.carried(2)
	for range 1 + p.q.Attr.RetryCount {
		deadline := p.q.Wire.Timer.Deadline
		for range 10 {
			p.hear(packet.NAKSequence, firstPSN)
			r.carried(2)
			require.Equal(t, deadline, p.q.Wire.Timer.Deadline)
		}
		p.runOut()
		r.carried(2)
	}
	r.failed(p.scq.one(), cqe.TransportRetry, at)
}

// An acknowledgement never has the PSN of the answer of a READ or an atomic. If that answer is lost, a
// requester that does not look closely (Soft-RoCE, it seems) takes the acknowledgement for it.
func TestACKIsNoAnswer(t *testing.T) {
	for seed := range uint64(8) {
		lossy := &fates{seed: seed, lose: 0.1, repeat: 0.1}
		overCableOf(t, nic.PortConfig{MTU: 256}, lossy)
		r, p, q := duo(t, Config{})
		r.e.Hooks.NoFastPath = seed%2 == 1
		answers, acks := make(map[uint32]bool), make(map[uint32]bool)
		r.cable.seen = func(k *heldPacket) {
			b := packet.ParseBTH((*[packet.BTHSize]byte)(k.head))
			info := b.Opcode.Info()
			switch {
			case b.Opcode.Operation() == packet.Acknowledge:
				if packet.ParseAETH((*[packet.AETHSize]byte)(k.head[info.OffAETH:])).ACK() {
					acks[b.PSN] = true
				}
			case info.Response:
				answers[b.PSN] = true
			}
		}
		from, to := p.h.full(1024, 1), q.h.full(1024, 7)
		for range 8 {
			for range 4 {
				p.post(ctrl(wqe.OpRDMAWrite), to.raddr(0), from.data(0, 8))
				p.post(ctrl(wqe.OpRDMARead), to.raddr(0), from.data(512, 300))
				p.post(ctrl(wqe.OpRDMAWrite), to.raddr(8), from.data(8, 8))
				p.post(ctrl(wqe.OpAtomicFA), to.raddr(16), wqe.Atomic{SwapAdd: 1}, from.data(16, 8))
			}
			r.settle()
			require.Len(t, p.scq.all(), 16)
		}
		require.NotEmpty(t, acks)
		for psn := range acks {
			require.False(t, answers[psn], "PSN %d has an answer and an acknowledgement", psn)
		}
	}
}
