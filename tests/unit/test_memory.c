/* test_memory.c: peak memory against closed forms, item by item; the table of measured memory;
 * ranges; the bars on the measured tests of Megatron-LM where those data are there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "calibrate/calibrate.h"
#include "fit/fits.h"
#include "tables/tables.h"
#include "step/step.h"
#include "base/units.h"
#include "lockstep/validate.h"
#include "model/layout/job.h"
#include "data.h"
#include "launch/read.h"

static const char small[] = "tests/data/memory_small.csv",
				  measured[] = "measured/megatron_ci_memory.csv";

static void close_to(double got, double wanted, double tolerance) {
	if (fabs(got - wanted) > tolerance * fabs(wanted))
		fail_msg("got %.8g, expected %.8g within %g", got, wanted, tolerance);
}

/* ---- items ---- */

struct fixture {
	lk_arena arena;
	lk_cluster cluster;
	lk_job job;
	lk_memory walk;
};

/* A launch line on eight devices; the walk over its last stage. */
static void launch(struct fixture *fixture, const char *gpu, const char *line) {
	char text[1000];
	lk_error err = {0};
	lk_launch out = {0};
	memset(fixture, 0, sizeof *fixture);
	lk_status status =
		lk_launch_text(&fixture->arena, line, strlen(line), "line", NULL, &out, &err);
	if (status == LK_OK) {
		fixture->job = *out.job;
		status = lk_cluster_simple(&fixture->arena, lk_device_find(gpu), fixture->job.gpus, 0, 0,
		                           &fixture->cluster, &err);
	}
	lk_step step = {0};
	if (status == LK_OK) status = lk_job_complete(&fixture->job, &fixture->cluster, &err);
	if (status == LK_OK)
		status = lk_step_ask(&fixture->job, &fixture->cluster,
		                     &(lk_step_options){.memory_only = true}, &step, &err);
	if (status != LK_OK) fail_msg("%s", lk_error_text(&err, text, sizeof text));
	fixture->walk = step.memory[fixture->job.pp - 1].walk;
	lk_step_free(&step);
}

#define GPT                                                                                    \
	"torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 12 --hidden-size 512 "           \
	"--num-attention-heads 8 "                                                                 \
	"--seq-length 1024 --micro-batch-size 4 --global-batch-size 32 --vocab-size 50257 --bf16 " \
	"--no-create-attention-mask-in-dataloader "

static void finish(struct fixture *fixture) {
	lk_arena_free(&fixture->arena);
}

static const double sb = 4096, h = 512, a = 8, layers = 12;

/* Korthikanti et al.: 34 sbh a layer, and 5 a s / h more where attention is not fused; final norm
 * and head input 4 sbh, the embedding's mask sbh; logits 6 s b V. */
static void layers_follow_the_published_form(void **state) {
	(void)state;
	struct fixture f;
	launch(&f, "h100-sxm", GPT "--deterministic-mode");
	double statistics = 4 * sb * a * layers;
	close_to(f.walk.at_peak[LK_OWN_ACTIVATIONS], 34 * sb * h * layers + statistics + 5 * sb * h,
	         1e-9);
	close_to(f.walk.at_peak[LK_OWN_LOGITS], 6 * sb * 50304, 1e-9);
	finish(&f);
	launch(&f, "h100-sxm", GPT "--deterministic-mode --attention-backend unfused");
	close_to(f.walk.at_peak[LK_OWN_ACTIVATIONS],
	         (34 * sb * h + 5 * a * sb * 1024) * layers + 5 * sb * h, 1e-9);
	finish(&f);
	launch(&f, "h100-sxm",
	       GPT "--deterministic-mode --hidden-dropout 0 --attention-backend unfused");
	close_to(f.walk.at_peak[LK_OWN_ACTIVATIONS],
	         (32 * sb * h + 2 * a * sb * 1024) * layers + 4 * sb * h, 1e-9);
	finish(&f);
}

