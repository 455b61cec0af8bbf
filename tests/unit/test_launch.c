/* test_launch.c: pasted launch lines, scripts and DeepSpeed configs; writing a job and reading it
 * again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include "base/arena.h"
#include "io/csv.h"
#include "base/text.h"
#include "model/layout/job.h"
#include "launch/launch.h"
#include "model/layout/schedule.h"
#include "data.h"
#include "rounds.h"

#define DATA "tests/data/launch/"

static lk_launch script(lk_arena *arena, const char *text) {
	lk_launch out = {0};
	lk_error err = {0};
	char message[1024];
	if (lk_launch_text(arena, text, strlen(text), "test.sh", NULL, &out, &err) != LK_OK)
		fail_msg("%s", lk_error_text(&err, message, sizeof message));
	return out;
}

static lk_launch file(lk_arena *arena, const char *path) {
	lk_launch out = {0};
	lk_error err = {0};
	char message[1024];
	if (lk_launch_script(arena, path, NULL, &out, &err) != LK_OK)
		fail_msg("%s", lk_error_text(&err, message, sizeof message));
	return out;
}

static void assert_refused(const char *text, const char *part) {
	lk_arena arena = LK_ARENA_INIT;
	lk_launch out = {0};
	lk_error err = {0};
	char message[1024];
	assert_int_equal(lk_launch_text(&arena, text, strlen(text), "test.sh", NULL, &out, &err),
	                 LK_ERR_INPUT);
	lk_error_text(&err, message, sizeof message);
	if (strstr(message, part) == NULL) fail_msg("\"%s\" should hold \"%s\"", message, part);
	lk_arena_free(&arena);
}

static const char *reason(const lk_launch *launch, const char *flag) {
	for (int i = 0; i < launch->ignored_count; i++)
		if (strcmp(launch->ignored[i].flag, flag) == 0) return launch->ignored[i].reason;
	return NULL;
}

static void complete(lk_job *job) {
	lk_error err = {0};
	char message[1024];
	if (lk_job_complete(job, NULL, &err) != LK_OK)
		fail_msg("%s", lk_error_text(&err, message, sizeof message));
}

/* ---- whole scripts ---- */

static void gpt_175b(void **state) {
	(void)state;
	lk_arena arena = LK_ARENA_INIT;
	lk_launch launch = file(&arena, DATA "gpt_175b.sh");
	lk_job *job = launch.job;
	assert_int_equal(launch.gpus, 1024);
	assert_int_equal(job->model.ffn, 4 * 12288);
	assert_int_equal(job->model.head_dim, 128);
	assert_int_equal(job->model.kv_heads, 96);
	assert_int_equal(job->model.vocab, 50257);
	assert_true(job->model.mlp_bias && job->model.tied && !job->model.gated);
	assert_int_equal(job->dtype, LK_FP16);
	assert_int_equal(job->sharding, LK_SHARD_NONE);
	assert_int_equal(job->max_connections, 1);
	complete(job);
	assert_int_equal(job->dp, 8);
	assert_int_equal(job->microbatches, 192);
	double billions = lk_model_params(&job->model) / 1e9;
	assert_true(billions > 174.5 && billions < 175.5);
	assert_string_equal(reason(&launch, "save"), "checkpointing: not part of the step");
	assert_non_null(reason(&launch, "rampup-batch-size"));
	assert_null(reason(&launch, "fp16"));
	lk_arena_free(&arena);
}

static void llama3_8b(void **state) {
	(void)state;
	lk_arena arena = LK_ARENA_INIT;
	lk_launch launch = file(&arena, DATA "llama3_8b_fp8.sh");
	lk_job *job = launch.job;
	assert_int_equal(launch.gpus, 8);
	assert_int_equal(job->dtype, LK_FP8);
	assert_int_equal(job->cp, 2);
	assert_int_equal(job->sequence_parallel, LK_OFF); /* tp is 1 */
	assert_non_null(reason(&launch, "sequence-parallel"));
	assert_int_equal(job->grad_reduce_fp32, LK_OFF);
	assert_int_equal(job->fused_cross_entropy, LK_ON);
	assert_int_equal(job->sharding, LK_SHARD_ZERO1);
	assert_int_equal(job->overlap_param_gather, LK_ON);
	complete(job);
	assert_int_equal(job->dp, 4);
	assert_true(lk_model_params(&job->model) ==
	            8030261248.0); /* as its HuggingFace config counts */
	lk_arena_free(&arena);
}

static void mixtral(void **state) {
	(void)state;
	lk_arena arena = LK_ARENA_INIT;
	lk_launch launch = file(&arena, DATA "mixtral_8x7b.sh");
	lk_job *job = launch.job;
	assert_int_equal(launch.gpus, 64);
	assert_int_equal(job->model.experts, 8);
	assert_int_equal(job->model.expert_ffn, 14336);
	assert_int_equal(job->vp, 2);
	assert_int_equal(job->schedule, LK_SCHED_INTERLEAVED);
	assert_int_equal(job->dispatcher, LK_DISPATCH_ALLTOALL);
	assert_int_equal(job->max_connections, 1);
	assert_non_null(reason(&launch, "NCCL_IB_SL"));
	complete(job);
	assert_int_equal(job->dp, 16);
	assert_true(lk_model_params(&job->model) == 46702792704.0);
	lk_arena_free(&arena);
}

static void deepseek(void **state) {
	(void)state;
	lk_arena arena = LK_ARENA_INIT;
	lk_launch launch = file(&arena, DATA "deepseek_like.sh");
	lk_job *job = launch.job;
	assert_int_equal(launch.gpus, 1024);
	assert_int_equal(job->model.attention, LK_ATTN_MLA);
	assert_int_equal(job->model.dense_layers, 3);
	assert_int_equal(job->model.moe_every, 1);
	assert_int_equal(job->dispatcher, LK_DISPATCH_NODE);
	assert_int_equal(job->state_dtype, LK_BF16);
	assert_int_equal(job->recompute, LK_RECOMPUTE_SELECTIVE);
	assert_int_equal(job->recompute_modules, LK_MODULE_MLP | LK_MODULE_MLA_UP_PROJ);
	assert_string_equal(reason(&launch, "new-flag-of-tomorrow"), "unknown to lockstep");
	complete(job);
	assert_int_equal(job->gbs, 4096);
	assert_int_equal(job->vp, 2);
	double billions = lk_model_params(&job->model) / 1e9;
	assert_true(billions > 670.5 && billions < 671.5);
	lk_arena_free(&arena);
}

static void trainer_with_deepspeed(void **state) {
	(void)state;
	lk_arena arena = LK_ARENA_INIT;
	lk_launch launch =
		script(&arena, "deepspeed --num_gpus 8 --num_nodes=2 finetune.py --deepspeed " DATA
	                   "ds_zero3.json");
	const lk_job *job = launch.job;
	assert_int_equal(launch.gpus, 16);
	assert_int_equal(job->sharding, LK_SHARD_ZERO3);
	assert_int_equal(job->mbs, 4);
	assert_int_equal(job->gbs, 256);
	assert_int_equal(job->microbatches, 0); /* auto: derived */
	assert_int_equal(job->dtype, LK_BF16);
	assert_true(job->bucket_bytes == 4e8 && job->offload_optimizer);
	assert_string_equal(job->stack, "deepspeed");
	assert_string_equal(reason(&launch, "something_new.depth.more"), "unknown to lockstep");
	lk_launch alone = {0};
	lk_error err = {0};
	assert_int_equal(lk_deepspeed_read(&arena, DATA "ds_zero3.json", &alone, &err), LK_OK);
	for (const lk_field *field = lk_job_fields; field->name != NULL; field++)
		assert_true(strcmp(field->name, "gpus") == 0 || lk_field_equal(field, job, alone.job));
	lk_arena_free(&arena);
}

static void trainer_flags(void **state) {
	(void)state;
	lk_arena arena = LK_ARENA_INIT;
	lk_job job = *script(&arena, "torchrun --nproc_per_node 8 run_clm.py --model_name_or_path x "
	                             "--per_device_train_batch_size 4 "
	                             "--gradient-accumulation-steps=2 --bf16 True "
	                             "--gradient_checkpointing --fsdp 'full_shard "
	                             "auto_wrap' --max_seq_length 512 "
	                             "--optim adamw_bnb_8bit --lora_r 8 --output_dir x")
	                  .job;
	assert_int_equal(job.mbs, 4);
	assert_int_equal(job.microbatches, 2);
	assert_int_equal(job.dtype, LK_BF16);
	assert_int_equal(job.recompute, LK_RECOMPUTE_FULL);
	assert_int_equal(job.sharding, LK_SHARD_ZERO3);
	assert_int_equal(job.seq, 512);
	assert_int_equal(job.optimizer, LK_OPT_ADAM_8BIT);
	assert_int_equal(job.lora_rank, 8);
	assert_int_equal(job.task, LK_TASK_LORA);
	assert_string_equal(job.stack, "fsdp");
	job = *script(&arena,
	              "python train.py --per_device_train_batch_size 4 --gradient_checkpointing False")
	           .job;
	assert_string_equal(job.stack, "ddp");
	assert_int_equal(job.recompute, LK_RECOMPUTE_NONE);
	assert_false(job.dtype_said);
	assert_refused("python train.py --per_device_train_batch_size many",
	               "per_device_train_batch_size");
	assert_refused("python train.py --gradient_checkpointing maybe", "gradient_checkpointing");
	lk_arena_free(&arena);
}

/* The same configuration alone, in a here-document of the script that launches it, and inside the
 * jobs of SkyPilot and Kubernetes. */
#define AXOLOTL                                                                         \
	"base_model: meta-llama/Llama-3.1-8B\nsequence_len: 4096\nmicro_batch_size: 2\n"    \
	"gradient_accumulation_steps: 4\nbf16: true\nfsdp_config: {reshard_after_forward: " \
	"true}\n# LOCKSTEP_TP_OVERLAP=off\n# LOCKSTEP_BUCKET_BYTES=1000\n"

static const char *indented(lk_arena *arena, const char *text, int by) {
	const char *out = "";
	while (*text != '\0') {
		size_t length = strcspn(text, "\n");
		out = lk_arena_printf(arena, "%s%*s%.*s\n", out, by, "", (int)length, text);
		text += length + (text[length] == '\n');
	}
	return out;
}

static lk_launch document(lk_arena *arena, const char *text) {
	char path[] = "/tmp/lockstep-launch-XXXXXX.yaml";
	int file = mkstemps(path, 5);
	assert_true(file >= 0);
	assert_int_equal(write(file, text, strlen(text)), strlen(text));
	close(file);
	lk_launch out;
	lk_error err = {0};
	char message[900];
	if (lk_launch_file(arena, path, NULL, &out, &err) != LK_OK)
		fail_msg("%s\n%s", text, lk_error_text(&err, message, sizeof message));
	unlink(path);
	return out;
}

static void configurations_inside(void **state) {
	(void)state;
	lk_arena arena = LK_ARENA_INIT;
	lk_launch alone = document(&arena, AXOLOTL "# LOCKSTEP_GPUS=16\n");
	assert_int_equal(alone.gpus, 16);
	assert_int_equal(alone.gpus_assumed, 0);
	assert_int_equal(alone.job->tp_overlap, LK_OFF);
	assert_true(alone.job->bucket_bytes == 1000);
	assert_int_equal(alone.job->sharding, LK_SHARD_ZERO3);
	const char *run =
		"cat > job.yaml <<'END'\n" AXOLOTL "END\ntorchrun --nnodes=2 --nproc-per-node=8 "
		"--rdzv-endpoint=\"$HEAD:29500\" -m axolotl.cli.train job.yaml\n";
	const char *texts[] = {
		lk_arena_printf(&arena, "#!/bin/bash\n#SBATCH --nodes=2\nHEAD=$(head)\n%s", run),
		lk_arena_printf(&arena,
	                    "num_nodes: 2\nresources:\n  accelerators: H100:8\nenvs:\n  A: b\nrun: "
	                    "|\n%s",
	                    indented(&arena, run, 2)),
		lk_arena_printf(
			&arena,
			"kind: PyTorchJob\nspec:\n  nprocPerNode: \"8\"\n  pytorchReplicaSpecs:\n"
			"    Master:\n      replicas: 1\n      template:\n        spec:\n"
			"          containers:\n          - command: [bash, -c]\n            args:\n"
			"            - |\n%s    Worker: {replicas: 1}\n",
			indented(&arena, run, 14)),
		"num_nodes: 2\nresources: {accelerators: {H100: 8}}\nrun: "
		"torchrun --nproc_per_node=$SKYPILOT_NUM_GPUS_PER_NODE --nnodes=$SKYPILOT_NUM_NODES "
		"pretrain_gpt.py --num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 8 "
		"--max-position-embeddings 8 --micro-batch-size 1\n",
	};
	for (size_t i = 0; i < 4; i++) {
		lk_launch inside = i == 0 ? script(&arena, texts[i]) : document(&arena, texts[i]);
		assert_int_equal(inside.gpus, 16);
		if (i == 3) continue;
		assert_string_equal(inside.network, "meta-llama/Llama-3.1-8B");
		for (const lk_field *field = lk_job_fields; field->name != NULL; field++)
			if (!lk_field_equal(field, alone.job, inside.job))
				fail_msg("%s differs in\n%s", field->name, texts[i]);
	}
	lk_arena_free(&arena);
}

