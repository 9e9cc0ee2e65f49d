/*
 * A put library for hosts and GPUs: the operations of NVSHMEM with its names and the order
 * of its arguments, over a send queue to each PE. Three things are different: the names
 * begin with nicless_, the first argument is the PE that calls, and the result is an error
 * number, so a value that comes back has a pointer as the last argument.
 *
 *   pe_rma.h     putmem, TYPE_p, putmem_signal, signal_op, getmem, TYPE_g, fence, quiet
 *   pe_atomic.h  uint64_atomic_inc, add, set; fetch_inc, fetch_add, fetch, compare_swap, swap
 *   pe_wait.h    TYPE_test, TYPE_wait_until, signal_wait_until, sync_all, barrier_all
 *   pe_group.h   for CUDA: forms of a whole warp and a whole block
 *
 * Life of a put: putmem finds both addresses in the symmetric heap (pe_post.h), reserves a
 * block in the queue to the PE, writes a WQE there, and rings; the device stores the bytes
 * in the heap of that PE, and then writes the CQE, which quiet waits for.
 */
#ifndef NICLESS_PUT_H
#define NICLESS_PUT_H

#include "pe_atomic.h"
#include "pe_group.h"
#include "pe_rma.h"
#include "pe_wait.h"

#endif
