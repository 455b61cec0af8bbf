/* test_beside.c: what runs beside the layers of a step, against hand counts and properties: heads
 * exchanged over context-parallel ranks, activations and weights in host
 * memory, documents in sequences, averages of parameters, teachers. */
#include <string.h>

#include "small_llama.h"
#include "model/layout/sizes.h"

static const double H = 1024, KV = 256, S = 1024, LAYERS = 2;

static bool has_name(const lk_graph *graph, uint32_t op, const void *name) {
	return strcmp(lk_intern_text(graph->names, graph->ops.name[op]), name) == 0;
}

static double sum_of(lk_job job, const char *name, const double *(*column)(const lk_ops *)) {
	return sum_over(job, has_name, name, column);
}

static lk_job long_sequences(int cp, lk_cp_kind kind, int heads) {
	lk_job job = small_llama();
	job.gbs = job.mbs = 1;
	job.gpus = job.cp = cp;
	job.cp_kind = kind;
	job.cp_heads = heads;
	return job;
}

/* Exchanging heads moves queries, keys, values and outputs once in each direction of both passes,
 * leaves the operations of attention as they were, and nothing for a ring between all ranks. */
static void heads_exchanged(void **state) {
	(void)state;
	for (int cp = 2; cp <= 4; cp *= 2) {
		lk_job ring = long_sequences(cp, LK_CP_RING, 0), all = long_sequences(cp, LK_CP_ULYSSES, 0);
		double t = S / cp;
		near(sum_of(all, "exchange_qkv", bytes_of), LAYERS * 2 * t * (H + 2 * KV));
		near(sum_of(all, "exchange_output", bytes_of), LAYERS * 2 * t * H);
		near(sum_of(all, "exchange_output_grad", bytes_of), LAYERS * 2 * t * H);
		near(sum_of(all, "exchange_qkv_grad", bytes_of), LAYERS * 2 * t * (H + 2 * KV));
		assert_true(sum_of(all, "exchange_kv", bytes_of) == 0);
		near(sum_of(all, "attention", flops_of), sum_of(ring, "attention", flops_of));
		near(sum_of(all, "attention_grad", flops_of), sum_of(ring, "attention_grad", flops_of));
	}
	/* in pairs, a ring of two pairs: half of the keys and values go round */
	lk_job ring = long_sequences(4, LK_CP_RING, 0), pairs = long_sequences(4, LK_CP_ULYSSES, 2);
	near(sum_of(pairs, "exchange_kv", bytes_of), sum_of(ring, "exchange_kv", bytes_of) / 2);
	near(sum_of(pairs, "exchange_qkv", bytes_of), LAYERS * 2 * S / 4 * (H + 2 * KV));
	near(sum_of(pairs, "attention", flops_of), sum_of(ring, "attention", flops_of));
	lk_error err;
	lk_job odd = long_sequences(4, LK_CP_ULYSSES, 3);
	assert_int_equal(lk_job_complete(&odd, NULL, &err), LK_ERR_INPUT);
	assert_string_equal(err.where, "--cp-kind");
}

/* What leaves comes back, and is what layers kept: of a checkpoint their inputs. */
static void activations_on_the_host(void **state) {
	(void)state;
	for (int full = 0; full < 2; full++) {
		lk_job job = small_llama();
		job.gbs = 4, job.mbs = 1;
		job.recompute = full ? LK_RECOMPUTE_FULL : LK_RECOMPUTE_NONE;
		job.recompute_said = true;
		assert_true(sum_of(job, "activations_to_host", bytes_of) == 0);
		job.offload_activations = true;
		double gone = sum_of(job, "activations_to_host", bytes_of);
		near(sum_of(job, "activations_to_device", bytes_of), gone);
		if (full) near(gone, 4 * LAYERS * 2 * S * H);
		else assert_true(gone > 4 * LAYERS * 2 * S * 8 * H);
	}
	lk_error err;
	lk_job job = small_llama();
	job.gpus = job.pp = 2, job.gbs = 8;
	job.schedule = LK_SCHED_ZB_H1, job.schedule_said = true;
	job.offload_activations = true;
	assert_int_equal(lk_job_complete(&job, NULL, &err), LK_ERR_INPUT);
	assert_string_equal(err.where, "--offload-activations");
}

