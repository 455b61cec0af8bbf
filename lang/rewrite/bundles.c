/* bundles.c: values that run together: adding them, and writing them back as directives of a
 * schedule. */
#include <string.h>

#include "base/arena.h"
#include "lang/rewrite/rewrite_internal.h"

int16_t *lc_bundle_slot(lc_node *node, lc_directive_kind kind) {
	if (kind == LC_FUSE) return &node->fuse;
	if (kind == LC_OVERLAP) return &node->overlap;
	return &node->bucket;
}

const char *lc_bundle_word(const lc_program *program, const lc_node *node, lc_directive_kind kind) {
	const char *label =
		kind == LC_OVERLAP && node->fuse >= 0 ? program->bundles.at[node->fuse].name : NULL;
	if (label) return label;
	if (node->part_of) return node->part_of;
	return lc_part_name(node);
}

static bool holds_several(const lc_program *program, int which) {
	lc_directive_kind kind = program->bundles.at[which].kind;
	const char *first = NULL, *word;
	int tensors = 0;
	for (size_t i = 0; i < program->nodes.count; i++) {
		lc_node n = program->nodes.at[i];
		if (*lc_bundle_slot(&n, kind) != which) continue;
		word = lc_bundle_word(program, &n, kind), first = first ? first : word;
		tensors += n.list >= 0 ? 2 : 1;
		if (kind == LC_OVERLAP && strcmp(word, first) != 0) return true;
	}
	return kind == LC_BUCKET && tensors > 1;
}

void lc_drop_idle_bundles(lc_program *program) {
	for (int b = 0; b < (int)program->bundles.count; b++) {
		lc_directive_kind kind = program->bundles.at[b].kind;
		if (kind == LC_FUSE || holds_several(program, b)) continue;
		for (size_t i = 0; i < program->nodes.count; i++)
			if (*lc_bundle_slot(&program->nodes.at[i], kind) == b)
				*lc_bundle_slot(&program->nodes.at[i], kind) = -1;
	}
}

/* ---- written as a schedule ---- */

struct writer {
	const lc_program *p;
	lk_arena *arena;
	lc_directive *d;
};

static lk_status bundles_add_name(struct writer *writer, const char *name, lk_error *err) {
	for (int i = 0; i < writer->d->name_count; i++)
		if (strcmp(writer->d->names[i].text, name) == 0) return LK_OK;
	if (!writer->d->names &&
	    !(writer->d->names = LK_ARRAY(writer->arena, lc_word, writer->p->nodes.count)))
		return lk_oom(err);
	writer->d->names[writer->d->name_count++].text = name;
	return LK_OK;
}

static lk_status add_bundle(struct writer *writer, int which, lk_error *err) {
	const lc_bundle *bundle = &writer->p->bundles.at[which];
	*writer->d = (lc_directive){.kind = bundle->kind,
	                            .chunk = bundle->chunk,
	                            .chunks = bundle->chunks,
	                            .order = bundle->order,
	                            .size = bundle->size};
	for (size_t i = 0; i < writer->p->nodes.count; i++) {
		lc_node n = writer->p->nodes.at[i];
		if (*lc_bundle_slot(&n, bundle->kind) != which) continue;
		LK_TRY(bundles_add_name(writer, lc_bundle_word(writer->p, &n, bundle->kind), err));
	}
	if (!bundle->name) return LK_OK;
	writer->d->results = LK_NEW(writer->arena, lc_word);
	if (!writer->d->results) return lk_oom(err);
	writer->d->results->text = bundle->name;
	writer->d->result_count = 1;
	return LK_OK;
}

lk_status lc_bundles_schedule(const lc_program *program, const char *name, lc_schedule *out,
                              lk_error *err) {
	struct writer w = {.p = program, .arena = &program->file->arena};
	*out = (lc_schedule){.name = name,
	                     .directives = LK_ARRAY(w.arena, lc_directive, program->bundles.count)};
	if (!out->directives) return lk_oom(err);
	for (size_t i = 0; i < program->bundles.count; i++) {
		w.d = &out->directives[out->count];
		LK_TRY(add_bundle(&w, (int)i, err));
		out->count += w.d->name_count > 0;
	}
	return LK_OK;
}

lk_status lc_settle_rewritten(lc_program *program, lk_error *err) {
	LK_TRY(lc_settle(program, err));
	lc_name_parts(program);
	return LK_OK;
}
