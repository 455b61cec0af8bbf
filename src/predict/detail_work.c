/* detail_work.c: the kernels and messages of a step, summed by name and size, and the model's
 * curves of the job's collectives. */
#include "base/arena.h"
#include "predict/predict_internal.h"

#include <math.h>
#include <string.h>

#include "step/step.h"
#include "base/units.h"
#include "base/sort.h"

enum {
	MOST_KERNELS = 48,
	MOST_MESSAGES = 64,
	MOST_CURVES = 12,
	LEAST_SIZE = 10, /* 2^ */
	MOST_SIZE = 33
};

/* An operation of the graph and its runs on a rank per step, mean over the stages. */
struct work {
	uint32_t op, name;
	uint8_t kind, group;
	double count, bytes, flops, seconds; /* seconds of each */
};

static int by_likeness(const void *a, const void *b) {
	const struct work *x = a, *y = b;
	if (x->name != y->name) return x->name < y->name ? -1 : 1;
	if (x->kind != y->kind) return x->kind - y->kind;
	if (x->group != y->group) return x->group - y->group;
	if (x->bytes != y->bytes) return x->bytes < y->bytes ? -1 : 1;
	return (x->flops > y->flops) - (x->flops < y->flops);
}

static int work_by_time(const void *a, const void *b) {
	const struct work *x = a, *y = b;
	double dx = x->seconds * x->count, dy = y->seconds * y->count;
	if (dx != dy) return dx < dy ? 1 : -1;
	return by_likeness(a, b);
}

/* Runs of each block on a rank, mean over the stages. */
static double *block_counts(lk_arena *arena, const lk_graph *graph) {
	double *counts = LK_ARRAY(arena, double, graph->blocks.count);
	for (size_t s = 0; counts && s < graph->programs.count; s++) {
		const lk_program *program = &graph->programs.at[s];
		for (size_t c = 0; c < program->calls.count; c++)
			counts[program->calls.at[c].block] +=
				(double)program->calls.at[c].repeat / (double)graph->programs.count;
	}
	return counts;
}

/* Collect all work of the graph, equal operations together, costliest first; `count` of them. */
static struct work *work_collect(lk_arena *arena, const lk_step *step, size_t *count) {
	const lk_graph *graph = step->graph;
	const double *times = block_counts(arena, graph);
	struct work *list = LK_ARRAY(arena, struct work, graph->ops.count);
	size_t used = 0, merged = 0;
	if (!times || !list) return NULL;
	for (size_t b = 0; b < graph->blocks.count; b++)
		for (uint32_t op = graph->blocks.at[b].begin; op < graph->blocks.at[b].end && times[b] > 0;
		     op++) {
			const lk_ops *ops = &graph->ops;
			if (ops->kind[op] == LK_OP_WAIT || ops->kind[op] == LK_OP_HOST || op >= step->costs.ops)
				continue;
			list[used++] =
				(struct work){op,
			                  ops->name[op],
			                  ops->kind[op],
			                  ops->group[op],
			                  times[b],
			                  ops->bytes[op],
			                  ops->flops[op],
			                  (double)lk_costs_get(&step->costs, 0, op)->duration_ps / LK_PS_PER_S};
		}
	lk_sort(list, used, sizeof *list, by_likeness);
	for (size_t i = 0; i < used; i++) {
		if (merged && by_likeness(&list[merged - 1], &list[i]) == 0)
			list[merged - 1].count += list[i].count;
		else list[merged++] = list[i];
	}
	lk_sort(list, merged, sizeof *list, work_by_time);
	*count = merged;
	return list;
}

static lk_coll_kind work_collective_of(unsigned kind) {
	int found = 0;
	while (found < LK_COLLS &&
	       strcmp(lk_coll_name((lk_coll_kind)found), lk_op_kind_name((lk_op_kind)kind)) != 0)
		found++;
	return found < LK_COLLS ? (lk_coll_kind)found : LK_COLL_SENDRECV;
}

static uint32_t work_group_ranks(const lk_graph *graph, unsigned kind, unsigned group) {
	if (kind == LK_OP_SEND || kind == LK_OP_RECV) return 2;
	return graph->ranks.group[group].size * (group == LK_GROUP_MODEL ? graph->ranks.stages : 1);
}

static double work_busbw(unsigned kind, uint32_t ranks, double bytes, double seconds) {
	return seconds > 0
	           ? bytes / seconds * lk_coll_busbw_factor(work_collective_of(kind), (int)ranks)
	           : 0;
}

