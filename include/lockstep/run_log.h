/* run_log.h: what a run's own log says: times of its steps, slow steps, drift, throughput, memory.
 *
 * Logs of training frameworks, their metrics as CSV, JSON, TensorBoard's events or MLflow's
 * folders, and tables of nvidia-smi and DCGM are read; data/measured/ lists them. Nothing is
 * simulated. */
#ifndef LOCKSTEP_RUN_LOG_H
#define LOCKSTEP_RUN_LOG_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include "lockstep/error.h"
#include "lockstep/explain.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A step of the log. */
typedef struct lk_log_step {
	int64_t number;
	double seconds;
	bool first; /* among those at the start that compile and fill caches: left out of statistics */
	bool slow;  /* more than 1.5 times the median */
} lk_log_step;

/* A part of a step that the run timed by itself. */
typedef struct lk_log_part {
	const char *name;
	double seconds, share; /* share: of the median step; NAN where that is not known */
} lk_log_part;

/* Steps of one speed, between two changes that are no chance. */
typedef struct lk_log_stretch {
	int64_t first, last; /* numbers of steps */
	int steps;
	double seconds; /* median */
	double slower;  /* than the fastest stretch, a share */
	double cost_s;  /* what its steps took beyond that */
} lk_log_stretch;

/* What the log says. Numbers that it does not state are NAN, counts 0, texts NULL. */
typedef struct lk_run_log {
	const char *source;                     /* "log of Megatron-LM, 4,211 steps" */
	double step_s, step_low_s, step_high_s; /* median, 5th and 95th percentile */
	double first_s;                         /* the first step */
	double drift; /* the median of the last third of the steps over that of the first, minus 1 */
	const lk_log_step *steps; /* in order */
	int step_count, first_count;
	int slow_count;
	const lk_log_stretch *stretches; /* of the steps after the first ones; none of few steps */
	int stretch_count;
	int restarts;           /* times that the log goes back to an earlier step */
	int64_t repeated_steps; /* steps that ran again then */
	double restart_s;       /* what these take, by the median */
	double slow_share;      /* of the time: what slow steps took beyond the median */
	int64_t slow_every;     /* steps between two slow ones, where that is always the same; else 0 */
	double tokens_per_s, samples_per_s;       /* of the whole job */
	double tokens_per_s_gpu, tflops_gpu, mfu; /* of one GPU; mfu is a share */
	double memory_bytes;                      /* peak of the fullest device */
	const char *memory_kind; /* "allocated", "active", "reserved", "device total" or "" */
	int64_t gpus, global_batch, seq_len;
	const lk_log_part *parts;
	int part_count;
	const char *gpu;
	double gpu_memory_bytes, power_w, power_limit_w, clock_hz, utilisation;
	bool throttled;
	const char *const *findings; /* sentences: what stands out, and what to do */
	int finding_count;
	int top;                  /* of the request */
	const char *reproduce;    /* the command that asks again */
	const char *failed_check; /* a check of its own consistency that failed; NULL: none */
	void *memory_owner;
} lk_run_log;

/* Whether the request's only path is a log: not a trace, several paths or a file that measures
 * nothing. LK_ERR_INPUT: one that is named as a log measures nothing; LK_ERR_MEMORY. */
lk_status lk_run_log_asked(const lk_explain_request *request, bool *asked, lk_error *err);
/* Read it. LK_ERR_INPUT: it is none; LK_ERR_IO; LK_ERR_MEMORY. */
lk_status lk_run_log_read(const lk_explain_request *request, lk_run_log **out, lk_error *err);
/* Free an answer with all that it points to; accepts NULL. */
void lk_run_log_free(lk_run_log *log);
/* Print like lk_explain_print, with its errors (LK_ERR_...): the report as text, a table of the
 * steps in other formats but JSON. */
lk_status lk_run_log_print(const lk_run_log *log, int format, bool colour, const char *path,
                           FILE *out, lk_error *err);

/* Write the noise of the steps after the first ones as rows for `predict --noise FILE`.
 * LK_ERR_INPUT: too few steps; LK_ERR_IO; LK_ERR_MEMORY. */
lk_status lk_run_log_write_noise(const lk_run_log *log, const char *path, lk_error *err);

#ifdef __cplusplus
}
#endif
#endif
