//go:build !race

package shm

// wideStores reports whether publishBlocks can be called.
var wideStores = true

//go:noescape
func publishBlocks(first *Block, n, w3, w4, w5, w6, tail, step uint64)

// wideLines reports whether publishLines can be called.
var wideLines = false

func publishLines(dst, src *Block, n, step uint64) {
	panic("shm: no wide stores in this build")
}
