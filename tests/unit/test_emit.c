/* test_emit.c: what is written for a framework or a scheduler reads back as the same job: every
 * target, every preset (a sample of both but with LOCKSTEP_LONG), several layouts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/arena.h"
#include "base/text.h"
#include "hw/hw.h"
#include "launch/emit/emit.h"
#include "launch/read.h"
#include "launch/reading/reading.h"
#include "model/layout/job.h"
#include "rounds.h"
#include "model/read/read.h"

static const char *const frameworks[] = {"megatron",      "bridge",     "nemo",
                                         "deepspeed",     "torchtitan", "axolotl",
                                         "llama-factory", "nanotron",   "accelerate"};
static const char *const wrappers[] = {"", "sbatch:", "skypilot:", "kubernetes:"};

enum {
	FRAMEWORKS = sizeof frameworks / sizeof *frameworks,
	WRAPPERS = sizeof wrappers / sizeof *wrappers
};

static lk_cluster sixteen(lk_arena *arena, const char *gpu) {
	lk_cluster cluster;
	assert_int_equal(lk_cluster_simple(arena, lk_device_find(gpu), 16, 0, 0, &cluster, NULL),
	                 LK_OK);
	return cluster;
}

/* The text in a file with the ending of its kind, read as any file is, completed. */
static void assert_reads_back(lk_arena *arena, const char *target, const char *text,
                              const lk_job *job, const lk_cluster *cluster) {
	bool script = strncmp(text, "#!", 2) == 0 || strstr(text, "torchrun") == text ||
	              strncmp(text, "CUDA_", 5) == 0;
	char path[] = "/tmp/lockstep-emit-XXXXXX.yaml", message[1024];
	if (script) strcpy(path, "/tmp/lockstep-emit-XXXXXX.sh");
	int file = mkstemps(path, script ? 3 : 5);
	assert_int_equal(write(file, text, strlen(text)), strlen(text));
	close(file);
	lk_launch back = {0};
	lk_error err = {0};
	lk_status status = lk_launch_file(arena, path, NULL, &back, &err);
	unlink(path);
	if (status != LK_OK)
		fail_msg("%s: %s\n%s", target, lk_error_text(&err, message, sizeof message), text);
	lk_job *read = back.job;
	read->gpus = back.gpus;
	if (back.gpus != job->gpus)
		fail_msg("%s: %d GPUs, not %d\n%s", target, back.gpus, job->gpus, text);
	if (read->model.layers == 0) {
		if (back.network == NULL) fail_msg("%s names no network\n%s", target, text);
		if (lk_model_preset(back.network, &read->model, &err) != LK_OK)
			fail_msg("%s: %s\n%s", target, back.network, text);
	}
	if (lk_job_complete(read, cluster, &err) != LK_OK)
		fail_msg("%s: %s\n%s", target, lk_error_text(&err, message, sizeof message), text);
	for (const lk_field *field = lk_job_fields; field->name != NULL; field++)
		if (!lk_field_equal(field, job, read))
			fail_msg("%s: %s is %s, not %s\n%s", target, field->name,
			         lk_field_value(arena, field, read), lk_field_value(arena, field, job), text);
	/* samples of texts alone would leave an encoder of images out */
	const lk_tower *tower = &job->model.tower;
	if (back.samples == LK_SAMPLES_TEXTS && tower->layers > 0 && !tower->apart && !tower->crossed)
		fail_msg("%s: no images in\n%s", target, text);
	/* what no field carries would show here */
	const lk_model *theirs = &read->model, *ours = &job->model;
	int seq = job->seq > 0 ? job->seq : 1;
	if (lk_model_params(theirs) != lk_model_params(ours) ||
	    lk_model_active_params(theirs) != lk_model_active_params(ours) ||
	    lk_model_flops(theirs, seq) != lk_model_flops(ours, seq))
		fail_msg("%s: %s has %.0f parameters, not %.0f\n%s", target, ours->name,
		         lk_model_params(theirs), lk_model_params(ours), text);
	assert_int_equal(read->dp, job->dp);
	assert_int_equal(read->microbatches, job->microbatches);
}

