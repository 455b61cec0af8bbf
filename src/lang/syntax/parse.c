/* parse.c: recursive descent over programs and their statements. Values are typed as they are read, so that the first
 * error is the first in the text. */
#include <stdarg.h>
#include <string.h>

#include "base/text.h"
#include "lang/syntax/lexer.h"
#include "lang/rewrite/rewrite.h"

/* ---- tokens ---- */

bool lc_sees(const lc_parser *s, char sign) { return lc_peek(s)->kind == LC_SIGN && lc_peek(s)->sign == sign; }

static bool is_word(const lc_token *t, const char *word) {
	return t->kind == LC_NAME_TOKEN && (size_t)t->length == strlen(word) &&
		   memcmp(t->text, word, (size_t)t->length) == 0;
}

bool lc_sees_word(const lc_parser *s, const char *word) { return is_word(lc_peek(s), word); }

bool lc_take(lc_parser *s, char sign) { return lc_sees(s, sign) ? s->at++, true : false; }
bool lc_take_word(lc_parser *s, const char *word) { return lc_sees_word(s, word) ? s->at++, true : false; }

lk_status lc_at(lc_parser *s, const lc_token *t, lk_error *err, const char *fmt, ...) {
	char where[sizeof err->where], what[sizeof err->what];
	va_list args;
	va_start(args, fmt);
	vsnprintf(what, sizeof what, fmt, args);
	va_end(args);
	s->file->mistake.line = t->line, s->file->mistake.column = t->column;
	snprintf(where, sizeof where, "%.200s:%d:%d", s->file->path, t->line, t->column);
	return lk_fail(err, LK_ERR_INPUT, where, "%s", what);
}

lk_status lc_unexpected(lc_parser *s, const char *wanted, lk_error *err) {
	const lc_token *t = lc_peek(s);
	if (t->kind == LC_END) return lc_at(s, t, err, "the text ends where %s is expected", wanted);
	return lc_at(s, t, err, "\"%.*s\" stands where %s is expected", t->length, t->text, wanted);
}

lk_status lc_expect(lc_parser *s, char sign, const char *after, lk_error *err) {
	char wanted[96];
	if (lc_take(s, sign)) return LK_OK;
	snprintf(wanted, sizeof wanted, "'%c' after %s", sign, after);
	return lc_unexpected(s, wanted, err);
}

lk_status lc_word_next(lc_parser *s, const char *what, const char **out, lk_error *err) {
	const lc_token *t = lc_peek(s);
	if (t->kind != LC_NAME_TOKEN) return lc_unexpected(s, what, err);
	*out = lk_arena_strndup(&s->file->arena, t->text, (size_t)t->length);
	if (!*out) return lk_oom(err);
	s->at++;
	return LK_OK;
}

lk_status lc_integer(lc_parser *s, const char *what, int64_t low, int64_t high, int64_t *out, lk_error *err) {
	size_t begin = s->at;
	bool minus = low < 0 && lc_take(s, '-');
	const lc_token *t = lc_peek(s);
	const lc_loop *loop = lc_loop_find(s, t);
	if (!loop && (t->kind != LC_NUMBER_TOKEN || !t->whole)) {
		s->at = begin;
		return lc_unexpected(s, what, err);
	}
	double value = loop ? (double)loop->value : t->number;
	if (minus) value = -value;
	if (value < (double)low || value > (double)high) {
		lc_at(s, t, err, "%s is %.17g", what, value);
		return lk_hint(err, "it is from %lld to %lld", (long long)low, (long long)high);
	}
	*out = (int64_t)value;
	s->at++;
	return LK_OK;
}

int lc_choice(const lc_token *t, const char *const *names, int count) {
	for (int i = 0; i < count; i++)
		if (is_word(t, names[i])) return i;
	return -1;
}

lk_status lc_suggest(lk_error *err, const char *text, const char *const *names, size_t count, const char *otherwise) {
	const char *near = lk_nearest(text, names, count);
	return near ? lk_hint(err, "do you mean %s?", near) : lk_hint(err, "%s", otherwise);
}

/* ---- parts of declarations ---- */

