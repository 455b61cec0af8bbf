/* test_reply.c: verbs asked with words, many predictions at once, calls that are stopped, graphs
 * that are simulated. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>
#include "base/arena.h"
#include "step/traced.h"
#include "system/parallel.h"
#include "system/stop.h"
#include "io/stream.h"
#include "lockstep/predict.h"
#include "lockstep/reply.h"
#include "lockstep/simulate.h"

#define JOB          "--model=llama3.1-8b", "--gpu=h100-sxm", "--gpus=8", "--gbs=16", "--seq=2048"
#define COUNT(array) (int)(sizeof array / sizeof *array)

/* ---- stopping ---- */

static lk_status count_or_stop(void *context, size_t job, lk_error *err) {
	(void)err;
	lk_stop *stop = context;
	if (job == 3) lk_stop_ask(stop);
	return LK_OK;
}

static void parallel_jobs_end(void **state) {
	(void)state;
	lk_error err = {0};
	lk_stop *stop = lk_stop_new();
	assert_non_null(stop);
	assert_false(lk_stop_asked(stop));
	assert_false(lk_stop_asked(NULL));
	lk_stop_watch(stop);
	assert_int_equal(lk_parallel(100000, 4, count_or_stop, stop, &err), LK_ERR_STOPPED);
	assert_int_equal(err.status, LK_ERR_STOPPED);
	assert_int_equal(lk_stop_check(&err), LK_ERR_STOPPED);
	lk_stop_watch(NULL);
	assert_int_equal(lk_stop_check(&err), LK_OK);
	assert_int_equal(lk_parallel(100, 4, count_or_stop, stop, &err),
	                 LK_OK); /* asked, but nobody watches */
	lk_stop_free(stop);
	lk_stop_free(NULL);
}

static void everything_looks(void **state) {
	(void)state;
	lk_error err = {0};
	lk_stop *stop = lk_stop_new();
	lk_predict_request request;
	lk_prediction *prediction;
	lk_stream *in;
	char byte;
	size_t got;
	lk_stop_ask(stop);
	lk_stop_watch(stop);
	lk_predict_defaults(&request);
	request.model = "llama3.1-8b";
	request.gpu = "h100-sxm";
	request.gpus = 8;
	assert_int_equal(lk_predict(&request, &prediction, &err), LK_ERR_STOPPED);
	assert_null(prediction);
	assert_int_equal(lk_stream_memory("x", 1, "x", &in, &err), LK_OK);
	assert_int_equal(lk_stream_read(in, &byte, 1, &got, &err), LK_ERR_STOPPED);
	lk_stop_watch(NULL);
	lk_stream_close(in);
	const char *const words[] = {JOB, "--tp=1,2,4"};
	const int counts[] = {COUNT(words)};
	lk_reply *reply = lk_reply_sweep(1, counts, words, 0, stop);
	assert_int_equal(lk_reply_status(reply), LK_ERR_STOPPED);
	assert_int_equal(lk_reply_rows(reply), 0);
	assert_int_equal(lk_reply_columns(reply), 0);
	assert_string_equal(lk_reply_error(reply, LK_REPLY_LINE), "stopped before it was done");
	lk_reply_free(reply);
	assert_null(lk_stop_watched());
	lk_stop_free(stop);
}

#define GRAPH(chains, groups, operations, repeat)                     \
	"{\"lockstep_graph\": 1, \"ranks\": {\"world\": " #chains         \
	", \"stages\": 1, \"chains\": " #chains ", \"groups\": {" groups  \
	"}}, \"blocks\": [{\"name\": \"b\", \"operations\": [" operations \
	"]}], \"programs\": [{\"name\": \"p\", \"stage\": 0, "            \
	"\"calls\": [[0, " #repeat ", -1, -1, 0, \"forward\"]]}]}"
#define WORK \
	"{\"name\": \"o\", \"kind\": \"elementwise\", \"stream\": \"compute\", \"measured_ps\": 1000}"
#define MOVE                                                                                  \
	"{\"name\": \"m\", \"kind\": \"copy\", \"stream\": \"copy\", \"bytes\": 1e6, \"dtype\": " \
	"\"bf16\"}"

