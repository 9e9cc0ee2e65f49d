package apitest

import (
	"testing"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/internal/await"
	"github.com/stretchr/testify/require"
)

func TestSRQ(t *testing.T) {
	each(t, func(t *testing.T, ctx *nicless.Context) {
		pd, err := ctx.AllocPD()
		require.NoError(t, err)
		srq, err := pd.CreateSRQ(nicless.SRQConfig{MaxWR: 7, MaxSGE: 1})
		require.NoError(t, err)
		b := fill(t, ctx, nicless.CQConfig{}, nicless.QPConfig{})
		mr, err := pd.RegisterMemory(4096, nicless.LocalWrite)
		require.NoError(t, err)
		pair := func() (a, r *nicless.QP) {
			a, err := b.pd.CreateQP(nicless.QPConfig{SendCQ: b.cq})
			require.NoError(t, err)
			r, err = b.pd.CreateQP(nicless.QPConfig{SendCQ: b.cq, SRQ: srq})
			require.NoError(t, err)
			require.NoError(t, nicless.Pair(a, r, nicless.Connection{}))
			return a, r
		}
		a1, r1 := pair()
		a2, r2 := pair()
		require.ErrorContains(t, r1.PostRecv(&nicless.RecvWR{}), "SRQ")
		require.Nil(t, r1.RecvRing())
		next := 0
		post := func(n int) {
			t.Helper()
			for range n {
				require.NoError(t, srq.PostRecv(&nicless.RecvWR{ID: uint64(next), SGE: []nicless.SGE{mr.SGE(next%8*64, 64)}}))
				next++
			}
		}
		// Messages of all queue pairs take receives in the order of posting.
		post(7)
		require.ErrorIs(t, srq.PostRecv(&nicless.RecvWR{}), nicless.ErrFull)
		for round := range 40 {
			a, r := a1, r1
			if round%3 == 0 {
				a, r = a2, r2
			}
			require.NoError(t, a.PostSend(&nicless.SendWR{Op: nicless.Send, Data: []byte{byte(round)}}))
			c := b.await(t, 1)[0]
			require.NoError(t, c.Err())
			require.Equal(t, []any{uint64(round), r.QPN()}, []any{c.ID, c.QPN})
			require.Equal(t, byte(round), mr.Bytes()[round%8*64])
			post(1)
		}
		// The limit causes one event and is off after that.
		require.NoError(t, srq.SetLimit(5))
		limit, err := srq.Query()
		require.NoError(t, err)
		require.Equal(t, 5, limit)
		for range 3 {
			require.NoError(t, a1.PostSend(&nicless.SendWR{Op: nicless.Send}))
			require.NoError(t, b.await(t, 1)[0].Err())
		}
		ev := event(t, ctx)
		require.Equal(t, nicless.EventSRQLimit, ev.Kind)
		require.Same(t, srq, ev.SRQ)
		limit, err = srq.Query()
		require.NoError(t, err)
		require.Zero(t, limit)
		require.ErrorIs(t, srq.SetLimit(9), nicless.ErrInvalid)
		require.ErrorIs(t, srq.SetLimit(-1), nicless.ErrInvalid)

		// When a queue pair goes to error, the receives stay in the SRQ. An event says that
		// the queue pair takes no more of them.
		require.NoError(t, r2.Modify(&nicless.Attr{Mask: nicless.AttrState, State: nicless.StateERR}))
		ev = event(t, ctx)
		require.Equal(t, nicless.EventLastWQE, ev.Kind)
		require.Same(t, r2, ev.QP)
		require.ErrorIs(t, srq.Close(), nicless.ErrBusy)

		// If completions were not polled before the queue pair is closed, the SRQ still
		// gets their entries back.
		require.NoError(t, a1.PostSend(&nicless.SendWR{Op: nicless.Send}))
		b.ok(t, a1, nicless.SendWR{Op: nicless.Nop})
		for range 3 {
			require.NoError(t, a1.PostSend(&nicless.SendWR{Op: nicless.Send}))
		}
		await.Until(t, "47 receives are used", func() bool { s, err := ctx.Status(); return err == nil && s.Receives == 47 })
		require.NoError(t, r1.Close())
		require.NoError(t, r2.Close())
		var c [8]nicless.Completion
		n, err := b.cq.Poll(c[:])
		require.NoError(t, err)
		require.Zero(t, n)
		n, err = srq.PostRecvList(make([]nicless.RecvWR, 7))
		require.NoError(t, err)
		require.Equal(t, 7, n)
		for range 2 {
			require.NoError(t, srq.Close())
		}
		require.ErrorIs(t, srq.PostRecv(&nicless.RecvWR{}), nicless.ErrClosed)
		require.ErrorIs(t, srq.SetLimit(1), nicless.ErrClosed)
		_, err = b.pd.CreateQP(nicless.QPConfig{SendCQ: b.cq, SRQ: srq})
		require.ErrorIs(t, err, nicless.ErrClosed)
	})
}

func TestSRQConfigs(t *testing.T) {
	b := open(t, nicless.CQConfig{}, nicless.QPConfig{})
	for _, c := range []nicless.SRQConfig{{MaxWR: -1}, {MaxWR: 1 << 15}, {MaxSGE: 32}, {MaxSGE: -1}, {Limit: 3000}} {
		_, err := b.pd.CreateSRQ(c)
		require.Error(t, err, "%+v", c)
	}
	q, err := b.pd.CreateSRQ(nicless.SRQConfig{MaxWR: 1<<15 - 1, MaxSGE: 31, Limit: 1})
	require.NoError(t, err)
	other := open(t, nicless.CQConfig{}, nicless.QPConfig{})
	_, err = other.pd.CreateQP(nicless.QPConfig{SendCQ: other.cq, SRQ: q})
	require.ErrorContains(t, err, "another context")
	collapsed, err := b.ctx.CreateCQ(nicless.CQConfig{Collapsed: true})
	require.NoError(t, err)
	_, err = b.pd.CreateQP(nicless.QPConfig{SendCQ: b.cq, RecvCQ: collapsed, SRQ: q})
	require.ErrorContains(t, err, "collapsed")
}

// A message that is longer than the receive causes errors on both sides, and does not
// affect the rest of the SRQ.
func TestSRQShort(t *testing.T) {
	b := open(t, nicless.CQConfig{}, nicless.QPConfig{})
	srq, err := b.pd.CreateSRQ(nicless.SRQConfig{})
	require.NoError(t, err)
	a, err := b.pd.CreateQP(nicless.QPConfig{SendCQ: b.cq})
	require.NoError(t, err)
	r, err := b.pd.CreateQP(nicless.QPConfig{SendCQ: b.cq, SRQ: srq})
	require.NoError(t, err)
	require.NoError(t, nicless.Pair(a, r, nicless.Connection{}))
	for id := range uint64(2) {
		require.NoError(t, srq.PostRecv(&nicless.RecvWR{ID: id, SGE: []nicless.SGE{b.mr.SGE(0, 4)}}))
	}
	require.NoError(t, a.PostSend(&nicless.SendWR{Op: nicless.Send, Data: make([]byte, 5)}))
	for _, c := range b.await(t, 2) {
		if c.Requester() {
			require.ErrorIs(t, c.Err(), cqe.RemoteInvalidRequest)
			continue
		}
		require.ErrorIs(t, c.Err(), cqe.LocalLength)
		require.Zero(t, c.ID)
	}
	require.Equal(t, nicless.EventLastWQE, event(t, b.ctx).Kind)
}
