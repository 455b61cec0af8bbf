/* test_optimizers.c: optimizers against hand counts: bytes of state, matrices, and the operations
 * of the products that Muon, SOAP and Shampoo make of them. */
#include <string.h>

#include "model/layout/sizes.h"
#include "model/network/parts.h"
#include "small_llama.h"
#include "model/read/read.h"

/* Of every preset, each layer's matrices are its weights that tokens are multiplied with; layers
 * that use an earlier one's have none of their own but those of the use. */
static void matrices_sum_to_the_weights(void **state) {
	(void)state;
	for (int i = 0; i < lk_model_preset_count(); i++) {
		const lk_model *model = lk_model_preset_at(i);
		if (model->network == LK_NET_CONV) continue;
		for (int layer = 0; layer < model->layers + model->decoder_layers; layer++) {
			if (lk_model_reuses(model, layer)) continue;
			lk_layer_weights of = lk_layer_weights_of(model, layer);
			double wanted =
				of.mixers.matrices + of.mlp.matrices + of.router.matrices + of.experts.matrices;
			for (int joined = 0; joined < 2; joined++) {
				lk_matrices list;
				double sum = 0;
				lk_model_matrices(model, layer, joined, &list);
				for (int k = 0; k < list.count; k++)
					sum += list.at[k].out * list.at[k].in * list.at[k].count;
				if (fabs(sum - wanted) > 1e-9 * wanted)
					fail_msg("%s, layer %d: %.10g, not %.10g", model->name, layer, sum, wanted);
			}
		}
	}
}

static lk_job llama(lk_optimizer optimizer) {
	lk_job job = small_llama();
	job.gbs = 8;
	job.optimizer = optimizer;
	return job;
}

static double state_bytes(lk_job job) {
	complete(&job);
	return lk_sizes_resident(&job, 0).optimizer;
}

static const double H = 1024, KV = 256, F = 3072, V = 4096;

/* Elements of both layers' matrices, of embedding and head, of the five norms. */
static double hidden(void) {
	return 2 * (2 * H * H + 2 * KV * H + 3 * F * H);
}
static double rest(void) {
	return 2 * V * H + 5 * H;
}

static void states_match_hand_counts(void **state) {
	(void)state;
	double all = hidden() + rest();
	near(state_bytes(llama(LK_OPT_ADAM)), 12 * all);
	near(state_bytes(llama(LK_OPT_LION)), 8 * all);
	near(state_bytes(llama(LK_OPT_ADAM_MINI)), 8 * all);
	near(state_bytes(llama(LK_OPT_ADAM_8BIT)), (6 + 8 / 256.) * all);
	near(state_bytes(llama(LK_OPT_MUON)), 8 * hidden() + 12 * rest());
	lk_job job = llama(LK_OPT_MUON);
	job.state_dtype = LK_BF16;
	near(state_bytes(job), 6 * hidden() + 8 * rest());

	/* q and o, k and v, gate with input, out; embedding and head, all sides below 10,000 */
	double sides =
		2 * (2 * (H * H + H * H) + 2 * (KV * KV + H * H) + (4 * F * F + H * H) + (F * F + H * H)) +
		2 * (V * V + H * H);
	near(state_bytes(llama(LK_OPT_SOAP)), 12 * all + 8 * sides);
	near(state_bytes(llama(LK_OPT_SHAMPOO)), 8 * all + 8 * sides);
	/* a vocabulary above 10,000 has no side of its own in SOAP; Shampoo cuts it into 3 blocks */
	job = llama(LK_OPT_SOAP);
	job.model.vocab = 24576 - 128;
	near(state_bytes(job), 12 * (all + 2 * (24448 - V) * H) + 8 * (sides - 2 * V * V));
	job.optimizer = LK_OPT_SHAMPOO;
	double block = 24448 / 3.;
	near(state_bytes(job), 8 * (all + 2 * (24448 - V) * H) +
	                           8 * (sides - 2 * V * V - 2 * H * H + 6 * (block * block + H * H)));
}

static bool ends_step(const lk_graph *graph, uint32_t op, const void *kind) {
	return graph->ops.phase[op] == LK_PHASE_OPTIMIZER &&
	       graph->ops.kind[op] == *(const unsigned *)kind;
}

/* Of all calls of the end of the step, per rank of the first stage. */
static double sum_of(lk_job job, unsigned kind, const double *(*column)(const lk_ops *)) {
	return sum_over(job, ends_step, &kind, column);
}

static double steps_of(double m, double n) {
	return 5 * (4 * m * m * n + 2 * m * m * m);
}

/* Gate and input are one matrix of 2f rows in Megatron-LM, two in FSDP. */
static void newton_schulz_matches_a_hand_count(void **state) {
	(void)state;
	double heads = 2 * steps_of(H, H) + 2 * steps_of(KV, H);
	lk_job job = llama(LK_OPT_MUON);
	near(sum_of(job, LK_OP_GEMM, flops_of), 2 * (heads + steps_of(H, 2 * F) + steps_of(H, F)));
	strcpy(job.stack, "fsdp");
	near(sum_of(job, LK_OP_GEMM, flops_of), 2 * (heads + 3 * steps_of(H, F)));
	job.muon_syrk = true; /* half of each gram matrix: m m n less in each of 5 iterations */
	near(sum_of(job, LK_OP_GEMM, flops_of),
	     2 * (heads + 3 * steps_of(H, F)) -
	         2 * 5 * (2. * H * H * H + 2. * KV * KV * H + 3. * H * H * F));
	job.muon_syrk = false;
	job.muon_steps = 10;
	near(sum_of(job, LK_OP_GEMM, flops_of), 4 * (heads + 3 * steps_of(H, F)));
	assert_true(sum_of(llama(LK_OPT_ADAM), LK_OP_GEMM, flops_of) == 0);
}

