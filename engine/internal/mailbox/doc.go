// Package mailbox carries functions to the thread of an engine, which runs them between two steps.
//
// # Files
//
//   - mailbox.go: the queue of functions; who runs them while the thread works, sleeps, or has ended
//   - lend.go: whether a caller may run steps while the thread sleeps
//   - effect.go: which control requests wake the thread
package mailbox
