//go:build linux && (amd64 || arm64)

package nicless

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

// stepping returns two connected queue pairs of an engine whose posters run its steps, and their CQ.
func stepping(t *testing.T) (*QP, *QP, *CQ, *MR) {
	t.Helper()
	c, err := Open(Config{PostersStep: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	pd, err := c.AllocPD()
	require.NoError(t, err)
	cq, err := c.CreateCQ(CQConfig{})
	require.NoError(t, err)
	a, err := pd.CreateQP(QPConfig{SendCQ: cq})
	require.NoError(t, err)
	b, err := pd.CreateQP(QPConfig{SendCQ: cq})
	require.NoError(t, err)
	require.NoError(t, Pair(a, b, Connection{}))
	mr, err := pd.RegisterMemory(16, FullAccess)
	require.NoError(t, err)
	return a, b, cq, mr
}

// A post that returns has executed its WRITE, and the first poll finds the completion. An engine's thread on
// another core would take longer than that. The thread itself wakes now and then.
func TestPostExecutesTheWrite(t *testing.T) {
	a, _, cq, mr := stepping(t)
	var done [1]Completion
	for row := 0; row < 100; row++ {
		mr.Bytes()[0] = byte(row + 1)
		require.NoError(t, a.PostSend(&SendWR{Op: Write, Flags: Signaled, SGE: []SGE{mr.SGE(0, 8)},
			RemoteAddr: mr.Addr() + 8, RKey: mr.RKey()}))
		n, err := cq.Poll(done[:])
		require.NoError(t, err)
		if n == 0 {
			_, err = cq.Wait(context.Background(), done[:])
			require.NoError(t, err)
			row = -1 // the thread was awake
		}
		require.NoError(t, done[0].Err())
		require.Equal(t, mr.Bytes()[0], mr.Bytes()[8])
	}
}

// A goroutine that waits for a message without polling is woken by the goroutine that sends it.
func TestSleeperGetsWhatAPosterSends(t *testing.T) {
	a, b, cq, mr := stepping(t)
	for range 100 {
		require.NoError(t, b.PostRecv(&RecvWR{SGE: []SGE{mr.SGE(8, 8)}}))
		got := make(chan error, 1)
		go func() {
			var done [1]Completion
			_, err := cq.Wait(context.Background(), done[:])
			if err == nil {
				err = done[0].Err()
			}
			got <- err
		}()
		require.NoError(t, a.PostSend(&SendWR{Op: Send, SGE: []SGE{mr.SGE(0, 8)}}))
		require.NoError(t, <-got)
	}
}

func TestSteppingPostAllocatesNothing(t *testing.T) {
	a, _, cq, mr := stepping(t)
	wr := &SendWR{Op: Write, Flags: Signaled, SGE: []SGE{mr.SGE(0, 8)}, RemoteAddr: mr.Addr() + 8, RKey: mr.RKey()}
	var done [1]Completion
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if a.PostSend(wr) != nil {
			t.Error("not posted")
		}
		for n := 0; n == 0; {
			n, _ = cq.Poll(done[:])
		}
	}))
}
