// Package tracetest makes a trace for the tests of what reads traces. Its WQEs, CQEs and packets are the
// golden vectors of this tree; only their places (queue pair, index) are those of the trace.
package tracetest

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/internal/vectors"
	"github.com/nicless/nicless/packet"
	"github.com/nicless/nicless/trace"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// Clock is the clock of the traces: 2026-01-02 10:00:00 UTC, with ticks of a nanosecond.
var Clock = trace.Clock{Hz: 1e9, Ticks: 5e9, Unix: 1767348000e9, GUID: 0x0250_56ff_fe00_0001}

// A Trace is a list of events that grows. Each event comes 100 ns after the one before.
type Trace struct {
	Events []trace.Event

	t    testing.TB
	time uint64
	next map[uint32]uint16 // index of the next WQE of each queue pair
	cqes map[uint32]uint64 // producer index of each completion queue
}

// New returns a trace without events.
func New(t testing.TB) *Trace {
	return &Trace{t: t, time: Clock.Ticks, next: map[uint32]uint16{}, cqes: map[uint32]uint64{}}
}

// Add adds an event, and sets its number and time.
func (x *Trace) Add(e trace.Event) {
	x.time += 100
	e.Number, e.Time = uint32(len(x.Events)), x.time
	x.Events = append(x.Events, e)
}

// Queue adds a queue pair in state RTS, on the GID 10.0.0.1, whose peer is on the GID 10.0.0.2. Its CQs are
// 0x3 and 0x4. It has 64 blocks, 16 receives and an MTU of 1024.
func (x *Trace) Queue(qp, client, peer uint32, transport trace.Transport, port uint32) {
	q := trace.QueueInfo{SendCQ: 3, RecvCQ: 4, Peer: peer, SendPSN: qp * 16, RecvPSN: peer * 16,
		SendBlocks: 64, RecvEntries: 16, Port: port, MTU: 1024, GID: gid(1), PeerGID: gid(2)}
	if transport == trace.UD {
		q.PeerGID = [16]byte{}
	}
	x.Add(trace.Event{Kind: trace.KindQueue, Queue: qp, Index: uint16(trace.RTS), Count: uint16(transport),
		Value: uint64(client), Data: q.Append(nil)})
}

// Replay returns what is recorded for a replay of two queue pairs that firmware commands have made: 0x51 with
// a collapsed completion queue, which registers start, and 0x52, which only receives, into a cyclic queue. A
// third one, 0x53, is guarded.
func Replay(t testing.TB) []trace.Event {
	x := New(t)
	x.Add(trace.Event{Kind: trace.KindClient, Queue: 1, Value: 4711, Data: []byte("put")})
	x.Add(trace.Event{Kind: trace.KindCQ, Queue: 3, Index: trace.KeyMade, Value: 1,
		Data: trace.CQSetup{LogSize: 10, LogEntry: 6, Flags: 3}.Append(nil)})
	x.Add(trace.Event{Kind: trace.KindSRQ, Queue: 5, Index: trace.KeyMade, Value: 1,
		Data: trace.SRQSetup{PD: 2, LogSize: 4, LogStride: 5, Cyclic: true}.Append(nil)})
	for i, s := range []trace.QueueSetup{
		{PD: 2, Access: 7, Doorbells: trace.RegisterStarts},
		{PD: 2, Access: 7, Flags: trace.NoSends},
		{PD: 2, Access: 7, Flags: trace.OwnReceives, LogStride: 4, Doorbells: trace.Guarded},
	} {
		qp := 0x51 + uint32(i)
		x.Queue(qp, 1, qp, trace.RC, 0)
		e := &x.Events[len(x.Events)-1]
		e.Data = s.Append(e.Data)
	}
	list := trace.KeyInfo{Addr: 0x1000, Length: 12, Client: 1}.Append(nil)
	list = trace.KeySetup{PD: 2, Entries: 4}.Append(list)
	pieces := []trace.KeyPiece{{Addr: 0x2000, N: 8, Key: 0x100}, {Addr: 0x1000, N: 4, Key: 0x200}}
	list = trace.KeyList{Pieces: pieces}.Append(list)
	x.Add(trace.Event{Kind: trace.KindKey, Queue: 0x300, Index: trace.KeyChanged, Count: 7, Data: list})
	x.Add(trace.Event{Kind: trace.KindReceive, Queue: 5, Index: 1, Count: 1, Value: 0x52,
		Data: make([]byte, 32)})
	payload := []byte("bytes")
	x.Add(trace.Event{Kind: trace.KindPayload, Queue: 0x51, Value: trace.PayloadValue(0, payload),
		Data: payload})
	x.Add(trace.Event{Kind: trace.KindSRQ, Queue: 5, Index: trace.KeyGone, Value: 1,
		Data: trace.SRQSetup{}.Append(nil)})
	return x.Events
}