/* Networks and layouts by the names of recipes. */
static void recipes_by_name(void **state) {
	(void)state;
	lk_arena arena = LK_ARENA_INIT;
	lk_launch bridge = script(&arena, "torchrun --nproc_per_node=8 --nnodes=8 run_recipe.py "
	                                  "--recipe llama3_70b_pretrain_config "
	                                  "model.tensor_model_parallel_size=8 dataset.seq_length=4096");
	assert_string_equal(bridge.network, "llama3-70b");
	assert_int_equal(bridge.gpus, 64);
	assert_int_equal(bridge.job->tp, 8);
	assert_int_equal(bridge.job->pp, 4);
	assert_int_equal(bridge.job->vp, 5);
	assert_int_equal(bridge.job->gbs, 512);
	assert_int_equal(bridge.job->seq, 4096);
	lk_launch perf = script(&arena, "python run_recipe.py --recipe "
	                                "qwen3_30b_a3b_pretrain_16gpu_h100_bf16_config");
	assert_string_equal(perf.network, "qwen3-30b-a3b");
	assert_string_equal(perf.device, "h100");
	assert_int_equal(perf.gpus, 16);
	assert_int_equal(perf.job->ep, 16);
	assert_int_equal(perf.job->gbs, 1024);
	perf = script(&arena, "python setup_experiment.py -m llama3 -mr llama3_70b -ng 64 -gn 8 "
	                      "-g h100 -c fp8_cs -gb 512");
	assert_int_equal(perf.gpus, 64);
	assert_int_equal(perf.job->pp, 8);
	assert_int_equal(perf.job->vp, 5);
	assert_int_equal(perf.job->gbs, 512);
	assert_int_equal(perf.job->dtype, LK_FP8);
	assert_int_equal(perf.job->fp8_recipe, LK_FP8_TENSORWISE);
	perf = script(&arena, "python run_recipe.py --recipe llama3_8b_peft_config -tp 2");
	assert_int_equal(perf.job->task, LK_TASK_LORA);
	assert_int_equal(perf.job->tp, 2);
	assert_int_equal(perf.job->cp, 0); /* the layout of pretraining is not that of adapters */
	lk_launch nemo = script(&arena, "nemo llm pretrain --factory 'llama31_405b(num_nodes=4)'");
	assert_string_equal(nemo.network, "llama3.1-405b");
	assert_int_equal(nemo.gpus, 32);
	nemo = script(&arena, "nemo llm pretrain --factory 'llama3_70b(num_nodes=8)'");
	assert_int_equal(nemo.gpus, 64);
	assert_int_equal(nemo.job->pp, 4);
	assert_int_equal(nemo.job->vp, 5);
	nemo = script(&arena, "nemo llm finetune --factory llama3_8b peft.dim=16");
	assert_int_equal(nemo.job->lora_rank, 16);
	lk_launch titan =
		script(&arena, "torchrun --nproc_per_node=8 --nnodes=2 -m torchtitan.train --module llama3 "
	                   "--config llama3_70b --training.num-tokens-per-train-step 1048576 "
	                   "activation-checkpoint:selective");
	assert_string_equal(titan.network, "llama3-70b");
	assert_int_equal(titan.job->mbs, 8);
	assert_int_equal(titan.job->gbs, 128);
	assert_int_equal(titan.job->tp, 8);
	assert_int_equal(titan.job->recompute, LK_RECOMPUTE_SELECTIVE);
	titan = script(&arena, "torchrun --nproc_per_node=8 -m torchtitan.train --model.name "
	                       "deepseek_v3 --model.flavor 16B --parallelism.pipeline_parallel_degree "
	                       "1 --parallelism.pipeline_parallel_schedule Interleaved1F1B");
	assert_string_equal(titan.network, "deepseek-v2-lite");
	assert_false(titan.job->schedule_said);
	titan = script(&arena, "torchrun --nproc_per_node=8 -m torchtitan.train --model.name llama3 "
	                       "--model.flavor 8B --parallelism.pipeline_parallel_degree 2 "
	                       "--parallelism.pipeline_parallel_schedule Interleaved1F1B");
	assert_int_equal(titan.job->schedule, LK_SCHED_INTERLEAVED);
	assert_refused("torchrun -m torchtitan.train --config llama3_8b "
	               "--training.num_tokens_per_microbatch_per_dp_rank 100",
	               "no whole number of sequences");
	lk_arena_free(&arena);
}

/* torchtitan's stages: the embedding and the head count as layers of the first and the last. */
static void titan_stages(void **state) {
	(void)state;
	static const struct {
		const char *flags, *layout;
		int pp, vp;
		bool accounts;
	} cases[] = {
		/* 32 + 2 layers on four stages: 9, 9, 8, 8, less one at each end */
		{"--parallelism.pipeline_parallel_degree 4", "Et*8|(t*9|)*1(t*8|)*1t*7L", 4, 1, false},
		{"--parallelism.pipeline_parallel_degree 2", "", 2, 1, true},
		{"--parallelism.pipeline_parallel_degree 4 "
	     "--parallelism.pipeline_parallel_first_stage_less_layers 0 "
	     "--parallelism.pipeline_parallel_last_stage_less_layers 0",
	     "", 4, 1, false},
		/* two stages a rank where nothing says more; 34 in stages of 3 are 12 */
		{"--parallelism.pipeline_parallel_degree 2 "
	     "--parallelism.pipeline_parallel_schedule Interleaved1F1B",
	     "Et*8|(t*9|)*1(t*8|)*1t*7L", 2, 2, false},
		{"--parallelism.pipeline_parallel_degree 2 "
	     "--parallelism.pipeline_parallel_schedule Interleaved1F1B "
	     "--parallelism.pipeline_parallel_layers_per_stage 3",
	     "Et*2|(t*3|)*9(t*2|)*1t*1L", 2, 6, false},
	};
	lk_arena arena = LK_ARENA_INIT;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		lk_launch titan = script(
			&arena,
			lk_arena_printf(&arena,
		                    "torchrun --nproc_per_node=8 -m torchtitan.train --model.name llama3 "
		                    "--model.flavor 8B --training.local_batch_size 8 %s",
		                    cases[i].flags));
		lk_cluster cluster;
		lk_error err = {0};
		assert_string_equal(titan.job->pipeline_layout, cases[i].layout);
		assert_int_equal(titan.job->vp, cases[i].vp);
		assert_true(titan.job->account_embedding == cases[i].accounts);
		assert_int_equal(titan.job->microbatches, 8);
		assert_int_equal(lk_model_preset(titan.network, &titan.job->model, &err), LK_OK);
		assert_int_equal(
			lk_cluster_simple(&arena, lk_device_find("h100-sxm"), 8, 0, 0, &cluster, &err), LK_OK);
		titan.job->gpus = 8;
		if (lk_job_complete(titan.job, &cluster, &err) != LK_OK)
			fail_msg("%s: %s", cases[i].flags, err.what);
	}
	assert_refused("torchrun --nproc_per_node=8 -m torchtitan.train --model.name llama3 "
	               "--model.flavor 8B --parallelism.pipeline_parallel_degree 4 "
	               "--parallelism.pipeline_parallel_layers_per_stage 10 "
	               "--parallelism.pipeline_parallel_schedule Interleaved1F1B",
	               "4 stages, which 4 ranks");
	assert_refused("torchrun -m torchtitan.train --model.name flux --model.flavor flux-dev",
	               "diffusion models");
	lk_arena_free(&arena);
}

/* TRL's command, accelerate's file. */
static void trainers_commands(void **state) {
	(void)state;
	lk_arena arena = LK_ARENA_INIT;
	lk_launch trl = script(&arena, "trl sft --model_name_or_path Qwen/Qwen3-0.6B --use_peft");
	assert_int_equal(trl.job->lora_rank, 16);
	assert_int_equal(trl.job->seq, 1024);
	assert_int_equal(trl.job->dtype, LK_BF16);
	lk_launch accelerate = script(
		&arena,
		"cat > a.yaml <<END\ncompute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\n"
		"num_processes: 16\nnum_machines: 2\nmixed_precision: bf16\nfsdp_config: "
		"{fsdp_sharding_strategy: SHARD_GRAD_OP}\nEND\naccelerate launch --config_file a.yaml "
		"run_clm.py --model_name_or_path x --per_device_train_batch_size 4");
	assert_int_equal(accelerate.gpus, 16);
	assert_int_equal(accelerate.job->sharding, LK_SHARD_ZERO2);
	assert_int_equal(accelerate.job->mbs, 4);
	assert_int_equal(accelerate.job->dtype, LK_BF16);
	assert_refused("axolotl train none.yaml", "is not here");
	assert_refused("axolotl inference x.yaml", "axolotl inference");
	lk_arena_free(&arena);
}

/* A job of a configuration, by the ending of its name. */
static lk_launch config(lk_arena *arena, const char *name, const char *text) {
	lk_launch out = {0};
	lk_error err = {0};
	char message[1024];
	if (lk_launch_config_text(arena, text, strlen(text), name, &out, &err) != LK_OK)
		fail_msg("%s", lk_error_text(&err, message, sizeof message));
	return out;
}

/* accelerate's file is one without compute_environment, too. */
static void accelerate_by_hand(void **state) {
	(void)state;
	static const char *const others[] = {"num_processes: 16\n",
	                                     "fsdp_config: {fsdp_sharding_strategy: SHARD_GRAD_OP}\n",
	                                     "fsdp_config: {fsdp_reshard_after_forward: false}\n"};
	for (size_t i = 0; i < 3; i++) {
		lk_arena arena = LK_ARENA_INIT;
		char text[160];
		snprintf(text, sizeof text, "distributed_type: FSDP\nmixed_precision: bf16\n%s", others[i]);
		lk_launch out = config(&arena, "fsdp.yaml", text);
		assert_string_equal(out.framework, "accelerate");
		assert_int_equal(out.gpus, i == 0 ? 16 : 0);
		assert_int_equal(out.job->sharding, i == 0 ? LK_SHARD_ZERO3 : LK_SHARD_ZERO2);
		assert_int_equal(out.job->dtype, LK_BF16);
		lk_arena_free(&arena);
	}
}

/* The flags of accelerate launch stand for the keys of its file and override them. */
/* Files that are not here: published names say what they hold; flags of Megatron-LM say it too. */
static void named_files(void **state) {
	(void)state;
	static const struct {
		const char *line;
		lk_sharding sharding;
	} cases[] = {
		{"accelerate launch --config_file none/deepspeed_zero3.yaml", LK_SHARD_ZERO3},
		{"accelerate launch --config_file none/fsdp2.yaml", LK_SHARD_ZERO3},
		{"accelerate launch --config_file none/multi_gpu.yaml", LK_SHARD_NONE},
		{"deepspeed --num_gpus 8", LK_SHARD_ZERO2},
	};
	lk_arena arena = LK_ARENA_INIT;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		lk_launch out = script(
			&arena, lk_arena_printf(&arena,
		                            "%s train.py --model_name_or_path Qwen/Qwen2-0.5B "
		                            "--per_device_train_batch_size 2%s",
		                            cases[i].line, i == 3 ? " --deepspeed none/ds_z2.json" : ""));
		assert_int_equal(out.job->sharding, cases[i].sharding);
	}
	lk_launch out = script(&arena, "deepspeed --num_gpus 8 pretrain_gpt.py --num-layers 4 "
	                               "--hidden-size 512 --num-attention-heads 8 --seq-length 512 "
	                               "--max-position-embeddings 512 --micro-batch-size 2 "
	                               "--deepspeed_config none/by_sed.json --zero-stage 1");
	assert_int_equal(out.job->sharding, LK_SHARD_ZERO1);
	assert_int_equal(out.job->mbs, 2);
	lk_arena_free(&arena);
}

/* A script for one node whose degrees, or groups of experts, need more. */
static void more_nodes(void **state) {
	(void)state;
	lk_arena arena = LK_ARENA_INIT;
	static const char line[] =
		"torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 8 --hidden-size 512 "
		"--num-attention-heads 8 --seq-length 512 --max-position-embeddings 512 "
		"--micro-batch-size 1 --num-experts 8 --pipeline-model-parallel-size 4 %s";
	const char *wide = lk_arena_printf(&arena, line, "--expert-model-parallel-size 8"),
			   *fits = lk_arena_printf(&arena, line, "--expert-model-parallel-size 2");
	assert_int_equal(script(&arena, wide).gpus_assumed, 32);
	assert_int_equal(script(&arena, fits).gpus, 8);
	lk_arena_free(&arena);
}

/* AutoModel's distillation: the teacher is a network of its own. */
static void automodel_teacher(void **state) {
	(void)state;
	lk_arena arena = LK_ARENA_INIT;
	static const char text[] =
		"recipe: KnowledgeDistillationRecipeForNextTokenPrediction\n"
		"step_scheduler: {global_batch_size: 32, local_batch_size: 1}\n"
		"model: {_target_: nemo_automodel.NeMoAutoModelForCausalLM.from_pretrained, "
		"pretrained_model_name_or_path: meta-llama/Llama-3.2-1B}\n"
		"teacher_model: {pretrained_model_name_or_path: %s}\n"
		"distributed: {strategy: fsdp2}\n";
	lk_launch out =
		config(&arena, "kd.yaml", lk_arena_printf(&arena, text, "meta-llama/Llama-3.2-3B"));
	assert_non_null(out.job->teacher);
	assert_int_equal(out.job->teacher->layers, 28);
	out = config(&arena, "kd.yaml", lk_arena_printf(&arena, text, "me/unknown"));
	assert_null(out.job->teacher);
	lk_arena_free(&arena);
}

static void accelerate_flags(void **state) {
	(void)state;
	lk_arena arena = LK_ARENA_INIT;
	lk_launch flags = script(
		&arena, "accelerate launch --num_processes 16 --use_fsdp --fsdp-sharding-strategy "
				"HYBRID_SHARD --fsdp_offload_params=false --fsdp_activation_checkpointing true "
				"--mixed_precision bf16 --dynamo_backend inductor train.py --model_name_or_path x "
				"--per_device_train_batch_size 4");
	assert_int_equal(flags.gpus, 16);
	assert_int_equal(flags.job->mbs, 4);
	assert_int_equal(flags.job->sharding, LK_SHARD_ZERO3);
	assert_int_equal(flags.job->shard_group, 8);
	assert_int_equal(flags.job->dtype, LK_BF16);
	assert_int_equal(flags.job->recompute, LK_RECOMPUTE_FULL);
	assert_true(flags.job->compile && !flags.job->offload_params);
	lk_launch over = script(
		&arena, "cat > a.yaml <<END\ncompute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\n"
				"num_processes: 8\nfsdp_config: {fsdp_sharding_strategy: SHARD_GRAD_OP}\nEND\n"
				"accelerate launch --config_file a.yaml --fsdp_sharding_strategy 1 "
				"--fsdp_offload_params true run.py --model_name_or_path x");
	assert_int_equal(over.job->sharding, LK_SHARD_ZERO3);
	assert_true(over.job->offload_params && over.job->offload_optimizer);
	lk_launch zero = script(&arena, "accelerate launch --use_deepspeed --zero_stage 3 "
	                                "--offload_optimizer_device cpu --num_processes 8 run.py "
	                                "--model_name_or_path x");
	assert_string_equal(zero.job->stack, "deepspeed");
	assert_int_equal(zero.job->sharding, LK_SHARD_ZERO3);
	assert_true(zero.job->offload_optimizer && !zero.job->offload_params);
	assert_refused("accelerate launch --use_fsdp --fsdp_offload_params $OFF t.py", "$OFF");
	lk_arena_free(&arena);
}

