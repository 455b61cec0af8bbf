/* graph_check.c: the invariants of a step graph. One pass over the operations summarises every
 * block; one pass over the calls of every program then needs a few additions per call, however long
 * its block is:
 *   - memory: the bytes in use of every owner change by `net` over a block and fall at most to
 *     `low` below its start. A call repeated r times is lowest in its first repetition or in its
 *     last. They never fall below the resident bytes and end there;
 *   - events: those that a block waits for and sets, in order;
 *   - sends and receives: counted per channel, compared along each wire; collectives across stages
 *     likewise. */
#include "base/arena.h"
#include "graph/graph_internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "base/check.h"
#include "base/noun.h"

/* Allowed rounding of bytes in use: additions over up to millions of calls. */
#define SLACK_BYTES 1.0
#define SLACK_SHARE 1e-6
/* As in the simulator: a program with more operations would never end. */
#define MOST_OPS 1e15

enum { PLACE = 256, CROSS_KINDS = 3 };

static const uint8_t cross_kinds[CROSS_KINDS] = {LK_GROUP_PP, LK_GROUP_EMBEDDING, LK_GROUP_MODEL};

/* Effects of a call of a block on a program. */
struct summary {
	double net[LK_OWNERS], low[LK_OWNERS];
	double rise; /* highest total of all owners above the start */
	uint32_t event_begin, event_end, port_begin, port_end; /* into the lists below */
	uint32_t cross[CROSS_KINDS];
	uint8_t owners; /* bits of the owners that change */
};

struct port_use {
	uint64_t sends, receives;
};

struct checker {
	const lk_graph *graph;
	lk_error *err;
	lk_arena arena;
	struct summary *blocks;
	uint32_t *events, *ports; /* operations that wait or signal; that send or receive */
	uint32_t event_count, port_count;
	struct port_use *uses; /* [stages * channels] */
	uint64_t *cross;       /* [stages * CROSS_KINDS] */
	uint8_t *signalled;    /* [events] of one program */
};

/* ---- places ---- */

static const char *block_name(const lk_graph *graph, size_t block) {
	return lk_graph_text(graph, graph->blocks.at[block].name);
}

static lk_status graph_check_bad(const struct checker *checker, const char *where,
                                 const char *what) {
	return lk_fail(checker->err, LK_ERR_INPUT, where, "%s", what);
}

static lk_status bad_op(const struct checker *checker, size_t block, uint32_t op,
                        const char *what) {
	LK_ASSERT(op < checker->graph->ops.count);
	char where[PLACE];
	snprintf(where, sizeof where, "block %zu (%.60s), operation %u (%.60s)", block,
	         block_name(checker->graph, block), op - checker->graph->blocks.at[block].begin,
	         lk_graph_text(checker->graph, checker->graph->ops.name[op]));
	return graph_check_bad(checker, where, what);
}

static void program_place(const struct checker *checker, size_t stage, char out[PLACE]) {
	snprintf(out, PLACE, "program %zu (%.60s)", stage,
	         lk_graph_text(checker->graph, checker->graph->programs.at[stage].name));
}

static void call_place(const struct checker *checker, size_t stage, size_t call, char out[PLACE]) {
	const lk_program *program = &checker->graph->programs.at[stage];
	uint32_t block = program->calls.at[call].block;
	snprintf(out, PLACE, "program %zu (%.40s), call %zu (%.60s)", stage,
	         lk_graph_text(checker->graph, program->name), call,
	         block < checker->graph->blocks.count ? block_name(checker->graph, block) : "?");
}

static void graph_check_op_place(const struct checker *checker, size_t stage, size_t call,
                                 uint32_t op, char out[PLACE]) {
	LK_ASSERT(op < checker->graph->ops.count);
	call_place(checker, stage, call, out);
	size_t length = strlen(out);
	uint32_t block = checker->graph->programs.at[stage].calls.at[call].block;
	snprintf(out + length, PLACE - length, ", operation %u (%.60s)",
	         op - checker->graph->blocks.at[block].begin,
	         lk_graph_text(checker->graph, checker->graph->ops.name[op]));
}

/* ---- operations ---- */

static bool amount(double x) {
	return x >= 0 && x <= 1e300; /* false for NaN too */
}

