/* stalls_comm.c: communication of a recorded run: waiting for own code of others and transfer,
 * inside and across hosts.
 *
 * The ranks are put on one clock and their calls matched like in `explain`; but ranks of one host
 * already share a clock, which is exact where an alignment by ends of calls is not. The exposed
 * part of a call is its time without own code of the rank. A group whose ranks have several hosts
 * counts as network, even if part of its work stays on a host.
 *
 * Ranks do not leave a collective together, least so over a network; their wait in the next one is
 * then transfer of the one before. So if all members of a collective come from the same previous
 * one, a rank waits for the own code of the slowest member since then, less its own; no clock is
 * needed for that. Otherwise it waits for the last arrival on the common clock. */
#include <stdlib.h>
#include <string.h>

#include "explain/explain.h"
#include "stalls/stalls.h"
#include "step/traced.h"
#include "base/check.h"
#include "base/sort.h"

struct sorter {
	lk_traces *traces;
	lk_stalls_comm *out;
	uint32_t *host;    /* [captures] */
	uint32_t **before; /* [captures][events] */
	int64_t *clock;    /* [captures] the host's own clock at time 0 of the capture */
	int steps;
	char window[48];
	LK_VEC(lk_stalls_size) calls; /* single calls */
};

/* ---- hosts ---- */

static lk_status read_capture_host(struct sorter *sorter, uint32_t i, lk_intern *names,
                                   lk_error *err) {
	lk_recording recording;
	LK_TRY(lk_recording_open(sorter->traces->capture[i]->path, &recording, err));
	sorter->host[i] = lk_intern_id(names, recording.head.host);
	sorter->clock[i] = recording.head.monotonic_ns;
	lk_recording_close(&recording);
	return sorter->host[i] == UINT32_MAX ? lk_oom(err) : LK_OK;
}

/* Captures of a host keep their clocks' distance to the host's first one. */
static void share_host_clock(struct sorter *sorter, uint32_t i) {
	lk_traces *traces = sorter->traces;
	for (uint32_t k = 0; k < i; k++) {
		if (sorter->host[k] != sorter->host[i]) continue;
		traces->shift_ns[i] = traces->shift_ns[k] + sorter->clock[i] - sorter->clock[k];
		traces->drift_ppm[i] = traces->drift_ppm[k];
		traces->middle_ns[i] = traces->middle_ns[k] - sorter->clock[i] + sorter->clock[k];
		return;
	}
}

static lk_status find_rank_hosts(struct sorter *sorter, lk_error *err) {
	lk_intern *names = lk_intern_new();
	lk_status status = names && sorter->host && sorter->clock ? LK_OK : lk_oom(err);
	for (uint32_t i = 0; status == LK_OK && i < sorter->traces->count; i++) {
		status = read_capture_host(sorter, i, names, err);
		if (status == LK_OK && (int)sorter->host[i] > sorter->out->hosts)
			sorter->out->hosts = (int)sorter->host[i];
		if (status == LK_OK) share_host_clock(sorter, i);
	}
	lk_intern_free(names);
	return status;
}

static bool group_spans_hosts(const struct sorter *sorter, const lk_run_group *group) {
	for (uint32_t i = 1; i < group->count; i++)
		if (sorter->host[group->captures[i]] != sorter->host[group->captures[0]]) return true;
	return false;
}

/* ---- exposed communication ---- */

/* By event of a capture: the previous communication call that had ended; LK_NONE if there is none
 * or it had not ended. */
static lk_status find_previous_calls(struct sorter *sorter, const lk_explain_work *work,
                                     lk_error *err) {
	for (uint32_t r = 0; r < work->count; r++) {
		const lk_rank_work *rank = &work->rank[r];
		uint32_t *before = sorter->before[r] =
			malloc(((size_t)rank->capture->count + 1) * sizeof *before);
		if (!before) return lk_oom(err);
		memset(before, 0xff, ((size_t)rank->capture->count + 1) * sizeof *before);
		for (size_t i = 1; i < rank->comms.count; i++) {
			uint32_t event = rank->comms.at[i].event, last = rank->comms.at[i - 1].event;
			if (lk_event_end(rank->capture, last) <= rank->capture->start_ns[event])
				before[event] = last;
		}
	}
	return LK_OK;
}

/* Own code of a member since the previous call; *match is that call's. */
static int64_t own_code_since_call(const struct sorter *sorter, const lk_match_member *member,
                                   const lk_match **match) {
	const lk_capture *capture = sorter->traces->capture[member->capture];
	uint32_t last = sorter->before[member->capture][member->event];
	*match = last == LK_NONE ? NULL : lk_traces_match(sorter->traces, member->capture, last);
	return *match ? capture->start_ns[member->event] - lk_event_end(capture, last) : 0;
}

