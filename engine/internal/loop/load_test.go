//go:build linux && (amd64 || arm64)

package loop

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// batch is a batch of steps that begins at a time.
func (l *load) batch(at, took, idle uint64, worked bool) (added uint64) {
	was := l.busy
	l.begin(at)
	l.idle, l.worked = idle, worked
	l.end(at + took)
	return l.busy - was
}

// A batch adds what it took, less what its steps without work took; idle batches say how long those take.
func TestLoad(t *testing.T) {
	var l load
	at := uint64(1000)
	for range 100 { // the estimate grows to what a step takes
		require.Zero(t, l.batch(at, 256*50, 256, false))
		at += 1 << 20
	}
	require.EqualValues(t, 50*eachScale, l.each)
	require.EqualValues(t, 10_000, l.batch(at, 10_000, 0, true), "all steps worked")
	require.EqualValues(t, 10_000-128*50, l.batch(at, 10_000, 128, true), "half of them")
	require.Zero(t, l.batch(at, 1000, 128, true), "never negative")

	require.Zero(t, l.batch(at, 256*5000, 256, false), "an interrupted batch")
	require.Less(t, l.each, uint64(64*eachScale), "counts little")
	require.Zero(t, l.batch(at, 256*20, 256, false))
	require.EqualValues(t, 20*eachScale, l.each, "a shorter one counts at once")

	was := l.busy
	l.end(at + 1<<30) // as after a fault that has ended the batch already
	require.Equal(t, was, l.busy)
	require.Equal(t, was, l.shown.Load())
}
