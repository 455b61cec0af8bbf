/* moves_bundles.c: moves that change when values are computed, not which. */
#include <string.h>

#include "lang/rewrite/rewrite_internal.h"

/* ---- buckets ---- */

enum { BUCKET_BYTES = 25 << 20 }; /* bucket_cap_mb of PyTorch's DistributedDataParallel is 25 */

static lk_status try_bucket(lc_mover *mover, const int *words, int count, lc_directive **out,
                            lk_error *err) {
	bool applies;
	*out = lc_move(mover, LC_BUCKET, words, count);
	if (!*out) return lk_oom(err);
	(*out)->size = BUCKET_BYTES;
	LK_TRY(lc_move_try(mover, *out, &applies, err));
	if (!applies) *out = NULL;
	return LK_OK;
}

/* Try buckets: from each collective without one, with all that can join it (the sums of LAMB's two
 * norms). One of a list is a message of its own already. */
lk_status lc_move_buckets(lc_mover *mover, lk_error *err) {
	bool in[LC_WORDS] = {false};
	for (int first = 0; first < mover->count; first++) {
		lc_directive *best = NULL, *more;
		int words[LC_WORDS] = {first}, count = 1;
		if (!mover->collective[first] || in[first]) continue;
		for (int w = first + 1; w < mover->count; w++) {
			if (!mover->collective[w] || in[w]) continue;
			words[count] = w;
			LK_TRY(try_bucket(mover, words, count + 1, &more, err));
			if (more) {
				best = more;
				in[w] = true;
				count++;
			}
		}
		if (best) LK_TRY(lc_move_add(mover, best, err));
	}
	return LK_OK;
}

/* ---- passes ---- */

static bool bundles_in_pass(const lc_node *node, bool collectives) {
	if (node->op == LC_REDUCESCATTER || node->op == LC_ALLGATHER || node->op == LC_SEND)
		return collectives;
	return lc_is_leaf(node) || lc_is_pointwise(node) || lc_ops[node->op].family == LC_RED ||
	       node->op == LC_UPDATE || node->op == LC_SLICE ||
	       (node->op == LC_ALLREDUCE && node->rank == 0);
}

static void find_capable(const lc_mover *mover, bool collectives, bool *capable) {
	for (int w = 0; w < mover->count; w++) capable[w] = !mover->overlapped[w];
	for (size_t i = 0; i < mover->p->nodes.count; i++)
		if (mover->word_of[i] >= 0 && !bundles_in_pass(&mover->p->nodes.at[i], collectives))
			capable[mover->word_of[i]] = false;
}

static bool adjoins(const lc_mover *mover, const int *words, int count, int w) {
	for (int i = 0; i < count; i++)
		if (mover->feeds[words[i]][w] || mover->feeds[w][words[i]] ||
		    (mover->shares[words[i]] >> w & 1))
			return true;
	return false;
}

/* Grow the largest pass around a word: add others in order as long as it stays one pass. */
static lk_status bundles_grow(lc_mover *mover, int seed, const bool *capable, int *words,
                              int *count, lk_error *err) {
	bool applies, changed = true, in[LC_WORDS] = {false};
	words[0] = seed;
	*count = 1;
	in[seed] = true;
	while (changed) {
		changed = false;
		for (int w = 0; w < mover->count; w++) {
			if (in[w] || !capable[w] || !adjoins(mover, words, *count, w)) continue;
			words[*count] = w;
			lc_directive d = {.kind = LC_FUSE, .name_count = *count + 1};
			lc_word names[LC_WORDS];
			for (int i = 0; i <= *count; i++) names[i] = (lc_word){.text = mover->word[words[i]]};
			d.names = names;
			LK_TRY(lc_move_try(mover, &d, &applies, err));
			if (applies) {
				(*count)++;
				in[w] = changed = true;
			}
		}
	}
	return LK_OK;
}

/* Whether the move changes the program: an existing pass may already contain the whole set, except
 * for what follows after it. */
static lk_status changes_passes(const lc_mover *mover, const lc_directive *directive, bool *changes,
                                lk_error *err) {
	lc_program *made = NULL;
	LK_TRY(lc_rewrite(mover->p, directive, &made, err));
	*changes = lc_program_hash(made) != lc_program_hash(mover->p);
	lc_program_free(made);
	return LK_OK;
}

