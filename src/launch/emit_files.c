/* emit_files.c: configurations of axolotl, LLaMA-Factory, nanotron and accelerate, complete but for
 * data, rates and length, which a prediction does not know. The readers are keys_*.c.
 *
 *     accumulation = micro-batches of a step on a replica;  replicas = gpus / (tp cp) */
#include <string.h>

#include "base/arena.h"
#include "launch/emit.h"

static const char *files_truth(bool is) {
	return is ? "true" : "false";
}

/* Samples hold images, which an encoder of the network reads. */
static bool files_images(const lk_job *job) {
	return job->model.tower.layers > 0 && job->model.tower.images > 0;
}

/* ---- what they share ---- */

static bool files_fsdp(const lk_job *job) {
	return strcmp(job->stack, "fsdp") == 0 || strcmp(job->stack, "llm-foundry") == 0 ||
	       strcmp(job->stack, "torchtitan") == 0;
}

static bool files_ddp(const lk_job *job) {
	return strcmp(job->stack, "ddp") == 0;
}

static bool files_deepspeed(const lk_job *job) {
	return strcmp(job->stack, "deepspeed") == 0;
}

static const char *files_optimizer(const lk_job *job) {
	static const char *const names[LK_OPTIMIZERS] = {
		[LK_OPT_ADAM] = "adamw_torch_fused",     [LK_OPT_SGD] = "sgd",
		[LK_OPT_ADAFACTOR] = "adafactor",        [LK_OPT_LION] = "lion_32bit",
		[LK_OPT_LION_8BIT] = "lion_8bit",        [LK_OPT_ADAM_8BIT] = "adamw_bnb_8bit",
		[LK_OPT_ADAM_4BIT] = "adamw_torch_4bit", [LK_OPT_ADEMAMIX] = "ademamix",
		[LK_OPT_ADEMAMIX_8BIT] = "ademamix_8bit"};
	bool eight = job->optimizer == LK_OPT_ADAM && job->state_dtype == LK_FP8;
	bool lists = job->optimizer == LK_OPT_ADAM && job->update == LK_UPDATE_FOREACH;
	if (eight) return "adamw_bnb_8bit";
	return lists ? "adamw_torch" : names[job->optimizer];
}

static const char *files_attention(const lk_job *job) {
	if (job->attn_kernel == LK_KERNEL_UNFUSED) return "eager";
	if (job->attn_library == LK_ATTN_LIBRARY_FLASH3) return "flash_attention_3";
	return job->attn_library == LK_ATTN_LIBRARY_FLASH ? "flash_attention_2" : "sdpa";
}

/* One of HuggingFace's trainers: FSDP, DDP or DeepSpeed, without a pipeline. */
static const char *files_trainer_lacks(const lk_job *job, const char *optimizer) {
	if (!optimizer)
		return "it has no name for the optimizer; add --optimizer adam, adam-8bit or lion";
	if (!files_fsdp(job) && !files_ddp(job) && !files_deepspeed(job))
		return "the layout is one of Megatron-LM; add --stack fsdp, ddp or deepspeed";
	if (job->pp > 1) return "it has no pipeline parallelism; add --pp 1";
	if (files_fsdp(job) && job->offload_optimizer && !job->offload_params)
		return "FSDP moves parameters with the optimizer's states; add --offload-params";
	if (files_fsdp(job) && job->sharding == LK_SHARD_ZERO1)
		return "FSDP shards gradients with the optimizer's states; add --zero 2 or --zero 3";
	return NULL;
}

/* Whether a published configuration of ZeRO 3 with offload would do otherwise: it moves both. */
static bool files_offloads_half(const lk_job *job) {
	return files_deepspeed(job) && job->sharding == LK_SHARD_ZERO3 && job->offload_optimizer &&
	       !job->offload_params;
}

#define OFFLOADS_BOTH                                                                \
	"its configuration of ZeRO 3 moves parameters with the optimizer's states; add " \
	"--offload-params"

/* Ranks that share one copy of the weights, and copies. */
static int files_shard(const lk_job *job) {
	int all = job->dp * job->cp;
	return job->shard_group > 0 && all % job->shard_group == 0 ? job->shard_group : all;
}

/* ---- axolotl ---- */

