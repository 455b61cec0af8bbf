/* posix_calls.c: reading and writing by descriptors, opening and closing. Each wrapper calls the
 * real function once and keeps errno. */
#undef _FORTIFY_SOURCE
#include "recorder/files/files.h"

#include <fcntl.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "recorder/overlay/overlay.h"

/* Run CALL, which gives `result`, and record it as KIND; WANTED: the bytes that the call should
 * move. */
#define TRANSFER(name, type, call, kind, fd, offset, wanted)                           \
	LP_LIBC(name)                                                                      \
	if (!lp_enter()) return call;                                                      \
	bool moved;                                                                        \
	uint32_t file = lp_target(fd, &moved);                                             \
	int64_t start = file ? lp_now() : 0;                                               \
	if (kind == LK_RECORD_WRITE && file & LP_EVENT) lp_event_signalled((uint32_t)fd);  \
	lp_leave();                                                                        \
	type result = call;                                                                \
	if (kind == LK_RECORD_READ) lp_slow_read(file, start, (int64_t)result);            \
	if (file && lp_enter()) {                                                          \
		int code = errno;                                                              \
		if (LP_HOT(!(file & LP_SOCKET)))                                               \
			lp_io(kind, file, start, lp_now(), (int64_t)result, offset, moved);        \
		else if (file & LP_EVENT) lp_event_moved(kind, (uint32_t)fd, start, lp_now()); \
		else                                                                           \
			lp_peer_moved(kind, file & ~LP_SOCKET, start, lp_now(), (int64_t)result,   \
			              (int64_t)(wanted));                                          \
		lp_leave();                                                                    \
		errno = code;                                                                  \
	}                                                                                  \
	return result;

#define MOVES(name, kind, parameters, call, offset)                \
	LP_EXPORT ssize_t name parameters {                            \
		TRANSFER(name, ssize_t, real call, kind, fd, offset, size) \
	}
#define MOVES_PARTS(name, kind, parameters, call, offset, parts)                              \
	LP_EXPORT ssize_t name parameters {                                                       \
		TRANSFER(name, ssize_t, real call, kind, fd, offset, count_iovec_bytes(parts, count)) \
	}

static int64_t count_iovec_bytes(const struct iovec *at, int count) {
	int64_t sum = 0;
	for (int i = 0; i < count; i++) sum += (int64_t)at[i].iov_len;
	return sum;
}

/* Checked variants for programs compiled with _FORTIFY_SOURCE; no header declares them. */
ssize_t __read_chk(int fd, void *to, size_t size, size_t room);
ssize_t __pread_chk(int fd, void *to, size_t size, off_t at, size_t room);
ssize_t __pread64_chk(int fd, void *to, size_t size, off64_t at, size_t room);

MOVES(read, LK_RECORD_READ, (int fd, void *to, size_t size), (fd, to, size), -1)
MOVES(__read_chk, LK_RECORD_READ, (int fd, void *to, size_t size, size_t room),
      (fd, to, size, room), -1)
MOVES(write, LK_RECORD_WRITE, (int fd, const void *from, size_t size), (fd, from, size), -1)
MOVES(pread, LK_RECORD_READ, (int fd, void *to, size_t size, off_t at), (fd, to, size, at), at)
MOVES(pread64, LK_RECORD_READ, (int fd, void *to, size_t size, off64_t at), (fd, to, size, at), at)
MOVES(__pread_chk, LK_RECORD_READ, (int fd, void *to, size_t size, off_t at, size_t room),
      (fd, to, size, at, room), at)
MOVES(__pread64_chk, LK_RECORD_READ, (int fd, void *to, size_t size, off64_t at, size_t room),
      (fd, to, size, at, room), at)
MOVES(pwrite, LK_RECORD_WRITE, (int fd, const void *from, size_t size, off_t at),
      (fd, from, size, at), at)
MOVES(pwrite64, LK_RECORD_WRITE, (int fd, const void *from, size_t size, off64_t at),
      (fd, from, size, at), at)
MOVES_PARTS(readv, LK_RECORD_READ, (int fd, const struct iovec *to, int count), (fd, to, count), -1,
            to)
MOVES_PARTS(writev, LK_RECORD_WRITE, (int fd, const struct iovec *from, int count),
            (fd, from, count), -1, from)
MOVES_PARTS(preadv, LK_RECORD_READ, (int fd, const struct iovec *to, int count, off_t at),
            (fd, to, count, at), at, to)
