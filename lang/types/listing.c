/* listing.c: names for values that need one to be printed; the listing of values with their
 * types. */
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "lang/types/program.h"
#include "base/check.h"

/* ---- settling ---- */

/* Operations inside one statement: below the parser's depth of 100, signs and brackets included. */
enum { NESTED = 40 };

struct use {
	int count, by, depth;
};

static bool is_taken(const lc_program *program, const char *name) {
	return lc_value_find(program, name) >= 0 || lc_dim_find(program, name) >= 0 ||
	       lc_axis_find(program, name) >= 0 || lc_list_find(program, name) >= 0;
}

/* Name it like its part if no value has that name, else t1, t2, ... */
static lk_status listing_name_value(lc_program *program, int id, int *next, lk_error *err) {
	LK_ASSERT(id >= 0 && (size_t)id < program->nodes.count);
	char text[LC_NAME];
	lc_node *node = &program->nodes.at[id];
	if (node->part_of && !is_taken(program, node->part_of)) {
		node->name = node->part_of;
		return LK_OK;
	}
	do snprintf(text, sizeof text, "t%d", ++*next);
	while (is_taken(program, text));
	program->nodes.at[id].name = lk_arena_strdup(&program->file->arena, text);
	return program->nodes.at[id].name ? LK_OK : lk_oom(err);
}

/* Whether something comes between a value and the statement that would hold it, so that its place
 * in the order matters: another statement, or, if statements are reordered, an effect. */
static bool crosses(const lc_program *program, int from, int to, bool ordered) {
	for (int i = from + 1; i < to; i++) {
		const lc_node *node = &program->nodes.at[i];
		if (lc_ops[node->op].family == LC_EFFECT || (ordered && node->name)) return true;
	}
	return false;
}

/* Whether a schedule runs them separately, so that it must name both. */
static bool listing_differs(const lc_node *a, const lc_node *b) {
	if (lc_ops[a->op].family == LC_LEAF) return false;
	if (a->fuse != b->fuse || a->overlap != b->overlap || a->bucket != b->bucket) return true;
	bool parts = a->overlap >= 0 && a->fuse < 0; /* the stages of an overlap stay separate */
	return parts && a->part_of && b->part_of && strcmp(a->part_of, b->part_of) != 0;
}

static lk_status listing_settle(lc_program *program, struct use *uses, bool ordered,
                                lk_error *err) {
	int next = 0, count = (int)program->nodes.count;
	for (int i = 0; i < count; i++)
		for (int k = 0; k < program->nodes.at[i].inputs; k++) {
			uses[program->nodes.at[i].in[k]].count++;
			uses[program->nodes.at[i].in[k]].by = i;
		}
	for (int i = count; i-- > 0;) {
		lc_node *node = &program->nodes.at[i];
		if (node->name || node->op == LC_OUT) continue;
		bool own = uses[i].count == 1;
		int root = own ? uses[i].by : i;
		uses[i].depth = own && !program->nodes.at[root].name ? uses[root].depth + 1 : 1;
		if (!own || uses[i].depth > NESTED || crosses(program, i, root, ordered) ||
		    listing_differs(node, &program->nodes.at[root]))
			LK_TRY(listing_name_value(program, i, &next, err));
		if (node->name) uses[i].depth = 0;
	}
	return LK_OK;
}

static lk_status settle(lc_program *program, bool ordered, lk_error *err) {
	struct use *uses = calloc(program->nodes.count + 1, sizeof *uses);
	if (!uses) return lk_oom(err);
	lk_status status = listing_settle(program, uses, ordered, err);
	free(uses);
	return status;
}

lk_status lc_settle(lc_program *program, lk_error *err) {
	return settle(program, true, err);
}

/* ---- the order of the text ---- */

/* Operands first, in the order in which an expression prints them. */
static void order_visit(const lc_program *program, int id, int *place, int *next) {
	const lc_node *node = &program->nodes.at[id];
	if (place[id] >= 0) return;
	for (int k = 0; k < node->inputs; k++) order_visit(program, node->in[k], place, next);
	place[id] = (*next)++;
}

lk_status lc_arrange(lc_program *program, lk_error *err) {
	int count = (int)program->nodes.count, next = 0;
	LK_TRY(settle(program, false, err));
	int *place = malloc((size_t)count * sizeof *place + 1);
	lc_node *old = malloc((size_t)count * sizeof *old + 1);
	if (place && old) {
		memset(place, 0xff, (size_t)count * sizeof *place);
		memcpy(old, program->nodes.at, (size_t)count * sizeof *old);
		for (int i = 0; i < count; i++)
			if (old[i].name || old[i].op == LC_OUT) order_visit(program, i, place, &next);
		for (int i = 0; i < count; i++) order_visit(program, i, place, &next);
		for (int i = 0; i < count; i++) {
			lc_node *node = &program->nodes.at[place[i]];
			*node = old[i];
			for (int k = 0; k < node->inputs; k++) node->in[k] = place[node->in[k]];
		}
		program->gradients.of = NULL; /* their values had other ids */
	}
	lk_status status = place && old ? LK_OK : lk_oom(err);
	free(place);
	free(old);
	return status;
}

/* ---- listing ---- */

static void listing_put_row(const lc_program *program, int id, FILE *out) {
	LK_ASSERT(id >= 0 && (size_t)id < program->nodes.count);
	const lc_node *node = &program->nodes.at[id];
	char type[512], what[256] = "";
	FILE *file = lc_text_open(program, what, sizeof what);
	if (!file) return;
	fputs(lc_ops[node->op].name, file);
	for (int i = 0; i < node->inputs; i++) fprintf(file, " %%%d", node->in[i]);
	fputc(' ', file);
	if (node->op == LC_CONST) fprintf(file, "%.17g", node->number);
	else if (node->op == LC_SIZE)
		fputs(node->axis >= 0 ? program->axes[node->axis].name : program->named[node->symbol].name,
		      file);
	else lc_print_attributes(program, node, file);
	fclose(file);
	what[sizeof what - 1] = '\0';
	lc_type_text(program, node, type, sizeof type);
	fprintf(out, "  %%%-4d %-12s %-32s %s\n", id, node->name ? node->name : "", what, type);
}

void lc_print_listing(const lc_program *program, FILE *out) {
	char value[256], divisor[256];
	fprintf(out, "program %s: %zu values, %zu schedules\n", program->name, program->nodes.count,
	        program->schedules.count);
	for (size_t i = 0; i < program->nodes.count; i++) listing_put_row(program, (int)i, out);
	for (size_t i = 0; i < program->conditions.count; i++)
		fprintf(out, "  needs %s %% %s == 0\n",
		        lc_dim_text(program, program->conditions.at[i].value, value, sizeof value),
		        lc_dim_text(program, program->conditions.at[i].divisor, divisor, sizeof divisor));
}
