/* sizes_read.c: sizes from text; what the text leaves open gets defaults or is drawn.
 *
 * Dims that must divide something are found by trying: small numbers first, then these times axes' sizes and the
 * constants of the conditions. */
#include <stdlib.h>
#include <string.h>

#include "base/stats.h"
#include "io/stream.h"
#include "base/text.h"
#include "lang/run/run.h"

enum {
	DEFAULT_ITEMS = 3,
	TRIES = 3000,
	TRIED_EXTENTS = 1 << 22, /* and no more of them in all, for long programs */
	FACTORS = 64,
	FILE_LIMIT = 1 << 21,  /* bytes of a file of sizes: LC_ITEMS lines of 32 */
	WORD = 256,            /* bytes of a name or number in the text */
};
#define MOST_DIM (1ll << 40)

struct reader {
	const lc_program *p;
	lc_sizes *s;
	const char *where;     /* of the number that is read */
	lk_error *err;
};

/* ---- names ---- */

static lk_status note_index(struct reader *r, const lc_group *g) {
	if (g->axis < 0 || !g->index) return LK_OK;
	for (size_t i = 0; i < r->s->indices.count; i++)
		if (strcmp(r->s->indices.at[i].name, g->index) == 0) return LK_OK;
	if (!lk_push(&r->s->indices)) return lk_oom(r->err);
	*lk_last(&r->s->indices) = (lc_index){g->index, -1};
	return LK_OK;
}

static lk_status note_indices(struct reader *r) {
	for (size_t i = 0; i < r->p->nodes.count; i++) {
		LK_TRY(note_index(r, &r->p->nodes.at[i].at));
		LK_TRY(note_index(r, &r->p->nodes.at[i].from));
	}
	return LK_OK;
}

static lc_index *index_of(const struct reader *r, const char *name) {
	for (size_t i = 0; i < r->s->indices.count; i++)
		if (strcmp(r->s->indices.at[i].name, name) == 0) return &r->s->indices.at[i];
	return NULL;
}

static lk_status unknown(const struct reader *r, const char *name) {
	const char *known[LC_SYMBOLS + LC_VALUES];
	size_t count = 0;
	for (int a = 0; a < r->p->axis_count; a++) known[count++] = r->p->axes[a].name;
	for (int d = 0; d < r->p->named_count; d++) known[count++] = r->p->named[d].name;
	for (size_t i = 0; i < r->s->indices.count && count < LC_SYMBOLS + LC_VALUES; i++)
		known[count++] = r->s->indices.at[i].name;
	const char *near = lk_nearest(name, known, count);
	lk_fail(r->err, LK_ERR_INPUT, "--sizes", "%s has no axis, dim or index %.64s", r->p->name, name);
	return near ? lk_hint(r->err, "do you mean %s?", near) : lk_hint(r->err, "write NAME=N,NAME=N,...");
}

/* ---- numbers ---- */

static lk_status number(const struct reader *r, const char *text, long long low, long long high, int64_t *out) {
	long long got;
	LK_TRY(lk_parse_int(text, low, high, &got, r->where, r->err));
	*out = got;
	return LK_OK;
}

static lk_status given_twice(const struct reader *r) {
	return lk_fail(r->err, LK_ERR_INPUT, r->where, "is given twice");
}

static lk_status read_axis(const struct reader *r, int a, const char *text) {
	if (r->s->symbol[a]) return given_twice(r);
	return number(r, text, 1, LC_RANKS, &r->s->symbol[a]);
}

typedef LK_VEC(int64_t) numbers;

static lk_status push_number(const struct reader *r, numbers *v, const char *begin, size_t length) {
	char word[WORD];
	if (length >= sizeof word) length = sizeof word - 1;
	memcpy(word, begin, length);
	word[length] = '\0';
	if (v->count == LC_ITEMS)
		return lk_fail(r->err, LK_ERR_INPUT, r->where, "a list has at most %d tensors", LC_ITEMS);
	if (!lk_push(v)) return lk_oom(r->err);
	return number(r, word, 1, MOST_DIM, lk_last(v));
}

