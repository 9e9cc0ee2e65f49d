/* devx_queues: queues made by firmware commands, in the ways of several libraries, carry data.
 *
 *   devx_queues [DEVICE] */
#include "mailbox.h"

#include <endian.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { SIZE = 8192, LOG = 6 };

static struct devx d;
static struct ibv_mr *mr;
static uint8_t *memory;

static void check_cqe(const struct mlx5_cqe64 *cqe, const struct devx_qp *q, uint32_t counter) {
	SAME(cqe->op_own >> 4, MLX5_CQE_REQ);
	SAME(be16toh(cqe->wqe_counter), counter & 0xffff);
	SAME(be32toh(cqe->sop_drop_qpn) & 0xffffff, q->number);
}

/* Writes, reads and adds through a queue pair, `rounds` times. Each WQE is one block, so in a collapsed queue
 * the index of a completion counts completions. */
static void carry(struct devx_qp *q, struct devx_cq *cq, int rounds) {
	for (int i = 0; i < rounds; i++) {
		uint64_t before, result;
		uint32_t at = q->posted;
		uint8_t *b = qp_block(q, 1);
		pattern_fill(memory, i, 0, 1000);
		wqe_control(q, b, MLX5_OPCODE_RDMA_WRITE, 3);
		wqe_remote(b + 16, (uintptr_t)memory + 4096, mr->rkey);
		wqe_data(b + 32, 1000, mr->lkey, (uintptr_t)memory);
		qp_ring(q, b);
		check_cqe(cq_wait(cq), q, at);
		pattern_check(memory + 4096, i, 0, 1000, "written");
		at = q->posted;
		b = qp_block(q, 1);
		memset(memory, 0, 1000);
		wqe_control(q, b, MLX5_OPCODE_RDMA_READ, 3);
		wqe_remote(b + 16, (uintptr_t)memory + 4096, mr->rkey);
		wqe_data(b + 32, 1000, mr->lkey, (uintptr_t)memory);
		qp_ring(q, b);
		check_cqe(cq_wait(cq), q, at);
		pattern_check(memory, i, 0, 1000, "read");
		memcpy(&before, memory + 4096, 8);
		at = q->posted;
		b = qp_block(q, 1);
		wqe_control(q, b, MLX5_OPCODE_ATOMIC_FA, 4);
		wqe_remote(b + 16, (uintptr_t)memory + 4096, mr->rkey);
		b[32 + 7] = 3; /* add 3, big-endian */
		wqe_data(b + 48, 8, mr->lkey, (uintptr_t)memory + 2048);
		qp_ring(q, b);
		check_cqe(cq_wait(cq), q, at);
		memcpy(&result, memory + 2048, 8);
		SAME(result, before);
		memcpy(&result, memory + 4096, 8);
		SAME(result, before + 3);
	}
}

/* A queue pair that is asked for its context answers in each state as a library takes it for right. */
static void check_context(struct devx_qp *q, uint32_t state, uint32_t peer) {
	uint8_t out[MAILBOX];
	uint32_t mtu;
	qp_query(q, out);
	mtu = get_bits(out, 0x20, 31, 29);
	SAME(get_bits(out, 0x18, 31, 28), state);
	MUST(mtu >= 1 && mtu <= 5);
	SAME(get_bits(out, 0x18, 23, 16), 0);
	SAME(get_bits(out, 0x20, 14, 11), q->log);
	if (state != 3)
		return;
	SAME(get_bits(out, 0x2c, 23, 0), peer);
	SAME(get_bits(out, 0xa8, 15, 13), 7); /* INIT2RTR_QP had no bits for them */
	SAME(get_bits(out, 0x88, 18, 13), 0x3f);
	SAME(get_bits(out, 0x38, 31, 27), 14);
}

/* Keys that are lists from their creation on: of one large part (KSM), as UCX makes them, and of two pieces
 * (KLM) in reverse order. */