/* axolotl's own names come first (src/axolotl/utils/schemas/enums.py, CustomSupportedOptimizers).
 */
static const char *axolotl_optimizer(const lk_job *job) {
	return job->optimizer == LK_OPT_ADAM_FLASH ? "flash_adamw" : files_optimizer(job);
}

const char *lk_axolotl_lacks(const lk_job *job) {
	if (job->model.network != LK_NET_DECODER) return "it trains decoders alone; use accelerate";
	if (files_offloads_half(job)) return OFFLOADS_BOTH;
	if (job->optimizer == LK_OPT_ADAM_FLASH && files_deepspeed(job))
		return "its flash_adamw does not run under DeepSpeed; add --stack fsdp or ddp";
	if (job->loss == LK_LOSS_CHUNKED) /* src/axolotl/monkeypatch/loss/chunked.py */
		return "its chunked_cross_entropy makes all logits first; use --loss linear, --loss cut or "
			   "--fused-loss";
	return files_trainer_lacks(job, axolotl_optimizer(job));
}

static void axolotl_layout(lk_page *page, const lk_job *job) {
	int shard = files_shard(job);
	if (job->tp > 1) lk_page_add(page, "tensor_parallel_size: %d\n", job->tp);
	if (job->cp > 1) lk_page_add(page, "context_parallel_size: %d\n", job->cp);
	if (job->ep > 1) lk_page_add(page, "expert_parallel_size: %d\n", job->ep);
	if (files_deepspeed(job)) {
		static const char *const stages[] = {"zero0", "zero1", "zero2", "zero3"};
		lk_page_add(page, "deepspeed: deepspeed_configs/%s.json\n",
		            job->offload_params ? "zero3_bf16_cpuoffload_all" : stages[job->sharding]);
	}
	if (!files_fsdp(job)) return;
	if (shard < job->dp * job->cp)
		lk_page_add(page, "dp_shard_size: %d\ndp_replicate_size: %d\n",
		            shard > job->cp ? shard / job->cp : 1, job->dp * job->cp / shard);
	lk_page_add(page,
	            "fsdp_version: 2\n"
	            "fsdp_config:\n"
	            "  auto_wrap_policy: TRANSFORMER_BASED_WRAP\n"
	            "  state_dict_type: SHARDED_STATE_DICT\n"
	            "  reshard_after_forward: %s\n"
	            "  offload_params: %s\n",
	            files_truth(job->sharding != LK_SHARD_ZERO2), files_truth(job->offload_params));
}

static void axolotl_numbers(lk_page *page, const lk_job *job) {
	lk_page_add(page, "bf16: %s\nfp16: %s\ntf32: %s\n", files_truth(job->dtype >= LK_BF16),
	            files_truth(job->dtype == LK_FP16), files_truth(job->dtype == LK_TF32));
	if (job->dtype == LK_FP8) lk_page_add(page, "fp8: true\n");
	lk_page_add(page, "gradient_checkpointing: %s\n",
	            files_truth(job->recompute != LK_RECOMPUTE_NONE));
	lk_page_add(page, "attn_implementation: %s\n", files_attention(job));
	if (job->compile) lk_page_add(page, "torch_compile: true\n");
	if (job->offload_activations) lk_page_add(page, "activation_offloading: true\n");
	static const struct {
		const char *plugin, *key;
	} losses[] = {[LK_LOSS_LOGITS] = {"liger.LigerPlugin", "liger_cross_entropy"},
	              [LK_LOSS_LINEAR] = {"liger.LigerPlugin", "liger_fused_linear_cross_entropy"},
	              [LK_LOSS_CUT] = {"cut_cross_entropy.CutCrossEntropyPlugin", "cut_cross_entropy"}};
	if (job->fused_cross_entropy == LK_ON || job->loss != LK_LOSS_LOGITS)
		lk_page_add(page, "plugins:\n  - axolotl.integrations.%s\n%s: true\n",
		            losses[job->loss].plugin, losses[job->loss].key);
}

