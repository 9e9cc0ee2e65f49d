/* ioctl on devices, write to channels, and files of MADs. */
#include "shim.h"

#include <errno.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <rdma/rdma_user_ioctl_cmds.h>

#include "real.h"

/* The kernel serves every ioctl other than RDMA_VERBS_IOCTL; gpu.c looks at two of them. A device
 * is a socket: if sockets do not have an ioctl, the kernel returns ENOTTY, as it does for a real
 * device. An ioctl that works for every descriptor works for this socket too. */
NV_EXPORT int ioctl(int fd, unsigned long request, ...) {
	va_list args;
	void *arg;
	int error, result;
	va_start(args, request);
	arg = va_arg(args, void *);
	va_end(args);
	if ((uint32_t)request == (uint32_t)RDMA_VERBS_IOCTL && nv_dir()) {
		error = nv_ioctl(fd, (uint64_t)(uintptr_t)arg);
		if (error == 0)
			return 0;
		if (error != ENOTTY) {
			errno = error;
			return -1;
		}
	}
	if (((uint32_t)request >> 8 & 0xff) == RDMA_IOCTL_MAGIC && nv_dir() &&
	    nv_mad_ioctl(&result, fd, request, (uint64_t)(uintptr_t)arg))
		return result;
	return nv_is_gpu_ioctl(request) ? nv_gpu_ioctl(fd, request, arg) : NV_REAL(ioctl)(fd, request, arg);
}

/* This is the hottest function of all. A channel is a descriptor for reading only, so the kernel
 * refuses to write to it: until then, nothing is done here but for programs with files of MADs. */
NV_EXPORT ssize_t write(int fd, const void *data, size_t count) {
	ssize_t n;
	int error;
	if (nv_has_mads() && nv_mad_write(&n, fd, data, count))
		return n;
	n = NV_REAL(write)(fd, data, count);
	if (n >= 0 || errno != EBADF || !nv_dir())
		return n;
	error = nv_write(fd, data, count);
	if (error == 0)
		return (ssize_t)count;
	errno = error;
	return -1;
}

/* A read from anything else than a file of MADs costs two more loads, and in programs with devices a
 * comparison of its result. */
NV_EXPORT ssize_t read(int fd, void *data, size_t count) {
	ssize_t n;
	if (nv_has_mads() && nv_mad_read(&n, fd, data, count))
		return n;
	n = NV_REAL(read)(fd, data, count);
	return n >= 0 && nv_has_ends() ? nv_final_read(fd, data, count, n) : n;
}

/* Compilers replace read with this in fortified programs. */
NV_EXPORT ssize_t __read_chk(int fd, void *data, size_t count, size_t size);
NV_EXPORT ssize_t __read_chk(int fd, void *data, size_t count, size_t size) {
	ssize_t n;
	if (count <= size && nv_has_mads() && nv_mad_read(&n, fd, data, count))
		return n;
	n = NV_REAL(__read_chk)(fd, data, count, size);
	return n >= 0 && nv_has_ends() ? nv_final_read(fd, data, count, n) : n;
}
