/* test_edit.c: edits of step graphs: what they leave alone, what they conserve, and small graphs of
 * traces edited by hand. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/stats.h"
#include "graph/edit/edit.h"

enum { CPU, GPU, NET, FREE };

static void ok(lk_status status, const lk_error *err) {
	char text[1000];
	if (status != LK_OK) fail_msg("%s", lk_error_text(err, text, sizeof text));
}

/* ---- a captured rank: backward of some layers, each with a launch, gradients reduced by a team
 * ---- */

struct shape {
	int layers;
	double bytes; /* of a reduction */
	bool late;    /* all reductions behind the backward pass */
	bool waited;  /* the host waits for the second one half-way */
};

static uint32_t add(lk_graph *graph, lk_op op, uint32_t dep) {
	op.deps = &dep;
	op.dep_count = dep != UINT32_MAX;
	return lk_graph_add(graph, &op);
}

static uint32_t launch(lk_graph *graph, const char *name, uint8_t phase) {
	return add(graph,
	           (lk_op){.kind = LK_OP_HOST,
	                   .stream = CPU,
	                   .phase = phase,
	                   .name = name,
	                   .measured_ps = 5000000},
	           UINT32_MAX);
}

static uint32_t reduction(lk_graph *graph, const struct shape *shape, uint32_t behind) {
	uint32_t from = launch(graph, "cudaLaunchKernelExC", LK_PHASE_BACKWARD),
			 deps[2] = {from, behind};
	lk_op op = {.kind = LK_OP_ALLREDUCE,
	            .stream = NET,
	            .phase = LK_PHASE_BACKWARD,
	            .group = LK_GROUP_TEAM,
	            .name = "ncclDevKernel_AllReduce",
	            .bytes = shape->bytes,
	            .measured_ps = 300000000,
	            .deps = deps,
	            .dep_count = 2};
	return lk_graph_add(graph, &op);
}

static lk_op product(lk_phase phase, int64_t measured_ps) {
	return (lk_op){.kind = LK_OP_GEMM,
	               .stream = GPU,
	               .phase = phase,
	               .dtype = LK_BF16,
	               .name = "gemm",
	               .m = 4096,
	               .n = 4096,
	               .k = 4096,
	               .batch = 1,
	               .bytes = 1e8,
	               .flops = 1.4e11,
	               .measured_ps = measured_ps};
}

static void backward(lk_graph *graph, const struct shape *shape) {
	uint32_t second = UINT32_MAX, gradient[64];
	for (int l = 0; l < shape->layers; l++) {
		uint32_t from = launch(graph, "cudaLaunchKernel", LK_PHASE_BACKWARD);
		gradient[l] = add(graph, product(LK_PHASE_BACKWARD, 400000000), from);
		if (shape->late) continue;
		uint32_t op = reduction(graph, shape, gradient[l]);
		if (l == 1) second = op;
		if (shape->waited && l == shape->layers / 2)
			add(graph, (lk_op){.kind = LK_OP_HOST, .stream = CPU, .name = "cudaEventSynchronize"},
			    second);
	}
	for (int l = 0; l < shape->layers && shape->late; l++) reduction(graph, shape, gradient[l]);
}

static void optimizer(lk_graph *graph, int kernels) {
	for (int k = 0; k < kernels; k++) {
		uint32_t from = launch(graph, "cudaLaunchKernel", LK_PHASE_OPTIMIZER);
		lk_op op = {.kind = LK_OP_OPTIMIZER,
		            .stream = GPU,
		            .phase = LK_PHASE_OPTIMIZER,
		            .name = "adam",
		            .bytes = 1e6,
		            .measured_ps = 9000000,
		            .join = k == 0 ? LK_JOIN(NET) : 0};
		add(graph, op, from);
	}
}

