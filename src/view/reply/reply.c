/* reply.c: verbs by name: words to a request, the request to an answer, the answer to JSON. */
#include "base/arena.h"
#include "base/memory.h"
#include "view/reply/reply.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "lockstep/catalogue.h"
#include "lockstep/explain.h"
#include "lockstep/plan.h"
#include "lockstep/rent.h"
#include "lockstep/shard.h"
#include "lockstep/validate.h"
#include "lockstep/whatif.h"

/* ---- writing to memory ---- */

lk_status lk_reply_write(lk_reply *reply, lk_reply_writer *write, const void *what, lk_error *err) {
	FILE *out = lk_memory_open(&reply->json, &reply->json_size);
	if (!out) return lk_oom(err);
	lk_status status = write(what, out, err);
	if (!lk_memory_close(out) && status == LK_OK) status = lk_oom(err);
	return status;
}

static lk_status write_prediction(const void *what, FILE *out, lk_error *err) {
	const lk_prediction *prediction = what;
	return lk_predict_print(&prediction, 1, LK_OUTPUT_JSON, false, false, NULL, out, err);
}
static lk_status reply_write_plan(const void *what, FILE *out, lk_error *err) {
	return lk_plan_print(what, LK_OUTPUT_JSON, false, false, NULL, out, err);
}
static lk_status write_validation(const void *what, FILE *out, lk_error *err) {
	return lk_validate_print(what, LK_VALIDATE_JSON, false, out, err);
}
static lk_status write_explanation(const void *what, FILE *out, lk_error *err) {
	return lk_explain_print(what, LK_OUTPUT_JSON, LK_EXPLAIN_ALL, false, NULL, out, err);
}
static lk_status write_shard(const void *what, FILE *out, lk_error *err) {
	return lk_shard_print(what, LK_SHARD_PLAN, LK_OUTPUT_JSON, false, NULL, out, err);
}
static lk_status write_rent(const void *what, FILE *out, lk_error *err) {
	return lk_rent_print(what, LK_OUTPUT_JSON, false, false, NULL, out, err);
}
static lk_status write_whatif(const void *what, FILE *out, lk_error *err) {
	return lk_whatif_print(what, LK_OUTPUT_JSON, false, false, NULL, out, err);
}
static lk_status write_simulation(const void *what, FILE *out, lk_error *err) {
	return lk_simulate_print(what, out, err);
}

/* ---- verbs ---- */

/* What a verb is asked with. */
struct asked {
	lk_args *args;
	const char *input;
	size_t size;
};

typedef lk_status asker(lk_reply *reply, const struct asked *a, lk_error *err);

static lk_status take_emitted(lk_reply *reply, const lk_emitted *emitted, lk_error *err) {
	reply->text = lk_arena_strdup(&reply->arena, emitted->text);
	return reply->text ? LK_OK : lk_oom(err);
}

static lk_status ask_predict(lk_reply *reply, const struct asked *asked, lk_error *err) {
	lk_outputs outputs;
	lk_predict_request r;
	lk_prediction *prediction;
	size_t count;
	LK_TRY(lk_args_combinations(asked->args, &count, err));
	if (count > 1) {
		lk_fail(err, LK_ERR_INPUT, "predict",
		        "the lists make %zu combinations, and one is answered here", count);
		return lk_hint(err, "use sweep for all combinations");
	}
	lk_predict_defaults(&r);
	LK_TRY(lk_args_fill(asked->args, 0, &r, err));
	LK_TRY(lk_args_fill_outputs(asked->args, &outputs, err));
	r.step = outputs.trace || outputs.graph || outputs.chakra;
	r.detail = outputs.html != NULL;
	r.launch = asked->args->rest;
	r.launch_count = asked->args->rest_count;
	LK_TRY(lk_predict(&r, &prediction, err));
	lk_status status = lk_predict_write_files(prediction, &outputs, err);
	lk_emitted emitted;
	if (status == LK_OK && r.emit && (status = lk_predict_emit(prediction, &emitted, err)) == LK_OK)
		status = take_emitted(reply, &emitted, err);
	if (status == LK_OK) status = lk_reply_write(reply, write_prediction, prediction, err);
	reply->yes = prediction->fits;
	lk_predict_free(prediction);
	return status;
}

static lk_status take_launch_line(lk_reply *reply, const lk_plan *plan, const char *target,
                                  lk_error *err) {
	lk_emitted emitted;
	if (!target || plan->best < 0) return LK_OK;
	LK_TRY(lk_plan_launch(plan, plan->counts[plan->best].choices, target, &emitted, err));
	return take_emitted(reply, &emitted, err);
}

