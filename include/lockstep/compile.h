/* compile.h: programs of computation and communication (docs/reference/language.md): read, check,
 * run, rewrite, and emit for targets.
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

/* Actions on programs, in the order of lk_compile_action_find's names. */
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
/* The output format. */
typedef enum lk_compile_format { LK_COMPILE_TEXT, LK_COMPILE_JSON } lk_compile_format;

/* The targets of EMIT: C for MPI, CUDA, a Python module for PyTorch, or one schedule as a step
 * graph (docs/reference/files.md) at the given sizes. */
typedef enum lk_compile_target {
	LK_COMPILE_MPI,
	LK_COMPILE_CUDA,
	LK_COMPILE_TORCH,
	LK_COMPILE_GRAPH
} lk_compile_target;

/* Parameters of an action. Texts are borrowed; NULL and 0 mean "not given". */
typedef struct lk_compile_request {
	int action; /* lk_compile_action, for the program's own use */
	int format; /* lk_compile_format */
	bool ir;    /* PRINT, REWRITE as text: the typed values instead of the program */
	bool each;  /* REWRITE: the program after every directive, not only the last */
	const char *program, *schedule; /* names; NULL: the only program, no schedule */
	const char *sizes;              /* "dp=4,N=1000" */
	const char *set;                /* "lr=0.001,t=1": scalars */
	int seed;
	bool field; /* RUN: in the field of 2^61 - 1 elements instead of in numbers */
	bool all;   /* RUN, as JSON: every element of the results */
	const char
		*inputs; /* RUN: a JSON file with numbers of inputs, {"x": [1, 2]}; others are drawn */
	const char *compare; /* RUN: a folder with every rank's results of an execution, to compare
	                      * with */
	int draws;           /* VERIFY: per mesh; 0: 3 */
	int target;          /* EMIT: lk_compile_target */
	bool header;         /* EMIT: declarations for a calling program */
	const char *meshes;  /* VERIFY: "1,2,4": ranks of axes */
	int repeat;          /* BENCH: rounds; 0: 21 */
	/* TUNE: the machine: a GPU's name and number, or a cluster's text or file, as in
	 * lk_predict_request */
	const char *gpu, *cluster, *calibration;
	int gpus;
	int top;                      /* TUNE: schedules shown; 0: 5 */
	int programs;                 /* TUNE: schedules examined; 0: 2000 */
	double search_s;              /* TUNE: most seconds; 0: no limit */
	lk_search_progress *progress; /* TUNE; NULL: no progress reports */
	void *progress_context;
	bool measure;       /* TUNE: run the shown ones on this machine, as in BENCH */
	const char *wisdom; /* TUNE: a file of earlier results; read and written */
	const char *graph;  /* TUNE: a file for the fastest schedule as a step graph */
	const char *step;   /* TUNE: a step graph whose end is this program: fastest within that step.
	                       Not with measure or wisdom; sizes may be NULL then */
} lk_compile_request;

/* Programs that were read, and the result of the last action. */
typedef struct lk_compile lk_compile;

/* Read and check all programs and schedules of a file ("-": standard input). *out is set as far as
 * memory allows, even if the text is invalid, and must be freed. LK_ERR_INPUT with line and column;
 * LK_ERR_IO; LK_ERR_MEMORY. */
lk_status lk_compile_read(const char *path, lk_compile **out, lk_error *err);
/* lk_compile_read from memory, with the same errors (LK_ERR_...); `name` is in them. */
lk_status lk_compile_text(const char *name, const char *text, size_t size, lk_compile **out,
                          lk_error *err);
/* Free the programs and everything derived from them; accepts NULL. */
void lk_compile_free(lk_compile *answer);

/* Print the line of the error with a caret below; nothing if the error has no place. */
void lk_compile_caret(const lk_compile *answer, FILE *out);

/* Perform request->action, except TUNE and BENCH. CHECK: one line per program; which sizes must
 * divide which. PRINT: the programs in the language, or their values. REWRITE: likewise after the
 * schedules. LK_ERR_INPUT: sizes, names or schedules that the programs do not have; LK_ERR_IO;
 * LK_ERR_MEMORY. */
lk_status lk_compile_act(lk_compile *answer, const lk_compile_request *request, FILE *out,
                         lk_error *err);

/* BENCH: emit schedules as C with MPI, build and run them here, all in turn; requires mpicc and
 * mpirun. LK_ERR_INPUT, LK_ERR_IO: a build or run that fails, with the compiler's message. */
lk_status lk_compile_bench(lk_compile *answer, const lk_compile_request *request, FILE *out,
                           lk_error *err);
/* TUNE: search, by simulation, the schedule that runs fastest on the cluster, and compare it with
 * the plain program. LK_ERR_INPUT: no sizes, unknown cluster; LK_ERR_IO (wisdom); LK_ERR_MEMORY. */
lk_status lk_compile_tune(lk_compile *answer, const lk_compile_request *request, FILE *out,
                          lk_error *err);

/* Whether the last action's answer was no: programs differ (exit status 1). */
bool lk_compile_no(const lk_compile *answer);
/* The consistency check that an answer failed; NULL: all passed. */
const char *lk_compile_failed_check(const lk_compile *answer);

/* Parse the name of an action ("verify") into an lk_compile_action; LK_ERR_INPUT with the nearest
 * name. */
lk_status lk_compile_action_find(const char *name, int *out, lk_error *err);

/* The verb's option table, for parsing, help, man page and completion (options.h). */
extern const lk_verb lk_compile_verb;

#ifdef __cplusplus
}
#endif
#endif
