package engine

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/engine/internal/loop"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/recovery"
	"github.com/nicless/nicless/engine/internal/scan"
	"github.com/nicless/nicless/engine/internal/transport"
	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/packet"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// These tests are of a stranger who can send from the address of a peer, and knows the number of a queue
// pair and a key, but no PSN.

// A scanner sends packets to a queue pair from its peer's address, at a rate in virtual time.
type scanner struct {
	r    *rig
	to   *end
	rate int
	sh   *loop.Loop
}

// scanned returns two connected queue pairs and a scanner of the second one.
func scanned(t *testing.T, rate int) (p, q *end, s *scanner) {
	overCableOf(t, nic.PortConfig{MTU: 256}, &fates{})
	r, p, q := duo(t, Config{})
	s = &scanner{r, q, rate, r.d.runner.Loops[0]}
	holdClock(s.sh)
	return p, q, s
}

// send sends one packet with the path on which q's peer sends.
func (s *scanner) send(q *end, op packet.Opcode, psn uint32, more, payload []byte) {
	w := q.q.Wire
	ring := s.r.cable.to[q.side()]
	head := make([]byte, op.Info().HeaderSize)
	packet.BTH{Opcode: op, PKey: object.DefaultPKey, DestQP: q.num, PSN: psn & 0xffffff, AckReq: true}.Put((*[packet.BTHSize]byte)(head))
	copy(head[packet.BTHSize:], more)
	h, b, ok := ring.Reserve(len(head), len(payload))
	require.True(s.r, ok)
	copy(h, head)
	copy(b, payload)
	ring.Publish(w.From)
	s.sh.Hooks.HeldClock += clock.Cycles(time.Second) / uint64(s.rate)
}

// writes tries all PSNs from first on, n of them, with WRITEs.
func (s *scanner) writes(first uint32, n int, to *key, value byte) {
	more := readHeader(to, 0, 8)
	for i := range n {
		s.send(s.to, rc(packet.WriteOnly), first+uint32(i), more, []byte{value, 0, 0, 0, 0, 0, 0, 0})
		if i%32 == 31 || i == n-1 {
			s.r.e.Step()
			s.r.e.Step()
		}
		if i%4096 == 0 {
			s.lose() // the answers go to the peer
		}
	}
}

// until goes on with PSNs far from the right one until the path is closed, or not, n packets of the scan
// later. It returns how many it has sent. At 100,000 a second the path is open to one packet of 200, and
// which these are depends on the frequency of the clock.
func (s *scanner) until(closed bool, n int, to *key, value byte) (sent int) {
	d := uint64(n) * (clock.Cycles(time.Second) / uint64(s.rate))
	for s.to.q.Wire.Guard.Requests.StaysClosed(s.sh.Hooks.HeldClock+d) != closed {
		s.writes(firstPSN+1<<20, 32, to, value)
		sent += 32
		require.Less(s.r, sent, s.rate, "the path is not closed and opened in a second")
	}
	return sent
}

// lose loses what the victim has sent.
func (s *scanner) lose() { s.to.sentBy() }

func (s *scanner) wait(d time.Duration) { s.sh.Hooks.HeldClock += clock.Cycles(d) }

// explained returns the texts of the explanations with a code.
func explained(next func() *control.Event, code codes.Code) (texts []string) {
	for ev := next(); ev != nil; ev = next() {
		if name, _, _ := strings.Cut(string(ev.Code[:]), "\x00"); ev.Kind == control.EventExplanation && name == code.String() {
			texts = append(texts, ev.Text)
		}
	}
	return texts
}

