/* rewrite_slice.c: slice m, v: states of which every rank needs its slice alone are kept sliced: the gather of their
 * update goes, and slice(m) is m. What an output makes of the state is computed on slices and gathered at its end. */
#include <string.h>

#include "lang/rewrite/rewrite_internal.h"

struct slicer {
	const lc_program *p;
	const lc_directive *d;
	lc_build b;
	int *of;             /* [values] the word whose state a value is a version of; -1 */
	int *uses, *whole;   /* whole: the gather of a version, in `to`; -1 */
	int *kept;           /* [values] what stood for a new value before the state did; -1 */
	int *axis, *dim;     /* [words] */
	const char *part;    /* of the gathers that go, which those of outputs take */
	bool outputs;        /* an output reads one */
};

static const lc_node *node(const struct slicer *s, int id) { return &s->p->nodes.at[id]; }

static int count(const struct slicer *s) { return (int)s->p->nodes.count; }

/* ---- whether it can be sliced ---- */

static lk_status find_state(struct slicer *s, int word, lk_error *err) {
	const lc_word *w = &s->d->names[word];
	int value = lc_value_find(s->p, w->text);
	uint8_t none[LC_VALUES];
	if (value < 0) return lc_mark(s->p, w, none, err);
	if (node(s, value)->op != LC_STATE && node(s, value)->op != LC_UPDATE) {
		lc_word_wrong(s->p, w, err, "%s is no state", w->text);
		return lk_hint(err, "only states are kept sliced; other values follow by reorder");
	}
	for (int i = 0; i < count(s); i++) {
		const lc_node *n = node(s, i);
		bool version = (n->op == LC_STATE || n->op == LC_UPDATE) && n->name && strcmp(n->name, w->text) == 0;
		if (version && s->of[i] >= 0) return lc_word_wrong(s->p, w, err, "%s is named twice", w->text);
		if (version) s->of[i] = word;
	}
	return LK_OK;
}

/* Axis and dim: those of the gathers of its updates, else of the slices that are read. */
static void find_cut(struct slicer *s, int word) {
	s->axis[word] = -1;
	for (int i = count(s); i-- > 0;) {
		const lc_node *n = node(s, i), *cut = NULL;
		if (n->op == LC_UPDATE && s->of[i] == word && node(s, n->in[1])->op == LC_ALLGATHER) cut = node(s, n->in[1]);
		if (n->op == LC_SLICE && s->of[n->in[0]] == word && s->axis[word] < 0) cut = n;
		if (!cut) continue;
		s->axis[word] = cut->axis, s->dim[word] = cut->d;
		if (cut->op == LC_ALLGATHER) s->part = cut->part_of;
	}
}

static bool is_cut(const struct slicer *s, const lc_node *n, lc_op op, int word) {
	return n->op == op && n->axis == s->axis[word] && n->d == s->dim[word];
}

static lk_status read_in_full(const struct slicer *s, int word, const lc_node *by, lk_error *err) {
	const lc_word *w = &s->d->names[word];
	lc_word_wrong(s->p, w, err, "%s is read in full by %s, in line %d", w->text,
	              by->part_of ? by->part_of : by->name ? by->name : "an output", by->line);
	if (!by->part_of)
		return lk_hint(err, "leave it out of \"slice\", or put out a value made from it");
	return lk_hint(err, "move a gather past it first: reorder ag past {%s}", by->part_of);
}

static bool in_output(const lc_node *n) { return !n->part_of && lc_is_pointwise(n); }

static lk_status check_reader(struct slicer *s, int id, int k, lk_error *err) {
	const lc_node *n = node(s, id);
	int word = s->of[n->in[k]];
	if (word < 0 || is_cut(s, n, LC_SLICE, word)) return LK_OK;
	if (!in_output(n)) return read_in_full(s, word, n, err);
	s->outputs = true;
	return LK_OK;
}

static lk_status check_update(const struct slicer *s, int id, lk_error *err) {
	const lc_node *n = node(s, id);
	const lc_word *w = &s->d->names[s->of[id]];
	if (n->fuse >= 0 || n->overlap >= 0) {
		lc_word_wrong(s->p, w, err, "%s is fused or overlapped already", w->text);
		return lk_hint(err, "write slice before fuse and overlap");
	}
	if (is_cut(s, node(s, n->in[1]), LC_ALLGATHER, s->of[id])) return LK_OK;
	lc_word_wrong(s->p, w, err, "the new value of %s, in line %d, is computed in full", w->text, n->line);
	return lk_hint(err, "move a gather past it first: reorder ag past {%s}", w->text);
}

