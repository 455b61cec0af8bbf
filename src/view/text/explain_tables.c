/* explain_tables.c: the tables of an explanation. Names of columns are those of HTA and of `nsys
 * stats`. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "view/text/views.h"
#include "view/table/table_internal.h"

/* ---- cells ---- */

void lk_put_seconds(lk_table *table, double seconds) {
	char text[32];
	lk_table_number(table, seconds,
	                isnan(seconds) ? NULL : lk_format_seconds(seconds, text, sizeof text));
}

void lk_put_ns(lk_table *table, double ns) {
	char text[32];
	lk_table_number(table, ns, isnan(ns) ? NULL : lk_format_seconds(ns * 1e-9, text, sizeof text));
}

void lk_put_pctg(lk_table *table, double part, double whole) {
	char text[32];
	double pctg = whole > 0 ? 100 * part / whole : NAN;
	lk_table_number(table, pctg, isnan(pctg) ? NULL : lk_fixed(pctg, 1, text, sizeof text));
}

void lk_put_known(lk_table *table, double number,
                  char *shown(double number, char *out, size_t size)) {
	char text[80];
	bool known = number > 0;
	lk_table_number(table, known ? number : NAN, known ? shown(number, text, sizeof text) : NULL);
}

void lk_put_count(lk_table *table, double count) {
	char text[32];
	lk_table_number(table, count, lk_format_thousands(count, text, sizeof text));
}

/* Columns of names, so that tables fit into 100. */
enum { KERNEL_WIDTH = 48, GROUP_WIDTH = 14, MOST_WIDTH = 48 };

void lk_put_cut(lk_table *table, const char *name, size_t width) {
	static const char dots[] = "...";
	char text[MOST_WIDTH + 1];
	LK_ASSERT(width < sizeof text);
	if (strlen(name) <= width) {
		lk_table_text(table, name);
		return;
	}
	size_t length = 0;
	for (size_t step; (step = lk_utf8_length(name + length, strlen(name + length))) &&
	                  length + step + strlen(dots) <= width;)
		length += step;
	snprintf(text, sizeof text, "%.*s%s", (int)length, name, dots);
	lk_table_text(table, text);
}

/* The name of a kernel; people get the beginning of a long one. */
static void tables_put_name(lk_table *table, const char *name, bool people) {
	if (people) lk_put_cut(table, name, KERNEL_WIDTH);
	else lk_table_text(table, name);
}

static void tables_put_plain(lk_table *table, double number) {
	char text[32];
	lk_table_number(table, number, isnan(number) ? NULL : lk_fixed(number, 0, text, sizeof text));
}

static void tables_put_real(lk_table *table, double number) {
	char text[32];
	lk_table_number(table, number, isnan(number) ? NULL : lk_fixed(number, 2, text, sizeof text));
}

static void put_ratio(lk_table *table, double number) {
	char text[32];
	lk_table_number(table, number, isnan(number) ? NULL : lk_fixed(number, 3, text, sizeof text));
}

static void tables_put_bytes(lk_table *table, double bytes) {
	char text[32];
	lk_table_number(table, bytes, isnan(bytes) ? NULL : lk_format_bytes(bytes, text, sizeof text));
}

#define RIGHT(key, title) \
	{ key, title, true, false }
#define LEFT(key, title) \
	{ key, title, false, false }
#define HIDDEN(key) \
	{ key, key, false, true }
#define TABLE(name, columns) lk_table_new(name, columns, (int)(sizeof columns / sizeof *columns))

/* How many rows are printed. */
static int tables_rows_of(int count, int top) {
	return top > 0 && top < count ? top : count;
}

/* ---- tables ---- */

static void find_stall_number(const lk_subject *subject, lk_field_value *found) {
	found->number = subject->index + 1;
}

static void find_lost_share(const lk_subject *subject, lk_field_value *found) {
	found->number = 100 * ((const lk_explain_stall *)subject->record)->share;
}

static char *show_tenths_of_pctg(double pctg, char *out, size_t size) {
	return lk_fixed(pctg, 1, out, size);
}