/* Sends or receives on a channel of its program. */
static bool is_port(const lk_graph *graph, uint32_t op) {
	unsigned kind = graph->ops.kind[op];
	return (kind == LK_OP_SEND || kind == LK_OP_RECV) && graph->ops.group[op] != LK_GROUP_TEAM;
}

/* Why an operation's columns are wrong, or NULL. */
static const char *op_fault(const lk_graph *graph, uint32_t op) {
	LK_ASSERT(op < graph->ops.count);
	const lk_ops *ops = &graph->ops;
	unsigned kind = ops->kind[op];
	if (ops->name[op] >= lk_intern_count(graph->names)) return "has a name that does not exist";
	if (kind >= LK_OP_COUNT) return "has an unknown kind";
	if (ops->stream[op] >= LK_STREAMS) return "is on a stream that does not exist";
	if (ops->phase[op] >= LK_PHASES) return "has an unknown phase";
	if (ops->group[op] >= LK_GROUPS) return "has an unknown process group";
	if (ops->dtype[op] >= LK_DTYPES) return "has an unknown number format";
	if (ops->flags[op] & ~(LK_OP_CAUSAL | LK_OP_TRANSIENT | LK_OP_OVERLAPPED | LK_OP_CARRIED |
	                       LK_OP_DIRECT | LK_OP_SUMS_PIXELS | LK_OP_LISTED | LK_OP_ROW_FACTORS))
		return "has unknown flags";
	if (ops->flags[op] & LK_OP_ROW_FACTORS && !(lk_op_multiplies(kind) && ops->dtype[op] >= LK_FP8))
		return "has flags of a product in 8 bits";
	if (ops->wait[op] > 2 || ops->signal[op] > 2) return "uses a third argument; calls have two";
	if (ops->alloc_owner[op] >= LK_OWNERS || ops->release_owner[op] >= LK_OWNERS)
		return "has an unknown owner of memory";
	if (ops->join[op] >> LK_STREAMS) return "joins a stream that does not exist";
	if (lk_op_is_comm(kind) && ops->stream[op] == LK_STREAM_HOST && !graph->traced)
		return "communicates on the host stream";
	if (!amount(ops->m[op]) || !amount(ops->n[op]) || !amount(ops->k[op]) ||
	    !amount(ops->batch[op]) || !amount(ops->window[op]))
		return "has a shape that is negative or not finite";
	if (!(ops->pieces[op] == 0 || (ops->pieces[op] >= 1 && ops->pieces[op] <= 1e9)))
		return "is not one of 1 to 1e9 pieces";
	if (!amount(ops->flops[op]) || !amount(ops->bytes[op]))
		return "has flops or bytes that are negative or not finite";
	if (!amount(ops->alloc[op]) || !amount(ops->release[op]))
		return "allocates or releases bytes that are negative or not finite";
	if (ops->measured_ps[op] < 0) return "has a negative measured duration";
	bool team = lk_op_is_comm(kind) && ops->group[op] == LK_GROUP_TEAM;
	if (team && (ops->channel[op] < 0 || (uint32_t)ops->channel[op] >= graph->teams.count))
		return "is of a team that does not exist";
	if (!team && is_port(graph, op) &&
	    (ops->channel[op] < 0 || (uint32_t)ops->channel[op] >= graph->channels))
		return "uses a channel that does not exist";
	return NULL;
}

static lk_status check_deps(const struct checker *checker, size_t block, uint32_t op) {
	LK_ASSERT(op < checker->graph->ops.count);
	const lk_ops *ops = &checker->graph->ops;
	for (uint32_t d = ops->dep_begin[op]; d < ops->dep_begin[op + 1]; d++)
		if (ops->deps[d] >= op - checker->graph->blocks.at[block].begin)
			return bad_op(checker, block, op,
			              "depends on itself or on a later operation of its block");
	return LK_OK;
}

/* ---- blocks ---- */

static void graph_check_change(struct summary *summary, unsigned owner, double bytes) {
	summary->net[owner] += bytes;
	summary->owners |= (uint8_t)(1u << owner);
	if (summary->net[owner] < summary->low[owner]) summary->low[owner] = summary->net[owner];
}

