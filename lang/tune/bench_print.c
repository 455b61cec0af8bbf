/* bench_print.c: `lockstep compile bench`: a program's schedules measured, as a table or JSON. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/check.h"
#include "system/memory.h"
#include "io/json.h"
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

void lc_put_interval(lk_json_writer *writer, const char *key, const lc_interval *interval) {
	lk_json_object(writer, key);
	lk_json_put_number(writer, "median", interval->median);
	lk_json_put_number(writer, "low", interval->low);
	lk_json_put_number(writer, "high", interval->high);
	lk_json_object_end(writer);
}

static lk_status bench_print_put_json(const lc_program *program, const lc_bench_result *result,
                                      const char *failed_check, FILE *out, lk_error *err) {
	lk_json_writer w;
	lk_json_begin(&w, out, false);
	lk_json_object(&w, NULL);
	lk_json_put_head(&w, "lockstep/compile-bench/1", failed_check);
	lk_json_put_text(&w, "program", program->name);
	lk_json_put_integer(&w, "ranks", result->ranks);
	lk_json_put_integer(&w, "rounds", result->rounds);
	lk_json_put_number(&w, "spread", result->spread);
	lk_json_put_number(&w, "tau", result->tau);
	lk_json_put_integer(&w, "tau_pairs", result->pairs);
	lk_json_array(&w, "schedules");
	for (int i = 0; i < result->count; i++) {
		lk_json_object(&w, NULL);
		lk_json_put_text(&w, "name", result->rows[i].name);
		lc_put_interval(&w, "seconds", &result->rows[i].time);
		lc_put_interval(&w, "ratio", &result->rows[i].ratio);
		lk_json_put_number(&w, "sent_bytes", result->rows[i].moved.sent);
		lk_json_put_number(&w, "between_groups_bytes", result->rows[i].moved.between);
		lk_json_put_number(&w, "touched_bytes", result->rows[i].moved.touched);
		if (result->rows[i].checked) lk_json_put_bool(&w, "agrees", result->rows[i].agrees);
		else lk_json_put_null(&w, "agrees");
		lk_json_put_number(&w, "predicted", result->rows[i].predicted);
		lk_json_array(&w, "rounds");
		for (int k = 0; k < result->rounds; k++)
			lk_json_put_number(&w, NULL, result->rows[i].seconds[k]);
		lk_json_array_end(&w);
		lk_json_object_end(&w);
	}
	lk_json_array_end(&w);
	lk_json_object_end(&w);
	return lk_json_finish(&w, err);
}

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
	if (status == LK_OK) answer->failed_check = lk_failed_check(lc_bench_result_check(&result));
	if (status == LK_OK)
		status = request->format == LK_COMPILE_JSON
		             ? bench_print_put_json(program, &result, answer->failed_check, out, err)
		             : bench_print_put_text(program, &result, out);
	for (int i = 0; i < result.count; i++)
		answer->no |= result.rows[i].checked && !result.rows[i].agrees;
	lc_bench_free(&result);
	lk_arena_free(&arena);
	free_variants(variants, count);
	return status;
}
