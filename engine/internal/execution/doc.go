// Package execution executes work requests within the device: it checks a WQE, sends the request to
// the responder, moves the bytes, and completes.
//
// Its layers, each inside the next, are mover (keys and copies), queues (states, stalls, flushes), responder,
// injector (rules of faults), requester and Executor. The transport over links is above this package; what
// execution needs of it is the interface links.
//
// # Files
//
// Visits and the slow path:
//
//   - layers.go: the layers and their fields; decides nothing
//   - burst.go: how many WQEs and bytes a visit executes; which code moves bytes; the byte count of a CQE
//   - check.go: whether size, signature and opcode of a WQE are right, and which fault of several counts
//   - requester.go: whether local keys give access (gather), and whether a NAK means retry, loss or failure
//   - requester_fault.go: the syndrome and the explanation of a local fault that others have found
//   - respond.go: whether the responder takes a request (Respond), and what its receive completion has
//   - responder.go: whether a remote key gives access (Translate); where a message goes in its receive
//   - responder_fault.go: which NAK a refused request gets, and whether the responder goes to error
//   - address.go: how long the address vector of a datagram or a DC WQE is, and whether it has what it needs
//   - dc.go: keeps a DC WQE's address vector; whether the WQE waits or is flushed; whether the vector leads
//     to a target is decided in object/dc
//   - inject_link.go: which datagrams rules for packets are asked for
//   - inject.go: what rules of faults do to a WQE (Inject); visits of queues with rules (BurstFaulty)
//   - inject_order.go: moves bytes in the order that a rule asks for; which WQEs are moved together
//   - inject_flip.go: which bit of the moved bytes a rule flips, and when
//   - inject_command.go: which key a rule deregisters, and whether before the WQE or in the middle; when a
//     client dies
//   - inject_peer.go: whom a rule harms that moves a peer to error or fills a completion queue, and whether
//     it may
//   - inject_retry.go: how often and how long a WQE waits whose request or answer a rule loses, or that finds
//     no receive because of a rule; what of it is executed meanwhile
//   - local.go: whether a NOP, DUMP, MMO, WAIT or SEND_EN is right, and what it does
//   - atomic.go: whether an atomic's operands and alignment are right
//   - datagram.go: which queue pair gets a datagram, and whether its qkey is right
//   - datagram_header.go: the bytes of the GRH and the service level
//   - multicast.go: which members of a group get a datagram
//   - umr.go: whether a UMR may change a key at all (umrTarget); stores the new values, which package umr
//     computes and checks
//   - invalidate.go: whether a SEND with invalidate may close a window or empty a list
//
// The fast path:
//
//   - fastpath_choose.go: whether a WQE takes the fast path, and which part of it
//   - fastpath.go: completes a WQE of the fast path: whether a CQE is written, and its byte count
//   - fastpath_move.go: whether a WRITE or READ stays on the fast path, and moves it
//   - fastpath_send.go: whether a SEND stays on the fast path, and its receive's completion
//   - fastpath_atomic.go: whether an atomic stays on the fast path, and executes it
//   - fastpath_series.go: how many WQEs may be a series, and their completions; a series cut off by a fault
//   - fastpath_series_move.go: whether the next WRITE or READ still has the shape of the series
//   - fastpath_series_send.go: whether the next SEND still has the shape of the series
//   - blueflame.go: whether a register holds the whole next WQE, which is then executed before the record
//     says so
//
// Queue pairs:
//
//   - state.go: what a new state does to the queues; whether the peer is found; the lock that it needs
//   - stall.go: how long and how often a WQE is tried again, without a receive or a peer; whether a stall is
//     over
//   - flush.go: which WQEs are flushed, in which order; whether a failure means ERR or only SQE
//   - fault.go: which queue pair or CQ a missing page puts into error
//   - overrun_sweep.go: which queue pairs go to error because their CQ has overrun
//
// Memory:
//
//   - keylist.go: whether a range and a right are within a key, plain or list (admit); when it last changed
//   - null.go: whether the null key gives access, and the bytes that it stands for
//   - job.go: whether a long transfer goes on or is checked again; returns receives not used; "drained"
//   - cost.go: the most that a piece of one byte costs; what a visit has cost besides bytes
//   - dma.go: which worker gets a piece, and which tasks are recalled when a key or a peer changes
//   - checksum.go: checksums of memory, for the sanitizer
//   - unmapped.go: copies from and to a process; where a missing page ends the copy
package execution
