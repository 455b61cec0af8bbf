/* sink.c: bytes out. zlib's file layer writes plain ("T") or gzip; it buffers in both cases. A regular file is written
 * beside its target and renamed; what is no regular file (/dev/null, a pipe) is written directly. */
#include "io/stream.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
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
	char *temporary;
	gzFile out;
	FILE *file;      /* of lk_sink_file */
	bool failed;     /* the first error of lk_sink_printf or of the FILE */
	int failed_code; /* errno of it */
};

static void free_sink(lk_sink *s) {
	free(s->name);
	free(s->target);
	free(s->temporary);
	free(s);
}

static lk_status refused(const char *name, const char *did, int code, lk_error *err) {
	if (code == ENOMEM) return lk_oom(err);
	lk_fail(err, LK_ERR_IO, name, "cannot %s: %s", did, strerror(code));
	if (code == ENOENT) lk_hint(err, "does the folder exist?");
	if (code == ENOSPC) lk_hint(err, "free some room or write elsewhere");
	if (code == EACCES || code == EROFS) lk_hint(err, "write elsewhere");
	return LK_ERR_IO;
}

/* Opens a new file beside the target. Its name holds the process and a count, so that two writers never share one. */
static int open_temporary(lk_sink *s, mode_t mode) {
	size_t size = strlen(s->target) + 48;
	s->temporary = malloc(size);
	if (!s->temporary) return -1;
	for (int i = 0; i < 1000; i++) {
		snprintf(s->temporary, size, "%s.%ld-%d.part", s->target, (long)getpid(), i);
		int fd = open(s->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
		if (fd >= 0 || errno != EEXIST) return fd;
	}
	return -1;
}

static int open_target(lk_sink *s, const char *path) {
	struct stat old;
	if (strcmp(path, "-") == 0) return fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
	bool exists = stat(path, &old) == 0;
	if (exists && S_ISDIR(old.st_mode)) {
		errno = EISDIR;
		return -1;
	}
	if (exists && !S_ISREG(old.st_mode)) return open(path, O_WRONLY | O_CLOEXEC);
	/* A link stays a link: the file it names is replaced. */
	s->target = exists ? realpath(path, NULL) : strdup(path);
	if (!s->target) return -1;
	int fd = open_temporary(s, 0666);
	if (fd >= 0 && exists) (void)!fchmod(fd, old.st_mode & 0777); /* as it was, where the system allows it */
	return fd;
}

lk_status lk_sink_open(const char *path, lk_sink **out, lk_error *err) {
	*out = NULL;
	lk_sink *s = calloc(1, sizeof *s);
	if (!s) return lk_oom(err);
	s->name = strdup(strcmp(path, "-") ? path : "standard output");
	errno = ENOMEM; /* what failed allocations leave behind everywhere below */
	int fd = s->name ? open_target(s, path) : -1;
	int code = errno;
	if (fd >= 0) {
		s->out = gzdopen(fd, lk_ends_in(path, ".gz") ? "wb6" : "wbT");
		if (s->out) {
			gzbuffer(s->out, 1 << 16);
			*out = s;
			return LK_OK;
		}
		code = ENOMEM;
		close(fd);
		if (s->temporary) unlink(s->temporary);
	}
	lk_status status = refused(path, "write", code, err);
	free_sink(s);
	return status;
}

/* Writes; on failure keeps the cause and returns false. */
static bool put(lk_sink *s, const char *bytes, size_t size) {
	while (size && !s->failed) {
		unsigned part = size < (1u << 30) ? (unsigned)size : 1u << 30;
		errno = 0;
		int written = gzwrite(s->out, bytes, part);
		if (written <= 0) {
			s->failed = true;
			s->failed_code = errno ? errno : EIO;
			return false;
		}
		bytes += written;
		size -= (size_t)written;
	}
	return !s->failed;
}

lk_status lk_sink_write(lk_sink *s, const void *bytes, size_t size, lk_error *err) {
	if (s->file && fflush(s->file) != 0 && !s->failed) {
		s->failed = true;
		s->failed_code = errno;
	}
	return put(s, bytes, size) ? LK_OK : refused(s->name, "write", s->failed_code, err);
}

void lk_sink_printf(lk_sink *s, const char *fmt, ...) {
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
		if (!s->failed) s->failed_code = length < 0 ? EINVAL : ENOMEM;
		s->failed = true;
	} else {
		lk_sink_write(s, text, (size_t)length, NULL); /* the sink keeps the error */
	}
	if (text != small) free(text);
}

static ssize_t file_write(void *cookie, const char *bytes, size_t size) {
	return put(cookie, bytes, size) ? (ssize_t)size : 0;
}

FILE *lk_sink_file(lk_sink *s) {
	if (!s->file) s->file = fopencookie(s, "w", (cookie_io_functions_t){.write = file_write});
	return s->file;
}

/* Closes what is open; false if that failed. */
static bool close_all(lk_sink *s) {
	errno = 0;
	bool closed = !s->file || fclose(s->file) == 0;
	s->file = NULL;
	closed = gzclose(s->out) == Z_OK && closed;
	if (!closed && !s->failed) {
		s->failed = true;
		s->failed_code = errno ? errno : EIO;
	}
	return !s->failed;
}

lk_status lk_sink_commit(lk_sink *s, lk_error *err) {
	lk_status status = LK_OK;
	if (!close_all(s)) {
		status = refused(s->name, "write", s->failed_code, err);
	} else if (s->temporary && rename(s->temporary, s->target) != 0) {
		status = refused(s->name, "rename the finished file", errno, err);
	}
	if (status != LK_OK && s->temporary) unlink(s->temporary);
	free_sink(s);
	return status;
}

void lk_sink_abandon(lk_sink *s) {
	if (!s) return;
	close_all(s);
	if (s->temporary) unlink(s->temporary);
	free_sink(s);
}
