/* compile_run.c: `lockstep compile run`: interprets a program on all ranks of a mesh and reports
 * its results. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "system/memory.h"
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
	const char *schedule, *sizes, *arithmetic;
	int64_t ranks;
	int seed;
	lk_status *listed; /* why elements could not be listed */
	lk_error *err;
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

static lk_status describe_run(struct report *report, lk_arena *arena, lk_error *err) {
	char *text = NULL;
	size_t size = 0;
	FILE *file = lk_memory_open(&text, &size);
	if (!file) return lk_oom(err);
	compile_run_put_sizes(report, file);
	report->sizes = lk_memory_text(file, &text) ? lk_arena_strdup(arena, text) : NULL;
	free(text);
	return report->sizes ? LK_OK : lk_oom(err);
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

static void compile_run_put_text(const struct report *report, FILE *out) {
	fprintf(out, "program %s, schedule %s, %lld %s: %s; seed %d%s\n", report->p->name,
	        report->schedule, (long long)report->ranks, lk_noun(report->ranks, "rank", "ranks"),
	        report->sizes, report->request->seed,
	        report->request->field ? "; modulo 2^61 - 1" : "");
	for (int i = 0; i < report->count; i++)
		compile_run_put_result(report, &report->results[i], out);
}

/* ---- fields ---- */

#define REPORT(member)  LK_AT(struct report, member)
#define SUMMARY(member) LK_AT(lc_summary, member)

static const lc_node *summary_node(const lk_subject *subject) {
	const struct report *report = subject->answer;
	const lc_summary *summary = subject->record;
	LK_ASSERT(summary->id >= 0 && (size_t)summary->id < report->p->nodes.count);
	return &report->p->nodes.at[summary->id];
}

static void find_summary_name(const lk_subject *subject, lk_field_value *found) {
	const struct report *report = subject->answer;
	const lc_summary *summary = subject->record;
	found->text = lc_result_name(report->p, summary->id, found->shown, sizeof found->shown);
}

static void find_summary_type(const lk_subject *subject, lk_field_value *found) {
	const struct report *report = subject->answer;
	found->text = lc_type_text(report->p, summary_node(subject), found->shown, sizeof found->shown);
}

static void find_digest(const lk_subject *subject, lk_field_value *found) {
	const lc_summary *summary = subject->record;
	snprintf(found->shown, sizeof found->shown, "%016llx", (unsigned long long)summary->digest);
	found->text = found->shown;
}

static bool is_numeric(const lk_subject *subject) {
	return !((const struct report *)subject->answer)->request->field;
}

static bool lists_all(const lk_subject *subject) {
	return ((const struct report *)subject->answer)->request->all;
}

static void put_extent(lk_json_writer *writer, const lk_subject *subject) {
	const lc_summary *summary = subject->record;
	for (int d = 0; d < summary_node(subject)->rank; d++)
		lk_json_put_integer(writer, NULL, summary->extent[d]);
}

static void put_first(lk_json_writer *writer, const lk_subject *subject) {
	const lc_summary *summary = subject->record;
	for (int i = 0; i < summary->firsts; i++) {
		if (is_numeric(subject)) lk_json_put_real(writer, NULL, summary->first[i]);
		else lk_json_put_integer(writer, NULL, (long long)summary->element[i]);
	}
}

static void put_tensor(lk_json_writer *writer, const lc_cells *whole) {
	lk_json_array(writer, NULL);
	for (int64_t i = 0; i < whole->count; i++) {
		if (whole->element) lk_json_put_integer(writer, NULL, (long long)whole->element[i]);
		else lk_json_put_real(writer, NULL, whole->number[i]);
	}
	lk_json_array_end(writer);
}

/* Every element, tensor by tensor. */
static void put_tensors(lk_json_writer *writer, const lk_subject *subject) {
	const struct report *report = subject->answer;
	const lc_summary *summary = subject->record;
	const lc_node *node = summary_node(subject);
	const lc_cells *whole;
	for (int64_t rank = 0; rank < report->ranks; rank++) {
		if (!lc_first_of_local(report->p, node, report->s, rank)) continue;
		for (int64_t item = 0; item < lc_items(report->p, report->s, node); item++) {
			if (*report->listed == LK_OK)
				*report->listed =
					lc_run_whole_of(report->run, summary->id, item, rank, &whole, report->err);
			if (*report->listed == LK_OK) put_tensor(writer, whole);
		}
	}
}

static const lk_answer_field summary_fields[] = {
	{"name", NULL, LK_FIELD_TEXT, .get = find_summary_name},
	{"type", NULL, LK_FIELD_TEXT, .get = find_summary_type},
	{"tensors", NULL, SUMMARY(tensors)},
	{"elements", NULL, SUMMARY(elements), .type = "num"},
	{"extents", NULL, LK_FIELD_MANY, .put = put_extent, .type = "int"},
	{"digest", NULL, LK_FIELD_TEXT, .get = find_digest},
	{"least", NULL, SUMMARY(least), .known = LK_EVEN_INFINITE, .when = is_numeric},
	{"mean", NULL, SUMMARY(mean), .known = LK_EVEN_INFINITE, .when = is_numeric},
	{"most", NULL, SUMMARY(most), .known = LK_EVEN_INFINITE, .when = is_numeric},
	{"first", NULL, LK_FIELD_MANY, .put = put_first, .type = "real"},
	{"values", NULL, LK_FIELD_MANY, .put = put_tensors, .type = "any", .when = lists_all},
};
static const lk_answer_record summary_record = {LK_RECORD(lc_summary, summary_fields)};

static const lk_answer_field report_fields[] = {
	{LK_ONE(struct report, p, lc_program_name_record)},
	{"schedule", NULL, REPORT(schedule)},
	{"ranks", NULL, REPORT(ranks)},
	{"sizes", NULL, REPORT(sizes)},
	{"seed", NULL, REPORT(seed)},
	{"arithmetic", NULL, REPORT(arithmetic)},
	{"results", NULL, LK_MANY(struct report, results, count, summary_record)},
};
static const lk_answer_record report_record = {LK_RECORD(struct report, report_fields)};
const lk_document lc_run_document = {"compile-run", "`compile run -o json`", &report_record,
                                     offsetof(struct report, failed_check), NULL};

static lk_status compile_run_put_json(struct report *report, FILE *out, lk_error *err) {
	lk_status status = lc_put_document(&lc_run_document, report, out, err);
	return *report->listed == LK_OK ? status : *report->listed;
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
	lk_status listed = LK_OK;
	struct report r = {.p = program,
	                   .s = sizes,
	                   .request = request,
	                   .seed = request->seed,
	                   .schedule = request->schedule ? request->schedule : LC_PLAIN,
	                   .ranks = lc_ranks(program, sizes),
	                   .listed = &listed,
	                   .err = err};
	lc_run *run = NULL;
	o.arithmetic = request->field ? LC_FIELD : LC_NUMERIC;
	r.arithmetic = request->field ? "field" : "numeric";
	LK_TRY(read_settings(request->set, arena, &o, err));
	if (request->inputs) LK_TRY(lc_given_read(request->inputs, program, sizes, arena, &o, err));
	LK_TRY(lc_run_program(program, sizes, &o, &run, err));
	if (request->compare) return lc_compare(answer, run, request, out, err);
	r.run = run;
	lk_status status = summarize(run, &r, arena, err);
	answer->failed_check = r.failed_check = lk_failed_check(r.failed_check);
	if (status == LK_OK) status = describe_run(&r, arena, err);
	if (status == LK_OK && request->format == LK_COMPILE_JSON)
		status = compile_run_put_json(&r, out, err);
	else if (status == LK_OK) compile_run_put_text(&r, out);
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
	if (request->inputs && request->field) {
		lk_fail(err, LK_ERR_INPUT, "--inputs", "are numbers, and --field computes with its own");
		return lk_hint(err, "leave one of them out");
	}
	lk_status status = lc_sizes_read(program, request->sizes, DEFAULT_RANKS, &sizes, err);
	if (status == LK_OK)
		status = run_scheduled(answer, program, schedule, &sizes, request, &arena, out, err);
	lc_sizes_free(&sizes);
	lk_arena_free(&arena);
	return status;
}
