/* timeline.c: events to slices. One process per recorded rank, one thread per stream; micro-batch and layer come from
 * the call that an operation belongs to; an arrow leads from each send to its receive; memory is counted behind every
 * call. */
#include "step/step.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct lk_drawing {
	const lk_step *step;
	lk_timeline *out;
	uint32_t *track; /* [records * LK_STREAMS] id + 1 */
	struct arrow {
		uint32_t record, channel, number, slice;
		bool send;
	} * arrows;
	size_t arrow_count, arrow_capacity;
	lk_error *err;
};

static uint32_t name_of(struct lk_drawing *d, const lk_graph *graph, uint32_t id) {
	return lk_intern_id(d->out->names, lk_intern_text(graph->names, id));
}

static uint32_t stage_of(const struct lk_drawing *d, uint32_t record) {
	return lk_rank_stage(d->step->graph, d->step->record[record]);
}

/* The name that the trace has for it, or what streams of predictions are called. */
static const char *stream_name(const lk_graph *graph, uint32_t stage, unsigned stream, char out[24]) {
	uint32_t name = graph->programs.at[stage].stream_names[stream];
	if (name) return lk_intern_text(graph->names, name);
	if (!graph->traced) return lk_stream_label(stream);
	snprintf(out, 24, "stream %u", stream);
	return out;
}

static lk_status track_of(struct lk_drawing *d, uint32_t record, unsigned stream, uint32_t *track) {
	uint32_t *known = &d->track[record * LK_STREAMS + stream];
	if (!*known) {
		const lk_graph *graph = d->step->graph;
		uint32_t rank = d->step->record[record], lane = d->step->sim.lane_of[lk_rank_chain(graph, rank)];
		char process[96], name[24];
		if (graph->traced)
			snprintf(process, sizeof process, "rank %u (stands for %u ranks)", rank, d->step->sim.lane_ranks[lane]);
		else
			snprintf(process, sizeof process, "rank %u, stage %u (stands for %u ranks)", rank, lk_rank_stage(graph, rank),
					 d->step->sim.lane_ranks[lane]);
		if (!lk_push(&d->out->tracks)) return lk_oom(d->err);
		*lk_last(&d->out->tracks) = (lk_track){
			.rank = (int32_t)rank,
			.ranks = (int32_t)d->step->sim.lane_ranks[lane],
			.process = lk_intern_id(d->out->names, process),
			.name = lk_intern_id(d->out->names, stream_name(graph, stage_of(d, record), stream, name)),
		};
		*known = (uint32_t)d->out->tracks.count;
	}
	*track = *known - 1;
	return LK_OK;
}

static lk_status add_slice(struct lk_drawing *d, uint32_t record, const lk_graph *graph, uint32_t op, const lk_call *call,
						   uint32_t repetition, int64_t start, int64_t end) {
	const lk_ops *ops = &graph->ops;
	uint32_t track = 0;
	if (ops->kind[op] == LK_OP_WAIT) return LK_OK;
	LK_TRY(track_of(d, record, ops->stream[op], &track));
	if (!lk_push(&d->out->slices)) return lk_oom(d->err);
	int layer = call->layer;
	if (layer >= 0) layer += call->pass == LK_PHASE_FORWARD ? (int)repetition : -(int)repetition;
	*lk_last(&d->out->slices) = (lk_slice){
		.track = track,
		.name = name_of(d, graph, ops->name[op]),
		.category = lk_intern_id(d->out->names, lk_op_kind_name(ops->kind[op])),
		.microbatch = call->microbatch,
		.layer = layer,
		.start_ps = start,
		.end_ps = end,
		.bytes = lk_op_is_comm(ops->kind[op]) ? ops->bytes[op] : 0,
		.flops = ops->flops[op],
	};
	return LK_OK;
}

