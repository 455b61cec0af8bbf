/* traced.c: how fast graphs that were lifted from traces are checked, simulated and stored. Makes a
 * graph as a lifter would: ranks of two CPU threads and two streams of the device, a launch for
 * every kernel, a collective or a message after every 150 of them, now and then a synchronisation;
 * and prints times and memory for each operation.
 *
 *     make all && cc -std=c11 -O3 -D_GNU_SOURCE -Iinclude -Isrc bench/traced.c
 *         build/release/liblockstep.a \
 *         -lz -lzstd -lsqlite3 -lexpat -lm -lpthread -ldl -o build/traced
 *     build/traced [OPERATIONS [FILE.json.gz]]       of each of 8 ranks, 300000 unless told */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include "base/stats.h"
#include "sim/sim.h"

enum { RANKS = 8, KERNELS = 7, NCCL = 20, APART = 150, SYNC = 5000 };

static double now(void) {
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double peak_bytes(void) {
	struct rusage usage;
	getrusage(RUSAGE_SELF, &usage);
	return (double)usage.ru_maxrss * 1024;
}

static void require(lk_status status, const lk_error *err) {
	if (status == LK_OK) return;
	fprintf(stderr, "traced: %s: %s\n", err->where, err->what);
	exit(1);
}

static int64_t micros(uint64_t *seed, uint32_t least, uint32_t more) {
	*seed = lk_hash64(*seed + 0x9e3779b97f4a7c15u);
	return (int64_t)(least + *seed % more) * 1000000;
}

/* One rank's block. `world` is the team of all, `pair` that of this rank and its neighbour. */
static void trace(lk_graph *graph, uint32_t rank, uint32_t count, uint32_t world, uint32_t pair) {
	uint64_t seed = rank;
	uint32_t kernel = 0, meeting = 0, deps[2];
	for (uint32_t i = 0, place = 0; place + 4 < count; i++) {
		bool meets = i % APART == APART - 1, all = i % (2 * APART) == APART - 1;
		lk_op launch = {.kind = LK_OP_HOST,
		                .stream = (uint8_t)(i / 2000 % 2),
		                .name = "aten::op",
		                .measured_ps = micros(&seed, 5, 10)};
		lk_op op = {.kind = LK_OP_NORM,
		            .stream = KERNELS,
		            .name = "kernel",
		            .measured_ps = micros(&seed, 8, 12),
		            .deps = deps,
		            .dep_count = 1};
		if (meets) {
			op.kind = all ? LK_OP_ALLREDUCE : rank % 2 ? LK_OP_RECV : LK_OP_SEND;
			op.stream = NCCL;
			op.group = LK_GROUP_TEAM;
			op.channel = (int32_t)(all ? world : pair);
			op.name = "nccl";
		}
		deps[0] = lk_graph_add(graph, &launch);
		if (place && (meets || i % APART == 20)) deps[op.dep_count++] = meets ? kernel : meeting;
		*(meets ? &meeting : &kernel) = lk_graph_add(graph, &op);
		place += 2;
		if (i % SYNC != SYNC - 1) continue;
		deps[0] = kernel;
		deps[1] = meeting;
		for (uint8_t thread = 0; thread < 2; thread++, place++)
			lk_graph_add(graph, &(lk_op){.kind = LK_OP_HOST,
			                             .stream = thread,
			                             .name = "synchronize",
			                             .deps = deps,
			                             .dep_count = 2});
	}
}

static lk_graph *lifted(uint32_t count) {
	lk_error err = {0};
	lk_graph *graph = lk_graph_new();
	uint32_t all[RANKS], id;
	require(lk_graph_set_programs(graph, RANKS, 0, &err), &err);
	graph->traced = true;
	graph->ranks.chains = 1;
	graph->ranks.world = RANKS;
	for (uint32_t r = 0; r < RANKS; r++) all[r] = r;
	uint32_t world = lk_graph_add_team(graph, "world", all, RANKS, RANKS, true), pairs = world + 1;
	for (uint32_t r = 0; r < RANKS; r += 2) lk_graph_add_team(graph, "pair", all + r, 2, 2, false);
	for (uint32_t r = 0; r < RANKS; r++) {
		for (unsigned thread = 0; thread < 2; thread++)
			require(
				lk_graph_name_stream(graph, r, thread, thread ? "backward" : "main", true, &err),
				&err);
		lk_graph_begin_block(graph, "step");
		trace(graph, r, count, world, pairs + r / 2);
		require(lk_graph_end_block(graph, &id, &err), &err);
		require(lk_graph_call(graph, r,
		                      &(lk_call){.block = id, .repeat = 1, .microbatch = -1, .layer = -1},
		                      &err),
		        &err);
	}
	return graph;
}

static void simulate(const lk_graph *graph, const lk_costs *costs, bool contention) {
	double before = peak_bytes();
	for (int i = 0; i < 3; i++) {
		lk_sim_result result;
		lk_error err = {0};
		double start = now();
		require(
			lk_sim_run(graph, costs, &(lk_sim_options){.contention = contention}, &result, &err),
			&err);
		printf("%-8s step %.6f s in %.3f s, %5.1f M/s, %4.0f bytes for each operation\n",
		       contention ? "events" : "sweep", (double)result.step_ps * 1e-12, now() - start,
		       (double)result.operations / (now() - start) * 1e-6,
		       (peak_bytes() - before) / graph->ops.count);
		lk_sim_result_free(&result);
	}
}

int main(int argc, char **argv) {
	uint32_t count = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 300000;
	lk_error err = {0};
	double start = now();
	lk_graph *graph = lifted(count), *again;
	printf("built    %u operations in %.3f s, %.0f MiB\n", graph->ops.count, now() - start,
	       peak_bytes() / 1048576);
	start = now();
	require(lk_graph_check(graph, &err), &err);
	printf("checked  in %.3f s\n", now() - start);
	lk_costs costs = {
		.variants = 1, .ops = graph->ops.count, .at = calloc(graph->ops.count, sizeof *costs.at)};
	if (!costs.at) return 1;
	for (uint32_t i = 0; i < graph->ops.count; i++)
		costs.at[i] = (lk_cost){
			.duration_ps = graph->ops.measured_ps[i], .sm = 0.5f, .memory = 0.6f, .spread = 1};
	simulate(graph, &costs, false);
	simulate(graph, &costs, true);
	if (argc > 2) {
		start = now();
		require(lk_graph_write(graph, argv[2], &err), &err);
		printf("written  in %.3f s\n", now() - start);
		start = now();
		require(lk_graph_read(argv[2], &again, &err), &err);
		printf("read     in %.3f s\n", now() - start);
		lk_graph_free(again);
	}
	free(costs.at);
	lk_graph_free(graph);
	return 0;
}
