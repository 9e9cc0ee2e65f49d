/* hostmem: a program that allocates its queue in GPU memory finds it in memory that the engine shares, if
 * accel/cuda/hostmem.c is preloaded. The CUDA runtime is a stub, whose own memory is malloc's. */
#include "mailbox.h"

#include <dlfcn.h>

/* The functions of CUDA that a program would find here, which return 0. */
static int (*cuda_malloc)(void **at, size_t bytes), (*cuda_free)(void *at),
    (*device_pointer)(void **there, void *at, unsigned flags),
    (*set_attribute)(const void *value, int attribute, unsigned long long at);

static void find(void *f, const char *name) { MUST((*(void **)f = dlsym(RTLD_DEFAULT, name))); }

int main(void) {
	void *ring, *small, *there;
	struct mlx5dv_devx_umem *umem;
	struct devx d;
	int i, yes = 1;
	find(&cuda_malloc, "cudaMalloc");
	find(&cuda_free, "cudaFree");
	find(&device_pointer, "cudaHostGetDevicePointer");
	find(&set_attribute, "cuPointerSetAttribute");
	devx_open(&d, NULL);
	for (i = 0; i < 100; i++) { /* nothing is left of the blocks before */
		SAME(cuda_malloc(&ring, 65536), 0);
		MUST((uintptr_t)ring % 4096 == 0);
		SAME(device_pointer(&there, ring, 0), 0);
		MUST(there == ring);
		SAME(set_attribute(&yes, 6, (uintptr_t)ring + 100), 0);
		MUST((umem = mlx5dv_devx_umem_reg(d.context, ring, 65536, IBV_ACCESS_LOCAL_WRITE)));
		DO(mlx5dv_devx_umem_dereg(umem));
		SAME(cuda_free(ring), 0);
		MUST(device_pointer(&there, ring, 0) != 0);
	}
	SAME(cuda_malloc(&small, 64), 0); /* of the stub */
	MUST(device_pointer(&there, small, 0) != 0);
	SAME(cuda_free(small), 0);
	SAME(cuda_free(NULL), 0);
	printf("hostmem: ok\n");
	return 0;
}
