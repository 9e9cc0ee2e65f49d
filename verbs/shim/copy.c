/* Access to the program's memory. The kernel copies (process_vm_readv, process_vm_writev), so
 * a bad pointer of the program gives EFAULT, as from the kernel's own ioctl, and no SIGSEGV
 * in this library. Where these calls are forbidden, as in some containers, the library
 * copies itself, and a bad pointer ends the program. */
#include "shim.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>

static bool forbidden(void) { return errno == EPERM || errno == ENOSYS; }

static void *pointer(uint64_t address) { return (void *)(uintptr_t)address; }

int nv_fetch(const struct nv_process *p, void *to, uint64_t from, size_t bytes) {
	struct iovec here = {to, bytes}, there = {pointer(from), bytes};
	ssize_t n = process_vm_readv(p->pid, &here, 1, &there, 1, 0);
	if (n == (ssize_t)bytes)
		return 0;
	if (n >= 0 || !forbidden())
		return EFAULT;
	memcpy(to, pointer(from), bytes);
	return 0;
}

int nv_store(const struct nv_process *p, uint64_t to, const void *from, size_t bytes) {
	struct iovec here = {pointer((uint64_t)(uintptr_t)from), bytes}, there = {pointer(to), bytes};
	ssize_t n = process_vm_writev(p->pid, &here, 1, &there, 1, 0);
	if (n == (ssize_t)bytes)
		return 0;
	if (n >= 0 || !forbidden())
		return EFAULT;
	memcpy(pointer(to), from, bytes);
	return 0;
}
