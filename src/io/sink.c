/* sink.c: bytes out. zlib's file layer writes plain ("T") or gzip; it buffers in both cases. A
 * regular file is written as a file without a name beside its target, which ends with the process
 * however that ends; when it is whole it gets a name and is renamed. Where the file system has no
 * such files (NFS, FUSE) it has its passing name from the start. What is no regular file
 * (/dev/null, a pipe) is written directly. */
#include "base/check.h"
#include "base/sum.h"
#include "io/stream.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

struct lk_sink {
	char *name;      /* as given, for messages */
	char *target;    /* with symbolic links resolved; NULL: written directly */
	char *temporary; /* the temporary name; NULL: written directly */
	int nameless;    /* the unnamed file before it gets that name, or -1 */
	gzFile out;
	FILE *file;      /* of lk_sink_file */
	bool failed;     /* the first error of lk_sink_printf or of the FILE */
	int failed_code; /* its errno */
	bool packed, begun, sealed;
	uint64_t sum;            /* of a sealed file's bytes but the last ones, */
	char last[LK_SEAL_KEPT]; /* which are kept back for its end */
	size_t kept;
};

static void free_sink(lk_sink *sink) {
	if (sink->nameless >= 0) close(sink->nameless);
	free(sink->name);
	free(sink->target);
	free(sink->temporary);
	free(sink);
}

static lk_status sink_refused(const char *name, const char *did, int code, lk_error *err) {
	if (code == ENOMEM) return lk_oom(err);
	lk_fail(err, LK_ERR_IO, name, "cannot %s: %s", did, strerror(code));
	if (code == ENOENT) lk_hint(err, "does the folder exist?");
	if (code == ENOSPC) lk_hint(err, "free some room or write elsewhere");
	if (code == EACCES || code == EROFS) lk_hint(err, "write elsewhere");
	return LK_ERR_IO;
}

/* ---- the temporary file ---- */

enum { PASSING_NAMES = 1000 };

/* By process and a count, so that two writers never share one. */
static void set_passing_name(lk_sink *sink, int count) {
	LK_ASSERT(sink->target && sink->temporary && count < PASSING_NAMES);
	sprintf(sink->temporary, "%s.%ld-%d.part", sink->target, (long)getpid(), count);
}

static void write_fd_path(char path[32], int fd) {
	snprintf(path, 32, "/proc/self/fd/%d", fd);
}

/* Open an unnamed file in the target's folder, duplicated because the first descriptor will be
 * closed. */
static int open_nameless(lk_sink *sink, mode_t mode) {
	char path[32];
	const char *slash = strrchr(sink->target, '/');
	char *folder = slash ? strndup(sink->target, (size_t)(slash - sink->target) + 1) : strdup(".");
	int fd = folder ? open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, mode) : -1;
	free(folder);
	if (fd < 0) return -1;
	sink->nameless = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	write_fd_path(path, sink->nameless);
	if (sink->nameless >= 0 && faccessat(AT_FDCWD, path, F_OK, 0) == 0) return fd;
	if (sink->nameless >= 0) close(sink->nameless); /* /proc, which names it, is missing */
	sink->nameless = -1;
	close(fd);
	return -1;
}

