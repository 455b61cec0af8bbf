/* parse.c: recursive descent over programs and their statements. Values are typed when read, so
 * that the first error is the first in the text. */
#include <stdlib.h>
#include <string.h>

#include "lang/rewrite/rewrite.h"
#include "lang/syntax/lexer.h"
#include "lang/syntax/parse.h"

/* ---- parts of declarations ---- */

/* [at AXIS=GROUP] */
static lk_status placement(lc_parser *parser, lc_group *out, lk_error *err) {
	int axis;
	out->axis = -1;
	if (!lc_sees_word(parser, "at") || parser->tokens.at[parser->at + 1].kind == LC_SIGN)
		return LK_OK; /* "at = ...": the next statement, which reports that this is no name */
	parser->at++;
	LK_TRY(lc_axis_next(parser, &axis, err));
	LK_TRY(lc_expect(parser, '=', "the axis", err));
	return lc_group_next(parser, axis, out, err);
}

/* ---- types ---- */

static const char *const layout_names[] = {"R", "S", "P", "ROOT", "L"};

static lk_status layout_next(lc_parser *parser, lc_node *node, unsigned *seen, lk_error *err) {
	static const char *const reduces[] = {"sum", "max", "min"};
	lc_layout l = {0};
	int kind = lc_choice(lc_peek(parser), layout_names, 5), axis, found;
	const lc_token *token = lc_peek(parser);
	int64_t number = 0;
	if (kind < 0) {
		lc_unexpected(parser, "a layout", err);
		return lk_hint(
			err, "layouts are S(dim,axis), P(sum,axis), ROOT(rank,axis), L(axis) and R(axis)");
	}
	l.kind = (uint8_t)kind;
	parser->at++;
	LK_TRY(lc_expect(parser, '(', "the layout", err));
	if (kind == LC_S || kind == LC_ROOT) {
		bool slice = kind == LC_S;
		LK_TRY(lc_integer(parser, slice ? "a dim" : "a rank", 0, slice ? LC_RANK - 1 : INT32_MAX,
		                  &number, err));
		if (kind == LC_S) l.dim = (int8_t)number;
		else l.root = (int32_t)number;
	} else if (kind == LC_P) {
		found = lc_choice(lc_peek(parser), reduces, LC_REDUCES);
		if (found < 0) return lc_unexpected(parser, "sum, max or min", err);
		l.reduce = (uint8_t)found;
		parser->at++;
	}
	if (kind == LC_S || kind == LC_ROOT || kind == LC_P) LK_TRY(lc_expect(parser, ',', "it", err));
	LK_TRY(lc_axis_next(parser, &axis, err));
	if (*seen >> axis & 1)
		return lc_at(parser, token, err, "two layouts over %s", parser->p->axes[axis].name);
	*seen |= 1u << axis;
	node->layout[axis] = l;
	return lc_expect(parser, ')', "the axis", err);
}

/* dtype [ "[" dims "]" ] [ "of" list ] [ "@" layout... ] [ "at" group ] */
static lk_status type(lc_parser *parser, lc_node *node, lk_error *err) {
	lc_dtype dtype;
	unsigned seen = 0;
	const char *list;
	LK_TRY(lc_dtype_next(parser, &dtype, err));
	node->dtype = (uint8_t)dtype;
	if (lc_take(parser, '[')) {
		do {
			if (node->rank == LC_RANK)
				return lc_at(parser, lc_peek(parser), err, "a tensor has at most %d dims", LC_RANK);
			LK_TRY(lc_size(parser, &node->dim[node->rank++], err));
		} while (lc_take(parser, ','));
		LK_TRY(lc_expect(parser, ']', "the dims", err));
	}
	if (lc_take_word(parser, "of")) {
		const lc_token *token = lc_peek(parser);
		LK_TRY(lc_word_next(parser, "a list", &list, err));
		node->list = lc_list_find(parser->p, list);
		if (node->list < 0) {
			lc_at(parser, token, err, "unknown list %s", list);
			return lc_suggest(err, list, parser->p->lists.at, parser->p->lists.count,
			                  "declare it: list NAME");
		}
	}
	if (lc_take(parser, '@')) {
		do LK_TRY(layout_next(parser, node, &seen, err));
		while (lc_choice(lc_peek(parser), layout_names, 5) >= 0 &&
		       parser->tokens.at[parser->at + 1].kind == LC_SIGN &&
		       parser->tokens.at[parser->at + 1].sign == '(');
	}
	return placement(parser, &node->at, err);
}

