/* test_lower.c: steps as step graphs: every graph is whole and has all ranks; bytes of passes are
 * those that are counted by hand; what follows one another takes the sum of its parts, what
 * overlaps takes less. */
#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "base/arena.h"
#include "io/stream.h"
#include "base/units.h"
#include "cost/collective/collective.h"
#include "lang/steps/steps.h"
#include "lang/rewrite/rewrite.h"
#include "lang/tune/tune.h"
#include "lang/syntax/parse.h"
#include "sim/memory/memory.h"
#include "sim/sim.h"

#define OK(call)                                                                                 \
	do {                                                                                         \
		lk_error err_ = {0}, *err = &err_;                                                       \
		char line_[1024];                                                                        \
		if ((call) != LK_OK) fail_msg("%s: %s", #call, lk_error_text(err, line_, sizeof line_)); \
	} while (0)

/* A program of a text, rewritten by its schedule `name` (NULL: none), with its steps. */
struct made {
	lc_file *file;
	lc_program *p;
	lc_steps *steps;
	lc_sizes sizes;
};

static struct made make(const char *text, const char *name, const char *sizes) {
	struct made m = {0};
	const lc_schedule *s = NULL;
	OK(lc_parse("text", text, strlen(text), &m.file, err));
	const lc_program *program = m.file->programs.at[0];
	for (size_t i = 0; i < program->schedules.count; i++)
		if (name && strcmp(program->schedules.at[i].name, name) == 0) s = &program->schedules.at[i];
	assert_true(!name || s);
	OK(lc_rewrite_all(program, s, &m.p, err));
	OK(lc_steps_make(m.p, &m.steps, err));
	OK(lc_sizes_read(program, sizes, 1, &m.sizes, err));
	return m;
}

/* The text with each `word` replaced; at most 1024 bytes, `out` may be `text`. */
static void replace(const char *text, const char *word, const char *by, char out[1024]) {
	char made[1024];
	size_t used = 0;
	while (*text && used + strlen(by) + 1 < sizeof made)
		if (strncmp(text, word, strlen(word)) == 0) {
			used += (size_t)snprintf(made + used, sizeof made - used, "%s", by);
			text += strlen(word);
		} else made[used++] = *text++;
	made[used] = '\0';
	strcpy(out, made);
}

static void drop(struct made *m) {
	lc_steps_free(m->steps);
	lc_program_free(m->p);
	lc_sizes_free(&m->sizes);
	lc_file_free(m->file);
}

static lk_graph *lowered(const struct made *m, int64_t chunks) {
	lk_graph *graph = NULL;
	OK(lc_lower(m->steps, &m->sizes, chunks, false, &graph, err));
	OK(lk_graph_check(graph, err));
	return graph;
}

static double sum_bytes(const lk_graph *graph, unsigned kind) {
	double sum = 0;
	for (uint32_t i = 0; i < graph->ops.count; i++)
		if (graph->ops.kind[i] == kind) sum += graph->ops.bytes[i];
	return sum;
}

/* ---- bytes ---- */

#define ADAM32                                                                                     \
	"program adam(mesh dp) { dim N scalar f32 lr, b1, b2, eps in g : f32[N] @ P(sum,dp)\n"         \
	"state w : f32[N], m : f32[N], v : f32[N] a = allreduce(g, sum, dp) gr = a / size(dp)\n"       \
	"m <- b1*m + (1 - b1)*gr v <- b2*v + (1 - b2)*gr^2 w <- w - lr*m/(sqrt(v) + eps) out copy(w) " \
	"}\n"                                                                                          \
	"schedule ar_c { fuse C={gr,m,v,w} }\n"                                                        \
	"schedule rs_c_ag { split a -> (rs,ag); reorder ag past {gr,m,v,w}; slice m,v,w; fuse "        \
	"C={gr,m,v,w} }\n"                                                                             \
	"schedule fused { split a -> (rs,ag); reorder ag past {gr,m,v,w}; slice m,v,w; fuse "          \
	"F={rs,gr,m,v,w,ag} }"

/* The reference's counts: 28 N, 28 N/P and 24 N/P; the output's copy is 8 N, or 4 N/P where slices
 * are gathered. */
static void test_adam_bytes(void **state) {
	(void)state;
	static const struct {
		const char *name;
		double pass, wire;
	} rows[] = {{"ar_c", 28 + 8, 4}, {"fused", 24. / 4, 4}};
	const double n = 1 << 20;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct made m = make(ADAM32, rows[i].name, "dp=4,N=1048576");
		lk_graph *graph = lowered(&m, 0);
		assert_float_equal(sum_bytes(graph, LK_OP_ELEMENTWISE), rows[i].pass * n, 1);
		assert_float_equal(sum_bytes(graph, LK_OP_ALLREDUCE), rows[i].wire * n, 1);
		assert_int_equal(graph->ranks.world, 4);
		lk_graph_free(graph);
		drop(&m);
	}
}

