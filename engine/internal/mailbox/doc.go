// Package mailbox carries functions to the thread of an engine, which runs them between two steps.
//
// # Files
//
//   - mailbox.go: the queue of functions; who runs them while the thread works, sleeps, or has ended
//   - effect.go: which control requests wake the thread
package mailbox
