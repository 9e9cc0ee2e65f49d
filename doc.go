// Package nicless is an RDMA NIC made of software and shared memory.
//
// A program writes mlx5 work queue elements (WQEs) into a send queue in shared
// memory and publishes a doorbell record. An engine, a thread that polls those
// records, executes the WQEs on registered memory of any processes on the host
// and writes mlx5 completion queue elements (CQEs). The package needs no NIC, no
// kernel module and no privilege. WQEs, doorbell records and CQEs have the same
// bytes as on the hardware.
//
// [Open] runs an engine inside the program. [Dial] connects to an engine in
// another process, started by nicless engine --socket PATH or by [Serve]. Both
// return a [Context].
//
// # Objects
//
// The objects, their rules and their names are those of verbs (ibv_open_device,
// ibv_alloc_pd and so on). A Context is one client of an engine. All objects that
// are made through a Context are destroyed when it is closed or its process ends.
//
//	Context   makes PDs, CQs and completion channels; reports events and explanations
//	PD        makes MRs (memory and its key), Windows (a part of an MR, opened by
//	          work requests), ListKeys (pieces of memory under one key), SRQs, QPs
//	CQ        holds completions: poll them, or wait for them on a Channel
//	SRQ       holds receives for many queue pairs
//	QP        sends and receives; its transport is RC, UC or UD
//
// # Work
//
// A [SendWR] is posted to a queue pair that is connected or, on UD, activated. A
// [RecvWR] is posted to a queue pair or to an SRQ. Requests that change keys (BindMW,
// BindList, LocalInval) and requests that have no peer (Copy, Dump, WaitCQ,
// SendEnable) are posted in the same way. They are executed in order with the others.
//
// # Names
//
// [Context.ListenName] announces a name, and [Context.DialName] connects a queue pair with one that the
// program there gives to the [Listener], as net.Listen and net.Dial do, on this engine or on any to which a
// link leads.
//
// # Completions and events
//
// [CQ.Poll] does not wait, [CQ.Wait] does. Several queues can share a [Channel]:
// arm the queues, poll them until they are empty, then wait on the channel, either
// in Go or on its file descriptor. [Context.NextEvent] reports events of objects
// rather than of work requests. An explanation says in words what was wrong with a
// work request. NextEvent returns explanations, unless [Context.OnExplanation] has
// set a handler for them.
//
// # Concurrency
//
// Making and closing objects is safe from any goroutine. A queue pair has one
// poster of sends and one poster of receives at a time, an SRQ one poster, a
// completion queue one poller and a channel one waiter. All of these may be
// different goroutines. Posting and polling take no lock, allocate nothing and
// make no system call.
//
// # Control calls
//
// Methods that make, change, query or close objects send control requests to the
// engine and wait for the answer, usually some ten microseconds. [Call] and [Do] run
// such a method and stop waiting for it when a context.Context ends. [DialContext] is
// Dial with a context.Context. Wait and NextEvent have a context.Context as parameter.
//
// # After the end
//
// Methods of objects that are closed, or were never made (zero values), return an error
// for which errors.Is(err, ErrClosed) holds. When the device is gone, control calls and
// posts return ErrDeviceGone at once, and polls return it after the last completions.
// Registered memory stays as it is. A method without an error result panics if the bytes
// that it would access are not there, as an index out of range does: [MR.Load64] after
// Close, for instance.
//
// Close gives memory back to the system. Slices of that memory (MR.Bytes, QP.Raw) must
// not be used afterwards. They read as zeros while the program still refers to the MR or
// the QP; after that, an access faults.
//
// When the program no longer refers to a Context or to anything made through it, the
// garbage collector closes the Context, and the log says so. A slice of registered
// memory does not count as a reference.
//
// # The life of one RDMA WRITE
//
//  1. The program posts a work request: [QP.PostSend] reserves a 64-byte block of
//     the send ring and writes control, remote address and data segment into it.
//  2. The program rings the doorbell: after the WQE's bytes it publishes the doorbell
//     record, which counts blocks, and then the UAR register.
//  3. The engine observes the record in its next step and copies the WQE to
//     private memory. It checks and executes only the copy.
//  4. The engine looks up the local and the remote key and checks owner, rights and
//     bounds.
//  5. The engine copies the payload from one region to the other.
//  6. The engine writes a CQE. It publishes the last eight bytes, which contain the
//     owner bit, after everything else.
//  7. [CQ.Poll] observes the owner bit, returns a [Completion], and frees the
//     WQE's block.
//
// # Where to read on
//
// The files of this package, in reading order:
//
//	nicless.go      Open, Serve, and their Config
//	context.go      Context, PD, status, and control calls with a context.Context; how they are closed
//	memory.go       registered memory, its keys, and atomic access to its words
//	wr.go           work requests and completions
//	cq.go           completion queues: polling, and waking an engine that sleeps
//	channel.go      completion channels: sleeping
//	qp.go, srq.go   queues and posting; their rings as bytes
//	connect.go      how queue pairs are connected and modified; UD
//	descriptor.go   the data that a program sends its peer in order to connect
//	event.go        events and explanations
//	announce.go     what clients of engines announce to each other
//	dial.go, listen.go, incoming.go, names.go   connections by names: who dials, who listens, what they say
//	window.go       memory windows and lists of memory
//	export.go       the shared memory of queues, for accelerators and for posters that only map a file
//	embedded.go, socket.go, other.go   the engine in this process, in another one, and where there is none
//	watch.go, faults.go   looks at the device, and makes it fail
//	sanitizer.go, sanitizer_stacks.go, visitor.go   finds mistakes of this program
//	sanitizer_early.go, early.go   finds that this program reads receive buffers too early
//	inside.go, driver.go   several clients in this process, and a clock that a test holds: for niclesstest
//	errors.go
//
// This package posts and polls through package hostpath. Packages wqe, cqe and doorbell
// define the formats, engine is the device, and accel emulates accelerators.
package nicless