/* FSDP moves parameters, gradients and the optimizer's states together; DeepSpeed names them. */
static void offloads(void **state) {
	static const struct {
		const char *name, *text;
		bool params, optimizer, activations;
	} cases[] = {
		{"a.yaml",
	     "base_model: Qwen/Qwen3-8B\nsequence_len: 512\nbf16: true\ngpu_count: 8\n"
	     "activation_offloading: legacy\nfsdp_config: {offload_params: true}\n",
	     true, true, true},
		{"a.yaml",
	     "base_model: Qwen/Qwen3-8B\nsequence_len: 512\nbf16: true\ngpu_count: 8\n"
	     "activation_offloading: false\nfsdp_config: {offload_params: false}\n",
	     false, false, false},
		{"a.yaml",
	     "base_model: Qwen/Qwen3-8B\nsequence_len: 512\nbf16: true\ngpu_count: 8\n"
	     "fsdp_config: {offload_params: true, reshard_after_forward: false}\n",
	     false, true, false},
		{"a.yaml",
	     "base_model: Qwen/Qwen3-8B\nsequence_len: 512\nbf16: true\ngpu_count: 8\n"
	     "deepspeed: deepspeed_configs/zero3_bf16_cpuoffload_all.json\n",
	     true, true, false},
		{"a.yaml",
	     "base_model: Qwen/Qwen3-8B\nsequence_len: 512\nbf16: true\ngpu_count: 8\n"
	     "deepspeed: deepspeed_configs/zero3_bf16_cpuoffload_params.json\n",
	     false, false, false},
		{"a.yaml",
	     "model_name_or_path: Qwen/Qwen3-8B\nbf16: true\ndataset_name: x\n"
	     "fsdp: full_shard auto_wrap offload\n",
	     true, true, false},
		{"a.yaml",
	     "model: {pretrained_model_name_or_path: Qwen/Qwen3-8B}\nstep_scheduler: "
	     "{global_batch_size: 8}\nbenchmark: {num_nodes: 1}\ndistributed: {strategy: fsdp2, "
	     "offload_policy: {_target_: torch.distributed.fsdp.CPUOffloadPolicy}}\n",
	     true, true, false},
		{"a.toml",
	     "[model]\nname = 'llama3'\nflavor = '8B'\n[training]\nenable_cpu_offload = true\n"
	     "[parallelism]\ndata_parallel_shard_degree = 8\n",
	     true, true, false},
		{"a.json",
	     "{\"zero_optimization\": {\"stage\": 3, \"offload_param\": {\"device\": \"cpu\"}, "
	     "\"offload_optimizer\": {\"device\": \"cpu\"}}, \"train_micro_batch_size_per_gpu\": 1}",
	     true, true, false},
		{"a.json",
	     "{\"zero_optimization\": {\"stage\": 3, \"offload_param\": {\"device\": \"cpu\"}}, "
	     "\"train_micro_batch_size_per_gpu\": 1}",
	     false, false, false},
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		lk_arena arena = LK_ARENA_INIT;
		const lk_job *job = config(&arena, cases[i].name, cases[i].text).job;
		if (job->offload_params != cases[i].params ||
		    job->offload_optimizer != cases[i].optimizer ||
		    job->offload_activations != cases[i].activations)
			fail_msg("%s: %d %d %d", cases[i].text, job->offload_params, job->offload_optimizer,
			         job->offload_activations);
		lk_arena_free(&arena);
	}
}

/* Losses: those that make no logits, those without an fp32 copy of them. */
static void losses(void **state) {
	static const char axolotl[] = "base_model: Qwen/Qwen3-8B\nsequence_len: 512\n%s",
					  automodel[] = "model: {pretrained_model_name_or_path: Qwen/Qwen3-8B}\n"
									"step_scheduler: {global_batch_size: 8}\n%s",
					  factory[] = "model_name_or_path: Qwen/Qwen3-8B\ncutoff_len: 512\n%s",
					  rl[] = "policy: {model_name: Qwen/Qwen3-8B, train_global_batch_size: 8, "
							 "megatron_cfg: {enabled: true, use_fused_linear_logprobs: %s}}\n"
							 "cluster: {num_nodes: 1, gpus_per_node: 8}\ndpo: {x: 1}\n";
	static const struct {
		const char *form, *more;
		lk_loss_kind loss;
		bool fused;
	} cases[] = {
		{axolotl, "liger_fused_linear_cross_entropy: true\n", LK_LOSS_LINEAR, false},
		{axolotl, "liger_cross_entropy: true\n", LK_LOSS_LOGITS, true},
		{axolotl, "plugins: [axolotl.integrations.cut_cross_entropy.CutCrossEntropyPlugin]\n",
	     LK_LOSS_CUT, false},
		{axolotl, "chunked_cross_entropy: true\n", LK_LOSS_LOGITS, true},
		{axolotl, "", LK_LOSS_LOGITS, false},
		{automodel, "loss_fn: {_target_: nemo_automodel.x.FusedLinearCrossEntropy}\n", LK_LOSS_CUT,
	     false},
		{automodel, "loss_fn: {_target_: nemo_automodel.x.MaskedCrossEntropy}\n", LK_LOSS_LOGITS,
	     false},
		{automodel,
	     "loss_fn: {_target_: nemo_automodel.x.MaskedCrossEntropy, fp32_upcast: false}\n",
	     LK_LOSS_LOGITS, true},
		{factory, "stage: sft\nenable_liger_kernel: true\n", LK_LOSS_LINEAR, false},
		{factory, "stage: dpo\nenable_liger_kernel: true\n", LK_LOSS_LOGITS, true},
		{rl, "true", LK_LOSS_LINEAR, false},
		{rl, "false", LK_LOSS_LOGITS, false},
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		lk_arena arena = LK_ARENA_INIT;
		char text[512];
		snprintf(text, sizeof text, cases[i].form, cases[i].more);
		const lk_job *job = config(&arena, "a.yaml", text).job;
		if (job->loss != cases[i].loss || (job->fused_cross_entropy == LK_ON) != cases[i].fused)
			fail_msg("%s: %d %d", text, (int)job->loss, (int)job->fused_cross_entropy);
		lk_arena_free(&arena);
	}
	lk_arena arena = LK_ARENA_INIT;
	const lk_job *job =
		script(&arena, "torchrun pretrain_gpt.py --num-layers 2 --hidden-size 64 "
	                   "--num-attention-heads 4 --seq-length 64 --cross-entropy-loss-fusion "
	                   "--cross-entropy-fusion-impl linear")
			.job;
	assert_int_equal(job->loss, LK_LOSS_LINEAR);
	lk_arena_free(&arena);
}

/* Weights that are kept in bf16 have moments in bf16 with torch's optimizers, and no other copy. */
static void kept_formats(void **state) {
	static const struct {
		const char *more;
		lk_switch master;
		lk_dtype moments;
		lk_optimizer optimizer;
	} cases[] = {
		{"optimizer: {_target_: torch.optim.AdamW}\n", LK_OFF, LK_BF16, LK_OPT_ADAM},
		{"optimizer: {_target_: flashoptim.FlashAdamW}\n", LK_AUTO, LK_FP32, LK_OPT_ADAM_FLASH},
		{"optimizer: {_target_: te.FusedAdam, master_weights: true}\n", LK_ON, LK_FP32,
	     LK_OPT_ADAM},
	};
	(void)state;
	for (size_t i = 0; i <= sizeof cases / sizeof *cases; i++) {
		lk_arena arena = LK_ARENA_INIT;
		bool wide = i == sizeof cases / sizeof *cases; /* the first again, kept in fp32 */
		char text[512];
		snprintf(text, sizeof text,
		         "model: {pretrained_model_name_or_path: Qwen/Qwen3-8B, torch_dtype: %s}\n"
		         "step_scheduler: {global_batch_size: 8}\n%s",
		         wide ? "float32" : "bfloat16", cases[wide ? 0 : i].more);
		const lk_job *job = config(&arena, "a.yaml", text).job;
		assert_int_equal(job->dtype, LK_BF16);
		assert_int_equal(job->grad_reduce_fp32, LK_ON);
		assert_int_equal(job->master_weights, wide ? LK_AUTO : cases[i].master);
		assert_int_equal(job->state_dtype, wide ? LK_FP32 : cases[i].moments);
		assert_int_equal(job->optimizer, cases[wide ? 0 : i].optimizer);
		lk_arena_free(&arena);
	}
}

/* Text of which a part is not known is split into words; those that hold none of it are known. */
static void half_known_words(void **state) {
	static const char shape[] = "--num-layers 2 --hidden-size 64 --num-attention-heads 4 "
								"--seq-length 64 --max-position-embeddings 64";
	static const struct {
		const char *before, *words;
	} cases[] = {
		{"A=\"--micro-batch-size 3 --save $DIR\"", "$A"},
		{"A=(--micro-batch-size 3 --save $DIR)", "${A[@]}"},
		{"A=(\"--micro-batch-size 3 --save $DIR\")", "${A[@]}"},
		{"A=\"--save ${DIR:?no} --micro-batch-size 3\"; B=(\"$A $MORE\")", "${B[*]}"},
		{"A=\"--save $(date +%F %T) --micro-batch-size 3\"", "$A"},
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		lk_arena arena = LK_ARENA_INIT;
		char text[512];
		snprintf(text, sizeof text, "%s\ntorchrun --nproc_per_node 8 pretrain_gpt.py %s %s",
		         cases[i].before, shape, cases[i].words);
		assert_int_equal(script(&arena, text).job->mbs, 3);
		lk_arena_free(&arena);
	}
	assert_refused("D=\"--nproc_per_node 8 --nnodes $N\"\ntorchrun $D pretrain_gpt.py", "--var N=");
	assert_refused("A=\"--micro-batch-size $MBS\"\ntorchrun pretrain_gpt.py $A", "--var MBS=");
}

/* A place for a path of one's own names nothing: the network is that of the file. */
static void networks_of_files(void **state) {
	static const struct {
		const char *file, *name, *network;
	} cases[] = {
		{"recipes/grpo-deepseek-v3-32n4g.yaml", "Follow instructions in x", "deepseek-v3"},
		{"gym/nemotron-3-super/stage2.yaml", "/path/to/model", "nemotron-3-super"},
		{"sft-qwen3_8b.yaml", "<model>", "qwen3_8b"},
		{"sft-qwen3_8b.yaml", "Qwen/Qwen3-0.6B", "Qwen/Qwen3-0.6B"},
		{"sft-8n8g.yaml", "/path/to/model", "/path/to/model"},
		{"sft-qwen3_8b.yaml", "/data/Qwen3-0.6B", "/data/Qwen3-0.6B"},
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		lk_arena arena = LK_ARENA_INIT;
		char text[512];
		snprintf(text, sizeof text,
		         "policy: {model_name: '%s', train_global_batch_size: 8}\n"
		         "cluster: {num_nodes: 1, gpus_per_node: 8}\ndpo: {x: 1}\n",
		         cases[i].name);
		assert_string_equal(config(&arena, cases[i].file, text).network, cases[i].network);
		lk_arena_free(&arena);
	}
}

/* torchtitan reduces gradients in fp32; what of its optimizer acts is listed. */
static void titan_keys(void **state) {
	(void)state;
	lk_arena arena = LK_ARENA_INIT;
	static const char line[] = "torchrun --nproc_per_node 8 -m torchtitan.train --module llama3 "
							   "--config llama3_8b %s";
	char text[256];
	snprintf(text, sizeof text, line, "--optimizer.early_step_in_backward");
	lk_launch early = script(&arena, text);
	assert_int_equal(early.job->grad_reduce_fp32, LK_ON);
	assert_non_null(reason(&early, "optimizer.early_step_in_backward"));
	snprintf(text, sizeof text, line, "--optimizer.early_step_in_backward=false");
	lk_launch late = script(&arena, text);
	assert_null(reason(&late, "optimizer.early_step_in_backward"));
	snprintf(text, sizeof text, line, "--training.enable_cpu_offload=true");
	lk_launch moved = script(&arena, text);
	assert_true(moved.job->offload_params && moved.job->offload_optimizer);
	lk_arena_free(&arena);
}

/* The ranks that share one copy of the weights, on `gpus`. */
static int group_on(lk_arena *arena, const char *name, const char *text, int gpus) {
	lk_error err = {0};
	char message[1024];
	lk_job job = *config(arena, name, text).job;
	assert_int_equal(lk_model_preset("llama3-70b", &job.model, NULL), LK_OK);
	job.gpus = gpus;
	if (lk_job_complete(&job, NULL, &err) != LK_OK)
		fail_msg("%s", lk_error_text(&err, message, sizeof message));
	return job.shard_group;
}

/* Hybrid sharding, whoever states the GPUs: copies are stated, or what one copy has of them beside
 * context parallelism. */
static void hybrid_sharding(void **state) {
	(void)state;
	static const char titan[] = "[model]\nname = 'llama3'\nflavor = '70B'\n[training]\n"
								"seq_len = 8192\n[parallelism]\n",
					  axolotl[] = "base_model: meta-llama/Meta-Llama-3-70B\nsequence_len: 8192\n"
								  "datasets: [{path: x}]\nmicro_batch_size: 1\nbf16: true\n";
	static const struct {
		const char *file, *base, *keys;
		int gpus, group;
	} cases[] = {
		{"a.toml", titan, "data_parallel_replicate_degree = 2\ntensor_parallel_degree = 8\n", 128,
	     8},
		{"a.toml", titan,
	     "data_parallel_replicate_degree = 2\ndata_parallel_shard_degree = -1\n"
	     "tensor_parallel_degree = 8\n",
	     256, 16},
		{"a.toml", titan,
	     "data_parallel_replicate_degree = 2\ndata_parallel_shard_degree = 4\n"
	     "context_parallel_degree = 2\ntensor_parallel_degree = 8\n",
	     128, 8},
		{"a.toml", titan, "data_parallel_replicate_degree = 1\ntensor_parallel_degree = 8\n", 128,
	     0},
		{"a.yml", axolotl, "dp_shard_size: 4\ncontext_parallel_size: 2\n", 8, 8},
		{"a.yml", axolotl, "dp_shard_size: 4\ncontext_parallel_size: 2\n", 16, 8},
		{"a.yml", axolotl, "dp_shard_size: 4\ndp_replicate_size: 2\ntensor_parallel_size: 2\n", 16,
	     4},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		lk_arena arena = LK_ARENA_INIT;
		char text[640];
		snprintf(text, sizeof text, "%s%s", cases[i].base, cases[i].keys);
		assert_int_equal(group_on(&arena, cases[i].file, text, cases[i].gpus), cases[i].group);
		lk_arena_free(&arena);
	}
}

