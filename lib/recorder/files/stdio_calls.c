/* stdio_calls.c: reading and writing by streams, whose own system calls are inside libc and bypass
 * preload libraries. Calls for single characters and formatted input are not recorded. */
#undef _FORTIFY_SOURCE
/* The header's inline versions would hide ours. */
#ifndef __NO_INLINE__
#define __NO_INLINE__ 1
#endif
#include "recorder/files/files.h"

#include <stdio.h>
#include <string.h>

#include "recorder/overlay/overlay.h"

static void record_stream_call(FILE *stream, lk_record_kind kind, int64_t start, int64_t bytes) {
	bool moved;
	int code = errno;
	if (!lp_enter()) return;
	uint32_t file = stream ? lp_file(fileno(stream), &moved) : 0;
	if (kind == LK_RECORD_READ) lp_slow_read(file, start, bytes);
	if (file && (kind == LK_RECORD_READ || kind == LK_RECORD_WRITE))
		lp_io(kind, file, start, lp_now(), bytes, -1, moved);
	else if (file) lp_file_event(kind, file, start, lp_now(), 0);
	lp_leave();
	errno = code;
}

static int64_t now_if_armed(void) {
	return lp_state.on ? lp_now() : 0;
}

#define CALL(name, type, call, stream, kind, bytes)            \
	LP_LIBC(name)                                              \
	if (!lp_state.on || lp_thread.busy) return call;           \
	int64_t start = now_if_armed();                            \
	type result = call;                                        \
	record_stream_call(stream, kind, start, (int64_t)(bytes)); \
	return result

size_t __fread_chk(void *to, size_t room, size_t size, size_t count, FILE *stream);
char *__fgets_chk(char *to, size_t room, int size, FILE *stream);

LP_EXPORT size_t fread(void *to, size_t size, size_t count, FILE *stream) {
	CALL(fread, size_t, real(to, size, count, stream), stream, LK_RECORD_READ, result * size);
}
LP_EXPORT size_t fread_unlocked(void *to, size_t size, size_t count, FILE *stream) {
	CALL(fread_unlocked, size_t, real(to, size, count, stream), stream, LK_RECORD_READ,
	     result * size);
}
LP_EXPORT size_t __fread_chk(void *to, size_t room, size_t size, size_t count, FILE *stream) {
	CALL(__fread_chk, size_t, real(to, room, size, count, stream), stream, LK_RECORD_READ,
	     result * size);
}
LP_EXPORT size_t fwrite(const void *from, size_t size, size_t count, FILE *stream) {
	CALL(fwrite, size_t, real(from, size, count, stream), stream, LK_RECORD_WRITE, result * size);
}
LP_EXPORT size_t fwrite_unlocked(const void *from, size_t size, size_t count, FILE *stream) {
	CALL(fwrite_unlocked, size_t, real(from, size, count, stream), stream, LK_RECORD_WRITE,
	     result * size);
}
LP_EXPORT char *fgets(char *to, int size, FILE *stream) {
	CALL(fgets, char *, real(to, size, stream), stream, LK_RECORD_READ,
	     result ? strlen(result) : 0);
}
LP_EXPORT char *__fgets_chk(char *to, size_t room, int size, FILE *stream) {
	CALL(__fgets_chk, char *, real(to, room, size, stream), stream, LK_RECORD_READ,
	     result ? strlen(result) : 0);
}
LP_EXPORT ssize_t getdelim(char **line, size_t *room, int end, FILE *stream) {
	CALL(getdelim, ssize_t, real(line, room, end, stream), stream, LK_RECORD_READ, result);
}
LP_EXPORT ssize_t getline(char **line, size_t *room, FILE *stream) {
	CALL(getline, ssize_t, real(line, room, stream), stream, LK_RECORD_READ, result);
}

/* ---- opening and closing ---- */

#define OPENS(name, call)                                 \
	LP_LIBC(name)                                         \
	int64_t start = now_if_armed();                       \
	FILE *result = call;                                  \
	if (!lp_state.on || !result) return result;           \
	lp_file_forget(fileno(result));                       \
	record_stream_call(result, LK_RECORD_OPEN, start, 0); \
	return result

/* The flags of open for a mode of fopen. */
static int flags_of_mode(const char *mode) {
	int flags = O_RDONLY;
	if (*mode == 'a') flags = O_WRONLY | O_CREAT;
	else if (*mode != 'r') flags = O_WRONLY | O_CREAT | O_TRUNC;
	for (; *mode && *mode != ','; mode++) {
		if (*mode == '+') flags = (flags & ~O_ACCMODE) | O_RDWR;
		if (*mode == 'x') flags |= O_EXCL;
	}
	return flags;
}

#define RESOLVES(path, mode)                                                 \
	LP_ROOM(room);                                                           \
	const char *given = path;                                                \
	if (lp_overlay_is_active() && lp_overlay_is_name(path)) {                \
		given = lp_overlay_open(AT_FDCWD, path, flags_of_mode(mode), &room); \
		if (!given) return NULL;                                             \
	}

LP_EXPORT FILE *fopen(const char *path, const char *mode) {
	RESOLVES(path, mode);
	OPENS(fopen, real(given, mode));
}
LP_EXPORT FILE *fopen64(const char *path, const char *mode) {
	RESOLVES(path, mode);
	OPENS(fopen64, real(given, mode));
}
LP_EXPORT FILE *freopen(const char *path, const char *mode, FILE *stream) {
	RESOLVES(path, mode);
	OPENS(freopen, real(given, mode, stream));
}
LP_EXPORT FILE *freopen64(const char *path, const char *mode, FILE *stream) {
	RESOLVES(path, mode);
	OPENS(freopen64, real(given, mode, stream));
}

LP_EXPORT int fseek(FILE *stream, long offset, int whence) {
	LP_LIBC(fseek)
	if (lp_state.on) lp_file_moved(fileno(stream));
	return real(stream, offset, whence);
}
LP_EXPORT int fseeko(FILE *stream, off_t offset, int whence) {
	LP_LIBC(fseeko)
	if (lp_state.on) lp_file_moved(fileno(stream));
	return real(stream, offset, whence);
}
LP_EXPORT int fseeko64(FILE *stream, off64_t offset, int whence) {
	LP_LIBC(fseeko64)
	if (lp_state.on) lp_file_moved(fileno(stream));
	return real(stream, offset, whence);
}

LP_EXPORT int fclose(FILE *stream) {
	LP_LIBC(fclose)
	int64_t start = now_if_armed();
	int fd = lp_state.on && stream ? fileno(stream) : -1;
	if (fd >= 0) {
		record_stream_call(stream, LK_RECORD_CLOSE, start, 0);
		lp_file_forget(fd);
	}
	return real(stream);
}
