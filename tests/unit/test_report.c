/* test_report.c: reports: every document is JSON of the form of docs/guide/html.md whose numbers
 * add up; whatever texts hold, a page shows them as text; rates of short pipelines tell those of
 * long ones; the hash and the compact JSON below them. */
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
#include "step/step.h"
#include "io/json.h"
#include "base/sha256.h"
#include "lockstep/report.h"

#define HOSTILE                                                                                   \
	"</script><script>alert(1)</script><img src=x onerror=alert(2)> & \"' {{document}} \xff\x01 " \
	"-->"

/* A report in memory. */
struct page {
	char *text;
	size_t size;
	FILE *file;
};

static FILE *begin(struct page *page) {
	*page = (struct page){0};
	page->file = open_memstream(&page->text, &page->size);
	assert_non_null(page->file);
	return page->file;
}

static void end(struct page *page) {
	fclose(page->file);
}

static lk_value *read_json(lk_arena *arena, const char *text, size_t size) {
	lk_stream *in;
	lk_value *document;
	lk_error err = {0};
	char line[512];
	assert_int_equal(lk_stream_memory(text, size, "report", &in, &err), LK_OK);
	if (lk_json_document(arena, in, &document, &err) != LK_OK)
		fail_msg("%s", lk_error_text(&err, line, sizeof line));
	lk_stream_close(in);
	return document;
}

static const lk_value *get(const lk_value *value, const char *key) {
	const lk_value *found = lk_json_get(value, key);
	if (!found) fail_msg("no %s", key);
	return found;
}

static double number(const lk_value *value, const char *key) {
	return get(value, key)->number;
}

/* ---- the form ---- */

static void check_rows(const lk_value *panel) {
	const lk_value *parts = get(panel, "parts"), *rows = get(panel, "rows");
	for (size_t i = 0; i < rows->count; i++) {
		assert_int_equal(get(&rows->items[i], "values")->count, parts->count);
		assert_int_equal(get(&rows->items[i], "name")->kind, LK_JSON_STRING);
	}
}

static void check_memory(const lk_value *panel) {
	const lk_value *rows = get(panel, "rows");
	check_rows(panel);
	for (size_t i = 0; i < rows->count; i++) {
		if (!lk_json_get(&rows->items[i], "total")) continue;
		double sum = 0;
		const lk_value *values = get(&rows->items[i], "values");
		for (size_t k = 0; k < values->count; k++) sum += values->items[k].number;
		assert_float_equal(sum / number(&rows->items[i], "total"), 1, 1e-9);
	}
}

/* What stands between totals leads from one to the next. */
static void check_waterfall(const lk_value *panel) {
	const lk_value *steps = get(panel, "steps");
	double sum = 0;
	for (size_t i = 0; i < steps->count; i++) {
		double value = number(&steps->items[i], "value");
		if (lk_json_get(&steps->items[i], "total") && i)
			assert_true(fabs(sum - value) < 0.003 * value);
		sum = lk_json_get(&steps->items[i], "total") ? value : sum + value;
	}
	assert_non_null(lk_json_get(&steps->items[steps->count - 1], "total"));
}

/* Columns of a lane are as long as one another; spans follow one another and end with the step. */
static void check_gantt(const lk_value *panel) {
	const lk_value *lanes = get(panel, "lanes");
	double ticks = number(panel, "ticks");
	assert_true(lanes->count > 0);
	for (size_t i = 0; i < lanes->count; i++) {
		const lk_value *lane = &lanes->items[i], *gaps = get(lane, "gap"),
					   *lengths = get(lane, "length");
		double at = 0;
		assert_int_equal(gaps->count, lengths->count);
		assert_int_equal(strlen(get(lane, "kinds")->text), gaps->count);
		if (lk_json_get(lane, "microbatch"))
			assert_int_equal(get(lane, "microbatch")->count, gaps->count);
		for (size_t k = 0; k < gaps->count; k++) {
			assert_true(gaps->items[k].number >= -1 && lengths->items[k].number >= 0);
			at += gaps->items[k].number + lengths->items[k].number;
		}
		assert_true(at <= ticks + 1);
	}
}

