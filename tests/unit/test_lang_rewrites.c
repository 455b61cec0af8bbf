/* test_lang_rewrites.c: random programs, random directives, meshes of 1, 2, 3, 4 and 8: what a
 * rewrite makes computes the same in the field of 2^61 - 1 elements, or it was refused with a
 * reason. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "lang/run/run.h"
#include "lang_random.h"
#include "rounds.h"

enum { VALUES = 24, STEPS = 5 };

struct tally {
	int programs, applied[LC_DIRECTIVES], refused, unrunnable;
};

static int long_count(int usual) {
	const char *count = getenv("LOCKSTEP_PROGRAMS");
	if (count) return atoi(count);
	return trials(usual);
}

static void show(const lc_program *program, const char *title) {
	fprintf(stderr, "---- %s\n", title);
	lc_print_listing(program, stderr);
}

static void fail_on(uint64_t seed, const lc_program *before, const lc_directive *directive,
                    const lc_program *after, const char *why) {
	show(before, "before");
	if (after) show(after, "after");
	fprintf(stderr, "---- ");
	lc_print_directive(directive, stderr);
	fprintf(stderr, "\n");
	fail_msg("seed %llu: %s", (unsigned long long)seed, why);
}

/* Whether a program can be run at all: sizes that fit, results that can be put together. */
static bool runs(const lc_program *program, uint64_t seed) {
	lc_verdict v;
	lk_error err = {0};
	lc_verify_options o = {.seed = seed, .draws = 1, .exact_only = true};
	lk_status status = lc_verify(program, program, &o, &v, &err);
	if (status == LK_ERR_INTERNAL || (status == LK_OK && !v.equal)) {
		show(program, "itself");
		fail_msg("seed %llu: %s", (unsigned long long)seed, status ? err.what : v.where);
	}
	return status == LK_OK;
}

static void check_step(uint64_t seed, const lc_program *whole, const lc_program *before,
                       const lc_directive *directive, const lc_program *after) {
	lc_verdict v;
	lk_error err = {0};
	lc_verify_options o = {.seed = seed, .draws = 2};
	lk_status status = lc_verify(whole, after, &o, &v, &err);
	if (status == LK_OK && !v.equal) fail_on(seed, before, directive, after, v.where);
	if (status == LK_ERR_INPUT) return; /* a mesh, or sizes, that the rewrite cannot have */
	if (status != LK_OK) fail_on(seed, before, directive, after, err.what);
}

static lc_directive some_directive(const lc_program *program, uint64_t *s, int number,
                                   lc_moves *moves) {
	lk_error err;
	if (draw_chance(s, 50) && lc_rewrite_moves(program, 2, moves, &err) == LK_OK && moves->count)
		return moves->at[draw(s, moves->count)];
	return random_directive(program, s, number);
}

static void rewrite_some(uint64_t seed, const lc_program *program, struct tally *tally) {
	uint64_t s = lk_hash64(seed ^ 0x5eed) << 16;
	lc_program *now = NULL, *next;
	lk_error err = {0};
	if (lc_rewrite_all(program, NULL, &now, &err) != LK_OK)
		fail_msg("seed %llu: %s", (unsigned long long)seed, err.what);
	for (int step = 0; step < STEPS; step++) {
		for (int tries = 0; tries < 12; tries++) {
			lc_moves moves = {0};
			lc_directive d = some_directive(now, &s, step * 12 + tries, &moves);
			lk_vec_free(&moves);
			err = (lk_error){0};
			lk_status status = lc_rewrite(now, &d, &next, &err);
			if (status == LK_ERR_INPUT) {
				if (!err.what[0]) fail_on(seed, now, &d, NULL, "refused without a reason");
				tally->refused++;
				continue;
			}
			if (status != LK_OK) fail_on(seed, now, &d, NULL, err.what);
			tally->applied[d.kind]++;
			check_step(seed, program, now, &d, next);
			lc_program_free(now);
			now = next;
			break;
		}
	}
	lc_program_free(now);
}

static void test_random(void **state) {
	(void)state;
	struct tally t = {0};
	const char *first = getenv("LOCKSTEP_SEED");
	uint64_t begin = first ? strtoull(first, NULL, 10) : 0;
	for (uint64_t seed = begin; seed < begin + (uint64_t)long_count(100); seed++) {
		lc_file *file = random_program(seed, VALUES);
		if (runs(file->programs.at[0], seed)) {
			t.programs++;
			rewrite_some(seed, file->programs.at[0], &t);
		} else {
			t.unrunnable++;
		}
		lc_file_free(file);
	}
	printf("%d programs (%d cannot be run), %d directives refused; applied:", t.programs,
	       t.unrunnable, t.refused);
	for (int k = 0; k < LC_DIRECTIVES; k++) printf(" %s %d", lc_directive_names[k], t.applied[k]);
	puts("");
	if (first || getenv("LOCKSTEP_PROGRAMS") || fewer_cases() > 1) return;
	for (int k = 0; k < LC_DIRECTIVES; k++) assert_true(t.applied[k] > 0);
}

int main(void) {
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_random)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