// A stranger who tries PSNs one after another, at the rates of a careful scan and of one at full speed,
// passes the right one and no memory is written: because the path is closed when its turn comes, or, if it
// is open, because others near it came just before. It is explained once.
func TestScanOfPSNsDoesNotHit(t *testing.T) {
	for _, rate := range []int{5000, 100_000, 1_400_000} {
		// How many PSNs before the right one are tried last.
		for closed, last := range map[bool]int{true: 100, false: 48} {
			t.Run(fmt.Sprintf("%d, closed %v", rate, closed), func(t *testing.T) {
				_, q, s := scanned(t, rate)
				ev, to := q.h.events(), q.h.full(64, 7)
				was := append([]byte(nil), to.mem...)
				before := transport.PathReach + 20_000
				s.writes(firstPSN-uint32(before), before-last, to, 0xbd)
				if closed {
					before += s.until(true, 2*last, to, 0xbd)
				} else {
					before += s.until(false, 30, to, 0xbd) // it opens within 30 packets, for 64
				}
				s.writes(firstPSN-uint32(last), last+5000, to, 0xbd)
				s.r.same(was, to.mem, "memory")
				require.Equal(t, control.StateRTS, q.state())
				require.Equal(t, firstPSN, q.q.Wire.In.PSN)
				stats := q.q.Wire.Port.Stats
				looked := stats.OutOfWindow + stats.Gaps + stats.Duplicates
				require.LessOrEqual(t, looked, uint64(scan.Burst+scan.PerOpening+scan.Rate*(before+5000)/rate))
				require.Equal(t, uint64(before+5000), looked+stats.ShutOut)
				require.Equal(t, uint64(1), stats.Scans)
				texts := explained(ev, codes.LinkScan)
				require.Len(t, texts, 1)
				require.Contains(t, texts[0], " packets with requests have come within ")
				require.Contains(t, texts[0], "somebody tries PSNs")
			})
		}
	}
}

// A stranger who tries PSNs of many queue pairs of a path in turn has no more tries than at one.
func TestScanOfManyQueuePairs(t *testing.T) {
	_, q, s := scanned(t, 1_000_000)
	more := []*end{q}
	for range 7 {
		a, b := pair(q.h.rig.host("p"), q.h)
		_ = a
		more = append(more, b)
	}
	to := q.h.full(64, 7)
	header := readHeader(to, 0, 8)
	for i := range 40_000 {
		s.send(more[i%len(more)], rc(packet.WriteOnly), firstPSN+100_000+uint32(i), header, make([]byte, 8))
		if i%32 == 31 {
			s.r.e.Step()
			s.r.e.Step()
		}
	}
	out := uint64(0)
	for _, p := range s.r.cable.ports {
		out += p.Port.Stats.OutOfWindow
	}
	require.LessOrEqual(t, out, uint64(2*(scan.Burst+scan.Rate/25+scan.PerOpening)))
}

// A client whose own queue pairs use wrong PSNs closes the path for queue pairs of its user only. Those of
// other users between the same engines go on at once.
func TestScanOfAnotherUser(t *testing.T) {
	roomy(t)
	p, q, s := scanned(t, 1_000_000)
	from, to := p.h.full(256, 1), q.h.full(256, 7)
	a, b := pair(s.r.host("a").asUser(2000), s.r.host("b").asUser(2000))
	if a.side() != p.side() {
		a, b = b, a
	}
	require.Equal(t, q.q.Wire.From, b.q.Wire.From, "on one path")
	attr := a.toRTS()
	attr.SQPSN += 1_000_000
	a.toState(control.StateRST)
	a.modify(a.toInit())
	a.overLink(b)
	a.modify(a.toRTR(b.num))
	a.modify(attr)
	junk, there := a.h.full(1<<20, 3), b.h.full(1<<20, 5)
	a.post(ctrl(wqe.OpRDMAWrite), there.raddr(0), junk.data(0, 1<<20)) // 4096 packets
	for range 400 {
		s.r.carried(2, a, b)
	}
	require.True(t, b.q.Wire.Guard.Requests.HasClosed(), "%+v", b.q.Wire.Port.Stats)
	p.post(ctrl(wqe.OpRDMAWrite), to.raddr(0), from.data(0, 64))
	for range 4 {
		s.r.carried(2, p, q)
	}
	p.good()
	s.r.same(from.mem[:64], to.mem[:64], "what was written")
	require.Equal(t, q.q.Wire.From, q.q.Wire.Source, "the fast path is taken")
}

