/* parse_schedule.c: schedules: `schedule NAME [for PROGRAM] { directive; ... }`. */
#include <string.h>

#include "lang/syntax/lexer.h"

/* Values that the directives of a file go over, all together: reading stays a matter of seconds. */
enum { WORK = 1 << 19 };
enum { WORDS = 512, DIRECTIVES = 256, SCHEDULES = 256 }; /* names of a directive, directives of a schedule, schedules */

typedef LK_VEC(lc_directive) directives;

const char *const lc_directive_names[LC_DIRECTIVES] = {
	[LC_SPLIT] = "split", [LC_REORDER] = "reorder", [LC_SLICE_STATE] = "slice", [LC_FUSE] = "fuse",
	[LC_OVERLAP] = "overlap", [LC_BUCKET] = "bucket", [LC_HIERARCHICAL] = "hierarchical",
};

struct words {
	lc_word at[WORDS];
	int count;
};

static lk_status word(lc_parser *s, const char *what, struct words *out, lk_error *err) {
	const lc_token *t = lc_peek(s);
	if (out->count == WORDS) return lc_at(s, t, err, "more than %d names in a directive", WORDS);
	lc_word *w = &out->at[out->count++];
	w->line = t->line, w->column = t->column;
	return lc_indexed(s, what, &w->text, err);
}

static lk_status list(lc_parser *s, char begin, char end, struct words *out, lk_error *err) {
	if (begin) LK_TRY(lc_expect(s, begin, "it", err));
	do LK_TRY(word(s, "a name", out, err));
	while (lc_take(s, ','));
	return end ? lc_expect(s, end, "the names", err) : LK_OK;
}

static lk_status keep(lc_parser *s, const struct words *from, lc_word **to, int *count, lk_error *err) {
	*to = LK_ARRAY(&s->file->arena, lc_word, (size_t)from->count);
	if (!*to) return lk_oom(err);
	memcpy(*to, from->at, sizeof *from->at * (size_t)from->count);
	*count = from->count;
	return LK_OK;
}

static lk_status arrow_results(lc_parser *s, struct words *results, lk_error *err) {
	if (lc_peek(s)->kind != LC_ARROW_RIGHT) return lc_unexpected(s, "\"->\" and the new names", err);
	s->at++;
	return list(s, '(', ')', results, err);
}

/* [LABEL =] { names } */
static lk_status labelled(lc_parser *s, struct words *names, struct words *results, lk_error *err) {
	if (!lc_sees(s, '{')) {
		LK_TRY(word(s, "a label or '{'", results, err));
		LK_TRY(lc_expect(s, '=', "the label", err));
	}
	return list(s, '{', '}', names, err);
}

static lk_status overlap(lc_parser *s, lc_directive *d, lk_error *err) {
	static const char *const chunks[] = {"rows", "cols", "batches"}, *const orders[] = {"ring", "linear"};
	d->chunk = "";
	if (lc_take_word(s, "chunk")) {
		int found = lc_choice(lc_peek(s), chunks, 3);
		if (found >= 0) d->chunk = chunks[found], s->at++;
		if (lc_peek(s)->kind == LC_NUMBER_TOKEN)
			LK_TRY(lc_integer(s, "a number of chunks", 1, 1 << 20, &d->chunks, err));
	}
	if (!lc_take_word(s, "order")) return LK_OK;
	int found = lc_choice(lc_peek(s), orders, 2);
	if (found < 0) return lc_unexpected(s, "ring or linear", err);
	d->order = orders[found], s->at++;
	return LK_OK;
}

/* [dim D] [by reduce] */
static lk_status split(lc_parser *s, lc_directive *d, lk_error *err) {
	int64_t dim;
	if (lc_take_word(s, "dim")) {
		LK_TRY(lc_integer(s, "a dim", 0, LC_RANK - 1, &dim, err));
		d->size = dim + 1;
	}
	if (!lc_take_word(s, "by")) return LK_OK;
	if (!lc_take_word(s, "reduce")) return lc_unexpected(s, "reduce", err);
	d->order = "reduce";
	return LK_OK;
}

static lk_status sized(lc_parser *s, const char *name, int64_t low, int64_t *out, lk_error *err) {
	if (!lc_take_word(s, name)) return lc_unexpected(s, name, err);
	return lc_integer(s, name, low, (int64_t)1 << 53, out, err);
}

static lk_status arguments(lc_parser *s, lc_directive *d, struct words *names, struct words *results, lk_error *err) {
	switch (d->kind) {
	case LC_SPLIT:
		LK_TRY(word(s, "the value that holds the collective", names, err));
		LK_TRY(arrow_results(s, results, err));
		return split(s, d, err);
	case LC_REORDER:
		LK_TRY(word(s, "the collective", names, err));
		if (!lc_take_word(s, "past")) return lc_unexpected(s, "past", err);
		return list(s, '{', '}', names, err);
	case LC_SLICE_STATE: return list(s, 0, 0, names, err);
	case LC_FUSE: return labelled(s, names, results, err);
	case LC_OVERLAP: LK_TRY(labelled(s, names, results, err)); return overlap(s, d, err);
	case LC_BUCKET: LK_TRY(list(s, '{', '}', names, err)); return sized(s, "size", 1, &d->size, err);
	default:
		LK_TRY(word(s, "the value that holds the collective", names, err));
		LK_TRY(arrow_results(s, results, err));
		return sized(s, "group", 2, &d->size, err);
	}
}