static void check_scatter(const lk_value *panel) {
	const lk_value *series = get(panel, "series");
	get(get(panel, "x"), "label");
	get(get(panel, "y"), "unit");
	for (size_t i = 0; i < series->count; i++) {
		const lk_value *points = get(&series->items[i], "points");
		for (size_t k = 0; k < points->count; k++) assert_in_range(points->items[k].count, 2, 4);
	}
}

static void check_table(const lk_value *panel) {
	const lk_value *columns = get(panel, "columns"), *rows = get(panel, "rows");
	for (size_t i = 0; i < rows->count; i++) assert_int_equal(rows->items[i].count, columns->count);
}

static void check_tornado(const lk_value *panel) {
	const lk_value *rows = get(panel, "rows");
	assert_true(number(panel, "base") > 0);
	for (size_t i = 0; i < rows->count; i++) {
		get(&rows->items[i], "low");
		get(&rows->items[i], "high");
	}
}

static void check_verdict(const lk_value *panel) {
	get(panel, "state");
	get(panel, "detail");
	get(panel, "figures");
}

static void check_range(const lk_value *panel) {
	get(panel, "value");
	get(panel, "classes");
}

/* Every panel is one that pages know, and of its form; returns how many. */
static void check_text(const lk_value *panel) {
	assert_true(get(panel, "lines")->count > 0);
}

static size_t check_form(const lk_value *document, const char *verb) {
	static const struct {
		const char *kind;
		void (*check)(const lk_value *);
	} kinds[] = {
		{"verdict", check_verdict}, {"waterfall", check_waterfall}, {"memory", check_memory},
		{"gantt", check_gantt},     {"bars", check_rows},           {"scatter", check_scatter},
		{"tornado", check_tornado}, {"table", check_table},         {"range", check_range},
		{"text", check_text},
	};
	const lk_value *panels = get(document, "panels");
	assert_string_equal(get(document, "verb")->text, verb);
	assert_int_equal(get(document, "lockstep")->kind, LK_JSON_STRING);
	assert_int_equal(get(document, "title")->kind, LK_JSON_STRING);
	assert_int_equal(get(document, "inputs")->kind, LK_JSON_ARRAY);
	get(document, "reproduce");
	get(document, "assumptions");
	get(document, "warnings");
	get(document, "result");
	for (size_t i = 0; i < panels->count; i++) {
		size_t k = 0;
		const char *kind = get(&panels->items[i], "kind")->text;
		while (k < sizeof kinds / sizeof *kinds && strcmp(kinds[k].kind, kind) != 0) k++;
		if (k == sizeof kinds / sizeof *kinds) fail_msg("an unknown kind of panel: %s", kind);
		assert_int_equal(get(&panels->items[i], "title")->kind, LK_JSON_STRING);
		kinds[k].check(&panels->items[i]);
	}
	return panels->count;
}

/* ---- predictions ---- */

static lk_prediction *predict(const lk_predict_request *request) {
	lk_prediction *prediction;
	lk_error err = {0};
	char line[512];
	if (lk_predict(request, &prediction, &err) != LK_OK)
		fail_msg("%s", lk_error_text(&err, line, sizeof line));
	return prediction;
}

static lk_predict_request pipelined(void) {
	lk_predict_request r;
	lk_predict_defaults(&r);
	r.model = "llama3.1-8b";
	r.gpu = "h100-sxm";
	r.gpus = 16;
	r.tp = 2;
	r.pp = 4;
	r.gbs = 64;
	r.detail = true;
	return r;
}

static void check_prediction(const lk_predict_request *request, size_t panels) {
	lk_arena arena = LK_ARENA_INIT;
	lk_prediction *prediction = predict(request);
	lk_error err = {0};
	struct page out;
	assert_int_equal(lk_report_predict(prediction, LK_REPORT_JSON, NULL, begin(&out), &err), LK_OK);
	end(&out);
	const lk_value *document = read_json(&arena, out.text, out.size);
	assert_true(check_form(document, "predict") >= panels);
	assert_float_equal(number(get(document, "result"), "step_time_s"), prediction->step_time_s, 0);
	free(out.text);
	lk_predict_free(prediction);
	lk_arena_free(&arena);
}

