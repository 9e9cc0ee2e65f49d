#include "buffer.h"

#include "check.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <linux/udmabuf.h>

static int device(void) {
	static int fd = -2;
	if (fd == -2)
		fd = open("/dev/udmabuf", O_RDWR | O_CLOEXEC);
	return fd;
}

const char *buffer_kind(void) { return device() >= 0 ? "udmabuf" : "memfd"; }

void buffer_make(struct buffer *b, size_t size) {
	int pages = memfd_create("dma-buf", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	MUST(pages >= 0);
	MUST(ftruncate(pages, (off_t)size) == 0);
	MUST(fcntl(pages, F_ADD_SEALS, F_SEAL_SHRINK) == 0); /* udmabuf asks for it too */
	b->size = size;
	b->at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, pages, 0);
	MUST(b->at != MAP_FAILED);
	b->fd = pages;
	if (device() >= 0) {
		struct udmabuf_create c = {(uint32_t)pages, UDMABUF_FLAGS_CLOEXEC, 0, size};
		b->fd = ioctl(device(), UDMABUF_CREATE, &c);
		MUST(b->fd >= 0);
		MUST(close(pages) == 0);
	}
}

void buffer_free(struct buffer *b) {
	MUST(munmap(b->at, b->size) == 0);
	MUST(close(b->fd) == 0);
}
