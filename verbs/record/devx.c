/* Firmware commands (DEVX) that make queues. Such a queue is memory of the program's, a umem, in which it
 * writes WQEs and reads completions, and it rings doorbells, all without a function of a library. So nobody
 * is called when there is something to copy, and what is there later may be the next lap's. Nothing of these
 * queues can be recorded, and programs that may have them use them in place of those of verbs: UCX does. So
 * they are refused, as on a device without DEVX, unless the user allows them. Then their names are kept.
 *
 * Memory keys, general objects and events are served as ever: the functions of libmlx5 use them too. */
#include "record.h"

#include <dlfcn.h>
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The commands, with their numbers and names in mlx5_ifc.h. A test compares them with package field/devx. */
static const struct {
	uint16_t number;
	const char *name;
} makers[] = {
    {0x400, "CREATE_CQ"},      {0x500, "CREATE_QP"},  {0x700, "CREATE_SRQ"},
    {0x705, "CREATE_XRC_SRQ"}, {0x710, "CREATE_DCT"}, {0x717, "CREATE_XRQ"},
    {0x904, "CREATE_SQ"},      {0x908, "CREATE_RQ"},  {0x90c, "CREATE_RMP"},
};

/* Whether the user allows queues that are not recorded. */
static bool allowed(void) {
	const char *s = getenv("NICLESS_RECORD_DEVX");
	return s && *s;
}

/* Says once in a process that something was refused, and sets errno as a device without DEVX does. */
static void refuse(const char *what) {
	static bool said;
	if (!__atomic_exchange_n(&said, true, __ATOMIC_RELAXED))
		nr_say("nicless: %s refused: queues made by firmware commands (DEVX) cannot be recorded; "
		       "nicless record --devx allows them\n",
		       what);
	errno = EOPNOTSUPP;
}

/* Whether an address is in the library that has a function. */
static bool within(const void *address, nr_any_function f) {
	Dl_info here, there;
	void *at;
	memcpy(&at, &f, sizeof at);
	return dladdr(address, &here) && dladdr(at, &there) && here.dli_fbase == there.dli_fbase;
}

/* Whether something is refused to a caller: this process records, or will, and the caller is not libmlx5,
 * which makes queues by such commands for itself (flow steering). */
static bool refuses(const void *caller, nr_any_function f) {
	const char *dir = getenv("NICLESS_RECORD");
	return dir && *dir && !allowed() && !within(caller, f);
}

#define NR_REFUSES refuses(__builtin_return_address(0), (nr_any_function)f)

NR_EXPORT struct ibv_context *mlx5dv_open_device(struct ibv_device *device, struct mlx5dv_context_attr *attr) {
	struct ibv_context *c;
	NR_CALL(NULL, mlx5dv_open_device)
	if (attr && attr->flags & MLX5DV_CONTEXT_FLAGS_DEVX && NR_REFUSES) {
		refuse("mlx5dv_open_device with MLX5DV_CONTEXT_FLAGS_DEVX");
		return NULL;
	}
	c = f(device, attr);
	nr_made_context(c);
	return c;
}

NR_EXPORT struct mlx5dv_devx_umem *mlx5dv_devx_umem_reg(struct ibv_context *context, void *addr, size_t size,
							uint32_t access) {
	NR_CALL(NULL, mlx5dv_devx_umem_reg)
	if (NR_REFUSES) {
		refuse("mlx5dv_devx_umem_reg");
		return NULL;
	}
	return f(context, addr, size, access);
}

NR_EXPORT struct mlx5dv_devx_umem *mlx5dv_devx_umem_reg_ex(struct ibv_context *context,
							   struct mlx5dv_devx_umem_in *in) {
	NR_CALL(NULL, mlx5dv_devx_umem_reg_ex)
	if (NR_REFUSES) {
		refuse("mlx5dv_devx_umem_reg_ex");
		return NULL;
	}
	return f(context, in);
}

/* Keeps the command that has made a queue, and the number of the queue. */
static void made(const struct ibv_context *context, const void *in, size_t inlen, const uint8_t *out) {
	struct nr_head h = {.kind = NR_DEVX, .time = nr_now()};
	struct nr_devx data = {0};
	struct nr_object *o;
	uint32_t number;
	static bool said;
	memcpy(&number, out + 8, sizeof number);
	data.number = be32toh(number) & 0xffffff;
	memcpy(data.command, in, inlen < sizeof data.command ? inlen : sizeof data.command);
	if (!nr_lock())
		return; /* objects that a handler of a signal makes are not recorded */
	o = nr_find(NR_CONTEXT, context);
	if (nr_records(o)) {
		h.id = o->id;
		nr_write(&h, &data, sizeof data);
		if (!said)
			nr_say("nicless: WARNING: a program makes queues by firmware commands (DEVX): "
			       "nothing of them is recorded\n");
		said = true;
	}
	nr_unlock();
}

NR_EXPORT struct mlx5dv_devx_obj *mlx5dv_devx_obj_create(struct ibv_context *context, const void *in, size_t inlen,
							 void *out, size_t outlen) {
	struct mlx5dv_devx_obj *o;
	const char *name = NULL;
	uint16_t number;
	int error;
	NR_CALL(NULL, mlx5dv_devx_obj_create)
	if (inlen >= 16) {
		memcpy(&number, in, sizeof number);
		for (size_t i = 0; i < sizeof makers / sizeof *makers; i++)
			if (makers[i].number == be16toh(number))
				name = makers[i].name;
	}
	if (name && NR_REFUSES) {
		refuse(name);
		return NULL;
	}
	o = f(context, in, inlen, out, outlen);
	error = errno;
	if (o && name && outlen >= 16 && !within(__builtin_return_address(0), (nr_any_function)f))
		made(context, in, inlen, out);
	errno = error;
	return o;
}
