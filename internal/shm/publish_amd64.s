//go:build !race

#include "textflag.h"

// On amd64 every store is a release store, because stores become visible in program
// order. In Go there is no way to ask for a release store without a full barrier.

// func publishBlock(dst, src *[64]byte)
TEXT ·publishBlock(SB), NOSPLIT, $0-16
	MOVQ   dst+0(FP), DI
	MOVQ   src+8(FP), SI
	MOVOU  (SI), X0
	MOVOU  16(SI), X1
	MOVOU  32(SI), X2
	MOVQ   48(SI), AX
	MOVQ   56(SI), CX
	MOVOU  X0, (DI)
	MOVOU  X1, 16(DI)
	MOVOU  X2, 32(DI)
	MOVQ   AX, 48(DI)
	MOVQ   CX, 56(DI)
	RET

// func publishHead(dst, src *[64]byte)
TEXT ·publishHead(SB), NOSPLIT, $0-16
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ (SI), AX
	MOVQ 8(SI), CX
	MOVQ 16(SI), DX
	MOVQ 24(SI), BX
	MOVQ 32(SI), R8
	MOVQ 40(SI), R9
	MOVQ 48(SI), R10
	MOVQ 56(SI), R11
	MOVQ $0, (DI)
	MOVQ CX, 8(DI)
	MOVQ DX, 16(DI)
	MOVQ BX, 24(DI)
	MOVQ R8, 32(DI)
	MOVQ R9, 40(DI)
	MOVQ R10, 48(DI)
	MOVQ R11, 56(DI)
	MOVQ AX, (DI)
	RET
