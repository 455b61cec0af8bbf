/* timeline.c: events to slices. One process per recorded rank, one thread per stream; micro-batch
 * and layer come from an operation's call; an arrow leads from each send to its receive; memory is
 * counted after every call. */
#include "step/step.h"
#include "base/check.h"
#include "base/noun.h"

#include <stdio.h>
#include <stdlib.h>

struct lk_drawing {
	const lk_step *step;
	lk_timeline *out;
	lk_op_time *sums[2]; /* as `name`: add operations to these instead of drawing them */
	uint32_t *track;     /* [records * LK_STREAMS] id + 1 */
	struct arrow {
		uint32_t record, channel, number, slice;
		bool send;
	} * arrows;
	size_t arrow_count, arrow_capacity;
	/* 1 + what the texts of an operation are interned as; 0: not yet */
	uint32_t kind[LK_OP_COUNT], phase[LK_PHASES], dtype[LK_DTYPES], group[LK_GROUPS];
	uint32_t *name[2]; /* [names] of the simulated graph and of that it is folded from */
	lk_error *err;
};

/* Intern a text of which thousands of slices have the same. */
static uint32_t intern_once(struct lk_drawing *drawing, uint32_t *known, const char *text) {
	if (!*known) *known = 1 + lk_intern_id(drawing->out->names, text);
	return *known - 1;
}

static uint32_t timeline_name_of(struct lk_drawing *drawing, const lk_graph *graph, uint32_t id) {
	uint32_t *names = drawing->name[graph != lk_step_simulated(drawing->step)];
	return intern_once(drawing, &names[id], lk_intern_text(graph->names, id));
}

static uint32_t timeline_stage_of(const struct lk_drawing *drawing, uint32_t record) {
	LK_ASSERT(record < drawing->step->record_count);
	return lk_rank_stage(drawing->step->graph, drawing->step->record[record]);
}

/* The stream's name in the trace, or the label of a predicted stream. */
static const char *stream_name(const lk_graph *graph, uint32_t stage, unsigned stream,
                               char out[24]) {
	LK_ASSERT(stage < graph->programs.count);
	uint32_t name = graph->programs.at[stage].stream_names[stream];
	if (name) return lk_intern_text(graph->names, name);
	if (!graph->traced) return lk_stream_label(stream);
	snprintf(out, 24, "stream %u", stream);
	return out;
}

static lk_status track_of(struct lk_drawing *drawing, uint32_t record, unsigned stream,
                          uint32_t *track) {
	uint32_t *known = &drawing->track[record * LK_STREAMS + stream];
	if (!*known) {
		const lk_graph *graph = drawing->step->graph;
		uint32_t rank = drawing->step->record[record],
				 lane = drawing->step->sim.lane_of[lk_rank_chain(graph, rank)];
		char process[96], name[24];
		if (graph->traced)
			snprintf(process, sizeof process, "rank %u (represents %u %s)", rank,
			         drawing->step->sim.lane_ranks[lane],
			         lk_noun(drawing->step->sim.lane_ranks[lane], "rank", "ranks"));
		else
			snprintf(process, sizeof process, "rank %u, stage %u (represents %u %s)", rank,
			         lk_rank_stage(graph, rank), drawing->step->sim.lane_ranks[lane],
			         lk_noun(drawing->step->sim.lane_ranks[lane], "rank", "ranks"));
		if (!lk_push(&drawing->out->tracks)) return lk_oom(drawing->err);
		*lk_last(&drawing->out->tracks) = (lk_track){
			.rank = (int32_t)rank,
			.ranks = (int32_t)drawing->step->sim.lane_ranks[lane],
			.process = lk_intern_id(drawing->out->names, process),
			.name =
				lk_intern_id(drawing->out->names,
		                     stream_name(graph, timeline_stage_of(drawing, record), stream, name)),
		};
		*known = (uint32_t)drawing->out->tracks.count;
	}
	*track = *known - 1;
	return LK_OK;
}

