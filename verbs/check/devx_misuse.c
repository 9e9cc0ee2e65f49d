/* Firmware commands (DEVX) that have to fail: what each of them answers, and that nothing has changed after
 * it. A mistake that the kernel's driver finds has an errno alone; one that the firmware finds has EREMOTEIO,
 * a status and a syndrome.
 *
 *   devx_misuse        all mistakes */
#include "mailbox.h"

#include <endian.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
	PAGE = 4096,
	GAPS = 300,
	SIZE = 512, /* the longest mailbox that is tried */
	BAD_OPCODE = 0x02,
	BAD_PARAMETER = 0x03,
	BAD_RESOURCE = 0x05,
	BAD_QP_STATE = 0x10,
	BAD_INPUT_LENGTH = 0x50,
	BAD_OUTPUT_LENGTH = 0x51,
};

/* The first members of struct mlx5dv_devx_obj (providers/mlx5/mlx5.h). */
struct devx_object {
	struct ibv_context *context;
	uint32_t handle;
};

static struct devx dev, other;
static uint32_t foreign_pd; /* a number of a protection domain that only `other` has */
static struct devx_cq cq;
static struct devx_qp qp;

static uint32_t handle_of(struct mlx5dv_devx_obj *o) { return ((struct devx_object *)o)->handle; }

static void put64_at(uint8_t *box, size_t at, uint64_t v) {
	v = htobe64(v);
	memcpy(box + at, &v, 8);
}

static uint32_t number_of(struct ibv_pd *pd) {
	struct mlx5dv_obj of = {0};
	struct mlx5dv_pd out;
	MUST(pd);
	of.pd.in = pd;
	of.pd.out = &out;
	DO(mlx5dv_init_obj(&of, MLX5DV_OBJ_PD));
	return out.pdn;
}

/* A command that makes an object has to fail with an errno and, if this is EREMOTEIO, a status. */
static void refused(const uint8_t *in, size_t length, int error, int status) {
	uint8_t out[SIZE];
	memset(out, 0xa5, sizeof out);
	errno = 0;
	if (mlx5dv_devx_obj_create(dev.context, in, length, out, sizeof out))
		FAIL("command %#x of %zu bytes made an object", in[0] << 8 | in[1], length);
	SAME(errno, error);
	if (error == EREMOTEIO) {
		SAME(out[0], status);
		MUST(get_bits(out, 4, 31, 0) != 0);
		SAME(out[16], 0);
	} else {
		SAME(out[0], 0xa5);
	}
}

static void changes(const uint8_t *in, size_t length, int error, int status) {
	uint8_t out[SIZE];
	memset(out, 0xa5, sizeof out);
	SAME(mlx5dv_devx_obj_modify(qp.object, in, length, out, sizeof out), error);
	if (error == EREMOTEIO)
		SAME(out[0], status);
}

static void command(uint8_t *in, uint32_t opcode, uint32_t number) {
	memset(in, 0, SIZE);
	put_bits(in, 0, 31, 16, opcode);
	put_bits(in, 8, 23, 0, number);
}

