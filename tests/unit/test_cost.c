/* test_cost.c: properties of the kernel and communication models that hold on any hardware
 * (rooflines, monotony, limits), of contention, and of the places of ranks: every rank's costs
 * against its groups counted one by one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/units.h"
#include "cost/cost.h"
#include "cost/kernel/kernel.h"
#include "model/build/build.h"
#include "step/step.h"

static const lk_cost_options eager = {.constants = &lk_default_constants};

/* ---- graphs of a few operations ---- */

static lk_graph *graph_of(const lk_op *ops, int count) {
	lk_error err;
	lk_graph *graph = lk_graph_new();
	assert_non_null(graph);
	lk_graph_begin_block(graph, "all");
	for (int i = 0; i < count; i++) lk_graph_add(graph, &ops[i]);
	uint32_t block;
	assert_int_equal(lk_graph_end_block(graph, &block, &err), LK_OK);
	graph->ranks.world = graph->ranks.chains = graph->ranks.stages = 1;
	return graph;
}

static void lay_out(lk_graph *graph, uint32_t stages, uint32_t chains) {
	graph->ranks.stages = stages;
	graph->ranks.chains = chains;
	graph->ranks.world = stages * chains;
	const int across[] = {LK_GROUP_PP, LK_GROUP_EMBEDDING, LK_GROUP_MODEL};
	for (int i = 0; i < 3; i++) graph->ranks.group[across[i]].stride = chains;
	graph->ranks.group[LK_GROUP_PP].size = stages;
	graph->ranks.group[LK_GROUP_EMBEDDING].size = stages > 1 ? 2 : 1;
	graph->ranks.group[LK_GROUP_MODEL].size = 1;
}

static void set_group(lk_graph *graph, int kind, uint32_t size, uint32_t stride) {
	graph->ranks.group[kind].size = size;
	graph->ranks.group[kind].stride = stride;
}

/* One operation on one device, through lk_costs_build. */
static lk_cost cost_on(const lk_device *device, const lk_op *op, const lk_cost_options *options) {
	lk_error err;
	lk_arena arena = LK_ARENA_INIT;
	lk_cluster cluster;
	lk_costs costs;
	lk_graph *graph = graph_of(op, 1);
	assert_int_equal(lk_cluster_simple(&arena, device, 1, 0, 0, &cluster, &err), LK_OK);
	assert_int_equal(lk_costs_build(&arena, graph, &cluster, options, &costs, &err), LK_OK);
	assert_int_equal(costs.variants, 1);
	assert_null(costs.variant_of);
	lk_cost cost = *lk_costs_get(&costs, 0, 0);
	lk_graph_free(graph);
	lk_arena_free(&arena);
	return cost;
}

static double seconds_on(const lk_device *device, const lk_op *op) {
	return cost_on(device, op, &eager).duration_ps / LK_PS_PER_S;
}

static lk_op gemm(double m, double n, double k, double batch) {
	return (lk_op){
		.kind = LK_OP_GEMM,
		.stream = LK_STREAM_COMPUTE,
		.dtype = LK_BF16,
		.name = "gemm",
		.m = m,
		.n = n,
		.k = k,
		.batch = batch,
		.flops = 2 * m * n * k * batch,
		.bytes = 2 * batch * (m * k + k * n + m * n),
	};
}

static const lk_device *device_of(const char *name) {
	const lk_device *device = lk_device_find(name);
	assert_non_null(device);
	return device;
}

/* ---- every kind, every device ---- */

static void check_shares(const lk_cost *cost) {
	const float shares[] = {cost->sm, cost->compute, cost->memory, cost->intra, cost->nic};
	for (size_t i = 0; i < sizeof shares / sizeof *shares; i++)
		assert_true(shares[i] >= 0 && shares[i] <= 1);
	assert_true(isfinite(cost->waves) && cost->waves >= 0);
	assert_int_equal(cost->lead_ps, cost->host_ps);
	assert_int_equal(cost->tail_ps, cost->duration_ps);
}

static lk_op op_of_kind(unsigned kind) {
	lk_op op = gemm(1024, 512, 256, 4);
	op.kind = (uint8_t)kind;
	op.name = lk_op_kind_name(kind);
	if (kind == LK_OP_HOST) {
		op.m = 1e-3;
		op.bytes = 0;
	}
	if (lk_op_is_comm(kind))
		op = (lk_op){.kind = (uint8_t)kind, .name = op.name, .bytes = 1e6, .group = LK_GROUP_TP};
	if (kind == LK_OP_SEND) {
		op.group = LK_GROUP_PP;
		op.stream = LK_STREAM_SEND_FORWARD;
	}
	if (kind == LK_OP_RECV) {
		op.group = LK_GROUP_PP;
		op.stream = LK_STREAM_RECV_FORWARD;
	}
	return op;
}

static void every_kind_takes_time_on_every_device(void **state) {
	(void)state;
	lk_op ops[LK_OP_COUNT];
	for (unsigned kind = 0; kind < LK_OP_COUNT; kind++) ops[kind] = op_of_kind(kind);
	lk_graph *graph = graph_of(ops, LK_OP_COUNT);
	lay_out(graph, 2, 2);
	set_group(graph, LK_GROUP_TP, 2, 1);
	assert_true(lk_device_count() > 40);
	for (int d = 0; d < lk_device_count(); d++) {
		lk_error err;
		lk_arena arena = LK_ARENA_INIT;
		lk_cluster cluster;
		lk_costs costs;
		assert_int_equal(lk_cluster_simple(&arena, lk_device_at(d), 4, 0, 0, &cluster, &err),
		                 LK_OK);
		assert_int_equal(lk_costs_build(&arena, graph, &cluster, &eager, &costs, &err), LK_OK);
		for (uint32_t v = 0; v < costs.variants; v++)
			for (unsigned kind = 0; kind < LK_OP_COUNT; kind++) {
				const lk_cost *cost = lk_costs_get(&costs, v, kind);
				bool free = kind == LK_OP_WAIT || kind == LK_OP_MACRO;
				if (free ? cost->duration_ps != 0
				         : cost->duration_ps <= 0 || cost->duration_ps > LK_PS_PER_S)
					fail_msg("%s on %s: %lld ps", lk_op_kind_name(kind), lk_device_at(d)->name,
					         (long long)cost->duration_ps);
				check_shares(cost);
			}
		lk_arena_free(&arena);
	}
	lk_graph_free(graph);
}

static void absurd_sizes_stay_finite(void **state) {
	(void)state;
	const double sizes[] = {0, 1e-300, 1, 1e9, 1e18, 1e300};
	for (unsigned kind = 0; kind < LK_OP_COUNT; kind++)
		for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
			lk_op op = op_of_kind(kind);
			op.m = op.n = op.k = op.batch = sizes[i];
			op.flops = op.bytes = sizes[i];
			lk_cost c = cost_on(device_of("h100-sxm"), &op, &eager);
			assert_true(c.duration_ps >= 0 && c.duration_ps <= (int64_t)9e17);
		}
}

static void measured_times_win(void **state) {
	(void)state;
	lk_op op = gemm(4096, 4096, 4096, 1);
	op.measured_ps = 123456789;
	assert_int_equal(cost_on(device_of("h100-sxm"), &op, &eager).duration_ps, 123456789);
}

/* ---- matrix products ---- */

/* More work in m, n or batch takes at least as long. In k it may be quicker once a split along k
 * becomes possible (from 1024 and 2048 on): the halves run side by side, so never less than half.
 */
static void gemm_time_grows(void **state) {
	(void)state;
	const double sides[] = {1,    16,   100,  128,  129,  511,  512,   1000,
	                        1024, 1025, 2047, 2048, 4096, 5000, 16384, 100000};
	const int count = sizeof sides / sizeof *sides;
	const char *const names[] = {"h100-sxm", "a100-sxm-80", "v100-sxm-16", "t4", "mi300x"};
	for (int d = 0; d < 5; d++)
		for (int i = 0; i < count; i += 3)
			for (int j = 1; j < count; j += 3) {
				double last[4] = {0};
				for (int x = 0; x < count; x++) {
					double whole = ceil(sides[x] / 32) * 32; /* rows of whole sectors */
					const lk_op by[4] = {
						gemm(sides[x], sides[i], sides[j], 1),
						gemm(sides[i], whole, sides[j], 1),
						gemm(sides[i], sides[j], 640, sides[x]),
						gemm(sides[i], sides[j], whole, 1),
					};
					for (int which = 0; which < 4; which++) {
						double now = seconds_on(device_of(names[d]), &by[which]);
						if (now < last[which] * (which == 3 ? 0.5 : 1))
							fail_msg("%s, %d: %g x %g, %g: %g after %g s", names[d], which,
							         sides[i], sides[j], sides[x], now, last[which]);
						last[which] = fmax(now, last[which]);
					}
				}
			}
}

