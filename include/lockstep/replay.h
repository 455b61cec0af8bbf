/* replay.h: a traced run, simulated again: every operation takes the time that it took in the run's
 * other steps (or on its other ranks), in the order that the trace shows; alongside it what was
 * measured.
 *
 *     lk_replay_request request;
 *     lk_replay_defaults(&request);
 *     request.paths = paths, request.path_count = 8;
 *     lk_replay *replay;
 *     lk_error err;
 *     if (lk_replay_ask(&request, &replay, &err) != LK_OK) ...
 *     lk_replay_print(replay, LK_OUTPUT_TEXT, false, false, NULL, stdout, &err);
 *     lk_replay_free(replay);
 *
 * Method: docs/method/traces.md, "Replay". */
#ifndef LOCKSTEP_REPLAY_H
#define LOCKSTEP_REPLAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include "lockstep/error.h"
#include "lockstep/options.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Where the times come from, in the order of the option's choices. */
enum {
	LK_HOLD_AUTO, /* steps, else ranks, else nothing */
	LK_HOLD_STEP, /* each step by the other steps of its rank */
	LK_HOLD_RANK, /* each rank by the other ranks, step by step */
	LK_HOLD_NONE, /* each by itself: what the lifted graph loses */
};

/* The request. Texts are borrowed; NULL and 0 mean "not given". */
typedef struct lk_replay_request {
	const char *const *paths; /* trace files or folders */
	size_t path_count;
	int hold_out;          /* LK_HOLD_... */
	const char *overheads; /* CSV of host overheads (or a trace to take them from): they replace the
	                          host's times */
	bool as_stored;        /* their level is not adapted to the trace */
	const char *overheads_out; /* the host overheads of these traces are written there */
	const char *gpu;     /* of execution traces, which have no times: what they are predicted for */
	const char *cluster; /* likewise, instead */
	const char *measured; /* of execution traces: captures of the same steps, to compare with */
	const char *chakra;   /* folder: the lifted graph as Chakra traces */
	const char *graph;    /* file: the lifted graph of the first whole step */
} lk_replay_request;

/* A part of a step's time, measured and predicted: "busy stream 7", "exposed communication",
 * "idle". Seconds. */
typedef struct lk_replay_part {
	const char *name;
	double measured_s, predicted_s;
} lk_replay_part;

/* A step of a rank, measured and predicted. Seconds. */
typedef struct lk_replay_step {
	int64_t number;                 /* as annotated: ProfilerStep#4 */
	double measured_s, predicted_s; /* measured: NAN unknown */
	double baseline_s;              /* mean of the others; NAN without */
	const char *left_out;           /* why it is not predicted; NULL */
	const lk_replay_part *parts;
	size_t part_count;
	double host_known, device_known; /* share of the predicted host and device time that the same
	                                    operation in the same place gave; with shared overheads, of
	                                    the host's, one of the same name */
} lk_replay_step;

/* A rank and its steps, in order of time. */
typedef struct lk_replay_rank {
	int rank;
	const char *path;
	const lk_replay_step *steps;
	size_t step_count;
} lk_replay_rank;

/* Of execution traces: how their operations came to their times. */
typedef struct lk_replay_works {
	size_t modelled, timed;    /* operations by models; by durations of the trace */
	size_t uncovered;          /* no model: they stream their tensors once */
	size_t nothing, hosts;     /* launch nothing; work in host memory */
	size_t host_times;         /* looked up in the overheads, ... */
	size_t host_times_by_mean; /* ... and of these, not known by name */
} lk_replay_works;

/* All ranks and steps. Errors are shares: 0.1 is 10 %. */
typedef struct lk_replay {
	const char *held_out;   /* "steps", "ranks", "nothing" */
	const char *times_from; /* a sentence */
	const lk_replay_rank *ranks;
	size_t rank_count;
	size_t predicted;      /* steps of ranks */
	double geomean_error;  /* exp(mean |ln(predicted / measured)|) - 1 */
	double baseline_error; /* the same of the mean of the others; NAN without */
	double parts_error; /* largest over the parts of |sum of predicted / sum of measured - 1|, parts
	                       above 1 % of the step */
	const char *worst_part;       /* "" */
	size_t operations;            /* of the lifted steps, mean */
	size_t collectives;           /* matched over ranks */
	double residual_s;            /* of the alignment of clocks */
	double device_known_shape;    /* share of the measured device time whose work has a known shape;
	                                 NAN without times */
	const lk_replay_works *works; /* NULL: captures */
	const char *const *uncovered; /* device work of unknown shape, most time first; operations
	                                 without a model, most frequent first */
	size_t uncovered_count;
	const char *const *warnings;
	size_t warning_count;
	const char *const *notes; /* what execution traces told */
	size_t note_count;
	const char *failed_check; /* of its own consistency, which failed; NULL: none did */
	void *memory_owner;
} lk_replay;

/* Sets every field to what holds where nothing is said. Call it first, then set fields: they may
 * become more. */
void lk_replay_defaults(lk_replay_request *request);
/* Reads the traces, lifts their steps, simulates each with the times of the others. LK_ERR_INPUT:
 * files that are no traces, nothing to hold out, execution traces without a device; LK_ERR_IO;
 * LK_ERR_MEMORY. */
lk_status lk_replay_ask(const lk_replay_request *request, lk_replay **out, lk_error *err);
/* Frees a replay with all that it points to; accepts NULL. */
void lk_replay_free(lk_replay *replay);

/* To `path` where it is not NULL, else to `out`; `format` is an lk_output (view.h). LK_ERR_INPUT
 * for a format without its path; LK_ERR_IO; LK_ERR_MEMORY. The keys of the JSON are in
 * docs/reference/schemas/replay.json. */
lk_status lk_replay_print(const lk_replay *replay, int format, bool verbose, bool colour,
                          const char *path, FILE *out, lk_error *err);

/* The verb's option table: parsing, help, man page and completion come from it (options.h). */
extern const lk_verb lk_replay_verb;

#ifdef __cplusplus
}
#endif
#endif
