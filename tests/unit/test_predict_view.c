/* test_predict_view.c: predictions as report, rows and JSON, from hand-made structs: written-out
 * lines where people read them, our own CSV and JSON readers where programs do, hostile texts and
 * numbers everywhere. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "io/csv.h"
#include "io/json.h"
#include "lockstep/catalogue.h"
#include "lockstep/view.h"
#include "scratch.h"

#define GIB 0x1p30

static const lk_time_part parts[] = {
	{"gemm", "matrix products", 24.0, 0},
	{"tp", "tensor-parallel comm.", 4.0, 3.0},
	{"bubble", "pipeline bubble", 2.0, 0},
};
static const lk_stage_memory two_stages[] = {
	{.stage = 0,
     .weights = 4.1 * GIB,
     .gradients = 8.2 * GIB,
     .optimizer = 12.3 * GIB,
     .activations = 47.4 * GIB,
     .allocated = 72 * GIB,
     .reserved = 72.5 * GIB,
     .context = 0.6 * GIB,
     .nccl = 0.5 * GIB,
     .total = 73.6 * GIB,
     .moment = "attention_scores, layer forward, micro-batch 7"},
	{.stage = 1,
     .weights = 4.1 * GIB,
     .allocated = 40 * GIB,
     .reserved = 40 * GIB,
     .total = 40 * GIB},
};
static const char *const assumptions[] = {"bf16 (--dtype)", "micro-batch 1 (--mbs)"};
static const char *const ignored[] = {"--log-interval: changes neither time nor memory"};

static lk_prediction whole(void) {
	return (lk_prediction){
		.fits = true,
		.peak_bytes = 73.6 * GIB,
		.usable_bytes = 79.6 * GIB,
		.fullest_stage = 0,
		.step_time_s = 32.4,
		.step_time_low_s = 30.78,
		.step_time_high_s = 34.02,
		.basis = "errors of a test",
		.tokens_per_s_per_gpu = 1012,
		.samples_per_s = 7.9,
		.unit = "sequence",
		.model_flops_per_s_per_gpu = 445e12,
		.mfu = 0.45,
		.hfu = 0.46,
		.peak_flops = 989.4e12,
		.peak_label = "989.4 TFLOP/s dense bf16, NVIDIA H100 SXM",
		.days = 67,
		.gpu_hours = 102912,
		.goodput = 0.97,
		.breakdown = parts,
		.breakdown_count = 3,
		.memory = two_stages,
		.memory_count = 2,
		.model = "llama3.1-70b, llama: 70.6 G parameters",
		.cluster = "8 node * 8 h100-sxm",
		.layout = "DP2 x TP4 x PP8",
		.assumptions = assumptions,
		.assumption_count = 2,
		.ignored = ignored,
		.ignored_count = 1,
		.warning = "the stages are uneven",
		.reproduce = "lockstep predict --model llama3.1-70b",
		.operations = 12345,
		.layer_operations = 42,
		.ranks_simulated = 8,
		.ranks = 64,
		.simulation_s = 0.0421,
		.gpus = 64,
		.tp = 4,
		.pp = 8,
		.vp = 1,
		.cp = 1,
		.ep = 1,
		.dp = 2,
		.mbs = 1,
		.gbs = 256,
		.seq = 8192,
		.microbatches = 128,
		.recompute = "none",
		.dtype = "bf16",
		.schedule = "1f1b",
	};
}

/* ---- writing ---- */

static char *print_rows(const lk_sweep_row *rows, size_t count, int format, bool verbose,
                        bool colour) {
	char *text = NULL;
	size_t size = 0;
	lk_error err = {0};
	FILE *file = open_memstream(&text, &size);
	assert_non_null(file);
	if (lk_sweep_print(rows, count, format, verbose, colour, NULL, file, &err) != LK_OK)
		fail_msg("%s: %s", err.where, err.what);
	fclose(file);
	assert_int_equal(strlen(text), size);
	return text;
}

