/* arrivals.c: when the requests of a service arrive: by a law with a given rate, or as a file says,
 * with the tokens of each. */
#include "rollout/rollout.h"

#include <math.h>
#include <string.h>

#include "base/stats.h"
#include "base/text.h"
#include "io/csv.h"

static const struct {
	const char *name;
	double spread; /* of gaps, deviation over mean; NAN: it is given */
} laws[] = {{"even", 0}, {"poisson", 1}, {"gamma", NAN}};
enum { LAWS = sizeof laws / sizeof *laws };

static lk_status fail_of_law(const char *text, lk_error *err) {
	char shown[64];
	lk_fail(err, LK_ERR_INPUT, "--arrivals", "'%s' is no rate of requests",
	        lk_escape(text, shown, sizeof shown));
	return lk_hint(err, "give requests a second as poisson:12, even:12 or gamma:12:2.5 (deviation "
	                    "of the gaps over their mean), or a file");
}

static int law_of(const char *text) {
	for (int i = 0; i < LAWS; i++) {
		size_t length = strlen(laws[i].name);
		if (strncmp(text, laws[i].name, length) == 0 && text[length] == ':') return i;
	}
	return -1;
}

bool lk_arrivals_named(const char *text) {
	return law_of(text) >= 0;
}

lk_status lk_arrivals_parse(const char *text, lk_arrival_law *out, lk_error *err) {
	int law = law_of(text);
	const char *end;
	if (law < 0) return fail_of_law(text, err);
	const char *rate = strchr(text, ':') + 1;
	out->rate = lk_read_real(rate, &end);
	out->spread = laws[law].spread;
	if (end == rate || !(out->rate >= 1e-6 && out->rate <= 1e6)) return fail_of_law(text, err);
	if (isnan(out->spread)) {
		if (*end != ':') return fail_of_law(text, err);
		const char *spread = end + 1;
		out->spread = lk_read_real(spread, &end);
		if (end == spread || !(out->spread >= 0.01 && out->spread <= 100))
			return fail_of_law(text, err);
	}
	return *end ? fail_of_law(text, err) : LK_OK;
}

/* A draw of the gamma law with scale 1 (Marsaglia and Tsang, ACM Transactions on Mathematical
 * Software 26, 2000); below shape 1, one of shape + 1 times a power of a uniform draw. Each draw of
 * a seed has numbers of its own: `which` times DRAWS, which one in 1e30 would use up. */
static double gamma_draw(double shape, uint64_t seed, uint64_t which) {
	enum { DRAWS = 256 };
	double raised = shape < 1 ? shape + 1 : shape, d = raised - 1.0 / 3, c = 1 / sqrt(9 * d);
	double boost = shape < 1 ? pow(lk_uniform(seed, which * DRAWS), 1 / shape) : 1;
	for (uint64_t draw = 1; draw + 1 < DRAWS; draw += 2) {
		double x = lk_normal(seed, which * DRAWS + draw), v = 1 + c * x;
		if (v <= 0) continue;
		v = v * v * v;
		double accept = 0.5 * x * x + d - d * v + d * log(v);
		if (log(lk_uniform(seed, which * DRAWS + draw + 1)) < accept) return boost * d * v;
	}
	return boost * d;
}

void lk_arrivals_spread(const lk_arrival_law *law, uint64_t seed, size_t count, double *out) {
	double sum = 0, shape = 1 / (law->spread * law->spread);
	for (size_t i = 0; i < count; i++) {
		out[i] = sum;
		sum += law->spread > 0 ? gamma_draw(shape, seed, i) : 1;
	}
	for (size_t i = 0; i < count; i++) out[i] *= (double)count / law->rate / sum;
}

/* ---- requests of a file ---- */

struct request_rows {
	LK_VEC(lk_sequence) rows;
};

enum { ARRIVAL, PROMPT, OUTPUT, REQUEST_COLUMNS };
static const char *const request_columns[] = {"arrival_s", "prompt_tokens", "output_tokens"};

static lk_status take_row(void *context, const lk_csv *csv, const int *at, lk_error *err) {
	struct request_rows *into = context;
	lk_sequence row = {.group = (uint32_t)into->rows.count};
	char place[LK_CSV_PLACE];
	LK_TRY(lk_csv_real(csv, at[ARRIVAL], 0, 1e9, &row.arrival_s, err));
	LK_TRY(lk_csv_real(csv, at[PROMPT], 1, 1e7, &row.prompt, err));
	LK_TRY(lk_csv_real(csv, at[OUTPUT], 1, 1e7, &row.response, err));
	if (isnan(row.arrival_s + row.prompt + row.response)) {
		lk_fail(err, LK_ERR_INPUT, lk_csv_place(csv, "request", place), "a number is missing");
		return lk_hint(err, "give each request its %s, %s and %s", request_columns[ARRIVAL],
		               request_columns[PROMPT], request_columns[OUTPUT]);
	}
	if (into->rows.count && row.arrival_s < lk_last(&into->rows)->arrival_s) {
		lk_fail(err, LK_ERR_INPUT, lk_csv_place(csv, request_columns[ARRIVAL], place),
		        "it arrives before the request above it");
		return lk_hint(err, "sort the file by time");
	}
	if (!lk_push(&into->rows)) return lk_oom(err);
	*lk_last(&into->rows) = row;
	return LK_OK;
}

lk_status lk_arrivals_read(lk_arena *arena, const char *path, lk_sequence **out, size_t *count,
                           lk_error *err) {
	static const lk_csv_table table = {request_columns,
	                                   REQUEST_COLUMNS,
	                                   REQUEST_COLUMNS,
	                                   "list of requests",
	                                   10000000,
	                                   take_row,
	                                   NULL};
	struct request_rows into = {0};
	lk_stream *in;
	LK_TRY(lk_stream_open(path, &in, err));
	lk_status status = lk_csv_read(in, &table, &into, err);
	lk_stream_close(in);
	if (status == LK_OK && into.rows.count == 0) {
		lk_fail(err, LK_ERR_INPUT, path, "it holds no request");
		status = lk_hint(err, "write one a line: arrival_s,prompt_tokens,output_tokens");
	}
	*count = into.rows.count;
	*out = status == LK_OK ? LK_ARRAY(arena, lk_sequence, *count) : NULL;
	for (size_t i = 0; *out && i < *count; i++) {
		(*out)[i] = into.rows.at[i];
		(*out)[i].arrival_s -= into.rows.at[0].arrival_s;
	}
	lk_vec_free(&into.rows);
	return status == LK_OK && !*out ? lk_oom(err) : status;
}
