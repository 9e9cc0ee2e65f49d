// Package hostpath is the one path by which work is posted to a device and its
// completions are polled, used by every poster in Go.
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
// # Who owns what
//
// Each queue has one poster at a time and one poller at a time, except a CrowdSQ,
// which any number post to, and a CQ that is polled by TryPoll alone. Poster and
// poller may be different goroutines. Each keeps its own counts, 64 bits wide, and
// passes them to the other through one word each, on cache lines of their own:
//
//	posted   stored by the poster when it rings, read by the poller
//	freed    stored by the poller, read by the poster when its ring looks full
//
// An SRQ has one poster, and any number of pollers. Which work request lies in
// which slot is noted in private memory: nothing that a device writes is
// trusted to be an index.
//
// # Order
//
// WQE bytes, then the record, then the register (docs/ORDERING.md). A CQE is
// observed by its last eight bytes, then the rest of it is read, then its slots
// are freed, then the consumer index is published.
//
// # Cost
//
// Posting, ringing and polling wait for nobody, allocate nothing, and make no
// system call. Work that fits one block and has one pointer or short inline
// data is built in place; everything else goes through [wqe.Builder].
//
// # Errors
//
// Those that refuse a work request begin with "nicless:", because users of the
// host API get them as they are; the others are mistakes of the caller's.
//
// # Source
//
// rdma-core, providers/mlx5: qp.c, srq.c and cq.c. The tests replay recordings
// of that library byte for byte.
package hostpath
