/* verbs_internal.h: functions of rows that pass a call on to the public function of a verb. */
#ifndef LK_VERBS_VERBS_INTERNAL_H
#define LK_VERBS_VERBS_INTERNAL_H

#include "verbs/verbs.h"

/* verb_defaults, verb_ask and verb_free. */
#define ROW_FUNCTIONS(verb, Answer, asks) \
	ROW_DEFAULTS(verb) ROW_ASK(verb, Answer, asks) ROW_FREE(verb)
#define ROW_DEFAULTS(verb)                           \
	static void verb##_row_defaults(void *request) { \
		lk_##verb##_defaults(request);               \
	}
#define ROW_ASK(verb, Answer, asks)                                                      \
	static lk_status verb##_row_ask(const void *request, void **answer, lk_error *err) { \
		Answer *found = NULL;                                                            \
		lk_status status = asks(request, &found, err);                                   \
		*answer = found;                                                                 \
		return status;                                                                   \
	}
#define ROW_FREE(verb)                          \
	static void verb##_row_free(void *answer) { \
		lk_##verb##_free(answer);               \
	}

/* verb_print, of an answer that --verbose enlarges, and of one that --table selects from. */
#define ROW_PRINT(verb, selector)                                                                 \
	static lk_status verb##_row_print(const void *answer, const lk_outputs *outputs, bool colour, \
	                                  FILE *out, lk_error *err) {                                 \
		return lk_##verb##_print(answer, outputs->format, outputs->selector, colour,              \
		                         outputs->path, out, err);                                        \
	}

#define ROW_REPORT(verb)                                                                          \
	static lk_status verb##_row_report(const void *answer, lk_report_form form, const char *path, \
	                                   FILE *out, lk_error *err) {                                \
		return lk_report_##verb(answer, form, path, out, err);                                    \
	}

/* An element of `paths`, and failed_check. */
#define ROW_PLACE(Struct, field) (1 + offsetof(Struct, field))

/* The members of most rows. */
#define ROW_MEMBERS(verb_, Answer)                                                          \
	.verb = &lk_##verb_##_verb, .defaults = verb_##_row_defaults, .fill = verb_##_row_fill, \
	.ask = verb_##_row_ask, .free = verb_##_row_free, .print = verb_##_row_print,           \
	.failed_check = ROW_PLACE(Answer, failed_check)

/* The operand of a verb that asks about a job: the name of a network, as with --model, unless a
 * file has that name; or a file, as with --config (NULL: the verb reads none, and every operand is
 * a network). LK_ERR_INPUT: the option is given too. */
lk_status lk_verb_take_job(const lk_verb_input *input, const char **config, const char **model,
                           lk_error *err);

/* The first operand, NULL without one. */
static inline const char *first_operand(const lk_verb_input *input) {
	return input->operand_count > 0 ? input->operands[0] : NULL;
}

#endif