/* ---- launchers ---- */

static int gpus_of(const char *line) {
	lk_arena arena = LK_ARENA_INIT;
	int gpus = script(&arena, line).gpus;
	lk_arena_free(&arena);
	return gpus;
}

/* NCCL's variables, however a launcher passes them on. */
static void nccl_variables(void **state) {
	static const struct {
		const char *line, *nccl;
	} cases[] = {
		{"NCCL_ALGO=Ring torchrun --nproc_per_node 8 train.py", "NCCL_ALGO=Ring"},
		{"export NCCL_MAX_CTAS=4\nsrun -n 8 python train.py", "NCCL_MAX_CTAS=4"},
		{"mpirun -np 8 -x NCCL_PROTO=LL python train.py", "NCCL_PROTO=LL"},
		{"mpiexec -n 8 -genv NCCL_ALGO Ring,Tree -env NCCL_PROTO=LL python train.py",
	     "NCCL_ALGO=Ring,Tree NCCL_PROTO=LL"},
		{"srun -n 8 --export=ALL,NCCL_PROTO=LL,A=$A python train.py", "NCCL_PROTO=LL"},
		{"srun -n 8 --export ALL,NCCL_NVLS_ENABLE=0 python train.py", "NCCL_NVLS_ENABLE=0"},
		{"srun -n 8 --export=ALL python train.py", ""},
		{"#SBATCH --export=ALL,NCCL_PROTO=LL\nexport NCCL_PROTO=Simple\nsrun -n 8 python t.py",
	     "NCCL_PROTO=Simple"},
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		lk_arena arena = LK_ARENA_INIT;
		lk_launch launch = script(&arena, cases[i].line);
		assert_string_equal(launch.job->nccl, cases[i].nccl);
		assert_int_equal(launch.gpus, 8);
		lk_arena_free(&arena);
	}
	assert_refused("srun -n 8 --export=NCCL_PROTO=$P python train.py", "value is not known");
}

static void launchers(void **state) {
	(void)state;
	assert_int_equal(gpus_of("torchrun --nproc_per_node=4 --nnodes=3 train.py"), 12);
	assert_int_equal(
		gpus_of(
			"torchrun --nproc-per-node 8 --rdzv_backend c10d --rdzv-endpoint=$H:29500 train.py"),
		8);
	assert_int_equal(
		gpus_of("python3 -m torch.distributed.run --nproc_per_node 8 --nnodes 1:4 train.py"), 32);
	assert_int_equal(
		gpus_of("python -u -m torch.distributed.launch --nproc_per_node=2 pretrain_gpt.py --bf16"),
		2);
	assert_int_equal(gpus_of("torchrun train.py"), 0);
	assert_int_equal(gpus_of("torchrun --nproc_per_node gpu train.py"), 0);
	assert_int_equal(gpus_of("srun -N 4 --ntasks-per-node=8 python train.py"), 32);
	assert_int_equal(gpus_of("srun -N4 -n32 --container-image=x --mpi pmix python -u train.py"),
	                 32);
	assert_int_equal(gpus_of("srun -N 2 --gres=gpu:h100:8 python train.py"), 16);
	assert_int_equal(gpus_of("srun -N 2 -n 2 torchrun --nproc_per_node=8 --nnodes=2 train.py"), 16);
	assert_int_equal(
		gpus_of(
			"srun --nodes=2 bash -c 'torchrun --nproc_per_node=8 --nnodes=$SLURM_NNODES train.py'"),
		16);
	assert_int_equal(
		gpus_of(
			"mpirun -np 16 -x NCCL_DEBUG=INFO -x A --bind-to none /usr/bin/python3.10 train.py"),
		16);
	assert_int_equal(gpus_of("deepspeed --include localhost:0,1,2@node2:4,5 train.py --x"), 5);
	assert_int_equal(gpus_of("accelerate launch --num_processes 8 --config_file a.yaml train.py"),
	                 8);
	assert_int_equal(gpus_of("nsys profile -o out torchrun --nproc_per_node=8 train.py"), 8);
	assert_int_equal(gpus_of("A=1 env B=2 nohup torchrun --nproc_per_node 8 train.py > log 2>&1 &"),
	                 8);
	assert_int_equal(
		gpus_of(
			"#!/bin/bash\n#SBATCH --nodes=4\n#SBATCH --gpus-per-node=8\nsrun python train.py\n"),
		32);
	assert_int_equal(
		gpus_of("#SBATCH -N 2\ntorchrun --nproc_per_node 8 --nnodes $((SLURM_NNODES)) t.py"), 16);
	assert_refused("torchrun --nproc_per_node $N train.py", "$N is not set in the script");
	assert_refused("torchrun --nproc_per_node 99999999 train.py", "nproc_per_node");
	assert_refused("srun -N 4194304 --ntasks-per-node 4194304 python t.py", "at most");
	assert_refused("srun bash train.sh", "give that script");
}

static void flags_only(void **state) {
	(void)state;
	lk_arena arena = LK_ARENA_INIT;
	const char *words[] = {"--tensor-model-parallel-size",
	                       "8",
	                       "--pipeline-model-parallel-size=4",
	                       "--lr",
	                       "-1",
	                       "stray",
	                       "--bf16",
	                       "True"};
	lk_launch launch;
	lk_error err = {0};
	assert_int_equal(lk_launch_read(&arena, 8, words, "line", &launch, &err), LK_OK);
	assert_int_equal(launch.job->tp, 8);
	assert_int_equal(launch.job->pp, 4);
	assert_int_equal(launch.job->dtype, LK_BF16);
	assert_int_equal(launch.job->model.layers, 0); /* the network comes from elsewhere */
	words[1] = "eight";
	assert_int_equal(lk_launch_read(&arena, 8, words, "line", &launch, &err), LK_ERR_INPUT);
	assert_string_equal(err.where, "--tensor-model-parallel-size");
	assert_int_equal(lk_launch_read(&arena, 0, words, "line", &launch, &err), LK_ERR_INPUT);
	lk_arena_free(&arena);
}

/* ---- flags ---- */

#define SIZES                                                      \
	"--num-layers 24 --hidden-size 1024 --num-attention-heads 16 " \
	"--seq-length 1024 --max-position-embeddings 1024 --micro-batch-size 2 --vocab-size 1000 "
#define NETWORK "torchrun --nproc_per_node 8 pretrain_gpt.py " SIZES
#define HYBRID  "torchrun --nproc_per_node 8 pretrain_mamba.py " SIZES

static lk_job job_of(lk_arena *arena, const char *flags) {
	return *script(arena, lk_arena_printf(arena, NETWORK "%s", flags)).job;
}

static void derived(void **state) {
	(void)state;
	lk_arena a = LK_ARENA_INIT;
	lk_job job = job_of(&a, "");
	assert_int_equal(job.model.ffn, 4096);
	assert_int_equal(job.model.kv_heads, 16);
	assert_int_equal(job.microbatches, 1);
	assert_int_equal(job.dtype, LK_FP32);
	assert_int_equal(job.model.position_rows, 1024);
	assert_int_equal(job_of(&a, "--swiglu").model.ffn, 2688); /* int(4 * 1024 * 2/3 / 64) * 64 */
	assert_int_equal(job_of(&a, "--num-query-groups 4").model.kv_heads, 16);
	assert_int_equal(job_of(&a, "--num-query-groups 4 --group-query-attention").model.kv_heads, 4);
	assert_int_equal(job_of(&a, "--num-experts 4").model.expert_ffn, 4096);
	assert_int_equal(
		job_of(&a, "--pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage 3").vp,
		2);
	assert_int_equal(job_of(&a, "--bf16").grad_reduce_fp32, LK_ON);
	assert_int_equal(job_of(&a, "--bf16 --grad-reduce-in-bf16").fp32_grads, LK_OFF);
	assert_int_equal(job_of(&a, "--fp16").fp32_grads, LK_OFF);
	assert_int_equal(job_of(&a, "--fp16 --accumulate-allreduce-grads-in-fp32").fp32_grads, LK_ON);
	assert_int_equal(job_of(&a, "--bf16 --fp8-format hybrid --fp8-recipe mxfp8").dtype, LK_MXFP8);
	assert_int_equal(job_of(&a, "--bf16 --fp4-format e2m1").dtype, LK_NVFP4);
	lk_job muon = job_of(&a, "--optimizer muon --muon-num-ns-steps 7 --muon-tp-mode blockwise");
	assert_int_equal(muon.optimizer, LK_OPT_MUON);
	assert_true(muon.muon_steps == 7 && muon.muon_tp == LK_MUON_BLOCKWISE && !muon.muon_syrk);
	assert_true(job_of(&a, "--optimizer muon --muon-use-syrk").muon_syrk);
	assert_true(job_of(&a, "--freeze-ViT").freeze_tower);
	assert_int_equal(muon.sharding, LK_SHARD_NONE);
	assert_int_equal(job_of(&a, "--optimizer dist_muon").sharding, LK_SHARD_ZERO1);
	assert_int_equal(job_of(&a, "--optimizer lion").optimizer, LK_OPT_LION);
	assert_int_equal(job_of(&a, "--transformer-impl local").attn_kernel, LK_KERNEL_UNFUSED);
	assert_int_equal(job_of(&a, "--transformer-impl local --use-flash-attn").attn_kernel,
	                 LK_KERNEL_FLASH);
	assert_int_equal(
		job_of(&a, "--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads").sharding,
		LK_SHARD_ZERO2);
	assert_int_equal(job_of(&a, "--use-torch-fsdp2").sharding, LK_SHARD_ZERO3);
	assert_int_equal(
		job_of(&a, "--num-distributed-optimizer-instances 4 --use-distributed-optimizer")
			.shard_group,
		2);
	assert_int_equal(job_of(&a, "--recompute-activations").recompute, LK_RECOMPUTE_SELECTIVE);
	assert_int_equal(
		job_of(&a, "--recompute-granularity full --recompute-method block --recompute-num-layers 5")
			.recompute_layers,
		5);
	assert_int_equal(
		job_of(&a,
	           "--recompute-granularity full --recompute-method block --recompute-num-layers 50")
			.recompute_layers,
		0);
	static const struct {
		const char *flags;
		int modules; /* 0: the core of attention */
	} selective[] = {
		{"--recompute-granularity selective", 0},
		{"--recompute-granularity selective --recompute-modules core_attn", 0},
		{"--recompute-granularity selective --recompute-modules moe_act", LK_MODULE_MOE_ACT},
		{"--recompute-granularity selective --recompute-modules '[layernorm mlp]'",
	     LK_MODULE_LAYERNORM | LK_MODULE_MLP},
		{"--recompute-granularity selective --recompute-modules mlp,unheard_of", LK_MODULE_MLP},
		{"--recompute-granularity selective --recompute-modules core_attn shared_experts",
	     LK_MODULE_CORE_ATTN | LK_MODULE_SHARED_EXPERTS},
		{"--moe-layer-recompute", LK_MODULE_CORE_ATTN | LK_MODULE_MOE},
	};
	for (size_t i = 0; i < sizeof selective / sizeof *selective; i++) {
		lk_job again = job_of(&a, selective[i].flags);
		assert_int_equal(again.recompute, LK_RECOMPUTE_SELECTIVE);
		assert_int_equal(again.recompute_modules, selective[i].modules);
	}
	assert_int_equal(
		job_of(&a, "--recompute-granularity selective --recompute-modules unheard_of").recompute,
		LK_RECOMPUTE_NONE);
	assert_int_equal(
		job_of(&a, "--window-size '(128,0)' --window-attn-skip-freq 2").model.full_every, 2);
	assert_int_equal(
		job_of(&a, "--window-size 128,0 --window-attn-skip-freq '[1,1,0]*8'").model.full_every, 3);
	assert_int_equal(
		job_of(&a, "--num-experts 4 --moe-layer-freq '([0]+[1]*23)'").model.dense_layers, 1);
	lk_job every = job_of(&a, "--num-experts 4 --moe-layer-freq '([0]*1+[1]*1)*12'");
	assert_int_equal(every.model.moe_every, 2);
	assert_true(!lk_model_is_moe(&every.model, 2) && lk_model_is_moe(&every.model, 3));
	lk_arena_free(&a);
}

static lk_job hybrid_of(lk_arena *arena, const char *flags) {
	return *script(arena, lk_arena_printf(arena, HYBRID "--disable-bias-linear %s", flags)).job;
}

static const char *layout_of(lk_arena *arena, const char *flags) {
	lk_job job = hybrid_of(arena, flags);
	return lk_arena_strdup(arena, job.pipeline_layout);
}

