/* The functions that this library wraps, and how to call them without the wrapper. */
#ifndef NICLESS_VERBS_REAL_H
#define NICLESS_VERBS_REAL_H

#include <sys/socket.h>

#define NV_FUNCTIONS(X)                                                                             \
	X(open) X(open64) X(openat) X(openat64)                                                     \
	X(__open_2) X(__open64_2) X(__openat_2) X(__openat64_2)                                     \
	X(fopen) X(fopen64) X(opendir) X(scandir) X(scandir64) X(glob) X(glob64)                    \
	X(stat) X(stat64) X(lstat) X(lstat64) X(fstat) X(fstat64) X(fstatat) X(fstatat64) X(statx)  \
	X(__xstat) X(__xstat64) X(__lxstat) X(__lxstat64) X(__fxstat) X(__fxstat64)                 \
	X(__fxstatat) X(__fxstatat64)                                                               \
	X(access) X(eaccess) X(euidaccess) X(faccessat)                                             \
	X(readlink) X(readlinkat) X(__readlink_chk) X(__readlinkat_chk)                             \
	X(realpath) X(__realpath_chk) X(canonicalize_file_name)                                     \
	X(chdir) X(getcwd) X(__getcwd_chk) X(get_current_dir_name)                                  \
	X(getxattr) X(lgetxattr) X(listxattr) X(llistxattr)                                         \
	X(ioctl) X(mmap) X(mmap64) X(syscall) X(write) X(read) X(__read_chk)                        \
	X(socket) X(bind) X(connect) X(getsockname) X(getpeername) X(getsockopt) X(setsockopt)      \
	X(sendto) X(sendmsg) X(recvfrom) X(__recvfrom_chk) X(recvmsg)                               \
	X(madvise) X(mremap) X(_Fork) X(clone)

enum nv_function {
#define NV_ENUM(name) NV_FN_##name,
	NV_FUNCTIONS(NV_ENUM)
#undef NV_ENUM
	    NV_FN_COUNT
};

typedef void (*nv_any_function)(void);

/* Returns the function of that name that would be called without this library. */
nv_any_function nv_real(enum nv_function which);

#define NV_REAL(name) ((__typeof__(&(name)))nv_real(NV_FN_##name))

#define NV_SYSCALL NV_REAL(syscall)

/* The same for functions that the C library's headers declare with a union of pointers to addresses, which
 * standard C does not know. */
typedef int nv_plain_bind(int, const struct sockaddr *, socklen_t);
typedef nv_plain_bind nv_plain_connect;
typedef int nv_plain_getsockname(int, struct sockaddr *, socklen_t *);
typedef nv_plain_getsockname nv_plain_getpeername;
typedef ssize_t nv_plain_sendto(int, const void *, size_t, int, const struct sockaddr *, socklen_t);
typedef ssize_t nv_plain_recvfrom(int, void *, size_t, int, struct sockaddr *, socklen_t *);
typedef ssize_t nv_plain___recvfrom_chk(int, void *, size_t, size_t, int, struct sockaddr *, socklen_t *);

#define NV_PLAIN(name) ((nv_plain_##name *)nv_real(NV_FN_##name))

#endif