static lk_status split_numbers(const struct reader *r, const char *text, numbers *v) {
	for (const char *at = text;; at++) {
		size_t length = strcspn(at, ":");
		LK_TRY(push_number(r, v, at, length));
		at += length;
		if (!*at) return LK_OK;
	}
}

static lk_status split_lines(const struct reader *r, const char *text, size_t size, numbers *v) {
	const char *end = text + size;
	for (const char *at = text; at < end; at++) {
		const char *stop = memchr(at, '\n', (size_t)(end - at));
		if (!stop) stop = end;
		const char *last = memchr(at, '#', (size_t)(stop - at));
		if (!last) last = stop;
		while (at < last && strchr(" \t\r", *at) && *at) at++;
		while (last > at && strchr(" \t\r", last[-1]) && last[-1]) last--;
		if (last > at) LK_TRY(push_number(r, v, at, (size_t)(last - at)));
		at = stop;
	}
	return v->count ? LK_OK : lk_fail(r->err, LK_ERR_INPUT, r->where, "the file holds no number");
}

static lk_status read_file(struct reader *r, const char *path, numbers *v) {
	char *text = NULL;
	size_t size = 0;
	LK_TRY(lk_stream_slurp(path, FILE_LIMIT, &text, &size, r->err));
	r->where = path;
	lk_status status = split_lines(r, text, size, v);
	free(text);
	return status;
}

static lk_status keep_list(const struct reader *r, int d, const numbers *v) {
	int list = r->p->named[d].list;
	if (r->s->items[list] && r->s->items[list] != (int64_t)v->count) {
		lk_fail(r->err, LK_ERR_INPUT, r->where, "%zu numbers, where another dim of %s has %lld", v->count,
				r->p->lists.at[list], (long long)r->s->items[list]);
		return lk_hint(r->err, "give every dim of a list one number per tensor");
	}
	r->s->each[d] = LK_ARRAY(&r->s->arena, int64_t, v->count);
	if (!r->s->each[d]) return lk_oom(r->err);
	memcpy(r->s->each[d], v->at, sizeof *v->at * v->count);
	r->s->items[list] = (int64_t)v->count;
	return LK_OK;
}

static lk_status read_dim(struct reader *r, int d, const char *text) {
	int64_t *one = &r->s->symbol[LC_AXES + d];
	if (*one || r->s->each[d]) return given_twice(r);
	if (r->p->named[d].list < 0) return number(r, text, 1, MOST_DIM, one);
	numbers v = {0};
	lk_status status = *text == '@' ? read_file(r, text + 1, &v) : split_numbers(r, text, &v);
	if (status == LK_OK) status = keep_list(r, d, &v);
	lk_vec_free(&v);
	return status;
}

static lk_status read_index(const struct reader *r, lc_index *index, const char *text) {
	if (index->value >= 0) return given_twice(r);
	return number(r, text, 0, LC_RANKS, &index->value);
}

/* ---- the text ---- */

/* "params.N" is N, if N is a dim of params. */
static const char *without_list(const struct reader *r, const char *name) {
	const char *dot = strchr(name, '.');
	int d = dot ? lc_dim_find(r->p, dot + 1) : -1, list = d < 0 ? -1 : r->p->named[d].list;
	if (list < 0 || strlen(r->p->lists.at[list]) != (size_t)(dot - name)) return name;
	return strncmp(r->p->lists.at[list], name, (size_t)(dot - name)) == 0 ? dot + 1 : name;
}

static lk_status read_pair(struct reader *r, char *pair) {
	char where[WORD];
	char *value = strchr(pair, '=');
	if (!value) {
		lk_fail(r->err, LK_ERR_INPUT, "--sizes", "\"%.64s\" is no size", pair);
		return lk_hint(r->err, "write NAME=N,NAME=N,...");
	}
	*value++ = '\0';
	const char *name = without_list(r, pair);
	snprintf(where, sizeof where, "--sizes: %.64s", name);
	r->where = where;
	int a = lc_axis_find(r->p, name), d = lc_dim_find(r->p, name);
	lc_index *index = index_of(r, name);
	lk_status status = a >= 0 ? read_axis(r, a, value) : d >= 0 ? read_dim(r, d, value)
					   : index ? read_index(r, index, value) : unknown(r, name);
	r->where = NULL;
	return status;
}

