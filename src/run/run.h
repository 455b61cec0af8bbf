/* run.h: a whole training run: what stops it, what is lost then, how long it takes. One model for
 * predict, rent and tables of published runs (docs/method/runs.md). */
#ifndef LK_RUN_RUN_H
#define LK_RUN_RUN_H

#include <stdbool.h>
#include "lockstep/error.h"

/* Where the time of a run goes. */
typedef enum lk_run_part {
	LK_RUN_USEFUL,
	LK_RUN_CHECKPOINT, /* steps wait for checkpoints */
	LK_RUN_REPEATED,   /* work since the checkpoint that is loaded */
	LK_RUN_DETECT,
	LK_RUN_DIAGNOSE,
	LK_RUN_SPARES, /* until a machine is free */
	LK_RUN_RESTART,
	LK_RUN_REDUCED, /* elastic: what missing replicas would have done */
	LK_RUN_PLANNED,
	LK_RUN_PARTS
} lk_run_part;
const char *lk_run_part_key(lk_run_part part);
const char *lk_run_part_label(lk_run_part part);

enum {
	LK_RUN_TIERS = 4,
	LK_RUN_ROWS = 100,     /* most rows of a table */
	LK_RUN_SAMPLES = 1000, /* runs that are simulated */
	LK_RUN_REPAIR_H = 24 /* until a machine is back: the most that fleets report for a backplane */
};

typedef struct lk_run_cause {
	const char *key, *label;
	double per_gpu_h, low, high; /* stops per GPU-hour; of fleets */
	bool replaces, planned;
} lk_run_cause;

/* A row of data/runs/recoveries.csv, seconds. */
typedef struct lk_run_recovery {
	const char *name, *label;
	double detect_s, hang_share, hang_s, diagnose_s, replace_s, restart_s, in_place_s;
	bool elastic;
} lk_run_recovery;

/* Checkpoints of one kind. */
typedef struct lk_run_tier {
	const char *name, *label;
	double interval_s; /* of training between two; 0: the best */
	double stall_s;    /* that a step waits for one */
	double write_s;    /* from its begin until it is safe */
	double load_s;
	bool survives; /* the loss of a machine */
} lk_run_tier;

/* A run. Rates are per hour of the whole job. */
typedef struct lk_long_run {
	double work_s; /* of training alone */
	double gpus, nodes, replicas;
	double stops_per_h;    /* unexpected */
	double replaced_share; /* of them that take a machine with them */
	double planned_per_h;
	lk_run_recovery recovery; /* of this job */
	lk_run_tier tiers[LK_RUN_TIERS];
	int tier_count;
	double spares; /* nodes held ready; negative: there is always one */
	double repair_h;
	double seed;
	int samples;
} lk_long_run;

/* What a request says of a run; 0 and NULL: not stated. */
typedef struct lk_run_words {
	double gpus, nodes, replicas;
	/* "low", "typical", "high", or a table as data/runs/failures.csv; NULL: nothing stops it but
	 * nodes that fail so often, of those causes */
	const char *failures;
	double node_mtbf_h;
	const char *recovery; /* a row of data/runs/recoveries.csv; NULL: "replace" */
	const char *tiers;    /* rows of data/runs/checkpoints.csv: "host:30s+async:30min"; NULL:
	                         "storage" */
	double interval_s;    /* of the last of them if it states none; 0: the best */
	double bytes;         /* of a checkpoint */
	double node_gbps;     /* 10^9 bytes/s of a node to shared storage */
	double spares, repair_h, seed;
} lk_run_words;

/* Read the tables of this context, so that lk_run_of fails for its words alone. */
lk_status lk_run_ready(lk_error *err);
/* Make a run; its work_s is left to the caller. LK_ERR_INPUT: unknown names, a table that cannot be
 * read; LK_ERR_IO; LK_ERR_MEMORY. */
lk_status lk_run_of(const lk_run_words *words, lk_long_run *out, lk_error *err);

/* A step that computes `step_s`, whose samples storage reads in `read_s` while others are computed
 * on, and a host hands over in `host_s`. */
static inline double lk_run_input_step(double step_s, double read_s, double host_s) {
	return step_s + host_s > read_s ? step_s + host_s : read_s;
}

/* ---- closed forms */

/* The interval (seconds of training) with the best goodput for checkpoints that stall `stall_s`, if
 * the job stops `per_h` times an hour: the minimum of Daly's complete model, which Young's sqrt(2 w
 * M) approaches. 0: nothing stops it, or nothing is stalled. */
double lk_run_best_interval(double per_h, double stall_s);
/* Goodput with the first tier alone and a machine always at hand. Exact for stops that come at
 * random (Daly 2006, equation 13, with several recovery times) if no stop is planned and the write
 * is over when the stall is. 0: less than a twentieth. */
double lk_run_goodput(const lk_long_run *run);
/* Whether lk_run_goodput is exact. */
bool lk_run_is_closed(const lk_long_run *run);
/* The variance of the hours lost, per hour of the job: each stop loses its recovery and the work
 * since the checkpoint, uniform from 0 to the interval. */
double lk_run_variance(const lk_long_run *run);
/* Spares (nodes) with the lowest cost of the run, and those that are enough in 99 of 100 hours:
 * nodes under repair are Poisson-distributed. */
void lk_run_best_spares(const lk_long_run *run, int *cheapest, int *enough);

/* Fill intervals that are open: each tier's best against the stops that it saves from. A faster
 * tier's interval divides a slower one's, and none ends before the write of the one before it. */
void lk_run_settle(lk_long_run *run);

/* ---- run_simulate: every stop of the run, many times. */

typedef struct lk_run_quantiles {
	double mean, p5, p50, p95;
} lk_run_quantiles;
typedef struct lk_run_days {
	lk_run_quantiles days, gpu_days, goodput, stops; /* of one run */
	double part_days[LK_RUN_PARTS];                  /* means; their sum is the mean of days */
	int samples;
} lk_run_days;

/* Simulate a run of `count` phases with settled intervals, as often as the first says, or as many
 * stops leave time for: those of long runs scatter little. Spares are counted in gpu_days.
 * Independent of the number of threads. Of a run with millions of stops a
 * part is simulated. LK_ERR_INPUT: a run that does not end within a hundred times its work;
 * LK_ERR_MEMORY. */
lk_status lk_run_simulate(const lk_long_run *phases, int count, lk_run_days *out, lk_error *err);

#endif