/* Of slices that are not equal, the largest. */
static void test_uneven(void **state) {
	(void)state;
	struct made m =
		make("program p(mesh a) { dim N in x : f32[N] @ S(0,a) out x*2 }", NULL, "a=3,N=10");
	lk_graph *graph = lowered(&m, 0);
	assert_float_equal(sum_bytes(graph, LK_OP_ELEMENTWISE), 2 * 4 * 4, 0);
	lk_graph_free(graph);
	drop(&m);
}

static void test_matmul(void **state) {
	(void)state;
	struct made m = make(
		"program p(mesh tp) { dim B, S, H in x : bf16[B,S,H] @ S(2,tp) in w : bf16[H,H] @ S(0,tp)\n"
		"out allreduce(matmul(x, w), sum, tp) }",
		NULL, "tp=4,B=2,S=8,H=64");
	lk_graph *graph = lowered(&m, 0);
	assert_int_equal(graph->ops.count, 2);
	assert_int_equal(graph->ops.kind[0], LK_OP_GEMM);
	assert_float_equal(graph->ops.m[0], 16, 0);
	assert_float_equal(graph->ops.n[0], 64, 0);
	assert_float_equal(graph->ops.k[0], 16, 0);
	assert_float_equal(graph->ops.flops[0], 2. * 16 * 64 * 16, 0);
	assert_float_equal(graph->ops.bytes[0], 2 * (16 * 16 + 16 * 64 + 16 * 64), 0);
	assert_float_equal(graph->ops.bytes[1], 2 * 16 * 64, 0);
	lk_graph_free(graph);
	drop(&m);
}

/* At its peak a rank holds inputs, states and results, and of the rest what some later step reads.
 */
static void test_memory(void **state) {
	(void)state;
	static const char text[] = "program p(mesh dp) { dim N in x : f32[N], t : f32[N] state s : "
							   "f32[N] h = gelu(x) u = t^2\n"
							   "q = sum(u) y = h*q s <- s + y*2 out y }\n"
							   "schedule again { recompute {h} for {y} }\n"
							   "schedule one { fuse A = {u, q} }";
	static const struct {
		const char *name;
		double vectors;
	} rows[] = {
		{NULL, 4 + 2},    /* x, t, s, y; h while u is there */
		{"again", 4 + 1}, /* h after u */
		{"one", 4 + 1},   /* u never */
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct made m = make(text, rows[i].name, "dp=2,N=1000000");
		lk_graph *graph = lowered(&m, 0);
		assert_float_equal(lk_memory_walk(graph, 0).peak, rows[i].vectors * 4e6, 64);
		lk_graph_free(graph);
		drop(&m);
	}
}

/* A list's messages: one for all, or as many as fill a bucket. */
static void test_buckets(void **state) {
	(void)state;
	static const char text[] = "program p(mesh dp) { list l dim N of l in g : f32[N] @ P(sum,dp) r "
							   "= allreduce(g, sum, dp) out r }";
	struct made m = make(text, NULL, "dp=2,N=10:20:30:100:5");
	lk_graph *graph = lowered(&m, 0);
	assert_int_equal(graph->ops.count, 1);
	assert_float_equal(sum_bytes(graph, LK_OP_ALLREDUCE), 165 * 4, 0);
	lk_graph_free(graph);
	m.steps->at[0].bucket = 240;
	graph = lowered(&m, 0);
	assert_int_equal(graph->ops.count, 3); /* 60, 100, 5 */
	assert_float_equal(sum_bytes(graph, LK_OP_ALLREDUCE), 165 * 4, 0);
	assert_float_equal(graph->ops.bytes[0], 240, 0);
	lk_graph_free(graph);
	drop(&m);
}

