/* moves.c: what a search tries next. Rewrites come before what runs together, in one order of kinds, and are few on
 * purpose: every all-reduce split along dims that have slices to give, gathers moved past their readers or as far as they
 * go, all states that can be sliced at once; then buckets, the largest passes, then overlaps (moves_bundles.c). */
#include "lang/rewrite/rewrite_internal.h"

#include <string.h>

/* ---- words ---- */

static const char *word_text(const lc_program *p, const lc_node *n) {
	if (n->fuse >= 0 && p->bundles.at[n->fuse].name) return p->bundles.at[n->fuse].name;
	return lc_is_leaf(n) || n->op == LC_OUT ? NULL : n->part_of;
}

static int find_word(lc_mover *m, const char *text) {
	for (int w = 0; w < m->count; w++)
		if (strcmp(m->word[w], text) == 0) return w;
	if (m->count == LC_WORDS) return -1;
	m->word[m->count] = text;
	return m->count++;
}

static bool is_collective(const lc_node *n) {
	return (lc_ops[n->op].family == LC_COMM && n->op != LC_SLICE && n->op != LC_LOCAL && n->op != LC_SLICED) ||
	       n->op == LC_SEND;
}

static lk_status find_shares(lc_mover *m, lk_error *err) {
	const lc_program *p = m->p;
	uint64_t *readers = LK_ARRAY(&m->scratch, uint64_t, p->nodes.count);
	if (!readers) return lk_oom(err);
	for (size_t i = 0; i < p->nodes.count; i++)
		for (int k = 0; k < p->nodes.at[i].inputs && m->word_of[i] >= 0; k++)
			readers[p->nodes.at[i].in[k]] |= (uint64_t)1 << m->word_of[i];
	for (size_t i = 0; i < p->nodes.count; i++)
		for (int w = 0; w < m->count && p->nodes.at[i].rank; w++)
			if (readers[i] >> w & 1) m->shares[w] |= readers[i];
	return LK_OK;
}

lk_status lc_mover_open(lc_mover *m, const lc_program *p, lc_moves *out, lk_error *err) {
	memset(m, 0, sizeof *m);
	m->p = p, m->out = out;
	m->word_of = LK_ARRAY(&m->scratch, int, p->nodes.count);
	if (!m->word_of) return lk_oom(err);
	for (size_t i = 0; i < p->nodes.count; i++) {
		const lc_node *n = &p->nodes.at[i];
		const char *text = word_text(p, n);
		int w = m->word_of[i] = text ? find_word(m, text) : -1;
		if (w < 0) continue;
		m->collective[w] |= is_collective(n), m->overlapped[w] |= n->overlap >= 0;
		for (int k = lc_first_read(n); k < n->inputs; k++)
			if (m->word_of[n->in[k]] >= 0 && m->word_of[n->in[k]] != w) m->feeds[m->word_of[n->in[k]]][w] = true;
	}
	return find_shares(m, err);
}

void lc_mover_close(lc_mover *m) { lk_arena_free(&m->scratch); }

/* ---- directives ---- */

lc_directive *lc_move(const lc_mover *m, lc_directive_kind kind, const int *words, int count) {
	lk_arena *arena = &m->p->file->arena;
	lc_directive *d = LK_NEW(arena, lc_directive);
	if (!d) return NULL;
	d->kind = kind, d->name_count = count;
	d->names = LK_ARRAY(arena, lc_word, (size_t)count);
	for (int i = 0; d->names && i < count; i++) d->names[i].text = m->word[words[i]];
	if (kind == LC_OVERLAP) d->chunk = "";
	return d->names ? d : NULL;
}

static bool is_free(const lc_program *p, const char *name) {
	int id;
	for (size_t i = 0; i < p->bundles.count; i++)
		if (p->bundles.at[i].name && strcmp(p->bundles.at[i].name, name) == 0) return false;
	return lc_part(p, name, &id, 1) == 0 && lc_value_find(p, name) < 0 && lc_axis_find(p, name) < 0 &&
	       lc_dim_find(p, name) < 0 && lc_list_find(p, name) < 0;
}

bool lc_move_names(const lc_mover *m, lc_directive *d, const char *const *names, int count) {
	lk_arena *arena = &m->p->file->arena;
	d->results = LK_ARRAY(arena, lc_word, (size_t)count);
	d->result_count = count;
	for (int i = 0; d->results && i < count; i++) {
		const char *name = lk_arena_strdup(arena, names[i]);
		for (int k = 2; name && !is_free(m->p, name); k++) name = lk_arena_printf(arena, "%s%d", names[i], k);
		if (!name) return false;
		d->results[i].text = name;
	}
	return d->results != NULL;
}