static const lk_answer_field stall_fields[] = {
	{"rank_of_stall", "#", LK_FIELD_INT, .get = find_stall_number},
	{"kind", "kind", LK_AT(lk_explain_stall, kind)},
	{"what", "what", LK_AT(lk_explain_stall, what)},
	{"lost_s", "lost a step", LK_AT(lk_explain_stall, lost_s), .shown = lk_format_seconds},
	{"lost_pctg", "%", LK_FIELD_REAL, .get = find_lost_share, .known = LK_MAYBE,
     .shown = show_tenths_of_pctg},
	{"gain_s", "remedy gains", LK_AT(lk_explain_stall, gain_s), .known = LK_MAYBE,
     .shown = lk_format_seconds},
	{"most_s", "at most", LK_AT(lk_explain_stall, most_s), .shown = lk_format_seconds},
	{"change", "change", LK_AT(lk_explain_stall, change), .known = LK_MAYBE},
	{"evidence", "evidence", LK_AT(lk_explain_stall, evidence), .known = LK_MAYBE},
	{"remedy", "remedy", LK_AT(lk_explain_stall, remedy), .known = LK_MAYBE},
};
const lk_answer_record lk_stall_record = {
	.python = "Stall",
	.what =
		"What costs a step its time, with the figures that show it and the remedy. gain_s: "
		"simulated with the change of whatif; None: that cannot be simulated, and most_s bounds "
		"it.",
	LK_RECORD(lk_explain_stall, stall_fields)};

static lk_table *stalls(const lk_explanation *explanation, int top) {
	static const lk_columns columns = {"stalls", &lk_stall_record, NULL};
	lk_table *table = lk_fields_rows(&columns, explanation, explanation->stalls,
	                                 tables_rows_of(explanation->stall_count, top));
	if (table) lk_table_hide_empty(table);
	return table;
}

static lk_table *breakdown(const lk_explanation *explanation) {
	static const lk_column columns[] = {
		RIGHT("rank", "rank"),
		HIDDEN("trace"),
		HIDDEN("device"),
		RIGHT("steps", "steps"),
		HIDDEN("events"),
		RIGHT("kernels", "kernels"),
		RIGHT("kernel_time_ns", "kernel_time"),
		RIGHT("compute_time_ns", "compute_time"),
		RIGHT("compute_time_pctg", "%"),
		RIGHT("non_compute_time_ns", "non_compute_time"),
		RIGHT("non_compute_time_pctg", "%"),
		RIGHT("idle_time_ns", "idle_time"),
		RIGHT("idle_time_pctg", "%"),
		HIDDEN("exposed_communication_ns"),
		HIDDEN("exposed_memory_ns"),
		HIDDEN("idle_data_loading_ns"),
		HIDDEN("idle_sync_ns"),
		HIDDEN("idle_host_ns"),
		HIDDEN("idle_other_ns"),
		HIDDEN("data_loading_ns"),
		HIDDEN("sync_calls_ns"),
		HIDDEN("h2d_ns"),
		HIDDEN("h2d_exposed_ns"),
	};
	lk_table *table = TABLE("breakdown", columns);
	for (int i = 0; table && i < explanation->rank_count; i++) {
		const lk_explain_rank *rank = &explanation->ranks[i];
		double whole = (double)rank->kernel_time_ns;
		lk_table_row(table);
		tables_put_plain(table, rank->rank);
		lk_table_text(table, rank->path);
		lk_table_text(table, *rank->device ? rank->device : NULL);
		tables_put_plain(table, rank->steps);
		lk_put_count(table, (double)rank->events);
		lk_put_count(table, (double)rank->device_events);
		lk_put_ns(table, whole);
		lk_put_ns(table, (double)rank->compute_ns);
		lk_put_pctg(table, (double)rank->compute_ns, whole);
		lk_put_ns(table, (double)rank->non_compute_ns);
		lk_put_pctg(table, (double)rank->non_compute_ns, whole);
		lk_put_ns(table, (double)rank->idle_ns);
		lk_put_pctg(table, (double)rank->idle_ns, whole);
		const int64_t more[] = {rank->exposed_communication_ns,
		                        rank->exposed_memory_ns,
		                        rank->idle_data_ns,
		                        rank->idle_sync_ns,
		                        rank->idle_host_ns,
		                        rank->idle_other_ns,
		                        rank->data_loading_ns,
		                        rank->sync_ns,
		                        rank->h2d_ns,
		                        rank->h2d_exposed_ns};
		for (size_t k = 0; k < sizeof more / sizeof *more; k++) lk_put_ns(table, (double)more[k]);
	}
	return table;
}