static char *print_one(const lk_prediction *prediction, int format, bool verbose) {
	lk_sweep_row row = {.prediction = prediction};
	return print_rows(&row, 1, format, verbose, false);
}

/* A whole line; how many blanks stand between its words does not count. */
static void expect_line(const char *text, const char *line) {
	char wanted[512];
	size_t used = (size_t)snprintf(wanted, sizeof wanted, "\n%s\n", line), kept = 0;
	char *squeezed = malloc(strlen(text) + 2);
	assert_non_null(squeezed);
	squeezed[kept++] = '\n';
	for (const char *c = text; *c; c++)
		if (*c != ' ' || squeezed[kept - 1] != ' ') squeezed[kept++] = *c;
	squeezed[kept] = '\0';
	bool found = used < sizeof wanted && strstr(squeezed, wanted);
	free(squeezed);
	if (!found) fail_msg("no line \"%s\" in:\n%s", line, text);
}

static void expect_part(const char *text, const char *part) {
	if (!strstr(text, part)) fail_msg("no \"%s\" in:\n%s", part, text);
}

static void expect_no_part(const char *text, const char *part) {
	if (strstr(text, part)) fail_msg("\"%s\" in:\n%s", part, text);
}

/* ---- the report ---- */

static void test_report(void **state) {
	(void)state;
	lk_prediction p = whole();
	char *text = print_one(&p, LK_OUTPUT_TEXT, false);
	static const char first[] =
		"FITS  73.6 of 79.6 GiB on the peak-memory rank (stage 0)   headroom 6.0 GiB\n";
	assert_memory_equal(text, first, sizeof first - 1);
	expect_line(text, "model llama3.1-70b, llama: 70.6 G parameters");
	expect_line(text, "cluster 8 node * 8 h100-sxm");
	expect_line(text, "layout DP2 x TP4 x PP8");
	expect_line(text, "step time 32.4 s 30.8 s - 34 s");
	expect_line(text, "80 % range from errors of a test");
	expect_line(text, "tokens/s/GPU 1,012 964 - 1,065");
	expect_line(text,
	            "model TFLOP/s/GPU 445.0 423.8 - 468.4 forward and backward, no recomputation");
	expect_line(text, "MFU 45.0 % 42.9 % - 47.4 % of 989.4 TFLOP/s dense bf16");
	expect_line(text, "matrix products 24 s 74.1 %");
	expect_line(text, "tensor-parallel comm. 4 s 12.3 % 3 s");
	expect_line(text, "stage 0* 4.1 8.2 12.3 47.4 - - - 72.0 0.5 0.6 0.5 73.6");
	expect_line(text, "* peak of stage 0: attention_scores, layer forward, micro-batch 7");
	expect_line(text, "simulated 12,345 operations on 8 of 64 ranks in 42.1 ms; a layer has 42, "
	                  "forward and backward");
	expect_line(text, "assumed 2 ignored flags 1 (-v lists them)");
	expect_line(text, "warning the stages are uneven");
	expect_line(text, "reproduce lockstep predict --model llama3.1-70b");
	expect_no_part(text, "\x1b");
	free(text);
}

static void test_verbose(void **state) {
	(void)state;
	lk_prediction p = whole();
	char *text = print_one(&p, LK_OUTPUT_TEXT, true);
	expect_line(text, "assumptions");
	expect_line(text, " - bf16 (--dtype)");
	expect_line(text, "ignored flags");
	expect_line(text, " - --log-interval: changes neither time nor memory");
	free(text);
}

static void test_does_not_fit(void **state) {
	(void)state;
	lk_fix fixes[] = {{"--pp 16", 71 * GIB, 33.0, 1.02, ""},
	                  {"--zero 3", 60 * GIB, 30.0, 0.93, ""}};
	lk_prediction p = whole();
	p.fits = false;
	p.peak_bytes = 94.1 * GIB;
	p.fixes = fixes;
	p.fix_count = 2;
	char *text = print_one(&p, LK_OUTPUT_TEXT, false);
	static const char first[] =
		"DOES NOT FIT  94.1 of 79.6 GiB on the peak-memory rank (stage 0)   14.5 GiB too much\n";
	assert_memory_equal(text, first, sizeof first - 1);
	expect_line(text, "--pp 16 71.0 33 s +2.0 %");
	expect_line(text, "--zero 3 60.0 30 s -7.0 %");
	assert_true(strstr(text, "--pp 16") < strstr(text, "\nmodel "));
	free(text);
}

