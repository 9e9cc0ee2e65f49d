#include "textflag.h"

// Now chooses between the TSC and the monotonic clock here, in assembly. A Go function that
// called one function or the other would be too large to inline, so every reading would cost
// one more call.

// func Now() uint64
TEXT ·Now(SB), NOSPLIT, $0-8
	CMPB ·monotonic(SB), $0
	JNE  slow
	RDTSC
	SHLQ $32, DX
	ORQ  DX, AX
	MOVQ AX, ret+0(FP)
	RET

slow:
	JMP ·nanoseconds(SB) // it has the same signature and returns to the caller of Now

// func invariantTSC() bool
TEXT ·invariantTSC(SB), NOSPLIT, $0-1
	MOVB $0, ret+0(FP)
	MOVL $0x80000000, AX
	XORL CX, CX
	CPUID
	CMPL AX, $0x80000007 // unsigned: the highest extended leaf
	JCS  done
	MOVL $0x80000007, AX
	XORL CX, CX
	CPUID
	SHRL $8, DX
	ANDL $1, DX
	MOVB DX, ret+0(FP)

done:
	RET
