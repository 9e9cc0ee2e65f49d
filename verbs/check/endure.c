/* endure: one end of a connection in which every byte and every message is checked for as long as
 * the connection lives, so that a test can cut the link or kill what carries it meanwhile.
 *
 *   endure serve PORT GID TIMEOUT STOP             the end that checks
 *   endure connect ADDRESS PORT GID TIMEOUT STOP   the end that posts
 *
 * GID is an index of the port's table, TIMEOUT the code of the queue pair's timeout. In round n
 * the client writes pattern n into a slot of the server's memory, sends the number n, adds 1 to a
 * counter there, which must have been n, and reads the slot back. The server takes message n
 * exactly after message n-1, finds pattern n in the slot, and sends the number back, which the
 * client takes in order too. When the file STOP exists, the client ends, and both ends agree on
 * how often each thing has happened.
 *
 * Each end prints "endure: at N" now and then, and at last "endure: N rounds: ok" (exit status 0),
 * or "endure: status S after N rounds" when a request has failed: exit status 6 if the other end gave no
 * answer in all tries, and 4 otherwise. Wrong bytes, and what is lost or repeated, end the program with
 * status 3 and a message that says which it is. Status 1 is for everything that is not about the connection.
 * The statuses are those of "nicless torture". There are no deadlines here: a test that waits for the
 * programs has to measure the processor time that they had. */
#include "check.h"
#include "talk.h"

#include <sched.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { SLOTS = 4, SIZE = 20011, RECEIVES = 4 * SLOTS };
enum { CORRUPT = 3, FAILED = 4, NO_ANSWER = 6 }; /* exit statuses */
enum { WRITE, SEND, ADD, READ, RECEIVE, KNOCK, STEPS };

/* The server's memory that the client reaches, and buffers of each end. */
struct memory {
	uint64_t counter;
	uint8_t slot[SLOTS][SIZE];
	uint8_t back[SLOTS][SIZE];    /* what was read back */
	uint64_t old[SLOTS];          /* what the counter was */
	uint64_t in[RECEIVES], out[RECEIVES]; /* numbers of rounds */
};

struct hello {
	union ibv_gid gid;
	uint64_t addr;
	uint32_t qpn, rkey;
};

static struct memory *m;
static struct ibv_mr *mr;
static struct ibv_cq *cq;
static struct ibv_qp *qp;
static struct hello mine, theirs;
static uint64_t rounds; /* client: completed; server: received */

static double now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void corrupt(const char *kind, const char *what, unsigned long long got, unsigned long long want) {
	fprintf(stderr, "endure: %s: %s: %s is %#llx, not %#llx\n", kind, doing, what, got, want);
	_exit(CORRUPT);
}

static void bytes(const uint8_t *at, const char *what) {
	size_t i = pattern_differs(at, rounds, 0, SIZE);
	char where[64];
	if (i == SIZE)
		return;
	snprintf(where, sizeof where, "byte %zu of %d that was %s", i, (int)SIZE, what);
	corrupt("wrong bytes", where, at[i], pattern_byte(rounds, i));
}

static void length(uint32_t got) {
	if (got != 8)
		corrupt("wrong bytes", "the length of a message", got, 8);
}

/* Checks the number of the next one. If it is greater, those before it were lost. */
static void next_is(const char *what, uint64_t got, uint64_t want) {
	if (got != want)
		corrupt(got > want ? "lost" : "repeated", what, got, want);
}

/* Checks how often something was done. */
static void times(const char *what, uint64_t got, uint64_t want) {
	if (got != want)
		corrupt(got < want ? "lost" : "repeated", what, got, want);
}

static void receive(uint64_t n) {
	struct ibv_sge sge = {(uintptr_t)&m->in[n % RECEIVES], sizeof *m->in, mr->lkey};
	struct ibv_recv_wr wr = {n * STEPS + RECEIVE, NULL, &sge, 1}, *bad;
	DO(ibv_post_recv(qp, &wr, &bad));
}

