/* graph_check.c: the invariants of a step graph. One pass over the operations makes a summary of every block; one pass
 * over the calls of every program then needs a few additions for each call, however long its block is:
 *   - memory: the bytes in use of every owner change by `net` over a block and fall at most to `low` below its start. A
 * call repeated r times is lowest in its first repetition or in its last. They never fall below what is resident and
 * end there;
 *   - events: those that a block waits for and sets, in order;
 *   - sends and receives: counted per channel, compared along each wire; collectives across stages likewise. */
#include "graph/graph_internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

/* Rounding that bytes in use may show: additions of up to millions of calls. */
#define SLACK_BYTES 1.0
#define SLACK_SHARE 1e-6
/* As the simulator: a program with more operations would never end. */
#define MOST_OPS 1e15

enum { PLACE = 256, CROSS_KINDS = 3 };

static const uint8_t cross_kinds[CROSS_KINDS] = {LK_GROUP_PP, LK_GROUP_EMBEDDING, LK_GROUP_MODEL};

/* What a call of a block does to a program. */
struct summary {
	double net[LK_OWNERS], low[LK_OWNERS];
	double rise;            /* highest point of all owners together above the start */
	uint32_t event_begin, event_end, port_begin, port_end; /* into the lists below */
	uint32_t cross[CROSS_KINDS];
	uint8_t owners;         /* bits of those that change */
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
	struct port_use *uses;           /* [stages * channels] */
	uint64_t *cross;          /* [stages * CROSS_KINDS] */
	uint8_t *signalled;       /* [events] of one program */
};

/* ---- places ---- */

static const char *text_of(const lk_graph *graph, uint32_t id) { return lk_intern_text(graph->names, id); }

static const char *block_name(const lk_graph *graph, size_t block) {
	return text_of(graph, graph->blocks.at[block].name);
}

static lk_status bad(const struct checker *c, const char *where, const char *what) {
	return lk_fail(c->err, LK_ERR_INPUT, where, "%s", what);
}

static lk_status bad_op(const struct checker *c, size_t block, uint32_t op, const char *what) {
	char where[PLACE];
	snprintf(where, sizeof where, "block %zu (%.60s), operation %u (%.60s)", block, block_name(c->graph, block),
	         op - c->graph->blocks.at[block].begin, text_of(c->graph, c->graph->ops.name[op]));
	return bad(c, where, what);
}

static void program_place(const struct checker *c, size_t stage, char out[PLACE]) {
	snprintf(out, PLACE, "program %zu (%.60s)", stage, text_of(c->graph, c->graph->programs.at[stage].name));
}

static void call_place(const struct checker *c, size_t stage, size_t call, char out[PLACE]) {
	const lk_program *program = &c->graph->programs.at[stage];
	uint32_t block = program->calls.at[call].block;
	snprintf(out, PLACE, "program %zu (%.40s), call %zu (%.60s)", stage, text_of(c->graph, program->name), call,
	         block < c->graph->blocks.count ? block_name(c->graph, block) : "?");
}

static void op_place(const struct checker *c, size_t stage, size_t call, uint32_t op, char out[PLACE]) {
	call_place(c, stage, call, out);
	size_t length = strlen(out);
	uint32_t block = c->graph->programs.at[stage].calls.at[call].block;
	snprintf(out + length, PLACE - length, ", operation %u (%.60s)", op - c->graph->blocks.at[block].begin,
	         text_of(c->graph, c->graph->ops.name[op]));
}

/* ---- operations ---- */

static bool amount(double x) { return x >= 0 && x <= 1e300; /* false for NaN too */ }

/* Sends or receives on a channel of its program. */
static bool is_port(const lk_graph *graph, uint32_t op) {
	unsigned kind = graph->ops.kind[op];
	return (kind == LK_OP_SEND || kind == LK_OP_RECV) && graph->ops.group[op] != LK_GROUP_TEAM;
}

