package hostpath

import (
	"encoding/hex"
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nicless/nicless/doorbell"
	"github.com/nicless/nicless/internal/shm"
	"github.com/stretchr/testify/require"
)

// newSharedSQ makes a bench and a SharedSQ for it. The bench's own send queue is not used.
func newSharedSQ(t testing.TB, size int) (*bench, *SharedSQ) {
	t.Helper()
	var c SQConfig
	b := newBench(t, size, func(of *SQConfig) { c = *of })
	q, err := NewSharedSQ(c)
	require.NoError(t, err)
	b.table.Set(b.index, &QP{SQ: &q.SendRing, RQ: b.rq, QPN: benchQPN})
	return b, q
}

// Requests of one poster give the same bytes as on an SQ.
func TestSharedSQLeavesTheSameBytes(t *testing.T) {
	one := newBench(t, 64, nil)
	other, shared := newSharedSQ(t, 64)
	data := []byte("twenty bytes of data")
	for i, wr := range []SendWR{
		{Op: OpWrite, SGE: sge(64), Flags: Signaled},
		{Op: OpWriteImm, Data: data[:8], Imm: 7},
		{Op: OpSend, SGE: append(sge(64), append(sge(8), sge(8)...)...)},
		{Op: OpFetchAdd, SGE: sge(8), Flags: Fence},
		{Op: OpBindMW, Bind: &Bind{Type: 2, Length: 5}},
		{Op: OpRead, SGE: sge(8)}, // fenced, because it follows a change of keys
		{Op: OpWrite, Data: data},
		{Op: OpNop, Flags: Signaled | Solicited},
	} {
		wr.ID = uint64(i)
		require.NoError(t, one.sq.Post(&wr))
		require.NoError(t, shared.Post(&wr))
		if i%3 != 0 {
			one.sq.Ring()
			shared.Ring()
		}
		require.Equal(t, hex.Dump(one.sq.Memory()), hex.Dump(shared.Memory()))
		require.Equal(t, one.record, other.record)
		require.Equal(t, one.uar, other.uar)
	}
	list := []SendWR{
		{Op: OpLocalInval}, {Op: OpWrite, SGE: sge(4)}, {Op: OpWrite, Data: data[:1], Flags: Signaled},
	}
	_, err := one.sq.PostList(list)
	require.NoError(t, err)
	_, err = shared.PostList(list)
	require.NoError(t, err)
	require.Equal(t, hex.Dump(one.sq.Memory()), hex.Dump(shared.Memory()))
	require.Equal(t, one.record, other.record)
	require.Equal(t, one.uar, other.uar)
}

// Writes that are posted by PostWrites, plain or not, give the same bytes as on an SQ.
func TestPostWritesLeavesTheSameBytes(t *testing.T) {
	one := newBench(t, 16, nil)
	other, shared := newSharedSQ(t, 16)
	for i, lengths := range [][]uint32{{8, 1 << 20, 1}, {4, 0, 9}, {1 << 31}, {8, 8, 8, 8}, {8, 8, 8, 8, 8, 8}} {
		first := Flags(0)
		if i%2 == 1 {
			first = Fence
		}
		list, writes := make([]SendWR, len(lengths)), make([]WriteWR, len(lengths))
		for k, n := range lengths {
			writes[k] = WriteWR{SGE: SGE{Addr: uint64(k) << 40, Length: n, LKey: 0x123 + n}, RemoteAddr: uint64(i) << 33, RKey: 0xabcd}
			list[k] = SendWR{Op: OpWrite, SGE: []SGE{writes[k].SGE}, RemoteAddr: writes[k].RemoteAddr, RKey: 0xabcd}
		}
		list[0].Flags = first
		list[len(list)-1].Flags |= Signaled
		_, err := one.sq.PostList(list)
		require.NoError(t, err)
		require.NoError(t, shared.PostWrites(writes, first))
		require.Equal(t, hex.Dump(one.sq.Memory()), hex.Dump(shared.Memory()))
		require.Equal(t, one.record, other.record)
		require.Equal(t, one.uar, other.uar)
		if i == 2 {
			require.Equal(t, other.dev.step(), one.dev.step())
			require.Len(t, one.poll(), 3)
			require.Len(t, other.poll(), 3)
		}
	}
	require.ErrorIs(t, shared.PostWrites(make([]WriteWR, 7), 0), ErrFull)
	require.ErrorContains(t, shared.PostWrites([]WriteWR{{SGE: SGE{Length: 1<<31 + 1}}}, 0), "at most")
	require.ErrorContains(t, shared.PostWrites(slices.Repeat([]WriteWR{{SGE: SGE{Length: 1}}}, 17), 0), "a list of 17 blocks")
	require.NoError(t, shared.PostWrites(nil, 0))
}

