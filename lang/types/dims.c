/* dims.c: numbers of elements as sums of products of symbols with rational factors: N, N/size(dp),
 * 4*H, B*S + 1.
 *
 * A sum is canonical (terms sorted by powers, like terms joined, fractions reduced) and interned,
 * so equal dims have equal ids. Results that would not fit into 64 bits are refused. */
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "lang/types/program.h"
#include "base/check.h"
#include "base/sort.h"

enum { DIMS_LIMIT = 4096, POWER_LIMIT = 16 };

static int64_t dims_common_divisor(int64_t a, int64_t b) {
	while (b != 0) {
		int64_t rest = a % b;
		a = b;
		b = rest;
	}
	return a < 0 ? -a : a;
}

static int by_power(const void *a, const void *b) {
	const lc_term *x = a, *y = b;
	return -memcmp(x->power, y->power, sizeof x->power);
}

static lk_status too_large(lk_error *err) {
	lk_fail(err, LK_ERR_INPUT, NULL, "a size overflows");
	return lk_hint(err, "sizes have 64 bits, sums %d terms, powers at most %d", LC_TERMS,
	               POWER_LIMIT);
}

static lk_status dims_reduce(lc_term *term, lk_error *err) {
	if (term->number == INT64_MIN || term->divisor == INT64_MIN) return too_large(err);
	if (term->divisor == 1) return LK_OK;
	int64_t common = dims_common_divisor(term->number, term->divisor);
	if (common > 1) {
		term->number /= common;
		term->divisor /= common;
	}
	return LK_OK;
}

/* x += y, of like terms. */
static lk_status dims_join(lc_term *x, const lc_term *y, lk_error *err) {
	int64_t a, b;
	if (__builtin_mul_overflow(x->number, y->divisor, &a) ||
	    __builtin_mul_overflow(y->number, x->divisor, &b) ||
	    __builtin_add_overflow(a, b, &x->number) ||
	    __builtin_mul_overflow(x->divisor, y->divisor, &x->divisor))
		return too_large(err);
	return dims_reduce(x, err);
}

/* The id of a sum; sorts and joins `terms` in place. */
static lk_status dims_intern(lc_program *program, lc_term *terms, int count, lc_dim *out,
                             lk_error *err) {
	int kept = 0;
	lk_sort(terms, (size_t)count, sizeof *terms, by_power);
	for (int i = 0; i < count; i++) {
		if (kept && by_power(&terms[kept - 1], &terms[i]) == 0)
			LK_TRY(dims_join(&terms[kept - 1], &terms[i], err));
		else terms[kept++] = terms[i];
		if (terms[kept - 1].number == 0) kept--;
	}
	if (kept > LC_TERMS) return too_large(err);
	for (size_t i = 0; i < program->dims.count; i++) {
		const lc_dim_sum *sum = &program->dims.at[i];
		if (sum->count != kept || memcmp(sum->terms, terms, sizeof *terms * (size_t)kept) != 0)
			continue;
		*out = (lc_dim)i;
		return LK_OK;
	}
	if (program->dims.count == DIMS_LIMIT)
		return lk_fail(err, LK_ERR_INPUT, program->name, "more than %d different sizes",
		               DIMS_LIMIT);
	lc_term *copy = LK_ARRAY(&program->file->arena, lc_term, (size_t)kept);
	if (!copy || !lk_push(&program->dims)) return lk_oom(err);
	memcpy(copy, terms, sizeof *terms * (size_t)kept);
	*lk_last(&program->dims) = (lc_dim_sum){kept, copy};
	*out = (lc_dim)(program->dims.count - 1);
	return LK_OK;
}

lk_status lc_dim_number(lc_program *program, int64_t number, lc_dim *out, lk_error *err) {
	lc_term t = {.number = number, .divisor = 1};
	return dims_intern(program, &t, 1, out, err);
}

static lk_status dims_symbol(lc_program *program, int which, lc_dim *out, lk_error *err) {
	lc_term t = {.number = 1, .divisor = 1};
	t.power[which] = 1;
	return dims_intern(program, &t, 1, out, err);
}

