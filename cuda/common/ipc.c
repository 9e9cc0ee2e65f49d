/* Memory of devices in other processes. */
#include "common.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int inode(uint64_t *number, int fd) {
	struct stat st;
	if (fstat(fd, &st))
		return INVALID_HANDLE;
	*number = st.st_ino;
	return OK;
}

int gpu_share(struct gpu_shared *h, uint64_t at) {
	static const char magic[8] = "nicless";
	int kind, device, error;
	void *first;
	uint64_t size;
	gpu_find((void *)(uintptr_t)at, &kind, &device, &first, &size);
	if (kind != 2 || (uint64_t)(uintptr_t)first != at)
		return INVALID_VALUE;
	memset(h, 0, sizeof *h);
	memcpy(h->magic, magic, sizeof magic);
	h->pid = getpid();
	h->size = size;
	error = gpu_own_file(at, size, &h->fd, &h->offset);
	return error ? error : inode(&h->inode, h->fd);
}

int gpu_detach_shared(uint64_t at) {
	int kind, device;
	void *first;
	uint64_t size;
	gpu_find((void *)(uintptr_t)at, &kind, &device, &first, &size);
	return kind ? gpu_detach(device, at) : INVALID_VALUE;
}

/* Opens the file of a handle, if it is still that of the memory. */
static int open_shared(int *fd, const struct gpu_shared *h) {
	char path[64];
	uint64_t number;
	snprintf(path, sizeof path, "/proc/%d/fd/%d", h->pid, h->fd);
	*fd = open(path, O_RDWR | O_CLOEXEC);
	if (*fd < 0)
		return INVALID_HANDLE;
	if (inode(&number, *fd) == OK && number == h->inode)
		return OK;
	close(*fd);
	return INVALID_HANDLE;
}

int gpu_attach_shared(uint64_t *at, const struct gpu_shared *h) {
	int fd, error;
	if (memcmp(h->magic, "nicless", 8))
		return INVALID_VALUE;
	if (h->pid == getpid())
		return INVALID_CONTEXT;
	error = open_shared(&fd, h);
	if (error)
		return error;
	error = gpu_attach(gpu_current(), fd, h->offset, h->size, at);
	close(fd);
	return error;
}
