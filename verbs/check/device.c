#include "device.h"

static void connect_qp(struct device *d) {
	struct ibv_qp_init_attr init = {NULL, NULL, NULL, NULL, {8, 8, 1, 1, 0}, IBV_QPT_RC, 0};
	struct ibv_qp_attr a = {0};
	init.send_cq = init.recv_cq = d->cq;
	MUST((d->qp = ibv_create_qp(d->pd, &init)));
	a.qp_state = IBV_QPS_INIT;
	a.port_num = 1;
	a.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	DO(ibv_modify_qp(d->qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	connect_with(d->qp, d->qp);
}

void device_open(struct device *d, size_t size) {
	memset(d, 0, sizeof *d);
	d->size = size;
	d->context = open_device(NULL);
	MUST((d->pd = ibv_alloc_pd(d->context)));
	MUST((d->cq = ibv_create_cq(d->context, 16, NULL, NULL, 0)));
	MUST(posix_memalign((void **)&d->bytes, 4096, size) == 0);
	MUST((d->window = ibv_reg_mr(d->pd, d->bytes, size, IBV_ACCESS_LOCAL_WRITE)));
	connect_qp(d);
}

void device_close(struct device *d) {
	DO(ibv_destroy_qp(d->qp));
	DO(ibv_dereg_mr(d->window));
	DO(ibv_destroy_cq(d->cq));
	DO(ibv_dealloc_pd(d->pd));
	DO(ibv_close_device(d->context));
	free(d->bytes);
}

static enum ibv_wc_status work(struct device *d, struct ibv_send_wr *wr, size_t n) {
	struct ibv_sge piece = {(uintptr_t)d->bytes, (uint32_t)n, d->window->lkey};
	struct ibv_send_wr *bad;
	struct ibv_wc wc;
	MUST(n <= d->size);
	wr->sg_list = &piece;
	wr->num_sge = 1;
	wr->send_flags = IBV_SEND_SIGNALED;
	DO(ibv_post_send(d->qp, wr, &bad));
	wait_completion(d->cq, &wc);
	if (wc.status != IBV_WC_SUCCESS) { /* the queue pair is in the error state */
		DO(ibv_destroy_qp(d->qp));
		connect_qp(d);
	}
	return wc.status;
}

static enum ibv_wc_status move(struct device *d, enum ibv_wr_opcode op, const struct ibv_mr *mr,
                               const void *at, size_t n) {
	struct ibv_send_wr wr = {0};
	wr.opcode = op;
	wr.wr.rdma.remote_addr = (uintptr_t)at;
	wr.wr.rdma.rkey = mr->rkey;
	return work(d, &wr, n);
}

enum ibv_wc_status device_read(struct device *d, const struct ibv_mr *mr, const void *at, size_t n) {
	return move(d, IBV_WR_RDMA_READ, mr, at, n);
}

enum ibv_wc_status device_write(struct device *d, const struct ibv_mr *mr, void *at, size_t n) {
	return move(d, IBV_WR_RDMA_WRITE, mr, at, n);
}

enum ibv_wc_status device_add(struct device *d, const struct ibv_mr *mr, void *at, uint64_t value) {
	struct ibv_send_wr wr = {0};
	wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
	wr.wr.atomic.remote_addr = (uintptr_t)at;
	wr.wr.atomic.rkey = mr->rkey;
	wr.wr.atomic.compare_add = value;
	return work(d, &wr, 8);
}
