//go:build !race

#include "textflag.h"

// func storeRel32(p *uint32, v uint32)
TEXT ·storeRel32(SB), NOSPLIT, $0-12
	MOVD  p+0(FP), R0
	MOVW  v+8(FP), R1
	STLRW R1, (R0)
	RET

// func storeRel64(p *uint64, v uint64)
TEXT ·storeRel64(SB), NOSPLIT, $0-16
	MOVD p+0(FP), R0
	MOVD v+8(FP), R1
	STLR R1, (R0)
	RET

// func storeFirst64(p *uint64, v uint64)
TEXT ·storeFirst64(SB), NOSPLIT, $0-16
	MOVD p+0(FP), R0
	MOVD v+8(FP), R1
	MOVD R1, (R0)
	DMB  $0xa // ISHST: v becomes visible before all stores that follow
	RET

// func publishBlock(dst, src *[64]byte)
TEXT ·publishBlock(SB), NOSPLIT, $0-16
	MOVD dst+0(FP), R0
	MOVD src+8(FP), R1
	LDP  (R1), (R2, R3)
	LDP  16(R1), (R4, R5)
	LDP  32(R1), (R6, R7)
	LDP  48(R1), (R8, R9)
	STP  (R2, R3), (R0)
	STP  (R4, R5), 16(R0)
	STP  (R6, R7), 32(R0)
	MOVD R8, 48(R0)
	ADD  $56, R0
	STLR R9, (R0)
	RET

// func publishHead(dst, src *[64]byte)
TEXT ·publishHead(SB), NOSPLIT, $0-16
	MOVD dst+0(FP), R0
	MOVD src+8(FP), R1
	LDP  (R1), (R2, R3)
	LDP  16(R1), (R4, R5)
	LDP  32(R1), (R6, R7)
	LDP  48(R1), (R8, R9)
	MOVD ZR, (R0)
	DMB  $0xa // ISHST: the 0 becomes visible before all stores that follow
	MOVD R3, 8(R0)
	STP  (R4, R5), 16(R0)
	STP  (R6, R7), 32(R0)
	STP  (R8, R9), 48(R0)
	STLR R2, (R0)
	RET