/* Why an operation's columns are wrong, or NULL. */
static const char *op_fault(const lk_graph *graph, uint32_t op) {
	const lk_ops *o = &graph->ops;
	unsigned kind = o->kind[op];
	if (o->name[op] >= lk_intern_count(graph->names)) return "has a name that does not exist";
	if (kind >= LK_OP_COUNT) return "has an unknown kind";
	if (o->stream[op] >= LK_STREAMS) return "is on a stream that does not exist";
	if (o->phase[op] >= LK_PHASES) return "has an unknown phase";
	if (o->group[op] >= LK_GROUPS) return "has an unknown process group";
	if (o->dtype[op] >= LK_DTYPES) return "has an unknown number format";
	if (o->flags[op] & ~(LK_OP_CAUSAL | LK_OP_TRANSIENT | LK_OP_OVERLAPPED | LK_OP_CARRIED | LK_OP_DIRECT | LK_OP_SUMS_PIXELS)) return "has unknown flags";
	if (o->wait[op] > 2 || o->signal[op] > 2) return "uses an argument that calls do not have: there are two";
	if (o->alloc_owner[op] >= LK_OWNERS || o->release_owner[op] >= LK_OWNERS) return "has an unknown owner of memory";
	if (o->join[op] >> LK_STREAMS) return "joins a stream that does not exist";
	if (lk_op_is_comm(kind) && o->stream[op] == LK_STREAM_HOST && !graph->traced) return "communicates on the host stream";
	if (!amount(o->m[op]) || !amount(o->n[op]) || !amount(o->k[op]) || !amount(o->batch[op]) || !amount(o->window[op]))
		return "has a shape that is negative or not finite";
	if (!amount(o->flops[op]) || !amount(o->bytes[op])) return "has flops or bytes that are negative or not finite";
	if (!amount(o->alloc[op]) || !amount(o->release[op]))
		return "allocates or releases bytes that are negative or not finite";
	if (o->measured_ps[op] < 0) return "has a negative measured duration";
	bool team = lk_op_is_comm(kind) && o->group[op] == LK_GROUP_TEAM;
	if (team && (o->channel[op] < 0 || (uint32_t)o->channel[op] >= graph->teams.count))
		return "is of a team that does not exist";
	if (!team && is_port(graph, op) && (o->channel[op] < 0 || (uint32_t)o->channel[op] >= graph->channels))
		return "uses a channel that does not exist";
	return NULL;
}

static lk_status check_deps(const struct checker *c, size_t block, uint32_t op) {
	const lk_ops *ops = &c->graph->ops;
	for (uint32_t d = ops->dep_begin[op]; d < ops->dep_begin[op + 1]; d++)
		if (ops->deps[d] >= op - c->graph->blocks.at[block].begin)
			return bad_op(c, block, op, "depends on itself or on a later operation of its block");
	return LK_OK;
}

/* ---- blocks ---- */

static void change(struct summary *s, unsigned owner, double bytes) {
	s->net[owner] += bytes;
	s->owners |= (uint8_t)(1u << owner);
	if (s->net[owner] < s->low[owner]) s->low[owner] = s->net[owner];
}

static void add_memory(struct summary *s, const lk_ops *ops, uint32_t op, double *total) {
	double alloc = ops->alloc[op], back = ops->flags[op] & LK_OP_TRANSIENT ? alloc : 0;
	if (alloc > 0) change(s, ops->alloc_owner[op], alloc);
	*total += alloc;
	if (*total > s->rise) s->rise = *total;
	if (ops->release[op] > 0) change(s, ops->release_owner[op], -ops->release[op]);
	if (back > 0) change(s, ops->alloc_owner[op], -back);
	*total -= ops->release[op] + back;
}

static lk_status check_block(struct checker *c, size_t b) {
	const lk_ops *ops = &c->graph->ops;
	const lk_block *block = &c->graph->blocks.at[b];
	struct summary *s = &c->blocks[b];
	double total = 0;
	s->event_begin = c->event_count, s->port_begin = c->port_count;
	for (uint32_t op = block->begin; op < block->end; op++) {
		const char *fault = op_fault(c->graph, op);
		if (fault) return bad_op(c, b, op, fault);
		LK_TRY(check_deps(c, b, op));
		add_memory(s, ops, op, &total);
		if (ops->wait[op] || ops->signal[op]) c->events[c->event_count++] = op;
		if (is_port(c->graph, op)) c->ports[c->port_count++] = op;
		for (int k = 0; k < CROSS_KINDS; k++)
			s->cross[k] += lk_op_is_collective(ops->kind[op]) && ops->group[op] == cross_kinds[k];
	}
	s->event_end = c->event_count, s->port_end = c->port_count;
	return LK_OK;
}

/* The lists of dependencies can be read at all. */
static lk_status check_dep_lists(const struct checker *c) {
	const lk_ops *ops = &c->graph->ops;
	if (ops->count == 0) return LK_OK;
	bool whole = ops->dep_begin[0] == 0 && ops->dep_begin[ops->count] <= ops->dep_capacity;
	for (uint32_t op = 0; op < ops->count; op++) whole &= ops->dep_begin[op] <= ops->dep_begin[op + 1];
	return whole ? LK_OK : bad(c, "step graph", "the lists of dependencies are broken");
}

