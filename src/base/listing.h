/* listing.h: the names in a folder, whole and in one order whatever the file system's. */
#ifndef LK_BASE_LISTING_H
#define LK_BASE_LISTING_H

#include <stddef.h>
#include "base/arena.h"
#include "lockstep/error.h"

typedef struct lk_listing {
	const char **names; /* by bytes; without "." and ".." */
	size_t count;
	lk_arena arena; /* owns them */
} lk_listing;

/* The names that have this ending (NULL: all of them). A folder that cannot be read to its end is
 * an error; nothing is to be freed then. */
lk_status lk_listing_read(const char *folder, const char *ending, lk_listing *out, lk_error *err);
void lk_listing_free(lk_listing *listing);

#endif