static void lists(struct devx_qp *q, struct devx_cq *cq) {
	for (int mode = 2; mode <= 3; mode++) {
		uint8_t in[MAILBOX + 32] = {0}, out[MAILBOX] = {0}, *b;
		struct mlx5dv_devx_obj *key;
		int entries = mode == 3 ? 1 : 2;
		put_bits(in, 0x00, 31, 16, 0x200);
		put_bits(in, 0x10, 14, 10, 31); /* atomics, remote and local rights */
		put_bits(in, 0x10, 9, 8, mode);
		put_bits(in, 0x14, 31, 0, 0xffffff00);
		put_bits(in, 0x1c, 23, 0, d.pdn);
		wqe_remote(in + 0x20, (uintptr_t)memory, 0);
		put_bits(in, 0x2c, 31, 0, SIZE);
		put_bits(in, 0x44, 31, 0, entries);
		put_bits(in, 0x48, 4, 0, 31);
		put_bits(in, 0x60, 31, 0, entries);
		if (mode == 3) {
			wqe_data(in + 0x110, 0, mr->lkey, (uintptr_t)memory);
		} else {
			wqe_data(in + 0x110, SIZE / 2, mr->lkey, (uintptr_t)memory + SIZE / 2);
			wqe_data(in + 0x120, SIZE / 2, mr->lkey, (uintptr_t)memory);
		}
		if (!(key = devx_make(&d, in, MAILBOX + 16 * entries, out)))
			FAIL("CREATE_MKEY: %s", strerror(errno));
		pattern_fill(memory, mode, 0, 1000);
		memset(memory + 4096, 0, 1000);
		b = qp_block(q, 1);
		wqe_control(q, b, MLX5_OPCODE_RDMA_WRITE, 3);
		wqe_remote(b + 16, (uintptr_t)memory + (mode == 3 ? 4096 : 0), get_bits(out, 8, 23, 0) << 8);
		wqe_data(b + 32, 1000, mr->lkey, (uintptr_t)memory);
		qp_ring(q, b);
		SAME(cq_wait(cq)->op_own >> 4, MLX5_CQE_REQ);
		pattern_check(memory + 4096, mode, 0, 1000, "written by a list");
		DO(mlx5dv_devx_obj_destroy(key));
	}
}

/* The device has executed everything that was posted. */
static void check_counters(struct devx_qp *q) {
	uint8_t out[MAILBOX];
	qp_query(q, out);
	SAME(get_bits(out, 0xcc, 31, 16), q->posted & 0xffff);
	SAME(get_bits(out, 0xcc, 15, 0), q->posted & 0xffff);
}

/* An event as mlx5dv_devx_get_event reads it. */
struct event {
	uint64_t cookie;
	uint8_t entry[64];
};

static void arm(const struct devx_cq *q, uint32_t serial) {
	uint32_t word = htobe32((serial & 3) << 28 | (q->index & 0xffffff));
	uint64_t value = htobe64((uint64_t)be32toh(word) << 32 | q->number);
	__atomic_store_n((uint32_t *)(q->record.at + q->record_at + 4), word, __ATOMIC_RELEASE);
	__atomic_store_n((uint64_t *)((uint8_t *)d.uar->base_addr + 0x20), value, __ATOMIC_RELEASE);
}

/* Arms the CQ and completes a NOP. */
static void complete_armed(struct devx_qp *q, struct devx_cq *cq, uint32_t serial) {
	uint8_t *b = qp_block(q, 1);
	arm(cq, serial);
	wqe_control(q, b, MLX5_OPCODE_NOP, 1);
	qp_ring(q, b);
	SAME(cq_wait(cq)->op_own >> 4, MLX5_CQE_REQ);
}

