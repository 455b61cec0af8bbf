/* rewrite_overlap.c: overlap {y,F} chunk: producer and consumer chunk by chunk, along a dim that
 * all of them can be cut along (see chunks.c); for a list, tensor by tensor. overlap {k1,c0}: two
 * independent parts run at once. */
#include <string.h>

#include "base/arena.h"
#include "lang/rewrite/rewrite_internal.h"

enum { PARTS = 64 };

struct overlapper {
	const lc_program *p;
	const lc_directive *d;
	uint8_t *set, *part; /* part: 1 + the word that names a value */
	int *stem;           /* [values] link towards the last member of its connected group */
	int *newest;         /* [bundles] for find_stems: the pass' last value so far */
	int *dims;
};

static lk_status overlap_mark(struct overlapper *overlapper, lk_arena *arena, lk_error *err) {
	uint8_t *one = lc_new_set(overlapper->p, arena);
	if (!one) return lk_oom(err);
	for (int w = 0; w < overlapper->d->name_count; w++) {
		memset(one, 0, overlapper->p->nodes.count);
		LK_TRY(lc_mark(overlapper->p, &overlapper->d->names[w], one, err));
		for (int i = 0; i < lc_node_count(overlapper->p); i++) {
			if (!one[i] || lc_is_leaf(lc_node_at(overlapper->p, i))) continue;
			if (lc_node_at(overlapper->p, i)->overlap >= 0) {
				lc_word_wrong(overlapper->p, &overlapper->d->names[w], err,
				              "%s is overlapped already", overlapper->d->names[w].text);
				return lk_hint(err, "name all that overlaps in one directive");
			}
			if (!overlapper->set[i]) overlapper->part[i] = (uint8_t)(w + 1);
			overlapper->set[i] = 1;
		}
	}
	return LK_OK;
}

/* A pass must be overlapped whole. */
static lk_status check_passes(const struct overlapper *overlapper, lk_error *err) {
	for (int i = 0; i < lc_node_count(overlapper->p); i++) {
		if (overlapper->set[i] || lc_node_at(overlapper->p, i)->fuse < 0) continue;
		for (int k = 0; k < lc_node_count(overlapper->p); k++) {
			if (!overlapper->set[k] ||
			    lc_node_at(overlapper->p, k)->fuse != lc_node_at(overlapper->p, i)->fuse)
				continue;
			const char *label = overlapper->p->bundles.at[lc_node_at(overlapper->p, i)->fuse].name;
			const lc_word *word = &overlapper->d->names[overlapper->part[k] - 1];
			lc_word_wrong(overlapper->p, word, err, "%s is fused with %s, and the pass runs as one",
			              word->text, lc_part_name(lc_node_at(overlapper->p, i)));
			return lk_hint(err, "name the label of the pass%s%s", label ? ": " : "",
			               label ? label : "");
		}
	}
	return LK_OK;
}

/* The last member of the value's group; shortens the way to it. */
static int root_of(const struct overlapper *overlapper, int id) {
	int *stem = overlapper->stem;
	for (; stem[id] != id; id = stem[id]) stem[id] = stem[stem[id]];
	return id;
}

static void join_stems(struct overlapper *overlapper, int a, int b) {
	a = root_of(overlapper, a);
	b = root_of(overlapper, b);
	overlapper->stem[a < b ? a : b] = a < b ? b : a;
}

/* Connect values that feed each other or are in one pass. */
static void find_stems(struct overlapper *overlapper) {
	for (size_t b = 0; b < overlapper->p->bundles.count; b++) overlapper->newest[b] = -1;
	for (int i = 0; i < lc_node_count(overlapper->p); i++) {
		const lc_node *node = lc_node_at(overlapper->p, i);
		overlapper->stem[i] = i;
		if (!overlapper->set[i]) continue;
		for (int k = 0; k < node->inputs; k++)
			if (overlapper->set[node->in[k]]) join_stems(overlapper, node->in[k], i);
		if (node->fuse < 0) continue;
		if (overlapper->newest[node->fuse] >= 0)
			join_stems(overlapper, overlapper->newest[node->fuse], i);
		overlapper->newest[node->fuse] = i;
	}
}

