/* diff.h: changes between two runs: per category, operation and kernel, and whether they exceed
 * noise; a run against the prediction of its job (lk_versus).
 *
 *     lk_diff_request request;
 *     lk_diff_defaults(&request);
 *     request.before = "before.json.gz", request.after = "after.json.gz";
 *     lk_diff *answer;
 *     lk_error err;
 *     if (lk_diff_ask(&request, &answer, &err) != LK_OK) ...
 *     lk_diff_print(answer, LK_OUTPUT_TEXT, LK_DIFF_ALL, false, NULL, stdout, &err);
 *     lk_diff_free(answer); */
#ifndef LOCKSTEP_DIFF_H
#define LOCKSTEP_DIFF_H

#include "lockstep/explain.h"
#include "lockstep/predict.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The request. Texts are borrowed; NULL means "not given". */
typedef struct lk_diff_request {
	const char *before, *after; /* a trace, or a folder with the traces of all ranks */
	const char *steps;          /* as in lk_explain_request, for both */
	int rank, top, threads;     /* likewise */
} lk_diff_request;

/* Times are per step, mean over ranks. */
typedef struct lk_diff_row {
	const char *name, *type; /* a category, "", or a kernel and its type */
	double before_s, after_s;
	double delta_s;                   /* after - before */
	double share;                     /* delta_s over before's step */
	double before_count, after_count; /* kernels per step; NAN for categories */
	const char *state; /* "new", "removed"; of a kernel whose work another one does in the
	                   * other run "replaced"; "" */
} lk_diff_row;

/* Work of one kind in both runs, paired by what it is: phase, kind, shape or size; whatever its
 * kernels are called. Times are per step, mean over ranks. */
typedef struct lk_diff_operation {
	const char *phase, *part, *kind, *shape, *group; /* as in lk_explain_operation */
	const char *before_name, *after_name;            /* the longest kernel; "" none */
	double before_s, after_s;           /* of the step: what overlaps with other work counts once */
	double delta_s, share;              /* as in lk_diff_row */
	double before_sum_s, after_sum_s;   /* of all durations */
	double before_count, after_count;   /* per step */
	double before_wait_s, after_wait_s; /* of before_s and after_s: waiting for the last rank */
	const char *state;                  /* "new", "removed" or "" */
} lk_diff_operation;

/* Two runs. Times are seconds per step. */
typedef struct lk_diff {
	const lk_explanation *before, *after;
	double before_s, after_s; /* duration of a step */
	double ratio;             /* before / after: above 1 the second run is faster */
	double ratio_deviation;   /* from the step-to-step deviations of both; NAN if one has only one
	                             step */
	int verdict;              /* 1 faster, -1 slower, 0 within noise or unknown */
	const char *sentence;     /* "1.07 +- 0.01 x faster" and its certainty */
	const lk_diff_row *categories; /* they add up to the step; the largest change first */
	int category_count;
	const lk_diff_row *kernels; /* the largest change first */
	int kernel_count;
	const lk_diff_operation *operations; /* likewise */
	int operation_count;
	int top;
	const char
		*reproduce; /* the command that reproduces it; NULL if the runs were not read from files */
	const char *failed_check; /* the consistency check that failed; NULL: all passed */
	void *memory_owner;
} lk_diff;

/* The tables of a comparison, in the order of the option's choices, and their names. */
enum { LK_DIFF_ALL, LK_DIFF_CATEGORIES, LK_DIFF_OPERATIONS, LK_DIFF_KERNELS, LK_DIFF_TABLES };
extern const char *const lk_diff_tables[LK_DIFF_TABLES + 1];

/* Set every field to its default. Call it first, then set fields; later versions may add fields. */
void lk_diff_defaults(lk_diff_request *request);
/* Explain and compare both runs. LK_ERR_INPUT: files that are not traces, missing steps or ranks;
 * LK_ERR_IO; LK_ERR_MEMORY. */
lk_status lk_diff_ask(const lk_diff_request *request, lk_diff **out, lk_error *err);
/* Like lk_explain, except that two traces, or two folders of traces, that have a rank in common are
 * two runs, which are compared: *two is the answer then, else *one; the other is NULL. Two single
 * traces without ranks and communication are also two runs, and so are traces from devices of
 * different names or with different numbers of ranks. Errors (LK_ERR_...) as in lk_explain. */
lk_status lk_explain_or_diff(const lk_explain_request *request, lk_explanation **one, lk_diff **two,
                             lk_error *err);
/* Frees an answer with all that it points to; accepts NULL. */
void lk_diff_free(lk_diff *diff);
/* Like lk_explain_print, with its errors (LK_ERR_...); csv and jsonl hold the kernels unless
 * another table is requested. */
lk_status lk_diff_print(const lk_diff *diff, int format, int table, bool colour, const char *path,
                        FILE *out, lk_error *err);

/* ---- a traced run against its job: the step that was measured and the one that is predicted, the
 * difference by part, what was not expected, and what may be the cause. Times are seconds a step,
 * means over ranks. ---- */

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

/* A traced run beside the prediction of its job. Numbers that are not known are 0 or NAN. */
typedef struct lk_versus {
	const lk_prediction *predicted;
	const lk_explanation *predicted_step; /* of the predicted step, as if it had been traced */
	const char *job;                      /* as given */
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
	double unchanged_share; /* probability that the job is as stated, and the prediction errs */
	double unchanged_time_off, unchanged_work_off; /* as of causes, of the job as stated */
	int tried;                                     /* predictions that were made for the causes */
	/* Factors on the times of kernels, links and host with which the models give the measured ones;
	 * 0: the trace says nothing of it. In words, with what it does not say. */
	double scaled_kernels, scaled_links, scaled_host;
	const char *scaled;
	const char *failed_check;
} lk_versus;

/* lk_explain, and the comparison with the prediction of `job` in lk_explanation.versus.
 * LK_ERR_INPUT, LK_ERR_IO, LK_ERR_MEMORY: as of lk_explain and lk_predict. `request->job` is the
 * text of the job, for the command that reproduces the answer. */
lk_status lk_versus_explain(const lk_explain_request *request, const lk_predict_request *job,
                            lk_explanation **out, lk_error *err);

/* Write rows for --calibration with the factors of such an explanation. LK_ERR_INPUT: there are
 * none; LK_ERR_IO; LK_ERR_MEMORY. */
lk_status lk_versus_write_calibration(const lk_explanation *explanation, const char *path,
                                      lk_error *err);

/* The verb's option table, for parsing, help, man page and completion (options.h). */
extern const lk_verb lk_diff_verb;

#ifdef __cplusplus
}
#endif
#endif
