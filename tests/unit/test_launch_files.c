/* test_launch_files.c: configurations of training frameworks and scripts as they lie in folders:
 * what of them is read, what is assumed, and what is refused with place and words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "base/arena.h"
#include "base/text.h"
#include "hw/hw.h"
#include "launch/emit/emit.h"
#include "launch/read.h"
#include "model/layout/job.h"
#include "scratch.h"
#include "model/read/read.h"

/* Files of a case, as "PATH\nTEXT"; the last one is read. `vars` and `sets` are those that a user
 * gives. */
struct read_case {
	const char *files[8];
	const char *holds;   /* "tp=2 mbs=4": what is read, by the fields of a job and by those below */
	const char *assumes; /* a part of a line of the assumptions, or of an ignored flag's reason */
	const char *refused; /* a part of the error; NULL: it is read */
	const char *vars, *sets;
};

static const char *folder_file(lk_arena *arena, const char *entry) {
	size_t length = strcspn(entry, "\n");
	char *path = lk_arena_printf(arena, "%s/%.*s", scratch, (int)length, entry);
	for (char *at = path + strlen(scratch) + 1; (at = strchr(at, '/')) != NULL; at++) {
		*at = '\0';
		assert_true(mkdir(path, 0700) == 0 || errno == EEXIST);
		*at = '/';
	}
	write_text(path, entry + length + 1);
	return path;
}

/* Cases that are not as told: each is shown, and the test fails after the last. */
static int wrong;
#define WRONG(...) (wrong++, print_error(__VA_ARGS__))

/* What is known of a launch besides the fields of its job. */
static const char *launch_value(lk_arena *arena, const lk_launch *launch, const char *name) {
	static const lk_launch_rollout none;
	const lk_launch_rollout *rollout = launch->rollout != NULL ? launch->rollout : &none;
	const struct {
		const char *name, *value;
	} texts[] = {{"names", launch->network},
	             {"framework", launch->framework},
	             {"device", launch->device},
	             {"rollout.task", rollout->task},
	             {"rollout.teacher", rollout->teacher},
	             {"rollout.critic", rollout->critic},
	             {"rollout.engine", rollout->engine}};
	const struct {
		const char *name;
		int value;
	} numbers[] = {{"gpus", launch->gpus},
	               {"assumed", launch->gpus_assumed},
	               {"microbatches", launch->job->microbatches},
	               {"dp", launch->job->dp},
	               {"samples", (int)launch->samples},
	               {"rollout.sequences", rollout->sequences},
	               {"rollout.samples", rollout->samples},
	               {"rollout.engines", rollout->engines},
	               {"rollout.gpus", rollout->gpus},
	               {"rollout.tp", rollout->tp},
	               {"rollout.lag", rollout->lag},
	               {"rollout.no_reference", rollout->no_reference},
	               {"rollout.no_sleep", rollout->no_sleep},
	               {"rollout.critic_gpus", rollout->critic_gpus},
	               {"rollout.teacher_gpus", rollout->teacher_gpus},
	               {"rollout.teacher_tp", rollout->teacher_tp},
	               {"rollout.response", (int)rollout->response_most}};
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
		if (strcmp(texts[i].name, name) == 0) return texts[i].value ? texts[i].value : "";
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
		if (strcmp(numbers[i].name, name) == 0)
			return lk_arena_printf(arena, "%d", numbers[i].value);
	for (const lk_field *field = lk_job_fields; field->name != NULL; field++)
		if (strcmp(field->name, name) == 0) return lk_field_value(arena, field, launch->job);
	fail_msg("%s is no field", name);
	return NULL;
}

static void assert_holds(lk_arena *arena, const lk_launch *launch, const char *wanted,
                         const char *of) {
	char *words = lk_arena_strdup(arena, wanted), *state = NULL;
	for (char *word = strtok_r(words, " ", &state); word; word = strtok_r(NULL, " ", &state)) {
		char *value = strchr(word, '=');
		*value++ = '\0';
		const char *is = launch_value(arena, launch, word);
		if (strcmp(is, value) != 0) WRONG("%s: %s is %s, not %s\n", of, word, is, value);
	}
}

static void assert_said(const lk_launch *launch, const char *part, const char *of) {
	for (int i = 0; i < launch->assumed_count; i++)
		if (strstr(launch->assumed[i], part) != NULL) return;
	for (int i = 0; i < launch->ignored_count; i++)
		if (launch->ignored[i].reason != NULL && strstr(launch->ignored[i].reason, part) != NULL)
			return;
	WRONG("%s: nothing says \"%s\"\n", of, part);
}

static void check_case(const struct read_case *one) {
	lk_arena arena = LK_ARENA_INIT;
	const char *path = NULL, *of = NULL;
	for (size_t i = 0; i < 8 && one->files[i] != NULL; i++) {
		of = one->files[i];
		path = folder_file(&arena, of);
	}
	lk_launch_given given = {.vars = one->vars, .sets = one->sets};
	lk_launch launch = {0};
	lk_error err = {0};
	char message[1024];
	lk_status status = lk_launch_file(&arena, path, &given, &launch, &err);
	lk_error_text(&err, message, sizeof message);
	if (one->refused != NULL) {
		if (status != LK_ERR_INPUT || strstr(message, one->refused) == NULL)
			WRONG("%s: \"%s\" should hold \"%s\"\n", of, status == LK_OK ? "" : message,
			      one->refused);
	} else if (status != LK_OK) {
		WRONG("%s: %s\n", of, message);
	} else {
		assert_holds(&arena, &launch, one->holds, of);
		if (one->assumes != NULL) assert_said(&launch, one->assumes, of);
	}
	lk_arena_free(&arena);
}

static void check_cases(const struct read_case *cases, size_t count) {
	wrong = 0;
	for (size_t i = 0; i < count; i++) check_case(&cases[i]);
	assert_int_equal(wrong, 0);
}
#define CHECK(cases) check_cases(cases, sizeof cases / sizeof *cases)

/* ---- torchtune ---- */

#define TUNE_FILE(name, command, builder, rest)                                                   \
	name "\n# tune run " command "\nmodel:\n  _component_: torchtune.models." builder "\n"        \
		 "optimizer: {_component_: torch.optim.AdamW, fused: True}\nbatch_size: 2\ndtype: bf16\n" \
		 "gradient_accumulation_steps: 8\nloss: {_component_: torchtune." rest
#define TUNE_LOSS  "modules.loss.LinearCrossEntropyLoss}\n"
#define TUNE_MANY  "--nproc_per_node 4 full_finetune_distributed --config a"
#define TUNE_ALONE "lora_finetune_single_device --config a"

static void torchtune(void **state) {
	(void)state;
	static const struct read_case cases[] = {
		{{TUNE_FILE("full.yaml", TUNE_MANY, "llama3_1.llama3_1_8b",
	                TUNE_LOSS "tokenizer: {max_seq_len: 4096}\nfsdp_cpu_offload: True\n")},
	     .holds =
	         "framework=torchtune names=llama3.1-8b assumed=4 mbs=2 seq=4096 dtype=bf16 "
	         "sharding=zero3 master_weights=off state_dtype=bf16 loss=chunked-output update=fused "
	         "offload_params=1 task=pretrain"},
		{{TUNE_FILE("lora.yaml", TUNE_ALONE, "qwen2_5.qlora_qwen2_5_7b_instruct",
	                TUNE_LOSS "enable_activation_checkpointing: True\n")},
	     .holds = "names=qwen2.5-7b gpus=1 sharding=none task=lora lora_rank=8 narrow_base=1 "
	              "recompute=full seq=2048",
	     .assumes = "sequences of 2048 tokens"},
		{{TUNE_FILE("dpo.yaml", TUNE_MANY, "llama2.lora_llama2_7b",
	                "rlhf.loss.DPOLoss}\noptimizer_in_bwd: True\n")},
	     .holds = "names=llama2-7b mbs=4 objective=dpo loss=logits optimizer_in_backward=1"},
		{{"eval.yaml\nmodel: {_component_: torchtune.models.gemma.gemma_2b}\ntasks: [a]\n"},
	     .refused = "optimizer: it is missing: the recipe trains nothing"},
		{{TUNE_FILE("vision.yaml", TUNE_MANY,
	                "llama3_2_vision.llama3_2_vision_11b\n"
	                "  encoder_trainable: True",
	                TUNE_LOSS)},
	     .refused = "model.encoder_trainable: a language model that is frozen"},
		{{TUNE_FILE("grpo.yaml", TUNE_MANY, "llama3_2.llama3_2_3b",
	                TUNE_LOSS "grpo_samples: 16\n")},
	     .refused = "grpo_samples: reinforcement learning by this recipe is not modelled"},
		{{TUNE_FILE("loss.yaml", TUNE_MANY, "llama3_2.llama3_2_3b", "dev.NewLoss}\n")},
	     .refused = "loss._component_: \"torchtune.dev.NewLoss\" is not among its values"},
	};
	CHECK(cases);
}

/* ---- ms-swift ---- */

#define SWIFT      "s/run.sh\nCUDA_VISIBLE_DEVICES=0,1 NPROC_PER_NODE=2 swift "
#define SWIFT_CORE "s/run.sh\nNPROC_PER_NODE=8 megatron "
#define SWIFT_MOE  "--model Qwen/Qwen3-30B-A3B --expert_model_parallel_size 4 "
#define SWIFT_GRPO "rlhf --rlhf_type grpo --model Qwen/Qwen2.5-7B --max_completion_length 1024 "