/* ---- statements ---- */

enum { CONDITIONS = 8 /* within one another */ };

static lk_status parse_statement(lc_parser *parser, void *context, lk_error *err);

static lk_status new_name(lc_parser *parser, const char *what, const char **out, lk_error *err) {
	static const char *const reserved[] = {"program", "schedule", "mesh",  "dim", "list",
	                                       "scalar",  "in",       "state", "out", "at",
	                                       "of",      "for",      "if"};
	const lc_token *token = lc_peek(parser);
	if (lc_choice(token, reserved, sizeof reserved / sizeof *reserved) >= 0 || lc_is_call(token))
		return lc_at(parser, token, err, "%.*s is a word of the language, not %s", token->length,
		             token->text, what);
	if (lc_loop_find(parser, token))
		return lc_at(parser, token, err, "%.*s is the variable of a loop", token->length,
		             token->text);
	LK_TRY(lc_indexed(parser, what, out, err));
	lk_status status = lc_name_free(parser->p, *out, token->line, token->column, err);
	if (status == LK_ERR_INPUT && parser->loop_count && token[1].sign != '[')
		return lk_hint(err, "in a loop, index it: %s[%s]", *out,
		               parser->loops[parser->loop_count - 1].name);
	return status;
}

static lk_status add_leaf(lc_parser *parser, lc_op op, const lc_token *token, const char *name,
                          lc_node *node, lk_error *err) {
	node->op = (uint8_t)op;
	node->name = name;
	node->line = token->line;
	node->column = token->column;
	return lc_add(parser->p, node, NULL, err);
}

static lk_status declare_tensors(lc_parser *parser, lc_op op, lk_error *err) {
	const char *name;
	do {
		lc_node n = lc_draft(op, 0, 0);
		const lc_token *token = lc_peek(parser);
		LK_TRY(new_name(parser, "the name of a tensor", &name, err));
		LK_TRY(lc_expect(parser, ':', "the name", err));
		LK_TRY(type(parser, &n, err));
		LK_TRY(add_leaf(parser, op, token, name, &n, err));
	} while (lc_take(parser, ','));
	return LK_OK;
}

static lk_status declare_scalars(lc_parser *parser, lk_error *err) {
	lc_dtype dtype;
	const char *name;
	LK_TRY(lc_dtype_next(parser, &dtype, err));
	do {
		lc_node n = lc_draft(LC_SCALAR, 0, 0);
		const lc_token *token = lc_peek(parser);
		LK_TRY(new_name(parser, "the name of a scalar", &name, err));
		n.dtype = (uint8_t)dtype;
		LK_TRY(add_leaf(parser, LC_SCALAR, token, name, &n, err));
	} while (lc_take(parser, ','));
	return LK_OK;
}

static lk_status declare_names(lc_parser *parser, bool lists, lk_error *err) {
	const char *names[LC_DIMS], *list;
	int count = 0, of = -1;
	do {
		if (count == LC_DIMS)
			return lc_at(parser, lc_peek(parser), err, "more than %d names at once", LC_DIMS);
		LK_TRY(new_name(parser, lists ? "the name of a list" : "the name of a dim", &names[count++],
		                err));
	} while (lc_take(parser, ','));
	if (!lists && lc_take_word(parser, "of")) {
		const lc_token *token = lc_peek(parser);
		LK_TRY(lc_word_next(parser, "a list", &list, err));
		of = lc_list_find(parser->p, list);
		if (of < 0) {
			lc_at(parser, token, err, "unknown list %s", list);
			return lc_suggest(err, list, parser->p->lists.at, parser->p->lists.count,
			                  "declare it: list NAME");
		}
	}
	for (int i = 0; i < count; i++)
		LK_TRY(lists ? lc_list_add(parser->p, names[i], err)
		             : lc_dim_declare(parser->p, names[i], of, err));
	return LK_OK;
}

