/* report_shard.c: the report of a placement of embedding tables: the step's parts, ranks by time and by memory, sharders. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/text.h"
#include "view/report/report.h"
#include "view/table/table.h"

enum { TEXT = 64, LINE = 256, MOST_RANKS = 512, MOST_PIECES = 500 };

static void put_verdict(lk_report *r, const lk_shard_answer *a) {
	char bytes[TEXT], capacity[TEXT], text[TEXT], detail[LINE];
	snprintf(detail, sizeof detail, "%d tables, %s with optimizer states, on %d ranks of %s for tables", a->tables,
	         lk_format_bytes(a->table_bytes, bytes, sizeof bytes), a->rank_count, lk_format_bytes(a->capacity_bytes, capacity, sizeof capacity));
	lk_report_verdict(r, a->fits ? "yes" : "no", a->fits ? "Fits" : "Does not fit", a->fits ? detail : a->reason);
	lk_report_figures(r);
	if (a->fits) {
		lk_report_figure(r, "embedding step", lk_format_seconds(a->step_s, text, sizeof text), NULL, a->sharder);
		lk_report_figure(r, "no placement beats", lk_format_seconds(a->bound_s, text, sizeof text), NULL, NULL);
		lk_report_figure(r, "over that bound", lk_percent(a->gap, text, sizeof text), NULL, NULL);
		lk_report_figure(r, "imbalance", lk_fixed(a->imbalance, 3, text, sizeof text), NULL, "of lookups, slowest over mean");
	}
	lk_json_array_end(r);
	lk_report_facts(r);
	lk_report_fact(r, "cluster", a->cluster);
	lk_report_fact(r, "basis", a->basis);
	lk_json_array_end(r);
	lk_report_panel_end(r);
}

static void put_waterfall(lk_report *r, const lk_shard_answer *a) {
	const struct { const char *key, *label; double seconds; } parts[] = {
		{"host", "indices", a->index_s}, {"memory_bound", "lookups", a->forward_s}, {"ep", "exchange of sums", a->exchange_s},
		{"gemm", "dense part", a->dense_s}, {"ep", "exchange of gradients", a->exchange_s},
		{"memory_bound", "lookups backward", a->backward_s}, {"dp", "gradients of copies", a->reduce_s}};
	double sum = 0;
	lk_report_panel(r, "waterfall", "The embedding step", "part after part, as the slowest rank has it", true);
	lk_json_array(r, "steps");
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
		sum += parts[i].seconds;
		if (parts[i].seconds > 0) lk_report_fall(r, parts[i].key, parts[i].label, parts[i].seconds, NULL, false);
	}
	double hidden = a->step_s - sum; /* parts that overlap, or waiting between them */
	if (fabs(hidden) > 0.002 * a->step_s) lk_report_fall(r, "wait", hidden < 0 ? "side by side" : "waiting", hidden, NULL, false);
	lk_report_fall(r, "total", "step", a->step_s, a->basis, true);
	lk_json_array_end(r);
	lk_report_panel_end(r);
}

static double time_of(const lk_shard_rank *r) { return r->forward_s + r->backward_s + 2 * r->exchange_s; }

static int by_time(const void *a, const void *b) {
	const lk_shard_rank *const *x = a, *const *y = b;
	double dx = time_of(*x), dy = time_of(*y);
	if (dx != dy) return dx < dy ? 1 : -1;
	return ((*x)->rank > (*y)->rank) - ((*x)->rank < (*y)->rank);
}

/* Slower than the mean by a tenth. */
static const char *mark_of(const lk_shard_answer *a, const lk_shard_rank *rank) {
	double sum = 0;
	for (int i = 0; i < a->rank_count; i++) sum += time_of(&a->ranks[i]);
	return a->rank_count > 1 && time_of(rank) > 1.1 * sum / a->rank_count ? "slow" : NULL;
}

static lk_status put_times(lk_report *r, const lk_shard_answer *a, lk_error *err) {
	const lk_shard_rank **order = malloc(((size_t)a->rank_count + 1) * sizeof *order);
	char name[TEXT];
	if (!order) return lk_oom(err);
	for (int i = 0; i < a->rank_count; i++) order[i] = &a->ranks[i];
	qsort(order, (size_t)a->rank_count, sizeof *order, by_time);
	lk_report_panel(r, "bars", "Ranks by time", "the slowest first; exchanges as if all ranks sent as much", false);
	lk_json_put_text(r, "unit", "s");
	lk_json_array(r, "parts");
	lk_report_part(r, "attention", "lookups");
	lk_report_part(r, "gemm", "lookups backward");
	lk_report_part(r, "ep", "exchanges");
	lk_json_array_end(r);
	lk_json_array(r, "rows");
	for (int i = 0; i < a->rank_count && i < MOST_RANKS; i++) {
		snprintf(name, sizeof name, "rank %d", order[i]->rank);
		lk_report_row(r, name, mark_of(a, order[i]), (double[]){order[i]->forward_s, order[i]->backward_s, 2 * order[i]->exchange_s}, 3);
	}
	lk_json_array_end(r);
	if (a->rank_count > MOST_RANKS) lk_json_put_integer(r, "left_out", a->rank_count - MOST_RANKS);
	lk_report_panel_end(r);
	free(order);
	return LK_OK;
}

static void put_memory(lk_report *r, const lk_shard_answer *a) {
	char name[TEXT];
	lk_report_panel(r, "memory", "Memory of tables", "with the optimizer's state, by rank", false);
	lk_json_put_number(r, "limit", a->capacity_bytes);
	lk_json_array(r, "parts");
	lk_report_part(r, "weights", "on the device");
	lk_report_part(r, "unused", "in host memory");
	lk_json_array_end(r);
	lk_json_array(r, "rows");
	for (int i = 0; i < a->rank_count && i < MOST_RANKS; i++) {
		snprintf(name, sizeof name, "rank %d", a->ranks[i].rank);
		lk_report_row(r, name, NULL, (double[]){a->ranks[i].device_bytes, a->ranks[i].host_bytes}, 2);
	}
	lk_json_array_end(r);
	if (a->rank_count > MOST_RANKS) lk_json_put_integer(r, "left_out", a->rank_count - MOST_RANKS);
	lk_report_panel_end(r);
}

static lk_status put_panels(const void *answer, lk_report *r, lk_error *err) {
	const lk_shard_answer *a = answer;
	put_verdict(r, a);
	if (a->fits) {
		put_waterfall(r, a);
		LK_TRY(put_times(r, a, err));
		put_memory(r, a);
	}
	LK_TRY(lk_report_table(r, "Sharders", "what each heuristic comes to", true, lk_shard_table(a, LK_SHARD_TRIED), 0, err));
	if (!a->fits) return LK_OK;
	LK_TRY(lk_report_table(r, "Pieces", "where each table went", true, lk_shard_table(a, LK_SHARD_PIECES), MOST_PIECES, err));
	return LK_OK;
}

static lk_status put_result(const void *answer, bool colour, FILE *out, lk_error *err) {
	return lk_shard_print(answer, LK_SHARD_PLAN, LK_OUTPUT_JSON, colour, NULL, out, err);
}

lk_status lk_report_shard(const lk_shard_answer *answer, lk_report_form form, const char *path, FILE *out, lk_error *err) {
	char title[LINE];
	snprintf(title, sizeof title, "%d embedding tables on %d ranks", answer->tables, answer->rank_count);
	lk_report_job job = {"shard", title, answer->reproduce, answer, &answer->inputs, put_panels, NULL, NULL, put_result, NULL};
	return lk_report_save(&job, form, path, out, err);
}