/* Rows that are not whole sectors, and not whole pieces that tensor cores take. */
static void odd_rows_are_slower(void **state) {
	(void)state;
	const lk_device *device = device_of("a100-sxm-80");
	const lk_op whole = gemm(8192, 14400, 1792, 1), sectors = gemm(8192, 14400, 1800, 1),
				pieces = gemm(8192, 14400, 1796, 1);
	double rate = 1792 / seconds_on(device, &whole);
	assert_true(1800 / seconds_on(device, &sectors) < .85 * rate);
	assert_true(1796 / seconds_on(device, &pieces) < .6 * rate);
	/* one element at a time: within the spread of GPT-2's three products with the vocabulary on an
	 * H200; a single row is no matter of addresses */
	const lk_device *h200 = device_of("h200");
	const lk_op head = gemm(8192, 50257, 768, 1), even = gemm(8192, 50258, 768, 1),
				vector = gemm(8192, 1, 768, 1), narrow = gemm(8192, 2, 768, 1);
	double flops = 2.0 * 8192 * 50257 * 768 / seconds_on(h200, &head);
	assert_true(flops > 95e12 && flops < 147e12);
	assert_true(seconds_on(h200, &head) > 1.5 * seconds_on(h200, &even));
	assert_true(seconds_on(h200, &vector) <= seconds_on(h200, &narrow));
}

static void gemm_stays_under_its_roofs(void **state) {
	(void)state;
	const double sides[] = {1, 64, 300, 1024, 8192};
	for (int d = 0; d < lk_device_count(); d++) {
		const lk_device *device = lk_device_at(d);
		lk_gemm_numbers products[LK_PRODUCTS];
		lk_step_products(device, products);
		for (int i = 0; i < 125; i++) {
			lk_op op = gemm(sides[i % 5], sides[i / 5 % 5], sides[i / 25], 3);
			double time = seconds_on(device, &op);
			assert_true(time >= op.flops / lk_peak_flops(device, LK_BF16));
			assert_true(time >= op.bytes / device->memory_rate - 1e-12);
			assert_true(time >= products[0].floor_s);
		}
	}
}

static void large_gemm_reaches_its_efficiency(void **state) {
	(void)state;
	for (int d = 0; d < lk_device_count(); d++) {
		const lk_device *device = lk_device_at(d);
		lk_op op = gemm(1 << 15, 1 << 15, 1 << 17, 1);
		double wanted = op.flops / lk_step_gemm_flops(&lk_default_constants, device, LK_BF16);
		double time = seconds_on(device, &op);
		if (time < wanted || time > wanted * 1.04)
			fail_msg("%s: %g s, not %g s", device->name, time, wanted);
	}
}

/* Published rates at the power that they were measured at; in between, and beyond, more power is
 * never slower. */
static void power_sets_the_rate_of_products(void **state) {
	(void)state;
	static const struct {
		const char *name;
		double bf16, fp8;
	} published[] = {{"h100-sxm", 782, 1385},
	                 {"b200", 1404, 2759},
	                 {"gb200", 1465, 2905},
	                 {"b300", 1503, 2817},
	                 {"mi325x", 843, 1517}};
	for (size_t i = 0; i < sizeof published / sizeof *published; i++) {
		const lk_device *device = lk_device_find(published[i].name);
		assert_non_null(device);
		assert_float_equal(lk_sustained_flops(device, LK_BF16) / 1e12, published[i].bf16, 1);
		assert_float_equal(lk_sustained_flops(device, LK_FP8) / 1e12, published[i].fp8, 1);
	}
	/* half the rate of a professional card's SMs is reached whole, at any of these powers */
	const lk_device *games = lk_device_find("rtx-4090"), *card = lk_device_find("rtx-6000-ada");
	assert_true(lk_sustained_flops(games, LK_BF16) > .9 * games->peak_flops[LK_BF16]);
	assert_true(lk_sustained_flops(card, LK_BF16) < .6 * card->peak_flops[LK_BF16]);
	for (int d = 0; d < lk_device_count(); d++) {
		lk_device device = *lk_device_at(d);
		double rated = device.power_w, last[2] = {0};
		for (int percent = 20; rated > 0 && percent <= 200; percent++) {
			device.power_w = rated * percent / 100;
			double rate[] = {
				lk_sustained_flops(&device, LK_FP8),
				lk_published_attention(&device, LK_ATTENTION_CUDNN, false).flops,
			};
			for (int k = 0; k < 2; k++) {
				assert_true(rate[k] >= last[k] * (1 - 1e-9));
				last[k] = rate[k];
			}
		}
	}
	/* half as many more units for fp4 at the same power are less than half as much more */
	double gain = lk_sustained_flops(lk_device_find("b300"), LK_NVFP4) /
	              lk_sustained_flops(lk_device_find("b200"), LK_NVFP4);
	assert_true(gain > 1.1 && gain < 1.5);
}

/* cuDNN before 9.13 was slower on Blackwell, and nowhere else. */
static void early_attention_is_slower_on_blackwell(void **state) {
	(void)state;
	for (int d = 0; d < lk_device_count(); d++) {
		const lk_device *device = lk_device_at(d);
		lk_constants now = lk_default_constants, before = now;
		now.attention = LK_ATTENTION_CUDNN;
		before.attention = LK_ATTENTION_CUDNN_EARLY;
		for (int backward = 0; backward < 2; backward++) {
			double ratio = lk_step_attention(&now, device, backward).flops /
			               lk_step_attention(&before, device, backward).flops;
			bool large = device->arch == LK_ARCH_BLACKWELL && device->shared_kib > 128;
			assert_float_equal(ratio, large ? 1.3 : 1, .01);
		}
	}
	lk_job job = {.attn_library = LK_ATTN_LIBRARY_CUDNN};
	static const struct {
		const char *stack, *release;
		bool early;
	} of[] = {{"nemo", "25.04", true},  {"nemo", "26.02", false},  {"nemo", "", false},
	          {"mlperf", "v5.0", true}, {"mlperf", "v5.1", false}, {"mlperf-lora", "v4.1", true},
	          {"megatron", "", false}};
	for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
		snprintf(job.profile, sizeof job.profile, "%s", of[i].stack);
		snprintf(job.release, sizeof job.release, "%s", of[i].release);
		assert_int_equal(lk_profile_attention(&job) == LK_ATTENTION_CUDNN_EARLY, of[i].early);
	}
}

static void formats_fall_back_to_wider_ones(void **state) {
	(void)state;
	for (int d = 0; d < lk_device_count(); d++) {
		const lk_device *device = lk_device_at(d);
		double last = 0;
		for (int dtype = LK_DTYPES - 1; dtype >= 0; dtype--) {
			double peak = lk_peak_flops(device, (lk_dtype)dtype);
			assert_true(peak > 0 && isfinite(peak));
			if (device->peak_flops[dtype] > 0) assert_true(peak == device->peak_flops[dtype]);
			else if (dtype > LK_TF32)
				assert_true(peak == lk_peak_flops(device, (lk_dtype)(dtype - 1)));
			last = fmax(last, peak);
		}
		assert_true(last >= lk_peak_flops(device, LK_FP32));
	}
	lk_op wide = gemm(8192, 8192, 8192, 1), narrow = wide;
	narrow.dtype = LK_FP8;
	assert_true(seconds_on(device_of("a100-sxm-80"), &wide) ==
	            seconds_on(device_of("a100-sxm-80"), &narrow));
	assert_true(seconds_on(device_of("h100-sxm"), &wide) >
	            1.7 * seconds_on(device_of("h100-sxm"), &narrow));
}

/* ---- attention ---- */

/* Time of the forward attention of one layer, 4096 tokens, as a whole job's graph has it. */
static double attention_seconds(bool causal, int window) {
	lk_error err;
	lk_arena arena = LK_ARENA_INIT;
	lk_cluster cluster;
	lk_costs costs;
	lk_graph *graph = NULL;
	lk_job job = {.gpus = 1, .mbs = 4, .seq = 4096, .dtype = LK_BF16, .dtype_said = true};
	job.model = (lk_model){
		.name = "test",
		.family = "gpt2",
		.network = causal ? LK_NET_DECODER : LK_NET_ENCODER,
		.layers = 2,
		.hidden = 2048,
		.heads = 16,
		.kv_heads = 16,
		.head_dim = 128,
		.ffn = 8192,
		.vocab = 32000,
		.context = 4096,
		.norm = LK_NORM_LAYER,
		.norms_per_layer = 2,
		.final_norm = true,
		.lm_head = true,
		.moe_every = 1,
		.window = window,
	};
	assert_int_equal(lk_cluster_simple(&arena, device_of("h100-sxm"), 1, 0, 0, &cluster, &err),
	                 LK_OK);
	assert_int_equal(lk_job_complete(&job, &cluster, &err), LK_OK);
	assert_int_equal(lk_build_graph(&job, &graph, &err), LK_OK);
	assert_int_equal(lk_costs_build(&arena, graph, &cluster, &eager, &costs, &err), LK_OK);
	double time = 0;
	for (uint32_t op = 0; op < costs.ops && time <= 0; op++)
		if (graph->ops.kind[op] == LK_OP_ATTENTION)
			time = lk_costs_get(&costs, 0, op)->duration_ps / LK_PS_PER_S;
	assert_true(time > 0);
	lk_graph_free(graph);
	lk_arena_free(&arena);
	return time;
}

