/* sizes_read.c: sizes from text; what the text leaves open gets defaults or is drawn.
 *
 * Dims that must divide something are found by trying: small numbers first, then these times axes'
 * sizes and the constants of the conditions. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/stats.h"
#include "io/stream.h"
#include "base/text.h"
#include "lang/run/run.h"
#include "base/check.h"

enum {
	DEFAULT_ITEMS = 3,
	TRIES = 3000,
	TRIED_EXTENTS = 1 << 22, /* in total, for long programs */
	FACTORS = 64,
	FILE_LIMIT = 1 << 21,     /* bytes of a file of sizes: LC_ITEMS lines of 32 */
	WORD = 256,               /* bytes of a name or number in the text */
	SMALLEST = 2,             /* largest drawn dim, if more would make large tensors */
	DRAWN_ELEMENTS = 1 << 18, /* tensors up to this many elements need not be smaller */
};
#define MOST_DIM (1ll << 40)

struct reader {
	const lc_program *p;
	lc_sizes *s;
	const char *where; /* of the current number */
	lk_error *err;
};

/* ---- names ---- */

static lk_status note_index(struct reader *reader, const lc_group *group) {
	if (group->axis < 0 || !group->index) return LK_OK;
	for (size_t i = 0; i < reader->s->indices.count; i++)
		if (strcmp(reader->s->indices.at[i].name, group->index) == 0) return LK_OK;
	if (!lk_push(&reader->s->indices)) return lk_oom(reader->err);
	*lk_last(&reader->s->indices) = (lc_index){group->index, -1};
	return LK_OK;
}

static lk_status note_indices(struct reader *reader) {
	for (size_t i = 0; i < reader->p->nodes.count; i++) {
		LK_TRY(note_index(reader, &reader->p->nodes.at[i].at));
		LK_TRY(note_index(reader, &reader->p->nodes.at[i].from));
	}
	return LK_OK;
}

static lc_index *index_of(const struct reader *reader, const char *name) {
	for (size_t i = 0; i < reader->s->indices.count; i++)
		if (strcmp(reader->s->indices.at[i].name, name) == 0) return &reader->s->indices.at[i];
	return NULL;
}

static lk_status sizes_read_unknown(const struct reader *reader, const char *name) {
	const char *known[LC_SYMBOLS + LC_VALUES];
	size_t count = 0;
	for (int a = 0; a < reader->p->axis_count; a++) known[count++] = reader->p->axes[a].name;
	for (int d = 0; d < reader->p->named_count; d++) known[count++] = reader->p->named[d].name;
	for (size_t i = 0; i < reader->s->indices.count && count < LC_SYMBOLS + LC_VALUES; i++)
		known[count++] = reader->s->indices.at[i].name;
	const char *near = lk_nearest(name, known, count);
	lk_fail(reader->err, LK_ERR_INPUT, "--sizes", "%s has no axis, dim or index %.64s",
	        reader->p->name, name);
	return near ? lk_hint(reader->err, "do you mean %s?", near)
	            : lk_hint(reader->err, "write NAME=N,NAME=N,...");
}

/* ---- numbers ---- */

static lk_status sizes_read_number(const struct reader *reader, const char *text, long long low,
                                   long long high, int64_t *out) {
	long long got;
	LK_TRY(lk_parse_int(text, low, high, &got, reader->where, reader->err));
	*out = got;
	return LK_OK;
}

static lk_status given_twice(const struct reader *reader) {
	return lk_fail(reader->err, LK_ERR_INPUT, reader->where, "is given twice");
}

static lk_status read_axis(const struct reader *reader, int a, const char *text) {
	if (reader->s->symbol[a]) return given_twice(reader);
	return sizes_read_number(reader, text, 1, LC_RANKS, &reader->s->symbol[a]);
}

typedef LK_VEC(int64_t) numbers;

static lk_status push_number(const struct reader *reader, numbers *v, const char *begin,
                             size_t length) {
	char word[WORD];
	if (length >= sizeof word) length = sizeof word - 1;
	memcpy(word, begin, length);
	word[length] = '\0';
	if (v->count == LC_ITEMS)
		return lk_fail(reader->err, LK_ERR_INPUT, reader->where, "a list has at most %d tensors",
		               LC_ITEMS);
	if (!lk_push(v)) return lk_oom(reader->err);
	return sizes_read_number(reader, word, 1, MOST_DIM, lk_last(v));
}

static lk_status split_numbers(const struct reader *reader, const char *text, numbers *v) {
	for (const char *at = text;; at++) {
		size_t length = strcspn(at, ":");
		LK_TRY(push_number(reader, v, at, length));
		at += length;
		if (!*at) return LK_OK;
	}
}

