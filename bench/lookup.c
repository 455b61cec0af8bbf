/* lookup.c: lookups of embedding tables on this processor: measured, predicted, and the sharding study.
 *
 *     lookup measure [SECONDS] > uniform.csv       tables of all sizes under uniform indices
 *     lookup fit uniform.csv [NAME] > lookups.csv  the numbers of the host's model: a row for --calibration
 *     lookup shapes [SEED [SECONDS]] > shapes.csv  random shapes under other laws, measured
 *     lookup score lookups.csv shapes.csv          predicted beside measured; errors by law and by size
 *     lookup folds all.csv                         each law, then each size, predicted by a fit of the others (files behind one another)
 *     lookup tasks lookups.csv RANKS FIRST LAST [SEED]   random sharding tasks: each rank's share measured alone
 *
 * Every time is the least of passes over all rows: two, and as many as begin in SECONDS; how one is measured: lookup_work.h.
 * Every second pass is kept apart: a row's two times tell how well they repeat. Files may be put behind one another; of
 * rows that were measured several times the least counts. Threads: OMP_NUM_THREADS.
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

enum { CASES = 150 };

static work_time measure(const work_shape *shape, work_core *core) {
	lookup_table t;
	work_make(shape, &t);
	work_time time = work_measure(&t, 1, core, NULL);
	work_free(&t);
	return time;
}

/* Uniform indices into tables of 16 KB to 400 MB, from which 0.2 to 50 MB of rows are read; of lengths that the check below
 * does not have, but for the shortest and the longest. */
static size_t make_cases(fit_case *out) {
	static const double widths[] = {4, 16, 20, 40, 64, 100, 160, 256, 400, 640, 1024};
	for (uint64_t i = 0; i < CASES; i++) {
		double dim = widths[i % (sizeof widths / sizeof *widths)], u[3];
		for (uint64_t k = 0; k < 3; k++) u[k] = lk_uniform(5, 3 * i + k);
		double rows = floor(fmax(16e3 * pow(25e3, u[0]) / (4 * dim), 16)), pooling = floor(pow(50, u[2]));
		double lookups = fmin(fmax(0.2e6 * pow(250, u[1]) / fmax(4 * dim, 64), 200), 600000);
		out[i].shape = (work_shape){rows, dim, ceil(lookups / pooling), pooling, &work_laws[0], 7 + i};
	}
	return CASES;
}

static const char header[] = "law,rows,dim,batch,pooling,seed,threads,forward_us,backward_us,forward_again_us,backward_again_us";

enum { PASSES = 64 };
typedef struct passes {
	double forward[2][PASSES], backward[2][PASSES];
} passes;

static void end_row(fit_case *c, passes *p, size_t done) {
	size_t first = (done + 1) / 2, second = done / 2;
	c->measured = (work_time){work_least(p->forward[0], first), work_least(p->backward[0], first)};
	c->again = (work_time){work_least(p->forward[1], second), work_least(p->backward[1], second)};
}

static void print_row(const fit_case *c) {
	const work_shape *s = &c->shape;
	printf("%s,%.0f,%.0f,%.0f,%.1f,%llu,%d,%.2f,%.2f,%.2f,%.2f\n", s->law->name, s->rows, s->dim, s->batch, s->pooling,
	       (unsigned long long)s->seed, omp_get_max_threads(), c->measured.forward_s * 1e6, c->measured.backward_s * 1e6,
	       c->again.forward_s * 1e6, c->again.backward_s * 1e6);
}

/* Passes over all rows, two at least, so that what disturbs a while disturbs no row for good. */
static int measure_rows(fit_case *cases, size_t count, double seconds) {
	passes *all = calloc(count, sizeof *all);
	size_t done = 0;
	if (!all) return 2;
	work_core core = work_core_new();
	for (double begin = work_now(); done < 2 || (done < 2 * PASSES && work_now() - begin < seconds); done++)
		for (size_t i = 0; i < count; i++) {
			work_time m = measure(&cases[i].shape, &core);
			all[i].forward[done % 2][done / 2] = m.forward_s, all[i].backward[done % 2][done / 2] = m.backward_s;
		}
	printf("# %zu passes; %.1f %% of slices always disturbed\n%s\n", done, 100.0 * (double)core.disturbed / (double)core.slices, header);
	for (size_t i = 0; i < count; i++) end_row(&cases[i], &all[i], done), print_row(&cases[i]);
	free(all);
	return 0;
}

