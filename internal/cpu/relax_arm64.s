#include "textflag.h"

// func Relax(n uint32)
TEXT ·Relax(SB), NOSPLIT, $0-4
	MOVWU n+0(FP), R0
loop:
	YIELD
	SUBSW $1, R0, R0
	BGT   loop
	RET
