package engine

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/recovery"
	"github.com/nicless/nicless/engine/internal/transport"
	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/packetring"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/packet"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// These tests are of what a peer, a carrier or a client of a link may do, and of what must not come
// of it.

// overCableOf lets the queue pairs of the test be connected over cables of this configuration.
func overCableOf(t *testing.T, cfg nic.PortConfig, f *fates) {
	overCable = func(r *rig) *cable { return r.newCable(cfg, f) }
	t.Cleanup(func() { overCable = nil })
}

// side returns the number of the port that p uses.
func (p *end) side() int {
	if p.q.Wire.Port == p.h.cable.ports[1].Port {
		return 1
	}
	return 0
}

// carried makes steps, and carries packets of some ends only. No timer runs out.
func (r *rig) carried(steps int, from ...*end) {
	for range steps {
		for _, p := range from {
			r.cable.carryFrom(p.side())
		}
		r.e.Step()
	}
}

// give puts a packet for q into its port, as its peer would send it: the headers after the BTH and
// the payload.
func (q *end) give(op packet.Opcode, psn uint32, more, payload []byte) {
	w := q.q.Wire
	c := q.h.cable
	side := q.side()
	head := make([]byte, op.Info().HeaderSize)
	packet.BTH{Opcode: op, PKey: object.DefaultPKey, DestQP: q.num, PSN: psn, AckReq: true}.Put((*[packet.BTHSize]byte)(head))
	copy(head[packet.BTHSize:], more)
	to := c.to[side]
	if to == nil {
		to = c.ports[1-side].Settings.Send
	}
	h, b, ok := to.Reserve(len(head), len(payload))
	require.True(q.h, ok)
	copy(h, head)
	copy(b, payload)
	to.Publish(w.From)
}

func readHeader(k *key, off, n int) []byte {
	var b [packet.RETHSize]byte
	packet.RETH{Addr: k.addr + uint64(off), RKey: k.key, Length: uint32(n)}.Put(&b)
	return b[:]
}

// A message on an unreliable connection can be longer than the window: it is not acknowledged.
func TestUnreliableBeyondTheWindow(t *testing.T) {
	overCableOf(t, nic.PortConfig{MTU: 256, Window: 1024}, nil)
	r := newRig(t, Config{})
	a, b := r.host("a"), r.host("b")
	p, q := pairOf(control.QPTypeUC, a, b)
	from, to := a.full(10_000, 1), b.full(10_000, 2)
	for range 3 {
		p.post(ctrl(wqe.OpRDMAWrite), to.raddr(0), from.data(0, 10_000))
		r.settle()
		p.good()
		r.same(from.mem, to.mem, "the message")
		clear(to.mem)
	}
	q.scq.none()
}

// A link that is down costs a long unreliable message its budget too.
func TestDownLinkTakesItsTime(t *testing.T) {
	overCableOf(t, nic.PortConfig{MTU: 256}, nil)
	r := newRig(t, Config{Slice: 1 << 12, Burst: 4})
	a, b := r.host("a"), r.host("b")
	p, _ := pairOf(control.QPTypeUC, a, b)
	from, to := a.full(200_000, 1), b.full(200_000, 2)
	p.h.rig.handle(p.q.Wire.Port).SetUp(false)
	p.post(ctrl(wqe.OpRDMAWrite), to.raddr(0), from.data(0, 200_000))
	steps := 0
	for ; len(p.scq.all()) == 0; steps++ {
		r.e.Step()
	}
	require.Greater(t, steps, 1)
}

// Answers that were requested again do not count as READs that the responder does not allow.
func TestAskedAgain(t *testing.T) {
	overCableOf(t, nic.PortConfig{MTU: 256}, &fates{})
	r, p, q := duo(t, Config{})
	from, to := p.h.full(256, 1), q.h.full(256, 7)
	psn := p.q.Wire.Out.PSN
	r.cable.block(q.side()) // the responder cannot answer
	read := func() { p.post(ctrl(wqe.OpRDMARead), to.raddr(0), from.data(0, 64)) }
	read()
	r.carried(4, p)
	for range 40 {
		q.give(packet.MakeOpcode(packet.RC, packet.ReadRequest), psn, readHeader(to, 0, 64), nil)
		r.carried(1)
	}
	require.Equal(t, object.MostAnswers, q.q.Wire.In.Due)
	for range 3 {
		read()
	}
	p.post(ctrl(wqe.OpRDMARead), to.raddr(64), from.data(64, 64)) // one more than are allowed waits
	r.carried(8, p)
	require.Equal(t, control.StateRTS, q.state())
	r.settle()
	for range 5 {
		w, _, ok := p.scq.next()
		require.True(t, ok)
		require.Equal(t, unharmed, w.Syndrome)
	}
	r.same(to.mem[64:128], from.mem[64:128], "what was read")
	require.Zero(t, q.q.Wire.In.Due)
	require.Zero(t, q.q.Wire.In.Fresh)
}

