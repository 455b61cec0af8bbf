/* test_carried.c: what a request brings ends with it. The reference of every answer is a process of
 * its own; answers to the same requests in any order, on several threads at once and in one sweep
 * are the same to the last bit. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "system/context.h"
#include "lockstep/plan.h"
#include "lockstep/predict.h"
#include "scratch.h"

/* Files that change rows that are looked up, and what models keep of them: the numbers of steps,
 * products of a die, the default fabric, NCCL's laws. */
static const char *const bodies[] = {
	NULL,
	"step,all,,gemm_share=0.4,1,0,2026-01-01,test\n",
	"product,h200,linear bf16 mine trtllm 1 sustained,efficiency=0.3 tiles=0 fill_us=0.1 "
	"start_us=2 "
	"memory=0.8 blend=3 k_extra=32 cast=0.5 cast_us=2 cast_row_ns=0.3 spread=0.1,1,0,2026-01-01,"
	"test\n",
	"collective,default,,launch_us=900 channel_us=9 wire=0.5 nic=0 buffer_mb=0.05,1,0,2026-01-01,"
	"test\n",
	"laws,nccl,,base=5 hops_hopper=20 net_hops=9,1,0,2026-01-01,test\n",
};
enum { FILES = sizeof bodies / sizeof *bodies };
static char paths[FILES][128];
static double trained[FILES], predicted[FILES], planned[FILES];

static const char *file_of(int i) {
	return bodies[i] ? paths[i] : NULL;
}

static lk_predict_request request_of(int i) {
	lk_predict_request request;
	lk_predict_defaults(&request);
	request.model = "llama3.1-8b";
	request.gpu = "h100-sxm";
	request.gpus = 16, request.tp = 2, request.gbs = 16, request.seq = 2048;
	request.calibration = file_of(i);
	return request;
}

/* A step of training, and one of an engine. */
static double predict_with(int i) {
	double seconds = 0;
	for (int generates = 0; generates < 2; generates++) {
		lk_predict_request request = request_of(i);
		lk_prediction *answer;
		lk_error err = {0};
		if (generates)
			request.task = "generate", request.prompt = 100, request.response = 200,
			request.seq = 0;
		if (lk_predict(&request, &answer, &err) != LK_OK) return -1;
		seconds += answer->step_time_s;
		lk_predict_free(answer);
	}
	return seconds;
}

static double train_with(int i) {
	lk_predict_request request = request_of(i);
	lk_prediction *answer;
	lk_error err = {0};
	if (lk_predict(&request, &answer, &err) != LK_OK) return -1;
	double step = answer->step_time_s;
	lk_predict_free(answer);
	return step;
}

static double plan_with(int i) {
	lk_plan_request request;
	lk_plan *plan;
	lk_error err = {0};
	lk_plan_defaults(&request);
	request.job = request_of(i);
	request.job.gpus = request.job.tp = 0;
	request.gpus = "16";
	request.threads = 2;
	request.no_sensitivity = true;
	if (lk_plan_find(&request, &plan, &err) != LK_OK) return -1;
	double step = plan->counts[0].choices[0].step_time_s;
	lk_plan_free(plan);
	return step;
}

/* An answer of a process that is asked nothing else. */
static double apart(double (*ask)(int i), int i) {
	int ends[2];
	double answer = -1;
	assert_int_equal(pipe(ends), 0);
	pid_t child = fork();
	if (child == 0) {
		answer = ask(i);
		_exit(write(ends[1], &answer, sizeof answer) != sizeof answer);
	}
	close(ends[1]);
	assert_int_equal(read(ends[0], &answer, sizeof answer), sizeof answer);
	close(ends[0]);
	waitpid(child, NULL, 0);
	assert_true(answer > 0);
	return answer;
}

static int make_files(void **state) {
	if (make_scratch(state) != 0) return -1;
	for (int i = 0; i < FILES; i++) {
		if (!bodies[i]) continue;
		snprintf(paths[i], sizeof paths[i], "%s/%d.csv", scratch, i);
		FILE *out = fopen(paths[i], "w");
		if (!out) return -1;
		fprintf(out, "family,subject,variant,numbers,points,error,date,source\n%s", bodies[i]);
		fclose(out);
	}
	return 0;
}

