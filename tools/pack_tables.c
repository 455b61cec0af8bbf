/* pack_tables.c: the files of one folder of data/ as C source, for the build (pack_tables.h). A row
 * that no reader can work with fails the build with its file and line: what a form checks here, what
 * C checks by the compiler, to which #line says where the row is.
 *
 *     pack_tables launch data/launch/axolotl.csv ... > launch_tables.c */
#include "tools/pack_tables.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

/* Texts that recur, as "FILE NAME". */
static struct pack_list texts;

void pack_refuse(const struct pack_file *file, const char *format, ...) {
	va_list list;
	fprintf(stderr, "pack_tables: %s: ", lk_csv_where(file->csv));
	va_start(list, format);
	vfprintf(stderr, format, list);
	va_end(list);
	fputc('\n', stderr);
	exit(2);
}

const char *pack_cell(const struct pack_file *file, const char *column) {
	return lk_csv_named(file->csv, column);
}

int pack_one_of(const struct pack_file *file, const char *column, const char *const *names) {
	const char *text = pack_cell(file, column);
	for (int i = 0; names[i]; i++)
		if (strcmp(text, names[i]) == 0) return i;
	pack_refuse(file, "%s: unknown \"%s\"", column, text);
	return 0;
}

const char *pack_text_of(const struct pack_file *file, const char *names, const char *text) {
	char name[2 * PACK_NAME];
	if (*text != '@') return text;
	snprintf(name, sizeof name, "%s %s", names, text + 1);
	const char *found = pack_find(&texts, name);
	if (!found) pack_refuse(file, "%s is not named in %s.csv", text, names);
	return found;
}

/* ---- lists ---- */

void pack_add(struct pack_list *list, const char *name, const char *text) {
	if (!lk_push(&list->rows)) abort();
	*lk_last(&list->rows) = (struct pack_named){strdup(name), strdup(text)};
}

const char *pack_find(const struct pack_list *list, const char *name) {
	for (size_t i = 0; i < list->rows.count; i++)
		if (strcmp(list->rows.at[i].name, name) == 0) return list->rows.at[i].text;
	return NULL;
}

void pack_free(struct pack_list *list) {
	for (size_t i = 0; i < list->rows.count; i++) {
		free(list->rows.at[i].name);
		free(list->rows.at[i].text);
	}
	lk_vec_free(&list->rows);
}

/* ---- texts of C ---- */

void pack_put_quoted(const char *text, size_t length) {
	putchar('"');
	for (size_t i = 0; i < length; i++) {
		if (text[i] == '"' || text[i] == '\\') putchar('\\');
		putchar(text[i]);
	}
	putchar('"');
}

void pack_put_text(const char *text) {
	if (*text) pack_put_quoted(text, strlen(text));
	else printf("NULL");
}

/* ---- tables ---- */

static void table_end(struct pack_file *file, const struct pack_form *form) {
	if (file->open && form->end) printf("\t%s,\n", form->end);
	if (file->open) printf("};\n\n");
	pack_free(&file->seen);
	file->open = false;
}

static void table_begin(struct pack_file *file, const struct pack_form *form, const char *part) {
	table_end(file, form);
	lk_copy(file->part, sizeof file->part, part);
	printf("const %s %s%s%s%s%s[] = {\n", form->type, form->prefix, file->table, *part ? "_" : "",
	       part, form->suffix);
	file->open = true;
}

static void put_row(struct pack_file *file, const struct pack_form *form) {
	const char *part = pack_cell(file, "part"), *key = pack_cell(file, form->column);
	const char *where = lk_csv_where(file->csv), *line = strrchr(where, ':');
	if (!file->open || strcmp(part, file->part) != 0) table_begin(file, form, part);
	/* launch: rows that are only written repeat the key of one that is read */
	bool read = strcmp(pack_cell(file, "direction"), "written") != 0;
	if (read && form->rows != PACK_UNNAMED && !*key)
		pack_refuse(file, "%s: it is missing", form->column);
	if (read && form->rows == PACK_ONCE && pack_find(&file->seen, key))
		pack_refuse(file, "%s has a row already", key);
	if (read) pack_add(&file->seen, key, "");
	printf("#line %s \"%.*s\"\n", line + 1, (int)(line - where), where);
	form->put(file);
}

