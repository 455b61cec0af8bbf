/* answer.c: the work of a child process: it turns fields into words, asks the verb (questions.c)
 * and sends the answer through a pipe. */
#include "base/arena.h"
#include "base/check.h"
#include "serve/serve_internal.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lockstep/catalogue.h"
#include "lockstep/predict.h"
#include "lockstep/view.h"
#include "system/clock.h"
#include "system/memory.h"

#define PROGRESS_S 0.1

struct child {
	const lk_question *question;
	int out;
	double reported; /* when progress was last reported */
	lk_arena arena;
	lk_serve_words words;
	lk_args args;
	lk_args command; /* `lockstep predict ...` in place of a launch line; verb NULL: none */
	FILE *answer;
	char *text;
	size_t size;
};

/* ---- frames ---- */

static void write_whole(int fd, const void *bytes, size_t size) {
	for (const char *p = bytes; size > 0;) {
		ssize_t n = write(fd, p, size);
		if (n < 0 && errno == EINTR) continue;
		if (n <= 0) return;
		p += n;
		size -= (size_t)n;
	}
}

static void write_frame(const struct child *child, lk_frame_kind kind, const void *bytes,
                        size_t size) {
	LK_ASSERT(size <= UINT32_MAX && (bytes || size == 0));
	lk_frame frame = {.kind = kind, .size = (uint32_t)size};
	write_whole(child->out, &frame, sizeof frame);
	write_whole(child->out, bytes, size);
}

static void write_progress_frame(void *context, int gpus, double done, double all) {
	struct child *child = context;
	double now = lk_clock_s();
	if (now - child->reported < PROGRESS_S && done < all) return;
	child->reported = now;
	lk_progress progress = {gpus, done, all};
	write_frame(child, LK_FRAME_PROGRESS, &progress, sizeof progress);
}

/* ---- files of the question ---- */

static lk_status write_question_file(const lk_serve_file *file, lk_error *err) {
	lk_json_writer w;
	FILE *out = fopen(file->name, "w");
	if (!out) return lk_fail(err, LK_ERR_IO, file->name, "cannot write: %s", strerror(errno));
	lk_status status = LK_OK;
	if (file->value->kind == LK_JSON_STRING) {
		fputs(file->value->text, out);
	} else {
		lk_json_begin(&w, out, false);
		lk_json_put_value(&w, NULL, file->value);
		status = lk_json_finish(&w, err);
	}
	bool lost = ferror(out) != 0;
	if ((fclose(out) != 0 || lost) && status == LK_OK)
		status = lk_fail(err, LK_ERR_IO, file->name, "cannot write: %s", strerror(errno));
	return status;
}

/* Whether a text contains a path out of the working folder: a '/' at its start or after "..".
 * "full/8" and the id of a network are no such paths, because the folder contains no folders. */
static bool leads_outside(const char *text) {
	for (const char *slash = strchr(text, '/'); slash; slash = strchr(slash + 1, '/'))
		if (slash == text || !(isalnum((unsigned char)slash[-1]) || strchr("_-", slash[-1])))
			return true;
	return false;
}

/* Whether a text of the object, which may name a network's file, leads outside. */
static bool member_leads_outside(const lk_value *object) {
	for (size_t i = 0; i < object->count; i++)
		if (object->items[i].kind == LK_JSON_STRING && leads_outside(object->items[i].text))
			return true;
	return false;
}

/* Refuses launch lines and scripts, which name further files, and texts that may be paths, unless
 * the kernel denies this process access to other files. */
static lk_status check_file_access(const struct child *child, bool confined, lk_error *err) {
	if (confined) return LK_OK;
	const char *where = child->words.launch_count > 0 ? "launch" : NULL;
	for (int i = 0; i < child->words.file_count && !where; i++)
		if (strcmp(child->words.files[i].name, "script.sh") == 0 ||
		    strcmp(child->words.files[i].name, "job") == 0 ||
		    strcmp(child->words.files[i].name, "ds_config.json") == 0)
			where = "launch";
		else if (strcmp(child->words.files[i].name, "rollout.json") == 0 &&
		         member_leads_outside(child->words.files[i].value))
			where = "--rollout";
	for (int i = 0; i < child->words.count && !where; i++)
		if (leads_outside(child->words.words[i])) where = child->words.words[i];
	if (!where) return LK_OK;
	char name[64];
	snprintf(name, sizeof name, "%.*s", (int)strcspn(where, "="), where);
	lk_fail(err, LK_ERR_INPUT, name,
	        "%s can name files, and this kernel cannot deny access to them",
	        strcmp(name, "launch") == 0 ? "launch lines and scripts" : "a text with a path");
	return lk_hint(err, "use lockstep %s, or Linux 5.13 or later with Landlock",
	               child->args.verb->name);
}

/* ---- what a launch line states ---- */