static lk_status overlap_apart(const struct overlapper *overlapper, const lc_word *word, bool asked,
                               lk_error *err) {
	const lc_word *first = &overlapper->d->names[0];
	if (word != first)
		lc_word_wrong(overlapper->p, word, err, "%s neither feeds nor is fed by %s", word->text,
		              first->text);
	else
		lc_word_wrong(overlapper->p, word, err,
		              "%s names several values that do not feed each "
		              "other",
		              word->text);
	return asked ? lk_hint(err,
	                       "stages that run concurrently have no chunks: leave chunk and order out")
	             : lk_hint(err, "overlap them in directives of their own");
}

/* Check that either all values are connected, and are cut into chunks, or every name denotes one
 * group, and they run concurrently. */
static lk_status overlap_check_groups(struct overlapper *overlapper, bool *chunks, lk_error *err) {
	bool asked = *overlapper->d->chunk || overlapper->d->chunks || overlapper->d->order;
	int of_word[PARTS], first = -1, other = -1, split = -1, joined = 0;
	memset(of_word, 0xff, sizeof of_word);
	find_stems(overlapper);
	for (int i = 0; i < lc_node_count(overlapper->p); i++) {
		if (!overlapper->set[i]) continue;
		int root = root_of(overlapper, i), w = overlapper->part[i] - 1;
		if (first < 0) first = root;
		if (root != first) other = w;
		if (of_word[w] >= 0 && of_word[w] != root) split = w;
		for (int v = 0; v < overlapper->d->name_count && of_word[w] < 0; v++)
			joined += v != w && of_word[v] == root;
		of_word[w] = root;
	}
	*chunks = other < 0;
	if (*chunks || (split < 0 && !joined && !asked)) return LK_OK;
	return overlap_apart(overlapper, &overlapper->d->names[split >= 0 ? split : other], asked, err);
}

static lk_status check_ring(const struct overlapper *overlapper, lk_error *err) {
	if (!overlapper->d->order || strcmp(overlapper->d->order, "ring") != 0) return LK_OK;
	for (int i = 0; i < lc_node_count(overlapper->p); i++) {
		int op = lc_node_at(overlapper->p, i)->op;
		if (overlapper->set[i] && (op == LC_REDUCESCATTER || op == LC_ALLGATHER ||
		                           op == LC_ALLREDUCE || op == LC_ALLTOALL))
			return LK_OK;
	}
	lc_wrong(overlapper->p, overlapper->d->line, overlapper->d->column, err,
	         "the ring's order is that of a collective, and none is overlapped");
	return lk_hint(err, "write order linear, or add the collective");
}

/* Whether two names denote one pass, which is one stage. */
static bool one_pass(const struct overlapper *overlapper) {
	int pass = -2;
	for (int i = 0; i < lc_node_count(overlapper->p); i++) {
		if (!overlapper->set[i]) continue;
		if (pass == -2) pass = lc_node_at(overlapper->p, i)->fuse;
		if (lc_node_at(overlapper->p, i)->fuse != pass || pass < 0) return false;
	}
	return true;
}

static lk_status overlap_check(struct overlapper *overlapper, lk_arena *arena, lk_error *err) {
	bool chunks;
	if (overlapper->d->name_count > PARTS)
		return lc_wrong(overlapper->p, overlapper->d->line, overlapper->d->column, err,
		                "more than %d stages in one overlap", PARTS);
	LK_TRY(overlap_mark(overlapper, arena, err));
	if (overlapper->d->name_count < 2 || one_pass(overlapper)) {
		lc_wrong(overlapper->p, overlapper->d->line, overlapper->d->column, err,
		         "one stage alone does not overlap");
		return lk_hint(err, "name producer and consumer: overlap {y,F} chunk");
	}
	LK_TRY(check_passes(overlapper, err));
	LK_TRY(overlap_check_groups(overlapper, &chunks, err));
	LK_TRY(lc_check_convex(overlapper->p, overlapper->set, overlapper->d, err));
	LK_TRY(check_ring(overlapper, err));
	if (chunks)
		LK_TRY(lc_chunk_dims(overlapper->p, overlapper->set, overlapper->d, overlapper->dims, err));
	return lc_names_new(overlapper->p, overlapper->d, err);
}