static void masks_save_attention(void **state) {
	(void)state;
	double full = attention_seconds(false, 0), causal = attention_seconds(true, 0);
	double floor = lk_default_constants.kernel_floor_s;
	/* the lower triangle, whose rows of tiles are half as long and half wasted on the diagonal */
	double ramp = lk_step_attention(&lk_default_constants, device_of("h100-sxm"), false).start,
		   wasted = (4096 + ramp) / (4096 + (ramp - 128) / 2);
	assert_true(fabs((causal - floor) / (full - floor) / wasted - 0.5) < 0.01);
	double last = causal;
	for (int window = 2048; window >= 256; window /= 2) {
		double windowed = attention_seconds(true, window);
		/* the narrowest takes as long as its bytes */
		assert_true(window > 256 ? windowed < last : windowed <= last);
		last = windowed;
	}
	assert_true(attention_seconds(true, 4096) == causal); /* no window at all */
}

static void attention_follows_its_flops(void **state) {
	(void)state;
	for (int d = 0; d < lk_device_count(); d++) {
		const lk_device *device = lk_device_at(d);
		lk_op op = {
			.kind = LK_OP_ATTENTION,
			.name = "attention",
			.m = 8192,
			.n = 8192,
			.k = 128,
			.batch = 64,
			.flops = 2e12,
			.bytes = 5e8,
		};
		double one = seconds_on(device, &op);
		assert_true(one >= op.flops / lk_peak_flops(device, LK_BF16) &&
		            one >= op.bytes / device->memory_rate);
		op.kind = LK_OP_ATTENTION_BWD;
		assert_true(seconds_on(device, &op) >= one);
		op.kind = LK_OP_ATTENTION;
		op.k = 64;
		assert_true(seconds_on(device, &op) >= one); /* small heads are less efficient */
		op.k = 128;
		op.flops *= 2;
		assert_true(seconds_on(device, &op) > one);
	}
}

/* ---- memory-bound kernels, host ---- */

static void streaming_kernels_are_linear(void **state) {
	(void)state;
	for (unsigned kind = LK_OP_SOFTMAX; kind <= LK_OP_COPY; kind++)
		for (int d = 0; d < lk_device_count(); d++) {
			const lk_device *device = lk_device_at(d);
			lk_op op = {.kind = (uint8_t)kind, .name = "kernel"};
			double at[3], floor = lk_default_constants.kernel_floor_s, last = 0;
			for (int i = 0; i < 3; i++) {
				op.bytes = 4e9 * (i + 1);
				at[i] = seconds_on(device, &op) - floor;
				assert_true(at[i] >= op.bytes / device->memory_rate);
			}
			assert_true(fabs(at[1] / at[0] - 2) < 1e-6 && fabs(at[2] / at[0] - 3) < 1e-6);
			for (op.bytes = 1; op.bytes < 1e10;
			     op.bytes *= 1.7) { /* through L2 and beyond: never falls */
				double now = seconds_on(device, &op);
				assert_true(now >= last && now >= floor);
				last = now;
			}
		}
}

/* Shares of bandwidth hold up to so many bytes per SM and clock, and fall by the root beyond. */
static void wide_memories_are_not_filled(void **state) {
	(void)state;
	lk_constants limited = lk_default_constants;
	limited.stream_issue = 13.9;
	const lk_cost_options options = {.constants = &limited};
	lk_op op = {
		.kind = LK_OP_ELEMENTWISE, .stream = LK_STREAM_COMPUTE, .name = "stream", .bytes = 4e9};
	for (int d = 0; d < lk_device_count(); d++) {
		const lk_device *device = lk_device_at(d);
		double free_s = seconds_on(device, &op),
			   held = cost_on(device, &op, &options).duration_ps / LK_PS_PER_S;
		double each = device->memory_rate / (fmax(device->sms, 1) * fmax(device->clock_hz, 1e8));
		double floor = limited.kernel_floor_s, wanted = each > 13.9 ? sqrt(each / 13.9) : 1;
		if (fabs((held - floor) / (free_s - floor) / wanted - 1) > 1e-3)
			fail_msg("%s: %g times", device->name, held / free_s);
	}
	assert_true(cost_on(device_of("a100-sxm-80"), &op, &options).duration_ps ==
	            cost_on(device_of("a100-sxm-80"), &op, &eager).duration_ps);
}

/* Products in fp32 take what was measured of them; other formats do not. */
static void vector_products_are_as_measured(void **state) {
	(void)state;
	lk_op op = gemm(1 << 14, 1 << 14, 1 << 14, 1);
	op.dtype = LK_FP32;
	const lk_device *v100 = device_of("v100-sxm-16"), *unknown = device_of("k80");
	double share = op.flops / v100->peak_flops[LK_FP32] / seconds_on(v100, &op);
	assert_true(share > 0.95 &&
	            share <= 1); /* which reaches its peak (docs/method/kernels.md, GEMM) */
	double base = op.flops / unknown->peak_flops[LK_FP32] / seconds_on(unknown, &op);
	assert_true(base <= lk_default_constants.gemm_share);
	lk_constants slower = lk_default_constants;
	slower.vector_products = 0.5;
	const lk_cost_options options = {.constants = &slower};
	assert_true(cost_on(v100, &op, &options).duration_ps >
	            1.9 * cost_on(v100, &op, &eager).duration_ps);
	op.dtype = LK_FP16;
	assert_true(cost_on(v100, &op, &options).duration_ps == cost_on(v100, &op, &eager).duration_ps);
}

static void launches_vanish_in_cuda_graphs(void **state) {
	(void)state;
	lk_cost_options graphs = eager, compiled = eager;
	graphs.cuda_graphs = true;
	compiled.compiled = true;
	for (unsigned kind = 0; kind < LK_OP_COUNT; kind++) {
		lk_op op = op_of_kind(kind);
		const lk_device *device = device_of("h100-sxm");
		lk_cost plain = cost_on(device, &op, &eager), replayed = cost_on(device, &op, &graphs);
		lk_cost fused = cost_on(device, &op, &compiled);
		if (kind == LK_OP_HOST)
			assert_true(replayed.duration_ps <= plain.duration_ps); /* less work around a step */
		else assert_int_equal(plain.duration_ps, replayed.duration_ps);
		assert_int_equal(plain.duration_ps, fused.duration_ps);
		if (kind == LK_OP_WAIT || kind == LK_OP_HOST) assert_int_equal(plain.host_ps, 0);
		else assert_true(plain.host_ps >= 10 * replayed.host_ps);
		assert_true(replayed.host_ps <= fused.host_ps && fused.host_ps <= plain.host_ps);
	}
}

/* Experts in a loop take host time for the call and less for each expert, in every format. With one
 * kernel for all of them the host's time does not depend on their number. */
static void loops_over_experts_take_the_host(void **state) {
	(void)state;
	const lk_device *device = device_of("h100-sxm");
	lk_constants constants = lk_default_constants;
	lk_cost_options options = {.constants = &constants};
	double host[2][3], kernel[2];
	for (int whole = 0; whole < 2; whole++) {
		constants.grouped_experts = whole;
		for (int i = 0; i < 3; i++) {
			lk_op op = gemm(2048, 1536, 2048, 8 << i);
			op.kind = LK_OP_GROUPED_GEMM;
			lk_cost cost = cost_on(device, &op, &options);
			host[whole][i] = (double)cost.host_ps;
			kernel[whole] = (double)cost.duration_ps;
			op.dtype = LK_FP8;
			assert_int_equal(cost_on(device, &op, &options).host_ps, cost.host_ps);
		}
	}
	assert_true(fabs(host[0][2] - 3 * host[0][1] + 2 * host[0][0]) <= 5); /* rounded times */
	assert_true(host[0][1] > host[0][0] && host[0][1] < 2 * host[0][0]);
	assert_true(host[1][0] == host[1][2] && host[1][0] < host[0][0]);
	assert_true(kernel[0] == kernel[1]); /* the default factor is 1 */
	constants.graph_expert_efficiency = 2;
	lk_op op = gemm(2048, 1536, 2048, 32);
	op.kind = LK_OP_GROUPED_GEMM;
	assert_true((double)cost_on(device, &op, &options).duration_ps < kernel[1]);
}

/* ---- collectives ---- */

