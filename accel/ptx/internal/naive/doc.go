// Package naive executes PTX in the simplest way, for tests of package machine: a second opinion that
// shares nothing with it but the parser. It was written from the manual (PTX ISA 9.0, sections 9.7.1 to
// 9.7.13). It interprets the syntax tree, lane by lane and instruction by instruction, keeps registers by
// their names, and computes with math/big. It knows integers only: package alu is compared with a GPU.
//
//	naive.go    lanes, and where they go
//	integer.go  arithmetic
//	memory.go   spaces, loads, stores and atomics
//	together.go operations of a warp and of a block
package naive
