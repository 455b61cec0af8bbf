/* reply.c: answers for bindings: finds the row of a verb by name, asks it, keeps the answer as
 * JSON. */
#include "base/arena.h"
#include "system/memory.h"
#include "view/reply/reply.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "verbs/verbs.h"

/* ---- writing to memory ---- */

lk_status lk_reply_write(lk_reply *reply, lk_reply_writer *write, const void *what, lk_error *err) {
	FILE *out = lk_memory_open(&reply->json, &reply->json_size);
	if (!out) return lk_oom(err);
	lk_status status = write(what, out, err);
	if (!lk_memory_close(out) && status == LK_OK) status = lk_oom(err);
	return status;
}

/* ---- verbs ---- */

/* The verbs that bindings ask: lists, whose options they do not take, then the others in the order
 * in which they are listed. */
static const lk_verb_row *const rows[] = {
	&lk_row_devices, &lk_row_models, &lk_row_predict, &lk_row_plan,   &lk_row_validate,
	&lk_row_explain, &lk_row_shard,  &lk_row_rent,    &lk_row_whatif, &lk_row_simulate,
};
enum { LISTS = 2, ROWS = sizeof rows / sizeof *rows };

/* The graph of simulate, given as a text. */
struct text {
	const char *at;
	size_t size;
};

struct answered {
	const lk_verb_row *row;
	const void *answer;
};

static lk_status write_answered(const void *what, FILE *out, lk_error *err) {
	const struct answered *answered = what;
	const lk_outputs outputs = {.format = LK_OUTPUT_JSON};
	return answered->row->print(answered->answer, &outputs, false, out, err);
}

static lk_status reply_emit(lk_reply *reply, const lk_verb_row *row, const void *request,
                            const void *answer, lk_error *err) {
	lk_emitted emitted = {0};
	if (!row->emit) return LK_OK;
	LK_TRY(row->emit(request, answer, &emitted, err));
	if (!emitted.text) return LK_OK;
	reply->text = lk_arena_strdup(&reply->arena, emitted.text);
	return reply->text ? LK_OK : lk_oom(err);
}

/* Refuses comma lists that make several combinations. */
static lk_status reply_check_single(const lk_args *args, lk_error *err) {
	size_t count;
	LK_TRY(lk_args_combinations(args, &count, err));
	if (count == 1) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, args->verb->name,
	        "the lists make %zu combinations, and one is answered here", count);
	return lk_hint(err, "use sweep for all combinations");
}

static lk_status reply_take(lk_reply *reply, const lk_verb_row *row, const void *request,
                            const void *answer, const lk_outputs *outputs, lk_error *err) {
	struct answered answered = {row, answer};
	reply->yes = !row->yes || row->yes(answer);
	if (row->files) LK_TRY(row->files(request, answer, outputs, err));
	LK_TRY(reply_emit(reply, row, request, answer, err));
	if (reply->simulation) LK_TRY(lk_reply_spans(reply, err));
	return lk_reply_write(reply, write_answered, &answered, err);
}

static lk_status reply_row(lk_reply *reply, const lk_verb_row *row, lk_args *args,
                           const struct text *text, void *request, lk_error *err) {
	lk_outputs outputs;
	void *answer = NULL;
	LK_TRY(reply_check_single(args, err));
	LK_TRY(lk_args_fill_outputs(args, &outputs, err));
	lk_verb_input input = lk_verb_words(args, &outputs);
	input.pictured = outputs.html != NULL;
	input.text = text->at;
	input.text_size = text->size;
	LK_TRY(lk_verb_request(row, args, 0, &input, request, err));
	LK_TRY(lk_verb_answering(&row, request, err));
	LK_TRY(row->ask(request, &answer, err));
	/* Columns are borrowed from a simulation: it lives as long as the reply. */
	if (row == &lk_row_simulate) reply->simulation = answer;
	lk_status status = reply_take(reply, row, request, answer, &outputs, err);
	if (row != &lk_row_simulate) row->free(answer);
	return status;
}

/* ---- asking ---- */

static lk_status reply_unknown(const char *verb, lk_error *err) {
	const char *names[ROWS];
	for (int i = 0; i < ROWS; i++) names[i] = rows[i]->verb->name;
	const char *near = lk_nearest(verb, names, ROWS);
	lk_fail(err, LK_ERR_INPUT, NULL, "unknown verb \"%.64s\"", verb);
	return near ? lk_hint(err, "did you mean %s?", near) : LK_ERR_INPUT;
}

static lk_status reply_ask(lk_reply *reply, const char *name, int count, const char *const *words,
                           const struct text *text, lk_error *err) {
	int at = 0;
	lk_args args;
	while (at < ROWS && strcmp(rows[at]->verb->name, name) != 0) at++;
	if (at == ROWS) return reply_unknown(name, err);
	LK_TRY(lk_args_parse(rows[at]->verb, count, words, &args, err));
	lk_status status = lk_args_check_empty(&args, err);
	if (args.help)
		status = lk_fail(err, LK_ERR_INPUT, "--help", "is for people: lockstep help %s", name);
	void *request = lk_arena_alloc(&reply->arena, rows[at]->verb->request_size);
	if (status == LK_OK && !request) status = lk_oom(err);
	if (status == LK_OK) status = reply_row(reply, rows[at], &args, text, request, err);
	lk_args_free(&args);
	return status;
}

lk_reply *lk_reply_ask(const char *verb, int count, const char *const *words, const char *input,
                       size_t size, const lk_stop *stop) {
	const struct text text = {input, size};
	lk_reply *reply = lk_reply_new();
	if (!reply) return NULL;
	lk_stop_watch(stop);
	return lk_reply_end(reply, reply_ask(reply, verb, count, words, &text, &reply->error), stop);
}

static lk_status write_verbs(const void *what, FILE *out, lk_error *err) {
	return lk_verbs_json(what, out, err);
}

lk_reply *lk_reply_verbs(void) {
	const lk_verb *all[ROWS - LISTS + 1] = {NULL};
	lk_reply *reply = lk_reply_new();
	if (!reply) return NULL;
	for (int i = LISTS; i < ROWS; i++) all[i - LISTS] = rows[i]->verb;
	return lk_reply_end(reply, lk_reply_write(reply, write_verbs, all, &reply->error), NULL);
}

/* ---- the reply ---- */

void lk_reply_free(lk_reply *reply) {
	if (!reply) return;
	lk_combinations_close(&reply->sweep);
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
