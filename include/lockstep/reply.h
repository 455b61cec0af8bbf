/* reply.h: answers of verbs to command-line words, as JSON and columns: the basis of bindings for
 * other languages. No struct crosses this interface, so nothing has to be mirrored by hand.
 *
 *     const char *words[] = {"--model=llama3.1-8b", "--gpu=h100-sxm", "--gpus=8"};
 *     lk_reply *reply = lk_reply_ask("predict", 3, words, NULL, 0, NULL);
 *     if (lk_reply_status(reply) == LK_OK) puts(lk_reply_json(reply, NULL));
 *     else puts(lk_reply_error(reply, LK_REPLY_LINE));
 *     lk_reply_free(reply);
 *
 * Words are those of a command line after the verb, so options, limits and messages are the
 * program's own. Output options (--output, --file, --table, --verbose) have no effect. Files that
 * options name (--trace, --graph ...) are written. */
#ifndef LOCKSTEP_REPLY_H
#define LOCKSTEP_REPLY_H

#include <stdbool.h>
#include <stddef.h>
#include "lockstep/error.h"
#include "lockstep/stop.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An answer, or an error. */
typedef struct lk_reply lk_reply;

/* Ask a verb: predict, plan, validate, explain, shard, rent, whatif, simulate; also devices and
 * models, whose word is a part of a name. `input`: the graph for simulate if no word names a file;
 * else NULL. The call ends early when `stop` (NULL: none) is set. NULL when memory runs out; every
 * other failure is a reply with a status. */
lk_reply *lk_reply_ask(const char *verb, int count, const char *const *words, const char *input,
                       size_t size, const lk_stop *stop);

/* Run a sweep: `parts` command lines of predict with their words concatenated, counts[i] of them
 * for line i. Every combination of comma lists is a row, in the order of the lines. Combinations
 * that cannot run are rows with a reason. `threads` 0: one per core. */
lk_reply *lk_reply_sweep(int parts, const int *counts, const char *const *words, int threads,
                         const lk_stop *stop);

/* The option tables of all verbs: {verb: {summary, operands, description, options: [{name, letter,
 * kind, sweep, low, high, choices, value, group, help}]}}. */
lk_reply *lk_reply_verbs(void);

/* Everything obtained from a reply lives as long as the reply. */
void lk_reply_free(lk_reply *reply); /* accepts NULL */

/* LK_OK, or the kind of failure: any lk_status. */
lk_status lk_reply_status(const lk_reply *reply);
/* For a failure: a part of the error, or the line that the program prints. */
enum { LK_REPLY_WHERE, LK_REPLY_WHAT, LK_REPLY_HINT, LK_REPLY_LINE };
const char *lk_reply_error(const lk_reply *reply, int part);

/* Whether the program's exit status would be 0: it fits, something was found. */
bool lk_reply_yes(const lk_reply *reply);
/* The document of -o json; NULL for sweeps. `size` (may be NULL): its bytes. */
const char *lk_reply_json(const lk_reply *reply, size_t *size);
/* With --emit of plan and predict: the emitted text; else NULL. */
const char *lk_reply_text(const lk_reply *reply);

/* Columns: of a sweep those of its CSV, of a simulation its spans. */
size_t lk_reply_rows(const lk_reply *reply);
int lk_reply_columns(const lk_reply *reply);
/* Column `i` by its key: numbers (NAN if missing) or texts (NULL if missing); the other is set to
 * NULL. */
const char *lk_reply_column(const lk_reply *reply, int i, const double **numbers,
                            const char *const **texts);
/* Row `row` of a sweep as the JSON object of predict; NULL when memory runs out or there is no such
 * row. It lives until the next call for the reply. */
const char *lk_reply_row(lk_reply *reply, size_t row, size_t *size);

#ifdef __cplusplus
}
#endif
#endif
