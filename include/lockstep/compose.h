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
 * Own work, of processes and of their GPUs, takes as long as recorded, communication as long as the
 * cluster's messages and links say. Method: docs/method/stalls.md, "Composing a job". */
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

/* When communication that a program has begun and not yet waited for goes on. */
enum {
	LK_PROGRESS_CALLS, /* while the program is in MPI: libraries without a thread of their own */
	LK_PROGRESS_ALWAYS,
};

/* The request. Texts are borrowed; NULL and 0 mean "not given". */
typedef struct lk_compose_request {
	const char *folder;  /* with recordings */
	const char *cluster; /* text, or the file of `calibrate host`; NULL: one rank a node, as usual
	                        for the processor */
	int ranks_per_node;  /* 0: as many as a node of the cluster has devices */
	int shared;          /* ranks that share one machine's cores and memory; 0: those of a node */
	double memory_bound; /* share of own work that memory limits, 0 to 1; -1: not known, a range */
	int progress;        /* LK_PROGRESS_... */
	double eager;        /* bytes: smaller messages leave without their receiver; 0: 64 KiB */
	const char *graph;   /* file: the step graph of all ranks */
} lk_compose_request;

/* Where the time of a rank's step goes; seconds. The sum is the step. */
typedef struct lk_compose_parts {
	double device, own, files, transfer,
		wait; /* kernels and copies; where there are none, own work of the process, reading and
	             writing, moving data; waiting for others */
} lk_compose_parts;

/* A recorded rank and those that it stands for. */
typedef struct lk_compose_class {
	int rank; /* recorded */
	const char *path;
	int ranks;              /* that it stands for, with itself */
	const char *stands_for; /* "0-7, 16" */
	int steps, unlike;      /* in the recording; of these with another sequence of calls */
	int calls;              /* of communication in a step */
	double bytes;           /* that they move, as nccl-tests count */
	double own_s, own_low_s,
		own_high_s; /* own work and files of a step: sum of medians; 10 % and 90 % of whole steps */
	double asleep_s; /* of own_s, in which no thread of the process computed */
	double device_s, device_low_s, device_high_s; /* the same of work on streams of a device */
	int untimed;                                  /* pieces of it whose times are not known */
	double beside_s;        /* what a mean step has beyond the usual one: checkpoints, evaluation */
	lk_compose_parts parts; /* mean over the ranks that it stands for */
} lk_compose_class;

/* The job. Times in seconds. */
typedef struct lk_composed {
	const char *program, *cluster;
	int world, nodes, ranks_per_node;
	double step_s, low_s, high_s;    /* in a steady state; the range says what it comes from */
	double first_s;                  /* one step from idle */
	lk_compose_parts parts;          /* mean over all ranks */
	const lk_compose_class *classes; /* by rank */
	int class_count;
	size_t operations;        /* of the step graph */
	size_t messages;          /* sizes of messages that were measured; 0: modelled */
	const char *const *notes; /* what the numbers rest on, in sentences */
	int note_count;
	const char *failed_check; /* of its own consistency, which failed; NULL: none did */
	void *memory_owner;
} lk_composed;

/* Sets every field to what holds where nothing is said. Call it first, then set fields: they may
 * become more. */
void lk_compose_defaults(lk_compose_request *request);
/* Composes the job. LK_ERR_INPUT: a folder without such recordings, classes of ranks that are
 * missing, a cluster that is too small; LK_ERR_IO; LK_ERR_MEMORY. */
lk_status lk_compose(const lk_compose_request *request, lk_composed **out, lk_error *err);
/* Frees an answer with all that it points to; accepts NULL. */
void lk_compose_free(lk_composed *composed);

/* To `path` where it is not NULL, else to `out`; `format` is an lk_output (view.h). LK_ERR_INPUT
 * for a format without its path; LK_ERR_IO; LK_ERR_MEMORY. The keys of the JSON are in
 * docs/reference/schemas/compose.json. Tables have a row for each class. */
lk_status lk_compose_print(const lk_composed *composed, int format, bool verbose, bool colour,
                           const char *path, FILE *out, lk_error *err);

/* The verb's option table: parsing, help, man page and completion come from it (options.h). */
extern const lk_verb lk_compose_verb;

#ifdef __cplusplus
}
#endif
#endif