// A connection goes on during a scan: when the path opens, the peer sends again what it has sent in vain,
// and no packet is lost. Afterwards it is as before, on the fast path.
func TestConnectionOutlivesAScan(t *testing.T) {
	p, q, s := scanned(t, 20_000)
	from, to, other := p.h.full(256, 1), q.h.full(256, 7), q.h.full(64, 3)
	s.writes(firstPSN+1_000_000, 3000, other, 0xbd)
	for i := range 12 {
		copy(from.mem, pattern(64, byte(i)))
		p.post(ctrl(wqe.OpRDMAWrite), to.raddr(0), from.data(0, 64))
		for rounds := 0; len(p.scq.all()) == 0; rounds++ {
			require.Less(t, rounds, 400, "WRITE %d ends", i)
			s.writes(firstPSN+1_000_000+uint32(rounds*64), 32, other, 0xbd)
			s.r.carried(2, p, q)
		}
		s.r.same(from.mem[:64], to.mem[:64], "what was written")
	}
	require.Equal(t, control.StateRTS, p.state())
	require.Equal(t, control.StateRTS, q.state())
	require.Equal(t, uint64(1), q.q.Wire.Port.Stats.Scans)

	s.wait(10 * time.Second)
	p.post(ctrl(wqe.OpRDMAWrite), to.raddr(0), from.data(64, 64))
	s.r.settle()
	p.good()
	w := q.q.Wire
	require.Equal(t, w.From, w.Source, "the fast path is taken")
	s.writes(firstPSN+1_000_000, 100, to, 0xbd)
	require.False(t, w.Guard.Requests.HasClosed())
}

// A peer that sends again what has been executed, and then the expected packet, looks like a scan. It is
// asked for the packet, and its next one is taken, whatever it has sent behind it.
func TestPeerThatGoesBackDuringAScan(t *testing.T) {
	_, q, s := scanned(t, 1_000_000)
	to, other := q.h.full(64, 7), q.h.full(64, 3)
	in := &q.q.Wire.In
	s.writes(firstPSN, 10, other, 1)
	s.writes(firstPSN+1_000_000, 3000, other, 0xbd)
	require.True(t, q.q.Wire.Guard.Requests.HasClosed())
	s.wait((scan.PerOpening + 2) * time.Second / scan.Rate)
	s.lose()
	s.writes(firstPSN+8, 6, to, 1) // two duplicates, the expected one, and three behind it
	require.Equal(t, firstPSN+10, in.PSN)
	require.Equal(t, []uint8{packet.SyndromeACK, packet.NAKSequence, packet.SyndromeACK}, q.sentBy())
	s.writes(firstPSN+10, 4, to, 1)
	require.Equal(t, firstPSN+14, in.PSN)
	require.Equal(t, control.StateRTS, q.state())
}

// One packet of a scan that hits and has another mistake does not end the connection.
func TestGuessWithAWrongKey(t *testing.T) {
	for name, doubt := range map[string]bool{"during a scan": true, "without a scan": false} {
		t.Run(name, func(t *testing.T) {
			p, q, s := scanned(t, 1_000_000)
			from, to := p.h.full(64, 1), q.h.full(64, 7)
			q.recv(to.data(0, 8)) // too short for the SEND below
			if doubt {
				s.writes(firstPSN+1_000_000, scan.DoubtAfter+10, to, 0xbd)
			}
			stats := &q.q.Wire.Port.Stats
			wrong := *to
			wrong.key ^= 0xff
			s.writes(firstPSN, 1, &wrong, 0xbd)
			require.Equal(t, uint64(1), stats.WrongKeys)
			if !doubt {
				require.Equal(t, control.StateERR, q.state())
				require.Equal(t, uint64(1), stats.Refused)
				return
			}
			s.send(q, rc(packet.WriteMiddle), firstPSN, nil, make([]byte, 256))
			s.send(q, rc(packet.SendOnly), firstPSN, nil, make([]byte, 16))
			s.r.e.Step()
			require.Equal(t, uint64(3), stats.Doubted)
			require.Zero(t, stats.Refused)
			require.Equal(t, control.StateRTS, q.state())
			s.wait(10 * time.Second)
			s.lose()
			p.post(ctrl(wqe.OpSend), from.data(0, 8))
			s.r.settle()
			p.good()
			s.r.same(from.mem[:8], to.mem[:8], "what was sent")
			require.Equal(t, unharmed, q.rcq.one().Syndrome)
		})
	}
}

