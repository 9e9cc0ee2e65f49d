/* Paths that lead to devices. The directory of the server has a tree like the one below
 * /sys, and one like /dev. Paths of programs are redirected to them:
 *
 *   /sys/class/infiniband, infiniband_verbs, infiniband_mad, misc/rdma_cm, and everything below
 *   them: always
 *   other paths in /sys: only if they exist in the tree and not in /sys (the PCI functions to
 *   which links point). But never directories that list all PCI functions: programs that read
 *   such a list expect more files than the tree has
 * Every network namespace has such a tree, because the GIDs in it are those of the namespace.
 *
 *   /dev/infiniband: always. uverbsN, umadN, issmN and rdma_cm are there files with the device's number
 *
 * A relative path is redirected if it leads there from the kernel's /sys or /dev. In a directory
 * of the tree the kernel follows relative paths itself, because the tree consists of ordinary
 * files and links; only device files, which the kernel does not know, are found here.
 *
 * Results that are paths, of realpath or getcwd for example, are changed back (nv_unfind). */
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

static const char *const classes[] = {"/sys/class/infiniband", "/sys/class/infiniband_verbs",
	"/sys/class/infiniband_mad", "/sys/class/misc/rdma_cm"};
static const char dev_rdma[] = "/dev/infiniband";

/* Returns the rest of path after prefix if path is prefix or below it, else NULL. */
static const char *below(const char *path, const char *prefix) {
	size_t n = strlen(prefix);
	if (strncmp(path, prefix, n) != 0 || (path[n] != '\0' && path[n] != '/'))
		return NULL;
	return path + n;
}

/* Returns the N after the prefix, or -1. */
static int64_t numbered(const char *rest, const char *prefix) {
	const char *digits = rest + strlen(prefix);
	int64_t n = 0;
	size_t i;
	if (strncmp(rest, prefix, strlen(prefix)) != 0 || digits[0] == '\0' || (digits[0] == '0' && digits[1]))
		return -1;
	for (i = 0; digits[i]; i++) {
		if (digits[i] < '0' || digits[i] > '9' || i == 9)
			return -1;
		n = 10 * n + (digits[i] - '0');
	}
	return n;
}

/* Returns the N of "/uverbsN", NV_CHANNEL for "/rdma_cm", NV_MAD and the minor number for "/umadN" and
 * "/issmN", or -1. */
