/* emit_header.h: the functions by which another program calls an emitted one: their names and declarations. */
#ifndef LK_LANG_TARGET_HEADER_H
#define LK_LANG_TARGET_HEADER_H

#include "lang/emit/emit.h"
#include "lang/emit/emit_text.h"

enum { LC_API = 3 * LC_IDENTIFIER };

/* "lk_PROGRAM", `what` ("_run_"), schedule or "". Returns `out`. */
char *lc_api_name(const lc_program *original, const char *what, const char *schedule, char out[LC_API]);
/* "in_g", "state_w", "out1", "out2_z" (`output` counts from 1). */
char *lc_api_argument(const lc_program *p, int id, int output, char out[LC_IDENTIFIER]);
/* Indices of groups in the order of their first use; how many. */
int lc_api_indices(const lc_program *p, const char *names[LC_VALUES]);
/* Declarations of all functions; then those of one schedule without ";", for their definitions. */
void lc_api_declarations(const lc_program *original, const lc_variant *variants, int count, bool cuda, FILE *out);
void lc_api_open_signature(const lc_program *original, const lc_variant *v, bool cuda, FILE *out);
void lc_api_signature(const lc_program *original, const lc_variant *v, FILE *out);

#endif
