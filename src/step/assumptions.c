/* assumptions.c: what was requested and what was assumed, in words. */
#include "base/arena.h"
#include "step/step.h"

#include <string.h>
#include "base/text.h"
#include "base/units.h"
#include "base/vec.h"
#include "base/noun.h"
#include "model/layout/schedule.h"
#include "model/layout/job.h"
#include "model/layout/sizes.h"

/* Layers by mixer: " (42 Mamba-2, 6 attention)"; "" if all have only attention. */
static const char *mixers_text(lk_arena *arena, const lk_model *model) {
	static const char *const names[] = {"attention",           "Mamba", "delta net",
	                                    "lightning attention", "RWKV",  "short convolution"};
	const char *text = "";
	int alone = lk_model_mixers(model);
	if ((alone & ~LK_MIXER_ATTENTION) == 0) return "";
	for (int kind = 0; text && 1 << kind < LK_MIXERS_END; kind++) {
		int count = 0;
		for (int i = 0; i < model->layers; i++)
			count += (lk_model_layer(model, i).mixers >> kind) & 1;
		if (!count) continue;
		const char *version = "";
		if (1 << kind == LK_MIXER_SSM) version = model->ssm == 1 ? "-1" : "-2";
		text = lk_arena_printf(arena, "%s%s%d %s%s", text, *text ? ", " : " (", count, names[kind],
		                       version);
	}
	return text ? lk_arena_printf(arena, "%s)", text) : NULL;
}

/* "19 double, 38 single blocks": the kinds that occur. */
static const char *blocks_text(lk_arena *arena, const lk_diffusion *net) {
	const char *text = "";
	for (int i = 0; i < LK_DIT_BLOCKS && text; i++)
		if (net->repeat[i] > 0)
			text = lk_arena_printf(arena, "%s%s%d %s", text, *text ? ", " : "", net->repeat[i],
			                       lk_dit_block_name((lk_dit_block)i));
	return text;
}

static const char *model_line(lk_arena *arena, const lk_job *job) {
	const lk_model *model = &job->model;
	char params[32], active[32] = "";
	lk_format_count(lk_model_params(model), params, sizeof params);
	if (model->network == LK_NET_CONV)
		return lk_arena_printf(arena,
		                       "%s, %s: %s parameters, %d %s, images of %d x %d, %d classes, %.1f "
		                       "G multiply-adds an image",
		                       model->name, model->family, params, model->layers,
		                       lk_noun(model->layers, "block", "blocks"), model->image,
		                       model->image, model->conv.classes, lk_convnet_macs(model) / 1e9);
	if (model->network == LK_NET_DIFFUSION) {
		const char *blocks = blocks_text(arena, &model->dit);
		return blocks ? lk_arena_printf(
							arena, "%s: %s parameters, %s blocks, hidden %d, %d heads, ffn %d",
							model->name, params, blocks, model->hidden, model->heads, model->ffn)
		              : NULL;
	}
	if (model->experts > 0) {
		char count[32];
		snprintf(active, sizeof active, " (%s active)",
		         lk_format_count(lk_model_active_params(model), count, sizeof count));
	}
	const char *kind;
	if (model->index_heads > 0) kind = "DSA";
	else if (model->attention == LK_ATTN_MLA) kind = "MLA";
	else if (model->kv_heads == model->heads) kind = "MHA";
	else if (model->kv_heads == 1) kind = "MQA";
	else kind = "GQA";
	const char *experts =
		model->experts > 0
			? lk_arena_printf(arena, ", %d %s top-%d", model->experts,
	                          lk_noun(model->experts, "expert", "experts"), model->topk)
			: "";
	if (!experts) return NULL;
	const char *mixers = mixers_text(arena, model), *heads = "", *ffn = "";
	if (lk_model_mixers(model) & LK_MIXER_ATTENTION)
		heads = lk_arena_printf(arena, ", %s %d/%d heads", kind, model->heads, model->kv_heads);
	if (lk_model_has_ffn(model, LK_FFN_DENSE) || !model->order[0])
		ffn = lk_arena_printf(arena, ", ffn %d", model->ffn);
	if (!mixers || !heads || !ffn) return NULL;
	const lk_tower *tower = &model->tower;
	char encoder[32];
	lk_format_count(lk_model_tower_params(model), encoder, sizeof encoder);
	const char *images =
		tower->layers > 0
			? lk_arena_printf(arena,
	                          ", encoder of images: %s parameters, %d %s, hidden %d, patches of %d",
	                          encoder, tower->layers, lk_noun(tower->layers, "layer", "layers"),
	                          tower->hidden, tower->patch)
			: "";
	if (!images) return NULL;
	char beside[32];
	if (model->beside > 0)
		images = lk_arena_printf(arena, "%s, %s parameters of other parts are in no step", images,
		                         lk_format_count(model->beside, beside, sizeof beside));
	if (!images) return NULL;
	if (job->labels > 0)
		images = lk_arena_printf(arena, "%s, head of %d %s", images, job->labels,
		                         lk_noun(job->labels, "label", "labels"));
	if (!images) return NULL;
	return lk_arena_printf(arena,
	                       "%s%s%s: %s parameters%s, %d layers%s, hidden %d%s%s%s, vocabulary %d%s",
	                       model->name, model->family[0] ? ", " : "", model->family, params, active,
	                       model->layers + model->decoder_layers, mixers, model->hidden, heads, ffn,
	                       experts, model->vocab, images);
}

