#include "textflag.h"

// func dcCVAC(p *byte, n, step uint64)
TEXT ·dcCVAC(SB), NOSPLIT, $0-24
	MOVD p+0(FP), R0
	MOVD n+8(FP), R1
	MOVD step+16(FP), R2
loop:
	DC   CVAC, R0
	ADD  R2, R0
	SUBS $1, R1
	BNE  loop
	DSB  $15 // SY
	RET

// func dcCIVAC(p *byte, n, step uint64)
TEXT ·dcCIVAC(SB), NOSPLIT, $0-24
	MOVD p+0(FP), R0
	MOVD n+8(FP), R1
	MOVD step+16(FP), R2
	DSB  $15 // SY
loop:
	DC   CIVAC, R0
	ADD  R2, R0
	SUBS $1, R1
	BNE  loop
	DSB  $15 // SY
	RET

// func dataLine() uint64
TEXT ·dataLine(SB), NOSPLIT, $0-8
	MRS  CTR_EL0, R0
	UBFX $16, R0, $4, R0 // log2 of the number of words
	MOVD $4, R1
	LSL  R0, R1, R1
	MOVD R1, ret+0(FP)
	RET
