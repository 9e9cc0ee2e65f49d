package nicless

import (
	"bytes"
	"context"
	"log/slog"
	"runtime"
	"testing"

	"github.com/nicless/nicless/cqe"
	"github.com/stretchr/testify/require"
)

func TestOneWrite(t *testing.T) {
	ctx, err := Open(Config{})
	require.NoError(t, err)
	defer ctx.Close()
	pd, cq, a := connected(t, ctx)
	mr, err := pd.RegisterMemory(4096, FullAccess)
	require.NoError(t, err)
	copy(mr.Bytes(), "hello, world")
	require.NoError(t, a.PostSend(&SendWR{ID: 7, Op: Write, Flags: Signaled, SGE: []SGE{mr.SGE(0, 12)}, RemoteAddr: mr.Addr() + 2048, RKey: mr.RKey()}))
	var c [4]Completion
	n, err := cq.Wait(t.Context(), c[:])
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.NoError(t, c[0].Err())
	require.Equal(t, "hello, world", string(mr.Bytes()[2048:2060]))
}

// A slowLog takes a line only when Close waits for the log in FlushLog, or when Close has
// already returned, which is too late.
type slowLog struct {
	slog.Handler
	lines  chan string
	closed chan struct{}
}

func (l slowLog) Enabled(context.Context, slog.Level) bool { return true }

func (l slowLog) Handle(_ context.Context, r slog.Record) error {
	stacks := make([]byte, 1<<20)
	for {
		select {
		case <-l.closed:
			return nil
		default:
		}
		if n := runtime.Stack(stacks, true); bytes.Contains(stacks[:n], []byte("FlushLog")) {
			l.lines <- r.Message
			return nil
		}
	}
}

// Close returns only when the log has all reports of the device, however slow the log is.
func TestCloseWaitsForTheLog(t *testing.T) {
	log := slowLog{lines: make(chan string, 8), closed: make(chan struct{})}
	ctx, err := Open(Config{Log: slog.New(log)})
	require.NoError(t, err)
	_, cq, a := connected(t, ctx)
	require.NoError(t, a.PostSend(&SendWR{Op: Write, Data: []byte("x"), RKey: 0xdeadbeef}))
	var c [1]Completion
	_, err = cq.Wait(t.Context(), c[:])
	require.NoError(t, err)
	require.ErrorIs(t, c[0].Err(), cqe.RemoteAccess)
	require.NoError(t, ctx.Close())
	close(log.closed)
	close(log.lines)
	var said []string
	for line := range log.lines {
		said = append(said, line)
	}
	require.Len(t, said, 1, "%q", said)
	require.Contains(t, said[0], "0xdeadbeef")
}

// Open refuses several Cores, because several threads are for several clients.
func TestOpenOnSeveralCoresIsRefused(t *testing.T) {
	_, err := Open(Config{Cores: []int{0, 1}})
	require.ErrorContains(t, err, "Open with Cores [0 1]")
}

// connected makes two queue pairs that are connected with each other and complete their sends
// in cq. It returns one of the two.
func connected(t *testing.T, c *Context) (pd *PD, cq *CQ, q *QP) {
	t.Helper()
	pd, err := c.AllocPD()
	require.NoError(t, err)
	cq, err = c.CreateCQ(CQConfig{})
	require.NoError(t, err)
	q, err = pd.CreateQP(QPConfig{SendCQ: cq})
	require.NoError(t, err)
	peer, err := pd.CreateQP(QPConfig{SendCQ: cq})
	require.NoError(t, err)
	require.NoError(t, Pair(q, peer, Connection{}))
	return pd, cq, q
}