static lk_status ask_plan(lk_reply *reply, const struct asked *asked, lk_error *err) {
	lk_plan_request r;
	lk_plan *plan;
	lk_plan_defaults(&r);
	LK_TRY(lk_args_fill(asked->args, 0, &r, err));
	r.job.launch = asked->args->rest;
	r.job.launch_count = asked->args->rest_count;
	LK_TRY(lk_plan_find(&r, &plan, err));
	lk_status status = take_launch_line(reply, plan, r.job.emit, err);
	if (status == LK_OK) status = lk_reply_write(reply, reply_write_plan, plan, err);
	reply->yes = plan->best >= 0;
	lk_plan_free(plan);
	return status;
}

static lk_status ask_validate(lk_reply *reply, const struct asked *asked, lk_error *err) {
	lk_validate_request r;
	lk_validation *validation;
	lk_validate_defaults(&r);
	LK_TRY(lk_args_fill(asked->args, 0, &r, err));
	r.table = asked->args->operands[0];
	LK_TRY(lk_validate(&r, &validation, err));
	lk_status status = r.plot ? lk_validate_plot(validation, r.plot, err) : LK_OK;
	if (status == LK_OK) status = lk_reply_write(reply, write_validation, validation, err);
	reply->yes = true;
	lk_validate_free(validation);
	return status;
}

static lk_status ask_explain(lk_reply *reply, const struct asked *asked, lk_error *err) {
	lk_outputs outputs;
	lk_explain_request r;
	lk_explanation *answer;
	lk_explain_defaults(&r);
	LK_TRY(lk_args_fill(asked->args, 0, &r, err));
	LK_TRY(lk_args_fill_outputs(asked->args, &outputs, err));
	r.roofline = outputs.html != NULL;
	r.roofline_needed = outputs.table == LK_EXPLAIN_ROOFLINE;
	r.traces = asked->args->operands;
	r.trace_count = asked->args->operand_count;
	LK_TRY(lk_explain(&r, &answer, err));
	lk_status status = outputs.trace ? lk_explain_trace(answer, outputs.trace, err) : LK_OK;
	if (status == LK_OK) status = lk_reply_write(reply, write_explanation, answer, err);
	reply->yes = true;
	lk_explain_free(answer);
	return status;
}

static lk_status ask_shard(lk_reply *reply, const struct asked *asked, lk_error *err) {
	lk_shard_request r;
	lk_shard_answer *answer;
	lk_shard_defaults(&r);
	LK_TRY(lk_args_fill(asked->args, 0, &r, err));
	r.tables = asked->args->operand_count ? asked->args->operands[0] : NULL;
	LK_TRY(lk_shard(&r, &answer, err));
	lk_status status = answer->fits && r.plan ? lk_shard_write_plan(answer, r.plan, err) : LK_OK;
	if (status == LK_OK) status = lk_reply_write(reply, write_shard, answer, err);
	reply->yes = answer->fits;
	lk_shard_free(answer);
	return status;
}

static lk_status ask_rent(lk_reply *reply, const struct asked *asked, lk_error *err) {
	lk_rent_request r;
	lk_rent *rent;
	lk_rent_defaults(&r);
	LK_TRY(lk_args_fill(asked->args, 0, &r, err));
	LK_TRY(lk_rent_find(&r, &rent, err));
	lk_status status = lk_reply_write(reply, write_rent, rent, err);
	reply->yes = !rent->nothing;
	lk_rent_free(rent);
	return status;
}

static lk_status ask_whatif(lk_reply *reply, const struct asked *asked, lk_error *err) {
	lk_outputs outputs;
	lk_whatif_request r;
	lk_whatif *answer;
	lk_whatif_defaults(&r);
	LK_TRY(lk_args_fill(asked->args, 0, &r, err));
	LK_TRY(lk_args_fill_outputs(asked->args, &outputs, err));
	r.paths = asked->args->operands;
	r.path_count = asked->args->operand_count;
	LK_TRY(lk_whatif_ask(&r, &answer, err));
	lk_status status = lk_whatif_write_files(answer, &outputs, err);
	if (status == LK_OK) status = lk_reply_write(reply, write_whatif, answer, err);
	reply->yes = true;
	lk_whatif_free(answer);
	return status;
}

static lk_status ask_simulate(lk_reply *reply, const struct asked *asked, lk_error *err) {
	lk_outputs outputs;
	lk_simulate_request r;
	lk_simulate_defaults(&r);
	LK_TRY(lk_args_fill(asked->args, 0, &r, err));
	LK_TRY(lk_args_fill_outputs(asked->args, &outputs, err));
	r.graph = asked->args->operand_count ? asked->args->operands[0] : NULL;
	r.text = asked->input;
	r.text_size = asked->size;
	LK_TRY(lk_simulate(&r, &reply->simulation, err));
	LK_TRY(lk_simulate_write_files(reply->simulation, &outputs, err));
	reply->yes = true;
	LK_TRY(lk_reply_spans(reply, err));
	return lk_reply_write(reply, write_simulation, reply->simulation, err);
}

