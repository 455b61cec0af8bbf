/* compile_graph.c: a program with a schedule as a step graph, for whatif and predict --replace. */
#include "lang/compile/compile.h"

#include "lang/rewrite/rewrite.h"
#include "lang/steps/steps.h"

static lk_status graph_of_program(const lc_program *rewritten, const lc_program *program,
                                  const lc_sizes *sizes, lk_graph **out, lk_error *err) {
	lc_sizes refined = {0};
	lc_steps *steps = NULL;
	lk_status status = LK_OK;
	if (rewritten->axis_count != program->axis_count) {
		status = lc_sizes_refine(program, sizes, rewritten, &refined, err);
		sizes = &refined;
	}
	if (status == LK_OK) status = lc_steps_make(rewritten, &steps, err);
	if (status == LK_OK) status = lc_lower(steps, sizes, 0, false, out, err);
	lc_steps_free(steps);
	if (sizes == &refined) lc_sizes_free(&refined);
	return status;
}

lk_status lc_schedule_graph(const lc_program *program, const lc_schedule *schedule,
                            const lc_sizes *sizes, lk_graph **out, lk_error *err) {
	lc_program *rewritten;
	*out = NULL;
	LK_TRY(lc_rewrite_all(program, schedule, &rewritten, err));
	lk_status status = graph_of_program(rewritten, program, sizes, out, err);
	lc_program_free(rewritten);
	return status;
}
