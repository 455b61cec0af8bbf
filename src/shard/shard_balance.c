/* shard_balance.c: local search. A step waits for the rank that is slowest forward, the one that is
 * slowest backward, and the one that sends most columns; these may be three. The search minimises a
 * smooth substitute for their sum,
 *
 *     sum over ranks  F (f/F)^s + B (b/B)^s + 2 E (c/C)^s
 *
 * with F, B the means over ranks, C the least number of columns that the slowest rank can have, E
 * the exchange's time then, and s = 2^steepness: ranks above a mean count much, those below hardly.
 * A larger s is dominated by the slowest rank, and finds no way from a placement that is far from
 * even, so s grows.
 *
 * On a processor, a rank's accesses change the time of its lookups. That is ignored here: ranks
 * made even with it took longer, measured, than ranks that are even in the mean share's times
 * (docs/guide/shard.md).
 *
 * Bundles of pieces of the ranks that count most are exchanged with bundles of other ranks, always
 * to the least sum: bundles of one piece or none, and if these improve nothing, of two. It ends
 * when nothing improves. A rank's bundles are ordered by their time forward: those that can be
 * exchanged for a given bundle are contiguous. */
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "base/sort.h"
#include "shard/shard.h"

/* Approximate number of exchanges tried for one rank: beyond it bundles are left out by turns.
 * Ranks of many pieces do not use pairs. */
enum {
	WORST = 8,
	TRIALS = 200000,
	PAIRED = 64,
	LEVELS = 2,
	NONE = -1,
	STAMPED = 1024, /* ranks */
	FIRST = 7,
	LAST = 9 /* steepness */
};

/* Of a rank: at most level + 1 pieces. */
struct bundle {
	double at[LK_SHARD_MEASURES]; /* relative to the targets */
	double device, host;          /* bytes */
	int piece[LEVELS];            /* indices in the rank's list */
};

struct rank_load {
	double at[LK_SHARD_MEASURES], device, host;
	double value; /* its part of the sum */
	LK_VEC(uint32_t) pieces;
	LK_VEC(struct bundle) bundles[LEVELS];
	bool known[LEVELS]; /* the bundles are up to date with its pieces */
	uint32_t changed;   /* turn of the last change */
};

struct balancer {
	const lk_shard_problem *p;
	lk_shard_pieces *pieces;
	struct rank_load *rank; /* [ranks] */
	double aim[LK_SHARD_MEASURES], weight[LK_SHARD_MEASURES];
	uint32_t *looked[LEVELS]; /* [ranks * ranks] turn in which nothing was found from rank to rank;
	                             NULL: too many ranks */
	int steepness;
	double root; /* 2^-steepness */
	uint32_t turn;
	size_t trials;
};

struct move {
	double gain;
	struct bundle out, back;
	int to;
};

static double steep(const struct balancer *balancer, double x) {
	for (int i = 0; i < balancer->steepness; i++) x *= x;
	return x;
}

static double balance_value_of(const struct balancer *balancer, const double *at) {
	double value = 0;
	for (int m = 0; m < LK_SHARD_MEASURES; m++)
		value += balancer->weight[m] * steep(balancer, at[m]);
	return value;
}

/* ---- start ---- */

static void aim(struct balancer *balancer) {
	const lk_shard_problem *problem = balancer->p;
	lk_shard_widths widths = {.grain = lk_shard_grain(problem)};
	double sum[LK_SHARD_MEASURES] = {0};
	for (size_t i = 0; i < balancer->pieces->count; i++) {
		const lk_shard_piece *piece = &balancer->pieces->at[i];
		double times = piece->kind == LK_SHARD_DATA ? problem->ranks : 1;
		sum[LK_SHARD_FORWARD] += times * piece->cost.forward_s;
		sum[LK_SHARD_BACKWARD] += times * piece->cost.backward_s;
		if (piece->kind != LK_SHARD_DATA) lk_shard_widths_add(&widths, piece->cost.columns, 1);
	}
	for (int m = 0; m < LK_SHARD_MEASURES; m++)
		balancer->aim[m] = balancer->weight[m] = sum[m] / problem->ranks;
	balancer->aim[LK_SHARD_EXCHANGED] = lk_shard_even_columns(&widths, 1, problem->ranks);
	balancer->weight[LK_SHARD_EXCHANGED] =
		2 * lk_shard_exchange_s(problem, balancer->aim[LK_SHARD_EXCHANGED],
	                            balancer->aim[LK_SHARD_EXCHANGED],
	                            balancer->aim[LK_SHARD_EXCHANGED] * problem->ranks);
}

