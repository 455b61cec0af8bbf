/* explain_tables.c: the tables of an explanation. Names of columns are those of HTA and of `nsys stats`. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "view/text/views.h"
#include "view/table/table_internal.h"

/* ---- cells ---- */

void lk_put_seconds(lk_table *t, double seconds) {
	char text[32];
	lk_table_number(t, seconds, isnan(seconds) ? NULL : lk_format_seconds(seconds, text, sizeof text));
}

void lk_put_ns(lk_table *t, double ns) {
	char text[32];
	lk_table_number(t, ns, isnan(ns) ? NULL : lk_format_seconds(ns * 1e-9, text, sizeof text));
}

void lk_put_pctg(lk_table *t, double part, double whole) {
	char text[32];
	double pctg = whole > 0 ? 100 * part / whole : NAN;
	lk_table_number(t, pctg, isnan(pctg) ? NULL : lk_fixed(pctg, 1, text, sizeof text));
}

void lk_put_count(lk_table *t, double count) {
	char text[32];
	lk_table_number(t, count, lk_format_thousands(count, text, sizeof text));
}

void lk_put_name(lk_table *t, const char *name, bool people) {
	enum { WIDTH = 72 };
	char text[WIDTH + 8];
	if (!people || strlen(name) <= WIDTH) {
		lk_table_text(t, name);
		return;
	}
	size_t length = 0;
	for (size_t step; length < WIDTH && (step = lk_utf8_length(name + length, strlen(name + length))); length += step)
		if (length + step > WIDTH) break;
	snprintf(text, sizeof text, "%.*s...", (int)length, name);
	lk_table_text(t, text);
}

static void put_plain(lk_table *t, double number) {
	char text[32];
	lk_table_number(t, number, isnan(number) ? NULL : lk_fixed(number, 0, text, sizeof text));
}

static void put_real(lk_table *t, double number) {
	char text[32];
	lk_table_number(t, number, isnan(number) ? NULL : lk_fixed(number, 2, text, sizeof text));
}

static void put_ratio(lk_table *t, double number) {
	char text[32];
	lk_table_number(t, number, isnan(number) ? NULL : lk_fixed(number, 3, text, sizeof text));
}

static void put_bytes(lk_table *t, double bytes) {
	char text[32];
	lk_table_number(t, bytes, isnan(bytes) ? NULL : lk_format_bytes(bytes, text, sizeof text));
}

#define RIGHT(key, title) {key, title, true, false}
#define LEFT(key, title) {key, title, false, false}
#define HIDDEN(key) {key, key, false, true}
#define TABLE(name, columns) lk_table_new(name, columns, (int)(sizeof columns / sizeof *columns))

/* How many rows are printed. */
static int rows_of(int count, int top) {
	return top > 0 && top < count ? top : count;
}

/* ---- tables ---- */

static lk_table *stalls(const lk_explanation *x, int top) {
	static const lk_column columns[] = {
		RIGHT("rank_of_stall", "#"),    LEFT("kind", "kind"),     LEFT("what", "what"),
		RIGHT("lost_s", "lost a step"), RIGHT("lost_pctg", "%"),  RIGHT("gain_s", "remedy gains"),
		LEFT("evidence", "evidence"),   LEFT("remedy", "remedy"),
	};
	lk_table *t = TABLE("stalls", columns);
	for (int i = 0; t && i < rows_of(x->stall_count, top); i++) {
		const lk_explain_stall *s = &x->stalls[i];
		lk_table_row(t);
		put_plain(t, i + 1);
		lk_table_text(t, s->kind), lk_table_text(t, s->what);
		lk_put_seconds(t, s->lost_s), lk_put_pctg(t, s->share, 1), lk_put_seconds(t, s->gain_s);
		lk_table_text(t, s->evidence), lk_table_text(t, s->remedy);
	}
	if (t) lk_table_hide_empty(t);
	return t;
}

