/*
 * The interface of RDMaxcel (meta-pytorch/monarch, rdmaxcel-sys/src/rdmaxcel.h) by
 * which host code and kernels post and poll. Names, parameters and effects are the
 * same, so that programs written for RDMaxcel can use it. docs/CUDA.md lists which
 * parts of RDMaxcel's header are here, and what replaces the other parts.
 *
 *   send_wqe, recv_wqe    write one WQE and its doorbell record
 *   db_ring               copies a WQE into a register
 *   cqe_poll              polls one CQE
 *   cu_NAME               kernel that does the same as NAME; in plain C and C++ a function
 *   launch_NAME           runs the kernel cu_NAME with one thread; in plain C and C++ it
 *                         calls the function, with the same bytes as the result
 *   register_cuda_memory  gives the GPU access to the queues (rdmaxcel_cuda.h)
 *   create_qp, create_mlx5dv_NAME
 *                         make a QP of libmlx5 and say where its queues are
 *                         (rdmaxcel_verbs.h); only if <infiniband/mlx5dv.h> is included first
 *
 * The functions keep no state. wr_id is the index of the WQE, and each call of
 * send_wqe or recv_wqe sets the record to the index after its WQE. So only one thread
 * at a time may post to a queue.
 *
 * The same as in RDMaxcel:
 *
 *   - A send is three segments in one block for every op_type: control, remote
 *     address, data. The last 16 bytes of the block stay as they were.
 *   - Signaled sends are also solicited: fm_ce_se is 0x0a for them, and 0 for other
 *     sends.
 *   - length is cut to 32 bits and written as it is. That includes 0 and values with
 *     bit 31 set, which mean something else to a device.
 *   - send_wqe, not db_ring, writes the send record: the low 24 bits of the index
 *     after the WQE.
 *   - db_ring copies 64 bytes in eight stores. Several calls may follow one store to
 *     the record.
 *   - cqe_poll polls one entry. For CQE opcodes below 4 it reports the byte count, and
 *     for all others -2. It writes the consumer index, cut to 24 bits.
 *
 * Different from RDMaxcel:
 *
 *   - The index in the control segment is cut to 16 bits. In the original, bits 16 to
 *     23 of the index overwrite opmod.
 *   - Records and consumer indices are published with release order, the register is
 *     published after the record, and the owner byte is observed with acquire order.
 *     The original relies on volatile, which orders nothing on a GPU or on arm64: run
 *     programs that post by the original's kernels under nicless run --guard-posts.
 *   - recv_wqe writes slot wr_id & (wqe_cnt - 1), or slot 0 if wqe_cnt is 0. The
 *     original always writes slot 0. wqe_params_t has no stride: see
 *     NICLESS_RECV_STRIDE. A segment with an invalid key ends the list in the entry.
 *     So a message that is longer than wqe_params_t.length fails, and none of it goes
 *     to memory that old contents of the entry name.
 *   - cqe_poll reads the CQE in the last 64 bytes of an entry. The original reads the
 *     first 64 bytes. In an entry of 128 bytes these are not the CQE.
 *   - cqe_poll asserts nothing. If there is no new entry, *byte_cnt stays as it is.
 *   - launch_cqe_poll returns CQE_POLL_ERROR for a CQE with an error. The original
 *     returns CQE_POLL_FALSE, although it has consumed the entry.
 */
#ifndef NICLESS_RDMAXCEL_H
#define NICLESS_RDMAXCEL_H

#include <stdbool.h>
#include <string.h>

#include "formats.h"
#include "rdmaxcel_cuda.h"

/*
 * Bytes from one entry to the next in the receive queues that recv_wqe and
 * launch_recv_wqe post to: a power of two, at least 16. RDMaxcel makes its queues with
 * 30 pieces of memory for each receive (max_recv_sge in IbvConfig). That is 480 bytes,
 * which libmlx5 rounds up to 512. For queues of another stride, define this macro
 * before you include this header, or call nicless_recv_wqe.
 */
#ifndef NICLESS_RECV_STRIDE
#define NICLESS_RECV_STRIDE 512
#endif

#include "rdmaxcel_verbs.h"