static void test_no_fix_found(void **state) {
	(void)state;
	lk_prediction p = whole();
	p.fits = false;
	lk_predict_request request;
	lk_predict_defaults(&request);
	lk_sweep_row row = {&p, NULL, &request};
	char *text = print_rows(&row, 1, LK_OUTPUT_TEXT, false, false);
	expect_line(text, "no single change was found that would make it fit");
	free(text);
	request.no_fixes = true;
	text = print_rows(&row, 1, LK_OUTPUT_TEXT, false, false);
	expect_no_part(text, "no single change");
	free(text);
}

static void test_many_stages(void **state) {
	(void)state;
	lk_stage_memory stages[16];
	lk_prediction p = whole();
	for (int i = 0; i < 16; i++)
		stages[i] = (lk_stage_memory){.stage = i, .total = (i == 9 ? 50 : 20) * GIB};
	p.memory = stages;
	p.memory_count = 16;
	p.fullest_stage = 9;
	p.peak_bytes = 50 * GIB;
	for (int verbose = 0; verbose < 2; verbose++) {
		char *text = print_one(&p, LK_OUTPUT_TEXT, verbose);
		for (int i = 0; i < 16; i++) {
			char name[32];
			snprintf(name, sizeof name, "\nstage %d%s ", i, i == 9 ? "*" : "");
			assert_int_equal(strstr(text, name) != NULL, verbose || i < 2 || i == 9 || i == 15);
		}
		assert_int_equal(strstr(text, "\n12 more stages with -v\n") != NULL, !verbose);
		free(text);
	}
}

static void test_colour(void **state) {
	(void)state;
	lk_prediction p = whole();
	lk_sweep_row row = {.prediction = &p};
	char *text = print_rows(&row, 1, LK_OUTPUT_TEXT, false, true);
	expect_part(text, "\x1b[1;32mFITS\x1b[0m  73.6 of");
	free(text);
	p.fits = false;
	text = print_rows(&row, 1, LK_OUTPUT_TEXT, false, true);
	expect_part(text, "\x1b[1;31mDOES NOT FIT\x1b[0m");
	free(text);
}

/* ---- hostile values ---- */

static void test_escapes(void **state) {
	(void)state;
	lk_prediction p = whole();
	static const char *const evil[] = {"\x1b]0;title\a --flag\r"};
	p.model = "evil \x1b[2J model\n";
	p.warning = "\x9b";
	p.reproduce = "a\tb";
	p.assumptions = evil;
	p.assumption_count = 1;
	p.ignored = evil;
	p.ignored_count = 1;
	lk_sweep_row rows[2] = {{.prediction = &p}, {.prediction = &p}};
	for (int verbose = 0; verbose < 2; verbose++) {
		for (size_t count = 1; count <= 2; count++) {
			char *text = print_rows(rows, count, LK_OUTPUT_TEXT, verbose, false);
			for (const char *c = text; *c; c++)
				assert_true(*c == '\n' || ((unsigned char)*c >= 0x20 && (unsigned char)*c < 0x7f));
			free(text);
		}
	}
}

static void each_format(const lk_sweep_row *rows, size_t count) {
	for (int format = LK_OUTPUT_TEXT; format < LK_OUTPUT_SQLITE; format++) {
		char *text = print_rows(rows, count, format, true, true);
		assert_true(*text || format == LK_OUTPUT_JSONL);
		free(text);
	}
}

