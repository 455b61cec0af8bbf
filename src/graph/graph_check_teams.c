/* graph_check_teams.c: the invariants of teams, the listed process groups. Programs are compared by
 * counts; whether the members' orders of operations are compatible is found by the simulator. */
#include "base/arena.h"
#include "graph/graph_internal.h"
#include "base/check.h"
#include "base/noun.h"

#include <stdio.h>

enum { PLACE = 256 };

struct team_checker {
	const lk_graph *graph;
	lk_error *err;
	uint32_t *begin; /* [blocks + 1] into ops */
	uint32_t *ops;   /* operations of teams */
	uint64_t *use;   /* operations issued by an entry of team_stages */
};

static void team_place(const lk_graph *graph, size_t team, char out[PLACE]) {
	snprintf(out, PLACE, "team %zu (%.60s)", team,
	         lk_graph_text(graph, graph->teams.at[team].name));
}

static void teams_op_place(const lk_graph *graph, uint32_t stage, size_t call, uint32_t op,
                           char out[PLACE]) {
	LK_ASSERT(op < graph->ops.count);
	LK_ASSERT(stage < graph->programs.count);
	const lk_program *program = &graph->programs.at[stage];
	const lk_block *block = &graph->blocks.at[program->calls.at[call].block];
	snprintf(out, PLACE, "program %u (%.40s), call %zu (%.40s), operation %u (%.60s)", stage,
	         lk_graph_text(graph, program->name), call, lk_graph_text(graph, block->name),
	         op - block->begin, lk_graph_text(graph, graph->ops.name[op]));
}

static const char *team_fault(const lk_graph *graph, const lk_team *team) {
	if (team->begin >= team->end || team->end > graph->team_stages.count) return "has no members";
	for (uint32_t i = team->begin; i < team->end; i++) {
		if (graph->team_stages.at[i] >= graph->programs.count)
			return "has a member that is not a program";
		if (i > team->begin && graph->team_stages.at[i] <= graph->team_stages.at[i - 1])
			return "lists its members out of order, or one twice";
	}
	if ((uint64_t)(team->end - team->begin) * (team->across ? graph->ranks.chains : 1) >
	    team->ranks)
		return "has more members than ranks";
	return team->ranks <= INT32_MAX ? NULL : "has more than 2^31 ranks";
}

static lk_status check_lists(const struct team_checker *checker) {
	const lk_graph *graph = checker->graph;
	char where[PLACE];
	for (size_t i = 0; i < graph->teams.count; i++) {
		const lk_team *team = &graph->teams.at[i];
		bool named = team->name < lk_intern_count(graph->names);
		const char *fault = named ? team_fault(graph, team) : "has a name that does not exist";
		if (named) team_place(graph, i, where);
		else snprintf(where, sizeof where, "team %zu", i);
		if (fault) return lk_fail(checker->err, LK_ERR_INPUT, where, "%s", fault);
	}
	return LK_OK;
}

/* List the team operations of every block. */
static void list_ops(struct team_checker *checker) {
	const lk_graph *graph = checker->graph;
	uint32_t count = 0;
	for (size_t b = 0; b < graph->blocks.count; b++) {
		checker->begin[b] = count;
		for (uint32_t op = graph->blocks.at[b].begin; op < graph->blocks.at[b].end; op++)
			if (lk_op_is_comm(graph->ops.kind[op]) && graph->ops.group[op] == LK_GROUP_TEAM)
				checker->ops[count++] = op;
	}
	checker->begin[graph->blocks.count] = count;
}

static lk_status walk_call(const struct team_checker *checker, uint32_t stage, size_t at) {
	LK_ASSERT(stage < checker->graph->programs.count);
	const lk_graph *graph = checker->graph;
	const lk_call *call = &graph->programs.at[stage].calls.at[at];
	for (uint32_t i = checker->begin[call->block]; i < checker->begin[call->block + 1]; i++) {
		uint32_t op = checker->ops[i];
		const lk_team *team = &graph->teams.at[graph->ops.channel[op]];
		uint32_t member = lk_team_member(graph, team, stage);
		bool pair = !lk_op_is_collective(graph->ops.kind[op]);
		const char *fault;
		if (member == UINT32_MAX) fault = "is of a team of which its program is not a member";
		else if (pair && team->ranks != 2) fault = "sends or receives in a team that is not a pair";
		else fault = NULL;
		if (fault) {
			char where[PLACE];
			teams_op_place(graph, stage, at, op, where);
			return lk_fail(checker->err, LK_ERR_INPUT, where, "%s", fault);
		}
		checker->use[member] += call->repeat;
	}
	return LK_OK;
}

static lk_status compare_members(const struct team_checker *checker, size_t at) {
	const lk_graph *graph = checker->graph;
	const lk_team *team = &graph->teams.at[at];
	uint64_t first = checker->use[team->begin];
	char where[PLACE];
	team_place(graph, at, where);
	for (uint32_t i = team->begin + 1; i < team->end; i++) {
		if (checker->use[i] == first) continue;
		return lk_fail(checker->err, LK_ERR_INPUT, where,
		               "%llu %s of program %u, but %llu of program %u: they would wait forever",
		               (unsigned long long)checker->use[i],
		               lk_noun(checker->use[i], "operation", "operations"),
		               graph->team_stages.at[i], (unsigned long long)first,
		               graph->team_stages.at[team->begin]);
	}
	return LK_OK;
}

static lk_status teams_check(struct team_checker *checker, lk_arena *arena) {
	const lk_graph *graph = checker->graph;
	LK_TRY(check_lists(checker));
	checker->begin = LK_ARRAY(arena, uint32_t, graph->blocks.count + 1);
	checker->ops = LK_ARRAY(arena, uint32_t, graph->ops.count);
	checker->use = LK_ARRAY(arena, uint64_t, graph->team_stages.count);
	if (!checker->begin || !checker->ops || !checker->use) return lk_oom(checker->err);
	list_ops(checker);
	for (uint32_t s = 0; s < graph->programs.count; s++)
		for (size_t i = 0; i < graph->programs.at[s].calls.count; i++)
			LK_TRY(walk_call(checker, s, i));
	for (size_t i = 0; i < graph->teams.count; i++) LK_TRY(compare_members(checker, i));
	return LK_OK;
}

lk_status lk_graph_check_teams(const lk_graph *graph, lk_error *err) {
	struct team_checker c = {.graph = graph, .err = err};
	lk_arena arena = LK_ARENA_INIT;
	lk_status status = graph->teams.count ? teams_check(&c, &arena) : LK_OK;
	lk_arena_free(&arena);
	return status;
}
