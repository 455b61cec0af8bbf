/* simulate.h: a step graph that somebody wrote, simulated: on a cluster, or with the durations that
 * are in it.
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
 * The form of the file: docs/reference/files.md, "The graph file". */
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

/* The request. Texts are borrowed; 0 and NULL were not given. */
typedef struct lk_simulate_request {
	const char *graph; /* file; "-" standard input */
	const char *text;  /* instead: what such a file holds */
	size_t text_size;
	/* What operations without a time of their own (measured_ps) take theirs from. Neither: all of
	 * them have one, launches take no time, and nothing that overlaps slows anything. */
	const char *gpu;             /* in its usual nodes, as many as the graph has ranks */
	const char *cluster;         /* as for predict */
	const char *stack, *release; /* software whose measured efficiencies hold */
	bool cuda_graphs, compile;
	const char *calibration; /* as in lk_predict_request */
	bool no_contention;
	bool all_ranks;                  /* times of every rank, not of one of each class */
	const char *straggler;           /* "RANK:FACTOR[,...]" */
	double jitter, gpu_spread, seed; /* as in lk_predict_request */
	const char
		*ranks; /* "0,8": whose spans are kept besides those of the first rank of each program */
} lk_simulate_request;

/* A program, as the first of its ranks ran it. */
typedef struct lk_simulated_program {
	const char *name;
	int rank;          /* the first */
	double finish_s;   /* when its last operation ended */
	double peak_bytes; /* what the graph allocates at its fullest moment */
	double compute_s, exposed_s,
		hidden_s; /* computing; communication alone, and alongside computing */
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
		*stream;       /* stream: as the first program that runs it names it */
	double duration_s; /* alone, on the first rank that runs it; NAN where nothing runs it */
} lk_simulated_operation;

/* A simulated step. Freed with lk_simulate_free. */
typedef struct lk_simulation {
	double step_s; /* when the last operation of the last rank ended */
	const lk_simulated_program *programs;
	int program_count;
	const lk_simulated_operation *operations;
	size_t operation_count;
	const lk_simulated_span *spans; /* by rank as requested, then in the order of the program */
	size_t span_count;
	uint64_t ran; /* operations run, over all simulated ranks */
	int ranks, ranks_simulated;
	const char *cluster;      /* one line; NULL: durations of the graph */
	const char *failed_check; /* of its own consistency, which failed; NULL: none did */
	void *memory_owner;
} lk_simulation;

/* Sets every field to what holds where nothing is said. Call it first, then set fields. */
void lk_simulate_defaults(lk_simulate_request *request);
/* Simulates operation by operation. LK_ERR_INPUT: a file that is no step graph, ranks that wait for
 * one another forever (both with their place), operations without a time where no hardware is
 * named. */
lk_status lk_simulate(const lk_simulate_request *request, lk_simulation **out, lk_error *err);
void lk_simulate_free(lk_simulation *simulation); /* accepts NULL */

/* Writes the timeline (outputs->trace); nothing without one. LK_ERR_INPUT: an ending of the
 * file that is not known; LK_ERR_IO; LK_ERR_MEMORY. */
lk_status lk_simulate_write_files(const lk_simulation *simulation, const lk_outputs *outputs,
                                  lk_error *err);

/* As JSON; LK_ERR_IO, LK_ERR_MEMORY. The keys of the JSON are in
 * docs/reference/schemas/simulate.json. */
lk_status lk_simulate_print(const lk_simulation *simulation, FILE *out, lk_error *err);

/* Options for callers that work on texts; the program has no such verb, `lockstep whatif` reads the
 * same files. */
extern const lk_verb lk_simulate_verb;

#ifdef __cplusplus
}
#endif
#endif