static lk_status check_state(const struct slicer *s, int id, lk_error *err) {
	const lc_word *w = &s->d->names[s->of[id]];
	int axis = s->axis[s->of[id]];
	if (axis < 0) {
		lc_word_wrong(s->p, w, err, "nothing says along which dim %s is to be sliced", w->text);
		return lk_hint(err, "move a gather past what reads it first");
	}
	if (node(s, id)->layout[axis].kind == LC_R) return LK_OK;
	lc_word_wrong(s->p, w, err, "%s is no longer replicated over %s", w->text, s->p->axes[axis].name);
	return lk_hint(err, "leave it out");
}

/* The value that an update of a state that is to be sliced takes; -1. */
static int new_value(const struct slicer *s, int id) {
	const lc_node *n = node(s, id);
	bool update = n->op == LC_UPDATE && s->of[id] >= 0 && node(s, n->in[1])->op == LC_ALLGATHER;
	return update ? node(s, n->in[1])->in[0] : -1;
}

/* Who reads a new value will read the state: what runs together must not change by it. */
static lk_status check_bundled(const struct slicer *s, uint8_t *fresh, lk_error *err) {
	for (int i = 0; i < count(s); i++)
		if (new_value(s, i) >= 0) fresh[new_value(s, i)] = 1;
	for (int i = 0; i < count(s); i++) {
		const lc_node *n = node(s, i);
		for (int k = 0; k < n->inputs && (n->fuse >= 0 || n->overlap >= 0); k++) {
			if (!fresh[n->in[k]] && s->of[n->in[k]] < 0) continue;
			lc_wrong(s->p, s->d->line, s->d->column, err, "%s reads a state that is to be sliced, and is fused or overlapped already",
			         lc_part_name(n));
			return lk_hint(err, "write slice before fuse and overlap");
		}
	}
	return LK_OK;
}

/* Without gather and slice: it was sliced by a directive before. */
static lk_status check_whole(const struct slicer *s, int word, lk_error *err) {
	const lc_word *w = &s->d->names[word];
	for (int i = 0; i < count(s) && s->axis[word] < 0; i++)
		for (int a = 0; a < s->p->axis_count && s->of[i] == word; a++) {
			if (node(s, i)->layout[a].kind != LC_S) continue;
			lc_word_wrong(s->p, w, err, "%s is kept in slices already", w->text);
			return lk_hint(err, "leave it out");
		}
	return LK_OK;
}

static lk_status check(struct slicer *s, lk_arena *arena, lk_error *err) {
	uint8_t *fresh = lc_new_set(s->p, arena);
	if (!fresh) return lk_oom(err);
	for (int w = 0; w < s->d->name_count; w++) {
		LK_TRY(find_state(s, w, err));
		find_cut(s, w);
		LK_TRY(check_whole(s, w, err));
	}
	for (int i = 0; i < count(s); i++)
		for (int k = lc_first_read(node(s, i)); k < node(s, i)->inputs; k++) LK_TRY(check_reader(s, i, k, err));
	for (int i = 0; i < count(s); i++) {
		if (s->of[i] < 0) continue;
		LK_TRY(node(s, i)->op == LC_STATE ? check_state(s, i, err) : check_update(s, i, err));
	}
	return check_bundled(s, fresh, err);
}

/* ---- building ---- */

static lk_status state(struct slicer *s, int id, lk_error *err) {
	lc_node n = lc_build_draft(&s->b, id);
	int word = s->of[id];
	n.layout[s->axis[word]] = (lc_layout){.kind = LC_S, .dim = (int8_t)s->dim[word]};
	return lc_add(s->b.to, &n, &s->b.map[id], err);
}

/* From here on the state stands for its new value, until it changes again. */
static lk_status update(struct slicer *s, int id, lk_error *err) {
	lc_node n = lc_build_draft(&s->b, id);
	int value = node(s, node(s, id)->in[1])->in[0], before = node(s, id)->in[0];
	if (node(s, before)->op == LC_UPDATE) {
		int older = node(s, node(s, before)->in[1])->in[0];
		s->b.map[older] = s->kept[older];
	}
	n.in[1] = s->b.map[value];
	LK_TRY(lc_add(s->b.to, &n, &s->b.map[id], err));
	if (s->kept[value] < 0) s->kept[value] = s->b.map[value];
	s->b.map[value] = s->b.map[id];
	return LK_OK;
}

