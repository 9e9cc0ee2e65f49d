// Package cores is what the measurements of the command have to know about cores: which ones this
// process may use, how a thread stays on one, for how long a thread ran and waited, and what
// kernel decides about that.
//
// Files, in reading order:
//
//	cores.go     the allowed cores, pinning, the kernel
//	times.go     how long threads ran, and how long they waited for a core
package cores
