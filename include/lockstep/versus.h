/* versus.h: a traced run against its job: the step that was measured and the one that is predicted,
 * the difference by part, what was not expected, and what may be the cause.
 *
 *     request.job = "llama3.1-8b --gpu h100-sxm --gpus 8 --tp 2", predict_request of the same ...
 *     lk_explanation *answer;
 *     if (lk_versus_explain(&request, &predict_request, &answer, &err) != LK_OK) ...
 *     answer->versus->parts ...
 *     lk_explain_free(answer);
 *
 * Times are seconds a step, means over ranks. */
#ifndef LOCKSTEP_VERSUS_H
#define LOCKSTEP_VERSUS_H

#include "lockstep/diff.h"
#include "lockstep/explain.h"
#include "lockstep/predict.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A part of a step; the parts add up to the steps, so their differences to the difference. */
typedef struct lk_versus_part {
	const char *phase; /* "forward", "backward", ...; "" of idle time */
	const char *part;  /* "products", "attention", ..., "waiting", "idle: data loading" */
	const char *kind;  /* of communication: "all_gather"; else "" */
	const char *group; /* likewise: "tp"; "" not known */
	double predicted_s, measured_s;
	double delta_s; /* measured - predicted */
	double share;   /* of the difference of the steps; NAN where they are equal */
} lk_versus_part;

/* Work that only one side has, or has another number of times. */
typedef struct lk_versus_finding {
	const char *state;                  /* "not expected", "more often", "less often", "missing" */
	const char *what;                   /* in words: "activations are computed again" */
	const lk_diff_operation *operation; /* before: predicted, after: measured */
} lk_versus_finding;

/* What the step of another job would be like: a change of the job, or of its cluster. */
typedef struct lk_versus_cause {
	const char *cause;         /* "recompute_full" */
	const char *what;          /* in words */
	const char *option;        /* as options of predict */
	const char *check;         /* how to find out within a minute */
	double share;              /* probability among those listed */
	double step_time_s;        /* predicted with it */
	double time_off, work_off; /* what remains unexplained, over the step: of time, of work */
} lk_versus_cause;

typedef struct lk_versus {
	const lk_prediction *predicted;
	const char *job;                                      /* as given */
	double predicted_s, low_s, high_s, measured_s, ratio; /* measured over predicted */
	bool inside;                                          /* the 80 % range of the prediction */
	double predicted_mfu, measured_mfu; /* with the operations of the job; 0 not known */
	const char *sentence;
	const lk_versus_part *parts; /* the largest difference first */
	int part_count;
	const lk_diff_operation *operations; /* before: predicted, after: measured */
	int operation_count;
	const lk_versus_finding *findings; /* the most time first */
	int finding_count;
	const lk_versus_cause *causes; /* the likeliest first; none where nothing is to explain */
	int cause_count;
	double unchanged_time_off, unchanged_work_off; /* as of causes, of the job as stated */
	int tried;                                     /* predictions that were made for the causes */
	const char *failed_check;
} lk_versus;

/* lk_explain, and the comparison with the prediction of `job` in lk_explanation.versus. The errors of
 * both. `request->job` is the text of the job, for the command that reproduces the answer. */
lk_status lk_versus_explain(const lk_explain_request *request, const lk_predict_request *job,
                            lk_explanation **out, lk_error *err);

#ifdef __cplusplus
}
#endif
#endif
