/* test_trace_files.c: traces of all kinds side by side: told apart by content, execution traces
 * linked with the captures of their ranks, execution traces alone predicted, steps written as
 * Chakra traces. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/stats.h"
#include "lockstep/replay.h"
#include "trace/capture/capture.h"
#include "trace/lift/lift.h"
#include "trace/read/read.h"
#include "data.h"
#include "rounds.h"
#include "scratch.h"

/* ---- kinds ---- */

static void test_kinds(void **state) {
	(void)state;
	static const struct {
		const char *head;
		size_t size;
		lk_trace_kind kind;
	} cases[] = {
#define CASE(text, kind) {text, sizeof text - 1, kind}
		CASE("{\"schemaVersion\": 1, \"deviceProperties\": [{\"nodes\": 3}], \"traceEvents\": [",
	         LK_TRACE_KINETO),
		CASE("\xef\xbb\xbf {\"traceEvents\": []}", LK_TRACE_KINETO),
		CASE("[{\"ph\": \"X\"}]", LK_TRACE_KINETO),
		CASE("{\"schema\": \"1.1.0-chakra.0.0.4\", \"pid\": 1, \"nodes\": [", LK_TRACE_PYTORCH_ET),
		CASE("{'schema': 'traceEvents', 'nodes': [", LK_TRACE_PYTORCH_ET),
		CASE("{\"note\": \"\\\"nodes\\\": 1\", \"a\": {\"traceEvents\": 1}, \"workload_graph\" : [",
	         LK_TRACE_CHAKRA_JSON),
		CASE("{\"nodes", LK_TRACE_OTHER_JSON),
		CASE("{\"a\": \"\\", LK_TRACE_OTHER_JSON),
		CASE("{}", LK_TRACE_OTHER_JSON),
		CASE("SQLite format 3\0 and more", LK_TRACE_DATABASE),
		CASE("SQLite format 4 and more", LK_TRACE_OTHER),
		CASE("\x07\x0a\x05"
	         "0.0.4\x03\x08\x01",
	         LK_TRACE_CHAKRA),
		CASE("\x00\x04\x08\x01\x10\x02", LK_TRACE_CHAKRA),
		CASE("[\n\x05"
	         "0.0.4",
	         LK_TRACE_CHAKRA),
		CASE("some\nother\ntext", LK_TRACE_OTHER),
		CASE("", LK_TRACE_OTHER),
		CASE("\xff\xff\xff\xff\xff\xff", LK_TRACE_OTHER),
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char *exact = malloc(cases[i].size + 1); /* so that a sanitizer sees reads behind the end */
		assert_non_null(exact);
		memcpy(exact, cases[i].head, cases[i].size);
		lk_trace_kind kind = lk_trace_kind_of(exact, cases[i].size);
		free(exact);
		if (kind != cases[i].kind) fail_msg("case %zu is of kind %d", i, (int)kind);
	}
}

static void test_public_kinds(void **state) {
	(void)state;
	static const struct {
		const char *name;
		lk_trace_kind kind;
	} files[] = {
		{"traces/kineto/a100_alexnet.json.gz", LK_TRACE_KINETO},
		{"traces/kineto/cpu_only_rank34.json.gz", LK_TRACE_KINETO},
		{"traces/dlrm8/kineto/rank3.json.gz", LK_TRACE_KINETO},
		{"traces/dlrm8/et/rank3.json.gz", LK_TRACE_PYTORCH_ET},
		{"traces/pytorch_et/1.0.2-chakra.0.0.4.json.gz", LK_TRACE_PYTORCH_ET},
		{"traces/chakra/resnet50_ddp_rank0.et", LK_TRACE_CHAKRA},
		{"traces/chakra/all_to_all/all_to_all.2.et", LK_TRACE_CHAKRA},
		{"traces/chakra/chakra.0.json.gz", LK_TRACE_CHAKRA_JSON},
	};
	for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
		const char *head;
		size_t size;
		lk_stream *in;
		assert_int_equal(lk_stream_open(need_data(files[i].name), &in, NULL), LK_OK);
		assert_int_equal(lk_stream_peek(in, LK_TRACE_HEAD, &head, &size, NULL), LK_OK);
		lk_trace_kind kind = lk_trace_kind_of(head, size);
		lk_stream_close(in);
		if (kind != files[i].kind) fail_msg("%s is of kind %d", files[i].name, (int)kind);
	}
}

