/*
 * An auditing library of the loader (rtld-audit(7)), which nicless run --gpu names in LD_AUDIT. Wherever a
 * program wants CUDA's libraries to be from, by RPATH or by a path, it gets those that are beside this file.
 * A library that is loaded by another name in spite of that is named on stderr: the program does not find
 * emulated GPUs by it.
 *
 * The loader runs this in a name space of its own, before the program, and calls it with its lock held.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

#define API __attribute__((visibility("default")))

/*
 * The libraries, and how the names begin that mean them: a version may have more parts, and none is needed
 * where there is one only.
 */
static struct library {
	const char *begin, *name;
	char path[PATH_MAX];
} libraries[] = {
	{"libcuda.so", "libcuda.so.1", ""},
	{"libnvidia-ml.so", "libnvidia-ml.so.1", ""},
	{"libcudart.so.11.0", "libcudart.so.11.0", ""},
	{"libcudart.so.12", "libcudart.so.12", ""},
	{"libcudart.so.13", "libcudart.so.13", ""},
};
enum { LIBRARIES = sizeof libraries / sizeof *libraries };

static const char *directory; /* of this library, and of those */
static size_t directory_length;

static const char *base(const char *path) {
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

static int means(const struct library *l, const char *name) {
	size_t n = strlen(l->begin);
	return !strncmp(name, l->begin, n) && (name[n] == 0 || name[n] == '.');
}

static const struct library *find(const char *name) {
	for (int k = 0; k < LIBRARIES; k++)
		if (libraries[k].path[0] && means(&libraries[k], name))
			return &libraries[k];
	return NULL;
}

API unsigned la_version(unsigned version) {
	Dl_info self;
	if (!dladdr((void *)la_version, &self) || !strchr(self.dli_fname, '/'))
		return 0; /* this library does nothing */
	directory = self.dli_fname;
	directory_length = (size_t)(base(directory) - directory);
	for (int k = 0; k < LIBRARIES; k++) {
		struct library *l = &libraries[k];
		int n = snprintf(l->path, sizeof l->path, "%.*s%s", (int)directory_length, directory, l->name);
		if (n >= (int)sizeof l->path)
			l->path[0] = 0;
	}
	return version < LAV_CURRENT ? version : LAV_CURRENT;
}

API char *la_objsearch(const char *name, uintptr_t *cookie, unsigned flag) {
	const struct library *l = flag == LA_SER_ORIG ? find(base(name)) : NULL;
	(void)cookie;
	return (char *)(l ? l->path : name);
}

/* Returns the name by which an object wants to be known, or NULL. */
static const char *soname(const struct link_map *m) {
	uintptr_t strings = 0, at = 0;
	for (const ElfW(Dyn) *d = m->l_ld; d && d->d_tag != DT_NULL; d++) {
		if (d->d_tag == DT_STRTAB)
			strings = d->d_un.d_ptr;
		else if (d->d_tag == DT_SONAME)
			at = d->d_un.d_val + 1;
	}
	if (!strings || !at)
		return NULL;
	if (strings < m->l_addr) /* the loader does not relocate it in memory that cannot be written */
		strings += m->l_addr;
	return (const char *)(strings + at - 1);
}

static int is_cuda(const char *name) {
	static const char *const begins[] = {"libcuda.so", "libcudart.so", "libnvidia-ml.so"};
	for (int k = 0; k < (int)(sizeof begins / sizeof *begins); k++)
		if (!strncmp(name, begins[k], strlen(begins[k])))
			return 1;
	return 0;
}

API unsigned la_objopen(struct link_map *m, Lmid_t space, uintptr_t *cookie) {
	const char *name = m->l_name && m->l_name[0] ? soname(m) : NULL;
	(void)space; (void)cookie;
	if (name && is_cuda(name) && strncmp(m->l_name, directory, directory_length))
		fprintf(stderr,
		        "nicless: GPU: the program has loaded %s, which is %s, but not that of the emulated GPUs: let it "
		        "open the library by its own name; there are libcuda.so.1, libnvidia-ml.so.1, and "
		        "libcudart.so.11.0, .12 and .13\n", m->l_name, name);
	return 0; /* calls of functions are not audited */
}
