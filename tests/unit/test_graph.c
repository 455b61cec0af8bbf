/* test_graph.c: random step graphs are written, read and found equal field by field; the checker
 * accepts them, and finds each fault that is planted into one, by place and cause; files that are
 * wrong are refused with their line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/stats.h"
#include "graph/graph.h"
#include "graph/graph_internal.h"

/* ---- random numbers ---- */

struct dice {
	uint64_t seed, at;
};

static unsigned roll(struct dice *dice, unsigned sides) {
	return (unsigned)(lk_hash64(dice->seed * 0x9e3779b97f4a7c15u + dice->at++) % sides);
}

static double real(struct dice *dice) {
	switch (roll(dice, 5)) {
	case 0: return 0;
	case 1: return roll(dice, 100000);
	case 2: return lk_uniform(dice->seed, dice->at++) * 1e-7;
	case 3: return lk_uniform(dice->seed, dice->at++) * 1e18;
	default: return 1.0 / (1 + roll(dice, 1000));
	}
}

/* ---- random graphs ---- */

static const char *const op_names[] = {
	"qkv_proj", "norm", "", "a \"quoted\" name", "tab\there", "stra\xc3\x9f\x65", "x\x01y"};
enum { NAMES = 7, EVENTS = 5, PORTS = 3, IN_STAGE = LK_GROUP_PP, TEAMS = 3 };

static lk_op random_op(struct dice *dice, uint32_t place, uint32_t *deps) {
	lk_op op = {
		.phase = (uint8_t)roll(dice, LK_PHASES),
		.dtype = (uint8_t)roll(dice, LK_DTYPES),
		.flags = (uint8_t)(roll(dice, 16) & ~(unsigned)LK_OP_TRANSIENT),
		.pieces = roll(dice, 4),
		.join = roll(dice, 3)
	                ? 0
	                : (roll(dice, 65536) << 16 | roll(dice, 65536)) & ((1u << LK_STREAMS) - 1),
		.name = op_names[roll(dice, NAMES)],
		.m = real(dice),
		.n = real(dice),
		.k = real(dice),
		.batch = real(dice),
		.flops = real(dice),
		.bytes = real(dice),
		.window = real(dice),
		.deps = deps,
		.measured_ps = roll(dice, 3) ? 0 : (int64_t)(lk_hash64(dice->at++) >> 2),
		.channel = (int32_t)roll(dice, 3),
		.alloc_owner = (uint8_t)roll(dice, LK_OWNERS),
		.release_owner = (uint8_t)roll(dice, LK_OWNERS),
	};
	do op.kind = (uint8_t)roll(dice, LK_OP_COUNT);
	while (op.kind == LK_OP_SEND || op.kind == LK_OP_RECV);
	op.stream =
		(uint8_t)(lk_op_is_comm(op.kind) ? 1 + roll(dice, LK_STREAMS - 1) : roll(dice, LK_STREAMS));
	op.group = (uint8_t)roll(dice, IN_STAGE);
	for (; op.dep_count < 3 && place && roll(dice, 2); op.dep_count++)
		deps[op.dep_count] = roll(dice, place);
	return op;
}

/* Takes memory with one operation and gives it back with the next; some operations do both. */
static uint32_t work_block(lk_graph *graph, struct dice *dice) {
	uint32_t id, deps[3], count = roll(dice, 12);
	lk_graph_begin_block(graph, roll(dice, 2) ? "layer forward" : "other");
	for (uint32_t i = 0; i < count; i++) {
		lk_op op = random_op(dice, i, deps);
		double size = real(dice);
		if (roll(dice, 4) == 0) {
			op.alloc = size;
			op.flags |= LK_OP_TRANSIENT;
		} else if (roll(dice, 4) == 0) {
			op.alloc = op.release = size;
			op.release_owner = op.alloc_owner;
		}
		lk_graph_add(graph, &op);
	}
	assert_int_equal(lk_graph_end_block(graph, &id, NULL), LK_OK);
	return id;
}

static uint32_t single(lk_graph *graph, const char *block, lk_op op) {
	uint32_t id;
	lk_graph_begin_block(graph, block);
	lk_graph_add(graph, &op);
	assert_int_equal(lk_graph_end_block(graph, &id, NULL), LK_OK);
	return id;
}

/* Every call is `what`, repeated at random; owners' bytes are taken and given back by a pair of
 * blocks. */
static void put(lk_graph *graph, struct dice *dice, uint32_t stage, uint32_t block, uint32_t repeat,
                unsigned a, unsigned b) {
	lk_call call = {.block = block,
	                .repeat = repeat,
	                .microbatch = (int32_t)roll(dice, 5) - 1,
	                .layer = (int32_t)roll(dice, 5) - 1,
	                .chunk = (uint8_t)roll(dice, 4),
	                .pass = (uint8_t)roll(dice, LK_PHASES),
	                .arg = {(uint16_t)a, (uint16_t)b}};
	assert_int_equal(lk_graph_call(graph, stage, &call, NULL), LK_OK);
}

struct parts {
	uint32_t work[4], take, give, signal, wait, cross, send[PORTS], receive[PORTS];
};

static struct parts make_blocks(lk_graph *graph, struct dice *dice) {
	struct parts p;
	double size = 1 + real(dice);
	for (int i = 0; i < 4; i++) p.work[i] = work_block(graph, dice);
	p.take = single(graph, "take",
	                (lk_op){.kind = LK_OP_NORM,
	                        .stream = 1,
	                        .alloc = size,
	                        .alloc_owner = LK_OWN_ACTIVATIONS,
	                        .name = "take"});
	p.give = single(graph, "give",
	                (lk_op){.kind = LK_OP_NORM,
	                        .stream = 1,
	                        .release = size,
	                        .release_owner = LK_OWN_ACTIVATIONS,
	                        .name = "give"});
	p.signal = single(graph, "signal",
	                  (lk_op){.kind = LK_OP_WAIT, .stream = 1, .signal = 2, .name = "set"});
	p.wait =
		single(graph, "wait", (lk_op){.kind = LK_OP_WAIT, .stream = 1, .wait = 1, .name = "await"});
	p.cross = single(graph, "norm",
	                 (lk_op){.kind = LK_OP_ALLREDUCE,
	                         .stream = 2,
	                         .group = LK_GROUP_MODEL,
	                         .name = "norm",
	                         .bytes = 8});
	for (int c = 0; c < PORTS; c++) {
		p.send[c] = single(graph, "send",
		                   (lk_op){.kind = LK_OP_SEND,
		                           .stream = 6,
		                           .group = LK_GROUP_PP,
		                           .channel = c,
		                           .name = "send"});
		p.receive[c] = single(graph, "receive",
		                      (lk_op){.kind = LK_OP_RECV,
		                              .stream = 7,
		                              .group = LK_GROUP_PP,
		                              .channel = c,
		                              .name = "receive"});
	}
	return p;
}