bool lk_write_axolotl(lk_emission *emission) {
	const lk_job *job = emission->job;
	lk_page page = {emission->arena, ""};
	lk_page_add(&page, "# axolotl train axolotl.yaml, on %d GPUs of %d nodes\n", job->gpus,
	            emission->nodes);
	lk_page_add(&page, "base_model: %s\n", emission->network);
	lk_page_add(&page, "datasets:\n  - path: DATASET\n    type: %s\n",
	            job->task == LK_TASK_PRETRAIN ? "completion" : "chat_template");
	bool images = files_images(job);
	lk_page_add(&page, "output_dir: outputs\n\nsequence_len: %d\nsample_packing: %s\n", job->seq,
	            files_truth(!images));
	if (images) /* what axolotl demands of samples with images */
		lk_page_add(&page, "processor_type: AutoProcessor\nskip_prepare_dataset: true\n"
		                   "remove_unused_columns: false\n");
	lk_page_add(&page, "micro_batch_size: %d\ngradient_accumulation_steps: %d\n", job->mbs,
	            job->microbatches);
	lk_page_add(&page, "max_steps: 1000\n\noptimizer: %s\nlr_scheduler: cosine\n",
	            axolotl_optimizer(job));
	lk_page_add(&page, "learning_rate: 0.00002\n\n");
	if (job->task == LK_TASK_LORA)
		lk_page_add(&page,
		            "adapter: lora\nlora_r: %d\nlora_alpha: %d\nlora_target_linear: true\n\n",
		            job->lora_rank, 2 * job->lora_rank);
	axolotl_numbers(&page, job);
	lk_page_add(&page, "\n");
	axolotl_layout(&page, job);
	emission->contents = page.text;
	emission->file = "axolotl.yaml";
	return page.text != NULL && lk_put_word(&emission->program, "-m") &&
	       lk_put_word(&emission->program, "axolotl.cli.train") &&
	       lk_put_word(&emission->program, emission->file);
}

/* ---- LLaMA-Factory ---- */

const char *lk_llama_factory_lacks(const lk_job *job) {
	if (job->model.network != LK_NET_DECODER) return "it trains decoders alone; use accelerate";
	if (files_offloads_half(job)) return OFFLOADS_BOTH;
	if (lk_job_like_megatron(job)) {
		if (job->task == LK_TASK_LORA)
			return "it trains adapters without Megatron-Core; add --stack fsdp";
		if (job->pp > 1 && job->schedule != LK_SCHED_1F1B && job->schedule != LK_SCHED_INTERLEAVED)
			return "Megatron-Core runs 1f1b and interleaved; add --schedule 1f1b,interleaved";
		return NULL;
	}
	if (job->tp > 1 || job->cp > 1 || job->ep > 1)
		return "tensor, context and expert parallelism are those of Megatron-Core; add --stack "
			   "megatron";
	return files_trainer_lacks(job, files_optimizer(job));
}

static void factory_megatron(lk_page *page, const lk_job *job) {
	static const char *const dispatchers[] = {[LK_DISPATCH_ALLTOALL] = "alltoall",
	                                          [LK_DISPATCH_ALLGATHER] = "allgather",
	                                          [LK_DISPATCH_NODE] = "flex"};
	lk_page_add(page, "tensor_model_parallel_size: %d\n", job->tp);
	lk_page_add(page, "pipeline_model_parallel_size: %d\n", job->pp);
	if (job->vp > 1) lk_page_add(page, "virtual_pipeline_model_parallel_size: %d\n", job->vp);
	lk_page_add(page, "context_parallel_size: %d\n", job->cp);
	lk_page_add(page, "sequence_parallel: %s\n", files_truth(job->sequence_parallel == LK_ON));
	if (job->model.experts > 0)
		lk_page_add(page,
		            "expert_model_parallel_size: %d\n"
		            "expert_tensor_parallel_size: %d\n"
		            "moe_grouped_gemm: %s\n"
		            "moe_token_dispatcher_type: %s\n",
		            job->ep, job->etp, files_truth(job->grouped_gemm == LK_ON),
		            dispatchers[job->dispatcher]);
	lk_page_add(page, "use_distributed_optimizer: %s\n",
	            files_truth(job->sharding >= LK_SHARD_ZERO1));
	lk_page_add(page, "overlap_grad_reduce: %s\noverlap_param_gather: %s\n",
	            files_truth(job->overlap_grad_reduce == LK_ON),
	            files_truth(job->overlap_param_gather == LK_ON));
	if (job->recompute != LK_RECOMPUTE_NONE)
		lk_page_add(page, "recompute_granularity: %s\n",
		            job->recompute == LK_RECOMPUTE_FULL ? "full" : "selective");
}

