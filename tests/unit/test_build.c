/* test_build.c: step graphs of many random legal jobs: every graph passes the checker, gives back
 * what it takes, runs every layer once forward and once backward for each micro-batch, and does the
 * work that the model's formula says. */
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

#include "base/arena.h"
#include "base/stats.h"
#include "hw/hw.h"
#include "model/build/build.h"
#include "model/layout/schedule.h"
#include "model/layout/job.h"
#include "model/read/read.h"

/* ---- random jobs ---- */

struct dice {
	uint64_t seed, at;
};

static unsigned roll(struct dice *dice, unsigned sides) {
	return (unsigned)(lk_hash64(dice->seed * 0x9e3779b97f4a7c15u + dice->at++) % sides);
}
static lk_switch either(struct dice *dice) {
	return (lk_switch)((int)roll(dice, 3) - 1);
}

#define PICK(d, ...) \
	((const int[]){__VA_ARGS__}[roll((d), sizeof((const int[]){__VA_ARGS__}) / sizeof(int))])

static void random_layout(lk_job *job, struct dice *dice) {
	job->tp = PICK(dice, 1, 1, 2, 4, 8);
	job->pp = PICK(dice, 1, 1, 2, 3, 4, 8);
	job->cp = PICK(dice, 1, 1, 1, 2, 4);
	job->dp = PICK(dice, 1, 1, 2, 4, 8);
	job->vp = job->pp > 1 ? PICK(dice, 0, 0, 1, 2, 3, 4) : PICK(dice, 0, 0, 0, 1);
	job->schedule_said = roll(dice, 3) > 0;
	job->schedule = (lk_schedule_kind)roll(dice, LK_SCHEDULES);
	job->mbs = PICK(dice, 0, 1, 2, 3);
	job->microbatches = PICK(dice, 0, 0, 1, 2, 4, 8, 16);
	job->account_embedding = job->account_loss = roll(dice, 10) == 0;
	job->sequence_parallel = either(dice);
	job->cp_kind = (lk_cp_kind)roll(dice, 3);
	job->cp_heads = job->cp_kind == LK_CP_ULYSSES && job->cp == 4 && roll(dice, 2) ? 2 : 0;
	if (!job->model.image) job->seq = PICK(dice, 0, 128, 512, 1024, 2048, 4096);
	if (!job->model.experts) return;
	job->ep = PICK(dice, 1, 2, 4, 8);
	job->etp = PICK(dice, 0, 1, 2);
	job->dispatcher = (lk_dispatcher)roll(dice, 3);
	job->moe_imbalance = PICK(dice, 0, 1, 2);
	job->fp8_dispatch = either(dice);
	job->narrow_activations = roll(dice, 2);
	job->delay_weights = roll(dice, 2);
	if (roll(dice, 2)) job->expert_overlap = LK_ON;
}

static void random_sharding(lk_job *job, struct dice *dice) {
	static const char *const stacks[] = {"",     "",          "",    "megatron",
	                                     "fsdp", "deepspeed", "ddp", "torchtitan"};
	strcpy(job->stack, stacks[roll(dice, 8)]);
	job->sharding_said = roll(dice, 4) > 0;
	job->sharding = (lk_sharding)roll(dice, 4);
	if (roll(dice, 4) == 0) job->shard_group = PICK(dice, 1, 2, 4);
	job->optimizer = (lk_optimizer)roll(dice, 4);
	job->master_weights = either(dice);
	job->fp32_grads = either(dice);
	job->grad_reduce_fp32 = either(dice);
	job->overlap_grad_reduce = either(dice);
	job->overlap_param_gather = either(dice);
	job->offload_optimizer = roll(dice, 4) == 0;
	job->offload_activations = roll(dice, 4) == 0;
	job->bucket_bytes = PICK(dice, 0, 0, 1, 100000000);
}

/* What selective recomputation of the network can name. */
static int modules_of(const lk_model *model) {
	int modules = LK_MODULE_CORE_ATTN | LK_MODULE_LAYERNORM;
	if (model->experts == 0 || model->dense_layers > 0) modules |= LK_MODULE_MLP;
	if (model->experts > 0) modules |= LK_MODULE_MOE | LK_MODULE_MOE_ACT;
	if (model->experts > 0 && model->shared_ffn > 0) modules |= LK_MODULE_SHARED_EXPERTS;
	if (model->attention == LK_ATTN_MLA) modules |= LK_MODULE_MLA_UP_PROJ;
	return modules;
}

static void random_work(lk_job *job, struct dice *dice) {
	job->recompute_said = true;
	job->recompute = (lk_recompute)roll(dice, 3);
	if (job->recompute == LK_RECOMPUTE_FULL && roll(dice, 2))
		job->recompute_layers = PICK(dice, 1, 2);
	if (job->recompute == LK_RECOMPUTE_SELECTIVE && roll(dice, 2))
		job->recompute_modules = modules_of(&job->model) & (int)roll(dice, LK_MODULES_END);
	job->task = (lk_task)PICK(dice, LK_TASK_PRETRAIN, LK_TASK_PRETRAIN, LK_TASK_PRETRAIN,
	                          LK_TASK_SFT, LK_TASK_LORA);
	job->narrow_base = job->task == LK_TASK_LORA && roll(dice, 2);
	job->dora = job->task == LK_TASK_LORA && roll(dice, 2);
	job->dtype_said = roll(dice, 2);
	job->dtype = (lk_dtype)roll(dice, LK_DTYPES);
	job->attn_kernel = (lk_attn_kernel)(roll(dice, 3) == 0);
	job->cp_balanced = either(dice);
	job->fused_cross_entropy = either(dice);
	job->overlap_p2p = either(dice);
	job->tp_overlap = either(dice);
	job->cuda_graphs = either(dice);
	job->compile = roll(dice, 2);
	job->freeze_tower = roll(dice, 4) == 0;
}

/* Networks whose layers are of another make: their own tests count them (test_diffusion.c,
 * test_encoders.c). */
static bool counted_elsewhere(const lk_model *model) {
	return model->network == LK_NET_DIFFUSION || model->audio.convs > 0 || model->tower.apart ||
	       model->tower.crossed;
}

