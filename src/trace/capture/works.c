/* works.c: the columns of an execution trace, and what finishing derives from them. */
#include "base/arena.h"
#include "trace/capture/works.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/sort.h"

enum { MOST_WARNINGS = 64 };

/* Every column of one value a work, X(type, name). */
/* clang-format off */
#define COLUMNS(X)                                                                                               \
	X(int64_t, id) X(uint32_t, name) X(uint8_t, kind) X(int64_t, parent_id) X(uint32_t, record) X(int64_t, sequence) \
	X(int64_t, thread) X(int64_t, start_ns) X(int64_t, duration_ns) X(uint32_t, shape) X(uint32_t, types)         \
	X(uint32_t, outputs) X(double, flops) X(double, bytes)
/* clang-format on */
/* Starts of lists, one more than there are works. */
#define BEGINS(X) X(uint32_t, tensor_begin) X(uint32_t, control_begin) X(uint32_t, data_begin)

lk_works *lk_works_new(const char *path, const char *format) {
	lk_works *works = calloc(1, sizeof *works);
	if (!works) return NULL;
	works->format = format;
	works->schema = "";
	works->rank = -1;
	works->names = lk_intern_new();
	works->path = lk_arena_strdup(&works->arena, path);
	if (works->names && works->path) return works;
	lk_works_free(works);
	return NULL;
}

void lk_works_free(lk_works *works) {
	if (!works) return;
#define FREE(type, column) free(works->column);
	COLUMNS(FREE)
	BEGINS(FREE)
#undef FREE
	free(works->parent);
	free(works->control);
	free(works->data);
	lk_vec_free(&works->tensors);
	lk_vec_free(&works->control_ids);
	lk_vec_free(&works->data_ids);
	lk_vec_free(&works->comms);
	lk_vec_free(&works->groups);
	lk_vec_free(&works->warnings);
	lk_intern_free(works->names);
	lk_arena_free(&works->arena);
	free(works);
}

static bool works_grow(lk_works *works) {
	uint64_t capacity = works->capacity ? works->capacity + works->capacity / 2 : 1u << 10;
	if (capacity >= LK_NONE) return false;
#define GROW(type, column)                                                            \
	{                                                                                 \
		type *grown = realloc(works->column, (capacity + 1) * sizeof *works->column); \
		if (!grown) return false;                                                     \
		works->column = grown;                                                        \
	}
	COLUMNS(GROW)
	BEGINS(GROW)
#undef GROW
	if (!works->count) works->tensor_begin[0] = works->control_begin[0] = works->data_begin[0] = 0;
	works->capacity = (uint32_t)capacity;
	return true;
}

uint32_t lk_works_add(lk_works *works, const lk_work *work) {
	if (works->count == works->capacity && !works_grow(works)) return LK_NONE;
	if (works->tensors.count >= LK_NONE || works->control_ids.count >= LK_NONE ||
	    works->data_ids.count >= LK_NONE)
		return LK_NONE;
	uint32_t i = works->count++;
#define SET(type, column) works->column[i] = (type)work->column;
	COLUMNS(SET)
#undef SET
	works->tensor_begin[i + 1] = (uint32_t)works->tensors.count;
	works->control_begin[i + 1] = (uint32_t)works->control_ids.count;
	works->data_begin[i + 1] = (uint32_t)works->data_ids.count;
	if (work->duration_ns >= 0) works->timed = true;
	return i;
}

void lk_works_warn(lk_works *works, const char *fmt, ...) {
	if (works->warnings.count >= MOST_WARNINGS) return;
	char text[400];
	va_list args;
	va_start(args, fmt);
	vsnprintf(text, sizeof text, fmt, args);
	va_end(args);
	const char *kept = lk_arena_printf(&works->arena, "W%zu: %s", works->warnings.count + 1, text);
	if (kept && lk_push(&works->warnings)) *lk_last(&works->warnings) = kept;
}