func TestSharedSQRefuses(t *testing.T) {
	_, q := newSharedSQ(t, 4)
	_, err := q.PostList(make([]SendWR, 5))
	require.EqualError(t, err, "hostpath: a list of 5 blocks of 64 bytes; the queue has 4")
	_, err = q.PostList([]SendWR{{}, {Op: 99}})
	require.EqualError(t, err, "nicless: operation 99; 0 to 17 are known")
	require.Equal(t, 4, q.Free(), "what is refused reserves nothing")
	for range 4 {
		require.NoError(t, q.Post(&SendWR{}))
	}
	require.ErrorIs(t, q.Post(&SendWR{}), ErrFull)
	_, err = q.PostList(make([]SendWR, 1))
	require.ErrorIs(t, err, ErrFull)
	require.Zero(t, q.Free())
	n, err := q.PostList(nil)
	require.NoError(t, err)
	require.Zero(t, n)
}

// A reservation that is not committed delays only the reservations made after it. When it is
// committed, all of them can be rung at once.
func TestSharedSQWaitsForTheGap(t *testing.T) {
	b, q := newSharedSQ(t, 8)
	first, _, ok := q.seq.reserve(1, 0, &q.freed)
	require.True(t, ok)
	for range 3 {
		require.NoError(t, q.Post(&SendWR{Flags: Signaled}))
		q.Ring()
	}
	require.Zero(t, b.dev.step())
	q.lay(first, long, 1, &SendWR{ID: 7, Flags: Signaled}, 0)
	q.seq.commit(first, first+1)
	q.Ring()
	require.Equal(t, 4, b.dev.step())
	require.Equal(t, []uint64{7, 0, 0, 0}, ids(b.poll()))
}

// Many posters, a device and two pollers run, each on its own goroutine, while the ring wraps
// thousands of times. Every request is executed once. The device checks the order of the
// reservations by the indices. Run this test under the race detector.
func TestSharedSQ(t *testing.T) {
	const posters = 8
	each := 4000
	if shm.RaceEnabled {
		each = 1000
	}
	b, q := newSharedSQ(t, 16)
	seen := make([]atomic.Uint32, posters*each) // how often each request has completed
	var left atomic.Int64
	left.Store(int64(len(seen)))

	var all sync.WaitGroup
	for p := range posters {
		all.Go(func() { postAll(q, uint64(p*each), uint64(p*each+each)) })
	}
	all.Go(func() { // the device
		for left.Load() > 0 {
			if b.dev.step() == 0 {
				runtime.Gosched()
			}
		}
	})
	for range 2 {
		all.Go(func() {
			var c [8]Completion
			for left.Load() > 0 {
				n, _ := b.cq.TryPoll(c[:])
				for i := range n {
					if c[i].Err() != nil {
						panic(c[i].Err())
					}
					seen[c[i].ID].Add(1)
				}
				left.Add(int64(-n))
				runtime.Gosched()
			}
		})
	}
	all.Wait()
	for i := range seen {
		require.EqualValues(t, 1, seen[i].Load(), "request %d", i)
	}
	require.Equal(t, b.dev.done, q.Reserved())
	require.Equal(t, q.Reserved(), q.Done())
	require.Equal(t, uint32(uint16(q.Reserved())), doorbell.ParseRecord((*[8]byte)(b.record))[doorbell.SendWord])
	require.Greater(t, q.Reserved(), uint64(16*400), "the ring was to wrap")
	stale, bad := b.cq.Skipped()
	require.Zero(t, stale+bad)
}