/* Mailboxes of all lengths, of commands that are known and of some that are not. */
static void lengths(void) {
	static const struct {
		uint32_t opcode;
		size_t least;
	} makes[] = {{0x200, 272}, {0x400, 272}, {0x500, 272}, {0x710, 128}, {0x90c, 272}};
	static const uint32_t moves[] = {0x502, 0x503, 0x504, 0x505, 0x506, 0x50e};
	static const uint32_t unknown[] = {0, 0x600, 0x601, 0x700, 0x717, 0x800, 0x904, 0x912, 0xa01, 0xb00, 0xffff};
	uint8_t in[SIZE], out[SIZE];
	size_t n, i;
	strcpy(doing, "commands of every length that make objects");
	for (i = 0; i < sizeof makes / sizeof *makes; i++)
		for (n = 0; n <= SIZE; n++) {
			command(in, makes[i].opcode, 0);
			if (n < 16)
				refused(in, n, EINVAL, 0);
			else if (n < makes[i].least)
				refused(in, n, EREMOTEIO, BAD_INPUT_LENGTH);
			else /* of CREATE_MKEY the access mode, of CREATE_CQ the event queue, of CREATE_RMP the stride */
				refused(in, n, EREMOTEIO, makes[i].opcode == 0x500 || makes[i].opcode == 0x710
				                              ? BAD_RESOURCE : BAD_PARAMETER);
		}
	for (i = 0; i < sizeof unknown / sizeof *unknown; i++)
		for (n = 16; n <= SIZE; n += 31) {
			command(in, unknown[i], 0);
			refused(in, n, EINVAL, 0);
		}
	strcpy(doing, "commands of every length that change objects");
	for (i = 0; i < sizeof moves / sizeof *moves; i++)
		for (n = 0; n <= SIZE; n++) {
			command(in, moves[i], qp.number);
			if (n < 16)
				changes(in, n, EINVAL, 0);
			else if (n < 272)
				changes(in, n, EREMOTEIO, BAD_INPUT_LENGTH);
			else if (moves[i] != 0x502) /* a queue pair in RST has no such transition */
				changes(in, n, EREMOTEIO, BAD_QP_STATE);
		}
	strcpy(doing, "answers of every length");
	for (n = 0; n <= SIZE; n++) {
		int error;
		command(in, 0x50b, qp.number);
		memset(out, 0xa5, sizeof out);
		error = mlx5dv_devx_obj_query(qp.object, in, 16, out, n);
		SAME(error, n < 16 ? EINVAL : n < 272 ? EREMOTEIO : 0);
		SAME(out[0], n < 16 ? 0xa5 : n < 272 ? BAD_OUTPUT_LENGTH : 0);
		MUST(n == SIZE || out[n] == 0xa5); /* nothing is written behind the end */
		command(in, 0x100, 0);
		memset(out, 0xa5, sizeof out);
		error = mlx5dv_devx_general_cmd(dev.context, in, 16, out, n);
		SAME(error, n < 16 ? EINVAL : EREMOTEIO);
		MUST(n == SIZE || out[n] == 0xa5);
	}
	strcpy(doing, "queries of other numbers");
	command(in, 0x50b, qp.number + 1);
	SAME(mlx5dv_devx_obj_query(qp.object, in, 16, out, SIZE), EINVAL);
	command(in, 0x50b, qp.number);
	SAME(mlx5dv_devx_obj_query(cq.object, in, 16, out, SIZE), EINVAL);
	command(in, 0x401, cq.number);
	SAME(mlx5dv_devx_obj_query(cq.object, in, 16, out, SIZE), EINVAL);
}

/* One field of a good command, which makes it bad. */
struct mistake {
	const char *what;
	size_t at;
	int high, low;
	uint64_t value;
	int status;
};

static void try(const uint8_t *good, const struct mistake *m, size_t count) {
	uint8_t in[SIZE];
	for (size_t i = 0; i < count; i++) {
		snprintf(doing, sizeof doing, "command %#x with %s", good[0] << 8 | good[1], m[i].what);
		memcpy(in, good, SIZE);
		if (m[i].high == 63)
			put64_at(in, m[i].at, m[i].value);
		else
			put_bits(in, m[i].at, m[i].high, m[i].low, m[i].value);
		refused(in, MAILBOX, EREMOTEIO, m[i].status);
	}
}

/* Fields that are wrong, and numbers of objects of another context. `a` is the command that made the CQ, and
 * `b` that which made the queue pair. */
