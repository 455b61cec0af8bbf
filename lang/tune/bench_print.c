/* bench_print.c: `lockstep compile bench`: a program's schedules measured, as a table or JSON. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/check.h"
#include "system/memory.h"
#include "base/text.h"
#include "base/noun.h"
#include "lang/compile/compile.h"
#include "lang/rewrite/rewrite.h"
#include "lang/tune/tune.h"

enum { NUMBER = 32 };

/* ---- schedules ---- */

static void free_variants(lc_variant *variants, int count) {
	for (int i = 0; i < count; i++) {
		lc_steps_free((lc_steps *)variants[i].steps);
		lc_program_free((lc_program *)variants[i].program);
		free(variants[i].schedule);
	}
	free(variants);
}

static char *bench_print_schedule_text(const lc_program *program, const lc_schedule *schedule) {
	char *text = NULL;
	size_t size = 0;
	FILE *out = schedule ? lk_memory_open(&text, &size) : NULL;
	if (!out) return NULL;
	lc_print_schedule(program, schedule, out);
	return lk_memory_text(out, &text);
}

static lk_status make_variant(const lc_program *program, const lc_schedule *schedule,
                              lc_variant *out, lk_error *err) {
	lc_program *rewritten = NULL;
	lc_steps *steps = NULL;
	*out = (lc_variant){.name = schedule ? schedule->name : LC_PLAIN};
	LK_TRY(lc_rewrite_all(program, schedule, &rewritten, err));
	lk_status status = lc_steps_joined(rewritten, &rewritten, &steps, err);
	out->program = rewritten;
	out->steps = steps;
	LK_TRY(status);
	out->schedule = bench_print_schedule_text(program, schedule);
	return LK_OK;
}

static bool bench_print_wanted(const char *name, const char *schedule) {
	return !schedule || strcmp(schedule, "all") == 0 || strcmp(schedule, name) == 0;
}

/* The plain program comes first: the others are compared with it. */
static lk_status make_variants(const lc_program *program, const char *schedule, lc_variant **out,
                               int *count, lk_error *err) {
	const lc_schedule *named;
	*count = 0;
	*out = calloc(program->schedules.count + 1, sizeof **out);
	if (!*out) return lk_oom(err);
	if (schedule && strcmp(schedule, "all") != 0)
		LK_TRY(lc_pick_schedule(program, schedule, &named, err));
	LK_TRY(make_variant(program, NULL, &(*out)[(*count)++], err));
	for (size_t i = 0; i < program->schedules.count; i++)
		if (bench_print_wanted(program->schedules.at[i].name, schedule))
			LK_TRY(make_variant(program, &program->schedules.at[i], &(*out)[(*count)++], err));
	return LK_OK;
}

/* ---- printing ---- */

static const char *bench_print_number(double x, int digits, char out[NUMBER]) {
	if (isfinite(x)) snprintf(out, NUMBER, "%.*f", digits, x);
	else lk_copy(out, NUMBER, "-");
	return out;
}

static const char *bench_print_bytes(double x, char out[NUMBER]) {
	if (isfinite(x)) lk_format_bytes(x, out, NUMBER);
	else lk_copy(out, NUMBER, "-");
	return out;
}

static void bench_print_put_row(const lc_bench_row *row, FILE *out) {
	char time[NUMBER], ratio[NUMBER], low[NUMBER], high[NUMBER], sent[NUMBER], between[NUMBER],
		touched[NUMBER];
	lk_format_seconds(row->time.median, time, sizeof time);
	fprintf(out, "%-20.40s %10s %7s %15s..%-5s %11s %11s %11s  %s", row->name, time,
	        bench_print_number(row->ratio.median, 3, ratio),
	        bench_print_number(row->ratio.low, 3, low),
	        bench_print_number(row->ratio.high, 3, high), bench_print_bytes(row->moved.sent, sent),
	        bench_print_bytes(row->moved.between, between),
	        bench_print_bytes(row->moved.touched, touched),
	        !row->checked ? "-"
	        : row->agrees ? "agrees"
	                      : "DIFFERS");
	if (isfinite(row->predicted))
		fprintf(out, " %10s", lk_format_seconds(row->predicted, time, sizeof time));
	fputc('\n', out);
}

static lk_status bench_print_put_text(const lc_program *program, const lc_bench_result *result,
                                      FILE *out) {
	fprintf(out, "program %s on %lld %s, %d %s of all in turn; %s against itself: ", program->name,
	        (long long)result->ranks, lk_noun(result->ranks, "rank", "ranks"), result->rounds,
	        lk_noun(result->rounds, "round", "rounds"), result->rows[0].name);
	if (isfinite(result->spread)) fprintf(out, "within %.1f %% of 1\n", 100 * result->spread);
	else fputs("too few rounds to tell\n", out);
	fprintf(out, "%-20s %10s %7s %22s %11s %11s %11s  %s%s\n", "schedule", "median", "faster",
	        "95 % of the median", "sent", "to groups", "touched", "results",
	        isfinite(result->rows[0].predicted) ? "  predicted" : "");
	for (int i = 0; i < result->count; i++) bench_print_put_row(&result->rows[i], out);
	if (result->pairs)
		fprintf(out,
		        "predicted and measured order: Kendall's tau %.2f over %d %s further apart than "
		        "the noise\n",
		        result->tau, result->pairs, lk_noun(result->pairs, "pair", "pairs"));
	return LK_OK;
}

