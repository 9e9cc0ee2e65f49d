package engine

import (
	"encoding/binary"
	"flag"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/explore"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/packet"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// A wireTarget is a target whose queue pairs are connected over a cable, of which the fuzzer is a
// second, hostile sender.
type wireTarget struct {
	*target
	c     *cable
	srq   *srqEnd
	pairs [3][2]*end // RC, UC, and an XRC queue pair with its target
	ud    *end
}

func newWireTarget(t testing.TB) *wireTarget {
	x := newWireTargetOn(t, newRepeatable(t, targetConfig))
	x.again()
	return x
}

func newWireTargetOn(t testing.TB, r *rig) *wireTarget {
	x := &wireTarget{target: newTargetOn(r)}
	x.cqA, x.cqB = x.a.cq(control.CQ{LogSize: 10}), x.b.cq(control.CQ{LogSize: 10})
	x.c = x.newCable(nic.PortConfig{MTU: 256, Window: 2048}, &fates{})
	for i, transport := range []uint8{control.QPTypeRC, control.QPTypeUC} {
		x.pairs[i] = [2]*end{x.a.qp(control.QP{Type: transport}, x.cqA, x.cqA), x.b.qp(control.QP{Type: transport}, x.cqB, x.cqB)}
	}
	domain := x.b.openXRCD()
	x.srq = x.b.xsrq(control.XSRQ{XRCDN: domain}, x.cqB)
	x.pairs[2] = [2]*end{x.a.qp(control.QP{Type: control.QPTypeXRC, NoReceive: 1}, x.cqA, x.cqA), x.b.target(domain)}
	x.ud = x.b.qp(control.QP{Type: control.QPTypeUD}, x.cqB, x.cqB)
	require.NoError(t, x.b.c.SetSources([]nic.Source{{}, {GID: gid("192.0.2.1")}}))
	for i := range uint16(8) {
		x.srq.put(i, x.far.data(0, 512))
	}
	return x
}

// again connects all queue pairs anew.
func (x *wireTarget) again() {
	for _, pq := range x.pairs {
		for i, p := range pq {
			p.toState(control.StateRST)
			p.sent, p.received = 0, 0
			clear(p.rec)
			p.up(pq[1-i])
		}
	}
	x.ud.toState(control.StateRST)
	x.ud.sent, x.ud.received = 0, 0
	clear(x.ud.rec)
	x.ud.up(x.ud)
	x.c.held = [2][]heldPacket{}
	x.c.patient = nil // their retries run out
	x.settle()
	for _, c := range []*poller{x.cqA, x.cqB} {
		c.all()
	}
}

// orderly fails unless the send completions of each queue pair come in order, at most one for each
// WQE that was posted.
func (x *wireTarget) orderly(last map[uint32]int) {
	for _, c := range []*poller{x.cqA, x.cqB} {
		for _, w := range c.all() {
			if !w.Requester() && w.Kind != cqe.ReqErr {
				continue
			}
			for _, pq := range x.pairs {
				for _, p := range pq {
					if p.num != w.QPN {
						continue
					}
					before, any := last[p.num]
					if any && int(w.Counter) <= before || w.Counter >= p.sent {
						x.Fatalf("QP %#06x: the completion of WQE %d after that of %d, %d were posted", p.num, w.Counter, before, p.sent)
					}
					last[p.num] = int(w.Counter)
				}
			}
		}
	}
}

// counts fails if what is counted does not agree with what there is.
func (x *wireTarget) counts() {
	sh := x.e
	users := map[*object.Port]int{}
	linked := map[*object.Client]int{}
	armed := 0
	jobs := map[*object.Job]int{sh.Scratch.Job: 1}
	for _, q := range sh.QPs {
		w := q.Wire
		if w == nil {
			continue
		}
		users[w.Port]++
		linked[q.Client]++
		if w.Timer.Linked {
			armed++
		}
		for _, j := range []*object.Job{w.Out.Job, w.Out.AnswerJob, w.In.Job, w.In.AnswerJob} {
			if j != nil {
				jobs[j]++
			}
		}
		fresh := 0
		for i := range w.In.Due {
			if !w.In.Reads[(w.In.FirstDue+i)%len(w.In.Reads)].Again {
				fresh++
			}
		}
		r := &w.Out
		switch {
		case fresh != w.In.Fresh:
			x.Fatalf("%d answers are counted, %d are owed", w.In.Fresh, fresh)
		case r.Last-r.First > uint32(len(r.Messages)) || r.Sending-r.First > r.Last-r.First:
			x.Fatalf("messages %d to %d, at %d", r.First, r.Last, r.Sending)
		case q.Flushes() && (r.First != r.Last || w.Timer.Running()):
			x.Fatal("a queue pair in error has messages on the way")
		case packet.DiffPSN(r.Most, r.UNA) < 0 || packet.DiffPSN(r.PSN, r.Most) < 0:
			x.Fatalf("PSNs: una %#x, most %#x, next %#x", r.UNA, r.Most, r.PSN)
		}
		reading := uint32(0)
		for n := r.First; n != r.Last; n++ {
			if r.Message(n).Answers {
				reading++
			}
		}
		if reading != r.Reading {
			x.Fatalf("%d READs and atomics are on the way, %d are counted", reading, r.Reading)
		}
	}
	for _, j := range sh.Scratch.Spare {
		jobs[j]++
	}
	for j, n := range jobs {
		if n > 1 {
			x.Fatalf("job %p has %d users", j, n)
		}
	}
	for _, p := range x.c.ports {
		if p.Users != users[p.Port] {
			x.Fatalf("%d queue pairs use a port, %d are counted", users[p.Port], p.Users)
		}
	}
	for _, h := range []*host{x.a, x.b} {
		if h.c.Client.Linked != linked[h.c.Client] {
			x.Fatalf("%d queue pairs are linked, %d are counted", linked[h.c.Client], h.c.Linked)
		}
	}
	if armed > sh.Timers.Armed {
		x.Fatalf("%d timers are armed, %d are counted", armed, sh.Timers.Armed)
	}
}

// forge puts a packet into the port of a queue pair. in is what the fuzzer says of it.
func (x *wireTarget) forge(in []byte) {
	pq := &x.pairs[in[0]%3]
	q := pq[in[0]>>2&1]
	if in[0]>>3&7 == 7 {
		q = x.ud
	}
	op := packet.Opcode(in[1])
	if w := q.q.Wire; w != nil && in[0]&0x40 != 0 {
		op = packet.MakeOpcode(q.q.Service(), op.Operation())
	}
	info := op.Info()
	head := make([]byte, min(info.HeaderSize, 48))
	psn, path, side := uint32(in[2]), uint32(0), int(in[0]>>5&1)
	if w := q.q.Wire; w != nil {
		side, path = q.side(), w.Source
		psn = packet.AddPSN(w.In.PSN, uint32(int8(in[2])))
		if info.Response {
			psn = packet.AddPSN(w.Out.UNA, uint32(int8(in[2])))
		}
	}
	packet.BTH{Opcode: op, Solicited: in[3]&1 != 0, AckReq: in[3]&2 != 0, PKey: object.DefaultPKey, DestQP: q.num, PSN: psn}.Put((*[packet.BTHSize]byte)(head))
	k := x.far
	if q.h == x.a {
		k = x.local
	}
	n := int(binary.BigEndian.Uint16(in[4:])) % 600
	if info.XRCETH {
		packet.XRCETH{SRQN: x.srq.num ^ uint32(in[3]>>7)}.Put((*[packet.XRCETHSize]byte)(head[info.OffXRCETH:]))
	}
	if info.DETH {
		packet.DETH{QKey: qkey, SrcQP: 5}.Put((*[packet.DETHSize]byte)(head[info.OffDETH:]))
	}
	if info.RETH {
		packet.RETH{Addr: k.addr + uint64(in[6]), RKey: k.key ^ uint32(in[3]>>6&1), Length: uint32(n)}.Put((*[packet.RETHSize]byte)(head[info.OffRETH:]))
	}
	if info.AtomicETH {
		packet.AtomicETH{Addr: k.addr + uint64(in[6]), RKey: k.key, SwapAdd: 1}.Put((*[packet.AtomicETHSize]byte)(head[info.OffAtomicETH:]))
	}
	if info.Atomic && info.RETH { // a word of 4 or 8 bytes, or of any, and operands that fit it, or do not
		word := []int{4, 8, 8, n}[in[3]>>4&3]
		packet.RETH{Addr: k.addr + uint64(in[6]), RKey: k.key, Length: uint32(word)}.Put((*[packet.RETHSize]byte)(head[info.OffRETH:]))
		n = []int{16, 32, 4 * word % 600, n}[in[4]&3]
	}
	if info.AETH {
		packet.AETH{Syndrome: in[6]}.Put((*[packet.AETHSize]byte)(head[info.OffAETH:]))
	}
	if info.IETH {
		packet.IETH{RKey: k.key}.Put((*[packet.IETHSize]byte)(head[info.OffIETH:]))
	}
	if !info.Payload {
		n = 0
	} else if in[3]&4 != 0 {
		n = 256
	}
	if in[3]&0x18 == 0x18 {
		n = 8
	}
	h, b, ok := x.c.to[side].Reserve(len(head), n)
	if !ok {
		return
	}
	copy(h, head)
	for i := range b {
		b[i] = byte(i)
	}
	x.c.to[side].Publish(path)
}

// act does what a client may do at any moment. in is what the fuzzer says.
func (x *wireTarget) act(in []byte) {
	pq := &x.pairs[in[0]%3]
	p := pq[0]
	xrc := in[0]%3 == 2
	off, n := int(in[4])%256, 1+int(in[5])*2%256
	var to []any
	if xrc {
		to = append(to, wqe.XRC{SRQN: x.srq.num})
	}
	if p.sent > 60000 {
		return
	}
	room := uint64(p.sent)+4-p.q.SQ.Done <= 8 && p.q.Listens()
	switch in[1] % 12 {
	case 0, 1, 2, 3, 4:
		ops := []wqe.Opcode{wqe.OpRDMAWrite, wqe.OpRDMARead, wqe.OpAtomicFA, wqe.OpSend, wqe.OpRDMAWriteImm}
		op := ops[in[1]%12]
		if op == wqe.OpAtomicFA {
			op = []wqe.Opcode{op, wqe.OpAtomicMaskedFA, wqe.OpAtomicMaskedCS}[in[6]%3]
		}
		if !room {
			return
		}
		if op != wqe.OpSend {
			to = append(to, x.far.raddr(off&^7))
		}
		switch op {
		case wqe.OpAtomicFA:
			to, n = append(to, wqe.Atomic{SwapAdd: 1}), 8
		case wqe.OpAtomicMaskedFA:
			to, n = append(to, wqe.MaskedFA8{Add: 1, Boundary: uint64(in[2])}), 8
		case wqe.OpAtomicMaskedCS:
			to, n = append(to, wqe.MaskedCS8{Swap: 1, SwapMask: 3, CompareMask: uint64(in[2])}), 8
		}
		to = append(to, x.local.data(off&^7, n))
		if n > 100 {
			to = append(to, x.local.data(0, 512))
		}
		p.post(ctrl(op), to...)
	case 5:
		if xrc {
			if x.srq.s.Ready() < 4 {
				x.srq.post(1)
			}
			return
		}
		if q := pq[1]; uint64(q.received)-q.q.RQ.Done < 8 {
			q.recv(x.far.data(0, 512))
		}
	case 6:
		state := []uint8{control.StateERR, control.StateSQD, control.StateRTS, control.StateRST}[in[2]%4]
		if state == control.StateRST {
			return // the same numbers would be posted again
		}
		_ = pq[in[3]&1].tryModify(control.QPAttr{QPN: pq[in[3]&1].num, Mask: control.AttrState, State: state})
	case 7:
		x.c.ports[in[2]&1].SetUp(in[3]&1 != 0)
	case 8:
		x.c.timeOut()
	case 9:
		p.sq[int(in[2])*16%len(p.sq)+int(in[3]%16)] ^= in[4] // a WQE changes
	case 10:
		if room {
			p.post(ctrl(wqe.OpNop))
		}
	case 11:
		if q := x.ud; uint64(q.received)-q.q.RQ.Done < 8 {
			q.recv(x.far.data(0, 512))
		}
	}
}

// FuzzWire mixes packets of every form, which a hostile peer sends with the right numbers, with work
// requests and other acts of clients. Each act has eight bytes: the first two say which queue pair,
// and which packet or which act of a client; bit 7 of the last decides. Bits 0 and 1 of the last
// choose how many steps follow, bits 2 and 3 from which ports packets are carried.
func FuzzWire(f *testing.F) {
	for op := range 256 {
		if packet.Opcode(op).Info().Known {
			for q := range byte(8) {
				f.Add([]byte{q, byte(op), 0, 6, 0, 100, 0, 0x8f, q, byte(op), 255, 2, 0, 100, 0, 0x8f})
			}
		}
	}
	for a := range byte(12) {
		f.Add([]byte{0, a, 0, 0, 0, 200, 0, 1, 1, a, 0, 0, 0, 200, 0, 1, 2, a, 1, 0, 0, 200, 0, 0x0f})
		f.Add([]byte{0, 1, 0, 0, 0, 200, 0, 5, 0, a, 1, 1, 1, 1, 1, 5, 4, 17, 0, 0, 0, 0, 0x1f, 0x81, 4, 17, 1, 0, 0, 0, 0x62, 0x81})
	}
	f.Fuzz(func(t *testing.T, in []byte) { newWireTarget(t).play(in[:min(len(in), 8*mostActs)]) })
}

// play lets the acts in happen, and checks what must hold after each step.
func (x *wireTarget) play(in []byte) {
	last := map[uint32]int{}
	for len(in) >= 8 && len(in) < 1024 {
		if in[7]&0x80 != 0 {
			x.forge(in)
		} else {
			x.act(in)
		}
		for range in[7] & 3 {
			for i := range 2 {
				if in[7]>>(2+i)&1 != 0 {
					x.c.carryFrom(i)
				}
			}
			x.e.Step()
			x.counts()
		}
		x.orderly(last)
		in = in[8:]
	}
	for i := range x.c.ports {
		x.c.ports[i].SetUp(true)
	}
	x.settle()
	x.counts()
	x.orderly(last)
	x.check()
}

var wireSeeds = flag.Int("wireseeds", 0, "random sequences of acts in TestWireAtRandom and TestWireFastPathAgreesAtRandom; 0: 100, or 400 with -explore; an eighth under the race detector")

// seeds returns how many random sequences are run. A sequence is a subtest with the name of its seed, and
// does the same when it is run alone.
func seeds() uint64 {
	n := *wireSeeds
	if n == 0 {
		n = explore.Rounds(100, 400)
	}
	if shm.RaceEnabled {
		n = (n + 7) / 8
	}
	return uint64(n)
}

// Random acts, more of them one after another than a fuzzer begins with.
func TestWireAtRandom(t *testing.T) {
	var known []byte
	for op := range 256 {
		if packet.Opcode(op).Info().Known {
			known = append(known, byte(op))
		}
	}
	for seed := range seeds() {
		rng := rand.New(rand.NewPCG(seed, 5))
		forged := rng.IntN(4) // how hostile the peer is
		in := make([]byte, 8*rng.IntN(100))
		for i := range in {
			in[i] = byte(rng.Uint32())
		}
		for k := 0; k < len(in); k += 8 {
			a := in[k : k+8]
			a[7] &^= 0x80
			if rng.IntN(8) < forged {
				a[1], a[7] = known[rng.IntN(len(known))], a[7]|0x80
				if rng.IntN(3) > 0 {
					a[2] = 0
				}
				if rng.IntN(2) == 0 {
					a[0] |= 0x40
				}
				a[3] &= 0x3f
			} else if (a[1]%12 == 6 || a[1]%12 == 9) && rng.IntN(8) > 0 {
				a[1] = byte(rng.IntN(6)) // errors of its own end a queue pair too soon
			}
		}
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) { newWireTarget(t).play(in) })
		if t.Failed() {
			return
		}
	}
}
