/* graph_export.c: a step graph rank by rank, as nodes that wait for one another: the form of other
 * simulators (Chakra's traces, GOAL's schedules). Calls and repetitions are written out.
 *
 * A node waits for nodes with smaller ids: the operation before it on the stream, those that the
 * operation waits for, and in graphs that were not traced the host's last operation before the
 * launch. If operations of the host are left out, nodes that wait for them wait for what they
 * waited for: the last node of each stream. A collective of one rank moves nothing and is also left
 * out, except in a graph from a trace, whose single rank represents several. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "graph/graph_internal.h"
#include "base/sort.h"

/* A value of `last`, `events` and `placed` with this bit is the place of a list in `fronts`. */
#define LEFT_OUT (UINT64_C(1) << 63)

/* The most nodes of all files together. */
#define MOST_NODES 2e9

/* ---- process groups ---- */

enum { GROUP_NAME = 256 };
/* A name shared by exactly the members of a group: its kind, its stage unless it spans stages, and
 * its index among the chains. */
static void group_name(const lk_export *export, const lk_op *op, char out[GROUP_NAME]) {
	const lk_ranks *ranks = &export->graph->ranks;
	if (op->group == LK_GROUP_TEAM && op->channel >= 0 &&
	    (size_t)op->channel < export->graph->teams.count) {
		const lk_team *team = &export->graph->teams.at[op->channel];
		const char *name = lk_intern_text(export->graph->names, team->name);
		snprintf(out, GROUP_NAME, team->across ? "team %.200s" : "team %.200s/%u", name,
		         export->chain);
		return;
	}
	/* each chain has its own pipeline group and ends */
	bool chain =
		op->group == LK_GROUP_PP || op->group == LK_GROUP_EMBEDDING || op->group == LK_GROUP_NONE;
	uint64_t members = chain ? 1 : ranks->group[op->group].size;
	uint64_t stride = chain ? 1 : ranks->group[op->group].stride;
	uint64_t index = export->chain / (members * stride) * stride + export->chain % stride;
	if (lk_group_crosses_stages(op->group))
		snprintf(out, GROUP_NAME, "%s.%llu", lk_group_label(op->group), (unsigned long long)index);
	else
		snprintf(out, GROUP_NAME, "%s.%u.%llu", lk_group_label(op->group), export->stage,
		         (unsigned long long)index);
}

uint64_t lk_export_group_size(const lk_graph *graph, const lk_op *op) {
	uint64_t size = graph->ranks.group[op->group].size;
	if (op->group == LK_GROUP_TEAM && op->channel >= 0 && (size_t)op->channel < graph->teams.count)
		return graph->teams.at[op->channel].ranks;
	return op->group == LK_GROUP_MODEL ? size * graph->ranks.stages : size;
}

uint32_t lk_export_group(const lk_export *export, const lk_op *op) {
	char name[GROUP_NAME];
	group_name(export, op, name);
	return lk_intern_find(export->groups.names, name);
}

/* A collective of one rank moves nothing; the single rank of a trace represents several. */
static bool export_alone(const lk_export *export, const lk_op *op) {
	return lk_op_is_collective(op->kind) && !export->graph->traced &&
	       lk_export_group_size(export->graph, op) < 2;
}

/* Add the current rank to the operation's group. */
static lk_status export_join(lk_export *export, const lk_op *op) {
	lk_export_groups *groups = &export->groups;
	char name[GROUP_NAME];
	if (export_alone(export, op)) return LK_OK;
	group_name(export, op, name);
	uint32_t id = lk_intern_id(groups->names, name);
	if (id == UINT32_MAX) return lk_oom(export->err);
	if (id > groups->members.count && !lk_push(&groups->members)) return lk_oom(export->err);
	lk_export_members *members = &groups->members.at[id - 1];
	/* ranks come in order: a member is the last one, or new */
	if (members->count > 0 && *lk_last(members) == export->rank) return LK_OK;
	if (!lk_push(members)) return lk_oom(export->err);
	*lk_last(members) = export->rank;
	return LK_OK;
}

/* Join the groups of all blocks of the current rank, each block once; `joined`: for each block 1 +
 * the index of the last rank that called it. */
static lk_status export_join_all(lk_export *export, uint64_t index, uint64_t *joined) {
	const lk_graph *graph = export->graph;
	const lk_program *program = &graph->programs.at[export->stage];
	for (size_t c = 0; c < program->calls.count; c++) {
		uint32_t b = program->calls.at[c].block;
		if (joined[b] == index + 1 || !program->calls.at[c].repeat) continue;
		joined[b] = index + 1;
		for (uint32_t at = graph->blocks.at[b].begin; at < graph->blocks.at[b].end; at++) {
			if (!lk_op_is_collective(graph->ops.kind[at])) continue;
			lk_op op = lk_graph_op(graph, at);
			LK_TRY(export_join(export, &op));
		}
	}
	return LK_OK;
}

