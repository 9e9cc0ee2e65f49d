// Package shm is the memory that a poster and the device share: regions, and the few ways in
// which a word or a block of a region may be written and read.
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
//	join_linux_unsafe.go   one region of the pages of several
//	zero.go                zeros, and an error if pages are missing
//	pages_linux_unsafe.go  allocating and mapping pages before they are touched
//	reserve_linux_unsafe.go
//	                       keeping the addresses of a closed region, for those who still use it
//	word_unsafe.go         words and blocks: Publish and Observe, and the byte order of
//	                       doorbell records, registers and CQEs
//	offset.go              which byte of a region an address is
//	ring_unsafe.go         rings of blocks
//	publish_blocks*        many blocks that differ in their last word
//	publish_lines.go       blocks that go to every n-th line
//	publish*.go, .s        release stores, for each architecture and for the race detector
//	monitor.go             waiting for a store to a word
//	race*.go               whether the race detector is on
//	atomic_unsafe.go       atomics on words of payload memory, as RDMA atomics need them
//	barrier_linux.go       a memory barrier that one process makes others execute
//	futex_linux_unsafe.go  sleeping until a word changes, and waking
//	slice_unsafe.go        bytes viewed as numbers
//	shm_other.go           the errors of systems other than Linux
package shm
