/* error.h: the one error convention of lockstep.
 *
 * Every function that can fail returns an lk_status and fills the lk_error it was given. The
 * message is one line: where it happened, what is wrong, what to do. No function prints unless
 * requested, or exits. lk_record and lk_stalls forward signals while their command runs; no other
 * function handles them.
 *
 * All questions have the same form: lk_X_defaults fills a request, the caller sets fields, lk_X
 * answers, lk_X_free frees the answer.
 *
 * - The caller owns requests; texts in them are borrowed until the function returns. Zero and NULL
 *   mean "not given".
 * - Answers are constant, own everything they point to, and live until they are freed; *out is set
 * only with LK_OK.
 * - Every answer is checked for consistency. A failure is a defect of lockstep: the answer is still
 * returned, and its failed_check names the condition ("src/FILE.c:LINE: CONDITION").
 * - Units are seconds, bytes, FLOP/s and bytes/s as doubles, unless a name or a comment states
 * another unit; NAN means "unknown".
 * - Threads may answer different requests at the same time, and many may read one answer.
 * - The process keeps the catalogue of devices, which is set once (catalogue.h). All other state of
 * a request ends with it.
 */
#ifndef LOCKSTEP_ERROR_H
#define LOCKSTEP_ERROR_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The result of a function. */
typedef enum lk_status {
	LK_OK = 0,
	LK_ERR_INPUT,    /* an invalid file, flag or value from the user */
	LK_ERR_IO,       /* the system refused: open, read, write, rename */
	LK_ERR_MEMORY,   /* out of memory */
	LK_ERR_INTERNAL, /* an internal invariant does not hold: a bug */
	LK_ERR_STOPPED,  /* the call was asked to stop: stop.h */
} lk_status;

/* An error: filled once, by the function that found it. Text is plain and holds no newline. */
typedef struct lk_error {
	lk_status status;
	char where[256]; /* "config.json:12:5", "--tp"; "" without a place */
	char what[384];  /* what is wrong */
	char hint[256];  /* what to do; may be "" */
} lk_error;

#if defined(__GNUC__)
#define LK_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define LK_PRINTF(fmt, args)
#endif

/* Fill `err` (may be NULL) and return `status`. `where` may be NULL. The hint is cleared; add it
 * with lk_hint. */
lk_status lk_fail(lk_error *err, lk_status status, const char *where, const char *fmt, ...)
	LK_PRINTF(4, 5);

/* Fill `err` (may be NULL) with another call's error; return its status. */
lk_status lk_fail_as(lk_error *err, const lk_error *found);

/* Add "what to do" to an error already filled; returns err->status, so that a function can end with
 * it. */
lk_status lk_hint(lk_error *err, const char *fmt, ...) LK_PRINTF(2, 3);

/* The nearest of `count` `names` to `text` by edit distance, or NULL if none is near. */
const char *lk_nearest(const char *text, const char *const *names, size_t count);
/* Add the nearest name as a hint, or as many names as fit if none is near. Returns the status of
 * `err`. */
lk_status lk_hint_names(lk_error *err, const char *text, const char *const *names, size_t count);

/* lk_fail for memory: one message everywhere. Returns LK_ERR_MEMORY. */
lk_status lk_oom(lk_error *err);

/* Format the whole error as one line, "where: what; hint", with control characters escaped; cut at
 * `size` bytes, 1024 are enough. Returns `out`. */
char *lk_error_text(const lk_error *err, char *out, unsigned long size);

/* Format the warning for an answer whose failed_check is not NULL, as one line; 512 bytes are
 * enough. Returns `out`. */
char *lk_failed_check_text(const char *failed_check, char *out, unsigned long size);

/* Return the status of `expr` from the calling function unless it is LK_OK. */
#define LK_TRY(expr)                                      \
	do {                                                  \
		lk_status lk_try_status = (expr);                 \
		if (lk_try_status != LK_OK) return lk_try_status; \
	} while (0)

#ifdef __cplusplus
}
#endif
#endif
