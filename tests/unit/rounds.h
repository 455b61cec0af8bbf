/* rounds.h: how many random cases a test looks at: more with LOCKSTEP_LONG=1; fewer with
 * LOCKSTEP_QUICK=1, and, of both, where a sanitizer makes each of them several times as slow, and
 * the kinds of cases matter more than their number, which runs without one see. */
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
enum { FEWER = 20 };
#elif defined __SANITIZE_ADDRESS__ || LK_TEST_FEATURE(address_sanitizer)
enum { FEWER = 16 };
#else
enum { FEWER = 1 };
#endif

static inline bool is_asked_for(const char *name) {
	const char *said = getenv(name);
	return said && *said;
}

static inline bool takes_long(void) {
	return is_asked_for("LOCKSTEP_LONG");
}

/* By what the cases are divided. */
static inline int fewer_cases(void) {
	return FEWER == 1 && is_asked_for("LOCKSTEP_QUICK") ? 20 : FEWER;
}

static inline int rounds(int usual, int longer) {
	int fewer = fewer_cases(), all = takes_long() ? longer : usual;
	return all > fewer ? all / fewer : 1;
}

static inline int trials(int usual) {
	return rounds(usual, 20 * usual);
}

/* Whether a case of a list is this commit's: ./check takes one of LOCKSTEP_PARTS of some lists, by
 * turns from commit to commit (LOCKSTEP_TURN). All of them without it, with LOCKSTEP_LONG=1, and
 * where whole programs take turns, with sanitizers. */
static inline bool has_its_turn(int number) {
	if (FEWER > 1 || takes_long() || !is_asked_for("LOCKSTEP_TURN") ||
	    !is_asked_for("LOCKSTEP_PARTS"))
		return true;
	unsigned long parts = strtoul(getenv("LOCKSTEP_PARTS"), NULL, 10);
	return (unsigned)number % parts == strtoul(getenv("LOCKSTEP_TURN"), NULL, 10) % parts;
}

/* The same of files by their names: folders list them in an order of their own. */
static inline bool file_has_its_turn(const char *name) {
	int sum = 0;
	while (*name) sum += (unsigned char)*name++;
	return has_its_turn(sum);
}

/* Whether a test of a large file is left to other runs: the thread sanitizer takes ten times as
 * long, and smaller tests start the same threads. */
static inline bool only_elsewhere(void) {
	return FEWER == 20 && !takes_long();
}

/* Whether answers are compared with another program's, or large fits are made, by other builds
 * alone: a sanitizer looks at how an answer is made, and it is the same in all of them. The quick
 * check leaves them to the whole one. */
static inline bool judged_elsewhere(void) {
	return (FEWER > 1 || is_asked_for("LOCKSTEP_QUICK")) && !takes_long();
}

#endif
