package apitest

import (
	"os"
	"testing"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/cqe"
	"github.com/stretchr/testify/require"
)

// A bench is a context with one of each object: two connected queue pairs that
// share a completion queue.
type bench struct {
	ctx  *nicless.Context
	pd   *nicless.PD
	mr   *nicless.MR
	cq   *nicless.CQ
	a, b *nicless.QP
}

const mrSize = 1 << 16

func open(t testing.TB, c nicless.CQConfig, q nicless.QPConfig) *bench {
	t.Helper()
	ctx, err := nicless.Open(nicless.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = ctx.Close() })
	return fill(t, ctx, c, q)
}

func fill(t testing.TB, ctx *nicless.Context, c nicless.CQConfig, q nicless.QPConfig) *bench {
	t.Helper()
	b := &bench{ctx: ctx}
	var err error
	b.pd, err = ctx.AllocPD()
	require.NoError(t, err)
	b.mr, err = b.pd.RegisterMemory(mrSize, nicless.FullAccess)
	require.NoError(t, err)
	b.cq, err = ctx.CreateCQ(c)
	require.NoError(t, err)
	q.SendCQ = b.cq
	b.a, err = b.pd.CreateQP(q)
	require.NoError(t, err)
	b.b, err = b.pd.CreateQP(q)
	require.NoError(t, err)
	require.NoError(t, nicless.Pair(b.a, b.b, nicless.Connection{}))
	return b
}

// await returns the next n completions.
func (b *bench) await(t testing.TB, n int) []nicless.Completion {
	t.Helper()
	list := make([]nicless.Completion, n)
	for at := 0; at < n; {
		k, err := b.cq.Wait(t.Context(), list[at:])
		require.NoError(t, err)
		at += k
	}
	return list
}

var nop = nicless.SendWR{Op: nicless.Nop, Flags: nicless.Signaled}

// A second Close of any object does nothing. Using the object afterwards returns ErrClosed.
func TestAfterClose(t *testing.T) {
	b := open(t, nicless.CQConfig{}, nicless.QPConfig{})
	var c [1]nicless.Completion
	for range 2 {
		require.NoError(t, b.a.Close())
	}
	require.ErrorIs(t, b.a.PostSend(&nop), nicless.ErrClosed)
	_, err := b.a.PostSendList([]nicless.SendWR{nop})
	require.ErrorIs(t, err, nicless.ErrClosed)
	require.ErrorIs(t, b.a.PostRecv(&nicless.RecvWR{}), nicless.ErrClosed)
	_, err = b.a.PostRecvList([]nicless.RecvWR{{}})
	require.ErrorIs(t, err, nicless.ErrClosed)
	require.ErrorIs(t, b.a.Modify(&nicless.Attr{}), nicless.ErrClosed)
	require.ErrorIs(t, b.a.Connect(b.b.Descriptor(), nicless.Connection{}), nicless.ErrClosed)
	_, err = b.a.Query()
	require.ErrorIs(t, err, nicless.ErrClosed)
	require.NoError(t, b.b.Close())

	for range 2 {
		require.NoError(t, b.mr.Close())
	}
	require.Nil(t, b.mr.Bytes())
	_, err = b.mr.Register(0, 1, 0)
	require.ErrorIs(t, err, nicless.ErrClosed)
	for range 2 {
		require.NoError(t, b.cq.Close())
	}
	_, err = b.cq.Poll(c[:])
	require.ErrorIs(t, err, nicless.ErrClosed)
	_, err = b.cq.Wait(t.Context(), c[:])
	require.ErrorIs(t, err, nicless.ErrClosed)
	for range 2 {
		require.NoError(t, b.pd.Close())
	}
	_, err = b.pd.RegisterMemory(1, 0)
	require.ErrorIs(t, err, nicless.ErrClosed)
	_, err = b.pd.CreateQP(nicless.QPConfig{SendCQ: b.cq})
	require.ErrorIs(t, err, nicless.ErrClosed)
	for range 2 {
		require.NoError(t, b.ctx.Close())
	}
	_, err = b.ctx.AllocPD()
	require.ErrorIs(t, err, nicless.ErrClosed)
}

// If the context was closed first, using its objects returns ErrClosed and closing them
// succeeds.
func TestAfterCloseOfContext(t *testing.T) {
	b := open(t, nicless.CQConfig{}, nicless.QPConfig{})
	require.NoError(t, b.ctx.Close())
	<-b.ctx.Done()
	var c [1]nicless.Completion
	require.ErrorIs(t, b.a.PostSend(&nop), nicless.ErrClosed)
	require.ErrorIs(t, b.a.PostRecv(&nicless.RecvWR{}), nicless.ErrClosed)
	_, err := b.cq.Poll(c[:])
	require.ErrorIs(t, err, nicless.ErrClosed)
	_, err = b.cq.Wait(t.Context(), c[:])
	require.ErrorIs(t, err, nicless.ErrClosed)
	_, err = b.ctx.CreateCQ(nicless.CQConfig{})
	require.ErrorIs(t, err, nicless.ErrClosed)
	_, err = b.pd.CreateQP(nicless.QPConfig{SendCQ: b.cq})
	require.ErrorIs(t, err, nicless.ErrClosed)
	_, err = b.pd.RegisterMemory(1, 0)
	require.ErrorIs(t, err, nicless.ErrClosed)
	_, err = b.mr.Register(0, 1, 0)
	require.ErrorIs(t, err, nicless.ErrClosed)
	require.Nil(t, b.mr.Bytes(), "memory that is not mapped any more")
	_, err = b.ctx.Status()
	require.ErrorIs(t, err, nicless.ErrClosed)
	for _, f := range []func() error{b.a.Close, b.b.Close, b.mr.Close, b.cq.Close, b.pd.Close} {
		require.NoError(t, f())
	}
}