/* Some stages, all chains of the first one, and a pair of which one is missing; the members issue
 * `team` in turn. */
static void put_teams(lk_graph *graph, struct dice *dice, uint32_t stages) {
	uint32_t members[TEAMS][4] = {{0}}, count[TEAMS] = {0, 1, 1}, block[TEAMS];
	for (uint32_t s = 0; s < stages; s++)
		if (s + 1 == stages || roll(dice, 2)) members[0][count[0]++] = s;
	members[2][0] = roll(dice, stages);
	static const uint8_t kinds[TEAMS] = {LK_OP_ALLGATHER, LK_OP_ALLREDUCE, LK_OP_RECV};
	for (uint32_t t = 0; t < TEAMS; t++) {
		uint32_t ranks = t == 0 ? count[0] + roll(dice, 3) : t == 1 ? 8 : 2;
		uint32_t team = lk_graph_add_team(graph, op_names[roll(dice, NAMES)], members[t], count[t],
		                                  ranks, t == 1);
		assert_int_equal(team, t);
		block[t] = single(graph, "team",
		                  (lk_op){.kind = kinds[t],
		                          .stream = (uint8_t)(1 + roll(dice, LK_STREAMS - 1)),
		                          .group = LK_GROUP_TEAM,
		                          .channel = (int32_t)t,
		                          .name = "team",
		                          .bytes = 8});
		for (uint32_t i = 0; i < count[t]; i++) put(graph, dice, members[t][i], block[t], 2, 0, 0);
	}
	for (uint32_t s = 0; s < stages; s++)
		for (unsigned i = 0; i < LK_STREAMS; i++)
			if (roll(dice, 4) == 0)
				assert_int_equal(lk_graph_name_stream(graph, s, i, op_names[roll(dice, NAMES)],
				                                      roll(dice, 2), NULL),
				                 LK_OK);
}

static void fill_program(lk_graph *graph, struct dice *dice, const struct parts *p, uint32_t stage,
                         uint32_t stages) {
	unsigned event = roll(dice, EVENTS), times = 1 + roll(dice, 3);
	put(graph, dice, stage, p->signal, 1, roll(dice, 9), event);
	for (unsigned i = roll(dice, 6); i > 0; i--)
		put(graph, dice, stage, p->work[roll(dice, 4)], 1 + roll(dice, 4), roll(dice, 9),
		    roll(dice, 9));
	put(graph, dice, stage, p->take, times, 0, 0);
	put(graph, dice, stage, p->wait, 1 + roll(dice, 2), event, 0);
	if (stage > 0) put(graph, dice, stage, p->receive[1], 3, 0, 0);
	if (stage + 1 < stages) {
		put(graph, dice, stage, p->send[2], 2, 0, 0);
		put(graph, dice, stage, p->send[2], 1, 0, 0);
	}
	put(graph, dice, stage, p->give, times, 0, 0);
	put(graph, dice, stage, p->cross, 2, 0, 0);
}

static lk_graph *random_graph(uint64_t seed) {
	struct dice d = {seed, 0};
	uint32_t stages = 1 + roll(&d, 4), channels = PORTS + roll(&d, 2);
	lk_graph *graph = lk_graph_new();
	assert_non_null(graph);
	struct parts p = make_blocks(graph, &d);
	assert_int_equal(lk_graph_set_programs(graph, stages, channels, NULL), LK_OK);
	graph->ranks.chains = 8;
	graph->ranks.world = 8 * stages;
	for (unsigned g = LK_GROUP_TP; g < IN_STAGE; g++) {
		graph->ranks.group[g].size = 1u << roll(&d, 3);
		graph->ranks.group[g].stride = 1u << roll(&d, 2);
	}
	for (uint32_t s = 0; s < stages; s++) {
		lk_program *program = &graph->programs.at[s];
		program->events = EVENTS;
		for (int o = 0; o < LK_OWNERS; o++) program->resident[o] = real(&d);
		fill_program(graph, &d, &p, s, stages);
		if (s + 1 < stages) lk_graph_wire(graph, s, 2, s + 1, 1);
	}
	graph->traced = roll(&d, 2);
	if (roll(&d, 2)) put_teams(graph, &d, stages);
	graph->model_flops = real(&d);
	graph->tokens = real(&d);
	graph->samples = real(&d);
	graph->peak_dtype = roll(&d, LK_DTYPES);
	if (roll(&d, 2)) graph->cluster = lk_intern_id(graph->names, "8 h100-sxm");
	return graph;
}

/* ---- equality ---- */

/* As the file holds it: what is no UTF-8 would come back as U+FFFD, but the names above are. */
static void same_name(const lk_graph *a, uint32_t x, const lk_graph *b, uint32_t y) {
	assert_string_equal(lk_intern_text(a->names, x), lk_intern_text(b->names, y));
}

static void same_op(const lk_graph *a, const lk_graph *b, uint32_t i) {
	lk_op x = lk_graph_op(a, i), y = lk_graph_op(b, i);
	assert_string_equal(x.name, y.name);
	assert_true(x.kind == y.kind && x.stream == y.stream && x.phase == y.phase &&
	            x.group == y.group && x.dtype == y.dtype);
	assert_true(x.pieces == y.pieces);
	assert_true(x.flags == y.flags && x.join == y.join && x.wait == y.wait && x.signal == y.signal);
	assert_true(x.m == y.m && x.n == y.n && x.k == y.k && x.batch == y.batch &&
	            x.flops == y.flops && x.bytes == y.bytes);
	assert_true(x.window == y.window && x.channel == y.channel && x.measured_ps == y.measured_ps);
	assert_true(x.alloc == y.alloc && x.release == y.release);
	assert_true(x.alloc_owner == y.alloc_owner && x.release_owner == y.release_owner);
	assert_int_equal(x.dep_count, y.dep_count);
	for (uint32_t d = 0; d < x.dep_count; d++) assert_int_equal(x.deps[d], y.deps[d]);
}

