/* recorded_marks.c: the marks of a program as spans of its threads.
 *
 * A thread is in the mark that it began last of those that have not ended: spans do not overlap. A
 * mark that never ends lasts as long as its thread; an end without a begin counts for nothing. */
#include <string.h>

#include "base/sort.h"
#include "trace/read/recorded_internal.h"

/* Names of marks, and open marks among which an end finds its own: for hostile recordings. */
enum { MOST_NAMES = 256, SEARCHED = 64 };

LK_ORDER_BY(by_thread_and_time, lk_recorded_mark, thread, ns, order)

struct open_mark {
	int64_t domain;
	uint32_t name; /* index in run->mark_names */
};

struct marker {
	lk_recorded_run *run;
	LK_VEC(struct open_mark) open; /* of the current thread, the last one innermost */
	uint32_t others;               /* interned name of those above the limit */
	uint64_t thread;
	int64_t since; /* what is innermost since then */
};

/* The number of a name; those above the limit share the last one. */
static bool number_name(struct marker *marker, uint32_t name, uint32_t *out) {
	lk_recorded_run *run = marker->run;
	for (*out = 0; *out < run->mark_names.count; ++*out)
		if (run->mark_names.at[*out] == name) return true;
	if (run->mark_names.count == MOST_NAMES) {
		*out = MOST_NAMES - 1;
		return true;
	}
	if (!lk_push(&run->mark_names)) return false;
	*lk_last(&run->mark_names) = *out == MOST_NAMES - 1 ? marker->others : name;
	return true;
}

static bool add_span(struct marker *marker, int64_t to) {
	lk_recorded_run *run = marker->run;
	bool inside = marker->open.count && to > marker->since;
	if (inside && !lk_push(&run->spans)) return false;
	if (inside)
		*lk_last(&run->spans) =
			(lk_recorded_span){marker->thread, marker->since, to, lk_last(&marker->open)->name};
	marker->since = to;
	return true;
}

static void end_mark(struct marker *marker, int64_t domain) {
	size_t count = marker->open.count;
	for (size_t i = count; i > 0 && count - i < SEARCHED; i--) {
		if (marker->open.at[i - 1].domain != domain) continue;
		memmove(marker->open.at + i - 1, marker->open.at + i,
		        (count - i) * sizeof *marker->open.at);
		marker->open.count--;
		return;
	}
}

static bool begin_mark(struct marker *marker, const lk_recorded_mark *mark) {
	uint32_t name;
	if (!number_name(marker, mark->name, &name) || !lk_push(&marker->open)) return false;
	*lk_last(&marker->open) = (struct open_mark){mark->domain, name};
	return true;
}

static bool leave_thread(struct marker *marker) {
	bool good = add_span(marker, INT64_MAX);
	marker->open.count = 0;
	return good;
}

lk_status lk_recorded_span_marks(lk_recorded_run *run, lk_error *err) {
	struct marker m = {.run = run, .others = lk_intern_id(run->texts, LK_OTHER_MARKS)};
	bool good = m.others != UINT32_MAX;
	lk_sort(run->marks.at, run->marks.count, sizeof *run->marks.at, by_thread_and_time);
	for (size_t i = 0; good && i < run->marks.count; i++) {
		const lk_recorded_mark *mark = &run->marks.at[i];
		if (mark->thread != m.thread) good = leave_thread(&m);
		m.thread = mark->thread;
		good = good && add_span(&m, mark->ns);
		if (mark->name == LK_NONE) end_mark(&m, mark->domain);
		else good = good && begin_mark(&m, mark);
	}
	good = good && leave_thread(&m);
	lk_vec_free(&m.open);
	return good ? LK_OK : lk_oom(err);
}
