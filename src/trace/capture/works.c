/* works.c: the columns of an execution trace, and what is made of them when all works are there. */
#include "trace/capture/works.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"

enum {
	MOST_WARNINGS = 64
};

/* Every column of one value a work, X(type, name). */
/* clang-format off */
#define COLUMNS(X)                                                                                               \
	X(int64_t, id) X(uint32_t, name) X(uint8_t, kind) X(int64_t, parent_id) X(uint32_t, record) X(int64_t, sequence) \
	X(int64_t, thread) X(int64_t, start_ns) X(int64_t, duration_ns) X(uint32_t, shape) X(uint32_t, types)         \
	X(uint32_t, outputs) X(double, flops) X(double, bytes)
/* clang-format on */
/* Begins of lists, one more than there are works. */
#define BEGINS(X) X(uint32_t, tensor_begin) X(uint32_t, control_begin) X(uint32_t, data_begin)

lk_works *lk_works_new(const char *path, const char *format) {
	lk_works *w = calloc(1, sizeof *w);
	if (!w) return NULL;
	w->format = format;
	w->schema = "";
	w->rank = -1;
	w->names = lk_intern_new();
	w->path = lk_arena_strdup(&w->arena, path);
	if (w->names && w->path) return w;
	lk_works_free(w);
	return NULL;
}

void lk_works_free(lk_works *w) {
	if (!w) return;
#define FREE(type, column) free(w->column);
	COLUMNS(FREE)
	BEGINS(FREE)
#undef FREE
	free(w->parent);
	free(w->control);
	free(w->data);
	lk_vec_free(&w->tensors);
	lk_vec_free(&w->control_ids);
	lk_vec_free(&w->data_ids);
	lk_vec_free(&w->comms);
	lk_vec_free(&w->groups);
	lk_vec_free(&w->warnings);
	lk_intern_free(w->names);
	lk_arena_free(&w->arena);
	free(w);
}

static bool works_grow(lk_works *w) {
	uint64_t capacity = w->capacity ? w->capacity + w->capacity / 2 : 1u << 10;
	if (capacity >= LK_NONE) return false;
#define GROW(type, column)                                                    \
	{                                                                         \
		type *grown = realloc(w->column, (capacity + 1) * sizeof *w->column); \
		if (!grown) return false;                                             \
		w->column = grown;                                                    \
	}
	COLUMNS(GROW)
	BEGINS(GROW)
#undef GROW
	if (!w->count) w->tensor_begin[0] = w->control_begin[0] = w->data_begin[0] = 0;
	w->capacity = (uint32_t)capacity;
	return true;
}

uint32_t lk_works_add(lk_works *w, const lk_work *work) {
	if (w->count == w->capacity && !works_grow(w)) return LK_NONE;
	if (w->tensors.count >= LK_NONE || w->control_ids.count >= LK_NONE ||
	    w->data_ids.count >= LK_NONE)
		return LK_NONE;
	uint32_t i = w->count++;
#define SET(type, column) w->column[i] = (type)work->column;
	COLUMNS(SET)
#undef SET
	w->tensor_begin[i + 1] = (uint32_t)w->tensors.count;
	w->control_begin[i + 1] = (uint32_t)w->control_ids.count;
	w->data_begin[i + 1] = (uint32_t)w->data_ids.count;
	if (work->duration_ns >= 0) w->timed = true;
	return i;
}

void lk_works_warn(lk_works *w, const char *fmt, ...) {
	if (w->warnings.count >= MOST_WARNINGS) return;
	char text[400];
	va_list args;
	va_start(args, fmt);
	vsnprintf(text, sizeof text, fmt, args);
	va_end(args);
	const char *kept = lk_arena_printf(&w->arena, "W%zu: %s", w->warnings.count + 1, text);
	if (kept && lk_push(&w->warnings)) *lk_last(&w->warnings) = kept;
}

