/* compile_emit.c: `lockstep compile emit`: a program and its schedules as source text for a target. */
#include <stdlib.h>
#include <string.h>

#include "io/stream.h"
#include "lang/compile/compile.h"
#include "lang/rewrite/rewrite.h"
#include "lang/emit/emit.h"

struct emission {
	lc_program *p;
	LK_VEC(lc_variant) variants;
};

/* ---- variants ---- */

static lk_status schedule_text(const lc_program *p, const lc_schedule *s, char **out, lk_error *err) {
	size_t size = 0;
	FILE *file = open_memstream(out, &size);
	if (!file) return lk_oom(err);
	lc_print_schedule(p, s, file);
	return fclose(file) == 0 && *out ? LK_OK : lk_oom(err);
}

static lk_status add_variant(struct emission *e, const lc_schedule *s, lk_error *err) {
	if (!lk_push(&e->variants)) return lk_oom(err);
	lc_variant *v = lk_last(&e->variants);
	lc_program *rewritten = NULL;
	lc_steps *steps = NULL;
	v->name = s ? s->name : LC_PLAIN;
	LK_TRY(lc_rewrite_all(e->p, s, &rewritten, err));
	v->program = rewritten;
	LK_TRY(lc_steps_make(rewritten, &steps, err));
	v->steps = steps;
	return s ? schedule_text(e->p, s, &v->schedule, err) : LK_OK;
}

static lk_status add_variants(struct emission *e, const char *name, lk_error *err) {
	const lc_schedule *one;
	if (name && strcmp(name, "all") != 0) {
		LK_TRY(lc_pick_schedule(e->p, name, &one, err));
		return add_variant(e, one, err);
	}
	LK_TRY(add_variant(e, NULL, err));
	for (size_t i = 0; i < e->p->schedules.count; i++) LK_TRY(add_variant(e, &e->p->schedules.at[i], err));
	return LK_OK;
}

static void drop_variants(struct emission *e) {
	for (size_t i = 0; i < e->variants.count; i++) {
		lc_variant *v = &e->variants.at[i];
		free(v->schedule);
		lc_steps_free((lc_steps *)v->steps);
		lc_program_free((lc_program *)v->program);
	}
	lk_vec_free(&e->variants);
}

/* ---- writing ---- */

static lc_emit *const targets[] = {[LK_COMPILE_MPI] = lc_emit_mpi, [LK_COMPILE_CUDA] = lc_emit_cuda};
enum { TARGETS = sizeof targets / sizeof *targets };

static lk_status write_text(const struct emission *e, const lk_compile_request *request, FILE *out, lk_error *err) {
	int count = (int)e->variants.count;
	if ((unsigned)request->target >= TARGETS || !targets[request->target])
		return lk_fail(err, LK_ERR_INPUT, "--target", "this target is not built in");
	if (request->header) return lc_emit_header(e->p, e->variants.at, count, request->target == LK_COMPILE_CUDA, out, err);
	return targets[request->target](e->p, e->variants.at, count, out, err);
}

static lk_status write_file(const char *path, const char *text, size_t size, lk_error *err) {
	lk_sink *sink = NULL;
	LK_TRY(lk_sink_open(path, &sink, err));
	lk_status status = lk_sink_write(sink, text, size, err);
	if (status == LK_OK) return lk_sink_commit(sink, err);
	lk_sink_abandon(sink);
	return status;
}

/* In memory first, so that nothing is written where it fails. */
static lk_status write_all(const struct emission *e, const lk_compile_request *request, FILE *out, lk_error *err) {
	char *text = NULL;
	size_t size = 0;
	FILE *memory = open_memstream(&text, &size);
	if (!memory) return lk_oom(err);
	lk_status status = write_text(e, request, memory, err);
	if (fclose(memory) != 0 && status == LK_OK) status = lk_oom(err);
	if (status == LK_OK && request->out) status = write_file(request->out, text, size, err);
	else if (status == LK_OK) fwrite(text, 1, size, out);
	free(text);
	return status;
}

lk_status lc_do_emit(lk_compile *answer, const lk_compile_request *request, FILE *out, lk_error *err) {
	struct emission e = {0};
	LK_TRY(lc_pick_program(answer, request, &e.p, err));
	lk_status status = add_variants(&e, request->schedule, err);
	if (status == LK_OK) status = write_all(&e, request, out, err);
	drop_variants(&e);
	return status;
}
