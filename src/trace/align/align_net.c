/* align_net.c: the clocks of overlapping process groups. Find a shift s_r per rank and a constant
 * c_g per group so that s_r = e_gr + c_g for every tie, weighted by how many collectives e_gr rests
 * on: first by a traversal of the groups, then by relaxation, in which outlying ties lose
 * weight. */
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "trace/align/align_internal.h"
#include "base/check.h"

enum { SWEEPS = 60 };
/* Relaxation ends when a sweep changes less than this part of the typical error: 1 ns of 10 us. */
static const double SETTLED = 1e-4;

/* Ties by capture, so that a traversal can go from ranks to groups and back. */
struct net {
	uint32_t *group_begin; /* [groups + 1] in ties */
	uint32_t *capture_begin, *of_capture;
	bool *group_done, *capture_done;
	uint32_t *queue;
	double *constant;      /* [groups] c */
	double *sum, *weight;  /* [captures] */
	double *away, *sorted; /* [ties] */
	lk_arena arena;
};

static bool net_room_for(struct net *net, size_t groups, size_t captures, size_t ties) {
	net->group_begin = LK_ARRAY(&net->arena, uint32_t, groups + 2);
	net->capture_begin = LK_ARRAY(&net->arena, uint32_t, captures + 2);
	net->of_capture = LK_ARRAY(&net->arena, uint32_t, ties);
	net->group_done = LK_ARRAY(&net->arena, bool, groups);
	net->capture_done = LK_ARRAY(&net->arena, bool, captures);
	net->queue = LK_ARRAY(&net->arena, uint32_t, captures);
	net->constant = LK_ARRAY(&net->arena, double, groups);
	net->sum = LK_ARRAY(&net->arena, double, captures);
	net->weight = LK_ARRAY(&net->arena, double, captures);
	net->away = LK_ARRAY(&net->arena, double, ties);
	net->sorted = LK_ARRAY(&net->arena, double, ties);
	return net->group_begin && net->capture_begin && net->of_capture && net->group_done &&
	       net->capture_done && net->queue && net->constant && net->sum && net->weight &&
	       net->away && net->sorted;
}

static bool make_net(const lk_aligner *aligner, struct net *net) {
	size_t groups = aligner->traces->groups.count, captures = aligner->traces->count,
		   ties = aligner->ties.count;
	if (!net_room_for(net, groups, captures, ties)) return false;
	for (size_t i = 0; i < ties; i++) {
		net->group_begin[aligner->ties.at[i].group + 1]++;
		net->capture_begin[aligner->ties.at[i].capture + 2]++;
	}
	for (size_t g = 0; g < groups; g++) net->group_begin[g + 1] += net->group_begin[g];
	for (size_t c = 0; c < captures; c++) net->capture_begin[c + 2] += net->capture_begin[c + 1];
	for (size_t i = 0; i < ties; i++)
		net->of_capture[net->capture_begin[aligner->ties.at[i].capture + 1]++] = (uint32_t)i;
	return true;
}

/* Breadth first from `root`: each rank gets a value along one path of groups. */
static void walk_net(lk_aligner *aligner, struct net *net, uint32_t root, double *value) {
	size_t head = 0, tail = 0;
	net->queue[tail++] = root;
	net->capture_done[root] = true;
	while (head < tail) {
		LK_ASSERT(tail <= aligner->traces->count);
		uint32_t c = net->queue[head++];
		aligner->fit[c].component = root;
		for (uint32_t k = net->capture_begin[c]; k < net->capture_begin[c + 1]; k++) {
			const lk_tie *in = &aligner->ties.at[net->of_capture[k]];
			if (net->group_done[in->group]) continue;
			net->group_done[in->group] = true;
			net->constant[in->group] = value[c] - in->shift;
			for (uint32_t i = net->group_begin[in->group]; i < net->group_begin[in->group + 1];
			     i++) {
				const lk_tie *out = &aligner->ties.at[i];
				if (net->capture_done[out->capture]) continue;
				net->capture_done[out->capture] = true;
				value[out->capture] = net->constant[in->group] + out->shift;
				net->queue[tail++] = out->capture;
			}
		}
	}
}

/* Reduce the weight of outlying ties: w / (1 + (away / scale)^2). */
static double tie_weight(const lk_tie *tie, double away, double scale) {
	return tie->weight / (1 + away / scale * (away / scale));
}

/* Groups' constants from ranks, then ranks from groups; returns the largest change of a rank. */
static double net_sweep(const lk_aligner *aligner, struct net *net, double *value, double scale) {
	for (size_t g = 0; g < aligner->traces->groups.count; g++) {
		double sum = 0, weight = 0;
		for (uint32_t i = net->group_begin[g]; i < net->group_begin[g + 1]; i++) {
			double w = tie_weight(&aligner->ties.at[i], net->away[i], scale);
			sum += w * (value[aligner->ties.at[i].capture] - aligner->ties.at[i].shift);
			weight += w;
		}
		if (weight > 0) net->constant[g] = sum / weight;
	}
	memset(net->sum, 0, aligner->traces->count * sizeof *net->sum);
	memset(net->weight, 0, aligner->traces->count * sizeof *net->weight);
	for (size_t i = 0; i < aligner->ties.count; i++) {
		const lk_tie *tie = &aligner->ties.at[i];
		double w = tie_weight(tie, net->away[i], scale);
		net->sum[tie->capture] += w * (net->constant[tie->group] + tie->shift);
		net->weight[tie->capture] += w;
	}
	double moved = 0;
	for (uint32_t c = 0; c < aligner->traces->count; c++) {
		double now = net->weight[c] > 0 ? net->sum[c] / net->weight[c] : value[c];
		moved = fmax(moved, fabs(now - value[c]));
		value[c] = now;
	}
	return moved;
}

static double measure_away(const lk_aligner *aligner, struct net *net, const double *value) {
	for (size_t i = 0; i < aligner->ties.count; i++) {
		const lk_tie *tie = &aligner->ties.at[i];
		net->away[i] = fabs(value[tie->capture] - net->constant[tie->group] - tie->shift);
	}
	memcpy(net->sorted, net->away, aligner->ties.count * sizeof *net->sorted);
	return aligner->ties.count ? lk_select_median(net->sorted, aligner->ties.count) : 0;
}

lk_status lk_join_ties(lk_aligner *aligner, double *value, double usual) {
	struct net n = {0};
	if (!make_net(aligner, &n)) {
		lk_arena_free(&n.arena);
		return lk_oom(aligner->err);
	}
	for (uint32_t c = 0; c < aligner->traces->count; c++) value[c] = 0;
	for (uint32_t c = 0; c < aligner->traces->count; c++)
		if (!n.capture_done[c]) walk_net(aligner, &n, c, value);
	double scale = INFINITY;
	for (int i = 0; i < SWEEPS && aligner->ties.count > aligner->traces->count; i++) {
		if (i % 4 == 0) scale = fmax(usual, 3 * measure_away(aligner, &n, value));
		if (net_sweep(aligner, &n, value, scale) < usual * SETTLED) break;
	}
	for (uint32_t c = aligner->traces->count; c-- > 0;)
		value[c] -= value[aligner->fit[c].component];
	for (uint32_t c = 0; c < aligner->traces->count; c++)
		LK_ASSERT(n.capture_done[c] && isfinite(value[c]) && aligner->fit[c].component <= c);
	lk_arena_free(&n.arena);
	return LK_OK;
}
