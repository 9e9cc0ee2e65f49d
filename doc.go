// Package nicless is an RDMA NIC made of software and shared memory.
//
// A program writes mlx5 work queue elements (WQEs) into a send queue in shared
// memory and publishes a doorbell record. An engine, a thread that polls those
// records, executes the WQEs between registered memory of any processes on the
// host and writes mlx5 completion queue elements (CQEs). There is no NIC, no
// kernel module and no privilege in it, and the bytes are those of the
// hardware.
//
// [Open] runs an engine inside the program; [Dial] connects to one in another
// process (nicless engine --socket PATH). Both return the same [Context].
//
// # The life of one RDMA WRITE
//
//  1. The program posts a work request: [hostpath.QP.PostSend] reserves a
//     64-byte block of the send ring and writes control, remote address and data
//     segment.
//  2. It rings: the doorbell record, which counts blocks, is published behind
//     the WQE's bytes; then the UAR register.
//  3. The engine observes the record in its next step and copies the WQE to
//     private memory. Only the copy is judged.
//  4. It looks up the local and the remote key: owner, rights, bounds.
//  5. It copies the payload from one region to the other.
//  6. It writes a CQE; its last eight bytes, with the owner bit, are published
//     behind everything else.
//  7. [hostpath.CQ.Poll] observes the owner bit, returns a [Completion], and
//     frees the WQE's block.
//
// # What it can do
//
// Queue pairs are reliable or unreliable connections or datagrams ([QPConfig]).
// They send, write, read and do atomics, plain and masked; bind memory windows
// and lists of memory; copy locally; wait for each other with no host in the
// loop ([Op]). Receives may be shared ([SRQ]), completion queues resized,
// collapsed, and waited for together ([Channel]). Faults are what hardware
// reports, and explained in words ([hostpath.Context.OnExplanation]).
//
// # Where to read on
//
// This package gives names to the API, whose methods and fields are documented
// in package hostpath: go doc ./hostpath QP.PostSend, go doc ./hostpath SendWR.
// Packages wqe, cqe and doorbell hold the formats, internal/post the posting and
// polling path, engine the device.
package nicless
