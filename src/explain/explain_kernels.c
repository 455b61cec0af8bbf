/* explain_kernels.c: the table of kernels over all ranks, as `nsys stats` has it. Ranks are counted on their own, then
 * joined by name. */
#include <stdlib.h>
#include <string.h>

#include "explain/explain.h"

const char *const lk_explain_types[] = {"COMPUTATION", "COMMUNICATION", "MEMORY", "HOST", NULL};

static bool add(lk_timed_list *list, uint64_t key, uint32_t item) {
	if (!lk_push(list)) return false;
	*lk_last(list) = (lk_timed){key, item};
	return true;
}

/* Without a device, the operations that no other encloses. */
static bool operations(lk_rank_work *w) {
	const lk_capture *c = w->c;
	for (uint32_t i = 0; i < c->count; i++) {
		if (c->kind[i] != LK_EVENT_OP || !lk_in_windows(w, c->start_ns[i])) continue;
		uint32_t above = c->parent[i];
		while (above != LK_NONE && c->kind[above] != LK_EVENT_OP) above = c->parent[above];
		if (above == LK_NONE && !add(&w->durations, (uint64_t)c->dur_ns[i], i)) return false;
	}
	return true;
}

static bool kernels(lk_rank_work *w) {
	if (!lk_reserve(&w->durations, w->device.count)) return false;
	for (size_t i = 0; i < w->device.count; i++) {
		uint32_t event = w->device.at[i].item;
		if (!lk_in_windows(w, w->c->start_ns[event])) continue;
		lk_timed_put(&w->durations, (uint64_t)w->c->dur_ns[event], event);
	}
	return true;
}

/* Sorts by name and, within a name, by duration. */
static bool by_name(lk_rank_work *w) {
	lk_timed_list *d = &w->durations;
	if (!lk_timed_sort(d->at, d->count)) return false;
	for (size_t i = 0; i < d->count; i++) d->at[i].key = w->c->name[d->at[i].item];
	if (!lk_timed_sort(d->at, d->count)) return false;
	for (size_t i = 0; i < d->count; i++) d->at[i].key = (uint64_t)w->c->dur_ns[d->at[i].item];
	return true;
}

lk_status lk_rank_durations(lk_rank_work *w, lk_error *err) {
	bool good = (w->device.count ? kernels(w) : operations(w)) && by_name(w);
	return good ? LK_OK : lk_oom(err);
}

/* ---- all ranks ---- */

/* The durations of a name on one rank: `count` from `first` in that rank's list. */
struct run {
	uint32_t rank;
	size_t first, count;
};

struct joined {
	lk_intern *names;        /* of kernels, of the run */
	lk_timed_list runs_by_name; /* key: name; item: index in runs */
	LK_VEC(struct run) runs;
	lk_timed_list durations; /* of one name */
	LK_VEC(lk_explain_kernel) rows;
};

static int type_of(lk_rank_work *w, uint32_t event) {
	const lk_capture *c = w->c;
	if (c->kind[event] == LK_EVENT_OP) return LK_WORK_HOST;
	if (c->kind[event] != LK_EVENT_KERNEL) return LK_WORK_MEMORY;
	bool comm = (lk_name_class(w, c->name[event]) & LK_NAME_COMM) || lk_capture_comm(c, event);
	return comm ? LK_WORK_COMMUNICATION : LK_WORK_COMPUTATION;
}

static lk_status add_runs(struct joined *j, const lk_rank_work *w, uint32_t rank, lk_error *err) {
	const lk_timed_list *d = &w->durations;
	for (size_t first = 0, end; first < d->count; first = end) {
		uint32_t name = w->c->name[d->at[first].item];
		for (end = first; end < d->count && w->c->name[d->at[end].item] == name;) end++;
		uint32_t id = lk_intern_id(j->names, lk_capture_text(w->c, name));
		if (id == UINT32_MAX || !lk_push(&j->runs)) return lk_oom(err);
		*lk_last(&j->runs) = (struct run){rank, first, end - first};
		if (!add(&j->runs_by_name, id, (uint32_t)j->runs.count - 1)) return lk_oom(err);
	}
	return LK_OK;
}

static lk_status add_row(struct joined *j, lk_explain_work *w, size_t first, size_t end, lk_error *err) {
	j->durations.count = 0;
	for (size_t i = first; i < end; i++) {
		const struct run *r = &j->runs.at[j->runs_by_name.at[i].item];
		if (!lk_reserve(&j->durations, r->count)) return lk_oom(err);
		memcpy(j->durations.at + j->durations.count, w->rank[r->rank].durations.at + r->first,
			   r->count * sizeof(lk_timed));
		j->durations.count += r->count;
	}
	if (!lk_timed_sort(j->durations.at, j->durations.count) || !lk_push(&j->rows)) return lk_oom(err);
	const struct run *r = &j->runs.at[j->runs_by_name.at[first].item];
	lk_explain_kernel *row = lk_last(&j->rows);
	row->name = lk_arena_strdup(&w->arena, lk_intern_text(j->names, (uint32_t)j->runs_by_name.at[first].key));
	row->type = type_of(&w->rank[r->rank], w->rank[r->rank].durations.at[r->first].item);
	row->time = lk_stats_of(j->durations.at, j->durations.count);
	return row->name ? LK_OK : lk_oom(err);
}

static int by_total(const void *a, const void *b) {
	const lk_explain_kernel *x = a, *y = b;
	if (x->time.total_ns != y->time.total_ns) return x->time.total_ns > y->time.total_ns ? -1 : 1;
	return strcmp(x->name, y->name);
}

static lk_status take_rows(struct joined *j, lk_explain_work *w, lk_error *err) {
	double sum = 0;
	lk_explain_kernel *out = LK_ARRAY(&w->arena, lk_explain_kernel, j->rows.count);
	if (!out) return lk_oom(err);
	if (j->rows.count) qsort(j->rows.at, j->rows.count, sizeof *j->rows.at, by_total);
	for (size_t i = 0; i < j->rows.count; i++) sum += j->rows.at[i].time.total_ns;
	for (size_t i = 0; i < j->rows.count; i++) {
		out[i] = j->rows.at[i];
		out[i].share = sum > 0 ? out[i].time.total_ns / sum : 0;
	}
	w->result.kernel = out;
	w->result.kernel_count = (int)j->rows.count;
	return LK_OK;
}

static lk_status join(struct joined *j, lk_explain_work *w, lk_error *err) {
	if (!j->names) return lk_oom(err);
	for (uint32_t r = 0; r < w->count; r++)
		if (w->rank[r].shown) LK_TRY(add_runs(j, &w->rank[r], r, err));
	lk_timed_list *runs = &j->runs_by_name;
	if (!lk_timed_sort(runs->at, runs->count)) return lk_oom(err);
	for (size_t first = 0, end; first < runs->count; first = end) {
		for (end = first; end < runs->count && runs->at[end].key == runs->at[first].key;) end++;
		LK_TRY(add_row(j, w, first, end, err));
	}
	return take_rows(j, w, err);
}

lk_status lk_explain_kernels(lk_explain_work *w, lk_error *err) {
	struct joined j = {.names = lk_intern_new()};
	lk_status status = join(&j, w, err);
	lk_intern_free(j.names);
	lk_vec_free(&j.runs_by_name);
	lk_vec_free(&j.runs);
	lk_vec_free(&j.durations);
	lk_vec_free(&j.rows);
	return status;
}