static void factory_sharding(lk_page *page, const lk_job *job) {
	if (files_deepspeed(job))
		lk_page_add(page, "deepspeed: examples/deepspeed/ds_z%d_%sconfig.json\n",
		            (int)job->sharding, job->offload_optimizer ? "offload_" : "");
	if (!files_fsdp(job)) return;
	int shard = files_shard(job);
	bool hybrid = shard < job->dp * job->cp;
	const char *name = job->sharding == LK_SHARD_ZERO2 ? "shard_grad_op" : "full_shard";
	if (hybrid) name = job->sharding == LK_SHARD_ZERO2 ? "hybrid_shard_zero2" : "hybrid_shard";
	lk_page_add(page, "fsdp: %s auto_wrap%s\n", name, job->offload_params ? " offload" : "");
}

bool lk_write_llama_factory(lk_emission *emission) {
	static const char *const flash[][2] = {{"eager", "disabled"},
	                                       {"flash_attention_3", "fa3"},
	                                       {"flash_attention_2", "fa2"},
	                                       {"sdpa", "sdpa"}};
	const lk_job *job = emission->job;
	bool megatron = lk_job_like_megatron(job), lora = job->task == LK_TASK_LORA;
	lk_page page = {emission->arena, ""};
	lk_page_add(&page,
	            "# %sFORCE_TORCHRUN=1 llamafactory-cli train llama_factory.yaml, on %d GPUs of %d "
	            "nodes\n",
	            megatron ? "USE_MCA=1 " : "", job->gpus, emission->nodes);
	lk_page_add(&page, "model_name_or_path: %s\nstage: %s\ndo_train: true\nfinetuning_type: %s\n",
	            emission->network, job->task == LK_TASK_PRETRAIN ? "pt" : "sft",
	            lora ? "lora" : "full");
	if (lora) lk_page_add(&page, "lora_rank: %d\nlora_target: all\n", job->lora_rank);
	if (files_images(job))
		lk_page_add(&page, "image_max_pixels: %lld\nfreeze_vision_tower: %s\n",
		            (long long)job->model.tower.image * job->model.tower.image,
		            files_truth(job->freeze_tower));
	lk_page_add(&page, "\ndataset: DATASET\ntemplate: TEMPLATE\ncutoff_len: %d\npacking: true\n",
	            job->seq);
	lk_page_add(&page, "output_dir: outputs\n\nper_device_train_batch_size: %d\n", job->mbs);
	lk_page_add(&page, "gradient_accumulation_steps: %d\nmax_steps: 1000\n", job->microbatches);
	lk_page_add(&page, "learning_rate: 0.00002\nlr_scheduler_type: cosine\noptim: %s\n\n",
	            files_optimizer(job));
	lk_page_add(&page, "bf16: %s\nfp16: %s\ntf32: %s\n", files_truth(job->dtype >= LK_BF16),
	            files_truth(job->dtype == LK_FP16), files_truth(job->dtype == LK_TF32));
	if (job->dtype == LK_FP8) lk_page_add(&page, "fp8: true\n");
	lk_page_add(&page, "disable_gradient_checkpointing: %s\n",
	            files_truth(job->recompute == LK_RECOMPUTE_NONE || megatron));
	for (size_t i = 0; i < sizeof flash / sizeof *flash; i++)
		if (strcmp(flash[i][0], files_attention(job)) == 0)
			lk_page_add(&page, "flash_attn: %s\n", flash[i][1]);
	lk_page_add(&page, "enable_liger_kernel: %s\n",
	            files_truth(job->loss == LK_LOSS_LINEAR && !megatron));
	if (job->compile) lk_page_add(&page, "torch_compile: true\n");
	lk_page_add(&page, "\n");
	if (megatron) factory_megatron(&page, job);
	else factory_sharding(&page, job);
	emission->contents = page.text;
	emission->file = "llama_factory.yaml";
	return page.text != NULL && (!megatron || lk_put_word(&emission->environment, "USE_MCA=1")) &&
	       lk_put_word(&emission->program, "-m") &&
	       lk_put_word(&emission->program, "llamafactory.launcher") &&
	       lk_put_word(&emission->program, emission->file);
}

