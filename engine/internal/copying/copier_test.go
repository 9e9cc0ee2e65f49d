package copying

import (
	"testing"

	"github.com/nicless/nicless/internal/cpu"
	"github.com/stretchr/testify/require"
)

// trial simulates a trial in which a stretch takes cost(nonTemporal) cycles. It returns how
// many bytes the trial copied.
func (c *Copier) trial(cost func(nonTemporal bool) uint64) (bytes int) {
	for c.left = 0; ; c.left = 0 {
		c.nextStretch()
		if c.pairs == 0 {
			return bytes
		}
		bytes += c.left
		c.cycles = cost(c.nonTemporal)
	}
}

func constant(cached, nonTemporal uint64) func(bool) uint64 {
	return func(s bool) uint64 {
		if s {
			return nonTemporal
		}
		return cached
	}
}

// The faster way wins a trial. Trials become less frequent as long as they have the same
// result. After a trial with another result, the rest is the shortest again.
func TestCopierLearns(t *testing.T) {
	c := &Copier{}
	require.Equal(t, 2*trialPairs*trialBytes, c.trial(constant(200, 100)))
	require.True(t, c.nonTemporal)
	require.Equal(t, firstRest, c.left)
	for want := 2 * firstRest; want < lastRest; want *= 2 {
		c.trial(constant(200, 100))
		require.True(t, c.nonTemporal)
		require.Equal(t, want, c.left)
	}
	c.trial(constant(200, 100))
	c.trial(constant(200, 100))
	require.Equal(t, lastRest, c.left)
	c.trial(constant(100, 200))
	require.False(t, c.nonTemporal)
	require.Equal(t, firstRest, c.left)
	// Three interrupted stretches do not change the result.
	n := 0
	c.trial(func(nonTemporal bool) uint64 {
		n++
		if nonTemporal && n <= 6 {
			return 1 << 40
		}
		return constant(200, 100)(nonTemporal)
	})
	require.True(t, c.nonTemporal)
}

// The length of trials and rests depends only on how many bytes are copied, not on the length
// of the pieces.
func TestCopierCountsBytes(t *testing.T) {
	c := &Copier{}
	src, dst := make([]byte, trialBytes/8+1), make([]byte, trialBytes/8+1)
	for i := range src {
		src[i] = byte(i * 7)
	}
	changes, was := 0, false
	for copied := 0; c.rest == 0; copied += len(src) {
		require.Equal(t, len(src), c.Copy(dst, src))
		require.Equal(t, src, dst)
		if c.nonTemporal != was {
			changes, was = changes+1, c.nonTemporal
		}
		clear(dst)
		require.LessOrEqual(t, copied, 2*trialPairs*(trialBytes+len(src)))
	}
	require.GreaterOrEqual(t, changes, 2*trialPairs-2)
	left := c.left
	require.Equal(t, 100, c.Copy(dst[:100], src))
	require.Equal(t, left-100, c.Left())
}

func TestFixed(t *testing.T) {
	var dst [20]byte
	for _, nonTemporal := range []bool{false, true} {
		c := Fixed(nonTemporal, 30)
		require.Equal(t, 20, c.Copy(dst[:], make([]byte, 20)))
		require.Equal(t, 10, c.Left())
		require.Equal(t, nonTemporal, c.nonTemporal)
		require.Zero(t, c.pairs, "no trial")
	}
}

func TestThreshold(t *testing.T) {
	if !cpu.CanCopyNonTemporal {
		require.Equal(t, ^uint64(0), Threshold(32<<20))
		return
	}
	require.Equal(t, uint64(16<<20), Threshold(32<<20))
	require.Equal(t, uint64(trialBytes), Threshold(1<<20))
}