static void test_predict(void **state) {
	(void)state;
	lk_predict_request r = pipelined();
	check_prediction(&r, 10);
	r.vp = 2;
	r.exact = true;
	check_prediction(&r, 10);
	r.model = "deepseek-v2-lite";
	r.vp = 0;
	r.tp = 1;
	r.pp = 1;
	r.ep = 8;
	r.exact = false;
	check_prediction(&r, 9);
	r = pipelined();
	r.model = "resnet50";
	r.tp = r.pp = 0;
	r.gbs = 2048;
	check_prediction(&r, 7);
	lk_predict_defaults(&r);
	r.model = "dlrm-dcnv2";
	r.gpu = "h100-sxm";
	r.gpus = 8;
	r.detail = true;
	check_prediction(&r, 5);
	r = pipelined();
	r.gpus = 1;
	r.tp = r.pp = 0;
	r.gbs = 8;
	r.no_fixes = true; /* too large for one GPU */
	check_prediction(&r, 6);
	r = pipelined();
	r.detail = false;
	check_prediction(&r, 4);
}

/* Every span of a long pipeline cannot be shown: what is left out is said, and the ends are there.
 */
static void test_long_pipeline(void **state) {
	(void)state;
	lk_arena arena = LK_ARENA_INIT;
	lk_predict_request r = pipelined();
	r.gbs = 2 * 12000;
	r.mbs = 1;
	lk_prediction *prediction = predict(&r);
	lk_error err = {0};
	struct page out;
	assert_int_equal(lk_report_predict(prediction, LK_REPORT_JSON, NULL, begin(&out), &err), LK_OK);
	end(&out);
	const lk_value *panels = get(read_json(&arena, out.text, out.size), "panels");
	int shortened = 0;
	for (size_t i = 0; i < panels->count; i++) {
		const lk_value *lanes = lk_json_get(&panels->items[i], "lanes");
		for (size_t k = 0; lanes && k < lanes->count; k++) {
			const lk_value *middle = lk_json_get(&lanes->items[k], "middle");
			if (!middle) continue;
			assert_int_equal(
				number(middle, "spans") + (double)get(&lanes->items[k], "gap")->count > 24000, 1);
			assert_true(number(middle, "busy") > 0.5 && number(middle, "busy") <= 1.001);
			shortened++;
		}
	}
	assert_int_equal(shortened, 4);
	assert_true(out.size < 900000);
	free(out.text);
	lk_predict_free(prediction);
	lk_arena_free(&arena);
}

/* Detail of stages adds up to the step and to the mean that the prediction states. */
static void test_detail(void **state) {
	(void)state;
	lk_predict_request r = pipelined();
	lk_prediction *prediction = predict(&r);
	const lk_prediction_detail *detail = prediction->detail;
	assert_int_equal(detail->stage_count, 4);
	for (int k = 0; k < detail->part_count; k++) {
		double mean = 0, stated = 0;
		for (int s = 0; s < detail->stage_count; s++)
			mean += detail->stages[s].exposed_s[k] / detail->stage_count;
		for (int i = 0; i < prediction->breakdown_count; i++)
			if (strcmp(prediction->breakdown[i].key, detail->part_keys[k]) == 0)
				stated = prediction->breakdown[i].exposed_s;
		assert_float_equal(mean, stated, 1e-9);
	}
	for (int s = 0; s < detail->stage_count; s++) {
		double sum = 0;
		for (int k = 0; k < detail->part_count; k++) sum += detail->stages[s].exposed_s[k];
		assert_float_equal(sum / prediction->step_time_s, 1, 1e-6);
		assert_non_null(strstr(detail->formulas[s].weights, "parameters"));
	}
	/* a forward and a backward pass for each micro-batch */
	int passes[2] = {0};
	for (size_t i = 0; i < detail->span_count; i++)
		if (detail->spans[i].stage == 1 && detail->spans[i].kind <= LK_SPAN_BACKWARD)
			passes[detail->spans[i].kind]++;
	assert_int_equal(passes[0], prediction->microbatches);
	assert_int_equal(passes[1], prediction->microbatches);
	assert_true(detail->kernel_count > 5 && detail->message_count > 2 && detail->curve_count > 1 &&
	            detail->range_count > 5);
	for (int i = 0; i < detail->kernel_count; i++)
		assert_true(detail->kernels[i].flops <=
		            detail->peak_flops * detail->kernels[i].each_s * 1.001);
	lk_predict_free(prediction);
}

