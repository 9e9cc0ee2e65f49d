/* Opens a device, asks it by ioctl, maps it, copies its descriptor and passes it on. */
#include "try.h"

#include <dirent.h>
#include <dlfcn.h>

#include "forbid.h"

#if defined(__x86_64__)
enum { STAT_VERSION = 1 };
#else
enum { STAT_VERSION = 0 };
#endif

static int descriptors(void) {
	DIR *d = opendir("/proc/self/fd");
	int n = 0;
	TRY(d != NULL);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

/* Programs that were linked before glibc 2.33 call these functions in place of stat. */
static void old_stat(int fd) {
	static const char *const names[] = {"__fxstat", "__fxstat64", "__xstat", "__lxstat64", "__fxstatat"};
	struct stat st;
	size_t i;
	for (i = 0; i < sizeof names / sizeof *names; i++) {
		void *symbol = dlsym(RTLD_DEFAULT, names[i]);
		int (*of_fd)(int, int, struct stat *);
		int (*of_path)(int, const char *, struct stat *);
		int (*at)(int, int, const char *, struct stat *, int);
		memcpy(&of_fd, &symbol, sizeof symbol);
		memcpy(&of_path, &symbol, sizeof symbol);
		memcpy(&at, &symbol, sizeof symbol);
		memset(&st, 0, sizeof st);
		TRY(symbol != NULL);
		if (i < 2)
			TRY(of_fd(STAT_VERSION, fd, &st) == 0 && is_device(&st));
		else if (i < 4)
			TRY(of_path(STAT_VERSION, DEVICE, &st) == 0 && is_device(&st));
		else
			TRY(at(STAT_VERSION, fd, "", &st, AT_EMPTY_PATH) == 0 && is_device(&st));
	}
}

static void opened(void) {
	volatile int flags = O_RDWR; /* not a constant, so that the compiler calls the checked open */
	struct stat st;
	struct statx sx;
	int fd = open(DEVICE, O_RDWR | O_CLOEXEC), other;
	TRY(fd >= 0);
	TRY(fcntl(fd, F_GETFD) == FD_CLOEXEC);
	TRY(fstat(fd, &st) == 0 && is_device(&st));
	TRY(fstatat(fd, "", &st, AT_EMPTY_PATH) == 0 && is_device(&st));
	TRY(statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &sx) == 0 && S_ISCHR(sx.stx_mode) &&
	    sx.stx_rdev_major == 231 && sx.stx_rdev_minor == 192);
	old_stat(fd);
	other = openat(AT_FDCWD, DEVICE, flags);
	TRY(other >= 0 && fcntl(other, F_GETFD) == 0);
	close(other);
	other = open(DEVICE, flags | O_NONBLOCK);
	TRY(other >= 0 && (fcntl(other, F_GETFL) & O_NONBLOCK));
	close(other);
	other = open64(DEVICE, O_RDWR);
	TRY(other >= 0);
	while (count(fd, 1) != 2) /* the server notices a close only some time later */
		usleep(100);
	close(other);
	while (count(fd, 1) != 1)
		usleep(100);
	close(fd);
	FAILS(ENXIO, open("/dev/infiniband/uverbs7", O_RDWR));
	FAILS(ENOTDIR, open(DEVICE, O_RDWR | O_DIRECTORY));
	TRY(open("/dev/infiniband/uverbs01", O_RDWR) == -1 && errno == ENOENT); /* no such name */
}

static void asked(void) {
	struct request r;
	char text[8] = "", bytes[16];
	int fd = open(DEVICE, O_RDWR | O_CLOEXEC), got, before;
	struct stat st;
	TRY(reverse(fd, 1) == 1 && reverse(fd, 2) == 2);
	before = descriptors();

	begin(&r, PIPE);
	attr(&r, 0, 0);
	TRY(call(fd, &r) == 0);
	got = (int)r.attrs[0].data;
	TRY(read(got, text, 4) == 4 && strcmp(text, "pipe") == 0);
	TRY(fcntl(got, F_GETFD) == FD_CLOEXEC);
	close(got);

	begin(&r, PIPE_INSIDE);
	attr(&r, sizeof bytes, address(bytes));
	TRY(call(fd, &r) == 0);
	memcpy(&got, bytes + 4, sizeof got);
	TRY(read(got, text, 4) == 4 && strcmp(text, "pipe") == 0);
	close(got);

	begin(&r, INODE);
	attr(&r, 0, 1);
	attr(&r, 8, 0);
	TRY(call(fd, &r) == 0 && fstat(1, &st) == 0 && r.attrs[1].data == st.st_ino);
	begin(&r, INODE);
	attr(&r, 0, 0xffffffff);
	attr(&r, 8, 0);
	TRY(call(fd, &r) == 0 && r.attrs[1].data >> 32 == EBADF);

	begin(&r, ERRNO);
	attr(&r, 8, ENOSPC);
	FAILS(ENOSPC, call(fd, &r));
	begin(&r, ENDLESS);
	FAILS(EPROTO, call(fd, &r));
	begin(&r, TOO_LONG);
	attr(&r, sizeof bytes, address(bytes));
	FAILS(EPROTO, call(fd, &r));
	TRY(descriptors() == before);
	close(fd);
}

