#include "textflag.h"

// func umonitor(addr *uint32)
TEXT ·umonitor(SB), NOSPLIT, $0-8
	MOVQ addr+0(FP), AX
	UMONITOR AX
	RET

// UMWAIT and TPAUSE take the time stamp at which they end in EDX:EAX. Bit 0 of their operand
// chooses the state C0.1, which the core leaves faster than C0.2.

// func umwait(cycles uint32)
TEXT ·umwait(SB), NOSPLIT, $0-4
	RDTSC
	MOVL cycles+0(FP), CX
	ADDL CX, AX
	ADCL $0, DX
	MOVL $1, CX
	UMWAIT CX
	RET

// func tpause(cycles uint32)
TEXT ·tpause(SB), NOSPLIT, $0-4
	RDTSC
	MOVL cycles+0(FP), CX
	ADDL CX, AX
	ADCL $0, DX
	MOVL $1, CX
	TPAUSE CX
	RET
