#include "textflag.h"

// func Relax(n uint32)
TEXT ·Relax(SB), NOSPLIT, $0-4
	MOVL n+0(FP), CX
loop:
	PAUSE
	SUBL $1, CX
	JGT  loop
	RET

// func PrefetchWrite(b *[64]byte)
TEXT ·PrefetchWrite(SB), NOSPLIT, $0-8
	MOVQ b+0(FP), AX
	BYTE $0x0F; BYTE $0x0D; BYTE $0x08 // PREFETCHW (AX), which the assembler does not know
	RET
