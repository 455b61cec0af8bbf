/* test_collective_log.c: logs of nccl-tests, topology files, libraries on the host, and the verb's
 * answers and flags.
 */
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
#include "tables/tables.h"
#include "cost/collective/collective.h"
#include "hw/hw_internal.h"
#include "lockstep/collective.h"
#include "scratch.h"

/* ---- logs ---- */

static lk_status read_log(lk_arena *arena, const char *text, lk_nccl_runs *runs, lk_error *err) {
	lk_stream *in;
	assert_int_equal(lk_stream_memory(text, strlen(text), "log", &in, err), LK_OK);
	lk_status status = lk_nccl_log_read(arena, in, runs, err);
	lk_stream_close(in);
	return status;
}

static const char whole[] =
	"# nThread 1 nGpus 1 minBytes 8\n# Using devices\n"
	"#  Rank  0 Group  0 Pid  11 on      alpha device  0 [0x07] NVIDIA A100-SXM4-40GB\n"
	"#  Rank  1 Group  0 Pid  12 on      alpha device  1 [0x0b] NVIDIA A100-SXM4-40GB\n"
	"#  Rank  2 Group  0 Pid  13 on       beta device  0 [0x07] NVIDIA A100-SXM4-40GB\n"
	"#  Rank  3 Group  0 Pid  14 on       beta device  1 [0x0b] NVIDIA A100-SXM4-40GB\n#\n"
	"#       size         count      type   redop    root     time   algbw   busbw #wrong     time "
	"  algbw   busbw "
	"#wrong\n"
	"#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us) "
	" (GB/s)  (GB/s)\n"
	"           0             0     float     sum      -1     0.00    0.00    0.00      0     0.00 "
	"   0.00    0.00     "
	" 0\n"
	"     1048576        262144     float     sum      -1    100.0   10.49   15.73      0    90.00 "
	"  11.65   17.48    "
	"N/A\n"
	"     1048576        262144     float     sum      -1    120.0    8.74   13.11      0    92.00 "
	"  11.40   17.10    "
	"N/A\n"
	"        1024           256     float     sum      -1    30.50    0.03    0.05      0    31.00 "
	"   0.03    0.05     "
	" 0\n"
	"# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 12.3\n";

/* What the columns say of a log that does not name its test; all-gather and all-to-all are alike.
 */
static void test_columns(void **state) {
	(void)state;
	static const struct {
		const char *row;
		bool known;
		lk_coll_kind kind;
	} logs[] = {
		{"1048576 32768 float sum -1 100 10.49 9.18 0", true, LK_COLL_REDUCESCATTER},
		{"1048576 524288 half sum 0 100 10.49 10.49 0", true, LK_COLL_REDUCE},
		{"1048576 262144 float none 0 100 10.49 10.49 0", true, LK_COLL_BROADCAST},
		{"1048576 32768 float none -1 100 10.49 9.18 0", false, LK_COLL_ALLGATHER},
		{"1048576 262144 float sum -1 100 10.49 10.49 0", false, LK_COLL_SENDRECV},
	};
	for (size_t i = 0; i < sizeof logs / sizeof *logs; i++) {
		lk_arena arena = LK_ARENA_INIT;
		lk_nccl_runs runs = {0};
		lk_error err;
		char text[256];
		snprintf(text, sizeof text, "# size count type redop root time algbw busbw #wrong\n%s\n",
		         logs[i].row);
		assert_int_equal(read_log(&arena, text, &runs, &err), LK_OK);
		assert_int_equal(runs.count, 1);
		assert_int_equal(runs.at[0].kind_known, logs[i].known);
		if (logs[i].known) assert_int_equal(runs.at[0].kind, logs[i].kind);
		lk_vec_free(&runs);
		lk_arena_free(&arena);
	}
}

static void test_text(void **state) {
	(void)state;
	lk_arena arena = LK_ARENA_INIT;
	lk_nccl_runs runs = {0};
	lk_error err;
	assert_int_equal(read_log(&arena, whole, &runs, &err), LK_OK);
	assert_int_equal(runs.count, 1);
	const lk_nccl_run *run = &runs.at[0];
	assert_true(run->kind_known && run->kind == LK_COLL_ALLREDUCE); /* 15.73 / 10.49 = 2 * 3 / 4 */
	assert_int_equal(run->gpus, 4);
	assert_int_equal(run->nodes, 2);
	assert_string_equal(run->device, "NVIDIA A100-SXM4-40GB");
	assert_int_equal(run->count, 2);
	assert_true(run->points[0].bytes == 1024 && run->points[0].us == 30.5 &&
	            run->points[0].in_place_us == 31);
	assert_true(run->points[1].us == 110 && run->points[1].in_place_us == 91 &&
	            run->points[1].runs == 2);
	lk_vec_free(&runs);
	lk_arena_free(&arena);
}