static double collective_seconds(const char *cluster_text, unsigned kind, double bytes) {
	lk_error err;
	lk_arena arena = LK_ARENA_INIT;
	lk_cluster cluster;
	lk_costs costs;
	lk_op op = {.kind = (uint8_t)kind, .group = LK_GROUP_DP, .name = "collective", .bytes = bytes};
	lk_graph *graph = graph_of(&op, 1);
	lay_out(graph, 1, 8);
	set_group(graph, LK_GROUP_DP, 8, 1);
	assert_int_equal(lk_cluster_parse(&arena, cluster_text, &cluster, &err), LK_OK);
	assert_int_equal(lk_costs_build(&arena, graph, &cluster, &eager, &costs, &err), LK_OK);
	double time = lk_costs_get(&costs, 0, 0)->duration_ps / LK_PS_PER_S;
	lk_graph_free(graph);
	lk_arena_free(&arena);
	return time;
}

/* Add a number of nodes to the text of a cluster, together or each by itself. */
static void add_nodes(char *text, size_t size, uint32_t nodes, uint32_t gpus, bool apart) {
	for (uint32_t i = 0; i < (apart ? nodes : 1); i++) {
		size_t length = strlen(text);
		snprintf(text + length, size - length, "%s%u node * %u h100-sxm, nic 1*400g",
		         length ? " + " : "", apart ? 1 : nodes, gpus);
	}
}

/* Equal nodes that are written together are counted by division, and those written each by itself
 * one after the other: every operation costs every rank the same. */
static void equal_nodes_are_as_many_single_ones(void **state) {
	(void)state;
	enum { OPS = 5, NODES = 40 };
	static const int kinds[] = {LK_GROUP_TP, LK_GROUP_CP, LK_GROUP_DP};
	lk_op ops[OPS];
	for (int i = 0; i < OPS; i++)
		ops[i] = (lk_op){.kind = LK_OP_ALLREDUCE, .name = "collective", .bytes = 1e6};
	for (int i = 0; i < 3; i++) ops[i].group = (uint8_t)kinds[i];
	ops[3].group = LK_GROUP_MODEL;
	ops[4].kind = LK_OP_SEND;
	ops[4].group = LK_GROUP_PP;
	unsigned repeating = 0, others = 0;
	srand(11);
	for (int round = 0; round < 3000; round++) {
		char text[2][60 * NODES] = {"", ""};
		uint32_t gpus = 1 + (uint32_t)rand() % 12, stages = 1 + (uint32_t)rand() % 3, chains = 1;
		uint32_t fewer = rand() % 2 ? gpus : 1 + (uint32_t)rand() % gpus;
		lk_graph *graph = graph_of(ops, OPS);
		for (int i = 0; i < 3; i++) {
			uint32_t size = rand() % 2 ? 1u << rand() % 4 : 1 + (uint32_t)rand() % 6;
			set_group(graph, kinds[i], size, chains);
			chains *= size;
		}
		lay_out(graph, stages, chains);
		graph->ranks.group[LK_GROUP_MODEL].size = chains;
		uint32_t nodes = stages * chains / gpus + 1, last = fewer == gpus ? 0 : nodes / 2 + 1;
		while (last && (nodes - 1) * gpus + last * fewer < stages * chains) last++;
		if (nodes + last > NODES) {
			lk_graph_free(graph);
			continue;
		}
		lk_arena arena = LK_ARENA_INIT;
		lk_cluster cluster[2];
		lk_costs costs[2];
		lk_error err;
		for (int i = 0; i < 2; i++) {
			add_nodes(text[i], sizeof text[i], nodes, gpus, i);
			if (last) add_nodes(text[i], sizeof text[i], last, fewer, i);
			assert_int_equal(lk_cluster_parse(&arena, text[i], &cluster[i], &err), LK_OK);
			assert_int_equal(cluster[i].groups, i ? nodes + last : 1 + (last > 0));
			assert_int_equal(lk_costs_build(&arena, graph, &cluster[i], &eager, &costs[i], &err),
			                 LK_OK);
		}
		++*(chains % gpus == 0 && !last && costs[0].variants > 1 ? &repeating : &others);
		for (uint32_t at = 0; at < stages * chains * OPS; at++) {
			const lk_cost *cost[2];
			for (int i = 0; i < 2; i++)
				cost[i] = lk_costs_get(
					&costs[i], costs[i].variant_of ? costs[i].variant_of[at / OPS] : 0, at % OPS);
			assert_memory_equal(cost[0], cost[1], sizeof(lk_cost));
		}
		lk_graph_free(graph);
		lk_arena_free(&arena);
	}
	assert_true(repeating > 50 && others > 1000);
}

static void nodes_are_the_better_neighbours(void **state) {
	(void)state;
	for (unsigned kind = LK_OP_ALLREDUCE; kind <= LK_OP_BROADCAST; kind++)
		for (double bytes = 1024; bytes < 1e10; bytes *= 8) {
			double inside = collective_seconds("1 node * 8 h100-sxm, nic 8*400g", kind, bytes);
			double across = collective_seconds("2 node * 4 h100-sxm, nic 4*400g", kind, bytes);
			double slow = collective_seconds("2 node * 4 h100-sxm, nic 1*100g", kind, bytes);
			/* Launches take longer with more GPUs in a node: what is small may be a little faster
			 * across. NCCL chooses by its own estimate, and what it takes on the slow network may
			 * be a little faster too. */
			double little = bytes < 1e7 ? 1.2 : 1;
			if (inside > across * little || across > slow * little)
				fail_msg("%s of %g bytes: %g inside, %g across, %g on a slow network",
				         lk_op_kind_name(kind), bytes, inside, across, slow);
		}
	for (double bytes = 4e6; bytes < 1e10;
	     bytes *= 10) /* below, NCCL leaves LL for NVLS, which may be faster */
		assert_true(collective_seconds("1 node * 8 h100-sxm", LK_OP_ALLREDUCE, bytes) <
		            collective_seconds("1 node * 8 h100-sxm", LK_OP_ALLREDUCE, bytes * 2));
}

/* The end of pieces that each need the one before on their own stream and, second stream, the piece
 * of the first. */
static double pipeline_end(int pieces, double first, double second, bool head_free) {
	double sent = 0, done = 0;
	for (int i = 0; i < pieces; i++) {
		if (i > 0 || !head_free) sent += first;
		done = fmax(done, sent) + second;
	}
	return done;
}

/* A gather with the product after it, a reduction with the one before it: together they take what
 * the pieces take one by one; a collective without a product near takes all of its time. */
static void pieces_run_beside_their_product(void **state) {
	(void)state;
	const double columns[] = {64, 1024, 16384};
	lk_error err;
	lk_arena arena = LK_ARENA_INIT;
	lk_cluster cluster;
	lk_costs costs;
	lk_cost_options cached = eager;
	cached.cache = lk_cost_cache_new();
	assert_non_null(cached.cache);
	assert_int_equal(lk_cluster_parse(&arena, "8 h100-sxm", &cluster, &err), LK_OK);
	for (int i = 0; i < 3; i++) {
		double n = columns[i], m = 8192, k = 8192, ps = 1e12;
		lk_op gather = {.kind = LK_OP_ALLGATHER,
		                .group = LK_GROUP_TP,
		                .stream = LK_STREAM_TP,
		                .name = "gather",
		                .bytes = 2 * m * k};
		lk_op product = {.kind = LK_OP_GEMM,
		                 .dtype = LK_BF16,
		                 .name = "product",
		                 .m = m,
		                 .n = n,
		                 .k = k,
		                 .batch = 1,
		                 .flops = 2 * m * n * k,
		                 .bytes = 2 * (m * k + k * n + m * n)};
		lk_op reduce = gather, piece = gather;
		reduce.kind = piece.kind = LK_OP_REDUCESCATTER;
		piece.bytes = reduce.bytes / 4;
		enum { WHOLE_GATHER, WHOLE_REDUCE, QUARTER, GATHER, PRODUCT, REDUCE, COUNT };
		lk_op ops[COUNT] = {gather, reduce, piece, gather, product, reduce};
		ops[GATHER].flags = ops[REDUCE].flags = LK_OP_OVERLAPPED;
		lk_graph *graph = graph_of(ops, COUNT);
		lay_out(graph, 1, 8);
		set_group(graph, LK_GROUP_TP, 8, 1);
		assert_int_equal(lk_costs_build(&arena, graph, &cluster, &eager, &costs, &err), LK_OK);
		double took[COUNT];
		for (uint32_t op = 0; op < COUNT; op++)
			took[op] = (double)lk_costs_get(&costs, 0, op)->duration_ps / ps;
		double sms = lk_costs_get(&costs, 0, REDUCE)->sm, call = eager.constants->network_call_s;
		double end = pipeline_end(8, took[WHOLE_GATHER] / 7, took[PRODUCT] / 8, true);
		assert_float_equal(took[PRODUCT] + took[GATHER], end, 1e-9);
		double quarter = took[QUARTER] - call;
		end = pipeline_end(4, took[PRODUCT] / 4, quarter, false) +
		      sms * fmin(took[PRODUCT], 4 * quarter);
		assert_float_equal(took[PRODUCT] + took[REDUCE],
		                   fmin(end, took[PRODUCT] + took[WHOLE_REDUCE]), 1e-9);
		/* a search that knows the collective beside another product asks again */
		assert_int_equal(lk_costs_build(&arena, graph, &cluster, &cached, &costs, &err), LK_OK);
		for (uint32_t op = 0; op < COUNT; op++)
			assert_float_equal((double)lk_costs_get(&costs, 0, op)->duration_ps / ps, took[op], 0);
		lk_graph_free(graph);
	}
	lk_cost_cache_free(cached.cache);
	lk_op lonely = {.kind = LK_OP_ALLGATHER, .group = LK_GROUP_TP, .name = "gather", .bytes = 1e8};
	lk_op ops[2] = {lonely, lonely};
	ops[1].flags = LK_OP_OVERLAPPED;
	lk_graph *graph = graph_of(ops, 2);
	lay_out(graph, 1, 8);
	set_group(graph, LK_GROUP_TP, 8, 1);
	assert_int_equal(lk_costs_build(&arena, graph, &cluster, &eager, &costs, &err), LK_OK);
	assert_int_equal(lk_costs_get(&costs, 0, 0)->duration_ps,
	                 lk_costs_get(&costs, 0, 1)->duration_ps);
	lk_graph_free(graph);
	lk_arena_free(&arena);
}

