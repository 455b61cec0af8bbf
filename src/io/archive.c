/* archive.c: tar (POSIX.1-2017, pax, "ustar Interchange Format"; GNU's long names) and zip
 * (PKWARE's APPNOTE 6.3.10, stored or deflated, ZIP64). Sizes and names are untrusted: bytes read
 * are counted. */
#include "io/archive.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/check.h"
#include "base/text.h"

enum {
	BLOCK = 512, /* of tar */
	PIECE = 1 << 16,
	NAME_BYTES = 4096,
	END_BYTES = 22, /* of zip's last record, without its comment */
	ENTRY_BYTES = 46,
	LOCAL_BYTES = 30,
	COMMENT = 1 << 16
};

/* Most bytes of an unpacked member: traces are long, disks are finite. */
#define MEMBER_BYTES (INT64_C(1) << 36)

static lk_status archive_damaged(const char *path, const char *what, lk_error *err) {
	lk_fail(err, LK_ERR_INPUT, path, "the archive is damaged: %s", what);
	return lk_hint(err, "unpack it, and give the files");
}

/* Write all bytes, or return false with errno. */
static bool archive_write(int to, const void *bytes, size_t size) {
	for (size_t done = 0; done < size;) {
		ssize_t n = write(to, (const char *)bytes + done, size - done);
		if (n < 0 && errno == EINTR) continue;
		if (n < 0) return false;
		done += (size_t)n;
	}
	return true;
}

/* ---- tar ---- */

/* A number in octal, or in GNU's binary form; -1: invalid. */
static int64_t tar_number(const unsigned char *at, size_t size) {
	int64_t value = 0;
	if (at[0] & 0x80) {
		for (size_t i = 1; i < size; i++) {
			if (value >> 54) return -1;
			value = value * 256 + at[i];
		}
		return value;
	}
	size_t i = 0;
	while (i < size && at[i] == ' ') i++;
	for (; i < size && at[i] >= '0' && at[i] <= '7'; i++) value = value * 8 + (at[i] - '0');
	return i < size && at[i] != ' ' && at[i] != '\0' ? -1 : value;
}

/* Check the sum of a header, with its own field counted as blanks. */
static bool tar_sound(const unsigned char header[BLOCK]) {
	int64_t sum = 0;
	for (int i = 0; i < BLOCK; i++) sum += i >= 148 && i < 156 ? ' ' : header[i];
	return sum == tar_number(header + 148, 8);
}

/* Copy `size` bytes to a file, or skip them (to < 0). */
static lk_status tar_move(lk_stream *in, int64_t size, int to, lk_error *err) {
	char *piece = malloc(PIECE);
	lk_status status = piece ? LK_OK : lk_oom(err);
	while (status == LK_OK && size > 0) {
		size_t wish = size < PIECE ? (size_t)size : PIECE, got;
		status = lk_stream_read(in, piece, wish, &got, err);
		if (status == LK_OK && got == 0)
			status = archive_damaged(lk_stream_name(in), "it ends early", err);
		if (status == LK_OK && to >= 0 && !archive_write(to, piece, got))
			status =
				lk_fail(err, LK_ERR_IO, lk_stream_name(in), "cannot unpack: %s", strerror(errno));
		LK_ASSERT(got <= wish);
		size -= (int64_t)got;
	}
	free(piece);
	return status;
}

struct tar {
	lk_stream *in;
	char name[NAME_BYTES];
	int64_t size;   /* of the member whose content comes next */
	bool file;      /* a regular one */
	bool long_name; /* `name` is of the next member */
};

/* Read the name of the next member from a header: GNU's 'L', or path= of a pax header. */
static lk_status tar_names(struct tar *tar, char type, int64_t size, lk_error *err) {
	LK_ASSERT((type == 'L' || type == 'x') && size >= 0 && size <= MEMBER_BYTES);
	char text[2 * NAME_BYTES];
	int64_t padded = (size + BLOCK - 1) / BLOCK * BLOCK;
	size_t wish = padded < (int64_t)sizeof text ? (size_t)padded : sizeof text, got;
	LK_TRY(lk_stream_read(tar->in, text, wish, &got, err));
	LK_TRY(tar_move(tar->in, padded - (int64_t)wish, -1, err));
	size_t length = size < (int64_t)got ? (size_t)size : got;
	const char *from = text;
	if (type == 'x') {
		from = length > 6 ? memmem(text, length, " path=", 6) : NULL;
		if (!from) return LK_OK;
		from += 6;
		const char *end = memchr(from, '\n', length - (size_t)(from - text));
		length = end ? (size_t)(end - from) : 0;
	}
	if (length >= sizeof tar->name) return LK_OK;
	memcpy(tar->name, from, length);
	tar->name[length] = '\0';
	tar->long_name = length > 0;
	return LK_OK;
}

