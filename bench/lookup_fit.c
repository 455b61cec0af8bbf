/* lookup_fit.c: fits the model of src/cost/kernel/embedding_host.c. Its times enter linearly: for
 * given sizes of the caches (eight numbers, found by a simplex) they are the non-negative least
 * squares of relative errors; what a time contributes to a case is the model's answer with that
 * time alone. A case that is far off counts less: somebody may have been there.
 */
#include "lookup_fit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/fit.h"

enum { SIZES = 8, TIMES = 40, ROUNDS = 400 };

static const lk_fit_number sizes[SIZES] = {
	{"near_bytes", 1e6, 2e5, 4e6, true},  {"last_bytes", 1e7, 2e6, 3e8, true},
	{"near_slope", 2, 0.5, 4, true},      {"last_slope", 3, 0.5, 5, true},
	{"step_share", 0.7, 0.2, 1.5, true},  {"sum_share", 0.5, 0.2, 1.5, true},
	{"span_bytes", 7e7, 1e7, 1e10, true}, {"guesses", 2e4, 1e3, 1e6, true}};

#define AT(field)     offsetof(lk_host_lookup, field)
#define WORK(field)   AT(field.row_s), AT(field.vector_s), AT(field.tail_s)
#define READ(field)   AT(field.row_s), AT(field.line_s), AT(field.rest_s)
#define BEYOND(field) AT(field[LK_HOST_LAST]), AT(field[LK_HOST_FAR])
static const size_t forward_times[] = {WORK(add),
                                       READ(row[LK_HOST_LAST]),
                                       READ(row[LK_HOST_FAR]),
                                       AT(row[LK_HOST_FAR].wait_s),
                                       BEYOND(torn_s),
                                       BEYOND(walk_s),
                                       AT(sample_s),
                                       AT(guess_s),
                                       AT(sum_line_s[LK_HOST_NEAR]),
                                       BEYOND(sum_line_s),
                                       AT(shared_s),
                                       AT(call_s)};
static const size_t backward_times[] = {WORK(gradient_add),
                                        WORK(change),
                                        READ(gradient[LK_HOST_LAST]),
                                        READ(gradient[LK_HOST_FAR]),
                                        AT(gradient[LK_HOST_FAR].wait_s),
                                        READ(update[LK_HOST_LAST]),
                                        AT(update[LK_HOST_FAR].wait_s),
                                        READ(update[LK_HOST_FAR]),
                                        BEYOND(state_s),
                                        BEYOND(update_walk_s),
                                        AT(update_shared_s),
                                        AT(pair_s),
                                        AT(pair_sample_s),
                                        AT(sort_s[LK_HOST_NEAR]),
                                        BEYOND(sort_s),
                                        AT(pass_s)};
enum {
	FORWARD = sizeof forward_times / sizeof *forward_times,
	BACKWARD = sizeof backward_times / sizeof *backward_times
};

/* A case, worked out as far as the sizes of caches do not enter; and with the sizes that are tried.
 */
struct known {
	lk_lookup lookup;
	lk_locality locality;
	lk_host_share share;
	lk_host_uses uses;
	lk_host_found found;
	double used;      /* 1, or 0: left out */
	double weight[2]; /* forward, backward */
};

struct fitting {
	const fit_case *cases;
	size_t count;
	struct known *known;       /* [count] */
	double *features, *wanted; /* [count * TIMES], [count] */
	lk_host_lookup h;
};

size_t lookup_step_end(const fit_case *cases, size_t count, size_t first) {
	size_t end = first;
	while (end < count && strcmp(cases[end].share, cases[first].share) == 0) end++;
	return end;
}

static void predict_step(const lk_host_lookup *lookup, const fit_case *cases, size_t count,
                         work_time *out) {
	lk_host_share share = {0};
	lk_locality room;
	for (size_t i = 0; i < count; i++) {
		lk_lookup l = work_lookup(&cases[i].shape, &room);
		lk_host_share_add(&share, &l);
	}
	for (size_t i = 0; i < count; i++) {
		lk_lookup l = work_lookup(&cases[i].shape, &room);
		out[i].forward_s = lk_host_lookup_seconds(lookup, &l, &share);
		l.backward = true;
		out[i].backward_s = lk_host_lookup_seconds(lookup, &l, &share);
	}
}

void lookup_predict(const lk_host_lookup *lookup, const fit_case *cases, size_t count,
                    work_time *out) {
	for (size_t i = 0, end; i < count; i = end) {
		end = lookup_step_end(cases, count, i);
		predict_step(lookup, &cases[i], end - i, &out[i]);
	}
}

static double *time_at(lk_host_lookup *lookup, size_t offset) {
	return (double *)(void *)((char *)lookup + offset);
}

static double answer(const lk_host_lookup *lookup, struct known *known, bool backward) {
	known->lookup.backward = backward;
	return lk_host_lookup_seconds_of(lookup, &known->lookup, &known->uses, &known->found);
}

static double measured(const fit_case *fitted, bool backward) {
	return backward ? fmin(fitted->measured.backward_s, fitted->again.backward_s)
	                : fmin(fitted->measured.forward_s, fitted->again.forward_s);
}

/* ---- non-negative least squares: coordinates in turn on the normal equations ---- */

