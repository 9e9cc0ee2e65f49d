package engine

import (
	"flag"
	"strconv"
	"testing"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/states"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/explore"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var programs = flag.Int("programs", 0, "random programs to run against the model; 0: 100, or 500 with -explore")

// many returns how often a search by one thread does its work: n with the flag -explore, or else a fifth of
// it. The race detector finds nothing in one thread, so it never runs more than that.
func many(n int) int {
	if shm.RaceEnabled {
		return (n + 4) / 5
	}
	return explore.Rounds((n+4)/5, n)
}

// howMany returns the number of random programs.
func howMany() int {
	if *programs > 0 {
		return *programs
	}
	return many(500)
}

// rounds returns how often a test with several threads repeats: n with the flag -explore, and few without it
// and under the race detector, where each takes ten times as long.
func rounds(few, n int) int {
	if testing.Short() || shm.RaceEnabled {
		return few
	}
	return explore.Rounds(few, n)
}

// Random programs of control requests, posts and faults run over several queue pairs of three
// clients, RC and XRC. After each command, completions, states and every byte of memory are the same on
// the engine and in the model.
func TestProgramsAgreeWithTheModel(t *testing.T) {
	require.NoError(t, flag.Set("rapid.checks", strconv.Itoa(howMany())))
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t, rt)
		rt.Repeat(map[string]func(*rapid.T){
			"post":       w.post,
			"receive":    w.receive,
			"expire":     w.expire,
			"reconnect":  w.reconnect,
			"fail":       w.fail,
			"register":   w.register,
			"deregister": w.deregister,
			"move":       w.move,
			"destroy":    w.destroySRQ,
			"":           w.check,
		})
	})
}

// A failure says which kind of difference it is.
func TestHowCompletionsDiffer(t *testing.T) {
	a, b, c := modelWC{index: 1}, modelWC{index: 2}, modelWC{index: 2, syndrome: 1}
	for want, got := range map[string][]modelWC{
		"lost": {a}, "repeated": {a, b, b}, "out of order": {b, a}, "wrong bytes": {a, c},
	} {
		require.Equal(t, want, howWCsDiffer([]modelWC{a, b}, got))
	}
}

// The same over cables, with and without a carrier, and over one that loses, repeats and reorders packets,
// and stalls. There is a difference: queue pairs are always connected with their usual peers, because
// packets do not say from whom they come, and both at a time, because their PSNs begin anew together. Each
// work request has a fence, because else it would not wait for READs. The memory of a work request that
// waits for its peer is checked each time that it is sent again.
func TestProgramsOverACable(t *testing.T) {
	require.NoError(t, flag.Set("rapid.checks", strconv.Itoa(max(howMany()/50, 1))))
	for kind, f := range map[string]*fates{"no carrier": nil, "carrier": {seed: 1}, "bad": {seed: 1, lose: 0.1, repeat: 0.1, reorder: 0.1, stall: 0.1}} {
		overCable = func(r *rig) *cable {
			c := r.newCable(nic.PortConfig{MTU: 256, Window: 4096}, f)
			c.hold = true
			return c
		}
		defer func() { overCable = nil }()
		t.Run(kind, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				w := newWorld(t, rt)
				rt.Repeat(map[string]func(*rapid.T){
					"post":       w.post,
					"receive":    w.receive,
					"expire":     w.expire,
					"reconnect":  w.reconnectBoth,
					"fail":       w.fail,
					"register":   w.register,
					"deregister": w.deregister,
					"destroy":    w.destroySRQ,
					"":           w.check,
				})
			})
		})
	}
}

// A programTB lets a rapid.T be used as a testing.TB.
type programTB struct {
	testing.TB
	rt *rapid.T
}

