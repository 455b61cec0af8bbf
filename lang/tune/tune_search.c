/* tune_search.c: repeatedly takes a program that was not yet rewritten and applies every legal
 * move: first the fastest of those made by split, reorder, slice, then the fastest of all. New
 * programs (by hash) are timed. The search ends when nothing new is found, or after a number of
 * programs. */
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "system/clock.h"
#include "lang/tune/tune.h"
#include "base/check.h"
#include "base/sort.h"

/* TILES: pieces of one kernel on a GPU, which cost no launch each; more gain little. */
enum { SEARCHED = 4, TILES = 16, REFINED = 32 };

/* A program: how it was made, and itself until it is rewritten. */
struct candidate {
	int parent;        /* -1: the plain program */
	lc_directive last; /* the directive that made it from its parent */
	bool open;         /* has an overlap with an open number of chunks */
	int depth;
	lc_program *p;
	uint64_t hash;
	lk_timed time;
	int64_t chunks; /* the best for overlaps that leave it open */
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
	double work; /* see LK_TUNE_WORK */
};

/* ---- timing ---- */

static bool open_chunks(const lc_steps *steps) {
	for (int i = 0; i < steps->count; i++) {
		const lc_step *step = &steps->at[i];
		if (step->kind == LC_STEP_OVERLAP && step->chunk_dim >= 0 && step->list < 0 &&
		    !step->chunks && !step->ring)
			return true;
	}
	return false;
}

/* Time the steps with one number of chunks for all overlaps that leave it open: SEARCHED during the
 * search, TILES on GPUs, for the fastest ones all numbers of a list. */
static lk_status time_chunks(const struct searcher *searcher, const lc_steps *steps,
                             const lc_sizes *sizes, bool all, lk_timed *best, int64_t *chunks,
                             lk_error *err) {
	static const int64_t tried[] = {2, SEARCHED, 8, TILES};
	bool open = open_chunks(steps);
	int64_t first = searcher->o->cluster->node[0].device->arch == LK_ARCH_CPU ? SEARCHED : TILES;
	*chunks = open ? first : 0;
	LK_TRY(lk_time_steps(steps, sizes, searcher->o->cluster, searcher->o->messages,
	                     &searcher->constants, *chunks, best, err));
	searcher->s->operations += best->operations;
	for (size_t i = 0; all && open && i < sizeof tried / sizeof *tried; i++) {
		lk_timed one;
		if (tried[i] == first) continue;
		LK_TRY(lk_time_steps(steps, sizes, searcher->o->cluster, searcher->o->messages,
		                     &searcher->constants, tried[i], &one, err));
		searcher->s->operations += one.operations;
		if (one.seconds < best->seconds) {
			*best = one;
			*chunks = tried[i];
		}
	}
	return LK_OK;
}

/* Make the steps; on processors with passes joined. *joined: must be freed, after the steps. */
static lk_status search_steps(const struct searcher *searcher, const lc_program *program,
                              lc_program **joined, lc_steps **steps, lk_error *err) {
	*joined = NULL;
	if (searcher->o->cluster->node[0].device->arch != LK_ARCH_CPU)
		return lc_steps_make(program, steps, err);
	LK_TRY(lc_rewrite_all(program, NULL, joined, err));
	return lc_steps_joined(*joined, joined, steps, err);
}

static lk_status time_program(const struct searcher *searcher, const lc_program *program, bool all,
                              lk_timed *time, int64_t *chunks, lk_error *err) {
	lc_sizes refined = {0};
	const lc_sizes *sizes = searcher->o->sizes;
	lc_program *joined = NULL;
	lc_steps *steps = NULL;
	lk_status status = LK_OK;
	if (program->axis_count != searcher->origin->axis_count) {
		status = lc_sizes_refine(searcher->origin, sizes, program, &refined, err);
		sizes = &refined;
	}
	if (status == LK_OK) status = search_steps(searcher, program, &joined, &steps, err);
	if (status == LK_OK) status = time_chunks(searcher, steps, sizes, all, time, chunks, err);
	lc_steps_free(steps);
	lc_program_free(joined);
	if (sizes == &refined) lc_sizes_free(&refined);
	return status;
}

/* ---- candidates ---- */

static bool search_seen(const struct searcher *searcher, uint64_t hash) {
	for (size_t i = 0; i < searcher->all.count; i++)
		if (searcher->all.at[i].hash == hash) return true;
	return false;
}

