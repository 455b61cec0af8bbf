#include "lang/run/run.h"

#include <math.h>
#include <string.h>

#include "lang/run/run_internal.h"
#include "base/check.h"

bool lc_first_of_local(const lc_program *program, const lc_node *node, const lc_sizes *sizes,
                       int64_t rank) {
	for (int a = 0; a < program->axis_count; a++)
		if (node->layout[a].kind != LC_L && lc_coordinate(program, sizes, rank, a) != 0)
			return false;
	return true;
}

static uint64_t summary_word_of(const lc_cells *cells, int64_t i) {
	uint64_t word;
	if (cells->element) return cells->element[i];
	double x = cells->number[i] == 0 ? 0 : cells->number[i]; /* -0 and 0 are equal */
	if (isnan(x)) x = NAN;
	memcpy(&word, &x, sizeof word);
	return word;
}

static void add_cells(lc_summary *out, const lc_cells *cells, double *sum) {
	for (int64_t i = 0; i < cells->count; i++) {
		out->digest = lc_mix(out->digest ^ summary_word_of(cells, i)) + 1;
		if (out->firsts < LC_FIRST && cells->element)
			out->element[out->firsts++] = cells->element[i];
		if (cells->element) continue;
		double x = cells->number[i];
		if (out->firsts < LC_FIRST) out->first[out->firsts++] = x;
		*sum += x;
		out->least = fmin(out->least, x);
		out->most = fmax(out->most, x); /* ignores NAN */
	}
	out->tensors++;
	out->elements += cells->count;
}

lk_status lc_summarize(lc_run *run, const lc_program *program, const lc_sizes *sizes, int id,
                       lc_summary *out, lk_error *err) {
	LK_ASSERT(id >= 0 && (size_t)id < run->p->nodes.count);
	const lc_node *node = &program->nodes.at[id];
	double sum = 0;
	*out = (lc_summary){.id = id, .least = NAN, .most = NAN};
	LK_TRY(lc_whole_shape(program, node, sizes, 0, out->extent, err));
	for (int64_t rank = 0; rank < lc_ranks(program, sizes); rank++) {
		if (!lc_first_of_local(program, node, sizes, rank)) continue;
		for (int64_t item = 0; item < lc_items(program, sizes, node); item++) {
			const lc_cells *whole;
			LK_TRY(lc_run_whole_of(run, id, item, rank, &whole, err));
			add_cells(out, whole, &sum);
		}
	}
	out->mean = sum / (double)out->elements;
	return LK_OK;
}

char *lc_result_name(const lc_program *program, int id, char *out, size_t size) {
	LK_ASSERT(id >= 0 && (size_t)id < program->nodes.count);
	const lc_node *node = &program->nodes.at[id];
	int number = 0;
	if (node->op == LC_OUT) {
		const lc_node *value = &program->nodes.at[node->in[0]];
		for (int i = 0; i <= id; i++) number += program->nodes.at[i].op == LC_OUT;
		if (value->name) snprintf(out, size, "out %.63s", value->name);
		else snprintf(out, size, "out %d", number);
		return out;
	}
	snprintf(out, size, "%.63s", node->name);
	return out;
}