// A forged packet of a message of several, which has the right PSN and another mistake, changes neither the
// message nor the receives.
func TestGuessWithinAMessage(t *testing.T) {
	overCableOf(t, nic.PortConfig{MTU: 256}, &fates{})
	x := newShared(t, Config{}, control.SRQ{})
	q, to := x.to[0], x.to[0].h.full(1024, 7)
	s := &scanner{x.rig, q, 1_000_000, x.d.runner.Loops[0]}
	holdClock(s.sh)
	x.fill()
	x.s.put(0, x.box.data(0, 8)) // too short for the SEND below
	x.s.post(3)
	s.writes(firstPSN+1_000_000, scan.DoubtAfter+10, to, 0xbd)
	stats, in := &q.q.Wire.Port.Stats, &q.q.Wire.In
	ready := x.s.s.Ready()
	unchanged := func(doubted uint64) {
		t.Helper()
		x.e.Step()
		x.e.Step()
		s.lose()
		require.Equal(t, doubted, stats.Doubted)
		require.Equal(t, ready, x.s.s.Ready())
		require.Equal(t, control.StateRTS, q.state())
		x.c.none()
	}
	imm := []byte{0, 0, 0, 5}

	s.send(q, rc(packet.SendFirst), firstPSN, nil, make([]byte, 256))
	unchanged(1)
	require.Nil(t, in.Job, "the first packet comes again")

	s.send(q, rc(packet.WriteFirst), firstPSN, readHeader(to, 0, 512), make([]byte, 256))
	unchanged(1)
	require.Equal(t, firstPSN+1, in.PSN)
	for i := range uint64(5) { // more than the queue has
		s.send(q, rc(packet.WriteLastImm), firstPSN+1, imm, make([]byte, 10))
		unchanged(2 + i)
	}
	s.send(q, rc(packet.WriteLast), firstPSN+1, nil, make([]byte, 256)) // has no immediate
	unchanged(6)
	require.Equal(t, firstPSN+2, in.PSN)

	s.send(q, rc(packet.WriteFirst), firstPSN+2, readHeader(to, 0, 512), make([]byte, 256))
	s.send(q, rc(packet.WriteLastImm), firstPSN+3, imm, make([]byte, 256))
	x.e.Step()
	x.e.Step()
	w := x.c.one()
	require.Equal(t, []uint32{0, 5, 512}, []uint32{uint32(w.Counter), w.Imm, w.ByteLen})
	require.Equal(t, firstPSN+4, in.PSN)
}

