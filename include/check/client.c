/*
 * A C client of a real engine. `client SOCKET SCENARIO` prints a result and exits 0,
 * or prints what is wrong and exits 1. The Go tests of this folder run it.
 */
#include "../nicless/nicless_verbs.h"
#include "../nicless/rdmaxcel.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>

static struct nicless_client c;
static struct nicless_region queues, data;
static struct nicless_cq cq, aside;
static struct nicless_qp qp[2]; /* connected with each other */
static struct nicless_ends ends[2];
static uint32_t pdn, key, cqn, aside_cqn;
static uint8_t log_pieces[2] = {0, 1}; /* log2 of pieces of a receive: strides 16 and 32 */

#define MUST(is) ((is) ? (void)0 : wrong(#is, __LINE__))
#define DO(call) ((call) == 0 ? (void)0 : refused(#call, __LINE__))

static void wrong(const char *what, int line) {
	fprintf(stderr, "client: line %d: not true: %s\n", line, what);
	exit(1);
}

static void refused(const char *what, int line) {
	fprintf(stderr, "client: line %d: %s: %s\n", line, what, c.error);
	exit(1);
}

static void setup(const char *path, uint8_t log_sq, uint32_t cq_log, uint32_t cq_flags) {
	struct nicless_qp_config f;
	uint32_t i;
	DO(nicless_connect(&c, path, "include/check"));
	DO(nicless_region_open(&c, 1 << 20, &queues));
	DO(nicless_region_open(&c, 4 << 20, &data));
	DO(nicless_alloc_pd(&c, &pdn));
	DO(nicless_reg_mr(&c, pdn, data.mem, data.size, NICLESS_FULL_ACCESS, &key));
	DO(nicless_cq_open(&c, &queues, cq_log, cq_flags, 0, &cq, &cqn));
	aside_cqn = cqn;
	if (cq_flags & NICLESS_CQ_COLLAPSED) /* cq then gets only completions of sends of queue pair 0 */
		DO(nicless_cq_open(&c, &queues, 6, 0, 0, &aside, &aside_cqn));
	for (i = 0; i < 2; i++) {
		memset(&f, 0, sizeof f);
		f.pdn = pdn;
		f.send_cqn = i ? aside_cqn : cqn;
		f.recv_cqn = aside_cqn;
		f.user_index = i;
		f.log_sq = log_sq;
		f.log_rq = 3;
		f.log_rq_sge = log_pieces[i];
		DO(nicless_qp_open(&c, &queues, &f, &qp[i]));
		ends[i].sq = &qp[i].sq;
		ends[i].rq = &qp[i].rq;
	}
	for (i = 0; i < 2; i++)
		DO(nicless_qp_connect(&c, &qp[i], qp[!i].qpn, c.device.guid));
}

/* Destroys everything in the order that the engine requires, and checks that other orders are refused. */
static void teardown(void) {
	MUST(nicless_cq_close(&c, cqn) == -EBUSY);
	MUST(nicless_region_close(&c, &data) == -EBUSY);
	DO(nicless_qp_close(&c, &qp[0]));
	DO(nicless_qp_close(&c, &qp[1]));
	DO(nicless_cq_close(&c, cqn));
	MUST(nicless_dealloc_pd(&c, pdn) == -EBUSY);
	DO(nicless_dereg_mr(&c, key));
	DO(nicless_dealloc_pd(&c, pdn));
	DO(nicless_region_close(&c, &data));
	DO(nicless_region_close(&c, &queues));
	MUST(nicless_dereg_mr(&c, key) == -ENOENT);
	MUST(strstr(c.error, "the engine refuses: ") != 0);
	nicless_close(&c);
	MUST(nicless_alloc_pd(&c, &pdn) == -ENOTCONN);
}

static struct nicless_sge piece(size_t at, uint32_t n) {
	struct nicless_sge s;
	s.addr = (uintptr_t)(data.mem + at);
	s.length = n;
	s.lkey = key;
	return s;
}

static void next(struct nicless_wc *wc) {
	while (nicless_cq_reap(&cq, ends, 2, wc, 1) == 0)
		sched_yield();
}