/* One document a sequence is the plain job; two equal ones have half of the pairs, and as many
 * operations in attention; no deviation, no busiest rank. */
static void documents_packed(void **state) {
	(void)state;
	lk_job plain = small_llama(), packed = small_llama();
	packed.gbs = plain.gbs = 8;
	packed.pack_share = 1;
	near(sum_of(packed, "attention", flops_of), sum_of(plain, "attention", flops_of));
	packed.pack_share = .5;
	near(sum_of(packed, "attention", flops_of), sum_of(plain, "attention", flops_of) / 2);
	near(sum_of(packed, "attention_grad", flops_of), sum_of(plain, "attention_grad", flops_of) / 2);
	near(sum_of(packed, "mlp_up", flops_of), sum_of(plain, "mlp_up", flops_of));
	/* the largest of two normal deviates is 1 / sqrt(pi), of 100 2.508 (Blom's within 1 %) */
	packed.gpus = packed.dp = 2, packed.gbs = 8, packed.mbs = 1, packed.pack_spread = .1;
	complete(&packed);
	double two = (lk_job_pack_busiest(&packed) - 1) * .5 / .1 * 2;
	if (fabs(two / 0.5642 - 1) > 0.05) fail_msg("of two %g", two);
	packed.dp = 100;
	double hundred = (lk_job_pack_busiest(&packed) - 1) * .5 / .1 * 2;
	if (fabs(hundred / 2.508 - 1) > 0.01) fail_msg("of a hundred %g", hundred);
	packed.pack_spread = 0;
	assert_true(lk_job_pack_busiest(&packed) == 1);
	packed.pack_share = .9, packed.pack_spread = 9;
	near(lk_job_pack_busiest(&packed) * .9, 1); /* never more pairs than there are */
}

/* The normal distribution function, by Simpson's rule. */
static double normal_below(double x) {
	enum { STEPS = 2000 };
	double from = -12, width = (x - from) / STEPS, sum = 0;
	for (int i = 0; i <= STEPS; i++) {
		double at = from + i * width, weight = i % 2 ? 4 : 2;
		if (i == 0 || i == STEPS) weight = 1;
		sum += weight * exp(-at * at / 2);
	}
	return sum * width / 3 / sqrt(2 * acos(-1));
}

/* Of sequences at most as long as `seq`, the stated share is shorter than the length given for it;
 * without a law lengths lie evenly, without a spread all are equal. */
static void documents_apart(void **state) {
	(void)state;
	lk_job job = small_llama();
	near(lk_job_ragged_length(&job, .3), .3);
	for (int i = 1; i < 10; i++) {
		job.ragged_median = job.seq * i / 5.0, job.ragged_spread = .2 * i;
		double room = log(job.seq / job.ragged_median) / job.ragged_spread;
		near(lk_job_ragged_kept(&job), normal_below(room));
		for (double share = .05; share < 1; share += .1) {
			double length = lk_job_ragged_length(&job, share) * job.seq;
			near(normal_below(log(length / job.ragged_median) / job.ragged_spread),
			     share * normal_below(room));
		}
	}
	job.ragged_median = job.seq / 4.0, job.ragged_spread = 0;
	near(lk_job_ragged_length(&job, .9), .25);
	job.ragged_median = 2.0 * job.seq;
	assert_true(lk_job_ragged_kept(&job) == 0);
}

static bool gathers_beside(const lk_graph *graph, uint32_t op, const void *name) {
	return has_name(graph, op, name) && !(graph->ops.join[op] & LK_JOIN(LK_STREAM_COMPUTE));
}

/* Where adapters are units of FSDP no layer is gathered while another computes; the bytes are those
 * of layers that are, without the one too many. */
