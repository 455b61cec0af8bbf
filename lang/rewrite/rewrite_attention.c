/* rewrite_attention.c: ring {o}, ulysses {o}: attention of a sliced sequence to gathered keys
 * without the gather.
 *
 *   ring      keys and values go round: each rank attends to the slice that it holds, and passes it
 *             on. y and lse of the slices so far go on with the next; gradients of keys travel with
 *             them and are home after a whole turn.
 *   ulysses   slices of positions become slices of heads by all-to-alls, and back.
 *
 * In the gradients of an attention, the gradient of a gathered key is partial and then scattered:
 * the scatter goes, too. */
#include <string.h>

#include "base/text.h"
#include "lang/rewrite/rewrite_internal.h"

struct attentions {
	const lc_program *p;
	const lc_directive *d;
	lc_build b;
	uint8_t *set;
	int *sliced, *rows; /* [values] of gradients of gathered keys: 1 + the axis; the dim; or 0 */
	uint8_t *scatters;  /* [values] reduce-scatters of these */
	int *made;          /* [values] what stands for an attention in the new program; -1 */
	int *exchanged;     /* [values] its slices of heads; -1 */
};

static int rows_of(const lc_program *p, const lc_node *node) {
	return lc_in(p, node, 0)->rank - 2;
}

static bool as_keys(const lc_node *node, int k) {
	return lc_attend_role(node, k) >= LC_AS_K;
}

/* The axis over which queries are sliced by position, and all keys gathered; -1: another case. */
static int attention_axis(const lc_program *p, const lc_node *node) {
	if (lc_ops[node->op].family != LC_ATTEND || node->part || node->op == LC_ATTENTION_MORE ||
	    node->op == LC_ATTENTION_LSE_MORE)
		return -1;
	const lc_node *keys = lc_in(p, node, 1);
	int axis = keys->axis, rows = rows_of(p, node);
	if (keys->op != LC_ALLGATHER) return -1;
	for (int k = 0; k < node->inputs; k++) {
		const lc_node *x = lc_in(p, node, k);
		bool gathered = x->op == LC_ALLGATHER && x->axis == axis && x->d == rows;
		bool sliced = x->layout[axis].kind == LC_S && x->layout[axis].dim == rows &&
		              x->layout[axis].turn == 0;
		if (as_keys(node, k) ? !gathered : !sliced) return -1;
	}
	return axis;
}

static bool adds(const lc_node *node) {
	return node->op == LC_ADD || node->op == LC_SUB || node->op == LC_NEG || node->op == LC_COPY ||
	       node->op == LC_CAST;
}

/* Partial gradients of gathered keys, and their sums, become slices: all that reads them is one of
 * them, or the scatter to these slices. */
static lk_status find_sliced(struct attentions *a, lk_error *err) {
	for (int u = 0; u < lc_node_count(a->p); u++) {
		const lc_node *node = lc_node_at(a->p, u);
		int of = 0, others = 0, axis = a->set[u] ? attention_axis(a->p, node) : -1;
		if (a->set[u] && as_keys(node, LC_ATTENDED)) a->sliced[u] = axis + 1;
		for (int k = 0; k < node->inputs; k++) {
			if (a->sliced[node->in[k]]) of = node->in[k];
			else others++;
		}
		if (!of || !a->sliced[of]) continue;
		axis = a->sliced[of] - 1;
		a->scatters[u] =
			node->op == LC_REDUCESCATTER && node->axis == axis && node->d == a->rows[of];
		if (a->scatters[u]) continue;
		if (!adds(node) || others) {
			lc_wrong(a->p, a->d->line, a->d->column, err,
			         "the gradient of the gathered keys in %s is not scattered as they were sliced",
			         lc_part_name(lc_node_at(a->p, of)));
			return lk_hint(err, "gather keys and values for this attention alone");
		}
		a->sliced[u] = a->sliced[of];
		a->rows[u] = a->rows[of];
	}
	return LK_OK;
}

