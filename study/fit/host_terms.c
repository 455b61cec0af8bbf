/* host_terms.c: reads and merges tables of host overheads. */
#include "fit/fits.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/check.h"
#include "io/csv.h"
#include "base/stats.h"
#include "base/text.h"

enum { ROWS = 1 << 20 };
enum { TYPE, NAME, MEAN, NEEDED, MODEL = NEEDED, BATCH, COUNT, COLUMNS };
static const char *const columns[COLUMNS] = {"type",  "name",       "mean_us",
                                             "model", "batch_size", "count"};

/* ---- reading ---- */

/* Correct a measured time for the profiler. A launch takes 10 us under the profiler, of which 2 us
 * are its host event and 4 us its device event (Lin et al., arXiv 2201.07821): without it never
 * more than 4 us. Other terms of such a table are corrected in lk_host_terms_fill. */
static double corrected(int term, double us) {
	return term == 4 ? fmin(us, 4) : us;
}

/* Whether a row is of such a run. Rows that do not say are of any. */
static lk_status of_kind(const lk_csv *csv, const int *at, const lk_host_kind *kind, bool *out,
                         lk_error *err) {
	const char *model = lk_csv_field(csv, at[MODEL]), *text = lk_csv_field(csv, at[BATCH]);
	double batch = kind->least;
	if (*text) LK_TRY(lk_parse_real(text, 0, 1e12, &batch, lk_csv_where(csv), err));
	bool named = !*model || strncasecmp(model, kind->models, strlen(kind->models)) == 0;
	*out = named && batch >= kind->least && batch <= kind->most;
	return LK_OK;
}

struct reading {
	const lk_host_kind *kind;
	lk_host_terms *out;
};

static lk_status terms_read_row(void *context, const lk_csv *csv, const int *at, lk_error *err) {
	const struct reading *reading = context;
	lk_host_terms *out = reading->out;
	const char *type = lk_csv_field(csv, at[TYPE]);
	const char *where = lk_csv_where(csv), *count = lk_csv_field(csv, at[COUNT]);
	char name[sizeof((lk_host_term *)0)->name];
	double us, weight = 1;
	bool wanted = true;
	if ((type[0] != 't' && type[0] != 'T') || type[1] < '1' || type[1] > '5' || type[2]) {
		char shown[64];
		lk_fail(err, LK_ERR_INPUT, where, "column type: \"%s\" is not a term",
		        lk_escape(type, shown, sizeof shown));
		return lk_hint(err, "give t1, t2, t3, t4 or t5");
	}
	LK_TRY(lk_parse_real(lk_csv_field(csv, at[MEAN]), 0, 1e9, &us, where, err));
	if (*count) LK_TRY(lk_parse_real(count, 0, 1e12, &weight, where, err));
	LK_TRY(of_kind(csv, at, reading->kind, &wanted, err));
	if (!wanted) return LK_OK;
	int term = type[1] - '0';
	LK_ASSERT(1 <= term && term <= LK_HOST_TERMS);
	lk_host_term_name(lk_csv_field(csv, at[NAME]), term, name, sizeof name);
	lk_host_term *to = lk_host_terms_add(out, name);
	if (!to)
		return lk_host_terms_full(out)
		           ? lk_fail(err, LK_ERR_INPUT, where, "more than %zu names", out->of.count)
		           : lk_oom(err);
	to->sum[term - 1] += weight * corrected(term, us);
	to->weight[term - 1] += weight;
	return LK_OK;
}

lk_status lk_host_terms_read(lk_stream *in, const lk_host_kind *kind, lk_host_terms *out,
                             lk_error *err) {
	static const lk_csv_table table = {columns, COLUMNS,        NEEDED, "table of host overheads",
	                                   ROWS,    terms_read_row, NULL};
	return lk_csv_read(in, &table, &(struct reading){kind, out}, err);
}

/* ---- merging ---- */

/* Median, over names, of the ratio of T2 in one table to T2 in the other; 1 without common
 * names. */
static lk_status ratio_of(const lk_host_terms *terms, const lk_host_terms *more, double *out,
                          lk_error *err) {
	double *ratios = malloc((more->of.count + 1) * sizeof *ratios);
	size_t count = 0;
	if (!ratios) return lk_oom(err);
	for (size_t i = 0; i < more->of.count; i++) {
		double other = lk_host_term_mean(&more->of.at[i], 2),
			   own = lk_host_term_mean(lk_host_terms_find(terms, more->of.at[i].name), 2);
		if (own > 0 && other > 0) ratios[count++] = own / other;
	}
	*out = count ? lk_median(ratios, count) : 1;
	free(ratios);
	return LK_OK;
}

lk_status lk_host_terms_fill(lk_host_terms *terms, const lk_host_terms *more, lk_error *err) {
	double usual = 1;
	LK_TRY(ratio_of(terms, more, &usual, err));
	for (size_t i = 0; i < more->of.count; i++) {
		const lk_host_term *from = &more->of.at[i];
		lk_host_term *to = lk_host_terms_add(terms, from->name);
		if (!to) return lk_oom(err);
		double own = lk_host_term_mean(to, 2), other = lk_host_term_mean(from, 2),
			   ratio = own > 0 && other > 0 ? fmin(own / other, 1) : usual;
		for (int t = 0; t < LK_HOST_TERMS; t++) {
			if (to->weight[t] > 0 || !(from->weight[t] > 0)) continue;
			bool launch = t + 1 == 4;
			to->sum[t] = from->sum[t] * (launch ? 1 : ratio);
			to->weight[t] = from->weight[t];
		}
	}
	return LK_OK;
}
