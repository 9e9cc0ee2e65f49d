//go:build !race

package shm

import "runtime"

// On amd64 every store is a release store: stores become visible in program order.
// What is left is that the compiler keeps a plain one where it is, behind all stores
// before it, and takes none of those for dead because of it. To the compiler,
// KeepAlive is an operation on memory that may read it; of a global variable it costs
// no instruction. A function in assembly is as good, but never inlined: its arguments
// go over the stack, and stores are what posting and completing are short of: a round
// trip takes a fifth longer.
var alive byte

// storeRel32 stores v with release order.
func storeRel32(p *uint32, v uint32) {
	runtime.KeepAlive(&alive)
	*p = v
}

// storeRel64 stores v with release order.
func storeRel64(p *uint64, v uint64) {
	runtime.KeepAlive(&alive)
	*p = v
}
