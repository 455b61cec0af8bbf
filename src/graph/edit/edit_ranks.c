/* edit_ranks.c: more or fewer ranks by data parallelism. Every rank's own work is unchanged; chains
 * are copies of one another, so a graph of c chains becomes one of c * f: data-parallel groups have
 * f times the ranks, while tensor, context, pipeline and expert groups keep theirs. The batch of
 * the whole job grows with the ranks. An optimizer whose states are sharded over data parallelism
 * updates fewer of them. */
#include "base/arena.h"
#include "graph/edit/edit.h"
#include "base/check.h"

#include <math.h>
#include <string.h>

/* ---- which communication is data parallel ---- */

static bool ranks_reduces(unsigned kind) {
	return kind == LK_OP_ALLREDUCE || kind == LK_OP_REDUCESCATTER;
}

static bool behind_forward(unsigned phase) {
	return phase == LK_PHASE_BACKWARD || phase == LK_PHASE_WEIGHT || phase == LK_PHASE_OPTIMIZER;
}

/* The team of a communication operation; UINT32_MAX: none. */
static uint32_t ranks_team_of(const lk_graph *graph, uint32_t op) {
	LK_ASSERT(op < graph->ops.count);
	const lk_ops *ops = &graph->ops;
	if (!lk_op_is_comm(ops->kind[op]) || ops->group[op] != LK_GROUP_TEAM) return UINT32_MAX;
	return ops->channel[op] >= 0 && (size_t)ops->channel[op] < graph->teams.count
	           ? (uint32_t)ops->channel[op]
	           : UINT32_MAX;
}

static uint32_t most_ranks(const lk_graph *graph) {
	uint32_t most = 0;
	for (size_t t = 0; t < graph->teams.count; t++)
		if (graph->teams.at[t].ranks > most) most = graph->teams.at[t].ranks;
	return most;
}

void lk_edit_data_parallel(const lk_graph *graph, bool *mask) {
	const lk_ops *ops = &graph->ops;
	bool any = false;
	for (size_t t = 0; t < graph->teams.count; t++) mask[t] = false;
	for (uint32_t i = 0; i < ops->count; i++) {
		uint32_t t = ranks_team_of(graph, i);
		if (t != UINT32_MAX && ranks_reduces(ops->kind[i]) && behind_forward(ops->phase[i]))
			mask[t] = true;
	}
	for (uint32_t i = 0; i < ops->count; i++) {
		uint32_t t = ranks_team_of(graph, i);
		bool gathers = ops->kind[i] == LK_OP_ALLGATHER || ops->kind[i] == LK_OP_BROADCAST;
		if (t != UINT32_MAX && ops->phase[i] == LK_PHASE_FORWARD && !gathers) mask[t] = false;
	}
	for (size_t t = 0; t < graph->teams.count; t++) any |= mask[t];
	for (size_t t = 0; t < graph->teams.count && !any; t++)
		mask[t] = graph->teams.at[t].ranks == most_ranks(graph);
}

bool lk_edit_is_data_parallel(const lk_graph *graph, uint32_t op, const bool *mask) {
	LK_ASSERT(op < graph->ops.count);
	uint32_t t = ranks_team_of(graph, op);
	if (t != UINT32_MAX) return mask && mask[t];
	unsigned group = graph->ops.group[op];
	return group == LK_GROUP_DP || group == LK_GROUP_EDP || group == LK_GROUP_SHARD ||
	       group == LK_GROUP_REPLICA;
}

bool lk_edit_reduces_gradients(const lk_graph *graph, uint32_t op, const bool *mask) {
	LK_ASSERT(op < graph->ops.count);
	bool team = graph->ops.group[op] ==
	            LK_GROUP_TEAM; /* of traces, which may have no phases: the mask decides */
	return ranks_reduces(graph->ops.kind[op]) &&
	       (team || graph->ops.phase[op] != LK_PHASE_FORWARD) &&
	       lk_edit_is_data_parallel(graph, op, mask);
}

/* ---- growing ---- */

struct growth {
	double factor;
	uint32_t chains; /* the new number */
	const bool *mask;
};

static lk_status no_copies(const lk_edit *edit, uint32_t ranks, const char *why, lk_error *err) {
	const lk_ranks *r = &edit->graph->ranks;
	uint32_t model = edit->graph->traced ? r->stages : r->world / r->group[LK_GROUP_DP].size;
	lk_fail(err, LK_ERR_INPUT, "ranks", "%u ranks instead of %u: %s", ranks, r->world, why);
	return lk_hint(err, "ranks come and go with whole copies of the model, of %u each",
	               model > 0 ? model : 1);
}

static bool ranks_whole(double x) {
	return x >= 1 && x == floor(x);
}