static lk_graph *captured(const struct shape *shape, int ranks) {
	lk_graph *graph = lk_graph_new();
	lk_error err = {0};
	uint32_t id;
	assert_non_null(graph);
	graph->traced = true;
	graph->peak_dtype = LK_BF16;
	ok(lk_graph_set_programs(graph, (uint32_t)ranks, 0, &err), &err);
	graph->ranks.chains = 1;
	graph->ranks.world = (uint32_t)ranks;
	for (int r = 0; r < ranks; r++) {
		lk_graph_begin_block(graph, "rank");
		uint32_t from = launch(graph, "cudaLaunchKernel", LK_PHASE_FORWARD);
		add(graph, product(LK_PHASE_FORWARD, 350000000), from);
		backward(graph, shape);
		optimizer(graph, 4);
		ok(lk_graph_end_block(graph, &id, &err), &err);
		lk_call call = {.block = id, .repeat = 1, .microbatch = -1, .layer = -1};
		ok(lk_graph_call(graph, (uint32_t)r, &call, &err), &err);
		graph->programs.at[r].threads = LK_JOIN(CPU);
		assert_true(lk_push(&graph->team_stages));
		*lk_last(&graph->team_stages) = (uint32_t)r;
	}
	assert_true(lk_push(&graph->teams));
	*lk_last(&graph->teams) = (lk_team){.name = lk_intern_id(graph->names, "default_pg"),
	                                    .end = (uint32_t)ranks,
	                                    .ranks = (uint32_t)ranks};
	ok(lk_graph_check(graph, &err), &err);
	return graph;
}

static lk_edit edited(const struct shape *shape, int ranks) {
	lk_graph *graph = captured(shape, ranks);
	lk_error err = {0};
	lk_edit edit;
	ok(lk_edit_begin(graph, &edit, &err), &err);
	lk_graph_free(graph);
	return edit;
}

/* ---- sums that edits conserve ---- */

struct sums {
	double bytes, measured, flops;
	int count;
};

static struct sums of_kind(const lk_edit *edit, unsigned kind) {
	struct sums s = {0};
	const lk_ops *ops = &edit->graph->ops;
	assert_int_equal(edit->op.count, ops->count);
	for (uint32_t i = 0; i < ops->count; i++) {
		if (ops->kind[i] != kind) continue;
		s.bytes += ops->bytes[i];
		s.flops += ops->flops[i];
		s.measured += edit->op.at[i].measured_ps;
		s.count++;
	}
	return s;
}

static void sound(lk_edit *edit) {
	lk_error err = {0};
	ok(lk_graph_check(edit->graph, &err), &err);
	assert_int_equal(edit->op.count, edit->graph->ops.count);
}

static const bool all_teams[1] = {true};

/* ---- names ---- */

static void patterns_match(void **state) {
	(void)state;
	assert_true(lk_glob("*", ""));
	assert_true(lk_glob("a*c", "abbc"));
	assert_true(lk_glob("*ab*ab", "abxababab"));
	assert_true(lk_glob("mlp_?own", "mlp_down"));
	assert_false(lk_glob("mlp_?own", "mlp_own"));
	assert_false(lk_glob("a*c", "abb"));
	assert_false(lk_glob("", "a"));
	/* Many stars take no more than a product of lengths. */
	char name[4001];
	memset(name, 'a', 4000);
	name[4000] = '\0';
	assert_false(lk_glob("*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b", name));
}

/* ---- copies ---- */

static char *listing(const lk_graph *graph) {
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	lk_error err = {0};
	ok(lk_graph_put(graph, out, &err), &err);
	fclose(out);
	return text;
}

static void copies_are_equal(void **state) {
	(void)state;
	lk_graph *graph = captured(&(struct shape){.layers = 5, .bytes = 1e7}, 3), *copy;
	lk_error err = {0};
	ok(lk_graph_copy(graph, &copy, &err), &err);
	char *a = listing(graph), *b = listing(copy);
	assert_string_equal(a, b);
	assert_int_equal(copy->teams.count, 1);
	assert_int_equal(copy->team_stages.at[2], 2);
	assert_true(copy->traced);
	for (uint32_t i = 0; i < graph->ops.count; i++)
		assert_int_equal(graph->ops.measured_ps[i], copy->ops.measured_ps[i]);
	free(a);
	free(b);
	lk_graph_free(copy);
	lk_graph_free(graph);
}

/* ---- buckets ---- */