/* Layers of hybrids, each against its parameters counted by hand: 1,024 wide, 16 heads. */
static void hybrid_flags(void **state) {
	(void)state;
	static const double norm = 2 * 1024, attention = 4 * 1024. * 1024, mlp = 2 * 1024. * 4096,
						mamba = 1024. * (2 * 2048 + 2 * 8 * 128 + 32) + 2048. * 1024 +
	                            (2048 + 2 * 8 * 128) * 5 + 3 * 32 + 2048,
						small = 1024. * (2 * 1024 + 2 * 4 * 64 + 16) + 1024. * 1024 +
	                            (1024 + 2 * 4 * 64) * 5 + 3 * 16 + 1024,
						delta = 1024. * (2 * 2048 + 2 * 4096 + 2 * 32) + 4096. * 1024 +
	                            4 * (2 * 2048 + 4096) + 2 * 32 + 128,
						narrow = 1024. * (2 * 512 + 2 * 512 + 2 * 8) + 512. * 1024 +
	                             4 * (2 * 512 + 512) + 2 * 8 + 64,
						latent = 1024. * 256 + 512 + 256. * 16 * 192 + 1024. * (128 + 64) + 256 +
	                             128. * 16 * 256 + 16. * 128 * 1024,
						indexer = 256. * 4 * 64 + 1024. * 64 + 2 * 64 + 1024. * 4,
						experts = 4 * 1024 + 4 * 2 * 1024. * 512 + 2 * 1024. * 256;
	static const struct {
		const char *flags, *order;
		int layers;
		double params;
	} cases[] = {
		{"--hybrid-override-pattern M-M*-", "M - M * -", 5, 2 * mamba + attention + 2 * mlp},
		{"--hybrid-layer-pattern MMMM", "M", 4, 4 * mamba},
		{"--num-layers 8 --is-hybrid-model", "M", 8, 8 * mamba},
		/* two of 8 attend, with two M in each of three places; then every other M is an MLP */
		{"--num-layers 8 --hybrid-attention-ratio 0.25", "2M *", 8, 6 * mamba + 2 * attention},
		{"--num-layers 8 --hybrid-attention-ratio 0.25 --hybrid-mlp-ratio 0.375", "M - *", 8,
	     3 * mamba + 2 * attention + 3 * mlp},
		{"--hybrid-layer-pattern MM*MM* --mamba-num-heads 16 --mamba-num-groups 4 "
	     "--mamba-state-dim 64",
	     "2M *", 6, 4 * small + 2 * attention},
		{"--hybrid-layer-pattern M*E --num-experts 4 --moe-ffn-hidden-size 512 "
	     "--moe-shared-expert-intermediate-size 256 --attention-output-gate",
	     "M * E", 3, mamba + attention + 1024. * 1024 + experts},
		{"--hybrid-layer-pattern 'G-*-'", "G - * -", 4, delta + attention + 2 * mlp},
		{"--hybrid-layer-pattern 'G-|G-' --pipeline-model-parallel-size 2 "
	     "--linear-num-key-heads 8 --linear-num-value-heads 8 --linear-key-head-dim 64 "
	     "--linear-value-head-dim 64",
	     "G -", 4, 2 * narrow + 2 * mlp},
		{"--hybrid-layer-pattern M+ --multi-latent-attention --q-lora-rank 256 --kv-lora-rank 128",
	     "M *", 2, mamba + latent},
		{"--hybrid-layer-pattern MD --multi-latent-attention --q-lora-rank 256 --kv-lora-rank 128 "
	     "--dsa-indexer-n-heads 4 --dsa-indexer-head-dim 64 --dsa-indexer-topk 512",
	     "M *", 2, mamba + latent + indexer},
	};
	lk_arena a = LK_ARENA_INIT;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		lk_model m = hybrid_of(&a, cases[i].flags).model;
		assert_string_equal(m.order, cases[i].order);
		assert_int_equal(m.layers, cases[i].layers);
		assert_string_equal(layout_of(&a, cases[i].flags),
		                    strchr(cases[i].flags, '|') ? "Et*2|t*2L" : "");
		double ends = lk_model_embedding_params(&m) + lk_model_head_params(&m),
			   params = lk_model_params(&m) - ends - m.layers * norm;
		if (params != cases[i].params)
			fail_msg("%s: %.0f, not %.0f", cases[i].flags, params, cases[i].params);
	}
	lk_arena_free(&a);
}

/* pretrain_gpt.py builds no hybrid: attention and an MLP in all layers, whose number a pattern may
 * state; and says so. */
static void hybrid_flags_of_gpt(void **state) {
	(void)state;
	static const struct {
		const char *flags;
		int layers;
	} cases[] = {{"--hybrid-attention-ratio 0.25", 24},
	             {"--is-hybrid-model", 24},
	             {"--hybrid-override-pattern M-M*-", 5},
	             {"--hybrid-layer-pattern 'M*|MM-/M*'", 5}};
	lk_arena arena = LK_ARENA_INIT;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		lk_launch launch = script(&arena, lk_arena_printf(&arena, NETWORK "%s", cases[i].flags));
		bool said = false;
		assert_string_equal(launch.job->model.order, "");
		assert_int_equal(launch.job->model.layers, cases[i].layers);
		assert_int_equal(launch.job->model.ssm, 0);
		for (int k = 0; k < launch.ignored_count; k++)
			said |= strstr(launch.ignored[k].reason, "pretrain_mamba.py") != NULL;
		assert_true(said);
	}
	lk_arena_free(&arena);
}

/* Every fourth layer full, or as listed; experts as without. */
static void variant_flags(void **state) {
	(void)state;
	lk_arena a = LK_ARENA_INIT;
	lk_model m = job_of(&a, "--experimental-attention-variant gated_delta_net "
	                        "--linear-attention-freq 4")
	                 .model;
	assert_string_equal(m.order, "3G- *-");
	m = job_of(&a, "--experimental-attention-variant gdn --linear-attention-freq "
	               "'([1]*2+[0]*1)*8' --num-experts 4 --moe-layer-freq 3")
	        .model;
	assert_string_equal(m.order, "GE G- *-");
	assert_int_equal(m.delta_value_heads, 32);
	m = job_of(&a, "--linear-num-key-heads 8").model;
	assert_int_equal(m.delta_key_heads, 0);
	m = job_of(&a, "--experimental-attention-variant dsa --multi-latent-attention "
	               "--dsa-indexer-n-heads 4 --dsa-indexer-head-dim 64 --dsa-indexer-topk 512")
	        .model;
	assert_true(m.index_heads == 4 && m.index_topk == 512 && m.attention == LK_ATTN_MLA);
	lk_arena_free(&a);
}

/* Of pretrain_vlm.py the encoder of images is left out, and that is said. */
static void vision_is_said(void **state) {
	(void)state;
	lk_arena arena = LK_ARENA_INIT;
	lk_launch out;
	lk_error err = {0};
	const char *words[] = {"torchrun",
	                       "pretrain_vlm.py",
	                       "--num-layers",
	                       "12",
	                       "--hidden-size",
	                       "1024",
	                       "--num-attention-heads",
	                       "16",
	                       "--seq-length",
	                       "1024",
	                       "--img-h",
	                       "336",
	                       "--patch-dim",
	                       "14",
	                       "--tokenizer-type",
	                       "MultimodalTokenizer",
	                       "--language-model-type",
	                       "llama3_8b",
	                       "--bf16"};
	assert_int_equal(
		lk_launch_read(&arena, (int)(sizeof words / sizeof *words), words, NULL, &out, &err),
		LK_OK);
	bool said = false;
	for (int i = 0; i < out.assumed_count; i++)
		said |= strstr(out.assumed[i], "the language model alone") != NULL;
	assert_true(said);
	assert_int_equal(out.job->model.vocab, 128256); /* by the language model's name */
	lk_arena_free(&arena);
}

/* A condition on what $(basename "$NAME") leaves of a variable that nobody sets. */
static void unset_names_are_nothing(void **state) {
	(void)state;
	lk_arena arena = LK_ARENA_INIT;
	lk_launch launch = script(
		&arena, "if [ \"$(basename \"$ENV\")\" = a.yaml ]; then GBS=8; else GBS=${GBS:-64}; fi\n"
				"if [[ $(echo $KIND) == big ]]; then MBS=4; else MBS=2; fi\n"
				"torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 4 --hidden-size 64 "
				"--num-attention-heads 4 --seq-length 64 --micro-batch-size $MBS "
				"--global-batch-size $GBS --grpo-group-size 4\n");
	assert_int_equal(launch.job->gbs, 64);
	assert_int_equal(launch.job->mbs, 2);
	lk_arena_free(&arena);
}

/* $(name ...) of a function of the script is what its body writes, in a shell of its own. */
static void functions_write(void **state) {
	(void)state;
	static const char body[] =
		"size() {\n"
		"  case $1 in\n"
		"    small) echo -n --num-layers 4 --hidden-size 256; printf ' %s' --num-attention-heads "
		"4;;\n"
		"    *) echo unknown >&2; exit 1;;\n"
		"  esac\n"
		"}\n"
		"function twice { local n=$1; X=9; log $n; echo $((n * 2)); }\n"
		"log() { echo \"[$(date)] $*\" >&2; }\n"
		"rest() {\n"
		"  if [ $1 -gt 2 ]; then cat <<END\n--seq-length 128\n--max-position-embeddings 128\nEND\n"
		"  else echo --seq-length 64; fi\n"
		"  echo \"--save $DIR/a\" ; mkdir -p x\n"
		"}\n"
		"host() { hostname; }\n"
		"maybe() { if [ \"$(hostname)\" = a ]; then echo 2; else echo 4; fi; }\n"
		"piped() { echo 1 2 | sort; }\n"
		"outer() { echo $(twice $1); }\n"
		"X=1\n";
	static const char line[] =
		"torchrun --nproc_per_node $(outer 4) pretrain_gpt.py $(size small) $(rest 3) "
		"--micro-batch-size $X --global-batch-size `twice 16`\n";
	static const char *const unknown[] = {"host", "maybe", "piped", "size big"};
	lk_arena arena = LK_ARENA_INIT;
	lk_launch launch = script(&arena, lk_arena_printf(&arena, "%s%s", body, line));
	assert_int_equal(launch.gpus, 8);
	assert_int_equal(launch.job->model.layers, 4);
	assert_int_equal(launch.job->model.heads, 4);
	assert_int_equal(launch.job->seq, 128);
	assert_int_equal(launch.job->mbs, 1); /* what the function sets is forgotten */
	assert_int_equal(launch.job->gbs, 32);
	for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++)
		assert_refused(
			lk_arena_printf(&arena, "%s" NETWORK "--global-batch-size $(%s)", body, unknown[i]),
			strcmp(unknown[i], "size big") == 0 ? "global-batch-size" : "not executed");
	lk_arena_free(&arena);
}

static void flag_errors(void **state) {
	(void)state;
	assert_refused(NETWORK "--bf16 --fp16", "both given");
	assert_refused(NETWORK "--num-experts 4 --moe-layer-freq '[1,0,0,1]*6'", "breaks the period");
	assert_refused(NETWORK "--num-experts 4 --moe-layer-freq '[1]*5'", "list of 24 layers");
	assert_refused(NETWORK "--num-experts 4 --moe-layer-freq '([1]*9999)*9999'",
	               "list of 24 layers");
	assert_refused(NETWORK
	               "--pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage 4",
	               "nearest: 3, 6");
	assert_refused(NETWORK "--recompute-granularity everything", "not among its values");
	assert_refused(NETWORK "--tensor-model-parallel-size", "value is missing");
	assert_refused(NETWORK "--tensor-model-parallel-size 1e9", "tensor-model-parallel-size");
	assert_refused(HYBRID "--hybrid-override-pattern M-MX", "letter 'X'");
	assert_refused(HYBRID "--hybrid-layer-pattern M*/X", "letter 'X'");
	assert_refused(NETWORK "--freeze-LM", "the encoder of images alone");
	assert_refused(HYBRID "--hybrid-attention-ratio 0.6 --hybrid-mlp-ratio 0.5", "more than all");
	assert_refused(
		"torchrun --nproc_per_node 8 pretrain_mamba.py --is-hybrid-model --hidden-size 64",
		"neither listed nor counted");
	assert_refused(HYBRID "--hybrid-layer-pattern M*+", "two of *, + and D");
	assert_refused(HYBRID "--hybrid-layer-pattern M+", "--multi-latent-attention");
	assert_refused(HYBRID "--hybrid-layer-pattern '|'", "0 layers");
	assert_refused(NETWORK "--experimental-attention-variant gdn", "no layers are stated");
	assert_refused(NETWORK "--experimental-attention-variant gdn2", "not among its values");
	assert_refused(NETWORK "--experimental-attention-variant dsa --multi-latent-attention",
	               "a size of its indexer");
	assert_refused("torchrun pretrain_retro.py --bf16", "not modelled");
	assert_refused("torchrun pretrain_gpt.py --num-layers 4", "--hidden-size is missing");
	assert_refused(
		"torchrun pretrain_gpt.py --num-layers 4 --hidden-size 100 --num-attention-heads 3",
		"--kv-channels");
	lk_arena arena = LK_ARENA_INIT;
	lk_launch out;
	lk_error err = {0};
	const char *words[] = {"python", "train.py", "--deepspeed_config", "no_such_file.json"};
	assert_int_equal(lk_launch_read(&arena, 4, words, NULL, &out, &err), LK_ERR_IO);
	assert_string_equal(err.where, "no_such_file.json");
	lk_arena_free(&arena);
}

/* ---- scripts ---- */

static int tp_of(const char *text) {
	lk_arena arena = LK_ARENA_INIT;
	int tp = script(&arena, text).job->tp;
	lk_arena_free(&arena);
	return tp;
}

#define RUN "torchrun p.py --tensor-model-parallel-size "

