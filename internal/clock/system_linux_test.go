package clock

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Other processes can read the monotonic clock too.
func TestNanosecondsAreTheSystemsMonotonicClock(t *testing.T) {
	for range 1000 {
		before := systemMonotonic()
		now := nanoseconds()
		after := systemMonotonic()
		require.LessOrEqual(t, now, after)
		require.LessOrEqual(t, before, now+uint64(10*time.Microsecond), "base is too small")
	}
}