static lk_status split_lines(const struct reader *reader, const char *text, size_t size,
                             numbers *v) {
	const char *end = text + size;
	for (const char *at = text; at < end; at++) {
		const char *stop = memchr(at, '\n', (size_t)(end - at));
		if (!stop) stop = end;
		const char *last = memchr(at, '#', (size_t)(stop - at));
		if (!last) last = stop;
		while (at < last && strchr(" \t\r", *at) && *at) at++;
		while (last > at && strchr(" \t\r", last[-1]) && last[-1]) last--;
		if (last > at) LK_TRY(push_number(reader, v, at, (size_t)(last - at)));
		at = stop;
	}
	return v->count ? LK_OK
	                : lk_fail(reader->err, LK_ERR_INPUT, reader->where, "the file holds no number");
}

static lk_status sizes_read_file(struct reader *reader, const char *path, numbers *v) {
	char *text = NULL;
	size_t size = 0;
	LK_TRY(lk_stream_slurp(path, FILE_LIMIT, &text, &size, reader->err));
	reader->where = path;
	lk_status status = split_lines(reader, text, size, v);
	free(text);
	return status;
}

static lk_status keep_list(const struct reader *reader, int d, const numbers *v) {
	int list = reader->p->named[d].list;
	if (reader->s->items[list] && reader->s->items[list] != (int64_t)v->count) {
		lk_fail(reader->err, LK_ERR_INPUT, reader->where,
		        "%zu numbers, where another dim of %s has %lld", v->count,
		        reader->p->lists.at[list], (long long)reader->s->items[list]);
		return lk_hint(reader->err, "give every dim of a list one number per tensor");
	}
	reader->s->each[d] = LK_ARRAY(&reader->s->arena, int64_t, v->count);
	if (!reader->s->each[d]) return lk_oom(reader->err);
	memcpy(reader->s->each[d], v->at, sizeof *v->at * v->count);
	reader->s->items[list] = (int64_t)v->count;
	return LK_OK;
}

static lk_status read_dim(struct reader *reader, int d, const char *text) {
	int64_t *one = &reader->s->symbol[LC_AXES + d];
	if (*one || reader->s->each[d]) return given_twice(reader);
	if (reader->p->named[d].list < 0) return sizes_read_number(reader, text, 1, MOST_DIM, one);
	numbers v = {0};
	lk_status status =
		*text == '@' ? sizes_read_file(reader, text + 1, &v) : split_numbers(reader, text, &v);
	if (status == LK_OK) status = keep_list(reader, d, &v);
	lk_vec_free(&v);
	return status;
}

static lk_status read_index(const struct reader *reader, lc_index *index, const char *text) {
	if (index->value >= 0) return given_twice(reader);
	return sizes_read_number(reader, text, 0, LC_RANKS, &index->value);
}

/* ---- the text ---- */

/* "params.N" is N, if N is a dim of params. */
static const char *without_list(const struct reader *reader, const char *name) {
	const char *dot = strchr(name, '.');
	int d = dot ? lc_dim_find(reader->p, dot + 1) : -1,
		list = d < 0 ? -1 : reader->p->named[d].list;
	if (list < 0 || strlen(reader->p->lists.at[list]) != (size_t)(dot - name)) return name;
	return strncmp(reader->p->lists.at[list], name, (size_t)(dot - name)) == 0 ? dot + 1 : name;
}

static lk_status read_pair(struct reader *reader, char *pair) {
	char where[WORD];
	char *value = strchr(pair, '=');
	if (!value) {
		lk_fail(reader->err, LK_ERR_INPUT, "--sizes", "\"%.64s\" is not a size", pair);
		return lk_hint(reader->err, "write NAME=N,NAME=N,...");
	}
	*value++ = '\0';
	const char *name = without_list(reader, pair);
	snprintf(where, sizeof where, "--sizes: %.64s", name);
	reader->where = where;
	int a = lc_axis_find(reader->p, name), d = lc_dim_find(reader->p, name);
	lc_index *index = index_of(reader, name);
	lk_status status;
	if (a >= 0) status = read_axis(reader, a, value);
	else if (d >= 0) status = read_dim(reader, d, value);
	else if (index) status = read_index(reader, index, value);
	else status = sizes_read_unknown(reader, name);
	reader->where = NULL;
	return status;
}

static lk_status sizes_read_text(struct reader *reader, const char *text) {
	char *copy = lk_arena_strdup(&reader->s->arena, text);
	if (!copy) return lk_oom(reader->err);
	for (char *at = copy, *next; at; at = next) {
		next = strchr(at, ',');
		if (next) *next++ = '\0';
		if (*at || next) LK_TRY(read_pair(reader, at));
	}
	return LK_OK;
}

