/* dims.c: numbers of elements as sums of products of symbols with rational factors: N, N/size(dp), 4*H, B*S + 1.
 *
 * A sum is kept canonical (terms sorted by powers, like terms joined, fractions reduced) and interned, so that equal
 * dims have equal ids. Everything that would not fit into 64 bits is refused. */
#include <stdlib.h>
#include <string.h>

#include "lang/types/program.h"

enum { DIMS_LIMIT = 4096, POWER_LIMIT = 16 };

static int64_t common_divisor(int64_t a, int64_t b) {
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
	return lk_hint(err, "sizes have 64 bits, sums %d terms, powers at most %d", LC_TERMS, POWER_LIMIT);
}

static lk_status reduce(lc_term *t, lk_error *err) {
	if (t->number == INT64_MIN || t->divisor == INT64_MIN) return too_large(err);
	if (t->divisor == 1) return LK_OK;
	int64_t common = common_divisor(t->number, t->divisor);
	if (common > 1) t->number /= common, t->divisor /= common;
	return LK_OK;
}

/* x += y, of like terms. */
static lk_status join(lc_term *x, const lc_term *y, lk_error *err) {
	int64_t a, b;
	if (__builtin_mul_overflow(x->number, y->divisor, &a) || __builtin_mul_overflow(y->number, x->divisor, &b) ||
	    __builtin_add_overflow(a, b, &x->number) || __builtin_mul_overflow(x->divisor, y->divisor, &x->divisor))
		return too_large(err);
	return reduce(x, err);
}

/* The id of a sum; `terms` is sorted and joined in place. */
static lk_status intern(lc_program *p, lc_term *terms, int count, lc_dim *out, lk_error *err) {
	int kept = 0;
	qsort(terms, (size_t)count, sizeof *terms, by_power);
	for (int i = 0; i < count; i++) {
		if (kept && by_power(&terms[kept - 1], &terms[i]) == 0) LK_TRY(join(&terms[kept - 1], &terms[i], err));
		else terms[kept++] = terms[i];
		if (terms[kept - 1].number == 0) kept--;
	}
	if (kept > LC_TERMS) return too_large(err);
	for (size_t i = 0; i < p->dims.count; i++) {
		const lc_dim_sum *s = &p->dims.at[i];
		if (s->count != kept || memcmp(s->terms, terms, sizeof *terms * (size_t)kept) != 0) continue;
		*out = (lc_dim)i;
		return LK_OK;
	}
	if (p->dims.count == DIMS_LIMIT)
		return lk_fail(err, LK_ERR_INPUT, p->name, "more than %d different sizes", DIMS_LIMIT);
	lc_term *copy = LK_ARRAY(&p->file->arena, lc_term, (size_t)kept);
	if (!copy || !lk_push(&p->dims)) return lk_oom(err);
	memcpy(copy, terms, sizeof *terms * (size_t)kept);
	*lk_last(&p->dims) = (lc_dim_sum){kept, copy};
	*out = (lc_dim)(p->dims.count - 1);
	return LK_OK;
}

lk_status lc_dim_number(lc_program *p, int64_t number, lc_dim *out, lk_error *err) {
	lc_term t = {.number = number, .divisor = 1};
	return intern(p, &t, 1, out, err);
}

static lk_status symbol(lc_program *p, int which, lc_dim *out, lk_error *err) {
	lc_term t = {.number = 1, .divisor = 1};
	t.power[which] = 1;
	return intern(p, &t, 1, out, err);
}

lk_status lc_dim_named(lc_program *p, int named, lc_dim *out, lk_error *err) {
	return symbol(p, LC_AXES + named, out, err);
}

lk_status lc_dim_axis(lc_program *p, int axis, lc_dim *out, lk_error *err) {
	if (p->axes[axis].size) return lc_dim_number(p, p->axes[axis].size, out, err);
	return symbol(p, axis, out, err);
}

lk_status lc_dim_plus(lc_program *p, lc_dim a, lc_dim b, int sign, lc_dim *out, lk_error *err) {
	lc_term terms[2 * LC_TERMS] = {{0}};
	int count = 0;
	for (int i = 0; i < p->dims.at[a].count; i++) terms[count++] = p->dims.at[a].terms[i];
	for (int i = 0; i < p->dims.at[b].count; i++) {
		terms[count] = p->dims.at[b].terms[i];
		terms[count++].number *= sign; /* reduce() keeps INT64_MIN out */
	}
	return intern(p, terms, count, out, err);
}

