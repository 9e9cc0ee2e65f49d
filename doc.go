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
// process (nicless engine --socket PATH, or [Serve]). Both return the same
// [Context].
//
// # Objects
//
// The objects, their rules and their names are those of verbs (ibv_open_device
// and what follows). A Context is one client of an engine. What is made through
// it is destroyed with it, or with the process.
//
//	Context   makes PDs, CQs and completion channels; reports events and explanations
//	PD        makes MRs (memory and its key), Windows (a part of an MR, opened by
//	          work requests), ListKeys (pieces of memory under one key), SRQs, QPs
//	CQ        holds completions, which are polled, or waited for on a Channel
//	SRQ       holds receives for many queue pairs
//	QP        sends and receives, on RC, UC or UD
//
// # Work
//
// A [SendWR] is posted to a connected queue pair (one of UD: to an active one), a
// [RecvWR] to a queue pair or an SRQ. Requests that change keys (BindMW, BindList,
// LocalInval) and requests that stay on this side (Copy, Dump, WaitCQ,
// SendEnable) are posted in the same way and executed in order with the others.
//
// # Completions and events
//
// [CQ.Poll] does not wait, [CQ.Wait] does. Several queues can share a [Channel]:
// arm them, poll them until they are empty, wait on the channel, in Go or by its
// descriptor. [Context.NextEvent] reports what happens to objects rather than to
// work requests. An explanation says in words what was wrong with a work request;
// it comes by NextEvent, or to the handler of [Context.OnExplanation].
//
// # Concurrency
//
// Making and closing objects is safe from any goroutine. A queue pair has one
// poster of sends and one poster of receives at a time, an SRQ one poster, a
// completion queue one poller and a channel one waiter at a time; all may be
// different goroutines. Posting and polling take no lock, allocate nothing and
// make no system call.
//
// # After the end
//
// Using an object after Close returns ErrClosed. When the device is gone,
// everything returns ErrDeviceGone at once, and polls do as soon as the
// completions that were there have been taken. Memory stays.
//
// Closing a memory region unmaps it: like memory given back in C, its bytes
// must not be touched afterwards.
//
// # The life of one RDMA WRITE
//
//  1. The program posts a work request: [QP.PostSend] reserves a 64-byte block of
//     the send ring and writes control, remote address and data segment.
//  2. It rings: the doorbell record, which counts blocks, is published behind
//     the WQE's bytes; then the UAR register.
//  3. The engine observes the record in its next step and copies the WQE to
//     private memory. Only the copy is judged.
//  4. It looks up the local and the remote key: owner, rights, bounds.
//  5. It copies the payload from one region to the other.
//  6. It writes a CQE; its last eight bytes, with the owner bit, are published
//     behind everything else.
//  7. [CQ.Poll] observes the owner bit, returns a [Completion], and frees the
//     WQE's block.
//
// # Where to read on
//
// The host API is this package: context.go (Context and PD), mr.go, cq.go, qp.go,
// srq.go, then connect.go and attr.go (how queue pairs are connected), wr.go (what
// is posted), event.go, channel.go. nicless.go has Open and serve.go has Serve;
// socket.go is the connection to an engine in another process.
//
// Package hostpath is the posting and polling path under it; packages wqe, cqe and
// doorbell hold the formats, engine the device, accel the emulated accelerators.
package nicless
