/* compile_emit.c: `lockstep compile emit`: a program and its schedules as source text for a target.
 */
#include <stdlib.h>
#include <string.h>

#include "lang/compile/compile.h"
#include "lang/rewrite/rewrite.h"
#include "lang/emit/emit.h"
#include "system/memory.h"

struct emission {
	lc_program *p;
	bool joins; /* join statements into shared passes */
	LK_VEC(lc_variant) variants;
};

/* ---- variants ---- */

static lk_status emit_schedule_text(const lc_program *program, const lc_schedule *schedule,
                                    char **out, lk_error *err) {
	size_t size = 0;
	FILE *file = lk_memory_open(out, &size);
	if (!file) return lk_oom(err);
	lc_print_schedule(program, schedule, file);
	return lk_memory_close(file) && *out ? LK_OK : lk_oom(err);
}

static lk_status emit_add_variant(struct emission *emission, const lc_schedule *schedule,
                                  lk_error *err) {
	if (!lk_push(&emission->variants)) return lk_oom(err);
	lc_variant *variant = lk_last(&emission->variants);
	lc_program *rewritten = NULL;
	lc_steps *steps = NULL;
	variant->name = schedule ? schedule->name : LC_PLAIN;
	LK_TRY(lc_rewrite_all(emission->p, schedule, &rewritten, err));
	lk_status status = emission->joins ? lc_steps_joined(rewritten, &rewritten, &steps, err)
	                                   : lc_steps_make(rewritten, &steps, err);
	variant->program = rewritten;
	variant->steps = steps;
	LK_TRY(status);
	return schedule ? emit_schedule_text(emission->p, schedule, &variant->schedule, err) : LK_OK;
}

static lk_status emit_add_variants(struct emission *emission, const char *name, lk_error *err) {
	const lc_schedule *one;
	if (name && strcmp(name, "all") != 0) {
		LK_TRY(lc_pick_schedule(emission->p, name, &one, err));
		return emit_add_variant(emission, one, err);
	}
	LK_TRY(emit_add_variant(emission, NULL, err));
	for (size_t i = 0; i < emission->p->schedules.count; i++)
		LK_TRY(emit_add_variant(emission, &emission->p->schedules.at[i], err));
	return LK_OK;
}

static void drop_variants(struct emission *emission) {
	for (size_t i = 0; i < emission->variants.count; i++) {
		lc_variant *variant = &emission->variants.at[i];
		free(variant->schedule);
		lc_steps_free((lc_steps *)variant->steps);
		lc_program_free((lc_program *)variant->program);
	}
	lk_vec_free(&emission->variants);
}

/* ---- writing ---- */

static lc_emit *const targets[] = {[LK_COMPILE_MPI] = lc_emit_mpi,
                                   [LK_COMPILE_CUDA] = lc_emit_cuda,
                                   [LK_COMPILE_TORCH] = lc_emit_torch};
enum { TARGETS = sizeof targets / sizeof *targets };

static lk_status emit_write_text(const struct emission *emission, const lk_compile_request *request,
                                 FILE *out, lk_error *err) {
	int count = (int)emission->variants.count;
	if ((unsigned)request->target >= TARGETS || !targets[request->target])
		return lk_fail(err, LK_ERR_INPUT, "--target", "this build has no such target");
	if (request->header)
		return lc_emit_header(emission->p, emission->variants.at, count,
		                      request->target == LK_COMPILE_CUDA, out, err);
	return targets[request->target](emission->p, emission->variants.at, count, out, err);
}

/* Write to memory first, so that a failure writes nothing. */
static lk_status emit_write_all(const struct emission *emission, const lk_compile_request *request,
                                FILE *out, lk_error *err) {
	char *text = NULL;
	size_t size = 0;
	FILE *memory = lk_memory_open(&text, &size);
	if (!memory) return lk_oom(err);
	lk_status status = emit_write_text(emission, request, memory, err);
	if (!lk_memory_close(memory) && status == LK_OK) status = lk_oom(err);
	if (status == LK_OK) fwrite(text, 1, size, out);
	free(text);
	return status;
}

/* Emit one schedule at the given sizes. */
static lk_status emit_graph(lk_compile *answer, const lk_compile_request *request, FILE *out,
                            lk_error *err) {
	lc_program *program;
	const lc_schedule *schedule;
	lc_sizes sizes = {0};
	lk_graph *graph = NULL;
	if (request->header) {
		lk_fail(err, LK_ERR_INPUT, "--header", "a step graph has no functions to declare");
		return lk_hint(err, "give --target mpi or cuda");
	}
	LK_TRY(lc_resize(answer, request, err));
	LK_TRY(lc_pick_program(answer, request, &program, err));
	LK_TRY(lc_pick_schedule(program, request->schedule, &schedule, err));
	LK_TRY(lc_check_dims(program, request->sizes, err));
	lk_status status = lc_sizes_read(program, request->sizes, 1, &sizes, err);
	if (status == LK_OK) status = lc_schedule_graph(program, schedule, &sizes, &graph, err);
	if (status == LK_OK) status = lk_graph_put(graph, out, err);
	lk_graph_free(graph);
	lc_sizes_free(&sizes);
	return status;
}

lk_status lc_do_emit(lk_compile *answer, const lk_compile_request *request, FILE *out,
                     lk_error *err) {
	if (request->target == LK_COMPILE_GRAPH) return emit_graph(answer, request, out, err);
	struct emission e = {.joins = request->target != LK_COMPILE_CUDA};
	LK_TRY(lc_pick_program(answer, request, &e.p, err));
	lk_status status = emit_add_variants(&e, request->schedule, err);
	if (status == LK_OK) status = emit_write_all(&e, request, out, err);
	drop_variants(&e);
	return status;
}
