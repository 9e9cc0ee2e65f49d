// Package hostpath posts work requests to a device and polls completions. It is
// the only implementation of both in Go: the host API and the emulated
// accelerators use it.
//
// # Terms
//
// To post a work request is to reserve blocks in the send ring, write the WQE
// there and commit it. To ring is to publish the doorbell record, then the
// register: only then may the device look. To poll is to take CQEs off a
// completion queue; a CQE frees the blocks of its WQE and of all before it.
//
// A receive is posted the same way, without a register: to a receive queue
// (RQ), or to a shared one (SRQ), whose entries are used in the order of their
// links.
//
// # Ownership
//
// A queue has one poster at a time and one poller at a time. There are two
// exceptions. A SharedSQ has any number of posters. A CQ has any number of pollers if
// all of them use TryPoll. Poster and poller may be different goroutines. Each keeps
// its own counts, 64 bits wide, and passes them to the other through one word, which
// has a cache line of its own:
//
//	posted   stored by the poster when it rings, read by the poller
//	freed    stored by the poller, read by the poster when its ring looks full
//
// An SRQ has one poster and any number of pollers. Which work request lies in which
// slot is noted in private memory: no number that a device writes is trusted as an
// index.
//
// # Order
//
// WQE bytes, then the record, then the register (docs/ORDERING.md). A CQE is
// observed by its last eight bytes, then the rest of it is read, then its slots
// are freed, then the consumer index is published.
//
// # Cost
//
// Posting, ringing and polling do not block, allocate nothing, and make no system
// call. A WQE of one block with one pointer or short inline data is built in place;
// every other goes through [wqe.Builder].
//
// # Errors
//
// Errors that refuse a work request begin with "nicless:", because users of the
// host API get them unchanged. The others are mistakes in a call of this package and
// begin with "hostpath:".
//
// # Source
//
// rdma-core, providers/mlx5: qp.c, srq.c and cq.c. The tests replay recordings
// of that library byte for byte.
//
// # Files
//
// A send goes through request.go (what the caller says), op.go (facts of
// operations), form.go (how its WQE is laid out), short.go or long.go (the bytes;
// their rarer parts are in bind.go, list.go, masked.go and av.go), sendring.go (ring
// and notes), and sq.go for one poster or sharedsq.go for many (sequence.go is their
// protocol). run.go and writes.go do the same for many alike requests in one loop.
// blueflame.go writes WQEs to a register.
//
// Receives are in rq.go and shared.go (SRQ).
//
// A completion goes through completion.go (Poll), resolve.go (the work request
// that it completes) and table.go (QPs by user index). collapsed.go and scatter.go
// are for queues of those kinds. compressed.go finds runs of compressed entries, whose
// fields package cqe takes apart (cqe/mini.go). clean.go, orphan.go and resize.go are
// for QPs that go and rings that change.
//
// raw.go has RDMaxcel's stateless functions; share.go and memory.go show queues
// to accelerators and dumps; words.go checks where shared words lie.
package hostpath
