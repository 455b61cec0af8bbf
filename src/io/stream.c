/* stream.c: bytes in. A source (file or memory) fills an input buffer; a decoder (none, gzip,
 * zstd), chosen by the first bytes, decodes it. gzip: RFC 1952 (several members allowed); zstd: RFC
 * 8878 (several frames likewise). Other compression formats are refused by name, and so are files
 * that expand without limit. */
#include "io/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>
#include "base/check.h"
#include "system/stop.h"
#include "base/text.h"

enum {
	BUFFER = 1 << 17,
	EXPANDS_FREELY = 1 << 26, /* bytes to which any packed file may expand */
	EXPANDS_TIMES = 256       /* and above, per packed byte */
};

/* Refused formats, by their first bytes. */
static const struct packer {
	const char *name, *unpack;
	size_t offset, length;
	const char *magic;
} packers[] = {
	{"xz", "xz -d", 1, 5, "7zXZ"}, /* with the NUL */
	{"bzip2", "bzip2 -d", 4, 6, "1AY&SY"},
	{"lz4", "lz4 -d", 0, 4, "\x04\x22\x4d\x18"},
	{"lzip", "lzip -d", 0, 5, "LZIP\1"},
	{"compress", "uncompress", 0, 2, "\x1f\x9d"},
	{"7-Zip", "7z x", 0, 6, "7z\xbc\xaf\x27\x1c"},
	{"RAR", "unrar x", 0, 6, "Rar!\x1a\7"},
};

typedef enum coding { PLAIN, GZIP, ZSTD } coding;

struct lk_stream {
	char *name;
	int fd; /* -1: memory */
	unsigned char *buffer;
	const unsigned char *at, *end; /* undecoded bytes of the source */
	uint64_t taken, made;          /* bytes of the source up to `end`; decoded bytes */
	bool source_ended;
	coding coding;
	bool open_frame; /* a gzip member or zstd frame has begun and not ended */
	bool padding;    /* zero bytes follow the last gzip member */
	lk_inflate *gzip;
	ZSTD_DStream *zstd;
	char *ahead; /* decoded bytes that were peeked at */
	size_t ahead_at, ahead_end;
	lk_status failed; /* the error after them */
	lk_error cause;
};

static lk_status io_error(lk_stream *stream, const char *did, lk_error *err) {
	int code = errno;
	lk_fail(err, LK_ERR_IO, stream->name, "cannot %s: %s", did, strerror(code));
	if (code == ENOENT) lk_hint(err, "check the path");
	if (code == EISDIR) lk_hint(err, "name a file in it");
	return LK_ERR_IO;
}

/* Read from the file until `size` bytes are there or it ends. */
static lk_status stream_read_file(lk_stream *stream, unsigned char *to, size_t size, size_t *got,
                                  lk_error *err) {
	*got = 0;
	while (*got < size && !stream->source_ended) {
		size_t wish = size - *got;
		ssize_t n = read(stream->fd, to + *got, wish < (1u << 30) ? wish : 1u << 30);
		if (n < 0 && errno == EINTR) continue;
		if (n < 0) return io_error(stream, "read", err);
		stream->source_ended = n == 0;
		*got += (size_t)n;
	}
	return LK_OK;
}

/* Fill the input buffer if it is empty. Afterwards at == end means the end of the source. */
static lk_status refill(lk_stream *stream, lk_error *err) {
	if (stream->at < stream->end || stream->source_ended) return LK_OK;
	size_t got;
	LK_ASSERT(stream->fd >= 0 && stream->buffer); /* a source in memory has ended */
	LK_TRY(stream_read_file(stream, stream->buffer, BUFFER, &got, err));
	stream->at = stream->buffer;
	stream->end = stream->buffer + got;
	stream->taken += got;
	return LK_OK;
}

static lk_status stream_damaged(lk_stream *stream, const char *what, lk_error *err) {
	lk_fail(err, LK_ERR_INPUT, stream->name, "%s data %s", stream->coding == GZIP ? "gzip" : "zstd",
	        what);
	return lk_hint(err, "it may have been cut off while it was copied; fetch it again");
}

/* Whether another gzip member begins; zero bytes after the last one are padding (from tar and
 * tapes). */
static lk_status next_member(lk_stream *stream, bool *more, lk_error *err) {
	*more = false;
	for (;;) {
		LK_TRY(refill(stream, err));
		if (stream->at == stream->end) return LK_OK;
		if (*stream->at != 0) break;
		stream->padding = true;
		stream->at++;
	}
	if (stream->padding || *stream->at != 0x1f)
		return stream_damaged(stream, "is followed by unrelated bytes", err);
	lk_inflate_next(stream->gzip);
	stream->open_frame = *more = true;
	return LK_OK;
}