static void add_memory(struct summary *summary, const lk_ops *ops, uint32_t op, double *total) {
	LK_ASSERT(op < ops->count);
	double alloc = ops->alloc[op], back = ops->flags[op] & LK_OP_TRANSIENT ? alloc : 0;
	if (alloc > 0) graph_check_change(summary, ops->alloc_owner[op], alloc);
	*total += alloc;
	if (*total > summary->rise) summary->rise = *total;
	if (ops->release[op] > 0)
		graph_check_change(summary, ops->release_owner[op], -ops->release[op]);
	if (back > 0) graph_check_change(summary, ops->alloc_owner[op], -back);
	*total -= ops->release[op] + back;
}

static lk_status check_block(struct checker *checker, size_t b) {
	const lk_ops *ops = &checker->graph->ops;
	const lk_block *block = &checker->graph->blocks.at[b];
	struct summary *summary = &checker->blocks[b];
	double total = 0;
	summary->event_begin = checker->event_count;
	summary->port_begin = checker->port_count;
	for (uint32_t op = block->begin; op < block->end; op++) {
		const char *fault = op_fault(checker->graph, op);
		if (fault) return bad_op(checker, b, op, fault);
		LK_TRY(check_deps(checker, b, op));
		add_memory(summary, ops, op, &total);
		if (ops->wait[op] || ops->signal[op]) checker->events[checker->event_count++] = op;
		if (is_port(checker->graph, op)) checker->ports[checker->port_count++] = op;
		for (int k = 0; k < CROSS_KINDS; k++)
			summary->cross[k] +=
				lk_op_is_collective(ops->kind[op]) && ops->group[op] == cross_kinds[k];
	}
	summary->event_end = checker->event_count;
	summary->port_end = checker->port_count;
	return LK_OK;
}

/* Check that the lists of dependencies can be read. */
static lk_status check_dep_lists(const struct checker *checker) {
	const lk_ops *ops = &checker->graph->ops;
	if (ops->count == 0) return LK_OK;
	bool whole = ops->dep_begin[0] == 0 && ops->dep_begin[ops->count] <= ops->dep_capacity;
	for (uint32_t op = 0; op < ops->count; op++)
		whole &= ops->dep_begin[op] <= ops->dep_begin[op + 1];
	return whole ? LK_OK
	             : graph_check_bad(checker, "step graph", "the lists of dependencies are broken");
}

/* Check that blocks are contiguous and hold every operation. */
static lk_status check_blocks(struct checker *checker) {
	const lk_graph *graph = checker->graph;
	uint32_t n = graph->ops.count, at = 0;
	LK_TRY(check_dep_lists(checker));
	for (size_t b = 0; b < graph->blocks.count; b++) {
		const lk_block *block = &graph->blocks.at[b];
		char where[PLACE];
		snprintf(where, sizeof where, "block %zu (%.60s)", b, lk_graph_text(graph, block->name));
		if (block->name >= lk_intern_count(graph->names))
			return graph_check_bad(checker, where, "has a name that does not exist");
		if (block->begin != at || block->end < block->begin || block->end > n)
			return graph_check_bad(
				checker, where,
				"does not begin where the block before it ends, or ends beyond the last operation");
		at = block->end;
		LK_TRY(check_block(checker, b));
	}
	return at == n ? LK_OK
	               : graph_check_bad(
						 checker, "step graph",
						 "operations after the last block: a block was begun and not ended");
}

/* ---- ranks and wires ---- */

static lk_status graph_check_group(const struct checker *checker, unsigned group, bool used) {
	const lk_ranks *ranks = &checker->graph->ranks;
	char where[PLACE];
	snprintf(where, sizeof where, "process group %s", lk_group_label(group));
	uint64_t size = ranks->group[group].size, stride = ranks->group[group].stride;
	if (size == 0 || stride == 0)
		return graph_check_bad(checker, where,
		                       "has a size or stride of 0; a group of one rank is 1 and 1");
	if (group == LK_GROUP_TEAM && (size != 1 || stride != 1))
		return graph_check_bad(checker, where, "has a size: teams are listed");
	if (!used || lk_group_crosses_stages(group) || group == LK_GROUP_NONE || size == 1)
		return LK_OK;
	if (size <= ranks->chains && stride <= ranks->chains && ranks->chains % (size * stride) == 0)
		return LK_OK;
	return lk_fail(checker->err, LK_ERR_INPUT, where,
	               "size %u and stride %u do not divide the %u %s of a stage",
	               ranks->group[group].size, ranks->group[group].stride, ranks->chains,
	               lk_noun(ranks->chains, "rank", "ranks"));
}

