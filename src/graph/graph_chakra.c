/* graph_chakra.c: a step graph as Chakra's execution traces (MLCommons, et_def.proto), one file a
 * rank, for ASTRA-sim and other simulators: records of protobuf with their length before them, a
 * GlobalMetadata and then a Node for each operation.
 *
 * Process groups are whole numbers, as ASTRA-sim takes them: "0" is all ranks, and comm_group.json
 * lists the members of the others. A simulator starts what is ready in the order of ids; so that no
 * two ranks start collectives in different order, each waits for the one before it on its rank
 * (control dependencies). Every node of work has num_ops of one or more: a roofline divides by it.
 *
 * Other dependencies are data dependencies, and lead to nodes with smaller ids: the operation
 * before on the stream, those that the operation waits for, and of graphs that were not traced the
 * host's last operation before its launch. Operations of the host that are left out hand on what
 * they wait for: of each stream the last node. Durations are those that the graph states (measured,
 * or host work), or the modelled ones, in whole microseconds: what rounding leaves over goes to the
 * next node of the stream, so that sums are right. num_ops and tensor_size are what a simulator
 * needs for the rest. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/protobuf.h"
#include "graph/graph_internal.h"

/* Chakra's numbers */
enum {
	NODE_ID = 1,
	NODE_NAME,
	NODE_TYPE,
	NODE_CONTROL,
	NODE_DATA,
	NODE_START,
	NODE_DURATION,
	NODE_ATTRIBUTE = 10
};
enum {
	TYPE_COMP = 4,
	TYPE_SEND,
	TYPE_RECV,
	TYPE_COLLECTIVE
};
enum {
	ATTRIBUTE_NAME = 1,
	ATTRIBUTE_INT32 = 7,
	ATTRIBUTE_INT64 = 9,
	ATTRIBUTE_UINT64 = 13,
	ATTRIBUTE_BOOL = 27,
	ATTRIBUTE_TEXT = 29
};
enum {
	METADATA_VERSION = 1
};

static const char version[] = "0.0.4";

enum {
	FLUSH = 1 << 16
};
/* A value of `last`, `events` and `placed` with this bit is the place of a list in `fronts`. */
#define LEFT_OUT (UINT64_C(1) << 63)

/* What an operation that was left out waits for: nodes in `handed`. */
struct front {
	size_t begin, count;
};

/* Nodes of all files together: beyond it a disk is full before it is of use to anyone. */
#define MOST_NODES 2e9

struct writer {
	const lk_graph *graph;
	const lk_chakra_options *options;
	lk_sink *sink;
	lk_proto_out out;
	uint32_t stage, chain;
	uint64_t next;             /* id of the next node; ids begin at 1 */
	uint64_t last[LK_STREAMS]; /* node that is last on the stream; 0 none */
	uint64_t *events;          /* [program's events] node that set it */
	uint64_t *placed;          /* [largest block] nodes of the call's operations */
	LK_VEC(uint64_t) deps;
	LK_VEC(uint8_t) streams; /* of the node of each id, from 1 */
	LK_VEC(struct front) fronts;
	LK_VEC(uint64_t) handed;
	double carried[LK_STREAMS]; /* of durations, what rounding left over, us */
	uint64_t collective;        /* node of the last one; 0 none */
	lk_chakra_groups groups;
	lk_error *err;
};

static uint32_t chakra_rank_of(const lk_graph *graph, uint32_t stage, uint32_t chain) {
	return graph->traced ? chain * graph->ranks.stages + stage
	                     : stage * graph->ranks.chains + chain;
}

/* ---- attributes ---- */

static void chakra_put_whole(struct writer *writer, unsigned form, const char *name,
                             uint64_t value) {
	size_t attribute = lk_proto_begin(&writer->out, NODE_ATTRIBUTE);
	lk_proto_put_text(&writer->out, ATTRIBUTE_NAME, name);
	lk_proto_put_integer(&writer->out, form, value);
	lk_proto_end(&writer->out, attribute);
}

static void chakra_put_text(struct writer *writer, const char *name, const char *text) {
	size_t attribute = lk_proto_begin(&writer->out, NODE_ATTRIBUTE);
	lk_proto_put_text(&writer->out, ATTRIBUTE_NAME, name);
	lk_proto_put_text(&writer->out, ATTRIBUTE_TEXT, text);
	lk_proto_end(&writer->out, attribute);
}

