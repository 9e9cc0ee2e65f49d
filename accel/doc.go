// Package accel emulates accelerators that post work to the device without the
// host, as GPUs can. An accelerator uses the same posting code as the host, and
// writes the same bytes.
//
// # Terms
//
// A kernel is a function that every lane of a grid executes. A grid consists of
// blocks, and a block consists of threads. 32 threads of a block are a warp. A lane
// is a thread, seen as a member of its warp. Multiprocessors execute the blocks.
// Each multiprocessor is a goroutine with its own OS thread. Lanes are coroutines: the
// multiprocessor runs one lane until that lane waits, and then the next. Kernels and
// copies are added to streams, which execute them in order.
//
// Device memory is registered memory of the host API ([NewBuffer]). A queue is a
// Concurrent queue pair ([NewQueue]). Requests name memory by a [Ref], which is an
// address and a key.
//
// # Posting
//
// To post a request, a lane reserves room in the send queue, writes the WQE, commits
// it and rings. Any number of lanes, devices and host threads can do so at once, and
// none of them waits for another. PutWarp posts once for the 32 lanes of a warp.
// Requests of one queue start in the order in which they were posted. Put, PutInline
// and PutSignal also take effect in that order.
//
// # Errors
//
// A request that cannot be posted ends the kernel, and so does a panic. The stream is then
// in error, and Sync returns a [*KernelError] with the block and the thread. If the device
// refuses a request because of its key or range, Quiet returns a *hostpath.FaultError. In each
// case the program continues.
//
// # Files, in reading order
//
//	device.go     a device and its multiprocessors; pin_*.go on which cores they run
//	stream.go     streams and events
//	grid.go       kernels and grids
//	processor.go, block.go, lane.go
//	              how a multiprocessor runs lanes one after another
//	thread.go     the operations of a lane
//	memory.go     memory and its words
//	put.go, warpput.go
//	              requests
//	queue.go      queue pairs for kernels
//	raw.go        RDMaxcel's functions
//
// # Differences from hardware
//
// Lanes of one multiprocessor do not run at the same time. There is no preemption: a
// lane that computes for ever keeps the other lanes of its multiprocessor waiting.
// Lanes that have ended take no part in later operations of their warp and block. A
// block whose lanes all wait for each other is in error; on hardware it would hang.
// Atomics are atomic instructions of the processor, and are atomic across lanes,
// devices and the RDMA device.
package accel