/* Events of completions come through a channel with an entry, through one without, and through an eventfd. */
static void completions(struct devx_qp *q, struct devx_cq *cq) {
	uint16_t completion[] = {0}, unknown[] = {0x09};
	struct event event;
	struct mlx5dv_devx_event_channel *whole = mlx5dv_devx_create_event_channel(d.context, 0), *brief =
	    mlx5dv_devx_create_event_channel(d.context, MLX5DV_DEVX_CREATE_EVENT_CHANNEL_FLAGS_OMIT_EV_DATA);
	int fd = eventfd(0, 0);
	MUST(whole && brief && fd >= 0);
	SAME(mlx5dv_devx_subscribe_devx_event(whole, cq->object, sizeof unknown, unknown, 1) != 0, 1);
	SAME(mlx5dv_devx_subscribe_devx_event_fd(whole, whole->fd, cq->object, 0) != 0, 1); /* no eventfd */
	DO(mlx5dv_devx_subscribe_devx_event(whole, cq->object, sizeof completion, completion, 0x1122334455667788));
	DO(mlx5dv_devx_subscribe_devx_event(brief, cq->object, sizeof completion, completion, 7));
	DO(mlx5dv_devx_subscribe_devx_event_fd(whole, fd, cq->object, 0));
	for (int i = 0; i < 20; i++) {
		uint64_t count;
		complete_armed(q, cq, i);
		SAME(mlx5dv_devx_get_event(whole, (void *)&event, sizeof event), sizeof event);
		SAME(event.cookie, 0x1122334455667788);
		SAME(event.entry[1], 0);
		SAME(get_bits(event.entry, 0x38, 23, 0), cq->number);
		SAME(mlx5dv_devx_get_event(brief, (void *)&event, sizeof event), 8);
		SAME(event.cookie, 7);
		MUST(read(fd, &count, 8) == 8);
		SAME(count, 1);
	}
	/* Without an entry, events that the program has not read are one. */
	DO(fcntl(whole->fd, F_SETFL, O_NONBLOCK) || fcntl(brief->fd, F_SETFL, O_NONBLOCK));
	SAME(mlx5dv_devx_get_event(whole, (void *)&event, sizeof event), -1);
	SAME(errno, EAGAIN);
	for (int round = 0; round < 2; round++) {
		struct pollfd ready[] = {{.fd = whole->fd, .events = POLLIN}, {.fd = brief->fd, .events = POLLIN}};
		SAME(poll(ready, 2, 0), 0);
		for (int i = 20; i < 23; i++) {
			uint64_t count;
			complete_armed(q, cq, i);
			SAME(poll(ready, 1, -1), 1);
			SAME(mlx5dv_devx_get_event(whole, (void *)&event, sizeof event), sizeof event);
			/* An event goes to brief before it goes to fd, in the order of subscriptions. */
			MUST(read(fd, &count, 8) == 8);
			SAME(count, 1);
		}
		SAME(mlx5dv_devx_get_event(brief, (void *)&event, sizeof event), 8);
		SAME(mlx5dv_devx_get_event(brief, (void *)&event, sizeof event), -1);
		SAME(errno, EAGAIN);
	}
	mlx5dv_devx_destroy_event_channel(whole);
	mlx5dv_devx_destroy_event_channel(brief);
	close(fd);
}

/* As DOCA makes them: each queue and each record in a umem of its own, and no receives. Queues that registers
 * alone start have no record. The peer of a queue pair is the other one, or itself. */
static void pairs(int mode, int alone) {
	struct devx_cq cq[2];
	struct devx_qp q[2];
	uint8_t in[MAILBOX];
	int n = alone ? 1 : 2;
	for (int i = 0; i < n; i++) {
		cq_begin(&d, &cq[i], in, LOG, 0);
		cq_finish(&d, &cq[i], in);
		qp_begin(&d, &q[i], in, LOG, &cq[i]);
		put_bits(in, 0x28, 31, 30, mode);
		q[i].no_record = mode != 0;
		if (mode) /* a register of its own */
			MUST((q[i].uar = mlx5dv_devx_alloc_uar(d.context, MLX5DV_UAR_ALLOC_TYPE_BF)));
		qp_finish(&d, &q[i], in);
		check_context(&q[i], 0, 0);
	}
	for (int i = 0; i < n; i++) {
		qp_connect(&d, &q[i], q[n - 1 - i].number);
		check_context(&q[i], 3, q[n - 1 - i].number);
	}
	carry(&q[0], &cq[0], 200);
	check_counters(&q[0]);
	lists(&q[0], &cq[0]);
	completions(&q[0], &cq[0]);
	SAME(mlx5dv_devx_umem_dereg(q[0].ring.umem) != 0, 1);
	SAME(mlx5dv_devx_obj_destroy(cq[0].object) != 0, 1);
	for (int i = 0; i < n; i++) {
		qp_destroy(&q[i]);
		cq_destroy(&cq[i]);
		if (mode)
			mlx5dv_devx_free_uar(q[i].uar);
	}
}

/* As NVSHMEM makes them: a collapsed completion queue, and the shared receive queue of verbs. */
static void collapsed(int log) {
	struct ibv_srq_init_attr a = {NULL, {16, 1, 0}};
	struct mlx5dv_obj of = {0};
	struct mlx5dv_srq srq = {0};
	struct mlx5dv_cq receives = {0};
	struct devx_cq cq;
	struct devx_qp q;
	uint8_t in[MAILBOX];
	srq.comp_mask = MLX5DV_SRQ_MASK_SRQN;
	MUST((of.srq.in = ibv_create_srq(d.pd, &a)));
	of.srq.out = &srq;
	MUST((of.cq.in = ibv_create_cq(d.context, 16, NULL, NULL, 0)));
	of.cq.out = &receives;
	DO(mlx5dv_init_obj(&of, MLX5DV_OBJ_SRQ | MLX5DV_OBJ_CQ));
	cq_begin(&d, &cq, in, log, 1);
	cq_finish(&d, &cq, in);
	qp_begin(&d, &q, in, LOG, &cq);
	put_bits(in, 0xb4, 23, 0, receives.cqn);
	put_bits(in, 0xc4, 26, 24, 1);
	put_bits(in, 0xc4, 23, 0, srq.srqn);
	qp_finish(&d, &q, in);
	qp_connect(&d, &q, q.number);
	carry(&q, &cq, 100);
	SAME(ibv_destroy_srq(of.srq.in), EBUSY);
	qp_destroy(&q);
	cq_destroy(&cq);
	DO(ibv_destroy_srq(of.srq.in));
	DO(ibv_destroy_cq(of.cq.in));
}