static lk_status find_attentions(struct attentions *a, lk_error *err) {
	int found = 0;
	for (int w = 0; w < a->d->name_count; w++) LK_TRY(lc_mark(a->p, &a->d->names[w], a->set, err));
	for (int id = 0; id < lc_node_count(a->p); id++) {
		const lc_node *node = lc_node_at(a->p, id);
		int axis = a->set[id] ? attention_axis(a->p, node) : -1;
		a->set[id] = axis >= 0;
		if (axis < 0) continue;
		found++;
		LK_TRY(lc_need_unbundled(a->p, a->d, id, err));
		a->rows[id] = rows_of(a->p, node);
		if (a->d->kind == LC_RING && !a->p->axes[axis].size) {
			lc_wrong(a->p, a->d->line, a->d->column, err, "a ring over %s has no fixed length",
			         a->p->axes[axis].name);
			return lk_hint(err, "give the axis a number of ranks: mesh %s=4, or --sizes %s=4",
			               a->p->axes[axis].name, a->p->axes[axis].name);
		}
		if (a->d->kind == LC_ULYSSES && rows_of(a->p, node) < 1) {
			lc_wrong(a->p, a->d->line, a->d->column, err, "%s has no dim of heads",
			         lc_part_name(node));
			return lk_hint(err, "queries are [.., heads, positions, size of a head]");
		}
	}
	if (found) return find_sliced(a, err);
	lc_word_wrong(a->p, &a->d->names[0], err,
	              "%s holds no attention of sliced queries to gathered keys", a->d->names[0].text);
	return lk_hint(err, "slice q along its positions, and write attention(q, allgather(k, DIM, "
	                    "AXIS), allgather(v, DIM, AXIS))");
}

/* ---- ring ---- */

/* "kg1", where the gather is kg, if that name is free. */
static const char *turned_name(struct attentions *a, const char *name, int turn) {
	char text[LC_NAME + 16];
	if (!name || snprintf(text, sizeof text, "%s%d", name, turn) >= LC_NAME) return NULL;
	if (lc_value_find(a->b.to, text) >= 0 || lc_value_find(a->p, text) >= 0 ||
	    lc_name_free(a->b.to, text, 0, 0, NULL) != LK_OK)
		return NULL;
	return lk_arena_strdup(&a->p->file->arena, text);
}

/* A draft of an attention of another kind on the same slices. */
static lc_node ring_draft(const lc_node *node, lc_op op) {
	lc_node draft = lc_build_on(op, node, -1);
	draft.causal = node->causal;
	draft.window = node->window;
	draft.number = node->number;
	draft.part = 1;
	return draft;
}

static lk_status ring_pass_on(struct attentions *a, const lc_node *like, int axis, const char *name,
                              int *id, lk_error *err) {
	lc_node draft = lc_build_on(LC_PERMUTE, like, *id);
	draft.axis = (int8_t)axis;
	draft.shift = 1;
	draft.name = name;
	if (name) draft.part_of = name;
	return lc_add(a->b.to, &draft, id, err);
}

/* The slices of keys and values after one more turn. */
static lk_status ring_turn(struct attentions *a, const lc_node *node, int axis, int turn,
                           bool named, int in[LC_INPUTS], lk_error *err) {
	for (int k = 0; k < node->inputs; k++) {
		if (!as_keys(node, k)) continue;
		const lc_node *gather = lc_in(a->p, node, k);
		if (k == 2 && node->in[2] == node->in[1]) {
			in[2] = in[1];
			continue;
		}
		LK_TRY(ring_pass_on(a, node, axis, named ? turned_name(a, gather->name, turn) : NULL,
		                    &in[k], err));
	}
	return LK_OK;
}

/* A value takes the name of that for which it stands. */
static lk_status replaced(struct attentions *a, const lc_node *node, int *id, lk_error *err) {
	lc_node *value = &a->b.to->nodes.at[*id];
	lc_node copy = lc_build_on(LC_COPY, node, *id);
	if (!node->name || lk_same_text(node->name, value->name)) return LK_OK;
	copy.name = node->name;
	if (value->name) return lc_add(a->b.to, &copy, id, err);
	value->name = node->name;
	value->part_of = node->part_of;
	return LK_OK;
}

static void ring_operands(const struct attentions *a, const lc_node *node, int in[LC_INPUTS]) {
	for (int k = 0; k < node->inputs; k++)
		in[k] = a->b.map[as_keys(node, k) ? lc_in(a->p, node, k)->in[0] : node->in[k]];
}

