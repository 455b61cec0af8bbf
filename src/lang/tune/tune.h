/* tune.h: how long a program takes on a cluster: its steps lowered, costed and simulated. */
#ifndef LK_LANG_TUNE_TUNE_H
#define LK_LANG_TUNE_TUNE_H

#include "base/cutoff.h"
#include "base/process.h"
#include "base/vec.h"
#include "cost/collective/collective.h"
#include "cost/cost.h"
#include "io/json.h"
#include "lang/emit/emit.h"
#include "lang/rewrite/rewrite.h"
#include "lang/run/run.h"
#include "lang/steps/steps.h"
#include "lockstep/stop.h"
#include "whatif/whatif.h"

typedef struct lk_timed {
	double seconds;   /* until the last rank is done */
	double compute_s; /* in which some rank computes */
	double exposed_s; /* the rest: communication, and waiting for it */
	double bytes;     /* of the rank that holds most, at its peak */
	uint64_t operations;
} lk_timed;

/* The constants of generated code: launches come from compiled code, one call after the other. */
void lk_timed_constants(lk_constants *out);

/* `chunks`: as in lc_lower. The cluster has the mesh's ranks at least; of hosts, `messages` says
 * how long their messages were measured to take, NULL or empty: they were not. */
lk_status lk_time_steps(const lc_steps *steps, const lc_sizes *sizes, const lk_cluster *cluster,
                        const lk_host_messages *messages, const lk_constants *constants,
                        int64_t chunks, lk_timed *out, lk_error *err);

/* timed_host.c: costs on hosts in place of those of GPUs: communication by MPI, as measured where
 * it was, and passes that compute more than they touch memory. */
void lk_timed_on_hosts(const lk_graph *graph, const lk_cluster *cluster,
                       const lk_host_messages *messages, lk_costs *costs);
/* A single measured machine with more processes than it has devices: `c` gets a device for each,
 * with its share of cores and memory. Other clusters are left as they are. */
lk_status lk_timed_share_host(lk_arena *arena, int64_t ranks, lk_cluster *cluster, lk_error *err);

/* ---- bench: schedules of a program, measured: written as C and MPI, compiled, run by mpirun in
 * turns, their results checked against the interpreter.
 *
 * The source is built in a private directory (mkdtemp below $TMPDIR) by $MPICC (mpicc), run by
 * $MPIRUN (mpirun); both are called by argument vector and ended at a time limit. One process group
 * runs all schedules, each round all in turn, so that what else the machine does meets all of them.
 * Ratios are of the same round; bounds are of the median ratio, by order statistics (the sign
 * test), which asks nothing of the distribution.
 *
 *   bench.c         building, running, reading
 *   bench_check.c   results against the interpreter
 *   bench_count.c   bytes that steps send and touch
 *   bench_print.c   the action of `lockstep compile`: schedules chosen, a table or JSON */

typedef struct lc_bench_options {
	const char *sizes, *set; /* as lc_sizes_read; scalars */
	int seed;
	int repeat;                       /* rounds; 0: 21 */
	double seconds;                   /* limit for the compiler, and for all runs; 0: 300 */
	bool unchecked;                   /* results are not compared with the interpreter's */
	const lk_cluster *cluster;        /* to hold predictions against; may be NULL */
	const lk_host_messages *messages; /* of its hosts, as lk_time_steps takes them */
} lc_bench_options;

typedef struct lc_interval {
	double median, low, high; /* 95 % bounds of the median; NAN where there are too few */
} lc_interval;
void lc_put_interval(lk_json_writer *writer, const char *key, const lc_interval *interval);

/* What one rank moves in one run, the largest of all ranks. */
typedef struct lc_moved {
	double sent;    /* bytes by collectives in their rings, permutes and sends */
	double between; /* of these, by sends between groups */
	double touched; /* bytes that computing reads and writes; what a ring sends or receives is not
	                   among them */
} lc_moved;

typedef struct lc_bench_row {
	const char *name;        /* of the variant */
	double *seconds;         /* [rounds] the slowest rank's */
	lc_interval time, ratio; /* ratio: the first variant's time over this one's */
	lc_moved moved;
	bool checked, agrees; /* with the interpreter, at small sizes, as far as rounding lets it */
	double predicted;     /* seconds on the cluster that was given; NAN */
} lc_bench_row;

typedef struct lc_bench_result {
	lc_bench_row *rows; /* one per variant */
	int count, rounds;
	int64_t ranks;
	double spread; /* the first variant against itself in the next round: how far 95 % bounds of
	                  that ratio are from 1 */
	double tau; /* Kendall's, of predicted and measured times, over pairs whose bounds of the median
	               ratio leave 1 out; NAN without such */
	int pairs;  /* of these */
	lk_arena arena;
} lc_bench_result;