static int measure_uniform(double seconds) {
	static fit_case cases[CASES];
	return measure_rows(cases, make_cases(cases), seconds);
}

static work_time least_of(work_time a, work_time b) {
	return (work_time){fmin(a.forward_s, b.forward_s), fmin(a.backward_s, b.backward_s)};
}

static bool parse_row(const char *line, fit_case *c, int *threads) {
	char law[64];
	unsigned long long seed;
	work_shape *s = &c->shape;
	work_time *m = &c->measured, *a = &c->again;
	*c = (fit_case){0};
	if (sscanf(line, "%63[^,],%lf,%lf,%lf,%lf,%llu,%d,%lf,%lf,%lf,%lf", law, &s->rows, &s->dim, &s->batch, &s->pooling, &seed, threads,
	           &m->forward_s, &m->backward_s, &a->forward_s, &a->backward_s) != 11) return false;
	for (int i = 0; i < work_law_count; i++)
		if (strcmp(law, work_laws[i].name) == 0) s->law = &work_laws[i];
	s->seed = seed;
	m->forward_s *= 1e-6, m->backward_s *= 1e-6, a->forward_s *= 1e-6, a->backward_s *= 1e-6;
	return s->law != NULL;
}

static bool same_shape(const work_shape *a, const work_shape *b) {
	return a->law == b->law && a->seed == b->seed && a->rows == b->rows && a->dim == b->dim && a->batch == b->batch && a->pooling == b->pooling;
}

/* Rows that print_row wrote; -1: not such a file. */
static int read_rows(const char *path, fit_case *out, int most, int *threads) {
	char line[512];
	FILE *in = fopen(path, "r");
	int count = 0;
	while (in && count < most && fgets(line, sizeof line, in)) {
		fit_case *c = &out[count];
		int k = 0;
		if (!parse_row(line, c, threads)) continue;
		while (k < count && !same_shape(&out[k].shape, &c->shape)) k++;
		if (k == count) count++;
		else out[k].measured = least_of(out[k].measured, c->measured), out[k].again = least_of(out[k].again, c->again);
	}
	if (!in || !count) fprintf(stderr, "lookup: %s: no measurements in it\n", path);
	if (in) fclose(in);
	return count;
}

static fit_case rows[1024];