// More READs than the responder allows are refused.
func TestTooManyReads(t *testing.T) {
	overCableOf(t, nic.PortConfig{MTU: 256}, &fates{})
	r, p, q := duo(t, Config{})
	to := q.h.full(256, 7)
	r.cable.block(q.side())
	for i := range uint32(5) { // max_dest_rd_atomic is 4
		require.Equal(t, control.StateRTS, q.state())
		q.give(packet.MakeOpcode(packet.RC, packet.ReadRequest), p.q.Wire.Out.PSN+i, readHeader(to, 0, 64), nil)
		r.carried(2)
	}
	require.Equal(t, control.StateERR, q.state())
}

// The parts of a long READ are READs to the responder: no more of them are on the way than it allows.
func TestPartsOfAReadOneAfterAnother(t *testing.T) {
	overCableOf(t, nic.PortConfig{MTU: 256, Window: 1 << 20}, &fates{})
	r, p, q := duo(t, Config{})
	q.q.Attr.MaxDestRdAtomic = 1
	from, to := p.h.full(100_000, 1), q.h.full(100_000, 7)
	out := &p.q.Wire.Out
	out.Window = recovery.Least
	p.post(ctrl(wqe.OpRDMARead), to.raddr(0), from.data(0, 100_000))
	r.carried(1)
	out.Window = out.Full
	for range 3000 {
		r.carried(2, p)
		require.LessOrEqual(t, q.q.Wire.In.Due, 1)
		r.cable.carryFrom(q.side())
		if out.First == out.Last {
			break
		}
	}
	r.settle()
	p.good()
	r.same(to.mem, from.mem, "what was read")
}

// A queue pair that is reset while an acknowledgement is due, again and again, leaves no state behind.
func TestAcknowledgementsOfResets(t *testing.T) {
	overCableOf(t, nic.PortConfig{MTU: 256}, &fates{})
	r, p, q := duo(t, Config{})
	to := q.h.full(256, 7)
	r.cable.block(q.side())
	for range 100 {
		q.give(packet.MakeOpcode(packet.RC, packet.WriteOnly), firstPSN, readHeader(to, 0, 8), make([]byte, 8))
		r.carried(2)
		require.True(t, q.q.Wire.In.ACKDue)
		q.toState(control.StateRST)
		q.up(p)
	}
	r.carried(2)
	require.LessOrEqual(t, len(q.q.Wire.Port.ACKs), 1)
}

// Messages for which a link has no room end, if it stays so.
func TestLinkThatTakesNothing(t *testing.T) {
	overCableOf(t, nic.PortConfig{MTU: 256}, &fates{})
	r, p, q := duo(t, Config{})
	ev := p.h.events()
	from, to := p.h.full(256, 1), q.h.full(256, 7)
	r.cable.block(p.side())
	first := p.post(ctrl(wqe.OpRDMAWrite), to.raddr(0), from.data(0, 64))
	second := p.post(ctrl(wqe.OpSend), from.data(0, 64))
	for range 10 {
		r.carried(4)
		r.cable.patient = nil
		r.cable.timeOut()
	}
	list := p.scq.all()
	require.Len(t, list, 2)
	r.failed(list[0], cqe.TransportRetry, first)
	r.failed(list[1], cqe.Flush, second)
	for e := ev(); ; e = ev() {
		require.NotNil(t, e, "explained")
		if strings.Contains(e.Text, "its ring is full") {
			break
		}
	}
}

// A queue in SQD reports once that it has drained, whatever it does.
func TestDrainedOnce(t *testing.T) {
	overCableOf(t, nic.PortConfig{MTU: 256}, &fates{})
	r, p, q := duo(t, Config{})
	ev := p.h.events()
	from, to := p.h.full(256, 1), q.h.full(256, 7)
	toSQD := func() { p.toState(control.StateSQD) }
	p.post(ctrl(wqe.OpRDMAWrite), to.raddr(0), from.data(0, 64))
	r.carried(2)
	toSQD()
	r.carried(2)
	require.Empty(t, happened(ev), "its message is on the way")
	p.toState(control.StateRTS)
	r.settle()
	p.good()
	toSQD()
	r.settle()
	require.Equal(t, []happening{{control.EventDrained, p.num}}, happened(ev))
}

