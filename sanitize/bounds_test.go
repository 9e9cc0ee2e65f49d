package sanitize

import (
	"testing"

	"github.com/nicless/nicless/internal/tracetest"
	"github.com/nicless/nicless/trace"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// empty checks that a Sanitizer keeps nothing of what has ended.
func (x *script) requireEmpty() {
	s := x.s
	require.Zero(x.t, s.recordCount)
	require.Zero(x.t, s.workCount)
	require.Zero(x.t, s.taken)
	require.Nil(x.t, s.oldest)
	require.Nil(x.t, s.newest)
}

func TestNothingIsLeft(t *testing.T) {
	for _, strict := range []bool{false, true} {
		x := three(t, Options{Strict: strict})
		b := entry(keyOf(2), memory(2), 128, false)
		for i := range uint16(200) {
			x.postReceive(0x52, 2, i, false, b)
			x.do(0x51, write(1, uint64(i)*64, 2, 4096+uint64(i)*64, 64), firstCQ+1)
			j := x.post(0x51, send(1, 0, 64))
			x.deliver(0x51, j, 64, 0x52, 0x52, i, b, false)
			x.post(0x53, write(3, 0, 2, 1<<16, 64))
		}
		if !strict {
			require.Less(t, x.s.recordCount, 10)
		}
		for _, c := range []uint32{1, 2, 3} {
			x.leave(c)
		}
		x.requireEmpty()
		require.Empty(t, x.s.processes)
		require.Empty(t, x.s.queues)
		require.Empty(t, x.s.cqs)
	}
}

// The oldest records are dropped, and counted. Then a race with them is not found.
func TestMostRecords(t *testing.T) {
	x := newScript(t, Options{Strict: true})
	x.client(1, 4711)
	x.client(2, 4712)
	x.client(3, 4713)
	x.register(1, 0x9001, 1<<40, 1<<30)
	x.register(2, 0x9101, 1<<41, 1<<30)
	x.queue(0x51, 1, 0x52)
	x.queue(0x52, 2, 0x51)
	x.queue(0x53, 3, 0x54)
	x.queue(0x54, 2, 0x53)
	for i := range uint64(mostRecords) {
		m := message{op: wqe.OpRDMAWrite, key: 0x9001, addr: 1<<40 + i, n: 1, rkey: 0x9101, raddr: 1<<41 + i}
		x.execute(0x51, x.post(0x51, m), 1, 0)
	}
	x.events = nil
	require.Equal(t, mostRecords, x.s.recordCount)
	require.EqualValues(t, mostRecords, x.s.Result().Dropped, "two records for each WQE")
	m := message{op: wqe.OpRDMAWrite, key: keyOf(3), addr: memory(3), n: 1, rkey: 0x9101, raddr: 1 << 41}
	x.post(0x53, m)
	x.requireCodes()
	m.raddr += mostRecords - 1
	x.post(0x53, m)
	x.requireCodes("race")
}

func TestMostCompletions(t *testing.T) {
	x := pair(t, Options{})
	for range mostCompletions + 10 {
		x.execute(0x51, x.post(0x51, write(1, 0, 2, 0, 64)), 64, firstCQ+1)
	}
	require.Len(t, x.s.cqs[firstCQ+1].entries, mostCompletions)
	require.EqualValues(t, 10, x.s.Result().Dropped)
}

func TestMostWords(t *testing.T) {
	x, p := newWords(), &process{}
	var k clocks
	for i := range uint64(mostWords + 10) {
		require.Equal(t, i >= mostWords+1, x.exchange(&k, p, i*8, k.raised(nil, 1, i+1)) != nil)
	}
	require.Len(t, x.clocks, mostWords)
	require.EqualValues(t, 10, x.exchange(&k, p, 1<<40, nil).at(1), "of all that have no room")
}

func TestMostReports(t *testing.T) {
	x := three(t, Options{})
	for i := range uint64(mostReported + 5) {
		x.post(0x51, write(1, 0, 2, i*64, 64))
		x.post(0x53, write(3, 0, 2, i*64, 64))
		x.s.abandon(x.s.queues[0x51])
		x.s.abandon(x.s.queues[0x53])
	}
	require.Len(t, x.reports, mostReported)
	require.EqualValues(t, 5, x.s.Result().Repeated)
}

func TestGoneKeysAreBounded(t *testing.T) {
	k := newKeys()
	for i := range uint32(mostGone + 100) {
		k.drop(i, gone{})
	}
	require.Len(t, k.gone, mostGone)
	require.Len(t, k.order, mostGone)
}

// A list that contains itself has no memory.
func TestListOfItself(t *testing.T) {
	k := newKeys()
	b := trace.KeySetup{Entries: 4}.Append(trace.KeyInfo{Length: 128, Client: 2}.Append(nil))
	b = trace.KeyList{Pieces: []trace.KeyPiece{{N: 128, Key: 0x701}, {N: 128, Key: 0x701}}}.Append(b)
	k.event(&trace.Event{Kind: trace.KindKey, Queue: 0x701, Index: trace.KeyMade, Data: b})
	_, ok := k.resolve(nil, 0x701, 0, 128)
	require.False(t, ok)
}

// FuzzEvents changes one event of many. Nothing panics, and nothing is left when the clients have gone.
func FuzzEvents(f *testing.F) {
	whole := scenario(f)
	f.Add(uint16(0), uint8(0), uint32(0), uint16(0), uint16(0), uint64(0), []byte{})
	for i := range whole {
		e := &whole[i]
		f.Add(uint16(i), uint8(e.Kind), e.Queue^1, e.Index+1, e.Count+1, e.Value^1<<63, e.Data[:len(e.Data)/2])
	}
	f.Fuzz(func(t *testing.T, at uint16, kind uint8, queue uint32, index, count uint16, value uint64, data []byte) {
		x := &script{t: t, s: New(Options{Strict: at&1 != 0, Notes: true, Clock: testClock})}
		take := func(e *trace.Event) {
			for _, r := range x.s.Event(e) {
				require.NotEmpty(t, r.String())
			}
		}
		for i := range whole {
			take(&whole[i])
			if i == int(at)%len(whole) {
				take(&trace.Event{Kind: trace.Kind(kind), Time: whole[i].Time, Queue: queue, Index: index,
					Count: count, Value: value, Data: data})
			}
		}
		for n := range x.s.clients {
			x.s.Event(&trace.Event{Kind: trace.KindClientGone, Queue: n})
		}
		x.requireEmpty()
	})
}

// scenario returns events of all kinds.
func scenario(t testing.TB) []trace.Event {
	x := newScript(t, Options{})
	x.events = append(x.events, tracetest.Sample(t)...)
	x.client(1, 4711)
	x.client(2, 4712)
	x.queue(0x51, 1, 0x52)
	x.queue(0x52, 2, 0x51)
	x.add(trace.Event{Kind: trace.KindSRQ, Queue: 0x70, Index: trace.KeyMade, Value: 2, Data: trace.SRQSetup{}.Append(nil)})
	b := entry(keyOf(2), memory(2), 128, false)
	x.postReceive(0x52, 2, 0, false, b)
	x.postReceive(0x70, 2, 0, true, entry(keyOf(2), memory(2), 128, true))
	i := x.post(0x51, send(1, 0, 64))
	x.change(trace.ChangedSource, 0x51, i, source(1, 0, 64))
	x.change(trace.ChangedBuffer, 0x52, 0, source(2, 0, 64))
	x.add(trace.Event{Kind: trace.KindChanged, Queue: 0x51, Index: i, Count: uint16(trace.ChangedWQE), Data: make([]byte, 128)})
	x.add(trace.Event{Kind: trace.KindChanged, Queue: 0x70, Count: uint16(trace.ChangedSharedEntry), Data: make([]byte, 32)})
	x.deliver(0x51, i, 64, 0x52, 0x52, 0, b, false)
	x.do(0x51, as(wqe.OpAtomicFA, write(1, 0, 2, 0, 8)), firstCQ+1)
	x.post(0x52, as(wqe.OpRDMARead, write(2, 0, 1, 0, 8)))
	x.post(0x51, message{op: wqe.OpWait, waits: recvCQ + 2})
	x.post(0x51, write(1, 0, 2, 0, 64))
	x.deregister(1, keyOf(1))
	x.destroy(0x51)
	x.add(trace.Event{Kind: trace.KindLost, Value: 3})
	x.destroyCQ(firstCQ+1, 0)
	return x.events
}

// Any order of events is taken.
func TestAnyOrder(t *testing.T) {
	whole := scenario(t)
	for from := range whole {
		x := &script{t: t, s: New(Options{Strict: true, Notes: true})}
		for i := range whole {
			x.s.Event(&whole[(from+i*7)%len(whole)])
		}
		for n := range x.s.clients {
			x.s.Event(&trace.Event{Kind: trace.KindClientGone, Queue: n})
		}
		x.requireEmpty()
	}
}