/* Where times are needed, an execution trace is one error that says what it is and what to do. */
static void test_no_times(void **state) {
	(void)state;
	const char *path =
		write_in(scratch, "rank0.json", "{\"schema\": \"1.0.2-chakra.0.0.4\", \"nodes\": []}");
	lk_error err = {0};
	lk_traces *traces;
	assert_int_equal(lk_traces_read(&path, 1, NULL, 0, &traces, &err), LK_ERR_INPUT);
	assert_non_null(strstr(err.what, "PyTorch execution trace: it does not say when things ran"));
	assert_non_null(strstr(err.hint, "lockstep replay"));
}

/* ---- side by side ---- */

static lk_traces *read_run(const char *const *names, uint32_t count) {
	const char *paths[4];
	lk_traces *traces;
	lk_error err = {0};
	for (uint32_t i = 0; i < count; i++) paths[i] = need_data(names[i]);
	if (lk_traces_read(paths, count, NULL, 0, &traces, &err) != LK_OK)
		fail_msg("%s: %s", err.where, err.what);
	return traces;
}

static int by_value(const void *a, const void *b) {
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
	return x < y ? -1 : x > y;
}

/* The collectives of ../shared/reference/perf-model.md, section 4: elements times bytes of their
 * type. */
static void check_sizes(const lk_traces *traces) {
	int64_t want[] = {24 * 8,   112 * 4,  384 * 4,    3392 * 4,
	                  6144 * 4, 6144 * 4, 226960 * 4, 394241 * 4},
			got[8];
	assert_int_equal(traces->matches.count, 8);
	for (int i = 0; i < 8; i++) {
		const lk_match *match = &traces->matches.at[i];
		assert_int_equal(match->end - match->begin, 8);
		assert_int_equal(match->kind, match->bytes >= 226960 * 4 || match->bytes == 112 * 4
		                                  ? LK_OP_ALLREDUCE
		                                  : LK_OP_ALLTOALL);
		got[i] = match->bytes;
	}
	qsort(got, 8, sizeof *got, by_value);
	assert_memory_equal(got, want, sizeof want);
}

static void test_side_by_side(void **state) {
	(void)state;
	static const char *const both[] = {"traces/dlrm8/kineto", "traces/dlrm8/et"};
	static const char *const turned[] = {"traces/dlrm8/et", "traces/dlrm8/kineto"};
	for (int i = 0; i < 2; i++) {
		lk_traces *traces = read_run(i ? turned : both, 2);
		assert_int_equal(traces->count, 8);
		assert_int_equal(traces->notes.count, 8);
		for (int rank = 0; rank < 8; rank++) {
			char begin[80];
			snprintf(begin, sizeof begin, "execution trace of rank %d: 1672 of 1675 works joined",
			         rank);
			assert_int_equal(strncmp(traces->notes.at[rank], begin, strlen(begin)), 0);
		}
		check_sizes(traces);
		lk_traces_free(traces);
	}
}

