//go:build !race

#include "textflag.h"

// Non-temporal stores are not ordered with other stores, hence the SFENCE at the end.
// The prefetched addresses may lie beyond the end of src: a prefetch does not fault.
// Faults of the loads and stores are those of any Go code: the function has no frame,
// and every register that it uses is the caller's to save.

// func copyNonTemporal(dst, src *byte, n uint64)
TEXT ·copyNonTemporal(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ n+16(FP), CX
loop:
	PREFETCHNTA 512(SI)
	PREFETCHNTA 576(SI)
	VMOVDQU     (SI), Y0
	VMOVDQU     32(SI), Y1
	VMOVDQU     64(SI), Y2
	VMOVDQU     96(SI), Y3
	VMOVNTDQ    Y0, (DI)
	VMOVNTDQ    Y1, 32(DI)
	VMOVNTDQ    Y2, 64(DI)
	VMOVNTDQ    Y3, 96(DI)
	ADDQ        $128, SI
	ADDQ        $128, DI
	SUBQ        $128, CX
	JNZ         loop
	SFENCE
	VZEROUPPER
	RET
