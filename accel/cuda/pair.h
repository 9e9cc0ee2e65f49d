/* Two queue pairs of one client, connected with each other. For programs that show one thing. */
#ifndef NICLESS_CUDA_PAIR_H
#define NICLESS_CUDA_PAIR_H

#include <nicless/nicless_verbs.h>

static struct nicless_client engine;
static struct nicless_region memory; /* queues and payload, registered */
static struct nicless_cq cq;         /* of both */
static struct nicless_qp qp, peer;   /* of 64 blocks */
static uint32_t key, cqn;

/* Returns 0 or a negative errno; engine.error has the reason in words. */
static int connect_queues(const char *socket, const char *name) {
	struct nicless_qp_config f = {};
	int error;
	f.log_sq = 6;
	if ((error = nicless_connect(&engine, socket, name)) ||
	    (error = nicless_region_open(&engine, 1 << 20, &memory)) ||
	    (error = nicless_alloc_pd(&engine, &f.pdn)) ||
	    (error = nicless_reg_mr(&engine, f.pdn, memory.mem, memory.size, NICLESS_FULL_ACCESS, &key)) ||
	    (error = nicless_cq_open(&engine, &memory, 6, 0, 0, &cq, &cqn)))
		return error;
	f.send_cqn = f.recv_cqn = cqn;
	if ((error = nicless_qp_open(&engine, &memory, &f, &qp)) ||
	    (error = nicless_qp_open(&engine, &memory, &f, &peer)) ||
	    (error = nicless_qp_connect(&engine, &qp, peer.qpn, engine.device.guid)))
		return error;
	return nicless_qp_connect(&engine, &peer, qp.qpn, engine.device.guid);
}

#endif
