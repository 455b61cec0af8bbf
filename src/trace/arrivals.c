/* arrivals.c: arrivals at collectives on the common clock. An arrival is the start of the rank's kernel. */
#include "trace/arrivals.h"

#include <stdlib.h>

/* The three arrivals that matter. */
typedef struct order {
	int64_t first, second_last, last;
	uint32_t who;
} order;

static int64_t arrival(const lk_traces *t, lk_match_member m) {
	return lk_traces_time(t, m.capture, t->capture[m.capture]->start_ns[m.event]);
}

static order order_of(const lk_traces *t, const lk_match *m) {
	order o = {INT64_MAX, INT64_MIN, INT64_MIN, m->begin};
	for (uint32_t k = m->begin; k < m->end; k++) {
		int64_t at = arrival(t, t->members.at[k]);
		if (at < o.first) o.first = at;
		if (at > o.last) {
			o.second_last = o.last;
			o.last = at;
			o.who = k;
		} else if (at > o.second_last) o.second_last = at;
	}
	return o;
}

static void add(lk_arrival *a, const order *o, int64_t at, bool last) {
	double late = (double)at - (double)o->first;
	a->collectives++;
	a->late_ns += late;
	if (late > a->late_max_ns) a->late_max_ns = late;
	a->waited_ns += (double)o->last - (double)at;
	if (!last) return;
	a->last++;
	a->caused_ns += (double)o->last - (double)o->second_last;
}

static void count_match(const lk_traces *t, const lk_match *m, lk_arrivals *out, lk_arrival *of_group) {
	order o = order_of(t, m);
	double spread = (double)o.last - (double)o.first;
	out->collectives++;
	out->spread_ns += spread;
	if (spread > out->spread_max_ns) out->spread_max_ns = spread;
	for (uint32_t k = m->begin; k < m->end; k++) {
		uint32_t capture = t->members.at[k].capture;
		int64_t at = arrival(t, t->members.at[k]);
		add(&out->all.at[capture], &o, at, k == o.who);
		add(&of_group[capture], &o, at, k == o.who);
	}
}

static void make_mean(lk_arrival *a) {
	if (a->collectives) a->late_ns /= a->collectives;
}

/* Moves the rows of a group out of the scratch row of all captures. */
static lk_status close_group(const lk_traces *t, uint32_t group, lk_arrival *of_group, lk_arrivals *out,
							 lk_error *err) {
	const lk_run_group *g = &t->groups.at[group];
	for (uint32_t i = 0; i < g->count; i++) {
		lk_arrival *a = &of_group[g->captures[i]];
		if (a->collectives) {
			if (!lk_push(&out->by_group)) return lk_oom(err);
			make_mean(a);
			a->group = group;
			a->capture = g->captures[i];
			*lk_last(&out->by_group) = *a;
		}
		*a = (lk_arrival){0};
	}
	return LK_OK;
}

lk_status lk_arrivals_count(const lk_traces *t, lk_arrivals *out, lk_error *err) {
	*out = (lk_arrivals){0};
	lk_arrival *of_group = calloc((size_t)t->count + 1, sizeof *of_group);
	lk_status status = of_group ? LK_OK : lk_oom(err);
	for (uint32_t c = 0; c < t->count && status == LK_OK; c++) {
		if (!lk_push(&out->all)) status = lk_oom(err);
		else *lk_last(&out->all) = (lk_arrival){.group = LK_NONE, .capture = c};
	}
	for (size_t i = 0; i < t->matches.count && status == LK_OK; i++) {
		const lk_match *m = &t->matches.at[i];
		if (m->end - m->begin > 1) count_match(t, m, out, of_group);
		if (i + 1 == t->matches.count || t->matches.at[i + 1].group != m->group)
			status = close_group(t, m->group, of_group, out, err);
	}
	for (size_t i = 0; i < out->all.count; i++) make_mean(&out->all.at[i]);
	if (out->collectives) out->spread_ns /= out->collectives;
	free(of_group);
	if (status != LK_OK) lk_arrivals_free(out);
	return status;
}

void lk_arrivals_free(lk_arrivals *a) {
	lk_vec_free(&a->all);
	lk_vec_free(&a->by_group);
}
