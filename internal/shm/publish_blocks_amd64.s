//go:build !race

#include "textflag.h"

// The words of body are in memory order; tail and step are numbers. Stores become visible in
// program order. A processor with AVX makes an aligned store of 16 bytes at once, so the last
// store of a block publishes its two words together.

// func publishBlocks(first *Block, n, w3, w4, w5, w6, tail, step uint64)
TEXT ·publishBlocks(SB), NOSPLIT, $0-64
	MOVQ        first+0(FP), DI
	MOVQ        n+8(FP), CX
	VMOVQ       w3+16(FP), X0
	VMOVQ       w4+24(FP), X1
	VMOVQ       w5+32(FP), X2
	VMOVQ       w6+40(FP), X3
	MOVQ        tail+48(FP), AX
	MOVQ        step+56(FP), DX
	VPSLLDQ     $8, X0, X0       // 0, w3
	VPXOR       Y4, Y4, Y4
	VINSERTI128 $1, X0, Y4, Y0   // 0, 0, 0, w3
	VPUNPCKLQDQ X2, X1, X1       // w4, w5
loop:
	MOVQ        AX, BX
	BSWAPQ      BX
	VMOVQ       BX, X5
	VPUNPCKLQDQ X5, X3, X5       // w6, tail
	VMOVDQU     Y0, (DI)
	VMOVDQA     X1, 32(DI)
	VMOVDQA     X5, 48(DI)
	ADDQ        DX, AX
	ADDQ        $64, DI
	DECQ        CX
	JNZ         loop
	VZEROUPPER
	RET

// func publishLines(dst, src *Block, n, step uint64)
TEXT ·publishLines(SB), NOSPLIT, $0-32
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ n+16(FP), CX
	MOVQ step+24(FP), DX
lines:
	VMOVDQU 32(SI), Y0
	VMOVDQU 16(SI), X1
	VMOVDQU (SI), X2
	VMOVDQU Y0, 32(DI)
	VMOVDQA X1, 16(DI)
	VMOVDQA X2, (DI)
	ADDQ    $64, SI
	ADDQ    DX, DI
	DECQ    CX
	JNZ     lines
	VZEROUPPER
	RET
