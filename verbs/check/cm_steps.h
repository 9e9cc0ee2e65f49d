/* Steps of the program cm with librdmacm. A function that fails ends the program. */
#ifndef NICLESS_CHECK_CM_STEPS_H
#define NICLESS_CHECK_CM_STEPS_H

#include <rdma/rdma_cma.h>

#define LOOPBACK "127.0.0.1"

/* For functions that return -1 and set errno. */
#define FAILS(error, call)  \
	do {                    \
		errno = 0;          \
		MUST((call) != 0);  \
		SAME(errno, error); \
	} while (0)

struct rdma_event_channel *channel(void);
struct rdma_cm_id *id_on(struct rdma_event_channel *c, enum rdma_port_space ps);
struct sockaddr *at(const char *ip, int port);
/* Waits until poll reports these events: on a busy machine, they change a moment after the call
 * that changes them has returned. */
void becomes(int fd, int events);
struct rdma_cm_event *expect(struct rdma_event_channel *c, enum rdma_cm_event_type type, int status);
struct rdma_cm_id *take(struct rdma_event_channel *c, enum rdma_cm_event_type type, int status);
struct rdma_cm_id *listener(struct rdma_event_channel *c, int port, int backlog);
struct rdma_cm_id *resolved(struct rdma_event_channel *c, int port);
struct rdma_conn_param with(const char *data);
void give_qp(struct rdma_cm_id *id);
void end(struct rdma_cm_id *id);

#endif