MOVES_PARTS(preadv64, LK_RECORD_READ, (int fd, const struct iovec *to, int count, off64_t at),
            (fd, to, count, at), at, to)
MOVES_PARTS(pwritev, LK_RECORD_WRITE, (int fd, const struct iovec *from, int count, off_t at),
            (fd, from, count, at), at, from)
MOVES_PARTS(pwritev64, LK_RECORD_WRITE, (int fd, const struct iovec *from, int count, off64_t at),
            (fd, from, count, at), at, from)
MOVES_PARTS(preadv2, LK_RECORD_READ,
            (int fd, const struct iovec *to, int count, off_t at, int flags),
            (fd, to, count, at, flags), at, to)
MOVES_PARTS(preadv64v2, LK_RECORD_READ,
            (int fd, const struct iovec *to, int count, off64_t at, int flags),
            (fd, to, count, at, flags), at, to)

/* ---- opening ---- */

static void record_opened(int fd, int64_t start) {
	bool moved;
	int code = errno;
	lp_file_forget(fd);
	uint32_t file = lp_file(fd, &moved);
	if (file) lp_file_event(LK_RECORD_OPEN, file, start, lp_now(), 0);
	errno = code;
}

#define OPENS(name, call)             \
	LP_LIBC(name)                     \
	if (!lp_enter()) {                \
		int passed = call;            \
		lp_file_forget(passed);       \
		return passed;                \
	}                                 \
	int64_t start = lp_now();         \
	lp_leave();                       \
	int result = call;                \
	if (result >= 0 && lp_enter()) {  \
		record_opened(result, start); \
		lp_leave();                   \
	}                                 \
	return result

#define MODE_OF(flags, last)               \
	int mode = 0;                          \
	if ((flags) & (O_CREAT | O_TMPFILE)) { \
		va_list more;                      \
		va_start(more, last);              \
		mode = va_arg(more, int);          \
		va_end(more);                      \
	}

int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);
int __openat_2(int at, const char *path, int flags);
int __openat64_2(int at, const char *path, int flags);

/* The overlay may open another file instead. */
#define RESOLVES(at, flags)                                                                      \
	LP_ROOM(room);                                                                               \
	const char *given = lp_overlay_is_active() ? lp_overlay_open(at, path, flags, &room) : path; \
	if (lp_overlay.on && !given) return -1

LP_EXPORT int open(const char *path, int flags, ...) {
	MODE_OF(flags, flags);
	RESOLVES(AT_FDCWD, flags);
	OPENS(open, real(given, flags, mode));
}
LP_EXPORT int open64(const char *path, int flags, ...) {
	MODE_OF(flags, flags);
	RESOLVES(AT_FDCWD, flags);
	OPENS(open64, real(given, flags, mode));
}
LP_EXPORT int openat(int at, const char *path, int flags, ...) {
	MODE_OF(flags, flags);
	RESOLVES(at, flags);
	OPENS(openat, real(at, given, flags, mode));
}
LP_EXPORT int openat64(int at, const char *path, int flags, ...) {
	MODE_OF(flags, flags);
	RESOLVES(at, flags);
	OPENS(openat64, real(at, given, flags, mode));
}
LP_EXPORT int __open_2(const char *path, int flags) {
	RESOLVES(AT_FDCWD, flags);
	OPENS(__open_2, real(given, flags));
}
LP_EXPORT int __open64_2(const char *path, int flags) {
	RESOLVES(AT_FDCWD, flags);
	OPENS(__open64_2, real(given, flags));
}
LP_EXPORT int __openat_2(int at, const char *path, int flags) {
	RESOLVES(at, flags);
	OPENS(__openat_2, real(at, given, flags));
}
LP_EXPORT int __openat64_2(int at, const char *path, int flags) {
	RESOLVES(at, flags);
	OPENS(__openat64_2, real(at, given, flags));
}
#define CREATES (O_WRONLY | O_CREAT | O_TRUNC)
LP_EXPORT int creat(const char *path, mode_t mode) {
	RESOLVES(AT_FDCWD, CREATES);
	OPENS(creat, real(given, mode));
}
LP_EXPORT int creat64(const char *path, mode_t mode) {
	RESOLVES(AT_FDCWD, CREATES);
	OPENS(creat64, real(given, mode));
}

/* ---- unique names ---- */

#define MAKES_FILE(name, parameters, call, suffix, flags)                                        \
	LP_EXPORT int name parameters {                                                              \
		LP_LIBC(name)                                                                            \
		int fd =                                                                                 \
			lp_overlay_is_active() ? lp_overlay_make_temporary(path, suffix, flags) : real call; \
		lp_file_forget(fd);                                                                      \
		return fd;                                                                               \
	}
