/* steps.c: a program as steps: units in order, overlapping ones as parts of one, with names; their
 * listing. */
#include "base/arena.h"
#include "base/check.h"
#include "lang/steps/steps.h"

#include <stdlib.h>
#include <string.h>

#include "lang/rewrite/rewrite.h"
#include "lang/steps/steps_internal.h"

/* ---- names ---- */

static bool name_taken(const lc_step *steps, int count, const char *name) {
	for (int i = 0; i < count; i++) {
		if (steps[i].name && strcmp(steps[i].name, name) == 0) return true;
		if (name_taken(steps[i].parts, steps[i].part_count, name)) return true;
	}
	return false;
}

/* The name of the value written last; else of its statement, with the operation. */
static const char *steps_plain_name(lk_arena *arena, const lc_program *program,
                                    const lc_step *step) {
	for (int k = step->writes.count; k-- > 0 && step->kind != LC_STEP_OVERLAP;)
		if (program->nodes.at[step->writes.at[k]].name)
			return program->nodes.at[step->writes.at[k]].name;
	if (step->kind == LC_STEP_OVERLAP) return "overlap";
	const lc_node *last = &program->nodes.at[lk_last(&step->values)[0]];
	bool word = *lc_ops[last->op].arguments || last->op == LC_SEND || last->op == LC_OUT;
	const char *op = word ? lc_ops[last->op].name : "pass";
	return last->part_of ? lk_arena_printf(arena, "%s_%s", last->part_of, op) : op;
}

static lk_status name_step(lc_steps *steps, lc_step *step, const char *label, lk_error *err) {
	const char *base = label ? label : steps_plain_name(&steps->arena, steps->p, step);
	if (!base) return lk_oom(err);
	step->name = lk_arena_strdup(&steps->arena, base);
	const char *own = step->name;
	step->name = NULL;
	for (int i = 2; own && name_taken(steps->at, steps->count, own); i++)
		own = lk_arena_printf(&steps->arena, "%s_%d", base, i);
	step->name = own;
	return own ? LK_OK : lk_oom(err);
}

/* ---- overlapping ---- */

static lk_status set_cuts(const lc_maker *maker, lc_steps *steps, lk_error *err) {
	size_t count = (size_t)maker->count;
	int *dims = LK_ARRAY(&steps->arena, int, 2 * count);
	if (!dims) return lk_oom(err);
	steps->cut = dims + count;
	for (size_t v = 0; v < count; v++) steps->cut[v] = -1;
	for (size_t b = 0; b < maker->p->bundles.count; b++) {
		if (maker->p->bundles.at[b].kind != LC_OVERLAP) continue;
		LK_TRY(lc_overlap_dims(maker->p, (int)b, dims, err));
		for (size_t v = 0; v < count; v++)
			if (dims[v] >= 0) steps->cut[v] = dims[v];
	}
	return LK_OK;
}

static int chunk_dim(const lc_steps *steps, const lc_step *step) {
	for (int i = 0; i < step->part_count; i++)
		for (int k = 0; k < step->parts[i].values.count; k++)
			if (steps->cut[step->parts[i].values.at[k]] >= 0)
				return steps->cut[step->parts[i].values.at[k]];
	return -1;
}

/* Values that parts write for each other stay out of reads. */
static lk_status join_parts(lc_maker *maker, lc_step *step, lk_error *err) {
	lc_ids written = {0};
	for (int i = 0; i < step->part_count; i++) {
		const lc_step *part = &step->parts[i];
		for (int k = 0; k < part->reads.count; k++)
			if (!lc_ids_have(&written, maker->at[part->reads.at[k]].home))
				LK_TRY(lc_ids_put(maker->arena, &step->reads, part->reads.at[k], err));
		for (int k = 0; k < part->writes.count; k++) {
			LK_TRY(lc_ids_put(maker->arena, &step->writes, part->writes.at[k], err));
			LK_TRY(lc_ids_put(&maker->scratch, &written, part->writes.at[k], err));
		}
		for (int k = 0; k < part->values.count; k++)
			LK_TRY(lc_ids_put(maker->arena, &step->values, part->values.at[k], err));
	}
	return LK_OK;
}

