/* The layer of firmware commands (DEVX) below the commands that make objects, by libmlx5's own
 * functions: commands that fail with an errno and a status, umems in every kind of memory that rings may be
 * in, UAR pages.
 *
 *   devx        the device has firmware commands
 *   devx off    it has none, and says so */
#include "buffer.h"
#include "check.h"

#include <sys/mman.h>
#include <unistd.h>

#include <infiniband/mlx5dv.h>

enum { PAGE = 4096, SIZE = 16 * PAGE, PAGES = 64 };

static struct ibv_context *context;

static struct ibv_context *open_devx(void) {
	struct mlx5dv_context_attr attr = {0};
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *c;
	MUST(list && list[0]);
	attr.flags = MLX5DV_CONTEXT_FLAGS_DEVX;
	c = mlx5dv_open_device(list[0], &attr);
	ibv_free_device_list(list);
	return c;
}

/* Runs a command of 16 bytes, whose third word is given. */
static int command(uint16_t op, uint32_t third, void *out, size_t room) {
	uint8_t in[16] = {0};
	in[0] = (uint8_t)(op >> 8);
	in[1] = (uint8_t)op;
	in[8] = (uint8_t)(third >> 24);
	in[9] = (uint8_t)(third >> 16);
	memset(out, 0xa5, room);
	return mlx5dv_devx_general_cmd(context, in, sizeof in, out, room);
}

static uint32_t word(const uint8_t *b, size_t at) {
	return (uint32_t)b[at] << 24 | (uint32_t)b[at + 1] << 16 | (uint32_t)b[at + 2] << 8 | b[at + 3];
}

static void commands(void) {
	enum { ADAPTER = 0x101, ROCE_ADDRESS = 0x760, CREATE_QP = 0x500, VNIC_ENV = 0x76f };
	uint8_t out[272];
	union ibv_gid gid;
	uint32_t eqn = 0, other = 0;
	strcpy(doing, "commands");
	DO(command(ADAPTER, 0, out, sizeof out));
	SAME(word(out, 0), 0);
	SAME(word(out, 0x28), 0x2c9);
	DO(ibv_query_gid(context, 1, 3, &gid));
	DO(command(ROCE_ADDRESS, 3u << 16, out, 48));
	MUST(!memcmp(out + 16, &gid, 16));
	SAME(out[0x2b], 2);
	strcpy(doing, "commands that fail");
	SAME(command(ROCE_ADDRESS, 64u << 16, out, 48), EREMOTEIO);
	SAME(out[0], 3);
	MUST(word(out, 4) != 0);
	SAME(word(out, 16), 0);
	SAME(command(VNIC_ENV, 0, out, 16), EREMOTEIO);
	SAME(out[0], 2);
	SAME(command(ADAPTER, 0, out, 271), EREMOTEIO);
	SAME(out[0], 0x51);
	SAME(command(CREATE_QP, 0, out, 16), EINVAL); /* the kernel lets no command through that makes objects */
	SAME(out[0], 0xa5);
	strcpy(doing, "event queues");
	DO(mlx5dv_devx_query_eqn(context, 0, &eqn));
	DO(mlx5dv_devx_query_eqn(context, 1, &other));
	MUST(eqn && other && eqn != other);
	MUST(mlx5dv_devx_query_eqn(context, (uint32_t)context->num_comp_vectors, &eqn) != 0);
}

/* Registers memory with a pattern in it, checks that the pattern stays and that it can be written. */
static struct mlx5dv_devx_umem *keeps(void *at, size_t n, uint32_t access) {
	struct mlx5dv_devx_umem *u;
	pattern_fill(at, n, 0, n);
	MUST((u = mlx5dv_devx_umem_reg(context, at, n, access)));
	MUST(u->umem_id != 0 && u->umem_id < 1u << 24);
	pattern_check(at, n, 0, n, "memory of a umem");
	memset(at, 0, n);
	return u;
}

static void refused(void *at, size_t n, uint32_t access, int error) {
	errno = 0;
	MUST(!mlx5dv_devx_umem_reg(context, at, n, access));
	SAME(errno, error);
}

static void *map(size_t n) {
	void *at = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	MUST(at != MAP_FAILED);
	return at;
}

