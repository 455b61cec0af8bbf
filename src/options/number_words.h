/* number_words.h: options whose value is words, NAME=NUMBER with a unit: "sites=4 wan=10g". */
#ifndef LK_OPTIONS_NUMBER_WORDS_H
#define LK_OPTIONS_NUMBER_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include "lockstep/error.h"

/* A word fills the double at `offset` with its value times `scale`. The value may have any unit of
 * the quantity that `unit` measures: bytes from B to TB and TiB ("400M", "4Gi"), bytes per second
 * ("50MB/s"), times from ns to d, links from Mbit/s to Tbit/s ("10g"); without a unit it may have a
 * suffix of lk_parse_count. */
typedef struct lk_number_word {
	const char *name, *unit;
	size_t offset;
	double low, high, scale; /* limits before the scale */
	bool whole;
} lk_number_word;
typedef struct lk_word_list {
	const char *option; /* "--aggregate" */
	const lk_number_word *words;
	int count;
	const char *form; /* the hint of every refusal */
} lk_word_list;

/* Reads words, separated by blanks or commas, into *out. *over is set to the text after the word
 * "over", or to NULL. LK_ERR_INPUT: a word is unknown or outside its limits. */
lk_status lk_number_words_read(const lk_word_list *list, const char *text, void *out,
                               const char **over, lk_error *err);
/* Fails with "'WORD' WHAT" and the hint of the list. */
lk_status lk_number_words_refuse(const lk_word_list *list, const char *word, const char *what,
                                 lk_error *err);

#endif