static lk_status read_gzip(lk_stream *stream, unsigned char *to, size_t size, size_t *got,
                           lk_error *err) {
	*got = 0;
	while (*got < size) {
		if (!stream->open_frame) {
			bool more;
			LK_TRY(next_member(stream, &more, err));
			if (!more) return LK_OK;
		}
		LK_TRY(refill(stream, err));
		if (stream->at == stream->end) return stream_damaged(stream, "ends early", err);
		unsigned char *next = to + *got;
		lk_inflate_state state =
			lk_inflate_some(stream->gzip, &stream->at, stream->end, &next, to + size);
		*got = (size_t)(next - to);
		if (state == LK_INFLATE_END) stream->open_frame = false;
		else if (state == LK_INFLATE_MEMORY) return lk_oom(err);
		else if (state == LK_INFLATE_DAMAGED) return stream_damaged(stream, "is damaged", err);
	}
	return LK_OK;
}

static lk_status read_zstd(lk_stream *stream, unsigned char *to, size_t size, size_t *got,
                           lk_error *err) {
	ZSTD_outBuffer out = {to, size, 0};
	for (bool stalled = false; out.pos < size;) {
		LK_TRY(refill(stream, err));
		if (stream->at == stream->end && (stalled || !stream->open_frame)) break;
		ZSTD_inBuffer in = {stream->at, (size_t)(stream->end - stream->at), 0};
		size_t before = out.pos, result = ZSTD_decompressStream(stream->zstd, &out, &in);
		*got = out.pos;
		if (ZSTD_isError(result)) return stream_damaged(stream, ZSTD_getErrorName(result), err);
		stream->at += in.pos;
		stream->open_frame = result != 0;
		stalled = in.pos == 0 && out.pos == before;
		if (stalled && stream->at < stream->end) return stream_damaged(stream, "is damaged", err);
	}
	return *got < size && stream->open_frame ? stream_damaged(stream, "ends early", err) : LK_OK;
}

static lk_status read_plain(lk_stream *stream, unsigned char *to, size_t size, size_t *got,
                            lk_error *err) {
	size_t there = (size_t)(stream->end - stream->at), first = there < size ? there : size;
	if (first) memcpy(to, stream->at, first);
	stream->at += first;
	*got = 0;
	lk_status status =
		first < size ? stream_read_file(stream, to + first, size - first, got, err) : LK_OK;
	*got += first;
	return status;
}

lk_status lk_stream_expands(uint64_t packed, uint64_t made, const char *name, lk_error *err) {
	if (made <= EXPANDS_FREELY || made / EXPANDS_TIMES <= packed) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, name, "expands to over %d times its size, as no trace or table does",
	        EXPANDS_TIMES);
	return lk_hint(err, "if it is right, unpack it, and give what comes out");
}

static lk_status stream_decode(lk_stream *stream, void *buffer, size_t size, size_t *got,
                               lk_error *err) {
	*got = 0;
	if (stream->coding == PLAIN) return read_plain(stream, buffer, size, got, err);
	lk_status status =
		(stream->coding == GZIP ? read_gzip : read_zstd)(stream, buffer, size, got, err);
	stream->made += *got;
	LK_TRY(status);
	LK_ASSERT(*got <= size && stream->taken >= (uint64_t)(stream->end - stream->at));
	uint64_t packed = stream->taken - (uint64_t)(stream->end - stream->at);
	return lk_stream_expands(packed, stream->made, stream->name, err);
}

static lk_status stream_go_on(lk_stream *stream, void *buffer, size_t size, size_t *got,
                              lk_error *err) {
	*got = 0;
	if (stream->failed == LK_OK) return stream_decode(stream, buffer, size, got, err);
	if (err) *err = stream->cause;
	return stream->failed;
}

lk_status lk_stream_read(lk_stream *stream, void *buffer, size_t size, size_t *got, lk_error *err) {
	*got = 0;
	LK_ASSERT(stream->ahead_at <= stream->ahead_end);
	LK_TRY(lk_stop_check(err));
	size_t there = stream->ahead_end - stream->ahead_at, first = there < size ? there : size;
	if (!there) return stream_go_on(stream, buffer, size, got, err);
	memcpy(buffer, stream->ahead + stream->ahead_at, first);
	stream->ahead_at += first;
	*got = 0;
	lk_status status =
		first < size ? stream_go_on(stream, (char *)buffer + first, size - first, got, err) : LK_OK;
	*got += first;
	return status;
}

