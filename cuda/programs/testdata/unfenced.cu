/*
 * Posts by a kernel that has forgotten its fence: nothing orders a WQE and the record that announces it. It
 * ends with status 1 if a WRITE fails, and 2 if it cannot begin.
 *
 *   unfenced SOCKET
 */
#include <nicless/nicless_verbs.h>

#include <cuda_runtime.h>

#include <nicless/rdmaxcel.h>

#include "../../../accel/cuda/pair.h"

enum { WRITES = 60 };

__global__ void post(wqe_params_t p) {
	volatile uint32_t *record = &p.dbrec[NICLESS_REC_SEND];
	for (uint32_t i = 0; i < WRITES; i++) {
		uint8_t *at = p.buf + i * NICLESS_BLOCK;
		nicless_put_raddr(at + 16, p.raddr, p.rkey);
		nicless_put16(at + 32, (uint64_t)p.length << 32 | p.lkey, p.laddr);
		nicless_put_ctrl(at, (uint16_t)i, (uint8_t)p.op_type, p.qp_num, 3, NICLESS_SIGNALED, 0);
		asm volatile("" ::: "memory");
		*record = nicless_be32(i + 1);
	}
}

int main(int argc, char **argv) {
	struct nicless_dv_qp dv;
	wqe_params_t p = {};
	int done = 0;
	if (argc != 2 || connect_queues(argv[1], "unfenced") != 0 ||
	    cudaHostRegister(memory.mem, memory.size, cudaHostRegisterMapped) != cudaSuccess) {
		fprintf(stderr, "unfenced: error: %s\n", engine.error);
		return 2;
	}
	nicless_qp_dv(&qp, &dv);
	p.buf = (uint8_t *)dv.sq.buf;
	p.dbrec = dv.dbrec;
	p.qp_num = qp.qpn;
	p.laddr = (uintptr_t)nicless_take(&memory, 8);
	p.raddr = (uintptr_t)nicless_take(&memory, 8);
	p.lkey = p.rkey = key;
	p.length = 8;
	p.op_type = NICLESS_WRITE;
	post<<<1, 1>>>(p);
	if (cudaDeviceSynchronize() != cudaSuccess)
		return 2;
	while (done < WRITES) {
		struct nicless_wc wc;
		if (nicless_cq_poll(&cq, &wc, 1) == 0)
			continue;
		if (wc.kind == NICLESS_CQE_REQ_ERR) {
			fprintf(stderr, "unfenced: error: WRITE %d failed, syndrome %#x\n", done, wc.syndrome);
			return 1;
		}
		done++;
	}
	printf("ok\n");
	return 0;
}