/* LK_ERR_INPUT where the compiler finds fault, the run fails or takes too long: with what they said
 * last. */
lk_status lc_bench(const lc_program *original, const lc_variant *variants, int count,
                   const lc_bench_options *options, lc_bench_result *out, lk_error *err);
void lc_bench_free(lc_bench_result *result);
/* Whether this machine can: a compiler and a launcher are there. */
bool lc_bench_can(lk_error *err);

/* Fills tau and pairs from what rows have as predicted. */
lk_status lc_bench_rank(lc_bench_result *result, lk_error *err);

lk_status lc_moved_count(const lc_steps *steps, const lc_sizes *sizes, lc_moved *out,
                         lk_error *err);
/* Median of n numbers and its 95 % bounds. */
lc_interval lc_median_bounds(const double *x, int n);

/* ---- bench_parts: what the files of the measurement share. */

typedef struct lc_bench_job {
	const lc_program *original;
	const lc_variant *variants;
	const lc_bench_options *o;
	lc_bench_result *result;
	lc_sizes sizes;
	char folder[4096], source[4128], program[4128];
	double seconds; /* left of the time limit */
} lc_bench_job;

/* bench_run.c */
/* Compiles the source, with BLAS where there is one. */
lk_status lc_bench_build(const lc_bench_job *job, lk_error *err);
/* Runs the program under the launcher, with these arguments after its name. */
lk_status lc_bench_run(const lc_bench_job *job, const char *const *last, lk_process_end *end,
                       lk_error *err);
/* bench_check.c: all variants at small sizes, on the same mesh, against the interpreter. */
lk_status lc_bench_check(const lc_bench_job *job, lk_error *err);

/* ---- tune: the search for the schedule of a program that a cluster runs fastest, by simulation;
 * and what is remembered of it.
 *
 *   timed.c           how long one program takes
 *   tune_search.c     rewrites from the best program on, until there are no new ones or enough
 *   tune_measure.c    the fastest few, run for real
 *   tune_step.c       the most promising, in the step whose end the program is
 *   tune_wisdom.c     a text file of what was found before
 *   tune_print.c      the answer, as text or JSON
 *   compile_tune.c    `lockstep compile tune` */

enum {
	LK_TUNE_PROGRAMS = 2000,     /* that a search looks at unless it is told */
	LK_TUNE_OPERATIONS = 300000, /* that it simulates, then: large programs take longer */
	LK_TUNE_WORK = 200000000, /* pairs of values, of all programs that are rewritten: rewrites look
	                             for readers */
};

/* A program that was looked at: by which directives it came about, and how long it takes. */
typedef struct lk_found {
	lc_schedule
		schedule; /* `directives` of the search's arena; overlaps have the best number of chunks */
	uint64_t hash;
	lk_timed time;
	bool measured;             /* `time.seconds` is a measurement */
	double simulated_s;        /* then: what the simulation said */
	bool in_step, not_in_step; /* the step with it was simulated; it cannot replace its end */
	double step_s;             /* simulated: how long the step takes */
	double step_bytes;         /* and needs of a device */
	bool step_fits;            /* and whether that is there */
} lk_found;

/* A step whose end is replaced by what was found, as tune_step.c leaves it. */
typedef struct lk_in_step {
	const char *path; /* NULL: none was given */
	double seconds;   /* of the step as it is */
	double bytes, usable;
	int simulated, refused; /* programs in the step; those that cannot replace its end */
	lk_error why;           /* of the first of these */
} lk_in_step;

/* What a measurement says of what was found by simulation. Gains: of the measured time of plain, by
 * round. */
typedef struct lk_measurement {
	int schedules, rounds; /* 0 schedules: nothing was measured */
	double tau;            /* Kendall's, of simulated and measured order, over pairs */
	int pairs;             /* that are further apart than the noise */
	bool plain;            /* none is faster than plain by more than the noise: plain comes first */
	lc_interval simulated; /* gain of what the simulation had put first */
	lc_interval first;     /* gain of what comes first now; of plain 1 */
} lk_measurement;

typedef struct lk_search {
	lk_arena arena;
	LK_VEC(lk_found) found; /* fastest first; of equally fast ones that with fewer directives */
	lk_found plain;
	uint64_t plain_hash;
	int looked;          /* programs timed, plain included */
	uint64_t operations; /* simulated, of all of them */
	int refused, known;  /* rewrites that were not legal; that led to a program seen before */
	bool capped;         /* there were more to look at */
	const char *cut_off; /* the cutoff ended it: "time", "interrupt"; else NULL */
	lk_measurement measurement;
	lk_in_step step;
	double seconds; /* of searching */
} lk_search;

