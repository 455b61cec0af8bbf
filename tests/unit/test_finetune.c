/* test_finetune.c: tables of fine-tuning runs: rows as requests, and figures as rows of a
 * validation. */
#include <math.h>
#include <string.h>

#include "scratch.h"

#include "base/arena.h"
#include "base/units.h"
#include "lockstep/validate.h"
#include "step/step.h"
#include "tables/tables.h"

#define HEAD                                                                                 \
	"id,framework,model,method,gpu,n_gpu,sharding,seq,peak_reserved_gib,peak_allocated_gib," \
	"mem_means,oom,lora_rank,tp,mbs,grad_accum,seq_means,recompute,optimizer,precision,"     \
	"switches,step_s,tokens_per_s,time_valid,max_context,suspect\n"

static lk_finetune_run read_run(lk_arena *arena, const char *row) {
	lk_finetune_runs runs = {0};
	lk_stream *in;
	lk_error err;
	char text[1024];
	snprintf(text, sizeof text, HEAD "%s\n", row);
	assert_int_equal(lk_stream_memory(text, strlen(text), "t.csv", &in, &err), LK_OK);
	if (lk_finetune_read(arena, in, &runs, &err) != LK_OK) fail_msg("%s: %s", err.where, err.what);
	lk_stream_close(in);
	assert_int_equal(runs.count, 1);
	lk_finetune_run run = runs.at[0];
	lk_vec_free(&runs);
	return run;
}

/* The method, the sharding and the switches are the request's; the batch is over all replicas. */
static void rows_are_requests(void **state) {
	(void)state;
	lk_arena arena = LK_ARENA_INIT;
	lk_finetune_run run = read_run(
		&arena,
		"a,trainer,llama3.1-8b,qlora,h100-sxm,8,fsdp+offload,2048,40,30,reserved,0,16,2,3,5,"
		"full,full,paged_adamw_8bit,bf16,liger+expandable_segments,,1000,1,,");
	const lk_predict_request *request = &run.request;
	assert_null(run.why_not);
	assert_string_equal(request->task, "lora");
	assert_true(request->qlora && request->offload_params && request->offload_optimizer);
	assert_string_equal(request->stack, "fsdp");
	assert_string_equal(request->zero, "3");
	assert_string_equal(request->optimizer, "adam-8bit");
	assert_string_equal(request->loss, "linear");
	assert_string_equal(request->recompute, "full");
	assert_int_equal(request->eager, -1);
	assert_int_equal(request->lora_rank, 16);
	assert_int_equal(request->gbs, 4 * 3 * 5);
	assert_true(run.reserved == 40 * LK_GIB && run.allocated == 30 * LK_GIB && isnan(run.device));
	assert_int_equal(run.verdict, LK_RUN_RAN);
	assert_true(run.seconds == 60 * 2048 / 1000.0);
	lk_arena_free(&arena);
}

/* Pairs are two sequences of a micro-batch; weights that nothing widens train in their own
 * format. */
static void pairs_and_formats(void **state) {
	(void)state;
	lk_arena arena = LK_ARENA_INIT;
	lk_finetune_run run = read_run(&arena, "a,trainer,llama3.1-8b,dpo,,4,zero3,2048,40,,reserved,0,"
	                                       ",1,2,1,limit,full,adamw,bf16,,2,,1,,");
	assert_true(run.request.dpo && run.request.mbs == 4 && run.request.gbs == 16);
	assert_int_equal(run.request.master_weights, 0);
	assert_true(run.at_most && !run.names_gpu && isnan(run.seconds));
	assert_int_equal(run.verdict, LK_RUN_UNSTATED);
	run = read_run(&arena, "a,trainer,llama3.1-8b,full,,1,none,2048,40,,device,0,,1,2,1,full,none,"
	                       "adamw,bf16,,,,,,");
	assert_int_equal(run.request.master_weights, -1);
	assert_true(isnan(run.reserved) && run.device == 40 * LK_GIB);
	lk_arena_free(&arena);
}

/* Samples of two sequences, heads of labels, and bases: experts stay in 16 bits in axolotl unless
 * it says otherwise. */