/* Consider a program: it is kept or freed. A program that cannot become steps is dropped. */
static lk_status search_consider(struct searcher *searcher, lc_program *program, int parent,
                                 const lc_directive *directive, bool open, lk_error *err) {
	struct candidate c = {
		.parent = parent, .p = program, .hash = lc_program_hash(program), .open = open};
	if (directive) {
		c.last = *directive;
		c.depth = searcher->all.at[parent].depth + 1;
	}
	lk_status status = LK_OK;
	if (search_seen(searcher, c.hash)) searcher->s->known++;
	else if ((status = time_program(searcher, program, false, &c.time, &c.chunks, err)) ==
	             LK_ERR_INPUT &&
	         directive)
		searcher->s->refused++;
	else if (status == LK_OK) {
		searcher->s->looked++;
		if (!lk_push(&searcher->all)) status = lk_oom(err);
		else {
			*lk_last(&searcher->all) = c;
			program = NULL;
		}
	}
	lc_program_free(program);
	return status == LK_ERR_INPUT && directive ? LK_OK : status;
}

static lk_status try_move(struct searcher *searcher, int from, lc_directive *directive,
                          lk_error *err) {
	bool open = directive->kind == LC_OVERLAP && directive->chunks > 0 && !directive->order;
	if (open) directive->chunks = 0;
	lc_program *program = NULL;
	lk_error why;
	double values = (double)searcher->all.at[from].p->nodes.count;
	searcher->work += values * values;
	lk_status status = lc_rewrite(searcher->all.at[from].p, directive, &program, &why);
	if (status == LK_OK) return search_consider(searcher, program, from, directive, open, err);
	if (status != LK_ERR_INPUT) return lk_fail_as(err, &why);
	searcher->s->refused++;
	return LK_OK;
}

/* The same overlap with other numbers of chunks counts as one move: all numbers are timed, and the
 * best is kept. */
static bool same_but_chunks(const lc_directive *a, const lc_directive *b) {
	if (a->kind != LC_OVERLAP || b->kind != LC_OVERLAP || a->order != b->order ||
	    a->name_count != b->name_count)
		return false;
	if (strcmp(a->chunk, b->chunk) != 0) return false;
	for (int i = 0; i < a->name_count; i++)
		if (strcmp(a->names[i].text, b->names[i].text) != 0) return false;
	return true;
}

static bool tune_ends(const struct searcher *searcher) {
	const char *reached = lk_cutoff_reached(searcher->o->cutoff);
	if (reached) searcher->s->cut_off = reached;
	return reached;
}

static bool enough(const struct searcher *searcher) {
	if (tune_ends(searcher)) return true;
	if (searcher->o->programs > 0) return searcher->s->looked >= searcher->limit;
	return searcher->s->looked >= searcher->limit ||
	       searcher->s->operations >= LK_TUNE_OPERATIONS || searcher->work >= LK_TUNE_WORK;
}

static lk_status search_expand(struct searcher *searcher, int from, lk_error *err) {
	lc_moves moves = {0};
	lk_status status = lc_rewrite_moves(searcher->all.at[from].p, searcher->nodes, &moves, err);
	size_t i = 0;
	for (; i < moves.count && status == LK_OK && !enough(searcher); i++) {
		if (i && same_but_chunks(&moves.at[i], &moves.at[i - 1])) continue;
		status = try_move(searcher, from, &moves.at[i], err);
	}
	searcher->s->capped |= i < moves.count;
	if (searcher->o->progress)
		searcher->o->progress(searcher->o->progress_context, 0, searcher->s->looked,
		                      searcher->limit);
	lk_vec_free(&moves);
	searcher->all.at[from].expanded = true;
	lc_program_free(searcher->all.at[from].p);
	searcher->all.at[from].p = NULL;
	return status;
}

/* Faster first; of equally fast ones the simpler, then the earlier. */
static bool search_before(const struct candidate *a, const struct candidate *b) {
	if (a->time.seconds != b->time.seconds) return a->time.seconds < b->time.seconds;
	return a->depth < b->depth;
}

/* Whether it was made by a directive that changes which values are computed. There are few of them,
 * and their gain may show later (a sliced state gains from later fusing), so all are tried before
 * those that only bundle values. */
static bool rewritten(const struct candidate *candidate) {
	return candidate->depth == 0 || candidate->last.kind == LC_SPLIT ||
	       candidate->last.kind == LC_REORDER || candidate->last.kind == LC_SLICE_STATE ||
	       candidate->last.kind == LC_HIERARCHICAL;
}

static bool search_sooner(const struct candidate *a, const struct candidate *b) {
	return rewritten(a) != rewritten(b) ? rewritten(a) : search_before(a, b);
}

static int next_candidate(const struct searcher *searcher) {
	int best = -1;
	for (size_t i = 0; i < searcher->all.count; i++)
		if (!searcher->all.at[i].expanded &&
		    (best < 0 || search_sooner(&searcher->all.at[i], &searcher->all.at[best])))
			best = (int)i;
	return best;
}

/* ---- results ---- */

