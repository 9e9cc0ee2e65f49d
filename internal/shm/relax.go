package shm

// Relax tells the core that it is in a spin loop (PAUSE, YIELD), n times: it
// saves power and leaves the polled line to its writer for a moment.
//
//go:noescape
func Relax(n uint32)

// PrefetchWrite has the core fetch the line that holds b[0], to write to it
// soon: a hint, which costs nothing but its call.
//
//go:noescape
func PrefetchWrite(b *[64]byte)