static lk_table *steps(const lk_explanation *explanation) {
	static const lk_column columns[] = {
		RIGHT("rank", "rank"),
		RIGHT("step", "step"),
		HIDDEN("start_ns"),
		RIGHT("dur_ns", "time"),
		RIGHT("compute_ns", "compute"),
		RIGHT("exposed_communication_ns", "exposed comm"),
		RIGHT("exposed_memory_ns", "exposed copies"),
		RIGHT("idle_ns", "idle"),
		RIGHT("data_loading_ns", "data loading"),
	};
	lk_table *table = TABLE("steps", columns);
	for (int i = 0; table && i < explanation->step_rows; i++) {
		const lk_explain_step *step = &explanation->steps[i];
		lk_table_row(table);
		tables_put_plain(table, step->rank);
		tables_put_plain(table, (double)step->number);
		tables_put_plain(table, (double)step->start_ns);
		lk_put_ns(table, (double)step->dur_ns);
		lk_put_ns(table, (double)step->compute_ns);
		lk_put_ns(table, (double)step->exposed_communication_ns);
		lk_put_ns(table, (double)step->exposed_memory_ns);
		lk_put_ns(table, (double)step->idle_ns);
		lk_put_ns(table, (double)step->data_loading_ns);
	}
	return table;
}

static lk_table *tables_overlap(const lk_explanation *explanation) {
	static const lk_column columns[] = {
		RIGHT("rank", "rank"),
		RIGHT("comp_comm_overlap_pctg", "comp_comm_overlap_pctg"),
		RIGHT("communication_ns", "communication"),
		RIGHT("overlap_ns", "hidden"),
		RIGHT("exposed_communication_ns", "exposed"),
	};
	lk_table *table = TABLE("overlap", columns);
	for (int i = 0; table && i < explanation->rank_count; i++) {
		const lk_explain_rank *rank = &explanation->ranks[i];
		lk_table_row(table);
		tables_put_plain(table, rank->rank);
		lk_put_pctg(table, (double)rank->overlap_ns, (double)rank->communication_ns);
		lk_put_ns(table, (double)rank->communication_ns);
		lk_put_ns(table, (double)rank->overlap_ns);
		lk_put_ns(table, (double)rank->exposed_communication_ns);
	}
	return table;
}

static lk_table *tables_communication(const lk_explanation *explanation, bool people) {
	static const lk_column columns[] = {
		LEFT("kind", "kind"),
		LEFT("group", "group"),
		RIGHT("group_size", "ranks"),
		RIGHT("count", "count"),
		RIGHT("bytes", "bytes"),
		RIGHT("kernel_ns", "time"),
		RIGHT("exposed_ns", "exposed"),
		RIGHT("hidden_pctg", "hidden %"),
		RIGHT("matched", "matched"),
		RIGHT("wait_ns", "waiting"),
		RIGHT("transfer_ns", "transfer"),
		RIGHT("exposed_wait_ns", "exposed waiting"),
		RIGHT("busbw_GBps", "bus GB/s"),
		RIGHT("model_busbw_GBps", "model"),
	};
	lk_table *table = TABLE("communication", columns);
	bool divided = false;
	for (int i = 0; i < explanation->comm_count; i++) divided |= explanation->comm[i].matched > 0;
	for (int i = 0; table && i < explanation->comm_count; i++) {
		const lk_explain_comm *comm = &explanation->comm[i];
		double all = (double)comm->kernel_ns;
		/* People get 100 columns: where waiting is known, the times that it is a part of go. */
		bool brief = people && divided, summed = brief && comm->matched == comm->count;
		lk_table_row(table);
		lk_table_text(table, comm->kind);
		if (*comm->group && people) lk_put_cut(table, comm->group, GROUP_WIDTH);
		else lk_table_text(table, *comm->group ? comm->group : NULL);
		tables_put_plain(table, comm->group_size ? comm->group_size : NAN);
		lk_put_count(table, (double)comm->count);
		tables_put_bytes(table, comm->bytes);
		lk_put_ns(table, summed ? NAN : all);
		lk_put_ns(table, (double)comm->exposed_ns);
		lk_put_pctg(table, comm->host || brief ? NAN : all - (double)comm->exposed_ns, all);
		tables_put_plain(table, people && (brief || !divided) ? NAN : (double)comm->matched);
		lk_put_ns(table, comm->matched ? (double)comm->wait_ns : NAN);
		lk_put_ns(table, comm->matched ? (double)comm->transfer_ns : NAN);
		lk_put_ns(table, comm->matched && !brief ? (double)comm->exposed_wait_ns : NAN);
		tables_put_real(table, comm->busbw);
		tables_put_real(table, comm->model_busbw);
	}
	if (table) lk_table_hide_empty(table);
	return table;
}