/* False where the job is not legal: many are not. */
static bool random_job(uint64_t seed, const lk_cluster *cluster, lk_job *job) {
	struct dice d = {seed, 0};
	lk_error err;
	memset(job, 0, sizeof *job);
	job->model = *lk_model_preset_at((int)roll(&d, (unsigned)lk_model_preset_count()));
	if (counted_elsewhere(&job->model)) return false;
	random_layout(job, &d);
	random_sharding(job, &d);
	random_work(job, &d);
	return lk_job_complete(job, cluster, &err) == LK_OK;
}

/* The device that has all number formats, and more of it than any job wants. */
static void all_formats(lk_arena *arena, lk_cluster *cluster) {
	lk_error err = {0};
	assert_non_null(lk_device_find("b200"));
	assert_int_equal(lk_cluster_simple(arena, lk_device_find("b200"), 8192, 0, 0, cluster, &err),
	                 LK_OK);
}

static const char *say(const lk_job *job, uint64_t seed, char out[256]) {
	snprintf(out, 256,
	         "seed %llu: %s tp %d pp %d vp %d cp %d dp %d ep %d etp %d %s zero %d/%d recompute "
	         "%d/%d task %d %s sp %d",
	         (unsigned long long)seed, job->model.name, job->tp, job->pp, job->vp, job->cp, job->dp,
	         job->ep, job->etp, lk_schedule_get(job->schedule)->name, job->sharding,
	         job->shard_group, job->recompute, job->recompute_layers, job->task,
	         lk_dtype_name(job->dtype), job->sequence_parallel);
	return out;
}

static lk_graph *graph_of(const lk_job *job, uint64_t seed) {
	char who[256], text[1024];
	lk_graph *graph = NULL;
	lk_error err = {0};
	if (lk_build_graph(job, &graph, &err) != LK_OK || lk_graph_check(graph, &err) != LK_OK)
		fail_msg("%s: %s", say(job, seed, who), lk_error_text(&err, text, sizeof text));
	return graph;
}

/* ---- what a graph runs ---- */

typedef bool (*op_test)(const lk_graph *graph, uint32_t op);

/* Sums a column (NULL: counts) over the operations of a stage's program that pass the test. */
static double sum_stage(const lk_graph *graph, uint32_t stage, const double *column, op_test test) {
	const lk_program *program = &graph->programs.at[stage];
	double *of_block = calloc(graph->blocks.count, sizeof *of_block), sum = 0;
	for (size_t b = 0; b < graph->blocks.count; b++)
		for (uint32_t op = graph->blocks.at[b].begin; op < graph->blocks.at[b].end; op++)
			if (!test || test(graph, op)) of_block[b] += column ? column[op] : 1;
	for (size_t i = 0; i < program->calls.count; i++)
		sum += of_block[program->calls.at[i].block] * program->calls.at[i].repeat;
	free(of_block);
	return sum;
}

static double sum_all(const lk_graph *graph, const double *column, op_test test) {
	double sum = 0;
	for (uint32_t s = 0; s < graph->programs.count; s++) sum += sum_stage(graph, s, column, test);
	return sum;
}

static bool attends(const lk_graph *graph, uint32_t op) {
	return graph->ops.kind[op] == LK_OP_ATTENTION && graph->ops.phase[op] == LK_PHASE_FORWARD;
}
static bool attends_again(const lk_graph *graph, uint32_t op) {
	return graph->ops.kind[op] == LK_OP_ATTENTION && graph->ops.phase[op] == LK_PHASE_RECOMPUTE;
}
static bool attends_backward(const lk_graph *graph, uint32_t op) {
	return graph->ops.kind[op] == LK_OP_ATTENTION_BWD;
}
static bool sends(const lk_graph *graph, uint32_t op) {
	return graph->ops.kind[op] == LK_OP_SEND;
}

/* Repetitions written out, every operation's memory added up by itself: nothing falls below what is
 * resident, and the step ends there. The checker's summaries are not used. */
static double walk_memory(const lk_graph *graph, uint32_t stage, const char *who) {
	const lk_program *program = &graph->programs.at[stage];
	const lk_ops *ops = &graph->ops;
	double now = 0, peak = 0, lowest = 0;
	for (size_t i = 0; i < program->calls.count; i++) {
		const lk_call *call = &program->calls.at[i];
		const lk_block *block = &graph->blocks.at[call->block];
		for (uint32_t r = 0; r < call->repeat; r++) {
			for (uint32_t op = block->begin; op < block->end; op++) {
				now += ops->alloc[op];
				peak = fmax(peak, now);
				now -= ops->release[op];
				lowest = fmin(lowest, now);
			}
		}
	}
	if (fabs(now) > 1 + 1e-6 * peak || lowest < -(1 + 1e-6 * peak))
		fail_msg("%s, stage %u: %.0f bytes at the end, %.0f at the lowest, %.0f at the peak", who,
		         stage, now, lowest, peak);
	return peak;
}

/* The fewest operations of a layer: some are a mixer or a feed-forward alone, a delta net has few.
 */
static int fewest(const lk_model *model) {
	for (int i = 0; i < model->layers; i++) {
		lk_layer layer = lk_model_layer(model, i);
		if (!layer.mixers || layer.ffn == LK_FFN_NONE) return 11;
	}
	bool scans = model->delta_value_heads > 0 || model->short_conv > 0 || model->ssm > 0;
	return scans ? 24 : 30;
}

/* A layer's blocks are named "layer KIND PASS"; with split backward passes a layer has three. T5's
 * encoder layers, which have neither rotary positions nor biases nor gates, have the fewest
 * operations. */
