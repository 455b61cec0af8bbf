/* library.h: shared libraries of others that few questions need: loaded when the first of them
 * comes, so that all other starts do not pay for finding, mapping and relocating them and all that
 * they need themselves. What a release gives out holds some of them (LK_LINKED), and its static
 * program loads none (LK_STATIC); this is the only place that knows. */
#ifndef LK_BASE_LIBRARY_H
#define LK_BASE_LIBRARY_H

#include <stdbool.h>
#include "lockstep/error.h"

/* The file by which the loader finds a library, and Debian's package of it. */
typedef struct lk_library {
	const char *file, *package;
} lk_library;
extern const lk_library lk_library_sqlite, lk_library_http, lk_library_svg, lk_library_cuda;

/* Loads a library, for good, and writes the addresses of its functions names[], ended by NULL, to
 * calls[]. The error of a library that is missing says what to install. */
lk_status lk_library_load(const lk_library *library, const char *const *names, void **calls,
                          lk_error *err);

/* For those who do without: the library, loaded for good, or NULL; a function of it, or NULL. */
void *lk_library_open(const char *file);
void *lk_library_find(void *library, const char *name);

/* Whether it is a part of this program, and whether this program can load others. */
bool lk_library_linked(const lk_library *library);
extern const bool lk_library_loads;

#endif
