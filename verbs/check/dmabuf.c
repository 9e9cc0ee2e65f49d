/* Memory regions of dma-bufs: transfers to and from them, with every choice of addresses, also when the
 * program has neither mapped the memory nor kept its descriptor; dma-bufs of another process; and
 * mistakes. */
#include "buffer.h"
#include "device.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SIZE = 64 << 10, PAGE = 4096 };

static const int all_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                              IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_RELAXED_ORDERING;

static void *address(uint64_t iova) { return (void *)(uintptr_t)iova; }

/* A transfer between two regions: d with another region as the local side. */
static struct device locally(const struct device *d, struct ibv_mr *mr, uint64_t iova) {
	struct device other = *d;
	other.window = mr;
	other.bytes = address(iova);
	other.size = SIZE;
	return other;
}

static void transfers(struct device *d) {
	struct buffer b;
	static const struct {
		uint64_t offset, length, iova;
	} rows[] = {
		{0, SIZE, 0}, {0, SIZE, 0x7f0012340000}, {PAGE, 2 * PAGE, 0},
		{5000, 3000, 5000}, {5000, 3000, 0x388}, {SIZE - 8, 8, 0xff8},
		{0, SIZE, UINT64_MAX - 0xfffff},
	};
	size_t i;
	strcpy(doing, "transfers");
	buffer_make(&b, SIZE);
	for (i = 0; i < sizeof rows / sizeof *rows; i++) {
		size_t n = rows[i].length, at = rows[i].offset;
		uint64_t iova = rows[i].iova;
		struct device here;
		struct ibv_mr *mr = ibv_reg_dmabuf_mr(d->pd, at, n, iova, b.fd, all_access);
		uint64_t before;
		MUST(mr);
		/* The device writes, and the program sees it. */
		memset(b.at, 0, SIZE);
		pattern_fill(d->bytes, i, 0, n);
		SAME(device_write(d, mr, address(iova), n), IBV_WC_SUCCESS);
		pattern_check(b.at + at, i, 0, n, "written");
		MUST((at == 0 || !b.at[at - 1]) && (at + n == SIZE || !b.at[at + n]));
		/* The program writes, and the device sees it. */
		pattern_fill(b.at + at, i + 100, 0, n);
		SAME(device_read(d, mr, address(iova), n), IBV_WC_SUCCESS);
		pattern_check(d->bytes, i + 100, 0, n, "read");
		/* As the local side of a write to itself. */
		here = locally(d, mr, iova);
		SAME(device_write(&here, mr, address(iova + n / 2), n / 2), IBV_WC_SUCCESS);
		pattern_check(b.at + at + n / 2, i + 100, 0, n / 2, "copied");
		d->qp = here.qp;
		if (iova % 8 == 0) {
			memcpy(&before, b.at + at, 8);
			SAME(device_add(d, mr, address(iova), 5), IBV_WC_SUCCESS);
			MUST(!memcmp(d->bytes, &before, 8));
			before += 5;
			MUST(!memcmp(b.at + at, &before, 8));
		}
		/* The bytes beside it do not belong to it. */
		SAME(device_write(d, mr, address(iova + n), 1), IBV_WC_REM_ACCESS_ERR);
		SAME(device_read(d, mr, address(iova - 1), 2), IBV_WC_REM_ACCESS_ERR);
		DO(ibv_dereg_mr(mr));
	}
	buffer_free(&b);
}

/* Two regions of one dma-buf, which remain when the program has closed and unmapped it. */
static void alone(struct device *d) {
	struct ibv_mr *one, *two;
	struct buffer b;
	strcpy(doing, "without the descriptor");
	buffer_make(&b, SIZE);
	pattern_fill(b.at, 1, 0, SIZE);
	MUST((one = ibv_reg_dmabuf_mr(d->pd, 0, SIZE, 0, b.fd, all_access)));
	MUST((two = ibv_reg_dmabuf_mr(d->pd, PAGE, SIZE - PAGE, 0, b.fd, all_access)));
	buffer_free(&b);
	SAME(device_read(d, two, address(0), SIZE - PAGE), IBV_WC_SUCCESS);
	pattern_check(d->bytes, 1, PAGE, SIZE - PAGE, "read through the second region");
	pattern_fill(d->bytes, 2, 0, SIZE);
	SAME(device_write(d, one, address(0), SIZE), IBV_WC_SUCCESS);
	DO(ibv_dereg_mr(one));
	memset(d->bytes, 0, SIZE);
	SAME(device_read(d, two, address(0), SIZE - PAGE), IBV_WC_SUCCESS);
	pattern_check(d->bytes, 2, PAGE, SIZE - PAGE, "written through the first region");
	DO(ibv_dereg_mr(two));
}