/* Blocks follow one another without gaps and hold every operation. */
static lk_status check_blocks(struct checker *c) {
	const lk_graph *graph = c->graph;
	uint32_t n = graph->ops.count, at = 0;
	LK_TRY(check_dep_lists(c));
	for (size_t b = 0; b < graph->blocks.count; b++) {
		const lk_block *block = &graph->blocks.at[b];
		char where[PLACE];
		snprintf(where, sizeof where, "block %zu (%.60s)", b, text_of(graph, block->name));
		if (block->name >= lk_intern_count(graph->names)) return bad(c, where, "has a name that does not exist");
		if (block->begin != at || block->end < block->begin || block->end > n)
			return bad(c, where, "does not begin where the block before it ends, or ends beyond the last operation");
		at = block->end;
		LK_TRY(check_block(c, b));
	}
	return at == n ? LK_OK : bad(c, "step graph", "operations behind the last block: a block was begun and not ended");
}

/* ---- ranks and wires ---- */

static bool across_stages(unsigned group) {
	return group == LK_GROUP_PP || group == LK_GROUP_EMBEDDING || group == LK_GROUP_MODEL;
}

static lk_status check_group(const struct checker *c, unsigned group, bool used) {
	const lk_ranks *r = &c->graph->ranks;
	char where[PLACE];
	snprintf(where, sizeof where, "process group %s", lk_group_label(group));
	uint64_t size = r->group[group].size, stride = r->group[group].stride;
	if (size == 0 || stride == 0) return bad(c, where, "has a size or stride of 0; a group of one rank is 1 and 1");
	if (group == LK_GROUP_TEAM && (size != 1 || stride != 1)) return bad(c, where, "has a size: teams are listed");
	if (!used || across_stages(group) || group == LK_GROUP_NONE || size == 1) return LK_OK;
	if (size <= r->chains && stride <= r->chains && r->chains % (size * stride) == 0) return LK_OK;
	return lk_fail(c->err, LK_ERR_INPUT, where, "size %u and stride %u do not divide the %u ranks of a stage",
	               r->group[group].size, r->group[group].stride, r->chains);
}

static lk_status check_ranks(const struct checker *c) {
	const lk_graph *graph = c->graph;
	const lk_ranks *r = &graph->ranks;
	uint32_t used = 0;
	if (graph->programs.count == 0) return bad(c, "step graph", "holds no program");
	if (r->stages != graph->programs.count)
		return lk_fail(c->err, LK_ERR_INPUT, "ranks", "%u stages, but %zu programs", r->stages, graph->programs.count);
	if (r->chains == 0 || (uint64_t)r->stages * r->chains != r->world)
		return lk_fail(c->err, LK_ERR_INPUT, "ranks", "%u ranks are not %u stages of %u ranks each", r->world,
					   r->stages, r->chains);
	for (uint32_t op = 0; op < graph->ops.count; op++)
		if (lk_op_is_collective(graph->ops.kind[op])) used |= 1u << graph->ops.group[op];
	for (unsigned g = 0; g < LK_GROUPS; g++) LK_TRY(check_group(c, g, used >> g & 1));
	if (!amount(graph->model_flops) || !amount(graph->tokens) || !amount(graph->samples))
		return bad(c, "facts", "flops, tokens or samples are negative or not finite");
	return graph->peak_dtype < LK_DTYPES ? LK_OK : bad(c, "facts", "the format of the peak is unknown");
}

static lk_status check_wires(const struct checker *c) {
	const lk_graph *graph = c->graph;
	size_t channels = graph->channels, stages = graph->programs.count;
	if (graph->wires.count != stages * channels)
		return lk_fail(c->err, LK_ERR_INPUT, "wires", "%zu, but %zu programs have %zu channels each",
					   graph->wires.count, stages, channels);
	for (size_t i = 0; i < graph->wires.count; i++) {
		lk_wire to = graph->wires.at[i];
		if (to.stage == UINT32_MAX && to.channel == UINT32_MAX) continue;
		size_t back = (size_t)to.stage * channels + to.channel;
		bool there = to.stage < stages && to.channel < channels && back != i;
		if (there && (size_t)graph->wires.at[back].stage * channels + graph->wires.at[back].channel == i &&
		    graph->wires.at[back].channel < channels)
			continue;
		char where[PLACE];
		program_place(c, i / channels, where);
		return lk_fail(c->err, LK_ERR_INPUT, where, "channel %zu is not wired to another channel that leads back",
					   i % channels);
	}
	return LK_OK;
}

