/* steps.c: a program as steps: units in order, those that overlap as parts of one, with names; their listing. */
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

/* The name of what it writes last; else of the statement that it is part of, with the operation. */
static const char *plain_name(lk_arena *arena, const lc_program *p, const lc_step *s) {
	for (int k = s->writes.count; k-- > 0 && s->kind != LC_STEP_OVERLAP;)
		if (p->nodes.at[s->writes.at[k]].name) return p->nodes.at[s->writes.at[k]].name;
	if (s->kind == LC_STEP_OVERLAP) return "overlap";
	const lc_node *last = &p->nodes.at[lk_last(&s->values)[0]];
	bool word = *lc_ops[last->op].arguments || last->op == LC_SEND || last->op == LC_OUT;
	const char *op = word ? lc_ops[last->op].name : "pass";
	return last->part_of ? lk_arena_printf(arena, "%s_%s", last->part_of, op) : op;
}

static lk_status name_step(lc_steps *steps, lc_step *s, const char *label, lk_error *err) {
	const char *base = label ? label : plain_name(&steps->arena, steps->p, s);
	if (!base) return lk_oom(err);
	s->name = lk_arena_strdup(&steps->arena, base);
	const char *own = s->name;
	s->name = NULL;
	for (int i = 2; own && name_taken(steps->at, steps->count, own); i++) own = lk_arena_printf(&steps->arena, "%s_%d", base, i);
	s->name = own;
	return own ? LK_OK : lk_oom(err);
}

/* ---- overlapping ---- */

static lk_status set_cuts(const lc_maker *m, lc_steps *steps, lk_error *err) {
	size_t count = (size_t)m->count;
	int *dims = LK_ARRAY(&steps->arena, int, 2 * count);
	if (!dims) return lk_oom(err);
	steps->cut = dims + count;
	for (size_t v = 0; v < count; v++) steps->cut[v] = -1;
	for (size_t b = 0; b < m->p->bundles.count; b++) {
		if (m->p->bundles.at[b].kind != LC_OVERLAP) continue;
		LK_TRY(lc_overlap_dims(m->p, (int)b, dims, err));
		for (size_t v = 0; v < count; v++)
			if (dims[v] >= 0) steps->cut[v] = dims[v];
	}
	return LK_OK;
}

static int chunk_dim(const lc_steps *steps, const lc_step *s) {
	for (int i = 0; i < s->part_count; i++)
		for (int k = 0; k < s->parts[i].values.count; k++)
			if (steps->cut[s->parts[i].values.at[k]] >= 0) return steps->cut[s->parts[i].values.at[k]];
	return -1;
}

/* What parts write for each other stays out of reads. */
static lk_status join_parts(lc_maker *m, lc_step *s, lk_error *err) {
	lc_ids written = {0};
	for (int i = 0; i < s->part_count; i++) {
		const lc_step *part = &s->parts[i];
		for (int k = 0; k < part->reads.count; k++)
			if (!lc_ids_have(&written, m->at[part->reads.at[k]].home))
				LK_TRY(lc_ids_put(m->arena, &s->reads, part->reads.at[k], err));
		for (int k = 0; k < part->writes.count; k++) {
			LK_TRY(lc_ids_put(m->arena, &s->writes, part->writes.at[k], err));
			LK_TRY(lc_ids_put(&m->scratch, &written, part->writes.at[k], err));
		}
		for (int k = 0; k < part->values.count; k++) LK_TRY(lc_ids_put(m->arena, &s->values, part->values.at[k], err));
	}
	return LK_OK;
}

static lk_status overlap_step(lc_maker *m, const lc_steps *steps, const int *order, int count, lc_step *s, lk_error *err) {
	const lc_bundle *b = &m->p->bundles.at[m->units.at[order[0]].overlap];
	*s = (lc_step){.kind = LC_STEP_OVERLAP, .space = -1, .scatter = -1, .list = m->units.at[order[0]].step.list};
	s->parts = LK_ARRAY(m->arena, lc_step, (size_t)count);
	if (!s->parts) return lk_oom(err);
	s->part_count = count, s->chunks = b->chunks;
	s->ring = b->order && strcmp(b->order, "ring") == 0;
	for (int i = 0; i < count; i++) s->parts[i] = m->units.at[order[i]].step;
	s->chunk_dim = chunk_dim(steps, s);
	return join_parts(m, s, err);
}

/* ---- waiting, in indices of siblings ---- */

/* `step[u]`, `part[u]`: where unit u went; part -1: it is a step itself. */
static lk_status wait_siblings(lc_maker *m, const lc_ids *units, const int *step, const int *part, int own, bool inside,
                               lc_ids *out, lk_error *err) {
	for (int k = 0; k < units->count; k++) {
		int u = units->at[k], s = step[u];
		if (inside && s == own) LK_TRY(lc_ids_put(m->arena, out, part[u], err));
		if (!inside && s != own) LK_TRY(lc_ids_put(m->arena, out, s, err));
	}
	return LK_OK;
}

static lk_status set_waits(lc_maker *m, lc_steps *steps, const int *step, const int *part, lk_error *err) {
	for (size_t u = 0; u < m->units.count; u++) {
		const lc_ids *waits = &m->units.at[u].step.after;
		lc_step *s = &steps->at[step[u]];
		LK_TRY(wait_siblings(m, waits, step, part, step[u], false, &s->after, err));
		if (part[u] >= 0) LK_TRY(wait_siblings(m, waits, step, part, step[u], true, &s->parts[part[u]].after, err));
	}
	return LK_OK;
}

/* ---- making ---- */

