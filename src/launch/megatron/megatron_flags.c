/* megatron_flags.c: reads Megatron-LM's command line by its table, data/launch/megatron.csv. Flags
 * that do not change the step, or change it in a way that is not modelled, have rows with the
 * reason: they are listed to the user, not dropped. A flag without a row is listed as unknown. */
#include "base/arena.h"
#include "launch/megatron/megatron.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include "base/check.h"
#include "base/text.h"

/* A name in the table that ends with '*' matches every flag with that beginning. */
const lk_flag *lk_megatron_flag(const char *name) {
	for (const lk_flag *flag = lk_megatron_flags; flag->name != NULL; flag++) {
		size_t length = strlen(flag->name);
		bool all = flag->name[length - 1] == '*';
		if (all ? strncmp(flag->name, name, length - 1) == 0 : strcmp(flag->name, name) == 0)
			return flag;
	}
	return NULL;
}

const char *lk_megatron_near(const char *name) {
	for (const lk_flag *flag = lk_megatron_flags; flag->name != NULL; flag++)
		if (flag->kind != LK_FLAG_IGNORED && lk_is_slip(name, flag->name)) return flag->name;
	return NULL;
}

static bool is_flag(const lk_word *word) {
	const char *t = word->text;
	return t[0] == '-' &&
	       (t[1] == '-' || (t[1] >= 'a' && t[1] <= 'z') || (t[1] >= 'A' && t[1] <= 'Z'));
}

/* "True" and "False" after a switch, as dumps of configurations have it. */
static size_t flags_truth(const lk_word *words, size_t count, bool *on) {
	if (count == 0 || words[0].unknown != NULL) return 0;
	static const char *const names[] = {"False", "True", "false", "true"};
	for (size_t i = 0; i < 4; i++) {
		if (strcmp(words[0].text, names[i]) != 0) continue;
		*on = i % 2 == 1;
		return 1;
	}
	return 0;
}

static lk_status flags_read_choice(lk_reading *reading, const lk_flag *flag, const char *text,
                                   int *out) {
	LK_ASSERT(flag->choices != NULL && flag->choices[0] != NULL);
	for (int i = 0; flag->choices[i] != NULL; i++) {
		if (flag->choices[i][0] == '\0' || strcasecmp(flag->choices[i], text) != 0)
			continue; /* forks write some in lower case */
		*out = i;
		return LK_OK;
	}
	size_t count = 0;
	while (flag->choices[count] != NULL) count++;
	const char *near = lk_nearest(text, flag->choices, count);
	lk_fail(reading->err, LK_ERR_INPUT, reading->where, "--%s: \"%s\" is not among its values",
	        flag->name, text);
	return lk_hint(reading->err, "it takes %s",
	               near != NULL && near[0] != '\0' ? near
	                                               : flag->choices[flag->choices[0][0] == '\0']);
}

/* Join the words up to the next flag, separated by blanks. */
static lk_status flags_read_list(lk_reading *reading, const lk_word *words, size_t count,
                                 const char **out) {
	size_t size = 1;
	for (size_t i = 0; i < count; i++) size += strlen(words[i].text) + 1;
	char *text = lk_arena_alloc(reading->arena, size), *at = text;
	if (text == NULL) return lk_oom(reading->err);
	for (size_t i = 0; i < count; i++) {
		size_t length = strlen(words[i].text);
		if (i > 0) *at++ = ' ';
		memcpy(at, words[i].text, length);
		at += length;
	}
	*at = '\0';
	*out = text;
	return LK_OK;
}

static lk_status value_unknown(lk_reading *reading, const char *name, const lk_word *word) {
	char flag[96];
	snprintf(flag, sizeof flag, "--%s", name);
	return lk_launch_unknown_value(reading, flag, word);
}

static lk_status flags_read_value(lk_reading *reading, const lk_flag *flag, const lk_word *word,
                                  void *field) {
	char where[128];
	long long number;
	if (word->unknown != NULL) return value_unknown(reading, flag->name, word);
	lk_copy(where, sizeof where, "--");
	lk_copy(where + 2, sizeof where - 2, flag->name);
	switch (flag->kind) {
	case LK_FLAG_INT:
		LK_ASSERT(flag->low < flag->high);
		LK_TRY(lk_parse_int(word->text, flag->low, flag->high, &number, where, reading->err));
		*(int *)field = (int)number;
		return LK_OK;
	case LK_FLAG_REAL: return lk_parse_real(word->text, 0, 1e15, field, where, reading->err);
	case LK_FLAG_CHOICE: return flags_read_choice(reading, flag, word->text, field);
	default: *(const char **)field = word->text; return LK_OK;
	}
}

/* Whether --spec names, in one word or two, the modules that --hybrid-layer-pattern uses anyway.
 * Not gdp_stack_spec, in which M is a gated delta product. */
static bool flags_own_spec(const char *name, const lk_word *words, size_t values) {
	static const char *const specs[] = {"megatron.core.models.hybrid.hybrid_layer_specs",
	                                    "megatron.core.models.mamba.mamba_layer_specs"};
	for (size_t i = 0; i < values && strcmp(name, "spec") == 0; i++)
		if (strstr(words[i].text, "gdp_stack_spec")) return false;
	for (size_t i = 0; i < 2 && values > 0 && strcmp(name, "spec") == 0; i++)
		if (strncmp(words[0].text, specs[i], strlen(specs[i])) == 0) return true;
	return false;
}

lk_status lk_megatron_read(lk_reading *reading, lk_megatron *megatron, const char *name,
                           const lk_word *words, size_t count, size_t *used) {
	const lk_flag *flag = lk_megatron_flag(name);
	size_t values = 0;
	while (values < count && !is_flag(&words[values])) values++;
	*used = values;
	if (flag == NULL) return lk_launch_unknown(reading, name, lk_megatron_near(name));
	if (flag->kind == LK_FLAG_IGNORED) return lk_launch_skip(reading, name, flag->reason);
	if (flag->kind == LK_FLAG_UNMODELLED) return lk_launch_note(reading, name, flag->reason);
	if (flags_own_spec(name, words, values))
		return lk_launch_skip(reading, name, "Megatron-LM's own modules of hybrids");
	if (flag->kind == LK_FLAG_REFUSED) {
		lk_fail(reading->err, LK_ERR_INPUT, reading->where, "--%s: %s", name, flag->reason);
		return lk_hint(reading->err, "this launch line cannot be predicted as it is");
	}
	LK_ASSERT(flag->offset < sizeof *megatron);
	void *field = (char *)megatron + flag->offset;
	if (flag->kind == LK_FLAG_SET || flag->kind == LK_FLAG_CLEAR) {
		bool on = true;
		*used = flags_truth(words, values, &on);
		*(bool *)field = on == (flag->kind == LK_FLAG_SET);
		return LK_OK;
	}
	if (values == 0) {
		lk_fail(reading->err, LK_ERR_INPUT, reading->where, "--%s: the value is missing", name);
		return lk_hint(reading->err, "write it after the flag");
	}
	if (flag->kind == LK_FLAG_LIST) {
		for (size_t i = 0; i < values; i++)
			if (words[i].unknown != NULL) return value_unknown(reading, name, &words[i]);
		return flags_read_list(reading, words, values, field);
	}
	*used = 1;
	if (words[0].unknown != NULL && flag->reason != NULL) {
		*(const char **)field = words[0].text; /* the end of a path may tell enough */
		return lk_launch_skip(reading, name, flag->reason);
	}
	return flags_read_value(reading, flag, &words[0], field);
}
