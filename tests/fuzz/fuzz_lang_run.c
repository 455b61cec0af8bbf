/* fuzz_lang_run.c: any text is sizes, behind a line of which a program may follow: both are read or
 * refused; what was read is run in both arithmetics, within limits, and its results put together;
 * ranks agree. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lang/run/run.h"
#include "lang/run/run_internal.h"
#include "lang/syntax/parse.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void put_together(lc_run *run, const lc_program *program, const lc_sizes *sizes) {
	int ids[LC_VALUES], count;
	lk_error err = {0};
	if (lc_results(program, ids, LC_VALUES, &count, &err) != LK_OK) abort();
	for (int i = 0; i < count; i++)
		for (int64_t item = 0; item < lc_items(program, sizes, &program->nodes.at[ids[i]]);
		     item++) {
			const lc_cells *whole;
			if (lc_run_whole_of(run, ids[i], item, 0, &whole, &err) == LK_ERR_INTERNAL) abort();
		}
}

static void run_with(const lc_program *program, const lc_sizes *sizes, lc_arithmetic arithmetic) {
	lc_run *run, *bounds;
	lk_error err = {0};
	lc_run_options o = {
		.arithmetic = arithmetic, .seed = 1, .key = 2, .cells = 1 << 18, .work = 1 << 20};
	if (lc_ranks(program, sizes) > 64) return;
	lk_status status = lc_run_program(program, sizes, &o, &run, &err);
	if (status == LK_ERR_INTERNAL || (status != LK_OK && !err.what[0])) abort();
	if (status != LK_OK) return;
	put_together(run, program, sizes);
	if (arithmetic == LC_NUMERIC) {
		lc_choices choices;
		status = lc_run_bounds(run, &bounds, &choices, &err);
		lc_choices_free(&choices);
		if (status == LK_ERR_INTERNAL) abort();
		if (status == LK_OK) lc_run_free(bounds);
	}
	lc_run_free(run);
}

static void run_file(const lc_file *file, const char *text) {
	for (size_t i = 0; i < file->programs.count; i++) {
		lc_sizes s;
		lk_error err = {0};
		const lc_program *program = file->programs.at[i];
		lk_status status = lc_sizes_read(program, text, 3, &s, &err);
		if (status == LK_ERR_INTERNAL || (status != LK_OK && !err.what[0])) abort();
		if (status == LK_OK) run_with(program, &s, LC_NUMERIC);
		if (status == LK_OK) run_with(program, &s, LC_FIELD);
		lc_sizes_free(&s);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	static const char usual[] = "program p(mesh a, b) { list l dim N, M dim K of l in x : f32[N,M] "
								"@ P(sum,a), y : i32[K] of l @ S(0,b)\n"
								"z = allreduce(x, sum, a) at b=k out z at b=k, total(sum(y)) }";
	char *text = malloc(size + 1);
	lc_file *file = NULL;
	lk_error err = {0};
	if (!text) return 0;
	memcpy(text, data, size);
	text[size] = '\0';
	char *line = memchr(text, '\n', size), *program = line ? line + 1 : NULL;
	if (line) *line = '\0';
	/* files beside the corpus are not its business */
	bool foreign = strchr(text, '@') != NULL;
	if (!foreign && lc_parse("fuzz", program ? program : usual,
	                         program ? strlen(program) : sizeof usual - 1, &file, &err) == LK_OK)
		run_file(file, text);
	lc_file_free(file);
	free(text);
	return 0;
}
