package engine

import (
	"bytes"
	"encoding/binary"
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/request"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/trace"
	"github.com/nicless/nicless/wqe"
)

// A target is an engine with two clients that the fuzzer uses, and a third client, the
// bystander. The memory and the work of the bystander must not be affected. All keys have
// canaries before and after their memory.
type target struct {
	*rig
	a, b      *host
	s         *end // the bystander's queue pair
	others    *key
	pristine  []byte
	local     *key
	far       *key
	cqA, cqB  *poller
	neighbour *key // memory of b that the bystander uses
}

// A region of a target has at most 16 MiB, because making a larger one takes time.
var targetConfig = Config{Slice: 64, Burst: 4, Limits: Limits{Bytes: 16 << 20}}

// mostActs is how many requests, records or work requests of an input are carried out. Go's fuzzer takes an
// input for hung after 10 s, which on a busy machine may be a tenth of a second of a core: 4 KB of work
// requests took longer, while 40 threads wanted two cores. 32 acts of that input took 20 to 50 ms there.
const mostActs = 32

// newTarget makes a target. The fuzzer makes a new one for each input, so that whatever happens depends
// on that input alone.
func newTarget(t testing.TB) *target { return newTargetOn(newRepeatable(t, targetConfig)) }

func newTargetOn(r *rig) *target {
	r.workers(1)
	r.e.DMA.Sizes.Transfer = 128 // so that the device also copies some transfers of several slices
	x := &target{rig: r, a: r.host("a"), b: r.host("b")}
	c := r.host("bystander")
	m := control.CQ{LogSize: 4, Flags: control.CQIgnoreOverrun}
	id, _ := x.a.channel()
	x.a.events()
	withChannel := m
	withChannel.Channel = id
	x.cqA, x.cqB = x.a.cq(withChannel), x.b.cq(m)
	x.s, _ = pair(c, c)
	x.others, x.neighbour = c.full(512, 3), c.full(512, 4)
	x.local, x.far = x.a.full(512, 1), x.b.full(512, 2)
	x.pristine = append([]byte(nil), x.others.mem...)
	return x
}

// run steps the engine until it has nothing to do. It lets all timers run out.
func (x *target) run() {
	for range 64 {
		x.e.Step()
		for _, w := range stalledQueues(x.e) {
			w.Stall.Deadline = 0
		}
	}
	x.settle()
}

// check fails if memory or work of the bystander was affected.
func (x *target) check() {
	x.Helper()
	if !bytes.Equal(x.pristine, x.others.mem) {
		x.Fatal("somebody else's memory was written")
	}
	for _, k := range []*key{x.local, x.far, x.others, x.neighbour} {
		k.intact()
	}
	x.s.post(ctrl(wqe.OpRDMAWrite), x.neighbour.raddr(0), x.others.data(0, 512))
	x.settle()
	if w := x.s.scq.one(); w.Syndrome != cqe.Syndrome(0) {
		x.Fatalf("somebody else's work failed: %v", w.Syndrome)
	}
	if !bytes.Equal(x.pristine, x.neighbour.mem) {
		x.Fatal("somebody else's work is not what it was")
	}
	clear(x.neighbour.mem)
}

// A wqeTarget is a target with queue pairs of three transports, and with keys of each kind on both sides:
// memory, windows, a list, an interleaved list.
type wqeTarget struct {
	*target
	ps, qs       [3]*end // by transport
	enabled      *end
	keysA, keysB []uint32
}

func newWQETarget(t testing.TB) *wqeTarget {
	x := &wqeTarget{target: newTarget(t)}
	for transport := range uint8(3) {
		x.ps[transport] = x.a.qp(control.QP{Type: transport}, x.cqA, x.cqA)
		x.qs[transport] = x.b.qp(control.QP{Type: transport}, x.cqB, x.cqB)
	}
	x.enabled = x.a.qp(control.QP{Managed: 1}, x.cqA, x.cqA)
	keys := func(h *host, k *key, p *end) []uint32 {
		w1, w2, l, i := h.window(1), h.window(2), h.mkey(52), h.mkey(4)
		p.up(p)
		p.post(umr(w1), p.bind(1, uint8(w1), k, 0, 512, mkeyAll)...)
		p.post(umr(l), fill(l, mkeyAll, 200, k.klm(0, 100), k.klm(300, 100))...)
		p.post(umr(i), interleaved(i, mkeyAll, 200, 50, wqe.RepeatEntry{Stride: 10, ByteCount: 4, MKey: k.key, Addr: k.addr})...)
		x.settle()
		p.scq.all()
		return []uint32{k.key, w1, l, i, w2}
	}
	x.keysA, x.keysB = keys(x.a, x.local, x.ps[0]), keys(x.b, x.far, x.qs[0])
	return x
}

