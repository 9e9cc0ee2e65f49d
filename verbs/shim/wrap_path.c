/* Other functions that take paths. */
#include "shim.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "real.h"

/* Compilers replace readlink, readlinkat and realpath with these in fortified programs. */
NV_EXPORT ssize_t __readlink_chk(const char *path, char *to, size_t size, size_t room);
NV_EXPORT ssize_t __readlinkat_chk(int dir, const char *path, char *to, size_t size, size_t room);
NV_EXPORT char *__realpath_chk(const char *path, char *to, size_t room);

/* A device's path is redirected to a read-only file. But the answer has to be that of the device,
 * which every user may read and write. So for a device this changes *mode to F_OK: access then asks only whether the file
 * exists. Returns false, with errno set, if a program asks whether it may execute the device. */
static bool mode_of_device(const struct nv_place *place, int *mode) {
	if (place->device < 0)
		return true;
	if (*mode & X_OK) {
		errno = EACCES;
		return false;
	}
	*mode = F_OK;
	return true;
}

#define ACCESS(name)                                                                         \
	NV_EXPORT int name(const char *path, int mode) {                                     \
		struct nv_place place;                                                       \
		nv_find(path, &place);                                                       \
		return mode_of_device(&place, &mode) ? NV_REAL(name)(place.path, mode) : -1; \
	}

ACCESS(access)
ACCESS(eaccess)
ACCESS(euidaccess)

NV_EXPORT int faccessat(int dir, const char *path, int mode, int flags) {
	struct nv_place place;
	nv_find(path, &place);
	return mode_of_device(&place, &mode) ? NV_REAL(faccessat)(dir, place.path, mode, flags) : -1;
}

NV_EXPORT ssize_t readlink(const char *path, char *to, size_t size) {
	struct nv_place place;
	nv_find(path, &place);
	return NV_REAL(readlink)(place.path, to, size);
}

NV_EXPORT ssize_t readlinkat(int dir, const char *path, char *to, size_t size) {
	struct nv_place place;
	nv_find(path, &place);
	return NV_REAL(readlinkat)(dir, place.path, to, size);
}

NV_EXPORT ssize_t __readlink_chk(const char *path, char *to, size_t size, size_t room) {
	struct nv_place place;
	nv_find(path, &place);
	return NV_REAL(__readlink_chk)(place.path, to, size, room);
}

NV_EXPORT ssize_t __readlinkat_chk(int dir, const char *path, char *to, size_t size, size_t room) {
	struct nv_place place;
	nv_find(path, &place);
	return NV_REAL(__readlinkat_chk)(dir, place.path, to, size, room);
}

/* For a device, the result is the path that the program gave. A result below the server's
 * directory is changed back to the path in /sys. Results are compared with the directory's name,
 * so none is changed if that name contains a symbolic link. */
static const char *resolved(const struct nv_place *place, const char *path) {
	return place->device >= 0 && NV_REAL(access)(place->path, F_OK) == 0 ? path : NULL;
}

static char *told(const struct nv_place *place, char *result) {
	if (result && place->ours)
		nv_unfind(result);
	return result;
}

NV_EXPORT char *realpath(const char *path, char *to) {
	struct nv_place place;
	const char *device;
	nv_find(path, &place);
	device = resolved(&place, path);
	if (device)
		return to ? strcpy(to, device) : strdup(device);
	return told(&place, NV_REAL(realpath)(place.path, to));
}

NV_EXPORT char *__realpath_chk(const char *path, char *to, size_t room) {
	struct nv_place place;
	const char *device;
	nv_find(path, &place);
	device = resolved(&place, path);
	if (device && to && room > strlen(device))
		return strcpy(to, device);
	return told(&place, NV_REAL(__realpath_chk)(place.path, to, room));
}

NV_EXPORT char *canonicalize_file_name(const char *path) { return realpath(path, NULL); }

/* A pattern that begins with /sys/class/infiniband is matched below the server's directory. Any
 * other pattern, such as one that begins with /sys/class/ and a star, matches the kernel's files. */
static const char *pattern_of(const char *pattern, int flags, char *room) {
	static const char prefix[] = "/sys/class/infiniband";
	char root[NV_PATH];
	const char *from = root;
	size_t n = 0;
	if ((uintptr_t)pattern < 4096 || strncmp(pattern, prefix, sizeof prefix - 1) != 0 ||
	    strlen(pattern) >= NV_PATH || !nv_root(root))
		return pattern;
	for (; *from; from++) { /* the directory's name has to match literally */
		if (!(flags & GLOB_NOESCAPE) && strchr("*?[]\\{}~", *from))
			room[n++] = '\\';
		room[n++] = *from;
	}
	strcpy(room + n, pattern);
	return room;
}

static void tell(size_t n, char **paths) {
	size_t i;
	for (i = 0; i < n; i++)
		nv_unfind(paths[i]);
}

#define GLOB(name, type)                                                                                   \
	NV_EXPORT int name(const char *pattern, int flags, int (*failed)(const char *, int), type *found) { \
		char room[3 * NV_PATH];                                                                    \
		const char *where = pattern_of(pattern, flags, room);                                      \
		int result = NV_REAL(name)(where, flags, failed, found);                                   \
		if (result == 0 && where == room)                                                          \
			tell(found->gl_pathc, found->gl_pathv + (flags & GLOB_DOOFFS ? found->gl_offs : 0)); \
		return result;                                                                             \
	}

GLOB(glob, glob_t)
GLOB(glob64, glob64_t)
