/* test_launch.c: pasted launch lines, scripts and DeepSpeed configs; writing a job and reading it
 * again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/arena.h"
#include "io/csv.h"
#include "base/text.h"
#include "model/layout/job.h"
#include "launch/emit/emit.h"
#include "launch/read.h"
#include "model/layout/schedule.h"
#include "data.h"
#include "rounds.h"
#include "model/read/read.h"

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

/* ---- files of cases, whose heads say how they are written ---- */

/* One case, as its file states it. */
struct stated {
	lk_arena arena;
	const char *name, *text; /* of a configuration; NULL: a script */
	bool begun, read;        /* there is one; it was read */
	lk_status status;
	lk_launch launch;
	char message[1024];
};

/* The names that a file gives to parts of its texts: "<RUN>". */
struct names {
	char *name[4], *text[4];
	int count;
};

static const char *with_names(lk_arena *arena, const struct names *names, const char *text) {
	for (int i = 0; i < names->count; i++) {
		const char *found;
		while ((found = strstr(text, names->name[i])) != NULL)
			text = lk_arena_printf(arena, "%.*s%s%s", (int)(found - text), text, names->text[i],
			                       found + strlen(names->name[i]));
	}
	return text;
}

static void read_stated(struct stated *stated) {
	lk_error err = {0};
	const char *text = stated->text;
	stated->status = stated->name != NULL
	                     ? lk_launch_config_text(&stated->arena, text, strlen(text), stated->name,
	                                             &stated->launch, &err)
	                     : lk_launch_text(&stated->arena, text, strlen(text), "test.sh", NULL,
	                                      &stated->launch, &err);
	lk_error_text(&err, stated->message, sizeof stated->message);
	stated->read = true;
}

/* A field of the job, or what the line says besides; "none" of an empty text. */
static const char *value_of(lk_arena *arena, const lk_launch *launch, const char *key) {
	const struct {
		const char *key, *text;
	} texts[] = {
		{"network", launch->network}, {"device", launch->device}, {"framework", launch->framework}};
	const struct {
		const char *key;
		int number;
	} numbers[] = {{"gpus", launch->gpus},
	               {"gpus_assumed", launch->gpus_assumed},
	               {"microbatches", launch->job->microbatches},
	               {"dtype_said", launch->job->dtype_said},
	               {"schedule_said", launch->job->schedule_said}};
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
		if (strcmp(key, texts[i].key) == 0) return texts[i].text ? texts[i].text : "none";
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
		if (strcmp(key, numbers[i].key) == 0)
			return lk_arena_printf(arena, "%d", numbers[i].number);
	for (const lk_field *field = lk_job_fields; field->name != NULL; field++) {
		if (strcmp(key, field->name) != 0) continue;
		const char *value = lk_field_value(arena, field, launch->job);
		return *value ? value : "none";
	}
	fail_msg("no field is called %s", key);
	return NULL;
}

/* What is wrong with an expectation; NULL: nothing. */
static const char *differs(struct stated *stated, const char *expected) {
	lk_arena *arena = &stated->arena;
	if (*expected == '!') {
		if (stated->status != LK_ERR_INPUT) return "it is not refused";
		return strstr(stated->message, expected + 2) ? NULL : stated->message;
	}
	if (stated->status != LK_OK) return stated->message;
	size_t length = strcspn(expected, " ");
	const char *key = lk_arena_printf(arena, "%.*s", (int)length, expected),
			   *rest = expected + length + (expected[length] == ' ');
	if (strcmp(key, "not-ignored") == 0) return reason(&stated->launch, rest);
	if (strcmp(key, "ignored") == 0) {
		const char *part = strstr(rest, ": ");
		size_t flag = part ? (size_t)(part - rest) : strlen(rest);
		const char *why = reason(&stated->launch, lk_arena_printf(arena, "%.*s", (int)flag, rest));
		if (why == NULL) return "it is not ignored";
		return part == NULL || strstr(why, part + 2) ? NULL : why;
	}
	const char *value = value_of(arena, &stated->launch, key);
	return strcmp(value, rest) == 0 ? NULL : value;
}

static void end_stated(struct stated *stated) {
	if (stated->begun && !stated->read) fail_msg("nothing is expected of:\n%s", stated->text);
	lk_arena_free(&stated->arena);
	*stated = (struct stated){.arena = LK_ARENA_INIT};
}