// FuzzEngineWQE writes any bytes into the rings of live queue pairs and any
// values into their records, on every transport.
//
// The first bytes of an input choose the records, the transport and a patch. The patch puts
// valid values into the WQE, so that the fuzzer need not find keys by trying. These are its bits: 1
// sets a valid key in the remote address segment, 2 in the local data segments, 4 in the receive; 8
// sets the address vector; 16 sets a key in the control segment; 32 sets the numbers of WAIT and
// SEND_EN. The higher bits choose the kind of key.
func FuzzEngineWQE(f *testing.F) {
	x := newWQETarget(f)
	ps, qs := x.ps, x.qs
	add := func(patch byte, transport uint8, kind byte, receives uint16, c wqe.Ctrl, segments ...any) {
		p := ps[0]
		p.sent = 0
		clear(p.sq)
		p.write(c, segments...)
		head := []byte{patch, transport, kind, 0, 0, 0, 0}
		binary.BigEndian.PutUint16(head[3:], p.sent)
		binary.BigEndian.PutUint16(head[5:], receives)
		f.Add(append(head, p.sq[:min(len(p.sq), int(p.sent)*64)]...))
	}
	remote, data := wqe.Raddr{Addr: 8}, wqe.Data{ByteCount: 100}
	for kind := range byte(5) {
		add(7, 0, kind, 0, ctrl(wqe.OpRDMAWrite), remote, data)
		add(7, 1, kind, 1, ctrl(wqe.OpRDMAWriteImm), remote, data, []byte("inline"))
		add(7, 0, kind, 0, ctrl(wqe.OpRDMARead), remote, data, data)
		add(7, 0, kind, 2, ctrl(wqe.OpSend), data, data)
		add(7, 0, kind, 0, ctrl(wqe.OpAtomicFA), remote, wqe.Atomic{SwapAdd: 1}, wqe.Data{ByteCount: 8})
		add(7, 0, kind, 0, wqe.Ctrl{Opcode: wqe.OpAtomicMaskedCS, OpMod: 8}, remote, wqe.MaskedCS4{Swap: 1, SwapMask: 3}, wqe.Data{ByteCount: 4})
		add(23, 0, kind, 2, ctrl(wqe.OpSendInval), data)
		add(18, 0, kind, 0, ctrl(wqe.OpUMR), fill(1, mkeyAll, 64, x.local.klm(0, 64))...)
		add(18, 1, kind, 0, ctrl(wqe.OpUMR), ps[0].bind(2, 7, x.local, 0, 64, mkeyAll)...)
		add(18, 2, kind, 0, ctrl(wqe.OpUMR), interleaved(1, mkeyAll, 64, 16, wqe.RepeatEntry{ByteCount: 4, MKey: x.local.key, Addr: x.local.addr})...)
		add(2, 0, kind, 0, wqe.Ctrl{Opcode: wqe.OpMMO, OpMod: 1}, wqe.MMOMeta{}, data, data)
		add(2, 2, kind, 0, ctrl(wqe.OpDump), data)
	}
	add(14, 2, 0, 3, ctrl(wqe.OpSend), qs[2].to(), []byte("datagram"))
	add(32, 0, 0, 0, ctrl(wqe.OpWait), wqe.Wait{Index: 1})
	add(32, 0, 0, 0, ctrl(wqe.OpSendEn), wqe.Wait{Index: 1})
	add(0, 0, 0, 0, ctrl(wqe.OpNop))

	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) < 7 {
			t.Skip()
		}
		x := newWQETarget(t)
		keysA, keysB, enabled := x.keysA, x.keysB, x.enabled
		patch, p, q, ring := in[0], x.ps[in[1]%3], x.qs[in[1]%3], in[7:]
		kind := int(in[2]) % len(keysA)
		sends, receives := binary.BigEndian.Uint16(in[3:]), binary.BigEndian.Uint16(in[5:])
		p.reset(q)
		q.reset(p)
		enabled.reset(enabled)
		enabled.post(ctrl(wqe.OpNop))
		clear(p.sq)
		clear(q.rq)
		copy(p.sq, ring)
		if patch&4 != 0 {
			for at := 0; at < len(q.rq); at += q.stride {
				wqe.PutRecv(q.rq[at:at+q.stride], []wqe.Data{x.far.data(at%256, 64), x.far.data(200, 100)})
			}
		} else if len(ring) > 0 {
			copy(q.rq, ring[len(ring)/2:])
		}
		be := binary.BigEndian
		for at := 0; at < len(p.sq); at += 64 {
			b := p.sq[at:]
			if patch&1 != 0 {
				be.PutUint32(b[24:], x.e.Keys.FindIndex(keysB[kind]).Key)
				be.PutUint64(b[16:], x.e.Keys.FindIndex(keysB[kind]).Base+uint64(b[23])*4)
			}
			for _, d := range []int{16, 32, 48} {
				if patch&2 != 0 && (d > 16 || patch&1 == 0) {
					k := x.e.Keys.FindIndex(keysA[kind&^1])
					be.PutUint32(b[d+4:], k.Key)
					be.PutUint64(b[d+8:], k.Base+uint64(b[d+15]))
				}
			}
			if patch&8 != 0 {
				be.PutUint32(b[16:], qkey)
				be.PutUint32(b[24:], 1<<31|q.num)
			}
			if patch&16 != 0 {
				k := keysA[kind]
				if patch&1 != 0 || b[3] == byte(wqe.OpSendInval) {
					k = keysB[kind]
				}
				be.PutUint32(b[12:], x.e.Keys.FindIndex(k).Key)
			}
			if patch&32 != 0 {
				be.PutUint32(b[28:], []uint32{x.cqA.num, enabled.num, p.num, x.cqB.num}[b[27]&3])
			}
		}
		shm.BE32At(p.rec, 4).Publish(uint32(sends))
		shm.BE32At(q.rec, 0).Publish(uint32(receives))
		x.run2(p, q)
		x.check()
	})
}