static const char *cluster_line(lk_arena *arena, const lk_asked *asked) {
	const lk_node *node = &asked->cluster.node[0];
	static const char *const intra[] = {"PCIe", "a mesh of links", "a switch"};
	char rate[32], nic[32];
	lk_format_rate(node->intra_rate, rate, sizeof rate);
	lk_format_rate(node->nic_rate, nic, sizeof nic);
	return lk_arena_printf(arena,
	                       "%s: %s, %s per GPU and direction through %s%s%s, %d %s of %s per node",
	                       asked->cluster.text, node->device->label, rate, intra[node->intra],
	                       node->pair_rate > 0 ? ", pairs by bridges" : "",
	                       node->no_peer ? " and the host's memory" : "", node->nics,
	                       lk_noun(node->nics, "NIC", "NICs"), nic);
}

static const char *layout_line(lk_arena *arena, const lk_job *job) {
	static const char *const sharding[] = {"none", "1", "2", "3"};
	const char *again = lk_recompute_text(arena, job);
	if (!again) return NULL;
	char extra[128];
	lk_text degrees = lk_text_begin(extra, sizeof extra);
	if (job->vp > 1) lk_text_add(&degrees, " x VP%d", job->vp);
	if (job->cp > 1) lk_text_add(&degrees, " x CP%d", job->cp);
	if (job->ep > 1) lk_text_add(&degrees, ", EP%d", job->ep);
	if (job->model.network == LK_NET_CONV)
		return lk_arena_printf(
			arena, "DP%d, ZeRO %s, %d %s a GPU%s, %s", job->dp, sharding[job->sharding],
			job->mbs * job->microbatches, lk_noun(job->mbs * job->microbatches, "image", "images"),
			job->microbatches > 1
				? lk_arena_printf(arena, " in %d %s", job->microbatches,
		                          lk_noun(job->microbatches, "micro-batch", "micro-batches"))
				: "",
			lk_dtype_name(job->dtype));
	return lk_arena_printf(
		arena, "DP%d x TP%d x PP%d%s%s, ZeRO %s, recompute %s, %s, %d %s of %d x %d tokens, %s",
		job->dp, job->tp, job->pp, extra,
		job->sequence_parallel == LK_ON && job->tp > 1 ? ", SP" : "", sharding[job->sharding],
		again, lk_schedule_get(job->schedule)->label, job->microbatches,
		lk_noun(job->microbatches, "micro-batch", "micro-batches"), job->mbs, job->seq,
		lk_dtype_name(job->dtype));
}

/* ---- assumptions ---- */

typedef LK_VEC(const char *) lk_lines;

static lk_status line(lk_arena *arena, lk_lines *lines, const char *text, lk_error *err) {
	if (!text) return LK_OK;
	const char *copy = lk_arena_strdup(arena, text);
	if (!copy || !lk_push(lines)) return lk_oom(err);
	*lk_last(lines) = copy;
	return LK_OK;
}

