/* A queue pair of type XRC_RECV that several processes have (ibv_open_qp), in a domain that they share by a
 * file. One process makes it, an heir opens it three times, in two contexts, and a sender posts to the heir's
 * SRQ. The queue pair works on after its maker has ended, and ends with the heir's last handle.
 *
 * The heir closes its contexts. It does not call ibv_destroy_qp for what ibv_open_qp has returned: libmlx5
 * would free a doorbell record that such a queue pair does not have, and crash (rdma-core 44 and 64,
 * mlx5_free_db). */
#include "check.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SIZE = 4096, MESSAGES = 4 };

/* The message between the processes. */
struct word {
	uint32_t qpn, srqn, rkey, zero;
	uint64_t addr;
};

static void say(int to, struct word w) { MUST(write(to, &w, sizeof w) == (ssize_t)sizeof w); }

static struct word hear(int from) {
	struct word w;
	MUST(read(from, &w, sizeof w) == (ssize_t)sizeof w);
	return w;
}

static struct ibv_xrcd *open_domain(struct ibv_context *context, const char *path, int flags) {
	struct ibv_xrcd_init_attr attr = {IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, -1, flags};
	struct ibv_xrcd *d;
	if (path) {
		attr.fd = open(path, O_RDONLY | O_CLOEXEC);
		MUST(attr.fd >= 0);
	}
	d = ibv_open_xrcd(context, &attr);
	if (path)
		close(attr.fd); /* the domain stays open */
	return d;
}

static struct ibv_qp *open_qp(struct ibv_context *context, struct ibv_xrcd *d, uint32_t qpn,
                              enum ibv_qp_type type) {
	struct ibv_qp_open_attr attr = {0};
	attr.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
	attr.qp_num = qpn;
	attr.xrcd = d;
	attr.qp_type = type;
	return ibv_open_qp(context, &attr);
}