static lk_status effect(lc_parser *parser, lc_op op, const lc_token *token, int first, int second,
                        lk_error *err) {
	lc_node n = lc_draft(op, token->line, token->column);
	n.in[0] = first;
	n.in[1] = second;
	LK_TRY(placement(parser, &n.at, err));
	return lc_add(parser->p, &n, NULL, err);
}

static lk_status outputs(lc_parser *parser, lk_error *err) {
	int id;
	do {
		const lc_token *token = lc_peek(parser);
		LK_TRY(lc_expression(parser, &id, err));
		LK_TRY(effect(parser, LC_OUT, token, id, 0, err));
	} while (lc_take(parser, ','));
	return LK_OK;
}

/* A value that no operation of this statement made (y = x) gets a new value: else it would have two
 * names. */
static lk_status own_value(lc_parser *parser, const lc_token *token, size_t before, int *id,
                           lk_error *err) {
	if ((size_t)*id >= before) return LK_OK;
	lc_node copy = lc_draft(LC_COPY, token->line, token->column);
	copy.in[0] = *id;
	return lc_add(parser->p, &copy, id, err);
}

static lk_status define(lc_parser *parser, lk_error *err) {
	const lc_token *token = lc_peek(parser);
	size_t before = parser->p->nodes.count;
	const char *name;
	lc_group at;
	int id;
	LK_TRY(new_name(parser, "the name of a value", &name, err));
	LK_TRY(lc_expect(parser, '=', "the name", err));
	LK_TRY(lc_expression(parser, &id, err));
	LK_TRY(own_value(parser, token, before, &id, err));
	LK_TRY(placement(parser, &at, err));
	lc_node *node = &parser->p->nodes.at[id];
	node->name = name;
	if (at.axis < 0 || lc_same_group(&at, &node->at)) return LK_OK;
	char have[96], want[96];
	if (node->at.axis >= 0) {
		lc_at(parser, token, err, "%s is made of what lives at %s, not at %s", name,
		      lc_group_text(parser->p, &node->at, have, sizeof have),
		      lc_group_text(parser->p, &at, want, sizeof want));
		return lk_hint(err, "add send(..., %s: from -> to)", parser->p->axes[at.axis].name);
	}
	node->at = at;
	if (node->layout[at.axis].kind == LC_R) return LK_OK;
	lc_at(parser, token, err, "a value at one group of %s cannot be divided over %s",
	      parser->p->axes[at.axis].name, parser->p->axes[at.axis].name);
	return lk_hint(err, "leave %s out of its layout", parser->p->axes[at.axis].name);
}

static lk_status parse_update(lc_parser *parser, lk_error *err) {
	const lc_token *token = lc_peek(parser);
	const char *name;
	int id;
	LK_TRY(lc_indexed(parser, "a state", &name, err));
	int state = lc_value_find(parser->p, name);
	if (state < 0) {
		lc_at(parser, token, err, "unknown state %s", name);
		return lk_hint(err, "declare it: state %s : f32[...]", name);
	}
	parser->at++; /* <- */
	LK_TRY(lc_expression(parser, &id, err));
	if (parser->condition) {
		lc_node kept = lc_draft(LC_SELECT, token->line, token->column);
		kept.in[0] = parser->condition - 1;
		kept.in[1] = id;
		kept.in[2] = lc_value_find(parser->p, name);
		LK_TRY(lc_add(parser->p, &kept, &id, err));
	}
	return effect(parser, LC_UPDATE, token, state, id, err);
}

/* A condition that is the same on all ranks: one bool, whole everywhere. */
static lk_status uniform(lc_parser *parser, const lc_token *token, int id, lk_error *err) {
	const lc_node *node = &parser->p->nodes.at[id];
	char x[LC_SHOWN];
	lc_value_text(parser->p, id, x, sizeof x);
	if (node->dtype != LC_BOOL || node->rank || node->list >= 0) {
		lc_at(parser, token, err, "the condition %s is not one bool", x);
		return node->rank || node->list >= 0
		           ? lk_hint(err, "choose elements: select(condition, a, b)")
		           : lk_hint(err, "compare it: %s != 0", x);
	}
	for (int a = 0; a < parser->p->axis_count; a++) {
		if (node->layout[a].kind == LC_R) continue;
		lc_at(parser, token, err, "the condition %s is not the same on all ranks of %s", x,
		      parser->p->axes[a].name);
		return lk_hint(err, "make it of scalars, or of what is whole on every rank");
	}
	return LK_OK;
}

