/* explain_comm.c: communication: how much is exposed, whom it waits for, who comes last.
 *
 * A collective kernel runs from its rank's arrival to the common end. The time before the last
 * rank's arrival is waiting, the rest is transfer; durations alone cannot reveal a slow rank, since
 * all end together. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "explain/explain.h"
#include "base/text.h"
#include "trace/capture/capture.h"
#include "base/check.h"
#include "base/sort.h"

/* ---- one rank ---- */

static int64_t arrival_of(const lk_traces *traces, const lk_match_member *member) {
	return lk_common_ns(traces, member->capture,
	                    traces->capture[member->capture]->start_ns[member->event]);
}

lk_arrival *lk_arrivals_find(lk_arena *arena, const lk_traces *traces) {
	lk_arrival *arrivals = LK_ARRAY(arena, lk_arrival, traces->matches.count);
	for (size_t m = 0; arrivals && m < traces->matches.count; m++) {
		const lk_match *match = &traces->matches.at[m];
		lk_arrival *arrival = &arrivals[m];
		arrival->last_ns = INT64_MIN;
		for (uint32_t i = match->begin; i < match->end; i++) {
			int64_t at = arrival_of(traces, &traces->members.at[i]);
			if (at <= arrival->last_ns) continue;
			arrival->last_ns = at;
			arrival->capture = traces->members.at[i].capture;
		}
	}
	return arrivals;
}

/* When the last of the captured ranks arrived, on this rank's clock. This holds for send and
 * receive too. */
static void comm_arrival(const lk_rank_work *work, lk_rank_comm *comm) {
	const lk_traces *traces = work->traces;
	const lk_match *match = lk_traces_match(traces, work->index, comm->event);
	comm->last_ns = INT64_MIN;
	if (!match || match->end - match->begin < 2) return;
	int64_t own = work->capture->start_ns[comm->event],
			common = lk_common_ns(traces, work->index, own);
	const lk_arrival *arrival = &work->arrival[match - traces->matches.at];
	comm->last_ns = arrival->last_ns - common + own;
	comm->last_capture = arrival->capture;
}

/* If communication kernels overlap, the first one gets the common time, so that they add up to the
 * union. */
static bool comm_add_comm(lk_rank_work *work, uint32_t event, int64_t *claimed) {
	LK_ASSERT(event < work->capture->count);
	const lk_capture *capture = work->capture;
	int64_t start = capture->start_ns[event], end = lk_event_end(capture, event);
	if (!lk_push(&work->comms)) return false;
	lk_rank_comm *comm = lk_last(&work->comms);
	comm->event = event;
	comm_arrival(work, comm);
	if (start < *claimed) start = *claimed;
	if (end > *claimed) *claimed = end;
	comm->exposed_ns = lk_times_between(&work->exposed, start, end);
	if (comm->last_ns != INT64_MIN)
		comm->exposed_wait_ns =
			lk_times_between(&work->exposed, start, comm->last_ns < end ? comm->last_ns : end);
	return true;
}

/* Without a device: use annotations of host backends. Concurrent computation is unknown. */
static bool find_host_comms(lk_rank_work *work, lk_timed_list *calls) {
	const lk_capture *capture = work->capture;
	for (uint32_t i = 0; i < capture->count; i++) {
		if (capture->kind[i] != LK_EVENT_NOTE && capture->kind[i] != LK_EVENT_OP) continue;
		bool said = capture->kind[i] == LK_EVENT_NOTE &&
		            (lk_name_class(work, capture->name[i]) & LK_NAME_HOST_COMM);
		if ((!said && !lk_capture_comm(capture, i)) || !lk_in_windows(work, capture->start_ns[i]))
			continue;
		if (!lk_push(calls)) return false;
		*lk_last(calls) = (lk_timed){(uint64_t)capture->start_ns[i], i};
	}
	return lk_timed_sort(calls->at, calls->count);
}

