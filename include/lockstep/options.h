/* options.h: one table of options per verb. From the table come parsing, --help, the man page and
 * shell completion.
 *
 * Parsing has two steps. lk_args_parse sorts the words of a command line into one text per option;
 * lk_args_fill turns the texts into the typed fields of a request struct. Between them is the
 * sweep: if options marked `sweep` hold comma lists, lk_args_fill builds one request per
 * combination.
 */
#ifndef LOCKSTEP_OPTIONS_H
#define LOCKSTEP_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include "lockstep/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The value of an option, and the type of its field. */
typedef enum lk_option_kind {
	LK_OPTION_FLAG,   /* bool; --name sets it, --no-name clears it */
	LK_OPTION_SWITCH, /* int: 0 not given, --name sets 1, --no-name -1 */
	LK_OPTION_TEXT,   /* const char *, borrowed from argv */
	LK_OPTION_LINES,  /* const char *, may be repeated: the values, one per line */
	LK_OPTION_INT,    /* int; reads 8k, 1Ki */
	LK_OPTION_REAL,   /* double */
	LK_OPTION_COUNT,  /* double; reads 15T, 1B, 1.5k, 64Ki, and the forms of its unit */
	LK_OPTION_CHOICE, /* int: index into `choices` */
} lk_option_kind;

/* The unit of a COUNT or INT: durations are read as 14d, 336h or 2 weeks, dollars also as $100k.
 * Tokens of a sequence have the suffixes k and M as in the names of contexts: 8k is 8192, 1M
 * 1048576. */
typedef enum lk_option_unit {
	LK_UNIT_NONE,
	LK_UNIT_SECONDS,
	LK_UNIT_MINUTES,
	LK_UNIT_HOURS,
	LK_UNIT_DOLLARS,
	LK_UNIT_SEQUENCE,
} lk_option_unit;

/* An option: a row of a verb's table. */
typedef struct lk_option {
	const char *name; /* without dashes: "tp" */
	char letter;      /* 'o' for -o, or 0 */
	lk_option_kind kind;
	bool output;                /* the field is in lk_outputs, not in the verb's request */
	size_t offset;              /* of the field in its struct */
	bool sweep;                 /* a comma list makes one request per value */
	double low, high;           /* inclusive limits of numbers; both 0: none */
	lk_option_unit unit;        /* of COUNT and INT: of the field, and of a number without a unit */
	const char *const *choices; /* of CHOICE, ended by NULL */
	const char *value;          /* placeholder of the value in help: "N", "FILE" */
	const char *group;          /* heading in help; NULL: continues the previous one */
	const char *help;
	const char
		*with; /* acts only with one of these options, names separated by blanks; NULL: always */
	const char *verbs; /* or only if the first operand is one of these words */
} lk_option;

/* What happens with an answer: its format and its files. The same for all verbs; a verb's table
 * says which it accepts. Not given: zero and NULL. */
typedef struct lk_outputs {
	int format;          /* of the choices of --output; mostly an lk_output (view.h) */
	int table;           /* a single table, of the choices of --table; 0: all */
	const char *path;    /* file of the answer; NULL standard output */
	const char *html;    /* file of a report with pictures */
	const char *charts;  /* file of its charts only */
	const char *trace;   /* file of a timeline */
	const char *folded;  /* file of folded stacks */
	const char *graph;   /* file of the step graph */
	const char *chakra;  /* folder of Chakra execution traces */
	const char *goal;    /* file of a GOAL schedule */
	const char *noise;   /* file of the noise of a log's steps */
	const char *resume;  /* lockstep-mpi: file of finished parts */
	const char *fail_if; /* conditions of the answer, one per line */
	bool chakra_times;   /* with modelled durations */
	bool chakra_host;    /* with nodes of the host */
	bool verbose;
} lk_outputs;

/* A verb: its table and the texts of its help. */
typedef struct lk_verb {
	const char *name;            /* "predict" */
	const char *summary;         /* one line */
	const char *operands;        /* "[FILE...]" or "" */
	const char *description;     /* paragraphs, separated by blank lines */
	const lk_option *options;    /* ended by a NULL name */
	const char *const *examples; /* pairs: command, what it shows; ended by NULL */
	size_t request_size;
	int min_operands, max_operands; /* max -1: any number */
	bool rest;                      /* words after "--" are passed on, such as launch lines */
	const char *first; /* the options that most questions need, names separated by blanks; NULL: all
	                      of them matter alike */
} lk_verb;

/* The files that an answer was made from, by name; files of a folder one by one. */
typedef struct lk_inputs {
	const char *const *paths;
	int count;
} lk_inputs;

/* A parsed command line. Texts are borrowed from argv. */
typedef struct lk_args {
	const lk_verb *verb;
	const char **texts; /* one per option, NULL if not given; "1"/"0" for flags */
	const char **operands;
	int operand_count;
	const char **rest; /* the words after "--" */
	int rest_count;
	bool help; /* --help or -h was given */
	void *memory;
} lk_args;