lk_status lc_dim_named(lc_program *program, int named, lc_dim *out, lk_error *err) {
	return dims_symbol(program, LC_AXES + named, out, err);
}

lk_status lc_dim_axis(lc_program *program, int axis, lc_dim *out, lk_error *err) {
	if (program->axes[axis].size) return lc_dim_number(program, program->axes[axis].size, out, err);
	return dims_symbol(program, axis, out, err);
}

lk_status lc_dim_plus(lc_program *program, lc_dim a, lc_dim b, int sign, lc_dim *out,
                      lk_error *err) {
	lc_term terms[2 * LC_TERMS] = {{0}};
	int count = 0;
	for (int i = 0; i < program->dims.at[a].count; i++)
		terms[count++] = program->dims.at[a].terms[i];
	for (int i = 0; i < program->dims.at[b].count; i++) {
		terms[count] = program->dims.at[b].terms[i];
		terms[count++].number *= sign; /* reduce() excludes INT64_MIN */
	}
	return dims_intern(program, terms, count, out, err);
}

static lk_status dims_multiply(const lc_term *x, const lc_term *y, int sign, lc_term *out,
                               lk_error *err) {
	int64_t up = sign > 0 ? y->number : y->divisor;
	int64_t down = sign > 0 ? y->divisor : y->number;
	if (__builtin_mul_overflow(x->number, up, &out->number) ||
	    __builtin_mul_overflow(x->divisor, down, &out->divisor))
		return too_large(err);
	if (out->divisor < 0) {
		if (out->divisor == INT64_MIN || out->number == INT64_MIN) return too_large(err);
		out->divisor = -out->divisor;
		out->number = -out->number;
	}
	for (int s = 0; s < LC_SYMBOLS; s++) {
		int power = x->power[s] + sign * y->power[s];
		if (power > POWER_LIMIT || power < -POWER_LIMIT) return too_large(err);
		out->power[s] = (int8_t)power;
	}
	return dims_reduce(out, err);
}

lk_status lc_dim_times(lc_program *program, lc_dim a, lc_dim b, lc_dim *out, lk_error *err) {
	lc_term terms[LC_TERMS * LC_TERMS] = {{0}};
	int count = 0;
	for (int i = 0; i < program->dims.at[a].count; i++)
		for (int j = 0; j < program->dims.at[b].count; j++)
			LK_TRY(dims_multiply(&program->dims.at[a].terms[i], &program->dims.at[b].terms[j], 1,
			                     &terms[count++], err));
	return dims_intern(program, terms, count, out, err);
}

lk_status lc_dim_over(lc_program *program, lc_dim a, lc_dim b, int line, int column, lc_dim *out,
                      lk_error *err) {
	lc_term terms[LC_TERMS] = {{0}};
	if (program->dims.at[b].count != 1) {
		lc_wrong(program, line, column, err, "a size is divided by a sum or by zero");
		return lk_hint(err, "divide by a number, a dim, size(axis) or a product of them");
	}
	LK_TRY(lc_divides(program, a, b, line, column, err));
	int count = program->dims.at[a].count;
	for (int i = 0; i < count; i++)
		LK_TRY(dims_multiply(&program->dims.at[a].terms[i], &program->dims.at[b].terms[0], -1,
		                     &terms[i], err));
	return dims_intern(program, terms, count, out, err);
}

static bool dims_plain(const lc_term *term) {
	for (int s = 0; s < LC_SYMBOLS; s++)
		if (term->power[s]) return false;
	return term->divisor == 1;
}

bool lc_dim_known(const lc_program *program, lc_dim d, int64_t *value) {
	const lc_dim_sum *sum = &program->dims.at[d];
	if (sum->count > 1 || (sum->count == 1 && !dims_plain(sum->terms))) return false;
	*value = sum->count ? sum->terms[0].number : 0;
	return true;
}

/* Whether symbols s to s + 7 are all absent from the term. Most terms have one or two; interpreters
 * evaluate sizes very often. */
