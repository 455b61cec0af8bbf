/* pack_tables.h: rows of CSV files as tables in C, for the build. A set of tables is the files of
 * one folder of data/: some name texts that recur, which others mention as @name; every other file
 * has the form that its first column, after part, names. A file, or each part of it, becomes one
 * table. */
#ifndef LK_PACK_TABLES_H
#define LK_PACK_TABLES_H

#include "base/vec.h"
#include "io/csv.h"

enum { PACK_NAME = 64 };

/* Texts by name. */
struct pack_named {
	char *name, *text;
};
struct pack_list {
	LK_VEC(struct pack_named) rows;
};

/* What the file that is read has. */
struct pack_file {
	lk_csv *csv;
	char table[PACK_NAME]; /* of the file's name: "nemo_rl" */
	char part[PACK_NAME];  /* that is written; empty before the first row */
	struct pack_list seen; /* keys of the part, to refuse a second row of one */
	bool open;
};

/* Rows that have the same first column. */
enum pack_rows {
	PACK_ONCE,    /* are refused */
	PACK_SEVERAL, /* are allowed */
	PACK_UNNAMED, /* are allowed, and so are rows without it */
};

struct pack_form {
	const char *column; /* the first, after part */
	/* const TYPE PREFIX NAME SUFFIX[]: NAME is that of the file with that of its part. */
	const char *type, *prefix, *suffix;
	const char *end;                           /* the last row; NULL: the table needs none */
	void (*put)(const struct pack_file *file); /* write the current row */
	enum pack_rows rows;
};

struct pack_set {
	const char *name;
	const char *includes;
	const char *const *named;      /* files that name texts, ended by NULL */
	const struct pack_form *forms; /* in the order of the tables, ended by a NULL column */
};

/* pack_launch.c, pack_families.c, pack_measured.c, pack_causes.c */
extern const struct pack_set pack_launch, pack_families, pack_measured, pack_causes;

/* Report what is wrong with the current row, with its file and line, and exit. */
void pack_refuse(const struct pack_file *file, const char *format, ...) LK_PRINTF(2, 3);
/* The current row's field, "" if the file has no such column. */
const char *pack_cell(const struct pack_file *file, const char *column);
/* The index of the field among `names`, ended by NULL; others are refused. */
int pack_one_of(const struct pack_file *file, const char *column, const char *const *names);
/* The text itself, or the one that "@name" stands for in a file of names. */
const char *pack_text_of(const struct pack_file *file, const char *names, const char *text);

const char *pack_find(const struct pack_list *list, const char *name); /* NULL: not there */
void pack_add(struct pack_list *list, const char *name, const char *text);
void pack_free(struct pack_list *list);

void pack_put_quoted(const char *text, size_t length);
void pack_put_text(const char *text); /* "" is NULL */

#endif
