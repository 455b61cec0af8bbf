/* tune.h: the search for the schedule of a program that a cluster runs fastest, by simulation; and what is remembered of it.
 *
 *   timed.c           how long one program takes
 *   tune_search.c     rewrites from the best program on, until there are no new ones or enough
 *   tune_measure.c    the fastest few, run for real
 *   tune_wisdom.c     a text file of what was found before
 *   tune_print.c      the answer, as text or JSON
 *   compile_tune.c    `lockstep compile tune`
 */
#ifndef LK_PLAN_TUNE_H
#define LK_PLAN_TUNE_H

#include "base/vec.h"
#include "lang/rewrite/rewrite.h"
#include "lang/run/run.h"
#include "lang/tune/timed.h"

enum {
	LK_TUNE_PROGRAMS = 2000,      /* that a search looks at unless it is told */
	LK_TUNE_OPERATIONS = 300000,  /* that it simulates, then: large programs take longer */
	LK_TUNE_WORK = 200000000,     /* pairs of values, of all programs that are rewritten: rewrites look for readers */
};

/* A program that was looked at: by which directives it came about, and how long it takes. */
typedef struct lk_found {
	lc_schedule schedule;  /* `directives` of the search's arena; overlaps have the best number of chunks */
	uint64_t hash;
	lk_timed time;
	bool measured;         /* `time.seconds` is a measurement */
	double simulated_s;    /* then: what the simulation said */
} lk_found;

typedef struct lk_search {
	lk_arena arena;
	LK_VEC(lk_found) found; /* fastest first; of equally fast ones that with fewer directives */
	lk_found plain;
	uint64_t plain_hash;
	int looked;             /* programs timed, plain included */
	uint64_t operations;    /* simulated, of all of them */
	int refused, known;     /* rewrites that were not legal; that led to a program seen before */
	bool capped;            /* there were more to look at */
	double seconds;         /* of searching */
} lk_search;

typedef struct lk_search_options {
	const lk_cluster *cluster;
	const lc_sizes *sizes;
	int programs;           /* 0: LK_TUNE_PROGRAMS, or as many as the other bounds allow */
	bool only_plain;        /* looks at the plain program alone */
} lk_search_options;

/* Must be freed in every case. */
lk_status lk_search_run(const lc_program *p, const lk_search_options *o, lk_search *out, lk_error *err);
void lk_search_free(lk_search *s);
/* Times one schedule as the search does. */
lk_status lk_search_time(const lc_program *p, const lc_schedule *s, const lk_search_options *o, lk_found *out, lk_error *err);

/* Runs the first `top` of what was found, and the plain program, on this machine as C and MPI (bench.h); the mesh is that of
 * `sizes`, a text. Those come first then, in the order of their measured times. */
lk_status lk_search_measure(const lc_program *p, lk_search *search, int top, const char *sizes, const char *settings, int seed,
                            lk_error *err);

/* ---- wisdom ---- */

typedef struct lk_wise {
	uint64_t hash;          /* of the plain program */
	const char *where;      /* sizes and cluster: lk_wisdom_where */
	bool measured;
	double seconds, plain;
	const char *schedule;   /* directives as text, "" none */
} lk_wise;

typedef struct lk_wisdom {
	lk_arena arena;
	LK_VEC(lk_wise) entries;
	LK_VEC(const char *) warnings; /* lines that were ignored, and why */
} lk_wisdom;

/* Reads a file; one that does not exist is empty. What is no entry is ignored with a warning. *out must be freed in every
 * case. */
lk_status lk_wisdom_read(const char *path, lk_wisdom *out, lk_error *err);
/* The same of a text in memory; `name` stands in warnings. */
lk_status lk_wisdom_parse(const char *name, const char *text, size_t size, lk_wisdom *out, lk_error *err);
lk_status lk_wisdom_write(const lk_wisdom *w, const char *path, lk_error *err);
void lk_wisdom_free(lk_wisdom *w);
/* Sizes, mesh and cluster as one word, of the wisdom's arena; NULL when memory is out. */
const char *lk_wisdom_where(lk_wisdom *w, const lc_program *p, const lc_sizes *sizes, const lk_cluster *cluster);
/* The best entry: a measured one before simulated ones. NULL if there is none. */
const lk_wise *lk_wisdom_find(const lk_wisdom *w, uint64_t hash, const char *where);
/* Adds or replaces; what was simulated does not replace what was measured. */
lk_status lk_wisdom_keep(lk_wisdom *w, const lk_wise *entry, lk_error *err);
/* A schedule's directives as one line, and back: parsed in a file of its own, which *file then is and must be freed (also
 * on errors). The program in it equals p, so that the schedule fits p. */
char *lk_wisdom_text(lk_arena *arena, const lc_schedule *s); /* NULL when memory is out */
lk_status lk_wisdom_schedule(const lc_program *p, const char *text, lc_file **file, const lc_schedule **out, lk_error *err);

/* ---- the answer ---- */

typedef struct lk_tuned {
	const lc_program *p;
	const lc_sizes *sizes;
	const lk_cluster *cluster;
	const lk_search *search;
	bool remembered;        /* from the wisdom file: nothing was searched */
	bool verified;
	lc_verdict verdict;     /* of the fastest against the plain program */
	int top;
	lk_found *own;          /* schedules of the file that were asked for, with their names */
	int own_count;
	const char *const *warnings; /* lines of a wisdom file that were ignored */
	size_t warning_count;
} lk_tuned;

void lk_tuned_text(const lk_tuned *t, FILE *out);
lk_status lk_tuned_json(const lk_tuned *t, FILE *out, lk_error *err);

#endif