/* Nanoseconds that a rank waits for others, exposed. */
static int64_t waiting_for_others(const struct sorter *sorter, const lk_rank_comm *comm,
                                  uint32_t capture, const lk_match *match) {
	LK_ASSERT(match->begin < match->end);
	const lk_match *first = NULL, *other;
	int64_t own = 0, most = 0;
	for (uint32_t i = match->begin; i < match->end; i++) {
		const lk_match_member *one = &sorter->traces->members.at[i];
		int64_t code = own_code_since_call(sorter, one, &other);
		if (!other || (first && other != first)) return comm->exposed_wait_ns;
		first = other;
		if (code > most) most = code;
		if (one->capture == capture) own = code;
	}
	if (!first || first->end - first->begin != match->end - match->begin)
		return comm->exposed_wait_ns; /* others were in that one too */
	return most - own < comm->exposed_ns ? most - own : comm->exposed_ns;
}

static bool is_network_call(const struct sorter *sorter, uint32_t capture, uint32_t event,
                            const lk_match *match) {
	if (match) return group_spans_hosts(sorter, &sorter->traces->groups.at[match->group]);
	const lk_comm_note *note = lk_capture_comm(sorter->traces->capture[capture], event);
	const char *name =
		note ? lk_capture_text(sorter->traces->capture[capture], note->group_text) : "";
	for (size_t i = 0; i < sorter->traces->groups.count; i++)
		if (strcmp(sorter->traces->groups.at[i].name, name) == 0)
			return group_spans_hosts(sorter, &sorter->traces->groups.at[i]);
	return sorter->out->hosts > 1;
}

static void add_rank_comm(struct sorter *sorter, const lk_rank_work *rank, uint32_t capture) {
	int64_t waiting = 0, moved[2] = {0, 0};
	for (size_t i = 0; i < rank->comms.count; i++) {
		const lk_rank_comm *comm = &rank->comms.at[i];
		const lk_match *match = lk_traces_match(sorter->traces, capture, comm->event);
		int64_t wait = match && match->end - match->begin > 1
		                   ? waiting_for_others(sorter, comm, capture, match)
		                   : 0;
		waiting += wait;
		moved[is_network_call(sorter, capture, comm->event, match)] += comm->exposed_ns - wait;
	}
	double per = 1e-9 / ((double)sorter->traces->count * sorter->steps);
	sorter->out->waiting += per * (double)waiting;
	sorter->out->interconnect += per * (double)moved[0];
	sorter->out->network += per * (double)moved[1];
}

static lk_status add_all_rank_comm(struct sorter *sorter, const lk_explanation *explanation,
                                   lk_error *err) {
	const lk_explain_work *work = explanation->memory_owner;
	sorter->before = calloc(work->count + 1, sizeof *sorter->before);
	lk_status status = sorter->before ? find_previous_calls(sorter, work, err) : lk_oom(err);
	for (uint32_t r = 0; status == LK_OK && r < work->count; r++)
		add_rank_comm(sorter, &work->rank[r], r);
	for (uint32_t r = 0; sorter->before && r < work->count; r++) free(sorter->before[r]);
	free(sorter->before);
	return status;
}

/* ---- transfer by size ---- */

/* The steps are those of the first rank. */
static bool is_in_step_window(const struct sorter *sorter, const lk_match_member *member,
                              const lk_capture_steps *steps, int first) {
	int64_t at = lk_traces_time(sorter->traces, member->capture,
	                            sorter->traces->capture[member->capture]->start_ns[member->event]);
	return at >= lk_traces_time(sorter->traces, 0, steps->at[first].start_ns) &&
	       at < lk_traces_time(sorter->traces, 0, steps->at[first + sorter->steps - 1].end_ns);
}

/* The shortest of the members' calls: that of the one who waited least. */
static double shortest_member_time(const struct sorter *sorter, const lk_match *match) {
	LK_ASSERT(match->begin < match->end);
	int64_t least = INT64_MAX;
	for (uint32_t i = match->begin; i < match->end; i++) {
		const lk_match_member *one = &sorter->traces->members.at[i];
		int64_t took = sorter->traces->capture[one->capture]->dur_ns[one->event];
		if (took < least) least = took;
	}
	return 1e-9 * (double)least;
}

static bool is_bulk_collective(const lk_match *match) {
	return match->kind == LK_OP_ALLREDUCE || match->kind == LK_OP_REDUCESCATTER ||
	       match->kind == LK_OP_ALLGATHER;
}

/* The group that moves most bytes in collectives used for gradients. */
static uint32_t find_busiest_group(const struct sorter *sorter, lk_error *err, lk_status *status) {
	double *bytes = calloc(sorter->traces->groups.count + 1, sizeof *bytes);
	uint32_t best = LK_NONE;
	*status = bytes ? LK_OK : lk_oom(err);
	for (size_t i = 0; bytes && i < sorter->traces->matches.count; i++) {
		const lk_match *match = &sorter->traces->matches.at[i];
		if (!is_bulk_collective(match) || match->bytes <= 0 || match->end - match->begin < 2)
			continue;
		bytes[match->group] += (double)match->bytes;
		if (best == LK_NONE || bytes[match->group] > bytes[best]) best = match->group;
	}
	free(bytes);
	return best;
}