static lk_status read_text(struct reader *r, const char *text) {
	char *copy = lk_arena_strdup(&r->s->arena, text);
	if (!copy) return lk_oom(r->err);
	for (char *at = copy, *next; at; at = next) {
		next = strchr(at, ',');
		if (next) *next++ = '\0';
		if (*at || next) LK_TRY(read_pair(r, at));
	}
	return LK_OK;
}

/* ---- ranks, indices, lists: what the text leaves open ---- */

/* The lowest and the highest offset of groups by an index on an axis; by none: index NULL. False: there are none. */
static bool offsets(const lc_program *p, int axis, const char *index, int64_t *low, int64_t *high) {
	bool any = false;
	for (size_t i = 0; i < p->nodes.count; i++) {
		const lc_group *groups[] = {&p->nodes.at[i].at, &p->nodes.at[i].from};
		for (int k = 0; k < 2; k++) {
			const lc_group *g = groups[k];
			if (g->axis < 0 || (axis >= 0 && g->axis != axis) || !g->index != !index) continue;
			if (index && strcmp(index, g->index) != 0) continue;
			if (!any || g->offset < *low) *low = g->offset;
			if (!any || g->offset > *high) *high = g->offset;
			any = true;
		}
	}
	return any;
}

static void fill_indices(struct reader *r) {
	for (size_t i = 0; i < r->s->indices.count; i++) {
		lc_index *index = &r->s->indices.at[i];
		int64_t low = 0, high = 0;
		offsets(r->p, -1, index->name, &low, &high);
		if (index->value < 0) index->value = low < 0 ? -low : 0;
	}
}

/* How many ranks an axis must have, for the groups and roots on it. */
static int64_t needed(const struct reader *r, int axis) {
	int64_t most = 0, low, high;
	if (offsets(r->p, axis, NULL, &low, &high)) most = high;
	for (size_t i = 0; i < r->s->indices.count; i++) {
		const lc_index *index = &r->s->indices.at[i];
		if (offsets(r->p, axis, index->name, &low, &high) && high + index->value > most) most = high + index->value;
	}
	for (size_t i = 0; i < r->p->nodes.count; i++) {
		const lc_layout *l = &r->p->nodes.at[i].layout[axis];
		if (l->kind == LC_ROOT && l->root > most) most = l->root;
	}
	return most + 1;
}

static void fill_axes(struct reader *r, const int64_t axes[LC_AXES]) {
	for (int a = 0; a < r->p->axis_count; a++) {
		int64_t *ranks = &r->s->symbol[a], least = needed(r, a);
		if (!*ranks) *ranks = r->p->axes[a].size;
		if (!*ranks) *ranks = axes[a] > least ? axes[a] : least;
	}
}

/* ---- dims ---- */

/* Numbers that dims may have to be divisible by: axes' sizes, constants of the conditions. */
static int factors(const struct reader *r, int64_t out[FACTORS]) {
	int count = 0;
	for (int a = 0; a < r->p->axis_count; a++)
		if (r->s->symbol[a] > 1) out[count++] = r->s->symbol[a];
	for (size_t i = 0; i < r->p->conditions.count; i++) {
		const lc_dim_sum *by = &r->p->dims.at[r->p->conditions.at[i].divisor];
		int64_t constant = by->count == 1 ? by->terms[0].number : 1;
		if (constant > 1 && constant < LC_RANKS && count < FACTORS) out[count++] = constant;
	}
	return count;
}

/* A number for a dim: `plain` ones are what is tried first. */
static int64_t draw_dim(uint64_t seed, uint64_t counter, bool plain, const int64_t *factor, int factor_count) {
	uint64_t h = lk_hash64(seed ^ lk_hash64(counter));
	int64_t value = 1 + (int64_t)(h % 12);
	for (int i = 0; i < factor_count && !plain && value < LC_RANKS; i++)
		if (lk_hash64(h + (uint64_t)i) & 1) value *= factor[i];
	return value;
}

