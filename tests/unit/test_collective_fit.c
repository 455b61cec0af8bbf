/* test_collective_fit.c: fits of fabrics: numbers are found again, folds keep what they leave out,
 * and the committed calibration is what the measurements give. With LOCKSTEP_REGENERATE=FILE the
 * calibration is written there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "calibrate/calibrate.h"
#include "fit/fits.h"
#include "base/text.h"
#include "io/embedded.h"
#include "data.h"
#include "rounds.h"

static const char header[] = "collective,gpu,n_gpu,nodes,fabric,size_bytes,time_us,source\n";

/* Rows of a fabric with known numbers, over sizes and groups. */
static size_t make_rows(const lk_fabric *fabric, lk_coll_row *rows, lk_coll_pick *picks) {
	static const int groups[][2] = {{2, 1}, {4, 1}, {8, 1}, {16, 2}, {32, 4}};
	size_t count = 0;
	for (size_t g = 0; g < sizeof groups / sizeof *groups; g++)
		for (double bytes = 1024; bytes < 4e9; bytes *= 2) {
			lk_coll_row *row = &rows[count];
			*row = (lk_coll_row){
				.kind = LK_COLL_ALLREDUCE,
				.gpus = groups[g][0],
				.nodes = groups[g][1],
				.bytes = bytes,
				.text = "8x200Gb",
				.fabric = "made",
				.slow = "",
				.refused = "",
			};
			lk_coll_row_wire(row, lk_device_find("a100-sxm-80"));
			row->us = lk_coll_row_time(row, fabric);
			picks[count++] = row;
		}
	return count;
}

static void test_numbers_are_found_again(void **state) {
	(void)state;
	static lk_coll_row rows[200];
	static lk_coll_pick picks[200];
	static const lk_fabric made[] = {
		{4, 1.2, 1.05, .7, .05, NULL, NULL},
		{12, .4, .9, .5, .05, NULL, NULL},
		{7, .8, 1, .9, .05, NULL, NULL},
	};
	for (size_t m = 0; m < sizeof made / sizeof *made; m++) {
		lk_fabric found;
		double error;
		size_t count = make_rows(&made[m], rows, picks);
		lk_fabric_fit(picks, count, &lk_fabric_plain, &found, &error);
		double off = 0;
		for (size_t i = 0; i < count; i++)
			off += fabs(log(lk_coll_row_time(&rows[i], &found) / rows[i].us));
		if (off / (double)count > .02)
			fail_msg("fabric %zu: mean error %g", m, off / (double)count);
		assert_true(fabs(found.nic / made[m].nic - 1) < .05);
		assert_true(fabs(found.wire / made[m].wire - 1) < .1);
	}
}

static bool is_spoilt(const lk_coll_row *row, lk_coll_folds folds) {
	return folds == LK_COLL_FOLDS_GPUS ? row->gpus == 8 : row->bytes == 1 << 20;
}

/* What was left out cannot change what predicts it. */
static void held_rows_do_not_teach(lk_coll_folds folds) {
	static lk_coll_row rows[200], spoilt[200];
	static lk_coll_pick picks[200];
	static double clean_us[200], spoilt_us[200];
	static const lk_fabric made = {4, 1.2, 1.05, .7, .05, NULL, NULL};
	lk_error err;
	size_t count = make_rows(&made, rows, picks);
	memcpy(spoilt, rows, sizeof spoilt);
	for (size_t i = 0; i < count; i++)
		if (is_spoilt(&rows[i], folds)) spoilt[i].us *= 3;
	lk_coll_rows clean_rows = {.at = rows, .count = count},
				 spoilt_rows = {.at = spoilt, .count = count};
	lk_coll_fabrics fabrics = {0};
	assert_int_equal(lk_coll_fabrics_of(&clean_rows, &fabrics, &err), LK_OK);
	assert_int_equal(fabrics.count, 1);
	lk_coll_predictor *const all[] = {
		lk_coll_predict_model,
		lk_coll_predict_alpha_beta,
		lk_coll_predict_raw,
		lk_coll_predict_scalars,
	};
	for (size_t p = 0; p < sizeof all / sizeof *all; p++) {
		assert_int_equal(
			lk_coll_cross(&clean_rows, &fabrics, folds, all[p], &lk_fabric_plain, clean_us, &err),
			LK_OK);
		assert_int_equal(
			lk_coll_cross(&spoilt_rows, &fabrics, folds, all[p], &lk_fabric_plain, spoilt_us, &err),
			LK_OK);
		for (size_t i = 0; i < count; i++)
			if (is_spoilt(&rows[i], folds)) assert_true(clean_us[i] == spoilt_us[i]);
	}
	lk_vec_free(&fabrics);
}

