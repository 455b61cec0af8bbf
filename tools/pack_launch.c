/* pack_launch.c: the rows of data/launch: tables of keys (lk_key), of flags (lk_flag), of names
 * (lk_renamed), of networks by frameworks' own names (lk_named_network), of launchers' programs and
 * options, and of rules (lk_rule). Unknown kinds, fields
 * and named words are refused here, members of structs and functions by the compiler. */
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

static void put_flag_direction(const struct pack_file *file) {
	static const char *const names[] = {"read", "both", "shared", "deepspeed", NULL};
	static const char *const is[] = {"READ", "BOTH", "SHARED", "DEEPSPEED"};
	printf("LK_%s},\n", is[pack_one_of(file, "direction", names)]);
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
	put_flag_direction(file);
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

/* "layers=6; hidden=256": sizes in which a network differs from its preset. */
static void put_network(const struct pack_file *file) {
	const char *sizes = pack_cell(file, "sizes");
	if (!*pack_cell(file, "preset")) pack_refuse(file, "preset: it is missing");
	for (const char *text = sizes; *text; text += strcspn(text, ";"), text += strspn(text, "; ")) {
		char name[PACK_NAME], value[PACK_NAME];
		size_t equals = strcspn(text, "=;"), end = strcspn(text, ";");
		snprintf(name, sizeof name, "%.*s", (int)equals, text);
		snprintf(value, sizeof value, "%.*s", (int)(end - equals) - 1, text + equals + 1);
		const lk_field *field = lk_draft_fact(name);
		if (!field || text[equals] != '=') pack_refuse(file, "sizes: not field=value: %s", text);
		check_value(file, field, value);
	}
	printf("\t{");
	pack_put_text(pack_cell(file, "network"));
	printf(", ");
	pack_put_text(pack_cell(file, "preset"));
	printf(", ");
	pack_put_quoted(sizes, strlen(sizes));
	printf("},\n");
}

/* ---- launchers */

/* Kinds of launchers, with blanks between. */
static void put_launchers(const struct pack_file *file, const char *column) {
	static const char *const names[] = {"torchrun", "slurm",   "mpi",   "deepspeed", "accelerate",
	                                    "python",   "wrapper", "shell", "composer",  NULL};
	static const char *const is[] = {"TORCHRUN", "SLURM",   "MPI",   "DEEPSPEED", "ACCELERATE",
	                                 "PYTHON",   "WRAPPER", "SHELL", "COMPOSER"};
	const char *text = pack_cell(file, column);
	if (!*text) pack_refuse(file, "%s: it is missing", column);
	for (size_t length; *text; text += length + (text[length] != '\0')) {
		int at = 0;
		length = word_end(text);
		while (names[at] && (strlen(names[at]) != length || strncmp(text, names[at], length) != 0))
			at++;
		if (!names[at]) pack_refuse(file, "%s: unknown \"%s\"", column, text);
		printf("LK_LAUNCHER_%s%s", is[at], text[length] ? " | " : "");
	}
}

static void put_program(const struct pack_file *file) {
	printf("\t{");
	pack_put_text(pack_cell(file, "program"));
	printf(", ");
	put_launchers(file, "launcher");
	printf("},\n");
}

static void put_option(const struct pack_file *file) {
	static const char *const names[] = {"per-node", "nodes", "total",    "tasks-per-node",
	                                    "listed",   "value", "config",   "setting",
	                                    "export",   "pair",  "argument", NULL};
	static const char *const is[] = {"PER_NODE", "NODES", "TOTAL",   "TASKS_PER_NODE",
	                                 "LISTED",   "VALUE", "CONFIG",  "SETTING",
	                                 "EXPORT",   "PAIR",  "ARGUMENT"};
	int means = pack_one_of(file, "means", names);
	bool setting = strcmp(names[means], "setting") == 0;
	if (setting != (*pack_cell(file, "key") != '\0'))
		pack_refuse(file, "key: \"%s\"", pack_cell(file, "key"));
	printf("\t{");
	pack_put_text(pack_cell(file, "option"));
	printf(", ");
	put_launchers(file, "launchers");
	printf(", LK_OPTION_%s, ", is[means]);
	pack_put_text(pack_cell(file, "key"));
	printf(", ");
	pack_put_text(pack_cell(file, "value"));
	printf("},\n");
}

/* ---- rules */

/* Refuses $names in a text that are no facts. */
static void check_names(const struct pack_file *file, const char *text) {
	for (char name[PACK_NAME]; (text = strchr(text, '$')) != NULL;) {
		size_t length = strspn(++text, "abcdefghijklmnopqrstuvwxyz_0123456789");
		snprintf(name, sizeof name, "%.*s", (int)length, text);
		if (!lk_draft_fact(name)) pack_refuse(file, "unknown field \"%s\"", name);
	}
}

/* Refuses an assignment, "field=value; field=value", of what there is not. */
static void check_assignments(const struct pack_file *file, const char *text) {
	char name[PACK_NAME], value[LK_RULE_BYTES];
	for (size_t length; *text; text += length + strspn(text + length, "; ")) {
		const char *end = strstr(text, "; ");
		length = end ? (size_t)(end - text) : strlen(text);
		size_t equals = strcspn(text, "=");
		if (equals >= length || length >= sizeof value)
			pack_refuse(file, "what: not field=value: %s", text);
		snprintf(name, sizeof name, "%.*s", (int)equals, text);
		snprintf(value, sizeof value, "%.*s", (int)(length - equals - 1), text + equals + 1);
		const lk_field *field = lk_draft_fact(name);
		if (!field) pack_refuse(file, "what: unknown field \"%s\"", name);
		bool computed = field->kind == LK_FIELD_INT || field->kind == LK_FIELD_REAL;
		if (!computed && *value != '$') check_value(file, field, value);
	}
}

static void put_rule(const struct pack_file *file) {
	static const char *const names[] = {"is",   "refuse",  "default", "set",   "assume",
	                                    "note", "comment", "same",    "flags", "words",
	                                    "own",  "end",     NULL};
	/* w: when, h: what, k: key, r: reason; capital: it must be there */
	static const struct {
		const char *kind, *takes;
	} is[] = {{"IS", "W"},    {"REFUSE", "WHKR"}, {"DEFAULT", "wHr"}, {"SET", "wHr"},
	          {"SET", "wR"},  {"NOTE", "WKR"},    {"COMMENT", "wH"},  {"SAME", "wHK"},
	          {"FLAGS", "H"}, {"WORDS", "wH"},    {"OWN", "wH"},      {"END", "W"}};
	static const char *const columns[] = {"when", "what", "key", "reason"};
	int kind = pack_one_of(file, "kind", names);
	bool own = strcmp(is[kind].kind, "OWN") == 0;
	for (int i = 0; i < 4; i++) {
		const char *text = pack_cell(file, columns[i]);
		if (strchr(is[kind].takes, "WHKR"[i]) && !*text)
			pack_refuse(file, "%s: it is missing", columns[i]);
		if (!strpbrk(is[kind].takes, (char[]){"WHKR"[i], "whkr"[i], '\0'}) && *text)
			pack_refuse(file, "%s: a row of kind %s has none", columns[i], names[kind]);
		check_names(file, text);
	}
	const char *what = pack_cell(file, "what"), *kinds = is[kind].kind;
	if (strcmp(kinds, "DEFAULT") == 0 || strcmp(kinds, "SET") == 0) check_assignments(file, what);
	printf("\t{");
	pack_put_text(pack_cell(file, "when"));
	printf(", LK_RULE_%s, ", kinds);
	pack_put_text(own ? "" : what);
	printf(", ");
	pack_put_text(pack_cell(file, "key"));
	printf(", ");
	pack_put_text(pack_text_of(file, "reasons", pack_cell(file, "reason")));
	printf(", %s%s},\n", own ? "lk_own_" : "", own ? what : "NULL");
}

static const char *const named[] = {"words", "reasons", NULL};
static const struct pack_form forms[] = {
	{"key", "lk_key", "lk_keys_", "", "{NULL, LK_KEY_SKIP, NULL, NULL, NULL, LK_READ, NULL, NULL}",
     put_key, PACK_ONCE},
	{"flag", "lk_flag", "lk_", "_flags", "{NULL, LK_FLAG_IGNORED, 0, 0, 0, NULL, NULL, LK_READ}",
     put_flag, PACK_ONCE},
	{"name", "lk_renamed", "lk_", "", "{NULL, NULL, NULL}", put_name, PACK_SEVERAL},
	{"network", "lk_named_network", "lk_", "", "{NULL, NULL, NULL}", put_network, PACK_ONCE},
	{"program", "lk_launcher_program", "lk_", "", "{NULL, 0}", put_program, PACK_ONCE},
	{"option", "lk_launcher_option", "lk_", "", "{NULL, 0, LK_OPTION_VALUE, NULL, NULL}",
     put_option, PACK_SEVERAL},
	{"when", "lk_rule", "lk_", "", "{NULL, LK_RULE_LAST, NULL, NULL, NULL, NULL}", put_rule,
     PACK_UNNAMED},
	{NULL, NULL, NULL, NULL, NULL, NULL, PACK_ONCE},
};
static const char includes[] = "#include \"launch/emit/rows.h\"\n"
							   "#include \"launch/frameworks/frameworks.h\"\n"
							   "#include \"launch/launchers/launchers.h\"";
const struct pack_set pack_launch = {"launch", includes, named, forms};
