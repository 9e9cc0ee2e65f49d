//go:build linux

package await

import (
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// watching returns how many goroutines watch the patience of waits.
func watching() int {
	stacks := make([]byte, 1<<20)
	return strings.Count(string(stacks[:runtime.Stack(stacks, true)]), "await.(*watch).run(")
}

func TestAThousandWaitsHaveOneGoroutine(t *testing.T) {
	require.Zero(t, watching())
	t.Run("a test", func(t *testing.T) {
		for range 1000 {
			a, b := net.Pipe()
			defer a.Close()
			defer b.Close()
			Deadline(t, a)
			require.NoError(t, Context(t).Err())
		}
		Until(t, "the goroutine runs", func() bool { return watching() > 0 })
		require.Equal(t, 1, watching())
	})
	require.Zero(t, watching())
	t.Run("another test", func(t *testing.T) {
		Context(t)
		Until(t, "the goroutine runs again", func() bool { return watching() == 1 })
	})
	require.Zero(t, watching())
}

// A wait that begins later ends later, and one that has ended gets no report. The goroutine goes on while
// there are waits, and ends also if patience was over for all.
func TestPatienceOfEachWait(t *testing.T) {
	w := watch{limit: 3 * period}
	told := make(chan string, 10)
	tell := func(name string) func() { return func() { told <- name } }
	first, ended := w.begin(tell("first")), w.begin(tell("ended"))
	ended()
	clock := w.now
	Until(t, "some patience is over", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		for one := range w.waits {
			return one.begun
		}
		return false
	})
	second := w.begin(tell("second"))
	require.Equal(t, "first", Receive(t, "the first wait is over", told))
	require.Equal(t, "second", Receive(t, "the second wait is over", told))
	require.Same(t, clock, w.now)
	first()
	first() // as often as one likes
	second()
	Receive(t, "the goroutine has ended", clock.stopped)
	require.Empty(t, told)
	require.Nil(t, w.now)
}

// When the patience of a connection is over, its reads fail.
func TestDeadlineIsAnError(t *testing.T) {
	w := watch{limit: period}
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	defer w.begin(func() { _ = a.SetDeadline(time.Unix(1, 0)) })()
	_, err := a.Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
}
