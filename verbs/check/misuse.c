/* misuse [SEED [N]]: sends random ioctls that no library would send. Each ioctl has to return
 * in time, and has to set errno if it fails. This process and the server have to keep running. */
#include "check.h"

#include <rdma/rdma_user_ioctl_cmds.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

enum { ATTRS = 24 };

/* struct ib_uverbs_ioctl_hdr has a flexible array of attributes. */
struct request {
	struct {
		uint16_t length, object_id, method_id, num_attrs;
		uint64_t reserved;
		uint32_t driver_id, reserved2;
	} hdr;
	struct ib_uverbs_attr attr[ATTRS];
};

static uint64_t state;

static uint64_t rnd(void) {
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static uint32_t below(uint32_t n) { return (uint32_t)(rnd() % n); }

/* Returns a random address: in the page, near the end of the page, near the end of the address
 * space, 0, or any other number. */
static uint64_t somewhere(uint8_t *page) {
	switch (below(8)) {
	case 0:
		return 0;
	case 1:
		return UINT64_MAX - below(64);
	case 2:
		return (uintptr_t)page + 4096 - below(16); /* nothing is mapped after the page */
	case 3:
		return rnd();
	default:
		return (uintptr_t)page + below(4096);
	}
}

static int sends(int fd, struct request *r) {
	int result;
	errno = 0;
	result = ioctl(fd, RDMA_VERBS_IOCTL, r);
	if (result != 0 && (result != -1 || errno == 0))
		FAIL("ioctl returned %d, errno %d", result, errno);
	return result ? errno : 0;
}

static void random_one(int fd, uint8_t *page) {
	static const uint16_t objects[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 14, 16, 0x1000, 0x1001, 0x1002, 0x1008,
		0x1003, 0x1004, 0x1005, 0xffff};
	struct request r;
	int i;
	memset(&r, 0, sizeof r);
	r.hdr.num_attrs = (uint16_t)below(ATTRS + 1);
	r.hdr.length = (uint16_t)(sizeof r.hdr + r.hdr.num_attrs * sizeof r.attr[0]);
	r.hdr.object_id = objects[below(sizeof objects / sizeof *objects)];
	r.hdr.method_id = (uint16_t)(below(4) ? below(12) : 0x1000 + below(6));
	r.hdr.driver_id = below(16) ? RDMA_DRIVER_MLX5 : below(20);
	for (i = 0; i < r.hdr.num_attrs; i++) {
		r.attr[i].attr_id = (uint16_t)(below(4) ? below(16) : 0x1000 + below(6));
		r.attr[i].len = (uint16_t)(below(8) ? below(320) : below(65536));
		r.attr[i].flags = (uint16_t)below(4);
		r.attr[i].data = r.attr[i].len <= 8 || below(3) == 0 ? below(64) : somewhere(page);
	}
	if (r.hdr.object_id == 0 && r.hdr.method_id == 0 && r.hdr.num_attrs) { /* a write command */
		r.attr[0].attr_id = 2;
		r.attr[0].len = 4;
		r.attr[0].data = below(64) | (below(4) ? 0 : 0x80000000u);
	}
	if (below(16) == 0)
		r.hdr.length = (uint16_t)rnd();
	if (below(16) == 0)
		r.hdr.num_attrs = (uint16_t)rnd();
	sends(fd, &r);
}

int main(int argc, char **argv) {
	struct ibv_context *context = open_device(NULL), *other;
	struct ibv_pd *pd;
	struct request r;
	long i, n = argc > 2 ? atol(argv[2]) : 3000;
	uint8_t *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int fd = context->cmd_fd;
	MUST(page != MAP_FAILED);
	DO(munmap(page + 4096, 4096));
	state = argc > 1 ? strtoull(argv[1], NULL, 0) | 1 : 1;

	strcpy(doing, "no header");
	errno = 0;
	SAME(ioctl(fd, RDMA_VERBS_IOCTL, NULL), -1);
	SAME(errno, EFAULT);
	strcpy(doing, "half a header");
	errno = 0;
	SAME(ioctl(fd, RDMA_VERBS_IOCTL, page + 4096 - 8), -1);
	SAME(errno, EFAULT);
	strcpy(doing, "another ioctl");
	errno = 0;
	SAME(ioctl(fd, _IOWR(RDMA_IOCTL_MAGIC, 2, int), &r), -1);
	SAME(errno, ENOTTY);
	strcpy(doing, "an object that does not exist");
	memset(&r, 0, sizeof r);
	r.hdr.length = sizeof r.hdr;
	r.hdr.object_id = 0x7777;
	r.hdr.driver_id = RDMA_DRIVER_MLX5;
	SAME(sends(fd, &r), EPROTONOSUPPORT);
	strcpy(doing, "a length that is not of the attributes");
	r.hdr.object_id = 0;
	r.hdr.num_attrs = 3;
	SAME(sends(fd, &r), EINVAL);
	strcpy(doing, "a mandatory attribute that does not exist");
	r.hdr.method_id = 3;
	r.hdr.num_attrs = 1;
	r.hdr.length = (uint16_t)(sizeof r.hdr + sizeof r.attr[0]);
	r.attr[0].attr_id = 0x777;
	r.attr[0].flags = 1;
	SAME(sends(fd, &r), EPROTONOSUPPORT);

	for (i = 0; i < n; i++) {
		uint64_t before = state;
		snprintf(doing, sizeof doing, "random ioctl %ld, state %#llx", i, (unsigned long long)before);
		random_one(fd, page);
	}
	/* The first context may be in any state now, but another context has to work. */
	strcpy(doing, "another context");
	other = open_device(NULL);
	MUST((pd = ibv_alloc_pd(other)));
	DO(ibv_dealloc_pd(pd));
	DO(ibv_close_device(other));
	printf("misuse: %ld random ioctls: ok\n", n);
	return 0;
}
