/* views.h: what the files that print answers share. */
#ifndef LK_VIEW_TEXT_VIEWS_H
#define LK_VIEW_TEXT_VIEWS_H

#include "io/json.h"
#include "lockstep/diff.h"
#include "lockstep/explain.h"
#include "lockstep/plan.h"
#include "lockstep/post_plan.h"
#include "lockstep/postmortem.h"
#include "lockstep/predict.h"
#include "lockstep/rent.h"
#include "lockstep/shard.h"
#include "lockstep/stalls.h"
#include "lockstep/view.h"
#include "lockstep/whatif.h"
#include "base/arena.h"
#include "base/vec.h"
#include "view/table/fields.h"
#include "view/table/output.h"
#include "view/table/table.h"

typedef struct lk_arena lk_arena; /* base/arena.h */

/* One table of an explanation (LK_EXPLAIN_STALLS and on); NULL when memory runs out. People get the
 * top rows and the begin of long names, programs everything. */
lk_table *lk_explain_table(const lk_explanation *explanation, int which, bool people);

/* How many of the rows people are shown; `top` 0: all. */
int lk_shown_rows(int count, int top);

/* Ways to run a step of reinforcement learning, a row each. `people`: without the columns that
 * repeat what others say. */
lk_table *lk_post_plan_table(const lk_post_plan *plan, bool people);
/* A line where a search was cut off, "time" or "interrupt"; of NULL none. */
void lk_put_cut_off(const char *cut_off, FILE *out);
/* A line where an MFU or HFU is above 1: how that can be. */
lk_status lk_put_above_peak(double share, FILE *out, lk_error *err);
/* Power and energy of an answer. */
extern const lk_answer_record lk_energy_record;
/* The first rows of a table of stalls, all of 0; how a part was found, by lk_stalls_basis. */
lk_table *lk_stalls_top(const lk_stalls_answer *answer, int which, int most);
extern const char *const lk_stalls_bases[];
/* A row of the stalls of an explanation. */
extern const lk_answer_record lk_stall_record;
/* A prediction, and the numbers of its layout, which are a record of the same struct. */
extern const lk_answer_record lk_prediction_record, lk_layout_record, lk_run_phase_record,
	lk_service_record;
/* What the requests of a service wait. */
lk_status lk_put_service(const lk_prediction *prediction, bool colour, FILE *out, lk_error *err);
/* The JSON of every verb. */
extern const lk_document lk_plan_document, lk_rent_document, lk_jobs_document, lk_whatif_document,
	lk_validate_document, lk_predict_document, lk_shard_document, lk_collective_document,
	lk_simulate_document, lk_explain_document, lk_compose_document, lk_diff_document,
	lk_replay_document, lk_stalls_document, lk_calibrate_document, lk_version_document,
	lk_postmortem_document, lk_run_log_document;
/* A change in seconds with its sign: an lk_shown. */
char *lk_show_delta(double seconds, char *out, size_t size);
/* Fields and report of a traced run against its job (lockstep/diff.h). */
extern const lk_answer_record lk_versus_record;
struct lk_versus;
lk_status lk_versus_report(const struct lk_versus *versus, bool colour, FILE *out, lk_error *err);
/* The report for people. */
/* What an action gains, or can gain at most, beside the others, and which of these it is. */
double lk_action_worth(const lk_explain_stall *stall);
const char *lk_action_says(const lk_explain_stall *stall);
/* Tables of a comparison with a job; of a run with its prediction, its causes or its values. */
enum { LK_VERSUS_PARTS, LK_VERSUS_CAUSES };
lk_table *lk_versus_table(const lk_versus *versus, int which);
lk_table *lk_expected_table(const lk_expected *expected, bool causes);
lk_status lk_explain_report(const lk_explanation *explanation, bool colour, FILE *out,
                            lk_error *err);

/* ---- predict_view: what the views of predictions share. The public functions and the JSON keys
 * are in lockstep/view.h.
 */

enum { LK_SWEEP_OPTIONS = 128 };

/* What people read below a sweep: why rows are refused, warnings and flags that were ignored, each
 * text once. */
typedef struct lk_sweep_notes {
	lk_arena arena; /* of the texts */
	LK_VEC(const char *) texts;
	bool failed; /* memory ran out */
} lk_sweep_notes;

