package sanitize

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/trace"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// hostile are events that would take time proportional to the square of their number n, if the work for one
// of them grew with what is in flight. They are made by hand, or by clients that want to stop the analysis.
var hostile = []struct {
	name string
	most uint64 // steps for each event
	make func(x *script, n int)
}{
	{"WQEs behind a WAIT", 2, func(x *script, n int) {
		x.post(0x51, message{op: wqe.OpWait, waits: recvCQ + 1})
		for range n {
			x.post(0x51, write(1, 0, 2, 0, 64))
		}
	}},
	{"receives for WRITEs", 2, func(x *script, n int) {
		for range n {
			x.post(0x51, write(1, 0, 2, 0, 64))
		}
		for range n {
			x.add(trace.Event{Kind: trace.KindReceive, Queue: 0x52, Value: 0x52,
				Data: entry(keyOf(2), memory(2), 64, false)})
		}
	}},
	{"messages whose completions come late", 2, func(x *script, n int) {
		for i := range n {
			x.post(0x51, send(1, 0, 64))
			x.add(trace.Event{Kind: trace.KindReceive, Queue: 0x52, Index: uint16(i), Value: 0x52,
				Data: entry(keyOf(2), memory(2), 64, false)})
		}
		for range n {
			x.cqe(recvCQ+2, received(0x52, 0x51, 0))
		}
	}},
	{"completions of nothing", 2, func(x *script, n int) {
		x.post(0x51, write(1, 0, 2, 0, 64))
		for range n {
			var b [cqe.Size]byte
			cqe.PutReq(&b, 0x51, 0, 0, 1<<15, 0, 0, cqe.MakeOpOwn(cqe.Req, 0, false, 0))
			x.add(trace.Event{Kind: trace.KindCQE, Queue: firstCQ + 1, Data: b[:], Count: 1<<15 - 1})
			x.add(trace.Event{Kind: trace.KindCQE, Queue: recvCQ + 2, Data: received(0x52, 0x51, 0),
				Count: math.MaxUint16})
		}
	}},
	{"executed WQEs that are looked for", 2, func(x *script, n int) {
		for range n {
			x.post(0x51, write(1, 0, 2, 0, 64))
		}
		for i := range n {
			x.add(trace.Event{Kind: trace.KindSlice, Queue: 0x51, Index: uint16(i)})
		}
	}},
	{"clients with a queue pair", 2, func(x *script, n int) {
		for i := range uint32(n) {
			x.cq(1<<20+i, 1000+i, 0)
			x.queue(1<<16+i, 1000+i, 0)
		}
		for i := range uint32(n) {
			x.leave(1000 + i)
		}
	}},
	{"lost events", 2, func(x *script, n int) {
		for i := range uint32(n) {
			x.queue(1<<16+i, 1, 0)
			x.cq(1<<20+i, 1, 0)
		}
		for i := range uint32(n) {
			x.post(1<<16+i, write(1, 0, 2, 0, 64))
			x.add(trace.Event{Kind: trace.KindLost, Value: 1})
		}
	}},
	{"accesses to the same byte", 2 * mostFound, func(x *script, n int) {
		for i := range uint32(n) {
			x.post(0x51, as(wqe.OpRDMARead, write(1, 0, 2, 0, i%size+1)))
		}
	}},
}

// received returns the CQE of a message of a queue pair to another one.
func received(to, from uint32, index uint16) []byte {
	var b [cqe.Size]byte
	cqe.PutResp(&b, to, 0, cqe.FlagsRQPN(0, 0, from), 0, index, 64, 0, cqe.MakeOpOwn(cqe.RespSend, 0, false, 0))
	return b[:]
}

// No event takes more steps because of what is in flight.
func TestHostileEventsTakeLinearTime(t *testing.T) {
	for _, h := range hostile {
		t.Run(h.name, func(t *testing.T) {
			x := pair(t, Options{Strict: true})
			before, events := x.s.steps, len(x.events)
			h.make(x, mostFound+1000)
			require.LessOrEqual(t, x.s.steps-before, h.most*uint64(len(x.events)-events))
		})
	}
}

// BenchmarkHostile reports the time of an event for two sizes: both should be the same.
func BenchmarkHostile(b *testing.B) {
	for _, h := range hostile {
		for _, n := range []int{3000, 30000} {
			b.Run(fmt.Sprintf("%s/n=%d", h.name, n), func(b *testing.B) {
				events := 0
				for b.Loop() {
					x := pair(b, Options{Strict: true})
					h.make(x, n)
					events = len(x.events)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*events), "ns/event")
			})
		}
	}
}

// An access is compared with as many others as there is time for. The rest is counted, and nothing is said
// about memory that the device may have written meanwhile.
func TestMostFound(t *testing.T) {
	x := three(t, Options{Strict: true})
	i := x.post(0x52, send(2, 0, 64))
	for n := range uint32(mostFound + 5) {
		x.post(0x51, as(wqe.OpRDMARead, write(1, 0, 2, 0, n+1)))
	}
	before, dropped := x.s.steps, x.s.Result().Dropped
	j := x.post(0x53, as(wqe.OpAtomicFA, write(3, 0, 2, 0, 8)))
	require.InDelta(t, mostFound, x.s.steps-before, 5, "its result has few others")
	require.EqualValues(t, 1, x.s.Result().Dropped-dropped)
	x.reports = nil
	x.execute(0x53, j, 8, firstCQ+3)
	x.change(trace.ChangedSource, 0x52, i, source(2, 0, 64))
	x.requireCodes()
}