lk_status lc_axis_next(lc_parser *s, int *axis, lk_error *err) {
	const char *name, *names[LC_AXES];
	LK_TRY(lc_word_next(s, "a mesh axis", &name, err));
	*axis = lc_axis_find(s->p, name);
	if (*axis >= 0) return LK_OK;
	for (int i = 0; i < s->p->axis_count; i++) names[i] = s->p->axes[i].name;
	lc_at(s, &s->tokens.at[s->at - 1], err, "there is no mesh axis %s", name);
	return lc_suggest(err, name, names, (size_t)s->p->axis_count, "the axes stand behind \"mesh\"");
}

lk_status lc_dtype_next(lc_parser *s, lc_dtype *out, lk_error *err) {
	const char *names[LC_WEAK_INT], *name;
	for (int i = 0; i < LC_WEAK_INT; i++) names[i] = lc_dtype_name((lc_dtype)i);
	int found = lc_choice(lc_peek(s), names, LC_WEAK_INT);
	LK_TRY(lc_word_next(s, "a number format (f32, bf16, i32, ...)", &name, err));
	*out = (lc_dtype)found;
	if (found >= 0) return LK_OK;
	lc_at(s, &s->tokens.at[s->at - 1], err, "there is no number format %s", name);
	return lc_suggest(err, name, names, LC_WEAK_INT,
					  "there are f64, f32, f16, bf16, f8, i64 to i8, u64 to u8 and bool");
}

lk_status lc_group_next(lc_parser *s, int axis, lc_group *out, lk_error *err) {
	*out = (lc_group){.axis = axis};
	if (lc_loop_find(s, lc_peek(s))) return lc_known(s, &out->offset, err);
	if (lc_peek(s)->kind == LC_NUMBER_TOKEN) return lc_integer(s, "a group", 0, INT32_MAX, &out->offset, err);
	const lc_token *t = lc_peek(s);
	LK_TRY(lc_word_next(s, "a group (k, k+1 or a number)", &out->index, err));
	if (lc_axis_find(s->p, out->index) >= 0 || lc_dim_find(s->p, out->index) >= 0)
		return lc_at(s, t, err, "%s is an axis or a dim, not an index of groups", out->index);
	if (!lc_sees(s, '+') && !lc_sees(s, '-')) return LK_OK;
	int64_t sign = lc_take(s, '+') ? 1 : (s->at++, -1);
	LK_TRY(lc_integer(s, "a number of groups", 0, INT32_MAX, &out->offset, err));
	out->offset *= sign;
	return LK_OK;
}

/* [at AXIS=GROUP] */
static lk_status placement(lc_parser *s, lc_group *out, lk_error *err) {
	int axis;
	out->axis = -1;
	if (!lc_take_word(s, "at")) return LK_OK;
	LK_TRY(lc_axis_next(s, &axis, err));
	LK_TRY(lc_expect(s, '=', "the axis", err));
	return lc_group_next(s, axis, out, err);
}

/* ---- dims ---- */

static lk_status dim_sum(lc_parser *s, lc_dim *out, lk_error *err);

static lk_status dim_name(lc_parser *s, lc_dim *out, lk_error *err) {
	const char *name, *names[LC_DIMS];
	const lc_token *t = lc_peek(s);
	int axis, found;
	const lc_loop *loop = lc_loop_find(s, t);
	LK_TRY(lc_word_next(s, "a dim (a name, a number or size(axis))", &name, err));
	if (loop) return lc_dim_number(s->p, loop->value, out, err);
	if (strcmp(name, "size") == 0 && lc_take(s, '(')) {
		LK_TRY(lc_axis_next(s, &axis, err));
		LK_TRY(lc_expect(s, ')', "the axis", err));
		return lc_dim_axis(s->p, axis, out, err);
	}
	found = lc_dim_find(s->p, name);
	if (found >= 0) return lc_dim_named(s->p, found, out, err);
	for (int i = 0; i < s->p->named_count; i++) names[i] = s->p->named[i].name;
	lc_at(s, t, err, "there is no dim %s", name);
	char otherwise[LC_NAME + 32];
	snprintf(otherwise, sizeof otherwise, "declare it: dim %s", name);
	return lc_suggest(err, name, names, (size_t)s->p->named_count, otherwise);
}

