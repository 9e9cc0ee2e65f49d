/*
 * Posts RDMA WRITEs from a GPU to a running engine:
 *
 *   nicless engine --socket $XDG_RUNTIME_DIR/nicless.sock &
 *   ./poster $XDG_RUNTIME_DIR/nicless.sock
 *
 * The CPU makes the queues and maps their memory into the GPU. After that it
 * only waits for kernels. See docs/CUDA.md.
 */
#include <nicless/nicless_verbs.h>

#include <cuda_runtime.h>
#include <time.h>

#include "poster.cuh"

enum { LOG_BLOCKS = 10, MOST_PARTIES = 256 };

static struct nicless_client engine;
static struct nicless_region queues, data;
static struct nicless_qp qp, peer;
/* cq is for the sends of qp only; others is unused, but each QP needs CQs. */
static struct nicless_cq cq, others;
static uint32_t key;

static void die(const char *what, const char *why) {
	fprintf(stderr, "poster: error: %s: %s\n", what, why);
	exit(1);
}

static void ask(int error, const char *what) {
	if (error)
		die(what, engine.error);
}

static void cuda(cudaError_t error, const char *what) {
	if (error != cudaSuccess)
		die(what, cudaGetErrorString(error));
}

static void connect_queues(const char *socket) {
	struct nicless_qp_config f = {};
	uint32_t cqn, others_cqn;
	ask(nicless_connect(&engine, socket, "cuda poster"), "connect");
	ask(nicless_region_open(&engine, 1 << 20, &queues), "queues");
	ask(nicless_region_open(&engine, 1 << 20, &data), "data");
	ask(nicless_alloc_pd(&engine, &f.pdn), "domain");
	ask(nicless_reg_mr(&engine, f.pdn, data.mem, data.size, NICLESS_FULL_ACCESS, &key), "key");
	ask(nicless_cq_open(&engine, &queues, 0, NICLESS_CQ_COLLAPSED | NICLESS_CQ_IGNORE_OVERRUN, 0, &cq, &cqn),
	    "CQ");
	ask(nicless_cq_open(&engine, &queues, 4, NICLESS_CQ_IGNORE_OVERRUN, 0, &others, &others_cqn), "CQ");
	f.send_cqn = cqn;
	f.recv_cqn = others_cqn;
	f.type = NICLESS_RC;
	f.log_sq = LOG_BLOCKS;
	ask(nicless_qp_open(&engine, &queues, &f, &qp), "QP");
	f.log_sq = 0;
	f.send_cqn = others_cqn;
	ask(nicless_qp_open(&engine, &queues, &f, &peer), "peer");
	ask(nicless_qp_connect(&engine, &qp, peer.qpn, engine.device.guid), "connect QP");
	ask(nicless_qp_connect(&engine, &peer, qp.qpn, engine.device.guid), "connect peer");
}

/* Returns the GPU's address of memory of this process that is registered with CUDA. */
static uint8_t *device_address(void *at) {
	void *there;
	cuda(cudaHostGetDevicePointer(&there, at, 0), "cudaHostGetDevicePointer");
	return (uint8_t *)there;
}

static uint8_t *map(struct nicless_region *r, const char *what) {
	cuda(cudaHostRegister(r->mem, r->size, cudaHostRegisterMapped), what);
	return device_address(r->mem);
}

/*
 * Returns the register, or 0 if the UAR pages cannot be mapped. Without a register, the GPU posts
 * by the record alone, which the engine polls.
 */
static void *map_register(void) {
	cudaError_t error = cudaHostRegister(engine.uar, (size_t)engine.device.uar_pages * NICLESS_UAR_PAGE,
	                                     cudaHostRegisterMapped);
	if (error == cudaSuccess)
		return device_address(engine.uar) + ((uint8_t *)qp.reg - engine.uar);
	printf("UAR pages cannot be mapped (%s): posting by record alone\n", cudaGetErrorString(error));
	cudaGetLastError(); /* clears the error */
	return 0;
}

static int ascending(const void *a, const void *b) {
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x > y) - (x < y);
}

