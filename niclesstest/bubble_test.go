//go:build linux && (amd64 || arm64)

package niclesstest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/niclesstest"
	"github.com/stretchr/testify/require"
)

// The program of the examples sends a heartbeat each second. Its peer has twenty receives, and then no more,
// so that the twenty-first heartbeat fails after 6 retries of 491.52 ms. That are 24 seconds in the bubble,
// and some milliseconds for the one who waits for the test.
func TestHeartbeatOfADeadPeer(t *testing.T) {
	begin := time.Now()
	synctest.Test(t, func(t *testing.T) {
		d := niclesstest.NewWith(t, niclesstest.Config{Clock: niclesstest.Bubble})
		d.Expect("receive-none")
		a, b := d.Pair(niclesstest.PairConfig{TwoClients: true,
			Connection: nicless.Connection{RNRRetry: 6, MinRNRTimer: 31}})
		for range 20 {
			b.Receive(0)
		}
		begin := time.Now()
		sent, err := beat(t.Context(), a.QP, a.CQ)
		require.ErrorIs(t, err, cqe.RNRRetry)
		require.Equal(t, 20, sent)
		require.Equal(t, (21*time.Second + 6*491520*time.Microsecond).Truncate(time.Millisecond),
			time.Since(begin).Truncate(time.Millisecond))
		for range 20 {
			require.NoError(t, b.Next().Err())
		}
	})
	t.Logf("24 seconds took %v", time.Since(begin))
}
