/* pack_launch.c: the rows of data/launch: tables of keys (lk_key), of flags (lk_flag) and of names
 * (lk_renamed). Unknown kinds, fields and named words are refused here, members of structs and
 * rules by the compiler. */
#include <stdio.h>
#include <string.h>

#include "launch/config/config.h"
#include "tools/pack_tables.h"

/* ---- keys */

static size_t word_end(const char *text) {
	return strcspn(text, " \n");
}

/* Refuses a value of ours that the field does not take. */
static void check_value(const struct pack_file *file, const lk_field *field, const char *ours) {
	lk_draft draft = {0};
	lk_error err = {0};
	if (*ours && lk_field_put(&draft, field, ours, &err) != LK_OK)
		pack_refuse(file, "words: \"%s\" is no value of the field %s", ours, field->name);
}

/* "theirs=ours theirs=ours", with blanks or ends of lines between, as an array of pairs. */
static void put_pairs(const struct pack_file *file, const lk_field *field, const char *text) {
	if (!*text) {
		printf("NULL");
		return;
	}
	printf("(const lk_pair[]){");
	for (size_t length; *text; text += length + (text[length] != '\0')) {
		char ours[PACK_NAME];
		const char *equals = strchr(text, '=');
		length = word_end(text);
		if (!equals || equals > text + length)
			pack_refuse(file, "words: not theirs=ours: %s", text);
		snprintf(ours, sizeof ours, "%.*s", (int)(text + length - equals - 1), equals + 1);
		check_value(file, field, ours);
		printf("{");
		pack_put_quoted(text, (size_t)(equals - text));
		printf(", \"%s\"}, ", ours);
	}
	printf("{NULL, NULL}}");
}

static void put_direction(const struct pack_file *file) {
	static const char *const names[] = {"", "read", "written", "both", NULL};
	static const char *const is[] = {"READ", "READ", "WRITTEN", "BOTH"};
	printf("LK_%s, ", is[pack_one_of(file, "direction", names)]);
}

/* Whether the text of a framework has the row. */
static bool written(const struct pack_file *file) {
	const char *direction = pack_cell(file, "direction");
	return strcmp(direction, "written") == 0 || strcmp(direction, "both") == 0;
}

static void put_key(const struct pack_file *file) {
	static const char *const names[] = {"fact", "rule", "text", "skip", "note", "refuse", NULL};
	static const char *const is[] = {"FACT", "RULE", "TEXT", "SKIP", "NOTE", "REFUSE"};
	const char *fact = pack_cell(file, "field"), *rule = pack_cell(file, "rule"),
			   *text = pack_cell(file, "words");
	const char *reason = pack_text_of(file, "reasons", pack_cell(file, "reason"));
	int kind = pack_one_of(file, "kind", names);
	const lk_field *field = kind == 0 ? lk_draft_fact(fact) : NULL;
	if (kind == 0 && !field) pack_refuse(file, "field: unknown \"%s\"", fact);
	if (kind != 0 && *fact) pack_refuse(file, "a row of kind %s fills no field", names[kind]);
	if (kind != 0 && *text && !written(file)) pack_refuse(file, "words: nothing writes them");
	if ((kind > 2) != (*reason != '\0'))
		pack_refuse(file, "reason: %s", kind > 2 ? "it is missing" : "nothing prints it");
	printf("\t{");
	pack_put_quoted(pack_cell(file, "key"), strlen(pack_cell(file, "key")));
	printf(", LK_KEY_%s, ", is[kind]);
	pack_put_text(fact);
	printf(", ");
	put_pairs(file, field, field ? pack_text_of(file, "words", text) : "");
	printf(", ");
	pack_put_text(reason);
	printf(", ");
	put_direction(file);
	pack_put_text(field ? "" : text);
	printf(", %s%s},\n", *rule ? "lk_rule_" : "", *rule ? rule : "NULL");
}

/* ---- flags */

/* "a|b" as an array of names. */
static void put_choices(const char *text) {
	printf("(const char *const[]){");
	for (;; text++) {
		size_t length = strcspn(text, "|");
		pack_put_quoted(text, length);
		printf(", ");
		text += length;
		if (!*text) break;
	}
	printf("NULL}");
}

static void put_flag(const struct pack_file *file) {
	static const char *const names[] = {"int",   "real", "text", "list",   "choice", "set",
	                                    "clear", "skip", "note", "refuse", NULL};
	static const struct {
		const char *kind, *type;
	} is[] = {{"INT", "int"},           {"REAL", "double"}, {"TEXT", "const char *"},
	          {"LIST", "const char *"}, {"CHOICE", "int"},  {"SET", "bool"},
	          {"CLEAR", "bool"},        {"IGNORED", NULL},  {"UNMODELLED", NULL},
	          {"REFUSED", NULL}};
	const char *field = pack_cell(file, "field"), *text = pack_cell(file, "words");
	const char *reason = pack_text_of(file, "reasons", pack_cell(file, "reason"));
	int kind = pack_one_of(file, "kind", names), low = 0, high = 0;
	if ((is[kind].type != NULL) != (*field != '\0')) pack_refuse(file, "field: \"%s\"", field);
	if (!is[kind].type && !*reason) pack_refuse(file, "reason: it is missing");
	if (kind == LK_FLAG_INT && (sscanf(text, "%d..%d", &low, &high) != 2 || low >= high))
		pack_refuse(file, "words: the limits of a whole number are LOW..HIGH");
	printf("\t{");
	pack_put_text(pack_cell(file, "flag"));
	printf(", LK_FLAG_%s, ", is[kind].kind);
	if (kind == LK_FLAG_CHOICE) printf("LK_FLAG_CHOICE_AT(%s), ", field);
	else if (is[kind].type) printf("LK_FLAG_AT(%s, %s), ", is[kind].type, field);
	else printf("0, ");
	printf("%d, %d, ", low, high);
	if (kind == LK_FLAG_CHOICE) put_choices(text);
	else printf("NULL");
	printf(", ");
	pack_put_text(reason);
	printf(", ");
	put_direction(file);
	printf("},\n");
}

static void put_name(const struct pack_file *file) {
	printf("\t{");
	pack_put_text(pack_cell(file, "name"));
	printf(", ");
	pack_put_text(pack_cell(file, "flag"));
	printf(", ");
	pack_put_text(pack_cell(file, "when"));
	printf("},\n");
}

static const char *const named[] = {"words", "reasons", NULL};
static const struct pack_form forms[] = {
	{"key", "lk_key", "lk_keys_", "", "{NULL, LK_KEY_SKIP, NULL, NULL, NULL, LK_READ, NULL, NULL}",
     put_key, true},
	{"flag", "lk_flag", "lk_", "_flags", "{NULL, LK_FLAG_IGNORED, 0, 0, 0, NULL, NULL, LK_READ}",
     put_flag, true},
	{"name", "lk_renamed", "lk_", "", "{NULL, NULL, NULL}", put_name, false},
	{NULL, NULL, NULL, NULL, NULL, NULL, false},
};
const struct pack_set pack_launch = {"launch", "#include \"launch/emit/rows.h\"", named, forms};