/* Those that fit no capture are left out, and said. */
static void test_others(void **state) {
	(void)state;
	static const char *const other_rank[] = {"traces/dlrm8/kineto/rank2.json.gz",
	                                         "traces/dlrm8/et/rank3.json.gz"};
	static const char *const twice[] = {"traces/dlrm8/kineto/rank2.json.gz",
	                                    "traces/dlrm8/et/rank2.json.gz",
	                                    "traces/dlrm8/et/rank2.json.gz"};
	static const char *const other_run[] = {"traces/kineto/v100_resnet_rank0of1.json.gz",
	                                        "traces/dlrm8/et/rank0.json.gz"};
	lk_traces *traces = read_run(other_rank, 2);
	assert_int_equal(traces->notes.count, 0);
	assert_non_null(strstr(traces->warnings.at[0], "no capture of rank 3"));
	lk_traces_free(traces);
	traces = read_run(twice, 3);
	assert_int_equal(traces->notes.count, 1);
	assert_non_null(strstr(traces->warnings.at[0], "a second execution trace of rank 2"));
	lk_traces_free(traces);
	traces = read_run(other_run, 2);
	assert_int_equal(traces->notes.count, 0);
	assert_non_null(strstr(traces->warnings.at[0], "works are in the capture of rank 0"));
	lk_traces_free(traces);
}

/* ---- convolutions ---- */

/* How many windows fit into the padded input, counted one by one. */
static int windows(int in, int kernel, int stride, int padding, int dilation) {
	int count = 0;
	for (int at = -padding; at + dilation * (kernel - 1) < in + padding; at += stride) count++;
	return count;
}

static void test_convolution(void **state) {
	(void)state;
	static const struct {
		const char *name, *values;
	} forms[] = {
		{"aten::conv2d", "[,,,[%d, %d],[%d, %d],[%d, %d],1]"},
		{"aten::convolution", "[,,,[%d,%d],[%d,%d],[%d,%d],False,[0,0],1]"},
		{"aten::cudnn_convolution", "[,,[%3$d,%4$d],[%1$d,%2$d],[%5$d,%6$d],1,False,False,True]"},
	};
	uint64_t seed = 1;
	for (int i = 0; i < 3000; i++) {
		int v[10];
		for (int k = 0; k < 10; k++) v[k] = 1 + (int)(lk_hash64(seed++) % (k < 2 ? 40 : 4));
		int pads[2] = {v[8] - 1, v[9] - 1};
		char dims[100], values[100], out[100], want[100];
		snprintf(dims, sizeof dims, "[[8,3,%d,%d],[16,3,%d,%d],[]]", v[0], v[1], v[2], v[3]);
		int form = i % 3;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
		snprintf(values, sizeof values, forms[form].values, v[4], v[5], pads[0], pads[1], v[6],
		         v[7]);
#pragma GCC diagnostic pop
		int high = windows(v[0], v[2], v[4], pads[0], v[6]),
			wide = windows(v[1], v[3], v[5], pads[1], v[7]);
		bool good = lk_conv_result(forms[form].name, dims, values, out, sizeof out);
		assert_int_equal(good, high > 0 && wide > 0);
		snprintf(want, sizeof want, "[[8,16,%d,%d]]", high, wide);
		if (good) assert_string_equal(out, want);
	}
	char out[100];
	static const char dims[] = "[[8,3,9,9],[16,3,3,3]]";
	static const char *const broken[] = {"",
	                                     "[",
	                                     "[,,,",
	                                     "[,,,[2,2],[1,1]]",
	                                     "[,,,[0,0],[1,1],[1,1]]",
	                                     "[,,,[1,1],[-1,0],[1,1]]",
	                                     "[,,,[1,1,1],[1,1],[1,1]]",
	                                     "[,,,[1e300,1],[1,1],[1,1]]",
	                                     "[,,,[1,1],[0,0],[1,1],True,[0,0],1]"};
	for (size_t i = 0; i < sizeof broken / sizeof *broken; i++)
		assert_false(lk_conv_result("aten::convolution", dims, broken[i], out, sizeof out));
	assert_false(lk_conv_result("aten::linear", dims, "[,,,[1,1],[0,0],[1,1]]", out, sizeof out));
	assert_false(lk_conv_result("aten::conv2d", dims, "[,,,[1,1],[0,0],[1,1]]", out, 8));
	assert_true(lk_conv_result("aten::conv2d", dims, "[,,,[1,1],[0],[1,1]]", out, sizeof out));
	assert_string_equal(out, "[[8,16,7,7]]");
}