static void test_empty_and_extreme(void **state) {
	(void)state;
	lk_prediction nothing = {0}, extreme = whole();
	double numbers[] = {NAN, INFINITY, -INFINITY, -1, 0, 1e300, 5e-324};
	lk_sweep_row rows[3] = {{.prediction = &nothing}, {.prediction = &extreme}, {0}};
	each_format(rows, 1);
	each_format(rows + 2, 1);
	each_format(rows, 0);
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
		double x = numbers[i];
		extreme.peak_bytes = extreme.usable_bytes = extreme.step_time_s = extreme.step_time_low_s =
			extreme.mfu = x;
		extreme.days = extreme.gpu_hours = extreme.tokens_per_s_per_gpu = extreme.samples_per_s =
			extreme.simulation_s = x;
		extreme.model_flops_per_s_per_gpu = extreme.peak_flops = extreme.goodput = x;
		each_format(rows + 1, 1);
		each_format(rows, 3);
	}
}

/* ---- rows ---- */

struct grid {
	lk_prediction p[4];
	lk_predict_request r[4];
	lk_error refusal;
	lk_sweep_row rows[4];
};

/* Four combinations of --tp and --zero: the first does not fit, the third is refused, the last is
 * the fastest. */
static void make_grid(struct grid *grid) {
	*grid = (struct grid){
		.refusal = {LK_ERR_INPUT, "--tp", "64 heads are not divisible by 7", "nearest: 4, 8"}};
	for (int i = 0; i < 4; i++) {
		grid->p[i] = whole();
		lk_predict_defaults(&grid->r[i]);
		grid->r[i].model = "llama3.1-70b", grid->r[i].tp = i == 2 ? 7 : 4,
		grid->r[i].zero = i % 2 ? "3" : "1";
		grid->p[i].tokens_per_s_per_gpu = 1000 + i;
		grid->rows[i] = (lk_sweep_row){i == 2 ? NULL : &grid->p[i], i == 2 ? &grid->refusal : NULL,
		                               &grid->r[i]};
	}
	grid->p[0].fits = false;
	grid->p[0].tokens_per_s_per_gpu = 5000;
}

static void test_sweep_text(void **state) {
	(void)state;
	struct grid g;
	make_grid(&g);
	char *text = print_rows(g.rows, 4, LK_OUTPUT_TEXT, true, false);
	char *line = strtok(text, "\n");
	const char *titles[] = {" verdict ", " GiB ",  " tp ",           " pp ",        " dp ",
	                        " mbs ",     " gbs ",  " seq ",          " recompute ", " dtype ",
	                        " zero ",    " step ", " tokens/s/GPU ", " MFU ",       " why refused"};
	for (size_t i = 0; i < sizeof titles / sizeof *titles; i++) expect_part(line, titles[i]);
	expect_no_part(line, " vp ");
	expect_no_part(line, " model ");
	strtok(NULL, "\n");
	assert_non_null(strstr(strtok(NULL, "\n"), "   does not fit  73.6   4"));
	assert_non_null(strstr(strtok(NULL, "\n"), "   fits          73.6   4"));
	line = strtok(NULL, "\n");
	expect_part(line, "   refused              7");
	expect_part(line, "--tp: 64 heads are not divisible by 7; nearest: 4, 8");
	assert_non_null(strstr(strtok(NULL, "\n"), "*  fits          73.6   4"));
	assert_string_equal(strtok(NULL, "\n"), "* most tokens/s/GPU of those that fit");
	free(text);
}

/* A page holds it: what was swept and the results stay, reasons are notes. */
static void test_sweep_page(void **state) {
	(void)state;
	struct grid g;
	make_grid(&g);
	char *text = print_rows(g.rows, 4, LK_OUTPUT_TEXT, false, false);
	const char *titles[] = {" verdict ", " GiB ", " tp ", " zero ", " step ", " note\n"};
	for (size_t i = 0; i < sizeof titles / sizeof *titles; i++) expect_part(text, titles[i]);
	expect_part(text, "\n-v also shows: dtype");
	expect_part(text, "\nnote 2  --tp: 64 heads are not divisible by 7; nearest: 4, 8\n");
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
		assert_true(strlen(line) <= 100);
	free(text);
}

