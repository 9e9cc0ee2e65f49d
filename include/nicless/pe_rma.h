/*
 * Puts and gets of the put library, and what orders them. put.h has a table.
 *
 * A put is posted only: its source may be changed after nicless_quiet, which waits for all
 * puts of this PE. Both sides are in symmetric heaps. Operations return 0 or
 *
 *   -EINVAL  there is no such PE, or bytes outside of the symmetric heap: nothing was posted
 *   -EIO     the queue to that PE has failed: see nicless_pe_syndrome
 *
 * Queues are reliable and keep the order, so WRITEs and atomics of one queue take effect in
 * the order in which they were posted.
 */
#ifndef NICLESS_PE_RMA_H
#define NICLESS_PE_RMA_H

#include "pe_post.h"

/* How a signal changes its word. All signals of a word have the same operation. */
enum nicless_signal_op { NICLESS_SIGNAL_SET = 0, NICLESS_SIGNAL_ADD = 1 };

/* Makes the request of a signal. sge and value live until it is posted. */
NICLESS_HD int nicless_pe_signal(const struct nicless_pe *me, const struct nicless_peer *p,
                                 const uint64_t *word, const uint64_t *value, int op, struct nicless_wr *wr,
                                 struct nicless_sge *sge) {
	uint64_t offset;
	if (nicless_pe_find_word(me, word, &offset) != 0)
		return -EINVAL;
	if (op == NICLESS_SIGNAL_SET) {
		nicless_pe_request(wr, p, NICLESS_WRITE, offset);
		wr->data = value;
		wr->inline_bytes = 8;
		return 0;
	}
	if (op != NICLESS_SIGNAL_ADD)
		return -EINVAL;
	nicless_pe_request(wr, p, NICLESS_FA, offset);
	wr->swap_add = *value;
	nicless_pe_attach(me, wr, sge, nicless_pe_own(NICLESS_PE_DISCARD), 8);
	return 0;
}

/* A range of memory on both sides, as offsets in the heaps. */
struct nicless_pe_range {
	uint64_t near, far, bytes;
};

/* Finds both sides of a put or get, of which the object `there` is the other PE's. */
NICLESS_HD int nicless_pe_find_both(const struct nicless_pe *me, const void *here, const void *there,
                                    uint64_t bytes, struct nicless_pe_range *r) {
	r->bytes = bytes;
	return nicless_pe_find(me, here, bytes, &r->near) != 0 ? -EINVAL
	                                                       : nicless_pe_find(me, there, bytes, &r->far);
}

/* Makes a request, WRITE or READ, for the next piece of a range, and removes the piece from it. */
NICLESS_HD void nicless_pe_piece(const struct nicless_pe *me, const struct nicless_peer *p, uint8_t opcode,
                                 struct nicless_pe_range *r, struct nicless_wr *wr, struct nicless_sge *sge) {
	uint64_t n = r->bytes < NICLESS_PE_CHUNK ? r->bytes : NICLESS_PE_CHUNK;
	nicless_pe_request(wr, p, opcode, r->far);
	nicless_pe_attach(me, wr, sge, r->near, n);
	r->near += n;
	r->far += n;
	r->bytes -= n;
}

/* Posts a range of at least one byte, and stores the count after its last WQE. */
NICLESS_HD int nicless_pe_move(const struct nicless_pe *me, struct nicless_peer *p, uint8_t opcode,
                               struct nicless_pe_range *r, uint64_t *end) {
	struct nicless_wr wr;
	struct nicless_sge sge;
	int error;
	do {
		nicless_pe_piece(me, p, opcode, r, &wr, &sge);
		error = nicless_pe_post(p, &wr, 1, end);
	} while (error == 0 && r->bytes);
	return error;
}

/* Puts bytes of one's own heap, at source, into the object dest of a PE. */
NICLESS_HD int nicless_putmem(struct nicless_pe *me, void *dest, const void *source, size_t bytes, int pe) {
	struct nicless_peer *p;
	struct nicless_pe_range r;
	uint64_t end;
	if (nicless_pe_peer(me, pe, &p) != 0)
		return -EINVAL;
	if (bytes == 0)
		return 0;
	if (nicless_pe_find_both(me, source, dest, bytes, &r) != 0)
		return -EINVAL;
	return nicless_pe_move(me, p, NICLESS_WRITE, &r, &end);
}

/* Posts a signal alone. It takes effect after all earlier puts of this thread to that PE. */
NICLESS_HD int nicless_signal_op(struct nicless_pe *me, uint64_t *sig_addr, uint64_t signal, int sig_op,
                                 int pe) {
	struct nicless_peer *p;
	struct nicless_wr wr;
	struct nicless_sge sge;
	uint64_t end;
	if (nicless_pe_peer(me, pe, &p) != 0)
		return -EINVAL;
	if (nicless_pe_signal(me, p, sig_addr, &signal, sig_op, &wr, &sge) != 0)
		return -EINVAL;
	return nicless_pe_post(p, &wr, 1, &end);
}

/*
 * Puts, and then signals, without waiting for the put: the signal follows it on the same
 * queue, so a PE that sees the signal sees the bytes. With 0 bytes it is the signal alone.
 */
