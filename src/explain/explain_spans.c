/* explain_spans.c: what devices did in one step, as spans for a picture. Work of one sort that lies
 * closer together than can be seen is one span. */
#include <stdlib.h>

#include "base/sort.h"
#include "explain/explain.h"

enum { RANKS = 8, FINEST = 4000 /* of a step: smaller gaps are closed */ };

const char *const lk_explain_sorts[] = {"forward",   "backward",      "recompute", "optimizer",
                                        "computing", "communication", "copies"};
enum { SORT_OTHER = LK_EXPLAIN_PHASES - 1, SORT_COMMUNICATION, SORT_COPIES };

typedef LK_VEC(lk_explain_span) explain_spans;

/* A piece of work in a step. */
struct piece {
	int64_t start, end;
	uint32_t event;
	int sort;
};
typedef LK_VEC(struct piece) pieces;
LK_ORDER_BY(pieces_by_start, struct piece, start, event)

static bool spans_communicate(const lk_capture *capture, uint32_t event) {
	unsigned kind;
	const lk_kind_note *note = lk_capture_kind(capture, event);
	if (note) return lk_op_is_comm(note->kind);
	return lk_work_communicates(capture, event) || lk_capture_comm(capture, event) ||
	       lk_comm_kernel(lk_capture_text(capture, capture->name[event]), &kind);
}

static int sort_of_phase(uint8_t phase) {
	switch (phase) {
	case LK_PHASE_FORWARD: return 0;
	case LK_PHASE_BACKWARD:
	case LK_PHASE_WEIGHT: return 1;
	case LK_PHASE_RECOMPUTE: return 2;
	case LK_PHASE_OPTIMIZER: return 3;
	default: return SORT_OTHER;
	}
}

/* Collect the work of a step, times on the capture's clock, in order. */
static lk_status spans_collect(const lk_capture *capture, int64_t from, int64_t to, pieces *out,
                               lk_error *err) {
	uint8_t last = LK_PHASE_OTHER;
	for (uint32_t i = 0; i < capture->count; i++) {
		int64_t start = capture->start_ns[i], end = lk_event_end(capture, i);
		if (!lk_event_on_device(capture->kind[i]) || end <= from || start >= to) continue;
		if (!lk_push(out)) return lk_oom(err);
		if (start < from) start = from;
		if (end > to) end = to;
		*lk_last(out) = (struct piece){start, end, i, 0};
	}
	lk_sort(out->at, out->count, sizeof *out->at, pieces_by_start);
	for (size_t i = 0; i < out->count; i++) {
		struct piece *piece = &out->at[i];
		if (capture->kind[piece->event] != LK_EVENT_KERNEL) piece->sort = SORT_COPIES;
		else if (spans_communicate(capture, piece->event)) piece->sort = SORT_COMMUNICATION;
		else piece->sort = sort_of_phase(lk_event_phase(capture, piece->event, &last));
	}
	return LK_OK;
}

/* Computation, communication and copies are a lane each. */
static int lane_of(int sort) {
	return sort < LK_EXPLAIN_PHASES ? 0 : sort;
}

/* Add the spans of one lane: work of one sort that lies close together is one. */
static lk_status spans_of_lane(const pieces *all, int rank, int lane, int64_t from, int64_t to,
                               explain_spans *out, lk_error *err) {
	const double ns = 1e-9, closed = (double)(to - from) * ns / FINEST;
	lk_explain_span *open = NULL;
	for (size_t i = 0; i < all->count; i++) {
		const struct piece *piece = &all->at[i];
		double start = (double)(piece->start - from) * ns, end = (double)(piece->end - from) * ns;
		if (lane_of(piece->sort) != lane) continue;
		if (open &&
		    (end <= open->end_s || (piece->sort == open->sort && start <= open->end_s + closed))) {
			if (end > open->end_s) open->end_s = end;
			continue;
		}
		if (open && start < open->end_s) start = open->end_s;
		if (!lk_push(out)) return lk_oom(err);
		open = lk_last(out);
		*open = (lk_explain_span){rank, piece->sort, start, end};
	}
	return LK_OK;
}

/* The row of a rank's step that the critical path is of; its first one where it lacks that. */
static const lk_explain_step *step_of_rank(const lk_explanation *explanation, int rank) {
	const lk_explain_step *first = NULL;
	for (int i = 0; i < explanation->step_rows; i++) {
		const lk_explain_step *step = &explanation->steps[i];
		if (step->rank != rank) continue;
		if (!first) first = step;
		if (step->number == explanation->critical.step) return step;
	}
	return first;
}

static lk_status spans_of_rank(const lk_explanation *explanation, uint32_t capture,
                               explain_spans *out, lk_error *err) {
	const lk_traces *traces = lk_explain_traces(explanation);
	const lk_capture *of = traces->capture[capture];
	const lk_explain_step *step = step_of_rank(explanation, of->rank);
	if (!step) return LK_OK;
	pieces all = {0};
	int64_t from = step->start_ns - lk_common_ns(traces, capture, 0), to = from + step->dur_ns;
	lk_status status = spans_collect(of, from, to, &all, err);
	const int lanes[] = {0, SORT_COMMUNICATION, SORT_COPIES};
	for (size_t i = 0; i < sizeof lanes / sizeof *lanes && status == LK_OK; i++)
		status = spans_of_lane(&all, of->rank, lanes[i], from, to, out, err);
	lk_vec_free(&all);
	return status;
}

lk_status lk_explain_spans(const lk_explanation *explanation, lk_explain_span **out, int *count,
                           lk_error *err) {
	explain_spans spans = {0};
	lk_status status = LK_OK;
	/* An explanation that a caller made has no traces. */
	const lk_traces *traces =
		explanation->memory_owner ? lk_explain_traces(explanation) : &(lk_traces){0};
	uint32_t shown = 0;
	for (uint32_t c = 0; c < traces->count && shown < RANKS && status == LK_OK; c++) {
		size_t before = spans.count;
		status = spans_of_rank(explanation, c, &spans, err);
		shown += spans.count > before;
	}
	if (status != LK_OK) lk_vec_free(&spans);
	*out = spans.at;
	*count = (int)spans.count;
	return status;
}