/* ---- nanotron ---- */

const char *lk_nanotron_lacks(const lk_job *job) {
	const lk_model *model = &job->model;
	if (!lk_job_like_megatron(job)) return "the layout is one of FSDP; add --stack megatron";
	if (job->task == LK_TASK_LORA) return "it trains no adapters; leave --task lora out";
	if (model->network != LK_NET_DECODER || model->attention != LK_ATTN_HEADS || model->ssm > 0 ||
	    model->rwkv_inner > 0)
		return "its networks are those of Llama and Qwen2; use megatron";
	if (job->vp > 1 ||
	    (job->pp > 1 && job->schedule != LK_SCHED_1F1B && job->schedule != LK_SCHED_GPIPE))
		return "its pipelines run 1f1b and gpipe; add --schedule 1f1b --vp 1";
	if (job->sharding > LK_SHARD_ZERO1) return "it runs ZeRO 0 and 1; add --zero 1";
	return NULL;
}

static void nanotron_network(lk_page *page, const lk_model *model) {
	bool qwen = model->qkv_bias || model->experts > 0;
	lk_page_add(page, "  model_config:\n    %s: true\n",
	            qwen ? "is_qwen2_config" : "is_llama_config");
	if (qwen) lk_page_add(page, "    attention_bias: %s\n", files_truth(model->qkv_bias));
	lk_page_add(page,
	            "    bos_token_id: 1\n"
	            "    eos_token_id: 2\n"
	            "    hidden_act: silu\n"
	            "    hidden_size: %d\n"
	            "    initializer_range: 0.02\n"
	            "    intermediate_size: %d\n"
	            "    max_position_embeddings: %d\n"
	            "    num_attention_heads: %d\n"
	            "    num_hidden_layers: %d\n"
	            "    num_key_value_heads: %d\n",
	            model->hidden, model->ffn, model->context, model->heads, model->layers,
	            model->kv_heads);
	if (model->head_dim * model->heads != model->hidden)
		lk_page_add(page, "    head_dim: %d\n", model->head_dim);
	lk_page_add(page,
	            "    pad_token_id: null\n"
	            "    pretraining_tp: 1\n"
	            "    rms_norm_eps: 1.0e-05\n"
	            "    rope_interleaved: false\n"
	            "    rope_scaling: null\n"
	            "    rope_theta: %.1f\n"
	            "    tie_word_embeddings: %s\n"
	            "    use_cache: true\n"
	            "    vocab_size: %d\n",
	            model->rotary_base, files_truth(model->tied), model->vocab);
	if (model->experts == 0) return;
	lk_page_add(page,
	            "    moe_config:\n"
	            "      num_experts: %d\n"
	            "      top_k: %d\n"
	            "      moe_intermediate_size: %d\n"
	            "      enable_shared_expert: %s\n",
	            model->experts, model->topk, model->expert_ffn, files_truth(model->shared_ffn > 0));
	if (model->shared_ffn > 0)
		lk_page_add(page, "      shared_expert_intermediate_size: %d\n", model->shared_ffn);
}

static void nanotron_layout(lk_page *page, const lk_job *job) {
	lk_page_add(page,
	            "parallelism:\n"
	            "  context_parallel_size: %d\n"
	            "  dp: %d\n"
	            "  expert_parallel_size: %d\n"
	            "  pp: %d\n"
	            "  pp_engine: %s\n"
	            "  recompute_layer: %s\n"
	            "  tp: %d\n"
	            "  tp_linear_async_communication: %s\n"
	            "  tp_mode: %s\n",
	            job->cp, job->dp, job->ep, job->pp,
	            job->schedule == LK_SCHED_GPIPE ? "afab" : "1f1b",
	            files_truth(job->recompute == LK_RECOMPUTE_FULL), job->tp,
	            files_truth(job->tp_overlap == LK_ON),
	            job->sequence_parallel == LK_ON ? "REDUCE_SCATTER" : "ALL_REDUCE");
}