/* A capture whose convolution says its arguments: the kernel gets the product's shape. */
static void test_convolution_kernel(void **state) {
	(void)state;
	const char *path =
		write_in(scratch, "conv.json",
	             "{\"traceEvents\": ["
	             "{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"aten::conv2d\", \"pid\": 1, "
	             "\"tid\": 1, \"ts\": 10, \"dur\": 50, \"args\": "
	             "{\"External id\": 1, \"Input Dims\": [[2, 3, 8, 8], [4, 3, 3, 3], [], [], [], "
	             "[], []], \"Input type\": [\"float\", \"float\", \"\", "
	             "\"ScalarList\", \"ScalarList\", \"ScalarList\", \"Scalar\"], \"Concrete "
	             "Inputs\": [\"\", \"\", \"\", \"[2, 2]\", \"[1, 1]\", "
	             "\"[1, 1]\", \"1\"]}},"
	             "{\"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": \"cudaLaunchKernel\", "
	             "\"pid\": 1, \"tid\": 1, \"ts\": 20, \"dur\": 5, \"args\": "
	             "{\"correlation\": 7}},"
	             "{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"scudnn_128x32\", \"pid\": 0, "
	             "\"tid\": 7, \"ts\": 40, \"dur\": 9, \"args\": "
	             "{\"correlation\": 7, \"device\": 0, \"stream\": 7}}]}");
	lk_traces *traces;
	lk_lifted *lifted;
	lk_error err = {0};
	assert_int_equal(lk_traces_read(&path, 1, NULL, 1, &traces, &err), LK_OK);
	assert_int_equal(lk_lift(traces, LK_NONE, LK_NONE, &lifted, &err), LK_OK);
	assert_true(lifted->device_ns > 0 && lifted->known_ns == lifted->device_ns);
	uint32_t found = 0;
	for (uint32_t i = 0; i < lifted->graph->ops.count; i++) {
		if (lifted->graph->ops.kind[i] != LK_OP_CONV) continue;
		found++;
		assert_true(lifted->graph->ops.flops[i] ==
		            2.0 * (2 * 4 * 4) * 4 * (3 * 3 * 3)); /* 8 -> 4 points a side */
	}
	assert_int_equal(found, 1);
	lk_lifted_free(lifted);
	lk_traces_free(traces);
}

/* ---- execution traces alone ---- */

static lk_replay *replay(lk_replay_request *request, const char *path, lk_status wanted,
                         lk_error *err) {
	lk_replay *out = NULL;
	request->paths = &path;
	request->path_count = 1;
	lk_status status = lk_replay_ask(request, &out, err);
	if (status != wanted) fail_msg("%s: %s", err->where, err->what);
	return out;
}

/* The host times of the same run's captures, in a file. */
static const char *host_times(double factor) {
	static char table[100], scaled[100];
	lk_replay_request q;
	lk_error err = {0};
	snprintf(table, sizeof table, "%s/host.csv", scratch);
	snprintf(scaled, sizeof scaled, "%s/scaled.csv", scratch);
	lk_replay_defaults(&q);
	q.overheads_out = table;
	lk_replay_free(replay(&q, need_data("traces/dlrm8/kineto"), LK_OK, &err));
	if (factor == 1) return table;
	lk_overheads *overheads, *to = lk_overheads_new();
	assert_int_equal(lk_overheads_read(table, &overheads, &err), LK_OK);
	lk_overheads_free(overheads);
	lk_overheads_free(to);
	char command[400];
	snprintf(command, sizeof command,
	         "python3 -c \"import csv; r=list(csv.reader(l for l in open('%s') if l[0]!='#')); "
	         "w=csv.writer(open('%s','w')); w.writerow(r[0]); "
	         "[w.writerow([a,b,float(c)*%g,*d]) for a,b,c,*d in r[1:]]\"",
	         table, scaled, factor);
	assert_int_equal(system(command), 0);
	return scaled;
}