/* ---- ranks, indices, lists: defaults ---- */

/* The lowest and the highest offset of groups by an index on an axis; without an index: NULL.
 * False: no such groups. */
static bool offsets(const lc_program *program, int axis, const char *index, int64_t *low,
                    int64_t *high) {
	bool any = false;
	for (size_t i = 0; i < program->nodes.count; i++) {
		const lc_group *groups[] = {&program->nodes.at[i].at, &program->nodes.at[i].from};
		for (int k = 0; k < 2; k++) {
			const lc_group *group = groups[k];
			if (group->axis < 0 || (axis >= 0 && group->axis != axis) || !group->index != !index)
				continue;
			if (index && strcmp(index, group->index) != 0) continue;
			if (!any || group->offset < *low) *low = group->offset;
			if (!any || group->offset > *high) *high = group->offset;
			any = true;
		}
	}
	return any;
}

static void fill_indices(struct reader *reader) {
	for (size_t i = 0; i < reader->s->indices.count; i++) {
		lc_index *index = &reader->s->indices.at[i];
		int64_t low = 0, high = 0;
		offsets(reader->p, -1, index->name, &low, &high);
		if (index->value < 0) index->value = low < 0 ? -low : 0;
	}
}

/* The ranks that an axis must have, for the groups and roots on it. */
static int64_t needed(const struct reader *reader, int axis) {
	LK_ASSERT(axis >= 0 && axis < reader->p->axis_count);
	int64_t most = 0, low, high;
	if (offsets(reader->p, axis, NULL, &low, &high)) most = high;
	for (size_t i = 0; i < reader->s->indices.count; i++) {
		const lc_index *index = &reader->s->indices.at[i];
		if (offsets(reader->p, axis, index->name, &low, &high) && high + index->value > most)
			most = high + index->value;
	}
	for (size_t i = 0; i < reader->p->nodes.count; i++) {
		const lc_layout *layout = &reader->p->nodes.at[i].layout[axis];
		if (layout->kind == LC_ROOT && layout->root > most) most = layout->root;
	}
	return most + 1;
}

static void fill_axes(struct reader *reader, const int64_t axes[LC_AXES]) {
	for (int a = 0; a < reader->p->axis_count; a++) {
		int64_t *ranks = &reader->s->symbol[a], least = needed(reader, a);
		if (!*ranks) *ranks = reader->p->axes[a].size;
		if (!*ranks) *ranks = axes[a] > least ? axes[a] : least;
	}
}

/* ---- dims ---- */

/* Factors that dims may need: axes' sizes, constants of the conditions. */
static int factors(const struct reader *reader, int64_t out[FACTORS]) {
	int count = 0;
	for (int a = 0; a < reader->p->axis_count; a++)
		if (reader->s->symbol[a] > 1) out[count++] = reader->s->symbol[a];
	for (size_t i = 0; i < reader->p->conditions.count; i++) {
		const lc_dim_sum *by = &reader->p->dims.at[reader->p->conditions.at[i].divisor];
		int64_t constant = by->count == 1 ? by->terms[0].number : 1;
		if (constant > 1 && constant < LC_RANKS && count < FACTORS) out[count++] = constant;
	}
	return count;
}

/* Draw a number for a dim, up to `range` times factors; `plain` ones are tried first. */
static int64_t draw_dim(uint64_t seed, uint64_t counter, bool plain, uint64_t range,
                        const int64_t *factor, int factor_count) {
	uint64_t h = lk_hash64(seed ^ lk_hash64(counter));
	int64_t value = 1 + (int64_t)(h % range);
	for (int i = 0; i < factor_count && !plain && value < LC_RANKS; i++)
		if (lk_hash64(h + (uint64_t)i) & 1) value *= factor[i];
	return value;
}

/* Small and different without a seed, so that mixed-up dims show: 6 5 7 4 8 ... */
static int64_t default_dim(int d) {
	static const int64_t first[] = {6, 5, 7, 4, 8, 3, 9};
	return first[d % 7];
}

