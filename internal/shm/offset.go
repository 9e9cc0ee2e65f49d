package shm

// Offset returns which byte of b has an address, and whether any has.
func Offset(b []byte, addr uint64) (at uint64, ok bool) {
	at = addr - address(b)
	return at, at < uint64(len(b))
}
