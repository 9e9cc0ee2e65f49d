package nic

// A Lender is a device whose steps the goroutines of a client in its own process can run while the device's
// thread sleeps.
type Lender interface {
	// Lend makes the posters of c run steps from now on, and returns the steps; nil if the device does not
	// lend.
	Lend(c Client) *Steps
}

// Steps are functions that work for the device on the calling goroutine, each for at most some hundred
// microseconds. They return false if they did nothing, because the device's thread is awake, does not lend,
// or another goroutine runs a step; the caller then wakes the device. They are safe for concurrent use.
// Nothing that the device calls may call them.
type Steps struct {
	// Sends returns the function that executes what is announced on the send queue of the queue pair qpn.
	Sends func(qpn uint32) func() bool

	// Receives returns the function that executes work that waits for a receive of the queue pair qpn, or
	// flushes it, because one was posted.
	Receives func(qpn uint32) func() bool

	// Shared executes work that waits for a receive of a shared receive queue, because one was posted.
	Shared func() bool

	// Look looks for work of all clients and ports, and executes it.
	Look func() bool
}