static lk_status try_dims(struct reader *reader, const bool open[LC_DIMS], uint64_t seed,
                          int64_t attempt, uint64_t range) {
	int64_t factor[FACTORS];
	int count = factors(reader, factor);
	uint64_t of_try = lk_hash64(seed) + (uint64_t)attempt * LC_DIMS * (uint64_t)LC_ITEMS;
	bool plain = attempt % 4 == 0;
	for (int d = 0; d < reader->p->named_count; d++) {
		int64_t *one = &reader->s->symbol[LC_AXES + d];
		int list = reader->p->named[d].list;
		if (!open[d]) continue;
		if (list < 0) {
			*one = seed || attempt ? draw_dim(of_try, (uint64_t)d, plain, range, factor, count)
			                       : default_dim(d);
			continue;
		}
		for (int64_t i = 0; i < reader->s->items[list]; i++)
			reader->s->each[d][i] =
				draw_dim(of_try, (uint64_t)(d + LC_DIMS * (i + 1)), plain, range, factor, count);
	}
	LK_TRY(lc_sizes_lay_out(reader->p, reader->s, reader->err));
	return lc_sizes_check(reader->p, reader->s, reader->err);
}

static lk_status open_lists(struct reader *reader, const bool open[LC_DIMS]) {
	for (size_t l = 0; l < reader->p->lists.count; l++)
		if (!reader->s->items[l]) reader->s->items[l] = DEFAULT_ITEMS;
	for (int d = 0; d < reader->p->named_count; d++) {
		if (!open[d] || reader->p->named[d].list < 0) continue;
		reader->s->each[d] = LK_ARRAY(&reader->s->arena, int64_t,
		                              (size_t)reader->s->items[reader->p->named[d].list]);
		if (!reader->s->each[d]) return lk_oom(reader->err);
	}
	return LK_OK;
}

/* Elements of the largest tensor. */
static double largest(const struct reader *reader) {
	double most = 0;
	for (size_t i = 0; i < reader->p->nodes.count; i++) {
		const lc_node *node = &reader->p->nodes.at[i];
		for (int64_t item = 0; item < lc_items(reader->p, reader->s, node); item++) {
			int64_t whole[LC_RANK];
			double all = 1;
			if (lc_whole_shape(reader->p, node, reader->s, item, whole, NULL) != LK_OK)
				return INFINITY;
			for (int d = 0; d < node->rank; d++) all *= (double)whole[d];
			most = fmax(most, all);
		}
	}
	return most;
}

static lk_status fill_dims(struct reader *reader, uint64_t seed) {
	bool open[LC_DIMS] = {false}, any = false;
	for (int d = 0; d < reader->p->named_count; d++)
		any |= open[d] = !reader->s->symbol[LC_AXES + d] && !reader->s->each[d];
	LK_TRY(lc_sizes_check_mesh(reader->p, reader->s, reader->err));
	LK_TRY(open_lists(reader, open));
	LK_TRY(lc_sizes_lay_out(reader->p, reader->s, reader->err));
	if (!any) return lc_sizes_check(reader->p, reader->s, reader->err);
	int64_t work = 1 + (int64_t)reader->p->nodes.count, most = 1, fits = -1;
	uint64_t range = 12, fits_range = range;
	for (size_t l = 0; l < reader->p->lists.count; l++)
		if (reader->s->items[l] > most) most = reader->s->items[l];
	for (int64_t attempt = 0; attempt < TRIES && attempt * work * most < TRIED_EXTENTS; attempt++) {
		lk_status status = try_dims(reader, open, seed, attempt, range);
		if (status == LK_OK) {
			if (range == SMALLEST || largest(reader) <= DRAWN_ELEMENTS) return LK_OK;
			fits = attempt; /* try less: many dims make a large tensor */
			fits_range = range;
			range = range / 2 > SMALLEST ? range / 2 : SMALLEST;
		} else if (status != LK_ERR_INPUT) return status;
	}
	if (fits >= 0) return try_dims(reader, open, seed, fits, fits_range);
	return lk_hint(reader->err, "no sizes were found that fit; give them: --sizes NAME=N,...");
}

/* ---- entry points ---- */

lk_status lc_sizes_draw(const lc_program *program, const char *text, const int64_t axes[LC_AXES],
                        uint64_t seed, lc_sizes *out, lk_error *err) {
	struct reader r = {.p = program, .s = out, .err = err};
	memset(out, 0, sizeof *out);
	out->items = LK_ARRAY(&out->arena, int64_t, program->lists.count);
	if (!out->items) return lk_oom(err);
	LK_TRY(note_indices(&r));
	if (text && *text) LK_TRY(sizes_read_text(&r, text));
	fill_indices(&r);
	fill_axes(&r, axes);
	return fill_dims(&r, seed);
}

lk_status lc_sizes_read(const lc_program *program, const char *text, int64_t ranks, lc_sizes *out,
                        lk_error *err) {
	int64_t axes[LC_AXES] = {0};
	if (program->axis_count) axes[program->axis_count - 1] = ranks;
	return lc_sizes_draw(program, text, axes, 0, out, err);
}
