/* compile.h: programs of computation and communication (docs/reference/language.md): read, checked,
 * run, rewritten, written down for targets.
 *
 *     lk_compile *answer;
 *     lk_error err;
 *     if (lk_compile_read("adam.lk", &answer, &err) != LK_OK) lk_compile_caret(answer, stdout);
 *     else lk_compile_act(answer, &request, stdout, &err);
 *     lk_compile_free(answer);
 */
#ifndef LOCKSTEP_COMPILE_H
#define LOCKSTEP_COMPILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include "lockstep/error.h"
#include "lockstep/options.h"
#include "lockstep/stop.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What is done with programs, in the order of lk_compile_action_find's names. */
typedef enum lk_compile_action {
	LK_COMPILE_CHECK,
	LK_COMPILE_PRINT,
	LK_COMPILE_RUN,
	LK_COMPILE_REWRITE,
	LK_COMPILE_VERIFY,
	LK_COMPILE_EMIT,
	LK_COMPILE_TUNE,
	LK_COMPILE_BENCH,
	LK_COMPILE_ACTIONS
} lk_compile_action;
/* How it is written. */
typedef enum lk_compile_format { LK_COMPILE_TEXT, LK_COMPILE_JSON } lk_compile_format;

/* What EMIT writes: C for MPI, CUDA, a Python module for PyTorch, or one schedule as a step graph
 * (docs/reference/files.md) at the sizes that are given. */
typedef enum lk_compile_target {
	LK_COMPILE_MPI,
	LK_COMPILE_CUDA,
	LK_COMPILE_TORCH,
	LK_COMPILE_GRAPH
} lk_compile_target;

/* What is asked of an action. Texts are borrowed; NULL and 0 mean "not given". */
typedef struct lk_compile_request {
	int action; /* lk_compile_action, for the program's own use */
	int format; /* lk_compile_format */
	bool ir;    /* PRINT, REWRITE as text: the values with their types instead of the program */
	bool each;  /* REWRITE: what every directive makes of the program, not the last alone */
	const char *program, *schedule; /* names; NULL: the only one, none */
	const char *sizes;              /* "dp=4,N=1000" */
	const char *set;                /* "lr=0.001,t=1": scalars */
	int seed;
	bool field;          /* RUN: in the field of 2^61 - 1 elements instead of in numbers */
	bool all;            /* RUN, as JSON: every element of the results */
	const char *compare; /* RUN: a folder with what every rank held at the end of an execution */
	int draws;           /* VERIFY: for each mesh; 0: 3 */
	int target;          /* EMIT: lk_compile_target */
	bool header;         /* EMIT: declarations for a program that calls it */
	const char *meshes;  /* VERIFY: "1,2,4": ranks of axes */
	int repeat;          /* BENCH: rounds; 0: 21 */
	/* TUNE: where: a GPU's name and their number, or a cluster's text or file, as
	 * lk_predict_request has them */
	const char *gpu, *cluster, *calibration;
	int gpus;
	int top;                      /* TUNE: schedules that are shown; 0: 5 */
	int programs;                 /* TUNE: that are looked at; 0: 2000 */
	double search_s;              /* TUNE: the most seconds; 0: any */
	lk_search_progress *progress; /* TUNE; NULL: nobody is told */
	void *progress_context;
	bool measure;       /* TUNE: those that are shown are run on this machine, as BENCH does */
	const char *wisdom; /* TUNE: a file of what was found before; read and written */
	const char *graph;  /* TUNE: a file for the fastest schedule as a step graph */
	const char *step;   /* TUNE: a step graph whose end the program is: fastest in that step. Not
	                       with measure or wisdom; sizes may be NULL then */
} lk_compile_request;

/* Programs that were read, and what the last action found. */
typedef struct lk_compile lk_compile;

/* Reads and checks all programs and schedules of a file ("-": standard input). *out is set as far
 * as memory allows, also when the text is wrong, and must be freed. LK_ERR_INPUT with line and
 * column; LK_ERR_IO; LK_ERR_MEMORY. */
lk_status lk_compile_read(const char *path, lk_compile **out, lk_error *err);
/* The same of a text in memory, with the same errors (LK_ERR_...); `name` is in them. */
lk_status lk_compile_text(const char *name, const char *text, size_t size, lk_compile **out,
                          lk_error *err);
/* Frees the programs and all that was made of them; accepts NULL. */
void lk_compile_free(lk_compile *answer);

/* The line of the text where the error is, and a caret below; nothing where it is at no place. */
void lk_compile_caret(const lk_compile *answer, FILE *out);

/* Does what request->action says, but for TUNE and BENCH. CHECK: a line per program; what must
 * divide what. PRINT: the programs in the language, or their values. REWRITE: the same of what
 * schedules make of them. LK_ERR_INPUT: sizes, names or schedules that the programs do not have;
 * LK_ERR_IO; LK_ERR_MEMORY. */
lk_status lk_compile_act(lk_compile *answer, const lk_compile_request *request, FILE *out,
                         lk_error *err);

/* What BENCH says: schedules are written as C and MPI, built and run here, all in turn; mpicc and
 * mpirun must be there. LK_ERR_INPUT, LK_ERR_IO: what cannot be built or run, with the compiler's
 * words. */
lk_status lk_compile_bench(lk_compile *answer, const lk_compile_request *request, FILE *out,
                           lk_error *err);
/* TUNE: searches the schedule that the cluster runs fastest, by simulation, and holds it against
 * the plain program. LK_ERR_INPUT: no sizes, a cluster that is not known; LK_ERR_IO (wisdom);
 * LK_ERR_MEMORY. */
lk_status lk_compile_tune(lk_compile *answer, const lk_compile_request *request, FILE *out,
                          lk_error *err);

/* Whether the last action's answer was no: programs that differ (exit status 1). */
bool lk_compile_no(const lk_compile *answer);
/* The check of its own consistency that an answer failed; NULL: none. */
const char *lk_compile_failed_check(const lk_compile *answer);

/* Reads the name of an action ("verify") into an lk_compile_action; LK_ERR_INPUT with the nearest
 * name. */
lk_status lk_compile_action_find(const char *name, int *out, lk_error *err);

/* The verb's option table: parsing, help, man page and completion come from it (options.h). */
extern const lk_verb lk_compile_verb;

#ifdef __cplusplus
}
#endif
#endif