lk_status lc_move_add(lc_mover *m, const lc_directive *d, lk_error *err) {
	if (!lk_push(m->out)) return lk_oom(err);
	*lk_last(m->out) = *d;
	return LK_OK;
}

lk_status lc_move_try(lc_mover *m, const lc_directive *d, bool *applies, lk_error *err) {
	lc_program *made = NULL;
	lk_error ignored;
	int line = m->p->file->mistake.line, column = m->p->file->mistake.column;
	lk_status status = lc_rewrite(m->p, d, &made, &ignored);
	m->p->file->mistake.line = line, m->p->file->mistake.column = column;
	lc_program_free(status == LK_OK ? made : NULL);
	*applies = status == LK_OK;
	return status == LK_ERR_MEMORY ? lk_oom(err) : LK_OK;
}

/* ---- all-reduces ---- */

static bool is_sliced(const lc_program *p, const lc_node *n, int d) {
	for (int a = 0; a < p->axis_count; a++)
		if (n->layout[a].kind == LC_S && n->layout[a].dim == d) return true;
	return false;
}

/* Splits along the dims that are not sliced yet; of several, the last stays whole, for rows are contiguous. */
static lk_status split(lc_mover *m, int word, const lc_node *n, lk_error *err) {
	static const char *const names[] = {"rs", "ag"};
	int found = 0;
	for (int d = 0; d < n->rank && (d < n->rank - 1 || !found); d++) {
		if (n->dim[d] == 0 || is_sliced(m->p, n, d)) continue;
		lc_directive *move = lc_move(m, LC_SPLIT, &word, 1);
		if (!move || !lc_move_names(m, move, names, 2)) return lk_oom(err);
		move->size = d + 1;
		LK_TRY(lc_move_add(m, move, err));
		found++;
	}
	return LK_OK;
}

static lk_status levels(lc_mover *m, int word, const lc_node *n, int64_t ranks, lk_error *err) {
	static const char *const names[] = {"rs", "ar", "ag"};
	int64_t size = m->p->axes[n->axis].size;
	if (ranks < 2 || m->p->axis_count == LC_AXES || (size && (size <= ranks || size % ranks))) return LK_OK;
	lc_directive *move = lc_move(m, LC_HIERARCHICAL, &word, 1);
	if (!move || !lc_move_names(m, move, names, 3)) return lk_oom(err);
	move->size = ranks;
	return lc_move_add(m, move, err);
}

/* An axis of groups of so many ranks: what is reduced between them is a slice already. */
static bool is_outer(const lc_program *p, int axis, int64_t ranks) {
	return ranks && axis + 1 < p->axis_count && p->axes[axis + 1].size == ranks;
}

static lk_status all_reduces(lc_mover *m, int64_t ranks, lk_error *err) {
	for (size_t i = 0; i < m->p->nodes.count; i++) {
		const lc_node *n = &m->p->nodes.at[i];
		if (n->op != LC_ALLREDUCE || n->rank == 0 || m->word_of[i] < 0 || is_outer(m->p, n->axis, ranks)) continue;
		LK_TRY(split(m, m->word_of[i], n, err));
		LK_TRY(levels(m, m->word_of[i], n, ranks, err));
	}
	return LK_OK;
}

/* ---- gathers ---- */

static bool passes(const lc_node *n) {
	return lc_is_pointwise(n) || lc_ops[n->op].family == LC_RED || n->op == LC_UPDATE || n->op == LC_SEND ||
	       n->op == LC_SLICE;
}

/* Whether a statement reduces a state that a statement to be passed updates: it is to work on slices as well. */
static bool reduces_state(const lc_mover *m, size_t id, const bool *past) {
	const lc_node *n = &m->p->nodes.at[id], *state = n->inputs ? &m->p->nodes.at[n->in[0]] : NULL;
	if (lc_ops[n->op].family != LC_RED || (state->op != LC_STATE && state->op != LC_UPDATE)) return false;
	for (size_t i = 0; i < m->p->nodes.count; i++)
		if (m->p->nodes.at[i].op == LC_UPDATE && m->word_of[i] >= 0 && past[m->word_of[i]] &&
		    strcmp(m->p->nodes.at[i].name, state->name) == 0) return true;
	return false;
}

