/* check.h: how lockstep states what it relies on.
 *
 *   LK_ASSERT(condition)       an invariant: cannot fail unless lockstep itself is wrong. Tested in
 *                              every build but release (debug, sanitizers, coverage, fuzzing),
 *                              where a failure ends the process with file and line. In release
 *                              builds it costs nothing and must therefore have no effect.
 *   LK_CHECK(condition, err)   a cheap invariant whose violation would be undefined behaviour or a
 *                              wrong figure: tested in every build. A failure leaves the calling
 *                              function with LK_ERR_INTERNAL, file and line.
 *
 * Neither is for input: what a user, a file or the system can get wrong is an error with a remedy
 * (lockstep/error.h). */
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

#endif