static lk_status multiply(const lc_term *x, const lc_term *y, int sign, lc_term *out, lk_error *err) {
	int64_t up = sign > 0 ? y->number : y->divisor, down = sign > 0 ? y->divisor : y->number;
	if (__builtin_mul_overflow(x->number, up, &out->number) || __builtin_mul_overflow(x->divisor, down, &out->divisor))
		return too_large(err);
	if (out->divisor < 0) {
		if (out->divisor == INT64_MIN || out->number == INT64_MIN) return too_large(err);
		out->divisor = -out->divisor, out->number = -out->number;
	}
	for (int s = 0; s < LC_SYMBOLS; s++) {
		int power = x->power[s] + sign * y->power[s];
		if (power > POWER_LIMIT || power < -POWER_LIMIT) return too_large(err);
		out->power[s] = (int8_t)power;
	}
	return reduce(out, err);
}

lk_status lc_dim_times(lc_program *p, lc_dim a, lc_dim b, lc_dim *out, lk_error *err) {
	lc_term terms[LC_TERMS * LC_TERMS] = {{0}};
	int count = 0;
	for (int i = 0; i < p->dims.at[a].count; i++)
		for (int j = 0; j < p->dims.at[b].count; j++)
			LK_TRY(multiply(&p->dims.at[a].terms[i], &p->dims.at[b].terms[j], 1, &terms[count++], err));
	return intern(p, terms, count, out, err);
}

lk_status lc_dim_over(lc_program *p, lc_dim a, lc_dim b, int line, int column, lc_dim *out, lk_error *err) {
	lc_term terms[LC_TERMS] = {{0}};
	if (p->dims.at[b].count != 1) {
		lc_wrong(p, line, column, err, "a size is divided by a sum or by zero");
		return lk_hint(err, "divide by a number, a dim, size(axis) or a product of them");
	}
	LK_TRY(lc_divides(p, a, b, line, column, err));
	int count = p->dims.at[a].count;
	for (int i = 0; i < count; i++)
		LK_TRY(multiply(&p->dims.at[a].terms[i], &p->dims.at[b].terms[0], -1, &terms[i], err));
	return intern(p, terms, count, out, err);
}

static bool plain(const lc_term *t) {
	for (int s = 0; s < LC_SYMBOLS; s++)
		if (t->power[s]) return false;
	return t->divisor == 1;
}

bool lc_dim_known(const lc_program *p, lc_dim d, int64_t *value) {
	const lc_dim_sum *s = &p->dims.at[d];
	if (s->count > 1 || (s->count == 1 && !plain(s->terms))) return false;
	*value = s->count ? s->terms[0].number : 0;
	return true;
}

/* Is no symbol from s to s + 7 in the term? Most terms have one or two: interpreters ask for sizes without end. */
static bool eight_absent(const lc_term *t, int s) {
	uint64_t powers;
	_Static_assert(LC_SYMBOLS % sizeof powers == 0, "eight symbols are looked at together");
	memcpy(&powers, &t->power[s], sizeof powers);
	return powers == 0;
}

/* number / divisor of one term, whole symbols taken into account; divisors are applied last. */
static lk_status term_value(const lc_term *t, const int64_t *size, lc_term *out, lk_error *err) {
	out->number = t->number, out->divisor = t->divisor;
	for (int s = 0; s < LC_SYMBOLS; s++) {
		if (s % 8 == 0 && eight_absent(t, s)) {
			s += 7;
			continue;
		}
		for (int i = 0; i < t->power[s]; i++) {
			if (__builtin_mul_overflow(out->number, size[s], &out->number)) return too_large(err);
			LK_TRY(reduce(out, err));
		}
		for (int i = 0; i < -t->power[s]; i++) {
			if (__builtin_mul_overflow(out->divisor, size[s], &out->divisor)) return too_large(err);
			LK_TRY(reduce(out, err));
		}
	}
	return out->divisor > 0 ? LK_OK : too_large(err);
}

lk_status lc_dim_value(const lc_program *p, lc_dim d, const int64_t size[LC_SYMBOLS], int64_t *out, lk_error *err) {
	lc_term sum, one;
	char text[128];
	sum.number = 0, sum.divisor = 1;
	for (int i = 0; i < p->dims.at[d].count; i++) {
		LK_TRY(term_value(&p->dims.at[d].terms[i], size, &one, err));
		LK_TRY(join(&sum, &one, err));
	}
	*out = sum.number;
	if (sum.divisor == 1 && sum.number >= 1) return LK_OK;
	lc_dim_text(p, d, text, sizeof text);
	lk_fail(err, LK_ERR_INPUT, p->name, "%s is %lld/%lld, which is no number of elements", text, (long long)sum.number,
	        (long long)sum.divisor);
	return lk_hint(err, "choose sizes that divide");
}

