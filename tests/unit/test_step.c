/* test_step.c: memory and times of whole steps against closed forms: Korthikanti et al. (arXiv
 * 2205.05198) for activations, ZeRO (arXiv 1910.02054) and Megatron-LM for states, the pipelines'
 * bubble formulas. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "step/energy.h"
#include "step/step.h"
#include "base/stats.h"
#include "base/units.h"
#include "lockstep/predict.h"
#include "model/build/build.h"
#include "model/layout/job.h"

static lk_model gpt(int layers, int hidden, int heads) {
	return (lk_model){
		.name = "test",
		.family = "gpt2",
		.layers = layers,
		.hidden = hidden,
		.heads = heads,
		.kv_heads = heads,
		.head_dim = hidden / heads,
		.ffn = 4 * hidden,
		.vocab = 32000,
		.context = 2048,
		.norm = LK_NORM_LAYER,
		.norms_per_layer = 2,
		.final_norm = true,
		.norm_bias = true,
		.qkv_bias = false,
		.position_rows = 2048,
		.lm_head = true,
		.moe_every = 1,
	};
}

struct lk_fixture {
	lk_arena arena;
	lk_job job;
	lk_cluster cluster;
	lk_error err;
};

/* A job on H100 nodes; the caller changes it before `complete`. */
static void begin(struct lk_fixture *fixture, int gpus) {
	memset(fixture, 0, sizeof *fixture);
	fixture->job.model = gpt(16, 2048, 16);
	fixture->job.gpus = gpus;
	fixture->job.mbs = 2;
	fixture->job.seq = 2048;
	fixture->job.dtype = LK_BF16;
	fixture->job.dtype_said = true;
	const lk_device *device = lk_device_find("h100-sxm");
	assert_non_null(device);
	assert_int_equal(
		lk_cluster_simple(&fixture->arena, device, gpus, 0, 0, &fixture->cluster, &fixture->err),
		LK_OK);
}

static void complete(struct lk_fixture *fixture) {
	char text[1000];
	lk_status status = lk_job_complete(&fixture->job, &fixture->cluster, &fixture->err);
	if (status != LK_OK) fail_msg("%s", lk_error_text(&fixture->err, text, sizeof text));
}

static void ask(struct lk_fixture *fixture, const lk_step_options *options, lk_step *step) {
	char text[1000];
	lk_status status = lk_step_ask(&fixture->job, &fixture->cluster, options, step, &fixture->err);
	if (status != LK_OK) fail_msg("%s", lk_error_text(&fixture->err, text, sizeof text));
}

/* Bytes that a layer keeps per micro-batch with sequence parallelism: Korthikanti's 34 sbh / t less
 * the dropout masks (2), plus the log-sum-exp that flash attention keeps instead of the scores. */
static double layer_bytes(const lk_job *job) {
	double sbh = (double)job->seq * job->mbs * job->model.hidden;
	return (32 * sbh + 4.0 * job->seq * job->mbs * job->model.heads) / job->tp;
}

static void close_to(double got, double wanted, double tolerance) {
	if (fabs(got - wanted) > tolerance * fabs(wanted))
		fail_msg("got %.6g, expected %.6g within %g", got, wanted, tolerance);
}

static void activations_in_flight_follow_1f1b(void **state) {
	(void)state;
	for (int p = 2; p <= 8; p *= 2)
		for (int tp = 1; tp <= 4; tp *= 2) {
			struct lk_fixture f;
			begin(&f, 32);
			f.job.tp = tp;
			f.job.pp = p;
			f.job.gbs = 2 * 16 * (32 / (tp * p));
			f.job.sequence_parallel = tp > 1 ? LK_ON : LK_OFF;
			complete(&f);
			lk_step step;
			ask(&f, &(lk_step_options){.memory_only = true}, &step);
			for (int s = 1; s + 1 < p; s++) { /* stages without embedding and head */
				double wanted = layer_bytes(&f.job) * (16.0 / p) * (p - s);
				close_to(step.memory[s].walk.at_peak[LK_OWN_ACTIVATIONS], wanted, 1e-9);
			}
			lk_step_free(&step);
			lk_arena_free(&f.arena);
		}
}