static int fit(const char *path, const char *name) {
	lk_calibration out = {0};
	lk_host_lookup h;
	double error;
	int threads, count = read_rows(path, rows, 1024, &threads);
	lk_calibration_row *row = count > 0 ? lk_calibration_add(&out, "lookup", name, "") : NULL;
	if (!row || !lookup_fit(rows, (size_t)count, threads, &h, &error)) return 2;
	lk_host_lookup_put(&h, row);
	row->points = 2 * count, row->error = error, row->date = "", row->source = "bench/lookup";
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
	s.rows = floor(fmin(pow(10, 2.5 + 4.3 * u[1]), 400e6 / (4 * s.dim)));
	s.batch = floor(512 * pow(2, 4 * u[2]));
	s.pooling = floor(10 * pow(60, u[3])) / 10;
	double most = 100e6 / (4 * s.dim); /* lookups, for the time's sake */
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

static int measure_shapes(uint64_t seed, double seconds) {
	enum { SHAPES = 84 };
	static fit_case cases[SHAPES];
	for (uint64_t i = 0; i < SHAPES; i++) cases[i].shape = draw(seed, i);
	return measure_rows(cases, SHAPES, seconds);
}

static void score_row(const lk_host_lookup *h, const fit_case *c, errors *folds) {
	const work_shape *s = &c->shape;
	work_time p = lookup_predict(h, s), m = least_of(c->measured, c->again);
	double f = log(p.forward_s / m.forward_s), b = log(p.backward_s / m.backward_s);
	printf("%s,%.0f,%.0f,%.0f,%.1f,%.1f,%.1f,%+.1f%%,%.1f,%.1f,%+.1f%%\n", s->law->name, s->rows, s->dim, s->batch, s->pooling, m.forward_s * 1e6,
	       p.forward_s * 1e6, 100 * expm1(f), m.backward_s * 1e6, p.backward_s * 1e6, 100 * expm1(b));
	add_error(folds, "all", fabs(f), fabs(b));
	add_error(folds, "measured twice", fabs(log(c->measured.forward_s / c->again.forward_s)), fabs(log(c->measured.backward_s / c->again.backward_s)));
	add_error(folds, s->law->name, fabs(f), fabs(b)), add_error(folds, size_of(s), fabs(f), fabs(b));
	add_error(folds, s->dim < 64 ? "rows below 64" : s->dim < 256 ? "rows of 64 to 255" : "longer rows", fabs(f), fabs(b));
}

static void print_folds(const errors *e) {
	for (; e->name; e++)
		printf("%s,%d,%.1f%%,%.1f%%,%.1f%%\n", e->name, e->count, percent(e->forward, e->count), percent(e->backward, e->count),
		       percent(e->forward + e->backward, 2 * e->count));
}

static int score(const lk_host_lookup *h, const char *path) {
	errors folds[32] = {{0}};
	int threads, count = read_rows(path, rows, 1024, &threads);
	puts("law,rows,dim,batch,pooling,forward_us,predicted_us,forward_error,backward_us,predicted_us,backward_error");
	for (int i = 0; i < count; i++) score_row(h, &rows[i], folds);
	puts("\nfold,shapes,forward,backward,both");
	print_folds(folds);
	return count > 0 ? 0 : 2;
}

/* ---- folds ---- */

static const char *law_of(const work_shape *s) {
	return s->law->name;
}

/* Everything but one fold is fitted, that one is scored; then the next. */
static int leave_out(const char *(*fold_of)(const work_shape *), int count, int threads, errors *folds) {
	static fit_case kept[1024];
	const char *names[16];
	int found = 0;
	for (int i = 0; i < count; i++) {
		int k = 0;
		while (k < found && strcmp(names[k], fold_of(&rows[i].shape)) != 0) k++;
		if (k == found && found < 16) names[found++] = fold_of(&rows[i].shape);
	}
	for (int k = 0; k < found; k++) {
		lk_host_lookup h;
		double error;
		size_t used = 0;
		for (int i = 0; i < count; i++)
			if (strcmp(fold_of(&rows[i].shape), names[k]) != 0) kept[used++] = rows[i];
		if (!lookup_fit(kept, used, threads, &h, &error)) return 2;
		for (int i = 0; i < count; i++) {
			if (strcmp(fold_of(&rows[i].shape), names[k]) != 0) continue;
			work_time p = lookup_predict(&h, &rows[i].shape), m = least_of(rows[i].measured, rows[i].again);
			add_error(folds, names[k], fabs(log(p.forward_s / m.forward_s)), fabs(log(p.backward_s / m.backward_s)));
			add_error(folds, "all", fabs(log(p.forward_s / m.forward_s)), fabs(log(p.backward_s / m.backward_s)));
		}
	}
	return 0;
}

static int folds_of(const char *path) {
	errors laws[32] = {{0}}, parts[32] = {{0}};
	int threads, count = read_rows(path, rows, 1024, &threads);
	puts("left out of the fit,shapes,forward,backward,both");
	if (count <= 0 || leave_out(law_of, count, threads, laws) || leave_out(size_of, count, threads, parts)) return 2;
	print_folds(laws), print_folds(parts);
	return 0;
}

/* ---- the program ---- */

static int usage(void) {
	fputs("lookup: give measure, fit FILE [NAME], shapes [SEED], score FILE SHAPES, folds FILE, or tasks FILE RANKS FIRST LAST [SEED]\n", stderr);
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
	const char *mode = argc > 1 ? argv[1] : "";
	if (strcmp(mode, "measure") == 0) return measure_uniform(argc > 2 ? atof(argv[2]) : 0);
	if (strcmp(mode, "shapes") == 0) return measure_shapes(argc > 2 ? strtoull(argv[2], NULL, 10) : 1, argc > 3 ? atof(argv[3]) : 0);
	if (argc < 3) return usage();
	if (strcmp(mode, "fit") == 0) return fit(argv[2], argc > 3 ? argv[3] : "host-cpu");
	if (strcmp(mode, "folds") == 0) return folds_of(argv[2]);
	if (!read_host(argv[2], &h)) return 2;
	if (strcmp(mode, "score") == 0 && argc > 3) return score(&h, argv[3]);
	if (strcmp(mode, "tasks") == 0 && argc >= 6)
		return lookup_tasks(&h, atoi(argv[3]), atoi(argv[4]), atoi(argv[5]), argc > 6 ? strtoull(argv[6], NULL, 10) : 1);
	return usage();
}