static lk_status host_comms(lk_rank_work *work, lk_error *err) {
	lk_timed_list calls = {0};
	int64_t claimed = INT64_MIN;
	bool good = find_host_comms(work, &calls);
	for (size_t i = 0; good && i < calls.count; i++) {
		uint32_t event = calls.at[i].item;
		int64_t start = work->capture->start_ns[event], end = lk_event_end(work->capture, event);
		good = lk_push(&work->comms);
		if (!good) break;
		lk_rank_comm *comm = lk_last(&work->comms);
		comm->event = event;
		comm_arrival(work, comm);
		if (start < claimed) start = claimed;
		if (end > claimed) claimed = end;
		comm->exposed_ns = lk_times_between(&work->windows, start, end);
		work->host_comms = true;
	}
	lk_vec_free(&calls);
	return good ? LK_OK : lk_oom(err);
}

lk_status lk_rank_comms(lk_rank_work *work, lk_error *err) {
	const lk_capture *capture = work->capture;
	int64_t claimed = INT64_MIN;
	for (size_t i = 0; i < work->device.count; i++) {
		uint32_t event = work->device.at[i];
		if (capture->kind[event] != LK_EVENT_KERNEL) continue;
		if (!(lk_name_class(work, capture->name[event]) & LK_NAME_COMM) &&
		    !lk_capture_comm(capture, event))
			continue;
		if (!comm_add_comm(work, event, &claimed)) return lk_oom(err);
	}
	return work->device.count ? LK_OK : host_comms(work, err);
}

/* ---- all ranks: by kind and group ---- */

struct comm_row {
	lk_explain_comm sum;
	double bytes_known;
	int64_t whole_ns, whole_transfer_ns; /* of communication that begins or ends outside the steps
	                                        too */
};

struct identity {
	unsigned kind;
	const char *group, *ranks;
	int size;
	double bytes;
};

static double comm_message_bytes(const lk_comm_note *note) {
	int64_t elements =
		note->in_elements > note->out_elements ? note->in_elements : note->out_elements;
	return elements >= 0 && note->element_bytes ? (double)elements * note->element_bytes : NAN;
}

/* Identify by the match across ranks, else by the kernel's arguments, else by its name. */
static struct identity identify(const lk_rank_work *work, uint32_t event) {
	LK_ASSERT(event < work->capture->count);
	const lk_capture *capture = work->capture;
	const lk_comm_note *note = lk_capture_comm(capture, event);
	const lk_match *match = lk_traces_match(work->traces, work->index, event);
	struct identity id = {.kind = LK_OP_COUNT, .group = "", .ranks = "", .bytes = NAN};
	if (note) {
		const char *text = lk_capture_text(capture, note->group_text);
		id = (struct identity){note->kind, *text ? text : lk_capture_text(capture, note->group),
		                       lk_capture_text(capture, note->ranks), note->group_size,
		                       comm_message_bytes(note)};
	}
	if (match) {
		const lk_run_group *group = &work->traces->groups.at[match->group];
		id.kind = match->kind;
		if (!*id.group) id.group = group->name;
		if (!id.size) id.size = group->size;
		/* if the whole run was captured, the participants are the group; with one rank, the run's
		 * size is uncertain */
		if (!id.size && group->count > 1 && work->traces->world == (int32_t)work->traces->count)
			id.size = (int)group->count;
		if (!*id.ranks) id.ranks = group->ranks;
		if (match->bytes >= 0) id.bytes = (double)match->bytes;
	}
	if (id.kind >= LK_OP_COUNT)
		id.kind = lk_comm_kind(lk_capture_text(capture, capture->name[event]));
	return id;
}

/* Rows by kind and group; ids of the intern table count up from 1. */
struct comm_sums {
	lk_intern *names;
	LK_VEC(struct comm_row) rows;
};