static void nanotron_optimizer(lk_page *page, const lk_job *job) {
	lk_page_add(page,
	            "optimizer:\n"
	            "  accumulate_grad_in_fp32: %s\n"
	            "  clip_grad: 1.0\n"
	            "  learning_rate_scheduler:\n"
	            "    learning_rate: 0.0003\n"
	            "    lr_decay_starting_step: null\n"
	            "    lr_decay_steps: 900\n"
	            "    lr_decay_style: cosine\n"
	            "    lr_warmup_steps: 100\n"
	            "    lr_warmup_style: linear\n"
	            "    min_decay_lr: 0.00003\n"
	            "  optimizer_factory:\n",
	            files_truth(job->fp32_grads == LK_ON));
	if (job->optimizer == LK_OPT_SGD) lk_page_add(page, "    name: sgd\n");
	else
		lk_page_add(page, "    adam_beta1: 0.9\n"
		                  "    adam_beta2: 0.95\n"
		                  "    adam_eps: 1.0e-08\n"
		                  "    name: adamW\n"
		                  "    torch_adam_is_fused: true\n");
	lk_page_add(page, "  weight_decay: 0.1\n  zero_stage: %d\n", (int)job->sharding);
}

bool lk_write_nanotron(lk_emission *emission) {
	const lk_job *job = emission->job;
	lk_page page = {emission->arena, ""};
	const char *format = "bfloat16";
	if (job->dtype == LK_FP16) format = "float16";
	else if (job->dtype <= LK_TF32) format = "float32";
	lk_page_add(&page,
	            "# torchrun ... run_train.py --config-file nanotron.yaml, on %d GPUs of %d nodes\n"
	            "checkpoints:\n"
	            "  checkpoint_interval: 1000\n"
	            "  checkpoints_path: checkpoints\n"
	            "  resume_checkpoint_path: null\n"
	            "data_stages:\n"
	            "  - data:\n"
	            "      dataset:\n"
	            "        dataset_folder: DATASET\n"
	            "      num_loading_workers: 1\n"
	            "      seed: 42\n"
	            "    name: training\n"
	            "    start_training_step: 1\n"
	            "general:\n"
	            "  project: PROJECT\n"
	            "  run: RUN\n"
	            "  seed: 42\n"
	            "logging:\n"
	            "  iteration_step_info_interval: 1\n"
	            "  log_level: info\n"
	            "model:\n"
	            "  ddp_bucket_cap_mb: 25\n"
	            "  dtype: %s\n"
	            "  init_method:\n"
	            "    std: 0.02\n"
	            "  make_vocab_size_divisible_by: %d\n",
	            job->gpus, emission->nodes, format, job->vocab_multiple);
	nanotron_network(&page, &job->model);
	nanotron_optimizer(&page, job);
	nanotron_layout(&page, job);
	lk_page_add(&page,
	            "tokenizer:\n"
	            "  tokenizer_max_length: null\n"
	            "  tokenizer_name_or_path: %s\n"
	            "  tokenizer_revision: null\n"
	            "tokens:\n"
	            "  batch_accumulation_per_replica: %d\n"
	            "  limit_test_batches: 0\n"
	            "  limit_val_batches: 0\n"
	            "  micro_batch_size: %d\n"
	            "  sequence_length: %d\n"
	            "  train_steps: 1000\n"
	            "  val_check_interval: -1\n",
	            emission->network, job->microbatches, job->mbs, job->seq);
	emission->contents = page.text;
	emission->file = "nanotron.yaml";
	return page.text != NULL && lk_put_word(&emission->program, "run_train.py") &&
	       lk_put_word(&emission->program, "--config-file") &&
	       lk_put_word(&emission->program, emission->file);
}

/* ---- accelerate ---- */

const char *lk_accelerate_lacks(const lk_job *job) {
	return files_trainer_lacks(job, files_optimizer(job));
}