static lk_status dim_factor(lc_parser *s, lc_dim *out, lk_error *err) {
	int64_t number;
	if (lc_peek(s)->kind == LC_NUMBER_TOKEN) {
		LK_TRY(lc_integer(s, "a size", 0, (int64_t)1 << 53, &number, err));
		return lc_dim_number(s->p, number, out, err);
	}
	if (!lc_sees(s, '(')) return dim_name(s, out, err);
	if (s->depth >= LC_DEPTH) return lc_at(s, lc_peek(s), err, "parentheses are nested too deep");
	s->at++, s->depth++;
	LK_TRY(dim_sum(s, out, err));
	s->depth--;
	return lc_expect(s, ')', "a size", err);
}

static lk_status dim_product(lc_parser *s, lc_dim *out, lk_error *err) {
	lc_dim factor;
	LK_TRY(dim_factor(s, out, err));
	while (lc_sees(s, '*') || lc_sees(s, '/')) {
		const lc_token *t = lc_peek(s);
		s->at++;
		LK_TRY(dim_factor(s, &factor, err));
		if (t->sign == '*') {
			LK_TRY(lc_dim_times(s->p, *out, factor, out, err));
			continue;
		}
		if (s->p->dims.at[*out].count > 1) {
			lc_at(s, t, err, "a sum of sizes is divided");
			return lk_hint(err, "divide its parts: N/2 + M/2");
		}
		LK_TRY(lc_dim_over(s->p, *out, factor, t->line, t->column, out, err));
	}
	return LK_OK;
}

static lk_status dim_sum(lc_parser *s, lc_dim *out, lk_error *err) {
	lc_dim part;
	LK_TRY(dim_product(s, out, err));
	while (lc_sees(s, '+') || lc_sees(s, '-')) {
		int sign = lc_take(s, '+') ? 1 : (s->at++, -1);
		LK_TRY(dim_product(s, &part, err));
		LK_TRY(lc_dim_plus(s->p, *out, part, sign, out, err));
	}
	return LK_OK;
}

lk_status lc_size(lc_parser *s, lc_dim *out, lk_error *err) {
	const lc_token *t = lc_peek(s);
	lk_status status = dim_sum(s, out, err);
	if (status != LK_ERR_INPUT || !err || err->where[0]) return status;
	lk_error found = *err;
	lc_at(s, t, err, "%s", found.what);
	return lk_hint(err, "%s", found.hint);
}

/* ---- types ---- */

static const char *const layout_names[] = {"R", "S", "P", "ROOT", "L"};

static lk_status layout_next(lc_parser *s, lc_node *n, unsigned *seen, lk_error *err) {
	static const char *const reduces[] = {"sum", "max", "min"};
	lc_layout l = {0};
	int kind = lc_choice(lc_peek(s), layout_names, 5), axis, found;
	const lc_token *t = lc_peek(s);
	int64_t number = 0;
	if (kind < 0) {
		lc_unexpected(s, "a layout", err);
		return lk_hint(err, "layouts are S(dim,axis), P(sum,axis), ROOT(rank,axis), L(axis) and R(axis)");
	}
	l.kind = (uint8_t)kind;
	s->at++;
	LK_TRY(lc_expect(s, '(', "the layout", err));
	if (kind == LC_S || kind == LC_ROOT) {
		bool slice = kind == LC_S;
		LK_TRY(lc_integer(s, slice ? "a dim" : "a rank", 0, slice ? LC_RANK - 1 : INT32_MAX, &number, err));
		if (kind == LC_S) l.dim = (int8_t)number;
		else l.root = (int32_t)number;
	} else if (kind == LC_P) {
		found = lc_choice(lc_peek(s), reduces, LC_REDUCES);
		if (found < 0) return lc_unexpected(s, "sum, max or min", err);
		l.reduce = (uint8_t)found, s->at++;
	}
	if (kind == LC_S || kind == LC_ROOT || kind == LC_P) LK_TRY(lc_expect(s, ',', "it", err));
	LK_TRY(lc_axis_next(s, &axis, err));
	if (*seen >> axis & 1) return lc_at(s, t, err, "two layouts over %s", s->p->axes[axis].name);
	*seen |= 1u << axis;
	n->layout[axis] = l;
	return lc_expect(s, ')', "the axis", err);
}