/* if CONDITION { statements }: their updates happen where it holds. Conditions within conditions
 * hold together. */
static lk_status conditional(lc_parser *parser, void *context, lk_error *err) {
	const lc_token *token = lc_peek(parser);
	int id, outer = parser->condition;
	if (parser->conditions == CONDITIONS)
		return lc_at(parser, token, err, "conditions are at most %d deep", CONDITIONS);
	LK_TRY(lc_expression(parser, &id, err));
	LK_TRY(uniform(parser, token, id, err));
	if (outer) {
		lc_node both = lc_draft(LC_SELECT, token->line, token->column);
		both.in[0] = both.in[2] = outer - 1;
		both.in[1] = id;
		LK_TRY(lc_add(parser->p, &both, &id, err));
	}
	LK_TRY(lc_expect(parser, '{', "the condition", err));
	parser->condition = id + 1;
	parser->conditions++;
	while (!lc_take(parser, '}')) {
		if (lc_sees_word(parser, "out")) {
			lc_unexpected(parser, "an update, a definition or '}'", err);
			return lk_hint(err, "what a program puts out does not depend on a condition: out "
			                    "select(condition, a, b)");
		}
		LK_TRY(parse_statement(parser, context, err));
	}
	parser->condition = outer;
	parser->conditions--;
	return LK_OK;
}

static lk_status parse_statement(lc_parser *parser, void *context, lk_error *err) {
	if (lc_take(parser, ';')) return LK_OK;
	if (lc_take_word(parser, "dim")) return declare_names(parser, false, err);
	if (lc_take_word(parser, "list")) return declare_names(parser, true, err);
	if (lc_take_word(parser, "scalar")) return declare_scalars(parser, err);
	if (lc_take_word(parser, "in")) return declare_tensors(parser, LC_INPUT, err);
	if (lc_take_word(parser, "state")) return declare_tensors(parser, LC_STATE, err);
	if (lc_take_word(parser, "out")) return outputs(parser, err);
	if (lc_take_word(parser, "for")) return lc_loop_next(parser, parse_statement, context, err);
	if (lc_take_word(parser, "if")) return conditional(parser, context, err);
	if (lc_peek(parser)->kind != LC_NAME_TOKEN) {
		bool product = lc_sees(parser, '@');
		lc_unexpected(parser, "a statement or '}'", err);
		return product ? lk_hint(err, "the product of matrices is matmul(a, b)") : LK_ERR_INPUT;
	}
	const lc_token *next = lc_behind_name(parser);
	if (next->kind == LC_ARROW_LEFT) return parse_update(parser, err);
	if (next->kind == LC_SIGN && next->sign == '=') return define(parser, err);
	static const char *const words[] = {"dim", "list", "scalar", "in", "state", "out", "for", "if"};
	char text[LC_NAME];
	snprintf(text, sizeof text, "%.*s", lc_peek(parser)->length, lc_peek(parser)->text);
	lc_at(parser, lc_peek(parser), err, "%s begins no statement", text);
	if (strcmp(text, "and") == 0) return lk_hint(err, "both of two conditions: select(a, b, a)");
	if (strcmp(text, "or") == 0) return lk_hint(err, "one of two conditions: select(a, a, b)");
	if (strcmp(text, "else") == 0 || strcmp(text, "while") == 0)
		return lk_hint(
			err, "there is no control flow by data; choose elements: select(condition, a, b)");
	return lc_suggest(
		err, text, words, sizeof words / sizeof *words,
		"statements are NAME = ..., STATE <- ..., in, state, scalar, dim, list, for, if, out");
}

/* ---- programs ---- */

