/* tune.h: the time of a program on a cluster: its steps lowered, costed and simulated. */
#ifndef LK_LANG_TUNE_TUNE_H
#define LK_LANG_TUNE_TUNE_H

#include "system/cutoff.h"
#include "system/process.h"
#include "base/vec.h"
#include "cost/collective/collective.h"
#include "cost/cost.h"
#include "lang/emit/emit.h"
#include "lang/rewrite/rewrite.h"
#include "lang/run/run.h"
#include "lang/steps/steps.h"
#include "lockstep/stop.h"
#include "view/table/fields.h"
#include "whatif/whatif.h"

typedef struct lk_timed {
	double seconds;   /* until the last rank ends */
	double compute_s; /* time in which some rank computes */
	double exposed_s; /* the rest: communication, and waiting for it */
	double bytes;     /* of the rank with the highest memory, at its peak */
	uint64_t operations;
} lk_timed;

/* Constants of generated code: launches come from compiled code, one call after the other. */
void lk_timed_constants(lk_constants *out);

/* Time the steps. `chunks`: as in lc_lower. The cluster has at least the mesh's ranks. `messages`:
 * measured times of messages between hosts; NULL or empty: not measured. */
lk_status lk_time_steps(const lc_steps *steps, const lc_sizes *sizes, const lk_cluster *cluster,
                        const lk_host_messages *messages, const lk_constants *constants,
                        int64_t chunks, lk_timed *out, lk_error *err);

/* timed_host.c: replace the costs of GPUs by those of hosts: communication by MPI, as measured if
 * it was, and passes whose arithmetic exceeds their memory access. */
void lk_timed_on_hosts(const lk_graph *graph, const lk_cluster *cluster,
                       const lk_host_messages *messages, lk_costs *costs);
/* For a single measured machine with more processes than devices: give `cluster` a device per
 * process, with its share of cores and memory. Other clusters are unchanged. */
lk_status lk_timed_share_host(lk_arena *arena, int64_t ranks, lk_cluster *cluster, lk_error *err);

/* ---- bench: measured schedules of a program: written as C and MPI, compiled, run by mpirun in
 * turns, their results checked against the interpreter.
 *
 * The source is built in a private directory (mkdtemp below $TMPDIR) by $MPICC (mpicc), run by
 * $MPIRUN (mpirun); both are called by argument vector and ended at a time limit. One process group
 * runs all schedules, each round all in turn, so that other load on the machine affects all of
 * them. Ratios are of the same round; bounds are of the median ratio, by order statistics (the sign
 * test), which assumes nothing about the distribution.
 *
 *   bench.c         building, running, reading
 *   bench_check.c   results against the interpreter
 *   bench_count.c   bytes that steps send and touch
 *   bench_print.c   the action of `lockstep compile`: schedules chosen, a table or JSON */

typedef struct lc_bench_options {
	const char *sizes, *set; /* as for lc_sizes_read; scalars */
	int seed;
	int repeat;                       /* rounds; 0: 21 */
	double seconds;                   /* limit for the compiler, and for all runs; 0: 300 */
	bool unchecked;                   /* do not compare results with the interpreter's */
	const lk_cluster *cluster;        /* for predictions; may be NULL */
	const lk_host_messages *messages; /* for its hosts, see lk_time_steps */
} lc_bench_options;

typedef struct lc_interval {
	double median, low, high; /* 95 % bounds of the median; NAN with too few values */
} lc_interval;
extern const lk_answer_record lc_interval_record;

/* Bytes that one rank moves in one run, the largest over all ranks. */
typedef struct lc_moved {
	double sent;    /* bytes by collectives in their rings, permutes and sends */
	double between; /* of these, by sends between groups */
	double touched; /* bytes that computation reads and writes, without what a ring sends or
	                   receives */
} lc_moved;

typedef struct lc_bench_row {
	const char *name;        /* of the variant */
	double *seconds;         /* [rounds] of the slowest rank */
	lc_interval time, ratio; /* ratio: the first variant's time over this one's */
	lc_moved moved;
	bool checked, agrees; /* with the interpreter, at small sizes, within rounding */
	double predicted;     /* seconds on the given cluster; NAN */
} lc_bench_row;

typedef struct lc_bench_result {
	lc_bench_row *rows; /* one per variant */
	int count, rounds;
	int64_t ranks;
	double spread; /* noise: the first variant against itself in the next round: distance of the 95
	                  % bounds of that ratio from 1 */
	double tau; /* Kendall's, of predicted and measured times, over pairs whose bounds of the median
	               ratio exclude 1; NAN without such pairs */
	int pairs;  /* number of these pairs */
	const lc_program *p;
	const char *failed_check; /* NULL: none */
	lk_arena arena;
} lc_bench_result;
extern const lk_document lc_bench_document;

/* Run the benchmark. LK_ERR_INPUT if the compiler reports errors, or the run fails or takes too
 * long: with their last output. */
lk_status lc_bench(const lc_program *original, const lc_variant *variants, int count,
                   const lc_bench_options *options, lc_bench_result *out, lk_error *err);
