/* archive.h: files in archives: tar, plain or packed with gzip or zstd, and zip (stored or
 * deflated). A member is named "ARCHIVE!MEMBER", and read through an unlinked temporary file, so
 * that nothing is left behind. */
#ifndef LK_IO_ARCHIVE_H
#define LK_IO_ARCHIVE_H

#include <stdbool.h>
#include <stddef.h>

#include "io/stream.h"
#include "lockstep/error.h"

enum {
	LK_ARCHIVE_MEMBERS = 1 << 17 /* most members of an archive */
};

/* Whether the file is an archive, by its content. */
bool lk_archive_is(const char *path);
/* Call `member` with the name of every regular file, in the order of the archive. */
typedef lk_status lk_archive_member_fn(void *context, const char *name, lk_error *err);
lk_status lk_archive_list(const char *path, lk_archive_member_fn *member, void *context,
                          lk_error *err);
/* The '!' between an archive and its member; NULL: the path is a plain file's. */
const char *lk_archive_mark(const char *path);
/* Open "ARCHIVE!MEMBER"; other paths as lk_stream_open. */
lk_status lk_archive_open(const char *path, lk_stream **out, lk_error *err);

#endif