// run2 is run for queue pairs that may wait for a CQ without end. It puts them into error.
func (x *target) run2(ends ...*end) {
	x.run()
	for _, p := range ends {
		p.toState(control.StateERR)
	}
	x.run()
}

// FuzzEngineControl makes any control requests of any client to an engine that has work.
// Small numbers in requests stand for the client's objects.
func FuzzEngineControl(f *testing.F) {
	x := newTarget(f)
	add := func(op control.Op, m control.Message) {
		payload := control.Append(nil, op, 0, 1, m)[control.HeaderSize:]
		f.Add(append([]byte{byte(op), byte(len(payload))}, payload...))
	}
	for _, m := range []struct {
		op control.Op
		m  control.Message
	}{
		{control.OpAllocPD, &control.Empty{}}, {control.OpDeallocPD, &control.PD{PDN: 1}},
		{control.OpCreateRegion, &control.RegionSize{Size: 4096}}, {control.OpPlaceRegion, &control.Placement{ID: 1, Addr: 0x1000}}, {control.OpDropRegion, &control.RegionID{ID: 1}},
		{control.OpRegMR, &control.MR{PDN: 1, Access: 31, Addr: x.a.base, Length: 64, IOVA: 7}}, {control.OpDeregMR, &control.Key{Key: 1}},
		{control.OpCreateChannel, &control.Empty{}}, {control.OpDestroyChannel, &control.Channel{ID: 1}},
		{control.OpCreateCQ, &control.CQ{Buf: x.a.base, DBRec: x.a.base + 1<<20, LogSize: 3, LogCQE: 6, Channel: 1}}, {control.OpDestroyCQ, &control.CQN{CQN: 1}},
		{control.OpCreateQP, &control.QP{PDN: 1, SendCQN: 1, RecvCQN: 1, SQ: x.a.base, RQ: x.a.base + 4096, DBRec: x.a.base + 1<<20, LogSQ: 4, LogRQ: 4, LogRQStride: 6}},
		{control.OpCreateQP, &control.QP{PDN: 1, SendCQN: 1, RecvCQN: 1, SQ: x.a.base, DBRec: x.a.base + 1<<20, LogSQ: 4, NoReceive: 1, SRQN: 1, Type: 2}},
		{control.OpModifyQP, &control.QPAttr{QPN: 1, Mask: control.AttrState, State: control.StateERR}}, {control.OpQueryQP, &control.QPN{QPN: 1}},
		{control.OpDestroyQP, &control.QPN{QPN: 1}},
		{control.OpCreateSRQ, &control.SRQ{PDN: 1, Ring: x.a.base, DBRec: x.a.base + 1<<20, LogSize: 3, LogStride: 6}},
		{control.OpModifySRQ, &control.SRQLimit{SRQN: 1, Limit: 2}}, {control.OpQuerySRQ, &control.SRQN{SRQN: 1}}, {control.OpDestroySRQ, &control.SRQN{SRQN: 1}},
		{control.OpResizeCQ, &control.ResizeCQ{CQN: 1, LogSize: 4, LogCQE: 7, Buf: x.a.base + 2<<20}},
		{control.OpAllocMW, &control.MW{PDN: 1, Kind: 2}}, {control.OpCreateMkey, &control.Mkey{PDN: 1, Entries: 4}},
		{control.OpReregMR, &control.ReregMR{Key: 1, What: 7, PDN: 1, Access: 1, Addr: x.a.base, Length: 8}}, {control.OpOpenEvents, &control.Empty{}},
		{control.OpAddress, &control.Empty{}}, {control.OpSetPeer, &control.Peer{QPN: 1, GUID: 9, GID: [16]byte{10: 0xff, 11: 0xff, 12: 192, 15: 1}}},
		{control.OpAnnounce, &control.Announce{Value: "x"}}, {control.OpAnnounceTo, &control.AnnounceTo{Value: "x"}}, {control.OpNextAnnouncement, &control.AnnouncementPlace{}}, {control.OpNextChange, &control.ChangesSince{Notify: 1}},
		{control.OpWatch, &control.Watch{All: 1, Bytes: trace.LeastRing}}, {control.OpWatch, &control.Watch{Program: "x", Bytes: trace.LeastRing}},
		{control.OpSetFaults, &control.Faults{Total: 21, Text: `{"rules":[{"rnr":2}]}`}}, {control.OpQueryFault, &control.FaultRule{}},
		{control.OpCreateDCT, &control.DCT{PDN: 1, SRQN: 1, CQN: 1, Key: 1}},
		{control.OpCreateQP, &control.QP{PDN: 1, SendCQN: 1, SQ: x.a.base, DBRec: x.a.base + 1<<20, LogSQ: 4, NoReceive: 1, Type: control.QPTypeDCI, Streams: 2}},
		{control.OpCreateQP, &control.QP{PDN: 1, SendCQN: 1, SQ: x.a.base, DBRec: x.a.base + 1<<20, LogSQ: 4, NoReceive: 1, Doorbells: control.DoorbellGuarded}},
		{control.OpCreateQP, &control.QP{PDN: 1, RecvCQN: 1, RQ: x.a.base, DBRec: x.a.base + 1<<20, LogRQ: 4, LogRQStride: 6, NoSend: 1}},
		{control.OpCreateSRQ, &control.SRQ{PDN: 1, Ring: x.a.base, DBRec: x.a.base + 1<<20, LogSize: 3, LogStride: 6, Cyclic: 1}},
	} {
		add(m.op, m.m)
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		x := newTarget(t)
		p, q := pair(x.a, x.b)
		c, err := x.d.nic().NewLocal("fuzzer")
		if err != nil {
			t.Fatal(err)
		}
		clients := len(x.e.Clients)
		h := host{rig: x.rig, c: c, base: x.a.base}
		big, err := shm.Heap(4 << 20)
		if err != nil {
			t.Fatal(err)
		}
		h.addRegion(h.base, big)
		h.allocPD()
		for requests := 0; len(in) >= 2 && requests < mostActs; requests++ {
			op, n := control.Op(in[0]), min(int(in[1]), len(in)-2)
			payload := append([]byte(nil), in[2:2+n]...)
			in = in[2+n:]
			rename(c, payload)
			var m object.RequestMemory
			if op == control.OpCreateRegion {
				if m, err = c.MakeMemory(payload); err != nil {
					continue
				}
			}
			_, reply, err := c.Request(op, payload, m)
			if err != nil && m.Region != nil {
				c.Device.FreeMemory(c.UID, m.Region)
			}
			for _, f := range []*os.File{reply.Events, reply.Rings} {
				if f != nil {
					_ = f.Close()
				}
			}
			p.post(ctrl(wqe.OpRDMAWrite), x.far.raddr(0), x.local.data(0, 500))
			x.e.Step()
		}
		x.settle()
		p.scq.all()
		if p.state() != control.StateRTS || q.state() != control.StateRTS {
			t.Fatal("somebody else's queue pair is not what it was")
		}
		_ = c.Close()
		if len(x.e.Clients) != clients-1 {
			t.Fatal("the client is still there")
		}
		x.check()
	})
}

