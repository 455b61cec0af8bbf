/* lookup.c: lookups of embedding tables on this processor: measured, predicted, and the sharding study.
 *
 *     lookup calibrate [NAME] > lookups.csv     numbers of the host's model, a row for --calibration; from uniform indices
 *     lookup check lookups.csv [SEED]           random shapes under other laws: predicted beside measured, error by law and size
 *     lookup tasks lookups.csv RANKS FIRST LAST [SEED]   random sharding tasks: each rank's share measured alone
 *
 * Everything is the least of five. Threads: OMP_NUM_THREADS.
 */
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/stats.h"
#include "lookup_fit.h"
#include "lookup_tasks.h"

/* ---- calibrate ---- */

static const double dims[] = {4, 16, 64, 256, 1024};
static const double sets[] = {64e3, 512e3, 1.5e6, 4e6, 16e6, 64e6, 256e6, 1e9};
static const double poolings[] = {2, 20};
enum { DIMS = sizeof dims / sizeof *dims, SETS = sizeof sets / sizeof *sets, CASES = 2 * DIMS * SETS * 2 };

static work_time measure(const work_shape *shape) {
	lookup_table t;
	work_make(shape, &t);
	work_time time = work_measure(&t, 1);
	work_free(&t);
	return time;
}

/* A batch of as many bytes of rows as a small and a large table's share of a step. */
static size_t make_cases(fit_case *out) {
	static const double reads[] = {12e6, 160e6};
	size_t count = 0;
	for (int d = 0; d < DIMS; d++)
		for (int s = 0; s < SETS; s++)
			for (int p = 0; p < 2; p++)
				for (int r = 0; r < 2; r++) {
					double rows = floor(sets[s] / (4 * dims[d])), lookups = fmin(fmax(reads[r] / fmax(4 * dims[d], 64), 5000), 600000);
					if (rows < 32 || (r && (s < 4 || p == 0))) continue;
					out[count++].shape = (work_shape){rows, dims[d], floor(lookups / poolings[p]), poolings[p], &work_laws[0], 7 + count};
				}
	return count;
}

static int calibrate(const char *name) {
	static fit_case cases[CASES];
	size_t count = make_cases(cases);
	lk_calibration out = {0};
	double error;
	work_shape nothing = {64, 4, omp_get_max_threads(), 1, &work_laws[0], 1};
	double call_s = measure(&nothing).forward_s;
	for (size_t i = 0; i < count; i++) {
		cases[i].measured = measure(&cases[i].shape);
		fprintf(stderr, "\r%zu of %zu", i + 1, count);
	}
	fputs("\rfitting       \r", stderr);
	lk_host_lookup h = lookup_fit(cases, count, call_s, omp_get_max_threads(), &error);
	lk_calibration_row *row = lk_calibration_add(&out, "lookup", name, "");
	if (!row) return 2;
	lk_host_lookup_put(&h, row);
	row->points = 2 * (int)count, row->error = error, row->date = "", row->source = "bench/lookup calibrate";
	lk_calibration_write(&out, stdout);
	lk_calibration_free(&out);
	return 0;
}

/* ---- check ---- */

/* Of any law, and of sizes that no calibration case has. */
static work_shape draw(uint64_t seed, uint64_t i) {
	static const double widths[] = {4, 8, 12, 24, 32, 48, 96, 128, 192, 384, 512, 768, 1024};
	double u[5];
	for (int k = 0; k < 5; k++) u[k] = lk_uniform(seed, 5 * i + (uint64_t)k);
	work_shape s = {.law = &work_laws[i % (uint64_t)work_law_count], .seed = lk_hash64(seed + i)};
	s.dim = widths[(int)(u[0] * sizeof widths / sizeof *widths)];
	s.rows = floor(fmin(pow(10, 2.5 + 4.3 * u[1]), 1.2e9 / (4 * s.dim)));
	s.batch = floor(512 * pow(2, 4 * u[2]));
	s.pooling = floor(10 * pow(60, u[3])) / 10;
	double most = 300e6 / (4 * s.dim); /* lookups, for the time's sake */
	s.pooling = fmax(fmin(s.pooling, floor(10 * most / s.batch) / 10), 0.5);
	return s;
}

