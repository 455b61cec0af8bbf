/* test_verbs.c: the rows of verbs: each is whole and agrees with the options of its verb; requests
 * that contain a job fill it as predict does; operands; combinations. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "lockstep/catalogue.h"
#include "lockstep/rent.h"
#include "verbs/verbs.h"

static const lk_verb_row *const rows[] = {
	&lk_row_predict,   &lk_row_simulate,  &lk_row_compose,  &lk_row_collective, &lk_row_validate,
	&lk_row_plan,      &lk_row_post_plan, &lk_row_rent,     &lk_row_shard,      &lk_row_jobs,
	&lk_row_explain,   &lk_row_diff,      &lk_row_whatif,   &lk_row_replay,     &lk_row_stalls,
	&lk_row_devices,   &lk_row_models,    &lk_row_machines, &lk_row_doctor,     &lk_row_init,
	&lk_row_calibrate,
};
enum { ROWS = sizeof rows / sizeof *rows };

static const lk_option *option_named(const lk_verb *verb, const char *name) {
	for (const lk_option *option = verb->options; option->name; option++)
		if (strcmp(option->name, name) == 0) return option;
	return NULL;
}

/* The server may make a report of diff, which has no --html. */
static void rows_are_whole(void **state) {
	(void)state;
	for (int i = 0; i < ROWS; i++) {
		const lk_verb_row *row = rows[i];
		assert_true(row->verb->request_size > 0);
		assert_true(row->ask && row->free && row->print);
		assert_true(row->fill || row->verb->max_operands == 0);
		row->free(NULL);
		if (option_named(row->verb, "html")) assert_non_null(row->report);
		if (option_named(row->verb, "emit")) assert_true(row->emit || row == &lk_row_post_plan);
		if (option_named(row->verb, "search-time")) assert_non_null(row->searches);
	}
}

/* A default that nobody sets would be what the memory held before. */
static void defaults_set_all(void **state) {
	(void)state;
	for (int i = 0; i < ROWS; i++) {
		size_t size = rows[i]->verb->request_size;
		if (!rows[i]->defaults) continue; /* zeros */
		unsigned char *zeros = calloc(1, size), *ones = malloc(size);
		assert_true(zeros && ones);
		memset(ones, 0xff, size);
		rows[i]->defaults(zeros);
		rows[i]->defaults(ones);
		for (const lk_option *option = rows[i]->verb->options; option->name; option++)
			if (!option->output)
				assert_memory_equal(zeros + option->offset, ones + option->offset, sizeof(bool));
		free(zeros);
		free(ones);
	}
}

/* Asks the verb of a row; returns its answer as JSON. */
static char *json_of(const lk_verb_row *row, int count, const char *const *words, size_t *size) {
	const lk_outputs json = {.format = LK_OUTPUT_JSON};
	lk_args args;
	lk_error err = {0};
	char *text = NULL;
	void *request = malloc(row->verb->request_size), *answer = NULL;
	FILE *out = open_memstream(&text, size);
	assert_true(request && out);
	assert_int_equal(lk_args_parse(row->verb, count, words, &args, &err), LK_OK);
	const lk_verb_input input = lk_verb_words(&args, &json);
	assert_int_equal(lk_verb_request(row, &args, 0, &input, request, &err), LK_OK);
	assert_int_equal(row->ask(request, &answer, &err), LK_OK);
	assert_null(lk_verb_failed_check(row, answer));
	assert_int_equal(lk_verb_write(row, request, answer, &json, false, out, &err), LK_OK);
	fclose(out);
	row->free(answer);
	free(request);
	lk_args_free(&args);
	return text;
}

/* Rows of lists select as the lists themselves do. */
static void lists_select(void **state) {
	(void)state;
	const char *const words[] = {"h100"};
	for (int given = 0; given < 2; given++) {
		char *text = NULL;
		size_t size, expected;
		lk_error err;
		FILE *out = open_memstream(&text, &expected);
		assert_non_null(out);
		assert_int_equal(lk_devices_print(given ? words[0] : NULL, LK_OUTPUT_JSON, false, false,
		                                  NULL, out, &err),
		                 LK_OK);
		fclose(out);
		char *json = json_of(&lk_row_devices, given, words, &size);
		assert_int_equal(size, expected);
		assert_memory_equal(json, text, size);
		free(json);
		free(text);
	}
}

/* Options that fill a field of a request's job are rows of predict, as the same kind of field. */
static void check_job(const lk_verb *verb, size_t job) {
	int shared = 0;
	for (const lk_option *option = verb->options; option->name; option++) {
		bool inside = option->offset >= job && option->offset < job + sizeof(lk_predict_request);
		if (option->output || !inside) continue;
		const lk_option *of_predict = lk_predict_verb.options;
		while (of_predict->name &&
		       (of_predict->output || of_predict->offset + job != option->offset))
			of_predict++;
		assert_non_null(of_predict->name);
		assert_int_equal(of_predict->kind, option->kind);
		assert_int_equal(of_predict->unit, option->unit);
		assert_false(option->sweep);
		shared += strcmp(of_predict->name, option->name) == 0;
	}
	assert_true(shared > 8);
}

