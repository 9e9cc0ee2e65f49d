//go:build linux && (amd64 || arm64)

package eventsocket

import (
	"testing"

	"github.com/nicless/nicless/internal/clock"
	"github.com/stretchr/testify/require"
)

// A client that does not read is tried again seldom, and told once.
func TestUnreadSocketCostsLittle(t *testing.T) {
	var p Pauses
	now, told := uint64(1), 0
	require.False(t, p.Rests(now))
	for range 100 {
		if p.Rest(now) {
			told++
		}
		require.Greater(t, p.Until(), now)
		require.True(t, p.Rests(p.Until()-1))
		require.False(t, p.Rests(p.Until()))
		now = p.Until()
	}
	require.Equal(t, 1, told)
	require.EqualValues(t, 9, clock.Duration(now).Milliseconds()/1000, "about 10 tries in a second")
}
