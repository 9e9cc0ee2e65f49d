/* The mappings of this process. The kernel answers for one address (PROCMAP_QUERY, Linux 6.11);
 * before that, the text of the file is read. Nothing here allocates memory or takes a lock, so
 * that a child can use it right after a fork. */
#include "shim.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "real.h"

/* struct procmap_query of linux/fs.h, which older headers lack. */
struct query {
	uint64_t size, query_flags, query_addr;
	uint64_t start, end, flags, page_size, offset, inode;
	uint32_t dev_major, dev_minor, name_size, build_id_size;
	uint64_t name_addr, build_id_addr;
};
#define QUERY _IOWR('f', 17, struct query)
enum { COVERING_OR_NEXT = 0x10 };

/* Memory that nv_remap has mapped has this name, then " (deleted)". */
static const char ours[] = "/memfd:nicless:verbs-remap";

/* All memory that server and engine have made has a name that begins so. */
enum { SERVED = sizeof "/memfd:nicless:" - 1 };

int nv_maps_open(struct nv_maps *m) {
	memset(m, 0, offsetof(struct nv_maps, text));
	m->fd = (int)NV_SYSCALL(SYS_openat, AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC);
	m->queries = true;
	return m->fd < 0 ? errno : 0;
}

void nv_maps_close(struct nv_maps *m) { NV_SYSCALL(SYS_close, m->fd); }

/* Mappings of huge pages (MAP_ANONYMOUS | MAP_HUGETLB) have this name, and the same at the end. */
static const char huge[] = "/anon_hugepage";

static bool is_huge(const char *name) { return strncmp(name, huge, sizeof huge - 1) == 0; }

static bool is_ours(const char *name) { return strncmp(name, ours, sizeof ours - 1) == 0; }

static bool is_served(const char *name) { return strncmp(name, ours, SERVED) == 0; }

static int query(struct nv_maps *m, uint64_t addr, struct nv_mapping *v) {
	char name[sizeof ours + 16]; /* of a longer name the kernel gives nothing but ENAMETOOLONG */
	struct query q;
	memset(&q, 0, sizeof q);
	q.size = sizeof q;
	q.query_addr = addr;
	q.query_flags = COVERING_OR_NEXT;
	q.name_addr = (uint64_t)(uintptr_t)name;
	q.name_size = sizeof name;
	name[0] = 0;
	if (NV_SYSCALL(SYS_ioctl, m->fd, QUERY, &q) != 0) {
		if (errno != ENAMETOOLONG)
			return errno;
		q.name_addr = q.name_size = 0;
		name[0] = 0;
		if (NV_SYSCALL(SYS_ioctl, m->fd, QUERY, &q) != 0)
			return errno;
	}
	v->start = q.start;
	v->end = q.end;
	v->prot = (int)(q.flags & 7); /* read, write and execute have the values of PROT_* */
	v->shared = q.flags & 8;
	v->file = q.inode != 0;
	v->ours = v->shared && is_ours(name);
	v->served = v->shared && is_served(name);
	v->huge = !v->shared && is_huge(name);
	return 0;
}

/* Returns the next row of the text, which ends with a zero in place of its newline; NULL at
 * the end. A row that is longer than the room is cut: only its first part is needed. */
static char *row(struct nv_maps *m) {
	bool cut = false;
	for (;;) {
		char *at = m->text + m->begin, *newline = memchr(at, '\n', m->end - m->begin);
		ssize_t n;
		if (newline) {
			*newline = 0;
			m->begin = (size_t)(newline + 1 - m->text);
			if (!cut)
				return at;
			cut = false; /* that was the rest of a row that was too long: the row is ignored */
			continue;
		}
		if (m->begin == 0 && m->end == sizeof m->text) {
			m->end = 0;
			cut = true;
		}
		memmove(m->text, m->text + m->begin, m->end - m->begin);
		m->end -= m->begin;
		m->begin = 0;
		n = NV_REAL(read)(m->fd, m->text + m->end, sizeof m->text - m->end);
		if (n <= 0)
			return NULL;
		m->end += (size_t)n;
	}
}

static uint64_t hex(char **at) {
	uint64_t v = 0;
	for (;; (*at)++) {
		char c = **at;
		if (c >= '0' && c <= '9')
			v = v * 16 + (uint64_t)(c - '0');
		else if (c >= 'a' && c <= 'f')
			v = v * 16 + (uint64_t)(c - 'a' + 10);
		else
			return v;
	}
}

/* Parses a row such as
 *
 *	7f6c10000000-7f6c10021000 rw-p 00000000 00:00 0    [stack] */
static bool parse(char *at, struct nv_mapping *v) {
	int fields;
	memset(v, 0, sizeof *v);
	v->start = hex(&at);
	if (*at++ != '-')
		return false;
	v->end = hex(&at);
	if (*at++ != ' ' || strlen(at) < 5)
		return false;
	v->prot = (at[0] == 'r' ? 1 : 0) | (at[1] == 'w' ? 2 : 0) | (at[2] == 'x' ? 4 : 0);
	v->shared = at[3] == 's';
	for (fields = 0; fields < 3; fields++) { /* the offset, the device, the inode number */
		at = strchr(at, ' ');
		if (!at)
			return false;
		at++;
	}
	v->file = *at != '0';
	at = strchr(at, ' ');
	while (at && *at == ' ')
		at++;
	v->ours = at && v->shared && is_ours(at);
	v->served = at && v->shared && is_served(at);
	v->huge = at && !v->shared && is_huge(at);
	return true;
}

int nv_maps_next(struct nv_maps *m, uint64_t addr, struct nv_mapping *v) {
	char *line;
	if (m->queries) {
		int error = query(m, addr, v);
		if (error != ENOTTY && error != EINVAL)
			return error;
		m->queries = false;
	}
	if (addr < m->last) { /* the row has been read already */
		NV_SYSCALL(SYS_lseek, m->fd, 0L, SEEK_SET);
		m->begin = m->end = 0;
	}
	while ((line = row(m)) != NULL)
		if (parse(line, v) && v->end > addr) {
			m->last = v->end;
			return 0;
		}
	m->last = UINT64_MAX;
	return ENOENT;
}

/* Rows of /proc/self/smaps are rows as in maps, each followed by fields of the mapping. */
bool nv_locked(uint64_t addr) {
	struct nv_maps m;
	struct nv_mapping v;
	bool there = false, locked = false;
	char *line;
	memset(&m, 0, offsetof(struct nv_maps, text));
	m.fd = (int)NV_SYSCALL(SYS_openat, AT_FDCWD, "/proc/self/smaps", O_RDONLY | O_CLOEXEC);
	if (m.fd < 0)
		return false;
	while (!locked && (line = row(&m)) != NULL) {
		if (parse(line, &v) && v.end > v.start)
			there = v.start <= addr && addr < v.end;
		else if (there && strncmp(line, "VmFlags:", 8) == 0)
			locked = strstr(line, " lo") != NULL;
	}
	nv_maps_close(&m);
	return locked;
}
