/* trace_plan.c: puts a timeline in order for trace viewers: processes and threads get their
 * numbers, slices are sorted by track, start and length and checked to nest, arrows and counters
 * follow them. What is written depends on what the timeline says, not on the order in which its
 * slices were stored. */
#include "base/arena.h"
#include "base/check.h"
#include "base/sort.h"
#include "view/timeline/trace_plan.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

void lk_trace_flush(lk_trace_out *out) {
	if (out->status == LK_OK && out->used)
		out->status = lk_sink_write(out->sink, out->bytes, out->used, out->err);
	out->used = 0;
}

void lk_trace_put_slowly(lk_trace_out *out, const void *bytes, size_t size) {
	lk_trace_flush(out);
	if (size > sizeof out->bytes) {
		if (out->status == LK_OK) out->status = lk_sink_write(out->sink, bytes, size, out->err);
		return;
	}
	memcpy(out->bytes, bytes, size);
	out->used = size;
}

static const char WHERE[] = "trace";

/* Two slices may overlap by so much through rounding: costs are rounded to picoseconds one by one.
 */
static const uint64_t TOLERANCE_PS = 1;

const char *lk_trace_text(const lk_trace_plan *plan, uint32_t name) {
	return lk_intern_text(plan->timeline->names, name);
}

uint64_t lk_trace_ps(const lk_trace_plan *plan, int64_t time_ps) {
	LK_ASSERT(time_ps >= plan->origin_ps);
	return (uint64_t)time_ps - (uint64_t)plan->origin_ps;
}

uint64_t lk_trace_ns(const lk_trace_plan *plan, int64_t time_ps) {
	uint64_t ps = lk_trace_ps(plan, time_ps);
	return ps / 1000 + (ps % 1000 >= 500);
}

void lk_trace_plan_free(lk_trace_plan *plan) {
	lk_vec_free(&plan->processes);
	lk_arena_free(&plan->arena);
}

/* ---- checks ---- */

static lk_status check_slice(const lk_timeline *timeline, const lk_slice *slice, uint32_t names,
                             lk_error *err) {
	size_t index = (size_t)(slice - timeline->slices.at);
	if (slice->name == UINT32_MAX || slice->category == UINT32_MAX)
		return lk_oom(err); /* what lk_intern_id says then */
	if (slice->track >= timeline->tracks.count || slice->name >= names || slice->category >= names)
		return lk_fail(err, LK_ERR_INTERNAL, WHERE,
		               "slice %zu names a track or text that is not there", index);
	if (slice->end_ps < slice->start_ps)
		return lk_fail(err, LK_ERR_INTERNAL, WHERE, "slice %zu ends before it starts", index);
	return LK_OK;
}

static lk_status check_counter(const lk_timeline *timeline, const lk_counter *counter,
                               uint32_t names, lk_error *err) {
	size_t index = (size_t)(counter - timeline->counters.at);
	if (counter->name == UINT32_MAX) return lk_oom(err);
	if (counter->name >= names)
		return lk_fail(err, LK_ERR_INTERNAL, WHERE, "counter %zu has no name", index);
	if (!isfinite(counter->value))
		return lk_fail(err, LK_ERR_INTERNAL, WHERE, "counter %zu is not a finite number", index);
	return LK_OK;
}

static lk_status plan_check_all(lk_trace_plan *plan, lk_error *err) {
	const lk_timeline *timeline = plan->timeline;
	uint32_t names = lk_intern_count(timeline->names);
	if (timeline->slices.count >= UINT32_MAX || timeline->tracks.count >= UINT32_MAX ||
	    timeline->flows.count >= UINT32_MAX)
		return lk_fail(err, LK_ERR_INPUT, WHERE,
		               "the timeline has more slices than a trace can number");
	for (size_t i = 0; i < timeline->tracks.count; i++)
		if (timeline->tracks.at[i].process >= names || timeline->tracks.at[i].name >= names)
			return lk_fail(err, LK_ERR_INTERNAL, WHERE, "track %zu has no name", i);
	for (size_t i = 0; i < timeline->slices.count; i++) {
		LK_TRY(check_slice(timeline, &timeline->slices.at[i], names, err));
		if (timeline->slices.at[i].start_ps < plan->origin_ps)
			plan->origin_ps = timeline->slices.at[i].start_ps;
	}
	for (size_t i = 0; i < timeline->counters.count; i++) {
		LK_TRY(check_counter(timeline, &timeline->counters.at[i], names, err));
		if (timeline->counters.at[i].time_ps < plan->origin_ps)
			plan->origin_ps = timeline->counters.at[i].time_ps;
	}
	return LK_OK;
}

