/* removal HOW: makes ids of rdma_cm, says "removal: waits", and checks that the end of the engine reaches
 * each that is attached to its device, as when a driver goes. The program never reads asynchronous events.
 * removal_raw.c writes commands without librdmacm.
 *
 *   block   blocks in rdma_get_cm_event
 *   poll    waits in poll, with O_NONBLOCK
 *   fork    as block, in a parent and its child */
#include "check.h"
#include "cm_steps.h"
#include "removal.h"

#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PORT = 6200, ATTACHED = 4 };

struct rig {
	struct rdma_event_channel *channel, *other;
	/* The first ATTACHED are attached. The others are a listener at all addresses, and an id that is new. */
	struct rdma_cm_id *ids[ATTACHED + 2];
};

/* Makes an id that has resolved an address and a route, and is in a group. */
static void join(struct rdma_event_channel *c) {
	struct rdma_cm_id *id = id_on(c, RDMA_PS_UDP);
	DO(rdma_resolve_addr(id, NULL, at(LOOPBACK, PORT), 2000));
	take(c, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	DO(rdma_resolve_route(id, 2000));
	take(c, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	DO(rdma_join_multicast(id, at("239.1.1.1", 0), NULL));
	take(c, RDMA_CM_EVENT_MULTICAST_JOIN, 0);
}

/* A listener, both ends of a connection, and an id from another channel. One more is destroyed. */
static void make(struct rig *r) {
	struct rdma_conn_param p = with(NULL);
	struct rdma_event_channel *from = channel(), *c = channel();
	r->channel = c;
	r->ids[0] = listener(c, PORT, 4);
	r->ids[1] = resolved(c, PORT);
	DO(rdma_connect(r->ids[1], &p));
	r->ids[2] = take(c, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	DO(rdma_accept(r->ids[2], &p));
	MUST(take(c, RDMA_CM_EVENT_CONNECT_RESPONSE, 0) == r->ids[1]);
	DO(rdma_establish(r->ids[1]));
	MUST(take(c, RDMA_CM_EVENT_ESTABLISHED, 0) == r->ids[2]);
	r->ids[3] = resolved(from, PORT);
	DO(rdma_migrate_id(r->ids[3], c));
	rdma_destroy_event_channel(from);
	r->ids[4] = id_on(c, RDMA_PS_TCP);
	DO(rdma_bind_addr(r->ids[4], at("0.0.0.0", PORT + 1)));
	DO(rdma_listen(r->ids[4], 4));
	r->ids[5] = id_on(c, RDMA_PS_TCP);
	DO(rdma_destroy_id(resolved(c, PORT)));
	r->other = channel();
	join(r->other);
}

static void wait_readable(int fd) {
	struct pollfd p = {fd, POLLIN, 0};
	int n;
	do
		n = poll(&p, 1, -1);
	while (n < 0 && errno == EINTR);
	SAME(n, 1);
}

/* Each attached id has the event once, through any copy of the descriptor, and then reading fails. */
static void hear(const struct rig *r, bool polls) {
	struct rdma_event_channel copy = {dup(r->channel->fd)};
	struct rdma_cm_event *e;
	int seen[ATTACHED] = {0}, n, i;
	for (n = 0; n < ATTACHED; n++) {
		if (polls)
			wait_readable(r->channel->fd);
		e = expect(n == 1 ? &copy : r->channel, RDMA_CM_EVENT_DEVICE_REMOVAL, 0);
		for (i = 0; i < ATTACHED && r->ids[i] != e->id; i++)
			;
		MUST(i < ATTACHED && seen[i]++ == 0);
		DO(rdma_ack_cm_event(e));
	}
	do {
		if (polls)
			wait_readable(r->channel->fd);
		errno = 0;
		MUST(rdma_get_cm_event(r->channel, &e) == -1);
	} while (errno == EAGAIN); /* an engine that is asked to end sends the events before it has ended */
	SAME(errno, EIO);
	close(copy.fd);
}

int main(int argc, char **argv) {
	const char *how = argc > 1 ? argv[1] : "";
	bool polls = strcmp(how, "poll") == 0;
	struct rig r;
	pid_t child = 0;
	int status = 0;
	size_t i;
	make(&r);
	if (polls)
		DO(fcntl(r.channel->fd, F_SETFL, fcntl(r.channel->fd, F_GETFL) | O_NONBLOCK));
	puts("removal: waits");
	fflush(stdout);
	if (strcmp(how, "fork") == 0)
		MUST((child = fork()) >= 0);
	hear(&r, polls);
	if (strcmp(how, "fork") == 0 && child == 0)
		_exit(0);
	if (child)
		MUST(waitpid(child, &status, 0) == child && status == 0);
	hear_old(r.other->fd);
	for (i = 0; i < sizeof r.ids / sizeof *r.ids; i++)
		DO(rdma_destroy_id(r.ids[i]));
	rdma_destroy_event_channel(r.channel);
	rdma_destroy_event_channel(r.other);
	sleep(3); /* longer than programs have that do not hear */
	puts("removal: ok");
	return 0;
}
