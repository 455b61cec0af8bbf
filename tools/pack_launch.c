/* pack_launch.c: the rows of data/launch as C source, for the build: tables of keys (lk_key), of
 * flags (lk_flag), of names (lk_renamed) of launchers' programs and options, and
 * of rules (lk_rule), one per file, or one per part of a file. A row that no
 * reader can work with fails the build with its file and line: unknown kinds, fields and named
 * words here, members of structs and rules by the compiler, to which #line says where the row is.
 *
 *     pack_launch words.csv reasons.csv axolotl.csv trainer.csv ... > tables.c
 *
 * The first two files name words and reasons that recur, which the others mention as @name. A file
 * is of one form by its first column, after part. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/vec.h"
#include "io/csv.h"
#include "launch/config/config.h"

enum { NAME_BYTES = 64 };

/* Texts that recur, by name. */
struct named {
	char *name, *text;
};
struct named_list {
	LK_VEC(struct named) rows;
};
static struct named_list words, reasons;

/* What the file that is read has. */
struct file {
	lk_csv *csv;
	char table[NAME_BYTES]; /* of the file's name: "nemo_rl" */
	char part[NAME_BYTES];  /* that is written; empty before the first row */
	struct named_list seen; /* keys of the part, to refuse a second row of one */
	bool open;
};

static void refuse(const struct file *file, const char *format, ...) LK_PRINTF(2, 3);
static void refuse(const struct file *file, const char *format, ...) {
	va_list list;
	fprintf(stderr, "pack_launch: %s: ", lk_csv_where(file->csv));
	va_start(list, format);
	vfprintf(stderr, format, list);
	va_end(list);
	fputc('\n', stderr);
	exit(2);
}

static const char *cell(const struct file *file, const char *column) {
	return lk_csv_field(file->csv, lk_csv_column(file->csv, column));
}

static void list_put(struct named_list *list, const char *name, const char *text) {
	if (!lk_push(&list->rows)) abort();
	*lk_last(&list->rows) = (struct named){strdup(name), strdup(text)};
}

static const char *list_find(const struct named_list *list, const char *name) {
	for (size_t i = 0; i < list->rows.count; i++)
		if (strcmp(list->rows.at[i].name, name) == 0) return list->rows.at[i].text;
	return NULL;
}

static void list_free(struct named_list *list) {
	for (size_t i = 0; i < list->rows.count; i++) {
		free(list->rows.at[i].name);
		free(list->rows.at[i].text);
	}
	lk_vec_free(&list->rows);
}

/* The text itself, or the one that "@name" stands for. */
static const char *text_of(const struct file *file, const struct named_list *list,
                           const char *text) {
	if (*text != '@') return text;
	const char *found = list_find(list, text + 1);
	if (!found) refuse(file, "%s is not named in words.csv or reasons.csv", text);
	return found;
}

static void put_quoted(const char *text, size_t length) {
	putchar('"');
	for (size_t i = 0; i < length; i++) {
		if (text[i] == '"' || text[i] == '\\') putchar('\\');
		putchar(text[i]);
	}
	putchar('"');
}

static void put_text(const char *text) {
	if (*text) put_quoted(text, strlen(text));
	else printf("NULL");
}

/* ---- keys */

static size_t word_end(const char *text) {
	return strcspn(text, " \n");
}

/* Refuses a value of ours that the field does not take. */
static void check_value(const struct file *file, const lk_field *field, const char *ours) {
	lk_draft draft = {0};
	lk_error err = {0};
	if (*ours && lk_field_put(&draft, field, ours, &err) != LK_OK)
		refuse(file, "words: \"%s\" is no value of the field %s", ours, field->name);
}

/* "theirs=ours theirs=ours", with blanks or ends of lines between, as an array of pairs. */
static void put_pairs(const struct file *file, const lk_field *field, const char *text) {
	if (!*text) {
		printf("NULL");
		return;
	}
	printf("(const lk_pair[]){");
	for (size_t length; *text; text += length + (text[length] != '\0')) {
		char ours[NAME_BYTES];
		const char *equals = strchr(text, '=');
		length = word_end(text);
		if (!equals || equals > text + length) refuse(file, "words: not theirs=ours: %s", text);
		snprintf(ours, sizeof ours, "%.*s", (int)(text + length - equals - 1), equals + 1);
		check_value(file, field, ours);
		printf("{");
		put_quoted(text, (size_t)(equals - text));
		printf(", \"%s\"}, ", ours);
	}
	printf("{NULL, NULL}}");
}

static int one_of(const struct file *file, const char *column, const char *const *names) {
	const char *text = cell(file, column);
	for (int i = 0; names[i]; i++)
		if (strcmp(text, names[i]) == 0) return i;
	refuse(file, "%s: unknown \"%s\"", column, text);
	return 0;
}