static void swift_trainer(void **state) {
	(void)state;
	static const struct read_case cases[] = {
		{{SWIFT "sft --model Qwen/Qwen2.5-7B-Instruct --model_name some-name --max_length 4096 "
	            "--per_device_train_batch_size 4 --deepspeed zero2_offload --seed 1\n"},
	     .holds = "framework=ms-swift names=Qwen/Qwen2.5-7B-Instruct gpus=2 task=lora lora_rank=8 "
	              "mbs=4 microbatches=2 seq=4096 dtype=bf16 recompute=full sharding=zero2 "
	              "stack=deepspeed offload_optimizer=1 offload_params=0 samples=1 ragged=on",
	     .assumes = "gradient_accumulation_steps 2: ms-swift's default"},
		{{SWIFT "pt --model Qwen/Qwen3-8B --tuner_type full --packing true --max_length 8192 "
	            "--gradient_accumulation_steps $(expr 16 / 2) --gradient_checkpointing false "
	            "--use_liger_kernel true --optim adamw_torch_fused --attn_impl flash_attn\n"},
	     .holds =
	         "task=pretrain microbatches=8 mbs=1 seq=8192 recompute=none loss=linear eager=off "
	         "sharding=none loaded=unsharded update=fused ragged=auto"},
		{{SWIFT
	      "sft --model Qwen/Qwen3-8B --tuner_type full --torch_dtype float16 --deepspeed zero3 "
	      "--sequence_parallel_size 2 --max_length 32768\n"},
	     .holds = "dtype=fp16 sharding=zero3 cp=2 cp_kind=ulysses master_weights=auto"},
		{{SWIFT "sft --model Qwen/Qwen3-8B --quant_bits 8 --quant_method bnb\n"},
	     .holds = "narrow_base=1 base=int8 task=lora"},
		{{SWIFT "sft --model Qwen/Qwen3-8B --quant_bits 4 --quant_method bnb --use_dora true "
	            "--fsdp fsdp2 --gradient_checkpointing false --dataset a some/LaTeX_OCR#10\n"},
	     .holds = "narrow_base=1 dora=1 sharding=zero3 stack=fsdp recompute=full samples=2 "
	              "freeze_tower=1 seq=2048"},
		{{"s/fsdp.json\n{\"fsdp\": \"full_shard auto_wrap\", \"fsdp_config\": "
	      "{\"reshard_after_forward\": false, \"activation_checkpointing\": true}}\n",
	      SWIFT "sft --model Qwen/Qwen3-8B --fsdp fsdp.json --gradient_checkpointing false\n"},
	     .holds = "sharding=zero2 recompute=full"},
		{{"s/a.json\n{\"compute_environment\": \"LOCAL_MACHINE\", \"distributed_type\": "
	      "\"FSDP\", \"num_processes\": 4, \"fsdp_config\": {\"fsdp_version\": 2, "
	      "\"fsdp_activation_checkpointing\": true}}\n",
	      "s/run.sh\nexport CUDA_VISIBLE_DEVICES=0,1,2,3\naccelerate launch --config_file a.json "
	      "swift/cli/sft.py --model Qwen/Qwen3-8B --gradient_checkpointing false\n"},
	     .holds = "framework=ms-swift gpus=4 sharding=zero3 recompute=full task=lora"},
		{{"s/run.sh\ntorchrun --nproc_per_node 4 swift/cli/rlhf.py --rlhf_type orpo --model "
	      "Qwen/Qwen3-8B --deepspeed zero1\n"},
	     .holds = "gpus=4 sharding=zero1 mbs=2 objective=orpo"},
		{{SWIFT "rlhf --model Qwen/Qwen3-8B --max_length 8192 --per_device_train_batch_size 2\n"},
	     .holds = "objective=dpo mbs=4 seq=8192 microbatches=4"},
		{{SWIFT "rlhf --model Qwen/Qwen3-8B --max_length 8192 --packing true\n"},
	     .holds = "objective=dpo mbs=2 seq=4096",
	     .assumes = "a pack has whole pairs"},
		{{SWIFT "rlhf --rlhf_type gkd --lmbda 0 --model Qwen/Qwen3-8B --teacher_model "
	            "Qwen/Qwen3-32B --max_length 4096\n"},
	     .holds = "rollout.task= mbs=1 seq=4096"},
		{{SWIFT "sft --model Qwen/Qwen3-8B --tuner_type boft --max_length 1024\n"},
	     .holds = "task=lora",
	     .assumes = "its adapters are priced as LoRA"},
		{{"s/sft.yaml\nmodel: Qwen/Qwen3-8B\ndataset: [a, b]\ntuner_type: full\ndeepspeed: "
	      "zero3\nper_device_train_batch_size: 2\nmax_length: 4096\n",
	      "s/run.sh\nNNODES=2 NPROC_PER_NODE=4 swift rlhf sft.yaml --max_length 1024\n"},
	     .holds = "framework=ms-swift gpus=8 sharding=zero3 mbs=4 objective=dpo seq=1024"},
		{{"s/alone.yaml\nmodel: Qwen/Qwen3-8B\ntrain_type: lora\nmax_length: 4096\n"},
	     .holds = "framework=ms-swift task=lora seq=4096"},
		{{"s/run.sh\nswift export --model a\nNPROC_PER_NODE=2 swift sft --model Qwen/Qwen3-8B\n"
	      "swift infer --model b\n"},
	     .holds = "gpus=2 names=Qwen/Qwen3-8B",
	     .assumes = "without packing 2048 tokens are an upper bound"},
	};
	CHECK(cases);
}

/* ---- litgpt ---- */

#define LITGPT(name, rest)                                                                      \
	name "\nout_dir: out\ntrain: {global_batch_size: 16, micro_batch_size: 2, max_seq_length: " \
		 "512, epochs: 1}\ndata: {class_path: litgpt.data.Alpaca}\nseed: 1\n" rest

static void litgpt(void **state) {
	(void)state;
	static const struct read_case cases[] = {
		{{LITGPT("lora.yaml", "checkpoint_dir: checkpoints/meta-llama/Llama-3.2-1B\n"
	                          "precision: bf16-true\nquantize: bnb.nf4-dq\ndevices: 1\nlora_r: 4\n"
	                          "lora_query: true\nlora_mlp: false\n")},
	     .holds = "framework=litgpt names=checkpoints/meta-llama/Llama-3.2-1B gpus=1 mbs=2 gbs=16 "
	              "seq=512 task=lora lora_rank=4 lora_targets=q_proj+v_proj narrow_base=1 "
	              "base=nf4-held dtype=bf16 "
	              "master_weights=off state_dtype=bf16 sharding=none recompute=none ragged=on"},
		{{LITGPT("lora.yaml", "checkpoint_dir: microsoft/phi-2\nlora_r: 8\nlora_mlp: true\n")},
	     .holds = "lora_targets=q_proj+v_proj+gate_proj+up_proj+down_proj lora_rank=8 gpus=1 "
	              "master_weights=auto"},
		{{LITGPT("full.yaml", "checkpoint_dir: microsoft/phi-2\ndevices: 4\nnum_nodes: 2\n"
	                          "precision: bf16-mixed\nresume: false\n")},
	     .holds = "names=microsoft/phi-2 gpus=8 task=pretrain sharding=zero3 recompute=full "
	              "grad_reduce_fp32=off",
	     .assumes = "activations are checkpointed, as litgpt does with several GPUs"},
		{{LITGPT("new.yaml",
	             "model_name: mine\ndevices: auto\nprecision: bf16-mixed\nmodel_config: "
	             "{n_layer: 4, n_embd: 256, n_head: 4, n_query_groups: 2, intermediate_size: 512, "
	             "padded_vocab_size: 1000, block_size: 512, bias: false, parallel_residual: false, "
	             "norm_class_name: RMSNorm, mlp_class_name: LLaMAMLP}\n")},
	     .holds = "layers=4 hidden=256 heads=4 kv_heads=2 head_dim=64 ffn=512 vocab=1000 norm=rms "
	              "gated=1 qkv_bias=0 parallel_residual=0 compile=1 update=fused sharding=zero3"},
		{{LITGPT("new.yaml", "model_name: pythia-14m\nmodel_config: {n_layer: 2}\n")},
	     .holds = "layers=2 hidden=4096 ffn=16384 norm=layer norm_bias=1 mlp_bias=1 gated=0 "
	              "parallel_residual=1"},
		{{LITGPT("shared.yaml", "model_name: x\nmodel_config: {n_layer: 2, n_shared_expert: 1}\n")},
	     .refused = "model_config.n_shared_expert: shared experts that the file describes itself"},
		{{LITGPT("adapter.yaml", "checkpoint_dir: microsoft/phi-2\nquantize: bnb.nf4\n")},
	     .refused = "quantize: without lora_r the file is one of finetune_adapter"},
		{{LITGPT("wrong.yaml", "checkpoint_dir: microsoft/phi-2\nlora_r: many\n")},
	     .refused = "lora_r"},
		/* the command line */
		{{"run.sh\npip install litgpt\nlitgpt finetune_lora google/gemma-2b --devices 2 --lora_r "
	      "32 "
	      "--precision bf16-true --train.micro_batch_size 1 --train.max_seq_length 256\n"},
	     .holds = "framework=litgpt names=google/gemma-2b gpus=2 lora_rank=32 task=lora mbs=1 "
	              "gbs=16 seq=256 sharding=zero3"},
		{{"run.sh\nlitgpt finetune lora --checkpoint_dir checkpoints/google/gemma-2b\n"},
	     .holds = "names=checkpoints/google/gemma-2b task=lora lora_rank=8 gpus=1"},
		{{LITGPT("full.yaml", "checkpoint_dir: microsoft/phi-2\n"),
	      "run.sh\nlitgpt finetune_full --config full.yaml --train.micro_batch_size 8\n"},
	     .holds = "names=microsoft/phi-2 mbs=8 gbs=16 task=pretrain"},
		{{"run.sh\nlitgpt pretrain pythia-160m --devices 8\n"},
	     .holds = "names=pythia-160m mbs=4 gbs=512 gpus=8 sharding=zero3"},
		{{"run.sh\nlitgpt finetune_adapter_v2 google/gemma-2b\n"},
	     .refused = "litgpt finetune_adapter_v2: LLaMA-Adapter's prompts are not modelled"},
		{{"run.sh\nlitgpt generate google/gemma-2b\n"},
	     .refused = "litgpt generate does not train one network; litgpt pretrain finetune"},
	};
	CHECK(cases);
}

static void swift_megatron(void **state) {
	(void)state;
	static const struct read_case cases[] = {
		{{SWIFT_CORE "sft " SWIFT_MOE "--tensor_model_parallel_size 2 --sequence_parallel true "
	                 "--pipeline_model_parallel_size 2 --decoder_last_pipeline_num_layers 23 "
	                 "--micro_batch_size 2 --global_batch_size 32 --max_length 8192 --packing "
	                 "true --recompute_granularity full --recompute_method block "
	                 "--recompute_num_layers 4 --attention_backend flash\n"},
	     .holds = "framework=ms-swift gpus=8 tp=2 pp=2 ep=4 etp=1 mbs=2 gbs=32 seq=8192 "
	              "task=pretrain stack=megatron sharding=zero1 sequence_parallel=on "
	              "last_stage_layers=23 recompute=full recompute_layers=4 grouped_gemm=on "
	              "overlap_grad_reduce=off max_connections=1 attn_library=flash"},
		{{SWIFT_CORE "pt " SWIFT_MOE "--max_length 4096 --use_distributed_optimizer false "
	                 "--fp8_format e4m3 --fp8_recipe blockwise --fp8_param_gather true "
	                 "--exp_avg_dtype bf16 --moe_token_dispatcher_type flex\n"},
	     .holds = "gbs=16 mbs=1 recompute=selective sharding=none dtype=fp8 fp8_recipe=blockwise "
	              "narrow_weights=1 state_dtype=bf16 dispatcher=node"},
		{{SWIFT_CORE "sft " SWIFT_MOE "--tuner_type lora --max_length 4096\n"},
	     .holds = "task=lora lora_rank=8 lora_targets=experts"},
		{{SWIFT_CORE "sft " SWIFT_MOE "--tuner_type lora --target_modules linear_qkv linear_proj "
	                 "--recompute_granularity none --max_length 4096\n"},
	     .holds = "task=lora lora_targets=attention recompute=none"},
		{{"s/run.sh\nNNODES=$WORLD_SIZE megatron sft --pipeline_model_parallel_size 2 "
	      "--model Qwen/Qwen3-30B-A3B --expert_model_parallel_size 8\n"},
	     .holds = "gpus=0 assumed=16 pp=2 ep=8"},
		{{SWIFT_CORE "rlhf --rlhf_type dpo --model Qwen/Qwen3-8B --max_length 8192 "
	                 "--micro_batch_size 2 --global_batch_size 16\n"},
	     .holds = "objective=dpo mbs=4 gbs=32 seq=8192"},
		{{SWIFT_CORE SWIFT_GRPO "--global_batch_size 64 --steps_per_generation 4 --max_length 2048 "
	                            "--vllm_mode colocate --vllm_max_model_len 2048 --sleep_level 1\n"},
	     .holds = "rollout.task=grpo rollout.sequences=256 rollout.samples=8 gbs=64 seq=2048 "
	              "rollout.response=1024 rollout.no_sleep=0 rollout.no_reference=0"},
		{{SWIFT_CORE "sft --model Qwen/Qwen3-8B --tensor_model_parallel_size $TP\n"},
	     .refused = "$TP is not set in the script; give --var TP=VALUE"},
	};
	CHECK(cases);
}

/* ---- MaxText ---- */

#define MAX_LINE "python3 -m MaxText.train MaxText/configs/base.yml run_name=$1 "