lk_status lk_works_name(lk_works *w, const lk_read_limits *limits, const char *text, uint32_t *out,
                        lk_error *err) {
	uint64_t most = limits->names ? limits->names : 16u << 20;
	*out = lk_intern_id(w->names, text);
	if (*out == UINT32_MAX) return lk_oom(err);
	if (*out < most) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, w->path, "holds over %llu different names and shapes",
	        (unsigned long long)most);
	return lk_hint(err, "raise the limit of names, or trace fewer steps");
}

lk_status lk_works_put(lk_works *w, const lk_read_limits *limits, const lk_work *work,
                       lk_error *err) {
	uint64_t most = limits->events ? limits->events : 1000000000;
	if (w->count < most) return lk_works_add(w, work) == LK_NONE ? lk_oom(err) : LK_OK;
	lk_fail(err, LK_ERR_INPUT, w->path, "holds over %llu works", (unsigned long long)most);
	return lk_hint(err, "raise the limit of events, or trace fewer steps");
}

/* ---- finishing ---- */

static int works_by_id(const void *a, const void *b, void *context) {
	const lk_works *w = context;
	uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
	if (w->id[i] != w->id[j]) return w->id[i] < w->id[j] ? -1 : 1;
	return i < j ? -1 : i > j;
}

/* The lists of `begin` in the new order: `list` has elements of `size`. */
static bool sort_lists(const lk_works *w, const uint32_t *order, uint32_t **begin, void **list,
                       size_t size) {
	uint32_t *begins = malloc(((size_t)w->capacity + 1) * sizeof *begins), used = 0;
	char *sorted = malloc(((size_t)(*begin)[w->count] + 1) * size);
	if (!begins || !sorted) {
		free(begins);
		free(sorted);
		return false;
	}
	for (uint32_t i = 0; i < w->count; i++) {
		uint32_t from = (*begin)[order[i]], count = (*begin)[order[i] + 1] - from;
		begins[i] = used;
		if (count) memcpy(sorted + used * size, (const char *)*list + from * size, count * size);
		used += count;
	}
	begins[w->count] = used;
	free(*begin);
	free(*list);
	*begin = begins;
	*list = sorted;
	return true;
}

static bool sort_columns(lk_works *w, const uint32_t *order) {
	int64_t *room = malloc(w->count * sizeof *room); /* of the widest column */
	if (!room) return false;
#define SORT(type, column)                                                       \
	{                                                                            \
		type *sorted = (type *)(void *)room;                                     \
		for (uint32_t i = 0; i < w->count; i++) sorted[i] = w->column[order[i]]; \
		memcpy(w->column, sorted, w->count * sizeof *sorted);                    \
	}
	COLUMNS(SORT)
#undef SORT
	free(room);
	return sort_lists(w, order, &w->tensor_begin, (void **)&w->tensors.at, sizeof *w->tensors.at) &&
	       sort_lists(w, order, &w->control_begin, (void **)&w->control_ids.at,
	                  sizeof *w->control_ids.at) &&
	       sort_lists(w, order, &w->data_begin, (void **)&w->data_ids.at, sizeof *w->data_ids.at);
}

static int by_work(const void *a, const void *b) {
	const lk_work_comm *x = a, *y = b;
	return x->note.event < y->note.event ? -1 : x->note.event > y->note.event;
}

static bool sort_works(lk_works *w) {
	uint32_t *order = malloc(w->count * sizeof *order), *place = malloc(w->count * sizeof *place);
	bool good = order && place;
	for (uint32_t i = 0; good && i < w->count; i++) order[i] = i;
	if (good) {
		qsort_r(order, w->count, sizeof *order, works_by_id, w);
		good = sort_columns(w, order);
		for (uint32_t i = 0; i < w->count; i++) place[order[i]] = i;
		for (size_t i = 0; i < w->comms.count; i++)
			w->comms.at[i].note.event = place[w->comms.at[i].note.event];
		if (w->comms.count) qsort(w->comms.at, w->comms.count, sizeof *w->comms.at, by_work);
	}
	free(order);
	free(place);
	return good;
}

uint32_t lk_works_find(const lk_works *w, int64_t id) {
	uint32_t low = 0, high = w->count;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		if (w->id[middle] < id) low = middle + 1;
		else high = middle;
	}
	return low < w->count && w->id[low] == id ? low : LK_NONE;
}

