package hostpath

import (
	"errors"
	"testing"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/internal/shm"
	"github.com/stretchr/testify/require"
)

// A masked atomic completes like a plain atomic, with the length of its result.
func TestMaskedAtomicCompletion(t *testing.T) {
	b := newBench(t, 8, nil)
	require.NoError(t, b.sq.Post(&SendWR{ID: 5, Op: OpMaskedFetchAdd, Flags: Signaled, SGE: sge(4), Mask: new(Mask)}))
	b.sq.Ring()
	var e [64]byte
	cqe.PutReq(&e, benchQPN, b.index, 0x15, 0, 4, 77, cqe.MakeOpOwn(cqe.Req, 0, false, 0))
	b.dev.write(&e)
	got := b.poll()
	require.Len(t, got, 1)
	require.Equal(t, []any{uint64(5), cqe.WCFetchAdd, uint32(4), uint64(77)}, []any{got[0].ID, got[0].Opcode, got[0].ByteLen, got[0].Timestamp})
}

// collapse makes the completion queue of b a collapsed queue.
func (b *bench) collapse(t *testing.T) {
	t.Helper()
	var err error
	b.cq, err = NewCQ(CQConfig{Ring: b.cq.ring[:64], EntrySize: 64, Record: b.cqRecord, CQN: 1, Table: b.table, Collapsed: true})
	require.NoError(t, err)
	b.dev.cq, b.dev.log = b.dev.cq[:64], 0
	b.dev.ci = shm.BE32At(make([]byte, 8), 0)
}

func TestCollapsed(t *testing.T) {
	b := newBench(t, 8, nil)
	b.collapse(t)
	require.Empty(t, b.poll())
	first := uint64(0)
	for range 20_000 { // through several wraps of the index
		n := first%3 + 1
		for i := range n {
			require.NoError(t, b.sq.Post(&SendWR{ID: first + i, Op: OpNop, Flags: Signaled}))
			b.sq.Ring()
			b.dev.ci.Publish(uint32(b.dev.pi) & 0xffffff) // a collapsed queue has no overrun
			require.Equal(t, 1, b.dev.step())
		}
		first += n
		got := b.poll()
		require.Equal(t, []uint64{first - 1}, ids(got), "the newest only")
		require.NoError(t, got[0].Err())
		require.Equal(t, 8, b.sq.Free(), "everything before it is done")
		require.Empty(t, b.poll())
	}
	stale, bad := b.cq.Skipped()
	require.Zero(t, stale+bad)
}

func TestCollapsedError(t *testing.T) {
	b := newBench(t, 8, nil)
	b.collapse(t)
	require.NoError(t, b.sq.Post(&SendWR{ID: 9, Op: OpNop}))
	b.sq.Ring()
	b.dev.broken = cqe.RemoteAccess
	require.Equal(t, 1, b.dev.step())
	got := b.poll()
	require.Len(t, got, 1)
	require.ErrorIs(t, got[0].Err(), cqe.Flush)
	require.Equal(t, uint64(9), got[0].ID)

	var e [64]byte
	cqe.PutReq(&e, 0x999, 0, 0, 0, 0, 0, cqe.MakeOpOwn(cqe.Req, 0, false, 0))
	b.dev.write(&e)
	require.Empty(t, b.poll(), "of no QP here")
	require.Zero(t, b.cq.Clean(b.index, b.qp))
	cqe.PutReq(&e, benchQPN, 0, 0, 0, 0, 0, cqe.MakeOpOwn(cqe.Req, 0, false, 0))
	b.dev.write(&e)
	require.Equal(t, 1, b.cq.Clean(b.index, b.qp))
	require.Empty(t, b.poll())
	require.ErrorContains(t, b.cq.Resize(make([]byte, 128), nil), "collapsed")
}

