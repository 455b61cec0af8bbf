/* explain_kernels.c: the table of kernels over all ranks, like that of `nsys stats`. Ranks are
 * counted separately, then joined by name. */
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "explain/explain.h"
#include "base/check.h"
#include "base/sort.h"

const char *const lk_explain_types[] = {"COMPUTATION", "COMMUNICATION", "MEMORY", "HOST", NULL};

static bool kernels_add(lk_timed_list *list, uint64_t key, uint32_t item) {
	if (!lk_push(list)) return false;
	*lk_last(list) = (lk_timed){key, item};
	return true;
}

/* Without a device: outermost operations. */
static bool operations(const lk_rank_work *work, lk_timed_list *out) {
	const lk_capture *capture = work->capture;
	for (uint32_t i = 0; i < capture->count; i++) {
		if (capture->kind[i] != LK_EVENT_OP || !lk_in_windows(work, capture->start_ns[i])) continue;
		uint32_t above = capture->parent[i];
		while (above != LK_NONE && capture->kind[above] != LK_EVENT_OP)
			above = capture->parent[above];
		if (above == LK_NONE && !kernels_add(out, (uint64_t)capture->dur_ns[i], i)) return false;
	}
	return true;
}

static bool explain_all_kernels(const lk_rank_work *work, lk_timed_list *out) {
	if (!lk_reserve(out, work->device.count)) return false;
	for (size_t i = 0; i < work->device.count; i++) {
		uint32_t event = work->device.at[i];
		if (!lk_in_windows(work, work->capture->start_ns[event])) continue;
		lk_timed_put(out, (uint64_t)work->capture->dur_ns[event], event);
	}
	return true;
}

/* Sorts by name and, within a name, by duration. */
static bool kernels_by_name(const lk_capture *capture, lk_timed_list *list) {
	if (!lk_timed_sort(list->at, list->count)) return false;
	for (size_t i = 0; i < list->count; i++) list->at[i].key = capture->name[list->at[i].item];
	return lk_timed_sort(list->at, list->count);
}

lk_status lk_rank_durations(lk_rank_work *work, lk_error *err) {
	lk_timed_list list = {0};
	bool good = (work->device.count ? explain_all_kernels(work, &list) : operations(work, &list)) &&
	            kernels_by_name(work->capture, &list);
	return lk_timed_events(&list, &work->durations) && good ? LK_OK : lk_oom(err);
}

/* ---- all ranks ---- */

/* The durations of a name on one rank: `count` from `first` in that rank's list. */
struct run {
	uint32_t rank;
	size_t first, count;
};

struct joined {
	lk_intern *names;           /* of kernels, over all ranks */
	lk_timed_list runs_by_name; /* key: name; item: index in runs */
	LK_VEC(struct run) runs;
	lk_timed_list durations; /* of one name */
	LK_VEC(lk_explain_kernel) rows;
};

static int kernels_type_of(lk_rank_work *work, uint32_t event) {
	LK_ASSERT(event < work->capture->count);
	const lk_capture *capture = work->capture;
	if (capture->kind[event] == LK_EVENT_OP) return LK_WORK_HOST;
	if (capture->kind[event] != LK_EVENT_KERNEL) return LK_WORK_MEMORY;
	bool comm = (lk_name_class(work, capture->name[event]) & LK_NAME_COMM) ||
	            lk_capture_comm(capture, event);
	return comm ? LK_WORK_COMMUNICATION : LK_WORK_COMPUTATION;
}

static lk_status add_runs(struct joined *joined, const lk_rank_work *work, uint32_t rank,
                          lk_error *err) {
	LK_ASSERT(rank < work->traces->count);
	const lk_events *d = &work->durations;
	for (size_t first = 0, end; first < d->count; first = end) {
		uint32_t name = work->capture->name[d->at[first]];
		for (end = first; end < d->count && work->capture->name[d->at[end]] == name;) end++;
		uint32_t id = lk_intern_id(joined->names, lk_capture_text(work->capture, name));
		if (id == UINT32_MAX || !lk_push(&joined->runs)) return lk_oom(err);
		*lk_last(&joined->runs) = (struct run){rank, first, end - first};
		if (!kernels_add(&joined->runs_by_name, id, (uint32_t)joined->runs.count - 1))
			return lk_oom(err);
	}
	return LK_OK;
}