/* ---- fields ---- */

#define INTERVAL(member) LK_AT(lc_interval, member)
#define ROW(member)      LK_AT(lc_bench_row, member)
#define RESULT(member)   LK_AT(lc_bench_result, member)

static const lk_answer_field interval_fields[] = {
	{"median", NULL, INTERVAL(median)},
	{"low", NULL, INTERVAL(low)},
	{"high", NULL, INTERVAL(high)},
};
const lk_answer_record lc_interval_record = {.name = "Interval",
                                             LK_RECORD(lc_interval, interval_fields)};

static void put_rounds(lk_json_writer *writer, const lk_subject *subject) {
	const lc_bench_result *result = subject->answer;
	const lc_bench_row *row = subject->record;
	for (int i = 0; i < result->rounds; i++) lk_json_put_number(writer, NULL, row->seconds[i]);
}

static const lk_answer_field row_fields[] = {
	{"name", NULL, ROW(name)},
	{"seconds", NULL, LK_INSIDE(lc_bench_row, time, lc_interval_record)},
	{"ratio", NULL, LK_INSIDE(lc_bench_row, ratio, lc_interval_record)},
	{"sent_bytes", NULL, ROW(moved.sent)},
	{"between_groups_bytes", NULL, ROW(moved.between)},
	{"touched_bytes", NULL, ROW(moved.touched)},
	{"agrees", NULL, ROW(agrees), LK_IF(lc_bench_row, checked)},
	{"predicted", NULL, ROW(predicted), .known = LK_MAYBE},
	{"rounds", NULL, LK_FIELD_MANY, .put = put_rounds, .type = "num"},
};
static const lk_answer_record row_record = {LK_RECORD(lc_bench_row, row_fields)};

static const lk_answer_field result_fields[] = {
	{LK_ONE(lc_bench_result, p, lc_program_name_record)},
	{"ranks", NULL, RESULT(ranks)},
	{"rounds", NULL, RESULT(rounds)},
	{"spread", NULL, RESULT(spread), .known = LK_MAYBE},
	{"tau", NULL, RESULT(tau), .known = LK_MAYBE},
	{"tau_pairs", NULL, RESULT(pairs)},
	{"schedules", NULL, LK_MANY(lc_bench_result, rows, count, row_record)},
};
static const lk_answer_record result_record = {LK_RECORD(lc_bench_result, result_fields)};
const lk_document lc_bench_document = {
	"compile-bench",
	"`compile bench -o json`: measured on this machine, so that it differs from run to run",
	&result_record, offsetof(lc_bench_result, failed_check), NULL};

/* ---- the action ---- */

lk_status lk_compile_bench(lk_compile *answer, const lk_compile_request *request, FILE *out,
                           lk_error *err) {
	lc_program *program;
	lc_variant *variants;
	int count;
	lc_bench_options o = {.sizes = request->sizes,
	                      .set = request->set,
	                      .seed = request->seed,
	                      .repeat = request->repeat};
	lc_bench_result result = {0};
	lk_arena arena = LK_ARENA_INIT;
	lk_cluster cluster;
	lk_host_messages messages;
	LK_TRY(lc_resize(answer, request, err));
	LK_TRY(lc_pick_program(answer, request, &program, err));
	LK_TRY(lc_check_dims(program, request->sizes, err));
	lk_status status = make_variants(program, request->schedule, &variants, &count, err);
	if (status == LK_OK && request->cluster)
		status = lk_cluster_parse(&arena, request->cluster, &cluster, err);
	if (status == LK_OK && request->cluster)
		status = lk_cluster_refuse_network(&cluster, "compile", err);
	if (status == LK_OK && request->cluster)
		status = lk_host_messages_read(request->cluster, &messages, err);
	if (request->cluster) o.cluster = &cluster, o.messages = &messages;
	if (status == LK_OK) status = lc_bench(program, variants, count, &o, &result, err);
	if (status == LK_OK) {
		result.p = program;
		result.failed_check = lk_failed_check(lc_bench_result_check(&result));
		answer->failed_check = result.failed_check;
		status = request->format == LK_COMPILE_JSON
		             ? lc_put_document(&lc_bench_document, &result, out, err)
		             : bench_print_put_text(program, &result, out);
	}
	for (int i = 0; i < result.count; i++)
		answer->no |= result.rows[i].checked && !result.rows[i].agrees;
	lc_bench_free(&result);
	lk_arena_free(&arena);
	free_variants(variants, count);
	return status;
}
