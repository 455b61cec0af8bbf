/* overheads.c: observations of host time by term and name, their means, and the robust levels of
 * terms. */
#include "trace/lift/lift.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/arena.h"
#include "io/csv.h"
#include "io/form.h"
#include "base/intern.h"
#include "base/stats.h"
#include "base/text.h"
#include "base/vec.h"

enum { TERMS = 5, MOST_NAMES = 1 << 22, ROWS = 1 << 24 };

/* Observations of one term of one name: single ones, and means from a table. */
struct entry {
	LK_VEC(float) seen;
	double sum, weight; /* of the table's means */
	double mean;        /* over both; valid unless `stale` */
	bool level;         /* over names: without outliers */
	bool stale;
	const char *launches;
};

struct lk_overheads {
	lk_intern *names;
	LK_VEC(struct entry) entries[TERMS]; /* by name */
	struct entry all[TERMS];             /* over names */
	lk_arena arena;
};

lk_overheads *lk_overheads_new(void) {
	lk_overheads *overheads = calloc(1, sizeof *overheads);
	if (overheads && !(overheads->names = lk_intern_new())) {
		free(overheads);
		return NULL;
	}
	for (int t = 0; overheads && t < TERMS; t++) overheads->all[t].level = true;
	return overheads;
}

void lk_overheads_free(lk_overheads *overheads) {
	if (!overheads) return;
	for (int t = 0; t < TERMS; t++) {
		for (size_t i = 0; i < overheads->entries[t].count; i++)
			lk_vec_free(&overheads->entries[t].at[i].seen);
		lk_vec_free(&overheads->entries[t]);
		lk_vec_free(&overheads->all[t].seen);
	}
	lk_intern_free(overheads->names);
	lk_arena_free(&overheads->arena);
	free(overheads);
}

/* The entry of a name, created if missing; NULL when memory runs out. */
static struct entry *entry_of(lk_overheads *overheads, int term, const char *name) {
	uint32_t id = lk_intern_id(overheads->names, name);
	if (id >= MOST_NAMES) return NULL;
	while (overheads->entries[term - 1].count <= id)
		if (!lk_push(&overheads->entries[term - 1])) return NULL;
	return &overheads->entries[term - 1].at[id];
}

static bool overheads_observe(struct entry *entry, double us) {
	if (!lk_push(&entry->seen)) return false;
	*lk_last(&entry->seen) = (float)us;
	entry->stale = true;
	return true;
}

lk_status lk_overheads_add(lk_overheads *overheads, int term, const char *name, double us,
                           lk_error *err) {
	struct entry *entry = entry_of(overheads, term, name);
	if (!(us > 0)) us = 0; /* a correction may have gone too far */
	return entry && overheads_observe(entry, us) && overheads_observe(&overheads->all[term - 1], us)
	           ? LK_OK
	           : lk_oom(err);
}

/* ---- means ---- */

/* Sum for the mean within 1.5 interquartile ranges of the quartiles; its weight counts all
 * observations. */
static void robust(const struct entry *entry, double *sum, double *weight) {
	size_t n = entry->seen.count;
	double *x = n ? malloc(n * sizeof *x) : NULL;
	if (!x) return;
	for (size_t i = 0; i < n; i++) x[i] = (double)entry->seen.at[i];
	double low = lk_quantile(x, n, 0.25), high = lk_quantile(x, n, 0.75),
		   range = 1.5 * (high - low), inside = 0, kept = 0;
	for (size_t i = 0; i < n; i++)
		if (x[i] >= low - range && x[i] <= high + range) {
			inside += x[i];
			kept++;
		}
	free(x);
	*sum += kept > 0 ? inside / kept * (double)n : 0;
	*weight += (double)n;
}

/* Computed when first needed, then kept. */
static double overheads_mean_of(struct entry *entry) {
	if (!entry->stale) return entry->weight > 0 || entry->seen.count ? entry->mean : NAN;
	double sum = entry->sum, weight = entry->weight;
	if (entry->level) robust(entry, &sum, &weight);
	else
		for (size_t i = 0; i < entry->seen.count; i++, weight++) sum += (double)entry->seen.at[i];
	entry->mean = weight > 0 ? sum / weight : NAN;
	entry->stale = false;
	return entry->mean;
}

double lk_overheads_level(const lk_overheads *overheads, int term) {
	return overheads_mean_of((struct entry *)&overheads->all[term - 1]);
}

double lk_overheads_mean(const lk_overheads *overheads, int term, const char *name, bool *known) {
	uint32_t id = lk_intern_find(overheads->names, name);
	if (id < overheads->entries[term - 1].count) {
		struct entry *entry = &overheads->entries[term - 1].at[id];
		if (known) *known = entry->weight > 0 || entry->seen.count > 0;
		if (entry->weight > 0 || entry->seen.count > 0) return overheads_mean_of(entry);
	}
	if (known) *known = false;
	return lk_overheads_level(overheads, term);
}