static void same_program(const lk_graph *a, const lk_graph *b, size_t s) {
	const lk_program *x = &a->programs.at[s], *y = &b->programs.at[s];
	same_name(a, x->name, b, y->name);
	assert_true(x->stage == y->stage && x->events == y->events && x->channels == y->channels);
	assert_int_equal(x->threads, y->threads);
	for (unsigned i = 0; i < LK_STREAMS; i++)
		same_name(a, x->stream_names[i], b, y->stream_names[i]);
	for (int o = 0; o < LK_OWNERS; o++) assert_true(x->resident[o] == y->resident[o]);
	assert_int_equal(x->calls.count, y->calls.count);
	for (size_t i = 0; i < x->calls.count; i++) {
		lk_call c = x->calls.at[i], e = y->calls.at[i];
		assert_true(c.block == e.block && c.repeat == e.repeat && c.microbatch == e.microbatch &&
		            c.layer == e.layer);
		assert_true(c.chunk == e.chunk && c.pass == e.pass && c.arg[0] == e.arg[0] &&
		            c.arg[1] == e.arg[1]);
	}
}

static void same_graph(const lk_graph *a, const lk_graph *b) {
	assert_int_equal(a->ops.count, b->ops.count);
	for (uint32_t i = 0; i < a->ops.count; i++) same_op(a, b, i);
	assert_int_equal(a->blocks.count, b->blocks.count);
	for (size_t i = 0; i < a->blocks.count; i++) {
		same_name(a, a->blocks.at[i].name, b, b->blocks.at[i].name);
		assert_int_equal(a->blocks.at[i].begin, b->blocks.at[i].begin);
		assert_int_equal(a->blocks.at[i].end, b->blocks.at[i].end);
	}
	assert_int_equal(a->programs.count, b->programs.count);
	for (size_t s = 0; s < a->programs.count; s++) same_program(a, b, s);
	assert_int_equal(a->wires.count, b->wires.count);
	assert_memory_equal(a->wires.at, b->wires.at, a->wires.count * sizeof *a->wires.at);
	assert_int_equal(a->channels, b->channels);
	assert_int_equal(a->traced, b->traced);
	assert_int_equal(a->teams.count, b->teams.count);
	for (size_t i = 0; i < a->teams.count; i++) {
		const lk_team *x = &a->teams.at[i], *y = &b->teams.at[i];
		same_name(a, x->name, b, y->name);
		assert_true(x->begin == y->begin && x->end == y->end && x->ranks == y->ranks &&
		            x->across == y->across);
	}
	assert_int_equal(a->team_stages.count, b->team_stages.count);
	for (size_t i = 0; i < a->team_stages.count; i++)
		assert_int_equal(a->team_stages.at[i], b->team_stages.at[i]);
	assert_memory_equal(&a->ranks, &b->ranks, sizeof a->ranks);
	assert_true(a->model_flops == b->model_flops && a->tokens == b->tokens &&
	            a->samples == b->samples);
	assert_int_equal(a->peak_dtype, b->peak_dtype);
	assert_string_equal(lk_intern_text(a->names, a->cluster), lk_intern_text(b->names, b->cluster));
}

static void accept(lk_status status, const lk_error *err) {
	char text[1024];
	if (status != LK_OK) fail_msg("%s", lk_error_text(err, text, sizeof text));
}

/* A path of this process; the caller removes the file. */
static const char *path_of(char path[64], const char *ending) {
	snprintf(path, 64, "/tmp/test_graph.%ld%s", (long)getpid(), ending);
	return path;
}

static void test_round_trip(void **state) {
	(void)state;
	for (uint64_t seed = 1; seed <= 300; seed++) {
		char path[64];
		lk_error err = {0};
		lk_graph *graph = random_graph(seed), *again = NULL;
		accept(lk_graph_check(graph, &err), &err);
		path_of(path, seed % 2 ? ".json" : ".json.gz");
		accept(lk_graph_write(graph, path, &err), &err);
		accept(lk_graph_read(path, &again, &err), &err);
		same_graph(graph, again);
		unlink(path);
		lk_graph_free(again);
		lk_graph_free(graph);
	}
}

/* ---- planted faults ---- */

/* Two stages; blocks: 0 compute (4 operations), 1 send, 2 receive, 3 norm, 4 take, 5 give, 6
 * signal, 7 wait, 8 meet. */
