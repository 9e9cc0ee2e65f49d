package hostpath

import (
	"testing"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// FuzzPoll gives a poller the CQEs of a broken device: it never panics, never
// reports work that was not posted, and goes on past CQEs that it cannot use.
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

		// The same as the entry of a collapsed queue, with QPs and without.
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