/* ---- programs ---- */

static lk_status check_program(const struct checker *c, size_t s) {
	const lk_program *p = &c->graph->programs.at[s];
	char where[PLACE];
	program_place(c, s, where);
	if (p->name >= lk_intern_count(c->graph->names)) return bad(c, where, "has a name that does not exist");
	if (p->stage != s) return lk_fail(c->err, LK_ERR_INPUT, where, "says that it is of stage %u", p->stage);
	if (p->channels > c->graph->channels)
		return lk_fail(c->err, LK_ERR_INPUT, where, "%u channels, more than the graph's %u", p->channels,
					   c->graph->channels);
	if (p->events > UINT16_MAX + 1u)
		return lk_fail(c->err, LK_ERR_INPUT, where, "%u events: calls can name %u", p->events, UINT16_MAX + 1u);
	for (unsigned i = 0; i < LK_STREAMS; i++)
		if (p->stream_names[i] >= lk_intern_count(c->graph->names))
			return bad(c, where, "has a stream whose name does not exist");
	if (p->threads >> LK_STREAMS) return bad(c, where, "has a thread on a stream that does not exist");
	for (int o = 0; o < LK_OWNERS; o++)
		if (!amount(p->resident[o])) return bad(c, where, "has resident bytes that are negative or not finite");
	return LK_OK;
}

static const char *call_fault(const lk_graph *graph, const lk_call *call) {
	if (call->block >= graph->blocks.count) return "calls a block that does not exist";
	if (call->repeat == 0) return "runs no times: a repeat count is at least 1";
	if (call->microbatch < -1) return "has a negative micro-batch; -1 is none";
	if (call->layer < -1) return "has a negative layer; -1 is none";
	return call->pass < LK_PHASES ? NULL : "has an unknown pass";
}

/* Memory in use of one program while it is walked. */
struct level {
	double now[LK_OWNERS], total, peak, resident[LK_OWNERS];
	size_t taken[LK_OWNERS]; /* last call that kept memory */
};

static double slack(const struct level *m) { return SLACK_BYTES + SLACK_SHARE * m->peak; }

/* Bytes of an owner fall below what is resident in a call that begins `room` bytes above it: names the operation. */
static lk_status below(const struct checker *c, size_t s, size_t call, unsigned owner, double room, double most) {
	char where[PLACE], size[32];
	const lk_block *block = &c->graph->blocks.at[c->graph->programs.at[s].calls.at[call].block];
	struct summary so_far = {0};
	double total = 0;
	uint32_t op = block->begin;
	for (; op + 1 < block->end; op++) {
		add_memory(&so_far, &c->graph->ops, op, &total);
		if (room + so_far.low[owner] < -most) break;
	}
	op_place(c, s, call, op, where);
	double missing = -(room + c->blocks[c->graph->programs.at[s].calls.at[call].block].low[owner]);
	lk_fail(c->err, LK_ERR_INPUT, where, "gives back %s of %s more than was taken",
			lk_format_bytes(missing, size, sizeof size), lk_owner_name((lk_owner)owner));
	return lk_hint(c->err, "every release needs an allocation before it, of the same owner and size");
}

static lk_status walk_memory(const struct checker *c, size_t s, size_t at, struct level *m) {
	const lk_call *call = &c->graph->programs.at[s].calls.at[at];
	const struct summary *b = &c->blocks[call->block];
	double again = call->repeat - 1.0, total = 0;
	if (m->total + b->rise > m->peak) m->peak = m->total + b->rise;
	for (unsigned owners = b->owners, o = 0; owners; owners >>= 1, o++) {
		if (!(owners & 1)) continue;
		double net = b->net[o], room = m->now[o] - m->resident[o] + fmin(0, again * net);
		if (!(room + b->low[o] >= -slack(m))) return below(c, s, at, o, room, slack(m));
		if (net > 0) m->taken[o] = at;
		m->now[o] += net * call->repeat;
		total += net;
	}
	if (m->total + again * total + b->rise > m->peak) m->peak = m->total + again * total + b->rise;
	m->total += total * call->repeat;
	return LK_OK;
}

