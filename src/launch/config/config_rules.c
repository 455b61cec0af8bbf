/* config_rules.c: what the settings of a file mean together, by the rows of data/launch/rules.csv.
 *
 *     condition  = conjunction { " or " conjunction };  conjunction = term { " and " term }
 *     term       = ["not "] name [("=" pattern {"|" pattern}) | (("<" | ">") operand)]
 *     name       = "$" field of the draft | "%" file, text or program | path of a key
 *     expression = operand { (" * " | " / " | " + ") operand }, from left to right
 *     operand    = number | name [":" number, where the name states nothing]
 *
 * A name alone holds where it is stated. Patterns ignore case, '*' stands for any characters, and a
 * list has what one of its members has. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/arena.h"
#include "base/check.h"
#include "base/text.h"
#include "launch/config/tables.h"

enum { TERM_BYTES = 256, MOST = 10000000 /* of a whole number that is computed */ };

/* ---- names ---- */

static const void *rule_place(const lk_draft *draft, const lk_field *field) {
	return (const char *)draft + field->offset;
}

/* The text that a fact, the reading or a setting states; NULL: none. */
static const char *rule_text(const lk_config *config, const lk_draft *draft, const char *name) {
	if (strcmp(name, "%file") == 0) return config->file;
	if (strcmp(name, "%text") == 0) return config->text;
	if (strcmp(name, "%program") == 0) return config->program;
	if (*name != '$') return lk_config_text(lk_config_at(config->root, name));
	const lk_field *field = lk_draft_fact(name + 1);
	LK_ASSERT(field != NULL && draft != NULL);
	return lk_field_value(config->reading->arena, field, &draft->job);
}

static bool rule_fact_stated(const lk_draft *draft, const lk_field *field) {
	static const char zeros[sizeof(double)] = {0};
	if (field->said) return *((const char *)draft + field->said) != 0;
	if (field->kind == LK_FIELD_TEXT) return *(const char *)rule_place(draft, field) != '\0';
	LK_ASSERT(field->size <= sizeof zeros);
	return memcmp(rule_place(draft, field), zeros, field->size) != 0;
}

static bool rule_stated(const lk_config *config, const lk_draft *draft, const char *name) {
	if (*name == '$') return rule_fact_stated(draft, lk_draft_fact(name + 1));
	if (*name == '%') return rule_text(config, draft, name) != NULL;
	const lk_value *value = lk_config_at(config->root, name);
	/* A file is recognised by what it has, whatever that says. */
	return value && (!draft || value->kind != LK_JSON_STRING || lk_config_text(value));
}

/* NAN: it states no number. */
static double rule_number(const lk_config *config, const lk_draft *draft, const char *name) {
	if (*name == '$' && !rule_fact_stated(draft, lk_draft_fact(name + 1))) return NAN;
	const char *text = rule_text(config, draft, name), *end;
	double number = text ? lk_read_real(text, &end) : NAN;
	return text && *text && *end == '\0' ? number : NAN;
}

/* ---- expressions ---- */

static double rule_operand(const lk_config *config, const lk_draft *draft, const char *text) {
	char name[TERM_BYTES];
	const char *end, *otherwise = strchr(text, ':');
	double number = lk_read_real(text, &end);
	if (end != text) return number;
	snprintf(name, sizeof name, "%.*s", (int)strcspn(text, ":"), text);
	number = rule_number(config, draft, name);
	if (!isnan(number)) return number;
	return otherwise ? lk_read_real(otherwise + 1, &end) : 0;
}

/* Division by nothing is nothing. */
static double rule_value(const lk_config *config, const lk_draft *draft, const char *text) {
	char operand[TERM_BYTES];
	double value = 0;
	for (char operation = '+'; *text; text += strspn(text, " ")) {
		size_t length = strcspn(text, " ");
		snprintf(operand, sizeof operand, "%.*s", (int)length, text);
		double right = rule_operand(config, draft, operand);
		if (operation == '+') value += right;
		else if (operation == '*') value *= right;
		else value = right != 0 ? value / right : 0;
		text += length + strspn(text + length, " ");
		operation = *text;
		if (*text) text++;
	}
	return value;
}

/* ---- conditions ---- */

static bool rule_is_like(const char *pattern, size_t length, const char *text) {
	for (; length > 0 && *pattern != '*'; pattern++, text++, length--)
		if (tolower((unsigned char)*pattern) != tolower((unsigned char)*text)) return false;
	if (length == 0) return *text == '\0';
	for (; !rule_is_like(pattern + 1, length - 1, text); text++)
		if (*text == '\0') return false;
	return true;
}

static bool rule_is_among(const char *patterns, const char *text) {
	for (size_t length; text; patterns += length + 1) {
		length = strcspn(patterns, "|");
		if (rule_is_like(patterns, length, text)) return true;
		if (patterns[length] == '\0') return false;
	}
	return false;
}

