package sanitize

import (
	"bytes"
	"testing"

	"github.com/nicless/nicless/trace"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

func source(client uint32, at, n uint64) trace.Change {
	return trace.Change{Addr: memory(client) + at, Length: n, Key: keyOf(client), Was: 1, Is: 2}
}

func TestSendBufferChanged(t *testing.T) {
	x := pair(t, Options{})
	i := x.post(0x51, write(1, 0, 2, 0, 64))
	x.change(trace.ChangedSource, 0x51, i, source(1, 0, 64))
	x.execute(0x51, i, 64, firstCQ+1)
	x.requireCodes("send-buffer-changed")
	r := x.reports[0]
	require.Equal(t, "pid 4711 (put) has changed 64 bytes that a WQE sends, after the WQE was posted and before it was executed", r.Text)
	require.Len(t, r.Accesses, 2)
	require.EqualValues(t, 0x51, r.Accesses[0].QP)
	require.Equal(t, "RDMA_WRITE", r.Accesses[0].Opcode)
	require.Equal(t, "store", r.Accesses[1].Does)
}

// If the device has written the bytes, for a WQE of a peer or of the program, the program did not.
func TestDeviceChangesSource(t *testing.T) {
	for name, moved := range map[string]bool{"while it is in flight": false, "after it was moved": true} {
		t.Run(name, func(t *testing.T) {
			x := pair(t, Options{})
			i := x.post(0x51, write(1, 0, 2, 0, 64))
			j := x.post(0x52, write(2, 4096, 1, 32, 64))
			if moved {
				x.execute(0x52, j, 64, firstCQ+2)
			}
			x.change(trace.ChangedSource, 0x51, i, source(1, 0, 64))
			x.execute(0x51, i, 64, firstCQ+1)
			x.requireCodes("race")
		})
	}
}

// A READ whose result goes to memory that a later WQE with a fence sends.
func TestFencedReadChangesSource(t *testing.T) {
	x := pair(t, Options{})
	i := x.post(0x51, as(wqe.OpRDMARead, write(1, 0, 2, 0, 64)))
	m := write(1, 0, 2, 512, 64)
	m.flags |= wqe.FenceVerbs
	j := x.post(0x51, m)
	x.execute(0x51, i, 64, firstCQ+1)
	x.change(trace.ChangedSource, 0x51, j, source(1, 0, 64))
	x.execute(0x51, j, 64, firstCQ+1)
	x.requireCodes()
}

// Packets of a link may have changed memory.
func TestLinkChangesSource(t *testing.T) {
	x := pair(t, Options{})
	x.queueOn(0x60, 1, 0x61, trace.RC, 0, 1)
	i := x.post(0x51, write(1, 0, 2, 0, 64))
	x.add(trace.Event{Kind: trace.KindReceived, Queue: 0x60, Index: 1})
	x.change(trace.ChangedSource, 0x51, i, source(1, 0, 64))
	x.requireCodes()
}

func TestReceiveBufferChanged(t *testing.T) {
	for _, shared := range []bool{false, true} {
		x := pair(t, Options{Notes: true})
		part, queue := trace.ChangedBuffer, uint32(0x52)
		if shared {
			part, queue = trace.ChangedSharedBuffer, 0x70
			x.add(trace.Event{Kind: trace.KindSRQ, Queue: 0x70, Index: trace.KeyMade, Value: 2, Data: trace.SRQSetup{}.Append(nil)})
		}
		b := entry(keyOf(2), memory(2), 128, shared)
		x.postReceive(queue, 2, 0, shared, b)
		x.postReceive(queue, 2, 1, shared, entry(keyOf(2), memory(2)+128, 128, shared))
		i := x.post(0x51, send(1, 0, 64))
		x.change(part, queue, 0, source(2, 0, 128))
		x.deliver(0x51, i, 64, 0x52, queue, 0, b, shared)
		if shared {
			x.requireCodes("receive-buffer-changed (note)")
		} else {
			x.requireCodes("receive-buffer-changed")
		}
		require.Equal(t, shared, x.reports[0].Accesses[0].SRQ != 0)
	}
}

// The pingpong programs of rdma-core send from the memory that they have posted for messages, 500 times. They
// write to it, and messages come into it.
func TestPingpong(t *testing.T) {
	x := pair(t, Options{})
	b := [2][]byte{entry(keyOf(1), memory(1), 128, false), entry(keyOf(2), memory(2), 128, false)}
	for i := range uint16(500) {
		x.postReceive(0x51, 1, i, false, b[0])
		x.postReceive(0x52, 2, i, false, b[1])
	}
	for round := range uint16(100) {
		i := x.post(0x51, send(1, 0, 128))
		x.change(trace.ChangedBuffer, 0x51, round, source(1, 0, 128)) // -c
		x.deliver(0x51, i, 128, 0x52, 0x52, round, b[1], false)
		x.poll(recvCQ + 2)
		x.change(trace.ChangedBuffer, 0x52, round+1, source(2, 0, 128)) // the message before
		j := x.post(0x52, send(2, 0, 128))
		x.deliver(0x52, j, 128, 0x51, 0x51, round, b[0], false)
		x.poll(recvCQ + 1)
		x.poll(firstCQ + 1)
		x.poll(firstCQ + 2)
	}
	x.requireCodes()
}

func TestRewritten(t *testing.T) {
	x := pair(t, Options{})
	x.postReceive(0x52, 2, 0, false, entry(keyOf(2), memory(2), 128, false))
	i := x.post(0x51, send(1, 0, 64))
	was := bytes.Repeat([]byte{1}, 64)
	is := bytes.Clone(was)
	is[13] = 7
	e := trace.Event{Kind: trace.KindChanged, Queue: 0x51, Index: i, Count: uint16(trace.ChangedWQE), Data: append(was, is...)}
	x.add(e)
	x.add(trace.Event{Kind: trace.KindChanged, Queue: 0x52, Count: uint16(trace.ChangedEntry), Data: append(was[:16], is[:16]...)})
	x.requireCodes("wqe-rewritten", "receive-rewritten")
	require.Contains(t, x.reports[0].Text, "from byte 13 on it was 01 01 01 01 01 01 01 01, and is 07 01 01 01")
	require.EqualValues(t, i, *x.reports[0].Accesses[1].Index)
}

// Without a completion, memory belongs to the device after the WQE was executed, too. The program may know
// that the message has arrived because its peer has answered, or, if that is possible, from a socket.
func TestUnsignaledSourceChanged(t *testing.T) {
	unsignaled := write(1, 0, 2, 0, 64)
	unsignaled.flags = 0
	for name, c := range map[string]struct {
		strict bool
		before func(x *script)
		want   []string
	}{
		"at once":            {true, func(*script) {}, []string{"send-buffer-changed"}},
		"perhaps it knows":   {false, func(*script) {}, []string{"send-buffer-changed (note)"}},
		"the peer answers":   {true, func(x *script) { x.do(0x52, write(2, 8192, 1, 8192, 8), firstCQ+2) }, nil},
		"a later completion": {true, func(x *script) { x.do(0x51, write(1, 512, 2, 512, 8), firstCQ+1) }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			x := pair(t, Options{Strict: c.strict, Notes: true})
			i := x.post(0x51, unsignaled)
			x.execute(0x51, i, 64, 0)
			c.before(x)
			x.change(trace.ChangedSource, 0x51, i, source(1, 0, 64))
			x.requireCodes(c.want...)
		})
	}
}

