/* run_choices.c: comparisons, roundings and truncations that another execution may take the other
 * way; see run_bound.c. */
#include <math.h>

#include "lang/run/run_bound.h"

bool lc_bound_truncates(const lc_bound_row *row_state) {
	const lc_node *x = lc_in(row_state->bounds->run->p, row_state->n, 0);
	return row_state->n->op == LC_CAST && lc_is_real((lc_dtype)x->dtype) &&
	       !lc_is_real((lc_dtype)row_state->n->dtype);
}

/* The value before slices or repetitions. */
static int choice_source(const lc_program *program, int id) {
	for (const lc_node *node; (node = &program->nodes.at[id])->op == LC_SLICE ||
	                          node->op == LC_COPY || node->op == LC_SPREAD || node->op == LC_PARTS;)
		id = node->in[0];
	return id;
}

bool lc_bound_is_extremum(const lc_program *program, const lc_node *node, int k) {
	const lc_node *best = &program->nodes.at[choice_source(program, node->in[k])];
	if (best->op != LC_RED_MAX && best->op != LC_RED_MIN) return false;
	int of = choice_source(program, best->in[0]), x = choice_source(program, node->in[1 - k]);
	const lc_node *among = &program->nodes.at[of];
	return of == x || (among->op == LC_SELECT && choice_source(program, among->in[1]) == x);
}

/* Whether this is the first of the ranks that hold the same element; only it notes choices. */
static bool first_replica(const lc_run *run, const lc_node *node, int64_t rank) {
	for (int a = 0; a < run->p->axis_count; a++)
		if (node->layout[a].kind == LC_R && lc_coordinate(run->p, run->s, rank, a) != 0)
			return false;
	return true;
}

/* Note that operand k's element, x with bound e, could be `to`. */
static void note_choice(lc_bound_row *row_state, int k, int64_t element, double x, double e,
                        double to) {
	const lc_run *run = row_state->bounds->run;
	lc_choices *choices = row_state->bounds->choices;
	int id = row_state->n->in[k];
	if (!first_replica(run, &run->p->nodes.at[id], row_state->at->rank)) return;
	lc_nudge nudge = {.item = run->p->nodes.at[id].list < 0 ? 0 : row_state->at->item,
	                  .rank = row_state->at->rank,
	                  .element = element,
	                  .to = to,
	                  .bound = e + fabs(to - x)};
	for (int same; (same = lc_same_cells(&run->p->nodes.at[id])) >= 0;)
		id = run->p->nodes.at[id].in[same];
	nudge.id = id;
	choices->count++;
	if (choices->nudges.count == LC_CHOICES || row_state->status != LK_OK) return;
	if (!lk_push(&choices->nudges)) row_state->status = lk_oom(row_state->bounds->err);
	else *lk_last(&choices->nudges) = nudge;
}

/* The direction in which an operand must move away from an equal one to reverse `op`. */
static double away_from_equal(const lc_bound_row *row_state, int k) {
	int op = row_state->n->op;
	if (row_state->extremum >= 0) {
		const lc_program *program = row_state->bounds->run->p;
		int best = choice_source(program, row_state->n->in[row_state->extremum]);
		return program->nodes.at[best].op == LC_RED_MAX ? 1 : -1;
	}
	return (op == LC_GE || op == LC_LT) == (k == 0) ? -1 : 1;
}

void lc_note_comparison(lc_bound_row *row_state, const double x[], const double e[],
                        const int64_t element[]) {
	double far = e[0] + e[1];
	bool equal = x[0] == x[1];
	int op = row_state->n->op, k = row_state->weak[0] || (e[0] == 0 && !row_state->weak[1]);
	if (!(far > 0 && isfinite(far) && fabs(x[0] - x[1]) <= far)) return;
	if (row_state->extremum >= 0) {
		k = 1 - row_state->extremum;
		if (equal && row_state->equals[element[1 - k]] < 2) return; /* compared with itself */
	}
	double way = x[k] < x[1 - k] ? 1 : -1;
	if (equal) way = away_from_equal(row_state, k);
	bool meet = (op == LC_EQ || op == LC_NE) && !equal && row_state->extremum < 0;
	note_choice(row_state, k, element[k], x[k], e[k], meet ? x[1 - k] : x[1 - k] + way * far);
}

void lc_note_truncation(lc_bound_row *row_state, double x, double e, double y, int64_t element) {
	const lc_node *node = row_state->n;
	lc_dtype from = (lc_dtype)lc_in(row_state->bounds->run->p, node, 0)->dtype;
	for (int way = 1; way >= -1 && e > 0 && isfinite(e); way -= 2) {
		double to = x + way * e;
		double there =
			node->op == LC_ROUND ? rint(to) : lc_convert(from, (lc_dtype)node->dtype, to);
		if (there != y) note_choice(row_state, 0, element, x, e, to);
	}
}

void lc_bound_count_equals(void *state, int64_t out, int64_t count, const int64_t in[LC_INPUTS],
                           const int64_t stride[LC_INPUTS]) {
	const lc_bound_row *row_state = state;
	int k = row_state->extremum;
	(void)out;
	for (int64_t i = 0; i < count; i++) {
		int64_t best = in[k] + i * stride[k], other = in[1 - k] + i * stride[1 - k];
		row_state->equals[best] += row_state->x[k][best] == row_state->x[1 - k][other];
	}
}

void lc_choices_free(lc_choices *choices) {
	lk_vec_free(&choices->nudges);
}
