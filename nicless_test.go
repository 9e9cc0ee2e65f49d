package nicless

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOneWrite(t *testing.T) {
	ctx, err := Open(Config{})
	require.NoError(t, err)
	defer ctx.Close()
	pd, err := ctx.AllocPD()
	require.NoError(t, err)
	mr, err := pd.RegisterMemory(4096, FullAccess)
	require.NoError(t, err)
	cq, err := ctx.CreateCQ(CQConfig{})
	require.NoError(t, err)
	a, err := pd.CreateQP(QPConfig{SendCQ: cq})
	require.NoError(t, err)
	b, err := pd.CreateQP(QPConfig{SendCQ: cq})
	require.NoError(t, err)
	require.NoError(t, Pair(a, b, Connection{}))
	copy(mr.Bytes(), "hello, world")
	require.NoError(t, a.PostSend(&SendWR{ID: 7, Op: Write, Flags: Signaled, SGE: []SGE{mr.SGE(0, 12)}, RemoteAddr: mr.Addr() + 2048, RKey: mr.RKey()}))
	var c [4]Completion
	n, err := cq.Wait(t.Context(), c[:])
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.NoError(t, c[0].Err())
	require.Equal(t, "hello, world", string(mr.Bytes()[2048:2060]))
}