/* size(axis)^power becomes (size(axis) * ranks)^power; axes behind it have one number more. */
static lk_status refine(lc_term *t, int axis, int64_t ranks, lk_error *err) {
	for (int i = 0; i < t->power[axis]; i++) {
		if (__builtin_mul_overflow(t->number, ranks, &t->number)) return too_large(err);
		LK_TRY(reduce(t, err));
	}
	for (int i = 0; i < -t->power[axis]; i++) {
		if (__builtin_mul_overflow(t->divisor, ranks, &t->divisor)) return too_large(err);
		LK_TRY(reduce(t, err));
	}
	for (int s = LC_AXES - 1; s > axis + 1; s--) t->power[s] = t->power[s - 1];
	if (axis + 1 < LC_AXES) t->power[axis + 1] = 0;
	return LK_OK;
}

lk_status lc_dims_refine(lc_program *p, int axis, int64_t ranks, lk_error *err) {
	for (size_t i = 0; i < p->dims.count; i++) {
		lc_dim_sum *sum = &p->dims.at[i];
		lc_term *terms = LK_ARRAY(&p->file->arena, lc_term, (size_t)sum->count);
		if (!terms) return lk_oom(err);
		memcpy(terms, sum->terms, sizeof *terms * (size_t)sum->count);
		for (int k = 0; k < sum->count; k++) LK_TRY(refine(&terms[k], axis, ranks, err));
		sum->terms = terms; /* the order of terms stays: all have the same new column */
	}
	return LK_OK;
}

int32_t lc_dim_list(const lc_program *p, lc_dim d) {
	for (int i = 0; i < p->dims.at[d].count; i++)
		for (int s = 0; s < p->named_count; s++)
			if (p->dims.at[d].terms[i].power[LC_AXES + s] && p->named[s].list >= 0) return p->named[s].list;
	return -1;
}

/* ---- as text ---- */

static void factor(const lc_program *p, int s, FILE *out) {
	if (s < LC_AXES) fprintf(out, "size(%s)", p->axes[s].name);
	else fputs(p->named[s - LC_AXES].name, out);
}

static void term(const lc_program *p, const lc_term *t, bool first, FILE *out) {
	int64_t number = t->number < 0 ? -t->number : t->number;
	bool begun = false;
	if (t->number < 0) fputc('-', out); /* behind a 0 if it is the first: sizes have no sign */
	else if (!first) fputc('+', out);
	if (number != 1) fprintf(out, "%lld", (long long)number), begun = true;
	for (int s = 0; s < LC_SYMBOLS; s++)
		for (int i = 0; i < t->power[s]; i++) {
			if (begun) fputc('*', out);
			factor(p, s, out), begun = true;
		}
	if (!begun) fputc('1', out);
	for (int s = 0; s < LC_SYMBOLS; s++)
		for (int i = 0; i < -t->power[s]; i++) fputc('/', out), factor(p, s, out);
	if (t->divisor != 1) fprintf(out, "/%lld", (long long)t->divisor);
}

void lc_dim_print(const lc_program *p, lc_dim d, FILE *out) {
	const lc_dim_sum *s = &p->dims.at[d];
	if (s->count == 0 || s->terms[0].number < 0) fputc('0', out);
	for (int i = 0; i < s->count; i++) term(p, &s->terms[i], i == 0, out);
}

char *lc_dim_text(const lc_program *p, lc_dim d, char *out, size_t size) {
	FILE *file = fmemopen(out, size, "w");
	out[0] = '\0';
	if (!file) return out;
	lc_dim_print(p, d, file);
	fclose(file);
	out[size - 1] = '\0';
	return out;
}

/* ---- conditions ---- */

lk_status lc_divides(lc_program *p, lc_dim value, lc_dim divisor, int line, int column, lk_error *err) {
	int64_t v, d;
	char text[128], by[128];
	bool known = lc_dim_known(p, divisor, &d);
	if (known && d == 1) return LK_OK;
	if (known && d != 0 && lc_dim_known(p, value, &v)) {
		if (v % d == 0) return LK_OK;
		lc_wrong(p, line, column, err, "%s is not divisible by %s", lc_dim_text(p, value, text, sizeof text),
		         lc_dim_text(p, divisor, by, sizeof by));
		return lk_hint(err, "local tensors have one shape: choose a size that divides, or pad the tensor");
	}
	for (size_t i = 0; i < p->conditions.count; i++)
		if (p->conditions.at[i].value == value && p->conditions.at[i].divisor == divisor) return LK_OK;
	if (!lk_push(&p->conditions)) return lk_oom(err);
	*lk_last(&p->conditions) = (lc_condition){value, divisor, line, column};
	return LK_OK;
}