/* ---- rates ---- */

static void test_sensitivity(void **state) {
	(void)state;
	lk_arena arena = LK_ARENA_INIT;
	lk_predict_request r = pipelined();
	lk_asked asked;
	lk_step step;
	lk_step_options options = {.bare = true};
	lk_step_habits none = {0};
	lk_error err = {0};
	r.gbs = 256;
	for (int vp = 1; vp <= 2; vp++) {
		double seconds[LK_SENSITIVE_COSTS * LK_SENSITIVE_WAYS];
		r.vp = vp;
		assert_int_equal(lk_request_read(&arena, &r, &asked, &err), LK_OK);
		assert_int_equal(lk_step_ask(&asked.job, &asked.cluster, &options, &step, &err), LK_OK);
		assert_int_equal(lk_sensitivity_all(&asked.job, &asked.cluster, step.step_s, seconds, &err),
		                 LK_OK);
		for (int i = 0; i < LK_SENSITIVE_COSTS * LK_SENSITIVE_WAYS; i++) {
			double whole;
			assert_int_equal(lk_sensitivity_ask(&asked.job, &asked.cluster, none,
			                                    i / LK_SENSITIVE_WAYS, i % LK_SENSITIVE_WAYS, 0,
			                                    &whole, &err),
			                 LK_OK);
			double cut;
			assert_int_equal(lk_sensitivity_ask(&asked.job, &asked.cluster, none,
			                                    i / LK_SENSITIVE_WAYS, i % LK_SENSITIVE_WAYS,
			                                    0.5 * whole, &cut, &err),
			                 LK_OK);
			double longer;
			assert_int_equal(lk_sensitivity_ask(&asked.job, &asked.cluster, none,
			                                    i / LK_SENSITIVE_WAYS, i % LK_SENSITIVE_WAYS, whole,
			                                    &longer, &err),
			                 LK_OK);
			assert_true(longer == whole && (cut == whole || isinf(cut)));
			assert_float_equal(seconds[i] / whole, 1, 1e-3);
		}
		lk_step_free(&step);
	}
	lk_arena_free(&arena);
}

/* ---- hostile texts ---- */

