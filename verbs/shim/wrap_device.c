/* The functions of libibverbs that this library wraps: those that open and close a device, and the one
 * after which a queue pair posts. libmlx5's functions of an opened device are in
 * places from which programs call them, so those are replaced there (clock.c, wake.c). */
#include "shim.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

#include "libibverbs.h"

/* Returns its argument. */
static struct nv_ibv_context *opened(struct nv_ibv_context *context) {
	struct nv_context ours;
	int error = errno;
	if (context && nv_dir() && nv_context_of(context->cmd_fd, NULL, &ours)) {
		nv_clock_open(context);
		nv_wake_open(context);
	}
	errno = error;
	return context;
}

/* Finds a function of libibverbs, which a program may have loaded by dlopen for itself alone. It may
 * unload it too, so the function is looked up each time. Stores the function in *f. */
static bool find(const char *name, void *f) {
	void *library = dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_NOLOAD);
	void *symbol = library ? dlsym(library, name) : dlsym(RTLD_NEXT, name);
	memcpy(f, &symbol, sizeof symbol);
	if (library)
		dlclose(library);
	if (!symbol)
		errno = ENOSYS;
	return symbol;
}

/* libibverbs and mlx5dv_open_device open devices by verbs_open_device. Where libibverbs is linked
 * such that it does not call this one (-Bsymbolic-functions), programs still call ibv_open_device. */
NV_EXPORT struct nv_ibv_context *verbs_open_device(void *device, void *data);
NV_EXPORT struct nv_ibv_context *ibv_open_device(void *device);
NV_EXPORT struct nv_ibv_context *ibv_import_device(int fd);
NV_EXPORT int ibv_close_device(struct nv_ibv_context *context);
NV_EXPORT int ibv_modify_qp(struct nv_ibv_object *qp, void *attributes, int mask);

struct nv_ibv_context *verbs_open_device(void *device, void *data) {
	struct nv_ibv_context *(*f)(void *, void *);
	return find("verbs_open_device", &f) ? opened(f(device, data)) : NULL;
}

struct nv_ibv_context *ibv_open_device(void *device) {
	struct nv_ibv_context *(*f)(void *);
	return find("ibv_open_device", &f) ? opened(f(device)) : NULL;
}

struct nv_ibv_context *ibv_import_device(int fd) {
	struct nv_ibv_context *(*f)(int);
	return find("ibv_import_device", &f) ? opened(f(fd)) : NULL;
}

int ibv_close_device(struct nv_ibv_context *context) {
	int (*f)(struct nv_ibv_context *);
	if (!find("ibv_close_device", &f))
		return -1;
	nv_wake_close(context);
	return f(context);
}

/* At the transition to RTS libmlx5 stores the function that posts. */
int ibv_modify_qp(struct nv_ibv_object *qp, void *attributes, int mask) {
	int (*f)(struct nv_ibv_object *, void *, int), error;
	struct nv_ibv_qp_ex *(*extend)(struct nv_ibv_object *), *ex;
	if (!find("ibv_modify_qp", &f))
		return ENOSYS;
	error = f(qp, attributes, mask);
	if (error == 0 && nv_dir() && find("ibv_qp_to_qp_ex", &extend)) {
		ex = extend(qp);
		if (ex)
			nv_wake_queue(ex);
	}
	return error;
}