static int64_t number(const char *rest) {
	enum { PORTS = 64 }; /* the minor numbers of issm come after so many of umad */
	int64_t n = numbered(rest, "/umad");
	if (strcmp(rest, "/rdma_cm") == 0)
		return NV_CHANNEL;
	if (n >= 0)
		return n < PORTS ? NV_MAD + n : -1;
	n = numbered(rest, "/issm");
	if (n >= 0)
		return n < PORTS ? NV_MAD + PORTS + n : -1;
	return numbered(rest, "/uverbs");
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

/* Puts the path of a file below a directory into the place. */
static bool put_below(const char *root, struct nv_place *place, const char *path) {
	int n = snprintf(place->room, sizeof place->room, "%s%s", root, path);
	return n >= 0 && (size_t)n < sizeof place->room;
}

static bool put(struct nv_place *place, const char *path) {
	char root[NV_PATH];
	return nv_root(root) && put_below(root, place, path);
}

/* Reports whether the server's own tree has the path, without asking the server anything. Many programs
 * look for other files in /sys. The names of interfaces are not in that tree, only their directory. */
static bool maybe(const char *path, struct nv_place *place) {
	char *net;
	if (!put_below(nv_dir(), place, path))
		return false;
	net = strstr(place->room + strlen(nv_dir()), "/net/");
	if (net)
		net[strlen("/net")] = 0;
	return exists(place->room);
}

/* Reports whether a path in /sys is below a class of RDMA devices. */
static bool of_rdma(const char *path) {
	size_t i;
	for (i = 0; i < sizeof classes / sizeof *classes; i++)
		if (below(path, classes[i]))
			return true;
	return false;
}

/* Reports whether a path is below a directory that lists all devices of a kind, and names no device.
 * The names of devices contain colons there. */
static bool is_list(const char *path) {
	return (below(path, "/sys/bus") || below(path, "/sys/dev")) && !strchr(path, ':');
}

/* Finds an absolute path without "//" and "/./". */
static void find(const char *path, struct nv_place *place) {
	const char *rest;
	bool found = false;
	if (of_rdma(path)) {
		found = put(place, path);
	} else if (below(path, "/sys")) {
		nv_look(path);
		found = !is_list(path) && maybe(path, place) && !exists(path) && put(place, path) &&
			exists(place->room);
	} else if ((rest = below(path, dev_rdma)) != NULL) {
		found = put_below(nv_dir(), place, path);
		place->device = found ? number(rest) : -1;
	}
	if (found)
		place->path = place->room;
}

/* Copies a path without "//" and "/./"; returns false if it is too long. */
static bool tidy(const char *path, char *to) {
	char *end = to;
	for (; *path; path++) {
		if (path[0] == '/' && path[1] == '/')
			continue;
		if (path[0] == '/' && path[1] == '.' && (path[2] == '/' || path[2] == '\0')) {
			path++;
			continue;
		}
		if (end - to >= NV_PATH - 1)
			return false;
		*end++ = *path;
	}
	*end = '\0';
	return true;
}

static bool untidy(const char *path) { return strstr(path, "//") || strstr(path, "/./"); }

/* Reports whether a relative path can lead to a device. */
static bool relevant(const char *path) {
	return strstr(path, "infiniband") || strstr(path, "uverbs") || strstr(path, "rdma_cm") ||
		strstr(path, "umad") || strstr(path, "issm");
}

/* Makes a path absolute that is relative to the directory dir. */
static bool make_absolute(int dir, const char *path, char *to) {
	char link[64];
	int error = errno;
	ssize_t n;
	size_t length = strlen(path);
	if (dir == AT_FDCWD)
		strcpy(link, "/proc/self/cwd");
	else
		snprintf(link, sizeof link, "/proc/self/fd/%d", dir);
	n = NV_SYSCALL(SYS_readlinkat, AT_FDCWD, link, to, NV_PATH - 1);
	errno = error;
	if (n < 0 || (size_t)n + length + 2 > NV_PATH)
		return false;
	to[n] = '\0';
	nv_unfind(to);
	strcat(strcat(to, "/"), path);
	return true;
}

void nv_find_at(int dir, const char *path, struct nv_place *place) {
	char absolute[NV_PATH], clean[NV_PATH];
	place->path = path;
	place->device = -1;
	/* A NULL pointer is left for the kernel to refuse. */
	if ((uintptr_t)path < 4096 || path[0] == '\0' || !nv_dir())
		return;
	if (path[0] != '/') {
		if (!relevant(path) || !make_absolute(dir, path, absolute))
			return;
		path = absolute;
	}
	if (untidy(path)) {
		if (!tidy(path, clean))
			return;
		path = clean;
	}
	if (strncmp(path, "/sys", 4) == 0 || strncmp(path, "/dev/infiniband", 15) == 0)
		find(path, place);
}

void nv_find(const char *path, struct nv_place *place) { nv_find_at(AT_FDCWD, path, place); }

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
	ssize_t n = fd < 0 ? -1 : NV_REAL(read)(fd, text, sizeof text - 1);
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

/* Returns the rest of a path after the directory of the server, or of a namespace in it. */
const char *nv_within(const char *path) {
	static const char net[] = "/net/";
	const char *dir = nv_dir(), *rest = dir && path ? below(path, dir) : NULL;
	if (rest && strncmp(rest, net, sizeof net - 1) == 0)
		rest = strchr(rest + sizeof net - 1, '/');
	return rest;
}

char *nv_unfind(char *path) {
	const char *rest = nv_within(path);
	if (rest && (below(rest, "/sys") || below(rest, "/dev")))
		memmove(path, rest, strlen(rest) + 1);
	return path;
}