// An object that another object uses cannot be closed, and continues to work.
func TestBusy(t *testing.T) {
	b := open(t, nicless.CQConfig{}, nicless.QPConfig{})
	part, err := b.mr.Register(100, 50, nicless.LocalWrite)
	require.NoError(t, err)
	require.ErrorIs(t, b.pd.Close(), nicless.ErrBusy)
	require.ErrorIs(t, b.cq.Close(), nicless.ErrBusy)
	require.ErrorIs(t, b.mr.Close(), nicless.ErrBusy)
	require.Len(t, part.Bytes(), 50)
	require.NoError(t, b.a.PostSend(&nop))
	require.NoError(t, b.await(t, 1)[0].Err())
	require.NoError(t, part.Close())
	require.NoError(t, b.mr.Close())
	require.NoError(t, b.a.Close())
	require.NoError(t, b.b.Close())
	require.NoError(t, b.cq.Close())
	require.NoError(t, b.pd.Close())
}

// Making and closing all kinds of objects many times leaves nothing in the program.
func TestNothingIsLeftBehind(t *testing.T) {
	b := open(t, nicless.CQConfig{}, nicless.QPConfig{})
	for range 300 {
		o := fill(t, b.ctx, nicless.CQConfig{Entries: 4}, nicless.QPConfig{MaxSendWR: 4, MaxRecvWR: 4})
		require.NoError(t, o.a.PostSend(&nop))
		require.NoError(t, o.await(t, 1)[0].Err())
		for _, f := range []func() error{o.a.Close, o.b.Close, o.mr.Close, o.cq.Close, o.pd.Close} {
			require.NoError(t, f())
		}
	}
	require.NoError(t, b.a.PostSend(&nop))
	require.NoError(t, b.await(t, 1)[0].Err())
}

// Registered memory needs no file descriptor. A program may have more pieces of
// registered memory than file descriptors.
func TestManyRegistrations(t *testing.T) {
	b := open(t, nicless.CQConfig{}, nicless.QPConfig{})
	before := descriptors(t)
	for range 50 {
		_, err := b.pd.RegisterMemory(4096, nicless.FullAccess)
		require.NoError(t, err)
	}
	// Two more may have been opened meanwhile: the eventfd that wakes the engine, on both
	// sides.
	require.LessOrEqual(t, descriptors(t), before+2)
}

func TestNotConnected(t *testing.T) {
	b := open(t, nicless.CQConfig{}, nicless.QPConfig{})
	q, err := b.pd.CreateQP(nicless.QPConfig{SendCQ: b.cq})
	require.NoError(t, err)
	require.ErrorIs(t, q.PostSend(&nop), nicless.ErrNotConnected)
	n, err := q.PostSendList([]nicless.SendWR{nop})
	require.Zero(t, n)
	require.ErrorIs(t, err, nicless.ErrNotConnected)
	require.NoError(t, q.PostRecv(&nicless.RecvWR{}), "receives may be posted before")
	require.ErrorIs(t, b.a.Connect(b.b.Descriptor(), nicless.Connection{}), nicless.ErrState, "connected already")
	d := b.b.Descriptor()
	d.Device++
	require.ErrorContains(t, q.Connect(d, nicless.Connection{}), "one engine")
	for _, c := range []nicless.Connection{{RNRRetry: 8}, {Retry: -2}, {Timeout: 32}, {Timeout: nicless.NoRetry}, {MinRNRTimer: -1}} {
		require.ErrorIs(t, q.Connect(b.b.Descriptor(), c), nicless.ErrInvalid)
	}
}

