/* detail_spans.c: the pipeline as spans: the passes on the first rank of each stage. Operations of
 * one pass of one micro-batch through one chunk are one span; data-parallel traffic has separate
 * spans. */
#include "base/arena.h"
#include "predict/predict_internal.h"

#include "base/units.h"

const char *const lk_span_kinds[LK_SPANS + 1] = {
	"forward",
	"backward",
	"weight gradient",
	"recompute",
	"optimizer",
	"other",
	"data-parallel communication",
	NULL,
};
_Static_assert((int)LK_SPAN_WEIGHT == (int)LK_PHASE_WEIGHT &&
                   (int)LK_SPAN_OTHER == (int)LK_PHASE_OTHER,
               "spans are phases");

typedef LK_VEC(lk_detail_span) span_list;

/* Whether `next` continues `last`: the same pass, without a visible wait in between. */
static bool continues(const lk_detail_span *last, const lk_detail_span *next, double step_s) {
	return last->stage == next->stage && last->kind == next->kind &&
	       last->microbatch == next->microbatch && last->chunk == next->chunk &&
	       next->kind != LK_SPAN_COMM && next->start_s - last->end_s < 0.002 * step_s;
}

static bool add_event(span_list *list, size_t *open, const lk_step *step, const lk_sim_event *event,
                      double scale) {
	const lk_graph *graph = lk_step_simulated(step);
	unsigned kind = graph->ops.kind[event->op], stream = graph->ops.stream[event->op];
	uint32_t stage = lk_rank_stage(step->graph, step->record[event->record]);
	bool traffic = lk_op_is_comm(kind) && stream == LK_STREAM_DP;
	if (kind == LK_OP_WAIT || (!traffic && (lk_op_is_comm(kind) || stream != LK_STREAM_COMPUTE)))
		return true;
	const lk_call *call = &graph->programs.at[stage].calls.at[event->call];
	lk_detail_span span = {
		.stage = (int32_t)stage,
		.microbatch = call->microbatch,
		.chunk = call->chunk,
		.kind = call->pass <= LK_PHASE_OTHER ? call->pass : LK_SPAN_OTHER,
		.start_s = scale * (double)event->start_ps / LK_PS_PER_S,
		.end_s = scale * (double)event->end_ps / LK_PS_PER_S,
	};
	if (traffic) span.kind = LK_SPAN_COMM;
	if (*open < list->count && continues(&list->at[*open], &span, scale * step->step_s)) {
		list->at[*open].end_s = span.end_s;
		return true;
	}
	if (!lk_push(list)) return false;
	if (!traffic) *open = list->count - 1;
	*lk_last(list) = span;
	return true;
}

lk_status lk_detail_spans(lk_arena *arena, const lk_step *step, double scale,
                          lk_prediction_detail *out, lk_error *err) {
	span_list list = {0};
	size_t open = SIZE_MAX;
	bool room = true;
	for (size_t i = 0; i < step->sim.events.count && room; i++) {
		const lk_sim_event *event = &step->sim.events.at[i];
		if (event->record < step->graph->ranks.stages)
			room = add_event(&list, &open, step, event, scale);
	}
	lk_detail_span *spans = room ? LK_ARRAY(arena, lk_detail_span, list.count) : NULL;
	for (size_t i = 0; spans && i < list.count; i++) spans[i] = list.at[i];
	out->spans = spans, out->span_count = spans ? list.count : 0;
	lk_vec_free(&list);
	return spans ? LK_OK : lk_oom(err);
}