static void put_direction(const struct file *file) {
	static const char *const names[] = {"", "read", "written", "both", NULL};
	static const char *const is[] = {"READ", "READ", "WRITTEN", "BOTH"};
	printf("LK_%s, ", is[one_of(file, "direction", names)]);
}

/* Whether the text of a framework has the row. */
static bool written(const struct file *file) {
	const char *direction = cell(file, "direction");
	return strcmp(direction, "written") == 0 || strcmp(direction, "both") == 0;
}

static void put_key(const struct file *file) {
	static const char *const names[] = {"fact", "rule", "text", "skip", "note", "refuse", NULL};
	static const char *const is[] = {"FACT", "RULE", "TEXT", "SKIP", "NOTE", "REFUSE"};
	const char *fact = cell(file, "field"), *rule = cell(file, "rule"), *text = cell(file, "words");
	const char *reason = text_of(file, &reasons, cell(file, "reason"));
	int kind = one_of(file, "kind", names);
	const lk_field *field = kind == 0 ? lk_draft_fact(fact) : NULL;
	if (kind == 0 && !field) refuse(file, "field: unknown \"%s\"", fact);
	if (kind != 0 && *fact) refuse(file, "a row of kind %s fills no field", names[kind]);
	if (kind != 0 && *text && !written(file)) refuse(file, "words: nothing writes them");
	if ((kind > 2) != (*reason != '\0'))
		refuse(file, "reason: %s", kind > 2 ? "it is missing" : "nothing prints it");
	printf("\t{");
	put_quoted(cell(file, "key"), strlen(cell(file, "key")));
	printf(", LK_KEY_%s, ", is[kind]);
	put_text(fact);
	printf(", ");
	put_pairs(file, field, field ? text_of(file, &words, text) : "");
	printf(", ");
	put_text(reason);
	printf(", ");
	put_direction(file);
	put_text(field ? "" : text);
	printf(", %s%s},\n", *rule ? "lk_rule_" : "", *rule ? rule : "NULL");
}

/* ---- flags */

/* "a|b" as an array of names. */
static void put_choices(const char *text) {
	printf("(const char *const[]){");
	for (;; text++) {
		size_t length = strcspn(text, "|");
		put_quoted(text, length);
		printf(", ");
		text += length;
		if (!*text) break;
	}
	printf("NULL}");
}

static void put_flag(const struct file *file) {
	static const char *const names[] = {"int",   "real", "text", "list",   "choice", "set",
	                                    "clear", "skip", "note", "refuse", NULL};
	static const struct {
		const char *kind, *type;
	} is[] = {{"INT", "int"},           {"REAL", "double"}, {"TEXT", "const char *"},
	          {"LIST", "const char *"}, {"CHOICE", "int"},  {"SET", "bool"},
	          {"CLEAR", "bool"},        {"IGNORED", NULL},  {"UNMODELLED", NULL},
	          {"REFUSED", NULL}};
	const char *field = cell(file, "field"), *text = cell(file, "words");
	const char *reason = text_of(file, &reasons, cell(file, "reason"));
	int kind = one_of(file, "kind", names), low = 0, high = 0;
	if ((is[kind].type != NULL) != (*field != '\0')) refuse(file, "field: \"%s\"", field);
	if (!is[kind].type && !*reason) refuse(file, "reason: it is missing");
	if (kind == LK_FLAG_INT && (sscanf(text, "%d..%d", &low, &high) != 2 || low >= high))
		refuse(file, "words: the limits of a whole number are LOW..HIGH");
	printf("\t{");
	put_text(cell(file, "flag"));
	printf(", LK_FLAG_%s, ", is[kind].kind);
	if (kind == LK_FLAG_CHOICE) printf("LK_FLAG_CHOICE_AT(%s), ", field);
	else if (is[kind].type) printf("LK_FLAG_AT(%s, %s), ", is[kind].type, field);
	else printf("0, ");
	printf("%d, %d, ", low, high);
	if (kind == LK_FLAG_CHOICE) put_choices(text);
	else printf("NULL");
	printf(", ");
	put_text(reason);
	printf(", ");
	put_direction(file);
	printf("},\n");
}

static void put_name(const struct file *file) {
	printf("\t{");
	put_text(cell(file, "name"));
	printf(", ");
	put_text(cell(file, "flag"));
	printf(", ");
	put_text(cell(file, "when"));
	printf("},\n");
}

/* ---- launchers */

