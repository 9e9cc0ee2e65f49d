/* trust MODE: what a program cannot do to the engine, and what others cannot do to a program.
 *
 *   punch    tries to punch holes into all memory that it shares with the engine
 *   exec     registers memory and executes another program, which has other memory at the
 *            same address; a peer writes and reads at this address with the old key
 *   many     makes as many queue pairs, and then CQs, as the device promises
 *   mistake  writes with a wrong key, and ends at once */
#include "check.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "nicless/alloc.h"

enum { SIZE = 1 << 16, QPS = 2 };

struct end {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp[QPS];
	struct ibv_mr *mr;
	uint8_t *at;
};

/* The message that the ends send to each other. */
struct card {
	uint32_t qpn[QPS], rkey;
	uint64_t addr;
	union ibv_gid gid;
};

static void make(struct end *e, uint8_t *at) {
	struct ibv_qp_init_attr init = {NULL, NULL, NULL, NULL, {8, 8, 1, 1, 0}, IBV_QPT_RC, 0};
	struct ibv_qp_attr a = {0};
	int i;
	e->context = open_device(NULL);
	MUST((e->pd = ibv_alloc_pd(e->context)));
	MUST((e->cq = ibv_create_cq(e->context, 16, NULL, NULL, 0)));
	init.send_cq = init.recv_cq = e->cq;
	e->at = at;
	MUST((e->mr = ibv_reg_mr(e->pd, at, SIZE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
	                         IBV_ACCESS_REMOTE_READ)));
	a.qp_state = IBV_QPS_INIT;
	a.port_num = 1;
	a.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
	for (i = 0; i < QPS; i++) {
		MUST((e->qp[i] = ibv_create_qp(e->pd, &init)));
		DO(ibv_modify_qp(e->qp[i], &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	}
}

static struct card show(struct end *e) {
	struct card c;
	int i;
	memset(&c, 0, sizeof c);
	for (i = 0; i < QPS; i++)
		c.qpn[i] = e->qp[i]->qp_num;
	c.rkey = e->mr->rkey;
	c.addr = (uintptr_t)e->at;
	DO(ibv_query_gid(e->context, 1, 0, &c.gid));
	return c;
}

static void join(struct end *e, const struct card *peer) {
	int i;
	for (i = 0; i < QPS; i++) {
		struct ibv_qp_attr a = {0};
		a.qp_state = IBV_QPS_RTR;
		a.path_mtu = IBV_MTU_1024;
		a.dest_qp_num = peer->qpn[i];
		a.max_dest_rd_atomic = 1;
		a.min_rnr_timer = 12;
		a.ah_attr.is_global = 1;
		a.ah_attr.port_num = 1;
		a.ah_attr.grh.dgid = peer->gid;
		DO(ibv_modify_qp(e->qp[i], &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
		                 IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
		memset(&a, 0, sizeof a);
		a.qp_state = IBV_QPS_RTS;
		a.timeout = 14;
		a.retry_cnt = a.rnr_retry = 7;
		a.max_rd_atomic = 1;
		DO(ibv_modify_qp(e->qp[i], &a, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
		                                   IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC));
	}
}

/* One operation on the peer's memory; returns how it ended. */
static enum ibv_wc_status move(struct end *e, int qp, enum ibv_wr_opcode what, const struct card *peer) {
	struct ibv_sge sge = {(uintptr_t)e->at, SIZE, e->mr->lkey};
	struct ibv_send_wr wr, *bad;
	struct ibv_wc wc;
	memset(&wr, 0, sizeof wr);
	wr.sg_list = &sge;
	wr.num_sge = 1;
	wr.opcode = what;
	wr.send_flags = IBV_SEND_SIGNALED;
	wr.wr.rdma.remote_addr = peer->addr;
	wr.wr.rdma.rkey = peer->rkey;
	DO(ibv_post_send(e->qp[qp], &wr, &bad));
	wait_completion(e->cq, &wc);
	return wc.status;
}

static void *plain(void) {
	void *at;
	DO(posix_memalign(&at, 4096, SIZE));
	return at;
}

/* Tries to punch holes into the shared memory: while a hole is punched into memory, every
 * thread that uses the memory waits in the kernel. */
static void punch(void) {
	char line[512];
	struct end e, born;
	struct card c;
	FILE *maps;
	int tried = 0, registers = 0, rings = 0, remapped = 0, born_shared = 0;
	make(&e, plain());
	make(&born, nicless_buffer(SIZE));
	c = show(&e);
	join(&e, &c);
	SAME(move(&e, 0, IBV_WR_RDMA_WRITE, &c), IBV_WC_SUCCESS);
	MUST((maps = fopen("/proc/self/maps", "r")));
	while (fgets(line, sizeof line, maps)) {
		unsigned long from, to;
		char rights[8];
		if (!strstr(line, "memfd:nicless:") || sscanf(line, "%lx-%lx %7s", &from, &to, rights) != 3 ||
		    rights[1] != 'w')
			continue;
		registers += strstr(line, ":uar") != NULL;
		rings += strstr(line, ":verbs-ring") != NULL;
		remapped += strstr(line, ":verbs-remap") != NULL;
		born_shared += strstr(line, ":verbs-alloc") != NULL;
		errno = 0;
		if (madvise((void *)from, to - from, MADV_REMOVE) == 0 || errno != EPERM)
			FAIL("a hole was punched (%s) into %s", strerror(errno), line);
		tried++;
	}
	fclose(maps);
	if (!registers || !rings || !remapped || !born_shared)
		FAIL("shared: %d of registers, %d rings, %d remapped, %d from the start", registers, rings, remapped,
		     born_shared);
	SAME(move(&e, 0, IBV_WR_RDMA_READ, &c), IBV_WC_SUCCESS);
	MUST(tried > 0);
	puts("trust: punch: ok");
}

static void tell(int fd, const void *what, size_t n) { MUST(write(fd, what, n) == (ssize_t)n); }
static void hear(int fd, void *what, size_t n) { MUST(read(fd, what, n) == (ssize_t)n); }

/* The peer of mode exec: it uses the key while the key is valid, and again after the program
 * has executed another one. */
static int peer(int fd) {
	const char *set = getenv("NICLESS_VERBS_SLOW");
	int slow = set && strcmp(set, "1") == 0;
	struct end e;
	struct card mine, theirs;
	char ready;
	strcpy(doing, "the peer");
	make(&e, plain());
	mine = show(&e);
	hear(fd, &theirs, sizeof theirs);
	tell(fd, &mine, sizeof mine);
	join(&e, &theirs);
	hear(fd, &ready, 1);
	pattern_fill(e.at, 1, 0, SIZE);
	SAME(move(&e, 0, IBV_WR_RDMA_WRITE, &theirs), IBV_WC_SUCCESS);
	tell(fd, "w", 1);
	hear(fd, &ready, 1);
	SAME(ready, 'n'); /* the new program runs */
	/* Memory that the device has mapped is the key's until the key ends, as pinned pages are. */
	SAME(move(&e, 0, IBV_WR_RDMA_WRITE, &theirs), slow ? IBV_WC_REM_ACCESS_ERR : IBV_WC_SUCCESS);
	SAME(move(&e, 1, IBV_WR_RDMA_READ, &theirs), slow ? IBV_WC_REM_ACCESS_ERR : IBV_WC_SUCCESS);
	pattern_check(e.at, 1, 0, SIZE, "what is read from a program that is gone");
	tell(fd, "d", 1);
	return 0;
}

static void executes(char *self) {
	char fd[16], addr[32], child[16], ready;
	struct card mine, theirs;
	struct end e;
	int pair[2];
	pid_t pid;
	MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
	pid = fork();
	MUST(pid >= 0);
	if (pid == 0)
		_exit(peer(pair[1]));
	close(pair[1]);
	make(&e, plain());
	mine = show(&e);
	tell(pair[0], &mine, sizeof mine);
	hear(pair[0], &theirs, sizeof theirs);
	join(&e, &theirs);
	tell(pair[0], "g", 1);
	hear(pair[0], &ready, 1);
	pattern_check(e.at, 1, 0, SIZE, "what was written");
	DO(fcntl(e.context->cmd_fd, F_SETFD, 0)); /* so that the context and the key stay alive */
	snprintf(fd, sizeof fd, "%d", pair[0]);
	snprintf(addr, sizeof addr, "%p", (void *)e.at);
	snprintf(child, sizeof child, "%d", (int)pid);
	execl(self, self, "landed", fd, addr, child, (char *)NULL);
	FAIL("%s: %s", self, strerror(errno));
}

/* The new program of mode exec: it maps other memory at the same address. */
static void landed(int fd, const char *addr, pid_t child) {
	void *at;
	char ready;
	int status;
	MUST(sscanf(addr, "%p", &at) == 1);
	MUST(mmap(at, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == at);
	pattern_fill(at, 2, 0, SIZE);
	tell(fd, "n", 1);
	MUST(read(fd, &ready, 1) == 1 || waitpid(child, &status, 0) == child);
	pattern_check(at, 2, 0, SIZE, "the new program's own memory");
	MUST(waitpid(child, &status, 0) == child);
	SAME(status, 0);
	puts("trust: exec: ok");
}

static void many(void) {
	struct ibv_qp_init_attr init = {NULL, NULL, NULL, NULL, {8, 8, 1, 1, 0}, IBV_QPT_RC, 0};
	struct ibv_context *context = open_device(NULL);
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_cq *cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	struct ibv_device_attr a;
	struct ibv_qp **all;
	int i;
	MUST(pd && cq);
	DO(ibv_query_device(context, &a));
	MUST(a.max_qp >= 1024 && a.max_cq >= 1024);
	MUST((all = calloc((size_t)a.max_qp, sizeof *all)));
	init.send_cq = init.recv_cq = cq;
	for (i = 0; i < a.max_qp; i++) {
		snprintf(doing, sizeof doing, "queue pair %d of %d", i, a.max_qp);
		MUST((all[i] = ibv_create_qp(pd, &init)));
	}
	for (i = 0; i < a.max_qp; i++)
		DO(ibv_destroy_qp(all[i]));
	for (i = 1; i < a.max_cq; i++) {
		snprintf(doing, sizeof doing, "CQ %d of %d", i, a.max_cq);
		MUST(ibv_create_cq(context, 16, NULL, NULL, 0));
	}
	puts("trust: many: ok");
}

static void mistake(void) {
	struct end e;
	struct card c;
	make(&e, plain());
	c = show(&e);
	join(&e, &c);
	c.rkey ^= 0x100;
	SAME(move(&e, 0, IBV_WR_RDMA_WRITE, &c), IBV_WC_REM_ACCESS_ERR);
	_exit(0);
}

int main(int argc, char **argv) {
	const char *mode = argc > 1 ? argv[1] : "";
	snprintf(doing, sizeof doing, "%s", mode);
	if (!strcmp(mode, "punch")) {
		punch();
	} else if (!strcmp(mode, "exec")) {
		executes(argv[0]);
	} else if (!strcmp(mode, "many")) {
		many();
	} else if (!strcmp(mode, "mistake")) {
		mistake();
	} else if (!strcmp(mode, "landed") && argc == 5) {
		landed(atoi(argv[2]), argv[3], (pid_t)atoi(argv[4]));
	} else {
		fprintf(stderr, "usage: trust punch|exec|many|mistake\n");
		return 2;
	}
	return 0;
}
