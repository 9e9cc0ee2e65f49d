//go:build !race

package shm

import "runtime"

// On amd64 every store is a release store, because stores become visible in program order. So
// only the compiler has to be restrained: it must not move a plain store before earlier stores,
// and must not remove the earlier stores. For the compiler, KeepAlive is an operation that may
// read memory. For a global variable KeepAlive costs no instruction. A function in assembly
// would work too, but is never inlined: its arguments pass through the stack, and stores are the
// bottleneck of posting and completing. With such a function a round trip took a fifth longer.
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

// storeFirst64 stores v before all stores that follow.
func storeFirst64(p *uint64, v uint64) {
	*p = v
	runtime.KeepAlive(&alive)
}