static lk_status overlap_step(lc_maker *maker, const lc_steps *steps, const int *order, int count,
                              lc_step *step, lk_error *err) {
	const lc_bundle *bundle = &maker->p->bundles.at[maker->units.at[order[0]].overlap];
	*step = (lc_step){.kind = LC_STEP_OVERLAP,
	                  .space = -1,
	                  .scatter = -1,
	                  .list = maker->units.at[order[0]].step.list};
	step->parts = LK_ARRAY(maker->arena, lc_step, (size_t)count);
	if (!step->parts) return lk_oom(err);
	step->part_count = count;
	step->chunks = bundle->chunks;
	step->ring = bundle->order && strcmp(bundle->order, "ring") == 0;
	for (int i = 0; i < count; i++) step->parts[i] = maker->units.at[order[i]].step;
	step->chunk_dim = chunk_dim(steps, step);
	return join_parts(maker, step, err);
}

/* ---- dependencies, in indices of siblings ---- */

/* `step[u]`, `part[u]`: where unit u went; part -1: it is a step itself. */
static lk_status wait_siblings(lc_maker *maker, const lc_ids *units, const int *step,
                               const int *part, int own, bool inside, lc_ids *out, lk_error *err) {
	for (int k = 0; k < units->count; k++) {
		int u = units->at[k], s = step[u];
		if (inside && s == own) LK_TRY(lc_ids_put(maker->arena, out, part[u], err));
		if (!inside && s != own) LK_TRY(lc_ids_put(maker->arena, out, s, err));
	}
	return LK_OK;
}

static lk_status set_waits(lc_maker *maker, lc_steps *steps, const int *step, const int *part,
                           lk_error *err) {
	for (size_t u = 0; u < maker->units.count; u++) {
		const lc_ids *waits = &maker->units.at[u].step.after;
		lc_step *s = &steps->at[step[u]];
		LK_TRY(wait_siblings(maker, waits, step, part, step[u], false, &s->after, err));
		if (part[u] >= 0)
			LK_TRY(wait_siblings(maker, waits, step, part, step[u], true, &s->parts[part[u]].after,
			                     err));
	}
	return LK_OK;
}

/* ---- making ---- */

/* The number of units of one overlapping bundle from order[i] on; 1 for a unit without one, or the
 * only one of its bundle. */
static int run_length(const lc_maker *maker, const int *order, int i) {
	int end = i + 1, bundle = maker->units.at[order[i]].overlap;
	while (bundle >= 0 && end < (int)maker->units.count &&
	       maker->units.at[order[end]].overlap == bundle)
		end++;
	return end - i;
}

static lk_status steps_fill(lc_maker *maker, lc_steps *steps, const int *order, int *step,
                            int *part, lk_error *err) {
	for (int i = 0, run; i < (int)maker->units.count; i += run) {
		run = run_length(maker, order, i);
		LK_ASSERT(run >= 1 && i + run <= (int)maker->units.count);
		lc_step *s = &steps->at[steps->count];
		if (run > 1) LK_TRY(overlap_step(maker, steps, &order[i], run, s, err));
		else *s = maker->units.at[order[i]].step;
		for (int k = 0; k < run; k++) {
			step[order[i + k]] = steps->count;
			part[order[i + k]] = run > 1 ? k : -1;
			if (run > 1) s->parts[k].after = (lc_ids){0};
		}
		s->after = (lc_ids){0};
		steps->count++;
	}
	return set_waits(maker, steps, step, part, err);
}

static const char *label_of(const lc_maker *maker, const lc_unit *unit, bool whole) {
	int b = whole ? unit->overlap : unit->fuse;
	return b >= 0 ? maker->p->bundles.at[b].name : NULL;
}

static lk_status name_all(lc_maker *maker, lc_steps *steps, const int *order, const int *step,
                          const int *part, lk_error *err) {
	for (size_t i = 0; i < maker->units.count; i++) {
		const lc_unit *unit = &maker->units.at[order[i]];
		lc_step *s = &steps->at[step[order[i]]];
		bool inside = part[order[i]] >= 0;
		if (!s->name) LK_TRY(name_step(steps, s, label_of(maker, unit, inside), err));
		if (inside)
			LK_TRY(name_step(steps, &s->parts[part[order[i]]], label_of(maker, unit, false), err));
	}
	return LK_OK;
}