/* Before any other test: nothing has been read in this process. */
static void test_apart(void **state) {
	(void)state;
	for (int i = 0; i < FILES; i++) {
		trained[i] = apart(train_with, i);
		predicted[i] = apart(predict_with, i);
		planned[i] = apart(plan_with, i);
		for (int k = 0; k < i; k++) assert_true(predicted[k] != predicted[i]);
	}
}

/* Every sequence of three files occurs once: a de Bruijn sequence, made by always appending the last
 * file that completes a new one. */
static void test_orders(void **state) {
	(void)state;
	bool seen[FILES][FILES][FILES] = {0};
	int asked = 0, before[2] = {0, 0};
	for (int i = FILES; i-- > 0;) {
		if (seen[before[0]][before[1]][i]) continue;
		double step = predict_with(i);
		if (step != predicted[i])
			fail_msg("file %d after %d and %d: %.17g s, and %.17g s alone", i, before[0], before[1],
			         step, predicted[i]);
		seen[before[0]][before[1]][i] = true;
		before[0] = before[1], before[1] = i, i = FILES, asked++;
	}
	assert_int_equal(asked, FILES * FILES * FILES);
	assert_null(lk_carried_here()->on);
	for (int i = 0; i < 2 * FILES; i++)
		assert_true(plan_with(i * 3 % FILES) == planned[i * 3 % FILES]);
}

/* A file that cannot be used leaves nothing. */
static void test_refused(void **state) {
	(void)state;
	lk_predict_request request = request_of(0);
	lk_prediction *answer;
	lk_error err = {0};
	request.calibration = "/nowhere/mine.csv";
	assert_int_equal(lk_predict(&request, &answer, &err), LK_ERR_IO);
	request.calibration = paths[1], request.model = "no-such-model";
	assert_int_equal(lk_predict(&request, &answer, &err), LK_ERR_INPUT);
	assert_int_equal(lk_predict_check(&request, &err), LK_ERR_INPUT);
	assert_null(lk_carried_here()->on);
	assert_true(predict_with(0) == predicted[0]);
}

static void *ask_often(void *context) {
	int first = (int)(intptr_t)context, wrong = 0;
	for (int k = 0; k < 12; k++) {
		int i = (first + k) % FILES;
		wrong += predict_with(i) != predicted[i];
		if (k % 4 == 0) wrong += plan_with(i) != planned[i];
	}
	return (void *)(intptr_t)wrong;
}

static void test_threads(void **state) {
	(void)state;
	pthread_t threads[FILES];
	for (int i = 0; i < FILES; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, ask_often, (void *)(intptr_t)i), 0);
	for (int i = 0; i < FILES; i++) {
		void *wrong;
		pthread_join(threads[i], &wrong);
		assert_null(wrong);
	}
}

/* Rows of a sweep that name different files, one, or none. */
static void test_sweep(void **state) {
	(void)state;
	enum { ROWS = 3 * FILES };
	lk_predict_request requests[ROWS];
	lk_prediction *answers[ROWS];
	lk_error refusals[ROWS], err;
	for (int same = 0; same < 2; same++) {
		for (int i = 0; i < ROWS; i++) requests[i] = request_of(same ? 1 : i % FILES);
		assert_int_equal(lk_predict_many(requests, ROWS, 3, answers, refusals, NULL, NULL, &err),
		                 LK_OK);
		for (int i = 0; i < ROWS; i++) {
			assert_true(answers[i]->step_time_s == trained[same ? 1 : i % FILES]);
			lk_predict_free(answers[i]);
		}
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_apart),   cmocka_unit_test(test_orders),
		cmocka_unit_test(test_refused), cmocka_unit_test(test_threads),
		cmocka_unit_test(test_sweep),
	};
	return cmocka_run_group_tests_name("carried", tests, make_files, remove_scratch);
}