static lk_status found_of(struct searcher *searcher, int id, int64_t chunks, lk_found *out,
                          lk_error *err) {
	const struct candidate *candidate = &searcher->all.at[id];
	lc_directive *list = LK_ARRAY(&searcher->s->arena, lc_directive, (size_t)candidate->depth + 1);
	if (!list) return lk_oom(err);
	*out = (lk_found){.schedule = {.name = "best", .directives = list, .count = candidate->depth},
	                  .hash = candidate->hash,
	                  .time = candidate->time};
	for (int i = id; searcher->all.at[i].parent >= 0; i = searcher->all.at[i].parent) {
		lc_directive *directive = &list[searcher->all.at[i].depth - 1];
		*directive = searcher->all.at[i].last;
		if (searcher->all.at[i].open) directive->chunks = chunks;
	}
	return LK_OK;
}

/* Refine the fastest: find the best number of chunks for their overlaps. */
static lk_status search_refine(struct searcher *searcher, struct candidate *candidate, int id,
                               lk_error *err) {
	lk_found open;
	lc_program *program = NULL;
	if (!candidate->chunks) return LK_OK;
	LK_TRY(found_of(searcher, id, 0, &open, err));
	LK_TRY(lc_rewrite_all(searcher->origin, &open.schedule, &program, err));
	lk_status status =
		time_program(searcher, program, true, &candidate->time, &candidate->chunks, err);
	lc_program_free(program);
	return status;
}

static int search_compare(const void *a, const void *b) {
	const struct candidate *x = *(struct candidate *const *)a, *y = *(struct candidate *const *)b;
	if (x->time.seconds != y->time.seconds) return x->time.seconds < y->time.seconds ? -1 : 1;
	if (x->depth != y->depth) return x->depth < y->depth ? -1 : 1;
	return x < y ? -1 : x > y;
}

static lk_status search_collect(struct searcher *searcher, lk_error *err) {
	size_t count = searcher->all.count;
	struct candidate **order = LK_ARRAY(&searcher->s->arena, struct candidate *, count);
	if (!order || !lk_reserve(&searcher->s->found, count)) return lk_oom(err);
	for (size_t i = 0; i < count; i++) order[i] = &searcher->all.at[i];
	lk_sort(order, count, sizeof *order, search_compare);
	for (size_t i = 0; i < count && i < REFINED && !tune_ends(searcher); i++)
		LK_TRY(search_refine(searcher, order[i], (int)(order[i] - searcher->all.at), err));
	lk_sort(order, count, sizeof *order, search_compare);
	for (size_t i = 0; i < count; i++) {
		lk_found *out = &searcher->s->found.at[searcher->s->found.count++];
		LK_TRY(found_of(searcher, (int)(order[i] - searcher->all.at), order[i]->chunks, out, err));
		if (order[i] == &searcher->all.at[0]) {
			searcher->s->plain = *out;
			searcher->s->plain_hash = out->hash;
		}
	}
	return LK_OK;
}

static lk_status search_schedules(struct searcher *searcher, lk_error *err) {
	lc_program *plain = NULL;
	LK_TRY(lc_rewrite_all(searcher->origin, NULL, &plain, err));
	LK_TRY(search_consider(searcher, plain, -1, NULL, false, err));
	for (int next; !searcher->o->only_plain && (next = next_candidate(searcher)) >= 0;) {
		if (enough(searcher)) {
			searcher->s->capped = true;
			break;
		}
		LK_TRY(search_expand(searcher, next, err));
	}
	return search_collect(searcher, err);
}

static void open_search(struct searcher *searcher, const lc_program *program,
                        const lk_search_options *options, lk_search *out) {
	*out = (lk_search){0};
	*searcher =
		(struct searcher){.origin = program,
	                      .o = options,
	                      .s = out,
	                      .limit = options->programs > 0 ? options->programs : LK_TUNE_PROGRAMS};
	lk_timed_constants(&searcher->constants);
	int64_t node = options->cluster->node[0].gpus;
	if (lc_ranks(program, options->sizes) > node && node > 1) searcher->nodes = node;
}

lk_status lk_search_run(const lc_program *program, const lk_search_options *options, lk_search *out,
                        lk_error *err) {
	struct searcher x;
	double begin = lk_clock_s();
	open_search(&x, program, options, out);
	lk_status status = search_schedules(&x, err);
	for (size_t i = 0; i < x.all.count; i++) lc_program_free(x.all.at[i].p);
	lk_vec_free(&x.all);
	out->seconds = lk_clock_s() - begin;
	return status;
}

lk_status lk_search_time(const lc_program *program, const lc_schedule *schedule,
                         const lk_search_options *options, lk_found *out, lk_error *err) {
	struct searcher x;
	lk_search unused;
	lc_program *q = NULL;
	int64_t chunks;
	open_search(&x, program, options, &unused);
	*out = (lk_found){.schedule = *schedule};
	LK_TRY(lc_rewrite_all(program, schedule, &q, err));
	out->hash = lc_program_hash(q);
	lk_status status = time_program(&x, q, false, &out->time, &chunks, err);
	lc_program_free(q);
	return status;
}

void lk_search_free(lk_search *search) {
	lk_vec_free(&search->found);
	lk_arena_free(&search->arena);
}
