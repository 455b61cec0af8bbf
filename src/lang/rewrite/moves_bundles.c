/* moves_bundles.c: moves that change when values are computed, not which. */
#include <string.h>

#include "lang/rewrite/rewrite_internal.h"

/* ---- buckets ---- */

enum { BUCKET_BYTES = 25 << 20 }; /* bucket_cap_mb of PyTorch's DistributedDataParallel is 25 */

static lk_status try_bucket(lc_mover *m, const int *words, int count, lc_directive **out, lk_error *err) {
	bool applies;
	*out = lc_move(m, LC_BUCKET, words, count);
	if (!*out) return lk_oom(err);
	(*out)->size = BUCKET_BYTES;
	LK_TRY(lc_move_try(m, *out, &applies, err));
	if (!applies) *out = NULL;
	return LK_OK;
}

/* From every collective on that is in none yet: with all that can join it (the sums of LAMB's two norms), else alone, if
 * it is of a list. */
lk_status lc_move_buckets(lc_mover *m, lk_error *err) {
	bool in[LC_WORDS] = {false};
	for (int first = 0; first < m->count; first++) {
		lc_directive *best = NULL, *more;
		int words[LC_WORDS] = {first}, count = 1;
		if (!m->collective[first] || in[first]) continue;
		LK_TRY(try_bucket(m, words, 1, &best, err));
		for (int w = first + 1; w < m->count; w++) {
			if (!m->collective[w] || in[w]) continue;
			words[count] = w;
			LK_TRY(try_bucket(m, words, count + 1, &more, err));
			if (more) best = more, in[w] = true, count++;
		}
		if (best) LK_TRY(lc_move_add(m, best, err));
	}
	return LK_OK;
}

/* ---- passes ---- */

static bool in_pass(const lc_node *n, bool collectives) {
	if (n->op == LC_REDUCESCATTER || n->op == LC_ALLGATHER || n->op == LC_SEND) return collectives;
	return lc_is_leaf(n) || lc_is_pointwise(n) || lc_ops[n->op].family == LC_RED || n->op == LC_UPDATE ||
	       n->op == LC_SLICE || (n->op == LC_ALLREDUCE && n->rank == 0);
}

static void find_capable(const lc_mover *m, bool collectives, bool *capable) {
	for (int w = 0; w < m->count; w++) capable[w] = !m->overlapped[w];
	for (size_t i = 0; i < m->p->nodes.count; i++)
		if (m->word_of[i] >= 0 && !in_pass(&m->p->nodes.at[i], collectives)) capable[m->word_of[i]] = false;
}

static bool adjoins(const lc_mover *m, const int *words, int count, int w) {
	for (int i = 0; i < count; i++)
		if (m->feeds[words[i]][w] || m->feeds[w][words[i]] || (m->shares[words[i]] >> w & 1)) return true;
	return false;
}

/* The largest pass that a word is in: others are added in order as long as it stays one. */
static lk_status grow(lc_mover *m, int seed, const bool *capable, int *words, int *count, lk_error *err) {
	bool applies, changed = true, in[LC_WORDS] = {false};
	words[0] = seed, *count = 1, in[seed] = true;
	while (changed) {
		changed = false;
		for (int w = 0; w < m->count; w++) {
			if (in[w] || !capable[w] || !adjoins(m, words, *count, w)) continue;
			words[*count] = w;
			lc_directive d = {.kind = LC_FUSE, .name_count = *count + 1};
			lc_word names[LC_WORDS];
			for (int i = 0; i <= *count; i++) names[i] = (lc_word){.text = m->word[words[i]]};
			d.names = names;
			LK_TRY(lc_move_try(m, &d, &applies, err));
			if (applies) (*count)++, in[w] = changed = true;
		}
	}
	return LK_OK;
}

static lk_status add_fuse(lc_mover *m, const int *words, int count, lk_error *err) {
	static const char *const label[] = {"F"};
	lc_directive *d = lc_move(m, LC_FUSE, words, count);
	if (!d || !lc_move_names(m, d, label, 1)) return lk_oom(err);
	return lc_move_add(m, d, err);
}

/* Passes are fused from the first on: the search need not choose among all subsets of them. */
static lk_status fuse_first(lc_mover *m, bool collectives, lk_error *err) {
	bool capable[LC_WORDS], seen[LC_WORDS] = {false};
	int words[LC_WORDS], count;
	find_capable(m, collectives, capable);
	for (int w = 0; w < m->count; w++) {
		bool any = !collectives;
		if (!capable[w] || seen[w]) continue;
		LK_TRY(grow(m, w, capable, words, &count, err));
		for (int i = 0; i < count; i++) seen[words[i]] = true, any |= m->collective[words[i]];
		if (count > 1 && any) return add_fuse(m, words, count, err);
	}
	return LK_OK;
}

lk_status lc_move_fuse(lc_mover *m, lk_error *err) {
	LK_TRY(fuse_first(m, false, err));
	return fuse_first(m, true, err);
}

/* ---- overlaps ---- */

/* One number of chunks, or the ring's order, for all overlaps of a program. */
static bool suits(const lc_mover *m, int64_t chunks, const char *order) {
	for (size_t i = 0; i < m->p->bundles.count; i++) {
		const lc_bundle *b = &m->p->bundles.at[i];
		if (b->kind == LC_OVERLAP && (b->chunks || b->order) && (b->chunks != chunks || !b->order != !order)) return false;
	}
	return true;
}

static bool is_listed(const lc_mover *m, int w) {
	for (size_t i = 0; i < m->p->nodes.count; i++)
		if (m->word_of[i] == w && m->p->nodes.at[i].list >= 0) return true;
	return false;
}

