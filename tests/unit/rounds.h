/* rounds.h: how many random cases a test looks at: more with LOCKSTEP_LONG=1; fewer where a sanitizer makes each of them
 * several times as slow, and where the kinds of cases matter more than their number, which runs without one see. */
#ifndef LK_TEST_ROUNDS_H
#define LK_TEST_ROUNDS_H

#include <stdbool.h>
#include <stdlib.h>

#if defined __has_feature
#define LK_TEST_FEATURE(name) __has_feature(name)
#else
#define LK_TEST_FEATURE(name) 0
#endif

#if defined __SANITIZE_THREAD__ || LK_TEST_FEATURE(thread_sanitizer)
enum { FEWER = 10 };
#elif defined __SANITIZE_ADDRESS__ || LK_TEST_FEATURE(address_sanitizer)
enum { FEWER = 4 };
#else
enum { FEWER = 1 };
#endif

static inline int rounds(int usual, int longer) {
	const char *said = getenv("LOCKSTEP_LONG");
	if (said && *said) return longer;
	return usual > FEWER ? usual / FEWER : 1;
}

/* Whether a test of a large file is left to other runs: the thread sanitizer takes ten times as long, and smaller tests start
 * the same threads. */
static inline bool only_elsewhere(void) {
	const char *said = getenv("LOCKSTEP_LONG");
	return FEWER == 10 && !(said && *said);
}

#endif