static void shell_words(void **state) {
	(void)state;
	assert_int_equal(tp_of("TP=8\n" RUN "$TP"), 8);
	assert_int_equal(tp_of("TP=${TP:-4}\n" RUN "${TP}"), 4);
	assert_int_equal(tp_of("A=2; TP=${X:-$A}; " RUN "\"$TP\""), 2);
	assert_int_equal(tp_of(RUN "\\\n  \\\n 8"), 8);
	assert_int_equal(tp_of("A=(" RUN ")\nA+=(\"2\") # more\n${A[@]}"), 2);
	assert_int_equal(tp_of("A=(1 2 3)\n" RUN "${#A[@]}"), 3);
	assert_int_equal(tp_of("A='--tensor-model-parallel-size 4'\ntorchrun p.py $A"), 4);
	assert_int_equal(tp_of("A=\"--tensor-model-parallel-size\"; A+=' 4'\ntorchrun p.py $A"), 4);
	assert_int_equal(tp_of("A=(\n --seq-length 8 # it's (not) read\n "
	                       "--tensor-model-parallel-size=4\n)\ntorchrun p.py \"${A[@]}\""),
	                 4);
	assert_int_equal(tp_of("N=3\n" RUN "$((N * 4 - (2 + 8) / 5 % 3 ))"), 10);
	assert_int_equal(tp_of("N=3; M=$((${N}*2)); " RUN "$(( M + -2 ))"), 4);
	static const struct {
		const char *text;
		int value;
	} sums[] = {{"(N > 2) ? 4 : 8", 4},
	            {"N == 3 && ! (N < 3)", 1},
	            {"1 + (0 || N != 3) + (0 && 1 / 0)", 1},
	            {"N > 0 ? 12 / N : 1 / 0", 4},
	            {"2 ** 2 ** 1 * N", 12},
	            {"-1 ** 5 + 2", 1},
	            {"1 << N | 1 & 3 ^ 2", 11},
	            {"A[1] + ${A[0]}", 7},
	            {"N <= 2 ? 1 : N >= 4 ? 2 : 5", 5},
	            {"~N + 6 >> 1", 1}};
	for (size_t i = 0; i < sizeof sums / sizeof *sums; i++) {
		char line[160];
		snprintf(line, sizeof line, "N=3; A=(2 5)\n" RUN "$(( %s ))", sums[i].text);
		assert_int_equal(tp_of(line), sums[i].value);
		snprintf(line, sizeof line, "N=3; A=(2 5); TP=1\n(( (%s) == %d )) && TP=2\n" RUN "$TP",
		         sums[i].text, sums[i].value);
		assert_int_equal(tp_of(line), 2);
	}
	assert_int_equal(tp_of("A=$(($(nvidia-smi | wc -l)-2)); B=$(( (ls; ls) | wc -l ))\n" RUN "2"),
	                 2);
	static const struct {
		const char *text;
		int value;
	} commands[] = {
		{"$(expr $N \\* 2 + 1)", 7},           {"`expr $N - 1`", 2},
		{"$(echo \"$N * (2 + 2)\" | bc)", 12}, {"$(echo $N)", 3},
		{"$(basename /models/8.sh .sh)", 8},   {"$(basename $(dirname /models/4/run))", 4},
		{"$(echo TP=4 | cut -f2 -d=)", 4},     {"$(echo 2:4:8 | cut -d ':' -f 3)", 8},
		{"$(echo $N | cut -f1 -d=)", 3}};
	for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
		char line[160];
		snprintf(line, sizeof line, "N=3\n" RUN "%s", commands[i].text);
		assert_int_equal(tp_of(line), commands[i].value);
	}
	assert_int_equal(tp_of("A=$(cat <<EOF\n--tensor-model-parallel-size $((1 + 1))\n\nEOF\n)\n"
	                       "torchrun p.py $A"),
	                 2);
	assert_int_equal(tp_of("N=0\nfor i in $(seq 2 2 8); do N=$((N + i)); done\n" RUN "$N"), 20);
	/* arguments as NAME=VALUE */
	static const char named[] = "N=1\nfor A in TP=4 N=2; do K=$(echo $A | cut -f1 -d=)\nL=${#K}\n"
								"V=\"${A:$L+1}\"\nexport \"$K\"=\"$V\"\ndone\n" RUN "$((TP * N))";
	assert_int_equal(tp_of(named), 8);
	assert_int_equal(tp_of("A=1248\n" RUN "${A:1+1:1}"), 4);
	assert_int_equal(tp_of("A=1248\n" RUN "${A: -1}"), 8);
	assert_int_equal(tp_of("A=1248\n" RUN "${A:2:-1}"), 4);
	assert_refused("A=12\n" RUN "${A:2:-4}", "is not evaluated");
	assert_refused(RUN "$(echo 8 | tr 8 4)", "is not executed");
	assert_refused(RUN "$(echo 8 | cut -c1)", "is not executed");
	assert_refused(RUN "$(echo 8 | cut -f1 | bc)", "is not executed");
	assert_refused(RUN "$(expr 7 / 0)", "division by zero");
	assert_refused(RUN "$(seq 1 100000000)", "is not executed");
	assert_refused(RUN "$(seq 1 9223372036854775807 2)", "is not executed");
	assert_refused(RUN "$(seq -9223372036854775808 1)", "is not executed");
	assert_refused(RUN "$(echo \"2 ^ 3\" | bc)", "is not executed"); /* a power */
	assert_refused(RUN "$(expr 4 '&' 2)", "is not executed");        /* 4 */
	assert_refused(RUN "$(expr 010 + 1)", "is not executed");        /* 11 */
	assert_int_equal(tp_of("N=${N:-}\nif [[ -z $N ]]; then echo give N; exit 1; fi\n" RUN "2"), 2);
	assert_int_equal(tp_of("N=${N:-}\nTP=${N:-$((2 + 2))}\n" RUN "$TP"), 4);
	assert_int_equal(tp_of("if [ 1 -lt 2 ]; then TP=2; else TP=4; fi\n" RUN "$TP"), 2);
	assert_int_equal(tp_of("S=b\nif [[ $S == a ]]; then TP=2\nelif [[ $S == b && 2 -gt 1 ]]\nthen "
	                       "TP=4\nelse TP=8; fi\n" RUN "$TP"),
	                 4);
	assert_int_equal(tp_of("TP=2\n[ -z \"\" ] && TP=4\n[ -n '' ] && TP=8\n" RUN "$TP"), 4);
	assert_int_equal(tp_of("TP=2\nfalse || TP=4\ntrue || TP=8\n" RUN "$TP"), 4);
	assert_int_equal(tp_of("CMD=\"" RUN "4\"\necho $CMD\neval $CMD"), 4);
	assert_int_equal(tp_of("run() { echo $1; }\ncat <<EOF > x\n" RUN "8\nEOF\n" RUN "2 | tee log"),
	                 2);
	assert_int_equal(
		tp_of("DIR=$(dirname $0)\nLOG=`date`\n" RUN "2 --save $DIR --tensorboard-dir \"$LOG/$1\""),
		2);
	assert_int_equal(tp_of(RUN "2 $EXTRA_ARGS \"$@\""), 2);
	assert_int_equal(tp_of("if [ ! -d logs ]; then mkdir logs; NAME=x; fi\n" RUN "2 --save $NAME"),
	                 2);
	assert_int_equal(tp_of("for i in 1 2; do echo $i; done\n" RUN "2"), 2);
	assert_int_equal(
		tp_of("python prepare.py --tensor-model-parallel-size 9\n" RUN "2\nexit 0\n" RUN "4"), 2);
	assert_int_equal(tp_of("export TP=2\nsrun bash -c \"" RUN "\\$TP\""), 2);
	assert_int_equal(tp_of("export TP=2\nsrun bash -c '" RUN "$TP'"), 2);
	assert_int_equal(tp_of("function go {\necho\n}\nif (( $# > 3 )); then echo; fi\n" RUN "2"), 2);
	assert_int_equal(tp_of("TP=2\r\n" RUN "$TP\r\n"), 2);
}

/* With arguments behind the file and variables of the cluster. */
static int tp_given(const char *text, int count, const char *const *args, const char *vars) {
	lk_arena arena = LK_ARENA_INIT;
	lk_launch out = {0};
	lk_error err = {0};
	char message[1024];
	lk_launch_given given = {.vars = vars, .args = args, .arg_count = count};
	if (lk_launch_text(&arena, text, strlen(text), "test.sh", &given, &out, &err) != LK_OK)
		fail_msg("%s", lk_error_text(&err, message, sizeof message));
	int tp = out.job->tp;
	lk_arena_free(&arena);
	return tp;
}

static void shell_flow(void **state) {
	(void)state;
	static const char *const two[] = {"4", "llama3"}, *const options[] = {"--tp", "8", "--x"};
	/* functions, with arguments of their own; return */
	assert_int_equal(tp_of("go() {\n" RUN "$1\n}\ngo 2"), 2);
	assert_int_equal(tp_of("set_tp() { TP=$1; return; TP=9; }\nset_tp 4\n" RUN "$TP"), 4);
	assert_int_equal(tp_of("function go {\nTP=$2\n}\ngo 1 8; " RUN "$TP"), 8);
	/* case */
	assert_int_equal(
		tp_of("M=8b\ncase $M in\n7b) TP=1;;\n8b|9b)\nTP=2\n;;\n*) TP=4;;\nesac\n" RUN "$TP"), 2);
	assert_int_equal(tp_of("M=70b\ncase \"$M\" in (8b) TP=2 ;; 7*) TP=8 ;; esac\n" RUN "$TP"), 8);
	assert_int_equal(tp_of("case x in a) exit;; *) TP=2;; esac\n" RUN "$TP"), 2);
	assert_int_equal(tp_of("if true; then case x in a) TP=1;; x) TP=2;; esac; fi\n" RUN "$TP"), 2);
	/* loops */
	assert_int_equal(tp_of("for TP in 1 2; do\n" RUN "$TP\ndone"), 2);
	assert_int_equal(tp_of("N=0\nwhile [ $N -lt 4 ]; do N=$((N+1)); done\n" RUN "$N"), 4);
	assert_int_equal(
		tp_of("for i in 1 2 3; do TP=$i; if [ $i = 2 ]; then break; fi; done\n" RUN "$TP"), 2);
	assert_int_equal(tp_of("for h in $HOSTS; do " RUN "2; done"), 2);
	/* what is never set is empty; whoever leaves because of it does not */
	assert_int_equal(tp_of("if [ -z \"$X\" ]; then exit 1; fi\n" RUN "2"), 2);
	assert_int_equal(tp_of("A=(--tensor-model-parallel-size 2)\nif [ -n \"${WANDB}\" ]; then "
	                       "A+=(--wandb-project x); fi\ntorchrun pretrain_gpt.py ${A[@]}"),
	                 2);
	assert_int_equal(tp_of("if [[ $DEBUG -eq 1 ]]; then TP=1; else TP=4; fi\n" RUN "$TP"), 4);
	/* $? of a program, which is taken to succeed, and of a test; what does not run leaves it */
	assert_int_equal(tp_of("which srun\nTP=$((4-$?*2))\n" RUN "$TP"), 4);
	assert_int_equal(tp_of("[ 1 -gt 2 ]\nTP=$((4-$?*2))\n" RUN "$TP"), 2);
	assert_int_equal(tp_of("true && [ 1 -gt 2 ] && true\nTP=$((4-$?*2))\n" RUN "$TP"), 2);
	assert_int_equal(tp_of("false; if [ $? -ne 0 ]; then TP=2; fi\n" RUN "$TP"), 2);
	/* the training, not what is run before and after it */
	assert_int_equal(tp_of(RUN "2\npython tools/checkpoint/convert.py --target 4"), 2);
	assert_int_equal(tp_of("if [ -f x ]; then\n" RUN "2\nfi"), 2);
	/* arguments and variables of the cluster */
	assert_int_equal(tp_given(RUN "$1", 2, two, NULL), 4);
	assert_int_equal(tp_given("T=${1:-2}\n" RUN "$T", 0, NULL, NULL), 2);
	assert_int_equal(tp_given("while [ $# -gt 0 ]; do case $1 in --tp) TP=$2; shift 2;; *) shift;; "
	                          "esac; done\n" RUN "$TP",
	                          3, options, NULL),
	                 8);
	assert_int_equal(tp_given("TP=$(nproc)\n" RUN "$TP", 0, NULL, "TP=2"), 2);
	/* arguments alone, for a script that reads them */
	assert_int_equal(tp_of("TP=${TP:-4}\nMODEL_ARGS=\" \\\n --num-layers 2 --hidden-size 64 \\\n "
	                       "--num-attention-heads 4 --seq-length 8\""),
	                 4);
	assert_refused("python tools/run_text_generation_server.py --tensor-model-parallel-size 2",
	               "generates texts");
	assert_refused("torchrun --nproc_per_node 8 --nnodes $NNODES pretrain_gpt.py --bf16",
	               "--var NNODES");
}

static void shell_refusals(void **state) {
	(void)state;
	assert_refused("X=1\nTP=$(cat tp)\n" RUN "$TP", "line 2: $(cat tp) is not executed");
	assert_refused("TP=`cat tp`\n" RUN "$TP", "line 1: `cat tp` is not executed");
	assert_refused("\n\n" RUN "$1", "line 3: $1 is an argument of the script");
	assert_refused(RUN "$TP", "line 1: $TP is not set");
	assert_refused("if [ -f x ]; then TP=2; fi\n" RUN "$TP", "may not run");
	assert_refused("TP=1\n[ -f x ] && ((TP++))\n" RUN "$TP", "may not run");
	assert_refused("source config.sh\n" RUN "$TP", "line 2: $TP is not set");
	assert_refused("TP=1\n((N > 2)) && TP=4\n" RUN "$TP", "may not run");
	assert_refused(RUN "$((A[0] = 2))", "is set by $((...))");
	assert_refused(RUN "$(((N++) * 2))", "N is not set in the script");
	assert_refused("N=''\nif [ -z $N ]; then\n exit 1\nfi\n" RUN "2", "ends in line 3");
	assert_refused("bash train/inner.sh 8\n", "no command starts");
	assert_refused("case $1 in\na) TP=2;;\nesac\n" RUN "$TP", "may not run");
	assert_refused("f() { f; }\nf\n" RUN "2", "nested too deeply");
	assert_refused("while true; do X=1; done\n" RUN "2", "run too many times");
	assert_refused("case a in\nb)\n" RUN "2", "does not end");
	assert_refused("read TP\n" RUN "$TP", "may not run");
	assert_refused("echo 'open\n" RUN "2", "not closed");
	assert_refused("if true; then\n" RUN "2", "does not end");
	assert_refused("A=$((1/0))\n" RUN "2", "division by zero");
	assert_refused("A=$((9 ** 20))\n" RUN "2", "overflows");
	assert_refused("A=$((99999999999999999999))\n" RUN "2", "too large");
	assert_refused("torchrun p.py $(cat flags)", "flags may be in it");
	assert_refused("echo hello", "no command starts");
	assert_refused("", "no command starts");
	assert_refused("fi", "ends that did not begin");
	assert_refused("X=a\nX=$X$X$X$X$X$X$X$X\nX=$X$X$X$X$X$X$X$X\nX=$X$X$X$X$X$X$X$X\nX=$X$X$X$X$X$"
	               "X$X$X\nX=$X$X$X$X$X$X$X$X\n"
	               "X=$X$X$X$X$X$X$X$X\nX=$X$X$X$X$X$X$X$X\nX=$X$X$X$X$X$X$X$X\n" RUN "2",
	               "4 MiB");
	assert_refused("X='eval $X'\neval $X", "nested");
}

/* ---- DeepSpeed ---- */

static lk_status deepspeed(lk_arena *arena, const char *json, lk_launch *out, lk_error *err) {
	lk_stream *in;
	lk_reading r = {.arena = arena, .where = "ds.json", .out = out, .err = err};
	*out = (lk_launch){.job = LK_NEW(arena, lk_job)};
	lk_status status = lk_stream_memory(json, strlen(json), "ds.json", &in, err);
	if (status != LK_OK) return status;
	status = lk_deepspeed_stream(&r, in);
	lk_stream_close(in);
	return status;
}