/* Writes an option as a field of a request; nothing if it is not given. */
static void put_field(lk_json_writer *writer, const lk_option *option, const void *field) {
	const char *name = option->name, *text;
	double number;
	int whole;
	switch (option->kind) {
	case LK_OPTION_FLAG:
		if (*(const bool *)field) lk_json_put_bool(writer, name, true);
		break;
	case LK_OPTION_SWITCH:
		whole = *(const int *)field;
		if (whole != 0) lk_json_put_bool(writer, name, whole > 0);
		break;
	case LK_OPTION_INT:
		whole = *(const int *)field;
		if (whole != 0) lk_json_put_integer(writer, name, whole);
		break;
	case LK_OPTION_REAL:
	case LK_OPTION_COUNT:
		number = *(const double *)field;
		if (number != 0) lk_json_put_number(writer, name, number);
		break;
	case LK_OPTION_CHOICE:
		whole = *(const int *)field;
		if (whole != 0) lk_json_put_text(writer, name, option->choices[whole]);
		break;
	case LK_OPTION_TEXT:
	case LK_OPTION_LINES:
		text = *(const char *const *)field;
		if (text) lk_json_put_text(writer, name, text);
		break;
	}
}

static void put_fields(lk_json_writer *writer, const char *key, const lk_predict_request *request) {
	lk_json_object(writer, key);
	for (const lk_option *option = lk_predict_verb.options; option->name; option++)
		if (!option->output) put_field(writer, option, (const char *)request + option->offset);
	lk_json_object_end(writer);
}

/* Joins the words after --, quoted for a shell; NULL: out of memory. */
static const char *join_words(lk_arena *arena, const char *const *words, int count) {
	const char *line = "";
	for (int i = 0; line && i < count; i++) {
		const char *word = lk_shell_quote(arena, words[i]);
		if (!word) return NULL;
		line = lk_arena_printf(arena, "%s%s%s", line, i ? " " : "", word);
	}
	return line;
}

/* Whether the question brought a file of this name. */
static bool is_sent(const struct child *child, const char *name) {
	bool sent = false;
	for (int i = 0; i < child->words.file_count && !sent; i++)
		sent = strcmp(child->words.files[i].name, name) == 0;
	return sent;
}

/* Reads the options of the command. Its operand is a network, or a launch line in quotes. A file
 * that was sent is a field of the question already and is left out. */
static lk_status read_command(struct child *child, lk_predict_request *request, lk_error *err) {
	lk_args *command = &child->command;
	lk_predict_defaults(request);
	LK_TRY(lk_args_fill(command, 0, request, err));
	if (command->operand_count > 0) {
		bool network = !request->model && lk_model_named(command->operands[0]);
		*(network ? &request->model : &request->config) = command->operands[0];
	}
	for (const lk_option *option = lk_predict_verb.options; option->name; option++) {
		const char *file = lk_serve_file_of(option);
		const char **text = (const char **)((char *)request + option->offset);
		if (file && *text && strcmp(*text, file) == 0 && is_sent(child, file)) *text = NULL;
	}
	return LK_OK;
}

static lk_status put_command(struct child *child, lk_json_writer *writer, lk_error *err) {
	lk_predict_request request;
	LK_TRY(read_command(child, &request, err));
	const char *line = join_words(&child->arena, child->words.launch, child->words.launch_count);
	if (!line) return lk_oom(err);
	lk_json_object(writer, "command");
	put_fields(writer, "options", &request);
	lk_json_put_text(writer, "launch", line);
	lk_json_object_end(writer);
	return LK_OK;
}

/* Writes {"line": fields of the line, "network": whether the line states one, "command":
 * {"options": fields, "launch": the line} or null}. */
static lk_status answer_stated(struct child *child, lk_error *err) {
	lk_predict_request r;
	lk_stated *stated = NULL;
	lk_json_writer w;
	lk_predict_defaults(&r);
	LK_TRY(lk_args_fill(&child->args, 0, &r, err));
	r.launch = child->words.launch;
	r.launch_count = child->words.launch_count;
	if (child->command.verb) {
		lk_predict_request command;
		LK_TRY(read_command(child, &command, err));
		if (command.config) r.config = command.config;
	}
	LK_TRY(lk_predict_stated(&r, &stated, err));
	lk_json_begin(&w, child->answer, true);
	lk_json_object(&w, NULL);
	put_fields(&w, "line", &stated->options);
	lk_json_put_bool(&w, "network", stated->network);
	lk_stated_free(stated);
	if (child->command.verb) LK_TRY(put_command(child, &w, err));
	else lk_json_put_null(&w, "command");
	lk_json_object_end(&w);
	return lk_json_finish(&w, err);
}

/* ---- the child ---- */

static lk_status fail_command_file(const char *where, lk_error *err) {
	lk_fail(err, LK_ERR_INPUT, "launch line", "%.80s names a file, and the server reads none",
	        where);
	return lk_hint(err, "leave it out, or use lockstep predict");
}