static const struct {
	const lk_verb *verb;
	asker *ask;
} verbs[] = {
	{&lk_predict_verb, ask_predict},   {&lk_plan_verb, ask_plan},
	{&lk_validate_verb, ask_validate}, {&lk_explain_verb, ask_explain},
	{&lk_shard_verb, ask_shard},       {&lk_rent_verb, ask_rent},
	{&lk_whatif_verb, ask_whatif},     {&lk_simulate_verb, ask_simulate},
};
enum { VERBS = sizeof verbs / sizeof *verbs };

/* ---- lists of what is known ---- */

typedef lk_status lister(const char *filter, int format, bool verbose, bool colour,
                         const char *path, FILE *out, lk_error *err);

struct listed {
	lister *list;
	const char *filter;
};

static lk_status write_list(const void *what, FILE *out, lk_error *err) {
	const struct listed *listed = what;
	return listed->list(listed->filter, LK_OUTPUT_JSON, true, false, NULL, out, err);
}

static lk_status ask_list(lk_reply *reply, lister *list, int count, const char *const *words,
                          lk_error *err) {
	struct listed l = {list, count > 0 ? words[0] : NULL};
	if (count > 1) return lk_fail(err, LK_ERR_INPUT, words[1], "is one word too many");
	reply->yes = true;
	return lk_reply_write(reply, write_list, &l, err);
}

/* ---- asking ---- */

static lk_status reply_unknown(const char *verb, lk_error *err) {
	const char *names[VERBS + 2] = {"devices", "models"};
	for (int i = 0; i < VERBS; i++) names[i + 2] = verbs[i].verb->name;
	const char *near = lk_nearest(verb, names, VERBS + 2);
	lk_fail(err, LK_ERR_INPUT, NULL, "unknown verb \"%.64s\"", verb);
	return near ? lk_hint(err, "did you mean %s?", near) : LK_ERR_INPUT;
}

static lk_status reply_ask(lk_reply *reply, const char *name, int count, const char *const *words,
                           struct asked a, lk_error *err) {
	int at = 0;
	lk_args args;
	if (strcmp(name, "devices") == 0) return ask_list(reply, lk_devices_print, count, words, err);
	if (strcmp(name, "models") == 0) return ask_list(reply, lk_models_print, count, words, err);
	while (at < VERBS && strcmp(verbs[at].verb->name, name) != 0) at++;
	if (at == VERBS) return reply_unknown(name, err);
	LK_TRY(lk_args_parse(verbs[at].verb, count, words, &args, err));
	a.args = &args;
	lk_status status = lk_args_check_empty(&args, err);
	if (args.help)
		status = lk_fail(err, LK_ERR_INPUT, "--help", "is for people: lockstep help %s", name);
	if (status == LK_OK) status = verbs[at].ask(reply, &a, err);
	lk_args_free(&args);
	return status;
}

lk_reply *lk_reply_ask(const char *verb, int count, const char *const *words, const char *input,
                       size_t size, const lk_stop *stop) {
	struct asked a = {.input = input, .size = size};
	lk_reply *reply = lk_reply_new();
	if (!reply) return NULL;
	lk_stop_watch(stop);
	return lk_reply_end(reply, reply_ask(reply, verb, count, words, a, &reply->error), stop);
}

static lk_status write_verbs(const void *what, FILE *out, lk_error *err) {
	return lk_verbs_json(what, out, err);
}

lk_reply *lk_reply_verbs(void) {
	const lk_verb *all[VERBS + 1] = {NULL};
	lk_reply *reply = lk_reply_new();
	if (!reply) return NULL;
	for (int i = 0; i < VERBS; i++) all[i] = verbs[i].verb;
	return lk_reply_end(reply, lk_reply_write(reply, write_verbs, all, &reply->error), NULL);
}

/* ---- the reply ---- */

void lk_reply_free(lk_reply *reply) {
	if (!reply) return;
	for (size_t i = 0; reply->predictions && i < reply->rows; i++)
		lk_predict_free(reply->predictions[i]);
	for (int i = 0; i < reply->parts; i++) lk_args_free(&reply->args[i]);
	lk_simulate_free(reply->simulation);
	free(reply->json);
	free(reply->row_json);
	lk_arena_free(&reply->arena);
	free(reply);
}

lk_status lk_reply_status(const lk_reply *reply) {
	return reply->status;
}

const char *lk_reply_error(const lk_reply *reply, int part) {
	const lk_error *error = &reply->error;
	if (part == LK_REPLY_WHERE) return error->where;
	if (part == LK_REPLY_WHAT) return error->what;
	if (part == LK_REPLY_HINT) return error->hint;
	return reply->line;
}

bool lk_reply_yes(const lk_reply *reply) {
	return reply->status == LK_OK && reply->yes;
}

const char *lk_reply_json(const lk_reply *reply, size_t *size) {
	if (size) *size = reply->json_size;
	return reply->json;
}

const char *lk_reply_text(const lk_reply *reply) {
	return reply->text;
}