typedef enum { CQE_POLL_ERROR = -1, CQE_POLL_FALSE = 0, CQE_POLL_TRUE = 1 } cqe_poll_result_t;

typedef struct {
	uintptr_t laddr;
	uint32_t lkey;
	size_t length;
	uint64_t wr_id;   /* the index of the WQE, counted from 0 */
	bool signaled;
	uint32_t op_type; /* enum nicless_opcode */
	uintptr_t raddr;
	uint32_t rkey;
	uint32_t qp_num;
	uint8_t *buf;     /* the ring */
	uint32_t *dbrec;  /* the QP's record, both words */
	uint32_t wqe_cnt; /* blocks or entries of the ring, a power of two */
} wqe_params_t;

typedef struct {
	uint8_t *cqe_buf;
	uint32_t cqe_size;
	uint32_t consumer_index;
	uint32_t cqe_cnt; /* a power of two */
	uint32_t *dbrec;  /* the CQ's record */
} cqe_poll_params_t;

/*
 * Copies 64 bytes of a WQE into a register. The first store rings the doorbell, and
 * comes after the store to the record.
 */
NICLESS_HD void db_ring(void *dst, void *src) {
	uint64_t *to = (uint64_t *)dst;
	const nicless_word64 *from = (const nicless_word64 *)src;
	int i;
	nicless_publish64(to, from[0]);
	for (i = 1; i < 8; i++)
		nicless_store64(to + i, from[i]);
}

NICLESS_HD void send_wqe(wqe_params_t params) {
	uint32_t index = (uint32_t)params.wr_id;
	uint8_t *at = params.buf + (size_t)(index & (params.wqe_cnt - 1)) * NICLESS_BLOCK;
	nicless_put_raddr(at + 16, params.raddr, params.rkey);
	nicless_put16(at + 32, (uint64_t)(uint32_t)params.length << 32 | params.lkey, params.laddr);
	nicless_put_ctrl(at, (uint16_t)index, (uint8_t)params.op_type, params.qp_num, 3,
	                 params.signaled ? NICLESS_SIGNALED | NICLESS_SOLICITED : 0, 0);
	nicless_publish32(&params.dbrec[NICLESS_REC_SEND], nicless_be32((index + 1) & 0xffffff));
}

/* Does what recv_wqe does, for a queue whose entries are stride bytes apart: a power of two, at least 16. */
NICLESS_HD void nicless_recv_wqe(wqe_params_t params, uint32_t stride) {
	uint64_t slot = params.wqe_cnt ? params.wr_id & (params.wqe_cnt - 1) : 0;
	uint8_t *at = params.buf + (size_t)slot * stride;
	nicless_put16(at, (uint64_t)(uint32_t)params.length << 32 | params.lkey, params.laddr);
	if (stride >= 2 * NICLESS_UNIT)
		nicless_put_data(at + NICLESS_UNIT, 0, 0, NICLESS_KEY_END);
	nicless_publish32(&params.dbrec[NICLESS_REC_RECV], nicless_be32((uint32_t)(params.wr_id + 1)));
}

NICLESS_HD void recv_wqe(wqe_params_t params) { nicless_recv_wqe(params, NICLESS_RECV_STRIDE); }

NICLESS_HD void cqe_poll(int32_t *byte_cnt, cqe_poll_params_t params) {
	uint32_t index = params.consumer_index;
	const uint8_t *cqe =
		params.cqe_buf + (size_t)((index & (params.cqe_cnt - 1)) + 1) * params.cqe_size - NICLESS_CQE;
	uint8_t op_own = (uint8_t)nicless_be64(
		nicless_observe64((const uint64_t *)(const void *)(cqe + NICLESS_CQE_TAIL)));
	if (op_own >= NICLESS_CQE_FRESH || (op_own & 1) != (index / params.cqe_cnt & 1))
		return;
	const nicless_word32 *w = (const nicless_word32 *)(const void *)cqe;
	*byte_cnt = op_own >> 4 < 4 ? (int32_t)nicless_be32(w[NICLESS_CQE_BYTE_CNT / 4]) : -2;
	nicless_publish32(&params.dbrec[NICLESS_REC_CI], nicless_be32((index + 1) & 0xffffff));
}

