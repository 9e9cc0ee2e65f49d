/* rocshmem: the order in which rocSHMEM (GDA, mlx5) calls libmlx5, and the way in which its kernels post and
 * poll.
 *
 *   rocshmem            with UARs of type BF and NC
 *   rocshmem dedicated  and of type NC_DEDICATED, which rocSHMEM needs (rdma-core 45 or newer)
 *
 * One umem has the send queue, behind it a CQ of two entries, and the two records in the last two lines of
 * 128 bytes. Each WQE has one block and a completion. Kernels store a record of 16 bits and the first eight
 * bytes of the WQE in the register, and poll the last word of an entry: of entry 0 where the CQ is collapsed.
 */
#include "library.h"

enum { LOG = 10, SIZE = 1 << LOG, LINE = 128, MEMORY = 65536, ROUNDS = 1000 };

struct endpoint {
	struct queue q;
	int collapsed;
	struct umem all;
	struct mlx5dv_devx_uar *uar;
	struct mlx5dv_devx_obj *cq, *qp;
};

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_mr *mr;
static uint8_t *memory;
static struct path path;
static struct ibv_port_attr port;

static void create(struct endpoint *e, uint32_t uar, int collapsed) {
	const size_t entries = SIZE * 64, size = (entries + 2 * 64 + 2 * LINE + 4095) & ~(size_t)4095;
	const size_t record = size - 2 * LINE, cq_record = size - LINE;
	struct mlx5dv_devx_umem_in umem = {0};
	uint8_t in[MAILBOX];
	uint32_t eqn;
	memset(e, 0, sizeof *e);
	e->collapsed = collapsed;
	e->q.log_wqes = LOG;
	e->q.log_cqes = 1;
	DO(posix_memalign((void **)&e->all.at, 4096, size));
	memset(e->all.at, 0, size);
	memset(e->all.at + entries, 0xff, 2 * 64);
	umem.addr = e->all.at;
	umem.size = size;
	umem.access = IBV_ACCESS_LOCAL_WRITE;
	umem.pgsz_bitmap = ~4095ull;
	MUST((e->all.umem = mlx5dv_devx_umem_reg_ex(context, &umem)));
	MUST((e->uar = mlx5dv_devx_alloc_uar(context, uar)));
	DO(mlx5dv_devx_query_eqn(context, 0, &eqn));

	box(in, "000:04000000 010:02020000 01c:01000000 05c:80000000");
	put_bits(in, 0x10, 20, 20, (uint64_t)collapsed);
	put_bits(in, 0x14, 31, 0, e->all.umem->umem_id);
	put_bits(in, 0x1c, 23, 0, e->uar->page_id);
	put_bits(in, 0x24, 7, 0, eqn);
	put_bits(in, 0x4c, 31, 0, cq_record);
	put_bits(in, 0x54, 31, 0, entries);
	put_bits(in, 0x58, 31, 0, e->all.umem->umem_id);
	e->cq = make(context, in, &e->q.cqn);

	box(in, "000:05000000 018:00001800 020:00005000 0c4:03000000 0e8:10000000 10c:80000000");
	put_bits(in, 0x1c, 23, 0, pd_number(pd));
	put_bits(in, 0x24, 23, 0, e->uar->page_id);
	put_bits(in, 0x94, 23, 0, e->q.cqn);
	put_bits(in, 0xb4, 23, 0, e->q.cqn);
	put_bits(in, 0xbc, 31, 0, record);
	put_bits(in, 0xfc, 31, 0, e->all.umem->umem_id);
	put_bits(in, 0x108, 31, 0, e->all.umem->umem_id);
	e->qp = make(context, in, &e->q.qpn);
	e->q.wqes = e->all.at;
	e->q.cqes = e->all.at + entries;
	e->q.record = e->all.at + record;
	e->q.reg = e->uar->reg_addr;
}

static void connect_to(struct endpoint *e, const struct endpoint *peer) {
	struct ibv_ah_attr a = path_attr(&path);
	uint8_t in[MAILBOX];
	uint16_t vlan;
	box(in, "000:05020000 018:00001800 054:00010000 0a8:0003e000"); /* atomic_mode 3 */
	put_bits(in, 8, 23, 0, e->q.qpn);
	devx_modify(e->qp, in);
	if (!path.lid)
		DO(ibv_resolve_eth_l2_from_gid(context, &a, path.mac, &vlan)); /* not by create_ah */
	box(in, "000:05030000 020:1e000000 038:000000ff 03c:00001234 050:0000c123 054:00010000 0a8:00800000 "
	        "0ac:0c000000");
	put_bits(in, 8, 23, 0, e->q.qpn);
	put_bits(in, 0x20, 31, 29, port.active_mtu);
	put_bits(in, 0x2c, 23, 0, peer->q.qpn);
	box_path(in, &path);
	devx_modify(e->qp, in);
	box(in, "000:05040000 038:70000000 088:5087e000"); /* log_ack_req_freq 5 */
	put_bits(in, 8, 23, 0, e->q.qpn);
	devx_modify(e->qp, in);
}