/* Posts a work request on queue pair 0, rings, and waits for its completion. */
static void done(struct nicless_wr *wr, struct nicless_wc *wc) {
	static uint64_t id = 1000;
	wr->id = ++id;
	wr->fm_ce_se |= NICLESS_SIGNALED;
	wr->rkey = wr->rkey ? wr->rkey : key;
	MUST(nicless_sq_post(&qp[0].sq, wr) == 0);
	nicless_sq_ring(&qp[0].sq);
	next(wc);
	MUST(wc->id == id);
}

static struct nicless_wr request(uint8_t opcode, size_t to) {
	struct nicless_wr wr;
	memset(&wr, 0, sizeof wr);
	wr.opcode = opcode;
	wr.raddr = (uintptr_t)(data.mem + to);
	return wr;
}

static void one_sided(void) {
	uint64_t *word = (uint64_t *)(void *)data.mem, old;
	struct nicless_sge s[2];
	struct nicless_wr wr;
	struct nicless_wc wc;
	memcpy(data.mem, "from here ", 10);
	memcpy(data.mem + 100, "and there", 10);
	s[0] = piece(0, 10);
	s[1] = piece(100, 10);

	wr = request(NICLESS_WRITE, 4096);
	wr.sge = s;
	wr.sges = 2;
	done(&wr, &wc);
	MUST(wc.kind == NICLESS_CQE_REQ && wc.opcode == NICLESS_WRITE && wc.qpn == qp[0].qpn);
	MUST(strcmp((char *)data.mem + 4096, "from here and there") == 0);

	wr = request(NICLESS_WRITE, 8192);
	wr.data = "carried by the WQE itself, over two blocks and more: the ring ends somewhere here";
	wr.inline_bytes = (uint32_t)strlen((const char *)wr.data) + 1;
	done(&wr, &wc);
	MUST(wc.kind == NICLESS_CQE_REQ);
	MUST(strcmp((char *)data.mem + 8192, (const char *)wr.data) == 0);

	wr = request(NICLESS_READ, 4096);
	s[0] = piece(12288, 20);
	wr.sge = s;
	wr.sges = 1;
	done(&wr, &wc);
	MUST(wc.kind == NICLESS_CQE_REQ && wc.bytes == 20);
	MUST(memcmp(data.mem + 12288, data.mem + 4096, 20) == 0);

	word[2048] = 40;
	s[0] = piece(0, 8);
	wr = request(NICLESS_FA, 2048 * 8);
	wr.swap_add = 2;
	wr.sge = s;
	wr.sges = 1;
	done(&wr, &wc);
	memcpy(&old, data.mem, 8);
	MUST(wc.kind == NICLESS_CQE_REQ && old == 40 && word[2048] == 42);

	wr.opcode = NICLESS_CS;
	wr.compare = 42;
	wr.swap_add = 7;
	wr.fm_ce_se = NICLESS_FENCE;
	done(&wr, &wc);
	memcpy(&old, data.mem, 8);
	MUST(wc.kind == NICLESS_CQE_REQ && old == 42 && word[2048] == 7);
}

