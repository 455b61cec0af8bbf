/* generation.h: shared by the files that answer for inference engines: predict_generate.c, and
 * predict_serve.c for requests that arrive one after another. */
#ifndef LK_PREDICT_GENERATION_H
#define LK_PREDICT_GENERATION_H

#include "base/arena.h"
#include "predict/predict_internal.h"
#include "rollout/rollout.h"

/* Tokens of a cache that holds any job, so that what does not fit is timed as if it did. */
#define LK_ENDLESS_CACHE 1e15

/* What a request may take at most, seconds; INFINITY: any time. */
struct service_limits {
	double first_s, token_s, whole_s;
	bool given;
};

struct generation {
	lk_arena *arena;
	const lk_predict_request *request;
	lk_asked asked;
	lk_engine engine;
	lk_engine_memory memory;
	int engines;
	double prompt, most; /* prompt tokens; limit at which a response is cut, 0: none */
	double mean;         /* of a response; from a file, the mean of those used */
	int kind;            /* lk_length_kind; -1: a file */
	bool kind_given;
	size_t count;
	double *lengths; /* [count] scratch */
	lk_sequence *sequences;
	double longest; /* response */
	double room;    /* tokens that the longest sequence needs */
	/* of a service: */
	bool listed; /* its requests are those of a file */
	lk_arrival_law law;
	struct service_limits limits;
	lk_moments *moments; /* [count] */
	double request_s;    /* of each request, beside its iterations */
};

/* Whether the task is a service. */
bool lk_predict_serves(const lk_predict_request *request);
/* Reads when requests arrive, how many they are, and their limits; with a file, their tokens too. */
lk_status lk_serve_read(struct generation *generation, lk_error *err);
/* Gives the sequences, those at the rate that is asked for, the times of their arrival. */
lk_status lk_serve_arrive(struct generation *generation, lk_error *err);
/* Fills the latencies at the rate that is asked for, whose run this is, and at others, and the rate
 * that the engines stand. */
lk_status lk_serve_fill(struct generation *generation, const lk_rollout *rollout,
                        lk_prediction *prediction, lk_error *err);

/* A run of these sequences; a job that does not fit is timed as if it did. `moments`: see
 * lk_rollout_run. */
lk_status lk_generation_run(const struct generation *generation, const lk_sequence *sequences,
                            size_t count, lk_moments *moments, lk_rollout *out, lk_error *err);

#endif
