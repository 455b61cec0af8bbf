/* host_terms.c: reads and merges tables of host overheads. */
#include "fit/fits.h"

#include <ctype.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "io/csv.h"
#include "base/stats.h"
#include "base/text.h"

enum {
	T1,
	T2,
	T3,
	T4,
	T5,
	ROWS = 1 << 20,
	NAMES = 1 << 14
};
enum {
	TYPE,
	NAME,
	MEAN,
	NEEDED,
	MODEL = NEEDED,
	BATCH,
	COUNT,
	COLUMNS
};
static const char *const columns[COLUMNS] = {"type",  "name",       "mean_us",
                                             "model", "batch_size", "count"};

/* "AddmmBackward0" is "AddmmBackward": autograd numbers the versions of a node. */
static void terms_plain_name(const char *name, char *out, size_t size) {
	lk_copy(out, size, name);
	size_t length = strlen(out);
	while (length > 0 && isdigit((unsigned char)out[length - 1])) length--;
	const char *ending = "Backward";
	size_t tail = strlen(ending);
	if (length >= tail && strncmp(out + length - tail, ending, tail) == 0) out[length] = '\0';
}

static lk_host_term *terms_find(const lk_host_terms *terms, const char *name) {
	for (size_t i = 0; i < terms->of.count; i++)
		if (strcmp(terms->of.at[i].name, name) == 0) return &terms->of.at[i];
	return NULL;
}

static lk_host_term *find_or_add(lk_host_terms *terms, const char *name) {
	lk_host_term *term = terms_find(terms, name);
	if (term || terms->of.count >= NAMES || !lk_push(&terms->of)) return term;
	lk_copy(lk_last(&terms->of)->name, sizeof lk_last(&terms->of)->name, name);
	return lk_last(&terms->of);
}

/* ---- reading ---- */

static lk_status bad_type(const char *where, const char *text, lk_error *err) {
	char shown[64];
	lk_fail(err, LK_ERR_INPUT, where, "column type: \"%s\" is no term",
	        lk_escape(text, shown, sizeof shown));
	return lk_hint(err, "give t1, t2, t3, t4 or t5");
}

/* A launch takes 10 us under the profiler, of which 2 us are its host event and 4 us its device
 * event (Lin et al., arXiv 2201.07821): never more than 4 us without it. Other terms of such a
 * table are corrected in lk_host_terms_fill. */
static double corrected(int term, double us) {
	return term == T4 ? fmin(us, 4) : us;
}

/* Is the row of such a run? Rows that do not say are of any. */
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
	if ((type[0] != 't' && type[0] != 'T') || type[1] < '1' || type[1] > '5' || type[2])
		return bad_type(where, type, err);
	LK_TRY(lk_parse_real(lk_csv_field(csv, at[MEAN]), 0, 1e9, &us, where, err));
	if (*count) LK_TRY(lk_parse_real(count, 0, 1e12, &weight, where, err));
	LK_TRY(of_kind(csv, at, reading->kind, &wanted, err));
	if (!wanted) return LK_OK;
	int term = type[1] - '1';
	terms_plain_name(term == T1 ? "" : lk_csv_field(csv, at[NAME]), name, sizeof name);
	lk_host_term *to = find_or_add(out, name);
	if (!to)
		return out->of.count >= NAMES
		           ? lk_fail(err, LK_ERR_INPUT, where, "more than %d names", NAMES)
		           : lk_oom(err);
	to->sum[term] += weight * corrected(term, us);
	to->weight[term] += weight;
	return LK_OK;
}

lk_status lk_host_terms_read(lk_stream *in, const lk_host_kind *kind, lk_host_terms *out,
                             lk_error *err) {
	static const lk_csv_table table = {columns, COLUMNS,        NEEDED, "table of host overheads",
	                                   ROWS,    terms_read_row, NULL};
	return lk_csv_read(in, &table, &(struct reading){kind, out}, err);
}

void lk_host_terms_free(lk_host_terms *terms) {
	lk_vec_free(&terms->of);
}

/* ---- merging ---- */

static double terms_mean_of(const lk_host_term *host_term, int term) {
	return host_term && host_term->weight[term] > 0 ? host_term->sum[term] / host_term->weight[term]
	                                                : NAN;
}

/* Median over names of the T2 of one table over the other's; 1 where they share none. */
static lk_status ratio_of(const lk_host_terms *terms, const lk_host_terms *more, double *out,
                          lk_error *err) {
	double *ratios = malloc((more->of.count + 1) * sizeof *ratios);
	size_t count = 0;
	if (!ratios) return lk_oom(err);
	for (size_t i = 0; i < more->of.count; i++) {
		double other = terms_mean_of(&more->of.at[i], T2),
			   own = terms_mean_of(terms_find(terms, more->of.at[i].name), T2);
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
		lk_host_term *to = find_or_add(terms, from->name);
		if (!to) return lk_oom(err);
		double own = terms_mean_of(to, T2), other = terms_mean_of(from, T2),
			   ratio = own > 0 && other > 0 ? fmin(own / other, 1) : usual;
		for (int t = 0; t < LK_HOST_TERMS; t++) {
			if (to->weight[t] > 0 || !(from->weight[t] > 0)) continue;
			to->sum[t] = from->sum[t] * (t == T4 ? 1 : ratio);
			to->weight[t] = from->weight[t];
		}
	}
	return LK_OK;
}

/* ---- asking ---- */

/* Over the names that have the term; of T5 those that are not 0, as operations with one launch have
 * it. */
static double mean_over_names(const lk_host_terms *terms, int term) {
	double sum = 0;
	int names = 0;
	for (size_t i = 0; i < terms->of.count; i++) {
		double us = terms_mean_of(&terms->of.at[i], term);
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
	int t = term - 1;
	if (t < T1 || t > T5) return 0;
	terms_plain_name(t == T1 ? "" : name, plain, sizeof plain);
	double us = terms_mean_of(terms_find(terms, plain), t);
	return (isnan(us) ? mean_over_names(terms, t) : us) * 1e-6;
}
