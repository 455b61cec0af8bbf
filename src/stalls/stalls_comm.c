/* stalls_comm.c: communication of a recorded run: waiting for own code of others and transfer, inside and across hosts.
 *
 * The ranks are put on one clock and their calls matched as `explain` does; but ranks of one host have one clock already,
 * which is exact where an alignment by ends of calls is not. What shows of a call is what no own code of the rank runs
 * beside. A group whose ranks have several hosts is the network's, whatever part of its work stays on a host.
 *
 * Ranks do not leave a collective together, least so over a network; what they then wait for in the next one is the transfer
 * of the one before. So where all members of a collective come from one and the same other one, a rank waits for the own
 * code that the slowest of them had since, less its own; no clock is needed for that. Elsewhere it waits for the last
 * arrival on the common clock. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "explain/explain.h"
#include "stalls/stalls.h"
#include "step/traced.h"
#include "base/stats.h"

struct sorter {
	lk_traces *traces;
	lk_stalls_comm *out;
	uint32_t *host;          /* [captures] */
	uint32_t **before;       /* [captures][events] */
	int64_t *clock;          /* [captures] the host's own clock when the capture's time was 0 */
	int steps;
	char window[48];
	LK_VEC(lk_stalls_size) calls; /* one by one */
};

/* ---- hosts ---- */

static lk_status host_of(struct sorter *s, uint32_t i, lk_intern *names, lk_error *err) {
	lk_recording recording;
	LK_TRY(lk_recording_open(s->traces->capture[i]->path, &recording, err));
	s->host[i] = lk_intern_id(names, recording.head.host);
	s->clock[i] = recording.head.monotonic_ns;
	lk_recording_close(&recording);
	return s->host[i] == UINT32_MAX ? lk_oom(err) : LK_OK;
}

/* Captures of a host keep the distance of their clocks to the host's first one. */
static void keep_host_clock(struct sorter *s, uint32_t i) {
	lk_traces *t = s->traces;
	for (uint32_t k = 0; k < i; k++) {
		if (s->host[k] != s->host[i]) continue;
		t->shift_ns[i] = t->shift_ns[k] + s->clock[i] - s->clock[k];
		t->drift_ppm[i] = t->drift_ppm[k], t->middle_ns[i] = t->middle_ns[k] - s->clock[i] + s->clock[k];
		return;
	}
}

static lk_status find_hosts(struct sorter *s, lk_error *err) {
	lk_intern *names = lk_intern_new();
	lk_status status = names && s->host && s->clock ? LK_OK : lk_oom(err);
	for (uint32_t i = 0; status == LK_OK && i < s->traces->count; i++) {
		status = host_of(s, i, names, err);
		if (status == LK_OK && (int)s->host[i] > s->out->hosts) s->out->hosts = (int)s->host[i];
		if (status == LK_OK) keep_host_clock(s, i);
	}
	lk_intern_free(names);
	return status;
}

static bool across_hosts(const struct sorter *s, const lk_run_group *g) {
	for (uint32_t i = 1; i < g->count; i++)
		if (s->host[g->captures[i]] != s->host[g->captures[0]]) return true;
	return false;
}

/* ---- what shows ---- */

/* By event of a capture: the call of communication that was over before, LK_NONE where there is none or it was not over. */
static lk_status find_before(struct sorter *s, const lk_explain_work *w, lk_error *err) {
	for (uint32_t r = 0; r < w->count; r++) {
		const lk_rank_work *rank = &w->rank[r];
		uint32_t *before = s->before[r] = malloc(((size_t)rank->c->count + 1) * sizeof *before);
		if (!before) return lk_oom(err);
		memset(before, 0xff, ((size_t)rank->c->count + 1) * sizeof *before);
		for (size_t i = 1; i < rank->comms.count; i++) {
			uint32_t event = rank->comms.at[i].event, last = rank->comms.at[i - 1].event;
			if (lk_event_end(rank->c, last) <= rank->c->start_ns[event]) before[event] = last;
		}
	}
	return LK_OK;
}

/* Own code of a member since the call before; *match is that call's. */
static int64_t since(const struct sorter *s, const lk_match_member *m, const lk_match **match) {
	const lk_capture *c = s->traces->capture[m->capture];
	uint32_t last = s->before[m->capture][m->event];
	*match = last == LK_NONE ? NULL : lk_traces_match(s->traces, m->capture, last);
	return *match ? c->start_ns[m->event] - lk_event_end(c, last) : 0;
}