static lk_table *tables_stragglers(const lk_explanation *explanation) {
	static const lk_column columns[] = {
		RIGHT("rank", "rank"),
		RIGHT("collectives", "collectives"),
		RIGHT("last", "last"),
		RIGHT("last_pctg", "%"),
		RIGHT("late_ns", "late by"),
		RIGHT("caused_ns", "others wait, exposed"),
		RIGHT("waited_ns", "waits itself"),
		RIGHT("compute_ratio", "compute / median"),
	};
	lk_table *table = TABLE("stragglers", columns);
	for (int i = 0; table && i < explanation->straggler_count; i++) {
		const lk_explain_straggler *straggler = &explanation->stragglers[i];
		lk_table_row(table);
		tables_put_plain(table, straggler->rank);
		lk_put_count(table, (double)straggler->collectives);
		lk_put_count(table, (double)straggler->last);
		lk_put_pctg(table, (double)straggler->last, (double)straggler->collectives);
		lk_put_ns(table, (double)straggler->late_ns);
		lk_put_ns(table, (double)straggler->caused_ns);
		lk_put_ns(table, (double)straggler->waited_ns);
		put_ratio(table, straggler->compute_ratio);
	}
	return table;
}

static lk_table *stretches(const lk_explanation *explanation, int top) {
	static const lk_column columns[] = {
		RIGHT("rank", "rank"),     LEFT("cause", "idle for"),        RIGHT("start_ns", "start"),
		RIGHT("dur_ns", "length"), RIGHT("lost_ns", "lost"),         RIGHT("lost_pctg", "%"),
		RIGHT("gaps", "gaps"),     LEFT("annotation", "annotation"), LEFT("operation", "operation"),
	};
	lk_table *table = TABLE("stretches", columns);
	for (int i = 0; table && i < tables_rows_of(explanation->stretch_count, top); i++) {
		const lk_explain_stretch *stretch = &explanation->stretches[i];
		lk_table_row(table);
		tables_put_plain(table, stretch->rank);
		lk_table_text(table, stretch->cause);
		lk_put_ns(table, (double)stretch->start_ns);
		lk_put_ns(table, (double)stretch->dur_ns);
		lk_put_ns(table, (double)stretch->lost_ns);
		lk_put_pctg(table, (double)stretch->lost_ns, (double)stretch->dur_ns);
		lk_put_count(table, (double)stretch->gaps);
		lk_table_text(table, *stretch->annotation ? stretch->annotation : NULL);
		lk_table_text(table, *stretch->operation ? stretch->operation : NULL);
	}
	return table;
}

static lk_table *tables_idle(const lk_explanation *explanation) {
	static const lk_column columns[] = {
		RIGHT("rank", "rank"),
		RIGHT("stream", "stream"),
		RIGHT("gaps", "gaps"),
		RIGHT("idle_time_ns", "idle_time"),
		RIGHT("host_wait_ns", "host_wait"),
		RIGHT("host_wait_pctg", "%"),
		RIGHT("kernel_wait_ns", "kernel_wait"),
		RIGHT("kernel_wait_pctg", "%"),
		RIGHT("other_ns", "other"),
		RIGHT("other_pctg", "%"),
	};
	lk_table *table = TABLE("idle", columns);
	for (int i = 0; table && i < explanation->idle_count; i++) {
		const lk_explain_idle *explain_idle = &explanation->idle[i];
		double whole = (double)explain_idle->idle_ns;
		lk_table_row(table);
		tables_put_plain(table, explain_idle->rank);
		tables_put_plain(table, (double)explain_idle->stream);
		lk_put_count(table, (double)explain_idle->gaps);
		lk_put_ns(table, whole);
		lk_put_ns(table, (double)explain_idle->host_wait_ns);
		lk_put_pctg(table, (double)explain_idle->host_wait_ns, whole);
		lk_put_ns(table, (double)explain_idle->kernel_wait_ns);
		lk_put_pctg(table, (double)explain_idle->kernel_wait_ns, whole);
		lk_put_ns(table, (double)explain_idle->other_ns);
		lk_put_pctg(table, (double)explain_idle->other_ns, whole);
	}
	return table;
}

