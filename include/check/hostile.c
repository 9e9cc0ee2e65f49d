/*
 * A client of a malicious or slow server. The answers of the server must cause errors
 * and nothing else. The program prints one line and exits 0, or prints what is wrong
 * and exits 1.
 */
#include "../nicless/nicless_verbs.h"

#include <pthread.h>
#include <signal.h>

#define MUST(is) ((is) ? (void)0 : wrong(#is, __LINE__))

static struct nicless_client c;
static int server; /* the server's end of the connection */
static union {
	uint8_t bytes[8192];
	uint64_t align[16];
} memory;

static void wrong(const char *what, int line) {
	fprintf(stderr, "hostile: line %d: not true: %s (%s)\n", line, what, c.error);
	exit(1);
}

/* Connects c to a server without sending hello. */
static void begin(void) {
	int ends[2];
	MUST(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
	memset(&c, 0, sizeof c);
	c.fd = ends[0];
	server = ends[1];
}

static void end(void) {
	nicless_close(&c);
	close(server);
}

/* Sends an answer with n descriptors. The client has not made the request yet. */
static void answer(uint16_t op, uint64_t tag, const void *payload, size_t size, const int *fds, size_t n) {
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(2 * sizeof(int))];
	} control;
	struct nicless_header h;
	struct iovec iov[2];
	struct msghdr m;
	h.op = op;
	h.flags = NICLESS_FLAG_ANSWER;
	h.size = (uint32_t)size;
	h.tag = tag;
	iov[0].iov_base = &h;
	iov[0].iov_len = sizeof h;
	iov[1].iov_base = (void *)(uintptr_t)payload;
	iov[1].iov_len = size;
	memset(&m, 0, sizeof m);
	memset(&control, 0, sizeof control);
	m.msg_iov = iov;
	m.msg_iovlen = 2;
	if (n) {
		m.msg_control = control.room;
		m.msg_controllen = CMSG_SPACE(n * sizeof(int));
		CMSG_FIRSTHDR(&m)->cmsg_level = SOL_SOCKET;
		CMSG_FIRSTHDR(&m)->cmsg_type = SCM_RIGHTS;
		CMSG_FIRSTHDR(&m)->cmsg_len = CMSG_LEN(n * sizeof(int));
		memcpy(CMSG_DATA(CMSG_FIRSTHDR(&m)), fds, n * sizeof(int));
	}
	MUST(sendmsg(server, &m, MSG_NOSIGNAL) == (ssize_t)(sizeof h + size));
}

