#include "mailbox.h"

#include <endian.h>
#include <time.h>

void put_bits(uint8_t *box, size_t at, int high, int low, uint64_t value) {
	uint32_t word, mask = (uint32_t)((1ull << (high - low + 1)) - 1) << low;
	memcpy(&word, box + at, 4);
	word = htobe32((be32toh(word) & ~mask) | ((uint32_t)value << low & mask));
	memcpy(box + at, &word, 4);
}

uint64_t get_bits(const uint8_t *box, size_t at, int high, int low) {
	uint32_t word;
	memcpy(&word, box + at, 4);
	return be32toh(word) >> low & ((1ull << (high - low + 1)) - 1);
}

static void put64(uint8_t *at, uint64_t value) {
	value = htobe64(value);
	memcpy(at, &value, 8);
}

void devx_open(struct devx *d, const char *device) {
	struct mlx5dv_context_attr attr = {MLX5DV_CONTEXT_FLAGS_DEVX, 0};
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct mlx5dv_obj of = {0};
	struct mlx5dv_pd pd;
	MUST(list && list[0]);
	memset(d, 0, sizeof *d);
	for (int i = 0; list[i] && !d->context; i++)
		if (!device || !strcmp(device, ibv_get_device_name(list[i])))
			MUST((d->context = mlx5dv_open_device(list[i], &attr)));
	MUST(d->context);
	ibv_free_device_list(list);
	MUST((d->pd = ibv_alloc_pd(d->context)));
	of.pd.in = d->pd;
	of.pd.out = &pd;
	DO(mlx5dv_init_obj(&of, MLX5DV_OBJ_PD));
	d->pdn = pd.pdn;
	DO(mlx5dv_devx_query_eqn(d->context, 0, &d->eqn));
	MUST((d->uar = mlx5dv_devx_alloc_uar(d->context, MLX5DV_UAR_ALLOC_TYPE_NC)));
}

void devx_close(struct devx *d) {
	mlx5dv_devx_free_uar(d->uar);
	DO(ibv_dealloc_pd(d->pd));
	DO(ibv_close_device(d->context));
}

struct mlx5dv_devx_obj *devx_make(struct devx *d, const uint8_t *in, size_t length, uint8_t *out) {
	return mlx5dv_devx_obj_create(d->context, in, length, out, MAILBOX);
}

void devx_modify(struct mlx5dv_devx_obj *object, const uint8_t *in) {
	uint8_t out[MAILBOX] = {0};
	if (mlx5dv_devx_obj_modify(object, in, MAILBOX, out, sizeof out))
		FAIL("command %#x: status %#x, syndrome %#x (%s)", in[0] << 8 | in[1], out[0],
		     (unsigned)get_bits(out, 4, 31, 0), strerror(errno));
}

struct umem umem_make(struct devx *d, size_t size, int fill) {
	struct umem u = {NULL, NULL, size};
	DO(posix_memalign((void **)&u.at, 4096, size));
	memset(u.at, fill, size);
	MUST((u.umem = mlx5dv_devx_umem_reg(d->context, u.at, size, IBV_ACCESS_LOCAL_WRITE)));
	return u;
}

void umem_free(struct umem *u) {
	if (!u->umem)
		return;
	DO(mlx5dv_devx_umem_dereg(u->umem));
	free(u->at);
	u->umem = NULL;
}

void cq_begin(struct devx *d, struct devx_cq *q, uint8_t *in, int log, int collapsed) {
	memset(q, 0, sizeof *q);
	memset(in, 0, MAILBOX);
	q->log = log;
	q->collapsed = collapsed;
	put_bits(in, 0x00, 31, 16, 0x400);
	put_bits(in, 0x10, 20, 20, collapsed);
	put_bits(in, 0x10, 17, 17, 1); /* oi */
	put_bits(in, 0x1c, 28, 24, log);
	put_bits(in, 0x1c, 23, 0, d->uar->page_id);
	put_bits(in, 0x24, 7, 0, d->eqn);
}