/* Kinds of launchers, with blanks between. */
static void put_launchers(const struct file *file, const char *column) {
	static const char *const names[] = {"torchrun", "slurm",   "mpi",   "deepspeed", "accelerate",
	                                    "python",   "wrapper", "shell", "composer",  NULL};
	static const char *const is[] = {"TORCHRUN", "SLURM",   "MPI",   "DEEPSPEED", "ACCELERATE",
	                                 "PYTHON",   "WRAPPER", "SHELL", "COMPOSER"};
	const char *text = cell(file, column);
	if (!*text) refuse(file, "%s: it is missing", column);
	for (size_t length; *text; text += length + (text[length] != '\0')) {
		int at = 0;
		length = word_end(text);
		while (names[at] && (strlen(names[at]) != length || strncmp(text, names[at], length) != 0))
			at++;
		if (!names[at]) refuse(file, "%s: unknown \"%s\"", column, text);
		printf("LK_LAUNCHER_%s%s", is[at], text[length] ? " | " : "");
	}
}

static void put_program(const struct file *file) {
	printf("\t{");
	put_text(cell(file, "program"));
	printf(", ");
	put_launchers(file, "launcher");
	printf("},\n");
}

static void put_option(const struct file *file) {
	static const char *const names[] = {"per-node", "nodes", "total",    "tasks-per-node",
	                                    "listed",   "value", "config",   "setting",
	                                    "export",   "pair",  "argument", NULL};
	static const char *const is[] = {"PER_NODE", "NODES", "TOTAL",   "TASKS_PER_NODE",
	                                 "LISTED",   "VALUE", "CONFIG",  "SETTING",
	                                 "EXPORT",   "PAIR",  "ARGUMENT"};
	int means = one_of(file, "means", names);
	bool setting = strcmp(names[means], "setting") == 0;
	if (setting != (*cell(file, "key") != '\0')) refuse(file, "key: \"%s\"", cell(file, "key"));
	printf("\t{");
	put_text(cell(file, "option"));
	printf(", ");
	put_launchers(file, "launchers");
	printf(", LK_OPTION_%s, ", is[means]);
	put_text(cell(file, "key"));
	printf(", ");
	put_text(cell(file, "value"));
	printf("},\n");
}

/* ---- rules */

/* Refuses $names in a text that are no facts. */
static void check_names(const struct file *file, const char *text) {
	for (char name[NAME_BYTES]; (text = strchr(text, '$')) != NULL;) {
		size_t length = strspn(++text, "abcdefghijklmnopqrstuvwxyz_0123456789");
		snprintf(name, sizeof name, "%.*s", (int)length, text);
		if (!lk_draft_fact(name)) refuse(file, "unknown field \"%s\"", name);
	}
}

/* Refuses an assignment, "field=value; field=value", of what there is not. */
static void check_assignments(const struct file *file, const char *text) {
	char name[NAME_BYTES], value[LK_RULE_BYTES];
	for (size_t length; *text; text += length + strspn(text + length, "; ")) {
		const char *end = strstr(text, "; ");
		length = end ? (size_t)(end - text) : strlen(text);
		size_t equals = strcspn(text, "=");
		if (equals >= length || length >= sizeof value)
			refuse(file, "what: not field=value: %s", text);
		snprintf(name, sizeof name, "%.*s", (int)equals, text);
		snprintf(value, sizeof value, "%.*s", (int)(length - equals - 1), text + equals + 1);
		const lk_field *field = lk_draft_fact(name);
		if (!field) refuse(file, "what: unknown field \"%s\"", name);
		bool computed = field->kind == LK_FIELD_INT || field->kind == LK_FIELD_REAL;
		if (!computed && *value != '$') check_value(file, field, value);
	}
}

static void put_rule(const struct file *file) {
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
	int kind = one_of(file, "kind", names);
	bool own = strcmp(is[kind].kind, "OWN") == 0;
	for (int i = 0; i < 4; i++) {
		const char *text = cell(file, columns[i]);
		if (strchr(is[kind].takes, "WHKR"[i]) && !*text)
			refuse(file, "%s: it is missing", columns[i]);
		if (!strpbrk(is[kind].takes, (char[]){"WHKR"[i], "whkr"[i], '\0'}) && *text)
			refuse(file, "%s: a row of kind %s has none", columns[i], names[kind]);
		check_names(file, text);
	}
	const char *what = cell(file, "what"), *kinds = is[kind].kind;
	if (strcmp(kinds, "DEFAULT") == 0 || strcmp(kinds, "SET") == 0) check_assignments(file, what);
	printf("\t{");
	put_text(cell(file, "when"));
	printf(", LK_RULE_%s, ", kinds);
	put_text(own ? "" : what);
	printf(", ");
	put_text(cell(file, "key"));
	printf(", ");
	put_text(text_of(file, &reasons, cell(file, "reason")));
	printf(", %s%s},\n", own ? "lk_own_" : "", own ? what : "NULL");
}

