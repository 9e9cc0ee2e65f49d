#include "textflag.h"

// func PrefetchWrite(p *[4 * 64]byte)
TEXT ·PrefetchWrite(SB), NOSPLIT, $0-8
	MOVD p+0(FP), R0
	PRFM (R0), PSTL1KEEP
	PRFM 64(R0), PSTL1KEEP
	PRFM 128(R0), PSTL1KEEP
	PRFM 192(R0), PSTL1KEEP
	RET