/* A list is priced as the flat tensor of as many elements: the same operations, messages and bytes,
 * however it is cut, and a reduce-scatter is one message even in a bucket. */
static void test_list_as_flat(void **state) {
	(void)state;
#define UPDATE                                                                                   \
	"g : f16[N] OF @ P(sum,dp) state w : f32[N] OF, m : f32[N] OF\n"                             \
	"r = cast(f32, allreduce(g, sum, dp)) m <- 0.9*m + r w <- w - m out cast(f16, w) }\n"        \
	"schedule all { fuse {m, w} }\n"                                                             \
	"schedule zero { split r -> (rs, ag); reorder ag past {r, m, w}; slice w, m; fuse F = {rs, " \
	"r, m, w, ag} }\n"                                                                           \
	"schedule apart { split r -> (rs, ag); reorder ag past {r, m, w}; slice w, m; BUCKET }"
	static const char list[] = "program p(mesh dp) { list l dim N of l in " UPDATE,
					  flat[] = "program p(mesh dp) { dim N in " UPDATE;
#undef UPDATE
	static const char *const schedules[] = {NULL, "all", "zero", "apart"};
	for (size_t i = 0; i < sizeof schedules / sizeof *schedules; i++) {
		char a[1024], b[1024];
		replace(list, "OF", "of l", a), replace(flat, "OF", "", b);
		replace(a, "BUCKET", "bucket {rs} size 100", a), replace(b, "BUCKET", "", b);
		struct made of_list = make(a, schedules[i], "dp=4,N=10:2:31:100:5"),
					of_flat = make(b, schedules[i], "dp=4,N=148");
		lk_graph *x = lowered(&of_list, 0), *y = lowered(&of_flat, 0);
		assert_int_equal(x->ops.count, y->ops.count);
		for (size_t k = 0; k < x->ops.count; k++) {
			assert_int_equal(x->ops.kind[k], y->ops.kind[k]);
			assert_float_equal(x->ops.bytes[k], y->ops.bytes[k], 1e-6);
		}
		assert_float_equal(lk_memory_walk(x, 0).peak, lk_memory_walk(y, 0).peak, 1e-6);
		lk_graph_free(x), lk_graph_free(y);
		drop(&of_list), drop(&of_flat);
	}
}

/* ---- places ---- */

static void test_send(void **state) {
	(void)state;
	static const char text[] = "program p(mesh pp, tp) { dim N in x : f16[N] at pp=k y = x*2 z = "
							   "send(y, pp: k->k+1) out z at pp=k+1 }";
	struct made m = make(text, NULL, "pp=3,tp=2,k=1,N=1000");
	lk_graph *graph = lowered(&m, 0);
	assert_int_equal(graph->ranks.stages, 3);
	assert_int_equal(graph->ranks.chains, 2);
	assert_int_equal(graph->blocks.at[0].end - graph->blocks.at[0].begin, 0);
	assert_int_equal(graph->blocks.at[1].end - graph->blocks.at[1].begin,
	                 2); /* the pass, the send */
	assert_int_equal(graph->blocks.at[2].end - graph->blocks.at[2].begin, 1);
	assert_float_equal(sum_bytes(graph, LK_OP_SEND), 2000, 0);
	assert_float_equal(sum_bytes(graph, LK_OP_RECV), 2000, 0);
	lk_graph_free(graph);
	drop(&m);
}

