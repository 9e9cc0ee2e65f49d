package engine

import (
	"bytes"
	cryptorand "crypto/rand"
	"io"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/completion"
	"github.com/nicless/nicless/engine/internal/execution"
	"github.com/nicless/nicless/engine/internal/loop"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/request"
	"github.com/nicless/nicless/engine/internal/transport"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/trace"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// A rig is an engine that the test steps.
type rig struct {
	testing.TB
	d    *Engine
	e    *loop.Loop // its first thread
	pick func() int // chooses the shard that is stepped next; nil: the shards take turns
	turn int        // counts steps, if the shards take turns

	rings []*trace.Ring // if everything is watched: what each shard writes

	cable *cable // if queue pairs are connected over a link

	atRest func() bool // what else settle does when there is nothing to do: true: there is again
}

func newRig(t testing.TB, cfg Config) *rig {
	t.Helper()
	return newRigOf(t, cfg, cryptorand.Reader)
}

func newRigOf(t testing.TB, cfg Config, random io.Reader) *rig {
	t.Helper()
	_ = request.StartHelpers() // before a test counts descriptors
	e, err := newEngine(cfg, random)
	require.NoError(t, err)
	e.runner.Hooks.SendsNow = true         // a test's thread can lose its core in the middle of a send
	e.runner.Hooks.StopBound = time.Minute // and in the middle of a stop
	return &rig{TB: t, d: e, e: e.runner.Loops[0]}
}

// newRepeatable returns a rig whose engine does the same whenever it is given the same: its clock is
// held, and its keys and numbers are always the same.
func newRepeatable(t testing.TB, cfg Config) *rig {
	t.Helper()
	r := newRigOf(t, cfg, rand.NewChaCha8([32]byte{1}))
	holdClock(r.e)
	return r
}

// holdClock holds the clock of the shard where it is, so that no timer runs out, nothing is suspected for
// long, and no explanation is held back for a while only. So what the shard does depends on its input alone,
// however busy the machine is. A test that needs time to pass adds to hooks.HeldClock.
func holdClock(sh *loop.Loop) { sh.Hooks.HeldClock = 1 << 40 }

// handle returns a port as its carrier sees it.
func (r *rig) handle(p *object.Port) *transport.PortHandle {
	return &transport.PortHandle{Port: p, Server: &r.d.runner.Loops[0].PortServer}
}

// settle steps until there is nothing to do. It makes enough steps to poll everything, also
// what is polled rarely.
func (r *rig) settle() {
	r.Helper()
	idle := 0
	if r.cable != nil {
		r.cable.rounds = 0
	}
	const most = 100_000
	for range most {
		worked := false
		for _, w := range r.e.DMA.Workers {
			worked = w.Work() || worked
		}
		if r.step() != 0 || worked {
			idle = 0
		} else if r.cable != nil && idle >= completion.ArmLapSteps && r.cable.timeOut() {
			idle = 0
		} else if r.atRest != nil && r.atRest() {
			idle = 0
		} else {
			idle++
			if idle > completion.ArmLapSteps*(2*len(r.d.runner.Loops)-1) {
				r.e.Journal.Flush(time.Minute)
				return
			}
		}
	}
	r.Fatalf("no answer: the engine has not come to rest in %d steps", most)
}

// step steps one shard: the shard that pick chooses, or the next in turn.
func (r *rig) step() int {
	carried := 0
	if r.cable != nil {
		carried = r.cable.carry()
	}
	if r.pick != nil {
		return carried + r.stepShard(r.pick())
	}
	r.turn++
	return carried + r.stepShard(r.turn%len(r.d.runner.Loops))
}

// stepShard steps one shard. No thread runs the engine, so functions that other goroutines give to Do,
// as carriers do, run there. The lock keeps them from running during a step.
func (r *rig) stepShard(n int) int {
	r.e.Mail.Mu.Lock()
	defer r.e.Mail.Mu.Unlock()
	return r.d.runner.Loops[n].Step()
}

// stalled returns the stalled queues of all shards.
func (r *rig) stalled() (list []*object.QP) {
	for _, l := range r.d.runner.Loops {
		list = append(list, stalledQueues(l)...)
	}
	return list
}

// stalledQueues returns the stalled queues of a shard.
func stalledQueues(sh *loop.Loop) (list []*object.QP) {
	for _, c := range sh.Everyone.Clients {
		list = append(list, c.Sched.Stalled...)
	}
	return list
}

// armable returns the CQs of a shard that can be armed.
func armable(sh *loop.Loop) (list []*object.CQ) {
	for _, c := range sh.Everyone.Clients {
		list = append(list, c.Arms.CQs...)
	}
	return list
}

// visitEverything looks until a pass has ended or something is found. It returns how much there was
// to do, and in how many cycles the next timer runs out.
func visitEverything(sh *loop.Loop, long bool) (done int, next uint64) {
	sh.BeginPass()
	for {
		if f := sh.Look(loop.LookPolls, long); f.Done > 0 || f.Ended {
			return f.Done, f.Next
		}
	}
}

// workers gives the engine workers without threads. A worker does one task each time that
// settle or a test calls its method work. Even very short transfers are offloaded.
func (r *rig) workers(n int) {
	for range n {
		r.e.DMA.Workers = append(r.e.DMA.Workers, &execution.Worker{})
	}
	r.e.DMA.Sizes = execution.OffloadSizes{Transfer: 64, Piece: 16}
}

// expire lets the timers of all stalled queues run out, until no queue is stalled.
func (r *rig) expire() {
	r.Helper()
	for range 1000 {
		r.settle()
		waiting := r.stalled()
		if len(waiting) == 0 {
			return
		}
		for _, q := range waiting {
			q.Stall.Deadline = 0
		}
	}
	r.Fatal("somebody waits for ever")
}

// underWay returns the number of unfinished long transfers.
func underWay(sh *loop.Loop) (n int) {
	for _, q := range sh.Running {
		if q.Job != nil {
			n++
		}
	}
	return n
}

// A host is a client with one region. The region's memory is on the heap, where the race
// detector sees accesses. The client names the region by an address that differs from the
// device's address of it.
type host struct {
	*rig
	c      *request.Client
	mem    *shm.Region
	region uint32
	base   uint64
	used   uint64
	pd     uint32

	pollers    []*poller // of all its CQs
	unreasoned bool      // completions need no reason: the test makes queue pairs stop without one
}

// hostSize is the size of a host's region, which is cleared for each host. Tests with long messages or
// many queue pairs call roomy before they make their hosts.
const (
	hostSize  = 1 << 20
	roomySize = 4 << 20
)

// regionSize is the size of the region of the next host.
var regionSize = hostSize

// roomy gives the hosts of a test more memory.
func roomy(t testing.TB) {
	regionSize = roomySize
	t.Cleanup(func() { regionSize = hostSize })
}

func (r *rig) host(name string) *host {
	r.Helper()
	h := &host{rig: r, base: 0x7000_0000_0000}
	var err error
	h.c, err = r.d.nic().NewLocal(name)
	require.NoError(r, err)
	r.Cleanup(func() { _ = h.c.Close() })
	size := regionSize
	if _, ok := r.TB.(*testing.B); ok {
		size = roomySize
	}
	if *watched {
		r.watchAll(h)
	}
	h.mem, err = shm.Heap(size)
	require.NoError(r, err)
	h.region = h.addRegion(h.base, h.mem)
	h.pd = h.allocPD()
	if keysAway {
		h.share()
	}
	return h
}

// try makes a control request in the form in which it comes from a socket.
func (h *host) try(op control.Op, req, ans control.Message, mem *shm.Region) error {
	payload := control.Append(nil, op, 0, 1, req)[control.HeaderSize:]
	m, r, err := h.c.Request(op, payload, object.RequestMemory{Region: mem})
	if err != nil {
		return err
	}
	if r.Events != nil {
		h.Cleanup(func() { _ = r.Events.Close() })
	}
	return control.Parse(op, control.Append(nil, op, 0, 1, m)[control.HeaderSize:], ans)
}

func (h *host) call(op control.Op, req, ans control.Message) {
	h.Helper()
	require.NoError(h, h.try(op, req, ans, nil))
}

func (h *host) addRegion(base uint64, mem *shm.Region) uint32 {
	h.Helper()
	id, err := h.c.AddRegion(base, mem)
	require.NoError(h, err)
	return id
}

func (h *host) allocPD() uint32 {
	h.Helper()
	var pd control.PD
	h.call(control.OpAllocPD, &control.Empty{}, &pd)
	return pd.PDN
}

// take hands out memory of the host's region. Its address is a multiple of 128 bytes.
func (h *host) take(n int) (mem []byte, addr uint64) {
	h.Helper()
	at := h.used
	h.used += uint64(n+127) &^ 127
	require.LessOrEqual(h, h.used, uint64(h.mem.Size()), "the host has no memory left")
	return h.mem.Bytes()[at : at+uint64(n) : at+uint64(n)], h.base + at
}

// A key is registered memory, with bytes before and after it that must not be written.
type key struct {
	h    *host
	mem  []byte
	addr uint64
	key  uint32
	// fence is mem together with the bytes before and after it.
	fence []byte
}

const (
	canary    = 0xa5
	fenceSize = 64
)

func (h *host) key(n int, access uint32) *key {
	h.Helper()
	take := h.take
	if keysAway {
		take = h.private
	}
	return h.keyOf(take, n, access)
}

func (h *host) keyOf(take func(int) ([]byte, uint64), n int, access uint32) *key {
	h.Helper()
	mem, addr := take(n + 2*fenceSize)
	for i := range mem {
		mem[i] = canary
	}
	k := &key{h: h, mem: mem[fenceSize : fenceSize+n], addr: addr + fenceSize, fence: mem}
	clear(k.mem)
	k.key = h.reg(h.pd, k.addr, n, access)
	h.Cleanup(k.intact)
	return k
}

// full makes a key with all rights. Its memory is filled with a pattern that depends on seed.
func (h *host) full(n int, seed byte) *key {
	h.Helper()
	k := h.key(n, control.AccessAll&^control.AccessZeroBased)
	for i := range k.mem {
		k.mem[i] = seed + byte(i) + byte(i>>8)
	}
	return k
}

func (h *host) reg(pd uint32, addr uint64, n int, access uint32) uint32 {
	h.Helper()
	var ans control.Key
	h.call(control.OpRegMR, &control.MR{PDN: pd, Access: access, Addr: addr, Length: uint64(n), IOVA: addr}, &ans)
	return ans.Key
}

// intact fails the test when a byte around the key's memory has changed.
func (k *key) intact() {
	k.h.Helper()
	n := len(k.mem)
	for i, b := range k.fence {
		if (i < fenceSize || i >= fenceSize+n) && b != canary {
			k.h.Errorf("byte %d of memory of %d was written", i-fenceSize, n)
			return
		}
	}
}

// data returns a data segment for the n bytes of the key that begin at the offset off.
func (k *key) data(off, n int) wqe.Data {
	return wqe.Data{ByteCount: uint32(n), LKey: k.key, Addr: k.addr + uint64(off)}
}

func (k *key) raddr(off int) wqe.Raddr { return wqe.Raddr{Addr: k.addr + uint64(off), RKey: k.key} }

// A poller reads a completion queue as clients do.
type poller struct {
	h     *host
	num   uint32
	ring  []byte
	rec   []byte
	log   uint
	entry uint64
	ci    uint64
	lazy  bool // does not update the consumer index

	compressed bool
	format     cqe.MiniFormat
	sessions   []int // lengths of the sessions that were expanded
}

// cq makes a completion queue from m. It fills in the fields of m that say where the queue is.
func (h *host) cq(m control.CQ) *poller {
	h.Helper()
	if m.LogCQE == 0 {
		m.LogCQE = 6
	}
	if cqsCompressed && m.LogCQE == 6 && m.Flags&control.CQCollapsed == 0 {
		m.Flags |= control.CQCompressed
		m.MiniFormat = cqsFormat
	}
	c := &poller{h: h, log: uint(m.LogSize), entry: 1 << m.LogCQE, compressed: m.Flags&control.CQCompressed != 0, format: cqe.MiniFormat(m.MiniFormat)}
	h.pollers = append(h.pollers, c)
	c.ring, m.Buf = h.take(1 << (m.LogSize + m.LogCQE))
	c.rec, m.DBRec = h.take(8)
	for i := range c.ring {
		c.ring[i] = 0xf0
	}
	var ans control.CQN
	h.call(control.OpCreateCQ, &m, &ans)
	c.num = ans.CQN
	return c
}

// block returns the memory of the CQE number i.
func (c *poller) block(i uint64) *shm.Block {
	return shm.BlockAt(c.ring, (i&(1<<c.log-1))*c.entry+c.entry-cqe.Size)
}

// next returns the next completion, if there is one.
func (c *poller) next() (w cqe.WC, own cqe.OpOwn, ok bool) {
	b := c.block(c.ci)
	own = cqe.OpOwn(b.ObserveTail())
	if !cqe.Valid(own, c.ci, c.log) {
		return w, own, false
	}
	if c.compressed {
		c.expandSession(c.ci)
		own = cqe.OpOwn(b.ObserveTail())
	}
	w.Parse((*[cqe.Size]byte)(b))
	c.h.explained(w)
	c.ci++
	if !c.lazy {
		shm.BE32At(c.rec, 0).Publish(uint32(c.ci) & 0xffffff)
	}
	return w, own, true
}

// all returns every completion that has been written and not been consumed.
func (c *poller) all() (list []cqe.WC) {
	for {
		w, _, ok := c.next()
		if !ok {
			return list
		}
		list = append(list, w)
	}
}

// one requires that there is exactly one completion, and returns it.
func (c *poller) one() cqe.WC {
	c.h.Helper()
	list := c.all()
	require.Len(c.h, list, 1)
	return list[0]
}

func (c *poller) none() {
	c.h.Helper()
	require.Empty(c.h, c.all())
}

// An end is a queue pair with its rings, which the test fills.
type end struct {
	h        *host
	num      uint32
	sq, rq   []byte
	rec      []byte
	stride   int
	sent     uint16 // blocks written
	half     uint8  // the half of its BlueFlame register that is written next
	received uint16 // receives written
	scq, rcq *poller
	q        *object.QP // the device's view of the queue pair
}

const uidx = 0x51

// qp makes a queue pair. Its rings have 16 entries unless m says otherwise.
func (h *host) qp(m control.QP, scq, rcq *poller) *end {
	h.Helper()
	if m.LogSQ == 0 && m.NoSend == 0 {
		m.LogSQ = 4
	}
	if m.NoReceive == 0 {
		if m.LogRQ == 0 {
			m.LogRQ = 4
		}
		if m.LogRQStride == 0 {
			m.LogRQStride = 6
		}
	}
	if m.PDN == 0 {
		m.PDN = h.pd
	}
	p := &end{h: h, scq: scq, rcq: rcq, stride: 1 << m.LogRQStride}
	if m.NoSend == 0 {
		p.sq, m.SQ = h.take(64 << m.LogSQ)
	}
	if m.NoReceive == 0 {
		p.rq, m.RQ = h.take(1 << (m.LogRQ + m.LogRQStride))
	}
	p.rec, m.DBRec = h.take(8)
	if scq != nil {
		m.SendCQN = scq.num
	}
	if rcq != nil {
		m.RecvCQN = rcq.num
	}
	if m.UserIndex == 0 {
		m.UserIndex = uidx
	}
	var ans control.QPN
	h.call(control.OpCreateQP, &m, &ans)
	p.num = ans.QPN
	p.q = h.e.QPs[p.num]
	return p
}

// firstPSN is the first PSN of queue pairs.
var firstPSN = uint32(7)

// toInit and the functions below return the attributes of transitions, which tests may change.
// Timers are so long that they run out only when a test makes them run out.
func (p *end) toInit() control.QPAttr {
	a := control.QPAttr{
		QPN: p.num, Mask: control.AttrState | control.AttrAccess | control.AttrPKeyIndex | control.AttrPort,
		State: control.StateINIT, Access: control.AccessAll &^ control.AccessZeroBased, Port: 1,
	}
	switch p.q.Transport {
	case control.QPTypeUD:
		a.Mask = control.AttrState | control.AttrQKey | control.AttrPKeyIndex | control.AttrPort
		a.QKey, a.Access = qkey, 0
	case control.QPTypeDCI:
		a.Mask, a.Access = control.AttrState|control.AttrPKeyIndex|control.AttrPort, 0
	}
	return a
}

func (p *end) toRTR(dest uint32) control.QPAttr {
	a := control.QPAttr{
		QPN: p.num, Mask: control.AttrState | control.AttrAV | control.AttrPathMTU | control.AttrDestQPN |
			control.AttrRQPSN | control.AttrMaxDestRdAtom | control.AttrMinRNRTimer,
		State: control.StateRTR, GUID: p.h.e.GUID, PathMTU: 5, DestQPN: dest, RQPSN: firstPSN, MaxDestRdAtomic: 4, MinRNRTimer: 30,
	}
	switch p.q.Transport {
	case control.QPTypeUC:
		a.Mask &^= control.AttrMaxDestRdAtom | control.AttrMinRNRTimer
	case control.QPTypeUD:
		a.Mask = control.AttrState
	case control.QPTypeDCI:
		a.Mask = control.AttrState | control.AttrPathMTU
	case control.QPTypeDCT:
		a.Mask = control.AttrState | control.AttrPathMTU | control.AttrMinRNRTimer
	case control.QPTypeXRC:
		if p.q.Target() == nil {
			a.Mask &^= control.AttrMaxDestRdAtom | control.AttrMinRNRTimer
		}
	}
	return a
}

func (p *end) toRTS() control.QPAttr {
	a := control.QPAttr{
		QPN: p.num, Mask: control.AttrState | control.AttrTimeout | control.AttrRetryCount | control.AttrRNRRetry |
			control.AttrSQPSN | control.AttrMaxRdAtomic,
		State: control.StateRTS, Timeout: 31, RetryCount: 2, RNRRetry: 7, SQPSN: firstPSN, MaxRdAtomic: 4,
	}
	switch {
	case p.q.Target() != nil:
		a.Mask = control.AttrState | control.AttrSQPSN | control.AttrTimeout
	case !p.q.Reliable():
		a.Mask = control.AttrState | control.AttrSQPSN
	}
	return a
}

// qkey is the qkey of all UD queue pairs in these tests.
const qkey = 0x1ee7

// to is the address of p for datagrams.
func (p *end) to() wqe.AV {
	return wqe.AV{CompactAV: wqe.CompactAV{Key: wqe.UDKey(qkey), Ext: true, DQP: p.num}, TClass: 0x5c, HopLimit: 9, GRH: 1<<30 | 0xabcde}
}

func (p *end) modify(a control.QPAttr) {
	p.h.Helper()
	require.NoError(p.h, p.tryModify(a))
}

func (p *end) tryModify(a control.QPAttr) error {
	return p.h.try(control.OpModifyQP, &a, &control.Empty{}, nil)
}

func (p *end) toState(s uint8) {
	p.h.Helper()
	p.modify(control.QPAttr{QPN: p.num, Mask: control.AttrState, State: s})
}

func (p *end) destroy() {
	p.h.Helper()
	p.h.call(control.OpDestroyQP, &control.QPN{QPN: p.num}, &control.Empty{})
}

// up takes p to RTS, with dest as its peer.
func (p *end) up(dest *end) {
	p.h.Helper()
	p.modify(p.toInit())
	p.overLink(dest)
	p.modify(p.toRTR(dest.num))
	p.modify(p.toRTS())
}

// pair returns two connected queue pairs, each with a CQ of its own.
func pair(a, b *host) (*end, *end) { return pairOf(control.QPTypeRC, a, b) }

// pairOf is pair with another transport.
func pairOf(transport uint8, a, b *host) (*end, *end) {
	a.Helper()
	ca, cb := a.cq(control.CQ{LogSize: 8}), b.cq(control.CQ{LogSize: 8})
	p, q := a.qp(control.QP{Type: transport}, ca, ca), b.qp(control.QP{Type: transport}, cb, cb)
	p.up(q)
	q.up(p)
	return p, q
}

// duo returns a new rig and a connected pair of queue pairs of two clients.
func duo(t testing.TB, cfg Config) (*rig, *end, *end) {
	t.Helper()
	r := newRig(t, cfg)
	p, q := pair(r.host("p"), r.host("q"))
	return r, p, q
}

// pad, as a segment of a WQE, fills the list of a UMR up to a whole block.
type pad struct{}

// write writes a WQE at the next block, without ringing, and returns its index.
func (p *end) write(c wqe.Ctrl, segments ...any) (index uint16) {
	p.h.Helper()
	index = p.sent
	b := wqe.Start(p.sq, index)
	for _, s := range segments {
		switch s := s.(type) {
		case wqe.Raddr:
			b.Raddr(s)
		case wqe.Data:
			b.Data(s)
		case wqe.Atomic:
			b.Atomic(s)
		case wqe.MaskedCS4:
			b.MaskedCS4(s)
		case wqe.MaskedCS8:
			b.MaskedCS8(s)
		case wqe.MaskedFA4:
			b.MaskedFA4(s)
		case wqe.MaskedFA8:
			b.MaskedFA8(s)
		case wqe.AV:
			b.AV(s)
		case wqe.CompactAV:
			b.CompactAV(s)
		case wqe.XRC:
			b.XRC(s)
		case wqe.Wait:
			b.Wait(s)
		case wqe.WaitData:
			b.WaitData(s)
		case wqe.MMOMeta:
			b.MMOMeta(s)
		case wqe.UMRCtrl:
			b.UMRCtrl(s)
		case wqe.MkeyContext:
			b.MkeyContext(s)
		case wqe.KLM:
			b.KLM(s)
		case wqe.RepeatBlock:
			b.RepeatBlock(s)
		case wqe.RepeatEntry:
			b.RepeatEntry(s)
		case pad:
			b.Pad()
		case []byte:
			b.Inline(s)
		default:
			p.h.Fatalf("segment %T", s)
		}
	}
	c.QPN = p.num
	blocks, err := b.Finish(c)
	require.NoError(p.h, err)
	p.sent += uint16(blocks)
	return index
}

// post writes a WQE, rings, and returns the WQE's index.
func (p *end) post(c wqe.Ctrl, segments ...any) (index uint16) {
	p.h.Helper()
	index = p.write(c, segments...)
	p.ring()
	return index
}

// raw writes blocks unchanged, rings, and returns the index of the first.
func (p *end) raw(b []byte) (index uint16) {
	index = p.sent
	for len(b) > 0 {
		at := int(p.sent) * 64 % len(p.sq)
		b = b[copy(p.sq[at:at+64], b):]
		p.sent++
	}
	p.ring()
	return index
}

func (p *end) ring() { shm.BE32At(p.rec, 4).Publish(uint32(p.sent)) }

// recv posts a receive and rings.
func (p *end) recv(list ...wqe.Data) {
	p.h.Helper()
	at := int(p.received) * p.stride % len(p.rq)
	require.True(p.h, wqe.PutRecv(p.rq[at:at+p.stride], list))
	p.received++
	shm.BE32At(p.rec, 0).Publish(uint32(p.received))
}

func (p *end) state() uint8 { return p.q.Attr.State }

// ctrl returns a control segment that asks for a completion. silent returns one that does not.
func ctrl(op wqe.Opcode) wqe.Ctrl { return wqe.Ctrl{Opcode: op, Flags: wqe.CEAlways} }

func silent(op wqe.Opcode) wqe.Ctrl { return wqe.Ctrl{Opcode: op} }

// pattern returns n bytes that are not all alike.
func pattern(n int, seed byte) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = seed + byte(i)*7 + byte(i>>8)
	}
	return b
}

func (r *rig) same(want, got []byte, what string) {
	r.Helper()
	if !bytes.Equal(want, got) {
		i := 0
		for i < min(len(want), len(got)) && want[i] == got[i] {
			i++
		}
		r.Errorf("%s: %d and %d bytes, first difference at %d", what, len(want), len(got), i)
	}
}

// failed requires that w has this syndrome and this index.
func (r *rig) failed(w cqe.WC, s cqe.Syndrome, index uint16) {
	r.Helper()
	require.Equal(r, s, w.Syndrome, "syndrome")
	require.Equal(r, index, w.Counter, "wqe_counter")
	require.Equal(r, uint32(uidx), w.UIdx)
}