static void adapters_end_prefetching(void **state) {
	(void)state;
	lk_job job = small_llama();
	job.gpus = job.dp = 4, job.gbs = 8, job.mbs = 1;
	job.sharding = LK_SHARD_ZERO3, job.sharding_said = true;
	job.task = LK_TASK_LORA, job.lora_rank = 8;
	strcpy(job.stack, "fsdp");
	double first = sum_of(job, "gather first weights", bytes_of),
		   all = sum_of(job, "gather_weights", bytes_of),
		   ahead = sum_over(job, gathers_beside, "gather_weights", bytes_of);
	lk_job layers = job;
	layers.layer_units = true;
	double layers_first = sum_of(layers, "gather first weights", bytes_of),
		   layers_ahead = sum_over(layers, gathers_beside, "gather_weights", bytes_of);
	assert_true(first == 0 && layers_first > 0 && ahead < layers_ahead);
	near(sum_of(layers, "gather_weights", bytes_of), all);
	/* nothing hangs where the host keeps the weights */
	job.offload_optimizer = job.offload_params = true;
	assert_true(sum_of(job, "weights_from_host", bytes_of) > 0);
}

/* Each rank's piece comes before every gather; none goes back at the end, where the host has it. */
static void weights_on_the_host(void **state) {
	(void)state;
	lk_error err;
	lk_job job = small_llama();
	job.gpus = job.dp = 4, job.gbs = 8, job.mbs = 1;
	job.sharding = LK_SHARD_ZERO3, job.sharding_said = true;
	job.offload_optimizer = true;
	double gathered =
		sum_of(job, "gather_weights", bytes_of) + sum_of(job, "gather first weights", bytes_of);
	assert_true(gathered > 0 && sum_of(job, "weights_from_host", bytes_of) == 0);
	assert_true(sum_of(job, "weights_to_device", bytes_of) > 0);
	strcpy(job.stack, "deepspeed");
	lk_job on_device = job;
	job.offload_params = true;
	near(sum_of(job, "weights_from_host", bytes_of), gathered / 4);
	assert_true(sum_of(job, "weights_to_device", bytes_of) == 0);
	complete(&job);
	complete(&on_device);
	assert_true(lk_sizes_resident(&job, 0).weights == 0);
	assert_true(lk_sizes_resident(&on_device, 0).weights > 0);
	assert_true(lk_sizes_resident(&job, 0).gradients == 0);
	assert_true(lk_sizes_resident(&on_device, 0).gradients == 0); /* with the optimizer */
	job.offload_optimizer = false;
	assert_int_equal(lk_job_complete(&job, NULL, &err), LK_ERR_INPUT);
	assert_string_equal(err.where, "--offload-params");
}

/* Bytes that a step moves and holds of a job in host memory; parameters of the small network. */
static const double SMALL_PARAMETERS =
	2 * (2 * 1024. * 1024 + 2 * 256. * 1024 + 3 * 3072. * 1024) + 2 * 4096. * 1024 + 5 * 1024.;

/* FSDP's shards are of the fp32 master copy, DeepSpeed's of 16 bits; gradients go to the host as
 * they are kept, once for every micro-batch; frozen weights come from there in 16 bits. */
static void shards_on_the_host(void **state) {
	(void)state;
	lk_job job = small_llama();
	job.gpus = job.dp = 4, job.gbs = 8, job.mbs = 1;
	job.sharding = LK_SHARD_ZERO3, job.sharding_said = true;
	job.offload_optimizer = job.offload_params = true;
	strcpy(job.stack, "deepspeed");
	double narrow = sum_of(job, "weights_from_host", bytes_of);
	near(sum_of(job, "gradients_to_host", bytes_of), 2 * 2 * SMALL_PARAMETERS / 4);
	strcpy(job.stack, "fsdp");
	near(sum_of(job, "weights_from_host", bytes_of), 2 * narrow);
	near(sum_of(job, "gradients_to_host", bytes_of), 2 * 4 * SMALL_PARAMETERS / 4);
	job.task = LK_TASK_LORA, job.layer_units = true;
	near(sum_of(job, "weights_from_host", bytes_of), narrow);
	assert_true(sum_of(job, "gradients_to_host", bytes_of) < 4 * SMALL_PARAMETERS / 100);
	complete(&job);
	assert_true(lk_sizes_resident(&job, 0).weights == 0);
	job.narrow_base = true;
	assert_true(sum_of(job, "weights_from_host", bytes_of) < narrow / 2);
	complete(&job);
	assert_true(lk_sizes_resident(&job, 0).weights == 0);
}

/* What a parameter of a rank has of gradients: DeepSpeed's in the format of the weights but for
 * bf16 without ZeRO and where the configuration says fp32; Megatron-LM's and FSDP's in fp32. */