/* ---- contention ---- */

static double uniform(uint64_t *seed) {
	*seed = *seed * 6364136223846793005u + 1442695040888963407u;
	return (double)(*seed >> 11) / 9007199254740992.0;
}

/* Remote writes cost the bytes and one crossing: less than NCCL's rounds, never less than the link
 * allows. */
static void direct_exchanges_save_rounds(void **state) {
	(void)state;
	lk_error err;
	static const char *const clusters[] = {"1 node * 8 a100-sxm-80", "8 node * 8 a100-sxm-80",
	                                       "8 node * 1 a100-sxm-80, nic 1*200g",
	                                       "1 node * 8 a100-pcie-80 pcie"};
	for (size_t c = 0; c < sizeof clusters / sizeof *clusters; c++) {
		for (int kind = 0; kind < 2; kind++) {
			double last = 0;
			for (double bytes = 1e4; bytes < 1e8; bytes *= 10) {
				lk_arena arena = LK_ARENA_INIT;
				lk_cluster cluster;
				lk_costs costs;
				assert_int_equal(lk_cluster_parse(&arena, clusters[c], &cluster, &err), LK_OK);
				lk_op ops[2] = {{.kind = kind ? LK_OP_ALLREDUCE : LK_OP_ALLTOALL,
				                 .stream = LK_STREAM_EP,
				                 .group = LK_GROUP_DP,
				                 .name = "x",
				                 .bytes = bytes}};
				ops[1] = ops[0];
				ops[1].flags = LK_OP_DIRECT;
				lk_graph *graph = graph_of(ops, 2);
				lay_out(graph, 1, (uint32_t)cluster.gpus);
				set_group(graph, LK_GROUP_DP, (uint32_t)cluster.gpus, 1);
				assert_int_equal(lk_costs_build(&arena, graph, &cluster, &eager, &costs, &err),
				                 LK_OK);
				double rounds = lk_costs_get(&costs, 0, 0)->duration_ps,
					   direct = lk_costs_get(&costs, 0, 1)->duration_ps;
				double least = bytes / 2 /
				               fmax(cluster.node[0].intra_rate, cluster.node[0].nic_rate) *
				               LK_PS_PER_S;
				if (direct > rounds || direct < least || direct <= last)
					fail_msg("%s, %g bytes: %g, not %g ps", clusters[c], bytes, direct, rounds);
				last = direct;
				lk_graph_free(graph);
				lk_arena_free(&arena);
			}
		}
	}
}

/* A dispatcher of one copy per node against DeepEP's own tests on H800: 4,096 rows of 7,168 in 8
 * bits, 8 of all experts in at most 4 groups, one for each node; GB/s that count the own node's
 * rows, on one node the own rank's (docs/legacy.md). On 1 and 2 nodes it is NVLink that limits. */
static void dispatchers_reach_their_published_rates(void **state) {
	(void)state;
	static const struct {
		const char *cluster;
		int nodes, limit;
		double published;
	} cases[] = {{"1 node * 8 h800", 1, 8, 153},
	             {"2 node * 8 h800", 2, 2, 43},
	             {"4 node * 8 h800", 4, 4, 58},
	             {"8 node * 8 h800", 8, 4, 51}};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		lk_error err;
		lk_arena arena = LK_ARENA_INIT;
		lk_cluster cluster;
		lk_costs costs;
		double row = 4096 * 7168 * (1 + 4 / 128.0), nodes = cases[i].limit;
		assert_int_equal(lk_cluster_parse(&arena, cases[i].cluster, &cluster, &err), LK_OK);
		lk_op op = {.kind = LK_OP_ALLTOALL,
		            .stream = LK_STREAM_EP,
		            .group = LK_GROUP_EP,
		            .name = "dispatch",
		            .m = cases[i].limit,
		            .n = cases[i].nodes,
		            .k = 8,
		            .bytes = 8 * row};
		lk_graph *graph = graph_of(&op, 1);
		lay_out(graph, 1, (uint32_t)cluster.gpus);
		set_group(graph, LK_GROUP_EP, (uint32_t)cluster.gpus, 1);
		assert_int_equal(lk_costs_build(&arena, graph, &cluster, &eager, &costs, &err), LK_OK);
		double seconds = lk_costs_get(&costs, 0, 0)->duration_ps / LK_PS_PER_S,
			   copies = nodes * (1 - pow(1 - 1 / nodes, 8)), rate = row * copies / seconds / 1e9;
		if (fabs(rate / cases[i].published - 1) > 0.05)
			fail_msg("%s: %g GB/s, published %g", cases[i].cluster, rate, cases[i].published);
		lk_graph_free(graph);
		lk_arena_free(&arena);
	}
}

/* Fewer groups, fewer bytes between nodes; all groups are as none stated. */
static void limited_routing_sends_less(void **state) {
	(void)state;
	double last = 0;
	for (int limit = 1; limit <= 9; limit++) {
		lk_error err;
		lk_arena arena = LK_ARENA_INIT;
		lk_cluster cluster;
		lk_costs costs;
		assert_int_equal(lk_cluster_parse(&arena, "4 node * 8 h100-sxm", &cluster, &err), LK_OK);
		lk_op op = {.kind = LK_OP_ALLTOALL,
		            .stream = LK_STREAM_EP,
		            .group = LK_GROUP_EP,
		            .name = "dispatch",
		            .m = limit < 9 ? limit : 0,
		            .n = limit < 9 ? 8 : 0,
		            .k = 8,
		            .bytes = 1e9};
		lk_graph *graph = graph_of(&op, 1);
		lay_out(graph, 1, (uint32_t)cluster.gpus);
		set_group(graph, LK_GROUP_EP, (uint32_t)cluster.gpus, 1);
		assert_int_equal(lk_costs_build(&arena, graph, &cluster, &eager, &costs, &err), LK_OK);
		double ps = lk_costs_get(&costs, 0, 0)->duration_ps;
		assert_true(limit < 9 ? ps >= last : ps == last);
		last = ps;
		lk_graph_free(graph);
		lk_arena_free(&arena);
	}
}

static void rates(const lk_cost *cost, const bool *comm, int count, double *out) {
	const lk_cost *at[8];
	for (int i = 0; i < count; i++) at[i] = &cost[i];
	lk_contention_rates(at, comm, count, out);
}

static lk_cost random_cost(uint64_t *seed, bool comm) {
	lk_cost c = {.memory = (float)uniform(seed)};
	if (comm) {
		c.sm = (float)(0.5 * uniform(seed));
		if (uniform(seed) < 0.7) c.intra = (float)uniform(seed);
		if (uniform(seed) < 0.7) c.nic = (float)uniform(seed);
	} else {
		c.compute = (float)uniform(seed);
		c.waves = (float)(uniform(seed) * (uniform(seed) < 0.5 ? 3 : 40));
		if (uniform(seed) < 0.2) c.waves = 0;
		c.sm = c.waves > 0 ? fminf(1, c.waves) : 1;
	}
	return c;
}

static void fold(uint64_t *seed, lk_cost *cost) {
	cost->linked = (float)uniform(seed);
	cost->linked_alone = cost->linked * (float)uniform(seed);
	cost->intra = (float)uniform(seed);
	cost->nic = (float)uniform(seed);
}

/* Every rate lies in (0, 1], one operation alone runs at full rate, and one more never speeds up
 * the others; but what slows a folded run, so that it communicates less often, helps what it shares
 * its links with. */
