package hostpath

import (
	"testing"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// FuzzPoll gives a poller the CQEs of a broken device. The poller never panics, never
// reports work that was not posted, and skips CQEs that it cannot use.
func FuzzPoll(f *testing.F) {
	f.Add(inlineCQE(cqe.RespSend, cqe.FormatInline32, 0, 0, 8))
	f.Add(inlineCQE(cqe.Req, cqe.FormatInline32, wqe.OpRDMARead, 0, 32))
	f.Add(inlineCQE(cqe.Req, cqe.FormatPlain, wqe.OpRDMAWrite, 1, 0))
	f.Add(append(inlineCQE(cqe.Req, 0, 0, 0, 0), inlineCQE(cqe.RespSend, cqe.FormatInline64, 0, 0, 64)...))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) != cqe.Size && len(b) != cqe.Size128 {
			t.Skip()
		}
		s := newSetting(t, 0, 5)
		s.sq.maxSGE = 3
		for id := range uint64(4) {
			require.NoError(t, s.sq.Post(&SendWR{ID: 100 + id, Op: OpRead, SGE: []SGE{{payloadAddr, 20, 7}, {payloadAddr + 90, 20, 7}, {0, 1, 1}}}))
			require.NoError(t, s.rq.PostRecv(&RecvWR{ID: 200 + id, SGE: []SGE{{payloadAddr, 20, 7}, {payloadAddr + 250, 20, 7}}}))
		}
		s.sq.Ring()
		s.rq.Ring()
		q := s.cq(t, 4, 0, b)
		o := cqe.OpOwn(b[len(b)-1])
		var c [8]Completion
		n := q.Poll(c[:])
		stale, bad := q.Skipped()
		if !cqe.Valid(o, 0, 2) {
			require.Zero(t, n+int(stale+bad))
			return
		}
		require.Equal(t, 1, n+int(stale+bad), "reported, or counted")
		if n == 1 {
			base := uint64(200)
			if c[0].Requester() {
				base = 100
			}
			require.Less(t, c[0].ID-base, uint64(4))
			require.NotEqual(t, cqe.StatusNone, c[0].Status)
		}

		// The same bytes are the entry of a collapsed queue, with QPs in the table and without.
		for _, table := range []*Table{&s.table, new(Table)} {
			q := s.cq(t, 1, 0, b)
			q.collapsed, q.table = true, table
			n := q.Poll(c[:])
			stale, bad := q.Skipped()
			require.LessOrEqual(t, n+int(stale+bad), 1)
			require.Zero(t, q.Poll(c[:]), "reported once")
			q.Clean(0, &QP{QPN: c[0].QPN})
		}
	})
}

// FuzzPollCompressed fills the ring of a compressed queue with any bytes. The poller takes
// at most one lap of entries in a call, and reports only posted work, each work request once.
func FuzzPollCompressed(f *testing.F) {
	title := func(op cqe.Opcode, n uint32) []byte {
		b := make([]byte, 8*cqe.Size)
		e := cqe.CQE{QPN: benchQPN, ByteCount: n, OpOwn: cqe.MakeOpOwn(op, cqe.FormatCompressed, false, 0)}
		e.Put((*[cqe.Size]byte)(b))
		return b
	}
	f.Add(title(cqe.Req, 4), uint8(0), uint8(8))
	f.Add(title(cqe.RespSend, 8), uint8(3), uint8(1))
	f.Add(title(cqe.RespSendImm, 9), uint8(1), uint8(8))
	f.Fuzz(func(t *testing.T, ring []byte, format, room uint8) {
		if len(ring) != 8*cqe.Size || format > 4 {
			t.Skip()
		}
		b := newBench(t, 8, nil)
		m := newMemory(t, 1024)
		q, err := NewCQ(CQConfig{
			Ring: m.take(len(ring)), EntrySize: 64, Record: b.cqRecord, Table: b.table, Compressed: true, MiniFormat: cqe.MiniFormat(format),
		})
		require.NoError(t, err)
		copy(q.ring, ring)
		for id := range uint64(4) {
			require.NoError(t, b.sq.Post(&SendWR{ID: 100 + id, Op: OpNop}))
			require.NoError(t, b.rq.PostRecv(&RecvWR{ID: 200 + id}))
		}
		b.sq.Ring()
		b.rq.Ring()
		seen := map[uint64]bool{}
		dst := make([]Completion, 1+room%16)
		for range 3 {
			for _, c := range dst[:q.Poll(dst)] {
				require.False(t, seen[c.ID], "reported once")
				seen[c.ID] = true
				require.Less(t, c.ID%100, uint64(4))
			}
		}
		require.LessOrEqual(t, q.ci, uint64(3*8))
		q.Clean(b.index, b.qp)
	})
}