static void test_permute(void **state) {
	(void)state;
	static const char text[] =
		"program p(mesh dp, cp, tp) { dim N in x : f32[N] @ S(0,cp) y = permute(x, cp, shift=1)\n"
		"z = permute(y, cp, shift=-2) out z, allgather(x, 0, cp) in q : f32 @ P(sum,dp) out "
		"allreduce(q, sum, dp) }";
	struct made m = make(text, NULL, "dp=2,cp=5,tp=3,N=1000");
	lk_graph *graph = lowered(&m, 0);
	assert_int_equal(graph->ranks.stages, 10);
	assert_int_equal(graph->ranks.world, 30);
	assert_float_equal(sum_bytes(graph, LK_OP_SEND), 10 * 2 * 800, 0);
	lk_timed t;
	lk_arena arena = LK_ARENA_INIT;
	lk_cluster cluster;
	lk_constants constants;
	lk_timed_constants(&constants);
	OK(lk_cluster_parse(&arena, "4 node * 8 h100-sxm", &cluster, err));
	OK(lk_time_steps(m.steps, &m.sizes, &cluster, NULL, &constants, 0, &t, err));
	assert_true(t.seconds > 0);
	lk_arena_free(&arena);
	lk_graph_free(graph);
	drop(&m);
}

/* ---- times ---- */

/* What runs one behind the other takes the sum, and the first launch. */
static void test_serial(void **state) {
	(void)state;
	static const char text[] =
		"program p(mesh tp, dp) { dim B, H in x : bf16[B,H] @ S(1,tp) in w : bf16[H,H] @ S(0,tp)\n"
		"y = allreduce(matmul(x, w), sum, tp) z = gelu(y) out z, sum(z) }";
	struct made m = make(text, NULL, "tp=4,dp=2,B=4096,H=4096");
	lk_arena arena = LK_ARENA_INIT;
	lk_cluster cluster;
	lk_constants constants;
	lk_costs costs;
	lk_timed t;
	lk_timed_constants(&constants);
	OK(lk_cluster_parse(&arena, "8 h100-sxm", &cluster, err));
	lk_graph *graph = lowered(&m, 0);
	lk_cost_options options = {.constants = &constants, .cuda_graphs = true};
	OK(lk_costs_build(&arena, graph, &cluster, &options, &costs, err));
	int64_t sum = lk_costs_get(&costs, 0, 0)->host_ps, compute = 0;
	assert_int_equal(graph->ops.count, 4);
	for (uint32_t i = 0; i < graph->ops.count; i++) {
		sum += lk_costs_get(&costs, 0, i)->duration_ps;
		if (!lk_op_is_comm(graph->ops.kind[i])) compute += lk_costs_get(&costs, 0, i)->duration_ps;
	}
	OK(lk_time_steps(m.steps, &m.sizes, &cluster, NULL, &constants, 0, &t, err));
	assert_float_equal(t.seconds * LK_PS_PER_S, (double)sum, 2);
	assert_float_equal(t.compute_s * LK_PS_PER_S, (double)compute, 2);
	lk_graph_free(graph);
	lk_arena_free(&arena);
	drop(&m);
}

/* Chunks: the longer of both parts, and a chunk of the other: T = max + min/C, as long as chunks
 * are no less efficient. */