static lk_status set_storage(const lc_maker *maker, lc_steps *steps, lk_error *err) {
	steps->storage = LK_ARRAY(maker->arena, int, (size_t)maker->count);
	if (!steps->storage) return lk_oom(err);
	for (int v = 0; v < maker->count; v++) {
		const lc_node *node = lc_node_at(maker->p, v);
		bool operands = maker->at[v].held == LC_ALIAS || node->op == LC_UPDATE;
		if (operands) steps->storage[v] = steps->storage[node->in[0]];
		else if (maker->at[v].held == LC_STORED) steps->storage[v] = v;
		else steps->storage[v] = -1;
	}
	for (int v = 0; v < maker->count; v++)
		if (maker->at[v].into >= 0) steps->storage[v] = steps->storage[maker->at[v].into];
	return LK_OK;
}

static lk_status steps_make(lc_maker *maker, lc_steps *steps, lk_error *err) {
	maker->count = (int)maker->p->nodes.count;
	maker->at = LK_ARRAY(&maker->scratch, lc_place, (size_t)maker->count);
	if (!maker->at) return lk_oom(err);
	LK_TRY(set_cuts(maker, steps, err));
	LK_TRY(lc_make_units(maker, err));
	LK_TRY(lc_link_units(maker, err));
	size_t units = maker->units.count;
	int *order = LK_ARRAY(&maker->scratch, int, units + 1),
		*step = LK_ARRAY(&maker->scratch, int, units + 1);
	int *part = LK_ARRAY(&maker->scratch, int, units + 1);
	steps->at = LK_ARRAY(maker->arena, lc_step, units + 1);
	if (!order || !step || !part || !steps->at) return lk_oom(err);
	LK_TRY(lc_order_units(maker, order, err));
	LK_TRY(steps_fill(maker, steps, order, step, part, err));
	LK_TRY(name_all(maker, steps, order, step, part, err));
	LK_TRY(set_storage(maker, steps, err));
	return lc_steps_conditions(steps, err);
}

lk_status lc_steps_make(const lc_program *program, lc_steps **out, lk_error *err) {
	*out = NULL;
	lc_steps *steps = calloc(1, sizeof *steps);
	lc_maker m = {.p = program};
	if (!steps) return lk_oom(err);
	steps->p = program;
	m.arena = &steps->arena;
	lk_status status = steps_make(&m, steps, err);
	lk_vec_free(&m.units);
	lk_arena_free(&m.scratch);
	if (status == LK_OK) *out = steps;
	else lc_steps_free(steps);
	return status;
}

void lc_steps_free(lc_steps *steps) {
	if (!steps) return;
	lk_arena_free(&steps->arena);
	free(steps);
}

/* ---- listing ---- */

static const char *const kind_names[LC_STEP_KINDS] = {
	[LC_STEP_MAP] = "map",       [LC_STEP_CONTRACT] = "contract", [LC_STEP_ROWS] = "rows",
	[LC_STEP_ATTEND] = "attend", [LC_STEP_COMM] = "comm",         [LC_STEP_SEND] = "send",
	[LC_STEP_RING] = "ring",     [LC_STEP_OVERLAP] = "overlap",
};

static void put_ids(const lc_program *program, const char *before, const lc_ids *ids, FILE *out) {
	char text[64];
	fputs(before, out);
	for (int i = 0; i < ids->count; i++) {
		const lc_node *node = &program->nodes.at[ids->at[i]];
		/* An output without memory of its own is its operand's; a name tells more than an
		 * expression. */
		int shown = node->op == LC_OUT ? node->in[0] : ids->at[i];
		fprintf(out, "%s%s", i ? ", " : "",
		        node->name ? node->name : lc_value_text(program, shown, text, sizeof text));
	}
}

static void steps_put_step(const lc_steps *steps, const lc_step *step, int deep, FILE *out) {
	fprintf(out, "%*s%-9s %s:", 2 + 2 * deep, "", kind_names[step->kind], step->name);
	put_ids(steps->p, " ", &step->reads, out);
	put_ids(steps->p, " -> ", &step->writes, out);
	if (step->bucket) fprintf(out, " in messages of %lld bytes", (long long)step->bucket);
	if (step->chunk_dim >= 0)
		fprintf(out, " along dim %d%s", step->chunk_dim, step->ring ? " in ring order" : "");
	if (step->chunks) fprintf(out, " in %lld chunks", (long long)step->chunks);
	fputc('\n', out);
	for (int i = 0; i < step->part_count; i++)
		steps_put_step(steps, &step->parts[i], deep + 1, out);
}

void lc_steps_print(const lc_steps *steps, FILE *out) {
	for (int i = 0; i < steps->count; i++) steps_put_step(steps, &steps->at[i], 0, out);
}
