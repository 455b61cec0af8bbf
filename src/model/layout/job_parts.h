/* job_parts.h: what the files of the training job share and nobody else needs. */
#ifndef LK_MODEL_JOB_PARTS_H
#define LK_MODEL_JOB_PARTS_H

#include <stdint.h>
#include "model/layout/job.h"

enum {
	LK_JOB_GPUS = 1 << 22,  /* ranks of a job, at most */
	LK_JOB_PASSES = 1 << 20, /* micro-batches times chunks of all stages, at most */
	LK_JOB_NEAR = 48,       /* bytes of a text of nearest legal values */
};

/* job_legal.c: the nearest legal values on both sides of `value`, as "6, 8". Each returns `out`. */
char *lk_near_divisors(char out[LK_JOB_NEAR], int64_t value, int64_t of);
char *lk_near_multiples(char out[LK_JOB_NEAR], int64_t value, int64_t of);
/* `legal` is asked for values below and above `value`, within 1..high. "none" where there is none. */
typedef bool (*lk_near_fn)(const void *context, int64_t value);
char *lk_near_legal(char out[LK_JOB_NEAR], int64_t value, int64_t high, lk_near_fn legal, const void *context);

/* job_split.c: layers over pipeline stages. */
int lk_job_layers(const lk_job *job);          /* of both stacks */
int lk_job_places(const lk_job *job);          /* of the chain of model chunks; needs pp, vp, schedule */
lk_status lk_job_layout_places(const lk_job *job, int *places, lk_error *err);
lk_status lk_job_check_split(const lk_job *job, lk_error *err);
int lk_job_stage_layers(const lk_job *job, int stage);

/* job_check.c: refuses what cannot run. Every derived field is filled. */
lk_status lk_job_check_ranges(const lk_job *job, lk_error *err);
lk_status lk_job_check_layout(const lk_job *job, lk_error *err);
lk_status lk_job_check_switches(const lk_job *job, lk_error *err);
lk_status lk_job_check_dtype(const lk_job *job, const lk_cluster *cluster, lk_error *err);
bool lk_cluster_has_dtype(const lk_cluster *cluster, lk_dtype dtype);

/* Whether the defaults of Megatron-LM hold: the job's stack is Megatron or one of its relatives. */
bool lk_job_like_megatron(const lk_job *job);
bool lk_job_uses_deepspeed(const lk_job *job);

#endif