static lk_status add_fuse(lc_mover *mover, const int *words, int count, bool *added,
                          lk_error *err) {
	static const char *const label[] = {"F"};
	lc_directive *directive = lc_move(mover, LC_FUSE, words, count);
	if (!directive || !lc_move_names(mover, directive, label, 1)) return lk_oom(err);
	LK_TRY(changes_passes(mover, directive, added, err));
	return *added ? lc_move_add(mover, directive, err) : LK_OK;
}

/* Try passes from the first word on: the search need not choose among all subsets. With collectives
 * each pass is tried, because it may be better to leave alone what overlaps elsewhere in a step. */
static lk_status fuse_first(lc_mover *mover, bool collectives, lk_error *err) {
	bool capable[LC_WORDS], seen[LC_WORDS] = {false}, added = false;
	int words[LC_WORDS], count;
	find_capable(mover, collectives, capable);
	for (int w = 0; w < mover->count && (collectives || !added); w++) {
		bool any = !collectives;
		if (!capable[w] || seen[w]) continue;
		LK_TRY(bundles_grow(mover, w, capable, words, &count, err));
		for (int i = 0; i < count; i++) {
			seen[words[i]] = true;
			any |= mover->collective[words[i]];
		}
		if (count > 1 && any) LK_TRY(add_fuse(mover, words, count, &added, err));
	}
	return LK_OK;
}

lk_status lc_move_fuse(lc_mover *mover, lk_error *err) {
	LK_TRY(fuse_first(mover, false, err));
	return fuse_first(mover, true, err);
}

/* ---- overlaps ---- */

/* Whether the program's other overlaps have the same number of chunks, or the ring's order. */
static bool suits(const lc_mover *mover, int64_t chunks, const char *order) {
	for (size_t i = 0; i < mover->p->bundles.count; i++) {
		const lc_bundle *bundle = &mover->p->bundles.at[i];
		if (bundle->kind == LC_OVERLAP && (bundle->chunks || bundle->order) &&
		    (bundle->chunks != chunks || !bundle->order != !order))
			return false;
	}
	return true;
}

static bool bundles_is_listed(const lc_mover *mover, int w) {
	for (size_t i = 0; i < mover->p->nodes.count; i++)
		if (mover->word_of[i] == w && mover->p->nodes.at[i].list >= 0) return true;
	return false;
}

/* Whether this is a product of two batches: chunks of whole batches read every operand once, chunks
 * of rows read the right one each time. */
static bool has_batches(const lc_mover *mover, const int *words, int count) {
	for (size_t i = 0; i < mover->p->nodes.count; i++) {
		const lc_node *node = &mover->p->nodes.at[i];
		for (int k = 0; k < count && node->op == LC_MATMUL; k++)
			if (mover->word_of[i] == words[k] && mover->p->nodes.at[node->in[1]].rank > 2)
				return true;
	}
	return false;
}

/* Try the ring's order (whatever is cut) and some numbers of chunks; for a list the chunks are its
 * tensors. */
static lk_status add_cut(lc_mover *mover, const int *words, int count, const char *cut,
                         lk_error *err) {
	static const int64_t chunks[] = {0, 2, 4, 8, 16};
	size_t choices = bundles_is_listed(mover, words[0]) ? 1 : sizeof chunks / sizeof *chunks;
	for (size_t i = *cut ? 1 : 0; i < choices; i++) {
		lc_directive *directive = lc_move(mover, LC_OVERLAP, words, count);
		bool applies;
		if (!directive) return lk_oom(err);
		directive->chunk = cut, directive->chunks = chunks[i],
		directive->order = chunks[i] || choices == 1 ? NULL : "ring";
		if (!suits(mover, directive->chunks, directive->order)) continue;
		LK_TRY(lc_move_try(mover, directive, &applies, err));
		if (applies) LK_TRY(lc_move_add(mover, directive, err));
	}
	return LK_OK;
}

static lk_status bundles_add_chunks(lc_mover *mover, const int *words, int count, lk_error *err) {
	LK_TRY(add_cut(mover, words, count, "", err));
	return has_batches(mover, words, count) ? add_cut(mover, words, count, "batches", err) : LK_OK;
}

