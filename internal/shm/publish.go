//go:build (amd64 || arm64) && !race

package shm

// publishHead stores 0 in the first eight bytes, then the other 56 bytes of src, then the
// first eight bytes of src. Each of these three steps becomes visible before the next.
//
//go:noescape
func publishHead(dst, src *[64]byte)

// publishBlock copies 56 bytes, then stores the last eight with release order.
//
//go:noescape
func publishBlock(dst, src *[64]byte)