/* Units of one overlapping bundle that follow order[i]; 1 for a unit of none, or the only one of its bundle. */
static int run_length(const lc_maker *m, const int *order, int i) {
	int end = i + 1, bundle = m->units.at[order[i]].overlap;
	while (bundle >= 0 && end < (int)m->units.count && m->units.at[order[end]].overlap == bundle) end++;
	return end - i;
}

static lk_status fill(lc_maker *m, lc_steps *steps, const int *order, int *step, int *part, lk_error *err) {
	for (int i = 0, run; i < (int)m->units.count; i += run) {
		run = run_length(m, order, i);
		lc_step *s = &steps->at[steps->count];
		if (run > 1) LK_TRY(overlap_step(m, steps, &order[i], run, s, err));
		else *s = m->units.at[order[i]].step;
		for (int k = 0; k < run; k++) {
			step[order[i + k]] = steps->count;
			part[order[i + k]] = run > 1 ? k : -1;
			if (run > 1) s->parts[k].after = (lc_ids){0};
		}
		s->after = (lc_ids){0};
		steps->count++;
	}
	return set_waits(m, steps, step, part, err);
}

static const char *label_of(const lc_maker *m, const lc_unit *u, bool whole) {
	int b = whole ? u->overlap : u->fuse;
	return b >= 0 ? m->p->bundles.at[b].name : NULL;
}

static lk_status name_all(lc_maker *m, lc_steps *steps, const int *order, const int *step, const int *part, lk_error *err) {
	for (size_t i = 0; i < m->units.count; i++) {
		const lc_unit *u = &m->units.at[order[i]];
		lc_step *s = &steps->at[step[order[i]]];
		bool inside = part[order[i]] >= 0;
		if (!s->name) LK_TRY(name_step(steps, s, label_of(m, u, inside), err));
		if (inside) LK_TRY(name_step(steps, &s->parts[part[order[i]]], label_of(m, u, false), err));
	}
	return LK_OK;
}

static lk_status set_storage(const lc_maker *m, lc_steps *steps, lk_error *err) {
	steps->storage = LK_ARRAY(m->arena, int, (size_t)m->count);
	if (!steps->storage) return lk_oom(err);
	for (int v = 0; v < m->count; v++) {
		const lc_node *n = lc_value(m, v);
		bool operands = m->at[v].held == LC_ALIAS || n->op == LC_UPDATE;
		steps->storage[v] = operands ? steps->storage[n->in[0]] : m->at[v].held == LC_STORED ? v : -1;
	}
	for (int v = 0; v < m->count; v++)
		if (m->at[v].into >= 0) steps->storage[v] = steps->storage[m->at[v].into];
	return LK_OK;
}

static lk_status make(lc_maker *m, lc_steps *steps, lk_error *err) {
	m->count = (int)m->p->nodes.count;
	m->at = LK_ARRAY(&m->scratch, lc_place, (size_t)m->count);
	if (!m->at) return lk_oom(err);
	LK_TRY(set_cuts(m, steps, err));
	LK_TRY(lc_make_units(m, err));
	LK_TRY(lc_link_units(m, err));
	size_t units = m->units.count;
	int *order = LK_ARRAY(&m->scratch, int, units + 1), *step = LK_ARRAY(&m->scratch, int, units + 1);
	int *part = LK_ARRAY(&m->scratch, int, units + 1);
	steps->at = LK_ARRAY(m->arena, lc_step, units + 1);
	if (!order || !step || !part || !steps->at) return lk_oom(err);
	LK_TRY(lc_order_units(m, order, err));
	LK_TRY(fill(m, steps, order, step, part, err));
	LK_TRY(name_all(m, steps, order, step, part, err));
	return set_storage(m, steps, err);
}

lk_status lc_steps_make(const lc_program *p, lc_steps **out, lk_error *err) {
	*out = NULL;
	lc_steps *steps = calloc(1, sizeof *steps);
	lc_maker m = {.p = p};
	if (!steps) return lk_oom(err);
	steps->p = p, m.arena = &steps->arena;
	lk_status status = make(&m, steps, err);
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
	[LC_STEP_MAP] = "map", [LC_STEP_CONTRACT] = "contract", [LC_STEP_ROWS] = "rows", [LC_STEP_COMM] = "comm",
	[LC_STEP_SEND] = "send", [LC_STEP_RING] = "ring", [LC_STEP_OVERLAP] = "overlap",
};

static void put_ids(const lc_program *p, const char *before, const lc_ids *ids, FILE *out) {
	char text[64];
	fputs(before, out);
	for (int i = 0; i < ids->count; i++) {
		const lc_node *n = &p->nodes.at[ids->at[i]];
		/* An output without memory of its own is its operand's; a name says more than an expression. */
		int shown = n->op == LC_OUT ? n->in[0] : ids->at[i];
		fprintf(out, "%s%s", i ? ", " : "", n->name ? n->name : lc_value_text(p, shown, text, sizeof text));
	}
}

static void put_step(const lc_steps *steps, const lc_step *s, int deep, FILE *out) {
	fprintf(out, "%*s%-9s %s:", 2 + 2 * deep, "", kind_names[s->kind], s->name);
	put_ids(steps->p, " ", &s->reads, out);
	put_ids(steps->p, " -> ", &s->writes, out);
	if (s->bucket) fprintf(out, " in messages of %lld bytes", (long long)s->bucket);
	if (s->chunk_dim >= 0) fprintf(out, " along dim %d%s", s->chunk_dim, s->ring ? " in ring order" : "");
	if (s->chunks) fprintf(out, " in %lld chunks", (long long)s->chunks);
	fputc('\n', out);
	for (int i = 0; i < s->part_count; i++) put_step(steps, &s->parts[i], deep + 1, out);
}

void lc_steps_print(const lc_steps *steps, FILE *out) {
	for (int i = 0; i < steps->count; i++) put_step(steps, &steps->at[i], 0, out);
}