static uint64_t now() {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/*
 * Runs the kernel put. Prints the times of the rounds (see put in poster.cuh), and the WRITEs per
 * second: all WRITEs divided by the time from launch to end.
 */
static void measure(struct poster *p, const char *name, unsigned blocks, unsigned threads, uint64_t rounds) {
	unsigned lanes = threads < LANES ? 1 : LANES;
	uint64_t parties = (uint64_t)blocks * (threads / lanes), n = parties * rounds, begin, end_of_all, *took, *there;
	struct poster end;
	void *room;
	took = (uint64_t *)malloc(n * sizeof *took);
	cuda(cudaMalloc(&room, n * sizeof *took), "cudaMalloc");
	there = (uint64_t *)room;
	begin = now();
	put<<<blocks, threads>>>(p, rounds, there);
	cuda(cudaGetLastError(), "launch");
	cuda(cudaDeviceSynchronize(), name);
	end_of_all = now();
	cuda(cudaMemcpy(&end, p, sizeof end, cudaMemcpyDeviceToHost), "cudaMemcpy");
	cuda(cudaMemcpy(took, there, n * sizeof *took, cudaMemcpyDeviceToHost), "cudaMemcpy");
	if (end.syndrome || end.wrong) {
		fprintf(stderr, "poster: error: %s: syndrome 0x%02x, %u words wrong\n", name, end.syndrome,
		        end.wrong);
		exit(1);
	}
	qsort(took, n, sizeof *took, ascending);
	printf("%-14s %4llu parties of %2u lanes, %8llu rounds: "
	       "min %.2f us, median %.2f us, p99 %.2f us; %.3f M writes/s\n",
	       name, (unsigned long long)parties, lanes, (unsigned long long)n, took[0] / 1e3, took[n / 2] / 1e3,
	       took[n * 99 / 100] / 1e3, 1e3 * lanes * n / (end_of_all - begin));
	cuda(cudaFree(there), "cudaFree");
	free(took);
}

enum { MOST_ROUNDS = 10000 }; /* of one lane or warp; of many blocks a fiftieth */

int main(int argc, char **argv) {
	struct poster p = {}, *there;
	struct cudaDeviceProp gpu;
	uint8_t *queues_there, *data_there;
	uint64_t rounds = MOST_ROUNDS;
	void *memory, *room;
	if (argc > 2)
		rounds = strtoull(argv[2], 0, 10);
	if (argc < 2 || argc > 3 || rounds == 0 || rounds > MOST_ROUNDS) {
		fprintf(stderr, "usage: poster SOCKET [ROUNDS], of 1 to %d, %d if you do not say\n", MOST_ROUNDS, MOST_ROUNDS);
		return 2;
	}
	cuda(cudaGetDeviceProperties(&gpu, 0), "GPU");
	connect_queues(argv[1]);
	queues_there = map(&queues, "map the queues");
	data_there = map(&data, "map the data");
	p.key = key;
	p.far_from = (uintptr_t)data.mem;
	p.far_to = p.far_from + data.size / 2;
	p.from = (uint64_t *)(void *)data_there;
	p.to = (uint64_t *)(void *)(data_there + data.size / 2);
	cuda(cudaMalloc(&room, sizeof p), "cudaMalloc");
	cuda(cudaMalloc(&memory, nicless_sq_memory(1 << LOG_BLOCKS)), "cudaMalloc");
	there = (struct poster *)room;
	cuda(cudaMemcpy(there, &p, sizeof p, cudaMemcpyHostToDevice), "cudaMemcpy");
	prepare<<<1, 1>>>(there, queues_there + (qp.sq.ring - queues.mem), 1 << LOG_BLOCKS,
	                  (uint32_t *)(void *)(queues_there + ((uint8_t *)qp.sq.record - queues.mem)),
	                  map_register(), qp.qpn, memory, queues_there + (cq.ring - queues.mem));
	cuda(cudaDeviceSynchronize(), "prepare");
	printf("%s, sm_%d%d, %d multiprocessors; 8-byte RDMA WRITEs, times by %%globaltimer\n", gpu.name,
	       gpu.major, gpu.minor, gpu.multiProcessorCount);
	measure(there, "one lane", 1, 1, rounds);
	measure(there, "one warp", 1, LANES, rounds);
	measure(there, "many blocks", MOST_PARTIES / 4, 4 * LANES, (rounds + 49) / 50);
	nicless_close(&engine);
	return 0;
}
