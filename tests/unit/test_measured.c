/* test_measured.c: what a run measured: numbers that people type; logs and exports, written from
 * known numbers and read back. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/vec.h"
#include "io/protobuf.h"
#include "measured/measured.h"

static void assert_near(double found, double expected) {
	if (fabs(found - expected) <= 1e-9 * fabs(expected)) return;
	print_error("%.17g, not %.17g\n", found, expected);
	fail();
}

/* ---- numbers ---- */

static void numbers_are_read_with_their_units(void **state) {
	(void)state;
	static const struct {
		const char *text;
		size_t at;
		double value;
	} cases[] = {
#define AT(member) offsetof(lk_measured, member)
		{"7.2 s", AT(step_s), 7.2},
		{"7200 ms", AT(step_s), 7.2},
		{"1.4 s/it", AT(step_s), 1.4},
		{"3 it/s", AT(step_s), 1.0 / 3},
		{"step time: 2 min", AT(step_s), 120},
		{"200 tok/s", AT(tokens_per_s), 200},
		{"200 tok/s/gpu", AT(tokens_per_s_gpu), 200},
		{"12,345 tokens per second per GPU", AT(tokens_per_s_gpu), 12345},
		{"1.2M tokens/s", AT(tokens_per_s), 1.2e6},
		{"12 samples/sec", AT(samples_per_s), 12},
		{"31 % MFU", AT(mfu), 0.31},
		{"MFU 31%", AT(mfu), 0.31},
		{"mfu=0.31", AT(mfu), 0.31},
		{"412 TFLOP/s/GPU", AT(tflops_gpu), 412},
		{"0.4 PFLOP/s", AT(tflops_gpu), 400},
		{"memory 73 GiB", AT(memory_bytes), 73 * 0x1p30},
		{"73 GB reserved", AT(memory_bytes), 73e9},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		lk_measured said;
		lk_error err;
		if (lk_measured_number(cases[i].text, &said, &err) != LK_OK) {
			print_error("%s: %s\n", cases[i].text, err.what);
			fail();
		}
		assert_near(*(const double *)(const void *)((const char *)&said + cases[i].at),
		            cases[i].value);
		assert_non_null(said.source);
		lk_measured_free(&said);
	}
}

static void several_numbers_are_read_with_commas(void **state) {
	(void)state;
	lk_measured said;
	lk_error err;
	assert_int_equal(lk_measured_number("7.2 s, 1,234 tok/s/gpu and 73 GiB reserved; 8 GPUs, batch "
	                                    "256, seq 4096",
	                                    &said, &err),
	                 LK_OK);
	assert_near(said.step_s, 7.2);
	assert_near(said.tokens_per_s_gpu, 1234);
	assert_near(said.memory_bytes, 73 * 0x1p30);
	assert_int_equal(said.memory_kind, LK_MEMORY_RESERVED);
	assert_int_equal(said.gpus, 8);
	assert_int_equal(said.global_batch, 256);
	assert_int_equal(said.seq_len, 4096);
	lk_measured_free(&said);
}

static void unclear_numbers_are_refused(void **state) {
	(void)state;
	static const char *const texts[] = {"",     "7.2",   "fast",    "7.2 parsecs",  "7 s, 8 s",
	                                    "31 %", "-3 s",  "0 s",     "1e400 s",      "140 % MFU",
	                                    "s",    "7 s 8", "3 s/gpu", "200 tok/s/it", "memory 7.2 s",
	                                    ", ,"};
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		lk_measured said;
		lk_error err = {0};
		if (lk_measured_number(texts[i], &said, &err) != LK_ERR_INPUT) {
			print_error("'%s' is read\n", texts[i]);
			fail();
		}
		assert_true(*err.what && *err.hint);
		assert_null(said.source);
	}
}

static void numbers_are_distinguished_from_paths(void **state) {
	(void)state;
	assert_true(lk_measured_is_number("7.2 s"));
	assert_true(lk_measured_is_number("memory 73 GiB"));
	assert_false(lk_measured_is_number("run/train.log"));
	assert_false(lk_measured_is_number("-"));
}

/* ---- logs, written from known numbers ---- */

/* A run: step 1 compiles, step 5 saves a checkpoint, the others take the same time. */
enum { STEPS = 9 };
struct run {
	double step_s, tflops, mfu, tokens_gpu, memory_gib;
	int batch;
};
static const struct run runs[] = {{7.2121, 412.3, 0.3104, 1234.5, 43.25, 128},
                                  {0.625, 90.25, 0.0912, 20480, 71.5, 16}};