static void tasks_and_bases(void **state) {
	(void)state;
	static const struct {
		const char *row, *task, *base;
		int mbs, labels;
	} cases[] = {
		{"a,t,llama3.1-8b,kto,,1,none,2048,4,,reserved,0,,1,3,1,full,,,,,,,,,", "kto", NULL, 3, 0},
		{"a,t,llama3.1-8b,rm,,1,none,2048,4,,reserved,0,,1,3,1,full,,,,fused_loss,,,,,", "reward",
	     NULL, 6, 0},
		{"a,t,llama3.1-8b,simpo,,1,none,2048,4,,reserved,0,,1,1,1,full,,,,,,,,,", "orpo", NULL, 2,
	     0},
		{"a,t,llama3.1-8b,full,,1,none,2048,4,,reserved,0,,1,1,1,full,,,,task_type=seq_cls,,,,,",
	     "sft", NULL, 1, 2},
		{"a,t,llama3.1-8b,lora,8,1,none,2048,4,,reserved,0,,1,1,1,full,,,,8bit_base,,,,,", "lora",
	     "int8", 1, 0},
		{"a,axolotl,llama3.1-8b,qlora,8,1,none,2048,4,,reserved,0,,1,1,1,full,,,,,,,,,", "lora",
	     "nf4-dense", 1, 0},
	};
	lk_arena arena = LK_ARENA_INIT;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		lk_finetune_run run = read_run(&arena, cases[i].row);
		assert_null(run.why_not);
		assert_string_equal(run.request.task, cases[i].task);
		assert_int_equal(run.request.mbs, cases[i].mbs);
		assert_int_equal(run.request.num_labels, cases[i].labels);
		assert_true(!run.request.loss && run.request.fused_loss == 0);
		if (cases[i].base) assert_string_equal(run.request.base_format, cases[i].base);
		else assert_null(run.request.base_format);
	}
	lk_arena_free(&arena);
}

/* What no request can say is refused by name. */
static void refusals_say_why(void **state) {
	(void)state;
	static const struct {
		const char *row, *part;
	} cases[] = {
		{"a,t,llama3.1-8b,gkd,,1,none,2048,4,,reserved,0,,1,1,1,full,,,,,,,,,", "method gkd"},
		{"a,t,llama3.1-8b,lora,,2,device_map,2048,4,,reserved,0,,1,1,1,full,,,,,,,,,",
	     "device_map"},
		{"a,t,llama3.1-8b,lora,,2,,2048,4,,reserved,0,,1,1,1,full,,,,,,,,,",
	     "how the run is sharded"},
		{"a,t,llama3.1-8b,lora,,,none,2048,4,,reserved,0,,1,1,1,full,,,,,,,,,", "number of GPUs"},
		{"a,t,llama3.1-8b,lora,,1,none,,4,,reserved,0,,1,1,1,full,,,,,,,,,", "length of sequences"},
		{"a,t,llama3.1-8b,lora,,3,ddp,2048,4,,reserved,0,,2,1,1,full,,,,,,,,,", "does not divide"},
		{"a,t,llama3.1-8b,lora,,1,none,2048,4,,reserved,0,,1,1,1,full,,,,quant_method=hqq,,,,,",
	     "HQQ"},
		{"a,t,llama3.1-8b,lora,,1,none,2048,4,,reserved,0,,1,1,1,full,,,,task_type=embedding,,,,,",
	     "retrieval"},
		{"a,t,7B,full,,1,none,2048,4,,estimate,0,,1,1,1,full,,,,,,,,,", "rule of thumb"},
	};
	lk_arena arena = LK_ARENA_INIT;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		lk_finetune_run run = read_run(&arena, cases[i].row);
		assert_non_null(run.why_not);
		if (!strstr(run.why_not, cases[i].part)) fail_msg("%s: %s", cases[i].row, run.why_not);
	}
	lk_arena_free(&arena);
}

static lk_validation *validate_rows(const char *rows) {
	lk_validate_request request;
	lk_validation *validation;
	lk_error err;
	char path[128];
	snprintf(path, sizeof path, "%s/finetune.csv", scratch);
	FILE *out = fopen(path, "w");
	assert_non_null(out);
	fprintf(out, HEAD "%s", rows);
	fclose(out);
	lk_validate_defaults(&request);
	request.table = path, request.finetune = true;
	if (lk_validate(&request, &validation, &err) != LK_OK) fail_msg("%s: %s", err.where, err.what);
	return validation;
}

#define JOB "llama3.1-8b,qlora,rtx-4090,1,none,2048"