func (t programTB) Helper()                        {}
func (t programTB) Cleanup(f func())               { t.rt.Cleanup(f) }
func (t programTB) Errorf(format string, a ...any) { t.rt.Errorf(format, a...) }
func (t programTB) Fatalf(format string, a ...any) { t.rt.Fatalf(format, a...) }
func (t programTB) Fatal(a ...any)                 { t.rt.Fatal(a...) }
func (t programTB) Logf(format string, a ...any)   { t.rt.Logf(format, a...) }
func (t programTB) FailNow()                       { t.rt.FailNow() }
func (t programTB) Failed() bool                   { return t.rt.Failed() }

// A world is two clients that send to each other, and a third one that has an SRQ. They exist both on
// the engine and in the model.
type world struct {
	*rig
	model model
	hosts [3]*host
	keys  []pairedKey
	ends  []*end // the engine's end for each of model.qps, at the same index
	srqs  []pairedSRQ

	fences  bool   // each work request has a fence
	relaxed uint32 // further access flags of all keys
}

// The queue pairs of a world: four RC queue pairs, connected in pairs, then one that sends by XRC,
// and the target of the latter.
const worldRC, worldTarget = 4, 5

type pairedSRQ struct {
	model *modelRQ
	real  *srqEnd
	cq    *poller
}

type pairedKey struct {
	model *modelKey
	real  *key
}

const worldKey = 200 // bytes of memory under each key

func newWorld(t *testing.T, rt *rapid.T) *world { return newWorldOf(t, rt, world{}) }

// newWorldOf is newWorld with settings.
func newWorldOf(t *testing.T, rt *rapid.T, with world) *world {
	cfg := Config{
		Slice: rapid.SampledFrom([]int{64, 100, 0}).Draw(rt, "slice"),
		Burst: rapid.SampledFrom([]int{1, 2, 0}).Draw(rt, "burst"),
	}
	shards := rapid.IntRange(1, 3).Draw(rt, "shards")
	if shards > 1 {
		cfg.Cores = []int{0, 1, 2}[:shards]
	}
	w := &with
	w.rig = newRig(programTB{t, rt}, cfg)
	w.shuffle(rapid.Uint64().Draw(rt, "order of shards"))
	slow := rapid.Bool().Draw(rt, "slow path")
	for _, l := range w.d.runner.Loops {
		l.Hooks.NoFastPath = slow
		holdClock(l)
	}
	w.model.wire = overCable != nil
	if shards == 1 {
		w.workers(rapid.IntRange(0, 2).Draw(rt, "workers"))
	}
	for i := range w.hosts {
		w.hosts[i] = w.host("client")
		w.hosts[i].share()
		w.addKey(rt, i, control.AccessAll&^control.AccessZeroBased)
		w.addKey(rt, i, control.AccessAll&^control.AccessZeroBased)
	}
	for i := range worldRC {
		h := w.hosts[i%2]
		w.ends = append(w.ends, h.qp(control.QP{UAR: uint16(i), BlueFlame: 3}, h.cq(control.CQ{LogSize: 8}), h.cq(control.CQ{LogSize: 8})))
		w.addQP(i%2, false)
	}
	w.addXRC(rapid.Bool().Draw(rt, "SRQ of a third client"))
	for i := range w.ends {
		w.connect(rt, i, i^1)
	}
	return w
}

func (w *world) addQP(owner int, xrc bool) {
	w.model.qps = append(w.model.qps, &modelQP{modelRQ: modelRQ{domain: owner}, owner: owner, xrc: xrc})
}

// addXRC makes the queue pairs of XRC, and an SRQ of the target's client. If shared, the third
// client has an SRQ in the domain too, which brings it and the target's client into one shard.
func (w *world) addXRC(shared bool) {
	a, b := w.hosts[0], w.hosts[1]
	c := a.cq(control.CQ{LogSize: 8})
	domain := b.openXRCD()
	w.ends = append(w.ends, a.qp(control.QP{Type: control.QPTypeXRC, NoReceive: 1, UAR: 1}, c, c), b.target(domain))
	w.addQP(0, true)
	w.addQP(1, true)
	owners := []int{1}
	if shared {
		require.NoError(w, w.hosts[2].c.JoinXRCD(domain))
		owners = []int{1, 2}
	}
	for _, owner := range owners {
		h := w.hosts[owner]
		c := h.cq(control.CQ{LogSize: 8})
		s := pairedSRQ{&modelRQ{domain: owner, entries: 8}, h.xsrq(control.XSRQ{XRCDN: domain}, c), c}
		w.srqs = append(w.srqs, s)
	}
}

