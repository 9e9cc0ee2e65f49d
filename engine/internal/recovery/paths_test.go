//go:build linux && (amd64 || arm64)

package recovery

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Paths that queue pairs use are never dropped, and others only when there are too many.
func TestPathsAreBounded(t *testing.T) {
	var p Paths
	kept := p.Join(0)
	kept.Resent = 3
	for n := uint32(1); n < 3*mostIdle; n++ {
		p.Join(n).Leave()
		require.LessOrEqual(t, len(p.byNumber), mostIdle)
	}
	require.EqualValues(t, 3, p.Counts()[0].Resent)
	again := p.Join(0)
	require.Same(t, kept, again)
}

// A window shrinks to no less than Least packets, and grows to Full.
func TestLimit(t *testing.T) {
	l := NewLimit(100, 7)
	for range 20 {
		l.Shrink()
	}
	require.EqualValues(t, Least, l.Window)
	for range 10_000 {
		l.Grow(1)
		require.LessOrEqual(t, l.Window, l.Full)
	}
	require.Equal(t, l.Full, l.Window)
}