static void count_layer(const lk_graph *graph, int least, const char *who) {
	uint32_t forward = UINT32_MAX, backward = UINT32_MAX, input = 0, weight = 0;
	for (size_t b = 0; b < graph->blocks.count; b++) {
		const char *name = lk_intern_text(graph->names, graph->blocks.at[b].name);
		uint32_t size = graph->blocks.at[b].end - graph->blocks.at[b].begin;
		if (strncmp(name, "layer", 5) != 0 || size == 0) continue;
		if (strstr(name, "input gradient")) input = input && input < size ? input : size;
		else if (strstr(name, "weight gradient")) weight = weight && weight < size ? weight : size;
		else if (strstr(name, "forward")) forward = forward < size ? forward : size;
		else backward = backward < size ? backward : size;
	}
	if (backward > input + weight && input) backward = input + weight;
	assert_true(forward != UINT32_MAX && backward != UINT32_MAX);
	if (forward + backward < (uint32_t)least)
		fail_msg("%s: a layer has only %u + %u operations", who, forward, backward);
}

/* Every layer once for every micro-batch; an encoder-decoder's decoder layers attend twice, and the
 * layer of a prediction module is like the last one. */
static void count_attention(const lk_graph *graph, const lk_job *job, const char *who) {
	const lk_model *model = &job->model;
	if (job->attn_kernel != LK_KERNEL_FLASH || model->network == LK_NET_CONV) return;
	bool last = lk_model_layer(model, model->layers - 1).mixers & LK_MIXER_ATTENTION;
	int attending = 2 * model->decoder_layers + (last ? model->mtp_layers : 0);
	for (int i = 0; i < model->layers; i++)
		attending += lk_model_layer(model, i).mixers & LK_MIXER_ATTENTION;
	int seeing = model->tower.layers; /* forward alone where it is frozen */
	bool trained = lk_job_trains_tower(job);
	double wanted = (double)job->microbatches * (attending + (trained ? seeing : 0));
	double forward =
			   sum_all(graph, NULL, attends) - (double)job->microbatches * (trained ? 0 : seeing),
		   backward = sum_all(graph, NULL, attends_backward),
		   again = sum_all(graph, NULL, attends_again);
	if (forward != wanted || backward != wanted)
		fail_msg("%s: attention runs %.0f times forward and %.0f backward, not %.0f", who, forward,
		         backward, wanted);
	bool all = (job->recompute == LK_RECOMPUTE_FULL && job->recompute_layers == 0) ||
	           lk_job_recomputes(job, LK_MODULE_CORE_ATTN);
	if (job->recompute != LK_RECOMPUTE_FULL || all) assert_true(again == (all ? wanted : 0));
	else assert_true(again <= wanted && (again > 0 || model->order[0]));
}

/* A micro-batch crosses every border between places forward and backward, but not the turn of a V.
 */
static void count_sends(const lk_graph *graph, const lk_job *job, const char *who) {
	bool dual = job->schedule == LK_SCHED_DUALPIPE, vee = lk_job_folds(job);
	int borders = (dual ? job->pp : job->pp * job->vp) - 1 - vee;
	double wanted = 2.0 * job->microbatches * borders, sent = sum_all(graph, NULL, sends);
	if (sent != wanted) fail_msg("%s: %.0f sends, not %.0f", who, sent, wanted);
}

static void round_trip(const lk_graph *graph, const char *who) {
	char path[64];
	lk_error err = {0};
	lk_graph *again = NULL;
	snprintf(path, sizeof path, "/tmp/test_build.%ld.json", (long)getpid());
	if (lk_graph_write(graph, path, &err) != LK_OK || lk_graph_read(path, &again, &err) != LK_OK)
		fail_msg("%s: %s: %s", who, err.where, err.what);
	assert_int_equal(again->ops.count, graph->ops.count);
	assert_memory_equal(again->ops.bytes, graph->ops.bytes, graph->ops.count * sizeof(double));
	assert_memory_equal(again->ops.flops, graph->ops.flops, graph->ops.count * sizeof(double));
	for (uint32_t s = 0; s < graph->programs.count; s++)
		assert_true(sum_stage(again, s, again->ops.alloc, NULL) ==
		            sum_stage(graph, s, graph->ops.alloc, NULL));
	unlink(path);
	lk_graph_free(again);
}

static uint64_t seeds(uint64_t usual) {
	return getenv("LOCKSTEP_LONG") ? usual * 20 : usual;
}

static void test_random_jobs(void **state) {
	(void)state;
	lk_arena arena = LK_ARENA_INIT;
	lk_cluster cluster;
	unsigned legal = 0, schedules[LK_SCHEDULES] = {0}, shardings[4] = {0}, adapters = 0,
			 experts = 0, latent = 0, both = 0, images = 0;
	all_formats(&arena, &cluster);
	for (uint64_t seed = 1; seed <= seeds(6000); seed++) {
		lk_job job;
		char who[256];
		if (!random_job(seed, &cluster, &job)) continue;
		say(&job, seed, who);
		lk_graph *graph = graph_of(&job, seed);
		assert_int_equal(graph->programs.count, job.pp);
		assert_int_equal(graph->ranks.world, job.gpus);
		double peak = 0; /* a stage may hold no layer, but not all of them */
		for (uint32_t s = 0; s < graph->programs.count; s++)
			peak = fmax(peak, walk_memory(graph, s, who));
		assert_true(peak > 0);
		if (job.model.network != LK_NET_CONV) count_layer(graph, fewest(&job.model), who);
		count_attention(graph, &job, who);
		count_sends(graph, &job, who);
		if (legal++ % 40 == 0) round_trip(graph, who);
		lk_graph_free(graph);
		schedules[job.schedule]++;
		shardings[job.sharding]++;
		adapters += job.task == LK_TASK_LORA;
		experts += job.model.experts > 0;
		latent += job.model.attention == LK_ATTN_MLA;
		both += job.model.network == LK_NET_ENCDEC;
		images += job.model.image > 0;
	}
	print_message("%u legal jobs\n", legal);
	for (int i = 0; i < LK_SCHEDULES; i++) assert_true(schedules[i] >= 10);
	for (int i = 0; i < 4; i++) assert_true(shardings[i] >= 10);
	assert_true(legal >= 1000 && adapters >= 10 && experts >= 10 && latent >= 10 && both >= 10 &&
	            images >= 10);
	lk_arena_free(&arena);
}

/* ---- work ---- */

/* Query-key pairs of all layers, forward: half the square, or the band of a window with its corner
 * cut off. */
