package pool

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// eachAlarm runs a test with a timer of the kernel and with one of Go.
func eachAlarm(t *testing.T, test func(t *testing.T, a *alarm)) {
	t.Run("kernel", func(t *testing.T) {
		a := newAlarm()
		a.system = newSystemAlarm()
		require.NotNil(t, a.system)
		t.Cleanup(a.close)
		test(t, a)
	})
	t.Run("Go", func(t *testing.T) { test(t, newAlarm()) })
}

// A pause ends when its time is over, when the alarm rings, or has rung before, and when ctx ends.
func TestPauseEnds(t *testing.T) {
	eachAlarm(t, func(t *testing.T, a *alarm) {
		ctx, stop := context.WithCancel(context.Background())
		defer context.AfterFunc(ctx, a.ring)()
		a.wait(ctx, 5*time.Millisecond)
		for range 3 {
			a.ring()
		}
		a.wait(ctx, time.Hour)
		require.False(t, a.rung(), "one wait takes all")
		stop()
		a.wait(ctx, time.Hour)
		a.wait(ctx, time.Hour)
	})
}

// No ring is lost, wherever the waiting node is: between its look and its wait, too.
func TestNoRingIsLost(t *testing.T) {
	eachAlarm(t, func(t *testing.T, a *alarm) {
		var seen, rings atomic.Int64
		ended := make(chan struct{})
		rounds := int64(20000)
		if runtime.GOMAXPROCS(0) == 1 {
			// A goroutine that yields all the time keeps the only P from the poller, at which then only the
			// runtime's sysmon looks, each 10 ms.
			rounds = 200
		}
		go func() {
			defer close(ended)
			for i := int64(1); i <= rounds; i++ {
				rings.Store(i)
				a.ring()
				for seen.Load() < i {
					runtime.Gosched()
				}
			}
		}()
		for seen.Load() < rounds {
			a.wait(context.Background(), time.Hour) // a lost ring makes the test time out
			seen.Store(rings.Load())
		}
		<-ended
	})
}

// After close, ring does nothing, and touches no descriptor that another file has by then.
func TestRingAfterClose(t *testing.T) {
	a := newAlarm()
	a.system = newSystemAlarm()
	a.close()
	a.ring()
	require.True(t, a.rung())
	require.Error(t, a.system.wait(time.Hour, func() bool { return true }))
}