static void buckets_conserve_bytes(void **state) {
	(void)state;
	for (int trial = 0; trial < 200; trial++) {
		uint64_t seed = lk_hash64((uint64_t)trial);
		struct shape s = {.layers = 1 + (int)(seed % 20),
		                  .bytes = 1e4 + (double)(seed >> 8 & 0xffffff),
		                  .late = seed >> 40 & 1,
		                  .waited = seed >> 41 & 1};
		double bytes = 2e4 + (double)(seed >> 13 & 0x3ffffff);
		lk_edit edit = edited(&s, 2);
		lk_error err = {0};
		struct sums before = of_kind(&edit, LK_OP_ALLREDUCE);
		ok(lk_edit_buckets(&edit, bytes, all_teams, &err), &err);
		struct sums after = of_kind(&edit, LK_OP_ALLREDUCE);
		assert_true(fabs(before.bytes - after.bytes) < 1e-6 * before.bytes);
		assert_true(fabs(before.measured - after.measured) < 1e-6 * before.measured);
		/* No fewer than fit, and none larger than asked. */
		assert_true(after.count >= 2 * (int)ceil(before.bytes / 2 / bytes * (1 - 1e-9)));
		for (uint32_t i = 0; i < edit.op.count; i++)
			if (edit.graph->ops.kind[i] == LK_OP_ALLREDUCE)
				assert_true(edit.graph->ops.bytes[i] <= bytes * (1 + 1e-9));
		sound(&edit);
		lk_edit_free(&edit);
	}
}

static void buckets_of_their_size_change_nothing(void **state) {
	(void)state;
	lk_edit edit = edited(&(struct shape){.layers = 6, .bytes = 25e6}, 2);
	lk_error err = {0};
	char *before = listing(edit.graph);
	ok(lk_edit_buckets(&edit, 25e6, all_teams, &err), &err);
	char *after = listing(edit.graph);
	assert_string_equal(before, after);
	assert_int_equal(edit.changed, 0);
	free(before);
	free(after);
	lk_edit_free(&edit);
}

/* The one waits for what all its parts waited for. */
static void merged_buckets_wait_for_all(void **state) {
	(void)state;
	lk_edit edit = edited(&(struct shape){.layers = 4, .bytes = 10e6}, 1);
	lk_error err = {0};
	ok(lk_edit_buckets(&edit, 45e6, all_teams, &err), &err);
	const lk_ops *ops = &edit.graph->ops;
	assert_int_equal(of_kind(&edit, LK_OP_ALLREDUCE).count, 1);
	for (uint32_t i = 0; i < ops->count; i++)
		if (ops->kind[i] == LK_OP_ALLREDUCE)
			assert_int_equal(ops->dep_begin[i + 1] - ops->dep_begin[i], 8);
	sound(&edit);
	lk_edit_free(&edit);
}

/* A host that waits for the second reduction half-way keeps what comes later out of its bucket. */
static void what_is_waited_for_is_not_delayed(void **state) {
	(void)state;
	lk_edit edit = edited(&(struct shape){.layers = 8, .bytes = 1e6, .waited = true}, 1);
	lk_error err = {0};
	ok(lk_edit_buckets(&edit, 1e9, all_teams, &err), &err);
	assert_int_equal(of_kind(&edit, LK_OP_ALLREDUCE).count, 2);
	const lk_ops *ops = &edit.graph->ops;
	for (uint32_t i = 0; i < ops->count; i++) {
		if (!lk_edit_waits(edit.graph, i)) continue;
		assert_int_equal(ops->dep_begin[i + 1] - ops->dep_begin[i], 1);
		assert_int_equal(ops->kind[ops->deps[ops->dep_begin[i]]], LK_OP_ALLREDUCE);
	}
	sound(&edit);
	lk_edit_free(&edit);
}

/* ---- overlap ---- */

static void late_reductions_start_at_their_share(void **state) {
	(void)state;
	lk_edit edit = edited(&(struct shape){.layers = 8, .bytes = 1e7, .late = true}, 2);
	lk_error err = {0};
	ok(lk_edit_overlap(&edit, true, all_teams, &err), &err);
	sound(&edit);
	const lk_ops *ops = &edit.graph->ops;
	const lk_block *block = &edit.graph->blocks.at[0];
	uint32_t last = 0, gemm = 0, wanted[64], found = 0;
	for (uint32_t i = block->begin; i < block->end; i++)
		if (ops->kind[i] == LK_OP_GEMM && ops->phase[i] == LK_PHASE_BACKWARD) wanted[gemm++] = i;
	for (uint32_t i = block->begin; i < block->end; i++) {
		if (ops->kind[i] == LK_OP_ALLREDUCE) {
			/* Equal layers, equal buckets: the k-th starts behind the k-th layer. */
			assert_int_equal(ops->dep_begin[i + 1] - ops->dep_begin[i], 1);
			assert_int_equal(ops->deps[ops->dep_begin[i]], wanted[found++] - block->begin);
			assert_int_equal(ops->stream[i], FREE);
			last = i;
		}
		if (ops->kind[i] == LK_OP_OPTIMIZER) assert_true(ops->join[i] >> FREE & 1);
	}
	assert_int_equal(found, 8);
	assert_true(last > wanted[7]);
	lk_edit_free(&edit);
}