static void test_held_rows_do_not_teach(void **state) {
	(void)state;
	held_rows_do_not_teach(LK_COLL_FOLDS_GPUS);
	held_rows_do_not_teach(LK_COLL_FOLDS_SIZE);
}

/* Folds that span fabrics: what predicts a row has seen no row of its device, or of its source. */
static lk_status predict_from_others(const lk_fabric *start, const lk_coll_pick *seen,
                                     size_t seen_count, const lk_coll_pick *held, size_t held_count,
                                     double *us, lk_error *error) {
	(void)start, (void)error;
	for (size_t h = 0; h < held_count; h++) {
		us[h] = (double)seen_count;
		for (size_t s = 0; s < seen_count; s++) {
			bool gpu = strncmp(held[0]->where, "gpu", 3) == 0;
			assert_true(gpu ? seen[s]->node.device != held[h]->node.device
			                : strcmp(seen[s]->source, held[h]->source) != 0);
		}
	}
	return LK_OK;
}

static void test_folds_apart(void **state) {
	(void)state;
	enum { ROWS = 12 };
	static const char *const devices[] = {"a100-sxm-80", "h100-sxm", "b200"}, *const sources[] = {
																				  "owner/one",
																				  "owner/two"};
	lk_coll_row rows[ROWS];
	double us[ROWS];
	lk_error error;
	const lk_coll_rows all = {.at = rows, .count = ROWS};
	for (int by = 0; by < 2; by++) {
		for (int i = 0; i < ROWS; i++)
			rows[i] = (lk_coll_row){
				.gpus = 8,
				.nodes = 1,
				.us = 1,
				.node.device = lk_device_find(devices[i % 3]),
				.fabric = i % 2 ? "odd" : "even",
				.source = sources[i / 6],
				.where = by ? "source" : "gpu",
				.slow = "",
				.refused = "",
			};
		assert_int_equal(lk_coll_cross(&all, NULL, by ? LK_COLL_FOLDS_SOURCE : LK_COLL_FOLDS_GPU,
		                               predict_from_others, &lk_fabric_plain, us, &error),
		                 LK_OK);
		for (int i = 0; i < ROWS; i++) assert_true(us[i] == (by ? 6 : 8));
	}
	assert_true(lk_same_publication("owner/one a/file.csv@1f", "owner/one@2e b"));
	assert_false(lk_same_publication("owner/one", "owner/ones"));
}

/* A curve that lies above the model by a factor that depends on the size is found, and no other
 * curve moves. */
