#include "go_asm.h"
#include "textflag.h"

// The child must not touch memory that Go uses. It uses only registers and *shared. System
// calls preserve BX and R12.

#define SYS_read 0
#define SYS_clone 56
#define SYS_setsid 112
#define SYS_prctl 157
#define SYS_exit_group 231
#define SYS_close_range 436

#define CLONE_VM 0x100
#define PR_SET_NAME 15
#define PR_SET_SECCOMP 22
#define PR_SET_NO_NEW_PRIVS 38
#define SECCOMP_MODE_FILTER 2
#define EINTR 4

// func hold(p *shared) (pid int)
TEXT ·hold(SB), NOSPLIT, $0-16
	MOVQ p+0(FP), BX
	MOVL shared_end(BX), R12
	MOVL $CLONE_VM, DI // without CLONE_FILES, CLONE_SIGHAND, CLONE_THREAD
	XORL SI, SI        // the caller's stack, which the child does not use
	XORL DX, DX
	XORL R10, R10
	XORL R8, R8
	MOVL $SYS_clone, AX
	SYSCALL
	TESTQ AX, AX
	JZ   child
	MOVQ AX, pid+8(FP)
	RET

child:
	XORL DI, DI // close_range(0, end - 1, 0)
	LEAL -1(R12), SI
	XORL DX, DX
	MOVL $SYS_close_range, AX
	SYSCALL
	TESTQ AX, AX
	JNE  over // no holder is better than one that keeps descriptors
	LEAL 1(R12), DI // close_range(end + 1, ~0, 0)
	MOVL $-1, SI
	XORL DX, DX
	MOVL $SYS_close_range, AX
	SYSCALL
	MOVL $SYS_setsid, AX
	SYSCALL
	MOVL $PR_SET_NAME, DI
	LEAQ shared_name(BX), SI
	MOVL $SYS_prctl, AX
	SYSCALL
	MOVL $PR_SET_NO_NEW_PRIVS, DI
	MOVL $1, SI
	XORL DX, DX
	XORL R10, R10
	XORL R8, R8
	MOVL $SYS_prctl, AX
	SYSCALL
	MOVL $PR_SET_SECCOMP, DI
	MOVL $SECCOMP_MODE_FILTER, SI
	LEAQ shared_program(BX), DX
	MOVL $SYS_prctl, AX
	SYSCALL
	TESTQ AX, AX
	JNE  over
	MOVL $1, AX
	XCHGL AX, shared_ready(BX)

wait:
	MOVL R12, DI
	LEAQ shared_got(BX), SI
	MOVL $1, DX
	MOVL $SYS_read, AX
	SYSCALL
	CMPQ AX, $-EINTR
	JEQ  wait

over:
	XORL DI, DI
	MOVL $SYS_exit_group, AX
	SYSCALL
	JMP  over
