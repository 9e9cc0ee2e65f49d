/* Names below /sys and /dev/infiniband. */
#include "try.h"

#include <dirent.h>
#include <glob.h>
#include <limits.h>
#include <linux/netlink.h>
#include <sys/xattr.h>

static const char pci[] = "/sys/devices/pci0000:5a/0000:5a:00.0";

static void content(const char *path, const char *want) {
	char line[64] = "";
	FILE *f = fopen(path, "r");
	int fd;
	TRY(f != NULL && fgets(line, sizeof line, f) && strcmp(line, want) == 0);
	fclose(f);
	memset(line, 0, sizeof line);
	fd = open(path, O_RDONLY);
	TRY(fd >= 0 && read(fd, line, sizeof line - 1) > 0 && strcmp(line, want) == 0);
	close(fd);
}

static int any(const struct dirent *d) { return d->d_name[0] != '.'; }

/* Directories of the tree as working directories, and relative paths. */
static void path_functions(void) {
	char path[PATH_MAX], *made;
	volatile size_t room = sizeof path; /* not a constant, so that the compiler calls the checked getcwd */
	struct stat st;
	int sys = open("/sys", O_RDONLY | O_DIRECTORY), dev = open("/dev", O_RDONLY | O_DIRECTORY), nodes, fd;
	TRY(sys >= 0 && dev >= 0);
	TRY(chdir("/sys/class/infiniband/nicless0") == 0);
	TRY(getcwd(path, room) == path && strncmp(path, pci, strlen(pci)) == 0);
	TRY(strcmp(path + strlen(pci), "/infiniband/nicless0") == 0);
	made = get_current_dir_name();
	TRY(made && strcmp(made, path) == 0);
	free(made);
	TRY(access("node_type", R_OK) == 0 && access("../../vendor", R_OK) == 0);
	made = canonicalize_file_name("device");
	TRY(made && strcmp(made, pci) == 0);
	free(made);
	TRY(chdir("/dev/infiniband") == 0 && getcwd(path, sizeof path) && strcmp(path, "/dev/infiniband") == 0);
	TRY(stat("uverbs0", &st) == 0 && is_device(&st));
	TRY(realpath("uverbs0", path) && strcmp(path, DEVICE) == 0);
	TRY(chdir("/dev") == 0 && stat("infiniband/uverbs0", &st) == 0 && is_device(&st));
	TRY(chdir("/") == 0);

	TRY(faccessat(sys, "class/infiniband/nicless0/node_type", R_OK, 0) == 0);
	fd = openat(sys, "class/infiniband", O_RDONLY | O_DIRECTORY);
	TRY(fd >= 0 && faccessat(fd, "nicless0/device/vendor", R_OK, 0) == 0);
	close(fd);
	nodes = openat(dev, "infiniband", O_RDONLY | O_DIRECTORY);
	TRY(nodes >= 0 && fstatat(nodes, "uverbs0", &st, 0) == 0 && is_device(&st));
	FAILS(ENOENT, fstatat(nodes, "uverbs1", &st, 0));
	close(nodes);
	close(sys);
	close(dev);

	content("//sys/class//infiniband/./nicless0/node_type", "1: CA\n");
	TRY(stat("/dev//infiniband/uverbs0", &st) == 0 && is_device(&st));
	TRY(getxattr("/sys/class/infiniband/nicless0", "user.none", path, sizeof path) == -1 && errno != ENOENT);
	TRY(lgetxattr("/sys/class/infiniband/nicless0", "user.none", path, sizeof path) == -1 && errno != ENOENT);
	TRY(listxattr("/sys/class/infiniband/nicless0", path, sizeof path) >= 0);
	TRY(llistxattr(DEVICE, path, sizeof path) >= 0);
	/* Lists of all devices are the kernel's, but names of devices are found. */
	TRY(access("/sys/bus/pci/drivers/nicless", F_OK) == -1);
	TRY(access("/sys/bus/pci/devices/0000:5a:00.0/vendor", F_OK) == 0);
}