// postAll posts requests with the IDs from id up to end. They have one block or two, and are
// posted alone or in lists. The doorbell is rung after each of them or after several.
func postAll(q *SharedSQ, id, end uint64) {
	for id < end {
		var wr [3]SendWR
		for i := range wr {
			wr[i] = SendWR{ID: id + uint64(i), Op: OpWrite, Flags: Signaled, Data: make([]byte, 1+(id+uint64(i))%90)}
		}
		n, err := 1, error(nil)
		if id%5 == 0 && id+3 <= end {
			n, err = q.PostList(wr[:])
		} else {
			err = q.Post(&wr[0])
		}
		switch {
		case err == nil:
			id += uint64(n)
			if id%3 == 0 {
				q.Ring()
			}
		case errors.Is(err, ErrFull):
			q.Ring()
			runtime.Gosched()
		default:
			panic(err)
		}
	}
	q.Ring()
}

func TestSharedSQNotesTheFirstFailure(t *testing.T) {
	b, q := newSharedSQ(t, 8)
	b.dev.failAt = 1
	for i := range uint64(3) {
		require.NoError(t, q.Post(&SendWR{ID: i, Op: OpWrite, SGE: sge(8)}))
	}
	q.Ring()
	b.dev.step()
	require.Nil(t, q.Failed())
	b.poll()
	require.EqualError(t, q.Failed(), "qp 0x004711 wqe 1 id 1: remote access error (vendor 0x88)")
	q.Reset()
	require.Nil(t, q.Failed())
	require.Zero(t, q.Reserved())
}

func TestSharedSQAllocatesNothing(t *testing.T) {
	b, q := newSharedSQ(t, 64)
	list := make([]SendWR, 32)
	for i := range list {
		list[i] = SendWR{Op: OpWrite, SGE: sge(8)}
	}
	list[31].Flags = Signaled
	var c [8]Completion
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if _, err := q.PostList(list); err != nil {
			t.Error(err)
		}
		b.dev.step()
		if n, ok := b.cq.TryPoll(c[:]); n != 1 || !ok {
			t.Error("no completion")
		}
	}))
}

func BenchmarkSharedSQ(b *testing.B) {
	wr := SendWR{Op: OpWrite, SGE: sge(64), Flags: Signaled}
	b.Run("one poster, ring", func(b *testing.B) {
		_, q := newSharedSQ(b, 1024)
		b.ReportAllocs()
		for b.Loop() {
			if q.Post(&wr) != nil {
				q.freed.Publish(q.Reserved())
			}
			q.Ring()
		}
	})
	b.Run("lists of 32", func(b *testing.B) {
		_, q := newSharedSQ(b, 1024)
		list := make([]SendWR, 32)
		for i := range list {
			list[i] = wr
		}
		b.ReportAllocs()
		for b.Loop() {
			if _, err := q.PostList(list); err != nil {
				q.freed.Publish(q.Reserved())
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*32), "ns/wqe")
	})
	b.Run("eight posters, ring", func(b *testing.B) {
		_, q := newSharedSQ(b, 1024)
		b.SetParallelism(8)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				for q.Post(&wr) != nil {
					q.Ring()
					q.free(q.posted.Observe())
				}
				q.Ring()
			}
		})
	})
}

// freeing lets one goroutine at a time call SharedSQ.free, which acts as the poller and frees
// the blocks before count.
var freeing sync.Mutex

func (q *SharedSQ) free(count uint64) {
	freeing.Lock()
	defer freeing.Unlock()
	if count > q.freed.Observe() {
		q.freed.Publish(count)
	}
}
