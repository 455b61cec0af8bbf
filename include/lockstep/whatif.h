/* whatif.h: predict a step on other GPUs, another network, more ranks, with other buckets, from a
 * step graph written by `lockstep predict --graph` or lifted from traces.
 *
 *     const char *paths[] = {"step.json"}, *sets[] = {"gpus=256", "nic=2x"};
 *     lk_whatif_request request;
 *     lk_whatif_defaults(&request);
 *     request.paths = paths, request.path_count = 1, request.gpu = "h100-sxm";
 *     request.sets = "gpus=256\nnic=2x";
 *     lk_whatif *answer;
 *     lk_error err;
 *     if (lk_whatif_ask(&request, &answer, &err) != LK_OK) ...
 *     lk_whatif_print(answer, LK_OUTPUT_TEXT, false, false, NULL, stdout, &err);
 *     lk_whatif_free(answer); */
#ifndef LOCKSTEP_WHATIF_H
#define LOCKSTEP_WHATIF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include "lockstep/error.h"
#include "lockstep/options.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The request. Texts are borrowed; NULL and 0 mean "not given". */
typedef struct lk_whatif_request {
	const char *const *paths; /* a step graph, or traces: files and folders */
	int path_count;
	const char *sets; /* "KEY=VALUE", one per line; a comma list tries every value */
	const char *step; /* for traces: the number of the step, as annotated; NULL: the one nearest to
	                     the mean */
	const char *gpu, *cluster;   /* the original machine: a device in its default nodes, or a
	                                cluster; NULL: as named in the traces */
	const char *stack, *release; /* software whose measured efficiencies apply */
	bool cuda_graphs, compile;   /* in the original run */
	bool no_contention;
	const char *data_parallel; /* names of the data-parallel groups of traces, comma separated */
	const char *calibration;
} lk_whatif_request;

/* The base, one change, or several together. */
typedef struct lk_whatif_column {
	const char *label;       /* "base", "nic=2x", "nic=2x gpus=256" */
	const char *const *sets; /* its individual changes */
	int set_count;
	const char *refused; /* why there is no answer; NULL: there is one */
	double step_s;
	double change;     /* step / base - 1 */
	double efficiency; /* of scaling: samples per second and rank, relative to the same changes on
	                      the base's ranks; NAN if the number of ranks is the base's */
	double
		uncertainty; /* +- share of the step, an expected error: docs/method/traces.md, "What-if" */
	double compute_s, exposed_s, hidden_s,
		other_s;          /* compute, exposed communication, communication overlapped with compute
		                     (no part of the step), the rest: mean over programs */
	double samples_per_s; /* 0: unknown */
	int ranks;
	const char *cluster;
	const char *const *notes;
	int note_count;
} lk_whatif_column;

/* The answer: columns for the base, each change, and combinations. */
typedef struct lk_whatif {
	const lk_whatif_column *columns; /* the base first; single changes; combinations */
	int column_count;
	int together; /* the last combination, whose graph and timeline are written; 0: the base */
	bool traced;
	const char *source; /* file */
	const char *reproduce;
	const char *const *notes; /* basis of the numbers */
	int note_count;
	lk_inputs inputs;         /* the files read; reports identify them by content */
	const char *failed_check; /* the consistency check that failed; NULL: all passed */
	void *memory_owner;
} lk_whatif;

/* Set every field to its default. Call it first, then set fields; later versions may add fields. */
void lk_whatif_defaults(lk_whatif_request *request);

/* Answer. Changes that cannot be made are columns with the reason; errors concern all of them:
 * files, unknown keys, no base (LK_ERR_INPUT; LK_ERR_IO; LK_ERR_MEMORY). */
lk_status lk_whatif_ask(const lk_whatif_request *request, lk_whatif **out, lk_error *err);
/* Free an answer and everything it points to; accepts NULL. */
void lk_whatif_free(lk_whatif *whatif);

/* Write the step graph (outputs->graph) and the timeline (trace) of all changes together.
 * LK_ERR_INPUT: an unknown extension; LK_ERR_IO; LK_ERR_MEMORY. */
lk_status lk_whatif_write_files(const lk_whatif *whatif, const lk_outputs *outputs, lk_error *err);
/* Write to `path`, or to `out` if it is NULL; `format` is an lk_output. One row per column, except
 * in text, where a few columns are side by side. LK_ERR_INPUT: the format needs a path; LK_ERR_IO;
 * LK_ERR_MEMORY. */
lk_status lk_whatif_print(const lk_whatif *whatif, int format, bool verbose, bool colour,
                          const char *path, FILE *out, lk_error *err);

/* The verb's option table, for parsing, help, man page and completion (options.h). */
extern const lk_verb lk_whatif_verb;

#ifdef __cplusplus
}
#endif
#endif