// A client is notified once that its queue pair has received a request of its peer.
func TestEstablishedOnce(t *testing.T) {
	overCableOf(t, nic.PortConfig{MTU: 256}, nil)
	r := newRig(t, Config{})
	a, b := r.host("a"), r.host("b")
	ca, cb := a.cq(control.CQ{LogSize: 4}), b.cq(control.CQ{LogSize: 4})
	p, q := a.qp(control.QP{}, ca, ca), b.qp(control.QP{}, cb, cb)
	p.up(q)
	q.modify(q.toInit())
	q.overLink(p)
	q.modify(q.toRTR(p.num))
	ev := b.events()
	to := b.full(256, 1)
	for range 8 {
		p.post(ctrl(wqe.OpRDMAWrite), to.raddr(0), []byte("data"))
	}
	r.settle()
	require.Equal(t, []happening{{control.EventEstablished, q.num}}, happened(ev))
}

// PSNs begin anew after 2^24 packets.
func TestPSNsBeginAnew(t *testing.T) {
	defer func() { firstPSN = 7 }()
	list := []uint32{0xfffffe, 0xfffff0, 0x7ffffe, 0}
	for _, psn := range list[:many(len(list))] {
		firstPSN = psn
		for name, test := range testsOverLinks {
			overCable = func(r *rig) *cable { return r.newCable(nic.PortConfig{MTU: 256}, nil) }
			t.Run(name, test)
			if name != "UnreliableConnection" && name != "InlineMessages" {
				f := &fates{seed: uint64(firstPSN), lose: 0.05, repeat: 0.05, reorder: 0.05}
				overCable = func(r *rig) *cable { return r.newCable(nic.PortConfig{MTU: 256, Window: 8 << 10}, f) }
				t.Run(name+", bad cable", test)
			}
			overCable = nil
		}
	}
}

// An ACK whose PSN begins anew acknowledges the packets before, on both paths.
func TestPSNsOfACKs(t *testing.T) {
	defer func() { firstPSN = 7 }()
	firstPSN = 0xfffffe
	for _, slow := range []bool{false, true} {
		overCableOf(t, nic.PortConfig{MTU: 256}, &fates{})
		r, p, q := duo(t, Config{})
		r.e.Hooks.NoFastPath = slow
		from, to := p.h.full(64, 1), q.h.full(64, 7)
		for i := range 4 {
			p.post(ctrl(wqe.OpRDMAWrite), to.raddr(8*i), from.data(8*i, 8))
		}
		r.carried(4)
		require.Equal(t, uint32(2), p.q.Wire.Out.PSN)
		r.cable.carryFrom(p.side())
		r.carried(4)
		r.carried(4, q)
		require.Len(t, p.scq.all(), 4)
		r.same(from.mem[:32], to.mem[:32], "what was written")
	}
}

// A responder distinguishes packets before and after the one that it expects, where PSNs begin
// anew.
func TestPSNsOfRequests(t *testing.T) {
	defer func() { firstPSN = 7 }()
	firstPSN = 0xffffff
	overCableOf(t, nic.PortConfig{MTU: 256}, &fates{})
	r, _, q := duo(t, Config{})
	to := q.h.full(64, 7)
	stats := &q.q.Wire.Port.Stats
	give := func(psn uint32) {
		q.give(rc(packet.WriteOnly), psn, readHeader(to, 0, 8), make([]byte, 8))
		r.carried(1)
	}
	give(1)
	require.Equal(t, uint64(1), stats.Gaps)
	give(0xffffff)
	give(0)
	require.Equal(t, uint32(1), q.q.Wire.In.PSN)
	require.Zero(t, stats.Duplicates)
	give(0xffffff)
	require.Equal(t, uint64(1), stats.Duplicates)
	require.Equal(t, uint64(1), stats.Gaps)
	require.Zero(t, stats.OutOfWindow)
	require.Equal(t, uint32(1), q.q.Wire.In.PSN)
}