/* y and its lse, slice after slice of the keys; `lse` alone if that is what node is. */
static lk_status ring_forward(struct attentions *a, int id, lk_error *err) {
	const lc_node *node = lc_node_at(a->p, id);
	int axis = attention_axis(a->p, node), in[LC_INPUTS], y = -1, lse = -1, last = id;
	bool summed = node->op == LC_ATTENTION;
	int64_t ranks = a->p->axes[axis].size;
	for (int other = id + 1; other < lc_node_count(a->p) && summed; other++)
		if (a->set[other] && lc_node_at(a->p, other)->op == LC_ATTENTION_LSE &&
		    lc_attend_siblings(node, lc_node_at(a->p, other)))
			last = other;
	ring_operands(a, node, in);
	for (int turn = 0; turn < ranks; turn++) {
		bool end = turn == ranks - 1;
		if (turn) LK_TRY(ring_turn(a, node, axis, turn, true, in, err));
		int before = y, so_far = lse;
		lc_node number = ring_draft(node, turn ? LC_ATTENTION_LSE_MORE : LC_ATTENTION_LSE);
		lc_node sum = ring_draft(node, turn ? LC_ATTENTION_MORE : LC_ATTENTION);
		memcpy(number.in, in, sizeof *in * 2);
		memcpy(sum.in, in, sizeof *in * 3);
		number.in[2] = so_far;
		sum.in[3] = before;
		sum.in[4] = so_far;
		sum.name = end ? node->name : turned_name(a, node->name, turn);
		if (sum.name && !end) number.part_of = sum.part_of = sum.name;
		if (summed) LK_TRY(lc_add(a->b.to, &sum, &y, err));
		if (!end || !summed || last != id) LK_TRY(lc_add(a->b.to, &number, &lse, err));
	}
	a->b.map[id] = summed ? y : lse;
	if (last == id && summed) return LK_OK;
	LK_TRY(replaced(a, lc_node_at(a->p, last), &lse, err));
	a->b.map[last] = a->made[last] = lse;
	return LK_OK;
}

static lk_status ring_add(struct attentions *a, const lc_node *like, int more, int *sum,
                          lk_error *err) {
	lc_node draft = lc_build_on(LC_CAST, like, more);
	draft.dtype = LC_F32;
	if (like->dtype != LC_F32 && like->dtype != LC_F64) LK_TRY(lc_add(a->b.to, &draft, &more, err));
	if (*sum < 0) {
		*sum = more;
		return LK_OK;
	}
	draft = lc_build_on(LC_ADD, like, *sum);
	draft.in[1] = more;
	return lc_add(a->b.to, &draft, sum, err);
}

/* Gradients of one attention: those of queries stay, those of keys travel. */
static lk_status ring_backward(struct attentions *a, int id, lk_error *err) {
	const lc_node *node = lc_node_at(a->p, id);
	int axis = attention_axis(a->p, node), in[LC_INPUTS], sum[3] = {-1, -1, -1};
	int of[3] = {-1, -1, -1};
	for (int other = id; other < lc_node_count(a->p); other++)
		if (a->set[other] && lc_attend_siblings(node, lc_node_at(a->p, other)))
			of[lc_node_at(a->p, other)->op - LC_ATTENTION_DQ] = other;
	ring_operands(a, node, in);
	for (int turn = 0; turn < a->p->axes[axis].size; turn++) {
		if (turn) LK_TRY(ring_turn(a, node, axis, turn, false, in, err));
		for (int k = 0; k < 3; k++) {
			lc_node draft = ring_draft(node, (lc_op)(LC_ATTENTION_DQ + k));
			int one;
			if (of[k] < 0) continue;
			memcpy(draft.in, in, sizeof in);
			LK_TRY(lc_add(a->b.to, &draft, &one, err));
			if (turn && k) LK_TRY(ring_pass_on(a, node, axis, NULL, &sum[k], err));
			LK_TRY(ring_add(a, node, one, &sum[k], err));
		}
	}
	for (int k = 0; k < 3; k++) {
		lc_node cast = lc_build_on(LC_CAST, node, -1);
		if (of[k] < 0) continue;
		cast.dtype = lc_node_at(a->p, of[k])->dtype;
		if (k) LK_TRY(ring_pass_on(a, node, axis, NULL, &sum[k], err));
		cast.in[0] = sum[k];
		if (lc_node_at(a->b.to, sum[k])->dtype != cast.dtype)
			LK_TRY(lc_add(a->b.to, &cast, &sum[k], err));
		LK_TRY(replaced(a, lc_node_at(a->p, of[k]), &sum[k], err));
		a->made[of[k]] = sum[k];
	}
	return LK_OK;
}