static uint64_t chakra_whole(double real) {
	if (real > 0) {
		if (real < 9e18) return (uint64_t)(real + .5);
		return (uint64_t)9e18;
	}
	return 0;
}

static bool chakra_across_stages(unsigned group) {
	return group == LK_GROUP_PP || group == LK_GROUP_EMBEDDING || group == LK_GROUP_MODEL;
}

/* A name that the members of a group share and nobody else has: its kind, its stage unless it leads
 * across them, and which one it is among the chains. */
static void group_name(const struct writer *writer, const lk_op *op, char *out, size_t size) {
	const lk_ranks *ranks = &writer->graph->ranks;
	if (op->group == LK_GROUP_TEAM && op->channel >= 0 &&
	    (size_t)op->channel < writer->graph->teams.count) {
		const lk_team *team = &writer->graph->teams.at[op->channel];
		const char *name = lk_intern_text(writer->graph->names, team->name);
		snprintf(out, size, team->across ? "%.200s" : "%.200s/%u", name, writer->chain);
		return;
	}
	/* pipelines and their ends are one for each chain */
	bool chain =
		op->group == LK_GROUP_PP || op->group == LK_GROUP_EMBEDDING || op->group == LK_GROUP_NONE;
	uint64_t members = chain ? 1 : ranks->group[op->group].size,
			 stride = chain ? 1 : ranks->group[op->group].stride;
	uint64_t index = writer->chain / (members * stride) * stride + writer->chain % stride;
	if (chakra_across_stages(op->group))
		snprintf(out, size, "%s.%llu", lk_group_label(op->group), (unsigned long long)index);
	else
		snprintf(out, size, "%s.%u.%llu", lk_group_label(op->group), writer->stage,
		         (unsigned long long)index);
}

static uint64_t chakra_group_size(const lk_graph *graph, const lk_op *op) {
	uint64_t size = graph->ranks.group[op->group].size;
	if (op->group == LK_GROUP_TEAM && op->channel >= 0 && (size_t)op->channel < graph->teams.count)
		return graph->teams.at[op->channel].ranks;
	return op->group == LK_GROUP_MODEL ? size * graph->ranks.stages : size;
}

static void chakra_put_collective(struct writer *writer, const lk_op *op) {
	static const uint8_t types[] = {
		/* CollectiveCommType */
		[LK_OP_ALLREDUCE - LK_OP_ALLREDUCE] = 0,     [LK_OP_ALLGATHER - LK_OP_ALLREDUCE] = 2,
		[LK_OP_REDUCESCATTER - LK_OP_ALLREDUCE] = 7, [LK_OP_ALLTOALL - LK_OP_ALLREDUCE] = 6,
		[LK_OP_BROADCAST - LK_OP_ALLREDUCE] = 5,
	};
	char name[256], number[32];
	uint64_t ranks = chakra_group_size(writer->graph, op);
	group_name(writer, op, name, sizeof name);
	/* of an all-gather that of a rank's own share, of the others a rank's whole input */
	bool share = op->kind == LK_OP_ALLGATHER && ranks > 1;
	snprintf(number, sizeof number, "%u",
	         lk_chakra_group(&writer->groups, name,
	                         chakra_rank_of(writer->graph, writer->stage, writer->chain), ranks));
	chakra_put_whole(writer, ATTRIBUTE_INT64, "comm_type", types[op->kind - LK_OP_ALLREDUCE]);
	chakra_put_whole(writer, ATTRIBUTE_INT64, "comm_size",
	                 chakra_whole(share ? op->bytes / (double)ranks : op->bytes));
	chakra_put_text(writer, "pg_name", number);
	chakra_put_whole(writer, ATTRIBUTE_INT64, "pg_size", ranks);
}

/* Both ends of a wire have its smaller number as tag; the k-th send with a tag meets the k-th
 * receive. */
static void put_message(struct writer *writer, const lk_op *op) {
	const lk_graph *graph = writer->graph;
	size_t here = (size_t)writer->stage * graph->channels + (size_t)op->channel;
	lk_wire to = graph->wires.at[here];
	size_t there = (size_t)to.stage * graph->channels + to.channel;
	uint32_t self = chakra_rank_of(graph, writer->stage, writer->chain),
			 peer = chakra_rank_of(graph, to.stage, writer->chain);
	bool sends = op->kind == LK_OP_SEND;
	chakra_put_whole(writer, ATTRIBUTE_INT64, "comm_size", chakra_whole(op->bytes));
	chakra_put_whole(writer, ATTRIBUTE_INT32, "comm_src", sends ? self : peer);
	chakra_put_whole(writer, ATTRIBUTE_INT32, "comm_dst", sends ? peer : self);
	chakra_put_whole(writer, ATTRIBUTE_INT32, "comm_tag",
	                 (uint64_t)((here < there ? here : there) & INT32_MAX));
}

