/* reading.c: what every reader of launch lines and files keeps: flags that were seen, passed over
 * or are unknown, assumptions, settings of lockstep's own. */
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/check.h"
#include "base/text.h"
#include "launch/reading/reading.h"

/* Room for one more in an array of the arena, which has room for a power of two; NULL when memory
 * is out. */
static void *reading_grow(lk_arena *arena, void *list, int count, size_t size) {
	LK_ASSERT(count == 0 || list != NULL);
	if ((count & (count - 1)) != 0) return list;
	void *grown = lk_arena_alloc(arena, (count == 0 ? 1 : 2 * (size_t)count) * size);
	if (grown != NULL && count > 0) memcpy(grown, list, (size_t)count * size);
	return grown;
}

lk_status lk_launch_ignore(lk_arena *arena, lk_launch *launch, const char *flag, const char *reason,
                           lk_ignored_as as, lk_error *err) {
	const char *copy = lk_arena_strdup(arena, flag);
	lk_ignored *grown = reading_grow(arena, launch->ignored, launch->ignored_count, sizeof *grown);
	if (reason == NULL || copy == NULL || grown == NULL) return lk_oom(err);
	launch->ignored = grown;
	launch->ignored[launch->ignored_count++] =
		(lk_ignored){.flag = copy, .reason = reason, .as = as};
	return LK_OK;
}

static lk_status launch_add_ignored(lk_reading *reading, const char *flag, const char *reason,
                                    lk_ignored_as as) {
	return lk_launch_ignore(reading->arena, reading->out, flag, reason, as, reading->err);
}

lk_status lk_launch_note(lk_reading *reading, const char *flag, const char *reason) {
	return launch_add_ignored(reading, flag, reason, LK_IGNORED_NOTABLE);
}

lk_status lk_launch_skip(lk_reading *reading, const char *flag, const char *reason) {
	return launch_add_ignored(reading, flag, reason, LK_IGNORED_HARMLESS);
}

lk_status lk_launch_unknown(lk_reading *reading, const char *flag, const char *near) {
	const char *reason = "unknown to lockstep";
	if (near) reason = lk_arena_printf(reading->arena, "%s; did you mean %s?", reason, near);
	LK_TRY(launch_add_ignored(reading, flag, reason, LK_IGNORED_UNKNOWN));
	reading->out->ignored[reading->out->ignored_count - 1].near = near;
	return LK_OK;
}

lk_status lk_launch_seen(lk_reading *reading, const char *flag) {
	lk_launch *out = reading->out;
	const char *copy = lk_arena_strdup(reading->arena, flag), **grown;
	grown = reading_grow(reading->arena, out->flags, out->flag_count, sizeof *grown);
	if (copy == NULL || grown == NULL) return lk_oom(reading->err);
	out->flags = grown;
	out->flags[out->flag_count++] = copy;
	return LK_OK;
}

lk_status lk_launch_keep_line(lk_reading *reading, const char *text, lk_line_kind kind) {
	lk_launch *out = reading->out;
	bool assumed = kind == LK_LINE_ASSUMED;
	const char ***list = assumed ? &out->assumed : &out->understood;
	int *count = assumed ? &out->assumed_count : &out->understood_count;
	const char *copy = lk_arena_strdup(reading->arena, text);
	const char **grown = reading_grow(reading->arena, *list, *count, sizeof *grown);
	if (copy == NULL || grown == NULL) return lk_oom(reading->err);
	*list = grown;
	grown[(*count)++] = copy;
	return LK_OK;
}

lk_status lk_launch_assume(lk_reading *reading, const char *format, ...) {
	char text[400];
	va_list list;
	va_start(list, format);
	vsnprintf(text, sizeof text, format, list);
	va_end(list);
	return lk_launch_keep_line(reading, text, LK_LINE_ASSUMED);
}