/* dlrm8: the slow ranks begin earlier and wait for the others, who need 12.5 ms; gaps over 100 us
 * of the host are nobody's overhead. A step that is bound by the host grows with its times, and
 * with nothing else to speak of. */
static void test_alone(void **state) {
	(void)state;
	if (only_elsewhere()) skip();
	const char *path = need_data("traces/dlrm8/et");
	lk_replay_request q;
	lk_error err = {0};
	lk_replay_defaults(&q);
	q.gpu = "v100-sxm-32";
	q.measured = need_data("traces/dlrm8/kineto");
	q.overheads = host_times(1);
	lk_replay *once = replay(&q, path, LK_OK, &err);
	assert_int_equal(once->rank_count, 8);
	assert_true(once->works->modelled > 1500 &&
	            once->works->uncovered * 50 < once->works->modelled);
	assert_true(once->works->host_times_by_mean * 20 < once->works->host_times);
	assert_int_equal(once->uncovered_count, 0);
	double predicted = once->ranks[7].steps[0].predicted_s;
	assert_true(once->ranks[7].steps[0].measured_s > 12.4e-3 &&
	            once->ranks[7].steps[0].measured_s < 12.6e-3);
	print_message(
		"dlrm8 alone: %.2f ms, the fastest rank took %.2f ms; %.0f %% off over all ranks\n",
		predicted * 1e3, once->ranks[7].steps[0].measured_s * 1e3, once->geomean_error * 100);
	assert_true(predicted > 9e-3 && predicted < 14e-3);
	assert_true(isnan(once->ranks[0].steps[0].baseline_s) && isnan(once->device_known_shape));
	if (system("python3 -c '' 2>/dev/null") == 0) {
		q.overheads = host_times(2);
		lk_replay *slow = replay(&q, path, LK_OK, &err);
		assert_true(slow->ranks[7].steps[0].predicted_s > 1.7 * predicted &&
		            slow->ranks[7].steps[0].predicted_s < 2.1 * predicted);
		lk_replay_free(slow);
	}
	q.overheads = NULL;
	lk_replay *idle = replay(&q, path, LK_OK, &err);
	assert_true(idle->ranks[7].steps[0].predicted_s < 0.3 * predicted);
	assert_true(idle->warning_count == 1 && strstr(idle->warnings[0], "without --overheads"));
	lk_replay_free(idle);
	lk_replay_free(once);
}

static void test_alone_refused(void **state) {
	(void)state;
	const char *path = need_data("traces/dlrm8/et/rank0.json.gz");
	const char *capture = need_data("traces/dlrm8/kineto/rank0.json.gz");
	lk_replay_request q;
	lk_error err = {0};
	lk_replay_defaults(&q);
	replay(&q, path, LK_ERR_INPUT, &err);
	assert_true(strstr(err.what, "when things ran") && strstr(err.hint, "--gpu"));
	q.gpu = "v100-sxm-32";
	q.hold_out = LK_HOLD_RANK;
	replay(&q, path, LK_ERR_INPUT, &err);
	assert_string_equal(err.where, "--hold-out");
	q.hold_out = LK_HOLD_AUTO;
	q.overheads_out = "x.csv";
	replay(&q, path, LK_ERR_INPUT, &err);
	assert_string_equal(err.where, "--overheads-out");
	q.overheads_out = NULL;
	q.cluster = "8 v100-sxm-32";
	replay(&q, path, LK_ERR_INPUT, &err);
	assert_string_equal(err.where, "--cluster");
	q.cluster = NULL;
	replay(&q, capture, LK_ERR_INPUT, &err);
	assert_string_equal(err.where, "--gpu");
	/* one rank of eight is predicted with the other seven on the same node */
	lk_replay *one = replay(&q, path, LK_OK, &err);
	assert_non_null(strstr(one->times_from, "8 v100"));
	lk_replay_free(one);
}

/* ---- written as Chakra traces ---- */

/* What a consumer needs, by python: ids once, dependencies on earlier nodes, collectives with type,
 * size and group. */