static lk_table *tables_kernels(const lk_explanation *explanation, int top, bool people) {
	static const lk_column columns[] = {
		RIGHT("time_pctg", "Time (%)"),
		RIGHT("total_time_ns", "Total Time"),
		RIGHT("instances", "Instances"),
		RIGHT("avg_ns", "Avg"),
		HIDDEN("med_ns"),
		HIDDEN("min_ns"),
		RIGHT("max_ns", "Max"),
		HIDDEN("stddev_ns"),
		HIDDEN("type"),
		LEFT("name", "Name"),
	};
	lk_table *table = TABLE("kernels", columns);
	for (int i = 0; table && i < tables_rows_of(explanation->kernel_count, top); i++) {
		const lk_explain_kernel *kernel = &explanation->kernel[i];
		lk_table_row(table);
		lk_put_pctg(table, kernel->share, 1);
		lk_put_ns(table, kernel->time.total_ns);
		lk_put_count(table, (double)kernel->time.count);
		lk_put_ns(table, kernel->time.mean_ns);
		lk_put_ns(table, kernel->time.median_ns);
		lk_put_ns(table, kernel->time.min_ns);
		lk_put_ns(table, kernel->time.max_ns);
		lk_put_ns(table, kernel->time.deviation_ns);
		lk_table_text(table, lk_explain_types[kernel->type]);
		tables_put_name(table, kernel->name, people);
	}
	return table;
}

static lk_table *tables_queue(const lk_explanation *explanation) {
	static const lk_column columns[] = {
		RIGHT("rank", "rank"), RIGHT("stream", "stream"), RIGHT("launches", "launches"),
		RIGHT("mean", "mean"), RIGHT("min", "min"),       RIGHT("median", "median"),
		RIGHT("p95", "95 %"),  RIGHT("max", "max"),       RIGHT("full_ns", "full (1024)"),
		HIDDEN("span_ns"),     RIGHT("full_pctg", "%"),
	};
	lk_table *table = TABLE("queue", columns);
	for (int i = 0; table && i < explanation->queue_count; i++) {
		const lk_explain_queue *explain_queue = &explanation->queues[i];
		char mean[32];
		lk_table_row(table);
		tables_put_plain(table, explain_queue->rank);
		tables_put_plain(table, (double)explain_queue->stream);
		lk_put_count(table, (double)explain_queue->launches);
		lk_table_number(table, explain_queue->mean,
		                lk_fixed(explain_queue->mean, 1, mean, sizeof mean));
		tables_put_plain(table, (double)explain_queue->min);
		tables_put_plain(table, explain_queue->median);
		tables_put_plain(table, explain_queue->p95);
		tables_put_plain(table, (double)explain_queue->max);
		lk_put_ns(table, (double)explain_queue->full_ns);
		lk_put_ns(table, (double)explain_queue->span_ns);
		lk_put_pctg(table, (double)explain_queue->full_ns, (double)explain_queue->span_ns);
	}
	return table;
}

static void tables_put_rate(lk_table *table, double rate, double unit) {
	char text[32];
	lk_table_number(table, rate > 0 ? rate : NAN,
	                rate > 0 ? lk_fixed(rate / unit, rate < 10 * unit ? 2 : 1, text, sizeof text)
	                         : NULL);
}