void cq_finish(struct devx *d, struct devx_cq *q, uint8_t *in) {
	uint8_t out[MAILBOX] = {0};
	if (!q->ring.umem)
		q->ring = umem_make(d, q->collapsed ? 4096 : (size_t)64 << q->log, 0xff);
	if (!q->record.umem)
		q->record = umem_make(d, 64, 0);
	put_bits(in, 0x10, 25, 25, 1);
	put_bits(in, 0x14, 31, 0, q->record.umem->umem_id);
	put64(in + 0x48, q->record_at);
	put64(in + 0x50, q->ring_at);
	put_bits(in, 0x58, 31, 0, q->ring.umem->umem_id);
	put_bits(in, 0x5c, 31, 31, 1);
	if (!(q->object = devx_make(d, in, MAILBOX, out)))
		FAIL("CREATE_CQ: status %#x, syndrome %#x (%s)", out[0], (unsigned)get_bits(out, 4, 31, 0), strerror(errno));
	q->number = get_bits(out, 8, 23, 0);
}

void qp_begin(struct devx *d, struct devx_qp *q, uint8_t *in, int log, const struct devx_cq *send) {
	memset(q, 0, sizeof *q);
	memset(in, 0, MAILBOX);
	q->log = log;
	q->uar = d->uar;
	put_bits(in, 0x00, 31, 16, 0x500);
	put_bits(in, 0x18, 12, 11, 3);
	put_bits(in, 0x1c, 23, 0, d->pdn);
	put_bits(in, 0x20, 14, 11, log);
	put_bits(in, 0x94, 23, 0, send ? send->number : 0);
	put_bits(in, 0xc4, 26, 24, 3); /* no receives */
}

void qp_finish(struct devx *d, struct devx_qp *q, uint8_t *in) {
	uint8_t out[MAILBOX] = {0};
	if (!q->ring.umem)
		q->ring = umem_make(d, (size_t)64 << q->log, 0);
	if (!q->record.umem && !q->no_record)
		q->record = umem_make(d, 64, 0);
	q->mode = get_bits(in, 0x28, 31, 30);
	put_bits(in, 0x24, 23, 0, q->uar->page_id);
	put64(in + 0xb8, q->record_at);
	if (!q->no_record) {
		put_bits(in, 0xe8, 28, 28, 1);
		put_bits(in, 0xfc, 31, 0, q->record.umem->umem_id);
	}
	put64(in + 0x100, q->ring_at);
	put_bits(in, 0x108, 31, 0, q->ring.umem->umem_id);
	put_bits(in, 0x10c, 31, 31, 1);
	if (!(q->object = devx_make(d, in, MAILBOX, out)))
		FAIL("CREATE_QP: status %#x, syndrome %#x (%s)", out[0], (unsigned)get_bits(out, 4, 31, 0), strerror(errno));
	q->number = get_bits(out, 8, 23, 0);
}

void cq_destroy(struct devx_cq *q) {
	DO(mlx5dv_devx_obj_destroy(q->object));
	umem_free(&q->ring);
	umem_free(&q->record);
}

void qp_destroy(struct devx_qp *q) {
	DO(mlx5dv_devx_obj_destroy(q->object));
	umem_free(&q->ring);
	umem_free(&q->record);
}

static void qp_command(struct devx_qp *q, uint8_t *in, uint32_t opcode) {
	memset(in, 0, MAILBOX);
	put_bits(in, 0, 31, 16, opcode);
	put_bits(in, 8, 23, 0, q->number);
}

