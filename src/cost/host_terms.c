/* host_terms.c: host overheads by operation: stored, found, and as rows of the calibration. */
#include "cost/host_terms.h"

#include <ctype.h>
#include <limits.h>
#include <math.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"

enum { NAMES = 1 << 14 };

static const char family[] = "host", subject[] = "eager";

void lk_host_term_name(const char *name, int term, char *out, size_t size) {
	static const char ending[] = "Backward";
	size_t tail = sizeof ending - 1;
	lk_copy(out, size, term == 1 ? "" : name);
	size_t length = strlen(out);
	while (length > 0 && isdigit((unsigned char)out[length - 1])) length--;
	if (length >= tail && strncmp(out + length - tail, ending, tail) == 0) out[length] = '\0';
}

lk_host_term *lk_host_terms_find(const lk_host_terms *terms, const char *name) {
	for (size_t i = 0; i < terms->of.count; i++)
		if (strcmp(terms->of.at[i].name, name) == 0) return &terms->of.at[i];
	return NULL;
}

bool lk_host_terms_full(const lk_host_terms *terms) {
	return terms->of.count >= NAMES;
}

lk_host_term *lk_host_terms_add(lk_host_terms *terms, const char *name) {
	lk_host_term *term = lk_host_terms_find(terms, name);
	if (term || lk_host_terms_full(terms) || !lk_push(&terms->of)) return term;
	lk_copy(lk_last(&terms->of)->name, sizeof lk_last(&terms->of)->name, name);
	return lk_last(&terms->of);
}

double lk_host_term_mean(const lk_host_term *of, int term) {
	LK_ASSERT(term >= 1 && term <= LK_HOST_TERMS);
	return of && of->weight[term - 1] > 0 ? of->sum[term - 1] / of->weight[term - 1] : NAN;
}

void lk_host_terms_free(lk_host_terms *terms) {
	lk_vec_free(&terms->of);
}

/* ---- rows of the calibration ---- */

static const char *const numbers[LK_HOST_TERMS] = {"t1", "t2", "t3", "t4", "t5"};

lk_status lk_host_terms_known(lk_host_terms *out, lk_error *err) {
	const lk_calibration *known = lk_calibration_current();
	for (size_t i = 0; i < known->rows.count; i++) {
		const lk_calibration_row *row = &known->rows.at[i];
		if (strcmp(row->family, family) != 0 || !lk_same_name(row->subject, subject)) continue;
		lk_host_term *to = lk_host_terms_add(out, row->variant);
		if (!to) return lk_oom(err);
		for (int term = 1; term <= LK_HOST_TERMS; term++) {
			double us = lk_calibration_value(row, numbers[term - 1], NAN);
			if (isnan(us)) continue;
			to->sum[term - 1] = us;
			to->weight[term - 1] = 1;
		}
	}
	return LK_OK;
}

/* Number of observations of its best known term. */
static double measured(const lk_host_term *term) {
	double most = 0;
	for (int i = 0; i < LK_HOST_TERMS; i++) most = fmax(most, term->weight[i]);
	return most;
}

lk_status lk_host_terms_put(const lk_host_terms *terms, const char *source, const char *date,
                            lk_calibration *out, lk_error *err) {
	for (size_t i = 0; i < terms->of.count; i++) {
		const lk_host_term *from = &terms->of.at[i];
		const char *variant = lk_arena_strdup(&out->arena, from->name);
		lk_calibration_row *row =
			variant ? lk_calibration_add(out, family, subject, variant) : NULL;
		if (!row) return lk_oom(err);
		row->source = source;
		row->date = date;
		for (int term = 1; term <= LK_HOST_TERMS; term++) {
			double us = lk_host_term_mean(from, term);
			if (!isnan(us)) lk_calibration_put(row, numbers[term - 1], us);
		}
		row->points = (int)fmin(measured(from), INT_MAX);
	}
	return LK_OK;
}

/* ---- queries ---- */

/* Mean over the names that have the term; for T5 only nonzero ones, as operations with one launch
 * have 0. */
static double mean_over_names(const lk_host_terms *terms, int term) {
	double sum = 0;
	int names = 0;
	for (size_t i = 0; i < terms->of.count; i++) {
		double us = lk_host_term_mean(&terms->of.at[i], term);
		if (us > 0) {
			sum += us;
			names++;
		}
	}
	return names ? sum / names : 0;
}

double lk_host_terms_seconds(const void *table, int term, const char *name) {
	const lk_host_terms *terms = table;
	char plain[sizeof((lk_host_term *)0)->name];
	if (term < 1 || term > LK_HOST_TERMS) return 0;
	lk_host_term_name(name, term, plain, sizeof plain);
	double us = lk_host_term_mean(lk_host_terms_find(terms, plain), term);
	return (isnan(us) ? mean_over_names(terms, term) : us) * 1e-6;
}