static void full_recomputation_keeps_inputs_and_one_layer(void **state) {
	(void)state;
	struct lk_fixture f;
	begin(&f, 8);
	f.job.mbs = 16;
	f.job.tp = 2;
	f.job.pp = 4;
	f.job.gbs = 256;
	f.job.recompute = LK_RECOMPUTE_FULL;
	f.job.recompute_said = true;
	f.job.sequence_parallel = LK_ON;
	complete(&f);
	lk_step step;
	ask(&f, &(lk_step_options){.memory_only = true}, &step);
	double input = 2.0 * f.job.seq * f.job.mbs * f.job.model.hidden / f.job.tp;
	for (int s = 1; s < 3; s++) {
		double kept = input * 4 * (4 - s), layer = layer_bytes(&f.job) - input;
		close_to(step.memory[s].walk.at_peak[LK_OWN_ACTIVATIONS], kept + layer, 1e-9);
	}
	lk_step_free(&step);
	lk_arena_free(&f.arena);
}

static double state_bytes(lk_sharding sharding, lk_switch fp32_grads) {
	struct lk_fixture f;
	begin(&f, 8);
	f.job.sharding = sharding;
	f.job.sharding_said = true;
	f.job.fp32_grads = fp32_grads;
	complete(&f);
	lk_resident r = lk_sizes_resident(&f.job, 0);
	lk_rank_params p = lk_sizes_stage(&f.job, 0);
	lk_arena_free(&f.arena);
	return (r.weights + r.gradients + r.optimizer) / p.dense;
}

static void model_states_match_the_published_bytes_per_parameter(void **state) {
	(void)state;
	double d = 8;
	close_to(state_bytes(LK_SHARD_NONE, LK_ON), 18,
	         1e-12); /* Megatron-LM without distributed optimizer */
	close_to(state_bytes(LK_SHARD_ZERO1, LK_ON), 6 + 12 / d, 1e-12); /* with it */
	close_to(state_bytes(LK_SHARD_NONE, LK_OFF), 16, 1e-12);         /* ZeRO's 2 + 2 + 12 */
	close_to(state_bytes(LK_SHARD_ZERO1, LK_OFF), 4 + 12 / d, 1e-12);
	close_to(state_bytes(LK_SHARD_ZERO2, LK_OFF), 2 + 14 / d, 1e-12);
	close_to(state_bytes(LK_SHARD_ZERO3, LK_ON), 16 / d,
	         1e-12); /* FSDP: fp32 shards of weight, gradient, moments */
}

/* Step time without communication costs worth the name: one node per stage would still send, so the
 * network is made fast. */
static double step_seconds(int p, int v, int m, lk_schedule_kind schedule,
                           lk_step_options options) {
	struct lk_fixture f;
	begin(&f, p);
	f.job.model.vocab = 1024; /* ends that weigh little */
	f.job.pp = p;
	f.job.vp = v;
	f.job.gbs = 2 * m;
	f.job.schedule = schedule;
	f.job.schedule_said = true;
	f.cluster.node[0].nic_rate = f.cluster.node[0].intra_rate = 1e14;
	complete(&f);
	lk_step step;
	ask(&f, &options, &step);
	double seconds = step.step_s;
	lk_step_free(&step);
	lk_arena_free(&f.arena);
	return seconds;
}

static void bubbles_follow_the_formulas(void **state) {
	(void)state;
	lk_step_options exact = {.exact = true, .no_contention = true};
	lk_constants base;
	lk_profile_base(lk_calibration_current(), &base);
	double overhead = base.step_overhead_s;
	for (int m = 8; m <= 32; m *= 2) {
		double one = (step_seconds(1, 1, m, LK_SCHED_1F1B, exact) - overhead) /
		             m; /* a micro-batch through the whole model */
		double p = 4, stage = one / p;
		double plain = step_seconds(4, 1, m, LK_SCHED_1F1B, exact) - overhead;
		double gpipe = step_seconds(4, 1, m, LK_SCHED_GPIPE, exact) - overhead;
		double woven = step_seconds(4, 2, m, LK_SCHED_INTERLEAVED, exact) - overhead;
		close_to(plain, (m + p - 1) * stage, 0.08); /* ends and messages are not free */
		close_to(gpipe, (m + p - 1) * stage, 0.08);
		close_to(woven, (m + (p - 1) / 2) * stage, 0.08);
		assert_true(woven < plain);
	}
}

static void folding_repetition_changes_nothing(void **state) {
	(void)state;
	const lk_schedule_kind kinds[] = {LK_SCHED_1F1B, LK_SCHED_INTERLEAVED, LK_SCHED_ZB_H1};
	for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
		for (int contention = 0; contention < 2; contention++) {
			int v = kinds[k] == LK_SCHED_INTERLEAVED ? 2 : 1;
			double exact = step_seconds(
				4, v, 16, kinds[k], (lk_step_options){.exact = true, .no_contention = !contention});
			double folded =
				step_seconds(4, v, 16, kinds[k], (lk_step_options){.no_contention = !contention});
			close_to(folded, exact, 1e-3);
		}
}

