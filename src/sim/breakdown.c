/* breakdown.c: split a rank's time. While a compute kernel runs, its family gets the time, and
 * communication that overlaps with it is hidden. While none runs, the time goes to the first of: a
 * transfer in progress (tensor, context, expert, data parallel, pipeline, in this order), the host,
 * waiting for other ranks at a rendezvous, the pipeline's bubble. */
#include "sim/breakdown.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/intervals.h"
#include "base/units.h"

static const char *const keys[LK_PART_COUNT] = {
#define LK_PART_KEY(symbol, key, label) key,
	LK_PARTS(LK_PART_KEY)};
static const char *const labels[LK_PART_COUNT] = {
#define LK_PART_LABEL(symbol, key, label) label,
	LK_PARTS(LK_PART_LABEL)};

const char *lk_part_key(lk_part part) {
	return keys[part];
}
const char *lk_part_label(lk_part part) {
	return labels[part];
}

lk_part lk_part_of_kind(unsigned kind) {
	switch (kind) {
	case LK_OP_GEMM:
	case LK_OP_GROUPED_GEMM: return LK_PART_GEMM;
	case LK_OP_ATTENTION:
	case LK_OP_ATTENTION_BWD:
	case LK_OP_SCAN:
	case LK_OP_SCAN_BWD:
	case LK_OP_SOFTMAX: return LK_PART_ATTENTION;
	case LK_OP_CONV: return LK_PART_CONV;
	case LK_OP_OPTIMIZER: return LK_PART_OPTIMIZER;
	default: return LK_PART_MEMORY;
	}
}

static lk_part part_of_op(const lk_ops *ops, uint32_t op) {
	unsigned kind = ops->kind[op];
	if (ops->phase[op] == LK_PHASE_OPTIMIZER && kind == LK_OP_GEMM) return LK_PART_OPTIMIZER;
	/* a scan without products is the convolution before it, a pass over memory */
	bool scans = kind == LK_OP_SCAN || kind == LK_OP_SCAN_BWD;
	return scans && ops->flops[op] == 0 ? LK_PART_MEMORY : lk_part_of_kind(kind);
}

static lk_part part_of_stream(unsigned stream) {
	switch (stream) {
	case LK_STREAM_TP: return LK_PART_TP;
	case LK_STREAM_CP: return LK_PART_CP;
	case LK_STREAM_EP: return LK_PART_EP;
	case LK_STREAM_DP: return LK_PART_DP;
	case LK_STREAM_COPY:
	case LK_STREAM_COPY_BACK: return LK_PART_COPY;
	default: return LK_PART_PP;
	}
}

/* A rank's activity, as sets of times. */
typedef struct lk_activity {
	lk_intervals busy;                /* compute kernels */
	lk_intervals comm[LK_PART_COUNT]; /* transfers in progress */
	lk_intervals waiting, pending,
		host; /* arrived at a rendezvous: of collectives, of the pipeline */
	lk_intervals scratch;
} lk_activity;

static void activity_clear(lk_activity *activity) {
	lk_vec_free(&activity->busy);
	for (int p = 0; p < LK_PART_COUNT; p++) lk_vec_free(&activity->comm[p]);
	lk_vec_free(&activity->waiting);
	lk_vec_free(&activity->pending);
	lk_vec_free(&activity->host);
	lk_vec_free(&activity->scratch);
}