func gid(n byte) [16]byte { return [16]byte{10: 0xff, 11: 0xff, 12: 10, 15: n} }

// Post adds the doorbell and the fetch of WQEs, by the names of their vectors. It returns their indices.
func (x *Trace) Post(qp uint32, names ...string) (at []uint16) {
	first := x.next[qp]
	var b []byte
	for _, name := range names {
		w := bytes.Clone(vectors.Bytes(x.t, "send_wqe", name))
		ds := int(w[7] & 0x3f)
		w = append(w, make([]byte, -len(w)&(wqe.BlockSize-1))...)
		w = w[:(ds*wqe.UnitSize+wqe.BlockSize-1)/wqe.BlockSize*wqe.BlockSize]
		binary.BigEndian.PutUint16(w[1:], x.next[qp])
		binary.BigEndian.PutUint32(w[4:], qp<<8|uint32(w[7]))
		at = append(at, x.next[qp])
		x.next[qp] += uint16(len(w) / wqe.BlockSize)
		b = append(b, w...)
	}
	blocks := x.next[qp] - first
	bell := trace.Event{Kind: trace.KindDoorbell, Queue: qp, Index: first, Count: blocks}
	bell.Value = uint64(x.next[qp])
	x.Add(bell)
	x.Add(trace.Event{Kind: trace.KindFetch, Queue: qp, Index: first, Count: blocks, Data: b})
	return at
}

// Execute adds that the blocks from an index on to the last that was posted have been executed.
func (x *Trace) Execute(qp uint32, index uint16, bytes uint64) {
	blocks := x.next[qp] - index
	x.Add(trace.Event{Kind: trace.KindExecute, Queue: qp, Index: index, Count: blocks, Value: bytes})
}

// CQE adds a CQE, by the name of its vector.
func (x *Trace) CQE(cq, qp uint32, counter uint16, name string) {
	b := bytes.Clone(vectors.Bytes(x.t, "cqe", name))
	binary.BigEndian.PutUint32(b[cqe.OffQPN:], uint32(b[cqe.OffQPN])<<24|qp)
	binary.BigEndian.PutUint16(b[cqe.OffCounter:], counter)
	n := x.cqes[cq]
	x.cqes[cq]++
	x.Add(trace.Event{Kind: trace.KindCQE, Queue: cq, Index: uint16(n), Value: n, Data: b})
}

// Do adds a WQE of this queue pair and all that comes of it: it is posted, moves a number of bytes, has a
// CQE, and is executed, in the order of the engine's events. If a vector of the peer's CQE is named, the
// peer gets it.
func (x *Trace) Do(qp uint32, name string, moved uint64, done string, peer uint32, received string) {
	at := x.Post(qp, name)[0]
	if received != "" {
		x.CQE(4, peer, at, received)
	}
	x.CQE(3, qp, at, done)
	x.Execute(qp, at, moved)
}

