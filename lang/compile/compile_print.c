/* compile_print.c: `lockstep compile check` and `print`. */
#include <stdlib.h>

#include "io/json.h"
#include "lang/compile/compile.h"
#include "base/check.h"
#include "system/memory.h"
#include "base/noun.h"

/* ---- check ---- */

static int count_of(const lc_program *program, lc_op op) {
	int count = 0;
	for (size_t i = 0; i < program->nodes.count; i++) count += program->nodes.at[i].op == op;
	return count;
}

static void compile_print_put_count(FILE *out, int count, const char *what) {
	fprintf(out, ", %d %s%s", count, what, lk_noun(count, "", "s"));
}

static void compile_print_check_text(const lc_file *file, FILE *out) {
	char value[256], divisor[256];
	for (size_t i = 0; i < file->programs.count; i++) {
		const lc_program *program = file->programs.at[i];
		fprintf(out, "program %s: ok", program->name);
		compile_print_put_count(out, (int)program->nodes.count, "value");
		compile_print_put_count(out, count_of(program, LC_UPDATE), "update");
		compile_print_put_count(out, count_of(program, LC_OUT), "output");
		fputc('\n', out);
		for (size_t k = 0; k < program->conditions.count; k++)
			fprintf(
				out, "  needs %s %% %s == 0\n",
				lc_dim_text(program, program->conditions.at[k].value, value, sizeof value),
				lc_dim_text(program, program->conditions.at[k].divisor, divisor, sizeof divisor));
		for (size_t k = 0; k < program->schedules.count; k++) {
			fprintf(out, "  schedule %s: ok", program->schedules.at[k].name);
			compile_print_put_count(out, program->schedules.at[k].count, "directive");
			fputc('\n', out);
		}
	}
}

/* ---- JSON ---- */

/* Add a printer's output as a member. */
static void json_printed(lk_json_writer *writer, const char *key, const lc_program *program,
                         const lc_node *node, const lc_directive *directive) {
	char *text = NULL;
	size_t size = 0;
	FILE *out = lk_memory_open(&text, &size);
	if (!out) {
		writer->out_of_memory = true;
		return;
	}
	if (directive) lc_print_directive(directive, out);
	else lc_print_attributes(program, node, out);
	if (!lk_memory_text(out, &text)) writer->out_of_memory = true;
	else if (directive || *text) lk_json_put_text(writer, key, text);
	free(text);
}

static void json_value(lk_json_writer *writer, const lc_program *program, int id) {
	LK_ASSERT(id >= 0 && (size_t)id < program->nodes.count);
	const lc_node *node = &program->nodes.at[id];
	char text[256];
	lk_json_object(writer, NULL);
	lk_json_put_integer(writer, "id", id);
	lk_json_put_text(writer, "op", lc_ops[node->op].name);
	lk_json_put_text(writer, "name", node->name);
	lk_json_put_text(writer, "dtype", lc_dtype_name((lc_dtype)node->dtype));
	lk_json_array(writer, "operands");
	for (int i = 0; i < node->inputs; i++) lk_json_put_integer(writer, NULL, node->in[i]);
	lk_json_array_end(writer);
	lk_json_array(writer, "shape");
	for (int i = 0; i < node->rank; i++)
		lk_json_put_text(writer, NULL, lc_dim_text(program, node->dim[i], text, sizeof text));
	lk_json_array_end(writer);
	lk_json_array(writer, "layout");
	for (int a = 0; a < program->axis_count; a++)
		lk_json_put_text(writer, NULL,
		                 lc_layout_text(program, &node->layout[a], a, text, sizeof text));
	lk_json_array_end(writer);
	json_printed(writer, "attributes", program, node, NULL);
	if (node->op == LC_SIZE)
		lk_json_put_text(writer, "of",
		                 node->axis >= 0 ? program->axes[node->axis].name
		                                 : program->named[node->symbol].name);
	if (node->op == LC_CONST) lk_json_put_number(writer, "number", node->number);
	if (node->list >= 0) lk_json_put_text(writer, "list", program->lists.at[node->list]);
	if (node->at.axis >= 0)
		lk_json_put_text(writer, "at", lc_group_text(program, &node->at, text, sizeof text));
	lk_json_put_integer(writer, "line", node->line);
	lk_json_put_integer(writer, "column", node->column);
	lk_json_object_end(writer);
}

static void json_schedules(lk_json_writer *writer, const lc_program *program) {
	lk_json_array(writer, "schedules");
	for (size_t i = 0; i < program->schedules.count; i++) {
		lk_json_object(writer, NULL);
		lk_json_put_text(writer, "name", program->schedules.at[i].name);
		lk_json_array(writer, "directives");
		for (int k = 0; k < program->schedules.at[i].count; k++)
			json_printed(writer, NULL, program, NULL, &program->schedules.at[i].directives[k]);
		lk_json_array_end(writer);
		lk_json_object_end(writer);
	}
	lk_json_array_end(writer);
}

void lc_json_program(lk_json_writer *writer, const lc_program *program, bool values) {
	char text[256];
	lk_json_object(writer, NULL);
	lk_json_put_text(writer, "name", program->name);
	lk_json_array(writer, "mesh");
	for (int a = 0; a < program->axis_count; a++)
		lk_json_put_text(writer, NULL, program->axes[a].name);
	lk_json_array_end(writer);
	lk_json_array(writer, "conditions");
	for (size_t i = 0; i < program->conditions.count; i++) {
		lk_json_object(writer, NULL);
		lk_json_put_text(writer, "value",
		                 lc_dim_text(program, program->conditions.at[i].value, text, sizeof text));
		lk_json_put_text(
			writer, "divisor",
			lc_dim_text(program, program->conditions.at[i].divisor, text, sizeof text));
		lk_json_object_end(writer);
	}
	lk_json_array_end(writer);
	json_schedules(writer, program);
	if (values) {
		lk_json_array(writer, "values");
		for (size_t i = 0; i < program->nodes.count; i++) json_value(writer, program, (int)i);
		lk_json_array_end(writer);
	}
	lk_json_object_end(writer);
}

static lk_status compile_print_json(const lc_file *file, bool values, FILE *out, lk_error *err) {
	lk_json_writer w;
	lk_json_begin(&w, out, false);
	lk_json_object(&w, NULL);
	lk_json_put_head(&w, values ? "lockstep/compile-print/1" : "lockstep/compile-check/1", NULL);
	lk_json_put_text(&w, "file", file->path);
	lk_json_array(&w, "programs");
	for (size_t i = 0; i < file->programs.count; i++)
		lc_json_program(&w, file->programs.at[i], values);
	lk_json_array_end(&w);
	lk_json_object_end(&w);
	return lk_json_finish(&w, err);
}

lk_status lc_do_check(lk_compile *answer, const lk_compile_request *request, FILE *out,
                      lk_error *err) {
	if (request->format == LK_COMPILE_JSON)
		return compile_print_json(answer->file, false, out, err);
	compile_print_check_text(answer->file, out);
	return LK_OK;
}

lk_status lc_do_print(lk_compile *answer, const lk_compile_request *request, FILE *out,
                      lk_error *err) {
	const lc_file *file = answer->file;
	if (request->format == LK_COMPILE_JSON) return compile_print_json(file, true, out, err);
	if (!request->ir) lc_print_file(file, out);
	for (size_t i = 0; i < file->programs.count && request->ir; i++)
		lc_print_listing(file->programs.at[i], out);
	return LK_OK;
}