lk_status lk_works_name(lk_works *works, const lk_read_limits *limits, const char *text,
                        uint32_t *out, lk_error *err) {
	uint64_t most = limits->names ? limits->names : 16u << 20;
	*out = lk_intern_id(works->names, text);
	if (*out == UINT32_MAX) return lk_oom(err);
	if (*out < most) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, works->path, "holds over %llu different names and shapes",
	        (unsigned long long)most);
	return lk_hint(err, "raise the limit of names, or trace fewer steps");
}

lk_status lk_works_put(lk_works *works, const lk_read_limits *limits, const lk_work *work,
                       lk_error *err) {
	uint64_t most = limits->events ? limits->events : 1000000000;
	if (works->count < most) return lk_works_add(works, work) == LK_NONE ? lk_oom(err) : LK_OK;
	lk_fail(err, LK_ERR_INPUT, works->path, "holds over %llu works", (unsigned long long)most);
	return lk_hint(err, "raise the limit of events, or trace fewer steps");
}

/* ---- finishing ---- */

static int works_by_id(const void *a, const void *b, void *context) {
	const lk_works *works = context;
	uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
	return lk_by_i64(&works->id[i], &works->id[j]);
}

/* Put the lists of `begin` in the new order; elements of `list` have `size` bytes. */
static bool sort_lists(const lk_works *works, const uint32_t *order, uint32_t **begin, void **list,
                       size_t size) {
	uint32_t *begins = malloc(((size_t)works->capacity + 1) * sizeof *begins), used = 0;
	char *sorted = malloc(((size_t)(*begin)[works->count] + 1) * size);
	if (!begins || !sorted) {
		free(begins);
		free(sorted);
		return false;
	}
	for (uint32_t i = 0; i < works->count; i++) {
		uint32_t from = (*begin)[order[i]], count = (*begin)[order[i] + 1] - from;
		begins[i] = used;
		if (count) memcpy(sorted + used * size, (const char *)*list + from * size, count * size);
		used += count;
	}
	begins[works->count] = used;
	free(*begin);
	free(*list);
	*begin = begins;
	*list = sorted;
	return true;
}

static bool sort_columns(lk_works *works, const uint32_t *order) {
	int64_t *room = malloc(works->count * sizeof *room); /* as wide as the widest column */
	if (!room) return false;
#define SORT(type, column)                                                               \
	{                                                                                    \
		type *sorted = (type *)(void *)room;                                             \
		for (uint32_t i = 0; i < works->count; i++) sorted[i] = works->column[order[i]]; \
		memcpy(works->column, sorted, works->count * sizeof *sorted);                    \
	}
	COLUMNS(SORT)
#undef SORT
	free(room);
	return sort_lists(works, order, &works->tensor_begin, (void **)&works->tensors.at,
	                  sizeof *works->tensors.at) &&
	       sort_lists(works, order, &works->control_begin, (void **)&works->control_ids.at,
	                  sizeof *works->control_ids.at) &&
	       sort_lists(works, order, &works->data_begin, (void **)&works->data_ids.at,
	                  sizeof *works->data_ids.at);
}

LK_ORDER_BY(by_work, lk_work_comm, note.event)

static bool sort_works(lk_works *works) {
	uint32_t *order = malloc(works->count * sizeof *order),
			 *place = malloc(works->count * sizeof *place);
	bool good = order && place;
	for (uint32_t i = 0; good && i < works->count; i++) order[i] = i;
	if (good) {
		lk_sort_by(order, works->count, sizeof *order, works_by_id, works);
		good = sort_columns(works, order);
		for (uint32_t i = 0; i < works->count; i++) place[order[i]] = i;
		for (size_t i = 0; i < works->comms.count; i++)
			works->comms.at[i].note.event = place[works->comms.at[i].note.event];
		lk_sort(works->comms.at, works->comms.count, sizeof *works->comms.at, by_work);
	}
	free(order);
	free(place);
	return good;
}

uint32_t lk_works_find(const lk_works *works, int64_t id) {
	uint32_t low = 0, high = works->count;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		if (works->id[middle] < id) low = middle + 1;
		else high = middle;
	}
	return low < works->count && works->id[low] == id ? low : LK_NONE;
}

