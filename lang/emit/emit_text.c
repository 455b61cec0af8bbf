/* emit_text.c: names, comments, numbers and formats in C; sizes as checked expressions. */
#include "lang/emit/emit_internal.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/check.h"

static const char *ring_suffix(lc_dtype t) {
	if (t == LC_F64) return "";
	if (lc_is_real(t)) return "f";
	if (t >= LC_U64 && t <= LC_U8) return "u";
	return "l";
}

void lc_put_join(const lc_node *scatter, const char *a, const char *b, FILE *out) {
	lc_dtype t = (lc_dtype)scatter->dtype;
	bool sum = scatter->reduce == LC_SUM;
	const char *load = lc_load_call(t);
	bool narrow = lc_is_narrow(t);
	fputc('(', out);
	if (narrow) fprintf(out, "rt_round_%s(", lc_dtype_name(t));
	if (t == LC_BOOL)
		fprintf(out, "%s%s) %s %s%s)", load, a, scatter->reduce == LC_RMIN ? "&" : "|", load, b);
	else if (sum && lc_is_real(t)) fprintf(out, "%s%s) + %s%s)", load, a, load, b);
	else
		fprintf(out, "rt_%s%s(%s%s), %s%s))", lc_reduction_word(scatter->reduce == LC_RMAX, !sum),
		        ring_suffix(t), load, a, load, b);
	fputs(narrow ? "))" : ")", out);
}

/* ---- names ---- */

char *lc_identifier(const char *prefix, const char *name, char out[LC_IDENTIFIER]) {
	size_t used = 0, room = LC_IDENTIFIER - 1;
	for (; *prefix && used < room; prefix++) out[used++] = *prefix;
	for (; *name && used < room; name++) {
		unsigned char c = (unsigned char)*name;
		if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_')
			out[used++] = *name;
		else if (used + 3 <= room) {
			snprintf(out + used, 4, "_%02X", c);
			used += 3;
		}
	}
	out[used] = '\0';
	return out;
}

char *lc_value_identifier(const lc_program *program, const char *prefix, int id,
                          char out[LC_IDENTIFIER]) {
	LK_ASSERT(id >= 0 && (size_t)id < program->nodes.count);
	const char *name = program->nodes.at[id].name;
	char begin[48];
	if (name && lc_value_find(program, name) == id) snprintf(begin, sizeof begin, "%.16s_", prefix);
	else snprintf(begin, sizeof begin, name ? "%.16s%d_" : "%.16s%d", prefix, id);
	return lc_identifier(begin, name ? name : "", out);
}

/* ---- comments and strings ---- */

/* Whether two characters need a blank between them because they mean something together; also after
 * a backslash. */
static bool breaks(char last, char c) {
	return (last == '*' && c == '/') || (last == '/' && (c == '*' || c == '/')) ||
	       (last == '?' && c == '?') || (last == '\\' && c == '\n');
}

void lc_put_comment(const char *text, const char *lead, FILE *out) {
	char last = '\n';
	for (; *text; text++) {
		char c = *text == '\n' || *text == '\t' || ((unsigned char)*text >= ' ' && *text != 127)
		             ? *text
		             : '.';
		if (last == '\n') fputs(lead, out);
		if (breaks(last, c)) fputc(last == '\\' ? '.' : ' ', out);
		fputc(c, out);
		last = c;
	}
	if (last != '\n') fputs(last == '\\' ? ".\n" : "\n", out);
}

void lc_put_string(const char *text, FILE *out) {
	fputc('"', out);
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;
		if (c == '"' || c == '\\') fprintf(out, "\\%c", c);
		else if (c >= ' ' && c < 127 && c != '?') fputc(c, out);
		else fprintf(out, "\\%03o", c);
	}
	fputc('"', out);
}

void lc_put_tabs(int depth, FILE *out) {
	for (int i = 0; i < depth; i++) fputc('\t', out);
}

/* ---- numbers ---- */

static void put_decimal(const char *digits, const char *end, FILE *out) {
	fprintf(out, "%s%s%s", digits, strpbrk(digits, ".e") ? "" : ".0", end);
}

