/* Two programs: one tries to do harm, and the other has to work all the same. Both have queues that firmware
 * commands (DEVX) have made.
 *
 *   devx_hostile attack SEED N   N random steps, of which most are wrong. Then the program ends without
 *                                destroying anything.
 *   devx_hostile victim          writes with checked data, firmware commands and completions, until its
 *                                standard input ends. Says how long it had to wait at most. */
#include "mailbox.h"

#include <endian.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* PATIENCE: seconds, as of other programs. A busy machine, and not the attacker, can stop the victim or the
 * engine for some of them. */
enum { PAGE = 4096, HAS = 64, SIZE = 512, PATIENCE = 60 };

static uint64_t state;

static uint64_t rnd(void) {
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static uint32_t below(uint32_t n) { return (uint32_t)(rnd() % n); }

static double now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Things that the attacker has. Entries are NULL or number 0 where it has less. */
static struct devx d;
static struct mlx5dv_devx_umem *umems[HAS];
static uint8_t *memory[HAS];
static size_t sizes[HAS];
static struct mlx5dv_devx_uar *uars[HAS];
static struct made {
	struct mlx5dv_devx_obj *object;
	uint32_t number, opcode, posted;
	uint8_t *ring; /* of a queue pair; NULL if it is not known, or unmapped */
	size_t size;
} objects[HAS];
static struct mlx5dv_devx_event_channel *channels[HAS];
static int eventfds[HAS];
static long created, moved;

/* A number of an object: mostly one of the attacker's, perhaps of another kind or process, or of nothing. */
static uint32_t some_number(uint32_t opcode) {
	uint32_t i, n;
	for (n = 0; n < HAS && below(16); n++) {
		i = below(HAS);
		if (objects[i].object && objects[i].opcode == opcode)
			return objects[i].number;
	}
	return below(3) ? below(1 << 12) : (uint32_t)rnd() & 0xffffff;
}

static struct made *some_object(uint32_t opcode) {
	for (int n = 0; n < 4 * HAS; n++) {
		struct made *m = &objects[below(HAS)];
		if (m->object && (m->opcode == opcode || below(HAS) == 0))
			return m;
	}
	return NULL;
}

static uint32_t some_umem(void) {
	for (int n = 0; n < HAS && below(32); n++) {
		struct mlx5dv_devx_umem *u = umems[below(HAS)];
		if (u)
			return u->umem_id;
	}
	return (uint32_t)rnd() >> below(32);
}

static uint32_t some_page(void) {
	struct mlx5dv_devx_uar *u = uars[below(HAS)];
	return u && below(16) ? u->page_id : below(16) ? d.uar->page_id : below(128);
}

static void put64_at(uint8_t *box, size_t at, uint64_t v) {
	v = htobe64(v);
	memcpy(box + at, &v, 8);
}

static uint64_t some_offset(void) {
	return below(8) ? below(64) * 64 : below(2) ? below(1 << 16) : rnd() << below(64);
}

/* Changes some bytes of a command, and cuts it. */
static size_t spoil(uint8_t *in) {
	for (uint32_t n = below(4) ? 0 : below(4); n > 0; n--)
		in[below(4) ? below(MAILBOX) : below(16)] ^= (uint8_t)(1 << below(8));
	return below(16) ? MAILBOX : below(SIZE + 1);
}

static struct made *create(uint8_t *in, uint32_t opcode) {
	uint8_t out[SIZE] = {0};
	size_t length;
	struct made *m = &objects[below(HAS)];
	if (m->object)
		return NULL;
	memset(m, 0, sizeof *m);
	put_bits(in, 0, 31, 16, opcode);
	length = spoil(in);
	m->object = mlx5dv_devx_obj_create(d.context, in, length, out, below(16) ? 16 : below(SIZE + 1));
	created += m->object != NULL;
	m->number = get_bits(out, 8, 23, 0);
	m->opcode = opcode;
	return m;
}

static void create_cq(void) {
	uint8_t in[SIZE] = {0};
	put_bits(in, 0x10, 20, 20, below(2));
	put_bits(in, 0x10, 17, 17, below(2));
	put_bits(in, 0x10, 23, 21, below(8) ? 0 : below(8));
	put_bits(in, 0x1c, 28, 24, below(8) ? below(7) : below(32));
	put_bits(in, 0x1c, 23, 0, some_page());
	put_bits(in, 0x24, 7, 0, below(16) ? d.eqn : below(256));
	put_bits(in, 0x14, 31, 0, some_umem());
	put64_at(in, 0x48, some_offset());
	put64_at(in, 0x50, some_offset());
	put_bits(in, 0x58, 31, 0, some_umem());
	create(in, 0x400);
}

static void create_qp(void) {
	struct made *m;
	uint8_t in[SIZE] = {0};
	uint64_t offset;
	uint32_t id, log, i;
	static const uint8_t types[] = {0, 0, 0, 1, 2, 5};
	put_bits(in, 0x18, 23, 16, below(32) ? types[below(sizeof types)] : below(256));
	put_bits(in, 0x1c, 23, 0, below(32) ? d.pdn : below(256));
	put_bits(in, 0x20, 14, 11, below(8) ? below(7) : below(16));
	put_bits(in, 0x20, 15, 15, !below(8));
	put_bits(in, 0x20, 22, 16, below(2) ? 0 : below(128));
	put_bits(in, 0x24, 23, 0, some_page());
	put_bits(in, 0x28, 31, 30, below(4));
	put_bits(in, 0x28, 23, 0, rnd());
	put_bits(in, 0x94, 23, 0, some_number(0x400));
	put_bits(in, 0xb4, 23, 0, below(2) ? some_number(0x400) : 0);
	put64_at(in, 0xb8, some_offset());
	put_bits(in, 0xc4, 26, 24, below(8) ? 3 : below(8));
	put_bits(in, 0xc4, 23, 0, some_number(0x90c));
	put_bits(in, 0xfc, 31, 0, below(8) ? some_umem() : 0);
	put64_at(in, 0x100, offset = some_offset());
	put_bits(in, 0x108, 31, 0, id = some_umem());
	log = get_bits(in, 0x20, 14, 11);
	if (!(m = create(in, 0x500)) || !m->object)
		return;
	for (i = 0; i < HAS; i++)
		if (umems[i] && memory[i] && umems[i]->umem_id == id && offset + ((size_t)64 << log) <= sizes[i]) {
			m->ring = memory[i] + offset;
			m->size = (size_t)64 << log;
		}
}

static void create_rmp(void) {
	uint8_t in[SIZE] = {0};
	put_bits(in, 0x20, 23, 20, 1);
	put_bits(in, 0x50, 31, 28, below(2));
	put_bits(in, 0x58, 23, 0, d.pdn);
	put64_at(in, 0x60, some_offset());
	put_bits(in, 0x70, 19, 16, below(8) ? 5 : below(16));
	put_bits(in, 0x70, 4, 0, below(8) ? below(7) : below(32));
	put_bits(in, 0x78, 31, 0, some_umem());
	put_bits(in, 0x7c, 31, 0, some_umem());
	put64_at(in, 0x80, some_offset());
	create(in, 0x90c);
}

/* A DCT, with any key, and lists that are keys. */
static void create_other(void) {
	uint8_t in[SIZE] = {0};
	uint32_t i;
	if (below(2)) {
		put_bits(in, 0x18, 23, 0, some_number(0x400));
		put_bits(in, 0x20, 23, 0, some_number(0x90c));
		put_bits(in, 0x24, 23, 0, d.pdn);
		for (i = 0x28; i < 128; i++)
			in[i] = below(4) ? 0 : (uint8_t)rnd();
		create(in, 0x710);
		return;
	}
	put_bits(in, 0x10, 31, 30, below(4));
	put_bits(in, 0x10, 15, 8, below(2) ? 0x86 : rnd());
	put_bits(in, 0x1c, 23, 0, d.pdn);
	put_bits(in, 0x44, 31, 0, below(8) ? below(64) : rnd());
	put_bits(in, 0x60, 31, 0, below(8) ? below(4) : rnd());
	create(in, below(8) ? 0x200 : below(0x10000));
}

static void move(void) {
	static const uint16_t next[] = {0x502, 0x503, 0x504, 0x505, 0x506, 0x507, 0x50a, 0x50e};
	uint8_t in[SIZE] = {0}, out[SIZE];
	struct made *m = some_object(0x500);
	union ibv_gid gid;
	uint32_t i, steps = below(4);
	if (!m)
		return;
	for (i = 0; i <= steps; i++) {
		memset(in, 0, sizeof in);
		put_bits(in, 0, 31, 16, steps == 3 && i < 3 ? 0x502 + i : next[below(8)]);
		put_bits(in, 8, 23, 0, below(32) ? m->number : some_number(0x500));
		put_bits(in, 0x10, 31, 0, below(2) ? 0 : rnd());
		put_bits(in, 0x20, 31, 29, below(16) ? 3 : below(8));
		put_bits(in, 0x20, 28, 24, 30);
		put_bits(in, 0x2c, 23, 0, below(4) ? some_number(0x500) : m->number);
		put_bits(in, 0x34, 23, 23, 1);
		if (ibv_query_gid(d.context, 1, 0, &gid) == 0 && below(16))
			memcpy(in + 0x40, gid.raw, 16);
		put_bits(in, 0x38, 31, 27, 8);
		put_bits(in, 0x54, 23, 16, below(32) ? 1 : below(256));
		put_bits(in, 0x88, 31, 0, rnd());
		put_bits(in, 0xa8, 31, 0, rnd());
		put_bits(in, 0xac, 31, 0, rnd());
		put_bits(in, 0xe0, 31, 0, rnd()); /* keys of DC, that no target has */
		if (mlx5dv_devx_obj_modify(m->object, in, spoil(in), out, below(16) ? 16 : below(SIZE + 1)) == 0)
			moved++;
	}
}

static void ask(void) {
	static const uint16_t known[] = {0x100, 0x101, 0x10a, 0x50b, 0x750, 0x760, 0x80d, 0x842, 0xb16};
	uint8_t in[SIZE] = {0}, *out = malloc(8192);
	struct made *m = some_object(0x500);
	MUST(out);
	put_bits(in, 0, 31, 16, below(8) ? known[below(9)] : below(0x10000));
	put_bits(in, 4, 15, 0, below(128));
	put_bits(in, 8, 31, 0, m && below(2) ? m->number : rnd());
	mlx5dv_devx_general_cmd(d.context, in, below(8) ? 16 : below(SIZE + 1), out, below(8192));
	if (m)
		mlx5dv_devx_obj_query(m->object, in, below(8) ? 16 : below(SIZE + 1), out, below(SIZE + 1));
	free(out);
}

/* Forgets the rings in memory that goes away. */
static void forget(uint32_t i) {
	for (int k = 0; k < HAS; k++)
		if (memory[i] && objects[k].ring >= memory[i] && objects[k].ring < memory[i] + sizes[i])
			objects[k].ring = NULL;
}

/* Registers, unmaps, moves and shrinks memory, also under queues. */
static void umem_step(void) {
	uint32_t i = below(HAS), pages = 1 + below(8);
	if (umems[i] && below(3)) {
		switch (below(8)) {
		case 0:
			forget(i);
			if (memory[i])
				munmap(memory[i], sizes[i]);
			memory[i] = NULL;
			break;
		case 1:
			if (memory[i]) {
				uint8_t *to = mremap(memory[i], sizes[i], 2 * sizes[i], MREMAP_MAYMOVE);
				forget(i);
				if (to != MAP_FAILED) {
					memory[i] = to;
					sizes[i] *= 2;
				}
			}
			break;
		case 2:
			if (memory[i])
				madvise(memory[i], sizes[i], below(2) ? MADV_DONTNEED : MADV_REMOVE);
			break;
		default:
			if (mlx5dv_devx_umem_dereg(umems[i]) == 0) {
				umems[i] = NULL;
				forget(i);
				if (memory[i])
					munmap(memory[i], sizes[i]);
				memory[i] = NULL;
			}
		}
		return;
	}
	if (umems[i])
		return;
	if (below(4) == 0) { /* overlapping another */
		uint32_t j = below(HAS);
		if (memory[j] && (umems[i] = mlx5dv_devx_umem_reg(d.context, memory[j] + below(PAGE), 1 + below(sizes[j]), below(2))))
			memory[i] = NULL;
		return;
	}
	sizes[i] = (size_t)pages * PAGE;
	memory[i] = mmap(NULL, sizes[i], PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	MUST(memory[i] != MAP_FAILED);
	memset(memory[i], below(2) ? 0xff : 0, sizes[i]);
	umems[i] = mlx5dv_devx_umem_reg(d.context, memory[i], below(16) ? sizes[i] : rnd() >> below(64), below(8));
	if (!umems[i]) {
		munmap(memory[i], sizes[i]);
		memory[i] = NULL;
	}
}

/* Writes WQEs that are nearly right, of which each has the next index. */
static void post(struct made *m) {
	static const uint8_t opcodes[] = {0x00, 0x08, 0x09, 0x0a, 0x0b, 0x0e, 0x0f, 0x10, 0x11, 0x12, 0x14, 0x15, 0x23, 0x25, 0x2f};
	uint32_t i, k, ds;
	for (i = below(16); i > 0; i--) {
		uint8_t *block = m->ring + (size_t)m->posted * 64 % m->size;
		ds = below(8) ? 1 + below(4) : below(64);
		put_bits(block, 0, 31, 0, (m->posted & 0xffff) << 8 | opcodes[below(sizeof opcodes)]);
		put_bits(block, 4, 31, 0, m->number << 8 | ds);
		put_bits(block, 8, 31, 0, below(2) ? 8 : rnd());
		for (k = 16; k < 64; k += 4)
			put_bits(block, k, 31, 0, below(2) ? 0 : below(2) ? below(4096) : rnd());
		m->posted += below(16) ? (ds + 3) / 4 : below(9);
	}
}

/* Writes WQEs, or words that look like some, and rings registers: its own and those of other queues, with
 * indexes that run away. */
static void ring(void) {
	struct made *m = some_object(0x500);
	struct mlx5dv_devx_uar *u = uars[below(HAS)];
	uint32_t i = below(HAS), n;
	uint64_t value;
	if (!u)
		u = d.uar;
	if (memory[i] && umems[i]) /* rings, records and entries are anywhere in it */
		for (n = below(64); n > 0; n--) {
			uint32_t w = below(sizes[i] / 4);
			uint32_t v = below(2) ? htobe32(below(1 << 16) << 8 | below(48)) : (uint32_t)rnd();
			if (below(4) == 0 && m)
				v = htobe32(m->number << 8 | (1 + below(8)));
			__atomic_store_n((uint32_t *)(memory[i] + 4 * w), v, __ATOMIC_RELEASE);
		}
	n = m && below(8) ? m->number : some_number(0x500);
	if (m && m->ring && m->number == n)
		post(m);
	for (i = below(8); i > 0; i--) {
		value = htobe64((below(2) && m ? m->posted & 0xffff : rnd() & 0xffff) << 40 | (uint64_t)n << 8);
		__atomic_store_n((uint64_t *)((uintptr_t)u->reg_addr + (below(2) ? 0 : 256)), below(8) ? value : rnd(), __ATOMIC_RELEASE);
	}
}

static void events(void) {
	uint16_t all[] = {0, 4, 0x13, 2, 3, 0x10, 0x11, 0x14, 9, 0x77};
	struct made *m = some_object(below(2) ? 0x400 : 0x500);
	uint32_t i = below(HAS);
	uint64_t v = UINT64_MAX - 1;
	if (!channels[i]) {
		channels[i] = mlx5dv_devx_create_event_channel(d.context, below(2));
		return;
	}
	switch (below(8)) {
	case 0:
		mlx5dv_devx_destroy_event_channel(channels[i]);
		channels[i] = NULL;
		break;
	case 1:
		if (eventfds[i] <= 0)
			eventfds[i] = eventfd(0, below(2) ? EFD_NONBLOCK : 0);
		fcntl(eventfds[i], F_SETFL, O_NONBLOCK);
		(void)!write(eventfds[i], &v, sizeof v);
		if (below(2))
			fcntl(eventfds[i], F_SETFL, 0);
		if (m)
			mlx5dv_devx_subscribe_devx_event_fd(channels[i], eventfds[i], m->object, all[below(10)]);
		break;
	case 2:
		if (eventfds[i] > 0) {
			close(eventfds[i]);
			eventfds[i] = 0;
		}
		break;
	default:
		for (uint32_t n = below(16) ? 1 : below(200); n > 0; n--)
			mlx5dv_devx_subscribe_devx_event(channels[i], m && below(8) ? m->object : NULL, (uint16_t)(2 * below(11)), all, rnd());
	}
}

static void destroy(void) {
	struct made *m = &objects[below(HAS)];
	if (m->object && mlx5dv_devx_obj_destroy(m->object) == 0)
		m->object = NULL;
}

static void uar_step(void) {
	uint32_t i = below(HAS);
	if (uars[i] && below(2)) {
		mlx5dv_devx_free_uar(uars[i]);
		uars[i] = NULL;
	} else if (!uars[i]) {
		uars[i] = mlx5dv_devx_alloc_uar(d.context, MLX5_IB_UAPI_UAR_ALLOC_TYPE_BF);
	}
}

/* Forks with the context. The child uses what both have, and ends or is killed in the middle. */
static void with_child(void (*const steps[])(void), uint32_t count) {
	pid_t child = fork();
	MUST(child >= 0);
	if (child == 0) {
		for (int i = 0; i < 30; i++)
			steps[below(count)]();
		_exit(0);
	}
	if (below(2)) {
		struct timespec t = {0, (long)below(2000000)};
		nanosleep(&t, NULL);
		kill(child, SIGKILL);
	}
	waitpid(child, NULL, 0);
}

static void attack(long n) {
	static void (*const steps[])(void) = {create_cq, create_qp, create_rmp, create_other, move, move, ask, umem_step,
	                                      umem_step, ring, ring, events, events, destroy, uar_step};
	enum { STEPS = sizeof steps / sizeof *steps };
	long i, made = 0;
	devx_open(&d, NULL);
	for (i = 0; i < HAS; i++)
		umem_step();
	for (i = 0; i < n; i++) {
		snprintf(doing, sizeof doing, "step %ld, state %#llx", i, (unsigned long long)state);
		steps[below(STEPS)]();
		if (i == 500) {
			puts("devx_hostile: attacks");
			fflush(stdout);
		}
		if (below(500) == 0)
			with_child(steps, STEPS);
		if (below(1000) == 0 && channels[i % HAS])
			close(channels[i % HAS]->fd);
	}
	for (i = 0; i < HAS; i++)
		made += objects[i].object != NULL;
	strcpy(doing, "the context is closed below libmlx5");
	if (state & 1)
		close(d.context->cmd_fd);
	for (i = 0; i < STEPS; i++)
		if (steps[i] != events && steps[i] != uar_step)
			steps[i]();
	printf("devx_hostile: %ld steps; %ld objects made, %ld transitions, %ld objects left: ok\n", n, created, moved, made);
	fflush(stdout);
	_exit(0);
}

static double longest;

static double waited(double since) {
	double t = now() - since;
	if (t > longest)
		longest = t;
	if (t > PATIENCE)
		FAIL("waited %.1f s", t);
	return t;
}

static void victim(void) {
	enum { BYTES = 1 << 14 };
	struct pollfd in = {0, POLLIN, 0};
	struct devx_cq cq;
	struct devx_qp a, b;
	struct ibv_mr *mr;
	uint8_t box[MAILBOX], *at, *block;
	long writes = 0, commands = 0;
	devx_open(&d, NULL);
	cq_begin(&d, &cq, box, 6, 0);
	cq_finish(&d, &cq, box);
	qp_begin(&d, &a, box, 6, &cq);
	qp_finish(&d, &a, box);
	qp_begin(&d, &b, box, 6, &cq);
	qp_finish(&d, &b, box);
	qp_connect(&d, &a, b.number);
	qp_connect(&d, &b, a.number);
	DO(posix_memalign((void **)&at, PAGE, 2 * BYTES));
	MUST((mr = ibv_reg_mr(d.pd, at, 2 * BYTES, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)));
	puts("devx_hostile: victim runs");
	fflush(stdout);
	while (poll(&in, 1, 0) == 0) {
		double t = now();
		struct mlx5_cqe64 *cqe;
		snprintf(doing, sizeof doing, "write %ld", writes);
		pattern_fill(at, (uint64_t)writes, 0, BYTES);
		block = qp_block(&a, 1);
		wqe_control(&a, block, MLX5_OPCODE_RDMA_WRITE, 3);
		wqe_remote(block + 16, (uintptr_t)at + BYTES, mr->rkey);
		wqe_data(block + 32, BYTES, mr->lkey, (uintptr_t)at);
		qp_ring(&a, block);
		cqe = cq_wait(&cq);
		waited(t);
		SAME(cqe->op_own >> 4, MLX5_CQE_REQ);
		SAME(be32toh(cqe->sop_drop_qpn) & 0xffffff, a.number);
		pattern_check(at + BYTES, (uint64_t)writes, 0, BYTES, "what was written");
		if (writes++ % 64 == 0) {
			snprintf(doing, sizeof doing, "command %ld", commands);
			t = now();
			qp_query(&a, box);
			waited(t);
			SAME(get_bits(box, 0x18, 31, 28), 3);
			commands++;
		}
	}
	printf("devx_hostile: victim: %ld writes, %ld commands, longest wait %.0f ms: ok\n", writes, commands, 1000 * longest);
	qp_destroy(&a);
	qp_destroy(&b);
	cq_destroy(&cq);
	DO(ibv_dereg_mr(mr));
	devx_close(&d);
}

int main(int argc, char **argv) {
	state = argc > 2 ? strtoull(argv[2], NULL, 0) * 0x9e3779b97f4a7c15u | 1 : 1;
	if (argc > 1 && !strcmp(argv[1], "victim"))
		victim();
	else
		attack(argc > 3 ? atol(argv[3]) : 3000);
	return 0;
}
