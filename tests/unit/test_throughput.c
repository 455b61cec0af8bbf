/* test_throughput.c: tables of throughput whose batch sizes stand in texts. */
#include <math.h>
#include <string.h>

#include "scratch.h"

#include "base/arena.h"
#include "step/step.h"
#include "tables/tables.h"

#define HEAD \
	"framework,model_path,gpu,n_gpu,batch_cols,precision,unit,throughput,extra,section,file\n"

static lk_throughput_run read_one(lk_arena *arena, const char *row) {
	lk_throughput_runs runs = {0};
	lk_stream *in;
	lk_error err;
	char text[1024];
	snprintf(text, sizeof text, HEAD "%s\n", row);
	assert_int_equal(lk_stream_memory(text, strlen(text), "t.csv", &in, &err), LK_OK);
	if (lk_throughput_read(arena, in, &runs, &err) != LK_OK)
		fail_msg("%s: %s", err.where, err.what);
	lk_stream_close(in);
	assert_int_equal(runs.count, 1);
	lk_throughput_run run = runs.at[0];
	lk_vec_free(&runs);
	return run;
}

/* Batches stand in the order in which the name has the precisions, or carry their names. */
static void batches_by_precision(void **state) {
	(void)state;
	static const struct {
		const char *row;
		int mbs, steps, seq;
		lk_dtype dtype;
	} cases[] = {
		{"TF,x/LanguageModeling/BERT,V100 32GB,8,\"Batch size / GPU: mixed precision, FP32=24, "
	     "10\",mixed,,500,,SQuAD v1.1 on DGX-1,f",
	     24, 1, 384, LK_FP16},
		{"TF,x/LanguageModeling/BERT,V100 32GB,8,\"Batch size / GPU: mixed precision, FP32=24, "
	     "10\",FP32,,500,,SQuAD v1.1 on DGX-1,f",
	     10, 1, 384, LK_FP32},
		{"TF,x/resnet50v1.5,V100 16G,1,Batch Size / GPU=128 (FP32) / 256 (AMP),FP32,,364,,,f", 128,
	     1, 0, LK_FP32},
		{"TF,x/resnet50v1.5,V100 16G,1,Batch Size / GPU=128 (FP32) / 256 (AMP),mixed,,1000,,,f",
	     256, 1, 0, LK_FP16},
		{"TF,x/resnext101-32x4d,A100 (8x A100 40,1,Batch Size / GPU=128 (TF) / 256 "
	     "(AMP),FP32,,300,,,f",
	     128, 1, 0, LK_TF32},
		{"P,x/LanguageModeling/BERT,A100 (8x A100 80,8,Batch size / GPU (TF32 and FP16)=8192 and "
	     "8192,mixed,,5541,"
	     "Accumulation steps (TF32 and FP16)=64 and 32;Sequence length=128,s,f",
	     256, 32, 128, LK_FP16},
		{"P,x/LanguageModeling/BERT,A100 (8x A100 80,16,Batch size / GPU (TF32 and FP16)=126 and "
	     "256;Accumulated Batch size / GPU "
	     "(TF32 and FP16)=4096 and 4096,TF32,,4638,Nodes=2;Accumulation steps (TF32 and FP16)=32 "
	     "and 16;Sequence length=128,s,f",
	     126, 32, 128, LK_TF32},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		lk_arena arena = LK_ARENA_INIT;
		lk_throughput_run r = read_one(&arena, cases[i].row);
		if (r.why_not) fail_msg("%s: %s", cases[i].row, r.why_not);
		assert_int_equal(r.mbs, cases[i].mbs);
		assert_int_equal(r.steps, cases[i].steps);
		assert_int_equal(r.seq, cases[i].seq);
		assert_int_equal(r.dtype, cases[i].dtype);
		lk_arena_free(&arena);
	}
}

static void what_is_not_stated_is_said(void **state) {
	(void)state;
	static const char *const rows[][2] = {
		{"MxNet,x/RN50v1.5,V100 32GB,8,,mixed,,500,,,f", "the batch is not stated"},
		{"T,x/Unknown,V100 32GB,8,Batch size / GPU=4,mixed,,500,,,f",
	     "the network's shapes are not known here"},
		{"T,x/LanguageModeling/BERT,V100 32GB,8,Batch size / GPU=4,mixed,,500,,somewhere,f",
	     "the sequence length is not stated"},
		{"T,x/resnet50v1.5,Abacus,8,Batch size / GPU=4,mixed,,500,,,f",
	     "the device is not in the catalogue"},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		lk_arena arena = LK_ARENA_INIT;
		assert_string_equal(read_one(&arena, rows[i][0]).why_not, rows[i][1]);
		lk_arena_free(&arena);
	}
}

