package sanitize

import (
	"testing"

	"github.com/nicless/nicless/trace"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// three adds a client 3 with a connection to client 2, between 0x53 and 0x54.
func three(t *testing.T, o Options) *script {
	x := pair(t, o)
	x.client(3, 4713)
	x.queue(0x53, 3, 0x54)
	x.queue(0x54, 2, 0x53)
	return x
}

func TestTwoWriters(t *testing.T) {
	x := three(t, Options{})
	i := x.post(0x51, write(1, 0, 2, 0, 64))
	j := x.post(0x53, write(3, 0, 2, 32, 64))
	x.execute(0x51, i, 64, firstCQ+1)
	x.execute(0x53, j, 64, firstCQ+3)
	x.requireCodes("race")
	r := x.reports[0]
	require.Equal(t, "32 bytes of the memory of pid 4712 (put) are accessed twice, at least once to write, with no order between the two", r.Text)
	require.Equal(t, []uint64{4713, 4711}, []uint64{r.Accesses[0].PID, r.Accesses[1].PID})
	require.Equal(t, "earlier write", r.Accesses[1].Does)
	require.Equal(t, memory(2)+32, r.Accesses[0].Addr)

	// Each pair of queues and memory is reported once.
	for range 10 {
		i = x.post(0x51, write(1, 0, 2, 0, 64))
		j = x.post(0x53, write(3, 0, 2, 32, 64))
		x.execute(0x51, i, 64, firstCQ+1)
		x.execute(0x53, j, 64, firstCQ+3)
	}
	x.requireCodes("race")
	require.EqualValues(t, Result{Errors: 1, Repeated: 10}, x.s.Result())
}

// Each of these has two accesses in flight at the same time.
func TestAtTheSameTime(t *testing.T) {
	for name, c := range map[string]struct {
		a, b message
		want []string
	}{
		"other bytes":       {write(1, 0, 2, 0, 64), write(3, 0, 2, 64, 64), nil},
		"read of a write":   {write(1, 0, 2, 0, 64), as(wqe.OpRDMARead, write(3, 0, 2, 8, 64)), []string{"race"}},
		"two reads":         {as(wqe.OpRDMARead, write(1, 0, 2, 0, 64)), as(wqe.OpRDMARead, write(3, 0, 2, 8, 64)), nil},
		"two atomics":       {as(wqe.OpAtomicFA, write(1, 0, 2, 0, 8)), as(wqe.OpAtomicCS, write(3, 0, 2, 0, 8)), nil},
		"atomic and write":  {as(wqe.OpAtomicFA, write(1, 0, 2, 0, 8)), write(3, 0, 2, 0, 8), []string{"race"}},
		"atomic and read":   {as(wqe.OpAtomicFA, write(1, 0, 2, 0, 8)), as(wqe.OpRDMARead, write(3, 0, 2, 0, 64)), []string{"race (note)"}},
		"write of a source": {write(1, 0, 2, 0, 64), write(3, 0, 1, 0, 64), []string{"race"}},
		"a bad key":         {write(1, 0, 2, 0, 64), message{op: wqe.OpRDMAWrite, key: keyOf(3), addr: memory(3), n: 64, rkey: 0x999, raddr: memory(2)}, nil},
		"beyond the key":    {write(1, 0, 2, size-32, 64), write(3, 0, 2, size-32, 64), nil},
	} {
		t.Run(name, func(t *testing.T) {
			x := three(t, Options{Notes: true})
			i := x.post(0x51, c.a)
			j := x.post(0x53, c.b)
			x.execute(0x51, i, int(c.a.n), firstCQ+1)
			x.execute(0x53, j, int(c.b.n), firstCQ+3)
			x.requireCodes(c.want...)
		})
	}
}

// One after the other: what the second program knows, the sanitizer cannot see, unless it is told that there
// is nothing but the device.
func TestOneAfterTheOther(t *testing.T) {
	strict := Options{Strict: true}
	first := func(x *script) {
		i := x.post(0x51, write(1, 0, 2, 0, 64))
		x.execute(0x51, i, 64, firstCQ+1)
	}
	second := func(x *script) { x.do(0x53, write(3, 0, 2, 32, 64), firstCQ+3) }

	x := three(t, Options{})
	first(x)
	second(x)
	x.requireCodes()

	x = three(t, strict)
	first(x)
	x.poll(firstCQ + 1)
	second(x)
	x.requireCodes("race")

	message := func(x *script) {
		x.queue(0x55, 1, 0x56)
		x.queue(0x56, 3, 0x55)
		b := entry(keyOf(3), memory(3)+4096, 64, false)
		x.postReceive(0x56, 3, 0, false, b)
		i := x.post(0x55, send(1, 4096, 8))
		x.deliver(0x55, i, 8, 0x56, 0x56, 0, b, false)
		x.poll(recvCQ + 3)
	}
	x = three(t, strict)
	first(x)
	x.poll(firstCQ + 1)
	message(x)
	second(x)
	x.requireCodes()

	x = three(t, strict)
	first(x)
	message(x) // it was posted before the completion was polled
	second(x)
	x.requireCodes("race")

	// A WRITE that the second program can see in its memory is a message, too.
	x = three(t, strict)
	x.queue(0x55, 1, 0x56)
	x.queue(0x56, 3, 0x55)
	first(x)
	x.poll(firstCQ + 1)
	x.do(0x55, write(1, 8192, 3, 8192, 8), firstCQ+1)
	second(x)
	x.requireCodes()

	// So is what the owner of the memory has seen there, and tells.
	x = three(t, strict)
	first(x)
	x.do(0x54, write(2, 8192, 3, 8192, 8), firstCQ+2)
	second(x)
	x.requireCodes()

	// A program that has destroyed a queue pair knows that its WQEs have ended.
	x = three(t, strict)
	x.queue(0x55, 1, 0x56)
	x.queue(0x56, 2, 0x55)
	first(x)
	x.state(0x51, trace.RTS, trace.ERR)
	x.do(0x55, write(1, 0, 2, 0, 64), firstCQ+1)
	x.requireCodes()
}

// A lock in the memory of a third program: compare-and-swap takes it, a write or another atomic frees it.
func TestLock(t *testing.T) {
	const lock = 4096
	turn := func(x *script, qp, client uint32, at uint64) {
		cq := firstCQ + client
		x.do(qp, as(wqe.OpAtomicCS, write(client, 8192, 2, at, 8)), cq)
		x.do(qp, write(client, 0, 2, 0, 64), cq)
		x.do(qp, as(wqe.OpAtomicFA, write(client, 8192, 2, at, 8)), cq)
	}
	x := three(t, Options{Strict: true})
	for range 5 {
		turn(x, 0x51, 1, lock)
		turn(x, 0x53, 3, lock)
	}
	x.requireCodes()

	x = three(t, Options{Strict: true})
	turn(x, 0x51, 1, lock)
	turn(x, 0x53, 3, lock+8) // another lock
	x.requireCodes("race")
}

// A WAIT brings the order: the queue pair goes on when the completion is there.
func TestWait(t *testing.T) {
	for _, waits := range []bool{true, false} {
		x := pair(t, Options{})
		x.queue(0x55, 1, 0x56)
		x.queue(0x56, 2, 0x55)
		i := x.post(0x51, write(1, 0, 2, 0, 64))
		w := uint16(0)
		if waits {
			w = x.post(0x55, message{op: wqe.OpWait, waits: firstCQ + 1})
		}
		j := x.post(0x55, write(1, 512, 2, 0, 64))
		x.execute(0x51, i, 64, firstCQ+1)
		if waits {
			x.execute(0x55, w, 0, 0)
			x.requireCodes()
		}
		x.execute(0x55, j, 64, firstCQ+1)
		if waits {
			x.requireCodes()
		} else {
			x.requireCodes("race")
		}
	}
}

// SEND_EN starts the WQEs of another queue pair, which has them after those that came before.
func TestSendEnable(t *testing.T) {
	x := pair(t, Options{Strict: true})
	x.queue(0x55, 1, 0x56)
	x.queue(0x56, 2, 0x55)
	i := x.post(0x51, write(1, 0, 2, 0, 64))
	j := x.post(0x51, message{op: wqe.OpSendEn, waits: 0x55})
	x.execute(0x51, i, 64, 0)
	x.execute(0x51, j, 0, 0)
	x.execute(0x55, x.post(0x55, write(1, 512, 2, 0, 64)), 64, firstCQ+1)
	x.requireCodes()
}

// WQEs of one queue pair are executed in their order. But a READ brings its bytes later.
func TestOneQueue(t *testing.T) {
	x := pair(t, Options{})
	x.post(0x51, write(1, 0, 2, 0, 64))
	x.post(0x51, write(1, 0, 2, 0, 64))
	x.post(0x51, as(wqe.OpRDMARead, write(1, 0, 2, 0, 64)))
	x.requireCodes()
	x.post(0x51, write(1, 32, 2, 512, 64))
	x.requireCodes("race")
	require.Contains(t, x.reports[0].Hint, "IBV_SEND_FENCE")
}

// If the READ has brought its bytes before the WQE that sends them is found, a program that has not polled
// its completion may have polled its memory. Strict says that a fence is missing then.
func TestMissingFenceAfterTheRead(t *testing.T) {
	for name, c := range map[string]struct {
		options Options
		poll    bool
		flags   uint8
		want    []string
	}{
		"not polled":         {Options{}, false, 0, nil},
		"strict, not polled": {Options{Strict: true}, false, 0, []string{"race"}},
		"strict, fenced":     {Options{Strict: true}, false, wqe.FenceReads, nil},
		"strict, polled":     {Options{Strict: true}, true, 0, nil},
	} {
		t.Run(name, func(t *testing.T) {
			x := pair(t, c.options)
			i := x.post(0x51, as(wqe.OpRDMARead, write(1, 0, 2, 0, 64)))
			x.execute(0x51, i, 64, firstCQ+1)
			if c.poll {
				x.poll(firstCQ + 1)
			}
			m := write(1, 32, 2, 512, 64)
			m.flags |= c.flags
			x.post(0x51, m)
			x.requireCodes(c.want...)
		})
	}
}

// Two clients of one process have one memory, and one program.
func TestOneProcess(t *testing.T) {
	x := newScript(t, Options{Strict: true})
	x.client(1, 4711)
	x.client(2, 4711)
	x.client(3, 4713)
	x.queue(0x51, 1, 0x52)
	x.queue(0x52, 3, 0x51)
	x.queue(0x53, 2, 0x54)
	x.queue(0x54, 3, 0x53)
	x.do(0x51, write(1, 0, 3, 0, 64), firstCQ+1)
	x.do(0x53, write(2, 0, 3, 0, 64), firstCQ+2) // the other one has polled
	x.requireCodes()
	// Keys of both lead to the same memory.
	x.register(1, 0x5001, memory(2), size)
	i := x.post(0x52, write(3, 0, 1, 0, 64))
	x.execute(0x52, i, 64, firstCQ+3)
	x.post(0x52, message{op: wqe.OpRDMAWrite, key: keyOf(3), addr: memory(3), n: 64, rkey: 0x5001, raddr: memory(2)})
	x.post(0x54, write(3, 512, 2, 8, 64))
	x.requireCodes("race")
}

// Collapsed completion queues, and those that ignore overrun, have no consumer index that the device sees.
func TestLooseQueue(t *testing.T) {
	x := newScript(t, Options{Strict: true})
	x.client(1, 4711)
	x.client(2, 4712)
	x.cq(firstCQ+1, 1, 1)
	x.queue(0x51, 1, 0x52)
	x.queue(0x52, 2, 0x51)
	x.queue(0x55, 1, 0x56)
	x.queue(0x56, 2, 0x55)
	x.execute(0x51, x.post(0x51, write(1, 0, 2, 0, 64)), 64, firstCQ+1)
	x.execute(0x55, x.post(0x55, write(1, 0, 2, 0, 64)), 64, firstCQ+1)
	x.destroyCQ(firstCQ+1, 0)
	x.requireCodes()
}

// A message into memory that another program writes is a race; two messages into the same memory are not, and
// the program's own use of it is none that is certain.
func TestMessages(t *testing.T) {
	land := func(second func(x *script, b []byte)) *script {
		x := three(t, Options{Notes: true})
		b := entry(keyOf(2), memory(2), 128, false)
		x.postReceive(0x52, 2, 0, false, b)
		x.postReceive(0x54, 2, 0, false, b)
		i := x.post(0x51, send(1, 0, 64))
		x.add(trace.Event{Kind: trace.KindReceive, Queue: 0x52, Value: 0x52, Data: b})
		second(x, b)
		x.execute(0x51, i, 64, firstCQ+1)
		return x
	}
	x := land(func(x *script, _ []byte) { x.post(0x53, write(3, 0, 2, 63, 1)) })
	x.requireCodes("race")
	x = land(func(x *script, _ []byte) { x.post(0x53, write(3, 0, 2, 64, 1)) }) // the message is shorter
	x.requireCodes()
	x = land(func(x *script, b []byte) {
		i := x.post(0x53, send(3, 0, 64))
		x.deliver(0x53, i, 64, 0x54, 0x54, 0, b, false)
	})
	x.requireCodes()
	x = land(func(x *script, _ []byte) { x.post(0x54, send(2, 0, 64)) })
	x.requireCodes("race (note)")
}

// A datagram says itself where it goes, and its payload comes after a header.
func TestDatagram(t *testing.T) {
	x := three(t, Options{})
	x.queueOn(0x61, 1, 0, trace.UD, 0, 0)
	x.queueOn(0x62, 2, 0, trace.UD, 0, 0)
	b := entry(keyOf(2), memory(2), 256, false)
	x.postReceive(0x62, 2, 0, false, b)
	m := send(1, 0, 64)
	m.dqp = 0x62
	i := x.post(0x61, m)
	x.add(trace.Event{Kind: trace.KindReceive, Queue: 0x62, Value: 0x62, Data: b})
	head := make([]byte, grhSize)
	x.add(trace.Event{Kind: trace.KindPayload, Queue: 0x61, Index: i, Value: trace.PayloadValue(0, head), Data: head})
	x.post(0x53, write(3, 0, 2, 104, 8))
	x.requireCodes()
	x.post(0x53, write(3, 0, 2, 103, 1))
	x.requireCodes("race")
}

// A list leads to the memory of its pieces, and to none after a WQE has filled it.
func TestLists(t *testing.T) {
	for _, filled := range []bool{false, true} {
		x := three(t, Options{})
		b := trace.KeyInfo{Length: 128, Client: 2}.Append(nil)
		b = trace.KeySetup{Entries: 4}.Append(b)
		b = trace.KeyList{Pieces: []trace.KeyPiece{{Addr: memory(2), N: 64, Key: keyOf(2)},
			{Addr: memory(2) + 4096, N: 64, Key: keyOf(2)}}}.Append(b)
		x.add(trace.Event{Kind: trace.KindKey, Queue: 0x7001, Index: trace.KeyChanged, Data: b})
		if filled {
			x.execute(0x52, x.post(0x52, message{op: wqe.OpUMR, imm: 0x7001}), 0, 0)
		}
		i := x.post(0x51, message{op: wqe.OpRDMAWrite, key: keyOf(1), addr: memory(1), n: 128, rkey: 0x7001, flags: wqe.CEAlways})
		x.post(0x53, write(3, 0, 2, 4096+63, 1))
		x.execute(0x51, i, 128, firstCQ+1)
		if filled {
			x.requireCodes()
		} else {
			x.requireCodes("race")
		}
	}
}