static int descriptors(void) {
	int fd, n = 0;
	for (fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static int file(off_t size) {
	int fd = memfd_create("hostile", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	MUST(fd >= 0 && ftruncate(fd, size) == 0);
	return fd;
}

/* The server's limits are beyond those of the headers, and its QPN is one that no queue pair can have. */
static void limits(void) {
	struct nicless_region r;
	struct nicless_qp_config f;
	struct nicless_cq cq;
	struct nicless_qp q;
	uint32_t n;
	begin();
	memset(&r, 0, sizeof r);
	r.mem = memory.bytes;
	r.size = SIZE_MAX; /* so that there is always room */
	c.device.max_log_sq = c.device.max_log_rq = c.device.max_log_cq = 255;
	c.device.uar_pages = 1;
	memset(&cq, 0xee, sizeof cq);
	MUST(nicless_cq_open(&c, &r, 23, 0, 0, &cq, &n) == -EINVAL);
	MUST(strcmp(c.error, "CQ of 2^23 entries; 2^22 are possible") == 0);
	MUST(nicless_cq_open(&c, &r, 0xffffffff, 0, 0, &cq, &n) == -EINVAL);
	memset(&f, 0, sizeof f);
	f.log_sq = 16;
	MUST(nicless_qp_open(&c, &r, &f, &q) == -EINVAL);
	MUST(!strcmp(c.error,
	             "QP of 2^16 blocks and 2^0 receives of 2^0 pieces; 2^15, 2^15 and 2^5 are possible"));
	f.log_sq = 1;
	f.log_rq = 16;
	MUST(nicless_qp_open(&c, &r, &f, &q) == -EINVAL);
	f.log_rq = f.log_sq = f.log_rq_sge = 255;
	MUST(nicless_qp_open(&c, &r, &f, &q) == -EINVAL);
	MUST(r.used == 0 && c.registers == 0 && c.tag == 0);

	r.size = sizeof memory.bytes;
	f.log_rq = f.log_sq = f.log_rq_sge = 1;
	n = 1 << 24;
	answer(NICLESS_OP_CREATE_QP, 1, &n, sizeof n, 0, 0);
	answer(NICLESS_OP_DESTROY_QP, 2, 0, 0, 0, 0);
	MUST(nicless_qp_open(&c, &r, &f, &q) == -EINVAL);
	MUST(strstr(c.error, "QP 0x1000000 ") != 0);
	MUST(c.tag == 2 && r.used == 0 && !q.memory);
	end();
}

/* A channel has one descriptor. If two come, both are closed. */
static void channels(void) {
	int fds[2], before, events;
	uint32_t n = 7, id;
	begin();
	fds[0] = fds[1] = server;
	before = descriptors();
	answer(NICLESS_OP_CREATE_CHANNEL, 1, &n, sizeof n, fds, 2);
	MUST(nicless_channel_open(&c, &id, &events) == -EPROTO && events == -1);
	MUST(strcmp(c.error, "the engine's channel 7 came with 2 descriptors, 1 is needed") == 0);
	answer(NICLESS_OP_CREATE_CHANNEL, 2, &n, sizeof n, 0, 0);
	MUST(nicless_channel_open(&c, &id, &events) == -EPROTO && events == -1);
	MUST(descriptors() == before);
	answer(NICLESS_OP_CREATE_CHANNEL, 3, &n, sizeof n, fds, 1);
	MUST(nicless_channel_open(&c, &id, &events) == 0 && events >= 0 && id == 7);
	MUST(descriptors() == before + 1);
	close(events);
	end();
}

/* The memory that comes with the welcome is mapped only if it is long enough. */
static void greeting(off_t uar, off_t status, const char *want) {
	struct nicless_welcome w;
	int fds[2], before = descriptors(), error;
	begin();
	memset(&w, 0, sizeof w);
	w.major = NICLESS_MAJOR;
	w.uar_pages = 2;
	fds[0] = file(uar);
	fds[1] = file(status);
	answer(NICLESS_OP_HELLO, 1, &w, sizeof w, fds, 2);
	close(fds[0]);
	close(fds[1]);
	error = nicless_greet(&c, "hostile");
	MUST(error == (want ? -EPROTO : 0));
	MUST(want ? strcmp(c.error, want) == 0 : c.uar[8191] + *c.status == 0);
	end();
	MUST(descriptors() == before);
}

static void *take_and_greet(void *listener) {
	struct nicless_welcome w;
	int fds[2];
	memset(&w, 0, sizeof w);
	w.major = NICLESS_MAJOR;
	w.uar_pages = 1;
	fds[0] = fds[1] = file(NICLESS_UAR_PAGE);
	server = accept(*(int *)listener, 0, 0);
	MUST(server >= 0);
	answer(NICLESS_OP_HELLO, 1, &w, sizeof w, fds, 2);
	close(fds[0]);
	return 0;
}

static void patience(int which, time_t seconds, long microseconds) {
	struct timeval t;
	t.tv_sec = seconds;
	t.tv_usec = microseconds;
	MUST(setsockopt(c.fd, SOL_SOCKET, which, &t, sizeof t) == 0);
}

/* Waits, receives all requests, and answers the last one. */
static void *drain(void *arg) {
	uint8_t in[NICLESS_MAX_MESSAGE];
	struct nicless_header h;
	uint32_t pdn = 5;
	(void)arg;
	usleep(50000);
	do {
		MUST(recv(server, in, sizeof in, 0) >= NICLESS_HEADER);
		memcpy(&h, in, sizeof h);
	} while (h.op != NICLESS_OP_ALLOC_PD);
	usleep(50000);
	answer(h.op, h.tag, &pdn, sizeof pdn, 0, 0);
	return 0;
}

static volatile sig_atomic_t signals;
static void count(int signal) {
	(void)signal;
	signals++;
}

/* Requests to a server that receives none time out. Signals do not end the wait. */
static void slow(void) {
	const char *tmp = getenv("TMPDIR");
	char path[80]; /* path and a file name must fit into a socket address */
	struct sockaddr_un at;
	struct sigaction act;
	struct itimerval often;
	struct timeval t;
	socklen_t n;
	pthread_t thread;
	sigset_t alarms;
	uint32_t pdn = 0;
	int listener, error, which, fds[2];
	size_t got;
	n = (socklen_t)snprintf(path, sizeof path, "%s/nicless-hostile-XXXXXX", tmp ? tmp : "/tmp");
	MUST(n < sizeof path && mkdtemp(path) != 0);
	memset(&at, 0, sizeof at);
	at.sun_family = AF_UNIX;
	snprintf(at.sun_path, sizeof at.sun_path, "%s/s", path);
	listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	MUST(bind(listener, (struct sockaddr *)&at, sizeof at) == 0 && listen(listener, 1) == 0);
	MUST(pthread_create(&thread, 0, take_and_greet, &listener) == 0);
	MUST(nicless_connect(&c, at.sun_path, "hostile") == 0);
	pthread_join(thread, 0);
	unlink(at.sun_path);
	rmdir(path);
	close(listener);
	for (which = 0; which < 2; which++) {
		n = sizeof t;
		MUST(getsockopt(c.fd, SOL_SOCKET, which ? SO_SNDTIMEO : SO_RCVTIMEO, &t, &n) == 0);
		MUST(t.tv_sec == NICLESS_PATIENCE && t.tv_usec == 0);
	}
	patience(SO_SNDTIMEO, 0, 20000);
	do
		error = nicless_send(&c, NICLESS_OP_DEALLOC_PD, &pdn, sizeof pdn);
	while (error == 0);
	MUST(error == -ETIMEDOUT);
	MUST(strcmp(c.error, "the engine has not taken a request in 10 seconds") == 0);
	patience(SO_RCVTIMEO, 0, 20000);
	MUST(nicless_receive(&c, memory.bytes, &got, fds) == -ETIMEDOUT);

	/* Now the socket is full, and this thread gets signals all the time. */
	patience(SO_SNDTIMEO, 10, 0);
	patience(SO_RCVTIMEO, 10, 0);
	sigemptyset(&alarms);
	sigaddset(&alarms, SIGALRM);
	pthread_sigmask(SIG_BLOCK, &alarms, 0);
	MUST(pthread_create(&thread, 0, drain, 0) == 0);
	pthread_sigmask(SIG_UNBLOCK, &alarms, 0);
	memset(&act, 0, sizeof act);
	act.sa_handler = count; /* without SA_RESTART */
	MUST(sigaction(SIGALRM, &act, 0) == 0);
	memset(&often, 0, sizeof often);
	often.it_value.tv_usec = often.it_interval.tv_usec = 500;
	MUST(setitimer(ITIMER_REAL, &often, 0) == 0);
	MUST(nicless_alloc_pd(&c, &pdn) == 0 && pdn == 5);
	memset(&often, 0, sizeof often);
	MUST(setitimer(ITIMER_REAL, &often, 0) == 0);
	pthread_join(thread, 0);
	MUST(signals > 0);
	end();
}

int main(void) {
	limits();
	channels();
	greeting(8192, 4096, 0);
	greeting(8191, 4096, "the engine's descriptor of UAR pages is shorter than 8192 bytes");
	greeting(8192, 4095, "the engine's descriptor of the status page is shorter than 4096 bytes");
	greeting(8192, 0, "the engine's descriptor of the status page is shorter than 4096 bytes");
	slow();
	printf("hostile: ok\n");
	return 0;
}