// Forged answers outside of what is on the way are counted, limited, and end nothing. The queue pair does not
// give up while the peer's answers are dropped, and does when the scan is over.
func TestScanWithForgedAnswers(t *testing.T) {
	p, q, s := scanned(t, 1_000_000)
	ev := p.h.events()
	from, to := p.h.full(64, 1), q.h.full(64, 7)
	p.post(ctrl(wqe.OpRDMAWrite), to.raddr(0), from.data(0, 8))
	s.r.carried(2)
	require.Equal(t, firstPSN+1, p.q.Wire.Out.Most)
	forge := func(first uint32, n int) {
		var b [packet.AETHSize]byte
		packet.AETH{Syndrome: packet.NAKRemoteAccess}.Put(&b)
		for i := range n {
			s.send(p, rc(packet.Acknowledge), first+uint32(i), b[:], nil)
			if i%32 == 31 || i == n-1 {
				s.r.e.Step()
				s.r.e.Step()
			}
		}
	}
	forge(firstPSN-50_000, 60_000)
	stats := &p.q.Wire.Port.Stats
	require.Equal(t, uint64(60_000), stats.StrayAnswers+stats.Duplicates+stats.ShutOut)
	require.LessOrEqual(t, stats.StrayAnswers+stats.Duplicates, uint64(scan.Burst+scan.PerOpening+scan.Rate))
	require.Equal(t, control.StateRTS, p.state())
	require.Len(t, explained(ev, codes.LinkScan), 1)

	// Requests of the same path are served: they are another half.
	s.send(p, rc(packet.WriteOnly), firstPSN, readHeader(p.h.full(64, 3), 0, 8), make([]byte, 8))
	s.r.e.Step()
	require.Equal(t, firstPSN+1, p.q.Wire.In.PSN)

	s.r.cable.patient = nil
	for range 20 {
		p.runOut()
		s.r.e.Step()
		s.r.e.Step()
	}
	require.Equal(t, control.StateRTS, p.state(), "it does not give up while it cannot hear")
	s.wait(200 * time.Millisecond) // by now the path may open, for the first few packets that come
	for range 20 {
		p.runOut()
		s.r.e.Step()
		s.r.e.Step()
	}
	require.Equal(t, control.StateRTS, p.state(), "nor while it hears little")
	s.wait(5 * time.Second) // the scan is over
	p.runOut()
	s.r.e.Step()
	require.Equal(t, control.StateRTS, p.state(), "those retries count for nothing")
	s.r.settle()
	p.good()
	s.r.same(from.mem[:8], to.mem[:8], "what was written")
}

// A NAK that a scan forges and that hits ends the connection, as on any NIC. It is explained what may
// have happened.
func TestForgedNAKIsExplained(t *testing.T) {
	p, q, s := scanned(t, 1_000_000)
	ev := p.h.events()
	from, to := p.h.full(64, 1), q.h.full(64, 7)
	p.post(ctrl(wqe.OpRDMAWrite), to.raddr(0), from.data(0, 8))
	s.r.carried(2)
	var b [packet.AETHSize]byte
	packet.AETH{Syndrome: packet.NAKRemoteAccess}.Put(&b)
	for i := range uint32(scan.DoubtAfter + 5) {
		s.send(p, rc(packet.Acknowledge), firstPSN+100+i, b[:], nil)
		s.r.e.Step()
	}
	s.send(p, rc(packet.Acknowledge), firstPSN, b[:], nil)
	s.r.e.Step()
	require.Equal(t, cqe.RemoteAccess, p.scq.one().Syndrome)
	texts := explained(ev, codes.LinkRefused)
	require.Len(t, texts, 1)
	require.Contains(t, texts[0], "517 answers with impossible PSNs have come from its address")
}

// Any number of congestion notifications slows a queue pair down once for each window, and stops it never.
func TestFloodOfCNPs(t *testing.T) {
	p, q, s := scanned(t, 1_000_000)
	from, to := p.h.full(8192, 1), q.h.full(8192, 7)
	r := &p.q.Wire.Out
	full := r.Window
	flood := func() {
		for range 40 {
			s.send(p, packet.OpCNP, 0, make([]byte, 16), nil)
		}
		s.r.e.Step()
	}
	flood()
	require.Equal(t, max(full/2, recovery.Least), r.Window, "once, while nothing is acknowledged")
	for i := range 20 {
		flood()
		p.post(ctrl(wqe.OpRDMAWrite), to.raddr(0), from.data(0, 8192))
		s.r.settle()
		p.good()
		require.GreaterOrEqual(t, r.Window, uint32(recovery.Least), i)
	}
	s.r.same(from.mem, to.mem, "what was written")
	require.Equal(t, uint64(21*40), p.q.Wire.Port.Stats.Marks)
	require.Zero(t, p.q.Wire.Port.Stats.ShutOut)
}

