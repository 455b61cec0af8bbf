/* run.c: runs a program: values in order, on every rank; memory of their parts. */
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "lang/run/run_internal.h"
#include "base/check.h"

/* ---- one value ---- */

static lc_operation *run_operation(const lc_node *node) {
	switch (lc_ops[node->op].family) {
	case LC_LEAF: return lc_run_leaf;
	case LC_MAP: return lc_run_map;
	case LC_DROP: return lc_run_dropout;
	case LC_CONTRACT: return node->op == LC_MATMUL ? lc_run_matmul : lc_run_conv;
	case LC_ROWS: return node->op == LC_GATHER_ROWS ? lc_run_rows : lc_run_add_rows;
	case LC_ATTEND: return lc_run_attend;
	case LC_BLOCK: return lc_run_block;
	case LC_VIEW:
		if (node->op == LC_CUMSUM) return lc_run_cumsum;
		return node->op == LC_IOTA ? lc_run_iota : lc_run_view;
	case LC_RED: return lc_run_red;
	case LC_TOTALS: return lc_run_total;
	default: return NULL;
	}
}

static lk_status on_rank(lc_run *run, int id, int64_t item, int64_t rank, lk_error *err) {
	LK_ASSERT(id >= 0 && (size_t)id < run->p->nodes.count);
	const lc_node *node = &run->p->nodes.at[id];
	lc_at at = {.run = run, .n = node, .id = id, .item = item, .rank = rank, .err = err};
	bool held;
	LK_TRY(lc_box_of(run, node, item, rank, &at.box, &held, err));
	if (!held) return LK_OK;
	at.out = lc_part_of(run, id, item, rank);
	int same = lc_same_cells(node);
	if (same < 0) return run_operation(node)(&at);
	const lc_cells *cells;
	lc_box box;
	LK_TRY(lc_operand(&at, same, &cells, &box));
	if (cells->count != at.box.count)
		return lc_run_wrong(
			&at, "slices are not equal, and no tensors of one shape: %lld elements, not %lld",
			(long long)cells->count, (long long)at.box.count);
	lc_cells_share(cells, at.out);
	return LK_OK;
}

static lk_status run_nudge(lc_run *run, const lc_nudge *nudge, lk_error *err) {
	int64_t element;
	bool held;
	for (int64_t rank = 0; rank < run->ranks; rank++) {
		LK_TRY(lc_nudged_element(run, nudge, rank, &element, &held, err));
		if (held) lc_part_of(run, nudge->id, nudge->item, rank)->number[element] = nudge->to;
	}
	return LK_OK;
}

static lk_status run_value(lc_run *run, int id, lk_error *err) {
	LK_ASSERT(id >= 0 && (size_t)id < run->p->nodes.count);
	const lc_node *node = &run->p->nodes.at[id];
	int64_t items = lc_items(run->p, run->s, node);
	bool together =
		(lc_ops[node->op].family == LC_COMM || node->op == LC_SEND) && lc_same_cells(node) < 0;
	run->parts[id] = LK_ARRAY(&run->arena, lc_cells, (size_t)(items * run->ranks));
	if (!run->parts[id]) return lk_oom(err);
	for (int64_t item = 0; item < items; item++) {
		if (together) LK_TRY(lc_run_comm(run, node, id, item, err));
		for (int64_t rank = 0; rank < run->ranks && !together; rank++)
			LK_TRY(on_rank(run, id, item, rank, err));
	}
	for (int i = 0; i < run->o.nudge_count; i++)
		if (run->o.nudges[i].id == id) LK_TRY(run_nudge(run, &run->o.nudges[i], err));
	return LK_OK;
}

static void drop_value(lc_run *run, int id) {
	int64_t parts = lc_items(run->p, run->s, &run->p->nodes.at[id]) * run->ranks;
	for (int64_t i = 0; run->parts[id] && i < parts; i++) lc_cells_drop(run, &run->parts[id][i]);
}

static void drop_read(lc_run *run, int id) {
	LK_ASSERT(id >= 0 && (size_t)id < run->p->nodes.count);
	const lc_node *node = &run->p->nodes.at[id];
	for (int i = 0; i < node->inputs; i++)
		if (run->last_reader[node->in[i]] == id) drop_value(run, node->in[i]);
	if (run->last_reader[id] < 0) drop_value(run, id);
}

/* ---- the whole run ---- */

