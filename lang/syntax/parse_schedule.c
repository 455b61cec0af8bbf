/* parse_schedule.c: schedules: `schedule NAME [for PROGRAM] { directive; ... }`. */
#include <string.h>

#include "base/arena.h"
#include "lang/syntax/lexer.h"
#include "lang/rewrite/rewrite.h"

/* Values that the directives of a file traverse in total: reading takes seconds at most. */
enum { WORK = 1 << 19 };
/* Names in a directive, directives in a schedule, schedules. */
enum { WORDS = 512, DIRECTIVES = 256, SCHEDULES = 256 };

typedef LK_VEC(lc_directive) directives;

struct words {
	lc_word at[WORDS];
	int count;
};

static lk_status schedule_word(lc_parser *parser, const char *what, struct words *out,
                               lk_error *err) {
	const lc_token *token = lc_peek(parser);
	if (out->count == WORDS)
		return lc_at(parser, token, err, "more than %d names in a directive", WORDS);
	lc_word *w = &out->at[out->count++];
	w->line = token->line;
	w->column = token->column;
	return lc_indexed(parser, what, &w->text, err);
}

static lk_status schedule_list(lc_parser *parser, char begin, char end, struct words *out,
                               lk_error *err) {
	if (begin) LK_TRY(lc_expect(parser, begin, "it", err));
	do LK_TRY(schedule_word(parser, "a name", out, err));
	while (lc_take(parser, ','));
	return end ? lc_expect(parser, end, "the names", err) : LK_OK;
}

static lk_status schedule_keep(lc_parser *parser, const struct words *from, lc_word **to,
                               int *count, lk_error *err) {
	*to = LK_ARRAY(&parser->file->arena, lc_word, (size_t)from->count);
	if (!*to) return lk_oom(err);
	memcpy(*to, from->at, sizeof *from->at * (size_t)from->count);
	*count = from->count;
	return LK_OK;
}

static lk_status arrow_results(lc_parser *parser, struct words *results, lk_error *err) {
	if (lc_peek(parser)->kind != LC_ARROW_RIGHT)
		return lc_unexpected(parser, "\"->\" and the new names", err);
	parser->at++;
	return schedule_list(parser, '(', ')', results, err);
}

/* [LABEL =] { names } */
static lk_status schedule_labelled(lc_parser *parser, struct words *names, struct words *results,
                                   lk_error *err) {
	if (!lc_sees(parser, '{')) {
		LK_TRY(schedule_word(parser, "a label or '{'", results, err));
		LK_TRY(lc_expect(parser, '=', "the label", err));
	}
	return schedule_list(parser, '{', '}', names, err);
}

static lk_status schedule_overlap(lc_parser *parser, lc_directive *directive, lk_error *err) {
	static const char *const chunks[] = {"rows", "cols", "batches"}, *const orders[] = {"ring",
	                                                                                    "linear"};
	directive->chunk = "";
	if (lc_take_word(parser, "chunk")) {
		int found = lc_choice(lc_peek(parser), chunks, 3);
		if (found >= 0) {
			directive->chunk = chunks[found];
			parser->at++;
		}
		if (lc_peek(parser)->kind == LC_NUMBER_TOKEN)
			LK_TRY(lc_integer(parser, "a number of chunks", 1, 1 << 20, &directive->chunks, err));
	}
	if (!lc_take_word(parser, "order")) return LK_OK;
	int found = lc_choice(lc_peek(parser), orders, 2);
	if (found < 0) return lc_unexpected(parser, "ring or linear", err);
	directive->order = orders[found];
	parser->at++;
	return LK_OK;
}

/* [dim D] [by reduce] */
static lk_status schedule_split(lc_parser *parser, lc_directive *directive, lk_error *err) {
	int64_t dim;
	if (lc_take_word(parser, "dim")) {
		LK_TRY(lc_integer(parser, "a dim", 0, LC_RANK - 1, &dim, err));
		directive->dim_given = true;
		directive->dim = (int)dim;
	}
	if (!lc_take_word(parser, "by")) return LK_OK;
	if (!lc_take_word(parser, "reduce")) return lc_unexpected(parser, "reduce", err);
	directive->order = "reduce";
	return LK_OK;
}

static lk_status sized(lc_parser *parser, const char *name, int64_t low, int64_t *out,
                       lk_error *err) {
	if (!lc_take_word(parser, name)) return lc_unexpected(parser, name, err);
	return lc_integer(parser, name, low, (int64_t)1 << 53, out, err);
}

static lk_status arguments(lc_parser *parser, lc_directive *directive, struct words *names,
                           struct words *results, lk_error *err) {
	switch (directive->kind) {
	case LC_SPLIT:
		LK_TRY(schedule_word(parser, "the value that holds the collective", names, err));
		LK_TRY(arrow_results(parser, results, err));
		return schedule_split(parser, directive, err);
	case LC_REORDER:
		LK_TRY(schedule_word(parser, "the collective", names, err));
		if (!lc_take_word(parser, "past")) return lc_unexpected(parser, "past", err);
		return schedule_list(parser, '{', '}', names, err);
	case LC_SLICE_STATE: return schedule_list(parser, 0, 0, names, err);
	case LC_FUSE: return schedule_labelled(parser, names, results, err);
	case LC_OVERLAP:
		LK_TRY(schedule_labelled(parser, names, results, err));
		return schedule_overlap(parser, directive, err);
	case LC_BUCKET:
		LK_TRY(schedule_list(parser, '{', '}', names, err));
		return sized(parser, "size", 1, &directive->size, err);
	case LC_RING:
	case LC_ULYSSES: return schedule_list(parser, '{', '}', names, err);
	case LC_RECOMPUTE:
		LK_TRY(schedule_list(parser, '{', '}', names, err));
		if (!lc_take_word(parser, "for"))
			return lc_unexpected(parser, "for and the statements that read it", err);
		return schedule_list(parser, '{', '}', results, err);
	default:
		LK_TRY(schedule_word(parser, "the value that holds the collective", names, err));
		LK_TRY(arrow_results(parser, results, err));
		return sized(parser, "group", 2, &directive->size, err);
	}
}