lk_status lk_stream_peek(lk_stream *stream, size_t most, const char **bytes, size_t *got,
                         lk_error *err) {
	size_t there = stream->ahead_end - stream->ahead_at;
	if (there < most && stream->failed == LK_OK) {
		char *ahead = malloc(most);
		if (!ahead) return lk_oom(err);
		if (there) memcpy(ahead, stream->ahead + stream->ahead_at, there);
		free(stream->ahead);
		stream->failed = stream_decode(stream, ahead + there, most - there, got, &stream->cause);
		stream->ahead = ahead;
		stream->ahead_at = 0;
		stream->ahead_end = there + *got;
	}
	*bytes = stream->ahead ? stream->ahead + stream->ahead_at : "";
	*got =
		stream->ahead_end - stream->ahead_at < most ? stream->ahead_end - stream->ahead_at : most;
	return LK_OK;
}

bool lk_stream_plain(const lk_stream *stream) {
	return stream->coding == PLAIN;
}

/* Refuse a file in another compression format; texts in memory may be any part of one. Brotli has
 * no magic bytes. */
static lk_status refuse_packers(const lk_stream *stream, lk_error *err) {
	size_t n = (size_t)(stream->end - stream->at);
	const char *name = NULL, *unpack = NULL;
	if (stream->fd < 0) return LK_OK;
	for (size_t i = 0; i < sizeof packers / sizeof *packers && !name; i++) {
		const struct packer *one = &packers[i];
		if (n < one->offset + one->length ||
		    memcmp(stream->at + one->offset, one->magic, one->length) != 0)
			continue;
		if (one->offset == 4 && memcmp(stream->at, "BZh", 3) != 0) continue; /* a digit between */
		name = one->name;
		unpack = one->unpack;
	}
	if (!name && lk_ends_in(stream->name, ".br")) {
		name = "brotli";
		unpack = "brotli -d";
	}
	if (!name) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, stream->name, "is packed by %s, which is not read", name);
	return lk_hint(err, "unpack it with `%s`; packed files may be of gzip or zstd", unpack);
}

/* Choose the decoder by the first bytes of the source. */
static lk_status detect(lk_stream *stream, lk_error *err) {
	LK_TRY(refill(stream, err));
	LK_TRY(refuse_packers(stream, err));
	size_t n = (size_t)(stream->end - stream->at);
	/* 1f 8b 08: gzip with deflate. 28 b5 2f fd: a zstd frame; 5x 2a 4d 18: a frame that zstd skips.
	 */
	bool gzip = n >= 3 && memcmp(stream->at, "\x1f\x8b\x08", 3) == 0;
	bool skippable =
		n >= 4 && (stream->at[0] & 0xf0) == 0x50 && memcmp(stream->at + 1, "\x2a\x4d\x18", 3) == 0;
	bool zstd = n >= 4 && (memcmp(stream->at, "\x28\xb5\x2f\xfd", 4) == 0 || skippable);
	if (gzip) {
		stream->gzip = lk_inflate_new();
		if (!stream->gzip) return lk_oom(err);
		stream->coding = GZIP;
		stream->open_frame = true;
	} else if (zstd) {
		stream->zstd = ZSTD_createDStream();
		if (!stream->zstd) return lk_oom(err);
		stream->coding = ZSTD;
	}
	return LK_OK;
}

static lk_status new_stream(const char *name, lk_stream **out, lk_error *err) {
	lk_stream *stream = calloc(1, sizeof *stream);
	*out = NULL;
	if (!stream) return lk_oom(err);
	stream->fd = -1;
	stream->name = strdup(name);
	if (!stream->name) {
		lk_stream_close(stream);
		return lk_oom(err);
	}
	*out = stream;
	return LK_OK;
}

/* Start the decoder, or close the stream if that fails. */
static lk_status started(lk_stream *stream, lk_stream **out, lk_error *err) {
	lk_status status = detect(stream, err);
	if (status != LK_OK) {
		lk_stream_close(stream);
		stream = NULL;
	}
	*out = stream;
	return status;
}

/* /dev/zero and the like never end. A terminal does, and /dev/null at once. */
static lk_status refuse_device(lk_stream *stream, lk_error *err) {
	struct stat info, null;
	if (fstat(stream->fd, &info) != 0 || !S_ISCHR(info.st_mode) || isatty(stream->fd)) return LK_OK;
	if (stat("/dev/null", &null) == 0 && info.st_rdev == null.st_rdev) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, stream->name, "is a device, which may never end");
	return lk_hint(err, "name a file or a pipe");
}

