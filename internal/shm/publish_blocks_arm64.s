//go:build !race

#include "textflag.h"

// The words of body are in memory order; tail and step are numbers.

// func publishBlocks(first *Block, n, w3, w4, w5, w6, tail, step uint64)
TEXT ·publishBlocks(SB), NOSPLIT, $0-64
	MOVD first+0(FP), R0
	MOVD n+8(FP), R1
	MOVD w3+16(FP), R2
	MOVD w4+24(FP), R3
	MOVD w5+32(FP), R4
	MOVD w6+40(FP), R5
	MOVD tail+48(FP), R6
	MOVD step+56(FP), R7
loop:
	REV  R6, R8
	STP  (ZR, ZR), (R0)
	STP  (ZR, R2), 16(R0)
	STP  (R3, R4), 32(R0)
	MOVD R5, 48(R0)
	ADD  $56, R0
	STLR R8, (R0)
	ADD  $8, R0
	ADD  R7, R6
	SUB  $1, R1
	CBNZ R1, loop
	RET