// A full queue returns ErrFull until completions are polled. A list is posted as far as
// it fits.
func TestFull(t *testing.T) {
	b := open(t, nicless.CQConfig{}, nicless.QPConfig{MaxSendWR: 4, MaxRecvWR: 4})
	// With MaxSendSGE 4 and MaxInline 60, MaxSendWR counts requests of two blocks.
	list := make([]nicless.SendWR, 20)
	for i := range list {
		list[i] = nop
		list[i].ID = uint64(i)
	}
	n, err := b.a.PostSendList(list)
	require.ErrorIs(t, err, nicless.ErrFull)
	require.Equal(t, 8, n, "NOPs of one block")
	require.ErrorIs(t, b.a.PostSend(&nop), nicless.ErrFull)
	for i, c := range b.await(t, 8) {
		require.NoError(t, c.Err())
		require.Equal(t, uint64(i), c.ID)
	}
	require.NoError(t, b.a.PostSend(&nop))
	b.await(t, 1)
	recvs := make([]nicless.RecvWR, 5)
	n, err = b.a.PostRecvList(recvs)
	require.ErrorIs(t, err, nicless.ErrFull)
	require.Equal(t, 4, n)
	require.ErrorIs(t, b.a.PostRecv(&recvs[0]), nicless.ErrFull)
}

// If a request in the middle of a list is refused, the requests before it have been posted
// and rung.
func TestListIsPostedUpToTheRefusal(t *testing.T) {
	b := open(t, nicless.CQConfig{}, nicless.QPConfig{})
	n, err := b.a.PostSendList([]nicless.SendWR{nop, nop, {Op: nicless.Write, Data: make([]byte, 5000)}, nop})
	require.Equal(t, 2, n)
	require.ErrorContains(t, err, "5000")
	b.await(t, 2)
	got, err := b.cq.Poll(make([]nicless.Completion, 4))
	require.NoError(t, err)
	require.Zero(t, got)
}

func TestConfigsRefused(t *testing.T) {
	b := open(t, nicless.CQConfig{}, nicless.QPConfig{})
	for _, c := range []nicless.CQConfig{{Entries: -1}, {Entries: 1 << 30}} {
		_, err := b.ctx.CreateCQ(c)
		require.Error(t, err)
	}
	for _, c := range []nicless.QPConfig{{}, {SendCQ: b.cq, MaxSendWR: -1}, {SendCQ: b.cq, MaxSendWR: 32769}, {SendCQ: b.cq, MaxRecvWR: 32769},
		{SendCQ: b.cq, MaxSendSGE: 31}, {SendCQ: b.cq, MaxRecvSGE: 33}, {SendCQ: b.cq, MaxInline: 829},
		{SendCQ: b.cq, MaxSendWR: 32768, MaxSendSGE: 30}} {
		_, err := b.pd.CreateQP(c)
		require.Error(t, err)
	}
	for _, n := range []int{-1, 0, 1<<40 + 1} {
		_, err := b.pd.RegisterMemory(n, nicless.FullAccess)
		require.Error(t, err)
	}
	_, err := b.pd.RegisterMemory(10, nicless.RemoteWrite)
	require.ErrorIs(t, err, nicless.ErrInvalid)
	for _, r := range [][2]int{{-1, 1}, {0, 0}, {0, mrSize + 1}, {mrSize, 1}, {1, mrSize}} {
		_, err := b.mr.Register(r[0], r[1], 0)
		require.Error(t, err)
	}
	require.NoError(t, b.a.PostSend(&nop)) // the refusals above did no harm
	b.await(t, 1)
}

// The largest configurations work.
func TestLargestConfigs(t *testing.T) {
	b := open(t, nicless.CQConfig{Entries: 1 << 16, Size128: true, PollOnly: false},
		nicless.QPConfig{MaxSendWR: 4096, MaxRecvWR: 32768, MaxSendSGE: 30, MaxRecvSGE: 32, MaxInline: 400})
	require.NoError(t, b.a.PostSend(&nop))
	require.NoError(t, b.await(t, 1)[0].Err())
}

// A piece of memory that no SGE can name is refused, not cut.
func TestSGEThatIsTooLong(t *testing.T) {
	b := open(t, nicless.CQConfig{}, nicless.QPConfig{})
	for _, r := range [][2]int{{0, -1}, {-1, 8}} {
		require.Panics(t, func() { b.mr.SGE(r[0], r[1]) }, "as in a slice expression")
	}
	for _, n := range []int{1 << 32, 1<<32 + 1, 1<<31 + 1} {
		err := b.a.PostSend(&nicless.SendWR{Op: nicless.Write, SGE: []nicless.SGE{b.mr.SGE(0, n)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
		require.Error(t, err, "%d bytes", n)
	}
}

// A failure is a WorkError with its cause.
func TestWorkError(t *testing.T) {
	b := open(t, nicless.CQConfig{}, nicless.QPConfig{Deny: nicless.RemoteRead})
	require.NoError(t, b.a.PostSend(&nicless.SendWR{ID: 1, Op: nicless.Write, Data: []byte("x"), RemoteAddr: b.mr.Addr() + mrSize, RKey: b.mr.RKey()}))
	err := b.await(t, 1)[0].Err()
	require.ErrorIs(t, err, cqe.RemoteAccess)
	var w *cqe.WorkError
	require.ErrorAs(t, err, &w)
	require.Equal(t, []uint64{1, uint64(b.a.QPN())}, []uint64{w.ID, uint64(w.QPN)})
}

// descriptors counts the open file descriptors of this process.
func descriptors(t testing.TB) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(list)
}