static void two_sided(void) {
	struct nicless_sge s[2];
	struct nicless_wr wr;
	struct nicless_wc wc[2];
	uint64_t i;
	for (i = 0; i < 20; i++) { /* more than the receive ring holds */
		s[0] = piece(20000, 4);
		s[1] = piece(20100, 60);
		memset(data.mem + 20000, 0, 200);
		MUST(nicless_rq_post(&qp[1].rq, s, 2, 500 + i) == 0);
		nicless_rq_ring(&qp[1].rq);
		wr = request(i % 2 ? NICLESS_SEND_IMM : NICLESS_SEND, 0);
		wr.imm = 0xabcd0000u + (uint32_t)i;
		wr.id = i;
		wr.fm_ce_se = NICLESS_SIGNALED;
		s[0] = piece(4096, 20);
		wr.sge = s;
		wr.sges = 1;
		MUST(nicless_sq_post(&qp[0].sq, &wr) == 0);
		nicless_sq_ring(&qp[0].sq);
		next(&wc[0]);
		next(&wc[1]);
		if (wc[0].uidx == 0) { /* either completion may come first */
			struct nicless_wc swap = wc[0];
			wc[0] = wc[1];
			wc[1] = swap;
		}
		MUST(wc[0].uidx == 1 && wc[0].id == 500 + i && wc[0].bytes == 20);
		MUST(wc[0].kind == (i % 2 ? NICLESS_CQE_RESP_SEND_IMM : NICLESS_CQE_RESP_SEND));
		MUST(i % 2 == 0 || wc[0].imm == wr.imm);
		MUST(wc[1].uidx == 0 && wc[1].id == i && wc[1].kind == NICLESS_CQE_REQ);
		MUST(memcmp(data.mem + 20000, data.mem + 4096, 4) == 0);
		MUST(memcmp(data.mem + 20100, data.mem + 4100, 16) == 0);
	}
	for (i = 0; i < 8; i++)
		MUST(nicless_rq_post(&qp[0].rq, s, 1, i) == 0);
	MUST(nicless_rq_post(&qp[0].rq, s, 1, i) == -EAGAIN);
	MUST(nicless_rq_post(&qp[0].rq, s, 2, i) == -EINVAL);
}

/* A wrong key puts the queue pair into error with the right syndrome, and later work is flushed. */
static void wrong_key(void) {
	struct nicless_sge s = piece(0, 8);
	struct nicless_wr wr = request(NICLESS_WRITE, 0);
	struct nicless_qp_attr a;
	struct nicless_wc wc;
	wr.sge = &s;
	wr.sges = 1;
	wr.rkey = key ^ 1;
	done(&wr, &wc);
	MUST(wc.kind == NICLESS_CQE_REQ_ERR && wc.syndrome == 0x13 && wc.opcode == NICLESS_WRITE);
	wr.rkey = key;
	wr.id = 9;
	MUST(nicless_sq_post(&qp[0].sq, &wr) == 0);
	nicless_sq_ring(&qp[0].sq);
	do /* receives of both queue pairs are flushed too */
		next(&wc);
	while (wc.kind != NICLESS_CQE_REQ_ERR);
	MUST(wc.id == 9 && wc.syndrome == 0x05);
	DO(nicless_query_qp(&c, qp[0].qpn, &a));
	MUST(a.state == NICLESS_ERR && a.dest_qpn == qp[1].qpn);
}

static void operations(const char *path) {
	setup(path, 6, 6, 0);
	one_sided();
	two_sided();
	wrong_key();
	teardown();
	printf("operations: ok\n");
}

enum { POSTERS = 4, EACH = 8000 };

/*
 * Posts FETCH_ADDs on one word. The old values, which they return, show the order of
 * execution. Every eighth work request is a WRITE of two blocks, with five ranges of
 * memory.
 */
static void *poster(void *arg) {
	size_t me = (size_t)(uintptr_t)arg, i;
	for (i = 0; i < EACH; i++) {
		struct nicless_wr wr = request(i % 8 == 7 ? NICLESS_WRITE : NICLESS_FA, i % 8 == 7 ? 512 : 0);
		struct nicless_sge s[5];
		int k;
		for (k = 0; k < 5; k++)
			s[k] = piece(4096 + (me * EACH + i) * 8, 8);
		wr.sge = s;
		wr.sges = wr.opcode == NICLESS_FA ? 1 : 5;
		wr.swap_add = 1;
		wr.rkey = key;
		wr.id = me << 32 | i;
		wr.fm_ce_se = i % 4 == 3 ? NICLESS_SIGNALED : 0;
		while (nicless_sq_post(&qp[0].sq, &wr) == -EAGAIN) {
			nicless_sq_ring(&qp[0].sq);
			sched_yield();
		}
		if (i % 2)
			nicless_sq_ring(&qp[0].sq);
	}
	nicless_sq_ring(&qp[0].sq);
	return 0;
}

