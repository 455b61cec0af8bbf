/* rewrite_slice.c: slice m, v: states of which every rank needs only its slice are kept sliced: the
 * gather of their update is removed, and slice(m) is m. Outputs computed from the state are
 * computed on slices and gathered at the end. */
#include <string.h>

#include "base/arena.h"
#include "lang/rewrite/rewrite_internal.h"
#include "base/check.h"

struct slicer {
	const lc_program *p;
	const lc_directive *d;
	lc_build b;
	int *of;           /* [values] the word whose state a value is a version of; -1 */
	int *uses, *whole; /* whole: the gather of a version, in `to`; -1 */
	int *kept;         /* [values] the map of a new value before the state replaced it; -1 */
	int *axis, *dim;   /* [words] */
	const char *part;  /* of the removed gathers, for those of outputs */
	bool outputs;      /* an output reads one */
};

/* ---- whether it can be sliced ---- */

static lk_status find_state(struct slicer *slicer, int word, lk_error *err) {
	const lc_word *w = &slicer->d->names[word];
	int value = lc_value_find(slicer->p, w->text);
	uint8_t none[LC_VALUES];
	if (value < 0) return lc_mark(slicer->p, w, none, err);
	if (lc_node_at(slicer->p, value)->op != LC_STATE &&
	    lc_node_at(slicer->p, value)->op != LC_UPDATE) {
		lc_word_wrong(slicer->p, w, err, "%s is not a state", w->text);
		return lk_hint(err, "only states are kept sliced; other values follow by reorder");
	}
	for (int i = 0; i < lc_node_count(slicer->p); i++) {
		const lc_node *n = lc_node_at(slicer->p, i);
		bool version =
			(n->op == LC_STATE || n->op == LC_UPDATE) && n->name && strcmp(n->name, w->text) == 0;
		if (version && slicer->of[i] >= 0)
			return lc_word_wrong(slicer->p, w, err, "%s is named twice", w->text);
		if (version) slicer->of[i] = word;
	}
	return LK_OK;
}

/* Axis and dim: those of the gathers of its updates, else of the slices that are read. */
static void find_cut(struct slicer *slicer, int word) {
	slicer->axis[word] = -1;
	for (int i = lc_node_count(slicer->p); i-- > 0;) {
		const lc_node *value = lc_node_at(slicer->p, i), *cut = NULL;
		if (value->op == LC_UPDATE && slicer->of[i] == word &&
		    lc_node_at(slicer->p, value->in[1])->op == LC_ALLGATHER)
			cut = lc_node_at(slicer->p, value->in[1]);
		if (value->op == LC_SLICE && slicer->of[value->in[0]] == word && slicer->axis[word] < 0)
			cut = value;
		if (!cut) continue;
		slicer->axis[word] = cut->axis;
		slicer->dim[word] = cut->d;
		if (cut->op == LC_ALLGATHER) slicer->part = cut->part_of;
	}
}

static bool is_cut(const struct slicer *slicer, const lc_node *node, lc_op op, int word) {
	return node->op == op && node->axis == slicer->axis[word] && node->d == slicer->dim[word];
}

/* Whether a value depends on a gather, which could move past it. Out of memory: no. */
static bool slice_follows_gather(const lc_program *program, const lc_node *node) {
	lk_arena arena = LK_ARENA_INIT;
	uint8_t *after = lc_new_set(program, &arena);
	int last = (int)(node - program->nodes.at);
	for (int i = 0; after && i <= last; i++)
		for (int k = 0; k < program->nodes.at[i].inputs; k++) {
			int from = program->nodes.at[i].in[k];
			after[i] |= after[from] || program->nodes.at[from].op == LC_ALLGATHER;
		}
	bool follows = after && after[last];
	lk_arena_free(&arena);
	return follows;
}

static lk_status read_in_full(const struct slicer *slicer, int word, const lc_node *by,
                              lk_error *err) {
	const lc_word *w = &slicer->d->names[word];
	lc_word_wrong(slicer->p, w, err, "%s is read in full by %s, in line %d", w->text,
	              by->part_of ? by->part_of
	              : by->name  ? by->name
	                          : "an output",
	              by->line);
	if (!by->part_of)
		return lk_hint(err, "leave it out of \"slice\", or put out a value made from it");
	if (slice_follows_gather(slicer->p, by))
		return lk_hint(err, "move a gather past it first: reorder ag past {%s}", by->part_of);
	return lk_hint(err,
	               "leave it out of \"slice\"; or declare it sliced, S(d,axis), and allgather it "
	               "where it is read");
}