static void gradients_by_software(void **state) {
	(void)state;
	static const struct {
		const char *stack;
		lk_sharding zero;
		lk_dtype dtype;
		lk_switch wide;
		double bytes; /* of all parameters */
	} cases[] = {
		{"deepspeed", LK_SHARD_NONE, LK_BF16, LK_AUTO, 4},
		{"deepspeed", LK_SHARD_NONE, LK_FP16, LK_AUTO, 2},
		{"deepspeed", LK_SHARD_ZERO1, LK_BF16, LK_AUTO, 2},
		{"deepspeed", LK_SHARD_ZERO1, LK_BF16, LK_ON, 4},
		{"deepspeed", LK_SHARD_ZERO2, LK_BF16, LK_AUTO, 2 / 4.},
		{"deepspeed", LK_SHARD_ZERO3, LK_BF16, LK_AUTO, 2 / 4.},
		{"deepspeed", LK_SHARD_ZERO3, LK_BF16, LK_ON, 4 / 4.},
		{"megatron", LK_SHARD_ZERO1, LK_BF16, LK_AUTO, 4},
		{"fsdp", LK_SHARD_ZERO3, LK_BF16, LK_AUTO, 4 / 4.},
		{"fsdp", LK_SHARD_ZERO2, LK_BF16, LK_AUTO, 2 / 4.},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		lk_job job = small_llama();
		job.gpus = job.dp = 4, job.gbs = 8, job.mbs = 1;
		job.sharding = cases[i].zero, job.sharding_said = true;
		job.dtype = cases[i].dtype, job.dtype_said = true;
		job.fp32_grads = cases[i].wide;
		strcpy(job.stack, cases[i].stack);
		complete(&job);
		near(lk_sizes_resident(&job, 0).gradients, cases[i].bytes * SMALL_PARAMETERS);
	}
}

/* FSDP of weights in bf16 alone holds them: there is no master copy that could be the weights. */
static void without_master_copy(void **state) {
	(void)state;
	lk_job job = small_llama();
	job.gpus = job.dp = 4, job.gbs = 8, job.mbs = 1;
	job.sharding = LK_SHARD_ZERO3, job.sharding_said = true;
	job.master_weights = LK_OFF;
	strcpy(job.stack, "fsdp");
	complete(&job);
	near(lk_sizes_resident(&job, 0).weights, 2 * SMALL_PARAMETERS / 4);
	near(lk_sizes_resident(&job, 0).gradients, 2 * SMALL_PARAMETERS / 4);
	near(lk_sizes_checkpoint(&job), (2 + 8) * SMALL_PARAMETERS);
}

/* Bytes of optimizer state for a parameter, the master copy included. */
static void narrow_states(void **state) {
	(void)state;
	static const struct {
		lk_optimizer optimizer;
		double bytes;
	} cases[] = {{LK_OPT_ADAM, 12},
	             {LK_OPT_ADAM_8BIT, 4 + 2 + 8 / 256.},
	             {LK_OPT_ADAM_4BIT, 4 + 1 + 8 / 128.},
	             {LK_OPT_ADAM_FLASH, 1 + 2 + 4 / 32.},
	             {LK_OPT_LION_8BIT, 4 + 1 + 4 / 256.},
	             {LK_OPT_ADEMAMIX, 4 + 12},
	             {LK_OPT_ADEMAMIX_8BIT, 4 + 3 + 12 / 256.}};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		lk_job job = small_llama();
		job.gbs = job.mbs = 1;
		job.optimizer = cases[i].optimizer;
		complete(&job);
		near(lk_sizes_state_bytes(&job), cases[i].bytes);
		near(lk_sizes_resident(&job, 0).optimizer, cases[i].bytes * SMALL_PARAMETERS);
	}
}