/* Both engines look: precedence alone, and with contention. */
static void engines_end(void **state) {
	(void)state;
	static const char text[] = GRAPH(1, "", WORK ", " WORK, 5000);
	lk_error err = {0};
	lk_arena arena = LK_ARENA_INIT;
	lk_stop *stop = lk_stop_new();
	lk_stream *in;
	lk_graph *graph;
	lk_costs costs;
	assert_int_equal(lk_stream_memory(text, strlen(text), "graph", &in, &err), LK_OK);
	assert_int_equal(lk_graph_read_stream(in, &graph, &err), LK_OK);
	assert_int_equal(lk_lifted_costs(&arena, graph, &costs, &err), LK_OK);
	lk_stop_watch(stop);
	for (int asked = 0; asked < 2; asked++)
		for (int contention = 0; contention < 2; contention++) {
			lk_sim_options options = {.contention = contention != 0};
			lk_sim_result result;
			if (asked) lk_stop_ask(stop);
			lk_status status = lk_sim_run(graph, &costs, &options, &result, &err);
			assert_int_equal(status, asked ? LK_ERR_STOPPED : LK_OK);
			if (status == LK_OK) lk_sim_result_free(&result);
		}
	lk_stop_watch(NULL);
	lk_stop_free(stop);
	lk_graph_free(graph);
	lk_stream_close(in);
	lk_arena_free(&arena);
}

/* ---- many predictions ---- */

static void count_up(void *context, size_t done) {
	size_t *most = context;
	if (done > *most) *most = done;
}

static void many_are_as_one(void **state) {
	(void)state;
	enum { MANY = 12 };
	lk_predict_request requests[MANY];
	lk_prediction *together[MANY], *alone;
	lk_error refusals[MANY], err = {0};
	size_t seen = 0;
	for (int i = 0; i < MANY; i++) {
		lk_predict_defaults(&requests[i]);
		requests[i].model = "llama3.1-8b";
		requests[i].gpu = "h100-sxm";
		requests[i].gpus = 8;
		requests[i].tp = i % 4 + 1;
		requests[i].gbs = 8 * (i / 4 + 1);
		requests[i].no_fixes = true;
	}
	for (int threads = 1; threads <= 3; threads += 2) {
		assert_int_equal(
			lk_predict_many(requests, MANY, threads, together, refusals, count_up, &seen, &err),
			LK_OK);
		for (int i = 0; i < MANY; i++) {
			lk_error why = {0};
			lk_status status = lk_predict(&requests[i], &alone, &why);
			assert_int_equal(status, together[i] ? LK_OK : LK_ERR_INPUT);
			assert_int_equal(status == LK_OK, requests[i].tp != 3);
			if (status == LK_OK)
				assert_true(alone->step_time_s == together[i]->step_time_s &&
				            alone->peak_bytes == together[i]->peak_bytes);
			else assert_string_equal(why.what, refusals[i].what);
			lk_predict_free(alone);
			lk_predict_free(together[i]);
		}
	}
	assert_in_range(seen, 1, MANY);
	/* each reads the file that it names */
	requests[0].calibration = "/nowhere/a.csv";
	requests[5].calibration = "/nowhere/b.csv";
	assert_int_equal(lk_predict_many(requests, MANY, 2, together, refusals, NULL, NULL, &err),
	                 LK_ERR_IO);
	assert_string_equal(err.where, "/nowhere/a.csv");
	for (int i = 0; i < MANY; i++) lk_predict_free(together[i]);
}

/* ---- replies ---- */

static int find_column(const lk_reply *reply, const char *key, const double **numbers,
                       const char *const **texts) {
	for (int i = 0; i < lk_reply_columns(reply); i++)
		if (strcmp(lk_reply_column(reply, i, numbers, texts), key) == 0) return i;
	fail_msg("no column %s", key);
	return -1;
}