static void solve(const double *features, const double *wanted, size_t rows, int count, double *x) {
	double square[TIMES][TIMES] = {{0}}, right[TIMES] = {0};
	for (size_t i = 0; i < rows; i++)
		for (int j = 0; j < count; j++) {
			right[j] += features[i * TIMES + (size_t)j] * wanted[i];
			for (int k = 0; k <= j; k++)
				square[j][k] += features[i * TIMES + (size_t)j] * features[i * TIMES + (size_t)k];
		}
	for (int j = 0; j < count; j++)
		square[j][j] *= 1.0003; /* of two times that no case tells apart, neither is taken alone */
	memset(x, 0, (size_t)count * sizeof *x);
	for (int round = 0; round < ROUNDS; round++)
		for (int j = 0; j < count; j++) {
			double rest = right[j];
			for (int k = 0; k < count; k++)
				rest -= k < j ? square[j][k] * x[k] : k > j ? square[k][j] * x[k] : 0;
			x[j] = square[j][j] > 0 ? fmax(rest / square[j][j], 0) : 0;
		}
}

/* The times of a direction, with everything else of f->h as it is; returns the weighed mean square
 * of relative errors. */
static double fit_times(struct fitting *fitting, const size_t *times, int count, bool backward) {
	double x[TIMES], sum = 0, *wanted = fitting->wanted;
	lk_host_lookup h = fitting->h;
	for (int j = 0; j < count; j++) *time_at(&h, times[j]) = 0;
	for (size_t i = 0; i < fitting->count; i++) {
		struct known *known = &fitting->known[i];
		double m = measured(&fitting->cases[i], backward), base = answer(&h, known, backward),
			   weight = sqrt(known->weight[backward]);
		wanted[i] = weight * (1 - base / m);
		for (int j = 0; j < count; j++) {
			*time_at(&h, times[j]) = 1e-9;
			fitting->features[i * TIMES + (size_t)j] =
				weight * (answer(&h, known, backward) - base) / m;
			*time_at(&h, times[j]) = 0;
		}
	}
	solve(fitting->features, wanted, fitting->count, count, x);
	for (int j = 0; j < count; j++) *time_at(&fitting->h, times[j]) = x[j] * 1e-9;
	for (size_t i = 0; i < fitting->count; i++) {
		double miss = log(answer(&fitting->h, &fitting->known[i], backward) /
		                  measured(&fitting->cases[i], backward));
		sum += fitting->known[i].weight[backward] * miss * miss;
	}
	return sum / (double)fitting->count;
}

static double with_sizes(const double *x, void *context) {
	struct fitting *fitting = context;
	fitting->h.near_bytes = x[0];
	fitting->h.last_bytes = x[1];
	fitting->h.near_slope = x[2];
	fitting->h.last_slope = x[3];
	fitting->h.step_share = x[4];
	fitting->h.sum_share = x[5];
	fitting->h.span_bytes = x[6];
	fitting->h.guesses = x[7];
	for (size_t i = 0; i < fitting->count; i++)
		lk_host_lookup_find(&fitting->h, &fitting->known[i].lookup, &fitting->known[i].uses,
		                    &fitting->known[i].share, &fitting->known[i].found);
	return fit_times(fitting, forward_times, FORWARD, false) +
	       fit_times(fitting, backward_times, BACKWARD, true);
}

static double miss_of(struct fitting *fitting, size_t i, bool backward) {
	return fabs(log(answer(&fitting->h, &fitting->known[i], backward) /
	                measured(&fitting->cases[i], backward)));
}

/* As errors far above the usual ones count less in a fit of the mean absolute error. */
static void weigh(struct fitting *fitting) {
	for (size_t i = 0; i < fitting->count; i++)
		for (int b = 0; b < 2; b++)
			fitting->known[i].weight[b] =
				fitting->known[i].used * 0.05 / fmax(miss_of(fitting, i, b), 0.05);
}

static void begin(struct fitting *fitting, const bool *kept) {
	for (size_t i = 0; i < fitting->count; i++) {
		struct known *known = &fitting->known[i];
		known->lookup = work_lookup(&fitting->cases[i].shape, &known->locality);
		known->lookup.locality = &known->locality;
		known->weight[0] = known->weight[1] = known->used = !kept || kept[i];
		lk_host_lookup_uses(&known->lookup, fitting->h.threads, &known->uses);
	}
	for (size_t i = 0, end; i < fitting->count; i = end) {
		lk_host_share share = {0};
		end = lookup_step_end(fitting->cases, fitting->count, i);
		for (size_t k = i; k < end; k++) lk_host_share_add(&share, &fitting->known[k].lookup);
		for (size_t k = i; k < end; k++) fitting->known[k].share = share;
	}
}

int lookup_fit(const fit_case *cases, const bool *kept, size_t count, int threads,
               lk_host_lookup *out, double *error) {
	struct fitting f = {cases,
	                    count,
	                    calloc(count, sizeof *f.known),
	                    malloc(count * TIMES * sizeof(double)),
	                    malloc(count * sizeof(double)),
	                    {.threads = threads}};
	double x[LK_FIT_NUMBERS], sum = 0, used = 0;
	lk_fit_number from[SIZES];
	memcpy(from, sizes, sizeof from);
	if (!f.features || !f.known || !f.wanted)
		return free(f.features), free(f.known), free(f.wanted), 0;
	begin(&f, kept);
	for (int round = 0; round < 3; round++) {
		lk_fit_simplex(from, SIZES, 200, with_sizes, &f, x, NULL);
		with_sizes(x, &f);
		for (int i = 0; i < SIZES; i++) from[i].start = x[i];
		weigh(&f);
	}
	for (size_t i = 0; i < count; i++) {
		sum += f.known[i].used * (miss_of(&f, i, false) + miss_of(&f, i, true));
		used += f.known[i].used;
	}
	*error = exp(sum / (2 * fmax(used, 1))) - 1;
	*out = f.h;
	free(f.features);
	free(f.known);
	free(f.wanted);
	return 1;
}