// A resize loses no completion, whatever the old ring contains and whichever ring is larger.
func TestResize(t *testing.T) {
	for _, size := range []uint64{8, 16, 32, 64} {
		for unread := range uint64(8) {
			for _, polled := range []uint64{0, 1, 9, 15, 16, 19} {
				b := newBench(t, 64, nil)
				m := newMemory(t, 1<<16)
				ring := m.take(16 * 64)
				var err error
				b.cq, err = NewCQ(CQConfig{Ring: ring, EntrySize: 64, Record: b.cqRecord, CQN: 1, Table: b.table})
				require.NoError(t, err)
				b.dev.cq, b.dev.log = ring, 4
				id := uint64(0)
				work := func(n uint64) {
					for range n {
						require.NoError(t, b.sq.Post(&SendWR{ID: id, Op: OpNop, Flags: Signaled}))
						id++
					}
					b.sq.Ring()
					require.Equal(t, int(n), b.dev.step())
				}
				for range polled {
					work(1)
					require.Len(t, b.poll(), 1)
				}
				if unread+1 >= size {
					continue
				}
				work(unread)
				to := m.take(int(size) * 64)
				require.NoError(t, b.cq.Resize(to, func() error {
					var e [64]byte
					e[63] = uint8(cqe.MakeOpOwn(cqe.ResizeCQ, 0, false, cqe.Owner(b.dev.pi, b.dev.log)))
					b.dev.write(&e)
					b.dev.cq, b.dev.log = to, b.cq.log
					for b.dev.log = 0; 1<<b.dev.log < size; b.dev.log++ {
					}
					work(1) // the device continues at once
					return nil
				}))
				require.Equal(t, uint32(polled)+1, b.cq.Index())
				for want := polled; want <= polled+unread; want++ {
					var c [1]Completion
					require.Equal(t, 1, b.cq.Poll(c[:]))
					require.Equal(t, want, c[0].ID)
				}
				for range 3 * size {
					require.Empty(t, b.poll())
					work(1)
					require.Equal(t, []uint64{id - 1}, ids(b.poll()))
				}
			}
		}
	}
}

func TestResizeRefused(t *testing.T) {
	b := newBench(t, 8, nil)
	require.NoError(t, b.sq.Post(&SendWR{ID: 1, Op: OpNop, Flags: Signaled}))
	b.sq.Ring()
	b.dev.step()
	no := errors.New("no")
	require.ErrorIs(t, b.cq.Resize(make([]byte, 64*4), func() error { return no }), no)
	require.ErrorContains(t, b.cq.Resize(make([]byte, 64*3), nil), "3")
	require.ErrorContains(t, b.cq.Resize(make([]byte, 64*4+8), nil), "264 bytes")
	require.ErrorContains(t, b.cq.Resize(newMemory(t, 4096).take(64*4), func() error { return nil }), "without an entry")
	require.Equal(t, []uint64{1}, ids(b.poll()), "as it was")
}

// SRQ entries that a QP has used are given back even if the QP is destroyed before its CQEs
// are polled.
func TestOrphan(t *testing.T) {
	b := newBench(t, 8, nil)
	srq, d := newSRQ(t, 4)
	for life := range uint32(5) {
		b.table.Set(b.index, &QP{SRQ: srq, QPN: 100 + life})
		b.dev.qpn = 100 + life
		n, _ := srq.PostRecvList([]RecvWR{{ID: 1}, {ID: 2}, {ID: 3}})
		require.Equal(t, 3, n, "all are back")
		for range 3 {
			i, ok := d.next()
			require.True(t, ok)
			b.dev.recv(i, 0)
		}
		b.cq.Orphan(100+life, srq)
		b.table.Set(b.index, nil)
		require.Empty(t, b.poll())
		require.NotNil(t, b.cq.destroyed.Load())
		require.Empty(t, b.poll())
		require.Nil(t, b.cq.destroyed.Load(), "an empty queue holds none of theirs")
	}
	stale, bad := b.cq.Skipped()
	require.Equal(t, []uint64{15, 0}, []uint64{stale, bad})
}