static bool rule_has(const lk_value *value, const char *patterns) {
	if (!value || value->kind != LK_JSON_ARRAY)
		return rule_is_among(patterns, lk_config_text(value));
	for (size_t i = 0; i < value->count; i++)
		if (rule_has(&value->items[i], patterns)) return true;
	return false;
}

static bool rule_term_holds(const lk_config *config, const lk_draft *draft, const char *term) {
	char name[TERM_BYTES];
	bool denied = strncmp(term, "not ", 4) == 0, holds;
	if (denied) term += 4;
	size_t length = strcspn(term, "=<>");
	const char *right = term + length + (term[length] != '\0');
	snprintf(name, sizeof name, "%.*s", (int)length, term);
	switch (term[length]) {
	case '\0': holds = rule_stated(config, draft, name); break;
	case '=':
		holds = *name == '$' || *name == '%' ? rule_is_among(right, rule_text(config, draft, name))
		                                     : rule_has(lk_config_at(config->root, name), right);
		break;
	case '<': holds = rule_number(config, draft, name) < rule_operand(config, draft, right); break;
	default: holds = rule_number(config, draft, name) > rule_operand(config, draft, right);
	}
	return holds != denied;
}

/* Cut the part before `word` off *at; false: nothing is left. */
static bool rule_cut(const char **at, const char *word, char *out, size_t size) {
	const char *end = strstr(*at, word);
	size_t length = end ? (size_t)(end - *at) : strlen(*at);
	if (**at == '\0') return false;
	LK_ASSERT(length < size);
	snprintf(out, size, "%.*s", (int)length, *at);
	*at += length + (end ? strlen(word) : 0);
	return true;
}

static bool rule_holds(const lk_config *config, const lk_draft *draft, const char *when) {
	char all[2 * LK_RULE_BYTES], term[TERM_BYTES];
	if (!when) return true;
	while (rule_cut(&when, " or ", all, sizeof all)) {
		const char *at = all;
		bool holds = true;
		while (holds && rule_cut(&at, " and ", term, sizeof term))
			holds = rule_term_holds(config, draft, term);
		if (holds) return true;
	}
	return false;
}

bool lk_rules_are(const lk_config *config, const lk_rule *rules) {
	for (const lk_rule *rule = rules; rule->kind != LK_RULE_LAST; rule++)
		if (rule->kind == LK_RULE_IS && rule_holds(config, NULL, rule->when)) return true;
	return false;
}

/* ---- what follows ---- */

/* The text with the values of {names}; NULL when memory runs out. */
static const char *rule_filled(const lk_config *config, const lk_draft *draft, const char *text) {
	lk_arena *arena = config->reading->arena;
	char name[TERM_BYTES];
	const char *out = "";
	while (out && *text) {
		size_t length = strcspn(text, "{"), inside = strcspn(text + length, "}");
		const char *value = NULL;
		if (text[length]) {
			snprintf(name, sizeof name, "%.*s", (int)inside - 1, text + length + 1);
			value = rule_text(config, draft, name);
		}
		out = lk_arena_printf(arena, "%s%.*s%s", out, (int)length, text, value ? value : "");
		text += length + inside + (text[length] != '\0');
	}
	return out;
}

static lk_status rule_put(const lk_config *config, lk_draft *draft, const lk_field *field,
                          const char *value) {
	void *at = (char *)draft + field->offset;
	double number;
	switch (field->kind) {
	case LK_FIELD_INT:
		number = rule_value(config, draft, value);
		*(int *)at = strcmp(value, "-1") == 0 ? -1 : (int)fmin(fmax(number, 0), MOST);
		return LK_OK;
	case LK_FIELD_REAL:
		*(double *)at = fmin(fmax(rule_value(config, draft, value), 0), 1e18);
		return LK_OK;
	case LK_FIELD_TEXT:
		value = rule_filled(config, draft, value);
		if (!value) return lk_oom(config->reading->err);
		lk_copy(at, field->size, value);
		return LK_OK;
	default: return lk_field_put(draft, field, value, config->reading->err);
	}
}

/* Set the facts of "field=value; field=value", of a default those that are open; *any: one was. */
static lk_status rule_set(const lk_config *config, const lk_rule *rule, lk_draft *draft,
                          bool *any) {
	char one[LK_RULE_BYTES], name[TERM_BYTES];
	const char *at = rule->what ? rule->what : "";
	*any = !rule->what;
	while (rule_cut(&at, "; ", one, sizeof one)) {
		size_t length = strcspn(one, "=");
		snprintf(name, sizeof name, "%.*s", (int)length, one);
		const lk_field *field = lk_draft_fact(name);
		LK_ASSERT(field != NULL && one[length] == '=');
		if (rule->kind == LK_RULE_DEFAULT && rule_fact_stated(draft, field)) continue;
		*any = true;
		LK_TRY(rule_put(config, draft, field, one + length + 1));
	}
	return LK_OK;
}