/* Every figure is what `predict` answers to the row's request; the longest sequence fits, and one a
 * hundredth longer does not. */
static void figures_are_answers(void **state) {
	(void)state;
	lk_validation *validation = validate_rows("a,t," JOB ",9,8,reserved,0,16,1,1,1,full,full,adamw,"
	                                          "bf16,,1,,1,16384,\n");
	lk_predict_request request;
	lk_prediction *answer;
	lk_error err;
	lk_predict_defaults(&request);
	request.model = "llama3.1-8b", request.gpu = "rtx-4090", request.gpus = 1;
	request.task = "lora", request.qlora = true, request.lora_rank = 16;
	request.lora_targets = "all-linear";
	request.tp = request.pp = request.cp = request.ep = request.mbs = request.gbs = 1;
	request.seq = 2048, request.zero = "0", request.stack = "ddp", request.recompute = "full";
	request.dtype = "bf16", request.optimizer = "adam";
	assert_int_equal(lk_predict(&request, &answer, &err), LK_OK);
	assert_int_equal(validation->row_count, 5);
	assert_true(validation->rows[0].predicted == answer->memory[0].reserved);
	assert_true(validation->rows[1].predicted == answer->memory[0].allocated);
	assert_true(validation->rows[2].predicted == answer->peak_bytes);
	assert_string_equal(validation->rows[2].reason, "right: FITS, ran");
	assert_true(validation->rows[4].predicted == answer->step_time_s);
	assert_int_equal(validation->summary.scored, 4);
	lk_predict_free(answer);
	for (int more = 0; more < 2; more++) {
		request.seq = (int)(validation->rows[3].predicted * (more ? 1.01 : 1));
		assert_int_equal(lk_predict(&request, &answer, &err), LK_OK);
		assert_int_equal(answer->fits, !more);
		lk_predict_free(answer);
	}
	lk_validate_free(validation);
}

static int part_rows(const lk_validation *validation, const char *by, const char *name) {
	for (int i = 0; i < validation->group_count; i++)
		if (strcmp(validation->groups[i].by, by) == 0 &&
		    strcmp(validation->groups[i].name, name) == 0)
			return validation->groups[i].rows;
	return 0;
}

/* Verdicts are counted against what happened; unknown lengths refute none that holds for short
 * sequences; suspect rows are in no part. */
static void verdicts_are_counted(void **state) {
	(void)state;
	lk_validation *validation =
		validate_rows("a,t," JOB ",,,fits,0,16,1,1,1,full,full,adamw,bf16,,,,,,\n"
	                  "b,t," JOB ",,,fits,1,16,1,1,1,full,full,adamw,bf16,,,,,,\n"
	                  "c,t," JOB ",,,fits,0,16,1,64,1,full,full,adamw,bf16,,,,,,\n"
	                  "d,t," JOB ",,,fits,1,16,1,64,1,full,full,adamw,bf16,,,,,,\n"
	                  "e,t," JOB ",,,fits,0,16,1,32,1,limit,full,adamw,bf16,,,,,,\n"
	                  "f,t," JOB ",,,fits,1,16,1,1,1,full,full,adamw,bf16,,,,,,not sure\n"
	                  "g,t," JOB ",99,,reserved,0,16,1,1,1,limit,full,adamw,bf16,,,,,,\n");
	assert_int_equal(part_rows(validation, "verdict", "right: FITS, ran"), 2);
	assert_int_equal(part_rows(validation, "verdict", "wrong: FITS, ran out of memory"), 1);
	assert_int_equal(part_rows(validation, "verdict", "wrong: DOES NOT FIT, ran"), 1);
	assert_int_equal(part_rows(validation, "verdict", "right: DOES NOT FIT, ran out of memory"), 1);
	assert_int_equal(part_rows(validation, "verdict", "open: shorter sequences fit, ran"), 1);
	assert_int_equal(part_rows(validation, "bounds", "above full sequences"), 1);
	assert_int_equal(validation->summary.scored, 0);
	lk_validate_free(validation);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_are_requests),   cmocka_unit_test(pairs_and_formats),
		cmocka_unit_test(tasks_and_bases),     cmocka_unit_test(refusals_say_why),
		cmocka_unit_test(figures_are_answers), cmocka_unit_test(verdicts_are_counted),
	};
	return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