/* Replace ids of works by indices; ids that are not in the file are dropped and counted. */
static uint32_t *works_resolve(lk_works *works, uint32_t *begin, const int64_t *ids) {
	uint32_t *out = malloc(((size_t)begin[works->count] + 1) * sizeof *out), used = 0;
	for (uint32_t i = 0, at = 0; out && i < works->count; i++) {
		uint32_t end = begin[i + 1];
		for (begin[i] = used; at < end; at++) {
			uint32_t found = lk_works_find(works, ids[at]);
			if (found == LK_NONE || found == i) works->unresolved += found == LK_NONE;
			else out[used++] = found;
		}
	}
	LK_ASSERT(used <= begin[works->count]);
	begin[works->count] = used;
	return out;
}

/* Parents have smaller ids in every sound trace; other parents could make the nesting circular. */
static bool find_parents(lk_works *works) {
	uint64_t odd = 0;
	works->parent = malloc((works->count + 1) * sizeof *works->parent);
	for (uint32_t i = 0; works->parent && i < works->count; i++) {
		uint32_t found =
			works->parent_id[i] < 0 ? LK_NONE : lk_works_find(works, works->parent_id[i]);
		bool sound = found == LK_NONE || found < i;
		works->parent[i] = sound ? found : LK_NONE;
		odd += !sound && found != i; /* the root is its own parent */
	}
	if (odd)
		lk_works_warn(works,
		              "%llu nodes have a parent that began after them; they are kept without it",
		              (unsigned long long)odd);
	return works->parent;
}

/* Postcondition of finishing: works ordered by id, each after its parent; lists ordered by work. */
static void assert_finished_works(const lk_works *works) {
	for (uint32_t i = 0; i < works->count; i++) {
		LK_ASSERT(!i || works->id[i - 1] <= works->id[i]);
		LK_ASSERT(works->parent[i] == LK_NONE || works->parent[i] < i);
		LK_ASSERT(works->tensor_begin[i] <= works->tensor_begin[i + 1]);
		LK_ASSERT(works->control_begin[i] <= works->control_begin[i + 1]);
		LK_ASSERT(works->data_begin[i] <= works->data_begin[i + 1]);
	}
	LK_ASSERT(works->tensor_begin[works->count] == works->tensors.count);
	for (uint32_t i = 0; i < works->control_begin[works->count]; i++)
		LK_ASSERT(works->control[i] < works->count);
	for (uint32_t i = 0; i < works->data_begin[works->count]; i++)
		LK_ASSERT(works->data[i] < works->count);
}

lk_status lk_works_finish(lk_works *works, lk_error *err) {
	uint64_t twice = 0;
	if (!works->count && !works_grow(works)) return lk_oom(err);
	if (works->count && !sort_works(works)) return lk_oom(err);
	for (uint32_t i = 1; i < works->count; i++) twice += works->id[i] == works->id[i - 1];
	if (twice)
		lk_works_warn(works, "%llu nodes have an id that another node has",
		              (unsigned long long)twice);
	works->control = works_resolve(works, works->control_begin, works->control_ids.at);
	works->data = works_resolve(works, works->data_begin, works->data_ids.at);
	if (!works->control || !works->data || !find_parents(works)) return lk_oom(err);
	assert_finished_works(works);
	return LK_OK;
}

/* ---- queries ---- */

const lk_work_comm *lk_works_comm(const lk_works *works, uint32_t work) {
	lk_work_comm key = {.note.event = work};
	return works->comms.count
	           ? bsearch(&key, works->comms.at, works->comms.count, sizeof key, by_work)
	           : NULL;
}

bool lk_works_on_device(const lk_works *works, uint32_t work, bool *host) {
	bool device = works->kind[work] == LK_NODE_DEVICE;
	*host = false;
	for (uint32_t t = works->tensor_begin[work]; t < works->tensor_begin[work + 1]; t++) {
		const char *where = lk_works_text(works, works->tensors.at[t].device);
		if (strncmp(where, "cpu", 3) == 0) *host = true;
		else if (*where && strcmp(where, "meta") != 0) device = true;
	}
	return device;
}