static lk_status note_readers(lc_run *run, lk_error *err) {
	int results[LC_VALUES], count, values = (int)run->p->nodes.count;
	run->last_reader = LK_ARRAY(&run->arena, int, (size_t)values);
	if (!run->last_reader) return lk_oom(err);
	for (int id = 0; id < values; id++) {
		const lc_node *node = &run->p->nodes.at[id];
		run->last_reader[id] = -1;
		for (int i = 0; i < node->inputs; i++) run->last_reader[node->in[i]] = id;
	}
	LK_TRY(lc_results(run->p, results, LC_VALUES, &count, err));
	for (int i = 0; i < count; i++) run->last_reader[results[i]] = values;
	return LK_OK;
}

static lk_status check_settings(const lc_run *run, lk_error *err) {
	const char *known[LC_VALUES];
	for (int i = 0; i < run->o.setting_count; i++) {
		size_t count = 0;
		bool found = false;
		for (size_t id = 0; id < run->p->nodes.count; id++) {
			const lc_node *node = &run->p->nodes.at[id];
			if (node->op != LC_SCALAR) continue;
			known[count++] = node->name;
			found |= strcmp(node->name, run->o.settings[i].name) == 0;
		}
		if (found) continue;
		const char *near = lk_nearest(run->o.settings[i].name, known, count);
		lk_fail(err, LK_ERR_INPUT, "--set", "%s has no scalar %.64s", run->p->name,
		        run->o.settings[i].name);
		return near ? lk_hint(err, "do you mean %s?", near) : LK_ERR_INPUT;
	}
	return LK_OK;
}

static lk_status check_parts(const lc_run *run, lk_error *err) {
	int64_t parts = 0;
	for (size_t id = 0; id < run->p->nodes.count; id++)
		parts += lc_items(run->p, run->s, &run->p->nodes.at[id]) * run->ranks;
	if (parts <= LC_PARTS_LIMIT) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, run->p->name, "%lld tensors on %lld ranks",
	        (long long)(parts / run->ranks), (long long)run->ranks);
	return lk_hint(err, "give fewer ranks, or a shorter list");
}

static lk_status run_all(lc_run *run, lk_error *err) {
	LK_TRY(lc_sizes_check(run->p, run->s, err));
	run->ranks = lc_ranks(run->p, run->s);
	run->parts = LK_ARRAY(&run->arena, lc_cells *, run->p->nodes.count);
	if (!run->parts) return lk_oom(err);
	LK_TRY(check_settings(run, err));
	LK_TRY(check_parts(run, err));
	LK_TRY(note_readers(run, err));
	for (int id = 0; id < (int)run->p->nodes.count; id++) {
		LK_TRY(run_value(run, id, err));
		if (run->o.only_results) drop_read(run, id);
	}
	return LK_OK;
}

lk_status lc_run_program(const lc_program *program, const lc_sizes *sizes,
                         const lc_run_options *options, lc_run **out, lk_error *err) {
	lc_run *run = *out = calloc(1, sizeof *run);
	if (!run) return lk_oom(err);
	run->p = program;
	run->s = sizes;
	run->o = *options;
	lk_status status = run_all(run, err);
	if (status == LK_OK) return LK_OK;
	lc_run_free(run);
	*out = NULL;
	return status;
}

void lc_run_free(lc_run *run) {
	if (!run) return;
	for (size_t id = 0; run->parts && id < run->p->nodes.count; id++) drop_value(run, (int)id);
	for (size_t i = 0; i < run->wholes.count; i++) lc_cells_drop(run, run->wholes.at[i]);
	lk_vec_free(&run->wholes);
	lk_arena_free(&run->arena);
	free(run);
}

const lc_cells *lc_run_local(const lc_run *run, int id, int64_t item, int64_t rank) {
	const lc_cells *part = lc_part_of(run, id, item, rank);
	return lc_held(part) ? part : NULL;
}

/* ---- results ---- */

static int last_version(const lc_program *program, const char *name) {
	for (int id = (int)program->nodes.count; id-- > 0;) {
		const lc_node *node = &program->nodes.at[id];
		if ((node->op == LC_STATE || node->op == LC_UPDATE) && node->name &&
		    strcmp(node->name, name) == 0)
			return id;
	}
	return -1;
}

lk_status lc_results(const lc_program *program, int *ids, int limit, int *count, lk_error *err) {
	*count = 0;
	for (int pass = 0; pass < 2; pass++)
		for (int id = 0; id < (int)program->nodes.count; id++) {
			const lc_node *node = &program->nodes.at[id];
			if (node->op != (pass ? LC_STATE : LC_OUT)) continue;
			if (pass && !node->name)
				return lk_fail(err, LK_ERR_INTERNAL, program->name, "a state without a name");
			if (*count == limit)
				return lk_fail(err, LK_ERR_INTERNAL, program->name, "more than %d results", limit);
			ids[(*count)++] = pass ? last_version(program, node->name) : id;
		}
	return LK_OK;
}