static void nothing_in_backward_waits_for_overlapped_reductions(void **state) {
	(void)state;
	lk_edit edit = edited(&(struct shape){.layers = 8, .bytes = 1e7, .waited = true}, 1);
	lk_error err = {0};
	ok(lk_edit_overlap(&edit, true, all_teams, &err), &err);
	const lk_ops *ops = &edit.graph->ops;
	for (uint32_t i = 0; i < ops->count; i++)
		if (lk_edit_waits(edit.graph, i))
			assert_int_equal(ops->dep_begin[i + 1], ops->dep_begin[i]);
	sound(&edit);
	lk_edit_free(&edit);
}

static void without_overlap_all_wait(void **state) {
	(void)state;
	lk_edit edit = edited(&(struct shape){.layers = 3, .bytes = 1e7}, 1);
	lk_error err = {0};
	ok(lk_edit_overlap(&edit, false, all_teams, &err), &err);
	const lk_ops *ops = &edit.graph->ops;
	for (uint32_t i = 0; i < ops->count; i++) {
		if (ops->kind[i] == LK_OP_ALLREDUCE) assert_true(ops->join[i] >> GPU & 1);
		if (ops->kind[i] == LK_OP_GEMM) assert_true(ops->join[i] >> NET & 1);
		if (ops->kind[i] == LK_OP_HOST) assert_int_equal(ops->join[i], 0);
	}
	sound(&edit);
	lk_edit_free(&edit);
}

/* ---- the optimizer, the host ---- */

static void fused_optimizer_is_one_kernel(void **state) {
	(void)state;
	lk_edit edit = edited(&(struct shape){.layers = 3, .bytes = 1e7}, 2);
	lk_error err = {0};
	struct sums before = of_kind(&edit, LK_OP_OPTIMIZER);
	ok(lk_edit_fuse_optimizer(&edit, &err), &err);
	struct sums after = of_kind(&edit, LK_OP_OPTIMIZER);
	assert_int_equal(before.count, 8);
	assert_int_equal(after.count, 2);
	assert_true(before.bytes == after.bytes);
	assert_true(before.measured == after.measured);
	for (uint32_t i = 0; i < edit.op.count; i++)
		if (edit.graph->ops.kind[i] == LK_OP_HOST)
			assert_true(edit.op.at[i].factor ==
			            (edit.graph->ops.phase[i] == LK_PHASE_OPTIMIZER ? .25 : 1));
	sound(&edit);
	lk_edit_free(&edit);
}

static void waiting_is_no_host_work(void **state) {
	(void)state;
	lk_edit edit = edited(&(struct shape){.layers = 4, .bytes = 1e7, .waited = true}, 1);
	lk_edit_host(&edit, .5);
	for (uint32_t i = 0; i < edit.op.count; i++) {
		bool halved = edit.graph->ops.kind[i] == LK_OP_HOST && !lk_edit_waits(edit.graph, i);
		assert_true(edit.op.at[i].factor == (halved ? .5 : 1));
	}
	lk_edit_free(&edit);
}

static void removed_operations_keep_their_place(void **state) {
	(void)state;
	lk_edit edit = edited(&(struct shape){.layers = 4, .bytes = 1e7}, 1);
	uint32_t count = edit.graph->ops.count;
	lk_edit_remove(&edit, "all_reduce"); /* by kind */
	assert_int_equal(edit.changed, 4);
	assert_int_equal(edit.graph->ops.count, count);
	assert_int_equal(of_kind(&edit, LK_OP_ALLREDUCE).count, 0);
	assert_int_equal(of_kind(&edit, LK_OP_WAIT).count, 4);
	lk_edit_remove(&edit, "no such thing*");
	assert_int_equal(edit.changed, 0);
	sound(&edit);
	lk_edit_free(&edit);
}

/* ---- ranks ---- */

/* Teams: 0 reduces gradients, 1 works in the forward pass too, 2 gathers weights forward and
 * scatters gradients. */