static bool eight_absent(const lc_term *term, int s) {
	uint64_t powers;
	_Static_assert(LC_SYMBOLS % sizeof powers == 0, "eight symbols are looked at together");
	memcpy(&powers, &term->power[s], sizeof powers);
	return powers == 0;
}

/* Value of number / divisor of one term, integer symbols included; divisors are applied last. */
static lk_status term_value(const lc_term *term, const int64_t *size, lc_term *out, lk_error *err) {
	out->number = term->number;
	out->divisor = term->divisor;
	for (int s = 0; s < LC_SYMBOLS; s++) {
		if (s % 8 == 0 && eight_absent(term, s)) {
			s += 7;
			continue;
		}
		for (int i = 0; i < term->power[s]; i++) {
			if (__builtin_mul_overflow(out->number, size[s], &out->number)) return too_large(err);
			LK_TRY(dims_reduce(out, err));
		}
		for (int i = 0; i < -term->power[s]; i++) {
			if (__builtin_mul_overflow(out->divisor, size[s], &out->divisor)) return too_large(err);
			LK_TRY(dims_reduce(out, err));
		}
	}
	return out->divisor > 0 ? LK_OK : too_large(err);
}

lk_status lc_dim_value(const lc_program *program, lc_dim d, const int64_t size[LC_SYMBOLS],
                       int64_t *out, lk_error *err) {
	lc_term sum, one;
	char text[128];
	sum.number = 0;
	sum.divisor = 1;
	for (int i = 0; i < program->dims.at[d].count; i++) {
		LK_TRY(term_value(&program->dims.at[d].terms[i], size, &one, err));
		LK_TRY(dims_join(&sum, &one, err));
	}
	*out = sum.number;
	if (sum.divisor == 1 && sum.number >= 1) return LK_OK;
	lc_dim_text(program, d, text, sizeof text);
	lk_fail(err, LK_ERR_INPUT, program->name, "%s is %lld/%lld, which is not a number of elements",
	        text, (long long)sum.number, (long long)sum.divisor);
	return lk_hint(err, "choose sizes that divide");
}

/* size(axis)^power becomes (size(axis) * ranks)^power; axes after it move up by one. */
static lk_status dims_refine(lc_term *term, int axis, int64_t ranks, lk_error *err) {
	for (int i = 0; i < term->power[axis]; i++) {
		if (__builtin_mul_overflow(term->number, ranks, &term->number)) return too_large(err);
		LK_TRY(dims_reduce(term, err));
	}
	for (int i = 0; i < -term->power[axis]; i++) {
		if (__builtin_mul_overflow(term->divisor, ranks, &term->divisor)) return too_large(err);
		LK_TRY(dims_reduce(term, err));
	}
	for (int s = LC_AXES - 1; s > axis + 1; s--) term->power[s] = term->power[s - 1];
	if (axis + 1 < LC_AXES) term->power[axis + 1] = 0;
	return LK_OK;
}

lk_status lc_dims_refine(lc_program *program, int axis, int64_t ranks, lk_error *err) {
	LK_ASSERT(axis >= 0 && axis < program->axis_count);
	for (size_t i = 0; i < program->dims.count; i++) {
		lc_dim_sum *sum = &program->dims.at[i];
		lc_term *terms = LK_ARRAY(&program->file->arena, lc_term, (size_t)sum->count);
		if (!terms) return lk_oom(err);
		memcpy(terms, sum->terms, sizeof *terms * (size_t)sum->count);
		for (int k = 0; k < sum->count; k++) LK_TRY(dims_refine(&terms[k], axis, ranks, err));
		sum->terms = terms; /* the order of terms stays: all have the same new column */
	}
	return LK_OK;
}

int32_t lc_dim_list(const lc_program *program, lc_dim d) {
	for (int i = 0; i < program->dims.at[d].count; i++)
		for (int s = 0; s < program->named_count; s++)
			if (program->dims.at[d].terms[i].power[LC_AXES + s] && program->named[s].list >= 0)
				return program->named[s].list;
	return -1;
}

