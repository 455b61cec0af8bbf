/* compose.h: a whole job from recordings of single processes that ran as emulated ranks of it
 * (record.h: --world, --ranks).
 *
 *     lk_compose_request request;
 *     lk_compose_defaults(&request);
 *     request.folder = "recording", request.cluster = "hosts.json";
 *     lk_composed *composed;
 *     lk_error err;
 *     if (lk_compose(&request, &composed, &err) != LK_OK) ...
 *     lk_compose_print(composed, LK_OUTPUT_TEXT, false, false, NULL, stdout, &err);
 *     lk_compose_free(composed);
 *
 * The own work of processes and their GPUs takes as long as recorded, communication as long as
 * modelled by the cluster's messages and links. Method: docs/method/stalls.md, "Composing a
 * job". */
#ifndef LOCKSTEP_COMPOSE_H
#define LOCKSTEP_COMPOSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include "lockstep/error.h"
#include "lockstep/options.h"

#ifdef __cplusplus
extern "C" {
#endif

/* When communication progresses between its start and its wait. */
enum {
	LK_PROGRESS_CALLS, /* while the program is in MPI: libraries without a progress thread */
	LK_PROGRESS_ALWAYS,
};

/* The request. Texts are borrowed; NULL and 0 mean "not given". */
typedef struct lk_compose_request {
	const char *folder;  /* with recordings */
	const char *cluster; /* text, or the file of `calibrate host`; NULL: one rank per node, default
	                        nodes of the processor */
	int ranks_per_node;  /* 0: the number of devices of a cluster node */
	int shared;          /* ranks that share one machine's cores and memory; 0: those of a node */
	double memory_bound; /* share of own work limited by memory, 0 to 1; -1: unknown, gives a
	                      * range */
	int progress;        /* LK_PROGRESS_... */
	double eager;        /* bytes: smaller messages are sent without waiting for the receiver; 0: 64
	                      * KiB */
	const char *graph;   /* file: the step graph of all ranks */
} lk_compose_request;

/* Where the time of a rank's step goes; seconds. They add up to the step. */
typedef struct lk_compose_parts {
	double device, own, files, transfer,
		wait; /* kernels and copies; without any, the process's own work; reading and writing;
		         moving data; waiting for others */
} lk_compose_parts;

/* A recorded rank and the ranks that it represents. */
typedef struct lk_compose_class {
	int rank; /* recorded */
	const char *path;
	int ranks;              /* number of ranks that it represents, including itself */
	const char *stands_for; /* "0-7, 16" */
	int steps, unlike;      /* in the recording; steps with a different sequence of calls */
	int calls;              /* communication calls per step */
	double bytes;           /* bytes that they move, as counted by nccl-tests */
	double own_s, own_low_s,
		own_high_s;  /* own work and files per step: sum of medians; 10 % and 90 % of whole steps */
	double asleep_s; /* part of own_s in which no thread of the process computed */
	double device_s, device_low_s, device_high_s; /* likewise for work on streams of a device */
	int untimed;                                  /* pieces of it with unknown times */
	double beside_s;        /* excess of the mean step over the typical one: checkpoints,
	                         * evaluation */
	lk_compose_parts parts; /* mean over the ranks that it represents */
} lk_compose_class;

/* The job. Times in seconds. */
typedef struct lk_composed {
	const char *program, *cluster;
	int world, nodes, ranks_per_node;
	double step_s, low_s, high_s;    /* in the steady state; the notes explain the range */
	double first_s;                  /* one step from idle */
	lk_compose_parts parts;          /* mean over all ranks */
	const lk_compose_class *classes; /* by rank */
	int class_count;
	size_t operations;        /* of the step graph */
	size_t messages;          /* measured message sizes; 0: modelled */
	const char *const *notes; /* basis of the numbers, in sentences */
	int note_count;
	const char *failed_check; /* the consistency check that failed; NULL: all passed */
	void *memory_owner;
} lk_composed;

/* Set every field to its default. Call it first, then set fields; later versions may add fields. */
void lk_compose_defaults(lk_compose_request *request);
/* Compose the job. LK_ERR_INPUT: a folder without such recordings, missing classes of ranks, a
 * cluster that is too small; LK_ERR_IO; LK_ERR_MEMORY. */
lk_status lk_compose(const lk_compose_request *request, lk_composed **out, lk_error *err);
/* Free an answer and everything it points to; accepts NULL. */
void lk_compose_free(lk_composed *composed);

/* Write to `path`, or to `out` if it is NULL; `format` is an lk_output (view.h). LK_ERR_INPUT:
 * the format needs a path; LK_ERR_IO; LK_ERR_MEMORY. The keys of the JSON are in
 * docs/reference/schemas/compose.json. Tables have a row for each class. */
lk_status lk_compose_print(const lk_composed *composed, int format, bool verbose, bool colour,
                           const char *path, FILE *out, lk_error *err);

/* The verb's option table, for parsing, help, man page and completion (options.h). */
extern const lk_verb lk_compose_verb;

#ifdef __cplusplus
}
#endif
#endif
