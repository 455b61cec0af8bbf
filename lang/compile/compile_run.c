/* compile_run.c: `lockstep compile run`: interprets a program on all ranks of a mesh and reports
 * its results. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "system/memory.h"
#include "io/json.h"
#include "base/text.h"
#include "lang/compile/compile.h"
#include "lang/rewrite/rewrite.h"
#include "lang/run/run.h"
#include "base/check.h"
#include "base/noun.h"

enum { DEFAULT_RANKS = 4 };

/* ---- scalars from --set ---- */

static lk_status compile_run_read_setting(char *pair, lc_setting *out, lk_error *err) {
	char where[96];
	char *value = strchr(pair, '=');
	if (!value) {
		lk_fail(err, LK_ERR_INPUT, "--set", "\"%.64s\" sets nothing", pair);
		return lk_hint(err, "write NAME=X,NAME=X,...");
	}
	*value++ = '\0';
	out->name = pair;
	snprintf(where, sizeof where, "--set: %.64s", pair);
	return lk_parse_real(value, -HUGE_VAL, HUGE_VAL, &out->value, where, err);
}

static lk_status read_settings(const char *text, lk_arena *arena, lc_run_options *options,
                               lk_error *err) {
	int room = 1;
	if (!text || !*text) return LK_OK;
	for (const char *at = text; *at; at++) room += *at == ',';
	lc_setting *settings = LK_ARRAY(arena, lc_setting, (size_t)room);
	char *copy = lk_arena_strdup(arena, text);
	if (!settings || !copy) return lk_oom(err);
	for (char *at = copy, *next; at; at = next) {
		next = strchr(at, ',');
		if (next) *next++ = '\0';
		LK_TRY(compile_run_read_setting(at, &settings[options->setting_count++], err));
	}
	options->settings = settings;
	return LK_OK;
}

/* ---- report ---- */

struct report {
	const lc_program *p;
	const lc_sizes *s;
	const lk_compile_request *request;
	lc_summary *results;
	int count;
	lc_run *run; /* to list all elements */
	const char *failed_check;
};

static void compile_run_put_sizes(const struct report *report, FILE *out) {
	for (int a = 0; a < report->p->axis_count; a++)
		fprintf(out, "%s%s=%lld", a ? "," : "", report->p->axes[a].name,
		        (long long)report->s->symbol[a]);
	for (int d = 0; d < report->p->named_count; d++) {
		fprintf(out, ",%s=", report->p->named[d].name);
		if (!report->s->each[d]) fprintf(out, "%lld", (long long)report->s->symbol[LC_AXES + d]);
		for (int64_t i = 0; report->s->each[d] && i < report->s->items[report->p->named[d].list];
		     i++)
			fprintf(out, "%s%lld", i ? ":" : "", (long long)report->s->each[d][i]);
	}
	for (size_t i = 0; i < report->s->indices.count; i++)
		fprintf(out, ",%s=%lld", report->s->indices.at[i].name,
		        (long long)report->s->indices.at[i].value);
}

static char *sizes_text(const struct report *report) {
	char *text = NULL;
	size_t size = 0;
	FILE *file = lk_memory_open(&text, &size);
	if (!file) return NULL;
	compile_run_put_sizes(report, file);
	return lk_memory_text(file, &text);
}

static void put_extents(const struct report *report, const lc_summary *one, FILE *out) {
	const lc_node *node = &report->p->nodes.at[one->id];
	if (one->tensors > 1)
		fprintf(out, "%lld %s, %lld elements", (long long)one->tensors,
		        lk_noun(one->tensors, "tensor", "tensors"), (long long)one->elements);
	for (int d = 0; d < node->rank && one->tensors == 1; d++)
		fprintf(out, "%s%lld", d ? " x " : "", (long long)one->extent[d]);
	if (node->rank == 0 && one->tensors == 1) fputs("1 number", out);
}

