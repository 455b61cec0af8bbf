/* rewrite_overlap.c: overlap {y,F} chunk: producer and consumer chunk by chunk, along a dim that all of them can be cut
 * along (see chunks.c); of a list, tensor by tensor. overlap {k1,c0}: two that do not feed each other run at once. */
#include <string.h>

#include "lang/rewrite/rewrite_internal.h"

enum { PARTS = 64 };

struct overlapper {
	const lc_program *p;
	const lc_directive *d;
	uint8_t *set, *part;  /* part: 1 + the word that names a value */
	int *stem;            /* [values] towards the last of those that hang together */
	int *dims;
};

static const lc_node *node(const struct overlapper *o, int id) { return &o->p->nodes.at[id]; }

static int count(const struct overlapper *o) { return (int)o->p->nodes.count; }

static lk_status mark(struct overlapper *o, lk_arena *arena, lk_error *err) {
	uint8_t *one = lc_new_set(o->p, arena);
	if (!one) return lk_oom(err);
	for (int w = 0; w < o->d->name_count; w++) {
		memset(one, 0, o->p->nodes.count);
		LK_TRY(lc_mark(o->p, &o->d->names[w], one, err));
		for (int i = 0; i < count(o); i++) {
			if (!one[i] || lc_is_leaf(node(o, i))) continue;
			if (node(o, i)->overlap >= 0) {
				lc_word_wrong(o->p, &o->d->names[w], err, "%s is overlapped already", o->d->names[w].text);
				return lk_hint(err, "name all that overlaps in one directive");
			}
			if (!o->set[i]) o->part[i] = (uint8_t)(w + 1);
			o->set[i] = 1;
		}
	}
	return LK_OK;
}

/* A pass is a part as a whole. */
static lk_status check_passes(const struct overlapper *o, lk_error *err) {
	for (int i = 0; i < count(o); i++) {
		if (o->set[i] || node(o, i)->fuse < 0) continue;
		for (int k = 0; k < count(o); k++) {
			if (!o->set[k] || node(o, k)->fuse != node(o, i)->fuse) continue;
			const char *label = o->p->bundles.at[node(o, i)->fuse].name;
			const lc_word *w = &o->d->names[o->part[k] - 1];
			lc_word_wrong(o->p, w, err, "%s is fused with %s, and the pass runs as one", w->text, lc_part_name(node(o, i)));
			return lk_hint(err, "name the label of the pass%s%s", label ? ": " : "", label ? label : "");
		}
	}
	return LK_OK;
}

static int root_of(const struct overlapper *o, int id) {
	while (o->stem[id] != id) id = o->stem[id];
	return id;
}

/* Values that feed each other, or are one pass, hang together. */
static void find_stems(struct overlapper *o) {
	for (int i = 0; i < count(o); i++) {
		o->stem[i] = i;
		for (int k = 0; k < node(o, i)->inputs && o->set[i]; k++)
			if (o->set[node(o, i)->in[k]]) o->stem[root_of(o, node(o, i)->in[k])] = i;
		for (int k = 0; k < i && o->set[i] && node(o, i)->fuse >= 0; k++)
			if (o->set[k] && node(o, k)->fuse == node(o, i)->fuse) o->stem[root_of(o, k)] = root_of(o, i);
	}
}

static lk_status apart(const struct overlapper *o, const lc_word *w, bool asked, lk_error *err) {
	const lc_word *first = &o->d->names[0];
	if (w != first) lc_word_wrong(o->p, w, err, "%s neither feeds nor is fed by %s", w->text, first->text);
	else lc_word_wrong(o->p, w, err, "%s stands for several that do not feed each other", w->text);
	return asked ? lk_hint(err, "what runs side by side has no chunks: leave chunk and order out")
	             : lk_hint(err, "overlap them in directives of their own");
}

/* Either all hangs together, and is cut into chunks, or every name stands for one thing, and they run side by side. */
static lk_status check_groups(struct overlapper *o, bool *chunks, lk_error *err) {
	bool asked = *o->d->chunk || o->d->chunks || o->d->order;
	int of_word[PARTS], first = -1, other = -1, split = -1, joined = 0;
	memset(of_word, 0xff, sizeof of_word);
	find_stems(o);
	for (int i = 0; i < count(o); i++) {
		if (!o->set[i]) continue;
		int root = root_of(o, i), w = o->part[i] - 1;
		if (first < 0) first = root;
		if (root != first) other = w;
		if (of_word[w] >= 0 && of_word[w] != root) split = w;
		for (int v = 0; v < o->d->name_count && of_word[w] < 0; v++) joined += v != w && of_word[v] == root;
		of_word[w] = root;
	}
	*chunks = other < 0;
	if (*chunks || (split < 0 && !joined && !asked)) return LK_OK;
	return apart(o, &o->d->names[split >= 0 ? split : other], asked, err);
}

static lk_status check_ring(const struct overlapper *o, lk_error *err) {
	if (!o->d->order || strcmp(o->d->order, "ring") != 0) return LK_OK;
	for (int i = 0; i < count(o); i++) {
		int op = node(o, i)->op;
		if (o->set[i] && (op == LC_REDUCESCATTER || op == LC_ALLGATHER || op == LC_ALLREDUCE || op == LC_ALLTOALL))
			return LK_OK;
	}
	lc_wrong(o->p, o->d->line, o->d->column, err, "the ring's order is that of a collective, and none is overlapped");
	return lk_hint(err, "write order linear, or add the collective");
}