// Packet adds a packet that a queue pair has sent or received on port 1, by the name of its vector. The trace
// has at most n bytes of it. to is the queue pair that the packet goes to.
func (x *Trace) Packet(kind trace.Kind, qp, to uint32, name string, n int) {
	b := vectors.Bytes(x.t, "roce", name)
	b = bytes.Clone(b[:len(b)-packet.ICRCSize])
	binary.BigEndian.PutUint32(b[4:], to)
	heads := packet.Opcode(b[0]).Info().HeaderSize
	x.Add(trace.Event{Kind: kind, Queue: qp, Index: 1, Count: uint16(heads), Value: uint64(len(b)),
		Data: b[:min(n, len(b))]})
}

// HostileName is the name of a client that would change what a terminal shows.
const HostileName = "\x1b[2Jgone\n\u202e\"\xff"

// Sample returns a trace with all kinds of events.
func Sample(t testing.TB) []trace.Event {
	x := New(t)
	client := func(n uint32, pid uint64, name string) {
		x.Add(trace.Event{Kind: trace.KindClient, Queue: n, Value: pid, Data: []byte(name)})
	}
	client(1, 4711, "put")
	client(2, 4712, HostileName)
	key := trace.KeyInfo{Addr: 0x7f1200001000, Length: 1 << 20, Client: 2}
	x.Add(trace.Event{Kind: trace.KindKey, Queue: 0x1a201, Index: trace.KeyMade, Count: 7,
		Data: key.Append(nil)})
	x.Queue(0x51, 1, 0x52, trace.RC, 0)
	x.Queue(0x52, 2, 0x51, trace.RC, 0)
	x.Queue(0x53, 1, 0x54, trace.UC, 0)
	x.Queue(0x54, 2, 0x53, trace.UC, 0)
	x.Queue(0x55, 1, 0, trace.UD, 0)
	x.Queue(0x1, 2, 0, trace.UD, 0)
	x.Queue(0x56, 1, 0x14, trace.RC, 1)

	x.Do(0x51, "write_signaled", 128, "req_write", 0, "")
	x.Do(0x51, "send", 1500, "req_send", 0x52, "resp_send")
	x.Do(0x51, "send_sge_3_solicited", 1543, "req_send", 0x52, "resp_send_solicited")
	x.Do(0x51, "send_imm", 10, "req_send_imm", 0x52, "resp_send_imm")
	x.Do(0x51, "send_inval", 10, "req_send_inval", 0x52, "resp_send_inv")
	x.Do(0x51, "write_imm", 4096, "req_write_imm", 0x52, "resp_write_imm")
	x.Do(0x51, "read_sge_2_fenced", 64, "req_read", 0, "")
	x.Do(0x51, "read", 1<<20, "req_read", 0, "")
	x.Do(0x51, "atomic_fa_1", 8, "req_atomic_fa", 0, "")
	x.Do(0x51, "atomic_cs", 8, "req_atomic_cs", 0, "")
	x.Do(0x51, "masked_fa_8_two_fields", 8, "req_atomic_fa", 0, "")
	x.Do(0x51, "umr_mr_list_3", 0, "req_umr", 0, "")
	x.Do(0x51, "wait_cq", 0, "req_nop", 0, "")
	// Three WQEs with one doorbell, of which the first is unsignaled.
	list := x.Post(0x51, "write_unsignaled", "write_inline_44", "write_sge_4")
	x.CQE(3, 0x51, list[1], "req_write")
	x.CQE(3, 0x51, list[2], "req_write")
	x.Execute(0x51, list[0], 128+44+1000)
	// A series of three WQEs, with CQEs that differ only in their counters.
	list = x.Post(0x51, "write_signaled", "write_signaled", "write_signaled")
	x.CQE(3, 0x51, list[0], "req_write")
	x.Events[len(x.Events)-1].Count = 3
	x.cqes[3] += 2
	x.Execute(0x51, list[0], 3*128)
	// A fetch that ends within a WQE: its other blocks come with the next fetch.
	at := x.Post(0x51, "write_inline_220")[0]
	all := x.Events[len(x.Events)-1]
	x.Events[len(x.Events)-1].Count, x.Events[len(x.Events)-1].Data = 1, all.Data[:64]
	x.Add(trace.Event{Kind: trace.KindFetch, Queue: 0x51, Index: at + 1, Count: 3, Data: all.Data[64:]})
	x.CQE(3, 0x51, at, "req_write")
	x.Execute(0x51, at, 220)
	x.Do(0x51, "write_63ds", 976, "req_write", 0, "")

	x.Do(0x53, "send_imm", 10, "req_send_imm", 0x54, "resp_send_imm")
	x.Do(0x53, "write_imm", 4096, "req_write_imm", 0x54, "resp_write_imm")
	x.Do(0x55, "ud_send_imm_inline", 24, "req_send_imm", 0x1, "resp_ud_grh")

	// The receiver is not ready, and then it is.
	at = x.Post(0x51, "send")[0]
	x.Add(trace.Event{Kind: trace.KindWait, Queue: 0x51, Index: at, Value: uint64(trace.NoReceive)})
	x.Add(trace.Event{Kind: trace.KindSlice, Queue: 0x51, Index: at, Value: 1024})
	x.CQE(4, 0x52, at, "resp_send")
	x.CQE(3, 0x51, at, "req_send")
	x.Execute(0x51, at, 1500)

	x.Add(trace.Event{Kind: trace.KindLink, Queue: 1, Value: 1, Data: []byte("rack\x07-2")})
	at = x.Post(0x56, "write_signaled")[0]
	x.Packet(trace.KindSent, 0x56, 0x14, "rc_write_only_2", packet.MaxPacket)
	x.Packet(trace.KindSent, 0x56, 0x14, "rc_write_first_mtu4096_1", 64)
	x.Packet(trace.KindReceived, 0x56, 0x56, "rc_acknowledge_ack_1", packet.MaxPacket)
	x.Packet(trace.KindSent, 0x55, 0x99, "ud_send_only_pad3_2", packet.MaxPacket)
	x.CQE(3, 0x56, at, "req_write")

	// A key does not permit the access. The WQE after it is flushed.
	list = x.Post(0x51, "write_signaled", "write_signaled")
	x.Add(trace.Event{Kind: trace.KindFail, Queue: 0x51, Index: list[0], Count: 1,
		Value: uint64(cqe.RemoteAccess)})
	x.Add(trace.Event{Kind: trace.KindExplanation, Queue: 0x51, Index: list[0],
		Data: append([]byte("rkey-rights\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"),
			"rkey 0x1a201 has no right \x1b[31mto write"...)})
	x.CQE(3, 0x51, list[0], "err_req_rem_access")
	x.Add(trace.Event{Kind: trace.KindState, Queue: 0x51, Index: list[1],
		Count: uint16(trace.RTS)<<8 | uint16(trace.ERR)})
	x.CQE(3, 0x51, list[1], "err_req_flush")
	x.CQE(4, 0x52, 15, "err_resp_flush")

	x.Add(trace.Event{Kind: trace.KindLost, Value: 17})
	x.Add(trace.Event{Kind: trace.Kind(77), Queue: 1, Value: 2, Data: []byte{3}})
	x.Add(trace.Event{Kind: trace.KindQueueGone, Queue: 0x51})
	x.Add(trace.Event{Kind: trace.KindClientGone, Queue: 2})
	return x.Events
}

// File returns the bytes of a trace file with these events. The end is one tick after the last event.
func File(t testing.TB, events []trace.Event) []byte {
	var b bytes.Buffer
	w, err := trace.NewWriter(&b, Clock)
	require.NoError(t, err)
	for i := range events {
		require.NoError(t, w.Write(&events[i]))
	}
	require.NoError(t, w.Close(events[len(events)-1].Time+1, true))
	return b.Bytes()
}
