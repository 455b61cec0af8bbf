/* error.h: the one error convention of lockstep.
 *
 * Every function that can fail returns an lk_status and fills the lk_error it was given. The
 * message is one line: where it happened, what is wrong, what to do. No function prints what it was
 * not asked to, or exits. lk_record and lk_stalls pass signals on while their command runs; no
 * other function touches them.
 *
 * All questions are asked alike: lk_X_defaults fills a request, its fields are set, lk_X answers,
 * lk_X_free frees the answer.
 *
 * - Requests are the caller's; texts in them are borrowed until the function returns. Zero and NULL
 *   mean "not given".
 * - Answers are constant, own all that they point to, and live until they are freed; *out is set
 *   only with LK_OK.
 * - Every answer is checked for consistency. What fails is a defect of lockstep: the answer is
 * given all the same, and its failed_check names the condition ("src/FILE.c:LINE: CONDITION").
 * - Units are seconds, bytes, FLOP/s and bytes/s as doubles, unless a name or a comment says
 * another one; NAN is "not known".
 * - Threads may answer different requests at the same time, and many may read one answer.
 * - What requests share (devices, calibration, a wish to stop, a number of threads) belongs to a
 *   context, the default one or the caller's (context.h). All else that a request brings ends with it.
 */
#ifndef LOCKSTEP_ERROR_H
#define LOCKSTEP_ERROR_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How a function ended. */
typedef enum lk_status {
	LK_OK = 0,
	LK_ERR_INPUT,    /* a file, flag or value of the user is wrong */
	LK_ERR_IO,       /* the system refused: open, read, write, rename */
	LK_ERR_MEMORY,   /* out of memory */
	LK_ERR_INTERNAL, /* an invariant of lockstep itself does not hold: a bug */
	LK_ERR_STOPPED,  /* somebody asked the call to end: stop.h */
} lk_status;

/* An error: filled once, by the function that found it. Text is plain and holds no newline. */
typedef struct lk_error {
	lk_status status;
	char where[256]; /* "config.json:12:5", "--tp", "" where no place can be named */
	char what[384];  /* what is wrong */
	char hint[256];  /* what to do; may be "" */
} lk_error;

#if defined(__GNUC__)
#define LK_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define LK_PRINTF(fmt, args)
#endif

/* Fills `err` (may be NULL) and returns `status`. `where` may be NULL. The hint is cleared; add it
 * with lk_hint. */
lk_status lk_fail(lk_error *err, lk_status status, const char *where, const char *fmt, ...)
	LK_PRINTF(4, 5);

/* Fills `err` (may be NULL) with what another call found; returns its status. */
lk_status lk_fail_as(lk_error *err, const lk_error *found);

/* Adds "what to do" to an error already filled; returns err->status, so that a function can end
 * with it. */
lk_status lk_hint(lk_error *err, const char *fmt, ...) LK_PRINTF(2, 3);

/* The name of `names` (count of them) that is nearest to `text` by edit distance, or NULL if none
 * is near. */
const char *lk_nearest(const char *text, const char *const *names, size_t count);
/* Hints at the nearest name, or, where none is near, at as many of them as a hint can hold. Returns
 * the status of `err`. */
lk_status lk_hint_names(lk_error *err, const char *text, const char *const *names, size_t count);

/* lk_fail for memory: one message for the whole tree. Returns LK_ERR_MEMORY. */
lk_status lk_oom(lk_error *err);

/* The whole error as one line, "where: what; hint", control characters escaped; cut at `size`
 * bytes, 1024 are enough. Returns `out`. */
char *lk_error_text(const lk_error *err, char *out, unsigned long size);

/* What to say of an answer whose failed_check is not NULL, as one line; 512 bytes are enough.
 * Returns `out`. */
char *lk_failed_check_text(const char *failed_check, char *out, unsigned long size);

/* Leaves the calling function with the status of `expr` unless it is LK_OK. */
#define LK_TRY(expr)                                      \
	do {                                                  \
		lk_status lk_try_status = (expr);                 \
		if (lk_try_status != LK_OK) return lk_try_status; \
	} while (0)

#ifdef __cplusplus
}
#endif
#endif
