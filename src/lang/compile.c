/* compile.c: `lockstep compile`: a file read and checked; what is said about it. */
#include "lockstep/compile.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/stream.h"
#include "base/text.h"
#include "lang/program.h"

struct lk_compile {
	lc_file *file;
	char *text;
	size_t size;
};

static const char *const actions[] = {[LK_COMPILE_CHECK] = "check", [LK_COMPILE_PRINT] = "print"};
enum { ACTIONS = sizeof actions / sizeof *actions };

lk_status lk_compile_action_find(const char *name, int *out, lk_error *err) {
	for (int i = 0; i < ACTIONS; i++)
		if (strcmp(actions[i], name) == 0) return *out = i, LK_OK;
	const char *near = lk_nearest(name, actions, ACTIONS);
	lk_fail(err, LK_ERR_INPUT, "compile", "there is no action \"%.64s\"", name);
	return near ? lk_hint(err, "do you mean %s?", near) : lk_hint(err, "give check or print, then the file");
}

/* ---- reading ---- */

static lk_status take(const char *name, char *text, size_t size, lk_compile **out, lk_error *err) {
	*out = calloc(1, sizeof **out);
	if (!*out) {
		free(text);
		return lk_oom(err);
	}
	(*out)->text = text, (*out)->size = size;
	return lc_parse(name, text, size, &(*out)->file, err);
}

lk_status lk_compile_text(const char *name, const char *text, size_t size, lk_compile **out, lk_error *err) {
	*out = NULL;
	char *copy = malloc(size + 1);
	if (!copy) return lk_oom(err);
	if (size) memcpy(copy, text, size);
	copy[size] = '\0';
	return take(name, copy, size, out, err);
}

lk_status lk_compile_read(const char *path, lk_compile **out, lk_error *err) {
	char *text = NULL;
	size_t size = 0;
	*out = NULL;
	LK_TRY(lk_stream_slurp(path, LC_TEXT_LIMIT, &text, &size, err));
	return take(strcmp(path, "-") == 0 ? "standard input" : path, text, size, out, err);
}

void lk_compile_free(lk_compile *answer) {
	if (!answer) return;
	lc_file_free(answer->file);
	free(answer->text);
	free(answer);
}

/* ---- the place of an error ---- */

enum { CARET_WIDTH = 160 }; /* longer lines are shown from before the place on */

void lk_compile_caret(const lk_compile *answer, FILE *out) {
	if (!answer || !answer->file || answer->file->mistake.line == 0) return;
	const char *line = answer->text, *end = answer->text + answer->size;
	for (int i = 1; i < answer->file->mistake.line && line < end; i++) {
		const char *next = memchr(line, '\n', (size_t)(end - line));
		line = next ? next + 1 : end;
	}
	size_t column = (size_t)answer->file->mistake.column - 1, length = 0;
	while (line + length < end && line[length] != '\n' && line[length] != '\r') length++;
	size_t from = column > CARET_WIDTH / 2 ? column - CARET_WIDTH / 2 : 0;
	char part[CARET_WIDTH + 1], shown[4 * CARET_WIDTH + 1];
	size_t count = from < length ? length - from : 0;
	if (count > CARET_WIDTH) count = CARET_WIDTH;
	for (size_t i = 0; i < count; i++)
		part[i] = line[from + i] == '\t' || line[from + i] == '\0' ? ' ' : line[from + i];
	part[count] = '\0';
	fprintf(out, "%5d | %s\n      | %*s^\n", answer->file->mistake.line, lk_escape(part, shown, sizeof shown),
			(int)(column - from), "");
}

/* ---- check ---- */

static int count_of(const lc_program *p, lc_op op) {
	int count = 0;
	for (size_t i = 0; i < p->nodes.count; i++) count += p->nodes.at[i].op == op;
	return count;
}

static void put_count(FILE *out, int count, const char *what) {
	fprintf(out, ", %d %s%s", count, what, count == 1 ? "" : "s");
}

static void check_text(const lc_file *file, FILE *out) {
	char value[256], divisor[256];
	for (size_t i = 0; i < file->programs.count; i++) {
		const lc_program *p = file->programs.at[i];
		fprintf(out, "program %s: ok", p->name);
		put_count(out, (int)p->nodes.count, "value");
		put_count(out, count_of(p, LC_UPDATE), "update");
		put_count(out, count_of(p, LC_OUT), "output");
		fputc('\n', out);
		for (size_t k = 0; k < p->conditions.count; k++)
			fprintf(out, "  needs %s %% %s == 0\n", lc_dim_text(p, p->conditions.at[k].value, value, sizeof value),
			        lc_dim_text(p, p->conditions.at[k].divisor, divisor, sizeof divisor));
		for (size_t k = 0; k < p->schedules.count; k++) {
			fprintf(out, "  schedule %s: ok", p->schedules.at[k].name);
			put_count(out, p->schedules.at[k].count, "directive");
			fputc('\n', out);
		}
	}
}

/* ---- JSON ---- */

/* What a printer writes, as a member. */
static void json_printed(lk_json_writer *w, const char *key, const lc_program *p, const lc_node *n, const lc_directive *d) {
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);
	if (!out) return;
	if (d) lc_print_directive(d, out);
	else lc_print_attributes(p, n, out);
	fclose(out);
	if (d || (text && *text)) lk_json_put_text(w, key, text);
	free(text);
}