/* ---- processes and threads ---- */

static const char *process_name(lk_trace_plan *plan, int32_t rank, uint32_t name) {
	const char *text = lk_trace_text(plan, name);
	return *text ? text : lk_arena_printf(&plan->arena, "rank %" PRId32, rank);
}

static bool plan_add_process(lk_trace_plan *plan, int32_t rank, int32_t ranks, uint32_t name) {
	if (!lk_push(&plan->processes)) return false;
	lk_trace_process *process = lk_last(&plan->processes);
	*process = (lk_trace_process){
		.rank = rank, .ranks = ranks, .pid = rank, .name = process_name(plan, rank, name)};
	return process->name != NULL;
}

/* A track or process by what makes it the same process as another: rank and name. */
struct key {
	int32_t rank;
	uint32_t name, index;
};

static int plan_by_key(const void *a, const void *b) {
	const struct key *x = a, *y = b;
	if (x->rank != y->rank) return x->rank < y->rank ? -1 : 1;
	if (x->name != y->name) return x->name < y->name ? -1 : 1;
	return x->index < y->index ? -1 : x->index > y->index;
}

/* Sets the process of every row: first the index of the first track of the same process, then, in
 * the order of tracks, the number of the process. */
static bool make_processes(lk_trace_plan *plan) {
	const lk_timeline *timeline = plan->timeline;
	size_t count = timeline->tracks.count;
	struct key *keys = LK_ARRAY(&plan->arena, struct key, count);
	plan->rows = LK_ARRAY(&plan->arena, lk_trace_row, count);
	if (!keys || !plan->rows) return false;
	for (size_t i = 0; i < count; i++)
		keys[i] =
			(struct key){timeline->tracks.at[i].rank, timeline->tracks.at[i].process, (uint32_t)i};
	lk_sort(keys, count, sizeof *keys, plan_by_key);
	for (size_t i = 0, first = 0; i < count; i++) {
		if (keys[i].rank != keys[first].rank || keys[i].name != keys[first].name) first = i;
		plan->rows[keys[i].index].process = keys[first].index;
	}
	for (uint32_t i = 0; i < count; i++) {
		lk_trace_row *row = &plan->rows[i];
		if (row->process != i) {
			row->process = plan->rows[row->process].process;
			continue;
		}
		if (!plan_add_process(plan, timeline->tracks.at[i].rank, timeline->tracks.at[i].ranks,
		                      timeline->tracks.at[i].process))
			return false;
		row->process = (uint32_t)plan->processes.count - 1;
	}
	return true;
}

/* A copy of the processes by rank; of equal ranks the first process comes first. */
static struct key *plan_by_rank(lk_trace_plan *plan) {
	size_t count = plan->processes.count;
	struct key *keys = LK_ARRAY(&plan->arena, struct key, count);
	for (size_t i = 0; keys && i < count; i++)
		keys[i] = (struct key){plan->processes.at[i].rank, 0, (uint32_t)i};
	if (keys && count) lk_sort(keys, count, sizeof *keys, plan_by_key);
	return keys;
}

/* Numbers for people: pid is the rank. Second processes of a rank and all threads count on from the
 * highest rank. */
static bool number_all(lk_trace_plan *plan) {
	struct key *keys = plan_by_rank(plan);
	size_t count = plan->processes.count;
	if (!keys) return false;
	int64_t next = count && keys[count - 1].rank > 0 ? (int64_t)keys[count - 1].rank + 1 : 1;
	for (size_t i = 1; i < count; i++)
		if (keys[i].rank == keys[i - 1].rank) plan->processes.at[keys[i].index].pid = next++;
	for (size_t i = 0; i < plan->timeline->tracks.count; i++) {
		LK_ASSERT(plan->rows[i].process < count);
		plan->rows[i].tid = next++;
		plan->rows[i].name = lk_trace_text(plan, plan->timeline->tracks.at[i].name);
	}
	return true;
}