static lk_status graph_check_ranks(const struct checker *checker) {
	const lk_graph *graph = checker->graph;
	const lk_ranks *ranks = &graph->ranks;
	uint32_t used = 0;
	if (graph->programs.count == 0)
		return graph_check_bad(checker, "step graph", "holds no program");
	if (ranks->stages != graph->programs.count)
		return lk_fail(checker->err, LK_ERR_INPUT, "ranks", "%u stages, but %zu programs",
		               ranks->stages, graph->programs.count);
	if (ranks->chains == 0 || (uint64_t)ranks->stages * ranks->chains != ranks->world)
		return lk_fail(checker->err, LK_ERR_INPUT, "ranks",
		               "%u ranks are not %u stages of %u ranks each", ranks->world, ranks->stages,
		               ranks->chains);
	for (uint32_t op = 0; op < graph->ops.count; op++)
		if (lk_op_is_collective(graph->ops.kind[op])) used |= 1u << graph->ops.group[op];
	for (unsigned g = 0; g < LK_GROUPS; g++) LK_TRY(graph_check_group(checker, g, used >> g & 1));
	if (!amount(graph->model_flops) || !amount(graph->tokens) || !amount(graph->samples))
		return graph_check_bad(checker, "facts",
		                       "flops, tokens or samples are negative or not finite");
	return graph->peak_dtype < LK_DTYPES
	           ? LK_OK
	           : graph_check_bad(checker, "facts", "the format of the peak is unknown");
}

static lk_status check_wires(const struct checker *checker) {
	const lk_graph *graph = checker->graph;
	size_t channels = graph->channels, stages = graph->programs.count;
	if (graph->wires.count != stages * channels)
		return lk_fail(checker->err, LK_ERR_INPUT, "wires",
		               "%zu, but %zu programs have %zu channels each", graph->wires.count, stages,
		               channels);
	for (size_t i = 0; i < graph->wires.count; i++) {
		lk_wire to = graph->wires.at[i];
		if (to.stage == UINT32_MAX && to.channel == UINT32_MAX) continue;
		size_t back = (size_t)to.stage * channels + to.channel;
		bool there = to.stage < stages && to.channel < channels && back != i;
		if (there &&
		    (size_t)graph->wires.at[back].stage * channels + graph->wires.at[back].channel == i &&
		    graph->wires.at[back].channel < channels)
			continue;
		char where[PLACE];
		program_place(checker, i / channels, where);
		return lk_fail(checker->err, LK_ERR_INPUT, where,
		               "channel %zu is not wired to another channel that leads back", i % channels);
	}
	return LK_OK;
}

/* ---- programs ---- */

static lk_status check_program(const struct checker *checker, size_t s) {
	const lk_program *program = &checker->graph->programs.at[s];
	char where[PLACE];
	program_place(checker, s, where);
	if (program->name >= lk_intern_count(checker->graph->names))
		return graph_check_bad(checker, where, "has a name that does not exist");
	if (program->stage != s)
		return lk_fail(checker->err, LK_ERR_INPUT, where, "says that it is of stage %u",
		               program->stage);
	if (program->channels > checker->graph->channels)
		return lk_fail(checker->err, LK_ERR_INPUT, where, "%u %s, more than the graph's %u",
		               program->channels, lk_noun(program->channels, "channel", "channels"),
		               checker->graph->channels);
	if (program->events > UINT16_MAX + 1u)
		return lk_fail(checker->err, LK_ERR_INPUT, where, "%u %s: calls can name %u",
		               program->events, lk_noun(program->events, "event", "events"),
		               UINT16_MAX + 1u);
	for (unsigned i = 0; i < LK_STREAMS; i++)
		if (program->stream_names[i] >= lk_intern_count(checker->graph->names))
			return graph_check_bad(checker, where, "has a stream whose name does not exist");
	if (program->threads >> LK_STREAMS)
		return graph_check_bad(checker, where, "has a thread on a stream that does not exist");
	for (int o = 0; o < LK_OWNERS; o++)
		if (!amount(program->resident[o]))
			return graph_check_bad(checker, where,
			                       "has resident bytes that are negative or not finite");
	return LK_OK;
}