MAKES_FILE(mkstemp, (char *path), (path), 0, 0)
MAKES_FILE(mkstemp64, (char *path), (path), 0, 0)
MAKES_FILE(mkostemp, (char *path, int flags), (path, flags), 0, flags)
MAKES_FILE(mkostemp64, (char *path, int flags), (path, flags), 0, flags)
MAKES_FILE(mkstemps, (char *path, int suffix), (path, suffix), suffix, 0)
MAKES_FILE(mkstemps64, (char *path, int suffix), (path, suffix), suffix, 0)
MAKES_FILE(mkostemps, (char *path, int suffix, int flags), (path, suffix, flags), suffix, flags)
MAKES_FILE(mkostemps64, (char *path, int suffix, int flags), (path, suffix, flags), suffix, flags)

/* ---- closing, replacing, moving ---- */

/* A child of vfork closes its own descriptors, in its parent's memory. */
static bool shares_parent_memory(void) {
	return lp_state.on && lp_state.gate->open && lp_state.recorder.head->pid != (uint32_t)getpid();
}

LP_EXPORT int close(int fd) {
	LP_LIBC(close)
	if (!lp_enter()) {
		lp_file_forget(fd);
		return real(fd);
	}
	bool moved, other = shares_parent_memory();
	uint32_t file = other ? 0 : lp_file(fd, &moved);
	int64_t start = file ? lp_now() : 0;
	if (!other) lp_file_forget(fd);
	int result = real(fd), code = errno;
	if (file) lp_file_event(LK_RECORD_CLOSE, file, start, lp_now(), 0);
	lp_leave();
	errno = code;
	return result;
}

LP_EXPORT int close_range(unsigned first, unsigned last, int flags) {
	LP_LIBC(close_range)
	if (!shares_parent_memory()) lp_file_forget_range(first, last);
	return real(first, last, flags);
}

LP_EXPORT void closefrom(int first) {
	LP_LIBC(closefrom)
	if (!shares_parent_memory()) lp_file_forget_range(first < 0 ? 0 : (unsigned)first, UINT32_MAX);
	real(first);
}

LP_EXPORT int dup2(int from, int to) {
	LP_LIBC(dup2)
	if (!shares_parent_memory()) lp_file_forget(to);
	return real(from, to);
}

LP_EXPORT int dup3(int from, int to, int flags) {
	LP_LIBC(dup3)
	if (!shares_parent_memory()) lp_file_forget(to);
	return real(from, to, flags);
}

LP_EXPORT off_t lseek(int fd, off_t offset, int whence) {
	LP_LIBC(lseek)
	if (offset != 0 || whence != SEEK_CUR) lp_file_moved(fd);
	return real(fd, offset, whence);
}

LP_EXPORT off64_t lseek64(int fd, off64_t offset, int whence) {
	LP_LIBC(lseek64)
	if (offset != 0 || whence != SEEK_CUR) lp_file_moved(fd);
	return real(fd, offset, whence);
}

/* ---- the rest ---- */

#define FILE_CALL(name, type, call, kind, fd, size)                  \
	LP_LIBC(name)                                                    \
	if (!lp_enter()) return call;                                    \
	bool moved;                                                      \
	uint32_t file = lp_file(fd, &moved);                             \
	int64_t start = lp_now();                                        \
	lp_leave();                                                      \
	type result = call;                                              \
	if (file && lp_enter()) {                                        \
		int code = errno;                                            \
		lp_file_event(kind, file, start, lp_now(), (int64_t)(size)); \
		lp_leave();                                                  \
		errno = code;                                                \
	}                                                                \
	return result

LP_EXPORT int fsync(int fd) {
	FILE_CALL(fsync, int, real(fd), LK_RECORD_SYNC, fd, 0);
}
LP_EXPORT int fdatasync(int fd) {
	FILE_CALL(fdatasync, int, real(fd), LK_RECORD_SYNC, fd, 0);
}

/* The mapping of a file is recorded; the page faults that read it are not. */
LP_EXPORT void *mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset) {
	FILE_CALL(mmap, void *, real(at, size, protection, flags, fd, offset), LK_RECORD_MAP, fd, size);
}
LP_EXPORT void *mmap64(void *at, size_t size, int protection, int flags, int fd, off64_t offset) {
	FILE_CALL(mmap64, void *, real(at, size, protection, flags, fd, offset), LK_RECORD_MAP, fd,
	          size);
}