lk_status lk_launch_understood(lk_reading *reading, const char *key, const char *value) {
	char text[256], shown[128];
	snprintf(text, sizeof text, "%.100s %s", key, lk_escape(value, shown, sizeof shown));
	return lk_launch_keep_line(reading, text, LK_LINE_UNDERSTOOD);
}

lk_status lk_launch_device(lk_reading *reading, const char *name, size_t length) {
	char *known = lk_arena_strndup(reading->arena, name, length);
	if (known == NULL) return lk_oom(reading->err);
	if (length < 64 && lk_device_find(known) != NULL) reading->out->device = known;
	return LK_OK;
}

/* After the last expansion of a text: "$NAME", "${...}", "$(...)", "`...`". */
static const char *reading_after_expansions(const char *text) {
	const char *rest = text;
	for (const char *at = text; *at; at++) {
		if (*at == '`') rest = at + 1;
		if (*at != '$') continue;
		char open = at[1], close = open == '{' ? '}' : ')';
		if (open != '{' && open != '(') {
			for (at++; isalnum((unsigned char)*at) || *at == '_'; at++) {
			}
			rest = at--;
			continue;
		}
		int depth = 0;
		for (at++; *at; at++) {
			depth += (*at == open) - (*at == close);
			if (depth == 0) break;
		}
		if (*at == '\0') return at;
		rest = at + 1;
	}
	return rest;
}

const char *lk_launch_known_end(const lk_word *word) {
	const char *rest = reading_after_expansions(word->text);
	if (word->unknown == NULL || rest == word->text || *rest != '/') return NULL;
	rest += strspn(rest, "/");
	size_t length = strlen(rest);
	return length > 0 && rest[length - 1] != '/' && !strpbrk(rest, " \t\n") ? rest : NULL;
}

lk_status lk_launch_ask_value(lk_reading *reading, const lk_word *value, const char *otherwise) {
	const char *at = strchr(value->text, '$');
	at = at != NULL ? at + 1 + (at[1] == '{') : "";
	size_t length = 0;
	while (isalnum((unsigned char)at[length]) || at[length] == '_') length++;
	if (length > 0 && isdigit((unsigned char)*at))
		return lk_hint(reading->err, "give the script's arguments after --");
	if (length > 0 && strstr(value->unknown, "is an argument of the script") != NULL)
		return lk_hint(reading->err, "give the script's arguments after --, or --var %.*s=VALUE",
		               (int)length, at);
	if (length > 0) return lk_hint(reading->err, "give --var %.*s=VALUE", (int)length, at);
	return lk_hint(reading->err, "%s", otherwise);
}

lk_status lk_launch_unknown_value(lk_reading *reading, const char *flag, const lk_word *value) {
	lk_fail(reading->err, LK_ERR_INPUT, reading->where, "%s: %s", flag, value->unknown);
	return lk_launch_ask_value(reading, value,
	                           "write the value into the script, or give the variable that holds "
	                           "it: --var NAME=VALUE");
}

lk_status lk_launch_network(lk_reading *reading, const char *flag, const char *name) {
	lk_launch *out = reading->out;
	out->network = lk_arena_strdup(reading->arena, name);
	out->network_flag = lk_arena_strdup(reading->arena, flag);
	if (out->network == NULL || out->network_flag == NULL) return lk_oom(reading->err);
	return lk_launch_skip(reading, flag, "it names the network");
}

lk_status lk_launch_set(lk_reading *reading, const char *setting) {
	lk_job *job = reading->out->job;
	const char *name = setting + 9, *equals = strchr(name, '=');
	LK_ASSERT(strncmp(setting, "LOCKSTEP_", 9) == 0 && equals != NULL);
	bool known;
	LK_TRY(lk_field_set(job, name, (size_t)(equals - name), equals + 1, &known, reading->err));
	if (known && strncmp(name, "MODEL=", 6) == 0 && job->model.layers == 0)
		return lk_launch_network(reading, "LOCKSTEP_MODEL", equals + 1);
	return known ? LK_OK : lk_launch_note(reading, setting, "no field of a job has this name");
}
