/* library.h: third-party shared libraries that few questions need: loaded on first use, so that
 * other starts do not pay for finding, mapping and relocating them and their dependencies. Released
 * programs contain some of them (LK_LINKED), and the static program loads none (LK_STATIC); only
 * this header knows. */
#ifndef LK_SYSTEM_LIBRARY_H
#define LK_SYSTEM_LIBRARY_H

#include <stdbool.h>
#include "lockstep/error.h"

/* The loader's file name of a library, and its Debian package. */
typedef struct lk_library {
	const char *file, *package;
} lk_library;
extern const lk_library lk_library_sqlite, lk_library_http, lk_library_svg, lk_library_cuda;

/* Load a library permanently and write the addresses of its functions names[], ended by NULL, to
 * calls[]. If it is missing, the error says what to install. */
lk_status lk_library_load(const lk_library *library, const char *const *names, void **calls,
                          lk_error *err);

/* For optional use: the library, loaded permanently, or NULL; a function of it, or NULL. */
void *lk_library_open(const char *file);
void *lk_library_find(void *library, const char *name);

/* Whether it is part of this program, and whether this program can load others. */
bool lk_library_linked(const lk_library *library);
extern const bool lk_library_loads;

#endif
