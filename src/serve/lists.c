/* lists.c: the catalogues as the verbs print them, the option tables, the parts of reports. */
#include "serve/serve_internal.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "io/json.h"
#include "lockstep/catalogue.h"
#include "lockstep/rent.h"
#include "lockstep/report.h"
#include "lockstep/view.h"
#include "system/memory.h"

static void put_option_json(lk_json_writer *writer, const lk_option *option, const char *group) {
	lk_serve_form form = lk_serve_form_of(option);
	lk_json_object(writer, NULL);
	lk_json_put_text(writer, "name", option->name);
	lk_json_put_text(writer, "type", lk_serve_form_names[form].key);
	lk_json_put_bool(writer, "integer", option->kind == LK_OPTION_INT);
	lk_json_put_bool(writer, "list", option->sweep);
	if (option->kind == LK_OPTION_LINES) lk_json_put_bool(writer, "repeats", true);
	if (option->low != 0 || option->high != 0) {
		lk_json_put_number(writer, "low", option->low);
		lk_json_put_number(writer, "high", option->high);
	}
	if (option->choices) {
		lk_json_array(writer, "choices");
		for (const char *const *c = option->choices; *c; c++) lk_json_put_text(writer, NULL, *c);
		lk_json_array_end(writer);
	}
	lk_json_put_text(writer, "value", option->value);
	if (lk_serve_file_of(option)) lk_json_put_text(writer, "file", lk_serve_file_of(option));
	lk_json_put_text(writer, "group", group);
	lk_json_put_text(writer, "help", option->help);
	lk_json_object_end(writer);
}

static lk_status print_options_json(FILE *out, lk_error *err) {
	lk_json_writer w;
	lk_json_begin(&w, out, false);
	lk_json_object(&w, NULL);
	for (lk_question_kind kind = 0; kind < LK_ASK_KINDS; kind++) {
		const lk_verb *verb = lk_question_verb(kind);
		if (kind == LK_ASK_SWEEP) continue; /* it has the options of predict */
		const char *group = NULL;
		lk_json_array(&w, verb->name);
		for (const lk_option *option = verb->options; option->name; option++) {
			if (option->group) group = option->group;
			put_option_json(&w, option, group);
		}
		lk_json_array_end(&w);
	}
	lk_json_object_end(&w);
	return lk_json_finish(&w, err);
}

static lk_status print_models_json(FILE *out, lk_error *err) {
	return lk_models_print(NULL, LK_OUTPUT_JSON, true, false, NULL, out, err);
}

static lk_status print_gpus_json(FILE *out, lk_error *err) {
	return lk_devices_print(NULL, LK_OUTPUT_JSON, true, false, NULL, out, err);
}

static lk_status print_machines_json(FILE *out, lk_error *err) {
	lk_machines_request request;
	lk_machines_defaults(&request);
	return lk_machines_print(&request, LK_OUTPUT_JSON, true, false, NULL, out, err);
}

static lk_status keep_printed_list(lk_list_text *text, lk_status (*print)(FILE *, lk_error *),
                                   lk_error *err) {
	FILE *out = lk_memory_open(&text->text, &text->size);
	if (!out) return lk_oom(err);
	lk_status status = print(out, err);
	if (!lk_memory_close(out) && status == LK_OK) status = lk_oom(err);
	return status;
}

lk_status lk_lists_make(lk_lists *lists, lk_error *err) {
	*lists = (lk_lists){0};
	LK_TRY(keep_printed_list(&lists->models, print_models_json, err));
	LK_TRY(keep_printed_list(&lists->gpus, print_gpus_json, err));
	LK_TRY(keep_printed_list(&lists->machines, print_machines_json, err));
	LK_TRY(keep_printed_list(&lists->style, lk_report_style, err));
	LK_TRY(keep_printed_list(&lists->script, lk_report_script, err));
	return keep_printed_list(&lists->options, print_options_json, err);
}

void lk_lists_free(lk_lists *lists) {
	free(lists->models.text);
	free(lists->gpus.text);
	free(lists->machines.text);
	free(lists->options.text);
	free(lists->style.text);
	free(lists->script.text);
	*lists = (lk_lists){0};
}