/* Grow the groups among the chains: only data-parallel groups grow. Hybrid sharding grows by its
 * replicas. */
static lk_status grow_groups(lk_edit *edit, const struct growth *growth, uint32_t ranks,
                             lk_error *err) {
	lk_ranks *r = &edit->graph->ranks;
	bool hybrid = r->group[LK_GROUP_SHARD].size < r->group[LK_GROUP_DP].size;
	uint32_t dp = r->group[LK_GROUP_DP].size, before = r->chains;
	if (dp == 1) return LK_OK; /* a trace: its groups are teams */
	for (int kind = 1; kind < LK_GROUP_TEAM; kind++) {
		bool grows = kind == LK_GROUP_DP || kind == LK_GROUP_EDP ||
		             (kind == LK_GROUP_SHARD && !hybrid) || (kind == LK_GROUP_REPLICA && hybrid) ||
		             (kind == LK_GROUP_MODEL && dp > 1 && r->group[kind].size == before);
		double size = r->group[kind].size * growth->factor;
		if (grows && !ranks_whole(size))
			return no_copies(edit, ranks, "a group would hold a part of a rank", err);
		if (grows) r->group[kind].size = (uint32_t)size;
		else if (r->group[kind].stride == before) r->group[kind].stride = growth->chains;
	}
	return LK_OK;
}

static void grow_teams(lk_edit *edit, const struct growth *growth) {
	for (size_t t = 0; t < edit->graph->teams.count; t++) {
		lk_team *team = &edit->graph->teams.at[t];
		if (!growth->mask[t]) continue;
		team->across = true;
		team->ranks = (uint32_t)(team->ranks * growth->factor);
	}
}

/* Scattered gradients mean that each rank has a share of the states. */
static bool sharded(const lk_graph *graph, const bool *mask) {
	for (uint32_t i = 0; i < graph->ops.count; i++)
		if (graph->ops.kind[i] == LK_OP_REDUCESCATTER && lk_edit_is_data_parallel(graph, i, mask))
			return true;
	return false;
}

static void shrink_optimizer(lk_edit *edit, const struct growth *growth) {
	lk_graph *graph = edit->graph;
	lk_ops *ops = &graph->ops;
	if (graph->ranks.group[LK_GROUP_REPLICA].size > 1) return; /* sharded within what is copied */
	for (uint32_t i = 0; i < ops->count; i++) {
		const char *name = lk_intern_text(graph->names, ops->name[i]);
		if (ops->kind[i] == LK_OP_OPTIMIZER || strcmp(name, "host_optimizer") == 0)
			ops->bytes[i] /= growth->factor;
	}
	for (size_t s = 0; s < graph->programs.count; s++)
		graph->programs.at[s].resident[LK_OWN_OPTIMIZER] /= growth->factor;
}

/* Whether some group's traffic shows the cost of more ranks. */
static bool has_data_parallelism(const lk_graph *graph, const bool *mask) {
	for (uint32_t i = 0; i < graph->ops.count; i++)
		if (lk_edit_reduces_gradients(graph, i, mask)) return true;
	return false;
}

static lk_status ranks_grow(lk_edit *edit, uint32_t ranks, const bool *mask, lk_error *err) {
	lk_graph *graph = edit->graph;
	struct growth g = {.factor = (double)ranks / graph->ranks.world, .mask = mask};
	if (!ranks_whole(graph->ranks.chains * g.factor))
		return no_copies(edit, ranks, "no whole number of copies", err);
	if (!has_data_parallelism(graph, mask))
		return no_copies(
			edit, ranks,
			"no collective reduces gradients, so nothing tells what copies would exchange", err);
	g.chains = (uint32_t)(graph->ranks.chains * g.factor);
	LK_TRY(grow_groups(edit, &g, ranks, err));
	grow_teams(edit, &g);
	if (sharded(graph, mask)) shrink_optimizer(edit, &g);
	graph->ranks.chains = g.chains;
	graph->ranks.world = ranks;
	graph->model_flops *= g.factor;
	graph->tokens *= g.factor;
	graph->samples *= g.factor;
	edit->changed = (uint32_t)edit->op.count;
	return LK_OK;
}

lk_status lk_edit_ranks(lk_edit *edit, uint32_t ranks, const bool *mask, lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	edit->changed = 0;
	if (ranks == edit->graph->ranks.world) return LK_OK;
	bool *found = LK_ARRAY(&arena, bool, edit->graph->teams.count);
	if (!found) return lk_oom(err);
	if (mask) memcpy(found, mask, edit->graph->teams.count * sizeof *found);
	else lk_edit_data_parallel(edit->graph, found);
	lk_status status = ranks_grow(edit, ranks, found, err);
	lk_arena_free(&arena);
	return status;
}