static void check_by_python(const char *dir, uint32_t ranks) {
	for (uint32_t r = 0; r < ranks; r++) {
		char command[1200];
		snprintf(
			command, sizeof command,
			"python3 tests/unit/works_oracle.py %s/lockstep.%u.et | python3 -c \"\n"
			"import sys\nids = set(); comms = 0\n"
			"for line in sys.stdin:\n"
			"    id, name, type, control, data, us, attributes = line.rstrip('\\n').split('\\t')\n"
			"    assert int(id) not in ids and all(int(d) in ids for d in (control + ',' + "
			"data).split(',') if d), line\n"
			"    ids.add(int(id)); a = dict(x.split('=', 1) for x in attributes.split(';') if '=' "
			"in x)\n"
			"    if type == '7': comms += 1; assert {'comm_type', 'comm_size', 'pg_name'} <= "
			"set(a), line\n"
			"assert ids and comms == 8, comms\n\"",
			dir, r);
		assert_int_equal(system(command), 0);
	}
}

static void test_chakra(void **state) {
	(void)state;
	if (only_elsewhere()) skip();
	char dir[100];
	lk_replay_request q;
	lk_error err = {0};
	bool python = !judged_elsewhere() && system("python3 -c '' 2>/dev/null") == 0;
	for (int alone = 0; alone < 2; alone++) {
		lk_replay_defaults(&q);
		snprintf(dir, sizeof dir, "%s/chakra%d", scratch, alone);
		q.chakra = dir;
		if (alone) q.gpu = "v100-sxm-32";
		lk_replay *r =
			replay(&q, need_data(alone ? "traces/dlrm8/et" : "traces/dlrm8/kineto"), LK_OK, &err);
		const char *read = dir;
		lk_trace_files files;
		lk_graph *graph;
		lk_works_lifted report;
		assert_int_equal(lk_trace_files_read(&read, 1, NULL, 0, &files, &err), LK_OK);
		assert_true(files.captures == 0 && files.work_count == 8);
		if (lk_works_lift((const lk_works *const *)files.works, 8, NULL, &graph, &report, &err) !=
		    LK_OK)
			fail_msg("%s: %s", err.where, err.what);
		assert_int_equal(graph->ops.count, r->operations);
		assert_int_equal(report.unpriced, 0);
		lk_graph_free(graph);
		lk_works_lifted_free(&report);
		lk_trace_files_free(&files);
		lk_replay_free(r);
		if (python) check_by_python(dir, 8);
	}
}

/* A folder that a rank's file cannot be written to: no rank's file stays. */
static void test_chakra_refused(void **state) {
	(void)state;
	const char *path = need_data("traces/dlrm8/kineto");
	char dir[100], block[200], command[400];
	lk_replay_request q;
	lk_error err = {0};
	lk_replay_defaults(&q);
	q.chakra = "/nowhere/at/all";
	assert_null(replay(&q, path, LK_ERR_IO, &err));
	snprintf(dir, sizeof dir, "%s/blocked", scratch);
	snprintf(block, sizeof block, "%s/blocked/lockstep.3.et/x", scratch);
	snprintf(command, sizeof command, "mkdir -p %s", block);
	assert_int_equal(system(command), 0);
	q.chakra = dir;
	assert_null(replay(&q, path, LK_ERR_IO, &err));
	snprintf(command, sizeof command, "test \"$(ls %s)\" = lockstep.3.et", dir);
	assert_int_equal(system(command), 0);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kinds),
		cmocka_unit_test(test_public_kinds),
		cmocka_unit_test(test_no_times),
		cmocka_unit_test(test_side_by_side),
		cmocka_unit_test(test_others),
		cmocka_unit_test(test_convolution),
		cmocka_unit_test(test_convolution_kernel),
		cmocka_unit_test(test_alone),
		cmocka_unit_test(test_alone_refused),
		cmocka_unit_test(test_chakra),
		cmocka_unit_test(test_chakra_refused),
	};
	return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