static lk_graph *small_graph(void) {
	lk_graph *graph = lk_graph_new();
	const uint32_t before[1] = {0};
	uint32_t id;
	lk_graph_begin_block(graph, "compute");
	lk_graph_add(graph, &(lk_op){.kind = LK_OP_GEMM,
	                             .stream = 1,
	                             .name = "up",
	                             .m = 8,
	                             .n = 8,
	                             .k = 8,
	                             .batch = 1,
	                             .flops = 1024});
	lk_graph_add(graph, &(lk_op){.kind = LK_OP_NORM,
	                             .stream = 1,
	                             .name = "norm",
	                             .bytes = 64,
	                             .deps = before,
	                             .dep_count = 1});
	lk_graph_add(graph, &(lk_op){.kind = LK_OP_ALLREDUCE,
	                             .stream = 2,
	                             .group = LK_GROUP_TP,
	                             .name = "reduce",
	                             .bytes = 64});
	lk_graph_add(graph, &(lk_op){.kind = LK_OP_NORM,
	                             .stream = 1,
	                             .name = "last",
	                             .bytes = 64,
	                             .alloc = 100,
	                             .release = 100});
	assert_int_equal(lk_graph_end_block(graph, &id, NULL), LK_OK);
	single(
		graph, "send block",
		(lk_op){
			.kind = LK_OP_SEND, .stream = 6, .group = LK_GROUP_PP, .channel = 0, .name = "send"});
	single(graph, "receive block",
	       (lk_op){.kind = LK_OP_RECV,
	               .stream = 7,
	               .group = LK_GROUP_PP,
	               .channel = 1,
	               .name = "receive"});
	single(graph, "gradient norm",
	       (lk_op){.kind = LK_OP_ALLREDUCE,
	               .stream = 2,
	               .group = LK_GROUP_MODEL,
	               .name = "norm",
	               .bytes = 8});
	single(graph, "take",
	       (lk_op){.kind = LK_OP_NORM,
	               .stream = 1,
	               .alloc = 5000,
	               .alloc_owner = LK_OWN_LOGITS,
	               .name = "taker"});
	single(graph, "give",
	       (lk_op){.kind = LK_OP_NORM,
	               .stream = 1,
	               .release = 5000,
	               .release_owner = LK_OWN_LOGITS,
	               .name = "giver"});
	single(graph, "signal", (lk_op){.kind = LK_OP_WAIT, .stream = 1, .signal = 1, .name = "set"});
	single(graph, "wait", (lk_op){.kind = LK_OP_WAIT, .stream = 1, .wait = 2, .name = "await"});
	single(graph, "meet",
	       (lk_op){.kind = LK_OP_ALLREDUCE,
	               .stream = 20,
	               .group = LK_GROUP_TEAM,
	               .channel = 0,
	               .name = "meeting"});
	lk_graph_add_team(graph, "world", (const uint32_t[]){0, 1}, 2, 8, true);
	lk_graph_add_team(graph, "pair", (const uint32_t[]){0, 1}, 2, 2, false);
	assert_int_equal(lk_graph_set_programs(graph, 2, 2, NULL), LK_OK);
	graph->ranks.chains = 4;
	graph->ranks.world = 8;
	graph->ranks.group[LK_GROUP_TP].size = 2;
	lk_graph_wire(graph, 0, 0, 1, 1);
	for (uint32_t s = 0; s < 2; s++) {
		static const uint32_t order[] = {0, 4, 6, 1, 7, 5, 3, 8};
		graph->programs.at[s].events = 3;
		graph->programs.at[s].resident[LK_OWN_WEIGHTS] = 1e6;
		for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
			lk_call call = {.block = order[i] == 1 && s == 1 ? 2 : order[i],
			                .repeat = 1,
			                .microbatch = -1,
			                .layer = -1,
			                .arg = {2, 2}};
			assert_int_equal(lk_graph_call(graph, s, &call, NULL), LK_OK);
		}
	}
	return graph;
}

static lk_call *call_at(lk_graph *g, size_t s, size_t i) {
	return &g->programs.at[s].calls.at[i];
}

enum { SEND = 4, TAKE = 7, GIVE = 8, SIGNAL = 9, WAIT = 10, MEET = 11 }; /* operations */

