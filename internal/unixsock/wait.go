//go:build linux && (amd64 || arm64)

package unixsock

import (
	"sync"
	"time"
)

// Patience is how long a server that ends waits for the goroutines that serve its connections.
const Patience = 5 * time.Second

// WaitFor waits for a group, at most for d, and reports whether all of the group is done.
func WaitFor(all *sync.WaitGroup, d time.Duration) bool {
	done := make(chan struct{})
	go func() {
		all.Wait()
		close(done)
	}()
	select {
	case <-done:
		return true
	case <-time.After(d):
		return false
	}
}