/* Go to the next member; *more false at the end. */
static lk_status tar_next(struct tar *tar, bool *more, lk_error *err) {
	unsigned char header[BLOCK];
	for (int i = 0; i < LK_ARCHIVE_MEMBERS; i++) {
		size_t got;
		LK_TRY(lk_stream_read(tar->in, header, BLOCK, &got, err));
		*more = got == BLOCK && header[0] != '\0';
		if (!*more) return LK_OK;
		int64_t size = tar_number(header + 124, 12);
		if (!tar_sound(header) || size < 0 || size > MEMBER_BYTES)
			return archive_damaged(lk_stream_name(tar->in), "a header is malformed", err);
		char type = (char)header[156];
		if (type == 'L' || type == 'x') {
			LK_TRY(tar_names(tar, type, size, err));
			continue;
		}
		bool prefixed = memcmp(header + 257, "ustar", 6) == 0 && header[345];
		if (!tar->long_name)
			snprintf(tar->name, sizeof tar->name, "%.*s%s%.*s", prefixed ? 155 : 0,
			         (const char *)header + 345, prefixed ? "/" : "", 100, (const char *)header);
		tar->long_name = false;
		tar->size = size;
		tar->file = type == '0' || type == '\0' || type == '7';
		return LK_OK;
	}
	return archive_damaged(lk_stream_name(tar->in), "too many members", err);
}

static lk_status tar_pass_over(const struct tar *tar, lk_error *err) {
	return tar_move(tar->in, (tar->size + BLOCK - 1) / BLOCK * BLOCK, -1, err);
}

static lk_status tar_list(const char *path, lk_archive_member_fn *member, void *context,
                          lk_error *err) {
	struct tar tar = {0};
	bool more = true;
	LK_TRY(lk_stream_open(path, &tar.in, err));
	lk_status status = tar_next(&tar, &more, err);
	for (int i = 0; status == LK_OK && more; i++) {
		if (i >= LK_ARCHIVE_MEMBERS) status = archive_damaged(path, "too many members", err);
		else if (tar.file) status = member(context, tar.name, err);
		if (status == LK_OK) status = tar_pass_over(&tar, err);
		if (status == LK_OK) status = tar_next(&tar, &more, err);
	}
	lk_stream_close(tar.in);
	return status;
}

static lk_status tar_unpack(const char *path, const char *name, int to, bool *found,
                            lk_error *err) {
	struct tar tar = {0};
	bool more = true;
	LK_TRY(lk_stream_open(path, &tar.in, err));
	lk_status status = tar_next(&tar, &more, err);
	for (int i = 0; status == LK_OK && more && !*found && i < LK_ARCHIVE_MEMBERS; i++) {
		*found = tar.file && strcmp(tar.name, name) == 0;
		if (*found) status = tar_move(tar.in, tar.size, to, err);
		else status = tar_pass_over(&tar, err);
		if (status == LK_OK && !*found) status = tar_next(&tar, &more, err);
	}
	lk_stream_close(tar.in);
	return status;
}

/* ---- zip ---- */

static uint64_t zip_number(const unsigned char *at, int bytes) {
	uint64_t value = 0;
	for (int i = bytes; i-- > 0;) value = value << 8 | at[i];
	return value;
}

struct zip {
	const char *path;
	int fd;
	uint64_t at, count; /* of the directory's next entry; entries left */
	char name[NAME_BYTES];
	uint64_t packed, size, local; /* of the entry */
	unsigned method;
};

static bool zip_read(const struct zip *zip, void *to, size_t size, uint64_t at) {
	size_t done = 0;
	while (done < size && at + done < INT64_MAX) {
		ssize_t n = pread(zip->fd, (char *)to + done, size - done, (off_t)(at + done));
		if (n < 0 && errno == EINTR) continue;
		if (n <= 0) return false;
		done += (size_t)n;
	}
	return done == size;
}

/* Find the begin of the directory: from the last record, or ZIP64's before it. */
static lk_status zip_open(struct zip *zip, lk_error *err) {
	struct stat info;
	unsigned char *tail = malloc(END_BYTES + COMMENT), wide[56];
	if (!tail) return lk_oom(err);
	bool sized = fstat(zip->fd, &info) == 0 && info.st_size >= END_BYTES;
	size_t size = sized ? END_BYTES + COMMENT : 0;
	if (sized && info.st_size < END_BYTES + COMMENT) size = (size_t)info.st_size;
	uint64_t from = sized ? (uint64_t)info.st_size - size : 0;
	bool found = false;
	if (size && zip_read(zip, tail, size, from))
		for (size_t i = size - END_BYTES + 1; i-- > 0 && !found;) {
			if (memcmp(tail + i, "PK\5\6", 4) != 0) continue;
			found = true;
			zip->count = zip_number(tail + i + 10, 2);
			zip->at = zip_number(tail + i + 16, 4);
			bool locator = i >= 20 && memcmp(tail + i - 20, "PK\6\7", 4) == 0;
			if (locator && zip_read(zip, wide, sizeof wide, zip_number(tail + i - 12, 8)) &&
			    memcmp(wide, "PK\6\6", 4) == 0) {
				zip->count = zip_number(wide + 32, 8);
				zip->at = zip_number(wide + 48, 8);
			}
		}
	free(tail);
	if (!found) return archive_damaged(zip->path, "it has no directory", err);
	if (zip->count > LK_ARCHIVE_MEMBERS) return archive_damaged(zip->path, "too many members", err);
	return LK_OK;
}