/* FAULT(name, what is done to the graph g, place and cause that the message must name) */
#define FAULTS(FAULT)                                                                              \
	FAULT(kind, g->ops.kind[1] = LK_OP_COUNT, "block 0 (compute), operation 1 (norm)", "kind")     \
	FAULT(stream, g->ops.stream[1] = LK_STREAMS, "operation 1 (norm)", "stream")                   \
	FAULT(phase, g->ops.phase[0] = LK_PHASES, "operation 0 (up)", "phase")                         \
	FAULT(group, g->ops.group[2] = LK_GROUPS, "operation 2 (reduce)", "process group")             \
	FAULT(dtype, g->ops.dtype[0] = LK_DTYPES, "operation 0 (up)", "number format")                 \
	FAULT(flags, g->ops.flags[0] = 128, "operation 0 (up)", "flags")                               \
	FAULT(pieces, g->ops.pieces[0] = .5, "operation 0 (up)", "pieces")                             \
	FAULT(name, g->ops.name[0] = 999, "block 0 (compute), operation 0", "name")                    \
	FAULT(argument, g->ops.wait[WAIT] = 3, "block 7 (wait), operation 0 (await)", "argument")      \
	FAULT(owner, g->ops.alloc_owner[TAKE] = LK_OWNERS, "operation 0 (taker)", "owner")             \
	FAULT(release_owner, g->ops.release_owner[0] = LK_OWNERS, "operation 0 (up)", "owner")         \
	FAULT(host_comm, g->ops.stream[2] = LK_STREAM_HOST, "operation 2 (reduce)", "host stream")     \
	FAULT(shape_nan, g->ops.m[0] = NAN, "operation 0 (up)", "shape")                               \
	FAULT(shape_negative, g->ops.batch[0] = -1, "operation 0 (up)", "shape")                       \
	FAULT(flops, g->ops.flops[0] = INFINITY, "operation 0 (up)", "flops")                          \
	FAULT(bytes, g->ops.bytes[1] = -64, "operation 1 (norm)", "bytes")                             \
	FAULT(alloc, g->ops.alloc[3] = -100, "operation 3 (last)", "allocates")                        \
	FAULT(release, g->ops.release[3] = NAN, "operation 3 (last)", "releases")                      \
	FAULT(measured, g->ops.measured_ps[0] = -1, "operation 0 (up)", "measured")                    \
	FAULT(channel, g->ops.channel[SEND] = 2, "block 1 (send block), operation 0 (send)",           \
	      "channel")                                                                               \
	FAULT(channel_negative, g->ops.channel[SEND] = -1, "operation 0 (send)", "channel")            \
	FAULT(dep_self, g->ops.deps[0] = 1, "operation 1 (norm)", "later operation")                   \
	FAULT(dep_far, g->ops.deps[0] = UINT32_MAX, "operation 1 (norm)", "later operation")           \
	FAULT(dep_list, g->ops.dep_begin[1] = 5, "step graph", "broken")                               \
	FAULT(block_gap, g->blocks.at[1].begin++, "block 1 (send block)", "does not begin where")      \
	FAULT(block_end, g->blocks.at[8].end = 99, "block 8 (meet)", "beyond the last operation")      \
	FAULT(block_open, g->blocks.at[8].end--, "step graph", "begun and not ended")                  \
	FAULT(block_name, g->blocks.at[2].name = 999, "block 2", "name")                               \
	FAULT(stages, g->ranks.stages = 3, "ranks", "3 stages, but 2 programs")                        \
	FAULT(world, g->ranks.world = 9, "ranks", "9 ranks are not 2 stages of 4")                     \
	FAULT(chains, g->ranks.chains = 0, "ranks", "of 0 ranks each")                                 \
	FAULT(group_zero, g->ranks.group[LK_GROUP_CP].size = 0, "process group cp",                    \
	      "size or stride of 0")                                                                   \
	FAULT(group_divide, g->ranks.group[LK_GROUP_TP].size = 3, "process group tp",                  \
	      "do not divide the 4 ranks")                                                             \
	FAULT(group_stride, g->ranks.group[LK_GROUP_TP].stride = 4, "process group tp",                \
	      "do not divide the 4 ranks")                                                             \
	FAULT(facts, g->tokens = NAN, "facts", "tokens")                                               \
	FAULT(peak, g->peak_dtype = LK_DTYPES, "facts", "peak")                                        \
	FAULT(wire_one_way, g->wires.at[3] = ((lk_wire){0, 1}), "program 0 (stage 0)", "leads back")   \
	FAULT(wire_self, g->wires.at[2] = ((lk_wire){1, 0}), "program 1 (stage 1)", "leads back")      \
	FAULT(wire_stage, g->wires.at[0].stage = 2, "program 0 (stage 0)", "leads back")               \
	FAULT(wire_channel, g->wires.at[0].channel = 2, "program 0 (stage 0)", "leads back")           \
	FAULT(wire_count, g->wires.count = 3, "wires", "3, but 2 programs have 2 channels")            \
	FAULT(wire_none, g->wires.at[0] = g->wires.at[3] = ((lk_wire){UINT32_MAX, UINT32_MAX}),        \
	      "program 0 (stage 0), call 3 (send block), operation 0 (send)", "without a wire")        \
	FAULT(program_stage, g->programs.at[1].stage = 0, "program 1 (stage 1)", "of stage 0")         \
	FAULT(program_name, g->programs.at[1].name = 999, "program 1", "name")                         \
	FAULT(program_channels, g->programs.at[1].channels = 3, "program 1 (stage 1)", "3 channels")   \
	FAULT(program_few_channels, g->programs.at[1].channels = 1,                                    \
	      "call 3 (receive block), operation 0 (receive)", "does not have")                        \
	FAULT(program_events, g->programs.at[1].events = 65537, "program 1 (stage 1)", "65537 events") \
	FAULT(resident, g->programs.at[1].resident[0] = -1, "program 1 (stage 1)", "resident")         \
	FAULT(call_block, call_at(g, 1, 0)->block = 9, "program 1 (stage 1), call 0",                  \
	      "does not exist")                                                                        \
	FAULT(call_repeat, call_at(g, 1, 0)->repeat = 0, "program 1 (stage 1), call 0 (compute)",      \
	      "no times")                                                                              \
	FAULT(call_microbatch, call_at(g, 1, 0)->microbatch = -2, "call 0 (compute)", "micro-batch")   \
	FAULT(call_layer, call_at(g, 1, 0)->layer = -2, "call 0 (compute)", "layer")                   \
	FAULT(call_pass, call_at(g, 1, 0)->pass = LK_PHASES, "call 0 (compute)", "pass")               \
	FAULT(event_range, call_at(g, 0, 4)->arg[1] = 3, "call 4 (wait), operation 0 (await)",         \
	      "event 3 of 3")                                                                          \
	FAULT(event_missing, call_at(g, 0, 4)->arg[1] = 1, "call 4 (wait), operation 0 (await)",       \
	      "nothing before it signals")                                                             \
	FAULT(event_order, (call_at(g, 0, 4)->block = 6, call_at(g, 0, 2)->block = 7),                 \
	      "call 2 (wait), operation 0 (await)", "event 2")                                         \
	FAULT(event_other_program, call_at(g, 1, 2)->block = 0, "program 1 (stage 1), call 4 (wait)",  \
	      "event 2")                                                                               \
	FAULT(memory_twice, call_at(g, 0, 5)->repeat = 2,                                              \
	      "program 0 (stage 0), call 5 (give), operation 0 (giver)",                               \
	      "of logits more than was taken")                                                         \
	FAULT(memory_kept, call_at(g, 0, 1)->repeat = 2, "program 0 (stage 0), call 1 (take)",         \
	      "of logits are not given back")                                                          \
	FAULT(memory_owner, g->ops.release_owner[GIVE] = LK_OWN_WEIGHTS,                               \
	      "call 5 (give), operation 0 (giver)", "of weights more")                                 \
	FAULT(memory_early, (call_at(g, 1, 1)->block = 5, call_at(g, 1, 5)->block = 4),                \
	      "program 1 (stage 1), call 1 (give)", "more than was taken")                             \
	FAULT(memory_inside, (g->ops.alloc[3] = 0, g->ops.release[1] = 100, g->ops.alloc[0] = 0),      \
	      "call 0 (compute), operation 1 (norm)", "more than was taken")                           \
	FAULT(send_more, call_at(g, 0, 3)->repeat = 2,                                                 \
	      "program 0 (stage 0), call 3 (send block), operation 0 (send)",                          \
	      "2 sends and 0 receives")                                                                \
	FAULT(receive_none, call_at(g, 1, 3)->block = 0, "program 0 (stage 0), call 3 (send block)",   \
	      "at its other end, channel 1 of program 1, 0 receives")                                  \
	FAULT(send_none, call_at(g, 0, 3)->block = 0, "program 1 (stage 1), call 3 (receive block)",   \
	      "0 sends and 1 receives")                                                                \
	FAULT(both_ways, (g->ops.channel[SEND + 1] = 0, call_at(g, 0, 0)->block = 2),                  \
	      "call 3 (send block)", "sends and receives on one channel")                              \
	FAULT(cross_stage, call_at(g, 1, 6)->repeat = 2, "program 1 (stage 1)",                        \
	      "2 collectives of group model, but program 0 has 1")                                     \
	FAULT(too_long, (call_at(g, 0, 0)->repeat = UINT32_MAX, many(g)), "program 0 (stage 0)",       \
	      "runs")                                                                                  \
	FAULT(join, g->ops.join[1] = 1u << LK_STREAMS, "operation 1 (norm)", "joins a stream")         \
	FAULT(team, g->ops.channel[MEET] = 2, "block 8 (meet), operation 0 (meeting)",                 \
	      "team that does not exist")                                                              \
	FAULT(team_negative, g->ops.channel[MEET] = -1, "operation 0 (meeting)",                       \
	      "team that does not exist")                                                              \
	FAULT(team_size, g->ranks.group[LK_GROUP_TEAM].size = 4, "process group team", "listed")       \
	FAULT(team_name, g->teams.at[1].name = 999, "team 1", "name")                                  \
	FAULT(team_empty, g->teams.at[1].end = g->teams.at[1].begin, "team 1 (pair)", "no members")    \
	FAULT(team_end, g->teams.at[1].end = 5, "team 1 (pair)", "no members")                         \
	FAULT(team_stage, g->team_stages.at[3] = 2, "team 1 (pair)", "not a program")                  \
	FAULT(team_order, g->team_stages.at[2] = 1, "team 1 (pair)", "out of order")                   \
	FAULT(team_ranks, g->teams.at[0].ranks = 7, "team 0 (world)", "more members than ranks")       \
	FAULT(team_missing, call_at(g, 1, 7)->block = 0, "team 0 (world)",                             \
	      "0 operations of program 1, but 1 of program 0")                                         \
	FAULT(team_twice, call_at(g, 0, 7)->repeat = 2, "team 0 (world)",                              \
	      "1 operation of program 1, but 2 of program 0")                                          \
	FAULT(team_outside, g->teams.at[0].end = 1,                                                    \
	      "program 1 (stage 1), call 7 (meet), operation 0 (meeting)", "not a member")             \
	FAULT(team_send, g->ops.kind[MEET] = LK_OP_SEND, "call 7 (meet), operation 0 (meeting)",       \
	      "not a pair")                                                                            \
	FAULT(stream_name, g->programs.at[1].stream_names[3] = 999, "program 1 (stage 1)",             \
	      "stream whose name")                                                                     \
	FAULT(thread, g->programs.at[1].threads = 1u << LK_STREAMS, "program 1 (stage 1)",             \
	      "thread on a stream")                                                                    \
	FAULT(no_programs, g->programs.count = 0, "step graph", "no program")

