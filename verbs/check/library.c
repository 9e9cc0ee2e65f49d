#include "library.h"

void box(uint8_t *in, const char *words) {
	unsigned at, value;
	int n;
	memset(in, 0, MAILBOX);
	for (; sscanf(words, "%x:%x%n", &at, &value, &n) == 2; words += n) {
		MUST(at % 4 == 0 && at < MAILBOX);
		put_bits(in, at, 31, 0, value);
	}
	MUST(!*words);
}

void query_caps(struct ibv_context *context, uint32_t group, uint8_t *out) {
	uint8_t in[MAILBOX];
	box(in, "000:01000000");
	put_bits(in, 4, 15, 0, group << 1 | 1);
	memset(out, 0, CAPS);
	DO(mlx5dv_devx_general_cmd(context, in, 16, out, CAPS));
}

struct mlx5dv_devx_obj *make(struct ibv_context *context, const uint8_t *in, uint32_t *number) {
	uint8_t out[16] = {0};
	struct mlx5dv_devx_obj *object = mlx5dv_devx_obj_create(context, in, MAILBOX, out, sizeof out);
	if (!object)
		FAIL("command %#x: status %#x, syndrome %#x (%s)", in[0] << 8 | in[1], out[0],
		     (unsigned)get_bits(out, 4, 31, 0), strerror(errno));
	*number = (uint32_t)get_bits(out, 8, 23, 0);
	return object;
}

struct umem umem_with(struct ibv_context *context, size_t size, int fill, uint32_t access) {
	struct umem u = {NULL, NULL, size};
	DO(posix_memalign((void **)&u.at, 4096, size));
	memset(u.at, fill, size);
	MUST((u.umem = mlx5dv_devx_umem_reg(context, u.at, size, access)));
	return u;
}

uint32_t pd_number(struct ibv_pd *pd) {
	struct mlx5dv_pd out = {0};
	struct mlx5dv_obj o = {0};
	o.pd.in = pd;
	o.pd.out = &out;
	DO(mlx5dv_init_obj(&o, MLX5DV_OBJ_PD));
	return out.pdn;
}

uint32_t cq_number(struct ibv_cq *cq) {
	struct mlx5dv_cq out = {0};
	struct mlx5dv_obj o = {0};
	o.cq.in = cq;
	o.cq.out = &out;
	DO(mlx5dv_init_obj(&o, MLX5DV_OBJ_CQ));
	return out.cqn;
}

uint32_t srq_number(struct ibv_srq *srq) {
	struct mlx5dv_srq out = {0};
	struct mlx5dv_obj o = {0};
	out.comp_mask = MLX5DV_SRQ_MASK_SRQN;
	o.srq.in = srq;
	o.srq.out = &out;
	DO(mlx5dv_init_obj(&o, MLX5DV_OBJ_SRQ));
	return out.srqn;
}

struct ibv_ah_attr path_attr(const struct path *p) {
	struct ibv_ah_attr attr = {0};
	attr.port_num = 1;
	attr.dlid = p->lid;
	if (p->lid)
		return attr;
	attr.is_global = 1;
	attr.grh.dgid = p->gid;
	attr.grh.sgid_index = p->index;
	attr.grh.hop_limit = 255;
	return attr;
}