static void talk(int socket, char *c, int *fd) {
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec one = {c, 1};
	struct msghdr m = {NULL, 0, &one, 1, control.room, sizeof control.room, 0};
	struct cmsghdr *h = (struct cmsghdr *)control.room;
	memset(&control, 0, sizeof control);
	if (*fd < 0) {
		MUST(recvmsg(socket, &m, MSG_CMSG_CLOEXEC) == 1 && m.msg_controllen);
		memcpy(fd, CMSG_DATA(h), sizeof *fd);
		return;
	}
	h->cmsg_len = CMSG_LEN(sizeof *fd);
	h->cmsg_level = SOL_SOCKET;
	h->cmsg_type = SCM_RIGHTS;
	memcpy(CMSG_DATA(h), fd, sizeof *fd);
	MUST(sendmsg(socket, &m, 0) == 1);
}

/* Another process, which uses no verbs, makes the memory and sends its descriptor. */
static void of_another(struct device *d) {
	int pair[2], fd = -1, status;
	struct ibv_mr *mr;
	pid_t child;
	char c = 0;
	strcpy(doing, "of another process");
	MUST(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) == 0);
	child = fork();
	MUST(child >= 0);
	if (child == 0) {
		struct buffer b;
		strcpy(doing, "the other process");
		buffer_make(&b, SIZE);
		pattern_fill(b.at, 7, 0, SIZE);
		talk(pair[1], &c, &b.fd);
		MUST(read(pair[1], &c, 1) == 1);
		pattern_check(b.at, 8, 0, SIZE, "written by the device");
		_exit(0);
	}
	talk(pair[0], &c, &fd);
	MUST((mr = ibv_reg_dmabuf_mr(d->pd, 0, SIZE, 0, fd, all_access)));
	SAME(device_read(d, mr, address(0), SIZE), IBV_WC_SUCCESS);
	pattern_check(d->bytes, 7, 0, SIZE, "written by the other process");
	pattern_fill(d->bytes, 8, 0, SIZE);
	SAME(device_write(d, mr, address(0), SIZE), IBV_WC_SUCCESS);
	MUST(write(pair[0], &c, 1) == 1);
	MUST(waitpid(child, &status, 0) == child);
	SAME(status, 0);
	DO(ibv_dereg_mr(mr));
	close(fd);
	close(pair[0]);
	close(pair[1]);
}

static void mistakes(struct device *d) {
	int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct ibv_mr *mr;
	struct buffer b;
	strcpy(doing, "mistakes");
	buffer_make(&b, SIZE);
#define REFUSED(error, offset, length, iova, fd, access) \
	MUST(!ibv_reg_dmabuf_mr(d->pd, offset, length, iova, fd, access) && errno == (error))
	REFUSED(EOPNOTSUPP, 0, 0, 0, -1, 0); /* how libraries ask for memory of a GPU */
	REFUSED(EBADF, 0, PAGE, 0, 12345, all_access);
	REFUSED(EINVAL, 0, PAGE, 0, file, all_access);
	REFUSED(EINVAL, 0, PAGE, 0, d->context->cmd_fd, all_access);
	REFUSED(EINVAL, 0, PAGE, 4, b.fd, all_access);
	REFUSED(EINVAL, 0, 0, 0, b.fd, all_access);
	REFUSED(EINVAL, PAGE, SIZE, 0, b.fd, all_access);
	REFUSED(EINVAL, UINT64_MAX - 100, 200, UINT64_MAX - 100, b.fd, all_access);
	REFUSED(EINVAL, 0, SIZE, 0, b.fd, IBV_ACCESS_ON_DEMAND);
	REFUSED(EINVAL, 0, SIZE, 0, b.fd, IBV_ACCESS_REMOTE_WRITE);
	/* The memory cannot be cut off, but its pages can go. */
	MUST((mr = ibv_reg_dmabuf_mr(d->pd, 0, SIZE, 0, b.fd, all_access)));
	MUST(ftruncate(b.fd, 0) != 0);
	if (!strcmp(buffer_kind(), "memfd")) {
		memset(b.at, 1, SIZE);
		MUST(fallocate(b.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, SIZE) == 0);
		memset(d->bytes, 1, SIZE);
		SAME(device_read(d, mr, address(0), SIZE), IBV_WC_SUCCESS);
		MUST(!d->bytes[0] && !memcmp(d->bytes, d->bytes + 1, SIZE - 1));
	}
	DO(ibv_dereg_mr(mr));
	MUST((mr = ibv_reg_dmabuf_mr(d->pd, 0, SIZE, 0, b.fd, all_access))); /* goes with the context */
	buffer_free(&b);
	close(file);
}

int main(void) {
	struct device d;
	device_open(&d, SIZE);
	transfers(&d);
	alone(&d);
	of_another(&d);
	device_close(&d);
	device_open(&d, SIZE);
	mistakes(&d);
	printf("dmabuf: %s: transfers, processes, mistakes: ok\n", buffer_kind());
	return 0;
}