static const char *size_of(const work_shape *s) {
	double bytes = s->rows * s->dim * 4;
	return bytes < 2e6 ? "tables up to 2 MB" : bytes < 64e6 ? "2 to 64 MB" : "larger tables";
}

typedef struct errors {
	const char *name;
	double forward, backward;
	int count;
} errors;

static void add_error(errors *list, const char *name, double forward, double backward) {
	while (list->name && strcmp(list->name, name) != 0) list++;
	list->name = name, list->forward += forward, list->backward += backward, list->count++;
}

static double percent(double sum, int count) {
	return 100 * expm1(sum / count);
}

static int check(const lk_host_lookup *h, uint64_t seed) {
	enum { SHAPES = 84 };
	errors folds[32] = {{0}};
	printf("law,rows,dim,batch,pooling,forward_us,predicted_us,forward_error,backward_us,predicted_us,backward_error\n");
	for (uint64_t i = 0; i < SHAPES; i++) {
		work_shape s = draw(seed, i);
		work_time m = measure(&s), p = lookup_predict(h, &s);
		double f = log(p.forward_s / m.forward_s), b = log(p.backward_s / m.backward_s);
		printf("%s,%.0f,%.0f,%.0f,%.1f,%.1f,%.1f,%+.1f%%,%.1f,%.1f,%+.1f%%\n", s.law->name, s.rows, s.dim, s.batch, s.pooling, m.forward_s * 1e6,
		       p.forward_s * 1e6, 100 * expm1(f), m.backward_s * 1e6, p.backward_s * 1e6, 100 * expm1(b));
		add_error(folds, s.law->name, fabs(f), fabs(b)), add_error(folds, size_of(&s), fabs(f), fabs(b));
		add_error(folds, s.dim < 64 ? "rows below 64" : s.dim < 256 ? "rows of 64 to 255" : "longer rows", fabs(f), fabs(b));
		add_error(folds, "all", fabs(f), fabs(b));
	}
	printf("\nfold,shapes,forward,backward,both\n");
	for (const errors *e = folds; e->name; e++)
		printf("%s,%d,%.1f%%,%.1f%%,%.1f%%\n", e->name, e->count, percent(e->forward, e->count), percent(e->backward, e->count),
		       percent(e->forward + e->backward, 2 * e->count));
	return 0;
}

/* ---- the program ---- */

static int usage(void) {
	fputs("lookup: give calibrate [NAME], check FILE [SEED], or tasks FILE RANKS FIRST LAST [SEED]\n", stderr);
	return 2;
}

static int read_host(const char *path, lk_host_lookup *out) {
	lk_error err;
	char line[1024];
	if (lk_calibration_use(path, &err) != LK_OK) return fprintf(stderr, "lookup: %s\n", lk_error_text(&err, line, sizeof line)), 0;
	const lk_calibration *c = lk_calibration_current();
	for (size_t i = c->rows.count; i-- > 0;)
		if (strcmp(c->rows.at[i].family, "lookup") == 0 && lk_host_lookup_of(&c->rows.at[i], out)) return 1;
	return fprintf(stderr, "lookup: %s: there is no row of the family lookup\n", path), 0;
}

int main(int argc, char **argv) {
	lk_host_lookup h;
	if (argc >= 2 && strcmp(argv[1], "calibrate") == 0) return calibrate(argc > 2 ? argv[2] : "host-cpu");
	if (argc < 3 || !read_host(argv[2], &h)) return usage();
	if (strcmp(argv[1], "check") == 0) return check(&h, argc > 3 ? strtoull(argv[3], NULL, 10) : 1);
	if (strcmp(argv[1], "tasks") == 0 && argc >= 6)
		return lookup_tasks(&h, atoi(argv[3]), atoi(argv[4]), atoi(argv[5]), argc > 6 ? strtoull(argv[6], NULL, 10) : 1);
	return usage();
}