void lc_bench_free(lc_bench_result *result);
/* Whether this machine can run it: there are a compiler and a launcher. */
bool lc_bench_can(lk_error *err);

/* Fill tau and pairs from the rows' predictions. */
lk_status lc_bench_rank(lc_bench_result *result, lk_error *err);

lk_status lc_moved_count(const lc_steps *steps, const lc_sizes *sizes, lc_moved *out,
                         lk_error *err);
/* Median of n numbers and its 95 % bounds. */
lc_interval lc_median_bounds(const double *x, int n);

/* ---- bench_parts: shared by the files of the measurement. */

typedef struct lc_bench_job {
	const lc_program *original;
	const lc_variant *variants;
	const lc_bench_options *o;
	lc_bench_result *result;
	lc_sizes sizes;
	char folder[4096], source[4128], program[4128];
	double seconds; /* rest of the time limit */
} lc_bench_job;

/* bench_run.c */
/* Compile the source, with BLAS if it is installed. */
lk_status lc_bench_build(const lc_bench_job *job, lk_error *err);
/* Run the program under the launcher, with these arguments after its name. */
lk_status lc_bench_run(const lc_bench_job *job, const char *const *last, lk_process_end *end,
                       lk_error *err);
/* bench_check.c: check all variants at small sizes, on the same mesh, against the interpreter. */
lk_status lc_bench_check(const lc_bench_job *job, lk_error *err);

/* ---- tune: the search for a program's fastest schedule on a cluster, by simulation; and the
 * wisdom file with its results.
 *
 *   timed.c           the time of one program
 *   tune_search.c     rewrites from the best program on, until there are no new ones or enough
 *   tune_measure.c    the fastest few, really run
 *   tune_step.c       the most promising, in the step whose end the program is
 *   tune_wisdom.c     a text file of earlier results
 *   tune_print.c      the answer, as text or JSON
 *   compile_tune.c    `lockstep compile tune` */

enum {
	LK_TUNE_PROGRAMS = 2000,     /* default limit of programs in a search */
	LK_TUNE_OPERATIONS = 300000, /* then, limit of simulated operations: large programs take
	                                longer */
	LK_TUNE_WORK = 200000000,    /* limit of pairs of values, over all rewritten programs: rewrites
	                                search for readers */
};

/* A program of the search: its directives, and its time. */
typedef struct lk_found {
	lc_schedule
		schedule; /* `directives` in the search's arena; overlaps have the best number of chunks */
	uint64_t hash;
	lk_timed time;
	bool measured;             /* `time.seconds` is a measurement */
	double simulated_s;        /* then: the simulated time */
	bool in_step, not_in_step; /* the step with it was simulated; it cannot replace the step's
	                              end */
	double step_s;             /* simulated: time of the step */
	double step_bytes;         /* its memory on a device */
	bool step_fits;            /* and whether that is available */
} lk_found;

/* A step whose end is replaced by programs found, from tune_step.c. */
typedef struct lk_in_step {
	const char *path; /* NULL: no step given */
	double seconds;   /* of the original step */
	double bytes, usable;
	int simulated, refused; /* programs simulated in the step; programs that cannot replace its
	                           end */
	lk_error why;           /* of the first of the refused */
} lk_in_step;

/* A measurement of programs found by simulation. Gains: of plain's measured time, by round. */
typedef struct lk_measurement {
	int schedules, rounds; /* 0 schedules: nothing was measured */
	double tau;            /* Kendall's, of simulated and measured order, over pairs */
	int pairs;             /* pairs that differ by more than the noise */
	bool plain;            /* none is faster than plain by more than the noise: plain comes first */
	lc_interval simulated; /* gain of the one that was first by simulation */
	lc_interval first;     /* gain of the present first; for plain 1 */
} lk_measurement;

typedef struct lk_search {
	lk_arena arena;
	LK_VEC(lk_found) found; /* fastest first; equally fast ones with fewer directives first */
	lk_found plain;
	uint64_t plain_hash;
	int looked;          /* programs timed, plain included */
	uint64_t operations; /* simulated, in all of them */
	int refused, known;  /* rewrites that were not legal; that led to a known program */
	bool capped;         /* more were left to try */
	const char *cut_off; /* why the cutoff ended it: "time", "interrupt"; else NULL */
	lk_measurement measurement;
	lk_in_step step;
	double seconds; /* of searching */
} lk_search;

typedef struct lk_search_options {
	const lk_cluster *cluster;
	const lk_host_messages *messages; /* see lk_time_steps */
	const lc_sizes *sizes;
	int programs;                 /* 0: LK_TUNE_PROGRAMS, or as many as the other limits allow */
	const lk_cutoff *cutoff;      /* NULL: none */
	lk_search_progress *progress; /* NULL: none */
	void *progress_context;
	bool only_plain; /* try only the plain program */
} lk_search_options;

/* Search. *out must be freed in every case. */
lk_status lk_search_run(const lc_program *program, const lk_search_options *options, lk_search *out,
                        lk_error *err);
void lk_search_free(lk_search *search);
/* Time one schedule like the search does. */
lk_status lk_search_time(const lc_program *program, const lc_schedule *schedule,
                         const lk_search_options *options, lk_found *out, lk_error *err);

