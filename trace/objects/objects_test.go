package objects

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/internal/tracetest"
	"github.com/nicless/nicless/trace"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

func TestTableOfSample(t *testing.T) {
	var x Table
	executed := map[wqe.Opcode]int{}
	for _, e := range tracetest.Sample(t) {
		x.Event(&e)
		if e.Kind == trace.KindExecute {
			for w := range x.Of(&e) {
				require.True(t, w.Whole())
				executed[w.Ctrl.Opcode]++
			}
		}
		if e.Kind == trace.KindQueueGone {
			require.NotNil(t, x.Queue(e.Queue), "the event can still name it")
		}
	}
	require.Equal(t, map[wqe.Opcode]int{wqe.OpRDMAWrite: 9, wqe.OpSend: 3, wqe.OpSendImm: 3, wqe.OpSendInval: 1,
		wqe.OpRDMAWriteImm: 2, wqe.OpRDMARead: 2, wqe.OpAtomicFA: 1, wqe.OpAtomicCS: 1, wqe.OpAtomicMaskedFA: 1,
		wqe.OpUMR: 1, wqe.OpWait: 1}, executed)
	require.Zero(t, x.blocks, "all WQEs were executed, or are lost")

	require.Nil(t, x.Queue(0x51))
	require.Equal(t, tracetest.HostileName, x.Client(2).Name)
	x.Event(&trace.Event{Kind: trace.KindEnd})
	require.Nil(t, x.Client(2))
	require.Nil(t, x.Queue(0x52), "the queue pairs of a client go with it")
	require.Equal(t, trace.UD, x.Queue(0x55).Transport)
}

func TestProgram(t *testing.T) {
	for name, want := range map[string]string{`pid 7 uid 0 "put"`: "put", `pid 7 uid 0 "a\x1b\""`: "a\x1b\"", "pid 7 uid 0": "pid 7 uid 0", `pid 7 uid 0 "put" nicless0 "nicless0"`: "put",
		"put": "put", `broken "`: `broken "`} {
		require.Equal(t, want, (&Client{Name: name}).Program())
	}
}

func TestClientOf(t *testing.T) {
	var x Table
	clients := map[trace.Kind]uint32{}
	for _, e := range tracetest.Sample(t) {
		x.Event(&e)
		if c := x.ClientOf(&e); c != nil {
			clients[e.Kind] = c.Number
		}
	}
	nobodys := []string{"link", "lost"}
	for k := trace.KindClient; k < trace.KindEnd; k++ {
		_, has := clients[k]
		require.Equal(t, !slices.Contains(nobodys, k.String()), has, k)
	}
	require.EqualValues(t, 2, clients[trace.KindKey])
	require.EqualValues(t, 2, clients[trace.KindCQE], "the last CQE is of qp 0x52")
}

// nop returns a NOP of a queue pair.
func nop(qp uint32, index uint16, ds uint32) []byte {
	b := make([]byte, wqe.BlockSize)
	binary.BigEndian.PutUint16(b[1:], index)
	binary.BigEndian.PutUint32(b[4:], qp<<8|ds)
	return b
}

// A queue that executes nothing keeps as many WQEs as its ring has blocks.
func TestMemoryIsBoundedByTheRing(t *testing.T) {
	var x Table
	info := trace.QueueInfo{SendBlocks: 8}
	x.Event(&trace.Event{Kind: trace.KindQueue, Queue: 1, Count: uint16(trace.RC), Data: info.Append(nil)})
	for i := range 1 << 17 {
		x.Event(&trace.Event{Kind: trace.KindFetch, Queue: 1, Index: uint16(i), Count: 1, Data: nop(1, uint16(i), 1)})
		require.LessOrEqual(t, x.blocks, 8)
	}
	require.Nil(t, x.Fetched(1, 65535-8))
	require.EqualValues(t, 65535, x.Fetched(1, 65535).Index)
	x.Event(&trace.Event{Kind: trace.KindQueueGone, Queue: 1})
	x.Event(&trace.Event{Kind: trace.KindEnd})
	require.Zero(t, x.blocks)
	require.Empty(t, x.queues)
}

// A trace that begins in the middle has queue pairs that it does not describe.
func TestStrangeQueues(t *testing.T) {
	var x Table
	for qp := range uint32(1000) {
		x.Event(&trace.Event{Kind: trace.KindFetch, Queue: qp, Index: 7, Count: 1, Data: nop(qp, 7, 1)})
		require.NotNil(t, x.Fetched(qp, 7))
		require.Nil(t, x.Queue(qp))
		x.Event(&trace.Event{Kind: trace.KindExecute, Queue: qp, Index: 7, Count: 1})
	}
	x.Event(&trace.Event{Kind: trace.KindEnd})
	require.Empty(t, x.strange, "a queue pair is forgotten with its last WQE")
	require.Zero(t, x.blocks)
}