NICLESS_HD int nicless_putmem_signal(struct nicless_pe *me, void *dest, const void *source, size_t bytes,
                                     uint64_t *sig_addr, uint64_t signal, int sig_op, int pe) {
	struct nicless_peer *p;
	struct nicless_pe_range r;
	struct nicless_wr wr[2];
	struct nicless_sge sge[2];
	uint64_t end;
	int error = 0;
	if (bytes == 0)
		return nicless_signal_op(me, sig_addr, signal, sig_op, pe);
	if (nicless_pe_peer(me, pe, &p) != 0 || nicless_pe_find_both(me, source, dest, bytes, &r) != 0)
		return -EINVAL;
	if (nicless_pe_signal(me, p, sig_addr, &signal, sig_op, &wr[1], &sge[1]) != 0)
		return -EINVAL;
	while (error == 0 && r.bytes > NICLESS_PE_CHUNK) {
		nicless_pe_piece(me, p, NICLESS_WRITE, &r, &wr[0], &sge[0]);
		error = nicless_pe_post(p, wr, 1, &end);
	}
	if (error)
		return error;
	nicless_pe_piece(me, p, NICLESS_WRITE, &r, &wr[0], &sge[0]);
	return nicless_pe_post(p, wr, 2, &end);
}

/* Gets bytes of the object source of a PE into one's own heap at dest. Returns when they have arrived. */
NICLESS_HD int nicless_getmem(struct nicless_pe *me, void *dest, const void *source, size_t bytes, int pe) {
	struct nicless_peer *p;
	struct nicless_pe_range r;
	uint64_t end;
	int error;
	if (nicless_pe_peer(me, pe, &p) != 0)
		return -EINVAL;
	if (bytes == 0)
		return 0;
	if (nicless_pe_find_both(me, dest, source, bytes, &r) != 0)
		return -EINVAL;
	error = nicless_pe_move(me, p, NICLESS_READ, &r, &end);
	return error ? error : nicless_pe_await(p, end);
}

/* Puts a value of 1 to 8 bytes, which the WQE carries. */
NICLESS_HD int nicless_pe_p(struct nicless_pe *me, void *dest, const void *value, uint32_t bytes, int pe) {
	struct nicless_peer *p;
	struct nicless_wr wr;
	uint64_t offset, end;
	if (nicless_pe_peer(me, pe, &p) != 0 || nicless_pe_find(me, dest, bytes, &offset) != 0)
		return -EINVAL;
	nicless_pe_request(&wr, p, NICLESS_WRITE, offset);
	wr.data = value;
	wr.inline_bytes = bytes;
	return nicless_pe_post(p, &wr, 1, &end);
}

/* Gets a value of 1 to 8 bytes. */
NICLESS_HD int nicless_pe_g(struct nicless_pe *me, const void *source, uint32_t bytes, int pe,
                            uint64_t *value) {
	struct nicless_peer *p;
	struct nicless_wr wr;
	uint64_t offset;
	if (nicless_pe_peer(me, pe, &p) != 0 || nicless_pe_find(me, source, bytes, &offset) != 0)
		return -EINVAL;
	nicless_pe_request(&wr, p, NICLESS_READ, offset);
	return nicless_pe_result(me, p, &wr, bytes, value);
}

/*
 * nicless_TYPE_p puts one value, whose variable may be changed at once. nicless_TYPE_g
 * stores the value of a PE in *value, which may be anywhere, and leaves it after an error.
 */
#define NICLESS_PE_VALUE(name, type) \
	NICLESS_HD int nicless_##name##_p(struct nicless_pe *me, type *dest, type value, int pe) { \
		return nicless_pe_p(me, dest, &value, sizeof value, pe); \
	} \
	NICLESS_HD int nicless_##name##_g(struct nicless_pe *me, const type *source, int pe, type *value) { \
		union { \
			uint64_t word; \
			type value; \
		} got; \
		int error = nicless_pe_g(me, source, sizeof *value, pe, &got.word); \
		if (error == 0) \
			*value = got.value; \
		return error; \
	}

NICLESS_PE_VALUE(int32, int32_t)
NICLESS_PE_VALUE(uint32, uint32_t)
NICLESS_PE_VALUE(int64, int64_t)
NICLESS_PE_VALUE(uint64, uint64_t)
NICLESS_PE_VALUE(float, float)
NICLESS_PE_VALUE(double, double)

/*
 * Orders this thread's earlier puts, signals and atomics to each PE before its later ones
 * to the same PE. The queue does that without help, so this only keeps the compiler from
 * moving anything. A READ is different: a later WRITE of the queue may overtake the bytes
 * that a READ fetches. So a get of one thread, and a put of another over the same bytes,
 * need nicless_quiet between them, or the end of the get, which waits for its data.
 */
NICLESS_HD void nicless_fence(struct nicless_pe *me) {
	(void)me;
	__asm__ __volatile__("" ::: "memory");
}

/* Waits until all that was posted to one PE before the call has completed. */
NICLESS_HD int nicless_quiet_pe(struct nicless_pe *me, int pe) {
	struct nicless_peer *p;
	if (nicless_pe_peer(me, pe, &p) != 0)
		return -EINVAL;
	return nicless_pe_await(p, nicless_poster_load64(&p->sq.reserved));
}

/*
 * Waits until all that this PE has posted before the call, to all PEs, has completed: by
 * this thread, and by those that it has synchronised with. It waits for the other PEs also
 * if one has failed, and returns -EIO then.
 */
NICLESS_HD int nicless_quiet(struct nicless_pe *me) {
	int i, error, first = 0;
	for (i = 0; i < me->n_pes; i++) {
		error = nicless_quiet_pe(me, i);
		if (first == 0)
			first = error;
	}
	return first;
}

#endif