static void fields(const uint8_t *a, const uint8_t *b, uint32_t foreign) {
	const struct mistake of_cq[] = {
	    {"31 as log_cq_size", 0x1c, 28, 24, 31, BAD_PARAMETER},
	    {"7 as cqe_sz", 0x10, 23, 21, 7, BAD_PARAMETER},
	    {"event queue 255", 0x24, 7, 0, 255, BAD_PARAMETER},
	    {"a UAR page that is not allocated", 0x1c, 23, 0, 0xffffff, BAD_RESOURCE},
	    {"entries beyond the umem", 0x1c, 28, 24, 20, BAD_PARAMETER},
	    {"entries at the end of the umem", 0x50, 63, 0, PAGE, BAD_PARAMETER},
	    {"entries at an offset near 2^64", 0x50, 63, 0, UINT64_MAX - 63, BAD_PARAMETER},
	    {"entries at an offset that is not aligned", 0x50, 63, 0, 32, BAD_PARAMETER},
	    {"no such umem of entries", 0x58, 31, 0, 0xffffff, BAD_RESOURCE},
	    {"a umem number of 32 bits", 0x58, 31, 0, 0xffffffff, BAD_RESOURCE},
	    {"a record outside", 0x48, 63, 0, PAGE, BAD_PARAMETER},
	    {"a record at an odd offset", 0x48, 63, 0, 4, BAD_PARAMETER},
	    {"no such umem of the record", 0x14, 31, 0, 0xffffff, BAD_RESOURCE},
	    {"a page offset", 0x18, 11, 6, 1, BAD_PARAMETER},
	};
	const struct mistake of_qp[] = {
	    {"transport 4", 0x18, 23, 16, 4, BAD_PARAMETER},
	    {"state RTS", 0x18, 31, 28, 3, BAD_PARAMETER},
	    {"no such protection domain", 0x1c, 23, 0, 0xffffff, BAD_RESOURCE},
	    {"a protection domain of another context", 0x1c, 23, 0, foreign_pd, BAD_RESOURCE},
	    {"a send queue beyond the umem", 0x20, 14, 11, 15, BAD_PARAMETER},
	    {"send_dbr_mode 3", 0x28, 31, 30, 3, BAD_PARAMETER},
	    {"no such CQ", 0x94, 23, 0, 0xffffff, BAD_RESOURCE},
	    {"a CQ of another context", 0x94, 23, 0, foreign, BAD_RESOURCE},
	    {"the number of a queue pair as CQ", 0x94, 23, 0, qp.number, BAD_RESOURCE},
	    {"rq_type 1 without a receive CQ", 0xc4, 26, 24, 1, BAD_RESOURCE},
	    {"rq_type 7", 0xc4, 26, 24, 7, BAD_PARAMETER},
	    {"a record outside", 0xb8, 63, 0, UINT64_MAX - 7, BAD_PARAMETER},
	    {"no record", 0xfc, 31, 0, 0, BAD_RESOURCE},
	    {"queues outside", 0x100, 63, 0, PAGE, BAD_PARAMETER},
	    {"queues at an odd offset", 0x100, 63, 0, 8, BAD_PARAMETER},
	    {"no such umem", 0x108, 31, 0, 0xfffffe, BAD_RESOURCE},
	    {"a UAR page that is not allocated", 0x24, 23, 0, 63, BAD_RESOURCE},
	};
	uint8_t in[SIZE] = {0};
	const struct mistake of_rmp[] = {
	    {"type 3", 0x50, 31, 28, 3, BAD_PARAMETER},
	    {"2^31 entries", 0x70, 4, 0, 31, BAD_PARAMETER},
	    {"entries of 2^15 bytes", 0x70, 19, 16, 15, BAD_PARAMETER},
	    {"no such protection domain", 0x58, 23, 0, foreign_pd, BAD_RESOURCE},
	    {"no such umem", 0x7c, 31, 0, 0, BAD_RESOURCE},
	};
	try(a, of_cq, sizeof of_cq / sizeof *of_cq);
	try(b, of_qp, sizeof of_qp / sizeof *of_qp);
	put_bits(in, 0x00, 31, 16, 0x90c);
	put_bits(in, 0x20, 23, 20, 1);
	put_bits(in, 0x50, 31, 28, 1);
	put_bits(in, 0x58, 23, 0, dev.pdn);
	put_bits(in, 0x70, 19, 16, 5);
	put_bits(in, 0x70, 4, 0, 4);
	put_bits(in, 0x78, 31, 0, cq.record.umem->umem_id);
	put_bits(in, 0x7c, 31, 0, cq.ring.umem->umem_id);
	try(in, of_rmp, sizeof of_rmp / sizeof *of_rmp);
}