/* dtype [ "[" dims "]" ] [ "of" list ] [ "@" layout... ] [ "at" group ] */
static lk_status type(lc_parser *s, lc_node *n, lk_error *err) {
	lc_dtype dtype;
	unsigned seen = 0;
	const char *list;
	LK_TRY(lc_dtype_next(s, &dtype, err));
	n->dtype = (uint8_t)dtype;
	if (lc_take(s, '[')) {
		do {
			if (n->rank == LC_RANK) return lc_at(s, lc_peek(s), err, "a tensor has at most %d dims", LC_RANK);
			LK_TRY(lc_size(s, &n->dim[n->rank++], err));
		} while (lc_take(s, ','));
		LK_TRY(lc_expect(s, ']', "the dims", err));
	}
	if (lc_take_word(s, "of")) {
		const lc_token *t = lc_peek(s);
		LK_TRY(lc_word_next(s, "a list", &list, err));
		n->list = lc_list_find(s->p, list);
		if (n->list < 0) {
			lc_at(s, t, err, "there is no list %s", list);
			return lc_suggest(err, list, s->p->lists.at, s->p->lists.count, "declare it: list NAME");
		}
	}
	if (lc_take(s, '@')) {
		do LK_TRY(layout_next(s, n, &seen, err));
		while (lc_choice(lc_peek(s), layout_names, 5) >= 0 && s->tokens.at[s->at + 1].kind == LC_SIGN &&
		       s->tokens.at[s->at + 1].sign == '(');
	}
	return placement(s, &n->at, err);
}

/* ---- statements ---- */

static lk_status new_name(lc_parser *s, const char *what, const char **out, lk_error *err) {
	static const char *const reserved[] = {"program", "schedule", "mesh", "dim", "list", "scalar",
										   "in",      "state",    "out",  "at",  "of",   "for"};
	const lc_token *t = lc_peek(s);
	if (lc_choice(t, reserved, sizeof reserved / sizeof *reserved) >= 0 || lc_is_call(t))
		return lc_at(s, t, err, "%.*s is a word of the language, not %s", t->length, t->text, what);
	if (lc_loop_find(s, t)) return lc_at(s, t, err, "%.*s is the variable of a loop", t->length, t->text);
	LK_TRY(lc_indexed(s, what, out, err));
	lk_status status = lc_name_free(s->p, *out, t->line, t->column, err);
	if (status == LK_ERR_INPUT && s->loop_count && t[1].sign != '[')
		return lk_hint(err, "in a loop, index it: %s[%s]", *out, s->loops[s->loop_count - 1].name);
	return status;
}

static lk_status add_leaf(lc_parser *s, lc_op op, const lc_token *t, const char *name, lc_node *n, lk_error *err) {
	n->op = (uint8_t)op, n->name = name, n->line = t->line, n->column = t->column;
	return lc_add(s->p, n, NULL, err);
}

static lk_status declare_tensors(lc_parser *s, lc_op op, lk_error *err) {
	const char *name;
	do {
		lc_node n = lc_draft(op, 0, 0);
		const lc_token *t = lc_peek(s);
		LK_TRY(new_name(s, "the name of a tensor", &name, err));
		LK_TRY(lc_expect(s, ':', "the name", err));
		LK_TRY(type(s, &n, err));
		LK_TRY(add_leaf(s, op, t, name, &n, err));
	} while (lc_take(s, ','));
	return LK_OK;
}

static lk_status declare_scalars(lc_parser *s, lk_error *err) {
	lc_dtype dtype;
	const char *name;
	LK_TRY(lc_dtype_next(s, &dtype, err));
	do {
		lc_node n = lc_draft(LC_SCALAR, 0, 0);
		const lc_token *t = lc_peek(s);
		LK_TRY(new_name(s, "the name of a scalar", &name, err));
		n.dtype = (uint8_t)dtype;
		LK_TRY(add_leaf(s, LC_SCALAR, t, name, &n, err));
	} while (lc_take(s, ','));
	return LK_OK;
}