/* Adds calls until the program is longer than any that ends. */
static void many(lk_graph *g) {
	lk_call call = *call_at(g, 0, 0);
	for (int i = 0; i < 60000; i++) assert_int_equal(lk_graph_call(g, 0, &call, NULL), LK_OK);
}

#define FAULT_FUNCTION(fault, change, place, cause) \
	static void plant_##fault(lk_graph *g) {        \
		change;                                     \
	}
FAULTS(FAULT_FUNCTION)

static void test_faults(void **state) {
	(void)state;
	static const struct {
		const char *name, *place, *cause;
		void (*plant)(lk_graph *);
	} faults[] = {
#define FAULT_LINE(fault, change, place, cause) {#fault, place, cause, plant_##fault},
		FAULTS(FAULT_LINE)};
	for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
		lk_error err = {0};
		lk_graph *graph = small_graph();
		accept(lk_graph_check(graph, &err), &err);
		size_t programs = graph->programs.count;
		faults[i].plant(graph);
		if (lk_graph_check(graph, &err) != LK_ERR_INPUT) fail_msg("%s: not found", faults[i].name);
		if (!strstr(err.where, faults[i].place) || !strstr(err.what, faults[i].cause))
			fail_msg("%s: \"%s: %s\" names not \"%s\" and \"%s\"", faults[i].name, err.where,
			         err.what, faults[i].place, faults[i].cause);
		assert_int_equal(lk_graph_check(graph, NULL),
		                 LK_ERR_INPUT); /* an error need not be asked for */
		assert_int_equal(lk_graph_write(graph, "/nowhere/graph.json", &err),
		                 LK_ERR_INPUT); /* nor is it written */
		graph->programs.count = programs;
		lk_graph_free(graph);
	}
}

/* Rounding of many additions is no fault; a byte too much of a small graph is. */
static void test_slack(void **state) {
	(void)state;
	lk_graph *graph = small_graph();
	graph->ops.alloc[TAKE] = 0.1;
	graph->ops.release[GIVE] = 0.1;
	call_at(graph, 0, 1)->repeat = call_at(graph, 0, 5)->repeat = 1000003;
	lk_error err = {0};
	accept(lk_graph_check(graph, &err), &err);
	graph->programs.at[0].resident[LK_OWN_WEIGHTS] = 0;
	call_at(graph, 0, 5)->repeat -= 20;
	assert_int_equal(lk_graph_check(graph, &err), LK_ERR_INPUT);
	lk_graph_free(graph);
}

/* Checking takes one look at a call: many calls of a long block cost no more than many calls of a
 * short one. */
static void test_large(void **state) {
	(void)state;
	lk_graph *graph = small_graph();
	lk_error err = {0};
	for (int i = 0; i < 400000; i++) {
		lk_call call = {.block = i % 2 ? 5 : 4, .repeat = 3, .microbatch = i / 2, .layer = -1};
		assert_int_equal(lk_graph_call(graph, 0, &call, &err), LK_OK);
	}
	accept(lk_graph_check(graph, &err), &err);
	call_at(graph, 0, 300000)->repeat =
		4; /* taken, and given back once too little 100 000 calls later */
	assert_int_equal(lk_graph_check(graph, &err), LK_ERR_INPUT);
	lk_graph_free(graph);
}

/* ---- files ---- */

#define HEAD       "{\"lockstep_graph\":1,\"ranks\":{\"world\":1,\"stages\":1,\"chains\":1},"
#define OP         "{\"name\":\"a\",\"kind\":\"gemm\",\"stream\":\"compute\""
#define PROGRAM    "\"programs\":[{\"name\":\"p\",\"stage\":0,\"calls\":[[0,1,-1,-1,0,\"forward\"]]}]"
#define BLOCK(ops) "\"blocks\":[{\"name\":\"b\",\"operations\":[" ops "]}],"

static lk_status read_text(const char *text, lk_graph **out, lk_error *err) {
	lk_stream *in;
	assert_int_equal(lk_stream_memory(text, strlen(text), "g.json", &in, err), LK_OK);
	lk_status status = lk_graph_read_stream(in, out, err);
	lk_stream_close(in);
	return status;
}

