/* Forbids two system calls to this process: they return EPERM from now on, as in some
 * containers. */
#ifndef FORBID_H
#define FORBID_H

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

static inline void forbid(unsigned one, unsigned other) {
	struct sock_filter filter[] = {
	    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, one, 1, 0),
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, other, 0, 1),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
	TRY(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	TRY(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

#endif