static double seconds_of(const struct run *run, int step) {
	if (step == 1) return 20 * run->step_s; /* compiles */
	return step == 5 ? 3 * run->step_s : run->step_s;
}

typedef void write_step(FILE *out, const struct run *run, int step, double at_s);

static void megatron_step(FILE *out, const struct run *run, int step, double at_s) {
	(void)at_s;
	if (step == 1)
		fprintf(out, "  world_size ...................................... 16\n"
		             "  seq_length ...................................... 4096\n");
	fprintf(
		out,
		" [2025-05-01 12:00:00.123] iteration %8d/     500 | consumed samples: %12d | elapsed time "
		"per iteration (ms): %.4f | throughput per GPU (TFLOP/s/GPU): %.2f | learning rate: "
		"1.0E-04 | "
		"global batch size: %5d | lm loss: 1.0E+01 |\n",
		step, step * run->batch, 1e3 * seconds_of(run, step), run->tflops, run->batch);
	fprintf(out,
	        "(min, max) time across ranks (ms):\n"
	        "    forward-compute ................................: (10.00, %.4f)\n"
	        "    optimizer ......................................: (1.25, 2.50)\n",
	        250 * seconds_of(run, step));
	if (step == 1)
		fprintf(
			out,
			"[Rank 0] (after 1 iterations) memory (MB) | allocated: 12.5 | max allocated: 99.5 | "
			"reserved: 100.0 | max reserved: %.2f\n",
			1024 * run->memory_gib);
}

static void titan_step(FILE *out, const struct run *run, int step, double at_s) {
	fprintf(out,
	        "[rank0]:[titan] 2025-05-01 %02d:%02d:%09.6f - root - INFO - \033[31mstep: %2d  "
	        "\033[32mloss: "
	        " 8.1234  \033[33mmemory: %.2fGiB(54.61%%)  \033[34mtps: %.1f  \033[36mtflops: %.2f  "
	        "\033[35mmfu: %.2f%%\033[39m\n",
	        (int)at_s / 3600, (int)at_s / 60 % 60, fmod(at_s, 60), step, run->memory_gib,
	        run->tokens_gpu, run->tflops, 100 * run->mfu);
}

static void nemo_step(FILE *out, const struct run *run, int step, double at_s) {
	(void)at_s;
	fprintf(out,
	        "0: Training epoch 0, iteration %d/99 | lr: 1.5e-05 | global_batch_size: %d | "
	        "global_step: %d "
	        "| reduced_train_loss: 11.03 | train_step_timing in s: %.4f | consumed_samples: %d\n",
	        step, run->batch, step, seconds_of(run, step), step * run->batch);
}

static void bridge_step(FILE *out, const struct run *run, int step, double at_s) {
	(void)at_s;
	fprintf(out, "Step Time : %.4fs GPU utilization: %.2fMODEL_TFLOP/s/GPU\n",
	        seconds_of(run, step), run->tflops);
	fprintf(out, " iteration %d/ 50 | global_batch_size: %d |\n", step, run->batch);
}

static void trainer_step(FILE *out, const struct run *run, int step, double at_s) {
	if (step == 1)
		fprintf(out,
		        "Loading checkpoint shards: 100%%|####| 4/4 [00:01<00:00,  9.00it/s]\n"
		        "  Total train batch size (w. parallel, distributed & accumulation) = %d\n",
		        run->batch);
	fprintf(out, "\r %d%%|#3        | %d/100 [%02d:%02d<10:11, %.4fs/it]\n", step, step,
	        (int)at_s / 60, (int)at_s % 60, seconds_of(run, step));
	fprintf(out, "\r %d%%|#3        | %d/100 [%02d:%02d<10:11, %.4fs/it, loss=1]\n", step, step,
	        (int)at_s / 60, (int)at_s % 60, seconds_of(run, step));
	fprintf(out, "{'loss': '1.25', 'grad_norm': 1.5, 'epoch': 0.1}\n");
}

static void axolotl_step(FILE *out, const struct run *run, int step, double at_s) {
	trainer_step(out, run, step, at_s);
	fprintf(out,
	        "{'loss': '1.695', 'memory/max_active (GiB)': '1.5', 'memory/device_reserved (GiB)': "
	        "'%.2f', "
	        "'tokens/train_per_sec_per_gpu': %.1f}\n",
	        run->memory_gib, run->tokens_gpu);
}

