package apitest

import (
	"testing"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/cqe"
	"github.com/stretchr/testify/require"
)

func TestDumpAndCopy(t *testing.T) {
	each(t, func(t *testing.T, ctx *nicless.Context) {
		b := fill(t, ctx, nicless.CQConfig{}, nicless.QPConfig{})
		copy(b.mr.Bytes(), "copied")
		b.ok(t, b.a, nicless.SendWR{Op: nicless.Copy, SGE: []nicless.SGE{b.mr.SGE(0, 6), b.mr.SGE(100, 6)}})
		require.Equal(t, "copied", string(b.mr.Bytes()[100:106]))
		b.ok(t, b.a, nicless.SendWR{Op: nicless.Dump, Flags: nicless.Fence, SGE: []nicless.SGE{b.mr.SGE(0, 1)}})
		c := b.do(t, b.a, nicless.SendWR{Op: nicless.Dump, SGE: []nicless.SGE{b.mr.SGE(mrSize, 1)}})
		require.ErrorIs(t, c.Err(), cqe.LocalProtection)
	})
}

// A chain of requests runs without the host: one queue waits for completions of a
// second queue, and then enables a third queue.
func TestChain(t *testing.T) {
	each(t, func(t *testing.T, ctx *nicless.Context) {
		b := fill(t, ctx, nicless.CQConfig{}, nicless.QPConfig{})
		other, err := ctx.CreateCQ(nicless.CQConfig{})
		require.NoError(t, err)
		managed, err := b.pd.CreateQP(nicless.QPConfig{SendCQ: b.cq, Managed: true})
		require.NoError(t, err)
		peer, err := b.pd.CreateQP(nicless.QPConfig{SendCQ: b.cq})
		require.NoError(t, err)
		require.NoError(t, nicless.Pair(managed, peer, nicless.Connection{}))
		starter, err := b.pd.CreateQP(nicless.QPConfig{SendCQ: other})
		require.NoError(t, err)
		end, err := b.pd.CreateQP(nicless.QPConfig{SendCQ: other})
		require.NoError(t, err)
		require.NoError(t, nicless.Pair(starter, end, nicless.Connection{}))

		write := func(s string) nicless.SendWR {
			return nicless.SendWR{ID: 1, Op: nicless.Write, Flags: nicless.Signaled, Data: []byte(s), RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()}
		}
		w := write("first")
		require.NoError(t, managed.PostSend(&w))
		first := managed.SendIndex()
		w = write("again")
		w.ID = 2
		require.NoError(t, managed.PostSend(&w))
		_, err = b.a.PostSendList([]nicless.SendWR{
			{Op: nicless.WaitCQ, Queue: other.CQN(), Index: other.Index() + 2},
			{ID: 3, Op: nicless.SendEnable, Flags: nicless.Signaled, Queue: managed.QPN(), Index: first},
		})
		require.NoError(t, err)
		for range 2 {
			var c [4]nicless.Completion
			n, err := b.cq.Poll(c[:])
			require.NoError(t, err)
			require.Zero(t, n, "nothing has happened yet")
			require.NoError(t, starter.PostSend(&nop))
			n, err = other.Wait(t.Context(), c[:])
			require.NoError(t, err)
			require.Equal(t, 1, n)
		}
		ids := map[uint64]bool{}
		for _, c := range b.await(t, 2) {
			require.NoError(t, c.Err())
			ids[c.ID] = true
		}
		require.Equal(t, map[uint64]bool{1: true, 3: true}, ids)
		require.Equal(t, "first", string(b.mr.Bytes()[:5]))
		b.ok(t, b.a, nop)
		require.Equal(t, "first", string(b.mr.Bytes()[:5]), "the second is not enabled")
		require.NoError(t, b.a.PostSend(&nicless.SendWR{Op: nicless.SendEnable, Queue: managed.QPN(), Index: managed.SendIndex()}))
		require.Equal(t, uint64(2), b.await(t, 1)[0].ID)
		require.Equal(t, "again", string(b.mr.Bytes()[:5]))
	})
}
