/* score_finetune.c: fine-tuning runs, predicted like `lockstep predict`: peak memory, whether the
 * run fits, the longest sequence or largest batch that does, and the time of a step. A row of the
 * table becomes one row for each figure that was measured. Nothing is fitted to these runs, so
 * every row is unseen. */
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "fit/fits.h"
#include "tables/tables.h"
#include "validate/validate.h"

enum {
	SHORT = 128,         /* tokens of a short sequence */
	LONGEST = 1 << 24,   /* tokens, that a search tries */
	BATCH_MOST = 1 << 14 /* sequences, likewise */
};

/* Figures, in the order in which they are listed. */
typedef enum figure {
	RESERVED_MEMORY,
	ALLOCATED_MEMORY,
	DEVICE_MEMORY,
	FITTING,
	LONGEST_SEQUENCE,
	STEP_TIME,
	FIGURES
} figure;
static const char *const figure_names[FIGURES] = {
	"reserved memory", "allocated memory",  "device memory",
	"verdict",         "longest that fits", "step time",
};

static double figure_measured(const lk_finetune_run *run, figure what) {
	switch (what) {
	case RESERVED_MEMORY: return run->reserved;
	case ALLOCATED_MEMORY: return run->allocated;
	case DEVICE_MEMORY: return run->device;
	case LONGEST_SEQUENCE: return run->longest;
	case STEP_TIME: return run->seconds;
	default: return NAN;
	}
}

static bool figure_has(const lk_finetune_run *run, figure what) {
	if (what == FITTING) return run->verdict != LK_RUN_UNSTATED;
	return !isnan(figure_measured(run, what));
}

/* ---- asking ---- */

/* What `predict` answers; memory is of the stage with the least left. */
struct answered {
	double reserved, reserved_low, reserved_high, allocated, low, high, total, usable;
	double out_of_memory; /* the odds; NAN */
	double seconds, seconds_low, seconds_high;
	const char *layout, *refused; /* NULL: answered */
};

static lk_status finetune_ask(lk_arena *arena, const lk_predict_request *request,
                              struct answered *out, lk_error *err) {
	lk_prediction *prediction = NULL;
	lk_error why = {0};
	*out = (struct answered){.refused = NULL};
	lk_status status = lk_predict(request, &prediction, &why);
	if (status == LK_ERR_MEMORY) return lk_oom(err);
	if (status != LK_OK) {
		out->refused = lk_arena_printf(arena, "%s: %s", why.where, why.what);
		return out->refused ? LK_OK : lk_oom(err);
	}
	const lk_stage_memory *memory = &prediction->memory[prediction->fullest_stage];
	out->reserved = memory->reserved, out->allocated = memory->allocated;
	out->reserved_low = memory->reserved_low, out->reserved_high = memory->reserved_high;
	out->low = memory->low, out->high = memory->high;
	out->total = prediction->peak_bytes, out->usable = prediction->usable_bytes;
	out->out_of_memory = prediction->out_of_memory;
	out->seconds = prediction->step_time_s;
	out->seconds_low = prediction->step_time_low_s;
	out->seconds_high = prediction->step_time_high_s;
	out->layout = lk_arena_strdup(arena, prediction->layout);
	lk_predict_free(prediction);
	return out->layout ? LK_OK : lk_oom(err);
}

static bool answer_fits(const lk_finetune_run *run, const struct answered *answer) {
	return answer->total <= (isnan(run->usable) ? answer->usable : run->usable);
}

/* The odds of running out, on the board that the run names by its memory too; NAN: not known. */
static double answer_odds(const lk_finetune_run *run, const struct answered *answer) {
	lk_memory_odds odds;
	if (isnan(run->usable) || isnan(answer->out_of_memory)) return answer->out_of_memory;
	if (!lk_memory_odds_known(LK_MEMORY_PYTORCH, &odds)) return NAN;
	return lk_memory_odds_of(&odds, answer->reserved,
	                         run->usable - (answer->total - answer->reserved));
}