/* What runs fused attention on a device, whichever kernel was requested. */
static const char *attention_kernel_name(lk_attention_kernel kernel, const lk_device *device) {
	static const char *const names[LK_ATTENTIONS] = {
		[LK_ATTENTION_CUDNN] = "cuDNN",          [LK_ATTENTION_CUDNN_EARLY] = "cuDNN before 9.13",
		[LK_ATTENTION_FA2] = "FlashAttention-2", [LK_ATTENTION_TRITON] = "FlashAttention in Triton",
		[LK_ATTENTION_FA3] = "FlashAttention-3",
	};
	bool amd = device->arch >= LK_ARCH_CDNA1 && device->arch <= LK_ARCH_RDNA3;
	if (amd) return "AITER";
	if (!lk_device_can(device, LK_CAN_FLASH2)) return "PyTorch's memory-efficient kernels";
	return names[kernel];
}

/* Features that a stack's recipes turned on in a job; "" none; NULL: out of memory. */
static const char *stack_recipe_text(lk_arena *arena, const lk_job *job) {
	const lk_stack_features *features = lk_job_features(job);
	bool experts = job->model.experts > 0;
	const struct {
		bool is;
		const char *text;
	} on[] = {
		{features->tp_overlap && job->tp_overlap == LK_ON, "--tp-overlap"},
		{features->fused_loss && job->fused_cross_entropy == LK_ON, "--fused-loss"},
		{features->cuda_graphs && job->cuda_graphs == LK_ON, job->graph_experts == LK_ON && experts
	                                                             ? "--cuda-graphs with the experts"
	                                                             : "--cuda-graphs"},
		{features->by_node && experts && job->dispatcher == LK_DISPATCH_NODE, "--dispatcher node"},
		{(features->expert_overlap || features->overlap_across) && lk_job_pairs(job),
	     "--expert-overlap"},
		{features->etp == 1 && experts && job->tp > 1 && job->etp == 1, "--etp 1"},
		{features->late_reduce && job->overlap_grad_reduce == LK_OFF, "--no-overlap-grad-reduce"},
		{features->wide_grads && job->grad_reduce_fp32 == LK_ON, "gradients in fp32"},
		{features->cp_contiguous && job->cp > 1, "context parallelism without balancing"},
	};
	const char *text = "";
	for (size_t i = 0; i < sizeof on / sizeof *on && text; i++)
		if (on[i].is) text = lk_arena_printf(arena, "%s%s%s", text, *text ? ", " : "", on[i].text);
	return text;
}

/* The subject of the assumptions and the list of their lines. */
struct saying {
	lk_arena *arena;
	const lk_predict_request *request;
	const lk_asked *asked;
	const lk_job *job;
	bool launched;
	lk_lines *lines;
};

#define SAY(condition, ...)                                        \
	do {                                                           \
		if (condition) {                                           \
			char text[768];                                        \
			snprintf(text, sizeof text, __VA_ARGS__);              \
			LK_TRY(line(saying->arena, saying->lines, text, err)); \
		}                                                          \
	} while (0)

/* Cluster and number formats. */
static lk_status say_inputs(const struct saying *saying, lk_error *err) {
	const lk_predict_request *request = saying->request;
	const lk_asked *asked = saying->asked;
	const lk_job *job = saying->job;
	bool launched = saying->launched;
	SAY(asked->cluster.assumed, "%s", asked->cluster.assumed);
	for (int i = 0; i < asked->launch.assumed_count; i++) SAY(true, "%s", asked->launch.assumed[i]);
	SAY(asked->batch_assumed, "%s", asked->batch_assumed);
	SAY(asked->trained.options,
	    "number formats in which its publishers trained the network (%s):%s; for 16 bits: --dtype "
	    "bf16",
	    asked->trained.source, asked->trained.options);
	SAY(!request->cluster, "nodes are the device's default nodes: %s (change with --cluster)",
	    asked->cluster.text);
	SAY(*asked->cluster.nccl && strcmp(job->nccl, asked->cluster.nccl) == 0,
	    "NCCL as the cluster's log says it: %s (--nccl)", job->nccl);
	SAY(!request->dtype && !launched && !asked->trained.options, "number format %s (--dtype)",
	    lk_dtype_name(job->dtype));
	return LK_OK;
}

