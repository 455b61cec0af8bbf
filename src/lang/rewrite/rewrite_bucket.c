/* rewrite_bucket.c: bucket {g} size B: collectives of one kind, of a list or several, joined into messages of B bytes. */
#include <string.h>

#include "lang/rewrite/rewrite_internal.h"

static bool joins(const lc_node *n) {
	return n->op == LC_ALLREDUCE || n->op == LC_REDUCESCATTER || n->op == LC_ALLGATHER || n->op == LC_REDUCE ||
	       n->op == LC_BROADCAST;
}

static lk_status mark(const lc_program *p, const lc_word *w, uint8_t *one, uint8_t *set, lk_error *err) {
	bool found = false;
	memset(one, 0, p->nodes.count);
	LK_TRY(lc_mark(p, w, one, err));
	for (size_t i = 0; i < p->nodes.count; i++) {
		const lc_node *n = &p->nodes.at[i];
		if (!one[i] || !joins(n)) continue;
		if (n->bucket >= 0) {
			lc_word_wrong(p, w, err, "%s is in a bucket already", w->text);
			return lk_hint(err, "name it once");
		}
		set[i] = 1, found = true;
	}
	if (found) return LK_OK;
	lc_word_wrong(p, w, err, "%s holds no collective", w->text);
	return lk_hint(err, "bucket the collectives of a list, or several collectives");
}

/* Two names may stand for one collective. */
static lk_status check_several(const lc_program *p, const lc_word *first, const uint8_t *set, lk_error *err) {
	int tensors = 0;
	for (size_t i = 0; i < p->nodes.count; i++)
		if (set[i]) tensors += p->nodes.at[i].list >= 0 ? 2 : 1;
	if (tensors > 1) return LK_OK;
	lc_word_wrong(p, first, err, "%s is one tensor, which fills no buckets", first->text);
	return lk_hint(err, "bucket the collectives of a list, or several collectives");
}

static bool same_kind(const lc_node *a, const lc_node *b) {
	return a->op == b->op && a->axis == b->axis && a->reduce == b->reduce && a->dtype == b->dtype && a->root == b->root &&
	       lc_same_group(&a->at, &b->at);
}

/* One message cannot hold what waits for it. */
static lk_status check_alike(const lc_program *p, const lc_directive *d, const uint8_t *set, uint8_t *behind,
                             lk_error *err) {
	int first = -1;
	for (size_t i = 0; i < p->nodes.count; i++) {
		const lc_node *n = &p->nodes.at[i];
		for (int k = 0; k < n->inputs; k++) behind[i] |= behind[n->in[k]] || set[n->in[k]];
		if (!set[i]) continue;
		if (first < 0) first = (int)i;
		if (behind[i]) {
			lc_wrong(p, d->line, d->column, err, "%s waits for another collective of the bucket", lc_part_name(n));
			return lk_hint(err, "put it into a bucket of its own");
		}
		if (same_kind(n, &p->nodes.at[first])) continue;
		lc_wrong(p, d->line, d->column, err, "%s and %s are collectives of different kind, axis or format",
		         lc_part_name(&p->nodes.at[first]), lc_part_name(n));
		return lk_hint(err, "write a bucket for each");
	}
	return LK_OK;
}

static lk_status check(const lc_program *p, const lc_directive *d, uint8_t *set, lk_arena *arena, lk_error *err) {
	uint8_t *one = lc_new_set(p, arena);
	if (!set || !one) return lk_oom(err);
	for (int i = 0; i < d->name_count; i++) LK_TRY(mark(p, &d->names[i], one, set, err));
	LK_TRY(check_several(p, &d->names[0], set, err));
	memset(one, 0, p->nodes.count);
	LK_TRY(check_alike(p, d, set, one, err));
	return lc_check_convex(p, set, d, err);
}

lk_status lc_rewrite_bucket(const lc_program *p, const lc_directive *d, lc_program **out, lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	uint8_t *set = lc_new_set(p, &arena);
	lk_status status = check(p, d, set, &arena, err);
	if (status == LK_OK) status = lc_add_bundle(p, d, set, out, err);
	lk_arena_free(&arena);
	return status;
}
