/* verbs.h: one row per verb: how it is asked and how its answer is shown. The program (cli), the
 * server (serve) and the bindings (view/reply) all ask through these rows. A verb's row is in
 * predictions.c, decisions.c, runs.c, lists.c or setup.c; which verbs are offered is up to each of
 * the three. */
#ifndef LK_VERBS_VERBS_H
#define LK_VERBS_VERBS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "lockstep/doctor.h"
#include "lockstep/emit.h"
#include "lockstep/error.h"
#include "lockstep/explain.h"
#include "lockstep/options.h"
#include "lockstep/plan.h"
#include "lockstep/predict.h"
#include "lockstep/report.h"
#include "lockstep/stop.h"
#include "lockstep/view.h"

/* What a question consists of in addition to its options. Zero and NULL: not given. */
typedef struct lk_verb_input {
	const char *const *operands;
	int operand_count;
	const char *const *launch; /* the words after -- */
	int launch_count;
	const lk_outputs *outputs; /* tables and files wanted of the answer; never NULL */
	bool pictured;             /* a report is made of the answer */
	bool brief;                /* predict: without searches for fixes and sensitivities */
	int threads;               /* overrides the request's */
	lk_search_progress *progress;
	/* calibrate: called with what it measures and how much of it is done */
	void (*doing)(void *context, const char *doing, double share);
	void *progress_context;    /* of both */
	lk_doctor_request program; /* doctor: of the program that asks; without places of defaults */
	const lk_plan_team *team;  /* processes that share the work */
	const char *text;          /* simulate: the graph itself, without an operand */
	size_t text_size;
} lk_verb_input;

enum { LK_VERB_PATHS = 2 };

/* A verb. `request` is an object of verb->request_size bytes, `answer` what `ask` made. Functions
 * that may be NULL do nothing. */
typedef struct lk_verb_row lk_verb_row;
struct lk_verb_row {
	const lk_verb *verb;
	void (*defaults)(void *request); /* of a request of zeros; may be NULL */
	/* Takes over operands, launch words and the rest of `input`, after the options. LK_ERR_INPUT:
	 * an operand that contradicts an option. May be NULL. */
	lk_status (*fill)(void *request, const lk_verb_input *input, lk_error *err);
	/* Sets `row` to the row that answers a request in this one's stead, by what it asks or by what
	 * its files are. May be NULL. */
	lk_status (*instead)(const void *request, const lk_verb_row **row, lk_error *err);
	/* The errors of the verb. `answer` is NULL after a failure. */
	lk_status (*ask)(const void *request, void **answer, lk_error *err);
	void (*free)(void *answer); /* accepts NULL */

	/* The answer in outputs->format, to outputs->path or, without one, to `out`. */
	lk_status (*print)(const void *answer, const lk_outputs *outputs, bool colour, FILE *out,
	                   lk_error *err);
	/* Other files that the outputs or the request name. May be NULL. */
	lk_status (*files)(const void *request, const void *answer, const lk_outputs *outputs,
	                   lk_error *err);
	/* The report with pictures. NULL: the verb has none. */
	lk_status (*report)(const void *answer, lk_report_form form, const char *path, FILE *out,
	                    lk_error *err);
	/* With --emit: the job as a launch line or a configuration. emitted->text stays NULL where
	 * nothing is requested or found. May be NULL. */
	lk_status (*emit)(const void *request, const void *answer, lk_emitted *emitted, lk_error *err);

	/* Whether it fits, or something was found. NULL: every answer is a yes. */
	bool (*yes)(const void *answer);
	/* Why the answer as a whole is a refusal; NULL: it is none. May be NULL. */
	const char *(*refusal)(const void *answer);
	/* The option that leaves the answer without a report; NULL: none. May be NULL. */
	const char *(*unpictured)(const void *request);
	/* Wall-clock times, which differ from run to run. May be NULL. */
	void (*times)(const void *answer, FILE *out);

	/* Fields of the request that name files for the answer: 1 + the offset of each; 0: no more. */
	size_t paths[LK_VERB_PATHS];
	size_t folder;        /* likewise, of a folder for the answer */
	size_t failed_check;  /* 1 + offset of failed_check in the answer; 0: it has none */
	int format;           /* the format where --output is not given */
	const char *searches; /* what a search goes through, in the plural; NULL: it is no search */
};

extern const lk_verb_row lk_row_predict, lk_row_simulate, lk_row_compose, lk_row_collective,
	lk_row_validate; /* predictions.c */
extern const lk_verb_row lk_row_plan, lk_row_post_plan, lk_row_rent, lk_row_shard,
	lk_row_jobs; /* decisions.c; post_plan: plan of a step of post-training */
