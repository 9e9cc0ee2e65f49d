/*
 * The loop: when it looks, sleeps and wakes. Descriptors 3 to 6 are the control socket, the shared
 * memory, the eventfd that wakes this process, and the eventfd that wakes the engine.
 */
#define _GNU_SOURCE
#include "carrier.h"
#include "control.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct carrier carrier;

static uint64_t clock_now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * SECOND + (uint64_t)t.tv_nsec;
}

static uint64_t argument(char **argv, int i) { return strtoull(argv[i], NULL, 10); }

/* map maps the memory that is shared with the engine, and begins the rings. */
static void map(char **argv) {
	uint64_t slots[2] = {argument(argv, 1), argument(argv, 3)};
	uint64_t data[2] = {argument(argv, 2), argument(argv, 4)};
	size_t size[2] = {ring_size(slots[0], data[0]), ring_size(slots[1], data[1])};
	struct stat st;
	size_t second = RINGS_AT + ((size[0] + RINGS_AT - 1) & ~(size_t)(RINGS_AT - 1));
	if (!size[0] || !size[1] || fstat(MEMORY_FD, &st) || (size_t)st.st_size < second + size[1])
		fatal("the engine's memory does not hold its rings");
	carrier.memory = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, MEMORY_FD, 0);
	if (carrier.memory == MAP_FAILED)
		fatal("mapping the engine's memory: %s", strerror(errno));
	if (!ring_consumer(&carrier.out, carrier.memory + RINGS_AT, slots[0], data[0]) ||
	    !ring_producer(&carrier.in, carrier.memory + second, slots[1], data[1]))
		fatal("no memory");
}

static void need(const char *what, ucs_status s) {
	if (s != OK)
		fatal("UCX: %s: %s", what, ucp.ucs_status_string(s));
}

/* start starts UCX. */
static void start(const char *library, bool keys) {
	const char *why = library_load(library);
	if (why)
		fatal("%s", why);
	if (keys && (why = seal_library()))
		fatal("%s", why);
	void *config, *context;
	need("ucp_config_read", ucp.ucp_config_read(NULL, NULL, &config));
	ucp_params params = {.mask = 1, .features = 0x40 | 0x10};
	need("ucp_init", ucp.ucp_init_version(1, 13, &params, config, &context));
	ucp.ucp_config_release(config);
	ucp_worker_params wp = {.mask = 1};
	need("ucp_worker_create", ucp.ucp_worker_create(context, &wp, &carrier.worker));
	ucp_worker_attr attr = {.mask = 8};
	need("ucp_worker_query", ucp.ucp_worker_query(carrier.worker, &attr));
	if (attr.max_am_header < PREFIX_SEALED + RING_MAX_HEAD)
		fatal("UCX: headers of active messages have %llu bytes at most; %zu are needed",
		      (unsigned long long)attr.max_am_header, (size_t)PREFIX_SEALED + RING_MAX_HEAD);
	need("ucp_worker_get_efd", ucp.ucp_worker_get_efd(carrier.worker, &carrier.efd));
	if ((why = say_handler()) || (why = packets_start()))
		fatal("UCX: ucp_worker_set_am_recv_handler: %s", why);
	void *address;
	size_t length;
	need("ucp_worker_get_address", ucp.ucp_worker_get_address(carrier.worker, &address, &length));
	if (length > WORKER_ADDRESS)
		fatal("UCX: a worker address of %zu bytes; %d are the most", length, WORKER_ADDRESS);
	unsigned char body[DOORS * DOOR_NAME + WORKER_ADDRESS], names[DOORS][DOOR_NAME];
	unsigned doors = gate_doors(names);
	memcpy(body, names, doors * DOOR_NAME);
	memcpy(body + doors * DOOR_NAME, address, length);
	ucp.ucp_worker_release_address(carrier.worker, address);
	uint64_t version = (uint64_t)ucp.version[0] << 32 | (uint64_t)ucp.version[1] << 16 | ucp.version[2];
	tell(M_READY, 0, version, doors, 0, body, doors * DOOR_NAME + length);
}

/*
 * bell wakes the engine if it sleeps and packets were put into its ring. Each side stores a word
 * and then loads the other's: here the packets, then the engine's sleep; there the sleep, then the
 * packets. So both have a full barrier between the two.
 */
static void bell(void) {
	if (!carrier.put)
		return;
	carrier.put = false;
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	uint32_t sleep = be32(__atomic_load_n((uint32_t *)(void *)(carrier.memory + ENGINE_ASLEEP_AT),
	                                      __ATOMIC_ACQUIRE));
	if (!sleep || sleep == carrier.answered)
		return;
	carrier.answered = sleep;
	(void)!write(BELL_FD, &(uint64_t){1}, 8);
}

