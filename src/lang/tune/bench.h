/* bench.h: schedules of a program, measured: written as C and MPI, compiled, run by mpirun in turns, their results checked
 * against the interpreter.
 *
 * The source is built in a private directory (mkdtemp below $TMPDIR) by $MPICC (mpicc), run by $MPIRUN (mpirun); both are
 * called by argument vector and ended at a time limit. One process group runs all schedules, each round all in turn, so
 * that what else the machine does meets all of them. Ratios are of the same round; bounds are of the median ratio, by
 * order statistics (the sign test), which asks nothing of the distribution.
 *
 *   bench.c         building, running, reading
 *   bench_check.c   results against the interpreter
 *   bench_count.c   bytes that steps send and touch
 *   bench_print.c   the action of `lockstep compile`: schedules chosen, a table or JSON
 */
#ifndef LK_PLAN_BENCH_H
#define LK_PLAN_BENCH_H

#include "lang/run/sizes.h"
#include "lang/emit/emit.h"
#include "lang/tune/timed.h"

typedef struct lc_bench_options {
	const char *sizes, *set;    /* as lc_sizes_read; scalars */
	int seed;
	int repeat;                 /* rounds; 0: 21 */
	double seconds;             /* limit for the compiler, and for all runs; 0: 300 */
	bool unchecked;             /* results are not compared with the interpreter's */
	const lk_cluster *cluster;  /* to hold predictions against; may be NULL */
} lc_bench_options;

typedef struct lc_interval {
	double median, low, high;   /* 95 % bounds of the median; NAN where there are too few */
} lc_interval;

/* What one rank moves in one run, the largest of all ranks. */
typedef struct lc_moved {
	double sent;                /* bytes by collectives in their rings, permutes and sends */
	double between;             /* of these, by sends between groups */
	double touched;             /* bytes that computing reads and writes; what a ring sends or receives is not among them */
} lc_moved;

typedef struct lc_bench_row {
	const char *name;           /* of the variant */
	double *seconds;            /* [rounds] the slowest rank's */
	lc_interval time, ratio;    /* ratio: the first variant's time over this one's */
	lc_moved moved;
	bool checked, agrees;       /* with the interpreter, at small sizes, as far as rounding lets it */
	double predicted;           /* seconds on the cluster that was given; NAN */
} lc_bench_row;

typedef struct lc_bench_result {
	lc_bench_row *rows;         /* one per variant */
	int count, rounds;
	int64_t ranks;
	double spread;              /* the first variant against itself in the next round: how far 95 % bounds of that ratio
	                               are from 1 */
	double tau;                 /* Kendall's, of predicted and measured times, over pairs whose bounds of the median ratio
	                               leave 1 out; NAN without such */
	int pairs;                  /* of these */
	lk_arena arena;
} lc_bench_result;

/* LK_ERR_INPUT where the compiler finds fault, the run fails or takes too long: with what they said last. */
lk_status lc_bench(const lc_program *original, const lc_variant *variants, int count, const lc_bench_options *o,
                   lc_bench_result *out, lk_error *err);
void lc_bench_free(lc_bench_result *result);
/* Whether this machine can: a compiler and a launcher are there. */
bool lc_bench_can(lk_error *err);

lk_status lc_moved_count(const lc_steps *steps, const lc_sizes *sizes, lc_moved *out, lk_error *err);
/* Median of n numbers and its 95 % bounds. */
lc_interval lc_median_bounds(const double *x, int n);

#endif