/* Nanoseconds that a rank waits for others, as much as shows. */
static int64_t waiting_of(const struct sorter *s, const lk_rank_comm *comm, uint32_t capture, const lk_match *m) {
	const lk_match *first = NULL, *other;
	int64_t own = 0, most = 0;
	for (uint32_t i = m->begin; i < m->end; i++) {
		const lk_match_member *one = &s->traces->members.at[i];
		int64_t code = since(s, one, &other);
		if (!other || (first && other != first)) return comm->exposed_wait_ns;
		first = other;
		if (code > most) most = code;
		if (one->capture == capture) own = code;
	}
	if (!first || first->end - first->begin != m->end - m->begin) return comm->exposed_wait_ns; /* others were in that one too */
	return most - own < comm->exposed_ns ? most - own : comm->exposed_ns;
}

static bool is_network(const struct sorter *s, uint32_t capture, uint32_t event, const lk_match *m) {
	if (m) return across_hosts(s, &s->traces->groups.at[m->group]);
	const lk_comm_note *note = lk_capture_comm(s->traces->capture[capture], event);
	const char *name = note ? lk_capture_text(s->traces->capture[capture], note->group_text) : "";
	for (size_t i = 0; i < s->traces->groups.count; i++)
		if (strcmp(s->traces->groups.at[i].name, name) == 0) return across_hosts(s, &s->traces->groups.at[i]);
	return s->out->hosts > 1;
}

static void add_rank(struct sorter *s, const lk_rank_work *rank, uint32_t capture) {
	int64_t waiting = 0, moved[2] = {0, 0};
	for (size_t i = 0; i < rank->comms.count; i++) {
		const lk_rank_comm *comm = &rank->comms.at[i];
		const lk_match *m = lk_traces_match(s->traces, capture, comm->event);
		int64_t wait = m && m->end - m->begin > 1 ? waiting_of(s, comm, capture, m) : 0;
		waiting += wait;
		moved[is_network(s, capture, comm->event, m)] += comm->exposed_ns - wait;
	}
	double per = 1e-9 / ((double)s->traces->count * s->steps);
	s->out->waiting += per * (double)waiting;
	s->out->interconnect += per * (double)moved[0], s->out->network += per * (double)moved[1];
}

static lk_status add_ranks(struct sorter *s, const lk_explanation *x, lk_error *err) {
	const lk_explain_work *w = x->memory_owner;
	s->before = calloc(w->count + 1, sizeof *s->before);
	lk_status status = s->before ? find_before(s, w, err) : lk_oom(err);
	for (uint32_t r = 0; status == LK_OK && r < w->count; r++) add_rank(s, &w->rank[r], r);
	for (uint32_t r = 0; s->before && r < w->count; r++) free(s->before[r]);
	free(s->before);
	return status;
}

/* ---- transfer by size ---- */

/* The steps are those of the first rank. */
static bool in_window(const struct sorter *s, const lk_match_member *m, const lk_capture_steps *steps, int first) {
	int64_t at = lk_traces_time(s->traces, m->capture, s->traces->capture[m->capture]->start_ns[m->event]);
	return at >= lk_traces_time(s->traces, 0, steps->at[first].start_ns) &&
	       at < lk_traces_time(s->traces, 0, steps->at[first + s->steps - 1].end_ns);
}

/* The shortest of the members' calls: that of the one who waited least. */
static double transfer_of(const struct sorter *s, const lk_match *m) {
	int64_t least = INT64_MAX;
	for (uint32_t i = m->begin; i < m->end; i++) {
		const lk_match_member *one = &s->traces->members.at[i];
		int64_t took = s->traces->capture[one->capture]->dur_ns[one->event];
		if (took < least) least = took;
	}
	return 1e-9 * (double)least;
}

static bool is_bulk(const lk_match *m) {
	return m->kind == LK_OP_ALLREDUCE || m->kind == LK_OP_REDUCESCATTER || m->kind == LK_OP_ALLGATHER;
}

/* The group that moves most bytes in collectives that gradients use. */
static uint32_t busiest_group(const struct sorter *s, lk_error *err, lk_status *status) {
	double *bytes = calloc(s->traces->groups.count + 1, sizeof *bytes);
	uint32_t best = LK_NONE;
	*status = bytes ? LK_OK : lk_oom(err);
	for (size_t i = 0; bytes && i < s->traces->matches.count; i++) {
		const lk_match *m = &s->traces->matches.at[i];
		if (!is_bulk(m) || m->bytes <= 0 || m->end - m->begin < 2) continue;
		bytes[m->group] += (double)m->bytes;
		if (best == LK_NONE || bytes[m->group] > bytes[best]) best = m->group;
	}
	free(bytes);
	return best;
}