/* What the code of a table does beside its batches: heads, optimizers, fusion. */
static void codes_are_told_apart(void **state) {
	(void)state;
	lk_arena arena = LK_ARENA_INIT;
	lk_throughput_run squad = read_one(
		&arena,
		"TF,x/LanguageModeling/BERT,V100 32GB,8,Batch size / GPU=4,mixed,,500,,SQuAD v1.1,f");
	lk_throughput_run whole = read_one(&arena, "TF,x/LanguageModeling/BERT,V100 32GB,8,Batch size "
	                                           "/ GPU=4,mixed,,500,Sequence length=512,s,f");
	lk_throughput_run wide =
		read_one(&arena, "TF,x/resnet50v1.5,V100 16G,1,Batch Size / GPU=8,FP32,,364,,,f");
	lk_throughput_run narrow =
		read_one(&arena, "TF,x/resnet50v1.5,V100 16G,1,Batch Size / GPU=8,mixed,,364,,,f");
	assert_string_equal(squad.optimizer, "adam");
	assert_true(!whole.optimizer);
	assert_true(squad.unfused && whole.unfused && whole.compiled && whole.reduces_late);
	assert_true(!wide.compiled && narrow.compiled && !narrow.unfused && !narrow.reduces_late);
	lk_arena_free(&arena);
}

/* The request of a BERT, as the options of predict state it. */
static lk_asked bert(lk_arena *arena, int mbs, const char *dtype, const char *attention,
                     const char *gpu) {
	lk_predict_request request;
	lk_asked asked;
	lk_error err;
	lk_predict_defaults(&request);
	request.model = "bert-large", request.gpu = gpu;
	request.gpus = request.dp = 8;
	request.mbs = mbs, request.gbs = 8 * mbs, request.seq = 512;
	request.dtype = dtype, request.attention = attention;
	request.stack = "ddp", request.compile = true, request.cuda_graphs = 1;
	request.optimizer = "lamb";
	if (lk_request_read(arena, &request, &asked, &err) != LK_OK)
		fail_msg("%s: %s", err.where, err.what);
	asked.job.own_code = true;
	return asked;
}

static double step_of(const lk_asked *asked) {
	const lk_step_options options = {.few = true};
	lk_step step;
	lk_error err;
	if (lk_step_ask(&asked->job, &asked->cluster, &options, &step, &err) != LK_OK)
		fail_msg("%s: %s", err.where, err.what);
	double seconds = step.step_s;
	lk_step_free(&step);
	assert_true(seconds > 0);
	return seconds;
}

/* Each saving saves, and a step grows with its batch. */
static void savings_save(void **state) {
	(void)state;
	lk_arena arena = LK_ARENA_INIT;
	lk_asked all = bert(&arena, 16, "fp16", NULL, "h100-sxm"),
			 unfused = bert(&arena, 16, "fp16", "unfused", "h100-sxm"),
			 twice = bert(&arena, 32, "fp16", NULL, "h100-sxm"),
			 narrow = bert(&arena, 16, "fp8", NULL, "h100-sxm"),
			 blackwell = bert(&arena, 16, "fp16", NULL, "b200"), masked = all, ahead, hand,
			 late = all;
	masked.job.logit_share = 0.15;
	ahead = masked;
	ahead.job.host_ahead = true;
	hand = ahead;
	hand.job.fused_kernels = true, hand.job.compile = false;
	narrow.job.logit_share = 0.15;
	narrow.job.host_ahead = narrow.job.fused_kernels = true, narrow.job.compile = false;
	late.job.overlap_grad_reduce = LK_OFF;
	double plain = step_of(&all), heads = step_of(&masked);
	assert_true(heads < plain && step_of(&ahead) < heads && step_of(&hand) < step_of(&ahead) &&
	            step_of(&narrow) < step_of(&hand));
	assert_true(step_of(&unfused) > plain && step_of(&late) > plain && step_of(&twice) > plain &&
	            step_of(&twice) < 2 * plain);
	/* cuDNN's first attention on Blackwell is slower, on Hopper the same */
	lk_asked early = all;
	early.job.early_attention = true;
	assert_true(step_of(&early) == plain);
	double first = step_of(&blackwell);
	blackwell.job.early_attention = true;
	assert_true(step_of(&blackwell) > first);
	lk_arena_free(&arena);
}

static void a_step_is_samples_over_throughput(void **state) {
	(void)state;
	lk_arena arena = LK_ARENA_INIT;
	lk_throughput_run r =
		read_one(&arena, "TF,x/resnet50v1.5,V100 16G,8,Batch Size / GPU=100,FP32,,400,,on DGX-2,f");
	assert_true(r.seconds == 2);
	assert_string_equal(r.device->name, "v100-sxm3-32");
	lk_arena_free(&arena);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(batches_by_precision),
		cmocka_unit_test(what_is_not_stated_is_said),
		cmocka_unit_test(codes_are_told_apart),
		cmocka_unit_test(savings_save),
		cmocka_unit_test(a_step_is_samples_over_throughput),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
