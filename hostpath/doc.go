// Package hostpath posts work requests to a device and polls completions. It is
// the only Go implementation of posting and polling: both the host API and the
// emulated accelerators use it.
//
// # Terms
//
// To post a work request means to reserve blocks in the send ring, write the WQE
// into them and commit it. To ring means to publish the doorbell record and then
// the register. The device looks for the WQE after that. To poll means to take
// CQEs off a completion queue. A CQE frees the blocks of its WQE and of all earlier
// WQEs.
//
// A receive is posted in the same way, but has no register to ring. It is posted to
// a receive queue (RQ) or to a shared receive queue (SRQ). The entries of an SRQ form
// a linked list, and the device uses them in the order of that list.
//
// # Ownership
//
// A queue has one poster at a time and one poller at a time, with two exceptions: a
// SharedSQ has any number of posters, and a CQ has any number of pollers if all of them
// use TryPoll. Poster and poller may be different goroutines. Poster and poller keep
// counts of their own, 64 bits wide. Each passes one of its counts to the other, in a
// word that has its cache line alone:
//
//	posted   stored by the poster when it rings, read by the poller
//	freed    stored by the poller, read by the poster when its ring looks full
//
// An SRQ has one poster and any number of pollers. Notes in private memory say which
// work request is in which slot. A number that a device writes is never used as an
// index without a check against these notes.
//
// # Order
//
// A poster writes the WQE bytes, then the record, then the register (docs/ORDERING.md).
// A poller observes the last eight bytes of a CQE, then reads the rest of it, then frees
// its slots, and then publishes the consumer index.
//
// # Cost
//
// Posting, ringing and polling do not block, allocate no memory, and make no system
// call. A WQE of one block with one pointer, with short inline data, or of an 8-byte
// atomic is built in place. Every other WQE is built by [wqe.Builder].
//
// # Errors
//
// Errors that refuse a work request begin with "nicless:", because users of the
// host API get them unchanged. All other errors report wrong arguments in a call of
// this package and begin with "hostpath:".
//
// # Source
//
// rdma-core, providers/mlx5: qp.c, srq.c and cq.c. The tests replay recordings
// of that library byte for byte.
//
// # Files
//
// Sends, in the order in which one send uses the files:
//
//	request.go                 work requests and their parts
//	op.go                      facts of operations
//	form.go                    chooses the layout of a WQE
//	short.go, long.go          write the bytes of a WQE
//	ctrl.go                    its control segment: fences, signaled and solicited
//	bind.go, list.go, masked.go, av.go
//	                           its rarer parts: binds of windows, list keys, masked atomics,
//	                           addresses of datagrams
//	sendring.go                the ring, the doorbell, and notes on the WQEs in the ring
//	sq.go                      a send queue with one poster
//	sharedsq.go, sequence.go   a send queue with many posters, and their protocol
//	run.go, writes.go          post many similar requests in one loop
//	blueflame.go               writes WQEs to a register
//
// Receives:
//
//	rq.go, shared.go           RQ and SRQ
//
// Completions:
//
//	completion.go              the completion queue and Poll
//	pollrun.go                 polls many similar completions in one loop
//	resolve.go                 finds the work request that a CQE completes
//	table.go                   finds QPs by user index
//	collapsed.go               collapsed queues
//	compressed.go              finds runs of compressed entries; cqe/mini.go expands them
//	scatter.go                 CQEs that carry data
//	clean.go, orphan.go        CQEs of QPs that were reset or destroyed
//	resize.go                  replaces the ring of a CQ
//
// Shared memory:
//
//	words.go                   checks the addresses of shared words
//	share.go, memory.go        show queues to accelerators and to dumps
//	layout.go                  finds queues in a file
//	raw.go                     RDMaxcel's stateless functions
package hostpath
