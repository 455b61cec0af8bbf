/* moves.c: moves that a search tries next. Rewrites come before bundles, in a fixed order of kinds,
 * and are deliberately few: every all-reduce split along dims that can be sliced, gathers moved
 * past their readers or as far as they go, all states that can be sliced at once; then buckets, the
 * largest passes, then overlaps (moves_bundles.c). */
#include <string.h>

#include "base/arena.h"
#include "lang/rewrite/rewrite_internal.h"
#include "base/check.h"

/* ---- words ---- */

static const char *word_text(const lc_program *program, const lc_node *node) {
	if (node->fuse >= 0 && program->bundles.at[node->fuse].name)
		return program->bundles.at[node->fuse].name;
	return lc_is_leaf(node) || node->op == LC_OUT ? NULL : node->part_of;
}

static int find_word(lc_mover *mover, const char *text) {
	for (int w = 0; w < mover->count; w++)
		if (strcmp(mover->word[w], text) == 0) return w;
	if (mover->count == LC_WORDS) return -1;
	mover->word[mover->count] = text;
	return mover->count++;
}

static lk_status find_shares(lc_mover *mover, lk_error *err) {
	const lc_program *program = mover->p;
	uint64_t *readers = LK_ARRAY(&mover->scratch, uint64_t, program->nodes.count);
	if (!readers) return lk_oom(err);
	for (size_t i = 0; i < program->nodes.count; i++)
		for (int k = 0; k < program->nodes.at[i].inputs && mover->word_of[i] >= 0; k++)
			readers[program->nodes.at[i].in[k]] |= (uint64_t)1 << mover->word_of[i];
	for (size_t i = 0; i < program->nodes.count; i++)
		for (int w = 0; w < mover->count && program->nodes.at[i].rank; w++)
			if (readers[i] >> w & 1) mover->shares[w] |= readers[i];
	return LK_OK;
}

lk_status lc_mover_open(lc_mover *mover, const lc_program *program, lc_moves *out, lk_error *err) {
	memset(mover, 0, sizeof *mover);
	mover->p = program;
	mover->out = out;
	mover->word_of = LK_ARRAY(&mover->scratch, int, program->nodes.count);
	if (!mover->word_of) return lk_oom(err);
	for (size_t i = 0; i < program->nodes.count; i++) {
		const lc_node *node = &program->nodes.at[i];
		const char *text = word_text(program, node);
		int w = mover->word_of[i] = text ? find_word(mover, text) : -1;
		if (w < 0) continue;
		mover->collective[w] |= lc_communicates(node);
		mover->overlapped[w] |= node->overlap >= 0;
		for (int k = lc_first_read(node); k < node->inputs; k++)
			if (mover->word_of[node->in[k]] >= 0 && mover->word_of[node->in[k]] != w)
				mover->feeds[mover->word_of[node->in[k]]][w] = true;
	}
	return find_shares(mover, err);
}

void lc_mover_close(lc_mover *mover) {
	lk_arena_free(&mover->scratch);
}

/* ---- all-reduces ---- */

/* Splits along the dims that are not sliced yet; of several, the last stays whole, for rows are
 * contiguous. */
static lk_status moves_split(lc_mover *mover, int word, const lc_node *node, lk_error *err) {
	static const char *const names[] = {"rs", "ag"};
	int found = 0;
	for (int d = 0; d < node->rank && (d < node->rank - 1 || !found); d++) {
		if (node->dim[d] == 0 || lc_is_sliced(mover->p, node, d)) continue;
		lc_directive *move = lc_move(mover, LC_SPLIT, &word, 1);
		if (!move || !lc_move_names(mover, move, names, 2)) return lk_oom(err);
		move->dim_given = true;
		move->dim = d;
		LK_TRY(lc_move_add(mover, move, err));
		found++;
	}
	return LK_OK;
}

static lk_status moves_levels(lc_mover *mover, int word, const lc_node *node, int64_t ranks,
                              lk_error *err) {
	static const char *const names[] = {"rs", "ar", "ag"};
	int64_t size = mover->p->axes[node->axis].size;
	if (ranks < 2 || mover->p->axis_count == LC_AXES || (size && (size <= ranks || size % ranks)))
		return LK_OK;
	lc_directive *move = lc_move(mover, LC_HIERARCHICAL, &word, 1);
	if (!move || !lc_move_names(mover, move, names, 3)) return lk_oom(err);
	move->size = ranks;
	return lc_move_add(mover, move, err);
}

/* Whether an axis has groups of this size: what is reduced between them is already a slice. */
static bool is_outer(const lc_program *program, int axis, int64_t ranks) {
	return ranks && axis + 1 < program->axis_count && program->axes[axis + 1].size == ranks;
}

static lk_status all_reduces(lc_mover *mover, int64_t ranks, lk_error *err) {
	for (size_t i = 0; i < mover->p->nodes.count; i++) {
		const lc_node *node = &mover->p->nodes.at[i];
		if (node->op != LC_ALLREDUCE || node->rank == 0 || mover->word_of[i] < 0 ||
		    is_outer(mover->p, node->axis, ranks))
			continue;
		LK_TRY(moves_split(mover, mover->word_of[i], node, err));
		LK_TRY(moves_levels(mover, mover->word_of[i], node, ranks, err));
	}
	return LK_OK;
}

/* ---- gathers ---- */

/* Whether gathers can move past a value; an all-reduce of one number comes from slices. */
static bool passes(const lc_node *node) {
	return lc_is_pointwise(node) || lc_ops[node->op].family == LC_RED ||
	       lc_ops[node->op].family == LC_TOTALS || node->op == LC_UPDATE || node->op == LC_SEND ||
	       node->op == LC_SLICE || (node->op == LC_ALLREDUCE && node->rank == 0);
}

