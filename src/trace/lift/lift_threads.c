/* lift_threads.c: CPU threads as runs of pieces, and hand-overs between threads. */
#include <stdlib.h>
#include <string.h>

#include "trace/lift/lift_internal.h"
#include "base/sort.h"

static bool threads_idle(const lk_host_pieces *pieces, size_t from) {
	for (size_t i = from; i < pieces->count; i++)
		if (pieces->at[i].event != LK_NONE) return false;
	return true;
}

static lk_run_kind threads_kind_of(const lk_host_piece *piece) {
	if (piece->call != LK_CALL_NONE) return LK_RUN_CALL;
	return piece->term == LK_T1 && piece->dur_ns > LK_GAP_NS ? LK_RUN_GAP : LK_RUN_WORK;
}

/* Cut the pieces of a thread, which are the last ones, into runs. */
static lk_status threads_cut(lk_lifting *lifting, uint32_t thread, size_t first) {
	const lk_host_pieces *pieces = &lifting->out->pieces;
	for (size_t i = first; i < pieces->count; i++) {
		const lk_host_piece *piece = &pieces->at[i];
		/* Time after a thread's last operation belongs to the step's end, on the main thread only.
		 * If the stretch is "all", each thread ends with its last annotation. */
		bool tail = piece->event == LK_NONE && piece->term == LK_T1;
		if (tail && !lifting->stretch->all &&
		    lifting->threads.at[thread].lane != lifting->main_lane)
			continue;
		lk_run_kind kind = threads_kind_of(piece);
		lk_run *last = i > first ? lk_last(&lifting->runs) : NULL;
		bool same = last && pieces->at[last->begin].loading ==
		                        piece->loading; /* keep data loading apart from the rest */
		if (same && kind == LK_RUN_WORK && last->kind == LK_RUN_WORK) {
			last->end = (uint32_t)i + 1;
			last->end_ns = piece->start_ns + piece->dur_ns;
			continue;
		}
		if (!lk_push(&lifting->runs)) return lk_oom(lifting->err);
		*lk_last(&lifting->runs) = (lk_run){
			.order_ns = piece->start_ns,
			.start_ns = piece->start_ns,
			.end_ns = piece->start_ns + piece->dur_ns,
			.begin = (uint32_t)i,
			.end = (uint32_t)i + 1,
			.thread = thread,
			.op = LK_NONE,
			.after = LK_NONE,
			.kind = (uint8_t)kind,
		};
	}
	return LK_OK;
}

/* When the stretch ends on a thread. */
static int64_t thread_end(const lk_lifting *lifting, uint32_t lane) {
	const lk_capture *capture = lifting->capture;
	const lk_lane *events = &capture->lanes.at[lane];
	int64_t end = lifting->out->from_ns;
	if (!lifting->stretch->all) return lifting->out->to_ns;
	for (uint32_t at = events->begin; at < events->end; at++)
		if (lk_event_end(capture, capture->order[at]) > end)
			end = lk_event_end(capture, capture->order[at]);
	return end < lifting->out->to_ns ? end : lifting->out->to_ns;
}

static lk_status add_thread(lk_lifting *lifting, uint32_t lane) {
	size_t first = lifting->out->pieces.count;
	LK_TRY(lk_host_time(lifting->capture, lane, lifting->out->from_ns, thread_end(lifting, lane),
	                    &lifting->out->pieces, lifting->err));
	/* The main thread's step takes its time even if nothing of it is known. */
	bool main = lane == lifting->main_lane && !lifting->stretch->all;
	if (threads_idle(&lifting->out->pieces, first) && !main) {
		lifting->out->pieces.count = first;
		return LK_OK;
	}
	if (!lk_push(&lifting->threads)) return lk_oom(lifting->err);
	lk_lift_thread *thread = lk_last(&lifting->threads);
	*thread = (lk_lift_thread){.lane = lane,
	                           .stream = lifting->stream_of[lane],
	                           .first_run = (uint32_t)lifting->runs.count,
	                           .last_launch = LK_NONE,
	                           .wait_event = LK_NONE};
	LK_TRY(threads_cut(lifting, (uint32_t)lifting->threads.count - 1, first));
	lk_last(&lifting->threads)->end_run = (uint32_t)lifting->runs.count;
	return LK_OK;
}