// addKey registers memory of a client's region or of its process.
func (w *world) addKey(rt *rapid.T, owner int, access uint32) {
	h := w.hosts[owner]
	take := h.take
	if rapid.Bool().Draw(rt, "away") {
		take = h.private
	}
	k := h.keyOf(take, worldKey, access|w.relaxed)
	m := &modelKey{owner: owner, access: access, mem: make([]byte, worldKey)}
	for i := range m.mem {
		m.mem[i] = byte(len(w.keys)*31 + i)
	}
	copy(k.mem, m.mem)
	w.keys = append(w.keys, pairedKey{m, k})
}

// connect takes a queue pair from RST to RTS.
func (w *world) connect(rt *rapid.T, i, dest int) {
	m, p := w.model.qps[i], w.ends[i]
	m.access = control.AccessRemoteWrite | control.AccessRemoteRead | control.AccessRemoteAtomic
	if rapid.IntRange(0, 7).Draw(rt, "deny") == 0 {
		m.access = control.AccessRemoteRead
	}
	m.rnrRetry = rapid.SampledFrom([]uint8{7, 7, 0, 1, 3}).Draw(rt, "rnr_retry")
	init := p.toInit()
	init.Access = m.access
	p.modify(init)
	p.overLink(w.ends[dest])
	p.modify(p.toRTR(w.ends[dest].num))
	rts := p.toRTS()
	rts.RNRRetry = m.rnrRetry
	p.modify(rts)
	m.state, m.dest = control.StateRTS, w.model.qps[dest]
}

// span draws a part of a key for a client. Most parts are valid.
func (w *world) span(rt *rapid.T, owner, most int) (span, pairedKey) {
	var mine []int
	for i, k := range w.keys {
		if k.model.owner == owner && !k.model.gone {
			mine = append(mine, i)
		}
	}
	pick := rapid.IntRange(0, len(w.keys)-1).Draw(rt, "any key")
	if len(mine) > 0 && rapid.IntRange(0, 15).Draw(rt, "good key") > 0 {
		pick = mine[rapid.IntRange(0, len(mine)-1).Draw(rt, "key")]
	}
	k := w.keys[pick]
	n := rapid.IntRange(1, most).Draw(rt, "length")
	off := rapid.IntRange(0, worldKey-n).Draw(rt, "offset")
	switch rapid.IntRange(0, 31).Draw(rt, "fault") {
	case 0:
		off = worldKey - n + 1
	case 1:
		return span{key: k.model, off: off, n: n, stale: true}, k
	}
	return span{key: k.model, off: off, n: n}, k
}

func (s span) data(k pairedKey) wqe.Data {
	d := k.real.data(s.off, s.n)
	if s.stale {
		d.LKey ^= 1
	}
	return d
}

var programOps = []wqe.Opcode{
	wqe.OpRDMAWrite, wqe.OpRDMAWrite, wqe.OpRDMAWriteImm, wqe.OpRDMARead, wqe.OpSend, wqe.OpSend, wqe.OpSendImm,
	wqe.OpNop, wqe.OpAtomicFA, wqe.OpAtomicCS,
}

