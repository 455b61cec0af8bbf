/* document.h: YAML and TOML as the values of io/json.h, so that readers of configurations need not
 * distinguish the three.
 *
 * YAML is read by libyaml: anchors, aliases and merge keys (<<) are resolved, the tags !!str,
 * !!int, !!float, !!bool and !!null are honoured, and only the first of several documents is read.
 * Plain scalars are null, bool or number by the rules of YAML 1.1, as in Python's loaders, except
 * that 2e-5 is a number; `text` holds every scalar as written. TOML has our own reader: it is
 * small, and packaged ones keep no positions, which messages need.
 *
 * Nothing is executed or fetched. Aliases share their value: it may be reached by many paths, and
 * code that follows them all must bound their number. */
#ifndef LK_IO_DOCUMENT_H
#define LK_IO_DOCUMENT_H

#include "io/json.h"

enum {
	LK_DOCUMENT_BYTES = 1 << 22,  /* most bytes of a document */
	LK_DOCUMENT_VALUES = 1 << 17, /* most values in it */
	LK_DOCUMENT_KEYS = 1 << 12    /* most keys of one map, where maps are searched: merged ones,
	                               * tables */
};

typedef enum lk_document_form {
	LK_DOCUMENT_NONE, /* a script, or anything else */
	LK_DOCUMENT_JSON,
	LK_DOCUMENT_YAML,
	LK_DOCUMENT_TOML
} lk_document_form;

/* The form of a text by its first line that is not a comment. JSON: a brace before a key in quotes.
 * YAML: "key:" before a blank or the line's end, another map in braces, an item of a list. TOML:
 * "[table]", or "key = value" with blanks, which is no shell assignment. A text that begins with
 * "#!" has no form. */
lk_document_form lk_document_form_of(const char *text, size_t size);

/* The form by the ending of a file's name (.yaml, .yml, .json, .toml, .sh), without a known one by
 * its text. */
lk_document_form lk_document_form_named(const char *name, const char *text, size_t size);

/* `name` is used in messages. LK_ERR_INPUT with line and column. lk_document_parse reads the form
 * that name or text have, else YAML; a map in braces that is not JSON may be YAML, unless the name
 * ends in .json. */
lk_status lk_document_parse(lk_arena *arena, const char *text, size_t size, const char *name,
                            lk_value **out, lk_error *err);
lk_status lk_yaml_document(lk_arena *arena, const char *text, size_t size, const char *name,
                           lk_value **out, lk_error *err);
lk_status lk_toml_document(lk_arena *arena, const char *text, size_t size, const char *name,
                           lk_value **out, lk_error *err);

/* The kind of a plain YAML scalar, and its number. */
lk_json_token lk_yaml_scalar(const char *text, double *number);

/* An object or array under construction; lk_members_end copies its members into the arena. */
typedef struct lk_members {
	const char **keys;
	lk_value *items;
	size_t count, capacity;
} lk_members;
/* Append a member; the key is NULL in an array. False when memory runs out. */
bool lk_members_add(lk_members *members, const char *key, const lk_value *item);
/* Fill `out` and free the construction. False when memory runs out. */
bool lk_members_end(lk_members *members, lk_arena *arena, lk_value *out);
/* For an object: of members with equal keys the first keeps its place and gets the value of the
 * last. False when memory runs out. */
bool lk_members_settle(lk_members *members);
void lk_members_free(lk_members *members);

#endif
