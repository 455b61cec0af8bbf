/* fields.h: the fields of a JSON request as the words of a command line.
 *
 * A field has the name of an option of the verb, so that one table says what may be asked, and one parser what is
 * wrong with it: errors have the text that the command line gives. Beside options, verbs that take a launch line
 * have the field "launch", an array of its words.
 *
 * Options that name files take the file's content instead (model, cluster, deepspeed_config, script) or are refused. */
#ifndef LK_SERVE_FIELDS_H
#define LK_SERVE_FIELDS_H

#include <stdbool.h>
#include <stddef.h>
#include "base/arena.h"
#include "io/json.h"
#include "lockstep/error.h"
#include "lockstep/options.h"

/* A file that is to be written into the folder of the question before it is asked. */
typedef struct lk_serve_file {
	const char *name;       /* "config.json" */
	const lk_value *value;  /* its content: an object, written as JSON, or a text, written as it is */
} lk_serve_file;

enum { LK_SERVE_FILES = 8 };

typedef struct lk_serve_words {
	const char **words;     /* "--model=llama3.1-8b" */
	int count;
	const char **launch;    /* words of a launch line */
	int launch_count;
	lk_serve_file files[LK_SERVE_FILES];
	int file_count;
} lk_serve_words;

/* How an option is given in JSON. */
typedef enum lk_serve_form {
	LK_FIELD_REFUSED,       /* not at all: it names a file, or the server decides it */
	LK_FIELD_BOOL,
	LK_FIELD_NUMBER,
	LK_FIELD_COUNT,         /* a number, or a text as "15T" */
	LK_FIELD_TEXT,
	LK_FIELD_CHOICE,        /* a text, one of the option's choices */
	LK_FIELD_TEXT_OR_FILE,  /* a text, or the content of a JSON file as an object */
	LK_FIELD_FILE,          /* the content of a JSON file as an object */
	LK_FIELD_CONTENT,       /* the content of a file as a text */
} lk_serve_form;

lk_serve_form lk_serve_form_of(const lk_option *option);
/* "text or object", for documents and errors. */
const char *lk_serve_form_name(lk_serve_form form);

/* Reads a body. Texts are owned by the arena. Errors: LK_ERR_INPUT. */
lk_status lk_serve_fields(const lk_verb *verb, const char *body, size_t size, lk_arena *arena, lk_serve_words *out,
						  lk_error *err);

#endif
