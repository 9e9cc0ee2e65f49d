/*
 * Posts RDMA WRITEs by kernels, one launch after the other, until its input ends, and checks every word. With
 * a second argument it posts by one kernel, which does not end.
 *
 *   posting SOCKET [endless]
 */
#include <nicless/nicless_verbs.h>

#include <cuda_runtime.h>

#include <poll.h>

#include "../../../accel/cuda/poster.cuh"
#include "check.h"

enum { LOG_BLOCKS = 6, WORDS = 512, ROUNDS = 2000 };

static struct nicless_client engine;
static struct nicless_region memory;
static uint64_t *from, *to;
static struct poster *there; /* in memory of the GPU */

/* Stores the numbers of rounds, from first on; without an end if rounds is 0. */
__global__ void post(struct poster *p, uint64_t first, uint64_t rounds) {
	for (uint64_t r = first; rounds == 0 || r < first + rounds; r++) {
		uint64_t count;
		struct nicless_wc wc;
		if (!room(p, 1, &count))
			return;
		write_word(p, count, r % WORDS, r, NICLESS_SIGNALED);
		nicless_sq_commit(&p->sq, count, 1);
		nicless_sq_ring(&p->sq);
		if (nicless_cq_quiet(&p->cq, &p->sq, count + 1, &wc) != 0) {
			failed(p, &wc);
			return;
		}
		if (nicless_load64(&p->to[r % WORDS]) != r)
			atomicAdd(&p->wrong, 1);
	}
}

static void ask(int error) {
	if (error) {
		printf("%s\n", engine.error);
		exit(1);
	}
}

static void connect_queues(const char *socket) {
	struct nicless_qp_config f = {};
	static struct nicless_cq cq, others;
	static struct nicless_qp qp, peer;
	struct poster p = {};
	void *words, *room;
	uint32_t cqn;
	ask(nicless_connect(&engine, socket, "posting"));
	ask(nicless_region_open(&engine, 1 << 20, &memory));
	ask(nicless_alloc_pd(&engine, &f.pdn));
	ask(nicless_reg_mr(&engine, f.pdn, memory.mem, memory.size, NICLESS_FULL_ACCESS, &p.key));
	ask(nicless_cq_open(&engine, &memory, 4, NICLESS_CQ_IGNORE_OVERRUN, 0, &others, &cqn));
	f.send_cqn = f.recv_cqn = cqn;
	ask(nicless_qp_open(&engine, &memory, &f, &peer));
	ask(nicless_cq_open(&engine, &memory, 0, NICLESS_CQ_COLLAPSED | NICLESS_CQ_IGNORE_OVERRUN, 0, &cq, &cqn));
	f.send_cqn = cqn;
	f.log_sq = LOG_BLOCKS;
	ask(nicless_qp_open(&engine, &memory, &f, &qp));
	ask(nicless_qp_connect(&engine, &qp, peer.qpn, engine.device.guid));
	ask(nicless_qp_connect(&engine, &peer, qp.qpn, engine.device.guid));

	from = (uint64_t *)nicless_take(&memory, WORDS * sizeof *from);
	to = (uint64_t *)nicless_take(&memory, WORDS * sizeof *to);
	p.from = from;
	p.to = to;
	p.far_from = (uintptr_t)from;
	p.far_to = (uintptr_t)to;
	OK(cudaHostRegister(memory.mem, memory.size, cudaHostRegisterMapped));
	OK(cudaHostRegister(engine.uar, (size_t)engine.device.uar_pages * NICLESS_UAR_PAGE,
	                    cudaHostRegisterMapped));
	OK(cudaMalloc(&room, sizeof p));
	OK(cudaMalloc(&words, nicless_sq_memory(1 << LOG_BLOCKS)));
	there = (struct poster *)room;
	OK(cudaMemcpy(there, &p, sizeof p, cudaMemcpyHostToDevice));
	prepare<<<1, 1>>>(there, qp.sq.ring, 1 << LOG_BLOCKS, (uint32_t *)(void *)qp.sq.record, qp.reg, qp.qpn,
	                  words, cq.ring);
	OK(cudaDeviceSynchronize());
}

static int input_has_ended() {
	struct pollfd in = {0, POLLIN, 0};
	return poll(&in, 1, 0) != 0;
}

/* Launches a kernel of ROUNDS, and checks that each word is of its last round. */
static void launch(uint64_t first) {
	struct poster now;
	post<<<1, 1>>>(there, first, ROUNDS);
	OK(cudaDeviceSynchronize());
	OK(cudaMemcpy(&now, there, sizeof now, cudaMemcpyDeviceToHost));
	CHECK(now.syndrome == 0 && now.wrong == 0);
	for (uint64_t r = first + ROUNDS - WORDS; r < first + ROUNDS; r++)
		CHECK(to[r % WORDS] == r);
}

int main(int argc, char **argv) {
	uint64_t first = WORDS;
	if (argc < 2)
		return 2;
	connect_queues(argv[1]);
	if (argc > 2) {
		post<<<1, 1>>>(there, first, 0);
		while (__atomic_load_n(&to[WORDS - 1], __ATOMIC_ACQUIRE) < 4 * WORDS) {
		}
		printf("it posts\n");
		fflush(stdout);
		OK(cudaDeviceSynchronize());
		return 1; /* it does not end */
	}
	while (!input_has_ended()) {
		launch(first);
		first += ROUNDS;
		printf("round %llu\n", (unsigned long long)first);
		fflush(stdout);
	}
	printf("ok\n");
	return 0;
}
