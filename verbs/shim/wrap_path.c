/* Other functions that take paths. */
#include "shim.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "real.h"

/* Compilers replace readlink, readlinkat, realpath and getcwd with these in fortified programs. */
NV_EXPORT ssize_t __readlink_chk(const char *path, char *to, size_t size, size_t room);
NV_EXPORT ssize_t __readlinkat_chk(int dir, const char *path, char *to, size_t size, size_t room);
NV_EXPORT char *__realpath_chk(const char *path, char *to, size_t room);
NV_EXPORT char *__getcwd_chk(char *to, size_t size, size_t room);

/* A device's path is redirected to a read-only file. But the answer has to be that of the device,
 * which every user may read and write. So for a device this changes *mode to F_OK: access then asks only
 * whether the file exists. Returns false, with errno set, if a program asks whether it may execute the
 * device. */
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
	nv_find_at(dir, path, &place);
	return mode_of_device(&place, &mode) ? NV_REAL(faccessat)(dir, place.path, mode, flags) : -1;
}

NV_EXPORT ssize_t readlink(const char *path, char *to, size_t size) {
	struct nv_place place;
	nv_find(path, &place);
	return NV_REAL(readlink)(place.path, to, size);
}

NV_EXPORT ssize_t readlinkat(int dir, const char *path, char *to, size_t size) {
	struct nv_place place;
	nv_find_at(dir, path, &place);
	return NV_REAL(readlinkat)(dir, place.path, to, size);
}

NV_EXPORT ssize_t __readlink_chk(const char *path, char *to, size_t size, size_t room) {
	struct nv_place place;
	nv_find(path, &place);
	return NV_REAL(__readlink_chk)(place.path, to, size, room);
}

NV_EXPORT ssize_t __readlinkat_chk(int dir, const char *path, char *to, size_t size, size_t room) {
	struct nv_place place;
	nv_find_at(dir, path, &place);
	return NV_REAL(__readlinkat_chk)(dir, place.path, to, size, room);
}

NV_EXPORT char *realpath(const char *path, char *to) {
	struct nv_place place;
	nv_find(path, &place);
	return nv_unfind(NV_REAL(realpath)(place.path, to));
}

NV_EXPORT char *__realpath_chk(const char *path, char *to, size_t room) {
	struct nv_place place;
	nv_find(path, &place);
	return nv_unfind(NV_REAL(__realpath_chk)(place.path, to, room));
}

NV_EXPORT char *canonicalize_file_name(const char *path) { return realpath(path, NULL); }

/* A directory of the tree becomes the working directory, which then has its name in /sys. */
NV_EXPORT int chdir(const char *path) {
	struct nv_place place;
	nv_find(path, &place);
	return NV_REAL(chdir)(place.path);
}

NV_EXPORT char *getcwd(char *to, size_t size) { return nv_unfind(NV_REAL(getcwd)(to, size)); }

NV_EXPORT char *__getcwd_chk(char *to, size_t size, size_t room) {
	return nv_unfind(NV_REAL(__getcwd_chk)(to, size, room));
}

NV_EXPORT char *get_current_dir_name(void) { return nv_unfind(NV_REAL(get_current_dir_name)()); }

#define GETXATTR(name)                                                                              \
	NV_EXPORT ssize_t name(const char *path, const char *attribute, void *value, size_t size) { \
		struct nv_place place;                                                              \
		nv_find(path, &place);                                                              \
		return NV_REAL(name)(place.path, attribute, value, size);                           \
	}

#define LISTXATTR(name)                                                                             \
	NV_EXPORT ssize_t name(const char *path, char *list, size_t size) {                         \
		struct nv_place place;                                                              \
		nv_find(path, &place);                                                              \
		return NV_REAL(name)(place.path, list, size);                                       \
	}

GETXATTR(getxattr)
GETXATTR(lgetxattr)
LISTXATTR(listxattr)
LISTXATTR(llistxattr)

/* A pattern that begins with /sys/class/infiniband or /dev/infiniband is matched below the server's
 * directory. Any other pattern, such as one that begins with /sys/class/ and a star, matches the kernel's
 * files. */
static const char *pattern_of(const char *pattern, int flags, char *room) {
	char root[NV_PATH];
	const char *from = root;
	size_t n = 0;
	if (!nv_dir() || (uintptr_t)pattern < 4096 || strlen(pattern) >= NV_PATH)
		return pattern;
	if (strncmp(pattern, "/dev/infiniband", 15) == 0)
		from = nv_dir();
	else if (strncmp(pattern, "/sys/class/infiniband", 21) != 0 || !nv_root(root))
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