/* What the flash-attention package returns is kept twice, but for a single sequence. */
static void attention_outputs_are_copied_by_library(void **state) {
	(void)state;
	struct fixture cudnn, flash;
	launch(&cudnn, "h100-sxm", GPT "--deterministic-mode");
	launch(&flash, "a100-sxm-80", GPT "--deterministic-mode");
	close_to(flash.walk.at_peak[LK_OWN_ACTIVATIONS] - cudnn.walk.at_peak[LK_OWN_ACTIVATIONS],
	         2 * sb * h * layers, 1e-9);
	finish(&cudnn);
	finish(&flash);
}

static void logits_by_kind_of_loss(void **state) {
	(void)state;
	static const struct {
		const char *flags;
		double bytes;
	} kinds[] = {
		{"", 6},
		{"--cross-entropy-loss-fusion", 10},
		{"--cross-entropy-loss-fusion --cross-entropy-fusion-impl te", 2},
		{"--defer-embedding-wgrad-compute --wgrad-deferral-limit 2 --pipeline-model-parallel-size "
	     "2",
	     6 + 2},
	};
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		struct fixture f;
		char line[2000];
		snprintf(line, sizeof line, "%s%s", GPT, kinds[i].flags);
		launch(&f, "h100-sxm", line);
		double inputs =
			f.job.pp > 1 ? 2 * sb * h : 0; /* of the head; one of two micro-batches waits */
		close_to(f.walk.at_peak[LK_OWN_LOGITS], kinds[i].bytes * sb * 50304 + inputs, 1e-9);
		finish(&f);
	}
}

static void workspaces_by_device(void **state) {
	(void)state;
	static const struct {
		const char *gpu, *flags;
		double mib;
	} kinds[] = {
		{"a100-sxm-80", "", 2 * 8.125 + 4},
		{"a100-sxm-80", "--deterministic-mode", 2 * 32 + 4},
		{"h100-sxm", "", 3 * 32},
		{"h100-sxm", "--moe-grouped-gemm", 7 * 32},
		{"a100-sxm-80", "--deterministic-mode --transformer-impl local", 4 * 32},
	};
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		struct fixture f;
		char line[2000];
		snprintf(line, sizeof line, "%s%s", GPT, kinds[i].flags);
		launch(&f, kinds[i].gpu, line);
		close_to(f.walk.at_peak[LK_OWN_WORKSPACE], kinds[i].mib * LK_MIB, 1e-12);
		finish(&f);
	}
}

/* Two instances of the distributed optimizer: every shard is twice as large, those of the experts
 * too. */
static void optimizer_instances_hold_a_copy_each(void **state) {
	(void)state;
	static const char experts[] = GPT "--use-distributed-optimizer --num-experts 8 "
									  "--expert-model-parallel-size 2 --moe-router-topk 2 ";
	struct fixture one, two;
	launch(&one, "h100-sxm", experts);
	char line[2000];
	snprintf(line, sizeof line, "%s--num-distributed-optimizer-instances 2", experts);
	launch(&two, "h100-sxm", line);
	close_to(two.walk.at_peak[LK_OWN_OPTIMIZER], 2 * one.walk.at_peak[LK_OWN_OPTIMIZER], 1e-12);
	finish(&one);
	finish(&two);
}

/* A decoder of a quarter of the length: its layers keep less, and the logits are a quarter. */
static void decoders_have_their_own_length(void **state) {
	(void)state;
	static const char t5[] = "torchrun --nproc_per_node 8 pretrain_t5.py --encoder-num-layers 12 "
							 "--decoder-num-layers 12 --hidden-size 512 "
							 "--num-attention-heads 8 --encoder-seq-length 1024 --micro-batch-size "
							 "4 --vocab-size 30000 --bf16 ";
	struct fixture equal, shorter;
	launch(&equal, "h100-sxm", t5);
	char line[2000];
	snprintf(line, sizeof line, "%s--decoder-seq-length 256", t5);
	launch(&shorter, "h100-sxm", line);
	close_to(shorter.walk.at_peak[LK_OWN_LOGITS], equal.walk.at_peak[LK_OWN_LOGITS] / 4, 1e-12);
	assert_true(shorter.walk.at_peak[LK_OWN_ACTIVATIONS] <
	            0.75 * equal.walk.at_peak[LK_OWN_ACTIVATIONS]);
	assert_true(shorter.walk.at_peak[LK_OWN_ACTIVATIONS] >
	            0.5 * equal.walk.at_peak[LK_OWN_ACTIVATIONS]);
	finish(&equal);
	finish(&shorter);
}