static void put_float(double number, FILE *out) {
	char digits[32];
	float value = (float)number;
	if (isinf(value)) {
		fputs(value < 0 ? "-INFINITY" : "INFINITY", out);
		return;
	}
	for (int precision = 6; precision <= 9; precision++) {
		snprintf(digits, sizeof digits, "%.*g", precision, (double)value);
		if (strtof(digits, NULL) == value) break;
	}
	put_decimal(digits, "f", out);
}

void lc_put_number(double number, lc_dtype t, FILE *out) {
	char digits[32];
	if (t == LC_BOOL) fputs(number != 0 ? "true" : "false", out);
	else if (lc_is_integer(t) && t != LC_WEAK_INT)
		fprintf(out, t == LC_U64 ? "UINT64_C(%.0f)" : "INT64_C(%.0f)", number);
	else if (t == LC_F64 || lc_is_weak(t))
		put_decimal(lk_format_shortest(number, digits, sizeof digits), "", out);
	else put_float(number, out);
}

/* ---- formats ---- */

/* A format in memory and in registers, and the conversions. */
struct format_row {
	const char *name, *memory, *registers, *load, *store;
};

static const struct format_row formats[LC_DTYPE_COUNT] = {
	[LC_F64] = {"RT_F64", "double", "double", "(", "("},
	[LC_F32] = {"RT_F32", "float", "float", "(", "("},
	[LC_F16] = {"RT_F16", "uint16_t", "float", "rt_from_f16(", "rt_to_f16("},
	[LC_BF16] = {"RT_BF16", "uint16_t", "float", "rt_from_bf16(", "rt_to_bf16("},
	[LC_F8] = {"RT_F8", "uint8_t", "float", "rt_from_f8(", "rt_to_f8("},
	[LC_I64] = {"RT_I64", "int64_t", "int64_t", "(", "("},
	[LC_I32] = {"RT_I32", "int32_t", "int64_t", "(", "(int32_t)("},
	[LC_I16] = {"RT_I16", "int16_t", "int64_t", "(", "(int16_t)("},
	[LC_I8] = {"RT_I8", "int8_t", "int64_t", "(", "(int8_t)("},
	[LC_U64] = {"RT_U64", "uint64_t", "uint64_t", "(", "("},
	[LC_U32] = {"RT_U32", "uint32_t", "int64_t", "(", "(uint32_t)("},
	[LC_U16] = {"RT_U16", "uint16_t", "int64_t", "(", "(uint16_t)("},
	[LC_U8] = {"RT_U8", "uint8_t", "int64_t", "(", "(uint8_t)("},
	[LC_BOOL] = {"RT_BOOL", "uint8_t", "bool", "(", "(uint8_t)("},
	[LC_WEAK_INT] = {"RT_F64", "double", "double", "(", "("},
	[LC_WEAK_REAL] = {"RT_F64", "double", "double", "(", "("},
};

const char *lc_memory_type(lc_dtype t) {
	return formats[t].memory;
}
const char *lc_register_type(lc_dtype t) {
	return formats[t].registers;
}
const char *lc_format_name(lc_dtype t) {
	return formats[t].name;
}
const char *lc_load_call(lc_dtype t) {
	return formats[t].load;
}
const char *lc_store_call(lc_dtype t) {
	return formats[t].store;
}

/* As in the interpreter (lc_lowest, lc_highest). */
const char *lc_lowest_text(lc_dtype t) {
	switch (t) {
	case LC_I64: return "INT64_MIN";
	case LC_I32: return "INT32_MIN";
	case LC_I16: return "INT16_MIN";
	case LC_I8: return "INT8_MIN";
	case LC_F8: return "-448.0";
	default: return lc_is_real(t) ? "-INFINITY" : "0";
	}
}