static bool in_output(const lc_node *node) {
	return !node->part_of && lc_is_pointwise(node);
}

static lk_status check_reader(struct slicer *slicer, int id, int k, lk_error *err) {
	LK_ASSERT(id >= 0 && (size_t)id < slicer->p->nodes.count);
	const lc_node *value = lc_node_at(slicer->p, id);
	int word = slicer->of[value->in[k]];
	if (word < 0 || is_cut(slicer, value, LC_SLICE, word)) return LK_OK;
	if (value->op == LC_OUT) return LK_OK; /* puts out what is gathered */
	if (!in_output(value)) return read_in_full(slicer, word, value, err);
	slicer->outputs = true;
	return LK_OK;
}

static lk_status check_update(const struct slicer *slicer, int id, lk_error *err) {
	LK_ASSERT(id >= 0 && (size_t)id < slicer->p->nodes.count);
	const lc_node *value = lc_node_at(slicer->p, id);
	const lc_word *word = &slicer->d->names[slicer->of[id]];
	if (value->fuse >= 0 || value->overlap >= 0) {
		lc_word_wrong(slicer->p, word, err, "%s is fused or overlapped already", word->text);
		return lk_hint(err, "write slice before fuse and overlap");
	}
	if (is_cut(slicer, lc_node_at(slicer->p, value->in[1]), LC_ALLGATHER, slicer->of[id]))
		return LK_OK;
	lc_word_wrong(slicer->p, word, err, "the new value of %s, in line %d, is computed in full",
	              word->text, value->line);
	return lk_hint(err, "move a gather past it first: reorder ag past {%s}", word->text);
}

static lk_status check_state(const struct slicer *slicer, int id, lk_error *err) {
	LK_ASSERT(id >= 0 && (size_t)id < slicer->p->nodes.count);
	const lc_word *word = &slicer->d->names[slicer->of[id]];
	int axis = slicer->axis[slicer->of[id]];
	if (axis < 0) {
		lc_word_wrong(slicer->p, word, err, "nothing says along which dim %s is to be sliced",
		              word->text);
		return lk_hint(err, "move a gather past what reads it first");
	}
	if (lc_node_at(slicer->p, id)->layout[axis].kind == LC_R) return LK_OK;
	lc_word_wrong(slicer->p, word, err, "%s is no longer replicated over %s", word->text,
	              slicer->p->axes[axis].name);
	return lk_hint(err, "leave it out");
}

/* The value that an update of a state that is to be sliced takes; -1. */
static int new_value(const struct slicer *slicer, int id) {
	LK_ASSERT(id >= 0 && (size_t)id < slicer->p->nodes.count);
	const lc_node *value = lc_node_at(slicer->p, id);
	bool update = value->op == LC_UPDATE && slicer->of[id] >= 0 &&
	              lc_node_at(slicer->p, value->in[1])->op == LC_ALLGATHER;
	return update ? lc_node_at(slicer->p, value->in[1])->in[0] : -1;
}

/* Who reads a new value will read the state: what runs together must not change by it. */
static lk_status check_bundled(const struct slicer *slicer, uint8_t *fresh, lk_error *err) {
	for (int i = 0; i < lc_node_count(slicer->p); i++)
		if (new_value(slicer, i) >= 0) fresh[new_value(slicer, i)] = 1;
	for (int i = 0; i < lc_node_count(slicer->p); i++) {
		const lc_node *value = lc_node_at(slicer->p, i);
		for (int k = 0; k < value->inputs && (value->fuse >= 0 || value->overlap >= 0); k++) {
			if (!fresh[value->in[k]] && slicer->of[value->in[k]] < 0) continue;
			lc_wrong(slicer->p, slicer->d->line, slicer->d->column, err,
			         "%s reads a state that is to be sliced, and is fused or overlapped already",
			         lc_part_name(value));
			return lk_hint(err, "write slice before fuse and overlap");
		}
	}
	return LK_OK;
}