// Atomics are executed once, whatever a cable does.
func TestAtomicsOnce(t *testing.T) {
	const each, seeds = 100, 24
	for seed := range uint64(seeds) {
		overCable = func(r *rig) *cable {
			return r.newCable(nic.PortConfig{MTU: 256, Window: 4 << 10}, &fates{seed: seed, lose: 0.1, repeat: 0.1, reorder: 0.1})
		}
		r, p, q := duo(t, Config{})
		overCable = nil
		from, to := p.h.full(256, 1), q.h.full(16, 0)
		clear(to.mem)
		seen := map[uint64]bool{}
		for range each / 4 {
			for i := range 4 {
				if i%2 == 0 {
					p.post(ctrl(wqe.OpAtomicFA), to.raddr(8), wqe.Atomic{SwapAdd: 1}, from.data(8*i, 8))
				} else {
					p.post(ctrl(wqe.OpAtomicMaskedFA), to.raddr(8), wqe.MaskedFA8{Add: 1, Boundary: 1 << 31},
						from.data(8*i, 8))
				}
				p.post(ctrl(wqe.OpRDMAWrite), to.raddr(0), from.data(64, 8))
			}
			r.settle()
			for i, w := range p.scq.all() {
				require.Equal(t, unharmed, w.Syndrome, "seed %d, %d", seed, i)
			}
			for i := range 4 {
				old := binary.LittleEndian.Uint64(from.mem[8*i:])
				require.False(t, seen[old], "seed %d: %d twice", seed, old)
				seen[old] = true
			}
		}
		require.Equal(t, uint64(each), binary.LittleEndian.Uint64(to.mem[8:]), "seed %d", seed)
		for i := range uint64(each) {
			require.True(t, seen[i])
		}
	}
}