static void company_only_slows(void **state) {
	(void)state;
	uint64_t seed = 7;
	for (int round = 0; round < 20000; round++) {
		lk_cost cost[8];
		bool comm[8];
		double last[8], now[8];
		bool folded = uniform(&seed) < 0.5,
			 turns = false; /* one operation may be a folded run that communicates now and then */
		for (int i = 0; i < 8; i++) {
			comm[i] = uniform(&seed) < 0.5;
			cost[i] = random_cost(&seed, comm[i]);
			if (folded && !comm[i]) {
				fold(&seed, &cost[i]);
				folded = false;
				turns = true;
			}
			rates(&cost[i], &comm[i], 1, now);
			assert_true(now[0] == 1);
			rates(cost, comm, i + 1, now);
			for (int j = 0; j <= i; j++) {
				assert_true(now[j] > 0 && now[j] <= 1);
				if (!turns && j < i && now[j] > last[j] * (1 + 1e-12))
					fail_msg("round %d: %d of %d from %g to %g", round, j, i, last[j], now[j]);
			}
			memcpy(last, now, sizeof last);
		}
	}
}

static void shared_links_halve(void **state) {
	(void)state;
	const lk_cost links[2][2] = {{{.intra = 1}, {.intra = 1}}, {{.nic = 1}, {.nic = 1}}};
	for (int i = 0; i < 2; i++) {
		double out[2];
		rates(links[i], (bool[]){true, true}, 2, out);
		assert_true(out[0] == 0.5 && out[1] == 0.5);
	}
	double out[2]; /* different links: nothing shared */
	rates((lk_cost[]){{.intra = 1}, {.nic = 1}}, (bool[]){true, true}, 2, out);
	assert_true(out[0] == 1 && out[1] == 1);
}

/* A folded run uses all of a link in half of its time, and a collective wants all of it too. Alone
 * together both get half: what takes 1 + 1 takes 1 + 2, and in 2 of these 3 the collective has half
 * of the link: 1 - 1/3 of its rate. What computes beside its communication is not held up by it. */
static void folded_runs_share_links_in_turns(void **state) {
	(void)state;
	double out[2];
	lk_cost both[2] = {{.intra = 1, .linked = 0.5f, .linked_alone = 0.5f}, {.intra = 1}};
	rates(both, (bool[]){false, true}, 2, out);
	assert_true(fabs(out[0] - 2. / 3) < 1e-6 && fabs(out[1] - 2. / 3) < 1e-6);
	both[0].linked_alone = 0;
	rates(both, (bool[]){false, true}, 2, out);
	assert_true(out[0] == 1 && fabs(out[1] - 0.75) < 1e-6);
	both[0].intra = 0;
	both[0].nic = 1; /* another link */
	rates(both, (bool[]){false, true}, 2, out);
	assert_true(out[0] == 1 && out[1] == 1);
}

/* A collective on a quarter of the SMs: of three waves four whole ones are left, of one a last wave
 * of a quarter of the SMs at the highest clock (1.27 times); a kernel on half of the SMs has room.
 */
static void taken_sms_cost_waves(void **state) {
	(void)state;
	const double last = 1 / 1.27;
	const struct {
		double waves, slower;
	} cases[] = {{3, 4. / 3}, {1, 1 + last}, {0.5, 1}, {2, (2 + 5. / 6) / 2}, {100, 4. / 3}};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		float waves = (float)cases[i].waves;
		lk_cost both[2] = {{.compute = 1, .sm = fminf(1, waves), .waves = waves}, {.sm = 0.25f}};
		double out[2];
		rates(both, (bool[]){false, true}, 2, out);
		if (fabs(1 / out[0] - cases[i].slower) > 1e-6)
			fail_msg("%g waves: %g times, not %g", cases[i].waves, 1 / out[0], cases[i].slower);
		assert_true(out[1] == 1);
	}
}

/* A product of exactly 132 tiles on an H100 beside an all-gather on 24 SMs: MFU falls from 80 % to
 * 47 %, 1.70 times as long (NVIDIA developer forum, thread 337991). Nothing was fitted to it. */
static void a_full_wave_beside_a_collective(void **state) {
	(void)state;
	lk_graph *graph = lk_graph_new();
	lk_cluster cluster;
	lk_error err;
	lk_arena arena = LK_ARENA_INIT;
	uint32_t id = 0;
	lk_graph_set_programs(graph, 1, 0, &err);
	graph->ranks.chains = graph->ranks.world = 1;
	lk_graph_begin_block(graph, "product");
	/* 11 x 12 tiles of 256 x 128 */
	lk_graph_add(graph, &(lk_op){.kind = LK_OP_GEMM,
	                             .stream = LK_STREAM_COMPUTE,
	                             .dtype = LK_BF16,
	                             .name = "product",
	                             .m = 11 * 256,
	                             .n = 12 * 128,
	                             .k = 8192,
	                             .batch = 1,
	                             .flops = 2. * 11 * 256 * 12 * 128 * 8192,
	                             .bytes = 2. * (11 * 256 + 12 * 128) * 8192});
	lk_graph_end_block(graph, &id, &err);
	assert_int_equal(lk_cluster_simple(&arena, device_of("h100-sxm"), 1, 0, 0, &cluster, &err),
	                 LK_OK);
	lk_costs costs;
	lk_cost_options options = {.constants = &lk_default_constants};
	assert_int_equal(lk_costs_build(&arena, graph, &cluster, &options, &costs, &err), LK_OK);
	lk_cost both[2] = {costs.at[0], {.sm = 24 / 132.f, .intra = 1, .memory = 0.3f}};
	double out[2];
	assert_true(fabs(both[0].waves - 1) < 1e-6);
	rates(both, (bool[]){false, true}, 2, out);
	print_message("a product of 132 tiles beside 24 SMs of communication: %.2f times as long\n",
	              1 / out[0]);
	assert_true(1 / out[0] > 1.53 && 1 / out[0] < 1.87);
	lk_arena_free(&arena);
	lk_graph_free(graph);
}

/* Few blocks that wait for memory suffer while data moves, and not while a collective only holds
 * its SMs. */
static void few_blocks_suffer(void **state) {
	(void)state;
	lk_cost both[2] = {{.sm = 0.2f, .memory = 0.3f, .exposed = 3}, {.sm = 0.1f, .nic = 0.5f}};
	double out[2];
	rates(both, (bool[]){false, true}, 2, out);
	assert_true(fabs(out[0] - 0.25) < 1e-9 && out[1] == 1);
	both[1].nic = 0;
	rates(both, (bool[]){false, true}, 2, out);
	assert_true(out[0] == 1);
}

/* Max-min fairness: who asks for less than an equal share has it, the others share the rest
 * equally. */
static void links_are_shared_fairly(void **state) {
	(void)state;
	double out[3];
	rates((lk_cost[]){{.nic = 0.2f}, {.nic = 1}}, (bool[]){true, true}, 2, out);
	assert_true(out[0] == 1 && fabs(out[1] - 0.8) < 1e-6);
	rates((lk_cost[]){{.intra = 0.25f}, {.intra = 1}, {.intra = 0.75f}}, (bool[]){true, true, true},
	      3, out);
	assert_true(out[0] == 1 && fabs(out[1] - 0.375) < 1e-6 && fabs(out[2] - 0.5) < 1e-6);
	uint64_t seed = 3; /* what is handed out is all there is, or all that is asked for */
	for (int round = 0; round < 2000; round++) {
		lk_cost cost[3];
		double asked = 0, given = 0;
		for (int i = 0; i < 3; i++) {
			cost[i] = (lk_cost){.nic = (float)uniform(&seed)};
			asked += cost[i].nic;
		}
		rates(cost, (bool[]){true, true, true}, 3, out);
		for (int i = 0; i < 3; i++) given += cost[i].nic * out[i];
		assert_true(fabs(given - fmin(1, asked)) < 1e-9);
	}
}

static void memory_is_shared_by_demand(void **state) {
	(void)state;
	const lk_cost both[3] = {{.memory = 1}, {.memory = 1}, {.memory = 0}};
	double out[3];
	rates(both, (bool[]){false, false, false}, 3, out);
	assert_true(out[0] == 0.5 && out[1] == 0.5 && out[2] == 1);
}

/* ---- places of ranks ---- */

/* The members of a rank's group, found by asking every rank of the world for its group. */
static bool same_group(const lk_ranks *ranks, int kind, uint32_t a, uint32_t b) {
	uint32_t ca = a % ranks->chains, cb = b % ranks->chains, sa = a / ranks->chains,
			 sb = b / ranks->chains;
	uint32_t size = ranks->group[kind].size, stride = ranks->group[kind].stride;
	if (kind == LK_GROUP_EMBEDDING) return ca == cb && (sb == 0 || sb == ranks->stages - 1);
	if (kind == LK_GROUP_PP || kind == LK_GROUP_MODEL) return ca == cb;
	return sa == sb && ca / (size * stride) == cb / (size * stride) && ca % stride == cb % stride;
}