/* Without gather and slice: it was sliced by a directive before. */
static lk_status check_whole(const struct slicer *slicer, int word, lk_error *err) {
	const lc_word *w = &slicer->d->names[word];
	for (int i = 0; i < lc_node_count(slicer->p) && slicer->axis[word] < 0; i++)
		for (int a = 0; a < slicer->p->axis_count && slicer->of[i] == word; a++) {
			if (lc_node_at(slicer->p, i)->layout[a].kind != LC_S) continue;
			lc_word_wrong(slicer->p, w, err, "%s is kept in slices already", w->text);
			return lk_hint(err, "leave it out");
		}
	return LK_OK;
}

static lk_status slice_check(struct slicer *slicer, lk_arena *arena, lk_error *err) {
	uint8_t *fresh = lc_new_set(slicer->p, arena);
	if (!fresh) return lk_oom(err);
	for (int w = 0; w < slicer->d->name_count; w++) {
		LK_TRY(find_state(slicer, w, err));
		find_cut(slicer, w);
		LK_TRY(check_whole(slicer, w, err));
	}
	for (int i = 0; i < lc_node_count(slicer->p); i++)
		for (int k = lc_first_read(lc_node_at(slicer->p, i)); k < lc_node_at(slicer->p, i)->inputs;
		     k++)
			LK_TRY(check_reader(slicer, i, k, err));
	for (int i = 0; i < lc_node_count(slicer->p); i++) {
		if (slicer->of[i] < 0) continue;
		LK_TRY(lc_node_at(slicer->p, i)->op == LC_STATE ? check_state(slicer, i, err)
		                                                : check_update(slicer, i, err));
	}
	return check_bundled(slicer, fresh, err);
}

/* ---- building ---- */

static lk_status slice_state(struct slicer *slicer, int id, lk_error *err) {
	LK_ASSERT(id >= 0 && (size_t)id < slicer->p->nodes.count);
	lc_node n = lc_build_draft(&slicer->b, id);
	int word = slicer->of[id];
	n.layout[slicer->axis[word]] = (lc_layout){.kind = LC_S, .dim = (int8_t)slicer->dim[word]};
	return lc_add(slicer->b.to, &n, &slicer->b.map[id], err);
}

/* From here on the state stands for its new value, until it changes again. */
static lk_status slice_update(struct slicer *slicer, int id, lk_error *err) {
	LK_ASSERT(id >= 0 && (size_t)id < slicer->p->nodes.count);
	lc_node n = lc_build_draft(&slicer->b, id);
	int value = lc_node_at(slicer->p, lc_node_at(slicer->p, id)->in[1])->in[0],
		before = lc_node_at(slicer->p, id)->in[0];
	if (lc_node_at(slicer->p, before)->op == LC_UPDATE) {
		int older = lc_node_at(slicer->p, lc_node_at(slicer->p, before)->in[1])->in[0];
		slicer->b.map[older] = slicer->kept[older];
	}
	n.in[1] = slicer->b.map[value];
	LK_TRY(lc_add(slicer->b.to, &n, &slicer->b.map[id], err));
	if (slicer->kept[value] < 0) slicer->kept[value] = slicer->b.map[value];
	slicer->b.map[value] = slicer->b.map[id];
	return LK_OK;
}

static lk_status slice_whole(struct slicer *slicer, int version, const lc_node *reader, int *out,
                             lk_error *err) {
	int word = slicer->of[version];
	if (slicer->whole[version] < 0) {
		lc_node g = lc_build_on(LC_ALLGATHER, reader, slicer->b.map[version]);
		g.axis = (int8_t)slicer->axis[word];
		g.d = (int8_t)slicer->dim[word];
		g.part_of = slicer->part ? slicer->part : slicer->d->names[word].text;
		LK_TRY(lc_add(slicer->b.to, &g, &slicer->whole[version], err));
	}
	*out = slicer->whole[version];
	return LK_OK;
}

static lk_status reader(struct slicer *slicer, int id, lk_error *err) {
	LK_ASSERT(id >= 0 && (size_t)id < slicer->p->nodes.count);
	const lc_node *value = lc_node_at(slicer->p, id);
	lc_node draft = lc_build_draft(&slicer->b, id);
	for (int k = 0; k < value->inputs; k++)
		if (slicer->of[value->in[k]] >= 0)
			LK_TRY(slice_whole(slicer, value->in[k], value, &draft.in[k], err));
	return lc_add(slicer->b.to, &draft, &slicer->b.map[id], err);
}