/* Use measured times: row 0 is plain, the others are found[found_of[row]]. The measured ones come
 * first then, in the order of their times; but plain does if the fastest is not faster by more than
 * the noise. In a step: the order of lk_search_order_in_step. */
lk_status lk_search_trust(lk_search *search, lc_bench_result *result, const int *found_of,
                          lk_error *err);
/* Run the first `top` programs found, and the plain program, on this machine as C and MPI, and use
 * their measured times; the mesh is that of `sizes`, a text. */
lk_status lk_search_measure(const lc_program *program, lk_search *search, int top,
                            const char *sizes, const char *settings, int seed, lk_error *err);

/* Simulate a step from a graph file on the cluster; end with lk_whatif_end. */
lk_status lk_tune_step_begin(lk_graph *graph, const lk_cluster *cluster, lk_whatif_base **out,
                             lk_error *err);
/* Simulate one schedule in the step. If it cannot replace the end of that step, it counts as
 * refused. */
lk_status lk_search_step_with(const lc_program *program, const lk_search_options *options,
                              const lk_whatif_base *base, lk_in_step *step, lk_found *found,
                              lk_error *err);
/* Simulate the step with the promising programs found, and put the one with the fastest step first.
 * LK_ERR_INPUT if none can replace the end of that step. */
lk_status lk_search_in_step(const lc_program *program, const lk_search_options *options,
                            const lk_whatif_base *base, lk_search *search, lk_error *err);

/* Order programs by the times of their steps; for measured ones, the difference between measured
 * and simulated time alone is added. */
void lk_search_order_in_step(lk_search *search);

/* tune_check.c: validators (base/check.h). */
const char *lk_search_check(const lk_search *search);
const char *lc_bench_result_check(const lc_bench_result *result);

/* ---- wisdom ---- */

typedef struct lk_wise {
	uint64_t hash;     /* of the plain program */
	const char *where; /* sizes and cluster: lk_wisdom_where */
	bool measured;
	double seconds, plain;
	const char *schedule; /* directives as text, "" none */
} lk_wise;

typedef struct lk_wisdom {
	lk_arena arena;
	LK_VEC(lk_wise) entries;
	LK_VEC(const char *) warnings; /* ignored lines, and why */
} lk_wisdom;

/* Read a file; a missing file is empty. Invalid lines are ignored with a warning. *out must be
 * freed in every case. */
lk_status lk_wisdom_read(const char *path, lk_wisdom *out, lk_error *err);
/* The same for a text in memory; `name` is used in warnings. */
lk_status lk_wisdom_parse(const char *name, const char *text, size_t size, lk_wisdom *out,
                          lk_error *err);
lk_status lk_wisdom_write(const lk_wisdom *wisdom, const char *path, lk_error *err);
void lk_wisdom_free(lk_wisdom *wisdom);
/* Sizes, mesh and cluster as one word, in the wisdom's arena; NULL when memory runs out. */
const char *lk_wisdom_where(lk_wisdom *wisdom, const lc_program *program, const lc_sizes *sizes,
                            const lk_cluster *cluster);
/* The best entry: measured ones before simulated ones. NULL if there is none. */
const lk_wise *lk_wisdom_find(const lk_wisdom *wisdom, uint64_t hash, const char *where);
/* Add or replace an entry; a simulated one does not replace a measured one. */
lk_status lk_wisdom_keep(lk_wisdom *wisdom, const lk_wise *entry, lk_error *err);
/* Convert a schedule's directives to one line, and back. The latter parses a file of its own,
 * *file, which must be freed (also on errors). The program in it equals `program`, so the schedule
 * fits `program`. */
char *lk_wisdom_text(lk_arena *arena, const lc_schedule *schedule); /* NULL when memory runs out */
lk_status lk_wisdom_schedule(const lc_program *program, const char *text, lc_file **file,
                             const lc_schedule **out, lk_error *err);

/* ---- the answer ---- */

typedef struct lk_tuned {
	const lc_program *p;
	const lc_sizes *sizes;
	const char *cluster_text;
	const lk_search *search;
	const char *cut_off;               /* of the search */
	bool remembered;                   /* from the wisdom file: nothing was searched */
	bool complete;                     /* nothing was left to try */
	const lk_found *plain;             /* without a schedule */
	const lk_found *best;              /* the fastest, */
	int shown;                         /* so many of them */
	const lk_in_step *step;            /* NULL: no step given */
	const lk_measurement *measurement; /* NULL: nothing was measured */
	lc_verdict verdict;                /* of the fastest against the plain program */
	const lc_verdict *verified;        /* NULL: it is plain itself */
	lk_found *own;                     /* requested schedules of the file, with their names */
	int own_count;
	const char *const *warnings; /* ignored lines of a wisdom file */
	size_t warning_count;
	const char *failed_check; /* of the search; NULL: none */
	lk_arena *arena;          /* of texts of schedules */
} lk_tuned;
extern const lk_document lk_tune_document;

void lk_tuned_text(const lk_tuned *tuned, FILE *out);

#endif