/* Assign the words to options. Unknown options are errors that name the nearest ones. `--name
 * value`, `--name=value`, `-o value`, `-ovalue`. If an option is given twice, the last one counts.
 * LK_ERR_INPUT: words that the table does not accept; LK_ERR_MEMORY. */
lk_status lk_args_parse(const lk_verb *verb, int argc, const char *const *argv, lk_args *out,
                        lk_error *err);
/* Free what lk_args_parse allocated; also after a failure, and repeatedly. */
void lk_args_free(lk_args *args);

/* Defaults of a project or a person: files like lockstep.toml, whose keys are options (gpu, stack,
 * calibration, prices) and currency, which is USD. */
typedef struct lk_defaults lk_defaults;

/* Read the existing files; earlier ones have precedence. LK_ERR_INPUT: an unknown key, a value that
 * is not a text; LK_ERR_IO; LK_ERR_MEMORY. */
lk_status lk_defaults_open(const char *const *paths, int count, lk_defaults **out, lk_error *err);
/* Accepts NULL. */
void lk_defaults_free(lk_defaults *defaults);
/* lk_args_parse, adding defaults that apply to these words and are not given in them. Texts are
 * borrowed from `defaults` as well. LK_ERR_INPUT: words that the table does not accept;
 * LK_ERR_MEMORY. */
lk_status lk_args_parse_defaults(const lk_verb *verb, int argc, const char *const *argv,
                                 lk_defaults *defaults, lk_args *out, lk_error *err);
/* Default number `index` used by the last parse: its key, value and file; false past the last. */
bool lk_defaults_used(const lk_defaults *defaults, int index, const char **name, const char **text,
                      const char **file);

/* The value of a key ("calibration"), NULL if no file states it, and the file that does. */
const char *lk_defaults_value(const lk_defaults *defaults, const char *key, const char **file);

/* `lockstep init`: values of keys, NULL: not given. */
typedef struct lk_init_request {
	const char *gpu, *stack, *calibration, *prices;
	bool home; /* the file in the home folder */
} lk_init_request;
/* Write a file of defaults with comments; keys without a value are commented out. The caller checks
 * the stream for errors. */
void lk_defaults_write(const lk_init_request *request, FILE *out);
extern const lk_verb lk_init_verb;

/* The number of requests made by the comma lists: the product of their lengths (1 without lists),
 * at most 100,000; LK_ERR_INPUT above. */
lk_status lk_args_combinations(const lk_args *args, size_t *count, lk_error *err);

/* Fill the fields of the given options in `request` with combination number `index` (the last list
 * varies fastest); other fields are unchanged, and options of lk_outputs are left out. Texts of
 * swept options are kept in args. LK_ERR_INPUT: an invalid value. */
lk_status lk_args_fill(lk_args *args, size_t index, void *request, lk_error *err);

/* Fill `outputs`: zero and NULL for options that were not given. LK_ERR_INPUT: an invalid value. */
lk_status lk_args_fill_outputs(const lk_args *args, lk_outputs *outputs, lk_error *err);

/* LK_ERR_INPUT if a text is empty: an unset variable of a script, since no option accepts an empty
 * text. */
lk_status lk_args_check_empty(const lk_args *args, lk_error *err);

/* Whether the option was given on the command line. */
bool lk_args_given(const lk_args *args, const char *name);

/* Known values of an option of a verb, or of its first operand if `option` is NULL: number `index`,
 * NULL past the last. lk_candidate of catalogue.h is one. */
typedef const char *lk_candidates(const char *verb, const char *option, int index);

/* Write help for people (at most 100 columns; coloured headings if `colour`), a man page (troff,
 * section 1) and shell completion ("bash", "zsh" or "fish"; else LK_ERR_INPUT) for a NULL-ended
 * list of verbs. For values without choices, `known` (may be NULL) has the words that a shell
 * offers. */
void lk_verb_help(const lk_verb *verb, bool colour, FILE *out);
void lk_verb_man(const lk_verb *verb, const char *version, const char *date, FILE *out);
lk_status lk_verbs_completion(const lk_verb *const *verbs, lk_candidates *known, const char *shell,
                              FILE *out, lk_error *err);
/* Write the tables as JSON: {verb: {summary, operands, description, options: [{name, letter, kind,
 * sweep, low, high, choices, value, group, help}]}}. Kinds: flag, switch, text, lines, int, real,
 * count, choice. Missing values are null. LK_ERR_IO; LK_ERR_MEMORY. */
lk_status lk_verbs_json(const lk_verb *const *verbs, FILE *out, lk_error *err);
/* Write a verb's options as a JSON Schema (draft 2020-12) of an object with a member for each, for
 * its operands ("operands", an array of texts) and for a launch line ("launch", its words). Flags
 * are booleans; numbers may be texts with a suffix ("8k"); lists are texts with commas. LK_ERR_IO;
 * LK_ERR_MEMORY. */
lk_status lk_verb_schema(const lk_verb *verb, FILE *out, lk_error *err);

#ifdef __cplusplus
}
#endif
#endif
