package ticketlock

import (
	"fmt"
	"testing"

	"github.com/nicless/nicless/internal/await"
	"github.com/stretchr/testify/require"
)

// Threads get the lock in the order in which they asked for it. A thread that unlocks and
// locks again gets it after the threads that are waiting.
func TestLockIsFair(t *testing.T) {
	var l Lock
	var order []int
	l.Lock()
	require.False(t, l.TryLock())
	done := make(chan struct{})
	for i := range 3 {
		go func() {
			l.Lock()
			order = append(order, i)
			l.Unlock()
			done <- struct{}{}
		}()
		await.Until(t, fmt.Sprintf("goroutine %d waits", i), func() bool { return l.next.Load() == uint32(i+2) })
	}
	require.False(t, l.TryLock(), "TryLock does not pass those that wait")
	l.Unlock()
	l.Lock()
	order = append(order, 3)
	l.Unlock()
	for range 3 {
		<-done
	}
	require.Equal(t, []int{0, 1, 2, 3}, order)
	require.True(t, l.TryLock())
}