static double node_speed(const lk_node *node) {
	return node->intra_rate + node->nics * node->nic_rate;
}

static lk_group_shape counted_shape(const lk_graph *graph, const lk_cluster *cluster, int kind,
                                    uint32_t rank) {
	const lk_ranks *ranks = &graph->ranks;
	int on_node[256] = {0}, nodes = 0, most = 0, members = 0;
	const lk_node *slowest = NULL;
	for (uint32_t other = 0; other < ranks->world; other++) {
		if (!same_group(ranks, kind, rank, other)) continue;
		lk_place place = lk_cluster_place(cluster, (int)other);
		assert_true(place.node < 256);
		if (on_node[place.node]++ == 0) nodes++;
		if (on_node[place.node] > most) most = on_node[place.node];
		const lk_node *node = &cluster->node[place.group];
		if (!slowest || node_speed(node) < node_speed(slowest)) slowest = node;
		members++;
	}
	return (lk_group_shape){
		.node = slowest,
		.ranks = members,
		.nodes = nodes,
		.ranks_per_node = most,
		.oversubscription = cluster->oversubscription,
		.sharing = nodes > 1 || kind == LK_GROUP_PP
	                   ? (slowest->gpus > most ? slowest->gpus / most : 1)
	                   : 1,
	};
}

static bool same_node(const lk_cluster *cluster, uint32_t a, uint32_t b) {
	return lk_cluster_place(cluster, (int)a).node == lk_cluster_place(cluster, (int)b).node;
}

/* The cost of an operation for one rank, from its groups counted one by one. */
static lk_cost counted_cost(const lk_graph *graph, const lk_cluster *cluster, uint32_t rank,
                            uint32_t op) {
	lk_group_shape groups[LK_GROUPS] = {0};
	const lk_ranks *ranks = &graph->ranks;
	for (int kind = 1; kind < LK_GROUPS; kind++)
		groups[kind] = counted_shape(graph, cluster, kind, rank);
	lk_cost_site site = {
		.constants = &lk_default_constants,
		.node = &cluster->node[lk_cluster_place(cluster, (int)rank).group],
		.groups = groups,
		.oversubscription = cluster->oversubscription,
		.peer_same_node = {same_node(cluster, rank, (rank + ranks->chains) % ranks->world),
	                       same_node(cluster, rank,
	                                 (rank + ranks->world - ranks->chains) % ranks->world)},
	};
	lk_step_products(site.node->device, site.products);
	return lk_cost_op(graph, op, &site);
}

static const struct placement {
	const char *cluster;
	uint32_t stages, tp, cp, dp;
	uint32_t least, most; /* variants */
} placements[] = {
	{"8 node * 8 h100-sxm", 1, 8, 1, 8, 1, 1},
	{"8 node * 8 h100-sxm", 4, 8, 1, 2, 1, 1},
	{"8 node * 8 h100-sxm", 4, 4, 2, 2, 1, 2},
	{"8 node * 8 h100-sxm", 16, 4, 1, 1, 1, 4},
	{"4 node * 8 h100-sxm + 4 node * 8 a100-sxm-80, nic 8*200g", 1, 8, 1, 8, 2, 4},
	{"4 node * 8 h100-sxm + 4 node * 8 a100-sxm-80, nic 8*200g", 4, 8, 1, 2, 2, 6},
	{"4 node * 8 h100-sxm + 4 node * 8 a100-sxm-80, nic 8*200g", 2, 4, 2, 4, 2, 6},
	{"1 node * 4 h100-sxm + 5 node * 4 a100-sxm-80, nic 4*200g", 3, 2, 1, 4, 2, 12},
	{"2 node * 6 h100-sxm + 3 node * 4 a100-sxm-40, nic 2*100g", 2, 2, 2, 3, 2, 24},
	{"3 node * 5 v100-sxm-16 + 1 node * 9 t4, nic 1*10g", 3, 2, 2, 2, 2, 24},
	{"48 h100-pcie", 3, 2, 1, 8, 1, 8},
	{"7 node * 1 h100-sxm, nic 1*400g + 1 node * 1 a100-sxm-80, nic 1*100g", 4, 1, 1, 2, 2, 8},
	{"8 node * 1 h100-sxm + 1 node * 8 h100-sxm", 2, 1, 1, 8, 2, 4},
	{"2 node * 2 h100-sxm + 1 node * 8 h100-sxm + 2 node * 2 h100-sxm", 4, 1, 1, 4, 2, 8},
};

static lk_graph *placement_graph(const struct placement *placement) {
	lk_op ops[] = {
		gemm(4096, 4096, 4096, 1),
		{.kind = LK_OP_ALLREDUCE, .group = LK_GROUP_TP, .name = "tp", .bytes = 1e7},
		{.kind = LK_OP_ALLGATHER, .group = LK_GROUP_CP, .name = "cp", .bytes = 1e7},
		{.kind = LK_OP_REDUCESCATTER, .group = LK_GROUP_DP, .name = "dp", .bytes = 1e8},
		{.kind = LK_OP_ALLREDUCE, .group = LK_GROUP_EMBEDDING, .name = "embedding", .bytes = 1e7},
		{.kind = LK_OP_SEND,
	     .stream = LK_STREAM_SEND_FORWARD,
	     .group = LK_GROUP_PP,
	     .name = "forward",
	     .bytes = 1e7},
		{.kind = LK_OP_SEND,
	     .stream = LK_STREAM_SEND_BACKWARD,
	     .group = LK_GROUP_PP,
	     .name = "backward",
	     .bytes = 1e7},
	};
	lk_graph *graph = graph_of(ops, sizeof ops / sizeof *ops);
	lay_out(graph, placement->stages, placement->tp * placement->cp * placement->dp);
	set_group(graph, LK_GROUP_TP, placement->tp, 1);
	set_group(graph, LK_GROUP_CP, placement->cp, placement->tp);
	set_group(graph, LK_GROUP_DP, placement->cp * placement->dp, placement->tp);
	return graph;
}

static void check_ranks(const struct placement *placement, const lk_graph *graph,
                        const lk_cluster *cluster, const lk_costs *costs) {
	for (uint32_t rank = 0; rank < graph->ranks.world; rank++)
		for (uint32_t op = 0; op < graph->ops.count; op++) {
			/* a message to nobody: the stage has no neighbour on this side */
			uint32_t stage = rank / graph->ranks.chains, stream = graph->ops.stream[op];
			if (stream == LK_STREAM_SEND_FORWARD && stage + 1 == graph->ranks.stages) continue;
			if (stream == LK_STREAM_SEND_BACKWARD && stage == 0) continue;
			if (graph->ops.group[op] == LK_GROUP_EMBEDDING && stage != 0 &&
			    stage + 1 != graph->ranks.stages)
				continue;
			uint32_t variant = costs->variant_of ? costs->variant_of[rank] : 0;
			lk_cost wanted = counted_cost(graph, cluster, rank, op);
			const lk_cost *got = lk_costs_get(costs, variant, op);
			if (memcmp(&wanted, got, offsetof(lk_cost, spread) + sizeof got->spread) !=
			    0) /* without padding */
				fail_msg("%s, %u stages: rank %u, operation %u: %lld ps, counted %lld ps",
				         placement->cluster, placement->stages, rank, op,
				         (long long)got->duration_ps, (long long)wanted.duration_ps);
		}
}

/* As many variants as the table says, each of them used. */
static void check_variants(const struct placement *placement, const lk_graph *graph,
                           const lk_costs *costs) {
	if (costs->variants < placement->least || costs->variants > placement->most)
		fail_msg("%s, %u stages: %u variants, not %u to %u", placement->cluster, placement->stages,
		         costs->variants, placement->least, placement->most);
	bool used[4096] = {false};
	if (!costs->variant_of) return assert_int_equal(costs->variants, 1);
	for (uint32_t rank = 0; rank < graph->ranks.world; rank++) {
		assert_true(costs->variant_of[rank] < costs->variants);
		used[costs->variant_of[rank]] = true;
	}
	for (uint32_t v = 0; v < costs->variants; v++) assert_true(used[v]);
}

static void ranks_cost_what_their_places_say(void **state) {
	(void)state;
	for (size_t i = 0; i < sizeof placements / sizeof *placements; i++) {
		const struct placement *placement = &placements[i];
		lk_error err;
		lk_arena arena = LK_ARENA_INIT;
		lk_cluster cluster;
		lk_costs costs;
		lk_graph *graph = placement_graph(placement);
		if (lk_cluster_parse(&arena, placement->cluster, &cluster, &err) != LK_OK)
			fail_msg("%s: %s", placement->cluster, err.what);
		assert_true(cluster.gpus >= (int)graph->ranks.world);
		assert_int_equal(lk_costs_build(&arena, graph, &cluster, &eager, &costs, &err), LK_OK);
		check_variants(placement, graph, &costs);
		check_ranks(placement, graph, &cluster, &costs);
		lk_graph_free(graph);
		lk_arena_free(&arena);
	}
}

