/* faults.c: preloaded, lets the n-th call of one kind fail in programs named lockstep, and not in
 * those that they start. FAIL_CALL names the kind, FAIL_AT counts from 1, FAIL_CODE is the errno;
 * with FAIL_ON all calls from the n-th on fail. With FAIL_COUNT the calls of each kind are listed
 * on standard error at the end. Calls inside of libc itself are not seen, nor is what is written to
 * standard error, where the fault has to be reported. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
	MEMORY,
	READ,
	WRITE,
	OPEN,
	MMAP,
	FORK,
	THREAD,
	KINDS
};
static const char *const names[KINDS] = {"memory", "read", "write", "open",
                                         "mmap",   "fork", "thread"};
static atomic_long counts[KINDS];
static int failing = -2, code, on;
static long at;

static int fails(int kind) {
	if (failing == -2) {
		const char *name = getenv("FAIL_CALL");
		if (strcmp(program_invocation_short_name, "lockstep") != 0) name = NULL;
		failing = -1;
		for (int i = 0; name && i < KINDS; i++)
			if (strcmp(name, names[i]) == 0) failing = i;
		at = failing >= 0 ? atol(getenv("FAIL_AT")) : 0;
		code = failing >= 0 ? atoi(getenv("FAIL_CODE")) : 0;
		on = getenv("FAIL_ON") != NULL;
	}
	long n = ++counts[kind];
	if (kind != failing || (on ? n < at : n != at)) return 0;
	errno = code;
	return 1;
}

__attribute__((destructor)) static void tell(void) {
	if (!getenv("FAIL_COUNT") || strcmp(program_invocation_short_name, "lockstep") != 0) return;
	for (int i = 0; i < KINDS; i++) dprintf(2, "%ld calls of %s\n", counts[i], names[i]);
}

/* The next library's function of this name. */
#define REAL(result, name, ...)         \
	static result (*real)(__VA_ARGS__); \
	if (!real) real = (result(*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name)

void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
void *malloc(size_t size) {
	return fails(MEMORY) ? NULL : __libc_malloc(size);
}
void *calloc(size_t n, size_t size) {
	return fails(MEMORY) ? NULL : __libc_calloc(n, size);
}
void *realloc(void *old, size_t size) {
	return fails(MEMORY) ? NULL : __libc_realloc(old, size);
}

#define READS(name, offset)                                    \
	ssize_t name(int fd, void *to, size_t size, offset from) { \
		REAL(ssize_t, name, int, void *, size_t, offset);      \
		return fails(READ) ? -1 : real(fd, to, size, from);    \
	}
READS(pread, off_t)
READS(pread64, off64_t)
READS(__read_chk, size_t)
ssize_t read(int fd, void *to, size_t size) {
	REAL(ssize_t, read, int, void *, size_t);
	return fails(READ) ? -1 : real(fd, to, size);
}

#define WRITES(name, offset)                                                        \
	ssize_t name(int fd, const void *from, size_t size, offset to) {                \
		REAL(ssize_t, name, int, const void *, size_t, offset);                     \
		return fd != STDERR_FILENO && fails(WRITE) ? -1 : real(fd, from, size, to); \
	}
WRITES(pwrite, off_t)
WRITES(pwrite64, off64_t)
ssize_t write(int fd, const void *from, size_t size) {
	REAL(ssize_t, write, int, const void *, size_t);
	return fd != STDERR_FILENO && fails(WRITE) ? -1 : real(fd, from, size);
}

#define OPENS(name)                                                             \
	int name(const char *path, int flags, ...) {                                \
		REAL(int, name, const char *, int, ...);                                \
		va_list more;                                                           \
		va_start(more, flags);                                                  \
		mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0; \
		va_end(more);                                                           \
		return fails(OPEN) ? -1 : real(path, flags, mode);                      \
	}
OPENS(open)
OPENS(open64)
#define FOPENS(name)                                    \
	FILE *name(const char *path, const char *how) {     \
		REAL(FILE *, name, const char *, const char *); \
		return fails(OPEN) ? NULL : real(path, how);    \
	}
FOPENS(fopen)
FOPENS(fopen64)

DIR *opendir(const char *path) {
	REAL(DIR *, opendir, const char *);
	return fails(OPEN) ? NULL : real(path);
}

#define MAPS(name, offset)                                                        \
	void *name(void *where, size_t size, int may, int how, int fd, offset from) { \
		REAL(void *, name, void *, size_t, int, int, int, offset);                \
		return fails(MMAP) ? MAP_FAILED : real(where, size, may, how, fd, from);  \
	}
MAPS(mmap, off_t)
MAPS(mmap64, off64_t)

pid_t fork(void) {
	REAL(pid_t, fork, void);
	return fails(FORK) ? -1 : real();
}
#define SPAWNS(name)                                                                      \
	int name(pid_t *child, const char *path, const posix_spawn_file_actions_t *files,     \
	         const posix_spawnattr_t *how, char *const words[], char *const settings[]) { \
		REAL(int, name, pid_t *, const char *, const posix_spawn_file_actions_t *,        \
		     const posix_spawnattr_t *, char *const[], char *const[]);                    \
		return fails(FORK) ? code : real(child, path, files, how, words, settings);       \
	}
SPAWNS(posix_spawn)
SPAWNS(posix_spawnp)
int pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*run)(void *), void *with) {
	REAL(int, pthread_create, pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
	return fails(THREAD) ? code : real(thread, how, run, with);
}
