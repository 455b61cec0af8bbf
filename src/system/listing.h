/* listing.h: all names in a folder, in an order independent of the file system. */
#ifndef LK_SYSTEM_LISTING_H
#define LK_SYSTEM_LISTING_H

#include <stddef.h>
#include "base/arena.h"
#include "lockstep/error.h"

typedef struct lk_listing {
	const char **names; /* sorted by bytes; without "." and ".." */
	size_t count;
	lk_arena arena; /* owns them */
} lk_listing;

/* List the names with this ending (NULL: all). A folder that cannot be read to its end is an error;
 * nothing is to be freed then. */
lk_status lk_listing_read(const char *folder, const char *ending, lk_listing *out, lk_error *err);
void lk_listing_free(lk_listing *listing);

/* Visit what has such a name, until a visit fails: its path, and the name within it. */
typedef lk_status lk_listing_visitor(void *context, const char *path, const char *name,
                                     lk_error *err);
lk_status lk_listing_visit(const char *folder, const char *ending, lk_listing_visitor *visit,
                           void *context, lk_error *err);

#endif
