// Package order decides in which order the bytes of work requests become visible, where a rule of faults
// asks for an order that is as adverse as possible (fault.Weak, fault.Weakest).
//
// A Window is some WQEs of one queue, cut into pieces. Next draws the next piece of those that may come next;
// Moved notes that it is visible, and says against which other access that was. The package knows neither
// memory nor queue pairs: the caller moves the bytes, and completes the WQEs in their order.
//
// # Within one message
//
// The bytes of one WRITE, READ response or SEND have no order until the completion: "An application shall
// not depend of the order of data writes to memory within a message" (InfiniBand Architecture Specification,
// volume 1, 9.5, o9-20). So a program that polls the last byte of its payload relies on what nobody promises.
//
// # Between messages
//
// Volume 1, table "Work Request Operation Ordering" (10.8.3.3), as far as it is about bytes. A responder
// executes in the order of the first column before the second one where # stands; F stands for "only if the
// second has a fence".
//
//	first \ second   SEND  WRITE  READ  atomic
//	SEND              #      #     #      #
//	WRITE             #      #     #      #
//	READ              F      F     #      F
//	atomic            F      F     #      F
//
// To be executed is not to be visible: "An application shall not depend upon the contents of an RDMA WRITE
// buffer at the responder until" the WRITE's immediate or a later SEND has completed there, or a later atomic
// has updated memory (9.5, o9-21), or the requester has polled the completion of the WRITE. So, with Weakest:
//
//   - the bytes of WRITEs and of READ responses of a queue become visible in any order,
//   - a WRITE without a fence may take its bytes before an earlier READ has brought them, and may write what
//     an earlier READ has not read yet,
//   - a SEND, a WRITE with immediate or an atomic begins when all before it are visible, and all behind it
//     wait for it. The table allows more behind an atomic without a fence; this device does not do that.
//
// With Weak, bytes of a WQE pass those of earlier ones only if all keys under which they are written were
// registered with relaxed ordering (IBV_ACCESS_RELAXED_ORDERING), as PCI Express has it: a write with the
// attribute RO may pass earlier writes.
//
// # What is never done
//
// Pieces that overlap stay in order in any case, except as a missing fence allows; so the last of two WRITEs
// to the same bytes is the one that stays. 8 bytes at a multiple of 8 are in one piece, unless
// lists of segments cut them.
//
//   - window.go: the WQEs and pieces that are on the way; draws
//   - table.go: what may pass what
package order
