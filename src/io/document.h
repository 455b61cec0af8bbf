/* document.h: YAML and TOML as the values of io/json.h, so that whoever reads a configuration need
 * not know in which of the three it was written.
 *
 * YAML is read by libyaml: anchors, aliases and merge keys (<<) are resolved, of tags !!str, !!int,
 * !!float, !!bool and !!null count, of several documents the first is taken. Plain scalars are
 * null, bool or number by the rules of YAML 1.1, as Python's loaders read them, but that 2e-5 is a
 * number; `text` holds every scalar as it is written. TOML is read by a reader of our own: it is
 * small, and the packaged ones keep no positions, which messages need.
 *
 * Nothing is executed or fetched. Aliases share what they name: a value may be reached by
 * many paths, and whoever follows them all must bound their number. */
#ifndef LK_IO_DOCUMENT_H
#define LK_IO_DOCUMENT_H

#include "io/json.h"

enum {
	LK_DOCUMENT_BYTES = 1 << 22,  /* of a document */
	LK_DOCUMENT_VALUES = 1 << 17, /* in it */
	LK_DOCUMENT_KEYS = 1 << 12    /* of one map, where maps are searched: merged ones, tables */
};

typedef enum lk_document_form {
	LK_DOCUMENT_NONE, /* a script, or anything else */
	LK_DOCUMENT_JSON,
	LK_DOCUMENT_YAML,
	LK_DOCUMENT_TOML
} lk_document_form;

/* The form of a text by its first line that is no comment. JSON: a brace before a key in quotes.
 * YAML: "key:" before a blank or the line's end, another map in braces, an item of a list. TOML:
 * "[table]", or "key = value" with blanks, which no shell assigns. A text that begins with "#!" has
 * none. */
lk_document_form lk_document_form_of(const char *text, size_t size);

/* `name` is in messages. LK_ERR_INPUT with line and column. */
lk_status lk_yaml_document(lk_arena *arena, const char *text, size_t size, const char *name,
                           lk_value **out, lk_error *err);
lk_status lk_toml_document(lk_arena *arena, const char *text, size_t size, const char *name,
                           lk_value **out, lk_error *err);

/* The kind of a plain YAML scalar, and its number. */
lk_json_token lk_yaml_scalar(const char *text, double *number);

/* An object or array that grows; its members are copied into the arena by lk_members_end. */
typedef struct lk_members {
	const char **keys;
	lk_value *items;
	size_t count, capacity;
} lk_members;
/* Appends a member; of an array the key is NULL. False when memory runs out. */
bool lk_members_add(lk_members *members, const char *key, const lk_value *item);
/* Fills `out` and frees what was grown. False when memory runs out. */
bool lk_members_end(lk_members *members, lk_arena *arena, lk_value *out);
/* Of an object: of members with one key the first keeps its place and gets the value of the last.
 * False when memory runs out. */
bool lk_members_settle(lk_members *members);
void lk_members_free(lk_members *members);

#endif
