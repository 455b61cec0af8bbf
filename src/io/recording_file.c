/* recording_file.c: the reader of recordings: any bytes are a recording as far as they are
 * complete, or an error. The file may still grow, or be truncated while it is read: blocks are
 * copied one by one. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/sum.h"
#include "io/recording.h"
#include "lockstep/error.h"

/* More than any --max-mb allows; a larger file is sparse and meant to be slow. */
static const uint64_t MOST_BYTES = UINT64_C(20) << 30;

/* False if not all bytes exist or can be read: then recording->error is set. */
static bool file_read_at(lk_recording *recording, void *to, size_t size, uint64_t from) {
	if (from + size > recording->size) return false;
	if (recording->bytes) return memcpy(to, recording->bytes + from, size), true;
	for (size_t read = 0; read < size;) {
		ssize_t got = pread(recording->fd, (char *)to + read, size - read, (off_t)(from + read));
		if (got < 0 && errno == EINTR) continue;
		if (got < 0) recording->error = errno;
		if (got <= 0) return false;
		read += (size_t)got;
	}
	return true;
}

int lk_recording_status(const lk_recording *recording, lk_error *err) {
	if (!recording->error) return LK_OK;
	return lk_fail(err, LK_ERR_IO, recording->path, "cannot read: %s", strerror(recording->error));
}

static lk_status check_head(const lk_recording *recording, lk_error *err) {
	const lk_recording_head *head = &recording->head;
	if (memcmp(head->magic, LK_RECORDING_MAGIC, sizeof head->magic) != 0) {
		lk_fail(err, LK_ERR_INPUT, recording->path, "is not a recording of lockstep");
		return lk_hint(err, "give one that lockstep record made");
	}
	if (head->version < LK_RECORDING_OLDEST || head->version > LK_RECORDING_VERSION) {
		lk_fail(err, LK_ERR_INPUT, recording->path,
		        "is a recording of version %u; this program reads %d to %d", head->version,
		        LK_RECORDING_OLDEST, LK_RECORDING_VERSION);
		return lk_hint(err, "record it anew, or read it with the lockstep that made it");
	}
	if (head->header_bytes != LK_HEADER_BYTES || head->block_bytes != LK_BLOCK_BYTES ||
	    head->record_bytes != LK_RECORD_BYTES)
		return lk_fail(err, LK_ERR_INPUT, recording->path, "the head of the recording is damaged");
	if (recording->size > MOST_BYTES)
		return lk_fail(err, LK_ERR_INPUT, recording->path, "is larger than any recording");
	return LK_OK;
}

static lk_status file_begin(lk_recording *recording, lk_error *err) {
	if (recording->size < LK_HEADER_BYTES ||
	    !file_read_at(recording, &recording->head, sizeof recording->head, 0)) {
		LK_TRY(lk_recording_status(recording, err));
		lk_fail(err, LK_ERR_INPUT, recording->path, "is not a recording: it has %llu bytes",
		        (unsigned long long)recording->size);
		return lk_hint(err, "the process may have ended while its recording began");
	}
	recording->head.host[sizeof recording->head.host - 1] =
		recording->head.program[sizeof recording->head.program - 1] = '\0';
	recording->head.marker[sizeof recording->head.marker - 1] = '\0';
	LK_TRY(check_head(recording, err));
	recording->blocks = (uint32_t)((recording->size - LK_HEADER_BYTES) / LK_BLOCK_BYTES);
	recording->here = malloc(sizeof *recording->here);
	return recording->here ? LK_OK : lk_oom(err);
}

int lk_recording_of(const char *path, const void *bytes, size_t size, lk_recording *out,
                    lk_error *err) {
	*out = (lk_recording){.path = path, .bytes = bytes, .size = size, .fd = -1};
	return file_begin(out, err);
}

