// Package cpu is what nicless asks of the processor that it runs on.
//
// Files, in reading order:
//
//	yield_linux.go   whether the program has one core only, and giving it up
//	relax.go         the pause of a spin loop
//	monitor.go       waiting for a store to a cache line (UMONITOR, UMWAIT, TPAUSE)
//	nontemporal_*.go copying that leaves the caches alone
//	model.go         the processor's name and the size of its caches
//
// Instructions that Go's compiler does not emit are in assembly. Where a processor lacks
// one, the function does the plain thing that its comment names.
package cpu