/* ---- the table ---- */

static void rows_become_jobs(void **state) {
	(void)state;
	lk_arena arena = LK_ARENA_INIT;
	lk_memory_runs runs = {0};
	lk_stream *in = NULL;
	lk_error err = {0};
	assert_int_equal(lk_stream_open(small, &in, &err), LK_OK);
	assert_int_equal(lk_memory_read(&arena, in, &runs, &err), LK_OK);
	assert_int_equal(runs.count, 5);
	assert_int_equal(runs.at[0].job.dp, 8);
	assert_int_equal(runs.at[0].job.padded_vocab, 50304);
	assert_int_equal(runs.at[0].job.sharding, LK_SHARD_ZERO1);
	assert_int_equal(runs.at[1].job.attn_kernel, LK_KERNEL_UNFUSED);
	assert_string_equal(runs.at[1].gpu, "a100-sxm-80");
	assert_string_equal(runs.at[2].class, "t5");
	assert_int_equal(runs.at[2].job.model.decoder_layers, 12);
	assert_int_equal(runs.at[2].job.decoder_seq, 128);
	assert_true(*runs.at[3].note && isnan(runs.at[3].peak)); /* the number of GPUs was found */
	assert_true(*runs.at[4].refused); /* eight ranks do not divide by three */
	lk_stream_close(in);
	lk_vec_free(&runs);
	lk_arena_free(&arena);
}

static lk_status read_text(const char *text, lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	lk_memory_runs runs = {0};
	lk_stream *in = NULL;
	assert_int_equal(lk_stream_memory(text, strlen(text), "t.csv", &in, err), LK_OK);
	lk_status status = lk_memory_read(&arena, in, &runs, err);
	lk_stream_close(in);
	lk_vec_free(&runs);
	lk_arena_free(&arena);
	return status;
}

static void wrong_tables_name_their_place(void **state) {
	(void)state;
	lk_error err = {0};
	assert_int_equal(read_text("id,step_s\n1,2\n", &err), LK_ERR_INPUT);
	assert_non_null(strstr(err.what, "the column model is missing"));
	assert_int_equal(
		read_text("model,test,env,mem_alloc_bytes,mem_max_alloc_bytes\ngpt,a,b,much,2\n", &err),
		LK_ERR_INPUT);
	assert_non_null(strstr(err.where, "t.csv:2"));
	assert_int_equal(
		read_text("model,test,env,mem_alloc_bytes,mem_max_alloc_bytes\ngpt,a,b,1,2\n", &err),
		LK_OK);
}

static void bands_hold_four_of_five(void **state) {
	(void)state;
	lk_memory_residual rows[100];
	static const char *const names[] = {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};
	for (int i = 0; i < 100; i++)
		rows[i] = (lk_memory_residual){"x", names[i / 10], LK_GIB, LK_GIB * exp(0.001 * (i - 50))};
	lk_memory_band band, other;
	lk_error err = {0};
	assert_int_equal(lk_memory_band_fit(rows, 100, "x", NULL, &band, &err), LK_OK);
	close_to(band.high - band.low, 0.087,
	         1e-6); /* 0.8 (1 + 1/10) of a hundred rows, a thousandth apart */
	double low, high;
	lk_memory_band_apply(&band, 4 * LK_GIB, &low,
	                     &high); /* half as wide where there is four times as much */
	close_to(log(high / low), 0.087 / 2, 1e-6);
	lk_memory_band_apply(&band, 40 * LK_GIB, &low, &high); /* and not where little was measured */
	close_to(log(high / low), 0.087, 1e-6);
	assert_int_equal(lk_memory_band_fit(rows, 100, "x", "0", &other, &err), LK_OK);
	assert_int_equal(other.rows, 90);
	assert_int_equal(lk_memory_band_fit(rows, 100, "y", NULL, &other, &err), LK_OK);
	lk_memory_band_apply(&other, LK_GIB, &low, &high);
	assert_true(other.rows == 0 && isnan(low));
}

/* ---- measured ---- */

