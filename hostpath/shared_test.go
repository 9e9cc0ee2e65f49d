package hostpath

import (
	"testing"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// An srqDevice consumes the entries of an SRQ as a device does: in the order of the links,
// as many as the record says. It reads the link of an entry together with the entry, because
// the link may be rewritten once the entry has completed.
type srqDevice struct {
	ring   []byte
	stride int
	record *shm.BE32
	at     uint16 // the entry to consume next
	taken  uint16
}

// next consumes one entry and returns its index.
func (d *srqDevice) next() (uint16, bool) {
	if uint16(d.record.Observe()) == d.taken {
		return 0, false
	}
	i := d.at
	d.at = wqe.ParseSRQNext((*[16]byte)(d.ring[int(i)*d.stride:])).Next
	d.taken++
	return i, true
}

func newSRQ(t testing.TB, size int) (*SRQ, *srqDevice) {
	t.Helper()
	m := newMemory(t, size*32+4096)
	ring, record := m.take(size*32), m.take(4)
	q, err := NewSRQ(SRQConfig{Ring: ring, Stride: 32, Record: record})
	require.NoError(t, err)
	return q, &srqDevice{ring: ring, stride: 32, record: shm.BE32At(record, 0)}
}

// Entries complete in any order. The device nevertheless finds the posted entries by the
// links.
func TestSRQModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		size := 1 << rapid.IntRange(1, 5).Draw(rt, "log")
		q, d := newSRQ(t, size)
		var posted []uint64         // receives that the device has not consumed yet
		held := map[uint16]uint64{} // receives that the device has consumed and not completed
		var order []uint16
		id, free := uint64(0), size-1
		for range rapid.IntRange(20, 300).Draw(rt, "steps") {
			switch rapid.SampledFrom([]string{"post", "post", "ring", "consume", "consume", "complete"}).Draw(rt, "do") {
			case "post":
				id++
				err := q.PostRecv(&RecvWR{ID: id, SGE: sge(uint32(id))})
				if free == 0 {
					require.ErrorIs(t, err, ErrFull)
					break
				}
				require.NoError(t, err)
				free--
				posted = append(posted, id)
			case "ring":
				q.Ring()
			case "consume":
				i, ok := d.next()
				if !ok {
					break
				}
				sge := wqe.ParseData((*[16]byte)(d.ring[int(i)*32+16:]))
				require.Equal(t, uint32(posted[0]), sge.ByteCount, "in the order of posting")
				held[i], posted = posted[0], posted[1:]
				order = append(order, i)
			case "complete":
				if len(order) == 0 {
					break
				}
				k := rapid.IntRange(0, len(order)-1).Draw(rt, "which")
				i := order[k]
				order = append(order[:k], order[k+1:]...)
				got, ok := q.take(i)
				require.True(t, ok)
				require.Equal(t, held[i], got)
				q.give(i)
				_, ok = q.take(i)
				require.False(t, ok, "completed twice")
				free++
			}
		}
	})
}

func TestSRQ(t *testing.T) {
	b := newBench(t, 8, nil)
	q, _ := newSRQ(t, 4)
	b.table.Set(b.index, &QP{SQ: &b.sq.SendRing, SRQ: q, QPN: benchQPN})
	n, err := q.PostRecvList([]RecvWR{{ID: 10}, {ID: 11}, {ID: 12}, {ID: 13}})
	require.ErrorIs(t, err, ErrFull)
	require.Equal(t, 3, n)
	require.ErrorContains(t, q.PostRecv(&RecvWR{SGE: make([]SGE, 2)}), "2 SGEs in a receive, at most 1")

	b.dev.recv(2, 5)
	b.dev.recv(2, 5) // completed twice
	b.dev.recv(3, 5) // never posted
	b.dev.recv(4, 5) // beyond the ring
	b.dev.recv(0, 5)
	var e [64]byte
	cqe.PutErr(&e, benchQPN, b.index, 0, 1, cqe.Flush, 0, cqe.MakeOpOwn(cqe.RespErr, 0, false, 0))
	b.dev.write(&e)
	got := b.poll()
	require.Equal(t, []uint64{12, 10, 11}, ids(got))
	require.ErrorIs(t, got[2].Err(), cqe.Flush)
	_, bad := b.cq.Skipped()
	require.Equal(t, uint64(3), bad)

	n, err = q.PostRecvList([]RecvWR{{ID: 20}, {ID: 21}, {ID: 22}})
	require.NoError(t, err)
	require.Equal(t, 3, n)
	require.Equal(t, uint32(6), q.record.Observe())
	require.Equal(t, []uint16{2, 0, 1}, []uint16{q.next[3], q.next[2], q.next[0]}, "in the order of completion")
	b.dev.recv(3, 0)
	require.Equal(t, []uint64{20}, ids(b.poll()))
}

// Clean gives back the SRQ entries that unpolled CQEs complete.
func TestCleanSRQ(t *testing.T) {
	b := newBench(t, 8, nil)
	q, _ := newSRQ(t, 2)
	qp := &QP{SQ: &b.sq.SendRing, SRQ: q, QPN: benchQPN}
	b.table.Set(b.index, qp)
	for i := range uint16(4) {
		require.NoError(t, q.PostRecv(&RecvWR{}))
		require.ErrorIs(t, q.PostRecv(&RecvWR{}), ErrFull)
		b.dev.recv(i%2, 0)
		require.Equal(t, 1, b.cq.Clean(b.index, qp))
	}
}

func TestNewReceiveQueues(t *testing.T) {
	m := newMemory(t, 8192)
	ring, record := m.take(256), m.take(4)
	for _, stride := range []int{0, 8, 24, 512} {
		_, err := NewRQ(RQConfig{Ring: ring, Stride: stride, Record: record})
		require.Error(t, err, "RQ stride %d", stride)
		_, err = NewSRQ(SRQConfig{Ring: ring, Stride: stride, Record: record})
		require.Error(t, err, "SRQ stride %d", stride)
	}
	_, err := NewRQ(RQConfig{Ring: ring[:192], Stride: 64, Record: record})
	require.ErrorContains(t, err, "3; a power of two")
	_, err = NewRQ(RQConfig{Ring: ring, Stride: 64})
	require.ErrorContains(t, err, "doorbell record")
	_, err = NewSRQ(SRQConfig{Ring: ring, Stride: 64})
	require.ErrorContains(t, err, "doorbell record")
	_, err = NewSRQ(SRQConfig{Ring: ring, Stride: 16, Record: record})
	require.ErrorContains(t, err, "power of two from 32")
	_, err = NewSRQ(SRQConfig{Ring: ring, Stride: 256, Record: record})
	require.ErrorContains(t, err, "2 are needed")
}