/* ---- ulysses ---- */

static lk_status exchange(struct attentions *a, const lc_node *like, int axis, int from, int to,
                          const char *name, int *id, lk_error *err) {
	lc_node draft = lc_build_on(LC_ALLTOALL, like, *id);
	draft.axis = (int8_t)axis;
	draft.d = (int8_t)from;
	draft.e = (int8_t)to;
	draft.name = name;
	return lc_add(a->b.to, &draft, id, err);
}

static lk_status ulysses_make(struct attentions *a, int id, lk_error *err) {
	const lc_node *node = lc_node_at(a->p, id);
	int axis = attention_axis(a->p, node), rows = rows_of(a->p, node);
	lc_node draft = *node;
	for (int k = 0; k < node->inputs; k++) {
		int from = as_keys(node, k) ? lc_in(a->p, node, k)->in[0] : node->in[k];
		if (a->exchanged[from] < 0) {
			a->exchanged[from] = a->b.map[from];
			LK_TRY(exchange(a, node, axis, rows, rows - 1, NULL, &a->exchanged[from], err));
		}
		draft.in[k] = a->exchanged[from];
	}
	draft.name = NULL;
	draft.list = -1;
	draft.rank = 0;
	memset(draft.layout, 0, sizeof draft.layout);
	LK_TRY(lc_add(a->b.to, &draft, &a->made[id], err));
	return exchange(a, node, axis, rows - 1, rows, node->name, &a->made[id], err);
}

/* ---- building ---- */

/* A scatter goes: what it read is sliced. */
static lk_status scattered(struct attentions *a, int id, lk_error *err) {
	const lc_node *node = lc_node_at(a->p, id);
	a->b.map[id] = a->b.map[node->in[0]];
	return replaced(a, node, &a->b.map[id], err);
}

static lk_status attention_next(struct attentions *a, int id, lk_error *err) {
	const lc_node *node = lc_node_at(a->p, id);
	if (a->scatters[id]) return scattered(a, id, err);
	if (!a->set[id]) return lc_build_copy(&a->b, id, err);
	if (a->made[id] < 0) {
		if (a->d->kind == LC_ULYSSES) LK_TRY(ulysses_make(a, id, err));
		else if (node->op < LC_ATTENTION_DQ) return ring_forward(a, id, err);
		else LK_TRY(ring_backward(a, id, err));
	}
	a->b.map[id] = a->made[id];
	return LK_OK;
}

/* Gathers that nothing reads any more go. */
static bool gather_goes(const struct attentions *a, int id) {
	bool read = false;
	if (lc_node_at(a->p, id)->op != LC_ALLGATHER) return false;
	for (int u = id + 1; u < lc_node_count(a->p); u++)
		for (int k = 0; k < lc_node_at(a->p, u)->inputs; k++) {
			if (lc_node_at(a->p, u)->in[k] != id) continue;
			read = true;
			if (!a->set[u] || !as_keys(lc_node_at(a->p, u), k)) return false;
		}
	return read;
}

static lk_status attention_build(struct attentions *a, lk_error *err) {
	size_t n = a->p->nodes.count;
	lk_arena *arena = &a->b.arena;
	a->set = lc_new_set(a->p, arena);
	a->scatters = lc_new_set(a->p, arena);
	a->sliced = LK_ARRAY(arena, int, n);
	a->rows = LK_ARRAY(arena, int, n);
	a->made = LK_ARRAY(arena, int, n);
	a->exchanged = LK_ARRAY(arena, int, n);
	if (!a->set || !a->scatters || !a->sliced || !a->rows || !a->made || !a->exchanged)
		return lk_oom(err);
	memset(a->made, 0xff, sizeof *a->made * n);
	memset(a->exchanged, 0xff, sizeof *a->exchanged * n);
	LK_TRY(find_attentions(a, err));
	for (int id = 0; id < (int)n; id++)
		if (!gather_goes(a, id)) LK_TRY(attention_next(a, id, err));
	return LK_OK;
}

lk_status lc_rewrite_attention(const lc_program *program, const lc_directive *directive,
                               lc_program **out, lk_error *err) {
	struct attentions a = {.p = program, .d = directive};
	lk_status status = lc_build_open(&a.b, program, err);
	if (status == LK_OK) status = attention_build(&a, err);
	return lc_build_close(&a.b, status, out);
}