static void test_curves_are_found_again(void **state) {
	(void)state;
	static lk_coll_row rows[200];
	static lk_coll_pick picks[200];
	static lk_curves curves;
	lk_fabric fabric = {4, 1.2, 1.05, .7, .05, NULL, NULL};
	size_t count = make_rows(&fabric, rows, picks);
	for (size_t i = 0; i < count; i++)
		if (rows[i].gpus == 16) rows[i].us *= 1.5 + .4 * sin(log2(rows[i].bytes));
	lk_coll_curves_fit(picks, count, &fabric, &curves);
	assert_int_equal(curves.count, 5);
	fabric.curves = &curves;
	for (size_t i = 0; i < count; i++)
		assert_true(fabs(lk_coll_row_time(&rows[i], &fabric) / rows[i].us - 1) < 1e-9);
	lk_fabric none = fabric;
	none.curves = NULL;
	lk_group_shape group = lk_coll_row_group(&rows[0], &fabric);
	for (double bytes = 8; bytes < 1e12;
	     bytes *= 1.7) { /* other collectives and groups, and groups that share */
		group.ranks = 12;
		group.nodes = 2;
		group.ranks_per_node = 6;
		group.sharing = 1;
		assert_true(lk_curves_factor(&curves, LK_COLL_ALLREDUCE, &group, bytes) == 1);
		group.ranks = 16;
		group.ranks_per_node = 8;
		assert_true(lk_curves_factor(&curves, LK_COLL_ALLGATHER, &group, bytes) == 1);
		double factor = lk_curves_factor(&curves, LK_COLL_ALLREDUCE, &group, bytes);
		assert_true(factor > 1.05 && factor < 1.95);
		group.fabric = &fabric;
		lk_coll_cost with = lk_collective_cost(LK_COLL_ALLREDUCE, &group, bytes);
		group.fabric = &none;
		lk_coll_cost without = lk_collective_cost(LK_COLL_ALLREDUCE, &group, bytes);
		assert_true(fabs(with.seconds / without.seconds / factor - 1) < 1e-12);
		assert_true(fabs(with.busbw * factor / without.busbw - 1) < 1e-12 &&
		            with.channels == without.channels);
		group.sharing = 8;
		assert_true(lk_curves_factor(&curves, LK_COLL_ALLREDUCE, &group, bytes) == 1);
	}
}

/* Between what was measured a straight line, beyond it the last value; and nothing of what a row
 * does not say. */
static void test_curves_of_a_calibration(void **state) {
	(void)state;
	static const char text[] = "family,subject,variant,numbers\n"
							   "curve,ours,all_reduce 8 on 1,1K=9\n" /* of no fabric yet */
							   "collective,ours,,launch_us=5\n"
							   "curve,ours,all_reduce 8 on 1,1M=2 4M=8\n"
							   "curve,others,all_reduce 4 on 1,1M=2\n"
							   "curve,ours,all_reduce 1 on 1,1M=2\ncurve,ours,scan 8 on "
							   "1,1M=2\ncurve,ours,all_reduce 8,1M=2\n";
	static const double points[][2] = {{1, 2}, {1 << 20, 2}, {1 << 21, 4}, {1 << 22, 8}, {1e15, 8}};
	lk_calibration calibration = {0};
	lk_curves curves;
	lk_stream *in;
	lk_error err;
	assert_int_equal(lk_stream_memory(text, strlen(text), "t.csv", &in, &err), LK_OK);
	assert_int_equal(lk_calibration_read(in, &calibration, &err), LK_OK);
	lk_stream_close(in);
	lk_curves_of(&calibration, NULL, &curves);
	assert_int_equal(curves.count, 0);
	lk_curves_of(&calibration, lk_calibration_find(&calibration, "collective", "ours", ""),
	             &curves);
	assert_int_equal(curves.count, 1);
	lk_group_shape group = {
		.ranks = 8, .nodes = 1, .ranks_per_node = 8, .sharing = 8, .oversubscription = 2};
	for (size_t i = 0; i < sizeof points / sizeof *points; i++)
		assert_true(
			fabs(lk_curves_factor(&curves, LK_COLL_ALLREDUCE, &group, points[i][0]) / points[i][1] -
		         1) < 1e-12);
	assert_true(lk_curves_factor(NULL, LK_COLL_ALLREDUCE, &group, 1e6) == 1);
	lk_calibration_free(&calibration);
}

static lk_status calibrate(const char *text, lk_calibration *out, lk_error *err) {
	lk_stream *in;
	assert_int_equal(lk_stream_memory(text, strlen(text), "table.csv", &in, err), LK_OK);
	lk_status status = lk_calibrate_collectives(in, "a test", "2026-11-21", out, err);
	lk_stream_close(in);
	return status;
}