/* ---- files */

static const struct form {
	const char *column; /* the first, after part */
	const char *type, *prefix, *suffix, *end;
	void (*put)(const struct file *file);
	bool once; /* of a key there is one row */
} forms[] = {
	{"key", "lk_key", "lk_keys_", "", "{NULL, LK_KEY_SKIP, NULL, NULL, NULL, LK_READ, NULL, NULL}",
     put_key, true},
	{"flag", "lk_flag", "lk_", "_flags", "{NULL, LK_FLAG_IGNORED, 0, 0, 0, NULL, NULL, LK_READ}",
     put_flag, true},
	{"name", "lk_renamed", "lk_", "", "{NULL, NULL, NULL}", put_name, false},
	{"program", "lk_launcher_program", "lk_", "", "{NULL, 0}", put_program, true},
	{"option", "lk_launcher_option", "lk_", "", "{NULL, 0, LK_OPTION_VALUE, NULL, NULL}",
     put_option, false},
	{"when", "lk_rule", "lk_", "", "{NULL, LK_RULE_LAST, NULL, NULL, NULL, NULL}", put_rule, false},
};

static const struct form *file_form(const struct file *file) {
	const char *first = lk_csv_name(file->csv, lk_csv_column(file->csv, "part") == 0 ? 1 : 0);
	for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
		if (strcmp(first, forms[i].column) == 0) return &forms[i];
	refuse(file, "no form begins with the column \"%s\"", first);
	return NULL;
}

static void table_end(struct file *file, const struct form *form) {
	if (file->open) printf("\t%s};\n\n", form->end);
	list_free(&file->seen);
	file->open = false;
}

static void table_begin(struct file *file, const struct form *form, const char *part) {
	table_end(file, form);
	lk_copy(file->part, sizeof file->part, part);
	printf("const %s %s%s%s%s%s[] = {\n", form->type, form->prefix, file->table, *part ? "_" : "",
	       part, form->suffix);
	file->open = true;
}

static void put_row(struct file *file, const struct form *form) {
	const char *part = cell(file, "part"), *key = cell(file, form->column);
	const char *where = lk_csv_where(file->csv), *line = strrchr(where, ':');
	if (!file->open || strcmp(part, file->part) != 0) table_begin(file, form, part);
	bool read = strcmp(cell(file, "direction"), "written") != 0;
	if (read && !*key && form->put != put_rule) refuse(file, "%s: it is missing", form->column);
	if (read && form->once && list_find(&file->seen, key))
		refuse(file, "%s has a row already", key);
	if (read) list_put(&file->seen, key, "");
	printf("#line %s \"%.*s\"\n", line + 1, (int)(line - where), where);
	form->put(file);
}

static void read_rows(const char *path, struct named_list *list) {
	struct file file = {0};
	lk_stream *in = NULL;
	lk_error err = {0};
	const char *slash = strrchr(path, '/');
	const struct form *form = NULL;
	lk_copy(file.table, sizeof file.table, slash ? slash + 1 : path);
	file.table[strcspn(file.table, ".")] = '\0';
	lk_status status = lk_stream_open(path, &in, &err);
	if (status == LK_OK) status = lk_csv_open(in, &file.csv, &err);
	if (status == LK_OK && !list) form = file_form(&file);
	for (bool more = true; status == LK_OK && more;) {
		status = lk_csv_next(file.csv, &more, &err);
		if (status != LK_OK || !more) break;
		if (list) list_put(list, lk_csv_field(file.csv, 0), lk_csv_field(file.csv, 1));
		else put_row(&file, form);
	}
	if (status != LK_OK) {
		fprintf(stderr, "pack_launch: %s: %s\n", err.where, err.what);
		exit(2);
	}
	if (form) table_end(&file, form);
	lk_csv_close(file.csv);
	lk_stream_close(in);
}

int main(int argc, char **argv) {
	if (argc < 4) {
		fprintf(stderr, "usage: pack_launch words.csv reasons.csv TABLE.csv... > tables.c\n");
		return 2;
	}
	read_rows(argv[1], &words);
	read_rows(argv[2], &reasons);
	printf("/* Generated by tools/pack_launch.c from data/launch; do not edit. */\n"
	       "#include \"launch/emit/rows.h\"\n#include \"launch/frameworks/frameworks.h\"\n"
	       "#include \"launch/launchers/launchers.h\"\n\n");
	for (int i = 3; i < argc; i++) read_rows(argv[i], NULL);
	list_free(&words);
	list_free(&reasons);
	return fflush(stdout) != 0 || ferror(stdout);
}
