/* library.h: third-party shared libraries that few questions need: loaded on first use, so that
 * other starts do not pay for finding, mapping and relocating them and their dependencies. Released
 * programs contain some of them (LK_LINKED), and the static program loads none (LK_STATIC); only
 * this header knows. */
#ifndef LK_SYSTEM_LIBRARY_H
#define LK_SYSTEM_LIBRARY_H

#include <pthread.h>
#include <stdbool.h>
#include "lockstep/error.h"

/* The loader's file name of a library, and its Debian package. */
typedef struct lk_library {
	const char *file, *package;
} lk_library;
extern const lk_library lk_library_sqlite, lk_library_http, lk_library_svg, lk_library_cuda;

/* A library's load, by whichever thread needs it first; after a failure the next one tries again.
 */
typedef struct lk_library_once {
	pthread_mutex_t lock;
	bool done;
} lk_library_once;
#define LK_LIBRARY_ONCE \
	{ .lock = PTHREAD_MUTEX_INITIALIZER }

/* Load a library permanently, once, and write the addresses of its functions names[], ended by
 * NULL, to `calls`, a struct of pointers to functions. If it is missing, the error says what to
 * install. */
lk_status lk_library_load(const lk_library *library, lk_library_once *once,
                          const char *const *names, void *calls, lk_error *err);

/* For optional use: the library, loaded permanently, or NULL; a function of it, or NULL. */
void *lk_library_open(const char *file);
void *lk_library_find(void *library, const char *name);

/* Whether it is part of this program, and whether this program can load others. */
bool lk_library_linked(const lk_library *library);
extern const bool lk_library_loads;

#endif