static const char *const ranks =
	"# Rank  0 Group  0 Pid 1 on h device  0 [0x07] NVIDIA A100-SXM4-40GB\n"
	"# Rank  1 Group  0 Pid 1 on h device  1 [0x08] NVIDIA A100-SXM4-40GB\n# all_reduce_perf\n";

static void test_a_log_gives_the_default(void **state) {
	(void)state;
	lk_calibration out = {0};
	lk_error err;
	char text[2000];
	int used = snprintf(text, sizeof text, "%s", ranks);
	for (double bytes = 1024; bytes < 2e9; bytes *= 8)
		used += snprintf(text + used, sizeof text - (size_t)used,
		                 "%.0f %.0f float sum -1 %.2f 1 1 0 %.2f 1 1 0\n", bytes, bytes / 4,
		                 9 + bytes / 200e3, 9 + bytes / 200e3);
	assert_int_equal(calibrate(text, &out, &err), LK_OK);
	assert_int_equal(out.rows.count, 2);
	assert_string_equal(out.rows.at[1].family, "curve");
	assert_string_equal(out.rows.at[1].variant, "all_reduce 2 on 1");
	assert_int_equal(out.rows.at[1].points, 7);
	assert_string_equal(out.rows.at[0].subject, "default");
	assert_int_equal(out.rows.at[0].count, LK_FABRIC_NUMBERS);
	assert_true(out.rows.at[0].error < .4); /* before its curve, which takes the rest */
	lk_calibration_free(&out);
}

static void test_what_cannot_be_fitted(void **state) {
	(void)state;
	static const struct {
		const char *text, *what;
	} wrong[] = {
		{"", "no rows"},
		{"1024 256 float sum -1 9 1 1 0 9 1 1 0\n", "neither the log nor its name says"},
		{"collective,gpu,n_gpu,nodes,fabric,size_bytes,time_us,source\nall_reduce,A100,8,1,X,8,9,"
	     "s\n",
	     "no fabric has"},
		{"collective,gpu,n_gpu,nodes,size_bytes,time_us\n", "fabric is missing"},
		{"collective,gpu,n_gpu,nodes,fabric,size_bytes,time_us,source\nall_reduce,A100,zero,1,X,8,"
	     "9,s\n",
	     "not a whole number"},
	};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		lk_calibration out = {0};
		lk_error err = {0};
		char line[900];
		assert_int_equal(calibrate(wrong[i].text, &out, &err), LK_ERR_INPUT);
		lk_error_text(&err, line, sizeof line);
		if (i < 4 && !strstr(line, wrong[i].what)) fail_msg("%s", line);
		lk_calibration_free(&out);
	}
}

/* Rows whose misses are exponential, of a share and of a time: the range has both parts, holds 80 %
 * of them, takes nothing of a fabric that is left out, and is that of the other rows of the network
 * where none of its class is left. */