static double attention_pairs(const lk_model *model, double s) {
	double sum = 0;
	for (int i = 0; i < model->layers; i++) {
		double w = lk_model_window(model, i);
		sum += w > 0 && w < s ? s * w - w * w / 2 : s * s / 2;
	}
	return sum;
}

/* What is executed beyond the model's own work, in a dense decoder with flash attention and without
 * recomputation:
 *
 *     executed = model + attention / 6 + padded vocabulary + key-value heads held more than once
 *
 * The fused kernel's backward pass computes the scores again: 5 products where the formula counts 4
 * (forward 2), so 7/6 of the formula's attention. Padding makes the output matrix larger; with more
 * tensor-parallel ranks than key-value heads, tp heads are computed instead of kv_heads. Of an
 * encoder of images the attention; its pixels need no gradient, its class token is made with the
 * patches, on every rank. Of an odd number of products in the projector the last is whole, too. */
static double extra_of_tower(const lk_job *job) {
	lk_model tower;
	if (!lk_model_tower(&job->model, &tower)) return 0;
	double s = lk_model_image_tokens(&tower), width = tower.heads * tower.head_dim, pairs = 0;
	for (int i = 0; i < tower.layers; i++)
		pairs += lk_model_window(&tower, i) ? s * lk_model_window(&tower, i) : s * s;
	double patch = lk_model_patch_inputs(&tower) * tower.hidden,
		   tokens = s - (tower.no_class ? 0 : 1);
	return job->model.tower.images * (2 * width * pairs + patch * (4 * s * job->tp - 4 * tokens));
}

static double extra_flops(const lk_job *job) {
	const lk_model *model = &job->model;
	double s = job->seq,
		   attention = 6 * 2.0 * model->heads * model->head_dim * attention_pairs(model, s);
	double padding = 6 * s * model->hidden * (double)(job->padded_vocab - model->vocab);
	double copies = job->tp > model->kv_heads ? 6 * s * model->hidden * 2.0 * model->head_dim *
	                                                (job->tp - model->kv_heads) * model->layers
	                                          : 0;
	const lk_tower *images = &job->model.tower;
	lk_model encoder;
	double last = 0,
		   inputs = lk_model_tower(&job->model, &encoder) ? lk_model_projector_inputs(&encoder) : 0;
	for (int i = 0; i < LK_PROJECTOR_WIDTHS && images->project.width[i]; i++)
		last = i % 2 ? 0
		             : 6.0 * images->project.width[i] * (i ? images->project.width[i - 1] : inputs);
	double whole = last * (job->tp - 1) * images->images * lk_tower_tokens(images);
	return job->gbs * (attention / 6 + padding + copies + extra_of_tower(job) + whole);
}

static bool dense_decoder(const lk_model *model) {
	bool streams = model->streams.count > 0; /* a layer scores them twice with the same weights */
	return model->network == LK_NET_DECODER && model->experts == 0 && model->embed_dim == 0 &&
	       model->mtp_layers == 0 && model->attention == LK_ATTN_HEADS && !model->order[0] &&
	       !streams;
}

static void test_flops(void **state) {
	(void)state;
	lk_arena arena = LK_ARENA_INIT;
	lk_cluster cluster;
	unsigned jobs = 0, windows = 0, copies = 0, short_ones = 0;
	all_formats(&arena, &cluster);
	for (uint64_t seed = 1; seed <= seeds(4000); seed++) {
		struct dice d = {seed, 0};
		lk_job job = {.model =
		                  *lk_model_preset_at((int)roll(&d, (unsigned)lk_model_preset_count()))};
		lk_error err;
		char who[256];
		if (!dense_decoder(&job.model) || counted_elsewhere(&job.model)) continue;
		random_layout(&job, &d);
		random_sharding(&job, &d);
		if (roll(&d, 4) == 0) job.seq = 16384;
		job.cp_balanced = LK_ON;
		job.recompute_said = true;
		if (lk_job_complete(&job, &cluster, &err) != LK_OK) continue;
		lk_graph *graph = graph_of(&job, seed);
		double executed = sum_all(graph, graph->ops.flops, NULL) * graph->ranks.chains, first = 0,
			   model = lk_model_flops(&job.model, job.seq) * job.gbs;
		lk_model encoder;
		if (lk_model_tower(&job.model, &encoder)) /* pixels need no gradient */
			lk_model_entry_macs(&encoder, lk_model_image_tokens(&encoder), &first);
		model -= 2 * first * job.model.tower.images * job.gbs;
		assert_true(fabs(graph->model_flops / model - 1) < 1e-12);
		if (fabs(executed / (model + extra_flops(&job)) - 1) > 1e-9)
			fail_msg("%s: %.6g operations, model %.6g and %.6g more: off by %.3g",
			         say(&job, seed, who), executed, model, extra_flops(&job),
			         executed / (model + extra_flops(&job)) - 1);
		if (job.seq <= job.model.hidden && job.tp <= job.model.kv_heads &&
		    job.model.tower.images == 0) {
			if (executed > model * 1.03)
				fail_msg("%s: %.4f of the model's operations", say(&job, seed, who),
				         executed / model);
			short_ones++;
		}
		windows += job.model.window > 0 && job.model.window < job.seq;
		copies += job.tp > job.model.kv_heads;
		jobs++;
		lk_graph_free(graph);
	}
	print_message("%u jobs, %u with windows, %u with repeated key-value heads\n", jobs, windows,
	              copies);
	assert_true(jobs > 200 && windows >= 10 && copies >= 10 && short_ones > 100);
	lk_arena_free(&arena);
}

/* Logits that are not computed are no work; a host that runs ahead leaves no operation; passes that
 * fused kernels save are gone while products stay. */
