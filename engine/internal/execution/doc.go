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
//   - layers.go: the layers and their fields
//   - burst.go: how many WQEs and bytes one visit executes; the completion of a WQE that succeeds
//   - check.go: the checks of a WQE: its size, signature and opcode
//   - requester.go: local keys and data segments; what follows from a NAK
//   - requester_fault.go: explanations and syndromes of local faults
//   - respond.go: a request at the responder; the completion of its receive
//   - responder.go: remote keys; taking a receive and scattering a message into it
//   - responder_fault.go: explanations and NAKs of what the responder refuses
//   - dc.go: DC: WQEs that name the queue pair that receives; streams
//   - local.go: NOP, DUMP, MMO, WAIT, SEND_EN
//   - atomic.go: atomics: operands, byte order, alignment
//   - datagram.go, datagram_header.go: UD: the receiver and the qkey; the GRH and the service level
//   - multicast.go: datagrams to a group
//   - umr.go, umr_plan.go: UMR: what a UMR may change; binding windows and filling lists
//   - invalidate.go: SEND with invalidate
//
// The fast path:
//
//   - fastpath_choose.go, fastpath.go: whether a WQE may take the fast path; its completion
//   - fastpath_move.go, fastpath_send.go, fastpath_atomic.go: WRITEs and READs, SENDs, atomics
//   - fastpath_series.go, fastpath_series_move.go, fastpath_series_send.go: WQEs that differ in their
//     addresses only
//   - blueflame.go: WQEs that the device finds in BlueFlame registers before the record announces them
//
// Queue pairs:
//
//   - state.go: what a new state does to the queues: reset, error, drained
//   - stall.go: queues that wait: RNR retries, transport retries, WAIT
//   - flush.go: a WQE that fails, and the flush of those after it
//   - fault.go: an access of the device to memory that has no page
//   - overrun_sweep.go: errors of the queue pairs whose completion queue has overrun
//
// Memory:
//
//   - keylist.go, null.go: whether a key gives access, plain or a list; the null key
//   - job.go: moving the bytes of a WQE, over several visits if they are many
//   - cost.go: what pieces of memory cost of a visit's budget
//   - dma.go, worker.go: workers that copy long transfers
//   - unmapped.go: copying to and from memory of a process
package execution