static lk_table *breakdown(const lk_explanation *x) {
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
	lk_table *t = TABLE("breakdown", columns);
	for (int i = 0; t && i < x->rank_count; i++) {
		const lk_explain_rank *r = &x->ranks[i];
		double whole = (double)r->kernel_time_ns;
		lk_table_row(t);
		put_plain(t, r->rank);
		lk_table_text(t, r->path), lk_table_text(t, *r->device ? r->device : NULL);
		put_plain(t, r->steps), lk_put_count(t, (double)r->events), lk_put_count(t, (double)r->device_events);
		lk_put_ns(t, whole);
		lk_put_ns(t, (double)r->compute_ns), lk_put_pctg(t, (double)r->compute_ns, whole);
		lk_put_ns(t, (double)r->non_compute_ns), lk_put_pctg(t, (double)r->non_compute_ns, whole);
		lk_put_ns(t, (double)r->idle_ns), lk_put_pctg(t, (double)r->idle_ns, whole);
		const int64_t more[] = {r->exposed_communication_ns,
								r->exposed_memory_ns,
								r->idle_data_ns,
								r->idle_sync_ns,
								r->idle_host_ns,
								r->idle_other_ns,
								r->data_loading_ns,
								r->sync_ns,
								r->h2d_ns,
								r->h2d_exposed_ns};
		for (size_t k = 0; k < sizeof more / sizeof *more; k++) lk_put_ns(t, (double)more[k]);
	}
	return t;
}

static lk_table *steps(const lk_explanation *x) {
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
	lk_table *t = TABLE("steps", columns);
	for (int i = 0; t && i < x->step_rows; i++) {
		const lk_explain_step *s = &x->steps[i];
		lk_table_row(t);
		put_plain(t, s->rank), put_plain(t, (double)s->number), put_plain(t, (double)s->start_ns);
		lk_put_ns(t, (double)s->dur_ns), lk_put_ns(t, (double)s->compute_ns);
		lk_put_ns(t, (double)s->exposed_communication_ns), lk_put_ns(t, (double)s->exposed_memory_ns);
		lk_put_ns(t, (double)s->idle_ns), lk_put_ns(t, (double)s->data_loading_ns);
	}
	return t;
}

static lk_table *overlap(const lk_explanation *x) {
	static const lk_column columns[] = {
		RIGHT("rank", "rank"),
		RIGHT("comp_comm_overlap_pctg", "comp_comm_overlap_pctg"),
		RIGHT("communication_ns", "communication"),
		RIGHT("overlap_ns", "hidden"),
		RIGHT("exposed_communication_ns", "exposed"),
	};
	lk_table *t = TABLE("overlap", columns);
	for (int i = 0; t && i < x->rank_count; i++) {
		const lk_explain_rank *r = &x->ranks[i];
		lk_table_row(t);
		put_plain(t, r->rank), lk_put_pctg(t, (double)r->overlap_ns, (double)r->communication_ns);
		lk_put_ns(t, (double)r->communication_ns), lk_put_ns(t, (double)r->overlap_ns);
		lk_put_ns(t, (double)r->exposed_communication_ns);
	}
	return t;
}

static lk_table *communication(const lk_explanation *x) {
	static const lk_column columns[] = {
		LEFT("kind", "kind"),           LEFT("group", "group"),           RIGHT("group_size", "ranks"),
		RIGHT("count", "count"),        RIGHT("bytes", "bytes"),          RIGHT("kernel_ns", "time"),
		RIGHT("exposed_ns", "exposed"), RIGHT("hidden_pctg", "hidden %"), RIGHT("matched", "matched"),
		RIGHT("wait_ns", "waiting"),    RIGHT("transfer_ns", "transfer"), RIGHT("exposed_wait_ns", "exposed waiting"),
		RIGHT("busbw_GBps", "busbw GB/s"), RIGHT("model_busbw_GBps", "model GB/s"),
	};
	lk_table *t = TABLE("communication", columns);
	for (int i = 0; t && i < x->comm_count; i++) {
		const lk_explain_comm *c = &x->comm[i];
		double all = (double)c->kernel_ns;
		lk_table_row(t);
		lk_table_text(t, c->kind), lk_table_text(t, *c->group ? c->group : NULL);
		put_plain(t, c->group_size ? c->group_size : NAN), lk_put_count(t, (double)c->count), put_bytes(t, c->bytes);
		lk_put_ns(t, all), lk_put_ns(t, (double)c->exposed_ns);
		lk_put_pctg(t, c->host ? NAN : all - (double)c->exposed_ns, all);
		put_plain(t, (double)c->matched);
		lk_put_ns(t, c->matched ? (double)c->wait_ns : NAN), lk_put_ns(t, c->matched ? (double)c->transfer_ns : NAN);
		lk_put_ns(t, c->matched ? (double)c->exposed_wait_ns : NAN);
		put_real(t, c->busbw), put_real(t, c->model_busbw);
	}
	if (t) lk_table_hide_empty(t);
	return t;
}

