/* whatif.h: what would a step take on other GPUs, another network, more ranks, with other buckets?
 * From a step graph that `lockstep predict --graph` wrote or that traces were lifted to.
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
	const char *sets; /* "KEY=VALUE", one a line; a comma list tries every value */
	const char *step; /* of traces: the number of the step, as annotated; NULL: the one nearest to
	                     the mean */
	const char *gpu, *cluster;   /* where it ran: a device in its usual nodes, or a cluster; NULL:
	                                what the traces name */
	const char *stack, *release; /* software whose measured efficiencies hold */
	bool cuda_graphs, compile;   /* how it ran */
	bool no_contention;
	const char *data_parallel; /* names of the data-parallel groups of traces, comma separated */
	const char *calibration;
} lk_whatif_request;

/* The base, one change, or several together. */
typedef struct lk_whatif_column {
	const char *label;       /* "base", "nic=2x", "nic=2x gpus=256" */
	const char *const *sets; /* its parts */
	int set_count;
	const char *refused; /* why there is no answer; NULL: there is one */
	double step_s;
	double change;     /* step / base - 1 */
	double efficiency; /* of scaling: samples per second and rank, against the same changes on the
	                      base's ranks; NAN where the number of ranks is the base's */
	double
		uncertainty; /* +- share of the step, an expected error: docs/method/traces.md, "What-if" */
	double compute_s, exposed_s, hidden_s,
		other_s;          /* compute, communication alone, communication alongside compute (no
        part of the step), the rest: mean over programs */
	double samples_per_s; /* 0 not known */
	int ranks;
	const char *cluster;
	const char *const *notes;
	int note_count;
} lk_whatif_column;

/* The answer: a column for the base, each change, and changes together. */
typedef struct lk_whatif {
	const lk_whatif_column *columns; /* the base first; single changes; combinations */
	int column_count;
	int together; /* the last combination, whose graph and timeline are written; 0 the base */
	bool traced;
	const char *source; /* file */
	const char *reproduce;
	const char *const *notes; /* what the numbers rest on */
	int note_count;
	lk_inputs inputs;         /* the files that were read; reports name them by their content */
	const char *failed_check; /* of its own consistency, which failed; NULL: none did */
	void *memory_owner;
} lk_whatif;

/* Sets every field to what holds where nothing is said. Call it first, then set fields: they may
 * become more. */
void lk_whatif_defaults(lk_whatif_request *request);

/* Answers. Changes that cannot be made are columns that say why; an error is what holds for all of
 * them: files, unknown keys, no base (LK_ERR_INPUT; LK_ERR_IO; LK_ERR_MEMORY). */
lk_status lk_whatif_ask(const lk_whatif_request *request, lk_whatif **out, lk_error *err);
/* Frees an answer with all that it points to; accepts NULL. */
void lk_whatif_free(lk_whatif *whatif);

/* Writes the step graph (outputs->graph) and the timeline (trace) of all changes together.
 * LK_ERR_INPUT: an ending that is not known; LK_ERR_IO; LK_ERR_MEMORY. */
lk_status lk_whatif_write_files(const lk_whatif *whatif, const lk_outputs *outputs, lk_error *err);
/* To `path` where it is not NULL, else to `out`; `format` is an lk_output. A row for each column
 * but in text, where a few stand side by side. LK_ERR_INPUT for a format without its path;
 * LK_ERR_IO; LK_ERR_MEMORY. */
lk_status lk_whatif_print(const lk_whatif *whatif, int format, bool verbose, bool colour,
                          const char *path, FILE *out, lk_error *err);

/* The verb's option table: parsing, help, man page and completion come from it (options.h). */
extern const lk_verb lk_whatif_verb;

#ifdef __cplusplus
}
#endif
#endif