static void maxtext(void **state) {
	(void)state;
	static const struct read_case cases[] = {
		/* axes: the devices of one that does not divide the batch share a sample */
		{{"run.sh\n" MAX_LINE "model_name=llama3-8b hardware=gpu per_device_batch_size=0.25 "
	      "ici_tensor_parallelism=8 ici_fsdp_parallelism=1 dcn_data_parallelism=2 "
	      "dcn_fsdp_parallelism=1\n"},
	     .holds = "framework=maxtext names=llama3-8b assumed=16 tp=8 mbs=2 seq=2048 dtype=bf16 "
	              "recompute=full sharding=none",
	     .assumes =
	         "MaxText/configs/base.yml is not here: taken as MaxText's own file of that name"},
		{{"run.sh\n" MAX_LINE "model_name=llama2-7b per_device_batch_size=2 "
	      "ici_fsdp_parallelism=4 dcn_fsdp_parallelism=2 ici_context_parallelism=2 "
	      "quantization=fp8 weight_dtype=bfloat16 gradient_accumulation_steps=3\n"},
	     .holds = "assumed=16 cp=2 mbs=4 microbatches=3 dtype=fp8 master_weights=off "
	              "cp_kind=allgather",
	     .assumes = "hardware: TPUs, MaxText's default, are not modelled"},
		{{"run.sh\n" MAX_LINE "model_name=llama2-7b per_device_batch_size=2 hardware=gpu "
	      "dcn_pipeline_parallelism=4 num_pipeline_microbatches=8 "
	      "num_layers_per_pipeline_stage=2\n"},
	     .holds = "pp=4 vp=4 microbatches=8 schedule=interleaved"},
		{{"run.sh\n" MAX_LINE "model_name=mixtral-8x7b ici_expert_parallelism=8 "
	      "ici_fsdp_parallelism=2 capacity_factor=1.0\n"},
	     .holds = "assumed=16 ep=8 mbs=12",
	     .assumes = "experts that drop tokens beyond a capacity"},
		{{"run.sh\n" MAX_LINE "per_device_batch_size=0.5 ici_fsdp_parallelism=8\n"},
	     .refused = "per_device_batch_size: 0.5 samples of a device are 0.5 of a replica's "
	                "micro-batch; state a batch that the replicas divide into whole samples"},
		/* networks: by scale, by MaxText's own names */
		{{"run.sh\n" MAX_LINE "global_parameter_scale=16\n"},
	     .holds = "layers=32 hidden=4096 heads=64 kv_heads=64 ffn=28672 head_dim=128 vocab=32000"},
		{{"run.sh\n" MAX_LINE "global_parameter_scale=24\n"},
	     .refused = "global_parameter_scale: it is no power of 2"},
		{{"run.sh\n" MAX_LINE "decoder_block=gpt3 mlp_activations=gelu trainable_position_size=512 "
	      "logits_via_embedding=true\n"},
	     .holds = "norm=layer gated=0 position_rows=512 tied=1"},
		{{"run.sh\n" MAX_LINE "model_name=gpt3-52k\n"}, .holds = "layers=1 hidden=16 vocab=1024"},
		{{"run.sh\n" MAX_LINE "model_name=deepseek3-671b\n"}, .holds = "names=deepseek-v3"},
		/* its own configurations, and programs */
		{{"run.sh\npython3 MaxText/train.py MaxText/configs/models/gpu/llama3_8b.yml x=$2\n"},
	     .holds = "names=llama3-8b mbs=12 seq=8192 recompute=selective"},
		{{"run.sh\npython3 -m maxtext.trainers.pre_train.train model_name=qwen3-8b\n"},
	     .holds = "names=qwen3-8b mbs=12"},
		{{"run.sh\npython3 -m maxtext.trainers.post_train.dpo.train_dpo model_name=qwen3-8b\n"},
	     .holds = "mbs=24 objective=dpo"},
		{{"run.sh\npython3 -m maxtext.trainers.post_train.rl.train_rl model_name=qwen3-8b\n"},
	     .refused = "reinforcement learning by this program is not modelled"},
		{{"run.sh\n" MAX_LINE "model_name=$3\n"}, .refused = "model_name: line 1: "},
		/* of several commands the one that trains; none */
		{{"run.sh\npython3 -m pip install x.y\n" MAX_LINE "model_name=llama2-7b\n"
	      "python3 -m MaxText.decode MaxText/configs/base.yml model_name=llama2-70b\n"
	      "python3 end_to_end/tpu/eval_assert.py final_loss metrics.txt 2\n"},
	     .holds = "names=llama2-7b"},
		{{"run.sh\npython3 -m MaxText.decode MaxText/configs/base.yml model_name=llama2-70b\n"},
	     .refused = "MaxText.decode generates texts, and trains nothing"},
		{{"run.sh\npython3 -m maxtext.checkpoint_conversion.to_maxtext model_name=llama2-70b\n"},
	     .refused = "converts checkpoints, and trains nothing"},
	};
	CHECK(cases);
}

static void swift_others(void **state) {
	(void)state;
	static const struct read_case cases[] = {
		{{SWIFT SWIFT_GRPO "--num_generations 4 --vllm_mode server --use_vllm true --beta 0.0 "
	                       "--vllm_tensor_parallel_size 2 --deepspeed zero3\n"},
	     .holds = "rollout.task=grpo rollout.samples=4 rollout.engines=1 rollout.tp=2 "
	              "rollout.no_reference=1 rollout.no_sleep=1 mbs=1 gbs=2 seq=1536",
	     .assumes = "the server that generates has one engine"},
		{{SWIFT "rlhf --rlhf_type gkd --lmbda 1 --model Qwen/Qwen3-8B --use_vllm true --vllm_mode "
	            "colocate --teacher_model Qwen/Qwen3-32B --max_length 1024\n"},
	     .holds = "rollout.task=distill rollout.teacher=Qwen/Qwen3-32B rollout.samples=1 seq=1536"},
		{{"s/run.sh\nCUDA_VISIBLE_DEVICES=0,1,2,3 NPROC_PER_NODE=2 swift sft --model a\n"},
	     .refused = "CUDA_VISIBLE_DEVICES: 4 devices for 2 processes: layers of a network that are "
	                "put on several devices (device_map) are not modelled; set NPROC_PER_NODE=4"},
		{{"s/run.sh\nCUDA_VISIBLE_DEVICES=0,1 python swift/cli/sft.py --model a\n"},
	     .refused = "2 devices for 1 process: layers"},
		{{SWIFT "sft --model Qwen/Qwen3-Embedding-0.6B\n"}, .refused = "model: retrieval is not"},
		{{SWIFT "rlhf --rlhf_type other --model a\n"}, .refused = "steps of this method are not"},
		{{"s/run.sh\nnohup swift sft --model Qwen/Qwen3-8B --max_length 1024 > log 2>&1 &\n"},
	     .holds = "gpus=1 seq=1024",
	     .assumes = "one process on one GPU: NPROC_PER_NODE is not set"},
		{{"s/run.sh\ndlrover-run --nnodes 1:2 --nproc_per_node=4 /opt/lib/swift/cli/sft.py --model "
	      "Qwen/Qwen3-8B --deepspeed zero1\n"},
	     .holds = "gpus=8 sharding=zero1"},
		{{"s/run.sh\nbash -c 'NPROC_PER_NODE=4 swift sft --model Qwen/Qwen3-8B'\n"},
	     .holds = "gpus=4"},
		{{"s/run.sh\nCUDA_VISIBLE_DEVICES=0,1 swift sft --model a\n"},
	     .refused = "2 devices for 1 process: layers"},
		{{SWIFT "rlhf --rlhf_type kto --model a\n"}, .holds = "objective=kto mbs=1"},
		{{SWIFT "rlhf --rlhf_type ppo --model a\n"}, .refused = "rlhf_type: PPO's step"},
		{{SWIFT "rlhf --rlhf_type rm --model a\n"}, .holds = "objective=reward mbs=2"},
		{{SWIFT "rlhf --rlhf_type cpo --model a\n"}, .holds = "objective=orpo mbs=2"},
		{{SWIFT "rlhf --rlhf_type gkd --model a --teacher_model b\n"},
	     .refused = "lmbda: distillation whose student writes some of its batches"},
		{{SWIFT "rlhf --rlhf_type gkd --lmbda 0 --model a\n"}, .refused = "teacher_model: "},
		{{SWIFT "sft --task_type seq_cls --model a\n"}, .holds = "objective=tokens labels=2"},
		{{SWIFT "sft --task_type seq_cls --num_labels 7 --use_liger_kernel true --model a\n"},
	     .holds = "labels=7 loss=logits fused_cross_entropy=auto"},
		{{SWIFT "sft --task_type embedding --model a\n"}, .refused = "task_type: retrieval is not"},
		{{SWIFT "sft --freeze_llm true --model a\n"}, .refused = "freeze_llm: a language model"},
		{{SWIFT "sft --tuner_type llamapro --model a\n"}, .refused = "the layers that LLaMA-Pro"},
		{{SWIFT "sft --per_device_train_batch_size 0 --model a\n"},
	     .refused = "per_device_train_batch_size: it is 0; give a whole number from 1"},
		{{SWIFT "sft absent.yaml\n"},
	     .refused = "swift sft: absent.yaml, its configuration, is not"},
		{{"s/run.sh\nNPROC_PER_NODE=none swift sft --model a\n"}, .refused = "NPROC_PER_NODE"},
		{{"s/run.sh\nswift infer --model a\n"},
	     .refused = "swift infer generates texts, and trains nothing; swift sft pt rlhf is read"},
		{{"s/run.sh\nswift merge_lora --model a\n"}, .refused = "converts checkpoints, and trains"},
		{{"s/run.sh\nmegatron export --model a\n"}, .refused = "megatron export converts"},
		{{"s/run.sh\npython swift/cli/eval.py --model a\n"}, .refused = "swift eval evaluates"},
		/* the words have other meanings, too */
		{{"s/run.sh\nsrun --backend megatron swift python pretrain_gpt.py --num-layers 2 "
	      "--hidden-size 64 --num-attention-heads 2 --micro-batch-size 3\n"},
	     .holds = "mbs=3"},
	};
	CHECK(cases);
}

/* ---- torchtitan's networks, and GPUs in comments ---- */

#define TITAN(head, name, flavor)                                                 \
	"titan.toml\n" head "[model]\nname = \"" name "\"\nflavor = \"" flavor "\"\n" \
	"[training]\nlocal_batch_size = 2\nseq_len = 1024\n[parallelism]\n"           \
	"data_parallel_shard_degree = -1\n"

static void titan_networks(void **state) {
	(void)state;
	static const struct read_case cases[] = {
		{{TITAN("# NOTE: this is a preset for 64 A100 GPUs.\n", "llama3", "405B")},
	     .holds = "names=llama3.1-405b gpus=64 device=A100 mbs=2",
	     .assumes = "64 GPUs, which a comment of the file names"},
		{{TITAN("# a preset for tests\n", "llama3", "debugmodel_flex_attn")},
	     .holds =
	         "model=llama3-debugmodel_flex_attn layers=6 hidden=256 heads=16 ffn=768 vocab=2048"},
		{{TITAN("", "simple_fsdp.deepseek_v3", "debugmodel")},
	     .holds = "layers=6 hidden=256 experts=8 topk=3 expert_ffn=256 shared_ffn=512"},
		{{TITAN("", "llama3_ft", "8B")}, .holds = "names=llama3-8B"},
		{{TITAN("", "qwen3", "debugmodel_moe")}, .holds = "layers=8 experts=64 expert_ffn=768"},
		{{TITAN("", "llama4", "debugmodel")}, .holds = "layers=6 experts=8 moe_every=2"},
		{{TITAN("", "gpt_oss", "debugmodel")}, .holds = "layers=4 hidden=256 experts=8 window=128"},
		{{TITAN("", "flux", "flux-dev")}, .refused = "torchtitan's diffusion models are not read"},
	};
	CHECK(cases);
}

/* ---- Primus ---- */

#define PRIMUS "px/primus/configs/"
#define PRIMUS_TRAINER                                                              \
	PRIMUS "modules/megatron/pre.yaml\nextends: [base.yaml]\nmicro_batch_size: 1\n" \
		   "bf16: true\nenable_zero_bubble: true\nmy_usual: 3\nstderr_sink_level: INFO\n"
#define PRIMUS_BASE PRIMUS "modules/megatron/base.yaml\nglobal_batch_size: 32\nlr: 1.0e-4\n"
#define PRIMUS_MODEL                                                                             \
	PRIMUS "models/megatron/net.yaml\nnum_layers: 4\nhidden_size: 1024\nffn_hidden_size: 2816\n" \
		   "num_attention_heads: 8\nseq_length: 512\nmax_position_embeddings: 512\n"             \
		   "normalization: rmsnorm\nadd_bias_linear: false\ngated_linear_unit: true\n"           \
		   "share_embeddings_and_output_weights: false\n"
