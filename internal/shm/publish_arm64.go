//go:build !race

package shm

// storeRel32 stores v with release order.
//
//go:noescape
func storeRel32(p *uint32, v uint32)

// storeRel64 stores v with release order.
//
//go:noescape
func storeRel64(p *uint64, v uint64)

// storeFirst64 stores v before all stores that follow.
//
//go:noescape
func storeFirst64(p *uint64, v uint64)