static void compile_run_put_result(const struct report *report, const lc_summary *one, FILE *out) {
	char name[80], type[256], number[32];
	const lc_node *node = &report->p->nodes.at[one->id];
	fprintf(out, "%s : %s\n  ", lc_result_name(report->p, one->id, name, sizeof name),
	        lc_type_text(report->p, node, type, sizeof type));
	put_extents(report, one, out);
	fprintf(out, "; digest %016llx", (unsigned long long)one->digest);
	if (!report->request->field)
		fprintf(out, "; least %.6g, mean %.6g, most %.6g", one->least, one->mean, one->most);
	fputs("\n  ", out);
	for (int i = 0; i < one->firsts; i++) {
		if (report->request->field)
			fprintf(out, "%s%llu", i ? ", " : "", (unsigned long long)one->element[i]);
		else if (!isfinite(one->first[i])) fprintf(out, "%s%g", i ? ", " : "", one->first[i]);
		else
			fprintf(out, "%s%s", i ? ", " : "",
			        lk_format_shortest(one->first[i], number, sizeof number));
	}
	fputs(one->elements > one->firsts ? ", ...\n" : "\n", out);
}

static lk_status compile_run_put_text(const struct report *report, FILE *out, lk_error *err) {
	char *sizes = sizes_text(report);
	if (!sizes) return lk_oom(err);
	const char *schedule = report->request->schedule ? report->request->schedule : LC_PLAIN;
	fprintf(out, "program %s, schedule %s, %lld %s: %s; seed %d%s\n", report->p->name, schedule,
	        (long long)lc_ranks(report->p, report->s),
	        lk_noun(lc_ranks(report->p, report->s), "rank", "ranks"), sizes, report->request->seed,
	        report->request->field ? "; modulo 2^61 - 1" : "");
	free(sizes);
	for (int i = 0; i < report->count; i++)
		compile_run_put_result(report, &report->results[i], out);
	return LK_OK;
}

/* Every element, tensor by tensor. */
static lk_status json_elements(lk_json_writer *writer, const struct report *report, int id,
                               lk_error *err) {
	LK_ASSERT(id >= 0 && (size_t)id < report->p->nodes.count);
	const lc_node *node = &report->p->nodes.at[id];
	const lc_cells *whole;
	lk_json_array(writer, "values");
	for (int64_t rank = 0; rank < lc_ranks(report->p, report->s); rank++) {
		if (!lc_first_of_local(report->p, node, report->s, rank)) continue;
		for (int64_t item = 0; item < lc_items(report->p, report->s, node); item++) {
			LK_TRY(lc_run_whole_of(report->run, id, item, rank, &whole, err));
			lk_json_array(writer, NULL);
			for (int64_t i = 0; i < whole->count; i++) {
				if (whole->element) lk_json_put_integer(writer, NULL, (long long)whole->element[i]);
				else lk_json_put_real(writer, NULL, whole->number[i]);
			}
			lk_json_array_end(writer);
		}
	}
	lk_json_array_end(writer);
	return LK_OK;
}

static lk_status json_result(lk_json_writer *writer, const struct report *report,
                             const lc_summary *one, lk_error *err) {
	char text[256];
	const lc_node *node = &report->p->nodes.at[one->id];
	lk_json_object(writer, NULL);
	lk_json_put_text(writer, "name", lc_result_name(report->p, one->id, text, sizeof text));
	lk_json_put_text(writer, "type", lc_type_text(report->p, node, text, sizeof text));
	lk_json_put_integer(writer, "tensors", one->tensors);
	lk_json_put_integer(writer, "elements", one->elements);
	lk_json_array(writer, "extents");
	for (int d = 0; d < node->rank; d++) lk_json_put_integer(writer, NULL, one->extent[d]);
	lk_json_array_end(writer);
	snprintf(text, sizeof text, "%016llx", (unsigned long long)one->digest);
	lk_json_put_text(writer, "digest", text);
	if (!report->request->field) {
		lk_json_put_real(writer, "least", one->least);
		lk_json_put_real(writer, "mean", one->mean);
		lk_json_put_real(writer, "most", one->most);
	}
	lk_json_array(writer, "first");
	for (int i = 0; i < one->firsts; i++) {
		if (report->request->field) lk_json_put_integer(writer, NULL, (long long)one->element[i]);
		else lk_json_put_real(writer, NULL, one->first[i]);
	}
	lk_json_array_end(writer);
	if (report->request->all) LK_TRY(json_elements(writer, report, one->id, err));
	lk_json_object_end(writer);
	return LK_OK;
}