static lk_status whole(struct slicer *s, int version, const lc_node *reader, int *out, lk_error *err) {
	int word = s->of[version];
	if (s->whole[version] < 0) {
		lc_node g = lc_build_on(LC_ALLGATHER, reader, s->b.map[version]);
		g.axis = (int8_t)s->axis[word], g.d = (int8_t)s->dim[word];
		g.part_of = s->part ? s->part : s->d->names[word].text;
		LK_TRY(lc_add(s->b.to, &g, &s->whole[version], err));
	}
	*out = s->whole[version];
	return LK_OK;
}

static lk_status reader(struct slicer *s, int id, lk_error *err) {
	const lc_node *n = node(s, id);
	lc_node draft = lc_build_draft(&s->b, id);
	for (int k = 0; k < n->inputs; k++)
		if (s->of[n->in[k]] >= 0) LK_TRY(whole(s, n->in[k], n, &draft.in[k], err));
	return lc_add(s->b.to, &draft, &s->b.map[id], err);
}

/* A gather that only such updates read goes. */
static bool goes(const struct slicer *s, int id) {
	int updates = 0;
	if (node(s, id)->op != LC_ALLGATHER) return false;
	for (int i = id + 1; i < count(s); i++)
		updates += node(s, i)->op == LC_UPDATE && s->of[i] >= 0 && node(s, i)->in[1] == id;
	return updates && updates == s->uses[id];
}

static lk_status build(struct slicer *s, lk_error *err) {
	for (int i = 0; i < count(s); i++) {
		const lc_node *n = node(s, i);
		if (s->of[i] >= 0) LK_TRY(n->op == LC_STATE ? state(s, i, err) : update(s, i, err));
		else if (n->op == LC_SLICE && s->of[n->in[0]] >= 0) s->b.map[i] = s->b.map[n->in[0]];
		else if (!goes(s, i)) LK_TRY(reader(s, i, err));
	}
	return LK_OK;
}

static lk_status make(struct slicer *s, lk_arena *arena, lk_error *err) {
	size_t n = s->p->nodes.count, words = (size_t)s->d->name_count;
	s->of = LK_ARRAY(arena, int, n), s->whole = LK_ARRAY(arena, int, n), s->kept = LK_ARRAY(arena, int, n);
	s->axis = LK_ARRAY(arena, int, words), s->dim = LK_ARRAY(arena, int, words);
	if (!s->of || !s->whole || !s->kept || !s->axis || !s->dim) return lk_oom(err);
	memset(s->of, 0xff, sizeof *s->of * n);
	memset(s->whole, 0xff, sizeof *s->whole * n);
	memset(s->kept, 0xff, sizeof *s->kept * n);
	LK_TRY(lc_count_uses(s->p, arena, &s->uses, err));
	LK_TRY(check(s, arena, err));
	return build(s, err);
}

/* ---- outputs ---- */

/* The gathers that were made for outputs move to where pointwise operations end. */
static lk_status push(const struct slicer *s, const lc_program *p, lk_arena *arena, lc_program **out, lk_error *err) {
	uint8_t *gathers = lc_new_set(p, arena), *past = lc_new_set(p, arena);
	if (!gathers || !past) return lk_oom(err);
	for (int i = 0; i < count(s); i++)
		if (s->whole[i] >= 0) gathers[s->whole[i]] = 1;
	for (size_t i = 0; i < p->nodes.count; i++) {
		const lc_node *n = &p->nodes.at[i];
		for (int k = 0; k < n->inputs && in_output(n); k++) past[i] |= past[n->in[k]] || gathers[n->in[k]];
	}
	lc_passage passage = {.gathers = gathers, .past = past, .line = s->d->line, .column = s->d->column,
	                      .name = s->part ? s->part : s->d->names[0].text};
	return lc_move_gathers(p, &passage, out, err);
}

lk_status lc_rewrite_slice(const lc_program *p, const lc_directive *d, lc_program **out, lk_error *err) {
	struct slicer s = {.p = p, .d = d};
	lk_arena arena = LK_ARENA_INIT;
	lk_status status = lc_build_open(&s.b, p, err);
	if (status == LK_OK) status = make(&s, &arena, err);
	status = lc_build_close(&s.b, status, out);
	if (status == LK_OK && s.outputs) {
		lc_program *before = *out;
		status = push(&s, before, &arena, out, err);
		lc_program_free(before);
	}
	lk_arena_free(&arena);
	return status;
}