/* Read sizes and place from ZIP64's extra field if the short ones refer to it. */
static void zip_widen(struct zip *zip, const unsigned char *extra, size_t size) {
	uint64_t *const wide[] = {&zip->size, &zip->packed, &zip->local};
	for (size_t i = 0; i + 4 <= size;) {
		size_t length = zip_number(extra + i + 2, 2), at = i + 4;
		if (zip_number(extra + i, 2) == 1)
			for (int k = 0; k < 3; k++) {
				if (*wide[k] != UINT32_MAX || at + 8 > i + 4 + length || at + 8 > size) continue;
				*wide[k] = zip_number(extra + at, 8);
				at += 8;
			}
		i += 4 + length;
	}
}

static lk_status zip_next(struct zip *zip, bool *more, lk_error *err) {
	unsigned char entry[ENTRY_BYTES], extra[1024];
	*more = zip->count > 0;
	if (!*more) return LK_OK;
	zip->count--;
	if (!zip_read(zip, entry, sizeof entry, zip->at) || memcmp(entry, "PK\1\2", 4) != 0)
		return archive_damaged(zip->path, "an entry of its directory is malformed", err);
	zip->method = (unsigned)zip_number(entry + 10, 2);
	zip->packed = zip_number(entry + 20, 4);
	zip->size = zip_number(entry + 24, 4);
	zip->local = zip_number(entry + 42, 4);
	size_t name = zip_number(entry + 28, 2), rest = zip_number(entry + 30, 2),
		   comment = zip_number(entry + 32, 2);
	if (name >= sizeof zip->name || !zip_read(zip, zip->name, name, zip->at + ENTRY_BYTES))
		return archive_damaged(zip->path, "a name is malformed", err);
	zip->name[name] = '\0';
	if (rest <= sizeof extra && zip_read(zip, extra, rest, zip->at + ENTRY_BYTES + name))
		zip_widen(zip, extra, rest);
	zip->at += ENTRY_BYTES + name + rest + comment;
	return LK_OK;
}

static lk_status zip_list(const char *path, lk_archive_member_fn *member, void *context,
                          lk_error *err) {
	struct zip zip = {.path = path, .fd = open(path, O_RDONLY | O_CLOEXEC)};
	if (zip.fd < 0) return lk_fail(err, LK_ERR_IO, path, "cannot open: %s", strerror(errno));
	bool more = true;
	lk_status status = zip_open(&zip, err);
	while (status == LK_OK && (status = zip_next(&zip, &more, err)) == LK_OK && more)
		if (!lk_ends_in(zip.name, "/")) status = member(context, zip.name, err);
	close(zip.fd);
	return status;
}

/* Copy the bytes of the current entry, stored or inflated. */
static lk_status zip_copy(const struct zip *zip, int to, lk_error *err) {
	unsigned char local[LOCAL_BYTES];
	unsigned char *in = malloc(PIECE), *out = malloc(PIECE);
	z_stream inflater = {0};
	bool deflated = zip->method == 8, sound = in && out && (deflated || zip->method == 0);
	bool begun = sound && deflated && inflateInit2(&inflater, -15) == Z_OK;
	sound = sound && begun == deflated && zip->size <= (uint64_t)MEMBER_BYTES &&
	        zip_read(zip, local, sizeof local, zip->local) && memcmp(local, "PK\3\4", 4) == 0;
	uint64_t at = zip->local + LOCAL_BYTES, left = zip->packed, written = 0;
	if (sound) at += zip_number(local + 26, 2) + zip_number(local + 28, 2);
	int state = Z_OK;
	lk_status bounded = LK_OK;
	while (sound && bounded == LK_OK && left > 0 && state == Z_OK) {
		size_t wish = left < PIECE ? (size_t)left : PIECE;
		sound = zip_read(zip, in, wish, at);
		at += wish;
		left -= wish;
		if (sound && !deflated) sound = archive_write(to, in, wish);
		inflater.next_in = in;
		inflater.avail_in = (uInt)wish;
		while (sound && deflated && state == Z_OK && (inflater.avail_in || !inflater.avail_out)) {
			inflater.next_out = out;
			inflater.avail_out = PIECE;
			state = inflate(&inflater, Z_NO_FLUSH);
			LK_ASSERT(inflater.avail_out <= PIECE);
			size_t made = PIECE - inflater.avail_out;
			written += made;
			sound = (state == Z_OK || state == Z_STREAM_END || state == Z_BUF_ERROR) &&
			        written <= (uint64_t)MEMBER_BYTES && archive_write(to, out, made);
			bounded = lk_stream_expands(zip->packed - left, written, zip->path, err);
			if (state == Z_BUF_ERROR || bounded != LK_OK) break;
		}
		if (state == Z_BUF_ERROR) state = Z_OK;
	}
	if (begun) inflateEnd(&inflater);
	free(in);
	free(out);
	LK_TRY(bounded);
	return sound ? LK_OK
	             : archive_damaged(zip->path,
	                               "a member cannot be unpacked (stored and deflated ones "
	                               "can)",
	                               err);
}