static bool activity_note(lk_activity *activity, const lk_graph *graph, const lk_sim_event *event,
                          lk_breakdown *out) {
	unsigned kind = graph->ops.kind[event->op], stream = graph->ops.stream[event->op];
	if (lk_op_is_comm(kind) || stream == LK_STREAM_COPY || stream == LK_STREAM_COPY_BACK) {
		lk_part part = part_of_stream(stream);
		lk_intervals *idle = part == LK_PART_PP ? &activity->pending : &activity->waiting;
		return lk_intervals_add(&activity->comm[part], event->start_ps, event->end_ps) &&
		       lk_intervals_add(idle, event->ready_ps, event->start_ps);
	}
	if (kind == LK_OP_HOST)
		return lk_intervals_add(&activity->host, event->start_ps, event->end_ps);
	if (kind == LK_OP_WAIT) return true;
	if (kind != LK_OP_MACRO)
		out->exposed_s[part_of_op(&graph->ops, event->op)] +=
			(double)(event->end_ps - event->start_ps) / LK_PS_PER_S;
	return lk_intervals_add(&activity->busy, event->start_ps, event->end_ps);
}

/* Move the part of `idle` that `set` explains to `seconds`; *rest_ps: the part of the set that was
 * not idle. */
static bool activity_explain(lk_activity *activity, lk_intervals *idle, lk_intervals *set,
                             double *seconds, int64_t *rest_ps) {
	lk_intervals_sort(set); /* count overlapping transfers once, explained or not */
	*rest_ps = lk_intervals_length(set);
	if (set->count == 0 || idle->count == 0) return true;
	if (!lk_intervals_minus(idle, set, &activity->scratch)) return false;
	int64_t taken_ps = lk_intervals_length(idle) - lk_intervals_length(&activity->scratch);
	*seconds += (double)taken_ps / LK_PS_PER_S;
	*rest_ps -= taken_ps;
	lk_intervals rest = activity->scratch;
	activity->scratch = *idle;
	*idle = rest;
	return true;
}

static bool activity_split_idle(lk_activity *activity, int64_t span, bool pipeline,
                                lk_breakdown *out) {
	static const lk_part order[] = {LK_PART_TP, LK_PART_CP,   LK_PART_EP,
	                                LK_PART_DP, LK_PART_COPY, LK_PART_PP};
	lk_intervals idle = {0}, all = {0};
	int64_t hidden_ps;
	bool ok = lk_intervals_add(&all, 0, span);
	lk_intervals_sort(&activity->busy);
	ok = ok && lk_intervals_minus(&all, &activity->busy, &idle);
	for (size_t i = 0; ok && i < sizeof order / sizeof *order; i++) {
		ok = activity_explain(activity, &idle, &activity->comm[order[i]], &out->exposed_s[order[i]],
		                      &hidden_ps);
		if (ok) out->hidden_s[order[i]] += (double)hidden_ps / LK_PS_PER_S;
	}
	ok = ok && activity_explain(activity, &idle, &activity->host, &out->exposed_s[LK_PART_HOST],
	                            &hidden_ps);
	ok = ok && activity_explain(activity, &idle, &activity->waiting, &out->exposed_s[LK_PART_WAIT],
	                            &hidden_ps);
	ok = ok && activity_explain(activity, &idle, &activity->pending,
	                            &out->exposed_s[LK_PART_BUBBLE], &hidden_ps);
	if (ok)
		out->exposed_s[pipeline ? LK_PART_BUBBLE : LK_PART_HOST] +=
			(double)lk_intervals_length(&idle) / LK_PS_PER_S;
	lk_vec_free(&idle);
	lk_vec_free(&all);
	return ok;
}

/* The split of the isolated run of each macro operation, computed when first needed. */
typedef struct lk_inside {
	lk_breakdown split;
	double span_s;
	bool known;
} lk_inside;

static int64_t window_time(int64_t time, const lk_fold_window *window) {
	if (time < window->begin_ps) return 0;
	return (time < window->end_ps ? time : window->end_ps) - window->begin_ps;
}

/* The events in one window, with times relative to its beginning. */
static size_t window_clip(const lk_fold_span *span, const lk_fold *fold,
                          const lk_fold_window *window, lk_sim_event *out) {
	size_t count = 0;
	for (uint32_t i = span->sample_begin; i < span->sample_end; i++) {
		const lk_sim_event *event = &fold->samples.at[i];
		if (event->end_ps <= window->begin_ps || event->ready_ps >= window->end_ps) continue;
		out[count] = *event;
		out[count].ready_ps = window_time(event->ready_ps, window);
		out[count].start_ps = window_time(event->start_ps, window);
		out[count++].end_ps = window_time(event->end_ps, window);
	}
	return count;
}