/* Products of two batches: chunks of whole batches read every operand once, chunks of rows the right one each time. */
static bool has_batches(const lc_mover *m, const int *words, int count) {
	for (size_t i = 0; i < m->p->nodes.count; i++) {
		const lc_node *n = &m->p->nodes.at[i];
		for (int k = 0; k < count && n->op == LC_MATMUL; k++)
			if (m->word_of[i] == words[k] && m->p->nodes.at[n->in[1]].rank > 2) return true;
	}
	return false;
}

/* In the ring's order (whatever is cut), or some numbers of chunks; of a list the chunks are its tensors. */
static lk_status add_cut(lc_mover *m, const int *words, int count, const char *cut, lk_error *err) {
	static const int64_t chunks[] = {0, 2, 4, 8, 16};
	size_t choices = is_listed(m, words[0]) ? 1 : sizeof chunks / sizeof *chunks;
	for (size_t i = *cut ? 1 : 0; i < choices; i++) {
		lc_directive *d = lc_move(m, LC_OVERLAP, words, count);
		bool applies;
		if (!d) return lk_oom(err);
		d->chunk = cut, d->chunks = chunks[i], d->order = chunks[i] || choices == 1 ? NULL : "ring";
		if (!suits(m, d->chunks, d->order)) continue;
		LK_TRY(lc_move_try(m, d, &applies, err));
		if (applies) LK_TRY(lc_move_add(m, d, err));
	}
	return LK_OK;
}

static lk_status add_chunks(lc_mover *m, const int *words, int count, lk_error *err) {
	LK_TRY(add_cut(m, words, count, "", err));
	return has_batches(m, words, count) ? add_cut(m, words, count, "batches", err) : LK_OK;
}

static int only_reader(const lc_mover *m, int w) {
	int found = -1;
	for (int r = 0; r < m->count; r++) {
		if (!m->feeds[w][r]) continue;
		if (found >= 0) return -1;
		found = r;
	}
	return found >= 0 && !m->overlapped[found] ? found : -1;
}

/* From a collective on, each read by the next alone, up to another collective. */
static lk_status chain(lc_mover *m, int first, lk_error *err) {
	int words[LC_WORDS], count = 0;
	for (int w = first; w >= 0 && count < LC_WORDS; w = only_reader(m, w)) {
		words[count++] = w;
		if (count > 1 && m->collective[w]) break;
	}
	return count > 3 ? add_chunks(m, words, count, err) : LK_OK;
}

/* Words that keep a processor busy: products and passes. */
static void find_busy(const lc_mover *m, bool *busy) {
	for (size_t i = 0; i < m->p->nodes.count; i++) {
		const lc_node *n = &m->p->nodes.at[i];
		if (m->word_of[i] >= 0) busy[m->word_of[i]] |= n->fuse >= 0 || lc_ops[n->op].family == LC_CONTRACT;
	}
}

/* A collective with what feeds it, with what it feeds, and with both, as far as there is work to hide it behind. */
static lk_status around(lc_mover *m, int w, const bool *busy, lk_error *err) {
	for (int a = 0; a < m->count; a++) {
		bool neighbour = m->feeds[a][w] || m->feeds[w][a];
		int pair[] = {m->feeds[a][w] ? a : w, m->feeds[a][w] ? w : a};
		if (!neighbour || m->overlapped[a] || !(busy[a] || m->collective[a])) continue;
		if ((busy[a] || busy[w]) && (!m->collective[a] || a > w)) LK_TRY(add_chunks(m, pair, 2, err));
		for (int b = 0; b < m->count && m->feeds[a][w]; b++) {
			int three[] = {a, w, b};
			if (!m->feeds[w][b] || m->overlapped[b] || !(busy[b] || m->collective[b])) continue;
			if (busy[a] || busy[w] || busy[b]) LK_TRY(add_chunks(m, three, 3, err));
		}
	}
	return LK_OK;
}

/* Beside what slices may be handed round: a product of what is handed on, or what makes the product's other operand. */
static bool stands_beside(const lc_mover *m, int w, int other, const bool *busy) {
	if (m->overlapped[other] || m->feeds[w][other] || m->feeds[other][w] || other == w) return false;
	if (busy[other] && (m->shares[w] >> other & 1)) return true;
	for (int product = 0; product < m->count; product++)
		if (busy[product] && (m->shares[w] >> product & 1) && m->feeds[other][product]) return !m->collective[other];
	return false;
}

static lk_status side_by_side(lc_mover *m, int w, const bool *busy, bool *found, lk_error *err) {
	for (int other = 0; other < m->count; other++) {
		int two[] = {w, other};
		bool applies;
		if (!stands_beside(m, w, other, busy)) continue;
		lc_directive *d = lc_move(m, LC_OVERLAP, two, 2);
		if (!d) return lk_oom(err);
		LK_TRY(lc_move_try(m, d, &applies, err));
		if (applies) LK_TRY(lc_move_add(m, d, err));
		*found |= applies;
	}
	return LK_OK;
}

static bool hands_round(const lc_mover *m, int w) {
	for (size_t i = 0; i < m->p->nodes.count; i++)
		if (m->word_of[i] == w && m->p->nodes.at[i].op == LC_PERMUTE) return true;
	return false;
}

lk_status lc_move_overlap(lc_mover *m, lk_error *err) {
	bool found = false, busy[LC_WORDS] = {false};
	find_busy(m, busy);
	for (int w = 0; w < m->count; w++) {
		if (!m->collective[w] || m->overlapped[w]) continue;
		if (hands_round(m, w)) {
			if (!found) LK_TRY(side_by_side(m, w, busy, &found, err));
			continue;
		}
		LK_TRY(around(m, w, busy, err));
		LK_TRY(chain(m, w, err));
	}
	return LK_OK;
}