#define PRIMUS_JOB(overrides)                                                  \
	"px/examples/megatron/configs/MI300X/job.yaml\nmodules:\n  pre_trainer:\n" \
	"    framework: megatron\n    config: pre.yaml\n    model: net.yaml\n    " \
	"overrides: " overrides "\n"

static void primus(void **state) {
	(void)state;
	static const struct read_case cases[] = {
		/* config < model < overrides; the patch alone switches zero-bubble schedules on */
		{{PRIMUS_BASE, PRIMUS_TRAINER, PRIMUS_MODEL,
	      PRIMUS_JOB("{micro_batch_size: 2, tensor_model_parallel_size: 2, "
	                 "pipeline_model_parallel_size: 2}")},
	     .vars = "NNODES=2",
	     .holds = "framework=primus device=MI300X gpus=16 tp=2 pp=2 mbs=2 gbs=32 layers=4 "
	              "hidden=1024 ffn=2816 seq=512 dtype=bf16 norm=rms gated=1 tied=0 "
	              "mlp_bias=0 schedule=1f1b"},
		{{PRIMUS_JOB("{pipeline_model_parallel_size: 2, patch_zero_bubble: true, "
	                 "enable_zero_bubble: true}")},
	     .vars = "NNODES=1\nGPUS_PER_NODE=4",
	     .holds = "gpus=4 pp=2 mbs=1"},
		{{PRIMUS_JOB("{stderr_sink_level: DEBUG}")},
	     .holds = "gpus=0 assumed=8 tp=1 mbs=1",
	     .assumes = "a node of 8 GPUs, or as many as the degrees need"},
		{{PRIMUS_JOB("{stderr_sink_level: DEBUG}")}, .holds = "mbs=1", .assumes = "logging"},
		{{PRIMUS_JOB("{my_own: 4}")}, .holds = "mbs=1", .assumes = "unknown to lockstep"},
		{{PRIMUS_JOB("{num_experts: 8, moe_ffn_hidden_size: 512, moe_router_topk: 2, "
	                 "use_turbo_deepep: true, expert_model_parallel_size: 8}")},
	     .vars = "GPUS_PER_NODE=8",
	     .holds = "gpus=8 ep=8 experts=8 topk=2 dispatcher=node"},
		{{PRIMUS_JOB("{model_type: mamba}")},
	     .refused = "model_type: hybrids whose layers Primus's own module specification orders"},
		{{"px/job.yaml\nmodules: {pre_trainer: {framework: megatron, config: none.yaml}}\n"},
	     .refused = "none.yaml: the preset is not found in primus/configs"},
		{{PRIMUS "modules/jax/pre.yaml\nlr: 1\n",
	      "px/jax.yaml\nmodules: {sft_trainer: {framework: jax, config: pre.yaml}}\n"},
	     .refused = "the back end jax is not read; megatron and torchtitan are"},
		{{PRIMUS "part.yaml\nextends: [base]\nseq_length: 8\n"},
	     .refused = "extends: it is a preset of Primus, a part of jobs; give the file of a job"},
		{{PRIMUS "modules/torchtitan/pre.yaml\ntraining: {steps: 10}\n",
	      PRIMUS "models/torchtitan/l3.yaml\njob: {dump: x}\nmodel: {name: llama3, flavor: 8B, "
	             "converters: [quantize.linear.float8]}\n",
	      "px/titan.yaml\nmodules:\n  pre_trainer:\n    framework: torchtitan\n"
	      "    config: pre.yaml\n    model: l3.yaml\n    overrides:\n"
	      "      training: {local_batch_size: 4, seq_len: 8192}\n"
	      "      parallelism: {tensor_parallel_degree: 2, data_parallel_shard_degree: -1}\n"},
	     .vars = "NNODES=2",
	     .holds = "framework=primus gpus=16 tp=2 mbs=4 seq=8192 dtype=fp8 stack=torchtitan "
	              "names=llama3-8B"},
	};
	CHECK(cases);
}

/* ---- Megatron-LM's own forms, NeMo, Megatron-Bridge ---- */

#define SHAPE \
	"num_layers: 2, hidden_size: 1024, num_attention_heads: 8, max_position_embeddings: 512"

#define SHAPE_LINES                                                  \
	"num_layers: 2\n  hidden_size: 1024\n  num_attention_heads: 8\n" \
	"  max_position_embeddings: 512\n"

static void megatron_files(void **state) {
	(void)state;
	static const struct read_case cases[] = {
		{{"mt/gpt/case_dgx_a100_2N4G/model_config.yaml\nENV_VARS: {NCCL_ALGO: Ring}\nMODEL_ARGS:\n"
	      "  --num-layers: 12\n  --hidden-size: 512\n  --num-attention-heads: 8\n"
	      "  --micro-batch-size: 4\n  --global-batch-size: 32\n  --seq-length: 1024\n"
	      "  --max-position-embeddings: 1024\n  --tensor-model-parallel-size: 2\n"
	      "  --bf16: true\n  --moe-layer-freq: ([1]*12)\n"},
	     .holds = "framework=megatron assumed=8 layers=12 hidden=512 mbs=4 gbs=32 seq=1024 tp=2 "
	              "dtype=bf16",
	     .assumes = "2 nodes of 4 GPUs, as the tests run"},
		{{"mt/bert/plain/model_config.yaml\nMODEL_ARGS: {--num-layers: 2, --hidden-size: 1024, "
	      "--num-attention-heads: 16, --seq-length: 512, --max-position-embeddings: 512, "
	      "--data-path: '[a b]'}\n"},
	     .holds = "assumed=8 network=encoder heads=16",
	     .assumes = "1 node of 8 GPUs"},
		{{"mt/gpt/x_gb200/model_config.yaml\nMODEL_ARGS: {--num-layers: 2, --hidden-size: 1024, "
	      "--num-attention-heads: 16}\n"},
	     .holds = "assumed=4",
	     .assumes = "1 node of 4 GPUs"},
		{{"mt/gpt/i/model_config.yaml\nMODE: inference\nMODEL_ARGS: {--num-layers: 2}\n"},
	     .refused = "MODE: the test generates, and trains nothing; give one that trains"},
		/* --yaml-cfg */
		{{"cfg.yaml\nworld_size: 8\nmicro_batch_size: 2\nglobal_batch_size: 64\nseq_length: 512\n"
	      "language_model: {" SHAPE ", activation: swiglu, bias: true}\n"
	      "model_parallel: {tensor_model_parallel_size: 2, bf16: true, sequence_parallel: true}\n"},
	     .holds = "framework=megatron gpus=8 tp=2 mbs=2 gbs=64 layers=2 gated=1 dtype=bf16 "
	              "sequence_parallel=on mlp_bias=1"},
		/* a switch that is off, a flag that turns it off, a number below its least */
		{{"cfg.yaml\nlanguage_model: {" SHAPE ", bias: false, rope_fusion: false, "
	      "untied_thing: false, num_moe_experts: 0}\nmodel_parallel: {fp16: false}\n"},
	     .holds = "gpus=0 mlp_bias=0 experts=0 dtype=fp32"},
		{{"cfg.yaml\nlanguage_model: {" SHAPE
	      ", num_moe_expert: 8}\nmodel_parallel: {fp16: true}\n"},
	     .holds = "dtype=fp16 experts=0",
	     .assumes = "unknown to lockstep"},
		{{"nemo.yaml\ntrainer: {num_nodes: 2, devices: 8, precision: bf16-mixed}\nexp_manager: {}\n"
	      "model:\n  " SHAPE_LINES "  micro_batch_size: 1\n  global_batch_size: 16\n"
	      "  encoder_seq_length: 512\n  pipeline_model_parallel_size: 2\n"
	      "  optim: {name: distributed_fused_adam}\n  tokenizer: {type: "
	      "meta-llama/Llama-3.1-8B}\n"},
	     .holds = "framework=nemo gpus=16 pp=2 mbs=1 gbs=16 seq=512 dtype=bf16 sharding=zero1"},
		{{"nemo16.yaml\ntrainer: {devices: 4, precision: 16}\nmodel:\n  " SHAPE_LINES
	      "  normalization: layernorm1p\n  encoder_seq_length: 512\n"},
	     .holds = "gpus=4 dtype=fp16 norm=layer sharding=none"},
		{{"bridge.yaml\nmodel:\n  " SHAPE_LINES "  seq_length: 512\n  context_parallel_size: 2\n"
	      "train: {global_batch_size: 64, micro_batch_size: 2}\n"
	      "mixed_precision: {bf16: true}\nddp: {overlap_grad_reduce: true}\n"
	      "optimizer: {use_distributed_optimizer: true}\n"},
	     .holds = "framework=megatron-bridge gpus=0 cp=2 mbs=2 gbs=64 sharding=zero1 dtype=bf16 "
	              "overlap_grad_reduce=on"},
		/* a value that only the cluster knows is asked for */
		{{"bridge2.yaml\nmodel:\n  " SHAPE_LINES "  tensor_model_parallel_size: ${oc.env:TP}\n"
	      "train: {global_batch_size: 64}\n"},
	     .refused = "is not known"},
	};
	CHECK(cases);
}

/* ---- llm-foundry, MaxText, LLaMA-Factory, torchtitan ---- */

#define MAXTEXT(rest) "max.yml\nhardware: gpu\nper_device_batch_size: 4\n" rest

static void other_files(void **state) {
	(void)state;
	static const struct read_case cases[] = {
		{{"mpt.yaml\nmax_duration: 1ba\nglobal_train_batch_size: 64\n"
	      "device_train_microbatch_size: 2\nmax_seq_len: 2048\nprecision: amp_bf16\n"
	      "model: {n_layers: 12, d_model: 768, n_heads: 12, expansion_ratio: 3, "
	      "attn_config: {alibi: true, attn_impl: torch, kv_n_heads: 4}}\n"
	      "optimizer: {name: decoupled_lionw}\n"
	      "fsdp_config: {sharding_strategy: SHARD_GRAD_OP, activation_checkpointing: true}\n"},
	     .holds = "framework=llm-foundry layers=12 hidden=768 heads=12 kv_heads=4 ffn=2304 "
	              "head_dim=64 vocab=50368 tied=1 norm=layer position_rows=0 mbs=2 gbs=64 "
	              "seq=2048 dtype=bf16 optimizer=lion sharding=zero2 recompute=full "
	              "attn_kernel=unfused stack=llm-foundry vocab_multiple=1"},
		{{"mpt.yaml\nmax_duration: 1ba\nvariables: {max_seq_len: 1024, "
	      "global_train_batch_size: 8}\nmodel: {pretrained_model_name_or_path: gpt2}\n"
	      "fsdp_config: {}\n"},
	     .holds = "names=gpt2 seq=1024 gbs=8 sharding=zero3 dtype=bf16 layers=0"},
		{{MAXTEXT("base_emb_dim: 2048\nbase_num_query_heads: 16\nbase_mlp_dim: 5632\n"
	              "base_num_decoder_layers: 8\nvocab_size: 32000\nmax_target_length: 1024\n"
	              "model_name: default\nici_fsdp_parallelism: 8\n")},
	     .holds = "framework=maxtext hidden=2048 kv_heads=16 head_dim=128 ffn=5632 layers=8 "
	              "gated=1 norm=rms mbs=4 seq=1024 recompute=full sharding=zero3 dtype=bf16"},
		{{MAXTEXT("model_name: llama3-8b\nremat_policy: minimal\n")},
	     .holds = "names=llama3-8b seq=2048 recompute=selective layers=0",
	     .assumes = "remat_policy minimal is priced as selective recomputation"},
		{{"max.yml\nper_device_batch_size: 4\nmodel_name: llama3-8b\n"},
	     .holds = "names=llama3-8b mbs=4",
	     .assumes = "hardware: TPUs, MaxText's default, are not modelled: the layout is priced"},
		{{"max.yml\nbase_config: base.yml\nmodel_name: llama3-8b\nhardware: gpu\n"
	      "per_device_batch_size: 2\nenable_lora: true\nlora: {lora_rank: 4}\n"},
	     .holds = "names=llama3-8b mbs=2 seq=2048 task=lora lora_rank=4"},
		{{"max.yml\nper_device_batch_size: 4\nmodel_name: llama3-8b\n"},
	     .sets = "hardware=gpu",
	     .holds = "names=llama3-8b mbs=4"},
		{{"lf1.yaml\nmodel: Qwen/Qwen3-8B\nmodel_class: llm\nglobal_batch_size: 32\n"
	      "micro_batch_size: 2\npeft_config: {name: lora, r: 16}\ndist_config: {name: fsdp2, "
	      "cp_size: 2}\n"},
	     .holds = "framework=llama-factory names=Qwen/Qwen3-8B mbs=2 gbs=32 cp=2 lora_rank=16 "
	              "task=lora seq=2048 dtype=bf16 recompute=full sharding=zero3",
	     .assumes = "LLaMA-Factory's defaults where nothing is stated"},
		{{"lf1.yaml\nmodel: Qwen/Qwen3-8B\nmodel_class: llm\nfp16: true\ncutoff_len: 512\n"
	      "enable_activation_checkpointing: false\npeft_config: {name: freeze, r: 4}\n"},
	     .holds = "lora_rank=0 mbs=1 seq=512 dtype=fp16 recompute=none"},
		{{"lf1.yaml\nmodel: Qwen/Qwen3-8B\nmodel_class: cls\n"},
	     .holds = "labels=2",
	     .assumes = "the head has 2 columns"},
		{{"titan.toml\n[model]\nname = \"llama3\"\nflavor = \"8B\"\nconverters = [\"mx\"]\n"
	      "[training]\nlocal_batch_size = 2\nseq_len = 4096\n[parallelism]\n"
	      "pipeline_parallel_degree = 2\ndata_parallel_shard_degree = -1\n"},
	     .holds = "framework=torchtitan pp=2 mbs=1 seq=4096 recompute=selective",
	     .assumes = "selective recomputation, torchtitan's default"},
		{{"titan.toml\n[model]\nname = \"llama3\"\nflavor = \"8B\"\n"
	      "converters = [\"quantize.linear.mx\"]\n[training]\nlocal_batch_size = 2\n"
	      "[activation_checkpoint]\nmode = \"none\"\n"},
	     .holds = "dtype=mxfp8 recompute=none"},
		{{"titan.toml\n[model]\nname = \"llama3\"\nflavor = \"8B\"\nconverters = [\"float8\"]\n"
	      "[training]\nlocal_batch_size = 2\n[float8]\nrecipe_name = \"rowwise\"\n"
	      "[activation_checkpoint]\nmode = \"none\"\n"},
	     .holds = "dtype=fp8 fp8_recipe=rowwise recompute=none"},
		{{"none.yaml\nfavourite_colour: blue\n"},
	     .refused = "its keys belong to none of megatron, primus, nemo-rl, verl,"},
		{{"list.yaml\n- 1\n- 2\n"}, .refused = "the document is not a map of settings"},
	};
	CHECK(cases);
}

