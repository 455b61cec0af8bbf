/* align_net.c: the clocks of overlapping process groups. A shift s_r per rank and a constant c_g per group shall give
 * s_r = e_gr + c_g for every tie, weighted by how many collectives stand behind e_gr: first by a walk over the groups,
 * then by relaxation, with ties that are far off weighted down. */
#include <math.h>
#include <string.h>

#include "trace/align/align_internal.h"

enum { SWEEPS = 60 };
/* Part of the usual error below which a sweep changes nothing: a nanosecond of 10 us. */
static const double SETTLED = 1e-4;

/* Ties by capture: numbers of ties, so that a walk can go from ranks to groups and back. */
struct net {
	uint32_t *group_begin;   /* [groups + 1] in ties */
	uint32_t *capture_begin, *of_capture;
	bool *group_done, *capture_done;
	uint32_t *queue;
	double *constant;        /* [groups] c */
	double *sum, *weight;    /* [captures] */
	double *away, *sorted;   /* [ties] */
	lk_arena arena;
};

static bool room_for(struct net *n, size_t groups, size_t captures, size_t ties) {
	n->group_begin = LK_ARRAY(&n->arena, uint32_t, groups + 2);
	n->capture_begin = LK_ARRAY(&n->arena, uint32_t, captures + 2);
	n->of_capture = LK_ARRAY(&n->arena, uint32_t, ties);
	n->group_done = LK_ARRAY(&n->arena, bool, groups);
	n->capture_done = LK_ARRAY(&n->arena, bool, captures);
	n->queue = LK_ARRAY(&n->arena, uint32_t, captures);
	n->constant = LK_ARRAY(&n->arena, double, groups);
	n->sum = LK_ARRAY(&n->arena, double, captures);
	n->weight = LK_ARRAY(&n->arena, double, captures);
	n->away = LK_ARRAY(&n->arena, double, ties);
	n->sorted = LK_ARRAY(&n->arena, double, ties);
	return n->group_begin && n->capture_begin && n->of_capture && n->group_done && n->capture_done && n->queue &&
	       n->constant && n->sum && n->weight && n->away && n->sorted;
}

static bool make_net(const lk_aligner *a, struct net *n) {
	size_t groups = a->t->groups.count, captures = a->t->count, ties = a->ties.count;
	if (!room_for(n, groups, captures, ties)) return false;
	for (size_t i = 0; i < ties; i++) {
		n->group_begin[a->ties.at[i].group + 1]++;
		n->capture_begin[a->ties.at[i].capture + 2]++;
	}
	for (size_t g = 0; g < groups; g++) n->group_begin[g + 1] += n->group_begin[g];
	for (size_t c = 0; c < captures; c++) n->capture_begin[c + 2] += n->capture_begin[c + 1];
	for (size_t i = 0; i < ties; i++) n->of_capture[n->capture_begin[a->ties.at[i].capture + 1]++] = (uint32_t)i;
	return true;
}

/* Breadth first from `root`: every rank gets a value by one path of groups. */
static void walk_net(lk_aligner *a, struct net *n, uint32_t root, double *value) {
	size_t head = 0, tail = 0;
	n->queue[tail++] = root;
	n->capture_done[root] = true;
	while (head < tail) {
		uint32_t c = n->queue[head++];
		a->fit[c].component = root;
		for (uint32_t k = n->capture_begin[c]; k < n->capture_begin[c + 1]; k++) {
			const lk_tie *in = &a->ties.at[n->of_capture[k]];
			if (n->group_done[in->group]) continue;
			n->group_done[in->group] = true;
			n->constant[in->group] = value[c] - in->shift;
			for (uint32_t i = n->group_begin[in->group]; i < n->group_begin[in->group + 1]; i++) {
				const lk_tie *out = &a->ties.at[i];
				if (n->capture_done[out->capture]) continue;
				n->capture_done[out->capture] = true;
				value[out->capture] = n->constant[in->group] + out->shift;
				n->queue[tail++] = out->capture;
			}
		}
	}
}

/* Weights of ties that are far from the rest go down: w / (1 + (away / scale)^2). */
static double tie_weight(const lk_tie *t, double away, double scale) {
	return t->weight / (1 + away / scale * (away / scale));
}

/* Groups' constants from ranks, ranks from groups; the largest change of a rank. */
static double sweep(const lk_aligner *a, struct net *n, double *value, double scale) {
	for (size_t g = 0; g < a->t->groups.count; g++) {
		double sum = 0, weight = 0;
		for (uint32_t i = n->group_begin[g]; i < n->group_begin[g + 1]; i++) {
			double w = tie_weight(&a->ties.at[i], n->away[i], scale);
			sum += w * (value[a->ties.at[i].capture] - a->ties.at[i].shift);
			weight += w;
		}
		if (weight > 0) n->constant[g] = sum / weight;
	}
	memset(n->sum, 0, a->t->count * sizeof *n->sum);
	memset(n->weight, 0, a->t->count * sizeof *n->weight);
	for (size_t i = 0; i < a->ties.count; i++) {
		const lk_tie *t = &a->ties.at[i];
		double w = tie_weight(t, n->away[i], scale);
		n->sum[t->capture] += w * (n->constant[t->group] + t->shift);
		n->weight[t->capture] += w;
	}
	double moved = 0;
	for (uint32_t c = 0; c < a->t->count; c++) {
		double now = n->weight[c] > 0 ? n->sum[c] / n->weight[c] : value[c];
		moved = fmax(moved, fabs(now - value[c]));
		value[c] = now;
	}
	return moved;
}

static double measure_away(const lk_aligner *a, struct net *n, const double *value) {
	for (size_t i = 0; i < a->ties.count; i++) {
		const lk_tie *t = &a->ties.at[i];
		n->away[i] = fabs(value[t->capture] - n->constant[t->group] - t->shift);
	}
	memcpy(n->sorted, n->away, a->ties.count * sizeof *n->sorted);
	return a->ties.count ? lk_select_median(n->sorted, a->ties.count) : 0;
}

lk_status lk_join_ties(lk_aligner *a, double *value, double usual) {
	struct net n = {0};
	if (!make_net(a, &n)) return lk_arena_free(&n.arena), lk_oom(a->err);
	for (uint32_t c = 0; c < a->t->count; c++) value[c] = 0;
	for (uint32_t c = 0; c < a->t->count; c++)
		if (!n.capture_done[c]) walk_net(a, &n, c, value);
	double scale = INFINITY;
	for (int i = 0; i < SWEEPS && a->ties.count > a->t->count; i++) {
		if (i % 4 == 0) scale = fmax(usual, 3 * measure_away(a, &n, value));
		if (sweep(a, &n, value, scale) < usual * SETTLED) break;
	}
	for (uint32_t c = a->t->count; c-- > 0;) value[c] -= value[a->fit[c].component];
	lk_arena_free(&n.arena);
	return LK_OK;
}
