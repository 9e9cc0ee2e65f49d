/*
 * Calls the driver that it finds, and prints what cuInit returns: 0 of emulated GPUs.
 *
 *   own                    the library with which it is linked, if it is compiled with LINKED
 *   own NAME               the library that dlopen finds by a name
 *   own NAME DIRECTORY     the same, after the directory was added to LD_LIBRARY_PATH
 *   own NAME DIRECTORY 1   the same, by another process
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int cuInit(unsigned flags);

static void add_directory(const char *directory) {
	char path[4096];
	const char *before = getenv("LD_LIBRARY_PATH");
	snprintf(path, sizeof path, "%s:%s", directory, before ? before : "");
	setenv("LD_LIBRARY_PATH", path, 1);
}

int main(int argc, char **argv) {
	int (*init)(unsigned);
#ifndef LINKED
	void *library;
#endif
	if (argc > 2)
		add_directory(argv[2]);
	if (argc > 3) {
		execl(argv[0], argv[0], argv[1], NULL);
		return 2;
	}
#ifdef LINKED
	init = cuInit;
#else
	library = dlopen(argv[1], RTLD_NOW);
	if (!library) {
		printf("%s\n", dlerror());
		return 2;
	}
	init = (int (*)(unsigned))dlsym(library, "cuInit");
#endif
	printf("cuInit: %d\n", init ? init(0) : -1);
	return 0;
}