static void redirected(void) {
	char path[PATH_MAX], link[PATH_MAX];
	volatile size_t room = sizeof link; /* not a constant, so that the compiler calls the checked readlink */
	struct dirent **list, *d;
	struct stat st;
	struct statx sx;
	glob_t found;
	ssize_t n;
	DIR *dir;
	content("/sys/class/infiniband/nicless0/node_type", "1: CA\n");
	content("/sys/class/infiniband/nicless0/device/vendor", "0x15b3\n");
	content("/sys/class/infiniband_verbs/uverbs0/ibdev", "nicless0\n");

	dir = opendir("/sys/class/infiniband");
	TRY(dir != NULL);
	do
		d = readdir(dir);
	while (d && d->d_name[0] == '.');
	TRY(d && strcmp(d->d_name, "nicless0") == 0);
	TRY(faccessat(dirfd(dir), "nicless0/node_type", R_OK, 0) == 0); /* relative to the opened directory */
	closedir(dir);
	TRY(scandir("/sys/class/infiniband_verbs", &list, any, alphasort) == 2);
	TRY(strcmp(list[0]->d_name, "abi_version") == 0 && strcmp(list[1]->d_name, "uverbs0") == 0);

	TRY(stat("/sys/class/infiniband/nicless0", &st) == 0 && S_ISDIR(st.st_mode));
	TRY(lstat("/sys/class/infiniband/nicless0", &st) == 0 && S_ISLNK(st.st_mode));
	n = readlink("/sys/class/infiniband/nicless0", link, room - 1);
	TRY(n > 0 && strncmp(link, "../../devices/", 14) == 0);
	n = readlinkat(AT_FDCWD, "/sys/class/infiniband/nicless0/device", link, room - 1);
	TRY(n == 5 && memcmp(link, "../..", 5) == 0);
	TRY(realpath("/sys/class/infiniband/nicless0/device", path) == path && strcmp(path, pci) == 0);
	strcat(path, "/vendor"); /* the real path is redirected too */
	content(path, "0x15b3\n");
	TRY(access(path, R_OK) == 0);
	FAILS(ENOENT, access("/sys/class/infiniband/none", F_OK));

	path_functions();
	TRY(glob("/dev/infiniband/*", 0, NULL, &found) == 0 && found.gl_pathc == 1 &&
	    strcmp(found.gl_pathv[0], DEVICE) == 0);
	globfree(&found);
	TRY(glob("/sys/class/infiniband/nicless*/ports/1/gids/[0-9]*", 0, NULL, &found) == 0 &&
	    found.gl_pathc == 2);
	TRY(strcmp(found.gl_pathv[1], "/sys/class/infiniband/nicless0/ports/1/gids/1") == 0);
	TRY(glob("/sys/class/infiniband/*", GLOB_APPEND, NULL, &found) == 0 && found.gl_pathc == 3);
	TRY(strcmp(found.gl_pathv[2], "/sys/class/infiniband/nicless0") == 0);
	globfree(&found);

	TRY(stat(DEVICE, &st) == 0 && is_device(&st));
	TRY(lstat(DEVICE, &st) == 0 && is_device(&st));
	TRY(fstatat(AT_FDCWD, DEVICE, &st, 0) == 0 && is_device(&st));
	TRY(statx(AT_FDCWD, DEVICE, 0, STATX_BASIC_STATS, &sx) == 0 && S_ISCHR(sx.stx_mode) &&
	    sx.stx_rdev_minor == 192);
	TRY(access(DEVICE, R_OK | W_OK) == 0);
	FAILS(EACCES, access(DEVICE, X_OK));
	TRY(realpath(DEVICE, path) == path && strcmp(path, DEVICE) == 0);
	FAILS(ENOENT, stat("/dev/infiniband/uverbs1", &st));
	TRY(stat("/dev/infiniband", &st) == 0 && S_ISDIR(st.st_mode));
	TRY(stat("/dev/infiniband/", &st) == 0 && S_ISDIR(st.st_mode));
	FAILS(EPROTONOSUPPORT, socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_RDMA));
}

/* Other paths are the kernel's. */
static void untouched(void) {
	volatile uintptr_t wild = 8;
	struct stat st, self;
	int fd;
	TRY(stat("/sys/class/net", &st) == 0 || errno == ENOENT);
	TRY(stat("/dev/null", &st) == 0 && st.st_rdev == makedev(1, 3));
	TRY(access("/sys/devices/none", F_OK) == -1 && access("/sys/net/none", F_OK) == -1);
	TRY(access("/sys/class/infiniband_verbsy", F_OK) == -1 && access("/dev/infiniband/uverbsx", F_OK) == -1);
	FAILS(EFAULT, open((const char *)wild, O_RDONLY));
	FAILS(EFAULT, stat((const char *)wild, &st));
	fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	TRY(fd >= 0 && fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode));
	close(fd);
	fd = open("/proc/self/exe", O_RDONLY);
	TRY(fd >= 0 && fstat(fd, &st) == 0 && stat("/proc/self/exe", &self) == 0 && st.st_ino == self.st_ino);
	close(fd);
}

/* Without NICLESS_VERBS no path is redirected. */
static void transparent(void) {
	struct stat st;
	TRY(open(DEVICE, O_RDWR) == -1 && stat(DEVICE, &st) == -1 &&
	    stat("/sys/class/infiniband/nicless0", &st) == -1);
	TRY(getenv("MLX_QP_ALLOC_TYPE") == NULL);
	untouched();
}

int main(int argc, char **argv) {
	const char *what = argc > 1 ? argv[1] : "";
	if (strcmp(what, "redirected") == 0)
		redirected(), untouched();
	else if (strcmp(what, "elsewhere") == 0)
		untouched();
	else if (strcmp(what, "transparent") == 0)
		transparent();
	else if (strcmp(what, "environment") == 0)
		printf("%s %s %s %s\n", getenv("MLX_QP_ALLOC_TYPE"), getenv("MLX_CQ_ALLOC_TYPE"),
		       getenv("MLX_SRQ_ALLOC_TYPE"), getenv("MLX_RWQ_ALLOC_TYPE"));
	else if (strcmp(what, "absent") == 0) {
		FAILS(atoi(argv[2]), open(DEVICE, O_RDWR));
		FAILS(atoi(argv[2]), open(DEVICE, O_RDWR)); /* the error message is printed only once */
	} else
		TRY(!"a scenario");
	return 0;
}