/* The forms that versions and launchers give a row. */
static void test_rows(void **state) {
	(void)state;
	static const char head13[] =
		"# size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n";
	static const char head21[] = "# size count type redop root time algbw busbw #wrong i_min i_max "
								 "i_p99 i_cv% time algbw busbw "
								 "#wrong i_min i_max i_p99 i_cv%\n";
	static const struct {
		const char *head, *row;
		double us, in_place;
	} forms[] = {
		{head13, "8 2 float sum -1 25.1 0.00 0.00 0 24.0 0.00 0.00 0", 25.1, 24},
		{head13, "8 2 float sum -1 24.0 0.00 0.00 0", NAN, 24}, /* in place alone */
		{"# size count type redop time algbw busbw error time algbw busbw error\n",
	     "8 2 float sum 25.1 0 0 1e-7 24 0 0 1e-7", 25.1, 24},
		{"", "8 2 float 25.1 0 0 1e-7 24 0 0 1e-7", 25.1, 24},
		{head21, "8 2 float sum -1 25.1 0 0 0 20 30 29 3 24 0 0 0 19 29 28 2", 25.1, 24},
		{head13, "[1,0]<stdout>:8 2 float sum -1 25.1 0 0 0 24 0 0 N/A", 25.1, 24},
		{head13, "0: 8 2 float sum -1 25.1 0 0 0 24 0 0 N/A\r", 25.1, 24},
	};
	for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
		lk_arena arena = LK_ARENA_INIT;
		lk_nccl_runs runs = {0};
		lk_error err;
		char text[600];
		snprintf(text, sizeof text, "%s%s\n", forms[i].head, forms[i].row);
		if (read_log(&arena, text, &runs, &err) != LK_OK) fail_msg("form %zu: %s", i, err.what);
		const lk_nccl_point *point = &runs.at[0].points[0];
		bool same = point->bytes == 8 &&
		            (point->us == forms[i].us || (isnan(point->us) && isnan(forms[i].us)));
		if (!same || point->in_place_us != forms[i].in_place)
			fail_msg("form %zu: %g %g", i, point->us, point->in_place_us);
		lk_vec_free(&runs);
		lk_arena_free(&arena);
	}
}

static void test_json_and_several_runs(void **state) {
	(void)state;
	static const char json[] =
		"{\"version\": 3, \"args\": [\"./reduce_scatter_perf\"], \"devices\": [{\"hostname\": "
		"\"a\", \"device_info\": \"H100\"}, "
		"{\"hostname\": \"b\"}], \"results\": [{\"size\": 64, \"out_of_place\": {\"time\": 9.5, "
		"\"alg_bw\": 1, \"bus_bw\": 2}, "
		"\"in_place\": null}, {\"size\": 128, \"out_of_place\": null, \"in_place\": "
		"{\"cpu_time\": 4}}, {\"size\": -1}, 7]}";
	lk_arena arena = LK_ARENA_INIT;
	lk_nccl_runs runs = {0}, two = {0};
	lk_error err;
	assert_int_equal(read_log(&arena, json, &runs, &err), LK_OK);
	const lk_nccl_run *run = &runs.at[0];
	assert_true(run->kind == LK_COLL_REDUCESCATTER && run->gpus == 2 && run->nodes == 2 &&
	            run->count == 2);
	assert_true(run->points[0].us == 9.5 && isnan(run->points[1].us) &&
	            lk_nccl_point_us(&run->points[1]) == 4);
	char text[4000];
	snprintf(text, sizeof text, "# all_gather_perf\n%s# all_reduce_perf\n%s", whole, whole);
	assert_int_equal(read_log(&arena, text, &two, &err), LK_OK);
	assert_int_equal(two.count, 2);
	assert_int_equal(two.at[0].kind, LK_COLL_ALLGATHER);
	assert_int_equal(two.at[1].kind, LK_COLL_ALLREDUCE);
	assert_int_equal(two.at[1].gpus, 4);
	lk_nccl_runs none = {0};
	assert_int_equal(read_log(&arena, "# nothing\n", &none, &err), LK_ERR_INPUT);
	assert_int_equal(read_log(&arena, "{\"results\": [", &none, &err), LK_ERR_INPUT);
	lk_vec_free(&none);
	lk_vec_free(&two);
	lk_vec_free(&runs);
	lk_arena_free(&arena);
}