/* The unit of a sample, and the batch sizes. */
static lk_status say_samples(const struct saying *saying, lk_error *err) {
	const lk_predict_request *request = saying->request;
	const lk_job *job = saying->job;
	bool launched = saying->launched;
	bool images = job->model.network == LK_NET_CONV;
	const lk_tower *tower = &job->model.tower;
	SAY(tower->apart, "the product of all features of the batch, which compares them, is left out");
	const char *by = tower->any_size ? "--images, --image-size" : "--images";
	SAY(tower->layers > 0 && !tower->apart,
	    tower->crossed
	        ? "%d %s of %d x %d pixels a tile and sequence, %g tokens in addition to its own (%s)"
	        : "%d %s of %d x %d pixels a sequence, %g of its tokens (%s)",
	    tower->images, lk_noun(tower->images, "image", "images"), tower->image, tower->image,
	    tower->images * lk_tower_tokens(tower), by);
	const lk_diffusion *dit = &job->model.dit;
	bool diffusion = job->model.network == LK_NET_DIFFUSION;
	SAY(diffusion && !request->seq && !launched && !dit->video,
	    "images of %d x %d pixels: %d tokens, of which the text has %d (--seq)", dit->width,
	    dit->height, job->seq, dit->text_tokens);
	SAY(diffusion && !request->seq && !launched && dit->video,
	    "videos of %d frames of %d x %d pixels: %d tokens, of which the text has %d (--seq)",
	    dit->frames, dit->width, dit->height, job->seq, dit->text_tokens);
	SAY(diffusion,
	    "outputs of the text encoders and of the VAE are cached: neither runs in a step");
	SAY(job->model.audio.convs > 0 && !request->seq && !launched,
	    "sound of %d tokens, %.0f frames or samples (--seq)", job->seq,
	    lk_audio_frames(&job->model.audio, -1, job->seq));
	SAY(job->model.decoder_context > 0, "texts of %d tokens", job->decoder_seq);
	SAY(!images && !diffusion && job->model.audio.convs == 0 && !request->seq && !launched,
	    "sequence length %d (--seq)", job->seq);
	SAY(!request->gbs && !launched && !saying->asked->batch_assumed, "global batch %d %ss (--gbs)",
	    job->gbs, lk_model_unit(&job->model));
	if (images)
		SAY(!request->mbs && !launched, "%d %s a GPU at once (--mbs)", job->mbs,
		    lk_noun(job->mbs, "image", "images"));
	else SAY(!request->mbs && !launched, "micro-batch %d (--mbs)", job->mbs);
	return LK_OK;
}

/* How the network is divided and what its ranks exchange. */
static lk_status say_layout(const struct saying *saying, lk_error *err) {
	const lk_predict_request *request = saying->request;
	const lk_job *job = saying->job;
	bool launched = saying->launched;
	SAY(!request->zero && !launched, "ZeRO stage %d (--zero)", (int)job->sharding);
	SAY(job->model.vocab > 0 && job->padded_vocab != job->model.vocab,
	    "vocabulary padded from %d to %d", job->model.vocab, job->padded_vocab);
	SAY(true,
	    "gradients %s with the backward pass, in buckets of %.4g MiB, %g bytes per element on the "
	    "wire",
	    job->overlap_grad_reduce != LK_OFF ? "are reduced along" : "are not reduced along",
	    job->bucket_bytes / LK_MIB, lk_sizes_wire_bytes(job));
	SAY(job->split_open && job->account_embedding,
	    "embedding and loss count as a layer each in the pipeline split, as %d %s not a multiple "
	    "of %d",
	    lk_job_layers(job), lk_noun(lk_job_layers(job), "layer is", "layers are"),
	    lk_job_places(job));
	SAY(job->split_open && job->pipeline_layout[0] && !request->pipeline_layout,
	    "layers are split as %s (--pipeline-layout), as %d is not a multiple of %d",
	    job->pipeline_layout, lk_job_layers(job), lk_job_places(job));
	SAY(job->pp > 1, "pipeline messages %s",
	    job->overlap_p2p == LK_ON ? "overlap with compute"
	                              : "block, as Megatron-LM's without overlap");
	SAY(job->pack_share > 1, "sequences of these lengths have %.3g times the pairs of equal ones",
	    lk_job_pack_share(job));
	SAY(job->pack_share > 0 && job->pack_share <= 1,
	    "packed documents leave %.3g %% of the pairs of a sequence, %.3g times as many on the "
	    "busiest "
	    "data-parallel rank (--pack)",
	    100 * lk_job_pack_share(job), lk_job_pack_busiest(job));
	SAY(job->model.experts > 0,
	    "the busiest expert rank gets %.2f times the mean tokens (--moe-imbalance)",
	    job->moe_imbalance);
	SAY(job->model.experts > 0 && job->sharding == LK_SHARD_ZERO3 && lk_job_uses_deepspeed(job) &&
	        lk_job_runs_as_written(job),
	    "experts run in a loop, as in transformers before 5, and ZeRO-3 gathers their matrices "
	    "one by one, in 1.5 ms of the host each, as one public run shows");
	return LK_OK;
}