static void jobs_are_filled_as_by_predict(void **state) {
	(void)state;
	check_job(&lk_plan_verb, offsetof(lk_plan_request, job));
	check_job(&lk_rent_verb, offsetof(lk_rent_request, job));
}

static lk_status fill_request(const lk_verb_row *row, int count, const char *const *words,
                              void *request, lk_error *err) {
	lk_args args;
	const lk_outputs outputs = {0};
	assert_int_equal(lk_args_parse(row->verb, count, words, &args, err), LK_OK);
	const lk_verb_input input = {
		.operands = args.operands, .operand_count = args.operand_count, .outputs = &outputs};
	lk_status status = lk_verb_request(row, &args, 0, &input, request, err);
	lk_args_free(&args);
	return status;
}

/* The operand of predict, plan and rent: a network, or for the first two a file. */
static void operands_name_the_job(void **state) {
	(void)state;
	const char *const network[] = {"gpt2"}, *const file[] = {"run.sh"};
	const char *const twice[] = {"gpt2", "--model=bert-large"};
	lk_error err = {0};
	lk_predict_request predict;
	lk_plan_request plan;
	lk_rent_request rent;
	assert_int_equal(fill_request(&lk_row_predict, 1, network, &predict, &err), LK_OK);
	assert_string_equal(predict.model, "gpt2");
	assert_null(predict.config);
	assert_int_equal(fill_request(&lk_row_plan, 1, file, &plan, &err), LK_OK);
	assert_string_equal(plan.job.config, "run.sh");
	assert_null(plan.job.model);
	assert_int_equal(fill_request(&lk_row_rent, 1, file, &rent, &err), LK_OK);
	assert_string_equal(rent.job.model, "run.sh");
	assert_int_equal(fill_request(&lk_row_rent, 2, twice, &rent, &err), LK_ERR_INPUT);
	assert_string_equal(err.where, "--model");
}

static void combinations_become_rows(void **state) {
	(void)state;
	const char *const words[] = {"--model=gpt2", "--tp=1,2", "--pp=1,4"};
	static const int tp[] = {1, 1, 2, 2}, pp[] = {1, 4, 1, 4};
	const lk_outputs outputs = {0};
	const lk_verb_input input = {.outputs = &outputs};
	lk_combinations all;
	lk_args args;
	lk_error err = {0};
	assert_int_equal(lk_args_parse(&lk_predict_verb, 3, words, &args, &err), LK_OK);
	assert_int_equal(lk_combinations_open(&all, 5, &err), LK_OK);
	assert_int_equal(lk_combinations_fill(&all, 1, &args, &input, &err), LK_OK);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(all.requests[i + 1].tp, tp[i]);
		assert_int_equal(all.requests[i + 1].pp, pp[i]);
	}
	for (int i = 0; i < 5; i++) lk_fail(&all.refusals[i], LK_ERR_INPUT, "--tp", "%d", i);
	assert_int_equal(lk_combinations_rows(&all), 5);
	assert_ptr_equal(all.rows[3].refusal, &all.refusals[3]);
	assert_ptr_equal(all.rows[3].request, &all.requests[3]);
	lk_combinations_close(&all);
	lk_combinations_close(&all);
	lk_args_free(&args);
}

/* --job: words as a shell splits them, a command line that was pasted, a launch line after "--". */
static void jobs_are_read_from_text(void **state) {
	static const char *const same[] = {
		"llama3.1-8b --gpu h100-sxm --gpus 8 --tp 2",
		"  lockstep predict  'llama3.1-8b' --gpu \"h100-sxm\"\n--gpus=8 --tp 2 ",
		"predict --model llama3.1-8b -g h100\\-sxm -n 8 --tp '2'",
	};
	static const char *const wrong[] = {"", "llama3.1-8b --tp '2", "llama3.1-8b --tp 1,2",
	                                    "llama3.1-8b --tpp 2", "llama3.1-8b gpt2"};
	lk_asked_job job;
	lk_error err;
	(void)state;
	for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
		assert_int_equal(lk_job_asked(same[i], &job, &err), LK_OK);
		assert_string_equal(job.request.model, "llama3.1-8b");
		assert_string_equal(job.request.gpu, "h100-sxm");
		assert_int_equal(job.request.gpus, 8);
		assert_int_equal(job.request.tp, 2);
		lk_job_asked_free(&job);
	}
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
		assert_int_equal(lk_job_asked(wrong[i], &job, &err), LK_ERR_INPUT);
	assert_int_equal(lk_job_asked("--gpu h100 -- torchrun t.py --name 'a b'", &job, &err), LK_OK);
	assert_int_equal(job.request.launch_count, 4);
	assert_string_equal(job.request.launch[3], "a b");
	lk_job_asked_free(&job);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_are_whole),
		cmocka_unit_test(defaults_set_all),
		cmocka_unit_test(lists_select),
		cmocka_unit_test(jobs_are_filled_as_by_predict),
		cmocka_unit_test(operands_name_the_job),
		cmocka_unit_test(combinations_become_rows),
		cmocka_unit_test(jobs_are_read_from_text),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