// Memory of a link's rings loses its pages while a packet is written. The link is given up, and
// no state is left of the packet's work request.
func TestRingLosesItsPages(t *testing.T) {
	if shm.RaceEnabled {
		t.Skip("the rings of a cable are then on the heap")
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	var files []string
	cableMemory = func(size int) (*shm.Region, error) {
		size = (size + 4095) &^ 4095
		f, err := os.Create(filepath.Join(t.TempDir(), "ring"))
		require.NoError(t, err)
		require.NoError(t, f.Truncate(int64(size)))
		files = append(files, f.Name())
		return shm.Attach(f, true)
	}
	defer func() { cableMemory = shm.Heap }()
	overCableOf(t, nic.PortConfig{MTU: 4096}, nil)
	r, p, q := duo(t, Config{})
	overCable = nil
	cable := r.cable
	r.cable = nil
	s, u := pair(p.h, q.h) // within the engine
	r.cable = cable
	from, to := p.h.full(20_000, 1), q.h.full(20_000, 7)
	for _, name := range files {
		require.NoError(t, os.Truncate(name, 4096)) // the slots stay, the data go
	}
	lost := p.post(ctrl(wqe.OpRDMAWrite), to.raddr(0), from.data(0, 20_000))
	for range 4 {
		r.e.Steps(true)
	}
	require.True(t, p.q.Wire.Port.Dead)
	require.Nil(t, p.q.Wire.Out.Job)
	for range 20 { // uses the scratch job
		u.recv(to.data(100, 3000), to.data(4000, 16_000))
		s.post(ctrl(wqe.OpSend), from.data(0, 6000), from.data(6000, 6000))
		r.e.Steps(true)
		s.good()
	}
	r.settle()
	list := p.scq.all()
	require.Len(t, list, 1)
	r.failed(list[0], cqe.TransportRetry, lost)
}

// A datagram for queue pair 1 is put into a ring without pages by a goroutine of the carrier's user. The
// link is given up.
func TestManagementIntoALostRing(t *testing.T) {
	if shm.RaceEnabled {
		t.Skip("the race detector does not watch mapped memory")
	}
	f, err := os.Create(filepath.Join(t.TempDir(), "ring"))
	require.NoError(t, err)
	g := packetring.Geometry{Slots: 16, Data: 16 << 10}
	require.NoError(t, f.Truncate(int64(g.Size()+4095)&^4095))
	mem, err := shm.Attach(f, true)
	require.NoError(t, err)
	send, err := packetring.NewProducer(mem.Bytes(), g, nil)
	require.NoError(t, err)
	receive, err := packetring.NewConsumer(mem.Bytes(), g, nil)
	require.NoError(t, err)
	r := newRig(t, Config{})
	failed := make(chan error, 1)
	p, err := r.d.nic().AddPort(nic.PortConfig{MTU: 256, Send: send, Receive: receive, Failed: func(err error) { failed <- err }})
	require.NoError(t, err)
	p.SetUp(true)
	require.NoError(t, p.SendManagement(0, make([]byte, 20), nil))
	require.NoError(t, f.Truncate(0))
	require.ErrorIs(t, p.SendManagement(0, make([]byte, 20), nil), transport.ErrPortFault)
	require.Error(t, <-failed)
	require.ErrorIs(t, p.SendManagement(0, make([]byte, 20), nil), transport.ErrPortDown)
	require.NoError(t, p.Close())
}

// A WQE whose second block has no memory, checked while earlier messages are on the way, does not keep
// the mistakes of others from showing.
func TestFaultWhileJudgingAgain(t *testing.T) {
	if shm.RaceEnabled {
		t.Skip("the race detector does not watch mapped memory")
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	overCableOf(t, nic.PortConfig{MTU: 256}, &fates{})
	r := newRig(t, Config{})
	a, b := r.host("a"), r.host("b")
	mem, base, shrink := a.trusted(8192)
	ca, cb := a.cq(control.CQ{LogSize: 8}), b.cq(control.CQ{LogSize: 8})
	_, rec := a.take(8)
	var ans control.QPN
	a.call(control.OpCreateQP, &control.QP{PDN: a.pd, SendCQN: ca.num, RecvCQN: ca.num, LogSQ: 7, NoReceive: 1, SQ: base, DBRec: rec, UserIndex: uidx}, &ans)
	p := &end{h: a, num: ans.QPN, sq: mem.Bytes(), rec: a.mem.Bytes()[rec-a.base:][:8], scq: ca, rcq: ca, q: r.e.QPs[ans.QPN]}
	q := b.qp(control.QP{}, cb, cb)
	p.up(q)
	q.up(p)
	s, _ := pair(a, b)
	from, to := a.full(256, 1), b.full(256, 2)
	for range 62 {
		p.post(silent(wqe.OpNop))
	}
	r.carried(20)
	p.post(ctrl(wqe.OpRDMAWrite), to.raddr(0), from.data(0, 8))
	r.e.Steps(true)
	require.Equal(t, uint64(63), p.q.SQ.Done)
	p.post(ctrl(wqe.OpRDMAWrite), to.raddr(0), from.data(0, 8), from.data(8, 8), from.data(16, 8))
	shrink(4096)
	r.e.Steps(true)
	require.False(t, r.e.Trial)
	require.Equal(t, control.StateERR, p.q.Attr.State)
	bad := s.post(ctrl(wqe.OpRDMAWrite), wqe.Raddr{}, wqe.Data{ByteCount: 8, LKey: 5})
	r.settle()
	r.failed(s.scq.one(), cqe.LocalProtection, bad)
}

// A ring in which a full packet has no place at all times is refused.
func TestPortNeedsRoom(t *testing.T) {
	r := newRig(t, Config{})
	g := packetring.Geometry{Slots: 16, Data: 8192}
	mem, err := shm.Heap(g.Size())
	require.NoError(t, err)
	send, err := packetring.NewProducer(mem.Bytes(), g, nil)
	require.NoError(t, err)
	receive, err := packetring.NewConsumer(mem.Bytes(), g, nil)
	require.NoError(t, err)
	for mtu, ok := range map[int]bool{4096: false, 4056: true, 4060: false, 256: true, 252: false, 258: false, 65536: false} {
		p, err := r.d.nic().AddPort(nic.PortConfig{Send: send, Receive: receive, MTU: mtu})
		require.Equal(t, ok, err == nil, "MTU %d: %v", mtu, err)
		if err == nil {
			require.NoError(t, p.Close())
		} else {
			require.ErrorIs(t, err, transport.ErrPortMTU)
		}
	}
}

// The number of queue pairs that tie a client to the shard of the ports follows their changes.
func TestLinkedClients(t *testing.T) {
	overCableOf(t, nic.PortConfig{MTU: 256}, nil)
	r := newRig(t, Config{Cores: []int{0, 1}})
	a, b, c := r.host("a"), r.host("b"), r.host("c")
	domain := b.openXRCD()
	require.NoError(t, c.c.JoinXRCD(domain))
	cq := a.cq(control.CQ{LogSize: 4})
	p := a.qp(control.QP{Type: control.QPTypeXRC, NoReceive: 1}, cq, cq)
	target := b.target(domain)
	c.openTarget(domain, target)
	p.up(target)
	target.up(p)
	require.Equal(t, []int{1, 1, 0}, []int{a.c.Linked, b.c.Linked, c.c.Linked})
	require.NoError(t, b.c.Close())
	require.Equal(t, []int{1, 0, 1}, []int{a.c.Linked, b.c.Linked, c.c.Linked})

	first, second := r.d.runner.Shards[0], r.d.runner.Shards[1]
	d := r.host("d")
	r.e.Do(func() { r.d.runner.Move(d.c.Client, second) })
	other := d.openXRCD()
	require.NoError(t, a.c.JoinXRCD(other))
	require.Same(t, first, a.c.Shard, "its queue pair is on a wire")
	require.Same(t, first, d.c.Shard)

	p.toState(control.StateRST)
	require.NoError(t, c.c.Close())
	require.Equal(t, []int{0, 0}, []int{a.c.Linked, c.c.Linked})
	require.Zero(t, r.cable.ports[0].Users+r.cable.ports[1].Users)
}

// A datagram whose completion finds no room gives its shared receive back.
func TestDatagramWithoutRoom(t *testing.T) {
	r := newRig(t, Config{})
	c := r.newCable(nic.PortConfig{MTU: 256}, nil)
	h := r.host("h")
	require.NoError(t, h.c.SetSources([]nic.Source{{}}))
	s := h.srq(control.SRQ{})
	cq := h.cq(control.CQ{LogSize: 1})
	cq.lazy = true
	u := s.on(control.QPTypeUD, cq)
	u.up(u)
	k := h.full(300, 1)
	for i := range uint16(4) {
		s.put(i, k.data(0, 300))
	}
	s.post(4)
	op := packet.MakeOpcode(packet.UD, packet.SendOnly)
	for range 3 {
		head, payload, ok := c.ports[1].Settings.Send.Reserve(op.Info().HeaderSize, object.GRHSize+4)
		require.True(t, ok)
		packet.BTH{Opcode: op, PKey: object.DefaultPKey, DestQP: u.num}.Put((*[packet.BTHSize]byte)(head))
		packet.DETH{QKey: qkey, SrcQP: 9}.Put((*[packet.DETHSize]byte)(head[packet.BTHSize:]))
		clear(payload)
		c.ports[1].Settings.Send.Publish(0)
		r.e.Step()
	}
	require.Equal(t, control.StateERR, u.state())
	require.Equal(t, uint16(2), s.s.Ready(), "two were used, and one was given back")
}

// An engine that sleeps while a ring has no room for what it is to send goes on when there is room,
// though it is not woken.
func TestRoomEndsASleep(t *testing.T) {
	overCableOf(t, nic.PortConfig{MTU: 256, Wakes: true}, &fates{})
	r, p, q := duo(t, Config{})
	r.e.Hooks.SleepBound, r.e.Hooks.Uncontended = never, true
	rouse := p.h.wakes()
	q.h.wakes()
	from, to := p.h.full(256, 1), q.h.full(256, 7)
	side := p.side()
	r.cable.block(side)
	r.start()
	var first uint64
	r.until("asleep", func() bool { first = p.h.slept(); return first != 0 })
	p.post(ctrl(wqe.OpRDMAWrite), to.raddr(0), from.data(0, 64))
	rouse()
	r.until("asleep again, with the packet", func() bool { now := p.h.slept(); return now != 0 && now != first })
	var k packetring.Packet
	r.until("the packet is sent", func() bool {
		ok, err := r.cable.from[side].Next(&k)
		require.NoError(t, err)
		if !ok {
			r.cable.from[side].Free()
		}
		return ok && len(k.Payload) == 64
	})
}

// A link that is given up by the thread of one shard does not touch what other shards read.
func TestLinkGivenUpAmongShards(t *testing.T) {
	r := newShards(t, Config{Cores: []int{0, 1, 2}})
	r.host("a")
	var cables []*cable
	gone := make(chan struct{}, 16)
	for range 8 {
		cables = append(cables, r.newCable(nic.PortConfig{MTU: 256, Wakes: true, Failed: func(error) { gone <- struct{}{} }}, nil))
	}
	r.cable = nil
	r.start()
	for _, c := range cables {
		// Headers of 200 bytes are longer than a slot.
		shm.BlockAt(c.ports[0].Settings.Receive.Memory()[0], 0).PublishFirst(1<<32 | 200<<16)
		c.ports[0].Arrived()
		await.Receive(t, "the link is given up", gone)
		require.False(t, c.ports[0].Stats().Up)
		require.True(t, c.ports[1].Stats().Up)
	}
}