static lk_explanation explanation(void) {
	static const lk_explain_rank ranks[2] = {
		{.rank = 0,
	     .path = HOSTILE,
	     .format = "kineto",
	     .device = HOSTILE,
	     .steps = 1,
	     .kernel_time_ns = 1000,
	     .compute_ns = 600,
	     .non_compute_ns = 100,
	     .exposed_communication_ns = 100,
	     .idle_ns = 300,
	     .idle_host_ns = 300},
		{.rank = 1,
	     .path = HOSTILE,
	     .format = "kineto",
	     .device = "",
	     .steps = 1,
	     .kernel_time_ns = 1000,
	     .compute_ns = 1000},
	};
	static const lk_explain_kernel kernels[] = {
		{.name = HOSTILE, .share = 1, .time = {.count = 1, .total_ns = 600}}};
	static const lk_explain_comm comm[] = {{.kind = HOSTILE,
	                                        .group = HOSTILE,
	                                        .count = 2,
	                                        .bytes = 1e6,
	                                        .busbw = 12,
	                                        .kernel_ns = 100}};
	static const double sizes[] = {5e5, 1e6}, rates[] = {10, 15};
	static const lk_explain_curve curves[] = {{.kind = HOSTILE,
	                                           .group = HOSTILE,
	                                           .ranks = 2,
	                                           .nodes = 1,
	                                           .count = 2,
	                                           .bytes = sizes,
	                                           .busbw = rates}};
	static const lk_explain_shaped shaped[] = {
		{.operation = HOSTILE,
	     .shapes = HOSTILE,
	     .kernel = HOSTILE,
	     .kind = "gemm",
	     .dtype = "fp16",
	     .count = 2,
	     .total_ns = 200,
	     .share = 0.5,
	     .flops = 1e9,
	     .bytes = 1e6,
	     .peak_flops = 1e15,
	     .roof = 0.1},
		{.operation = "aten::relu",
	     .shapes = "",
	     .kernel = "relu",
	     .kind = "elementwise",
	     .dtype = "fp16",
	     .count = 1,
	     .total_ns = 100,
	     .share = 0.5,
	     .bytes = 1e6,
	     .peak_flops = 1e15,
	     .roof = NAN},
	};
	static const lk_explain_stall stalls[] = {{.kind = "straggler",
	                                           .what = HOSTILE,
	                                           .subject = 1,
	                                           .lost_s = 1e-7,
	                                           .share = 0.1,
	                                           .evidence = HOSTILE,
	                                           .remedy = HOSTILE,
	                                           .gain_s = NAN}};
	static const char *const warnings[] = {HOSTILE};
	return (lk_explanation){.step_count = 1,
	                        .step_s = 1e-6,
	                        .step_deviation_s = NAN,
	                        .ranks = ranks,
	                        .rank_count = 2,
	                        .kernel = kernels,
	                        .kernel_count = 1,
	                        .comm = comm,
	                        .comm_count = 1,
	                        .stalls = stalls,
	                        .stall_count = 1,
	                        .warnings = warnings,
	                        .warning_count = 1,
	                        .reproduce = HOSTILE,
	                        .curves = curves,
	                        .curve_count = 1,
	                        .shaped = shaped,
	                        .shaped_count = 2,
	                        .shaped_all = 2,
	                        .shaped_share = 0.5,
	                        .held_against = HOSTILE,
	                        .memory_rate = 1e12,
	                        .inputs = {warnings, 1}};
}

/* The script elements of a page are those of its template, and its document is read back with the
 * text in it. */
static void check_page(const char *text, const char *verb) {
	lk_arena arena = LK_ARENA_INIT;
	static const char mark[] = "<script type=\"application/json\" id=\"document\">";
	const char *from = strstr(text, mark), *to = from ? strstr(from, "</script>") : NULL;
	assert_non_null(to);
	from += sizeof mark - 1;
	assert_null(memchr(from, '<', (size_t)(to - from)));
	int opened = 0, closed = 0;
	for (const char *at = text; (at = strstr(at, "<script")); at++) opened++;
	for (const char *at = text; (at = strstr(at, "</script")); at++) closed++;
	assert_int_equal(opened, 2);
	assert_int_equal(closed, 2);
	assert_null(strstr(text, "<script>alert"));
	assert_null(strstr(text, "<img"));
	const lk_value *document = read_json(&arena, from, (size_t)(to - from));
	check_form(document, verb);
	/* only what is not UTF-8 differs */
	if (get(document, "reproduce")->kind == LK_JSON_STRING)
		assert_non_null(
			strstr(get(document, "reproduce")->text,
		           "</script><script>alert(1)</script><img src=x onerror=alert(2)> & \"'"));
	lk_arena_free(&arena);
}

