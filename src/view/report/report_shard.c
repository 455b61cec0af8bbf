/* report_shard.c: the report of a placement of embedding tables: the step's parts, ranks by time
 * and by memory, sharders. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/text.h"
#include "base/noun.h"
#include "base/sort.h"
#include "view/report/report.h"
#include "view/text/views.h"

enum { TEXT = 64, LINE = 256, MOST_RANKS = 512, MOST_PIECES = 500 };

static void shard_put_verdict(lk_report *writer, const lk_shard_answer *answer) {
	LK_ASSERT(answer->fits || answer->reason);
	char bytes[TEXT], capacity[TEXT], text[TEXT], detail[LINE];
	snprintf(detail, sizeof detail, "%d %s, %s with optimizer states, on %d %s of %s for tables",
	         answer->tables, lk_noun(answer->tables, "table", "tables"),
	         lk_format_bytes(answer->table_bytes, bytes, sizeof bytes), answer->rank_count,
	         lk_noun(answer->rank_count, "rank", "ranks"),
	         lk_format_bytes(answer->capacity_bytes, capacity, sizeof capacity));
	if (answer->fits) lk_report_verdict(writer, "yes", "Fits", detail);
	else lk_report_verdict(writer, "no", "Does not fit", answer->reason);
	lk_report_figures(writer);
	if (answer->fits) {
		lk_report_figure(writer, "embedding step",
		                 lk_format_seconds(answer->step_s, text, sizeof text), NULL,
		                 answer->sharder);
		lk_report_figure(writer, "no placement beats",
		                 lk_format_seconds(answer->bound_s, text, sizeof text), NULL, NULL);
		lk_report_figure(writer, "over that bound", lk_percent(answer->gap, text, sizeof text),
		                 NULL, NULL);
		lk_report_figure(writer, "imbalance", lk_fixed(answer->imbalance, 3, text, sizeof text),
		                 NULL, "of lookups, slowest over mean");
	}
	lk_json_array_end(writer);
	lk_report_facts(writer);
	lk_report_fact(writer, "cluster", answer->cluster);
	lk_report_fact(writer, "basis", answer->basis);
	lk_json_array_end(writer);
	lk_report_panel_end(writer);
}

static void shard_put_waterfall(lk_report *writer, const lk_shard_answer *answer) {
	const struct {
		const char *key, *label;
		double seconds;
	} parts[] = {{"host", "indices", answer->index_s},
	             {"memory_bound", "lookups", answer->forward_s},
	             {"ep", "exchange of sums", answer->exchange_s},
	             {"gemm", "dense part", answer->dense_s},
	             {"ep", "exchange of gradients", answer->exchange_s},
	             {"memory_bound", "lookups backward", answer->backward_s},
	             {"dp", "gradients of copies", answer->reduce_s}};
	double sum = 0;
	lk_report_panel(writer, "waterfall", "The embedding step",
	                "part after part, as the slowest rank has it", true);
	lk_json_array(writer, "steps");
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
		sum += parts[i].seconds;
		if (parts[i].seconds > 0)
			lk_report_fall(writer, parts[i].key, parts[i].label, parts[i].seconds, NULL, false);
	}
	double hidden = answer->step_s - sum; /* parts that overlap, or waiting between them */
	if (fabs(hidden) > 0.002 * answer->step_s)
		lk_report_fall(writer, "wait", hidden < 0 ? "side by side" : "waiting", hidden, NULL,
		               false);
	lk_report_fall(writer, "total", "step", answer->step_s, answer->basis, true);
	lk_json_array_end(writer);
	lk_report_panel_end(writer);
}

static double shard_time_of(const lk_shard_rank *rank) {
	return rank->forward_s + rank->backward_s + 2 * rank->exchange_s;
}

static int shard_by_time(const void *a, const void *b) {
	const lk_shard_rank *const *x = a, *const *y = b;
	double dx = shard_time_of(*x), dy = shard_time_of(*y);
	if (dx != dy) return dx < dy ? 1 : -1;
	return ((*x)->rank > (*y)->rank) - ((*x)->rank < (*y)->rank);
}

/* Slower than the mean by a tenth. */
static const char *shard_mark_of(const lk_shard_answer *answer, const lk_shard_rank *rank) {
	double sum = 0;
	for (int i = 0; i < answer->rank_count; i++) sum += shard_time_of(&answer->ranks[i]);
	return answer->rank_count > 1 && shard_time_of(rank) > 1.1 * sum / answer->rank_count ? "slow"
	                                                                                      : NULL;
}