static void test_small_file(void **state) {
	(void)state;
	lk_graph *graph = NULL;
	lk_error err = {0};
	/* members in any order, a stream by number, a measured time that no double holds */
	const char *text = "{\"lockstep_graph\":1,\n" PROGRAM
					   ",\n" BLOCK(OP ",\"measured_ps\":4611686018427387905,\"join\":[12,\"data "
	                                  "parallel\"]}") "\"ranks\":{\"world\":3,\"stages\":1,"
													  "\"chains\":3,\"groups\":{\"dp\":[3,1]}}}";
	accept(read_text(text, &graph, &err), &err);
	assert_int_equal(graph->ops.measured_ps[0], 4611686018427387905);
	assert_int_equal(graph->ops.join[0], LK_JOIN(12) | LK_JOIN(LK_STREAM_DP));
	assert_int_equal(graph->ranks.group[LK_GROUP_DP].size, 3);
	assert_int_equal(call_at(graph, 0, 0)->microbatch, -1);
	lk_graph_free(graph);
}

/* A file without teams, streams and "traced" is written without them, one with them is read; and
 * its queues stay. */
static void test_traced_file(void **state) {
	(void)state;
	lk_graph *graph = NULL;
	lk_error err = {0};
	const char *text =
		"{\"lockstep_graph\":1,\"traced\":true,\"teams\":[{\"ranks\":16,\"across\":true,"
		"\"members\":[0],\"name\":\"w\"}]," BLOCK(
			OP "},{\"name\":\"r\",\"kind\":\"all_reduce\",\"stream\":0,\"group\":\"team\",\"deps\":"
			   "[0]}") "\"programs\":[{\"name\":\"rank "
					   "0\",\"stage\":0,\"streams\":[{\"stream\":\"host\",\"name\":\"main\","
					   "\"thread\":true},"
					   "{\"stream\":30,\"name\":\"nccl\"}],\"calls\":[[0,1,-1,-1,0,\"forward\"]]}],"
					   "\"ranks\":{\"world\":3,\"stages\":1,\"chains\":3}}";
	accept(read_text(text, &graph, &err), &err);
	assert_true(graph->traced && graph->teams.at[0].across && graph->teams.at[0].ranks == 16);
	assert_int_equal(graph->programs.at[0].threads, 1);
	assert_string_equal(lk_graph_stream(graph, 0, 0), "main");
	assert_string_equal(lk_graph_stream(graph, 0, 30), "nccl");
	assert_string_equal(lk_graph_stream(graph, 0, 1), "compute");
	assert_int_equal(lk_rank_of(graph, 0, 2), 2);
	assert_int_equal(lk_graph_one_queue(graph, &err), LK_ERR_INPUT);
	lk_graph_free(graph);
}