/* A gather that only such updates read goes. */
static bool goes(const struct slicer *slicer, int id) {
	LK_ASSERT(id >= 0 && (size_t)id < slicer->p->nodes.count);
	int updates = 0;
	if (lc_node_at(slicer->p, id)->op != LC_ALLGATHER) return false;
	for (int i = id + 1; i < lc_node_count(slicer->p); i++)
		updates += lc_node_at(slicer->p, i)->op == LC_UPDATE && slicer->of[i] >= 0 &&
		           lc_node_at(slicer->p, i)->in[1] == id;
	return updates && updates == slicer->uses[id];
}

static lk_status slice_build(struct slicer *slicer, lk_error *err) {
	for (int i = 0; i < lc_node_count(slicer->p); i++) {
		const lc_node *value = lc_node_at(slicer->p, i);
		if (slicer->of[i] >= 0)
			LK_TRY(value->op == LC_STATE ? slice_state(slicer, i, err)
			                             : slice_update(slicer, i, err));
		else if (value->op == LC_SLICE && slicer->of[value->in[0]] >= 0)
			slicer->b.map[i] = slicer->b.map[value->in[0]];
		else if (!goes(slicer, i)) LK_TRY(reader(slicer, i, err));
	}
	return LK_OK;
}

static lk_status slice_make(struct slicer *slicer, lk_arena *arena, lk_error *err) {
	size_t n = slicer->p->nodes.count, words = (size_t)slicer->d->name_count;
	slicer->of = LK_ARRAY(arena, int, n);
	slicer->whole = LK_ARRAY(arena, int, n);
	slicer->kept = LK_ARRAY(arena, int, n);
	slicer->axis = LK_ARRAY(arena, int, words);
	slicer->dim = LK_ARRAY(arena, int, words);
	if (!slicer->of || !slicer->whole || !slicer->kept || !slicer->axis || !slicer->dim)
		return lk_oom(err);
	memset(slicer->of, 0xff, sizeof *slicer->of * n);
	memset(slicer->whole, 0xff, sizeof *slicer->whole * n);
	memset(slicer->kept, 0xff, sizeof *slicer->kept * n);
	LK_TRY(lc_count_uses(slicer->p, arena, &slicer->uses, err));
	LK_TRY(slice_check(slicer, arena, err));
	return slice_build(slicer, err);
}

/* ---- outputs ---- */

/* The gathers that were made for outputs move to where pointwise operations end. */
static lk_status slice_push(const struct slicer *slicer, const lc_program *program, lk_arena *arena,
                            lc_program **out, lk_error *err) {
	uint8_t *gathers = lc_new_set(program, arena), *past = lc_new_set(program, arena);
	if (!gathers || !past) return lk_oom(err);
	for (int i = 0; i < lc_node_count(slicer->p); i++)
		if (slicer->whole[i] >= 0) gathers[slicer->whole[i]] = 1;
	for (size_t i = 0; i < program->nodes.count; i++) {
		const lc_node *node = &program->nodes.at[i];
		for (int k = 0; k < node->inputs && in_output(node); k++)
			past[i] |= past[node->in[k]] || gathers[node->in[k]];
	}
	lc_passage passage = {.gathers = gathers,
	                      .past = past,
	                      .line = slicer->d->line,
	                      .column = slicer->d->column,
	                      .name = slicer->part ? slicer->part : slicer->d->names[0].text};
	return lc_move_gathers(program, &passage, out, err);
}

lk_status lc_rewrite_slice(const lc_program *program, const lc_directive *directive,
                           lc_program **out, lk_error *err) {
	struct slicer s = {.p = program, .d = directive};
	lk_arena arena = LK_ARENA_INIT;
	lk_status status = lc_build_open(&s.b, program, err);
	if (status == LK_OK) status = slice_make(&s, &arena, err);
	status = lc_build_close(&s.b, status, out);
	if (status == LK_OK && s.outputs) {
		lc_program *before = *out;
		status = slice_push(&s, before, &arena, out, err);
		lc_program_free(before);
	}
	lk_arena_free(&arena);
	return status;
}