static lk_status declare_names(lc_parser *s, bool lists, lk_error *err) {
	const char *names[LC_DIMS], *list;
	int count = 0, of = -1;
	do {
		if (count == LC_DIMS) return lc_at(s, lc_peek(s), err, "more than %d names at once", LC_DIMS);
		LK_TRY(new_name(s, lists ? "the name of a list" : "the name of a dim", &names[count++], err));
	} while (lc_take(s, ','));
	if (!lists && lc_take_word(s, "of")) {
		const lc_token *t = lc_peek(s);
		LK_TRY(lc_word_next(s, "a list", &list, err));
		of = lc_list_find(s->p, list);
		if (of < 0) {
			lc_at(s, t, err, "there is no list %s", list);
			return lc_suggest(err, list, s->p->lists.at, s->p->lists.count, "declare it: list NAME");
		}
	}
	for (int i = 0; i < count; i++)
		LK_TRY(lists ? lc_list_add(s->p, names[i], err) : lc_dim_declare(s->p, names[i], of, err));
	return LK_OK;
}

static lk_status effect(lc_parser *s, lc_op op, const lc_token *t, int first, int second, lk_error *err) {
	lc_node n = lc_draft(op, t->line, t->column);
	n.in[0] = first, n.in[1] = second;
	LK_TRY(placement(s, &n.at, err));
	return lc_add(s->p, &n, NULL, err);
}

static lk_status outputs(lc_parser *s, lk_error *err) {
	int id;
	do {
		const lc_token *t = lc_peek(s);
		LK_TRY(lc_expression(s, &id, err));
		LK_TRY(effect(s, LC_OUT, t, id, 0, err));
	} while (lc_take(s, ','));
	return LK_OK;
}

/* A value that no operation of this statement made (y = x) gets one: it would have two names. */
static lk_status own_value(lc_parser *s, const lc_token *t, size_t before, int *id, lk_error *err) {
	if ((size_t)*id >= before) return LK_OK;
	lc_node copy = lc_draft(LC_COPY, t->line, t->column);
	copy.in[0] = *id;
	return lc_add(s->p, &copy, id, err);
}

static lk_status define(lc_parser *s, lk_error *err) {
	const lc_token *t = lc_peek(s);
	size_t before = s->p->nodes.count;
	const char *name;
	lc_group at;
	int id;
	LK_TRY(new_name(s, "the name of a value", &name, err));
	LK_TRY(lc_expect(s, '=', "the name", err));
	LK_TRY(lc_expression(s, &id, err));
	LK_TRY(own_value(s, t, before, &id, err));
	LK_TRY(placement(s, &at, err));
	lc_node *n = &s->p->nodes.at[id];
	n->name = name;
	if (at.axis < 0 || lc_same_group(&at, &n->at)) return LK_OK;
	char have[96], want[96];
	if (n->at.axis >= 0) {
		lc_at(s, t, err, "%s is made of what lives at %s, not at %s", name,
			  lc_group_text(s->p, &n->at, have, sizeof have), lc_group_text(s->p, &at, want, sizeof want));
		return lk_hint(err, "add send(..., %s: from -> to)", s->p->axes[at.axis].name);
	}
	n->at = at;
	if (n->layout[at.axis].kind == LC_R) return LK_OK;
	lc_at(s, t, err, "a value at one group of %s cannot be divided over %s", s->p->axes[at.axis].name,
		  s->p->axes[at.axis].name);
	return lk_hint(err, "leave %s out of its layout", s->p->axes[at.axis].name);
}

static lk_status update(lc_parser *s, lk_error *err) {
	const lc_token *t = lc_peek(s);
	const char *name;
	int id;
	LK_TRY(lc_indexed(s, "a state", &name, err));
	int state = lc_value_find(s->p, name);
	if (state < 0) {
		lc_at(s, t, err, "there is no state %s", name);
		return lk_hint(err, "declare it: state %s : f32[...]", name);
	}
	s->at++; /* <- */
	LK_TRY(lc_expression(s, &id, err));
	return effect(s, LC_UPDATE, t, state, id, err);
}