static lk_status file_open_file(lk_recording *recording, lk_error *err) {
	struct stat info;
	recording->fd = open(recording->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (recording->fd < 0)
		return lk_fail(err, LK_ERR_IO, recording->path, "cannot open: %s", strerror(errno));
	if (fstat(recording->fd, &info) != 0)
		return lk_fail(err, LK_ERR_IO, recording->path, "cannot read: %s", strerror(errno));
	if (!S_ISREG(info.st_mode)) return lk_fail(err, LK_ERR_INPUT, recording->path, "is no file");
	recording->size = (uint64_t)info.st_size;
	return file_begin(recording, err);
}

int lk_recording_open(const char *path, lk_recording *out, lk_error *err) {
	*out = (lk_recording){.path = path, .fd = -1};
	lk_status status = file_open_file(out, err);
	if (status != LK_OK) lk_recording_close(out);
	return status;
}

void lk_recording_close(lk_recording *recording) {
	if (recording->fd >= 0) close(recording->fd);
	free(recording->here);
	recording->fd = -1;
	recording->here = NULL;
}

/* ---- seals ---- */

static bool recording_sum(lk_recording *recording, uint64_t *sum) {
	uint64_t head[LK_HEADER_BYTES / 8];
	if (!file_read_at(recording, head, sizeof head, 0)) return false;
	head[offsetof(lk_recording_head, seal) / 8] = 0;
	*sum = lk_sum_words(LK_SUM_EMPTY, head, sizeof head / 8);
	recording->loaded = false;
	for (uint32_t block = 0; block < recording->blocks; block++) {
		uint64_t from = LK_HEADER_BYTES + (uint64_t)block * LK_BLOCK_BYTES;
		if (!file_read_at(recording, recording->here, sizeof *recording->here, from)) return false;
		*sum = lk_sum_words(*sum, (const void *)recording->here, sizeof *recording->here / 8);
	}
	*sum |= 3; /* no change of one bit makes it 0 */
	return true;
}

int lk_recording_check(lk_recording *recording, lk_error *err) {
	uint64_t sum;
	if (!recording->head.seal) return LK_OK;
	if (!recording_sum(recording, &sum)) return lk_recording_status(recording, err);
	if (sum == recording->head.seal) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, recording->path,
	        "is not as it was recorded: its seal does not fit its bytes");
	return lk_hint(err, "copy it again from where it was recorded, or record anew");
}

static bool process_has_ended(const lk_recording_head *head) {
	char host[sizeof head->host] = "";
	if (head->end_ns) return true;
	gethostname(host, sizeof host - 1);
	return strcmp(host, head->host) == 0 && kill((pid_t)head->pid, 0) != 0 && errno == ESRCH;
}

/* A part of a seal would make the recording another: what cannot be completed is taken back. */
static void write_seal(int fd, uint64_t sum) {
	off_t place = offsetof(lk_recording_head, seal);
	size_t done = 0;
	while (done < sizeof sum) {
		ssize_t n = pwrite(fd, (const char *)&sum + done, sizeof sum - done, place + (off_t)done);
		if (n > 0) done += (size_t)n;
		else if (n == 0 || errno != EINTR) break;
	}
	sum = 0;
	if (done > 0 && done < sizeof sum) (void)!pwrite(fd, &sum, sizeof sum, place);
}

void lk_recording_seal(const char *path) {
	lk_recording recording;
	uint64_t sum;
	if (lk_recording_open(path, &recording, NULL) != LK_OK) return;
	int fd = process_has_ended(&recording.head) && recording_sum(&recording, &sum)
	             ? open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW)
	             : -1;
	if (fd >= 0) write_seal(fd, sum);
	if (fd >= 0) close(fd);
	lk_recording_close(&recording);
}

void lk_recording_rewind(lk_recording *recording) {
	recording->block = recording->at = 0;
	recording->loaded = false;
}

/* ---- records ---- */

/* Read the pieces after a record. */
static void file_read_text(lk_recording *recording, lk_recorded *out) {
	size_t length = 0;
	for (; recording->at < LK_BLOCK_RECORDS &&
	       recording->here->record[recording->at].kind == LK_RECORD_TEXT;
	     recording->at++) {
		if (length >= LK_TEXT_MOST) continue;
		memcpy(out->text + length,
		       (const char *)&recording->here->record[recording->at] +
		           offsetof(lk_record_text, text),
		       LK_TEXT_PIECE);
		length += LK_TEXT_PIECE;
	}
	out->text[length] = '\0';
}

static bool file_load(lk_recording *recording) {
	if (recording->loaded) return true;
	uint64_t from = LK_HEADER_BYTES + (uint64_t)recording->block * LK_BLOCK_BYTES;
	recording->loaded = file_read_at(recording, recording->here, sizeof *recording->here, from) &&
	                    recording->here->magic == LK_BLOCK_MAGIC;
	return recording->loaded;
}

/* Whether more records exist up to the first place that was never filled. */
static bool more_here(lk_recording *recording) {
	if (!file_load(recording) || recording->at >= LK_BLOCK_RECORDS) return false;
	uint16_t kind = recording->here->record[recording->at].kind;
	return kind != LK_RECORD_NONE && kind < LK_RECORD_KINDS;
}

bool lk_recording_next(lk_recording *recording, lk_recorded *out) {
	for (; recording->block < recording->blocks;
	     recording->block++, recording->at = 0, recording->loaded = false) {
		while (more_here(recording)) {
			out->record = recording->here->record[recording->at++];
			if (out->record.kind == LK_RECORD_TEXT) continue;
			file_read_text(recording, out);
			return true;
		}
	}
	return false;
}
