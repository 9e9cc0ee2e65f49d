// Package cpu has the functions of nicless that depend on the processor.
//
// Files, in reading order:
//
//	yield_linux.go   whether the program has only one core, and yielding that core
//	relax.go         the pause of a spin loop
//	monitor.go       waiting for a store to a cache line (UMONITOR, UMWAIT, TPAUSE)
//	nontemporal_*.go copying that does not displace what is in the caches
//	lines*           writing back and dropping cache lines, for memory without coherence
//	prefetch.go      bringing cache lines into the cache before they are written
//	model.go         the processor's name and the size of its caches
//
// Instructions that Go's compiler does not emit are in assembly. If a processor lacks such
// an instruction, the function does the simpler thing that its comment names.
package cpu