static lk_status timeline_add_slice(struct lk_drawing *drawing, uint32_t record,
                                    const lk_graph *graph, uint32_t op, const lk_call *call,
                                    uint32_t repetition, int64_t start, int64_t end) {
	LK_ASSERT(op < graph->ops.count);
	const lk_ops *ops = &graph->ops;
	uint32_t track = 0;
	LK_TRY(track_of(drawing, record, ops->stream[op], &track));
	if (!lk_push(&drawing->out->slices)) return lk_oom(drawing->err);
	int layer = call->layer;
	if (layer >= 0) layer += call->pass == LK_PHASE_FORWARD ? (int)repetition : -(int)repetition;
	*lk_last(&drawing->out->slices) = (lk_slice){
		.track = track,
		.name = timeline_name_of(drawing, graph, ops->name[op]),
		.category =
			intern_once(drawing, &drawing->kind[ops->kind[op]], lk_op_kind_name(ops->kind[op])),
		.microbatch = call->microbatch,
		.layer = layer,
		.start_ps = start,
		.end_ps = end,
		.bytes = lk_op_is_comm(ops->kind[op]) ? ops->bytes[op] : 0,
		.flops = ops->flops[op],
		.m = ops->m[op],
		.n = ops->n[op],
		.k = ops->k[op],
		.batch = ops->batch[op],
	};
	if (ops->kind[op] == LK_OP_MACRO || ops->kind[op] == LK_OP_HOST) return LK_OK;
	lk_slice *slice = lk_last(&drawing->out->slices);
	unsigned phase = ops->phase[op], group = ops->group[op], dtype = ops->dtype[op];
	slice->phase = intern_once(drawing, &drawing->phase[phase], lk_phase_name((lk_phase)phase));
	if (lk_op_is_collective(ops->kind[op])) {
		slice->group = intern_once(drawing, &drawing->group[group], lk_group_label(group));
		slice->ranks = graph->ranks.group[group].size;
	} else if (!lk_op_is_comm(ops->kind[op])) {
		slice->dtype = intern_once(drawing, &drawing->dtype[dtype], lk_dtype_name((lk_dtype)dtype));
	}
	return LK_OK;
}

static lk_status add_arrow_end(struct lk_drawing *drawing, const lk_graph *graph,
                               const lk_sim_event *event) {
	unsigned kind = graph->ops.kind[event->op];
	if (kind != LK_OP_SEND && kind != LK_OP_RECV) return LK_OK;
	if (drawing->arrow_count == drawing->arrow_capacity) {
		size_t capacity = drawing->arrow_capacity ? drawing->arrow_capacity * 2 : 256;
		struct arrow *grown = realloc(drawing->arrows, capacity * sizeof *grown);
		if (!grown) return lk_oom(drawing->err);
		drawing->arrows = grown;
		drawing->arrow_capacity = capacity;
	}
	drawing->arrows[drawing->arrow_count++] = (struct arrow){
		.record = event->record,
		.channel = (uint32_t)graph->ops.channel[event->op],
		.slice = (uint32_t)drawing->out->slices.count - 1,
		.send = kind == LK_OP_SEND,
	};
	return LK_OK;
}

/* How often an event occurs: those of the period before the gap stand for those left out. */
static double event_times(const lk_step *step, const lk_sim_event *event) {
	const lk_sim_gap *gap = &step->sim.gap;
	if (gap->times == 0) return 1;
	int64_t until_ps = gap->at_ps[event->record] - event->start_ps;
	return until_ps > 0 && until_ps <= gap->shift_ps ? 1 + (double)gap->times : 1;
}

static void add_op_time(lk_op_time *sum, double times, int64_t ps) {
	sum->count += times;
	sum->ps += times * (double)ps;
}

/* Draw one window of an isolated run, scaled to the time that the macro operation took here.
 * `omitted`: repetitions of its call before it that were not simulated. */
static lk_status draw_window(struct lk_drawing *drawing, const lk_sim_event *event,
                             const lk_call *outer, const lk_fold_window *window, uint32_t omitted,
                             double scale) {
	const lk_fold *fold = drawing->step->fold;
	const struct lk_fold_span *span = &fold->span[event->op];
	lk_call call = drawing->step->graph->programs.at[span->stage].calls.at[window->call];
	call.microbatch = outer->microbatch;
	for (uint32_t i = span->sample_begin; i < span->sample_end; i++) {
		const lk_sim_event *sim_event = &fold->samples.at[i];
		if (sim_event->call != window->call || sim_event->repetition != window->repetition)
			continue;
		int64_t start =
			event->start_ps + (int64_t)((double)(sim_event->start_ps + window->shift_ps) * scale);
		int64_t end =
			event->start_ps + (int64_t)((double)(sim_event->end_ps + window->shift_ps) * scale);
		if (end > event->end_ps) end = event->end_ps;
		if (start >= end || drawing->step->graph->ops.kind[sim_event->op] == LK_OP_WAIT) continue;
		if (drawing->sums[1]) {
			add_op_time(&drawing->sums[1][sim_event->op],
			            window->times * event_times(drawing->step, event), end - start);
			continue;
		}
		LK_TRY(timeline_add_slice(drawing, event->record, drawing->step->graph, sim_event->op,
		                          &call, sim_event->repetition + omitted, start, end));
		if (window->times <= 1) continue;
		lk_last(&drawing->out->slices)->times = (uint32_t)window->times;
		lk_last(&drawing->out->slices)->every_ps =
			(int64_t)((double)(window->end_ps - window->begin_ps) * scale);
	}
	return LK_OK;
}

