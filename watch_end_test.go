//go:build linux && (amd64 || arm64)

package nicless

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/trace"
)

// lastMoment is a context that ends when it is asked whether it has ended, right after something was done.
type lastMoment struct {
	context.Context
	act   func()
	asked bool
}

func (c *lastMoment) Err() error {
	if !c.asked {
		c.asked = true
		c.act()
	}
	return context.Canceled
}

// An event that is recorded right before the context of Next ends is read, whenever Next asks for the end:
// of a program that has ended, all is seen.
func TestWatchReadsAllBeforeItsEnd(t *testing.T) {
	path := inProcess(t, Config{})
	worker, watcher := dialed(t, path), dialed(t, path)
	w, err := watcher.Watch(WatchFilter{All: true})
	require.NoError(t, err)
	pd, err := worker.AllocPD()
	require.NoError(t, err)
	cq, err := worker.CreateCQ(CQConfig{})
	require.NoError(t, err)

	var e trace.Event
	for more := true; more; {
		more, err = w.Poll(&e)
		require.NoError(t, err)
	}
	var made uint32
	ctx := &lastMoment{Context: context.Background(), act: func() {
		qp, err := pd.CreateQP(QPConfig{SendCQ: cq})
		require.NoError(t, err)
		made = qp.QPN()
	}}
	require.NoError(t, w.Next(ctx, &e))
	require.Equal(t, trace.KindQueue, e.Kind)
	require.Equal(t, made, e.Queue)
	for err == nil {
		err = w.Next(ctx, &e)
	}
	require.ErrorIs(t, err, context.Canceled)
}
