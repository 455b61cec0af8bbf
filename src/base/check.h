/* check.h: how lockstep states what it relies on.
 *
 *   LK_ASSERT(condition)       an invariant: cannot fail unless lockstep itself is wrong. Tested in
 *                              every build but release (debug, sanitizers, coverage, fuzzing),
 *                              where a failure ends the process with file and line. In release
 *                              builds it costs nothing and must therefore have no effect.
 *   LK_CHECK(condition, err)   a cheap invariant whose violation would be undefined behaviour:
 *                              tested in every build. A failure leaves the calling function with
 *                              LK_ERR_INTERNAL, file and line.
 *   LK_HOLDS(condition)        what holds for every answer, in a validator: a function that returns
 *                              the first of its conditions that fails, with file and line, or NULL.
 *                              A failure takes no answer away: it marks the answer.
 *
 * None is for input: what a user, a file or the system can get wrong is an error with a remedy
 * (lockstep/error.h).
 *
 * A verb ends with answer->failed_check = lk_failed_check(validator(answer)). The field goes with
 * the answer to every door: lk_json_put_head marks the document, the program warns on standard
 * error. */
#ifndef LK_BASE_CHECK_H
#define LK_BASE_CHECK_H

#include "lockstep/error.h"

#ifdef LK_ASSERTS
/* Prints the place and the condition to standard error and aborts. */
_Noreturn void lk_assert_failed(const char *file, int line, const char *condition);
#define LK_ASSERT(condition) \
	((condition) ? (void)0 : lk_assert_failed(__FILE__, __LINE__, #condition))
#else
/* Still compiled, so that it cannot rot; never evaluated. */
#define LK_ASSERT(condition) ((void)sizeof((condition) ? 1 : 0))
#endif

/* Fills `err` with the place and the condition; returns LK_ERR_INTERNAL. */
lk_status lk_check_failed(lk_error *err, const char *file, int line, const char *condition);

#define LK_CHECK(condition, err)                                                       \
	do {                                                                               \
		if (!(condition)) return lk_check_failed(err, __FILE__, __LINE__, #condition); \
	} while (0)

#define LK_TEXT_OF_(line) #line
#define LK_TEXT_OF(line)  LK_TEXT_OF_(line)
#define LK_HOLDS(condition)                                                         \
	do {                                                                            \
		if (!(condition)) return __FILE__ ":" LK_TEXT_OF(__LINE__) ": " #condition; \
	} while (0)
/* The conditions of another validator. */
#define LK_HOLDS_ALL(validator)              \
	do {                                     \
		const char *lk_failed = (validator); \
		if (lk_failed) return lk_failed;     \
	} while (0)

/* What a validator found, for the answer; NULL: nothing. With a finding, builds with LK_ASSERTS
 * abort, and so do others where the environment has LOCKSTEP_CHECKS=abort, which tests set.
 * LOCKSTEP_CHECKS=fail takes every answer as one that failed: how tests see what becomes of it. */
const char *lk_failed_check(const char *found);

#endif