/* Draw the isolated run of a macro operation: what was simulated of each call, in its place,
 * without waiting. A window that stands for others says how often. */
static lk_status draw_inside(struct lk_drawing *drawing, const lk_sim_event *event,
                             const lk_call *outer) {
	lk_fold_windows windows = {0};
	double whole = 0;
	lk_status status = lk_fold_windows_of(drawing->step->graph, drawing->step->fold, event->op,
	                                      &windows, drawing->err);
	for (size_t i = 0; i < windows.count; i++)
		whole += windows.at[i].times * (double)(windows.at[i].end_ps - windows.at[i].begin_ps);
	uint32_t omitted = 0;
	for (size_t i = 0; i < windows.count && status == LK_OK && whole > 0; i++) {
		const lk_fold_window *window = &windows.at[i];
		if (i > 0 && window->call != window[-1].call) omitted = 0;
		status = draw_window(drawing, event, outer, window, omitted,
		                     (double)(event->end_ps - event->start_ps) / whole);
		omitted += (uint32_t)window->times - 1;
	}
	lk_vec_free(&windows);
	return status;
}

static lk_status timeline_draw_event(struct lk_drawing *drawing, const lk_sim_event *event) {
	const lk_graph *graph = lk_step_simulated(drawing->step);
	const lk_call *call =
		&graph->programs.at[timeline_stage_of(drawing, event->record)].calls.at[event->call];
	if (graph->ops.kind[event->op] == LK_OP_WAIT) return LK_OK;
	if (drawing->sums[0]) {
		add_op_time(&drawing->sums[0][event->op], event_times(drawing->step, event),
		            event->end_ps - event->start_ps);
	} else {
		LK_TRY(timeline_add_slice(drawing, event->record, graph, event->op, call, event->repetition,
		                          event->start_ps, event->end_ps));
		LK_TRY(add_arrow_end(drawing, graph, event));
	}
	return graph->ops.kind[event->op] == LK_OP_MACRO ? draw_inside(drawing, event, call) : LK_OK;
}

/* The k-th send on a channel pairs with the k-th receive on the wired one. Both ends must be
 * recorded; chains are equal. */
static lk_status draw_arrows(struct lk_drawing *drawing) {
	const lk_graph *graph = drawing->step->graph;
	uint32_t chains = graph->ranks.chains, channels = graph->channels,
			 records = drawing->step->record_count;
	if (drawing->arrow_count == 0) return LK_OK;
	uint32_t *count = calloc((size_t)records * channels, sizeof *count);
	if (!count) return lk_oom(drawing->err);
	for (size_t i = 0; i < drawing->arrow_count; i++)
		drawing->arrows[i].number =
			count[drawing->arrows[i].record * channels + drawing->arrows[i].channel]++;
	free(count);
	/* receives by (record, channel, number) */
	uint32_t most = 0;
	for (size_t i = 0; i < drawing->arrow_count; i++)
		if (drawing->arrows[i].number >= most) most = drawing->arrows[i].number + 1;
	size_t cells = (size_t)records * channels * most;
	uint32_t *slice = cells < 200000000 ? calloc(cells, sizeof *slice) : NULL;
	if (!slice) return lk_oom(drawing->err);
	for (size_t i = 0; i < drawing->arrow_count; i++) {
		const struct arrow *arrow = &drawing->arrows[i];
		if (!arrow->send)
			slice[((size_t)arrow->record * channels + arrow->channel) * most + arrow->number] =
				arrow->slice + 1;
	}
	lk_status status = LK_OK;
	for (size_t i = 0; i < drawing->arrow_count && status == LK_OK; i++) {
		const struct arrow *arrow = &drawing->arrows[i];
		if (!arrow->send) continue;
		lk_wire peer =
			graph->wires
				.at[(size_t)timeline_stage_of(drawing, arrow->record) * channels + arrow->channel];
		for (uint32_t r = 0; r < records; r++) {
			if (timeline_stage_of(drawing, r) != peer.stage ||
			    drawing->step->record[r] % chains != drawing->step->record[arrow->record] % chains)
				continue;
			uint32_t to = slice[((size_t)r * channels + peer.channel) * most + arrow->number];
			if (!to) continue;
			if (lk_push(&drawing->out->flows))
				*lk_last(&drawing->out->flows) = (lk_flow){arrow->slice, to - 1};
			else status = lk_oom(drawing->err);
		}
	}
	free(slice);
	return status;
}

