/* fuzz_emit.c: whatever is a program, with whatever schedules are legal, becomes C with balanced
 * brackets, or there is a reason why not; its declarations likewise. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "lang/rewrite/rewrite.h"
#include "lang/emit/emit.h"
#include "lang/syntax/parse.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Outside of comments, strings and characters. */
static void check_brackets(const char *text) {
	int open = 0;
	for (const char *at = text; *at; at++) {
		if (at[0] == '/' && at[1] == '*') {
			for (at += 2; !(at[0] == '*' && at[1] == '/'); at++)
				if (!*at) abort();
			at++;
		} else if (*at == '"' || *at == '\'') {
			char quote = *at;
			for (at++; *at != quote; at++) {
				if (*at == '\\') at++;
				if (!*at || *at == '\n') abort();
			}
		} else
			open += (*at == '{') + (*at == '(') + (*at == '[') - (*at == '}') - (*at == ')') -
			        (*at == ']');
		if (open < 0) abort();
	}
	if (open) abort();
}

static void write_both(const lc_program *program, const lc_variant *variant) {
	for (int header = 0; header < 2; header++) {
		char *text = NULL;
		size_t size = 0;
		lk_error err = {0};
		FILE *out = open_memstream(&text, &size);
		if (!out) return;
		lk_status status = header ? lc_emit_header(program, variant, 1, false, out, &err)
		                          : lc_emit_mpi(program, variant, 1, out, &err);
		if (fclose(out) == 0 && status == LK_OK) check_brackets(text);
		if (status != LK_OK && !err.what[0]) abort();
		free(text);
	}
}

static void make(const lc_program *program, const lc_schedule *schedule) {
	lc_program *q = NULL;
	lc_steps *steps = NULL;
	lk_error err = {0};
	if (lc_rewrite_all(program, schedule, &q, &err) == LK_OK &&
	    lc_steps_joined(q, &q, &steps, &err) == LK_OK) {
		lc_variant v = {.name = schedule ? schedule->name : "plain", .program = q, .steps = steps};
		write_both(program, &v);
	}
	lc_steps_free(steps);
	lc_program_free(q);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	lc_file *file = NULL;
	lk_error err = {0};
	if (lc_parse("fuzz", (const char *)data, size, &file, &err) == LK_OK)
		for (size_t i = 0; i < file->programs.count; i++) {
			const lc_program *program = file->programs.at[i];
			make(program, NULL);
			for (size_t k = 0; k < program->schedules.count; k++)
				make(program, &program->schedules.at[k]);
		}
	lc_file_free(file);
	return 0;
}