static lk_status kernels_add_row(struct joined *joined, lk_explain_work *work, size_t first,
                                 size_t end, lk_error *err) {
	joined->durations.count = 0;
	for (size_t i = first; i < end; i++) {
		const struct run *run = &joined->runs.at[joined->runs_by_name.at[i].item];
		if (!lk_reserve(&joined->durations, run->count)) return lk_oom(err);
		const lk_rank_work *rank = &work->rank[run->rank];
		for (size_t k = run->first; k < run->first + run->count; k++) {
			uint32_t event = rank->durations.at[k];
			lk_timed_put(&joined->durations, (uint64_t)rank->capture->dur_ns[event], event);
		}
	}
	if (!lk_timed_sort(joined->durations.at, joined->durations.count) || !lk_push(&joined->rows))
		return lk_oom(err);
	const struct run *run = &joined->runs.at[joined->runs_by_name.at[first].item];
	lk_explain_kernel *row = lk_last(&joined->rows);
	row->name = lk_arena_strdup(
		&work->arena, lk_intern_text(joined->names, (uint32_t)joined->runs_by_name.at[first].key));
	row->type =
		kernels_type_of(&work->rank[run->rank], work->rank[run->rank].durations.at[run->first]);
	row->time = lk_stats_of(joined->durations.at, joined->durations.count);
	return row->name ? LK_OK : lk_oom(err);
}

static int kernels_by_total(const void *a, const void *b) {
	const lk_explain_kernel *x = a, *y = b;
	if (x->time.total_ns != y->time.total_ns) return x->time.total_ns > y->time.total_ns ? -1 : 1;
	return strcmp(x->name, y->name);
}

static lk_status kernels_take_rows(struct joined *joined, lk_explain_work *work, lk_error *err) {
	double sum = 0;
	lk_explain_kernel *out = LK_ARRAY(&work->arena, lk_explain_kernel, joined->rows.count);
	if (!out) return lk_oom(err);
	lk_sort(joined->rows.at, joined->rows.count, sizeof *joined->rows.at, kernels_by_total);
	for (size_t i = 0; i < joined->rows.count; i++) sum += joined->rows.at[i].time.total_ns;
	for (size_t i = 0; i < joined->rows.count; i++) {
		out[i] = joined->rows.at[i];
		out[i].share = sum > 0 ? out[i].time.total_ns / sum : 0;
	}
	work->result.kernel = out;
	work->result.kernel_count = (int)joined->rows.count;
	return LK_OK;
}

static lk_status kernels_join(struct joined *joined, lk_explain_work *work, lk_error *err) {
	if (!joined->names) return lk_oom(err);
	for (uint32_t r = 0; r < work->count; r++)
		if (work->rank[r].shown) LK_TRY(add_runs(joined, &work->rank[r], r, err));
	lk_timed_list *runs = &joined->runs_by_name;
	if (!lk_timed_sort(runs->at, runs->count)) return lk_oom(err);
	for (size_t first = 0, end; first < runs->count; first = end) {
		for (end = first; end < runs->count && runs->at[end].key == runs->at[first].key;) end++;
		LK_TRY(kernels_add_row(joined, work, first, end, err));
	}
	return kernels_take_rows(joined, work, err);
}

lk_status lk_explain_kernels(lk_explain_work *work, lk_error *err) {
	struct joined j = {.names = lk_intern_new()};
	lk_status status = kernels_join(&j, work, err);
	lk_intern_free(j.names);
	lk_vec_free(&j.runs_by_name);
	lk_vec_free(&j.runs);
	lk_vec_free(&j.durations);
	lk_vec_free(&j.rows);
	for (uint32_t r = 0; r < work->count; r++) lk_vec_free(&work->rank[r].durations);
	return status;
}
