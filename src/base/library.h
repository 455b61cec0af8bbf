/* library.h: shared libraries of others that few questions need: loaded when the first of them
 * comes, so that all other starts do not pay for finding, mapping and relocating them and all that
 * they need themselves. */
#ifndef LK_BASE_LIBRARY_H
#define LK_BASE_LIBRARY_H

#include "lockstep/error.h"

/* Loads `file` ("libsqlite3.so.0"), for good, and writes the addresses of its functions names[],
 * ended by NULL, to calls[]. The error of a library that is missing says what to install. */
lk_status lk_library_load(const char *file, const char *package, const char *const *names,
                          void **calls, lk_error *err);

#endif
