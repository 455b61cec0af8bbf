/* number_words.h: options whose value is words, NAME=NUMBER with a unit: "sites=4 wan=10g". */
#ifndef LK_OPTIONS_NUMBER_WORDS_H
#define LK_OPTIONS_NUMBER_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include "lockstep/error.h"

/* A word: the double at `offset`, times `scale`. What is written may have another unit of the same
 * quantity than `unit`: bytes from B to TB and TiB ("400M", "4Gi"), bytes a second ("50MB/s"),
 * times from ns to d, links from Mbit/s to Tbit/s ("10g"); without a unit a suffix of
 * lk_parse_count. */
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

/* Reads words, with blanks or commas between them, into *out; *over is what follows the word
 * "over", NULL without it. LK_ERR_INPUT: a word is not known or not within its limits. */
lk_status lk_number_words_read(const lk_word_list *list, const char *text, void *out,
                               const char **over, lk_error *err);
/* '`word`' `what`, with the list's hint. */
lk_status lk_number_words_refuse(const lk_word_list *list, const char *word, const char *what,
                                 lk_error *err);

#endif
