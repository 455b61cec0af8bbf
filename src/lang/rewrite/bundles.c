/* bundles.c: values that run together: added, and written back as directives of a schedule. */
#include <string.h>

#include "lang/rewrite/rewrite_internal.h"

static int16_t *slot(lc_node *n, lc_directive_kind kind) {
	return kind == LC_FUSE ? &n->fuse : kind == LC_OVERLAP ? &n->overlap : &n->bucket;
}

static lk_status add(lc_build *b, const lc_directive *d, const uint8_t *set, lk_error *err) {
	if (b->to->bundles.count == INT16_MAX)
		return lc_wrong(b->from, d->line, d->column, err, "more than %d bundles", INT16_MAX);
	if (!lk_push(&b->to->bundles)) return lk_oom(err);
	lc_bundle *bundle = lk_last(&b->to->bundles);
	*bundle = (lc_bundle){.kind = d->kind, .name = d->result_count ? d->results[0].text : NULL};
	if (d->kind == LC_OVERLAP) bundle->chunk = d->chunk, bundle->order = d->order, bundle->chunks = d->chunks;
	if (d->kind == LC_BUCKET) bundle->size = d->size;
	for (size_t i = 0; i < b->from->nodes.count; i++)
		if (set[i]) *slot(&b->to->nodes.at[b->map[i]], d->kind) = (int16_t)(b->to->bundles.count - 1);
	return LK_OK;
}

lk_status lc_add_bundle(const lc_program *p, const lc_directive *d, const uint8_t *set, lc_program **out, lk_error *err) {
	lc_build b;
	lk_status status = lc_build_open(&b, p, err);
	for (int i = 0; status == LK_OK && i < (int)p->nodes.count; i++) status = lc_build_copy(&b, i, err);
	if (status == LK_OK) status = add(&b, d, set, err);
	return lc_build_close(&b, status, out);
}

const char *lc_bundle_word(const lc_program *p, const lc_node *n, lc_directive_kind kind) {
	const char *label = kind == LC_OVERLAP && n->fuse >= 0 ? p->bundles.at[n->fuse].name : NULL;
	return label ? label : n->part_of ? n->part_of : lc_part_name(n);
}

static bool holds_several(const lc_program *p, int which) {
	lc_directive_kind kind = p->bundles.at[which].kind;
	const char *first = NULL, *word;
	int tensors = 0;
	for (size_t i = 0; i < p->nodes.count; i++) {
		lc_node n = p->nodes.at[i];
		if (*slot(&n, kind) != which) continue;
		word = lc_bundle_word(p, &n, kind), first = first ? first : word;
		tensors += n.list >= 0 ? 2 : 1;
		if (kind == LC_OVERLAP && strcmp(word, first) != 0) return true;
	}
	return kind == LC_BUCKET && tensors > 1;
}

void lc_drop_idle_bundles(lc_program *p) {
	for (int b = 0; b < (int)p->bundles.count; b++) {
		lc_directive_kind kind = p->bundles.at[b].kind;
		if (kind == LC_FUSE || holds_several(p, b)) continue;
		for (size_t i = 0; i < p->nodes.count; i++)
			if (*slot(&p->nodes.at[i], kind) == b) *slot(&p->nodes.at[i], kind) = -1;
	}
}

/* ---- back as a schedule ---- */

struct writer {
	const lc_program *p;
	lk_arena *arena;
	lc_directive *d;
};

static lk_status add_name(struct writer *w, const char *name, lk_error *err) {
	for (int i = 0; i < w->d->name_count; i++)
		if (strcmp(w->d->names[i].text, name) == 0) return LK_OK;
	if (!w->d->names && !(w->d->names = LK_ARRAY(w->arena, lc_word, w->p->nodes.count))) return lk_oom(err);
	w->d->names[w->d->name_count++].text = name;
	return LK_OK;
}

static lk_status add_bundle(struct writer *w, int which, lk_error *err) {
	const lc_bundle *bundle = &w->p->bundles.at[which];
	*w->d = (lc_directive){.kind = bundle->kind, .chunk = bundle->chunk, .chunks = bundle->chunks,
	                       .order = bundle->order, .size = bundle->size};
	for (size_t i = 0; i < w->p->nodes.count; i++) {
		lc_node n = w->p->nodes.at[i];
		if (*slot(&n, bundle->kind) != which) continue;
		LK_TRY(add_name(w, lc_bundle_word(w->p, &n, bundle->kind), err));
	}
	if (!bundle->name) return LK_OK;
	w->d->results = LK_NEW(w->arena, lc_word);
	if (!w->d->results) return lk_oom(err);
	w->d->results->text = bundle->name, w->d->result_count = 1;
	return LK_OK;
}

lk_status lc_bundles_schedule(const lc_program *p, const char *name, lc_schedule *out, lk_error *err) {
	struct writer w = {.p = p, .arena = &p->file->arena};
	*out = (lc_schedule){.name = name, .directives = LK_ARRAY(w.arena, lc_directive, p->bundles.count)};
	if (!out->directives) return lk_oom(err);
	for (size_t i = 0; i < p->bundles.count; i++) {
		w.d = &out->directives[out->count];
		LK_TRY(add_bundle(&w, (int)i, err));
		out->count += w.d->name_count > 0;
	}
	return LK_OK;
}

lk_status lc_settle_rewritten(lc_program *p, lk_error *err) {
	LK_TRY(lc_settle(p, err));
	lc_name_parts(p);
	return LK_OK;
}