/* Columns that are 1 everywhere are not shown; one that is not, is. */
static void test_shown_columns(void **state) {
	(void)state;
	struct grid g;
	make_grid(&g);
	g.p[1].vp = 2;
	g.p[3].gpus = 128;
	char *text = print_rows(g.rows, 4, LK_OUTPUT_MD, false, false);
	char *line = strtok(text, "\n");
	expect_part(line, "| vp |");
	expect_part(line, "| GPUs |");
	expect_no_part(line, "| cp |");
	free(text);
}

static const char *csv_cell(char *text, size_t row, const char *key) {
	static char cell[256];
	lk_stream *in = NULL;
	lk_csv *csv = NULL;
	lk_error err = {0};
	int column = -1;
	bool more = true;
	assert_int_equal(lk_stream_memory(text, strlen(text), "rows", &in, &err), LK_OK);
	if (lk_csv_open(in, &csv, &err) != LK_OK) fail_msg("%s", err.what);
	column = lk_csv_column(csv, key);
	if (column < 0) fail_msg("no column %s", key);
	for (size_t i = 0; i <= row && more; i++)
		assert_int_equal(lk_csv_next(csv, &more, &err), LK_OK);
	assert_true(more);
	snprintf(cell, sizeof cell, "%s", lk_csv_field(csv, column));
	lk_csv_close(csv);
	lk_stream_close(in);
	return cell;
}

static void test_csv(void **state) {
	(void)state;
	struct grid g;
	make_grid(&g);
	char *text = print_rows(g.rows, 4, LK_OUTPUT_CSV, false, false);
	assert_string_equal(csv_cell(text, 0, "verdict"), "does not fit");
	assert_string_equal(csv_cell(text, 0, "best"), "0");
	assert_string_equal(csv_cell(text, 3, "best"), "1");
	assert_string_equal(csv_cell(text, 1, "zero"), "3");
	assert_string_equal(csv_cell(text, 1, "model"), "llama3.1-70b");
	assert_string_equal(csv_cell(text, 1, "step_time_s"), "32.4");
	assert_string_equal(csv_cell(text, 1, "model_tflops_per_gpu"), "445");
	assert_string_equal(csv_cell(text, 1, "microbatches"), "128");
	assert_string_equal(csv_cell(text, 1, "tp_exposed_s"), "4");
	assert_string_equal(csv_cell(text, 1, "operations"), "12345");
	assert_string_equal(csv_cell(text, 2, "tp"), "7");
	assert_string_equal(csv_cell(text, 2, "dp"), "");
	assert_string_equal(csv_cell(text, 2, "step_time_s"), "");
	/* The quote keeps spreadsheets from taking the text for a formula. */
	assert_string_equal(csv_cell(text, 2, "refused"),
	                    "'--tp: 64 heads are not divisible by 7; nearest: 4, 8");
	free(text);
}

/* ---- JSON ---- */

static const lk_value *parse(lk_arena *arena, const char *text) {
	lk_stream *in;
	lk_value *tree;
	lk_error err = {0};
	assert_int_equal(lk_stream_memory(text, strlen(text), "json", &in, &err), LK_OK);
	if (lk_json_document(arena, in, &tree, &err) != LK_OK)
		fail_msg("%s: %s\n%s", err.where, err.what, text);
	lk_stream_close(in);
	return tree;
}

static double number(const lk_value *object, const char *key) {
	const lk_value *value = lk_json_get(object, key);
	if (!value || value->kind != LK_JSON_NUMBER) fail_msg("no number %s", key);
	return value->number;
}

