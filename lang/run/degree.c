/* degree.c: a bound on the degree of a program's results, and the chance that different programs
 * agree by accident.
 *
 * In the field every element is a rational function of uniformly drawn variables: inputs, and one
 * variable for each keyed hash of a different argument. Two programs differ if for some element
 * these functions differ. They agree in a draw anyway only if
 *   - two hashes of different arguments met at equal ones, so that two variables became one: for
 *     each pair at most (degree of the difference of arguments) / p, by Schwartz and Zippel;
 *   - a divisor that is not 0 as a function was 0: at most its degree / p, for each division;
 *   - or the difference of the results, not 0 as a function, was 0: at most its degree / p.
 * The bound is the sum of these. It assumes that the keyed hash is a random function, which a
 * mixing of 64 bits is not exactly.
 *
 * Maxima and minima by the order of hashes are no rational functions and are left out: a maximum
 * over wrong operands still gives the right one if that is among them. A wrong choice among n
 * operands shows in a draw with a chance of about 1/n per element. They are counted, so that an
 * answer can report them. */
#include "base/arena.h"
#include "lang/run/run.h"

#include <math.h>
#include <string.h>

#include "lang/run/run_internal.h"
#include "base/check.h"

#define SATURATED 0x1p61

struct counter {
	const lc_program *p;
	const lc_sizes *s;
	lc_degree *of; /* [values] the largest of all elements */
	lc_degrees *out;
};

static lc_degree saturate(double above, double below) {
	return (lc_degree){fmin(above, SATURATED), fmin(below, SATURATED)};
}

static lc_degree larger(lc_degree a, lc_degree b) {
	return saturate(fmax(a.above, b.above), fmax(a.below, b.below));
}
static lc_degree degree_times(lc_degree a, lc_degree b) {
	return saturate(a.above + b.above, a.below + b.below);
}
static lc_degree over(lc_degree a, lc_degree b) {
	return saturate(a.above + b.below, a.below + b.above);
}
static lc_degree plus(lc_degree a, lc_degree b) {
	return saturate(fmax(a.above + b.below, b.above + a.below), a.below + b.below);
}

/* Of n terms: denominators multiply. */
static lc_degree degree_sum(lc_degree a, double n) {
	n = fmax(n, 1);
	return saturate(a.above + (n - 1) * a.below, n * a.below);
}

static double whole_degree(lc_degree a) {
	return a.above + a.below;
}

/* ---- hashes ---- */

static lc_degree hashed(struct counter *counter, const lc_node *node, double count) {
	for (int i = 0; i < node->inputs; i++)
		counter->out->argument =
			fmax(counter->out->argument, whole_degree(counter->of[node->in[i]]));
	counter->out->hashes += count;
	return (lc_degree){1, 0};
}

static lc_degree divided(struct counter *counter, const lc_node *node, double count) {
	hashed(counter, node, count);
	return over(counter->of[node->in[0]], counter->of[node->in[1]]);
}

/* Integer literal exponents are products, as in run_map.c; others, and those of integer formats
 * below 0, are hashes. */
static lc_degree raised(struct counter *counter, const lc_node *node, double count) {
	const lc_node *value = &counter->p->nodes.at[node->in[1]];
	bool minus = value->op == LC_NEG;
	if (minus) value = &counter->p->nodes.at[value->in[0]];
	if (value->op != LC_CONST || value->dtype != LC_WEAK_INT || value->number > 1024)
		return hashed(counter, node, count);
	lc_degree a = counter->of[node->in[0]],
			  power = saturate(a.above * value->number, a.below * value->number);
	if (!minus) return power;
	hashed(counter, node, count);
	return larger((lc_degree){1, 0}, over((lc_degree){0, 0}, power));
}

/* ---- by operation ---- */