func TestFetchedDivides(t *testing.T) {
	var b []byte
	b = append(b, nop(1, 5, 0)...)  // no size: one block
	b = append(b, nop(1, 6, 5)...)  // two blocks
	b = append(b, nop(1, 0, 0)...)  // the second of them
	b = append(b, nop(1, 8, 63)...) // 16 blocks, of which one is here
	var got []uint16
	var sizes []int
	var x Table
	x.Event(&trace.Event{Kind: trace.KindFetch, Index: 5, Count: 4, Data: append(b, 1, 2)})
	for _, w := range x.Last() {
		got, sizes = append(got, w.Index), append(sizes, len(w.Bytes))
		require.Equal(t, w.Index == 6, w.Whole())
	}
	require.Equal(t, []uint16{5, 6, 8}, got)
	require.Equal(t, []int{64, 128, 64}, sizes)

	// The next fetch goes on with the last WQE.
	x.Event(&trace.Event{Kind: trace.KindFetch, Index: 9, Count: 16, Data: append(make([]byte, 15*64), nop(1, 24, 1)...)})
	require.Len(t, x.Last(), 2)
	require.EqualValues(t, 8, x.Last()[0].Index)
	require.True(t, x.Last()[0].Whole())
	require.EqualValues(t, 24, x.Last()[1].Index)
	require.Equal(t, 1+2+16+1, x.blocks)
	// If the peer is on another device, a CQE completes what was posted before, too.
	x.Event(&trace.Event{Kind: trace.KindQueue, Data: (&trace.QueueInfo{Port: 1}).Append(nil)})
	c := make([]byte, cqe.Size)
	cqe.PutReq((*[cqe.Size]byte)(c), 0, 0, 0, 8, 0, 0, 0)
	x.Event(&trace.Event{Kind: trace.KindCQE, Queue: 4, Data: c})
	x.Event(&trace.Event{Kind: trace.KindEnd})
	require.Equal(t, 1, x.blocks)
}

// Whatever events say, a table counts its blocks right.
func FuzzTable(f *testing.F) {
	for _, e := range tracetest.Sample(f) {
		f.Add(uint8(e.Kind), e.Queue, e.Index, e.Count, e.Value, e.Data)
	}
	f.Fuzz(func(t *testing.T, kind uint8, queue uint32, index, count uint16, value uint64, data []byte) {
		var x Table
		for _, k := range []trace.Kind{trace.KindQueue, trace.KindFetch, trace.Kind(kind), trace.KindFetch, trace.KindEnd} {
			e := trace.Event{Kind: k, Queue: queue, Index: index, Count: count, Value: value, Data: data}
			x.Event(&e)
			x.ClientOf(&e)
			for range x.Of(&e) {
			}
		}
		blocks := 0
		for _, all := range []map[uint32]*Queue{x.queues, x.strange} {
			for _, q := range all {
				for _, w := range q.fetched {
					blocks += w.blocks()
				}
			}
		}
		require.Equal(t, blocks, x.blocks)
	})
}

// ring returns a table with a queue pair 1, whose peer is on another device, and a function that fetches one
// of its WQEs.
func ring() (x *Table, fetch func(index uint16)) {
	x = &Table{}
	info := trace.QueueInfo{SendBlocks: 64, Port: 1}
	x.Event(&trace.Event{Kind: trace.KindQueue, Queue: 1, Count: uint16(trace.RC), Data: info.Append(nil)})
	return x, func(index uint16) {
		x.Event(&trace.Event{Kind: trace.KindFetch, Queue: 1, Index: index, Count: 1, Data: nop(1, index, 1)})
	}
}

// left returns the indices of the WQEs of queue pair 1 after the next event.
func (t *Table) left() (list []uint16) {
	t.Event(&trace.Event{Kind: trace.KindEnd})
	for i := range uint16(10) {
		if t.Fetched(1, i) != nil {
			list = append(list, i)
		}
	}
	return list
}

// A completion ends the WQEs before, also one that was fetched again after those that follow it.
func TestCompletedWQEs(t *testing.T) {
	x, fetch := ring()
	for _, i := range []uint16{0, 1, 2, 3, 4, 5, 6, 7, 3} {
		fetch(i)
	}
	var b [cqe.Size]byte
	cqe.PutReq(&b, 1, 0, 0, 5, 0, 0, cqe.MakeOpOwn(cqe.Req, 0, false, 0))
	x.Event(&trace.Event{Kind: trace.KindCQE, Queue: 9, Data: b[:], Count: 1})
	require.Equal(t, []uint16{6, 7}, x.left())
	require.Equal(t, 2, x.blocks)
	x.Event(&trace.Event{Kind: trace.KindLost})
	require.Empty(t, x.left())
	require.Zero(t, x.blocks)
}

// The blocks of an event are executed, whether it has more of them than there are WQEs or fewer.
func TestExecutedBlocks(t *testing.T) {
	for count, want := range map[uint16][]uint16{3: {0, 1, 5, 6}, 1000: {0, 1}, 65534: {0, 1}, 65535: {1}} {
		x, fetch := ring()
		for i := range uint16(7) {
			fetch(i)
		}
		x.Event(&trace.Event{Kind: trace.KindExecute, Queue: 1, Index: 2, Count: count})
		require.Equal(t, want, x.left(), count)
		require.Equal(t, len(want), x.blocks)
	}
}

// The order of WQEs is not longer than a few times their number.
func TestOrderIsBounded(t *testing.T) {
	x, fetch := ring()
	for i := range 10_000 {
		fetch(uint16(i))
		if i%3 > 0 {
			x.Event(&trace.Event{Kind: trace.KindExecute, Queue: 1, Index: uint16(i), Count: 1})
		}
		require.LessOrEqual(t, len(x.queues[1].order), 2*64+leastOrder+1)
	}
}

// A queue pair goes with the client that an event has named last.
func TestQueuesGoWithTheirClient(t *testing.T) {
	var x Table
	var info trace.QueueInfo
	for _, client := range []uint64{7, 8} {
		x.Event(&trace.Event{Kind: trace.KindQueue, Queue: 1, Value: client, Data: info.Append(nil)})
	}
	for _, client := range []uint32{7, 8} {
		require.NotNil(t, x.Queue(1))
		x.Event(&trace.Event{Kind: trace.KindClientGone, Queue: client})
		x.Event(&trace.Event{Kind: trace.KindEnd})
	}
	require.Nil(t, x.Queue(1))
	require.Empty(t, x.of)
}