static void sweeps_have_columns(void **state) {
	(void)state;
	const char *const words[] = {JOB, "--tp=1,2,3", JOB, "--tp=4"};
	const int counts[] = {6, 6};
	const double *numbers;
	const char *const *texts;
	size_t size;
	lk_reply *reply = lk_reply_sweep(2, counts, words, 2, NULL), *alone;
	assert_int_equal(lk_reply_status(reply), LK_OK);
	assert_int_equal(lk_reply_rows(reply), 4);
	assert_true(lk_reply_yes(reply));
	assert_null(lk_reply_json(reply, NULL));
	find_column(reply, "tp", &numbers, &texts);
	assert_null(texts);
	for (int i = 0; i < 4; i++) assert_true(numbers[i] == i + 1);
	find_column(reply, "verdict", &numbers, &texts);
	assert_null(numbers);
	assert_string_equal(texts[2], "refused");
	find_column(reply, "refused", &numbers, &texts);
	assert_null(texts[0]);
	assert_non_null(strstr(texts[2], "not a multiple"));
	find_column(reply, "step_time_s", &numbers, &texts);
	assert_true(isnan(numbers[2]) && numbers[3] > 0);
	assert_non_null(strstr(lk_reply_row(reply, 2, &size), "\"refused\""));
	assert_int_equal(size, strlen(lk_reply_row(reply, 2, NULL)));
	assert_null(lk_reply_row(reply, 4, &size));
	alone = lk_reply_ask("predict", 6, words + 6, NULL, 0, NULL);
	assert_int_equal(lk_reply_status(alone), LK_OK);
	/* alike up to the command that repeats it */
	const char *one = lk_reply_row(reply, 3, NULL), *other = lk_reply_json(alone, NULL);
	const char *same = strstr(one, "\"reproduce\"");
	assert_memory_equal(one, other, (size_t)(same - one));
	assert_null(lk_reply_column(reply, -1, &numbers, &texts));
	assert_null(lk_reply_column(reply, 9999, &numbers, &texts));
	lk_reply_free(alone);
	lk_reply_free(reply);
	lk_reply_free(NULL);
}

static void refused(const char *verb, int count, const char *const *words, const char *line) {
	lk_reply *reply = lk_reply_ask(verb, count, words, NULL, 0, NULL);
	assert_int_equal(lk_reply_status(reply), LK_ERR_INPUT);
	assert_string_equal(lk_reply_error(reply, LK_REPLY_LINE), line);
	assert_false(lk_reply_yes(reply));
	lk_reply_free(reply);
}

static void errors_are_the_programs(void **state) {
	(void)state;
	const char *const unknown[] = {"--modle=x"}, *const empty[] = {"--model="},
					  *const two[] = {JOB, "--tp=1,2"};
	refused("predict", 1, unknown, "--modle: unknown option; did you mean --model?");
	refused("predict", 1, empty,
	        "--model: the value is empty; give NAME|FILE, or leave the option out");
	refused("predict", 6, two,
	        "predict: the lists make 2 combinations, and one is answered here; use sweep for all "
	        "combinations");
	refused("predct", 0, NULL, "unknown verb \"predct\"; did you mean predict?");
	refused("validate", 0, NULL, "validate: RUNS.csv is missing; see lockstep validate --help");
	refused(
		"simulate", 0, NULL,
		"simulate: no graph was given; give a file as `lockstep predict --graph FILE` writes it");
	lk_reply *reply = lk_reply_sweep(0, NULL, NULL, 0, NULL);
	assert_string_equal(lk_reply_error(reply, LK_REPLY_WHAT), "nothing to answer");
	lk_reply_free(reply);
	const char *const file[] = {JOB, "--tp=1,2", "--trace=x.json"};
	const int counts[] = {COUNT(file)};
	reply = lk_reply_sweep(1, counts, file, 0, NULL);
	assert_string_equal(lk_reply_error(reply, LK_REPLY_WHERE), "--trace");
	lk_reply_free(reply);
}

/* The operand is --model here too; the file of --goal is written by predict, refused by a sweep. */
static void words_are_those_of_the_program(void **state) {
	(void)state;
	char goal[] = "/tmp/goal-XXXXXX", option[64];
	int file = mkstemp(goal);
	assert_true(file >= 0);
	close(file);
	snprintf(option, sizeof option, "--goal=%s", goal);
	const char *const named[] = {JOB, option};
	const char *const operand[] = {"llama3.1-8b", "--gpu=h100-sxm", "--gpus=8", "--gbs=16",
	                               "--seq=2048"};
	lk_reply *one = lk_reply_ask("predict", COUNT(named), named, NULL, 0, NULL);
	lk_reply *two = lk_reply_ask("predict", COUNT(operand), operand, NULL, 0, NULL);
	assert_int_equal(lk_reply_status(one), LK_OK);
	assert_int_equal(lk_reply_status(two), LK_OK);
	assert_string_equal(lk_reply_json(one, NULL), lk_reply_json(two, NULL));
	struct stat info;
	assert_int_equal(stat(goal, &info), 0);
	assert_true(info.st_size > 0);
	lk_reply_free(one);
	lk_reply_free(two);
	remove(goal);
	const int counts[] = {COUNT(named)};
	lk_reply *sweep = lk_reply_sweep(1, counts, named, 1, NULL);
	assert_int_equal(lk_reply_status(sweep), LK_ERR_INPUT);
	assert_string_equal(lk_reply_error(sweep, LK_REPLY_WHERE), "--goal");
	lk_reply_free(sweep);
}

