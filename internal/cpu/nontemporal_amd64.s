//go:build !race

#include "textflag.h"

// Non-temporal stores are not ordered with other stores, so there is an SFENCE at the end.
// Prefetched addresses may be beyond the end of src, because a prefetch does not fault.
// Faults of the loads and stores are handled like those of Go code, because the function has
// no frame and uses only registers that its caller saves.

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