// rename replaces small numbers in a request by numbers of the client's own objects, so that
// the request names objects that exist. The same request names the same objects in each run.
func rename(c *request.Client, payload []byte) {
	var numbers []uint32
	for _, list := range [][]uint32{slices.Sorted(maps.Keys(c.PDs)), slices.Sorted(maps.Keys(c.CQs)), slices.Sorted(maps.Keys(c.QPs)), slices.Sorted(maps.Keys(c.SRQs))} {
		numbers = append(numbers, list...)
	}
	for _, k := range sorted(c.MRs) {
		numbers = append(numbers, k.Key)
	}
	le := binary.LittleEndian
	for at := 0; at+4 <= len(payload) && at < 16 && len(numbers) > 0; at += 4 {
		if v := le.Uint32(payload[at:]); v > 0 && v < 32 {
			le.PutUint32(payload[at:], numbers[int(v)%len(numbers)])
		}
	}
}

// FuzzEngineRecords publishes any values, in any order, in all words that clients publish:
// doorbell records of queue pairs, of a shared receive queue and of a CQ, arm words, and
// registers.
func FuzzEngineRecords(f *testing.F) {
	f.Add([]byte{0, 0, 0, 4, 2, 0, 0, 3, 3, 0, 0, 9, 5, 0, 0, 2, 7, 16, 0, 1, 8, 0, 0, 1})
	f.Add([]byte{0, 0, 0, 16, 0, 0, 0, 1, 2, 0, 255, 255, 10, 0, 0, 8, 2, 0, 0, 7})
	f.Add([]byte{4, 0, 0, 8, 3, 0, 0, 1, 11, 0, 0, 1, 11, 0, 0, 18, 3, 0, 0, 3, 11, 1, 0, 3, 11, 1, 9, 3})
	f.Add([]byte{3, 0, 0, 5, 6, 255, 255, 255, 5, 0, 0, 255, 4, 0, 0, 2, 1, 0, 0, 9})
	f.Fuzz(publishRecords)
}