static lc_degree of_map(struct counter *counter, const lc_node *node, double count) {
	lc_degree a = counter->of[node->in[0]], b = node->inputs > 1 ? counter->of[node->in[1]] : a;
	bool integer = lc_is_integer((lc_dtype)node->dtype) && node->dtype != LC_WEAK_INT;
	switch (node->op) {
	case LC_ADD:
	case LC_SUB: return plus(a, b);
	case LC_MUL: return degree_times(a, b);
	case LC_DIV: return integer ? hashed(counter, node, count) : divided(counter, node, count);
	case LC_POW: return raised(counter, node, count);
	case LC_NEG:
	case LC_COPY: return a;
	case LC_CAST: hashed(counter, node, count); return larger(a, (lc_degree){1, 0});
	case LC_SELECT:
		return plus(degree_times(a, b),
		            degree_times(plus(a, (lc_degree){0, 0}), counter->of[node->in[2]]));
	case LC_MIN:
	case LC_MAX: counter->out->choices++; return larger(a, b);
	default: return hashed(counter, node, count);
	}
}

static lk_status degree_elements(const struct counter *counter, const lc_node *node, double *out,
                                 lk_error *err) {
	int64_t whole[LC_RANK];
	*out = 0;
	for (int64_t item = 0; item < lc_items(counter->p, counter->s, node); item++) {
		double all = 1;
		LK_TRY(lc_whole_shape(counter->p, node, counter->s, item, whole, err));
		for (int d = 0; d < node->rank; d++) all *= (double)whole[d];
		*out += all;
	}
	return LK_OK;
}

/* Number of ranks with elements of their own. */
static double degree_copies(const struct counter *counter, const lc_node *node) {
	double all = 1;
	for (int a = 0; a < counter->p->axis_count; a++)
		if (node->layout[a].kind == LC_P || node->layout[a].kind == LC_L)
			all *= (double)counter->s->symbol[a];
	return all;
}

/* The most terms of a sum: the elements that it covers, on all ranks. */
static lk_status terms(const struct counter *counter, const lc_node *node, double *out,
                       lk_error *err) {
	*out = 1;
	switch (lc_ops[node->op].family) {
	case LC_RED:
	case LC_TOTALS:
	case LC_CONTRACT: return degree_elements(counter, &counter->p->nodes.at[node->in[0]], out, err);
	case LC_COMM: *out = (double)counter->s->symbol[node->axis]; return LK_OK;
	case LC_VIEW: return node->op == LC_CUMSUM ? degree_elements(counter, node, out, err) : LK_OK;
	case LC_ROWS:
		if (node->op == LC_ADD_ROWS)
			LK_TRY(degree_elements(counter, &counter->p->nodes.at[node->in[1]], out, err));
		*out = fmax(*out, (double)lc_ranks(counter->p, counter->s));
		return LK_OK;
	default: return LK_OK;
	}
}

/* Sums of hashes of scores; the lse, a one-to-one map of such a sum, counts as the sum. */
static lk_status attended(struct counter *counter, const lc_node *node, double count,
                          lc_degree *out, lk_error *err) {
	const lc_degree weight = {1, 0}, *of = counter->of;
	lc_degree score = degree_times(of[node->in[0]], of[node->in[1]]), sum = weight, times = weight;
	int64_t q[LC_RANK], k[LC_RANK];
	const lc_node *queries = lc_in(counter->p, node, 0);
	int rows = queries->rank - 2;
	LK_TRY(lc_whole_shape(counter->p, queries, counter->s, 0, q, err));
	LK_TRY(lc_whole_shape(counter->p, lc_in(counter->p, node, 1), counter->s, 0, k, err));
	double many = fmax((double)k[rows], (double)q[rows] * (double)(rows ? q[rows - 1] : 1));
	score = degree_sum(score, (double)q[rows + 1]);
	counter->out->argument = fmax(counter->out->argument, whole_degree(score));
	counter->out->hashes += count * many;
	if (node->op >= LC_ATTENTION_DQ) {
		lc_degree dy = of[node->in[3]], ds = degree_times(dy, of[node->in[2]]);
		ds = plus(degree_sum(ds, (double)k[rows + 1]), of[node->in[5]]);
		if (node->op == LC_ATTENTION_DV) ds = dy;
		else times = of[node->in[node->op == LC_ATTENTION_DQ ? 1 : 0]];
		times = degree_times(degree_times(over(weight, of[node->in[4]]), ds), times);
		*out = degree_sum(times, many);
		return LK_OK;
	}
	if (node->op == LC_ATTENTION_MORE) sum = plus(sum, of[node->in[4]]);
	if (node->op == LC_ATTENTION_LSE_MORE) sum = plus(sum, of[node->in[2]]);
	*out = sum;
	if (lc_attend_role(node, LC_ATTENDED) == LC_AS_NUMBER) return LK_OK;
	times = degree_sum(degree_times(weight, of[node->in[2]]), many);
	if (node->op == LC_ATTENTION_MORE)
		times = plus(times, degree_times(of[node->in[4]], of[node->in[3]]));
	*out = over(times, sum);
	return LK_OK;
}

