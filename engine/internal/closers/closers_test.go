package closers

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nicless/nicless/internal/await"
	"github.com/stretchr/testify/require"
)

// Each user has closers of its own, whatever the uids are.
func TestClosersDoNotCollide(t *testing.T) {
	var c Closers
	stuck := make(chan struct{})
	defer close(stuck)
	c.Add(1, func() { <-stuck })
	var done atomic.Int32
	const users = 3000
	for uid := range uint32(users) {
		c.Add(2+uid, func() { done.Add(1) })
	}
	await.Until(t, "nobody waits behind uid 1", func() bool { return done.Load() == users }, func() any { return done.Load() })
}

// The closers of one user are bounded. Users whose closers are stuck leave half of all closers
// to users that have none.
func TestClosersAreBounded(t *testing.T) {
	var c Closers
	release := make(chan struct{})
	var all sync.WaitGroup
	stick := func(user uint32, n int) {
		for range n {
			all.Add(1)
			c.Add(user, func() { defer all.Done(); <-release })
		}
	}
	busy := func(user uint32) int {
		c.mu.Lock()
		defer c.mu.Unlock()
		if q := c.users[user]; q != nil {
			return q.busy
		}
		return 0
	}
	const greedy = Most/2/Each + 10
	for user := range uint32(greedy) {
		stick(user, Each+4)
	}
	await.Until(t, "half of them are stuck", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.busy >= Most/2
	})
	for user := range uint32(greedy) {
		require.GreaterOrEqual(t, busy(user), 1)
		require.LessOrEqual(t, busy(user), Each)
	}
	done := make(chan struct{})
	c.Add(9999, func() { close(done) })
	<-done
	// Until more calls wait than there are closers.
	for user := uint32(10_000); c.Waiting() < greedy*4+Most; user++ {
		stick(user, 1)
	}
	c.mu.Lock()
	require.Equal(t, Most, c.busy)
	c.mu.Unlock()
	close(release)
	all.Wait()
	await.Until(t, "all are done", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.busy == 0 && len(c.users) == 0 && len(c.starved) == 0 && c.waiting == 0
	})
}
