/* stat and its variants: a context looks like a character device, although it is a socket. */
#include "shim.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/sysmacros.h>

#include "real.h"

/* Programs that were linked before glibc 2.33 call these. */
NV_EXPORT int __xstat(int version, const char *path, struct stat *st);
NV_EXPORT int __xstat64(int version, const char *path, struct stat64 *st);
NV_EXPORT int __lxstat(int version, const char *path, struct stat *st);
NV_EXPORT int __lxstat64(int version, const char *path, struct stat64 *st);
NV_EXPORT int __fxstat(int version, int fd, struct stat *st);
NV_EXPORT int __fxstat64(int version, int fd, struct stat64 *st);
NV_EXPORT int __fxstatat(int version, int dir, const char *path, struct stat *st, int flags);
NV_EXPORT int __fxstatat64(int version, int dir, const char *path, struct stat64 *st, int flags);

/* Both structures are the same if a long has 64 bits. */
typedef char same_size[sizeof(struct stat) == sizeof(struct stat64) ? 1 : -1];
typedef char same_rdev[offsetof(struct stat, st_rdev) == offsetof(struct stat64, st_rdev) ? 1 : -1];

/* Changes the result of a successful stat of a path to what the program is to see. */
static int path_seen(int result, const struct nv_place *place, void *st) {
	return result == 0 && place->device >= 0 ? nv_as_device(place, st) : result;
}

/* Contexts are sockets, and channels are pipes. */
static bool is_ours(unsigned mode) { return S_ISSOCK(mode) || S_ISFIFO(mode); }

/* Changes the result of a successful stat of a descriptor in the same way. */
static int fd_seen(int result, int fd, void *st) {
	struct nv_context c;
	if (result == 0 && is_ours(((struct stat *)st)->st_mode) && nv_dir() && nv_context_of(fd, st, &c))
		nv_be_device(st, c.rdev);
	return result;
}

#define STAT(name, type)                                                                   \
	NV_EXPORT int name(const char *path, type *st) {                                   \
		struct nv_place place;                                                     \
		nv_find(path, &place);                                                     \
		return path_seen(NV_REAL(name)(place.path, st), &place, st);               \
	}

#define XSTAT(name, type)                                                                  \
	NV_EXPORT int name(int version, const char *path, type *st) {                      \
		struct nv_place place;                                                     \
		nv_find(path, &place);                                                     \
		return path_seen(NV_REAL(name)(version, place.path, st), &place, st);      \
	}

/* With AT_EMPTY_PATH an empty path means the descriptor itself. */
static int at_seen(int result, int dir, const char *path, const struct nv_place *place, void *st, int flags) {
	if (result == 0 && (flags & AT_EMPTY_PATH) && (!path || !path[0]))
		return fd_seen(result, dir, st);
	return path_seen(result, place, st);
}

#define STATAT(name, type)                                                                 \
	NV_EXPORT int name(int dir, const char *path, type *st, int flags) {               \
		struct nv_place place;                                                     \
		int result;                                                                \
		nv_find_at(dir, path, &place);                                                     \
		result = NV_REAL(name)(dir, place.path, st, flags);                        \
		return at_seen(result, dir, place.path, &place, st, flags);                \
	}

#define XSTATAT(name, type)                                                                \
	NV_EXPORT int name(int version, int dir, const char *path, type *st, int flags) {  \
		struct nv_place place;                                                     \
		int result;                                                                \
		nv_find_at(dir, path, &place);                                                     \
		result = NV_REAL(name)(version, dir, place.path, st, flags);               \
		return at_seen(result, dir, place.path, &place, st, flags);                \
	}

STAT(stat, struct stat)
STAT(stat64, struct stat64)
STAT(lstat, struct stat)
STAT(lstat64, struct stat64)
XSTAT(__xstat, struct stat)
XSTAT(__xstat64, struct stat64)
XSTAT(__lxstat, struct stat)
XSTAT(__lxstat64, struct stat64)
STATAT(fstatat, struct stat)
STATAT(fstatat64, struct stat64)
XSTATAT(__fxstatat, struct stat)
XSTATAT(__fxstatat64, struct stat64)

NV_EXPORT int fstat(int fd, struct stat *st) { return fd_seen(NV_REAL(fstat)(fd, st), fd, st); }
NV_EXPORT int fstat64(int fd, struct stat64 *st) { return fd_seen(NV_REAL(fstat64)(fd, st), fd, st); }
NV_EXPORT int __fxstat(int version, int fd, struct stat *st) {
	return fd_seen(NV_REAL(__fxstat)(version, fd, st), fd, st);
}
NV_EXPORT int __fxstat64(int version, int fd, struct stat64 *st) {
	return fd_seen(NV_REAL(__fxstat64)(version, fd, st), fd, st);
}

NV_EXPORT int statx(int dir, const char *path, int flags, unsigned mask, struct statx *st) {
	struct nv_place place;
	struct nv_context c;
	struct stat device = {0};
	int result;
	nv_find_at(dir, path, &place);
	result = NV_REAL(statx)(dir, place.path, flags, mask, st);
	if (result != 0)
		return result;
	if (place.device >= 0) {
		if (nv_as_device(&place, &device) != 0)
			return -1;
	} else if ((flags & AT_EMPTY_PATH) && is_ours(st->stx_mode) && nv_dir() && nv_context_of(dir, NULL, &c)) {
		nv_be_device(&device, c.rdev);
	} else {
		return 0;
	}
	st->stx_mode = (uint16_t)device.st_mode;
	st->stx_rdev_major = major(device.st_rdev);
	st->stx_rdev_minor = minor(device.st_rdev);
	st->stx_size = st->stx_blocks = 0;
	return 0;
}