// An atomic that a stranger has recorded is executed once, however often and late it is sent again.
func TestReplayedAtomics(t *testing.T) {
	for op, by := range map[wqe.Opcode]struct {
		packet  packet.Operation
		operand any
	}{
		wqe.OpAtomicFA:       {packet.FetchAdd, wqe.Atomic{SwapAdd: 1}},
		wqe.OpAtomicMaskedFA: {packet.MaskedFetchAdd, wqe.MaskedFA8{Add: 1, Boundary: 1 << 31}},
	} {
		t.Run(op.String(), func(t *testing.T) { replayAtomics(t, op, rc(by.packet), by.operand) })
	}
}

func replayAtomics(t *testing.T, op wqe.Opcode, by packet.Opcode, operand any) {
	p, q, s := scanned(t, 1_000_000)
	from, to := p.h.full(64, 1), q.h.full(16, 0)
	clear(to.mem)
	var recorded []heldPacket
	s.r.cable.seen = func(k *heldPacket) {
		if packet.Opcode(k.head[0]) == by {
			recorded = append(recorded, *k)
		}
	}
	const n = 2 * transport.MostResults
	for range n {
		p.post(ctrl(op), to.raddr(8), operand, from.data(0, 8))
		s.r.settle()
		p.good()
	}
	s.r.cable.seen = nil
	require.Len(t, recorded, n)
	for range 100 {
		for _, k := range recorded {
			s.send(q, by, binary.BigEndian.Uint32(k.head[8:])&0xffffff, k.head[packet.BTHSize:], k.payload)
		}
		s.r.e.Step()
		s.r.e.Step()
		s.lose()
	}
	require.Equal(t, uint64(n), binary.LittleEndian.Uint64(to.mem[8:]))
	require.Equal(t, control.StateRTS, q.state())
}

// Packets to queue pairs that do not exist are counted by themselves.
func TestUnknownQueuePairsAreCounted(t *testing.T) {
	_, q, s := scanned(t, 1_000_000)
	num := q.num
	q.num = 0x800000 ^ num
	w := q.q.Wire
	s.send(q, rc(packet.WriteOnly), firstPSN, make([]byte, 16), make([]byte, 8))
	q.num = num
	s.r.e.Step()
	require.Equal(t, uint64(1), w.Port.Stats.UnknownQPs)
	require.Zero(t, w.Port.Stats.Strangers)
}

// Wherever a queue pair loses packets without end, and however a link orders and repeats them, no path
// closes.
func TestBadLinksAreNoScans(t *testing.T) {
	for seed := range uint64(6) {
		overCableOf(t, nic.PortConfig{MTU: 256, Window: 1 << 20}, &fates{seed: seed, lose: 0.05, repeat: 0.1, reorder: 0.3})
		r, p, q := duo(t, Config{})
		from, to := p.h.full(100_000, 1), q.h.full(100_000, 7)
		for i := range 4 {
			op := []wqe.Opcode{wqe.OpRDMAWrite, wqe.OpRDMARead}[i%2]
			p.post(ctrl(op), to.raddr(0), from.data(0, 100_000))
			r.settle()
			p.good()
		}
		r.same(from.mem, to.mem, "what was written and read")
		for _, c := range r.cable.ports {
			s := c.Port.Stats
			require.Zero(t, s.OutOfWindow+s.StrayAnswers+s.Scans+s.ShutOut, "seed %d", seed)
			require.NotZero(t, s.Gaps+s.Duplicates)
		}
	}
}

// A guard ends with the queue pairs of its path.
func TestGuardsEndWithTheirQueuePairs(t *testing.T) {
	_, q, s := scanned(t, 1_000_000)
	p := q.q.Wire.Port
	q.toState(control.StateRST)
	require.Empty(t, p.Guards)
	_ = s
}
