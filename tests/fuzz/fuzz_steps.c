/* fuzz_steps.c: whatever is a program, with whatever schedules are legal, becomes steps and a step
 * graph that is whole, or there is a reason why not. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "lang/steps/steps.h"
#include "lang/rewrite/rewrite.h"
#include "lang/syntax/parse.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void lower(const lc_steps *steps, const lc_program *program, bool hosts) {
	lc_sizes sizes;
	lk_graph *graph = NULL;
	lk_error err = {0};
	if (lc_sizes_read(program, "", 2, &sizes, &err) == LK_OK &&
	    steps->p->axis_count == program->axis_count && lc_ranks(program, &sizes) <= 64) {
		lk_status status = lc_lower(steps, &sizes, 2, hosts, &graph, &err);
		if (status == LK_OK && lk_graph_check(graph, &err) != LK_OK) abort();
		if (status != LK_OK && !err.what[0]) abort();
	}
	lk_graph_free(graph);
	lc_sizes_free(&sizes);
}

static void make(const lc_program *program, const lc_schedule *schedule, FILE *nothing) {
	lc_program *q = NULL;
	lc_steps *steps = NULL;
	lk_error err = {0};
	if (lc_rewrite_all(program, schedule, &q, &err) != LK_OK) return;
	if (lc_steps_make(q, &steps, &err) != LK_OK && !err.what[0]) abort();
	if (steps) {
		lc_steps_print(steps, nothing);
		lower(steps, program, false);
		lower(steps, program, true);
	}
	lc_steps_free(steps);
	lc_program_free(q);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	lc_file *file = NULL;
	lk_error err = {0};
	FILE *nothing = fopen("/dev/null", "w");
	if (!nothing) return 0;
	if (lc_parse("fuzz", (const char *)data, size, &file, &err) == LK_OK)
		for (size_t i = 0; i < file->programs.count; i++) {
			const lc_program *program = file->programs.at[i];
			make(program, NULL, nothing);
			for (size_t k = 0; k < program->schedules.count; k++)
				make(program, &program->schedules.at[k], nothing);
		}
	lc_file_free(file);
	fclose(nothing);
	return 0;
}
