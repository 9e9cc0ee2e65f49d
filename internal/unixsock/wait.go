//go:build linux && (amd64 || arm64)

package unixsock

import (
	"sync"
	"time"
)

// Patience is how long the end of a server waits for the goroutines that serve its
// connections.
const Patience = 5 * time.Second

// WaitFor waits for a group, at most for d, and reports whether it is done.
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