static void test_json(void **state) {
	(void)state;
	static const char *const keys[] = {"schema",
	                                   "version",
	                                   "data_date",
	                                   "fits",
	                                   "peak_bytes",
	                                   "usable_bytes",
	                                   "out_of_memory",
	                                   "fullest_stage",
	                                   "step_time_s",
	                                   "step_time_low_s",
	                                   "step_time_high_s",
	                                   "basis",
	                                   "tokens_per_s_per_gpu",
	                                   "samples_per_s",
	                                   "unit",
	                                   "model_tflops_per_gpu",
	                                   "mfu",
	                                   "hfu",
	                                   "peak_flops",
	                                   "peak",
	                                   "days",
	                                   "gpu_hours",
	                                   "goodput",
	                                   "checkpoint_bytes",
	                                   "checkpoint_write_s",
	                                   "gpu_watts",
	                                   "site_watts",
	                                   "pue",
	                                   "step_kwh",
	                                   "training_kwh",
	                                   "carbon_kg",
	                                   "power_usd",
	                                   "run",
	                                   "breakdown",
	                                   "seeds",
	                                   "generation",
	                                   "service",
	                                   "expected",
	                                   "phases",
	                                   "memory",
	                                   "layout",
	                                   "found",
	                                   "assumptions",
	                                   "understood",
	                                   "ignored",
	                                   "fixes",
	                                   "operations",
	                                   "layer_operations",
	                                   "ranks_simulated",
	                                   "ranks",
	                                   "searched",
	                                   "warning",
	                                   "reproduce",
	                                   "model",
	                                   "cluster"};
	lk_arena arena = LK_ARENA_INIT;
	lk_prediction p = whole();
	char *text = print_one(&p, LK_OUTPUT_JSON, false);
	const lk_value *value = parse(&arena, text);
	assert_int_equal(value->kind, LK_JSON_OBJECT);
	assert_int_equal(value->count, sizeof keys / sizeof *keys);
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
		assert_string_equal(value->keys[i], keys[i]);
	assert_true(number(value, "peak_bytes") == 73.6 * GIB);
	assert_true(number(value, "model_tflops_per_gpu") == 445);
	assert_true(number(lk_json_get(lk_json_get(value, "breakdown"), "tp"), "hidden_s") == 3);
	assert_true(number(&lk_json_get(value, "memory")->items[1], "total_bytes") == 40 * GIB);
	assert_true(number(lk_json_get(value, "layout"), "microbatches") == 128);
	assert_string_equal(lk_json_get(value, "ignored")->items[0].text, ignored[0]);
	assert_string_equal(lk_json_get(value, "version")->text, lk_version());
	free(text);
	lk_arena_free(&arena);
}

/* What was not asked is null, not 0. */
static void test_json_unknown(void **state) {
	(void)state;
	lk_arena arena = LK_ARENA_INIT;
	lk_prediction p = whole();
	p.days = p.gpu_hours = p.goodput = p.tokens_per_s_per_gpu = 0;
	p.warning = NULL;
	char *text = print_one(&p, LK_OUTPUT_JSON, false);
	const lk_value *value = parse(&arena, text);
	const char *const empty[] = {"days",         "gpu_hours", "goodput",   "tokens_per_s_per_gpu",
	                             "training_kwh", "carbon_kg", "power_usd", "warning"};
	for (size_t i = 0; i < sizeof empty / sizeof *empty; i++)
		assert_int_equal(lk_json_get(value, empty[i])->kind, LK_JSON_NULL);
	free(text);
	lk_arena_free(&arena);
}

static void test_json_sweep(void **state) {
	(void)state;
	lk_arena arena = LK_ARENA_INIT;
	struct grid g;
	make_grid(&g);
	char *text = print_rows(g.rows, 4, LK_OUTPUT_JSON, false, false),
		 *lines = print_rows(g.rows, 4, LK_OUTPUT_JSONL, false, false);
	const lk_value *value = parse(&arena, text);
	assert_int_equal(value->kind, LK_JSON_ARRAY);
	assert_int_equal(value->count, 4);
	assert_int_equal(lk_json_get(&value->items[2], "fits")->kind, LK_JSON_NULL);
	assert_string_equal(lk_json_get(&value->items[2], "refused")->text,
	                    "--tp: 64 heads are not divisible by 7; nearest: 4, 8");
	assert_null(lk_json_get(&value->items[3], "refused"));
	assert_true(number(lk_json_get(&value->items[2], "asked"), "tp") == 7);
	assert_string_equal(lk_json_get(lk_json_get(&value->items[3], "asked"), "zero")->text, "3");
	assert_int_equal(lk_json_get(&value->items[3], "asked")->count, 2);
	size_t count = 0;
	for (char *line = strtok(lines, "\n"); line; line = strtok(NULL, "\n"), count++) {
		const lk_value *one = parse(&arena, line);
		assert_int_equal(one->count, value->items[count].count);
	}
	assert_int_equal(count, 4);
	free(text);
	free(lines);
	lk_arena_free(&arena);
}