static lk_status export_find_groups(lk_export *export) {
	lk_export_groups *groups = &export->groups;
	uint64_t *joined = calloc(export->graph->blocks.count + 1, sizeof *joined);
	lk_status status = LK_OK;
	groups->world = (uint64_t) export->graph->ranks.stages * export->graph->ranks.chains;
	groups->names = lk_intern_new();
	if (!groups->names || !joined) status = lk_oom(export->err);
	for (uint64_t i = 0; i < groups->world && status == LK_OK; i++) {
		lk_export_turn(export, i);
		status = export_join_all(export, i, joined);
	}
	free(joined);
	return status;
}

lk_export_message lk_export_peer(const lk_export *export, const lk_op *op) {
	const lk_graph *graph = export->graph;
	size_t here = (size_t) export->stage * graph->channels + (size_t)op->channel;
	lk_wire to = graph->wires.at[here];
	size_t there = (size_t)to.stage * graph->channels + to.channel;
	return (lk_export_message){lk_rank_of(graph, to.stage, export->chain),
	                           (uint32_t)((here < there ? here : there) & INT32_MAX)};
}

uint64_t lk_export_whole(double real) {
	if (real > 0) {
		if (real < 9e18) return (uint64_t)(real + .5);
		return (uint64_t)9e18;
	}
	return 0;
}

/* ---- dependencies ---- */

static bool export_depend(lk_export *export, uint64_t node) {
	if (!node) return true;
	if (node & LEFT_OUT) {
		lk_export_front front = export->fronts.at[node & ~LEFT_OUT];
		for (size_t i = 0; i < front.count; i++)
			if (!export_depend(export, export->handed.at[front.begin + i])) return false;
		return true;
	}
	if (!lk_push(&export->deps)) return false;
	*lk_last(&export->deps) = node;
	return true;
}

enum { FEW_DEPS = 16 };

/* Most operations wait for one or two others. */
static void export_sort(uint64_t *ids, size_t count) {
	if (count > FEW_DEPS) {
		lk_sort(ids, count, sizeof *ids, lk_by_u64);
		return;
	}
	for (size_t i = 1; i < count; i++) {
		uint64_t id = ids[i];
		size_t to = i;
		for (; to > 0 && ids[to - 1] > id; to--) ids[to] = ids[to - 1];
		ids[to] = id;
	}
}

/* The dependencies of the operation: ids in ascending order, each once. */
static bool export_find_deps(lk_export *export, const lk_op *op, const lk_call *call) {
	export->deps.count = 0;
	bool good = export_depend(export, export->last[op->stream]);
	for (uint32_t join = op->join; join && good; join &= join - 1)
		good = export_depend(export, export->last[__builtin_ctz(join)]);
	for (uint32_t i = 0; i < op->dep_count && good; i++)
		good = export_depend(export, export->placed[op->deps[i]]);
	if (op->wait && good) good = export_depend(export, export->events[call->arg[op->wait - 1]]);
	if (!export->graph->traced && good) good = export_depend(export, export->last[LK_STREAM_HOST]);
	if (!export->deps.count) return good;
	export_sort(export->deps.at, export->deps.count);
	size_t kept = 1;
	for (size_t i = 1; i < export->deps.count; i++)
		if (export->deps.at[i] != export->deps.at[kept - 1])
			export->deps.at[kept++] = export->deps.at[i];
	export->deps.count = kept;
	return good;
}

/* An omitted operation: keep the last node of each stream among its dependencies. */
static lk_status leave_out(lk_export *export, uint64_t *id) {
	lk_export_front front = {.begin = export->handed.count};
	uint32_t seen = 0;
	for (size_t i = export->deps.count; i-- > 0;) { /* in ascending order */
		uint32_t stream = LK_JOIN(export->streams.at[export->deps.at[i] - 1]);
		if (seen & stream) continue;
		seen |= stream;
		if (!lk_push(&export->handed)) return lk_oom(export->err);
		*lk_last(&export->handed) = export->deps.at[i];
		front.count++;
	}
	if (!lk_push(&export->fronts)) return lk_oom(export->err);
	*lk_last(&export->fronts) = front;
	*id = LEFT_OUT | (export->fronts.count - 1);
	return LK_OK;
}

/* ---- ranks ---- */

