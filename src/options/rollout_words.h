/* rollout_words.h: the words of --rollout: the engines of a step of reinforcement learning, and the
 * step's phases other than generation and training. One row a word; the text of the option, the
 * file that it may name, messages and help come from the rows. */
#ifndef LK_OPTIONS_ROLLOUT_WORDS_H
#define LK_OPTIONS_ROLLOUT_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "lockstep/error.h"

typedef struct lk_arena lk_arena; /* base/arena.h */

typedef struct lk_rollout_words {
	double sequences, oversample, epochs; /* per step; generated per one kept; passes */
	double gpus, tp, pp, ep;              /* dedicated engine GPUs, 0: the training GPUs; layout of
	                                       * an engine */
	double lag;                           /* batches that the engines may run ahead */
	double reward;                        /* seconds */
	double policy, reference;             /* passes of log-probabilities: 0 or 1 */
	double eager;                         /* engines without CUDA graphs */
	double padded;      /* each sequence is a row, padded to the longest of the step */
	double full_rows;   /* rows shared by sequences are padded to --seq */
	double by_sequence; /* a row is one sequence of its own length */
	/* what is in host memory while unused; only for engines on the training GPUs */
	double offload_params, offload_optimizer, offload_reference;
	/* for the critic; below 0: as the policy's */
	double critic_epochs, critic_offload_params, critic_offload_optimizer;
	double pinned_params; /* the host has a pinned copy of the weights, which is reused */
	double sleep;         /* such engines release their memory during training */
	double critic_gpus, teacher_gpus, teacher_tp; /* dedicated GPUs; 0: the training GPUs */
	const char *dtype;                            /* of the engines; NULL: the training's */
	const char *critic, *reward_model, *teacher;  /* networks; if NULL: the policy's, none, none */
} lk_rollout_words;

typedef enum lk_rollout_kind {
	LK_ROLLOUT_COUNT,  /* a whole number */
	LK_ROLLOUT_REAL,   /* a number */
	LK_ROLLOUT_SWITCH, /* 0 or 1; in a file false or true too */
	LK_ROLLOUT_NAME    /* a text */
} lk_rollout_kind;

typedef struct lk_rollout_word {
	const char *name;
	lk_rollout_kind kind;
	const char *unit;     /* placeholder of the value in help: "N", "SECONDS" */
	size_t offset;        /* in lk_rollout_words: a double, for a name a text */
	double low, high;     /* inclusive limits */
	double otherwise;     /* default; below 0 or a name: `left_out` says what holds */
	const char *left_out; /* NULL: `otherwise` as a number */
	const char *help;
} lk_rollout_word;

/* All words, in the order of help. */
const lk_rollout_word *lk_rollout_word_list(size_t *count);

/* What holds if no word is given. */
void lk_rollout_words_begin(lk_rollout_words *out);
/* Words of `text` (may be NULL) override *out: NAME=VALUE, or the path of a file in YAML, TOML or
 * JSON, whose keys are such names. Blanks or commas separate them; what comes later overrides. A
 * word is a path if it has a '.' or a '/' before any '='. The arena owns the texts. LK_ERR_INPUT:
 * an unknown word, a value outside its limits, a key given twice; LK_ERR_IO: a file cannot be
 * read. */
lk_status lk_rollout_words_read(lk_arena *arena, const char *text, lk_rollout_words *out,
                                lk_error *err);
/* The path in `text` of the first file, as `length` characters; NULL: it names none. */
const char *lk_rollout_file(const char *text, size_t *length);

/* The topic of help: the words with their values, limits and defaults. */
void lk_rollout_help(bool colour, FILE *out);

#endif