/* Folding must hold for the usual job, with tensor and pipeline parallelism: few operations are
 * left of many. */
static void repetition_folds_under_tensor_and_pipeline_parallelism(void **state) {
	(void)state;
	uint64_t operations[2];
	for (int exact = 0; exact < 2; exact++) {
		struct lk_fixture f;
		begin(&f, 32);
		f.job.tp = 4;
		f.job.pp = 4;
		f.job.gbs = 64;
		complete(&f);
		lk_step step;
		ask(&f, &(lk_step_options){.exact = exact}, &step);
		operations[exact] = step.sim.operations;
		lk_step_free(&step);
		lk_arena_free(&f.arena);
	}
	assert_true(operations[0] * 10 < operations[1]);
}

static void all_ranks_and_one_of_each_class_agree(void **state) {
	(void)state;
	const lk_straggler slow = {5, 1.5};
	for (int straggler = 0; straggler < 2; straggler++)
		for (int contention = 0; contention < 2; contention++) {
			int64_t times[2];
			for (int all = 0; all < 2; all++) {
				struct lk_fixture f;
				begin(&f, 32);
				f.job.tp = 4;
				f.job.pp = 2;
				f.job.gbs = 32;
				complete(&f);
				lk_step step;
				ask(&f,
				    &(lk_step_options){.exact = true,
				                       .all_ranks = all,
				                       .no_contention = !contention,
				                       .stragglers = &slow,
				                       .straggler_count = (uint32_t)straggler},
				    &step);
				times[all] = step.sim.step_ps;
				assert_true(all ? step.sim.lanes == 16 : step.sim.lanes < 16);
				lk_step_free(&step);
				lk_arena_free(&f.arena);
			}
			assert_int_equal(times[0], times[1]);
		}
}

/* With parameters or gradients sharded, each layer asks for its weights and scatters what it found:
 * that shares the device with all kernels, and the step is that of every operation. */
static void sharded_layers_are_simulated_as_they_are(void **state) {
	(void)state;
	static const struct {
		const char *device;
		int tp, pp;
		lk_sharding sharding;
	} jobs[] = {
		{"h100-sxm", 1, 1, LK_SHARD_ZERO3},    {"h100-sxm", 4, 4, LK_SHARD_ZERO2},
		{"h100-sxm", 2, 2, LK_SHARD_ZERO3},    {"a100-sxm-80", 2, 4, LK_SHARD_ZERO2},
		{"a100-sxm-80", 1, 2, LK_SHARD_ZERO3},
	};
	for (size_t j = 0; j < sizeof jobs / sizeof *jobs; j++)
		for (int contention = 0; contention < 2; contention++) {
			struct lk_fixture f;
			lk_step step[2];
			begin(&f, 32);
			assert_int_equal(lk_cluster_simple(&f.arena, lk_device_find(jobs[j].device), 32, 0, 0,
			                                   &f.cluster, &f.err),
			                 LK_OK);
			f.job.model = gpt(16, 4096, 32);
			f.job.tp = jobs[j].tp;
			f.job.pp = jobs[j].pp;
			f.job.gbs = 2 * 40 * 32 / (jobs[j].tp * jobs[j].pp);
			f.job.sharding = jobs[j].sharding;
			f.job.sharding_said = true;
			complete(&f);
			for (int exact = 0; exact < 2; exact++)
				ask(&f, &(lk_step_options){.exact = exact, .no_contention = !contention},
				    &step[exact]);
			close_to(step[0].step_s, step[1].step_s, 1e-4);
			for (int i = 0; i < LK_PART_COUNT; i++)
				if (fabs(step[0].breakdown.exposed_s[i] - step[1].breakdown.exposed_s[i]) >
				    0.001 * step[1].step_s)
					fail_msg("job %zu, %s: %g s by default, %g s exactly", j,
					         lk_part_key((lk_part)i), step[0].breakdown.exposed_s[i],
					         step[1].breakdown.exposed_s[i]);
			for (int exact = 0; exact < 2; exact++) lk_step_free(&step[exact]);
			lk_arena_free(&f.arena);
		}
}