static lk_status shard_put_times(lk_report *writer, const lk_shard_answer *answer, lk_error *err) {
	const lk_shard_rank **order = malloc(((size_t)answer->rank_count + 1) * sizeof *order);
	char name[TEXT];
	if (!order) return lk_oom(err);
	for (int i = 0; i < answer->rank_count; i++) order[i] = &answer->ranks[i];
	lk_sort(order, (size_t)answer->rank_count, sizeof *order, shard_by_time);
	lk_report_panel(writer, "bars", "Ranks by time",
	                "the slowest first; exchanges as if all ranks sent as much", false);
	lk_json_put_text(writer, "unit", "s");
	lk_json_array(writer, "parts");
	lk_report_part(writer, "attention", "lookups");
	lk_report_part(writer, "gemm", "lookups backward");
	lk_report_part(writer, "ep", "exchanges");
	lk_json_array_end(writer);
	lk_json_array(writer, "rows");
	for (int i = 0; i < answer->rank_count && i < MOST_RANKS; i++) {
		snprintf(name, sizeof name, "rank %d", order[i]->rank);
		lk_report_row(
			writer, name, shard_mark_of(answer, order[i]),
			(double[]){order[i]->forward_s, order[i]->backward_s, 2 * order[i]->exchange_s}, 3);
	}
	lk_json_array_end(writer);
	if (answer->rank_count > MOST_RANKS)
		lk_json_put_integer(writer, "left_out", answer->rank_count - MOST_RANKS);
	lk_report_panel_end(writer);
	free(order);
	return LK_OK;
}

static void shard_put_memory(lk_report *writer, const lk_shard_answer *answer) {
	char name[TEXT];
	lk_report_panel(writer, "memory", "Memory of tables", "with the optimizer's state, by rank",
	                false);
	lk_json_put_number(writer, "limit", answer->capacity_bytes);
	lk_json_array(writer, "parts");
	lk_report_part(writer, "weights", "on the device");
	lk_report_part(writer, "unused", "in host memory");
	lk_json_array_end(writer);
	lk_json_array(writer, "rows");
	for (int i = 0; i < answer->rank_count && i < MOST_RANKS; i++) {
		snprintf(name, sizeof name, "rank %d", answer->ranks[i].rank);
		lk_report_row(writer, name, NULL,
		              (double[]){answer->ranks[i].device_bytes, answer->ranks[i].host_bytes}, 2);
	}
	lk_json_array_end(writer);
	if (answer->rank_count > MOST_RANKS)
		lk_json_put_integer(writer, "left_out", answer->rank_count - MOST_RANKS);
	lk_report_panel_end(writer);
}

static lk_status shard_put_panels(const void *answer, lk_report *writer, lk_error *err) {
	const lk_shard_answer *shard_answer = answer;
	shard_put_verdict(writer, shard_answer);
	if (shard_answer->fits) {
		shard_put_waterfall(writer, shard_answer);
		LK_TRY(shard_put_times(writer, shard_answer, err));
		shard_put_memory(writer, shard_answer);
	}
	LK_TRY(lk_report_table(writer, "Sharders", "what each heuristic comes to", true,
	                       lk_shard_table(shard_answer, LK_SHARD_TRIED), 0, err));
	if (!shard_answer->fits) return LK_OK;
	LK_TRY(lk_report_table(writer, "Pieces", "where each table went", true,
	                       lk_shard_table(shard_answer, LK_SHARD_PIECES), MOST_PIECES, err));
	return LK_OK;
}

static lk_status shard_put_result(const void *answer, bool colour, FILE *out, lk_error *err) {
	return lk_shard_print(answer, LK_SHARD_PLAN, LK_OUTPUT_JSON, colour, NULL, out, err);
}

lk_status lk_report_shard(const lk_shard_answer *answer, lk_report_form form, const char *path,
                          FILE *out, lk_error *err) {
	char title[LINE];
	snprintf(title, sizeof title, "%d embedding tables on %d %s", answer->tables,
	         answer->rank_count, lk_noun(answer->rank_count, "rank", "ranks"));
	lk_report_job job = {
		"shard", title, answer->reproduce, answer, &answer->inputs,     shard_put_panels,
		NULL,    NULL,  shard_put_result,  NULL,   answer->failed_check};
	return lk_report_save(&job, form, path, out, err);
}
