/* engine.c: how fast the simulation engines are. Builds the step graph of GPT-3 175B (96 layers,
 * tensor parallel 8, pipeline parallel 16, 1F1B, 128 micro-batches, data parallel filling the rest)
 * with plausible durations, runs it with every rank simulated, with rank folding, and with both
 * foldings, and prints operations per second and the peak of memory.
 *
 *     make all && cc -std=c11 -O3 -D_GNU_SOURCE -Iinclude -Isrc bench/engine.c
 *         build/release/liblockstep.a \
 *         -lz -lzstd -lsqlite3 -lm -lpthread -o build/engine
 *     build/engine [RANKS [sweep|jitter|events|folded|fold]] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include "sim/sim.h"

enum { STAGES = 16, TP = 8, LAYERS = 6, MICROBATCHES = 128, CHANNELS = 4 };
enum { FROM_BEFORE, TO_NEXT, FROM_NEXT, TO_BEFORE };

static double now(void) {
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void kernel(lk_graph *g, const char *name, unsigned kind, uint16_t join) {
	lk_graph_add(
		g,
		&(lk_op){.kind = (uint8_t)kind, .stream = LK_STREAM_COMPUTE, .join = join, .name = name});
}

static void all_reduce(lk_graph *g) {
	lk_graph_add(g, &(lk_op){.kind = LK_OP_ALLREDUCE,
	                         .stream = LK_STREAM_TP,
	                         .group = LK_GROUP_TP,
	                         .join = LK_JOIN(LK_STREAM_COMPUTE),
	                         .name = "tp_all_reduce"});
}

static void message(lk_graph *g, unsigned kind, unsigned stream, int channel, uint16_t join) {
	lk_graph_add(g, &(lk_op){.kind = (uint8_t)kind,
	                         .stream = (uint8_t)stream,
	                         .channel = channel,
	                         .join = join,
	                         .name = kind == LK_OP_SEND ? "send" : "recv"});
}

static uint32_t end_block(lk_graph *g) {
	uint32_t id = 0;
	lk_error err = {0};
	if (lk_graph_end_block(g, &id, &err) != LK_OK) exit(1);
	return id;
}

static void half_layer(lk_graph *g, int gemms) {
	kernel(g, "norm", LK_OP_NORM, LK_JOIN(LK_STREAM_TP));
	for (int i = 0; i < gemms; i++) kernel(g, "gemm", LK_OP_GEMM, 0);
	all_reduce(g);
}

static uint32_t layer(lk_graph *g, bool forward) {
	lk_graph_begin_block(g, forward ? "layer forward" : "layer backward");
	for (int i = 0; i < (forward ? 2 : 4); i++) half_layer(g, 4);
	return end_block(g);
}

static uint32_t ends(lk_graph *g, const char *name, unsigned kind, unsigned stream, int channel) {
	lk_graph_begin_block(g, name);
	message(g, kind, stream, channel,
	        kind == LK_OP_SEND ? LK_JOIN(LK_STREAM_COMPUTE) | LK_JOIN(LK_STREAM_TP) : 0);
	if (kind == LK_OP_RECV) kernel(g, "unpack", LK_OP_ELEMENTWISE, LK_JOIN(stream));
	return end_block(g);
}

typedef struct blocks {
	uint32_t forward, backward, receive[2], send[2], gradients, step;
} blocks;

static void call(lk_graph *g, uint32_t stage, uint32_t block, uint32_t repeat, int microbatch) {
	lk_error err = {0};
	if (lk_graph_call(
			g, stage,
			&(lk_call){.block = block, .repeat = repeat, .microbatch = microbatch, .layer = -1},
			&err) != LK_OK)
		exit(1);
}

static void pass(lk_graph *g, uint32_t s, const blocks *b, bool forward, int microbatch) {
	bool receives = forward ? s > 0 : s < STAGES - 1, sends = forward ? s < STAGES - 1 : s > 0;
	if (receives) call(g, s, b->receive[!forward], 1, microbatch);
	call(g, s, forward ? b->forward : b->backward, LAYERS, microbatch);
	if (sends) call(g, s, b->send[!forward], 1, microbatch);
}

static lk_graph *gpt(uint32_t ranks) {
	lk_graph *g = lk_graph_new();
	lk_error err = {0};
	blocks b = {.forward = layer(g, true), .backward = layer(g, false)};
	b.receive[0] = ends(g, "receive forward", LK_OP_RECV, LK_STREAM_RECV_FORWARD, FROM_BEFORE);
	b.send[0] = ends(g, "send forward", LK_OP_SEND, LK_STREAM_SEND_FORWARD, TO_NEXT);
	b.receive[1] = ends(g, "receive backward", LK_OP_RECV, LK_STREAM_RECV_BACKWARD, FROM_NEXT);
	b.send[1] = ends(g, "send backward", LK_OP_SEND, LK_STREAM_SEND_BACKWARD, TO_BEFORE);
	lk_graph_begin_block(g, "gradients");
	lk_graph_add(g, &(lk_op){.kind = LK_OP_REDUCESCATTER,
	                         .stream = LK_STREAM_DP,
	                         .group = LK_GROUP_DP,
	                         .join = LK_JOIN(LK_STREAM_COMPUTE),
	                         .name = "dp_reduce_scatter"});
	b.gradients = end_block(g);
	lk_graph_begin_block(g, "optimizer");
	kernel(g, "adam", LK_OP_OPTIMIZER, LK_JOIN(LK_STREAM_DP) | LK_JOIN(LK_STREAM_TP));
	b.step = end_block(g);
	if (lk_graph_set_programs(g, STAGES, CHANNELS, &err) != LK_OK) exit(1);
	g->ranks.world = ranks;
	g->ranks.chains = ranks / STAGES;
	g->ranks.group[LK_GROUP_TP].size = TP;
	g->ranks.group[LK_GROUP_DP].size = ranks / STAGES / TP;
	g->ranks.group[LK_GROUP_DP].stride = TP;
	for (uint32_t s = 0; s < STAGES; s++) {
		if (s + 1 < STAGES) {
			lk_graph_wire(g, s, TO_NEXT, s + 1, FROM_BEFORE);
			lk_graph_wire(g, s + 1, TO_BEFORE, s, FROM_NEXT);
		}
		int warm = STAGES - 1 - (int)s;
		for (int i = 0; i < warm; i++) pass(g, s, &b, true, i);
		for (int i = warm; i < MICROBATCHES; i++) {
			pass(g, s, &b, true, i);
			pass(g, s, &b, false, i - warm);
		}
		for (int i = MICROBATCHES - warm; i < MICROBATCHES; i++) pass(g, s, &b, false, i);
		call(g, s, b.gradients, LAYERS, -1);
		call(g, s, b.step, 1, -1);
	}
	return g;
}

static lk_costs price(const lk_graph *g) {
	lk_costs costs = {
		.variants = 1, .ops = g->ops.count, .at = calloc(g->ops.count, sizeof *costs.at)};
	if (!costs.at) exit(1);
	for (uint32_t i = 0; i < g->ops.count; i++) {
		unsigned kind = g->ops.kind[i];
		bool communicates = lk_op_is_comm(kind);
		int64_t ps = kind == LK_OP_GEMM        ? 400000000
		             : kind == LK_OP_ALLREDUCE ? 250000000
		             : communicates            ? 600000000
		                                       : 50000000;
		costs.at[i] = (lk_cost){
			.duration_ps = ps,
			.host_ps = 5000000,
			.lead_ps = 5000000,
			.tail_ps = ps,
			.sm = communicates ? 0.15f : 1,
			.compute = kind == LK_OP_GEMM ? 0.8f : 0,
			.memory = communicates         ? 0.2f
		              : kind == LK_OP_GEMM ? 0.3f
		                                   : 0.9f,
			.intra = kind == LK_OP_ALLREDUCE ? 1 : 0,
			.nic = communicates && kind != LK_OP_ALLREDUCE ? 1 : 0,
			.spread = 1,
		};
	}
	return costs;
}

static void run(const char *label, const lk_graph *g, const lk_costs *costs,
                const lk_sim_options *options) {
	lk_sim_result result;
	lk_error err = {0};
	double best = 1e9;
	for (int i = 0; i < 3; i++) {
		double start = now();
		if (lk_sim_run(g, costs, options, &result, &err) != LK_OK) {
			fprintf(stderr, "%s: %s: %s\n", label, err.where, err.what);
			exit(1);
		}
		double took = now() - start;
		if (took < best) best = took;
		if (i < 2) lk_sim_result_free(&result);
	}
	struct rusage usage;
	getrusage(RUSAGE_SELF, &usage);
	printf("%-28s %6u ranks: step %.6f s, %11llu operations in %8.4f s, %8.1f M/s, peak %ld MiB\n",
	       label, g->ranks.world, (double)result.step_ps * 1e-12,
	       (unsigned long long)result.operations, best, (double)result.operations / best * 1e-6,
	       usage.ru_maxrss / 1024);
	lk_sim_result_free(&result);
}

static void folded(const lk_graph *g, const lk_costs *costs, bool contention) {
	lk_fold *fold;
	lk_error err = {0};
	double start = now();
	if (lk_sim_fold(g, costs, contention, NULL, &fold, &err) != LK_OK) exit(1);
	printf("folding %s: %.2f ms\n", contention ? "with contention" : "without contention",
	       (now() - start) * 1e3);
	run(contention ? "events, macros" : "sweep, macros", fold->graph, &fold->costs,
	    &(lk_sim_options){.contention = contention});
	lk_fold_free(fold);
}

int main(int argc, char **argv) {
	uint32_t ranks = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 1024;
	const char *only = argc > 2 ? argv[2] : "";
	if (ranks < STAGES * TP || ranks % (STAGES * TP)) {
		fprintf(stderr, "engine: RANKS must be a multiple of %d\n", STAGES * TP);
		return 2;
	}
	lk_graph *g = gpt(ranks);
	lk_costs costs = price(g);
	if (!*only || !strcmp(only, "sweep"))
		run("sweep, every rank", g, &costs, &(lk_sim_options){.apart = true});
	if (!*only || !strcmp(only, "jitter"))
		run("sweep, jitter", g, &costs, &(lk_sim_options){.jitter = 0.02});
	if (!*only || !strcmp(only, "events"))
		run("events, every rank", g, &costs, &(lk_sim_options){.apart = true, .contention = true});
	if (!*only || !strcmp(only, "folded")) {
		run("sweep, folded ranks", g, &costs, &(lk_sim_options){0});
		run("events, folded ranks", g, &costs, &(lk_sim_options){.contention = true});
	}
	if (!*only || !strcmp(only, "fold")) {
		folded(g, &costs, false);
		folded(g, &costs, true);
	}
	free(costs.at);
	lk_graph_free(g);
	return 0;
}