/* ---- topology ---- */

static lk_status read_topology(const char *text, lk_node *node, lk_error *err) {
	lk_stream *in;
	assert_int_equal(lk_stream_memory(text, strlen(text), "topo.xml", &in, err), LK_OK);
	lk_status status = lk_topology_xml_read(in, node, err);
	lk_stream_close(in);
	return status;
}

static void test_topology(void **state) {
	(void)state;
	lk_node node;
	lk_error err;
	assert_int_equal(
		read_topology("<system version=\"1\"><cpu numaid=\"0\"><pci class=\"0x030200\" "
	                  "device=\"0x20b0\"><gpu "
	                  "dev=\"0\" sm=\"80\">"
	                  "<nvlink target=\"a\" count=\"12\" tclass=\"0x068000\"/></gpu></pci><pci "
	                  "class=\"0x030200\"><gpu "
	                  "dev=\"1\" sm=\"80\"/></pci>"
	                  "<pci class=\"0x020700\"><nic><net name=\"a\" speed=\"200000\" "
	                  "latency=\"2.5\"/></nic></pci>"
	                  "<pci class=\"0x020000\"><nic><net name=\"eth0\" speed=\"25000\" "
	                  "latency=\"9\"/></nic></pci></cpu></system>",
	                  &node, &err),
		LK_OK);
	assert_string_equal(node.device->name, "a100-sxm-40");
	assert_true(node.gpus == 2 && node.intra == LK_INTRA_SWITCH && node.intra_rate == 240e9);
	assert_true(node.nics == 1 && node.nic_rate == 25e9 &&
	            fabs(node.nic_latency_s - 2.5e-6) < 1e-12);
	/* Links to GPUs, not to a switch; a NIC that does not know its speed. */
	assert_int_equal(
		read_topology(
			"<system><gpu sm=\"70\"><nvlink count=\"2\" tclass=\"0x030200\"/><nvlink count=\"1\" "
			"tclass=\"0x030200\"/></gpu><net speed=\"-1\"/></system>",
			&node, &err),
		LK_OK);
	assert_true(node.intra == LK_INTRA_MESH && node.intra_rate == 60e9 && node.nic_rate == 1.25e9);
	/* A cloud's skeleton: links as the catalogue has them. */
	assert_int_equal(
		read_topology(
			"<system><pci class=\"0x030200\" device=\"0x2330\"/><pci class=\"0x020700\"/></system>",
			&node, &err),
		LK_OK);
	assert_string_equal(node.device->name, "h100-sxm");
	assert_true(node.gpus == 1 && node.nics == 1 && node.intra == LK_INTRA_SWITCH);
	static const char *const wrong[] = {
		"",
		"<system>",
		"<other/>",
		"<system/>",
		"<system><gpu sm=\"12\"/></system>",
		"no xml",
		"<system><gpu sm=\"90\"/></cpu>",
		"<!DOCTYPE x [<!ENTITY a \"aaa\">]><system><gpu sm=\"90\"/>&a;</system>",
	};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
		assert_int_equal(read_topology(wrong[i], &node, &err), LK_ERR_INPUT);
}

/* ---- libraries on the host ---- */

static const lk_device h100 = {
	.arch = LK_ARCH_HOPPER, .links = 18, .link_rate = 370.8e9, .pcie_rate = 48e9};
static const lk_node node = {.device = &h100,
                             .gpus = 8,
                             .intra = LK_INTRA_SWITCH,
                             .intra_rate = 370.8e9,
                             .nics = 8,
                             .nic_rate = 50e9};

static void assert_near(double value, double expected) {
	if (!(fabs(value - expected) <= 1e-9 * fabs(expected)))
		fail_msg("%.12g, expected %.12g", value, expected);
}

