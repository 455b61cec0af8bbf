/* report_pipeline.c: the pipeline span by span, where each stage's time goes, collectives against the model's curves, and
 * kernels under their roof. */
#include "view/report/report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

/* Spans that a page shows, of all stages, and the least that each keeps. Of longer pipelines each stage keeps its first and
 * its last ones; what lies between is one span that says how many passes it stands for. */
enum { MOST_SPANS = 40000, LEAST_SPANS = 40, TICKS = 1000000, TEXT = 64 };

/* ---- the pipeline ---- */

/* The spans of one lane: those of `count` at `at` that are traffic, or that are not. */
struct lane {
	const lk_detail_span *at;
	size_t count, lane_count;
	bool traffic;
	size_t keep; /* at either end */
	double tick_s;
};

static bool in_lane(const struct lane *l, size_t i) { return (l->at[i].kind == LK_SPAN_COMM) == l->traffic; }

static long long tick(const struct lane *l, double seconds) { return llround(seconds / l->tick_s); }

/* A number of a span that is shown; `before` is the one shown before it, or NULL. */
typedef long long span_number(const struct lane *l, const lk_detail_span *span, const lk_detail_span *before);

static long long gap_of(const struct lane *l, const lk_detail_span *s, const lk_detail_span *before) {
	return tick(l, s->start_s) - (before ? tick(l, before->end_s) : 0);
}
static long long length_of(const struct lane *l, const lk_detail_span *s, const lk_detail_span *before) {
	return (void)before, tick(l, s->end_s) - tick(l, s->start_s);
}
static long long microbatch_of(const struct lane *l, const lk_detail_span *s, const lk_detail_span *before) {
	return (void)l, (void)before, s->microbatch;
}
static long long chunk_of(const struct lane *l, const lk_detail_span *s, const lk_detail_span *before) {
	return (void)l, (void)before, s->chunk;
}

static bool kept(const struct lane *l, size_t seen) { return seen < l->keep || seen >= l->lane_count - l->keep; }

static void put_column(lk_report *r, const char *key, const struct lane *l, span_number *number) {
	const lk_detail_span *before = NULL;
	size_t seen = 0;
	lk_json_array(r, key);
	for (size_t i = 0; i < l->count; i++) {
		if (!in_lane(l, i) || !kept(l, seen++)) continue;
		lk_json_put_integer(r, NULL, number(l, &l->at[i], before));
		before = &l->at[i];
	}
	lk_json_array_end(r);
}

/* A digit for each span. */
static lk_status put_kinds(lk_report *r, const struct lane *l, lk_error *err) {
	char *digits = malloc(l->lane_count + 1);
	size_t seen = 0, used = 0;
	if (!digits) return lk_oom(err);
	for (size_t i = 0; i < l->count; i++)
		if (in_lane(l, i) && kept(l, seen++)) digits[used++] = (char)('0' + l->at[i].kind);
	digits[used] = '\0';
	lk_json_put_text(r, "kinds", digits);
	free(digits);
	return LK_OK;
}
_Static_assert(LK_SPANS <= 10, "a digit for each kind");

/* What was left out in the middle of a lane: from where to where, how many passes, how much of it is work. */
static void put_middle(lk_report *r, const struct lane *l) {
	double from = 0, to = 0, busy = 0;
	size_t seen = 0;
	if (l->lane_count <= 2 * l->keep) return;
	for (size_t i = 0; i < l->count; i++) {
		if (!in_lane(l, i)) continue;
		if (!kept(l, seen)) {
			if (seen == l->keep) from = l->at[i].start_s;
			to = l->at[i].end_s, busy += l->at[i].end_s - l->at[i].start_s;
		}
		seen++;
	}
	lk_json_object(r, "middle");
	lk_json_put_integer(r, "start", tick(l, from));
	lk_json_put_integer(r, "length", tick(l, to) - tick(l, from));
	lk_json_put_integer(r, "spans", (long long)(l->lane_count - 2 * l->keep));
	lk_json_put_number(r, "busy", to > from ? busy / (to - from) : 0);
	lk_json_object_end(r);
}

static lk_status put_lane(lk_report *r, const char *name, const struct lane *l, bool chunks, lk_error *err) {
	if (!l->lane_count) return LK_OK;
	lk_json_object(r, NULL);
	lk_json_put_text(r, "name", name);
	if (l->traffic) lk_json_put_bool(r, "minor", true);
	LK_TRY(put_kinds(r, l, err));
	put_column(r, "gap", l, gap_of);
	put_column(r, "length", l, length_of);
	if (!l->traffic) put_column(r, "microbatch", l, microbatch_of);
	if (!l->traffic && chunks) put_column(r, "chunk", l, chunk_of);
	put_middle(r, l);
	lk_json_object_end(r);
	return LK_OK;
}