static void set_asleep(uint32_t n) {
	__atomic_store_n((uint32_t *)(void *)(carrier.memory + ASLEEP_AT), be32(n), __ATOMIC_RELEASE);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

/* rest sleeps until there is work. waiting says that packets wait for credits or room. It
 * returns whether the engine's process may have sent a message. */
static bool rest(bool waiting) {
	static uint32_t sleeps; /* begins where no earlier process has been */
	bool said = true;
	if (!sleeps)
		sleeps = (uint32_t)random64();
	if (!++sleeps)
		sleeps = 1;
	set_asleep(sleeps);
	if (waiting || !ring_ready(&carrier.out)) {
		ucs_status s = ucp.ucp_worker_arm(carrier.worker);
		if (s == OK) {
			struct pollfd fds[3] = {{carrier.efd, POLLIN, 0}, {WAKE_FD, POLLIN, 0}, {CONTROL_FD, POLLIN, 0}};
			/* The engine's process expects a message once a second. */
			uint64_t longest = carrier.deadline / 5 < SECOND ? carrier.deadline / 5 : SECOND;
			int timeout = waiting ? 1 : (int)(longest / MILLISECOND);
			int n = poll(fds, 3, timeout);
			if (n > 0 && fds[1].revents) {
				uint64_t v;
				(void)!read(WAKE_FD, &v, 8);
			}
			said = n <= 0 || fds[2].revents;
		} else if (s != BUSY) {
			fatal("UCX: ucp_worker_arm: %s", ucp.ucs_status_string(s));
		}
	}
	set_asleep(0);
	return said;
}

/*
 * pause passes a turn without work. On a core of its own, this thread looks again at once; after
 * ALONE it lets other threads run between two looks. If one did run, the core is shared: with the engine,
 * perhaps, for which this thread waits. Then it lets others run at every turn, for CROWDED.
 */
#define ALONE 2000
#define CROWDED (10 * MILLISECOND)

static void pause_turn(uint64_t waited) {
	static uint64_t crowded; /* until then */
	if (waited < ALONE && carrier.now >= crowded)
		return;
	uint64_t before = clock_now();
	sched_yield();
	uint64_t after = clock_now();
	if (after - before > 3000)
		crowded = after + CROWDED;
}

static void loop(uint64_t spin) {
	uint64_t idle = 0, served = 0, told = 0;
	bool said = true;
	for (unsigned turn = 0;; turn++) {
		unsigned did = 0;
		uint64_t before = carrier.now;
		carrier.now = clock_now();
		if (carrier.now - before > carrier.deadline / 2) /* a turn rests for a fifth at most */
			connections_held(carrier.now - before);
		for (int i = 0; i < 16 && ucp.ucp_worker_progress(carrier.worker); i++)
			did++;
		did += packets_receive();
		bell();
		did += packets_send();
		bool tick = carrier.now - served > (carrier.deadline < SECOND ? carrier.deadline : SECOND) / 10;
		if (carrier.attention || tick) {
			connections_serve();
			if (tick)
				served = carrier.now;
		}
		if (carrier.now - told > SECOND) {
			told = carrier.now;
			tell(M_COUNTS, 0, carrier.violations, carrier.strangers, carrier.forged, NULL, 0);
		}
		if ((said || turn % 64 == 0) && !hear())
			return;
		said = false;
		if (did || carrier.attention) {
			idle = 0;
			continue;
		}
		if (!idle)
			idle = carrier.now;
		if (carrier.now - idle < spin) {
			pause_turn(carrier.now - idle);
			continue;
		}
		said = rest(carrier.held || ring_ready(&carrier.out));
		idle = 0;
	}
}

/* flush waits a moment until what was sent has left this process. */
static void flush(void) {
	for (uint64_t until = clock_now() + 100 * MILLISECOND; clock_now() < until;) {
		bool flying = false;
		ucp.ucp_worker_progress(carrier.worker);
		for (struct connection *c = carrier.connections; c < carrier.connections + PLACES; c++)
			flying = flying || (c->state == UP && c->flying);
		if (!flying)
			break;
	}
}

int main(int argc, char **argv) {
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NAME, "nicless-ucx");
	signal(SIGPIPE, SIG_IGN);
	if (argc != 9) {
		fprintf(stderr, "nicless-ucx is started by nicless\n");
		return 2;
	}
	carrier.now = clock_now();
	carrier.deadline = argument(argv, 5) * MILLISECOND;
	map(argv);
	start(argv[7], argument(argv, 8));
	loop(argument(argv, 6) * 1000);
	flush();
	return 0;
}