static void test_overlap(void **state) {
	(void)state;
	struct made m =
		make("program p(mesh tp) { dim B, H in x : bf16[B,H] @ S(1,tp) in w : bf16[H,H] @ S(0,tp)\n"
	         "y = matmul(x, w) z = allreduce(y, sum, tp) out z }",
	         NULL, "tp=8,B=8192,H=24576");
	lc_step parts[2] = {m.steps->at[0], m.steps->at[1]};
	int zero = 0;
	parts[0].after = (lc_ids){0};
	parts[1].after = (lc_ids){&zero, 1};
	lc_step whole = {.kind = LC_STEP_OVERLAP,
	                 .name = "O",
	                 .parts = parts,
	                 .part_count = 2,
	                 .list = -1,
	                 .chunk_dim = 0};
	lk_arena arena = LK_ARENA_INIT;
	lk_cluster cluster;
	lk_constants constants;
	lk_timed serial, chunked;
	lk_timed_constants(&constants);
	OK(lk_cluster_parse(&arena, "8 h100-sxm", &cluster, err));
	OK(lk_time_steps(m.steps, &m.sizes, &cluster, NULL, &constants, 0, &serial, err));
	m.steps->at[0] = whole;
	m.steps->count = 1;
	lk_graph *uncut = lowered(&m, 4); /* what is read whole waits for all of it */
	assert_int_equal(uncut->ops.count, 1 + 2);
	lk_graph_free(uncut);
	for (int i = 0; i < 2; i++) m.steps->cut[parts[i].values.at[0]] = 0;
	lk_graph *graph = lowered(&m, 4);
	assert_int_equal(graph->ops.count, 1 + 2 * 4);
	assert_float_equal(sum_bytes(graph, LK_OP_ALLREDUCE), 2. * 8192 * 24576, 1);
	OK(lk_time_steps(m.steps, &m.sizes, &cluster, NULL, &constants, 4, &chunked, err));
	double longer = serial.compute_s > serial.exposed_s ? serial.compute_s : serial.exposed_s;
	assert_true(chunked.seconds < 0.9 * serial.seconds);
	assert_true(chunked.seconds > longer);
	lk_graph_free(graph);
	lk_arena_free(&arena);
	drop(&m);
}

/* ---- kernels on GPUs ---- */

/* cmocka compares floats, which hold 24 bits. */
static void assert_picoseconds(double a, double b, int64_t apart) {
	long long difference = llround(a * LK_PS_PER_S) - llround(b * LK_PS_PER_S);
	if (llabs(difference) > apart) fail_msg("%.12g s and %.12g s", a, b);
}

/* A collective alone, as NCCL's laws price it for the same group: to the picosecond, on fabrics of
 * every kind, from latency to bandwidth. */
static void check_alike(const char *text, const char *of, lk_coll_kind kind, int ranks, int node) {
	char program[256], sizes[64];
	lk_arena arena = LK_ARENA_INIT;
	lk_cluster cluster;
	lk_constants constants;
	lk_timed_constants(&constants);
	OK(lk_cluster_parse(&arena, text, &cluster, err));
	snprintf(program, sizeof program, "program p(mesh dp) { dim N in x : f32[N] @ %s }", of);
	for (double elements = 1 << 10; elements < 1 << 29; elements *= 8) {
		snprintf(sizes, sizeof sizes, "dp=%d,N=%.0f", ranks, elements);
		struct made m = make(program, NULL, sizes);
		lk_timed t;
		OK(lk_time_steps(m.steps, &m.sizes, &cluster, NULL, &constants, 0, &t, err));
		lk_group_shape group = {.node = cluster.node,
		                        .ranks = ranks,
		                        .nodes = (ranks + node - 1) / node,
		                        .ranks_per_node = ranks < node ? ranks : node,
		                        .sharing = 1,
		                        .apart = 1,
		                        .settings = &constants.nccl,
		                        .oversubscription = cluster.oversubscription};
		double alone = lk_collective_cost(kind, &group, 4 * elements).seconds;
		assert_picoseconds(t.seconds, alone, 1);
		drop(&m);
	}
	lk_arena_free(&arena);
}

static void test_collectives_alike(void **state) {
	(void)state;
	static const struct {
		const char *text;
		int node;
	} clusters[] = {
		{"1 node * 8 h100-sxm", 8},    {"8 node * 8 h100-sxm nvlink4, nic 8*400g", 8},
		{"4 node * 8 a100-sxm-80", 8}, {"8 node * 16 v100-sxm3-32 nvlink2, nic 8*100g", 16},
		{"1 node * 8 h800", 8},
	};
	for (size_t i = 0; i < sizeof clusters / sizeof *clusters; i++)
		for (int ranks = 2; ranks <= 64; ranks *= 2) {
			int node = clusters[i].node;
			if (clusters[i].text[0] == '1' && ranks > node) continue;
			if (ranks > node && clusters[i].text[0] == '4' && ranks > 4 * node) continue;
			check_alike(clusters[i].text, "P(sum,dp) out allreduce(x, sum, dp)", LK_COLL_ALLREDUCE,
			            ranks, node);
			check_alike(clusters[i].text, "P(sum,dp) out reducescatter(x, sum, dp, 0)",
			            LK_COLL_REDUCESCATTER, ranks, node);
			check_alike(clusters[i].text, "S(0,dp) out allgather(x, 0, dp)", LK_COLL_ALLGATHER,
			            ranks, node);
		}
}

