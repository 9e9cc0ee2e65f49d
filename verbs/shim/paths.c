/* Paths that lead to devices. The directory of the server has a tree like the one below
 * /sys. Paths of programs are redirected to this tree:
 *
 *   /sys/class/infiniband, /sys/class/infiniband_verbs, and everything below them: always
 *   other paths in /sys: only if they exist in the tree and not in /sys (devices to which
 *   links point)
 * Every network namespace has such a tree, because the GIDs in it are those of the namespace.
 *
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

void nv_set_root(struct nv_process *p, const char *name) {
	uint32_t now = __atomic_load_n(&p->rooted, __ATOMIC_RELAXED), next = now == 1 ? 2 : 1;
	char *to = p->root[next - 1];
	if (now && strcmp(p->root[now - 1], name) == 0)
		return;
	memset(to, 0, sizeof p->root[0]);
	memcpy(to, name, strnlen(name, sizeof p->root[0] - 1));
	__atomic_store_n(&p->rooted, next, __ATOMIC_RELEASE);
}

/* Asks the server which tree is this process's. Without an answer it is the server's own. */
static void ask_root(void) {
	struct nv_entry entry;
	int error = errno, told;
	struct nv_process *p = nv_enter(&entry);
	if (p) {
		told = nv_connect(p);
		if (told == 0)
			told = nv_tell_addresses(p);
		if (told == EIO && nv_connect(p) == 0) /* there is another server now */
			told = nv_tell_addresses(p);
		if (told)
			nv_set_root(p, "");
		nv_leave(p, &entry, 0);
	}
	errno = error;
}

/* Returns whether the root is known and, as far as one can see, still there. */
static bool root_now(char *root) {
	const struct nv_process *p = nv_peek();
	uint32_t now = p ? __atomic_load_n(&p->rooted, __ATOMIC_ACQUIRE) : 0;
	const char *name = now ? p->root[now - 1] : "";
	snprintf(root, NV_PATH, "%s%s%s", nv_dir(), name[0] ? "/" : "", name);
	return now && (!name[0] || exists(root));
}

bool nv_root(char *root) {
	if (!nv_dir())
		return false;
	if (!root_now(root)) {
		ask_root();
		root_now(root);
	}
	return true;
}

static bool put_below(const char *root, struct nv_place *place, const char *a, const char *b, const char *c) {
	int n = snprintf(place->room, sizeof place->room, "%s%s%s%s", root, a, b, c);
	return n >= 0 && (size_t)n < sizeof place->room;
}

static bool put(struct nv_place *place, const char *a, const char *b, const char *c) {
	char root[NV_PATH];
	return nv_root(root) && put_below(root, place, a, b, c);
}

/* Reports whether the server's own tree has the path, without asking the server anything. Many programs
 * look for other files in /sys. The names of interfaces are not in that tree, only their directory. */
static bool maybe(const char *path, struct nv_place *place) {
	char *net;
	if (!put_below(nv_dir(), place, path, "", ""))
		return false;
	net = strstr(place->room + strlen(nv_dir()), "/net/");
	if (net)
		net[strlen("/net")] = 0;
	return exists(place->room);
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
		found = maybe(path, place) && !exists(path) && put(place, path, "", "") && exists(place->room);
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
	char root[NV_PATH];
	size_t n;
	if (!nv_root(root))
		return;
	n = strlen(root);
	if (strncmp(path, root, n) == 0 && below(path + n, "/sys"))
		memmove(path, path + n, strlen(path + n) + 1);
}