/*
 * Kernels of one thread, and host functions that launch them. Like those of RDMaxcel,
 * the launches of send_wqe and recv_wqe wait for the kernel. launch_db_ring does not
 * wait, but it runs after earlier launches, because all are in the default stream.
 */
#if defined(__CUDACC__) || defined(__CUDA__)
#define NICLESS_KERNEL __global__ static __attribute__((__unused__)) void
#define NICLESS_LAUNCH(kernel, ...) kernel<<<1, 1>>>(__VA_ARGS__)
#define NICLESS_FIRST_THREAD (threadIdx.x == 0 && blockIdx.x == 0)
#define NICLESS_JOIN() ((void)cudaDeviceSynchronize())
#else
#define NICLESS_KERNEL static inline void
#define NICLESS_LAUNCH(kernel, ...) kernel(__VA_ARGS__)
#define NICLESS_FIRST_THREAD 1
#define NICLESS_JOIN() ((void)0)
#endif

NICLESS_KERNEL cu_db_ring(void *dst, void *src) {
	if (NICLESS_FIRST_THREAD)
		db_ring(dst, src);
}

NICLESS_KERNEL cu_send_wqe(wqe_params_t params) {
	if (NICLESS_FIRST_THREAD)
		send_wqe(params);
}

NICLESS_KERNEL cu_recv_wqe(wqe_params_t params) {
	if (NICLESS_FIRST_THREAD)
		recv_wqe(params);
}

NICLESS_KERNEL cu_cqe_poll(int32_t *result, cqe_poll_params_t params) {
	if (NICLESS_FIRST_THREAD)
		cqe_poll(result, params);
}

static inline void launch_db_ring(void *dst, void *src) { NICLESS_LAUNCH(cu_db_ring, dst, src); }

static inline void launch_send_wqe(wqe_params_t params) {
	NICLESS_LAUNCH(cu_send_wqe, params);
	NICLESS_JOIN();
}

static inline void launch_recv_wqe(wqe_params_t params) {
	NICLESS_LAUNCH(cu_recv_wqe, params);
	NICLESS_JOIN();
}

/*
 * Polls entry cqe_idx of a CQ, which is a struct mlx5dv_cq or a struct nicless_dv_cq.
 * Returns CQE_POLL_ERROR for a CQE with an error, and also if the kernel could not be
 * run.
 */
static inline cqe_poll_result_t launch_cqe_poll(void *mlx5dv_cq, int32_t cqe_idx) {
	struct nicless_dv_cq cq;
	cqe_poll_params_t params;
	int32_t bytes = -1, *result = &bytes;
	memcpy(&cq, mlx5dv_cq, sizeof cq);
	params.cqe_buf = (uint8_t *)cq.buf;
	params.cqe_size = cq.cqe_size;
	params.consumer_index = (uint32_t)cqe_idx;
	params.cqe_cnt = cq.cqe_cnt;
	params.dbrec = cq.dbrec;
#if defined(__CUDACC__) || defined(__CUDA__)
	{
		void *room = 0;
		cudaError_t error = cudaMallocManaged(&room, sizeof *result);
		if (error != cudaSuccess)
			return CQE_POLL_ERROR;
		result = (int32_t *)room;
		*result = -1;
		NICLESS_LAUNCH(cu_cqe_poll, result, params);
		error = cudaDeviceSynchronize();
		bytes = error == cudaSuccess ? *result : -2;
		(void)cudaFree(room);
	}
#else
	NICLESS_LAUNCH(cu_cqe_poll, result, params);
#endif
	return bytes == -1 ? CQE_POLL_FALSE : bytes == -2 ? CQE_POLL_ERROR : CQE_POLL_TRUE;
}

static inline cqe_poll_result_t launch_send_cqe_poll(void *mlx5dv_cq, int32_t cqe_idx) {
	return launch_cqe_poll(mlx5dv_cq, cqe_idx);
}

static inline cqe_poll_result_t launch_recv_cqe_poll(void *mlx5dv_cq, int32_t cqe_idx) {
	return launch_cqe_poll(mlx5dv_cq, cqe_idx);
}

#endif
