/*
 * The part of libucp's binary interface that this program uses: sizes, offsets and values, as they are in
 * UCX 1.13 to 1.22 (little-endian, LP64). Structures have grown at their ends only, and the library
 * looks at a field only if its bit is in the mask, so the spare bytes stay 0. No header of UCX is
 * needed.
 */
#ifndef NICLESS_UCX_ABI_H
#define NICLESS_UCX_ABI_H

#include <stddef.h>
#include <stdint.h>

typedef signed char ucs_status; /* the enum has one byte: only the low 8 bits of a status count */

enum {
	OK = 0, IN_PROGRESS = 1, NO_RESOURCE = -2, BUSY = -15,
};

/* A request, NULL if the operation is done, or an error from -100 to -1. */
typedef void *request;

static inline int failed(request r) { return (uint64_t)(uintptr_t)r >= (uint64_t)-100; }
static inline ucs_status status_of(request r) { return (ucs_status)(intptr_t)r; }

typedef struct {
	uint64_t mask, features; /* mask 1: features 0x40 active messages, 0x10 wake-up */
	uint64_t spare[30];
} ucp_params;

typedef struct {
	uint64_t mask; /* 1: thread_mode */
	uint32_t thread_mode;
	uint64_t spare[30];
} ucp_worker_params;

typedef struct {
	uint64_t mask; /* 8: max_am_header */
	uint32_t thread_mode, address_flags;
	void *address;
	uint64_t address_length, max_am_header;
	uint64_t spare[24];
} ucp_worker_attr;

typedef struct {
	uint64_t recv_attr; /* 1 reply_ep, 0x10000 the data may be kept, 0x20000 it is a descriptor */
	void *reply_ep;
} ucp_am_recv_param;

typedef ucs_status (*am_callback)(void *arg, const void *header, size_t header_length, void *data,
                                  size_t length, const ucp_am_recv_param *);

typedef struct {
	uint64_t mask; /* 15: all */
	uint32_t id, flags; /* flags 1: whole messages */
	am_callback callback;
	void *arg;
} ucp_am_handler_param;

typedef struct {
	uint64_t mask; /* 1 worker_address, 2 err_mode, 4 err_handler */
	const void *worker_address;
	uint32_t err_mode; /* 1: UCP_ERR_HANDLING_MODE_PEER */
	void (*err_callback)(void *arg, void *ep, ucs_status);
	void *err_arg;
	void *user_data;
	uint64_t spare[32];
} ucp_ep_params;

typedef struct {
	uint32_t mask; /* 2 callback, 4 user_data, 0x10 flags */
	uint32_t flags;
	void *request;
	void (*callback)(void *request, ucs_status, void *user_data);
	uint64_t datatype;
	void *user_data;
	uint64_t spare[26];
} ucp_request_param;

#define AT(type, field, offset) _Static_assert(offsetof(type, field) == (offset), #type "." #field)
AT(ucp_worker_params, thread_mode, 8);
AT(ucp_worker_attr, max_am_header, 32);
AT(ucp_am_handler_param, callback, 16);
AT(ucp_am_handler_param, arg, 24);
AT(ucp_ep_params, worker_address, 8);
AT(ucp_ep_params, err_mode, 16);
AT(ucp_ep_params, err_callback, 24);
AT(ucp_ep_params, user_data, 40);
AT(ucp_request_param, callback, 16);
AT(ucp_request_param, datatype, 24);
AT(ucp_request_param, user_data, 32);
#undef AT

/* The functions: return type, name, arguments. A pointer to each is in struct ucp. */
#define UCP_FUNCTIONS(F) \
	F(void, ucp_get_version, (unsigned *, unsigned *, unsigned *)) \
	F(ucs_status, ucp_config_read, (const char *, const char *, void **)) \
	F(void, ucp_config_release, (void *)) \
	F(ucs_status, ucp_init_version, (unsigned, unsigned, const ucp_params *, void *, void **)) \
	F(ucs_status, ucp_worker_create, (void *, const ucp_worker_params *, void **)) \
	F(ucs_status, ucp_worker_get_address, (void *, void **, size_t *)) \
	F(void, ucp_worker_release_address, (void *, void *)) \
	F(ucs_status, ucp_worker_query, (void *, ucp_worker_attr *)) \
	F(unsigned, ucp_worker_progress, (void *)) \
	F(ucs_status, ucp_worker_get_efd, (void *, int *)) \
	F(ucs_status, ucp_worker_arm, (void *)) \
	F(ucs_status, ucp_worker_set_am_recv_handler, (void *, const ucp_am_handler_param *)) \
	F(ucs_status, ucp_ep_create, (void *, const ucp_ep_params *, void **)) \
	F(request, ucp_ep_close_nbx, (void *, const ucp_request_param *)) \
	F(request, ucp_am_send_nbx, \
	  (void *, unsigned, const void *, size_t, const void *, size_t, const ucp_request_param *)) \
	F(ucs_status, ucp_request_check_status, (void *)) \
	F(void, ucp_request_free, (void *)) \
	F(const char *, ucs_status_string, (ucs_status))

struct ucp {
#define F(result, name, args) result(*name) args;
	UCP_FUNCTIONS(F)
#undef F
	unsigned version[3];
};

/* The library; library_load fills it. */
extern struct ucp ucp;

/*
 * library_load sets those variables of UCX's environment that the user has not set, and loads libucp from
 * path, or from where the system finds it if path is empty. It returns NULL, or a sentence that says why
 * the library cannot be used.
 */
const char *library_load(const char *path);

#endif