static void test_wrong_files(void **state) {
	(void)state;
	static const struct {
		const char *text, *place, *cause, *hint;
	} files[] = {
		{"", "g.json", "", ""},
		{"{}", "g.json:1:2", "not a step graph", "--graph"},
		{"[]", "g.json:1:1", "not a step graph", "--graph"},
		{"{\"hidden_size\": 4096}", "g.json:1:2", "not a step graph", "--graph"},
		{"{\"lockstep_graph\":2}", "g.json:1:19", "version 2", "version 1"},
		{"{\"lockstep_graph\":1}", "g.json:1:20", "\"ranks\" is missing", ""},
		{HEAD BLOCK("") "\"programs\":[]}", "g.json: step graph", "no program", ""},
		{HEAD BLOCK(OP "}") PROGRAM "} x", "g.json:1:", "", ""},
		{HEAD BLOCK(OP "}") PROGRAM ",\"wire\":[]}", "g.json:1:", "unknown name \"wire\"",
	     "\"wires\""},
		{HEAD BLOCK(OP "}") PROGRAM ",\"wires\":[[0,0,0,1]]}", "g.json",
	     "no channel 0 of program 0", ""},
		{HEAD "\"channels\":65537," BLOCK(OP "}") PROGRAM "}", "g.json:1:", "out of range",
	     "65536"},
		{HEAD "\"channels\":3,\"wires\":[[0,0,0,1],[0,2,0,1]]," BLOCK(OP "}") PROGRAM "}", "g.json",
	     "has a wire already", ""},
		{HEAD "\"channels\":1,\"wires\":[[0,0,0,0]]," BLOCK(OP "}") PROGRAM "}",
	     "g.json: program 0", "leads back", ""},
		{HEAD "\"teams\":[{\"name\":\"t\",\"members\":[],\"ranks\":1}]," BLOCK(OP "}") PROGRAM "}",
	     "g.json:1:", "elements", ""},
		{HEAD "\"teams\":[{\"name\":\"t\",\"members\":[0]}]," BLOCK(OP "}") PROGRAM "}",
	     "g.json:1:", "\"ranks\" is missing", ""},
		{HEAD "\"teams\":[{\"name\":\"t\",\"members\":[1],\"ranks\":2}]," BLOCK(OP "}") PROGRAM "}",
	     "g.json: team 0 (t)", "not a program", ""},
		{HEAD "\"traced\":1," BLOCK(OP "}") PROGRAM "}", "g.json:1:", "true or false", ""},
		{HEAD "\"wires\":[[0,0,0]]," BLOCK(OP "}") PROGRAM "}", "g.json:1:", "4 to 4 elements", ""},
		{HEAD BLOCK("{\"name\":\"a\",\"kind\":\"gem\",\"stream\":\"compute\"}") PROGRAM "}",
	     "g.json:1:", "\"gem\"", "\"gemm\""},
		{HEAD BLOCK("{\"name\":\"a\",\"kind\":\"gemm\",\"stream\":\"comput\"}") PROGRAM "}",
	     "g.json:1:", "\"comput\"", "\"compute\""},
		{HEAD BLOCK("{\"name\":\"a\",\"kind\":\"gemm\",\"stream\":31}") PROGRAM "}",
	     "g.json:1:", "31", "0 to 30"},
		{HEAD BLOCK("{\"name\":\"a\",\"kind\":\"gemm\"}") PROGRAM "}",
	     "g.json:1:", "\"stream\" is missing", ""},
		{HEAD BLOCK("{\"name\":\"a\\u0000b\",\"kind\":\"gemm\",\"stream\":1}") PROGRAM "}",
	     "g.json:1:", "NUL", ""},
		{HEAD BLOCK(OP ",\"fazes\":1}") PROGRAM "}", "g.json:1:", "unknown name \"fazes\"", ""},
		{HEAD BLOCK(OP ",\"m\":1,\"m\":2}") PROGRAM "}", "g.json:1:", "\"m\" occurs twice", ""},
		{HEAD BLOCK(OP ",\"m\":NaN}") PROGRAM "}", "g.json:1:", "not finite", "0 to 1e300"},
		{HEAD BLOCK(OP ",\"flops\":1e999}") PROGRAM "}", "g.json:1:", "", ""},
		{HEAD BLOCK(OP ",\"bytes\":-1}") PROGRAM "}", "g.json:1:", "negative", ""},
		{HEAD BLOCK(OP ",\"bytes\":\"1\"}") PROGRAM "}", "g.json:1:", "a number is wanted", ""},
		{HEAD BLOCK(OP ",\"wait\":3}") PROGRAM "}", "g.json:1:", "3 is out of range", "0 to 2"},
		{HEAD BLOCK(OP ",\"measured_ps\":0.5}") PROGRAM "}",
	     "g.json:1:", "\"0.5\" is not a whole number", ""},
		{HEAD BLOCK(OP ",\"measured_ps\":9223372036854775808}") PROGRAM "}",
	     "g.json:1:", "out of range", ""},
		{HEAD BLOCK(OP ",\"deps\":[0]}") PROGRAM "}", "g.json: block 0 (b), operation 0 (a)",
	     "later operation", ""},
		{HEAD BLOCK(OP ",\"deps\":0}") PROGRAM "}", "g.json:1:", "an array is wanted", ""},
		{HEAD BLOCK(OP ",\"flags\":[\"casual\"]}") PROGRAM "}", "g.json:1:", "\"casual\"",
	     "\"causal\""},
		{HEAD BLOCK(OP ",\"dtype\":\"fp9\"}") PROGRAM "}", "g.json:1:", "\"fp9\"", ""},
		{HEAD BLOCK(OP ",\"kind\":7}") PROGRAM "}", "g.json:1:", "occurs twice", ""},
		{HEAD BLOCK(OP "}") "\"programs\":[{\"name\":\"p\",\"stage\":0,\n\"calls\":[[1,1,-1,-1,0,"
	                        "\"forward\"]]}]}",
	     "g.json: program 0 (p), call 0", "does not exist", ""},
		{HEAD BLOCK(OP "}") "\"programs\":[{\"name\":\"p\",\"stage\":0,\n\"calls\":[[0,0,-1,-1,0,"
	                        "\"forward\"]]}]}",
	     "g.json:2:13", "0 is out of range", "1 to"},
		{HEAD BLOCK(OP "}") "\"programs\":[{\"name\":\"p\",\"stage\":0,\n\"calls\":[[0,1,-2,-1,0,"
	                        "\"forward\"]]}]}",
	     "g.json:2:15", "-2", "-1 to"},
		{HEAD BLOCK(OP "}") "\"programs\":[{\"name\":\"p\",\"stage\":0,\n\"calls\":[[0,1,-1,-1,0,"
	                        "\"forwards\"]]}]}",
	     "g.json:2:23", "\"forwards\"", "\"forward\""},
		{HEAD BLOCK(OP
	                "}") "\"programs\":[{\"name\":\"p\",\"stage\":0,\n\"calls\":[[0,1,-1,-1,0]]}]}",
	     "g.json:2:", "6 to 8 elements", ""},
		{HEAD BLOCK(OP "}") "\"programs\":[{\"name\":\"p\",\"stage\":0,\n\"calls\":[[0,1,-1,-1,0,"
	                        "\"other\",0,0,0]]}]}",
	     "g.json:2:", "6 to 8 elements", ""},
		{"{\"lockstep_graph\":1,\"ranks\":{\"world\":1,\"stages\":1,\"chains\":1,\"groups\":{"
	     "\"dq\":[1,1]}}}",
	     "g.json:1:", "\"dq\"", ""},
		{"{\"lockstep_graph\":1,\"ranks\":{\"world\":1,\"stages\":1,\"chains\":1,\"groups\":{"
	     "\"dp\":[0,1]}}}",
	     "g.json:1:", "0 is out of range", ""},
	};
	for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
		lk_graph *graph = NULL;
		lk_error err = {0};
		if (read_text(files[i].text, &graph, &err) != LK_ERR_INPUT)
			fail_msg("%s: read", files[i].text);
		assert_null(graph);
		if (strncmp(err.where, files[i].place, strlen(files[i].place)) != 0 ||
		    !strstr(err.what, files[i].cause) || !strstr(err.hint, files[i].hint))
			fail_msg("%s\n\"%s: %s; %s\" names not \"%s\", \"%s\" and \"%s\"", files[i].text,
			         err.where, err.what, err.hint, files[i].place, files[i].cause, files[i].hint);
	}
}

/* A file that ends too early is an error wherever it ends. */
static void test_cut_files(void **state) {
	(void)state;
	char path[64];
	lk_error err = {0};
	lk_graph *graph = random_graph(7), *again;
	accept(lk_graph_write(graph, path_of(path, ".json"), &err), &err);
	char *text = NULL;
	size_t size;
	assert_int_equal(lk_stream_slurp(path, 1 << 24, &text, &size, &err), LK_OK);
	for (size_t cut = 0; cut + 2 < size; cut += 1 + size / 500) {
		lk_stream *in;
		assert_int_equal(lk_stream_memory(text, cut, "cut", &in, &err), LK_OK);
		if (lk_graph_read_stream(in, &again, &err) != LK_ERR_INPUT)
			fail_msg("read %zu of %zu bytes", cut, size);
		assert_null(again);
		lk_stream_close(in);
	}
	assert_int_equal(lk_graph_read("/nowhere/graph.json", &again, &err), LK_ERR_IO);
	assert_int_equal(lk_graph_write(graph, "/nowhere/graph.json", &err), LK_ERR_IO);
	free(text);
	unlink(path);
	lk_graph_free(graph);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip),  cmocka_unit_test(test_faults),
		cmocka_unit_test(test_slack),       cmocka_unit_test(test_large),
		cmocka_unit_test(test_small_file),  cmocka_unit_test(test_traced_file),
		cmocka_unit_test(test_wrong_files), cmocka_unit_test(test_cut_files),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