static void swift_step(FILE *out, const struct run *run, int step, double at_s) {
	(void)at_s;
	fprintf(out,
	        "{'loss': 1.25, 'global_step/max_steps': '%d/100', 'elapsed_time': '2m 41s', "
	        "'memory(GiB)': "
	        "%.2f, 'train_speed(iter/s)': %.9f}\n",
	        step, run->memory_gib, 1 / seconds_of(run, step));
}

static void deepspeed_step(FILE *out, const struct run *run, int step, double at_s) {
	(void)at_s;
	if (step == 1) fprintf(out, "  train_batch_size ............. %d\n", run->batch);
	fprintf(out,
	        "[2024-03-07 15:27:02,646] [INFO] [timer.py:260:stop] "
	        "epoch=0/micro_step=%d/global_step=%d, "
	        "RunningAvgSamplesPerSec=58.7, CurrSamplesPerSec=%.9f, MemAllocated=1.25GB, "
	        "MaxMemAllocated=%.2fGB\n",
	        2 * step, step, run->batch / seconds_of(run, step), run->memory_gib);
	fprintf(out, "[Rank 0] time (ms) | fwd: %.4f | bwd: 2.0 | bwd_inner: 1.0 | step: 0.5\n",
	        250 * seconds_of(run, step));
}

static void torchtune_step(FILE *out, const struct run *run, int step, double at_s) {
	(void)at_s;
	fprintf(out,
	        "Step %d | loss:1.25 lr:2e-05 tokens_per_second_per_gpu:%.1f peak_memory_active:1.5 "
	        "peak_memory_alloc:1.25 peak_memory_reserved:%.2f\n",
	        step, run->tokens_gpu, run->memory_gib);
}

static void verl_step(FILE *out, const struct run *run, int step, double at_s) {
	(void)at_s;
	fprintf(
		out,
		"(TaskRunner pid=12) step:%d - actor/loss:0.5 - perf/mfu/actor:np.float64(%.4f) - "
		"perf/max_memory_allocated_gb:1.5 - perf/max_memory_reserved_gb:%.2f - timing_s/gen:%.4f - "
		"timing_s/step:%.4f - perf/throughput:%.1f\n",
		step, run->mfu, run->memory_gib, seconds_of(run, step) / 4, seconds_of(run, step),
		run->tokens_gpu);
}

static void nemo_rl_step(FILE *out, const struct run *run, int step, double at_s) {
	(void)at_s;
	fprintf(out,
	        "========================= Step %d/100 =========================\n  Total step time: "
	        "%.4fs\n  "
	        "  - E2E (Tokens/sec/gpu): %.1f\n",
	        step, seconds_of(run, step), run->tokens_gpu);
}

static void maxtext_step(FILE *out, const struct run *run, int step, double at_s) {
	(void)at_s;
	fprintf(out,
	        "completed step: %d, seconds: %.4f, TFLOP/s/device: %.2f, Tokens/s/device: %.1f, loss: "
	        "10\n",
	        step, seconds_of(run, step), run->tflops, run->tokens_gpu);
}

static void litgpt_step(FILE *out, const struct run *run, int step, double at_s) {
	(void)at_s;
	for (int micro = 1; micro <= 4; micro++)
		fprintf(out,
		        "Epoch 1 | iter %d step %d | loss train: 1.25, val: n/a | iter time: %.6f ms\n",
		        4 * (step - 1) + micro, step, 250 * seconds_of(run, step));
	if (step == STEPS) fprintf(out, "Memory used: %.2f GiB\n", run->memory_gib);
}

static void openrlhf_step(FILE *out, const struct run *run, int step, double at_s) {
	(void)at_s;
	fprintf(out, "Global step %d: {'timing/step_total': %.4f, 'timing/ppo_train': %.4f}\n", step,
	        seconds_of(run, step), seconds_of(run, step) / 2);
}

static void nanotron_step(FILE *out, const struct run *run, int step, double at_s) {
	(void)at_s;
	fprintf(out,
	        "iteration: %d / 20 | consumed_tokens: 131K | elapsed_time_per_iteration_ms: %.7fK | "
	        "tokens_per_sec_per_gpu: %.4fK | global_batch_size: %d | model_tflops_per_gpu: %.2f\n",
	        step, seconds_of(run, step), run->tokens_gpu / 1e3, run->batch, run->tflops);
}

