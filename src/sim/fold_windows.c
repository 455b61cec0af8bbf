/* fold_windows.c: the isolated run of a folded stretch of calls, taken apart again call by call. */
#include "sim/sim.h"

static lk_status open_window(lk_fold_windows *out, size_t first, const lk_sim_event *e,
                             lk_error *err) {
	int64_t begin = out->count == first ? 0 : e->start_ps;
	if (out->count > first) lk_last(out)->end_ps = begin;
	if (!lk_push(out)) return lk_oom(err);
	*lk_last(out) = (lk_fold_window){.call = e->call,
	                                 .repetition = e->repetition,
	                                 .begin_ps = begin,
	                                 .end_ps = begin,
	                                 .times = 1};
	return LK_OK;
}

/* Repeats that were cut short: the window before the last of a call is in the steady state and
 * stands for the rest. */
static void stretch(const lk_program *program, lk_fold_window *window, size_t count) {
	int64_t shift = 0;
	for (size_t i = 0; i < count;) {
		size_t ran = 1;
		while (i + ran < count && window[i + ran].call == window[i].call) ran++;
		size_t steady = ran >= 2 ? i + ran - 2 : i;
		for (size_t k = i; k <= steady; k++) window[k].shift_ps = shift;
		uint32_t repeat = program->calls.at[window[i].call].repeat;
		if (repeat > ran) {
			window[steady].times += (double)(repeat - ran);
			shift += (int64_t)(repeat - ran) * (window[steady].end_ps - window[steady].begin_ps);
		}
		for (size_t k = steady + 1; k < i + ran; k++) window[k].shift_ps = shift;
		i += ran;
	}
}

lk_status lk_fold_windows_of(const lk_graph *source, const lk_fold *fold, uint32_t op,
                             lk_fold_windows *out, lk_error *err) {
	const struct lk_fold_span *span = &fold->span[op];
	size_t first = out->count;
	int64_t end = 0;
	for (uint32_t i = span->sample_begin; i < span->sample_end; i++) {
		const lk_sim_event *e = &fold->samples.at[i];
		if (e->end_ps > end) end = e->end_ps;
		if (source->ops.stream[e->op] != LK_STREAM_COMPUTE) continue;
		if (out->count > first && lk_last(out)->call == e->call &&
		    lk_last(out)->repetition == e->repetition)
			continue;
		LK_TRY(open_window(out, first, e, err));
	}
	if (out->count == first) return LK_OK;
	lk_last(out)->end_ps = end;
	if (!span->part)
		stretch(&source->programs.at[span->stage], out->at + first, out->count - first);
	return LK_OK;
}
