/* reply.h: what a verb answers, asked with words and given as JSON and columns: what bindings of
 * other languages stand on. No struct crosses it, so nothing has to be copied by hand.
 *
 *     const char *words[] = {"--model=llama3.1-8b", "--gpu=h100-sxm", "--gpus=8"};
 *     lk_reply *reply = lk_reply_ask("predict", 3, words, NULL, 0, NULL);
 *     if (lk_reply_status(reply) == LK_OK) puts(lk_reply_json(reply, NULL));
 *     else puts(lk_reply_error(reply, LK_REPLY_LINE));
 *     lk_reply_free(reply);
 *
 * Words are those of a command line after the verb, so options, limits and messages are the
 * program's own. Options of the output (--output, --file, --table, --verbose) change nothing. Files
 * that options name (--trace, --graph ...) are written. */
#ifndef LOCKSTEP_REPLY_H
#define LOCKSTEP_REPLY_H

#include <stdbool.h>
#include <stddef.h>
#include "lockstep/error.h"
#include "lockstep/stop.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An answer, or the error that stands for it. */
typedef struct lk_reply lk_reply;

/* Asks a verb: predict, plan, validate, explain, shard, rent, whatif, simulate; also devices and
 * models, whose word is a part of a name. `input`: the graph of simulate, where no word names a
 * file; NULL else. The call ends early when `stop` (NULL: none) is asked. NULL when memory runs
 * out; every other failure is a reply with a status. */
lk_reply *lk_reply_ask(const char *verb, int count, const char *const *words, const char *input,
                       size_t size, const lk_stop *stop);

/* Sweeps: `parts` command lines of predict, whose words stand after one another, counts[i] of them
 * for line i. Every combination of comma lists is a row, in the order of the lines. Combinations
 * that cannot run are rows with a reason. `threads` 0: as the context says. */
lk_reply *lk_reply_sweep(int parts, const int *counts, const char *const *words, int threads,
                         const lk_stop *stop);

/* The option tables of all verbs: {verb: {summary, operands, description, options: [{name, letter,
 * kind, sweep, low, high, choices, value, group, help}]}}. */
lk_reply *lk_reply_verbs(void);

/* The others live as long as the reply. */
void lk_reply_free(lk_reply *reply); /* accepts NULL */

/* LK_OK, or the kind of failure: any lk_status. */
lk_status lk_reply_status(const lk_reply *reply);
/* Of a failure: a part of the error, or the line as the program prints it. */
enum { LK_REPLY_WHERE, LK_REPLY_WHAT, LK_REPLY_HINT, LK_REPLY_LINE };
const char *lk_reply_error(const lk_reply *reply, int part);

/* What exit status 0 says of the program: it fits, something was found. */
bool lk_reply_yes(const lk_reply *reply);
/* The document that -o json prints; NULL for sweeps. `size` (may be NULL): its bytes. */
const char *lk_reply_json(const lk_reply *reply, size_t *size);
/* With --emit of plan and predict: what was written; NULL else. */
const char *lk_reply_text(const lk_reply *reply);

/* Columns: of a sweep those of its CSV, of a simulation its spans. */
size_t lk_reply_rows(const lk_reply *reply);
int lk_reply_columns(const lk_reply *reply);
/* Column `i` by its key: numbers (NAN where there is none) or texts (NULL where there is none), the
 * other is set to NULL. */
const char *lk_reply_column(const lk_reply *reply, int i, const double **numbers,
                            const char *const **texts);
/* Row `row` of a sweep as the JSON object of predict; NULL when memory runs out or there is no such
 * row. It lives until the next call for the reply. */
const char *lk_reply_row(lk_reply *reply, size_t row, size_t *size);

#ifdef __cplusplus
}
#endif
#endif