static lk_status inside_split_windows(lk_inside *inside, const lk_fold *fold,
                                      const lk_graph *source, const lk_fold_span *span,
                                      const lk_fold_windows *windows, lk_error *err) {
	lk_sim_event *events = malloc((span->sample_end - span->sample_begin + 1) * sizeof *events);
	lk_status status = events ? LK_OK : lk_oom(err);
	for (size_t i = 0; i < windows->count && status == LK_OK; i++) {
		const lk_fold_window *window = &windows->at[i];
		lk_breakdown one;
		size_t count = window_clip(span, fold, window, events);
		status = lk_breakdown_of(source, NULL, NULL, events, count,
		                         window->end_ps - window->begin_ps, false, &one, err);
		for (int p = 0; p < LK_PART_COUNT && status == LK_OK; p++) {
			inside->split.exposed_s[p] += window->times * one.exposed_s[p];
			inside->split.hidden_s[p] += window->times * one.hidden_s[p];
		}
		inside->span_s += window->times * (double)(window->end_ps - window->begin_ps) / LK_PS_PER_S;
	}
	free(events);
	return status;
}

static lk_status inside_add(lk_inside *inside, const lk_fold *fold, const lk_graph *source,
                            const lk_sim_event *event, lk_breakdown *out, lk_error *err) {
	if (!inside->known) {
		lk_fold_windows windows = {0};
		lk_status status = lk_fold_windows_of(source, fold, event->op, &windows, err);
		if (status == LK_OK)
			status =
				inside_split_windows(inside, fold, source, &fold->span[event->op], &windows, err);
		lk_vec_free(&windows);
		LK_TRY(status);
		inside->known = true;
	}
	double span_s = (double)(event->end_ps - event->start_ps) / LK_PS_PER_S,
		   scale = inside->span_s > 0 ? span_s / inside->span_s : 0,
		   host_s = scale * inside->split.exposed_s[LK_PART_HOST],
		   works_s = inside->span_s - inside->split.exposed_s[LK_PART_HOST];
	/* times are whole picoseconds */
	if (fold->alone && works_s > 0 && works_s <= span_s * (1 + 1e-6)) {
		scale = fmin(1, span_s / works_s);
		host_s = fmax(0, span_s - works_s);
	}
	for (int p = 0; p < LK_PART_COUNT; p++) {
		out->exposed_s[p] += p == LK_PART_HOST ? host_s : scale * inside->split.exposed_s[p];
		out->hidden_s[p] += scale * inside->split.hidden_s[p];
	}
	return LK_OK;
}

lk_status lk_breakdown_of(const lk_graph *graph, const lk_fold *fold, const lk_graph *source,
                          const lk_sim_event *events, size_t count, int64_t span_ps, bool pipeline,
                          lk_breakdown *out, lk_error *err) {
	lk_activity activity = {0};
	lk_status status = LK_OK;
	lk_inside *inside = fold ? calloc(graph->ops.count + 1, sizeof *inside) : NULL;
	memset(out, 0, sizeof *out);
	if (fold && !inside) return lk_oom(err);
	for (size_t i = 0; i < count && status == LK_OK; i++) {
		if (!activity_note(&activity, graph, &events[i], out)) status = lk_oom(err);
		else if (fold && graph->ops.kind[events[i].op] == LK_OP_MACRO)
			status = inside_add(&inside[events[i].op], fold, source, &events[i], out, err);
	}
	if (status == LK_OK && !activity_split_idle(&activity, span_ps, pipeline, out))
		status = lk_oom(err);
	activity_clear(&activity);
	free(inside);
	return status;
}