// A WQE that writes to memory which no event describes may have changed anything.
func TestUnknownMemoryChangesSource(t *testing.T) {
	x := pair(t, Options{})
	i := x.post(0x51, write(1, 0, 2, 0, 64))
	j := x.post(0x52, message{op: wqe.OpRDMAWrite, key: keyOf(2), addr: memory(2) + 4096, n: 64, rkey: 0x7777, raddr: 5})
	x.execute(0x52, j, 64, 0)
	x.change(trace.ChangedSource, 0x51, i, source(1, 0, 64))
	x.requireCodes()
}

// Nobody reads the slot of a WQE that was executed. UCX writes it again before a completion says so.
func TestExecutedIsRewritten(t *testing.T) {
	x := pair(t, Options{Notes: true})
	i := x.post(0x51, write(1, 0, 2, 0, 64))
	x.execute(0x51, i, 64, 0)
	x.add(trace.Event{Kind: trace.KindChanged, Queue: 0x51, Index: i, Count: uint16(trace.ChangedWQE), Data: make([]byte, 128)})
	x.requireCodes("wqe-rewritten (note)")
}

// A program that posts memory for messages while it sends from there does not mind what comes.
func TestPostedWhileSent(t *testing.T) {
	x := pair(t, Options{Notes: true})
	x.post(0x52, send(2, 0, 64))
	x.postReceive(0x52, 2, 0, false, entry(keyOf(2), memory(2), 128, false))
	x.change(trace.ChangedBuffer, 0x52, 0, source(2, 0, 128))
	x.requireCodes("receive-buffer-changed (note)")
}