static void deepspeed_batches(void **state) {
	(void)state;
	lk_arena arena = LK_ARENA_INIT;
	static const struct {
		const char *json;
		int mbs, gbs, microbatches;
	} cases[] = {
		{"{\"train_batch_size\": 64}", 8, 64, 1},
		{"{\"train_micro_batch_size_per_gpu\": 2}", 2, 16, 1},
		{"{\"train_micro_batch_size_per_gpu\": 2, \"gradient_accumulation_steps\": 3}", 2, 48, 3},
		{"{\"train_batch_size\": 64, \"gradient_accumulation_steps\": 2}", 4, 64, 2},
		{"{\"train_batch_size\": 64, \"train_micro_batch_size_per_gpu\": 2}", 2, 64, 4},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		lk_launch out;
		lk_error err = {0};
		assert_int_equal(deepspeed(&arena, cases[i].json, &out, &err), LK_OK);
		lk_job *job = out.job;
		job->model = (lk_model){.layers = 2,
		                        .hidden = 64,
		                        .heads = 4,
		                        .kv_heads = 4,
		                        .head_dim = 16,
		                        .ffn = 256,
		                        .vocab = 100};
		job->gpus = 8;
		complete(job);
		assert_int_equal(job->mbs, cases[i].mbs);
		assert_int_equal(job->gbs, cases[i].gbs);
		assert_int_equal(job->microbatches, cases[i].microbatches);
		assert_int_equal(job->sharding, LK_SHARD_NONE);
		assert_int_equal(job->overlap_grad_reduce, LK_OFF);
	}
	lk_arena_free(&arena);
}

static void deepspeed_errors(void **state) {
	(void)state;
	static const char *const wrong[] = {
		"[]",
		"{\"train_batch_size\": -1}",
		"{\"train_batch_size\": 1.5}",
		"{\"train_batch_size\": NaN}",
		"{\"train_batch_size\": 1e99}",
		"{\"zero_optimization\": {\"stage\": 4}}",
		"{\"zero_optimization\": {\"stage\": \"three\"}}",
		"{\"bf16\": {\"enabled\": 1}}",
		"{\"bf16\": {\"enabled\": true}, \"fp16\": {\"enabled\": true}}",
		"{\"zero_optimization\": {\"reduce_bucket_size\": 0}}",
		"{",
		"",
	};
	lk_arena arena = LK_ARENA_INIT;
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		lk_launch out;
		lk_error err = {0};
		assert_int_equal(deepspeed(&arena, wrong[i], &out, &err), LK_ERR_INPUT);
		assert_true(err.what[0] != '\0');
	}
	lk_arena_free(&arena);
}

/* ---- writing ---- */

static void assert_same(const lk_job *job, lk_job *back, const char *text) {
	complete(back);
	for (const lk_field *field = lk_job_fields; field->name != NULL; field++)
		if (!lk_field_equal(field, job, back)) fail_msg("%s differs after\n%s", field->name, text);
	assert_int_equal(back->dp, job->dp);
	assert_int_equal(back->microbatches, job->microbatches);
	assert_int_equal(back->padded_vocab, job->padded_vocab);
}

static int pick(const int *from, int count) {
	return from[rand() % count];
}

#define PICK(...) \
	pick((const int[]){__VA_ARGS__}, (int)(sizeof((const int[]){__VA_ARGS__}) / sizeof(int)))

static lk_model random_model(void) {
	lk_model m = {.name = "random",
	              .network = (lk_network)PICK(0, 0, 0, 1, 2),
	              .layers = PICK(8, 12, 24, 61),
	              .hidden = PICK(512, 1024),
	              .heads = 16,
	              .kv_heads = PICK(16, 4, 1),
	              .head_dim = PICK(32, 64, 128),
	              .ffn = PICK(2048, 4096, 2752),
	              .vocab = PICK(1000, 50257),
	              .context = PICK(0, 2048, 131072),
	              .norm = (lk_norm)(rand() % 2),
	              .norms_per_layer = PICK(1, 2, 2, 4),
	              .qk_norm = rand() % 2,
	              .embed_norm = rand() % 4 == 0,
	              .final_norm = rand() % 8 != 0,
	              .qkv_bias = rand() % 2,
	              .out_bias = rand() % 2,
	              .mlp_bias = rand() % 2,
	              .norm_bias = rand() % 2,
	              .head_bias = rand() % 4 == 0,
	              .gated = rand() % 2,
	              .parallel_residual = rand() % 4 == 0,
	              .tied = rand() % 2,
	              .lm_head = rand() % 8 != 0,
	              .dropout = PICK(0, 0, 1) * 0.1};
	if (m.network == LK_NET_ENCDEC) m.decoder_layers = PICK(8, 24);
	if (rand() % 3 == 0) m.position_rows = 131072;
	if (rand() % 3 == 0) {
		m.attention = LK_ATTN_MLA;
		m.kv_lora = PICK(32, 512);
		m.q_lora = PICK(0, 1536);
		m.qk_nope = PICK(64, 128);
		m.qk_rope = 64;
		m.v_dim = 128;
	}
	if (rand() % 2) {
		m.experts = PICK(8, 64);
		m.topk = PICK(1, 2, 6);
		m.expert_ffn = PICK(512, 4096);
		m.shared_ffn = PICK(0, 512);
		m.dense_layers = PICK(0, 1, 3);
		m.moe_every = PICK(0, 1, 2);
		m.moe_offset = m.moe_every == 2 ? rand() % 2 : 0;
		m.router_bias = rand() % 2;
	}
	if (rand() % 3 == 0) {
		m.window = PICK(128, 4096);
		m.full_every = PICK(0, 2, 6);
	}
	m.mtp_layers = PICK(0, 0, 1);
	return m;
}

static lk_job random_job(void) {
	lk_job job = {.model = random_model(),
	              .task = (lk_task)PICK(0, 0, 1, 2),
	              .gpus = 1 << (rand() % 10),
	              .tp = PICK(0, 1, 2, 4, 8),
	              .pp = PICK(0, 1, 2, 4),
	              .vp = PICK(0, 0, 1, 2, 3),
	              .cp = PICK(0, 1, 2),
	              .ep = PICK(0, 1, 2, 8),
	              .etp = PICK(0, 1, 2),
	              .sequence_parallel = (lk_switch)PICK(0, 0, -1),
	              .cp_kind = (lk_cp_kind)(rand() % 2),
	              .cp_balanced = (lk_switch)PICK(0, 1, -1),
	              .sharding = (lk_sharding)(rand() % 4),
	              .sharding_said = rand() % 2,
	              .shard_group = PICK(0, 0, 1, 2),
	              .schedule = (lk_schedule_kind)(rand() % LK_SCHEDULES),
	              .schedule_said = rand() % 2,
	              .mbs = PICK(0, 1, 2),
	              .gbs = PICK(0, 512, 1024),
	              .seq = PICK(0, 1024, 4096),
	              .dtype = (lk_dtype)(rand() % LK_DTYPES),
	              .dtype_said = rand() % 2,
	              .optimizer = (lk_optimizer)(rand() % LK_OPTIMIZERS),
	              .state_dtype = (lk_dtype)PICK(0, 0, 2, 3, 4),
	              .master_weights = (lk_switch)PICK(0, -1, 1),
	              .fp32_grads = (lk_switch)PICK(0, -1, 1),
	              .grad_reduce_fp32 = (lk_switch)PICK(0, -1, 1),
	              .recompute = (lk_recompute)(rand() % 3),
	              .overlap_grad_reduce = (lk_switch)PICK(0, -1, 1),
	              .overlap_p2p = (lk_switch)PICK(0, -1, 1),
	              .bucket_bytes = PICK(0, 0, 25) * 1e6,
	              .offload_optimizer = rand() % 4 == 0,
	              .cuda_graphs = (lk_switch)PICK(0, 1),
	              .attn_kernel = (lk_attn_kernel)(rand() % 2),
	              .fused_cross_entropy = (lk_switch)PICK(0, 1),
	              .dispatcher = (lk_dispatcher)(rand() % 3),
	              .moe_imbalance = PICK(0, 1, 2),
	              .compile = rand() % 4 == 0,
	              .max_connections = PICK(0, 1, 8, 32),
	              .vocab_multiple = PICK(0, 64, 128),
	              .account_embedding = rand() % 4 == 0,
	              .account_loss = rand() % 4 == 0};
	static const char *const stacks[] = {"",          "megatron", "fsdp",
	                                     "deepspeed", "nemo",     "it's odd; $x"};
	lk_copy(job.stack, sizeof job.stack, stacks[rand() % 6]);
	if (job.recompute == LK_RECOMPUTE_FULL) job.recompute_layers = PICK(0, 1, 2);
	if (job.recompute == LK_RECOMPUTE_SELECTIVE)
		job.recompute_modules = PICK(0, LK_MODULE_MLP, LK_MODULE_LAYERNORM | LK_MODULE_MOE);
	if (job.model.layers == 61 && job.pp == 4 && rand() % 2) {
		lk_copy(job.pipeline_layout, sizeof job.pipeline_layout,
		        job.model.mtp_layers ? "Et*3|(t*9|)*6t*4mL" : "Et*3|(t*9|)*6t*4L");
		job.vp = 0;
	}
	return job;
}

/* reading(writing(job)) == job for random legal jobs of all kinds. */
static void round_trip(void **state) {
	(void)state;
	int legal = 0, layouts = 0, count = rounds(30000, 300000);
	srand(11);
	for (int i = 0; i < count; i++) {
		lk_job job = random_job();
		if (lk_job_complete(&job, NULL, NULL) != LK_OK) continue;
		lk_arena arena = LK_ARENA_INIT;
		char *text = lk_launch_write(&arena, &job);
		assert_non_null(text);
		lk_launch back = script(&arena, text);
		assert_same(&job, back.job, text);
		legal++;
		layouts += job.pipeline_layout[0] != '\0';
		lk_arena_free(&arena);
	}
	assert_true(legal > count / 60 && layouts > count / 10000);
}

/* A Megatron job is written with Megatron's flags alone. */
static void no_settings_needed(void **state) {
	(void)state;
	static const char *const scripts[] = {"gpt_175b.sh", "llama3_8b_fp8.sh", "mixtral_8x7b.sh",
	                                      "deepseek_like.sh"};
	for (size_t i = 0; i < 4; i++) {
		lk_arena arena = LK_ARENA_INIT;
		char path[128];
		snprintf(path, sizeof path, DATA "%s", scripts[i]);
		lk_job job = *file(&arena, path).job;
		complete(&job);
		char *text = lk_launch_write(&arena, &job);
		assert_null(strstr(text, "LOCKSTEP_"));
		lk_launch back = script(&arena, text);
		assert_same(&job, back.job, text);
		lk_arena_free(&arena);
	}
}

/* What no flag of Megatron-LM states: names, and gradients that are added up in fp32 and reduced in
 * 16 bits. */
static bool has_no_flag(const char *field) {
	static const char *const names[] = {"model", "family", "fp32_grads"};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (strcmp(field, names[i]) == 0) return true;
	return false;
}

/* The line without the settings LOCKSTEP_NAME=value, which the started program does not see. */
static const char *without_settings(lk_arena *arena, const char *line) {
	char *out = lk_arena_strdup(arena, ""), *copy = lk_arena_strdup(arena, line), *save = NULL;
	for (char *word = strtok_r(copy, " ", &save); word; word = strtok_r(NULL, " ", &save))
		if (strncmp(word, "LOCKSTEP_", 9) != 0) out = lk_arena_printf(arena, "%s %s", out, word);
	return out;
}

/* Networks of Megatron-LM's kinds, in layouts of several kinds: the flags alone give every field of
 * the job again. */