/* ---- teams ---- */

/* The members of a team that meet `rank`, found by asking every rank of the world. */
static lk_group_shape counted_team(const lk_graph *graph, const lk_cluster *cluster,
                                   const lk_team *team, uint32_t rank) {
	int on_node[256] = {0};
	lk_group_shape shape = {
		.ranks = (int)team->ranks, .oversubscription = cluster->oversubscription, .sharing = 1};
	for (uint32_t other = 0; other < graph->ranks.world; other++) {
		bool same = team->across || lk_rank_chain(graph, other) == lk_rank_chain(graph, rank);
		if (!same || lk_team_member(graph, team, lk_rank_stage(graph, other)) == UINT32_MAX)
			continue;
		lk_place place = lk_cluster_place(cluster, (int)other);
		const lk_node *node = &cluster->node[place.group];
		if (on_node[place.node]++ == 0) shape.nodes++;
		if (on_node[place.node] > shape.ranks_per_node) shape.ranks_per_node = on_node[place.node];
		if (!shape.node || node_speed(node) < node_speed(shape.node)) shape.node = node;
	}
	if (shape.nodes > 1 && shape.node->gpus > shape.ranks_per_node)
		shape.sharing = shape.node->gpus / shape.ranks_per_node;
	return shape;
}

/* Collectives of three random teams and messages of a random pair, of a lifted trace or not. */
static lk_graph *team_graph(uint64_t *seed, uint32_t stages, uint32_t chains, bool traced) {
	lk_op ops[4];
	for (int t = 0; t < 4; t++)
		ops[t] = (lk_op){.kind = t == 3 ? LK_OP_SEND
		                         : t    ? LK_OP_ALLREDUCE
		                                : LK_OP_ALLTOALL,
		                 .stream = 9,
		                 .group = LK_GROUP_TEAM,
		                 .channel = t,
		                 .name = "team",
		                 .bytes = 1e7};
	lk_graph *graph = graph_of(ops, 4);
	lay_out(graph, stages, chains);
	graph->traced = traced;
	for (int t = 0; t < 4; t++) {
		uint32_t members[16], count = 0;
		for (uint32_t s = 0; s < stages; s++)
			if (t == 3 ? s == 0 || s == stages - 1 : uniform(seed) < 0.6) members[count++] = s;
		if (!count) members[count++] = 0;
		bool across = t != 3 && uniform(seed) < 0.4;
		lk_graph_add_team(graph, "team", members, count, count * (across ? chains : 1), across);
	}
	return graph;
}

static void check_teams(const lk_graph *graph, const lk_cluster *cluster, const lk_costs *costs) {
	for (uint32_t rank = 0; rank < graph->ranks.world; rank++)
		for (uint32_t op = 0; op < graph->ops.count; op++) {
			const lk_team *team = &graph->teams.at[op];
			if (lk_team_member(graph, team, lk_rank_stage(graph, rank)) == UINT32_MAX) continue;
			lk_group_shape teams[4] = {{0}}, none[LK_GROUPS] = {{0}};
			teams[op] = counted_team(graph, cluster, team, rank);
			lk_cost_site site = {.constants = &lk_default_constants,
			                     .groups = none,
			                     .teams = teams,
			                     .node = &cluster->node[lk_cluster_place(cluster, (int)rank).group],
			                     .oversubscription = cluster->oversubscription};
			lk_cost wanted = lk_cost_op(graph, op, &site);
			const lk_cost *got =
				lk_costs_get(costs, costs->variant_of ? costs->variant_of[rank] : 0, op);
			assert_int_equal(got->duration_ps, wanted.duration_ps);
			assert_true(!graph->traced || (got->host_ps == 0 && got->lead_ps == 0));
		}
}

static void teams_cost_what_their_places_say(void **state) {
	(void)state;
	uint64_t seed = 11;
	for (int i = 0; i < 200; i++) {
		const struct placement *placement =
			&placements[(size_t)i % (sizeof placements / sizeof *placements)];
		lk_error err;
		lk_arena arena = LK_ARENA_INIT;
		lk_cluster cluster;
		lk_costs costs;
		if (lk_cluster_parse(&arena, placement->cluster, &cluster, &err) != LK_OK)
			fail_msg("%s: %s", placement->cluster, err.what);
		uint32_t stages = 2 + (uint32_t)(uniform(&seed) * 6),
				 chains = (uint32_t)cluster.gpus / stages;
		lk_graph *graph = team_graph(&seed, stages, chains < 4 ? chains : 4, i % 3 > 0);
		assert_int_equal(lk_costs_build(&arena, graph, &cluster, &eager, &costs, &err), LK_OK);
		check_teams(graph, &cluster, &costs);
		lk_graph_free(graph);
		lk_arena_free(&arena);
	}
}

/* One node of eight was traced of a run on eight nodes, or one rank of each: the others lie as
 * these do. */
static void missing_members_lie_as_the_others(void **state) {
	(void)state;
	static const struct {
		uint32_t stages, ranks;
		int nodes, per_node;
	} cases[] = {{8, 64, 8, 8}, {1, 64, 8, 8}, {1, 4, 1, 4}, {4, 12, 2, 8}};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		lk_arena arena = LK_ARENA_INIT;
		lk_error err;
		lk_cluster cluster;
		lk_costs costs;
		lk_graph *graph = graph_of(&(lk_op){.kind = LK_OP_ALLREDUCE,
		                                    .stream = 9,
		                                    .group = LK_GROUP_TEAM,
		                                    .name = "team",
		                                    .bytes = 1e8},
		                           1);
		const uint32_t members[] = {0, 1, 2, 3, 4, 5, 6, 7};
		lay_out(graph, cases[i].stages, 1);
		graph->traced = true;
		lk_graph_add_team(graph, "world", members, cases[i].stages, cases[i].ranks, false);
		assert_int_equal(lk_cluster_parse(&arena, "8 node * 8 h100-sxm", &cluster, &err), LK_OK);
		assert_int_equal(lk_costs_build(&arena, graph, &cluster, &eager, &costs, &err), LK_OK);
		lk_group_shape shape = {.node = &cluster.node[0],
		                        .ranks = (int)cases[i].ranks,
		                        .nodes = cases[i].nodes,
		                        .ranks_per_node = cases[i].per_node,
		                        .sharing = 1,
		                        .oversubscription = cluster.oversubscription};
		double wanted = lk_collective_cost(LK_COLL_ALLREDUCE, &shape, 1e8).seconds +
		                lk_default_constants.network_call_s;
		assert_true(fabs((double)costs.at[0].duration_ps * 1e-12 / wanted - 1) < 1e-6);
		lk_graph_free(graph);
		lk_arena_free(&arena);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_kind_takes_time_on_every_device),
		cmocka_unit_test(absurd_sizes_stay_finite),
		cmocka_unit_test(measured_times_win),
		cmocka_unit_test(gemm_time_grows),
		cmocka_unit_test(odd_rows_are_slower),
		cmocka_unit_test(gemm_stays_under_its_roofs),
		cmocka_unit_test(large_gemm_reaches_its_efficiency),
		cmocka_unit_test(power_sets_the_rate_of_products),
		cmocka_unit_test(early_attention_is_slower_on_blackwell),
		cmocka_unit_test(formats_fall_back_to_wider_ones),
		cmocka_unit_test(masks_save_attention),
		cmocka_unit_test(attention_follows_its_flops),
		cmocka_unit_test(streaming_kernels_are_linear),
		cmocka_unit_test(wide_memories_are_not_filled),
		cmocka_unit_test(vector_products_are_as_measured),
		cmocka_unit_test(launches_vanish_in_cuda_graphs),
		cmocka_unit_test(loops_over_experts_take_the_host),
		cmocka_unit_test(equal_nodes_are_as_many_single_ones),
		cmocka_unit_test(nodes_are_the_better_neighbours),
		cmocka_unit_test(pieces_run_beside_their_product),
		cmocka_unit_test(direct_exchanges_save_rounds),
		cmocka_unit_test(dispatchers_reach_their_published_rates),
		cmocka_unit_test(limited_routing_sends_less),
		cmocka_unit_test(company_only_slows),
		cmocka_unit_test(shared_links_halve),
		cmocka_unit_test(folded_runs_share_links_in_turns),
		cmocka_unit_test(taken_sms_cost_waves),
		cmocka_unit_test(a_full_wave_beside_a_collective),
		cmocka_unit_test(few_blocks_suffer),
		cmocka_unit_test(links_are_shared_fairly),
		cmocka_unit_test(memory_is_shared_by_demand),
		cmocka_unit_test(ranks_cost_what_their_places_say),
		cmocka_unit_test(teams_cost_what_their_places_say),
		cmocka_unit_test(missing_members_lie_as_the_others),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