static int open_temporary(lk_sink *sink, mode_t mode) {
	sink->temporary = malloc(strlen(sink->target) + 48);
	if (!sink->temporary) return -1;
	int fd = open_nameless(sink, mode);
	for (int i = 0; fd < 0 && i < PASSING_NAMES; i++) {
		set_passing_name(sink, i);
		fd = open(sink->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
		if (fd < 0 && errno != EEXIST) break;
	}
	return fd;
}

/* link does not replace a file, rename does: so the name is temporary first. */
static bool name_nameless(lk_sink *sink) {
	char path[32];
	write_fd_path(path, sink->nameless);
	for (int i = 0; i < PASSING_NAMES; i++) {
		set_passing_name(sink, i);
		if (linkat(AT_FDCWD, path, AT_FDCWD, sink->temporary, AT_SYMLINK_FOLLOW) == 0) return true;
		if (errno != EEXIST) break;
	}
	return false;
}

static void remove_temporary(lk_sink *sink) {
	if (sink->temporary && sink->nameless < 0) unlink(sink->temporary);
}

/* Puts the whole file into its place. Nobody is interrupted between the two names. */
static bool put_into_place(lk_sink *sink) {
	LK_ASSERT(sink->target && sink->temporary);
	sigset_t all, before;
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	bool named = sink->nameless < 0 || name_nameless(sink);
	bool placed = named && rename(sink->temporary, sink->target) == 0;
	int code = errno;
	if (named && !placed) unlink(sink->temporary);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	errno = code;
	return placed;
}

static int open_target(lk_sink *sink, const char *path) {
	struct stat old;
	if (strcmp(path, "-") == 0) return fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
	bool exists = stat(path, &old) == 0;
	if (exists && S_ISDIR(old.st_mode)) {
		errno = EISDIR;
		return -1;
	}
	if (exists && !S_ISREG(old.st_mode)) return open(path, O_WRONLY | O_CLOEXEC);
	/* A link stays a link: the file that it names is replaced. */
	sink->target = exists ? realpath(path, NULL) : strdup(path);
	if (!sink->target) return -1;
	int fd = open_temporary(sink, 0666);
	if (fd >= 0 && exists)
		(void)!fchmod(fd, old.st_mode & 0777); /* keep the mode if the system allows it */
	return fd;
}

lk_status lk_sink_open(const char *path, lk_sink **out, lk_error *err) {
	*out = NULL;
	lk_sink *sink = calloc(1, sizeof *sink);
	if (!sink) return lk_oom(err);
	sink->nameless = -1;
	sink->name = strdup(strcmp(path, "-") ? path : "standard output");
	errno = ENOMEM; /* as after failed allocations everywhere below */
	int fd = sink->name ? open_target(sink, path) : -1;
	int code = errno;
	if (fd >= 0) {
		sink->packed = lk_ends_in(path, ".gz");
		sink->out = gzdopen(fd, sink->packed ? "wb6" : "wbT");
		if (sink->out) {
			gzbuffer(sink->out, 1 << 16);
			*out = sink;
			return LK_OK;
		}
		code = ENOMEM;
		close(fd);
		remove_temporary(sink);
	}
	lk_status status = sink_refused(path, "write", code, err);
	free_sink(sink);
	return status;
}

/* Writes; on failure keeps the cause and returns false. */
static bool sink_put(lk_sink *sink, const char *bytes, size_t size) {
	LK_ASSERT(sink->out);
	while (size && !sink->failed) {
		unsigned part = size < (1u << 30) ? (unsigned)size : 1u << 30;
		errno = 0;
		int written = gzwrite(sink->out, bytes, part);
		if (written <= 0) {
			sink->failed = true;
			sink->failed_code = errno ? errno : EIO;
			return false;
		}
		bytes += written;
		size -= (size_t)written;
	}
	return !sink->failed;
}

/* Pass on all but the last bytes of a sealed file. */
static bool sink_put_sealed(lk_sink *sink, const char *bytes, size_t size) {
	size_t all = sink->kept + size, out = all > LK_SEAL_KEPT ? all - LK_SEAL_KEPT : 0;
	size_t old = out < sink->kept ? out : sink->kept;
	bool good = sink_put(sink, sink->last, old) && sink_put(sink, bytes, out - old);
	sink->sum = lk_sum_bytes(lk_sum_bytes(sink->sum, sink->last, old), bytes, out - old);
	memmove(sink->last, sink->last + old, sink->kept - old);
	sink->kept -= old;
	memcpy(sink->last + sink->kept, bytes + (out - old), size - (out - old));
	sink->kept += size - (out - old);
	LK_ASSERT(sink->kept <= LK_SEAL_KEPT);
	return good;
}

static bool sink_add(lk_sink *sink, const char *bytes, size_t size) {
	if (!sink->begun && size) {
		sink->begun = true;
		sink->sealed = sink->target && !sink->packed && lk_seal_wanted(bytes, size);
		sink->sum = LK_SUM_EMPTY;
	}
	return sink->sealed ? sink_put_sealed(sink, bytes, size) : sink_put(sink, bytes, size);
}

static void put_seal(lk_sink *sink) {
	char end[LK_SEAL_ROOM];
	size_t size = lk_seal_end(sink->last, sink->kept, sink->sum, end);
	if (sink->sealed && size) sink_put(sink, end, size);
	else if (sink->sealed) sink_put(sink, sink->last, sink->kept);
	sink->sealed = false;
}

lk_status lk_sink_write(lk_sink *sink, const void *bytes, size_t size, lk_error *err) {
	if (sink->file && fflush(sink->file) != 0 && !sink->failed) {
		sink->failed = true;
		sink->failed_code = errno;
	}
	return sink_add(sink, bytes, size) ? LK_OK
	                                   : sink_refused(sink->name, "write", sink->failed_code, err);
}

void lk_sink_printf(lk_sink *sink, const char *fmt, ...) {
	char small[512], *text = small;
	va_list args, again;
	va_start(args, fmt);
	va_copy(again, args);
	int length = vsnprintf(small, sizeof small, fmt, args);
	if (length >= (int)sizeof small) {
		text = malloc((size_t)length + 1);
		if (text) vsnprintf(text, (size_t)length + 1, fmt, again);
	}
	va_end(again);
	va_end(args);
	if (length < 0 || !text) {
		if (!sink->failed) sink->failed_code = length < 0 ? EINVAL : ENOMEM;
		sink->failed = true;
	} else {
		lk_sink_write(sink, text, (size_t)length, NULL); /* the sink keeps the error */
	}
	if (text != small) free(text);
}

static ssize_t file_write(void *cookie, const char *bytes, size_t size) {
	return sink_add(cookie, bytes, size) ? (ssize_t)size : 0;
}

FILE *lk_sink_file(lk_sink *sink) {
	if (!sink->file)
		sink->file = fopencookie(sink, "w", (cookie_io_functions_t){.write = file_write});
	return sink->file;
}

/* Close everything open; false if that failed. */
static bool sink_close_all(lk_sink *sink) {
	errno = 0;
	bool closed = !sink->file || fclose(sink->file) == 0;
	sink->file = NULL;
	put_seal(sink);
	closed = gzclose(sink->out) == Z_OK && closed;
	if (!closed && !sink->failed) {
		sink->failed = true;
		sink->failed_code = errno ? errno : EIO;
	}
	return !sink->failed;
}

bool lk_sink_failed(const lk_sink *sink) {
	return sink->failed;
}

lk_status lk_sink_commit(lk_sink *sink, lk_error *err) {
	lk_status status = LK_OK;
	if (!sink_close_all(sink)) {
		status = sink_refused(sink->name, "write", sink->failed_code, err);
		remove_temporary(sink);
	} else if (sink->temporary && !put_into_place(sink)) {
		status = sink_refused(sink->name, "rename the finished file", errno, err);
	}
	free_sink(sink);
	return status;
}

void lk_sink_abandon(lk_sink *sink) {
	if (!sink) return;
	sink_close_all(sink);
	remove_temporary(sink);
	free_sink(sink);
}