static struct comm_row *comm_row_of(struct comm_sums *sums, const struct identity *id,
                                    lk_arena *arena) {
	const char *kind = id->kind < LK_OP_COUNT ? lk_op_kind_name((lk_op_kind)id->kind) : "other";
	char key[768];
	snprintf(key, sizeof key, "%s of %s", kind, id->group);
	uint32_t number = lk_intern_id(sums->names, key);
	if (number == UINT32_MAX) return NULL;
	if (number <= sums->rows.count) return &sums->rows.at[number - 1];
	const char *group = lk_arena_strdup(arena, id->group),
			   *ranks = lk_arena_strdup(arena, id->ranks);
	if (!group || !ranks || !lk_push(&sums->rows)) return NULL;
	lk_last(&sums->rows)->sum =
		(lk_explain_comm){.kind = kind, .group = group, .ranks = ranks, .model_busbw = NAN};
	return lk_last(&sums->rows);
}

/* The last arrival, limited to the communication's time. */
static int64_t comm_turn(const lk_rank_comm *comm, int64_t start, int64_t end) {
	if (comm->last_ns < start) return start;
	return comm->last_ns > end ? end : comm->last_ns;
}

/* Add a communication. Times are limited to the analysed steps; the rate is that of the whole
 * transfer. */
static void add_to(struct comm_row *row, const lk_rank_work *work, const lk_rank_comm *comm,
                   const struct identity *id) {
	int64_t start = work->capture->start_ns[comm->event],
			end = lk_event_end(work->capture, comm->event);
	lk_explain_comm *sum = &row->sum;
	sum->count++;
	sum->host = work->host_comms;
	sum->kernel_ns += lk_times_between(&work->windows, start, end);
	sum->exposed_ns += comm->exposed_ns;
	if (id->size > sum->group_size) sum->group_size = id->size;
	if (!isnan(id->bytes)) {
		sum->bytes += id->bytes;
		row->bytes_known++;
	}
	row->whole_ns += end - start;
	if (comm->last_ns == INT64_MIN) return;
	int64_t turn = comm_turn(comm, start, end);
	sum->matched++;
	sum->wait_ns += lk_times_between(&work->windows, start, turn);
	sum->transfer_ns += lk_times_between(&work->windows, turn, end);
	sum->exposed_wait_ns += comm->exposed_wait_ns;
	row->whole_transfer_ns += end - turn;
}

static int by_exposed(const void *a, const void *b) {
	const lk_explain_comm *x = a, *y = b;
	if (x->exposed_ns != y->exposed_ns) return x->exposed_ns > y->exposed_ns ? -1 : 1;
	if (x->kernel_ns != y->kernel_ns) return x->kernel_ns > y->kernel_ns ? -1 : 1;
	return strcmp(x->group, y->group);
}

/* Bytes on a link per byte of the message (nccl-tests, doc/PERFORMANCE.md). */
static double bus_factor(const char *kind, int ranks) {
	double n = ranks;
	if (ranks < 2) return NAN;
	if (strcmp(kind, "all_reduce") == 0) return 2 * (n - 1) / n;
	bool part = strcmp(kind, "all_gather") == 0 || strcmp(kind, "reduce_scatter") == 0 ||
	            strcmp(kind, "all_to_all") == 0;
	return part ? (n - 1) / n : 1;
}

/* Make a row from its sums. */
static lk_explain_comm comm_finish(const struct comm_row *row) {
	lk_explain_comm sum = row->sum;
	if (row->bytes_known < (double)sum.count) sum.bytes = NAN;
	int64_t ns = sum.matched == sum.count ? row->whole_transfer_ns : row->whole_ns;
	sum.busbw = ns > 0 ? sum.bytes / (double)ns * bus_factor(sum.kind, sum.group_size) : NAN;
	return sum;
}

static lk_status comm_add_rank(struct comm_sums *sums, const lk_rank_work *work, lk_arena *arena,
                               lk_error *err) {
	for (size_t i = 0; i < work->comms.count; i++) {
		struct identity id = identify(work, work->comms.at[i].event);
		struct comm_row *row = comm_row_of(sums, &id, arena);
		if (!row) return lk_oom(err);
		add_to(row, work, &work->comms.at[i], &id);
	}
	return LK_OK;
}

