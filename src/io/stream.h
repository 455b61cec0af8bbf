/* stream.h: bytes in and out. Input is plain, gzip or zstd (detected by its first bytes, not by its
 * name); other compression formats are refused by name, and so is input that expands without limit.
 * "-" is standard input. Output goes to a temporary file next to the target and is renamed when it
 * is complete: no partial files. */
#ifndef LK_IO_STREAM_H
#define LK_IO_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "lockstep/error.h"

typedef struct lk_stream lk_stream;

lk_status lk_stream_open(const char *path, lk_stream **out, lk_error *err);
/* Read from an open file, which the stream closes, even if opening fails. */
lk_status lk_stream_descriptor(int fd, const char *name, lk_stream **out, lk_error *err);
/* Read from memory (borrowed); `name` is used in messages. */
lk_status lk_stream_memory(const void *bytes, size_t size, const char *name, lk_stream **out,
                           lk_error *err);
/* Read `size` bytes into `buffer`; fewer only at the end of the input, 0 at its end. After an
 * error, the first *got bytes are valid. */
lk_status lk_stream_read(lk_stream *stream, void *buffer, size_t size, size_t *got, lk_error *err);
/* Peek at the next bytes: up to `most`, fewer only if the input ends or is damaged, which reading
 * reports when it gets there. Valid until the next call for the stream. */
lk_status lk_stream_peek(lk_stream *stream, size_t most, const char **bytes, size_t *got,
                         lk_error *err);
/* Whether the source is read unchanged: neither gzip nor zstd. */
bool lk_stream_plain(const lk_stream *stream);
/* LK_ERR_INPUT if `packed` bytes that expand to `made` must be malicious: over 64 MiB, and 256
 * times as many. Traces shrink 5 to 60 times. */
lk_status lk_stream_expands(uint64_t packed, uint64_t made, const char *name, lk_error *err);
const char *lk_stream_name(const lk_stream *stream);
void lk_stream_close(lk_stream *stream);
/* Read the whole input, with a final '\0' (not counted); the caller frees it with free(). More than
 * `limit` bytes is an error. */
lk_status lk_stream_slurp(const char *path, size_t limit, char **text, size_t *size, lk_error *err);
/* Likewise for the rest of an open stream. */
lk_status lk_stream_rest(lk_stream *stream, size_t limit, char **text, size_t *size, lk_error *err);

/* Writing. A path ending in .gz is compressed with gzip. "-" is standard output. */
typedef struct lk_sink lk_sink;

lk_status lk_sink_open(const char *path, lk_sink **out, lk_error *err);
lk_status lk_sink_write(lk_sink *sink, const void *bytes, size_t size, lk_error *err);
/* The sink as a FILE, for stdio; the sink owns and closes it. NULL when memory runs out. */
FILE *lk_sink_file(lk_sink *sink);
/* Whether a write has failed so far: then the commit fails with the cause. */
bool lk_sink_failed(const lk_sink *sink);
/* Complete the file and rename it into place; frees the sink in every case. */
lk_status lk_sink_commit(lk_sink *sink, lk_error *err);
/* Give up: remove the temporary file. Accepts NULL. */
void lk_sink_abandon(lk_sink *sink);
/* printf into the sink; errors are kept and returned by lk_sink_commit. */
void lk_sink_printf(lk_sink *sink, const char *fmt, ...) LK_PRINTF(2, 3);

/* ---- seals: a sum over the bytes of a state file, in its last line, by which a changed bit is
 * detected. Files that have a form (form.h) get one from the sink; the stream checks it
 * when such a file is opened. Text ends in "# lockstep seal SUM", JSON in its last member,
 * "lockstep_seal". Packed files have their format's sum instead. A file without a seal, or with
 * something after it, is as people write them. ---- */

/* Of the last bytes of a sealed file. */
enum { LK_SEAL_ROOM = 64, LK_SEAL_KEPT = 3 };

/* Whether a file that begins so is sealed. */
bool lk_seal_wanted(const char *bytes, size_t size);
/* The end of a file whose bytes, without the last ones, have this sum: what to write instead of
 * them (at most LK_SEAL_KEPT), as text. Returns its length; 0: it cannot be sealed. */
size_t lk_seal_end(const char *last, size_t size, uint64_t sum, char out[LK_SEAL_ROOM]);
/* Check the seal of an open regular file, if it has one; leaves its position. LK_ERR_INPUT if the
 * bytes are not those that were written. */
lk_status lk_seal_check(int fd, const char *name, lk_error *err);

/* ---- inflate: gzip members, decoded piece by piece. By ISA-L's igzip if available at build time
 * (three times as fast on traces), else by zlib; both give the same bytes and verify the same
 * checksums. */

typedef struct lk_inflate lk_inflate;

typedef enum lk_inflate_state {
	LK_INFLATE_MORE, /* the input is used up or the output is full */
	LK_INFLATE_END,  /* the member is complete, its checksum and length are right */
	LK_INFLATE_DAMAGED,
	LK_INFLATE_MEMORY,
} lk_inflate_state;

lk_inflate *lk_inflate_new(void); /* at the start of a member; NULL when memory runs out */
void lk_inflate_free(lk_inflate *inflate);
void lk_inflate_next(lk_inflate *inflate); /* to the start of the next member */
/* Decode from *at on into *to on and move both. */
lk_inflate_state lk_inflate_some(lk_inflate *inflate, const unsigned char **at,
                                 const unsigned char *end, unsigned char **to,
                                 unsigned char *to_end);

#endif