/* Ids of works as indices; what is not in the file is left out, and counted. */
static uint32_t *works_resolve(lk_works *w, uint32_t *begin, const int64_t *ids) {
	uint32_t *out = malloc(((size_t)begin[w->count] + 1) * sizeof *out), used = 0;
	for (uint32_t i = 0, at = 0; out && i < w->count; i++) {
		uint32_t end = begin[i + 1];
		for (begin[i] = used; at < end; at++) {
			uint32_t found = lk_works_find(w, ids[at]);
			if (found == LK_NONE || found == i) w->unresolved += found == LK_NONE;
			else out[used++] = found;
		}
	}
	LK_ASSERT(used <= begin[w->count]);
	begin[w->count] = used;
	return out;
}

/* Parents have smaller ids in every sound trace; those that have not would make the nesting go
 * round in circles. */
static bool find_parents(lk_works *w) {
	uint64_t odd = 0;
	w->parent = malloc((w->count + 1) * sizeof *w->parent);
	for (uint32_t i = 0; w->parent && i < w->count; i++) {
		uint32_t found = w->parent_id[i] < 0 ? LK_NONE : lk_works_find(w, w->parent_id[i]);
		bool sound = found == LK_NONE || found < i;
		w->parent[i] = sound ? found : LK_NONE;
		odd += !sound && found != i; /* the root is its own parent */
	}
	if (odd)
		lk_works_warn(w, "%llu nodes have a parent that began after them; they are kept without it",
		              (unsigned long long)odd);
	return w->parent;
}

/* What finishing promises: works by id, each after its parent; lists of one work after
 * those of the one before. */
static void assert_finished_works(const lk_works *w) {
	for (uint32_t i = 0; i < w->count; i++) {
		LK_ASSERT(!i || w->id[i - 1] <= w->id[i]);
		LK_ASSERT(w->parent[i] == LK_NONE || w->parent[i] < i);
		LK_ASSERT(w->tensor_begin[i] <= w->tensor_begin[i + 1]);
		LK_ASSERT(w->control_begin[i] <= w->control_begin[i + 1]);
		LK_ASSERT(w->data_begin[i] <= w->data_begin[i + 1]);
	}
	LK_ASSERT(w->tensor_begin[w->count] == w->tensors.count);
	for (uint32_t i = 0; i < w->control_begin[w->count]; i++) LK_ASSERT(w->control[i] < w->count);
	for (uint32_t i = 0; i < w->data_begin[w->count]; i++) LK_ASSERT(w->data[i] < w->count);
}

lk_status lk_works_finish(lk_works *w, lk_error *err) {
	uint64_t twice = 0;
	if (!w->count && !works_grow(w)) return lk_oom(err);
	if (w->count && !sort_works(w)) return lk_oom(err);
	for (uint32_t i = 1; i < w->count; i++) twice += w->id[i] == w->id[i - 1];
	if (twice)
		lk_works_warn(w, "%llu nodes have an id that another node has", (unsigned long long)twice);
	w->control = works_resolve(w, w->control_begin, w->control_ids.at);
	w->data = works_resolve(w, w->data_begin, w->data_ids.at);
	if (!w->control || !w->data || !find_parents(w)) return lk_oom(err);
	assert_finished_works(w);
	return LK_OK;
}

/* ---- asking ---- */

const lk_work_comm *lk_works_comm(const lk_works *w, uint32_t work) {
	lk_work_comm key = {.note.event = work};
	return w->comms.count ? bsearch(&key, w->comms.at, w->comms.count, sizeof key, by_work) : NULL;
}

bool lk_works_on_device(const lk_works *w, uint32_t work, bool *host) {
	bool device = w->kind[work] == LK_NODE_DEVICE;
	*host = false;
	for (uint32_t t = w->tensor_begin[work]; t < w->tensor_begin[work + 1]; t++) {
		const char *where = lk_works_text(w, w->tensors.at[t].device);
		if (strncmp(where, "cpu", 3) == 0) *host = true;
		else if (*where && strcmp(where, "meta") != 0) device = true;
	}
	return device;
}