lk_status lk_detail_work(lk_arena *arena, const lk_step *step, lk_prediction_detail *out,
                         lk_error *err) {
	const lk_graph *graph = step->graph;
	size_t count = 0;
	struct work *list = work_collect(arena, step, &count);
	lk_detail_kernel *kernels = LK_ARRAY(arena, lk_detail_kernel, MOST_KERNELS);
	lk_detail_message *messages = LK_ARRAY(arena, lk_detail_message, MOST_MESSAGES);
	if (!list || !kernels || !messages) return lk_oom(err);
	for (size_t i = 0; i < count; i++) {
		const struct work *work = &list[i];
		const char *name = lk_arena_strdup(arena, lk_intern_text(graph->names, work->name));
		const char *kind = lk_op_kind_name((lk_op_kind)work->kind);
		if (!name) return lk_oom(err);
		if (work->seconds <= 0 || work->kind == LK_OP_RECV)
			continue; /* a receive is counted as its
			           * send */
		if (!lk_op_is_comm(work->kind)) {
			if (out->kernel_count < MOST_KERNELS)
				kernels[out->kernel_count++] = (lk_detail_kernel){
					name,        kind,        work->count,  work->count * work->seconds,
					work->flops, work->bytes, work->seconds};
		} else if (out->message_count < MOST_MESSAGES && work->group != LK_GROUP_TEAM) {
			uint32_t ranks = work_group_ranks(graph, work->kind, work->group);
			messages[out->message_count++] =
				(lk_detail_message){name,
			                        kind,
			                        work->kind == LK_OP_SEND ? "pp" : lk_group_label(work->group),
			                        (int)ranks,
			                        work->bytes,
			                        work->seconds,
			                        work_busbw(work->kind, ranks, work->bytes, work->seconds),
			                        work->count};
		}
	}
	out->kernels = kernels;
	out->messages = messages;
	return LK_OK;
}

/* ---- curves ---- */

struct pair {
	uint8_t kind, group;
};

/* Kinds of collectives and their groups. */
static int pairs_of(const lk_graph *graph, struct pair *out) {
	int count = 0;
	for (uint32_t op = 0; op < graph->ops.count && count < MOST_CURVES; op++) {
		unsigned kind = graph->ops.kind[op], group = graph->ops.group[op];
		if (!lk_op_is_collective(kind) || group == LK_GROUP_TEAM ||
		    work_group_ranks(graph, kind, group) < 2)
			continue;
		int known = 0;
		while (known < count && (out[known].kind != kind || out[known].group != group)) known++;
		if (known == count) out[count++] = (struct pair){(uint8_t)kind, (uint8_t)group};
	}
	return count;
}

/* A graph of only these collectives in all sizes, among the ranks of `like`. */
static lk_status curve_graph(const lk_graph *like, const struct pair *pairs, int count,
                             lk_graph **out, lk_error *err) {
	uint32_t block;
	lk_graph *graph = *out = lk_graph_new();
	if (!graph) return lk_oom(err);
	LK_TRY(lk_graph_set_programs(graph, like->ranks.stages, 0, err));
	graph->ranks = like->ranks;
	lk_graph_begin_block(graph, "curves");
	for (int i = 0; i < count; i++)
		for (int size = LEAST_SIZE; size <= MOST_SIZE; size++)
			lk_graph_add(graph, &(lk_op){.kind = pairs[i].kind,
			                             .group = pairs[i].group,
			                             .stream = LK_STREAM_DP,
			                             .name = "curve",
			                             .dtype = LK_BF16,
			                             .bytes = ldexp(1, size)});
	return lk_graph_end_block(graph, &block, err);
}

static lk_status read_curves(lk_arena *arena, const lk_costs *costs, const lk_graph *graph,
                             const struct pair *pairs, int count, lk_prediction_detail *out,
                             lk_error *err) {
	enum { SIZES = MOST_SIZE - LEAST_SIZE + 1 };
	lk_detail_curve *curves = LK_ARRAY(arena, lk_detail_curve, count);
	double *bytes = LK_ARRAY(arena, double, SIZES);
	if (!curves || !bytes) return lk_oom(err);
	for (int k = 0; k < SIZES; k++) bytes[k] = ldexp(1, LEAST_SIZE + k);
	for (int i = 0; i < count; i++) {
		double *rates = LK_ARRAY(arena, double, SIZES);
		if (!rates) return lk_oom(err);
		uint32_t ranks = work_group_ranks(graph, pairs[i].kind, pairs[i].group);
		for (int k = 0; k < SIZES; k++)
			rates[k] =
				work_busbw(pairs[i].kind, ranks, bytes[k],
			               (double)lk_costs_get(costs, 0, (uint32_t)(i * SIZES + k))->duration_ps /
			                   LK_PS_PER_S);
		curves[i] = (lk_detail_curve){lk_op_kind_name((lk_op_kind)pairs[i].kind),
		                              lk_group_label(pairs[i].group),
		                              (int)ranks,
		                              SIZES,
		                              bytes,
		                              rates};
	}
	out->curves = curves;
	out->curve_count = count;
	return LK_OK;
}

lk_status lk_detail_curves(lk_arena *arena, const lk_asked *asked, const lk_step *step,
                           lk_prediction_detail *out, lk_error *err) {
	struct pair pairs[MOST_CURVES];
	int count = pairs_of(step->graph, pairs);
	if (!count) return LK_OK;
	lk_constants constants;
	lk_costs costs;
	lk_graph *graph = NULL;
	lk_profile_constants(&asked->job, &constants);
	lk_cost_options costing = {.constants = &constants};
	lk_status status = curve_graph(step->graph, pairs, count, &graph, err);
	if (status == LK_OK)
		status = lk_costs_build(arena, graph, &asked->cluster, &costing, &costs, err);
	if (status == LK_OK) status = read_curves(arena, &costs, graph, pairs, count, out, err);
	lk_graph_free(graph);
	return status;
}