/* Calls work where process_vm_readv and process_vm_writev are forbidden, as in some containers. */
static void forbidden(void) {
	int fd = open(DEVICE, O_RDWR);
	forbid(SYS_process_vm_readv, SYS_process_vm_writev);
	TRY(reverse(fd, 1) == 1 && reverse(fd, 2) == 2);
	close(fd);
}

static void errno_stays(void) {
	struct request r;
	int fd = open(DEVICE, O_RDWR);
	begin(&r, PIPE);
	attr(&r, 0, 0);
	errno = ERANGE;
	if (call(fd, &r) != 0 || errno != ERANGE)
		TRY(!"errno was changed");
	close((int)r.attrs[0].data);
	close(fd);
}

static void strangers(void) {
	struct request r;
	struct stat st;
	int pair[2], fd = open(DEVICE, O_RDWR), null = open("/dev/null", O_RDWR),
		inet = socket(AF_INET, SOCK_STREAM, 0);
	begin(&r, REVERSE);
	TRY(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) == 0);
	FAILS(ENOTTY, call(pair[0], &r));
	FAILS(ENOTTY, call(null, &r));
	FAILS(ENOTTY, call(inet, &r));
	FAILS(EBADF, call(-1, &r));
	FAILS(ENOTTY, ioctl(fd, 0x5401, r.room)); /* TCGETS */
	TRY(fstat(pair[0], &st) == 0 && S_ISSOCK(st.st_mode));
	TRY(fstat(null, &st) == 0 && st.st_rdev == makedev(1, 3));
	close(pair[0]);
	close(pair[1]);
	close(null);
	close(inet);
	close(fd);
}

static void bad_pointers(void) {
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char bytes[40];
	struct request r;
	int fd = open(DEVICE, O_RDWR), before;
	TRY(pages != MAP_FAILED && mprotect(pages + page, page, PROT_NONE) == 0);
	FAILS(EFAULT, ioctl(fd, RDMA_VERBS_IOCTL, NULL));
	FAILS(EFAULT, ioctl(fd, RDMA_VERBS_IOCTL, (void *)8));
	FAILS(EFAULT, ioctl(fd, RDMA_VERBS_IOCTL, pages + page - 16)); /* the memory ends inside the header */
	begin(&r, REVERSE);
	attr(&r, 40, 0);
	memcpy(pages + page - 24, r.room, 24);
	/* The memory ends right after the header. */
	FAILS(EFAULT, ioctl(fd, RDMA_VERBS_IOCTL, pages + page - 24));

	begin(&r, REVERSE); /* the server needs these bytes */
	attr(&r, 40, address(pages + page - 8));
	attr(&r, 40, address(bytes));
	attr(&r, 8, 0);
	FAILS(EFAULT, call(fd, &r));
	begin(&r, REVERSE); /* the server does not need these bytes, but the answer cannot be written to them */
	attr(&r, 40, address(bytes));
	attr(&r, 40, address(pages + page - 8));
	attr(&r, 8, 0);
	FAILS(EFAULT, call(fd, &r));
	TRY(mprotect(pages, page, PROT_READ) == 0);
	r.attrs[1].data = address(pages);
	FAILS(EFAULT, call(fd, &r));

	before = descriptors();
	begin(&r, PIPE_INSIDE); /* a descriptor whose number cannot be written is closed */
	attr(&r, 16, address(pages));
	FAILS(EFAULT, call(fd, &r));
	TRY(descriptors() == before);

	begin(&r, REVERSE);
	r.hdr->length++;
	FAILS(EINVAL, call(fd, &r));
	r.hdr->num_attrs = 300;
	r.hdr->length = 24 + 300 * 16;
	FAILS(EINVAL, call(fd, &r));
	TRY(reverse(fd, 9) > 0);
	close(fd);
}

