// Package shm is the memory that a poster and the device share. It has regions, and the few
// ways in which a word or a block in a region may be written and read.
//
// Terms: a region is a memfd that both sides have mapped. It is sealed so that it cannot
// shrink, grow or lose pages. To publish is to store with release order: everything stored
// before is visible to a thread that observes the new value. To observe is to load with
// acquire order.
//
// All other bytes of a region are read and written plainly. A Publish and the Observe that
// sees its value order these accesses (docs/ORDERING.md lists the pairs).
//
// Go's own atomic stores are sequentially consistent. On amd64 such a store is an XCHG, which
// waits until the line has arrived before the next store may start. A release store does not
// wait. On arm64 it is in assembly here. On amd64 it is any store that the compiler does not
// move. Under the race detector this package uses the atomic package instead, because the
// detector cannot see assembly. The detector cannot see into mapped memory either, so tests
// with the detector use Heap.
//
// Files, in reading order:
//
//	region.go              what a region is
//	memfd_linux.go         making, attaching and sealing a region
//	hold_linux.go          keeping the kernel from making huge pages of a region
//	zero.go                zeros, and an error if pages are missing
//	pages_linux_unsafe.go  allocating and mapping pages before they are touched
//	word_unsafe.go         words and blocks: Publish and Observe
//	ring_unsafe.go         rings of blocks
//	publish_blocks*        many blocks that differ in their last word
//	publish*.go, .s        release stores, for each architecture and for the race detector
//	target_unsafe.go       words that RDMA atomics change
//	barrier_linux.go       a memory barrier that one process makes others execute
//	futex_linux_unsafe.go  sleeping until a word changes, and waking
//	slice_unsafe.go        bytes viewed as numbers
package shm
