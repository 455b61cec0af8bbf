/* replay.h: simulate a traced run again: every operation takes its time from the run's other steps
 * (or other ranks), in the order of the trace; compared with the measured times.
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

/* The source of the times, in the order of the option's choices. */
enum {
	LK_HOLD_AUTO,      /* steps, else ranks, else operations */
	LK_HOLD_STEP,      /* each step by the other steps of its rank */
	LK_HOLD_RANK,      /* each rank by the other ranks, step by step */
	LK_HOLD_NONE,      /* each from itself: the loss by lifting */
	LK_HOLD_OPERATION, /* each operation by the others of its step */
};

/* The request. Texts are borrowed; NULL and 0 mean "not given". */
typedef struct lk_replay_request {
	const char *const *paths; /* trace files or folders */
	size_t path_count;
	int hold_out;          /* LK_HOLD_... */
	const char *overheads; /* CSV of host overheads (or a trace to take them from), which replace
	                          the host's times */
	bool as_stored;        /* do not adapt their level to the trace */
	const char *overheads_out; /* file for the host overheads of these traces */
	const char *gpu;      /* for execution traces, which have no times: the device to predict for */
	const char *cluster;  /* likewise, alternatively */
	const char *measured; /* for execution traces: captures of the same steps, to compare with */
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
	double measured_s, predicted_s; /* measured: NAN: unknown */
	double baseline_s;              /* mean of the others; NAN without any */
	const char *left_out;           /* why it is not predicted; NULL: it is */
	const lk_replay_part *parts;
	size_t part_count;
	double host_known, device_known; /* share of the predicted host and device time that comes from
	                                    the same operation in the same place; with shared overheads,
	                                    for the host, and with operations held out from one of the
	                                    same name */
} lk_replay_step;

/* A rank and its steps, in order of time. */
typedef struct lk_replay_rank {
	int rank;
	const char *path;
	const lk_replay_step *steps;
	size_t step_count;
} lk_replay_rank;

/* For execution traces: the sources of the operations' times. */
typedef struct lk_replay_works {
	size_t modelled, timed;    /* operations timed by models; by durations of the trace */
	size_t uncovered;          /* without a model: they stream their tensors once */
	size_t nothing, hosts;     /* launch nothing; work in host memory */
	size_t host_times;         /* looked up in the overheads, ... */
	size_t host_times_by_mean; /* ... and the part of these not found by name */
} lk_replay_works;

/* All ranks and steps. Errors are shares: 0.1 is 10 %. */
typedef struct lk_replay {
	const char *held_out;   /* "steps", "ranks", "operations", "nothing" */
	const char *times_from; /* one sentence */
	const lk_replay_rank *ranks;
	size_t rank_count;
	size_t predicted;      /* number of rank steps */
	double geomean_error;  /* exp(mean |ln(predicted / measured)|) - 1 */
	double baseline_error; /* likewise for the mean of the others; NAN without any */
	double parts_error; /* largest |sum of predicted / sum of measured - 1| over the parts above 1 %
	                       of the step */
	const char *worst_part;       /* "" */
	size_t operations;            /* of the lifted steps, mean */
	size_t collectives;           /* matched over ranks */
	double residual_s;            /* of the alignment of clocks */
	double device_known_shape;    /* share of the measured device time with work of known shape; NAN
	                                 without times */
	const lk_replay_works *works; /* NULL for captures */
	const char *const *uncovered; /* device work of unknown shape, by time; operations without a
	                                 model, by frequency */
	size_t uncovered_count;
	const char *const *warnings;
	size_t warning_count;
	const char *const *notes; /* remarks from execution traces */
	size_t note_count;
	const char *failed_check; /* the consistency check that failed; NULL: all passed */
	void *memory_owner;
} lk_replay;

/* Set every field to its default. Call it first, then set fields; later versions may add fields. */
void lk_replay_defaults(lk_replay_request *request);
/* Read the traces, lift their steps, simulate each with the times of the others. LK_ERR_INPUT:
 * files that are not traces, nothing to hold out, execution traces without a device; LK_ERR_IO;
 * LK_ERR_MEMORY. */
lk_status lk_replay_ask(const lk_replay_request *request, lk_replay **out, lk_error *err);
/* Free a replay and everything it points to; accepts NULL. */
void lk_replay_free(lk_replay *replay);

/* Write to `path`, or to `out` if it is NULL; `format` is an lk_output (view.h). LK_ERR_INPUT:
 * the format needs a path; LK_ERR_IO; LK_ERR_MEMORY. The keys of the JSON are in
 * docs/reference/schemas/replay.json. */
lk_status lk_replay_print(const lk_replay *replay, int format, bool verbose, bool colour,
                          const char *path, FILE *out, lk_error *err);

/* The verb's option table, for parsing, help, man page and completion (options.h). */
extern const lk_verb lk_replay_verb;

#ifdef __cplusplus
}
#endif
#endif