/* The same run with other sequences, or with another batch. */
static lk_predict_request with_size(const lk_finetune_run *run, int size) {
	lk_predict_request request = run->request;
	if (!run->of_batch) {
		request.seq = size;
		return request;
	}
	request.gbs = request.gbs / request.mbs * size;
	request.mbs = size;
	return request;
}

/* Whether a size fits; *known is false where it is refused. */
static lk_status size_fits(lk_arena *arena, const lk_finetune_run *run, int size, bool *fits,
                           bool *known, lk_error *err) {
	struct answered answer;
	lk_predict_request request = with_size(run, size);
	LK_TRY(finetune_ask(arena, &request, &answer, err));
	*known = answer.refused == NULL;
	*fits = *known && answer_fits(run, &answer);
	return LK_OK;
}

/* Find the largest size that fits, to a thousandth: double it until it does not, then halve the
 * gap. 0: none does; NAN: one is refused. */
static lk_status find_longest(lk_arena *arena, const lk_finetune_run *run, double *out,
                              lk_error *err) {
	int least = 0, most = 1, limit = run->of_batch ? BATCH_MOST : LONGEST;
	bool fits = true, known = true;
	*out = NAN;
	while (fits && most < limit) {
		LK_TRY(size_fits(arena, run, most, &fits, &known, err));
		if (!known) return LK_OK;
		if (fits) least = most, most *= 2;
	}
	while (most - least > 1 + least / 1024) {
		int size = least + (most - least) / 2;
		LK_TRY(size_fits(arena, run, size, &fits, &known, err));
		if (!known) return LK_OK;
		if (fits) least = size;
		else most = size;
	}
	*out = least;
	return LK_OK;
}

/* ---- rows ---- */

/* What is predicted for a run: its own sequences, short ones where its own are shorter than stated,
 * and what was searched. */
struct predicted {
	struct answered full, shorter;
	double longest;
};

static lk_status finetune_predict(lk_arena *arena, const lk_finetune_run *run,
                                  struct predicted *out, lk_error *err) {
	*out = (struct predicted){.longest = NAN};
	out->full.refused = run->why_not;
	if (run->why_not) return LK_OK;
	LK_TRY(finetune_ask(arena, &run->request, &out->full, err));
	out->shorter = out->full;
	if (out->full.refused) return LK_OK;
	if (run->at_most && run->request.seq > SHORT) {
		lk_predict_request request = run->request;
		request.seq = SHORT * request.tp * request.cp;
		if (request.seq < run->request.seq)
			LK_TRY(finetune_ask(arena, &request, &out->shorter, err));
		if (out->shorter.refused) out->shorter = out->full;
	}
	return isnan(run->longest) ? LK_OK : find_longest(arena, run, &out->longest, err);
}

static double memory_of(const struct answered *answer, figure what) {
	if (what == RESERVED_MEMORY) return answer->reserved;
	return what == ALLOCATED_MEMORY ? answer->allocated : answer->total;
}

/* A verdict against what happened. Sequences that are shorter than stated, by how much is not
 * known, refute a verdict only where it holds for short and for full ones. */
static const char *verdict_of(const lk_finetune_run *run, const struct predicted *predicted) {
	bool full = answer_fits(run, &predicted->full), shorter = answer_fits(run, &predicted->shorter);
	double out = answer_odds(run, &predicted->full);
	if (full ? out >= LK_OUT_OF_MEMORY_LIKELY : out < .9)
		return run->verdict == LK_RUN_OUT_OF_MEMORY ? "right: MAY NOT FIT, ran out of memory"
		                                            : "open: MAY NOT FIT, ran";
	if (run->verdict == LK_RUN_OUT_OF_MEMORY)
		return full ? "wrong: FITS, ran out of memory" : "right: DOES NOT FIT, ran out of memory";
	if (full) return "right: FITS, ran";
	return shorter ? "open: shorter sequences fit, ran" : "wrong: DOES NOT FIT, ran";
}