static void llmc_step(FILE *out, const struct run *run, int step, double at_s) {
	(void)at_s;
	fprintf(
		out,
		"step %4d/19560 | loss 7.1 | norm 1.5 | lr 1e-4 | %.4f ms | %.2f%% bf16 MFU | 9 tok/s\n",
		step, 1e3 * seconds_of(run, step), 100 * run->mfu);
}

static void jsonl_step(FILE *out, const struct run *run, int step, double at_s) {
	(void)at_s;
	fprintf(out,
	        "{\"step\": %d, \"loss\": 1.5, \"step_time\": %.4f, \"perf\": {\"mfu\": %.4f}, "
	        "\"tokens_per_second_per_gpu\": \"%.1f\"}\n",
	        step, seconds_of(run, step), run->mfu, run->tokens_gpu);
}

static void csv_step(FILE *out, const struct run *run, int step, double at_s) {
	if (step == 1)
		fprintf(out, "\"Step\",\"run 1 - _runtime\",\"run 1 - train/mfu\",\"train/loss\"\n");
	fprintf(out, "%d,%.6f,%.4f,\"\"\n", step, at_s, run->mfu);
}

/* Which numbers a format states. */
enum { STEP = 1, TFLOPS = 2, MFU = 4, TOKENS = 8, MEMORY = 16, BATCH = 32 };
static const struct format {
	const char *name, *source;
	write_step *write;
	int states;
} formats[] = {
	{"megatron.log", "Megatron-LM", megatron_step, STEP | TFLOPS | MEMORY | BATCH},
	{"titan.log", "torchtitan", titan_step, STEP | TFLOPS | MFU | TOKENS | MEMORY},
	{"nemo.log", "NeMo", nemo_step, STEP | BATCH},
	{"bridge.log", "NeMo", bridge_step, STEP | TFLOPS | BATCH},
	{"trainer.log", "the HuggingFace Trainer", trainer_step, STEP | BATCH},
	{"axolotl.log", "axolotl", axolotl_step, STEP | TOKENS | MEMORY | BATCH},
	{"swift.log", "ms-swift", swift_step, STEP | MEMORY},
	{"deepspeed.log", "DeepSpeed", deepspeed_step, STEP | MEMORY | BATCH},
	{"torchtune.log", "torchtune", torchtune_step, TOKENS | MEMORY},
	{"verl.log", "verl", verl_step, STEP | MFU | TOKENS | MEMORY},
	{"nemo_rl.log", "NeMo RL", nemo_rl_step, STEP | TOKENS},
	{"maxtext.log", "MaxText", maxtext_step, STEP | TFLOPS | TOKENS},
	{"litgpt.log", "litgpt", litgpt_step, STEP | MEMORY},
	{"openrlhf.log", "OpenRLHF", openrlhf_step, STEP},
	{"nanotron.log", "Megatron-LM", nanotron_step, STEP | TFLOPS | TOKENS | BATCH},
	{"llmc.log", "a training script", llmc_step, STEP | MFU},
	{"metrics.jsonl", "a training script", jsonl_step, STEP | MFU | TOKENS},
	{"wandb.csv", "a training script", csv_step, STEP | MFU},
};

static char *written_run(const struct format *format, const struct run *run, size_t *size) {
	char *text = NULL;
	double at_s = 3600;
	FILE *out = open_memstream(&text, size);
	assert_non_null(out);
	for (int step = 1; step <= STEPS; step++)
		format->write(out, run, step, at_s += seconds_of(run, step));
	assert_int_equal(fclose(out), 0);
	return text;
}

static void check_near(const char *name, const char *what, double found, double expected,
                       double part) {
	if (fabs(found - expected) <= part * fabs(expected)) return;
	print_error("%s: %s is %.9g, not %.9g\n", name, what, found, expected);
	fail();
}