/* ---- files ---- */

static void test_files(void **state) {
	(void)state;
	char folder[64], path[96];
	new_folder(folder);
	lk_prediction p = whole();
	const lk_prediction *list[] = {&p};
	lk_error err = {0};
	snprintf(path, sizeof path, "%s/p.sqlite", folder);
	assert_int_equal(lk_predict_print(list, 1, LK_OUTPUT_SQLITE, false, false, path, NULL, &err),
	                 LK_OK);
	sqlite3 *db;
	sqlite3_stmt *query;
	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	assert_int_equal(
		sqlite3_prepare_v2(db, "select verdict, gpus from predictions", -1, &query, NULL),
		SQLITE_OK);
	assert_int_equal(sqlite3_step(query), SQLITE_ROW);
	assert_string_equal((const char *)sqlite3_column_text(query, 0), "fits");
	assert_int_equal(sqlite3_column_int(query, 1), 64);
	sqlite3_finalize(query);
	sqlite3_close(db);
	unlink(path);
	/* Colour is for streams alone. */
	snprintf(path, sizeof path, "%s/p.txt", folder);
	assert_int_equal(lk_predict_print(list, 1, LK_OUTPUT_TEXT, false, true, path, NULL, &err),
	                 LK_OK);
	char *text;
	size_t size;
	assert_int_equal(lk_stream_slurp(path, 1 << 20, &text, &size, &err), LK_OK);
	expect_no_part(text, "\x1b");
	free(text);
	unlink(path);
	assert_int_equal(rmdir(folder), 0);
}

static void test_refusals(void **state) {
	(void)state;
	lk_prediction p = whole();
	const lk_prediction *list[] = {&p};
	lk_error err = {0};
	assert_int_equal(lk_predict_print(list, 1, LK_OUTPUT_SQLITE, false, false, NULL, stdout, &err),
	                 LK_ERR_INPUT);
	assert_int_equal(lk_predict_print(list, 1, 99, false, false, NULL, stdout, &err), LK_ERR_INPUT);
	assert_int_equal(lk_predict_print(list, 1, -1, false, false, NULL, stdout, &err), LK_ERR_INPUT);
	FILE *full = fopen("/dev/full", "w");
	if (!full) return;
	for (int format = LK_OUTPUT_TEXT; format < LK_OUTPUT_SQLITE; format++) {
		assert_int_equal(lk_predict_print(list, 1, format, false, false, NULL, full, &err),
		                 LK_ERR_IO);
		assert_non_null(strstr(err.what, "cannot write"));
		clearerr(full);
	}
	fclose(full);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_report),        cmocka_unit_test(test_verbose),
		cmocka_unit_test(test_does_not_fit),  cmocka_unit_test(test_no_fix_found),
		cmocka_unit_test(test_many_stages),   cmocka_unit_test(test_colour),
		cmocka_unit_test(test_escapes),       cmocka_unit_test(test_empty_and_extreme),
		cmocka_unit_test(test_sweep_text),    cmocka_unit_test(test_sweep_page),
		cmocka_unit_test(test_shown_columns), cmocka_unit_test(test_csv),
		cmocka_unit_test(test_json),          cmocka_unit_test(test_json_unknown),
		cmocka_unit_test(test_json_sweep),    cmocka_unit_test(test_files),
		cmocka_unit_test(test_refusals),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