static void post(uint64_t n, int step, enum ibv_wr_opcode opcode, void *at, uint32_t length,
                 const void *remote) {
	struct ibv_sge sge = {(uintptr_t)at, length, mr->lkey};
	struct ibv_send_wr wr, *bad;
	memset(&wr, 0, sizeof wr);
	wr.wr_id = n * STEPS + (uint64_t)step;
	wr.sg_list = &sge;
	wr.num_sge = 1;
	wr.opcode = opcode;
	wr.send_flags = IBV_SEND_SIGNALED;
	wr.wr.rdma.remote_addr = theirs.addr + (uint64_t)((const char *)remote - (const char *)m);
	wr.wr.rdma.rkey = theirs.rkey;
	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = theirs.addr + (uint64_t)((const char *)remote - (const char *)m);
		wr.wr.atomic.rkey = theirs.rkey;
		wr.wr.atomic.compare_add = 1;
	}
	DO(ibv_post_send(qp, &wr, &bad));
}

static void send_number(uint64_t n) {
	m->out[n % RECEIVES] = n;
	post(n, SEND, IBV_WR_SEND, &m->out[n % RECEIVES], sizeof *m->out, m);
}

static void open_end(int talk, int index, int timeout) {
	struct ibv_context *c = open_device(NULL);
	struct ibv_pd *pd;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;
	uint64_t i;
	MUST((pd = ibv_alloc_pd(c)));
	MUST((m = calloc(1, sizeof *m)));
	MUST((mr = ibv_reg_mr(pd, m, sizeof *m, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
	                      IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)));
	MUST((cq = ibv_create_cq(c, 256, NULL, NULL, 0)));
	memset(&init, 0, sizeof init);
	init.send_cq = init.recv_cq = cq;
	init.qp_type = IBV_QPT_RC;
	init.cap.max_send_wr = init.cap.max_recv_wr = 64;
	init.cap.max_send_sge = init.cap.max_recv_sge = 1;
	MUST((qp = ibv_create_qp(pd, &init)));
	DO(ibv_query_gid(c, 1, index, &mine.gid));
	mine.addr = (uintptr_t)m;
	mine.rkey = mr->rkey;
	mine.qpn = qp->qp_num;
	memset(&a, 0, sizeof a);
	a.qp_state = IBV_QPS_INIT;
	a.port_num = 1;
	a.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	DO(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	for (i = 0; i < RECEIVES; i++)
		receive(i);
	talk_swap(talk, &mine, &theirs, sizeof mine);
	a.qp_state = IBV_QPS_RTR;
	a.path_mtu = IBV_MTU_1024;
	a.dest_qp_num = theirs.qpn;
	a.max_dest_rd_atomic = a.max_rd_atomic = 4;
	a.min_rnr_timer = 12;
	a.ah_attr.is_global = 1;
	a.ah_attr.port_num = 1;
	a.ah_attr.grh.dgid = theirs.gid;
	a.ah_attr.grh.sgid_index = (uint8_t)index;
	a.ah_attr.grh.hop_limit = 64;
	DO(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
	                 IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
	a.qp_state = IBV_QPS_RTS;
	a.timeout = (uint8_t)timeout;
	a.retry_cnt = a.rnr_retry = 7;
	DO(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
	                 IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC));
	talk_swap(talk, &mine, &theirs, sizeof mine); /* both are ready */
}

/* Takes the next completion, if there is one. If it is an error, the program ends. An end that has
 * nothing under way would not notice that the other is gone; so it writes nothing to it sometimes. */
static int take(struct ibv_wc *wc) {
	static double said, last;
	static int knocking;
	int n = ibv_poll_cq(cq, 1, wc);
	MUST(n >= 0);
	if (n && wc->status != IBV_WC_SUCCESS) {
		printf("endure: status %d (%s) after %llu rounds\n", wc->status, ibv_wc_status_str(wc->status),
		       (unsigned long long)rounds);
		fflush(stdout);
		_exit(wc->status == IBV_WC_RETRY_EXC_ERR || wc->status == IBV_WC_RNR_RETRY_EXC_ERR ?
		      NO_ANSWER : FAILED);
	}
	if (now() - said > 0.1) {
		said = now();
		printf("endure: at %llu\n", (unsigned long long)rounds);
		fflush(stdout);
	}
	if (n) {
		last = now();
		if (wc->wr_id % STEPS != KNOCK)
			return 1;
		knocking = 0;
	} else if (!knocking && now() - last > 0.2) {
		knocking = 1;
		post(0, KNOCK, IBV_WR_RDMA_WRITE, m->slot[0], 0, m->slot[0]);
	}
	sched_yield();
	return 0;
}

static void ok(void) {
	printf("endure: %llu rounds: ok\n", (unsigned long long)rounds);
	exit(0);
}

static void active(int talk, const char *stop) {
	uint64_t posted = 0, next = 0, credits = 0, count; /* next: step whose completion is next */
	struct ibv_wc wc;
	int ends = 0;
	while (!ends || rounds < posted || credits < posted) {
		ends = ends || access(stop, F_OK) == 0;
		while (!ends && posted < rounds + SLOTS && posted < credits + SLOTS) {
			int s = (int)(posted % SLOTS);
			pattern_fill(m->slot[s], posted, 0, SIZE);
			post(posted, WRITE, IBV_WR_RDMA_WRITE, m->slot[s], SIZE, m->slot[s]);
			send_number(posted);
			post(posted, ADD, IBV_WR_ATOMIC_FETCH_AND_ADD, &m->old[s], 8, &m->counter);
			post(posted, READ, IBV_WR_RDMA_READ, m->back[s], SIZE, m->slot[s]);
			posted++;
		}
		if (!take(&wc))
			continue;
		if (wc.wr_id % STEPS == RECEIVE) {
			snprintf(doing, sizeof doing, "client, answer %llu", (unsigned long long)credits);
			length(wc.byte_len);
			next_is("the completion of a receive", wc.wr_id / STEPS, credits);
			next_is("an answer", m->in[credits % RECEIVES], credits);
			receive(credits++ + RECEIVES);
			continue;
		}
		snprintf(doing, sizeof doing, "client, round %llu", (unsigned long long)rounds);
		next_is("the completion of a step", wc.wr_id, rounds * STEPS + next);
		if (next == ADD)
			times("the number of additions", m->old[rounds % SLOTS], rounds);
		if (next++ == READ) {
			bytes(m->back[rounds % SLOTS], "read back");
			memset(m->back[rounds % SLOTS], 0, SIZE);
			rounds++;
			next = 0;
		}
	}
	talk_swap(talk, &posted, &count, sizeof count);
	times("the number of messages that arrived", count, posted);
	ok();
}

static void passive(int talk) {
	uint64_t count;
	struct ibv_wc wc;
	for (;;) {
		if (take(&wc)) {
			if (wc.wr_id % STEPS != RECEIVE)
				continue; /* an answer was taken */
			snprintf(doing, sizeof doing, "server, round %llu", (unsigned long long)rounds);
			length(wc.byte_len);
			next_is("the completion of a receive", wc.wr_id / STEPS, rounds);
			next_is("a message", m->in[rounds % RECEIVES], rounds);
			bytes(m->slot[rounds % SLOTS], "written");
			receive(rounds + RECEIVES);
			send_number(rounds++);
			continue;
		}
		if (recv(talk, &count, sizeof count, MSG_DONTWAIT) != sizeof count)
			continue;
		times("the number of messages that arrived", rounds, count);
		times("the number of additions", m->counter, count);
		MUST(write(talk, &rounds, sizeof rounds) == sizeof rounds);
		ok();
	}
}

int main(int argc, char **argv) {
	int serve = argc == 6 && !strcmp(argv[1], "serve"), talk;
	if (!serve && (argc != 7 || strcmp(argv[1], "connect"))) {
		fprintf(stderr, "usage: endure serve PORT GID TIMEOUT STOP |"
	                " connect ADDRESS PORT GID TIMEOUT STOP\n");
		return 2;
	}
	talk = serve ? talk_accept(talk_listen(argv[2])) : talk_connect(argv[2], argv[3]);
	open_end(talk, atoi(argv[argc - 3]), atoi(argv[argc - 2]));
	if (serve)
		passive(talk);
	active(talk, argv[argc - 1]);
	return 0;
}