static lk_edit with_teams(void) {
	lk_graph *graph = captured(&(struct shape){.layers = 2, .bytes = 1e7}, 2);
	lk_error err = {0};
	lk_edit edit;
	uint32_t id;
	for (uint32_t t = 1; t < 3; t++) {
		assert_true(lk_push(&graph->teams));
		*lk_last(&graph->teams) = (lk_team){
			.name = lk_intern_id(graph->names, t == 1 ? "tp" : "fsdp"), .end = 2, .ranks = 2};
	}
	static const struct {
		uint8_t kind, phase;
		int32_t team;
	} ops[] = {{LK_OP_ALLREDUCE, LK_PHASE_FORWARD, 1},
	           {LK_OP_ALLREDUCE, LK_PHASE_BACKWARD, 1},
	           {LK_OP_ALLGATHER, LK_PHASE_FORWARD, 2},
	           {LK_OP_REDUCESCATTER, LK_PHASE_BACKWARD, 2}};
	lk_graph_begin_block(graph, "more");
	for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
		lk_op op = {.kind = ops[i].kind,
		            .phase = ops[i].phase,
		            .channel = ops[i].team,
		            .group = LK_GROUP_TEAM,
		            .stream = NET,
		            .bytes = 1e6,
		            .name = "nccl"};
		lk_graph_add(graph, &op);
	}
	ok(lk_graph_end_block(graph, &id, &err), &err);
	ok(lk_edit_begin(graph, &edit, &err), &err);
	lk_graph_free(graph);
	return edit;
}

static void data_parallel_teams_are_found(void **state) {
	(void)state;
	lk_edit edit = with_teams();
	bool mask[3];
	lk_edit_data_parallel(edit.graph, mask);
	assert_true(mask[0]);
	assert_false(mask[1]);
	assert_true(mask[2]);
	lk_edit_free(&edit);
}

static void ranks_grow_by_copies(void **state) {
	(void)state;
	lk_edit edit = with_teams();
	lk_error err = {0};
	double bytes = of_kind(&edit, LK_OP_OPTIMIZER).bytes;
	ok(lk_edit_ranks(&edit, 8, NULL, &err), &err);
	assert_int_equal(edit.graph->ranks.chains, 4);
	assert_int_equal(edit.graph->ranks.world, 8);
	for (int t = 0; t < 3; t++) {
		assert_int_equal(edit.graph->teams.at[t].across, t != 1);
		assert_int_equal(edit.graph->teams.at[t].ranks, t == 1 ? 2 : 8);
	}
	assert_true(of_kind(&edit, LK_OP_OPTIMIZER).bytes ==
	            bytes / 4); /* scattered gradients: a share of the states */
	assert_int_equal(lk_edit_ranks(&edit, 9, NULL, &err), LK_ERR_INPUT);
	assert_int_equal(lk_edit_ranks(&edit, 1, NULL, &err), LK_ERR_INPUT);
	lk_edit_free(&edit);
}

static void no_gradients_no_copies(void **state) {
	(void)state;
	lk_edit edit = edited(&(struct shape){.layers = 2, .bytes = 1e7}, 2);
	lk_error err = {0};
	lk_edit_remove(&edit, "all_reduce");
	assert_int_equal(lk_edit_ranks(&edit, 4, NULL, &err), LK_ERR_INPUT);
	assert_non_null(strstr(err.what, "reduces gradients"));
	lk_edit_free(&edit);
}

/* ---- shapes ---- */

static void batches_grow_tokens(void **state) {
	(void)state;
	lk_edit edit = edited(&(struct shape){.layers = 2, .bytes = 1e7}, 1);
	double reduced = of_kind(&edit, LK_OP_ALLREDUCE).bytes,
		   states = of_kind(&edit, LK_OP_OPTIMIZER).bytes, flops = of_kind(&edit, LK_OP_GEMM).flops;
	lk_edit_batch(&edit, 2, all_teams);
	assert_true(of_kind(&edit, LK_OP_ALLREDUCE).bytes == reduced);
	assert_true(of_kind(&edit, LK_OP_OPTIMIZER).bytes == states);
	assert_true(of_kind(&edit, LK_OP_GEMM).flops == 2 * flops);
	lk_edit_batch(&edit, .5, all_teams);
	assert_true(of_kind(&edit, LK_OP_GEMM).flops == flops);
	sound(&edit);
	lk_edit_free(&edit);
}