static void mapped(void) {
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	int fd = open(DEVICE, O_RDWR);
	uint64_t *at, *fixed;
	at = mmap(NULL, 2 * page - 100, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0x10000);
	TRY(at != MAP_FAILED && at[0] == 0x10000); /* the fake server writes the offset there */
	at[1] = 77;
	at[page / 8] = 78;
	TRY(peek(fd, 8) == 77 && peek(fd, page) == 78);
	fixed = mmap(at, page, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0x20000);
	TRY(fixed == at && at[0] == 0x20000 && at[page / 8] == 78);
	TRY(mmap(NULL, page, PROT_READ, MAP_SHARED, fd, 0x666000) == MAP_FAILED && errno == EINVAL);
	TRY(munmap(at, 2 * page) == 0);
	TRY(mmap(NULL, 0, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED && errno == EINVAL);
	TRY(mmap(NULL, (size_t)-1, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED && errno == EINVAL);
	TRY(mmap(NULL, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED);
	close(fd);
}

static uint64_t *map_page(int fd, uint64_t offset) {
	uint64_t *at = mmap(NULL, (size_t)sysconf(_SC_PAGESIZE), PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)offset);
	TRY(at != MAP_FAILED);
	return at;
}

/* The fake server gives two pages in advance. It writes the offset where it has served a request. */
static void rests(void) {
	size_t page = (size_t)sysconf(_SC_PAGESIZE), words = page / 8;
	int fd = open(DEVICE, O_RDWR), other = open(DEVICE, O_RDWR);
	uint64_t *at = map_page(fd, 0x10000), *next = map_page(fd, 0x11000), *last;
	TRY(at[0] == 0x10000 && next == at - words && next[0] == 0);
	next[1] = 5;
	TRY(peek(fd, 8 - page) == 5); /* from the first mapping on */
	TRY(map_page(other, 0x10000)[0] == 0x10000); /* of another context */
	TRY(map_page(fd, 0x210000)[0] == 0x210000);  /* memory of another kind */
	TRY(mmap(next, page, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0x20000) == next && next[0] == 0x20000);
	last = map_page(fd, 0x10000);
	TRY(last == at - 2 * words && last[0] == 0);
	TRY(map_page(fd, 0x12000)[0] == 0x12000); /* all was used */
	last = mmap(NULL, 3 * page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0x13000);
	TRY(last != MAP_FAILED && last[0] == 0x13000); /* too long for the rest */
	close(fd);
	close(other);
}

/* A thread that uses memory waits while a hole is punched into the memory, so punching holes
 * must be forbidden. */
static void sealed(void) {
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	int fd = open(DEVICE, O_RDWR);
	uint64_t *at = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0x10000);
	TRY(at != MAP_FAILED && at[0] == 0x10000);
	FAILS(EPERM, madvise(at, page, MADV_REMOVE));
	at = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0x1001000);
	TRY(at != MAP_FAILED);
	FAILS(EPERM, madvise(at, page, MADV_REMOVE));
	close(fd);
}

static int mappings(void) {
	char line[512];
	int n = 0;
	FILE *f = fopen("/proc/self/maps", "r");
	TRY(f != NULL);
	while (fgets(line, sizeof line, f))
		n += strstr(line, "memfd:") != NULL;
	fclose(f);
	return n;
}