static lk_status add_arrow_end(struct lk_drawing *d, const lk_graph *graph, const lk_sim_event *e) {
	unsigned kind = graph->ops.kind[e->op];
	if (kind != LK_OP_SEND && kind != LK_OP_RECV) return LK_OK;
	if (d->arrow_count == d->arrow_capacity) {
		size_t capacity = d->arrow_capacity ? d->arrow_capacity * 2 : 256;
		struct arrow *grown = realloc(d->arrows, capacity * sizeof *grown);
		if (!grown) return lk_oom(d->err);
		d->arrows = grown, d->arrow_capacity = capacity;
	}
	d->arrows[d->arrow_count++] = (struct arrow){
		.record = e->record,
		.channel = (uint32_t)graph->ops.channel[e->op],
		.slice = (uint32_t)d->out->slices.count - 1,
		.send = kind == LK_OP_SEND,
	};
	return LK_OK;
}

/* One window of an isolated run, laid into the time that the macro operation took here. */
static lk_status draw_window(struct lk_drawing *d, const lk_sim_event *e, const lk_call *outer, const lk_fold_window *w,
							 double scale) {
	const lk_fold *fold = d->step->fold;
	const struct lk_fold_span *span = &fold->span[e->op];
	lk_call call = span->part ? *outer : d->step->graph->programs.at[span->stage].calls.at[w->call];
	call.microbatch = outer->microbatch;
	for (uint32_t i = span->sample_begin; i < span->sample_end; i++) {
		const lk_sim_event *s = &fold->samples.at[i];
		if (s->call != w->call || s->repetition != w->repetition) continue;
		int64_t start = e->start_ps + (int64_t)((double)(s->start_ps + w->shift_ps) * scale);
		int64_t end = e->start_ps + (int64_t)((double)(s->end_ps + w->shift_ps) * scale);
		if (end > e->end_ps) end = e->end_ps;
		if (start < end) LK_TRY(add_slice(d, e->record, d->step->graph, s->op, &call, span->part ? e->repetition : s->repetition, start, end));
	}
	return LK_OK;
}

/* The isolated run of a macro operation: of each call the first repetition, in its place. Its waiting is left out. */
static lk_status draw_inside(struct lk_drawing *d, const lk_sim_event *e, const lk_call *outer) {
	lk_fold_windows windows = {0};
	double whole = 0;
	lk_status status = lk_fold_windows_of(d->step->graph, d->step->fold, e->op, &windows, d->err);
	for (size_t i = 0; i < windows.count; i++)
		whole += windows.at[i].times * (double)(windows.at[i].end_ps - windows.at[i].begin_ps);
	for (size_t i = 0; i < windows.count && status == LK_OK && whole > 0; i++)
		if (windows.at[i].repetition == 0)
			status = draw_window(d, e, outer, &windows.at[i], (double)(e->end_ps - e->start_ps) / whole);
	lk_vec_free(&windows);
	return status;
}

static lk_status draw_event(struct lk_drawing *d, const lk_sim_event *e) {
	const lk_graph *graph = lk_step_simulated(d->step);
	const lk_call *call = &graph->programs.at[stage_of(d, e->record)].calls.at[e->call];
	if (graph->ops.kind[e->op] == LK_OP_WAIT) return LK_OK;
	LK_TRY(add_slice(d, e->record, graph, e->op, call, e->repetition, e->start_ps, e->end_ps));
	LK_TRY(add_arrow_end(d, graph, e));
	return graph->ops.kind[e->op] == LK_OP_MACRO ? draw_inside(d, e, call) : LK_OK;
}

