/* json.h: the one JSON reader and the one writer.
 *
 * A pull reader: lk_json_next returns one token after another with its position and keeps nothing,
 * so a file of any size streams through a fixed window. Nesting is limited (LK_JSON_DEPTH). For
 * small documents lk_json_document reads the same tokens into a tree.
 *
 * Tolerances (for files of Megatron, PyTorch and others): a byte-order mark, NaN / Infinity /
 * -Infinity as numbers. Everything else that is not RFC 8259 is an error with line and column (in
 * bytes, from 1). Half a surrogate pair, which the grammar allows and UTF-8 cannot hold, is read as
 * U+FFFD.
 */
#ifndef LK_IO_JSON_H
#define LK_IO_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "io/stream.h"
#include "lockstep/error.h"

typedef struct lk_arena lk_arena; /* base/arena.h */

enum { LK_JSON_DEPTH = 128 };

typedef enum lk_json_token {
	LK_JSON_END, /* the document is complete */
	LK_JSON_OBJECT,
	LK_JSON_OBJECT_END,
	LK_JSON_ARRAY,
	LK_JSON_ARRAY_END,
	LK_JSON_KEY,
	LK_JSON_STRING,
	LK_JSON_NUMBER,
	LK_JSON_TRUE,
	LK_JSON_FALSE,
	LK_JSON_NULL,
} lk_json_token;

typedef struct lk_json lk_json; /* a reader */

/* Read from `in` (borrowed). NULL when memory runs out. */
lk_json *lk_json_open(lk_stream *in);
void lk_json_close(lk_json *json);
/* From now on NaN and Infinity are errors too: strictly RFC 8259. */
void lk_json_be_strict(lk_json *json);

/* Read the next token. After KEY, STRING and NUMBER, lk_json_text returns its unescaped text (valid
 * until the next call). */
lk_status lk_json_next(lk_json *json, lk_json_token *token, lk_error *err);
const char *lk_json_text(const lk_json *json, size_t *length);
double lk_json_number(const lk_json *json);
/* Skip the value that begins at the next token. Skipped input is checked like everything else. */
lk_status lk_json_skip(lk_json *json, lk_error *err);
/* "file:line:column" of the last token. */
const char *lk_json_where(const lk_json *json);
void lk_json_position(const lk_json *json, long long *line, long long *column);

/* A document in memory; values are owned by the arena. Duplicate keys: the last one counts, as in
 * python's json. */
typedef struct lk_value lk_value;
struct lk_value {
	lk_json_token kind; /* OBJECT, ARRAY, STRING, NUMBER, TRUE, FALSE or NULL */
	int line, column;
	bool repeated;     /* an earlier member of its object has the same key, and was dropped */
	size_t count;      /* members or elements */
	const char **keys; /* of an object */
	lk_value *items;   /* members' values or elements */
	const char *text;  /* STRING, and NUMBER as written */
	double number;
};

/* Read a whole document. A NUL in a text (\u0000), which a C string cannot hold, is read as
 * U+FFFD. */
lk_status lk_json_document(lk_arena *arena, lk_stream *in, lk_value **out, lk_error *err);
/* Member of an object, or NULL (also if `value` is NULL or no object). */
const lk_value *lk_json_get(const lk_value *value, const char *key);
/* The number, or the text, of a member; `otherwise` where there is no such member, or of another
 * kind. */
double lk_json_get_number(const lk_value *value, const char *key, double otherwise);
const char *lk_json_get_text(const lk_value *value, const char *key, const char *otherwise);

/* Writer: commas, escaping, indentation of two blanks. Numbers are written with the fewest digits
 * that read back the same; non-finite ones as null; invalid UTF-8 as U+FFFD. lk_json_finish reports
 * errors of the file. */
typedef struct lk_json_writer {
	FILE *file;
	int depth;
	bool compact; /* one line, for jsonl */
	bool filled[LK_JSON_DEPTH];
	bool out_of_memory; /* the output is incomplete: reported by lk_json_finish */
	bool wrong;         /* nested too deep, or unbalanced: reported there too */
} lk_json_writer;

void lk_json_begin(lk_json_writer *writer, FILE *file, bool compact);
void lk_json_object(lk_json_writer *writer,
                    const char *key); /* key NULL inside arrays and at the top */
void lk_json_object_end(lk_json_writer *writer);
void lk_json_array(lk_json_writer *writer, const char *key);
void lk_json_array_end(lk_json_writer *writer);
void lk_json_put_text(lk_json_writer *writer, const char *key,
                      const char *text); /* NULL text: null */
void lk_json_put_number(lk_json_writer *writer, const char *key,
                        double number); /* not finite: null */
/* lk_json_put_number, but "inf", "-inf" and "nan" as text: for fields where these are values, not
 * missing ones. */
void lk_json_put_real(lk_json_writer *writer, const char *key, double number);
void lk_json_put_integer(lk_json_writer *writer, const char *key, long long number);
void lk_json_put_bool(lk_json_writer *writer, const char *key, bool value);
void lk_json_put_null(lk_json_writer *writer, const char *key);
/* Write a document in memory, with its keys in order. */
void lk_json_put_value(lk_json_writer *writer, const char *key, const lk_value *value);
/* Write a document that this writer wrote as a value of this one, without blanks between its
 * tokens. */
void lk_json_put_document(lk_json_writer *writer, const char *key, const char *document,
                          size_t size);
/* Write the first members of every answer's object: `schema` ("lockstep/VERB/N"; N is incremented
 * when a key changes its meaning or is removed), the version of lockstep and the date of its data;
 * for an answer with a failed check (base/check.h; NULL: none) `checked`, false, and
 * `failed_check`. The schemas are in docs/reference/schemas/. */
void lk_json_put_head(lk_json_writer *writer, const char *schema, const char *failed_check);
/* Write an error as the member `key`: {"where", "what", "remedy", "text"}; `text` is the line that
 * the program prints. */
void lk_json_put_error(lk_json_writer *writer, const char *key, const lk_error *err);
/* End the document with a newline and flush the file. Reports errors of the file and unclosed
 * objects. */
lk_status lk_json_finish(lk_json_writer *writer, lk_error *err);

/* ---- json_mend: repair text that is nearly JSON: from profilers that were stopped, or that print
 * values of other languages. */

/* Counts of the repairs. */
typedef struct lk_json_mended {
	size_t controls; /* control characters within texts, now blanks */
	size_t commas;   /* before a closing bracket, now blanks */
	size_t quotes;   /* within texts that they would have ended, now ' */
	size_t escapes;  /* backslashes that escape nothing, now / */
	size_t numbers;  /* nan and inf in C's spelling, now NaN */
	size_t words;    /* True, False, None and texts in single quotes (Python) */
	size_t cut;      /* bytes of an incomplete element, cut at the end */
	bool closed;     /* brackets open at the end were closed */
} lk_json_mended;

/* Repair `*text`, allocated by malloc, in place; it may move; a '\0' follows the result. If the
 * text ends within something, it is cut after the last complete element down to two brackets deep
 * (a list that is a member of the document), and closed. The reader reports what is still not
 * JSON. */
lk_status lk_json_mend(char **text, size_t *size, lk_json_mended *mended, lk_error *err);

#endif