lk_status lc_rewrite_overlap(const lc_program *program, const lc_directive *directive,
                             lc_program **out, lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	struct overlapper o = {.p = program,
	                       .d = directive,
	                       .set = lc_new_set(program, &arena),
	                       .part = lc_new_set(program, &arena)};
	o.dims = LK_ARRAY(&arena, int, program->nodes.count);
	o.stem = LK_ARRAY(&arena, int, program->nodes.count);
	o.newest = LK_ARRAY(&arena, int, program->bundles.count + 1);
	lk_status status = o.set && o.part && o.dims && o.stem && o.newest
	                       ? overlap_check(&o, &arena, err)
	                       : lk_oom(err);
	if (status == LK_OK) status = lc_add_bundle(program, directive, o.set, out, err);
	lk_arena_free(&arena);
	return status;
}

/* ---- concurrent parts ---- */

static bool has_sides(const struct overlapper *overlapper) {
	int root = -1;
	for (int i = 0; i < lc_node_count(overlapper->p); i++) {
		if (!overlapper->set[i]) continue;
		if (root >= 0 && root_of(overlapper, i) != root) return true;
		root = root_of(overlapper, i);
	}
	return false;
}

/* Check that every part is still one stage. A statement, and so a stage, is divided if something
 * inside it is in a bucket or pass without the rest: check with the names of a settled program. */
static lk_status overlap_check_stages(const struct overlapper *overlapper,
                                      const lc_program *settled, lk_error *err) {
	for (int i = 0; i < lc_node_count(overlapper->p); i++) {
		if (!overlapper->set[i] || root_of(overlapper, i) == i) continue;
		const lc_node *last = &settled->nodes.at[root_of(overlapper, i)];
		const char *name = lc_bundle_word(settled, last, LC_OVERLAP);
		if (strcmp(lc_bundle_word(settled, &settled->nodes.at[i], LC_OVERLAP), name) == 0) continue;
		lc_wrong(overlapper->p, overlapper->d->line, overlapper->d->column, err,
		         "%s would be several stages, %s one of them, and only single stages run "
		         "concurrently",
		         name, lc_ops[settled->nodes.at[i].op].name);
		return lk_hint(err, "give the stage that is to run concurrently a statement of its own");
	}
	return LK_OK;
}

static lk_status check_sides(const struct overlapper *overlapper, lk_error *err) {
	lc_program *settled;
	LK_TRY(lc_build_same(overlapper->p, &settled, err));
	lk_status status = lc_settle_rewritten(settled, err);
	if (status == LK_OK) status = overlap_check_stages(overlapper, settled, err);
	lc_program_free(settled);
	return status;
}

lk_status lc_check_sides(const lc_program *program, const lc_directive *directive, lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	struct overlapper o = {.p = program,
	                       .d = directive,
	                       .set = lc_new_set(program, &arena),
	                       .stem = LK_ARRAY(&arena, int, program->nodes.count),
	                       .newest = LK_ARRAY(&arena, int, program->bundles.count + 1)};
	lk_status status = o.set && o.stem && o.newest ? LK_OK : lk_oom(err);
	for (int b = 0; status == LK_OK && b < (int)program->bundles.count; b++) {
		if (program->bundles.at[b].kind != LC_OVERLAP) continue;
		for (int i = 0; i < lc_node_count(o.p); i++) o.set[i] = lc_node_at(o.p, i)->overlap == b;
		find_stems(&o);
		if (has_sides(&o)) status = check_sides(&o, err);
	}
	lk_arena_free(&arena);
	return status;
}

/* Values of parts that do not feed another are not cut. */
lk_status lc_overlap_dims(const lc_program *program, int bundle, int *dims, lk_error *err) {
	const lc_bundle *b = &program->bundles.at[bundle];
	lc_directive d = {.kind = LC_OVERLAP, .chunk = b->chunk, .order = b->order};
	lk_arena arena = LK_ARENA_INIT;
	uint8_t *set = lc_new_set(program, &arena);
	bool feeds = false;
	if (!set) return lk_oom(err);
	for (size_t i = 0; i < program->nodes.count; i++) {
		set[i] = program->nodes.at[i].overlap == bundle;
		dims[i] = -1;
	}
	for (size_t i = 0; i < program->nodes.count; i++) {
		const lc_node *node = &program->nodes.at[i];
		for (int k = 0; k < node->inputs && set[i]; k++) {
			const lc_node *value = &program->nodes.at[node->in[k]];
			feeds |= set[node->in[k]] &&
			         (node->part_of != value->part_of || node->fuse != value->fuse) &&
			         (node->fuse < 0 || node->fuse != value->fuse);
		}
	}
	lk_status status = feeds ? lc_chunk_dims(program, set, &d, dims, err) : LK_OK;
	lk_arena_free(&arena);
	return status;
}