/* The k-th send on a channel meets the k-th receive on the wired one. Both ends must be recorded, chains alike. */
static lk_status draw_arrows(struct lk_drawing *d) {
	const lk_graph *graph = d->step->graph;
	uint32_t chains = graph->ranks.chains, channels = graph->channels, records = d->step->record_count;
	if (d->arrow_count == 0) return LK_OK;
	uint32_t *count = calloc((size_t)records * channels, sizeof *count);
	if (!count) return lk_oom(d->err);
	for (size_t i = 0; i < d->arrow_count; i++)
		d->arrows[i].number = count[d->arrows[i].record * channels + d->arrows[i].channel]++;
	free(count);
	/* receives by (record, channel, number) */
	uint32_t most = 0;
	for (size_t i = 0; i < d->arrow_count; i++)
		if (d->arrows[i].number >= most) most = d->arrows[i].number + 1;
	size_t cells = (size_t)records * channels * most;
	uint32_t *slice = cells < 200000000 ? calloc(cells, sizeof *slice) : NULL;
	if (!slice) return lk_oom(d->err);
	for (size_t i = 0; i < d->arrow_count; i++) {
		const struct arrow *a = &d->arrows[i];
		if (!a->send) slice[((size_t)a->record * channels + a->channel) * most + a->number] = a->slice + 1;
	}
	lk_status status = LK_OK;
	for (size_t i = 0; i < d->arrow_count && status == LK_OK; i++) {
		const struct arrow *a = &d->arrows[i];
		if (!a->send) continue;
		lk_wire peer = graph->wires.at[(size_t)stage_of(d, a->record) * channels + a->channel];
		for (uint32_t r = 0; r < records; r++) {
			if (stage_of(d, r) != peer.stage || d->step->record[r] % chains != d->step->record[a->record] % chains)
				continue;
			uint32_t to = slice[((size_t)r * channels + peer.channel) * most + a->number];
			if (!to) continue;
			if (lk_push(&d->out->flows))
				*lk_last(&d->out->flows) = (lk_flow){a->slice, to - 1};
			else
				status = lk_oom(d->err);
		}
	}
	free(slice);
	return status;
}

/* Memory behind every call of the source program, at the time when the calls it was folded into ended. */
static lk_status draw_memory(struct lk_drawing *d, uint32_t record, const lk_sim_event *events, size_t count) {
	const lk_step *step = d->step;
	uint32_t stage = stage_of(d, record);
	size_t calls = step->graph->programs.at[stage].calls.count;
	double *after = calloc(calls + 1, sizeof *after), *highest = calloc(calls + 1, sizeof *highest);
	lk_status status = after && highest ? LK_OK : lk_oom(d->err);
	uint32_t allocated = lk_intern_id(d->out->names, "memory allocated");
	if (status == LK_OK) lk_memory_series(step->graph, stage, after, highest);
	for (size_t i = 0; i < count && status == LK_OK; i++) {
		const lk_sim_event *e = &events[i];
		if (i + 1 < count && events[i + 1].call == e->call) continue; /* the last event of a call stands for it */
		uint32_t first = e->call, call = first;
		if (step->fold) {
			const struct lk_fold_span *span = &step->fold->span[e->op];
			first = step->fold->source_call[stage][e->call];
			call = span->call_end > span->call_begin ? first + (span->call_end - span->call_begin) - 1 : first;
		}
		double top = 0;
		for (uint32_t c = first; c <= call && c < calls; c++)
			if (highest[c] > top) top = highest[c];
		for (int point = 0; point < 2 && status == LK_OK; point++) {
			if (!lk_push(&d->out->counters))
				status = lk_oom(d->err);
			else
				*lk_last(&d->out->counters) =
					(lk_counter){.rank = (int32_t)step->record[record],
								 .name = allocated,
								 .time_ps = point ? e->end_ps : e->start_ps + (e->end_ps - e->start_ps) / 2,
								 .value = point ? after[call] : top};
		}
	}
	free(after);
	free(highest);
	return status;
}

static lk_status draw(struct lk_drawing *d) {
	const lk_sim_events *events = &d->step->sim.events;
	for (size_t i = 0; i < events->count; i++) LK_TRY(draw_event(d, &events->at[i]));
	LK_TRY(draw_arrows(d));
	size_t begin = 0;
	for (uint32_t r = 0; r < d->step->record_count; r++) {
		size_t end = begin;
		while (end < events->count && events->at[end].record == r) end++;
		LK_TRY(draw_memory(d, r, events->at + begin, end - begin));
		begin = end;
	}
	return LK_OK;
}

lk_status lk_step_timeline(const lk_step *step, lk_timeline **out, lk_error *err) {
	struct lk_drawing d = {.step = step, .err = err};
	*out = d.out = lk_timeline_new();
	d.track = calloc((size_t)step->record_count * LK_STREAMS, sizeof *d.track);
	lk_status status = d.out && d.track ? draw(&d) : lk_oom(err);
	free(d.track);
	free(d.arrows);
	if (status != LK_OK) {
		lk_timeline_free(d.out);
		*out = NULL;
	}
	return status;
}
