/*
 * Atomics of the put library, on words of 8 bytes in symmetric heaps. put.h has a table.
 *
 * A word at an address that is not a multiple of 8, or is outside of the heap, is refused
 * with -EINVAL. Those without a result are posted only, as puts are. Those with a result
 * wait for it, and store it in *old, which may be anywhere; an error leaves it as it was.
 *
 * Each atomic in flight has a word for its result in the part of the heap that belongs to
 * the library. There are NICLESS_PE_RESULTS for a PE; further threads wait.
 */
#ifndef NICLESS_PE_ATOMIC_H
#define NICLESS_PE_ATOMIC_H

#include "pe_rma.h"

NICLESS_HD int nicless_uint64_atomic_add(struct nicless_pe *me, uint64_t *dest, uint64_t value, int pe) {
	return nicless_signal_op(me, dest, value, NICLESS_SIGNAL_ADD, pe);
}

NICLESS_HD int nicless_uint64_atomic_inc(struct nicless_pe *me, uint64_t *dest, int pe) {
	return nicless_signal_op(me, dest, 1, NICLESS_SIGNAL_ADD, pe);
}

/* Stores a value, by a WRITE: the device stores 8 aligned bytes at once, so nobody sees half of it. */
NICLESS_HD int nicless_uint64_atomic_set(struct nicless_pe *me, uint64_t *dest, uint64_t value, int pe) {
	return nicless_signal_op(me, dest, value, NICLESS_SIGNAL_SET, pe);
}

/* Posts FA, which adds value, or CS, which stores value if the word is cond, and waits for the old value. */
NICLESS_HD int nicless_pe_atomic(struct nicless_pe *me, uint8_t opcode, const uint64_t *word, uint64_t cond,
                                 uint64_t value, int pe, uint64_t *old) {
	struct nicless_peer *p;
	struct nicless_wr wr;
	uint64_t offset;
	if (nicless_pe_peer(me, pe, &p) != 0 || nicless_pe_find_word(me, word, &offset) != 0)
		return -EINVAL;
	nicless_pe_request(&wr, p, opcode, offset);
	wr.swap_add = value;
	wr.compare = cond;
	return nicless_pe_result(me, p, &wr, 8, old);
}

NICLESS_HD int nicless_uint64_atomic_fetch_add(struct nicless_pe *me, uint64_t *dest, uint64_t value, int pe,
                                               uint64_t *old) {
	return nicless_pe_atomic(me, NICLESS_FA, dest, 0, value, pe, old);
}

NICLESS_HD int nicless_uint64_atomic_fetch_inc(struct nicless_pe *me, uint64_t *dest, int pe, uint64_t *old) {
	return nicless_pe_atomic(me, NICLESS_FA, dest, 0, 1, pe, old);
}

NICLESS_HD int nicless_uint64_atomic_fetch(struct nicless_pe *me, const uint64_t *source, int pe,
                                           uint64_t *value) {
	return nicless_pe_atomic(me, NICLESS_FA, source, 0, 0, pe, value);
}

/* Stores value if the word is cond. *old is cond then, and what the word is otherwise. */
NICLESS_HD int nicless_uint64_atomic_compare_swap(struct nicless_pe *me, uint64_t *dest, uint64_t cond,
                                                  uint64_t value, int pe, uint64_t *old) {
	return nicless_pe_atomic(me, NICLESS_CS, dest, cond, value, pe, old);
}

/*
 * Stores value whatever the word is. RC has no such operation, so this is a fetch and a
 * compare-and-swap, which is repeated if others have changed the word in between.
 */
NICLESS_HD int nicless_uint64_atomic_swap(struct nicless_pe *me, uint64_t *dest, uint64_t value, int pe,
                                          uint64_t *old) {
	uint64_t guess = 0, was = 0;
	int error = nicless_uint64_atomic_fetch(me, dest, pe, &was);
	while (error == 0) {
		guess = was;
		error = nicless_uint64_atomic_compare_swap(me, dest, guess, value, pe, &was);
		if (error == 0 && was == guess) {
			*old = was;
			break;
		}
	}
	return error;
}

#endif
