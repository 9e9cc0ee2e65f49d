//go:build linux && (amd64 || arm64)

package netdev

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// However many ask for the next step of all sessions, there is one in a millisecond.
func TestStepsAreFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := newInterface(nil, nil, Config{})
		defer in.timer.Stop()
		steps := 0
		in.again()
		for begin := time.Now(); time.Since(begin) < 100*time.Millisecond; {
			if in.changed.Swap(false) {
				steps++
				for range 16 { // as many sessions that end
					in.later(lookAgain)
					time.Sleep(time.Microsecond)
				}
			}
			time.Sleep(10 * time.Microsecond)
			synctest.Wait()
		}
		require.LessOrEqual(t, steps, 101)
		require.GreaterOrEqual(t, steps, 40)
		time.Sleep(time.Second)
	})
}