static void flags_state_all(void **state) {
	(void)state;
	static const struct {
		const char *model, *flags; /* flags that have to be there */
	} cases[] = {
		{"llama3.1-8b", "--rotary-base 500000 --attention-dropout 0"},
		{"qwen3-235b-a22b", "--rotary-base 1000000 --moe-grouped-gemm --qk-layernorm"},
		{"mixtral-8x7b", "--rotary-base 1000000 --moe-grouped-gemm"},
		{"mistral-small-24b", "--rotary-base 100000000"},
		{"qwen1.5-moe-a2.7b", "--moe-shared-expert-gate --moe-grouped-gemm --add-qkv-bias"},
		{"deepseek-v3",
	     "--multi-latent-attention --moe-grouped-gemm --moe-router-score-function sigmoid "
	     "--moe-router-enable-expert-bias"},
		{"gpt2-large", "--attention-dropout 0.1"},
		{"bloom-7b1", "--position-embedding-type none"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		for (int layout = 0; layout < 8; layout++) {
			lk_arena arena = LK_ARENA_INIT;
			lk_error err = {0};
			lk_job job = {.gpus = 64, .gbs = 256, .mbs = 1, .tp = 1 + layout % 2, .pp = 1};
			assert_int_equal(lk_model_preset(cases[i].model, &job.model, &err), LK_OK);
			job.ep = job.model.experts > 0 && layout & 2 ? 4 : 1;
			job.offload_optimizer = layout == 4;
			if (layout >= 6) job.state_dtype = LK_BF16;
			job.fused_cross_entropy = layout & 4 ? LK_ON : LK_OFF;
			complete(&job);
			char *text = lk_launch_write(&arena, &job);
			const char *flags = without_settings(&arena, text);
			char *wanted = lk_arena_strdup(&arena, cases[i].flags), *save = NULL;
			for (char *word = strtok_r(wanted, " ", &save); word; word = strtok_r(NULL, " ", &save))
				if (!strstr(flags, word)) fail_msg("%s is missing in\n%s", word, flags);
			if (job.state_dtype == LK_BF16 || job.offload_optimizer)
				assert_non_null(strstr(flags, "--use-precision-aware-optimizer"));
			lk_launch back = script(&arena, flags);
			complete(back.job);
			for (const lk_field *field = lk_job_fields; field->name != NULL; field++)
				if (!has_no_flag(field->name) && !lk_field_equal(field, &job, back.job))
					fail_msg("%s differs after\n%s", field->name, flags);
			lk_arena_free(&arena);
		}
}

/* Every byte of a job is a field with a name, a derived one, or padding: two jobs that differ in
 * one named field are told apart. */
static void fields_have_text(void **state) {
	(void)state;
	lk_arena arena = LK_ARENA_INIT;
	lk_job job = {0};
	for (const lk_field *field = lk_job_fields; field->name != NULL; field++) {
		const char *text = lk_field_text(&arena, field, &job);
		lk_job other = {0};
		bool known;
		lk_error err = {0};
		const char *value = strcmp(text, "''") == 0 ? "" : text;
		assert_int_equal(
			lk_field_set(&other, field->name, strlen(field->name), value, &known, &err), LK_OK);
		assert_true(known);
		assert_true(lk_field_equal(field, &job, &other));
	}
	bool known;
	lk_field_set(&job, "nonsense", 8, "1", &known, NULL);
	assert_false(known);
	assert_string_equal(lk_schedule_get(LK_SCHED_ZB_H1)->name,
	                    "zb-h1"); /* the names of the schedules are those of their table */
	lk_arena_free(&arena);
}

/* ---- public runs ---- */

static const char *const not_flags[] = {"model",
                                        "test",
                                        "env",
                                        "type",
                                        "nodes",
                                        "gpus_per_node",
                                        "recipe",
                                        "mem_alloc_bytes",
                                        "mem_max_alloc_bytes",
                                        "iter_s_median_ge5",
                                        "iter_s_min",
                                        "n_iters",
                                        "vocab",
                                        NULL};

static bool is_flag(const char *name) {
	for (int i = 0; not_flags[i] != NULL; i++)
		if (strcmp(name, not_flags[i]) == 0) return false;
	return true;
}

static char *line_of_row(lk_arena *arena, const lk_csv *csv, char names[][64], int columns) {
	const char *model = lk_csv_field(csv, lk_csv_column(csv, "model"));
	const char *vocab = lk_csv_field(csv, lk_csv_column(csv, "vocab"));
	const char *program = strcmp(model, "bert") == 0 ? "pretrain_bert.py"
	                      : strcmp(model, "t5") == 0 ? "pretrain_t5.py"
	                                                 : "pretrain_gpt.py";
	const char *nodes = lk_csv_field(csv, lk_csv_column(csv, "nodes")),
			   *per_node = lk_csv_field(csv, lk_csv_column(csv, "gpus_per_node"));
	char *text = nodes[0] == '\0'
	                 ? lk_arena_printf(arena, "python %s", program)
	                 : lk_arena_printf(arena, "torchrun --nnodes=%s --nproc_per_node=%s %s", nodes,
	                                   per_node, program);
	for (int i = 0; i < columns; i++) {
		const char *value = lk_csv_field(csv, i);
		if (!is_flag(names[i]) || value[0] == '\0') continue;
		text = lk_arena_printf(arena, "%s --%s '%s'", text, names[i], value);
	}
	if (lk_csv_field(csv, lk_csv_column(csv, "vocab-size"))[0] == '\0')
		text =
			lk_arena_printf(arena, "%s --vocab-size %s", text, vocab[0] != '\0' ? vocab : "50257");
	return text;
}

static void megatron_runs(void **state) {
	(void)state;
	lk_stream *in;
	lk_csv *csv;
	lk_error err = {0};
	assert_int_equal(lk_stream_open(need_data("measured/megatron_ci_memory.csv"), &in, &err),
	                 LK_OK);
	assert_int_equal(lk_csv_open(in, &csv, &err), LK_OK);
	static char names[80][64] = {"model",
	                             "test",
	                             "env",
	                             "type",
	                             "nodes",
	                             "gpus_per_node",
	                             "recipe",
	                             "num-layers",
	                             "hidden-size",
	                             "ffn-hidden-size",
	                             "num-attention-heads",
	                             "num-query-groups",
	                             "group-query-attention",
	                             "kv-channels",
	                             "seq-length",
	                             "micro-batch-size",
	                             "global-batch-size",
	                             "tensor-model-parallel-size",
	                             "pipeline-model-parallel-size",
	                             "num-layers-per-virtual-pipeline-stage",
	                             "context-parallel-size",
	                             "expert-model-parallel-size",
	                             "expert-tensor-parallel-size",
	                             "num-experts",
	                             "moe-router-topk",
	                             "moe-ffn-hidden-size",
	                             "sequence-parallel",
	                             "use-distributed-optimizer",
	                             "recompute-granularity",
	                             "recompute-method",
	                             "recompute-num-layers",
	                             "recompute-modules",
	                             "bf16",
	                             "fp16",
	                             "fp8-format",
	                             "swiglu",
	                             "overlap-grad-reduce",
	                             "overlap-param-gather",
	                             "use-megatron-fsdp",
	                             "data-parallel-sharding-strategy",
	                             "use-torch-fsdp2",
	                             "attention-backend",
	                             "transformer-impl",
	                             "vocab-size",
	                             "padded-vocab-size",
	                             "make-vocab-size-divisible-by",
	                             "optimizer",
	                             "cpu-offloading",
	                             "deterministic-mode",
	                             "num-layers-per-stage",
	                             "untie-embeddings-and-output-weights",
	                             "mtp-num-layers",
	                             "multi-latent-attention"};
	int columns = 0, rows = 0, refused = 0;
	for (; names[columns][0] != '\0'; columns++) {
		assert_int_equal(lk_csv_column(csv, names[columns]), columns);
		if (is_flag(names[columns])) assert_non_null(lk_megatron_flag(names[columns]));
	}
	for (bool more;;) {
		assert_int_equal(lk_csv_next(csv, &more, &err), LK_OK);
		if (!more) break;
		lk_arena arena = LK_ARENA_INIT;
		lk_launch launch;
		char *line = line_of_row(&arena, csv, names, columns), text[1024];
		rows++;
		lk_status status =
			lk_launch_text(&arena, line, strlen(line), lk_csv_field(csv, 1), NULL, &launch, &err);
		if (status == LK_OK) status = lk_job_complete(launch.job, NULL, &err);
		if (status != LK_OK) {
			print_message("%s: %s\n", lk_csv_field(csv, 1), lk_error_text(&err, text, sizeof text));
			refused++;
		}
		lk_arena_free(&arena);
	}
	lk_csv_close(csv);
	lk_stream_close(in);
	print_message("%d runs, %d refused\n", rows, refused);
	assert_true(rows > 500 &&
	            refused * 12 <=
	                rows); /* t5's layers and two groups of micro-batches are not in the table */
}

/* A letter is left out of every key that a configuration says something by: it is named as unknown,
 * with the key that was meant, or the file is refused. */
static const char *const whole_files[] = {
	/* verl */
	"actor_rollout_ref:\n"
	"  model: {path: Qwen/Qwen2.5-7B-Instruct, enable_gradient_checkpointing: true, lora_rank: 8}\n"
	"  actor: {strategy: fsdp, ppo_mini_batch_size: 128, ppo_micro_batch_size_per_gpu: 4,\n"
	"          use_dynamic_bsz: true, ppo_max_token_len_per_gpu: 8192, use_kl_loss: true,\n"
	"          ulysses_sequence_parallel_size: 2, fsdp_config: {param_offload: true,\n"
	"          offload_policy: false, fsdp_size: 8, model_dtype: bf16}}\n"
	"  rollout: {tensor_model_parallel_size: 2, gpu_memory_utilization: 0.6, max_num_seqs: 512}\n"
	"algorithm: {adv_estimator: grpo, use_kl_in_reward: false}\n"
	"data: {train_batch_size: 512, max_prompt_length: 1024, max_response_length: 2048}\n"
	"trainer: {nnodes: 1, n_gpus_per_node: 8}\n",
	/* NeMo RL */
	"policy: {model_name: Qwen/Qwen2.5-1.5B, train_global_batch_size: 512,\n"
	"  train_micro_batch_size: 4, max_total_sequence_length: 512, precision: bfloat16,\n"
	"  dtensor_cfg: {enabled: true, tensor_parallel_size: 2, activation_checkpointing: true},\n"
	"  generation: {backend: vllm, max_new_tokens: 512, vllm_cfg: {tensor_parallel_size: 1,\n"
	"  gpu_memory_utilization: 0.6}}}\n"
	"grpo: {num_prompts_per_step: 32, num_generations_per_prompt: 16}\n"
	"cluster: {num_nodes: 1, gpus_per_node: 8}\n",
	/* axolotl */
	"base_model: NousResearch/Meta-Llama-3.1-8B\nsequence_len: 4096\nmicro_batch_size: 2\n"
	"gradient_accumulation_steps: 4\nadapter: lora\nlora_r: 16\noptimizer: adamw_torch\n"
	"gradient_checkpointing: true\nsample_packing: true\nbf16: true\ndatasets: [{path: a}]\n"
	"tensor_parallel_size: 2\ncontext_parallel_size: 2\n",
	/* LLaMA-Factory */
	"model_name_or_path: meta-llama/Llama-3.1-8B\nstage: sft\nfinetuning_type: lora\n"
	"lora_rank: 8\ncutoff_len: 2048\nper_device_train_batch_size: 1\n"
	"gradient_accumulation_steps: 8\nbf16: true\nflash_attn: fa2\n",
	/* AutoModel */
	"model: {pretrained_model_name_or_path: meta-llama/Llama-3.2-1B}\n"
	"step_scheduler: {global_batch_size: 64, local_batch_size: 8}\n"
	"distributed: {strategy: fsdp2, tp_size: 2, cp_size: 1, sequence_parallel: true,\n"
	"  activation_checkpointing: true}\n"
	"packed_sequence: {packed_sequence_size: 4096}\npeft: {dim: 8}\n",
	/* gpt-neox */
	"pipe_parallel_size: 1\nmodel_parallel_size: 2\nnum_layers: 12\nhidden_size: 768\n"
	"num_attention_heads: 12\nseq_length: 2048\nmax_position_embeddings: 2048\n"
	"train_micro_batch_size_per_gpu: 4\ngradient_accumulation_steps: 2\n"
	"checkpoint_activations: true\nzero_optimization: {stage: 1}\n",
	/* DeepSpeed's keys are read in deepspeed.c, Megatron-LM's as flags */
	"MODEL_ARGS: {--num-layers: 12, --hidden-size: 512, --num-attention-heads: 8,\n"
	"  --seq-length: 1024, --max-position-embeddings: 1024, --micro-batch-size: 4,\n"
	"  --global-batch-size: 32, --tensor-model-parallel-size: 2}\nTEST_TYPE: regular\n",
};

static const char *last_part(const char *key) {
	const char *dot = strrchr(key, '.');
	return dot ? dot + 1 : key;
}

/* The text with a letter left out of the last part of `key`; false: the key does not stand there.
 */
static bool misspell(const char *text, const char *key, char *out, size_t size) {
	const char *part = last_part(key), *found = NULL;
	size_t length = strlen(part);
	for (const char *at = text; (at = strstr(at, part)) != NULL && !found; at += length)
		if (at[length] == ':' && (at == text || strchr(" \n{-", at[-1]))) found = at;
	if (!found || length < 4) return false;
	int before = (int)(found - text + (ptrdiff_t)length / 2);
	snprintf(out, size, "%.*s%s", before, text, text + before + 1);
	return true;
}

/* Several keys of a file may end in the same word: any of them is the one that was changed. */
static bool names_meant(const lk_launch *launch, const char *key) {
	for (int i = 0; i < launch->ignored_count; i++)
		if (launch->ignored[i].as == LK_IGNORED_UNKNOWN && launch->ignored[i].near &&
		    strcmp(last_part(launch->ignored[i].near), last_part(key)) == 0)
			return true;
	return false;
}

static void slips_are_named(void **state) {
	(void)state;
	int tried = 0;
	for (size_t i = 0; i < sizeof whole_files / sizeof *whole_files; i++) {
		lk_arena arena = LK_ARENA_INIT;
		lk_launch whole = {0};
		lk_error err = {0};
		char message[512], wrong[2048], key[160];
		const char *text = whole_files[i];
		if (lk_launch_config_text(&arena, text, strlen(text), "job.yaml", &whole, &err) != LK_OK)
			fail_msg("%zu: %s", i, lk_error_text(&err, message, sizeof message));
		bool flags = whole.understood_count == 0; /* then flags are what the file states */
		int count = flags ? whole.flag_count : whole.understood_count;
		for (int k = 0; k < count; k++) {
			lk_launch slipped = {0};
			lk_copy(key, sizeof key, flags ? whole.flags[k] : whole.understood[k]);
			key[strcspn(key, " ")] = '\0';
			if (!misspell(text, key, wrong, sizeof wrong)) continue;
			tried++;
			lk_status status =
				lk_launch_config_text(&arena, wrong, strlen(wrong), "job.yaml", &slipped, &err);
			if (status == LK_OK && !names_meant(&slipped, key))
				fail_msg("%s passes in silence:\n%s", key, wrong);
		}
		lk_arena_free(&arena);
	}
	assert_true(tried > 60);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gpt_175b),
		cmocka_unit_test(llama3_8b),
		cmocka_unit_test(mixtral),
		cmocka_unit_test(deepseek),
		cmocka_unit_test(trainer_with_deepspeed),
		cmocka_unit_test(trainer_flags),
		cmocka_unit_test(configurations_inside),
		cmocka_unit_test(recipes_by_name),
		cmocka_unit_test(titan_stages),
		cmocka_unit_test(trainers_commands),
		cmocka_unit_test(accelerate_by_hand),
		cmocka_unit_test(accelerate_flags),
		cmocka_unit_test(named_files),
		cmocka_unit_test(more_nodes),
		cmocka_unit_test(automodel_teacher),
		cmocka_unit_test(offloads),
		cmocka_unit_test(losses),
		cmocka_unit_test(kept_formats),
		cmocka_unit_test(half_known_words),
		cmocka_unit_test(networks_of_files),
		cmocka_unit_test(titan_keys),
		cmocka_unit_test(hybrid_sharding),
		cmocka_unit_test(launchers),
		cmocka_unit_test(nccl_variables),
		cmocka_unit_test(flags_only),
		cmocka_unit_test(derived),
		cmocka_unit_test(hybrid_flags),
		cmocka_unit_test(hybrid_flags_of_gpt),
		cmocka_unit_test(variant_flags),
		cmocka_unit_test(vision_is_said),
		cmocka_unit_test(unset_names_are_nothing),
		cmocka_unit_test(functions_write),
		cmocka_unit_test(flag_errors),
		cmocka_unit_test(shell_words),
		cmocka_unit_test(shell_flow),
		cmocka_unit_test(shell_refusals),
		cmocka_unit_test(deepspeed_batches),
		cmocka_unit_test(deepspeed_errors),
		cmocka_unit_test(round_trip),
		cmocka_unit_test(no_settings_needed),
		cmocka_unit_test(flags_state_all),
		cmocka_unit_test(fields_have_text),
		cmocka_unit_test(megatron_runs),
		cmocka_unit_test(slips_are_named),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