static lk_table *stragglers(const lk_explanation *x) {
	static const lk_column columns[] = {
		RIGHT("rank", "rank"),
		RIGHT("collectives", "collectives"),
		RIGHT("last", "last"),
		RIGHT("last_pctg", "%"),
		RIGHT("late_ns", "behind the next to last"),
		RIGHT("caused_ns", "others wait, exposed"),
		RIGHT("waited_ns", "waits itself"),
		RIGHT("compute_ratio", "compute / median"),
	};
	lk_table *t = TABLE("stragglers", columns);
	for (int i = 0; t && i < x->straggler_count; i++) {
		const lk_explain_straggler *s = &x->stragglers[i];
		lk_table_row(t);
		put_plain(t, s->rank), lk_put_count(t, (double)s->collectives), lk_put_count(t, (double)s->last);
		lk_put_pctg(t, (double)s->last, (double)s->collectives);
		lk_put_ns(t, (double)s->late_ns), lk_put_ns(t, (double)s->caused_ns), lk_put_ns(t, (double)s->waited_ns);
		put_ratio(t, s->compute_ratio);
	}
	return t;
}

static lk_table *stretches(const lk_explanation *x, int top) {
	static const lk_column columns[] = {
		RIGHT("rank", "rank"), LEFT("cause", "idle for"), RIGHT("start_ns", "start"), RIGHT("dur_ns", "length"),
		RIGHT("lost_ns", "lost"), RIGHT("lost_pctg", "%"), RIGHT("gaps", "gaps"), LEFT("annotation", "annotation"),
		LEFT("operation", "operation"),
	};
	lk_table *t = TABLE("stretches", columns);
	for (int i = 0; t && i < rows_of(x->stretch_count, top); i++) {
		const lk_explain_stretch *s = &x->stretches[i];
		lk_table_row(t);
		put_plain(t, s->rank), lk_table_text(t, s->cause);
		lk_put_ns(t, (double)s->start_ns), lk_put_ns(t, (double)s->dur_ns), lk_put_ns(t, (double)s->lost_ns);
		lk_put_pctg(t, (double)s->lost_ns, (double)s->dur_ns), lk_put_count(t, (double)s->gaps);
		lk_table_text(t, *s->annotation ? s->annotation : NULL), lk_table_text(t, *s->operation ? s->operation : NULL);
	}
	return t;
}

static lk_table *idle(const lk_explanation *x) {
	static const lk_column columns[] = {
		RIGHT("rank", "rank"), RIGHT("stream", "stream"), RIGHT("gaps", "gaps"), RIGHT("idle_time_ns", "idle_time"),
		RIGHT("host_wait_ns", "host_wait"), RIGHT("host_wait_pctg", "%"), RIGHT("kernel_wait_ns", "kernel_wait"),
		RIGHT("kernel_wait_pctg", "%"), RIGHT("other_ns", "other"), RIGHT("other_pctg", "%"),
	};
	lk_table *t = TABLE("idle", columns);
	for (int i = 0; t && i < x->idle_count; i++) {
		const lk_explain_idle *s = &x->idle[i];
		double whole = (double)s->idle_ns;
		lk_table_row(t);
		put_plain(t, s->rank), put_plain(t, (double)s->stream), lk_put_count(t, (double)s->gaps), lk_put_ns(t, whole);
		lk_put_ns(t, (double)s->host_wait_ns), lk_put_pctg(t, (double)s->host_wait_ns, whole);
		lk_put_ns(t, (double)s->kernel_wait_ns), lk_put_pctg(t, (double)s->kernel_wait_ns, whole);
		lk_put_ns(t, (double)s->other_ns), lk_put_pctg(t, (double)s->other_ns, whole);
	}
	return t;
}

