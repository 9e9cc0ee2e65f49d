/* Functions that the programs named after libraries share (doca.c, ibgda.c, ibdevx.c, rocshmem.c). Each of
 * them makes the calls of one library in its order. Its mailboxes are those that the library has sent, as
 * recorded; the program puts its own numbers of objects, addresses and sizes into them. Each announces and
 * polls in its own way, as the library's kernels do. */
#ifndef NICLESS_CHECK_LIBRARY_H
#define NICLESS_CHECK_LIBRARY_H

#include "mailbox.h"

#include <endian.h>
#include <sched.h>
#include <time.h>

/* Waits for something, at most a minute. */
#define AWAIT(is)                                                    \
	do {                                                             \
		time_t end_ = time(NULL) + 60;                               \
		while (!(is)) {                                              \
			if (time(NULL) > end_)                                   \
				FAIL("not true after a minute: %s", #is);            \
			sched_yield();                                           \
		}                                                            \
	} while (0)

/* libmlx5 from rdma-core 45 on gives an object of this type a register of its own, of the four of a page.
 * Earlier ones refuse it. */
#define NC_DEDICATED (1u << 31)

/* Clears a mailbox and stores recorded words in it: "offset:value ...", in hexadecimal. */
void box(uint8_t *in, const char *words);

/* A mailbox of QUERY_HCA_CAP for the present values of a group, and of its answer: the capability that the
 * driver's headers put at `at` is at CAP + at in the answer. */
enum { CAPS = 4112, CAP = 16 };
void query_caps(struct ibv_context *context, uint32_t group, uint8_t *out);

/* Runs a command that makes an object, and stores the object's number. */
struct mlx5dv_devx_obj *make(struct ibv_context *context, const uint8_t *in, uint32_t *number);

/* Allocates memory and registers it as a umem with a right. */
struct umem umem_with(struct ibv_context *context, size_t size, int fill, uint32_t access);

uint32_t pd_number(struct ibv_pd *pd);
uint32_t cq_number(struct ibv_cq *cq);
uint32_t srq_number(struct ibv_srq *srq);

/* The way from the port to itself: a GID of RoCE v2 and IPv4, its index, and the MAC address; or the LID. */
struct path {
	union ibv_gid gid;
	uint8_t index, mac[6];
	uint16_t lid; /* 0: not InfiniBand */
};
/* Finds it, and asks for the MAC address by create_ah and init_obj. */
void find_path(struct ibv_pd *pd, struct path *p);
struct ibv_ah_attr path_attr(const struct path *p);
/* Puts it into an INIT2RTR_QP, which has the rest, as on RoCE. */
void box_path(uint8_t *in, const struct path *p);

/* A send queue and its completion queue, as a poster on a GPU sees them. */
struct queue {
	uint32_t cqn, qpn;
	uint32_t posted;        /* blocks, not modulo the size */
	int log_wqes, log_cqes; /* sizes */
	uint8_t *wqes, *cqes;
	uint8_t *record;        /* its second word is that of the send queue; NULL: none */
	void *reg;              /* a register of the UAR page */
};

/* Returns 16 bytes of the WQE that is being written. They may lie behind the end of the ring's last block. */
uint8_t *segment(const struct queue *q, int index);
/* Begins a WQE: the control segment with the opcode, and opmod in its upper byte, and a size in 16 bytes. All
 * other bytes of its blocks become 0. */
void control(const struct queue *q, uint32_t opcode, int ds);
void pair64(uint8_t *segment, uint64_t first, uint64_t second);
/* Writes a WRITE or a READ of one piece, of three segments and one block. */
void move(const struct queue *q, uint32_t opcode, uint64_t remote, uint32_t rkey, uint64_t local, uint32_t lkey,
          uint32_t length);

/* Stores a producer index, or eight bytes of a WQE, in a register. */
void ring_index(const struct queue *q, void *reg);
void ring_bytes(const struct queue *q, uint32_t block, void *reg);

/* An atomic operation of NVSHMEM, of 4 or 8 bytes, as a masked one: fetch and add, whose `compare` is the
 * boundary of fields, 0 or all ones, or compare and swap. */
struct amo {
	const char *name;
	int add;
	uint64_t value, compare, swap_mask, compare_mask;
};
enum { AMOS = 11 };
extern const struct amo amos[AMOS];

/* Returns the value behind an operation on a value of n bytes. */
uint64_t amo_result(const struct amo *a, uint64_t before, uint32_t n);
/* Returns the opcode of the masked operation, with opmod. */
uint32_t amo_opcode(const struct amo *a, uint32_t n);
/* Writes its operands into the WQE from segment `at` on, and returns how many segments they have. */
int amo_operands(const struct queue *q, int at, const struct amo *a, uint32_t n);
/* Returns an old value of n bytes that the device has stored: of 4, in the order of the network. */
uint64_t amo_old(const void *stored, uint32_t n);

/* Returns the word with the counter, the signature and op_own of an entry, in host order. */
uint32_t last_word(const struct queue *q, uint32_t entry);

#endif
