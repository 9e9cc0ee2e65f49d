/* Steps of the program cm with librdmacm. */
#include "check.h"
#include "cm_steps.h"

#include <poll.h>
#include <sched.h>
#include <time.h>

#include <arpa/inet.h>

struct rdma_event_channel *channel(void) {
	struct rdma_event_channel *c = rdma_create_event_channel();
	MUST(c);
	return c;
}

struct rdma_cm_id *id_on(struct rdma_event_channel *c, enum rdma_port_space ps) {
	struct rdma_cm_id *id;
	DO(rdma_create_id(c, &id, NULL, ps));
	return id;
}

struct sockaddr *at(const char *ip, int port) {
	static struct sockaddr_in a;
	memset(&a, 0, sizeof a);
	a.sin_family = AF_INET;
	a.sin_port = htons((uint16_t)port);
	MUST(inet_pton(AF_INET, ip, &a.sin_addr) == 1);
	return (struct sockaddr *)&a;
}

void becomes(int fd, int events) {
	struct pollfd p = {fd, POLLIN | POLLOUT, 0};
	time_t end = time(NULL) + 60;
	for (;;) {
		MUST(poll(&p, 1, events ? 1000 : 0) >= 0);
		if (p.revents == events)
			return;
		if (time(NULL) > end)
			SAME(p.revents, events);
		sched_yield();
	}
}

/* Reads an event, which has to be this one. */
struct rdma_cm_event *expect(struct rdma_event_channel *c, enum rdma_cm_event_type type, int status) {
	struct rdma_cm_event *e;
	DO(rdma_get_cm_event(c, &e));
	if (e->event != type || e->status != status)
		FAIL("event %s, status %d; expected %s, status %d", rdma_event_str(e->event), e->status,
		     rdma_event_str(type), status);
	return e;
}

struct rdma_cm_id *take(struct rdma_event_channel *c, enum rdma_cm_event_type type, int status) {
	struct rdma_cm_event *e = expect(c, type, status);
	struct rdma_cm_id *id = e->id;
	DO(rdma_ack_cm_event(e));
	return id;
}

struct rdma_cm_id *listener(struct rdma_event_channel *c, int port, int backlog) {
	struct rdma_cm_id *id = id_on(c, RDMA_PS_TCP);
	DO(rdma_bind_addr(id, at(LOOPBACK, port)));
	DO(rdma_listen(id, backlog));
	return id;
}

struct rdma_cm_id *resolved(struct rdma_event_channel *c, int port) {
	struct rdma_cm_id *id = id_on(c, RDMA_PS_TCP);
	DO(rdma_resolve_addr(id, NULL, at(LOOPBACK, port), 2000));
	take(c, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	DO(rdma_resolve_route(id, 2000));
	take(c, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	return id;
}

struct rdma_conn_param with(const char *data) {
	struct rdma_conn_param p;
	memset(&p, 0, sizeof p);
	p.private_data = data;
	p.private_data_len = data ? (uint8_t)strlen(data) : 0;
	p.responder_resources = p.initiator_depth = 1;
	p.retry_count = p.rnr_retry_count = 7;
	p.qp_num = 77; /* nothing is sent */
	return p;
}

void give_qp(struct rdma_cm_id *id) {
	struct ibv_qp_init_attr init;
	memset(&init, 0, sizeof init);
	init.qp_type = IBV_QPT_RC;
	init.cap.max_send_wr = init.cap.max_recv_wr = init.cap.max_send_sge = init.cap.max_recv_sge = 1;
	DO(rdma_create_qp(id, NULL, &init));
}

void end(struct rdma_cm_id *id) {
	if (id->qp)
		rdma_destroy_qp(id);
	DO(rdma_destroy_id(id));
}