static void test_bert_switches(void **state) {
	(void)state;
	lk_arena arena = LK_ARENA_INIT;
	lk_cluster cluster;
	lk_error err;
	assert_int_equal(lk_cluster_parse(&arena, "1 node * 8 h100-sxm", &cluster, &err), LK_OK);
	lk_job base = {.gpus = 8, .mbs = 4, .gbs = 32, .seq = 512, .dtype = LK_FP8, .dtype_said = true};
	assert_int_equal(lk_model_preset("bert-large", &base.model, &err), LK_OK);
	base.model.lm_head = true; /* the preset is the network without it */
	double flops[4], bytes[4], model[4];
	int hosts[4];
	for (int i = 0; i < 4; i++) {
		lk_job job = base;
		lk_graph *graph;
		job.logit_share = i >= 1 ? 0.15 : 0, job.host_ahead = i >= 2, job.fused_kernels = i >= 3;
		assert_int_equal(lk_job_complete(&job, &cluster, &err), LK_OK);
		assert_int_equal(lk_build_graph(&job, &graph, &err), LK_OK);
		assert_int_equal(lk_graph_check(graph, &err), LK_OK);
		flops[i] = sum_all(graph, graph->ops.flops, NULL);
		bytes[i] = sum_all(graph, graph->ops.bytes, NULL);
		model[i] = graph->model_flops;
		hosts[i] = 0;
		for (uint32_t op = 0; op < graph->ops.count; op++)
			hosts[i] += graph->ops.kind[op] == LK_OP_HOST;
		lk_graph_free(graph);
	}
	double head = 3 * 2.0 * 32 * 512 * 1024 * 30522; /* three products over the vocabulary */
	if (fabs((model[0] - model[1]) / (0.85 * head) - 1) > 1e-9)
		fail_msg("%g of %g", model[0] - model[1], 0.85 * head);
	if (fabs((flops[0] - flops[1]) * 8 / (0.85 * head) - 1) > 0.02)
		fail_msg("%g of %g", (flops[0] - flops[1]) * 8, 0.85 * head);
	assert_true(flops[1] == flops[2] && flops[2] == flops[3]);
	assert_true(hosts[0] == 1 && hosts[1] == 1 && hosts[2] == 0 && hosts[3] == 0);
	assert_true(bytes[1] == bytes[2] && bytes[3] < bytes[2]);
	lk_arena_free(&arena);
}

/* Full recomputation adds the forward pass of the layers, nothing else. */
static void test_recompute(void **state) {
	(void)state;
	static const char *const names[] = {"llama3-8b",    "gpt2-large", "gemma2-9b",
	                                    "mixtral-8x7b", "t5-large",   "deepseek-v2-lite"};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		lk_job plain = {.tp = 2, .gpus = 8, .gbs = 16, .seq = 512}, again;
		lk_error err = {0};
		assert_int_equal(lk_model_preset(names[i], &plain.model, &err), LK_OK);
		again = plain;
		again.recompute = LK_RECOMPUTE_FULL;
		if (lk_job_complete(&plain, NULL, &err) != LK_OK ||
		    lk_job_complete(&again, NULL, &err) != LK_OK)
			fail_msg("%s: %s: %s", names[i], err.where, err.what);
		lk_graph *a = graph_of(&plain, i), *b = graph_of(&again, i);
		double forward = 0;
		for (size_t k = 0; k < a->programs.at[0].calls.count; k++) {
			const lk_call *call = &a->programs.at[0].calls.at[k];
			const lk_block *block = &a->blocks.at[call->block];
			if (strncmp(lk_intern_text(a->names, block->name), "layer", 5) != 0 ||
			    call->pass != LK_PHASE_FORWARD)
				continue;
			for (uint32_t op = block->begin; op < block->end; op++)
				forward += a->ops.flops[op] * call->repeat;
		}
		double more = sum_all(b, b->ops.flops, NULL) - sum_all(a, a->ops.flops, NULL);
		assert_true(forward > 0 && fabs(more / forward - 1) < 1e-9);
		lk_graph_free(a);
		lk_graph_free(b);
	}
}

/* ---- modules of selective recomputation ---- */

static bool layer_forward(const lk_graph *graph, const lk_call *call) {
	const lk_block *block = &graph->blocks.at[call->block];
	return strncmp(lk_intern_text(graph->names, block->name), "layer", 5) == 0 &&
	       call->pass == LK_PHASE_FORWARD;
}

/* What a graph of one stage does and what the forward passes of all its layers keep. */
struct work {
	double flops, bytes, kept, again; /* again: operations that run once more */
};

static bool runs_again(const lk_graph *graph, uint32_t op) {
	return graph->ops.phase[op] == LK_PHASE_RECOMPUTE;
}

static struct work work_of(lk_job job) {
	lk_error err = {0};
	char text[512];
	if (lk_job_complete(&job, NULL, &err) != LK_OK)
		fail_msg("%s", lk_error_text(&err, text, sizeof text));
	lk_graph *graph = graph_of(&job, 0);
	walk_memory(graph, 0, job.model.name);
	struct work work = {sum_all(graph, graph->ops.flops, NULL),
	                    sum_all(graph, graph->ops.bytes, NULL), 0,
	                    sum_all(graph, NULL, runs_again)};
	for (size_t i = 0; i < graph->programs.at[0].calls.count; i++) {
		const lk_call *call = &graph->programs.at[0].calls.at[i];
		const lk_block *block = &graph->blocks.at[call->block];
		for (uint32_t op = block->begin; op < block->end && layer_forward(graph, call); op++)
			work.kept += call->repeat * (graph->ops.alloc[op] - graph->ops.release[op]);
	}
	lk_graph_free(graph);
	return work;
}

static lk_job selecting(const char *name, int modules) {
	lk_job job = {.gpus = 1, .gbs = 2, .mbs = 2, .seq = 1024, .dtype = LK_BF16, .dtype_said = true};
	lk_error err = {0};
	assert_int_equal(lk_model_preset(name, &job.model, &err), LK_OK);
	job.model.layers = 6;
	job.model.mtp_layers = 0;
	if (modules) lk_job_select(&job, modules);
	return job;
}

/* What a module adds in operations and bytes moved, and frees of what is kept, in closed form for
 * one micro-batch of `t` tokens in bf16 on one rank. Bytes 0: not compared. */