/* ---- slices ---- */

static int plan_order(double a, double b) {
	if (a < b) return -1;
	if (a > b) return 1;
	return !!isnan(a) - !!isnan(b);
}

/* Equal spans are ordered by what they show, so that the file does not depend on the order in
 * memory. */
static int by_content(const lk_slice *x, const lk_slice *y) {
	if (x->name != y->name) return x->name < y->name ? -1 : 1;
	if (x->category != y->category) return x->category < y->category ? -1 : 1;
	if (x->microbatch != y->microbatch) return x->microbatch < y->microbatch ? -1 : 1;
	if (x->layer != y->layer) return x->layer < y->layer ? -1 : 1;
	int by_bytes = plan_order(x->bytes, y->bytes), by_flops = plan_order(x->flops, y->flops);
	if (by_bytes) return by_bytes;
	if (by_flops) return by_flops;
	if (x < y) return -1;
	return x > y;
}

static int plan_by_place(const void *a, const void *b) {
	const lk_trace_span *x = a, *y = b;
	if (x->track != y->track) return x->track < y->track ? -1 : 1;
	if (x->start_ps != y->start_ps) return x->start_ps < y->start_ps ? -1 : 1;
	if (x->end_ps != y->end_ps) return x->end_ps > y->end_ps ? -1 : 1;
	return by_content(x->slice, y->slice);
}

static bool sort_spans(lk_trace_plan *plan) {
	const lk_timeline *timeline = plan->timeline;
	plan->span_count = timeline->slices.count;
	plan->spans = LK_ARRAY(&plan->arena, lk_trace_span, plan->span_count);
	if (!plan->spans) return false;
	bool sorted = true;
	for (size_t i = 0; i < plan->span_count; i++) {
		const lk_slice *slice = &timeline->slices.at[i];
		plan->spans[i] = (lk_trace_span){slice, slice->track, slice->start_ps, slice->end_ps};
		sorted = sorted && (!i || plan_by_place(&plan->spans[i - 1], &plan->spans[i]) < 0);
	}
	if (!sorted) lk_sort(plan->spans, plan->span_count, sizeof *plan->spans, plan_by_place);
	return true;
}

static lk_status plan_overlap(const lk_trace_plan *plan, const lk_trace_span *outer,
                              const lk_trace_span *inner, lk_error *err) {
	return lk_fail(err, LK_ERR_INTERNAL, WHERE,
	               "on the track \"%.40s\" of rank %" PRId32 " \"%.80s\" (%" PRId64 " to %" PRId64
	               " ps) and \"%.80s\" (%" PRId64 " to %" PRId64 " ps) overlap in part",
	               plan->rows[inner->track].name, plan->timeline->tracks.at[inner->track].rank,
	               lk_trace_text(plan, outer->slice->name), outer->start_ps, outer->end_ps,
	               lk_trace_text(plan, inner->slice->name), inner->start_ps, inner->end_ps);
}

struct open_spans {
	LK_VEC(lk_trace_span *) stack;
};

/* Picoseconds from `early` to a later time; a difference of two times may need 64 bits without
 * sign. */
static uint64_t plan_between(int64_t early, int64_t late) {
	LK_ASSERT(early <= late);
	return (uint64_t)late - (uint64_t)early;
}

/* Fits a span into those that are open: closes the ones that have ended, clips what rounding made
 * overlap. */