/* As rocSHMEM and UCX's kernels make them: one umem has all queues and records, at offsets of 64 bytes. */
static void together(void) {
	struct devx_cq cq;
	struct devx_qp q;
	uint8_t in[MAILBOX];
	size_t rings = (size_t)64 << LOG;
	struct umem all = umem_make(&d, 4 * rings, 0xff);
	memset(all.at + rings + 128, 0, 128);
	cq_begin(&d, &cq, in, 1, 0);
	cq.ring = cq.record = all;
	cq.ring_at = rings;
	cq.record_at = rings + 128;
	cq_finish(&d, &cq, in);
	qp_begin(&d, &q, in, LOG, &cq);
	q.ring = q.record = all;
	q.ring_at = 0;
	q.record_at = rings + 128 + 64;
	qp_finish(&d, &q, in);
	qp_connect(&d, &q, q.number);
	carry(&q, &cq, 50);
	DO(mlx5dv_devx_obj_destroy(q.object));
	DO(mlx5dv_devx_obj_destroy(cq.object));
	umem_free(&all);
}

/* The cyclic receive queue that UCX makes, shared by a queue pair and a DCT, which gets its messages from a
 * DCI. Entries of 32 bytes begin with a header, whose link the device does not follow. */
static void shared(void) {
	enum { ENTRIES = 4, LOG_STRIDE = 5, ROUNDS = 20, KEY = 0x5623ceaf };
	struct devx_cq sends, receives;
	struct devx_qp q, dci;
	struct mlx5dv_devx_obj *rmp, *dct;
	struct umem ring = umem_make(&d, 4096, 0xff), record = umem_make(&d, 64, 0);
	uint8_t in[MAILBOX] = {0}, out[MAILBOX] = {0};
	uint32_t rmpn, dctn, posted = 0;
	union ibv_gid gid;
	struct ibv_port_attr port;
	uint16_t last[] = {0x13};
	struct event event;
	struct mlx5dv_devx_event_channel *events = mlx5dv_devx_create_event_channel(d.context, 0);
	MUST(events);
	DO(ibv_query_gid(d.context, 1, 0, &gid));
	DO(ibv_query_port(d.context, 1, &port));
	put_bits(in, 0x00, 31, 16, 0x90c);
	put_bits(in, 0x20, 23, 20, 1);
	put_bits(in, 0x50, 31, 28, 1); /* cyclic */
	put_bits(in, 0x58, 23, 0, d.pdn);
	put_bits(in, 0x70, 19, 16, LOG_STRIDE);
	put_bits(in, 0x70, 4, 0, 2);
	put_bits(in, 0x78, 31, 0, record.umem->umem_id);
	put_bits(in, 0x7c, 31, 0, ring.umem->umem_id);
	MUST((rmp = devx_make(&d, in, sizeof in, out)));
	rmpn = get_bits(out, 8, 23, 0);

	cq_begin(&d, &sends, in, LOG, 0);
	cq_finish(&d, &sends, in);
	cq_begin(&d, &receives, in, LOG, 0);
	cq_finish(&d, &receives, in);
	qp_begin(&d, &q, in, LOG, &sends);
	put_bits(in, 0x28, 23, 0, 0xffffff); /* user index: the number of the queue pair counts */
	put_bits(in, 0xb4, 23, 0, receives.number);
	put_bits(in, 0xc4, 26, 24, 1);
	put_bits(in, 0xc4, 23, 0, rmpn);
	qp_finish(&d, &q, in);
	qp_connect(&d, &q, q.number);

	memset(in, 0, sizeof in);
	memset(out, 0, sizeof out);
	put_bits(in, 0x00, 31, 16, 0x710);
	put_bits(in, 0x18, 23, 0, receives.number);
	put_bits(in, 0x1c, 19, 17, 7);
	put_bits(in, 0x20, 12, 8, 1);
	put_bits(in, 0x24, 23, 0, rmpn);
	put_bits(in, 0x28, 23, 0, d.pdn);
	put_bits(in, 0x34, 31, 0, KEY);
	put_bits(in, 0x38, 26, 24, port.active_mtu);
	put_bits(in, 0x38, 23, 16, 1);
	MUST((dct = devx_make(&d, in, 128, out)));
	dctn = get_bits(out, 8, 23, 0);
	qp_begin(&d, &dci, in, LOG, &sends);
	put_bits(in, 0x18, 23, 16, 5);
	qp_finish(&d, &dci, in);
	qp_connect(&d, &dci, 0);

	for (int i = 0; i < ROUNDS; i++) {
		int dc = i & 1;
		struct devx_qp *from = dc ? &dci : &q;
		uint32_t announced = htobe32(++posted);
		uint8_t *entry = ring.at + ((posted - 1) % ENTRIES << LOG_STRIDE);
		uint8_t *b = qp_block(from, 2), *segment = b + 16;
		struct mlx5_cqe64 *cqe;
		memset(entry, 0xff, 16);
		wqe_data(entry + 16, 1000, mr->lkey, (uintptr_t)memory + 4096);
		__atomic_store_n((uint32_t *)record.at, announced, __ATOMIC_RELEASE);
		pattern_fill(memory, i, 0, 1000);
		wqe_control(from, b, MLX5_OPCODE_SEND, dc ? 5 : 2);
		if (dc) {
			struct mlx5_wqe_av *av = (struct mlx5_wqe_av *)segment;
			av->key.dc_key = htobe64(KEY);
			av->dqp_dct = htobe32(dctn | 1u << 31);
			av->rlid = htobe16(port.lid);
			av->grh_gid_fl = htobe32(1u << 30);
			memcpy(av->rgid, gid.raw, 16);
			segment += sizeof *av;
		}
		wqe_data(segment, 1000, mr->lkey, (uintptr_t)memory);
		qp_ring(from, b);
		SAME(cq_wait(&sends)->op_own >> 4, MLX5_CQE_REQ);
		cqe = cq_wait(&receives);
		SAME(cqe->op_own >> 4, MLX5_CQE_RESP_SEND);
		SAME(be32toh(cqe->byte_cnt), 1000);
		SAME(be16toh(cqe->wqe_counter), (posted - 1) % ENTRIES);
		SAME(be32toh(cqe->srqn_uidx) & 0xffffff, dc ? 0 : 0xffffff);
		SAME(be32toh(cqe->sop_drop_qpn) & 0xffffff, dc ? dctn : q.number);
		pattern_check(memory + 4096, i, 0, 1000, "received");
	}
	SAME(mlx5dv_devx_obj_destroy(rmp) != 0, 1);
	DO(mlx5dv_devx_obj_destroy(dct));
	/* UCX waits for this event before it destroys a queue pair. */
	DO(mlx5dv_devx_subscribe_devx_event(events, q.object, sizeof last, last, 5));
	memset(in, 0, sizeof in);
	put_bits(in, 0, 31, 16, 0x507);
	put_bits(in, 8, 23, 0, q.number);
	devx_modify(q.object, in);
	SAME(mlx5dv_devx_get_event(events, (void *)&event, sizeof event), sizeof event);
	SAME(event.cookie, 5);
	SAME(event.entry[1], 0x13);
	SAME(get_bits(event.entry, 0x38, 23, 0), q.number);
	mlx5dv_devx_destroy_event_channel(events);
	qp_destroy(&dci);
	qp_destroy(&q);
	DO(mlx5dv_devx_obj_destroy(rmp));
	cq_destroy(&receives);
	cq_destroy(&sends);
	umem_free(&ring);
	umem_free(&record);
}

int main(int argc, char **argv) {
	devx_open(&d, argc > 1 ? argv[1] : NULL);
	DO(posix_memalign((void **)&memory, 4096, SIZE));
	memset(memory, 0, SIZE);
	MUST((mr = ibv_reg_mr_iova2(d.pd, memory, SIZE, (uintptr_t)memory,
	                            IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
	                            IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_RELAXED_ORDERING)));
	pairs(0, 0);
	pairs(0, 1);
	collapsed(10);
	collapsed(0);
	together();
	shared();
	pairs(1, 0);
	pairs(2, 1);
	DO(ibv_dereg_mr(mr));
	devx_close(&d);
	printf("devx_queues: pairs, alone, collapsed, together, shared, registers alone: ok\n");
	return 0;
}