static void check_run(const struct format *format, const struct run *run,
                      const lk_measured *found) {
	if (!strstr(found->source, format->source)) {
		print_error("%s: \"%s\"\n", format->name, found->source);
		fail();
	}
	/* stamps and rates have few digits */
	if (format->states & STEP) check_near(format->name, "step", found->step_s, run->step_s, 1e-4);
	if (format->states & TFLOPS)
		check_near(format->name, "tflops", found->tflops_gpu, run->tflops, 1e-9);
	if (format->states & MFU) check_near(format->name, "mfu", found->mfu, run->mfu, 1e-9);
	if (format->states & TOKENS)
		check_near(format->name, "tokens", found->tokens_per_s_gpu, run->tokens_gpu, 1e-9);
	if (format->states & MEMORY)
		check_near(format->name, "memory", found->memory_bytes, run->memory_gib * 0x1p30, 1e-9);
	if (format->states & BATCH)
		check_near(format->name, "batch", (double)found->global_batch, run->batch, 0);
}

static void what_each_format_states_is_read_back(void **state) {
	(void)state;
	for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
		for (size_t j = 0; j < sizeof runs / sizeof *runs; j++) {
			size_t size;
			char *text = written_run(&formats[i], &runs[j], &size);
			lk_measured found;
			lk_error err = {0};
			if (lk_measured_text(text, size, formats[i].name, &found, &err) != LK_OK) {
				print_error("%s: %s\n", formats[i].name, err.what);
				fail();
			}
			check_run(&formats[i], &runs[j], &found);
			lk_measured_free(&found);
			free(text);
		}
}

static void ranks_that_state_a_step_count_once(void **state) {
	(void)state;
	static const char text[] = "[rank1]: completed step: 1, seconds: 9.0, TFLOP/s/device: 1\n"
							   "[rank0]: completed step: 1, seconds: 8.0, TFLOP/s/device: 1\n"
							   "[rank0]: completed step: 2, seconds: 2.0, TFLOP/s/device: 1\n"
							   "[rank1]: completed step: 2, seconds: 3.0, TFLOP/s/device: 1\n"
							   "> [rank1]: completed step: 3, seconds: 3.0, TFLOP/s/device: 1\n";
	lk_measured found;
	lk_error err;
	assert_int_equal(lk_measured_text(text, strlen(text), "log", &found, &err), LK_OK);
	assert_int_equal(found.steps, 3);
	assert_int_equal(found.first_steps, 1);
	assert_near(found.step_s, 3);
	assert_near(found.step_times_s[0], 9);
	assert_string_equal(found.source, "log of MaxText, 3 steps");
	lk_measured_free(&found);
}

static void epochs_that_count_anew_are_rounds(void **state) {
	(void)state;
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	for (int epoch = 0; epoch < 3; epoch++)
		for (int step = 1; step <= 20; step++)
			fprintf(out, "epoch %d step %d/20 | loss 1.5 | %d.0 ms |\n", epoch, step,
			        100 + 10 * epoch);
	assert_int_equal(fclose(out), 0);
	lk_measured found;
	lk_error err;
	assert_int_equal(lk_measured_text(text, size, "log", &found, &err), LK_OK);
	assert_int_equal(found.steps, 60);
	assert_near(found.step_s, 0.11); /* not the slowest of the three */
	lk_measured_free(&found);
	free(text);
}

static void parts_of_a_step_are_named(void **state) {
	(void)state;
	size_t size;
	char *text = written_run(&formats[0], &runs[0], &size);
	lk_measured found;
	lk_error err;
	assert_int_equal(lk_measured_text(text, size, "log", &found, &err), LK_OK);
	assert_int_equal(found.part_count, 2);
	assert_string_equal(found.parts[0].name, "forward-compute");
	check_near("megatron", "forward-compute", found.parts[0].seconds, runs[0].step_s / 4, 1e-5);
	assert_string_equal(found.parts[1].name, "optimizer");
	assert_near(found.parts[1].seconds, 0.0025);
	assert_int_equal(found.gpus, 16);
	assert_int_equal(found.seq_len, 4096);
	assert_int_equal(found.memory_kind, LK_MEMORY_RESERVED);
	lk_measured_free(&found);
	free(text);
}