#define CHECK_HOSTILE(verb, answer)                                                         \
	do {                                                                                    \
		struct page out;                                                                    \
		lk_error err = {0};                                                                 \
		assert_int_equal(lk_report_##verb(answer, LK_REPORT_HTML, NULL, begin(&out), &err), \
		                 LK_OK);                                                            \
		end(&out);                                                                          \
		check_page(out.text, #verb);                                                        \
		free(out.text);                                                                     \
	} while (0)

static void test_hostile(void **state) {
	(void)state;
	static const char *const texts[] = {HOSTILE};
	lk_time_part part = {"gemm", HOSTILE, 1, 0};
	lk_stage_memory memory = {.total = 1, .weights = 1, .moment = "</script><b>"};
	lk_prediction p = {.model = HOSTILE,
	                   .cluster = HOSTILE,
	                   .layout = HOSTILE,
	                   .basis = HOSTILE,
	                   .peak_label = HOSTILE,
	                   .step_time_s = 1,
	                   .mfu = .5,
	                   .hfu = .5,
	                   .peak_flops = 1e15,
	                   .breakdown = &part,
	                   .breakdown_count = 1,
	                   .memory = &memory,
	                   .memory_count = 1,
	                   .assumptions = texts,
	                   .assumption_count = 1,
	                   .ignored = texts,
	                   .ignored_count = 1,
	                   .warning = HOSTILE,
	                   .reproduce = HOSTILE,
	                   .recompute = "none",
	                   .dtype = "bf16",
	                   .schedule = "1f1b"};
	lk_explanation x = explanation();
	lk_whatif_column columns[2] = {
		{.label = HOSTILE, .step_s = 1, .cluster = HOSTILE, .efficiency = NAN},
		{.label = HOSTILE, .refused = HOSTILE, .notes = texts, .note_count = 1}};
	lk_whatif w = {.columns = columns,
	               .column_count = 2,
	               .source = HOSTILE,
	               .reproduce = HOSTILE,
	               .notes = texts,
	               .note_count = 1};
	lk_shard_placed piece = {.name = HOSTILE, .kind = "table", .where = "device", .parts = 1};
	lk_shard_rank rank = {.device_bytes = 1, .forward_s = 1};
	lk_shard_tried tried = {.name = HOSTILE, .step_s = NAN, .imbalance = NAN, .reason = HOSTILE};
	lk_shard_answer a = {.fits = true,
	                     .sharder = HOSTILE,
	                     .pieces = &piece,
	                     .piece_count = 1,
	                     .ranks = &rank,
	                     .rank_count = 1,
	                     .tried = &tried,
	                     .tried_count = 1,
	                     .step_s = 1,
	                     .forward_s = 1,
	                     .cluster = HOSTILE,
	                     .basis = HOSTILE,
	                     .reproduce = HOSTILE};
	lk_rent_choice choice = {.provider = HOSTILE,
	                         .instance = HOSTILE,
	                         .region = HOSTILE,
	                         .gpu = HOSTILE,
	                         .layout = HOSTILE,
	                         .reproduce = HOSTILE,
	                         .hours = 1,
	                         .cost = 1,
	                         .date = HOSTILE,
	                         .source = HOSTILE,
	                         .stall = HOSTILE,
	                         .pareto = true};
	int tie = 0;
	lk_rent rent = {.choices = &choice,
	                .count = 1,
	                .considered = 1,
	                .model = HOSTILE,
	                .notes = texts,
	                .note_count = 1,
	                .ties = &tie,
	                .tie_count = 1,
	                .settle = HOSTILE};
	CHECK_HOSTILE(predict, &p);
	CHECK_HOSTILE(explain, &x);
	x.shaped_count = x.curve_count = 0;
	x.no_roofline = x.no_curves = HOSTILE;
	CHECK_HOSTILE(explain, &x);
	CHECK_HOSTILE(whatif, &w);
	CHECK_HOSTILE(shard, &a);
	CHECK_HOSTILE(rent, &rent);
}

static void test_hostile_stalls(void **state) {
	(void)state;
	static const char *const texts[] = {HOSTILE};
	struct lk_stalls_bucket buckets[2] = {{1e6, 10, 1, 2}, {1e7, 1, 0.5, 1.5}};
	lk_stalls_change change = {
		.what = HOSTILE, .step_s = 1, .factor = 1, .closed_s = NAN, .bottleneck = HOSTILE};
	lk_stalls_answer s = {
		.ranks = 1,
		.hosts = 1,
		.step_s = 0.25 * LK_STALL_KINDS,
		.low = NAN,
		.high = NAN,
		.base = HOSTILE,
		.buckets = {.group = HOSTILE, .note = HOSTILE, .error = NAN, .at = buckets, .count = 2},
		.rates = {.from = HOSTILE},
		.changes = &change,
		.change_count = 1,
		.notes = texts,
		.note_count = 1,
		.reason = "",
		.kept = "",
		.shown = "",
		.part_count = LK_STALL_KINDS,
		.reproduce = HOSTILE};
	for (int k = 0; k < LK_STALL_KINDS; k++)
		s.parts[k] = (lk_stalls_part){.name = HOSTILE,
		                              .seconds = 0.25,
		                              .low = NAN,
		                              .high = NAN,
		                              .factor = NAN,
		                              .share = 1.0 / LK_STALL_KINDS,
		                              .how = HOSTILE,
		                              .named = true};
	for (int c = 0; c < LK_STALLS_CONFIGURATIONS; c++)
		s.rows[c] =
			(lk_stalls_row){.step_s = 1, .low = NAN, .high = NAN, .resident = NAN, .note = HOSTILE};
	CHECK_HOSTILE(stalls, &s);
}

static void test_hostile_plan(void **state) {
	(void)state;
	static const char *const texts[] = {HOSTILE};
	lk_arena arena = LK_ARENA_INIT;
	lk_plan nothing = {.model = HOSTILE,
	                   .cluster = HOSTILE,
	                   .notes = texts,
	                   .note_count = 1,
	                   .best = -1,
	                   .count = 1,
	                   .counts = &(lk_plan_count){.gpus = 8, .layouts = 1, .nothing = HOSTILE}};
	CHECK_HOSTILE(plan, &nothing);
	lk_arena_free(&arena);
}

/* ---- sweeps ---- */

/* Texts of users, combinations that were refused, ranges, and a word that all commands share at
 * both ends. */
static void test_hostile_sweep(void **state) {
	(void)state;
	lk_predict_request requests[3];
	lk_error refusal = {0};
	lk_prediction p = {.fits = true,
	                   .model = HOSTILE,
	                   .cluster = HOSTILE,
	                   .layout = HOSTILE,
	                   .step_time_s = 1,
	                   .samples_per_s = 8,
	                   .unit = "sequence",
	                   .gpus = 8,
	                   .peak_bytes = 1e9,
	                   .reproduce = HOSTILE "a" HOSTILE,
	                   .recompute = HOSTILE,
	                   .dtype = HOSTILE,
	                   .schedule = HOSTILE};
	lk_prediction q = p;
	q.fits = false;
	q.reproduce = HOSTILE HOSTILE;
	lk_fail(&refusal, LK_ERR_INPUT, HOSTILE, "%s", HOSTILE);
	const lk_sweep_row rows[] = {
		{&p, NULL, &requests[0]}, {&q, NULL, &requests[1]}, {NULL, &refusal, &requests[2]}};
	for (int i = 0; i < 3; i++) lk_predict_defaults(&requests[i]);
	requests[0].model = HOSTILE;
	requests[1].model = requests[2].model = HOSTILE "2";
	requests[2].tp = 3;
	struct page out;
	lk_error err = {0};
	assert_int_equal(lk_report_sweep(rows, 3, LK_REPORT_HTML, NULL, begin(&out), &err), LK_OK);
	end(&out);
	check_page(out.text, "predict");
	free(out.text);
	assert_int_equal(lk_report_sweep(rows + 2, 1, LK_REPORT_HTML, NULL, begin(&out), &err),
	                 LK_OK); /* nothing was predicted */
	end(&out);
	check_page(out.text, "predict");
	free(out.text);
}

/* The operations of a roofline stand where flops, bytes and time put them; what does not multiply
 * is not drawn. */
static void test_roofline(void **state) {
	(void)state;
	lk_explanation x = explanation();
	lk_arena arena = LK_ARENA_INIT;
	lk_error err = {0};
	struct page out;
	assert_int_equal(lk_report_explain(&x, LK_REPORT_JSON, NULL, begin(&out), &err), LK_OK);
	end(&out);
	const lk_value *panels = get(read_json(&arena, out.text, out.size), "panels"), *roofline = NULL,
				   *collectives = NULL;
	for (size_t i = 0; i < panels->count; i++) {
		const char *role = strcmp(get(&panels->items[i], "kind")->text, "scatter") == 0
		                       ? get(&panels->items[i], "role")->text
		                       : "";
		if (strcmp(role, "roofline") == 0) roofline = get(&panels->items[i], "series");
		if (strcmp(role, "collectives") == 0) collectives = get(&panels->items[i], "series");
	}
	assert_non_null(roofline);
	assert_int_equal(roofline->count, 2); /* the roof, the products */
	const lk_value *point = &get(&roofline->items[1], "points")->items[0];
	assert_int_equal(get(&roofline->items[1], "points")->count, 1);
	assert_float_equal(point->items[0].number, 1000, 1e-9);
	assert_float_equal(point->items[1].number, 1e16, 1);
	assert_non_null(collectives);
	assert_string_equal(get(&collectives->items[0], "style")->text, "line");
	assert_string_equal(get(&collectives->items[0], "key")->text,
	                    get(&collectives->items[1], "key")->text);
	free(out.text);
	lk_arena_free(&arena);
}

/* A file that cannot be completed is an error, and no file. */
static void test_files(void **state) {
	(void)state;
	lk_explanation x = explanation();
	lk_error err = {0};
	assert_int_equal(lk_report_explain(&x, LK_REPORT_HTML, "/no/such/folder/x.html", NULL, &err),
	                 LK_ERR_IO);
	FILE *full = fopen("/dev/full", "w");
	if (!full) return;
	assert_int_equal(lk_report_explain(&x, LK_REPORT_HTML, NULL, full, &err), LK_ERR_IO);
	fclose(full);
}

/* ---- below ---- */

static void test_sha256(void **state) {
	(void)state;
	static const struct {
		const char *text;
		int times;
		const char *base64;
	} known[] = {
		{"", 1, "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="},
		{"abc", 1, "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0="},
		{"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1,
	     "JI1qYdIGOLjlwCaTDD5gOaM85Flk/yFn9uzt1BnbBsE="},
		{"a", 1000000, "zcduXJkU+5KBocfihNc+Z/GAmkiklyAOBG05zMcRLNA="},
	};
	for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
		lk_sha256 h;
		char base64[45];
		lk_sha256_begin(&h);
		for (int k = 0; k < known[i].times; k++)
			lk_sha256_add(&h, known[i].text, strlen(known[i].text));
		lk_sha256_base64(&h, base64);
		assert_string_equal(base64, known[i].base64);
	}
}