/* A piece's contribution to its rank. */
static struct bundle balance_bundle_of(const struct balancer *balancer, uint32_t index) {
	const lk_shard_cost *shard_cost = &balancer->pieces->at[index].cost;
	const double cost[LK_SHARD_MEASURES] = {shard_cost->forward_s, shard_cost->backward_s,
	                                        shard_cost->columns};
	struct bundle out = {
		.device = shard_cost->device_bytes, .host = shard_cost->host_bytes, .piece = {NONE, NONE}};
	for (int m = 0; m < LK_SHARD_MEASURES; m++)
		out.at[m] = balancer->aim[m] > 0 ? cost[m] / balancer->aim[m] : 0;
	return out;
}

static void balance_change(struct rank_load *load, const struct bundle *bundle, double sign) {
	for (int m = 0; m < LK_SHARD_MEASURES; m++) load->at[m] += sign * bundle->at[m];
	load->device += sign * bundle->device;
	load->host += sign * bundle->host;
}

static lk_status balance_begin(struct balancer *balancer, lk_arena *arena, lk_error *err) {
	const lk_shard_problem *problem = balancer->p;
	balancer->rank = LK_ARRAY(arena, struct rank_load, problem->ranks);
	if (!balancer->rank) return lk_oom(err);
	for (int i = 0; i < LEVELS && problem->ranks <= STAMPED; i++)
		if (!(balancer->looked[i] =
		          LK_ARRAY(arena, uint32_t, (size_t)problem->ranks * (size_t)problem->ranks)))
			return lk_oom(err);
	aim(balancer);
	for (size_t i = 0; i < balancer->pieces->count; i++) {
		const lk_shard_piece *piece = &balancer->pieces->at[i];
		bool copied = piece->kind == LK_SHARD_DATA;
		struct bundle x = balance_bundle_of(balancer, (uint32_t)i);
		for (int r = copied ? 0 : piece->rank; r < (copied ? problem->ranks : piece->rank + 1); r++)
			balance_change(&balancer->rank[r], &x, 1);
		if (copied) continue;
		if (!lk_push(&balancer->rank[piece->rank].pieces)) return lk_oom(err);
		*lk_last(&balancer->rank[piece->rank].pieces) = (uint32_t)i;
	}
	return LK_OK;
}

/* ---- bundles ---- */

static int rising(const void *a, const void *b) {
	const struct bundle *x = a, *y = b;
	if (x->at[LK_SHARD_FORWARD] != y->at[LK_SHARD_FORWARD])
		return x->at[LK_SHARD_FORWARD] < y->at[LK_SHARD_FORWARD] ? -1 : 1;
	return x->piece[0] != y->piece[0] ? x->piece[0] - y->piece[0] : x->piece[1] - y->piece[1];
}

static struct bundle balance_both(const struct bundle *x, const struct bundle *y) {
	struct bundle sum = {.device = x->device + y->device,
	                     .host = x->host + y->host,
	                     .piece = {x->piece[0], y->piece[0]}};
	for (int m = 0; m < LK_SHARD_MEASURES; m++) sum.at[m] = x->at[m] + y->at[m];
	return sum;
}

static lk_status find_bundles(struct balancer *balancer, struct rank_load *load, int level,
                              lk_error *err) {
	size_t n = load->pieces.count, pairs = level && n <= PAIRED ? n * (n - (n > 0)) / 2 : 0;
	if (load->known[level]) return LK_OK;
	load->known[level] = true;
	load->bundles[level].count = 0;
	if (!lk_reserve(&load->bundles[level], 1 + n + pairs)) return lk_oom(err);
	struct bundle *out = load->bundles[level].at, *single = out + 1, *next = out + 1 + n;
	out[0] = (struct bundle){.piece = {NONE, NONE}};
	for (size_t i = 0; i < n; i++) {
		single[i] = balance_bundle_of(balancer, load->pieces.at[i]);
		single[i].piece[0] = (int)i;
	}
	for (size_t i = 0; i < n && pairs; i++)
		for (size_t k = i + 1; k < n; k++) *next++ = balance_both(&single[i], &single[k]);
	load->bundles[level].count = 1 + n + pairs;
	lk_sort(out, load->bundles[level].count, sizeof *out, rising);
	balancer->trials += 1 + n + pairs;
	return LK_OK;
}

/* ---- moves ---- */

static void balance_consider(const struct balancer *balancer, const struct rank_load *here,
                             const struct bundle *out, int to, const struct bundle *back,
                             const double *limit, struct move *best) {
	const struct rank_load *there = &balancer->rank[to];
	double left[LK_SHARD_MEASURES], right[LK_SHARD_MEASURES];
	for (int m = 0; m < LK_SHARD_MEASURES; m++) {
		double more = out->at[m] - back->at[m];
		left[m] = here->at[m] - more;
		right[m] = there->at[m] + more;
		if (left[m] > limit[m] || right[m] > limit[m]) return;
	}
	double device = out->device - back->device, host = out->host - back->host;
	if (there->device + device > balancer->p->capacity ||
	    there->host + host > balancer->p->host_capacity)
		return;
	if (here->device - device > balancer->p->capacity ||
	    here->host - host > balancer->p->host_capacity)
		return;
	double gain = here->value + there->value - balance_value_of(balancer, left) -
	              balance_value_of(balancer, right);
	if (gain > best->gain) *best = (struct move){gain, *out, *back, to};
}