/* Handles of one kind where another kind is needed. */
static void handles(void) {
	struct ibv_qp_init_attr init = {0};
	struct ibv_qp_attr attr = {0};
	struct ibv_cq *vcq;
	struct ibv_qp *vqp;
	union ibv_gid group = {.raw = {0xff, 0x0e, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4}};
	struct devx_object *o = (struct devx_object *)qp.object;
	uint32_t mine = o->handle, kept;
	MUST((vcq = ibv_create_cq(dev.context, 16, NULL, NULL, 0)));
	init.send_cq = init.recv_cq = vcq;
	init.cap.max_send_wr = init.cap.max_recv_wr = init.cap.max_send_sge = init.cap.max_recv_sge = 1;
	init.qp_type = IBV_QPT_UD;
	MUST((vqp = ibv_create_qp(dev.pd, &init)));

	strcpy(doing, "calls of the verbs with handles of firmware commands");
	kept = vqp->handle;
	vqp->handle = mine;
	attr.qp_state = IBV_QPS_INIT;
	attr.port_num = 1;
	SAME(ibv_modify_qp(vqp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY), EINVAL);
	SAME(ibv_query_qp(vqp, &attr, IBV_QP_STATE, &init), EINVAL);
	SAME(ibv_attach_mcast(vqp, &group, 0), EINVAL);
	SAME(ibv_destroy_qp(vqp), EINVAL);
	vqp->handle = kept;
	kept = vcq->handle;
	vcq->handle = handle_of(cq.object);
	MUST(ibv_resize_cq(vcq, 100) != 0);
	SAME(ibv_destroy_cq(vcq), EINVAL);
	vcq->handle = kept;

	strcpy(doing, "firmware commands with handles of the verbs");
	o->handle = vqp->handle;
	SAME(mlx5dv_devx_obj_destroy(qp.object), EINVAL);
	o->handle = vcq->handle;
	SAME(mlx5dv_devx_obj_destroy(qp.object), EINVAL);
	o->handle = dev.pd->handle;
	SAME(mlx5dv_devx_obj_destroy(qp.object), EINVAL);
	strcpy(doing, "firmware commands with handles of nothing");
	o->handle = 0xfffff;
	SAME(mlx5dv_devx_obj_destroy(qp.object), ENOENT);
	o->handle = 0;
	SAME(mlx5dv_devx_obj_destroy(qp.object), ENOENT);
	o->handle = mine;

	strcpy(doing, "destruction in a wrong order");
	SAME(mlx5dv_devx_obj_destroy(cq.object), EBUSY);
	SAME(mlx5dv_devx_umem_dereg(cq.ring.umem), EBUSY);
	SAME(mlx5dv_devx_umem_dereg(cq.record.umem), EBUSY);
	SAME(mlx5dv_devx_umem_dereg(qp.ring.umem), EBUSY);
	SAME(mlx5dv_devx_umem_dereg(qp.record.umem), EBUSY);
	SAME(ibv_dealloc_pd(dev.pd), EBUSY);
	DO(ibv_destroy_qp(vqp));
	DO(ibv_destroy_cq(vcq));
}

/* Transitions that the queue pair, which is in RST, does not have, and attributes that it cannot have. */
static void states(void) {
	uint8_t in[SIZE], out[SIZE];
	strcpy(doing, "transitions of another queue pair");
	command(in, 0x502, qp.number + 1);
	changes(in, MAILBOX, EINVAL, 0);
	strcpy(doing, "a command that makes an object, for an object");
	command(in, 0x500, qp.number);
	changes(in, MAILBOX, EINVAL, 0);
	strcpy(doing, "INIT2RTR_QP in RST");
	command(in, 0x503, qp.number);
	put_bits(in, 0x20, 31, 29, 3);
	put_bits(in, 0x54, 23, 16, 1);
	put_bits(in, 0x34, 23, 23, 1);
	changes(in, MAILBOX, EREMOTEIO, BAD_QP_STATE);
	strcpy(doing, "RST2INIT_QP for port 2");
	command(in, 0x502, qp.number);
	put_bits(in, 0x54, 23, 16, 2);
	changes(in, MAILBOX, EREMOTEIO, BAD_PARAMETER);
	qp_query(&qp, out);
	SAME(get_bits(out, 0x18, 31, 28), 0); /* still in RST */
}