static void assert_module(const char *name, int module, double flops, double bytes, double freed) {
	struct work plain = work_of(selecting(name, 0)), with = work_of(selecting(name, module));
	char who[LK_MODULES_TEXT];
	lk_module_names(who, module, '+');
	if (fabs(with.flops - plain.flops - flops) > 1e-9 * plain.flops)
		fail_msg("%s of %s: %g operations more, not %g", who, name, with.flops - plain.flops,
		         flops);
	if (bytes > 0 && fabs(with.bytes - plain.bytes - bytes) > 1e-9 * plain.bytes)
		fail_msg("%s of %s: %g bytes more, not %g", who, name, with.bytes - plain.bytes, bytes);
	if (fabs(plain.kept - with.kept - freed) > 1e-9 * plain.kept)
		fail_msg("%s of %s: frees %g bytes, not %g", who, name, plain.kept - with.kept, freed);
	assert_true(with.bytes > plain.bytes && plain.again == 0 && with.again > 0);
}

static void test_modules(void **state) {
	(void)state;
	const double t = 2048, s = 1024, layers = 6;
	lk_model m = selecting("llama3-8b", 0).model;
	double h = m.hidden, f = m.ffn, heads = m.heads;
	/* half of all pairs, two products; the statistics: fp32 for each token and head */
	assert_module("llama3-8b", LK_MODULE_CORE_ATTN, layers * 2 * t * s / 2 * heads * 2 * m.head_dim,
	              0, layers * 4 * t * heads);
	/* three products; what the norm gives, gate and up, their product */
	assert_module("llama3-8b", LK_MODULE_MLP, layers * 2 * t * h * 3 * f, 0,
	              layers * 2 * t * (h + 3 * f));

	m = selecting("deepseek-v2-lite", 0).model;
	h = m.hidden, heads = m.heads;
	double dense = m.dense_layers, moe = layers - dense, routed = t * m.topk, e = m.expert_ffn,
		   shared = m.shared_ffn, score = m.qk_nope + m.qk_rope;
	assert_true(dense > 0 && moe > 0 && shared > 0 && m.q_lora == 0);
	assert_module("deepseek-v2-lite", LK_MODULE_MLP, dense * 2 * t * h * 3 * m.ffn, 0,
	              dense * 2 * t * (h + 3 * m.ffn));
	/* latent attention's norms and those before routers: read, written */
	assert_module("deepseek-v2-lite", LK_MODULE_LAYERNORM, 0, (layers + moe) * 2 * 2 * t * h,
	              (layers + moe) * 2 * t * h);
	/* gate and up are read, their product written */
	assert_module("deepseek-v2-lite", LK_MODULE_MOE_ACT, 0, moe * 2 * routed * 3 * e,
	              moe * 2 * routed * e);
	assert_module("deepseek-v2-lite", LK_MODULE_SHARED_EXPERTS, moe * 2 * t * h * 3 * shared, 0,
	              moe * 2 * t * 3 * shared);
	assert_module("deepseek-v2-lite", LK_MODULE_MOE,
	              moe * 2 * h * (t * m.experts + 3 * routed * e + 3 * t * shared), 0,
	              moe * 2 * (routed * (h + 3 * e) + 3 * t * shared));
	/* queries, keys and values, and what the norm of the latent gave */
	assert_module("deepseek-v2-lite", LK_MODULE_MLA_UP_PROJ,
	              layers * 2 * t * heads * (h * score + m.kv_lora * (m.qk_nope + m.v_dim)), 0,
	              layers * 2 * t * (m.kv_lora + heads * (2 * score + m.v_dim)));
}

/* All modules together cost less than full recomputation, and keep more than the layer's input. */
static void test_all_modules(void **state) {
	(void)state;
	static const char *const names[] = {"llama3-8b", "gemma2-9b", "mixtral-8x7b",
	                                    "deepseek-v2-lite"};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		for (int unfused = 0; unfused < 2; unfused++) {
			lk_job job = selecting(names[i], 0);
			job.attn_kernel = unfused ? LK_KERNEL_UNFUSED : LK_KERNEL_FLASH;
			struct work plain = work_of(job);
			lk_job_select(&job, modules_of(&job.model));
			struct work all = work_of(job);
			job.recompute = LK_RECOMPUTE_FULL;
			struct work full = work_of(job);
			assert_true(plain.flops < all.flops && all.flops < full.flops);
			assert_true(plain.bytes < all.bytes && all.bytes < full.bytes);
			assert_true(plain.kept > all.kept && all.kept > full.kept && all.again < full.again);
		}
}

/* ---- kinds of layers ---- */

/* A network of four layers of one kind, h wide, one GPU, one sequence of s tokens. */
static lk_job kind_of_layers(const char *order, int seq) {
	lk_job job = {.gpus = 1, .gbs = 1, .mbs = 1, .seq = seq, .dtype = LK_BF16, .dtype_said = true};
	job.model = (lk_model){.network = LK_NET_DECODER,
	                       .layers = 4,
	                       .hidden = 1024,
	                       .heads = 8,
	                       .kv_heads = 2,
	                       .head_dim = 128,
	                       .ffn = 4096,
	                       .vocab = 32000,
	                       .context = 8192,
	                       .norms_per_layer = 2,
	                       .final_norm = true,
	                       .gated = true,
	                       .lm_head = true,
	                       .rotary_base = 1e4,
	                       .window = 1024};
	snprintf(job.model.order, sizeof job.model.order, "%s", order);
	return job;
}

/* Parameters of a layer but its norms, and operations of the layers of one sequence: `forward` and
 * `backward` beyond 2 and 4 for each weight of a matrix and token. */
static void assert_kind(lk_job job, const char *who, double weights, double others, double forward,
                        double backward) {
	const lk_model *model = &job.model;
	double t = job.seq, head = (double)model->hidden * model->vocab;
	lk_layer_params p = lk_model_layer_params(model, 0);
	lk_error err = {0};
	assert_int_equal(lk_model_check(model, who, &err), LK_OK);
	double params = p.attention + p.mlp + p.router + p.experts;
	if (params != weights + others)
		fail_msg("%s: %.0f parameters, not %.0f", who, params, weights + others);
	double want = model->layers * (6 * t * weights + forward + backward) + 6 * t * head;
	struct work work = work_of(job);
	if (fabs(work.flops / want - 1) > 1e-9)
		fail_msg("%s: %.9g operations, not %.9g", who, work.flops, want);
	lk_job_complete(&job, NULL, NULL);
	assert_true(lk_model_flops(model, job.seq) < work.flops * 1.0001);
	job.recompute = LK_RECOMPUTE_FULL;
	job.recompute_said = true;
	struct work again = work_of(job); /* walks memory too */
	double more = model->layers * (2 * t * weights + forward);
	if (fabs((again.flops - work.flops) / more - 1) > 1e-9)
		fail_msg("%s: recomputation adds %.9g operations, not %.9g", who, again.flops - work.flops,
		         more);
	assert_true(again.kept < work.kept);
}

