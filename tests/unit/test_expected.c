/* test_expected.c: causes of a run off its prediction: the table, faults of clusters, and that a
 * run which is exactly what a cause predicts is explained by it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "hw/hw.h"
#include "predict/predict_internal.h"

static const lk_predict_request job = {
	.model = "llama3-8b", .gpu = "h100", .gpus = 16, .tp = 2, .mbs = 1, .gbs = 64, .seq = 8192};

static lk_prediction *ask(const lk_predict_request *request) {
	lk_prediction *found;
	lk_error err = {0};
	if (lk_predict(request, &found, &err) != LK_OK) fail_msg("%s: %s", err.where, err.what);
	return found;
}

/* Rows are complete, their keys differ, each changes something, and priors are small. */
static void test_table(void **state) {
	(void)state;
	double sum = 0;
	int count = 0;
	for (int i = 0; lk_causes[i].key; i++, count++) {
		const lk_cause *cause = &lk_causes[i];
		assert_true(cause->prior > 0 && cause->prior <= 0.2);
		assert_true(cause->what && cause->check && cause->family);
		assert_true(cause->argument || cause->change == LK_CAUSE_ONE_NIC ||
		            cause->change == LK_CAUSE_STATED_POWER);
		assert_null(strpbrk(cause->key, "+ "));
		for (int j = 0; j < i; j++) assert_string_not_equal(cause->key, lk_causes[j].key);
		sum += cause->prior;
	}
	assert_true(count >= 25 && sum < 3);
}

/* A run as slow as a cause makes it: the cause explains it, and is among those listed. */
static void test_each_cause_explains_itself(void **state) {
	(void)state;
	static const struct {
		const char *cause, *recompute, *dtype;
		int gbs;
	} rows[] = {
		{"recompute_full", "full", NULL, 64},
		{"tf32", NULL, "tf32", 64},
		{"half_gbs", NULL, NULL, 32},
		{"fp8", NULL, "fp8", 64},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		lk_predict_request other = job, same = job;
		char text[32];
		bool found = false;
		other.recompute = rows[i].recompute, other.dtype = rows[i].dtype, other.gbs = rows[i].gbs;
		lk_prediction *true_run = ask(&other);
		snprintf(text, sizeof text, "%.9g s", true_run->step_time_s);
		same.measured = text;
		lk_prediction *answer = ask(&same);
		const lk_expected *expected = answer->expected;
		assert_non_null(expected);
		assert_false(expected->as_expected);
		double shares = expected->unchanged_share + expected->other_share;
		for (int c = 0; c < expected->suspect_count; c++) {
			const lk_suspect *suspect = &expected->suspects[c];
			shares += suspect->share;
			assert_true(c == 0 || suspect->share <= expected->suspects[c - 1].share);
			if (strcmp(suspect->cause, rows[i].cause) != 0) continue;
			found = suspect->explains;
			assert_true(fabs(suspect->step_time_s / true_run->step_time_s - 1) < 1e-6);
		}
		if (!found) fail_msg("%s does not explain itself", rows[i].cause);
		assert_true(shares > 0.5 && shares <= 1 + 1e-9);
		lk_predict_free(answer);
		lk_predict_free(true_run);
	}
}

/* Measured values in different units of one run say the same. */
static void test_units_agree(void **state) {
	(void)state;
	lk_predict_request request = job;
	lk_prediction *plain = ask(&request);
	char texts[4][64];
	snprintf(texts[0], 64, "%.9g s", 2 * plain->step_time_s);
	snprintf(texts[1], 64, "%.9g tok/s/gpu", plain->tokens_per_s_per_gpu / 2);
	snprintf(texts[2], 64, "%.9g samples/s", plain->samples_per_s / 2);
	snprintf(texts[3], 64, "%.9g tok/s", plain->tokens_per_s_per_gpu / 2 * 16);
	for (int i = 0; i < 4; i++) {
		request.measured = texts[i];
		lk_prediction *answer = ask(&request);
		assert_true(fabs(answer->expected->time_ratio - 2) < 1e-6);
		assert_true(fabs(answer->expected->mfu - plain->mfu / 2) < 1e-6);
		lk_predict_free(answer);
	}
	lk_predict_free(plain);
}

/* A fault applies where there is something to lose, and once. */
static void test_faults(void **state) {
	(void)state;
	static const struct {
		const char *from;
		lk_link_fault fault;
		const char *to; /* NULL: it does not apply */
	} rows[] = {
		{"2 node * 8 h100-sxm nvlink4, nic 8*400g", LK_FAULT_SOCKETS,
	     "2 node * 8 h100-sxm nvlink4, nic 8*400g sockets"},
		{"1 node * 8 h100-sxm nvlink4, nic 8*400g", LK_FAULT_SOCKETS, NULL},
		{"2 node * 8 h100-sxm nvlink4, nic 8*400g sockets", LK_FAULT_SOCKETS, NULL},
		{"2 node * 8 h100-sxm nvlink4, nic 8*400g", LK_FAULT_NO_LINKS,
	     "2 node * 8 h100-sxm pcie, nic 8*400g"},
		{"1 node * 8 l40s pcie, nic 8*100g", LK_FAULT_NO_LINKS, NULL},
		{"1 node * 8 l40s pcie, nic 8*100g", LK_FAULT_NO_PEER,
	     "1 node * 8 l40s pcie, nop2p, nic 8*100g"},
		{"2 node * 8 h100-sxm nvlink4, nic 8*400g", LK_FAULT_NO_PEER, NULL},
		{"2 node * 8 h100-sxm nvlink4, nic 8*400g", LK_FAULT_HALF_NODES,
	     "4 node * 4 h100-sxm nvlink4, nic 4*400g"},
		{"2 node * 8 h100-sxm nvlink4, nic 8*400g", LK_FAULT_SHARED_TREE,
	     "2 node * 8 h100-sxm nvlink4, nic 8*400g, oversub 4"},
		{"2 node * 8 h100-sxm nvlink4, nic 8*400g, oversub 4", LK_FAULT_SHARED_TREE, NULL},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		lk_arena arena = LK_ARENA_INIT;
		lk_cluster from, to;
		lk_error err = {0};
		bool applies;
		assert_int_equal(lk_cluster_parse(&arena, rows[i].from, &from, &err), LK_OK);
		assert_int_equal(lk_cluster_with_fault(&arena, &from, rows[i].fault, &to, &applies, &err),
		                 LK_OK);
		assert_int_equal(applies, rows[i].to != NULL);
		if (applies) assert_string_equal(to.text, rows[i].to);
		lk_arena_free(&arena);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_table),
		cmocka_unit_test(test_each_cause_explains_itself),
		cmocka_unit_test(test_units_agree),
		cmocka_unit_test(test_faults),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