/* Two names of one pass are one stage. */
static bool one_pass(const struct overlapper *o) {
	int pass = -2;
	for (int i = 0; i < count(o); i++) {
		if (!o->set[i]) continue;
		if (pass == -2) pass = node(o, i)->fuse;
		if (node(o, i)->fuse != pass || pass < 0) return false;
	}
	return true;
}

static lk_status check(struct overlapper *o, lk_arena *arena, lk_error *err) {
	bool chunks;
	if (o->d->name_count > PARTS)
		return lc_wrong(o->p, o->d->line, o->d->column, err, "more than %d stages in one overlap", PARTS);
	LK_TRY(mark(o, arena, err));
	if (o->d->name_count < 2 || one_pass(o)) {
		lc_wrong(o->p, o->d->line, o->d->column, err, "one stage alone does not overlap");
		return lk_hint(err, "name producer and consumer: overlap {y,F} chunk");
	}
	LK_TRY(check_passes(o, err));
	LK_TRY(check_groups(o, &chunks, err));
	LK_TRY(lc_check_convex(o->p, o->set, o->d, err));
	LK_TRY(check_ring(o, err));
	if (chunks) LK_TRY(lc_chunk_dims(o->p, o->set, o->d, o->dims, err));
	return lc_names_new(o->p, o->d, err);
}

lk_status lc_rewrite_overlap(const lc_program *p, const lc_directive *d, lc_program **out, lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	struct overlapper o = {.p = p, .d = d, .set = lc_new_set(p, &arena), .part = lc_new_set(p, &arena)};
	o.dims = LK_ARRAY(&arena, int, p->nodes.count), o.stem = LK_ARRAY(&arena, int, p->nodes.count);
	lk_status status = o.set && o.part && o.dims && o.stem ? check(&o, &arena, err) : lk_oom(err);
	if (status == LK_OK) status = lc_add_bundle(p, d, o.set, out, err);
	lk_arena_free(&arena);
	return status;
}

/* ---- side by side ---- */

static bool has_sides(const struct overlapper *o) {
	int root = -1;
	for (int i = 0; i < count(o); i++) {
		if (!o->set[i]) continue;
		if (root >= 0 && root_of(o, i) != root) return true;
		root = root_of(o, i);
	}
	return false;
}

/* Statements, and with them stages, end where what is inside of them is in a bucket or a pass that the rest is not in:
 * names are those of a settled program. */
static lk_status check_stages(const struct overlapper *o, const lc_program *settled, lk_error *err) {
	for (int i = 0; i < count(o); i++) {
		if (!o->set[i] || root_of(o, i) == i) continue;
		const lc_node *last = &settled->nodes.at[root_of(o, i)];
		const char *name = lc_bundle_word(settled, last, LC_OVERLAP);
		if (strcmp(lc_bundle_word(settled, &settled->nodes.at[i], LC_OVERLAP), name) == 0) continue;
		lc_wrong(o->p, o->d->line, o->d->column, err, "%s would be several stages, and only single ones run side by side",
		         name);
		return lk_hint(err, "give what is in a bucket or a pass a statement of its own, and overlap one stage of each side");
	}
	return LK_OK;
}

static lk_status check_sides(const struct overlapper *o, lk_error *err) {
	lc_program *settled;
	LK_TRY(lc_rewrite_all(o->p, NULL, &settled, err));
	lk_status status = lc_settle_rewritten(settled, err);
	if (status == LK_OK) status = check_stages(o, settled, err);
	lc_program_free(settled);
	return status;
}

lk_status lc_check_sides(const lc_program *p, const lc_directive *d, lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	struct overlapper o = {.p = p, .d = d, .set = lc_new_set(p, &arena), .stem = LK_ARRAY(&arena, int, p->nodes.count)};
	lk_status status = o.set && o.stem ? LK_OK : lk_oom(err);
	for (int b = 0; status == LK_OK && b < (int)p->bundles.count; b++) {
		if (p->bundles.at[b].kind != LC_OVERLAP) continue;
		for (int i = 0; i < count(&o); i++) o.set[i] = node(&o, i)->overlap == b;
		find_stems(&o);
		if (has_sides(&o)) status = check_sides(&o, err);
	}
	lk_arena_free(&arena);
	return status;
}

/* Values that belong to no part that feeds another are cut nowhere. */
lk_status lc_overlap_dims(const lc_program *p, int bundle, int *dims, lk_error *err) {
	const lc_bundle *b = &p->bundles.at[bundle];
	lc_directive d = {.kind = LC_OVERLAP, .chunk = b->chunk, .order = b->order};
	lk_arena arena = LK_ARENA_INIT;
	uint8_t *set = lc_new_set(p, &arena);
	bool feeds = false;
	if (!set) return lk_oom(err);
	for (size_t i = 0; i < p->nodes.count; i++) set[i] = p->nodes.at[i].overlap == bundle, dims[i] = -1;
	for (size_t i = 0; i < p->nodes.count; i++) {
		const lc_node *n = &p->nodes.at[i];
		for (int k = 0; k < n->inputs && set[i]; k++) {
			const lc_node *x = &p->nodes.at[n->in[k]];
			feeds |= set[n->in[k]] && (n->part_of != x->part_of || n->fuse != x->fuse) && (n->fuse < 0 || n->fuse != x->fuse);
		}
	}
	lk_status status = feeds ? lc_chunk_dims(p, set, &d, dims, err) : LK_OK;
	lk_arena_free(&arena);
	return status;
}
