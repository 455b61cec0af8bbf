/* intern.h: names as small numbers. Equal texts get equal ids; id 0 is the empty text. Ids count up
 * by first use. */
#ifndef LK_BASE_INTERN_H
#define LK_BASE_INTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct lk_intern lk_intern;

lk_intern *lk_intern_new(void); /* NULL when memory runs out */
void lk_intern_free(lk_intern *table);
/* The id of `text`; UINT32_MAX when memory runs out. */
uint32_t lk_intern_id(lk_intern *table, const char *text);
/* The id of a text of `length` bytes, none of them '\0'; it is copied. */
uint32_t lk_intern_bytes(lk_intern *table, const char *text, size_t length);
uint32_t lk_intern_find(const lk_intern *table, const char *text); /* UINT32_MAX if absent */
const char *lk_intern_text(const lk_intern *table, uint32_t id);
/* From now on `table` uses the texts of `pool`: thousands of tables with the same texts keep each
 * text once. Ids stay, pointers to texts do not. The pool lives until its creator and the last
 * table that shares it have freed it; only one thread shares and frees. False when memory runs out;
 * then only the pool has changed. */
bool lk_intern_share(lk_intern *table, lk_intern *pool);
uint32_t lk_intern_count(const lk_intern *table);
size_t lk_intern_bytes_used(const lk_intern *table); /* by the texts */

#endif