static lk_status plan_fit(const lk_trace_plan *plan, struct open_spans *open, lk_trace_span *span,
                          lk_error *err) {
	while (open->stack.count) {
		lk_trace_span *top = *lk_last(&open->stack);
		if (top->end_ps <= span->start_ps) {
			open->stack.count--;
		} else if (span->end_ps <= top->end_ps) {
			break;
		} else if (plan_between(span->start_ps, top->end_ps) <= TOLERANCE_PS) {
			span->start_ps = top->end_ps;
		} else if (plan_between(top->end_ps, span->end_ps) <= TOLERANCE_PS) {
			span->end_ps = top->end_ps;
		} else {
			return plan_overlap(plan, top, span, err);
		}
	}
	if (!lk_push(&open->stack)) return lk_oom(err);
	LK_ASSERT(span->start_ps <= span->end_ps);
	*lk_last(&open->stack) = span;
	return LK_OK;
}

static lk_status nest_spans(lk_trace_plan *plan, lk_error *err) {
	struct open_spans open = {0};
	lk_status status = LK_OK;
	for (size_t i = 0; i < plan->span_count && status == LK_OK; i++) {
		lk_trace_span *span = &plan->spans[i];
		if (i && span[-1].track != span->track) {
			open.stack.count = 0;
		} else if (i && span->start_ps < span[-1].start_ps) {
			/* The start before was moved on by the clipping; this one must not fall after it. */
			span->start_ps = span[-1].start_ps;
			if (span->end_ps < span->start_ps) span->end_ps = span->start_ps;
		}
		status = plan_fit(plan, &open, span, err);
	}
	lk_vec_free(&open.stack);
	return status;
}

/* ---- arrows ---- */

static int by_ends(const void *a, const void *b) {
	const lk_trace_arrow *x = a, *y = b;
	if (x->from != y->from) return x->from < y->from ? -1 : 1;
	return x->to < y->to ? -1 : x->to > y->to;
}

static lk_status check_arrow(const lk_trace_plan *plan, const lk_trace_arrow *arrow,
                             lk_error *err) {
	const lk_trace_span *from = &plan->spans[arrow->from], *to = &plan->spans[arrow->to];
	if (arrow->from != arrow->to && to->end_ps >= from->start_ps) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, WHERE,
	        "\"%.80s\" of rank %" PRId32 " gets a message that \"%.80s\" of rank %" PRId32
	        " sends later",
	        lk_trace_text(plan, to->slice->name), plan->timeline->tracks.at[to->track].rank,
	        lk_trace_text(plan, from->slice->name), plan->timeline->tracks.at[from->track].rank);
	return lk_hint(err, "are the clocks of the ranks aligned?");
}

/* Counts per span become the index of its first arrow. */
static bool index_arrows(lk_trace_plan *plan) {
	size_t spans = plan->span_count, arrows = plan->arrow_count;
	plan->out_first = LK_ARRAY(&plan->arena, uint32_t, spans + 1);
	plan->in_first = LK_ARRAY(&plan->arena, uint32_t, spans + 2);
	plan->in_arrows = LK_ARRAY(&plan->arena, uint32_t, arrows);
	if (!plan->out_first || !plan->in_first || !plan->in_arrows) return false;
	for (size_t i = 0; i < arrows; i++) {
		plan->out_first[plan->arrows[i].from + 1]++;
		plan->in_first[plan->arrows[i].to + 2]++;
	}
	for (size_t i = 1; i <= spans; i++) {
		plan->out_first[i] += plan->out_first[i - 1];
		plan->in_first[i + 1] += plan->in_first[i];
	}
	for (size_t i = 0; i < arrows; i++)
		plan->in_arrows[plan->in_first[plan->arrows[i].to + 1]++] = (uint32_t)i;
	return true;
}

static lk_status make_arrows(lk_trace_plan *plan, lk_error *err) {
	const lk_timeline *timeline = plan->timeline;
	plan->arrow_count = timeline->flows.count;
	if (!plan->arrow_count) return LK_OK;
	plan->arrows = LK_ARRAY(&plan->arena, lk_trace_arrow, plan->arrow_count);
	uint32_t *place = LK_ARRAY(&plan->arena, uint32_t, plan->span_count);
	if (!plan->arrows || !place) return lk_oom(err);
	for (size_t i = 0; i < plan->span_count; i++)
		place[plan->spans[i].slice - timeline->slices.at] = (uint32_t)i;
	for (size_t i = 0; i < plan->arrow_count; i++) {
		if (timeline->flows.at[i].from >= plan->span_count ||
		    timeline->flows.at[i].to >= plan->span_count)
			return lk_fail(err, LK_ERR_INTERNAL, WHERE,
			               "flow %zu ends at a slice that is not there", i);
		plan->arrows[i] =
			(lk_trace_arrow){place[timeline->flows.at[i].from], place[timeline->flows.at[i].to]};
		LK_TRY(check_arrow(plan, &plan->arrows[i], err));
	}
	lk_sort(plan->arrows, plan->arrow_count, sizeof *plan->arrows, by_ends);
	return index_arrows(plan) ? LK_OK : lk_oom(err);
}

