/* Atomic operations: the old value is returned, and no addition is lost when both ends add. */
#include "steps.h"

enum { ADDS = 200 };

static uint64_t word(const uint8_t *at) {
	uint64_t v;
	memcpy(&v, at, 8);
	return v;
}

static uint64_t atomic(struct end *e, struct link *l, uint8_t *into, uint32_t lkey, const struct key *remote,
                       enum ibv_wr_opcode opcode, uint64_t compare_add, uint64_t swap) {
	struct ibv_sge sge = {(uintptr_t)into, 8, lkey};
	struct ibv_send_wr wr, *bad;
	struct ibv_wc wc;
	memset(&wr, 0, sizeof wr);
	wr.wr_id = compare_add;
	wr.sg_list = &sge;
	wr.num_sge = 1;
	wr.opcode = opcode;
	wr.send_flags = IBV_SEND_SIGNALED;
	wr.wr.atomic.remote_addr = remote->addr;
	wr.wr.atomic.rkey = remote->rkey;
	wr.wr.atomic.compare_add = compare_add;
	wr.wr.atomic.swap = swap;
	DO(ibv_post_send(l->qp, &wr, &bad));
	wait_completion(e->cq, &wc);
	SAME(wc.status, IBV_WC_SUCCESS);
	SAME(wc.opcode, opcode == IBV_WR_ATOMIC_CMP_AND_SWP ? IBV_WC_COMP_SWAP : IBV_WC_FETCH_ADD);
	SAME(wc.byte_len, 8);
	return word(into);
}

void atomics(struct end *e, struct link *l, const struct memory *m, const struct ibv_mr *mr) {
	const uint64_t start = 0xfffffffffffffff0u; /* sums wrap, and carry through all bytes */
	const struct link_config self = {IBV_QPT_RC, 0, 0, 7, 0, 0, 1};
	struct link own = {NULL, NULL, 0};
	struct key remote;
	uint8_t *into = m->at + 64;
	uint64_t old, last = 0;
	int i;
	snprintf(doing + strlen(doing), sizeof doing - strlen(doing), ", atomics");
	memcpy(m->at, &start, 8);
	remote = show(e, mr);
	if (e->active) {
		SAME(atomic(e, l, into, mr->lkey, &remote, IBV_WR_ATOMIC_FETCH_AND_ADD, 0x123456789abcdef0u, 0),
		     start);
		SAME(atomic(e, l, into, mr->lkey, &remote, IBV_WR_ATOMIC_CMP_AND_SWP, 1, 2),
		     start + 0x123456789abcdef0u);
		SAME(atomic(e, l, into, mr->lkey, &remote, IBV_WR_ATOMIC_CMP_AND_SWP, start + 0x123456789abcdef0u, 7),
		     start + 0x123456789abcdef0u);
	}
	meet(e, "atomics, one");
	if (!e->active)
		SAME(word(m->at), 7);
	if (!e->active) /* the memory is this end's own, so it adds by a queue pair that is connected to itself */
		own = link_open(e, &self);
	meet(e, "atomics, both");
	for (i = 0; i < ADDS; i++) {
		old = atomic(e, e->active ? l : &own, into, mr->lkey, &remote, IBV_WR_ATOMIC_FETCH_AND_ADD,
		             e->active ? 1 : 1000, 0);
		MUST(i == 0 || old > last);
		last = old;
	}
	meet(e, "atomics, added");
	if (!e->active)
		link_close(&own);
	if (!e->active)
		SAME(word(m->at), 7 + ADDS * 1001);
}
