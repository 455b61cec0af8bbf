/* reply_rows.c: replies with columns: sweeps, whose rows are combinations, and simulations, whose
 * rows are spans. */
#include <stdlib.h>

#include "base/arena.h"
#include "view/reply/reply.h"
#include "base/check.h"
#include "system/memory.h"

/* ---- sweeps ---- */

/* Parses the lines, line i of counts[i] words, and sets how many rows they make. */
static lk_status reply_rows_parse(lk_reply *reply, int parts, const int *counts,
                                  const char *const *words, size_t *rows, lk_error *err) {
	*rows = 0;
	reply->args = LK_ARRAY(&reply->arena, lk_args, parts);
	if (!reply->args) return lk_oom(err);
	for (; reply->parts < parts; words += counts[reply->parts - 1]) {
		lk_args *args = &reply->args[reply->parts];
		size_t combinations;
		LK_TRY(lk_args_parse(&lk_predict_verb, counts[reply->parts], words, args, err));
		reply->parts++;
		LK_TRY(lk_args_check_empty(args, err));
		LK_TRY(lk_args_combinations(args, &combinations, err));
		*rows += combinations;
	}
	if (*rows > 0) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, "sweep", "nothing to answer");
	return lk_hint(err, "give one request or more");
}

/* Refuses files that all combinations would write. */
static lk_status check_files(const lk_args *args, lk_error *err) {
	lk_outputs outputs;
	LK_TRY(lk_args_fill_outputs(args, &outputs, err));
	const char *single = lk_step_file_option(&outputs);
	if (!single) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, single, "the combinations of a sweep would write the same file");
	return lk_hint(err, "ask predict for one combination");
}

static lk_status make_requests(lk_reply *reply, lk_error *err) {
	const lk_outputs outputs = {0};
	size_t at = 0, combinations;
	for (int p = 0; p < reply->parts; p++) {
		lk_args *args = &reply->args[p];
		const lk_verb_input input = lk_verb_words(args, &outputs);
		LK_TRY(check_files(args, err));
		LK_TRY(lk_combinations_fill(&reply->sweep, at, args, &input, err));
		LK_TRY(lk_args_combinations(args, &combinations, err));
		at += combinations;
	}
	LK_ASSERT(at == reply->sweep.count);
	return LK_OK;
}

static lk_status reply_rows_sweep(lk_reply *reply, int parts, const int *counts,
                                  const char *const *words, int threads, lk_error *err) {
	lk_combinations *all = &reply->sweep;
	size_t rows;
	LK_TRY(reply_rows_parse(reply, parts, counts, words, &rows, err));
	LK_TRY(lk_combinations_open(all, rows, err));
	LK_TRY(make_requests(reply, err));
	LK_TRY(lk_predict_many(all->requests, rows, threads, all->predictions, all->refusals, NULL,
	                       NULL, err));
	lk_combinations_rows(all);
	for (size_t i = 0; i < rows; i++)
		reply->yes |= all->predictions[i] && all->predictions[i]->fits;
	lk_sweep sweep = {.rows = all->rows, .count = rows};
	lk_sweep_varying(&sweep);
	reply->rows = rows;
	reply->columns = lk_sweep_columns(&sweep, &reply->arena, &reply->column_count);
	return reply->columns ? LK_OK : lk_oom(err);
}

lk_reply *lk_reply_sweep(int parts, const int *counts, const char *const *words, int threads,
                         const lk_stop *stop) {
	lk_reply *reply = lk_reply_new();
	if (!reply) return NULL;
	lk_stop_watch(stop);
	return lk_reply_end(
		reply, reply_rows_sweep(reply, parts, counts, words, threads, &reply->error), stop);
}

const char *lk_reply_row(lk_reply *reply, size_t row, size_t *size) {
	size_t written = 0;
	free(reply->row_json);
	reply->row_json = NULL;
	if (!reply->sweep.rows || row >= reply->rows) return NULL;
	FILE *out = lk_memory_open(&reply->row_json, &written);
	if (!out) return NULL;
	lk_error err;
	lk_status status =
		lk_sweep_print(&reply->sweep.rows[row], 1, LK_OUTPUT_JSON, false, false, NULL, out, &err);
	if (!lk_memory_close(out) || status != LK_OK) return NULL;
	if (size) *size = written;
	return reply->row_json;
}

/* ---- spans ---- */

enum {
	RANK,
	CALL,
	REPETITION,
	READY,
	START,
	END,
	NUMBERS,
	BLOCK = NUMBERS,
	NAME,
	KIND,
	STREAM,
	SPAN_COLUMNS
};
static const char *const span_keys[SPAN_COLUMNS] = {
	"rank", "call", "repetition", "ready_s", "start_s", "end_s", "block", "name", "kind", "stream"};

static void put_span(const lk_simulation *simulation, size_t row, double *numbers[],
                     const char **texts[]) {
	const lk_simulated_span *span = &simulation->spans[row];
	const lk_simulated_operation *op = &simulation->operations[span->operation];
	numbers[RANK][row] = span->rank;
	numbers[CALL][row] = span->call;
	numbers[REPETITION][row] = span->repetition;
	numbers[READY][row] = span->ready_s;
	numbers[START][row] = span->start_s;
	numbers[END][row] = span->end_s;
	texts[BLOCK][row] = op->block;
	texts[NAME][row] = op->name;
	texts[KIND][row] = op->kind;
	texts[STREAM][row] = op->stream;
}

lk_status lk_reply_spans(lk_reply *reply, lk_error *err) {
	const lk_simulation *simulation = reply->simulation;
	LK_ASSERT(simulation && !reply->columns && !reply->sweep.rows);
	double *numbers[SPAN_COLUMNS] = {NULL};
	const char **texts[SPAN_COLUMNS] = {NULL};
	reply->columns = LK_ARRAY(&reply->arena, lk_sweep_column, SPAN_COLUMNS);
	if (!reply->columns) return lk_oom(err);
	for (int c = 0; c < SPAN_COLUMNS; c++) {
		if (c < NUMBERS) numbers[c] = LK_ARRAY(&reply->arena, double, simulation->span_count);
		else texts[c] = LK_ARRAY(&reply->arena, const char *, simulation->span_count);
		if (!numbers[c] && !texts[c]) return lk_oom(err);
		reply->columns[c] = (lk_sweep_column){span_keys[c], numbers[c], texts[c]};
	}
	for (size_t row = 0; row < simulation->span_count; row++)
		put_span(simulation, row, numbers, texts);
	reply->rows = simulation->span_count;
	reply->column_count = SPAN_COLUMNS;
	return LK_OK;
}

/* ---- access ---- */

size_t lk_reply_rows(const lk_reply *reply) {
	return reply->status == LK_OK ? reply->rows : 0;
}

int lk_reply_columns(const lk_reply *reply) {
	return reply->status == LK_OK ? reply->column_count : 0;
}

const char *lk_reply_column(const lk_reply *reply, int i, const double **numbers,
                            const char *const **texts) {
	*numbers = NULL;
	*texts = NULL;
	if (i < 0 || i >= lk_reply_columns(reply)) return NULL;
	*numbers = reply->columns[i].numbers;
	*texts = reply->columns[i].texts;
	return reply->columns[i].key;
}