static lk_status put_stage(lk_report *r, const lk_prediction *p, int stage, size_t begin, size_t end, size_t keep, lk_error *err) {
	static const char *const names[] = {"stage %d", "stage %d, data-parallel"};
	char name[TEXT];
	for (int traffic = 0; traffic < 2; traffic++) {
		struct lane l = {p->detail->spans + begin, end - begin, 0, traffic != 0, keep,
		          p->step_time_s / TICKS};
		for (size_t i = 0; i < l.count; i++) l.lane_count += in_lane(&l, i);
		snprintf(name, sizeof name, names[traffic], stage);
		LK_TRY(put_lane(r, name, &l, p->vp > 1, err));
	}
	return LK_OK;
}

static lk_status put_gantt(lk_report *r, const lk_prediction *p, lk_error *err) {
	static const char *const kinds[LK_SPANS] = {"forward", "backward", "weight", "recompute", "optimizer", "other", "comm"};
	const lk_prediction_detail *d = p->detail;
	int stages = d->stage_count;
	size_t keep = stages ? MOST_SPANS / 2 / (size_t)stages : 0, begin = 0;
	if (!d->span_count || p->step_time_s <= 0) return LK_OK;
	if (keep < LEAST_SPANS) keep = LEAST_SPANS;
	lk_report_panel(r, "gantt", "The pipeline", "one row for each stage: passes of micro-batches on its first rank", true);
	lk_json_put_number(r, "end", p->step_time_s);
	lk_json_put_integer(r, "ticks", TICKS);
	lk_json_array(r, "kinds");
	for (int i = 0; i < LK_SPANS; i++) lk_report_part(r, kinds[i], lk_span_kinds[i]);
	lk_json_array_end(r);
	lk_json_array(r, "lanes");
	for (int s = 0; s < stages; s++) {
		size_t end = begin;
		while (end < d->span_count && d->spans[end].stage == s) end++;
		LK_TRY(put_stage(r, p, s, begin, end, keep, err));
		begin = end;
	}
	lk_json_array_end(r);
	lk_report_panel_end(r);
	return LK_OK;
}

/* ---- stages ---- */

static bool part_used(const lk_prediction_detail *d, int part) {
	for (int s = 0; s < d->stage_count; s++)
		if (d->stages[s].exposed_s[part] > 0) return true;
	return false;
}

static void put_stages(lk_report *r, const lk_prediction *p) {
	const lk_prediction_detail *d = p->detail;
	char name[TEXT];
	lk_report_panel(r, "bars", "Where each stage's time goes", "exposed time of its first rank", true);
	lk_json_put_text(r, "unit", "s");
	lk_json_array(r, "parts");
	for (int k = 0; k < d->part_count; k++) {
		if (!part_used(d, k)) continue;
		lk_report_part(r, d->part_keys[k], d->parts[k]);
	}
	lk_json_array_end(r);
	lk_json_array(r, "rows");
	for (int s = 0; s < d->stage_count; s++) {
		snprintf(name, sizeof name, "stage %d", d->stages[s].stage);
		double values[sizeof d->stages->exposed_s / sizeof(double)];
		int count = 0;
		for (int k = 0; k < d->part_count; k++)
			if (part_used(d, k)) values[count++] = d->stages[s].exposed_s[k];
		lk_report_row(r, name, NULL, values, count);
	}
	lk_json_array_end(r);
	lk_report_panel_end(r);
}

/* ---- collectives ---- */

static void put_messages_of(lk_report *r, const lk_prediction_detail *d, const char *group) {
	char name[TEXT], text[256], bytes[TEXT], time[TEXT];
	snprintf(name, sizeof name, "%s messages of this job", group);
	lk_report_series(r, name, group, false);
	for (int i = 0; i < d->message_count; i++) {
		const lk_detail_message *m = &d->messages[i];
		if (strcmp(m->group, group) != 0 || m->busbw <= 0) continue;
		snprintf(text, sizeof text, "%.60s: %s among %d ranks, %s in %s, %.3g times a step", m->name, m->kind, m->ranks,
		         lk_format_bytes(m->bytes, bytes, sizeof bytes), lk_format_seconds(m->seconds, time, sizeof time), m->count);
		lk_report_point(r, m->bytes, m->busbw, text, NULL);
	}
	lk_report_series_end(r);
}

static bool group_before(const lk_prediction_detail *d, int i) {
	for (int k = 0; k < i; k++)
		if (strcmp(d->messages[k].group, d->messages[i].group) == 0) return true;
	return false;
}