/* ---- dependencies ---- */

static bool chakra_depend(struct writer *writer, uint64_t node) {
	if (!node) return true;
	if (node & LEFT_OUT) {
		struct front front = writer->fronts.at[node & ~LEFT_OUT];
		for (size_t i = 0; i < front.count; i++)
			if (!chakra_depend(writer, writer->handed.at[front.begin + i])) return false;
		return true;
	}
	if (!lk_push(&writer->deps)) return false;
	*lk_last(&writer->deps) = node;
	return true;
}

static int chakra_ascending(const void *a, const void *b) {
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return x < y ? -1 : x > y;
}

static bool find_deps(struct writer *writer, const lk_op *op, const lk_call *call) {
	writer->deps.count = 0;
	bool good = chakra_depend(writer, writer->last[op->stream]);
	for (unsigned s = 0; s < LK_STREAMS && good; s++)
		if (op->join & LK_JOIN(s)) good = chakra_depend(writer, writer->last[s]);
	for (uint32_t i = 0; i < op->dep_count && good; i++)
		good = chakra_depend(writer, writer->placed[op->deps[i]]);
	if (op->wait && good) good = chakra_depend(writer, writer->events[call->arg[op->wait - 1]]);
	if (!writer->graph->traced && good) good = chakra_depend(writer, writer->last[LK_STREAM_HOST]);
	if (writer->deps.count)
		qsort(writer->deps.at, writer->deps.count, sizeof *writer->deps.at, chakra_ascending);
	return good;
}

static void chakra_put_deps(struct writer *writer) {
	if (!writer->deps.count) return;
	size_t list = lk_proto_begin(&writer->out, NODE_DATA);
	for (size_t i = 0; i < writer->deps.count; i++)
		if (!i || writer->deps.at[i] != writer->deps.at[i - 1])
			lk_proto_put_varint(&writer->out, writer->deps.at[i]);
	lk_proto_end(&writer->out, list);
}

/* An operation that is left out: of what it waits for, the last node of each stream. */
static lk_status leave_out(struct writer *writer, uint64_t *id) {
	uint64_t latest[LK_STREAMS] = {0};
	struct front front = {.begin = writer->handed.count};
	for (size_t i = 0; i < writer->deps.count; i++) {
		uint8_t stream = writer->streams.at[writer->deps.at[i] - 1];
		latest[stream] = writer->deps.at[i]; /* they ascend */
	}
	for (int s = 0; s < LK_STREAMS; s++) {
		if (!latest[s]) continue;
		if (!lk_push(&writer->handed)) return lk_oom(writer->err);
		*lk_last(&writer->handed) = latest[s];
		front.count++;
	}
	if (!lk_push(&writer->fronts)) return lk_oom(writer->err);
	*lk_last(&writer->fronts) = front;
	*id = LEFT_OUT | (writer->fronts.count - 1);
	return LK_OK;
}

static void chakra_put_order(struct writer *writer, uint64_t id) {
	if (writer->collective) {
		size_t list = lk_proto_begin(&writer->out, NODE_CONTROL);
		lk_proto_put_varint(&writer->out, writer->collective);
		lk_proto_end(&writer->out, list);
	}
	writer->collective = id;
}

/* ---- nodes ---- */

static bool on_host(const struct writer *writer, const lk_op *op) {
	if (lk_op_is_collective(op->kind) || op->kind == LK_OP_SEND || op->kind == LK_OP_RECV)
		return false;
	return op->kind == LK_OP_HOST || op->kind == LK_OP_WAIT ||
	       (writer->graph->programs.at[writer->stage].threads >> op->stream & 1) ||
	       op->stream == LK_STREAM_HOST;
}

static double micros(const struct writer *writer, const lk_op *op, uint32_t at) {
	const lk_chakra_options *options = writer->options;
	if (op->measured_ps > 0) return (double)op->measured_ps * 1e-6;
	if (op->kind == LK_OP_HOST) return op->m * 1e6;
	if (!options->time || op->kind == LK_OP_SEND || op->kind == LK_OP_RECV) return 0;
	return options->time(options->context, writer->stage, writer->chain, at) * 1e-6;
}