static double most_logits(lk_job job) {
	lk_graph *graph;
	lk_error err;
	complete(&job);
	assert_int_equal(lk_build_graph(&job, &graph, &err), LK_OK);
	assert_int_equal(lk_graph_check(graph, &err), LK_OK);
	double now = 0, most = 0;
	const lk_program *program = &graph->programs.at[0];
	for (size_t i = 0; i < program->calls.count; i++) {
		const lk_block *block = &graph->blocks.at[program->calls.at[i].block];
		for (uint32_t op = block->begin; op < block->end; op++) {
			if (graph->ops.alloc_owner[op] == LK_OWN_LOGITS) now += graph->ops.alloc[op];
			most = fmax(most, now);
			if (graph->ops.release_owner[op] == LK_OWN_LOGITS) now -= graph->ops.release[op];
		}
	}
	lk_graph_free(graph);
	if (fabs(now) > 1e-6 * most) fail_msg("%g bytes of logits stay", now);
	return most;
}

/* Products of the head: logits, gradient of its input and of its weights, whatever is held; cut
 * makes the logits again and half of both gradients. What exists at a time is a piece, for linear
 * of 1024 tokens / (4096 words / 1024 wide). */
static void losses_in_pieces(void **state) {
	(void)state;
	static const struct {
		lk_loss_kind loss;
		int chunks;
		double products, bytes; /* of 2 T V h; of a logit of all */
	} cases[] = {{LK_LOSS_LOGITS, 0, 2, 14},
	             {LK_LOSS_LINEAR, 0, 2, 2 / 4.},
	             {LK_LOSS_CHUNKED, 0, 2, 14 / 8.},
	             {LK_LOSS_CHUNKED, 2, 2, 14 / 2.},
	             {LK_LOSS_CUT, 0, 2.5, 8 / 4096.}};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		lk_job job = small_llama();
		job.gbs = job.mbs = 1;
		strcpy(job.stack, "torchtitan");
		job.loss = cases[i].loss, job.loss_chunks = cases[i].chunks;
		double product = 2 * S * 4096 * H;
		near(sum_of(job, "lm_head", flops_of) + sum_of(job, "lm_head_again", flops_of) +
		         sum_of(job, "lm_head_grad", flops_of),
		     cases[i].products * product);
		near(most_logits(job), cases[i].bytes * S * 4096);
	}
	lk_error err;
	lk_job job = small_llama();
	job.loss = LK_LOSS_LINEAR, job.fused_cross_entropy = LK_ON;
	assert_int_equal(lk_job_complete(&job, NULL, &err), LK_ERR_INPUT);
	assert_string_equal(err.where, "--loss");
	assert_int_equal(lk_job_take_loss(&job, "cut/4", &err), LK_ERR_INPUT);
	assert_int_equal(lk_job_take_loss(&job, "none", &err), LK_ERR_INPUT);
	assert_int_equal(lk_job_take_loss(&job, "chunked/4", &err), LK_OK);
	assert_true(job.loss == LK_LOSS_CHUNKED && job.loss_chunks == 4);
}

/* In fp32 on the device, 16 bits a step on the way to the host; shared as the optimizer's state. */
static void averages(void **state) {
	(void)state;
	double matrices = 2 * (2 * H * H + 2 * KV * H + 3 * 3072 * H),
		   all = matrices + 2 * 4096 * H + 5 * H;
	for (int dp = 1; dp <= 4; dp *= 4) {
		lk_job job = small_llama();
		job.gpus = job.dp = dp, job.gbs = 8, job.mbs = 1;
		job.sharding = LK_SHARD_ZERO1, job.sharding_said = true;
		lk_job plain = job;
		complete(&plain);
		job.average = LK_AVERAGE_DEVICE;
		near(sum_of(job, "average", bytes_of), 12 * all / dp);
		assert_true(sum_of(job, "average_to_host", bytes_of) == 0);
		complete(&job);
		near(lk_sizes_resident(&job, 0).optimizer - lk_sizes_resident(&plain, 0).optimizer,
		     4 * all / dp);
		job.average = LK_AVERAGE_HOST;
		near(sum_of(job, "average_to_host", bytes_of), 2 * all / dp);
		assert_true(sum_of(job, "average", bytes_of) == 0);
		near(lk_sizes_resident(&job, 0).optimizer, lk_sizes_resident(&plain, 0).optimizer);
		job.offload_optimizer = true; /* the host has the parameters */
		plain.offload_optimizer = true;
		assert_true(sum_of(job, "average_to_host", bytes_of) == 0);
		near(sum_of(job, "host_optimizer", bytes_of) - sum_of(plain, "host_optimizer", bytes_of),
		     12 * all / dp);
	}
}

