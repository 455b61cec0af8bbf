/* emit_mpi_plain.c: rings and overlaps without overlap: their parts one after the other. */
#include "base/arena.h"
#include "lang/emit/emit_internal.h"

/* Write a part of a step as a step, whose function is named after the part. */
static lk_status plain_put_part(lc_mpi *mpi, const lc_step *step, lc_step_kind kind, int *id,
                                const char *helper) {
	lc_step part = *step;
	const char *before = mpi->helper;
	mpi->helper = helper;
	part.kind = kind;
	if (id) part.values = (lc_ids){id, 1};
	lk_status status = mpi->any(mpi, &part);
	mpi->helper = before;
	return status;
}

static void plain_put_call(lc_mpi *mpi, const lc_step *step, const char *helper) {
	const char *before = mpi->helper;
	char name[LC_IDENTIFIER];
	mpi->helper = helper;
	fprintf(mpi->out, "\t%s(run);\n", lc_mpi_function(mpi, step, name));
	mpi->helper = before;
}

lk_status lc_mpi_ring_plain(lc_mpi *mpi, const lc_step *step) {
	char name[LC_IDENTIFIER];
	int scatter = step->scatter;
	const char **gathers = LK_ARRAY(&mpi->arena, const char *, (size_t)step->gathers.count + 1);
	if (!gathers) return lk_oom(mpi->err);
	if (scatter >= 0) LK_TRY(plain_put_part(mpi, step, LC_STEP_COMM, &scatter, "scatter"));
	LK_TRY(plain_put_part(mpi, step, LC_STEP_MAP, NULL, "pass"));
	for (int i = 0; i < step->gathers.count; i++) {
		gathers[i] = lk_arena_printf(&mpi->arena, "gather%d", i + 1);
		if (!gathers[i]) return lk_oom(mpi->err);
		LK_TRY(plain_put_part(mpi, step, LC_STEP_COMM, &step->gathers.at[i], gathers[i]));
	}
	fprintf(mpi->out, "static void %s(rt_run *run) {\n", lc_mpi_function(mpi, step, name));
	if (scatter >= 0) plain_put_call(mpi, step, "scatter");
	plain_put_call(mpi, step, "pass");
	for (int i = 0; i < step->gathers.count; i++) plain_put_call(mpi, step, gathers[i]);
	fputs("}\n\n", mpi->out);
	return LK_OK;
}

lk_status lc_mpi_overlap_plain(lc_mpi *mpi, const lc_step *step) {
	char name[LC_IDENTIFIER];
	for (int i = 0; i < step->part_count; i++) LK_TRY(mpi->any(mpi, &step->parts[i]));
	fprintf(mpi->out, "static void %s(rt_run *run) {\n", lc_mpi_function(mpi, step, name));
	for (int i = 0; i < step->part_count; i++)
		fprintf(mpi->out, "\t%s(run);\n", lc_mpi_function(mpi, &step->parts[i], name));
	fputs("}\n\n", mpi->out);
	return LK_OK;
}
