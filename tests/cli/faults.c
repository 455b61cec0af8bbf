/* faults.c: preloaded, lets the n-th call of one kind fail in programs named lockstep and the
 * children that they fork, and not in programs that they start. FAIL_CALL names the kind, FAIL_AT
 * counts from 1 through all of these processes, FAIL_CODE is the errno; with FAIL_ON all calls from
 * the n-th on fail. Of the kinds that are cut short the n-th call takes one byte, with FAIL_ON the
 * thousand from the n-th on. With FAIL_COUNT the calls of each kind are listed on standard error at
 * the end.
 *
 * What stdio reads and writes goes through the functions here; what else libc calls inside of
 * itself is not seen, nor is what is written to standard error, where the fault has to be reported.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	MEMORY,
	READ,
	WRITE,
	OPEN,
	MMAP,
	FORK,
	THREAD,
	STAT,   /* what asks of a file without opening it */
	LIST,   /* entries of a folder */
	CHANGE, /* names, lengths and ends of files */
	PIPE,   /* new descriptors that are no files */
	WAIT,
	CONNECTION, /* bytes from and to a peer */
	SHORT_READ,
	SHORT_WRITE,
	KINDS
};
static const char *const names[KINDS] = {
	"memory", "read",   "write", "open", "mmap",       "fork",       "thread",     "stat",
	"list",   "change", "pipe",  "wait", "connection", "short_read", "short_write"};
static atomic_long *counts; /* of this process and all that it forks */
static int failing = -2, code, on, quiet;
static long at;