int lc_dim_across(const lc_program *program, lc_dim d) {
	const lc_dim_sum *sum = &program->dims.at[d];
	int only = -1;
	if (sum->count != 1 || sum->terms[0].number != 1 || sum->terms[0].divisor != 1) return -1;
	for (int s = 0; s < LC_SYMBOLS; s++) {
		if (!sum->terms[0].power[s]) continue;
		if (only >= 0 || s < LC_AXES || sum->terms[0].power[s] != 1) return -1;
		only = s - LC_AXES;
	}
	return only >= 0 && program->named[only].list >= 0 ? only : -1;
}

/* ---- as text ---- */

static void factor(const lc_program *program, int s, FILE *out) {
	if (s < LC_AXES) fprintf(out, "size(%s)", program->axes[s].name);
	else fputs(program->named[s - LC_AXES].name, out);
}

static void dims_term(const lc_program *program, const lc_term *t, bool first, FILE *out) {
	int64_t number = t->number < 0 ? -t->number : t->number;
	bool begun = false;
	if (t->number < 0) fputc('-', out); /* after a 0 if it is first: sizes have no sign */
	else if (!first) fputc('+', out);
	if (number != 1) {
		fprintf(out, "%lld", (long long)number);
		begun = true;
	}
	for (int s = 0; s < LC_SYMBOLS; s++)
		for (int i = 0; i < t->power[s]; i++) {
			if (begun) fputc('*', out);
			factor(program, s, out);
			begun = true;
		}
	if (!begun) fputc('1', out);
	for (int s = 0; s < LC_SYMBOLS; s++)
		for (int i = 0; i < -t->power[s]; i++) {
			fputc('/', out);
			factor(program, s, out);
		}
	if (t->divisor != 1) fprintf(out, "/%lld", (long long)t->divisor);
}

void lc_dim_print(const lc_program *program, lc_dim d, FILE *out) {
	const lc_dim_sum *sum = &program->dims.at[d];
	if (sum->count == 0 || sum->terms[0].number < 0) fputc('0', out);
	for (int i = 0; i < sum->count; i++) dims_term(program, &sum->terms[i], i == 0, out);
}

char *lc_dim_text(const lc_program *program, lc_dim d, char *out, size_t size) {
	FILE *file = lc_text_open(program, out, size);
	out[0] = '\0';
	if (!file) return out;
	lc_dim_print(program, d, file);
	fclose(file);
	out[size - 1] = '\0';
	return out;
}

/* ---- conditions ---- */

/* Whether it divides for all sizes. */
static bool dims_always(const lc_program *program, lc_dim value, lc_dim divisor) {
	const lc_dim_sum *sum = &program->dims.at[value], *by = &program->dims.at[divisor];
	lc_term term;
	if (by->count != 1) return false;
	for (int i = 0; i < sum->count; i++) {
		if (dims_multiply(&sum->terms[i], by->terms, -1, &term, NULL) != LK_OK) return false;
		if (term.divisor != 1) return false;
		for (int s = 0; s < LC_SYMBOLS; s++)
			if (term.power[s] < 0) return false;
	}
	return true;
}

lk_status lc_divides(lc_program *program, lc_dim value, lc_dim divisor, int line, int column,
                     lk_error *err) {
	int64_t v, d;
	char text[128], by[128];
	bool known = lc_dim_known(program, divisor, &d);
	if ((known && d == 1) || dims_always(program, value, divisor)) return LK_OK;
	if (known && d != 0 && lc_dim_known(program, value, &v)) {
		if (v % d == 0) return LK_OK;
		lc_wrong(program, line, column, err, "%s is not divisible by %s",
		         lc_dim_text(program, value, text, sizeof text),
		         lc_dim_text(program, divisor, by, sizeof by));
		return lk_hint(err, "choose sizes that divide without a remainder, or pad the tensor");
	}
	for (size_t i = 0; i < program->conditions.count; i++)
		if (program->conditions.at[i].value == value &&
		    program->conditions.at[i].divisor == divisor)
			return LK_OK;
	if (!lk_push(&program->conditions)) return lk_oom(err);
	*lk_last(&program->conditions) = (lc_condition){value, divisor, line, column};
	return LK_OK;
}
