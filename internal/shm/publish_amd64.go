//go:build !race

package shm

import "runtime"

// On amd64 every store is a release store: stores become visible in program order. It remains
// to have the compiler keep a plain store in its place, after all earlier stores, and keep
// these. To the compiler KeepAlive is an operation that may read memory; for a global variable
// it costs no instruction. A function in assembly would do as well, but is never inlined: its
// arguments pass through the stack, and stores are the bottleneck of posting and completing. A
// round trip took a fifth longer with it.
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