static bool on_host(const lk_export *export, const lk_op *op) {
	if (lk_op_is_comm(op->kind)) return false;
	return op->kind == LK_OP_HOST || op->kind == LK_OP_WAIT ||
	       (export->graph->programs.at[export->stage].threads >> op->stream & 1) ||
	       op->stream == LK_STREAM_HOST;
}

static lk_status export_op(lk_export *export, const lk_op *op, uint32_t at, const lk_call *call,
                           uint64_t *id) {
	bool host = on_host(export, op);
	if (!export_find_deps(export, op, call)) return lk_oom(export->err);
	if (export_alone(export, op) || (host && !export->host)) return leave_out(export, id);
	*id = export->next++;
	if (!lk_push(&export->streams)) return lk_oom(export->err);
	*lk_last(&export->streams) = op->stream;
	return export->put(export,
	                   &(lk_export_node){op, at, *id, host, export->deps.at, export->deps.count});
}

static lk_status export_call(lk_export *export, const lk_call *call) {
	const lk_block *block = &export->graph->blocks.at[call->block];
	for (uint32_t at = block->begin; at < block->end; at++) {
		lk_op op = lk_graph_op(export->graph, at);
		uint64_t id = 0;
		LK_TRY(export_op(export, &op, at, call, &id));
		export->last[op.stream] = id;
		export->placed[at - block->begin] = id;
		if (op.signal) export->events[call->arg[op.signal - 1]] = id;
	}
	return LK_OK;
}

void lk_export_turn(lk_export *export, uint64_t index) {
	export->stage = (uint32_t)(index / export->graph->ranks.chains);
	export->chain = (uint32_t)(index % export->graph->ranks.chains);
	export->rank = lk_rank_of(export->graph, export->stage, export->chain);
}

lk_status lk_export_rank(lk_export *export) {
	const lk_program *program = &export->graph->programs.at[export->stage];
	export->next = 1;
	export->streams.count = export->fronts.count = export->handed.count = 0;
	memset(export->last, 0, sizeof export->last);
	for (size_t c = 0; c < program->calls.count; c++)
		for (uint32_t r = 0; r < program->calls.at[c].repeat; r++)
			LK_TRY(export_call(export, &program->calls.at[c]));
	return LK_OK;
}

/* ---- beginning and end ---- */

static lk_status export_check_size(lk_export *export) {
	const lk_graph *graph = export->graph;
	double nodes = 0;
	for (uint32_t s = 0; s < graph->ranks.stages; s++) {
		const lk_program *program = &graph->programs.at[s];
		if (program->events > export->most_events) export->most_events = program->events;
		for (size_t c = 0; c < program->calls.count; c++) {
			const lk_block *block = &graph->blocks.at[program->calls.at[c].block];
			size_t length = block->end - block->begin;
			if (length > export->longest) export->longest = length;
			nodes +=
				(double)program->calls.at[c].repeat * (double)length * (double)graph->ranks.chains;
		}
	}
	if (nodes <= MOST_NODES) return LK_OK;
	lk_fail(export->err, LK_ERR_INPUT, export->what,
	        "the step has %.3g operations on all ranks together, too many to write out", nodes);
	return lk_hint(export->err, "give fewer ranks or micro-batches");
}

lk_status lk_export_begin(lk_export *export) {
	LK_TRY(lk_graph_check(export->graph, export->err));
	LK_TRY(export_check_size(export));
	return export_find_groups(export);
}

void lk_export_end(lk_export *export) {
	lk_export_groups *groups = &export->groups;
	for (size_t i = 0; i < groups->members.count; i++) lk_vec_free(&groups->members.at[i]);
	lk_vec_free(&groups->members);
	lk_intern_free(groups->names);
}

lk_status lk_export_enter(lk_export *export) {
	export->events = calloc((size_t) export->most_events + 1, sizeof *export->events);
	export->placed = calloc(export->longest + 1, sizeof *export->placed);
	return export->events && export->placed ? LK_OK : lk_oom(export->err);
}

void lk_export_leave(lk_export *export) {
	free(export->events);
	free(export->placed);
	lk_vec_free(&export->deps);
	lk_vec_free(&export->streams);
	lk_vec_free(&export->fronts);
	lk_vec_free(&export->handed);
}

lk_status lk_export_folder(const char *dir, bool *made, lk_error *err) {
	*made = mkdir(dir, 0777) == 0;
	if (*made || errno == EEXIST) return LK_OK;
	lk_fail(err, LK_ERR_IO, dir, "cannot make the folder: %s", strerror(errno));
	return lk_hint(err, "does the folder above it exist, and may you write there?");
}
