// Package engine is the device: it polls doorbell records in shared memory,
// executes the work requests that they announce, and writes completions.
//
// An Engine belongs to one thread, or is divided into shards, each with a thread and
// clients of its own. Step does a bounded amount of work and
// never waits, so that a test can drive the device one step at a time; Run
// repeats it on a locked thread until told to stop. Control requests, which
// arrive on any goroutine, run between two steps, or while that thread sleeps.
//
// # What is exact
//
// The bytes of WQEs, CQEs, doorbell records and UAR registers; the order of
// completions; the syndrome of each fault, the error state and the flushes that
// follow it; the states of a QP.
//
// # What is emulated
//
// There is no wire: a work request of a reliable connection moves bytes from
// one registered region to another. Packet sequence numbers and MTU are kept
// and given back, but nothing is cut into packets. A READ depth is checked for
// zero only, because one queue is executed strictly in order, which satisfies
// every fence. A requester that waits for its peer to post a receive goes on as
// soon as there is one; the RNR timer only bounds how often it tries.
//
// # Trust
//
// Client memory is hostile. A WQE is copied once and only the copy is judged;
// addresses are looked up in key tables, never followed; whatever a client
// writes can put its own queues into error and nothing else.
package engine