static void tables_of_devices_are_read(void **state) {
	(void)state;
	static const char plain[] =
		"| NVIDIA-SMI 550.54.15    Driver Version: 550.54.15    CUDA Version: 12.4     |\n"
		"|   0  NVIDIA GeForce RTX 4090        Off |   00000000:01:00.0 Off |                  Off "
		"|\n"
		"| 30%   45C    P2            300W /  450W |   20480MiB /  24564MiB |     90%      Default "
		"|\n"
		"|   1  NVIDIA GeForce RTX 4090        Off |   00000000:02:00.0 Off |                  Off "
		"|\n"
		"| 30%   45C    P2            200W /  450W |   22528MiB /  24564MiB |     80%      Default "
		"|\n";
	static const char dmon[] = "# gpu    pwr  gtemp     sm    mem   mclk   pclk     fb\n"
							   "# Idx      W      C      %      %    MHz    MHz     MB\n"
							   "    0    300     45     90     50   5001   1980  20480\n"
							   "    1    200     45     80     50   5001   1500  22528\n";
	static const char query[] =
		"index, name, power.draw [W], memory.used [MiB], utilization.gpu [%]\n"
		"0, NVIDIA A100, 300.00 W, 20480 MiB, 90 %\n"
		"1, NVIDIA A100, 200.00 W, 22528 MiB, 80 %\n";
	const char *const texts[] = {plain, dmon, query};
	for (size_t i = 0; i < 3; i++) {
		lk_measured found;
		lk_error err = {0};
		if (lk_measured_text(texts[i], strlen(texts[i]), "smi", &found, &err) != LK_OK) {
			print_error("%zu: %s\n", i, err.what);
			fail();
		}
		assert_int_equal(found.gpus, 2);
		assert_near(found.memory_bytes, 22528 * 0x1p20);
		assert_int_equal(found.memory_kind, LK_MEMORY_DEVICE);
		assert_near(found.power_w, 250);
		assert_near(found.utilisation, 0.85);
		if (i == 0) assert_string_equal(found.gpu_name, "NVIDIA GeForce RTX 4090");
		if (i == 0) assert_near(found.gpu_memory_bytes, 24564 * 0x1p20);
		if (i == 1) assert_near(found.clock_hz, 1740e6);
		lk_measured_free(&found);
	}
}

static lk_measured measured_of(const char *text, const char *name) {
	lk_measured found;
	lk_error err = {0};
	if (lk_measured_text(text, strlen(text), name, &found, &err) != LK_OK) {
		print_error("%s: %s\n", name, err.what);
		fail();
	}
	return found;
}

static void devices_are_named(void **state) {
	(void)state;
	char name[LK_MEASURED_DEVICE];
	assert_int_equal(lk_measured_smi_device("GPU 3: NVIDIA H100 80GB HBM3 (UUID: GPU-1)", name), 3);
	assert_string_equal(name, "NVIDIA H100 80GB HBM3");
	assert_int_equal(lk_measured_smi_device(
						 "|   7  Tesla V100-SXM2...  On   | 00000000:8A:00.0 Off |  0 |", name),
	                 7);
	assert_string_equal(name, "Tesla V100-SXM2...");
	/* a process, a border, a step */
	assert_int_equal(
		lk_measured_smi_device("|    0   N/A  N/A      1234      C   python     20000MiB |", name),
		-1);
	assert_int_equal(lk_measured_smi_device("|---------------+-----|", name), -1);
	assert_int_equal(lk_measured_smi_device("| 30%   45C    P2   300W /  450W |", name), -1);
}

static void failed_allocations_are_told(void **state) {
	(void)state;
	lk_measured found =
		measured_of("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total "
	                "capacity of 79.25 GiB of which 1.00 GiB is free. Process 12 has "
	                "77.50 GiB memory in use.\n",
	                "log");
	assert_true(found.out_of_memory);
	assert_near(found.memory_bytes, 77.5 * 0x1p30);
	assert_near(found.gpu_memory_bytes, 79.25 * 0x1p30);
	lk_measured_free(&found);
	found = measured_of(
		"(GPU 0; 24.00 GiB total capacity; 21.50 GiB already allocated; 9 MiB free; 22.50 "
		"GiB reserved in total by PyTorch) CUDA out of memory\n",
		"log");
	assert_near(found.memory_bytes, 22.5 * 0x1p30);
	assert_int_equal(found.memory_kind, LK_MEMORY_RESERVED);
	lk_measured_free(&found);
}

