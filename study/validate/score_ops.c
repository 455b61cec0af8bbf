/* score_ops.c: measured kernel times against predicted ones: reads the table, passes products and
 * memory-bound operations to their parts, divides the rows. */
#include <string.h>

#include "base/arena.h"
#include "validate/validate.h"
#include "hw/hw.h"

/* "add 1000x8192", "gemm 16x4096x512x64" */
static const char *shape_text(lk_arena *arena, const lk_op_sample *sample) {
	if (sample->family == LK_FAMILY_MEMORY)
		return lk_arena_printf(arena, "%s %.0fx%.0f", sample->op, sample->m, sample->n);
	if (sample->batch == 1)
		return lk_arena_printf(arena, "%s %.0fx%.0fx%.0f", sample->op, sample->m, sample->n,
		                       sample->k);
	return lk_arena_printf(arena, "%s %.0fx%.0fx%.0fx%.0f", sample->op, sample->batch, sample->m,
	                       sample->n, sample->k);
}

static lk_status ops_fill_rows(lk_arena *arena, const lk_op_samples *samples, lk_scoring *out,
                               lk_error *err) {
	LK_TRY(lk_scoring_rows(arena, samples->count, out, err));
	for (size_t i = 0; i < samples->count; i++) {
		const lk_op_sample *sample = &samples->at[i];
		lk_validated *row = &out->rows[i];
		row->id = row->layout = shape_text(arena, sample);
		if (!row->id) return lk_oom(err);
		row->where = sample->where;
		row->gpu = sample->gpu;
		row->model = sample->model;
		row->precision = lk_dtype_name(sample->dtype);
		row->gpus = 1;
		row->measured = sample->seconds;
	}
	return LK_OK;
}

static lk_status ops_divide(lk_arena *arena, const lk_op_samples *samples, lk_ops_part *part,
                            lk_scoring *out, lk_error *err) {
	part->classes = lk_scoring_divide(arena, out, "class");
	lk_score_key *gpu = lk_scoring_divide(arena, out, "gpu"),
				 *op = lk_scoring_divide(arena, out, "op");
	if (!part->classes || !gpu || !op) return lk_oom(err);
	for (size_t i = 0; i < samples->count; i++) {
		gpu[i].name = samples->at[i].gpu;
		op[i].name = samples->at[i].op;
	}
	return LK_OK;
}

/* "A40, gemm fp16", after the parts have named the classes. Equal rows are consecutive, so texts
 * are made once per run. */
static lk_status divide_by_both(lk_arena *arena, const lk_op_samples *samples,
                                const lk_score_key *classes, lk_scoring *out, lk_error *err) {
	lk_score_key *both = lk_scoring_divide(arena, out, "gpu, class");
	if (!both) return lk_oom(err);
	for (size_t i = 0; i < samples->count; i++) {
		const char *gpu = samples->at[i].gpu, *class = classes[i].name;
		bool same = i > 0 && gpu == samples->at[i - 1].gpu && class == classes[i - 1].name;
		if (!class) continue;
		both[i].name = same ? both[i - 1].name : lk_arena_printf(arena, "%s, %s", gpu, class);
		if (!both[i].name) return lk_oom(err);
	}
	return LK_OK;
}

static lk_status ops_score(lk_arena *arena, const lk_validate_request *request,
                           const lk_op_samples *samples, lk_scoring *out, lk_error *err) {
	LK_TRY(ops_fill_rows(arena, samples, out, err));
	lk_ops_part part = {.samples = samples->at,
	                    .count = samples->count,
	                    .cross = request->cross,
	                    .folds = request->folds};
	part.rows = out->rows;
	part.held_out = "";
	LK_TRY(ops_divide(arena, samples, &part, out, err));
	lk_baseline *nearest = lk_scoring_baseline(arena, out, "nearest shape", 0);
	lk_baseline *roofline = lk_scoring_baseline(arena, out, "roofline", 0);
	if (!nearest || !roofline) return lk_oom(err);
	part.nearest = nearest->predicted;
	part.roofline = roofline->predicted;
	LK_TRY(lk_ops_gemm_score(arena, &part, err));
	const char *of_products = part.held_out;
	part.held_out = "";
	LK_TRY(lk_ops_memory_score(arena, &part, err));
	LK_TRY(divide_by_both(arena, samples, part.classes, out, err));
	bool both = *of_products && *part.held_out && strcmp(of_products, part.held_out) != 0;
	if (!both) {
		if (*of_products) out->folds = of_products;
		else out->folds = part.held_out;
	} else
		out->folds =
			lk_arena_printf(arena, "%s (products), %s (others)", of_products, part.held_out);
	out->parameters = part.parameters;
	out->unit_of_rows = "kernel";
	return out->folds ? LK_OK : lk_oom(err);
}

lk_status lk_score_ops(lk_arena *arena, const lk_validate_request *request, lk_stream *in,
                       lk_scoring *out, lk_error *err) {
	lk_op_samples samples = {0};
	lk_status status = lk_ops_read(arena, in, &samples, err);
	if (status == LK_OK) status = ops_score(arena, request, &samples, out, err);
	lk_vec_free(&samples);
	return status;
}
