/* cm: the rules of rdma_cm, through librdmacm: what a channel's descriptor does, ports, private data,
 * refusals, migration, peers that are killed, garbage. Both ends are in this program, so an event is
 * there when the call that causes it has returned, or a moment later. cm_raw.c writes commands
 * without librdmacm. */
#include "check.h"
#include "cm.h"
#include "cm_steps.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <arpa/inet.h>

/* poll, epoll and O_NONBLOCK; events go with their id. */
static void descriptor(void) {
	struct rdma_event_channel *c = channel();
	struct rdma_cm_event *e;
	struct epoll_event ev = {EPOLLIN | EPOLLET, {NULL}}, got;
	int ep = epoll_create1(0), copy;
	struct rdma_cm_id *id;
	becomes(c->fd, 0);
	DO(epoll_ctl(ep, EPOLL_CTL_ADD, c->fd, &ev));
	id = id_on(c, RDMA_PS_TCP);
	SAME(epoll_wait(ep, &got, 1, 0), 0);
	DO(rdma_resolve_addr(id, NULL, at(LOOPBACK, 5), 2000));
	SAME(epoll_wait(ep, &got, 1, 60000), 1);
	SAME(epoll_wait(ep, &got, 1, 0), 0); /* edge-triggered */
	becomes(c->fd, POLLIN);
	DO(rdma_destroy_id(id));
	becomes(c->fd, 0);
	copy = dup(c->fd);
	DO(fcntl(copy, F_SETFL, fcntl(copy, F_GETFL) | O_NONBLOCK));
	FAILS(EAGAIN, rdma_get_cm_event(c, &e));
	close(copy);
	close(ep);
	rdma_destroy_event_channel(c);
}

static void ports(void) {
	struct rdma_event_channel *c = channel();
	struct rdma_cm_id *a = id_on(c, RDMA_PS_TCP), *b = id_on(c, RDMA_PS_TCP), *u = id_on(c, RDMA_PS_UDP);
	int on = 1;
	DO(rdma_bind_addr(a, at(LOOPBACK, 6000)));
	FAILS(EADDRINUSE, rdma_bind_addr(b, at(LOOPBACK, 6000)));
	FAILS(EADDRNOTAVAIL, rdma_bind_addr(b, at("0.0.0.0", 6000)));
	FAILS(EADDRNOTAVAIL, rdma_bind_addr(b, at("192.0.2.77", 6001)));
	DO(rdma_bind_addr(u, at(LOOPBACK, 6000)));
	FAILS(EINVAL, rdma_bind_addr(a, at(LOOPBACK, 6002)));
	DO(rdma_bind_addr(b, at("0.0.0.0", 0)));
	MUST(ntohs(rdma_get_src_port(b)) >= 32768);
	DO(rdma_set_option(b, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &on, sizeof on));
	FAILS(EINVAL, rdma_set_option(b, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &on, 1));
	FAILS(ENOSYS, rdma_set_option(b, RDMA_OPTION_ID, 99, &on, sizeof on));
	FAILS(EFAULT, rdma_set_option(b, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, (void *)8, sizeof on));
	end(a);
	end(b);
	end(u);
	rdma_destroy_event_channel(c);
}