static const char *call_fault(const lk_graph *graph, const lk_call *call) {
	if (call->block >= graph->blocks.count) return "calls a block that does not exist";
	if (call->repeat == 0) return "runs no times: a repeat count is at least 1";
	if (call->microbatch < -1) return "has a negative micro-batch; -1 is none";
	if (call->layer < -1) return "has a negative layer; -1 is none";
	return call->pass < LK_PHASES ? NULL : "has an unknown pass";
}

/* Memory in use while a program is traversed. */
struct level {
	double now[LK_OWNERS], total, peak, resident[LK_OWNERS];
	size_t taken[LK_OWNERS]; /* last call that allocated memory */
};

static double slack(const struct level *level) {
	return SLACK_BYTES + SLACK_SHARE * level->peak;
}

/* Report the operation at which an owner's bytes fall below its resident ones, in a call that
 * begins `room` bytes above them. */
static lk_status below(const struct checker *checker, size_t s, size_t call, unsigned owner,
                       double room, double most) {
	char where[PLACE], size[32];
	const lk_block *block =
		&checker->graph->blocks.at[checker->graph->programs.at[s].calls.at[call].block];
	struct summary so_far = {0};
	double total = 0;
	uint32_t op = block->begin;
	for (; op + 1 < block->end; op++) {
		add_memory(&so_far, &checker->graph->ops, op, &total);
		if (room + so_far.low[owner] < -most) break;
	}
	graph_check_op_place(checker, s, call, op, where);
	double missing =
		-(room + checker->blocks[checker->graph->programs.at[s].calls.at[call].block].low[owner]);
	lk_fail(checker->err, LK_ERR_INPUT, where, "gives back %s of %s more than was taken",
	        lk_format_bytes(missing, size, sizeof size), lk_owner_name((lk_owner)owner));
	return lk_hint(checker->err,
	               "every release needs an allocation before it, of the same owner and size");
}

static lk_status walk_memory(const struct checker *checker, size_t s, size_t at,
                             struct level *level) {
	const lk_call *call = &checker->graph->programs.at[s].calls.at[at];
	const struct summary *summary = &checker->blocks[call->block];
	double again = call->repeat - 1.0, total = 0;
	if (level->total + summary->rise > level->peak) level->peak = level->total + summary->rise;
	for (unsigned owners = summary->owners, o = 0; owners; owners >>= 1, o++) {
		if (!(owners & 1)) continue;
		double net = summary->net[o],
			   room = level->now[o] - level->resident[o] + fmin(0, again * net);
		if (!(room + summary->low[o] >= -slack(level)))
			return below(checker, s, at, o, room, slack(level));
		if (net > 0) level->taken[o] = at;
		level->now[o] += net * call->repeat;
		total += net;
	}
	if (level->total + again * total + summary->rise > level->peak)
		level->peak = level->total + again * total + summary->rise;
	level->total += total * call->repeat;
	return LK_OK;
}

static lk_status end_memory(const struct checker *checker, size_t s, const struct level *level) {
	for (unsigned o = 0; o < LK_OWNERS; o++) {
		double left = level->now[o] - level->resident[o];
		if (left <= slack(level)) continue;
		char where[PLACE], size[32];
		call_place(checker, s, level->taken[o], where);
		lk_fail(checker->err, LK_ERR_INPUT, where,
		        "%s of %s are not given back by the end of the program",
		        lk_format_bytes(left, size, sizeof size), lk_owner_name((lk_owner)o));
		return lk_hint(checker->err, "this call was the last to keep some");
	}
	return LK_OK;
}

