/* fuzz_lang.c: any text is programs or one error at a place; what was read, and what schedules make
 * of it, is printed as a text that reads back as the same programs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lang/rewrite/rewrite.h"
#include "lang/syntax/parse.h"
#include "lockstep/compile.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void round_trip(const lc_file *file, FILE *nothing) {
	char *text = NULL;
	size_t length = 0;
	lc_file *again = NULL;
	lk_error err = {0};
	FILE *out = open_memstream(&text, &length);
	if (!out) return;
	lc_print_file(file, out);
	fclose(out);
	if (length <= LC_TEXT_LIMIT) {
		if (lc_parse("again", text, length, &again, &err) != LK_OK) abort();
		for (size_t i = 0; i < file->programs.count; i++)
			if (!lc_program_equal(file->programs.at[i], again->programs.at[i])) abort();
	}
	for (size_t i = 0; i < file->programs.count; i++)
		lc_print_listing(file->programs.at[i], nothing);
	lc_file_free(again);
	free(text);
}

/* A rewritten program reads back with its bundles as a schedule, and that schedule makes the same
 * of it. */
static void check_rewritten(const lc_program *program) {
	char *text = NULL;
	size_t length = 0;
	lc_file *file = NULL;
	lc_program *settled = NULL, *again = NULL;
	lc_schedule bundles;
	lk_error err = {0};
	FILE *out = open_memstream(&text, &length);
	if (!out || lc_rewrite_all(program, NULL, &settled, &err) != LK_OK ||
	    lc_settle_rewritten(settled, &err) != LK_OK)
		abort();
	if (lc_bundles_schedule(settled, "bundles", &bundles, &err) != LK_OK) abort();
	lc_print_program(settled, out);
	if (bundles.count) lc_print_schedule(settled, &bundles, out);
	fclose(out);
	if (length <= LC_TEXT_LIMIT) {
		if (lc_parse("rewritten", text, length, &file, &err) != LK_OK) abort();
		const lc_program *read = file->programs.at[0];
		if (lc_rewrite_all(read, read->schedules.count ? read->schedules.at : NULL, &again, &err) !=
		    LK_OK)
			abort();
		if (lc_program_hash(program) != lc_program_hash(again)) abort();
	}
	lc_program_free(settled);
	lc_program_free(again);
	lc_file_free(file);
	free(text);
}

static void rewrite(const lc_program *program) {
	lk_error err = {0};
	lc_moves moves = {0};
	for (size_t i = 0; i < program->schedules.count; i++) {
		lc_program *made = NULL;
		if (lc_rewrite_all(program, &program->schedules.at[i], &made, &err) != LK_OK) abort();
		check_rewritten(made);
		lc_program_free(made);
	}
	if (program->nodes.count > 100 || lc_rewrite_moves(program, 2, &moves, &err) != LK_OK) return;
	for (size_t i = 0; i < moves.count && i < 20; i++) {
		lc_program *made = NULL;
		if (lc_rewrite(program, &moves.at[i], &made, &err) == LK_OK) check_rewritten(made);
		lc_program_free(made);
	}
	lk_vec_free(&moves);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	lc_file *file = NULL;
	lk_compile *answer = NULL;
	lk_error err = {0};
	FILE *nothing = fopen("/dev/null", "w");
	if (!nothing) return 0;
	if (lc_parse("fuzz", (const char *)data, size, &file, &err) == LK_OK) {
		round_trip(file, nothing);
		for (size_t i = 0; i < file->programs.count; i++) rewrite(file->programs.at[i]);
	} else if (!err.what[0]) abort();
	else if (lk_compile_text("fuzz", (const char *)data, size, &answer, &err) != LK_OK)
		lk_compile_caret(answer, nothing);
	lk_compile_free(answer);
	lc_file_free(file);
	fclose(nothing);
	return 0;
}