/* Where the measured peak of sequences of unknown lengths lies. */
static const char *bounds_of(const lk_validated *row) {
	if (row->measured < row->low) return "below short sequences";
	return row->measured > row->high ? "above full sequences" : "between short and full sequences";
}

enum { BY_FIGURE, BY_VERDICT, BY_BOUNDS, BY_STACK, BY_GPU, BY_TASK, BY_SHARDING, DIVISIONS };
static const char *const division_names[DIVISIONS] = {"figure", "verdict", "bounds",  "stack",
                                                      "gpu",    "task",    "sharding"};

static lk_status fill_memory(const lk_finetune_run *run, const struct predicted *predicted,
                             figure what, lk_validated *row, lk_scoring *out, size_t i) {
	row->predicted = memory_of(&predicted->full, what);
	const struct answered *full = &predicted->full;
	if (what == ALLOCATED_MEMORY) row->low = full->low, row->high = full->high;
	if (what == RESERVED_MEMORY) row->low = full->reserved_low, row->high = full->reserved_high;
	if (!run->at_most) return LK_OK;
	row->low = memory_of(&predicted->shorter, what);
	row->high = row->predicted;
	if (!*run->suspect) out->divisions[BY_BOUNDS].keys[i].name = bounds_of(row);
	return LK_OK;
}

static lk_status fill_figure(lk_arena *arena, const lk_finetune_run *run,
                             const struct predicted *predicted, figure what, lk_scoring *out,
                             size_t i, lk_error *err) {
	lk_validated *row = &out->rows[i];
	const struct answered *full = &predicted->full;
	const char *verdict;
	row->layout = full->layout;
	switch (what) {
	case STEP_TIME:
		row->predicted = full->seconds;
		row->low = full->seconds_low, row->high = full->seconds_high;
		break;
	case LONGEST_SEQUENCE:
		row->predicted = predicted->longest;
		if (predicted->longest == 0) row->predicted = NAN, row->reason = "nothing fits";
		break;
	case FITTING:
		row->predicted = full->total;
		row->reason = verdict = verdict_of(run, predicted);
		if (!*run->suspect) out->divisions[BY_VERDICT].keys[i].name = verdict;
		break;
	default: LK_TRY(fill_memory(run, predicted, what, row, out, i)); break;
	}
	if (*run->suspect) {
		row->reason = row->reason ? lk_arena_printf(arena, "%s; not scored, suspect: %s",
		                                            row->reason, run->suspect)
		                          : lk_arena_printf(arena, "not scored, suspect: %s", run->suspect);
		if (!row->reason) return lk_oom(err);
	} else if (run->at_most && what <= DEVICE_MEMORY) {
		row->reason = lk_arena_printf(arena, "not scored: sequences of at most %d tokens, %s",
		                              run->request.seq, out->divisions[BY_BOUNDS].keys[i].name);
		if (!row->reason) return lk_oom(err);
	}
	out->scores[i].suspect = *run->suspect || (run->at_most && what <= DEVICE_MEMORY);
	return LK_OK;
}

static const char *unit_of_figure(const lk_finetune_run *run, figure what) {
	if (what == STEP_TIME) return "s";
	if (what == LONGEST_SEQUENCE) return run->of_batch ? "sequences" : "tokens";
	return "bytes";
}

/* The part of a row in a division: memory by itself, other figures with their names. */
static lk_status put_part(lk_arena *arena, lk_scoring *out, int division, size_t i,
                          const char *name, figure what, lk_error *err) {
	lk_score_key *key = &out->divisions[division].keys[i];
	if (what == FITTING || what >= FIGURES) return LK_OK;
	*key = (lk_score_key){*name ? name : "not stated", 0};
	if (what <= DEVICE_MEMORY) return LK_OK;
	*key = (lk_score_key){lk_arena_printf(arena, "%s: %s", key->name, figure_names[what]), what};
	return key->name ? LK_OK : lk_oom(err);
}