static void stress(const char *path) {
	static uint8_t seen[POSTERS * EACH];
	pthread_t t[POSTERS];
	struct nicless_wc wc[8];
	uint64_t i, k, got = 0, before, atomics = 0, *old;
	setup(path, 4, 4, 0); /* 16 blocks, and as many CQEs */
	for (i = 0; i < POSTERS; i++)
		MUST(pthread_create(&t[i], 0, poster, (void *)(uintptr_t)i) == 0);
	while (got < POSTERS * EACH / 4) {
		uint32_t n = nicless_cq_reap(&cq, ends, 2, wc, 8);
		for (i = 0; i < n; i++)
			MUST(wc[i].kind == NICLESS_CQE_REQ && (wc[i].id & 3) == 3);
		got += n;
		if (n == 0)
			sched_yield();
	}
	for (i = 0; i < POSTERS; i++)
		pthread_join(t[i], 0);
	old = (uint64_t *)(void *)(data.mem + 4096);
	for (i = 0; i < POSTERS; i++)
		for (k = 0, before = 0; k < EACH; k++) {
			uint64_t v = old[i * EACH + k];
			if (k % 8 == 7)
				continue; /* a WRITE */
			MUST(v < POSTERS * EACH && !seen[v]); /* each was executed once */
			MUST(k == 0 || v > before);           /* and in the order of its poster */
			seen[v] = 1;
			before = v;
			atomics++;
		}
	MUST(*(uint64_t *)(void *)data.mem == atomics);
	MUST(qp[0].sq.freed == qp[0].sq.reserved);
	printf("stress: %d threads, %d WQEs, %llu laps of 16 blocks\n", POSTERS, POSTERS * EACH,
	       (unsigned long long)(qp[0].sq.rung / 16));
	nicless_close(&c);
}

/*
 * Posts as RDMaxcel does: 64 stores to the record, then 64 copies to the register. Indices need
 * more than 16 bits.
 */
static void rdmaxcel(const char *path) {
	wqe_params_t p;
	cqe_poll_params_t cp;
	uint64_t index;
	int32_t bytes;
	log_pieces[0] = 5; /* stride 512, as in RDMaxcel's own queues */
	setup(path, 6, 6, 0);
	memset(&p, 0, sizeof p);
	p.laddr = (uintptr_t)data.mem;
	p.raddr = (uintptr_t)data.mem + 4096;
	p.lkey = p.rkey = key;
	p.length = 8;
	p.op_type = NICLESS_WRITE;
	p.qp_num = qp[0].qpn;
	p.buf = qp[0].sq.ring;
	p.dbrec = qp[0].sq.record;
	p.wqe_cnt = 64;
	cp.cqe_buf = cq.ring;
	cp.cqe_size = 64;
	cp.cqe_cnt = 64;
	cp.dbrec = cq.record;
	for (index = 0; index < 64 * 1050; index++) {
		p.wr_id = index;
		p.signaled = index % 64 == 63;
		*(uint64_t *)(void *)data.mem = index;
		send_wqe(p);
		if (!p.signaled)
			continue;
		for (p.wr_id -= 63; p.wr_id <= index; p.wr_id++)
			db_ring(qp[0].reg, p.buf + (p.wr_id & 63) * 64);
		cp.consumer_index = (uint32_t)(index / 64);
		bytes = -1;
		while (bytes == -1) {
			cqe_poll(&bytes, cp);
			sched_yield();
		}
		MUST(bytes == 0);
		MUST(*(uint64_t *)(void *)(data.mem + 4096) == index);
	}
	/* A receive. */
	p.wr_id = 0;
	p.buf = qp[0].rq.ring;
	p.wqe_cnt = 8;
	p.laddr = (uintptr_t)data.mem + 8192;
	recv_wqe(p);
	p.wr_id = 0;
	p.buf = qp[1].sq.ring;
	p.dbrec = qp[1].sq.record;
	p.wqe_cnt = 64;
	p.qp_num = qp[1].qpn;
	p.op_type = NICLESS_WRITE_IMM; /* send_wqe always writes three segments */
	p.signaled = false;
	send_wqe(p);
	cp.consumer_index = (uint32_t)(index / 64);
	bytes = -1;
	while (bytes == -1)
		cqe_poll(&bytes, cp);
	MUST(bytes == 8);
	printf("rdmaxcel: ok\n");
	nicless_close(&c);
}