static void test_document_in_document(void **state) {
	(void)state;
	struct page out;
	lk_json_writer w;
	lk_error err = {0};
	static const char inner[] =
		"{\n  \"a b\": \"x \\\" y\\\\\",\n  \"c\": [\n    1,\n    null\n  ]\n}\n";
	lk_json_begin(&w, begin(&out), true);
	lk_json_object(&w, NULL);
	lk_json_put_document(&w, "in", inner, sizeof inner - 1);
	lk_json_put_integer(&w, "after", 1);
	lk_json_object_end(&w);
	assert_int_equal(lk_json_finish(&w, &err), LK_OK);
	end(&out);
	assert_string_equal(out.text,
	                    "{\"in\":{\"a b\":\"x \\\" y\\\\\",\"c\":[1,null]},\"after\":1}\n");
	free(out.text);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_predict),      cmocka_unit_test(test_long_pipeline),
		cmocka_unit_test(test_detail),       cmocka_unit_test(test_sensitivity),
		cmocka_unit_test(test_hostile),      cmocka_unit_test(test_hostile_stalls),
		cmocka_unit_test(test_hostile_plan), cmocka_unit_test(test_hostile_sweep),
		cmocka_unit_test(test_roofline),     cmocka_unit_test(test_files),
		cmocka_unit_test(test_sha256),       cmocka_unit_test(test_document_in_document),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