static void test_ranges_of_unseen_fabrics(void **state) {
	(void)state;
	enum { ROWS = 2000, ODD = 1500 };
	static lk_coll_row rows[ROWS];
	static double us[ROWS];
	lk_coll_rows all = {.at = rows, .count = ROWS};
	lk_coll_range range = {9, 9, 0}, without, messages, untold = {9, 9, 0};
	lk_error err;
	int points, inside = 0;
	for (int i = 0; i < ROWS; i++) {
		bool odd = i >= ODD; /* a fabric that misses everything by a factor of 5 */
		us[i] = 8 * pow(2, i % 100 / 8.);
		double drawn = ((unsigned)i * 2654435761U >> 8) % 1000 / 1000. + .0005,
			   miss = -log(drawn) * hypot(.05, 10 / us[i]), sign = i % 2 ? 1 : -1;
		rows[i] = (lk_coll_row){
			.kind = LK_COLL_ALLREDUCE,
			.gpus = 8,
			.nodes = 1,
			.bytes = 1e6,
			.us = us[i] * (odd ? 5 : exp(sign * miss)),
			.text = "",
			.fabric = odd ? "odd" : "even",
			.slow = "",
			.refused = "",
		};
		lk_coll_row_wire(&rows[i], lk_device_find("a100-sxm-80"));
	}
	assert_int_equal(lk_coll_range_fit(&all, us, LK_COLL_LINKS, false, &rows[ODD],
	                                   LK_COLL_FOLDS_FABRIC, &without, &points, &err),
	                 LK_OK);
	assert_int_equal(points, ODD);
	for (int i = 0; i < ODD; i++)
		inside += fabs(log(us[i] / rows[i].us)) <= lk_coll_range_width(&without, 1, us[i]);
	assert_true(abs(inside - ODD * 8 / 10) <= 1);
	if (!(fabs(without.share / (.05 * log(5)) - 1) < .3 &&
	      fabs(without.us / (10 * log(5)) - 1) < .3))
		fail_msg("share %g, %g us", without.share, without.us);
	assert_int_equal(lk_coll_range_fit(&all, us, LK_COLL_LINKS, false, NULL, LK_COLL_FOLDS_FABRIC,
	                                   &range, &points, &err),
	                 LK_OK);
	assert_int_equal(points, ROWS);
	assert_int_equal(without.nodes, 1); /* on 2, 8 nodes: one, three octaves beyond */
	assert_true(fabs(lk_coll_range_width(&without, 2, 1e9) / without.share - sqrt(2)) < 1e-6);
	assert_true(fabs(lk_coll_range_width(&without, 8, 1e9) / without.share - 2) < 1e-6);
	assert_true(lk_coll_range_width(&range, 1, 1e6) > 2 * lk_coll_range_width(&without, 1, 1e6));
	assert_int_equal(lk_coll_range_fit(&all, us, LK_COLL_PCIE, true, &rows[ODD],
	                                   LK_COLL_FOLDS_FABRIC, &messages, &points, &err),
	                 LK_OK);
	assert_true(messages.share == without.share && messages.us == without.us);
	assert_int_equal(lk_coll_range_fit(&all, us, LK_COLL_NETWORK, false, NULL, LK_COLL_FOLDS_FABRIC,
	                                   &untold, &points, &err),
	                 LK_OK);
	assert_true(points == 0 && untold.share == 9);
}

static void test_words_of_fabrics(void **state) {
	(void)state;
	static const char rows[] =
		"all_reduce,A100-SXM-40,16,2,NDv4 NVLink3 + 8x200Gb "
		"IB,8,9,s\nall_reduce,A100-80GB,16,2,p4de 4x100G EFA,8,9,s\n"
		"send_recv,A100-SXM-80,2,1,vidur a100_pairwise_nvlink,8,9,s\nall_reduce,H100-SXM,4,1,vidur "
		"h100_pairwise_nvlink,8,9,s\n"
		"all_reduce,A100-SXM-80,16,2,vidur a100_dgx,8,9,s\nalltoall,H100-SXM (per file "
		"comment),8,1,NVLink4+NVLS,8,9,s\n"
		"all_reduce,H100,16,2,\"NDR 400G IB, user-reported as LOW\",8,9,NVIDIA/nccl-tests issue "
		"290\n"
		"scan,H100,16,2,x,8,9,s\nall_reduce,no such GPU,16,2,x,8,9,s\n";
	char text[2000];
	snprintf(text, sizeof text, "%s%s", header, rows);
	lk_arena arena = LK_ARENA_INIT;
	lk_coll_rows out = {0};
	lk_error err;
	lk_stream *in;
	assert_int_equal(lk_stream_memory(text, strlen(text), "t.csv", &in, &err), LK_OK);
	assert_int_equal(lk_coll_rows_read(&arena, in, &out, &err), LK_OK);
	lk_stream_close(in);
	assert_int_equal(out.count, 9);
	const lk_coll_row *row = out.at;
	assert_string_equal(row[0].fabric, "NDv4");
	assert_true(row[0].node.nics == 8 && row[0].node.nic_rate == 25e9 && row[0].network_stated);
	assert_true(row[1].node.nics == 4 && row[1].node.nic_latency_s == 75e-6);
	lk_node p5 = row[1].node; /* the plugin tells NCCL 75 us of both */
	p5.device = lk_device_find("h100-sxm");
	assert_true(lk_efa_hint(p5.nic_rate) == 75e-6 && lk_efa_latency(&p5) == 20e-6);
	lk_group_shape pair = lk_coll_row_group(&row[2], NULL), four = lk_coll_row_group(&row[3], NULL);
	assert_true(lk_group_on_bridge(&pair) && !lk_group_on_bridge(&four));
	assert_string_equal(row[3].fabric, "vidur h100_pairwise_nvlink");
	assert_true(row[3].node.intra == LK_INTRA_PCIE);
	assert_true(row[4].node.transport == LK_TRANSPORT_SOCKETS && row[4].node.nics == 1 &&
	            !row[4].network_stated);
	assert_true(row[5].kind == LK_COLL_ALLTOALL && !*row[5].refused);
	assert_true(*row[6].slow && !*row[0].slow);
	assert_true(*row[7].refused && *row[8].refused);
	lk_vec_free(&out);
	lk_arena_free(&arena);
}

