/* fields.h: answers as tables, the mirror of the option tables. A field of an answer is one row: its
 * key, its title, its type, where it lies in the C struct and when it is known. Members of JSON,
 * columns of tables, the schemas and the classes of Python all come from these rows. Prose and
 * pictures stay code. */
#ifndef LK_VIEW_FIELDS_H
#define LK_VIEW_FIELDS_H

#include <stddef.h>
#include <stdint.h>

#include "base/text.h"
#include "io/json.h"
#include "view/table/output.h"
#include "view/table/table.h"

typedef enum lk_field_kind {
	LK_FIELD_BOOL,
	LK_FIELD_INT,
	LK_FIELD_UINT32,
	LK_FIELD_INT64,
	LK_FIELD_UINT64,
	LK_FIELD_REAL,
	LK_FIELD_TEXT,
	LK_FIELD_CHARS, /* a text inside of the struct */
	LK_FIELD_TEXTS, /* an array; `count` says how many */
	LK_FIELD_INTS,
	LK_FIELD_ONE,    /* a record by pointer; NULL: null; without a key as INSIDE */
	LK_FIELD_INSIDE, /* a record inside of the struct; without a key its members are those of the
	                    struct */
	LK_FIELD_MANY,   /* an array of records */
	LK_FIELD_MAP,    /* an array of records as an object, each under its own name */
	LK_FIELD_ROWS,   /* the rows of a table of the answer */
} lk_field_kind;

/* When a field has a value; else it is null, and its cell is empty. */
typedef enum lk_field_known {
	LK_ALWAYS,
	LK_MAYBE,           /* unless it is NULL or not finite */
	LK_UNLESS_ZERO,     /* nor 0, nor "" */
	LK_UNLESS_NEGATIVE, /* nor below 0 */
	LK_EVEN_INFINITE,   /* numbers that are not finite are values: "inf", "nan" */
} lk_field_known;

/* The record that a row of the table is about. */
typedef struct lk_subject {
	const void *answer, *record;
	int index;           /* of the record among its equals */
	const void *context; /* what a view hands to columns of its own; of a document with ROWS the int
	                      * of the one table that is wanted; NULL: nothing, all */
} lk_subject;

/* A value that a function computes: `number` of numbers and truths, `text` of texts. */
typedef struct lk_field_value {
	double number;
	const char *text;
	char shown[256]; /* what people read; "": as the row says. Room for `text` too */
} lk_field_value;

typedef void lk_field_get(const lk_subject *subject, lk_field_value *found);
typedef bool lk_field_there(const lk_subject *subject);
typedef void lk_field_put(lk_json_writer *writer, const lk_subject *subject);
typedef lk_table *lk_field_rows(const void *answer, int which);
/* A number for people. */
typedef char *lk_shown(double number, char *out, size_t size);

typedef struct lk_answer_record lk_answer_record;

typedef struct lk_answer_field {
	const char *key;   /* in JSON, of a column, in Python */
	const char *title; /* of its column; NULL: it has none unless a view names it */
	lk_field_kind kind;
	size_t at;    /* in the struct of the record; see LK_AT */
	size_t count; /* where the length of an array lies */
	bool wide;    /* it is a size_t */
	lk_field_known known;
	bool per_cent;         /* the value is a part: per cent of the member at `whole`, of its kind */
	size_t whole;          /* 0: the value is a share */
	double times, over;    /* the value is the member times and over these; 0: as it is */
	lk_shown *shown;       /* NULL: %.6g */
	lk_field_get *get;     /* instead of `at` */
	lk_field_there *there; /* else null */
	size_t if_at, if_size; /* a member of the record that must not be 0 either; see LK_IF */
	lk_field_there *when;  /* else the key is absent */
	bool absent;           /* the key is absent, not null, where the value is not known */
	lk_field_put *put;     /* writes the elements of a MAP or MANY; instead of `at` */
	const lk_answer_record *of; /* of a record, an array, a map or rows: what is in it */
	size_t named;               /* MAP: where the name of an element lies */
	lk_field_rows *rows;        /* ROWS */
	int which;
	const char *type; /* as the schemas state it, where kind and known do not say it */
	size_t width;     /* of a text for people, who get its beginning; 0: all of it; at most 100 */
	bool hidden;      /* a column for programs only */
	bool right;       /* a column of texts that is aligned to the right */
	bool column;      /* of tables only: no member of JSON */
} lk_answer_field;

struct lk_answer_record {
	const char *name;   /* of its type in schemas; NULL: it is written where it is used */
	const char *python; /* of its class; NULL: `name` */
	const char *what;   /* one sentence: what it is */
	const lk_answer_field *fields;
	int count;
	size_t size; /* of the struct */
};

#define LK_RECORD(struct_type, rows) \
	.fields = (rows), .count = (int)(sizeof(rows) / sizeof *(rows)), .size = sizeof(struct_type)