/* ---- hand-overs ---- */

/* The last run of a thread, except gaps, that ends within (from, to]; LK_NONE. */
static uint32_t last_run(const lk_lifting *lifting, const lk_lift_thread *thread, int64_t from,
                         int64_t to) {
	uint32_t low = thread->first_run, high = thread->end_run; /* first run that ends after `to` */
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		if (lifting->runs.at[middle].end_ns <= to) low = middle + 1;
		else high = middle;
	}
	for (uint32_t r = low; r > thread->first_run; r--) {
		const lk_run *run = &lifting->runs.at[r - 1];
		if (run->end_ns <= from) break;
		if (run->kind != LK_RUN_GAP) return r - 1;
	}
	return LK_NONE;
}

/* A gap ends after the last run of another thread that ended during it. The gap then counts from
 * that run's end, and follows it in the program. */
static void threads_hand_over(lk_lifting *lifting, lk_run *gap) {
	uint32_t best = LK_NONE;
	for (uint32_t t = 0; t < lifting->threads.count; t++) {
		if (t == gap->thread) continue;
		uint32_t run = last_run(lifting, &lifting->threads.at[t], gap->start_ns, gap->end_ns);
		if (run != LK_NONE &&
		    (best == LK_NONE || lifting->runs.at[run].end_ns > lifting->runs.at[best].end_ns))
			best = run;
	}
	if (best == LK_NONE) return;
	gap->after = best;
	gap->order_ns = lifting->runs.at[best].end_ns;
}

/* A gap follows the run that ends it; at equal times, in the order of threads. */
static int by_order(const void *a, const void *b, void *context) {
	const lk_lifting *lifting = context;
	const lk_run *x = &lifting->runs.at[*(const uint32_t *)a],
				 *y = &lifting->runs.at[*(const uint32_t *)b];
	if (x->order_ns != y->order_ns) return x->order_ns < y->order_ns ? -1 : 1;
	return (x->after != LK_NONE) - (y->after != LK_NONE);
}

static lk_status sort_runs(lk_lifting *lifting) {
	uint32_t count = (uint32_t)lifting->runs.count;
	uint32_t *order = malloc((count + 1) * sizeof *order),
			 *place = malloc((count + 1) * sizeof *place);
	lk_run *sorted = malloc((count + 1) * sizeof *sorted);
	lk_status status = order && place && sorted ? LK_OK : lk_oom(lifting->err);
	if (status == LK_OK) {
		for (uint32_t i = 0; i < count; i++) order[i] = i;
		lk_sort_by(order, count, sizeof *order, by_order, lifting);
		for (uint32_t i = 0; i < count; i++) {
			place[order[i]] = i;
			sorted[i] = lifting->runs.at[order[i]];
		}
		for (uint32_t i = 0; i < count; i++)
			if (sorted[i].after != LK_NONE) sorted[i].after = place[sorted[i].after];
		if (count) memcpy(lifting->runs.at, sorted, count * sizeof *sorted);
	}
	free(order);
	free(place);
	free(sorted);
	return status;
}

lk_status lk_lift_runs(lk_lifting *lifting) {
	for (uint32_t lane = 0; lane < lifting->capture->lanes.count; lane++)
		if (!lifting->capture->lanes.at[lane].stream && lifting->stream_of[lane] < LK_STREAMS)
			LK_TRY(add_thread(lifting, lane));
	for (size_t i = 0; i < lifting->runs.count; i++)
		if (lifting->runs.at[i].kind == LK_RUN_GAP &&
		    lifting->out->pieces.at[lifting->runs.at[i].begin].event != LK_NONE)
			threads_hand_over(lifting, &lifting->runs.at[i]);
	LK_TRY(lk_lift_outside(lifting));
	return sort_runs(lifting);
}