/* In huge pages, if the host has any. Of a huge page the whole is moved. */
static void huge(void) {
	enum { HUGE = 2 << 20 };
	struct mlx5dv_devx_umem *u, *v, *w;
	uint8_t *at = mmap(NULL, 2 * HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
	if (at == MAP_FAILED)
		return;
	strcpy(doing, "umems in huge pages");
	pattern_fill(at, 7, 0, 2 * HUGE);
	u = keeps(at + PAGE, 100, 0);
	v = keeps(at + 3 * PAGE, PAGE, 0);
	pattern_check(at + 4 * PAGE, 7, 4 * PAGE, 2 * HUGE - 4 * PAGE, "beside the umems");
	w = keeps(at, 2 * HUGE, 0);
	DO(mlx5dv_devx_umem_dereg(u));
	DO(mlx5dv_devx_umem_dereg(v));
	DO(mlx5dv_devx_umem_dereg(w));
	munmap(at, 2 * HUGE);
	puts("devx: umems in huge pages: ok");
}

static void umems(void) {
	enum { SMALL = 40 };
	struct mlx5dv_devx_umem *u, *v, *w, *all[SMALL];
	uint8_t *at, *small[SMALL], *next;
	void *aligned;
	size_t i;
	strcpy(doing, "umems of each kind of memory");
	at = map(SIZE);
	u = keeps(at, SIZE, 0);
	DO(mlx5dv_devx_umem_dereg(u));
	u = keeps(at, SIZE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
	DO(mlx5dv_devx_umem_dereg(u));
	munmap(at, SIZE);
	DO(posix_memalign(&aligned, PAGE, PAGE));
	u = keeps(aligned, PAGE, 0);
	DO(mlx5dv_devx_umem_dereg(u));
	free(aligned);
	at = map(1 << 26);
	u = keeps(at, 1 << 26, IBV_ACCESS_LOCAL_WRITE);
	DO(mlx5dv_devx_umem_dereg(u));
	munmap(at, 1 << 26);

	strcpy(doing, "umems that share pages");
	for (i = 0; i < SMALL; i++) { /* in the heap of malloc */
		MUST((small[i] = malloc(200 + 61 * i)));
		all[i] = keeps(small[i], 200 + 61 * i, IBV_ACCESS_LOCAL_WRITE);
		MUST(!i || all[i]->umem_id != all[i - 1]->umem_id);
	}
	for (i = 0; i < SMALL; i += 2)
		DO(mlx5dv_devx_umem_dereg(all[i]));
	for (i = 0; i < SMALL; i += 2)
		all[i] = keeps(small[i], 200 + 61 * i, 0);
	for (i = 0; i < SMALL; i++)
		DO(mlx5dv_devx_umem_dereg(all[i]));
	for (i = 0; i < SMALL; i++)
		free(small[i]);

	strcpy(doing, "umems that overlap");
	at = map(SIZE);
	u = keeps(at + PAGE, 2 * PAGE, 0);
	v = keeps(at + 4 * PAGE + 64, 128, 0);
	w = keeps(at, SIZE, 0);
	DO(mlx5dv_devx_umem_dereg(u));
	u = keeps(at + 100, SIZE - 200, 0);
	DO(mlx5dv_devx_umem_dereg(w));
	DO(mlx5dv_devx_umem_dereg(v));

	strcpy(doing, "umems whose memory is unmapped");
	munmap(at, SIZE);
	refused(at, SIZE, 0, EFAULT);
	next = mmap(at, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	MUST(next == at);
	v = keeps(next, SIZE, 0);
	munmap(next + 2 * PAGE, PAGE);
	refused(next, SIZE, 0, EFAULT);
	w = keeps(next, 2 * PAGE, 0);
	DO(mlx5dv_devx_umem_dereg(u));
	DO(mlx5dv_devx_umem_dereg(v));
	DO(mlx5dv_devx_umem_dereg(w));
	munmap(next, SIZE);
}

static void mistakes(void) {
	struct mlx5dv_devx_umem_in in = {0};
	struct mlx5dv_devx_umem *u;
	struct buffer b;
	uint8_t *at = map(SIZE);
	void *shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	void *constant = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	MUST(shared != MAP_FAILED && constant != MAP_FAILED);
	strcpy(doing, "umems that cannot be");
	munmap(at + SIZE - PAGE, PAGE);
	refused(at, SIZE, 0, EFAULT); /* one page more than there is */
	refused(at + SIZE - PAGE - 8, 16, 0, EFAULT);
	refused(at, 0, 0, EINVAL);
	refused(at, SIZE_MAX, 0, EINVAL);
	refused(at, PAGE, IBV_ACCESS_REMOTE_ATOMIC, EINVAL);
	refused(at, PAGE, IBV_ACCESS_REMOTE_WRITE, EINVAL);
	refused(NULL, PAGE, 0, EFAULT);
	refused(shared, PAGE, 0, EFAULT); /* the device replaces no memory that others have */
	refused(constant, PAGE, 0, EFAULT);

	strcpy(doing, "sizes of pages");
	in.addr = at;
	in.size = 2 * PAGE;
	in.pgsz_bitmap = ~0xfffull;
	MUST((u = mlx5dv_devx_umem_reg_ex(context, &in)));
	DO(mlx5dv_devx_umem_dereg(u));
	in.pgsz_bitmap = 1 << 11;
	MUST(!mlx5dv_devx_umem_reg_ex(context, &in) && errno == EINVAL);

	strcpy(doing, "umems of dma-bufs");
	buffer_make(&b, SIZE);
	in.pgsz_bitmap = ~0xfffull;
	in.comp_mask = MLX5DV_UMEM_MASK_DMABUF;
	in.addr = (void *)(uintptr_t)PAGE; /* the offset */
	in.dmabuf_fd = b.fd;
	MUST((u = mlx5dv_devx_umem_reg_ex(context, &in)));
	DO(mlx5dv_devx_umem_dereg(u));
	in.size = SIZE;
	MUST(!mlx5dv_devx_umem_reg_ex(context, &in) && errno == EINVAL);
	in.dmabuf_fd = 999;
	MUST(!mlx5dv_devx_umem_reg_ex(context, &in) && errno == EBADF);
	buffer_free(&b);
	munmap(at, SIZE - PAGE);
	munmap(shared, PAGE);
	munmap(constant, PAGE);
}

static void verbs_objects(void) {
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_qp_init_attr init = {NULL, NULL, NULL, NULL, {8, 8, 1, 1, 0}, IBV_QPT_RC, 0};
	strcpy(doing, "verbs objects");
	MUST((pd = ibv_alloc_pd(context)));
	MUST((cq = ibv_create_cq(context, 16, NULL, NULL, 0)));
	init.send_cq = init.recv_cq = cq;
	MUST((qp = ibv_create_qp(pd, &init)));
	DO(ibv_destroy_qp(qp));
	DO(ibv_destroy_cq(cq));
	DO(ibv_dealloc_pd(pd));
}

/* libmlx5 makes two registers of each page of type BF. A page is one object's while there are any: then
 * objects share pages. */
static void pages(void) {
	struct mlx5dv_devx_uar *all[4 * PAGES], *nc;
	int i, round;
	strcpy(doing, "UAR pages");
	MUST((nc = mlx5dv_devx_alloc_uar(context, MLX5_IB_UAPI_UAR_ALLOC_TYPE_NC)));
	MUST(((uintptr_t)nc->reg_addr & (PAGE - 1)) == 0x800);
	for (round = 0; round < 2; round++) {
		int users[PAGES + 1] = {0};
		for (i = 0; i < 4 * PAGES; i++) {
			MUST((all[i] = mlx5dv_devx_alloc_uar(context, MLX5_IB_UAPI_UAR_ALLOC_TYPE_BF)));
			MUST(all[i]->page_id >= 1 && all[i]->page_id <= PAGES);
			users[all[i]->page_id]++;
			MUST(i >= PAGES || (users[all[i]->page_id] <= 2 && all[i]->page_id != nc->page_id));
			MUST(users[all[i]->page_id] <= 6);
			*(volatile uint64_t *)all[i]->reg_addr = 0;
		}
		for (i = 0; i < 4 * PAGES; i++)
			mlx5dv_devx_free_uar(all[i]);
	}
	mlx5dv_devx_free_uar(nc);
}

int main(int argc, char **argv) {
	if (argc > 1 && !strcmp(argv[1], "off")) {
		MUST(!open_devx());
		MUST((context = open_device(NULL)));
		MUST(!mlx5dv_devx_umem_reg(context, map(PAGE), PAGE, 0) && errno == EPROTONOSUPPORT);
		DO(ibv_close_device(context));
		puts("devx: off: ok");
		return 0;
	}
	MUST((context = open_devx()));
	commands();
	umems();
	huge();
	mistakes();
	verbs_objects();
	pages();
	DO(ibv_close_device(context));
	puts("devx: commands, umems, mistakes, pages: ok");
	return 0;
}
