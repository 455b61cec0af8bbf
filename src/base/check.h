/* check.h: assertions and checks.
 *
 *   LK_ASSERT(condition)       an invariant: cannot fail unless lockstep itself is wrong. Tested in
 *                              every build but release (debug, sanitizers, coverage, fuzzing),
 *                              where a failure ends the process with file and line. In release
 *                              builds it costs nothing and must therefore have no effect.
 *   LK_CHECK(condition, err)   a cheap invariant whose violation would be undefined behaviour:
 *                              tested in every build. A failure leaves the calling function with
 *                              LK_ERR_INTERNAL, file and line.
 *   LK_HOLDS(condition)        a property of every answer, in a validator: a function that returns
 *                              the first of its conditions that fails, with file and line, or NULL.
 *                              A failure does not suppress the answer: it marks it.
 *
 * None is for input: mistakes of a user, a file or the system are errors with a remedy
 * (lockstep/error.h).
 *
 * A verb ends with answer->failed_check = lk_failed_check(validator(answer)). The field accompanies
 * the answer everywhere: lk_json_put_head marks the document, the program warns on standard
 * error. */
#ifndef LK_BASE_CHECK_H
#define LK_BASE_CHECK_H

#include "lockstep/error.h"

#ifdef LK_ASSERTS
/* Print the place and the condition to standard error and abort. */
_Noreturn void lk_assert_failed(const char *file, int line, const char *condition);
#define LK_ASSERT(condition) \
	((condition) ? (void)0 : lk_assert_failed(__FILE__, __LINE__, #condition))
#else
/* Still compiled, so that it stays valid; never evaluated. */
#define LK_ASSERT(condition) ((void)sizeof((condition) ? 1 : 0))
#endif

/* Fill `err` with the place and the condition; returns LK_ERR_INTERNAL. */
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

/* A validator's finding, for the answer; NULL: none. With a finding, builds with LK_ASSERTS abort,
 * and so do others with LOCKSTEP_CHECKS=abort in the environment, which tests set.
 * LOCKSTEP_CHECKS=fail marks every answer as failed, so that tests can see the consequences. */
const char *lk_failed_check(const char *found);

#endif
