// Package hostpath is the API of host programs: contexts, protection domains,
// memory regions, completion queues and queue pairs, posting and polling.
//
// A Context is one client of a device. What is made through it dies with it,
// or with the process. The objects and their rules are those of verbs
// (ibv_open_device and what follows), the names too.
//
// # Concurrency
//
// Making and closing objects is safe from any goroutine. A queue pair has one
// poster of sends and one poster of receives at a time, a completion queue one
// poller at a time; the three may be different goroutines. Posting and polling
// take no lock, allocate nothing and make no system call.
//
// # After the end
//
// Using an object after Close returns ErrClosed. When the device is gone, posts
// return ErrDeviceGone at once, and so do polls as soon as the completions that
// were there have been taken.
//
// Closing a memory region unmaps it: like memory given back in C, its bytes
// must not be touched afterwards.
package hostpath
