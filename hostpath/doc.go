// Package hostpath is the API of host programs: contexts, protection domains,
// keys, queues, posting and polling.
//
// A Context is one client of a device. What is made through it dies with it,
// or with the process. The objects and their rules are those of verbs
// (ibv_open_device and what follows), the names too:
//
//	Context   PD, completion channels, events, explanations
//	PD        MR: memory and its key; Window: a part of it, opened by work
//	          requests; ListKey: pieces of memory strung together
//	CQ        completions, polled, or waited for on a Channel
//	SRQ       receives for many queue pairs
//	QP        sends and receives, on RC, UC or UD
//
// # Work
//
// A SendWR is posted to a connected queue pair (UD: one that is Activated), a
// RecvWR to a queue pair or an SRQ. Which fields an operation looks at is said
// there. What changes keys (BindMW, BindList, LocalInval) and what stays on this
// side (Copy, Dump, WaitCQ, SendEnable) is posted in the same way and done in
// its turn.
//
// # Completions and events
//
// CQ.Poll looks, CQ.Wait sleeps. Who has many queues gives them one Channel:
// arm them, poll them empty, wait on the Channel, in Go or by its descriptor.
// What happens to objects rather than to work requests comes by
// Context.NextEvent; what is wrong with a work request, in words, there too, or
// to the handler of Context.OnExplanation.
//
// # Concurrency
//
// Making and closing objects is safe from any goroutine. A queue pair has one
// poster of sends and one poster of receives at a time, an SRQ one poster, a
// completion queue one poller and a channel one waiter at a time; all may be
// different goroutines. Posting and polling take no lock, allocate nothing and
// make no system call.
//
// # After the end
//
// Using an object after Close returns ErrClosed. When the device is gone,
// everything returns ErrDeviceGone at once, and polls do as soon as the
// completions that were there have been taken. Memory stays.
//
// Closing a memory region unmaps it: like memory given back in C, its bytes
// must not be touched afterwards.
package hostpath