typedef struct lk_search_options {
	const lk_cluster *cluster;
	const lk_host_messages *messages; /* as lk_time_steps takes them */
	const lc_sizes *sizes;
	int programs;                 /* 0: LK_TUNE_PROGRAMS, or as many as the other bounds allow */
	const lk_cutoff *cutoff;      /* NULL: none */
	lk_search_progress *progress; /* NULL: nobody */
	void *progress_context;
	bool only_plain; /* looks at the plain program alone */
} lk_search_options;

/* Must be freed in every case. */
lk_status lk_search_run(const lc_program *program, const lk_search_options *options, lk_search *out,
                        lk_error *err);
void lk_search_free(lk_search *search);
/* Times one schedule as the search does. */
lk_status lk_search_time(const lc_program *program, const lc_schedule *schedule,
                         const lk_search_options *options, lk_found *out, lk_error *err);

/* Takes over what was measured: row 0 of plain, others of found[found_of[row]]. The measured ones
 * come first then, in the order of their times; but plain does where the fastest is not faster by
 * more than the noise. In a step: as lk_search_order_in_step has it. */
lk_status lk_search_trust(lk_search *search, lc_bench_result *result, const int *found_of,
                          lk_error *err);
/* Runs the first `top` of what was found, and the plain program, on this machine as C and MPI, and
 * trusts what is measured; the mesh is that of `sizes`, a text. */
lk_status lk_search_measure(const lc_program *program, lk_search *search, int top,
                            const char *sizes, const char *settings, int seed, lk_error *err);

/* The file of a step graph, and the step as the cluster runs it; lk_whatif_end. */
lk_status lk_tune_step_begin(lk_graph *graph, const lk_cluster *cluster, lk_whatif_base **out,
                             lk_error *err);
/* One schedule in the step. What cannot replace the end of that step is counted as refused. */
lk_status lk_search_step_with(const lc_program *program, const lk_search_options *options,
                              const lk_whatif_base *base, lk_in_step *step, lk_found *found,
                              lk_error *err);
/* Simulates the step with what was found, as far as that is promising, and puts what makes it the
 * fastest first. LK_ERR_INPUT where nothing of it can replace the end of that step. */
lk_status lk_search_in_step(const lc_program *program, const lk_search_options *options,
                            const lk_whatif_base *base, lk_search *search, lk_error *err);

/* What was found, in the order of the steps with it; of what was measured, how much longer than
 * simulated it took alone counts too. */
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
	LK_VEC(const char *) warnings; /* lines that were ignored, and why */
} lk_wisdom;

/* Reads a file; one that does not exist is empty. What is no entry is ignored with a warning. *out
 * must be freed in every case. */
lk_status lk_wisdom_read(const char *path, lk_wisdom *out, lk_error *err);
/* The same of a text in memory; `name` is in warnings. */
lk_status lk_wisdom_parse(const char *name, const char *text, size_t size, lk_wisdom *out,
                          lk_error *err);
lk_status lk_wisdom_write(const lk_wisdom *wisdom, const char *path, lk_error *err);
void lk_wisdom_free(lk_wisdom *wisdom);
/* Sizes, mesh and cluster as one word, of the wisdom's arena; NULL when memory runs out. */
const char *lk_wisdom_where(lk_wisdom *wisdom, const lc_program *program, const lc_sizes *sizes,
                            const lk_cluster *cluster);
/* The best entry: a measured one before simulated ones. NULL if there is none. */
const lk_wise *lk_wisdom_find(const lk_wisdom *wisdom, uint64_t hash, const char *where);
/* Adds or replaces; what was simulated does not replace what was measured. */
lk_status lk_wisdom_keep(lk_wisdom *wisdom, const lk_wise *entry, lk_error *err);
/* A schedule's directives as one line, and back: parsed in a file of its own, which *file then is
 * and must be freed (also on errors). The program in it equals p, so that the schedule fits p. */
char *lk_wisdom_text(lk_arena *arena, const lc_schedule *schedule); /* NULL when memory runs out */
lk_status lk_wisdom_schedule(const lc_program *program, const char *text, lc_file **file,
                             const lc_schedule **out, lk_error *err);

/* ---- the answer ---- */

typedef struct lk_tuned {
	const lc_program *p;
	const lc_sizes *sizes;
	const lk_cluster *cluster;
	const lk_search *search;
	bool remembered; /* from the wisdom file: nothing was searched */
	bool verified;
	lc_verdict verdict; /* of the fastest against the plain program */
	int top;
	lk_found *own; /* schedules of the file that were requested, with their names */
	int own_count;
	const char *const *warnings; /* lines of a wisdom file that were ignored */
	size_t warning_count;
	const char *failed_check; /* of the search; NULL: none */
} lk_tuned;

void lk_tuned_text(const lk_tuned *tuned, FILE *out);
lk_status lk_tuned_json(const lk_tuned *tuned, FILE *out, lk_error *err);

#endif