static void breakdown_adds_up_to_the_step(void **state) {
	(void)state;
	struct lk_fixture f;
	begin(&f, 32);
	f.job.tp = 4;
	f.job.pp = 2;
	f.job.gbs = 64;
	complete(&f);
	lk_breakdown split[2];
	for (int exact = 0; exact < 2; exact++) {
		lk_step step;
		ask(&f, &(lk_step_options){.exact = exact}, &step);
		double sum = 0;
		for (int i = 0; i < LK_PART_COUNT; i++) {
			assert_true(step.breakdown.exposed_s[i] >= 0 && step.breakdown.hidden_s[i] >= 0);
			sum += step.breakdown.exposed_s[i];
		}
		close_to(sum, step.step_s, exact ? 1e-6 : 0.01);
		split[exact] = step.breakdown;
		if (exact) /* folded runs are split as they would have run */
			for (int i = 0; i < LK_PART_COUNT; i++) {
				if (fabs(split[0].exposed_s[i] - split[1].exposed_s[i]) > 0.01 * step.step_s)
					fail_msg("%s: %g s folded, %g s exact", lk_part_key((lk_part)i),
					         split[0].exposed_s[i], split[1].exposed_s[i]);
			}
		lk_step_free(&step);
	}
	lk_arena_free(&f.arena);
}

static void seeds_are_told(void *context, int gpus, double done, double all) {
	double *before = context;
	assert_int_equal(gpus, 0);
	assert_true(done > *before && done <= all && all == 5);
	*before = done;
}

/* The quantiles of --seeds against every seed asked for itself, and slow ranks against a step
 * without any. */
static void seeds_spread_as_steps_asked_one_by_one(void **state) {
	enum { SEEDS = 5 };
	(void)state;
	struct lk_fixture f;
	lk_step first, each, even;
	lk_step_spread spread;
	double step_s[SEEDS], wait_s[SEEDS], share[SEEDS], told = 0;
	const lk_straggler slow = {.rank = 3, .factor = 1.2};
	begin(&f, 8);
	f.job.tp = 2;
	f.job.pp = 2;
	f.job.gbs = 16;
	complete(&f);
	lk_step_options options = {
		.jitter = 0.1, .gpu_spread = 0.02, .seed = 41, .stragglers = &slow, .straggler_count = 1};
	lk_step_options plain = {0};
	assert_int_equal(lk_step_ask(&f.job, &f.cluster, &plain, &even, &f.err), LK_OK);
	assert_int_equal(lk_step_ask(&f.job, &f.cluster, &options, &first, &f.err), LK_OK);
	assert_int_equal(
		lk_step_spread_over(&options, &first, SEEDS, seeds_are_told, &told, &spread, &f.err),
		LK_OK);
	for (int i = 0; i < SEEDS; i++) {
		options.seed = 41 + (uint64_t)i;
		assert_int_equal(lk_step_ask(&f.job, &f.cluster, &options, &each, &f.err), LK_OK);
		step_s[i] = each.step_s;
		wait_s[i] = each.breakdown.exposed_s[LK_PART_WAIT];
		share[i] = fmax(0, 1 - even.step_s / each.step_s);
		lk_step_free(&each);
	}
	assert_true(spread.step_s.p50 == lk_quantile(step_s, SEEDS, 0.5));
	assert_true(spread.step_s.p99 == lk_quantile(step_s, SEEDS, 0.99));
	assert_true(spread.part_s[LK_PART_WAIT].p95 == lk_quantile(wait_s, SEEDS, 0.95));
	assert_true(spread.straggler_share.p50 == lk_quantile(share, SEEDS, 0.5));
	assert_true(spread.straggler_share.p50 > 0.05); /* of a rank that is a fifth slower */
	lk_step_free(&first);
	lk_step_free(&even);
	lk_arena_free(&f.arena);
}

/* ---- energy ---- */

/* Of a step of 3.6 s in a training of ten hours. */
static lk_energy energy_of_parts(double products, double waiting, double memory, double pue) {
	lk_arena arena = LK_ARENA_INIT;
	lk_error err = {0};
	lk_cluster cluster;
	lk_breakdown parts = {0};
	assert_int_equal(lk_cluster_parse(&arena, "2 node * 8 h100-sxm", &cluster, &err), LK_OK);
	parts.exposed_s[LK_PART_GEMM] = products;
	parts.exposed_s[LK_PART_WAIT] = waiting;
	parts.exposed_s[LK_PART_MEMORY] = memory;
	parts.hidden_s[LK_PART_DP] = 5; /* beside the products: they draw what the board may already */
	lk_energy energy = lk_energy_of(&parts, &cluster, 16, 3.6, 10,
	                                &(lk_mains){.pue = pue, .carbon = 400, .price_kwh = 0.1});
	/* what layouts are compared by: the same order as their energy, and never below its bound */
	double full_s = lk_energy_full_s(&parts, 3.6);
	assert_true(fabs(full_s * 16 * 700 * 1.35 * pue / 3.6e6 - energy.step_kwh) < 1e-12);
	assert_true(full_s >= lk_energy_least_s(3.6));
	assert_true(fabs(lk_energy_longest_s(lk_energy_least_s(3.6)) - 3.6) < 1e-12);
	lk_arena_free(&arena);
	return energy;
}