static lk_table *roofline(const lk_explanation *explanation, int top, bool people) {
	static const lk_column columns[] = {
		RIGHT("time_pctg", "Time (%)"),
		RIGHT("total_time_ns", "Total Time"),
		RIGHT("instances", "Instances"),
		RIGHT("avg_ns", "Avg"),
		RIGHT("roof_pctg", "of roof %"),
		LEFT("limit", "limit"),
		RIGHT("flops_per_s", "TFLOP/s"),
		RIGHT("bytes_per_s", "GB/s"),
		RIGHT("flops_per_byte", "FLOP/B"),
		LEFT("dtype", "format"),
		LEFT("kind", "kind"),
		LEFT("operation", "operation"),
		LEFT("shapes", "shapes"),
		HIDDEN("flops"),
		HIDDEN("bytes"),
		HIDDEN("peak_flops"),
		LEFT("kernel", "longest kernel"),
	};
	lk_table *table = TABLE("roofline", columns);
	for (int i = 0; table && i < tables_rows_of(explanation->shaped_count, top); i++) {
		const lk_explain_shaped *shaped = &explanation->shaped[i];
		double each = shaped->count && shaped->total_ns > 0
		                  ? shaped->total_ns / (double)shaped->count
		                  : NAN,
			   per = each * 1e-9;
		lk_table_row(table);
		lk_put_pctg(table, shaped->share, 1);
		lk_put_ns(table, shaped->total_ns);
		lk_put_count(table, (double)shaped->count);
		lk_put_ns(table, each);
		lk_put_pctg(table, shaped->roof, 1);
		lk_table_text(table, isnan(shaped->roof) ? NULL : shaped->memory_bound ? "memory" : "peak");
		tables_put_rate(table, shaped->flops / per, 1e12);
		tables_put_rate(table, shaped->bytes / per, 1e9);
		tables_put_real(
			table, shaped->flops > 0 && shaped->bytes > 0 ? shaped->flops / shaped->bytes : NAN);
		lk_table_text(table, shaped->dtype);
		lk_table_text(table, shaped->kind);
		lk_table_text(table, shaped->operation);
		tables_put_name(table, shaped->shapes, people);
		lk_table_number(table, shaped->flops, NULL);
		lk_table_number(table, shaped->bytes, NULL);
		lk_table_number(table, shaped->peak_flops > 0 ? shaped->peak_flops : NAN, NULL);
		tables_put_name(table, shaped->kernel, people);
	}
	if (table && people) lk_table_hide_empty(table);
	return table;
}

static void launch_row(lk_table *table, const lk_explain_launch *launch, const char *what,
                       const lk_explain_stats *stats) {
	lk_table_row(table);
	tables_put_plain(table, launch->rank);
	lk_table_text(table, what);
	lk_put_count(table, (double)stats->count);
	const double times[] = {stats->total_ns, stats->mean_ns, stats->median_ns,   stats->p95_ns,
	                        stats->min_ns,   stats->max_ns,  stats->deviation_ns};
	for (size_t i = 0; i < sizeof times / sizeof *times; i++) lk_put_ns(table, times[i]);
	lk_put_count(table, (double)launch->short_kernels);
}

static lk_table *tables_launches(const lk_explanation *explanation) {
	static const lk_column columns[] = {
		RIGHT("rank", "rank"),
		LEFT("measure", "measure"),
		RIGHT("count", "count"),
		RIGHT("total_ns", "total"),
		RIGHT("avg_ns", "avg"),
		RIGHT("med_ns", "med"),
		RIGHT("p95_ns", "95 %"),
		RIGHT("min_ns", "min"),
		RIGHT("max_ns", "max"),
		RIGHT("stddev_ns", "stddev"),
		RIGHT("short_kernels", "short kernels"),
	};
	lk_table *table = TABLE("launches", columns);
	for (int i = 0; table && i < explanation->launch_count; i++) {
		const lk_explain_launch *launch = &explanation->launches[i];
		launch_row(table, launch, "cpu_duration", &launch->cpu_duration);
		launch_row(table, launch, "gpu_duration", &launch->gpu_duration);
		launch_row(table, launch, "launch_delay", &launch->launch_delay);
	}
	return table;
}

lk_table *lk_explain_table(const lk_explanation *explanation, int which, bool people) {
	int top = people ? explanation->top : 0;
	switch (which) {
	case LK_EXPLAIN_STALLS: return stalls(explanation, top);
	case LK_EXPLAIN_STEPS: return steps(explanation);
	case LK_EXPLAIN_OVERLAP: return tables_overlap(explanation);
	case LK_EXPLAIN_COMMUNICATION: return tables_communication(explanation, people);
	case LK_EXPLAIN_STRAGGLERS: return tables_stragglers(explanation);
	case LK_EXPLAIN_STRETCHES: return stretches(explanation, top);
	case LK_EXPLAIN_IDLE: return tables_idle(explanation);
	case LK_EXPLAIN_KERNELS: return tables_kernels(explanation, top, people);
	case LK_EXPLAIN_QUEUE: return tables_queue(explanation);
	case LK_EXPLAIN_LAUNCHES: return tables_launches(explanation);
	case LK_EXPLAIN_ROOFLINE: return roofline(explanation, top, people);
	default: return breakdown(explanation);
	}
}