static lk_status sum_comms(lk_explain_work *work, struct comm_sums *sums, lk_error *err) {
	if (!sums->names) return lk_oom(err);
	for (uint32_t r = 0; r < work->count; r++)
		if (work->rank[r].shown) LK_TRY(comm_add_rank(sums, &work->rank[r], &work->arena, err));
	size_t count = sums->rows.count;
	lk_explain_comm *out = LK_ARRAY(&work->arena, lk_explain_comm, count);
	if (!out) return lk_oom(err);
	for (size_t i = 0; i < count; i++) out[i] = comm_finish(&sums->rows.at[i]);
	lk_sort(out, count, sizeof *out, by_exposed);
	work->result.comm = out;
	work->result.comm_count = (int)count;
	return LK_OK;
}

/* ---- who comes last ---- */

static lk_status find_median_compute(const lk_explain_work *work, double *out, lk_error *err) {
	lk_timed *all = malloc((work->count + 1) * sizeof *all);
	for (uint32_t r = 0; all && r < work->count; r++)
		all[r] = (lk_timed){(uint64_t)work->rank[r].result.compute_ns, r};
	bool sorted = all && lk_timed_sort(all, work->count);
	if (sorted) *out = lk_stats_of(all, work->count).median_ns;
	free(all);
	return sorted ? LK_OK : lk_oom(err);
}

/* Count, for a match, the last rank and its delay after the one before it. */
static void count_last(const lk_explain_work *work, const lk_match *match,
                       lk_explain_straggler *rows) {
	const lk_traces *traces = work->traces;
	int64_t last = INT64_MIN, before = INT64_MIN;
	uint32_t who = 0;
	for (uint32_t i = match->begin; i < match->end; i++) {
		const lk_match_member *member = &traces->members.at[i];
		int64_t at = arrival_of(traces, member);
		rows[member->capture].collectives++;
		if (at > last) {
			before = last;
			last = at;
			who = member->capture;
		} else if (at > before) before = at;
	}
	if (before == INT64_MIN || last == before) return;
	rows[who].last++;
	rows[who].late_ns += last - before;
}

static bool comm_looked_at(const lk_explain_work *work, const lk_match *match) {
	if (match->end - match->begin < 2) return false;
	const lk_match_member *first = &work->traces->members.at[match->begin];
	const lk_rank_work *rank_work = &work->rank[first->capture];
	return lk_in_windows(rank_work, rank_work->capture->start_ns[first->event]);
}

static void count_waits(const lk_rank_work *work, lk_explain_straggler *rows) {
	for (size_t i = 0; i < work->comms.count; i++) {
		const lk_rank_comm *comm = &work->comms.at[i];
		if (comm->last_ns == INT64_MIN || comm->last_capture == work->index) continue;
		int64_t start = work->capture->start_ns[comm->event],
				end = lk_event_end(work->capture, comm->event);
		int64_t turn = comm->last_ns > end ? end : comm->last_ns;
		if (turn > start) rows[work->index].waited_ns += turn - start;
		if (work->shown) rows[comm->last_capture].caused_ns += comm->exposed_wait_ns;
	}
}

lk_status lk_explain_comms(lk_explain_work *work, lk_error *err) {
	struct comm_sums sums = {.names = lk_intern_new()};
	lk_status status = sum_comms(work, &sums, err);
	lk_intern_free(sums.names);
	lk_vec_free(&sums.rows);
	LK_TRY(status);
	lk_explain_straggler *late = LK_ARRAY(&work->arena, lk_explain_straggler, work->count);
	if (!late) return lk_oom(err);
	double median = NAN;
	LK_TRY(find_median_compute(work, &median, err));
	uint64_t counted = 0;
	for (uint32_t r = 0; r < work->count; r++) {
		late[r].rank = work->rank[r].result.rank;
		late[r].compute_ratio = median > 0 ? (double)work->rank[r].result.compute_ns / median : NAN;
		count_waits(&work->rank[r], late);
	}
	for (size_t i = 0; i < work->traces->matches.count; i++) {
		const lk_match *match = &work->traces->matches.at[i];
		if (comm_looked_at(work, match)) {
			count_last(work, match, late);
			counted++;
		}
	}
	work->result.stragglers = late;
	work->result.straggler_count = counted ? (int)work->count : 0;
	return LK_OK;
}