static void to_init(struct ibv_qp *qp) {
	struct ibv_qp_attr a = {0};
	a.qp_state = IBV_QPS_INIT;
	a.port_num = 1;
	a.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
	DO(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
}

static void to_rtr(struct ibv_qp *qp, uint32_t peer) {
	struct ibv_qp_attr a = {0};
	a.qp_state = IBV_QPS_RTR;
	a.path_mtu = IBV_MTU_1024;
	a.dest_qp_num = peer;
	a.max_dest_rd_atomic = 1;
	a.min_rnr_timer = 12;
	a.ah_attr.is_global = 1;
	a.ah_attr.port_num = 1;
	DO(ibv_query_gid(qp->context, 1, 0, &a.ah_attr.grh.dgid));
	DO(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
	                                IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
}

/* Every handle of a queue pair gets the event that its connection is established, and no handle gets it
 * twice. */
static void established(struct ibv_context *context, struct ibv_qp *first, struct ibv_qp *second) {
	struct ibv_qp *seen = NULL;
	int n;
	for (n = 0; n < (second ? 2 : 1); n++) {
		struct ibv_async_event e;
		DO(ibv_get_async_event(context, &e));
		SAME(e.event_type, IBV_EVENT_COMM_EST);
		MUST(e.element.qp == first || e.element.qp == second);
		MUST(e.element.qp != seen);
		seen = e.element.qp;
		ibv_ack_async_event(&e);
	}
}

static void maker(const char *path, int heir) {
	struct ibv_context *context = open_device(NULL);
	struct ibv_qp_init_attr_ex init = {0};
	struct ibv_qp_init_attr got;
	struct ibv_qp_attr a;
	struct ibv_xrcd *d;
	struct ibv_qp *qp;
	struct word w = {0};
	union ibv_gid gid;
	strcpy(doing, "the maker");
	MUST((d = open_domain(context, path, O_CREAT)));
	init.comp_mask = IBV_QP_INIT_ATTR_XRCD;
	init.qp_type = IBV_QPT_XRC_RECV;
	init.xrcd = d;
	MUST((qp = ibv_create_qp_ex(context, &init)));
	to_init(qp);
	w.qpn = qp->qp_num;
	say(heir, w);
	w = hear(heir); /* the heir has connected it, and got a message */
	established(context, qp, NULL);
	DO(ibv_query_qp(qp, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_DEST_QPN, &got));
	SAME(a.qp_state, IBV_QPS_RTR);
	SAME(a.dest_qp_num, w.qpn);
	DO(ibv_query_gid(context, 1, 0, &gid));
	MUST(!memcmp(&a.ah_attr.grh.dgid, &gid, sizeof gid));
	MUST(ibv_close_xrcd(d) == EBUSY);
	DO(ibv_destroy_qp(qp));
	DO(ibv_close_xrcd(d));
	_exit(0); /* without closing the device */
}

static enum ibv_wc_status send_one(struct ibv_qp *qp, struct ibv_mr *mr, const struct word *to, int write,
                                   size_t i) {
	struct ibv_sge sge = {(uintptr_t)mr->addr, SIZE, mr->lkey};
	struct ibv_send_wr wr = {0}, *bad;
	struct ibv_wc wc;
	pattern_fill(mr->addr, i, 0, SIZE);
	wr.sg_list = &sge;
	wr.num_sge = 1;
	wr.send_flags = IBV_SEND_SIGNALED;
	wr.opcode = write ? IBV_WR_RDMA_WRITE : IBV_WR_SEND;
	wr.wr.rdma.remote_addr = to->addr;
	wr.wr.rdma.rkey = to->rkey;
	wr.qp_type.xrc.remote_srqn = to->srqn;
	DO(ibv_post_send(qp, &wr, &bad));
	wait_completion(qp->send_cq, &wc);
	return wc.status;
}

static void sender(int heir) {
	struct ibv_context *context = open_device(NULL);
	struct ibv_qp_init_attr_ex init = {0};
	struct ibv_qp_attr a = {0};
	static uint8_t bytes[SIZE];
	struct word w = {0};
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_qp *qp;
	size_t i;
	strcpy(doing, "the sender");
	MUST((pd = ibv_alloc_pd(context)));
	MUST((mr = ibv_reg_mr(pd, bytes, SIZE, IBV_ACCESS_LOCAL_WRITE)));
	init.comp_mask = IBV_QP_INIT_ATTR_PD;
	init.qp_type = IBV_QPT_XRC_SEND;
	init.pd = pd;
	init.cap.max_send_wr = init.cap.max_send_sge = 1;
	MUST((init.send_cq = ibv_create_cq(context, 4, NULL, NULL, 0)));
	MUST((qp = ibv_create_qp_ex(context, &init)));
	to_init(qp);
	w.qpn = qp->qp_num;
	say(heir, w);
	w = hear(heir);
	to_rtr(qp, w.qpn);
	a.qp_state = IBV_QPS_RTS;
	a.timeout = 14;
	a.retry_cnt = a.rnr_retry = 7;
	a.max_rd_atomic = 1;
	DO(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
	                 IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC));
	for (i = 0; i < MESSAGES; i++) { /* the last one is a WRITE */
		SAME(send_one(qp, mr, &w, i == MESSAGES - 1, i), IBV_WC_SUCCESS);
		say(heir, w);
		hear(heir);
	}
	SAME(send_one(qp, mr, &w, 0, i), IBV_WC_RETRY_EXC_ERR); /* no process has the peer any more */
	_exit(0);
}

static void heir(const char *path, int made, int sent) {
	struct ibv_context *context = open_device(NULL), *other = open_device(NULL);
	struct ibv_srq_init_attr_ex init = {0};
	static uint8_t bytes[SIZE];
	struct ibv_xrcd *d, *same, *alone;
	struct ibv_qp *mine, *first, *second;
	struct ibv_recv_wr recv = {0}, *badly;
	struct ibv_sge sge = {(uintptr_t)bytes, SIZE, 0};
	struct word target, from, w = {0};
	struct ibv_srq *srq;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_wc wc;
	char end;
	int i;
	strcpy(doing, "the heir");
	target = hear(made);
	from = hear(sent);
	MUST((pd = ibv_alloc_pd(context)));
	MUST((mr = ibv_reg_mr(pd, bytes, SIZE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)));
	MUST(!open_domain(context, path, O_CREAT | O_EXCL) && errno == EINVAL);
	MUST((d = open_domain(context, path, 0)));
	MUST((same = open_domain(other, path, 0)));
	MUST((alone = open_domain(context, NULL, O_CREAT)));
	init.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD |
		IBV_SRQ_INIT_ATTR_CQ;
	init.attr.max_wr = MESSAGES;
	init.attr.max_sge = 1;
	init.srq_type = IBV_SRQT_XRC;
	init.pd = pd;
	init.xrcd = d;
	MUST((init.cq = ibv_create_cq(context, 2 * MESSAGES, NULL, NULL, 0)));
	MUST((srq = ibv_create_srq_ex(context, &init)));
	DO(ibv_get_srq_num(srq, &w.srqn));
	MUST(!open_qp(context, alone, target.qpn, IBV_QPT_XRC_RECV) && errno == EINVAL);
	MUST(!open_qp(context, d, from.qpn, IBV_QPT_XRC_RECV) && errno == EINVAL);
	MUST(!open_qp(context, d, target.qpn, IBV_QPT_RC) && errno == EINVAL);
	MUST((mine = open_qp(context, d, target.qpn, IBV_QPT_XRC_RECV)));
	MUST((first = open_qp(other, same, target.qpn, IBV_QPT_XRC_RECV)));
	MUST((second = open_qp(other, same, target.qpn, IBV_QPT_XRC_RECV)));
	MUST(first->handle != second->handle && first->qp_num == second->qp_num);
	to_rtr(first, from.qpn);
	w.qpn = target.qpn;
	w.rkey = mr->rkey;
	w.addr = (uintptr_t)bytes;
	say(sent, w);
	recv.sg_list = &sge;
	recv.num_sge = 1;
	sge.lkey = mr->lkey;
	for (i = 0; i < MESSAGES; i++) {
		snprintf(doing, sizeof doing, "the heir, message %d", i);
		if (i < MESSAGES - 1) {
			DO(ibv_post_srq_recv(srq, &recv, &badly));
			wait_completion(init.cq, &wc);
			SAME(wc.status, IBV_WC_SUCCESS);
			SAME(wc.qp_num, target.qpn);
		}
		hear(sent);
		pattern_check(bytes, (uint64_t)i, 0, SIZE, "message");
		switch (i) {
		case 0: /* the maker ends */
			established(context, mine, NULL);
			established(other, first, second);
			say(made, from);
			MUST(read(made, &end, 1) == 0);
			break;
		case 1:
			MUST(ibv_close_xrcd(same) == EBUSY);
			DO(ibv_close_device(other));
			break;
		case MESSAGES - 1:
			MUST(ibv_close_xrcd(d) == EBUSY);
			DO(ibv_close_xrcd(alone));
			DO(ibv_close_device(context));
			context = open_device(NULL);
			MUST(!open_domain(context, path, 0) && errno == EAGAIN); /* no process has it */
			break;
		}
		say(sent, w);
	}
	DO(ibv_close_device(context));
}

int main(void) {
	char path[4096];
	int made[2], sent[2], status, i;
	close(temporary_file(path, sizeof path));
	MUST(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, made) == 0);
	MUST(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sent) == 0);
	switch (fork()) {
	case -1:
		FAIL("fork: %s", strerror(errno));
	case 0:
		close(made[1]);
		maker(path, made[0]);
	}
	close(made[0]);
	switch (fork()) {
	case -1:
		FAIL("fork: %s", strerror(errno));
	case 0:
		close(sent[1]);
		sender(sent[0]);
	}
	close(sent[0]);
	heir(path, made[1], sent[1]);
	for (i = 0; i < 2; i++) {
		MUST(wait(&status) > 0);
		SAME(status, 0);
	}
	MUST(unlink(path) == 0);
	printf("xrc: 3 processes, 4 handles, %d messages: ok\n", MESSAGES);
	return 0;
}