static void tables_are_told(void **state) {
	(void)state;
	lk_reply *reply = lk_reply_verbs();
	size_t size;
	const char *json = lk_reply_json(reply, &size);
	assert_int_equal(lk_reply_status(reply), LK_OK);
	assert_int_equal(size, strlen(json));
	for (const lk_option *o = lk_predict_verb.options; o->name; o++) {
		char key[128];
		snprintf(key, sizeof key, "\"name\": \"%s\"", o->name);
		assert_non_null(strstr(json, key));
	}
	assert_non_null(strstr(json, "\"simulate\": {"));
	lk_reply_free(reply);
}

/* ---- simulations ---- */

static lk_status simulate(const char *graph, const char *gpu, lk_simulation **out, lk_error *err) {
	lk_simulate_request request;
	lk_simulate_defaults(&request);
	request.text = graph;
	request.text_size = strlen(graph);
	request.gpu = gpu;
	return lk_simulate(&request, out, err);
}

static void durations_add_up(void **state) {
	(void)state;
	lk_simulation *simulation;
	lk_error err = {0};
	assert_int_equal(simulate(GRAPH(1, "", WORK ", " WORK, 5), NULL, &simulation, &err), LK_OK);
	assert_true(fabs(simulation->step_s - 10e-9) < 1e-15);
	assert_int_equal(simulation->span_count, 10);
	assert_true(simulation->spans[9].end_s == simulation->step_s &&
	            simulation->spans[9].repetition == 4 && simulation->spans[9].operation == 1);
	assert_string_equal(simulation->operations[1].name, "o");
	assert_string_equal(simulation->operations[1].stream, "compute");
	assert_true(simulation->programs[0].compute_s == simulation->step_s &&
	            simulation->programs[0].exposed_s == 0);
	assert_null(simulation->cluster);
	lk_simulate_free(simulation);
	assert_int_equal(
		simulate(GRAPH(4, "\"dp\": [4, 1]", WORK ", " MOVE, 5), "h100-sxm", &simulation, &err),
		LK_OK);
	assert_int_equal(simulation->ranks, 4);
	assert_true(simulation->step_s > 10e-9 && simulation->cluster);
	lk_simulate_free(simulation);
	lk_simulate_free(NULL);
}

static void wrong_graphs_are_errors(void **state) {
	(void)state;
	lk_simulation *simulation;
	lk_error err = {0};
	const struct {
		const char *graph, *gpu, *what;
	} wrong[] = {
		{"", NULL, ""},
		{"{}", NULL, "not a step graph"},
		{GRAPH(1, "", MOVE, 1), NULL, "has no duration"},
		{GRAPH(1, "", WORK, 30000000), NULL, "at most 1e+07"},
		{GRAPH(1, "",
	           "{\"name\": \"o\", \"kind\": \"copy\", \"stream\": \"copy\", \"measured_ps\": 9e18}",
	           9),
	     NULL, ""},
		{GRAPH(1, "",
	           "{\"name\": \"o\", \"kind\": \"copy\", \"stream\": \"copy\", \"measured_ps\": "
	           "900000000000000000}",
	           9),
	     NULL, "one after the other"},
		{GRAPH(99999999, "", WORK, 1), "h100-sxm", ""},
		{GRAPH(1, "", WORK, 1), "h10", "unknown device"},
	};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		assert_int_equal(simulate(wrong[i].graph, wrong[i].gpu, &simulation, &err), LK_ERR_INPUT);
		assert_null(simulation);
		if (!strstr(err.what, wrong[i].what)) fail_msg("%zu: %s", i, err.what);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parallel_jobs_end),
		cmocka_unit_test(everything_looks),
		cmocka_unit_test(engines_end),
		cmocka_unit_test(many_are_as_one),
		cmocka_unit_test(sweeps_have_columns),
		cmocka_unit_test(errors_are_the_programs),
		cmocka_unit_test(words_are_those_of_the_program),
		cmocka_unit_test(tables_are_told),
		cmocka_unit_test(durations_add_up),
		cmocka_unit_test(wrong_graphs_are_errors),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