void qp_connect(struct devx *d, struct devx_qp *q, uint32_t peer) {
	uint8_t in[MAILBOX];
	struct ibv_port_attr port;
	union ibv_gid gid;
	DO(ibv_query_port(d->context, 1, &port));
	DO(ibv_query_gid(d->context, 1, 0, &gid));
	qp_command(q, in, 0x502);
	put_bits(in, 0x18, 12, 11, 3);
	put_bits(in, 0x54, 23, 16, 1);     /* port */
	put_bits(in, 0xa8, 15, 13, 7);     /* rre, rwe, rae: they count here */
	put_bits(in, 0xa8, 19, 16, 3);
	devx_modify(q->object, in);
	qp_command(q, in, 0x503);
	put_bits(in, 0x20, 31, 29, port.active_mtu);
	put_bits(in, 0x20, 28, 24, 30);
	put_bits(in, 0x2c, 23, 0, peer);
	put_bits(in, 0x38, 7, 0, 64);
	memcpy(in + 0x40, gid.raw, 16);
	put_bits(in, 0x34, 23, 23, 1);
	put_bits(in, 0x34, 15, 0, port.lid);
	put_bits(in, 0xa8, 23, 21, 4);     /* no rights, and no bits in opt_param_mask: they stay */
	put_bits(in, 0xac, 28, 24, 12);
	devx_modify(q->object, in);
	qp_command(q, in, 0x504);
	put_bits(in, 0x38, 31, 27, 14);
	put_bits(in, 0x88, 23, 21, 4);
	put_bits(in, 0x88, 18, 13, 0x3f);
	devx_modify(q->object, in);
}

void qp_query(struct devx_qp *q, uint8_t *out) {
	uint8_t in[MAILBOX];
	qp_command(q, in, 0x50b);
	memset(out, 0, MAILBOX);
	DO(mlx5dv_devx_obj_query(q->object, in, 16, out, MAILBOX));
}

uint8_t *qp_block(struct devx_qp *q, int blocks) {
	size_t size = (size_t)64 << q->log;
	uint8_t *at = q->ring.at + q->ring_at + (size_t)q->posted * 64 % size;
	MUST(at + 64 * blocks <= q->ring.at + q->ring_at + size); /* the programs post only what does not wrap */
	memset(at, 0, 64 * blocks);
	return at;
}

void wqe_control(struct devx_qp *q, uint8_t *block, uint32_t opcode, int ds) {
	put_bits(block, 0, 31, 0, (q->posted & 0xffff) << 8 | opcode);
	put_bits(block, 4, 31, 0, q->number << 8 | ds);
	block[11] = MLX5_WQE_CTRL_CQ_UPDATE;
	q->posted += (ds + 3) / 4;
}

void wqe_remote(uint8_t *segment, uint64_t addr, uint32_t key) {
	put64(segment, addr);
	put_bits(segment, 8, 31, 0, key);
}

void wqe_data(uint8_t *segment, uint32_t length, uint32_t key, uint64_t addr) {
	put_bits(segment, 0, 31, 0, length);
	put_bits(segment, 4, 31, 0, key);
	put64(segment + 8, addr);
}

void qp_ring(struct devx_qp *q, const uint8_t *block) {
	uint32_t record = htobe32(q->posted & 0xffff);
	uint64_t value;
	if (q->mode == 0) {
		__atomic_store_n((uint32_t *)(q->record.at + q->record_at + 4), record, __ATOMIC_RELEASE);
		memcpy(&value, block, 8); /* as libmlx5 rings: the first bytes of the WQE */
		__atomic_store_n((uint64_t *)q->uar->reg_addr, value, __ATOMIC_RELEASE);
		return;
	}
	/* The register alone: the index of the next block, and the number of the queue. */
	value = htobe64((uint64_t)(q->posted & 0xffff) << 40 | (uint64_t)q->number << 8);
	__atomic_store_n((uint64_t *)q->uar->reg_addr, value, __ATOMIC_RELEASE);
}

struct mlx5_cqe64 *cq_wait(struct devx_cq *q) {
	size_t at = q->collapsed ? 0 : q->index & ((1u << q->log) - 1);
	struct mlx5_cqe64 *cqe = (struct mlx5_cqe64 *)(q->ring.at + q->ring_at) + at;
	time_t end = time(NULL) + 60;
	for (;;) {
		uint8_t own = __atomic_load_n(&cqe->op_own, __ATOMIC_ACQUIRE);
		int ready = q->collapsed ? own >> 4 != 15 && be16toh(cqe->wqe_counter) == (uint16_t)q->index
		                         : own >> 4 != 15 && (own & 1) == (q->index >> q->log & 1);
		if (ready)
			break;
		if (time(NULL) > end)
			FAIL("no completion %u (op_own %#x, counter %u)", q->index, own, be16toh(cqe->wqe_counter));
	}
	q->index++;
	return cqe;
}