static void energy_follows_what_a_gpu_does(void **state) {
	(void)state;
	lk_energy full = energy_of_parts(2, 0, 0, 1), idle = energy_of_parts(1e-9, 1e9, 0, 1),
			  mixed = energy_of_parts(1, 1, 2, 1), shared = energy_of_parts(1, 1, 2, 1.5);
	assert_true(fabs(full.gpu_watts - 700) < 1e-9);
	assert_true(fabs(idle.gpu_watts - 700 * (0.13 + 0.87 * 0.2)) < 1e-3);
	assert_true(fabs(mixed.gpu_watts - 700 * (0.13 + 0.87 * (0.25 + 0.25 * 0.2 + 0.5 * 0.4))) <
	            1e-9);
	assert_true(fabs(mixed.site_watts - 16 * (mixed.gpu_watts + 0.35 * 700)) < 1e-6);
	assert_true(fabs(mixed.step_kwh - mixed.site_watts / 1e6) < 1e-12); /* 3.6 s */
	assert_true(shared.gpu_watts == mixed.gpu_watts &&
	            fabs(shared.site_watts / mixed.site_watts - 1.5) < 1e-12);
	assert_true(fabs(mixed.training_kwh - mixed.site_watts / 1000 * 10) < 1e-9);
	assert_true(fabs(mixed.carbon_kg - mixed.training_kwh * 0.4) < 1e-9);
	assert_true(fabs(mixed.power_usd - mixed.training_kwh * 0.1) < 1e-9);
	/* a DGX H100 in training: 8.4 kW at most, 76 % of its 10.2 kW for heavy jobs */
	double node = full.site_watts / 2;
	assert_true(node > 0.76 * 10200 * 0.9 && node < 8400);
}

/* Steps of thousands of micro-batches, too large to be simulated operation by operation where they
 * are asked whole: they take as long as told from few of them. */
static void few_micro_batches_tell_what_all_take(void **state) {
	(void)state;
	static const char *const models[] = {"llama3.1-70b", "llama3.1-8b"};
	for (int m = 0; m < 2; m++)
		for (int vp = 1; vp <= 2; vp++) {
			lk_arena arena = {0};
			lk_asked asked;
			lk_error err = {0};
			lk_predict_request request;
			lk_step told, whole;
			lk_predict_defaults(&request);
			request.model = models[m];
			request.gpu = "h100-sxm";
			request.gpus = 128;
			request.tp = 4;
			request.pp = 8;
			request.vp = vp;
			request.gbs = 4 * 1024;
			request.mbs = 1;
			request.seq = 4096;
			assert_int_equal(lk_request_read(&arena, &request, &asked, &err), LK_OK);
			lk_step_options few = {.few = true}, all = {0};
			assert_int_equal(lk_step_ask(&asked.job, &asked.cluster, &few, &told, &err), LK_OK);
			assert_int_equal(lk_step_ask(&asked.job, &asked.cluster, &all, &whole, &err), LK_OK);
			assert_true(told.left_out > 0 && !whole.left_out);
			if (told.sim.step_ps != whole.sim.step_ps)
				fail_msg("%s, vp %d: %.9f s told from few, %.9f s whole", models[m], vp,
				         told.step_s, whole.step_s);
			lk_step_free(&told);
			lk_step_free(&whole);
			lk_arena_free(&arena);
		}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(activations_in_flight_follow_1f1b),
		cmocka_unit_test(full_recomputation_keeps_inputs_and_one_layer),
		cmocka_unit_test(model_states_match_the_published_bytes_per_parameter),
		cmocka_unit_test(bubbles_follow_the_formulas),
		cmocka_unit_test(folding_repetition_changes_nothing),
		cmocka_unit_test(repetition_folds_under_tensor_and_pipeline_parallelism),
		cmocka_unit_test(all_ranks_and_one_of_each_class_agree),
		cmocka_unit_test(sharded_layers_are_simulated_as_they_are),
		cmocka_unit_test(breakdown_adds_up_to_the_step),
		cmocka_unit_test(few_micro_batches_tell_what_all_take),
		cmocka_unit_test(seeds_spread_as_steps_asked_one_by_one),
		cmocka_unit_test(energy_follows_what_a_gpu_does),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