static lk_table *kernels(const lk_explanation *x, int top, bool people) {
	static const lk_column columns[] = {
		RIGHT("time_pctg", "Time (%)"),
		RIGHT("total_time_ns", "Total Time"),
		RIGHT("instances", "Instances"),
		RIGHT("avg_ns", "Avg"),
		RIGHT("med_ns", "Med"),
		RIGHT("min_ns", "Min"),
		RIGHT("max_ns", "Max"),
		RIGHT("stddev_ns", "StdDev"),
		LEFT("type", "Type"),
		LEFT("name", "Name"),
	};
	lk_table *t = TABLE("kernels", columns);
	for (int i = 0; t && i < rows_of(x->kernel_count, top); i++) {
		const lk_explain_kernel *k = &x->kernel[i];
		lk_table_row(t);
		lk_put_pctg(t, k->share, 1), lk_put_ns(t, k->time.total_ns), lk_put_count(t, (double)k->time.count);
		lk_put_ns(t, k->time.mean_ns), lk_put_ns(t, k->time.median_ns), lk_put_ns(t, k->time.min_ns),
			lk_put_ns(t, k->time.max_ns);
		lk_put_ns(t, k->time.deviation_ns);
		lk_table_text(t, lk_explain_types[k->type]), lk_put_name(t, k->name, people);
	}
	return t;
}

static lk_table *queue(const lk_explanation *x) {
	static const lk_column columns[] = {
		RIGHT("rank", "rank"), RIGHT("stream", "stream"), RIGHT("launches", "launches"),
		RIGHT("mean", "mean"), RIGHT("min", "min"),       RIGHT("median", "median"),
		RIGHT("p95", "95 %"),  RIGHT("max", "max"),       RIGHT("full_ns", "full (1024)"),
		HIDDEN("span_ns"),     RIGHT("full_pctg", "%"),
	};
	lk_table *t = TABLE("queue", columns);
	for (int i = 0; t && i < x->queue_count; i++) {
		const lk_explain_queue *q = &x->queues[i];
		char mean[32];
		lk_table_row(t);
		put_plain(t, q->rank), put_plain(t, (double)q->stream), lk_put_count(t, (double)q->launches);
		lk_table_number(t, q->mean, lk_fixed(q->mean, 1, mean, sizeof mean));
		put_plain(t, (double)q->min), put_plain(t, q->median), put_plain(t, q->p95), put_plain(t, (double)q->max);
		lk_put_ns(t, (double)q->full_ns), lk_put_ns(t, (double)q->span_ns);
		lk_put_pctg(t, (double)q->full_ns, (double)q->span_ns);
	}
	return t;
}

static void put_rate(lk_table *t, double rate, double unit) {
	char text[32];
	lk_table_number(t, rate > 0 ? rate : NAN, rate > 0 ? lk_fixed(rate / unit, rate < 10 * unit ? 2 : 1, text, sizeof text) : NULL);
}