static void accelerate_sharding(lk_page *page, const lk_job *job) {
	int shard = files_shard(job), all = job->dp * job->cp;
	if (files_deepspeed(job))
		lk_page_add(page,
		            "deepspeed_config:\n"
		            "  gradient_accumulation_steps: %d\n"
		            "  offload_optimizer_device: %s\n"
		            "  offload_param_device: %s\n"
		            "  zero3_init_flag: %s\n"
		            "  zero_stage: %d\n",
		            job->microbatches, job->offload_optimizer ? "cpu" : "none",
		            job->offload_params ? "cpu" : "none",
		            files_truth(job->sharding == LK_SHARD_ZERO3), (int)job->sharding);
	if (!files_fsdp(job)) return;
	lk_page_add(page,
	            "fsdp_config:\n"
	            "  fsdp_version: 2\n"
	            "  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n"
	            "  fsdp_state_dict_type: SHARDED_STATE_DICT\n"
	            "  fsdp_reshard_after_forward: %s\n"
	            "  fsdp_offload_params: %s\n"
	            "  fsdp_activation_checkpointing: %s\n",
	            files_truth(job->sharding != LK_SHARD_ZERO2), files_truth(job->offload_params),
	            files_truth(job->recompute == LK_RECOMPUTE_FULL));
	if (shard == all && job->tp == 1 && job->cp == 1) return;
	lk_page_add(page,
	            "parallelism_config:\n"
	            "  parallelism_config_dp_replicate_size: %d\n"
	            "  parallelism_config_dp_shard_size: %d\n"
	            "  parallelism_config_tp_size: %d\n"
	            "  parallelism_config_cp_size: %d\n",
	            all / shard, shard > job->cp ? shard / job->cp : 1, job->tp, job->cp);
}

/* The flags of the Trainer that say what accelerate's file does not. */
static bool accelerate_program(lk_emission *emission) {
	const lk_job *job = emission->job;
	lk_arena *arena = emission->arena;
	lk_words *words = &emission->program;
	const struct {
		const char *flag, *value;
		bool write;
	} flags[] = {
		{"model_name_or_path", emission->network, true},
		{"per_device_train_batch_size", lk_arena_printf(arena, "%d", job->mbs), true},
		{"gradient_accumulation_steps", lk_arena_printf(arena, "%d", job->microbatches), true},
		{"max_seq_length", lk_arena_printf(arena, "%d", job->seq), job->model.vocab > 0},
		{"optim", files_optimizer(job), true},
		{"bf16", "True", job->dtype >= LK_BF16},
		{"fp16", "True", job->dtype == LK_FP16},
		{"gradient_checkpointing", job->recompute != LK_RECOMPUTE_NONE ? "True" : "False", true},
		{"attn_implementation", files_attention(job), job->model.heads > 0},
		{"use_liger_kernel", "True", job->loss == LK_LOSS_LINEAR},
		{"torch_compile", "True", job->compile},
		{"use_peft", "True", job->task == LK_TASK_LORA},
		{"lora_r", lk_arena_printf(arena, "%d", job->lora_rank), job->task == LK_TASK_LORA},
	};
	if (!lk_put_word(words, "train.py")) return false;
	for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
		if (flags[i].write && (!lk_put_word(words, lk_arena_printf(arena, "--%s", flags[i].flag)) ||
		                       !lk_put_word(words, flags[i].value)))
			return false;
	return true;
}

bool lk_write_accelerate(lk_emission *emission) {
	const lk_job *job = emission->job;
	lk_page page = {emission->arena, ""};
	const char *kind = job->gpus > 1 ? "MULTI_GPU" : "'NO'", *format = "'no'";
	if (files_fsdp(job)) kind = "FSDP";
	else if (files_deepspeed(job)) kind = "DEEPSPEED";
	if (job->dtype == LK_FP8 || job->dtype == LK_MXFP8) format = "fp8";
	else if (job->dtype >= LK_BF16) format = "bf16";
	else if (job->dtype == LK_FP16) format = "fp16";
	lk_page_add(&page,
	            "# accelerate launch --config_file accelerate.yaml PROGRAM, on each of %d nodes\n"
	            "compute_environment: LOCAL_MACHINE\n"
	            "debug: false\n"
	            "distributed_type: %s\n"
	            "downcast_bf16: 'no'\n"
	            "machine_rank: 0\n"
	            "main_process_ip: %s\n"
	            "main_process_port: 29500\n"
	            "main_training_function: main\n"
	            "mixed_precision: %s\n"
	            "num_machines: %d\n"
	            "num_processes: %d\n"
	            "rdzv_backend: c10d\n"
	            "use_cpu: false\n",
	            emission->nodes, kind, emission->nodes > 1 ? "HEAD_NODE" : "127.0.0.1", format,
	            emission->nodes, job->gpus);
	accelerate_sharding(&page, job);
	emission->contents = page.text;
	emission->file = "accelerate.yaml";
	emission->accelerate = true;
	return page.text != NULL && accelerate_program(emission);
}