/* Memory after every call of the source program, at the end of the calls that it was folded
 * into. */
static lk_status draw_memory(struct lk_drawing *drawing, uint32_t record,
                             const lk_sim_event *events, size_t count) {
	const lk_step *step = drawing->step;
	uint32_t stage = timeline_stage_of(drawing, record);
	size_t calls = step->graph->programs.at[stage].calls.count;
	double *after = calloc(calls + 1, sizeof *after), *highest = calloc(calls + 1, sizeof *highest);
	lk_status status = after && highest ? LK_OK : lk_oom(drawing->err);
	uint32_t allocated = lk_intern_id(drawing->out->names, "memory allocated");
	if (status == LK_OK) lk_memory_series(step->graph, stage, after, highest);
	for (size_t i = 0; i < count && status == LK_OK; i++) {
		const lk_sim_event *event = &events[i];
		if (i + 1 < count && events[i + 1].call == event->call)
			continue; /* use the last event of a call */
		uint32_t first = event->call, call = first;
		if (step->fold) {
			const struct lk_fold_span *span = &step->fold->span[event->op];
			first = step->fold->source_call[stage][event->call];
			call = span->call_end > span->call_begin
			           ? first + (span->call_end - span->call_begin) - 1
			           : first;
		}
		double top = 0;
		for (uint32_t c = first; c <= call && c < calls; c++)
			if (highest[c] > top) top = highest[c];
		/* the peak in the middle, what remains at the end */
		int64_t time[] = {event->start_ps + (event->end_ps - event->start_ps) / 2, event->end_ps};
		double value[] = {top, after[call]};
		for (int point = 0; point < 2 && status == LK_OK; point++) {
			if (!lk_push(&drawing->out->counters)) status = lk_oom(drawing->err);
			else
				*lk_last(&drawing->out->counters) =
					(lk_counter){.rank = (int32_t)step->record[record],
				                 .name = allocated,
				                 .time_ps = time[point],
				                 .value = value[point]};
		}
	}
	free(after);
	free(highest);
	return status;
}

static lk_status timeline_draw_events(struct lk_drawing *drawing) {
	const lk_sim_events *events = &drawing->step->sim.events;
	for (size_t i = 0; i < events->count; i++) LK_TRY(timeline_draw_event(drawing, &events->at[i]));
	return LK_OK;
}

lk_status lk_step_op_times(const lk_step *step, lk_op_time *simulated, lk_op_time *inside,
                           lk_error *err) {
	struct lk_drawing drawing = {.step = step, .sums = {simulated, inside}, .err = err};
	return timeline_draw_events(&drawing);
}

static lk_status timeline_draw(struct lk_drawing *drawing) {
	const lk_sim_events *events = &drawing->step->sim.events;
	LK_TRY(timeline_draw_events(drawing));
	LK_TRY(draw_arrows(drawing));
	for (uint32_t r = 0; r < drawing->step->record_count; r++) {
		size_t count;
		const lk_sim_event *first = lk_sim_events_of(events, r, &count);
		LK_TRY(draw_memory(drawing, r, first, count));
	}
	return LK_OK;
}

lk_status lk_step_timeline(const lk_step *step, lk_timeline **out, lk_error *err) {
	struct lk_drawing d = {.step = step, .err = err};
	*out = d.out = lk_timeline_new();
	d.track = calloc((size_t)step->record_count * LK_STREAMS, sizeof *d.track);
	const lk_graph *const graph[] = {lk_step_simulated(step), step->graph};
	bool good = d.out && d.track;
	for (int i = 0; i < 2; i++) {
		d.name[i] = calloc((size_t)lk_intern_count(graph[i]->names) + 1, sizeof *d.name[i]);
		good = good && d.name[i];
	}
	lk_status status = good ? timeline_draw(&d) : lk_oom(err);
	free(d.name[0]);
	free(d.name[1]);
	free(d.track);
	free(d.arrows);
	if (status != LK_OK) {
		lk_timeline_free(d.out);
		*out = NULL;
	}
	return status;
}