static int by_bytes(const void *a, const void *b) {
	const lk_stalls_size *x = a, *y = b;
	if (x->bytes != y->bytes) return x->bytes < y->bytes ? -1 : 1;
	return (x->seconds > y->seconds) - (x->seconds < y->seconds);
}

/* Calls of one size together: their median. `calls` are sorted by size and time. */
static lk_status join_sizes(struct sorter *s, lk_error *err) {
	for (size_t i = 0, end; i < s->calls.count; i = end) {
		for (end = i; end < s->calls.count && s->calls.at[end].bytes == s->calls.at[i].bytes; end++) {
		}
		if (!lk_push(&s->out->sizes)) return lk_oom(err);
		*lk_last(&s->out->sizes) = (lk_stalls_size){s->calls.at[i].bytes, (double)(end - i) / s->steps,
		                                            s->calls.at[i + (end - i) / 2].seconds};
	}
	return LK_OK;
}

static lk_status add_sizes(struct sorter *s, const lk_capture_steps *steps, int first, lk_error *err) {
	lk_status status;
	uint32_t group = busiest_group(s, err, &status);
	if (status != LK_OK || group == LK_NONE) return status;
	const lk_run_group *g = &s->traces->groups.at[group];
	snprintf(s->out->group, sizeof s->out->group, "%s", g->name);
	s->out->bucket_network = across_hosts(s, g);
	for (size_t i = 0; i < s->traces->matches.count; i++) {
		const lk_match *m = &s->traces->matches.at[i];
		const lk_match_member *member = &s->traces->members.at[m->begin];
		if (m->group != group || !is_bulk(m) || m->bytes <= 0 || m->end - m->begin < 2) continue;
		if (!in_window(s, member, steps, first)) continue;
		if (!lk_push(&s->calls)) return lk_oom(err);
		*lk_last(&s->calls) = (lk_stalls_size){(double)m->bytes, 1, transfer_of(s, m)};
	}
	if (s->calls.count) qsort(s->calls.at, s->calls.count, sizeof *s->calls.at, by_bytes);
	return join_sizes(s, err);
}

/* ---- all ---- */

static lk_status choose_steps(struct sorter *s, int warmup, int steps, lk_capture_steps *out, int *first, lk_error *err) {
	uint32_t count = 0;
	LK_TRY(lk_traced_common_steps(s->traces, &count, err));
	LK_TRY(lk_capture_find_steps(s->traces->capture[0], out, err));
	if (out->at[0].event == LK_NONE) return lk_fail(err, LK_ERR_INPUT, s->traces->capture[0]->path, "no steps were found");
	*first = warmup < (int)count ? warmup : 0;
	s->steps = (int)count - *first;
	if (steps > 0 && s->steps > steps) s->steps = steps;
	snprintf(s->window, sizeof s->window, "%d-%d", *first, *first + s->steps - 1);
	return LK_OK;
}

static lk_status sort_out(struct sorter *s, int warmup, int steps, lk_explanation **x, lk_error *err) {
	lk_capture_steps all = {0};
	lk_explain_request request;
	int first = 0;
	lk_explain_defaults(&request);
	lk_status status = find_hosts(s, err);
	if (status == LK_OK) status = choose_steps(s, warmup, steps, &all, &first, err);
	if (status == LK_OK) status = add_sizes(s, &all, first, err);
	lk_vec_free(&all);
	if (status != LK_OK) {
		lk_traces_free(s->traces);
		return status;
	}
	request.steps = s->window;
	s->out->ranks = (int)s->traces->count;
	LK_TRY(lk_explain_make(s->traces, &request, x, err));
	status = add_ranks(s, *x, err);
	lk_explain_free(*x);
	return status;
}

lk_status lk_stalls_see_comm(const char *folder, int warmup, int steps, lk_stalls_comm *out, lk_error *err) {
	static const lk_read_limits limits = {.shapes = false};
	lk_traces *traces;
	lk_explanation *x = NULL;
	*out = (lk_stalls_comm){0};
	LK_TRY(lk_traces_read(&folder, 1, &limits, 0, &traces, err));
	struct sorter s = {.traces = traces, .out = out, .host = calloc(traces->count + 1, sizeof *s.host),
	            .clock = calloc(traces->count + 1, sizeof *s.clock)};
	lk_status status = sort_out(&s, warmup, steps, &x, err);
	free(s.host);
	free(s.clock);
	lk_vec_free(&s.calls);
	return status;
}