static lk_status compile_run_put_json(const struct report *report, FILE *out, lk_error *err) {
	lk_json_writer w;
	char *sizes = sizes_text(report);
	if (!sizes) return lk_oom(err);
	lk_json_begin(&w, out, false);
	lk_json_object(&w, NULL);
	lk_json_put_head(&w, "lockstep/compile-run/1", report->failed_check);
	lk_json_put_text(&w, "program", report->p->name);
	lk_json_put_text(&w, "schedule",
	                 report->request->schedule ? report->request->schedule : LC_PLAIN);
	lk_json_put_integer(&w, "ranks", lc_ranks(report->p, report->s));
	lk_json_put_text(&w, "sizes", sizes);
	lk_json_put_integer(&w, "seed", report->request->seed);
	lk_json_put_text(&w, "arithmetic", report->request->field ? "field" : "numeric");
	lk_json_array(&w, "results");
	lk_status status = LK_OK;
	for (int i = 0; i < report->count && status == LK_OK; i++)
		status = json_result(&w, report, &report->results[i], err);
	free(sizes);
	LK_TRY(status);
	lk_json_array_end(&w);
	lk_json_object_end(&w);
	return lk_json_finish(&w, err);
}

/* ---- running ---- */

static lk_status summarize(lc_run *run, struct report *report, lk_arena *arena, lk_error *err) {
	int ids[LC_VALUES];
	LK_TRY(lc_results(report->p, ids, LC_VALUES, &report->count, err));
	report->results = LK_ARRAY(arena, lc_summary, (size_t)report->count);
	if (!report->results) return lk_oom(err);
	for (int i = 0; i < report->count; i++) {
		LK_TRY(lc_summarize(run, report->p, report->s, ids[i], &report->results[i], err));
		LK_CHECK(report->results[i].firsts <= LC_FIRST, err); /* views read that many */
		if (!report->failed_check)
			report->failed_check = lc_summary_check(&report->results[i], report->request->field);
	}
	return LK_OK;
}

static lk_status run_with(lk_compile *answer, const lc_program *program, const lc_sizes *sizes,
                          const lk_compile_request *request, lk_arena *arena, FILE *out,
                          lk_error *err) {
	lc_run_options o = {.seed = (uint64_t)request->seed,
	                    .key = (uint64_t)request->seed,
	                    .only_results = !request->compare};
	struct report r = {.p = program, .s = sizes, .request = request};
	lc_run *run = NULL;
	o.arithmetic = request->field ? LC_FIELD : LC_NUMERIC;
	LK_TRY(read_settings(request->set, arena, &o, err));
	LK_TRY(lc_run_program(program, sizes, &o, &run, err));
	if (request->compare) return lc_compare(answer, run, request, out, err);
	r.run = run;
	lk_status status = summarize(run, &r, arena, err);
	answer->failed_check = r.failed_check = lk_failed_check(r.failed_check);
	if (status == LK_OK)
		status = request->format == LK_COMPILE_JSON ? compile_run_put_json(&r, out, err)
		                                            : compile_run_put_text(&r, out, err);
	lc_run_free(run);
	return status;
}

/* Run the program as rewritten by its schedule, with refined sizes. */
static lk_status run_scheduled(lk_compile *answer, const lc_program *program,
                               const lc_schedule *schedule, const lc_sizes *sizes,
                               const lk_compile_request *request, lk_arena *arena, FILE *out,
                               lk_error *err) {
	lc_program *q = NULL;
	lc_sizes refined = {0};
	if (!schedule) return run_with(answer, program, sizes, request, arena, out, err);
	LK_TRY(lc_rewrite_all(program, schedule, &q, err));
	lk_status status = lc_sizes_refine(program, sizes, q, &refined, err);
	if (status == LK_OK) status = run_with(answer, q, &refined, request, arena, out, err);
	lc_sizes_free(&refined);
	lc_program_free(q);
	return status;
}

lk_status lc_do_run(lk_compile *answer, const lk_compile_request *request, FILE *out,
                    lk_error *err) {
	lc_program *program;
	const lc_schedule *schedule;
	lc_sizes sizes;
	lk_arena arena = LK_ARENA_INIT;
	LK_TRY(lc_pick_program(answer, request, &program, err));
	LK_TRY(lc_pick_schedule(program, request->schedule, &schedule, err));
	if (request->compare && request->field)
		return lk_fail(err, LK_ERR_INPUT, "--compare",
		               "the program ran on ordinary numbers; leave --field out");
	lk_status status = lc_sizes_read(program, request->sizes, DEFAULT_RANKS, &sizes, err);
	if (status == LK_OK)
		status = run_scheduled(answer, program, schedule, &sizes, request, &arena, out, err);
	lc_sizes_free(&sizes);
	lk_arena_free(&arena);
	return status;
}