LK_ORDER_BY(compare_size_bytes, lk_stalls_size, bytes, seconds)

/* Join calls of one size to their median. `calls` are sorted by size and time. */
static lk_status join_equal_sizes(struct sorter *sorter, lk_error *err) {
	for (size_t i = 0, end; i < sorter->calls.count; i = end) {
		for (end = i;
		     end < sorter->calls.count && sorter->calls.at[end].bytes == sorter->calls.at[i].bytes;
		     end++) {
		}
		if (!lk_push(&sorter->out->sizes)) return lk_oom(err);
		*lk_last(&sorter->out->sizes) =
			(lk_stalls_size){sorter->calls.at[i].bytes, (double)(end - i) / sorter->steps,
		                     sorter->calls.at[i + (end - i) / 2].seconds};
	}
	return LK_OK;
}

static lk_status add_group_sizes(struct sorter *sorter, const lk_capture_steps *steps, int first,
                                 lk_error *err) {
	lk_status status;
	uint32_t group = find_busiest_group(sorter, err, &status);
	if (status != LK_OK || group == LK_NONE) return status;
	const lk_run_group *run_group = &sorter->traces->groups.at[group];
	snprintf(sorter->out->group, sizeof sorter->out->group, "%s", run_group->name);
	sorter->out->bucket_network = group_spans_hosts(sorter, run_group);
	sorter->out->bucket_ranks = run_group->size;
	for (size_t i = 0; i < sorter->traces->matches.count; i++) {
		const lk_match *match = &sorter->traces->matches.at[i];
		const lk_match_member *member = &sorter->traces->members.at[match->begin];
		if (match->group != group || !is_bulk_collective(match) || match->bytes <= 0 ||
		    match->end - match->begin < 2)
			continue;
		if (!is_in_step_window(sorter, member, steps, first)) continue;
		if (!lk_push(&sorter->calls)) return lk_oom(err);
		*lk_last(&sorter->calls) =
			(lk_stalls_size){(double)match->bytes, 1, shortest_member_time(sorter, match)};
	}
	lk_sort(sorter->calls.at, sorter->calls.count, sizeof *sorter->calls.at, compare_size_bytes);
	return join_equal_sizes(sorter, err);
}

/* ---- the whole recording ---- */

static lk_status choose_step_window(struct sorter *sorter, int warmup, int steps,
                                    lk_capture_steps *out, int *first, lk_error *err) {
	uint32_t count = 0;
	LK_TRY(lk_traced_common_steps(sorter->traces, &count, err));
	LK_TRY(lk_capture_find_steps(sorter->traces->capture[0], out, err));
	if (out->at[0].event == LK_NONE)
		return lk_fail(err, LK_ERR_INPUT, sorter->traces->capture[0]->path, "no steps were found");
	*first = warmup < (int)count ? warmup : 0;
	sorter->steps = (int)count - *first;
	if (steps > 0 && sorter->steps > steps) sorter->steps = steps;
	snprintf(sorter->window, sizeof sorter->window, "%d-%d", *first, *first + sorter->steps - 1);
	return LK_OK;
}

static lk_status sort_out_comm(struct sorter *sorter, int warmup, int steps, lk_explanation **x,
                               lk_error *err) {
	lk_capture_steps all = {0};
	lk_explain_request request;
	int first = 0;
	lk_explain_defaults(&request);
	lk_status status = find_rank_hosts(sorter, err);
	if (status == LK_OK) status = choose_step_window(sorter, warmup, steps, &all, &first, err);
	if (status == LK_OK) status = add_group_sizes(sorter, &all, first, err);
	lk_vec_free(&all);
	if (status != LK_OK) {
		lk_traces_free(sorter->traces);
		return status;
	}
	request.steps = sorter->window;
	sorter->out->ranks = (int)sorter->traces->count;
	LK_TRY(lk_explain_make(sorter->traces, &request, x, err));
	status = add_all_rank_comm(sorter, *x, err);
	lk_explain_free(*x);
	return status;
}

lk_status lk_stalls_see_comm(const char *folder, int warmup, int steps, lk_stalls_comm *out,
                             lk_error *err) {
	static const lk_read_limits limits = {.shapes = false};
	lk_traces *traces;
	lk_explanation *explanation = NULL;
	*out = (lk_stalls_comm){0};
	LK_TRY(lk_traces_read(&folder, 1, &limits, 0, &traces, err));
	struct sorter s = {.traces = traces,
	                   .out = out,
	                   .host = calloc(traces->count + 1, sizeof *s.host),
	                   .clock = calloc(traces->count + 1, sizeof *s.clock)};
	lk_status status = sort_out_comm(&s, warmup, steps, &explanation, err);
	free(s.host);
	free(s.clock);
	lk_vec_free(&s.calls);
	return status;
}