static void test_layer_kinds(void **state) {
	(void)state;
	const double s = 4096, h = 1024, dense = 3 * 1024. * 4096;
	/* attention: 8 heads of 128, 2 of keys; two products over the pairs */
	double heads = h * (1024 + 2 * 256) + 1024 * h;
	lk_job job = kind_of_layers("*-", 4096);
	double scores = s * s / 2 * 8 * 2 * 2 * 128;
	assert_kind(job, "full", heads + dense, 0, scores, 2.5 * scores);
	job.model.output_gate = true;
	assert_kind(job, "output gate", heads + h * 1024 + dense, 0, scores, 2.5 * scores);
	/* four chunks of 1,024; of 5,120 tokens five */
	double chunk = s * 1024 / 2 * 8 * 2 * 2 * 128;
	assert_kind(kind_of_layers("c-", 4096), "chunks", heads + dense, 0, chunk, 2.5 * chunk);
	double window = (s * 1024 - 1024. * 1024 / 2) * 8 * 2 * 2 * 128;
	assert_kind(kind_of_layers("w-", 4096), "window", heads + dense, 0, window, 2.5 * window);
	assert_kind(kind_of_layers("-", 4096), "MLP alone", dense, 0, 0, 0);
	assert_kind(kind_of_layers("*", 4096), "attention alone", heads, 0, scores, 2.5 * scores);

	/* Mamba-2: D 2048, N 128, 32 heads of 64, 8 groups, chunks of 256 */
	job = kind_of_layers("M", 4096);
	job.model.ssm = 2, job.model.ssm_inner = 2048, job.model.ssm_state = 128;
	job.model.ssm_heads = 32, job.model.ssm_groups = 8, job.model.ssm_conv = 4;
	job.model.ssm_chunk = 256, job.model.ssm_conv_bias = job.model.ssm_norm = true;
	double g = 8, n = 128, q = 256, d = 2048;
	double mamba = h * (2 * d + 2 * g * n + 32) + d * h, vectors = (d + 2 * g * n) * 5 + 3 * 32 + d;
	double ahead = s * (2 * q * g * n + 4 * n * d + q * d),
		   back = s * (6 * q * g * n + 10 * n * d + 3 * q * d);
	assert_kind(job, "Mamba-2", mamba, vectors, ahead, back);
	snprintf(job.model.order, sizeof job.model.order, "*M-"); /* both on one input */
	assert_kind(job, "parallel", heads + mamba + dense, vectors, ahead + scores,
	            back + 2.5 * scores);

	/* Mamba-1: N 16, rank 64; the step sizes' product runs again */
	job = kind_of_layers("M", 4096);
	job.model.ssm = 1, job.model.ssm_inner = 2048, job.model.ssm_state = 16;
	job.model.ssm_rank = 64, job.model.ssm_conv = 4, job.model.ssm_conv_bias = true;
	mamba = 2 * h * d + d * (64 + 32) + 64 * d + d * h;
	assert_kind(job, "Mamba-1", mamba, d * 5 + d + d * 16 + d, s * 9 * d * 16,
	            s * (27 * d * 16 + 2 * 64 * d));

	/* gated delta net: 4 heads of keys, 8 of values, both 128 wide, chunks of 64 */
	job = kind_of_layers("G-", 4096);
	job.model.delta_key_heads = 4, job.model.delta_value_heads = 8, job.model.delta_conv = 4;
	job.model.delta_key_dim = job.model.delta_value_dim = 128;
	double delta = h * (2 * 512 + 2 * 1024 + 2 * 8) + 1024 * h, c = 64, w = 128;
	assert_kind(job, "delta net", delta + dense, 4 * (2 * 512 + 1024) + 2 * 8 + 128,
	            s * 8 * (6 * w * w + c * 10 * w + c * c / 3),
	            s * 8 * (16 * w * w + c * 26 * w + 4 * c * c));

	/* lightning attention: blocks of 256 */
	double lightning = s * 8 * (4 * w * w + 2 * 256 * w);
	assert_kind(kind_of_layers("L-", 4096), "lightning", 5 * h * 1024 + dense, 1024, lightning,
	            2.5 * lightning);

	/* RWKV-4, time mix of 1,536: the recurrence runs again before it runs backward */
	job = kind_of_layers("R-", 4096);
	job.model.gated = false, job.model.rwkv_inner = 1536;
	assert_kind(job, "RWKV", 4 * h * 1536 + 2 * h * 4096 + h * h, 3 * h + 2 * 1536 + 2 * h,
	            s * 10 * 1536, s * 30 * 1536);
	/* inputs and outputs of two norms, tokens before twice, five mixes, receptance and what it
	 * multiplies; keys, values, receptance, recurrence, gated; both sides of the activation */
	double kept = 4 * 2 * s * (13 * h + 5 * 1536 + 2 * 4096);
	if (fabs(work_of(job).kept / kept - 1) > 1e-9)
		fail_msg("RWKV keeps %.9g bytes, not %.9g", work_of(job).kept, kept);
	job.gpus = job.pp = 2, job.gbs = 4, job.schedule = LK_SCHED_ZB_H1;
	job.schedule_said = true;
	work_of(job); /* what a split backward pass keeps between its halves is released */
	/* its recurrence is not split */
	job = kind_of_layers("R-", 4096);
	job.model.gated = false, job.model.rwkv_inner = 1536, job.gpus = job.tp = 2;
	lk_error refused = {0};
	assert_int_equal(lk_job_complete(&job, NULL, &refused), LK_ERR_INPUT);
	assert_string_equal(refused.where, "--tp");

	/* latent attention with an indexer of 4 heads of 64 that chooses 1,024 keys */
	job = kind_of_layers("*-", 4096);
	job.model.attention = LK_ATTN_MLA, job.model.q_lora = 256, job.model.kv_lora = 128;
	job.model.qk_nope = 64, job.model.qk_rope = 32, job.model.v_dim = 64;
	job.model.head_dim = 96, job.model.kv_heads = 8;
	double latent = h * 256 + 256. * 8 * 96 + h * (128 + 32) + 128. * 8 * 128 + 8. * 64 * h;
	double index = 256. * 4 * 64 + h * (64 + 4);
	job.model.index_heads = 4, job.model.index_dim = 64, job.model.index_topk = 1024;
	double indexed = 2 * 4 * 65 * s * s / 2,
		   sparse = 2 * 8 * (2 * 128 + 32) * (s * 1024 - 1024. * 1024 / 2);
	/* the indexer's inputs get no gradient */
	assert_kind(job, "indexer", latent + index + dense, 256 + 128 + 2 * 64, indexed + sparse,
	            2 * indexed + 2.5 * sparse - 2 * s * index);

	/* experts at a width of their own: 512 */
	job = kind_of_layers("E", 4096);
	job.model.experts = 8, job.model.topk = 8, job.model.expert_ffn = 512;
	job.model.expert_latent = 512;
	assert_kind(job, "latent experts", h * 8 + 2 * h * 512 + 8 * 3 * 512. * 512, 0, 0, 0);
}