/* UAR pages are mapped one by one, at any time, although their memory is sealed. */
static void registers(void) {
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	int fd = open(DEVICE, O_RDWR), i, other, had;
	uint64_t *one, *two, *again, *fixed;
	pid_t child;
	one = mmap(NULL, page, PROT_WRITE, MAP_SHARED, fd, 0x1001000);
	TRY(one != MAP_FAILED);
	one[1] = 11;
	TRY(peek(fd, page + 8) == 11);
	two = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0x1003000);
	TRY(two != MAP_FAILED && two != one);
	two[1] = 22;
	TRY(peek(fd, 3 * page + 8) == 22 && peek(fd, page + 8) == 11);
	TRY(munmap(one, page) == 0);
	again = mmap(NULL, page, PROT_READ, MAP_SHARED, fd, 0x1001000);
	TRY(again != MAP_FAILED && again[1] == 11);
	fixed = mmap(two, page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0x1000000);
	TRY(fixed == two && fixed[1] == 0);
	fixed[1] = 33;
	TRY(peek(fd, 8) == 33 && peek(fd, 3 * page + 8) == 22);
	/* There are only four pages. */
	TRY(mmap(NULL, page, PROT_READ, MAP_SHARED, fd, 0x1004000) == MAP_FAILED && errno == EPROTO);
	child = fork(); /* the child inherits the program's pages, as for a real device */
	TRY(child >= 0);
	if (child == 0) {
		TRY(fixed[1] == 33 && mappings() == 2);
		_exit(0);
	}
	join(child);

	for (i = 0, had = 0; i < 10; i++) { /* the library unmaps the pages of closed contexts */
		other = open(DEVICE, O_RDWR);
		one = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, other, 0x1001000);
		TRY(one != MAP_FAILED && munmap(one, page) == 0);
		if (i == 1)
			had = mappings();
		close(other);
		while (count(fd, 1) != 1)
			usleep(100);
	}
	TRY(mappings() <= had);
	TRY(peek(fd, 8) == 33);
	again = mmap(NULL, page, PROT_READ, MAP_SHARED, fd, 0x1000000);
	TRY(again != MAP_FAILED && again[1] == 33);
	close(fd);
}

/* A copy of a descriptor is known in this process, so the server is not asked about it. */
static void copied(void) {
	struct stat st;
	int fd = open(DEVICE, O_RDWR), copy = dup(fd), high = fcntl(fd, F_DUPFD, 100), pair[2], got;
	TRY(reverse(copy, 1) == 1 && reverse(high, 2) == 2);
	TRY(fstat(copy, &st) == 0 && is_device(&st));
	TRY(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
	pass(pair[0], fd);
	got = passed(pair[1]);
	close(fd);
	close(copy);
	TRY(reverse(got, 3) == 3 && reverse(high, 4) == 4);
	TRY(count(high, 0) == 0);
	close(got);
	close(high);
}

/* Another program uses the device with a descriptor that it has inherited by exec, and with
 * one that was passed to it over a socket. It sends each of them to the server only once. */
static void handed_on(char *self) {
	int fd = open(DEVICE, O_RDWR), closed = open(DEVICE, O_RDWR | O_CLOEXEC), pair[2];
	char a[16], b[16], c[16];
	pid_t child;
	TRY(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
	snprintf(a, sizeof a, "%d", fd);
	snprintf(b, sizeof b, "%d", closed);
	snprintf(c, sizeof c, "%d", pair[1]);
	pass(pair[0], closed);
	child = fork();
	TRY(child >= 0);
	if (child == 0) {
		execl(self, self, "heir", a, b, c, (char *)NULL);
		_exit(2);
	}
	join(child);
	TRY(reverse(fd, 1) == 3);
	close(fd);
	close(closed);
}

static void heir(int fd, int closed, int through) {
	struct stat st;
	int got;
	FAILS(EBADF, fcntl(closed, F_GETFD));
	TRY(reverse(fd, 5) == 1);
	TRY(fstat(fd, &st) == 0 && is_device(&st));
	got = passed(through);
	TRY(reverse(got, 6) == 1);
	TRY(reverse(fd, 7) == 2);
	TRY(count(fd, 0) == 2);
}

int main(int argc, char **argv) {
	const char *what = argc > 1 ? argv[1] : "";
	if (strcmp(what, "opened") == 0)
		opened();
	else if (strcmp(what, "asked") == 0)
		asked(), errno_stays();
	else if (strcmp(what, "forbidden") == 0)
		forbidden();
	else if (strcmp(what, "strangers") == 0)
		strangers();
	else if (strcmp(what, "pointers") == 0)
		bad_pointers();
	else if (strcmp(what, "mapped") == 0)
		mapped();
	else if (strcmp(what, "rests") == 0)
		rests();
	else if (strcmp(what, "sealed") == 0)
		sealed();
	else if (strcmp(what, "registers") == 0)
		registers();
	else if (strcmp(what, "copied") == 0)
		copied();
	else if (strcmp(what, "handed-on") == 0)
		handed_on(argv[0]);
	else if (strcmp(what, "heir") == 0 && argc == 5)
		heir(atoi(argv[2]), atoi(argv[3]), atoi(argv[4]));
	else
		TRY(!"a scenario");
	return 0;
}