// post posts one to three work requests with one doorbell.
func (w *world) post(rt *rapid.T) {
	i := rapid.IntRange(0, worldTarget-1).Draw(rt, "qp")
	m, p := w.model.qps[i], w.ends[i]
	flames := !m.xrc && rapid.Bool().Draw(rt, "to the register")
	for range rapid.IntRange(1, 3).Draw(rt, "count") {
		used := 0
		for _, s := range m.sends {
			used += s.blocks
		}
		if used+4 > 16 {
			break
		}
		m.sends = append(m.sends, w.draw(rt, m, p))
		if flames {
			p.postBlueFlame()
			for range rapid.IntRange(0, 2).Draw(rt, "steps before the record") {
				w.e.Step()
			}
			p.ring()
		}
	}
	p.ring()
	w.settle()
	w.model.run()
}

// draw draws a work request, writes its WQE and returns what it means.
func (w *world) draw(rt *rapid.T, m *modelQP, p *end) modelWQE {
	s := modelWQE{
		op:  rapid.SampledFrom(programOps).Draw(rt, "opcode"),
		ce:  rapid.SampledFrom([]uint8{wqe.CEAlways, wqe.CEAlways, wqe.CEOnError, wqe.CEFirstError, wqe.CEEvent}).Draw(rt, "ce"),
		imm: 0xabcd0000 | uint32(len(m.sends)),
	}
	ctrl := wqe.Ctrl{Opcode: s.op, Flags: s.ce, Imm: s.imm}
	if w.model.wire || w.fences {
		ctrl.Flags |= wqe.FenceReads
	}
	var segments []any
	atomic := s.op == wqe.OpAtomicFA || s.op == wqe.OpAtomicCS
	if s.op != wqe.OpNop {
		domain := 1 - m.owner
		if m.xrc {
			to := w.srqs[rapid.IntRange(0, len(w.srqs)-1).Draw(rt, "SRQ")]
			n := to.real.num
			s.srq, domain = to.model, to.model.domain
			if rapid.IntRange(0, 15).Draw(rt, "good SRQ") == 0 {
				s.srq, n = nil, n^1
			}
			segments = append(segments, wqe.XRC{SRQN: n})
		}
		if s.op != wqe.OpSend && s.op != wqe.OpSendImm {
			far, k := w.span(rt, domain, 8)
			if atomic && rapid.IntRange(0, 7).Draw(rt, "aligned") > 0 {
				far.off &^= 7
			}
			s.remote = far
			d := far.data(k)
			segments = append(segments, wqe.Raddr{Addr: d.Addr, RKey: d.LKey})
		}
		if atomic {
			s.add = rapid.Uint64().Draw(rt, "operand")
			s.compare = rapid.Uint64Range(0, 3).Draw(rt, "compare")
			segments = append(segments, wqe.Atomic{SwapAdd: s.add, Compare: s.compare})
		}
		pieces := rapid.IntRange(0, 3).Draw(rt, "pieces")
		if atomic {
			pieces = 1
		}
		if pieces == 3 && s.op != wqe.OpRDMARead && !atomic {
			s.inline = rapid.SliceOfN(rapid.Byte(), 1, 40).Draw(rt, "inline")
			segments = append(segments, s.inline)
			pieces = 1
		}
		for range pieces {
			near, k := w.span(rt, m.owner, 80)
			if atomic && rapid.IntRange(0, 7).Draw(rt, "room") > 0 {
				near.n = 8
				near.off = min(near.off, worldKey-8)
			}
			s.local = append(s.local, near)
			segments = append(segments, near.data(k))
		}
	}
	s.index = p.write(ctrl, segments...)
	s.blocks = int(p.sent - s.index)
	return s
}

// receive posts a receive of up to three pieces, to a queue pair or to an SRQ.
func (w *world) receive(rt *rapid.T) {
	i := rapid.IntRange(0, worldRC+len(w.srqs)-1).Draw(rt, "queue")
	var m *modelRQ
	most := 16
	if i < worldRC {
		m = &w.model.qps[i].modelRQ
	} else {
		m, most = w.srqs[i-worldRC].model, 7 // the last entry of an SRQ is no receive
	}
	if len(m.recvs) >= most || m.gone {
		return
	}
	var list []span
	var data []wqe.Data
	for range rapid.IntRange(0, 3).Draw(rt, "pieces") {
		s, k := w.span(rt, m.domain, worldKey)
		list = append(list, s)
		data = append(data, s.data(k))
	}
	m.recvs = append(m.recvs, list)
	if i < worldRC {
		w.ends[i].recv(data...)
	} else {
		s := w.srqs[i-worldRC].real
		s.put(s.posted%m.entries, data...)
		s.post(1)
	}
	w.settle()
	w.model.run()
}