const char *lc_highest_text(lc_dtype t) {
	switch (t) {
	case LC_I64: return "INT64_MAX";
	case LC_I32: return "INT32_MAX";
	case LC_I16: return "INT16_MAX";
	case LC_I8: return "INT8_MAX";
	case LC_U64: return "UINT64_MAX";
	case LC_U32: return "UINT32_MAX";
	case LC_U16: return "UINT16_MAX";
	case LC_U8: return "UINT8_MAX";
	case LC_F8: return "448.0";
	default: return lc_is_real(t) ? "INFINITY" : "1";
	}
}

bool lc_is_narrow(lc_dtype t) {
	return t == LC_F16 || t == LC_BF16 || t == LC_F8;
}

/* ---- sizes ---- */

static void put_symbol(const lc_program *program, int s, const lc_dim_names *names, FILE *out) {
	char text[LC_IDENTIFIER];
	if (s < LC_AXES) {
		fprintf(out, "%s%s", names->axes, lc_identifier("q_", program->axes[s].name, text));
		return;
	}
	const lc_named_dim *dim = &program->named[s - LC_AXES];
	fprintf(out, "%s%s", names->dims, lc_identifier("d_", dim->name, text));
	if (dim->list >= 0) fprintf(out, "[%s]", names->item);
}

/* Write number * product of symbols to non-negative powers, as nested products. */
static void emit_text_put_product(const lc_program *program, const lc_term *term,
                                  const lc_dim_names *names, FILE *out) {
	int factors = term->number != 1, written = 0;
	for (int s = 0; s < LC_SYMBOLS; s++) factors += term->power[s];
	for (int i = 1; i < factors; i++) fputs("rt_times(", out);
	if (term->number != 1 || factors == 0) {
		fprintf(out, "%lld", (long long)term->number);
		written = 1;
	}
	for (int s = 0; s < LC_SYMBOLS; s++)
		for (int i = 0; i < term->power[s]; i++) {
			if (written) fputs(", ", out);
			put_symbol(program, s, names, out);
			if (written++) fputc(')', out);
		}
}

/* The least product that makes every term an integer. */
static lk_status emit_text_common_divisor(const lc_program *program, const lc_dim_sum *sum,
                                          lc_term *out, lk_error *err) {
	*out = (lc_term){.number = 1, .divisor = 1};
	for (int i = 0; i < sum->count; i++) {
		const lc_term *term = &sum->terms[i];
		int64_t a = out->number, b = term->divisor;
		while (b) {
			int64_t rest = a % b;
			a = b;
			b = rest;
		}
		if (__builtin_mul_overflow(out->number / a, term->divisor, &out->number)) {
			lk_fail(err, LK_ERR_INPUT, program->name, "a size has a divisor beyond 64 bits");
			return lk_hint(err, "write it with smaller numbers");
		}
		for (int s = 0; s < LC_SYMBOLS; s++)
			if (-term->power[s] > out->power[s]) out->power[s] = (int8_t)-term->power[s];
	}
	return LK_OK;
}

lk_status lc_put_dim(const lc_program *program, lc_dim d, const lc_dim_names *names, FILE *out,
                     lk_error *err) {
	const lc_dim_sum *sum = &program->dims.at[d];
	lc_term by;
	LK_TRY(emit_text_common_divisor(program, sum, &by, err));
	bool whole = by.number == 1;
	for (int s = 0; s < LC_SYMBOLS; s++) whole &= by.power[s] == 0;
	if (!whole) fputs("rt_over(", out);
	for (int i = 1; i < sum->count; i++) fputs("rt_plus(", out);
	for (int i = 0; i < sum->count; i++) {
		lc_term t = sum->terms[i];
		if (__builtin_mul_overflow(t.number, by.number / t.divisor, &t.number))
			return lk_fail(err, LK_ERR_INPUT, program->name, "a size has a factor beyond 64 bits");
		for (int s = 0; s < LC_SYMBOLS; s++) t.power[s] = (int8_t)(t.power[s] + by.power[s]);
		if (i) fputs(", ", out);
		emit_text_put_product(program, &t, names, out);
		if (i) fputc(')', out);
	}
	if (sum->count == 0) fputc('0', out);
	if (whole) return LK_OK;
	fputs(", ", out);
	emit_text_put_product(program, &by, names, out);
	fputc(')', out);
	return LK_OK;
}
