/* Functions that a program of a release has in place of parts of the C library newer than glibc 2.31.
 *
 * The start code that the compiler links in calls __libc_start_main, which has a second version since
 * glibc 2.34. -Wl,--wrap=__libc_start_main lets it call the function below. Newer start code passes no
 * functions init and fini: older versions of glibc then run no constructors of the program, and the
 * programs of a release have none. */
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "oldest.h"

typedef int main_function(int, char **, char **);
typedef void hook(void);

int oldest_start(main_function *, int, char **, hook *, hook *, hook *, void *);
int __wrap___libc_start_main(main_function *, int, char **, hook *, hook *, hook *, void *);

__asm__(".symver oldest_start, __libc_start_main@" NICLESS_OLDEST);

int __wrap___libc_start_main(main_function *f, int argc, char **argv, hook *init, hook *fini, hook *linker,
                             void *stack) {
	return oldest_start(f, argc, argv, init, fini, linker, stack);
}

/* Up to 2.32 fstat was in a part of glibc that is linked into each program. The kernel's structure is
 * the C library's on both processors. */
int fstat(int fd, struct stat *st) { return (int)syscall(SYS_fstat, fd, st); }