typedef struct lk_sweep {
	const lk_sweep_row *rows;
	size_t count;
	bool verbose, compact;                      /* compact: JSON lines */
	const lk_option *varying[LK_SWEEP_OPTIONS]; /* options in which the requests differ */
	int varying_count;
	lk_sweep_notes *notes; /* NULL: these texts are columns; else filled by lk_sweep_table, and a
	                          column has their numbers */
} lk_sweep;

/* The report of one prediction. */
lk_status lk_write_report(const lk_sweep_row *row, bool verbose, bool colour, FILE *out,
                          lk_error *err);
/* Quantiles over seeds, as a table that the caller frees; NULL when memory runs out. */
lk_table *lk_spread_table(const lk_prediction *prediction);
/* Figures of a whole run, and where its time goes. */
lk_table *lk_run_figures_table(const lk_prediction *prediction);
lk_table *lk_run_times_table(const lk_prediction *prediction);
/* One row each, as a table that the caller frees; NULL when memory runs out. */
lk_table *lk_sweep_table(const lk_sweep *sweep);
/* A column of that table as an array; the other one is NULL. Numbers are NAN, texts NULL where a
 * cell is empty. */
typedef struct lk_sweep_column {
	const char *key;
	const double *numbers;
	const char *const *texts; /* of the predictions, or of the arena */
} lk_sweep_column;
/* All of them, in the arena; NULL when memory runs out. */
lk_sweep_column *lk_sweep_columns(const lk_sweep *sweep, lk_arena *arena, int *count);
/* Which options differ between the requests. */
void lk_sweep_varying(lk_sweep *sweep);
/* JSON and JSON lines; an lk_writer of an lk_sweep. */
lk_writer lk_write_sweep_json;

/* Tokens per second and GPU; samples where there are no tokens. */
double lk_sweep_rate(const lk_prediction *prediction);
/* What is said of a prediction's memory. By its sum a job fits or not; where measured runs like it
 * went both ways it may not fit: 4 of 10 run out and it fits, or fewer than 9 and it does not. */
typedef enum lk_verdict { LK_VERDICT_FITS, LK_VERDICT_MAY_NOT_FIT, LK_VERDICT_MISFIT } lk_verdict;
static inline lk_verdict lk_verdict_of(const lk_prediction *prediction) {
	bool risky = prediction->out_of_memory >= LK_OUT_OF_MEMORY_LIKELY; /* false for NAN */
	if (!prediction->fits)
		return risky && prediction->out_of_memory < .9 ? LK_VERDICT_MAY_NOT_FIT : LK_VERDICT_MISFIT;
	return risky ? LK_VERDICT_MAY_NOT_FIT : LK_VERDICT_FITS;
}
/* What the rate of a row that was predicted counts: "token", or the unit of its samples. */
const char *lk_sweep_unit(const lk_sweep *sweep, long row);
/* The row to recommend: of those that fit, and are likely to, the one with the highest rate; -1:
 * none does. */
long lk_sweep_best(const lk_sweep *sweep);

/* The value of an option in a request, as text; "" where it was not given. Returns `out`. */
char *lk_option_text(const lk_option *option, const lk_predict_request *request, char *out,
                     size_t size);

/* ---- tables: the tables of answers that more than one view shows. Each makes a table that the
 * caller frees; NULL when memory runs out. */

lk_table *lk_plan_table(const lk_plan *plan);
lk_table *lk_rent_table(const lk_rent *rent, bool verbose);
lk_table *lk_shard_table(const lk_shard_answer *answer,
                         int which); /* LK_SHARD_RANKS, PIECES, TRIED */
lk_table *lk_stalls_table(const lk_stalls_answer *answer, int which); /* LK_STALLS_PARTS and on */
lk_table *lk_whatif_table(const lk_whatif *whatif);
/* Whether one of the columns before this one has the note: combinations repeat those of their
 * parts. */
bool lk_whatif_said(const lk_whatif *whatif, int before, const char *note);
/* The part that costs most of those that are named; -1: none is. */
int lk_stalls_worst(const lk_stalls_answer *answer);

/* "cheapest", "front", ... of a choice; NULL: nothing. */
const char *lk_rent_mark(const lk_rent *rent, int choice);
/* What so many samples are in tokens, where samples are counted in them: "41.2 G tokens", "1.2 M
 * images"; without the unit: "41.2 G". */
char *lk_rent_trained(const lk_rent *rent, double samples, bool unit, char *out, size_t size);

#endif