/* Loads that both ranks must stay below to count less together, by more than the best gain: for
 * each measure what remains to it if the others were even. False: they already count least. */
static bool find_limits(const struct balancer *balancer, const struct rank_load *here,
                        const struct rank_load *there, double gain, double *limit) {
	double even[LK_SHARD_MEASURES], left = here->value + there->value - gain;
	for (int m = 0; m < LK_SHARD_MEASURES; m++) {
		even[m] = 2 * balancer->weight[m] * steep(balancer, (here->at[m] + there->at[m]) / 2);
		left -= even[m];
	}
	if (!(left > 0)) return false;
	for (int m = 0; m < LK_SHARD_MEASURES; m++)
		limit[m] = balancer->weight[m] > 0
		               ? pow((left + even[m]) / balancer->weight[m], balancer->root) * (1 + 1e-12)
		               : INFINITY;
	return true;
}

/* Both ranks' bundles are in order: a longer bundle is exchanged for a longer one. */
static void consider_rank(struct balancer *balancer, int from, int to, int level, size_t begin,
                          size_t step, struct move *best) {
	const struct rank_load *here = &balancer->rank[from], *there = &balancer->rank[to];
	double limit[LK_SHARD_MEASURES];
	size_t first = 0, count = there->bundles[level].count;
	if (!find_limits(balancer, here, there, best->gain, limit)) return;
	for (size_t i = begin; i < here->bundles[level].count; i += step) {
		const struct bundle *out = &here->bundles[level].at[i], *back = there->bundles[level].at;
		if (out->piece[0] == NONE) continue;
		double least =
			there->at[LK_SHARD_FORWARD] + out->at[LK_SHARD_FORWARD] - limit[LK_SHARD_FORWARD];
		double most =
			limit[LK_SHARD_FORWARD] - here->at[LK_SHARD_FORWARD] + out->at[LK_SHARD_FORWARD];
		while (first < count && back[first].at[LK_SHARD_FORWARD] < least) first++;
		size_t k = first;
		for (; k < count && back[k].at[LK_SHARD_FORWARD] <= most; k++)
			balance_consider(balancer, here, out, to, &back[k], limit, best);
		balancer->trials += 1 + k - first;
	}
}

/* Whether nothing was found from rank to rank since both last changed. */
static bool balance_looked_at(const struct balancer *balancer, int from, int to, int level) {
	if (!balancer->looked[level]) return false;
	uint32_t turn = balancer->looked[level][(size_t)from * (size_t)balancer->p->ranks + (size_t)to];
	return turn > balancer->rank[from].changed && turn > balancer->rank[to].changed;
}

/* The best exchange of a rank, or one that takes half of its excess over the mean. Gains below a
 * fraction of that are ignored. */
static lk_status balance_best_of(struct balancer *balancer, int from, int level, struct move *best,
                                 lk_error *err) {
	struct rank_load *here = &balancer->rank[from];
	double above = here->value;
	for (int m = 0; m < LK_SHARD_MEASURES; m++) above -= balancer->weight[m];
	*best = (struct move){
		.gain = fmax((balancer->steepness < LAST ? 1e-3 : 1e-6) * above, 1e-9 * here->value),
		.to = NONE};
	LK_TRY(find_bundles(balancer, here, level, err));
	double looks = (double)here->bundles[level].count *
	               (double)(balancer->pieces->count + (size_t)balancer->p->ranks) * (level ? 4 : 1);
	size_t step = 1 + (size_t)(looks / TRIALS);
	for (int i = 0; i < balancer->p->ranks && !(best->to != NONE && best->gain > 0.5 * above);
	     i++) {
		int to = (int)((balancer->turn + (uint32_t)i) % (uint32_t)balancer->p->ranks);
		if (to == from || balancer->rank[to].value >= here->value ||
		    balance_looked_at(balancer, from, to, level))
			continue;
		LK_TRY(find_bundles(balancer, &balancer->rank[to], level, err));
		consider_rank(balancer, from, to, level, balancer->turn % step, step, best);
		if (balancer->looked[level] && best->to == NONE && step == 1)
			balancer->looked[level][(size_t)from * (size_t)balancer->p->ranks + (size_t)to] =
				balancer->turn;
	}
	return LK_OK;
}

