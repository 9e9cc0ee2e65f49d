/* Two ioctls of NVIDIA's driver, as libcuda 580 makes them for cudaHostRegister and cudaHostUnregister. */
#ifndef NICLESS_CHECK_GPU_DRIVER_H
#define NICLESS_CHECK_GPU_DRIVER_H

#include <stdint.h>
#include <sys/ioctl.h>

struct os_descriptor { /* nv_ioctl_nvos02_parameters_with_fd */
	uint32_t root, parent, object, class, flags, zero;
	uint64_t address, limit;
	uint32_t status, zero_too;
	int32_t fd;
	uint32_t zero_three;
};

struct nv_free { /* NVOS00_PARAMETERS */
	uint32_t root, parent, object, status;
};

#define ALLOC_MEMORY _IOWR('F', 0x27, struct os_descriptor)
#define FREE _IOWR('F', 0x29, struct nv_free)

enum { OS_DESCRIPTOR = 0x71, ORDINARY = 0x40001010, IO_MEMORY = 0x40000000, INVALID_FLAGS = 0x29 };

#endif