/* Refusals, with private data, and more requests than the backlog allows. */
static void refusals(void) {
	struct rdma_event_channel *s = channel(), *c = channel();
	struct rdma_cm_id *l = listener(s, 6100, 1), *a = resolved(c, 6100), *b = resolved(c, 6100),
		*d = resolved(c, 6101);
	struct rdma_conn_param hello = with("hello");
	struct rdma_cm_event *e;
	struct rdma_cm_id *passive;
	DO(rdma_connect(d, &hello));
	take(c, RDMA_CM_EVENT_REJECTED, 8);
	DO(rdma_connect(a, &hello));
	DO(rdma_connect(b, &hello));
	take(c, RDMA_CM_EVENT_REJECTED, 28);
	e = expect(s, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	SAME(e->param.conn.private_data_len, 56);
	MUST(memcmp(e->param.conn.private_data, "hello", 6) == 0);
	MUST(e->listen_id == l);
	passive = e->id;
	DO(rdma_ack_cm_event(e));
	DO(rdma_reject(passive, "no", 3));
	e = expect(c, RDMA_CM_EVENT_REJECTED, 28);
	SAME(e->param.conn.private_data_len, 148);
	MUST(strcmp(e->param.conn.private_data, "no") == 0);
	DO(rdma_ack_cm_event(e));
	end(passive);
	end(a);
	end(b);
	end(d);
	end(l);
	rdma_destroy_event_channel(s);
	rdma_destroy_event_channel(c);
}

/* A connection, whose passive end moves to another channel with an event that was not read. */
static void migration(void) {
	struct rdma_event_channel *s = channel(), *other = channel(), *c = channel();
	struct rdma_cm_id *l = listener(s, 6200, 0), *a = resolved(c, 6200), *passive;
	struct rdma_conn_param p = with(NULL);
	give_qp(a);
	DO(rdma_connect(a, &p));
	passive = take(s, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	give_qp(passive);
	DO(rdma_accept(passive, &p));
	becomes(s->fd, 0);
	MUST(take(c, RDMA_CM_EVENT_ESTABLISHED, 0) == a);
	becomes(s->fd, POLLIN);
	DO(rdma_migrate_id(passive, other));
	becomes(s->fd, 0);
	MUST(take(other, RDMA_CM_EVENT_ESTABLISHED, 0) == passive);
	DO(rdma_disconnect(a));
	MUST(take(c, RDMA_CM_EVENT_DISCONNECTED, 0) == a);
	MUST(take(other, RDMA_CM_EVENT_DISCONNECTED, 0) == passive);
	DO(rdma_disconnect(passive));
	end(passive);
	end(a);
	end(l);
	rdma_destroy_event_channel(s);
	rdma_destroy_event_channel(other);
	rdma_destroy_event_channel(c);
}

/* A child connects as far as `steps` says, and is killed. */
static void killed(int steps) {
	struct rdma_event_channel *s = channel();
	struct rdma_cm_id *l = listener(s, 6300, 0), *passive;
	struct rdma_conn_param p = with(NULL);
	int told[2], go[2], status;
	char byte = 0;
	pid_t child;
	DO(pipe(told));
	DO(pipe(go));
	child = fork();
	MUST(child >= 0);
	if (child == 0) {
		struct rdma_event_channel *c = channel();
		struct rdma_cm_id *a = resolved(c, 6300);
		p.qp_num = 5;
		DO(rdma_connect(a, &p));
		MUST(write(told[1], &byte, 1) == 1);
		if (steps == 2) {
			take(c, RDMA_CM_EVENT_CONNECT_RESPONSE, 0); /* the id has no queue pair */
			DO(rdma_establish(a));
			MUST(write(told[1], &byte, 1) == 1);
		}
		for (;;)
			pause();
	}
	MUST(read(told[0], &byte, 1) == 1);
	passive = take(s, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	if (steps > 0)
		DO(rdma_accept(passive, &p));
	if (steps == 2) {
		MUST(read(told[0], &byte, 1) == 1);
		take(s, RDMA_CM_EVENT_ESTABLISHED, 0);
	}
	kill(child, SIGKILL);
	MUST(waitpid(child, &status, 0) == child);
	if (steps == 1)
		take(s, RDMA_CM_EVENT_REJECTED, 28);
	else if (steps == 2)
		take(s, RDMA_CM_EVENT_DISCONNECTED, 0);
	end(passive);
	end(l);
	rdma_destroy_event_channel(s);
	close(told[0]);
	close(told[1]);
	close(go[0]);
	close(go[1]);
}

static pid_t waiter;

static void *wait_event(void *arg) {
	struct rdma_cm_event *e;
	__atomic_store_n(&waiter, (pid_t)syscall(SYS_gettid), __ATOMIC_RELEASE);
	rdma_get_cm_event(arg, &e);
	FAIL("a thread that waits for an event of a closed channel has returned");
	return NULL;
}

/* Reports whether the thread is in read() of the descriptor. */
static int reads(pid_t thread, int fd) {
	char path[64];
	long number = -1;
	unsigned long first = 0;
	FILE *f;
	snprintf(path, sizeof path, "/proc/self/task/%d/syscall", (int)thread);
	f = fopen(path, "r");
	if (!f)
		return 0;
	if (fscanf(f, "%ld %lx", &number, &first) != 2)
		number = -1;
	fclose(f);
	return number == SYS_read && first == (unsigned long)fd;
}

/* A thread that waits when its channel is closed goes on waiting, as in the kernel. */
static void closed(void) {
	struct rdma_event_channel *c = channel(), kept = *c;
	time_t end = time(NULL) + 60;
	pthread_t thread;
	MUST(pthread_create(&thread, NULL, wait_event, &kept) == 0);
	while (!reads(__atomic_load_n(&waiter, __ATOMIC_ACQUIRE), c->fd))
		MUST(time(NULL) < end);
	close(c->fd);
	migration();
	MUST(reads(waiter, kept.fd));
}

enum { MANY = 100 };

/* Many connections at once. */
static void many(void) {
	struct rdma_event_channel *s = channel(), *c = channel();
	struct rdma_cm_id *l = listener(s, 6400, MANY), *active[MANY], *passive[MANY];
	struct rdma_conn_param p = with("x");
	int i;
	for (i = 0; i < MANY; i++) {
		active[i] = resolved(c, 6400);
		DO(rdma_connect(active[i], &p));
	}
	for (i = 0; i < MANY; i++) {
		passive[i] = take(s, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
		DO(rdma_accept(passive[i], &p));
	}
	for (i = 0; i < MANY; i++) {
		MUST(take(c, RDMA_CM_EVENT_CONNECT_RESPONSE, 0) == active[i]);
		DO(rdma_establish(active[i]));
		MUST(take(s, RDMA_CM_EVENT_ESTABLISHED, 0) == passive[i]);
	}
	for (i = 0; i < MANY; i++) {
		DO(rdma_disconnect(i % 2 ? active[i] : passive[i]));
		take(c, RDMA_CM_EVENT_DISCONNECTED, 0);
		take(s, RDMA_CM_EVENT_DISCONNECTED, 0);
		end(active[i]);
		end(passive[i]);
	}
	end(l);
	rdma_destroy_event_channel(s);
	rdma_destroy_event_channel(c);
}

int main(void) {
	int steps;
	descriptor();
	ports();
	refusals();
	migration();
	for (steps = 0; steps < 3; steps++)
		killed(steps);
	raw_copies();
	raw_garbage(1);
	many();
	closed();
	printf("cm: descriptor, ports, refusals, migration, killed peers, copies, garbage, %d connections: ok\n",
	       MANY);
	return 0;
}
