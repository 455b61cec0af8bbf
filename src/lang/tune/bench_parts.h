/* bench_parts.h: what the files of the measurement share. */
#ifndef LK_PLAN_BENCH_PARTS_H
#define LK_PLAN_BENCH_PARTS_H

#include "base/process.h"
#include "lang/tune/bench.h"

typedef struct lc_bench_job {
	const lc_program *original;
	const lc_variant *variants;
	const lc_bench_options *o;
	lc_bench_result *result;
	lc_sizes sizes;
	char folder[4096], source[4128], program[4128];
	double seconds;             /* left of the time limit */
} lc_bench_job;

/* Runs the program under the launcher, with these arguments behind its name. */
lk_status lc_bench_run(const lc_bench_job *b, const char *const *last, lk_process_end *end, lk_error *err);
/* bench_check.c: all variants at small sizes, on the same mesh, against the interpreter. */
lk_status lc_bench_check(const lc_bench_job *b, lk_error *err);

#endif