// A WQE has the memory of so many pieces, however many lists it names. The rest is not known.
func TestMostPiecesOfAWQE(t *testing.T) {
	x := three(t, Options{})
	pieces := make([]trace.KeyPiece, mostPieces)
	for i := range pieces {
		pieces[i] = trace.KeyPiece{Addr: memory(2) + uint64(i)*8, N: 8, Key: keyOf(2)}
	}
	b := trace.KeySetup{Entries: mostPieces}.Append(trace.KeyInfo{Length: 8 * mostPieces, Client: 2}.Append(nil))
	b = trace.KeyList{Pieces: pieces}.Append(b)
	x.add(trace.Event{Kind: trace.KindKey, Queue: 0x901, Index: trace.KeyMade, Data: b})
	m := message{op: wqe.OpRDMAWrite, key: keyOf(1), addr: memory(1), n: 8 * (mostPieces - 1), rkey: 0x901}
	x.post(0x51, m)
	require.Zero(t, x.s.Result().Dropped)
	require.Equal(t, mostPieces, x.s.recordCount)
	m.n += 8
	x.post(0x51, m)
	require.EqualValues(t, 1, x.s.Result().Dropped)
	require.Equal(t, mostPieces+1, x.s.recordCount, "its source")
}

// The pieces of a part of a list are found, wherever it begins.
func TestPartsOfLists(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 200 {
		k := newKeys()
		k.known[7] = &key{number: 0x701, info: trace.KeyInfo{Length: 1 << 20, Client: 1}}
		x := &key{number: 0x801, isList: true}
		var bytes []uint64 // address of each byte of the list
		for range r.IntN(8) {
			p := trace.KeyPiece{Addr: r.Uint64N(1 << 19), N: r.Uint64N(6), Key: 0x701}
			for i := range p.N {
				bytes = append(bytes, p.Addr+i)
			}
			x.list = append(x.list, p)
		}
		x.info.Length = uint64(len(bytes))
		x.ends, _ = pieceEnds(x.list)
		k.known[8] = x
		off := r.Uint64N(x.info.Length + 1)
		n := r.Uint64N(x.info.Length - off + 1)
		pieces, ok := k.resolve(nil, 0x801, off, n)
		require.True(t, ok)
		var got []uint64
		for _, p := range pieces {
			for i := range p.n {
				got = append(got, p.from+i)
			}
		}
		require.Equal(t, append([]uint64(nil), bytes[off:off+n]...), got)
	}
	_, ok := pieceEnds([]trace.KeyPiece{{N: math.MaxUint64}, {N: 1}})
	require.False(t, ok)
}

// Receives whose memory has more pieces than there is room for are not kept, and counted.
func TestMostBuffers(t *testing.T) {
	x := pair(t, Options{})
	x.s.buffers = mostBuffers - 1
	x.postReceive(0x52, 2, 0, false, entry(keyOf(2), memory(2), 64, false))
	require.Zero(t, x.s.Result().Dropped)
	x.postReceive(0x52, 2, 1, false, entry(keyOf(2), memory(2), 64, false))
	require.EqualValues(t, 1, x.s.Result().Dropped)
	require.Equal(t, 1, x.s.taken)
	x.state(0x52, trace.RTS, trace.ERR)
	require.Equal(t, mostBuffers-1, x.s.buffers)
}

// A queue pair for which clocks have no room has no races.
func TestMostSlots(t *testing.T) {
	x := newScript(t, Options{Strict: true})
	x.client(1, 4711)
	x.client(2, 4712)
	x.client(3, 4713)
	x.queue(0x51, 1, 0x52)
	x.queue(0x52, 2, 0x51)
	x.s.slots.last = make([]uint64, mostSlots)
	x.queue(0x53, 3, 0x54)
	x.queue(0x54, 2, 0x53)
	x.post(0x53, write(3, 0, 2, 32, 64))
	x.post(0x51, write(1, 0, 2, 0, 64))
	x.destroy(0x53)
	x.queue(0x53, 3, 0x54)
	x.requireCodes("destroyed-in-flight")
	require.Len(t, x.s.slots.last, mostSlots)
	require.Empty(t, x.s.slots.free)
}

// The ring of a queue pair has so many blocks. If a WQE was found beyond, the oldest has ended.
func TestMostBlocks(t *testing.T) {
	x := pair(t, Options{})
	for range 3 * mostBlocks {
		x.post(0x51, write(1, 0, 2, 0, 64))
	}
	require.Len(t, x.s.queues[0x51].works, mostBlocks)
	require.Equal(t, mostBlocks, x.s.workCount)
	for _, i := range []uint16{0, 1, mostBlocks - 1} {
		require.Equal(t, 2*mostBlocks+uint64(i)+1, x.s.workAt(0x51, i).number)
	}
	require.Nil(t, x.s.workAt(0x51, mostBlocks))
}

// Clocks that take too much memory are dropped, with all that is in flight. Later ones are compared again.
func TestMostNodes(t *testing.T) {
	x := three(t, Options{Strict: true})
	x.queue(0x55, 3, 0x56)
	x.queue(0x56, 2, 0x55)
	x.s.mostNodes = 64
	most := 0
	for i := range uint64(100) {
		x.do(0x53, write(3, 0, 2, 0, 64), firstCQ+3)
		x.post(0x55, write(3, 0, 2, 1024+64*i, 64)) // its program knows more than before
		most = max(most, x.s.nodes(1000))
	}
	require.LessOrEqual(t, most, x.s.mostNodes)
	require.NotZero(t, x.s.Result().Dropped)
	require.Less(t, x.s.workCount, 100)
	x.requireCodes()
	x.post(0x51, write(1, 0, 2, 1<<15, 64))
	x.post(0x53, write(3, 0, 2, 1<<15, 64))
	x.requireCodes("race")
}