void find_path(struct ibv_pd *pd, struct path *p) {
	static const uint8_t ipv4[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
	struct ibv_gid_entry entry;
	struct ibv_port_attr port;
	struct ibv_ah_attr attr;
	struct mlx5dv_obj o = {0};
	struct mlx5dv_ah out = {0};
	uint32_t i;
	memset(p, 0, sizeof *p);
	DO(ibv_query_port(pd->context, 1, &port));
	p->lid = port.lid;
	if (p->lid)
		return;
	for (i = 0;; i++) {
		MUST(i < 256); /* otherwise the port has no GID of this kind */
		if (ibv_query_gid_ex(pd->context, 1, i, &entry, 0) == 0 && entry.gid_type == IBV_GID_TYPE_ROCE_V2 &&
		    !memcmp(entry.gid.raw, ipv4, sizeof ipv4))
			break;
	}
	p->gid = entry.gid;
	p->index = (uint8_t)i;
	attr = path_attr(p);
	MUST((o.ah.in = ibv_create_ah(pd, &attr)));
	o.ah.out = &out;
	DO(mlx5dv_init_obj(&o, MLX5DV_OBJ_AH));
	memcpy(p->mac, out.av->rmac, sizeof p->mac);
	DO(memcmp(out.av->rgid, p->gid.raw, 16));
	DO(ibv_destroy_ah(o.ah.in));
}

void box_path(uint8_t *in, const struct path *p) {
	if (p->lid) {
		put_bits(in, 0x34, 15, 0, p->lid);
		put_bits(in, 0x38, 31, 0, 0);
		put_bits(in, 0x50, 15, 0, 0); /* UDP port */
		return;
	}
	put_bits(in, 0x38, 23, 16, p->index);
	memcpy(in + 0x40, p->gid.raw, 16);
	memcpy(in + 0x56, p->mac, 6);
}

uint8_t *segment(const struct queue *q, int index) {
	return q->wqes + ((size_t)q->posted * 64 + 16 * (size_t)index) % ((size_t)64 << q->log_wqes);
}

void control(const struct queue *q, uint32_t opcode, int ds) {
	for (int i = 0; i < (ds + 3) / 4 * 4; i++)
		memset(segment(q, i), 0, 16);
	put_bits(segment(q, 0), 0, 31, 0, (q->posted & 0xffff) << 8 | opcode);
	put_bits(segment(q, 0), 4, 31, 0, q->qpn << 8 | (uint32_t)ds);
	segment(q, 0)[11] = MLX5_WQE_CTRL_CQ_UPDATE;
}

void pair64(uint8_t *segment, uint64_t first, uint64_t second) {
	first = htobe64(first);
	second = htobe64(second);
	memcpy(segment, &first, 8);
	memcpy(segment + 8, &second, 8);
}

void move(const struct queue *q, uint32_t opcode, uint64_t remote, uint32_t rkey, uint64_t local, uint32_t lkey,
          uint32_t length) {
	control(q, opcode, 3);
	wqe_remote(segment(q, 1), remote, rkey);
	wqe_data(segment(q, 2), length, lkey, local);
}

void ring_index(const struct queue *q, void *reg) {
	uint64_t value = htobe64((uint64_t)(q->posted & 0xffff) << 40 | (uint64_t)q->qpn << 8);
	__atomic_store_n((uint64_t *)reg, value, __ATOMIC_RELAXED);
}

void ring_bytes(const struct queue *q, uint32_t block, void *reg) {
	uint64_t value;
	memcpy(&value, q->wqes + ((size_t)block & ((1u << q->log_wqes) - 1)) * 64, 8);
	__atomic_store_n((uint64_t *)reg, value, __ATOMIC_RELAXED);
}

uint32_t last_word(const struct queue *q, uint32_t entry) {
	return be32toh(__atomic_load_n((uint32_t *)(q->cqes + (size_t)entry * 64 + 60), __ATOMIC_ACQUIRE));
}

const struct amo amos[AMOS] = {
	{"set", 0, 0xf0, 0, ~0ull, 0},
	{"inc", 1, 1, 0, 0, 0},
	{"add", 1, 0xffffff0f, 0, 0, 0},
	{"and", 0, 0x40005076, 0, ~0x40005076ull, 0},
	{"or", 0, 0x876, 0, 0x876, 0},
	{"xor", 1, 0xffffffff, ~0ull, 0, 0},
	{"fetch", 1, 0, 0, 0, 0},
	{"fetch_add", 1, 12345, 0, 0, 0},
	{"swap", 0, 9, 0, ~0ull, 0},
	{"compare_swap", 0, 11, 9, ~0ull, ~0ull},
	{"compare_swap", 0, 12, 9, ~0ull, ~0ull}, /* of another value */
};

static uint64_t low(uint64_t value, uint32_t n) { return n == 8 ? value : (uint32_t)value; }

uint64_t amo_result(const struct amo *a, uint64_t before, uint32_t n) {
	if (a->add)
		return low(a->compare ? before ^ a->value : before + a->value, n);
	if (low((before ^ a->compare) & a->compare_mask, n))
		return before;
	return low((before & ~a->swap_mask) | (a->value & a->swap_mask), n);
}

uint32_t amo_opcode(const struct amo *a, uint32_t n) {
	return (uint32_t)(n == 8 ? 9 : 8) << 24 | (a->add ? MLX5_OPCODE_ATOMIC_MASKED_FA : MLX5_OPCODE_ATOMIC_MASKED_CS);
}

int amo_operands(const struct queue *q, int at, const struct amo *a, uint32_t n) {
	if (n == 4) {
		put_bits(segment(q, at), 0, 31, 0, a->value);
		put_bits(segment(q, at), 4, 31, 0, a->compare);
		put_bits(segment(q, at), 8, 31, 0, a->swap_mask);
		put_bits(segment(q, at), 12, 31, 0, a->compare_mask);
		return 1;
	}
	pair64(segment(q, at), a->value, a->compare);
	if (a->add)
		return 1;
	pair64(segment(q, at + 1), a->swap_mask, a->compare_mask);
	return 2;
}

uint64_t amo_old(const void *stored, uint32_t n) {
	uint64_t value = 0;
	memcpy(&value, stored, n);
	return n == 8 ? value : be32toh((uint32_t)value);
}