/* ---- casts to 8 bits ---- */

static bool casts(const lk_graph *graph, uint32_t op) {
	const char *name = lk_intern_text(graph->names, graph->ops.name[op]);
	return strncmp(name, "quantize", 8) == 0 || strcmp(name, "largest") == 0;
}

/* What torchao's own roofline counts for the inputs, gradients and weights of a layer's linear
 * layers (torchao/testing/training/roofline_utils.py, get_tensor_memory_traffic_ovhd_s): bytes for
 * each element of an activation, and of a weight. */
static void test_torchao_casts(void **state) {
	(void)state;
	static const struct {
		lk_fp8_recipe recipe, means;
		double activation, weight;
	} cases[] = {{LK_FP8_DELAYED, LK_FP8_TENSORWISE, 6, 8},
	             {LK_FP8_TENSORWISE, LK_FP8_TENSORWISE, 6, 8},
	             {LK_FP8_ROWWISE, LK_FP8_ROWWISE, 8, 10}};
	double h = 1024, f = 4096, q = 8 * 128, kv = 2 * 128, s = 2048, layers = 4;
	double inputs = h + q + h + f, outputs = q + 2 * kv + h + 2 * f + h;
	double weights = h * (q + 2 * kv) + q * h + 3 * h * f;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		lk_job job = kind_of_layers("", (int)s);
		lk_error err;
		job.model.norms_per_layer = 2, job.model.window = 0;
		strcpy(job.stack, "torchtitan");
		job.dtype = LK_FP8, job.fp8_recipe = cases[i].recipe;
		job.recompute_said = true;
		assert_int_equal(lk_job_complete(&job, NULL, &err), LK_OK);
		assert_int_equal(job.fp8_recipe, cases[i].means);
		lk_graph *graph = graph_of(&job, 0);
		double bytes = sum_all(graph, graph->ops.bytes, casts);
		double wanted =
			layers * (cases[i].activation * s * (inputs + outputs) + cases[i].weight * weights);
		if (fabs(bytes / wanted - 1) > 1e-9)
			fail_msg("recipe %d casts %.9g bytes, not %.9g", cases[i].recipe, bytes, wanted);
		lk_graph_free(graph);
	}
}

/* ---- data-parallel traffic ---- */

static bool reduces_gradients(const lk_graph *graph, uint32_t op) {
	bool group = graph->ops.group[op] == LK_GROUP_DP || graph->ops.group[op] == LK_GROUP_EDP ||
	             graph->ops.group[op] == LK_GROUP_SHARD;
	return group &&
	       (graph->ops.kind[op] == LK_OP_ALLREDUCE || graph->ops.kind[op] == LK_OP_REDUCESCATTER);
}

/* Without sharded gradients every trained parameter is reduced once a step, however it is bucketed
 * and overlapped. */
static void test_gradients(void **state) {
	(void)state;
	lk_arena arena = LK_ARENA_INIT;
	lk_cluster cluster;
	unsigned jobs = 0;
	all_formats(&arena, &cluster);
	for (uint64_t seed = 1; seed <= seeds(4000); seed++) {
		lk_job job;
		char who[256];
		if (!random_job(seed + 1000000, &cluster, &job) || job.sharding >= LK_SHARD_ZERO2 ||
		    lk_sizes_dp_ranks(&job) == 1)
			continue;
		if (job.model.mtp_layers > 0) continue; /* its layers are none of the stage's parameters */
		lk_graph *graph = graph_of(&job, seed);
		for (uint32_t s = 0; s < graph->programs.count; s++) {
			lk_rank_params p = lk_sizes_stage(&job, (int)s);
			double wanted = (p.trained_dense + p.trained_experts) * lk_sizes_wire_bytes(&job);
			double sent = sum_stage(graph, s, graph->ops.bytes, reduces_gradients);
			if (fabs(sent - wanted) > 1e-6 * wanted)
				fail_msg("%s, stage %u: %.6g bytes reduced, not %.6g", say(&job, seed, who), s,
				         sent, wanted);
		}
		jobs++;
		lk_graph_free(graph);
	}
	assert_true(jobs >= 100);
	lk_arena_free(&arena);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random_jobs),   cmocka_unit_test(test_flops),
		cmocka_unit_test(test_recompute),     cmocka_unit_test(test_modules),
		cmocka_unit_test(test_all_modules),   cmocka_unit_test(test_bert_switches),
		cmocka_unit_test(test_layer_kinds),   cmocka_unit_test(test_gradients),
		cmocka_unit_test(test_torchao_casts),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
