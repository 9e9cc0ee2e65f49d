/* Access to the program's memory. The kernel copies (process_vm_readv, process_vm_writev), so
 * a bad pointer of the program gives EFAULT, as from the kernel's own ioctl, and no SIGSEGV
 * in this library. Where these calls are forbidden, as in some containers, the library
 * copies itself, and a bad pointer ends the program. */
#include "shim.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/uio.h>

static bool forbidden(void) { return errno == EPERM || errno == ENOSYS; }

/* A page of the program's heap has bytes that AddressSanitizer forbids to read, and the program's
 * memcpy is the sanitizer's, which checks every byte. So this copies by itself. The empty statement
 * keeps the compiler from making a call to memcpy of the loop. */
void nv_copy_pages(void *to, const void *from, size_t bytes) {
	typedef uint64_t four __attribute__((__vector_size__(32), __may_alias__));
	four *t = to;
	const four *f = from;
	size_t i;
	for (i = 0; i < bytes / sizeof *t; i += 4) {
		t[i] = f[i];
		t[i + 1] = f[i + 1];
		t[i + 2] = f[i + 2];
		t[i + 3] = f[i + 3];
		__asm__ volatile("" ::: "memory");
	}
}

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

int nv_fetch_some(const struct nv_process *p, void *to, uint64_t from, size_t least, size_t most,
                  size_t *bytes) {
	/* Two pieces, because the kernel may leave out the whole of a piece of which it cannot read a part. */
	struct iovec here = {to, most},
		there[2] = {{pointer(from), least}, {pointer(from + least), most - least}};
	ssize_t n = process_vm_readv(p->pid, &here, 1, there, 2, 0);
	if (n < 0 && forbidden()) {
		*bytes = least;
		return nv_fetch(p, to, from, least);
	}
	*bytes = n < 0 ? 0 : (size_t)n;
	return *bytes >= least ? 0 : EFAULT;
}

int nv_store(const struct nv_process *p, const struct iovec *here, const struct iovec *there, int count) {
	ssize_t n = process_vm_writev(p->pid, here, (unsigned long)count, there, (unsigned long)count, 0);
	size_t bytes = 0;
	int i;
	for (i = 0; i < count; i++)
		bytes += here[i].iov_len;
	if (n == (ssize_t)bytes)
		return 0;
	if (n >= 0 || !forbidden())
		return EFAULT;
	for (i = 0; i < count; i++)
		memcpy(there[i].iov_base, here[i].iov_base, here[i].iov_len);
	return 0;
}