static void destroy(struct endpoint *e) {
	DO(mlx5dv_devx_obj_destroy(e->qp));
	DO(mlx5dv_devx_obj_destroy(e->cq));
	mlx5dv_devx_free_uar(e->uar);
	umem_free(&e->all);
}

/* Announces a WQE of one block, and waits for its completion. */
static void complete(struct endpoint *e) {
	uint32_t block = e->q.posted++, entry = e->collapsed ? 0 : block & 1, word;
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	__atomic_store_n((uint16_t *)(e->q.record + 6), htobe16((uint16_t)e->q.posted), __ATOMIC_RELEASE);
	ring_bytes(&e->q, block, e->q.reg);
	AWAIT((word = last_word(&e->q, entry)) >> 16 == (block & 0xffff) && (word & 0xff) >> 4 != MLX5_CQE_INVALID);
	SAME((word & 0xff) >> 4, MLX5_CQE_REQ);
}

static void transfer(struct endpoint *e, uint32_t opcode, size_t remote, size_t local, uint32_t n) {
	move(&e->q, opcode, (uintptr_t)memory + remote, mr->rkey, (uintptr_t)memory + local, mr->lkey, n);
	complete(e);
}

static void atomic(struct endpoint *e, uint32_t opcode, uint64_t value, uint64_t compare) {
	control(&e->q, opcode, 4);
	wqe_remote(segment(&e->q, 1), (uintptr_t)memory + 8192, mr->rkey);
	pair64(segment(&e->q, 2), value, compare);
	wqe_data(segment(&e->q, 3), 8, mr->lkey, (uintptr_t)memory + 8200);
	complete(e);
}

static uint64_t at64(size_t at) { return __atomic_load_n((uint64_t *)(memory + at), __ATOMIC_RELAXED); }

static void operations(struct endpoint *e, struct endpoint *other) {
	for (uint64_t i = 1; i <= ROUNDS; i++) { /* both may ring one page */
		memcpy(memory, &i, 8);
		transfer(e, MLX5_OPCODE_RDMA_WRITE, 4096, 0, 8);
		transfer(other, MLX5_OPCODE_RDMA_WRITE, 4104, 0, 8);
		SAME(at64(4096), i);
		SAME(at64(4104), i);
	}
	pattern_fill(memory + 12288, e->q.qpn, 0, 4000);
	transfer(e, MLX5_OPCODE_RDMA_READ, 12288, 20480, 4000);
	pattern_check(memory + 20480, e->q.qpn, 0, 4000, "read");
	memset(memory + 8192, 0, 16);
	for (uint64_t i = 0; i < ROUNDS; i++) {
		atomic(e, MLX5_OPCODE_ATOMIC_FA, 3, 0);
		SAME(at64(8200), 3 * i);
	}
	atomic(e, MLX5_OPCODE_ATOMIC_CS, 7, 3 * ROUNDS);
	SAME(at64(8200), 3 * ROUNDS);
	SAME(at64(8192), 7);
}

int main(int argc, char **argv) {
	const uint32_t uars[] = {MLX5DV_UAR_ALLOC_TYPE_BF, MLX5DV_UAR_ALLOC_TYPE_NC, NC_DEDICATED};
	struct mlx5dv_context_attr attr = {MLX5DV_CONTEXT_FLAGS_DEVX, 0};
	struct ibv_device **list = ibv_get_device_list(NULL);
	size_t types = argc > 1 && !strcmp(argv[1], "dedicated") ? 3 : 2;
	MUST(list && list[0]);
	MUST((context = mlx5dv_open_device(list[0], &attr)));
	ibv_free_device_list(list);
	DO(ibv_query_port(context, 1, &port));
	MUST((pd = ibv_alloc_pd(context)));
	find_path(pd, &path);
	DO(posix_memalign((void **)&memory, 4096, MEMORY));
	memset(memory, 0, MEMORY);
	MUST((mr = ibv_reg_mr(pd, memory, MEMORY,
	                      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
	                          IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_RELAXED_ORDERING)));
	if (types == 2) {
		MUST(!mlx5dv_devx_alloc_uar(context, NC_DEDICATED));
		SAME(errno, EOPNOTSUPP);
	}
	for (size_t i = 0; i < types; i++)
		for (int collapsed = 0; collapsed <= 1; collapsed++) {
			struct endpoint a, b;
			snprintf(doing, sizeof doing, "UAR type %#x, collapsed %d", uars[i], collapsed);
			create(&a, uars[i], collapsed);
			create(&b, uars[i], collapsed);
			connect_to(&a, &b);
			connect_to(&b, &a);
			operations(&a, &b);
			operations(&b, &a);
			destroy(&a);
			destroy(&b);
		}
	DO(ibv_dereg_mr(mr));
	free(memory);
	DO(ibv_dealloc_pd(pd));
	DO(ibv_close_device(context));
	printf("rocshmem: %zu types of UARs, CQs of two entries: ok\n", types);
	return 0;
}
