#include "textflag.h"

// func clwb(p *byte, n uint64)
TEXT ·clwb(SB), NOSPLIT, $0-16
	MOVQ p+0(FP), AX
	MOVQ n+8(FP), CX
loop:
	CLWB (AX)
	ADDQ $64, AX
	DECQ CX
	JNZ  loop
	SFENCE
	RET

// func clflushopt(p *byte, n uint64)
TEXT ·clflushopt(SB), NOSPLIT, $0-16
	MOVQ p+0(FP), AX
	MOVQ n+8(FP), CX
	MFENCE
loop:
	CLFLUSHOPT (AX)
	ADDQ $64, AX
	DECQ CX
	JNZ  loop
	MFENCE
	RET

// func clflush(p *byte, n uint64)
TEXT ·clflush(SB), NOSPLIT, $0-16
	MOVQ p+0(FP), AX
	MOVQ n+8(FP), CX
	MFENCE
loop:
	CLFLUSH (AX)
	ADDQ $64, AX
	DECQ CX
	JNZ  loop
	MFENCE
	RET

// func structuredFeatures() uint32
TEXT ·structuredFeatures(SB), NOSPLIT, $0-4
	XORL AX, AX
	XORL CX, CX
	CPUID
	CMPL AX, $7
	JLT  none
	MOVL $7, AX
	XORL CX, CX
	CPUID
	MOVL BX, ret+0(FP)
	RET
none:
	MOVL $0, ret+0(FP)
	RET