/* runs.c; instead of explain: postmortem, run_log, and one for measured runs with a job */
extern const lk_verb_row lk_row_explain, lk_row_postmortem, lk_row_run_log, lk_row_diff,
	lk_row_whatif, lk_row_replay, lk_row_stalls;
extern const lk_verb_row lk_row_devices, lk_row_models, lk_row_machines; /* lists.c */
extern const lk_verb_row lk_row_doctor, lk_row_init, lk_row_calibrate;   /* setup.c */

/* The operands and launch words of a command line, with the pictures that the outputs name. */
lk_verb_input lk_verb_words(const lk_args *args, const lk_outputs *outputs);

/* Sets all of a request: defaults, then the options of combination `index`, then `input`.
 * LK_ERR_INPUT. */
lk_status lk_verb_request(const lk_verb_row *row, lk_args *args, size_t index,
                          const lk_verb_input *input, void *request, lk_error *err);

/* The row that answers a filled request: often the same (lk_verb_row.instead). */
lk_status lk_verb_answering(const lk_verb_row **row, const void *request, lk_error *err);

/* Writes the report and its charts where the outputs name files for them. LK_ERR_IO;
 * LK_ERR_MEMORY; LK_ERR_INPUT: an ending that no format has. */
lk_status lk_verb_report(const lk_verb_row *row, const void *answer, const lk_outputs *outputs,
                         lk_error *err);
/* Writes all that the outputs name: files, the answer itself, the report. The same errors. */
lk_status lk_verb_write(const lk_verb_row *row, const void *request, const void *answer,
                        const lk_outputs *outputs, bool colour, FILE *out, lk_error *err);

/* The check of its own consistency that the answer failed; NULL: none. */
const char *lk_verb_failed_check(const lk_verb_row *row, const void *answer);

/* ---- --fail-if ---- */

enum { LK_MET_SIZE = 256 };

/* Whether all lines are conditions; NULL: none. LK_ERR_INPUT. */
lk_status lk_conditions_check(const char *conditions, lk_error *err);
/* Which of the conditions, one per line, holds of an answer in JSON, with the value that it has:
 * "step_time_s > 10: 12.3"; "" if none does. A condition is a key, with dots for members and
 * elements, one of < <= > >= = !=, and a number, "3%", a text, true or false. Of a list of answers
 * it holds if it does of one. LK_ERR_INPUT: no condition, a key that the answer has not. */
lk_status lk_conditions_met(const char *conditions, const char *json, size_t size,
                            char met[LK_MET_SIZE], lk_error *err);
/* The same of the answer of a row; NULL conditions: "". */
lk_status lk_verb_met(const lk_verb_row *row, const void *answer, const lk_outputs *outputs,
                      char met[LK_MET_SIZE], lk_error *err);

/* An option for a file that is made from the simulated step of a prediction; NULL: none is. */
const char *lk_step_file_option(const lk_outputs *outputs);

/* ---- --job: a job as one text ---- */

/* A job read from a text; the request borrows from the other members. */
typedef struct lk_asked_job {
	lk_predict_request request;
	lk_args args;
	char *text;
	const char **words;
	int count;
} lk_asked_job;

/* The request that a text makes: the words of a command line of predict, quoted as in a shell, with
 * or without "lockstep predict" before them ("llama3.1-8b --gpu h100-sxm --gpus 8 --tp 2"), or the
 * name of a file that predict reads. To be freed after LK_OK. LK_ERR_INPUT: words that predict
 * does not accept, several jobs, a quotation mark that does not end; LK_ERR_MEMORY. */
lk_status lk_job_asked(const char *text, lk_asked_job *out, lk_error *err);
void lk_job_asked_free(lk_asked_job *job); /* accepts one of zeros */

/* ---- sweeps: the combinations of comma lists of predict ---- */

typedef struct lk_combinations {
	size_t count;
	lk_predict_request *requests; /* [count], as are the others */
	lk_prediction **predictions;  /* NULL: refused */
	lk_error *refusals;
	lk_sweep_row *rows;
} lk_combinations;

/* Room for `count`, at least 1. LK_ERR_MEMORY; to be closed even so. */
lk_status lk_combinations_open(lk_combinations *all, size_t count, lk_error *err);
void lk_combinations_close(lk_combinations *all); /* accepts one of zeros */
/* Fills the requests of all combinations of `args`, the first of them at `first`. LK_ERR_INPUT. */
lk_status lk_combinations_fill(lk_combinations *all, size_t first, lk_args *args,
                               const lk_verb_input *input, lk_error *err);
/* Makes the rows, once each combination has a prediction or a refusal. Returns how many were
 * refused. */
size_t lk_combinations_rows(lk_combinations *all);

#endif
