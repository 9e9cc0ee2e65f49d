package engine

import (
	"sync"
	"time"
)

// Patience is how long the end of a server waits for what serves its connections.
const Patience = 5 * time.Second

// WaitFor waits for a group, and reports whether it was done within some time.
func WaitFor(all *sync.WaitGroup, most time.Duration) bool {
	done := make(chan struct{})
	go func() {
		all.Wait()
		close(done)
	}()
	select {
	case <-done:
		return true
	case <-time.After(most):
		return false
	}
}