static int only_reader(const lc_mover *mover, int w) {
	int found = -1;
	for (int r = 0; r < mover->count; r++) {
		if (!mover->feeds[w][r]) continue;
		if (found >= 0) return -1;
		found = r;
	}
	return found >= 0 && !mover->overlapped[found] ? found : -1;
}

/* Try a chain from one collective to another, each read only by the next. */
static lk_status chain(lc_mover *mover, int first, lk_error *err) {
	int words[LC_WORDS], count = 0;
	for (int w = first; w >= 0 && count < LC_WORDS; w = only_reader(mover, w)) {
		words[count++] = w;
		if (count > 1 && mover->collective[w]) break;
	}
	return count > 3 ? bundles_add_chunks(mover, words, count, err) : LK_OK;
}

/* Find words that keep a processor busy: products and passes. */
static void find_busy(const lc_mover *mover, bool *busy) {
	for (size_t i = 0; i < mover->p->nodes.count; i++) {
		const lc_node *node = &mover->p->nodes.at[i];
		if (mover->word_of[i] >= 0)
			busy[mover->word_of[i]] |= node->fuse >= 0 || lc_ops[node->op].family == LC_CONTRACT;
	}
}

/* Try a collective with its producer, with its reader, and with both, if they have work to overlap
 * with it. */
static lk_status around(lc_mover *mover, int w, const bool *busy, lk_error *err) {
	for (int a = 0; a < mover->count; a++) {
		bool neighbour = mover->feeds[a][w] || mover->feeds[w][a];
		int pair[] = {mover->feeds[a][w] ? a : w, mover->feeds[a][w] ? w : a};
		if (!neighbour || mover->overlapped[a] || !(busy[a] || mover->collective[a])) continue;
		if ((busy[a] || busy[w]) && (!mover->collective[a] || a > w))
			LK_TRY(bundles_add_chunks(mover, pair, 2, err));
		for (int b = 0; b < mover->count && mover->feeds[a][w]; b++) {
			int three[] = {a, w, b};
			if (!mover->feeds[w][b] || mover->overlapped[b] || !(busy[b] || mover->collective[b]))
				continue;
			if (busy[a] || busy[w] || busy[b]) LK_TRY(bundles_add_chunks(mover, three, 3, err));
		}
	}
	return LK_OK;
}

/* Whether `other` can overlap with w, whose slices may be passed around: a product that reads the
 * same tensor, or the producer of that product's other operand. */
static bool stands_beside(const lc_mover *mover, int w, int other, const bool *busy) {
	if (mover->overlapped[other] || mover->feeds[w][other] || mover->feeds[other][w] || other == w)
		return false;
	if (busy[other] && (mover->shares[w] >> other & 1)) return true;
	for (int product = 0; product < mover->count; product++)
		if (busy[product] && (mover->shares[w] >> product & 1) && mover->feeds[other][product])
			return !mover->collective[other];
	return false;
}

static lk_status bundles_side_by_side(lc_mover *mover, int w, const bool *busy, bool *found,
                                      lk_error *err) {
	for (int other = 0; other < mover->count; other++) {
		int two[] = {w, other};
		bool applies;
		if (!stands_beside(mover, w, other, busy)) continue;
		lc_directive *directive = lc_move(mover, LC_OVERLAP, two, 2);
		if (!directive) return lk_oom(err);
		LK_TRY(lc_move_try(mover, directive, &applies, err));
		if (applies) LK_TRY(lc_move_add(mover, directive, err));
		*found |= applies;
	}
	return LK_OK;
}

static bool hands_round(const lc_mover *mover, int w) {
	for (size_t i = 0; i < mover->p->nodes.count; i++)
		if (mover->word_of[i] == w && mover->p->nodes.at[i].op == LC_PERMUTE) return true;
	return false;
}

lk_status lc_move_overlap(lc_mover *mover, lk_error *err) {
	bool found = false, busy[LC_WORDS] = {false};
	find_busy(mover, busy);
	for (int w = 0; w < mover->count; w++) {
		if (!mover->collective[w] || mover->overlapped[w]) continue;
		if (hands_round(mover, w)) {
			if (!found) LK_TRY(bundles_side_by_side(mover, w, busy, &found, err));
			continue;
		}
		LK_TRY(around(mover, w, busy, err));
		LK_TRY(chain(mover, w, err));
	}
	return LK_OK;
}