func publishRecords(t *testing.T, in []byte) {
	x := newTarget(t)
	s := x.b.srq(control.SRQ{})
	p, q := x.a.qp(control.QP{}, x.cqA, x.cqA), s.on(control.QPTypeRC, x.cqB)
	small := x.a.cq(control.CQ{LogSize: 2})
	d, e := x.a.qp(control.QP{BlueFlame: 3}, small, x.cqA), x.b.qp(control.QP{}, x.cqB, x.cqB)
	regs := x.a.c.UAR.Bytes()
	places := []func(v uint32){
		shm.BE32At(p.rec, 4).Publish, shm.BE32At(p.rec, 0).Publish, shm.BE32At(s.rec, 0).Publish,
		shm.BE32At(d.rec, 4).Publish, shm.BE32At(e.rec, 0).Publish, shm.BE32At(small.rec, 0).Publish,
		shm.BE32At(x.cqA.rec, 0).Publish, shm.BE32At(x.cqA.rec, 4).Publish,
		func(v uint32) { shm.BE64At(regs, 0x20).Publish(uint64(v)<<32 | uint64(x.cqA.num)) },
		func(v uint32) { shm.BE64At(regs, 0x800).Publish(uint64(v)<<32 | uint64(p.num)<<8) },
		func(v uint32) { s.link(uint16(v&7), uint16(v>>3)) },
		func(v uint32) { // writes a WQE of the ring, with one byte changed, to the register
			b := *(*[wqe.BlockSize]byte)(d.sq[v&15*wqe.BlockSize:])
			b[v>>8&63] ^= uint8(v >> 16)
			d.q.SQ.BlueFlame.Half[v>>4&1].PublishHead(&b)
		},
	}
	for _, ends := range [][2]*end{{p, q}, {d, e}} {
		ends[0].up(ends[1])
		ends[1].up(ends[0])
	}
	for i := range uint16(8) {
		s.put(i, x.far.data(int(i)*64, 64))
		s.link(i, i+1)
	}
	for range 5 { // WQEs in the rings, which the input may announce
		p.write(ctrl(wqe.OpSend), x.local.data(0, 60))
		p.write(wqe.Ctrl{Opcode: wqe.OpRDMAWriteImm, Flags: wqe.CEEvent | wqe.FlagSolicited}, x.far.raddr(0), x.local.data(0, 300))
		p.write(ctrl(wqe.OpRDMARead), x.far.raddr(0), x.local.data(0, 300))
		d.write(ctrl(wqe.OpSend), x.local.data(0, 100))
		d.write(ctrl(wqe.OpRDMAWrite), x.far.raddr(0), x.local.data(0, 60))
	}
	for acts := 0; len(in) >= 4 && acts < mostActs; acts++ {
		places[int(in[0])%len(places)](uint32(in[0])<<24 | uint32(in[1])<<16 | uint32(in[2])<<8 | uint32(in[3]))
		x.e.Step()
		in = in[4:]
	}
	x.run2(p, q, d, e)
	x.check()
}