static lk_status end_memory(const struct checker *c, size_t s, const struct level *m) {
	for (unsigned o = 0; o < LK_OWNERS; o++) {
		double left = m->now[o] - m->resident[o];
		if (left <= slack(m)) continue;
		char where[PLACE], size[32];
		call_place(c, s, m->taken[o], where);
		lk_fail(c->err, LK_ERR_INPUT, where, "%s of %s are not given back by the end of the program",
		        lk_format_bytes(left, size, sizeof size), lk_owner_name((lk_owner)o));
		return lk_hint(c->err, "this call was the last to keep some");
	}
	return LK_OK;
}

/* A repetition sees the same events as the first run, and those set since. */
static lk_status walk_events(const struct checker *c, size_t s, size_t at) {
	const lk_program *program = &c->graph->programs.at[s];
	const lk_call *call = &program->calls.at[at];
	const struct summary *b = &c->blocks[call->block];
	const lk_ops *ops = &c->graph->ops;
	char where[PLACE];
	for (uint32_t i = b->event_begin; i < b->event_end; i++) {
		uint32_t op = c->events[i];
		unsigned wait = ops->wait[op] ? call->arg[ops->wait[op] - 1] : 0,
				 set = ops->signal[op] ? call->arg[ops->signal[op] - 1] : 0;
		if ((ops->wait[op] && wait >= program->events) || (ops->signal[op] && set >= program->events)) {
			op_place(c, s, at, op, where);
			return lk_fail(c->err, LK_ERR_INPUT, where, "uses event %u of %u", wait > set ? wait : set,
						   program->events);
		}
		if (ops->wait[op] && !c->signalled[wait]) {
			op_place(c, s, at, op, where);
			lk_fail(c->err, LK_ERR_INPUT, where, "waits for event %u, which nothing before it signals", wait);
			return lk_hint(c->err, "an event is signalled earlier in the program than it is waited for");
		}
		if (ops->signal[op]) c->signalled[set] = 1;
	}
	return LK_OK;
}

static lk_status walk_ports(const struct checker *c, size_t s, size_t at) {
	const lk_program *program = &c->graph->programs.at[s];
	const lk_call *call = &program->calls.at[at];
	const struct summary *b = &c->blocks[call->block];
	for (uint32_t i = b->port_begin; i < b->port_end; i++) {
		uint32_t op = c->ports[i];
		size_t channel = (size_t)c->graph->ops.channel[op], port = s * c->graph->channels + channel;
		bool send = c->graph->ops.kind[op] == LK_OP_SEND;
		char where[PLACE];
		const char *fault = channel >= program->channels ? "uses a channel that its program does not have"
		                    : c->graph->wires.at[port].stage == UINT32_MAX ? "uses a channel without a wire" : NULL;
		*(send ? &c->uses[port].sends : &c->uses[port].receives) += call->repeat;
		if (c->uses[port].sends && c->uses[port].receives)
			fault = "sends and receives on one channel: each direction needs its own";
		if (!fault) continue;
		op_place(c, s, at, op, where);
		return bad(c, where, fault);
	}
	return LK_OK;
}

static lk_status walk_program(const struct checker *c, size_t s) {
	const lk_program *program = &c->graph->programs.at[s];
	struct level m = {0};
	double ops = 0;
	memset(c->signalled, 0, program->events);
	for (int o = 0; o < LK_OWNERS; o++) m.total += m.now[o] = m.resident[o] = program->resident[o];
	m.peak = m.total;
	for (size_t i = 0; i < program->calls.count; i++) {
		const lk_call *call = &program->calls.at[i];
		const char *fault = call_fault(c->graph, call);
		if (fault) {
			char where[PLACE];
			call_place(c, s, i, where);
			return bad(c, where, fault);
		}
		const struct summary *b = &c->blocks[call->block];
		ops += (double)call->repeat * (c->graph->blocks.at[call->block].end - c->graph->blocks.at[call->block].begin);
		if (b->owners) LK_TRY(walk_memory(c, s, i, &m));
		if (b->event_begin < b->event_end) LK_TRY(walk_events(c, s, i));
		if (b->port_begin < b->port_end) LK_TRY(walk_ports(c, s, i));
		for (int k = 0; k < CROSS_KINDS; k++)
			c->cross[s * CROSS_KINDS + (size_t)k] += (uint64_t)b->cross[k] * call->repeat;
	}
	if (ops > MOST_OPS) {
		char where[PLACE];
		program_place(c, s, where);
		return lk_fail(c->err, LK_ERR_INPUT, where, "runs %.3g operations: at most %.0e are simulated", ops, MOST_OPS);
	}
	return end_memory(c, s, &m);
}

/* ---- between programs ---- */

