package clock

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestWithoutInvariantTSCACycleIsANanosecond(t *testing.T) {
	was := monotonic
	monotonic = true
	defer func() { monotonic = was }()

	assert.Equal(t, second, findHz())
	before := nanoseconds()
	now := Now()
	assert.LessOrEqual(t, before, now)
	assert.LessOrEqual(t, now, nanoseconds())
	assert.Zero(t, testing.AllocsPerRun(100, func() { Now() }))

	n0, t0 := Now(), time.Now()
	for time.Since(t0) < time.Millisecond {
	}
	assert.GreaterOrEqual(t, Now()-n0, uint64(time.Millisecond))
}
