#include "go_asm.h"
#include "textflag.h"

// The child must not touch memory that Go uses. It uses only registers and *shared. System
// calls preserve all registers except R0.

#define SYS_read 63
#define SYS_exit_group 94
#define SYS_setsid 157
#define SYS_prctl 167
#define SYS_clone 220
#define SYS_close_range 436

#define CLONE_VM 0x100
#define PR_SET_NAME 15
#define PR_SET_SECCOMP 22
#define PR_SET_NO_NEW_PRIVS 38
#define SECCOMP_MODE_FILTER 2
#define EINTR 4

// func hold(p *shared) (pid int)
TEXT ·hold(SB), NOSPLIT, $0-16
	MOVD  p+0(FP), R9
	MOVWU shared_end(R9), R10
	MOVD  $CLONE_VM, R0 // without CLONE_FILES, CLONE_SIGHAND, CLONE_THREAD
	MOVD  ZR, R1        // the caller's stack, which the child does not use
	MOVD  ZR, R2
	MOVD  ZR, R3
	MOVD  ZR, R4
	MOVD  $SYS_clone, R8
	SVC
	CBZ   R0, child
	MOVD  R0, pid+8(FP)
	RET

child:
	MOVD ZR, R0 // close_range(0, end - 1, 0)
	SUBW $1, R10, R1
	MOVD ZR, R2
	MOVD $SYS_close_range, R8
	SVC
	CBNZ R0, over // no holder is better than one that keeps descriptors
	ADDW $1, R10, R0 // close_range(end + 1, ~0, 0)
	MOVD $0xffffffff, R1
	MOVD ZR, R2
	MOVD $SYS_close_range, R8
	SVC
	MOVD $SYS_setsid, R8
	SVC
	MOVD $PR_SET_NAME, R0
	ADD  $shared_name, R9, R1
	MOVD $SYS_prctl, R8
	SVC
	MOVD $PR_SET_NO_NEW_PRIVS, R0
	MOVD $1, R1
	MOVD ZR, R2
	MOVD ZR, R3
	MOVD ZR, R4
	MOVD $SYS_prctl, R8
	SVC
	MOVD $PR_SET_SECCOMP, R0
	MOVD $SECCOMP_MODE_FILTER, R1
	ADD  $shared_program, R9, R2
	MOVD $SYS_prctl, R8
	SVC
	CBNZ R0, over
	MOVD $1, R0
	ADD  $shared_ready, R9, R1
	STLRW R0, (R1)

wait:
	MOVD R10, R0
	ADD  $shared_got, R9, R1
	MOVD $1, R2
	MOVD $SYS_read, R8
	SVC
	CMN  $EINTR, R0
	BEQ  wait

over:
	MOVD ZR, R0
	MOVD $SYS_exit_group, R8
	SVC
	JMP  over
