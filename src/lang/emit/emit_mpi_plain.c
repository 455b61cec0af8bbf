/* emit_mpi_plain.c: rings and overlaps without either: their parts one after the other. */
#include "lang/emit/emit_internal.h"

/* A part of a step as a step of its own, whose function is named after the part. */
static lk_status put_part(lc_mpi *c, const lc_step *s, lc_step_kind kind, int *id, const char *helper) {
	lc_step part = *s;
	const char *before = c->helper;
	c->helper = helper;
	part.kind = kind;
	if (id) part.values = (lc_ids){id, 1};
	lk_status status = lc_mpi_any(c, &part);
	c->helper = before;
	return status;
}

static void put_call(lc_mpi *c, const lc_step *s, const char *helper) {
	const char *before = c->helper;
	char name[LC_IDENTIFIER];
	c->helper = helper;
	fprintf(c->out, "\t%s(run);\n", lc_mpi_function(c, s, name));
	c->helper = before;
}

lk_status lc_mpi_ring_plain(lc_mpi *c, const lc_step *s) {
	char name[LC_IDENTIFIER];
	int scatter = s->scatter;
	const char **gathers = LK_ARRAY(&c->arena, const char *, (size_t)s->gathers.count + 1);
	if (!gathers) return lk_oom(c->err);
	if (scatter >= 0) LK_TRY(put_part(c, s, LC_STEP_COMM, &scatter, "scatter"));
	LK_TRY(put_part(c, s, LC_STEP_MAP, NULL, "pass"));
	for (int i = 0; i < s->gathers.count; i++) {
		gathers[i] = lk_arena_printf(&c->arena, "gather%d", i + 1);
		if (!gathers[i]) return lk_oom(c->err);
		LK_TRY(put_part(c, s, LC_STEP_COMM, &s->gathers.at[i], gathers[i]));
	}
	fprintf(c->out, "static void %s(rt_run *run) {\n", lc_mpi_function(c, s, name));
	if (scatter >= 0) put_call(c, s, "scatter");
	put_call(c, s, "pass");
	for (int i = 0; i < s->gathers.count; i++) put_call(c, s, gathers[i]);
	fputs("}\n\n", c->out);
	return LK_OK;
}

lk_status lc_mpi_overlap_plain(lc_mpi *c, const lc_step *s) {
	char name[LC_IDENTIFIER];
	for (int i = 0; i < s->part_count; i++) LK_TRY(lc_mpi_any(c, &s->parts[i]));
	fprintf(c->out, "static void %s(rt_run *run) {\n", lc_mpi_function(c, s, name));
	for (int i = 0; i < s->part_count; i++) fprintf(c->out, "\t%s(run);\n", lc_mpi_function(c, &s->parts[i], name));
	fputs("}\n\n", c->out);
	return LK_OK;
}