/* Whether this is a program that is looked at. */
static int looked_at(void) {
	if (failing > -2) return counts != NULL;
	failing = -1;
	if (strcmp(program_invocation_short_name, "lockstep") != 0) return 0;
	const char *name = getenv("FAIL_CALL");
	if (!name && !getenv("FAIL_COUNT")) return 0;
	for (int i = 0; name && i < KINDS; i++)
		if (strcmp(name, names[i]) == 0) failing = i;
	at = failing >= 0 ? atol(getenv("FAIL_AT")) : 0;
	code = failing >= 0 ? atoi(getenv("FAIL_CODE")) : 0;
	on = getenv("FAIL_ON") != NULL;
	void *shared = (void *)syscall(SYS_mmap, NULL, sizeof *counts * KINDS, PROT_READ | PROT_WRITE,
	                               MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	counts = shared == MAP_FAILED ? NULL : shared;
	return counts != NULL;
}

static int its_turn(int kind, long most) {
	if (quiet || !looked_at()) return 0;
	long n = ++counts[kind];
	return kind == failing && (on ? n >= at && n - at < most : n == at);
}

static int fails(int kind) {
	if (!its_turn(kind, LONG_MAX)) return 0;
	errno = code;
	return 1;
}

/* How many bytes a call may take. What is no file, pipe or socket gives all or nothing. */
static size_t part(int kind, int fd, size_t size) {
	struct stat info;
	if (size < 2 || syscall(SYS_fstat, fd, &info) != 0 || !(info.st_mode & S_IFMT)) return size;
	return its_turn(kind, 1000) ? 1 : size;
}

__attribute__((destructor)) static void tell(void) {
	if (!looked_at() || !getenv("FAIL_COUNT")) return;
	for (int i = 0; i < KINDS; i++) dprintf(2, "%ld calls of %s\n", counts[i], names[i]);
}

/* The next library's function of this name. */
#define REAL(result, name, ...)         \
	static result (*real)(__VA_ARGS__); \
	if (!real) real = (result(*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name)

/* ---- memory ---- */

void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t),
	*__libc_memalign(size_t, size_t);
void *malloc(size_t size) {
	return fails(MEMORY) ? NULL : __libc_malloc(size);
}
void *calloc(size_t n, size_t size) {
	return fails(MEMORY) ? NULL : __libc_calloc(n, size);
}
void *realloc(void *old, size_t size) {
	return fails(MEMORY) ? NULL : __libc_realloc(old, size);
}
void *memalign(size_t alignment, size_t size) {
	return fails(MEMORY) ? NULL : __libc_memalign(alignment, size);
}
void *aligned_alloc(size_t alignment, size_t size) {
	return memalign(alignment, size);
}
int posix_memalign(void **out, size_t alignment, size_t size) {
	void *got = memalign(alignment, size);
	if (!got) return ENOMEM;
	*out = got;
	return 0;
}

/* ---- calls that give a number, -1 where they fail ---- */

#define CALL(kind, result, name, parameters, types, arguments)      \
	result name parameters {                                        \
		static result(*real) types;                                 \
		if (!real) real = (result(*) types)dlsym(RTLD_NEXT, #name); \
		return fails(kind) ? -1 : real arguments;                   \
	}

#define READS(name, offset)                                    \
	ssize_t name(int fd, void *to, size_t size, offset from) { \
		REAL(ssize_t, name, int, void *, size_t, offset);      \
		if (fails(READ)) return -1;                            \
		return real(fd, to, part(SHORT_READ, fd, size), from); \
	}
READS(pread, off_t)
READS(pread64, off64_t)
ssize_t read(int fd, void *to, size_t size) {
	REAL(ssize_t, read, int, void *, size_t);
	if (fails(READ)) return -1;
	return real(fd, to, part(SHORT_READ, fd, size));
}
ssize_t __read_chk(int fd, void *to, size_t size, size_t room) {
	(void)room;
	return read(fd, to, size);
}
CALL(READ, ssize_t, readv, (int fd, const struct iovec *to, int n),
     (int, const struct iovec *, int), (fd, to, n))
CALL(READ, ssize_t, preadv2, (int fd, const struct iovec *to, int n, off_t from, int flags),
     (int, const struct iovec *, int, off_t, int), (fd, to, n, from, flags))
CALL(READ, ssize_t, preadv64v2, (int fd, const struct iovec *to, int n, off64_t from, int flags),
     (int, const struct iovec *, int, off64_t, int), (fd, to, n, from, flags))
CALL(READ, ssize_t, copy_file_range,
     (int in, off64_t *from, int out, off64_t *to, size_t size, unsigned flags),
     (int, off64_t *, int, off64_t *, size_t, unsigned), (in, from, out, to, size, flags))

#define WRITES(name, offset)                                         \
	ssize_t name(int fd, const void *from, size_t size, offset to) { \
		REAL(ssize_t, name, int, const void *, size_t, offset);      \
		if (fd == STDERR_FILENO) return real(fd, from, size, to);    \
		if (fails(WRITE)) return -1;                                 \
		return real(fd, from, part(SHORT_WRITE, fd, size), to);      \
	}
WRITES(pwrite, off_t)
WRITES(pwrite64, off64_t)
ssize_t write(int fd, const void *from, size_t size) {
	REAL(ssize_t, write, int, const void *, size_t);
	if (fd == STDERR_FILENO) return real(fd, from, size);
	if (fails(WRITE)) return -1;
	return real(fd, from, part(SHORT_WRITE, fd, size));
}

#define PATHS (const char *from, const char *to)
CALL(CHANGE, int, rename, PATHS, (const char *, const char *), (from, to))
CALL(CHANGE, int, link, PATHS, (const char *, const char *), (from, to))
CALL(CHANGE, int, symlink, PATHS, (const char *, const char *), (from, to))
CALL(CHANGE, int, renameat, (int a, const char *from, int b, const char *to),
     (int, const char *, int, const char *), (a, from, b, to))
CALL(CHANGE, int, renameat2, (int a, const char *from, int b, const char *to, unsigned flags),
     (int, const char *, int, const char *, unsigned), (a, from, b, to, flags))
CALL(CHANGE, int, linkat, (int a, const char *from, int b, const char *to, int flags),
     (int, const char *, int, const char *, int), (a, from, b, to, flags))
CALL(CHANGE, int, mkdir, (const char *path, mode_t mode), (const char *, mode_t), (path, mode))
CALL(CHANGE, int, chdir, (const char *path), (const char *), (path))
CALL(CHANGE, int, fsync, (int fd), (int), (fd))
CALL(CHANGE, int, fdatasync, (int fd), (int), (fd))
CALL(CHANGE, int, ftruncate, (int fd, off_t size), (int, off_t), (fd, size))
CALL(CHANGE, int, ftruncate64, (int fd, off64_t size), (int, off64_t), (fd, size))
CALL(CHANGE, int, fallocate, (int fd, int how, off_t from, off_t size), (int, int, off_t, off_t),
     (fd, how, from, size))
CALL(CHANGE, int, fchmod, (int fd, mode_t mode), (int, mode_t), (fd, mode))
CALL(CHANGE, int, flock, (int fd, int how), (int, int), (fd, how))
char *mkdtemp(char *name) {
	REAL(char *, mkdtemp, char *);
	return fails(CHANGE) ? NULL : real(name);
}
/* The descriptor is closed in any case, as Linux does. */
int close(int fd) {
	REAL(int, close, int);
	int result = real(fd);
	return fails(CHANGE) ? -1 : result;
}

#define STATS(name, type)                                                                      \
	CALL(STAT, int, name, (const char *path, struct type *out), (const char *, struct type *), \
	     (path, out))
STATS(stat, stat)
STATS(stat64, stat64)
STATS(lstat, stat)
STATS(lstat64, stat64)
CALL(STAT, int, fstat, (int fd, struct stat *out), (int, struct stat *), (fd, out))
CALL(STAT, int, fstat64, (int fd, struct stat64 *out), (int, struct stat64 *), (fd, out))
CALL(STAT, int, fstatat, (int fd, const char *path, struct stat *out, int how),
     (int, const char *, struct stat *, int), (fd, path, out, how))
CALL(STAT, int, access, (const char *path, int how), (const char *, int), (path, how))
CALL(STAT, int, faccessat, (int fd, const char *path, int how, int flags),
     (int, const char *, int, int), (fd, path, how, flags))
CALL(STAT, ssize_t, readlink, (const char *path, char *out, size_t size),
     (const char *, char *, size_t), (path, out, size))
CALL(STAT, off_t, lseek, (int fd, off_t to, int how), (int, off_t, int), (fd, to, how))
CALL(STAT, off64_t, lseek64, (int fd, off64_t to, int how), (int, off64_t, int), (fd, to, how))
char *getcwd(char *out, size_t size) {
	REAL(char *, getcwd, char *, size_t);
	return fails(STAT) ? NULL : real(out, size);
}
char *realpath(const char *path, char *out) {
	REAL(char *, realpath, const char *, char *);
	return fails(STAT) ? NULL : real(path, out);
}
char *__realpath_chk(const char *path, char *out, size_t room) {
	(void)room;
	return realpath(path, out);
}

struct dirent *readdir(DIR *dir) {
	REAL(struct dirent *, readdir, DIR *);
	return fails(LIST) ? NULL : real(dir);
}
struct dirent64 *readdir64(DIR *dir) {
	REAL(struct dirent64 *, readdir64, DIR *);
	return fails(LIST) ? NULL : real(dir);
}
CALL(LIST, int, nftw, (const char *path, __nftw_func_t visit, int depth, int flags),
     (const char *, __nftw_func_t, int, int), (path, visit, depth, flags))

CALL(PIPE, int, pipe, (int fds[2]), (int *), (fds))
CALL(PIPE, int, pipe2, (int fds[2], int flags), (int *, int), (fds, flags))
CALL(PIPE, int, socket, (int domain, int type, int protocol), (int, int, int),
     (domain, type, protocol))
CALL(PIPE, int, socketpair, (int domain, int type, int protocol, int fds[2]),
     (int, int, int, int *), (domain, type, protocol, fds))
/* After some time there are descriptors again: until then who wants a connection waits. */
static int accept_fails(void) {
	int fails = its_turn(PIPE, 20);
	if (fails) errno = code;
	return fails;
}
int accept(int fd, __SOCKADDR_ARG from, socklen_t *size) {
	REAL(int, accept, int, __SOCKADDR_ARG, socklen_t *);
	return accept_fails() ? -1 : real(fd, from, size);
}
int accept4(int fd, __SOCKADDR_ARG from, socklen_t *size, int flags) {
	REAL(int, accept4, int, __SOCKADDR_ARG, socklen_t *, int);
	return accept_fails() ? -1 : real(fd, from, size, flags);
}
CALL(PIPE, int, bind, (int fd, __CONST_SOCKADDR_ARG to, socklen_t size),
     (int, __CONST_SOCKADDR_ARG, socklen_t), (fd, to, size))
CALL(PIPE, int, connect, (int fd, __CONST_SOCKADDR_ARG to, socklen_t size),
     (int, __CONST_SOCKADDR_ARG, socklen_t), (fd, to, size))
CALL(PIPE, int, listen, (int fd, int backlog), (int, int), (fd, backlog))
CALL(PIPE, int, eventfd, (unsigned value, int flags), (unsigned, int), (value, flags))
CALL(PIPE, int, signalfd, (int fd, const sigset_t *set, int flags), (int, const sigset_t *, int),
     (fd, set, flags))
CALL(PIPE, int, epoll_create1, (int flags), (int), (flags))
CALL(PIPE, int, memfd_create, (const char *name, unsigned flags), (const char *, unsigned),
     (name, flags))
CALL(PIPE, int, dup, (int fd), (int), (fd))
CALL(PIPE, int, dup2, (int fd, int as), (int, int), (fd, as))
#define CONTROLS(name)                                            \
	int name(int fd, int what, ...) {                             \
		REAL(int, name, int, int, ...);                           \
		va_list more;                                             \
		va_start(more, what);                                     \
		void *with = va_arg(more, void *);                        \
		va_end(more);                                             \
		int copies = what == F_DUPFD || what == F_DUPFD_CLOEXEC;  \
		return copies && fails(PIPE) ? -1 : real(fd, what, with); \
	}
CONTROLS(fcntl)
CONTROLS(fcntl64)

CALL(WAIT, int, poll, (struct pollfd * fds, nfds_t n, int ms), (struct pollfd *, nfds_t, int),
     (fds, n, ms))
int __poll_chk(struct pollfd *fds, nfds_t n, int ms, size_t room) {
	(void)room;
	return poll(fds, n, ms);
}
CALL(WAIT, int, epoll_wait, (int fd, struct epoll_event *events, int most, int ms),
     (int, struct epoll_event *, int, int), (fd, events, most, ms))
CALL(WAIT, pid_t, waitpid, (pid_t child, int *how, int flags), (pid_t, int *, int),
     (child, how, flags))

CALL(CONNECTION, ssize_t, recv, (int fd, void *to, size_t size, int flags),
     (int, void *, size_t, int), (fd, to, size, flags))
CALL(CONNECTION, ssize_t, send, (int fd, const void *from, size_t size, int flags),
     (int, const void *, size_t, int), (fd, from, size, flags))
CALL(CONNECTION, ssize_t, sendmsg, (int fd, const struct msghdr *what, int flags),
     (int, const struct msghdr *, int), (fd, what, flags))
CALL(CONNECTION, ssize_t, writev, (int fd, const struct iovec *from, int n),
     (int, const struct iovec *, int), (fd, from, n))
CALL(CONNECTION, ssize_t, sendfile, (int out, int in, off_t *from, size_t size),
     (int, int, off_t *, size_t), (out, in, from, size))
CALL(CONNECTION, ssize_t, sendfile64, (int out, int in, off64_t *from, size_t size),
     (int, int, off64_t *, size_t), (out, in, from, size))

/* ---- opening ---- */

#define OPENS(name)                                                                         \
	int name(const char *path, int flags, ...) {                                            \
		REAL(int, name, const char *, int, ...);                                            \
		va_list more;                                                                       \
		va_start(more, flags);                                                              \
		mode_t mode =                                                                       \
			flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(more, mode_t) : 0; \
		va_end(more);                                                                       \
		return fails(OPEN) ? -1 : real(path, flags, mode);                                  \
	}
OPENS(open)
OPENS(open64)
#define OPENS_AT(name)                                                                      \
	int name(int in, const char *path, int flags, ...) {                                    \
		REAL(int, name, int, const char *, int, ...);                                       \
		va_list more;                                                                       \
		va_start(more, flags);                                                              \
		mode_t mode =                                                                       \
			flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(more, mode_t) : 0; \
		va_end(more);                                                                       \
		return fails(OPEN) ? -1 : real(in, path, flags, mode);                              \
	}
OPENS_AT(openat)
OPENS_AT(openat64)
CALL(OPEN, int, mkostemp, (char *name, int flags), (char *, int), (name, flags))
CALL(OPEN, int, mkostemp64, (char *name, int flags), (char *, int), (name, flags))
DIR *opendir(const char *path) {
	REAL(DIR *, opendir, const char *);
	return fails(OPEN) ? NULL : real(path);
}
FILE *tmpfile(void) {
	REAL(FILE *, tmpfile, void);
	return fails(OPEN) ? NULL : real();
}

/* ---- stdio: FILEs that read and write with the functions above ---- */

enum { FILES = 512 };
static struct {
	FILE *file;
	int fd;
} files[FILES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static ssize_t file_read(void *cookie, char *to, size_t size) {
	return read((int)(intptr_t)cookie, to, size);
}
/* Of a FILE with a descriptor libc writes on where a write took a part. */
static ssize_t file_write(void *cookie, const char *from, size_t size) {
	size_t done = 0;
	while (done < size) {
		ssize_t put = write((int)(intptr_t)cookie, from + done, size - done);
		if (put <= 0) break;
		done += (size_t)put;
	}
	return (ssize_t)done;
}
static int file_seek(void *cookie, off64_t *to, int how) {
	off64_t place = lseek64((int)(intptr_t)cookie, *to, how);
	if (place < 0) return -1;
	*to = place;
	return 0;
}
static int file_close(void *cookie) {
	pthread_mutex_lock(&lock);
	for (int i = 0; i < FILES; i++)
		if (files[i].file && files[i].fd == (int)(intptr_t)cookie) files[i].file = NULL;
	pthread_mutex_unlock(&lock);
	return close((int)(intptr_t)cookie);
}

static FILE *file_of(int fd, const char *how) {
	cookie_io_functions_t calls = {file_read, file_write, file_seek, file_close};
	FILE *file = fopencookie((void *)(intptr_t)fd, how, calls);
	pthread_mutex_lock(&lock);
	for (int i = 0; file && i < FILES; i++)
		if (!files[i].file) {
			files[i].file = file;
			files[i].fd = fd;
			break;
		}
	pthread_mutex_unlock(&lock);
	return file;
}

int fileno(FILE *file) {
	REAL(int, fileno, FILE *);
	int fd = -1;
	pthread_mutex_lock(&lock);
	for (int i = 0; i < FILES; i++)
		if (files[i].file == file) fd = files[i].fd;
	pthread_mutex_unlock(&lock);
	return fd >= 0 ? fd : real(file);
}
int fileno_unlocked(FILE *file) {
	return fileno(file);
}

static FILE *file_open(const char *path, const char *how) {
	int flags = *how == 'r' ? O_RDONLY : O_WRONLY | O_CREAT | (*how == 'w' ? O_TRUNC : O_APPEND);
	if (strchr(how, '+')) flags = (flags & ~O_WRONLY) | O_RDWR;
	if (strchr(how, 'x')) flags |= O_EXCL;
	if (strchr(how, 'e')) flags |= O_CLOEXEC;
	int fd = open(path, flags, 0666);
	FILE *file = fd >= 0 ? file_of(fd, how) : NULL;
	if (fd >= 0 && !file) close(fd);
	return file;
}
#define FOPENS(name)                                                 \
	FILE *name(const char *path, const char *how) {                  \
		REAL(FILE *, name, const char *, const char *);              \
		return looked_at() ? file_open(path, how) : real(path, how); \
	}
FOPENS(fopen)
FOPENS(fopen64)
FILE *fdopen(int fd, const char *how) {
	REAL(FILE *, fdopen, int, const char *);
	return looked_at() ? file_of(fd, how) : real(fd, how);
}

__attribute__((constructor)) static void begin(void) {
	if (!looked_at()) return;
	quiet = 1;
	stdout = file_of(STDOUT_FILENO, "w");
	stdin = file_of(STDIN_FILENO, "r");
	quiet = 0;
}

/* ---- pages, processes, threads ---- */

#define MAPS(name, offset)                                                        \
	void *name(void *where, size_t size, int may, int how, int fd, offset from) { \
		REAL(void *, name, void *, size_t, int, int, int, offset);                \
		return fails(MMAP) ? MAP_FAILED : real(where, size, may, how, fd, from);  \
	}
MAPS(mmap, off_t)
MAPS(mmap64, off64_t)
void *mremap(void *old, size_t had, size_t size, int how, ...) {
	REAL(void *, mremap, void *, size_t, size_t, int, ...);
	va_list more;
	va_start(more, how);
	void *where = how & MREMAP_FIXED ? va_arg(more, void *) : NULL;
	va_end(more);
	return fails(MMAP) ? MAP_FAILED : real(old, had, size, how, where);
}

pid_t fork(void) {
	REAL(pid_t, fork, void);
	return fails(FORK) ? -1 : real();
}
pid_t vfork(void) {
	return fork();
}
FILE *popen(const char *line, const char *how) {
	REAL(FILE *, popen, const char *, const char *);
	return fails(FORK) ? NULL : real(line, how);
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
