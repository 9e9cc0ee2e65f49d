//go:build race || !(amd64 || arm64)

package shm

// wideStores reports whether publishBlocks can be called.
var wideStores = false

func publishBlocks(first *Block, n, w3, w4, w5, w6, tail, step uint64) {
	panic("shm: no wide stores in this build")
}

// wideLines reports whether publishLines can be called.
var wideLines = false

func publishLines(dst, src *Block, n, step uint64) {
	panic("shm: no wide stores in this build")
}
