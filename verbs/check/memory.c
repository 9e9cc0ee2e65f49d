#include "nicless/alloc.h"

#include "memory.h"

#include "check.h"

#include <fcntl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <unistd.h>

const char *const memory_names[MEMORY_KINDS] = {"malloc", "stack", "file", "sysv", "memfd", "shared"};

static void *map(int fd, size_t size) {
	void *at;
	MUST(fd >= 0);
	DO(ftruncate(fd, (off_t)size));
	at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	MUST(at != MAP_FAILED);
	close(fd);
	return at;
}

static int temporary(void) {
	char path[4096];
	int fd = temporary_file(path, sizeof path);
	unlink(path);
	return fd;
}

static void *sysv(size_t size) {
	int id = shmget(IPC_PRIVATE, size, IPC_CREAT | 0600);
	void *at;
	MUST(id >= 0);
	at = shmat(id, NULL, 0);
	MUST(at != (void *)-1);
	DO(shmctl(id, IPC_RMID, NULL));
	return at;
}

void memory_take(struct memory *m, enum memory_kind kind, size_t size) {
	m->kind = kind;
	m->size = size;
	switch (kind) {
	case MEMORY_MALLOC:
		m->base = malloc(size);
		break;
	case MEMORY_FILE:
		m->base = map(temporary(), size);
		break;
	case MEMORY_SYSV:
		m->base = sysv(size);
		break;
	case MEMORY_MEMFD:
		m->base = map(memfd_create("check", MFD_CLOEXEC), size);
		break;
	case MEMORY_SHARED:
		MUST(dlsym(RTLD_DEFAULT, "nicless_alloc")); /* without the shim it would be ordinary memory */
		m->base = nicless_buffer(size);
		break;
	default:
		m->base = m->at;
	}
	MUST(m->base);
	m->at = m->base;
}

void memory_give(struct memory *m) {
	switch (m->kind) {
	case MEMORY_MALLOC:
		free(m->base);
		break;
	case MEMORY_FILE:
	case MEMORY_MEMFD:
		DO(munmap(m->base, m->size));
		break;
	case MEMORY_SYSV:
		DO(shmdt(m->base));
		break;
	case MEMORY_SHARED:
		nicless_buffer_free(m->base);
		break;
	default:
		break;
	}
	m->base = m->at = NULL;
}