static lk_table *roofline(const lk_explanation *x, int top, bool people) {
	static const lk_column columns[] = {
		RIGHT("time_pctg", "Time (%)"), RIGHT("total_time_ns", "Total Time"), RIGHT("instances", "Instances"), RIGHT("avg_ns", "Avg"),
		RIGHT("roof_pctg", "of roof %"), LEFT("limit", "limit"), RIGHT("flops_per_s", "TFLOP/s"), RIGHT("bytes_per_s", "GB/s"),
		RIGHT("flops_per_byte", "FLOP/B"), LEFT("dtype", "format"), LEFT("kind", "kind"), LEFT("operation", "operation"),
		LEFT("shapes", "shapes"), HIDDEN("flops"), HIDDEN("bytes"), HIDDEN("peak_flops"), LEFT("kernel", "longest kernel"),
	};
	lk_table *t = TABLE("roofline", columns);
	for (int i = 0; t && i < rows_of(x->shaped_count, top); i++) {
		const lk_explain_shaped *s = &x->shaped[i];
		double each = s->count && s->total_ns > 0 ? s->total_ns / (double)s->count : NAN, per = each * 1e-9;
		lk_table_row(t);
		lk_put_pctg(t, s->share, 1), lk_put_ns(t, s->total_ns), lk_put_count(t, (double)s->count), lk_put_ns(t, each);
		lk_put_pctg(t, s->roof, 1), lk_table_text(t, isnan(s->roof) ? NULL : s->memory_bound ? "memory" : "peak");
		put_rate(t, s->flops / per, 1e12), put_rate(t, s->bytes / per, 1e9);
		put_real(t, s->flops > 0 && s->bytes > 0 ? s->flops / s->bytes : NAN);
		lk_table_text(t, s->dtype), lk_table_text(t, s->kind), lk_table_text(t, s->operation), lk_put_name(t, s->shapes, people);
		lk_table_number(t, s->flops, NULL), lk_table_number(t, s->bytes, NULL);
		lk_table_number(t, s->peak_flops > 0 ? s->peak_flops : NAN, NULL), lk_put_name(t, s->kernel, people);
	}
	if (t && people) lk_table_hide_empty(t);
	return t;
}

static void launch_row(lk_table *t, const lk_explain_launch *l, const char *what, const lk_explain_stats *s) {
	lk_table_row(t);
	put_plain(t, l->rank), lk_table_text(t, what), lk_put_count(t, (double)s->count);
	const double times[] = {s->total_ns, s->mean_ns, s->median_ns, s->p95_ns, s->min_ns, s->max_ns, s->deviation_ns};
	for (size_t i = 0; i < sizeof times / sizeof *times; i++) lk_put_ns(t, times[i]);
	lk_put_count(t, (double)l->short_kernels);
}

static lk_table *launches(const lk_explanation *x) {
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
	lk_table *t = TABLE("launches", columns);
	for (int i = 0; t && i < x->launch_count; i++) {
		const lk_explain_launch *l = &x->launches[i];
		launch_row(t, l, "cpu_duration", &l->cpu_duration);
		launch_row(t, l, "gpu_duration", &l->gpu_duration);
		launch_row(t, l, "launch_delay", &l->launch_delay);
	}
	return t;
}

lk_table *lk_explain_table(const lk_explanation *x, int which, bool people) {
	int top = people ? x->top : 0;
	switch (which) {
	case LK_EXPLAIN_STALLS: return stalls(x, top);
	case LK_EXPLAIN_STEPS: return steps(x);
	case LK_EXPLAIN_OVERLAP: return overlap(x);
	case LK_EXPLAIN_COMMUNICATION: return communication(x);
	case LK_EXPLAIN_STRAGGLERS: return stragglers(x);
	case LK_EXPLAIN_STRETCHES: return stretches(x, top);
	case LK_EXPLAIN_IDLE: return idle(x);
	case LK_EXPLAIN_KERNELS: return kernels(x, top, people);
	case LK_EXPLAIN_QUEUE: return queue(x);
	case LK_EXPLAIN_LAUNCHES: return launches(x);
	case LK_EXPLAIN_ROOFLINE: return roofline(x, top, people);
	default: return breakdown(x);
	}
}

void lk_json_put_table(lk_json_writer *w, const char *key, const lk_table *table) {
	lk_json_array(w, key);
	for (int row = 0; row < table->rows; row++) {
		lk_json_object(w, NULL);
		for (int column = 0; column < table->count; column++) {
			const lk_cell *cell = lk_table_cell(table, row, column);
			const char *name = lk_table_key(table, column);
			if (cell->kind == LK_CELL_NUMBER) lk_json_put_number(w, name, cell->number);
			else if (cell->kind == LK_CELL_TEXT) lk_json_put_text(w, name, cell->text);
			else if (cell->kind == LK_CELL_BOOL) lk_json_put_bool(w, name, cell->number != 0);
			else lk_json_put_null(w, name);
		}
		lk_json_object_end(w);
	}
	lk_json_array_end(w);
}
