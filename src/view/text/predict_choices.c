/* predict_choices.c: what differs between the requests of a sweep, and which of them is best. */
#include "base/check.h"
#include "base/text.h"
#include "view/text/views.h"

char *lk_option_text(const lk_option *option, const lk_predict_request *request, char *out,
                     size_t size) {
	const char *field = (const char *)request + option->offset;
	out[0] = '\0';
	LK_ASSERT(!option->output);
	if (option->kind == LK_OPTION_TEXT) {
		const char *text = *(const char *const *)(const void *)field;
		if (text) lk_copy(out, size, text);
	} else if (option->kind == LK_OPTION_REAL || option->kind == LK_OPTION_COUNT) {
		double number = *(const double *)(const void *)field;
		if (number != 0) lk_format_shortest(number, out, size);
	} else if (option->kind == LK_OPTION_INT) {
		int number = *(const int *)(const void *)field;
		if (number != 0) snprintf(out, size, "%d", number);
	}
	return out;
}

double lk_sweep_rate(const lk_prediction *prediction) {
	if (prediction->tokens_per_s_per_gpu > 0) return prediction->tokens_per_s_per_gpu;
	return prediction->samples_per_s / (prediction->gpus > 0 ? prediction->gpus : 1);
}

const char *lk_sweep_unit(const lk_sweep *sweep, long row) {
	LK_ASSERT(row >= 0 && (size_t)row < sweep->count && sweep->rows[row].prediction);
	const lk_prediction *prediction = sweep->rows[row].prediction;
	return prediction->tokens_per_s_per_gpu > 0 ? "token" : prediction->unit;
}

long lk_sweep_best(const lk_sweep *sweep) {
	long best = -1;
	for (size_t i = 0; i < sweep->count; i++) {
		const lk_prediction *prediction = sweep->rows[i].prediction;
		if (!prediction || lk_verdict_of(prediction) != LK_VERDICT_FITS) continue;
		if (best < 0 || lk_sweep_rate(prediction) > lk_sweep_rate(sweep->rows[best].prediction))
			best = (long)i;
	}
	return best;
}
