/* pickle.h: pickles of Python as the values of io/json.h. Only data is read: nothing is imported,
 * called or built, and a pickle that wants it is refused with the name of what it wants.
 *
 * Protocols 2 to 5 with None, bool, int, float, str, bytes, list, tuple, dict and the memo. Tuples
 * are arrays, bytes are texts, keys that are numbers are their decimal text. Integers have the
 * precision of a double. A NUL in a text is read as U+FFFD. Values that the pickle shares share
 * their members here too, so a small file never becomes a huge tree in memory; code that follows
 * all paths must bound their number. */
#ifndef LK_PICKLE_PICKLE_H
#define LK_PICKLE_PICKLE_H

#include "io/json.h"

/* Whether the bytes begin a pickle of protocol 2 to 5. */
bool lk_pickle_is(const void *head, size_t size);

/* Read a whole pickle into the arena; `name` is used in messages. LK_ERR_INPUT with the byte where
 * it is damaged, nested deeper than LK_JSON_DEPTH, or no plain data; LK_ERR_MEMORY. */
lk_status lk_pickle_document(lk_arena *arena, const void *bytes, size_t size, const char *name,
                             lk_value **out, lk_error *err);

#endif
