/* fatal HOW: waits for the end of the engine, says "fatal: waits", and checks how it hears of it.
 *
 *   event     blocks in ibv_get_async_event
 *   poll      waits in poll, with O_NONBLOCK
 *   channel   blocks in ibv_get_cq_event, while another thread waits for events
 *   again     as event, and then uses a device of the next engine, as soon as there is one
 *   deaf      polls a completion queue without end, and never reads events */
#include "check.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

struct objects {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
};

static void make(struct objects *o) {
	o->context = open_device(NULL);
	MUST((o->pd = ibv_alloc_pd(o->context)));
	MUST((o->channel = ibv_create_comp_channel(o->context)));
	MUST((o->cq = ibv_create_cq(o->context, 16, NULL, o->channel, 0)));
	DO(ibv_req_notify_cq(o->cq, 0));
}

/* Waits until there is something to read, also the end. */
static void wait_readable(int fd) {
	struct pollfd at = {fd, POLLIN, 0};
	int n;
	do
		n = poll(&at, 1, -1);
	while (n < 0 && errno == EINTR);
	SAME(n, 1);
	MUST(at.revents & POLLIN);
}

/* The event comes once, and then EIO, which ibv_get_async_event passes on. An engine that is asked to end
 * sends the event before it has ended. */
static void hear(struct objects *o) {
	struct ibv_async_event event;
	memset(&event, 0xff, sizeof event);
	DO(ibv_get_async_event(o->context, &event));
	SAME(event.event_type, IBV_EVENT_DEVICE_FATAL);
	ibv_ack_async_event(&event);
	do {
		wait_readable(o->context->async_fd);
		errno = 0;
		MUST(ibv_get_async_event(o->context, &event) == -1);
	} while (errno == EAGAIN);
	SAME(errno, EIO);
}

static void *hears(void *o) {
	hear(o);
	return NULL;
}

/* All that needs the device fails with EIO, as with a driver that has gone. */
static void rest(struct objects *o) {
	struct ibv_wc wc;
	SAME(ibv_poll_cq(o->cq, 1, &wc), 0);
	errno = 0;
	MUST(ibv_alloc_pd(o->context) == NULL);
	SAME(errno, EIO);
	SAME(ibv_destroy_cq(o->cq), EIO);
	SAME(ibv_dealloc_pd(o->pd), EIO);
}

static void await_poll(struct objects *o) {
	struct ibv_async_event event;
	int fd = o->context->async_fd;
	DO(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK));
	MUST(ibv_get_async_event(o->context, &event) == -1);
	SAME(errno, EAGAIN);
	puts("fatal: waits");
	fflush(stdout);
	wait_readable(fd);
	hear(o);
}

static void await_channel(struct objects *o) {
	struct ibv_cq *cq;
	pthread_t thread;
	void *cq_context;
	DO(pthread_create(&thread, NULL, hears, o));
	puts("fatal: waits");
	fflush(stdout);
	errno = 0;
	MUST(ibv_get_cq_event(o->channel, &cq, &cq_context) == -1);
	SAME(errno, EIO);
	DO(pthread_join(thread, NULL));
}

/* Returns when a device can be opened. The test ends the program if that never happens. */
static void await_engine(void) {
	for (;;) {
		struct ibv_device **list = ibv_get_device_list(NULL);
		struct ibv_context *context = list && list[0] ? ibv_open_device(list[0]) : NULL;
		if (list)
			ibv_free_device_list(list);
		if (context) {
			DO(ibv_close_device(context));
			return;
		}
		usleep(10000);
	}
}

int main(int argc, char **argv) {
	const char *how = argc > 1 ? argv[1] : "";
	struct objects o;
	make(&o);
	if (strcmp(how, "poll") == 0) {
		await_poll(&o);
	} else if (strcmp(how, "channel") == 0) {
		await_channel(&o);
	} else {
		puts("fatal: waits");
		fflush(stdout);
		if (strcmp(how, "deaf") == 0)
			for (;;) {
				struct ibv_wc wc;
				SAME(ibv_poll_cq(o.cq, 1, &wc), 0);
			}
		hear(&o);
	}
	rest(&o);
	puts("fatal: heard");
	fflush(stdout);
	if (strcmp(how, "again") == 0) {
		await_engine();
		make(&o);
		DO(ibv_destroy_cq(o.cq));
		DO(ibv_destroy_comp_channel(o.channel));
		DO(ibv_dealloc_pd(o.pd));
		DO(ibv_close_device(o.context));
	}
	sleep(3); /* longer than programs have that do not hear */
	puts("fatal: ok");
	return 0;
}
