/* The functions with which programs map a device are overwritten, as memory hooks of other
 * libraries do it: the first instructions of mmap become a jump to a hook, and the hook makes the
 * system call by syscall. UCX's hook of mremap loses the last argument. */
#include "try.h"

#include <dlfcn.h>
#include <sys/syscall.h>

static int calls;

static void *hook(void *at, size_t length, int prot, int flags, int fd, off_t offset) {
	calls++;
	return (void *)syscall(SYS_mmap, at, length, prot, flags, fd, offset);
}

static void *hook_mremap(void *from, size_t length, size_t wanted, int flags) {
	return (void *)syscall(SYS_mremap, from, length, wanted, flags, NULL);
}

static void overwrite(const char *name, uintptr_t to) {
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	unsigned char *code = dlsym(RTLD_DEFAULT, name), *first;
#if defined(__x86_64__)
	unsigned char jump[13] = {0x49, 0xbb, [10] = 0x41, 0xff, 0xe3}; /* movabs $to, %r11; jmp *%r11 */
	memcpy(jump + 2, &to, sizeof to);
#elif defined(__aarch64__)
	uint32_t jump[4] = {0x58000051, 0xd61f0220}; /* ldr x17, after the next instruction; br x17 */
	memcpy(jump + 2, &to, sizeof to);
#endif
	TRY(code != NULL);
	first = code - (uintptr_t)code % page;
	TRY(mprotect(first, 2 * page, PROT_READ | PROT_WRITE | PROT_EXEC) == 0);
	memcpy(code, jump, sizeof jump);
	__builtin___clear_cache((char *)code, (char *)code + sizeof jump);
	TRY(mprotect(first, 2 * page, PROT_READ | PROT_EXEC) == 0);
}

int main(void) {
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	int fd = open(DEVICE, O_RDWR), null = open("/dev/zero", O_RDWR);
	uint64_t *ring, *other, *registers;
	overwrite("mmap", (uintptr_t)hook);
	overwrite("mmap64", (uintptr_t)hook);
	overwrite("mremap", (uintptr_t)hook_mremap);
	ring = mmap(NULL, 2 * page - 100, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0x10000);
	TRY(calls == 1 && ring != MAP_FAILED && ring[0] == 0x10000);
	ring[1] = 77;
	TRY(peek(fd, 8) == 77);
	other = mmap64(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0x10000);
	TRY(calls == 2 && other != MAP_FAILED && other[1] == 0); /* not the same memory again */
	registers = mmap(NULL, page, PROT_WRITE, MAP_SHARED, fd, 0x1001000);
	TRY(registers != MAP_FAILED);
	registers[1] = 11;
	TRY(peek(fd, page + 8) == 11);
	FAILS(EPERM, madvise(registers, page, MADV_REMOVE)); /* it is sealed */

	/* Other calls arrive unchanged. */
	TRY(mmap(NULL, page, PROT_READ, MAP_PRIVATE, null, 0) != MAP_FAILED);
	TRY(mmap(NULL, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED);
	TRY(mmap(NULL, page, PROT_READ, MAP_SHARED, fd, 0x666000) == MAP_FAILED && errno == EINVAL);
	TRY(syscall(SYS_getpid) == getpid());
	FAILS(EBADF, syscall(SYS_close, -1));
	TRY(syscall(SYS_pread64, null, registers, 0, 0, 0, 0) == 0);
	close(null);
	close(fd);
	return 0;
}