// destroySRQ destroys an SRQ, perhaps while a message waits for a receive in it.
func (w *world) destroySRQ(rt *rapid.T) {
	s := w.srqs[rapid.IntRange(0, len(w.srqs)-1).Draw(rt, "SRQ")]
	if s.model.gone || rapid.IntRange(0, 3).Draw(rt, "destroy") > 0 {
		rt.Skip("not this time")
	}
	s.model.gone = true
	s.real.h.call(control.OpDestroySRQ, &control.SRQN{SRQN: s.real.num}, &control.Empty{})
	w.settle()
	w.model.run()
}

// expireAll lets all timers run out, on the engine and in the model.
func (w *world) expireAll() {
	if c := w.cable; c != nil {
		f := c.fates
		good := fates{}
		if f != nil {
			good.rng = f.rng
			c.fates = &good
		}
		c.hold = false
		for range mostRounds {
			w.settle()
		}
		c.fates, c.hold = f, true
	} else {
		w.rig.expire()
	}
	w.model.expire()
}

func (w *world) expire(rt *rapid.T) {
	if w.model.waitsForEver() {
		rt.Skip("somebody waits for ever")
	}
	if w.model.waiting() > 1 {
		rt.Skip("whose time ends first is not said")
	}
	w.expireAll()
}

// reconnect takes a queue pair through RST and connects it to its usual peer or to another
// one.
func (w *world) reconnect(rt *rapid.T) {
	i := rapid.IntRange(0, len(w.ends)-1).Draw(rt, "qp")
	dest := i ^ 1
	if rapid.IntRange(0, 5).Draw(rt, "usual peer") == 0 {
		dest = (i + 2) ^ 1
		dest %= len(w.ends)
	}
	w.model.qps[i].reset()
	p := w.ends[i]
	p.toState(control.StateRST)
	p.sent, p.received = 0, 0
	clear(p.rec)
	w.connect(rt, i, dest)
	w.settle()
	w.model.run()
}

// reconnectBoth takes a queue pair and its peer through RST and connects them again.
func (w *world) reconnectBoth(rt *rapid.T) {
	i := rapid.IntRange(0, len(w.ends)-1).Draw(rt, "qp")
	for _, i := range []int{i, i ^ 1} {
		w.model.qps[i].reset()
		p := w.ends[i]
		p.toState(control.StateRST)
		p.sent, p.received = 0, 0
		clear(p.rec)
	}
	w.settle() // what is on the way arrives in vain
	w.connect(rt, i, i^1)
	w.connect(rt, i^1, i)
	w.settle()
	w.model.run()
}

// fail moves a queue pair to ERR.
func (w *world) fail(rt *rapid.T) {
	i := rapid.IntRange(0, len(w.ends)-1).Draw(rt, "qp")
	w.ends[i].toState(control.StateERR)
	w.model.qps[i].state = control.StateERR
	w.settle()
	w.model.run()
}

// move moves a client to another shard, which must have no visible effect.
func (w *world) move(rt *rapid.T) {
	if !w.e.Several {
		rt.Skip("one shard")
	}
	to := w.d.runner.Shards[rapid.IntRange(0, len(w.d.runner.Loops)-1).Draw(rt, "shard")]
	h := w.hosts[rapid.IntRange(0, 2).Draw(rt, "client")]
	if h.c.Shares() {
		rt.Skip("the clients of a domain stay in one shard")
	}
	w.e.Do(func() { w.d.runner.Move(h.c.Client, to) })
}