/* "field=--name": the number after a name in the file's comments. */
static lk_status rule_comment(const lk_config *config, const lk_rule *rule, lk_draft *draft) {
	char name[TERM_BYTES], number[32];
	size_t length = strcspn(rule->what, "=");
	snprintf(name, sizeof name, "%.*s", (int)length, rule->what);
	const lk_field *field = lk_draft_fact(name);
	LK_ASSERT(field != NULL && rule->what[length] == '=');
	if (rule_fact_stated(draft, field)) return LK_OK;
	snprintf(number, sizeof number, "%d", lk_config_commented(config, rule->what + length + 1));
	return lk_field_put(draft, field, number, config->reading->err);
}

/* A setting that is not as another is named: somebody counts on it. `what` is the other one, with
 * its default. */
static void rule_same(const lk_config *config, const lk_rule *rule) {
	char name[TERM_BYTES];
	const char *text = lk_config_text(lk_config_at(config->root, rule->key));
	size_t length = strcspn(rule->what, ":");
	snprintf(name, sizeof name, "%.*s", (int)length, rule->what);
	const char *other = lk_config_text(lk_config_at(config->root, name));
	if (!other) other = rule->what + length + (rule->what[length] == ':');
	if (!text || strcasecmp(text, other) == 0) return;
	lk_launch *out = config->reading->out;
	for (int i = 0; i < out->ignored_count; i++)
		if (strcmp(out->ignored[i].flag, rule->key) == 0) out->ignored[i].as = LK_IGNORED_NOTABLE;
}

static lk_status rule_words(const lk_config *config, const lk_rule *rule, const lk_draft *draft,
                            lk_words *words) {
	char word[TERM_BYTES];
	for (const char *at = rule->what; rule_cut(&at, " ", word, sizeof word);)
		LK_TRY(lk_config_word(config, rule_filled(config, draft, word), words));
	return LK_OK;
}

static lk_status rule_refuse(const lk_config *config, const lk_rule *rule, const lk_draft *draft) {
	const char *key = rule_filled(config, draft, rule->key);
	return key ? lk_config_fail(config, key, rule->reason, rule->what)
	           : lk_oom(config->reading->err);
}

static lk_status rule_apply(const lk_config *config, const lk_rule *rule, lk_draft *draft,
                            lk_words *words) {
	bool any = true;
	const char *reason;
	switch (rule->kind) {
	case LK_RULE_DEFAULT:
	case LK_RULE_SET:
		LK_TRY(rule_set(config, rule, draft, &any));
		if (!any || !rule->reason) return LK_OK;
		reason = rule_filled(config, draft, rule->reason);
		return reason ? lk_launch_assume(config->reading, "%s", reason)
		              : lk_oom(config->reading->err);
	case LK_RULE_NOTE: return lk_launch_note(config->reading, rule->key, rule->reason);
	case LK_RULE_COMMENT: return rule_comment(config, rule, draft);
	case LK_RULE_SAME: rule_same(config, rule); return LK_OK;
	case LK_RULE_FLAGS:
		return lk_config_megatron_words(config, rule->what, "pretrain_gpt.py", draft->nodes,
		                                draft->per_node, words);
	case LK_RULE_WORDS: return rule_words(config, rule, draft, words);
	case LK_RULE_OWN: return rule->own(config, draft);
	case LK_RULE_REFUSE: return rule_refuse(config, rule, draft);
	default: return LK_OK;
	}
}

/* Whether a refusal asks for settings alone: it comes before the keys are read. */
static bool rule_comes_first(const lk_rule *rule) {
	return rule->kind == LK_RULE_REFUSE && !strchr(rule->when, '$');
}

lk_status lk_rules_refuse(const lk_config *config, const lk_rule *rules) {
	for (const lk_rule *rule = rules; rule->kind != LK_RULE_LAST; rule++)
		if (rule_comes_first(rule) && rule_holds(config, NULL, rule->when))
			return rule_refuse(config, rule, NULL);
	return LK_OK;
}

lk_status lk_rules_apply(const lk_config *config, const lk_rule *rules, lk_draft *draft,
                         lk_words *words) {
	for (const lk_rule *rule = rules; rule->kind != LK_RULE_LAST; rule++) {
		if (rule->kind == LK_RULE_IS || rule_comes_first(rule)) continue;
		if (!rule_holds(config, draft, rule->when)) continue;
		if (rule->kind == LK_RULE_END) break;
		LK_TRY(rule_apply(config, rule, draft, words));
	}
	return LK_OK;
}
