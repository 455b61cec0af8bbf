/* tune_search.c: of all programs found so far, one that was not yet rewritten is, by every move that is legal: the fastest
 * of those that split, reorder, slice made, then the fastest of all. New programs (by hash) are timed. It ends when nothing
 * new is found, or after a number of programs. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lang/tune/tune.h"

enum { SEARCHED = 4, REFINED = 32 };

/* One program: how it came about, and itself while it waits to be rewritten. */
struct candidate {
	int parent;                 /* -1: the plain program */
	lc_directive last;          /* what made it of its parent */
	bool open;                  /* an overlap in chunks, of any number */
	int depth;
	lc_program *p;
	uint64_t hash;
	lk_timed time;
	int64_t chunks;             /* the best for overlaps that leave it open */
	bool expanded;
};

struct searcher {
	const lc_program *origin;
	const lk_search_options *o;
	lk_search *s;
	lk_constants constants;
	LK_VEC(struct candidate) all;
	int64_t nodes;
	int limit;
	double work;                /* as LK_TUNE_WORK counts it */
};

static double now_s(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- timing ---- */

static bool open_chunks(const lc_steps *steps) {
	for (int i = 0; i < steps->count; i++) {
		const lc_step *s = &steps->at[i];
		if (s->kind == LC_STEP_OVERLAP && s->chunk_dim >= 0 && s->list < 0 && !s->chunks && !s->ring) return true;
	}
	return false;
}

/* One number of chunks for all overlaps that leave it open: while searching SEARCHED, for the fastest all those of a list. */
static lk_status time_chunks(const struct searcher *x, const lc_steps *steps, const lc_sizes *sizes, bool all, lk_timed *best,
                             int64_t *chunks, lk_error *err) {
	static const int64_t tried[] = {2, SEARCHED, 8, 16};
	bool open = open_chunks(steps);
	*chunks = open ? SEARCHED : 0;
	LK_TRY(lk_time_steps(steps, sizes, x->o->cluster, &x->constants, *chunks, best, err));
	x->s->operations += best->operations;
	for (size_t i = 0; all && open && i < sizeof tried / sizeof *tried; i++) {
		lk_timed one;
		if (tried[i] == SEARCHED) continue;
		LK_TRY(lk_time_steps(steps, sizes, x->o->cluster, &x->constants, tried[i], &one, err));
		x->s->operations += one.operations;
		if (one.seconds < best->seconds) *best = one, *chunks = tried[i];
	}
	return LK_OK;
}

static lk_status time_program(const struct searcher *x, const lc_program *q, bool all, lk_timed *time, int64_t *chunks,
                              lk_error *err) {
	lc_sizes refined = {0};
	const lc_sizes *sizes = x->o->sizes;
	lc_steps *steps = NULL;
	lk_status status = LK_OK;
	if (q->axis_count != x->origin->axis_count) {
		status = lc_sizes_refine(x->origin, sizes, q, &refined, err);
		sizes = &refined;
	}
	if (status == LK_OK) status = lc_steps_make(q, &steps, err);
	if (status == LK_OK) status = time_chunks(x, steps, sizes, all, time, chunks, err);
	lc_steps_free(steps);
	if (sizes == &refined) lc_sizes_free(&refined);
	return status;
}

/* ---- candidates ---- */

static bool seen(const struct searcher *x, uint64_t hash) {
	for (size_t i = 0; i < x->all.count; i++)
		if (x->all.at[i].hash == hash) return true;
	return false;
}

/* Takes the program: it is kept or freed. A program that cannot become steps is none. */
static lk_status consider(struct searcher *x, lc_program *q, int parent, const lc_directive *d, bool open, lk_error *err) {
	struct candidate c = {.parent = parent, .p = q, .hash = lc_program_hash(q), .open = open};
	if (d) c.last = *d, c.depth = x->all.at[parent].depth + 1;
	lk_status status = LK_OK;
	if (seen(x, c.hash)) x->s->known++;
	else if ((status = time_program(x, q, false, &c.time, &c.chunks, err)) == LK_ERR_INPUT && d) x->s->refused++;
	else if (status == LK_OK) {
		x->s->looked++;
		if (!lk_push(&x->all)) status = lk_oom(err);
		else *lk_last(&x->all) = c, q = NULL;
	}
	lc_program_free(q);
	return status == LK_ERR_INPUT && d ? LK_OK : status;
}

static lk_status try_move(struct searcher *x, int from, lc_directive *d, lk_error *err) {
	bool open = d->kind == LC_OVERLAP && d->chunks > 0 && !d->order;
	if (open) d->chunks = 0;
	lc_program *q = NULL;
	lk_error why;
	double values = (double)x->all.at[from].p->nodes.count;
	x->work += values * values;
	lk_status status = lc_rewrite(x->all.at[from].p, d, &q, &why);
	if (status == LK_OK) return consider(x, q, from, d, open, err);
	if (status != LK_ERR_INPUT) return *err = why, status;
	x->s->refused++;
	return LK_OK;
}

/* The same overlap in other numbers of chunks is one move here: all numbers are timed, and the best is kept. */
static bool same_but_chunks(const lc_directive *a, const lc_directive *b) {
	if (a->kind != LC_OVERLAP || b->kind != LC_OVERLAP || a->order != b->order || a->name_count != b->name_count) return false;
	if (strcmp(a->chunk, b->chunk) != 0) return false;
	for (int i = 0; i < a->name_count; i++)
		if (strcmp(a->names[i].text, b->names[i].text) != 0) return false;
	return true;
}

static bool enough(const struct searcher *x) {
	if (x->o->programs > 0) return x->s->looked >= x->limit;
	return x->s->looked >= x->limit || x->s->operations >= LK_TUNE_OPERATIONS || x->work >= LK_TUNE_WORK;
}

static lk_status expand(struct searcher *x, int from, lk_error *err) {
	lc_moves moves = {0};
	lk_status status = lc_rewrite_moves(x->all.at[from].p, x->nodes, &moves, err);
	size_t i = 0;
	for (; i < moves.count && status == LK_OK && !enough(x); i++) {
		if (i && same_but_chunks(&moves.at[i], &moves.at[i - 1])) continue;
		status = try_move(x, from, &moves.at[i], err);
	}
	x->s->capped |= i < moves.count;
	lk_vec_free(&moves);
	x->all.at[from].expanded = true;
	lc_program_free(x->all.at[from].p);
	x->all.at[from].p = NULL;
	return status;
}

/* Faster; of equally fast ones the simpler, then the earlier. */
static bool before(const struct candidate *a, const struct candidate *b) {
	if (a->time.seconds != b->time.seconds) return a->time.seconds < b->time.seconds;
	return a->depth < b->depth;
}

/* Made by what changes which values are computed. Those are few, and open ways whose gain shows later (a sliced state
 * gains by what is fused then), so all of them are looked at before anything that only runs values together. */
static bool rewritten(const struct candidate *c) {
	return c->depth == 0 || c->last.kind == LC_SPLIT || c->last.kind == LC_REORDER || c->last.kind == LC_SLICE_STATE ||
	       c->last.kind == LC_HIERARCHICAL;
}

static bool sooner(const struct candidate *a, const struct candidate *b) {
	return rewritten(a) != rewritten(b) ? rewritten(a) : before(a, b);
}

static int next_candidate(const struct searcher *x) {
	int best = -1;
	for (size_t i = 0; i < x->all.count; i++)
		if (!x->all.at[i].expanded && (best < 0 || sooner(&x->all.at[i], &x->all.at[best]))) best = (int)i;
	return best;
}

/* ---- results ---- */

static lk_status found_of(struct searcher *x, int id, int64_t chunks, lk_found *out, lk_error *err) {
	const struct candidate *c = &x->all.at[id];
	lc_directive *list = LK_ARRAY(&x->s->arena, lc_directive, (size_t)c->depth + 1);
	if (!list) return lk_oom(err);
	*out = (lk_found){.schedule = {.name = "best", .directives = list, .count = c->depth}, .hash = c->hash, .time = c->time};
	for (int i = id; x->all.at[i].parent >= 0; i = x->all.at[i].parent) {
		lc_directive *d = &list[x->all.at[i].depth - 1];
		*d = x->all.at[i].last;
		if (x->all.at[i].open) d->chunks = chunks;
	}
	return LK_OK;
}

/* The fastest, with the best number of chunks for their overlaps. */
static lk_status refine(struct searcher *x, struct candidate *c, int id, lk_error *err) {
	lk_found open;
	lc_program *q = NULL;
	if (!c->chunks) return LK_OK;
	LK_TRY(found_of(x, id, 0, &open, err));
	LK_TRY(lc_rewrite_all(x->origin, &open.schedule, &q, err));
	lk_status status = time_program(x, q, true, &c->time, &c->chunks, err);
	lc_program_free(q);
	return status;
}

static int compare(const void *a, const void *b) {
	const struct candidate *x = *(struct candidate *const *)a, *y = *(struct candidate *const *)b;
	if (x->time.seconds != y->time.seconds) return x->time.seconds < y->time.seconds ? -1 : 1;
	if (x->depth != y->depth) return x->depth < y->depth ? -1 : 1;
	return x < y ? -1 : x > y;
}

static lk_status collect(struct searcher *x, lk_error *err) {
	size_t count = x->all.count;
	struct candidate **order = LK_ARRAY(&x->s->arena, struct candidate *, count);
	if (!order || !lk_reserve(&x->s->found, count)) return lk_oom(err);
	for (size_t i = 0; i < count; i++) order[i] = &x->all.at[i];
	qsort(order, count, sizeof *order, compare);
	for (size_t i = 0; i < count && i < REFINED; i++) LK_TRY(refine(x, order[i], (int)(order[i] - x->all.at), err));
	qsort(order, count, sizeof *order, compare);
	for (size_t i = 0; i < count; i++) {
		lk_found *out = &x->s->found.at[x->s->found.count++];
		LK_TRY(found_of(x, (int)(order[i] - x->all.at), order[i]->chunks, out, err));
		if (order[i] == &x->all.at[0]) x->s->plain = *out, x->s->plain_hash = out->hash;
	}
	return LK_OK;
}

static lk_status search(struct searcher *x, lk_error *err) {
	lc_program *plain = NULL;
	LK_TRY(lc_rewrite_all(x->origin, NULL, &plain, err));
	LK_TRY(consider(x, plain, -1, NULL, false, err));
	for (int next; !x->o->only_plain && (next = next_candidate(x)) >= 0;) {
		if (enough(x)) {
			x->s->capped = true;
			break;
		}
		LK_TRY(expand(x, next, err));
	}
	return collect(x, err);
}

static void open_search(struct searcher *x, const lc_program *p, const lk_search_options *o, lk_search *out) {
	*out = (lk_search){0};
	*x = (struct searcher){.origin = p, .o = o, .s = out, .limit = o->programs > 0 ? o->programs : LK_TUNE_PROGRAMS};
	lk_timed_constants(&x->constants);
	int64_t node = o->cluster->node[0].gpus;
	if (lc_ranks(p, o->sizes) > node && node > 1) x->nodes = node;
}

lk_status lk_search_run(const lc_program *p, const lk_search_options *o, lk_search *out, lk_error *err) {
	struct searcher x;
	double begin = now_s();
	open_search(&x, p, o, out);
	lk_status status = search(&x, err);
	for (size_t i = 0; i < x.all.count; i++) lc_program_free(x.all.at[i].p);
	lk_vec_free(&x.all);
	out->seconds = now_s() - begin;
	return status;
}

lk_status lk_search_time(const lc_program *p, const lc_schedule *s, const lk_search_options *o, lk_found *out, lk_error *err) {
	struct searcher x;
	lk_search unused;
	lc_program *q = NULL;
	int64_t chunks;
	open_search(&x, p, o, &unused);
	*out = (lk_found){.schedule = *s};
	LK_TRY(lc_rewrite_all(p, s, &q, err));
	out->hash = lc_program_hash(q);
	lk_status status = time_program(&x, q, false, &out->time, &chunks, err);
	lc_program_free(q);
	return status;
}

void lk_search_free(lk_search *s) {
	lk_vec_free(&s->found);
	lk_arena_free(&s->arena);
}