/* Refuses an operand that is no launch line in quotes, no network and no file that was sent. */
static lk_status check_command_operand(const struct child *child, lk_error *err) {
	const lk_args *command = &child->command;
	const char *operand = command->operand_count > 0 ? command->operands[0] : NULL;
	if (!operand || strstr(operand, " -") || is_sent(child, operand)) return LK_OK;
	if (!lk_args_given(command, "model") && lk_model_named(operand)) return LK_OK;
	return fail_command_file(operand, err);
}

/* Parses a command of lockstep in place of a launch line; the words after its -- become the launch
 * line. Options that name files are refused, unless the file was sent: the files are on the machine
 * of the client. */
static lk_status parse_command(struct child *child, lk_error *err) {
	lk_serve_words *words = &child->words;
	if (words->launch_count == 0 || strcmp(words->launch[0], "lockstep") != 0) return LK_OK;
	if (words->launch_count == 1 || strcmp(words->launch[1], lk_predict_verb.name) != 0) {
		lk_fail(err, LK_ERR_INPUT, "launch line", "it is a command of lockstep, but not predict");
		return lk_hint(err, "paste lockstep predict ..., or the launch line of a training program");
	}
	LK_TRY(lk_args_parse(&lk_predict_verb, words->launch_count - 2, words->launch + 2,
	                     &child->command, err));
	LK_TRY(lk_question_single(&child->command, "launch line", err));
	LK_TRY(check_command_operand(child, err));
	for (const lk_option *option = lk_predict_verb.options; option->name; option++) {
		lk_serve_form form = lk_serve_form_of(option);
		const char *content = lk_serve_file_of(option);
		bool file = form == LK_FIELD_REFUSED || form == LK_FIELD_FILE || form == LK_FIELD_CONTENT;
		if (!file || option->output || !lk_args_given(&child->command, option->name)) continue;
		if (content && is_sent(child, content)) continue;
		return fail_command_file(lk_arena_printf(&child->arena, "--%s", option->name), err);
	}
	LK_ASSERT(child->command.verb == &lk_predict_verb);
	words->launch = child->command.rest;
	words->launch_count = child->command.rest_count;
	return LK_OK;
}

/* Parses the words of the fields, then, if the verb takes operands, the files that were sent. */
static lk_status parse_question(struct child *child, lk_error *err) {
	const lk_question *question = child->question;
	const lk_verb *verb = lk_question_verb(question->kind);
	LK_TRY(
		lk_serve_fields(verb, question->body, question->size, &child->arena, &child->words, err));
	const char **words = LK_ARRAY(&child->arena, const char *,
	                              (size_t)child->words.count + (size_t)question->trace_count + 1);
	if (!words) return lk_oom(err);
	LK_ASSERT(verb != NULL && question->trace_count >= 0);
	int count = 0, files = verb->max_operands ? question->trace_count : 0;
	for (int i = 0; i < child->words.count; i++) words[count++] = child->words.words[i];
	for (int i = 0; i < files; i++) words[count++] = question->traces[i];
	return lk_args_parse(verb, count, words, &child->args, err);
}

static lk_status answer_verb(struct child *child, lk_error *err) {
	lk_asked asked = {.question = child->question,
	                  .args = &child->args,
	                  .launch = child->words.launch,
	                  .launch_count = child->words.launch_count,
	                  .progress = write_progress_frame,
	                  .context = child,
	                  .out = child->answer};
	return lk_question_ask(&asked, err);
}

static lk_status answer_confined(struct child *child, lk_error *err) {
	bool stated = child->question->form == LK_FORM_STATED;
	if (chdir(child->question->folder) != 0)
		return lk_fail(err, LK_ERR_IO, child->question->folder, "cannot enter: %s",
		               strerror(errno));
	/* Confine this process before it reads what was sent. */
	bool confined = lk_confine_files(true);
	LK_TRY(parse_question(child, err));
	if (stated) LK_TRY(parse_command(child, err));
	LK_TRY(check_file_access(child, confined, err));
	for (int i = 0; i < child->words.file_count; i++)
		LK_TRY(write_question_file(&child->words.files[i], err));
	lk_confine_files(lk_question_writes(child->question));
	child->answer = lk_memory_open(&child->text, &child->size);
	if (!child->answer) return lk_oom(err);
	lk_status status = stated ? answer_stated(child, err) : answer_verb(child, err);
	/* The question named a file: reveal neither its content nor whether it exists. */
	if (status == LK_ERR_IO) {
		char where[sizeof err->where];
		memcpy(where, err->where, sizeof where);
		lk_fail(err, LK_ERR_INPUT, where, "is not among the files that were sent");
		return lk_hint(err, "the server reads no others; leave it out, or use lockstep %s",
		               child->args.verb->name);
	}
	LK_TRY(status);
	return lk_memory_close(child->answer) ? LK_OK : lk_oom(err);
}

void lk_answer(const lk_question *question, int out) {
	struct child c = {.question = question, .out = out};
	lk_error err = {0};
	lk_confine_limits(&question->limits);
	if (answer_confined(&c, &err) == LK_OK) write_frame(&c, LK_FRAME_ANSWER, c.text, c.size);
	else write_frame(&c, LK_FRAME_ERROR, &err, sizeof err);
}