static void put_collectives(lk_report *r, const lk_prediction *p) {
	const lk_prediction_detail *d = p->detail;
	char name[TEXT];
	if (!d->curve_count && !d->message_count) return;
	lk_report_panel(r, "scatter", "Collectives: bus bandwidth over size",
	                "lines: the model for each group of this job; points: what the job sends", false);
	lk_json_put_text(r, "role", "collectives");
	lk_report_axis(r, "x", "size of the message", "B", true);
	lk_report_axis(r, "y", "bus bandwidth, as nccl-tests define it", "B/s", true);
	lk_json_array(r, "series");
	for (int i = 0; i < d->curve_count; i++) {
		const lk_detail_curve *c = &d->curves[i];
		snprintf(name, sizeof name, "%s, %s of %d", c->kind, c->group, c->ranks);
		lk_report_series(r, name, c->group, true);
		for (int k = 0; k < c->count; k++)
			if (c->busbw[k] > 0) lk_report_point(r, c->bytes[k], c->busbw[k], NULL, NULL);
		lk_report_series_end(r);
	}
	for (int i = 0; i < d->message_count; i++)
		if (!group_before(d, i)) put_messages_of(r, d, d->messages[i].group);
	lk_json_array_end(r);
	lk_report_panel_end(r);
}

/* ---- kernels ---- */

static void put_roof(lk_report *r, const lk_prediction_detail *d, double low, double high) {
	double ridge = d->peak_flops / d->memory_rate;
	lk_report_series(r, "roof: memory bandwidth, then dense peak", "roof", true);
	if (low < ridge) lk_report_point(r, low, low * d->memory_rate, NULL, NULL);
	lk_report_point(r, fmax(ridge, low), d->peak_flops, NULL, NULL);
	if (high > ridge) lk_report_point(r, high, d->peak_flops, NULL, NULL);
	lk_report_series_end(r);
}

static bool on_roofline(const lk_detail_kernel *k) { return k->flops > 0 && k->bytes > 0 && k->each_s > 0; }

static void put_roofline(lk_report *r, const lk_prediction *p) {
	const lk_prediction_detail *d = p->detail;
	double low = INFINITY, high = 0;
	char text[256], time[TEXT], all[TEXT];
	for (int i = 0; i < d->kernel_count; i++)
		if (on_roofline(&d->kernels[i])) {
			double x = d->kernels[i].flops / d->kernels[i].bytes;
			low = fmin(low, x), high = fmax(high, x);
		}
	if (high <= 0 || d->peak_flops <= 0 || d->memory_rate <= 0) return;
	lk_report_panel(r, "scatter", "Kernels under their roof", "the costliest products and attention kernels of the step, alone on the device", false);
	lk_json_put_text(r, "role", "roofline");
	lk_report_axis(r, "x", "arithmetic intensity", "FLOP/B", true);
	lk_report_axis(r, "y", "rate", "FLOP/s", true);
	lk_json_array(r, "series");
	put_roof(r, d, low / 4, high * 2);
	lk_report_series(r, "kernels", "gemm", false);
	for (int i = 0; i < d->kernel_count; i++) {
		const lk_detail_kernel *k = &d->kernels[i];
		if (!on_roofline(k)) continue;
		snprintf(text, sizeof text, "%.60s: %s each, %.4g times a step, %s together, %.0f %% of the peak", k->name,
		         lk_format_seconds(k->each_s, time, sizeof time), k->count, lk_format_seconds(k->seconds, all, sizeof all),
		         100 * k->flops / k->each_s / d->peak_flops);
		lk_report_point(r, k->flops / k->bytes, k->flops / k->each_s, text, NULL);
	}
	lk_report_series_end(r);
	lk_json_array_end(r);
	lk_report_panel_end(r);
}

static lk_status put_kernels(lk_report *r, const lk_prediction *p, lk_error *err) {
	static const lk_column columns[] = {
		{"kernel", "kernel", false, false}, {"family", "kind", false, false}, {"count", "per step", true, false},
		{"each_s", "each", true, false}, {"seconds", "together", true, false}, {"share", "of step", true, false},
		{"flops_per_s", "TFLOP/s", true, false},
	};
	const lk_prediction_detail *d = p->detail;
	char text[TEXT];
	lk_table *t = lk_table_new("kernels", columns, 7);
	for (int i = 0; t && i < d->kernel_count; i++) {
		const lk_detail_kernel *k = &d->kernels[i];
		lk_table_row(t);
		lk_table_text(t, k->name);
		lk_table_text(t, k->family);
		lk_table_number(t, k->count, lk_format_thousands(k->count, text, sizeof text));
		lk_table_number(t, k->each_s, lk_format_seconds(k->each_s, text, sizeof text));
		lk_table_number(t, k->seconds, lk_format_seconds(k->seconds, text, sizeof text));
		lk_table_number(t, k->seconds / p->step_time_s, lk_percent(k->seconds / p->step_time_s, text, sizeof text));
		if (k->flops > 0) lk_table_number(t, k->flops / k->each_s, lk_fixed(k->flops / k->each_s / 1e12, 1, text, sizeof text));
		else lk_table_number(t, NAN, NULL);
	}
	return lk_report_table(r, "Kernels", "of one rank, mean over the stages, alone on the device", true, t, 0, err);
}

lk_status lk_report_pipeline(lk_report *r, const lk_prediction *p, lk_error *err) {
	LK_TRY(put_gantt(r, p, err));
	put_stages(r, p);
	put_collectives(r, p);
	put_roofline(r, p);
	return put_kernels(r, p, err);
}