/* Tensor parallelism: gathered whole, or summed products of rows, or each part on its own. */
static void divided_matrices(void **state) {
	(void)state;
	lk_job job = llama(LK_OPT_MUON);
	double t = 2, whole = sum_of(job, LK_OP_GEMM, flops_of);
	job.tp = job.gpus = 2;
	near(sum_of(job, LK_OP_GEMM, flops_of), whole);
	near(sum_of(job, LK_OP_ALLGATHER, bytes_of), 2 * hidden());
	near(state_bytes(job), (8 * hidden() + 12 * (rest() - 4 * H)) / t + 12 * 4 * H);

	job.muon_tp = LK_MUON_DISTRIBUTED; /* all uncut sides are h; k and v are cut along 256 */
	double each = 2 * steps_of(H, H / t) + 2 * steps_of(H, KV / t) + steps_of(H, 2 * F / t) +
	              steps_of(H, F / t);
	near(sum_of(job, LK_OP_GEMM, flops_of), 2 * each);
	assert_true(sum_of(job, LK_OP_ALLGATHER, bytes_of) == 0);

	job.muon_tp = LK_MUON_BLOCKWISE;
	each = 2 * steps_of(H / t, H) + 2 * steps_of(KV / t, H) + steps_of(H, 2 * F / t) +
	       steps_of(H, F / t);
	near(sum_of(job, LK_OP_GEMM, flops_of), 2 * each);
}

/* What the ranks of ZeRO share: the update is gathered, the matrices are dealt. */
static void shared_matrices(void **state) {
	(void)state;
	lk_job job = llama(LK_OPT_MUON);
	double whole = sum_of(job, LK_OP_GEMM, flops_of);
	job.gpus = job.dp = 4;
	job.sharding_said = true;
	job.sharding = LK_SHARD_NONE;
	near(sum_of(job, LK_OP_GEMM, flops_of), whole);
	job.sharding = LK_SHARD_ZERO1;
	job.overlap_param_gather = LK_ON;
	near(sum_of(job, LK_OP_ALLGATHER, bytes_of), 2 * hidden());
	near(state_bytes(job), (8 * hidden() + 12 * rest()) / 4);
	/* 12 matrices over 4 ranks by size: places 0, 4 and 8 are 2f x h, q, k of a layer */
	near(sum_of(job, LK_OP_GEMM, flops_of), steps_of(H, 2 * F) + steps_of(H, H) + steps_of(KV, H));
	job.sharding = LK_SHARD_ZERO3;
	near(sum_of(job, LK_OP_ALLTOALL, bytes_of), 2 * 2 * hidden() / 4);

	for (int shards = 1; shards <= 16; shards *= 2) {
		lk_rank_matrices list;
		double most = 0, count = 0;
		job.gpus = job.dp = shards;
		job.gbs = 16;
		job.microbatches = 0;
		lk_job done = job;
		complete(&done);
		lk_optimizer_matrices(&done, 0, &list);
		for (int i = 0; i < list.count; i++) most += list.at[i].dealt, count += list.at[i].count;
		near(most, ceil(count / shards));
	}
}

static void soap_and_shampoo_products(void **state) {
	(void)state;
	const double pairs[][2] = {{H, H}, {H, H},  {KV, H}, {KV, H},    {2 * F, H}, {F, H}, {H, H},
	                           {H, H}, {KV, H}, {KV, H}, {2 * F, H}, {F, H},     {V, H}, {V, H}};
	double soap = 0, shampoo = 0;
	for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
		double m = pairs[i][0], n = pairs[i][1], cubes = m * m * m + n * n * n;
		soap += 8 * m * n * (m + n) + (2 + 8 / 3.) * cubes / 10;
		shampoo += 4 * m * n * (m + n) + (9 + 4) * cubes / 50;
	}
	near(sum_of(llama(LK_OPT_SOAP), LK_OP_GEMM, flops_of), soap);
	near(sum_of(llama(LK_OPT_SHAMPOO), LK_OP_GEMM, flops_of), shampoo);
}

/* Gradient 4 bytes, state read and written, 16-bit weight written; what goes through the products
 * is written and read once more. */
static void traffic_of_the_step(void **state) {
	(void)state;
	double all = hidden() + rest(), norm = 4 * all;
	near(sum_of(llama(LK_OPT_ADAM), LK_OP_OPTIMIZER, bytes_of), norm + (4 + 24 + 2) * all);
	near(sum_of(llama(LK_OPT_LION), LK_OP_OPTIMIZER, bytes_of), norm + (4 + 16 + 2) * all);
	near(sum_of(llama(LK_OPT_MUON), LK_OP_OPTIMIZER, bytes_of),
	     norm + (4 + 24 + 2) * rest() + (4 + 16 + 2 + 4) * hidden());
}

static void refused(void **state) {
	(void)state;
	lk_error err;
	for (int i = 0; i < 2; i++) {
		lk_job job = llama(LK_OPT_MUON);
		if (i == 0) job.task = LK_TASK_LORA;
		else job.offload_optimizer = true;
		assert_int_equal(lk_job_complete(&job, NULL, &err), LK_ERR_INPUT);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(matrices_sum_to_the_weights),
		cmocka_unit_test(states_match_hand_counts),
		cmocka_unit_test(newton_schulz_matches_a_hand_count),
		cmocka_unit_test(divided_matrices),
		cmocka_unit_test(shared_matrices),
		cmocka_unit_test(soap_and_shampoo_products),
		cmocka_unit_test(traffic_of_the_step),
		cmocka_unit_test(refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