/* Event channels and subscriptions. */
static void subscriptions(void) {
	enum { SUBSCRIPTIONS = 1 << 16, CHANNELS = 256 };
	static struct mlx5dv_devx_event_channel *all[CHANNELS + 1];
	struct mlx5dv_devx_event_channel *channel, *foreign;
	uint16_t last = 0x13, port = 9, wrong = 0x77, three[] = {0, 4, 0x13};
	uint64_t full = UINT64_MAX - 1, value;
	struct devx_object *o = (struct devx_object *)qp.object;
	uint32_t mine = o->handle;
	uint8_t in[SIZE];
	int events, kept, pipes[2], i, n, made;
	strcpy(doing, "subscriptions that cannot be");
	MUST((channel = mlx5dv_devx_create_event_channel(dev.context, MLX5_IB_UAPI_DEVX_CR_EV_CH_FLAGS_OMIT_DATA)));
	MUST((foreign = mlx5dv_devx_create_event_channel(other.context, 0)));
	SAME(mlx5dv_devx_subscribe_devx_event(channel, qp.object, 2, &wrong, 1), EINVAL);
	SAME(mlx5dv_devx_subscribe_devx_event(channel, qp.object, 2, &port, 1), EINVAL); /* the device's */
	SAME(mlx5dv_devx_subscribe_devx_event(channel, NULL, 2, &last, 1), EINVAL);      /* an object's */
	SAME(mlx5dv_devx_subscribe_devx_event(channel, qp.object, 3, &last, 1), EINVAL);
	SAME(mlx5dv_devx_subscribe_devx_event(foreign, qp.object, 2, &last, 1), ENOENT); /* a call in `other` */
	kept = channel->fd;
	channel->fd = foreign->fd;
	SAME(mlx5dv_devx_subscribe_devx_event(channel, qp.object, 2, &last, 1), EBADF);
	channel->fd = 0;
	SAME(mlx5dv_devx_subscribe_devx_event(channel, qp.object, 2, &last, 1), EBADF);
	channel->fd = kept;
	o->handle = 0xffffe;
	SAME(mlx5dv_devx_subscribe_devx_event(channel, qp.object, 2, &last, 1), ENOENT);
	o->handle = dev.pd->handle;
	SAME(mlx5dv_devx_subscribe_devx_event(channel, qp.object, 2, &last, 1), EINVAL);
	o->handle = mine;
	DO(pipe(pipes));
	SAME(mlx5dv_devx_subscribe_devx_event_fd(channel, pipes[1], qp.object, last), EINVAL);
	SAME(mlx5dv_devx_subscribe_devx_event_fd(channel, 999, qp.object, last), EBADF);

	strcpy(doing, "as many subscriptions as a context can have, and a channel that nobody reads");
	MUST((events = eventfd(0, EFD_NONBLOCK)) >= 0);
	SAME(write(events, &full, sizeof full), sizeof full);
	DO(mlx5dv_devx_subscribe_devx_event_fd(channel, events, qp.object, last));
	for (made = 0; !mlx5dv_devx_subscribe_devx_event(channel, qp.object, sizeof three, three, (uint64_t)made);)
		made++;
	SAME(errno, ENOMEM);
	MUST(made > SUBSCRIPTIONS / 3 - 16 && made <= SUBSCRIPTIONS / 3); /* each is to 3 events */
	for (i = 0; i < 3; i++) { /* more events than the channel has room for */
		command(in, 0x507, qp.number);
		changes(in, 16, 0, 0);
		command(in, 0x50a, qp.number);
		changes(in, 16, 0, 0);
	}
	SAME(read(events, &value, sizeof value), sizeof value);
	MUST(value >= full);

	strcpy(doing, "subscriptions of a channel that is closed");
	for (n = 0; n < CHANNELS + 1; n++)
		if (!(all[n] = mlx5dv_devx_create_event_channel(dev.context, 0)))
			break;
	SAME(n, CHANNELS - 1); /* with the one that is there already */
	SAME(errno, ENOMEM);
	for (i = 0; i < n; i++)
		mlx5dv_devx_destroy_event_channel(all[i]);
	mlx5dv_devx_destroy_event_channel(channel);
	mlx5dv_devx_destroy_event_channel(foreign);
	MUST((channel = mlx5dv_devx_create_event_channel(dev.context, 0)));
	/* Those of the channel end soon after it is closed. */
	for (time_t end = time(NULL) + 60; mlx5dv_devx_subscribe_devx_event(channel, qp.object, 2, &last, 7);) {
		SAME(errno, ENOMEM);
		MUST(time(NULL) < end);
	}
	mlx5dv_devx_destroy_event_channel(channel);
	close(events);
	close(pipes[0]);
	close(pipes[1]);
}

