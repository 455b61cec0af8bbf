/* fuzz_lang.c: any text is programs or one error at a place; what was read is printed as a text that reads back as the
 * same programs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lang/program.h"
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
	for (size_t i = 0; i < file->programs.count; i++) lc_print_listing(file->programs.at[i], nothing);
	lc_file_free(again);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	lc_file *file = NULL;
	lk_compile *answer = NULL;
	lk_error err = {0};
	FILE *nothing = fopen("/dev/null", "w");
	if (!nothing) return 0;
	if (lc_parse("fuzz", (const char *)data, size, &file, &err) == LK_OK) round_trip(file, nothing);
	else if (!err.what[0]) abort();
	else if (lk_compile_text("fuzz", (const char *)data, size, &answer, &err) != LK_OK) lk_compile_caret(answer, nothing);
	lk_compile_free(answer);
	lc_file_free(file);
	fclose(nothing);
	return 0;
}