static lk_status statement(lc_parser *s, void *context, lk_error *err) {
	if (lc_take(s, ';')) return LK_OK;
	if (lc_take_word(s, "dim")) return declare_names(s, false, err);
	if (lc_take_word(s, "list")) return declare_names(s, true, err);
	if (lc_take_word(s, "scalar")) return declare_scalars(s, err);
	if (lc_take_word(s, "in")) return declare_tensors(s, LC_INPUT, err);
	if (lc_take_word(s, "state")) return declare_tensors(s, LC_STATE, err);
	if (lc_take_word(s, "out")) return outputs(s, err);
	if (lc_take_word(s, "for")) return lc_loop_next(s, statement, context, err);
	if (lc_peek(s)->kind != LC_NAME_TOKEN) return lc_unexpected(s, "a statement or '}'", err);
	const lc_token *next = lc_behind_name(s);
	if (next->kind == LC_ARROW_LEFT) return update(s, err);
	if (next->kind == LC_SIGN && next->sign == '=') return define(s, err);
	static const char *const words[] = {"dim", "list", "scalar", "in", "state", "out", "for"};
	char text[LC_NAME];
	snprintf(text, sizeof text, "%.*s", lc_peek(s)->length, lc_peek(s)->text);
	lc_at(s, lc_peek(s), err, "%s begins no statement", text);
	return lc_suggest(err, text, words, sizeof words / sizeof *words,
					  "statements are NAME = ..., STATE <- ..., in, state, scalar, dim, list, for, out");
}

/* ---- programs ---- */

static lk_status mesh(lc_parser *s, lk_error *err) {
	const char *name;
	LK_TRY(lc_expect(s, '(', "the program's name", err));
	if (!lc_take_word(s, "mesh")) return lc_unexpected(s, "mesh", err);
	do {
		int64_t size = 0;
		LK_TRY(new_name(s, "the name of an axis", &name, err));
		if (lc_take(s, '=')) LK_TRY(lc_integer(s, "a number of ranks", 1, 1 << 20, &size, err));
		LK_TRY(lc_axis_add(s->p, name, size, err));
	} while (lc_take(s, ','));
	return lc_expect(s, ')', "the axes", err);
}

static bool has_output(const lc_program *p) {
	for (size_t i = 0; i < p->nodes.count; i++)
		if (p->nodes.at[i].op == LC_OUT || p->nodes.at[i].op == LC_UPDATE) return true;
	return false;
}

static lk_status program(lc_parser *s, lk_error *err) {
	const lc_token *t = lc_peek(s);
	const char *name;
	LK_TRY(lc_word_next(s, "the name of a program", &name, err));
	for (size_t i = 0; i < s->file->programs.count; i++) {
		if (strcmp(s->file->programs.at[i]->name, name) != 0) continue;
		lc_at(s, t, err, "there is a program %s already, in line %d", name, s->file->programs.at[i]->line);
		return lk_hint(err, "choose another name");
	}
	if (s->file->programs.count == LC_PROGRAMS) return lc_at(s, t, err, "a file has at most %d programs", LC_PROGRAMS);
	s->p = lc_program_new(s->file, name);
	if (!s->p) return lk_oom(err);
	s->p->line = t->line, s->p->column = t->column;
	LK_TRY(mesh(s, err));
	LK_TRY(lc_expect(s, '{', "the mesh", err));
	while (!lc_take(s, '}')) LK_TRY(statement(s, NULL, err));
	lc_name_parts(s->p);
	if (has_output(s->p)) return LK_OK;
	lc_at(s, t, err, "the program %s has no effect", name);
	return lk_hint(err, "name what it computes: out VALUE, or update a state");
}

static lk_status file(lc_parser *s, lk_error *err) {
	while (lc_peek(s)->kind != LC_END) {
		if (lc_take_word(s, "program")) LK_TRY(program(s, err));
		else if (lc_take_word(s, "schedule")) LK_TRY(lc_schedule_next(s, err));
		else return lc_unexpected(s, "\"program\" or \"schedule\"", err);
	}
	if (s->file->programs.count) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, s->file->path, "there is no program in it");
	return lk_hint(err, "begin with: program NAME(mesh AXIS) { ... }");
}

lk_status lc_parse(const char *path, const char *text, size_t size, lc_file **out, lk_error *err) {
	lc_parser s = {0};
	*out = s.file = lc_file_new(path);
	if (!s.file) return lk_oom(err);
	if (size > LC_TEXT_LIMIT) return lk_fail(err, LK_ERR_INPUT, path, "the text has over %d bytes", LC_TEXT_LIMIT);
	lk_status status = lc_lex(s.file, text, size, &s.tokens, err);
	if (status == LK_OK) status = file(&s, err);
	lk_vec_free(&s.tokens);
	return status;
}
