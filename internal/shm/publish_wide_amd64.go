//go:build !race

package shm

import "golang.org/x/sys/cpu"

// wideStores reports whether publishBlocks can be called.
var wideStores = cpu.X86.HasAVX2

// wideLines reports whether publishLines can be called.
var wideLines = wideStores

//go:noescape
func publishLines(dst, src *Block, n, step uint64)

//go:noescape
func publishBlocks(first *Block, n, w3, w4, w5, w6, tail, step uint64)