/* data/calibration/collectives.csv is what the measurements give. */
static void test_committed_calibration(void **state) {
	(void)state;
	if (judged_elsewhere()) skip();
	static const char *const names[] = {"measured/collectives.csv", "measured/collectives_2.csv",
	                                    "measured/collectives_3.csv",
	                                    "measured/collectives_2026.csv.gz"};
	enum { TABLES = sizeof names / sizeof *names };
	const char *again = getenv("LOCKSTEP_REGENERATE"), *paths[TABLES];
	char *text = NULL, own[TABLES][512];
	size_t size;
	lk_stream *in;
	lk_error err = {0};
	for (int i = 0; i < TABLES; i++) {
		snprintf(own[i], sizeof own[i], "%s", need_data(names[i]));
		paths[i] = own[i];
	}
	assert_int_equal(lk_stream_open(paths[0], &in, &err), LK_OK);
	static const char source[] =
		"NetX-lab/Echo@15f0d12 nccl-test-log; microsoft/vidur data/profiling/network; "
		"ai-dynamo/aiconfigurator@095f58a; others of collectives.csv, _2 and _3";
	lk_calibration out = {0};
	assert_int_equal(
		lk_calibrate_collective_tables(in, paths + 1, TABLES - 1, source, "2026-11-30", &out, &err),
		LK_OK);
	lk_stream_close(in);
	FILE *file = open_memstream(&text, &size);
	assert_non_null(file);
	lk_calibration_write(&out, file);
	fclose(file);
	if (again) {
		FILE *to = fopen(again, "w");
		assert_non_null(to);
		fputs(text, to);
		fclose(to);
	} else {
		FILE *kept = fopen("data/calibration/collectives.csv", "r");
		assert_non_null(kept);
		char *committed = malloc(size + 2);
		assert_non_null(committed);
		size_t length = fread(committed, 1, size + 1, kept);
		fclose(kept);
		committed[length] = '\0';
		assert_string_equal(committed, text);
		free(committed);
	}
	free(text);
	lk_calibration_free(&out);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_numbers_are_found_again),
		cmocka_unit_test(test_held_rows_do_not_teach),
		cmocka_unit_test(test_curves_are_found_again),
		cmocka_unit_test(test_curves_of_a_calibration),
		cmocka_unit_test(test_a_log_gives_the_default),
		cmocka_unit_test(test_what_cannot_be_fitted),
		cmocka_unit_test(test_ranges_of_unseen_fabrics),
		cmocka_unit_test(test_words_of_fabrics),
		cmocka_unit_test(test_folds_apart),
		cmocka_unit_test(test_committed_calibration),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
