#include "lang/run/run.h"

#include <math.h>
#include <string.h>

#include "lang/run/run_internal.h"

bool lc_first_of_local(const lc_program *p, const lc_node *n, const lc_sizes *s, int64_t rank) {
	for (int a = 0; a < p->axis_count; a++)
		if (n->layout[a].kind != LC_L && lc_coordinate(p, s, rank, a) != 0) return false;
	return true;
}

static uint64_t word_of(const lc_cells *c, int64_t i) {
	uint64_t word;
	if (c->element) return c->element[i];
	double x = c->number[i] == 0 ? 0 : c->number[i]; /* -0 and 0 are one */
	if (isnan(x)) x = NAN;
	memcpy(&word, &x, sizeof word);
	return word;
}

static void add_cells(lc_summary *out, const lc_cells *c, double *sum) {
	for (int64_t i = 0; i < c->count; i++) {
		out->digest = lc_mix(out->digest ^ word_of(c, i)) + 1;
		if (out->firsts < LC_FIRST && c->element) out->element[out->firsts++] = c->element[i];
		if (c->element) continue;
		double x = c->number[i];
		if (out->firsts < LC_FIRST) out->first[out->firsts++] = x;
		*sum += x;
		out->least = fmin(out->least, x), out->most = fmax(out->most, x); /* which leave NAN out */
	}
	out->tensors++;
	out->elements += c->count;
}

lk_status lc_summarize(lc_run *run, const lc_program *p, const lc_sizes *s, int id, lc_summary *out, lk_error *err) {
	const lc_node *n = &p->nodes.at[id];
	double sum = 0;
	*out = (lc_summary){.id = id, .least = NAN, .most = NAN};
	LK_TRY(lc_whole_shape(p, n, s, 0, out->extent, err));
	for (int64_t rank = 0; rank < lc_ranks(p, s); rank++) {
		if (!lc_first_of_local(p, n, s, rank)) continue;
		for (int64_t item = 0; item < lc_items(p, s, n); item++) {
			const lc_cells *whole;
			LK_TRY(lc_run_whole_of(run, id, item, rank, &whole, err));
			add_cells(out, whole, &sum);
		}
	}
	out->mean = sum / (double)out->elements;
	return LK_OK;
}

char *lc_result_name(const lc_program *p, int id, char *out, size_t size) {
	const lc_node *n = &p->nodes.at[id];
	int number = 0;
	if (n->op == LC_OUT) {
		const lc_node *x = &p->nodes.at[n->in[0]];
		for (int i = 0; i <= id; i++) number += p->nodes.at[i].op == LC_OUT;
		if (x->name) snprintf(out, size, "out %.63s", x->name);
		else snprintf(out, size, "out %d", number);
		return out;
	}
	snprintf(out, size, "%.63s", n->name);
	return out;
}
