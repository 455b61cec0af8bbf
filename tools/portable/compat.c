/* compat.c: what the release's shared libraries and its dynamic program call that glibc had not yet
 * at the floor of tools/portable/floor.py, in the terms of what it had. Hidden: each file that is
 * linked has its own. Compiled without the headers that declare these functions where they would be
 * inlined or renamed. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define HIDDEN __attribute__((visibility("hidden")))
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

struct stat;

/* glibc 2.33 made functions of the calls that named the layout of the structure. */
#ifdef __x86_64__
enum { STAT_LAYOUT = 1 };
#else
enum { STAT_LAYOUT = 0 };
#endif
extern int __xstat(int, const char *, struct stat *), __lxstat(int, const char *, struct stat *),
	__fxstat(int, int, struct stat *), __fxstatat(int, int, const char *, struct stat *, int);

HIDDEN int stat(const char *path, struct stat *out) {
	return __xstat(STAT_LAYOUT, path, out);
}

HIDDEN int lstat(const char *path, struct stat *out) {
	return __lxstat(STAT_LAYOUT, path, out);
}

HIDDEN int fstat(int fd, struct stat *out) {
	return __fxstat(STAT_LAYOUT, fd, out);
}

HIDDEN int fstatat(int fd, const char *path, struct stat *out, int flags) {
	return __fxstatat(STAT_LAYOUT, fd, path, out, flags);
}

/* The same on 64 bits. */
HIDDEN int stat64(const char *, struct stat *) __attribute__((alias("stat")));
HIDDEN int lstat64(const char *, struct stat *) __attribute__((alias("lstat")));
HIDDEN int fstat64(int, struct stat *) __attribute__((alias("fstat")));

/* 2.28. */
HIDDEN int fcntl64(int fd, int command, ...) {
	va_list list;
	va_start(list, command);
	void *argument = va_arg(list, void *);
	va_end(list);
	return fcntl(fd, command, argument);
}

/* 2.25, 2.36; Linux 3.17. */
HIDDEN ssize_t getrandom(void *out, size_t size, unsigned flags) {
	return syscall(SYS_getrandom, out, size, flags);
}

HIDDEN void arc4random_buf(void *out, size_t size) {
	char *at = out;
	while (size) {
		size_t most = size < 256 ? size : 256;
		ssize_t got = getrandom(at, most, 0);
		if (got < 0 && errno == EINTR) continue;
		int file = got < 0 ? open("/dev/urandom", O_RDONLY | O_CLOEXEC) : -1;
		if (file >= 0) {
			got = read(file, at, most);
			close(file);
		}
		if (got <= 0) abort();
		at += got;
		size -= (size_t)got;
	}
}

/* 2.26; Linux 4.6, with whose errors it ends before. The offset is two words, the higher one
 * without meaning on 64 bits. */
HIDDEN ssize_t preadv2(int fd, const struct iovec *parts, int count, off_t at, int flags) {
	return syscall(SYS_preadv2, fd, parts, count, at, 0, flags);
}