static void cases_of(const char *path) {
	lk_arena arena = LK_ARENA_INIT;
	struct names names = {.count = 0};
	struct stated stated = {.arena = LK_ARENA_INIT};
	FILE *in = fopen(path, "r");
	if (in == NULL) fail_msg("%s is not there", path);
	char *line = NULL;
	size_t room = 0;
	int cases = 0;
	for (int number = 1; getline(&line, &room, in) > 0; number++) {
		line[strcspn(line, "\n")] = '\0';
		const char *rest = line + (line[0] != '\0') + (line[0] != '\0' && line[1] == ' ');
		if (*line == '\0' || *line == '#') continue;
		if (strncmp(line, "let ", 4) == 0) {
			assert_true(names.count < 4);
			size_t length = strcspn(line + 4, " ");
			names.name[names.count] = lk_arena_printf(&arena, "<%.*s>", (int)length, line + 4);
			names.text[names.count++] = lk_arena_strdup(&arena, line + 4 + length + 1);
		} else if (*line == '$' || *line == '@') {
			end_stated(&stated);
			stated.begun = true;
			cases++;
			if (*line == '@') stated.name = lk_arena_strdup(&stated.arena, rest);
			else
				stated.text =
					with_names(&stated.arena, &names, lk_arena_strdup(&stated.arena, rest));
		} else if (*line == '>') {
			const char *more = with_names(&stated.arena, &names, rest);
			stated.text = stated.text ? lk_arena_printf(&stated.arena, "%s\n%s", stated.text, more)
			                          : lk_arena_strdup(&stated.arena, more);
		} else {
			assert_true(stated.begun && stated.text);
			if (!stated.read) read_stated(&stated);
			const char *wrong = differs(&stated, line);
			if (wrong) fail_msg("%s:%d: expected %s: %s", path, number, line, wrong);
		}
	}
	end_stated(&stated);
	free(line);
	fclose(in);
	assert_true(cases > 0);
	lk_arena_free(&arena);
}

static void shell_cases(void **state) {
	(void)state;
	cases_of(DATA "cases/shell.txt");
}

static void line_cases(void **state) {
	(void)state;
	cases_of(DATA "cases/lines.txt");
}

static void flag_cases(void **state) {
	(void)state;
	cases_of(DATA "cases/flags.txt");
}

static void configuration_cases(void **state) {
	(void)state;
	cases_of(DATA "cases/configurations.txt");
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

#define HYBRID                                                                          \
	"torchrun --nproc_per_node 8 pretrain_mamba.py --num-layers 24 --hidden-size 1024 " \
	"--num-attention-heads 16 --seq-length 1024 --max-position-embeddings 1024 "        \
	"--micro-batch-size 2 --vocab-size 1000 --disable-bias-linear "

static lk_job hybrid_of(lk_arena *arena, const char *flags) {
	return *script(arena, lk_arena_printf(arena, HYBRID "%s", flags)).job;
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

static void missing_file(void **state) {
	(void)state;
	lk_arena arena = LK_ARENA_INIT;
	lk_launch out;
	lk_error err = {0};
	const char *words[] = {"python", "train.py", "--deepspeed_config", "no_such_file.json"};
	assert_int_equal(lk_launch_read(&arena, 4, words, NULL, &out, &err), LK_ERR_IO);
	assert_string_equal(err.where, "no_such_file.json");
	lk_arena_free(&arena);
}

static void every_other_layer(void **state) {
	(void)state;
	lk_arena arena = LK_ARENA_INIT;
	const lk_model *model =
		&script(&arena, "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 24 "
	                    "--hidden-size 1024 --num-attention-heads 16 --seq-length 1024 "
	                    "--num-experts 4 --moe-layer-freq '([0]*1+[1]*1)*12'")
			 .job->model;
	assert_true(!lk_model_is_moe(model, 2) && lk_model_is_moe(model, 3));
	lk_arena_free(&arena);
}

/* ---- scripts ---- */

#define RUN "torchrun p.py --tensor-model-parallel-size "

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

static void shell_given(void **state) {
	(void)state;
	static const char *const two[] = {"4", "llama3"}, *const options[] = {"--tp", "8", "--x"};
	assert_int_equal(tp_given(RUN "$1", 2, two, NULL), 4);
	assert_int_equal(tp_given("T=${1:-2}\n" RUN "$T", 0, NULL, NULL), 2);
	assert_int_equal(tp_given("while [ $# -gt 0 ]; do case $1 in --tp) TP=$2; shift 2;; *) shift;; "
	                          "esac; done\n" RUN "$TP",
	                          3, options, NULL),
	                 8);
	assert_int_equal(tp_given("TP=$(nproc)\n" RUN "$TP", 0, NULL, "TP=2"), 2);
	assert_int_equal(tp_given("TP=2\r\n" RUN "$TP\r\n", 0, NULL, NULL), 2);
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

/* What no flag of Megatron-LM states: names, gradients that are added up in fp32 and reduced in
 * 16 bits, and the norm of embeddings, which forks alone have. */
static bool has_no_flag(const char *field) {
	static const char *const names[] = {"model", "family", "fp32_grads", "embed_norm"};
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
		cmocka_unit_test(shell_cases),
		cmocka_unit_test(line_cases),
		cmocka_unit_test(flag_cases),
		cmocka_unit_test(configuration_cases),
		cmocka_unit_test(gpt_175b),
		cmocka_unit_test(llama3_8b),
		cmocka_unit_test(mixtral),
		cmocka_unit_test(deepseek),
		cmocka_unit_test(trainer_with_deepspeed),
		cmocka_unit_test(configurations_inside),
		cmocka_unit_test(titan_stages),
		cmocka_unit_test(automodel_teacher),
		cmocka_unit_test(hybrid_sharding),
		cmocka_unit_test(flags_only),
		cmocka_unit_test(hybrid_flags),
		cmocka_unit_test(vision_is_said),
		cmocka_unit_test(missing_file),
		cmocka_unit_test(every_other_layer),
		cmocka_unit_test(shell_given),
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