/* Statements behind the gathers of a word that they may pass; `next`: the direct readers. */
static lk_status find_past(lc_mover *m, int word, bool *far, bool *next, lk_error *err) {
	size_t count = m->p->nodes.count;
	uint8_t *behind = lc_new_set(m->p, &m->scratch);
	bool bad[LC_WORDS] = {false}, changed = true;
	if (!behind) return lk_oom(err);
	while (changed) {
		changed = false;
		for (size_t i = 0; i < count; i++) {
			const lc_node *n = &m->p->nodes.at[i];
			int w = m->word_of[i];
			bool gather = w == word && (n->op == LC_ALLGATHER || n->op == LC_BROADCAST), reads = false, stops = false;
			for (int k = lc_first_read(n); k < n->inputs; k++) {
				reads |= behind[n->in[k]];
				int from = m->word_of[n->in[k]];
				stops |= behind[n->in[k]] && from >= 0 && bad[from] && from != word;
				if (behind[n->in[k]] && from == word && w >= 0) next[w] = true;
			}
			behind[i] = gather || reads;
			if (!reads || gather || w < 0 || bad[w] || (passes(n) && !stops)) continue;
			bad[w] = changed = true;
		}
	}
	for (size_t i = 0; i < count; i++)
		if (behind[i] && m->word_of[i] >= 0) far[m->word_of[i]] = !bad[m->word_of[i]] && m->word_of[i] != word;
	for (size_t i = 0; i < count; i++)
		if (m->word_of[i] >= 0 && !behind[i] && reduces_state(m, i, far)) far[m->word_of[i]] = true;
	for (int w = 0; w < m->count; w++) next[w] &= far[w];
	return LK_OK;
}

static lk_status add_reorder(lc_mover *m, int word, const bool *past, lk_error *err) {
	int words[LC_WORDS + 1], count = 0;
	words[count++] = word;
	for (int w = 0; w < m->count; w++)
		if (past[w]) words[count++] = w;
	if (count == 1) return LK_OK;
	lc_directive *d = lc_move(m, LC_REORDER, words, count);
	return d ? lc_move_add(m, d, err) : lk_oom(err);
}

static lk_status reorders(lc_mover *m, lk_error *err) {
	bool gathers[LC_WORDS] = {false};
	for (size_t i = 0; i < m->p->nodes.count; i++) {
		int op = m->p->nodes.at[i].op;
		if ((op == LC_ALLGATHER || op == LC_BROADCAST) && m->word_of[i] >= 0) gathers[m->word_of[i]] = true;
	}
	for (int w = 0; w < m->count; w++) {
		bool far[LC_WORDS] = {false}, next[LC_WORDS] = {false};
		if (!gathers[w]) continue;
		LK_TRY(find_past(m, w, far, next, err));
		LK_TRY(add_reorder(m, w, far, err));
		if (memcmp(far, next, sizeof far) != 0) LK_TRY(add_reorder(m, w, next, err));
	}
	return LK_OK;
}

/* ---- states ---- */

static lk_status slices(lc_mover *m, lk_error *err) {
	lc_word names[LC_WORDS];
	lc_directive one = {.kind = LC_SLICE_STATE, .name_count = 1}, *all;
	int count = 0;
	for (size_t i = 0; i < m->p->nodes.count && count < LC_WORDS; i++) {
		const lc_node *n = &m->p->nodes.at[i];
		bool applies;
		if (n->op != LC_STATE) continue;
		names[count].text = n->name, names[count].line = names[count].column = 0;
		one.names = &names[count];
		LK_TRY(lc_move_try(m, &one, &applies, err));
		count += applies;
	}
	if (!count) return LK_OK;
	all = lc_move(m, LC_SLICE_STATE, NULL, 0);
	if (!all || !(all->names = LK_ARRAY(&m->p->file->arena, lc_word, (size_t)count))) return lk_oom(err);
	memcpy(all->names, names, sizeof *names * (size_t)count);
	all->name_count = count;
	return lc_move_add(m, all, err);
}

/* ---- all ---- */

static bool has(const lc_program *p, lc_directive_kind kind) {
	for (size_t i = 0; i < p->bundles.count; i++)
		if (p->bundles.at[i].kind == kind) return true;
	return false;
}

lk_status lc_rewrite_moves(const lc_program *p, int64_t nodes, lc_moves *out, lk_error *err) {
	lc_mover m;
	lk_status status = lc_mover_open(&m, p, out, err);
	bool bucket = has(p, LC_BUCKET), fuse = has(p, LC_FUSE), overlap = has(p, LC_OVERLAP);
	if (status == LK_OK && !bucket && !fuse && !overlap) {
		status = all_reduces(&m, nodes, err);
		if (status == LK_OK) status = reorders(&m, err);
		if (status == LK_OK) status = slices(&m, err);
	}
	if (status == LK_OK && !fuse && !overlap) status = lc_move_buckets(&m, err);
	if (status == LK_OK && !overlap) status = lc_move_fuse(&m, err);
	if (status == LK_OK) status = lc_move_overlap(&m, err);
	lc_mover_close(&m);
	return status;
}