/* Whether a statement reduces a state that a passed statement updates: then it must work on slices
 * as well. */
static bool reduces_state(const lc_mover *mover, size_t id, const bool *past) {
	const lc_node *node = &mover->p->nodes.at[id],
				  *state = node->inputs ? &mover->p->nodes.at[node->in[0]] : NULL;
	if (lc_ops[node->op].family != LC_RED || (state->op != LC_STATE && state->op != LC_UPDATE))
		return false;
	for (size_t i = 0; i < mover->p->nodes.count; i++)
		if (mover->p->nodes.at[i].op == LC_UPDATE && mover->word_of[i] >= 0 &&
		    past[mover->word_of[i]] && strcmp(mover->p->nodes.at[i].name, state->name) == 0)
			return true;
	return false;
}

/* Find statements after the gathers of a word that they may pass; `next`: the direct readers. */
static lk_status find_past(lc_mover *mover, int word, bool *far, bool *next, lk_error *err) {
	size_t count = mover->p->nodes.count;
	uint8_t *behind = lc_new_set(mover->p, &mover->scratch);
	bool bad[LC_WORDS] = {false}, changed = true;
	if (!behind) return lk_oom(err);
	while (changed) {
		changed = false;
		for (size_t i = 0; i < count; i++) {
			const lc_node *node = &mover->p->nodes.at[i];
			int w = mover->word_of[i];
			bool gather = w == word && (node->op == LC_ALLGATHER || node->op == LC_BROADCAST),
				 reads = false, stops = false;
			for (int k = lc_first_read(node); k < node->inputs; k++) {
				reads |= behind[node->in[k]];
				int from = mover->word_of[node->in[k]];
				stops |= behind[node->in[k]] && from >= 0 && bad[from] && from != word;
				if (behind[node->in[k]] && from == word && w >= 0) next[w] = true;
			}
			behind[i] = gather || reads;
			if (!reads || gather || w < 0 || bad[w] || (passes(node) && !stops)) continue;
			bad[w] = changed = true;
		}
	}
	for (size_t i = 0; i < count; i++)
		if (behind[i] && mover->word_of[i] >= 0)
			far[mover->word_of[i]] = !bad[mover->word_of[i]] && mover->word_of[i] != word;
	for (size_t i = 0; i < count; i++)
		if (mover->word_of[i] >= 0 && !behind[i] && reduces_state(mover, i, far))
			far[mover->word_of[i]] = true;
	for (int w = 0; w < mover->count; w++) next[w] &= far[w];
	return LK_OK;
}

static lk_status add_reorder(lc_mover *mover, int word, const bool *past, lk_error *err) {
	int words[LC_WORDS + 1], count = 0;
	words[count++] = word;
	for (int w = 0; w < mover->count; w++)
		if (past[w]) words[count++] = w;
	if (count == 1) return LK_OK;
	lc_directive *directive = lc_move(mover, LC_REORDER, words, count);
	return directive ? lc_move_add(mover, directive, err) : lk_oom(err);
}

static lk_status reorders(lc_mover *mover, lk_error *err) {
	bool gathers[LC_WORDS] = {false};
	for (size_t i = 0; i < mover->p->nodes.count; i++) {
		int op = mover->p->nodes.at[i].op;
		if ((op == LC_ALLGATHER || op == LC_BROADCAST) && mover->word_of[i] >= 0)
			gathers[mover->word_of[i]] = true;
	}
	for (int w = 0; w < mover->count; w++) {
		bool far[LC_WORDS] = {false}, next[LC_WORDS] = {false};
		if (!gathers[w]) continue;
		LK_TRY(find_past(mover, w, far, next, err));
		LK_TRY(add_reorder(mover, w, far, err));
		if (memcmp(far, next, sizeof far) != 0) LK_TRY(add_reorder(mover, w, next, err));
	}
	return LK_OK;
}

/* ---- states ---- */

static lk_status slices(lc_mover *mover, lk_error *err) {
	lc_word names[LC_WORDS];
	lc_directive one = {.kind = LC_SLICE_STATE, .name_count = 1}, *all;
	int count = 0;
	for (size_t i = 0; i < mover->p->nodes.count && count < LC_WORDS; i++) {
		const lc_node *node = &mover->p->nodes.at[i];
		bool applies;
		if (node->op != LC_STATE) continue;
		names[count].text = node->name;
		names[count].line = names[count].column = 0;
		one.names = &names[count];
		LK_TRY(lc_move_try(mover, &one, &applies, err));
		count += applies;
	}
	if (!count) return LK_OK;
	all = lc_move(mover, LC_SLICE_STATE, NULL, 0);
	if (!all || !(all->names = LK_ARRAY(&mover->p->file->arena, lc_word, (size_t)count)))
		return lk_oom(err);
	memcpy(all->names, names, sizeof *names * (size_t)count);
	all->name_count = count;
	return lc_move_add(mover, all, err);
}

/* ---- all moves ---- */

static bool moves_has(const lc_program *program, lc_directive_kind kind) {
	for (size_t i = 0; i < program->bundles.count; i++)
		if (program->bundles.at[i].kind == kind) return true;
	return false;
}

lk_status lc_rewrite_moves(const lc_program *program, int64_t nodes, lc_moves *out, lk_error *err) {
	lc_mover m;
	lk_status status = lc_mover_open(&m, program, out, err);
	bool bucket = moves_has(program, LC_BUCKET), fuse = moves_has(program, LC_FUSE),
		 overlap = moves_has(program, LC_OVERLAP);
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
