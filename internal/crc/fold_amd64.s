#include "textflag.h"

// The bytes are a polynomial. A turn of the loop takes 128 bytes A of it, and adds A·x^1024, modulo that of the
// CRC, to the 128 bytes that follow. Each 16 bytes of A are two halves, which are multiplied by x^(1024+32) and
// x^(1024-32). Then the 128 bytes become 16 in the same way, and these a state. See Gopal and others, "Fast CRC
// Computation for Generic Polynomials Using PCLMULQDQ Instruction", Intel, 2009, for bits in the order that the
// CRC has; TestConstants computes the numbers.
DATA by1024<>+0(SB)/8, $0x1e88ef372  // x^(1024+32)
DATA by1024<>+8(SB)/8, $0x14a7fe880  // x^(1024-32)
DATA by128<>+0(SB)/8, $0x1751997d0   // x^(128+32)
DATA by128<>+8(SB)/8, $0x0ccaa009e   // x^(128-32)
DATA by64<>+0(SB)/8, $0x163cd6124    // x^64
DATA by64<>+8(SB)/8, $0
DATA reduce<>+0(SB)/8, $0x1db710641  // the polynomial
DATA reduce<>+8(SB)/8, $0x1f7011641  // x^64 divided by it
GLOBL by1024<>(SB), RODATA|NOPTR, $16
GLOBL by128<>(SB), RODATA|NOPTR, $16
GLOBL by64<>(SB), RODATA|NOPTR, $16
GLOBL reduce<>(SB), RODATA|NOPTR, $16

// NEXT adds X0·x^128 to the 16 bytes that follow.
#define NEXT(following) \
	VPCLMULQDQ $0x00, X8, X0, X9; \
	VPCLMULQDQ $0x11, X8, X0, X0; \
	VPXOR      X9, X0, X0;        \
	VPXOR      following, X0, X0

// func fold(b *byte, n uint64, state uint32) uint32
TEXT ·fold(SB), NOSPLIT, $0-28
	MOVQ           b+0(FP), SI
	MOVQ           n+8(FP), CX
	MOVL           state+16(FP), AX
	VBROADCASTI128 by1024<>(SB), Y8
	VMOVD          AX, X4
	VPXOR          (SI), Y4, Y0
	VMOVDQU        32(SI), Y1
	VMOVDQU        64(SI), Y2
	VMOVDQU        96(SI), Y3
	JMP            test
loop:
	VPCLMULQDQ     $0x00, Y8, Y0, Y4
	VPCLMULQDQ     $0x11, Y8, Y0, Y0
	VPCLMULQDQ     $0x00, Y8, Y1, Y5
	VPCLMULQDQ     $0x11, Y8, Y1, Y1
	VPCLMULQDQ     $0x00, Y8, Y2, Y6
	VPCLMULQDQ     $0x11, Y8, Y2, Y2
	VPCLMULQDQ     $0x00, Y8, Y3, Y7
	VPCLMULQDQ     $0x11, Y8, Y3, Y3
	VPXOR          (SI), Y4, Y4
	VPXOR          32(SI), Y5, Y5
	VPXOR          64(SI), Y6, Y6
	VPXOR          96(SI), Y7, Y7
	VPXOR          Y4, Y0, Y0
	VPXOR          Y5, Y1, Y1
	VPXOR          Y6, Y2, Y2
	VPXOR          Y7, Y3, Y3
test:
	ADDQ           $128, SI
	SUBQ           $128, CX
	JNZ            loop

	VMOVDQU        by128<>(SB), X8
	VEXTRACTI128   $1, Y0, X4
	VEXTRACTI128   $1, Y1, X5
	VEXTRACTI128   $1, Y2, X6
	VEXTRACTI128   $1, Y3, X7
	NEXT(X4)
	NEXT(X1)
	NEXT(X5)
	NEXT(X2)
	NEXT(X6)
	NEXT(X3)
	NEXT(X7)

	// 16 bytes become 12, and these 8.
	VPCLMULQDQ     $0x01, X0, X8, X9
	VPSRLDQ        $8, X0, X0
	VPXOR          X9, X0, X0
	VPCMPEQB       X3, X3, X3
	VPSRLQ         $32, X3, X3
	VPSRLDQ        $4, X0, X9
	VPAND          X3, X0, X0
	VMOVDQU        by64<>(SB), X8
	VPCLMULQDQ     $0x00, X8, X0, X0
	VPXOR          X9, X0, X0

	// Barrett's reduction of 8 bytes.
	VMOVDQU        reduce<>(SB), X8
	VPAND          X3, X0, X9
	VPCLMULQDQ     $0x10, X8, X9, X9
	VPAND          X3, X9, X9
	VPCLMULQDQ     $0x00, X8, X9, X9
	VPXOR          X9, X0, X0
	VPEXTRD        $1, X0, AX
	VZEROUPPER
	MOVL           AX, ret+24(FP)
	RET
