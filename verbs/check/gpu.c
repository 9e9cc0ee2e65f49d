/* gpu: memory that the driver of a GPU pins. Registers are registered as I/O memory, although here they are
 * none. Pages that the driver has pinned are not moved: a umem of them is refused, and those of a umem that
 * is gone stay where the GPU finds them. */
#include "gpu_driver.h"
#include "mailbox.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>

enum { PAGE = 4096, CLIENT = 0x41d00023, DEVICE = 0x5c000002 };

static int driver; /* the preloaded library answers for any descriptor */

/* Registers memory with the driver, as an object; returns the status. */
static uint32_t pin(uint32_t object, void *at, size_t bytes, uint32_t flags) {
	struct os_descriptor m = {CLIENT, DEVICE, object, OS_DESCRIPTOR, flags, 0, (uintptr_t)at, bytes - 1, 0, 0, -1, 0};
	DO(ioctl(driver, ALLOC_MEMORY, &m));
	SAME(m.flags, flags);
	SAME(m.address, (uintptr_t)at);
	SAME(m.limit, bytes - 1);
	return m.status;
}

static void unpin(uint32_t object) {
	struct nv_free f = {CLIENT, DEVICE, object, 1};
	DO(ioctl(driver, FREE, &f));
	SAME(f.status, 0);
}

/* Whether the page is in memory of nicless. */
static int is_shared(const void *at) {
	char line[8192];
	unsigned long from, to;
	int is = 0;
	FILE *f;
	MUST((f = fopen("/proc/self/maps", "r")));
	while (fgets(line, sizeof line, f))
		if (sscanf(line, "%lx-%lx ", &from, &to) == 2 && from <= (uintptr_t)at && (uintptr_t)at < to)
			is = strstr(line, "/memfd:nicless:") != NULL;
	fclose(f);
	return is;
}

static uint8_t *take(size_t bytes) {
	void *at;
	DO(posix_memalign(&at, PAGE, bytes));
	memset(at, 1, bytes);
	return at;
}

static struct devx d;

static struct mlx5dv_devx_umem *umem(void *at, size_t bytes) {
	return mlx5dv_devx_umem_reg(d.context, at, bytes, IBV_ACCESS_LOCAL_WRITE);
}

static void registers(void) {
	uint8_t *own = take(PAGE);
	SAME(pin(1, d.uar->base_addr, PAGE, IO_MEMORY), 0);
	SAME(pin(2, d.uar->base_addr, PAGE, ORDINARY), 0);
	SAME(pin(3, own, PAGE, IO_MEMORY), INVALID_FLAGS); /* that is the program's mistake */
	SAME(pin(4, (uint8_t *)d.uar->base_addr - (64 << 20), 128 << 20, IO_MEMORY), INVALID_FLAGS);
	unpin(1);
	unpin(2);
	free(own);
}

static void refused(void) {
	uint8_t *at = take(4 * PAGE);
	struct mlx5dv_devx_umem *made;
	struct ibv_mr *mr;
	SAME(pin(1, at, PAGE, ORDINARY), 0);
	SAME(pin(2, at + 2 * PAGE, PAGE, ORDINARY), 0);
	MUST(!umem(at, 4 * PAGE) && errno == EFAULT);
	MUST((mr = ibv_reg_mr(d.pd, at, 4 * PAGE, IBV_ACCESS_LOCAL_WRITE))); /* the kernel copies */
	MUST(!is_shared(at) && !is_shared(at + 2 * PAGE));
	DO(ibv_dereg_mr(mr));
	MUST((made = umem(at + PAGE, PAGE)));
	DO(mlx5dv_devx_umem_dereg(made));
	unpin(1);
	MUST(!umem(at, 4 * PAGE) && errno == EFAULT);
	unpin(DEVICE); /* with all that it has */
	MUST((made = umem(at, 4 * PAGE)) && is_shared(at));
	DO(mlx5dv_devx_umem_dereg(made));
	free(at);
}

static void (**hook)(void); /* of the driver */
static uint8_t *raced;

static void *tries_umem(void *arg) {
	(void)arg;
	MUST(!umem(raced, PAGE) && errno == EFAULT);
	return NULL;
}

static void *pins_again(void *arg) {
	(void)arg;
	SAME(pin(1, raced, PAGE, ORDINARY), 0);
	return NULL;
}

static void in_thread(void *(*f)(void *)) {
	pthread_t thread;
	DO(pthread_create(&thread, NULL, f, NULL));
	DO(pthread_join(thread, NULL));
}

static void umem_meanwhile(void) { in_thread(tries_umem); }
static void pin_meanwhile(void) { in_thread(pins_again); }

/* Another thread makes a umem when the driver has pinned its memory and nobody knows yet, and one gets the
 * number of an object that the driver has freed. */
static void raced_by_threads(void) {
	uint8_t *other = take(PAGE);
	raced = take(PAGE);
	*hook = umem_meanwhile;
	SAME(pin(1, raced, PAGE, ORDINARY), 0);
	MUST(!*hook);
	unpin(1);
	SAME(pin(1, other, PAGE, ORDINARY), 0);
	*hook = pin_meanwhile;
	unpin(1);
	MUST(!*hook && !umem(raced, PAGE) && errno == EFAULT);
	unpin(1);
	free(raced);
	free(other);
}

/* Pages of malloc's heap are the program's own again when nothing uses them any more, but not while the GPU
 * has them. */
static void kept(void) {
	uint8_t *at = take(PAGE), *pinned = take(PAGE);
	struct mlx5dv_devx_umem *made;
	MUST((made = umem(at, PAGE)) && is_shared(at));
	DO(mlx5dv_devx_umem_dereg(made));
	MUST(!is_shared(at));
	MUST((made = umem(pinned, PAGE)) && is_shared(pinned));
	SAME(pin(1, pinned, PAGE, ORDINARY), 0);
	DO(mlx5dv_devx_umem_dereg(made));
	MUST(is_shared(pinned));
	MUST(pinned[0] == 1 && pinned[PAGE - 1] == 1);
	unpin(1);
	MUST(!is_shared(pinned));
	MUST(pinned[0] == 1 && pinned[PAGE - 1] == 1);
	free(pinned);
	free(at);
}

int main(void) {
	driver = open("/dev/nvidiactl", O_RDWR); /* the attempt says that this program uses a GPU */
	MUST((*(void **)&hook = dlsym(RTLD_DEFAULT, "gpu_driver_hook")));
	devx_open(&d, NULL);
	registers();
	refused();
	kept();
	raced_by_threads();
	printf("gpu: registers, refused, kept, raced: ok\n");
	return 0;
}
