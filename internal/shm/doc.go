// Package shm is the memory that a poster and the device share: regions, and the few ways
// in which a word or a block in them may be written and read.
//
// Terms: a region is a memfd mapped by both sides, sealed so that it can neither shrink
// nor grow nor lose pages; to publish is to store with release order, so that everything
// stored before is visible to whoever observes the new value; to observe is to load with
// acquire order.
//
// Every other byte of a region is read and written plainly, and is ordered by a Publish
// and the Observe that sees it (docs/ORDERING.md lists the pairs).
//
// Go's own atomic stores are sequentially consistent: an XCHG on amd64, which waits until
// the line has arrived before the next store may start. A release store does not wait: on
// arm64 it is written in assembly here, on amd64 it is any store that the compiler keeps
// in its place. Under the race detector the atomic package is used instead, because the
// detector cannot see assembly; it cannot see into mapped memory either, hence Heap.
//
// Files, in reading order:
//
//	region.go              what a region is
//	memfd_linux.go         making, attaching and sealing one
//	hold_linux.go          keeping the kernel from making huge pages of it
//	pages_linux_unsafe.go  taking its pages before they are touched
//	word_unsafe.go         words and blocks: Publish and Observe
//	publish*.go, .s        release stores, for each architecture and for the race detector
//	target_unsafe.go       words that RDMA atomics change
//	barrier_linux.go       a memory barrier that one process has others execute
//	slice_unsafe.go        bytes viewed as numbers
package shm
