/* shard.h: place embedding tables on GPUs.
 *
 *     lk_shard_request request;
 *     lk_shard_defaults(&request);
 *     request.tables = "tables.csv", request.gpu = "a100-sxm-80", request.gpus = 8;
 *     lk_shard_answer *answer;
 *     lk_error err;
 *     if (lk_shard(&request, &answer, &err) != LK_OK) ...
 *     lk_shard_print(answer, LK_SHARD_PLAN, LK_OUTPUT_TEXT, false, NULL, stdout, &err);
 *     lk_shard_free(answer);
 *
 * Method: docs/method/recommenders.md, "Embedding tables". */
#ifndef LOCKSTEP_SHARD_H
#define LOCKSTEP_SHARD_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include "lockstep/error.h"
#include "lockstep/options.h"
#include "lockstep/stop.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The request. Texts are borrowed; 0 and NULL: not given. */
typedef struct lk_shard_request {
	const char
		*tables; /* CSV: name, rows, dim, pooling; see docs/guide/shard.md; "-" standard input */
	const char *model; /* alternative: a recommendation model, a preset or a file, with its tables
	                      t0, t1, ...: the step is then the model's, as in lk_predict */
	bool cuda_graphs;  /* with a model: replayed from CUDA graphs; else a host issues each kernel */
	const char *gpu;
	int gpus;
	const char *cluster;     /* alternative: as for predict */
	const char *calibration; /* rows of `lockstep calibrate`, or of bench-lookup for a processor */
	double batch;            /* samples per step, over all ranks; 0: 65536, with a model 8192 per
	                            rank */
	int optimizer;           /* rowwise-adagrad, adagrad, sgd, adam */
	int dtype;               /* of the tables: fp32, fp16, bf16 */
	const char *kinds;       /* "table,column,row,data": allowed kinds of placement; NULL: all */
	const char *sharder;     /* NULL: the search */
	const char *placement;   /* file: time this plan instead, in the form of `plan` */
	double reserve;          /* share of the device's memory not used for tables; default 0.15 */
	double host_gib;         /* host memory for tables, GiB per GPU; 0: none */
	double cache;    /* share of a table in host memory that the device caches; default 0.2 */
	double dense_ms; /* of the dense part of the model, between the two exchanges */
	double seed;
	double search_s;              /* most seconds; 0: no limit */
	lk_search_progress *progress; /* NULL: no progress reports */
	void *progress_context;
	const char *plan;  /* file: the placement as JSON in TorchRec's terms */
	const char *graph; /* file: its step graph */
} lk_shard_request;

/* A piece of a table on a rank. */
typedef struct lk_shard_placed {
	const char *name, *kind, *where; /* table; "table", "column", "row", "data"; "device", "host" */
	int rank;                        /* -1: on all */
	int part, parts;
	double rows, dim, pooling; /* of the piece */
	double bytes;              /* with the optimizer's state */
	double forward_s, backward_s;
} lk_shard_placed;

/* Contents and times of a rank. */
typedef struct lk_shard_rank {
	int rank, pieces;
	double device_bytes, host_bytes;
	double forward_s, backward_s;
	double columns;    /* of pooled sums sent to every other rank */
	double exchange_s; /* as if all ranks had as many, one direction */
} lk_shard_rank;

/* One sharder's answer. */
typedef struct lk_shard_tried {
	const char *name;
	bool fits;
	double step_s, imbalance; /* of lookups, forward and backward: slowest over mean */
	double seconds;           /* its running time */
	const char *reason;       /* why there is no result */
} lk_shard_tried;

/* The placement. Times in seconds per step, sizes in bytes. */
typedef struct lk_shard_answer {
	bool fits;
	const char *reason; /* if it does not fit: what is missing, what helps */
	const char *sharder;
	const char *cut_off; /* as in a plan (plan.h) */
	const lk_shard_placed *pieces;
	int piece_count;
	const lk_shard_rank *ranks;
	int rank_count;
	const lk_shard_tried *tried;
	int tried_count;
	double step_s;       /* simulated; with a model its whole training step */
	double placed_s;     /* the parts below in sequence: the objective of the search */
	double bound_s, gap; /* no placement is faster; placed / bound - 1 */
	double index_s, forward_s, exchange_s, dense_s, backward_s,
		reduce_s; /* parts of the step; exchange: one direction */
	double imbalance;
	double table_bytes;                         /* all tables, with states */
	double capacity_bytes, host_capacity_bytes; /* per rank */
	double batch;
	int tables;
	const char *model; /* description of the model and how it runs; NULL without a model */
	const char *cluster, *basis, *reproduce;
	lk_inputs inputs;         /* the files read; reports identify them by content */
	const char *failed_check; /* the consistency check that failed; NULL: all passed */
	void *memory_owner;
} lk_shard_answer;

/* What to print, and its names in `lockstep shard --table`; NULL last. */
enum { LK_SHARD_PLAN, LK_SHARD_RANKS, LK_SHARD_PIECES, LK_SHARD_TRIED, LK_SHARD_TABLES };
extern const char
	*const lk_shard_table_names[LK_SHARD_TABLES + 1]; /* "plan", "ranks", "pieces", "sharders" */

/* Set every field to its default. Call it first, then set fields; later versions may add fields. */
void lk_shard_defaults(lk_shard_request *request);
/* Place the tables. If they do not fit, that is an answer: fits is false, and `reason` says what is
 * missing. LK_ERR_INPUT: an invalid list of tables, device or cluster; LK_ERR_IO; LK_ERR_MEMORY. */
lk_status lk_shard(const lk_shard_request *request, lk_shard_answer **out, lk_error *err);
/* Free an answer and everything it points to; accepts NULL. */
void lk_shard_free(lk_shard_answer *answer);

/* Write to `path`, or to `out` if it is NULL; `format` is an lk_output (view.h). LK_ERR_INPUT:
 * the format needs a path; LK_ERR_IO; LK_ERR_MEMORY. `table`: LK_SHARD_PLAN is a report in TEXT,
 * everything in JSON, the pieces elsewhere. The keys of the JSON are in
 * docs/reference/schemas/shard.json. */
lk_status lk_shard_print(const lk_shard_answer *answer, int table, int format, bool colour,
                         const char *path, FILE *out, lk_error *err);
/* Write the placement as JSON in TorchRec's terms: {table: {sharding_type, compute_kernel, ranks,
 * sharding_spec}}. LK_ERR_INPUT if it does not fit; LK_ERR_IO; LK_ERR_MEMORY. */
lk_status lk_shard_write_plan(const lk_shard_answer *answer, const char *path, lk_error *err);

/* The verb's option table, for parsing, help, man page and completion (options.h). */
extern const lk_verb lk_shard_verb;

#ifdef __cplusplus
}
#endif
#endif