/* ---- files ---- */

static void fail(const lk_error *err) {
	fprintf(stderr, "pack_tables: %s: %s\n", err->where, err->what);
	exit(2);
}

static void table_name(char name[PACK_NAME], const char *path) {
	const char *slash = strrchr(path, '/');
	lk_copy(name, PACK_NAME, slash ? slash + 1 : path);
	name[strcspn(name, ".")] = '\0';
}

/* Whether the file names texts of the set. */
static bool names_texts(const struct pack_set *set, const char *path) {
	char name[PACK_NAME];
	table_name(name, path);
	for (int i = 0; set->named[i]; i++)
		if (strcmp(name, set->named[i]) == 0) return true;
	return false;
}

static const char *first_column(const struct pack_file *file) {
	return lk_csv_name(file->csv, lk_csv_column(file->csv, "part") == 0 ? 1 : 0);
}

static bool has_form(const struct pack_file *file, const struct pack_form *form) {
	return strcmp(first_column(file), form->column) == 0;
}

static void refuse_formless(const struct pack_file *file, const struct pack_set *set) {
	for (const struct pack_form *form = set->forms; form->column; form++)
		if (has_form(file, form)) return;
	pack_refuse(file, "no table of %s has \"%s\" as its first column", set->name,
	            first_column(file));
}

/* Read the rows of a file: as texts by name if there is no form, else those of that form. */
static void read_rows(const struct pack_set *set, const char *path, const struct pack_form *form) {
	struct pack_file file = {0};
	lk_stream *in = NULL;
	lk_error err = {0};
	table_name(file.table, path);
	lk_status status = lk_stream_open(path, &in, &err);
	if (status == LK_OK) status = lk_csv_open(in, &file.csv, &err);
	if (status != LK_OK) fail(&err);
	if (form) refuse_formless(&file, set);
	for (bool more = !form || has_form(&file, form); more;) {
		if (lk_csv_next(file.csv, &more, &err) != LK_OK) fail(&err);
		if (!more) break;
		char name[2 * PACK_NAME];
		snprintf(name, sizeof name, "%s %s", file.table, lk_csv_field(file.csv, 0));
		if (form) put_row(&file, form);
		else if (pack_find(&texts, name)) pack_refuse(&file, "%s has a row already", name);
		else pack_add(&texts, name, lk_csv_field(file.csv, 1));
	}
	if (form) table_end(&file, form);
	lk_csv_close(file.csv);
	lk_stream_close(in);
}

int main(int argc, char **argv) {
	static const struct pack_set *const sets[] = {&pack_launch, &pack_families, &pack_measured,
	                                              &pack_causes};
	const struct pack_set *set = NULL;
	for (size_t i = 0; argc > 2 && i < sizeof sets / sizeof *sets; i++)
		if (strcmp(argv[1], sets[i]->name) == 0) set = sets[i];
	if (!set) {
		fprintf(stderr,
		        "usage: pack_tables launch|families|measured|causes FILE.csv... > tables.c\n");
		return 2;
	}
	for (int i = 2; i < argc; i++)
		if (names_texts(set, argv[i])) read_rows(set, argv[i], NULL);
	printf("/* Generated by tools/pack_tables.c from data/%s; do not edit. */\n%s\n\n", set->name,
	       set->includes);
	for (const struct pack_form *form = set->forms; form->column; form++)
		for (int i = 2; i < argc; i++)
			if (!names_texts(set, argv[i])) read_rows(set, argv[i], form);
	return fflush(stdout) != 0 || ferror(stdout);
}