/* Rates of kernels and of the host. */
static lk_status say_rates(const struct saying *saying, lk_error *err) {
	const lk_job *job = saying->job;
	const lk_device *device = saying->asked->cluster.node[0].device;
	lk_constants constants, *c = &constants;
	lk_profile_constants(job, c);
	lk_attention_rate forward = lk_step_attention(c, device, false),
					  backward = lk_step_attention(c, device, true);
	SAY(job->eager == LK_ON,
	    "element-wise operations run one by one, as Hugging Face's transformers writes them "
	    "(--no-eager: Liger's kernels)");
	SAY(lk_job_autocasts(job), "autocast: weights, gradients and the residual stream are in fp32 "
	                           "(--no-master-weights: all in 16 bits)");
	SAY(job->attn_kernel == LK_KERNEL_FLASH,
	    "fused attention by %s: up to %.0f TFLOP/s forward, %.0f backward, half of it at %.0f and "
	    "%.0f keys",
	    attention_kernel_name(c->attention, device), forward.flops / 1e12, backward.flops / 1e12,
	    forward.start, backward.start);
	SAY(job->attn_lacks, "attention is not fused: fused kernels of %s run on %s (--attention)",
	    job->stack, lk_capability_needs(lk_job_fused_attention(job)));
	SAY(device->gemm_flops > 0,
	    "measured on %s: fp32 products %.3g TFLOP/s, streaming %.3g GB/s, a call %.3g us",
	    device->name, device->gemm_flops / 1e12, device->stream_rate / 1e9, 1e6 * device->call_s);
	SAY(device->arch == LK_ARCH_CPU,
	    "no step on a processor was ever compared: the range is that of runs on GPUs");
	SAY(device->gemm_flops <= 0,
	    "large matrix products reach %.0f TFLOP/s in %s, streaming kernels %.0f %% of memory "
	    "bandwidth",
	    lk_step_gemm_flops(c, device, job->dtype) / 1e12, lk_dtype_name(job->dtype),
	    100 * c->memory_efficiency);
	SAY(job->cuda_graphs != LK_ON,
	    "the host needs %.0f us to issue an operation (--cuda-graphs: %.0f us)", 1e6 * c->launch_s,
	    1e6 * c->graph_launch_s);
	return LK_OK;
}

/* Recomputation, offloading, waiting, spread. */
static lk_status say_order(const struct saying *saying, lk_error *err) {
	const lk_predict_request *request = saying->request;
	const lk_job *job = saying->job;
	SAY(job->max_connections == 1,
	    "one hardware queue (CUDA_DEVICE_MAX_CONNECTIONS=1): nothing starts before what was "
	    "issued earlier has started%s",
	    job->sharding >= LK_SHARD_ZERO2 && job->dp > 1
	        ? "; sharded layers' gathers and reductions hold up the compute after them"
	        : "");
	SAY(lk_job_recomputes(job, LK_MODULE_CORE_ATTN) && job->attn_kernel == LK_KERNEL_FLASH,
	    "recomputing flash attention frees its softmax statistics alone: the output stays, as the "
	    "next product's input");
	SAY(lk_job_recomputes(job, LK_MODULE_MOE) &&
	        (job->recompute_modules & (LK_MODULE_MOE_ACT | LK_MODULE_SHARED_EXPERTS)),
	    "recomputing moe runs moe_act and shared_experts again as its parts: Megatron-LM, which "
	    "nests them, runs what is named as well once more (leave those names out)");
	for (int module = 1; module < LK_MODULES_END; module <<= 1) {
		const char *idle = lk_job_module_idle(job, (lk_module)module);
		SAY(idle && lk_job_recomputes(job, (lk_module)module), "%s", idle);
	}
	bool noisy = !request->noise && (request->jitter > 0 || request->gpu_spread > 0);
	const char *noise = "the spread of GPUs acts";
	if (request->gpu_spread <= 0) noise = "jitter acts";
	else if (request->jitter > 0) noise = "jitter and the spread of GPUs act";
	SAY(noisy && job->gpus / job->pp > LK_STEP_NOISY_CHAINS && !request->exact,
	    "%s on whole runs of layers, their communication included (--exact: on every "
	    "operation)",
	    noise);
	return LK_OK;
}

