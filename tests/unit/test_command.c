/* test_command.c: a question as its command: read again, it is the same question, option by option,
 * for every verb that says how it is asked again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "options/command.h"
#include "lockstep/calibrate.h"
#include "lockstep/diff.h"
#include "lockstep/explain.h"
#include "lockstep/plan.h"
#include "lockstep/predict.h"
#include "lockstep/rent.h"
#include "lockstep/shard.h"
#include "lockstep/stalls.h"
#include "lockstep/validate.h"
#include "lockstep/whatif.h"

enum { WORDS = 16 };

static const lk_verb *const verbs[] = {
	&lk_predict_verb, &lk_plan_verb,    &lk_rent_verb, &lk_shard_verb,    &lk_whatif_verb,
	&lk_stalls_verb,  &lk_explain_verb, &lk_diff_verb, &lk_validate_verb, &lk_calibrate_verb,
};

static size_t size_of(lk_option_kind kind) {
	if (kind == LK_OPTION_FLAG) return sizeof(bool);
	if (kind == LK_OPTION_REAL || kind == LK_OPTION_COUNT) return sizeof(double);
	return kind == LK_OPTION_TEXT || kind == LK_OPTION_LINES ? sizeof(char *) : sizeof(int);
}

static void *ask(const lk_verb *verb, int count, const char *const *words, lk_args *args) {
	void *request = calloc(1, verb->request_size);
	const char *all[WORDS] = {"these", "two"};
	lk_error err = {0};
	assert_non_null(request);
	memcpy(all + verb->min_operands, words, (size_t)count * sizeof *words);
	if (lk_args_parse(verb, verb->min_operands + count, all, args, &err) != LK_OK ||
	    lk_args_fill(args, 0, request, &err) != LK_OK)
		fail_msg("%s %s: %s", verb->name, words[0], err.what);
	return request;
}

/* Words of a line in which '...' quotes; the line is cut. */
static int split(char *line, const char **words) {
	int count = 0;
	for (char *at = line; *at && count < WORDS - 2;) {
		at += strspn(at, " ");
		bool quoted = *at == '\'';
		if (!*at) break;
		words[count++] = at += quoted;
		at += strcspn(at, quoted ? "'" : " ");
		if (*at) *at++ = '\0';
	}
	return count;
}

static bool same_field(const lk_option *option, const void *a, const void *b) {
	const char *x = (const char *)a + option->offset, *y = (const char *)b + option->offset;
	if (size_of(option->kind) != sizeof(char *) ||
	    (option->kind != LK_OPTION_TEXT && option->kind != LK_OPTION_LINES))
		return memcmp(x, y, size_of(option->kind)) == 0;
	const char *s, *t;
	memcpy(&s, x, sizeof s);
	memcpy(&t, y, sizeof t);
	return s && t && strcmp(s, t) == 0;
}

/* The option that this one acts with: the first of those that its row names. */
static const lk_option *company_of(const lk_verb *verb, const lk_option *option) {
	for (const lk_option *other = verb->options; option->with && other->name; other++)
		if (strlen(other->name) == strcspn(option->with, " ") &&
		    strncmp(other->name, option->with, strlen(other->name)) == 0)
			return other;
	return NULL;
}

/* Asked, written, and asked again. */
static void check(const lk_verb *verb, const lk_option *option, const char *value) {
	char name[64], *line;
	snprintf(name, sizeof name, "--%s", option->name);
	char company[64] = "";
	const char *asked[4] = {name, value}, *again[WORDS], *text;
	const lk_option *with = company_of(verb, option);
	int words = value ? 2 : 1;
	if (with) {
		if (with->output) return; /* what is written is not part of the question */
		snprintf(company, sizeof company, "--%s", with->name);
		asked[words++] = company;
		if (with->kind != LK_OPTION_FLAG) asked[words++] = "0.5";
		if (with->kind == LK_OPTION_INT || with->kind == LK_OPTION_COUNT) asked[words - 1] = "8";
	}
	lk_arena arena = LK_ARENA_INIT;
	lk_args first, second;
	void *a = ask(verb, words, asked, &first);
	text = lk_command_options(&arena, &(lk_question){.verb = verb, .request = a});
	assert_non_null(text);
	assert_non_null(line = lk_arena_strdup(&arena, text));
	void *b = ask(verb, split(line, again), again, &second);
	if (!same_field(option, a, b))
		fail_msg("%s %s: '%s' is another question", verb->name, name, text);
	lk_args_free(&first);
	lk_args_free(&second);
	free(a);
	free(b);
	lk_arena_free(&arena);
}

static void every_option_is_read_again(void **state) {
	(void)state;
	int checked = 0;
	for (size_t v = 0; v < sizeof verbs / sizeof *verbs; v++)
		for (const lk_option *option = verbs[v]->options; option->name; option++, checked++) {
			if (option->output) continue;
			char number[32];
			double low = option->low < option->high && option->low > 1    ? option->low
			             : option->low < option->high && option->high < 1 ? option->high / 2
			                                                              : 1;
			snprintf(number, sizeof number, "%.10g", low);
			switch (option->kind) {
			case LK_OPTION_FLAG:
			case LK_OPTION_SWITCH: check(verbs[v], option, NULL); break;
			case LK_OPTION_CHOICE:
				check(verbs[v], option, option->choices[option->choices[1] ? 1 : 0]);
				break;
			case LK_OPTION_TEXT:
			case LK_OPTION_LINES: check(verbs[v], option, "8 node * 8 h100-sxm, nic 8*400g"); break;
			default: check(verbs[v], option, number);
			}
		}
	assert_true(checked > 150);
}

static void what_is_usual_is_not_said(void **state) {
	(void)state;
	static const char *const but[] = {"plan", NULL}, *const operands[] = {"my tables.csv"},
							 *const rest[] = {"torchrun", "it's"};
	lk_arena arena = LK_ARENA_INIT;
	lk_shard_request usual, request;
	lk_shard_defaults(&usual);
	request = usual;
	request.gpu = "h100-sxm";
	request.gpus = 8;
	request.plan = "plan.json";
	request.dtype = 1;
	request.batch = 65536;
	lk_question q = {.verb = &lk_shard_verb,
	                 .request = &request,
	                 .usual = &usual,
	                 .but = but,
	                 .operands = operands,
	                 .operand_count = 1};
	assert_string_equal(
		lk_command(&arena, &q),
		"lockstep shard 'my tables.csv' --gpu h100-sxm --gpus 8 --batch 65536 --dtype fp16");
	request.reserve = 0;
	q.rest = rest;
	q.rest_count = 2;
	assert_string_equal(
		lk_command(&arena, &q),
		"lockstep shard 'my tables.csv' --gpu h100-sxm --gpus 8 --reserve 0 --batch 65536 "
		"--dtype fp16 -- torchrun 'it'\\''s'");
	lk_whatif_request whatif = {.sets = "nic=0.5x\ngpus=64", .cuda_graphs = true};
	q = (lk_question){.verb = &lk_whatif_verb, .request = &whatif};
	assert_string_equal(lk_command_options(&arena, &q),
	                    " --set nic=0.5x --set gpus=64 --cuda-graphs");
	lk_plan_request plan = {.job = {.sequence_parallel = -1, .overlap_p2p = 1}};
	q = (lk_question){.verb = &lk_plan_verb, .request = &plan};
	assert_string_equal(lk_command_options(&arena, &q), " --no-sequence-parallel --overlap-p2p");
	lk_arena_free(&arena);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_option_is_read_again),
		cmocka_unit_test(what_is_usual_is_not_said),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
