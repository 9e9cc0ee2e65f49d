package engine

import (
	"testing"

	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// Everything that comes with time comes by the clock that the test holds. The real clock would differ between
// the twins, because much time may pass after the work of one and before that of the other. Here a SEND waits
// for a receive for ever, which is explained after half a second.
func TestTwinsHaveOneClock(t *testing.T) {
	pair := newTwins(t, nil)
	pair.both(func(w *twin) {
		w.p.post(ctrl(wqe.OpSend), w.local.data(0, 8))
		w.settle()
		require.Zero(t, w.a.c.Count[control.CounterExplained])
		w.e.Hooks.HeldClock <<= 1 // some minutes
		w.settle()
		require.Equal(t, uint64(1), w.a.c.Count[control.CounterExplained])
	})
	pair.compare()
}