/* The measured runs that the numbers come from. */
static lk_status say_software(const struct saying *saying, lk_error *err) {
	const lk_job *job = saying->job;
	lk_arch arch = saying->asked->cluster.node[0].device->arch;
	const lk_calibration *numbers = lk_calibration_current();
	const lk_calibration_row *profile = lk_profile_find(numbers, job);
	SAY(profile, "judged by %d measured runs of %s, %.1f %% off in their fit (--stack, --release)",
	    profile->points, profile->subject, 100 * profile->error);
	const char *scaled = lk_scaling_note(saying->arena);
	if (!scaled) return lk_oom(err);
	SAY(*scaled, "%s", scaled);
	const char *recipe = stack_recipe_text(saying->arena, job);
	if (!recipe) return lk_oom(err);
	SAY(*recipe, "as the recipes of %s have it: %s (--no-NAME turns one off)", job->stack, recipe);
	SAY(!profile, "no run of %s was measured (--stack)", lk_stack_codebase(job->profile));
	SAY(arch != LK_ARCH_CPU && !lk_profile_measured(numbers, arch),
	    "no run was measured on %s: it is taken to keep its peak as Ampere does",
	    lk_arch_name(arch));
	return LK_OK;
}

static lk_status list_assumptions(lk_arena *arena, const lk_predict_request *request,
                                  const lk_asked *asked, const lk_prediction *answer,
                                  lk_lines *lines, lk_error *err) {
	const lk_job *job = &asked->job;
	const struct saying about = {arena, request, asked, job, lk_request_launched(request), lines},
						*saying = &about;
	LK_TRY(say_inputs(saying, err));
	LK_TRY(say_samples(saying, err));
	LK_TRY(say_layout(saying, err));
	LK_TRY(say_rates(saying, err));
	LK_TRY(say_order(saying, err));
	LK_TRY(say_software(saying, err));
	SAY(answer && answer->checkpoint_bytes > 0,
	    "a checkpoint of %.4g GB (%.3g bytes for each parameter that is trained%s) is written in "
	    "%.3g s (--checkpoint-write); a restart takes ten minutes",
	    answer->checkpoint_bytes / 1e9, lk_sizes_weight_bytes(job) + lk_sizes_state_bytes(job),
	    lk_optimizer_has_products(job) ? " and is in no matrix" : "", answer->checkpoint_write_s);
	SAY(true, "input data is always there: no stalls of preparation or fetch are modelled");
	return LK_OK;
}
#undef SAY

/* List the ignored flags; those that a user may rely on come first. */
static lk_status list_ignored(lk_arena *arena, const lk_asked *asked, lk_prediction *out,
                              lk_error *err) {
	const lk_launch *launch = &asked->launch;
	const char **lines = LK_ARRAY(arena, const char *, launch->ignored_count);
	if (!lines) return lk_oom(err);
	for (int notable = 1; notable >= 0; notable--)
		for (int i = 0; i < launch->ignored_count; i++) {
			const lk_ignored *ignored = &launch->ignored[i];
			if ((ignored->as == LK_IGNORED_NOTABLE) != notable) continue;
			const char *line = lk_arena_printf(arena, "%s: %s", ignored->flag, ignored->reason);
			if (!line) return lk_oom(err);
			lines[out->ignored_count++] = line;
			out->notable_count += notable;
		}
	out->ignored = lines;
	return LK_OK;
}

/* Append one name: "gradient_acumulation_steps (gradient_accumulation_steps?)". */
static const char *name_unknown(lk_arena *arena, const char *names, const lk_ignored *flag) {
	const char *comma = *names ? ", " : "";
	return flag->near ? lk_arena_printf(arena, "%s%s%s (%s?)", names, comma, flag->flag, flag->near)
	                  : lk_arena_printf(arena, "%s%s%s", names, comma, flag->flag);
}

