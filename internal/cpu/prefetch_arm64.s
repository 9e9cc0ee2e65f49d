#include "textflag.h"

// func PrefetchWrite(p *[4 * 64]byte)
TEXT ·PrefetchWrite(SB), NOSPLIT, $0-8
	MOVD p+0(FP), R0
	PRFM (R0), PSTL1KEEP
	PRFM 64(R0), PSTL1KEEP
	PRFM 128(R0), PSTL1KEEP
	PRFM 192(R0), PSTL1KEEP
	RET

// func PrefetchLines(p *byte, n uint64)
TEXT ·PrefetchLines(SB), NOSPLIT, $0-16
	MOVD p+0(FP), R0
	MOVD n+8(FP), R1
loop:
	PRFM (R0), PLDL1KEEP
	ADD  $64, R0
	SUB  $1, R1
	CBNZ R1, loop
	RET