static void formats_change_operands(void **state) {
	(void)state;
	lk_edit edit = edited(&(struct shape){.layers = 2, .bytes = 1e7}, 1);
	lk_error err = {0};
	int products = of_kind(&edit, LK_OP_GEMM).count;
	double bytes = of_kind(&edit, LK_OP_GEMM).bytes,
		   reduced = of_kind(&edit, LK_OP_ALLREDUCE).bytes;
	lk_conversion how = {.stored = 2, .operand = 1, .norms = true};
	ok(lk_edit_dtype(&edit, LK_FP8, &how, &err), &err);
	/* Two operands of 4096^2 each are read in one byte less; every product has its conversion. */
	assert_true(bytes - of_kind(&edit, LK_OP_GEMM).bytes == products * 2 * 4096.0 * 4096);
	assert_int_equal(of_kind(&edit, LK_OP_ELEMENTWISE).count, products);
	assert_true(of_kind(&edit, LK_OP_ALLREDUCE).bytes == reduced);
	sound(&edit);
	lk_edit_free(&edit);
	edit = edited(&(struct shape){.layers = 2, .bytes = 1e7}, 1);
	ok(lk_edit_dtype(&edit, LK_FP32, &how, &err), &err);
	assert_true(of_kind(&edit, LK_OP_ALLREDUCE).bytes == 2 * reduced);
	lk_edit_free(&edit);
}

/* Bytes an element as torchao's roofline_utils.py counts them for a weight, 8 with a tensor's
 * factor and 10 with those of rows; an operand is read once more for each largest value. */
static void recipes_cast_as_published(void **state) {
	(void)state;
	lk_conversion how = {.stored = 2, .operand = 1, .largest = 1, .weights = true};
	lk_conversion_pass pass[LK_CONVERSION_PASSES];
	assert_true(lk_conversion_weight_bytes(&how) == 8);
	assert_int_equal(lk_conversion_passes(&how, pass), 2);
	assert_true(pass[0].bytes + pass[1].bytes == 2 + 4);
	how.rows = true;
	assert_true(lk_conversion_weight_bytes(&how) == 10);
	assert_int_equal(lk_conversion_passes(&how, pass), 2);
	assert_true(pass[0].bytes + pass[1].bytes == 5 + 3);
	how = (lk_conversion){.stored = 2, .operand = 2, .weights = true};
	assert_int_equal(lk_conversion_passes(&how, pass), 0);
	assert_true(lk_conversion_weight_bytes(&how) == 0);

	/* every backward product of the graph that takes a gradient of the input casts its weight */
	lk_edit edit = edited(&(struct shape){.layers = 2, .bytes = 1e7}, 1);
	lk_error err = {0};
	how = (lk_conversion){.stored = 2, .operand = 1, .norms = true, .weights = true};
	int products = 0, casts = 0;
	const lk_ops *ops = &edit.graph->ops;
	for (uint32_t i = 0; i < ops->count; i++)
		products += ops->kind[i] == LK_OP_GEMM && ops->phase[i] == LK_PHASE_BACKWARD;
	ok(lk_edit_dtype(&edit, LK_FP8, &how, &err), &err);
	ops = &edit.graph->ops;
	for (uint32_t i = 0; i < ops->count; i++)
		casts += strcmp(lk_intern_text(edit.graph->names, ops->name[i]), "quantize_weight") == 0;
	assert_int_equal(casts, products);
	lk_edit_free(&edit);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(patterns_match),
		cmocka_unit_test(copies_are_equal),
		cmocka_unit_test(buckets_conserve_bytes),
		cmocka_unit_test(buckets_of_their_size_change_nothing),
		cmocka_unit_test(merged_buckets_wait_for_all),
		cmocka_unit_test(what_is_waited_for_is_not_delayed),
		cmocka_unit_test(late_reductions_start_at_their_share),
		cmocka_unit_test(nothing_in_backward_waits_for_overlapped_reductions),
		cmocka_unit_test(without_overlap_all_wait),
		cmocka_unit_test(fused_optimizer_is_one_kernel),
		cmocka_unit_test(waiting_is_no_host_work),
		cmocka_unit_test(removed_operations_keep_their_place),
		cmocka_unit_test(data_parallel_teams_are_found),
		cmocka_unit_test(ranks_grow_by_copies),
		cmocka_unit_test(no_gradients_no_copies),
		cmocka_unit_test(batches_grow_tokens),
		cmocka_unit_test(formats_change_operands),
		cmocka_unit_test(recipes_cast_as_published),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