/* One rank per node: the closed forms of the paper; the fastest of those that the library has. */
static void test_closed_forms(void **state) {
	(void)state;
	for (int library = 0; library < 2; library++)
		for (int p = 2; p <= 64; p *= 2)
			for (double n = 8; n < 1e9; n *= 64) {
				lk_group_shape group = {.node = &node,
				                        .ranks = p,
				                        .nodes = p,
				                        .ranks_per_node = 1,
				                        .sharing = 1,
				                        .oversubscription = 1};
				lk_host_links l = lk_host_links_of((lk_host_library)library, &group);
				bool mpi = library == LK_HOST_MPI;
				double a = l.alpha[1], b = l.beta[1], b1 = fmax(l.beta[0], b), g = l.gamma,
					   d = log2(p), part = (p - 1.) / p * n;
				double doubling = mpi ? d * (a + n * b + n * g) : INFINITY,
					   halves = 2 * d * a + 2 * part * b + part * g;
				double ring = 2 * (p - 1) * a + 2 * part * b1 + part * g;
				assert_near(
					lk_host_collective((lk_host_library)library, LK_COLL_ALLREDUCE, &group, n)
						.seconds,
					fmin(doubling, fmin(halves, ring)));
				double gather = (p - 1) * a + part * b1;
				assert_near(
					lk_host_collective((lk_host_library)library, LK_COLL_ALLGATHER, &group, n)
						.seconds,
					mpi ? fmin(gather, d * a + part * b) : gather);
				double pairs = (p - 1) * a + part * b;
				assert_near(
					lk_host_collective((lk_host_library)library, LK_COLL_ALLTOALL, &group, n)
						.seconds,
					mpi ? fmin(pairs, d * (a + n / 2 * b)) : pairs);
				double tree = d * (a + n * b);
				assert_near(
					lk_host_collective((lk_host_library)library, LK_COLL_BROADCAST, &group, n)
						.seconds,
					mpi ? fmin(tree, (d + p - 1) * a + part * b + part * b1) : tree);
				assert_near(
					lk_host_collective((lk_host_library)library, LK_COLL_SENDRECV, &group, n)
						.seconds,
					a + n * b);
			}
}

static void test_hosts_grow(void **state) {
	(void)state;
	for (int library = 0; library < 2; library++)
		for (int kind = 0; kind < LK_COLLS; kind++)
			for (int p = 2; p <= 48; p++) {
				lk_group_shape group = {.node = &node,
				                        .ranks = p,
				                        .nodes = (p + 7) / 8,
				                        .ranks_per_node = 8,
				                        .sharing = 1,
				                        .oversubscription = 1};
				double before = 0;
				for (double n = 1; n < 1e12; n *= 3) {
					lk_host_cost cost =
						lk_host_collective((lk_host_library)library, (lk_coll_kind)kind, &group, n);
					assert_true(isfinite(cost.seconds) && cost.seconds >= before &&
					            *cost.algorithm);
					before = cost.seconds;
				}
			}
}

/* ---- the verb ---- */

static lk_collective *ask(const lk_collective_request *request) {
	lk_collective *answer;
	lk_error err;
	char line[900];
	if (lk_collective_ask(request, &answer, &err) != LK_OK)
		fail_msg("%s", lk_error_text(&err, line, sizeof line));
	return answer;
}

static void test_sizes_and_rates(void **state) {
	(void)state;
	lk_collective_request r;
	lk_collective_defaults(&r);
	r.gpu = "h100-sxm";
	r.gpus = 64;
	r.begin = "8";
	r.end = "16G";
	lk_collective *collective = ask(&r);
	assert_int_equal(collective->row_count, 32);
	assert_int_equal(collective->nodes, 8);
	for (int i = 0; i < collective->row_count; i++) {
		const lk_collective_row *row = &collective->rows[i];
		assert_true(row->bytes == ldexp(8, i) && row->count == row->bytes / 4);
		assert_near(row->algbw, row->bytes / row->us / 1e3);
		assert_near(row->busbw, row->algbw * 126 / 64);
		assert_true(isnan(row->ratio) && !*row->flag && row->channels > 0);
	}
	lk_collective_free(collective);
	r.end = "100";
	r.step = "10";
	r.op = 4; /* all_to_all */
	collective = ask(&r);
	assert_int_equal(collective->row_count, 10);
	assert_string_equal(collective->op, "all_to_all");
	lk_collective_free(collective);
	lk_collective_free(NULL);
}

