/*
 * Waiting for words of one's own heap that other PEs change, and barriers. put.h has a table.
 *
 * These waits are for memory, and have no end if nobody changes it, as NVSHMEM's: a PE
 * that has died changes nothing. A wait for completions (quiet, get, atomics) does end,
 * because the device completes work for a dead PE with an error.
 */
#ifndef NICLESS_PE_WAIT_H
#define NICLESS_PE_WAIT_H

#include "pe_rma.h"

/* Comparisons of a word (first) with a value. They have NVSHMEM's numbers. */
enum nicless_cmp {
	NICLESS_CMP_EQ = 0,
	NICLESS_CMP_NE = 1,
	NICLESS_CMP_GT = 2,
	NICLESS_CMP_LE = 3,
	NICLESS_CMP_LT = 4,
	NICLESS_CMP_GE = 5
};

/* Returns whether a comparison holds between a word that is less than or equal to a value, or neither. */
NICLESS_HD int nicless_holds(int cmp, int less, int equal) {
	switch (cmp) {
	case NICLESS_CMP_EQ:
		return equal;
	case NICLESS_CMP_NE:
		return !equal;
	case NICLESS_CMP_GT:
		return !less && !equal;
	case NICLESS_CMP_LE:
		return less || equal;
	case NICLESS_CMP_LT:
		return less;
	case NICLESS_CMP_GE:
		return !less;
	}
	return -EINVAL;
}

/*
 * nicless_TYPE_test returns whether *ivar compares so with the value, 1 or 0, and
 * -EINVAL for a comparison that there is not. nicless_TYPE_wait_until waits until it
 * does, and returns 0, or -EINVAL. Later loads of the thread see all that the PE which
 * changed the word has put before.
 */
#define NICLESS_PE_WAITS(name, type, word, observe)                                              \
	NICLESS_HD int nicless_##name##_test(const type *ivar, int cmp, type value) {            \
		type is = (type)observe((const word *)ivar);                                     \
		return nicless_holds(cmp, is < value, is == value);                              \
	}                                                                                        \
	NICLESS_HD int nicless_##name##_wait_until(const type *ivar, int cmp, type value) {      \
		uint32_t polls = 0;                                                              \
		int is;                                                                          \
		while ((is = nicless_##name##_test(ivar, cmp, value)) == 0)                      \
			nicless_pe_pause(&polls);                                                \
		return is < 0 ? is : 0;                                                          \
	}

NICLESS_PE_WAITS(int32, int32_t, uint32_t, nicless_observe32)
NICLESS_PE_WAITS(uint32, uint32_t, uint32_t, nicless_observe32)
NICLESS_PE_WAITS(int64, int64_t, uint64_t, nicless_observe64)
NICLESS_PE_WAITS(uint64, uint64_t, uint64_t, nicless_observe64)

/* Returns the value of a signal of one's own. */
NICLESS_HD uint64_t nicless_signal_fetch(const uint64_t *sig_addr) { return nicless_observe64(sig_addr); }

/* Waits for a signal, and returns the value that ended the wait: at once for an unknown comparison. */
NICLESS_HD uint64_t nicless_signal_wait_until(const uint64_t *sig_addr, int cmp, uint64_t value) {
	uint32_t polls = 0;
	uint64_t is = nicless_observe64(sig_addr);
	while (nicless_holds(cmp, is < value, is == value) == 0) {
		nicless_pe_pause(&polls);
		is = nicless_observe64(sig_addr);
	}
	return is;
}

/*
 * Waits until all PEs have called it. One thread of each PE at a time does. Returns -EIO
 * without having waited for all if the queue to a PE has failed; the PEs have no barrier
 * any more then.
 *
 * In round r a PE stores the number of the barrier, its epoch, in word r of the PE that is
 * 2^r further, and waits for that of the PE which is 2^r before it. After the last round
 * each PE has heard of each, by way of others (a dissemination barrier). A PE may be a
 * barrier ahead: its epoch is greater then, and a word that is greater than the epoch for
 * which one waits says that this one has been, too. Each word has one writer, whose stores
 * come in their order, so a word never goes back. A PE waits also for the completions of
 * its own stores, because it may end after a barrier, and the device drops what it has not
 * executed of a PE that ends.
 */
NICLESS_HD int nicless_sync_all(struct nicless_pe *me) {
	const void *at = me->heap - NICLESS_PE_RESERVED + NICLESS_PE_ROUNDS;
	const uint64_t *words = (const uint64_t *)at;
	uint64_t epoch = ++me->epoch, step, round, end;
	struct nicless_wr wr;
	for (step = 1, round = 0; step < (uint64_t)me->n_pes; step *= 2, round++) {
		struct nicless_peer *p = &me->peer[((uint64_t)me->my_pe + step) % (uint64_t)me->n_pes];
		int error;
		nicless_pe_request(&wr, p, NICLESS_WRITE, nicless_pe_own(NICLESS_PE_ROUNDS + 8 * round));
		wr.data = &epoch;
		wr.inline_bytes = 8;
		error = nicless_pe_post(p, &wr, 1, &end);
		if (error)
			return error;
		nicless_uint64_wait_until(&words[round], NICLESS_CMP_GE, epoch);
		error = nicless_pe_await(p, end);
		if (error)
			return error;
	}
	return 0;
}

/* The same, after everything that this PE has posted has completed: then each PE sees the puts of all. */
NICLESS_HD int nicless_barrier_all(struct nicless_pe *me) {
	int error = nicless_quiet(me);
	return error ? error : nicless_sync_all(me);
}

#endif
