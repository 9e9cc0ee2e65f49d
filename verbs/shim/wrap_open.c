/* open and its variants: they open a device, or a file in the tree in place of the kernel's. */
#include "shim.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "real.h"

/* Compilers replace open with these in fortified programs. */
NV_EXPORT int __open_2(const char *path, int flags);
NV_EXPORT int __open64_2(const char *path, int flags);
NV_EXPORT int __openat_2(int dir, const char *path, int flags);
NV_EXPORT int __openat64_2(int dir, const char *path, int flags);

/* The driver of a GPU pins memory (gpu.c). */
static void opening(const char *path) {
	static const char *const drivers[] = {"/dev/nvidia", "/dev/kfd"};
	size_t i;
	for (i = 0; i < sizeof drivers / sizeof *drivers; i++)
		if ((uintptr_t)path >= 4096 && strncmp(path, drivers[i], strlen(drivers[i])) == 0)
			nv_open_gpu();
}

/* A mode is passed only if a file may be created. */
#define MODE(mode, flags)                                                          \
	mode_t mode = 0;                                                           \
	if ((flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE) {               \
		va_list args;                                                      \
		va_start(args, flags);                                             \
		mode = va_arg(args, mode_t);                                       \
		va_end(args);                                                      \
	}

#define OPEN(name)                                                                 \
	NV_EXPORT int name(const char *path, int flags, ...) {                     \
		struct nv_place place;                                             \
		MODE(mode, flags)                                                  \
		nv_find(path, &place);                                             \
		if (place.device >= 0)                                             \
			return nv_open_device((uint32_t)place.device, flags);      \
		opening(place.path);                                               \
		return nv_counter(NV_REAL(name)(place.path, flags, mode), place.path); \
	}

#define OPENAT(name)                                                               \
	NV_EXPORT int name(int dir, const char *path, int flags, ...) {            \
		struct nv_place place;                                             \
		MODE(mode, flags)                                                  \
		nv_find_at(dir, path, &place);                                             \
		if (place.device >= 0)                                             \
			return nv_open_device((uint32_t)place.device, flags);      \
		opening(place.path);                                               \
		return nv_counter(NV_REAL(name)(dir, place.path, flags, mode), place.path); \
	}

#define OPEN_2(name)                                                               \
	NV_EXPORT int name(const char *path, int flags) {                          \
		struct nv_place place;                                             \
		nv_find(path, &place);                                             \
		if (place.device >= 0)                                             \
			return nv_open_device((uint32_t)place.device, flags);      \
		opening(place.path);                                               \
		return nv_counter(NV_REAL(name)(place.path, flags), place.path);   \
	}

#define OPENAT_2(name)                                                             \
	NV_EXPORT int name(int dir, const char *path, int flags) {                 \
		struct nv_place place;                                             \
		nv_find_at(dir, path, &place);                                             \
		if (place.device >= 0)                                             \
			return nv_open_device((uint32_t)place.device, flags);      \
		opening(place.path);                                               \
		return nv_counter(NV_REAL(name)(dir, place.path, flags), place.path); \
	}

OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)
OPEN_2(__open_2)
OPEN_2(__open64_2)
OPENAT_2(__openat_2)
OPENAT_2(__openat64_2)

#define FOPEN(name)                                                                \
	NV_EXPORT FILE *name(const char *path, const char *mode) {                 \
		struct nv_place place;                                             \
		FILE *file;                                                        \
		nv_find(path, &place);                                             \
		file = NV_REAL(name)(place.device >= 0 ? path : place.path, mode); \
		if (file && place.device < 0)                                      \
			nv_counter(fileno(file), place.path);                      \
		return file;                                                       \
	}

FOPEN(fopen)
FOPEN(fopen64)

NV_EXPORT DIR *opendir(const char *path) {
	struct nv_place place;
	nv_find(path, &place);
	return NV_REAL(opendir)(place.path);
}

NV_EXPORT int scandir(const char *path, struct dirent ***list, int (*want)(const struct dirent *),
                      int (*order)(const struct dirent **, const struct dirent **)) {
	struct nv_place place;
	nv_find(path, &place);
	return NV_REAL(scandir)(place.path, list, want, order);
}

NV_EXPORT int scandir64(const char *path, struct dirent64 ***list, int (*want)(const struct dirent64 *),
                        int (*order)(const struct dirent64 **, const struct dirent64 **)) {
	struct nv_place place;
	nv_find(path, &place);
	return NV_REAL(scandir64)(place.path, list, want, order);
}