static void port_place(const struct checker *c, size_t s, size_t channel, char out[PLACE]) {
	const lk_program *program = &c->graph->programs.at[s];
	for (size_t i = 0; i < program->calls.count; i++) {
		const struct summary *b = &c->blocks[program->calls.at[i].block];
		for (uint32_t at = b->port_begin; at < b->port_end; at++) {
			if ((size_t)c->graph->ops.channel[c->ports[at]] != channel) continue;
			op_place(c, s, i, c->ports[at], out);
			return;
		}
	}
	program_place(c, s, out);
}

static lk_status compare_ports(const struct checker *c) {
	size_t channels = c->graph->channels;
	for (size_t i = 0; i < c->graph->wires.count; i++) {
		lk_wire to = c->graph->wires.at[i];
		if (to.stage == UINT32_MAX) continue;
		const struct port_use *here = &c->uses[i], *there = &c->uses[(size_t)to.stage * channels + to.channel];
		if (here->sends == there->receives && here->receives == there->sends) continue;
		bool none = !here->sends && !here->receives;
		if (none && i < (size_t)to.stage * channels + to.channel) continue; /* told from the end that is used */
		char where[PLACE];
		port_place(c, i / channels, i % channels, where);
		lk_fail(c->err, LK_ERR_INPUT, where,
				"channel %zu: %llu sends and %llu receives; at its other end, channel %u of "
				"program %u, %llu receives and %llu sends",
				i % channels, (unsigned long long)here->sends, (unsigned long long)here->receives, to.channel, to.stage,
				(unsigned long long)there->receives, (unsigned long long)there->sends);
		return lk_hint(c->err, "every send needs a receive at the other end of its wire");
	}
	return LK_OK;
}

/* All stages take part in a collective of PP and MODEL, the first and the last in one of EMBEDDING. */
static lk_status compare_cross(const struct checker *c) {
	size_t stages = c->graph->programs.count;
	for (size_t k = 0; k < CROSS_KINDS; k++) {
		bool ends = cross_kinds[k] == LK_GROUP_EMBEDDING;
		for (size_t s = 1; s < stages; s++) {
			uint64_t first = c->cross[k], here = c->cross[s * CROSS_KINDS + k];
			if (here == first || (ends && s + 1 < stages)) continue;
			char where[PLACE];
			program_place(c, s, where);
			return lk_fail(c->err, LK_ERR_INPUT, where,
						   "%llu collectives of group %s, but program 0 has %llu: they would wait "
						   "forever",
						   (unsigned long long)here, lk_group_label(cross_kinds[k]), (unsigned long long)first);
		}
	}
	return LK_OK;
}

static lk_status allocate(struct checker *c) {
	const lk_graph *graph = c->graph;
	uint32_t events = 0;
	for (size_t s = 0; s < graph->programs.count; s++)
		if (graph->programs.at[s].events > events) events = graph->programs.at[s].events;
	c->uses = LK_ARRAY(&c->arena, struct port_use, graph->wires.count);
	c->cross = LK_ARRAY(&c->arena, uint64_t, graph->programs.count * CROSS_KINDS);
	c->signalled = LK_ARRAY(&c->arena, uint8_t, events);
	return c->uses && c->cross && c->signalled ? LK_OK : lk_oom(c->err);
}

static lk_status check_all(struct checker *c) {
	const lk_graph *graph = c->graph;
	if (graph->failed) return lk_oom(c->err);
	c->blocks = LK_ARRAY(&c->arena, struct summary, graph->blocks.count);
	c->events = LK_ARRAY(&c->arena, uint32_t, graph->ops.count);
	c->ports = LK_ARRAY(&c->arena, uint32_t, graph->ops.count);
	if (!c->blocks || !c->events || !c->ports) return lk_oom(c->err);
	LK_TRY(check_blocks(c));
	LK_TRY(check_ranks(c));
	LK_TRY(check_wires(c));
	for (size_t s = 0; s < graph->programs.count; s++) LK_TRY(check_program(c, s));
	LK_TRY(allocate(c));
	for (size_t s = 0; s < graph->programs.count; s++) LK_TRY(walk_program(c, s));
	LK_TRY(compare_ports(c));
	LK_TRY(compare_cross(c));
	return lk_graph_check_teams(graph, c->err);
}

lk_status lk_graph_check(const lk_graph *graph, lk_error *err) {
	struct checker c = {.graph = graph, .err = err, .arena = LK_ARENA_INIT};
	lk_status status = check_all(&c);
	lk_arena_free(&c.arena);
	return status;
}
