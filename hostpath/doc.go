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
// call, except that polling an error allocates memory for its reason. A WQE of one block
// with one pointer, with short inline data, or of an 8-byte atomic is built in place.
// Every other WQE is built by [wqe.Builder].
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
//   - request.go: work requests and their parts; decides nothing
//   - op.go: facts of operations
//   - form.go: which layout a work request gets (form), and how many blocks
//   - short.go: writes WQEs of one block
//   - long.go: whether a work request is refused (check, checkPayload), and writes the others
//   - ctrl.go: whether a WQE is fenced, signaled or solicited
//   - bind.go: whether a bind of a window is refused; its UMR
//   - list.go: whether the filling of a list key is refused; its UMR
//   - masked.go: whether a masked atomic or a local operation is refused; its operands
//   - av.go: the address vector of a datagram: its source port, too
//   - sendring.go: which work request a wqe_counter means (find); when blocks are free; rings the doorbell
//   - sq.go: whether a queue with one poster has room (reserve)
//   - sharedsq.go: posts of many posters: whether a post is possible at all, which work is rung, and by
//     whom; reserving: sequence.go
//   - sequence.go: which blocks a poster gets, and up to where they are written
//   - run.go: how many READs, WRITEs or SENDs are laid in one loop (layRun)
//   - inline.go: which inline data are written as two words
//   - writes.go: whether writes are plain enough for one loop
//   - blueflame.go: which WQE is written to the register, and when it is emptied
//
// Receives:
//
//   - rq.go: whether a receive is refused; when an RQ has room
//   - run_receives.go: how many receives are laid in one loop
//   - shared.go: which SRQ entry is posted next, and when it is free again
//
// Completions:
//
//   - completion.go: whether an entry is new, and when a CQ is armed; Poll
//   - pollrun.go: how many completions are alike and are polled in one loop
//   - resolve.go: which work request a CQE completes
//   - fault.go: the error of a completion: which reason of the device is its own, or its cause
//   - stack.go: where the last requests of a queue were posted; depot.go: which calls led there
//   - postfinder.go: which stack belongs to a post that the device has found
//   - table.go: which QP a user index means
//   - collapsed.go: whether a collapsed queue has a new completion
//   - compressed.go: whether an entry is the title of a session; cqe/mini.go expands its minis
//   - scatter.go: where data in a CQE are copied to
//   - clean.go: which CQEs of a reset QP are removed
//   - orphan.go: which CQEs of a destroyed QP give their receives back
//   - unpolled.go: which completions nobody has polled, without taking them
//   - resize.go: which entries move to the new ring of a CQ
//
// Shared memory:
//
//   - words.go: whether an address of shared words is right
//   - share.go: shows queues to accelerators
//   - memory.go: shows queues to dumps
//   - layout.go: whether a file has a queue's memory, and where
//   - raw.go: RDMaxcel's stateless functions: checks of their parameters
package hostpath