/* Whole microseconds of a node. */
static uint64_t put_duration(struct writer *writer, const lk_op *op, uint32_t at) {
	double us = micros(writer, op, at) + (writer->options->time ? writer->carried[op->stream] : 0);
	uint64_t whole = chakra_whole(us);
	writer->carried[op->stream] = us - (double)whole;
	return whole;
}

static lk_status flush(struct writer *writer, size_t above) {
	if (writer->out.lost) return lk_oom(writer->err);
	if (writer->out.bytes.count <= above) return LK_OK;
	LK_TRY(lk_sink_write(writer->sink, writer->out.bytes.at, writer->out.bytes.count, writer->err));
	writer->out.bytes.count = 0;
	return LK_OK;
}

static uint64_t node_type(unsigned kind) {
	if (lk_op_is_collective(kind)) return TYPE_COLLECTIVE;
	if (kind == LK_OP_SEND) return TYPE_SEND;
	if (kind == LK_OP_RECV) return TYPE_RECV;
	return TYPE_COMP;
}

static lk_status put_node(struct writer *writer, const lk_op *op, uint32_t at, const lk_call *call,
                          uint64_t *id) {
	bool host = on_host(writer, op), collective = lk_op_is_collective(op->kind);
	bool message = op->kind == LK_OP_SEND || op->kind == LK_OP_RECV;
	if (!find_deps(writer, op, call)) return lk_oom(writer->err);
	/* A collective of one rank moves nothing, and a simulator refuses such groups; what a trace of
	 * one rank holds is of more. */
	bool alone = collective && !writer->graph->traced && chakra_group_size(writer->graph, op) < 2;
	if (alone || (host && !writer->options->host)) return leave_out(writer, id);
	*id = writer->next++;
	if (!lk_push(&writer->streams)) return lk_oom(writer->err);
	*lk_last(&writer->streams) = op->stream;
	size_t record = lk_proto_begin(&writer->out, 0);
	lk_proto_put_integer(&writer->out, NODE_ID, *id);
	lk_proto_put_text(&writer->out, NODE_NAME, op->name);
	lk_proto_put_integer(&writer->out, NODE_TYPE, node_type(op->kind));
	if (collective) chakra_put_order(writer, *id);
	chakra_put_deps(writer);
	uint64_t duration = put_duration(writer, op, at);
	if (duration) lk_proto_put_integer(&writer->out, NODE_DURATION, duration);
	chakra_put_whole(writer, ATTRIBUTE_BOOL, "is_cpu_op", host);
	chakra_put_whole(writer, ATTRIBUTE_INT64, host ? "tid" : "stream", op->stream);
	if (collective) chakra_put_collective(writer, op);
	else if (message) put_message(writer, op);
	else {
		uint64_t flops = chakra_whole(op->flops);
		chakra_put_whole(writer, ATTRIBUTE_INT64, "num_ops", flops > 0 ? flops : 1);
		chakra_put_whole(writer, ATTRIBUTE_UINT64, "tensor_size", chakra_whole(op->bytes));
	}
	lk_proto_end(&writer->out, record);
	if (writer->groups.lost) return lk_oom(writer->err);
	return flush(writer, FLUSH);
}

static lk_status chakra_put_call(struct writer *writer, const lk_call *call) {
	const lk_block *block = &writer->graph->blocks.at[call->block];
	for (uint32_t at = block->begin; at < block->end; at++) {
		lk_op op = lk_graph_op(writer->graph, at);
		uint64_t id = 0;
		LK_TRY(put_node(writer, &op, at, call, &id));
		writer->last[op.stream] = id;
		writer->placed[at - block->begin] = id;
		if (op.signal) writer->events[call->arg[op.signal - 1]] = id;
	}
	return LK_OK;
}

static lk_status chakra_put_program(struct writer *writer) {
	const lk_program *program = &writer->graph->programs.at[writer->stage];
	size_t head = lk_proto_begin(&writer->out, 0);
	lk_proto_put_text(&writer->out, METADATA_VERSION, version);
	lk_proto_end(&writer->out, head);
	for (size_t c = 0; c < program->calls.count; c++)
		for (uint32_t r = 0; r < program->calls.at[c].repeat; r++)
			LK_TRY(chakra_put_call(writer, &program->calls.at[c]));
	return flush(writer, 0);
}

/* ---- files ---- */

enum {
	PATH_ROOM = 4096
};

