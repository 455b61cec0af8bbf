/* verbs.c: what all verbs have in common: requests filled, answers written. */
#include "verbs/verbs_internal.h"

#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "lockstep/catalogue.h"

lk_verb_input lk_verb_words(const lk_args *args, const lk_outputs *outputs) {
	return (lk_verb_input){.operands = args->operands,
	                       .operand_count = args->operand_count,
	                       .launch = args->rest,
	                       .launch_count = args->rest_count,
	                       .outputs = outputs,
	                       .pictured = outputs->html || outputs->charts};
}

lk_status lk_verb_request(const lk_verb_row *row, lk_args *args, size_t index,
                          const lk_verb_input *input, void *request, lk_error *err) {
	LK_ASSERT(args->verb == row->verb && input->outputs != NULL);
	memset(request, 0, row->verb->request_size);
	if (row->defaults) row->defaults(request);
	LK_TRY(lk_args_fill(args, index, request, err));
	return row->fill ? row->fill(request, input, err) : LK_OK;
}

lk_status lk_verb_answering(const lk_verb_row **row, const void *request, lk_error *err) {
	return (*row)->instead ? (*row)->instead(request, row, err) : LK_OK;
}

lk_status lk_verb_report(const lk_verb_row *row, const void *answer, const lk_outputs *outputs,
                         lk_error *err) {
	LK_ASSERT(row->report || (!outputs->html && !outputs->charts));
	if (outputs->html) LK_TRY(row->report(answer, LK_REPORT_HTML, outputs->html, NULL, err));
	if (!outputs->charts) return LK_OK;
	return row->report(answer, LK_REPORT_CHARTS, outputs->charts, NULL, err);
}

lk_status lk_verb_write(const lk_verb_row *row, const void *request, const void *answer,
                        const lk_outputs *outputs, bool colour, FILE *out, lk_error *err) {
	LK_ASSERT(answer != NULL);
	if (row->files) LK_TRY(row->files(request, answer, outputs, err));
	LK_TRY(row->print(answer, outputs, colour, out, err));
	return lk_verb_report(row, answer, outputs, err);
}

const char *lk_verb_failed_check(const lk_verb_row *row, const void *answer) {
	return row->failed_check ? *(const char *const *)((const char *)answer + row->failed_check - 1)
	                         : NULL;
}

lk_status lk_verb_take_job(const lk_verb_input *input, const char **config, const char **model,
                           lk_error *err) {
	const char *operand = input->operand_count > 0 ? input->operands[0] : NULL;
	if (!operand) return LK_OK;
	bool network = !config || (access(operand, F_OK) != 0 && lk_model_named(operand));
	if (network && !*model) {
		*model = operand;
		return LK_OK;
	}
	if (!config) {
		lk_fail(err, LK_ERR_INPUT, "--model", "%.80s is given too", operand);
		return lk_hint(err, "name one network");
	}
	if (*config) {
		lk_fail(err, LK_ERR_INPUT, "--config", "%.80s is given too", operand);
		return lk_hint(err, "name one file of the job");
	}
	*config = operand;
	return LK_OK;
}
