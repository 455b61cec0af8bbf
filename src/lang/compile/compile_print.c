/* compile_print.c: `lockstep compile check` and `print`. */
#include <stdlib.h>

#include "io/json.h"
#include "lang/compile/compile.h"

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

void lc_json_program(lk_json_writer *w, const lc_program *p, bool values) {
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
	for (size_t i = 0; i < file->programs.count; i++) lc_json_program(&w, file->programs.at[i], values);
	lk_json_array_end(&w);
	lk_json_object_end(&w);
	return lk_json_finish(&w, err);
}

lk_status lc_do_check(lk_compile *answer, const lk_compile_request *request, FILE *out, lk_error *err) {
	if (request->format == LK_COMPILE_JSON) return json(answer->file, false, out, err);
	check_text(answer->file, out);
	return LK_OK;
}

lk_status lc_do_print(lk_compile *answer, const lk_compile_request *request, FILE *out, lk_error *err) {
	const lc_file *file = answer->file;
	if (request->format == LK_COMPILE_JSON) return json(file, true, out, err);
	if (!request->ir) lc_print_file(file, out);
	for (size_t i = 0; i < file->programs.count && request->ir; i++) lc_print_listing(file->programs.at[i], out);
	return LK_OK;
}