/* Memory of umems that the program unmaps or moves. */
static void memory_gone(void) {
	struct mlx5dv_devx_umem *again;
	uint8_t *moved, *at;
	strcpy(doing, "a umem that is unmapped");
	MUST((at = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) != MAP_FAILED);
	MUST((again = mlx5dv_devx_umem_reg(dev.context, at, 4 * PAGE, 0)));
	DO(munmap(at, 4 * PAGE));
	MUST(!mlx5dv_devx_umem_reg(dev.context, at, PAGE, 0));
	SAME(errno, EFAULT);
	DO(mlx5dv_devx_umem_dereg(again));
	strcpy(doing, "a umem that is moved");
	MUST((at = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) != MAP_FAILED);
	MUST((again = mlx5dv_devx_umem_reg(dev.context, at, 4 * PAGE, 0)));
	MUST((moved = mremap(at, 4 * PAGE, 8 * PAGE, MREMAP_MAYMOVE)) != MAP_FAILED);
	memset(moved, 1, 4 * PAGE);
	DO(mlx5dv_devx_umem_dereg(again));
	munmap(moved, 8 * PAGE);
}

/* A umem of many parts, of which every second one is in another umem already. */
static void parts(size_t gaps, int error) {
	struct mlx5dv_devx_umem *whole, *small[GAPS];
	size_t i, size = (2 * gaps - 1) * PAGE;
	uint8_t *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	snprintf(doing, sizeof doing, "a umem with %zu gaps", gaps);
	MUST(at != MAP_FAILED && gaps <= GAPS);
	pattern_fill(at, gaps, 0, size);
	for (i = 0; i + 1 < gaps; i++)
		MUST((small[i] = mlx5dv_devx_umem_reg(dev.context, at + (2 * i + 1) * PAGE, PAGE, 0)));
	errno = 0;
	whole = mlx5dv_devx_umem_reg(dev.context, at, size, 0);
	MUST(!whole == !!error);
	if (error)
		SAME(errno, error);
	pattern_check(at, gaps, 0, size, "a umem of many parts");
	if (whole)
		DO(mlx5dv_devx_umem_dereg(whole));
	for (i = 0; i + 1 < gaps; i++)
		DO(mlx5dv_devx_umem_dereg(small[i]));
	munmap(at, size);
}

int main(void) {
	struct devx_cq foreign;
	struct ibv_pd *more[8] = {NULL};
	uint8_t a[SIZE] = {0}, b[SIZE] = {0}, c[SIZE];
	int i;
	devx_open(&dev, NULL);
	devx_open(&other, NULL);
	foreign_pd = other.pdn;
	for (i = 0; foreign_pd == dev.pdn; i++) /* numbers can begin anew in each context */
		foreign_pd = number_of((more[i] = ibv_alloc_pd(other.context)));
	cq_begin(&dev, &cq, a, 4, 0);
	cq.ring = umem_make(&dev, PAGE, 0xff);
	cq.record = umem_make(&dev, PAGE, 0);
	cq_finish(&dev, &cq, a);
	qp_begin(&dev, &qp, b, 4, &cq);
	qp.ring = umem_make(&dev, PAGE, 0);
	qp.record = umem_make(&dev, PAGE, 0);
	qp_finish(&dev, &qp, b);
	cq_begin(&other, &foreign, c, 4, 0);
	cq_finish(&other, &foreign, c);

	handles();
	fields(a, b, foreign.number);
	states();
	lengths();
	command(c, 0x50a, qp.number); /* RST2INIT_QP of each length was right */
	changes(c, 16, 0, 0);
	subscriptions();
	memory_gone();
	parts(2, 0);
	parts(24, 0);
	parts(25, ENOMEM);
	parts(GAPS, ENOMEM);

	strcpy(doing, "after all mistakes");
	command(c, 0x50a, qp.number);
	changes(c, 16, 0, 0);
	qp_connect(&dev, &qp, qp.number);
	wqe_control(&qp, qp_block(&qp, 1), MLX5_OPCODE_NOP, 1);
	qp_ring(&qp, qp.ring.at);
	SAME(cq_wait(&cq)->op_own >> 4, MLX5_CQE_REQ);
	qp_destroy(&qp);
	cq_destroy(&cq);
	cq_destroy(&foreign);
	for (i = 0; more[i]; i++)
		DO(ibv_dealloc_pd(more[i]));
	devx_close(&other);
	devx_close(&dev);
	puts("devx_misuse: lengths, fields, handles, states, subscriptions, memory: ok");
	return 0;
}