/* Kind and place of a member; the kind is what C declares, so that a row cannot contradict it. */
#define LK_AT(struct_type, member) \
	.kind = _Generic(((struct_type *)0)->member, bool: LK_FIELD_BOOL,            \
	                 int: LK_FIELD_INT, uint32_t: LK_FIELD_UINT32,               \
	                 int64_t: LK_FIELD_INT64, uint64_t: LK_FIELD_UINT64,         \
	                 double: LK_FIELD_REAL, const char *: LK_FIELD_TEXT,         \
	                 char *: LK_FIELD_CHARS, const char *const *: LK_FIELD_TEXTS, \
	                 const int *: LK_FIELD_INTS),                                \
	.at = offsetof(struct_type, member)
/* Whether a count is a size_t, not an int. */
#define LK_WIDE(struct_type, number)        \
	.count = offsetof(struct_type, number), \
	.wide = sizeof(((struct_type *)0)->number) == sizeof(size_t)
#define LK_LIST(struct_type, member, number) \
	LK_AT(struct_type, member), LK_WIDE(struct_type, number)
#define LK_MANY(struct_type, member, number, record)                                          \
	.kind = LK_FIELD_MANY, .at = offsetof(struct_type, member), LK_WIDE(struct_type, number), \
	.of = &(record)
#define LK_MAP(struct_type, member, number, record)                                          \
	.kind = LK_FIELD_MAP, .at = offsetof(struct_type, member), LK_WIDE(struct_type, number), \
	.of = &(record)
#define LK_ONE(struct_type, member, record) \
	.kind = LK_FIELD_ONE, .at = offsetof(struct_type, member), .of = &(record)
/* Only where this member of the record is true, not 0, not NULL. */
#define LK_IF(struct_type, member) \
	.if_at = offsetof(struct_type, member), .if_size = sizeof(((struct_type *)0)->member)
/* All fields of a record of the same struct. */
#define LK_HERE(record) .kind = LK_FIELD_INSIDE, .at = 0, .of = &(record)
#define LK_INSIDE(struct_type, member, record) \
	.kind = LK_FIELD_INSIDE, .at = offsetof(struct_type, member), .of = &(record)

/* ---- documents: the JSON object of an answer, "lockstep/NAME/1" ---- */

typedef struct lk_document {
	const char *name, *prints; /* `prints`: the command, as the schema's description names it */
	const lk_answer_record *record;
	size_t failed_check;           /* where the text of its failed check lies */
	const lk_answer_record *other; /* what is printed where there is no answer; NULL: nothing */
} lk_document;

/* Writes an answer as JSON, in one line for LK_FORMAT_JSONL. */
lk_status lk_write_document(const lk_writing *writing, const lk_document *document,
                            const void *answer, lk_error *err);
/* The same with the rows of one table only; `which` 0: of all. */
lk_status lk_write_document_part(const lk_writing *writing, const lk_document *document,
                                 const void *answer, int which, lk_error *err);
/* The members of a record, inside of an object that is begun. */
void lk_json_put_fields(lk_json_writer *writer, const lk_answer_record *record,
                        const lk_subject *subject);
/* Whether a record is written as its one value: its field has no key. */
bool lk_record_is_value(const lk_answer_record *record);
/* Rows of a table as an array of objects. */
void lk_json_put_table(lk_json_writer *writer, const char *key, const lk_table *table);
/* Types in the notation of tools/schemas.py: of a record with all its members, of a field. Records
 * with a name are referred to; `classes`: by the names of their classes in Python. */
void lk_record_type(const lk_answer_record *record, bool classes, lk_text *out);
void lk_field_type(const lk_answer_field *field, bool classes, lk_text *out);

/* ---- values ---- */

/* The value of a field that has one, as its row says when it is known. */
void lk_field_find(const lk_answer_field *field, const lk_subject *subject, lk_field_value *found);
/* The number of the row among its equals, from 1: a lk_field_get. */
void lk_find_row_number(const lk_subject *subject, lk_field_value *found);
/* The field of a key, in a record or in one without a key that lies in it; NULL: none. `at` is where
 * the struct that has it lies. */
const lk_answer_field *lk_field_of(const lk_answer_record *record, const char *key, size_t *at);

/* ---- tables ---- */

/* Columns of a record: `keys` in their order, "key" or "key:title"; NULL: all rows with a title. */
typedef struct lk_columns {
	const char *name; /* of the table */
	const lk_answer_record *record;
	const char *const *keys;
	bool all;    /* people see the hidden ones too */
	bool people; /* they read it: texts are cut to the widths of their rows */
} lk_columns;

/* An empty table; NULL when memory runs out. */
lk_table *lk_fields_table(const lk_columns *columns);
/* Adds a record as a row. `table` may be NULL. */
void lk_fields_row(lk_table *table, const lk_columns *columns, const lk_subject *subject);
/* A table of `count` records, one after another in memory. */
lk_table *lk_fields_rows(const lk_columns *columns, const void *answer, const void *records,
                         int count);

#endif