/* ---- files ---- */

static lk_status keep_launches(lk_overheads *overheads, struct entry *entry, const char *launches,
                               lk_error *err) {
	/* Keep the longest list seen: an operation may stop early. */
	if (!*launches || (entry->launches && strlen(entry->launches) >= strlen(launches)))
		return LK_OK;
	entry->launches = lk_arena_strdup(&overheads->arena, launches);
	return entry->launches ? LK_OK : lk_oom(err);
}

lk_status lk_overheads_add_calls(lk_overheads *overheads, const char *name, const char *calls,
                                 lk_error *err) {
	struct entry *entry = entry_of(overheads, LK_T2, name);
	return entry ? keep_launches(overheads, entry, calls, err) : lk_oom(err);
}

const char *lk_overheads_calls(const lk_overheads *overheads, const char *name) {
	uint32_t id = lk_intern_find(overheads->names, name);
	return id < overheads->entries[LK_T2 - 1].count ? overheads->entries[LK_T2 - 1].at[id].launches
	                                                : NULL;
}

static lk_status overheads_read_row(void *context, const lk_csv *csv, const int *at,
                                    lk_error *err) {
	lk_overheads *overheads = context;
	const char *type = lk_csv_field(csv, at[0]), *where = lk_csv_where(csv);
	if ((type[0] != 't' && type[0] != 'T') || type[1] < '1' || type[1] > '5' || type[2]) {
		lk_fail(err, LK_ERR_INPUT, where, "column type: \"%.20s\" is not one of t1 to t5", type);
		return LK_ERR_INPUT;
	}
	int term = type[1] - '0';
	double us, count = 1;
	LK_TRY(lk_parse_real(lk_csv_field(csv, at[2]), 0, 1e9, &us, where, err));
	if (*lk_csv_field(csv, at[3]))
		LK_TRY(lk_parse_real(lk_csv_field(csv, at[3]), 0, 1e15, &count, where, err));
	struct entry *entry = entry_of(overheads, term, lk_csv_field(csv, at[1])),
				 *all = &overheads->all[term - 1];
	if (!entry) return lk_oom(err);
	entry->sum += us * count;
	entry->weight += count;
	entry->stale = true;
	all->sum += us * count;
	all->weight += count;
	all->stale = true;
	return keep_launches(overheads, entry, lk_csv_field(csv, at[4]), err);
}

lk_status lk_overheads_read(const char *path, lk_overheads **out, lk_error *err) {
	static const char *const columns[] = {"type", "name", "mean_us", "count", "launches"};
	static const lk_csv_table table = {
		columns, 5, 3, "table of host overheads", ROWS, overheads_read_row, NULL};
	lk_stream *in;
	LK_TRY(lk_stream_open(path, &in, err));
	lk_overheads *overheads = lk_overheads_new();
	lk_status status = overheads ? lk_csv_read(in, &table, overheads, err) : lk_oom(err);
	lk_stream_close(in);
	if (status != LK_OK) lk_overheads_free(overheads);
	else *out = overheads;
	return status;
}

static void overheads_put_name(lk_sink *out, const char *name) {
	lk_sink_printf(out, "\"");
	for (; *name; name++) lk_sink_printf(out, *name == '"' ? "\"\"" : "%c", *name);
	lk_sink_printf(out, "\"");
}

lk_status lk_overheads_write(const lk_overheads *overheads, const char *path, lk_error *err) {
	lk_sink *out;
	char form[64];
	LK_TRY(lk_sink_open(path, &out, err));
	lk_sink_printf(out,
	               "%s: T1 between operations, T2 before the first launch, T3 after the last, T4 a "
	               "launch, T5 between\n"
	               "type,name,mean_us,count,launches\n",
	               lk_form_line(LK_FORM_OVERHEADS, form, sizeof form));
	for (int t = 1; t <= TERMS; t++) {
		for (uint32_t id = 0; id < overheads->entries[t - 1].count; id++) {
			const struct entry *entry = &overheads->entries[t - 1].at[id];
			double weight = entry->weight + (double)entry->seen.count;
			if (!(weight > 0)) continue;
			lk_sink_printf(out, "t%d,", t);
			overheads_put_name(out, lk_intern_text(overheads->names, id));
			lk_sink_printf(
				out, ",%.6g,%.0f,%s\n",
				lk_overheads_mean(overheads, t, lk_intern_text(overheads->names, id), NULL), weight,
				entry->launches ? entry->launches : "");
		}
	}
	return lk_sink_commit(out, err);
}