static lk_status of_node(struct counter *counter, int id, lk_error *err) {
	LK_ASSERT(id >= 0 && (size_t)id < counter->p->nodes.count);
	const lc_node *node = &counter->p->nodes.at[id];
	double count, many;
	lc_degree a = node->inputs ? counter->of[node->in[0]] : (lc_degree){1, 0},
			  *to = &counter->of[id];
	LK_TRY(degree_elements(counter, node, &count, err));
	LK_TRY(terms(counter, node, &many, err));
	count *= degree_copies(counter, node);
	switch (lc_ops[node->op].family) {
	case LC_LEAF: *to = node->op == LC_CONST || node->op == LC_SIZE ? (lc_degree){0, 0} : a; break;
	case LC_VIEW:
		if (node->op == LC_IOTA) *to = (lc_degree){0, 0};
		else if (node->op == LC_CUMSUM) *to = degree_sum(a, many);
		else *to = larger(a, counter->of[node->in[node->inputs - 1]]);
		break;
	case LC_MAP: *to = of_map(counter, node, count); break;
	case LC_BLOCK: *to = hashed(counter, node, count); break;
	case LC_ATTEND: LK_TRY(attended(counter, node, count, to, err)); break;
	case LC_CONTRACT: *to = degree_sum(degree_times(a, counter->of[node->in[1]]), many); break;
	case LC_EFFECT: *to = counter->of[node->in[node->op == LC_UPDATE]]; break;
	case LC_RED:
		*to = node->op == LC_RED_NORM ? degree_times(a, a) : a;
		*to = degree_sum(*to, many);
		if (node->op == LC_RED_MAX || node->op == LC_RED_MIN) {
			counter->out->choices++;
			*to = a;
		}
		if (node->op != LC_RED_NORM) break;
		counter->out->argument = fmax(counter->out->argument, whole_degree(*to));
		*to = hashed(counter, node, count);
		break;
	default: *to = degree_sum(a, many); break;
	}
	return LK_OK;
}

lk_status lc_degrees_of(const lc_program *program, const lc_sizes *sizes, lc_degrees *out,
                        lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	int results[LC_VALUES], count = 0;
	struct counter c = {.p = program,
	                    .s = sizes,
	                    .of = LK_ARRAY(&arena, lc_degree, program->nodes.count),
	                    .out = out};
	*out = (lc_degrees){0};
	lk_status status = c.of ? LK_OK : lk_oom(err);
	for (int id = 0; id < (int)program->nodes.count && status == LK_OK; id++)
		status = of_node(&c, id, err);
	if (status == LK_OK) status = lc_results(program, results, LC_VALUES, &count, err);
	for (int i = 0; i < count && status == LK_OK; i++) {
		/* A partial result is summed over all ranks. */
		lc_degree whole = degree_sum(c.of[results[i]], (double)lc_ranks(program, sizes));
		out->result = fmax(out->result, whole_degree(whole));
	}
	lk_arena_free(&arena);
	return status;
}

double lc_chance(const lc_degrees *a, const lc_degrees *b) {
	double hashes = a->hashes + b->hashes, argument = a->argument + b->argument;
	double bad = a->result + b->result + (hashes * hashes / 2 + hashes) * argument;
	return fmin(1, bad / (double)LC_PRIME);
}