/* A log that is the model's own times, but for what `spoil` does to them; returns the answer. */
static lk_collective *spoilt_log(double (*spoil)(double bytes, double us)) {
	lk_collective_request r;
	lk_collective_defaults(&r);
	r.gpu = "a100-sxm-80";
	r.gpus = 8;
	r.begin = "1K";
	r.end = "1G";
	lk_collective *model = ask(&r);
	char path[64];
	FILE *file = fopen(new_file(path, ""), "w");
	assert_non_null(file);
	fputs("# all_reduce_perf\n", file);
	for (int i = 0; i < model->row_count; i++) {
		double us = spoil(model->rows[i].bytes, model->rows[i].us),
			   rate = model->rows[i].bytes / us / 1e3;
		fprintf(file, "%.0f %.0f float sum -1 %.6f %.4f %.4f 0\n", model->rows[i].bytes,
		        model->rows[i].count, us, rate, rate * 1.75);
	}
	fclose(file);
	lk_collective_free(model);
	r.log = path;
	lk_collective *answer = ask(&r);
	unlink(path);
	return answer;
}

static double same(double bytes, double us) {
	return (void)bytes, us;
}
static double later(double bytes, double us) {
	return (void)bytes, us + 40;
}
static double bump(double bytes, double us) {
	return bytes == 131072 ? us * 3 : us;
}
static double slow_range(double bytes, double us) {
	return bytes >= 1 << 20 && bytes <= 1 << 23 ? us * 2 : us;
}
static double slow_fabric(double bytes, double us) {
	return bytes >= 1 << 20 ? us * 2 : us;
}

static void test_flags(void **state) {
	(void)state;
	static const struct {
		double (*spoil)(double, double);
		const char *note, *flag;
		int flagged;
	} cases[] = {
		{same, NULL, "", 0},
		{later, NULL, "", 0}, /* a constant more is a launch, not a fault */
		{bump, "falls:", "falls", 1},
		{slow_range, "slow: 1.0 MiB to 8.0 MiB", "slow", 3},
		{slow_fabric, "slow as a whole", "slow", 11},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		lk_collective *collective = spoilt_log(cases[i].spoil);
		int flagged = 0, noted = 0;
		for (int k = 0; k < collective->row_count; k++)
			flagged +=
				*collective->rows[k].flag && strcmp(collective->rows[k].flag, cases[i].flag) == 0;
		for (int k = 2; k < collective->note_count; k++)
			noted += cases[i].note && strncmp(collective->notes[k], cases[i].note, 5) == 0;
		if (flagged < cases[i].flagged || (cases[i].flagged == 0 && collective->note_count > 2))
			fail_msg("case %zu: %d rows, %d notes: %s", i, flagged, collective->note_count,
			         collective->notes[collective->note_count - 1]);
		if (cases[i].note) assert_true(noted > 0);
		if (i == 0) assert_true(collective->error < 1e-4);
		lk_collective_free(collective);
	}
}

static void test_wrong_questions(void **state) {
	(void)state;
	static const lk_collective_request wrong[] = {
		{.gpus = 8},
		{.gpu = "h100-sxm"},
		{.gpu = "h100-sxm", .gpus = 8, .begin = "x"},
		{.gpu = "h100-sxm", .gpus = 8, .begin = "1G", .end = "1K"},
		{.gpu = "h100-sxm", .gpus = 8, .fabric = "nobody's"},
		{.gpu = "h100-sxm", .cluster = "8 h100-sxm"},
		{.cluster = "8 h100-sxm", .gpus = 9},
		{.cluster = "2 node * none.xml"},
		{.gpu = "h100-sxm", .gpus = 8, .log = "/no/such/log"},
		{.gpu = "h100-sxm", .gpus = 8, .begin = "1", .end = "1G", .step = "1"},
	};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		lk_collective *answer;
		lk_error err;
		if (lk_collective_ask(&wrong[i], &answer, &err) == LK_OK)
			fail_msg("question %zu was answered", i);
		assert_null(answer);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_columns),    cmocka_unit_test(test_text),
		cmocka_unit_test(test_rows),       cmocka_unit_test(test_json_and_several_runs),
		cmocka_unit_test(test_topology),   cmocka_unit_test(test_closed_forms),
		cmocka_unit_test(test_hosts_grow), cmocka_unit_test(test_sizes_and_rates),
		cmocka_unit_test(test_flags),      cmocka_unit_test(test_wrong_questions),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