/* Unknown flags by name: up to NAMED, then their number. */
static const char *unknown_flags(lk_arena *arena, const lk_asked *asked) {
	enum { NAMED = 8 };
	const char *names = "";
	int count = 0;
	for (int i = 0; i < asked->launch.ignored_count && names; i++)
		if (asked->launch.ignored[i].as == LK_IGNORED_UNKNOWN && count++ < NAMED)
			names = name_unknown(arena, names, &asked->launch.ignored[i]);
	if (!names || count <= NAMED) return names;
	return lk_arena_printf(arena, "%s and %d more", names, count - NAMED);
}

lk_status lk_note_warning(lk_arena *arena, const lk_asked *asked, const char **out, lk_error *err) {
	const char *unknown = unknown_flags(arena, asked), *model = asked->warning;
	*out = NULL;
	if (!unknown) return lk_oom(err);
	if (!*unknown && !*model) return LK_OK;
	if (*unknown)
		*out = lk_arena_printf(arena,
		                       "%s%sflags that are not known and that the answer leaves out: %s",
		                       model, *model ? "; " : "", unknown);
	else *out = lk_arena_strdup(arena, model);
	return *out ? LK_OK : lk_oom(err);
}

lk_status lk_note_assumptions(lk_arena *arena, const lk_predict_request *request,
                              const lk_asked *asked, const lk_prediction *answer,
                              const char *const **out, int *count, lk_error *err) {
	lk_lines lines = {0};
	lk_status status = list_assumptions(arena, request, asked, answer, &lines, err);
	const char **kept = LK_ARRAY(arena, const char *, lines.count);
	if (status == LK_OK && !kept) status = lk_oom(err);
	if (status == LK_OK) {
		if (lines.count) memcpy(kept, lines.at, lines.count * sizeof *kept);
		*out = kept;
		*count = (int)lines.count;
	}
	lk_vec_free(&lines);
	return status;
}

int lk_note_taken(const lk_asked *asked) {
	return asked->launch.assumed_count + (asked->cluster.assumed != NULL) +
	       (asked->batch_assumed != NULL) + (asked->trained.options != NULL);
}

/* A number of the text together with its prediction. */
static const char *beside_found(lk_arena *arena, const char *what, double predicted, double found,
                                char *show(double, char *, size_t)) {
	char one[32], other[32];
	return lk_arena_printf(arena, "%s: %s predicted, the text says %s (%+.0f %%)", what,
	                       show(predicted, one, sizeof one), show(found, other, sizeof other),
	                       100 * (found / predicted - 1));
}

/* What a pasted text holds, and how its measured numbers compare. */
static lk_status note_found(lk_arena *arena, const lk_launch *launch, lk_prediction *out,
                            lk_error *err) {
	int count = launch->found_count;
	const char **lines = LK_ARRAY(arena, const char *, (size_t)count + 2);
	if (!lines) return lk_oom(err);
	for (int i = 0; i < count; i++) lines[i] = launch->found[i];
	if (launch->measured_step_s > 0)
		lines[count++] = beside_found(arena, "step", out->step_time_s, launch->measured_step_s,
		                              lk_format_seconds);
	if (launch->measured_memory_bytes > 0)
		lines[count++] = beside_found(arena, "memory", out->peak_bytes,
		                              launch->measured_memory_bytes, lk_format_bytes);
	for (int i = launch->found_count; i < count; i++)
		if (!lines[i]) return lk_oom(err);
	out->found = lines;
	out->found_count = count;
	return LK_OK;
}

lk_status lk_note_job(lk_arena *arena, const lk_predict_request *request, const lk_asked *asked,
                      lk_prediction *out, lk_error *err) {
	const char *const *lines;
	int count;
	out->model = model_line(arena, &asked->job);
	out->cluster = cluster_line(arena, asked);
	out->layout = layout_line(arena, &asked->job);
	out->reproduce = lk_reproduce(arena, request, &asked->job);
	if (!out->model || !out->cluster || !out->layout || !out->reproduce) return lk_oom(err);
	LK_TRY(lk_note_warning(arena, asked, &out->warning, err));
	LK_TRY(note_found(arena, &asked->launch, out, err));
	LK_TRY(lk_note_assumptions(arena, request, asked, out, &lines, &count, err));
	out->assumptions = lines;
	out->assumption_count = count;
	out->taken_count = lk_note_taken(asked);
	out->understood = asked->launch.understood;
	out->understood_count = asked->launch.understood_count;
	return list_ignored(arena, asked, out, err);
}
