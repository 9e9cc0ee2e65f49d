#include "textflag.h"

// func Relax(n uint32)
TEXT ·Relax(SB), NOSPLIT, $0-4
	MOVL n+0(FP), CX
loop:
	PAUSE
	SUBL $1, CX
	JGT  loop
	RET