/* Polls by launch_send_cqe_poll or launch_recv_cqe_poll until there is a completion. */
static cqe_poll_result_t launched(cqe_poll_result_t (*poll)(void *, int32_t), struct nicless_dv_cq *q,
                                  int32_t index) {
	cqe_poll_result_t is;
	while ((is = poll(q, index)) == CQE_POLL_FALSE)
		sched_yield();
	return is;
}

/*
 * Posts with RDMaxcel's launches: 200 WRITEs through rings of 64 entries, and 20
 * receives with different addresses through a ring of 8 entries. A message that is
 * longer than its receive fails.
 */
static void launch(const char *path) {
	struct nicless_dv_qp a;
	struct nicless_dv_cq both;
	struct nicless_sge s;
	struct nicless_wr wr;
	wqe_params_t p, r;
	int32_t i, polled = 0;
	log_pieces[0] = 5;
	setup(path, 6, 6, 0);
	nicless_qp_dv(&qp[0], &a);
	nicless_cq_dv(&c, &cq, cqn, &both);
	MUST(a.rq.stride == NICLESS_RECV_STRIDE && a.rq.wqe_cnt == 8 && a.sq.wqe_cnt == 64 && both.cqn == cqn);
	MUST(register_cuda_memory((struct mlx5dv_qp *)(void *)&a, (struct mlx5dv_cq *)(void *)&both,
	                          (struct mlx5dv_cq *)(void *)&both) == NICLESS_CUDA_NOT_SUPPORTED);
	MUST(strstr(register_cuda_memory_error(), "compiled without CUDA") != 0);

	memset(&p, 0, sizeof p);
	p.laddr = (uintptr_t)data.mem;
	p.raddr = (uintptr_t)data.mem + 4096;
	p.lkey = p.rkey = key;
	p.length = 8;
	p.op_type = NICLESS_WRITE;
	p.signaled = true;
	p.qp_num = qp[0].qpn;
	p.buf = (uint8_t *)a.sq.buf;
	p.dbrec = a.dbrec;
	p.wqe_cnt = a.sq.wqe_cnt;
	r = p;
	MUST(launch_send_cqe_poll(&both, 0) == CQE_POLL_FALSE);
	for (i = 0; i < 200; i++) {
		*(uint64_t *)(void *)data.mem = 1000 + (uint64_t)i;
		p.wr_id = (uint64_t)i;
		launch_send_wqe(p);
		launch_db_ring(a.bf.reg, (uint8_t *)a.sq.buf + i % 64 * 64);
		MUST(launched(launch_send_cqe_poll, &both, polled++) == CQE_POLL_TRUE);
		MUST(*(uint64_t *)(void *)(data.mem + 4096) == 1000 + (uint64_t)i);
	}

	r.buf = (uint8_t *)a.rq.buf;
	r.wqe_cnt = a.rq.wqe_cnt;
	s = piece(0, 8);
	memset(&wr, 0, sizeof wr);
	wr.opcode = NICLESS_SEND; /* not signaled: qp[1] makes no completions here */
	wr.sge = &s;
	wr.sges = 1;
	for (i = 0; i < 20; i++) {
		r.wr_id = (uint64_t)i;
		r.laddr = (uintptr_t)data.mem + 8192 + 64 * (uintptr_t)i;
		launch_recv_wqe(r);
		if (i < 4)
			continue; /* from now on five receives are posted */
		*(uint64_t *)(void *)data.mem = 2000 + (uint64_t)i;
		MUST(nicless_sq_post(&qp[1].sq, &wr) == 0);
		nicless_sq_ring(&qp[1].sq);
		MUST(launched(launch_recv_cqe_poll, &both, polled++) == CQE_POLL_TRUE);
		MUST(*(uint64_t *)(void *)(data.mem + 8192 + 64 * (i - 4)) == 2000 + (uint64_t)i);
	}
	s.length = 9; /* for a receive of 8 bytes, in an entry of 32 segments */
	MUST(nicless_sq_post(&qp[1].sq, &wr) == 0);
	nicless_sq_ring(&qp[1].sq);
	MUST(launched(launch_recv_cqe_poll, &both, polled++) == CQE_POLL_ERROR);
	printf("launch: ok\n");
	nicless_close(&c);
}