/* ---- NeMo RL, TRL, LLaMA-Factory, OpenRLHF ---- */

#define RL(rest)                                                                  \
	"rl.yaml\ncluster: {num_nodes: 2, gpus_per_node: 8}\npolicy:\n  model_name: " \
	"Qwen/Qwen3-8B\n" rest
#define FACTORY(rest) "factory.yaml\nmodel_name_or_path: Qwen/Qwen3-8B\ntemplate: qwen\n" rest
#define TRL(rest)     "trl.yaml\nmodel_name_or_path: Qwen/Qwen2.5-7B-Instruct\n" rest
#define OPEN(program, rest)                                                                      \
	"open.sh\npython3 -m openrlhf.cli." program " --pretrain Qwen/Qwen3-8B --zero_stage 3 " rest \
	"\n"

static void post_training(void **state) {
	(void)state;
	static const struct read_case cases[] = {
		{{RL("  train_global_batch_size: 64\n  train_micro_batch_size: 1\n"
	         "  max_total_sequence_length: 4096\n"
	         "  megatron_cfg:\n    enabled: true\n    tensor_model_parallel_size: 2\n"
	         "    pipeline_model_parallel_size: 2\n    activation_checkpointing: true\n"
	         "    recompute_granularity: selective\n    first_last_layers_bf16: true\n"
	         "    num_layers_at_start_in_bf16: 1\n    num_layers_at_end_in_bf16: 2\n"
	         "    fp8_cfg: {enabled: true, fp8_recipe: blockwise, fp8_param: true}\n"
	         "    optimizer: {use_distributed_optimizer: false}\n"
	         "  generation: {backend: vllm, vllm_cfg: {tensor_parallel_size: 4}}\n"
	         "grpo: {num_prompts_per_step: 32, num_generations_per_prompt: 16, "
	         "async_grpo: {enabled: false}}\n")},
	     .holds =
	         "framework=nemo-rl assumed=16 tp=2 pp=2 mbs=1 gbs=64 recompute=selective dtype=fp8 "
	         "fp8_recipe=blockwise narrow_weights=1 wide_first=1 wide_last=2 sharding=none "
	         "stack=megatron rollout.task=grpo rollout.sequences=512 rollout.tp=4 "
	         "rollout.engine=vllm rollout.lag=0"},
		{{RL("  megatron_cfg: {enabled: true, pipeline_dtype: bfloat16, defer_fp32_logits: true, "
	         "fp8_cfg: {enabled: true, fp8_recipe: mxfp8}, "
	         "distributed_data_parallel_config: {use_custom_fsdp: true}}\n"
	         "  logprob_chunk_size: 1024\n"
	         "  generation: {backend: megatron, colocated: {enabled: false, "
	         "resources: {num_nodes: 1, gpus_per_node: 8}}}\n"
	         "ppo: {num_prompts_per_step: 8, async_ppo: {enabled: true, "
	         "max_trajectory_age_steps: 2}}\n")},
	     .holds = "gpus=8 dtype=mxfp8 sharding=zero3 fused_cross_entropy=on rollout.task=ppo "
	              "rollout.gpus=8 rollout.lag=2",
	     .assumes = "8 of 16 GPUs train, the others generate"},
		{{RL("  dtensor_cfg: {tensor_parallel_size: 2}\n  generation: {backend: sglang}\n"
	         "teacher: {model_name: Qwen/Qwen3-32B, dtensor_cfg: {tensor_parallel_size: 4}}\n"
	         "distillation: {num_prompts_per_step: 16}\n")},
	     .holds = "assumed=16 tp=2 sharding=zero3 dtype=bf16 rollout.task=distill "
	              "rollout.teacher=Qwen/Qwen3-32B rollout.teacher_tp=4 rollout.engine=sglang"},
		{{RL("  dtensor_cfg: {tensor_parallel_size: 2}\n  generation: {backend: trtllm}\n"
	         "distillation: {num_prompts_per_step: 16}\n"
	         "on_policy_distillation:\n  enabled: true\n  teacher_model_by_agent_name: "
	         "{a: Qwen/Qwen3-32B, b: Qwen/Qwen3-14B, c: Qwen/Qwen3-32B}\n"
	         "  non_colocated_teachers: {enabled: true, default_teacher_cfg: {num_nodes: 1, "
	         "gpus_per_node: 4, tensor_model_parallel_size: 2}}\n")},
	     .holds = "gpus=8 rollout.teacher=Qwen/Qwen3-32B rollout.teacher_gpus=8 "
	              "rollout.teacher_tp=2",
	     .assumes = "8 of 16 GPUs train, the others generate or hold teachers"},
		{{RL("  dtensor_cfg: {tensor_parallel_size: 2}\ndpo: {max_num_steps: 4}\n")},
	     .holds = "objective=dpo tp=2 rollout.task="},
		/* LLaMA-Factory */
		{{FACTORY("finetuning_type: lora\nquantization_bit: 8\n")},
	     .holds = "task=lora narrow_base=1 base=int8"},
		{{FACTORY("finetuning_type: lora\nquantization_bit: 3\n")},
	     .holds = "task=lora narrow_base=0",
	     .assumes = "in formats other than NF4 and LLM.int8"},
		{{"ax.yaml\nbase_model: meta-llama/Llama-3.1-8B\nsequence_len: 2048\nadapter: lora\n"
	      "load_in_8bit: true\nload_in_4bit: false\ndatasets: [{path: a}]\n"},
	     .holds = "task=lora narrow_base=1 base=int8-dense objective=tokens"},
		{{"ax.yaml\nbase_model: meta-llama/Llama-3.1-8B\nsequence_len: 2048\nadapter: qlora\n"
	      "load_in_8bit: false\nload_in_4bit: true\nquantize_moe_experts: true\nrl: kto\n"
	      "datasets: [{path: a}]\n"},
	     .holds = "narrow_base=1 base=nf4 objective=kto mbs=1"},
		{{"ax.yaml\nbase_model: meta-llama/Llama-3.1-8B\nsequence_len: 2048\nnum_labels: 1\n"
	      "reward_model: true\ndatasets: [{path: a}]\n"},
	     .holds = "objective=reward labels=1 mbs=2"},
		{{FACTORY("stage: rm\n")}, .holds = "objective=reward value_head=1 mbs=16 loss=logits"},
		{{FACTORY("stage: ppo\n")}, .refused = "stage: the use of a reward model is not"},
		{{FACTORY("stage: kto\nfinetuning_type: lora\n")},
	     .holds = "task=lora objective=kto lora_rank=8 recompute=full seq=2048 mbs=8"},
		{{FACTORY("stage: dpo\nfinetuning_type: oft\ncutoff_len: 512\n"
	              "enable_liger_kernel: true\npure_bf16: true\n")},
	     .holds = "objective=dpo seq=512 loss=logits fused_cross_entropy=on loaded=torch",
	     .assumes = "oft is priced as LoRA"},
		{{FACTORY("stage: dpo\npref_loss: orpo\nfinetuning_type: full\n")},
	     .holds = "objective=orpo lora_rank=0"},
		{{FACTORY("finetuning_type: full\nimage_max_pixels: 262144\n"
	              "tensor_model_parallel_size: 2\nbf16: true\n"
	              "disable_gradient_checkpointing: true\n")},
	     .holds = "samples=2 freeze_tower=1 tp=2 stack=megatron recompute=none dtype=bf16"},
		/* TRL's GRPO */
		{{TRL("use_vllm: true\nvllm_mode: colocate\nper_device_train_batch_size: 4\n"
	          "gradient_accumulation_steps: 4\nnum_generations: 16\nmax_prompt_length: 512\n"
	          "max_completion_length: 2048\nbeta: 0.04\nfsdp: full_shard\n")},
	     .holds = "mbs=4 seq=2560 recompute=full dtype=bf16 sharding=zero3 rollout.task=grpo "
	              "rollout.samples=16 rollout.response=2048 rollout.no_reference=0 "
	              "rollout.no_sleep=1 rollout.gpus=0",
	     .assumes = "TRL's defaults where nothing is stated"},
		{{TRL("num_generations: 4\nper_device_train_batch_size: 2\nsteps_per_generation: 8\n"
	          "max_completion_length: 256\nuse_vllm: true\n")},
	     .holds = "assumed=8 rollout.engines=1 rollout.no_reference=1 rollout.sequences=128 gbs=16 "
	              "seq=768",
	     .assumes = "the server that generates has one engine"},
		{{TRL("num_generations: 4\nper_device_train_batch_size: 2\nuse_peft: true\n")},
	     .holds = "task=lora lora_rank=16 rollout.engines=0 rollout.response=256",
	     .assumes = "transformers generate as an engine does"},
		{{"grpo.sh\naccelerate launch --num_processes 8 trl/scripts/grpo.py --model_name_or_path "
	      "Qwen/Qwen2.5-0.5B --use_vllm true --max_completion_length 1024 "
	      "--per_device_train_batch_size 2 --gradient_accumulation_steps 3\n"},
	     .holds = "gpus=8 mbs=2 rollout.task=grpo rollout.samples=8 rollout.sequences=48 gbs=48"},
		{{"orpo.sh\naccelerate launch --num_processes 8 trl/scripts/orpo.py --model_name_or_path "
	      "Qwen/Qwen2.5-0.5B --per_device_train_batch_size 2\n"},
	     .holds = "gpus=8 objective=orpo mbs=4 recompute=full"},
		{{"reward.sh\naccelerate launch trl/scripts/reward.py --model_name_or_path gpt2\n"},
	     .holds = "objective=reward value_head=0 mbs=16 recompute=full seq=1024"},
		{{"prm.sh\naccelerate launch trl/scripts/prm.py --model_name_or_path gpt2\n"},
	     .holds = "objective=tokens labels=2 mbs=8"},
		{{"chat.sh\ntrl chat --model_name_or_path gpt2\n"}, .refused = "trl chat does not train"},
		/* OpenRLHF: a critic of gae on GPUs of its own; engines ahead */
		{{OPEN("train_ppo_ray", "--actor_num_nodes 2 --actor_num_gpus_per_node 4 "
	                            "--critic_num_nodes 1 --critic_num_gpus_per_node 4 "
	                            "--vllm_num_engines 3 --vllm_tensor_parallel_size 2 --async_train "
	                            "--critic_pretrain Qwen/Qwen3-4B --rollout_batch_size 64 "
	                            "--n_samples_per_prompt 2 --init_kl_coef 0")},
	     .holds = "framework=openrlhf gpus=8 mbs=4 gbs=128 seq=2048 sharding=zero3 stack=deepspeed "
	              "dtype=bf16 rollout.task=ppo rollout.critic=Qwen/Qwen3-4B rollout.critic_gpus=4 "
	              "rollout.engines=3 rollout.gpus=6 rollout.sequences=128 rollout.lag=1 "
	              "rollout.no_reference=1 rollout.no_sleep=1"},
		{{OPEN("train_ppo_ray", "--colocate_all_models --advantage_estimator rloo "
	                            "--vllm_num_engines 8 --critic_pretrain Qwen/Qwen3-4B")},
	     .holds = "gpus=8 rollout.task=grpo rollout.critic= rollout.engines=0 rollout.gpus=0 "
	              "rollout.no_reference=0 rollout.lag=0"},
		{{OPEN("train_dpo", "--micro_train_batch_size 1 --train_batch_size 64")},
	     .holds = "objective=dpo seq=512 rollout.task= mbs=2"},
		{{OPEN("train_sft", "--lora_rank 16 --max_len 1024")},
	     .holds = "objective=tokens task=lora lora_rank=16 seq=1024"},
		{{OPEN("train_rm", "--max_len 1024")}, .holds = "objective=reward seq=1024 rollout.task="},
		{{OPEN("train_kto", "--micro_train_batch_size 2")},
	     .holds = "objective=kto mbs=2 seq=512",
	     .assumes = "what the pass over other completions keeps"},
		{{OPEN("train_prm", "")}, .refused = "openrlhf.cli.train_prm: scores of single steps"},
		/* flags with sections; max_len is of prompts and responses; srun does not place what
		 * Ray does */
		{{"ray.sh\nsrun --nodes=1 --ntasks=1 bash -c \"pip install ray && /opt/bin/ray job submit "
	      "--address=a -- python3 -m openrlhf.cli.train_ppo_ray --actor.num_nodes 2 "
	      "--actor.num_gpus_per_node 4 --actor.model_name_or_path Qwen/Qwen3-8B --data.max_len "
	      "4096 "
	      "--rollout.max_new_tokens 3072 --train.batch_size 96 --train.dynamic_batch_enable "
	      "--train.max_tokens_per_gpu 20480 --ds.ring_attn_size 2 --algo.advantage.estimator rloo "
	      "--train.colocate_all --vllm.num_engines 8 --ds.adam_offload\"\n"},
	     .holds = "framework=openrlhf gpus=8 cp=2 seq=4096 rollout.response=3072 gbs=96 mbs=8 "
	              "offload_optimizer=1 rollout.task=grpo rollout.gpus=0",
	     .assumes = "micro-batches of 8 sequences, which divide the 24 of a rank: 10 would fit"},
		{{"ray.sh\npython3 -m openrlhf.cli.train_sft --model.model_name_or_path Qwen/Qwen3-8B "
	      "--ds.zero_stage 2 --ds.lora.rank 8 --data.max_len 1024 --train.micro_batch_size 2\n"},
	     .holds = "sharding=zero2 task=lora lora_rank=8 seq=1024 mbs=2"},
		{{"ray.sh\npython3 -m openrlhf.cli.train_kd --model.model_name_or_path Qwen/Qwen3-8B\n"},
	     .refused = "openrlhf.cli.train_kd: this method's step is more than training"},
		{{"ray.sh\npython3 -m openrlhf.cli.lora_combiner --model_path Qwen/Qwen3-8B\n"},
	     .refused = "openrlhf.cli.lora_combiner converts checkpoints, and trains nothing"},
		/* TRL: variants of its scripts, OpenEnv's flags, named configurations, other work */
		{{"trl.sh\npython examples/scripts/dpo_vlm.py --model_name_or_path "
	      "Qwen/Qwen2.5-VL-3B-Instruct "
	      "--per_device_train_batch_size 2\n"},
	     .holds = "mbs=4 objective=dpo seq=1024"},
		{{"trl.sh\nCUDA_VISIBLE_DEVICES=1 python scripts/openenv/play.py --model Qwen/Qwen3-0.6B "
	      "--env-urls http://a http://b\n"},
	     .holds = "gpus=1 mbs=8 names=Qwen/Qwen3-0.6B rollout.task=grpo",
	     .assumes = "those of play.py are in its text"},
		{{"trl.sh\ntrl sft --model_name_or_path Qwen/Qwen3-8B --accelerate_config zero3 "
	      "--num_processes 4\n"},
	     .holds = "gpus=4 sharding=zero3 stack=deepspeed"},
		{{"trl.sh\ntrl kto --model_name_or_path Qwen/Qwen3-8B\n"},
	     .holds = "objective=kto mbs=8 seq=1024"},
		{{"trl.sh\ntrl vllm-serve --model Qwen/Qwen3-8B\n"},
	     .refused = "trl vllm-serve serves a network, and trains nothing"},
		{{"trl.sh\nCUDA_VISIBLE_DEVICES=0 vllm serve Qwen/Qwen3-8B --port 8000\n"},
	     .refused = "vllm serve serves a network, and trains nothing"},
	};
	CHECK(cases);
}