func (w *world) register(rt *rapid.T) {
	if len(w.keys) > 14 {
		rt.Skip("enough keys")
	}
	access := rapid.SampledFrom([]uint32{
		control.AccessAll &^ control.AccessZeroBased, control.AccessLocalWrite, control.AccessRemoteRead,
		control.AccessLocalWrite | control.AccessRemoteWrite, 0,
	}).Draw(rt, "access")
	w.addKey(rt, rapid.IntRange(0, 2).Draw(rt, "client"), access)
}

func (w *world) deregister(rt *rapid.T) {
	k := w.keys[rapid.IntRange(0, len(w.keys)-1).Draw(rt, "key")]
	if k.model.gone {
		rt.Skip("gone already")
	}
	k.model.gone = true
	k.real.h.call(control.OpDeregMR, &control.Key{Key: k.real.key}, &control.Empty{})
	w.settle()
	w.model.run()
}

// check compares everything that can be seen on both sides, and takes the completions.
func (w *world) check(rt *rapid.T) {
	for i, m := range w.model.qps {
		p := w.ends[i]
		if got := p.state(); got != m.state {
			rt.Fatalf("failed: queue pair %d: state %s, the model says %s", i, states.Name(got), states.Name(m.state))
		}
		if i == worldTarget {
			continue // it has no completions
		}
		if diff := compareWCs(m.sendWC, p.scq.all()); diff != "" {
			rt.Fatalf("queue pair %d, sends: %s", i, diff)
		}
		if diff := compareWCs(m.recvWC, p.rcq.all()); diff != "" {
			rt.Fatalf("queue pair %d, receives: %s", i, diff)
		}
		m.sendWC, m.recvWC = nil, nil
	}
	for i, s := range w.srqs {
		if diff := compareWCs(s.model.recvWC, s.cq.all()); diff != "" {
			rt.Fatalf("SRQ %d: %s", i, diff)
		}
		s.model.recvWC = nil
	}
	for i, k := range w.keys {
		for j := range k.model.mem {
			if k.model.mem[j] != k.real.mem[j] {
				rt.Fatalf("wrong bytes: key %d, byte %d: %#02x, the model says %#02x", i, j, k.real.mem[j], k.model.mem[j])
			}
		}
	}
}

func compareWCs(want []modelWC, got []cqe.WC) string {
	var list []modelWC
	for _, g := range got {
		w := modelWC{syndrome: g.Syndrome, index: g.Counter}
		if g.Syndrome == 0 {
			w.op, w.n = g.Opcode, int(g.ByteLen)
			if !g.Requester() && g.Flags&cqe.WCWithImm != 0 {
				w.imm = g.Imm
			}
		}
		list = append(list, w)
	}
	if len(want) == len(list) {
		same := true
		for i := range want {
			same = same && want[i] == list[i]
		}
		if same {
			return ""
		}
	}
	return howWCsDiffer(want, list) + ": completions " + show(list) + ", the model says " + show(want)
}

// howWCsDiffer returns the kind of the difference of two lists of completions.
func howWCsDiffer(want, got []modelWC) string {
	missing := make(map[modelWC]int)
	for _, w := range want {
		missing[w]++
	}
	for _, g := range got {
		missing[g]--
	}
	lost, more := false, false
	for _, n := range missing {
		lost, more = lost || n > 0, more || n < 0
	}
	switch {
	case lost && more:
		return "wrong bytes"
	case lost:
		return "lost"
	case more:
		return "repeated"
	}
	return "out of order"
}

func show(list []modelWC) (s string) {
	s = "["
	for _, w := range list {
		s += " {" + strconv.Itoa(int(w.index)) + " syndrome " + strconv.Itoa(int(w.syndrome)) + " op " + strconv.Itoa(int(w.op)) + " n " + strconv.Itoa(w.n) + "}"
	}
	return s + " ]"
}