/* A repetition sees the same events as the first run, and those set since. */
static lk_status walk_events(const struct checker *checker, size_t s, size_t at) {
	const lk_program *program = &checker->graph->programs.at[s];
	const lk_call *call = &program->calls.at[at];
	const struct summary *summary = &checker->blocks[call->block];
	const lk_ops *ops = &checker->graph->ops;
	char where[PLACE];
	for (uint32_t i = summary->event_begin; i < summary->event_end; i++) {
		uint32_t op = checker->events[i];
		unsigned wait = ops->wait[op] ? call->arg[ops->wait[op] - 1] : 0;
		unsigned set = ops->signal[op] ? call->arg[ops->signal[op] - 1] : 0;
		if ((ops->wait[op] && wait >= program->events) ||
		    (ops->signal[op] && set >= program->events)) {
			graph_check_op_place(checker, s, at, op, where);
			return lk_fail(checker->err, LK_ERR_INPUT, where, "uses event %u of %u",
			               wait > set ? wait : set, program->events);
		}
		if (ops->wait[op] && !checker->signalled[wait]) {
			graph_check_op_place(checker, s, at, op, where);
			lk_fail(checker->err, LK_ERR_INPUT, where,
			        "waits for event %u, which nothing before it signals", wait);
			return lk_hint(checker->err,
			               "an event is signalled earlier in the program than it is waited for");
		}
		if (ops->signal[op]) checker->signalled[set] = 1;
	}
	return LK_OK;
}

static lk_status walk_ports(const struct checker *checker, size_t s, size_t at) {
	const lk_program *program = &checker->graph->programs.at[s];
	const lk_call *call = &program->calls.at[at];
	const struct summary *summary = &checker->blocks[call->block];
	for (uint32_t i = summary->port_begin; i < summary->port_end; i++) {
		uint32_t op = checker->ports[i];
		size_t channel = (size_t)checker->graph->ops.channel[op],
			   port = s * checker->graph->channels + channel;
		bool send = checker->graph->ops.kind[op] == LK_OP_SEND;
		char where[PLACE];
		const char *fault;
		if (channel >= program->channels) fault = "uses a channel that its program does not have";
		else if (checker->graph->wires.at[port].stage == UINT32_MAX)
			fault = "uses a channel without a wire";
		else fault = NULL;
		*(send ? &checker->uses[port].sends : &checker->uses[port].receives) += call->repeat;
		if (checker->uses[port].sends && checker->uses[port].receives)
			fault = "sends and receives on one channel: each direction needs its own";
		if (!fault) continue;
		graph_check_op_place(checker, s, at, op, where);
		return graph_check_bad(checker, where, fault);
	}
	return LK_OK;
}

static lk_status walk_program(const struct checker *checker, size_t s) {
	const lk_program *program = &checker->graph->programs.at[s];
	struct level m = {0};
	double ops = 0;
	memset(checker->signalled, 0, program->events);
	for (int o = 0; o < LK_OWNERS; o++) m.total += m.now[o] = m.resident[o] = program->resident[o];
	m.peak = m.total;
	for (size_t i = 0; i < program->calls.count; i++) {
		const lk_call *call = &program->calls.at[i];
		const char *fault = call_fault(checker->graph, call);
		if (fault) {
			char where[PLACE];
			call_place(checker, s, i, where);
			return graph_check_bad(checker, where, fault);
		}
		const struct summary *summary = &checker->blocks[call->block];
		ops += (double)call->repeat * (checker->graph->blocks.at[call->block].end -
		                               checker->graph->blocks.at[call->block].begin);
		if (summary->owners) LK_TRY(walk_memory(checker, s, i, &m));
		if (summary->event_begin < summary->event_end) LK_TRY(walk_events(checker, s, i));
		if (summary->port_begin < summary->port_end) LK_TRY(walk_ports(checker, s, i));
		for (int k = 0; k < CROSS_KINDS; k++)
			checker->cross[s * CROSS_KINDS + (size_t)k] +=
				(uint64_t)summary->cross[k] * call->repeat;
	}
	if (ops > MOST_OPS) {
		char where[PLACE];
		program_place(checker, s, where);
		return lk_fail(checker->err, LK_ERR_INPUT, where,
		               "runs %.3g operations: at most %.0e are simulated", ops, MOST_OPS);
	}
	return end_memory(checker, s, &m);
}

/* ---- between programs ---- */

static void port_place(const struct checker *checker, size_t s, size_t channel, char out[PLACE]) {
	const lk_program *program = &checker->graph->programs.at[s];
	for (size_t i = 0; i < program->calls.count; i++) {
		const struct summary *summary = &checker->blocks[program->calls.at[i].block];
		for (uint32_t at = summary->port_begin; at < summary->port_end; at++) {
			if ((size_t)checker->graph->ops.channel[checker->ports[at]] != channel) continue;
			graph_check_op_place(checker, s, i, checker->ports[at], out);
			return;
		}
	}
	program_place(checker, s, out);
}

