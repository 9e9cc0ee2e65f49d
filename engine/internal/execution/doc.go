// Package execution executes work requests within the device: it checks a WQE, sends the request to
// the responder, moves the bytes, and completes.
//
// Its layers, each inside the next, are mover (keys and copies), queues (states, stalls, flushes), responder,
// requester and Executor. The transport over links is above this package; what execution needs of it is the
// interface links.
//
// # Files
//
// Visits and the slow path:
//
//   - layers.go: the layers
//   - burst.go: the WQEs of one visit, and the end of those that succeed
//   - check.go, requester.go, requester_fault.go: checking a WQE; its memory and its answer; what is wrong
//     with it
//   - respond.go, responder.go, responder_fault.go: a request; its receives and keys; what the responder
//     refuses
//   - dc.go: WQEs that name the queue pair that receives
//   - local.go, atomic.go: NOP, DUMP, MMO, WAIT, SEND_EN; atomics
//   - datagram.go, datagram_header.go, multicast.go: UD
//   - umr.go, plan.go: UMR: binding windows, filling lists
//
// The fast path:
//
//   - fastpath_choose.go, fastpath.go: whether a WQE may take it; its completion
//   - fastpath_move.go, fastpath_send.go, fastpath_atomic.go: WRITEs and READs, SENDs, atomics
//   - fastpath_series.go, fastpath_series_move.go, fastpath_series_send.go: WQEs that differ in their
//     addresses only
//   - blueflame.go: WQEs in BlueFlame registers
//
// Queue pairs:
//
//   - state.go: what follows from a new state
//   - stall.go, flush.go: queues that wait; WQEs that fail, and those after them
//   - fault.go, overrun.go: memory that is gone; completion queues that have no room
//
// Memory:
//
//   - keylist.go, null.go: access by keys; the null key
//   - job.go, cost.go: jobs that take several visits; what pieces of memory cost
//   - dma.go, worker.go: workers that copy
//   - unmapped.go: memory of a process
package execution
