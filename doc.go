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
// # Control calls
//
// Methods that make, change, query or close objects send requests to the engine and
// wait for the answer, usually some ten microseconds. [Call] and [Do] run them until a
// context ends; [DialContext] is Dial with a context. Wait and NextEvent take one
// themselves.
//
// # After the end
//
// Objects that are closed, or were never made (zero values), return an error for
// which errors.Is(err, ErrClosed) holds. When the device is gone, control calls and
// posts return ErrDeviceGone at once, and polls return it after the last completions.
// Registered memory stays as it is. A method that returns no error panics where a slice
// would: [MR.Load64] after Close, for instance.
//
// Memory that is closed is given back to the system. Slices of it (MR.Bytes, QP.Raw) must
// not be used afterwards: they read as zeros as long as the program uses the MR or the
// QP, and then fault.
//
// A Context that the program does not refer to any more, nor anything made through it,
// is closed by the garbage collector, and the log says so. A slice of memory is no such
// reference.
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
// The files of this package, in reading order:
//
//	nicless.go, serve.go     Open, Serve, and their Config
//	context.go               Context and PD; how they are closed
//	mr.go, rereg.go          registered memory and its keys; atomic.go: its words
//	wr.go                    what is posted, and its completion
//	cq.go, channel.go        completions: polling, sleeping
//	qp.go, srq.go            queues, posting
//	connect.go, attr.go      how queue pairs are connected; datagram.go: UD
//	descriptor.go            what a program tells its peer
//	event.go, eventfd.go     events and explanations
//	window.go                memory windows and lists of memory
//	export.go, inspect.go    the shared memory of queues, for accelerators and dumps
//	call.go                  control calls with a context
//	device.go, socket.go     the connection to the engine
//	arena.go, wake.go, blueflame.go, status.go, errors.go
//	                         what the above is made with
//
// Under this package, hostpath is the posting and polling path. Packages wqe, cqe and
// doorbell hold the formats, engine the device, accel the emulated accelerators.
package nicless
