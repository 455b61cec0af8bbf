/* cycles.c: core cycles of a pass of emitted C with its data in the cache, per element of each
 * operation. Its loops become vectors (data/target/numbers.h), except for powers, sines and
 * computation in double. Measured on a Xeon of 2019 at 3.1 GHz with vectors of 256 bits, gcc 12,
 * -O3; calibrate host measures one of them on each machine (calibrate/host/measure_passes.c), by
 * which all others are scaled there. */
#include "lang/steps/steps_internal.h"

#include "base/check.h"

/* Of float; 0: less than a quarter of a cycle. */
static const double cycles_of_op[] = {
	[LC_DIV] = 0.7,   [LC_POW] = 26,     [LC_SQRT] = 0.9,   [LC_EXP] = 2.7,     [LC_LOG] = 2.9,
	[LC_TANH] = 4.1,  [LC_ERF] = 6.4,    [LC_GELU] = 6.8,   [LC_SIGMOID] = 2.6, [LC_SIN] = 14,
	[LC_COS] = 14,    [LC_EXP2] = 2.5,   [LC_DROPOUT] = 17, [LC_RED_SUM] = 1,   [LC_RED_MAX] = 1,
	[LC_RED_MIN] = 1, [LC_RED_MEAN] = 1, [LC_RED_NORM] = 1, [LC_TOTAL] = 1,     [LC_OUT] = 0,
};
static const double CYCLES_LEAST = 0.2;
static const double CYCLES_LIBRARY = 5; /* of a function in double: a call per element */

static double cycles_widen(lc_dtype dtype) {
	if (dtype == LC_BF16) return 0.15;
	return dtype == LC_F16 || dtype == LC_F8 ? 0.4 : 0;
}

/* Rounding of a value that the same pass uses again, as if it had been written and read. */
static double cycles_round(lc_dtype dtype) {
	if (dtype == LC_F8) return cycles_widen(dtype) + 1.6;
	return dtype == LC_F16 || dtype == LC_BF16 ? 0.7 : 0;
}

static double cycles_narrow(lc_dtype dtype) {
	if (dtype == LC_BF16) return 0.6;
	if (dtype == LC_F8) return 1.6;
	return dtype == LC_F16 ? 1.2 : 0;
}

double lc_gelu_cycles(void) {
	return 2 * cycles_widen(LC_BF16) + CYCLES_LEAST + cycles_of_op[LC_GELU] +
	       cycles_narrow(LC_BF16);
}

/* Whether a multiplication is emitted: squares, and quotients by one number. */
static bool cycles_multiplies(const lc_program *program, const lc_node *node) {
	if (node->op == LC_DIV) return lc_divides_all(program, node);
	const lc_node *exponent = node->op == LC_POW ? &program->nodes.at[node->in[1]] : node;
	return exponent->op == LC_CONST && exponent->number == 2;
}

double lc_reduction_cycles(lk_dtype dtype) {
	lc_dtype narrow = LC_F32;
	if (dtype == LK_FP16) narrow = LC_F16;
	if (dtype == LK_BF16) narrow = LC_BF16;
	if (dtype == LK_FP8) narrow = LC_F8;
	if (narrow == LC_F32) return 0;
	return 2 * cycles_widen(narrow) + CYCLES_LEAST + cycles_narrow(narrow);
}

static bool cycles_calls(const lc_node *node) {
	return node->dtype == LC_F64 && cycles_of_op[node->op] > 1 &&
	       lc_ops[node->op].family == LC_MAP && node->op != LC_POW;
}

static bool cycles_goes_on(const lc_program *program, const lc_step *step, int v) {
	for (int i = 0; i < step->values.count; i++) {
		const lc_node *node = &program->nodes.at[step->values.at[i]];
		for (int k = 0; k < node->inputs; k++)
			if (node->in[k] == v) return true;
	}
	return false;
}

double lc_element_cycles(const lc_program *program, const lc_step *step, int v) {
	const lc_node *node = &program->nodes.at[v];
	lc_family family = lc_ops[node->op].family;
	if (family != LC_MAP && family != LC_DROP && family != LC_RED && family != LC_TOTALS) return 0;
	LK_ASSERT(node->op <= LC_OUT);
	double cycles = cycles_of_op[node->op] > CYCLES_LEAST ? cycles_of_op[node->op] : CYCLES_LEAST;
	if (cycles_calls(node)) cycles *= CYCLES_LIBRARY;
	if (cycles_multiplies(program, node)) cycles = CYCLES_LEAST;
	bool goes_on = cycles_goes_on(program, step, v);
	if (!goes_on || lc_ids_have(&step->writes, v)) cycles += cycles_narrow((lc_dtype)node->dtype);
	if (goes_on) cycles += cycles_round((lc_dtype)node->dtype);
	for (int i = 0; i < node->inputs; i++) {
		const lc_node *input = &program->nodes.at[node->in[i]];
		if (input->rank > 0 && !lc_ids_have(&step->values, node->in[i]))
			cycles += cycles_widen((lc_dtype)input->dtype);
	}
	return cycles;
}
