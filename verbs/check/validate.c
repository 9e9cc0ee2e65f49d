/* validate: every operation moves the right bytes, from 1 byte to 64 MiB, in every kind of
 * memory, and fails when it has to.
 *
 *   validate threads [DEVICE]      two contexts in one process
 *   validate processes [DEVICE]    two processes
 *   validate serve PORT GID              one of two hosts; GID is an index of the port's table
 *   validate connect ADDRESS PORT GID    the other one, which posts
 *
 * Between hosts there is no UC, whose messages may be lost, and no message of 64 MiB; datagrams have
 * at most 1024 bytes, as in any Ethernet. */
#include "steps.h"
#include "talk.h"

#include <pthread.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static const size_t sizes[] = {1, 7, 64, 100, 1024, 4095, 4096, 4097, 65536, (1 << 20) + 3, 64 << 20};
enum { LARGEST = 64 << 20, STACK = LARGEST + (1 << 20) };

static const char *device;

struct party {
	int talk, active, apart;
	uint8_t gid;
	int errors;
};

static void every_size(struct end *e, struct links *l, enum memory_kind kind, uint8_t *stack) {
	struct memory m;
	struct ibv_mr *mr;
	size_t i;
	m.at = stack;
	memory_take(&m, kind, transfer_room(LARGEST));
	MUST((mr = ibv_reg_mr(e->pd, m.at, m.size,
	                      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
	                          IBV_ACCESS_REMOTE_ATOMIC)));
	for (i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		snprintf(doing, sizeof doing, "%s, memory of kind %s, %zu bytes", e->active ? "active" : "passive",
		         memory_names[kind], sizes[i]);
		if (!e->apart || sizes[i] < LARGEST)
			transfer_all(e, l, &m, mr, sizes[i]);
	}
	snprintf(doing, sizeof doing, "%s, memory of kind %s", e->active ? "active" : "passive",
	         memory_names[kind]);
	atomics(e, &l->rc, &m, mr);
	DO(ibv_dereg_mr(mr));
	memory_give(&m);
}

static void *run(void *arg) {
	static const struct link_config rc = {IBV_QPT_RC, 0, 0, 7, 0, 0, 0}, srq = {IBV_QPT_RC, 1, 0, 7, 0, 0, 0},
	                                uc = {IBV_QPT_UC, 0, 0, 7, 0, 0, 0}, ud = {IBV_QPT_UD, 0, 0, 7, 0, 0, 0};
	struct party *p = arg;
	struct end e;
	struct links l;
	int kind;
	uint8_t stack[LARGEST + 4096]; /* this thread has a stack that is large enough */
	end_open(&e, p->talk, p->active, device, p->gid);
	memset(&l, 0, sizeof l);
	if ((e.apart = p->apart))
		e.mtu = IBV_MTU_1024;
	l.rc = link_open(&e, &rc);
	l.srq = link_open(&e, &srq);
	if (!e.apart)
		l.uc = link_open(&e, &uc);
	l.ud = link_open(&e, &ud);
	for (kind = 0; kind < MEMORY_KINDS; kind++)
		every_size(&e, &l, (enum memory_kind)kind, stack);
	link_close(&l.rc);
	link_close(&l.srq);
	if (!e.apart)
		link_close(&l.uc);
	link_close(&l.ud);
	snprintf(doing, sizeof doing, "%s, windows", p->active ? "active" : "passive");
	windows(&e);
	p->errors = errors(&e);
	snprintf(doing, sizeof doing, "%s, at the end", p->active ? "active" : "passive");
	end_close(&e);
	return NULL;
}

static pthread_t start(struct party *p) {
	pthread_attr_t a;
	pthread_t t;
	DO(pthread_attr_init(&a));
	DO(pthread_attr_setstacksize(&a, STACK));
	DO(pthread_create(&t, &a, run, p));
	return t;
}

static int alone(struct party *p, const char *name) {
	pthread_t t = start(p);
	DO(pthread_join(t, NULL));
	printf("validate: %s: %d kinds of memory, %zu sizes, %d errors: ok\n", name, MEMORY_KINDS,
	       sizeof sizes / sizeof *sizes - 1, p->errors);
	return 0;
}

int main(int argc, char **argv) {
	struct party p[2];
	pthread_t t[2];
	int fds[2], i, status = 0;
	pid_t child = 0;
	if (argc == 4 && !strcmp(argv[1], "serve")) {
		struct party server = {talk_accept(talk_listen(argv[2])), 0, 1, (uint8_t)atoi(argv[3]), 0};
		return alone(&server, argv[1]);
	}
	if (argc == 5 && !strcmp(argv[1], "connect")) {
		struct party client = {talk_connect(argv[2], argv[3]), 1, 1, (uint8_t)atoi(argv[4]), 0};
		return alone(&client, argv[1]);
	}
	if (argc < 2 || (strcmp(argv[1], "threads") && strcmp(argv[1], "processes"))) {
		fprintf(stderr, "usage: validate threads|processes [DEVICE] | serve PORT GID |"
	                " connect ADDRESS PORT GID\n");
		return 2;
	}
	device = argc > 2 ? argv[2] : NULL;
	DO(socketpair(AF_UNIX, SOCK_STREAM, 0, fds));
	for (i = 0; i < 2; i++) {
		memset(&p[i], 0, sizeof p[i]);
		p[i].talk = fds[i];
		p[i].active = i;
	}
	if (!strcmp(argv[1], "processes")) {
		child = fork(); /* before either end has opened the device */
		MUST(child >= 0);
		i = child == 0;
		close(fds[!i]);
		t[i] = start(&p[i]);
		DO(pthread_join(t[i], NULL));
		if (i)
			return 0;
		MUST(waitpid(child, &status, 0) == child);
		if (status)
			return 1;
	} else {
		for (i = 0; i < 2; i++)
			t[i] = start(&p[i]);
		for (i = 0; i < 2; i++)
			DO(pthread_join(t[i], NULL));
	}
	printf("validate: %s: %d kinds of memory, %zu sizes, %d errors: ok\n", argv[1], MEMORY_KINDS,
	       sizeof sizes / sizeof *sizes, p[0].errors);
	return 0;
}
