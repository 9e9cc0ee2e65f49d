//go:build linux && (amd64 || arm64)

package loop

import (
	"testing"
	"time"

	"github.com/nicless/nicless/internal/clock"
	"github.com/stretchr/testify/require"
)

// A device that was woken without work sleeps again at once, but not within YieldTime of its last sleep: a
// client that wakes it without end does not cause barriers without end.
func TestRestsAtOnceOncePerYieldTime(t *testing.T) {
	i := &idler{sh: new(Loop)}
	later := func(d time.Duration) uint64 {
		end := uint64(1)
		for clock.Duration(end-1) < d {
			end *= 2
		}
		return i.slept + end
	}
	require.False(t, i.restsAtOnce(later(time.Second), false), "it has not slept")
	i.slept = 1 << 40
	for _, contended := range []bool{false, true} {
		require.False(t, i.restsAtOnce(i.slept, contended))
		require.False(t, i.restsAtOnce(later(YieldTime/8), contended))
		require.True(t, i.restsAtOnce(later(YieldTime), contended))
	}
}