/* Small and different without a seed, so that mixed-up dims show: 6 5 7 4 8 ... */
static int64_t default_dim(int d) {
	static const int64_t first[] = {6, 5, 7, 4, 8, 3, 9};
	return first[d % 7];
}

static lk_status try_dims(struct reader *r, const bool open[LC_DIMS], uint64_t seed, int64_t attempt) {
	int64_t factor[FACTORS];
	int count = factors(r, factor);
	uint64_t of_try = lk_hash64(seed) + (uint64_t)attempt * LC_DIMS * (uint64_t)LC_ITEMS;
	bool plain = attempt % 4 == 0;
	for (int d = 0; d < r->p->named_count; d++) {
		int64_t *one = &r->s->symbol[LC_AXES + d];
		int list = r->p->named[d].list;
		if (!open[d]) continue;
		if (list < 0) {
			*one = seed || attempt ? draw_dim(of_try, (uint64_t)d, plain, factor, count) : default_dim(d);
			continue;
		}
		for (int64_t i = 0; i < r->s->items[list]; i++)
			r->s->each[d][i] = draw_dim(of_try, (uint64_t)(d + LC_DIMS * (i + 1)), plain, factor, count);
	}
	return lc_sizes_check(r->p, r->s, r->err);
}

static lk_status open_lists(struct reader *r, const bool open[LC_DIMS]) {
	for (size_t l = 0; l < r->p->lists.count; l++)
		if (!r->s->items[l]) r->s->items[l] = DEFAULT_ITEMS;
	for (int d = 0; d < r->p->named_count; d++) {
		if (!open[d] || r->p->named[d].list < 0) continue;
		r->s->each[d] = LK_ARRAY(&r->s->arena, int64_t, (size_t)r->s->items[r->p->named[d].list]);
		if (!r->s->each[d]) return lk_oom(r->err);
	}
	return LK_OK;
}

static lk_status fill_dims(struct reader *r, uint64_t seed) {
	bool open[LC_DIMS] = {false}, any = false;
	for (int d = 0; d < r->p->named_count; d++)
		any |= open[d] = !r->s->symbol[LC_AXES + d] && !r->s->each[d];
	LK_TRY(lc_sizes_check_mesh(r->p, r->s, r->err));
	LK_TRY(open_lists(r, open));
	if (!any) return lc_sizes_check(r->p, r->s, r->err);
	int64_t work = 1 + (int64_t)r->p->nodes.count, most = 1;
	for (size_t l = 0; l < r->p->lists.count; l++)
		if (r->s->items[l] > most) most = r->s->items[l];
	for (int64_t attempt = 0; attempt < TRIES && attempt * work * most < TRIED_EXTENTS; attempt++) {
		lk_status status = try_dims(r, open, seed, attempt);
		if (status == LK_OK || status != LK_ERR_INPUT) return status;
	}
	return lk_hint(r->err, "no sizes were found that fit; give them: --sizes NAME=N,...");
}

/* ---- in one ---- */

lk_status lc_sizes_draw(const lc_program *p, const char *text, const int64_t axes[LC_AXES], uint64_t seed,
						lc_sizes *out, lk_error *err) {
	struct reader r = {.p = p, .s = out, .err = err};
	memset(out, 0, sizeof *out);
	out->items = LK_ARRAY(&out->arena, int64_t, p->lists.count);
	if (!out->items) return lk_oom(err);
	LK_TRY(note_indices(&r));
	if (text && *text) LK_TRY(read_text(&r, text));
	fill_indices(&r);
	fill_axes(&r, axes);
	return fill_dims(&r, seed);
}

lk_status lc_sizes_read(const lc_program *p, const char *text, int64_t ranks, lc_sizes *out, lk_error *err) {
	int64_t axes[LC_AXES] = {0};
	if (p->axis_count) axes[p->axis_count - 1] = ranks;
	return lc_sizes_draw(p, text, axes, 0, out, err);
}