/* A teacher of twice the depth runs its layers and its head once for each micro-batch, keeps
 * nothing, and is a copy in 16 bits; ZeRO-3 shares it. */
static void a_teacher(void **state) {
	(void)state;
	double layer = 2 * H * H + 2 * KV * H + 3 * 3072 * H + 2 * H;
	lk_model deep = small_llama().model;
	deep.layers = 4;
	for (int zero = 1; zero <= 3; zero += 2) {
		lk_job plain = small_llama();
		plain.gpus = plain.dp = 2, plain.gbs = 8, plain.mbs = 1;
		plain.sharding = (lk_sharding)zero, plain.sharding_said = true;
		lk_job job = plain;
		job.teacher = &deep;
		near(sum_of(job, "mlp_up", flops_of), 3 * sum_of(plain, "mlp_up", flops_of));
		near(sum_of(job, "lm_head", flops_of), 2 * sum_of(plain, "lm_head", flops_of));
		near(sum_of(job, "mlp_up_grad", flops_of), sum_of(plain, "mlp_up_grad", flops_of));
		near(sum_of(job, "distillation", bytes_of), 4 * 2 * 2 * S * 4096);
		complete(&job);
		complete(&plain);
		near(lk_sizes_resident(&job, 0).weights - lk_sizes_resident(&plain, 0).weights,
		     2 * (4 * layer + 2 * 4096 * H + H) / (zero == 3 ? 2 : 1));
	}
	lk_error err;
	lk_job job = small_llama();
	job.teacher = &deep, job.gpus = job.pp = 2, job.gbs = 8;
	assert_int_equal(lk_job_complete(&job, NULL, &err), LK_ERR_INPUT);
	assert_string_equal(err.where, "--teacher");
}

static bool product_in_bf16(const lk_graph *graph, uint32_t op, const void *what) {
	(void)what;
	return graph->ops.kind[op] == LK_OP_GEMM && graph->ops.dtype[op] == LK_BF16;
}

/* The first and the last of four layers compute in bf16: their products, and neither casts nor
 * copies of their weights. */
static void wide_ends(void **state) {
	(void)state;
	lk_job narrow = small_llama();
	narrow.model.layers = 4, narrow.gbs = narrow.mbs = 1;
	narrow.dtype = LK_FP8, narrow.dtype_said = true;
	lk_job wide = narrow, none = narrow;
	wide.wide_first = wide.wide_last = 1;
	none.wide_first = none.wide_last = 2;
	double ends = sum_over(wide, product_in_bf16, NULL, flops_of),
		   some = sum_over(narrow, product_in_bf16, NULL, flops_of),
		   all = sum_over(none, product_in_bf16, NULL, flops_of);
	assert_true(all > some);
	near(ends - some, (all - some) / 2);
	double casts = sum_of(none, "quantize", bytes_of); /* of what no layer holds */
	assert_true(sum_of(narrow, "quantize", bytes_of) > casts);
	near(sum_of(wide, "quantize", bytes_of) - casts,
	     (sum_of(narrow, "quantize", bytes_of) - casts) / 2);
	complete(&narrow);
	complete(&wide);
	double layer = 2 * H * H + 2 * KV * H + 3 * 3072 * H + 2 * H;
	near(lk_sizes_resident(&narrow, 0).weights - lk_sizes_resident(&wide, 0).weights,
	     2 * 2 * layer);
	lk_error err;
	none.wide_first = 3;
	assert_int_equal(lk_job_complete(&none, NULL, &err), LK_ERR_INPUT);
	assert_string_equal(err.where, "--bf16-layers");
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(heads_exchanged),     cmocka_unit_test(activations_on_the_host),
		cmocka_unit_test(documents_packed),    cmocka_unit_test(documents_apart),
		cmocka_unit_test(weights_on_the_host), cmocka_unit_test(adapters_end_prefetching),
		cmocka_unit_test(shards_on_the_host),  cmocka_unit_test(gradients_by_software),
		cmocka_unit_test(without_master_copy), cmocka_unit_test(narrow_states),
		cmocka_unit_test(losses_in_pieces),    cmocka_unit_test(averages),
		cmocka_unit_test(a_teacher),           cmocka_unit_test(wide_ends),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