static lk_status zip_unpack(const char *path, const char *name, int to, bool *found,
                            lk_error *err) {
	struct zip zip = {.path = path, .fd = open(path, O_RDONLY | O_CLOEXEC)};
	if (zip.fd < 0) return lk_fail(err, LK_ERR_IO, path, "cannot open: %s", strerror(errno));
	bool more = true;
	lk_status status = zip_open(&zip, err);
	while (status == LK_OK && !*found && (status = zip_next(&zip, &more, err)) == LK_OK && more)
		*found = strcmp(zip.name, name) == 0;
	if (status == LK_OK && *found) status = zip_copy(&zip, to, err);
	close(zip.fd);
	return status;
}

/* ---- either ---- */

/* 'z' a zip, 't' a tar in any compression, 0 neither. */
static char archive_kind(const char *path) {
	const char *head;
	size_t size;
	lk_stream *in;
	struct stat info;
	char kind = 0;
	if (strcmp(path, "-") == 0 || stat(path, &info) != 0 || !S_ISREG(info.st_mode)) return 0;
	if (lk_stream_open(path, &in, NULL) != LK_OK) return 0;
	if (lk_stream_peek(in, BLOCK, &head, &size, NULL) == LK_OK) {
		bool plain = lk_stream_plain(in);
		if (plain && size >= 4 && memcmp(head, "PK\3\4", 4) == 0) kind = 'z';
		if (size == BLOCK && head[0] && memcmp(head + 257, "ustar", 5) == 0 &&
		    tar_sound((const unsigned char *)head))
			kind = 't';
	}
	lk_stream_close(in);
	return kind;
}

bool lk_archive_is(const char *path) {
	return archive_kind(path) != 0;
}

lk_status lk_archive_list(const char *path, lk_archive_member_fn *member, void *context,
                          lk_error *err) {
	return (archive_kind(path) == 'z' ? zip_list : tar_list)(path, member, context, err);
}

const char *lk_archive_mark(const char *path) {
	struct stat info;
	const char *mark = strchr(path, '!');
	return mark && mark > path && mark[1] && stat(path, &info) != 0 ? mark : NULL;
}

/* A temporary file that disappears when it is closed. */
static int archive_scratch(const char *path, lk_error *err) {
	const char *folder = getenv("TMPDIR");
	char name[NAME_BYTES];
	if (!folder || !*folder) folder = "/tmp";
	snprintf(name, sizeof name, "%s/lockstep-XXXXXX", folder);
	int fd = mkostemp(name, O_CLOEXEC);
	if (fd < 0)
		lk_fail(err, LK_ERR_IO, path, "cannot unpack to %.200s: %s", folder, strerror(errno));
	else unlink(name);
	return fd;
}

lk_status lk_archive_open(const char *path, lk_stream **out, lk_error *err) {
	const char *mark = lk_archive_mark(path);
	if (!mark) return lk_stream_open(path, out, err);
	char *archive = strndup(path, (size_t)(mark - path));
	bool found = false;
	*out = NULL;
	if (!archive) return lk_oom(err);
	int to = archive_scratch(path, err);
	lk_status status = to < 0 ? LK_ERR_IO : LK_OK;
	if (status == LK_OK)
		status = (archive_kind(archive) == 'z' ? zip_unpack : tar_unpack)(archive, mark + 1, to,
		                                                                  &found, err);
	if (status == LK_OK && !found)
		status = lk_fail(err, LK_ERR_INPUT, archive, "has no member \"%.200s\"", mark + 1);
	if (status == LK_OK && lseek(to, 0, SEEK_SET) != 0)
		status = lk_fail(err, LK_ERR_IO, path, "cannot unpack: %s", strerror(errno));
	if (status == LK_OK) status = lk_stream_descriptor(to, path, out, err);
	else if (to >= 0) close(to);
	free(archive);
	return status;
}
