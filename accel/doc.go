// Package accel is an emulated accelerator that posts work to the device by
// itself, as GPUs do. It uses the same code as the host, and leaves the same bytes.
//
// # Terms
//
// A kernel is a function that every lane of a grid executes. A grid is blocks of
// threads; 32 threads of a block are a warp, and a thread within its warp is a
// lane. Blocks are executed by multiprocessors, each a goroutine on a thread of
// its own; its lanes are coroutines that it runs in turn, one until it waits,
// then the next. Kernels and copies are put into streams, which execute them in
// order.
//
// Device memory is registered memory of the host API ([NewBuffer]); a queue is a
// Concurrent queue pair ([NewQueue]). Requests name memory by [Ref], an address
// and a key.
//
// # Posting
//
// A request reserves room in the send queue, writes its WQE, commits it and
// rings; any number of lanes, devices and host threads do so at once, and none
// waits for another. PutWarp does it once for the 32 lanes of a warp. Requests of
// one queue start in the order in which they were posted; Put, PutInline and
// PutSignal also take effect in that order.
//
// # Errors
//
// A request that cannot be posted ends the kernel, and so does a panic. The stream is then
// in error, and Sync returns a [*KernelError] with the block and the thread. A request that
// the device refuses, for its key or range, is returned by Quiet as a *cqe.WorkError. The
// program goes on in each case.
//
// # Files, in reading order
//
//	device.go     a device and its multiprocessors
//	stream.go     what is queued for it, and events
//	grid.go       kernels and grids
//	processor.go, block.go, lane.go
//	              how lanes run in turn
//	thread.go     what a lane can do; memory.go: words; put.go, warpput.go: requests
//	queue.go      queue pairs for kernels
//	raw.go        RDMaxcel's functions
//
// # What is emulated, and how
//
// Lanes of one multiprocessor do not run at the same time, and one that computes
// for ever keeps the others of its multiprocessor waiting, since there is no
// preemption. Lanes that end have no part in later operations of their warp and
// block. A block whose lanes all wait for each other is in error, where hardware
// hangs. Atomics are atomic instructions of the processor, across lanes, devices
// and the RDMA device.
package accel
