package shm

// Relax tells the core that it is in a spin loop (PAUSE, YIELD), n times: it
// saves power and leaves the polled line to its writer for a moment.
//
//go:noescape
func Relax(n uint32)