/* The number that "a=1,NAME=8" gives a name; 0: none. */
static int64_t mesh_said(const char *sizes, const char *name) {
	size_t length = strlen(name);
	for (const char *at = sizes; at; at = strchr(at, ',')) {
		at += *at == ',';
		at += strspn(at, " ");
		if (strncmp(at, name, length) != 0 || at[length] != '=') continue;
		long long ranks = strtoll(at + length + 1, NULL, 10);
		return ranks > 0 && ranks <= LC_RANKS_OF_AXIS ? ranks : 0;
	}
	return 0;
}

static lk_status mesh(lc_parser *parser, lk_error *err) {
	const char *name;
	LK_TRY(lc_expect(parser, '(', "the program's name", err));
	if (!lc_take_word(parser, "mesh")) return lc_unexpected(parser, "mesh", err);
	do {
		int64_t size = 0;
		LK_TRY(new_name(parser, "the name of an axis", &name, err));
		if (lc_take(parser, '='))
			LK_TRY(lc_integer(parser, "a number of ranks", 1, LC_RANKS_OF_AXIS, &size, err));
		int64_t said = size ? mesh_said(parser->sizes, name) : 0;
		if (said) size = said;
		LK_TRY(lc_axis_add(parser->p, name, size, err));
	} while (lc_take(parser, ','));
	return lc_expect(parser, ')', "the axes", err);
}

static bool has_output(const lc_program *program) {
	for (size_t i = 0; i < program->nodes.count; i++)
		if (program->nodes.at[i].op == LC_OUT || program->nodes.at[i].op == LC_UPDATE) return true;
	return false;
}

static lk_status parse_program(lc_parser *parser, lk_error *err) {
	const lc_token *token = lc_peek(parser);
	const char *name;
	LK_TRY(lc_word_next(parser, "the name of a program", &name, err));
	for (size_t i = 0; i < parser->file->programs.count; i++) {
		if (strcmp(parser->file->programs.at[i]->name, name) != 0) continue;
		lc_at(parser, token, err, "a program %s is defined already, in line %d", name,
		      parser->file->programs.at[i]->line);
		return lk_hint(err, "choose another name");
	}
	if (parser->file->programs.count == LC_PROGRAMS)
		return lc_at(parser, token, err, "a file has at most %d programs", LC_PROGRAMS);
	parser->p = lc_program_new(parser->file, name);
	if (!parser->p) return lk_oom(err);
	parser->p->line = token->line;
	parser->p->column = token->column;
	LK_TRY(mesh(parser, err));
	LK_TRY(lc_expect(parser, '{', "the mesh", err));
	while (!lc_take(parser, '}')) LK_TRY(parse_statement(parser, NULL, err));
	lc_name_parts(parser->p); /* first, so that a statement's name denotes all of its values */
	if (parser->p->derived) LK_TRY(lc_arrange(parser->p, err));
	if (has_output(parser->p)) return LK_OK;
	lc_at(parser, token, err, "the program %s has no effect", name);
	return lk_hint(err, "name what it computes: out VALUE, or update a state");
}

static lk_status parse_file(lc_parser *parser, lk_error *err) {
	while (lc_peek(parser)->kind != LC_END) {
		if (lc_take_word(parser, "program")) LK_TRY(parse_program(parser, err));
		else if (lc_take_word(parser, "schedule")) LK_TRY(lc_schedule_next(parser, err));
		else return lc_unexpected(parser, "\"program\" or \"schedule\"", err);
	}
	if (parser->file->programs.count) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, parser->file->path, "it holds no program");
	return lk_hint(err, "begin with: program NAME(mesh AXIS) { ... }");
}

lk_status lc_parse(const char *path, const char *text, size_t size, lc_file **out, lk_error *err) {
	return lc_parse_sized(path, text, size, NULL, out, err);
}

lk_status lc_parse_sized(const char *path, const char *text, size_t size, const char *sizes,
                         lc_file **out, lk_error *err) {
	lc_parser s = {.sizes = sizes};
	*out = s.file = lc_file_new(path);
	if (!s.file) return lk_oom(err);
	if (size > LC_TEXT_LIMIT)
		return lk_fail(err, LK_ERR_INPUT, path, "the text has over %d bytes", LC_TEXT_LIMIT);
	lk_status status = lc_lex(s.file, text, size, &s.tokens, err);
	if (status == LK_OK) status = parse_file(&s, err);
	lk_vec_free(&s.tokens);
	return status;
}
