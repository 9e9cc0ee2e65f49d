/* Paths that lead to devices. The directory of the server has a tree like the one below
 * /sys. Paths of programs are redirected to this tree:
 *
 *   /sys/class/infiniband, /sys/class/infiniband_verbs, and everything below them: always
 *   other paths in /sys: only if they exist in the tree and not in /sys (devices to which
 *   links point)
 *   /dev/infiniband: to class/infiniband_verbs of the tree, which has the same names
 *   /dev/infiniband/uverbsN: to the file "dev" of uverbsN there, which has the device's number */
#include "shim.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "real.h"

static const char class_verbs[] = "/sys/class/infiniband_verbs";
static const char class_rdma[] = "/sys/class/infiniband";
static const char dev_rdma[] = "/dev/infiniband";

/* Returns the rest of path after prefix if path is prefix or below it, else NULL. */
static const char *below(const char *path, const char *prefix) {
	size_t n = strlen(prefix);
	if (strncmp(path, prefix, n) != 0 || (path[n] != '\0' && path[n] != '/'))
		return NULL;
	return path + n;
}

/* Returns the N of "/uverbsN", or -1. */
static int64_t number(const char *rest) {
	static const char uverbs[] = "/uverbs";
	const char *digits = rest + sizeof uverbs - 1;
	int64_t n = 0;
	size_t i;
	if (strncmp(rest, uverbs, sizeof uverbs - 1) != 0 || digits[0] == '\0' || (digits[0] == '0' && digits[1]))
		return -1;
	for (i = 0; digits[i]; i++) {
		if (digits[i] < '0' || digits[i] > '9' || i == 9)
			return -1;
		n = 10 * n + (digits[i] - '0');
	}
	return n;
}

static bool exists(const char *path) {
	int error = errno;
	bool is = NV_SYSCALL(SYS_faccessat, AT_FDCWD, path, F_OK) == 0;
	errno = error;
	return is;
}

static bool put(struct nv_place *place, const char *a, const char *b, const char *c) {
	int n = snprintf(place->room, sizeof place->room, "%s%s%s%s", nv_dir(), a, b, c);
	return n >= 0 && (size_t)n < sizeof place->room;
}

void nv_find(const char *path, struct nv_place *place) {
	const char *rest;
	bool found = false;
	place->path = path;
	place->device = -1;
	place->ours = false;
	/* A NULL pointer is left for the kernel to refuse. */
	if ((uintptr_t)path < 4096 || path[0] != '/' || (path[1] != 's' && path[1] != 'd') || !nv_dir())
		return;
	if (below(path, class_rdma) || below(path, class_verbs)) {
		found = put(place, path, "", "");
	} else if (below(path, "/sys")) {
		found = put(place, path, "", "") && !exists(path) && exists(place->room);
	} else if ((rest = below(path, dev_rdma)) != NULL) {
		int64_t n = number(rest);
		if (n >= 0) {
			found = put(place, class_verbs, rest, "/dev");
			place->device = found ? n : -1;
		} else if (rest[0] == '\0' || rest[1] == '\0') { /* or "/" */
			found = put(place, class_verbs, "", "");
		}
	}
	if (found) {
		place->path = place->room;
		place->ours = true;
	}
}

void nv_be_device(struct stat *st, dev_t rdev) {
	st->st_mode = S_IFCHR | 0666;
	st->st_rdev = rdev;
	st->st_size = 0;
	st->st_blocks = 0;
}

/* The file contains "major:minor". */
int nv_as_device(const struct nv_place *place, struct stat *st) {
	char text[32] = "", *colon;
	int fd = (int)NV_SYSCALL(SYS_openat, AT_FDCWD, place->path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
	if (fd >= 0)
		close(fd);
	colon = n > 0 ? strchr(text, ':') : NULL;
	if (!colon) {
		errno = ENXIO;
		return -1;
	}
	nv_be_device(st, makedev((unsigned)strtoul(text, NULL, 10), (unsigned)strtoul(colon + 1, NULL, 10)));
	return 0;
}

void nv_unfind(char *path) {
	size_t n = strlen(nv_dir());
	if (strncmp(path, nv_dir(), n) == 0 && below(path + n, "/sys"))
		memmove(path, path + n, strlen(path + n) + 1);
}