static lk_status compare_ports(const struct checker *checker) {
	size_t channels = checker->graph->channels;
	for (size_t i = 0; i < checker->graph->wires.count; i++) {
		lk_wire to = checker->graph->wires.at[i];
		if (to.stage == UINT32_MAX) continue;
		const struct port_use *here = &checker->uses[i],
							  *there = &checker->uses[(size_t)to.stage * channels + to.channel];
		if (here->sends == there->receives && here->receives == there->sends) continue;
		bool none = !here->sends && !here->receives;
		if (none && i < (size_t)to.stage * channels + to.channel)
			continue; /* reported from the end in use */
		char where[PLACE];
		port_place(checker, i / channels, i % channels, where);
		lk_fail(checker->err, LK_ERR_INPUT, where,
		        "channel %zu: %llu sends and %llu receives; at its other end, channel %u of "
		        "program %u, %llu receives and %llu sends",
		        i % channels, (unsigned long long)here->sends, (unsigned long long)here->receives,
		        to.channel, to.stage, (unsigned long long)there->receives,
		        (unsigned long long)there->sends);
		return lk_hint(checker->err, "every send needs a receive at the other end of its wire");
	}
	return LK_OK;
}

/* All stages take part in a collective of PP and MODEL, the first and the last in one of
 * EMBEDDING. */
static lk_status compare_cross(const struct checker *checker) {
	size_t stages = checker->graph->programs.count;
	for (size_t k = 0; k < CROSS_KINDS; k++) {
		bool ends = cross_kinds[k] == LK_GROUP_EMBEDDING;
		for (size_t s = 1; s < stages; s++) {
			uint64_t first = checker->cross[k], here = checker->cross[s * CROSS_KINDS + k];
			if (here == first || (ends && s + 1 < stages)) continue;
			char where[PLACE];
			program_place(checker, s, where);
			return lk_fail(checker->err, LK_ERR_INPUT, where,
			               "%llu %s of group %s, but program 0 has %llu: they would wait forever",
			               (unsigned long long)here, lk_noun(here, "collective", "collectives"),
			               lk_group_label(cross_kinds[k]), (unsigned long long)first);
		}
	}
	return LK_OK;
}

static lk_status allocate(struct checker *checker) {
	const lk_graph *graph = checker->graph;
	uint32_t events = 0;
	for (size_t s = 0; s < graph->programs.count; s++)
		if (graph->programs.at[s].events > events) events = graph->programs.at[s].events;
	checker->uses = LK_ARRAY(&checker->arena, struct port_use, graph->wires.count);
	checker->cross = LK_ARRAY(&checker->arena, uint64_t, graph->programs.count * CROSS_KINDS);
	checker->signalled = LK_ARRAY(&checker->arena, uint8_t, events);
	return checker->uses && checker->cross && checker->signalled ? LK_OK : lk_oom(checker->err);
}

static lk_status graph_check_all(struct checker *checker) {
	const lk_graph *graph = checker->graph;
	if (graph->failed) return lk_oom(checker->err);
	checker->blocks = LK_ARRAY(&checker->arena, struct summary, graph->blocks.count);
	checker->events = LK_ARRAY(&checker->arena, uint32_t, graph->ops.count);
	checker->ports = LK_ARRAY(&checker->arena, uint32_t, graph->ops.count);
	if (!checker->blocks || !checker->events || !checker->ports) return lk_oom(checker->err);
	LK_TRY(check_blocks(checker));
	LK_TRY(graph_check_ranks(checker));
	LK_TRY(check_wires(checker));
	for (size_t s = 0; s < graph->programs.count; s++) LK_TRY(check_program(checker, s));
	LK_TRY(allocate(checker));
	for (size_t s = 0; s < graph->programs.count; s++) LK_TRY(walk_program(checker, s));
	LK_TRY(compare_ports(checker));
	LK_TRY(compare_cross(checker));
	return lk_graph_check_teams(graph, checker->err);
}

lk_status lk_graph_check(const lk_graph *graph, lk_error *err) {
	struct checker c = {.graph = graph, .err = err, .arena = LK_ARENA_INIT};
	lk_status status = graph_check_all(&c);
	lk_arena_free(&c.arena);
	return status;
}
