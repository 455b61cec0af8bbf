/* rows.h: how the tables of options are written. A table names the struct that its rows fill, then
 * lists them, each with its name, its field, what help shows as its value, limits, and its help:
 *
 *     #define REQUEST lk_predict_request
 *     static const lk_option options[] = {
 *         {GROUP("Layout")
 *          INT("tp", tp, "N", 1, 1024, "tensor parallelism"), SWEPT},
 *         {OUT_FORMAT(lk_output_formats, "text, md, csv, json, jsonl or sqlite")},
 *         {0},
 *     };
 *
 * Rows that begin with OUT_ fill the lk_outputs that stand next to every verb's request. The names
 * are short because only tables include this header. */
#ifndef LK_OPTIONS_ROWS_H
#define LK_OPTIONS_ROWS_H

#include <stddef.h>

#include "lockstep/options.h"

#define LK_ROW(name_, kind_, struct_, field, help_) \
	.name = name_, .kind = LK_OPTION_##kind_, .offset = offsetof(struct_, field), .help = help_

/* What may follow a row. */
#define LETTER(letter_) .letter = letter_
#define SWEPT           .sweep = true /* a comma list makes one request per value */

/* The option is refused without one of these options, or unless the first operand is one of these
 * words. */
#define WITH(names_)  .with = names_
#define WHERE(words_) .verbs = words_

/* Heads this row and the rows that follow. */
#define GROUP(heading) .group = heading,

/* ---- rows of the verb's own request ---- */

#define FLAG(name, field, help)          LK_ROW(name, FLAG, REQUEST, field, help)
#define SWITCH(name, field, help)        LK_ROW(name, SWITCH, REQUEST, field, help)
#define TEXT(name, field, value_, help)  LK_ROW(name, TEXT, REQUEST, field, help), .value = value_
#define LINES(name, field, value_, help) LK_ROW(name, LINES, REQUEST, field, help), .value = value_
/* A number from `low` to `high`, inclusive; both 0: any number. */
#define INT(name, field, value_, low_, high_, help) \
	LK_ROW(name, INT, REQUEST, field, help), .value = value_, .low = low_, .high = high_
#define REAL(name, field, value_, low_, high_, help) \
	LK_ROW(name, REAL, REQUEST, field, help), .value = value_, .low = low_, .high = high_
#define COUNT(name, field, value_, low_, high_, help) \
	LK_ROW(name, COUNT, REQUEST, field, help), .value = value_, .low = low_, .high = high_
/* The time limit of a search. `note` ends its help. */
#define SEARCH_TIME(note)                              \
	REAL("search-time", search_s, "SECONDS", 0.1, 1e6, \
	     "the search ends after this time with the best found so far, as it does at Ctrl-C" note)
/* A duration; `unit_` is SECONDS, MINUTES or HOURS. */
#define DURATION(name, field, unit_, low_, high_, help) \
	COUNT(name, field, #unit_, low_, high_, help), .unit = LK_UNIT_##unit_
/* After a row: the number counts tokens of a sequence. */
#define SEQUENCE .unit = LK_UNIT_SEQUENCE
#define CHOICE(name, field, choices_, value_, help) \
	LK_ROW(name, CHOICE, REQUEST, field, help), .choices = choices_, .value = value_

/* ---- rows of lk_outputs ---- */

#define LK_OUT_ROW(name, kind, field, help) \
	LK_ROW(name, kind, lk_outputs, field, help), .output = true
#define OUT_FORMAT(choices_, help) \
	LK_OUT_ROW("output", CHOICE, format, help), .choices = choices_, .value = "FORMAT", LETTER('o')
#define OUT_TABLE(choices_, value_, help) \
	LK_OUT_ROW("table", CHOICE, table, help), .choices = choices_, .value = value_
#define OUT_FILE(help)                         LK_OUT_ROW("file", TEXT, path, help), .value = "FILE"
#define OUT_FILE_OF(name, field, value_, help) LK_OUT_ROW(name, TEXT, field, help), .value = value_
/* The formats of most answers, and the file that holds one. */
#define OUT_ANY_FORMAT OUT_FORMAT(lk_output_formats, "text, md, csv, json, jsonl or sqlite")
#define OUT_ANY_FILE                                                                           \
	OUT_FILE("where the output goes; sqlite needs one"), LETTER('f')                           \
	}                                                                                          \
	, {                                                                                        \
		LK_OUT_ROW("fail-if", LINES, fail_if,                                                  \
		           "exit status 1 if this holds of the answer, by the keys of -o "             \
		           "json: 'step_time_s > 10', 'memory.0.total_bytes >= 7e10'; several times"), \
			.value = "CONDITION"
#define OUT_ANY_ROWS    \
	{OUT_ANY_FORMAT}, { \
		OUT_ANY_FILE    \
	}
/* All outputs of a list; `more` says what is added with --verbose. */
#define OUT_LIST_ROWS(heading, more)                                                \
	{heading OUT_FORMAT(lk_output_formats, "how it is written")}, {OUT_ANY_FILE}, { \
		OUT_VERBOSE(more)                                                           \
	}
#define OUT_HTML \
	OUT_FILE_OF("html", html, "FILE", "a report with pictures: one page that needs no network")
#define OUT_CHARTS \
	OUT_FILE_OF("charts", charts, "FILE", "the charts of that report alone: FILE.svg or FILE.png")
#define OUT_PICTURE_ROWS \
	{OUT_HTML}, {        \
		OUT_CHARTS       \
	}
#define OUT_RESUME(help)  OUT_FILE_OF("resume", resume, "FILE", help)
#define OUT_VERBOSE(help) LK_OUT_ROW("verbose", FLAG, verbose, help), LETTER('v')

/* text, md, csv, json, jsonl, sqlite: the names of lk_output. */
extern const char *const lk_output_formats[];

#endif
