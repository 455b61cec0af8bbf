/* stream.h: bytes in and out. Input is plain, gzip or zstd (told by its first bytes, not by its
 * name); what other programs pack is refused by name, and what expands without end where it is
 * read. "-" is standard input. Output goes to a temporary file alongside the target and is renamed
 * when it is complete: nothing half-written. */
#ifndef LK_IO_STREAM_H
#define LK_IO_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "lockstep/error.h"

typedef struct lk_stream lk_stream;

lk_status lk_stream_open(const char *path, lk_stream **out, lk_error *err);
/* Reads from an open file, which the stream closes, also where opening fails. */
lk_status lk_stream_descriptor(int fd, const char *name, lk_stream **out, lk_error *err);
/* Reads from memory (borrowed); `name` is in error messages. */
lk_status lk_stream_memory(const void *bytes, size_t size, const char *name, lk_stream **out,
                           lk_error *err);
/* `size` bytes into `buffer`; fewer only at the end of the input, 0 when nothing is left. After an
 * error, *got bytes that were sound stand there. */
lk_status lk_stream_read(lk_stream *stream, void *buffer, size_t size, size_t *got, lk_error *err);
/* The next bytes without taking them: up to `most`, fewer only where the input ends or is damaged,
 * which reading finds when it comes there. They hold until the next call for the stream. */
lk_status lk_stream_peek(lk_stream *stream, size_t most, const char **bytes, size_t *got,
                         lk_error *err);
/* Whether the bytes of the source are what is read: neither gzip nor zstd. */
bool lk_stream_plain(const lk_stream *stream);
/* LK_ERR_INPUT where `packed` bytes expanded to `made` can only be made to hurt: over 64 MiB, and
 * 256 times as many. Traces shrink 5 to 60 times. */
lk_status lk_stream_expands(uint64_t packed, uint64_t made, const char *name, lk_error *err);
const char *lk_stream_name(const lk_stream *stream);
void lk_stream_close(lk_stream *stream);
/* The whole input, '\0' after it (not counted), to be freed by the caller with free(). Over
 * `limit` bytes is an error. */
lk_status lk_stream_slurp(const char *path, size_t limit, char **text, size_t *size, lk_error *err);
/* The same of what is left of an open stream. */
lk_status lk_stream_rest(lk_stream *stream, size_t limit, char **text, size_t *size, lk_error *err);

/* Writing. A path that ends in .gz is compressed with gzip. "-" is standard output. */
typedef struct lk_sink lk_sink;

lk_status lk_sink_open(const char *path, lk_sink **out, lk_error *err);
lk_status lk_sink_write(lk_sink *sink, const void *bytes, size_t size, lk_error *err);
/* The sink as a FILE, for those who write with stdio; it belongs to the sink, which closes it. NULL
 * when memory runs out. */
FILE *lk_sink_file(lk_sink *sink);
/* Whether something could not be written so far: then the commit fails and says why. */
bool lk_sink_failed(const lk_sink *sink);
/* Completes the file and renames it into place; frees the sink in every case. */
lk_status lk_sink_commit(lk_sink *sink, lk_error *err);
/* Gives up: the temporary file is removed. Accepts NULL. */
void lk_sink_abandon(lk_sink *sink);
/* printf into the sink; errors are kept and returned by lk_sink_commit. */
void lk_sink_printf(lk_sink *sink, const char *fmt, ...) LK_PRINTF(2, 3);

/* ---- inflate: gzip members, decoded piece by piece. By ISA-L's igzip where it was there at build
 * time (three times as fast on traces), else by zlib; both give the same bytes and check the same
 * sums. */

typedef struct lk_inflate lk_inflate;

typedef enum lk_inflate_state {
	LK_INFLATE_MORE, /* the input is used up or the output is full */
	LK_INFLATE_END,  /* the member is complete, its checksum and length are right */
	LK_INFLATE_DAMAGED,
	LK_INFLATE_MEMORY,
} lk_inflate_state;

lk_inflate *lk_inflate_new(void); /* at the begin of a member; NULL when memory runs out */
void lk_inflate_free(lk_inflate *inflate);
void lk_inflate_next(lk_inflate *inflate); /* to the begin of the next member */
/* Decodes from *at on into *to on and moves both. */
lk_inflate_state lk_inflate_some(lk_inflate *inflate, const unsigned char **at,
                                 const unsigned char *end, unsigned char **to,
                                 unsigned char *to_end);

#endif