/* Move the pieces of a bundle from `here` to the end of `there`. The later index goes first. */
static lk_status balance_hand_over(struct balancer *balancer, struct rank_load *here,
                                   const struct bundle *bundle, int to, uint32_t *moved,
                                   size_t *count, lk_error *err) {
	int first = bundle->piece[0] > bundle->piece[1] ? bundle->piece[0] : bundle->piece[1],
		second = bundle->piece[0] + bundle->piece[1] - first;
	const int places[] = {first, second};
	for (int i = 0; i < LEVELS; i++) {
		if (places[i] == NONE) continue;
		moved[(*count)++] = here->pieces.at[places[i]];
		balancer->pieces->at[here->pieces.at[places[i]]].rank = to;
		here->pieces.at[places[i]] = here->pieces.at[--here->pieces.count];
	}
	return lk_reserve(&balancer->rank[to].pieces, LEVELS * 2) ? LK_OK : lk_oom(err);
}

static lk_status balance_apply(struct balancer *balancer, int from, const struct move *move,
                               lk_error *err) {
	struct rank_load *here = &balancer->rank[from], *there = &balancer->rank[move->to];
	uint32_t out[LEVELS], back[LEVELS];
	size_t outs = 0, backs = 0;
	LK_TRY(balance_hand_over(balancer, here, &move->out, move->to, out, &outs, err));
	LK_TRY(balance_hand_over(balancer, there, &move->back, from, back, &backs, err));
	for (size_t i = 0; i < outs; i++) there->pieces.at[there->pieces.count++] = out[i];
	for (size_t i = 0; i < backs; i++) here->pieces.at[here->pieces.count++] = back[i];
	balance_change(here, &move->out, -1);
	balance_change(there, &move->out, 1);
	balance_change(here, &move->back, 1);
	balance_change(there, &move->back, -1);
	here->value = balance_value_of(balancer, here->at);
	there->value = balance_value_of(balancer, there->at);
	for (int i = 0; i < LEVELS; i++) here->known[i] = there->known[i] = false;
	return LK_OK;
}

/* The rank that counts most after `above` in the order of (value, rank). */
static int next_worst(const struct balancer *balancer, int above) {
	int worst = -1;
	for (int r = 0; r < balancer->p->ranks; r++) {
		double ahead = above >= 0 ? balancer->rank[r].value - balancer->rank[above].value : -1;
		if (ahead > 0 || (ahead == 0 && r <= above)) continue;
		if (worst < 0 || balancer->rank[r].value > balancer->rank[worst].value) worst = r;
	}
	return worst;
}

static lk_status find_move(struct balancer *balancer, int *from, struct move *best, lk_error *err) {
	for (int level = 0; level < LEVELS; level++) {
		*from = -1;
		for (int i = 0; i < WORST && (*from = next_worst(balancer, *from)) >= 0; i++) {
			LK_TRY(balance_best_of(balancer, *from, level, best, err));
			if (best->to != NONE) return LK_OK;
		}
	}
	return LK_OK;
}

static lk_status improve(struct balancer *balancer, size_t limit, lk_error *err) {
	balancer->root = ldexp(1, -balancer->steepness);
	for (int r = 0; r < balancer->p->ranks; r++)
		balancer->rank[r].value = balance_value_of(balancer, balancer->rank[r].at);
	size_t pairs = (size_t)balancer->p->ranks * (size_t)balancer->p->ranks;
	for (int i = 0; i < LEVELS && balancer->looked[i]; i++)
		memset(balancer->looked[i], 0, pairs * sizeof *balancer->looked[i]);
	while (balancer->trials < limit && !lk_shard_ends(balancer->p)) {
		int from;
		struct move best = {.to = NONE};
		LK_TRY(find_move(balancer, &from, &best, err));
		if (best.to == NONE) return LK_OK;
		LK_TRY(balance_apply(balancer, from, &best, err));
		balancer->rank[from].changed = balancer->rank[best.to].changed = balancer->turn++;
	}
	return LK_OK;
}

bool lk_shard_ends(const lk_shard_problem *problem) {
	const char *reached = lk_cutoff_reached(problem->cutoff);
	if (reached) *problem->cut_off = reached;
	return reached;
}

lk_status lk_shard_balance(const lk_shard_problem *problem, lk_shard_pieces *pieces, size_t *budget,
                           lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	struct balancer b = {.p = problem, .pieces = pieces, .turn = 1};
	lk_status status = balance_begin(&b, &arena, err);
	for (b.steepness = FIRST; b.steepness <= LAST && status == LK_OK; b.steepness += 2)
		status = improve(&b, *budget, err);
	*budget -= b.trials < *budget ? b.trials : *budget;
	for (int r = 0; b.rank && r < b.p->ranks; r++) {
		lk_vec_free(&b.rank[r].pieces);
		for (int i = 0; i < LEVELS; i++) lk_vec_free(&b.rank[r].bundles[i]);
	}
	lk_arena_free(&arena);
	return status;
}