/* Posts WRITEs. Several threads do this at once, and all of them read one collapsed queue. */
static void *watcher(void *arg) {
	struct nicless_wr wr = request(NICLESS_WRITE, 4096);
	uint64_t i, count;
	(void)arg;
	wr.data = "12345678";
	wr.inline_bytes = 8;
	wr.rkey = key;
	wr.fm_ce_se = NICLESS_SIGNALED;
	for (i = 0; i < 5000; i++) {
		while (!nicless_sq_reserve(&qp[0].sq, 1, &count)) {
			MUST(nicless_cq_advance(&cq, &qp[0].sq, 0) == 0);
			sched_yield();
		}
		nicless_sq_write(&qp[0].sq, count, &wr, (uint32_t)nicless_wr_units(&wr));
		nicless_sq_commit(&qp[0].sq, count, 1);
		nicless_sq_ring(&qp[0].sq);
		while (i % 16 == 15 && nicless_poster_observe64(&qp[0].sq.freed) <= count) {
			MUST(nicless_cq_advance(&cq, &qp[0].sq, 0) == 0);
			sched_yield();
		}
	}
	return 0;
}

static void collapsed(const char *path) {
	pthread_t t[3];
	int i;
	setup(path, 4, 0, NICLESS_CQ_COLLAPSED | NICLESS_CQ_IGNORE_OVERRUN);
	for (i = 0; i < 3; i++)
		MUST(pthread_create(&t[i], 0, watcher, 0) == 0);
	for (i = 0; i < 3; i++)
		pthread_join(t[i], 0);
	MUST(nicless_cq_quiet(&cq, &qp[0].sq, 15000, 0) == 0);
	MUST(qp[0].sq.freed == 15000);
	MUST(memcmp(data.mem + 4096, "12345678", 8) == 0);
	printf("collapsed: ok\n");
	nicless_close(&c);
}

/* Waits for completions with a completion channel. */
static void channel(const char *path) {
	struct nicless_qp_config f;
	struct nicless_wr wr = request(NICLESS_NOP, 0);
	struct nicless_wc wc;
	struct nicless_qp q;
	struct pollfd p;
	uint32_t id;
	uint64_t which;
	int i, events;
	DO(nicless_connect(&c, path, "channel"));
	DO(nicless_region_open(&c, 1 << 16, &queues));
	DO(nicless_alloc_pd(&c, &pdn));
	DO(nicless_channel_open(&c, &id, &events));
	DO(nicless_cq_open(&c, &queues, 4, 0, id, &cq, &cqn));
	memset(&f, 0, sizeof f);
	f.pdn = pdn;
	f.send_cqn = f.recv_cqn = cqn;
	f.log_sq = 2;
	DO(nicless_qp_open(&c, &queues, &f, &q));
	DO(nicless_qp_connect(&c, &q, q.qpn, c.device.guid)); /* with itself */
	ends[0].sq = &q.sq;
	ends[0].rq = &q.rq;
	wr.fm_ce_se = NICLESS_SIGNALED;
	for (i = 0; i < 6; i++) {
		nicless_cq_arm(&cq, (uint64_t *)(void *)(c.uar + NICLESS_UAR_ARM), cqn, (uint32_t)i, 0);
		MUST(nicless_cq_reap(&cq, ends, 1, &wc, 1) == 0);
		MUST(nicless_sq_post(&q.sq, &wr) == 0);
		nicless_sq_ring(&q.sq);
		p.fd = events;
		p.events = POLLIN;
		MUST(poll(&p, 1, 10000) == 1);
		MUST(read(events, &which, sizeof which) == sizeof which && which == (uintptr_t)&cq);
		MUST(nicless_cq_reap(&cq, ends, 1, &wc, 1) == 1);
	}
	MUST(nicless_channel_close(&c, id, -1) == -EBUSY);
	DO(nicless_qp_close(&c, &q));
	DO(nicless_cq_close(&c, cqn));
	DO(nicless_channel_close(&c, id, events));
	printf("channel: ok\n");
	nicless_close(&c);
}