static const lk_accuracy *part(const lk_validation *validation, const char *name) {
	for (int i = 0; i < validation->group_count; i++)
		if (strcmp(validation->groups[i].name, name) == 0) return &validation->groups[i];
	fail_msg("no part \"%s\"", name);
	return NULL;
}

static void bars_hold(void **state) {
	(void)state;
	lk_validate_request request;
	lk_validation *validation;
	lk_error err = {0};
	lk_validate_defaults(&request);
	request.table = need_data(measured);
	request.memory = request.cross = true;
	assert_int_equal(lk_validate(&request, &validation, &err), LK_OK);
	const lk_accuracy *dense = part(validation, "gpt without experts");
	assert_true(validation->summary.skipped + validation->summary.suspect <=
	            0.02 * validation->summary.rows);
	assert_true(validation->summary.median_error < 0.06);
	assert_true(dense->median_error < 0.03 && dense->p90_error < 0.08);
	assert_true(validation->baselines[0].median_error > validation->summary.median_error);
	for (int c = 0; c < LK_MEMORY_CLASSES; c++) {
		const lk_accuracy *one = part(validation, lk_memory_classes[c]);
		assert_true(one->coverage >= 0.7 && one->coverage <= 0.9);
	}
	lk_validate_free(validation);
}

/* The odds rise with what is predicted, from 0 to 1, and are even where the room is the median. */
static void odds_follow_the_deciles(void **state) {
	(void)state;
	lk_memory_odds odds = {{-.1, 0, .01, .05, .1, .15, .2, .3, .5}, 20};
	double last = 0;
	for (double predicted = 1; predicted < 100; predicted *= 1.01) {
		double out = lk_memory_odds_of(&odds, predicted, 20);
		assert_true(last <= out && out <= 1);
		last = out;
	}
	assert_true(last == 1 && lk_memory_odds_of(&odds, 1, 20) == 0);
	for (int i = 0; i < LK_MEMORY_DECILES; i++)
		assert_float_equal(lk_memory_odds_of(&odds, 20, 20 * exp(odds.decile[i])),
		                   1 - (i + 1) / 10.0, 1e-9);
	assert_true(lk_memory_odds_of(&odds, 20, 0) == 1);
	assert_true(lk_memory_odds_known(LK_MEMORY_TUNED, &odds) && odds.rows > 10);
	assert_true(lk_memory_odds_known(LK_MEMORY_PYTORCH, &odds) && odds.rows > 30);
}

/* The committed ranges are what the data give. */
static void committed_ranges_are_those_of_the_data(void **state) {
	(void)state;
	static const char committed[] = "data/calibration/memory_ranges.csv";
	if (access(committed, R_OK) != 0) skip();
	lk_calibration found = {0};
	lk_stream *in = NULL;
	lk_error err = {0};
	char got[8192] = "", wanted[8192] = "";
	assert_int_equal(lk_stream_open(need_data(measured), &in, &err), LK_OK);
	assert_int_equal(
		lk_calibrate_peaks(in, "Megatron-LM tests/functional_tests (megatron_ci_memory.csv)",
	                       "2026-11-21", &found, &err),
		LK_OK);
	FILE *out = fmemopen(got, sizeof got - 1, "w"), *file = fopen(committed, "r");
	assert_true(out && file);
	lk_calibration_write(&found, out);
	fclose(out);
	size_t size = fread(wanted, 1, sizeof wanted - 1, file);
	fclose(file);
	assert_true(size > 0);
	assert_string_equal(got, wanted);
	lk_stream_close(in);
	lk_calibration_free(&found);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(odds_follow_the_deciles),
		cmocka_unit_test(layers_follow_the_published_form),
		cmocka_unit_test(attention_outputs_are_copied_by_library),
		cmocka_unit_test(logits_by_kind_of_loss),
		cmocka_unit_test(workspaces_by_device),
		cmocka_unit_test(optimizer_instances_hold_a_copy_each),
		cmocka_unit_test(decoders_have_their_own_length),
		cmocka_unit_test(rows_become_jobs),
		cmocka_unit_test(wrong_tables_name_their_place),
		cmocka_unit_test(bands_hold_four_of_five),
		cmocka_unit_test(bars_hold),
		cmocka_unit_test(committed_ranges_are_those_of_the_data),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