/* ---- verl ---- */

#define STEP(rest)                                                                                 \
	"v.sh\nDEVICE=${DEVICE:-$(python3 -c 'import torch_npu' 2>/dev/null && echo npu || echo "      \
	"gpu)}\nRUN=(python3)\nif [ \"$DEVICE\" = gpu ]; then RUN=(uv run --extra vllm python3); fi\n" \
	"case \"$DEVICE\" in\n  gpu) N=${N:-8} ;;\n  npu) N=16 ;;\nesac\n"                             \
	"\"${RUN[@]}\" -m verl.trainer.main_ppo algorithm.adv_estimator=grpo "                         \
	"actor_rollout_ref.model.path=$HOME/models/Qwen3-8B data.max_prompt_length=1024 "              \
	"data.max_response_length=3072 actor_rollout_ref.rollout.n=4 trainer.n_gpus_per_node=$N " rest \
	" \"$@\"\n"
#define SFT(rest)                                                                  \
	"s.sh\nif [ \"$#\" -lt 1 ]; then exit 1; fi\ntorchrun --nproc_per_node=$1 -m " \
	"verl.trainer.sft_trainer data.train_files=$HOME/x model.path=Qwen/Qwen3-8B "  \
	"optim=megatron " rest "\n"

static void verl(void **state) {
	(void)state;
	static const struct read_case cases[] = {
		/* the device that is not there; the network by the end of a path; tokens of a
		 * micro-batch */
		{{STEP("actor_rollout_ref.actor.ppo_mini_batch_size=16 "
	           "actor_rollout_ref.actor.use_dynamic_bsz=True "
	           "actor_rollout_ref.actor.ppo_max_token_len_per_gpu=20480")},
	     .holds = "framework=verl gpus=8 seq=4096 gbs=64 mbs=4 names=models/Qwen3-8B "
	              "sharding=zero3 stack=fsdp rollout.task=grpo rollout.samples=4",
	     .assumes = "micro-batches of 4 sequences, which divide the 8 of a rank: 5 would fit"},
		{{STEP(
			 "model_engine=megatron actor_rollout_ref.actor.megatron.tensor_model_parallel_size=2 "
			 "'+actor_rollout_ref.actor.megatron.override_transformer_config.x={*}'")},
	     .holds = "tp=2 stack=megatron sharding=zero1"},
		{{STEP("--config-name=ppo_megatron_trainer.yaml")},
	     .holds = "stack=megatron",
	     .assumes = "strategy megatron, by the name of ppo_megatron_trainer.yaml"},
		{{STEP("model_engine=veomni actor_rollout_ref.actor.veomni.ulysses_parallel_size=2 "
	           "actor_rollout_ref.actor.veomni.expert_parallel_size=4")},
	     .holds = "cp=2 ep=4 stack=fsdp"},
		{{STEP("distillation.enabled=True distillation.nnodes=1 distillation.n_gpus_per_node=2 "
	           "+distillation.teacher_models.one.model_path=Qwen/Qwen3-32B")},
	     .holds = "rollout.task=distill rollout.teacher=Qwen/Qwen3-32B rollout.teacher_gpus=2"},
		{{STEP("trainer.nnodes=$NODES")}, .holds = "gpus=8", .assumes = "or --gpus"},
		{{STEP("data.train_batch_size=$BATCH")}, .refused = "give --var BATCH=VALUE"},
		{{STEP("data.train_batch_size=$BATCH")}, .vars = "BATCH=64", .holds = "gpus=8"},
		/* supervised fine-tuning, on as many GPUs as an argument says */
		{{SFT("engine=fsdp engine.ulysses_sequence_parallel_size=2")},
	     .holds = "framework=verl-sft cp=2 gbs=256 seq=1024 sharding=zero3 recompute=full "
	              "gpus=0 assumed=8",
	     .assumes = "an argument of the script"},
		{{"sp.sh\ntorchrun --nproc_per_node=8 -m verl.trainer.sft_trainer "
	      "model.path=Qwen/Qwen2.5-1.5B engine.ulysses_sequence_parallel_size=4\n"},
	     .holds = "cp=4 cp_kind=ulysses gpus=8",
	     .assumes = "2 key-value heads, which Ulysses repeats for 4 ranks"},
		{{SFT("engine=megatron engine.pipeline_model_parallel_size=2 data.use_dynamic_bsz=False "
	          "data.micro_batch_size_per_gpu=2 data.train_batch_size=64 data.max_length=2048")},
	     .holds = "pp=2 mbs=2 gbs=64 seq=2048 stack=megatron sharding=zero1"},
		{{SFT("engine=automodel engine.ep_size=8 engine.activation_checkpointing=False")},
	     .holds = "ep=8 recompute=none sharding=zero3"},
		{{"sft.yaml\nmodel: {partial_pretrain: Qwen/Qwen3-8B, lora_rank: 16}\n"
	      "data: {train_batch_size: 32, micro_batch_size_per_gpu: 4, max_length: 512}\n"},
	     .holds = "framework=verl-sft mbs=4 gbs=32 seq=512 task=lora lora_rank=16"},
		{{"gen.sh\npython3 -m verl.trainer.main_generation model.path=Qwen/Qwen3-8B\n"},
	     .refused = "verl.trainer.main_generation generates texts, and trains nothing"},
		/* what is elsewhere */
		{{"far.sh\nsource ./train_it.sh slurm\ntorchrun --nproc_per_node 8 -m ${commands}\n"},
	     .refused = "the training is in another file, ./train_it.sh"},
		{{"far.sh\ntorchrun --nproc_per_node 8 $PROGRAM\n"},
	     .refused = "the program: line 1: $PROGRAM is not set in the script; give --var PROGRAM="},
	};
	CHECK(cases);
}

/* ---- GPT-NeoX ---- */

