/* Steps without librdmacm: commands that this program writes itself, and copies of a channel's
 * descriptor. The header of the commands cannot be included together with that of librdmacm. */
#include "check.h"
#include "cm.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rdma/rdma_user_cm.h>

static int open_cm(void) {
	struct stat st;
	int fd = open("/dev/infiniband/rdma_cm", O_RDWR | O_CLOEXEC);
	MUST(fd >= 0);
	DO(fstat(fd, &st));
	MUST(S_ISCHR(st.st_mode));
	return fd;
}

/* Writes a command that makes an id. Returns what write returns. */
static ssize_t raw_create(int fd, uint32_t *id) {
	struct {
		struct rdma_ucm_cmd_hdr hdr;
		struct rdma_ucm_create_id cmd;
	} c;
	struct rdma_ucm_create_id_resp r;
	ssize_t n;
	memset(&c, 0, sizeof c);
	c.hdr.cmd = RDMA_USER_CM_CMD_CREATE_ID;
	c.hdr.in = sizeof c.cmd;
	c.hdr.out = sizeof r;
	c.cmd.ps = RDMA_PS_TCP;
	c.cmd.response = (uintptr_t)&r;
	n = write(fd, &c, sizeof c);
	*id = r.id;
	return n;
}

static void pass(int over, int fd) {
	char byte = 0;
	struct iovec iov = {&byte, 1};
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(sizeof(int))];
	} control;
	struct msghdr m = {0};
	m.msg_iov = &iov;
	m.msg_iovlen = 1;
	m.msg_control = control.room;
	m.msg_controllen = sizeof control.room;
	control.align.cmsg_level = SOL_SOCKET;
	control.align.cmsg_type = SCM_RIGHTS;
	control.align.cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(&control.align), &fd, sizeof fd);
	MUST(sendmsg(over, &m, 0) == 1);
}

static int passed(int over) {
	char byte;
	int fd;
	struct iovec iov = {&byte, 1};
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(sizeof(int))];
	} control;
	struct msghdr m = {0};
	m.msg_iov = &iov;
	m.msg_iovlen = 1;
	m.msg_control = control.room;
	m.msg_controllen = sizeof control.room;
	MUST(recvmsg(over, &m, 0) == 1);
	memcpy(&fd, CMSG_DATA(&control.align), sizeof fd);
	return fd;
}

/* The descriptor works in copies, in a child of a fork, and in a process that it was sent to. */
void raw_copies(void) {
	int first = open_cm(), fd = dup(first), pair[2], status, last;
	uint32_t id, mine;
	pid_t child;
	MUST(raw_create(fd, &mine) > 0);
	DO(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair));
	child = fork();
	MUST(child >= 0);
	if (child == 0) {
		MUST(raw_create(fd, &id) > 0 && id != mine);
		last = passed(pair[1]);
		MUST(raw_create(last, &id) > 0);
		_exit(0);
	}
	last = open_cm();
	pass(pair[0], last);
	MUST(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
	MUST(raw_create(fd, &id) > 0);
	close(last);
	close(fd);
	close(pair[0]);
	close(pair[1]);
	close(first);
}

/* Writes that no library makes are refused, and writing to other descriptors is as it was. */
void raw_garbage(unsigned seed) {
	static void *volatile const nowhere_is = (void *)16;
	const void *nowhere = nowhere_is;
	uint8_t bytes[600];
	uint32_t number, words[4] = {RDMA_USER_CM_CMD_LISTEN, 8, 0, 0};
	uint16_t in;
	int i, fd = open_cm(), null = open("/dev/null", O_RDONLY);
	DO(fcntl(fd, F_SETFL, O_NONBLOCK));
	SAME(write(fd, words, 4), -1);
	SAME(errno, EINVAL);
	SAME(write(fd, words, 0), -1);
	SAME(errno, EINVAL);
	words[2] = 12345;
	SAME(write(fd, words, sizeof words), -1);
	SAME(errno, ENOENT);
	SAME(write(fd, nowhere, 24), -1);
	SAME(errno, EFAULT);
	SAME(write(null, words, sizeof words), -1);
	SAME(errno, EBADF);
	SAME(write(-1, words, sizeof words), -1);
	SAME(errno, EBADF);
	srand(seed);
	for (i = 0; i < 3000; i++) {
		size_t k;
		for (k = 0; k < sizeof bytes; k++)
			bytes[k] = rand() % 4 ? 0 : (uint8_t)rand();
		number = (uint32_t)rand() % 25;
		in = (uint16_t)(rand() % 300);
		memcpy(bytes, &number, 4);
		memcpy(bytes + 4, &in, 2);
		memset(bytes + 8, 0, 8); /* a response has nowhere to go */
		if (write(fd, bytes, (size_t)rand() % sizeof bytes) < 0)
			MUST(errno != EIO && errno != EPROTO);
	}
	close(null);
	close(fd);
}
