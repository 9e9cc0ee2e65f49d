/* ucp: two processes that are connected by UCX move data by every kind of operation of its
 * protocol layer: tagged messages, active messages, put, get, streams and atomics. Each sends
 * to the other at the same time, and every byte is checked. The environment of UCX (UCX_TLS
 * and others) says which transports carry the data. */
#include "check.h"

#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ucp/api/ucp.h>

enum { MOST = 8 << 20, WINDOW = 4, PATIENCE = 100 };

static const size_t sizes[] = {8, 63, 200, 1000, 4096, 8192, 30000, 65536, 300001, 1 << 20, MOST};

static struct {
	int rank, socket;
	ucp_context_h context;
	ucp_worker_h worker;
	ucp_ep_h ep;
	/* WINDOW pieces of at most MOST bytes; the peer puts into `to` and gets from `from`. */
	uint8_t *from, *to;
	ucp_mem_h from_memory, to_memory;
	uint64_t peer_from, peer_to;
	ucp_rkey_h peer_from_key, peer_to_key;
	int arrived; /* active messages of this round that are complete */
} my;

#define UCS(call)                                              \
	do {                                                       \
		ucs_status_t status_ = (call);                         \
		if (status_ != UCS_OK)                                 \
			FAIL("%s: %s", #call, ucs_status_string(status_)); \
	} while (0)

static void progress(void) {
	if (!ucp_worker_progress(my.worker))
		sched_yield();
}

/* Waits until a request is complete. */
static void finish(void *request) {
	ucs_status_t status;
	if (UCS_PTR_IS_ERR(request))
		FAIL("refused: %s", ucs_status_string(UCS_PTR_STATUS(request)));
	if (!request)
		return;
	while ((status = ucp_request_check_status(request)) == UCS_INPROGRESS)
		progress();
	ucp_request_free(request);
	UCS(status);
}

/* Sends bytes to the peer by the socket, and receives as many. The worker makes progress
 * meanwhile, because the peer may be waiting for this process. */
static void exchange(const void *out, void *in, size_t n) {
	size_t got = 0;
	MUST(send(my.socket, out, n, MSG_NOSIGNAL) == (ssize_t)n);
	while (got < n) {
		ssize_t more = recv(my.socket, (char *)in + got, n - got, MSG_DONTWAIT);
		if (more == 0)
			FAIL("the peer has ended");
		if (more > 0)
			got += (size_t)more;
		else
			MUST(errno == EAGAIN || errno == EINTR);
		progress();
	}
}

static void barrier(void) {
	char c = 0;
	exchange(&c, &c, 1);
}

/* Exchanges things of different lengths. */
static void *swap(const void *mine, size_t n) {
	size_t theirs;
	void *p;
	uint8_t *out = calloc(1, 1 << 16), *in = calloc(1, 1 << 16);
	MUST(out && in && n <= 1 << 16);
	exchange(&n, &theirs, sizeof n);
	memcpy(out, mine, n);
	exchange(out, in, 1 << 16);
	free(out);
	p = in;
	return p;
}

/* The pattern of message i of a round, from a rank. */
static uint64_t seed(int rank, size_t size, int i) {
	return (uint64_t)rank << 60 | (uint64_t)size << 8 | (uint64_t)i;
}

static void fill(size_t size) {
	int i;
	for (i = 0; i < WINDOW; i++)
		pattern_fill(my.from + (size_t)i * size, seed(my.rank, size, i), 0, size);
	memset(my.to, 0, WINDOW * size);
}

static void judge(size_t size, const char *what) {
	int i;
	for (i = 0; i < WINDOW; i++)
		pattern_check(my.to + (size_t)i * size, seed(!my.rank, size, i), 0, size, what);
}

static void arrived(void *request, ucs_status_t status, size_t length, void *arg) {
	(void)length, (void)arg;
	UCS(status);
	my.arrived++;
	ucp_request_free(request);
}

static ucs_status_t arrives(void *arg, const void *header, size_t header_length, void *data, size_t length,
							const ucp_am_recv_param_t *param) {
	uint64_t at;
	(void)arg;
	MUST(header_length == sizeof at);
	memcpy(&at, header, sizeof at);
	if (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) {
		ucp_request_param_t then = {0};
		void *request;
		then.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK;
		then.cb.recv_am = arrived;
		request = ucp_am_recv_data_nbx(my.worker, data, my.to + at, length, &then);
		if (UCS_PTR_IS_ERR(request))
			FAIL("rendezvous: %s", ucs_status_string(UCS_PTR_STATUS(request)));
		if (!request)
			my.arrived++;
		return UCS_INPROGRESS;
	}
	memcpy(my.to + at, data, length);
	my.arrived++;
	return UCS_OK;
}

static void tag(size_t size) {
	void *in[WINDOW], *out[WINDOW];
	ucp_request_param_t none = {0};
	int i;
	for (i = 0; i < WINDOW; i++)
		in[i] = ucp_tag_recv_nbx(my.worker, my.to + (size_t)i * size, size, (uint64_t)i, ~(uint64_t)0, &none);
	for (i = WINDOW; i-- > 0;) /* in another order, so that tags have to be matched */
		out[i] = ucp_tag_send_nbx(my.ep, my.from + (size_t)i * size, size, (uint64_t)i, &none);
	for (i = 0; i < WINDOW; i++)
		finish(in[i]), finish(out[i]);
}

static void am(size_t size) {
	void *out[WINDOW];
	uint64_t at[WINDOW];
	ucp_request_param_t none = {0};
	int i;
	for (i = 0; i < WINDOW; i++) {
		at[i] = (uint64_t)i * size;
		out[i] = ucp_am_send_nbx(my.ep, 7, &at[i], sizeof at[i], my.from + at[i], size, &none);
	}
	for (i = 0; i < WINDOW; i++)
		finish(out[i]);
	while (my.arrived < WINDOW)
		progress();
	my.arrived = 0;
}

static void flush(void) {
	ucp_request_param_t none = {0};
	finish(ucp_ep_flush_nbx(my.ep, &none));
}

static void put(size_t size) {
	void *out[WINDOW];
	ucp_request_param_t none = {0};
	int i;
	for (i = 0; i < WINDOW; i++)
		out[i] = ucp_put_nbx(my.ep, my.from + (size_t)i * size, size, my.peer_to + (uint64_t)i * size,
		                     my.peer_to_key, &none);
	for (i = 0; i < WINDOW; i++)
		finish(out[i]);
	flush();
}

static void get(size_t size) {
	void *in[WINDOW];
	ucp_request_param_t none = {0};
	int i;
	for (i = 0; i < WINDOW; i++)
		in[i] = ucp_get_nbx(my.ep, my.to + (size_t)i * size, size, my.peer_from + (uint64_t)i * size,
		                    my.peer_from_key, &none);
	for (i = 0; i < WINDOW; i++)
		finish(in[i]);
}

static void stream(size_t size) {
	void *in, *out[WINDOW];
	ucp_request_param_t none = {0}, all = {0};
	size_t length;
	int i;
	all.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
	all.flags = UCP_STREAM_RECV_FLAG_WAITALL;
	in = ucp_stream_recv_nbx(my.ep, my.to, WINDOW * size, &length, &all); /* in one piece */
	for (i = 0; i < WINDOW; i++)
		out[i] = ucp_stream_send_nbx(my.ep, my.from + (size_t)i * size, size, &none);
	finish(in);
	for (i = 0; i < WINDOW; i++)
		finish(out[i]);
}

/* One atomic on a word of the peer. If fetched is not NULL, it is given and receives a value. */
static void atomic(ucp_atomic_op_t op, uint64_t operand, uint64_t at, size_t width, void *fetched) {
	ucp_request_param_t param = {0};
	param.op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE | (fetched ? UCP_OP_ATTR_FIELD_REPLY_BUFFER : 0);
	param.datatype = ucp_dt_make_contig(width);
	param.reply_buffer = fetched;
	/* Little-endian: the low bytes. */
	finish(ucp_atomic_op_nbx(my.ep, op, &operand, 1, my.peer_to + at, my.peer_to_key, &param));
}

static const struct step {
	ucp_atomic_op_t op;
	uint64_t operand, result; /* of the operation on the result of the step before */
	int always_fetches;
} steps[] = {
	{UCP_ATOMIC_OP_ADD, 0x01020304, 0x01020304, 0}, {UCP_ATOMIC_OP_SWAP, 0x0f0f0f0f, 0x0f0f0f0f, 1},
	{UCP_ATOMIC_OP_AND, 0x00ffff00, 0x000f0f00, 0}, {UCP_ATOMIC_OP_OR, 0x50000005, 0x500f0f05, 0},
	{UCP_ATOMIC_OP_XOR, 0x10010001, 0x400e0f04, 0}, {UCP_ATOMIC_OP_ADD, 0x0ff1f0fc, 0x50000000, 0},
};

/* Each operation with and without fetching, on a word of its own, then many additions. */
static void atomics(size_t width) {
	enum { ADDS = 50 };
	uint64_t mask = width == 8 ? ~(uint64_t)0 : 0xffffffff, before, got[2], one = 1;
	size_t i;
	int fetch;
	memset(my.to, 0, 64);
	memset(my.from, 0, 64);
	barrier();
	for (fetch = 0; fetch < 2; fetch++)
		for (before = 0, i = 0; i < sizeof steps / sizeof *steps; before = steps[i++].result) {
			got[0] = 0;
			atomic(steps[i].op, steps[i].operand, (uint64_t)fetch * 8, width,
			       fetch || steps[i].always_fetches ? got : NULL);
			if (fetch || steps[i].always_fetches)
				SAME(got[0] & mask, before);
			else
				flush();
		}
	got[0] = 0x77; /* compared with the word: another value leaves it alone, this value is replaced */
	atomic(UCP_ATOMIC_OP_CSWAP, 0x51, 0, width, got);
	SAME(got[0] & mask, before);
	got[0] = 0x77;
	atomic(UCP_ATOMIC_OP_CSWAP, before, 0, width, got);
	SAME(got[0] & mask, before);
	flush();
	barrier();
	SAME(*(uint64_t *)my.to, 0x77);
	SAME(*(uint64_t *)(my.to + 8), before);
	for (i = 0; i < ADDS; i++)
		atomic(UCP_ATOMIC_OP_ADD, one, 16, width, i % 2 ? got : NULL);
	flush();
	barrier();
	SAME(*(uint64_t *)(my.to + 16), ADDS);
	barrier();
}

static uint8_t *map(size_t n, ucp_mem_h *memory) {
	ucp_mem_map_params_t params = {0};
	uint8_t *at = aligned_alloc(4096, n);
	MUST(at);
	memset(at, 0, n);
	params.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH;
	params.address = at;
	params.length = n;
	UCS(ucp_mem_map(my.context, &params, memory));
	return at;
}

/* Gives the peer access to memory, and gets access to the peer's. */
static uint64_t share(uint8_t *at, ucp_mem_h memory, ucp_rkey_h *key) {
	uint64_t mine = (uint64_t)(uintptr_t)at, theirs;
	void *packed, *received;
	size_t n;
	UCS(ucp_rkey_pack(my.context, memory, &packed, &n));
	received = swap(packed, n);
	UCS(ucp_ep_rkey_unpack(my.ep, received, key));
	ucp_rkey_buffer_release(packed);
	free(received);
	exchange(&mine, &theirs, sizeof mine);
	return theirs;
}

static void start(void) {
	ucp_params_t params = {0};
	ucp_worker_params_t worker = {0};
	ucp_ep_params_t ep = {0};
	ucp_am_handler_param_t handler = {0};
	ucp_config_t *config;
	ucp_address_t *mine;
	size_t n;
	void *theirs;
	UCS(ucp_config_read(NULL, NULL, &config));
	params.field_mask = UCP_PARAM_FIELD_FEATURES;
	params.features = UCP_FEATURE_TAG | UCP_FEATURE_RMA | UCP_FEATURE_AMO32 | UCP_FEATURE_AMO64 |
		UCP_FEATURE_STREAM | UCP_FEATURE_AM;
	UCS(ucp_init(&params, config, &my.context));
	ucp_config_release(config);
	UCS(ucp_worker_create(my.context, &worker, &my.worker));
	handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB;
	handler.id = 7;
	handler.cb = arrives;
	UCS(ucp_worker_set_am_recv_handler(my.worker, &handler));
	UCS(ucp_worker_get_address(my.worker, &mine, &n));
	theirs = swap(mine, n);
	ucp_worker_release_address(my.worker, mine);
	ep.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
	ep.address = theirs;
	UCS(ucp_ep_create(my.worker, &ep, &my.ep));
	free(theirs);
	my.from = map((size_t)WINDOW * MOST, &my.from_memory);
	my.to = map((size_t)WINDOW * MOST, &my.to_memory);
	my.peer_from = share(my.from, my.from_memory, &my.peer_from_key);
	my.peer_to = share(my.to, my.to_memory, &my.peer_to_key);
}

static void end(void) {
	ucp_request_param_t none = {0};
	barrier();
	ucp_rkey_destroy(my.peer_from_key);
	ucp_rkey_destroy(my.peer_to_key);
	finish(ucp_ep_close_nbx(my.ep, &none));
	barrier();
	UCS(ucp_mem_unmap(my.context, my.from_memory));
	UCS(ucp_mem_unmap(my.context, my.to_memory));
	ucp_worker_destroy(my.worker);
	ucp_cleanup(my.context);
}

static const struct {
	const char *name;
	void (*run)(size_t size);
} kinds[] = {{"tag", tag}, {"am", am}, {"put", put}, {"get", get}, {"stream", stream}};

static void run(size_t most) {
	size_t k, s;
	start();
	for (k = 0; k < sizeof kinds / sizeof *kinds; k++)
		for (s = 0; s < sizeof sizes / sizeof *sizes && sizes[s] <= most; s++) {
			snprintf(doing, sizeof doing, "process %d, %s, %zu bytes", my.rank, kinds[k].name, sizes[s]);
			fill(sizes[s]);
			barrier();
			kinds[k].run(sizes[s]);
			barrier();
			judge(sizes[s], "received");
			barrier();
		}
	for (s = 4; s <= 8; s += 4) {
		snprintf(doing, sizeof doing, "process %d, atomics, %zu bytes", my.rank, s);
		atomics(s);
	}
	doing[0] = 0;
	end();
}

int main(int argc, char **argv) {
	int ends[2], status;
	size_t most = argc > 1 ? strtoul(argv[1], NULL, 0) : MOST;
	pid_t child;
	DO(socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
	MUST((child = fork()) >= 0);
	alarm(PATIENCE);
	my.rank = child == 0;
	my.socket = ends[my.rank];
	close(ends[!my.rank]);
	run(most);
	if (child == 0)
		return 0;
	MUST(waitpid(child, &status, 0) == child && status == 0);
	printf("ucp: tag, am, put, get, stream of up to %zu bytes, atomics of 4 and 8: ok\n", most);
	return 0;
}
