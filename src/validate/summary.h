/* summary.h: statistics of predicted against measured, for every kind of validation. */
#ifndef LK_ACCURACY_SUMMARY_H
#define LK_ACCURACY_SUMMARY_H

#include "base/arena.h"
#include "lockstep/validate.h"

/* One row as the statistics see it. */
typedef struct lk_score {
	double predicted, measured; /* NAN where there is none */
	double low, high;
	bool suspect;
	const char *stack;          /* for the macro mean; "" none */
	const char *group;          /* rows with equal texts are ranked against each other; NULL: never */
	const char *series;         /* rows with equal texts are one scaling series; NULL: none */
	int gpus;                   /* of a row of a series */
	double work;                /* of a row of a series: what is done in the measured time (tokens) */
	const char *layout;         /* what is ranked; rows with equal texts of a group are one, by their geometric mean */
} lk_score;

/* Whether the row counts in the errors. */
bool lk_score_counts(const lk_score *score);

/* Fills everything but `by` and `name`. */
lk_status lk_summarise(const lk_score *scores, size_t count, lk_accuracy *out, lk_error *err);

/* A row's place in a division of the rows. */
typedef struct lk_score_key {
	const char *name;
	int order;                  /* of the names, before the alphabet */
} lk_score_key;

/* One summary for each different key, in the order of the keys; appended to groups[*filled]. `groups` has room for
 * `count` more. */
lk_status lk_summarise_by(const char *by, const lk_score *scores, const lk_score_key *keys, size_t count,
                          lk_accuracy *groups, int *filled, lk_error *err);

/* Name and order of a number of GPUs: "1-8", "9-64", "65-512", "over 512". */
lk_score_key lk_scale_key(int gpus);

#endif