/* Standard input. Of a file every stream begins where the program found it, so that it can be read
 * again. */
static int open_standard(void) {
	struct stat about;
	off_t at = lseek(STDIN_FILENO, 0, SEEK_CUR);
	if (at < 0 || fstat(STDIN_FILENO, &about) != 0 || !S_ISREG(about.st_mode)) return STDIN_FILENO;
	int fd = open("/dev/stdin", O_RDONLY | O_CLOEXEC);
	if (fd < 0) return STDIN_FILENO;
	if (lseek(fd, at, SEEK_SET) == at) return fd;
	close(fd);
	return STDIN_FILENO;
}

lk_status lk_stream_open(const char *path, lk_stream **out, lk_error *err) {
	lk_stream *stream;
	bool standard = strcmp(path, "-") == 0;
	*out = NULL;
	LK_TRY(new_stream(standard ? "standard input" : path, &stream, err));
	stream->buffer = malloc(BUFFER);
	lk_status status = stream->buffer ? LK_OK : lk_oom(err);
	if (status == LK_OK) {
		stream->fd = standard ? open_standard() : open(path, O_RDONLY | O_CLOEXEC);
		status = stream->fd < 0 ? io_error(stream, "open", err) : refuse_device(stream, err);
		if (status == LK_OK) status = lk_seal_check(stream->fd, stream->name, err);
	}
	if (status != LK_OK) {
		lk_stream_close(stream);
		return status;
	}
	return started(stream, out, err);
}

lk_status lk_stream_descriptor(int fd, const char *name, lk_stream **out, lk_error *err) {
	lk_stream *stream;
	lk_status status = new_stream(name, &stream, err);
	if (status != LK_OK) {
		close(fd);
		return status;
	}
	stream->fd = fd;
	stream->buffer = malloc(BUFFER);
	if (stream->buffer) return started(stream, out, err);
	lk_stream_close(stream);
	*out = NULL;
	return lk_oom(err);
}

lk_status lk_stream_memory(const void *bytes, size_t size, const char *name, lk_stream **out,
                           lk_error *err) {
	lk_stream *stream;
	LK_TRY(new_stream(name, &stream, err));
	stream->at = size ? bytes : (const void *)"";
	stream->end = stream->at + size;
	stream->taken = size;
	stream->source_ended = true;
	return started(stream, out, err);
}

const char *lk_stream_name(const lk_stream *stream) {
	return stream->name;
}

void lk_stream_close(lk_stream *stream) {
	if (!stream) return;
	lk_inflate_free(stream->gzip);
	ZSTD_freeDStream(stream->zstd);
	if (stream->fd > STDERR_FILENO) close(stream->fd);
	free(stream->buffer);
	free(stream->ahead);
	free(stream->name);
	free(stream);
}

/* Read to the end; `text` grows by doubling. */
static lk_status slurp(lk_stream *stream, size_t limit, char **text, size_t *size, lk_error *err) {
	size_t capacity = 0;
	for (;;) {
		size_t wish = capacity ? capacity * 2 : 1 << 14, got;
		if (wish > limit) wish = limit + 1; /* one more byte shows that it is too long */
		char *grown = realloc(*text, wish + 1);
		if (!grown) return lk_oom(err);
		*text = grown;
		LK_TRY(lk_stream_read(stream, grown + *size, wish - *size, &got, err));
		*size += got;
		LK_ASSERT(*size <= wish);
		capacity = wish;
		if (*size > limit) {
			char shown[32];
			lk_format_bytes((double)limit, shown, sizeof shown);
			lk_fail(err, LK_ERR_INPUT, stream->name, "is longer than %s", shown);
			return lk_hint(err, "is this the right file?");
		}
		if (*size < wish) return LK_OK;
	}
}

lk_status lk_stream_rest(lk_stream *stream, size_t limit, char **text, size_t *size,
                         lk_error *err) {
	*text = NULL;
	*size = 0;
	if (limit > SIZE_MAX / 4) limit = SIZE_MAX / 4;
	lk_status status = slurp(stream, limit, text, size, err);
	if (status == LK_OK) {
		(*text)[*size] = '\0';
		return LK_OK;
	}
	free(*text);
	*text = NULL;
	*size = 0;
	return status;
}

lk_status lk_stream_slurp(const char *path, size_t limit, char **text, size_t *size,
                          lk_error *err) {
	lk_stream *stream;
	*text = NULL;
	*size = 0;
	LK_TRY(lk_stream_open(path, &stream, err));
	lk_status status = lk_stream_rest(stream, limit, text, size, err);
	lk_stream_close(stream);
	return status;
}