/* Layouts; what a stack or a network cannot run is passed over. */
static void vary(lk_job *job, int variant) {
	switch (variant) {
	case 1:
		job->tp = 2;
		job->mbs = 2;
		job->recompute = LK_RECOMPUTE_FULL;
		job->recompute_said = true;
		break;
	case 2:
		job->pp = 2;
		job->ep = job->model.experts > 0 ? 2 : 0;
		job->dtype = LK_FP8;
		job->dtype_said = true;
		job->state_dtype = LK_BF16;
		break;
	case 3:
		job->sharding = LK_SHARD_ZERO2;
		job->sharding_said = true;
		job->offload_optimizer = true;
		job->recompute = LK_RECOMPUTE_SELECTIVE;
		job->recompute_said = true;
		lk_copy(job->nccl, sizeof job->nccl, "2.21 NCCL_ALGO=Ring");
		break;
	case 4:
		job->task = LK_TASK_LORA;
		job->lora_rank = 8;
		job->compile = true;
		job->attn_library = LK_ATTN_LIBRARY_FLASH3;
		job->attn_library_said = true;
		job->fused_cross_entropy = LK_ON;
		break;
	case 5:
		job->cp = 2;
		job->shard_group = 8;
		job->sharding = LK_SHARD_ZERO3;
		job->sharding_said = true;
		job->max_connections = 1;
		break;
	case 6:
		job->sharding = LK_SHARD_ZERO3;
		job->sharding_said = true;
		job->offload_optimizer = job->offload_params = true;
		job->offload_activations = job->model.layers % 2 == 0;
		job->loss = LK_LOSS_LINEAR;
		break;
	default: break;
	}
}

enum { VARIANTS = 7 };

static void everything_reads_back(void **state) {
	(void)state;
	/* Of all presets and variants one in so many. */
	int apart = takes_long() ? 1 : judged_elsewhere() ? 29 : 7;
	int written[FRAMEWORKS] = {0}, tried = 0;
	for (int preset = 0; preset < lk_model_preset_count(); preset++) {
		for (int variant = 0; variant < VARIANTS; variant++) {
			if ((preset + variant) % apart != 0 || !has_its_turn((preset + variant) / apart))
				continue;
			for (int i = 0; i < FRAMEWORKS; i++) {
				lk_arena arena = LK_ARENA_INIT;
				lk_cluster cluster = sixteen(&arena, preset % 2 ? "h100-sxm" : "a100-sxm-80");
				lk_job job = {.model = *lk_model_preset_at(preset), .gpus = 16, .gbs = 64};
				lk_copy(job.stack, sizeof job.stack, lk_emit_stack(frameworks[i]));
				if (job.model.vocab > 0 && job.model.image == 0) job.seq = 512;
				vary(&job, variant);
				job.stack_recipe = variant == 1;
				lk_emitted emitted;
				lk_error err = {0};
				bool legal = lk_job_complete(&job, &cluster, NULL) == LK_OK;
				for (int w = 0; legal && w < WRAPPERS; w++) {
					char target[48];
					snprintf(target, sizeof target, "%s%s", wrappers[w], frameworks[i]);
					lk_status status =
						lk_emit(&arena, target, &job, &cluster, NULL, &emitted, &err);
					tried++;
					if (status == LK_ERR_INPUT && strstr(err.what, "cannot run this job") != NULL)
						continue;
					if (status != LK_OK) {
						char text[1024];
						fail_msg("%s of %s, variant %d: %s", target, job.model.name, variant,
						         lk_error_text(&err, text, sizeof text));
					}
					assert_reads_back(&arena, target, emitted.text, &job, &cluster);
					written[i]++;
				}
				lk_arena_free(&arena);
			}
		}
	}
	for (int i = 0; i < FRAMEWORKS; i++) {
		print_message("%s: %d read back\n", frameworks[i], written[i]);
		assert_true(written[i] > 100 / apart);
	}
	assert_true(tried > 1000 / apart);
}

int main(void) {
	const struct CMUnitTest tests[] = {cmocka_unit_test(everything_reads_back)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