static void only_the_bar_of_the_training_counts(void **state) {
	(void)state;
	lk_measured found = measured_of(
		"Loading checkpoint shards:  25%|## | 1/4 [10:00<30:00, 600.00s/it]\n"
		"Loading checkpoint shards:  50%|#### | 2/4 [20:00<20:00, 600.00s/it]\n"
		"  1%|# | 1/100 [00:09<15:00,  9.00s/it]\r  2%|# | 2/100 [00:11<04:00,  2.00s/it]\r"
		"  3%|# | 3/100 [00:13<04:00,  2.00s/it]\n"
		"  4%|# | 1/25 [00:00<00:05,  4.00it/s]\r  8%|# | 2/25 [00:00<00:05,  4.00it/s]\n"
		"  4%|# | 4/100 [00:15<04:00,  2.00s/it]\n",
		"log");
	assert_int_equal(found.steps, 4);
	assert_near(found.step_s, 2);
	lk_measured_free(&found);
}

static void other_exports_are_read(void **state) {
	(void)state;
	lk_measured found = measured_of("{\"global_step\": 30, \"log_history\": [{\"loss\": 1, "
	                                "\"step\": 10}, {\"train_steps_per_second\": "
	                                "0.5, \"train_samples_per_second\": 16, \"step\": 30}]}",
	                                "trainer_state.json");
	assert_near(found.step_s, 2);
	assert_near(found.samples_per_s, 16);
	lk_measured_free(&found);
	found = measured_of(
		"{\"current_steps\": 10, \"elapsed_time\": \"0:01:10\", \"throughput\": 1234.5}\n"
		"{\"current_steps\": 20, \"elapsed_time\": \"0:02:20\", \"throughput\": 1234.5}\n",
		"trainer_log.jsonl");
	assert_near(found.step_s, 7);
	assert_near(found.tokens_per_s, 1234.5);
	lk_measured_free(&found);
	found = measured_of("1700000000000 0.25 1\n1700000002500 0.25 2\n1700000005000 0.25 3\n",
	                    "mlruns/0/a/metrics/perf/mfu/actor");
	assert_near(found.mfu, 0.25);
	assert_near(found.step_s, 2.5);
	assert_string_equal(found.source,
	                    "metrics folder of verl, 2 steps, times of steps by their time stamps");
	lk_measured_free(&found);
	found = measured_of("#Entity   POWER   SMCLK   FBUSD\nGPU 0   300.0   1980   20480\n"
	                    "GPU 1   200.0   1500   22528\n",
	                    "dcgm.txt");
	assert_near(found.memory_bytes, 22528 * 0x1p20);
	assert_near(found.power_w, 250);
	lk_measured_free(&found);
	found = measured_of("    Product Name                          : NVIDIA H100 80GB HBM3\n"
	                    "    FB Memory Usage\n        Total : 81559 MiB\n        Used : 73000 MiB\n"
	                    "    SW Power Cap                          : Active\n",
	                    "q.txt");
	assert_near(found.memory_bytes, 73000 * 0x1p20);
	assert_true(found.throttled);
	assert_string_equal(found.gpu_name, "NVIDIA H100 80GB HBM3");
	lk_measured_free(&found);
}

static void put_little(FILE *out, uint64_t number, int bytes) {
	for (int i = 0; i < bytes; i++) fputc((int)(number >> 8 * i & 255), out);
}

/* CRC-32C by its definition, a bit at a time, masked as TFRecord has it. */
static uint32_t record_crc(const unsigned char *bytes, size_t size) {
	uint32_t crc = UINT32_MAX;
	for (size_t i = 0; i < 8 * size; i++) {
		uint32_t bit = (crc ^ bytes[i / 8] >> i % 8) & 1;
		crc = crc >> 1 ^ (bit ? UINT32_C(0x82f63b78) : 0);
	}
	crc = ~crc;
	return (crc >> 15 | crc << 17) + UINT32_C(0xa282ead8);
}

static void put_record(FILE *out, const lk_proto_out *event) {
	unsigned char size[8];
	for (int i = 0; i < 8; i++) size[i] = (unsigned char)(event->bytes.count >> 8 * i);
	put_little(out, event->bytes.count, 8);
	put_little(out, record_crc(size, 8), 4);
	fwrite(event->bytes.at, 1, event->bytes.count, out);
	put_little(out, record_crc(event->bytes.at, event->bytes.count), 4);
}