/* What a kernel reduces, updates and hands round is one all-reduce on GPUs, so that it takes the
 * longer of that and its pass; hosts send a reduce-scatter and a gather. */
static void test_fused_pass(void **state) {
	(void)state;
	struct made m = make(ADAM32, "fused", "dp=128,N=1024");
	lk_graph *graph = lowered(&m, 0), *hosts = NULL;
	assert_float_equal(sum_bytes(graph, LK_OP_ALLREDUCE), 4096, 0);
	assert_float_equal(sum_bytes(graph, LK_OP_REDUCESCATTER), 0, 0);
	assert_float_equal(sum_bytes(graph, LK_OP_ALLGATHER), 0, 0);
	OK(lc_lower(m.steps, &m.sizes, 0, true, &hosts, err));
	assert_float_equal(sum_bytes(hosts, LK_OP_ALLREDUCE), 0, 0);
	assert_float_equal(sum_bytes(hosts, LK_OP_REDUCESCATTER), 4096, 0);
	assert_float_equal(sum_bytes(hosts, LK_OP_ALLGATHER), 4096, 0);
	lk_arena arena = LK_ARENA_INIT;
	lk_cluster cluster;
	lk_constants constants;
	lk_timed fused, plain;
	struct made all =
		make("program p(mesh dp) { dim N in g : f32[N] @ P(sum,dp) out allreduce(g, sum, dp) }",
	         NULL, "dp=128,N=1024");
	lk_timed_constants(&constants);
	OK(lk_cluster_parse(&arena, "8 node * 16 v100-sxm3-32 nvlink2, nic 8*100g", &cluster, err));
	OK(lk_time_steps(m.steps, &m.sizes, &cluster, NULL, &constants, 0, &fused, err));
	OK(lk_time_steps(all.steps, &all.sizes, &cluster, NULL, &constants, 0, &plain, err));
	assert_true(fused.seconds >= plain.seconds && fused.seconds < 1.2 * plain.seconds);
	lk_arena_free(&arena);
	lk_graph_free(graph);
	lk_graph_free(hosts);
	drop(&all);
	drop(&m);
}

/* Tiles of one kernel take its time together, whatever their number; the last message, which
 * nothing follows, takes what one of its size takes. */
static void test_pieces(void **state) {
	(void)state;
	struct made m =
		make("program p(mesh tp) { dim B, H in x : bf16[B,H] @ S(1,tp) in w : bf16[H,H] @ S(0,tp)\n"
	         "y = matmul(x, w) z = allreduce(y, sum, tp) out z }\n"
	         "schedule o { overlap {y,z} chunk }",
	         "o", "tp=8,B=8192,H=8192");
	lk_arena arena = LK_ARENA_INIT;
	lk_cluster cluster;
	lk_constants constants;
	lk_timed_constants(&constants);
	lk_cost_options options = {.constants = &constants, .cuda_graphs = true};
	OK(lk_cluster_parse(&arena, "8 h100-sxm", &cluster, err));
	lk_group_shape group = {.node = cluster.node,
	                        .ranks = 8,
	                        .nodes = 1,
	                        .ranks_per_node = 8,
	                        .sharing = 1,
	                        .apart = 1};
	double product = 0, bytes = 2. * 8192 * 8192;
	for (int64_t chunks = 2; chunks <= 64; chunks *= 2) {
		lk_graph *graph = lowered(&m, chunks);
		lk_costs costs;
		double sums[2] = {0}, flops = 0, last = 0;
		OK(lk_costs_build(&arena, graph, &cluster, &options, &costs, err));
		for (uint32_t i = 0; i < graph->ops.count; i++) {
			double ps = (double)lk_costs_get(&costs, 0, i)->duration_ps;
			bool moves = lk_op_is_comm(graph->ops.kind[i]);
			if (moves) last = ps;
			sums[moves] += ps;
			flops += graph->ops.flops[i];
		}
		if (chunks == 2) product = sums[0];
		assert_float_equal(flops, 2. * 8192 * 8192 * 1024, 1);
		assert_float_equal(sum_bytes(graph, LK_OP_ALLREDUCE), bytes, 1);
		assert_picoseconds(sums[0] / LK_PS_PER_S, product / LK_PS_PER_S, chunks);
		double whole = lk_collective_cost(LK_COLL_ALLREDUCE, &group, bytes).seconds,
			   part = lk_collective_cost(LK_COLL_ALLREDUCE, &group, bytes / (double)chunks).seconds;
		assert_picoseconds(sums[1] / LK_PS_PER_S, whole, chunks);
		assert_picoseconds(last / LK_PS_PER_S, part, 1);
		lk_graph_free(graph);
	}
	lk_arena_free(&arena);
	drop(&m);
}