#define NEOX(rest)                                                                           \
	"neox.yml\n{\"pipe-parallel-size\": 1, \"model-parallel-size\": 1, \"num-layers\": 4,\n" \
	" \"hidden-size\": 768, \"num-attention-heads\": 12, \"seq-length\": 512,\n"             \
	" \"max-position-embeddings\": 512, \"train_micro_batch_size_per_gpu\": 4,\n " rest "}\n"

static void neox(void **state) {
	(void)state;
	static const struct read_case cases[] = {
		{{NEOX("\"attention-config\": [[[\"flash\"], 4]], \"mlp-type\": \"llama\", "
	           "\"norm\": \"rmsnorm\", \"pos-emb\": \"rotary\", \"no-weight-tying\": true")},
	     .holds = "framework=gpt-neox ffn=2048 gated=1 norm=rms tied=0 position_rows=0 "
	              "rotary_base=10000 attn_kernel=flash vocab=50257 vocab_multiple=128 mbs=4 "
	              "stack=megatron-deepspeed",
	     .assumes = "a vocabulary of 50257: gpt-neox's default tokenizer"},
		{{NEOX("\"activation\": \"geglu\", \"tokenizer-type\": \"SPMTokenizer\", "
	           "\"attention-config\": [[[\"sparse_fixed\", \"global\"], 2]]")},
	     .holds = "ffn=1024 gated=1 norm=layer position_rows=512 attn_kernel=unfused vocab=32000",
	     .assumes = "local and sparse attention is priced as full attention"},
		{{NEOX("\"attention-config\": [[[\"gmlp\"], 4]]")},
	     .refused = "attention_config: gated MLPs over tokens are not modelled"},
		{{NEOX("\"attention-config\": [[[\"rwkv\"], 4]]")},
	     .refused = "attention_config: layers of RWKV-6 are not modelled"},
		{{NEOX("\"attention-config\": [[[\"mamba\"], 4]], \"tokenizer-type\": "
	           "\"CharLevelTokenizer\"")},
	     .holds = "ssm_inner=1536 ssm_state=16 vocab=512 layers=4"},
		{{"neox.yml\n{\"pipe-parallel-size\": 2, \"num-layers\": 4, \"hidden-size\": 768, "
	      "\"num-attention-heads\": 12, \"seq-length\": 512, \"train_micro_batch_size_per_gpu\": "
	      "4, "
	      "\"attention-config\": [[[\"mamba\"], 4]]}\n"},
	     .refused = "gpt-neox does not split Mamba's layers over GPUs; set model_parallel_size"},
		{{NEOX("\"train-impl\": \"kto\"")},
	     .refused = "train_impl: this method's step is more than training"},
		{{NEOX("\"train-impl\": \"dpo\"")}, .holds = "objective=dpo mbs=8"},
	};
	CHECK(cases);
}

/* ---- scripts in folders ---- */

#define INNER                                                                                     \
	"s/inner.sh\nTP=${1:-1}\ntorchrun --nproc_per_node 8 --nnodes ${SLURM_NNODES:-1} "            \
	"pretrain_gpt.py --num-layers 2 --hidden-size 1024 --num-attention-heads 8 --seq-length 512 " \
	"--max-position-embeddings 512 --micro-batch-size 1 --tensor-model-parallel-size $TP\nexit "  \
	"1\n"
#define FLAGS                                                                     \
	"--num-layers 2 --hidden-size 1024 --num-attention-heads 8 --seq-length 512 " \
	"--max-position-embeddings 512 "

static void scripts(void **state) {
	(void)state;
	static const struct read_case cases[] = {
		{{INNER, "s/run.sh\nbash inner.sh 4\n"}, .holds = "gpus=8 tp=4 layers=2 mbs=1"},
		{{"s/run.sh\nsbatch --nodes=4 inner.sh 2\n"}, .holds = "gpus=32 tp=2"},
		{{"s/run.sh\ndocker run --gpus all IMAGE bash -c \"cd /work; bash inner.sh 8\"\n"},
	     .holds = "gpus=8 tp=8"},
		{{"s/run.sh\nsrun --nodes=2 --container-image IMAGE bash -lc \"bash inner.sh 2 | tee "
	      "log\"\n"},
	     .holds = "gpus=16 tp=2"},
		{{"s/run.sh\npodman run IMAGE bash ./inner.sh\n"}, .holds = "gpus=8 tp=1"},
		{{"s/below/run.sh\nsource $(dirname $0)/../inner.sh\n"}, .holds = "gpus=8 tp=1"},
		{{"s/conf/args.sh\nARGS=\"--micro-batch-size 4 --bf16\"\n",
	      "s/run.sh\nsource activate env\n. ~/.bashrc\nsource conf/args.sh\n"
	      "torchrun --nproc_per_node 2 pretrain_gpt.py " FLAGS "$ARGS\n"},
	     .holds = "gpus=2 mbs=4 dtype=bf16"},
		{{"s/run.sh\nsource secret.sh\ntorchrun --nproc_per_node 2 pretrain_gpt.py " FLAGS "\n"},
	     .holds = "gpus=2",
	     .assumes = "line 1: secret.sh, which the script reads, is not here"},
		{{"s/run.sh\nbash absent.sh 4\n"},
	     .refused =
	         "no command starts torchrun, srun, mpirun, deepspeed, accelerate, composer, axolotl, "
	         "llamafactory-cli, lmf, trl, automodel, swift, megatron, litgpt, nemo or python; "
	         "it runs absent.sh, which is not here: put that file next to it"},
		{{"s/loop.sh\nbash loop.sh\n"}, .refused = "scripts read one another too many times"},
		{{"s/run.sh\nssh -p 22 -i key host1 \"cd x && torchrun --nproc_per_node 4 "
	      "pretrain_gpt.py " FLAGS "--fp16\"\n"},
	     .holds = "gpus=4 dtype=fp16"},
		/* let, printf -v, getopts */
		{{"s/run.sh\nlet M=2*2 \"N = M + 1\"\nlet N*=2 M-=1\nprintf -v EXTRA '%s %s ' "
	      "--micro-batch-size $M\ntorchrun --nproc_per_node $N pretrain_gpt.py " FLAGS "$EXTRA\n"},
	     .holds = "gpus=10 mbs=3"},
		{{"s/run.sh\nN=1\nlet N++\ntorchrun --nproc_per_node 8 pretrain_gpt.py " FLAGS
	      "--micro-batch-size $N\n"},
	     .holds = "mbs=2"},
		{{"s/run.sh\nprintf -v N %%03d 7\ntorchrun --nproc_per_node 8 pretrain_gpt.py " FLAGS
	      "--micro-batch-size $N\n"},
	     .refused = "--micro-batch-size: line 1: N is set in a line that may not run"},
		{{"s/opts.sh\nwhile getopts \"m:t:hx\" opt; do\n  case $opt in m) MBS=$OPTARG;; "
	      "t) TP=$OPTARG;; x) FAST=--bf16;; ?) FAST=--fp16;; esac\ndone\n"
	      "torchrun --nproc_per_node 8 pretrain_gpt.py " FLAGS "--micro-batch-size ${MBS:-1} "
	      "--tensor-model-parallel-size ${TP:-1} $FAST\n",
	      "s/run.sh\nbash opts.sh -m4 -t 2 -x rest\n"},
	     .holds = "tp=2 mbs=4 dtype=bf16"},
		{{"s/run.sh\nbash opts.sh -z\n"}, .holds = "tp=1 mbs=1 dtype=fp16"},
		{{"s/run.sh\nbash opts.sh -- -m 4\n"}, .holds = "tp=1 mbs=1 dtype=fp32"},
		{{"s/run.sh\nif [ -f x ]; then eval torchrun y; fi\n"},
	     .refused = "s/run.sh:1: eval in a line that may not run; write the command itself"},
		/* what frameworks start themselves */
		{{"s/job.yaml\nmodel_name_or_path: Qwen/Qwen3-8B\nfinetuning_type: full\nstage: sft\n"
	      "per_device_train_batch_size: 2\n",
	      "s/run.sh\nexport NNODES=2\nllamafactory-cli train job.yaml\n"},
	     .holds = "gpus=16 mbs=2 names=Qwen/Qwen3-8B",
	     .assumes = "8 GPUs a node: NPROC_PER_NODE is not set"},
		{{"s/run.sh\nNNODES=2 NPROC_PER_NODE=4 llamafactory-cli train job.yaml\n"},
	     .holds = "gpus=8 mbs=2"},
		{{"s/run.sh\nNNODES=0 llamafactory-cli train job.yaml\n"}, .refused = "NNODES"},
		{{"s/run.sh\nllamafactory-cli webui\n"},
	     .refused = "llamafactory-cli webui does not train"},
		{{"s/run.sh\nNGPU=4 CONFIG=llama3_8b ./run_train.sh --training.seq_len 1024\n"},
	     .holds = "gpus=4 seq=1024 names=llama3-8b"},
		{{"s/run.sh\npython pretrain_retro.py --num-layers 2\n"},
	     .refused = "pretrain_retro.py trains a network that is not modelled"},
		{{"s/run.sh\ntorchrun --nproc_per_node 8 pretrain_t5.py " FLAGS
	      "--decoder-seq-length 128\n"},
	     .holds = "network=encdec decoder_seq=128"},
	};
	CHECK(cases);
}

/* ---- scripts that write the worker's command ---- */

#define WORKER(torchrun)                                                                           \
	"s/launcher.sh\nworker_command=$(cat <<- EOM\n  if [ \"\\$RANK\" -eq \"0\" ]; then\n"          \
	"    echo first ;\n  fi ;\n  numactl --membind=\\$((LOCAL_RANK/2)) nsys profile -o "           \
	"/$LOGS/rank-\\$RANK --session-new \"nsys-\\$RANDOM\" \\\n  nice -10 \\\n"                     \
	"  python scripts/performance/custom_setup_experiment.py --gpu gb200 --num_gpus 64 \\\n"       \
	"    --model_family_name qwen --model_recipe_name qwen3_235b_a22b --compute_dtype bf16 "       \
	"--global_batch_size 1024 --pipeline_model_parallel_size 8 "                                   \
	"--virtual_pipeline_model_parallel_size 3 --expert_model_parallel_size 8 "                     \
	"--context_parallel_size 1 --tensor_model_parallel_size 1 --micro_batch_size 1 \\\n\nEOM\n)\n" \
	"echo \"$worker_command\" > worker.sh\n" torchrun

static void workers(void **state) {
	(void)state;
	static const struct read_case cases[] = {
		{{WORKER("torchrun --nproc-per-node=\"4\" --nnodes=\"16\" --no-python bash worker.sh\n")},
	     .holds = "names=qwen3-235b-a22b gpus=64 pp=8 vp=3 ep=8 mbs=1 gbs=1024 seq=4096 "
	              "dtype=bf16 device=gb200 account_embedding=1 account_loss=1",
	     .assumes = "94 layers in 24 stages: the first has 1 fewer than the others, the last 1"},
		{{WORKER("bash worker.sh\n")}, .holds = "names=qwen3-235b-a22b gpus=64"},
		{{WORKER("torchrun --nproc-per-node 4 --nnodes 16 --no-python bash worker.sh\n"),
	      "s/start.sh\nhelm install x . -f values.yaml --set-file workload_launcher=launcher.sh "
	      "--set queue=q\n"},
	     .holds = "names=qwen3-235b-a22b gpus=64"},
		{{"t/start.sh\nhelm install x . --set-file workload_launcher=absent.sh --set a=$B\n"},
	     .refused = "it runs absent.sh, which is not here: put that file next to it"},
		{{"t/start.sh\n./absent.sh 4\n"},
	     .refused = "it runs ./absent.sh, which is not here: put that file next to it"},
		{{"t/start.sh\ntorchrun --nproc_per_node 8 --no-python bash absent.sh\n"},
	     .refused = "the training is launched by another script, absent.sh"},
		/* lines that are added to a file, and a file of another command's output */
		{{"t/start.sh\necho 'torchrun --nproc_per_node 2 \\' > run.sh; echo hello\n"
	      "echo 'pretrain_gpt.py " FLAGS "' >> run.sh\nbash run.sh\n"},
	     .holds = "gpus=2 layers=2"},
	};
	CHECK(cases);
}