static lk_status directive(lc_parser *s, lc_directive *d, lk_error *err) {
	struct words names = {.count = 0}, results = {.count = 0};
	const lc_token *t = lc_peek(s);
	int found = lc_choice(t, lc_directive_names, LC_DIRECTIVES);
	char text[LC_NAME];
	if (found < 0) {
		lc_unexpected(s, "a directive or '}'", err);
		snprintf(text, sizeof text, "%.*s", t->length < LC_NAME ? t->length : 0, t->text);
		return lc_suggest(err, text, lc_directive_names, LC_DIRECTIVES,
		                  "directives are split, reorder, slice, fuse, overlap, bucket and hierarchical");
	}
	*d = (lc_directive){.kind = (lc_directive_kind)found, .line = t->line, .column = t->column};
	s->at++;
	LK_TRY(arguments(s, d, &names, &results, err));
	LK_TRY(keep(s, &names, &d->names, &d->name_count, err));
	return keep(s, &results, &d->results, &d->result_count, err);
}

/* [for PROGRAM]; without it the program before. */
static lk_status find_program(lc_parser *s, lk_error *err) {
	const char *name, *names[LC_PROGRAMS];
	const lc_token *t = lc_peek(s);
	if (!lc_take_word(s, "for")) {
		if (s->file->programs.count) return s->p = *lk_last(&s->file->programs), LK_OK;
		lc_at(s, t, err, "a schedule stands before any program");
		return lk_hint(err, "write it behind its program");
	}
	t = lc_peek(s);
	LK_TRY(lc_word_next(s, "the name of a program", &name, err));
	for (size_t i = 0; i < s->file->programs.count; i++) {
		names[i] = s->file->programs.at[i]->name;
		if (strcmp(names[i], name) == 0) return s->p = s->file->programs.at[i], LK_OK;
	}
	lc_at(s, t, err, "there is no program %s before this schedule", name);
	return lc_suggest(err, name, names, s->file->programs.count, "a schedule stands behind its program");
}

static lk_status item(lc_parser *s, void *context, lk_error *err) {
	directives *out = context;
	if (lc_take(s, ';')) return LK_OK;
	if (lc_take_word(s, "for")) return lc_loop_next(s, item, context, err);
	if (out->count == DIRECTIVES) return lc_at(s, lc_peek(s), err, "a schedule has at most %d directives", DIRECTIVES);
	if (!lk_push(out)) return lk_oom(err);
	return directive(s, lk_last(out), err);
}

static lk_status body(lc_parser *s, directives *out, lk_error *err) {
	LK_TRY(lc_expect(s, '{', "the schedule's name", err));
	while (!lc_take(s, '}')) LK_TRY(item(s, out, err));
	return LK_OK;
}

lk_status lc_schedule_next(lc_parser *s, lk_error *err) {
	const lc_token *t = lc_peek(s);
	lc_schedule schedule = {.line = t->line, .column = t->column};
	LK_TRY(lc_word_next(s, "the name of a schedule", &schedule.name, err));
	LK_TRY(find_program(s, err));
	for (size_t i = 0; i < s->p->schedules.count; i++) {
		if (strcmp(s->p->schedules.at[i].name, schedule.name) != 0) continue;
		lc_at(s, t, err, "%s has a schedule %s already", s->p->name, schedule.name);
		return lk_hint(err, "choose another name");
	}
	if (s->p->schedules.count == SCHEDULES) return lc_at(s, t, err, "a program has at most %d schedules", SCHEDULES);
	directives found = {0};
	lk_status status = body(s, &found, err);
	schedule.count = (int)found.count;
	schedule.directives = LK_ARRAY(&s->file->arena, lc_directive, found.count);
	if (schedule.directives && found.count) memcpy(schedule.directives, found.at, sizeof *found.at * found.count);
	lk_vec_free(&found);
	LK_TRY(status);
	if (!schedule.directives) return lk_oom(err);
	s->work += (int64_t)s->p->nodes.count * schedule.count;
	if (s->work > WORK) {
		lc_at(s, t, err, "the schedules of this file go over more than %d values", WORK);
		return lk_hint(err, "write fewer schedules for a program of this size");
	}
	LK_TRY(lc_schedule_check(s->p, &schedule, err));
	if (!lk_push(&s->p->schedules)) return lk_oom(err);
	*lk_last(&s->p->schedules) = schedule;
	return LK_OK;
}
