/* recording_file.c: the reader of recordings: any bytes are a recording as far as they are whole, or an error. The file
 * may still be growing, or be cut while it is read: blocks are copied one by one. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/recording.h"
#include "lockstep/error.h"

/* More than any --max-mb allows; a larger file is sparse and made to be slow. */
static const uint64_t MOST_BYTES = UINT64_C(20) << 30;

static bool read_at(const lk_recording *r, void *to, size_t size, uint64_t from) {
	if (from + size > r->size) return false;
	if (r->bytes) return memcpy(to, r->bytes + from, size), true;
	return pread(r->fd, to, size, (off_t)from) == (ssize_t)size;
}

static lk_status check_head(const lk_recording *r, lk_error *err) {
	const lk_recording_head *h = &r->head;
	if (memcmp(h->magic, LK_RECORDING_MAGIC, sizeof h->magic) != 0)
		return lk_fail(err, LK_ERR_INPUT, r->path, "is no recording of lockstep");
	if (h->version < LK_RECORDING_OLDEST || h->version > LK_RECORDING_VERSION) {
		lk_fail(err, LK_ERR_INPUT, r->path, "is a recording of version %u; this program reads %d to %d", h->version,
		        LK_RECORDING_OLDEST, LK_RECORDING_VERSION);
		return lk_hint(err, "record it anew, or read it with the lockstep that made it");
	}
	if (h->header_bytes != LK_HEADER_BYTES || h->block_bytes != LK_BLOCK_BYTES || h->record_bytes != LK_RECORD_BYTES)
		return lk_fail(err, LK_ERR_INPUT, r->path, "the head of the recording is damaged");
	if (r->size > MOST_BYTES) return lk_fail(err, LK_ERR_INPUT, r->path, "is larger than any recording");
	return LK_OK;
}

static lk_status begin(lk_recording *r, lk_error *err) {
	if (r->size < LK_HEADER_BYTES || !read_at(r, &r->head, sizeof r->head, 0)) {
		lk_fail(err, LK_ERR_INPUT, r->path, "is no recording: it has %llu bytes", (unsigned long long)r->size);
		return lk_hint(err, "the process may have ended while its recording began");
	}
	r->head.host[sizeof r->head.host - 1] = r->head.program[sizeof r->head.program - 1] = '\0';
	r->head.marker[sizeof r->head.marker - 1] = '\0';
	LK_TRY(check_head(r, err));
	r->blocks = (uint32_t)((r->size - LK_HEADER_BYTES) / LK_BLOCK_BYTES);
	r->here = malloc(sizeof *r->here);
	return r->here ? LK_OK : lk_oom(err);
}

int lk_recording_of(const char *path, const void *bytes, size_t size, lk_recording *out, lk_error *err) {
	*out = (lk_recording){.path = path, .bytes = bytes, .size = size, .fd = -1};
	return begin(out, err);
}

static lk_status open_file(lk_recording *r, lk_error *err) {
	struct stat info;
	r->fd = open(r->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (r->fd < 0) return lk_fail(err, LK_ERR_IO, r->path, "cannot open: %s", strerror(errno));
	if (fstat(r->fd, &info) != 0) return lk_fail(err, LK_ERR_IO, r->path, "cannot read: %s", strerror(errno));
	if (!S_ISREG(info.st_mode)) return lk_fail(err, LK_ERR_INPUT, r->path, "is no file");
	r->size = (uint64_t)info.st_size;
	return begin(r, err);
}

int lk_recording_open(const char *path, lk_recording *out, lk_error *err) {
	*out = (lk_recording){.path = path, .fd = -1};
	lk_status status = open_file(out, err);
	if (status != LK_OK) lk_recording_close(out);
	return status;
}

void lk_recording_close(lk_recording *r) {
	if (r->fd >= 0) close(r->fd);
	free(r->here);
	r->fd = -1, r->here = NULL;
}

void lk_recording_rewind(lk_recording *r) {
	r->block = r->at = 0;
	r->loaded = false;
}

/* ---- records ---- */

/* The pieces behind a record. */
static void read_text(lk_recording *r, lk_recorded *out) {
	size_t length = 0;
	for (; r->at < LK_BLOCK_RECORDS && r->here->record[r->at].kind == LK_RECORD_TEXT; r->at++) {
		if (length >= LK_TEXT_MOST) continue;
		memcpy(out->text + length, (const char *)&r->here->record[r->at] + offsetof(lk_record_text, text), LK_TEXT_PIECE);
		length += LK_TEXT_PIECE;
	}
	out->text[length] = '\0';
}

static bool load(lk_recording *r) {
	if (r->loaded) return true;
	uint64_t from = LK_HEADER_BYTES + (uint64_t)r->block * LK_BLOCK_BYTES;
	r->loaded = read_at(r, r->here, sizeof *r->here, from) && r->here->magic == LK_BLOCK_MAGIC;
	return r->loaded;
}

/* Up to the first place that was never filled. */
static bool more_here(lk_recording *r) {
	if (!load(r) || r->at >= LK_BLOCK_RECORDS) return false;
	uint16_t kind = r->here->record[r->at].kind;
	return kind != LK_RECORD_NONE && kind < LK_RECORD_KINDS;
}

bool lk_recording_next(lk_recording *r, lk_recorded *out) {
	for (; r->block < r->blocks; r->block++, r->at = 0, r->loaded = false) {
		while (more_here(r)) {
			out->record = r->here->record[r->at++];
			if (out->record.kind == LK_RECORD_TEXT) continue;
			read_text(r, out);
			return true;
		}
	}
	return false;
}
