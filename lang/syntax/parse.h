/* parse.h: the parser. */
#ifndef LC_PARSE_H
#define LC_PARSE_H

#include "lang/types/program.h"

/* Reads programs and schedules; *out is set also when there is an error at a place (mistake tells
 * where), and must be freed in every case. */
enum { LC_TEXT_LIMIT = 1 << 18 };
lk_status lc_parse(const char *path, const char *text, size_t size, lc_file **out, lk_error *err);
/* The same, where `sizes`, "cp=8,...", says how many ranks an axis has that the text fixes. */
lk_status lc_parse_sized(const char *path, const char *text, size_t size, const char *sizes,
                         lc_file **out, lk_error *err);

#endif