/* Puts a reason into slot 0 of a status page that is not the engine's. */
static void fake_reason(uint64_t *status, uint64_t number, uint32_t queue, uint16_t index, uint8_t syndrome) {
	struct nicless_reason r;
	memset(&r, 0, sizeof r);
	r.number = number;
	r.queue = queue;
	r.index = index;
	r.syndrome = syndrome;
	r.text_bytes = 0xffff; /* more than there are */
	memset(r.text, 'x', sizeof r.text);
	memset(r.code, 'c', sizeof r.code);
	memcpy(status + NICLESS_STATUS_PAGE / 8, &r, sizeof r);
	status[NICLESS_STATUS_REASON_LAST / 8] = number;
}

/* The reasons of failed completions: one of its own, that of a cause, and those that there are not. */
static void explain(const char *path) {
	static uint64_t status[(NICLESS_STATUS_PAGE + NICLESS_REASON) / 8];
	struct nicless_wr wr = request(NICLESS_WRITE, 0);
	struct nicless_wc wc[4];
	struct nicless_reason r;
	uint32_t n = 0, i;
	setup(path, 6, 6, 0);
	for (i = 0; i < 3; i++) {
		wr.fm_ce_se = NICLESS_SIGNALED;
		wr.data = "bytes";
		wr.inline_bytes = 5;
		wr.rkey = i == 0 ? key ^ 1 : key;
		MUST(nicless_sq_post(&qp[0].sq, &wr) == 0);
	}
	nicless_sq_ring(&qp[0].sq);
	while (n < 3)
		n += nicless_cq_poll(&cq, wc + n, 3 - n);
	MUST(nicless_explain(&cq, &wc[0], &r) == 0);
	MUST(r.queue == qp[0].qpn && r.index == wc[0].counter && r.of == NICLESS_OF_WQE);
	MUST(r.syndrome == wc[0].syndrome && wc[0].syndrome == 0x13 && r.has_wqe);
	MUST(strcmp(r.code, "key-stale") == 0);
	MUST(strstr(r.text, "the index exists, the variant") != NULL && strlen(r.text) == r.text_bytes);
	MUST(memcmp(r.wqe, qp[0].sq.ring, 64) == 0);
	for (i = 1; i < 3; i++) {
		MUST(wc[i].syndrome == NICLESS_SYNDROME_FLUSH);
		MUST(nicless_explain(&cq, &wc[i], &r) == 0);
		MUST(r.queue == qp[0].qpn && r.index == wc[0].counter && strcmp(r.code, "key-stale") == 0);
	}
	wc[3] = wc[0];
	wc[3].counter += 7; /* a completion that there has not been */
	MUST(nicless_explain(&cq, &wc[3], &r) == -ENOENT);
	wc[3].kind = NICLESS_CQE_REQ; /* and one that is no error */
	MUST(nicless_explain(&cq, &wc[3], &r) == -ENOENT);

	/* a status page of one reason, and then of strange ones */
	cq.status = status;
	cq.status_size = NICLESS_STATUS_PAGE;
	MUST(nicless_explain(&cq, &wc[0], &r) == -ENOENT); /* an engine without reasons */
	cq.status_size = sizeof status;
	status[NICLESS_STATUS_REASONS / 8] = 1;
	status[NICLESS_STATUS_REASON_SIZE / 8] = NICLESS_REASON;
	status[NICLESS_STATUS_REASON_OFFSET / 8] = NICLESS_STATUS_PAGE;
	MUST(nicless_explain(&cq, &wc[0], &r) == -ENOENT);
	fake_reason(status, 9, wc[0].qpn, wc[0].counter, wc[0].syndrome);
	MUST(nicless_explain(&cq, &wc[0], &r) == 0 && r.number == 9);
	MUST(strlen(r.text) == NICLESS_REASON_TEXT - 1 && strlen(r.code) == 23);
	MUST(nicless_explain(&cq, &wc[1], &r) == 0 && r.index == wc[0].counter);
	fake_reason(status, 10, wc[0].qpn + 1, 0, 4);
	MUST(nicless_explain(&cq, &wc[0], &r) == -EOVERFLOW);
	status[NICLESS_STATUS_PAGE / 8] = 0; /* it is being written */
	MUST(nicless_explain(&cq, &wc[0], &r) == -EOVERFLOW);
	status[NICLESS_STATUS_REASONS / 8] = UINT64_MAX;
	MUST(nicless_explain(&cq, &wc[0], &r) == -ENOENT);
	status[NICLESS_STATUS_REASONS / 8] = 1;
	status[NICLESS_STATUS_REASON_OFFSET / 8] = UINT64_MAX - 7;
	MUST(nicless_explain(&cq, &wc[0], &r) == -ENOENT);
	printf("explain: ok\n");
	nicless_close(&c);
}

