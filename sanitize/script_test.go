package sanitize

import (
	"encoding/binary"
	"testing"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/trace"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// testClock has ticks of a nanosecond.
var testClock = trace.Clock{Hz: 1e9, Unix: 1767348000e9}

// A script makes events and gives them to a Sanitizer. Each event comes 10 microseconds after the one before,
// which is the time of a request.
type script struct {
	t       testing.TB
	s       *Sanitizer
	number  uint32
	time    uint64
	step    uint64
	next    map[uint32]uint16 // index of the next WQE of each queue pair
	cqes    map[uint32]uint64
	reports []Report
	events  []trace.Event // all of them
}

func newScript(t testing.TB, o Options) *script {
	o.Clock = testClock
	return &script{t: t, s: New(o), step: 10_000, next: map[uint32]uint16{}, cqes: map[uint32]uint64{}}
}

// The memory of the tests: client n has the key n<<8|1 for 1 MiB at memory(n).
const (
	size       = 1 << 20
	firstCQ    = 0x10
	recvCQ     = 0x1000
	keyVariant = 1
)

func memory(client uint32) uint64 { return 0x7f0000000000 + uint64(client)<<32 }
func keyOf(client uint32) uint32  { return client<<8 | keyVariant }

func (x *script) add(e trace.Event) {
	x.time += x.step
	e.Number, e.Time = x.number, x.time
	x.number++
	x.events = append(x.events, e)
	x.reports = append(x.reports, x.s.Event(&e)...)
}

// client adds a client with a process, a key, and completion queues.
func (x *script) client(number uint32, pid uint64) {
	x.add(trace.Event{Kind: trace.KindClient, Queue: number, Value: pid, Data: []byte(`pid 1 uid 0 "put"`)})
	x.register(number, keyOf(number), memory(number), size)
	for _, cq := range []uint32{firstCQ + number, recvCQ + number} {
		x.cq(cq, number, 0)
	}
}

func (x *script) cq(number, client, flags uint32) {
	x.add(trace.Event{Kind: trace.KindCQ, Queue: number, Index: trace.KeyMade, Value: uint64(client),
		Data: trace.CQSetup{LogSize: 8, LogEntry: 6, Flags: flags}.Append(nil)})
}

func (x *script) register(client, key uint32, addr, n uint64) {
	b := trace.KeyInfo{Addr: addr, Length: n, Client: client}.Append(nil)
	x.add(trace.Event{Kind: trace.KindKey, Queue: key, Index: trace.KeyMade, Count: 15,
		Data: trace.KeySetup{From: addr}.Append(b)})
}

func (x *script) deregister(client, key uint32) {
	x.add(trace.Event{Kind: trace.KindKey, Queue: key, Index: trace.KeyGone,
		Data: trace.KeySetup{}.Append(trace.KeyInfo{Client: client}.Append(nil))})
}

// queue adds a queue pair of a client in RTS.
func (x *script) queue(qp, client, peer uint32) { x.queueOn(qp, client, peer, trace.RC, 0, 0) }

func (x *script) queueOn(qp, client, peer uint32, on trace.Transport, srq, port uint32) {
	q := trace.QueueInfo{SendCQ: firstCQ + client, RecvCQ: recvCQ + client, Peer: peer, SRQ: srq, SendBlocks: 64,
		RecvEntries: 16, Port: port}
	x.add(trace.Event{Kind: trace.KindQueue, Queue: qp, Index: uint16(trace.RTS), Count: uint16(on),
		Value: uint64(client), Data: (&trace.QueueSetup{}).Append(q.Append(nil))})
}

// pair adds two clients, 1 and 2, and a connection between their queue pairs 0x51 and 0x52.
func pair(t testing.TB, o Options) *script {
	x := newScript(t, o)
	x.client(1, 4711)
	x.client(2, 4712)
	x.queue(0x51, 1, 0x52)
	x.queue(0x52, 2, 0x51)
	return x
}

// A message is a WQE of one data segment.
type message struct {
	op         wqe.Opcode
	key        uint32
	addr       uint64
	n          uint32
	rkey       uint32
	raddr      uint64
	flags      uint8
	dqp        uint32 // UD
	waits, imm uint32
}

// write is a WRITE of a client to another one, at offsets of their memory.
func write(from uint32, at uint64, to uint32, where uint64, n uint32) message {
	return message{op: wqe.OpRDMAWrite, key: keyOf(from), addr: memory(from) + at, n: n, rkey: keyOf(to),
		raddr: memory(to) + where, flags: wqe.CEAlways}
}

func as(op wqe.Opcode, m message) message { m.op = op; return m }

func send(from uint32, at uint64, n uint32) message {
	return message{op: wqe.OpSend, key: keyOf(from), addr: memory(from) + at, n: n, flags: wqe.CEAlways}
}

// post adds the doorbell and the fetch of a WQE, and returns its index.
func (x *script) post(qp uint32, m message) uint16 {
	index := x.next[qp]
	ring := make([]byte, 4*wqe.BlockSize)
	b := wqe.Start(ring, 0)
	if m.dqp != 0 {
		b.AV(wqe.AV{CompactAV: wqe.CompactAV{Ext: true, DQP: m.dqp}})
	}
	info := m.op.Info()
	if info.Raddr {
		b.Raddr(wqe.Raddr{Addr: m.raddr, RKey: m.rkey})
	}
	if info.Atomic() {
		b.Atomic(wqe.Atomic{SwapAdd: 1})
	}
	if m.op == wqe.OpWait || m.op == wqe.OpSendEn {
		b.Wait(wqe.Wait{Number: m.waits})
	}
	if m.n > 0 {
		b.Data(wqe.Data{ByteCount: m.n, LKey: m.key, Addr: m.addr})
	}
	blocks, err := b.Finish(wqe.Ctrl{Opcode: m.op, QPN: qp, Flags: m.flags, Imm: m.imm})
	require.NoError(x.t, err)
	binary.BigEndian.PutUint16(ring[1:], index)
	x.next[qp] += uint16(blocks)
	x.add(trace.Event{Kind: trace.KindDoorbell, Queue: qp, Index: index, Count: uint16(blocks)})
	x.add(trace.Event{Kind: trace.KindFetch, Queue: qp, Index: index, Count: uint16(blocks), Data: ring[:blocks*wqe.BlockSize]})
	return index
}

// execute adds that a WQE moves bytes, has its completion in a queue, unless that is 0, and is executed.
func (x *script) execute(qp uint32, index uint16, n int, cq uint32) {
	if n > 0 {
		b := make([]byte, n)
		x.add(trace.Event{Kind: trace.KindPayload, Queue: qp, Index: index, Value: trace.PayloadValue(0, b), Data: b})
	}
	if cq != 0 {
		var b [cqe.Size]byte
		cqe.PutReq(&b, qp, 0, 0, index, 0, 0, cqe.MakeOpOwn(cqe.Req, 0, false, 0))
		x.cqe(cq, b[:])
	}
	x.add(trace.Event{Kind: trace.KindExecute, Queue: qp, Index: index, Count: 1, Value: uint64(n)})
}

func (x *script) cqe(cq uint32, b []byte) {
	n := x.cqes[cq]
	x.cqes[cq]++
	x.add(trace.Event{Kind: trace.KindCQE, Queue: cq, Index: uint16(n), Value: n, Data: b, Count: 1})
}

// do posts a WQE and executes it; its completion is taken.
func (x *script) do(qp uint32, m message, cq uint32) {
	x.execute(qp, x.post(qp, m), int(m.n), cq)
	x.poll(cq)
}

// poll adds that all completions of a queue were taken.
func (x *script) poll(cq uint32) {
	x.add(trace.Event{Kind: trace.KindPolled, Queue: cq, Index: uint16(x.cqes[cq]), Value: x.cqes[cq]})
}

// entry returns the entry of a receive.
func entry(key uint32, addr uint64, n uint32, shared bool) []byte {
	b := make([]byte, 32)
	list := b
	if shared {
		list = b[wqe.SRQNextSize:]
	}
	wqe.PutRecv(list, []wqe.Data{{ByteCount: n, LKey: key, Addr: addr}})
	return b
}

func (x *script) postReceive(queue, client uint32, index uint16, shared bool, entry []byte) {
	e := trace.Event{Kind: trace.KindPosted, Queue: queue, Index: index, Value: uint64(client), Data: entry}
	if shared {
		e.Count = 1
	}
	x.add(e)
}

// deliver executes a SEND that gets a receive.
func (x *script) deliver(from uint32, index uint16, n int, to, queue uint32, at uint16, entry []byte, shared bool) {
	e := trace.Event{Kind: trace.KindReceive, Queue: queue, Index: at, Value: uint64(to), Data: entry}
	if shared {
		e.Count = 1
	}
	x.add(e)
	b := make([]byte, n)
	x.add(trace.Event{Kind: trace.KindPayload, Queue: from, Index: index, Value: trace.PayloadValue(0, b), Data: b})
	var c [cqe.Size]byte
	cqe.PutResp(&c, to, 0, cqe.FlagsRQPN(0, 0, from), 0, at, uint32(n), 0, cqe.MakeOpOwn(cqe.RespSend, 0, false, 0))
	client := x.s.queues[to].client.number
	x.cqe(recvCQ+client, c[:])
	sender := x.s.queues[from].client.number
	x.execute(from, index, 0, firstCQ+sender)
}

func (x *script) change(part trace.ChangedPart, queue uint32, index uint16, c trace.Change) {
	x.add(trace.Event{Kind: trace.KindChanged, Queue: queue, Index: index, Count: uint16(part), Data: c.Append(nil)})
}

func (x *script) state(qp uint32, from, to trace.State) {
	x.add(trace.Event{Kind: trace.KindState, Queue: qp, Count: uint16(from)<<8 | uint16(to)})
}

// destroy adds what the device records when a queue pair in RTS is destroyed.
func (x *script) destroy(qp uint32) {
	x.state(qp, trace.RTS, trace.RST)
	x.add(trace.Event{Kind: trace.KindQueueGone, Queue: qp})
}

// destroyCQ adds what the device records when a completion queue of which n completions were taken is
// destroyed.
func (x *script) destroyCQ(number uint32, n uint64) {
	x.add(trace.Event{Kind: trace.KindPolled, Queue: number, Index: uint16(n), Value: n})
	x.add(trace.Event{Kind: trace.KindCQ, Queue: number, Index: trace.KeyGone, Data: trace.CQSetup{}.Append(nil)})
}

// leaveQueue adds what the device records when a queue pair goes with its client.
func (x *script) leaveQueue(qp uint32) {
	x.state(qp, trace.RTS, trace.RST)
	x.add(trace.Event{Kind: trace.KindQueueGone, Queue: qp, Value: trace.GoneWithClient})
}

func (x *script) leave(client uint32) { x.add(trace.Event{Kind: trace.KindClientGone, Queue: client}) }

// codes returns the codes of the reports, and checks that nothing is left behind.
func (x *script) codes() (list []string) {
	for i := range x.reports {
		r := &x.reports[i]
		name := string(r.Code)
		if r.Severity == Note {
			name += " (note)"
		}
		list = append(list, name)
	}
	return list
}

func (x *script) requireCodes(codes ...string) {
	x.t.Helper()
	if len(codes) == 0 {
		for i := range x.reports {
			x.t.Log(x.reports[i].String())
		}
		require.Empty(x.t, x.codes())
		return
	}
	require.Equal(x.t, codes, x.codes())
}
