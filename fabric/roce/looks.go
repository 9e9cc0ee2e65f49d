//go:build linux && (amd64 || arm64)

package roce

import "sync/atomic"

// lookRequests are the looks at sockets that the engine has requested, because an answer has not come in
// time. The engine finds a peer silent only after one.
type lookRequests struct {
	wanted atomic.Uint32 // number of the look that was requested last; the engine's thread stores it
	done   atomic.Uint32 // number of the look that is complete; the receiver stores it
}

// requestLook is nic.PortConfig.Look.
//
// Publish: wanted. Observed by receiver.step and pending. Observe: done, published by receiver.step.
func (c *Carrier) requestLook(number uint32) (complete bool) {
	if c.looks.wanted.Load() != number {
		c.looks.wanted.Store(number)
		c.receiveWaiter.wake()
	}
	return c.looks.done.Load() == number
}

// pending reports whether a look was requested that is not complete.
func (k *lookRequests) pending() bool { return k.wanted.Load() != k.done.Load() }

// finish is called when the receiver has found no packets of known addresses in any socket, after it has
// loaded number from wanted, and all that it found before are in the engine's ring.
func (k *lookRequests) finish(number uint32) {
	if k.done.Load() != number {
		k.done.Store(number)
	}
}