/* ---- flags against the network that is trained ---- */

static void conflicts(void **state) {
	(void)state;
	static const struct {
		const char *flags, *preset, *said;
	} cases[] = {
		{"--num-layers 32 --hidden-size 4096 --num-attention-heads 32 --ffn-hidden-size 14336",
	     "llama3-8b", ""},
		{"--num-layers 80 --hidden-size 4096 --num-attention-heads 32 --qk-layernorm "
	     "--group-query-attention --num-query-groups 4",
	     "llama3-8b", "--num-layers 80 (32), --qk-layernorm, --num-query-groups 4 (8)"},
		{"--num-layers 1 --hidden-size 2 --num-attention-heads 3 --ffn-hidden-size 4 "
	     "--kv-channels 5 --qk-layernorm",
	     "llama3-8b",
	     "--num-layers 1 (32), --hidden-size 2 (4096), --num-attention-heads 3 (32), "
	     "--ffn-hidden-size 4 (14336) and 2 more"},
		/* compressed attention has no heads of keys, nor a width of a head */
		{"--num-layers 61 --hidden-size 7168 --num-attention-heads 128 --kv-channels 5 "
	     "--num-query-groups 4",
	     "deepseek-v3", ""},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		lk_arena arena = LK_ARENA_INIT;
		lk_launch launch = {0};
		lk_error err = {0};
		lk_model model;
		char line[512], said[LK_LAUNCH_CONFLICTS], message[1024];
		snprintf(line, sizeof line, "torchrun pretrain_gpt.py %s --seq-length 512", cases[i].flags);
		if (lk_launch_text(&arena, line, strlen(line), "line", NULL, &launch, &err) != LK_OK)
			fail_msg("%s: %s", line, lk_error_text(&err, message, sizeof message));
		assert_int_equal(lk_model_preset(cases[i].preset, &model, &err), LK_OK);
		lk_launch_conflicts(&launch, &model, said);
		assert_string_equal(said, cases[i].said);
		lk_arena_free(&arena);
	}
}

/* ---- what is written ---- */

/* A completed job of 16 GPUs. */
static lk_job written_job(lk_arena *arena, const char *preset, const char *stack, int variant,
                          lk_cluster *cluster) {
	lk_error err = {0};
	char message[1024];
	lk_job job = {.gpus = 16, .gbs = 64, .seq = 512};
	assert_int_equal(lk_model_preset(preset, &job.model, &err), LK_OK);
	assert_int_equal(lk_cluster_simple(arena, lk_device_find("h100-sxm"), 16, 0, 0, cluster, &err),
	                 LK_OK);
	lk_copy(job.stack, sizeof job.stack, stack);
	job.sharding = (lk_sharding)(variant % 4);
	job.sharding_said = true;
	if (variant >= 4) job.tp = 2;
	if (variant == 4) job.optimizer = LK_OPT_LION;
	if (variant == 5) job.state_dtype = LK_BF16;
	if (variant == 7) job.optimizer = LK_OPT_SGD;
	if (lk_job_complete(&job, cluster, &err) != LK_OK)
		fail_msg("%s", lk_error_text(&err, message, sizeof message));
	return job;
}

/* The end of a step as a program: who sums, clips, updates and gathers. */
static void programs(void **state) {
	(void)state;
	static const char *const adam =
		"\tm <- b1*m + (1 - b1)*d\n\tv <- b2*v + (1 - b2)*d^2\n"
		"\tw <- w - lr*((m/(1 - b1^t))/(sqrt(v/(1 - b2^t)) + eps) + wd*w)\n";
	static const struct {
		int variant;
		const char *parts[6];
	} cases[] = {
		{0,
	     {"# The end of a step of llama3.2-1b: 16 copies of the model, ZeRO 0, adam.\n"
	      "# --sizes dp=16,N=",
	      "program update(mesh dp) {\n\tdim N\n\tscalar f32 lr, b1, b2, eps, wd, t, clip\n",
	      "@ P(sum,dp)\n\tstate w : f32[N], m : f32[N], v : f32[N]\n",
	      "\ta = allreduce(g, sum, dp)\n\tq = sum(", adam,
	      "\th = cast(bf16, w)\n\tout h\n}\n"
	      "schedule as_predicted { fuse U = {d, m, v, w, h} }\n"}},
		{1,
	     {"\tstate w : f32[N] @ S(0,dp), m : f32[N] @ S(0,dp), v : f32[N] @ S(0,dp)\n",
	      "\ta = reducescatter(g, sum, dp, dim=0)\n\tq = allreduce(sum(", ", sum, dp)\n", adam,
	      "\twhole = allgather(h, 0, dp)\n\tout whole\n}\n"}},
		{2, {"\tin g : ", "[N] @ S(0,dp)\n", "\td = s*", adam, "\tout h\n}\n"}},
		{4,
	     {"# The end of a step of llama3.2-1b: 2 ranks of the model with copies on 8 each, ZeRO 0, "
	      "lion.\n# --sizes dp=8,model=2,N=",
	      "program update(mesh dp, model) {\n", "[size(model),N] @ P(sum,dp) S(0,model)\n",
	      ", sum, model)\n", "\tu = b1*m + (1 - b1)*d\n\tm <- b2*m + (1 - b2)*d\n",
	      "\tw <- w - lr*(select(u > 0, 1, select(u < 0, -1, 0)) + wd*w)\n"}},
		{5,
	     {"m : bf16[size(model),N] @ S(1,dp) S(0,model)",
	      "\ta = reducescatter(g, sum, dp, dim=1)\n",
	      "\tm <- cast(bf16, b1*cast(f32, m) + (1 - b1)*d)\n",
	      "\tw <- w - lr*((cast(f32, m)/(1 - b1^t))/(sqrt(cast(f32, v)/(1 - b2^t)) + eps) + "
	      "wd*w)\n",
	      "\twhole = allgather(h, 1, dp)\n"}},
		{7,
	     {"\tscalar f32 lr, b1, wd, clip\n", "\tm <- b1*m + d\n\tw <- w - lr*(m + wd*w)\n",
	      "fuse U = {d, m, w, h} }\n"}},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		lk_arena arena = LK_ARENA_INIT;
		lk_cluster cluster;
		lk_job job = written_job(&arena, "llama3.2-1b", "megatron", cases[i].variant, &cluster);
		lk_emitted out = {0};
		lk_error err = {0};
		assert_int_equal(lk_emit_program(&arena, &job, &cluster, &out, &err), LK_OK);
		const char *at = out.text;
		for (int p = 0; p < 6 && cases[i].parts[p] != NULL; p++) {
			const char *found = strstr(at, cases[i].parts[p]);
			if (found == NULL) fail_msg("no \"%s\" in\n%s", cases[i].parts[p], at);
			at = found + strlen(cases[i].parts[p]);
		}
		lk_arena_free(&arena);
	}
}

static void no_programs(void **state) {
	(void)state;
	static const struct {
		const char *what;
		bool forward;
		lk_optimizer optimizer;
		bool offload;
		int shard_group, gpus_of_model;
		lk_switch master;
		lk_dtype moments;
	} cases[] = {
		{"the job does not train; leave out what keeps weights", .forward = true},
		{"of its optimizer more than one pass over states is known; give --optimizer",
	     .optimizer = LK_OPT_MUON},
		{"its optimizer runs on the host; leave out --offload-optimizer", .offload = true},
		{"hybrid sharding divides the ranks that hold gradients; leave out --shard-group",
	     .shard_group = 8},
		{"one rank holds each parameter; give more GPUs", .gpus_of_model = 16},
		{"weights without a master copy in fp32 have no program", .master = LK_OFF},
		{"moments of such a format have no program; give --state-dtype", .moments = LK_FP8},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		lk_arena arena = LK_ARENA_INIT;
		lk_cluster cluster;
		lk_job job = written_job(&arena, "llama3.2-1b", "megatron", 0, &cluster);
		lk_emitted out = {0};
		lk_error err = {0};
		char message[1024];
		job.forward_only = cases[i].forward;
		job.offload_optimizer = cases[i].offload;
		job.shard_group = cases[i].shard_group;
		if (cases[i].optimizer != LK_OPT_ADAM) job.optimizer = cases[i].optimizer;
		if (cases[i].gpus_of_model > 0) {
			job.tp = cases[i].gpus_of_model;
			job.dp = 1;
		}
		if (cases[i].master != 0) job.master_weights = cases[i].master;
		if (cases[i].moments != LK_FP32) job.state_dtype = cases[i].moments;
		assert_int_equal(lk_emit_program(&arena, &job, &cluster, &out, &err), LK_ERR_INPUT);
		lk_error_text(&err, message, sizeof message);
		if (strstr(message, cases[i].what) == NULL ||
		    strstr(message, "--emit: the end of this job's step is no program: ") == NULL)
			fail_msg("\"%s\" should hold \"%s\"", message, cases[i].what);
		lk_arena_free(&arena);
	}
}

/* Frameworks that cannot run a layout say which would. */
static void emit_refusals(void **state) {
	(void)state;
	static const struct {
		const char *target, *preset, *stack;
		int variant;
		const char *part; /* of the text; with `refused` of the error */
		bool refused;
	} cases[] = {
		{"llama-factory", "llama3.2-1b", "megatron", 5,
	     "tensor_model_parallel_size: 2\npipeline_model_parallel_size: 1\n", false},
		{"llama-factory", "mixtral-8x7b", "megatron", 5, "moe_token_dispatcher_type: alltoall\n",
	     false},
		{"llama-factory", "llama3.2-1b", "fsdp", 7,
	     "are those of Megatron-Core; add --stack megatron", true},
		{"axolotl", "llama3.2-1b", "megatron", 1, "the layout is one of Megatron-LM; add --stack",
	     true},
		{"axolotl", "llama3.2-1b", "fsdp", 1, "FSDP shards gradients with the optimizer's states",
	     true},
		{"axolotl", "bert-large", "ddp", 0, "it trains decoders alone; use accelerate", true},
		{"nanotron", "llama3.2-1b", "fsdp", 3, "the layout is one of FSDP; add --stack megatron",
	     true},
		{"nanotron", "llama3.2-1b", "megatron", 2, "it runs ZeRO 0 and 1; add --zero 1", true},
		{"program", "llama3.2-1b", "megatron", 0, "program update(mesh dp) {", false},
		{"colossal", "llama3.2-1b", "megatron", 0, "--emit: unknown target \"colossal\"; give one",
	     true},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		lk_arena arena = LK_ARENA_INIT;
		lk_cluster cluster;
		lk_job job =
			written_job(&arena, cases[i].preset, cases[i].stack, cases[i].variant, &cluster);
		lk_emitted out = {0};
		lk_error err = {0};
		char message[1024];
		lk_status status = lk_emit(&arena, cases[i].target, &job, &cluster, NULL, &out, &err);
		lk_error_text(&err, message, sizeof message);
		if ((status == LK_ERR_INPUT) != cases[i].refused ||
		    strstr(cases[i].refused ? message : out.text, cases[i].part) == NULL)
			fail_msg("%s of %s: no \"%s\" in %s", cases[i].target, cases[i].preset, cases[i].part,
			         status == LK_OK ? out.text : message);
		lk_arena_free(&arena);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(torchtune),      cmocka_unit_test(swift_trainer),
		cmocka_unit_test(swift_megatron), cmocka_unit_test(swift_others),
		cmocka_unit_test(primus),         cmocka_unit_test(megatron_files),
		cmocka_unit_test(other_files),    cmocka_unit_test(post_training),
		cmocka_unit_test(neox),           cmocka_unit_test(scripts),
		cmocka_unit_test(conflicts),      cmocka_unit_test(programs),
		cmocka_unit_test(no_programs),    cmocka_unit_test(emit_refusals),
		cmocka_unit_test(verl),           cmocka_unit_test(litgpt),
		cmocka_unit_test(maxtext),        cmocka_unit_test(titan_networks),
		cmocka_unit_test(workers),
	};
	return cmocka_run_group_tests_name("launch files", tests, make_scratch, remove_scratch);
}