/* Processes on hosts: MPI's collectives and messages, of groups as they lie on the nodes: dp
 * inside, pp between. */
static void test_hosts(void **state) {
	(void)state;
	struct made m =
		make("program p(mesh pp, dp) { dim N in g : f32[N] @ P(sum,dp) in x : f32[N] @ S(0,pp)\n"
	         "out allreduce(g, sum, dp), permute(x, pp, shift=1) }",
	         NULL, "pp=2,dp=4,N=1000000");
	lk_device cpu = {.name = "cpu",
	                 .arch = LK_ARCH_CPU,
	                 .vector_flops = 1e11,
	                 .memory_rate = 1e10,
	                 .stream_rate = 1e10,
	                 .sms = 4};
	lk_node node = {.device = &cpu, .gpus = 4, .intra_rate = 1e10, .nics = 1, .nic_rate = 1e9};
	int nodes = 2;
	lk_cluster cluster = {
		.groups = 1, .node = &node, .nodes = &nodes, .gpus = 8, .oversubscription = 1};
	lk_group_shape inside = {.node = &node,
	                         .ranks = 4,
	                         .nodes = 1,
	                         .ranks_per_node = 4,
	                         .sharing = 1,
	                         .oversubscription = 1};
	lk_group_shape between = {.node = &node,
	                          .ranks = 2,
	                          .nodes = 2,
	                          .ranks_per_node = 1,
	                          .sharing = 4,
	                          .oversubscription = 1};
	lk_constants constants;
	lk_timed t;
	lk_timed_constants(&constants);
	double reduced = lk_host_collective(LK_HOST_MPI, LK_COLL_ALLREDUCE, &inside, 4e6).seconds;
	double sent = lk_host_collective(LK_HOST_MPI, LK_COLL_SENDRECV, &between, 2e6).seconds;
	OK(lk_time_steps(m.steps, &m.sizes, &cluster, NULL, &constants, 0, &t, err));
	assert_float_equal(t.exposed_s, reduced + sent, 0.02 * (reduced + sent));
	assert_true(sent > reduced / 4);
	/* As measured, where it was: the library's collective, and messages of the program's own. */
	lk_host_messages messages = {
		.inside = {.count = 1, .bytes = {1e6}, .alone = {2e-3}, .both = {3e-3}},
		.collective[LK_COLL_ALLREDUCE] = {.count = 1,
	                                      .ranks = 4,
	                                      .nodes = 1,
	                                      .bytes = {4e6},
	                                      .alone = {50e-3},
	                                      .behind = {20e-3}}};
	OK(lk_time_steps(m.steps, &m.sizes, &cluster, &messages, &constants, 0, &t, err));
	assert_float_equal(t.exposed_s, 50e-3 + sent, 0.02 * 50e-3);
	drop(&m);
}

/* Drawing for dropout takes a core's cycles, 17 an element; more processes than cores share them.
 * Where a pass was measured that took twice what is counted for it, all do. */