static void put_event(FILE *out, int step, double at_s, const char *tag, float value, bool tensor) {
	lk_proto_out event = {0};
	uint32_t bits;
	memcpy(&bits, &value, sizeof bits);
	lk_proto_put_double(&event, 1, at_s);
	lk_proto_put_integer(&event, 2, (uint64_t)step);
	size_t summary = lk_proto_begin(&event, 5), inside = lk_proto_begin(&event, 1);
	lk_proto_put_text(&event, 1, tag);
	unsigned char simple[5] = {2 << 3 | 5};
	for (int i = 0; i < 4; i++) simple[1 + i] = (unsigned char)(bits >> 8 * i);
	size_t content = tensor ? lk_proto_begin(&event, 8) : 0;
	if (tensor) { /* DT_FLOAT, and its bytes */
		lk_proto_put_integer(&event, 1, 1);
		size_t bytes = lk_proto_begin(&event, 4);
		lk_proto_put_bytes(&event, simple + 1, 4);
		lk_proto_end(&event, bytes);
		lk_proto_end(&event, content);
	} else {
		lk_proto_put_bytes(&event, simple, sizeof simple);
	}
	lk_proto_end(&event, inside);
	lk_proto_end(&event, summary);
	assert_false(event.lost);
	put_record(out, &event);
	lk_vec_free(&event.bytes);
}

static void event_files_are_read(void **state) {
	(void)state;
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	double at_s = 1700000000;
	for (int step = 1; step <= STEPS; step++) {
		at_s += seconds_of(&runs[1], step);
		put_event(out, step, at_s, "train/loss", 2.5F, true);
		put_event(out, step, at_s, "throughput(tps)", 20480.0F, step % 2);
	}
	assert_int_equal(fclose(out), 0);
	lk_measured found;
	lk_error err;
	assert_int_equal(lk_measured_text(text, size, "events", &found, &err), LK_OK);
	assert_near(found.step_s, runs[1].step_s);
	assert_near(found.tokens_per_s_gpu, 20480);
	assert_string_equal(found.source,
	                    "event file of torchtitan, 8 steps, times of steps by their time stamps");
	lk_measured_free(&found);
	/* cut off anywhere it is what came before, or an error */
	for (size_t cut = 0; cut < size; cut += 7) {
		if (lk_measured_text(text, cut, "events", &found, &err) != LK_OK) continue;
		assert_near(found.tokens_per_s_gpu, 20480);
		lk_measured_free(&found);
	}
	free(text);
}

static void damaged_logs_are_read_or_refused(void **state) {
	(void)state;
	for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
		size_t size;
		char *text = written_run(&formats[i], &runs[0], &size);
		for (size_t cut = 0; cut < size; cut += 131) {
			lk_measured found;
			lk_error err = {0};
			if (cut % 2) text[cut] = (char)(cut % 251);
			lk_status status = lk_measured_text(text, cut, formats[i].name, &found, &err);
			assert_true(status == LK_OK || status == LK_ERR_INPUT);
			if (status != LK_OK) assert_true(*err.what && *err.hint);
			lk_measured_free(&found);
		}
		free(text);
	}
}

static void text_that_measures_nothing_is_refused(void **state) {
	(void)state;
	static const char *const texts[] = {"",          "step by step, one learns\n",
	                                    "{}",        "a,b\n1,2\n",
	                                    "step: 3\n", "iteration 1/ 2 | lm loss: 3 |\n"};
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		lk_measured found;
		lk_error err = {0};
		if (lk_measured_text(texts[i], strlen(texts[i]), "notes.txt", &found, &err) !=
		    LK_ERR_INPUT) {
			print_error("\"%s\" is read: %s\n", texts[i], found.source);
			fail();
		}
		assert_string_equal(err.where, "notes.txt");
		assert_non_null(strstr(err.hint, "Megatron-LM"));
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers_are_read_with_their_units),
		cmocka_unit_test(several_numbers_are_read_with_commas),
		cmocka_unit_test(unclear_numbers_are_refused),
		cmocka_unit_test(numbers_are_distinguished_from_paths),
		cmocka_unit_test(what_each_format_states_is_read_back),
		cmocka_unit_test(ranks_that_state_a_step_count_once),
		cmocka_unit_test(epochs_that_count_anew_are_rounds),
		cmocka_unit_test(parts_of_a_step_are_named),
		cmocka_unit_test(tables_of_devices_are_read),
		cmocka_unit_test(devices_are_named),
		cmocka_unit_test(failed_allocations_are_told),
		cmocka_unit_test(only_the_bar_of_the_training_counts),
		cmocka_unit_test(other_exports_are_read),
		cmocka_unit_test(event_files_are_read),
		cmocka_unit_test(damaged_logs_are_read_or_refused),
		cmocka_unit_test(text_that_measures_nothing_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