static lk_status directive(lc_parser *parser, lc_directive *d, lk_error *err) {
	struct words names = {.count = 0}, results = {.count = 0};
	const lc_token *token = lc_peek(parser);
	int found = lc_choice(token, lc_directive_names, LC_DIRECTIVES);
	char text[LC_NAME];
	if (found < 0) {
		lc_unexpected(parser, "a directive or '}'", err);
		snprintf(text, sizeof text, "%.*s", token->length < LC_NAME ? token->length : 0,
		         token->text);
		return lc_suggest(
			err, text, lc_directive_names, LC_DIRECTIVES,
			"directives are split, reorder, slice, fuse, overlap, bucket, hierarchical, "
			"recompute, ring and ulysses");
	}
	*d = (lc_directive){
		.kind = (lc_directive_kind)found, .line = token->line, .column = token->column};
	parser->at++;
	LK_TRY(arguments(parser, d, &names, &results, err));
	LK_TRY(schedule_keep(parser, &names, &d->names, &d->name_count, err));
	return schedule_keep(parser, &results, &d->results, &d->result_count, err);
}

/* [for PROGRAM]; else the program before. */
static lk_status schedule_find_program(lc_parser *parser, lk_error *err) {
	const char *name, *names[LC_PROGRAMS];
	const lc_token *token = lc_peek(parser);
	if (!lc_take_word(parser, "for")) {
		if (parser->file->programs.count) {
			parser->p = *lk_last(&parser->file->programs);
			return LK_OK;
		}
		lc_at(parser, token, err, "a schedule precedes every program");
		return lk_hint(err, "write it after its program");
	}
	token = lc_peek(parser);
	LK_TRY(lc_word_next(parser, "the name of a program", &name, err));
	for (size_t i = 0; i < parser->file->programs.count; i++) {
		names[i] = parser->file->programs.at[i]->name;
		if (strcmp(names[i], name) == 0) {
			parser->p = parser->file->programs.at[i];
			return LK_OK;
		}
	}
	lc_at(parser, token, err, "there is no program %s before this schedule", name);
	return lc_suggest(err, name, names, parser->file->programs.count,
	                  "a schedule follows its program");
}

static lk_status schedule_item(lc_parser *parser, void *context, lk_error *err) {
	directives *out = context;
	if (lc_take(parser, ';')) return LK_OK;
	if (lc_take_word(parser, "for")) return lc_loop_next(parser, schedule_item, context, err);
	if (out->count == DIRECTIVES)
		return lc_at(parser, lc_peek(parser), err, "a schedule has at most %d directives",
		             DIRECTIVES);
	if (!lk_push(out)) return lk_oom(err);
	return directive(parser, lk_last(out), err);
}

static lk_status body(lc_parser *parser, directives *out, lk_error *err) {
	LK_TRY(lc_expect(parser, '{', "the schedule's name", err));
	while (!lc_take(parser, '}')) LK_TRY(schedule_item(parser, out, err));
	return LK_OK;
}

lk_status lc_schedule_next(lc_parser *parser, lk_error *err) {
	const lc_token *token = lc_peek(parser);
	lc_schedule schedule = {.line = token->line, .column = token->column};
	LK_TRY(lc_word_next(parser, "the name of a schedule", &schedule.name, err));
	LK_TRY(schedule_find_program(parser, err));
	for (size_t i = 0; i < parser->p->schedules.count; i++) {
		if (strcmp(parser->p->schedules.at[i].name, schedule.name) != 0) continue;
		lc_at(parser, token, err, "%s has a schedule %s already", parser->p->name, schedule.name);
		return lk_hint(err, "choose another name");
	}
	if (parser->p->schedules.count == SCHEDULES)
		return lc_at(parser, token, err, "a program has at most %d schedules", SCHEDULES);
	directives found = {0};
	lk_status status = body(parser, &found, err);
	schedule.count = (int)found.count;
	schedule.directives = LK_ARRAY(&parser->file->arena, lc_directive, found.count);
	if (schedule.directives && found.count)
		memcpy(schedule.directives, found.at, sizeof *found.at * found.count);
	lk_vec_free(&found);
	LK_TRY(status);
	if (!schedule.directives) return lk_oom(err);
	parser->work += (int64_t)parser->p->nodes.count * schedule.count;
	if (parser->work > WORK) {
		lc_at(parser, token, err, "the schedules of this file go over more than %d values", WORK);
		return lk_hint(err, "write fewer schedules for a program of this size");
	}
	LK_TRY(lc_schedule_check(parser->p, &schedule, err));
	if (!lk_push(&parser->p->schedules)) return lk_oom(err);
	*lk_last(&parser->p->schedules) = schedule;
	return LK_OK;
}
