//go:build linux && (amd64 || arm64)

package nicless

import (
	"sync/atomic"
	"testing"

	"github.com/nicless/nicless/hostpath"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/inside"
	"github.com/stretchr/testify/require"
)

// A tally is a ledger that counts.
type tally struct{ made, gone, dropped atomic.Int32 }

func (t *tally) Served(op control.Op, _, _ control.Message) {
	if op == control.OpAllocPD {
		t.made.Add(1)
	}
}
func (t *tally) Dropped(uint32, []hostpath.Unpolled) { t.dropped.Add(1) }
func (t *tally) Gone()                               { t.gone.Add(1) }

// A client that the device has ended finds that the device is gone, and its objects can be closed.
func TestClientThatTheDeviceEnds(t *testing.T) {
	for _, clock := range []inside.Clock{inside.Real, inside.Held} {
		e, err := inside.Open(Config{}, clock)
		require.NoError(t, err)
		var count tally
		c, err := e.Attach("a", &count)
		require.NoError(t, err)
		pd, err := c.Context().(*Context).AllocPD()
		require.NoError(t, err)
		require.True(t, c.Alive())
		require.NoError(t, c.(*guest).client.Close()) // as the device does when a rule kills the client
		require.False(t, c.Alive())
		_, err = c.Context().(*Context).AllocPD()
		require.ErrorIs(t, err, ErrDeviceGone)
		require.NoError(t, pd.Close())
		require.NoError(t, c.Context().(*Context).Close())
		require.EqualValues(t, 1, count.made.Load())
		require.NotZero(t, count.gone.Load())
		require.NoError(t, e.Close())
	}
}
