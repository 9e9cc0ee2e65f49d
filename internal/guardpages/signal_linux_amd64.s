#include "go_asm.h"
#include "textflag.h"

// Offsets in siginfo_t and ucontext_t of Linux on amd64.
#define si_code  8
#define si_addr  16
#define uc_rbp   120
#define uc_rsp   160
#define uc_rip   168
#define uc_err   192

#define SEGV_ACCERR 2
#define EFAULT      14
#define SYS_mprotect 10
#define SYS_writev   20

// The frame, by offsets from BX: a record (record.go), two iovecs, then the arguments of the handler.
#define rec_addr  0
#define rec_owner 8
#define rec_base  16
#define rec_rip   24
#define rec_rsp   32
#define rec_rbp   40
#define rec_err   48
#define rec_kind  56
#define iov       64
#define arg_sig   96
#define arg_info  104
#define arg_ctx   112
#define frame     128

// func handler()
//
// It has the calling convention of a signal handler in C: DI is the signal, SI the siginfo_t, DX the
// ucontext_t. All registers are restored from DX when it has returned. All signals are blocked.
TEXT ·handler(SB), NOSPLIT|NOFRAME|TOPFRAME, $0
	CMPL si_code(SI), $SEGV_ACCERR
	JNE  others
	MOVQ si_addr(SI), R8
	LOCK
	INCL ·active(SB)
	LEAQ ·slots(SB), R9
	MOVL $const_mostSlots, CX
search:
	CMPQ R8, slot_base(R9)
	JB   next
	CMPQ R8, slot_end(R9)
	JB   found
next:
	ADDQ $slot__size, R9
	DECL CX
	JNZ  search
	LOCK
	DECL ·active(SB)
others:
	MOVQ ·previous(SB), AX
	JMP  AX

found:
	MOVQ slot_states(R9), R10
	TESTQ R10, R10
	JZ   closed

	// The first thread that comes here gets the owner of the page.
	MOVQ R8, R13
	SUBQ slot_base(R9), R13
	SHRQ $12, R13
	XORL R12, R12
	XCHGQ R12, (R10)(R13*8)

	SUBQ $frame, SP
	MOVQ SP, BX
	MOVQ DI, arg_sig(BX)
	MOVQ SI, arg_info(BX)
	MOVQ DX, arg_ctx(BX)

	// Open the page. If the kernel has no room for another mapping, open all of the memory, which needs none.
	MOVL $SYS_mprotect, AX
	MOVQ R8, DI
	ANDQ $~4095, DI
	MOVL $4096, SI
	MOVL $3, DX // PROT_READ | PROT_WRITE
	SYSCALL
	TESTQ AX, AX
	JZ   open
	MOVL $SYS_mprotect, AX
	MOVQ slot_base(R9), DI
	MOVQ slot_end(R9), SI
	SUBQ DI, SI
	MOVL $3, DX
	SYSCALL
	TESTQ AX, AX
	JNZ  hopeless

open:
	TESTQ R12, R12
	JZ   done // another thread was first
	MOVQ arg_ctx(BX), DX
	MOVQ R8, rec_addr(BX)
	MOVQ R12, rec_owner(BX)
	MOVQ slot_base(R9), AX
	MOVQ AX, rec_base(BX)
	MOVQ uc_rip(DX), AX
	MOVQ AX, rec_rip(BX)
	MOVQ uc_rsp(DX), AX
	MOVQ AX, rec_rsp(BX)
	MOVQ AX, (iov+16)(BX)
	MOVQ uc_rbp(DX), AX
	MOVQ AX, rec_rbp(BX)
	MOVQ uc_err(DX), AX
	MOVQ AX, rec_err(BX)
	MOVQ $0, rec_kind(BX)
	MOVQ BX, iov(BX)
	MOVQ $const_recordSize, (iov+8)(BX)
	MOVQ $const_stackSize, (iov+24)(BX)

	// The record, and a copy of the stack. The kernel copies, so an address without memory is no harm.
	MOVL $SYS_writev, AX
	MOVL ·records(SB), DI
	LEAQ iov(BX), SI
	MOVL $2, DX
	SYSCALL
	CMPQ AX, $-EFAULT
	JNE  sent
	MOVL $SYS_writev, AX
	MOVL ·records(SB), DI
	LEAQ iov(BX), SI
	MOVL $1, DX
	SYSCALL
sent:
	TESTQ AX, AX
	JGE  done
	LOCK
	INCQ ·lost(SB)
done:
	LOCK
	DECL ·active(SB)
	ADDQ $frame, SP
	RET

hopeless:
	LOCK
	DECL ·active(SB)
	MOVQ arg_sig(BX), DI
	MOVQ arg_info(BX), SI
	MOVQ arg_ctx(BX), DX
	ADDQ $frame, SP
	JMP  others

closed:
	// Close has opened the memory after the access and before this search. The next try will succeed. It does not
	// if something else has been mapped there meanwhile, so the number of tries is limited.
	LOCK
	DECQ slot_tries(R9)
	JLT  retried
	LOCK
	DECL ·active(SB)
	RET
retried:
	LOCK
	DECL ·active(SB)
	JMP  others

// func handlerAddress() uintptr
TEXT ·handlerAddress(SB), NOSPLIT, $0-8
	LEAQ ·handler(SB), AX
	MOVQ AX, ret+0(FP)
	RET