/* ---- counters ---- */

/* Of two at one time the later one in memory stands. */
LK_ORDER_BY(plan_by_series, lk_trace_point, counter->rank, counter->name, counter->time_ps)

/* Points learn their process, which is made if the rank has no track, and their series. */
static bool place_points(lk_trace_plan *plan) {
	struct key *keys = plan_by_rank(plan);
	size_t known = plan->processes.count, k = 0;
	if (!keys) return false;
	for (size_t i = 0; i < plan->point_count; i++) {
		lk_trace_point *point = &plan->points[i];
		const lk_counter *counter = point->counter;
		bool new_rank = !i || point[-1].counter->rank != counter->rank;
		if (new_rank) {
			while (k < known && keys[k].rank < counter->rank) k++;
			bool found = k < known && keys[k].rank == counter->rank;
			if (!found && !plan_add_process(plan, counter->rank, 1, 0)) return false;
			point->process = found ? keys[k].index : (uint32_t)plan->processes.count - 1;
		} else {
			point->process = point[-1].process;
		}
		if (new_rank || point[-1].counter->name != counter->name) plan->series_count++;
		point->series = plan->series_count - 1;
		LK_ASSERT(point->process < plan->processes.count);
	}
	return true;
}

static bool make_points(lk_trace_plan *plan) {
	const lk_timeline *timeline = plan->timeline;
	plan->point_count = timeline->counters.count;
	plan->points = LK_ARRAY(&plan->arena, lk_trace_point, plan->point_count);
	if (!plan->points) return false;
	bool sorted = true;
	for (size_t i = 0; i < plan->point_count; i++) {
		plan->points[i].counter = &timeline->counters.at[i];
		sorted = sorted && (!i || plan_by_series(&plan->points[i - 1], &plan->points[i]) <= 0);
	}
	if (!sorted) lk_sort(plan->points, plan->point_count, sizeof *plan->points, plan_by_series);
	return place_points(plan);
}

lk_status lk_trace_plan_make(lk_trace_plan *plan, const lk_timeline *timeline, lk_error *err) {
	*plan = (lk_trace_plan){.timeline = timeline};
	LK_TRY(plan_check_all(plan, err));
	if (!make_processes(plan) || !make_points(plan) || !number_all(plan) || !sort_spans(plan))
		return lk_oom(err);
	LK_TRY(nest_spans(plan, err));
	return make_arrows(plan, err);
}

/* ---- facts ---- */

const char *const lk_trace_fact_names[LK_TRACE_FACTS] = {
#define LK_TRACE_NAME(name, member, text) name,
	LK_SLICE_FACTS(LK_TRACE_NAME) "layer", "microbatch"};

bool lk_trace_fact(const lk_slice *slice, int fact, double *number, uint32_t *text) {
	*text = 0;
	*number = 0;
	switch (fact) {
#define LK_TRACE_CASE(name, member, is_text)          \
	case LK_TRACE_FACT_##member:                      \
		if (is_text) *text = (uint32_t)slice->member; \
		else *number = (double)slice->member;         \
		break;
		LK_SLICE_FACTS(LK_TRACE_CASE)
	case LK_TRACE_FACT_layer: *number = slice->layer; return slice->layer >= 0;
	case LK_TRACE_FACT_microbatch: *number = slice->microbatch; return slice->microbatch >= 0;
	default: break;
	}
	return *text || (*number != 0 && isfinite(*number));
}
