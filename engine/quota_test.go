package engine

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Closers are per user, whatever the uids are.
func TestClosersDoNotCollide(t *testing.T) {
	r := newRig(t, Config{})
	stuck, done := make(chan struct{}), make(chan struct{})
	r.e.discard(1, 0, func() { <-stuck })
	for uid := uint32(2); uid <= 3000; uid++ {
		r.e.discard(uid, 0, func() { done <- struct{}{} })
		select {
		case <-done:
		case <-time.After(10 * time.Second):
			t.Fatalf("uid %d waits behind uid 1", uid)
		}
	}
	close(stuck)
}

// One user's closers are bounded, and users with stuck ones leave half of all to
// those who have none.
func TestClosersAreBounded(t *testing.T) {
	var c closers
	release := make(chan struct{})
	var all sync.WaitGroup
	stick := func(user uint32, n int) {
		for range n {
			all.Add(1)
			c.add(user, func() { defer all.Done(); <-release })
		}
	}
	busy := func(user uint32) int {
		c.mu.Lock()
		defer c.mu.Unlock()
		if p := c.users[user]; p != nil {
			return p.busy
		}
		return 0
	}
	r := &rig{TB: t}
	const greedy = closersMost/2/closersEach + 10
	for user := range uint32(greedy) {
		stick(user, closersEach+4)
	}
	r.until("half of them are stuck", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.busy >= closersMost/2
	})
	for user := range uint32(greedy) {
		require.GreaterOrEqual(t, busy(user), 1)
		require.LessOrEqual(t, busy(user), closersEach)
	}
	done := make(chan struct{})
	c.add(9999, func() { close(done) })
	<-done
	for user := uint32(10_000); c.waiting() < greedy*4+closersMost; user++ { // more than there are
		stick(user, 1)
	}
	c.mu.Lock()
	require.Equal(t, closersMost, c.busy)
	c.mu.Unlock()
	close(release)
	all.Wait()
	r.until("all are done", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.busy == 0 && len(c.users) == 0 && len(c.turns) == 0 && c.length == 0
	})
}