static void json_value(lk_json_writer *w, const lc_program *p, int id) {
	const lc_node *n = &p->nodes.at[id];
	char text[256];
	lk_json_object(w, NULL);
	lk_json_put_integer(w, "id", id);
	lk_json_put_text(w, "op", lc_ops[n->op].name);
	lk_json_put_text(w, "name", n->name);
	lk_json_put_text(w, "dtype", lc_dtype_name((lc_dtype)n->dtype));
	lk_json_array(w, "operands");
	for (int i = 0; i < n->inputs; i++) lk_json_put_integer(w, NULL, n->in[i]);
	lk_json_array_end(w);
	lk_json_array(w, "shape");
	for (int i = 0; i < n->rank; i++) lk_json_put_text(w, NULL, lc_dim_text(p, n->dim[i], text, sizeof text));
	lk_json_array_end(w);
	lk_json_array(w, "layout");
	for (int a = 0; a < p->axis_count; a++)
		lk_json_put_text(w, NULL, lc_layout_text(p, &n->layout[a], a, text, sizeof text));
	lk_json_array_end(w);
	json_printed(w, "attributes", p, n, NULL);
	if (n->op == LC_SIZE) lk_json_put_text(w, "of", n->axis >= 0 ? p->axes[n->axis].name : p->named[n->symbol].name);
	if (n->op == LC_CONST) lk_json_put_number(w, "number", n->number);
	if (n->list >= 0) lk_json_put_text(w, "list", p->lists.at[n->list]);
	if (n->at.axis >= 0) lk_json_put_text(w, "at", lc_group_text(p, &n->at, text, sizeof text));
	lk_json_put_integer(w, "line", n->line);
	lk_json_put_integer(w, "column", n->column);
	lk_json_object_end(w);
}

static void json_schedules(lk_json_writer *w, const lc_program *p) {
	lk_json_array(w, "schedules");
	for (size_t i = 0; i < p->schedules.count; i++) {
		lk_json_object(w, NULL);
		lk_json_put_text(w, "name", p->schedules.at[i].name);
		lk_json_array(w, "directives");
		for (int k = 0; k < p->schedules.at[i].count; k++)
			json_printed(w, NULL, p, NULL, &p->schedules.at[i].directives[k]);
		lk_json_array_end(w);
		lk_json_object_end(w);
	}
	lk_json_array_end(w);
}

static void json_program(lk_json_writer *w, const lc_program *p, bool values) {
	char text[256];
	lk_json_object(w, NULL);
	lk_json_put_text(w, "name", p->name);
	lk_json_array(w, "mesh");
	for (int a = 0; a < p->axis_count; a++) lk_json_put_text(w, NULL, p->axes[a].name);
	lk_json_array_end(w);
	lk_json_array(w, "conditions");
	for (size_t i = 0; i < p->conditions.count; i++) {
		lk_json_object(w, NULL);
		lk_json_put_text(w, "value", lc_dim_text(p, p->conditions.at[i].value, text, sizeof text));
		lk_json_put_text(w, "divisor", lc_dim_text(p, p->conditions.at[i].divisor, text, sizeof text));
		lk_json_object_end(w);
	}
	lk_json_array_end(w);
	json_schedules(w, p);
	if (values) {
		lk_json_array(w, "values");
		for (size_t i = 0; i < p->nodes.count; i++) json_value(w, p, (int)i);
		lk_json_array_end(w);
	}
	lk_json_object_end(w);
}

static lk_status json(const lc_file *file, bool values, FILE *out, lk_error *err) {
	lk_json_writer w;
	lk_json_begin(&w, out, false);
	lk_json_object(&w, NULL);
	lk_json_put_text(&w, "file", file->path);
	lk_json_array(&w, "programs");
	for (size_t i = 0; i < file->programs.count; i++) json_program(&w, file->programs.at[i], values);
	lk_json_array_end(&w);
	lk_json_object_end(&w);
	return lk_json_finish(&w, err);
}

lk_status lk_compile_print(const lk_compile *answer, const lk_compile_request *request, FILE *out, lk_error *err) {
	const lc_file *file = answer->file;
	bool check = request->action == LK_COMPILE_CHECK;
	if (request->format == LK_COMPILE_JSON) return json(file, !check, out, err);
	if (check) check_text(file, out);
	else if (!request->ir) lc_print_file(file, out);
	for (size_t i = 0; i < file->programs.count && request->ir && !check; i++)
		lc_print_listing(file->programs.at[i], out);
	return LK_OK;
}

/* ---- options ---- */

static const char *const formats[] = {"text", "json", NULL};

static const lk_option options[] = {
	{"output", 'o', LK_OPTION_CHOICE, offsetof(lk_compile_request, format), false, 0, 0, formats, "FORMAT", "Output",
	 "how it is written"},
	{"ir", 0, LK_OPTION_FLAG, offsetof(lk_compile_request, ir), false, 0, 0, NULL, NULL, NULL,
	 "with print: the values with their types, instead of the program"},
	{0},
};

static const char *const examples[] = {
	"lockstep compile check examples/lang/adam.lk", "whether the program is right, and what its sizes must divide",
	"lockstep compile print examples/lang/tp_out.lk --ir", "every value with format, shape and layout",
	"lockstep compile print adam.lk -o json", "the same for other programs",
	NULL,
};

const lk_verb lk_compile_verb = {
	.name = "compile",
	.summary = "programs of computation and communication: checked and printed",
	.operands = "check|print FILE...",
	.description =
		"Reads programs in lockstep's language: tensors with a layout over each axis of a mesh, computation and "
		"collectives in one text, schedules beside it. docs/LANGUAGE.md has the language.\n"
		"\n"
		"check says whether formats, shapes and layouts fit together. What is wrong is named with line, column and the "
		"cheapest repair. print writes the programs back in one form. FILE may be - for standard input.",
	.options = options,
	.examples = examples,
	.request_size = sizeof(lk_compile_request),
	.min_operands = 2,
	.max_operands = -1,
};
