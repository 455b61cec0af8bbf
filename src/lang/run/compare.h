/* compare.h: what an emitted program has computed, held against the interpreter. */
#ifndef LK_LANG_COMPARE_H
#define LK_LANG_COMPARE_H

#include "lang/compile/compile.h"
#include "lang/run/run.h"

/* Reads request->compare/SCHEDULE.RANK of every rank (target.h has the form) and says how far each
 * result is from that of `run`, which has kept all its values; answer->no where it is further than
 * rounding explains (run_bound.c). */
lk_status lc_compare(lk_compile *answer, const lc_run *run, const lk_compile_request *request,
                     FILE *out, lk_error *err);

#endif