static lk_status name_rank(const struct writer *writer, const char *dir, char path[PATH_ROOM]) {
	int length = snprintf(path, PATH_ROOM, "%s/lockstep.%u.et", dir,
	                      chakra_rank_of(writer->graph, writer->stage, writer->chain));
	if (length >= 0 && length < PATH_ROOM) return LK_OK;
	return lk_fail(writer->err, LK_ERR_INPUT, "folder", "its name is too long");
}

static lk_status write_rank(struct writer *writer, const char *dir) {
	char path[PATH_ROOM];
	LK_TRY(name_rank(writer, dir, path));
	writer->next = 1;
	writer->collective = 0;
	writer->out.bytes.count = writer->streams.count = writer->fronts.count = writer->handed.count =
		0;
	memset(writer->carried, 0, sizeof writer->carried);
	memset(writer->last, 0, sizeof writer->last);
	LK_TRY(lk_sink_open(path, &writer->sink, writer->err));
	lk_status status = chakra_put_program(writer);
	if (status == LK_OK) return lk_sink_commit(writer->sink, writer->err);
	lk_sink_abandon(writer->sink);
	return status;
}

static lk_status chakra_check_size(const lk_graph *graph, size_t *longest, uint32_t *events,
                                   lk_error *err) {
	double nodes = 0;
	*longest = *events = 0;
	for (uint32_t s = 0; s < graph->ranks.stages; s++) {
		const lk_program *program = &graph->programs.at[s];
		if (program->events > *events) *events = program->events;
		for (size_t c = 0; c < program->calls.count; c++) {
			const lk_block *block = &graph->blocks.at[program->calls.at[c].block];
			if (block->end - block->begin > *longest) *longest = block->end - block->begin;
			nodes += (double)program->calls.at[c].repeat * (block->end - block->begin) *
			         graph->ranks.chains;
		}
	}
	if (nodes <= MOST_NODES) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, "Chakra traces",
	        "the step has %.3g operations on all ranks together, too many to write out", nodes);
	return lk_hint(err, "give fewer ranks or micro-batches");
}

/* All ranks or none: `count` files that were written go again. */
static void remove_files(struct writer *writer, const char *dir, uint64_t count) {
	char path[PATH_ROOM];
	for (uint64_t i = 0; i < count; i++) {
		writer->stage = (uint32_t)(i / writer->graph->ranks.chains);
		writer->chain = (uint32_t)(i % writer->graph->ranks.chains);
		if (name_rank(writer, dir, path) == LK_OK) unlink(path);
	}
}

static lk_status write_ranks(struct writer *writer, const char *dir) {
	uint64_t chains = writer->graph->ranks.chains, count = writer->graph->ranks.stages * chains;
	for (uint64_t i = 0; i < count; i++) {
		writer->stage = (uint32_t)(i / chains);
		writer->chain = (uint32_t)(i % chains);
		lk_status status = write_rank(writer, dir);
		if (status == LK_OK) continue;
		remove_files(writer, dir, i);
		return status;
	}
	lk_status status = lk_chakra_write_machine(writer->graph, &writer->groups,
	                                           !writer->options->time, dir, writer->err);
	if (status != LK_OK) remove_files(writer, dir, count);
	return status;
}

lk_status lk_graph_chakra_write(const lk_graph *graph, const lk_chakra_options *options,
                                const char *dir, lk_error *err) {
	struct writer w = {.graph = graph, .options = options, .err = err};
	size_t longest;
	uint32_t events;
	LK_TRY(lk_graph_check(graph, err));
	LK_TRY(chakra_check_size(graph, &longest, &events, err));
	bool made = mkdir(dir, 0777) == 0;
	if (!made && errno != EEXIST) {
		lk_fail(err, LK_ERR_IO, dir, "cannot make the folder: %s", strerror(errno));
		return lk_hint(err, "does the folder above it exist, and may you write there?");
	}
	w.events = calloc((size_t)events + 1, sizeof *w.events);
	w.placed = calloc(longest + 1, sizeof *w.placed);
	w.groups.world = (uint64_t)graph->ranks.stages * graph->ranks.chains;
	lk_status status = w.events && w.placed ? write_ranks(&w, dir) : lk_oom(err);
	if (status != LK_OK && made) rmdir(dir);
	free(w.events);
	free(w.placed);
	lk_chakra_groups_free(&w.groups);
	lk_vec_free(&w.deps);
	lk_vec_free(&w.streams);
	lk_vec_free(&w.fronts);
	lk_vec_free(&w.handed);
	lk_vec_free(&w.out.bytes);
	return status;
}