static lk_status finetune_fill_row(lk_arena *arena, const lk_finetune_run *run,
                                   const struct predicted *predicted, figure what, lk_scoring *out,
                                   size_t i, lk_error *err) {
	lk_validated *row = &out->rows[i];
	row->id = lk_arena_printf(arena, "%s %s", run->id, figure_names[what]);
	if (!row->id) return lk_oom(err);
	row->where = run->where;
	row->stack = run->stack, row->release = run->release;
	row->model = run->model;
	row->gpu = run->gpu;
	row->gpus = run->request.gpus;
	row->precision = run->precision;
	row->measured = figure_measured(run, what);
	row->unit = unit_of_figure(run, what);
	out->divisions[BY_FIGURE].keys[i] = (lk_score_key){figure_names[what], what};
	LK_TRY(put_part(arena, out, BY_STACK, i, run->stack, what, err));
	LK_TRY(put_part(arena, out, BY_GPU, i, run->gpu, what, err));
	LK_TRY(put_part(arena, out, BY_TASK, i, run->task, what, err));
	LK_TRY(put_part(arena, out, BY_SHARDING, i, run->sharding, what, err));
	if (!predicted->full.refused) return fill_figure(arena, run, predicted, what, out, i, err);
	row->reason = predicted->full.refused;
	out->scores[i].suspect = *run->suspect != '\0';
	return LK_OK;
}

/* ---- the table ---- */

/* Rows of a run: of each figure, or one that says why there is none. */
static size_t count_figures(const lk_finetune_run *run) {
	size_t count = 0;
	for (int what = 0; what < FIGURES; what++) count += figure_has(run, (figure)what);
	return count > 0 ? count : 1;
}

static lk_status finetune_score_run(lk_arena *arena, lk_finetune_run *run, lk_scoring *out,
                                    size_t *row, lk_error *err) {
	struct predicted predicted;
	bool any = false;
	for (int what = 0; what < FIGURES; what++) any |= figure_has(run, (figure)what);
	if (!any && !run->why_not) run->why_not = "nothing that can be compared was measured";
	LK_TRY(finetune_predict(arena, run, &predicted, err));
	if (!any) return finetune_fill_row(arena, run, &predicted, RESERVED_MEMORY, out, (*row)++, err);
	for (int what = 0; what < FIGURES; what++)
		if (figure_has(run, (figure)what))
			LK_TRY(finetune_fill_row(arena, run, &predicted, (figure)what, out, (*row)++, err));
	return LK_OK;
}

static lk_status finetune_score(lk_arena *arena, const lk_finetune_runs *runs, lk_scoring *out,
                                lk_error *err) {
	size_t rows = 0, row = 0;
	for (size_t i = 0; i < runs->count; i++) rows += count_figures(&runs->at[i]);
	LK_TRY(lk_scoring_rows(arena, rows, out, err));
	for (int d = 0; d < DIVISIONS; d++)
		if (!lk_scoring_divide(arena, out, division_names[d])) return lk_oom(err);
	for (size_t i = 0; i < runs->count; i++)
		LK_TRY(finetune_score_run(arena, &runs->at[i], out, &row, err));
	out->unit_of_rows = "figure";
	return LK_OK;
}

lk_status lk_score_finetune(lk_arena *arena, const lk_validate_request *request, lk_stream *in,
                            lk_scoring *out, lk_error *err) {
	if (request->cross) {
		lk_fail(err, LK_ERR_INPUT, "--cross-validate", "nothing is fitted to fine-tuning runs");
		return lk_hint(err, "leave it out: every row is unseen");
	}
	lk_finetune_runs runs = {0};
	lk_status status = lk_finetune_read(arena, in, &runs, err);
	if (status == LK_OK) status = finetune_score(arena, &runs, out, err);
	lk_vec_free(&runs);
	return status;
}
