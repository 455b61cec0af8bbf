/* simulate.h: simulate a user's step graph: on a cluster, or with its own durations.
 *
 *     lk_simulate_request request;
 *     lk_simulate_defaults(&request);
 *     request.graph = "step.json", request.gpu = "h100-sxm";
 *     lk_simulation *simulation;
 *     lk_error err;
 *     if (lk_simulate(&request, &simulation, &err) != LK_OK) ...
 *     simulation->step_s ...
 *     lk_simulate_free(simulation);
 *
 * The file format: docs/reference/files.md, "The graph file". */
#ifndef LOCKSTEP_SIMULATE_H
#define LOCKSTEP_SIMULATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include "lockstep/error.h"
#include "lockstep/options.h"
#include "lockstep/predict.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The request. Texts are borrowed; 0 and NULL: not given. */
typedef struct lk_simulate_request {
	const char *graph; /* file; "-" standard input */
	const char *text;  /* alternative: the contents of such a file */
	size_t text_size;
	/* The hardware that times operations without a time of their own (measured_ps). Neither: all
	 * operations have one, launches take no time, and overlap slows nothing. */
	const char *gpu;             /* in its default nodes, as many as the graph has ranks */
	const char *cluster;         /* as for predict */
	const char *stack, *release; /* software whose measured efficiencies apply */
	bool cuda_graphs, compile;
	const char *calibration; /* as in lk_predict_request */
	bool no_contention;
	bool all_ranks;                  /* per-rank times instead of one per class */
	const char *straggler;           /* "RANK:FACTOR[,...]" */
	double jitter, gpu_spread, seed; /* as in lk_predict_request */
	const char *ranks; /* "0,8": ranks whose spans are kept in addition to the first rank of each
	                    * program */
} lk_simulate_request;

/* A program, as run by the first of its ranks. */
typedef struct lk_simulated_program {
	const char *name;
	int rank;          /* the first */
	double finish_s;   /* end of its last operation */
	double peak_bytes; /* peak of the graph's allocations */
	double compute_s, exposed_s,
		hidden_s; /* computing; exposed communication; communication overlapped with computing */
} lk_simulated_program;

/* An operation that ran. */
typedef struct lk_simulated_span {
	int rank;
	uint32_t call, repetition; /* of the program */
	uint32_t operation;        /* index into the operations of the simulation */
	double ready_s;            /* when the rank was ready for it: it may wait for others */
	double start_s, end_s;
} lk_simulated_span;

/* An operation of the graph, in the order of the file. */
typedef struct lk_simulated_operation {
	const char *block, *name, *kind,
		*stream;       /* stream: as named by the first program that runs it */
	double duration_s; /* when running alone, on the first rank that runs it; NAN if nothing runs
	                    * it */
} lk_simulated_operation;

/* A simulated step. Freed with lk_simulate_free. */
typedef struct lk_simulation {
	double step_s; /* end of the last operation of the last rank */
	const lk_simulated_program *programs;
	int program_count;
	const lk_simulated_operation *operations;
	size_t operation_count;
	const lk_simulated_span *spans; /* by rank as requested, then in program order */
	size_t span_count;
	uint64_t ran; /* operations run, over all simulated ranks */
	int ranks, ranks_simulated;
	const char *cluster;      /* one line; NULL: durations of the graph */
	const char *failed_check; /* the consistency check that failed; NULL: all passed */
	void *memory_owner;
} lk_simulation;

/* Set every field to its default. Call it first, then set fields. */
void lk_simulate_defaults(lk_simulate_request *request);
/* Simulate operation by operation. LK_ERR_INPUT: a file that is not a step graph, a deadlock (both
 * with their place), operations without a time if no hardware is named. */
lk_status lk_simulate(const lk_simulate_request *request, lk_simulation **out, lk_error *err);
void lk_simulate_free(lk_simulation *simulation); /* accepts NULL */

/* Write the timeline (outputs->trace); nothing without one. LK_ERR_INPUT: an unknown file
 * extension; LK_ERR_IO; LK_ERR_MEMORY. */
lk_status lk_simulate_write_files(const lk_simulation *simulation, const lk_outputs *outputs,
                                  lk_error *err);

/* Print as JSON; LK_ERR_IO, LK_ERR_MEMORY. The keys are in docs/reference/schemas/simulate.json. */
lk_status lk_simulate_print(const lk_simulation *simulation, FILE *out, lk_error *err);

/* Options for callers that use texts; the program has no such verb, `lockstep whatif` reads the
 * same files. */
extern const lk_verb lk_simulate_verb;

#ifdef __cplusplus
}
#endif
#endif
