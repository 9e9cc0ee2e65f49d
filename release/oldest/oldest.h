/* Versions of functions of the C library that a release is linked with. Since glibc 2.34 these functions have
 * a second, newer version, which the linker takes if nothing is said, and with which nothing loads on an
 * older glibc. The older version does the same. A release that needs more than glibc 2.31 is refused
 * (package glibc); the name that it reports belongs here.
 *
 * Up to 2.33 the functions named dl* are in libdl.so.2, so a file that is built with this header needs that
 * library too. Newer versions have it, and it is empty there. */
#ifndef NICLESS_RELEASE_OLDEST_H
#define NICLESS_RELEASE_OLDEST_H

#if defined(__x86_64__)
#define NICLESS_OLDEST "GLIBC_2.2.5"
#elif defined(__aarch64__)
#define NICLESS_OLDEST "GLIBC_2.17"
#else
#error "no release is made for this processor"
#endif

__asm__(".symver dlopen, dlopen@" NICLESS_OLDEST);
__asm__(".symver dlsym, dlsym@" NICLESS_OLDEST);
__asm__(".symver dlclose, dlclose@" NICLESS_OLDEST);
__asm__(".symver dlerror, dlerror@" NICLESS_OLDEST);

#endif