static void test_host_dropout(void **state) {
	(void)state;
	struct made m = make("program p(mesh dp) { dim N in x : f32[N]\nout dropout(x, 0.5, key=1) }",
	                     NULL, "dp=4,N=1000000");
	lk_device cpu = {.name = "cpu",
	                 .arch = LK_ARCH_CPU,
	                 .vector_flops = 1e12,
	                 .memory_rate = 1e12,
	                 .stream_rate = 1e12,
	                 .clock_hz = 2e9,
	                 .sms = 2};
	lk_node node = {.device = &cpu, .gpus = 1, .intra_rate = 1e10};
	int nodes = 1;
	lk_cluster cluster = {
		.groups = 1, .node = &node, .nodes = &nodes, .gpus = 1, .oversubscription = 1};
	lk_arena arena = LK_ARENA_INIT;
	lk_constants constants;
	lk_timed t;
	lk_timed_constants(&constants);
	OK(lk_timed_share_host(&arena, 4, &cluster, err));
	OK(lk_time_steps(m.steps, &m.sizes, &cluster, NULL, &constants, 0, &t, err));
	assert_float_equal(t.seconds, 17e6 / 2e9 * 4 / 2, 1e-4);
	lk_host_messages measured = {.gelu_cycles = 2 * lc_gelu_cycles()};
	OK(lk_time_steps(m.steps, &m.sizes, &cluster, &measured, &constants, 0, &t, err));
	assert_float_equal(t.seconds, 2 * 17e6 / 2e9 * 4 / 2, 1e-4);
	lk_arena_free(&arena);
	drop(&m);
}

/* Every example and schedule: a whole graph of all ranks. */
static void check_file(const char *path, const char *text) {
	lc_file *file = NULL;
	OK(lc_parse(path, text, strlen(text), &file, err));
	for (size_t i = 0; i < file->programs.count; i++)
		for (int k = -1; k < (int)file->programs.at[i]->schedules.count; k++)
			for (int ranks = 1; ranks <= 4; ranks++) {
				const lc_program *program = file->programs.at[i];
				lc_program *q = NULL;
				lc_steps *steps = NULL;
				lc_sizes sizes;
				lk_graph *graph = NULL;
				lk_error e = {0};
				lk_status status =
					lc_rewrite_all(program, k < 0 ? NULL : &program->schedules.at[k], &q, &e);
				if (status == LK_ERR_INTERNAL || q->axis_count != program->axis_count) {
					lc_program_free(q);
					continue;
				}
				assert_int_equal(status, LK_OK);
				OK(lc_sizes_read(program, "", ranks, &sizes, err));
				OK(lc_steps_make(q, &steps, err));
				OK(lc_lower(steps, &sizes, 0, ranks % 2, &graph, err));
				OK(lk_graph_check(graph, err));
				assert_int_equal(graph->ranks.world, lc_ranks(q, &sizes));
				lk_graph_free(graph);
				lc_steps_free(steps);
				lc_sizes_free(&sizes);
				lc_program_free(q);
			}
	lc_file_free(file);
}

static void test_examples(void **state) {
	(void)state;
	DIR *folder = opendir("examples/lang");
	assert_non_null(folder);
	for (struct dirent *dirent; (dirent = readdir(folder));) {
		char path[512], *text;
		size_t size;
		if (!strstr(dirent->d_name, ".lk")) continue;
		snprintf(path, sizeof path, "examples/lang/%s", dirent->d_name);
		OK(lk_stream_slurp(path, LC_TEXT_LIMIT, &text, &size, err));
		check_file(path, text);
		free(text);
	}
	closedir(folder);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_adam_bytes),
		cmocka_unit_test(test_uneven),
		cmocka_unit_test(test_matmul),
		cmocka_unit_test(test_memory),
		cmocka_unit_test(test_buckets),
		cmocka_unit_test(test_list_as_flat),
		cmocka_unit_test(test_send),
		cmocka_unit_test(test_permute),
		cmocka_unit_test(test_serial),
		cmocka_unit_test(test_overlap),
		cmocka_unit_test(test_collectives_alike),
		cmocka_unit_test(test_fused_pass),
		cmocka_unit_test(test_pieces),
		cmocka_unit_test(test_hosts),
		cmocka_unit_test(test_host_dropout),
		cmocka_unit_test(test_examples),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