/* Makes mistakes, and prints the error texts. */
static void mistakes(const char *path) {
	struct nicless_qp_config f;
	struct nicless_region r;
	struct nicless_qp q;
	uint32_t k;
	DO(nicless_connect(&c, path, "mistakes"));
	DO(nicless_region_open(&c, 8192, &r));
	DO(nicless_alloc_pd(&c, &pdn));
	MUST(nicless_reg_mr(&c, pdn, r.mem, 8193, NICLESS_FULL_ACCESS, &k) < 0);
	printf("mr: %s\n", c.error);
	MUST(nicless_reg_mr(&c, pdn + 1, r.mem, 1, NICLESS_FULL_ACCESS, &k) == -ENOENT);
	printf("pd: %s\n", c.error);
	MUST(nicless_cq_open(&c, &r, 30, 0, 0, &cq, &cqn) == -EINVAL);
	printf("cq: %s\n", c.error);
	MUST(nicless_cq_open(&c, &r, 8, 0, 0, &cq, &cqn) == -ENOMEM);
	printf("cq: %s\n", c.error);
	memset(&f, 0, sizeof f);
	f.log_sq = 60;
	MUST(nicless_qp_open(&c, &r, &f, &q) == -EINVAL);
	printf("qp: %s\n", c.error);
	f.log_sq = 1;
	f.pdn = pdn;
	MUST(nicless_qp_open(&c, &r, &f, &q) == -ENOENT);
	printf("qp: %s\n", c.error);
	/* a payload of the wrong length */
	MUST(nicless_ask(&c, NICLESS_OP_REG_MR, &pdn, sizeof pdn, &k, sizeof k) == -EINVAL);
	printf("payload: %s\n", c.error);
	MUST(nicless_ask(&c, 999, 0, 0, 0, 0) < 0);
	printf("operation: %s\n", c.error);
	DO(nicless_alloc_pd(&c, &k)); /* the connection goes on */
	/* a datagram without a whole header cannot be answered */
	MUST(send(c.fd, "short", 5, MSG_NOSIGNAL) == 5);
	MUST(nicless_alloc_pd(&c, &k) < 0);
	printf("header: %s\n", c.error);
	nicless_close(&c);
}

static void greet(const char *path) {
	int error = nicless_connect(&c, path, "greet");
	printf("%d %s\n", error, c.error);
	MUST(error < 0 && c.fd < 0 && !c.uar && !c.status);
	nicless_close(&c);
}

int main(int argc, char **argv) {
	static const struct {
		const char *name;
		void (*run)(const char *path);
	} list[] = {{"operations", operations}, {"stress", stress},     {"rdmaxcel", rdmaxcel},
	            {"launch", launch},         {"collapsed", collapsed}, {"channel", channel},
	            {"mistakes", mistakes},     {"greet", greet},         {"explain", explain}};
	size_t i;
	for (i = 0; argc == 3 && i < sizeof list / sizeof *list; i++)
		if (!strcmp(argv[2], list[i].name)) {
			list[i].run(argv[1]);
			return 0;
		}
	fprintf(stderr, "usage: client SOCKET SCENARIO\n");
	return 2;
}
