#include "textflag.h"

// Go's assembler does not know PREFETCHW.
#define PREFETCHW_AX    BYTE $0x0f; BYTE $0x0d; BYTE $0x08             // PREFETCHW (AX)
#define PREFETCHW_64_AX BYTE $0x0f; BYTE $0x0d; BYTE $0x48; BYTE $0x40 // PREFETCHW 64(AX)

// func PrefetchWrite(p *[4 * 64]byte)
TEXT ·PrefetchWrite(SB), NOSPLIT, $0-8
	MOVQ p+0(FP), AX
	PREFETCHW_AX
	PREFETCHW_64_AX
	ADDQ $128, AX
	PREFETCHW_AX
	PREFETCHW_64_AX
	RET

// func PrefetchLines(p *byte, n uint64)
TEXT ·PrefetchLines(SB), NOSPLIT, $0-16
	MOVQ p+0(FP), AX
	MOVQ n+8(FP), CX
	SUBQ $4, CX
	JLT  rest
four:
	PREFETCHT0 (AX)
	PREFETCHT0 64(AX)
	PREFETCHT0 128(AX)
	PREFETCHT0 192(AX)
	ADDQ       $256, AX
	SUBQ       $4, CX
	JGE        four
rest:
	ADDQ $4, CX
	JEQ  done
one:
	PREFETCHT0 (AX)
	ADDQ       $64, AX
	DECQ       CX
	JNZ        one
done:
	RET

// func extendedFeatures() uint32
TEXT ·extendedFeatures(SB), NOSPLIT, $0-4
	MOVL $0x80000001, AX
	XORL CX, CX
	CPUID
	MOVL CX, ret+0(FP)
	RET
